//! Session keys, and the sessions to which they lead.
//!
//! `key_history` comes from the journal and is permanent. `session_keys` shows the newest bytes of
//! each index, with counters and times, and the patched fields of native keys. Parents of sessions
//! follow from the history, whether a transcript or its index is collected first.
//!
//! An index may leave open to which of a few sessions a key leads: a thread's transcript may be
//! named with or without its thread. `key_options` has them all, and the key leads to the first of
//! them that exists. Each new session is looked up there, so the order does not matter.

use std::collections::BTreeSet;

use quipu_transcript::format::{self, Format};
use quipu_transcript::index::Binding;
use quipu_transcript::key::{Kind, SessionKey};
use rusqlite::{Connection, OptionalExtension};
use serde_json::{Map, Value};

use super::session::Name;
use super::states;
use crate::Result;
use crate::base::ids::{Seq, SourceId};
use crate::truth::fields::Fields;
use crate::truth::indexes;

/// A line of the journal about a key.
pub(crate) struct KeyEvent<'a> {
    pub(crate) key: &'a str,
    pub(crate) session: Option<&'a str>,
    pub(crate) parent_key: Option<&'a str>,
    pub(crate) is_subagent: bool,
    pub(crate) fields: &'a Map<String, Value>,
}

/// Projects a line of the journal about a key.
pub(crate) fn project_event(
    tx: &Connection,
    seq: Seq,
    source: SourceId,
    event: &KeyEvent<'_>,
) -> Result<()> {
    let Some((format, agent)) = index_format_and_agent(tx, source)? else { return Ok(()) };
    let fields = serde_json::to_string(event.fields).unwrap_or_default();
    let options = match event.session {
        Some(session) => format.sessions_of_key(event.key, session, event.fields),
        None => Vec::new(),
    };
    let format = format.name();
    let session = choose(tx, format, &agent, &options)?;
    tx.prepare_cached(
        "INSERT INTO key_history
            (seq, source, format, agent, key, session_id, parent_key, is_subagent, fields)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute((
        seq,
        source,
        format,
        &agent,
        event.key,
        session,
        event.parent_key,
        event.is_subagent,
        fields,
    ))?;
    for (rank, option) in options.iter().enumerate().filter(|_| options.len() > 1) {
        tx.prepare_cached("INSERT INTO key_options (seq, rank, session_id) VALUES (?1, ?2, ?3)")?
            .execute((seq, rank as i64, option))?;
    }
    if let Some(session) = session {
        update_links(tx, &Name { format, agent, id: session.to_owned() })?;
    }
    // Some children may have been stored before their parent.
    update_children(tx, format, event.key)
}

/// Updates the rows of the sessions whose parent has that key.
fn update_children(tx: &Connection, format: &'static str, key: &str) -> Result<()> {
    let children: Vec<(String, String)> = tx
        .prepare_cached(
            "SELECT DISTINCT agent, session_id FROM key_history
              WHERE format = ?1 AND parent_key = ?2 AND session_id IS NOT NULL",
        )?
        .query_map((format, key), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (agent, id) in children {
        update_links(tx, &Name { format, agent, id })?;
    }
    Ok(())
}

/// Returns the session to which a key leads: the first of these that exists, or else the first.
fn choose<'o>(
    conn: &Connection,
    format: &str,
    agent: &str,
    options: &'o [String],
) -> Result<Option<&'o String>> {
    if options.len() > 1 {
        let mut exists = conn.prepare_cached(
            "SELECT 1 FROM sessions WHERE format = ?1 AND agent = ?2 AND session_id = ?3",
        )?;
        for option in options {
            if exists.exists((format, agent, option))? {
                return Ok(Some(option));
            }
        }
    }
    Ok(options.first())
}

/// Decides again about the keys that may lead to a session, after it was added or renamed.
pub(crate) fn choose_again(conn: &Connection, name: &Name) -> Result<()> {
    update_time(conn, name)?;
    let history: Vec<(Seq, SourceId, String, String)> = conn
        .prepare_cached(
            "SELECT h.seq, h.source, h.key, h.session_id
               FROM key_options o CROSS JOIN key_history h ON h.seq = o.seq
              WHERE o.session_id = ?1 AND h.format = ?2 AND h.agent = ?3 ORDER BY h.seq",
        )?
        .query_map((&name.id, name.format, &name.agent), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?
        .collect::<Result<_, _>>()?;
    let (mut keys, mut sessions) = (BTreeSet::new(), BTreeSet::new());
    for (seq, source, key, before) in history {
        let options: Vec<String> = conn
            .prepare_cached("SELECT session_id FROM key_options WHERE seq = ?1 ORDER BY rank")?
            .query_map([seq], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let Some(now) = choose(conn, name.format, &name.agent, &options)? else { continue };
        if *now == before {
            continue;
        }
        conn.prepare_cached("UPDATE key_history SET session_id = ?2 WHERE seq = ?1")?
            .execute((seq, now))?;
        conn.prepare_cached(
            "UPDATE session_keys SET session_id = ?3
              WHERE source = ?1 AND key = ?2 AND session_id = ?4",
        )?
        .execute((source, &key, now, &before))?;
        keys.insert(key);
        sessions.extend([before, now.clone()]);
    }
    for id in sessions {
        let name = Name { id, ..name.clone() };
        update_links(conn, &name)?;
        update_time(conn, &name)?;
        states::update_named(conn, &name)?;
    }
    keys.iter().try_for_each(|key| update_children(conn, name.format, key))
}

/// Projects a line of the journal about a key of a native session.
pub(crate) fn patch(
    tx: &Connection,
    seq: Seq,
    source: SourceId,
    key: &str,
    session: &str,
    patch: &Fields,
) -> Result<()> {
    let before: Option<(Option<String>, String)> = tx
        .prepare_cached(
            "SELECT session_id, fields FROM session_keys WHERE source = ?1 AND key = ?2",
        )?
        .query_row((source, key), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (led_to, mut fields) = match before {
        Some((session, fields)) => (session, serde_json::from_str(&fields).unwrap_or_default()),
        None => (None, Fields::default()),
    };
    fields.change(patch);
    let binding = Binding::of(key, Some(session.to_owned()), fields.to_map());
    if led_to.as_deref() != Some(session) || patch.names().any(names_parent) {
        let event = KeyEvent {
            key,
            session: Some(session),
            parent_key: binding.parent_key.as_deref(),
            is_subagent: binding.is_subagent,
            fields: &binding.noted(),
        };
        project_event(tx, seq, source, &event)?;
    }
    let Some((format, agent)) = index_format_and_agent(tx, source)? else { return Ok(()) };
    write_row(tx, source, (format, &agent), &binding, &fields.json())?;
    match led_to.filter(|before| before != session) {
        Some(id) => update_time(tx, &Name { format: format.name(), agent, id }),
        None => Ok(()),
    }
}

/// Returns whether a field names the parent of a session.
fn names_parent(name: &str) -> bool {
    matches!(name, "spawnedBy" | "parentSessionKey")
}

/// Returns the format and the agent of an index.
pub(crate) fn index_format_and_agent(
    conn: &Connection,
    source: SourceId,
) -> Result<Option<(&'static dyn Format, String)>> {
    let found: Option<(String, Vec<u8>)> = conn
        .prepare_cached("SELECT format, first_path FROM sources WHERE id = ?1")?
        .query_row([source], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(found.and_then(|(name, path)| {
        let format = format::by_name(&name)?;
        Some((format, format.origin(&path).agent.unwrap_or_default()))
    }))
}

/// The data of the indexes about a session.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// The key that last led to the session.
    pub(crate) key: Option<String>,
    pub(crate) is_subagent: bool,
    pub(crate) parent_session_id: Option<String>,
    /// The parent's agent, if it is another one.
    pub(crate) parent_agent: Option<String>,
}

/// Returns the data of the indexes about a session.
pub(crate) fn load_link(conn: &Connection, name: &Name) -> Result<Option<Link>> {
    if !format::by_name(name.format).is_some_and(format::Format::has_index) {
        return Ok(None);
    }
    let first_row = |what: &str| {
        conn.prepare_cached(&format!(
            "SELECT key, parent_key, seq FROM key_history
              WHERE format = ?1 AND agent = ?2 AND session_id = ?3 {what} LIMIT 1"
        ))?
        .query_row((name.format, &name.agent, &name.id), |row| {
            Ok((row.get(0)?, row.get::<_, Option<String>>(1)?, row.get::<_, Seq>(2)?))
        })
        .optional()
    };
    let Some((key, ..)) = first_row("ORDER BY seq DESC")? else { return Ok(None) };
    let is_subagent = first_row("AND is_subagent")?.is_some();
    // The first parent stays, because a session is started only once.
    let parent = match first_row("AND parent_key IS NOT NULL ORDER BY seq")? {
        Some((_, Some(parent_key), seq)) => parent_session(conn, name.format, &parent_key, seq)?,
        _ => None,
    };
    let (parent_agent, parent_session_id) = parent.unzip();
    Ok(Some(Link {
        key,
        is_subagent,
        parent_session_id,
        parent_agent: parent_agent.filter(|agent| *agent != name.agent),
    }))
}

/// Returns the session to which a key led when a child first named it: the last one before, or else
/// the first one after.
fn parent_session(
    conn: &Connection,
    format: &str,
    key: &str,
    at: Seq,
) -> Result<Option<(String, String)>> {
    Ok(conn
        .prepare_cached(
            "SELECT agent, session_id FROM key_history
              WHERE format = ?1 AND key = ?2 AND session_id IS NOT NULL
              ORDER BY seq > ?3, abs(seq - ?3) LIMIT 1",
        )?
        .query_row((format, key, at), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?)
}

/// Updates the row of a session from the indexes.
fn update_links(tx: &Connection, name: &Name) -> Result<()> {
    // If the key leads to another session by now, this session has no link.
    let link = load_link(tx, name)?.unwrap_or_default();
    tx.prepare_cached(
        "UPDATE sessions
            SET session_key = ?4, parent_session_id = coalesce(?5, parent_session_id), parent_agent = ?6,
                part = CASE WHEN ?7 THEN 'subagent' ELSE part END
          WHERE format = ?1 AND agent = ?2 AND session_id = ?3",
    )?
    .execute((
        name.format,
        &name.agent,
        &name.id,
        link.key,
        link.parent_session_id,
        link.parent_agent,
        link.is_subagent,
    ))?;
    Ok(())
}

/// Updates the time of a session's last activity from the indexes.
fn update_time(tx: &Connection, name: &Name) -> Result<()> {
    tx.prepare_cached(
        "UPDATE sessions
            SET updated_at = (SELECT max(time)
                                FROM (SELECT last_entry_at AS time
                                       UNION ALL
                                      SELECT updated_at FROM session_keys
                                       WHERE format = ?1 AND agent = ?2 AND session_id = ?3))
          WHERE format = ?1 AND agent = ?2 AND session_id = ?3",
    )?
    .execute((name.format, &name.agent, &name.id))?;
    Ok(())
}

/// Applies the changes of the newest version of an index to `session_keys`.
pub(crate) fn replace(
    tx: &Connection,
    source: SourceId,
    changed: &[Binding],
    removed: &[String],
) -> Result<()> {
    let Some((format, agent)) = index_format_and_agent(tx, source)? else { return Ok(()) };
    let removed = removed.iter().map(|key| (key, None));
    for (key, binding) in removed.chain(changed.iter().map(|key| (&key.key, Some(key)))) {
        let before = archived_session(tx, source, key)?;
        match binding {
            Some(binding) => {
                let fields = serde_json::to_string(&binding.fields).unwrap_or_default();
                write_row(tx, source, (format, &agent), binding, &fields)?;
            }
            None => {
                tx.prepare_cached("DELETE FROM session_keys WHERE source = ?1 AND key = ?2")?
                    .execute((source, key))?;
            }
        }
        let after = archived_session(tx, source, key)?;
        if before != after {
            for (id, _) in before.into_iter().chain(after) {
                let name = Name { format: format.name(), agent: agent.clone(), id };
                states::update_named(tx, &name)?;
                update_time(tx, &name)?;
            }
        }
    }
    Ok(())
}

/// Returns the session to which a key leads, and whether the key is archived.
fn archived_session(
    conn: &Connection,
    source: SourceId,
    key: &str,
) -> Result<Option<(String, bool)>> {
    Ok(conn
        .prepare_cached(
            "SELECT session_id, is_archived FROM session_keys
              WHERE source = ?1 AND key = ?2 AND session_id IS NOT NULL",
        )?
        .query_row((source, key), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?)
}

/// Writes the row of one key.
fn write_row(
    tx: &Connection,
    source: SourceId,
    (format, agent): (&dyn Format, &str),
    binding: &Binding,
    fields: &str,
) -> Result<()> {
    let options = match &binding.session {
        Some(session) => format.sessions_of_key(&binding.key, session, &binding.fields),
        None => Vec::new(),
    };
    let format = format.name();
    let session = choose(tx, format, agent, &options)?;
    let text = |name: &str| binding.fields.get(name).and_then(Value::as_str);
    let number = |name: &str| binding.fields.get(name).and_then(Value::as_i64);
    let display_name = text("displayName").filter(|name| !ends_key(name, &binding.key));
    tx.prepare_cached(
        "INSERT OR REPLACE INTO session_keys
            (source, key, format, agent, session_id, parent_key, channel, chat_type, title,
             model, total_tokens, updated_at, is_archived, fields)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?
    .execute(rusqlite::params![
        source,
        binding.key,
        format,
        agent,
        session,
        binding.parent_key,
        channel(binding),
        text("chatType"),
        text("label").or(display_name).or_else(|| text("subject")),
        text("model"),
        number("totalTokens"),
        binding.updated_at.or_else(|| number("updatedAt")),
        binding.is_archived,
        fields,
    ])?;
    match session {
        Some(id) => update_time(tx, &Name { format, agent: agent.to_owned(), id: id.to_owned() }),
        None => Ok(()),
    }
}

/// Returns whether a name is only the end of its key: `main` of `agent:main:main`. No person gave
/// it; an agent writes it for a session without a name.
fn ends_key(name: &str, key: &str) -> bool {
    key.strip_suffix(name).is_some_and(|before| before.ends_with(':'))
}

/// The fields of a key that may name its channel. The first one with a value is used. Releases
/// since 2026.7.2 write `delivery`, the documentation shows `deliveryContext`, and `origin` is
/// about the first message.
const CHANNEL_FIELDS: &[&[&str]] = &[
    &["channel"],
    &["lastChannel"],
    &["delivery", "route", "channel"],
    &["deliveryContext", "channel"],
    &["route", "channel"],
    &["origin", "provider"],
];

/// Returns the channel of a session's messages, from its fields or else from its key.
fn channel(binding: &Binding) -> Option<String> {
    let value_at = |path: &&[&str]| {
        let (first, rest) = path.split_first()?;
        let first = binding.fields.get(*first)?;
        let value = rest.iter().try_fold(first, |value, name| value.get(name))?;
        value.as_str().filter(|channel| !channel.is_empty())
    };
    if let Some(channel) = CHANNEL_FIELDS.iter().find_map(value_at) {
        return Some(channel.to_owned());
    }
    match SessionKey::parse(binding.key.as_str()).kind() {
        Kind::Direct { channel: Some(channel), .. }
        | Kind::Group { channel, .. }
        | Kind::Thread { channel, .. } => Some(channel.to_owned()),
        _ => None,
    }
}

/// Writes the rows of the newest version of every index.
pub(crate) fn replace_all(tx: &Connection) -> Result<()> {
    let sources: Vec<SourceId> = tx
        .prepare("SELECT source FROM indexes ORDER BY source")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for source in sources {
        let Some(bytes) = indexes::load(tx, source)? else { continue };
        let (name, path): (String, Vec<u8>) = tx.query_row(
            "SELECT format, first_path FROM sources WHERE id = ?1",
            [source],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let Some(format) = format::by_name(&name) else { continue };
        let index = format.read_index(&format.origin(&path), &bytes);
        replace(tx, source, &index.bindings, &[])?;
    }
    Ok(())
}
