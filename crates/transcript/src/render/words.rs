//! What renderings say in their own words.

use crate::entry::Compaction;
use crate::story::{Folded, Outcome, Rewind, StoryItem};

/// A number with its thousands apart: `1,234,567`.
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

/// A number of things: `1 session`, `2,000 sessions`.
pub fn count(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", number(count))
}

/// A moment, to the minute. In UTC, because a file is read anywhere.
pub(super) fn minute(ms: i64) -> Option<String> {
    let time = jiff::Timestamp::from_millisecond(ms).ok()?;
    Some(time.strftime("%Y-%m-%d %H:%M UTC").to_string())
}

/// The same for machines.
pub(super) fn exact(ms: i64) -> Option<String> {
    Some(jiff::Timestamp::from_millisecond(ms).ok()?.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// What a compaction stands for, on one line.
pub fn compacted(compaction: &Compaction<'_>) -> String {
    let mut said = "history was compacted".to_owned();
    if let Some(trigger) = &compaction.trigger {
        said.push_str(&format!(" ({trigger})"));
    }
    match (compaction.tokens_before, compaction.tokens_after) {
        (Some(before), Some(after)) => {
            said.push_str(&format!(" · {} → {} tokens", number(before), number(after)));
        }
        (Some(before), None) => said.push_str(&format!(" · {} tokens", number(before))),
        _ => {}
    }
    if let Some(messages) = compaction.compacted_count {
        said.push_str(&format!(" · {}", count(messages, "message")));
    }
    let files = [("read", &compaction.read_files), ("changed", &compaction.modified_files)];
    for (word, files) in files {
        if !files.is_empty() {
            said.push_str(&format!(" · {} {word}", count(files.len() as u64, "file")));
        }
    }
    said
}

/// What stands before an entry that follows nothing that is known.
pub const GAP: &str = "what this follows is not in this session";

/// What an item of the kind `Note` is, and when.
pub(super) fn note(item: &StoryItem<'_>) -> String {
    let name = if item.type_name.is_empty() { "no type" } else { &*item.type_name };
    match (item.folded, item.time.and_then(|time| minute(time.0))) {
        (Some(Folded::Unknown), Some(time)) => format!("({name}, unknown, {time})"),
        (Some(Folded::Unknown), None) => format!("({name}, unknown)"),
        _ => format!("({name})"),
    }
}

/// What stands behind the beginning of a line that is too long to be read whole.
pub(super) fn oversize(bytes: u64) -> String {
    format!("a line of {} bytes stands here: only its first 64 KiB are read", number(bytes))
}

/// Where a conversation went back to.
pub(super) fn rewound(rewind: &Rewind) -> String {
    match (rewind.to_turn, &rewind.to) {
        (Some(turn), _) if rewind.is_within_turn => {
            format!("Back inside turn {turn}; what followed was left")
        }
        (Some(turn), _) => format!("Back to turn {turn}; what followed it was left"),
        (None, Some(_)) => "Back to the beginning; what followed was left".to_owned(),
        (None, None) => "Begins again; what came before was left".to_owned(),
    }
}

/// How a call ended, where that is worth a word.
pub(super) fn ended(outcome: Option<Outcome>) -> Option<&'static str> {
    match outcome {
        Some(Outcome::Failed) => Some("failed"),
        Some(Outcome::Mentions) => Some("mentions an error"),
        Some(Outcome::Fine) | None => None,
    }
}

/// What something is that is told only when asked for.
pub(super) fn folded(folded: Folded) -> &'static str {
    match folded {
        Folded::Meta => "Put in by the program",
        Folded::Mirror => "Copy of an answer, sent to a chat",
        Folded::Sidechain => "Sub-agent",
        Folded::Summary => "Summary of compacted history",
        Folded::Queued => "Typed while the agent worked",
        Folded::Unknown => "Of an unknown type",
        Folded::Bookkeeping => "Bookkeeping",
    }
}

#[cfg(test)]
mod tests {
    use super::{count, minute, number};

    #[test]
    fn times() {
        assert_eq!(minute(1_770_193_116_233).as_deref(), Some("2026-02-04 08:18 UTC"));
        assert_eq!(minute(i64::MAX), None);
    }

    #[test]
    fn thousands_are_apart() {
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
