//! The shapes of reports about the HTTP server and its tokens.

use serde::Serialize;

/// A server that listens.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerStarted<'a> {
    /// The address with its port; `null` for a socket.
    pub address: Option<String>,
    /// The path of the socket; `null` for an address.
    pub socket_path: Option<&'a str>,
    /// The link that signs a browser in; `null` for a socket.
    pub link: Option<&'a str>,
}

/// The command that adds the tools for agents to an agent.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct McpInstallation<'a> {
    /// The agent: `claude-code`, `codex` or `openclaw`.
    pub agent: &'a str,
    /// The agent's own command, word by word.
    pub command: &'a [String],
    /// True if it was run.
    pub was_run: bool,
}

/// A token that was created.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreatedToken<'a> {
    /// Its name.
    pub name: &'a str,
    /// The token itself, which is not kept.
    pub token: &'a str,
}

/// A token that `quipu token revoke` removed, or the browser that it signed out.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RevokedToken<'a> {
    /// Its name.
    pub name: &'a str,
}

/// A token or a signed-in browser in a list.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListedToken<'a> {
    /// Its name.
    pub name: &'a str,
    /// The rights of its holder: `read` or `write`.
    pub scope: &'a str,
    /// The only agent whose sessions it is for; `null` for all agents.
    pub agent: Option<&'a str>,
    /// `token`, or `browser` for a browser that signed in.
    pub kind: &'a str,
    /// The time it was created, milliseconds UTC.
    pub created_at: i64,
}
