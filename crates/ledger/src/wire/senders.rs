//! The shape of a sender.

use serde::Serialize;

/// A person who writes to an agent, and the decision about them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sender {
    /// The agent.
    pub agent: String,
    /// The channel.
    pub channel: String,
    /// The sender's id on the channel, in lower case.
    pub sender_id: String,
    /// `allowed`, `denied`, `asking` for a request without an answer, or `revoked` if the decision
    /// was withdrawn.
    pub state: &'static str,
    /// The time of the decision or request, milliseconds UTC.
    pub time: i64,
    /// The code that approves a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The time at which the code expires, milliseconds UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
}
