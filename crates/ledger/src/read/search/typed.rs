//! Puts the entries that hold a word with signs exactly as typed before the others. The index
//! ignores signs, so for `foo_bar` it also finds entries with `foo bar`.
//!
//! The text of candidates is read in the order of their rank, and only until the page is full.

use foldhash::HashSet;
use quipu_fts5::Matches;
use rusqlite::Connection;

use super::pattern::Pattern;
use super::texts::{Texts, by_column};
use super::{FoundMatches, Shown};
use crate::Result;
use crate::base::ids::EntryId;

/// The largest number of candidates that are compared. It bounds the work for frequent letters, for
/// example the `c` of `C++`.
pub(super) const MAX_CANDIDATES: usize = 1000;

/// The number of candidates that are compared first. Each further batch is twice as large.
const FIRST_BATCH: usize = 32;

/// The outcome of a comparison.
#[derive(Default)]
pub(super) struct Compared {
    /// The number of candidates whose text was read.
    pub(super) read: usize,
    /// The number of them that hold the words as typed.
    pub(super) as_typed: usize,
    /// The positions of the candidates that do not hold them.
    pub(super) others: HashSet<usize>,
}

/// Moves the matches that hold the words as typed to the front of `shown`, and cuts `shown` after
/// `page` matches.
pub(super) fn first(
    conn: &Connection,
    pattern: &Pattern,
    mask: u8,
    found: &mut FoundMatches,
    page: Option<usize>,
) -> Result<Compared> {
    let mut compared = Compared::default();
    let candidates = found.shown.len().min(MAX_CANDIDATES);
    let wanted = page.unwrap_or(usize::MAX);
    let mut batch = FIRST_BATCH;
    while compared.read < candidates && compared.as_typed < wanted {
        let end = (compared.read + batch).min(candidates);
        let places = found.shown.get(compared.read..end).unwrap_or_default();
        let others = others_of(conn, pattern, mask, &found.matches, places)?;
        compared.as_typed += places.len() - others.len();
        compared.others.extend(others);
        compared.read = end;
        batch *= 2;
    }
    let rest = found.shown.split_off(compared.read);
    let (others, mut shown): (Vec<Shown>, Vec<Shown>) =
        found.shown.drain(..).partition(|(at, _)| compared.others.contains(at));
    shown.extend(others);
    shown.extend(rest);
    shown.truncate(wanted);
    found.shown = shown;
    Ok(compared)
}

/// Returns the positions of the matches that do not hold the words as typed. Entries are read in
/// the order in which they are stored, so that each chunk is decompressed once.
fn others_of(
    conn: &Connection,
    pattern: &Pattern,
    mask: u8,
    matches: &Matches,
    places: &[Shown],
) -> Result<Vec<usize>> {
    let mut positions: Vec<usize> = places.iter().map(|(at, _)| *at).collect();
    positions.sort_unstable();
    let mut texts = Texts::new(conn);
    let mut others = Vec::new();
    for at in positions {
        let Some(found) = matches.list().get(at) else { continue };
        let text = texts.of(EntryId::from(found.rowid))?;
        let searched = by_column(&text).into_iter().filter(|(column, ..)| column & mask != 0);
        let searched: Vec<&str> = searched.map(|(_, _, text)| text).collect();
        if !pattern.is_as_typed(&searched) {
            others.push(at);
        }
    }
    Ok(others)
}
