//! Pairs tool calls with their results, in whichever order they come.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashSet};
use quipu_transcript::problem::ProblemKind;
use rusqlite::{Connection, OptionalExtension};

use super::draft::{DraftCall, DraftResult};
use super::targets::{Target, Targets};
use super::toolbox::{CallId, Tool, ToolId, Toolbox};
use super::{outputs, rows};
use crate::Result;
use crate::ids::{EntryId, SessionRow};

/// What is known in memory of a session's calls.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    by_id: HashMap<Box<str>, Call>,
    /// Ids that stand on several calls: the ledger is asked which of them waits.
    reused: HashSet<Box<str>>,
    /// Calls of the newest assistant message that wait for a result. `None`: the ledger must be
    /// asked.
    open: Option<Open>,
    has_orphans: bool,
    /// Calls that are in no row yet. Most are answered soon, and then their row is written once.
    unwritten: BTreeMap<(EntryId, u32), Unwritten>,
}

/// A call, and its result if that has come.
#[derive(Debug)]
struct Unwritten {
    tool: ToolId,
    /// The id after what it begins with.
    call: Option<Box<str>>,
    target: Option<Target>,
    answer: Option<Answer>,
}

/// What a call's row says of its result.
#[derive(Debug)]
struct Answer {
    entry: EntryId,
    is_error: bool,
    mentions_error: bool,
    output_name: Option<Box<str>>,
    output: Option<EntryId>,
}

/// Open calls of one message, by their place in it.
#[derive(Debug)]
struct Open {
    entry: EntryId,
    calls: BTreeMap<u32, Option<Box<str>>>,
}

#[derive(Debug, Clone, Copy)]
struct Call {
    entry: EntryId,
    ordinal: u32,
    is_answered: bool,
}

/// Where calls and results stand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'c> {
    pub(crate) conn: &'c Connection,
    pub(crate) session: SessionRow,
    pub(crate) is_complete: bool,
    pub(crate) entry: EntryId,
    /// The older version of the entry, if it is a newer one.
    pub(crate) older: Option<EntryId>,
}

impl Calls {
    /// Stores the calls of an entry. Returns what was odd.
    pub(crate) fn called(
        &mut self,
        at: At<'_>,
        (toolbox, targets): (&mut Toolbox, &mut Targets),
        calls: &[DraftCall],
    ) -> Result<Vec<ProblemKind>> {
        let mut problems = Vec::new();
        let mut open = Open { entry: at.entry, calls: BTreeMap::new() };
        for (ordinal, call) in calls.iter().enumerate() {
            let ordinal = ordinal as u32;
            let id = call.id.as_deref().map(CallId::of);
            let tool = Tool {
                name: &call.name,
                call_begins: id.map_or("", |id| id.beginning),
                is_partial: call.is_partial,
            };
            let unwritten = Unwritten {
                tool: toolbox.number(at.conn, tool)?,
                call: id.map(|id| id.rest.into()),
                target: match &call.target {
                    Some(target) => Some(targets.store(at.conn, target)?),
                    None => None,
                },
                answer: None,
            };
            self.unwritten.insert((at.entry, ordinal), unwritten);
            if call.is_partial {
                problems.push(ProblemKind::PartialCall);
                continue;
            }
            let mut is_answered = false;
            if let Some(id) = &call.id {
                if self.find(at, id)?.is_some() {
                    problems.push(ProblemKind::CallIdReused);
                    self.by_id.remove(id);
                    self.reused.insert(id.clone());
                } else {
                    is_answered = self.claim_orphan(at, id, ordinal)?;
                    self.by_id.insert(id.clone(), Call { entry: at.entry, ordinal, is_answered });
                }
            }
            if !is_answered {
                open.calls.insert(ordinal, call.id.clone());
            }
        }
        if !calls.is_empty() {
            self.open = Some(open);
        }
        Ok(problems)
    }

    /// Pairs a result with its call. Returns what was odd.
    pub(crate) fn answered(
        &mut self,
        at: At<'_>,
        result: &DraftResult,
    ) -> Result<Option<ProblemKind>> {
        let replaced = match (at.older, &result.call_id) {
            (Some(older), Some(id)) => self.answered_by(at, id, older)?,
            _ => None,
        };
        let call = match (replaced, &result.call_id) {
            (Some(call), _) => call,
            (None, Some(id)) => match self.find(at, id)? {
                Some(call) if call.is_answered => return Ok(Some(ProblemKind::RepeatedResult)),
                Some(call) => {
                    if let Some(known) = self.by_id.get_mut(id) {
                        known.is_answered = true;
                    }
                    (call.entry, call.ordinal)
                }
                None => {
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
            // Without an id: the oldest open call of the preceding assistant message.
            (None, None) => match self.oldest_open(at)? {
                Some(call) => call,
                None => return Ok(Some(ProblemKind::OrphanResult)),
            },
        };
        if let Some(open) = self.open.as_mut().filter(|open| open.entry == call.0) {
            open.calls.remove(&call.1);
        }
        let answer = Answer {
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
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let mut statement = conn.prepare_cached(
            "INSERT INTO tool_call_rows
                (entry, ordinal, session, tool, call, target, result, is_error, mentions_error,
                 output_name, output)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?;
        for ((entry, ordinal), Unwritten { tool, call, target, answer }) in
            std::mem::take(&mut self.unwritten)
        {
            let answer = answer.as_ref();
            statement.execute((
                entry,
                ordinal,
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

    /// Takes back the calls of an entry that a newer version replaces. Their results wait for the
    /// newer version's calls.
    pub(crate) fn withdraw(&mut self, at: At<'_>, entry: EntryId) -> Result<i64> {
        self.save(at.conn, at.session)?;
        at.conn
            .prepare_cached(
                "INSERT OR IGNORE INTO orphan_results
                    (session, call_id, entry, is_error, mentions_error, output_name)
                 SELECT session, call_id, result, is_error, mentions_error, output_name
                   FROM tool_calls
                  WHERE entry = ?1 AND result IS NOT NULL AND call_id IS NOT NULL",
            )?
            .execute([entry])?;
        let withdrawn: Vec<Option<Box<str>>> = at
            .conn
            .prepare_cached("SELECT call_id FROM tool_calls WHERE entry = ?1")?
            .query_map([entry], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        at.conn.prepare_cached("DELETE FROM tool_call_rows WHERE entry = ?1")?.execute([entry])?;
        if !withdrawn.is_empty() {
            self.has_orphans = true;
            self.open = None;
        }
        for id in withdrawn.iter().flatten() {
            if self.by_id.get(id).is_some_and(|call| call.entry == entry) {
                self.by_id.remove(id);
            }
        }
        Ok(withdrawn.len() as i64)
    }

    /// The call that the older version of a result answered. If that still waits for its call, it
    /// does so no more.
    fn answered_by(
        &mut self,
        at: At<'_>,
        id: &str,
        older: EntryId,
    ) -> Result<Option<(EntryId, u32)>> {
        self.save(at.conn, at.session)?;
        let parts = CallId::of(id);
        let call = at
            .conn
            .prepare_cached(
                "SELECT c.entry, c.ordinal
                   FROM tool_call_rows c CROSS JOIN tools t ON t.id = c.tool
                  WHERE c.session = ?1 AND substr(c.call, -4) = substr(?2, -4) AND c.call = ?2
                    AND t.call_begins = ?3 AND c.result = ?4 LIMIT 1",
            )?
            .query_row((at.session, parts.rest, parts.beginning, older), |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
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
        at: At<'_>,
        (entry, ordinal): (EntryId, u32),
        mut answer: Answer,
    ) -> Result<()> {
        if let Some(name) = &answer.output_name {
            answer.output = outputs::file(at.conn, at.session, name)?;
        }
        if let Some(unwritten) = self.unwritten.get_mut(&(entry, ordinal)) {
            unwritten.answer = Some(answer);
            return Ok(());
        }
        at.conn
            .prepare_cached(
                "UPDATE tool_call_rows
                    SET result = ?3, is_error = ?4, mentions_error = ?5, output_name = ?6, output = ?7
                  WHERE entry = ?1 AND ordinal = ?2",
            )?
            .execute((
                entry,
                ordinal,
                answer.entry,
                answer.is_error,
                answer.mentions_error,
                answer.output_name,
                answer.output,
            ))?;
        Ok(())
    }

    fn find(&mut self, at: At<'_>, id: &str) -> Result<Option<Call>> {
        if let Some(call) = self.by_id.get(id) {
            return Ok(Some(*call));
        }
        if at.is_complete && !self.reused.contains(id) {
            return Ok(None);
        }
        self.save(at.conn, at.session)?;
        let parts = CallId::of(id);
        // The oldest one that waits; if none does, the oldest.
        let calls: Vec<Call> = at
            .conn
            .prepare_cached(
                "SELECT c.entry, c.ordinal, c.result IS NOT NULL
                   FROM tool_call_rows c CROSS JOIN tools t ON t.id = c.tool
                  WHERE c.session = ?1 AND substr(c.call, -4) = substr(?2, -4) AND c.call = ?2
                    AND t.call_begins = ?3 AND t.is_partial = 0 AND c.entry <> ?4
                  ORDER BY c.result IS NOT NULL, c.entry % (1 << 40), c.entry, c.ordinal LIMIT 2",
            )?
            .query_map((at.session, parts.rest, parts.beginning, at.entry), |row| {
                Ok(Call { entry: row.get(0)?, ordinal: row.get(1)?, is_answered: row.get(2)? })
            })?
            .collect::<Result<_, _>>()?;
        match calls.as_slice() {
            [call] if !self.reused.contains(id) => {
                self.by_id.insert(id.into(), *call);
            }
            [_, _] => {
                self.reused.insert(id.into());
            }
            _ => {}
        }
        Ok(calls.first().copied())
    }

    /// A result that came before its call.
    fn claim_orphan(&mut self, at: At<'_>, id: &str, ordinal: u32) -> Result<bool> {
        if at.is_complete && !self.has_orphans {
            return Ok(false);
        }
        let orphan = at
            .conn
            .prepare_cached(
                "SELECT entry, is_error, mentions_error, output_name FROM orphan_results
                  WHERE session = ?1 AND call_id = ?2 ORDER BY entry LIMIT 1",
            )?
            .query_row((at.session, id), |row| {
                Ok(Answer {
                    entry: row.get(0)?,
                    is_error: row.get(1)?,
                    mentions_error: row.get(2)?,
                    output_name: row.get(3)?,
                    output: None,
                })
            })
            .optional()?;
        let Some(orphan) = orphan else { return Ok(false) };
        let entry = orphan.entry;
        self.pair(at, (at.entry, ordinal), orphan)?;
        at.conn
            .prepare_cached(
                "DELETE FROM orphan_results WHERE session = ?1 AND call_id = ?2 AND entry = ?3",
            )?
            .execute((at.session, id, entry))?;
        rows::forget_problem(at.conn, entry, ProblemKind::OrphanResult)?;
        Ok(true)
    }

    fn oldest_open(&mut self, at: At<'_>) -> Result<Option<(EntryId, u32)>> {
        if self.open.is_none() {
            self.save(at.conn, at.session)?;
            // Numbers of welded entries are not in order; their records are.
            let newest: Option<EntryId> = at
                .conn
                .prepare_cached(
                    "SELECT entry FROM tool_call_rows WHERE session = ?1 AND entry <> ?2
                      ORDER BY entry % (1 << 40) DESC, entry DESC LIMIT 1",
                )?
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
            self.open = Some(Open { entry, calls });
        }
        let Some(open) = &mut self.open else { return Ok(None) };
        let Some((ordinal, id)) = open.calls.pop_first() else { return Ok(None) };
        if let Some(known) = id.and_then(|id| self.by_id.get_mut(&id)) {
            known.is_answered = true;
        }
        Ok(Some((open.entry, ordinal)))
    }
}
