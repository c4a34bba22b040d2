//! The index of OpenClaw's sessions: its newest bytes, its changes, and parents of sub-agents.

use crate::home::Home;

const INDEX: &str = ".openclaw/agents/main/sessions/sessions.json";

fn transcript(home: &Home, id: &str) {
    home.write(
        &format!(".openclaw/agents/main/sessions/{id}.jsonl"),
        format!(
            "{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\",\"timestamp\":\"2026-02-04T10:30:00.000Z\",\"cwd\":\"/w\"}}\n\
             {{\"type\":\"message\",\"id\":\"aaaa0001\",\"parentId\":null,\"timestamp\":\"2026-02-04T10:30:01.000Z\",\
             \"message\":{{\"role\":\"user\",\"content\":\"hello from {id}\"}}}}\n"
        ),
    );
}

#[test]
fn r2_an_index_gives_sessions_their_keys() {
    let home = Home::new();
    transcript(&home, "s1");
    home.write(
        INDEX,
        r#"{"agent:main:main": {"sessionId": "s1", "updatedAt": 1770193116233, "chatType": "direct",
            "lastChannel": "telegram", "label": "Home", "totalTokens": 57000, "futureField": {"x": 1}}}"#,
    );
    home.sync();
    assert_eq!(
        home.all("SELECT session_id, session_key FROM sessions"),
        ["'s1'|'agent:main:main'"]
    );
    assert_eq!(
        home.all(
            "SELECT key, session_id, channel, chat_type, title, total_tokens, updated_at,
                    fields ->> '$.futureField.x' FROM session_keys"
        ),
        ["'agent:main:main'|'s1'|'telegram'|'direct'|'Home'|57000|1770193116233|1"]
    );
    home.sync_and_check();
}

#[test]
fn the_order_of_index_and_transcript_does_not_matter() {
    let home = Home::new();
    home.write(INDEX, r#"{"agent:main:main": {"sessionId": "s1"}}"#);
    home.sync();
    assert_eq!(home.all("SELECT session_id FROM sessions"), [""; 0]);
    transcript(&home, "s1");
    home.sync();
    assert_eq!(
        home.all("SELECT session_id, session_key FROM sessions"),
        ["'s1'|'agent:main:main'"]
    );
    home.sync_and_check();
}

#[test]
fn an_index_keeps_its_newest_bytes_and_the_journal_what_matters() {
    let home = Home::new();
    transcript(&home, "s1");
    transcript(&home, "s2");
    home.write(INDEX, r#"{"agent:main:main": {"sessionId": "s1", "inputTokens": 1}}"#);
    home.sync();
    let records: i64 = home.one("SELECT count(*) FROM records");
    for tokens in 2..40 {
        let text = format!(
            r#"{{"agent:main:main": {{"sessionId": "s1", "inputTokens": {tokens}, "updatedAt": {}}}}}"#,
            1_770_193_116_000_i64 + tokens
        );
        home.replace(INDEX, text);
        home.sync();
    }
    assert_eq!(
        home.one::<i64>("SELECT count(*) FROM records"),
        records,
        "counters leave no record"
    );
    assert_eq!(home.one::<i64>("SELECT fields ->> '$.inputTokens' FROM session_keys"), 39);
    home.replace(INDEX, r#"{"agent:main:main": {"sessionId": "s2"}}"#);
    home.sync();
    assert_eq!(
        home.all("SELECT key, session_id FROM key_history ORDER BY seq"),
        ["'agent:main:main'|'s1'", "'agent:main:main'|'s2'"]
    );
    assert_eq!(
        home.all("SELECT session_id, session_key FROM sessions ORDER BY session_id"),
        ["'s1'|'agent:main:main'", "'s2'|'agent:main:main'"]
    );
    home.replace(INDEX, "{}");
    home.sync();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM session_keys"), 0);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions WHERE session_key IS NULL"), 0);
    home.sync_and_check();
}

#[test]
fn an_unchanged_index_is_not_read_again() {
    let home = Home::new();
    home.write(INDEX, r#"{"agent:main:main": {"sessionId": "s1"}}"#);
    home.sync();
    let report = home.sync();
    assert_eq!((report.bytes_read, report.lines_parsed, report.sources_changed), (0, 0, 0));
}

#[test]
fn r2_a_broken_index_stops_nothing_and_the_last_good_one_stays() {
    let home = Home::new();
    home.write(INDEX, r#"{"agent:main:main": {"sessionId": "s1", "label": "good"}}"#);
    home.sync();
    for broken in [&b""[..], b"{\"agent:main:main\": {\"sess", b"\0\0\0\0", b"\xff\xfe{}", b"[]"] {
        home.replace(INDEX, broken);
        transcript(&home, "s1");
        home.sync();
        assert_eq!(home.all("SELECT title FROM session_keys"), ["'good'"]);
    }
    assert_eq!(home.problems().get("index_damaged"), Some(&5));
    assert_eq!(
        home.all("SELECT session_id, session_key FROM sessions"),
        ["'s1'|'agent:main:main'"]
    );
    assert!(home.hits("hello") > 0);
    home.assert_rebuilds();
}

#[test]
fn r2_a_large_index_is_read() {
    let home = Home::new();
    let report = "x".repeat(56 << 10);
    let entries: Vec<String> = (0..1000)
        .map(|n| {
            format!(
                r#""agent:main:telegram:group:{n}": {{"sessionId": "s{n}", "updatedAt": {n}, "systemPromptReport": {{"text": "{report}"}}}}"#
            )
        })
        .collect();
    transcript(&home, "s7");
    home.write(INDEX, format!("{{{}}}", entries.join(",")));
    home.sync();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM session_keys"), 1000);
    assert_eq!(
        home.one::<String>("SELECT session_key FROM sessions"),
        "agent:main:telegram:group:7"
    );
    home.sync_and_check();
}

#[test]
fn children_are_linked_by_the_keys_of_their_parents() {
    let home = Home::new();
    for id in ["parent", "child", "grandchild"] {
        transcript(&home, id);
    }
    home.sync();
    home.write(
        INDEX,
        r#"{"agent:main:subagent:a:subagent:b": {"sessionId": "grandchild"},
            "agent:main:subagent:a": {"sessionId": "child", "spawnedBy": "agent:main:main"},
            "agent:main:main": {"sessionId": "parent"}}"#,
    );
    home.sync();
    assert_eq!(
        home.all("SELECT session_id, part, parent_session_id FROM sessions ORDER BY id"),
        [
            "'child'|'subagent'|'parent'",
            "'grandchild'|'subagent'|'child'",
            "'parent'|'transcript'|NULL"
        ]
    );
    // A reset of the parent's key does not move its children.
    transcript(&home, "parent2");
    home.replace(
        INDEX,
        r#"{"agent:main:subagent:a:subagent:b": {"sessionId": "grandchild"},
            "agent:main:subagent:a": {"sessionId": "child", "spawnedBy": "agent:main:main", "label": "x"},
            "agent:main:main": {"sessionId": "parent2"}}"#,
    );
    home.sync();
    assert_eq!(
        home.one::<String>("SELECT parent_session_id FROM sessions WHERE session_id = 'child'"),
        "parent"
    );
    home.sync_and_check();
}

#[test]
fn a_child_of_another_agent_finds_its_parent() {
    let home = Home::new();
    transcript(&home, "parent");
    home.write(
        ".openclaw/agents/work/sessions/child.jsonl",
        "{\"type\":\"session\",\"version\":3,\"id\":\"child\"}\n",
    );
    home.write(
        ".openclaw/agents/work/sessions/sessions.json",
        r#"{"agent:work:subagent:a": {"sessionId": "child", "spawnedBy": "agent:main:main"}}"#,
    );
    home.sync();
    home.write(INDEX, r#"{"agent:main:main": {"sessionId": "parent"}}"#);
    home.sync();
    assert_eq!(
        home.all("SELECT parent_agent, parent_session_id FROM sessions WHERE session_id = 'child'"),
        ["'main'|'parent'"]
    );
    home.sync_and_check();
}

#[test]
fn two_collectors_record_a_change_once() {
    let home = Home::new();
    home.write(INDEX, r#"{"agent:main:main": {"sessionId": "s0"}}"#);
    home.sync();
    for round in 1..6 {
        home.replace(INDEX, format!(r#"{{"agent:main:main": {{"sessionId": "s{round}"}}}}"#));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| home.sync());
            }
        });
    }
    assert_eq!(home.one::<i64>("SELECT count(*) FROM key_history"), 6);
    home.sync_and_check();
}

#[test]
fn a_key_leads_to_its_current_session() {
    let home = Home::new();
    for id in ["old", "new"] {
        transcript(&home, id);
        home.write(INDEX, format!(r#"{{"agent:main:main": {{"sessionId": "{id}"}}}}"#));
        home.sync();
    }
    let named = |name: &str| {
        let to = tempfile::tempdir_in(home.folder()).unwrap();
        let what = quipu_ledger::restore::RestoreScope::Session(name);
        let newest = quipu_ledger::restore::Generations::Newest;
        quipu_ledger::restore::restore(&home.open(), what, to.path(), newest).map(|report| {
            report.written.into_iter().map(|file| file.path).collect::<Vec<_>>().concat()
        })
    };
    assert!(named("agent:main:main").unwrap().ends_with("new.jsonl"));
    assert!(named("old").unwrap().ends_with("old.jsonl"));
    assert!(named("agent:main:other").is_err());
}
