//! The shapes of reports about the background service, and about the demo.

use serde::Serialize;

/// The state of the background service.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceState<'a> {
    /// The service manager: `systemd` or `launchd`.
    pub manager: &'a str,
    /// The path of the service file.
    pub path: String,
    /// True if the file exists.
    pub is_installed: bool,
    /// True if the service runs; `null` if that is not known.
    pub is_running: Option<bool>,
    /// The reason why the service does not run as requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The commands to run by hand in that case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

/// A service file that was not installed.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceFile<'a> {
    /// The service manager: `systemd` or `launchd`.
    pub manager: &'a str,
    /// The path that the file would have.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// A demo that was created.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DemoReport {
    /// The folder of the demo.
    pub path: String,
    /// Its configuration file.
    pub config_path: String,
    /// Its ledger.
    pub ledger_path: String,
    /// The number of sessions in it, without sub-agents.
    pub sessions: usize,
}
