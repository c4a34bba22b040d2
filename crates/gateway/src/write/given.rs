//! A request that writes, as a route sees it: what it names, its conditions, and its body.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName};
use quipu_ledger::store::Entry;
use quipu_transcript::routing::AgentId;
use serde::de::{DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::body::ReadBody;
use super::store_thread::AppendJob;
use crate::call::Asked;
use crate::problem::Problem;
use crate::router::Shared;

/// The leaf that an append expects; `root` for the place before the first entry.
const EXPECTED_LEAF: HeaderName = HeaderName::from_static("expected-leaf");

/// The idempotency key of an append.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The largest number of entries of one request.
pub(crate) const MAX_ENTRIES: usize = 1000;

/// A request that writes.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) shared: Arc<Shared>,
    pub(crate) asked: Asked,
    /// The only agent that the caller may write to; `None` for all agents.
    pub(crate) agent: Option<String>,
    expected_leaf: Option<String>,
    key: Option<String>,
    body: ReadBody,
}

impl Given {
    /// Returns a request with its conditions.
    pub(crate) fn new(
        shared: Arc<Shared>,
        asked: Asked,
        agent: Option<String>,
        headers: &HeaderMap,
        body: ReadBody,
    ) -> Result<Given, Problem> {
        let expected_leaf = only(headers, &EXPECTED_LEAF)?;
        let key = only(headers, &IDEMPOTENCY_KEY)?;
        Ok(Given { shared, asked, agent, expected_leaf, key, body })
    }

    /// Returns the text at a place of the path.
    pub(crate) fn name(&self, place: &str) -> String {
        self.asked.name(place).to_owned()
    }

    /// Returns the options of the address. An unknown one is a mistake of the caller.
    pub(crate) fn options<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        self.asked.options()
    }

    /// Returns the fields of the body, and fails if the address has options.
    pub(crate) fn body<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct None {}
        let None {} = self.options()?;
        serde_json::from_slice(&self.body.bytes).map_err(|error| unreadable(&error))
    }

    /// Returns the body as text.
    pub(crate) fn text(&self) -> Result<&str, Problem> {
        std::str::from_utf8(&self.body.bytes)
            .map_err(|_| Problem::bad_request("the body is not UTF-8"))
    }

    /// Returns the entries of the body: one object, or a list of them. The second value is true for
    /// a list.
    pub(crate) fn entries(&self) -> Result<(Vec<Entry>, bool), Problem> {
        let text = self.text()?.trim();
        if !text.starts_with('[') {
            // The store says what is wrong with an entry.
            return Ok((vec![Entry::json(text)], false));
        }
        let List(entries) = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
        Ok((entries, true))
    }

    /// Returns an append of entries to the session of the path, under the request's conditions.
    pub(crate) fn append(self, entries: Vec<Entry>) -> AppendJob {
        AppendJob {
            session: self.name("id"),
            agent: self.agent,
            bytes: self.body.bytes.len(),
            entries,
            expected_leaf: self.expected_leaf,
            key: self.key,
            begins_turn: false,
            measures: false,
        }
    }

    /// Returns the conditions of an append that the store makes by itself.
    pub(crate) fn conditions(&self) -> Conditions {
        Conditions { expected_leaf: self.expected_leaf.clone(), key: self.key.clone() }
    }

    /// Fails if the request has conditions, for routes that cannot keep them.
    pub(crate) fn refuse_conditions(&self) -> Result<(), Problem> {
        match (&self.expected_leaf, &self.key) {
            (None, None) => Ok(()),
            _ => Err(Problem::bad_request(
                "this route has no `Expected-Leaf` and no `Idempotency-Key`",
            )),
        }
    }

    /// Returns the agent that a request names: its own choice, or the only one that it may write to.
    pub(crate) fn agent_or(&self, asked: Option<&str>) -> Result<Option<String>, Problem> {
        match (self.agent.as_deref(), asked) {
            (None, asked) => Ok(asked.map(str::to_owned)),
            (Some(own), Some(asked)) if asked != own => {
                Err(Problem::forbidden("this token is for another agent"))
            }
            (Some(own), _) => Ok(Some(own.to_owned())),
        }
    }

    /// Returns the id of the agent that a request names; `main` by default.
    pub(crate) fn agent_id(&self, asked: Option<&str>) -> Result<AgentId, Problem> {
        match self.agent_or(asked)? {
            Some(name) => {
                AgentId::parse(&name).map_err(|error| Problem::bad_request(error.to_string()))
            }
            None => Ok(AgentId::default()),
        }
    }
}

/// The conditions of an append.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conditions {
    expected_leaf: Option<String>,
    key: Option<String>,
}

impl Conditions {
    /// Returns the conditions as the store takes them.
    pub(crate) fn append(&self) -> quipu_ledger::Append<'_> {
        quipu_ledger::Append {
            expected_leaf: expect(self.expected_leaf.as_deref()),
            key: self.key.as_deref(),
            part: 0,
        }
    }
}

/// Returns the leaf that a header expects.
pub(crate) fn expect(leaf: Option<&str>) -> quipu_ledger::store::Expect<'_> {
    match leaf {
        None => quipu_ledger::store::Expect::Any,
        Some("root") => quipu_ledger::store::Expect::Root,
        Some(entry) => quipu_ledger::store::Expect::Entry(entry),
    }
}

/// Returns the only value of a header.
fn only(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    // A header is bytes; an id or a key may have any letters.
    let text = std::str::from_utf8(value.as_bytes()).ok().filter(|_| values.next().is_none());
    match text {
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(Problem::bad_request(format!("`{name}` has one value, in UTF-8"))),
    }
}

fn unreadable(error: &serde_json::Error) -> Problem {
    Problem::bad_request(format!("the body cannot be read: {error}"))
}

/// A list of entries as they were written, of bounded length.
struct List(Vec<Entry>);

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<List, D::Error> {
        struct Entries<'de>(PhantomData<&'de ()>);
        impl<'de> Visitor<'de> for Entries<'de> {
            type Value = List;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MAX_ENTRIES} entries")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<List, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element::<&'de RawValue>()? {
                    if entries.len() == MAX_ENTRIES {
                        let count = entries.len() + 1;
                        return Err(serde::de::Error::invalid_length(count, &self));
                    }
                    entries.push(Entry::json(entry.get()));
                }
                Ok(List(entries))
            }
        }
        deserializer.deserialize_seq(Entries(PhantomData))
    }
}
