//! Masks secrets: keys, tokens and passwords that ended up in a transcript.
//!
//! [`RULES`] says what is a secret. A secret becomes `[redacted:<rule>:<number>]`. Each rule counts
//! from 1, in the order in which a [`Redactor`] first met the secrets; the same secret always has the
//! same number, so a reader still sees which places speak of the same one.
//!
//! Some secrets are told only by the words around them (`password: …`). Whoever has time shows a
//! redactor everything once before what it returns is used: then such a secret is masked wherever it
//! stands, also where nothing around it tells. What no rule knows stays; redacting is a help, not a
//! promise.

mod find;
mod json;
mod rules;
mod story;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use aho_corasick::AhoCorasick;

use self::find::Found;
pub use self::rules::{Check, RULES, Rule};

/// Shorter secrets are masked where a rule finds them, and nowhere else: they may be ordinary words.
const MEMORABLE: usize = 8;

/// Texts that end in `…`, or are as long as this, may have been cut in the middle of a secret.
const MAY_BE_CUT: usize = 100;

/// What a cut secret still has to share with a known one.
const TELLING: usize = 4;

/// Masks secrets, and knows those that it has met.
#[derive(Debug, Default)]
pub struct Redactor {
    /// Each secret, with its rule and its number.
    known: HashMap<String, (usize, u32)>,
    counts: BTreeMap<usize, u32>,
    /// Finds those of `known` that are worth it, …
    finder: Option<AhoCorasick>,
    /// … in this order.
    found_by_finder: Vec<(usize, u32)>,
    /// How many secrets were known when it was made.
    finder_knows: usize,
}

impl Redactor {
    /// One that knows nothing yet.
    pub fn new() -> Redactor {
        Redactor::default()
    }

    /// Makes sure that every secret met so far is found wherever it stands.
    pub fn settle(&mut self) {
        if self.finder_knows == self.known.len() {
            return;
        }
        self.finder_knows = self.known.len();
        let memorable: Vec<_> =
            self.known.iter().filter(|(secret, _)| is_memorable(secret)).collect();
        self.finder = find::finder(memorable.iter().map(|(secret, _)| secret.as_str()));
        self.found_by_finder = memorable.into_iter().map(|(_, name)| *name).collect();
    }

    /// How many different secrets of each kind were met.
    pub fn met(&self) -> impl Iterator<Item = (&'static str, u32)> + '_ {
        self.counts.iter().filter_map(|(rule, count)| Some((RULES.get(*rule)?.name, *count)))
    }

    /// The text without secrets.
    pub fn mask<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        let found = self.find(text);
        self.replace(text, &found)
    }

    /// The same for a text that somebody may have cut: the beginning of a secret at its end is
    /// masked too.
    pub fn mask_cut<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        if !text.ends_with('…') && text.len() < MAY_BE_CUT {
            return self.mask(text);
        }
        let body = text.trim_end_matches('…');
        let ellipsis = &text[body.len()..];
        // Unless a whole secret ends there, what is known goes first: the rest of one would be a
        // secret of its own.
        let found = self.find(body);
        let whole = found.last().filter(|found| found.at.end == body.len());
        let is_rest = |start: usize| match whole {
            Some(Found { at, .. }) if start == at.start => {
                !self.known.contains_key(&body[at.clone()])
            }
            Some(Found { at, .. }) => start < at.start,
            None => true,
        };
        if let Some((start, (rule, number))) =
            self.cut_known(body).filter(|(start, _)| is_rest(*start))
        {
            let head = self.mask(&body[..start]);
            return Cow::Owned(format!("{head}{}{ellipsis}", placeholder(rule, number)));
        }
        // What was masked is no beginning of anything.
        let placeholder = find::placeholders(body).last().map_or(0, |place| place.end);
        let end = found.last().map_or(0, |found| found.at.end).max(placeholder);
        let cut = find::cut(&body[end..]).or_else(|| find::cut_by_words(&body[end..]));
        match (cut, found.is_empty()) {
            (None, true) => Cow::Borrowed(text),
            (None, false) => Cow::Owned(format!("{}{ellipsis}", self.replace(body, &found))),
            (Some(cut), _) => {
                let head = self.replace(&body[..end + cut.at.start], &found);
                Cow::Owned(format!("{head}[redacted:{}]{ellipsis}", RULES[cut.rule].name))
            }
        }
    }

    /// Where a text ends with the beginning of a known secret.
    fn cut_known(&self, text: &str) -> Option<(usize, (usize, u32))> {
        let cut = |(secret, name): (&String, &(usize, u32))| {
            let end = (TELLING..secret.len().min(text.len() + 1))
                .rev()
                .find(|end| secret.get(..*end).is_some_and(|start| text.ends_with(start)))?;
            Some((text.len() - end, *name))
        };
        self.known.iter().filter_map(cut).min()
    }

    /// Texts that stand one after the other: a secret may go on in the next one.
    pub fn mask_parts<'t>(&mut self, parts: &[&'t str]) -> Vec<Cow<'t, str>> {
        let mut masked: Vec<Cow<'t, str>> = Vec::with_capacity(parts.len());
        if parts.len() < 2 {
            masked.extend(parts.iter().map(|part| self.mask(part)));
            return masked;
        }
        let whole = parts.concat();
        let mut found = self.find(&whole);
        // What ends with a part ends there, although the next one would go on with it.
        let mut start = 0;
        for part in parts {
            found.extend(self.find(part).into_iter().map(|mut found| {
                found.at = found.at.start + start..found.at.end + start;
                found
            }));
            start += part.len();
        }
        let found = merge(found);
        let mut start = 0;
        for part in parts {
            let end = start + part.len();
            let mut text = String::new();
            let mut at = start;
            for Found { at: secret, rule } in
                found.iter().filter(|found| found.at.start < end && found.at.end > start)
            {
                text.push_str(&whole[at..secret.start.max(at)]);
                if secret.start >= start {
                    text.push_str(&self.name(&whole[secret.clone()], *rule));
                }
                // Each part of it is a secret of its own where it stands alone.
                let here = secret.start.max(start)..secret.end.min(end);
                if here != *secret {
                    self.name(&whole[here], *rule);
                }
                at = secret.end.min(end);
            }
            masked.push(if at == start {
                Cow::Borrowed(*part)
            } else {
                text.push_str(&whole[at..end]);
                Cow::Owned(text)
            });
            start = end;
        }
        masked
    }

    /// Where secrets stand, in order and apart from each other.
    fn find(&mut self, text: &str) -> Vec<Found> {
        if text.len() < MEMORABLE {
            return Vec::new();
        }
        // New secrets are looked for as well, but not at the price of a new finder for each.
        if self.known.len() > self.finder_knows * 2 + 16 {
            self.settle();
        }
        let mut found = find::by_rules(text);
        if let Some(finder) = &self.finder {
            found.extend(finder.find_iter(text).map(|at| Found {
                at: at.range(),
                rule: self.found_by_finder[at.pattern().as_usize()].0,
            }));
        }
        apart_from_placeholders(text, merge(found))
    }

    fn replace<'t>(&mut self, text: &'t str, found: &[Found]) -> Cow<'t, str> {
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut masked = String::with_capacity(text.len());
        let mut at = 0;
        for Found { at: secret, rule } in found {
            masked.push_str(&text[at..secret.start]);
            masked.push_str(&self.name(&text[secret.clone()], *rule));
            at = secret.end;
        }
        masked.push_str(&text[at..]);
        Cow::Owned(masked)
    }

    /// What stands in a secret's place.
    fn name(&mut self, secret: &str, rule: usize) -> String {
        let (rule, number) = match self.known.get(secret) {
            Some(name) => *name,
            None => {
                let count = self.counts.entry(rule).or_insert(0);
                *count += 1;
                self.known.insert(secret.to_owned(), (rule, *count));
                (rule, *count)
            }
        };
        placeholder(rule, number)
    }
}

fn placeholder(rule: usize, number: u32) -> String {
    format!("[redacted:{}:{number}]", RULES[rule].name)
}

/// What is left of secrets beside placeholders: one that was masked is not masked again.
fn apart_from_placeholders(text: &str, found: Vec<Found>) -> Vec<Found> {
    if found.is_empty() {
        return found;
    }
    let placeholders: Vec<_> = find::placeholders(text).collect();
    if placeholders.is_empty() {
        return found;
    }
    let mut left = Vec::with_capacity(found.len());
    for Found { at, rule } in found {
        let mut start = at.start;
        let inside =
            placeholders.iter().filter(|place| place.start < at.end && place.end > at.start);
        for place in inside {
            if place.start > start {
                left.push(Found { at: start..place.start, rule });
            }
            start = place.end;
        }
        if start < at.end {
            left.push(Found { at: start..at.end, rule });
        }
    }
    left
}

/// Whether a secret is told by itself, so that it can be looked for everywhere.
fn is_memorable(secret: &str) -> bool {
    secret.len() >= MEMORABLE
        && secret.bytes().any(|byte| byte.is_ascii_digit())
        && secret.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// In order; those that overlap become one, named by the rule that comes first in the list.
fn merge(mut found: Vec<Found>) -> Vec<Found> {
    found.sort_by_key(|found| (found.at.start, found.rule));
    let mut merged: Vec<Found> = Vec::with_capacity(found.len());
    for next in found {
        match merged.last_mut() {
            Some(last) if next.at.start < last.at.end => {
                last.at.end = last.at.end.max(next.at.end);
                last.rule = last.rule.min(next.rule);
            }
            _ => merged.push(next),
        }
    }
    merged
}

#[cfg(test)]
mod tests;
