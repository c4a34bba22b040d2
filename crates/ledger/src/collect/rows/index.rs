//! The database's keys as one document in the form of an earlier `sessions.json`: a key
//! leads to its current session, with all its fields.

use std::collections::BTreeMap;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::refusal::{Stop, theirs};
use super::session::text;
use super::tables::{self, Tables};

/// The smallest document, in bytes, whose large values are left out. Skill prompts of 300 KB were
/// seen in each of thousands of keys.
const LARGE_INDEX_BYTES: usize = 64 << 20;

/// The size, in bytes, above which a value counts as large.
const LARGE_VALUE_BYTES: usize = 4 << 10;

/// Fields that have their own columns, with the position in the statement. The entry's own value
/// wins.
const COLUMNS: &[(&str, usize)] = &[
    ("updatedAt", 4),
    ("status", 5),
    ("label", 6),
    ("displayName", 7),
    ("category", 8),
    ("parentSessionKey", 9),
    ("spawnedBy", 10),
    ("archivedAt", 11),
    ("pinnedAt", 12),
    ("createdAt", 13),
];

/// A transcript that a key has led to.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Window {
    session_id: String,
    previous_session_id: Option<String>,
    reason: Option<String>,
    started_at: Option<i64>,
    ended_at: Option<i64>,
}

/// Fields by name, each value as it was written.
type Fields = BTreeMap<String, Box<RawValue>>;

/// Returns the document, with sorted keys, so that the same tables always give the same bytes.
/// Returns `None` if the database has no table of keys.
pub(super) fn index_document(conn: &Connection, tables: &Tables) -> Result<Option<Vec<u8>>, Stop> {
    let Some(sql) = tables::keys(tables) else { return Ok(None) };
    let mut windows = windows(conn, tables)?;
    let mut document: BTreeMap<String, Fields> = BTreeMap::new();
    let mut weight = 0;
    let mut statement = conn.prepare(&sql).map_err(theirs)?;
    let mut rows = statement.query([]).map_err(theirs)?;
    while let Some(row) = rows.next().map_err(theirs)? {
        let (key, mut fields) = entry(row).map_err(theirs)?;
        if let Some(windows) = windows.remove(&key) {
            fields.extend(raw(&windows).map(|raw| ("quipu:windows".to_owned(), raw)));
        }
        if weight > LARGE_INDEX_BYTES {
            let before = fields.len();
            fields.retain(|_, value| value.get().len() <= LARGE_VALUE_BYTES);
            if fields.len() < before {
                fields.extend(raw(&true).map(|raw| ("quipu:shortened".to_owned(), raw)));
            }
        }
        weight += fields.values().map(|value| value.get().len()).sum::<usize>();
        document.insert(key, fields);
    }
    Ok(serde_json::to_vec(&document).ok())
}

/// Returns a key with its fields.
fn entry(row: &Row<'_>) -> rusqlite::Result<(String, Fields)> {
    let mut fields: Fields = match row.get_ref(3)? {
        ValueRef::Text(json) | ValueRef::Blob(json) => match serde_json::from_slice(json) {
            Ok(fields) => fields,
            Err(_) => broken(),
        },
        // An older schema may have no such column.
        ValueRef::Null => Fields::new(),
        _ => broken(),
    };
    // The current session of the key; before there were windows, the only one.
    for index in [1, 2] {
        if let ValueRef::Text(_) = row.get_ref(index)? {
            fields
                .extend(raw(&text(row.get_ref(index)?)?).map(|raw| ("sessionId".to_owned(), raw)));
            break;
        }
    }
    for (name, index) in COLUMNS {
        let value = match row.get_ref(*index)? {
            ValueRef::Text(bytes) => raw(&String::from_utf8_lossy(bytes)),
            ValueRef::Integer(number) => raw(&number),
            _ => None,
        };
        if let Some(value) = value {
            fields.entry((*name).to_owned()).or_insert(value);
        }
    }
    Ok((text(row.get_ref(0)?)?, fields))
}

fn broken() -> Fields {
    raw(&true).map(|raw| ("quipu:broken".to_owned(), raw)).into_iter().collect()
}

fn windows(conn: &Connection, tables: &Tables) -> Result<BTreeMap<String, Vec<Window>>, Stop> {
    let mut windows: BTreeMap<String, Vec<Window>> = BTreeMap::new();
    let Some(sql) = tables::windows(tables) else { return Ok(windows) };
    let mut statement = conn.prepare(&sql).map_err(theirs)?;
    let mut rows = statement.query([]).map_err(theirs)?;
    while let Some(row) = rows.next().map_err(theirs)? {
        let (key, window) = window(row).map_err(theirs)?;
        windows.entry(key).or_default().push(window);
    }
    Ok(windows)
}

fn window(row: &Row<'_>) -> rusqlite::Result<(String, Window)> {
    let word = |index| text(row.get_ref(index)?);
    let optional = |index| Ok::<_, rusqlite::Error>(Some(word(index)?).filter(|w| !w.is_empty()));
    let time = |index| Ok::<_, rusqlite::Error>(row.get_ref(index)?.as_i64().ok());
    let window = Window {
        session_id: word(1)?,
        previous_session_id: optional(2)?,
        reason: optional(3)?,
        started_at: time(4)?,
        ended_at: time(5)?,
    };
    Ok((word(0)?, window))
}

fn raw<T: Serialize + ?Sized>(value: &T) -> Option<Box<RawValue>> {
    to_raw_value(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sql: &str, expected: serde_json::Value) {
        let mut conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(sql).unwrap();
        conn.authorizer(Some(tables::authorize)).unwrap();
        let tables = Tables::of(&conn).unwrap();
        let Ok(document) = index_document(&conn, &tables) else { panic!("refused") };
        let found = document
            .map_or(serde_json::Value::Null, |document| serde_json::from_slice(&document).unwrap());
        assert_eq!(found, expected);
    }

    #[test]
    fn nodes_and_windows_become_one_document() {
        check(
            r#"CREATE TABLE session_nodes (session_key TEXT, current_session_id TEXT, entry_json TEXT,
                    updated_at INTEGER, status TEXT, label TEXT, archived_at INTEGER, secret TEXT);
               INSERT INTO session_nodes VALUES
                    ('b', 's2', '{"sessionId":"old","updatedAt":7,"z":{"y":1.0}}', 8, 'done', 'Shop', NULL, 'x'),
                    ('a', 's1', 'no json', 9, NULL, NULL, 5, 'x');
               CREATE TABLE session_windows (session_id TEXT, session_key TEXT,
                    previous_session_id TEXT, reason TEXT, started_at INTEGER, ended_at INTEGER,
                    created_at INTEGER);
               INSERT INTO session_windows VALUES
                    ('s2', 'b', 's0', 'reset', 2, NULL, 20), ('s0', 'b', NULL, 'initial', 1, 2, 10)"#,
            serde_json::json!({
                "a": { "sessionId": "s1", "updatedAt": 9, "archivedAt": 5, "quipu:broken": true },
                "b": {
                    "sessionId": "s2", "updatedAt": 7, "status": "done", "label": "Shop",
                    "z": { "y": 1.0 },
                    "quipu:windows": [
                        { "sessionId": "s0", "previousSessionId": null, "reason": "initial",
                          "startedAt": 1, "endedAt": 2 },
                        { "sessionId": "s2", "previousSessionId": "s0", "reason": "reset",
                          "startedAt": 2, "endedAt": null },
                    ],
                },
            }),
        );
    }

    #[test]
    fn older_schemas_give_the_fields_that_they_have() {
        check("CREATE TABLE other (a)", serde_json::Value::Null);
        check(
            r#"CREATE TABLE sessions (session_key TEXT, session_id TEXT, entry_json TEXT);
               INSERT INTO sessions VALUES ('k', 's', '{"chatType":"direct"}'), ('n', 't', NULL)"#,
            serde_json::json!({
                "k": { "sessionId": "s", "chatType": "direct" },
                "n": { "sessionId": "t" },
            }),
        );
    }

    #[test]
    fn the_same_tables_give_the_same_bytes() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(
            r#"CREATE TABLE session_nodes (session_key TEXT, current_session_id TEXT, entry_json TEXT);
               INSERT INTO session_nodes VALUES ('k', 's', '{"b":12345678901234567890123,"a":1}')"#,
        )
        .unwrap();
        let tables = Tables::of(&conn).unwrap();
        let Ok(document) = index_document(&conn, &tables) else { panic!("refused") };
        let expected = r#"{"k":{"a":1,"b":12345678901234567890123,"sessionId":"s"}}"#;
        assert_eq!(document.as_deref(), Some(expected.as_bytes()));
    }
}
