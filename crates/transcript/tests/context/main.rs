//! Tests the contexts of the real readers, and the deliberate differences to ours.
//!
//! That release wrote `fixtures/context/<reader>/<session>.jsonl`, and the `.json` beside it is its
//! own result: the leaf, the ids of the path, thinking level, model and messages, as its session
//! manager builds them before it pairs tool calls. Pairing changes none of them.

#![expect(clippy::unwrap_used, reason = "a fixture that cannot be read fails the test")]

mod accepted;
mod claude;
mod layout;
mod limits;
mod pairs;
mod rules;

use std::fs;
use std::path::{Path, PathBuf};

use quipu_transcript::context::{self, At, Context, Reader, pairing};
use serde_json::Value;

fn fixtures(reader: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/context").join(reader);
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    files.sort();
    assert!(files.len() >= 4, "{reader}: {files:?}");
    files
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn build(rules: Reader, text: &str, at: At<'_>) -> Context {
    let lines: Vec<&str> = text.lines().collect();
    context::of_lines(rules, &lines, at).unwrap()
}

fn value(context: &Context) -> Value {
    serde_json::to_value(context).unwrap()
}

fn messages(context: &Context) -> Vec<Value> {
    context.messages.iter().map(|message| serde_json::from_str(message.json()).unwrap()).collect()
}

/// Compares field by field, so that a failure names the field.
#[track_caller]
fn same(name: &str, ours: &Value, theirs: &Value) {
    for field in ["leaf", "model", "thinkingLevel"] {
        assert_eq!(ours[field], theirs[field], "{name}: {field}");
    }
    let (ours, theirs) =
        (ours["messages"].as_array().unwrap(), theirs["messages"].as_array().unwrap());
    for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert_eq!(ours, theirs, "{name}: message {index}");
    }
    assert_eq!(ours.len(), theirs.len(), "{name}: messages");
}

fn golden(reader: &str, rules: Reader) {
    for path in fixtures(reader) {
        let name = format!("{reader}/{}", path.file_stem().unwrap().to_string_lossy());
        let theirs: Value = serde_json::from_str(&read(&path.with_extension("json"))).unwrap();
        let text = read(&path);
        let ours = build(rules, &text, At::Leaf);
        same(&name, &value(&ours), &theirs);
        // Naming the leaf gives the same result.
        let leaf = theirs["leaf"].as_str().unwrap();
        same(&name, &value(&build(rules, &text, At::Entry(leaf))), &theirs);
        let before = messages(&ours);
        let (paired, repairs) = pairing::pair(ours.messages);
        assert_eq!(repairs, pairing::Repairs::default(), "{name}");
        let paired: Vec<Value> =
            paired.iter().map(|message| serde_json::from_str(message.json()).unwrap()).collect();
        assert_eq!(paired, before, "{name}: pairing");
    }
}

#[test]
fn golden_openclaw() {
    golden("oc71", Reader::OPENCLAW);
}

#[test]
fn golden_pi() {
    golden("pi73", Reader::PI);
    golden("pi87", Reader::PI);
}

#[test]
fn golden_both_readers_agree_on_the_files_of_both_programs() {
    golden("pi73", Reader::OPENCLAW);
    golden("pi87", Reader::OPENCLAW);
    golden("oc71", Reader::PI);
}

#[test]
fn messages_are_as_they_are_written() {
    for path in fixtures("pi87") {
        let text = read(&path);
        for message in build(Reader::PI, &text, At::Leaf).messages {
            let role = serde_json::from_str::<Value>(message.json()).unwrap()["role"].clone();
            if ["user", "assistant", "toolResult"].map(Value::from).contains(&role) {
                assert!(text.contains(message.json()), "{}", message.json());
            }
        }
    }
}
