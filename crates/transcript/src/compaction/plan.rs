//! Plans a compaction: which messages a summary replaces, and which stay.

use serde_json::json;
use serde_json::value::RawValue;

use super::budget::Budget;
use super::cut::{Cut, Cutter};
use super::files::{self, Files};
use super::safeguard::{self, Fault};
use super::tokens::{self, Estimate, Role, Weighed};
use crate::context::Message;
use crate::context::entries::{EntryKind, PathEntries, PathEntry};

/// A compaction that was not made yet.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The last entry that the plan knows.
    pub leaf: String,
    /// The first entry that stays in the context.
    pub first_kept: String,
    /// The summary of the last compaction, which the new one replaces.
    pub previous_summary: Option<String>,
    /// The messages to summarise.
    pub history: Vec<Message>,
    /// The beginning of a turn that is too long to stay whole. It is summarised separately.
    pub turn_prefix: Vec<Message>,
    /// True if the cut is inside of a turn.
    pub is_split_turn: bool,
    /// The files that were read and changed so far.
    pub files: Files,
    /// The number of messages of the whole path that are not kept.
    pub compacted_count: u64,
    /// The tokens of the context.
    pub tokens_before: u64,
    /// The tokens of what stays, without the summary.
    pub tokens_kept: u64,
    /// The tokens that the summary may have.
    pub summary_tokens: u64,
    /// The limits that the plan was made for.
    pub budget: Budget,
    /// The tokens of the context, as counted by the model that refused it.
    counted: Option<u64>,
    /// The system message of the context, which the compaction replays.
    system: Option<Box<RawValue>>,
}

/// The reason why there is no plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPlan {
    /// There is nothing to summarise: the last entry is a compaction, or everything stays.
    Nothing,
    /// A model refused the context, and even the last message alone is too long, or there is nothing
    /// that a summary could replace.
    TooLong {
        /// The tokens of what has to stay.
        tokens: u64,
        /// The tokens that fit.
        limit: u64,
    },
}

/// Estimates the tokens of a context, from its entries.
pub fn estimate(path: &PathEntries) -> Estimate {
    tokens::of_context(path, &tokens::weigh_all(&path.messages))
}

impl Plan {
    /// Plans a compaction.
    ///
    /// Half as much is kept until the context fits into the budget. `refused` is the number of
    /// tokens that a model counted when it refused the context; then the context has to fit, and
    /// there is a plan or an error other than [`NoPlan::Nothing`].
    pub fn new(path: PathEntries, budget: Budget, refused: Option<u64>) -> Result<Plan, NoPlan> {
        let after = path.entries.iter().rev().find(|entry| !entry.is_kept);
        let is_compacted = after.is_none_or(|entry| matches!(entry.kind, EntryKind::Compaction(_)));
        // A model can refuse the context even right after a compaction.
        if is_compacted && refused.is_none() {
            return Err(NoPlan::Nothing);
        }
        let weighed = tokens::weigh_all(&path.messages);
        let tokens_before = tokens::of_context(&path, &weighed).tokens;
        let system = tokens::current_system(&path.messages, &weighed);
        let replayed = system.as_deref().map_or(0, |system| tokens::weigh(system.get()).tokens);
        let cutter = Cutter::new(&path, &weighed);
        let mut keep = budget.keep;
        // A model that refuses a context counts at least as many tokens as estimated.
        let refused = refused.map(|counted| counted.max(tokens_before));
        let scaled = |tokens| scale(tokens, refused, tokens_before);
        let summary_tokens = match refused {
            Some(counted) if counted > 0 => scale(budget.summary(), Some(tokens_before), counted),
            _ => budget.summary(),
        };
        let (cut, tokens_kept) = loop {
            let cut = cutter.cut(keep).filter(|cut| summarises(&path, &weighed, &cutter, cut));
            let first = cut.map_or(0, |cut| cut.first_kept);
            let kept = cutter.tokens_from(first, &weighed).saturating_add(replayed);
            let total = scaled(kept.saturating_add(summary_tokens));
            // Where everything stays, the model would refuse the same context again.
            let is_cut = cut.is_some() || refused.is_none();
            if keep == 0 || (is_cut && budget.limit().is_none_or(|limit| total <= limit)) {
                break (cut, kept);
            }
            keep /= 2;
        };
        if refused.is_some()
            && let Some(limit) = budget.limit()
            && scaled(tokens_kept) > limit
        {
            return Err(NoPlan::TooLong { tokens: scaled(tokens_kept), limit });
        }
        let nothing = || match refused {
            Some(tokens) => NoPlan::TooLong { tokens, limit: budget.limit().unwrap_or_default() },
            None => NoPlan::Nothing,
        };
        let leaf = path.leaf().map(str::to_owned).ok_or_else(nothing)?;
        let cut = cut.ok_or_else(nothing)?;
        let first = path.entries.get(cut.first_kept).ok_or_else(nothing)?;
        let first_kept = first.id.clone().ok_or_else(nothing)?;
        let earlier = cutter.start().checked_sub(1).and_then(|index| path.entries.get(index));
        let earlier = earlier.and_then(|entry| match &entry.kind {
            EntryKind::Compaction(earlier) => Some(&**earlier),
            _ => None,
        });
        let place = |index: usize| path.entries.get(index).map_or(0, |entry| entry.first);
        let start = place(cutter.start());
        let middle = place(cut.turn_start.unwrap_or(cut.first_kept));
        // The messages are moved, because a long history is most of the memory.
        let summarised = path.messages.into_iter().zip(&weighed).enumerate();
        let summarised = summarised.take(first.first).skip(start);
        let (mut history, mut turn_prefix) = (Vec::new(), Vec::new());
        for (index, (message, _)) in summarised.filter(|(_, (_, one))| one.role != Role::System) {
            let part = if index < middle { &mut history } else { &mut turn_prefix };
            part.push(message);
        }
        Ok(Plan {
            leaf,
            first_kept,
            previous_summary: earlier.map(|earlier| earlier.summary.clone()),
            files: files::of_messages(earlier, history.iter().chain(&turn_prefix)),
            history,
            turn_prefix,
            is_split_turn: cut.turn_start.is_some(),
            compacted_count: first.messages_before,
            tokens_before,
            tokens_kept,
            summary_tokens,
            budget: Budget { keep, ..budget },
            counted: refused,
            system,
        })
    }

    /// Returns the size of the context after the compaction.
    pub fn tokens_after(&self, summary: &str) -> u64 {
        self.tokens_kept.saturating_add(tokens::of_text(summary))
    }

    /// Returns the tokens of the context after the compaction, as the model that refused it would
    /// count them.
    pub fn counted_after(&self, summary: &str) -> u64 {
        scale(self.tokens_after(summary), self.counted, self.tokens_before)
    }

    /// Returns whether the context fits with this summary.
    pub fn fits(&self, summary: &str) -> bool {
        self.budget.limit().is_none_or(|limit| self.counted_after(summary) <= limit)
    }

    /// Returns the tokens that one chunk may have, by estimate: a model that refused the context
    /// counts more.
    pub fn chunk_tokens(&self) -> u64 {
        let most = safeguard::chunk_tokens(&self.budget);
        match self.counted {
            Some(counted) if counted > 0 => scale(most, Some(self.tokens_before), counted),
            _ => most,
        }
    }

    /// Returns the parts to summarise, in order.
    pub fn requests<'a>(&'a self, instructions: Option<&'a str>) -> Vec<Request<'a>> {
        let previous = self.previous_summary.as_deref().map(files::without_tags);
        // The summaries of the parts, the lines between them, and the list of files share the tokens.
        let joined = tokens::of_text(&self.files.as_tags()) + tokens::of_text(SPLIT_TURN) + 4;
        let room = self.summary_tokens.saturating_sub(joined);
        let is_apart = !self.history.is_empty() && !self.turn_prefix.is_empty();
        let prefix_tokens = if is_apart { room / 3 } else { room };
        let history = Request {
            part: Part::History,
            previous,
            messages: &self.history,
            instructions,
            max_tokens: if is_apart { room - prefix_tokens } else { room },
            continues: false,
            names: &[],
            fault: None,
        };
        let prefix = Request {
            part: Part::TurnPrefix,
            previous: None,
            messages: &self.turn_prefix,
            max_tokens: prefix_tokens,
            ..history
        };
        [history, prefix].into_iter().filter(|part| !part.messages.is_empty()).collect()
    }

    /// Joins the summaries of the parts, in the order of [`Plan::requests`], and adds the files.
    pub fn summary(&self, parts: &[String]) -> String {
        let mut parts = parts.iter().map(String::as_str);
        let history = match self.history.is_empty() {
            true => self.previous_summary.as_deref().map(files::without_tags),
            false => parts.next(),
        };
        let history = history.unwrap_or("No prior history.");
        let mut summary = match parts.next() {
            Some(prefix) => format!("{history}\n\n---\n\n{SPLIT_TURN}\n\n{prefix}"),
            None => history.to_owned(),
        };
        summary.push_str(&self.files.as_tags());
        summary
    }

    /// Returns the entry to append, as JSON.
    pub fn entry(&self, summary: &str, note: &serde_json::Value) -> String {
        let mut entry = json!({
            "type": "compaction",
            "summary": summary,
            "firstKeptEntryId": self.first_kept,
            "tokensBefore": self.tokens_before,
            "tokensAfter": self.tokens_after(summary),
            "compactedCount": self.compacted_count,
            "details": {
                "readFiles": self.files.read,
                "modifiedFiles": self.files.modified,
                "quipu": note,
            },
        })
        .to_string();
        if let Some(system) = &self.system {
            entry.pop();
            entry.push_str(&format!(r#","systemMessage":{system}}}"#));
        }
        entry
    }
}

/// The line before the summary of a turn's beginning.
pub(super) const SPLIT_TURN: &str = "**Turn Context (split turn):**";

/// One part of a plan, for a summariser.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The position of the messages in the session.
    pub part: Part,
    /// The summary that is updated.
    pub previous: Option<&'a str>,
    /// The messages to summarise.
    pub messages: &'a [Message],
    /// The topic of the summary, in the words of a person.
    pub instructions: Option<&'a str>,
    /// The tokens that the summary should have at most.
    pub max_tokens: u64,
    /// True if `previous` is the summary of earlier messages of the same part.
    pub continues: bool,
    /// The names that the summary has to have.
    pub names: &'a [String],
    /// The fault of the last answer to the same request.
    pub fault: Option<Fault>,
}

/// The messages of a [`Request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Whole turns.
    History,
    /// The beginning of a turn whose end stays in the context.
    TurnPrefix,
}

/// Returns whether a cut leaves messages to summarise.
fn summarises(path: &PathEntries, weighed: &[Weighed], cutter: &Cutter<'_>, cut: &Cut) -> bool {
    let first = |index: usize| path.entries.get(index).map_or(0, |entry: &PathEntry| entry.first);
    let range = first(cutter.start())..first(cut.first_kept);
    weighed.get(range).unwrap_or_default().iter().any(|message| message.role != Role::System)
}

/// Converts an estimate of tokens: a model counted `counted` tokens where the estimate was
/// `estimated`.
fn scale(tokens: u64, counted: Option<u64>, estimated: u64) -> u64 {
    match counted {
        Some(counted) if estimated > 0 => {
            let scaled = u128::from(tokens) * u128::from(counted) / u128::from(estimated);
            u64::try_from(scaled).unwrap_or(u64::MAX)
        }
        _ => tokens,
    }
}
