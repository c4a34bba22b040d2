//! Threads of OpenClaw: transcripts that are named after a session and a thread, keys that lead to
//! them, and those that were moved into the database.

use std::collections::BTreeMap;

use quipu_ledger::store::Store;
use rusqlite::params;

use crate::home::*;
use crate::rows::{DATABASE, event, header, loose, settle, writer};

const SESSIONS: &str = ".openclaw/agents/main/sessions";

/// Writes a transcript of a header, which names `s1`, and two messages.
fn transcript(home: &Home, stem: &str) {
    let text = format!("{}\n{}\n{}\n", header("s1"), event(1, "otter"), event(2, "walrus"));
    home.write(&format!("{SESSIONS}/{stem}.jsonl"), text);
}

fn index(home: &Home, key: &str, fields: &str) {
    let text = format!(r#"{{"{key}": {{"sessionId": "s1", "updatedAt": 1770193116233{fields}}}}}"#);
    home.write(&format!("{SESSIONS}/sessions.json"), text);
}

/// Returns the doctor's findings about keys.
fn unnamed(home: &Home) -> Vec<String> {
    let diagnosis =
        quipu_ledger::doctor::doctor(&home.ledger_path(), &home.roots(), false, &mut |_| {});
    let findings = diagnosis.findings.into_iter().filter(|finding| finding.check == "indexes");
    findings.map(|finding| finding.message).collect()
}

/// Checks that a key leads to a session, whatever is collected first, and after an import.
#[track_caller]
fn leads(key: &str, fields: &str, stems: &[&str], session: &str) {
    let led = [format!("'{key}'|'{session}'")];
    for order in 0..3 {
        let home = Home::new();
        if order != 1 {
            index(&home, key, fields);
        }
        if order == 0 {
            home.sync();
        }
        stems.iter().for_each(|stem| transcript(&home, stem));
        if order == 1 {
            home.sync();
            index(&home, key, fields);
        }
        home.sync_and_check();
        let keys = home.all("SELECT key, session_id FROM session_keys");
        assert_eq!(keys, led, "{key} {order}");
        assert_eq!(home.all("SELECT key, session_id FROM key_history"), led, "{key}");
        let with_key = "SELECT session_key, session_id FROM sessions WHERE session_key IS NOT NULL";
        assert_eq!(home.all(with_key), led, "{key} {order}");
        assert_eq!(unnamed(&home), [""; 0], "{key}");
    }
    let home = Home::new();
    index(&home, key, fields);
    stems.iter().for_each(|stem| transcript(&home, stem));
    let store = Store::open(home.ledger_path()).unwrap();
    store
        .import(&home.path(".openclaw"), &mut |file| assert!(!file.has_failed, "{file:?}"))
        .unwrap();
    assert_eq!(store.session(key).unwrap().id(), session, "{key}");
    drop(store);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), stems.len() as i64, "{key}");
}

#[test]
fn r120_a_key_leads_to_the_transcript_of_its_thread() {
    for key in [
        "agent:main:telegram:group:-1:topic:42",
        "agent:main:slack:thread:42",
        "agent:main:slack:channel:c1:thread:42",
        "agent:main:discord:dm:7:thread:42",
        "agent:main:main:thread:42",
    ] {
        leads(key, "", &["s1-topic-42"], "s1-topic-42");
    }
    let key = "agent:main:telegram:group:-1:topic:42";
    leads(key, "", &["s1"], "s1");
    leads(key, "", &["s1", "s1-topic-42"], "s1-topic-42");
    leads(key, r#", "sessionFile": "s1.jsonl""#, &["s1", "s1-topic-42"], "s1");
    // An id with a slash keeps its name.
    leads("agent:main:slack:thread:a/b", "", &["s1-topic-a%2Fb"], "s1-topic-a/b");
}

#[test]
fn r120_the_last_thread_names_the_transcript_if_the_id_alone_names_none() {
    let key = "agent:main:telegram:dm:5";
    leads(key, r#", "lastThreadId": 42"#, &["s1-topic-42"], "s1-topic-42");
    leads(key, r#", "lastThreadId": "42""#, &["s1", "s1-topic-42"], "s1");
}

/// Moves the session into a database, as 2026.9.6 does: under its id alone, in JavaScript's
/// spelling.
fn moved(home: &Home, key: &str, events: u32) {
    loose(
        home,
        23,
        "CREATE TABLE session_nodes (session_key TEXT, current_session_id TEXT, entry_json TEXT)",
    );
    let conn = writer(home, DATABASE);
    for number in 0..=events {
        let row = match number {
            0 => header("s1"),
            number => event(number, ["otter", "walrus", "newt"][number as usize - 1]),
        };
        conn.execute(
            "INSERT INTO transcript_events (session_id, seq, event_json) VALUES ('s1', ?1, ?2)",
            params![number, row],
        )
        .unwrap();
    }
    conn.execute("INSERT INTO session_nodes VALUES (?1, 's1', '{}')", [key]).unwrap();
    conn.close().unwrap();
    settle(&home.path(DATABASE));
}

#[test]
fn a_thread_that_moved_into_the_database_is_one_session() {
    let key = "agent:main:telegram:group:-1:topic:42";
    for is_file_first in [true, false] {
        let home = Home::new();
        let file = |home: &Home| {
            // As another program may write it.
            let text = format!("{}\n{}\n{}\n", header("s1"), event(1, "otter"), event(2, "walrus"));
            home.write(&format!("{SESSIONS}/s1-topic-42.jsonl"), text.replace("\":", "\": "));
        };
        match is_file_first {
            true => file(&home),
            false => moved(&home, key, 2),
        }
        home.sync_and_check();
        match is_file_first {
            true => moved(&home, key, 2),
            false => file(&home),
        }
        home.sync_and_check();
        let sessions = "SELECT session_id, session_key, messages, entries FROM sessions";
        let one = format!("'s1-topic-42'|'{key}'|2|3");
        assert_eq!(home.all(sessions), [one], "{is_file_first}");
        assert_eq!(home.problems(), BTreeMap::new());
        assert_eq!(unnamed(&home), [""; 0]);
        // The session continues in the database.
        let conn = writer(&home, DATABASE);
        let row = event(3, "newt");
        conn.execute(
            "INSERT INTO transcript_events (session_id, seq, event_json) VALUES ('s1', 3, ?1)",
            [row],
        )
        .unwrap();
        conn.close().unwrap();
        settle(&home.path(DATABASE));
        home.sync_and_check();
        assert_eq!(home.all(sessions), [format!("'s1-topic-42'|'{key}'|3|4")]);

        // Forgotten under both names.
        home.forget("s1-topic-42");
        home.sync();
        assert_eq!(home.all(sessions), [""; 0]);
        assert_eq!(home.hits("otter") + home.hits("newt"), 0);
        assert_eq!(home.all("SELECT key FROM session_keys"), [""; 0]);
    }
}

/// OpenClaw's importer leaves the archive of a reset where it was, and renames the transcript, with
/// `_` for `%`.
#[test]
fn a_thread_that_was_reset_and_moved_is_one_session() {
    for (thread, in_file, imported) in
        [("42", "42", "42"), ("7/a b", "7%2Fa%20b", "7_2Fa_20b"), ("a_20b", "a_20b", "a_20b")]
    {
        let key = format!("agent:main:slack:channel:c1:thread:{thread}");
        let spelled = key.replace([':', '/', ' '], "_");
        let archive = format!(
            "{SESSIONS}/session-sqlite-import-archive/{spelled}.s1-topic-{imported}.jsonl.imported-1770193116233"
        );
        let live = format!("{SESSIONS}/s1-topic-{in_file}.jsonl");
        let reset = format!("{live}.reset.2026-02-04T10-30-00.000Z");
        let text = format!("{}\n{}\n{}\n", header("s1"), event(1, "otter"), event(2, "walrus"));
        let before = format!("{}\n{}\n", header("s1").replace("alice", "bob"), event(8, "stoat"));
        for is_seen_before in [true, false] {
            let home = Home::new();
            home.write(&reset, &before);
            home.write(&live, &text);
            if is_seen_before {
                home.sync_and_check();
            }
            home.folder_for(&archive);
            home.rename(&live, &archive);
            moved(&home, &key, 3);
            home.sync_and_check();
            let sessions = home.all("SELECT session_id, session_key, messages FROM sessions");
            assert_eq!(sessions, [format!("'s1-topic-{thread}'|'{key}'|4")], "{is_seen_before}");
        }
    }
}

#[test]
fn another_session_of_the_same_id_stays_apart() {
    // Two files in the agent's folder, and a thread with another header than the moved session.
    let home = Home::new();
    transcript(&home, "s1");
    transcript(&home, "s1-topic-42");
    home.sync_and_check();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 2);
    let home = Home::new();
    let text = format!("{}\n{}\n", header("s1").replace("alice", "bob"), event(1, "otter"));
    home.write(&format!("{SESSIONS}/s1-topic-42.jsonl"), text);
    moved(&home, "agent:main:main", 2);
    home.sync_and_check();
    assert_eq!(
        home.all("SELECT session_id, session_key FROM sessions ORDER BY 1"),
        ["'s1'|'agent:main:main'", "'s1-topic-42'|NULL"]
    );
}

#[test]
fn an_import_of_a_thread_that_moved_makes_one_session() {
    let key = "agent:main:telegram:group:-1:topic:42";
    let home = Home::new();
    transcript(&home, "s1-topic-42");
    moved(&home, key, 3);
    let store = Store::open(home.ledger_path()).unwrap();
    store
        .import(&home.path(".openclaw"), &mut |file| assert!(!file.has_failed, "{file:?}"))
        .unwrap();
    assert_eq!(store.session(key).unwrap().id(), "s1-topic-42");
    drop(store);
    assert_eq!(home.all("SELECT session_id, messages FROM sessions"), ["'s1-topic-42'|3"]);
}

#[test]
fn a_slash_in_a_thread_separates_no_folder() {
    let home = Home::new();
    let id = "44444444-4444-4444-8444-444444444444";
    for thread in ["a%2Fb", "c%2Fb"] {
        transcript(&home, &format!("{id}-topic-{thread}"));
    }
    home.sync_and_check();
    let ambiguous = quipu_ledger::query::ids_with_ambiguous_prefix(&home.open(), 8).unwrap();
    assert_eq!(ambiguous, [format!("{id}-topic-a/b"), format!("{id}-topic-c/b")]);
    // The part after it is no name either, even if only one session has it.
    let home = Home::new();
    transcript(&home, &format!("{id}-topic-a%2Fb"));
    home.sync();
    assert!(home.find("b").is_err());
    assert!(home.find(&format!("{id}-topic-a/b")).is_ok());
    assert!(home.find("4444").is_ok());
}
