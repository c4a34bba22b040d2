//! Derives the projection again from truth, in slices: a rebuild that is interrupted goes on where
//! it stopped, with the next command that needs the projection.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use quipu_fts5::{Access, PostingsBuilder};
use quipu_transcript::format::{self, Format, Origin};
use quipu_transcript::record::{DECODE_LIMIT, OVERSIZE_HEAD};
use rusqlite::{Connection, OptionalExtension, Transaction};

use super::draft::{Draft, Drafter, mark_unterminated};
use super::{Fold, Inserts, Place, absent, keys, tail};
use crate::base::ids::{GenerationId, Seq, SourceId};
use crate::file::ledger::Ledger;
use crate::file::schema;
use crate::truth::chunks::RecordReader;
use crate::truth::journal::{self, Event};
use crate::wire::RebuildReport;
use crate::{Error, Result};

/// How much is projected between two commits.
const SLICE: u64 = 32 << 20;

/// … or for how long: others want to write, too.
const LONGEST_SLICE: Duration = Duration::from_millis(500);

/// More than so many records are not folded in one by one.
const MOST_FOLLOWED: i64 = 16_384;

/// Words are sorted when they weigh this much.
const GATHERED: usize = 4 << 20;

/// Drops the projection and derives it again. `progress` is told how many of how many records are
/// done.
pub fn rebuild(ledger: &mut Ledger, progress: &mut dyn FnMut(u64, u64)) -> Result<RebuildReport> {
    rebuild_until(ledger, None, progress)
}

fn rebuild_until(
    ledger: &mut Ledger,
    until: Option<Instant>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<RebuildReport> {
    crate::truth::forgotten::clean::go_on(ledger);
    ledger.write(empty)?;
    catch_up_until(ledger, until, progress)
}

/// Drops the projection; it is derived again by whoever catches up.
pub(crate) fn empty(tx: &Transaction<'_>) -> Result<()> {
    schema::drop_projection(tx)?;
    schema::create_projection(tx)?;
    tx.execute(
        "UPDATE ledger SET projection_version = ?1, projected_to = 0",
        [schema::projection_version()],
    )?;
    Ok(())
}

/// How far the projection is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Projected {
    /// Every record up to this one is in it.
    pub(crate) to: i64,
    /// The last record that there is.
    pub(crate) last: i64,
}

impl Projected {
    /// How many records it is behind.
    pub(crate) fn lag(self) -> i64 {
        self.last - self.to
    }
}

/// How far the projection is; `None` if it is another version's.
pub(crate) fn projected(conn: &Connection) -> Result<Option<Projected>> {
    let (version, to, last): (i64, i64, i64) = conn
        .prepare_cached(
            "SELECT projection_version, projected_to, (SELECT coalesce(max(seq), 0) FROM records)
               FROM ledger",
        )?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok((version == schema::projection_version()).then_some(Projected { to, last }))
}

/// Returns the error that says how far the projection is.
pub(crate) fn behind(ledger: &Ledger) -> Result<Error> {
    // One of another version has nothing in it that can be read.
    let done = projected(ledger.conn())?.map_or(0, |projected| projected.to).cast_unsigned();
    let total = last(ledger.conn())?.cast_unsigned();
    Ok(Error::Behind { path: ledger.path().to_owned(), done, total })
}

/// Returns the number of the last record.
pub(crate) fn last(conn: &Connection) -> Result<i64> {
    Ok(conn
        .prepare_cached("SELECT coalesce(max(seq), 0) FROM records")?
        .query_row([], |row| row.get(0))?)
}

/// Whether every session and every key is in the projection. Lines that were appended to known
/// sessions may be missing.
pub(crate) fn knows_sessions(conn: &Connection) -> Result<bool> {
    let Some(projected) = projected(conn)? else { return Ok(false) };
    if projected.lag() == 0 {
        return Ok(true);
    }
    if projected.lag() > MOST_FOLLOWED {
        return Ok(false);
    }
    // The first line of a native session is its header.
    let others = conn
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM records r
                              JOIN generations g ON g.id = r.generation
                              JOIN sources s ON s.id = g.source
                             WHERE r.seq > ?1 AND (s.kind <> 'native' OR r.start = 0))",
        )?
        .query_row([projected.to], |row| row.get::<_, bool>(0))?;
    Ok(!others)
}

/// How [`follow`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Followed {
    /// The projection is up to date.
    Wholly,
    /// There is more of the same.
    Partly,
    /// More than appended lines is missing: [`catch_up`] is needed.
    Not,
}

/// Folds in the lines that stores have appended, for about so long. What `fold` remembers has to be
/// true.
pub(crate) fn follow(tx: &Transaction<'_>, fold: &mut Fold, longest: Duration) -> Result<Followed> {
    let Some(projected) = projected(tx)? else { return Ok(Followed::Not) };
    if projected.lag() == 0 {
        return Ok(Followed::Wholly);
    }
    if projected.lag() > MOST_FOLLOWED || has_other_than_appended(tx, projected.to)? {
        return Ok(Followed::Not);
    }
    let (_, done) = slice(tx, fold, Indexer::Fts5, longest)?;
    Ok(if done.0 >= projected.last { Followed::Wholly } else { Followed::Partly })
}

fn has_other_than_appended(tx: &Transaction<'_>, after: i64) -> Result<bool> {
    Ok(tx
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM records r
                              JOIN generations g ON g.id = r.generation
                              JOIN sources s ON s.id = g.source
                             WHERE r.seq > ?1 AND s.kind <> 'native')",
        )?
        .query_row([after], |row| row.get(0))?)
}

/// Folds in what stores have appended before this moment. False if more than that is missing.
pub(crate) fn keep_up(ledger: &mut Ledger) -> Result<bool> {
    let Some(Projected { last: until, .. }) = projected(ledger.conn())? else { return Ok(false) };
    // Who goes on appending keeps nobody here.
    while projected(ledger.conn())?.is_none_or(|now| now.to < until) {
        let followed = ledger.write(|tx| follow(tx, &mut Fold::default(), LONGEST_SLICE))?;
        if followed == Followed::Not {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Brings the projection up to the last record, the short way if that is enough.
pub(crate) fn bring_up(ledger: &mut Ledger, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
    if !keep_up(ledger)? {
        catch_up(ledger, progress)?;
    }
    Ok(())
}

/// The same, until `until` at the latest.
pub(crate) fn bring_up_until(ledger: &mut Ledger, until: Instant) -> Result<()> {
    if !keep_up(ledger)? {
        catch_up_until(ledger, Some(until), &mut |_, _| {})?;
    }
    Ok(())
}

/// Brings the projection up to the last record.
pub(crate) fn catch_up(
    ledger: &mut Ledger,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<RebuildReport> {
    catch_up_until(ledger, None, progress)
}

/// Brings the projection up to the last record, or fails with [`Error::Behind`] between two slices
/// after `until`. Slices that were committed stay.
pub(crate) fn catch_up_until(
    ledger: &mut Ledger,
    until: Option<Instant>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<RebuildReport> {
    let version: i64 =
        ledger.conn().query_row("SELECT projection_version FROM ledger", [], |row| row.get(0))?;
    if version < schema::projection_version() {
        return rebuild_until(ledger, until, progress);
    }
    let indexer = match ledger.fts5_access()? {
        Access::Direct => Indexer::Ours,
        Access::Plain => Indexer::Fts5,
    };
    let mut report = RebuildReport::default();
    let mut fold = Fold::default();
    loop {
        let (records, to, total) = ledger.write(|tx| {
            // Another process may have gone on meanwhile; its rows are what counts.
            fold.let_go();
            let slice = slice(tx, &mut fold, indexer, LONGEST_SLICE)?;
            let total: i64 =
                tx.query_row("SELECT coalesce(max(seq), 0) FROM records", [], |row| row.get(0))?;
            if slice.1.0 >= total {
                finish(tx)?;
            }
            Ok((slice.0, slice.1, total as u64))
        })?;
        report.records += records;
        progress(to.0 as u64, total);
        if to.0 as u64 >= total {
            break;
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Err(behind(ledger)?);
        }
    }
    report.problems = fold.problems;
    report.sessions =
        ledger.conn().query_row("SELECT count(*) FROM sessions", [], |row| row.get::<_, i64>(0))?
            as u64;
    Ok(report)
}

/// Who puts words into the search index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Indexer {
    Ours,
    Fts5,
}

/// Projects the next records. Returns how many of sources (the journal's own do not count), and up
/// to which.
fn slice(
    tx: &Transaction<'_>,
    fold: &mut Fold,
    indexer: Indexer,
    longest: Duration,
) -> Result<(u64, Seq)> {
    let from: Seq = tx.query_row("SELECT projected_to FROM ledger", [], |row| row.get(0))?;
    let mut reader = RecordReader::new(tx);
    let mut inserts = Inserts::new(tx)?;
    let mut places: HashMap<GenerationId, Option<Home>> = HashMap::new();
    let mut statement = tx.prepare_cached(
        "SELECT seq, generation, start, length, same_as FROM records WHERE seq > ?1 ORDER BY seq",
    )?;
    let mut rows = statement.query([from])?;
    let (mut done, mut bytes, mut count) = (from, 0, 0);
    let began = Instant::now();
    let mut builder = (indexer == Indexer::Ours).then(PostingsBuilder::default);
    fold.words.begin_batch(tx)?;
    while bytes < SLICE
        && began.elapsed() < longest
        && let Some(row) = rows.next()?
    {
        let seq: Seq = row.get(0)?;
        let generation: GenerationId = row.get(1)?;
        let start = row.get::<_, i64>(2)? as u64;
        let length = row.get::<_, i64>(3)? as u64;
        if let std::collections::hash_map::Entry::Vacant(vacant) = places.entry(generation) {
            vacant.insert(Home::of(tx, generation)?);
        }
        match places.get(&generation) {
            Some(Some(home)) => {
                let mut draft = read(&mut reader, home, seq, length)?;
                draft.same_as = row.get(4)?;
                if let Some(builder) = &mut builder {
                    draft.gather_words(builder);
                }
                let place = Place {
                    format: home.format,
                    origin: &home.origin,
                    source: home.source,
                    generation,
                    start,
                    length,
                    is_row: home.is_rows,
                };
                fold.record(tx, &mut inserts, &place, seq, draft)?;
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
        if let Some(builder) = builder.as_mut().filter(|words| words.weight() >= GATHERED) {
            fold.words.end_batch(builder.finish());
            fold.words.begin_batch(tx)?;
        }
    }
    if let Some(mut builder) = builder {
        fold.words.end_batch(builder.finish());
    }
    fold.save(tx)?;
    tx.execute("UPDATE ledger SET projected_to = ?1", [done])?;
    Ok((count, done))
}

/// Derives everything into the empty tables of `tx`, to compare it. The words are left to FTS5, which
/// thereby checks what we have written past it.
pub(crate) fn replay(tx: &Transaction<'_>, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
    let total: i64 =
        tx.query_row("SELECT coalesce(max(seq), 0) FROM records", [], |row| row.get(0))?;
    let mut fold = Fold::default();
    loop {
        let (_, to) = slice(tx, &mut fold, Indexer::Fts5, LONGEST_SLICE)?;
        progress(to.0.cast_unsigned(), total.cast_unsigned());
        if to.0 >= total {
            return finish(tx);
        }
        // What it remembers of sessions stays bounded, as in a rebuild.
        fold.let_go();
    }
}

/// What is a function of truth as a whole.
fn finish(tx: &Transaction<'_>) -> Result<()> {
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

/// Where a generation's records belong.
pub(crate) struct Home {
    format: &'static dyn Format,
    origin: Origin,
    source: SourceId,
    is_rows: bool,
}

impl Home {
    /// How its records read.
    pub(crate) fn format(&self) -> &'static dyn Format {
        self.format
    }

    /// What its path says.
    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Reads its records.
    pub(crate) fn drafter(&self) -> Drafter<'_> {
        Drafter::new(self.format, &self.origin)
    }

    /// `None` for the journal.
    pub(crate) fn of(conn: &Connection, generation: GenerationId) -> Result<Option<Home>> {
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
            Some(Home { format, origin: format.origin(&path), source, is_rows })
        }))
    }
}

/// The draft of a stored record: the same that collecting made.
pub(crate) fn read(
    reader: &mut RecordReader<'_>,
    home: &Home,
    seq: Seq,
    length: u64,
) -> Result<Draft> {
    let drafter = home.drafter();
    if length > DECODE_LIMIT as u64 {
        let head = reader.head(seq, OVERSIZE_HEAD)?;
        return Ok(drafter.draft_oversize(&head, length));
    }
    let bytes = reader.read(seq)?;
    let mut draft = drafter.draft(&bytes);
    if bytes.last() != Some(&b'\n') {
        mark_unterminated(&mut draft, home.origin.part);
    }
    Ok(draft)
}
