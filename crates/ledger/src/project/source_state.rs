//! The position at the end of each source: the last entry, its turn and its time, for the next
//! record.
//!
//! Never reads the clock: a time is compared only with times in the same source.

use std::sync::Arc;

use foldhash::HashMap;
use quipu_transcript::entry::Role;
use quipu_transcript::problem::{Problem, ProblemKind};
use rusqlite::{Connection, OptionalExtension, Row, Transaction};

use super::RecordPosition;
use super::draft::{Detail, DraftEntry};
use super::usage::Model;
use crate::Result;
use crate::base::ids::{EntryId, GenerationId, SessionRow, SourceId};
use crate::truth::spans;

/// The number of records that are searched for the entry before a changed line. It bounds the
/// search after a rewrite.
const MAX_LOOK_BACK: i64 = 64;

/// The number of ancestors that are searched for a model. It bounds the search in hostile files;
/// there are a few entries between two answers.
const MAX_LOOK_UP: i64 = 256;

/// A day in milliseconds. Entries written together may be slightly out of order, but a correct
/// clock never goes back a day.
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Five years in milliseconds. A session may continue years later, but a larger step is a wrong
/// clock.
const MAX_STEP_AHEAD_MS: i64 = 5 * 365 * DAY_MS;

/// The start of 2020, milliseconds UTC. No agents existed before, so an earlier time is not used
/// for comparison.
const EARLIEST_TIME: i64 = 1_577_836_800_000;

/// The end of a source, up to its last projected record.
#[derive(Debug, Clone)]
pub(crate) struct SourceState {
    pub(crate) session: Option<SessionRow>,
    pub(crate) last_entry: Option<EntryId>,
    pub(crate) last_turn: Option<EntryId>,
    pub(crate) generation: GenerationId,
    pub(crate) end: u64,
    /// True if a header, or the problem of a missing one, was seen.
    pub(crate) has_header: bool,
    /// The time with which later times are compared.
    last_time: Option<i64>,
    /// The model in effect, for answers and usage that name no model.
    pub(crate) model: Option<Arc<Model>>,
    /// True if an entry since then did not follow the one before it. The model in effect is then
    /// that of its path.
    has_strayed: bool,
    is_dirty: bool,
}

impl SourceState {
    /// Stores the model that an entry puts into effect: a changed model, or the model of an answer
    /// in the main conversation. `follows` is false if the entry may not follow the one before it.
    pub(crate) fn take_model(&mut self, entry: &DraftEntry, follows: bool) {
        let is_main = !entry.marks.is_side && !entry.marks.is_sidechain;
        let model = match (&entry.detail, &entry.usage) {
            (Detail::ModelChange(model), _) => Some(&**model),
            (_, Some(usage)) if is_main && entry.role == Some(Role::Assistant) => {
                Some(&usage.model)
            }
            _ => None,
        };
        match model.filter(|model| !model.model.is_empty()) {
            Some(model) => {
                self.has_strayed = false;
                if self.model.as_deref() != Some(model) {
                    self.model = Some(Arc::new(model.clone()));
                }
            }
            None => self.has_strayed |= !follows,
        }
    }

    /// Puts the model of a path into effect, for an answer without a model after `parent`. A path
    /// that names no model leaves the last one of the source.
    pub(crate) fn take_model_of_path(
        &mut self,
        tx: &Transaction<'_>,
        parent: Option<EntryId>,
    ) -> Result<()> {
        if !std::mem::take(&mut self.has_strayed) || self.model.is_none() {
            return Ok(());
        }
        let found = tx
            .prepare_cached(
                "WITH RECURSIVE path (id, parent, answer, depth) AS (
                    SELECT e.id, e.parent, iif(k.is_side OR k.is_sidechain, 0, k.model), 0
                      FROM entry_rows e CROSS JOIN kinds k ON k.id = e.kind WHERE e.id = ?1
                     UNION ALL
                    SELECT e.id, e.parent, iif(k.is_side OR k.is_sidechain, 0, k.model), depth + 1
                      FROM path CROSS JOIN entry_rows e ON e.id = path.parent
                     CROSS JOIN kinds k ON k.id = e.kind
                     WHERE depth < ?2)
                 SELECT coalesce(c.model, m.model), coalesce(c.provider, m.provider),
                        iif(c.id IS NULL, m.api, '')
                   FROM path
                   LEFT JOIN model_changes c ON c.id = path.id
                   LEFT JOIN models m ON m.id = path.answer
                  WHERE coalesce(c.model, m.model, '') <> '' LIMIT 1",
            )?
            .query_row((parent, MAX_LOOK_UP), |row| read_model(row, 0))
            .optional()?;
        if let Some(model) = found.flatten() {
            self.model = Some(Arc::new(model));
        }
        Ok(())
    }

    /// The state before the first record.
    const START: SourceState = SourceState {
        session: None,
        last_entry: None,
        last_turn: None,
        generation: GenerationId(0),
        end: 0,
        has_header: false,
        last_time: None,
        model: None,
        has_strayed: false,
        is_dirty: false,
    };

    /// Returns a problem if the time of the next entry is far from the times before it. A step back
    /// is reported once. A step ahead is reported for each entry, because each may be wrong by
    /// itself.
    pub(crate) fn skew(&mut self, time: Option<i64>) -> Option<Problem> {
        let time = time?;
        let by = self.last_time.map_or(0, |last| time.saturating_sub(last));
        if time >= EARLIEST_TIME && by < MAX_STEP_AHEAD_MS {
            let is_back = by < -DAY_MS;
            self.last_time = self.last_time.filter(|_| !is_back).max(Some(time));
        }
        let days = by.unsigned_abs() / DAY_MS.unsigned_abs();
        let detail = match by {
            by if by >= MAX_STEP_AHEAD_MS => format!("{days} days ahead"),
            by if by < -DAY_MS => format!("{days} days back"),
            _ => return None,
        };
        Some(Problem::new(ProblemKind::ClockSkew, detail))
    }

    /// Moves to a record that does not follow the previous one, because of a new generation
    /// or an inserted line. The entry before it is found through the spans.
    fn jump(&mut self, tx: &Transaction<'_>, position: &RecordPosition<'_>) -> Result<()> {
        self.last_entry = None;
        self.last_turn = None;
        self.last_time = None;
        self.has_strayed = true;
        let Some(before) = spans::record_before(tx, position.generation, position.start)? else {
            return Ok(());
        };
        // The record before may have no entry that is part of the conversation.
        let found = tx
            .prepare_cached(
                "SELECT e.id, e.turn
                   FROM records r
                   LEFT JOIN sightings s ON s.seq = r.seq
                   JOIN entries e ON e.id = coalesce(s.entry, r.seq)
                  WHERE r.seq BETWEEN ?1 - ?2 AND ?1
                    AND r.generation = (SELECT generation FROM records WHERE seq = ?1)
                    AND (e.entry_id IS NOT NULL OR e.role IS NOT NULL OR e.is_side = 0)
                  ORDER BY r.seq DESC LIMIT 1",
            )?
            .query_row((before, MAX_LOOK_BACK), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((entry, turn)) = found {
            self.last_entry = Some(entry);
            self.last_turn = turn;
        }
        Ok(())
    }
}

/// The states of the sources that are being projected.
#[derive(Debug, Default)]
pub(crate) struct SourceStates {
    open: HashMap<SourceId, SourceState>,
}

impl SourceStates {
    /// Returns the state before a record at `position`.
    pub(crate) fn before(
        &mut self,
        tx: &Transaction<'_>,
        position: &RecordPosition<'_>,
    ) -> Result<SourceState> {
        let mut state = match self.open.get(&position.source) {
            Some(state) => state.clone(),
            None => load(tx, position.source)?,
        };
        if state.generation != position.generation || state.end != position.start {
            state.jump(tx, position)?;
        }
        Ok(state)
    }

    /// Stores the state after the record at `position`.
    pub(crate) fn advance(&mut self, position: &RecordPosition<'_>, mut state: SourceState) {
        state.generation = position.generation;
        state.end = position.start + position.length;
        state.is_dirty = true;
        self.open.insert(position.source, state);
    }

    /// Writes the states that changed.
    pub(crate) fn save(&mut self, tx: &Transaction<'_>) -> Result<()> {
        let mut statement = tx.prepare_cached(
            "INSERT OR REPLACE INTO source_tips
                (source, session, last_entry, last_turn, generation, end, has_header, last_time,
                 model, provider, api, has_strayed)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?;
        for (source, state) in &mut self.open {
            if std::mem::take(&mut state.is_dirty) {
                let model = state.model.as_deref();
                statement.execute((
                    source,
                    state.session,
                    state.last_entry,
                    state.last_turn,
                    state.generation,
                    state.end as i64,
                    state.has_header,
                    state.last_time,
                    model.map(|model| &*model.model),
                    model.map(|model| &*model.provider),
                    model.map(|model| &*model.api),
                    state.has_strayed,
                ))?;
            }
        }
        Ok(())
    }
}

/// Returns the model in effect at the end of a source.
pub(crate) fn model(conn: &Connection, source: SourceId) -> Result<Option<Model>> {
    let model = conn
        .prepare_cached("SELECT model, provider, api FROM source_tips WHERE source = ?1")?
        .query_row([source], |row| read_model(row, 0))
        .optional()?;
    Ok(model.flatten())
}

/// Reads a model from three columns.
fn read_model(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Model>> {
    let Some(model) = row.get(first)? else { return Ok(None) };
    Ok(Some(Model { model, provider: row.get(first + 1)?, api: row.get(first + 2)? }))
}

fn load(tx: &Transaction<'_>, source: SourceId) -> Result<SourceState> {
    let state = tx
        .prepare_cached(
            "SELECT session, last_entry, last_turn, generation, end, has_header, last_time,
                    model, provider, api, has_strayed
               FROM source_tips WHERE source = ?1",
        )?
        .query_row([source], |row| {
            Ok(SourceState {
                session: row.get(0)?,
                last_entry: row.get(1)?,
                last_turn: row.get(2)?,
                generation: row.get(3)?,
                end: row.get::<_, i64>(4)? as u64,
                has_header: row.get(5)?,
                last_time: row.get(6)?,
                model: read_model(row, 7)?.map(Arc::new),
                has_strayed: row.get(10)?,
                is_dirty: false,
            })
        })
        .optional()?;
    Ok(state.unwrap_or(SourceState::START))
}
