//! A single word and nothing else: which entries hold it is all that has to be known of most.

use quipu_fts5::{EntrySet, Index, Leading, Matches, rank};
use rusqlite::Connection;

use super::queued::Queued;
use super::versions::Versions;
use super::{Found, Order, PAGE, SearchRequest, Shown, in_order, newest};
use crate::Result;

/// The best or newest entries of a single word. `None` if a list of all of them is needed.
pub(super) fn find(
    conn: &Connection,
    index: &Index<'_>,
    (versions, queued): (&Versions, &mut Queued<'_>),
    word: &str,
    mask: u8,
    request: &SearchRequest,
) -> Result<Option<Found>> {
    let limit = match (request.order, request.limit) {
        (Order::Newest, limit) => {
            let mut entries = index.entries_of(word, mask)?;
            versions.keep_newest_of(&mut entries);
            queued.leave_out_of(&mut entries)?;
            let total = entries.len();
            let limit = limit.unwrap_or(total);
            let (matches, shown) = newest_of(conn, &entries, mask, limit)?;
            return Ok(Some(Found { matches, total, shown }));
        }
        (Order::Best, Some(limit @ 1..=PAGE)) => limit,
        (Order::Best, _) => return Ok(None),
    };
    let totals = index.totals();
    let average = totals.words as f64 / totals.entries as f64;
    let mut leading = Leading::new(average, rank::tried_first(limit));
    let mut entries = index
        .entries_of_each(word, mask, &mut |entry, positions| leading.consider(entry, positions))?;
    let hits = entries.len();
    versions.keep_newest_of(&mut entries);
    queued.leave_out_of(&mut entries)?;
    let total = entries.len();
    let (mut kept, is_complete) = leading.finish();
    kept.retain(|posting| entries.contains(posting.entry));
    let matches = Matches::some_of(kept, hits);
    let weights = rank::Weights::new(totals, matches.hits());
    let scored = match is_complete {
        true => Some(rank::best(conn, &weights, &matches, limit)?),
        false => rank::best_of_highest(conn, &weights, &matches, limit)?,
    };
    let Some(scored) = scored else { return Ok(None) };
    let shown = in_order(conn, scored, limit)?;
    Ok(Some(Found { matches, total, shown }))
}

/// The newest of the entries that hold a word in some of the columns of `mask`, and their order.
fn newest_of(
    conn: &Connection,
    entries: &EntrySet,
    mask: u8,
    limit: usize,
) -> Result<(Matches, Vec<Shown>)> {
    let newest = newest::newest_of(conn, entries, limit)?;
    let mut found: Vec<(i64, u8)> = newest.iter().map(|(_, entry)| (*entry, mask)).collect();
    found.sort_unstable();
    let matches = Matches::without_words(&found);
    let shown = newest.iter().filter_map(|(_, entry)| Some((matches.find(*entry)?, None)));
    let shown = shown.collect();
    Ok((matches, shown))
}
