//! `quipu session context`.

use serde_json::json;

use crate::home::{Home, snapshot};

fn synced() -> Home {
    let home = Home::small();
    home.run("sync");
    home
}

#[test]
fn the_messages_for_the_model_are_listed() {
    snapshot!(synced().run("session context 13f7ee8b"), @r#"
    exit 0
    --- stdout
    session 13f7ee8b: 6 messages
      leaf      9ba5fcb2
      model     mock mock-1
      thinking  off

    1  user       Please use a TOOL to say hello
    2  assistant  Let me run that. exec({"command":"echo hello-from-tool"})
    3  result     exec: hello-from-tool
    4  assistant  mock reply 5
    5  user       thanks, second turn
    6  assistant  mock reply 6
    "#);
}

#[test]
fn messages_are_cut_on_a_narrow_terminal() {
    let home = Home::empty();
    home.fixture("context/oc71/06-compaction.jsonl", ".openclaw/agents/main/sessions/s.jsonl");
    home.run("sync");
    snapshot!(home.run_with("session context s", &[("COLUMNS", "40")]), @"
    exit 0
    --- stdout
    session s: 5 messages
      leaf      fd6d74d3
      model     anthropic claude-sonnet-4-5
      thinking  off

    1  summary    Summary of one and two. <…
    2  user       three
    3  assistant  3
    4  user       four
    5  assistant  4
    ");
}

#[test]
fn json_has_the_messages_of_a_leaf() {
    let home = synced();
    let context = home.run("session context 13f7ee8b --json").json();
    let mut fields: Vec<&String> = context.as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(fields, ["leaf", "messages", "model", "provider", "thinking_level"]);
    assert!(context["messages"].as_array().unwrap().len() > 2);
    // From an earlier entry there are fewer messages.
    let first = std::fs::read_to_string(
        home.path(".openclaw/agents/main/sessions/13f7ee8b-4916-4c0c-a7c3-6a9d44685f32.jsonl"),
    )
    .unwrap();
    let ids = first.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let first = ids.into_iter().find(|entry| entry["message"]["role"] == "user").unwrap();
    let id = first["id"].as_str().unwrap();
    let context = home.run(&format!("session context 13f7ee8b --json --leaf {id}")).json();
    assert_eq!(
        (&context["leaf"], &context["messages"]),
        (&first["id"], &json!([first["message"]]))
    );
}

#[test]
fn a_context_never_collects() {
    let home = synced();
    home.fixture("context/oc71/01-simple.jsonl", ".openclaw/agents/main/sessions/new.jsonl");
    snapshot!(home.run("session context new"), @"
    exit 1
    --- stderr
    error: no session matches `new`
    hint: use an id or the beginning of one, a session key, or `last`; `quipu sessions --all` lists all sessions
    ");
    snapshot!(Home::small().run("session context last"), @"
    exit 1
    --- stderr
    error: no session matches `last`
    hint: use an id or the beginning of one, a session key, or `last`; `quipu sessions --all` lists all sessions
    ");
}

#[test]
fn an_unknown_leaf_is_an_error() {
    snapshot!(synced().run("session context 13f7ee8b --leaf nobody"), @"
    exit 1
    --- stderr
    error: no entry of the session matches `nobody`
    hint: use an entry's full id; `quipu session branch` and `quipu show --json` list them
    ");
}
