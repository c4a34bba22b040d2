//! Reads an index file, which lists an agent's sessions, and finds what changed in it since the last
//! sync.
//!
//! A damaged index never replaces the last good one.

use std::collections::BTreeMap;

use quipu_transcript::format::{Format, Origin};
use quipu_transcript::index::Binding;
use quipu_transcript::problem::{Problem, ProblemKind};
use quipu_transcript::record::OVERSIZE_HEAD;
use serde_json::{Map, Value};

use super::batch::{Began, Ends, Step};
use super::look;
use super::read::Reader;
use crate::Result;
use crate::base::clock;
use crate::truth::indexes::{self, Packed};
use crate::truth::journal::{Event, SourceNumber};

/// The largest index that is read, in bytes. No agent writes one that is nearly as large.
const MAX_INDEX_BYTES: u64 = 512 << 20;

/// The changes in the newest version of an index.
#[derive(Debug, Default)]
pub(crate) struct IndexUpdate {
    /// The new bytes. `None` if they are too long, or cannot be parsed while the ledger has good
    /// ones: the stored bytes stay.
    pub(crate) bytes: Option<Packed>,
    /// Keys with any changed field, including counters and times.
    pub(crate) changed: Vec<Binding>,
    /// Keys that are no longer in the index.
    pub(crate) removed: Vec<String>,
    /// Events for the journal.
    pub(crate) notes: Vec<Note>,
    pub(crate) problems: Vec<Problem>,
}

/// A change of a key's identity, routing or state, for the journal. A removed key has no session.
#[derive(Debug, Default)]
pub(crate) struct Note {
    key: String,
    session: Option<String>,
    parent_key: Option<String>,
    is_subagent: bool,
    fields: Map<String, Value>,
}

impl Note {
    /// Returns the event for the journal.
    pub(crate) fn event(self, source: SourceNumber) -> Event {
        Event::Key {
            at: clock::now_ms(),
            source,
            key: self.key,
            session: self.session,
            parent_key: self.parent_key,
            is_subagent: self.is_subagent,
            fields: self.fields,
        }
    }
}

impl Reader<'_, '_> {
    /// Reads an index whose metadata changed.
    pub(super) fn index(&mut self) -> Result<()> {
        let known = self.job.known.as_ref();
        let step = match known {
            Some(_) => Step::Continue,
            None => Step::Begin { began: Began::First, closing: None, copy_of: None },
        };
        let is_too_long = self.stat.size > MAX_INDEX_BYTES;
        let length = if is_too_long { OVERSIZE_HEAD as u64 } else { self.stat.size };
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        if !look::fills(self.file, &mut bytes, 0)? {
            // The file changed while it was read. The next sync tries again.
            return Ok(());
        }
        self.work.bytes_read += length;
        let mut ends = Ends::default();
        ends.add(&bytes);
        let mut piece = self.piece(step, &ends);
        piece.is_last = true;
        let before = match known {
            Some(known) => indexes::load(self.conn, known.source)?,
            None => None,
        };
        let bytes = self.gate.index(&bytes);
        if is_too_long || before.as_deref() != Some(&*bytes) {
            self.work.lines_parsed += 1;
            let update = match is_too_long {
                true => IndexUpdate::damaged(ProblemKind::Oversize, self.stat.size),
                false => IndexUpdate::of(self.format, self.origin, before.as_deref(), &bytes)?,
            };
            piece.index = Some(Box::new(update));
        }
        self.builder.piece(piece)
    }
}

impl IndexUpdate {
    /// Compares an index with the bytes that the ledger has of it.
    pub(crate) fn of(
        format: &dyn Format,
        origin: &Origin,
        before: Option<&[u8]>,
        bytes: &[u8],
    ) -> Result<IndexUpdate> {
        let index = format.read_index(origin, bytes);
        let before = before.map(|bytes| format.read_index(origin, bytes));
        if index.is_damaged {
            let has_good = before.is_some_and(|before| !before.is_damaged);
            let bytes = if has_good { None } else { Some(indexes::pack(bytes)?) };
            return Ok(IndexUpdate { bytes, problems: index.problems, ..IndexUpdate::default() });
        }
        let before = before.unwrap_or_default();
        let mut update = IndexUpdate {
            bytes: Some(indexes::pack(bytes)?),
            problems: if index.problems == before.problems { Vec::new() } else { index.problems },
            ..IndexUpdate::default()
        };
        let mut old: BTreeMap<&str, &Binding> =
            before.bindings.iter().map(|binding| (binding.key.as_str(), binding)).collect();
        for binding in index.bindings {
            let was = old.remove(binding.key.as_str());
            if was != Some(&binding) {
                update.note(was, &binding);
                update.changed.push(binding);
            }
        }
        for key in old.into_keys() {
            update.removed.push(key.to_owned());
            update.notes.push(Note { key: key.to_owned(), ..Note::default() });
        }
        Ok(update)
    }

    fn damaged(kind: ProblemKind, size: u64) -> IndexUpdate {
        let problem = Problem::new(kind, format!("{size} bytes"));
        IndexUpdate { problems: vec![problem], ..IndexUpdate::default() }
    }

    /// Adds the changes of a key that the journal keeps for ever; `was` is its last version.
    fn note(&mut self, was: Option<&Binding>, binding: &Binding) {
        let is_known = |session: &String| {
            was.is_some_and(|was| {
                was.session.as_ref() == Some(session) || was.earlier.contains(session)
            })
        };
        // Earlier sessions of the key come first, so that the last event names the current session.
        for session in binding.earlier.iter().filter(|session| !is_known(session)) {
            self.notes.push(Note {
                key: binding.key.clone(),
                session: Some(session.clone()),
                parent_key: binding.parent_key.clone(),
                is_subagent: binding.is_subagent,
                fields: Map::new(),
            });
        }
        let fields = binding.noted();
        let is_same = was.is_some_and(|was| {
            (&was.session, &was.parent_key, was.is_subagent)
                == (&binding.session, &binding.parent_key, binding.is_subagent)
                && was.noted() == fields
        });
        if !is_same && binding.session.is_some() {
            self.notes.push(Note {
                key: binding.key.clone(),
                session: binding.session.clone(),
                parent_key: binding.parent_key.clone(),
                is_subagent: binding.is_subagent,
                fields,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use quipu_transcript::format;

    use super::*;

    fn update(before: &str, now: &str) -> IndexUpdate {
        let format = format::by_name("openclaw").unwrap();
        let origin = format.origin(b"agents/main/sessions/sessions.json");
        IndexUpdate::of(format, &origin, Some(before.as_bytes()), now.as_bytes()).unwrap()
    }

    #[test]
    fn counters_and_times_are_not_noted() {
        let now = update(
            r#"{"k": {"sessionId": "a", "updatedAt": 1770193116233, "inputTokens": 1}}"#,
            r#"{"k": {"sessionId": "a", "updatedAt": 1770193119999, "inputTokens": 9,
                "systemPromptReport": {"x": 1}}}"#,
        );
        assert!(now.notes.is_empty());
        assert_eq!(now.changed.len(), 1);
    }

    #[test]
    fn another_session_and_another_channel_are_noted() {
        let now = update(
            r#"{"k": {"sessionId": "a"}, "l": {"sessionId": "c"}, "m": {"sessionId": "d"}}"#,
            r#"{"k": {"sessionId": "b"}, "l": {"sessionId": "c", "lastChannel": "signal"}}"#,
        );
        let noted: Vec<_> =
            now.notes.iter().map(|note| (note.key.as_str(), note.session.as_deref())).collect();
        assert_eq!(noted, [("k", Some("b")), ("l", Some("c")), ("m", None)]);
        assert_eq!(now.removed, ["m"]);
    }

    #[test]
    fn a_damaged_index_changes_nothing() {
        let now = update(r#"{"k": {"sessionId": "a"}}"#, "{");
        assert!(now.bytes.is_none() && now.notes.is_empty() && now.removed.is_empty());
        assert_eq!(now.problems.len(), 1);
    }
}
