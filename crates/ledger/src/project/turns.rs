//! Turns: one prompt and everything that answers it.
//!
//! A turn never ends by time: only its entries change its status.

use std::borrow::Cow;
use std::collections::hash_map::Entry;

use foldhash::HashMap;
use quipu_transcript::entry::{Role, Stop, Usage};
use rusqlite::{Connection, OptionalExtension};

use super::draft::DraftEntry;
use super::usage::tokens;
use crate::Result;
use crate::base::ids::{EntryId, SessionRow};

#[derive(Debug, Clone)]
struct Turn {
    session: SessionRow,
    parent: Option<EntryId>,
    is_automatic: bool,
    status: Cow<'static, str>,
    model: Option<String>,
    started_at: Option<i64>,
    ended_at: Option<i64>,
    tokens: [i64; 4],
}

/// The turns that changed since the last commit.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    open: HashMap<EntryId, Turn>,
}

impl Turns {
    /// Begins a turn with a prompt.
    pub(crate) fn begin(
        &mut self,
        prompt: EntryId,
        session: SessionRow,
        parent: Option<EntryId>,
        is_automatic: bool,
        time: Option<i64>,
    ) {
        self.open.insert(
            prompt,
            Turn {
                session,
                parent,
                is_automatic,
                status: "open".into(),
                model: None,
                started_at: time,
                ended_at: time,
                tokens: [0; 4],
            },
        );
    }

    /// Adds an entry to a turn.
    pub(crate) fn add(
        &mut self,
        conn: &Connection,
        turn: EntryId,
        entry: &DraftEntry,
    ) -> Result<()> {
        // Bookkeeping may come hours later, and the model may change after the last answer, so
        // neither changes the end of a turn.
        if entry.role.is_none() || entry.marks.is_side {
            return Ok(());
        }
        let Some(turn) = self.get(conn, turn)? else { return Ok(()) };
        if let Some(time) = entry.time
            && turn.ended_at.is_none_or(|end| time > end)
        {
            turn.ended_at = Some(time);
        }
        if let (Some(Role::Assistant), Some(model)) = (entry.role, &entry.model)
            && turn.model.as_deref() != Some(&*model.model)
        {
            turn.model = Some(model.model.to_string());
        }
        if let Some(status) = status(entry) {
            turn.status = status.into();
        }
        Ok(())
    }

    /// Updates the tokens of a turn whose response has grown.
    pub(crate) fn add_usage(
        &mut self,
        conn: &Connection,
        turn: EntryId,
        before: &Usage,
        after: &Usage,
    ) -> Result<()> {
        let Some(turn) = self.get(conn, turn)? else { return Ok(()) };
        let parts = |usage: &Usage| {
            [usage.input, usage.output, usage.cache_read, usage.cache_write].map(tokens)
        };
        for ((sum, before), after) in turn.tokens.iter_mut().zip(parts(before)).zip(parts(after)) {
            *sum = sum.saturating_sub(before).saturating_add(after);
        }
        Ok(())
    }

    fn get(&mut self, conn: &Connection, id: EntryId) -> Result<Option<&mut Turn>> {
        match self.open.entry(id) {
            Entry::Occupied(known) => Ok(Some(known.into_mut())),
            Entry::Vacant(vacant) => Ok(load(conn, id)?.map(|turn| vacant.insert(turn))),
        }
    }

    /// Writes the turns that changed.
    pub(crate) fn save(&mut self, conn: &Connection) -> Result<()> {
        let mut statement = conn.prepare_cached(
            "INSERT INTO turns
                (id, session, parent, status, model, started_at, ended_at,
                 input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, is_automatic)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
             ON CONFLICT (id) DO UPDATE SET
                status = ?4, model = ?5, ended_at = ?7,
                input_tokens = ?8, output_tokens = ?9, cache_read_tokens = ?10, cache_write_tokens = ?11",
        )?;
        let mut turns: Vec<_> = self.open.drain().collect();
        turns.sort_unstable_by_key(|(id, _)| *id);
        for (id, turn) in turns {
            let [input, output, cache_read, cache_write] = turn.tokens;
            statement.execute((
                id,
                turn.session,
                turn.parent,
                turn.status,
                turn.model,
                turn.started_at,
                turn.ended_at,
                input,
                output,
                cache_read,
                cache_write,
                turn.is_automatic,
            ))?;
        }
        Ok(())
    }
}

fn load(conn: &Connection, id: EntryId) -> Result<Option<Turn>> {
    Ok(conn
        .prepare_cached(
            "SELECT session, parent, status, model, started_at, ended_at,
                    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
                    is_automatic
               FROM turns WHERE id = ?1",
        )?
        .query_row([id], |row| {
            Ok(Turn {
                session: row.get(0)?,
                parent: row.get(1)?,
                status: Cow::Owned(row.get(2)?),
                model: row.get(3)?,
                started_at: row.get(4)?,
                ended_at: row.get(5)?,
                tokens: [row.get(6)?, row.get(7)?, row.get(8)?, row.get(9)?],
                is_automatic: row.get(10)?,
            })
        })
        .optional()?)
}

/// Returns the status of a turn after an entry; `None` leaves it unchanged.
fn status(entry: &DraftEntry) -> Option<&'static str> {
    if entry.marks.is_interrupt {
        return Some("aborted");
    }
    if entry.role != Some(Role::Assistant) || entry.marks.is_mirror {
        return None;
    }
    if entry.marks.is_error {
        return Some("error");
    }
    match entry.stop {
        Some(Stop::Error) => Some("error"),
        Some(Stop::Aborted) => Some("aborted"),
        Some(Stop::Done | Stop::Other) => Some("done"),
        Some(Stop::ToolUse) => Some("open"),
        // In a line of a streamed answer, a call waits for its result, and text may be the last
        // part.
        None if !entry.calls.is_empty() => Some("open"),
        None if !entry.text.prose.as_str().is_empty() => Some("done"),
        None => None,
    }
}
