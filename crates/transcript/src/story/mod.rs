//! The story of a session: the human's text, the agent's text, and one line for everything else.
//!
//! A [`StoryItem`] is the part of the story that one entry adds. [`story_item()`] makes one from an
//! [`Entry`](crate::entry::Entry) alone; the caller, who knows the session, adds its turn, the
//! outcome of its calls, and rewinds. Every rendering (terminal, Markdown, HTML, JSON) starts from
//! these items and makes no choice itself: [`StoryDetail`] selects what is shown in full, and
//! [`StoryItem::is_shown`] what is shown at all.
//!
//! Nothing is lost: the text of a folded item is still in the entry.

mod about;
mod convert;
mod edits;
mod fields;

use std::borrow::Cow;

use crate::entry::{Compaction, RawJson, Role, Sender, Usage};
use crate::time::Timestamp;

pub use about::{
    ABOUT_KEYS, ERROR_WORDS, QUESTIONS, about, exit_code, mentions_error, one_line, path_line,
    subject_line,
};
pub use convert::{folded, story_item};
pub use edits::{Edit, Task, TaskState, changes_file, edits, tasks};
pub use fields::{RECORD_LABEL, add_fields, left_out, unreadable_item};

/// Maximum width of the line about a tool call, in columns, with the name of the tool.
pub const CALL_COLUMNS: usize = 120;

/// The part of the story that one entry adds.
#[derive(Debug, Clone, Default)]
pub struct StoryItem<'a> {
    /// The agent's id of the entry, or the ledger's name for it if the agent gave none.
    pub id: Option<Cow<'a, str>>,
    /// The ledger's number of the entry; 0 until it is known.
    pub entry: i64,
    /// The agent's id of the entry that it follows, or the ledger's name for it.
    pub parent: Option<String>,
    /// The record's own type name, exactly as written.
    pub type_name: Cow<'a, str>,
    /// The kind of item.
    pub kind: ItemKind<'a>,
    /// The speaker.
    pub role: Option<Role>,
    /// The time, by the agent's clock.
    pub time: Option<Timestamp>,
    /// The turn of the session, counted from 1.
    pub turn: Option<u64>,
    /// The model that answers.
    pub model: Option<Cow<'a, str>>,
    /// The provider of that model.
    pub provider: Option<Cow<'a, str>>,
    /// The API that was asked.
    pub api: Option<Cow<'a, str>>,
    /// The reason why the answer ended, as written.
    pub stop_reason: Option<Cow<'a, str>>,
    /// The tokens and the cost that the entry records.
    pub usage: Option<Usage>,
    /// The tokens and the cost that are counted for the entry, if the caller knows them. Of several
    /// lines of a response, one has them.
    pub counted: Option<Usage>,
    /// The state that an extension stored.
    pub custom: Option<CustomState<'a>>,
    /// The label that the entry sets on another one.
    pub label: Option<LabelChange<'a>>,
    /// The thinking level that the entry sets.
    pub thinking_level: Option<Cow<'a, str>>,
    /// Its pieces, in order.
    pub pieces: Vec<Piece<'a>>,
    /// The reason why it is hidden by default; `None` if it is shown.
    pub folded: Option<Folded>,
    /// True for a prompt, which begins a turn.
    pub is_prompt: bool,
    /// True for a prompt that no person wrote.
    pub is_automatic: bool,
    /// The sender of a message that came through a chat channel.
    pub sender: Option<Sender>,
    /// True if the agent itself recorded a failure here (an API error).
    pub is_error: bool,
    /// True if the human stopped the agent here.
    pub is_interrupt: bool,
    /// True if the human typed it while the agent worked, and it waited in a queue.
    pub is_queued: bool,
    /// True if it repeats a message of a sub-agent, whose own session has its calls.
    pub is_relayed: bool,
    /// Set if the conversation was rewound before this entry.
    pub rewind: Option<Rewind>,
    /// True if it is from a last line without a newline, which may still change.
    pub is_provisional: bool,
    /// True if the agent's file no longer holds it.
    pub is_absent: bool,
    /// The id of its parent, if the session has no such entry.
    pub missing_parent: Option<String>,
    /// The length of its line in bytes, if the line is too long to decode.
    pub oversize: Option<u64>,
}

/// The state that an extension of the agent stored in an entry.
#[derive(Debug, Clone)]
pub struct CustomState<'a> {
    /// The extension's name for the state.
    pub custom_type: Cow<'a, str>,
    /// The state, exactly as written.
    pub data: Option<RawJson<'a>>,
}

/// A label that an entry sets on another one, or removes from it.
#[derive(Debug, Clone)]
pub struct LabelChange<'a> {
    /// The labelled entry, as written.
    pub target: Cow<'a, str>,
    /// The label; `None` removes it.
    pub label: Option<Cow<'a, str>>,
}

/// The kind of an item.
#[derive(Debug, Clone, Default)]
pub enum ItemKind<'a> {
    /// Text, calls and results.
    #[default]
    Message,
    /// An entry that replaces those before it in the context.
    Compaction(Compaction<'a>),
    /// A summary of a branch that was abandoned.
    BranchSummary {
        /// The text.
        summary: Cow<'a, str>,
        /// The source of the summary, as written.
        from: Option<Cow<'a, str>>,
    },
    /// A reset: all earlier entries left the context.
    Reset {
        /// The reason, as written.
        reason: Option<Cow<'a, str>>,
    },
    /// Bookkeeping.
    Note,
}

impl ItemKind<'_> {
    /// Returns the word that is printed.
    pub fn as_str(&self) -> &'static str {
        match self {
            ItemKind::Message => "message",
            ItemKind::Compaction(_) => "compaction",
            ItemKind::BranchSummary { .. } => "branch_summary",
            ItemKind::Reset { .. } => "reset",
            ItemKind::Note => "note",
        }
    }
}

/// The reason why an item is hidden by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Folded {
    /// The harness injected it: caveats, output of commands, reminders, notifications.
    Meta,
    /// A copy of an answer that was sent to a chat channel.
    Mirror,
    /// A sub-agent's work in its parent session's file.
    Sidechain,
    /// The text that replaces compacted history.
    Summary,
    /// A prompt that waited in the agent's queue. The caller, who knows the session, shows it if no
    /// other entry repeats it.
    Queued,
    /// A record of a type that this version does not know.
    Unknown,
    /// No part of a conversation: model changes, state of extensions, titles, progress.
    Bookkeeping,
}

impl Folded {
    /// All reasons.
    pub const ALL: &'static [Folded] = &[
        Folded::Meta,
        Folded::Mirror,
        Folded::Sidechain,
        Folded::Summary,
        Folded::Queued,
        Folded::Unknown,
        Folded::Bookkeeping,
    ];

    /// Returns the reason that is stored as this word.
    pub fn parse(word: &str) -> Option<Folded> {
        Folded::ALL.iter().copied().find(|folded| folded.as_str() == word)
    }

    /// Returns the word that is stored and printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Folded::Meta => "meta",
            Folded::Mirror => "mirror",
            Folded::Sidechain => "sidechain",
            Folded::Summary => "summary",
            Folded::Queued => "queued",
            Folded::Unknown => "unknown",
            Folded::Bookkeeping => "bookkeeping",
        }
    }
}

/// A piece of an item.
#[derive(Debug, Clone)]
pub enum Piece<'a> {
    /// Text of the human or the agent.
    Words(Cow<'a, str>),
    /// Text that a program attached to it: a reminder, an opened file, facts about the sender.
    Attached {
        /// Its kind (`system-reminder`, `Sender`).
        label: Cow<'a, str>,
        /// Its text.
        text: Cow<'a, str>,
        /// A description in a few words, if a person chose to show it to the model.
        gist: Option<String>,
    },
    /// Text that a person pasted into a prompt, which shows only a mark for it.
    Pasted {
        /// Its name (`pasted text #1`).
        label: Cow<'a, str>,
        /// Its text.
        text: Cow<'a, str>,
    },
    /// The model's reasoning; empty if only a signature was stored.
    Thinking(Cow<'a, str>),
    /// A call of a tool.
    Call(StoryCall<'a>),
    /// The answer of a tool.
    Result(StoryResult<'a>),
    /// An image.
    Image {
        /// The media type as written (`image/png`).
        media_type: Option<Cow<'a, str>>,
    },
    /// A piece of a type that this version does not know.
    Other(Cow<'a, str>),
}

/// A call of a tool.
#[derive(Debug, Clone, Default)]
pub struct StoryCall<'a> {
    /// The id that pairs it with its result.
    pub id: Option<Cow<'a, str>>,
    /// The tool's name; empty if the record has none.
    pub name: Cow<'a, str>,
    /// A summary of the call: the path, command or query, on one line of at most [`CALL_COLUMNS`]
    /// columns together with the name.
    pub about: Option<String>,
    /// The full arguments, as written.
    pub input: Option<RawJson<'a>>,
    /// True if the call was cut off while it was being streamed.
    pub is_partial: bool,
    /// The outcome; `None` while it is not known.
    pub outcome: Option<Outcome>,
    /// The exit code of a command that failed, if its result has one.
    pub exit_code: Option<i32>,
    /// The session of the sub-agent that it started.
    pub subagent: Option<String>,
}

/// The answer of a tool.
#[derive(Debug, Clone, Default)]
pub struct StoryResult<'a> {
    /// The id of the call that it answers.
    pub call_id: Option<Cow<'a, str>>,
    /// The tool's name, if the result or its call has it.
    pub name: Option<Cow<'a, str>>,
    /// The summary of its call, if it is known.
    pub about: Option<String>,
    /// Its text.
    pub text: Cow<'a, str>,
    /// The outcome of the call.
    pub outcome: Outcome,
    /// Base name of the file that holds the whole output, if this is only its beginning.
    pub output_file: Option<Cow<'a, str>>,
    /// The number of images in it.
    pub images: u32,
    /// True if the session has no call that it answers.
    pub is_orphan: bool,
}

/// The outcome of a call. A recorded error differs from a text that only mentions one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Outcome {
    /// No sign of an error.
    #[default]
    Fine,
    /// The result's text holds one of [`ERROR_WORDS`], in a format that records few errors.
    Mentions,
    /// The agent recorded that the call failed.
    Failed,
}

impl Outcome {
    /// Returns the word that is printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Fine => "fine",
            Outcome::Mentions => "mentions_error",
            Outcome::Failed => "failed",
        }
    }

    /// Returns the outcome of a result that is recorded as an error, or only mentions one.
    pub fn of(is_error: bool, mentions_error: bool) -> Outcome {
        match (is_error, mentions_error) {
            (true, _) => Outcome::Failed,
            (false, true) => Outcome::Mentions,
            (false, false) => Outcome::Fine,
        }
    }
}

/// A return of the conversation to an earlier entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewind {
    /// The last turn that was kept; `None` if the conversation started over.
    pub to_turn: Option<u64>,
    /// The entry that the conversation continues from.
    pub to: Option<String>,
    /// True if the agent went back in the middle of a turn.
    pub is_within_turn: bool,
    /// The last turn before this place.
    pub last_turn: Option<u64>,
}

impl Rewind {
    /// Returns what was abandoned: `turn 6 was`, `turns 6 to 8 were`, `its later entries were`,
    /// `its later entries and turn 6 were`.
    pub fn abandoned(&self) -> String {
        let first = self.to_turn.unwrap_or(0) + 1;
        let turns = match self.last_turn {
            Some(last) if last == first => format!("turn {last}"),
            Some(last) if last > first => format!("turns {first} to {last}"),
            _ => return "its later entries were".to_owned(),
        };
        if self.is_within_turn {
            return format!("its later entries and {turns} were");
        }
        let is_one = self.last_turn == Some(first);
        format!("{turns} {}", if is_one { "was" } else { "were" })
    }
}

impl Compaction<'_> {
    /// Returns the summary without its lists of files, if these are shown separately.
    pub fn prose(&self) -> Cow<'_, str> {
        let mut prose = Cow::Borrowed(&*self.summary);
        for (tag, files) in
            [("read-files", &self.read_files), ("modified-files", &self.modified_files)]
        {
            if files.is_empty() {
                continue;
            }
            let (opening, closing) = (format!("<{tag}>"), format!("</{tag}>"));
            while let Some((before, behind)) = prose.split_once(&opening)
                && let Some((_, after)) = behind.split_once(&closing)
            {
                prose = Cow::Owned(format!("{}\n{}", before.trim_end(), after.trim_start()));
            }
        }
        prose
    }
}

/// The parts of a story that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoryDetail {
    /// The model's reasoning.
    pub thinking: bool,
    /// Tool calls.
    pub tools: Tools,
    /// Summaries of compacted history, with the files read and changed before.
    pub compactions: bool,
    /// Injected and attached text, mirrors, sub-agents' work in this file, queued prompts,
    /// bookkeeping, and records of unknown types.
    pub folded: bool,
}

impl StoryDetail {
    /// The parts that are shown by default.
    pub const DEFAULT: StoryDetail =
        StoryDetail { thinking: false, tools: Tools::About, compactions: false, folded: false };

    /// All parts.
    pub const FULL: StoryDetail =
        StoryDetail { thinking: true, tools: Tools::Full, compactions: true, folded: true };
}

impl Default for StoryDetail {
    fn default() -> StoryDetail {
        StoryDetail::DEFAULT
    }
}

/// The detail in which a tool call is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tools {
    /// Only its name.
    Names,
    /// Its name and a one-line summary.
    #[default]
    About,
    /// Its full input.
    Inputs,
    /// Its full input and its result.
    Full,
}

impl StoryItem<'_> {
    /// Returns whether it is a prompt that a person wrote and that is shown.
    pub fn is_asked(&self) -> bool {
        self.is_prompt && !self.is_automatic && self.folded.is_none()
    }

    /// Returns whether the item is shown at all. Of an item that is hidden by default, one line
    /// shows what a person chose to show the model.
    pub fn is_shown(&self, detail: StoryDetail) -> bool {
        if !self.is_open(detail) {
            return self.gists().next().is_some();
        }
        !matches!(self.kind, ItemKind::Message)
            // Everything is shown then, even a message without text: its record has other fields.
            || detail.folded
            || self.is_interrupt
            || self.oversize.is_some()
            || self.pieces.iter().any(|piece| piece.is_shown(detail))
    }

    /// Returns whether the item itself is shown, rather than hidden or shown in one line.
    pub fn is_open(&self, detail: StoryDetail) -> bool {
        match self.folded {
            None => true,
            Some(Folded::Summary) => detail.compactions,
            Some(
                Folded::Meta
                | Folded::Mirror
                | Folded::Sidechain
                | Folded::Queued
                | Folded::Unknown
                | Folded::Bookkeeping,
            ) => detail.folded,
        }
    }

    /// Returns what a person chose to show the model with the item, each in a few words.
    pub fn gists(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Attached { gist, .. } => gist.as_deref(),
            _ => None,
        })
    }

    /// Folds what is attached to the item completely, because no person chose to show it.
    pub fn drop_gists(&mut self) {
        for piece in &mut self.pieces {
            if let Piece::Attached { gist, .. } = piece {
                *gist = None;
            }
        }
    }

    /// Returns whether the item itself has something to show. A result does not count, because it
    /// belongs to its call.
    pub fn has_text(&self) -> bool {
        if matches!(self.folded, Some(Folded::Unknown | Folded::Bookkeeping))
            && self.oversize.is_none()
        {
            return false;
        }
        // An attachment belongs to its prompt.
        if self.folded.is_some() && self.gists().next().is_some() {
            return false;
        }
        !matches!(self.kind, ItemKind::Message)
            || self.oversize.is_some()
            || self.pieces.iter().any(|piece| !matches!(piece, Piece::Result(_)))
    }

    /// Returns the author of a prompt, if that is not simply the human at the terminal:
    /// `automatic`, `Ada via Telegram`.
    pub fn author(&self) -> Option<String> {
        if self.is_automatic {
            return Some("automatic".to_owned());
        }
        let sender = self.sender.as_ref()?;
        match (&sender.name, &sender.channel) {
            (Some(name), Some(channel)) => Some(format!("{name} via {channel}")),
            (Some(name), None) => Some(name.clone()),
            (None, Some(channel)) => Some(format!("via {channel}")),
            (None, None) => None,
        }
    }

    /// Returns the text of the human or the agent, pieces joined by newlines.
    pub fn words(&self) -> Cow<'_, str> {
        let mut words = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Words(words) => Some(words.as_ref()),
            _ => None,
        });
        let Some(first) = words.next() else { return Cow::Borrowed("") };
        words.fold(Cow::Borrowed(first), |joined, words| Cow::Owned(format!("{joined}\n{words}")))
    }
}

impl Piece<'_> {
    /// Returns whether the piece is shown.
    pub fn is_shown(&self, detail: StoryDetail) -> bool {
        match self {
            Piece::Words(words) => !words.trim().is_empty(),
            Piece::Thinking(words) => detail.thinking && !words.trim().is_empty(),
            Piece::Attached { gist, .. } => detail.folded || gist.is_some(),
            Piece::Pasted { text, .. } => !text.trim().is_empty(),
            Piece::Call(_) | Piece::Result(_) | Piece::Image { .. } | Piece::Other(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rewind;

    #[test]
    fn a_rewind_names_what_was_abandoned() {
        for (is_within_turn, to_turn, last_turn, expected) in [
            (false, Some(5), Some(6), "turn 6 was"),
            (false, Some(5), Some(8), "turns 6 to 8 were"),
            (false, None, Some(1), "turn 1 was"),
            (false, Some(5), Some(5), "its later entries were"),
            (true, Some(5), Some(5), "its later entries were"),
            (true, Some(5), Some(6), "its later entries and turn 6 were"),
            (true, Some(5), Some(7), "its later entries and turns 6 to 7 were"),
        ] {
            let rewind = Rewind { is_within_turn, to_turn, last_turn, ..Rewind::default() };
            assert_eq!(rewind.abandoned(), expected);
        }
    }
}
