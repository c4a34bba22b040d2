//! The text of a query, compiled: phrases for the index, regular expressions for the text itself.
//!
//! Never reads the ledger.

use quipu_fts5::Phrase;
use quipu_transcript::search::query::{Alternative, Clause, Query};
use quipu_transcript::search::signs::Spelling;
use quipu_transcript::search::snippet::{self, Needle};
use quipu_transcript::search::words::has_no_spaces;
use regex::{Regex, RegexBuilder};

use super::words::words;
use crate::{Error, Result};

/// The largest memory of a compiled expression and of its cached states, each in bytes. It bounds
/// the cost of a hostile expression.
const MAX_REGEX_BYTES: usize = 16 << 20;

/// The largest number of places that are marked for one expression. It bounds the work for an
/// expression that matches everywhere.
const MAX_PLACES: usize = 1000;

/// The phrases and expressions to search for.
#[derive(Debug, Default, Clone)]
pub(crate) struct Pattern {
    /// The sides of `OR`, at least one.
    pub(crate) sides: Vec<Side>,
    /// The words and phrases that are marked in a hit.
    pub(crate) needles: Vec<Needle>,
    literals: Vec<Regex>,
}

/// One side of `OR`.
#[derive(Debug, Default, Clone)]
pub(crate) struct Side {
    /// The group that must match.
    pub(crate) wanted: Group,
    /// Groups of which none may match as a whole.
    pub(crate) unwanted: Vec<Group>,
    /// True for each wanted phrase that was typed as a single plain word.
    pub(crate) is_word: Vec<bool>,
    /// Wanted words with signs.
    spellings: Vec<Spelling>,
}

/// Phrases and expressions that match together.
#[derive(Debug, Default, Clone)]
pub(crate) struct Group {
    /// Phrases of the index.
    pub(crate) phrases: Vec<Phrase>,
    /// Expressions for the text.
    pub(crate) literals: Vec<Regex>,
}

/// A compiled clause.
enum Compiled {
    Phrase(Phrase),
    /// A clause without words of the index.
    Literal(Regex),
}

impl Compiled {
    fn of(clause: &Clause) -> Result<Compiled> {
        let tokens = words(&clause.text)?;
        Ok(match tokens.is_empty() || has_no_spaces(&clause.text) {
            true => Compiled::Literal(compile_regex(&regex::escape(&clause.text), true)?),
            false => Compiled::Phrase(Phrase { tokens, is_prefix: clause.is_prefix }),
        })
    }
}

impl Group {
    fn of(clauses: &[Clause]) -> Result<Group> {
        let mut group = Group::default();
        for clause in clauses {
            match Compiled::of(clause)? {
                Compiled::Phrase(phrase) => group.phrases.push(phrase),
                Compiled::Literal(literal) => group.literals.push(literal),
            }
        }
        Ok(group)
    }

    /// Returns the only phrase of a group that has nothing else.
    pub(crate) fn as_phrase(&self) -> Option<&Phrase> {
        match (self.phrases.as_slice(), self.literals.is_empty()) {
            ([only], true) => Some(only),
            _ => None,
        }
    }

    /// Returns the only expression of a group that has nothing else.
    pub(crate) fn as_literal(&self) -> Option<&Regex> {
        match (self.phrases.is_empty(), self.literals.as_slice()) {
            (true, [only]) => Some(only),
            _ => None,
        }
    }
}

impl Side {
    fn of(alternative: &Alternative) -> Result<Side> {
        let mut side = Side::default();
        for clause in &alternative.required {
            match Compiled::of(clause)? {
                Compiled::Literal(literal) => side.wanted.literals.push(literal),
                Compiled::Phrase(phrase) => {
                    let is_word = clause.text.chars().all(char::is_alphanumeric);
                    side.is_word.push(is_word && !clause.is_quoted && !clause.is_prefix);
                    side.spellings.extend(Spelling::of(&clause.text, clause.is_prefix));
                    side.wanted.phrases.push(phrase);
                }
            }
        }
        for clauses in &alternative.excluded {
            side.unwanted.push(Group::of(clauses)?);
        }
        Ok(side)
    }

    /// Returns whether an entry with these texts holds the words as they were typed.
    fn is_as_typed(&self, texts: &[&str]) -> bool {
        let is_in = |is_here: &dyn Fn(&str) -> bool| texts.iter().any(|text| is_here(text));
        match self.spellings.is_empty() {
            false => self.spellings.iter().all(|spelling| is_in(&|text| spelling.is_in(text))),
            true => {
                let is_phrase_in = |phrase: &Phrase, text: &str| {
                    !snippet::places(text, &[needle(phrase)]).is_empty()
                };
                let mut phrases = self.wanted.phrases.iter();
                phrases.all(|phrase| is_in(&|text| is_phrase_in(phrase, text)))
            }
        }
    }
}

fn needle(phrase: &Phrase) -> Needle {
    Needle { words: phrase.tokens.clone(), is_prefix: phrase.is_prefix }
}

impl Pattern {
    /// Compiles a query.
    pub(crate) fn of(query: &Query) -> Result<Pattern> {
        let mut pattern = Pattern::default();
        let excluded = query.excluded.iter().map(|clause| Group::of(std::slice::from_ref(clause)));
        let excluded: Vec<Group> = excluded.collect::<Result<_>>()?;
        for alternative in &query.alternatives {
            pattern.sides.push(Side::of(alternative)?);
        }
        if pattern.sides.is_empty() {
            pattern.sides.push(Side::default());
        }
        for side in &mut pattern.sides {
            side.unwanted.extend_from_slice(&excluded);
            for wanted in side.wanted.phrases.iter().map(needle) {
                if !pattern.needles.contains(&wanted) {
                    pattern.needles.push(wanted);
                }
            }
            pattern.literals.extend_from_slice(&side.wanted.literals);
        }
        Ok(pattern)
    }

    /// Adds a regular expression that must match, too.
    pub(crate) fn add_regex(&mut self, text: &str, ignores_case: bool) -> Result<()> {
        let expression = compile_regex(text, ignores_case)?;
        for side in &mut self.sides {
            side.wanted.literals.push(expression.clone());
        }
        self.literals.push(expression);
        Ok(())
    }

    /// Adds a text that must occur exactly, too.
    pub(crate) fn add_exact(&mut self, text: &str, ignores_case: bool) -> Result<()> {
        self.add_regex(&regex::escape(text), ignores_case)
    }

    /// Returns the word if the pattern is a single word and nothing else.
    pub(crate) fn only_word(&self) -> Option<&str> {
        match self.sides.as_slice() {
            [Side { wanted, unwanted, .. }] if unwanted.is_empty() => match wanted.as_phrase()? {
                Phrase { tokens, is_prefix: false } if tokens.len() == 1 => {
                    tokens.first().map(String::as_str)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns whether there is anything that must match.
    pub(crate) fn has_words(&self) -> bool {
        let mut wanted = self.sides.iter().map(|side| &side.wanted);
        wanted.any(|group| !group.phrases.is_empty() || !group.literals.is_empty())
    }

    /// Returns whether the index is asked for a phrase, so that hits have a rank.
    pub(crate) fn has_phrases(&self) -> bool {
        self.sides.iter().any(|side| !side.wanted.phrases.is_empty())
    }

    /// Returns whether a word with signs was typed.
    pub(crate) fn has_signs(&self) -> bool {
        self.sides.iter().any(|side| !side.spellings.is_empty())
    }

    /// Returns whether an entry with these texts holds the words of one side as they were typed.
    pub(crate) fn is_as_typed(&self, texts: &[&str]) -> bool {
        self.sides.iter().any(|side| side.is_as_typed(texts))
    }

    /// Returns the number of different phrases and expressions that are marked.
    pub(crate) fn marked_count(&self) -> usize {
        self.needles.len() + self.literals.len()
    }

    /// Returns the places in a text that match.
    pub(crate) fn places(&self, text: &str) -> Vec<(usize, usize, usize)> {
        let mut places = snippet::places(text, &self.needles);
        for (index, literal) in self.literals.iter().enumerate() {
            let found = literal.find_iter(text).filter(|found| !found.is_empty());
            let kind = self.needles.len() + index;
            places.extend(found.take(MAX_PLACES).map(|found| (found.start(), found.end(), kind)));
        }
        if !self.literals.is_empty() {
            places.sort_unstable();
        }
        places
    }
}

/// Compiles an expression that takes a bounded amount of time and memory.
fn compile_regex(text: &str, ignores_case: bool) -> Result<Regex> {
    RegexBuilder::new(text)
        .case_insensitive(ignores_case)
        .multi_line(true)
        .size_limit(MAX_REGEX_BYTES)
        .dfa_size_limit(MAX_REGEX_BYTES)
        .nest_limit(200)
        .build()
        .map_err(|error| Error::Pattern { why: refusal(&error) })
}

/// Returns the reason why an expression is refused, without the drawing that `regex` adds.
fn refusal(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "it would take too much memory".to_owned(),
        error => {
            let message = error.to_string();
            let last = message.lines().last().unwrap_or_default();
            last.trim().trim_start_matches("error: ").to_owned()
        }
    }
}
