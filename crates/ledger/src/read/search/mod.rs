//! Search: finds matching entries, orders them, and describes the best or newest.
//!
//! `quipu_fts5` finds and scores the matches, and `find` joins them. `filter`, `versions` and
//! `queued` remove some of them, `newest` orders them by time, `typed` puts those that hold words
//! with signs first, and `scan` reads texts that the index cannot search. `hits` describes those
//! that are shown. `one_word` finds the best entries for a single word without a list of all.
//! `similar` and `nearest` look for other words where those of the query find little. A search runs
//! in one read transaction and never writes.

mod cache;
mod columns;
mod filter;
mod find;
mod hits;
mod nearby;
mod nearest;
mod newest;
mod one_word;
mod outputs;
mod pattern;
mod queued;
mod scan;
mod similar;
pub(in crate::read) mod texts;
mod typed;
mod versions;
mod words;

use std::ops::ControlFlow;

use foldhash::HashSet;
#[doc(hidden)]
pub use quipu_fts5::Access as Fts5Access;
use quipu_fts5::{Access, Index, Matches, RowId, Scored};
use quipu_transcript::record::DECODE_LIMIT;
use quipu_transcript::search::query::{Filter, Place, Query};
use rusqlite::Connection;

use crate::base::ids::EntryId;
use crate::file::ledger::Ledger;
use crate::file::snapshot::Snapshot;
use crate::wire::{SearchAnswer, SearchGaps, SearchHit};
use crate::{Error, Result};
use cache::SmallCache;
use filter::Filters;
use find::Finder;
use hits::{HitReader, HitRequest};
use newest::newest_of_list;
use pattern::Pattern;
use queued::Queued;
use versions::Versions;

/// The columns that are searched by default: all but the model's reasoning and what programs put
/// beside messages.
const DEFAULT_COLUMNS: u8 = columns::TOOL_RESULT | columns::TOOL_INPUT | columns::PROSE;

/// The position of a shown match among all matches, and its score.
type Shown = (usize, Option<f64>);

/// The number of hits that are read together. It bounds the memory.
const PAGE_HITS: usize = 256;

/// The number of hits below which those with other endings follow, if all hits are asked for.
const FEW_HITS: usize = 20;

/// The order of hits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// Best score first; among equal scores the newest first.
    #[default]
    Best,
    /// Newest first.
    Newest,
}

/// A search.
#[derive(Debug, Clone, Default)]
pub struct SearchRequest {
    /// The words, filters and places.
    pub query: Query,
    /// A text that must occur exactly.
    pub exact: Option<String>,
    /// A regular expression that must match.
    pub regex: Option<String>,
    /// True if `exact` and `regex` ignore case.
    pub ignores_case: bool,
    /// The order of hits.
    pub order: Order,
    /// The largest number of hits that are returned. `None` returns all.
    pub limit: Option<usize>,
    /// The number of entries that are shown before and after each hit.
    pub around: usize,
}

/// Returns the entries that match.
///
/// ```
/// use quipu_ledger::search::{Order, SearchRequest, search};
/// use quipu_ledger::{Entry, Store};
/// use quipu_transcript::search::query::Query;
///
/// # let folder = tempfile::tempdir()?;
/// # let store = Store::open(folder.path().join("ledger.db"))?;
/// store.session_or_new("agent:main:main")?.append(Entry::user("deploy to staging"))?;
/// let request = SearchRequest {
///     query: Query::literal("deploy"),
///     order: Order::Newest,
///     limit: Some(10),
///     ..SearchRequest::default()
/// };
/// assert_eq!(search(&store.reader()?, &request)?.hits[0].snippet, "deploy to staging");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn search(ledger: &Ledger, request: &SearchRequest) -> Result<SearchAnswer> {
    let mut hits = Vec::new();
    let answer = search_each(ledger, request, &mut |_, hit| {
        hits.push(hit);
        ControlFlow::Continue(())
    })?;
    Ok(SearchAnswer { hits, ..answer })
}

/// Passes hits one by one to `each`, with the total number of hits, until `each` stops. The
/// returned answer has no hits.
pub fn search_each(
    ledger: &Ledger,
    request: &SearchRequest,
    each: &mut dyn FnMut(u64, SearchHit) -> ControlFlow<()>,
) -> Result<SearchAnswer> {
    // A search for few hits reads most pages of the file once. A search for many reads pages again,
    // so it keeps the usual cache.
    let is_page = request.limit.is_some_and(|limit| limit <= PAGE_HITS);
    let _small = is_page.then(|| SmallCache::of(ledger.conn())).transpose()?;
    // All queries read one snapshot, even if another process writes.
    let _snapshot = Snapshot::of(ledger.conn())?;
    answer(ledger.conn(), ledger.fts5_access()?, request, each).map_err(|error| match error {
        Error::Sqlite(error)
            if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseCorrupt) =>
        {
            Error::SearchIndex { why: error.to_string() }
        }
        error => error,
    })
}

fn answer(
    conn: &Connection,
    access: Access,
    request: &SearchRequest,
    each: &mut dyn FnMut(u64, SearchHit) -> ControlFlow<()>,
) -> Result<SearchAnswer> {
    let Query { filters, places, .. } = &request.query;
    let mut pattern = Pattern::of(&request.query)?;
    if let Some(text) = &request.exact {
        pattern.add_exact(text, request.ignores_case)?;
    }
    if let Some(text) = &request.regex {
        pattern.add_regex(text, request.ignores_case)?;
    }
    let mut column_mask = column_mask(places);
    if places.is_empty() && (request.exact.is_some() || request.regex.is_some()) {
        // Exact text is found as it was written, with the tags that programs put around it.
        column_mask |= columns::ATTACHED;
    }
    let wanted = Filters::new(conn, filters, places, pattern.has_words())?;
    let index = Index::open(conn, access)?;
    let versions = Versions::read(conn)?;
    let mut queued = Queued::new(conn)?;
    let finder = Finder { conn, index: &index, filters: &wanted, column_mask };
    // Words with signs are compared among more candidates than are shown.
    let limit = match pattern.has_signs() {
        true => request.limit.map(|limit| limit.max(typed::MAX_CANDIDATES)),
        false => request.limit,
    };
    let order = match pattern.has_phrases() {
        true => request.order,
        false => Order::Newest,
    };
    // For a single word without filters, the set of entries that hold it is enough.
    let of_one_word = match pattern.only_word().filter(|_| wanted.is_empty()) {
        Some(word) => one_word::find(
            conn,
            &index,
            (&versions, &mut queued),
            word,
            column_mask,
            (request.order, limit),
        )?,
        None => None,
    };
    // A prompt that repeats a queued text holds the same word, so it is among the matches.
    let is_one_word = of_one_word.is_some();
    let (mut found, scanned) = match of_one_word {
        Some(found) => (found, None),
        None => {
            let (matches, scanned) = finder.find(&pattern)?;
            (select(&finder, (&versions, &mut queued), matches, order, limit)?, scanned)
        }
    };
    queued.remove_from_shown(&mut found, &|matches, entry| {
        is_one_word || matches.find(entry.into()).is_some()
    })?;
    let mut answer = SearchAnswer { total: found.total as u64, ..SearchAnswer::default() };
    let mut other_signs = HashSet::default();
    if pattern.has_signs() {
        let compared = typed::first(conn, &pattern, column_mask, &mut found, request.limit)?;
        answer.work.compared = compared.read as u64;
        answer.is_at_most = compared.read < found.total;
        answer.as_typed = (!answer.is_at_most).then_some(compared.as_typed as u64);
        other_signs = compared.others;
    }
    let is_page_full = found.total >= request.limit.unwrap_or(FEW_HITS);
    let mut each = |hit| each(found.total as u64, hit);
    let mut reader = HitReader::new(conn, &pattern, request.around);
    let mut is_over = read_pages(&mut reader, &versions, &found, &mut |at, mut hit| {
        hit.variant = other_signs.contains(&at).then_some("signs");
        each(hit)
    })?;
    if !is_page_full
        && let Some((matches, marking)) = similar::find(&finder, &pattern, &mut answer.work.terms)?
    {
        let limit = request.limit.map(|limit| limit.saturating_sub(found.shown.len()));
        let similar = select(&finder, (&versions, &mut queued), matches, order, limit)?;
        answer.with_other_endings = similar.total as u64;
        if is_over.is_continue() {
            let mut reader = HitReader::new(conn, &marking, request.around);
            is_over = read_pages(&mut reader, &versions, &similar, &mut |_, mut hit| {
                hit.variant = Some("ending");
                each(hit)
            })?;
        }
    }
    let _ = is_over;
    answer.gaps = read_gaps(conn)?;
    if let Some(scanned) = &scanned {
        // Records that the scan read whole are not missing.
        answer.gaps.too_long = scanned.too_long;
        if !pattern.has_phrases() {
            answer.gaps.partly_indexed = 0;
        }
    }
    answer.scanned = scanned;
    if answer.total == 0 && pattern.has_phrases() {
        let hits = |column, place| match column_mask & column {
            0 => count_in(&index, &pattern, filters, conn, (column, place)),
            _ => Ok(0),
        };
        answer.gaps.in_thinking = hits(columns::THINKING, Place::Thinking)?;
        answer.gaps.in_attached = hits(columns::ATTACHED, Place::Attached)?;
        if answer.with_other_endings == 0 {
            answer.nearest = nearest::find(&index, &pattern, column_mask, &mut answer.work.terms)?;
        }
    }
    Ok(answer)
}

/// Applies the filters to matches, and chooses those that are shown.
fn select(
    finder: &Finder<'_, '_>,
    (versions, queued): (&Versions, &mut Queued<'_>),
    mut matches: Matches,
    order: Order,
    limit: Option<usize>,
) -> Result<FoundMatches> {
    finder.filters.apply(&mut matches)?;
    versions.keep_newest(&mut matches)?;
    queued.remove(&mut matches)?;
    let total = matches.len();
    let limit = limit.unwrap_or(total);
    let shown = match order {
        Order::Best => best_matches(finder.conn, finder.index, &matches, limit)?,
        Order::Newest => by_time(finder.conn, &matches, limit)?,
    };
    Ok(FoundMatches { matches, total, shown })
}

/// The matches, their total number, and those that are shown.
struct FoundMatches {
    /// All matches, or only those that are shown.
    matches: Matches,
    total: usize,
    shown: Vec<Shown>,
}

/// Passes the shown matches to `each` with their positions, until it stops.
fn read_pages(
    reader: &mut HitReader<'_>,
    versions: &Versions,
    found: &FoundMatches,
    each: &mut dyn FnMut(usize, SearchHit) -> ControlFlow<()>,
) -> Result<ControlFlow<()>> {
    for page in found.shown.chunks(PAGE_HITS) {
        let hits = read_hits(reader, versions, &found.matches, page)?;
        for ((at, _), hit) in page.iter().zip(hits) {
            if each(*at, hit).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Describes the matches at these positions. They are read in the order in which they are stored,
/// so each chunk is decompressed once.
fn read_hits(
    reader: &mut HitReader<'_>,
    versions: &Versions,
    matches: &Matches,
    shown: &[Shown],
) -> Result<Vec<SearchHit>> {
    let mut order: Vec<usize> = (0..shown.len()).collect();
    order.sort_unstable_by_key(|at| shown.get(*at).map(|shown| shown.0));
    let mut hits: Vec<SearchHit> = vec![SearchHit::default(); shown.len()];
    for at in order {
        let (Some((place, score)), Some(hit)) = (shown.get(at), hits.get_mut(at)) else { continue };
        let Some(found) = matches.list().get(*place) else { continue };
        let (entry, columns) = (EntryId::from(found.rowid), found.columns());
        let is_older = versions.is_older(entry);
        *hit = reader.read_hit(&HitRequest { entry, columns, score: *score, is_older })?;
    }
    Ok(hits)
}

/// Returns the columns to search.
fn column_mask(places: &[Place]) -> u8 {
    let column_mask = places.iter().fold(0, |column_mask, place| {
        column_mask
            | match place {
                Place::Text => columns::PROSE,
                Place::Input => columns::TOOL_INPUT,
                Place::Result => columns::TOOL_RESULT,
                Place::Thinking => columns::THINKING,
                Place::Attached => columns::ATTACHED,
                Place::Notes | Place::Cron | Place::Prompts => DEFAULT_COLUMNS,
            }
    });
    if column_mask == 0 { DEFAULT_COLUMNS } else { column_mask }
}

/// Returns the best matches, in order, with their scores.
fn best_matches(
    conn: &Connection,
    index: &Index<'_>,
    matches: &Matches,
    limit: usize,
) -> Result<Vec<Shown>> {
    in_order(conn, index.best(matches, limit)?, limit)
}

/// Returns the best of the scored matches, in order.
fn in_order(conn: &Connection, mut scored: Vec<Scored>, limit: usize) -> Result<Vec<Shown>> {
    scored.sort_unstable_by(|one, other| {
        other.score.total_cmp(&one.score).then(one.rowid.cmp(&other.rowid))
    });
    // Among equal scores the newest come first.
    let mut best_matches = Vec::with_capacity(limit.min(scored.len()));
    for equals in scored.chunk_by(|one, other| one.score == other.score) {
        let room = limit - best_matches.len();
        if room == 0 {
            break;
        }
        if let [only] = equals {
            best_matches.push((only.at, Some(only.score)));
            continue;
        }
        for (_, entry) in newest_of_list(conn, equals, |scored| scored.rowid.into(), room)? {
            let found = equals.binary_search_by_key(&RowId::from(entry), |scored| scored.rowid);
            best_matches
                .extend(found.ok().and_then(|at| equals.get(at)).map(|it| (it.at, Some(it.score))));
        }
    }
    Ok(best_matches)
}

/// Returns the newest matches, in order.
fn by_time(conn: &Connection, matches: &Matches, limit: usize) -> Result<Vec<Shown>> {
    let found = newest_of_list(conn, matches.list(), |found| found.rowid.into(), limit)?;
    Ok(found
        .into_iter()
        .filter_map(|(_, entry)| matches.find(entry.into()))
        .map(|at| (at, None))
        .collect())
}

/// Returns the counts of records that the index does not hold.
fn read_gaps(conn: &Connection) -> Result<SearchGaps> {
    let unprojected: i64 = conn.query_row(
        "SELECT count(*) FROM records WHERE seq > (SELECT projected_to FROM ledger)",
        [],
        |row| row.get(0),
    )?;
    let (partly_indexed, too_long) = partly_indexed(conn)?;
    let unprojected = unprojected.cast_unsigned();
    Ok(SearchGaps { unprojected, partly_indexed, too_long, ..SearchGaps::default() })
}

/// Returns two numbers of entries that are indexed only in part. The second counts those whose
/// record is longer than [`DECODE_LIMIT`] bytes, of which only the beginning is ever read. The
/// first counts the others.
pub(crate) fn partly_indexed(conn: &Connection) -> Result<(u64, u64)> {
    let (all, too_long): (i64, i64) = conn.query_row(
        "SELECT count(*), count(r.seq)
           FROM partly_indexed p LEFT JOIN records r ON r.seq = p.entry AND r.length > ?1",
        [DECODE_LIMIT as i64],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(((all - too_long).cast_unsigned(), too_long.cast_unsigned()))
}

/// Returns the number of hits that a search of another column would have.
fn count_in(
    index: &Index<'_>,
    pattern: &Pattern,
    filters: &[Filter],
    conn: &Connection,
    (column, place): (u8, Place),
) -> Result<u64> {
    let sides = pattern.sides.iter().filter(|side| !side.wanted.phrases.is_empty());
    let found = sides.map(|side| index.find(&side.wanted.phrases, &find::phrases_of(side), column));
    let mut matches = Matches::any_of(found.collect::<Result<_, _>>()?);
    let filters = Filters::new(conn, filters, &[place], true)?;
    filters.apply(&mut matches)?;
    Ok(matches.len() as u64)
}
