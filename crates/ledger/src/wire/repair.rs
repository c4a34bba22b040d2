//! The shape of reports about repaired sessions.

use quipu_transcript::repair::{Change, ChangeKind};
use serde::Serialize;

/// The errors of a session, and the result of repairing them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RepairReport {
    /// True if a continuation without errors exists.
    pub repaired: bool,
    /// The number of invalid lines.
    pub dropped_lines: u64,
    /// The reason why the session is not repaired.
    pub reason: Option<&'static str>,
    /// The session that was read, and its leaf. Both stay.
    pub original: RepairPlace,
    /// The repaired session, and its leaf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continuation: Option<RepairPlace>,
    /// True if the same repair was made before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
    /// True if there is something to repair.
    pub is_needed: bool,
    /// The errors.
    pub changes: Vec<RepairChange>,
}

/// A leaf of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RepairPlace {
    /// The session.
    pub session: String,
    /// The leaf.
    pub leaf: Option<String>,
}

/// An error of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RepairChange {
    /// The kind of error.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub kind: ChangeKind,
    /// The number of the line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The entry that is wrong; for a missing result, the entry with the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// The number of the message, from 1, in the context before it is repaired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<usize>,
    /// The id of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The entry after which a result is moved, or the parent that does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<String>,
}

impl RepairChange {
    pub(crate) fn of(change: &Change) -> RepairChange {
        let Change { kind, line, entry, message, call, other } = change.clone();
        RepairChange { kind, line, entry, message, call, other }
    }
}
