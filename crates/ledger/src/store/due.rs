//! Whether a compaction is due after an append, without counting the context anew.
//!
//! The size of a context is counted once for each open session. Appended lines change it by their own
//! size. It is counted again after a compaction, an edit, a moved leaf, a change of the model, and
//! after another process has appended to the session.

use std::collections::HashMap;

use quipu_transcript::compaction::{self, Budget, Growth};

use super::compact::{CompactionSettings, window};
use super::core::Core;
use super::meta_of;
use super::sessions::NativeSession;
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
    /// Returns whether a compaction is due for a session of this length in bytes.
    pub(super) fn is_compaction_due(
        &mut self,
        session: &NativeSession,
        cursor: u64,
    ) -> Result<bool> {
        let Some(settings) = self.sizes.settings.clone() else { return Ok(false) };
        let known = self.sizes.known.get(&session.generation).copied();
        let size = match known.filter(|size| size.cursor == cursor) {
            Some(size) => size,
            None => {
                let entries = self.path_entries(session)?;
                let fields = self.read_caught_up(&mut |ledger| meta_of(ledger, session.row))?;
                let window = window(&entries, &settings, &fields).map(|(window, _)| window);
                let limit = Budget::new(&settings.rules, window).limit();
                let size = Size { cursor, tokens: compaction::estimate(&entries).tokens, limit };
                self.sizes.counted += 1;
                self.sizes.known.insert(session.generation, size);
                size
            }
        };
        Ok(size.limit.is_some_and(|limit| size.tokens > limit))
    }
}
