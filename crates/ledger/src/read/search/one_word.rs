//! Searches for a single word without filters.
//!
//! For most entries only the fact that they hold the word is read. Other queries never come here.

use quipu_fts5::{Index, Matches, RowId, RowIdSet};
use rusqlite::Connection;

use super::queued::Queued;
use super::typed::MAX_CANDIDATES;
use super::versions::Versions;
use super::{FoundMatches, Order, Shown, in_order, newest};
use crate::Result;

/// Returns the best or newest entries that hold a single word. `None` if a list of all of them is
/// needed.
pub(super) fn find(
    conn: &Connection,
    index: &Index<'_>,
    (versions, queued): (&Versions, &mut Queued<'_>),
    word: &str,
    mask: u8,
    (order, limit): (Order, Option<usize>),
) -> Result<Option<FoundMatches>> {
    let limit = match (order, limit) {
        (Order::Newest, limit) => {
            let mut entries = index.rowids_of_term(word, mask)?;
            versions.keep_newest_of(&mut entries);
            queued.remove_from(&mut entries)?;
            let total = entries.len();
            let limit = limit.unwrap_or(total);
            let (matches, shown) = newest_of(conn, &entries, mask, limit)?;
            return Ok(Some(FoundMatches { matches, total, shown }));
        }
        (Order::Best, Some(limit @ 1..=MAX_CANDIDATES)) => limit,
        (Order::Best, _) => return Ok(None),
    };
    let Some((mut entries, top)) = index.top_k_of_term(word, mask, limit)? else {
        return Ok(None);
    };
    versions.keep_newest_of(&mut entries);
    queued.remove_from(&mut entries)?;
    let total = entries.len();
    let Some((matches, scored)) = index.best_of_top_k(top, &entries, limit)? else {
        return Ok(None);
    };
    let shown = in_order(conn, scored, limit)?;
    Ok(Some(FoundMatches { matches, total, shown }))
}

/// Returns the newest entries that hold a word in one of the columns of `mask`, and their order.
fn newest_of(
    conn: &Connection,
    entries: &RowIdSet,
    mask: u8,
    limit: usize,
) -> Result<(Matches, Vec<Shown>)> {
    let newest = newest::newest_of_set(conn, entries, limit)?;
    let mut found: Vec<RowId> = newest.iter().map(|(_, entry)| RowId::from(*entry)).collect();
    found.sort_unstable();
    let matches = Matches::without_phrases(found.into_iter().map(|rowid| (rowid, mask)));
    let shown = newest.iter().filter_map(|(_, entry)| Some((matches.find((*entry).into())?, None)));
    let shown = shown.collect();
    Ok((matches, shown))
}
