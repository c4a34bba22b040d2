//! The limits of a context: how large it may become, and how much a compaction keeps.

use serde::Serialize;

use crate::routing::settings::Compaction;

/// The tokens that are reserved for an answer, unless configured.
const RESERVE: u64 = 16_384;

/// The lower limit of the reserve, in tokens, unless configured.
const RESERVE_FLOOR: u64 = 24_000;

/// The tokens of recent messages that a compaction keeps, unless configured.
const KEEP_RECENT: u64 = 20_000;

/// The limits for a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// The size of the model's context window, in tokens; `None` if it is not known.
    pub window: Option<u64>,
    /// The tokens that stay free for the answer.
    pub reserve: u64,
    /// The tokens of recent messages that a compaction keeps.
    pub keep: u64,
}

impl Budget {
    /// Returns the budget for a window. A window of 0 is not known.
    pub fn new(settings: &Compaction, window: Option<u64>) -> Budget {
        let reserve = settings.reserve_tokens.unwrap_or(RESERVE);
        let reserve = reserve.max(settings.reserve_tokens_floor.unwrap_or(RESERVE_FLOOR));
        let keep = settings.keep_recent_tokens.unwrap_or(KEEP_RECENT);
        let window = window.filter(|window| *window > 0);
        match window {
            None => Budget { window, reserve, keep },
            Some(size) => {
                // With the whole reserve, a small window would always be full.
                let reserve = reserve.min(size / 2);
                let keep = keep.min((size - reserve) / 2);
                Budget { window, reserve, keep }
            }
        }
    }

    /// Returns the number of tokens above which a compaction is due.
    pub fn limit(&self) -> Option<u64> {
        self.window.map(|window| window.saturating_sub(self.reserve))
    }

    /// Returns whether a context of that many tokens has to be compacted.
    pub fn is_due(&self, tokens: u64) -> bool {
        self.limit().is_some_and(|limit| tokens > limit)
    }

    /// Returns the tokens that a summary may have.
    pub fn summary(&self) -> u64 {
        // What is kept takes half of the limit.
        let of_limit = self.limit().map_or(u64::MAX, |limit| limit / 4);
        (self.reserve / 5).saturating_mul(4).min(of_limit)
    }
}
