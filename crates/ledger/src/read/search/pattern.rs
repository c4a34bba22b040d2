//! What is looked for, in the form that finds it in a text: words of the index, or a regular
//! expression.

use quipu_fts5::Phrase;
use quipu_transcript::search::query::Query;
use quipu_transcript::search::snippet::{self, Needle};
use quipu_transcript::search::words::has_no_spaces;
use regex::{Regex, RegexBuilder};

use super::words::words;
use crate::{Error, Result};

/// A compiled expression may take this much memory, and so may the states that it goes through.
const LARGEST: usize = 16 << 20;

/// At most so many places of an expression are marked.
const MOST_PLACES: usize = 1000;

/// What to look for.
#[derive(Debug, Default)]
pub(crate) struct Pattern {
    /// In the index: all of these.
    pub(crate) wanted: Vec<Phrase>,
    /// In the index: none of these.
    pub(crate) unwanted: Vec<Phrase>,
    /// In the text itself: all of these.
    pub(crate) literals: Vec<Regex>,
    /// In the text itself: none of these.
    pub(crate) unwanted_literals: Vec<Regex>,
    needles: Vec<Needle>,
}

impl Pattern {
    /// What a query means. What the index has no words for is looked for in the text.
    pub(crate) fn of(query: &Query) -> Result<Pattern> {
        let mut pattern = Pattern::default();
        for clause in &query.clauses {
            let words = words(&clause.text)?;
            if words.is_empty() || has_no_spaces(&clause.text) {
                let literal = expression(&regex::escape(&clause.text), false)?;
                match clause.is_negated {
                    true => pattern.unwanted_literals.push(literal),
                    false => pattern.literals.push(literal),
                }
                continue;
            }
            let phrase = Phrase { tokens: words, is_prefix: clause.is_prefix };
            if clause.is_negated {
                pattern.unwanted.push(phrase);
            } else {
                let Phrase { tokens: words, is_prefix } = phrase.clone();
                pattern.needles.push(Needle { words, is_prefix });
                pattern.wanted.push(phrase);
            }
        }
        Ok(pattern)
    }

    /// A regular expression has to match, too.
    pub(crate) fn add_regex(&mut self, text: &str) -> Result<()> {
        self.literals.push(expression(text, true)?);
        Ok(())
    }

    /// A text has to stand there as it is, too.
    pub(crate) fn add_exact(&mut self, text: &str) -> Result<()> {
        self.add_regex(&regex::escape(text))
    }

    /// The word that is all it looks for.
    pub(crate) fn only_word(&self) -> Option<&str> {
        match (self.wanted.as_slice(), self.unwanted.is_empty() && !self.needs_text()) {
            ([Phrase { tokens: words, is_prefix: false }], true) if words.len() == 1 => {
                words.first().map(String::as_str)
            }
            _ => None,
        }
    }

    /// Whether it looks for something in the text itself.
    pub(crate) fn needs_text(&self) -> bool {
        !self.literals.is_empty() || !self.unwanted_literals.is_empty()
    }

    /// How many different things are looked for.
    pub(crate) fn kinds(&self) -> usize {
        self.needles.len() + self.literals.len()
    }

    /// Where what is looked for stands in a text.
    pub(crate) fn places(&self, text: &str) -> Vec<(usize, usize, usize)> {
        let mut places = snippet::places(text, &self.needles);
        for (index, literal) in self.literals.iter().enumerate() {
            let found = literal.find_iter(text).filter(|found| !found.is_empty());
            let kind = self.needles.len() + index;
            places.extend(found.take(MOST_PLACES).map(|found| (found.start(), found.end(), kind)));
        }
        if !self.literals.is_empty() {
            places.sort_unstable();
        }
        places
    }
}

/// An expression that cannot take more than a bounded amount of time and memory.
fn expression(text: &str, is_case_sensitive: bool) -> Result<Regex> {
    RegexBuilder::new(text)
        .case_insensitive(!is_case_sensitive)
        .multi_line(true)
        .size_limit(LARGEST)
        .dfa_size_limit(LARGEST)
        .nest_limit(200)
        .build()
        .map_err(|error| Error::Pattern { why: reason(&error) })
}

/// What is wrong with an expression, without a picture of it.
fn reason(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "it would take too much memory".to_owned(),
        error => {
            let said = error.to_string();
            let last = said.lines().last().unwrap_or_default();
            last.trim().trim_start_matches("error: ").to_owned()
        }
    }
}
