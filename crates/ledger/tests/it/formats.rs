//! Tests what the ledger needs from formats: a context reader before a fork, the model in effect
//! for usage that names none, and decoder versions of only those formats that have records.

use quipu_ledger::Error;
use quipu_ledger::store::{Fork, Store};
use serde_json::{Value, json};

use crate::home::*;

const SESSION_FILE: &str = ".openclaw/agents/main/sessions/s1.jsonl";

fn text(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn header() -> Value {
    json!({"type": "session", "version": 3, "id": "s1", "cwd": "/w"})
}

fn answer(id: &str, model: Option<&str>) -> Value {
    json!({"type": "message", "id": id, "message": {"role": "assistant", "content": id,
        "provider": "p", "model": model, "usage": {"input": 1, "output": 1}}})
}

fn compaction(id: &str) -> Value {
    json!({"type": "compaction", "id": id, "summary": "before", "firstKeptEntryId": "one",
        "usage": {"input": 5, "output": 5}})
}

/// A fork would be empty: the ledger has no reader that selects what a model should see.
#[test]
fn a_session_of_a_format_without_a_context_reader_is_not_forked() {
    let home = Home::new();
    home.write(SESSION_FILE, text(&[header(), answer("one", Some("m1"))]));
    home.sync();
    let store = Store::open(home.ledger_path()).unwrap();
    let row = quipu_ledger::query::find_session(&store.reader().unwrap(), "s1").unwrap();
    // As if another build had collected it, with a format that this one has no reader for.
    home.sql()
        .execute_batch("UPDATE sessions SET format = 'acme'; UPDATE sources SET format = 'acme' WHERE format = 'openclaw'")
        .unwrap();
    for at in [None, Some("one"), Some("root")] {
        let forked = store.fork("s1", &Fork { at, ..Fork::default() });
        let format = match forked {
            Err(Error::NoContext { format }) => format,
            forked => panic!("{at:?}: {forked:?}"),
        };
        assert_eq!(format, "acme");
    }
    let seen = quipu_ledger::query::context_of(&store.reader().unwrap(), row, None);
    assert!(matches!(seen, Err(Error::NoContext { .. })), "{seen:?}");
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 1);
}

#[test]
fn usage_without_a_model_takes_the_model_in_effect() {
    let lines = [
        header(),
        // Nothing is in effect yet.
        compaction("c0"),
        json!({"type": "model_change", "id": "m", "provider": "p", "modelId": "m1"}),
        compaction("c1"),
        answer("one", Some("m2")),
        compaction("c2"),
        // Usage that names its own model leaves the one in effect alone.
        json!({"type": "usage", "id": "u", "kind": "title", "model": "small",
            "usage": {"input": 2, "output": 2}}),
        compaction("c3"),
    ];
    let expected = ",m1,m2,m2,small,m2";
    let query = "SELECT group_concat(m.model, ',' ORDER BY u.entry)
                   FROM usage u JOIN models m ON m.id = u.model";
    let at_once = Home::new();
    at_once.write(SESSION_FILE, text(&lines));
    at_once.sync_and_check();
    assert_eq!(at_once.one::<String>(query), expected);
    let one_by_one = Home::quick();
    one_by_one.write(SESSION_FILE, text(&lines[..1]));
    for line in &lines[1..] {
        one_by_one.sync();
        one_by_one.append(SESSION_FILE, format!("{line}\n"));
    }
    one_by_one.sync_and_check();
    assert_eq!(one_by_one.one::<String>(query), expected);
}

#[test]
fn an_answer_without_a_model_has_the_model_of_its_path() {
    let message = |id: &str, parent: &str, role: &str| {
        json!({"type": "message", "id": id, "parentId": parent,
            "message": {"role": role, "content": id, "usage": {"input": 1, "output": 1}}})
    };
    let model = |id: &str, parent: Option<&str>, model: &str| {
        json!({"type": "model_change", "id": id, "parentId": parent,
            "provider": "p", "modelId": model})
    };
    let lines = [
        header(),
        model("00000001", None, "m1"),
        message("00000002", "00000001", "user"),
        message("00000003", "00000002", "assistant"),
        model("00000004", Some("00000003"), "m2"),
        message("00000005", "00000004", "user"),
        message("00000006", "00000005", "assistant"),
        // Back to before the second model.
        message("00000007", "00000003", "user"),
        message("00000008", "00000007", "assistant"),
        message("00000009", "00000008", "assistant"),
        // And forward again.
        message("0000000a", "00000006", "assistant"),
    ];
    let expected = "m1,m2,m1,m1,m2";
    let at_once = Home::new();
    at_once.write(SESSION_FILE, text(&lines));
    at_once.sync_and_check();
    let one_by_one = Home::quick();
    one_by_one.write(SESSION_FILE, text(&lines[..1]));
    for line in &lines[1..] {
        one_by_one.sync();
        one_by_one.append(SESSION_FILE, format!("{line}\n"));
    }
    one_by_one.sync_and_check();
    for home in [at_once, one_by_one] {
        for query in [
            "SELECT group_concat(model, ',' ORDER BY entry) FROM transcript WHERE role = 'assistant'",
            "SELECT group_concat(m.model, ',' ORDER BY u.entry)
               FROM usage u JOIN models m ON m.id = u.model
               JOIN entries e ON e.id = u.entry WHERE e.role = 'assistant'",
        ] {
            assert_eq!(home.one::<String>(query), expected, "{query}");
        }
        let turns = "SELECT group_concat(model, ',' ORDER BY id) FROM turns";
        assert_eq!(home.one::<String>(turns), "m1,m2,m1");
    }
}

#[test]
fn only_decoders_of_formats_with_records_are_compared() {
    let home = Home::new();
    home.write(SESSION_FILE, text(&[header(), answer("one", Some("m1"))]));
    home.sync();
    assert_eq!(home.one::<String>("SELECT group_concat(format) FROM decoders"), "openclaw");
    // A row that comes from no record stays until the projection is derived again.
    let mark = "INSERT INTO partly_indexed (entry, bytes) VALUES (1 << 30, 1)";
    let is_marked = "SELECT count(*) FROM partly_indexed WHERE entry = 1 << 30";
    home.sql().execute_batch(mark).unwrap();
    home.append(SESSION_FILE, text(&[answer("two", None)]));
    home.sync();
    assert_eq!(home.one::<i64>(is_marked), 1, "the other formats have no records");
    home.sql().execute_batch("UPDATE decoders SET version = version - 1").unwrap();
    home.append(SESSION_FILE, text(&[answer("three", None)]));
    home.sync();
    assert_eq!(home.one::<i64>(is_marked), 0, "an older decoder causes a rebuild");
    home.sync_and_check();
    // A newer decoder, or one that this build does not have.
    for newer in [
        "UPDATE decoders SET version = version + 1",
        "UPDATE decoders SET version = version - 1;
         INSERT INTO decoders (format, version) VALUES ('acme', 1)",
    ] {
        let mut open = home.open();
        home.sql().execute_batch(newer).unwrap();
        home.append(SESSION_FILE, text(&[answer("four", None)]));
        let collected = quipu_ledger::collect::collect(&mut open, &home.roots(), &mut |_| {});
        assert!(matches!(collected, Err(Error::Upgraded)), "{collected:?}");
    }
}
