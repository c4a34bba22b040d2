//! Appends many calls in one transaction, so that one sync of the disk is enough for all of them.
//!
//! Each call is checked by itself, and its entries are stored together or not at all. A refused call
//! leaves nothing behind and does not affect the others.

use std::collections::HashMap;
use std::time::Duration;

use quipu_transcript::native::{Entry, NewEntry};
use rusqlite::{Connection, Transaction};

use super::append::{Append, AppendRequest, CheckedEntry, Expect, check, check_not_forgotten};
use super::core::{Core, refresh};
use super::session::Session;
use super::sessions::NativeSession;
use super::tree::Node;
use super::unprojected::{AppendState, AppendedEntry, Unprojected, View};
use super::{Appended, Store, turn};
use crate::base::ids::Seq;
use crate::project::Fold;
use crate::project::rebuild::{self, CatchUpStep, Projected};
use crate::truth::native_lines;
use crate::{Error, Result, Trouble};

/// The number of records by which the projection may lag behind. From this number on, each
/// transaction first projects for a moment, because readers have to wait for the same records.
const MAX_UNPROJECTED: i64 = 1024;

/// The longest time that appends project records. It is short, because the writers wait.
const MAX_CATCH_UP_STEP: Duration = Duration::from_millis(20);

/// One call of [`Store::append_all`]: entries of one session that are stored together or not at all.
#[derive(Debug, Clone)]
pub struct AppendCall<'a> {
    /// The session.
    pub session: &'a Session,
    /// The entries, in this order. With an expected leaf, each continues from the one before.
    pub entries: Vec<Entry>,
    /// The conditions of the first entry. Further entries have the parts after it of the same key:
    /// the second entry has part 2 if the first has part 0.
    pub conditions: Append<'a>,
    /// True if the first entry begins a turn, as [`super::Appender::begin_turn`] does.
    pub begins_turn: bool,
    /// True if the answer says whether a compaction or a flush is due. Counting a context takes
    /// longer than an append.
    pub measures: bool,
}

impl Store {
    /// Makes many calls in one transaction, and returns the answer to each. A conflict of one call
    /// does not affect the others; calls of one session see each other in their order.
    ///
    /// Fails only if nothing at all was stored, for example because the disk is full.
    ///
    /// ```
    /// use quipu_ledger::store::{AppendCall, Expect};
    /// use quipu_ledger::{Append, Entry, Error, Store};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let store = Store::open(folder.path().join("ledger.db"))?;
    /// let session = store.session_or_new("agent:main:main")?;
    /// let at_root = Append { expected_leaf: Expect::Root, ..Append::default() };
    /// let call = |text: &str| AppendCall {
    ///     session: &session,
    ///     entries: vec![Entry::user(text)],
    ///     conditions: at_root,
    ///     begins_turn: false,
    ///     measures: false,
    /// };
    /// let answers = store.append_all(&[call("first"), call("late")])?;
    /// assert_eq!(answers[0].as_ref().unwrap().len(), 1);
    /// assert!(matches!(answers[1], Err(Error::Conflict { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_all(&self, calls: &[AppendCall<'_>]) -> Result<Vec<Result<Vec<Appended>>>> {
        let read: Vec<Result<Vec<NewEntry>>> = calls.iter().map(|call| self.read(call)).collect();
        let readable: Vec<BatchCall<'_>> = calls
            .iter()
            .zip(&read)
            .filter_map(|(call, entries)| {
                Some(BatchCall {
                    session: &call.session.native,
                    entries: entries.as_ref().ok()?,
                    conditions: call.conditions,
                    begins_turn: call.begins_turn,
                    continues: None,
                    measures: call.measures,
                })
            })
            .collect();
        let mut answers = self.core().append_batch(&readable)?.into_iter();
        let answer = |entries: Result<Vec<NewEntry>>| match entries {
            // Every readable call has an answer.
            Ok(_) => answers.next().unwrap_or_else(|| Ok(Vec::new())),
            Err(error) => Err(error),
        };
        Ok(read.into_iter().map(answer).collect())
    }

    /// Reads the entries of a call.
    fn read(&self, call: &AppendCall<'_>) -> Result<Vec<NewEntry>> {
        if !call.session.is_of(self) {
            return Err(Error::refused("the session belongs to another store"));
        }
        let is_list = call.entries.len() > 1;
        let read = |(index, entry): (usize, &Entry)| {
            entry.check().map_err(|refusal| match is_list {
                true => Error::refused(format!("entry {} of the list: {refusal}", index + 1)),
                false => refusal.into(),
            })
        };
        let entries = call.entries.iter().enumerate().map(read).collect::<Result<Vec<_>>>()?;
        match entries.first() {
            None => Err(Error::refused("there are no entries")),
            Some(first) if call.begins_turn => turn::check_begins(first).map(|()| entries),
            Some(_) => Ok(entries),
        }
    }
}

/// A call with entries that were read.
#[derive(Debug)]
pub(super) struct BatchCall<'a> {
    pub(super) session: &'a NativeSession,
    pub(super) entries: &'a [NewEntry],
    pub(super) conditions: Append<'a>,
    pub(super) begins_turn: bool,
    /// The entry that the leaf has to come after, without a compaction or a reset between them.
    pub(super) continues: Option<&'a str>,
    pub(super) measures: bool,
}

/// A line that was appended.
struct Written {
    /// The number of its call.
    call: usize,
    from: u64,
    to: u64,
    seq: Seq,
    line: String,
    is_at_leaf: bool,
}

/// What a transaction with calls has stored.
struct Stored {
    answers: Vec<Result<Vec<Appended>>>,
    written: Vec<Written>,
    projected_to: i64,
}

impl Core {
    /// Appends one entry; see [`Core::append_batch`].
    pub(super) fn append_unprojected(
        &mut self,
        session: &NativeSession,
        request: &AppendRequest<'_>,
    ) -> Result<Appended> {
        let call = BatchCall {
            session,
            entries: std::slice::from_ref(request.entry),
            conditions: request.conditions,
            begins_turn: request.begins_turn,
            continues: request.continues,
            measures: true,
        };
        let answer = self.append_batch(&[call])?.pop().transpose()?;
        // A call with one entry has one answer.
        answer.and_then(|mut appended| appended.pop()).ok_or(Error::Vanished)
    }

    /// Appends without waiting for the projection. When this returns, the lines and their keys are
    /// on disk; the projection follows later.
    pub(super) fn append_batch(
        &mut self,
        calls: &[BatchCall<'_>],
    ) -> Result<Vec<Result<Vec<Appended>>>> {
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let limit = self.limit();
        loop {
            let (unprojected, fold, known) =
                (&mut self.unprojected, &mut self.fold, &mut self.data_version);
            let done = self.ledger.write(|tx| {
                let Some((mut answers, projected)) =
                    prepare(tx, unprojected, (fold, known), calls)?
                else {
                    return Ok(None);
                };
                let mut written = Vec::new();
                for (number, call) in calls.iter().enumerate() {
                    if let Some(answer @ None) = answers.get_mut(number) {
                        *answer = Some(append_call(tx, unprojected, (number, call), &mut written)?);
                    }
                }
                let answers = answers.into_iter().flatten().collect();
                Ok(Some(Stored { answers, written, projected_to: projected.to }))
            });
            match done {
                Ok(Some(stored)) => return Ok(self.after_batch(calls, stored)),
                Ok(None) => drop(self.catch_up_until(limit)?),
                Err(error) => {
                    // The cached state describes lines that were not stored.
                    self.drop_cached();
                    return Err(error);
                }
            }
        }
    }

    /// Has the lines projected, and adds to the answers what is due now.
    fn after_batch(
        &mut self,
        calls: &[BatchCall<'_>],
        stored: Stored,
    ) -> Vec<Result<Vec<Appended>>> {
        let Stored { mut answers, written, projected_to } = stored;
        if let Some(last) = written.last() {
            self.projector.schedule(&self.ledger, last.seq.0 - projected_to);
        }
        // What is due depends on the session as it is after all calls.
        let mut ends = HashMap::new();
        for line in &written {
            let Some(call) = calls.get(line.call) else { continue };
            let size = (line.from, line.to);
            self.sizes.advance(call.session, size, &line.line, line.is_at_leaf);
            ends.insert(call.session.generation, line.to);
        }
        for (call, answer) in calls.iter().zip(&mut answers).filter(|(call, _)| call.measures) {
            let appended = answer.as_mut().ok().and_then(|entries| entries.last_mut());
            let end = ends.get(&call.session.generation);
            if let (Some(appended), Some(end)) = (appended.filter(|entry| !entry.repeated), end) {
                // The entry is stored, even if its session cannot be read now.
                let due = self.due(call.session, *end).unwrap_or_default();
                (appended.compaction_due, appended.flush_due) = (due.is_compaction, due.is_flush);
            }
        }
        answers
    }
}

/// The answers that are known before the calls are made, and how far the projection is.
type Prepared = (Vec<Option<Result<Vec<Appended>>>>, Projected);

/// Loads the state of every session of the calls, and projects records if that needs it. Returns
/// `None` if they have to be projected in a transaction of their own first. A call whose session was
/// forgotten has its answer already.
fn prepare(
    tx: &Transaction<'_>,
    unprojected: &mut Unprojected,
    (fold, known): (&mut Fold, &mut i64),
    calls: &[BatchCall<'_>],
) -> Result<Option<Prepared>> {
    let mut answers = Vec::with_capacity(calls.len());
    for call in calls {
        match check_not_forgotten(tx, call.session) {
            Ok(()) => answers.push(None),
            Err(error) if concerns_all(&error) => return Err(error),
            Err(error) => answers.push(Some(Err(error))),
        }
    }
    let there = || calls.iter().zip(&answers).filter(|(_, answer)| answer.is_none());
    let Some(mut projected) = rebuild::projected(tx)? else { return Ok(None) };
    // An append does not wait until records of other sessions are projected.
    let mut are_known = true;
    for (BatchCall { session, .. }, _) in there() {
        let cursor = native_lines::cursor(tx, session.generation)?;
        are_known = are_known
            && (unprojected.is_complete_for(session, cursor, projected)
                || native_lines::last(tx, session.generation)?.0 <= projected.to);
    }
    if projected.lag() >= MAX_UNPROJECTED || (!are_known && projected.lag() > 0) {
        refresh(tx, fold, known)?;
        if rebuild::catch_up_step(tx, fold, MAX_CATCH_UP_STEP)? == CatchUpStep::SlicesNeeded {
            return Ok(None);
        }
        match rebuild::projected(tx)? {
            Some(now) if are_known || now.lag() == 0 => projected = now,
            _ => return Ok(None),
        }
    }
    for (BatchCall { session, .. }, _) in there() {
        let cursor = native_lines::cursor(tx, session.generation)?;
        unprojected.state(tx, session, cursor, projected)?;
    }
    Ok(Some((answers, projected)))
}

/// Makes one call. The outer error ends the whole transaction.
fn append_call(
    tx: &Transaction<'_>,
    unprojected: &mut Unprojected,
    (number, call): (usize, &BatchCall<'_>),
    written: &mut Vec<Written>,
) -> Result<Result<Vec<Appended>>> {
    let state = unprojected.loaded(call.session)?;
    let (mark, before) = (state.mark(), written.len());
    // One entry is checked before it is written.
    let has_savepoint = call.entries.len() > 1;
    if has_savepoint {
        tx.execute_batch("SAVEPOINT append_call")?;
    }
    match append_entries(tx, state, (number, call), written) {
        Ok(appended) => {
            if has_savepoint {
                tx.execute_batch("RELEASE append_call")?;
            }
            Ok(Ok(appended))
        }
        Err(error) if concerns_all(&error) => Err(error),
        Err(error) => {
            if has_savepoint {
                tx.execute_batch("ROLLBACK TO append_call; RELEASE append_call")?;
            }
            if let Some(first) = written.get(before) {
                state.undo(mark, first.seq);
            }
            written.truncate(before);
            Ok(Err(error))
        }
    }
}

/// Appends the entries of a call, each after the one before.
fn append_entries(
    tx: &Connection,
    state: &mut AppendState,
    (number, call): (usize, &BatchCall<'_>),
    written: &mut Vec<Written>,
) -> Result<Vec<Appended>> {
    let session = call.session;
    let mut answers = Vec::with_capacity(call.entries.len());
    // The leaf after the entry before; `None` for the first entry.
    let mut leaf: Option<Option<String>> = None;
    for (index, entry) in (0_u64..).zip(call.entries) {
        let is_first = index == 0;
        let first = call.conditions;
        let expected_leaf = match (first.expected_leaf, &leaf) {
            (Expect::Any, _) => Expect::Any,
            (expected, None) => expected,
            (_, Some(None)) => Expect::Root,
            (_, Some(Some(before))) => Expect::Entry(before),
        };
        let part = if is_first { first.part } else { first.part + index + 1 };
        let conditions = Append { expected_leaf, part, ..first };
        let key = conditions.stored_key()?;
        let request = AppendRequest {
            entry,
            conditions,
            begins_turn: call.begins_turn && is_first,
            continues: call.continues,
        };
        let view = View { conn: tx, session, state: Some(&*state) };
        let appended = match check(&view, &request, key.as_deref())? {
            Err(before) => {
                leaf = Some(leaf_after(entry, &before));
                answers.push(before);
                continue;
            }
            Ok(CheckedEntry { id, parent, line }) => {
                let is_at_leaf = state.leaf_id() == parent;
                let bytes = line.as_bytes();
                let (seq, from) =
                    native_lines::append(tx, session.generation, bytes, None, key.as_deref())?;
                let to = from + bytes.len() as u64;
                let node = Node::appended(entry, id.clone(), parent, seq);
                let leaf_target = entry.leaf_target.clone();
                state.advance(tx, session, AppendedEntry { node, leaf_target, cursor: to })?;
                written.push(Written { call: number, from, to, seq, line, is_at_leaf });
                Appended::new(id, seq, state.leaf_id())
            }
        };
        leaf = Some(appended.leaf.clone());
        answers.push(appended);
    }
    Ok(answers)
}

/// Returns the leaf right after an entry that an earlier call had appended. Other entries may have
/// followed it.
fn leaf_after(entry: &NewEntry, before: &Appended) -> Option<String> {
    match &entry.leaf_target {
        Some(target) => target.clone(),
        None if entry.is_side => before.leaf.clone(),
        None => Some(before.id.clone()),
    }
}

/// Returns whether an error is about the ledger, so that no call can be made.
fn concerns_all(error: &Error) -> bool {
    matches!(error, Error::Sqlite(_) | Error::Stopped | Error::Vanished)
        || matches!(error.trouble(), Trouble::Busy | Trouble::DiskFull | Trouble::Disk)
}
