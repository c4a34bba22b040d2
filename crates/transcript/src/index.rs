//! What an agent's index says: which key leads to which session, and what is noted about it.
//!
//! An index is rewritten as a whole, every few seconds, and most of what changes in it are counters
//! and times. So the ledger keeps its newest bytes only, and writes down what matters for ever: see
//! [`Binding::noted`].

mod fields;

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
}

impl Binding {
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
