//! Tests sessions laid out in files: every reader of the last file sees the session's own context.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use quipu_transcript::context::{self, At, Context, Head, Reader, Session, Writer};
use serde_json::{Value, json};

use super::{build, fixtures, messages, read, value};

/// Returns the files of a session, oldest first.
fn lay(text: &str) -> Vec<String> {
    let mut session = Session::new(Reader::OPENCLAW);
    let lines: Vec<&str> = text.lines().collect();
    lines.iter().for_each(|line| session.push(line));
    let wanted = session.layout_wants().into_iter();
    let texts: HashMap<usize, String> = wanted.map(|line| (line, lines[line].to_owned())).collect();
    let layout = session.layout(&texts);
    let time = "2026-01-01T00:00:09.000Z";
    let head = Head { id: "s", time, parent: None, own: None, continues_previous: false };
    let header = layout.header.map(|line| lines[line]);
    layout
        .files
        .iter()
        .map(|file| {
            let mut writer = Writer::new(&layout, time);
            let mut text = writer.header(header, &head);
            for laid in &file.entries {
                let line = laid.line.map(|line| lines[line]).unwrap_or_default();
                text.push_str(&writer.entry(laid, line));
            }
            text
        })
        .collect()
}

/// Returns the last of the files.
fn live(text: &str) -> String {
    lay(text).pop().unwrap()
}

/// Returns the lines that a release without some types sees.
fn without(text: &str, types: &[&str]) -> String {
    types.iter().fold(text.to_owned(), |text, name| {
        text.replace(&format!("\"type\":\"{name}\""), &format!("\"type\":\"new_{name}\""))
    })
}

/// Returns the context of each reader: quipu and OpenClaw 2026.9.6, OpenClaw 2026.7.1, pi 0.87.
fn readers(text: &str) -> [(&'static str, Context); 3] {
    let old = without(text, &["reset", "usage", "context_edit"]);
    let pi = without(text, &["reset", "leaf"]);
    [
        ("ours", build(Reader::OPENCLAW, text, At::Leaf)),
        ("7.1", build(Reader::OPENCLAW, &old, At::Leaf)),
        ("pi", build(Reader::PI, &pi, At::Leaf)),
    ]
}

/// Checks that all readers agree, and that written lines stay unchanged.
#[track_caller]
fn check(text: &str) {
    agree(text);
    let written = live(text);
    assert_eq!(live(&written), written, "written again");
}

/// Checks that all readers see the session's own context, and that all ids differ.
#[track_caller]
fn agree(text: &str) {
    let wanted = build(Reader::OPENCLAW, text, At::Leaf);
    let written = live(text);
    let mut ids = HashSet::new();
    for line in written.lines().skip(1) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(ids.insert(line["id"].as_str().unwrap().to_owned()), "{line} twice in\n{written}");
        assert!(line.get("parentId").is_some(), "{line}");
    }
    for (who, seen) in readers(&written) {
        assert_eq!(messages(&seen), messages(&wanted), "{who}:\n{text}\nas\n{written}");
        let (mut seen, mut wanted) = (value(&seen), value(&wanted));
        // Before the first entry there is nothing to name, and 7.1 skips unknown types.
        let is_seen_through = who == "7.1" && is_new(text, &wanted["leaf"]);
        if wanted["leaf"].is_null() || is_unnamed(&wanted["leaf"]) || is_seen_through {
            seen["leaf"] = json!(null);
            wanted["leaf"] = json!(null);
        }
        for field in ["leaf", "model", "thinkingLevel"] {
            assert_eq!(seen[field], wanted[field], "{who}: {field}\n{text}\nas\n{written}");
        }
    }
}

/// Returns whether the leaf is of a type that OpenClaw 2026.7.1 does not know.
fn is_new(text: &str, leaf: &Value) -> bool {
    let mut entries = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let leaf = entries.rfind(|line| &line["id"] == leaf).unwrap_or_default();
    matches!(leaf["type"].as_str(), Some("reset" | "usage" | "context_edit"))
}

/// An entry without an id gets one.
fn is_unnamed(leaf: &Value) -> bool {
    leaf.as_str().is_some_and(|leaf| leaf.starts_with('#'))
}

const HEADER: &str =
    r#"{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}"#;

fn session(entries: &[Value]) -> String {
    let lines = entries.iter().map(|entry| format!("{entry}\n"));
    format!("{HEADER}\n{}", lines.collect::<String>())
}

fn entry(id: &str, parent: Option<&str>, fields: Value) -> Value {
    let time = "2026-01-01T00:00:01.000Z";
    let mut entry = json!({"id": id, "parentId": parent, "timestamp": time});
    entry.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    entry
}

fn user(id: &str, parent: Option<&str>) -> Value {
    let message = json!({"role": "user", "content": id, "timestamp": 1});
    entry(id, parent, json!({"type": "message", "message": message}))
}

fn answer(id: &str, parent: Option<&str>) -> Value {
    let content = json!([{"type": "text", "text": id}]);
    let message = json!({"role": "assistant", "content": content, "provider": "p", "model": id});
    entry(id, parent, json!({"type": "message", "message": message}))
}

fn leaf(id: &str, parent: Option<&str>, target: Option<&str>) -> Value {
    entry(id, parent, json!({"type": "leaf", "targetId": target}))
}

fn reset(id: &str, parent: Option<&str>, keep: Option<&str>) -> Value {
    let mut reset = json!({"type": "reset", "reason": "reset"});
    if let Some(keep) = keep {
        reset["firstKeptEntryId"] = keep.into();
    }
    entry(id, parent, reset)
}

#[test]
fn sessions_of_the_releases_stay_as_they_are() {
    for reader in ["oc71", "pi73", "pi87"] {
        for path in fixtures(reader) {
            let text = read(&path);
            check(&text);
            let has_edits = text.contains("context_edit");
            let written = live(&text);
            // All but the id, which is the test's.
            let (_, ours) = written.split_once('\n').unwrap();
            let (_, theirs) = text.split_once('\n').unwrap();
            assert!(has_edits || ours.trim() == theirs.trim(), "{}", path.display());
        }
    }
}

#[test]
fn the_leaf_is_the_last_line() {
    let tree = [user("1", None), answer("2", Some("1")), user("3", Some("2"))];
    // Back to an entry with children, to the end of another branch, and before the first.
    let mut back = tree.to_vec();
    back.push(leaf("l", Some("3"), Some("2")));
    check(&session(&back));
    assert!(live(&session(&back)).trim_end().ends_with(&tree[1].to_string()));
    let mut aside = tree.to_vec();
    aside.extend([leaf("l", Some("3"), Some("1")), answer("4", Some("1"))]);
    aside.push(leaf("m", Some("4"), Some("3")));
    check(&session(&aside));
    let mut root = tree.to_vec();
    root.push(leaf("l", Some("3"), None));
    check(&session(&root));
    assert_eq!(live(&session(&root)).lines().count(), 5);
    // A side line is never the leaf.
    let mut side = tree.to_vec();
    side.push(entry(
        "s",
        Some("3"),
        json!({"type": "custom", "customType": "x", "appendMode": "side"}),
    ));
    side.push(user("4", Some("s")));
    side.push(entry(
        "t",
        Some("4"),
        json!({"type": "label", "targetId": "1", "appendMode": "side"}),
    ));
    check(&session(&side));
}

#[test]
fn a_reset_begins_another_file() {
    let thinking =
        entry("t", None, json!({"type": "thinking_level_change", "thinkingLevel": "high"}));
    let before = [thinking, user("1", Some("t")), answer("2", Some("1"))];
    let mut once = before.to_vec();
    once.extend([reset("r", Some("2"), None), user("3", Some("r"))]);
    let files = lay(&session(&once));
    assert_eq!(files.len(), 2);
    check(&session(&once));
    assert_eq!(files[0], session(&before));
    // The model and thinking level from before the reset still apply; the reset and its children
    // stay.
    assert!(files[1].contains("thinking_level_change") && files[1].contains("model_change"));
    assert!(files[1].ends_with(&format!("{}\n", once[4])));
    // All lines are in one of the files.
    let whole = files.concat();
    assert!(
        once.iter().filter(|line| line["id"] != "r").all(|line| whole.contains(&line.to_string()))
    );

    let mut twice = once.clone();
    twice.extend([reset("q", Some("3"), Some("3")), answer("4", Some("q"))]);
    assert_eq!(lay(&session(&twice)).len(), 3);
    check(&session(&twice));
    // Back to before the reset, it is an ordinary branch.
    let mut undone = once.clone();
    undone.push(leaf("l", Some("3"), Some("2")));
    assert_eq!(lay(&session(&undone)).len(), 1);
    check(&session(&undone));
    // No entry precedes it.
    assert_eq!(lay(&session(&[reset("r", None, None), user("1", Some("r"))])).len(), 1);
}

#[test]
fn what_a_reset_keeps_is_in_both_files() {
    let call = json!([{"type": "toolCall", "id": "c1", "name": "read", "arguments": {}}]);
    let result = |id: &str, parent: &str, call: &str| {
        let message = json!({"role": "toolResult", "toolCallId": call, "toolName": "read",
            "content": [{"type": "text", "text": "x"}], "isError": false});
        entry(id, Some(parent), json!({"type": "message", "message": message}))
    };
    let calls = entry(
        "2",
        Some("1"),
        json!({"type": "message", "message":
        {"role": "assistant", "content": call, "provider": "p", "model": "m"}}),
    );
    let lines = [
        user("1", None),
        calls,
        result("3", "2", "c1"),
        result("4", "3", "c0"),
        entry(
            "5",
            Some("4"),
            json!({"type": "custom_message", "customType": "x", "content": "no"}),
        ),
        answer("6", Some("5")),
        reset("r", Some("6"), Some("2")),
        user("7", Some("r")),
    ];
    check(&session(&lines));
    let files = lay(&session(&lines));
    for (id, is_kept) in [("2", true), ("3", true), ("4", false), ("5", false), ("6", true)] {
        let written = format!("\"id\":\"{id}\"");
        assert_eq!(files[1].contains(&written), is_kept, "{id}\n{}", files[1]);
    }
}

#[test]
fn edits_are_made_where_the_releases_know_none() {
    let edit = |id: &str, parent: &str, target: &str, with: Value| {
        entry(
            id,
            Some(parent),
            json!({"type": "context_edit", "targetId": target, "replacement": with}),
        )
    };
    let lines = [
        user("1", None),
        answer("2", Some("1")),
        entry(
            "3",
            Some("2"),
            json!({"type": "custom_message", "customType": "x", "content": "long"}),
        ),
        user("4", Some("3")),
        edit("5", "4", "1", json!({"content": "short"})),
        edit("6", "5", "2", json!(null)),
        edit("7", "6", "3", json!({"content": "cut"})),
    ];
    check(&session(&lines));
    assert!(live(&session(&lines)).contains("quipu.removed"));
}

#[test]
fn odd_sessions_are_written_in_the_readers_shapes() {
    let time = "2026-01-01T00:00:01.000Z";
    // Bare lines, and results inside of a message.
    check(concat!(
        r#"{"role":"user","content":"one","timestamp":1770193116233}"#,
        "\n",
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"ls","input":{}}],"timestamp":"2026-02-04T08:18:36.233Z"}"#,
        "\n",
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"},{"type":"text","text":"so"}]}"#,
        "\n",
        "}{\n\"text\"\n",
        r#"{"role":"assistant","content":"yes"}"#,
        "\n",
    ));
    // Version 1: no ids, and a compaction that counts lines.
    check(&format!(
        "{}\n{}\n{}\n{}\n{}\n",
        r#"{"type":"session","id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}"#,
        json!({"type": "message", "timestamp": time, "message": {"role": "user", "content": "1"}}),
        json!({"type": "message", "timestamp": time, "message": {"role": "hookMessage", "content": "2"}}),
        json!({"type": "compaction", "timestamp": time, "summary": "s", "tokensBefore": 5, "firstKeptEntryIndex": 2}),
        json!({"type": "message", "timestamp": time, "message": {"role": "user", "content": "3"}}),
    ));
    // Two entries with one id, a cycle, a missing parent, rows of unknown types, no role.
    check(&session(&[
        user("1", None),
        answer("2", Some("1")),
        user("1", Some("2")),
        answer("3", Some("1")),
    ]));
    check(&session(&[user("1", Some("2")), answer("2", Some("1")), user("3", Some("2"))]));
    check(&session(&[user("1", Some("gone")), answer("2", Some("1"))]));
    let unknown = |id: &str, parent: Option<&str>| entry(id, parent, json!({"type": "hologram"}));
    check(&session(&[
        user("1", None),
        unknown("h", Some("1")),
        answer("2", Some("h")),
        unknown("i", Some("2")),
    ]));
    let speechless = entry("2", Some("1"), json!({"type": "message", "message": {"content": "x"}}));
    check(&session(&[user("1", None), speechless, answer("3", Some("2"))]));
    // No parent fields.
    let mut unsaid = [user("1", None), answer("2", None), user("3", None)];
    unsaid.iter_mut().for_each(|line| {
        line.as_object_mut().unwrap().remove("parentId");
    });
    check(&session(&unsaid));
    let counted =
        json!({"type": "compaction", "summary": "s", "tokensBefore": 1, "compactedCount": 1});
    check(&session(&[
        user("1", None),
        answer("2", Some("1")),
        entry("3", Some("2"), counted),
        user("4", Some("3")),
    ]));
}

/// A line of a random session: its type, and the earlier line that it attaches to.
fn arbitrary() -> impl Strategy<Value = Vec<(u8, usize, usize)>> {
    prop::collection::vec((0_u8..12, 0_usize..12, 0_usize..12), 0..24)
}

fn random(choices: &[(u8, usize, usize)]) -> String {
    let mut lines = Vec::new();
    let mut ids: Vec<String> = Vec::new();
    for (number, (kind, parent, other)) in choices.iter().enumerate() {
        let id = format!("e{number}");
        let pick = |at: usize| match ids.len() {
            0 => None,
            length => ids.get((length + 1).saturating_sub(at + 1) % (length + 1)).cloned(),
        };
        let (parent, other) = (pick(*parent), pick(*other));
        let (parent, other) = (parent.as_deref(), other.as_deref());
        let line = match kind {
            0 | 1 => user(&id, parent),
            2..=4 => answer(&id, parent),
            5 => leaf(&id, parent, other),
            6 => reset(&id, parent, other),
            7 => entry(
                &id,
                parent,
                json!({"type": "compaction", "summary": id, "tokensBefore": 1,
                "firstKeptEntryId": other.unwrap_or("none")}),
            ),
            8 => entry(&id, parent, json!({"type": "thinking_level_change", "thinkingLevel": id})),
            9 => entry(&id, parent, json!({"type": "hologram"})),
            10 => entry(
                &id,
                parent,
                json!({"type": "custom", "customType": "x", "appendMode": "side"}),
            ),
            _ => {
                entry(&id, parent, json!({"type": "model_change", "provider": "p", "modelId": id}))
            }
        };
        lines.push(line);
        ids.push(id);
    }
    session(&lines)
}

/// A compaction that keeps entries which an earlier reset removed. No writer makes one, and no file
/// without the `reset` could express it.
fn reaches_behind_a_reset(text: &str) -> bool {
    let context = |text: &str| messages(&build(Reader::OPENCLAW, text, At::Leaf));
    lay(text).len() > 1 && context(&live(text)) != context(text)
}

proptest! {
    #[test]
    fn every_reader_sees_the_same(choices in arbitrary()) {
        let text = random(&choices);
        let has_both = choices.iter().any(|(kind, ..)| *kind == 7) && choices.iter().any(|(kind, ..)| *kind == 6);
        if !(has_both && reaches_behind_a_reset(&text)) && text.lines().count() > 1 {
            agree(&text);
        }
    }
}

#[test]
fn an_empty_session_has_one_file() {
    assert_eq!(lay(&format!("{HEADER}\n")), [format!("{HEADER}\n")]);
    assert!(context::line_time("{}").is_none());
}
