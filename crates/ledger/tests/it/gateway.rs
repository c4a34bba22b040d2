//! A database that a running gateway of OpenClaw 2026.9.6 left: sub-agents and archived sessions.

use quipu_ledger::query::{Choice, tree};
use quipu_transcript::story::Piece;

use crate::home::*;
use crate::rows::{DATABASE, change, real};

const PARENT: &str = "3eb43f58-3a94-4be4-8734-221e85868ed5";
const CHILD: &str = "cb96262d-7e5c-45dd-aa96-58017bb26955";
const ARCHIVED: &str = "243407d7-e143-4b3c-b117-9325a24829e7";

/// Returns the calls of a session that started others: tool and started session.
fn started(home: &Home, session: &str) -> Vec<String> {
    let calls = home.items_of(session, &Choice::default(), |item| {
        let calls = item.pieces.iter().filter_map(|piece| match piece {
            Piece::Call(call) => Some(format!("{} {}", call.name, call.subagent.as_deref()?)),
            _ => None,
        });
        calls.collect::<Vec<String>>()
    });
    calls.concat()
}

#[test]
fn r126_a_call_leads_to_the_session_that_it_started() {
    let home = Home::new();
    real(&home, "gateway", DATABASE);
    home.sync();
    home.assert_rebuilds();
    assert_eq!(
        home.all("SELECT agent_id, call_id FROM spawned_agents"),
        ["'agent:main:subagent:4020c039-d32f-43d8-b02a-7cc8bbf78e5b'|'call_mock_6_0'"]
    );
    assert_eq!(started(&home, PARENT), [format!("tool_call {CHILD}")]);
    // The sub-agent is below the turn of the call, and not at the end.
    let lines = tree(&home.open(), PARENT).unwrap();
    let at = lines.iter().position(|line| line.session_id.as_deref() == Some(CHILD)).unwrap();
    assert!(at + 1 < lines.len(), "{lines:?}");
}

#[test]
fn r126_the_key_in_a_result_leads_to_the_started_session() {
    let home = Home::new();
    let folder = ".openclaw/agents/main/sessions";
    let key = "agent:main:subagent:u1";
    // With the key in the details of the result, and only in its text.
    let result = |id: &str, more: &str| {
        format!(
            r#"{{"type":"message","id":"{id}","message":{{"role":"toolResult","toolCallId":"c{id}","toolName":"sessions_spawn","content":[{{"type":"text","text":"{{\"childSessionKey\": \"{key}{more}\"}}"}}]{}}}}}"#,
            if more.is_empty() {
                r#","details":{"childSessionKey":"agent:main:subagent:u1"}"#
            } else {
                ""
            }
        )
    };
    let call = |id: &str| {
        format!(
            r#"{{"type":"message","id":"a{id}","message":{{"role":"assistant","content":[{{"type":"toolCall","id":"c{id}","name":"sessions_spawn","arguments":{{"task":"count"}}}}]}}}}"#
        )
    };
    let lines = [call("1"), result("1", ""), call("2"), result("2", "2")];
    home.write(&format!("{folder}/parent.jsonl"), lines.join("\n") + "\n");
    let prompt = r#"{"type":"message","id":"b1","message":{"role":"user","content":"count"}}"#;
    for child in ["one", "two"] {
        home.write(&format!("{folder}/{child}.jsonl"), format!("{prompt}\n"));
    }
    home.write(
        &format!("{folder}/sessions.json"),
        format!(
            r#"{{"agent:main:main": {{"sessionId": "parent"}}, "{key}": {{"sessionId": "one"}},
                "{key}2": {{"sessionId": "two"}}}}"#
        ),
    );
    home.sync_and_check();
    assert_eq!(started(&home, "parent"), ["sessions_spawn one", "sessions_spawn two"]);
}

#[test]
fn an_archived_session_has_the_state_archived() {
    let home = Home::new();
    real(&home, "gateway", DATABASE);
    home.sync();
    home.assert_rebuilds();
    let archived = "SELECT session_id FROM sessions WHERE state = 'archived'";
    assert_eq!(home.all(archived), [format!("'{ARCHIVED}'")]);
    change(
        &home,
        "UPDATE session_nodes SET archived_at = NULL,
                entry_json = json_remove(entry_json, '$.archivedAt')",
    );
    home.sync();
    home.assert_rebuilds();
    assert_eq!(home.all(archived), [""; 0]);
}

#[test]
fn the_order_of_archiving_and_transcript_does_not_matter() {
    let folder = ".openclaw/agents/main/sessions";
    let index = format!("{folder}/sessions.json");
    let home = Home::new();
    home.write(&index, r#"{"k": {"sessionId": "s1", "archivedAt": 1770193116233}}"#);
    home.sync();
    let line = r#"{"type":"message","id":"b1","message":{"role":"user","content":"count"}}"#;
    home.write(&format!("{folder}/s1.jsonl"), format!("{line}\n"));
    home.sync_and_check();
    let state = "SELECT state FROM sessions";
    assert_eq!(home.all(state), ["'archived'"]);
    // A second key that is not archived leads there too.
    home.write(
        &index,
        r#"{"k": {"sessionId": "s1", "archivedAt": 1770193116233}, "l": {"sessionId": "s1"}}"#,
    );
    home.sync_and_check();
    assert_eq!(home.all(state), ["'live'"]);
    home.write(&index, r#"{"k": {"sessionId": "s1", "archivedAt": 1770193116233}}"#);
    home.sync_and_check();
    assert_eq!(home.all(state), ["'archived'"]);
    home.remove(&format!("{folder}/s1.jsonl"));
    home.sync();
    assert_eq!(home.all(state), ["'gone'"]);
}

/// The index moved from a file into the database, and a reset started the main session over.
#[test]
fn r123_a_key_is_listed_once_as_the_newest_index_has_it() {
    let home = Home::new();
    let folder = ".openclaw/agents/main/sessions";
    let index = format!("{folder}/sessions.json");
    let line = r#"{"type":"message","id":"b1","message":{"role":"user","content":"count"}}"#;
    home.write(&format!("{folder}/old.jsonl"), format!("{line}\n"));
    home.write(&index, r#"{"agent:main:main": {"sessionId": "old", "updatedAt": 1}}"#);
    home.sync();
    let of_main = "SELECT session_id FROM session_index WHERE session_key = 'agent:main:main'";
    assert_eq!(home.all(of_main), ["'old'"]);
    real(&home, "gateway", DATABASE);
    // The older index may stay for a while.
    for is_left in [true, false] {
        if !is_left {
            home.remove(&index);
        }
        home.sync();
        home.assert_rebuilds();
        assert_eq!(home.all(of_main), [format!("'{PARENT}'")]);
        let keys = quipu_ledger::store::registry(&home.open()).unwrap();
        let listed =
            keys.iter().map(|key| format!("'{}'|{}", key.session_key, key.created_at.unwrap()));
        let listed: Vec<String> = listed.collect();
        let view = "SELECT session_key, created_at FROM session_index ORDER BY session_key";
        assert_eq!(home.all(view), listed);
        assert_eq!(listed.len(), 4, "{listed:?}");
    }
    // A session was created before its first record, although its key has the time of the reset.
    let times = format!(
        "SELECT i.created_at <= min(e.time), (i.fields ->> 'sessionStartedAt') > i.created_at
           FROM session_index i JOIN sessions s ON s.session_id = i.session_id
           JOIN entries e ON e.session = s.id WHERE i.session_id = '{PARENT}'"
    );
    assert_eq!(home.all(&times), ["1|1"]);
}
