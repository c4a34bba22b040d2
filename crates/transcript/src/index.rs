//! What an agent's index says: which key leads to which session, and what is noted about it.
//!
//! An index is rewritten as a whole, every few seconds, and most of what changes in it are counters
//! and times. So the ledger keeps its newest bytes only, and writes down what matters for ever: see
//! [`Binding::noted`].

mod fields;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::problem::Problem;

pub use fields::{FIELDS, Field, Group, Holds, field};

/// An index, read.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// Its keys, in their order as text.
    pub bindings: Vec<Binding>,
    /// What was odd about it.
    pub problems: Vec<Problem>,
    /// Keys that say nothing that could be read, and why.
    pub unread: Vec<(String, &'static str)>,
    /// Nothing of it could be read: what was known before stays.
    pub is_damaged: bool,
}

/// What an index says about one key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Binding {
    /// The key, as written.
    pub key: String,
    /// The session that it leads to now.
    pub session: Option<String>,
    /// Sessions that it led to before, oldest first, where the index remembers them.
    pub earlier: Vec<String>,
    /// The key of the session that this one works for.
    pub parent_key: Option<String>,
    /// The session is a sub-agent's.
    pub is_subagent: bool,
    /// Last activity by the agent's clock, milliseconds UTC.
    pub updated_at: Option<i64>,
    /// The session was put aside by its owner.
    pub is_archived: bool,
    /// Everything said about the key under the names of [`FIELDS`], unknown fields included.
    /// Prompt reports and skill lists stay in the index's bytes.
    pub fields: Map<String, Value>,
    /// Values as they were written, those that cannot be decoded among them; only where a whole index
    /// is read.
    pub written: BTreeMap<String, String>,
}

/// What stands between the key of a session and its sub-agent's.
const SUBAGENT: &str = ":subagent:";

impl Binding {
    /// What these fields say about a key. Times of activity are not read from them.
    pub fn of(key: &str, session: Option<String>, fields: Map<String, Value>) -> Binding {
        let text = |name: &str| {
            let text = fields.get(name).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let (is_subagent, parent_key) = match key.rsplit_once(SUBAGENT) {
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

    /// What is written down for ever when it changes: identity, routing and state. Never counters,
    /// times or reports.
    pub fn noted(&self) -> Map<String, Value> {
        let is_noted = |name: &str| field(name).is_some_and(|field| field.group.is_noted());
        self.fields
            .iter()
            .filter(|(name, value)| is_noted(name) && !value.is_null())
            .map(|(name, value)| match field(name).map(|field| field.holds) {
                // That it happened is state; when it happened is a time.
                Some(Holds::Time) => (name.clone(), Value::Bool(true)),
                _ => (name.clone(), value.clone()),
            })
            .collect()
    }
}

/// A sub-agent's key begins with the key of the session it works for; an agent's name alone stands
/// for its main session.
fn parent_of(before: &str) -> String {
    let is_agent = before.strip_prefix("agent:").is_some_and(|agent| !agent.contains(':'));
    if is_agent { format!("{before}:main") } else { before.to_owned() }
}
