//! Contexts of collected sessions. The rules themselves are tested in
//! `crates/transcript/tests/context`.

use std::fs;
use std::path::Path;

use quipu_ledger::query::SessionContext;
use quipu_ledger::{Error, Ledger};
use serde_json::{Value, json};

use crate::home::{Home, MAIN, SESSION, line, uuid};
use crate::rows::{DATABASE, real};

const SESSIONS: &str = ".openclaw/agents/main/sessions";

fn context(
    ledger: &Ledger,
    name: &str,
    leaf: Option<&str>,
) -> quipu_ledger::Result<SessionContext> {
    let session = quipu_ledger::query::find_session(ledger, name)?;
    quipu_ledger::query::context_of(ledger, session, leaf)
}

/// Returns the context as it is printed.
fn printed(home: &Home, name: &str, leaf: Option<&str>) -> Value {
    let seen = context(&home.open(), name, leaf).unwrap();
    serde_json::to_value(&seen.context).unwrap()
}

/// Returns the user messages of a context.
fn user_texts(home: &Home, name: &str, leaf: Option<&str>) -> Vec<String> {
    let context = printed(home, name, leaf);
    let messages = context["messages"].as_array().unwrap();
    messages.iter().map(|message| message["content"].as_str().unwrap_or("?").to_owned()).collect()
}

fn entry(id: &str, parent: Option<&str>) -> String {
    let entry = json!({"type": "message", "id": id, "parentId": parent,
        "message": {"role": "user", "content": id, "timestamp": 1}});
    format!("{entry}\n")
}

fn header(id: &str) -> String {
    format!("{}\n", json!({"type": "session", "version": 3, "id": id, "cwd": "/w"}))
}

/// The long text of a line that exceeds the limit is cut, the fields after it are still read, and
/// the context reports the cut.
#[test]
fn a24_a_message_of_a_long_line_is_cut() {
    for mebibytes in [0, 40, 100] {
        let home = Home::quick();
        let long = format!("first words {}", "and more ".repeat((33 << 20) / 9));
        let lines = [
            header("s1"),
            entry("one", None),
            entry("two", Some("one"))
                .replace("\"content\":\"two\"", &format!("\"content\":\"{long}\"")),
            entry("three", Some("two")),
            // In a file above 128 MiB not all lines are kept in memory.
            format!(
                "{}\n",
                json!({"type": "custom", "id": "x", "parentId": "three", "customType": "x",
                "data": "x".repeat(mebibytes << 20)})
            ),
        ];
        home.write(&format!("{SESSIONS}/s1.jsonl"), lines.concat());
        home.sync();
        let texts = user_texts(&home, "s1", Some("three"));
        let lengths: Vec<usize> = texts.iter().map(String::len).collect();
        assert_eq!((&*texts[0], &*texts[2], texts.len()), ("one", "three", 3), "{lengths:?}");
        assert!(texts[1].len() == 64 << 10 && long.starts_with(&texts[1]), "{lengths:?}");
        assert_eq!(context(&home.open(), "s1", Some("three")).unwrap().cut, 1);
        assert_eq!(context(&home.open(), "s1", Some("one")).unwrap().cut, 0);
    }
}

#[test]
fn r82_golden_contexts_of_collected_sessions() {
    let home = Home::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../transcript/fixtures/context");
    let mut expected = Vec::new();
    for reader in ["oc71", "pi73", "pi87"] {
        for file in fs::read_dir(folder.join(reader)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "json") {
                let answer: Value =
                    serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
                let text = fs::read_to_string(path.with_extension("jsonl")).unwrap();
                let name = format!("{reader}-{}", path.file_stem().unwrap().to_str().unwrap());
                home.write(&format!("{SESSIONS}/{name}.jsonl"), text);
                expected.push((name, answer));
            }
        }
    }
    home.sync();
    let ledger = home.open();
    for (name, answer) in expected {
        let seen = context(&ledger, &name, None).unwrap();
        let ours = serde_json::to_value(&seen.context).unwrap();
        for field in ["leaf", "model", "thinkingLevel", "messages"] {
            assert_eq!(ours[field], answer[field], "{name}: {field}");
        }
    }
}

#[test]
fn the_live_transcript_comes_first_and_older_ones_are_searched() {
    let home = Home::new();
    let path = format!("{SESSIONS}/s.jsonl");
    let start = header("s") + &entry("a", None);
    home.write(&path, start.clone() + &entry("b", Some("a")) + &entry("lost", Some("b")));
    home.sync();
    // A rewrite drops an entry; a backup holds another one.
    home.replace(&path, start.clone() + &entry("c", Some("a")));
    home.write(&format!("{path}.bak-1-2"), start + &entry("d", Some("a")));
    home.sync();
    assert_eq!(user_texts(&home, "s", None), ["a", "c"]);
    assert_eq!(user_texts(&home, "s", Some("lost")), ["a", "b", "lost"]);
    assert_eq!(user_texts(&home, "s", Some("d")), ["a", "d"]);
    let error = context(&home.open(), "s", Some("nobody")).unwrap_err();
    assert!(matches!(error, Error::NoMatch { what: "entry of the session", .. }), "{error}");
    // Archived, its context is unchanged.
    home.rename(&path, &format!("{path}.deleted.2026-02-04T10-30-00.000Z"));
    home.sync();
    assert_eq!(user_texts(&home, "s", None), ["a", "c"]);
}

#[test]
fn a_last_line_without_a_newline_is_read() {
    let home = Home::new();
    let text = header("s") + &entry("a", None) + entry("b", Some("a")).trim_end();
    home.write(&format!("{SESSIONS}/s.jsonl"), text);
    home.sync();
    assert_eq!(user_texts(&home, "s", None), ["a", "b"]);
}

#[test]
fn a_session_in_many_chunks_has_a_context() {
    let home = Home::new();
    let mut text = header("s") + &entry("0", None);
    let long = "x".repeat(2 << 20);
    for id in 1..3000 {
        text += &entry(&id.to_string(), Some(&(id - 1).to_string()));
    }
    text += &entry(&long, Some("2999"));
    home.write(&format!("{SESSIONS}/s.jsonl"), text);
    home.sync();
    let user_texts = user_texts(&home, "s", None);
    assert_eq!(user_texts.len(), 3001);
    assert_eq!(user_texts.last().unwrap().len(), long.len());
}

#[test]
fn rows_of_a_database_have_contexts() {
    let home = Home::new();
    real(&home, "imported", DATABASE);
    real(&home, "native", ".openclaw/agents/work/agent/openclaw-agent.sqlite");
    home.sync();
    let ids = home.all("SELECT session_id FROM sessions WHERE format = 'openclaw'");
    assert_eq!(ids.len(), 3);
    for id in ids {
        let context = printed(&home, id.trim_matches('\''), None);
        assert!(!context["messages"].as_array().unwrap().is_empty(), "{id}");
        assert!(context["leaf"].is_string(), "{id}");
    }
}

#[test]
fn claude_code_sessions_have_contexts() {
    let home = Home::new();
    let (a, b) = (uuid(2), uuid(3));
    home.write(MAIN, line("user", &a, None, "hello") + &line("assistant", &b, Some(&a), "hi"));
    home.sync();
    let context = printed(&home, SESSION, None);
    assert_eq!(context["leaf"], json!(b));
    let roles: Vec<&Value> =
        context["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant"]);
}

/// Long sessions are read in several parts at once.
#[test]
fn the_model_of_a_long_session_is_that_of_its_last_answer() {
    let home = Home::quick();
    let words = "word ".repeat(2000);
    let mut text = String::new();
    for number in 1..=400 {
        let parent = (number > 1).then(|| uuid(number - 1));
        let role = if number % 2 == 1 { "user" } else { "assistant" };
        let model = if number <= 200 { "first-model" } else { "last-model" };
        text += &line(role, &uuid(number), parent.as_deref(), &words).replace(
            "\"role\":\"assistant\"",
            &format!("\"role\":\"assistant\",\"id\":\"msg{number}\",\"model\":\"{model}\""),
        );
    }
    home.write(MAIN, text);
    home.sync();
    let context = printed(&home, SESSION, None);
    assert_eq!(context["messages"].as_array().unwrap().len(), 400);
    assert_eq!(context["model"]["modelId"], "last-model");
}

#[test]
fn a_session_of_prompts_alone_has_no_context() {
    let home = Home::new();
    let id = uuid(1);
    let prompt = json!({"display": "hi", "timestamp": 1_770_000_000_000_i64, "project": "/w", "sessionId": id});
    home.write(".claude/history.jsonl", format!("{prompt}\n"));
    home.sync();
    let error = context(&home.open(), &id, None).unwrap_err();
    assert!(matches!(error, Error::NoMatch { what: "transcript of session", .. }), "{error}");
}
