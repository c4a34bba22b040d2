//! The shape of a sender.

use serde::Serialize;

/// Somebody who writes to an agent, and what was decided about them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sender {
    /// Whom they write to.
    pub agent: String,
    /// Where.
    pub channel: String,
    /// Their id there, in small letters.
    pub sender: String,
    /// `allowed`, `denied`, `asking` if they wait for an answer, `revoked` if nothing is decided any
    /// more.
    pub state: &'static str,
    /// When that was decided or asked, in milliseconds UTC.
    pub since: i64,
    /// The code that approves them, if they ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Until when it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
}
