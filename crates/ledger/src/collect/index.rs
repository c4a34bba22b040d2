//! Reads an index: its newest bytes, and what changed in it since the last look.

use std::borrow::Cow;
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
use crate::truth::forgotten::Forgotten;
use crate::truth::indexes::{self, Packed};
use crate::truth::journal::{Event, SourceNumber};

/// No agent's index comes near this; a larger file is none.
const LONGEST: u64 = 512 << 20;

/// What the newest version of an index changes.
#[derive(Debug, Default)]
pub(crate) struct IndexUpdate {
    /// The new bytes; `None` if they make no sense and the last good ones stay.
    pub(crate) bytes: Option<Packed>,
    /// Keys about which something else is said than before, counters and times included.
    pub(crate) changed: Vec<Binding>,
    /// Keys that are no longer in it.
    pub(crate) removed: Vec<String>,
    /// What goes into the journal.
    pub(crate) notes: Vec<Note>,
    pub(crate) problems: Vec<Problem>,
}

/// A change of a key's identity, routing or state.
#[derive(Debug, Default)]
pub(crate) struct Note {
    key: String,
    session: Option<String>,
    parent_key: Option<String>,
    is_subagent: bool,
    fields: Map<String, Value>,
}

impl Note {
    /// The line in the journal.
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
    /// Reads an index whose stat has changed.
    pub(super) fn index(&mut self) -> Result<()> {
        let known = self.job.known.as_ref();
        let step = match known {
            Some(_) => Step::Continue,
            None => Step::Begin { began: Began::First, closing: None, copy_of: None },
        };
        let is_too_long = self.stat.size > LONGEST;
        let length = if is_too_long { OVERSIZE_HEAD as u64 } else { self.stat.size };
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        if !look::fills(self.file, &mut bytes, 0)? {
            // It changed while we read. The next look tries again.
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
        let bytes = without_forgotten(self.format, self.origin, &bytes, self.forgotten);
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

/// The bytes of an index without what it says about forgotten sessions.
pub(crate) fn without_forgotten<'b>(
    format: &dyn Format,
    origin: &Origin,
    bytes: &'b [u8],
    forgotten: &Forgotten,
) -> Cow<'b, [u8]> {
    if !forgotten.concerns(format) {
        return Cow::Borrowed(bytes);
    }
    let agent = origin.agent.as_deref().unwrap_or_default();
    let is_forgotten = |session: &str| forgotten.has(format.name(), agent, session);
    match format.index_without(origin, bytes, &is_forgotten) {
        Some(bytes) => Cow::Owned(bytes),
        None => Cow::Borrowed(bytes),
    }
}

impl IndexUpdate {
    /// Compares an index with what the ledger has of it.
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

    /// Notes what has to be known for ever about a key.
    fn note(&mut self, was: Option<&Binding>, binding: &Binding) {
        let is_known = |session: &String| {
            was.is_some_and(|was| {
                was.session.as_ref() == Some(session) || was.earlier.contains(session)
            })
        };
        // Sessions that the key led to before come first: the last one noted is the present one.
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
