//! A person's own SQL statements: they can read everything, change nothing, and always end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use quipu_ledger::Ledger;
use quipu_ledger::query::{SqlAnswer, SqlLimits};
use quipu_ledger::wire::SqlValue;

use crate::home::*;

fn home() -> Home {
    let home = Home::quick();
    home.write(
        ".openclaw/agents/main/sessions/s1.jsonl",
        "{\"role\":\"user\",\"content\":\"herring\"}\n",
    );
    home.sync();
    home
}

fn ask(home: &Home, sql: &str) -> Result<Vec<Vec<SqlValue>>, String> {
    ask_within(home, sql, &SqlLimits::default())
}

fn ask_within(home: &Home, sql: &str, limits: &SqlLimits) -> Result<Vec<Vec<SqlValue>>, String> {
    let mut rows = Vec::new();
    let ledger = Ledger::open_read_only(&home.ledger_path()).unwrap();
    let asked = quipu_ledger::query::sql(ledger, sql, limits, &mut |answer| {
        if let SqlAnswer::Row(row) = answer {
            rows.push(row.to_vec());
        }
        true
    });
    asked.map(|()| rows).map_err(|error| error.to_string())
}

#[test]
fn values_of_every_kind_are_returned() {
    let home = home();
    let text = |text: &str| SqlValue::Text(text.to_owned());
    assert_eq!(
        ask(&home, "SELECT NULL, 1, 1.5, 'a', x'00ff'").unwrap(),
        [vec![
            SqlValue::Null,
            SqlValue::Integer(1),
            SqlValue::Real(1.5),
            text("a"),
            SqlValue::Blob(vec![0, 255])
        ]]
    );
    assert_eq!(ask(&home, "SELECT text FROM messages;").unwrap(), [[text("herring")]]);
    let found = "SELECT count(*) FROM search WHERE search MATCH 'herring'";
    assert_eq!(ask(&home, found).unwrap(), [[SqlValue::Integer(1)]]);
    assert_eq!(ask(&home, "SELECT CAST(x'ff61' AS TEXT)").unwrap(), [[text("\u{fffd}a")]]);
    assert!(ask(&home, "PRAGMA table_info(turns)").unwrap().len() > 5);
    assert!(ask(&home, "EXPLAIN QUERY PLAN SELECT * FROM turns").is_ok());
    assert!(ask(&home, "WITH RECURSIVE c(x) AS (SELECT 1 UNION SELECT x + 1 FROM c WHERE x < 9) SELECT * FROM c").unwrap().len() == 9);
}

/// `raw` returns lines as they were written, and nothing for what is not an entry.
#[test]
fn raw_returns_the_line_of_an_entry() {
    let home = home();
    let line = SqlValue::Text(r#"{"role":"user","content":"herring"}"#.to_owned());
    assert_eq!(ask(&home, "SELECT raw(id) FROM messages").unwrap(), [[line]]);
    assert_eq!(
        ask(&home, "SELECT raw(NULL), raw(-1)").unwrap(),
        [[SqlValue::Null, SqlValue::Null]]
    );
    let member = "SELECT raw(id) ->> '$.content' FROM messages";
    assert_eq!(ask(&home, member).unwrap(), [[SqlValue::Text("herring".to_owned())]]);
    assert!(ask(&home, "SELECT raw(999)").is_err(), "there is no such record");
    // More calls than one chunk, and a statement that ends before all rows are read.
    let many = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 2000)
                SELECT count(raw(1)) FROM c";
    assert_eq!(ask(&home, many).unwrap(), [[SqlValue::Integer(2000)]]);
}

/// `text` also returns the text of tool results, which no table has; ids of sessions are text.
#[test]
fn text_returns_that_of_results() {
    let home = Home::with_fixtures();
    home.sync();
    let result = "SELECT text, text(entry) FROM transcript
                   WHERE role = 'toolResult' AND text(entry) <> '' ORDER BY entry LIMIT 1";
    let rows = ask(&home, result).unwrap();
    assert!(matches!(rows[0].as_slice(), [SqlValue::Null, SqlValue::Text(_)]), "{rows:?}");
    let differing = "SELECT count(*) FROM transcript WHERE text IS NOT text(entry) AND text <> ''";
    assert_eq!(ask(&home, differing).unwrap(), [[SqlValue::Integer(0)]]);
    assert_eq!(ask(&home, "SELECT text(NULL)").unwrap(), [[SqlValue::Null]]);
    let ids = "SELECT count(*) FROM sessions s JOIN entries e ON e.session = s.id
                WHERE typeof(s.first_uuid) = 'text' AND e.entry_id = s.first_uuid";
    assert_ne!(ask(&home, ids).unwrap(), [[SqlValue::Integer(0)]]);
}

/// No statement changes a byte, in the ledger or elsewhere.
#[test]
fn no_statement_can_write() {
    let home = home();
    let before = home.ledger_bytes();
    let outside = home.scratch("outside.db");
    let outside = outside.to_str().unwrap();
    for statement in [
        "DELETE FROM sessions",
        "INSERT INTO turns SELECT * FROM turns",
        "UPDATE ledger SET epoch = 'x'",
        "REPLACE INTO kinds SELECT * FROM kinds",
        "DROP TABLE sessions",
        "ALTER TABLE sessions ADD COLUMN x",
        "CREATE TABLE x (y)",
        "CREATE TEMP TABLE x (y)",
        "CREATE TEMP TRIGGER t AFTER INSERT ON turns BEGIN SELECT 1; END",
        "CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, search, row)",
        "INSERT INTO search (search) VALUES ('rebuild')",
        "BEGIN",
        "BEGIN IMMEDIATE",
        "SAVEPOINT x",
        "VACUUM",
        "REINDEX",
        "ANALYZE",
        "PRAGMA user_version = 9",
        "PRAGMA query_only = 0",
        "PRAGMA writable_schema = 1",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "PRAGMA trusted_schema = 1",
        "PRAGMA hard_heap_limit = 0",
        "PRAGMA temp_store_directory = '/'",
        "PRAGMA incremental_vacuum",
        "SELECT load_extension('x')",
        "SELECT fts3_tokenizer('unicode61')",
        "EXPLAIN DELETE FROM sessions",
        "SELECT 1; DELETE FROM sessions",
        "WITH x AS (SELECT 1) DELETE FROM sessions",
    ] {
        assert!(ask(&home, statement).is_err(), "{statement}");
    }
    for statement in [
        format!("ATTACH '{outside}' AS other"),
        format!("VACUUM INTO '{outside}'"),
        "DETACH main".to_owned(),
        format!("ATTACH 'file:{outside}?mode=rwc' AS other"),
    ] {
        assert!(ask(&home, &statement).is_err(), "{statement}");
    }
    assert!(!home.scratch("outside.db").exists());
    assert_eq!(before["ledger.db"], home.ledger_bytes()["ledger.db"]);
}

#[test]
fn errors_name_the_fault() {
    let home = home();
    for (statement, message) in [
        ("", "the query is empty"),
        (" -- only a comment", "the query is empty"),
        ("SELECT 1; SELECT 2", "only one statement is allowed"),
        ("DELETE FROM turns", "the query is not read-only"),
        ("SELECT * FROM nowhere", "no such table: nowhere"),
        ("SELECT colour FROM turns", "no such column: colour"),
        ("SELECT ?", "parameters (`?`) are not supported; write the values into the query"),
    ] {
        assert_eq!(ask(&home, statement).unwrap_err(), message, "{statement}");
    }
    let broken = ["SELEC", "SELECT (", "SELECT 'a", "\0", "SELECT \u{0}"];
    for statement in broken {
        assert!(ask(&home, statement).is_err(), "{statement:?}");
    }
    let deep = format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000));
    assert!(ask(&home, &deep).is_err());
    let long = format!("SELECT '{}'", "x".repeat(2 << 20));
    assert!(ask(&home, &long).is_err());
    assert!(ask(&home, "SELECT zeroblob(1000000000)").is_err());
}

const ENDLESS: &str =
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT sum(x % 7) FROM c";

#[test]
fn an_endless_query_is_ended() {
    let home = home();
    let limits = SqlLimits { longest: Some(Duration::ZERO), ..SqlLimits::default() };
    assert_eq!(
        ask_within(&home, ENDLESS, &limits).unwrap_err(),
        "the query reached its time limit"
    );
    let limits = SqlLimits::default();
    limits.stop.store(true, Ordering::Relaxed);
    assert_eq!(ask_within(&home, ENDLESS, &limits).unwrap_err(), "interrupted");
    // A caller that stops early gets no more rows.
    let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c";
    let mut rows = 0;
    let enough = &mut |answer: SqlAnswer<'_>| {
        rows += usize::from(matches!(answer, SqlAnswer::Row(_)));
        rows < 10
    };
    let ledger = Ledger::open_read_only(&home.ledger_path()).unwrap();
    quipu_ledger::query::sql(ledger, endless, &SqlLimits::default(), enough).unwrap();
    assert_eq!(rows, 10);
}

/// SQLite checks for interrupts between two steps; each of these functions is a single step.
#[test]
fn a_query_that_stays_in_a_function_is_ended() {
    let home = home();
    // Takes seconds: every position is compared with the whole other text.
    for endless in [
        "instr(printf('%.*c', 400000, 'a'), printf('%.*c', 200000, 'a') || 'b')",
        "replace(printf('%.*c', 400000, 'a'), printf('%.*c', 200000, 'a') || 'b', '') IS NULL",
    ] {
        // Not a constant, which would be computed before the first row.
        let sql = format!("SELECT value AND {endless} FROM json_each('[1]')");
        let limits = SqlLimits { longest: Some(Duration::ZERO), ..SqlLimits::default() };
        assert_eq!(
            ask_within(&home, &sql, &limits).unwrap_err(),
            "the query reached its time limit"
        );
        let limits = SqlLimits::default();
        limits.stop.store(true, Ordering::Relaxed);
        assert_eq!(ask_within(&home, &sql, &limits).unwrap_err(), "interrupted");
    }
    // The abandoned threads still read, but the ledger can be written to.
    home.write(
        ".openclaw/agents/main/sessions/s2.jsonl",
        "{\"role\":\"user\",\"content\":\"b\"}\n",
    );
    assert_eq!(home.sync().records_added, 1);
    home.assert_sound();
}
