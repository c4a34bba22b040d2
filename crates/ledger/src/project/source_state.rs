//! Where the next record of each source goes on: which entry it follows, in which turn, and when.

use foldhash::HashMap;
use quipu_transcript::problem::{Problem, ProblemKind};
use rusqlite::{OptionalExtension, Transaction};

use super::Place;
use crate::Result;
use crate::base::ids::{EntryId, GenerationId, SessionRow, SourceId};
use crate::truth::spans;

/// How many records are looked through for the entry that a changed line follows.
const LOOK_BACK: i64 = 64;

/// Entries that are written at once may be a little out of order; no clock goes back a day.
const DAY: i64 = 24 * 60 * 60 * 1000;

/// A session may be gone on with years later, but not so many.
const FAR_AHEAD: i64 = 5 * 365 * DAY;

/// 2020: before there were agents, what a clock says is nothing to measure others by.
const FIRST_TIME: i64 = 1_577_836_800_000;

/// The end of a source, as far as it is folded in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tip {
    pub(crate) session: Option<SessionRow>,
    pub(crate) last_entry: Option<EntryId>,
    pub(crate) last_turn: Option<EntryId>,
    pub(crate) generation: GenerationId,
    pub(crate) end: u64,
    /// A header, or a complaint about its absence, was seen.
    pub(crate) has_header: bool,
    /// The time that others are measured by.
    last_time: Option<i64>,
    is_dirty: bool,
}

impl Tip {
    const NOWHERE: Tip = Tip {
        session: None,
        last_entry: None,
        last_turn: None,
        generation: GenerationId(0),
        end: 0,
        has_header: false,
        last_time: None,
        is_dirty: false,
    };

    /// Whether the time of the next entry is far from those before it. One that went back is told
    /// once, those that are ahead each time: they may be wrong one by one.
    pub(crate) fn skew(&mut self, time: Option<i64>) -> Option<Problem> {
        let time = time?;
        let by = self.last_time.map_or(0, |last| time.saturating_sub(last));
        if time >= FIRST_TIME && by < FAR_AHEAD {
            let is_back = by < -DAY;
            self.last_time = self.last_time.filter(|_| !is_back).max(Some(time));
        }
        let days = by.unsigned_abs() / DAY.unsigned_abs();
        let detail = match by {
            by if by >= FAR_AHEAD => format!("{days} days ahead"),
            by if by < -DAY => format!("{days} days back"),
            _ => return None,
        };
        Some(Problem::new(ProblemKind::ClockSkew, detail))
    }

    /// The record does not follow the one before it: a new generation, or a line put into the
    /// middle of a rewritten file. The entry before it is found through the spans.
    fn jump(&mut self, tx: &Transaction<'_>, place: &Place<'_>) -> Result<()> {
        self.last_entry = None;
        self.last_turn = None;
        self.last_time = None;
        let Some(before) = spans::record_before(tx, place.generation, place.start)? else {
            return Ok(());
        };
        // The record before it may say nothing, or nothing that is part of the conversation.
        let found = tx
            .prepare_cached(
                "SELECT e.id, e.turn
                   FROM records r
                   LEFT JOIN sightings s ON s.seq = r.seq
                   JOIN entries e ON e.id = coalesce(s.entry, r.seq)
                  WHERE r.seq BETWEEN ?1 - ?2 AND ?1
                    AND r.generation = (SELECT generation FROM records WHERE seq = ?1)
                    AND (e.uuid IS NOT NULL OR e.role IS NOT NULL OR e.is_side = 0)
                  ORDER BY r.seq DESC LIMIT 1",
            )?
            .query_row((before, LOOK_BACK), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((entry, turn)) = found {
            self.last_entry = Some(entry);
            self.last_turn = turn;
        }
        Ok(())
    }
}

/// The tips of the sources that are being folded in.
#[derive(Debug, Default)]
pub(crate) struct Tips {
    open: HashMap<SourceId, Tip>,
}

impl Tips {
    /// The tip that a record at `place` follows.
    pub(crate) fn before(&mut self, tx: &Transaction<'_>, place: &Place<'_>) -> Result<Tip> {
        let mut tip = match self.open.get(&place.source) {
            Some(tip) => *tip,
            None => load(tx, place.source)?,
        };
        if tip.generation != place.generation || tip.end != place.start {
            tip.jump(tx, place)?;
        }
        Ok(tip)
    }

    /// The record at `place` is folded in.
    pub(crate) fn advance(&mut self, place: &Place<'_>, mut tip: Tip) {
        tip.generation = place.generation;
        tip.end = place.start + place.length;
        tip.is_dirty = true;
        self.open.insert(place.source, tip);
    }

    /// Writes the tips that moved.
    pub(crate) fn save(&mut self, tx: &Transaction<'_>) -> Result<()> {
        let mut statement = tx.prepare_cached(
            "INSERT OR REPLACE INTO source_tips
                (source, session, last_entry, last_turn, generation, end, has_header, last_time)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?;
        for (source, tip) in &mut self.open {
            if std::mem::take(&mut tip.is_dirty) {
                statement.execute((
                    source,
                    tip.session,
                    tip.last_entry,
                    tip.last_turn,
                    tip.generation,
                    tip.end as i64,
                    tip.has_header,
                    tip.last_time,
                ))?;
            }
        }
        Ok(())
    }
}

fn load(tx: &Transaction<'_>, source: SourceId) -> Result<Tip> {
    let tip = tx
        .prepare_cached(
            "SELECT session, last_entry, last_turn, generation, end, has_header, last_time
               FROM source_tips WHERE source = ?1",
        )?
        .query_row([source], |row| {
            Ok(Tip {
                session: row.get(0)?,
                last_entry: row.get(1)?,
                last_turn: row.get(2)?,
                generation: row.get(3)?,
                end: row.get::<_, i64>(4)? as u64,
                has_header: row.get(5)?,
                last_time: row.get(6)?,
                is_dirty: false,
            })
        })
        .optional()?;
    Ok(tip.unwrap_or(Tip::NOWHERE))
}
