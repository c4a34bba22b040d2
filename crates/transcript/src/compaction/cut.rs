//! Finds where a context is cut: what comes before is summarised, the rest stays.
//!
//! The cut is that of pi 0.87.1, with one difference: if other messages are between a call and its
//! result, pi may cut between them; here the cut moves before the call.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::tokens::{Role, Weighed};
use crate::context::entries::{EntryKind, PathEntries, PathEntry};
use crate::context::pairing;

/// A place to cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    /// The first entry that stays.
    pub(super) first_kept: usize,
    /// The entry that begins the turn, if the cut is inside of a turn.
    pub(super) turn_start: Option<usize>,
}

/// The entries of a context with everything that a cut depends on. Several cuts of one context
/// weigh its messages once.
pub(super) struct Cutter<'a> {
    path: &'a PathEntries,
    /// The first place to cut: the entry after the last compaction.
    start: usize,
    /// The tokens of each entry.
    tokens: Vec<u64>,
    can_cut: Vec<bool>,
    begins_turn: Vec<bool>,
    /// The entry of a call and that of its result, if other entries are between them. The last call
    /// is first.
    answers: Vec<(usize, usize)>,
}

impl<'a> Cutter<'a> {
    pub(super) fn new(path: &'a PathEntries, weighed: &[Weighed]) -> Cutter<'a> {
        let entries = &path.entries;
        let messages = |entry: &PathEntry| weighed.get(entry.first..entry.end).unwrap_or_default();
        let is_compaction = |entry: &PathEntry| matches!(entry.kind, EntryKind::Compaction(_));
        let start = entries
            .iter()
            .position(|entry| is_compaction(entry) && entry.has_messages())
            .map_or(0, |compaction| compaction + 1);
        let some = |entry: &PathEntry, test: fn(Role) -> bool| {
            !is_compaction(entry) && messages(entry).iter().any(|message| test(message.role))
        };
        let sum = |entry: &PathEntry| {
            messages(entry).iter().map(|message| message.tokens).fold(0, u64::saturating_add)
        };
        let can_cut = |role| matches!(role, Role::Opening | Role::Answer);
        Cutter {
            path,
            start,
            tokens: entries.iter().map(sum).collect(),
            can_cut: entries.iter().map(|entry| some(entry, can_cut)).collect(),
            begins_turn: entries
                .iter()
                .map(|entry| some(entry, |role| role == Role::Opening))
                .collect(),
            answers: answers(path),
        }
    }

    /// Returns the first entry that can be summarised.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// Returns the tokens of an entry and all after it, without system messages, which a compaction
    /// replays.
    pub(super) fn tokens_from(&self, first: usize, weighed: &[Weighed]) -> u64 {
        let first = self.path.entries.get(first).map_or(usize::MAX, |entry| entry.first);
        let kept = weighed.iter().skip(first).filter(|message| message.role != Role::System);
        kept.map(|message| message.tokens).fold(0, u64::saturating_add)
    }

    /// Returns the cut that keeps about `keep` tokens; `None` if there is no place to cut.
    pub(super) fn cut(&self, keep: u64) -> Option<Cut> {
        let (mut at, is_over) = self.place(keep)?;
        if is_over && self.is_failed_attempt(at) {
            at += 1;
        }
        let at = self.before_metadata(at);
        let at = self.before_metadata(self.before_calls(at));
        let begins_turn = |index: &usize| self.begins_turn.get(*index) == Some(&true);
        let turn_start = match begins_turn(&at) {
            true => None,
            false => (self.start..=at).rev().find(begins_turn),
        };
        Some(Cut { first_kept: at, turn_start })
    }

    /// Returns the first message to keep, and whether more than `keep` tokens would stay otherwise.
    fn place(&self, keep: u64) -> Option<(usize, bool)> {
        let can_cut = |index: &usize| self.can_cut.get(*index) == Some(&true);
        let end = self.path.entries.len();
        let first = (self.start..end).find(can_cut)?;
        let mut sum = 0_u64;
        let mut nearest = None;
        for index in (self.start..end).rev() {
            if can_cut(&index) {
                nearest = Some(index);
            }
            let tokens = self.tokens.get(index).copied().unwrap_or_default();
            sum = sum.saturating_add(tokens);
            if tokens > 0 && sum >= keep {
                // If the results at the end are too long, the cut is before their call.
                let call = || (self.start..index).rev().find(can_cut);
                return Some((nearest.or_else(call).unwrap_or(first), true));
            }
        }
        Some((first, false))
    }

    /// Returns whether all entries after `at` are a failed answer and the edits that removed it.
    fn is_failed_attempt(&self, at: usize) -> bool {
        let suffix = self.path.entries.get(at + 1..).unwrap_or_default();
        let is_shown = |entry: &PathEntry| {
            let kind = &entry.kind;
            matches!(kind, EntryKind::Message { .. } | EntryKind::Compaction(_) | EntryKind::Shown)
        };
        let is_omitted = |entry: &PathEntry| is_shown(entry) && !entry.has_messages();
        let omitted: HashSet<&str> = suffix
            .iter()
            .filter(|entry| is_omitted(entry))
            .filter_map(|entry| entry.id.as_deref())
            .collect();
        let edits_elsewhere = suffix.iter().any(|entry| match &entry.kind {
            EntryKind::Edit { target, removes } => !removes && !omitted.contains(target.as_str()),
            _ => false,
        });
        let has_attempt = suffix.iter().any(|entry| {
            matches!(entry.kind, EntryKind::Message { is_answer: true }) && is_omitted(entry)
        });
        let is_closed = suffix.iter().all(|entry| {
            !matches!(entry.kind, EntryKind::Compaction(_))
                && (!is_shown(entry) || is_omitted(entry))
        });
        !edits_elsewhere && has_attempt && is_closed
    }

    /// Moves a cut before the entries without a message that stand directly before it.
    fn before_metadata(&self, mut at: usize) -> usize {
        while at > self.start {
            let Some(entry) = self.path.entries.get(at - 1) else { break };
            if matches!(entry.kind, EntryKind::Compaction(_)) || entry.has_messages() {
                break;
            }
            at -= 1;
        }
        at
    }

    /// Moves a cut before all calls whose results would stay.
    fn before_calls(&self, at: usize) -> usize {
        self.answers.iter().fold(at, |at, (call, result)| {
            let parts = (self.start..at).contains(call) && *result >= at;
            if parts { *call } else { at }
        })
    }
}

/// Returns the entries of each call and its result, the last call first.
fn answers(path: &PathEntries) -> Vec<(usize, usize)> {
    let mut entry_of = vec![0; path.messages.len()];
    for (index, entry) in path.entries.iter().enumerate() {
        for of in entry_of.iter_mut().take(entry.end).skip(entry.first) {
            *of = index;
        }
    }
    let entry = |message: usize| entry_of.get(message).copied().unwrap_or_default();
    let pairs = pairing::answers(&path.messages).into_iter();
    let mut answers: Vec<(usize, usize)> =
        pairs.map(|(call, result)| (entry(call), entry(result))).collect();
    answers.sort_unstable_by_key(|answer| Reverse(*answer));
    answers
}
