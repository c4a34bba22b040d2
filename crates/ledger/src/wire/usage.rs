//! The shape of usage reports.

use serde::Serialize;

use super::none_if_empty;

/// Tokens and cost, by group and together.
#[derive(Debug, Clone)]
pub struct UsageReport {
    /// One for each group: days and months from the first to the last, others from the dearest down.
    pub lines: Vec<UsageLine>,
    /// All of them together.
    pub total: UsageLine,
}

/// Tokens and cost of one group of responses.
#[derive(Debug, Clone, Default, Serialize)]
pub struct UsageLine {
    /// What was grouped by: `day`, `month`, `session`, `model`, `project`, `agent`; or `total`.
    pub by: &'static str,
    /// The group: `2026-11-15`, `2026-11`, an id, a name; `unknown` where nothing says; or `total`.
    pub group: String,
    /// API responses, each counted once.
    pub responses: u64,
    /// Uncached input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens read from the cache.
    pub cache_read: u64,
    /// Input tokens written to the cache.
    pub cache_write: u64,
    /// All of these tokens.
    pub total_tokens: u64,
    /// What all that has a price cost, in US dollars; null if nothing has one.
    pub cost_usd: Option<f64>,
    /// The part of it that agents recorded themselves.
    pub recorded_usd: f64,
    /// Tokens of responses without a price: `cost_usd` is without them.
    pub unpriced_tokens: u64,
    /// Of the total: transcripts whose last line is not whole, or may still change. It is counted
    /// once it can be read.
    #[serde(skip_serializing_if = "is_none")]
    pub unfinished: u64,
    /// The models of these responses.
    pub unpriced_models: Vec<String>,
    /// All models that answered.
    pub models: Vec<String>,
    /// Of a session.
    #[serde(flatten)]
    pub session: Option<UsageSession>,
}

/// What else is said of a session. Its sub-agents are billed to it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct UsageSession {
    /// `claude-code`, `openclaw`.
    pub format: String,
    /// Empty where the format has no agents, and `null` in JSON.
    #[serde(serialize_with = "none_if_empty")]
    pub agent: String,
    /// Where it worked.
    pub cwd: Option<String>,
    /// Its title, or else its first prompt.
    pub title: Option<String>,
    /// Of its last entry, in milliseconds UTC.
    pub updated_at: Option<i64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks like this")]
fn is_none(number: &u64) -> bool {
    *number == 0
}
