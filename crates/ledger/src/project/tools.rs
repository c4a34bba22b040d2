//! Pairs tool calls with their results, in any order.
//!
//! Never changes an entry. A result that comes before its call is kept until the call comes.

mod calls_by_id;

use std::collections::BTreeMap;

use quipu_transcript::problem::ProblemKind;
use rusqlite::{Connection, OptionalExtension};

pub(crate) use self::calls_by_id::id_ending;
use self::calls_by_id::{CallPosition, CallsById, IdState};
use super::draft::{DraftCall, DraftResult};
use super::{outputs, rows};
use crate::Result;
use crate::base::ids::{EntryId, SessionRow, order_by_line};
use crate::project::interned::targets::{Target, Targets};
use crate::project::interned::tools::{Tool, ToolId, Tools};

/// The in-memory state of a session's calls.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    known: CallsById,
    /// The calls of the newest assistant message that wait for a result; `None` if the ledger must
    /// be queried.
    open: Option<OpenCalls>,
    has_orphans: bool,
    /// Calls without a row yet. Most get their result soon, so their row is written only once.
    pending: BTreeMap<CallPosition, PendingCall>,
}

/// A call, and its result if that has come.
#[derive(Debug)]
struct PendingCall {
    tool: ToolId,
    call: Option<Box<str>>,
    target: Option<Target>,
    answer: Option<CallResult>,
}

/// The result in a call's row.
#[derive(Debug)]
struct CallResult {
    entry: EntryId,
    is_error: bool,
    mentions_error: bool,
    output_name: Option<Box<str>>,
    output: Option<EntryId>,
}

/// The open calls of one message, by their position in it.
#[derive(Debug)]
struct OpenCalls {
    entry: EntryId,
    calls: BTreeMap<u32, Option<Box<str>>>,
}

/// The entry whose calls and results are stored, with its session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallContext<'c> {
    pub(crate) conn: &'c Connection,
    pub(crate) session: SessionRow,
    pub(crate) is_complete: bool,
    pub(crate) entry: EntryId,
    /// The older version of the entry, if there is one.
    pub(crate) older: Option<EntryId>,
}

impl Calls {
    /// Stores the calls of an entry. Returns the problems found.
    pub(crate) fn add_calls(
        &mut self,
        at: CallContext<'_>,
        (tools, targets): (&mut Tools, &mut Targets),
        calls: &[DraftCall],
    ) -> Result<Vec<ProblemKind>> {
        let mut problems = Vec::new();
        let mut open = OpenCalls { entry: at.entry, calls: BTreeMap::new() };
        for (ordinal, call) in calls.iter().enumerate() {
            let position = CallPosition { entry: at.entry, ordinal: ordinal as u32 };
            let tool = Tool { name: &call.name, is_partial: call.is_partial };
            let pending = PendingCall {
                tool: tools.number(at.conn, tool)?,
                call: call.id.clone(),
                target: match &call.target {
                    Some(target) => Some(targets.store(at.conn, target)?),
                    None => None,
                },
                answer: None,
            };
            self.pending.insert(position, pending);
            if call.is_partial {
                problems.push(ProblemKind::PartialCall);
                continue;
            }
            let mut result = None;
            if let Some(id) = &call.id {
                if self.state(at, id)? == IdState::Free {
                    result = self.claim_orphan(at, id, position)?;
                } else {
                    problems.push(ProblemKind::CallIdReused);
                }
                self.known.add(id, position, result);
            }
            if result.is_none() {
                open.calls.insert(position.ordinal, call.id.clone());
            }
        }
        if !calls.is_empty() {
            self.open = Some(open);
        }
        Ok(problems)
    }

    /// Pairs a result with its call. Returns the problem found.
    pub(crate) fn add_result(
        &mut self,
        at: CallContext<'_>,
        result: &DraftResult,
    ) -> Result<Option<ProblemKind>> {
        let call_of_older_result = match (at.older, &result.call_id) {
            (Some(older), Some(id)) => self.call_of_older_result(at, id, older)?,
            _ => None,
        };
        let call = match (call_of_older_result, &result.call_id) {
            (Some(call), _) => call,
            (None, Some(id)) => match self.state(at, id)? {
                IdState::Answered => return Ok(Some(ProblemKind::RepeatedResult)),
                IdState::Waiting(call) => {
                    self.known.answer(id, call, None, at.entry);
                    call
                }
                IdState::Free => {
                    self.has_orphans = true;
                    at.conn
                        .prepare_cached(
                            "INSERT OR IGNORE INTO orphan_results
                                (session, call_id, entry, is_error, mentions_error, output_name)
                             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                        )?
                        .execute((
                            at.session,
                            id,
                            at.entry,
                            result.is_error,
                            result.mentions_error,
                            &result.output_name,
                        ))?;
                    return Ok(Some(ProblemKind::OrphanResult));
                }
            },
            // A result without an id belongs to the oldest open call of the preceding assistant
            // message.
            (None, None) => match self.oldest_open(at)? {
                Some(call) => call,
                None => return Ok(Some(ProblemKind::OrphanResult)),
            },
        };
        if let Some(open) = self.open.as_mut().filter(|open| open.entry == call.entry) {
            open.calls.remove(&call.ordinal);
        }
        let answer = CallResult {
            entry: at.entry,
            is_error: result.is_error,
            mentions_error: result.mentions_error,
            output_name: result.output_name.clone(),
            output: None,
        };
        self.pair(at, call, answer)?;
        Ok(None)
    }

    /// Writes the rows of calls that have none.
    pub(crate) fn save(&mut self, conn: &Connection, session: SessionRow) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let mut statement = conn.prepare_cached(
            "INSERT INTO tool_call_rows
                (entry, ordinal, session, tool, call, target, result, is_error, mentions_error,
                 output_name, output)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?;
        for (position, PendingCall { tool, call, target, answer }) in
            std::mem::take(&mut self.pending)
        {
            let answer = answer.as_ref();
            statement.execute((
                position.entry,
                position.ordinal,
                session,
                tool,
                call,
                target,
                answer.map(|answer| answer.entry),
                answer.map(|answer| answer.is_error),
                answer.map(|answer| answer.mentions_error),
                answer.and_then(|answer| answer.output_name.as_deref()),
                answer.and_then(|answer| answer.output),
            ))?;
        }
        Ok(())
    }

    /// Removes the calls of an entry that a newer version replaces, and returns their number. Their
    /// results wait for the calls of the newer version.
    pub(crate) fn withdraw(&mut self, at: CallContext<'_>, entry: EntryId) -> Result<i64> {
        self.save(at.conn, at.session)?;
        at.conn
            .prepare_cached(
                "INSERT OR IGNORE INTO orphan_results
                    (session, call_id, entry, is_error, mentions_error, output_name)
                 SELECT session, call_id, result, is_error, mentions_error, output_file
                   FROM tool_calls
                  WHERE entry = ?1 AND result IS NOT NULL AND call_id IS NOT NULL",
            )?
            .execute([entry])?;
        let mut withdrawn = 0;
        let mut statement = at.conn.prepare_cached(
            "SELECT ordinal, call_id, result, is_partial FROM tool_calls WHERE entry = ?1",
        )?;
        let mut rows = statement.query([entry])?;
        while let Some(row) = rows.next()? {
            withdrawn += 1;
            if let Some(id) = row.get::<_, Option<Box<str>>>(1)?
                && !row.get::<_, bool>(3)?
            {
                self.load(at, &id)?;
                self.known.remove(&id, CallPosition { entry, ordinal: row.get(0)? }, row.get(2)?);
            }
        }
        at.conn.prepare_cached("DELETE FROM tool_call_rows WHERE entry = ?1")?.execute([entry])?;
        if withdrawn > 0 {
            self.has_orphans = true;
        }
        if self.open.as_ref().is_some_and(|open| open.entry == entry) {
            self.open = None;
        }
        Ok(withdrawn)
    }

    /// Returns the call that the older version of a result answered. If the older version still
    /// waits for its call, it is removed.
    fn call_of_older_result(
        &mut self,
        at: CallContext<'_>,
        id: &str,
        older: EntryId,
    ) -> Result<Option<CallPosition>> {
        self.load(at, id)?;
        let call = self.known.call_answered_by(id, older);
        if let Some(call) = call {
            self.known.answer(id, call, Some(older), at.entry);
        }
        if call.is_none() {
            let waited = at
                .conn
                .prepare_cached(
                    "DELETE FROM orphan_results WHERE session = ?1 AND call_id = ?2 AND entry = ?3",
                )?
                .execute((at.session, id, older))?;
            if waited > 0 {
                rows::forget_problem(at.conn, older, ProblemKind::OrphanResult)?;
            }
        }
        Ok(call)
    }

    fn pair(
        &mut self,
        at: CallContext<'_>,
        call: CallPosition,
        mut answer: CallResult,
    ) -> Result<()> {
        if let Some(name) = &answer.output_name {
            answer.output = outputs::newest_file(at.conn, at.session, name)?;
        }
        if let Some(pending) = self.pending.get_mut(&call) {
            pending.answer = Some(answer);
            return Ok(());
        }
        at.conn
            .prepare_cached(
                "UPDATE tool_call_rows
                    SET result = ?3, is_error = ?4, mentions_error = ?5, output_name = ?6, output = ?7
                  WHERE entry = ?1 AND ordinal = ?2",
            )?
            .execute((
                call.entry,
                call.ordinal,
                answer.entry,
                answer.is_error,
                answer.mentions_error,
                answer.output_name,
                answer.output,
            ))?;
        Ok(())
    }

    fn load(&mut self, at: CallContext<'_>, id: &str) -> Result<()> {
        if at.is_complete { Ok(()) } else { self.known.load(at.conn, at.session, id) }
    }

    fn state(&mut self, at: CallContext<'_>, id: &str) -> Result<IdState> {
        self.load(at, id)?;
        Ok(self.known.state(id))
    }

    /// Pairs a call with a result that came before it. Returns the entry of the result.
    fn claim_orphan(
        &mut self,
        at: CallContext<'_>,
        id: &str,
        call: CallPosition,
    ) -> Result<Option<EntryId>> {
        if at.is_complete && !self.has_orphans {
            return Ok(None);
        }
        let orphan = at
            .conn
            .prepare_cached(
                "SELECT entry, is_error, mentions_error, output_name FROM orphan_results
                  WHERE session = ?1 AND call_id = ?2 ORDER BY entry LIMIT 1",
            )?
            .query_row((at.session, id), |row| {
                Ok(CallResult {
                    entry: row.get(0)?,
                    is_error: row.get(1)?,
                    mentions_error: row.get(2)?,
                    output_name: row.get(3)?,
                    output: None,
                })
            })
            .optional()?;
        let Some(orphan) = orphan else { return Ok(None) };
        let entry = orphan.entry;
        self.pair(at, call, orphan)?;
        at.conn
            .prepare_cached(
                "DELETE FROM orphan_results WHERE session = ?1 AND call_id = ?2 AND entry = ?3",
            )?
            .execute((at.session, id, entry))?;
        rows::forget_problem(at.conn, entry, ProblemKind::OrphanResult)?;
        Ok(Some(entry))
    }

    fn oldest_open(&mut self, at: CallContext<'_>) -> Result<Option<CallPosition>> {
        if self.open.is_none() {
            self.save(at.conn, at.session)?;
            // The ids of entries are not in the order of lines if a line holds several records.
            let newest: Option<EntryId> = at
                .conn
                .prepare_cached(concat!(
                    "SELECT entry FROM tool_call_rows WHERE session = ?1 AND entry <> ?2
                      ORDER BY ",
                    order_by_line!("entry", " DESC"),
                    " LIMIT 1",
                ))?
                .query_row((at.session, at.entry), |row| row.get(0))
                .optional()?;
            let entry = newest.unwrap_or(at.entry);
            let calls = at
                .conn
                .prepare_cached(
                    "SELECT ordinal, call_id FROM tool_calls
                      WHERE entry = ?1 AND result IS NULL AND is_partial = 0",
                )?
                .query_map([entry], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<Result<_, _>>()?;
            self.open = Some(OpenCalls { entry, calls });
        }
        let Some(open) = &mut self.open else { return Ok(None) };
        let Some((ordinal, id)) = open.calls.pop_first() else { return Ok(None) };
        let call = CallPosition { entry: open.entry, ordinal };
        if let Some(id) = id {
            self.load(at, &id)?;
            self.known.answer(&id, call, None, at.entry);
        }
        Ok(Some(call))
    }
}
