//! The shape of session keys.

use serde::Serialize;

use super::none_if_empty;

/// A session key and the session that it leads to.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegisteredKey {
    /// The key.
    pub session_key: String,
    /// The id of the session; `null` if the key leads to none.
    pub session_id: Option<String>,
    /// The format of the session.
    pub format: String,
    /// The agent of the session; `null` where the format has no agents.
    #[serde(serialize_with = "none_if_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub agent: String,
    /// The first time that is known of the session, milliseconds UTC.
    pub created_at: Option<i64>,
    /// The time of the last activity.
    pub updated_at: Option<i64>,
    /// The number of input tokens.
    pub input_tokens: Option<i64>,
    /// The number of output tokens.
    pub output_tokens: Option<i64>,
    /// The number of tokens in the context.
    pub context_tokens: Option<i64>,
    /// The channel of its messages.
    pub channel: Option<String>,
}
