//! Which entries hold all words of a query and none of those that it excludes.

use crate::Result;
use crate::read::{Index, Posting, Postings, skip};

/// A word or a phrase, in the index's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    pub words: Vec<String>,
    /// The last word is the beginning of one.
    pub is_prefix: bool,
}

/// The entries that match, by number.
#[derive(Debug, Default)]
pub struct Matches {
    list: Vec<Match>,
    /// How often each phrase but the first is in each entry.
    others: Vec<u32>,
    /// How many entries hold each phrase.
    hits: Vec<usize>,
}

/// An entry that matches, with what is known of the first phrase in it. Sixteen bytes: a frequent
/// word has hundreds of thousands, and memory that is touched for the first time is what costs.
type Match = Posting;

impl Matches {
    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them, in order.
    pub fn list(&self) -> &[Match] {
        &self.list
    }

    pub fn entries(&self) -> impl Iterator<Item = i64> + '_ {
        self.list.iter().map(|found| found.entry)
    }

    /// Where an entry is among them.
    pub fn find(&self, entry: i64) -> Option<usize> {
        self.list.binary_search_by_key(&entry, |found| found.entry).ok()
    }

    /// How often each phrase is in an entry.
    pub fn counts(&self, at: usize) -> impl Iterator<Item = u32> + '_ {
        let first = self.list.get(at).map(|found| found.occurrences.count());
        let others = self.hits.len().saturating_sub(1);
        let others = self.others.get(at * others..(at + 1) * others).unwrap_or_default();
        first.into_iter().chain(others.iter().copied())
    }

    /// How many entries hold each phrase.
    pub fn hits(&self) -> &[usize] {
        &self.hits
    }

    /// Keeps the entries that `keep` says yes to; it is told the columns that each was found in.
    pub fn try_retain<E>(
        &mut self,
        mut keep: impl FnMut(i64, u8) -> Result<bool, E>,
    ) -> Result<(), E> {
        let others = self.hits.len().saturating_sub(1);
        let mut kept = 0;
        for at in 0..self.list.len() {
            let Some(found) = self.list.get(at) else { break };
            if !keep(found.entry, found.occurrences.columns())? {
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

    /// The same where `keep` cannot fail.
    pub fn retain(&mut self, mut keep: impl FnMut(i64, u8) -> bool) {
        let kept: Result<(), std::convert::Infallible> =
            self.try_retain(|entry, columns| Ok(keep(entry, columns)));
        match kept {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }

    /// Entries that were not found by words, in order, with the columns that each was found in.
    pub fn without_words(entries: &[(i64, u8)]) -> Matches {
        let list = entries.iter().map(|(entry, columns)| Posting::bare(*entry, *columns)).collect();
        Matches { list, ..Matches::default() }
    }

    /// Some of the entries of a single phrase, in order, which `hits` entries hold.
    pub fn some_of(list: Vec<Posting>, hits: usize) -> Matches {
        Matches { list, others: Vec::new(), hits: vec![hits] }
    }

    /// Leaves out the entries that hold any of `unwanted`.
    pub fn leave_out(&mut self, index: &Index<'_>, unwanted: &[Phrase], mask: u8) -> Result<()> {
        for phrase in unwanted {
            let Postings { list, .. } =
                index.phrase(&phrase.words, phrase.is_prefix, mask, Some(&self.list))?;
            let mut rest = list.as_slice();
            self.retain(|entry, _| {
                rest = rest.get(skip(rest, |other| other.entry < entry)..).unwrap_or_default();
                rest.first().is_none_or(|other| other.entry != entry)
            });
        }
        Ok(())
    }
}

/// The entries that hold all of `wanted` and none of `unwanted` in the columns of `mask`.
pub fn find(
    index: &Index<'_>,
    wanted: &[Phrase],
    unwanted: &[Phrase],
    mask: u8,
) -> Result<Matches> {
    // Long words are rare: the list of the first one is kept, of the others only what is in it.
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|at| {
        let letters = wanted.get(*at).map(|phrase| phrase.words.iter().map(String::len).sum());
        std::cmp::Reverse(letters.unwrap_or(0_usize))
    });
    let mut lists: Vec<Postings> = wanted.iter().map(|_| Postings::default()).collect();
    let mut before: Option<usize> = None;
    for at in order {
        let Some(phrase) = wanted.get(at) else { continue };
        let among = before.and_then(|before| lists.get(before)).map(|list| list.list.as_slice());
        let found = index.phrase(&phrase.words, phrase.is_prefix, mask, among)?;
        if let Some(list) = lists.get_mut(at) {
            *list = found;
        }
        before = Some(at);
    }
    let mut matches = all_of(lists);
    matches.leave_out(index, unwanted, mask)?;
    Ok(matches)
}

/// The entries that are in every list.
fn all_of(lists: Vec<Postings>) -> Matches {
    let hits: Vec<usize> = lists.iter().map(|list| list.hits).collect();
    let mut lists: Vec<Vec<Posting>> = lists.into_iter().map(|list| list.list).collect();
    if lists.len() <= 1 {
        return Matches { list: lists.pop().unwrap_or_default(), others: Vec::new(), hits };
    }
    let mut matches = Matches { hits, ..Matches::default() };
    let Some(rarest) = lists.iter().min_by_key(|list| list.len()) else { return matches };
    let mut rests: Vec<&[Posting]> = lists.iter().map(Vec::as_slice).collect();
    for wanted in rarest.iter().map(|posting| posting.entry) {
        let mut found: Option<Posting> = None;
        let others = matches.others.len();
        let mut is_everywhere = true;
        for rest in &mut rests {
            *rest = rest.get(skip(rest, |posting| posting.entry < wanted)..).unwrap_or_default();
            match rest.first() {
                Some(same) if same.entry == wanted => match &mut found {
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
