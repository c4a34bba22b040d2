//! The nearest word that the index holds, for a word that it does not.
//!
//! Only words that begin alike are compared, the longest common beginning first, and a bounded
//! number of them.

use std::collections::BTreeMap;

use quipu_fts5::Index;
use quipu_transcript::search::words::distance;

use super::pattern::Pattern;
use crate::Result;
use crate::wire::NearestWord;

/// The largest number of terms that are compared for one word.
const MAX_TERMS: usize = 20_000;

/// The shortest common beginning, in letters.
const SHORTEST_BEGINNING: usize = 2;

/// The largest number of words of a query for which another is looked up.
const MAX_WORDS: usize = 4;

/// The largest number of equally near words whose entries are counted.
const MAX_COUNTED: usize = 16;

/// Returns the nearest words for the words of a pattern that no entry holds.
pub(super) fn find(
    index: &Index<'_>,
    pattern: &Pattern,
    mask: u8,
    terms: &mut u64,
) -> Result<Vec<NearestWord>> {
    let mut nearest = Vec::new();
    for side in &pattern.sides {
        for (phrase, is_word) in side.wanted.phrases.iter().zip(&side.is_word) {
            let [word] = phrase.tokens.as_slice() else { continue };
            if !is_word
                || nearest.len() >= MAX_WORDS
                || !index.rowids_of_term(word, mask)?.is_empty()
            {
                continue;
            }
            nearest.extend(nearest_to(index, word, mask, terms)?);
        }
    }
    Ok(nearest)
}

/// Returns the word with the fewest different letters; of several, the most frequent.
fn nearest_to(
    index: &Index<'_>,
    word: &str,
    mask: u8,
    terms: &mut u64,
) -> Result<Option<NearestWord>> {
    let letters = word.chars().count();
    let most = match letters {
        ..3 => return Ok(None),
        3..6 => 1,
        _ => 2,
    };
    let mut left = MAX_TERMS;
    let mut by_distance: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for length in (SHORTEST_BEGINNING..letters).rev() {
        let beginning: String = word.chars().take(length).collect();
        let read = index.each_term(&beginning, left, &mut |term| {
            // The length alone rules most words out.
            if term.chars().count().abs_diff(letters) <= most {
                let far = distance(word, term);
                if (1..=most).contains(&far) {
                    by_distance.entry(far).or_default().push(term.to_owned());
                }
            }
        })?;
        *terms += read as u64;
        left = left.saturating_sub(read);
        if left == 0 || by_distance.contains_key(&1) {
            break;
        }
    }
    for (_, mut words) in by_distance {
        words.sort_unstable();
        words.dedup();
        let mut best: Option<NearestWord> = None;
        for near in words.into_iter().take(MAX_COUNTED) {
            let entries = index.rowids_of_term(&near, mask)?.len() as u64;
            if entries > best.as_ref().map_or(0, |best| best.entries) {
                best = Some(NearestWord { typed: word.to_owned(), word: near, entries });
            }
        }
        if best.is_some() {
            return Ok(best);
        }
    }
    Ok(None)
}
