//! Repairs sessions: finds their errors, and writes a continuation without them.
//!
//! The continuation is a branch of a session of quipu's own, and a new session for a collected one.
//! It is written once, in one transaction. Never changes or removes a line.

use std::collections::{HashMap, HashSet};

use quipu_transcript::native::NewEntry;
use quipu_transcript::repair::{self as pure, BAD_HEADER, Copies};
use quipu_transcript::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use serde_json::json;

use super::append::{check_not_forgotten, new_id};
use super::fork::{self, Fork, NewLine};
use super::session::Session;
use super::sessions::{self, NativeSession};
use super::work::Work;
use super::{Store, tree};
use crate::base::clock;
use crate::base::ids::{Seq, SessionRow};
use crate::file::ledger::Ledger;
use crate::read::query::context::TranscriptGeneration;
use crate::read::query::{self, find_session};
use crate::truth::native_lines;
use crate::wire::{RepairChange, RepairPlace, RepairReport};
use crate::{Error, Result};

/// The errors of a session, and the data to repair them.
#[derive(Debug)]
pub struct Repair {
    /// The session's id.
    pub session: String,
    /// The errors.
    pub found: pure::Repair,
    row: SessionRow,
    is_native: bool,
    /// The lines that were read; `None` for a session without lines.
    read: Option<TranscriptGeneration>,
}

/// The continuation of a repaired session.
#[derive(Debug, Clone)]
pub struct Repaired {
    /// The session to continue.
    pub session: Session,
    /// Its leaf after the repair.
    pub leaf: Option<String>,
    /// True if the same repair was made before. Then nothing was written.
    pub repeated: bool,
    /// The number of messages that pi's format cannot express. Each is a `custom` entry.
    pub unmapped: u64,
}

/// Finds the errors of a session, which may be a collected one.
pub fn repair_of(ledger: &Ledger, session: SessionRow) -> Result<Repair> {
    let (read, found) = query::context::repair_of(ledger, session)?;
    let conn = ledger.conn();
    let (id, is_native) = match sessions::by_row(conn, session) {
        Ok(native) => (native.id, true),
        Err(Error::Collected { id, .. }) => (id, false),
        Err(error) => return Err(error),
    };
    Ok(Repair { session: id, found, row: session, is_native, read })
}

impl Session {
    /// Finds the errors in the path that a model would see, and in the session's lines.
    ///
    /// ```
    /// use quipu_ledger::{Entry, Store};
    /// use serde_json::json;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let store = Store::open(folder.path().join("ledger.db"))?;
    /// let session = store.session_or_new("agent:main:main")?;
    /// let call = json!({"type": "toolCall", "id": "call_1", "name": "read", "arguments": {}});
    /// session.append(Entry::from(json!({"role": "assistant", "content": [call]})))?;
    /// session.append(Entry::user("What is taking so long?"))?;
    ///
    /// let repair = session.repair()?;
    /// assert!(repair.is_needed());
    /// let repaired = store.apply_repair(&repair, false)?.ok_or("nothing is wrong")?;
    /// assert_eq!(repaired.session, session);
    /// assert!(!session.repair()?.is_needed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn repair(&self) -> Result<Repair> {
        let row = self.native.row;
        self.store.read_caught_up(&mut |ledger| repair_of(ledger, row))
    }
}

impl Repair {
    /// Returns whether a continuation would be written.
    pub fn is_needed(&self) -> bool {
        self.found.is_needed(self.copies() == Copies::Session)
    }

    /// Returns the reason why the session is not repaired.
    pub fn reason(&self, rebuilds_header: bool) -> Option<&'static str> {
        (self.found.has_bad_header() && !rebuilds_header).then_some(BAD_HEADER)
    }

    /// Returns the place of the continuation. A new header needs a new session.
    fn copies(&self) -> Copies {
        match self.is_native && !self.found.has_bad_header() {
            true => Copies::Branch,
            false => Copies::Session,
        }
    }

    /// Returns the report to print.
    pub fn report(&self, repaired: Option<&Repaired>, rebuilds_header: bool) -> RepairReport {
        let place = |session: &str, leaf: &Option<String>| RepairPlace {
            session: session.to_owned(),
            leaf: leaf.clone(),
        };
        RepairReport {
            repaired: repaired.is_some(),
            dropped_lines: self.found.dropped_lines,
            reason: self.reason(rebuilds_header),
            original: place(&self.session, &self.found.leaf),
            continuation: repaired.map(|made| place(made.session.id(), &made.leaf)),
            repeated: repaired.is_some_and(|made| made.repeated),
            is_needed: self.is_needed(),
            changes: self.found.changes.iter().map(RepairChange::of).collect(),
        }
    }

    /// Returns a hash: the same for the same faults of the same path.
    fn hash(&self) -> blake3::Hash {
        let mut hash = blake3::Hasher::new();
        let mut add = |part: &str| {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        };
        add(&self.session);
        add(self.found.leaf.as_deref().unwrap_or(""));
        self.found.changes.iter().for_each(|change| add(&format!("{change:?}")));
        hash.finalize()
    }

    /// Returns the whole text of the lines that are copied.
    fn texts(&self, conn: &Connection) -> Result<HashMap<usize, String>> {
        match &self.read {
            Some(read) => read.whole_lines(conn, &self.found.lines_to_copy(self.copies())),
            None => Ok(HashMap::new()),
        }
    }
}

impl Store {
    /// Finds the errors of a session, which may be a collected one.
    pub fn repair(&self, name: &str) -> Result<Repair> {
        // In a statement of its own, because `repair_at` locks the ledger again.
        let row = find_session(&self.core().ledger, name)?;
        self.repair_at(row)
    }

    /// Returns what is wrong with a session that was found.
    pub fn repair_at(&self, row: SessionRow) -> Result<Repair> {
        self.read_caught_up(&mut |ledger| repair_of(ledger, row))
    }

    /// Writes a continuation of the session without its errors: a branch, or for a collected
    /// session a new session. Returns `None` if there are no errors, or if the header is invalid
    /// and `rebuilds_header` is false.
    ///
    /// The same repair is written once. Fails with [`Error::Conflict`] if the session has another
    /// leaf by now.
    pub fn apply_repair(&self, repair: &Repair, rebuilds_header: bool) -> Result<Option<Repaired>> {
        if !repair.is_needed() || repair.reason(rebuilds_header).is_some() {
            return Ok(None);
        }
        match repair.copies() {
            Copies::Branch => self.repair_by_branch(repair),
            Copies::Session => self.repair_by_session(repair),
        }
        .map(Some)
    }

    fn repair_by_branch(&self, repair: &Repair) -> Result<Repaired> {
        // With the length of the session, so that a session whose leaf was moved back before its
        // repair can be repaired again.
        let size = repair.read.as_ref().map_or(0, |read| read.size);
        let key = format!("quipu.repair:{}:{size}", repair.hash().to_hex());
        let (native, texts) = self.read_caught_up(&mut |ledger| {
            Ok((sessions::by_row(ledger.conn(), repair.row)?, repair.texts(ledger.conn())?))
        })?;
        let (leaf, repeated) = self.write(&mut |work| {
            check_not_forgotten(work.tx, &native)?;
            if has_key(work.tx, &native, &key)? {
                return Ok((leaf_of(work.tx, &native)?, true));
            }
            let cursor = native_lines::cursor(work.tx, native.generation)?;
            let leaf = leaf_of(work.tx, &native)?;
            let is_as_read = repair.read.as_ref().is_some_and(|read| read.size == cursor);
            if !is_as_read && leaf != repair.found.leaf {
                return Err(Error::Conflict { session: native.id.clone(), leaf });
            }
            append_branch(work, &native, repair, &texts, &key)?;
            work.save_sessions()?;
            Ok((leaf_of(work.tx, &native)?, false))
        })?;
        Ok(Repaired { session: self.open_session(native), leaf, repeated, unmapped: 0 })
    }

    fn repair_by_session(&self, repair: &Repair) -> Result<Repaired> {
        let id = uuid::Builder::from_random_bytes(first_bytes(&repair.hash())).into_uuid();
        let id = id.to_string();
        match self.session(&id) {
            Err(Error::NoMatch { .. }) => {}
            known => return repeated(known?),
        }
        let (lines, unmapped) = self.read_caught_up(&mut |ledger| {
            if repair.found.has_entries {
                return Ok((lines_of_session(ledger, repair)?, 0));
            }
            fork::lines_of_context(ledger, repair.row)
        })?;
        let fork = Fork { id: Some(&id), ..Fork::default() };
        let made = self.write(&mut |work| {
            let now = query::context::newest_transcript(work.tx, repair.row)?;
            if now.as_ref() != repair.read.as_ref() {
                let leaf = leaf_of_row(work.tx, repair.row)?;
                return Err(Error::Conflict { session: repair.session.clone(), leaf });
            }
            let session = fork::create(work, repair.row, &fork, &lines)?;
            work.save_sessions()?;
            let leaf = leaf_of(work.tx, &session)?;
            Ok((session, leaf))
        });
        match made {
            // Another process was faster.
            Err(Error::Exists { what: "session", .. }) => repeated(self.session(&id)?),
            made => {
                let (native, leaf) = made?;
                let session = self.open_session(native);
                Ok(Repaired { session, leaf, repeated: false, unmapped })
            }
        }
    }
}

/// Returns a continuation that was written before.
fn repeated(session: Session) -> Result<Repaired> {
    let leaf = session.leaf()?.map(|leaf| leaf.id);
    Ok(Repaired { session, leaf, repeated: true, unmapped: 0 })
}

fn first_bytes(hash: &blake3::Hash) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(hash.as_bytes()).for_each(|(byte, from)| *byte = *from);
    bytes
}

fn has_key(conn: &Connection, session: &NativeSession, key: &str) -> Result<bool> {
    let seq: Option<Seq> = conn
        .prepare_cached("SELECT seq FROM records WHERE generation = ?1 AND key = ?2")?
        .query_row((session.generation, key), |row| row.get(0))
        .optional()?;
    Ok(seq.is_some())
}

fn leaf_of(conn: &Connection, session: &NativeSession) -> Result<Option<String>> {
    leaf_of_row(conn, session.row)
}

fn leaf_of_row(conn: &Connection, session: SessionRow) -> Result<Option<String>> {
    Ok(tree::leaf(conn, session)?.map(|leaf| leaf.id))
}

/// Moves the leaf to the entry at which the branch begins, and appends the branch.
fn append_branch(
    work: &mut Work<'_, '_>,
    session: &NativeSession,
    repair: &Repair,
    texts: &HashMap<usize, String>,
    key: &str,
) -> Result<()> {
    let now = Timestamp(clock::now_ms());
    let conn = work.tx;
    let mut taken = HashSet::new();
    let mut fresh = || -> Result<String> {
        let id = new_id(&mut |id| Ok(taken.contains(id) || tree::has(conn, session.row, id)?))?;
        taken.insert(id.clone());
        Ok(id)
    };
    let text = |line: usize| texts.get(&line).map(String::as_str);
    let made = repair.found.continuation(Copies::Branch, &text, &mut fresh, now)?;
    let moves = NewEntry::read(&json!({"type": "leaf", "targetId": made.after}).to_string())?;
    let moves = moves.line(&fresh()?, repair.found.leaf.as_deref(), now);
    work.record(session, moves.as_bytes(), Some(key), None)?;
    for line in &made.lines {
        work.record(session, line.as_bytes(), None, None)?;
    }
    Ok(())
}

/// Returns the lines of the new session, with the labels of the copied entries.
fn lines_of_session(ledger: &Ledger, repair: &Repair) -> Result<Vec<NewLine>> {
    let texts = repair.texts(ledger.conn())?;
    let text = |line: usize| texts.get(&line).map(String::as_str);
    let mut fresh = || new_id(&mut |_| Ok(false));
    let now = Timestamp(clock::now_ms());
    let made = repair.found.continuation(Copies::Session, &text, &mut fresh, now)?;
    let ids: HashSet<String> =
        made.lines.iter().filter_map(|line| quipu_transcript::native::id_in(line)).collect();
    let labels = fork::label_lines(ledger.conn(), repair.row, ids, made.last)?;
    let lines = made.lines.into_iter().map(|text| NewLine { text, same_as: None });
    Ok(lines.chain(labels).collect())
}
