//! Entries that hold the words of a query with other English endings.
//!
//! They follow the hits for the words as typed where those do not fill a page. Phrases, excluded
//! words, prefixes and expressions stay as typed. The forms of a word come from rules; those that
//! the index holds are found in one walk over its terms.

use foldhash::HashSet;
use quipu_fts5::{Index, Matches, Phrase};
use quipu_transcript::search::endings::other_endings;
use quipu_transcript::search::snippet::Needle;

use super::find::{Finder, phrases_of};
use super::pattern::Pattern;
use crate::Result;

/// The largest number of terms that are read for one word. It bounds the work for a short word.
const MAX_TERMS: usize = 20_000;

/// Returns the entries that match with other endings and not as typed, and a pattern that marks
/// them. `None` if no word has another ending in the index.
pub(super) fn find(
    finder: &Finder<'_, '_>,
    pattern: &Pattern,
    terms: &mut u64,
) -> Result<Option<(Matches, Pattern)>> {
    let mut marking = pattern.clone();
    let (mut sides, mut typed) = (Vec::new(), Vec::new());
    let mut has_forms = false;
    for side in &pattern.sides {
        let mut sets = Vec::new();
        for (phrase, is_word) in side.wanted.phrases.iter().zip(&side.is_word) {
            let mut forms = vec![phrase.clone()];
            if let (true, [word]) = (is_word, phrase.tokens.as_slice()) {
                for form in forms_of(finder.index, word, terms)? {
                    has_forms = true;
                    marking.needles.push(Needle { words: vec![form.clone()], is_prefix: false });
                    forms.push(Phrase { tokens: vec![form], is_prefix: false });
                }
            }
            let found = forms
                .iter()
                .map(|form| finder.index.find(std::slice::from_ref(form), &[], finder.column_mask));
            sets.push(Matches::any_of(found.collect::<Result<_, _>>()?));
        }
        if sets.is_empty() {
            continue;
        }
        let mut found = Matches::all_of(sets);
        finder.index.remove(&mut found, &phrases_of(side), finder.column_mask)?;
        typed.push(finder.index.find(&side.wanted.phrases, &[], finder.column_mask)?);
        sides.push(finder.side(side, Some(found), &mut None)?);
    }
    let mut matches = Matches::any_of(sides);
    matches.retain(|rowid, _| typed.iter().all(|typed| typed.find(rowid).is_none()));
    Ok(has_forms.then_some((matches, marking)))
}

/// Returns the other forms of a word that the index holds.
fn forms_of(index: &Index<'_>, word: &str, terms: &mut u64) -> Result<Vec<String>> {
    let forms: HashSet<String> = other_endings(word).into_iter().collect();
    let common = forms.iter().fold(word, |common, form| {
        let same = common.bytes().zip(form.bytes()).take_while(|(one, other)| one == other);
        common.get(..same.count()).unwrap_or_default()
    });
    if forms.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    *terms += index.each_term(common, MAX_TERMS, &mut |term| {
        if forms.contains(term) {
            found.push(term.to_owned());
        }
    })? as u64;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}
