//! Appending: one entry, on the leaf that the writer expects, once.

use quipu_transcript::native::{NewEntry, ParentSaid};
use quipu_transcript::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;

use super::tree::{self, Node};
use super::work::Work;
use super::{NativeSession, Store};
use crate::ids::{EntryId, PackedId, Seq};
use crate::{Error, Result, clock};

/// Tries to find a short id that is free before a long one is taken.
const TRIES: usize = 100;

/// What the writer believes the leaf to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expect<'a> {
    /// Whatever it is.
    #[default]
    Any,
    /// Nothing was said yet, or the leaf was moved before the first entry.
    Root,
    /// The entry of that id.
    Entry(&'a str),
}

/// How to append.
#[derive(Debug, Clone, Copy, Default)]
pub struct Append<'a> {
    /// The leaf that the writer has seen. If it is another one by now, nothing is written.
    pub expected_leaf: Expect<'a>,
    /// A word of the writer's own for this append. A second one with the same word finds the first.
    pub key: Option<&'a str>,
}

/// What was appended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Appended {
    /// The entry's id.
    pub id: String,
    /// Its number in the ledger.
    pub seq: Seq,
    /// The session's leaf after it.
    pub leaf: Option<String>,
    /// It was there already, under the same key.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
}

impl Store {
    /// Appends an entry, or a bare message, given as JSON. What it does not say is filled in: its id,
    /// its time, and the leaf as its parent.
    pub fn append(
        &mut self,
        session: &NativeSession,
        entry: &str,
        how: Append<'_>,
    ) -> Result<Appended> {
        let entry = NewEntry::read(entry)?;
        self.append_entry(session, &entry, how)
    }

    /// The same, with an entry that was checked before.
    pub fn append_entry(
        &mut self,
        session: &NativeSession,
        entry: &NewEntry,
        how: Append<'_>,
    ) -> Result<Appended> {
        self.write(&mut |work| append(work, session, entry, how))
    }
}

pub(super) fn append(
    work: &mut Work<'_, '_>,
    session: &NativeSession,
    entry: &NewEntry,
    how: Append<'_>,
) -> Result<Appended> {
    let tx = work.tx;
    still_there(tx, session)?;
    if let Some(key) = how.key
        && let Some(before) = first_try(tx, session, key)?
    {
        return Ok(before);
    }
    let leaf = tree::leaf(tx, session.row)?;
    let as_expected = match how.expected_leaf {
        Expect::Any => true,
        Expect::Root => leaf.is_none(),
        Expect::Entry(id) => leaf.as_ref().is_some_and(|leaf| leaf.id == id),
    };
    if !as_expected {
        return Err(Error::Conflict {
            session: session.id.clone(),
            leaf: leaf.map(|leaf| leaf.id),
        });
    }
    let parent = match &entry.parent {
        ParentSaid::Unsaid => leaf,
        ParentSaid::Root => None,
        ParentSaid::Id(id) => Some(known(tx, session, "parentId", id)?),
    };
    for (field, id) in &entry.refers_to {
        known(tx, session, field, id)?;
    }
    let id = match &entry.id {
        Some(id) if tree::has(tx, session.row, id)? => {
            return Err(Error::Exists { what: "entry", name: id.clone() });
        }
        Some(id) => id.clone(),
        None => new_id(tx, session)?,
    };
    let parent = parent.map(|parent| parent.id);
    let line = entry.line(&id, parent.as_deref(), Timestamp(clock::now_ms()));
    let seq = work.record(session, line.as_bytes(), how.key, None)?;
    work.settle()?;
    let leaf = tree::leaf(tx, session.row)?.map(|leaf| leaf.id);
    Ok(Appended { id, seq, leaf, repeated: false })
}

/// What is named and not there.
pub(super) const ENTRY: &str = "entry of the session";

/// The entry of that id, which others may hang off.
pub(super) fn known(
    conn: &Connection,
    session: &NativeSession,
    field: &str,
    id: &str,
) -> Result<Node> {
    match tree::find(conn, session.row, id)? {
        Some(node) if node.is_on_paths() => Ok(node),
        Some(_) => Err(Error::refused(format!(
            "`{field}`: {} stands beside the conversation",
            id.escape_debug()
        ))),
        None => Err(Error::NoMatch { what: ENTRY, name: id.to_owned() }),
    }
}

/// A session may be forgotten while a runtime has it open.
pub(super) fn still_there(conn: &Connection, session: &NativeSession) -> Result<()> {
    let is_there: bool = conn
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM sources WHERE id = ?1 AND refused IS NULL)")?
        .query_row([session.source], |row| row.get(0))?;
    match is_there {
        true => Ok(()),
        false => Err(Error::NoMatch { what: "session", name: session.id.clone() }),
    }
}

/// What an append with the same key gave.
fn first_try(conn: &Connection, session: &NativeSession, key: &str) -> Result<Option<Appended>> {
    let seq: Option<Seq> = conn
        .prepare_cached("SELECT seq FROM records WHERE generation = ?1 AND key = ?2")?
        .query_row((session.generation, key), |row| row.get(0))
        .optional()?;
    let Some(seq) = seq else { return Ok(None) };
    let id: Option<PackedId> = conn
        .prepare_cached("SELECT uuid FROM entry_rows WHERE id = ?1")?
        .query_row([EntryId::of(seq, 0)], |row| row.get(0))?;
    let leaf = tree::leaf(conn, session.row)?.map(|leaf| leaf.id);
    let id = id.map(|id| id.unpack()).unwrap_or_default();
    Ok(Some(Appended { id, seq, leaf, repeated: true }))
}

/// Eight hex digits that no entry of the session has.
pub(super) fn new_id(conn: &Connection, session: &NativeSession) -> Result<String> {
    for _ in 0..TRIES {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let short = id.get(..8).unwrap_or(&id);
        if !tree::has(conn, session.row, short)? {
            return Ok(short.to_owned());
        }
    }
    Ok(uuid::Uuid::new_v4().to_string())
}
