//! The memory flush: before older messages leave the context, a model may store notes about them.
//!
//! Nothing is written here. The answer is text for a file, and is never interpreted.

use super::budget::Budget;
use crate::context::Message;
use crate::context::entries::PathEntries;
use crate::routing::settings::Compaction;

/// The prompt, unless configured.
const DEFAULT_PROMPT: &str =
    "Write any lasting notes to memory/YYYY-MM-DD.md; reply NO_REPLY if nothing to store.";

/// The answer of a model that has nothing to store.
pub(super) const NO_REPLY: &str = "NO_REPLY";

/// The distance to a compaction in tokens, unless configured.
const DEFAULT_SOFT_THRESHOLD_TOKENS: u64 = 6000;

/// The longest notes of one answer, in bytes. An agent reads the whole file again every day.
const MAX_NOTES_BYTES: usize = 64 << 10;

/// A question for notes.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The messages of the context.
    pub messages: &'a [Message],
    /// The configured prompt. `YYYY-MM-DD` in it becomes the day.
    pub prompt: &'a str,
    /// The day that the file of the notes is named after, as `2026-11-18`.
    pub day: &'a str,
    /// The tokens that the messages may have; `None` if the model's window is not known.
    pub max_tokens: Option<u64>,
}

/// The notes of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notes {
    /// Text to store, without a newline at its end.
    Text(String),
    /// The model has nothing to store.
    Nothing,
    /// The answer cannot be used, for this reason.
    Unusable(&'static str),
}

/// Returns whether notes are asked for before a compaction.
pub fn flushes(settings: &Compaction) -> bool {
    settings.memory_flush.unwrap_or(true)
}

/// Returns the prompt that is configured, or the default.
pub fn flush_prompt(settings: &Compaction) -> &str {
    settings.memory_flush_prompt.as_deref().unwrap_or(DEFAULT_PROMPT)
}

/// Returns the number of tokens from which on notes are asked for.
pub fn flush_limit(settings: &Compaction, budget: &Budget) -> Option<u64> {
    let soft = settings.memory_flush_soft_threshold_tokens.unwrap_or(DEFAULT_SOFT_THRESHOLD_TOKENS);
    // A compaction leaves up to three quarters of the limit. With a larger distance, a flush would
    // be due right after it in a small window.
    budget.limit().map(|limit| limit - soft.min(limit / 4))
}

/// Returns the messages of a context, for a [`Question`].
pub fn messages(path: &PathEntries) -> &[Message] {
    &path.messages
}

/// Reads a model's answer.
pub fn notes(answer: &str) -> Notes {
    if answer.len() > MAX_NOTES_BYTES {
        return Notes::Unusable("it answered more than 65536 bytes of notes");
    }
    let is_kept = |character: &char| matches!(character, '\n' | '\t') || !character.is_control();
    let text: String = answer.chars().filter(is_kept).collect();
    if text.trim().is_empty() {
        return Notes::Unusable("it answered without text");
    }
    let is_token = |line: &&str| {
        line.trim_matches(|character: char| character != '_' && !character.is_alphanumeric())
            == NO_REPLY
    };
    let lines: Vec<&str> = text.lines().filter(|line| !is_token(line)).collect();
    match lines.join("\n").trim() {
        "" => Notes::Nothing,
        notes => Notes::Text(notes.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r83_answers() {
        let text = |text: &str| Notes::Text(text.to_owned());
        for (answer, expected) in [
            ("- Knots are counted.\n", text("- Knots are counted.")),
            ("NO_REPLY", Notes::Nothing),
            (" `NO_REPLY`.\n\n", Notes::Nothing),
            ("- one\n\nNO_REPLY\n", text("- one")),
            ("The word NO_REPLY is no answer.", text("The word NO_REPLY is no answer.")),
            ("", Notes::Unusable("it answered without text")),
            (" \u{7}\u{1b}\r\n", Notes::Unusable("it answered without text")),
            ("a\u{1b}[31m\0\tb\r\nc\u{9b}", text("a[31m\tb\nc")),
        ] {
            assert_eq!(notes(answer), expected, "{answer:?}");
        }
        assert!(matches!(notes(&"a".repeat(MAX_NOTES_BYTES)), Notes::Text(_)));
        assert!(matches!(notes(&"a".repeat(MAX_NOTES_BYTES + 1)), Notes::Unusable(_)));
    }

    #[test]
    fn r83_when_notes_are_asked_for() {
        let settings = Compaction::default();
        let limit = |window| flush_limit(&settings, &Budget::new(&settings, Some(window)));
        assert_eq!(limit(200_000), Some(170_000));
        assert_eq!(limit(16_000), Some(6000));
        assert_eq!((limit(1), limit(0)), (Some(1), None));
        let never = Compaction {
            memory_flush_soft_threshold_tokens: Some(u64::MAX),
            ..Compaction::default()
        };
        assert_eq!(flush_limit(&never, &Budget::new(&never, Some(200_000))), Some(132_000));
    }
}
