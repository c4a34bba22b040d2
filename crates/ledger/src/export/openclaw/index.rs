//! `sessions.json`: which key leads to which session, and what is noted about it.

use std::collections::{BTreeMap, HashMap};

use quipu_transcript::formats::openclaw::whole_index;
use quipu_transcript::index::Index;
use quipu_transcript::key::SessionKey;
use rusqlite::Connection;
use serde_json::{Map, Value};

use super::{OPENCLAW, Planned};
use crate::ids::{SessionRow, SourceId};
use crate::store::{Fields, meta, sessions};
use crate::{Result, indexes};

/// The key of one of our own sessions.
pub(super) fn native_key(conn: &Connection, row: SessionRow) -> Result<Option<SessionKey>> {
    let session = sessions::by_row(conn, row)?;
    Ok(sessions::key_of(conn, &session)?.map(SessionKey::parse))
}

/// The indexes of all agents.
pub(super) fn of(
    conn: &Connection,
    planned: &[Planned],
) -> Result<Vec<(String, Map<String, Value>)>> {
    let mut files: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    let mut read = HashMap::new();
    for session in planned {
        let said = match session.is_native {
            true => own(conn, session.row)?,
            false => collected(conn, session, &mut read)?,
        };
        let index = files.entry(&session.folder).or_default();
        for (key, fields) in said {
            let key = key_in_files(&key, session);
            let fields = finished(fields, session);
            // Two sessions of one key: one of ours and a collected one. The key leads to the newer.
            let is_newer = index.get(&key).is_none_or(|before| updated(before) < updated(&fields));
            if is_newer {
                index.insert(key, fields);
            }
        }
    }
    Ok(files
        .into_iter()
        .map(|(folder, index)| (format!("{folder}/sessions.json"), index))
        .collect())
}

fn updated(entry: &Value) -> i64 {
    entry.get("updatedAt").and_then(Value::as_i64).unwrap_or(0)
}

/// What is noted about one of our own sessions, under each key that leads to it.
fn own(conn: &Connection, row: SessionRow) -> Result<Vec<(String, Map<String, Value>)>> {
    let session = sessions::by_row(conn, row)?;
    let Some(source) = sessions::index_of(conn, &session.agent)? else { return Ok(Vec::new()) };
    let mut statement = conn.prepare_cached(
        "SELECT key, fields FROM session_keys WHERE source = ?1 AND session_id = ?2 ORDER BY key",
    )?;
    let mut rows = statement.query((source, &session.id))?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        let fields: String = row.get(1)?;
        let mut fields: Fields = serde_json::from_str(&fields).unwrap_or_default();
        let key: String = row.get(0)?;
        meta::count_for(conn, &session, &key, &mut fields)?;
        keys.push((key, fields.to_map()));
    }
    Ok(keys)
}

/// What the agent's own index says about a collected session.
fn collected(
    conn: &Connection,
    session: &Planned,
    read: &mut HashMap<SourceId, Option<Index>>,
) -> Result<Vec<(String, Map<String, Value>)>> {
    let mut statement = conn.prepare_cached(
        "SELECT source, key, fields FROM session_keys
          WHERE format = ?1 AND agent = ?2 AND session_id = ?3 ORDER BY key",
    )?;
    let mut rows = statement.query((OPENCLAW, &session.agent, &session.id))?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        let (source, key): (SourceId, String) = (row.get(0)?, row.get(1)?);
        // Reports and long values stand only in the index's bytes.
        if let std::collections::hash_map::Entry::Vacant(place) = read.entry(source) {
            place.insert(indexes::load(conn, source)?.map(|bytes| whole_index(&bytes)));
        }
        let whole = read.get(&source).and_then(Option::as_ref).and_then(|index| {
            let binding = index.bindings.iter().find(|binding| binding.key == key)?;
            Some(binding.fields.clone())
        });
        let fields = match whole {
            Some(fields) => fields,
            None => serde_json::from_str(&row.get::<_, String>(2)?).unwrap_or_default(),
        };
        keys.push((key, fields));
    }
    Ok(keys)
}

/// A key of an agent whose folder has another name.
fn key_in_files(key: &str, session: &Planned) -> String {
    let folder = super::names::agent(&session.agent);
    match key.strip_prefix(&format!("agent:{}:", session.agent)) {
        Some(rest) if folder != session.agent => format!("agent:{folder}:{rest}"),
        _ => key.to_owned(),
    }
}

/// An entry with what every reader needs.
fn finished(mut fields: Map<String, Value>, session: &Planned) -> Value {
    // Names that only quipu uses.
    fields.retain(|name, _| !name.starts_with("quipu:"));
    fields.insert("sessionId".to_owned(), session.session_id.as_str().into());
    let said = fields.get("updatedAt").and_then(Value::as_i64);
    let updated = said.or(session.updated_at).or(session.started_at).unwrap_or(0);
    fields.insert("updatedAt".to_owned(), updated.into());
    if session.stem == session.session_id {
        fields.remove("sessionFile");
    } else {
        fields.insert("sessionFile".to_owned(), format!("{}.jsonl", session.stem).into());
    }
    Value::Object(fields)
}
