//! The ledger's own source: what is true but stands in no other. Rebuild reads it like any other.

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

/// The journal is the first source.
pub(crate) const SOURCE: SourceId = building::JOURNAL;
const GENERATION: GenerationId = building::JOURNAL_GENERATION;

/// Something that happened to a source, as it stands in the journal: one JSON line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Event {
    /// A source was rewritten (what it held before is kept), or is a copy of another.
    Generation {
        /// When, milliseconds UTC.
        at: i64,
        source: SourceNumber,
        number: i64,
        began: String,
        /// The source that it is a copy of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        copy_of: Option<SourceNumber>,
    },
    /// A source is no longer on disk.
    Gone { at: i64, source: SourceNumber },
    /// A source that was gone is there again.
    Back { at: i64, source: SourceNumber },
    /// A source has another path.
    Renamed { at: i64, source: SourceNumber },
    /// What an index says about a key has changed.
    Key {
        at: i64,
        /// The index.
        source: SourceNumber,
        key: String,
        /// The session that it leads to, or led to before; `None`: the key is gone from the index.
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
    /// What is noted about a key of our own sessions has changed.
    Native {
        at: i64,
        /// The agent's keys.
        source: SourceNumber,
        key: String,
        /// Where it leads from now on.
        session: String,
        /// Fields that have another value now; `null`: they have none any more.
        #[serde(
            default,
            skip_serializing_if = "Fields::is_empty",
            deserialize_with = "Fields::deserialize_plain"
        )]
        patch: Fields,
    },
    /// Something is odd about an index: kinds and details.
    IndexProblems { at: i64, source: SourceNumber, problems: Vec<(String, String)> },
    /// A copy of the whole ledger was written to this path, or the ledger that was there before was
    /// put aside there: whoever forgets something has to name it.
    Backup {
        at: i64,
        /// As text; `path_hex` has the bytes where they are no UTF-8.
        path: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path_hex: Option<String>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        put_aside: bool,
    },
    /// A compressed source is damaged; what could be read of it before is kept.
    Damaged { at: i64, source: SourceNumber, what: String },
    /// A session was forgotten: what it held is no more, and is not collected again.
    Forgotten { at: i64, format: String, agent: String, session_id: String },
    /// Somebody decided whether a sender may speak to an agent: `allowed`, `denied`, or `revoked`
    /// if nothing is decided any more.
    Sender { at: i64, agent: String, channel: String, sender: String, decision: String },
    /// A sender asked to be paired, and was told this code.
    PairingRequest { at: i64, agent: String, channel: String, sender: String, code: String },
}

/// A source's id, as it stands in the journal.
pub(crate) type SourceNumber = i64;

impl Event {
    /// Reads a line of the journal. What a later version wrote may be unknown here.
    pub(crate) fn read(line: &[u8]) -> Option<Event> {
        /// What serde would not leave as it was written in an event.
        #[derive(Deserialize)]
        struct Written {
            #[serde(default)]
            patch: Fields,
        }
        let mut event: Event = match serde_json::from_slice(line) {
            Ok(event) => event,
            // Serde decodes all of an event, but a note may hold what cannot be decoded: half of a
            // letter, or a number without an end.
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

    /// The source it is about; some are about the ledger itself.
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
    let mut line = serde_json::to_vec(event).map_err(|error| {
        crate::Error::damaged(format!("a journal event that is no JSON: {error}"))
    })?;
    line.push(b'\n');
    let (seq, _) = native_lines::append(tx, GENERATION, &line, None, None)?;
    Ok(seq)
}

/// Appends an event that changes no projection row, from outside a sync.
pub(crate) fn append_aside(tx: &Transaction<'_>, event: &Event) -> Result<Seq> {
    let seq = append(tx, event)?;
    // A projection that was up to date still is.
    tx.execute("UPDATE ledger SET projected_to = ?1 WHERE projected_to = ?1 - 1", [seq])?;
    Ok(seq)
}

/// Hands every event to `each`, in order.
pub(crate) fn events(conn: &Connection, each: &mut dyn FnMut(Event)) -> Result<()> {
    lines(conn, &mut |_, line| {
        if let Some(event) = Event::read(line) {
            each(event);
        }
    })
}

/// Hands every line to `each`, in order. Opens each chunk at most once.
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
