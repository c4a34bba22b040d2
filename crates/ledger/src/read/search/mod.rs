//! Search: finds matching entries, orders them, and describes the best or newest.
//!
//! `quipu_fts5` finds and scores the matches. `filter`, `versions` and `queued` remove some of
//! them, `newest` orders them by time, and `scan` reads texts that the index cannot search. `hits`
//! describes those that are shown. `one_word` finds the best entries for a single word without a
//! list of all. A search runs in one read transaction and never writes.

mod cache;
mod columns;
mod filter;
mod hits;
mod nearby;
mod newest;
mod one_word;
mod outputs;
mod pattern;
mod queued;
mod scan;
mod texts;
mod versions;
mod words;

use std::ops::ControlFlow;

#[doc(hidden)]
pub use quipu_fts5::Access as Fts5Access;
use quipu_fts5::{Access, Index, Matches, RowId, Scored};
use quipu_transcript::record::DECODE_LIMIT;
use quipu_transcript::search::query::{Filter, Place, Query};
use rusqlite::Connection;

use crate::base::ids::EntryId;
use crate::file::ledger::Ledger;
use crate::file::snapshot::Snapshot;
use crate::wire::{Scanned, SearchAnswer, SearchGaps, SearchHit};
use crate::{Error, Result};
use cache::SmallCache;
use filter::Filters;
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
        pattern.add_exact(text)?;
    }
    if let Some(text) = &request.regex {
        pattern.add_regex(text)?;
    }
    let mut column_mask = column_mask(places);
    if places.is_empty() && (request.exact.is_some() || request.regex.is_some()) {
        // Exact text is found as it was written, with the tags that programs put around it.
        column_mask |= columns::ATTACHED;
    }
    let has_words = !pattern.required.is_empty() || !pattern.literals.is_empty();
    let wanted = Filters::new(conn, filters, places, has_words)?;
    let index = Index::open(conn, access)?;
    let versions = Versions::read(conn)?;
    let mut queued = Queued::new(conn)?;
    // For a single word without filters, the set of entries that hold it is enough.
    let of_one_word = match pattern.only_word().filter(|_| wanted.is_empty()) {
        Some(word) => {
            one_word::find(conn, &index, (&versions, &mut queued), word, column_mask, request)?
        }
        None => None,
    };
    // A prompt that repeats a queued text holds the same word, so it is among the matches.
    let is_one_word = of_one_word.is_some();
    let (mut found, scanned) = match of_one_word {
        Some(found) => (found, None),
        None => {
            let (mut matches, scanned) = find(conn, &index, &pattern, &wanted, column_mask)?;
            wanted.apply(&mut matches)?;
            versions.keep_newest(&mut matches)?;
            queued.remove(&mut matches)?;
            let total = matches.len();
            let limit = request.limit.unwrap_or(total);
            let shown = match request.order {
                Order::Best if !pattern.required.is_empty() => {
                    best_matches(conn, &index, &matches, limit)?
                }
                _ => by_time(conn, &matches, limit)?,
            };
            (FoundMatches { matches, total, shown }, scanned)
        }
    };
    queued.remove_from_shown(&mut found, &|matches, entry| {
        is_one_word || matches.find(entry.into()).is_some()
    })?;
    let FoundMatches { matches, total, shown } = found;
    let mut reader = HitReader::new(conn, &pattern, request.around);
    'pages: for page in shown.chunks(PAGE_HITS) {
        for hit in read_hits(&mut reader, &versions, &matches, page)? {
            if each(total as u64, hit).is_break() {
                break 'pages;
            }
        }
    }
    let mut gaps = read_gaps(conn)?;
    if let Some(scanned) = &scanned {
        // The scan read whole records, except those that are too long.
        gaps.too_long = scanned.too_long;
        gaps.partly_indexed = if pattern.required.is_empty() { 0 } else { gaps.partly_indexed };
    }
    if total == 0 && !pattern.required.is_empty() {
        let hits = |column, place| match column_mask & column {
            0 => count_in(&index, &pattern, filters, conn, (column, place)),
            _ => Ok(0),
        };
        gaps.in_thinking = hits(columns::THINKING, Place::Thinking)?;
        gaps.in_attached = hits(columns::ATTACHED, Place::Attached)?;
    }
    Ok(SearchAnswer { hits: Vec::new(), total: total as u64, gaps, scanned })
}

/// The matches, their total number, and those that are shown.
struct FoundMatches {
    /// All matches, or only those that are shown.
    matches: Matches,
    total: usize,
    shown: Vec<Shown>,
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

/// Returns the entries that match.
fn find(
    conn: &Connection,
    index: &Index<'_>,
    pattern: &Pattern,
    filters: &Filters<'_>,
    column_mask: u8,
) -> Result<(Matches, Option<Scanned>)> {
    let mut matches = match pattern.required.is_empty() {
        false => index.find(&pattern.required, &pattern.excluded, column_mask)?,
        true => {
            let all_entries = match pattern.literals.is_empty() || filters.sessions().is_some() {
                true => Some(all_entries(conn, index, filters, column_mask)?),
                false => None,
            };
            match all_entries {
                // The whole ledger is scanned in the order of its bytes.
                None => {
                    let found = scan::scan(conn, pattern, column_mask, None)?;
                    let mut matches = unscored(&found.entries);
                    index.remove(&mut matches, &pattern.excluded, column_mask)?;
                    return Ok((matches, Some(found.scanned)));
                }
                Some(mut all_entries) => {
                    index.remove(&mut all_entries, &pattern.excluded, column_mask)?;
                    all_entries
                }
            }
        }
    };
    if !pattern.needs_text() {
        return Ok((matches, None));
    }
    let among: Vec<EntryId> = matches.rowids().map(EntryId::from).collect();
    let found = scan::scan(conn, pattern, column_mask, Some(&among))?;
    matches.retain(|rowid, _| {
        let entry = EntryId::from(rowid);
        found.entries.binary_search_by_key(&entry, |found| found.0).is_ok()
    });
    if pattern.required.is_empty() {
        matches = unscored(&found.entries);
    }
    Ok((matches, Some(found.scanned)))
}

/// Returns matches for entries that were found in their text, in order.
fn unscored(entries: &[(EntryId, u8)]) -> Matches {
    Matches::without_phrases(entries.iter().map(|(entry, columns)| ((*entry).into(), *columns)))
}

/// Returns every entry that has words in the columns of `column_mask` and is in a session that
/// passes, or in none.
fn all_entries(
    conn: &Connection,
    index: &Index<'_>,
    filters: &Filters<'_>,
    column_mask: u8,
) -> Result<Matches> {
    let Some(sessions) = filters.sessions() else {
        return Ok(Matches::without_phrases(index.rows(column_mask)?));
    };
    let mut statement = conn.prepare_cached(
        "SELECT id FROM entry_rows WHERE session IS ?1
          UNION ALL
         SELECT output FROM tool_call_rows
          WHERE session = ?1 AND output_name IS NOT NULL AND output IS NOT NULL",
    )?;
    let mut entries: Vec<RowId> = Vec::new();
    let none = std::iter::once(None);
    for session in sessions.iter().copied().map(Some).chain(none) {
        let mut rows = statement.query([session])?;
        while let Some(row) = rows.next()? {
            entries.push(row.get(0)?);
        }
    }
    entries.sort_unstable();
    entries.dedup();
    Ok(Matches::without_phrases(index.rows_among(&entries, column_mask)?))
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
    let mut matches = index.find(&pattern.required, &pattern.excluded, column)?;
    let filters = Filters::new(conn, filters, &[place], true)?;
    filters.apply(&mut matches)?;
    Ok(matches.len() as u64)
}
