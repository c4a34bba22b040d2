//! Fields of an item that are not in its own record: its turn, the name of its parent, the results
//! of its calls, and the sessions that they started.
//!
//! Reads rows only, never a record.

use std::borrow::Cow;

use foldhash::{HashMap, HashMapExt};
use quipu_transcript::format;
use quipu_transcript::story::{
    CALL_COLUMNS, Outcome, Piece, StoryCall, StoryItem, StoryResult, subject_line,
};
use rusqlite::{Connection, OptionalExtension};

use super::calls::Calls;
use super::plan::Plan;
use super::queued::HumanTexts;
use super::rows::Row;
use crate::Result;
use crate::base::ids::{EntryId, PackedId, SessionRow};
use crate::project::family::{agent_ids, works_for};
use crate::read::query::lost;
use crate::read::query::prompts::newest_version;

/// The data of the session that items need.
pub(super) struct ItemFields<'c> {
    conn: &'c Connection,
    session: SessionRow,
    pub(super) plan: &'c Plan,
    turns: HashMap<EntryId, u64>,
    /// The sessions that calls started, by call id.
    started: HashMap<String, String>,
    /// True if a call whose result mentions an error is marked.
    error_words_count: bool,
    /// The previous entry and its name. It is mostly the parent of the next one.
    last: Option<(EntryId, String)>,
    human_texts: HumanTexts,
    pub(super) calls: Calls<'c>,
}

impl<'c> ItemFields<'c> {
    pub(super) fn new(
        conn: &'c Connection,
        session: SessionRow,
        plan: &'c Plan,
    ) -> Result<ItemFields<'c>> {
        let format: String =
            conn.query_row("SELECT format FROM sessions WHERE id = ?1", [session], |row| {
                row.get(0)
            })?;
        let turns = turns(conn, session, plan)?;
        Ok(ItemFields {
            conn,
            session,
            plan,
            turns: turns.into_iter().zip(1..).collect(),
            started: started(conn, session)?,
            error_words_count: format::by_name(&format)
                .is_some_and(|format| format.error_words_count()),
            last: None,
            human_texts: HumanTexts::default(),
            calls: Calls::new(conn, session),
        })
    }

    /// Returns the number of a turn.
    pub(super) fn turn(&self, turn: EntryId) -> Option<u64> {
        self.turns.get(&turn).copied()
    }

    /// Adds these fields to an item.
    pub(super) fn add(&mut self, row: &Row, item: &mut StoryItem<'_>) -> Result<()> {
        item.entry = row.id.0;
        let own = name(row.id, row.uuid.as_ref());
        item.parent = match (row.parent, self.last.take()) {
            (Some(parent), Some((last, name))) if last == parent => Some(name),
            (Some(parent), _) => Some(name_of(self.conn, parent)?),
            (None, _) => None,
        };
        if item.id.is_none() {
            item.id = Some(Cow::Owned(own.clone()));
        }
        self.last = Some((row.id, own));
        // An entry of a prompt list has no turn: it is one itself.
        item.turn = self.turn(row.turn.unwrap_or(row.id));
        item.is_prompt |= item.turn.is_some() && row.turn.is_none();
        item.is_provisional = row.id.seq().is_none();
        item.missing_parent = row.missing_parent.as_ref().map(PackedId::unpack);
        item.oversize = (row.is_oversize() && row.id.ordinal() == 0).then_some(row.length);
        if self.plan.was_rewritten
            && let Some(seq) = row.id.seq()
        {
            item.is_absent =
                self.conn.prepare_cached("SELECT 1 FROM absent WHERE seq = ?1")?.exists([seq])?;
        }
        self.human_texts.unfold(self.conn, self.session, self.plan, row, item)?;
        if item.is_relayed {
            // The calls of a sub-agent are in its own session.
            return Ok(());
        }
        let mut ordinal = 0;
        for piece in &mut item.pieces {
            match piece {
                Piece::Call(call) => {
                    self.call(row.id, ordinal, call)?;
                    ordinal += 1;
                }
                Piece::Result(result) => self.result(result)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn call(&self, entry: EntryId, ordinal: i64, call: &mut StoryCall<'_>) -> Result<()> {
        let ended: Option<(Option<bool>, Option<bool>)> = self
            .conn
            .prepare_cached(
                "SELECT is_error, mentions_error FROM tool_call_rows
                  WHERE entry = ?1 AND ordinal = ?2 AND result IS NOT NULL",
            )?
            .query_row((entry, ordinal), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        call.outcome = ended.map(|(is_error, mentions_error)| {
            let mentions = self.error_words_count && mentions_error == Some(true);
            Outcome::of(is_error == Some(true), mentions)
        });
        call.subagent = call.id.as_deref().and_then(|id| self.started.get(id).cloned());
        Ok(())
    }

    fn result(&mut self, result: &mut StoryResult<'_>) -> Result<()> {
        let Some(id) = result.call_id.as_deref() else { return Ok(()) };
        let call: Option<(String, Option<String>)> = match self.calls.first(id)? {
            Some((entry, ordinal)) => self
                .conn
                .prepare_cached(
                    "SELECT t.name,
                            iif(typeof(c.target) = 'integer',
                                (SELECT text FROM targets WHERE id = c.target), c.target)
                       FROM tool_call_rows c CROSS JOIN tools t ON t.id = c.tool
                      WHERE c.entry = ?1 AND c.ordinal = ?2",
                )?
                .query_row((entry, ordinal), |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?,
            None => None,
        };
        let Some((name, target)) = call else {
            result.is_orphan = true;
            return Ok(());
        };
        let columns = CALL_COLUMNS.saturating_sub(name.chars().count() + 1);
        result.about =
            target.map(|target| subject_line(&target, columns)).filter(|about| !about.is_empty());
        if result.name.is_none() && !name.is_empty() {
            result.name = Some(Cow::Owned(name));
        }
        Ok(())
    }
}

/// Returns the prompts that begin the turns of a session, in the order in which they are shown. A
/// turn has the id of the first version of its prompt, and the newest version is shown.
pub(super) fn turns(conn: &Connection, session: SessionRow, plan: &Plan) -> Result<Vec<EntryId>> {
    let mut turns = Vec::new();
    let mut statement = conn.prepare_cached(
        "SELECT t.id, e.superseded_by FROM turns t JOIN entry_rows e ON e.id = t.id
          WHERE t.session = ?1",
    )?;
    let mut rows = statement.query([session])?;
    while let Some(row) = rows.next()? {
        let turn: EntryId = row.get(0)?;
        let shown = match row.get(1)? {
            Some(newer) => newest_version(conn, newer)?,
            None => turn,
        };
        turns.push((plan.position(shown), turn));
    }
    if turns.is_empty() {
        let known = lost::turns(conn, session)?;
        turns.extend(known.into_iter().map(|turn| (plan.position(turn), turn)));
    }
    turns.sort_unstable();
    Ok(turns.into_iter().map(|(_, turn)| turn).collect())
}

/// Returns the turns in the order in which they are shown, for a caller without a plan.
pub(crate) fn shown_turns(conn: &Connection, session: SessionRow) -> Result<Vec<EntryId>> {
    turns(conn, session, &Plan::of(conn, session)?)
}

/// Returns the sessions that the calls of a session started, by call id.
pub(super) fn started(conn: &Connection, session: SessionRow) -> Result<HashMap<String, String>> {
    let mut calls = HashMap::new();
    let mut spawned = conn.prepare_cached(
        "SELECT call_id FROM spawned_agents WHERE session = ?1 AND agent_id = ?2",
    )?;
    let mut statement = conn.prepare_cached(concat!(
        "SELECT child.session_id, child.parent_call, child.session_key
           FROM sessions parent
           JOIN sessions child ON ",
        works_for!(),
        " WHERE parent.id = ?1
          ORDER BY child.id",
    ))?;
    let mut rows = statement.query([session])?;
    while let Some(row) = rows.next()? {
        let child: String = row.get(0)?;
        let mut call: Option<String> = row.get(1)?;
        let key: Option<String> = row.get(2)?;
        for id in agent_ids(&child, key.as_deref()) {
            if call.is_none() {
                call = spawned.query_row((session, id), |row| row.get(0)).optional()?;
            }
        }
        if let Some(call) = call {
            calls.entry(call).or_insert(child);
        }
    }
    Ok(calls)
}

/// Returns the name of an entry: the agent's id, or else the ledger's number of its record.
pub(crate) fn name(entry: EntryId, uuid: Option<&PackedId>) -> String {
    uuid.map_or_else(|| entry.name(), PackedId::unpack)
}

/// Returns the name of an entry whose id must be looked up.
pub(in crate::read::query) fn name_of(conn: &Connection, entry: EntryId) -> Result<String> {
    let uuid: Option<PackedId> = conn
        .prepare_cached("SELECT uuid FROM entry_rows WHERE id = ?1")?
        .query_row([entry], |row| row.get(0))
        .optional()?
        .flatten();
    Ok(name(entry, uuid.as_ref()))
}
