//! The shape of usage reports.

use serde::Serialize;

use super::none_if_empty;

/// Tokens and cost, by group and in total.
#[derive(Debug, Clone)]
pub struct UsageReport {
    /// One line per group: days and months in order of time, other groups by falling cost.
    pub lines: Vec<UsageLine>,
    /// The sum of all groups.
    pub total: UsageLine,
}

/// Tokens and cost of one group of responses.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsageLine {
    /// The grouping: `day`, `week`, `month`, `block`, `session`, `model`, `project`, `agent`; or
    /// `total`.
    pub by: &'static str,
    /// The group: `2026-11-15` (a day, or the Monday of a week), `2026-11`, an id or a name;
    /// `unknown` if none is recorded; or `total`.
    pub group: String,
    /// The number of API responses, each counted once.
    pub responses: u64,
    /// Uncached input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Input tokens read from the cache.
    pub cache_read_tokens: u64,
    /// Input tokens written to the cache.
    pub cache_write_tokens: u64,
    /// The sum of these tokens.
    pub total_tokens: u64,
    /// The cost of all responses with a price, in US dollars; `null` if none has one.
    pub cost_usd: Option<f64>,
    /// The part of the cost that agents recorded themselves.
    pub recorded_usd: f64,
    /// The tokens of responses without a price, which `cost_usd` leaves out.
    pub unpriced_tokens: u64,
    /// In the total: the number of transcripts whose last line has no newline yet. The usage of
    /// such a line is counted when its newline is collected.
    #[serde(skip_serializing_if = "is_zero")]
    pub unfinished_transcripts: u64,
    /// The tokens of requests that no line records, such as compactions and titles. They come from
    /// the agent's own total.
    #[serde(skip_serializing_if = "is_zero")]
    pub without_line_tokens: u64,
    /// The cost of these requests, in US dollars.
    #[serde(skip_serializing_if = "is_zero_usd")]
    pub without_line_usd: f64,
    /// The models of responses without a price.
    pub unpriced_models: Vec<String>,
    /// All models that answered.
    pub models: Vec<String>,
    /// The same group by model, highest cost first, if that was requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_model: Vec<UsageLine>,
    /// Details of a window of a plan.
    #[serde(flatten)]
    pub block: Option<UsageBlock>,
    /// Details of a session.
    #[serde(flatten)]
    pub session: Option<UsageSession>,
}

/// A window in which a plan limits usage.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsageBlock {
    /// Its beginning, milliseconds UTC.
    pub starts_at: i64,
    /// Its end, milliseconds UTC.
    pub ends_at: i64,
    /// True if it has not ended.
    pub is_active: bool,
    /// The rest of the configured limit, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_usd: Option<f64>,
    /// The rest of the configured limit, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_tokens: Option<u64>,
}

/// Usage of the last days, for a line that is printed often.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecentUsage {
    /// The cost of the day so far in US dollars; `None` if nothing of it has a price.
    pub day_usd: Option<f64>,
    /// The window that has not ended, with its cost and tokens.
    pub window: Option<RecentWindow>,
}

/// The window of a plan that has not ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecentWindow {
    /// Its end, milliseconds UTC.
    pub ends_at: i64,
    /// Its cost so far in US dollars.
    pub usd: f64,
    /// Its tokens so far.
    pub tokens: u64,
}

/// Details of a session. The usage of its sub-agents is counted in it.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsageSession {
    /// Its id.
    pub session_id: String,
    /// The format: `claude-code`, `openclaw`.
    pub format: String,
    /// The agent; empty where the format has no agents, and `null` in JSON.
    #[serde(serialize_with = "none_if_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub agent: String,
    /// Its working directory.
    pub cwd: Option<String>,
    /// Its title, or else its first prompt.
    pub title: Option<String>,
    /// The time of its last activity, milliseconds UTC, as in the list of sessions.
    pub updated_at: Option<i64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero_usd(dollars: &f64) -> bool {
    *dollars == 0.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
