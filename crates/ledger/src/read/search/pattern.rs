//! The text of a query, compiled: phrases for the index, regular expressions for the text itself.
//!
//! Never reads the ledger.

use quipu_fts5::Phrase;
use quipu_transcript::search::query::Query;
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
#[derive(Debug, Default)]
pub(crate) struct Pattern {
    /// Phrases that the index must have.
    pub(crate) required: Vec<Phrase>,
    /// Phrases that the index must not have.
    pub(crate) excluded: Vec<Phrase>,
    /// Expressions that must match the text.
    pub(crate) literals: Vec<Regex>,
    /// Expressions that must not match the text.
    pub(crate) excluded_literals: Vec<Regex>,
    needles: Vec<Needle>,
}

impl Pattern {
    /// Compiles a query. Clauses without words of the index become expressions for the text.
    pub(crate) fn of(query: &Query) -> Result<Pattern> {
        let mut pattern = Pattern::default();
        for clause in &query.clauses {
            let words = words(&clause.text)?;
            if words.is_empty() || has_no_spaces(&clause.text) {
                let literal = compile_regex(&regex::escape(&clause.text), false)?;
                match clause.is_negated {
                    true => pattern.excluded_literals.push(literal),
                    false => pattern.literals.push(literal),
                }
                continue;
            }
            let phrase = Phrase { tokens: words, is_prefix: clause.is_prefix };
            if clause.is_negated {
                pattern.excluded.push(phrase);
            } else {
                let Phrase { tokens: words, is_prefix } = phrase.clone();
                pattern.needles.push(Needle { words, is_prefix });
                pattern.required.push(phrase);
            }
        }
        Ok(pattern)
    }

    /// Adds a regular expression that must match, too.
    pub(crate) fn add_regex(&mut self, text: &str) -> Result<()> {
        self.literals.push(compile_regex(text, true)?);
        Ok(())
    }

    /// Adds a text that must occur exactly, too.
    pub(crate) fn add_exact(&mut self, text: &str) -> Result<()> {
        self.add_regex(&regex::escape(text))
    }

    /// Returns the word if the pattern is a single word and nothing else.
    pub(crate) fn only_word(&self) -> Option<&str> {
        match (self.required.as_slice(), self.excluded.is_empty() && !self.needs_text()) {
            ([Phrase { tokens: words, is_prefix: false }], true) if words.len() == 1 => {
                words.first().map(String::as_str)
            }
            _ => None,
        }
    }

    /// Returns whether the text itself must be read.
    pub(crate) fn needs_text(&self) -> bool {
        !self.literals.is_empty() || !self.excluded_literals.is_empty()
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
fn compile_regex(text: &str, is_case_sensitive: bool) -> Result<Regex> {
    RegexBuilder::new(text)
        .case_insensitive(!is_case_sensitive)
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
