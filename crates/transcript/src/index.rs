//! An agent's index: the map from keys to sessions, with the agent's notes about each.
//!
//! The agent rewrites the whole index every few seconds, and mostly counters and times change. So
//! the ledger stores only its newest bytes, and records lasting changes in the journal: see
//! [`Binding::noted`].

mod fields;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::problem::Problem;

pub use fields::{FIELDS, Field, Group, Holds, field};

/// A decoded index.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// Its keys, in text order.
    pub bindings: Vec<Binding>,
    /// Oddities of the index.
    pub problems: Vec<Problem>,
    /// Keys whose entry could not be read, and the reasons.
    pub unread: Vec<(String, &'static str)>,
    /// True if no part of the index could be read; the last good version stays.
    pub is_damaged: bool,
}

/// The entry of one key in an index.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Binding {
    /// The key, as written.
    pub key: String,
    /// The session that the key routes to now.
    pub session: Option<String>,
    /// Sessions that the key routed to before, oldest first, where the index has them.
    pub earlier: Vec<String>,
    /// The key of the session that this one works for.
    pub parent_key: Option<String>,
    /// True for a sub-agent's session.
    pub is_subagent: bool,
    /// The last activity by the agent's clock, in milliseconds UTC.
    pub updated_at: Option<i64>,
    /// True if a person archived the session.
    pub is_archived: bool,
    /// All fields of the key under the names of [`FIELDS`], unknown fields included. Prompt reports
    /// and skill lists stay in the index's bytes.
    pub fields: Map<String, Value>,
    /// Values exactly as written, including those that cannot be decoded. Filled only when a whole
    /// index is read.
    pub written: BTreeMap<String, String>,
}

/// The separator between a session's key and its sub-agent's id.
const SUBAGENT_SEPARATOR: &str = ":subagent:";

impl Binding {
    /// Builds the binding of `key` from these fields. The caller adds the earlier sessions, the
    /// time of activity and the values as written.
    pub fn of(key: &str, session: Option<String>, fields: Map<String, Value>) -> Binding {
        let text = |name: &str| {
            let text = fields.get(name).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let (is_subagent, parent_key) = match key.rsplit_once(SUBAGENT_SEPARATOR) {
            Some((parent, _)) => (true, Some(parent_of(parent))),
            None => (text("spawnedBy").is_some(), None),
        };
        Binding {
            parent_key: text("spawnedBy").or_else(|| text("parentSessionKey")).or(parent_key),
            key: key.to_owned(),
            session,
            is_subagent,
            is_archived: fields.get("archivedAt").is_some_and(|at| !at.is_null()),
            earlier: Vec::new(),
            updated_at: None,
            fields,
            written: BTreeMap::new(),
        }
    }

    /// Returns the fields whose changes the journal records forever: identity, routing and state.
    /// Never counters, times or reports.
    pub fn noted(&self) -> Map<String, Value> {
        let is_noted = |name: &str| field(name).is_some_and(|field| field.group.is_noted());
        self.fields
            .iter()
            .filter(|(name, value)| is_noted(name) && !value.is_null())
            .map(|(name, value)| match field(name).map(|field| field.holds) {
                // The event itself is state; only the time is left out.
                Some(Holds::Time) => (name.clone(), Value::Bool(true)),
                _ => (name.clone(), value.clone()),
            })
            .collect()
    }
}

/// Returns the key of the parent session. `before` is the sub-agent's key up to `:subagent:`; an
/// agent's name alone means the agent's main session.
fn parent_of(before: &str) -> String {
    let is_agent = before.strip_prefix("agent:").is_some_and(|agent| !agent.contains(':'));
    if is_agent { format!("{before}:main") } else { before.to_owned() }
}
