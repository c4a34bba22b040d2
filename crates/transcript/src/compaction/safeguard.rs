//! The mode `safeguard`, for histories that no summariser takes at once: pieces of a history, and
//! the audit of a summary.
//!
//! The audit is mechanical. It finds a summary that lost its shape or a name, not one that is wrong.

use std::fmt;
use std::ops::Range;

use super::budget::Budget;
use super::plan::Request;
use super::prompt;
use super::tokens;
use super::view::{Speaker, view};
use crate::context::{Message, pairing};
use crate::redact::Redactor;

/// The window for which chunks are made if the model's is not known, in tokens. Few models take
/// less.
const DEFAULT_WINDOW_TOKENS: u64 = 32_768;

/// The number of last requests whose names have to stay.
const LAST_REQUESTS: usize = 3;

/// The largest number of names that a summary has to have. A request can be a whole log file.
const MAX_NAMES: usize = 40;

/// The length, in bytes, above which a name is not required.
const MAX_NAME_BYTES: usize = 200;

/// The reason why a summary is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A section is missing.
    Section(&'static str),
    /// This number of names from the last requests is missing.
    Names(usize),
    /// It is not shorter than the messages that it summarises.
    Length,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Section(heading) => write!(formatter, "the section `{heading}` is missing"),
            Fault::Names(number) => write!(
                formatter,
                "{number} files, addresses or ids of the last requests are missing"
            ),
            Fault::Length => write!(formatter, "it is not shorter than what it stands for"),
        }
    }
}

/// Returns the tokens that one chunk may have: two fifths of the window.
pub fn chunk_tokens(budget: &Budget) -> u64 {
    budget.window.unwrap_or(DEFAULT_WINDOW_TOKENS) / 5 * 2
}

/// Splits messages into chunks of at most `most` tokens in a prompt.
///
/// A chunk never ends between a call and its results, so that it can be larger than `most`.
pub fn chunks(messages: &[Message], most: u64) -> Vec<Range<usize>> {
    let mut last_result = vec![0; messages.len()];
    for (call, result) in pairing::answers(messages) {
        if let Some(last) = last_result.get_mut(call) {
            *last = result.max(*last);
        }
    }
    let mut chunks = Vec::new();
    // The chunk, and in it the block that began last: messages that stay together.
    let (mut start, mut block) = (0, 0);
    let (mut sum, mut of_block) = (0_u64, 0_u64);
    let mut end_of_block = 0;
    for (index, (message, last_result)) in messages.iter().zip(last_result).enumerate() {
        let view = view(message);
        let is_result = view.as_ref().is_some_and(|view| view.speaker == Speaker::Tool);
        if index > end_of_block && !is_result {
            (block, of_block) = (index, 0);
        }
        end_of_block = last_result.max(end_of_block);
        let tokens = view.as_ref().map(prompt::tokens_in_prompt).unwrap_or_default();
        of_block = of_block.saturating_add(tokens);
        sum = sum.saturating_add(tokens);
        if sum > most && block > start {
            chunks.push(start..block);
            (start, sum) = (block, of_block);
        }
    }
    chunks.push(start..messages.len());
    chunks
}

/// Returns the files, addresses and ids in the last three requests. Secrets are not among them.
pub fn names(messages: &[Message]) -> Vec<String> {
    let requests = messages.iter().rev().filter_map(view);
    let requests = requests.filter(|view| view.speaker == Speaker::User).take(LAST_REQUESTS);
    let mut redactor = Redactor::new();
    let mut names: Vec<String> = Vec::new();
    for request in requests {
        // A summary need not have a secret, and a model need not have seen it.
        let masked = redactor.mask(&request.text);
        let text = without_secrets(&masked);
        let words = text.split(|character: char| {
            character.is_whitespace() || "\"'`<>()[]{},;|*".contains(character)
        });
        for word in words.map(|word| word.trim_matches(['.', ':', '!', '?', '…', '='])) {
            let is_name = is_address(word) || is_file(word) || is_id(word);
            if is_name && word.len() <= MAX_NAME_BYTES && !names.iter().any(|name| name == word) {
                names.push(word.to_owned());
            }
            if names.len() == MAX_NAMES {
                return names;
            }
        }
    }
    names
}

/// Returns a masked text without the marks of its secrets.
fn without_secrets(masked: &str) -> String {
    let mut parts = masked.split("[redacted:");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push(' ');
        text.push_str(part.split_once(']').map_or("", |(_, rest)| rest));
    }
    text
}

/// Returns whether a word is an address of the web or of mail: `https://a.example`, `a@b.example`.
fn is_address(word: &str) -> bool {
    let has_text = |text: &str| text.contains(|character: char| character.is_alphanumeric());
    let of_web =
        word.split_once("://").is_some_and(|(kind, rest)| has_text(kind) && has_text(rest));
    let of_mail =
        word.split_once('@').is_some_and(|(who, host)| has_text(who) && host.contains('.'));
    of_web || of_mail
}

/// Returns whether a word is the path or the name of a file: `src/a.rs`, `/tmp/a`, `a.rs`. `and/or`
/// is none.
fn is_file(word: &str) -> bool {
    let path = word.rsplit_once('/');
    let name = path.map_or(word, |(_, name)| name);
    let has_ending = name.rsplit_once('.').is_some_and(|(stem, ending)| {
        // `e.g` is no file, but `src/e.g` is.
        (stem.chars().count() > 1 || (path.is_some() && !stem.is_empty()))
            && (1..=5).contains(&ending.len())
            && ending.chars().all(|character| character.is_ascii_alphanumeric())
            && ending.contains(|character: char| character.is_ascii_alphabetic())
    });
    let is_path = path.is_some_and(|(folder, _)| {
        let is_rooted = ["/", "~", "."].iter().any(|start| folder.starts_with(start));
        (is_rooted || folder.is_empty() || folder.contains('/'))
            && word.chars().filter(|character| character.is_alphanumeric()).count() > 1
    });
    has_ending || is_path
}

/// Returns whether a word is an id: `#1234`, `ABC-12`, `640a9f2c`, `13f7ee8b-4916-…`. A plain word
/// or a small number is none.
fn is_id(word: &str) -> bool {
    let is_part =
        |character: char| character.is_ascii_alphanumeric() || "-_.:#".contains(character);
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let letters = word.chars().filter(char::is_ascii_alphabetic).count();
    let is_ticket = word.starts_with('#') || (word.contains('-') && letters > 1);
    word.chars().all(is_part)
        && digits > 0
        && (digits >= 6 || (is_ticket && digits > 1) || (letters > 0 && digits + letters >= 7))
}

/// Checks the summary of a request.
pub fn audit(request: &Request<'_>, summary: &str) -> Result<(), Fault> {
    let has = |heading: &str| {
        summary.lines().any(|line| line.trim_end().trim_end_matches(':') == heading)
    };
    if let Some(heading) = prompt::headings(request.part).find(|heading| !has(heading)) {
        return Err(Fault::Section(heading));
    }
    let missing = request.names.iter().filter(|name| !summary.contains(name.as_str())).count();
    if missing > 0 {
        return Err(Fault::Names(missing));
    }
    let previous = request.previous.map_or(0, tokens::of_text);
    let messages = request.messages.iter().map(tokens::of_message);
    if tokens::of_text(summary) >= messages.fold(previous, u64::saturating_add) {
        return Err(Fault::Length);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_things() {
        for name in [
            "https://a.example/b?c=1",
            "file:///tmp/x",
            "ada@example.org",
            "src/main.rs",
            "/tmp/a",
            "~/notes",
            "./run",
            "a/b/c",
            "src/a.rs",
            "README.md",
            "#1234",
            "ABC-12",
            "640a9f2c",
            "2026-11-18",
            "13f7ee8b-4916-4c0c-a7c3-6a9d44685f32",
            "v1.2.345b1",
            "1234567",
        ] {
            assert!(is_address(name) || is_file(name) || is_id(name), "{name}");
        }
        for word in
            ["and/or", "e.g", "knots", "10", "2.5", "/", "well-known", "GB", "a@b", "--", ""]
        {
            assert!(!(is_address(word) || is_file(word) || is_id(word)), "{word}");
        }
    }
}
