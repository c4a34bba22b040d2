//! The journal: the ledger's own source, for facts that no other source holds.
//!
//! A rebuild reads it like any other source. Events are appended and never changed, except that
//! `forget` blanks the lines of forgotten sessions.

use std::collections::BTreeMap;

use rusqlite::{Connection, Transaction};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Result;
use crate::base::ids::{GenerationId, Seq, SourceId};
use crate::file::building;
use crate::truth::chunks::RecordReader;
use crate::truth::fields::Fields;
use crate::truth::native_lines;

/// The journal's source id.
pub(crate) const SOURCE: SourceId = building::JOURNAL;
const GENERATION: GenerationId = building::JOURNAL_GENERATION;

/// An event in the journal: one JSON line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Event {
    /// A source was rewritten (its earlier bytes are kept), or is a copy of another one.
    Generation {
        /// The time of the event, milliseconds UTC.
        at: i64,
        source: SourceNumber,
        number: i64,
        began: String,
        /// The source that this one is a copy of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        copy_of: Option<SourceNumber>,
    },
    /// A source is no longer on disk.
    Gone { at: i64, source: SourceNumber },
    /// A source is on disk again.
    Back { at: i64, source: SourceNumber },
    /// A source was renamed.
    Renamed { at: i64, source: SourceNumber },
    /// An index changed the fields of a key.
    Key {
        at: i64,
        /// The index.
        source: SourceNumber,
        key: String,
        /// The session that the key leads to. If the index also lists earlier sessions of a key,
        /// each has an event before this one. `None` if the key is gone from the index.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_key: Option<String>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_subagent: bool,
        /// Identity, routing and state.
        #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
        fields: serde_json::Map<String, serde_json::Value>,
    },
    /// A runtime changed the fields of a native session's key.
    Native {
        at: i64,
        /// The source that holds the agent's keys.
        source: SourceNumber,
        key: String,
        /// The session that the key leads to from now on.
        session: String,
        /// The changed fields; `null` removes one.
        #[serde(
            default,
            skip_serializing_if = "Fields::is_empty",
            deserialize_with = "Fields::deserialize_plain"
        )]
        patch: Fields,
    },
    /// An index has problems. Each has a kind and a detail.
    IndexProblems { at: i64, source: SourceNumber, problems: Vec<(String, String)> },
    /// A copy of the whole ledger was written to this path, or the former ledger was moved there.
    /// `forget` has to name it, because it may hold the forgotten session.
    Backup {
        at: i64,
        /// The path as text; `path_hex` has the bytes where they are not UTF-8.
        path: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path_hex: Option<String>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        put_aside: bool,
    },
    /// A compressed source is damaged. The lines before the damage are kept.
    Damaged { at: i64, source: SourceNumber, what: String },
    /// A session was forgotten: its records were removed and are never collected again.
    Forgotten { at: i64, format: String, agent: String, session_id: String },
    /// A person decided whether a sender may write to an agent: `allowed`, `denied`, or `revoked`
    /// if the decision was withdrawn.
    Sender { at: i64, agent: String, channel: String, sender: String, decision: String },
    /// A sender asked to be paired, and was sent this code.
    PairingRequest { at: i64, agent: String, channel: String, sender: String, code: String },
}

/// A source's id as a number in the journal.
pub(crate) type SourceNumber = i64;

impl Event {
    /// Reads a line of the journal; `None` for an event of a later version.
    pub(crate) fn read(line: &[u8]) -> Option<Event> {
        /// The part of an event whose spelling serde would not keep.
        #[derive(Deserialize)]
        struct Written {
            #[serde(default)]
            patch: Fields,
        }
        let mut event: Event = match serde_json::from_slice(line) {
            Ok(event) => event,
            // Serde decodes all of an event, but a patch may hold values that cannot be decoded: an
            // unpaired surrogate, or a number that is too large.
            Err(_) => {
                let mut parts: BTreeMap<&str, &RawValue> = serde_json::from_slice(line).ok()?;
                parts.remove("patch")?;
                serde_json::from_slice(&serde_json::to_vec(&parts).ok()?).ok()?
            }
        };
        if let Event::Native { patch, .. } = &mut event
            && let Ok(written) = serde_json::from_slice::<Written>(line)
        {
            *patch = written.patch;
        }
        Some(event)
    }

    /// Returns the source of the event; `None` for events about the ledger itself.
    pub(crate) fn source(&self) -> Option<SourceId> {
        match self {
            Event::Generation { source, .. }
            | Event::Gone { source, .. }
            | Event::Back { source, .. }
            | Event::Renamed { source, .. }
            | Event::Damaged { source, .. }
            | Event::Key { source, .. }
            | Event::Native { source, .. }
            | Event::IndexProblems { source, .. } => Some(SourceId(*source)),
            Event::Backup { .. }
            | Event::Forgotten { .. }
            | Event::Sender { .. }
            | Event::PairingRequest { .. } => None,
        }
    }
}

/// Appends an event and returns its seq.
pub(crate) fn append(tx: &Transaction<'_>, event: &Event) -> Result<Seq> {
    let mut line = serde_json::to_vec(event)
        .map_err(|error| crate::Error::damaged(format!("a journal event is not JSON: {error}")))?;
    line.push(b'\n');
    let (seq, _) = native_lines::append(tx, GENERATION, &line, None, None)?;
    Ok(seq)
}

/// Appends an event that changes no projection row, outside a sync.
pub(crate) fn append_aside(tx: &Transaction<'_>, event: &Event) -> Result<Seq> {
    let seq = append(tx, event)?;
    // The event needs no projecting, so a projection that was up to date stays so.
    tx.execute("UPDATE ledger SET projected_to = ?1 WHERE projected_to = ?1 - 1", [seq])?;
    Ok(seq)
}

/// Calls `each` with every event, in order.
pub(crate) fn events(conn: &Connection, each: &mut dyn FnMut(Event)) -> Result<()> {
    lines(conn, &mut |_, line| {
        if let Some(event) = Event::read(line) {
            each(event);
        }
    })
}

/// Calls `each` with every line, in order. Opens each chunk at most once.
pub(crate) fn lines(conn: &Connection, each: &mut dyn FnMut(Seq, &[u8])) -> Result<()> {
    let mut statement =
        conn.prepare("SELECT seq FROM records WHERE generation = ?1 ORDER BY seq")?;
    let mut rows = statement.query([GENERATION])?;
    let mut reader = RecordReader::new(conn);
    while let Some(row) = rows.next()? {
        let seq = row.get(0)?;
        each(seq, &reader.read(seq)?);
    }
    Ok(())
}
