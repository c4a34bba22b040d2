//! Appends one entry to a session, on the leaf that the writer expects, at most once per key.
//!
//! Never changes a stored line. `append_all` makes the transactions.

use std::collections::HashSet;

use quipu_transcript::native::{self, Entry, NewEntry, ParentRef};
use quipu_transcript::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::session::Appender;
use super::sessions::NativeSession;
use super::tree::Node;
use super::work::Work;
use crate::base::clock;
use crate::base::ids::Seq;
use crate::store::unprojected::View;
use crate::truth::chunks::RecordReader;
use crate::wire::Appended;
use crate::{Error, Result};

/// The number of random short ids that are tried before a long id is taken.
const MAX_SHORT_ID_TRIES: usize = 100;

/// The leaf that the writer expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expect<'a> {
    /// Any leaf.
    #[default]
    Any,
    /// No leaf: the session has no entry yet, or the leaf was moved before the first entry.
    Root,
    /// The entry with this id.
    Entry(&'a str),
}

/// The conditions of an append.
#[derive(Debug, Clone, Copy, Default)]
pub struct Append<'a> {
    /// The leaf that the writer has seen. If the session has another leaf now, nothing is written.
    pub expected_leaf: Expect<'a>,
    /// An idempotency key that the writer chooses. A second append with the same key returns the
    /// first one.
    pub key: Option<&'a str>,
    /// The position of this append among those with the same key, from 0. A batch therefore needs
    /// only one key, and its parts never collide with another key.
    pub part: u64,
}

/// The largest length of an idempotency key, in bytes. Longer ones are refused, because each is
/// stored.
const MAX_KEY_BYTES: usize = 512;

impl Append<'_> {
    /// Returns the key under which the append is stored.
    pub(super) fn stored_key(&self) -> Result<Option<String>> {
        let Some(key) = self.key else { return Ok(None) };
        if key.is_empty() || key.len() > MAX_KEY_BYTES || key.chars().any(char::is_control) {
            return Err(Error::refused(format!(
                "an idempotency key must have 1 to {MAX_KEY_BYTES} bytes without control characters"
            )));
        }
        Ok(Some(match self.part {
            0 => key.to_owned(),
            // Keys contain no control characters, so no key equals this text.
            part => format!("{key}\u{1f}{part}"),
        }))
    }
}

impl Appender<'_> {
    /// Appends an entry. Fills in its id, its time and its parent (the leaf) unless the entry has
    /// them.
    pub fn append(&self, entry: impl Into<Entry>) -> Result<Appended> {
        self.append_checked(&entry.into().check()?, false)
    }

    pub(super) fn append_checked(&self, entry: &NewEntry, begins_turn: bool) -> Result<Appended> {
        let conditions = self.conditions;
        let request = AppendRequest { entry, conditions, begins_turn, continues: None };
        self.session.store.core().append_unprojected(&self.session.native, &request)
    }
}

/// An entry to append, with its conditions.
pub(super) struct AppendRequest<'a> {
    pub(super) entry: &'a NewEntry,
    pub(super) conditions: Append<'a>,
    /// True if an unanswered user message at the leaf becomes a sibling of this entry.
    pub(super) begins_turn: bool,
    /// The entry that the leaf has to come after, without a compaction or a reset between them.
    pub(super) continues: Option<&'a str>,
}

/// An entry that passed every check.
pub(super) struct CheckedEntry {
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) line: String,
}

/// Appends within an open transaction that has projected everything.
pub(super) fn append(
    work: &mut Work<'_, '_>,
    session: &NativeSession,
    entry: &NewEntry,
    conditions: Append<'_>,
) -> Result<Appended> {
    let tx = work.tx;
    check_not_forgotten(tx, session)?;
    let view = View::projected(tx, session);
    let key = conditions.stored_key()?;
    let key = key.as_deref();
    let request = AppendRequest { entry, conditions, begins_turn: false, continues: None };
    let checked = match check(&view, &request, key)? {
        Ok(checked) => checked,
        Err(before) => return Ok(before),
    };
    let seq = work.record(session, checked.line.as_bytes(), key, None)?;
    work.save_sessions()?;
    let leaf = view.leaf()?.map(|leaf| leaf.id);
    Ok(Appended::new(checked.id, seq, leaf))
}

/// Returns the entry to write, or the result of an earlier append with the same key.
pub(super) fn check(
    view: &View<'_>,
    request: &AppendRequest<'_>,
    key: Option<&str>,
) -> Result<Result<CheckedEntry, Appended>> {
    let (session, entry, conditions) = (view.session, request.entry, request.conditions);
    if let Some(key) = key
        && let Some(before) = earlier_append(view, key, entry)?
    {
        return Ok(Err(before));
    }
    let leaf = view.leaf()?;
    let as_expected = match conditions.expected_leaf {
        Expect::Any => true,
        Expect::Root => leaf.is_none(),
        Expect::Entry(id) => leaf.as_ref().is_some_and(|leaf| leaf.id == id),
    };
    let continues = match request.continues {
        Some(entry) => continues(view, leaf.clone(), entry)?,
        None => true,
    };
    if !as_expected || !continues {
        return Err(Error::Conflict {
            session: session.id.clone(),
            leaf: leaf.map(|leaf| leaf.id),
        });
    }
    let unanswered = match request.begins_turn {
        true => unanswered(view, leaf.clone())?,
        false => None,
    };
    let parent = match (&entry.parent, unanswered) {
        // A parent that the entry names takes precedence over an unanswered message.
        (ParentRef::Root, _) => None,
        (ParentRef::Id(id), _) => Some(view.find_on_path("parentId", id)?.id),
        (ParentRef::Implicit, Some(unanswered)) => unanswered.parent,
        (ParentRef::Implicit, None) => leaf.map(|leaf| leaf.id),
    };
    for (field, id) in &entry.refers_to {
        view.find_on_path(field, id)?;
    }
    let id = match &entry.id {
        Some(id) if view.has(id)? => {
            return Err(Error::Exists { what: "entry", name: id.clone() });
        }
        Some(id) => id.clone(),
        None => new_id(&mut |id| view.has(id))?,
    };
    let now = Timestamp(clock::now_ms());
    let line = match entry.lacks_call {
        true => {
            entry.of_call(&open_call(view, parent.as_deref())?).line(&id, parent.as_deref(), now)
        }
        false => entry.line(&id, parent.as_deref(), now),
    };
    Ok(Ok(CheckedEntry { id, parent, line }))
}

/// Returns whether the path to the leaf goes through an entry, without a compaction or a reset after
/// it.
fn continues(view: &View<'_>, leaf: Option<Node>, entry: &str) -> Result<bool> {
    let mut at = leaf;
    while let Some(node) = at {
        if node.id == entry {
            return Ok(true);
        }
        if matches!(&*node.type_name, "compaction" | "reset") {
            return Ok(false);
        }
        at = node.parent.map(|parent| view.find(&parent)).transpose()?.flatten();
    }
    Ok(false)
}

/// Returns the call of the last answer on the path that has no result yet. Fails unless there is
/// exactly one.
fn open_call(view: &View<'_>, parent: Option<&str>) -> Result<String> {
    let mut reader = RecordReader::new(view.conn);
    let mut answered = HashSet::new();
    let mut at = parent.map(|parent| view.find(parent)).transpose()?.flatten();
    let mut open = Vec::new();
    while let Some(node) = at {
        let line = match node.entry.seq() {
            Some(seq) if node.type_name == "message" => reader.read(seq)?,
            _ => Vec::new(),
        };
        let line = native::calls_in(&String::from_utf8_lossy(&line));
        let is_words = node.is_message_of("user") && line.answered.is_empty();
        answered.extend(line.answered);
        if node.is_message_of("assistant") {
            open = line.calls.into_iter().filter(|call| !answered.contains(call)).collect();
        }
        if is_words || node.is_message_of("assistant") {
            break;
        }
        at = node.parent.map(|parent| view.find(&parent)).transpose()?.flatten();
    }
    match <[String; 1]>::try_from(open) {
        Ok([call]) => Ok(call),
        Err(open) => Err(Error::refused(format!(
            "a tool result needs `toolCallId` unless one call is open; here {} are",
            open.len()
        ))),
    }
}

/// Returns the unanswered user message at the end of the path. Labels and session names after it
/// are not answers: they apply to the whole session.
fn unanswered(view: &View<'_>, leaf: Option<Node>) -> Result<Option<Node>> {
    let mut at = leaf;
    while let Some(node) = at {
        if node.is_message_of("user") {
            return Ok(Some(node));
        }
        let parent = node.parent.filter(|_| matches!(&*node.type_name, "label" | "session_info"));
        at = parent.map(|parent| view.find(&parent)).transpose()?.flatten();
    }
    Ok(None)
}

/// Fails if the session was forgotten while a runtime had it open.
pub(super) fn check_not_forgotten(conn: &Connection, session: &NativeSession) -> Result<()> {
    let is_there: bool = conn
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM sources WHERE id = ?1 AND refused IS NULL)")?
        .query_row([session.source], |row| row.get(0))?;
    match is_there {
        true => Ok(()),
        false => Err(Error::NoMatch { what: "session", name: session.id.clone() }),
    }
}

/// Returns the result of an earlier append with the same key. Fails if it stored another entry.
fn earlier_append(view: &View<'_>, key: &str, entry: &NewEntry) -> Result<Option<Appended>> {
    let seq: Option<Seq> = view
        .conn
        .prepare_cached("SELECT seq FROM records WHERE generation = ?1 AND key = ?2")?
        .query_row((view.session.generation, key), |row| row.get(0))
        .optional()?;
    let Some(seq) = seq else { return Ok(None) };
    // The line is read from the record, because it may not be projected yet.
    let line = RecordReader::new(view.conn).read(seq)?;
    let line = String::from_utf8_lossy(&line);
    let id = native::id_in(&line).unwrap_or_default();
    if !entry.is_written_as(&line) {
        // The number of a part follows the separator.
        let key = key.split('\u{1f}').next().unwrap_or(key).to_owned();
        return Err(Error::KeyUsed { key, entry: id });
    }
    let leaf = view.leaf()?.map(|leaf| leaf.id);
    Ok(Some(Appended { repeated: true, ..Appended::new(id, seq, leaf) }))
}

/// Returns an id that no entry of the session has: eight hex digits, or a UUID if the tried ones
/// are taken.
pub(super) fn new_id(is_taken: &mut dyn FnMut(&str) -> Result<bool>) -> Result<String> {
    for _ in 0..MAX_SHORT_ID_TRIES {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let short = id.get(..8).unwrap_or(&id);
        if !is_taken(short)? {
            return Ok(short.to_owned());
        }
    }
    Ok(uuid::Uuid::new_v4().to_string())
}
