//! Masks secrets: keys, tokens and passwords that ended up in a transcript.
//!
//! [`RULES`] lists the kinds of secrets. A secret becomes `[redacted:<rule>:<number>]`. Each rule
//! counts from 1, in the order in which a [`Redactor`] first found the secrets; the same secret
//! always has the same number, so a reader still sees which places hold the same one.
//!
//! Some secrets are recognized only by the text around them (`password: …`). A caller can pass all
//! texts to a redactor once before it uses the results: then such a secret is masked everywhere,
//! even where the text around it has no hint. A secret that no rule matches stays: redacting
//! guarantees nothing.

mod find;
mod json;
mod rules;
mod story;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use aho_corasick::AhoCorasick;

use self::find::FoundSecret;
pub use self::rules::{Check, RULES, Rule};

/// Secrets shorter than this, in bytes, are masked only where a rule finds them: they may be
/// ordinary words.
const MIN_MEMORABLE_BYTES: usize = 8;

/// A text of at least this many bytes may have been cut in the middle of a secret, and so may one
/// that ends in `…`.
const MIN_CUT_BYTES: usize = 100;

/// The number of bytes that a cut secret must share with a known one.
const MIN_SHARED_BYTES: usize = 4;

/// Masks secrets, and remembers those that it has found.
///
/// ```
/// use quipu_transcript::redact::Redactor;
///
/// let mut redactor = Redactor::new();
/// let masked = redactor.mask("postgres://shop:hunter2hunter2@db.example/shop");
/// assert_eq!(masked, "postgres://shop:[redacted:url-password:1]@db.example/shop");
/// assert_eq!(redactor.counts().collect::<Vec<_>>(), [("url-password", 1)]);
/// ```
#[derive(Debug, Default)]
pub struct Redactor {
    /// Each secret, with its rule and its number.
    known: HashMap<String, (usize, u32)>,
    counts: BTreeMap<usize, u32>,
    /// Finds the secrets of `known` that are long enough.
    finder: Option<AhoCorasick>,
    /// The rule and number of each pattern of `finder`.
    found_by_finder: Vec<(usize, u32)>,
    /// The number of known secrets when `finder` was built.
    finder_knows: usize,
}

impl Redactor {
    /// Returns a redactor that knows no secrets yet.
    pub fn new() -> Redactor {
        Redactor::default()
    }

    /// Rebuilds the finder, so that every known secret is found everywhere.
    pub fn rebuild_finder(&mut self) {
        if self.finder_knows == self.known.len() {
            return;
        }
        self.finder_knows = self.known.len();
        let memorable: Vec<_> =
            self.known.iter().filter(|(secret, _)| is_memorable(secret)).collect();
        self.finder = find::finder(memorable.iter().map(|(secret, _)| secret.as_str()));
        self.found_by_finder = memorable.into_iter().map(|(_, name)| *name).collect();
    }

    /// Returns the number of different secrets of each kind that were found.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u32)> + '_ {
        self.counts.iter().filter_map(|(rule, count)| Some((RULES.get(*rule)?.name, *count)))
    }

    /// Returns the text with secrets masked.
    pub fn mask<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        let found = self.find(text);
        self.replace(text, &found)
    }

    /// Masks secrets in a text that may have been cut, including the beginning of a secret at its
    /// end.
    pub fn mask_cut<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        if !text.ends_with('…') && text.len() < MIN_CUT_BYTES {
            return self.mask(text);
        }
        let body = text.trim_end_matches('…');
        let ellipsis = &text[body.len()..];
        // First looks for the beginning of a known secret at the end. A beginning inside a complete
        // secret does not count: the end of one secret may look like the beginning of another.
        let found = self.find(body);
        let whole = found.last().filter(|found| found.at.end == body.len());
        let is_beginning = |start: usize| match whole {
            Some(FoundSecret { at, .. }) if start == at.start => {
                !self.known.contains_key(&body[at.clone()])
            }
            Some(FoundSecret { at, .. }) => start < at.start,
            None => true,
        };
        if let Some((start, (rule, number))) =
            self.cut_known(body).filter(|(start, _)| is_beginning(*start))
        {
            let head = self.mask(&body[..start]);
            return Cow::Owned(format!("{head}{}{ellipsis}", placeholder(rule, number)));
        }
        // A placeholder is not the beginning of a secret.
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

    /// Finds the beginning of a known secret at the end of a text. Returns its offset, and the rule
    /// and number of the secret.
    fn cut_known(&self, text: &str) -> Option<(usize, (usize, u32))> {
        let cut = |(secret, name): (&String, &(usize, u32))| {
            let end = (MIN_SHARED_BYTES..secret.len().min(text.len() + 1))
                .rev()
                .find(|end| secret.get(..*end).is_some_and(|start| text.ends_with(start)))?;
            Some((text.len() - end, *name))
        };
        self.known.iter().filter_map(cut).min()
    }

    /// Masks consecutive texts; a secret may continue in the next one.
    pub fn mask_parts<'t>(&mut self, parts: &[&'t str]) -> Vec<Cow<'t, str>> {
        let mut masked: Vec<Cow<'t, str>> = Vec::with_capacity(parts.len());
        if parts.len() < 2 {
            masked.extend(parts.iter().map(|part| self.mask(part)));
            return masked;
        }
        let whole = parts.concat();
        let mut found = self.find(&whole);
        // Each part is also searched alone: a secret that ends with it may not be recognized once
        // the next part follows.
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
            for FoundSecret { at: secret, rule } in
                found.iter().filter(|found| found.at.start < end && found.at.end > start)
            {
                text.push_str(&whole[at..secret.start.max(at)]);
                if secret.start >= start {
                    text.push_str(&self.name(&whole[secret.clone()], *rule));
                }
                // The piece of the secret in each part is remembered as a secret of its own.
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

    /// Returns the secrets in order, without overlaps.
    fn find(&mut self, text: &str) -> Vec<FoundSecret> {
        if text.len() < MIN_MEMORABLE_BYTES {
            return Vec::new();
        }
        // Rebuilding the finder for each new secret would cost too much, so it waits for several.
        if self.known.len() > self.finder_knows * 2 + 16 {
            self.rebuild_finder();
        }
        let mut found = find::by_rules(text);
        if let Some(finder) = &self.finder {
            found.extend(finder.find_iter(text).map(|at| FoundSecret {
                at: at.range(),
                rule: self.found_by_finder[at.pattern().as_usize()].0,
            }));
        }
        apart_from_placeholders(text, merge(found))
    }

    fn replace<'t>(&mut self, text: &'t str, found: &[FoundSecret]) -> Cow<'t, str> {
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut masked = String::with_capacity(text.len());
        let mut at = 0;
        for FoundSecret { at: secret, rule } in found {
            masked.push_str(&text[at..secret.start]);
            masked.push_str(&self.name(&text[secret.clone()], *rule));
            at = secret.end;
        }
        masked.push_str(&text[at..]);
        Cow::Owned(masked)
    }

    /// Returns the placeholder of a secret.
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

/// Removes the placeholders from found ranges: a masked secret is not masked again.
fn apart_from_placeholders(text: &str, found: Vec<FoundSecret>) -> Vec<FoundSecret> {
    if found.is_empty() {
        return found;
    }
    let placeholders: Vec<_> = find::placeholders(text).collect();
    if placeholders.is_empty() {
        return found;
    }
    let mut left = Vec::with_capacity(found.len());
    for FoundSecret { at, rule } in found {
        let mut start = at.start;
        let inside =
            placeholders.iter().filter(|place| place.start < at.end && place.end > at.start);
        for place in inside {
            if place.start > start {
                left.push(FoundSecret { at: start..place.start, rule });
            }
            start = place.end;
        }
        if start < at.end {
            left.push(FoundSecret { at: start..at.end, rule });
        }
    }
    left
}

/// Returns whether a secret is long and distinct enough to be searched for everywhere.
fn is_memorable(secret: &str) -> bool {
    secret.len() >= MIN_MEMORABLE_BYTES
        && secret.bytes().any(|byte| byte.is_ascii_digit())
        && secret.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Sorts the secrets; overlapping ones become one, named by the rule that comes first in the list.
fn merge(mut found: Vec<FoundSecret>) -> Vec<FoundSecret> {
    found.sort_by_key(|found| (found.at.start, found.rule));
    let mut merged: Vec<FoundSecret> = Vec::with_capacity(found.len());
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
