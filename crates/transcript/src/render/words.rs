//! Texts that the renderings write themselves.

use super::clean::line;
use crate::entry::Compaction;
use crate::story::{Folded, Outcome, Rewind, StoryItem};

/// Formats a number with thousands separators: `1,234,567`.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a number of things: `1 session`, `2,000 sessions`.
pub fn count(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", number(count))
}

/// Formats a time to the minute, in UTC, because a file may be read anywhere.
pub(super) fn minute(ms: i64) -> Option<String> {
    let time = jiff::Timestamp::from_millisecond(ms).ok()?;
    Some(time.strftime("%Y-%m-%d %H:%M UTC").to_string())
}

/// Formats a time exactly, for programs.
pub(super) fn exact(ms: i64) -> Option<String> {
    Some(jiff::Timestamp::from_millisecond(ms).ok()?.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Describes a compaction on one line.
pub fn compacted(compaction: &Compaction<'_>) -> String {
    let mut text = "history was compacted".to_owned();
    if let Some(trigger) = &compaction.trigger {
        text.push_str(&format!(" ({trigger})"));
    }
    match (compaction.tokens_before, compaction.tokens_after) {
        (Some(before), Some(after)) => {
            text.push_str(&format!(" · {} → {} tokens", number(before), number(after)));
        }
        (Some(before), None) => text.push_str(&format!(" · {} tokens", number(before))),
        _ => {}
    }
    if let Some(messages) = compaction.compacted_count {
        text.push_str(&format!(" · {}", count(messages, "message")));
    }
    let files = [("read", &compaction.read_files), ("changed", &compaction.modified_files)];
    for (word, files) in files {
        if !files.is_empty() {
            text.push_str(&format!(" · {} {word}", count(files.len() as u64, "file")));
        }
    }
    text
}

/// The text before an entry whose parent is not in the session.
pub const GAP: &str = "the parent entry is not in this session";

/// Describes an item of the kind `Note`; if its type is unknown, with its time.
pub(super) fn note(item: &StoryItem<'_>) -> String {
    let name = if item.type_name.is_empty() { "no type" } else { &*item.type_name };
    match (item.folded, item.time.and_then(|time| minute(time.0))) {
        (Some(Folded::Unknown), Some(time)) => format!("({name}, unknown, {time})"),
        (Some(Folded::Unknown), None) => format!("({name}, unknown)"),
        _ => format!("({name})"),
    }
}

/// Describes a line that is too long to be decoded whole.
pub(super) fn oversize(bytes: u64) -> String {
    format!("a line of {} bytes: only its first 64 KiB are parsed", number(bytes))
}

/// Describes a rewind.
pub(super) fn rewound(rewind: &Rewind) -> String {
    let to = match (rewind.to_turn, &rewind.to) {
        (Some(turn), _) if rewind.is_within_turn => format!("Rewound within turn {turn}"),
        (Some(turn), _) => format!("Rewound to turn {turn}"),
        (None, Some(_)) => "Rewound to the beginning".to_owned(),
        (None, None) => "Started over".to_owned(),
    };
    format!("{to}; {} abandoned", rewind.abandoned())
}

/// Returns the outcome of a call, if it is not an ordinary success.
pub(super) fn ended(outcome: Option<Outcome>) -> Option<&'static str> {
    match outcome {
        Some(Outcome::Failed) => Some("failed"),
        Some(Outcome::Mentions) => Some("mentions an error"),
        Some(Outcome::Fine) | None => None,
    }
}

/// Returns the label of a text that a program attached to the words, on one line.
pub(super) fn attached(label: &str) -> String {
    format!("Attached: {}", line(label))
}

/// Returns the line about what a person chose to show the model.
pub(super) fn gist(gist: &str) -> String {
    format!("+ {}", line(gist))
}

/// Returns the label of an item that is hidden by default.
pub(super) fn folded(folded: Folded) -> &'static str {
    match folded {
        Folded::Meta => "Injected by the program",
        Folded::Mirror => "Copy of an answer that was sent to a chat",
        Folded::Sidechain => "Sub-agent",
        Folded::Summary => "Summary of compacted history",
        Folded::Queued => "Typed while the agent worked",
        Folded::Unknown => "Unknown type",
        Folded::Bookkeeping => "Bookkeeping",
    }
}

#[cfg(test)]
mod tests {
    use super::{count, minute, number};

    #[test]
    fn times_are_formatted_in_utc() {
        assert_eq!(minute(1_770_193_116_233).as_deref(), Some("2026-02-04 08:18 UTC"));
        assert_eq!(minute(i64::MAX), None);
    }

    #[test]
    fn thousands_are_separated() {
        let shown = [0, 999, 1000, 12_345, 1_234_567, u64::MAX].map(number);
        assert_eq!(
            shown,
            ["0", "999", "1,000", "12,345", "1,234,567", "18,446,744,073,709,551,615"]
        );
    }

    #[test]
    fn one_is_singular() {
        assert_eq!(count(1, "file"), "1 file");
        assert_eq!(count(1000, "file"), "1,000 files");
    }
}
