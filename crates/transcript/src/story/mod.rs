//! The story of a session: the human's words, the agent's words, and one line for everything else.
//!
//! A [`StoryItem`] is what one entry tells. [`tell()`] makes one of an [`Entry`](crate::entry::Entry) alone; whoever knows
//! the session adds what an entry does not know by itself: its turn, how its calls ended, where the
//! session went back. Every rendering (terminal, Markdown, HTML, JSON) starts from these items and
//! decides nothing about what belongs to the story: [`Telling`] says what is opened, and
//! [`StoryItem::is_told`] what is left.
//!
//! Nothing is lost here: an item that is folded, a body that is dropped, is still in the entry.

mod about;
mod tell;

use std::borrow::Cow;

use crate::entry::{Compaction, RawJson, Role};
use crate::time::Timestamp;

pub use about::{ABOUT_KEYS, ERROR_WORDS, about, mentions_error, one_line};
pub use tell::tell;

/// How wide the line about a tool call may be.
pub const CALL_COLUMNS: usize = 120;

/// What one entry tells.
#[derive(Debug, Clone, Default)]
pub struct StoryItem<'a> {
    /// The agent's id of the entry, or the ledger's name for it where the agent gave none.
    pub id: Option<Cow<'a, str>>,
    /// The number by which the ledger knows the entry. 0 until it is known.
    pub entry: i64,
    /// The agent's id of the entry that it follows, or the ledger's name for it.
    pub parent: Option<String>,
    /// The record's own type name, exactly as written.
    pub type_name: Cow<'a, str>,
    /// What it is.
    pub kind: ItemKind<'a>,
    /// Who speaks.
    pub role: Option<Role>,
    /// When, by the agent's clock.
    pub time: Option<Timestamp>,
    /// Which turn of the session it belongs to, counted from 1.
    pub turn: Option<u64>,
    /// The model that speaks.
    pub model: Option<Cow<'a, str>>,
    /// What it is made of, in order.
    pub pieces: Vec<Piece<'a>>,
    /// Why it is told only when asked for; `None` for what belongs to the story.
    pub folded: Option<Folded>,
    /// A prompt: it begins a turn.
    pub is_prompt: bool,
    /// The agent itself recorded a failure here (an API error).
    pub is_error: bool,
    /// The human stopped the agent here.
    pub is_interrupt: bool,
    /// Typed while the agent worked, and kept for it.
    pub is_queued: bool,
    /// The conversation went back before this entry.
    pub rewind: Option<Rewind>,
    /// From a last line that has no newline yet: it may still change.
    pub is_provisional: bool,
    /// The agent's file no longer holds it.
    pub is_absent: bool,
    /// The entry that it says it follows, where the session has none of that id.
    pub missing_parent: Option<String>,
    /// How many bytes its line has, where that is too many for it to be read.
    pub oversize: Option<u64>,
}

/// What an item is.
#[derive(Debug, Clone, Default)]
pub enum ItemKind<'a> {
    /// Words, calls and results.
    #[default]
    Message,
    /// An entry that stands for those before it.
    Compaction(Compaction<'a>),
    /// What happened on a branch that was left.
    BranchSummary {
        /// The text.
        summary: Cow<'a, str>,
        /// Where it came from, as written.
        from: Option<Cow<'a, str>>,
    },
    /// Everything before it left the context.
    Reset {
        /// Why, as written.
        reason: Option<Cow<'a, str>>,
    },
    /// Bookkeeping.
    Note,
}

impl ItemKind<'_> {
    /// The word that is printed.
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

/// Why an item is not told unless it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Folded {
    /// The harness put it in: caveats, output of commands, reminders, notifications.
    Meta,
    /// A copy of an answer that was sent to a chat channel.
    Mirror,
    /// A sub-agent's work in the file of the session that it works for.
    Sidechain,
    /// The text that stands for compacted history.
    Summary,
    /// The human's words while they waited for the agent. Whoever knows the session opens those that
    /// no other entry says.
    Queued,
    /// A record of a type that this version does not know.
    Unknown,
    /// Never part of a story: changes of model, state of extensions, titles, progress.
    Bookkeeping,
}

impl Folded {
    /// The word that is printed.
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
    /// What the human or the agent said.
    Words(Cow<'a, str>),
    /// What the harness put beside it (a system reminder).
    Injected(Cow<'a, str>),
    /// The model's reasoning; may be empty where only a signature was kept.
    Thinking(Cow<'a, str>),
    /// A call of a tool.
    Call(StoryCall<'a>),
    /// What a tool answered.
    Result(StoryResult<'a>),
    /// A picture.
    Image {
        /// As written (`image/png`).
        media_type: Option<Cow<'a, str>>,
    },
    /// A piece of a type this version does not know.
    Other(Cow<'a, str>),
}

/// A call of a tool.
#[derive(Debug, Clone, Default)]
pub struct StoryCall<'a> {
    /// What pairs it with its result.
    pub id: Option<Cow<'a, str>>,
    /// The tool's name; empty if the record has none.
    pub name: Cow<'a, str>,
    /// What the call is about: the path, command or query, on one line of at most
    /// [`CALL_COLUMNS`] columns together with the name.
    pub about: Option<String>,
    /// All of the arguments, as written.
    pub input: Option<RawJson<'a>>,
    /// The call was cut off while it was being streamed.
    pub is_partial: bool,
    /// How it ended; `None` while that is not known.
    pub outcome: Option<Outcome>,
    /// The session of the sub-agent that it started.
    pub subagent: Option<String>,
}

/// What a tool answered.
#[derive(Debug, Clone, Default)]
pub struct StoryResult<'a> {
    /// The call it answers.
    pub call_id: Option<Cow<'a, str>>,
    /// The tool's name, where the result or its call says it.
    pub name: Option<Cow<'a, str>>,
    /// What its call was about, where that is known.
    pub about: Option<String>,
    /// Its text.
    pub text: Cow<'a, str>,
    /// How it ended.
    pub outcome: Outcome,
    /// Base name of the file that holds the whole output, when this is only its beginning.
    pub output_file: Option<Cow<'a, str>>,
    /// How many pictures it carries.
    pub images: u32,
    /// The session has no call that it answers.
    pub is_orphan: bool,
}

/// How a call ended. An error that was recorded and a text that only mentions one are different.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing speaks against it.
    #[default]
    Fine,
    /// The result's text holds one of [`ERROR_WORDS`], in a format that records few errors.
    Mentions,
    /// The agent recorded that the call failed.
    Failed,
}

impl Outcome {
    /// The word that is printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Fine => "fine",
            Outcome::Mentions => "mentions_error",
            Outcome::Failed => "failed",
        }
    }

    /// How a result ended, given what was recorded and whether its words may be looked at.
    pub fn of(is_error: bool, mentions_error: bool) -> Outcome {
        match (is_error, mentions_error) {
            (true, _) => Outcome::Failed,
            (false, true) => Outcome::Mentions,
            (false, false) => Outcome::Fine,
        }
    }
}

/// The conversation went back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewind {
    /// The last turn that still counts; `None` if it began anew.
    pub to_turn: Option<u64>,
    /// The entry it goes on from.
    pub to: Option<String>,
    /// The agent went back, in the middle of a turn.
    pub is_within_turn: bool,
}

impl Compaction<'_> {
    /// The summary without the lists of files that stand in it, where they are told by themselves.
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

/// What of a story is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Telling {
    /// The model's reasoning.
    pub thinking: bool,
    /// Tool calls.
    pub tools: Tools,
    /// Summaries of compacted history, and what was read and changed before.
    pub compactions: bool,
    /// What the harness put in, mirrors, sub-agents' work in this file, and records of unknown types.
    pub folded: bool,
}

impl Telling {
    /// What is told unless something else is asked for.
    pub const DEFAULT: Telling =
        Telling { thinking: false, tools: Tools::About, compactions: false, folded: false };

    /// Everything.
    pub const FULL: Telling =
        Telling { thinking: true, tools: Tools::Full, compactions: true, folded: true };
}

impl Default for Telling {
    fn default() -> Telling {
        Telling::DEFAULT
    }
}

/// How much of a tool call is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tools {
    /// Its name.
    Names,
    /// Its name and what it is about.
    #[default]
    About,
    /// All of its input.
    Inputs,
    /// All of its input, and what the tool answered.
    Full,
}

impl StoryItem<'_> {
    /// Whether it is told at all.
    pub fn is_told(&self, telling: Telling) -> bool {
        let is_open = match self.folded {
            None => true,
            Some(Folded::Summary) => telling.compactions,
            Some(
                Folded::Meta
                | Folded::Mirror
                | Folded::Sidechain
                | Folded::Queued
                | Folded::Unknown,
            ) => telling.folded,
            // What could not be read may be anything.
            Some(Folded::Bookkeeping) => telling.folded && self.oversize.is_some(),
        };
        is_open
            && (!matches!(self.kind, ItemKind::Message)
                || self.is_interrupt
                || self.oversize.is_some()
                || self.pieces.iter().any(|piece| piece.is_told(telling)))
    }

    /// Whether it says something by itself. What a tool answered belongs to the call.
    pub fn speaks(&self) -> bool {
        if self.folded == Some(Folded::Unknown) {
            return false;
        }
        !matches!(self.kind, ItemKind::Message)
            || self.oversize.is_some()
            || self.pieces.iter().any(|piece| !matches!(piece, Piece::Result(_)))
    }

    /// The words of the human or the agent, pieces joined by newlines.
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
    /// Whether it is told.
    pub fn is_told(&self, telling: Telling) -> bool {
        match self {
            Piece::Words(words) => !words.trim().is_empty(),
            Piece::Thinking(words) => telling.thinking && !words.trim().is_empty(),
            Piece::Injected(_) => telling.folded,
            Piece::Call(_) | Piece::Result(_) | Piece::Image { .. } | Piece::Other(_) => true,
        }
    }
}
