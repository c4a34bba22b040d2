//! The index `sessions.json`: the session of each key, and the key's fields.
//!
//! Values keep the spelling of the original index.

use std::collections::{BTreeMap, HashMap};

use quipu_transcript::formats::openclaw::whole_index;
use quipu_transcript::index::{Holds, Index, field};
use quipu_transcript::key::SessionKey;
use quipu_transcript::time::Timestamp;
use rusqlite::Connection;
use serde_json::Value;

use super::{OPENCLAW, Planned};
use crate::Result;
use crate::base::ids::{SessionRow, SourceId};
use crate::read::query::native_keys::index_of;
use crate::store::openclaw_names as names;
use crate::store::{Fields, meta, sessions};
use crate::truth::indexes;

/// Returns the key of a native session.
pub(super) fn native_key(conn: &Connection, row: SessionRow) -> Result<Option<SessionKey>> {
    let session = sessions::by_row(conn, row)?;
    Ok(sessions::key_of(conn, &session)?.map(SessionKey::parse))
}

/// Returns the indexes of all agents.
pub(super) fn of(conn: &Connection, planned: &[Planned]) -> Result<Vec<(String, Fields)>> {
    let mut files: BTreeMap<&str, Fields> = BTreeMap::new();
    let mut times: HashMap<(&str, String), i64> = HashMap::new();
    let mut read = HashMap::new();
    for session in planned {
        let value = match session.is_native {
            true => own(conn, session.row)?,
            false => collected(conn, session, &mut read)?,
        };
        let index = files.entry(&session.folder).or_default();
        for (key, fields) in value {
            let key = key_in_files(&key, session);
            let (fields, updated) = finished(fields, session);
            // If a native and a collected session share a key, it leads to the newer one.
            let time = times.entry((&session.folder, key.clone())).or_insert(i64::MIN);
            if *time < updated {
                *time = updated;
                index.put(&key, &fields);
            }
        }
    }
    Ok(files
        .into_iter()
        .map(|(folder, index)| (format!("{folder}/sessions.json"), index))
        .collect())
}

/// Returns the fields of a native session, under each key that leads to it.
fn own(conn: &Connection, row: SessionRow) -> Result<Vec<(String, Fields)>> {
    let session = sessions::by_row(conn, row)?;
    let Some(source) = index_of(conn, &session.agent)? else { return Ok(Vec::new()) };
    let mut statement = conn.prepare_cached(
        "SELECT key, fields FROM session_keys WHERE source = ?1 AND session_id = ?2 ORDER BY key",
    )?;
    let mut rows = statement.query((source, &session.id))?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        let fields: String = row.get(1)?;
        let mut fields: Fields = serde_json::from_str(&fields).unwrap_or_default();
        let key: String = row.get(0)?;
        meta::add_counts_of_key(conn, &session, &key, &mut fields)?;
        keys.push((key, fields));
    }
    Ok(keys)
}

/// Returns the fields of a collected session in the agent's own index.
fn collected(
    conn: &Connection,
    session: &Planned,
    read: &mut HashMap<SourceId, Option<Index>>,
) -> Result<Vec<(String, Fields)>> {
    let mut statement = conn.prepare_cached(
        "SELECT source, key, fields FROM session_keys
          WHERE format = ?1 AND agent = ?2 AND session_id = ?3 ORDER BY key",
    )?;
    let mut rows = statement.query((OPENCLAW, &session.agent, &session.id))?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        let (source, key): (SourceId, String) = (row.get(0)?, row.get(1)?);
        // Reports and long values exist only in the bytes of the index.
        if let std::collections::hash_map::Entry::Vacant(place) = read.entry(source) {
            place.insert(indexes::load(conn, source)?.map(|bytes| whole_index(&bytes)));
        }
        let whole = read.get(&source).and_then(Option::as_ref).and_then(|index| {
            let binding = index.bindings.iter().find(|binding| binding.key == key)?;
            Some(Fields::of(binding))
        });
        let fields = match whole {
            Some(fields) => fields,
            None => serde_json::from_str(&row.get::<_, String>(2)?).unwrap_or_default(),
        };
        keys.push((key, fields));
    }
    Ok(keys)
}

/// Returns the key with the agent's name replaced by the name of its folder.
fn key_in_files(key: &str, session: &Planned) -> String {
    let folder = names::agent(&session.agent);
    match key.strip_prefix(&format!("agent:{}:", session.agent)) {
        Some(rest) if folder != session.agent => format!("agent:{folder}:{rest}"),
        _ => key.to_owned(),
    }
}

/// Returns an entry with the fields that every reader needs, and its time.
fn finished(mut fields: Fields, session: &Planned) -> (Fields, i64) {
    // Fields with these names are quipu's own.
    fields.retain(|name| !name.starts_with("quipu:") && name != "sessionFile");
    fields.put("sessionId", &session.session_id);
    // The older form of the specification has times as text.
    let is_time = |name: &&str| field(name).is_some_and(|field| field.holds == Holds::Time);
    let times: Vec<String> = fields.names().filter(is_time).map(str::to_owned).collect();
    for name in times {
        let value = fields.get(&name);
        if let Some(time) = value.as_ref().and_then(Value::as_str).and_then(Timestamp::from_text) {
            fields.put(&name, &time.0);
        }
    }
    let value = fields.get("updatedAt");
    let time = value.as_ref().and_then(|value| {
        value.as_i64().or_else(|| Some(Timestamp::from_number(value.as_f64()?)?.0))
    });
    let updated = time.or(session.updated_at).or(session.started_at).unwrap_or(0);
    // Readers accept any number, so it is kept as it is.
    if !value.is_some_and(|value| value.is_number()) {
        fields.put("updatedAt", &updated);
    }
    if session.stem != session.session_id {
        fields.put("sessionFile", &format!("{}.jsonl", session.stem));
    }
    (fields, updated)
}
