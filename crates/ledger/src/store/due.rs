//! Decides after an append whether a compaction or a memory flush is due, without counting the
//! whole context again.
//!
//! The size of a context is counted once for each open session. Appended lines change it by their own
//! size. It is counted again after a compaction, an edit, a moved leaf, a change of the model, and
//! after another process has appended to the session.

use std::collections::HashMap;

use quipu_transcript::compaction::{self, Budget, Growth};

use super::compact::{CompactionSettings, window};
use super::core::Core;
use super::flush::{has_failed, was_flushed};
use super::meta_of;
use super::sessions::{self, NativeSession};
use crate::Result;
use crate::base::ids::GenerationId;

/// The sizes of the contexts of open sessions.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    settings: Option<CompactionSettings>,
    known: HashMap<GenerationId, Size>,
    counted: u64,
}

#[derive(Debug, Clone, Copy)]
struct Size {
    /// The length of the session in bytes.
    cursor: u64,
    tokens: u64,
    /// The tokens above which a compaction is due.
    limit: Option<u64>,
    /// The tokens at which a memory flush becomes due; `None` if it was made since the last
    /// compaction, or waits for the next one.
    flush_limit: Option<u64>,
}

/// The work that is due.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Due {
    pub(super) is_compaction: bool,
    pub(super) is_flush: bool,
}

impl Sizes {
    /// Sets the limits. Without them, nothing is due.
    pub(super) fn set(&mut self, settings: Option<CompactionSettings>) {
        self.settings = settings;
        self.known.clear();
    }

    /// Returns the number of contexts that were counted.
    pub(super) fn counted(&self) -> u64 {
        self.counted
    }

    /// Forgets all sizes.
    pub(super) fn drop_cached(&mut self) {
        self.known.clear();
    }

    /// Notes that a session was asked for its notes.
    pub(super) fn flushed(&mut self, session: &NativeSession) {
        if let Some(size) = self.known.get_mut(&session.generation) {
            size.flush_limit = None;
        }
    }

    /// Adds an appended line. `is_at_leaf` is false if its parent is not the leaf before it.
    pub(super) fn advance(
        &mut self,
        session: &NativeSession,
        (from, to): (u64, u64),
        line: &str,
        is_at_leaf: bool,
    ) {
        let Some(size) = self.known.get_mut(&session.generation) else { return };
        let growth = if is_at_leaf { compaction::growth(line) } else { Growth::Unknown };
        let tokens = match growth {
            Growth::By(tokens) => size.tokens.saturating_add(tokens),
            Growth::To(tokens) => tokens,
            Growth::Unknown => {
                self.known.remove(&session.generation);
                return;
            }
        };
        if size.cursor == from {
            *size = Size { cursor: to, tokens, ..*size };
        } else {
            self.known.remove(&session.generation);
        }
    }
}

impl Core {
    /// Returns what is due for a session of this length in bytes.
    pub(super) fn due(&mut self, session: &NativeSession, cursor: u64) -> Result<Due> {
        if self.sizes.settings.is_none() {
            return Ok(Due::default());
        }
        let known = self.sizes.known.get(&session.generation).copied();
        let size = match known.filter(|size| size.cursor == cursor) {
            Some(size) => size,
            None => self.count(session, cursor)?,
        };
        Ok(Due {
            is_compaction: size.limit.is_some_and(|limit| size.tokens > limit),
            is_flush: size.flush_limit.is_some_and(|limit| size.tokens >= limit),
        })
    }

    /// Counts the context of a session of this length in bytes.
    fn count(&mut self, session: &NativeSession, cursor: u64) -> Result<Size> {
        let settings = self.sizes.settings.clone().unwrap_or_default();
        let entries = self.path_entries(session)?;
        let (fields, key) = self.read_caught_up(&mut |ledger| {
            Ok((meta_of(ledger, session.row)?, sessions::key_of(ledger.conn(), session)?))
        })?;
        let window = window(&entries, &settings, &fields).map(|(window, _)| window);
        let budget = Budget::new(&settings.rules, window);
        // Without a key, a flush cannot be noted. It then waits for the compaction, so that not every
        // process that appends asks the model.
        let waits = !compaction::flushes(&settings.rules)
            || key.is_none()
            || was_flushed(&fields)
            || has_failed(&fields);
        let flush_limit = compaction::flush_limit(&settings.rules, &budget);
        let size = Size {
            cursor,
            tokens: compaction::estimate(&entries).tokens,
            limit: budget.limit(),
            flush_limit: flush_limit.filter(|_| !waits),
        };
        self.sizes.counted += 1;
        self.sizes.known.insert(session.generation, size);
        Ok(size)
    }
}
