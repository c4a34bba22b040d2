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

/// The indexes of all agents.
#[derive(Debug, Clone, Default)]
pub struct Indexes {
    /// The path and the keys of each.
    pub files: Vec<(String, Fields)>,
    /// Keys that are written in another spelling: the key, and what is written.
    pub respelled: Vec<(String, String)>,
}

/// A key that leads to a session.
struct Entry<'a> {
    session: &'a Planned,
    key: String,
    fields: Fields,
    updated_at: i64,
}

/// Returns the indexes of all agents.
pub(super) fn of(conn: &Connection, planned: &[Planned]) -> Result<Indexes> {
    let mut files: BTreeMap<&str, BTreeMap<String, Vec<Entry<'_>>>> = BTreeMap::new();
    let mut read = HashMap::new();
    for session in planned {
        let index = files.entry(&session.folder).or_default();
        if session.deleted.is_some() {
            continue;
        }
        let value = match session.is_native {
            true => own(conn, session.row)?,
            false => collected(conn, session, &mut read)?,
        };
        for (key, fields) in value {
            let (fields, updated_at) = finished(fields, session);
            let written = written(&key, session);
            index.entry(written).or_default().push(Entry { session, key, fields, updated_at });
        }
    }
    let mut indexes = Indexes::default();
    for (folder, keys) in files {
        let mut index = Fields::default();
        let mut others = Vec::new();
        for (written, mut entries) in keys {
            // If several sessions share a key, it leads to the newest one.
            entries.sort_by_key(|entry| std::cmp::Reverse(entry.updated_at));
            let mut entries = entries.into_iter();
            let Some(first) = entries.next() else { continue };
            index.put(&written, &first.fields);
            // If different keys got the same spelling, the other sessions get keys made from their
            // ids.
            let is_other = |entry: &Entry<'_>| {
                entry.key != first.key && entry.session.session_id != first.session.session_id
            };
            others.extend(entries.filter(is_other));
            if first.key != written {
                indexes.respelled.push((first.key, written));
            }
        }
        for Entry { session, key, fields, .. } in others {
            let written = written(&format!("explicit:{}", session.session_id), session);
            if index.get(&written).is_none() {
                index.put(&written, &fields);
                indexes.respelled.push((key, written));
            }
        }
        indexes.files.push((format!("{folder}/sessions.json"), index));
    }
    Ok(indexes)
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

/// Returns the key as OpenClaw accepts it, with the name of the agent's folder as its agent.
fn written(key: &str, session: &Planned) -> String {
    let folder = names::agent(&session.agent);
    let key = match key.strip_prefix(&format!("agent:{}:", session.agent)) {
        Some(rest) => SessionKey::parse(format!("agent:{folder}:{rest}")),
        None => SessionKey::parse(key),
    };
    key.for_openclaw(&folder)
}

/// The fields that hold session keys.
const KEY_FIELDS: [&str; 5] = [
    "sessionKey",
    "spawnedBy",
    "parentSessionKey",
    "usageFamilyKey",
    "heartbeatIsolatedBaseSessionKey",
];

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
    for name in KEY_FIELDS {
        let value = fields.get(name);
        if let Some(key) = value.as_ref().and_then(Value::as_str).filter(|key| !key.is_empty()) {
            fields.put(name, &written(key, session));
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
