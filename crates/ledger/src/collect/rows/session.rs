//! Reads the new rows of one session in short pages, so that the writer of the database never
//! waits.

use quipu_transcript::format::{Format, Origin};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};

use super::cutting::{self, Cutting};
use super::event::Event;
use super::refusal::{Stop, theirs};
use super::tables::Tables;
use crate::collect::batch::{Began, Builder, RowCursor};
use crate::collect::known::{KnownSource, fingerprint};
use crate::collect::plan::Job;
use crate::collect::read::Work;
use crate::collect::rewrite::OldLines;

/// The number of rows after which a page ends.
const PAGE_ROWS: i64 = 512;

/// The number of bytes after which a page ends.
const PAGE_BYTES: usize = 2 << 20;

/// The smallest number of new rows that are compared with other sources of the session.
const MIN_ROWS_TO_COMPARE: i64 = 64;

/// A session in the database.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) id: String,
    /// The number of its last row.
    pub(super) last_row: i64,
    pub(super) rows: i64,
    /// The database's name of this generation of the session.
    pub(super) rewrite: String,
}

impl Session {
    /// Returns whether the session is unchanged, as far as its numbers show.
    pub(super) fn is_as_known(&self, known: &RowCursor) -> bool {
        (&self.rewrite, self.last_row, self.rows) == (&known.rewrite, known.last_row, known.rows)
    }
}

impl Session {
    /// Returns whether the last row that was read still holds the same bytes. `verified` counts the
    /// bytes that were compared.
    pub(super) fn has_same_end(
        &self,
        known: &KnownSource,
        rows: &RowCursor,
        conn: &Connection,
        tables: &Tables,
        verified: &mut u64,
    ) -> Result<bool, Stop> {
        let last = conn
            .prepare_cached(&tables.last())
            .and_then(|mut statement| {
                statement.query_row((&self.id, rows.last_row), Event::of).optional()
            })
            .map_err(theirs)?;
        *verified += last.as_ref().map_or(0, |event| event.line.len() as u64);
        Ok(last.is_some_and(|event| fingerprint(&event.line) == known.marker))
    }
}

/// The state that all reading functions share.
pub(super) struct Reading<'a, 'b> {
    pub(super) theirs: &'a Connection,
    pub(super) tables: &'a Tables,
    pub(super) ours: &'a Connection,
    pub(super) format: &'static dyn Format,
    pub(super) builder: &'a mut Builder<'b>,
    pub(super) work: &'a mut Work,
    /// An oddity of the rows that were read.
    pub(super) odd: Option<&'static str>,
}

impl Reading<'_, '_> {
    /// Reads the new rows of a session.
    pub(super) fn session(
        &mut self,
        job: &Job,
        number: usize,
        origin: &Origin,
        session: &Session,
    ) -> Result<(), Stop> {
        let mut others;
        let known = job.known.as_ref().and_then(|known| Some((known, known.rows.as_ref()?)));
        let mut after = (i64::MIN, i64::MIN);
        let mut cutting = match known {
            None => Cutting::begin(number, self.format, origin, Began::First, None),
            Some((known, rows)) => match self.look(known, rows, session)? {
                Some(began) => {
                    let previous = OldLines::of(self.ours, known.generation, self.work)?;
                    Cutting::begin(number, self.format, origin, began, Some(previous))
                }
                None => {
                    after = (rows.last_row, i64::MAX);
                    let rows = rows.clone();
                    Cutting::resume(number, self.format, origin, self.ours, known, rows)?
                }
            },
        };
        let is_new = after.1 == i64::MIN;
        if is_new || session.rows - cutting.rows.rows >= MIN_ROWS_TO_COMPARE {
            let known = known.map(|(known, _)| known);
            others = cutting::other_lines(self.ours, self.format, origin, known, self.work)?;
            cutting.others = Some(&mut others);
        }
        // A new generation is reported with its first row.
        cutting.has_news = !is_new && cutting.rows.rewrite != session.rewrite;
        cutting.rows.rewrite.clone_from(&session.rewrite);
        let outcome = self.pages(&mut cutting, session, after);
        // Rows that were read are stored, whatever stopped the reading.
        if cutting.has_news {
            cutting.piece(true, self.builder)?;
        }
        outcome
    }

    /// Returns how a known session changed; `None` if it can only have grown.
    fn look(
        &mut self,
        known: &KnownSource,
        rows: &RowCursor,
        session: &Session,
    ) -> Result<Option<Began>, Stop> {
        let otherwise = |began| if known.is_gone { Began::Returned } else { began };
        // An older schema had no names for generations; getting one is not a rewrite.
        if rows.rewrite != session.rewrite && !rows.rewrite.is_empty() {
            return Ok(Some(otherwise(Began::Rewritten)));
        }
        let count: i64 = self
            .theirs
            .prepare_cached(&self.tables.count_to())
            .and_then(|mut statement| {
                statement.query_row((&session.id, rows.last_row), |row| row.get(0))
            })
            .map_err(theirs)?;
        if session.last_row < rows.last_row || count < rows.rows {
            return Ok(Some(otherwise(Began::Truncated)));
        }
        let verified = &mut self.work.bytes_verified;
        let is_same = count == rows.rows
            && session.has_same_end(known, rows, self.theirs, self.tables, verified)?;
        Ok((!is_same).then(|| otherwise(Began::Rewritten)))
    }

    fn pages(
        &mut self,
        cutting: &mut Cutting<'_>,
        session: &Session,
        mut after: (i64, i64),
    ) -> Result<(), Stop> {
        let conn = self.theirs;
        let (page, watermark) = (self.tables.page(), self.tables.watermark());
        loop {
            let tx = conn.unchecked_transaction().map_err(theirs)?;
            if self.tables.has_watermarks() {
                let rewrite = tx
                    .prepare_cached(&watermark)
                    .and_then(|mut statement| {
                        statement.query_row([&session.id], |row| text(row.get_ref(0)?)).optional()
                    })
                    .map_err(theirs)?;
                // Rewritten during the read: the rows read so far belong to the generation before,
                // and the next sync finds the new one.
                if rewrite.unwrap_or_default() != session.rewrite {
                    return Ok(());
                }
            }
            let mut statement = tx.prepare_cached(&page).map_err(theirs)?;
            let mut rows =
                statement.query((&session.id, after.0, after.1, PAGE_ROWS)).map_err(theirs)?;
            let (mut count, mut bytes) = (0, 0);
            while bytes < PAGE_BYTES
                && let Some(row) = rows.next().map_err(theirs)?
            {
                let event = Event::of(row).map_err(theirs)?;
                after = (row.get(4).map_err(theirs)?, row.get(5).map_err(theirs)?);
                cutting.line(&event.line, Some(after.0), self.builder, self.work)?;
                cutting.written_ns = event.written_ns.unwrap_or(cutting.written_ns);
                self.odd = self.odd.or(event.odd);
                count += 1;
                bytes += event.line.len();
            }
            drop(rows);
            drop(statement);
            drop(tx);
            if count < PAGE_ROWS && bytes < PAGE_BYTES {
                return Ok(());
            }
            if self.builder.is_full() {
                cutting.piece(false, self.builder)?;
            }
        }
    }
}

/// Returns a value as text; empty for blobs, real numbers and NULL.
pub(super) fn text(value: ValueRef<'_>) -> rusqlite::Result<String> {
    Ok(match value {
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        ValueRef::Integer(number) => number.to_string(),
        _ => String::new(),
    })
}
