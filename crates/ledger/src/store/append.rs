//! Appending: one entry, on the leaf that the writer expects, once.

use std::time::Duration;

use quipu_transcript::native::{self, NewEntry, ParentRef};
use quipu_transcript::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;

use super::tree::Node;
use super::work::Work;
use super::{NativeSession, Store};
use crate::base::clock;
use crate::base::ids::Seq;
use crate::project::rebuild::{self, Followed};
use crate::store::unprojected::{Grown, View};
use crate::truth::chunks::RecordReader;
use crate::truth::native_lines;
use crate::{Error, Result};

/// Tries to find a short id that is free before a long one is taken.
const TRIES: usize = 100;

/// If the projection is so many records behind, an append waits for it: readers will, too.
const MOST_AHEAD: i64 = 1024;

/// … for so long.
const LONGEST_FOLLOW: Duration = Duration::from_millis(20);

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
    /// Which of several appends under one word it is; 0 where there is only one. So a batch needs a
    /// single word, and no word that anybody could say is that of a part of another's batch.
    pub part: u64,
}

/// An idempotency key of more bytes than this is refused.
const LONGEST_KEY: usize = 512;

impl Append<'_> {
    /// What the append is remembered by.
    fn stored_key(&self) -> Result<Option<String>> {
        let Some(key) = self.key else { return Ok(None) };
        if key.is_empty() || key.len() > LONGEST_KEY || key.chars().any(char::is_control) {
            return Err(Error::refused(format!(
                "an idempotency key is 1 to {LONGEST_KEY} printable characters"
            )));
        }
        Ok(Some(match self.part {
            0 => key.to_owned(),
            // No key has it.
            part => format!("{key}\u{1f}{part}"),
        }))
    }
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
        self.append_ahead(session, &Wanted { entry, how, begins_turn: false })
    }

    /// Appends ahead of the projection: on disk are the line and its key when this returns, and what
    /// follows from them comes behind.
    pub(super) fn append_ahead(
        &mut self,
        session: &NativeSession,
        wanted: &Wanted<'_>,
    ) -> Result<Appended> {
        let key = wanted.how.stored_key()?;
        let key = key.as_deref();
        let limit = self.limit();
        loop {
            let (ahead, fold, known) = (&mut self.ahead, &mut self.fold, &mut self.data_version);
            let done = self.ledger.write(|tx| {
                still_there(tx, session)?;
                let Some(mut projected) = rebuild::projected(tx)? else { return Ok(None) };
                let cursor = native_lines::cursor(tx, session.generation)?;
                // What others have appended to other sessions is not waited for.
                let is_known = ahead.knows(session, cursor, projected)
                    || native_lines::last(tx, session.generation)?.0 <= projected.to;
                if projected.lag() >= MOST_AHEAD || (!is_known && projected.lag() > 0) {
                    super::refresh(tx, fold, known)?;
                    if rebuild::follow(tx, fold, LONGEST_FOLLOW)? == Followed::Not {
                        return Ok(None);
                    }
                    match rebuild::projected(tx)? {
                        Some(now) if is_known || now.lag() == 0 => projected = now,
                        _ => return Ok(None),
                    }
                }
                let tip = ahead.tip(tx, session, cursor, projected)?;
                let view = View { conn: tx, session, tip: Some(tip) };
                let Checked { id, parent, line, .. } = match check(&view, wanted, key)? {
                    Ok(checked) => checked,
                    Err(before) => return Ok(Some((before, 0))),
                };
                let (seq, start) =
                    native_lines::append(tx, session.generation, line.as_bytes(), None, key)?;
                let node = Node::appended(wanted.entry, id.clone(), parent, seq);
                let leaf_target = wanted.entry.leaf_target.clone();
                let cursor = start + line.len() as u64;
                tip.advance(tx, session, Grown { node, leaf_target, cursor })?;
                let leaf = tip.leaf_id();
                let lag = seq.0 - projected.to;
                Ok(Some((Appended { id, seq, leaf, repeated: false }, lag)))
            });
            match done {
                Ok(Some((appended, lag))) => {
                    if lag > 0 {
                        self.follower.notice(&self.ledger, lag);
                    }
                    return Ok(appended);
                }
                Ok(None) => drop(self.settle_until(limit)?),
                Err(error) => {
                    // What it remembers was not stored.
                    self.let_go();
                    return Err(error);
                }
            }
        }
    }
}

/// What is to be appended.
pub(super) struct Wanted<'a> {
    pub(super) entry: &'a NewEntry,
    pub(super) how: Append<'a>,
    /// A user's message that nothing answered is left beside the path.
    pub(super) begins_turn: bool,
}

/// An entry that may be written.
struct Checked {
    id: String,
    parent: Option<String>,
    line: String,
}

/// Appends in a transaction that goes on, where everything is in the projection.
pub(super) fn append(
    work: &mut Work<'_, '_>,
    session: &NativeSession,
    entry: &NewEntry,
    how: Append<'_>,
) -> Result<Appended> {
    let tx = work.tx;
    still_there(tx, session)?;
    let view = View::settled(tx, session);
    let key = how.stored_key()?;
    let key = key.as_deref();
    let checked = match check(&view, &Wanted { entry, how, begins_turn: false }, key)? {
        Ok(checked) => checked,
        Err(before) => return Ok(before),
    };
    let seq = work.record(session, checked.line.as_bytes(), key, None)?;
    work.settle()?;
    let leaf = view.leaf()?.map(|leaf| leaf.id);
    Ok(Appended { id: checked.id, seq, leaf, repeated: false })
}

/// What is to be written; or what an earlier try with the same key has written.
fn check(
    view: &View<'_>,
    wanted: &Wanted<'_>,
    key: Option<&str>,
) -> Result<Result<Checked, Appended>> {
    let (session, entry, how) = (view.session, wanted.entry, wanted.how);
    if let Some(key) = key
        && let Some(before) = first_try(view, key, entry)?
    {
        return Ok(Err(before));
    }
    let leaf = view.leaf()?;
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
    let unanswered = match wanted.begins_turn {
        true => unanswered(view, leaf.clone())?,
        false => None,
    };
    let parent = match (&entry.parent, unanswered) {
        // Whoever says where it hangs knows what is there.
        (ParentRef::Root, _) => None,
        (ParentRef::Id(id), _) => Some(view.known("parentId", id)?.id),
        (ParentRef::Implicit, Some(unanswered)) => unanswered.parent,
        (ParentRef::Implicit, None) => leaf.map(|leaf| leaf.id),
    };
    for (field, id) in &entry.refers_to {
        view.known(field, id)?;
    }
    let id = match &entry.id {
        Some(id) if view.has(id)? => {
            return Err(Error::Exists { what: "entry", name: id.clone() });
        }
        Some(id) => id.clone(),
        None => new_id(&mut |id| view.has(id))?,
    };
    let line = entry.line(&id, parent.as_deref(), Timestamp(clock::now_ms()));
    Ok(Ok(Checked { id, parent, line }))
}

/// The user's message that nothing answered, if the path ends in one. Labels and names behind it are
/// no answer; they hold for the session, and not only where they hang.
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

/// Returns what an append with the same key gave. It has to be an append of the same entry.
fn first_try(view: &View<'_>, key: &str, entry: &NewEntry) -> Result<Option<Appended>> {
    let seq: Option<Seq> = view
        .conn
        .prepare_cached("SELECT seq FROM records WHERE generation = ?1 AND key = ?2")?
        .query_row((view.session.generation, key), |row| row.get(0))
        .optional()?;
    let Some(seq) = seq else { return Ok(None) };
    // It may not be in the projection yet.
    let line = RecordReader::new(view.conn).read(seq)?;
    let line = String::from_utf8_lossy(&line);
    let id = native::id_in(&line).unwrap_or_default();
    if !entry.is_written_as(&line) {
        // What follows the separator is the number of a line in a batch.
        let key = key.split('\u{1f}').next().unwrap_or(key).to_owned();
        return Err(Error::KeyUsed { key, entry: id });
    }
    let leaf = view.leaf()?.map(|leaf| leaf.id);
    Ok(Some(Appended { id, seq, leaf, repeated: true }))
}

/// Eight hex digits that no entry of the session has.
pub(super) fn new_id(is_taken: &mut dyn FnMut(&str) -> Result<bool>) -> Result<String> {
    for _ in 0..TRIES {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let short = id.get(..8).unwrap_or(&id);
        if !is_taken(short)? {
            return Ok(short.to_owned());
        }
    }
    Ok(uuid::Uuid::new_v4().to_string())
}
