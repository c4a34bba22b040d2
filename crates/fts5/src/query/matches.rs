//! The rows that hold all phrases of a query and none of those that it excludes.
//!
//! Never scores them; `bm25` does.

use super::Posting;
use crate::read::{Postings, Reader, skip};
use crate::{Result, RowId};

/// One or more consecutive tokens, as the tokenizer spells them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    /// The tokens, for example `["full", "text"]`.
    pub tokens: Vec<String>,
    /// True if the last token is a prefix.
    pub is_prefix: bool,
}

/// The rows that match, in ascending order.
#[derive(Debug, Default)]
pub struct Matches {
    list: Vec<Posting>,
    /// Number of occurrences of each phrase but the first, row by row.
    others: Vec<u32>,
    /// Number of rows in the whole index that hold each phrase.
    hits: Vec<usize>,
    /// The expression with which FTS5 found the rows, only with
    /// [`Access::Plain`](crate::Access::Plain).
    expression: Option<String>,
}

impl Matches {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether no row matches.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the rows, each with the columns in which it was found.
    pub fn list(&self) -> &[Posting] {
        &self.list
    }

    /// Returns the rowids, in ascending order.
    pub fn rowids(&self) -> impl Iterator<Item = RowId> + '_ {
        self.list.iter().map(|found| found.rowid)
    }

    /// Returns the position of a row in the list.
    pub fn find(&self, rowid: RowId) -> Option<usize> {
        self.list.binary_search_by_key(&rowid, |found| found.rowid).ok()
    }

    /// Returns the count of each phrase in a row.
    pub(super) fn counts(&self, at: usize) -> impl Iterator<Item = u32> + '_ {
        let first = self.list.get(at).map(|found| found.occurrences.count());
        let others = self.hits.len().saturating_sub(1);
        let others = self.others.get(at * others..(at + 1) * others).unwrap_or_default();
        first.into_iter().chain(others.iter().copied())
    }

    /// Returns the number of rows in the whole index that hold each phrase.
    pub(crate) fn hits(&self) -> &[usize] {
        &self.hits
    }

    /// Keeps the rows for which `keep` returns true, given a rowid and the columns it was found in.
    pub fn try_retain<E>(
        &mut self,
        mut keep: impl FnMut(RowId, u8) -> Result<bool, E>,
    ) -> Result<(), E> {
        let others = self.hits.len().saturating_sub(1);
        let mut kept = 0;
        for at in 0..self.list.len() {
            let Some(found) = self.list.get(at) else { break };
            if !keep(found.rowid, found.columns())? {
                continue;
            }
            if kept != at {
                self.list.swap(kept, at);
                for phrase in 0..others {
                    self.others.swap(kept * others + phrase, at * others + phrase);
                }
            }
            kept += 1;
        }
        self.list.truncate(kept);
        self.others.truncate(kept * others);
        Ok(())
    }

    /// Keeps the rows for which `keep` returns true, given a rowid and the columns it was found in.
    pub fn retain(&mut self, mut keep: impl FnMut(RowId, u8) -> bool) {
        let kept: Result<(), std::convert::Infallible> =
            self.try_retain(|rowid, columns| Ok(keep(rowid, columns)));
        match kept {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }

    /// Makes matches of rows that were found by other means than phrases, in ascending order, each
    /// with the columns it was found in.
    pub fn without_phrases(rows: impl IntoIterator<Item = (RowId, u8)>) -> Matches {
        let list = rows.into_iter().map(|(rowid, columns)| Posting::bare(rowid, columns)).collect();
        Matches { list, ..Matches::default() }
    }

    /// Returns the rows that are in all of `parts`, with the phrases of all of them.
    pub fn all_of(parts: Vec<Matches>) -> Matches {
        let mut joined = Matches::joined(&parts, " AND ");
        let Some(shortest) = parts.iter().min_by_key(|part| part.list.len()) else { return joined };
        let mut cursors = vec![0_usize; parts.len()];
        for rowid in shortest.rowids() {
            for (cursor, part) in cursors.iter_mut().zip(&parts) {
                let rest = part.list.get(*cursor..).unwrap_or_default();
                *cursor += skip(rest, |posting| posting.rowid < rowid);
            }
            let is_here = |(cursor, part): (&usize, &Matches)| part.has(*cursor, rowid);
            if cursors.iter().zip(&parts).all(is_here) {
                joined.push(rowid, &cursors, &parts);
            }
        }
        joined
    }

    /// Returns the rows that are in one of `parts`. As in FTS5, a phrase counts in the score of a
    /// row if the row is in its part. With [`Access::Plain`](crate::Access::Plain), scores may
    /// differ where a part excludes phrases: FTS5 sometimes counts those, too.
    pub fn any_of(mut parts: Vec<Matches>) -> Matches {
        if parts.len() <= 1 {
            return parts.pop().unwrap_or_default();
        }
        let mut joined = Matches::joined(&parts, " OR ");
        let mut cursors = vec![0_usize; parts.len()];
        let next = |cursors: &[usize]| {
            let heads = cursors.iter().zip(&parts).filter_map(|(at, part)| part.list.get(*at));
            heads.map(|found| found.rowid).min()
        };
        while let Some(rowid) = next(&cursors) {
            joined.push(rowid, &cursors, &parts);
            for (cursor, part) in cursors.iter_mut().zip(&parts) {
                *cursor += usize::from(part.has(*cursor, rowid));
            }
        }
        joined
    }

    /// Makes matches without rows for the phrases of all parts.
    fn joined(parts: &[Matches], operator: &str) -> Matches {
        let expressions: Vec<String> =
            parts.iter().filter_map(|part| Some(format!("({})", part.expression()?))).collect();
        Matches {
            hits: parts.iter().flat_map(|part| part.hits.iter().copied()).collect(),
            expression: (!expressions.is_empty()).then(|| expressions.join(operator)),
            ..Matches::default()
        }
    }

    /// Returns whether a row is at a position of the list.
    fn has(&self, at: usize, rowid: RowId) -> bool {
        self.list.get(at).is_some_and(|found| found.rowid == rowid)
    }

    /// Adds a row with the counts of the parts that have it at their cursor.
    fn push(&mut self, rowid: RowId, cursors: &[usize], parts: &[Matches]) {
        let mut found: Option<Posting> = None;
        let mut first = None;
        for (at, part) in cursors.iter().zip(parts) {
            let here = part.list.get(*at).filter(|posting| posting.rowid == rowid);
            let counts = part.counts(*at).map(|count| if here.is_some() { count } else { 0 });
            // A part at its end has no counts.
            let counts = counts.chain(std::iter::repeat(0)).take(part.hits.len());
            for count in counts {
                match first {
                    None => first = Some(count),
                    Some(_) => self.others.push(count),
                }
            }
            if let Some(here) = here {
                found.get_or_insert(*here).also(here);
            }
        }
        self.list.extend(found.map(|found| found.with_count(first.unwrap_or(0))));
    }

    /// Makes matches of the rows that FTS5 found with an expression.
    pub(crate) fn of_expression(list: Vec<Posting>, expression: String) -> Matches {
        Matches { list, expression: Some(expression), ..Matches::default() }
    }

    /// Returns the expression with which FTS5 found the rows.
    pub(crate) fn expression(&self) -> Option<&str> {
        self.expression.as_deref()
    }

    /// Makes matches of some of the rows of a single phrase, which `hits` rows hold.
    pub(super) fn some_of(list: Vec<Posting>, hits: usize) -> Matches {
        Matches { list, hits: vec![hits], ..Matches::default() }
    }

    /// Removes the rows that hold any of `unwanted` in the columns of `mask`.
    pub(crate) fn remove(
        &mut self,
        reader: &Reader<'_>,
        unwanted: &[Phrase],
        mask: u8,
    ) -> Result<()> {
        for phrase in unwanted {
            let Postings { list, .. } =
                reader.phrase(&phrase.tokens, phrase.is_prefix, mask, Some(&self.list))?;
            let mut rest = list.as_slice();
            self.retain(|rowid, _| {
                rest = rest.get(skip(rest, |other| other.rowid < rowid)..).unwrap_or_default();
                rest.first().is_none_or(|other| other.rowid != rowid)
            });
        }
        Ok(())
    }
}

/// Returns the rows that hold all of `wanted` and none of `unwanted` in the columns of `mask`.
pub(crate) fn find(
    reader: &Reader<'_>,
    wanted: &[Phrase],
    unwanted: &[Phrase],
    mask: u8,
) -> Result<Matches> {
    // A long phrase is usually rare, so the longest is read first and in full. From the other
    // phrases only rows that the phrases before hold are listed.
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|at| {
        let letters = wanted.get(*at).map(|phrase| phrase.tokens.iter().map(String::len).sum());
        std::cmp::Reverse(letters.unwrap_or(0_usize))
    });
    let mut lists: Vec<Postings> = wanted.iter().map(|_| Postings::default()).collect();
    let mut before: Option<usize> = None;
    for at in order {
        let Some(phrase) = wanted.get(at) else { continue };
        let among = before.and_then(|before| lists.get(before)).map(|list| list.list.as_slice());
        let found = reader.phrase(&phrase.tokens, phrase.is_prefix, mask, among)?;
        if let Some(list) = lists.get_mut(at) {
            *list = found;
        }
        before = Some(at);
    }
    let mut matches = all_of(lists);
    matches.remove(reader, unwanted, mask)?;
    Ok(matches)
}

/// Intersects the lists of all phrases.
fn all_of(lists: Vec<Postings>) -> Matches {
    let hits: Vec<usize> = lists.iter().map(|list| list.hits).collect();
    let mut lists: Vec<Vec<Posting>> = lists.into_iter().map(|list| list.list).collect();
    if lists.len() <= 1 {
        let list = lists.pop().unwrap_or_default();
        return Matches { list, hits, ..Matches::default() };
    }
    let mut matches = Matches { hits, ..Matches::default() };
    let Some(rarest) = lists.iter().min_by_key(|list| list.len()) else { return matches };
    let mut rests: Vec<&[Posting]> = lists.iter().map(Vec::as_slice).collect();
    for wanted in rarest.iter().map(|posting| posting.rowid) {
        let mut found: Option<Posting> = None;
        let others = matches.others.len();
        let mut is_everywhere = true;
        for rest in &mut rests {
            *rest = rest.get(skip(rest, |posting| posting.rowid < wanted)..).unwrap_or_default();
            match rest.first() {
                Some(same) if same.rowid == wanted => match &mut found {
                    None => found = Some(*same),
                    Some(first) => {
                        first.also(same);
                        matches.others.push(same.occurrences.count());
                    }
                },
                _ => {
                    is_everywhere = false;
                    break;
                }
            }
        }
        match found.filter(|_| is_everywhere) {
            Some(found) => matches.list.push(found),
            None => matches.others.truncate(others),
        }
    }
    matches
}
