//! Derives the projection from the records, in slices: from the first record (rebuild), or from the
//! first one that is not projected yet (catch-up).
//!
//! Each slice is committed. If a rebuild is interrupted, the next command that needs the projection
//! continues it. Never changes a record.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use quipu_fts5::{Access, PostingsBuilder};
use quipu_transcript::format::{self, Format, Origin};
use quipu_transcript::record::{DECODE_LIMIT, OVERSIZE_HEAD};
use rusqlite::{Connection, OptionalExtension, Transaction};

use super::draft::{Draft, Drafter, mark_unterminated};
use super::{Fold, Inserts, RecordPosition, absent, keys, tail};
use crate::base::ids::{GenerationId, Seq, SourceId};
use crate::file::building::JOURNAL_GENERATION;
use crate::file::ledger::Ledger;
use crate::file::schema::{self, Derived};
use crate::project::family::is_subagent;
use crate::truth::chunks::RecordReader;
use crate::truth::journal::{self, Event};
use crate::wire::RebuildReport;
use crate::{Error, Result};

/// The number of bytes that are projected between two commits, to bound memory and the length of a
/// transaction.
const MAX_SLICE_BYTES: u64 = 32 << 20;

/// The longest time between two commits, so that other processes can write.
const MAX_SLICE_TIME: Duration = Duration::from_millis(500);

/// The largest lag, in records, that [`catch_up_step`] projects. For a larger lag,
/// [`catch_up_in_slices`] is faster: it can write the search index in bulk.
const MAX_INCREMENTAL_LAG: i64 = 16_384;

/// The limit of a slice that may project every record.
const ALL_RECORDS: i64 = i64::MAX;

/// The size of the collected words, in bytes, at which they are sorted and handed to the index.
/// This bounds memory.
const MAX_WORDS_IN_MEMORY: usize = 4 << 20;

/// Drops the projection and derives it again. Passes the seq of the last projected record and that
/// of the ledger's last record to `progress`.
pub fn rebuild(ledger: &mut Ledger, progress: &mut dyn FnMut(u64, u64)) -> Result<RebuildReport> {
    rebuild_until(ledger, None, progress)
}

fn rebuild_until(
    ledger: &mut Ledger,
    until: Option<Instant>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<RebuildReport> {
    crate::truth::forgotten::clean::resume(ledger);
    ledger.write(clear)?;
    catch_up_in_slices_until(ledger, until, progress)
}

/// Drops the projection. The next catch-up derives it again.
pub(crate) fn clear(tx: &Transaction<'_>) -> Result<()> {
    schema::drop_projection(tx)?;
    schema::create_projection(tx)?;
    tx.execute(
        "UPDATE ledger SET projection_version = ?1, projected_to = 0",
        [schema::projection_version()],
    )?;
    Ok(())
}

/// The progress of the projection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Projected {
    /// The last projected record. Every record before it is projected too.
    pub(crate) to: i64,
    /// The last record of the ledger.
    pub(crate) last_record: i64,
}

impl Projected {
    /// Returns the number of records that are not projected yet.
    pub(crate) fn lag(self) -> i64 {
        self.last_record.saturating_sub(self.to)
    }
}

/// Returns the progress of the projection; `None` if another version derived it.
pub(crate) fn projected(conn: &Connection) -> Result<Option<Projected>> {
    if schema::derived(conn)? != Derived::Current {
        return Ok(None);
    }
    Ok(Some(
        conn.prepare_cached(
            "SELECT projected_to, (SELECT coalesce(max(seq), 0) FROM records) FROM ledger",
        )?
        .query_row([], |row| Ok(Projected { to: row.get(0)?, last_record: row.get(1)? }))?,
    ))
}

/// Returns [`Error::Behind`] with the progress of the projection.
pub(crate) fn behind_error(ledger: &Ledger) -> Result<Error> {
    // A projection of another version cannot be read.
    let to = projected(ledger.conn())?.map_or(0, |projected| projected.to);
    let (missing, total) = (count_after(ledger.conn(), to)?, count_after(ledger.conn(), 0)?);
    Ok(Error::Behind { path: ledger.path().to_owned(), done: total - missing.min(total), total })
}

/// Returns the number of records after `seq`, without the lines of the journal. No number of
/// records that people see counts them.
pub(crate) fn count_after(conn: &Connection, seq: i64) -> Result<u64> {
    let sql = "SELECT count(*) FROM records WHERE seq > ?1 AND generation <> ?2";
    let count = conn
        .prepare_cached(sql)?
        .query_row((seq, JOURNAL_GENERATION), |row| row.get::<_, i64>(0))?;
    Ok(count.cast_unsigned())
}

/// Returns the seq of the last record; 0 if there is none.
pub(crate) fn last_record(conn: &Connection) -> Result<i64> {
    Ok(conn
        .prepare_cached("SELECT coalesce(max(seq), 0) FROM records")?
        .query_row([], |row| row.get(0))?)
}

/// Returns whether every session and every key is projected. Lines appended to known sessions may
/// be missing.
pub(crate) fn has_all_sessions(conn: &Connection) -> Result<bool> {
    let Some(projected) = projected(conn)? else { return Ok(false) };
    if projected.lag() == 0 {
        return Ok(true);
    }
    if projected.lag() > MAX_INCREMENTAL_LAG {
        return Ok(false);
    }
    // The first line of a native session is its header.
    let has_other_records = conn
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM records r
                              JOIN generations g ON g.id = r.generation
                              JOIN sources s ON s.id = g.source
                             WHERE r.seq > ?1 AND (s.kind <> 'native' OR r.start = 0))",
        )?
        .query_row([projected.to], |row| row.get::<_, bool>(0))?;
    Ok(!has_other_records)
}

/// The result of [`catch_up_step`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CatchUpStep {
    /// The projection is up to date.
    UpToDate,
    /// More appended lines are missing.
    MoreAppended,
    /// Records other than appended lines are missing, or too many records: [`catch_up_in_slices`]
    /// is needed.
    SlicesNeeded,
}

/// Projects the lines that runtimes appended to native sessions, for about `limit`. The state in
/// `fold` must be new, or no other process may have projected records since its last use.
pub(crate) fn catch_up_step(
    tx: &Transaction<'_>,
    fold: &mut Fold,
    limit: Duration,
) -> Result<CatchUpStep> {
    let Some(projected) = projected(tx)? else { return Ok(CatchUpStep::SlicesNeeded) };
    if projected.lag() == 0 {
        return Ok(CatchUpStep::UpToDate);
    }
    if projected.lag() > MAX_INCREMENTAL_LAG || has_other_than_appended(tx, projected.to)? {
        return Ok(CatchUpStep::SlicesNeeded);
    }
    let (_, done, _) = slice(tx, fold, Indexer::Fts5, ALL_RECORDS, limit)?;
    Ok(if done.0 >= projected.last_record {
        CatchUpStep::UpToDate
    } else {
        CatchUpStep::MoreAppended
    })
}

/// Returns whether a record after `after` is something else than a line of a native session.
pub(crate) fn has_other_than_appended(tx: &Transaction<'_>, after: i64) -> Result<bool> {
    Ok(tx
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM records r
                              JOIN generations g ON g.id = r.generation
                              JOIN sources s ON s.id = g.source
                             WHERE r.seq > ?1 AND s.kind <> 'native')",
        )?
        .query_row([after], |row| row.get(0))?)
}

/// Projects the lines that runtimes appended to native sessions before this call. Returns false if
/// [`catch_up_in_slices`] is needed: other records or too many records are missing, or another
/// version derived the projection. Fails with [`Error::Behind`] after the ledger's deadline.
pub(crate) fn catch_up_appended(ledger: &mut Ledger) -> Result<bool> {
    let Some(Projected { last_record: until, .. }) = projected(ledger.conn())? else {
        return Ok(false);
    };
    // Stops at the record seen on entry, so that a busy appender cannot starve the caller.
    while projected(ledger.conn())?.is_none_or(|now| now.to < until) {
        let limit = slice_time_limit(ledger)?;
        let step = ledger.write(|tx| catch_up_step(tx, &mut Fold::default(), limit))?;
        if step == CatchUpStep::SlicesNeeded {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Projects everything up to the last record. Works in slices only if [`catch_up_appended`] does
/// not suffice.
pub(crate) fn catch_up(ledger: &mut Ledger, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
    if !catch_up_appended(ledger)? {
        catch_up_in_slices(ledger, progress)?;
    }
    Ok(())
}

/// Projects everything up to the last record. Fails with [`Error::Behind`] after `until`, or after
/// the ledger's deadline.
pub(crate) fn catch_up_until(ledger: &mut Ledger, until: Instant) -> Result<()> {
    if !catch_up_appended(ledger)? {
        catch_up_in_slices_until(ledger, Some(until), &mut |_, _| {})?;
    }
    Ok(())
}

/// Projects everything up to the last record, in slices.
pub(crate) fn catch_up_in_slices(
    ledger: &mut Ledger,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<RebuildReport> {
    catch_up_in_slices_until(ledger, None, progress)
}

/// Returns the time limit of the next slice. Fails with [`Error::Behind`] after the ledger's
/// deadline.
fn slice_time_limit(ledger: &Ledger) -> Result<Duration> {
    match ledger.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now())) {
        None => Ok(MAX_SLICE_TIME),
        Some(Duration::ZERO) => Err(behind_error(ledger)?),
        Some(left) => Ok(left.min(MAX_SLICE_TIME)),
    }
}

/// Projects everything up to the last record, in slices. Stops between two slices, with
/// [`Error::Behind`], after `until` or the ledger's deadline. Committed slices stay.
pub(crate) fn catch_up_in_slices_until(
    ledger: &mut Ledger,
    until: Option<Instant>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<RebuildReport> {
    if schema::derived(ledger.conn())? == Derived::Older {
        return rebuild_until(ledger, until, progress);
    }
    let indexer = match ledger.fts5_access()? {
        Access::Direct => Indexer::Direct,
        Access::Plain => Indexer::Fts5,
    };
    let mut report = RebuildReport::default();
    let mut fold = Fold::default();
    loop {
        let limit = slice_time_limit(ledger)?;
        let ((records, to, opened), total) = ledger.write(|tx| {
            // Another process may have projected records since the last slice.
            fold.drop_cache();
            let slice = slice(tx, &mut fold, indexer, ALL_RECORDS, limit)?;
            let total: i64 =
                tx.query_row("SELECT coalesce(max(seq), 0) FROM records", [], |row| row.get(0))?;
            if slice.1.0 >= total {
                finish(tx)?;
            }
            Ok((slice, total as u64))
        })?;
        report.records += records;
        report.chunks_opened += opened;
        progress(to.0 as u64, total);
        if to.0 as u64 >= total {
            break;
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Err(behind_error(ledger)?);
        }
    }
    report.problems = fold.problems;
    let count = |query| ledger.conn().query_row(query, [], |row| row.get::<_, i64>(0));
    report.subagents =
        count(concat!("SELECT count(*) FROM sessions s WHERE ", is_subagent!()))?.cast_unsigned();
    report.sessions =
        count("SELECT count(*) FROM sessions")?.cast_unsigned().saturating_sub(report.subagents);
    Ok(report)
}

/// The writer of the search index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Indexer {
    /// quipu writes FTS5's tables directly, in bulk.
    Direct,
    /// FTS5 indexes one entry after another.
    Fts5,
}

/// Projects the next records: up to the record `last`, for about `limit`, or [`MAX_SLICE_BYTES`].
/// Returns three values: the number of projected records without the lines of the journal, the seq
/// of the last projected record, and the number of chunks that were opened.
fn slice(
    tx: &Transaction<'_>,
    fold: &mut Fold,
    indexer: Indexer,
    last: i64,
    limit: Duration,
) -> Result<(u64, Seq, u64)> {
    let from: Seq = tx.query_row("SELECT projected_to FROM ledger", [], |row| row.get(0))?;
    let mut reader = RecordReader::for_copies(tx);
    let mut inserts = Inserts::new(tx)?;
    let mut infos: HashMap<GenerationId, Option<GenerationInfo>> = HashMap::new();
    let mut statement = tx.prepare_cached(
        "SELECT seq, generation, start, length, same_as FROM records
          WHERE seq > ?1 AND seq <= ?2 ORDER BY seq",
    )?;
    let mut rows = statement.query((from, last))?;
    let (mut done, mut bytes, mut count) = (from, 0, 0);
    let began = Instant::now();
    let mut builder = (indexer == Indexer::Direct).then(PostingsBuilder::default);
    fold.words.begin_batch(tx)?;
    while bytes < MAX_SLICE_BYTES
        && began.elapsed() < limit
        && let Some(row) = rows.next()?
    {
        let seq: Seq = row.get(0)?;
        let generation: GenerationId = row.get(1)?;
        let start = row.get::<_, i64>(2)? as u64;
        let length = row.get::<_, i64>(3)? as u64;
        if let std::collections::hash_map::Entry::Vacant(vacant) = infos.entry(generation) {
            vacant.insert(GenerationInfo::of(tx, generation)?);
        }
        match infos.get(&generation) {
            Some(Some(info)) => {
                let same_as: Option<Seq> = row.get(4)?;
                let mut draft = read(&mut reader, info, same_as.unwrap_or(seq), length)?;
                draft.same_as = same_as;
                if let Some(builder) = &mut builder {
                    draft.collect_words(builder);
                }
                let position = RecordPosition {
                    format: info.format,
                    origin: &info.origin,
                    source: info.source,
                    generation,
                    start,
                    length,
                    is_row: info.is_rows,
                };
                fold.record(tx, &mut inserts, &position, seq, draft)?;
                count += 1;
            }
            _ => {
                if let Some(event) = Event::read(&reader.read(seq)?) {
                    fold.event(tx, seq, &event)?;
                }
            }
        }
        bytes += length;
        done = seq;
        if let Some(builder) =
            builder.as_mut().filter(|words| words.weight() >= MAX_WORDS_IN_MEMORY)
        {
            fold.words.end_batch(builder.finish());
            fold.words.begin_batch(tx)?;
        }
    }
    if let Some(mut builder) = builder {
        fold.words.end_batch(builder.finish());
    }
    fold.save(tx)?;
    tx.execute("UPDATE ledger SET projected_to = ?1", [done])?;
    Ok((count, done, reader.opened()))
}

/// Projects the records up to `last` into the empty tables of `tx`, for a comparison. The caller
/// calls [`finish`]. FTS5 indexes the words, which checks the index that quipu wrote directly.
pub(crate) fn replay(
    tx: &Transaction<'_>,
    last: i64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    // The record `last` itself may have been removed with a forgotten session.
    let total: i64 =
        tx.query_row("SELECT coalesce(max(seq), 0) FROM records WHERE seq <= ?1", [last], |row| {
            row.get(0)
        })?;
    let mut fold = Fold::default();
    loop {
        let (_, to, _) = slice(tx, &mut fold, Indexer::Fts5, last, MAX_SLICE_TIME)?;
        progress(to.0.cast_unsigned(), total.cast_unsigned());
        if to.0 >= total {
            return Ok(());
        }
        // Bounds the state in memory, as a rebuild does.
        fold.drop_cache();
    }
}

/// Derives the rows that can only be known after the last record: absent lines of rewritten files,
/// keys, and unfinished last lines.
pub(crate) fn finish(tx: &Transaction<'_>) -> Result<()> {
    let rewritten: Vec<SourceId> = tx
        .prepare("SELECT DISTINCT source FROM generations WHERE number > 1")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for source in rewritten {
        absent::mark(tx, source)?;
    }
    keys::replace_all(tx)?;
    let tails: Vec<GenerationId> = tx
        .prepare("SELECT id FROM generations WHERE tail_stands = 1 AND tail_length > 0")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for generation in tails {
        tail::project(tx, generation)?;
    }
    Ok(())
}

/// The source, format and origin of a generation's records.
pub(crate) struct GenerationInfo {
    format: &'static dyn Format,
    origin: Origin,
    source: SourceId,
    is_rows: bool,
}

impl GenerationInfo {
    /// Returns the format of the records.
    pub(crate) fn format(&self) -> &'static dyn Format {
        self.format
    }

    /// Returns the origin, which the path of the source names.
    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns a decoder for the records.
    pub(crate) fn drafter(&self) -> Drafter<'_> {
        Drafter::new(self.format, &self.origin)
    }

    /// Returns the source, format and origin of a generation; `None` for the journal, and for a
    /// format that this build does not know.
    pub(crate) fn of(
        conn: &Connection,
        generation: GenerationId,
    ) -> Result<Option<GenerationInfo>> {
        let found = conn
            .query_row(
                "SELECT s.id, s.format, s.first_path, s.kind = 'rows'
                   FROM generations g JOIN sources s ON s.id = g.source
                  WHERE g.id = ?1 AND s.id <> ?2",
                (generation, journal::SOURCE),
                |row| {
                    let name: String = row.get(1)?;
                    Ok((row.get(0)?, name, row.get::<_, Vec<u8>>(2)?, row.get(3)?))
                },
            )
            .optional()?;
        Ok(found.and_then(|(source, name, path, is_rows)| {
            let format = format::by_name(&name)?;
            Some(GenerationInfo { format, origin: format.origin(&path), source, is_rows })
        }))
    }
}

/// Decodes a stored record again. Returns the same draft as when the record was collected.
pub(crate) fn read(
    reader: &mut RecordReader<'_>,
    info: &GenerationInfo,
    seq: Seq,
    length: u64,
) -> Result<Draft> {
    let drafter = info.drafter();
    if length > DECODE_LIMIT as u64 {
        let head = reader.head(seq, OVERSIZE_HEAD)?;
        return Ok(drafter.draft_oversize(&head, length));
    }
    let bytes = reader.read(seq)?;
    let mut draft = drafter.draft(&bytes);
    if bytes.last() != Some(&b'\n') {
        mark_unterminated(&mut draft, info.origin.part);
    }
    Ok(draft)
}
