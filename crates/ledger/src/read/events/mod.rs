//! The events of a ledger, read from the ledger itself: what followed from each record, in the
//! order of commits.
//!
//! The ledger is the queue. A subscriber is a [`Cursor`]: reading continues after it without
//! a gap or a double, at any later time. A record is read once it is projected, so a frame names
//! turns and leaves. Records that are forgotten, and those from which nothing followed, have no
//! frame. `changes` finds what followed from one record, `filter` chooses frames, and
//! `entries` adds the entries themselves.

mod changes;
mod cursor;
mod entries;
mod filter;
mod sessions;

use std::sync::Arc;

use rusqlite::Connection;

pub use cursor::{BadCursor, Cursor, Start};
pub use filter::{EventFilter, UnknownType};
pub use sessions::EventSession;

use self::changes::Changes;
use self::entries::Entries;
use crate::base::ids::{GenerationId, Seq, SessionRow, SourceId};
use crate::file::ledger::Ledger;
use crate::file::snapshot::Snapshot;
use crate::project::rebuild;
use crate::read::query::complete::complete;
use crate::read::query::find;
use crate::wire::{EventChange, EventFrame};
use crate::{Error, Result};

/// The largest number of records that one call of [`frames_after`] reads.
const MAX_RECORDS: usize = 512;

/// The largest number of records that one call reads with their entries.
const MAX_RECORDS_WITH_ENTRIES: usize = 64;

/// The largest number of changes of one frame.
const MAX_CHANGES: usize = 256;

/// The largest length of a text in a frame, in bytes. Names in transcripts can have any length.
const MAX_TEXT_BYTES: usize = 512;

/// One record with everything that followed from it.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The position after it.
    pub cursor: Cursor,
    /// The session, if it concerns exactly one.
    pub session: Option<Arc<EventSession>>,
    /// The frame as it is written.
    pub wire: EventFrame,
}

/// The frames after a cursor.
#[derive(Debug, Clone)]
pub struct Frames {
    /// The frames, in order.
    pub frames: Vec<Frame>,
    /// The position after everything that was read: at or after the last frame.
    pub after: Cursor,
    /// True if more records can be read at once.
    pub has_more: bool,
    /// True while a rebuild has not come to the cursor yet.
    pub is_behind: bool,
}

/// A record whose changes are read.
struct Record {
    seq: Seq,
    generation: GenerationId,
    length: u64,
    source: SourceId,
}

/// Returns the position at which a subscriber begins; `None` if its cursor is not one of this
/// ledger, so that it has to start over.
pub fn begin(ledger: &Ledger, start: &Start) -> Result<Option<Cursor>> {
    let _snapshot = Snapshot::of(ledger.conn())?;
    let now = now(ledger.conn())?;
    Ok(match start {
        Start::Now => Some(now),
        Start::Beginning => Some(now.at(Seq(0))),
        Start::After(cursor) => now.includes(cursor).then(|| cursor.clone()),
    })
}

/// Returns the position up to which frames can be read.
pub fn projected(ledger: &Ledger) -> Result<Cursor> {
    let _snapshot = Snapshot::of(ledger.conn())?;
    Ok(now(ledger.conn())?.at(projected_to(ledger.conn())?))
}

/// Returns the last projected record. While a rebuild by another version runs, there is none.
fn projected_to(conn: &Connection) -> Result<Seq> {
    Ok(rebuild::projected(conn)?.map_or(Seq(0), |projected| Seq(projected.to)))
}

/// Returns the session with this name, as frames name it: its id or an unambiguous prefix of it, a
/// key that leads to it, or `last`.
pub fn session(ledger: &Ledger, name: &str) -> Result<Arc<EventSession>> {
    complete(ledger, &mut |conn| {
        let found = sessions::by_row(conn, find::session(conn, name)?)?;
        found.map(Arc::new).ok_or_else(|| Error::NoMatch { what: "session", name: name.to_owned() })
    })
}

/// Returns the session with this row, as frames name it; `None` if it was forgotten.
pub fn session_at(ledger: &Ledger, row: SessionRow) -> Result<Option<EventSession>> {
    sessions::by_row(ledger.conn(), row)
}

/// Returns the position after the last record.
fn now(conn: &Connection) -> Result<Cursor> {
    let epoch: String =
        conn.prepare_cached("SELECT epoch FROM ledger")?.query_row([], |row| row.get(0))?;
    Ok(Cursor::new(&epoch, Seq(rebuild::last_record(conn)?)))
}

/// Returns the frames after a cursor, as far as they are projected; `None` if the cursor is not one
/// of this ledger. Reads at most a few hundred records. `with_entries` adds the entries themselves.
pub fn frames_after(ledger: &Ledger, after: &Cursor, with_entries: bool) -> Result<Option<Frames>> {
    let conn = ledger.conn();
    let _snapshot = Snapshot::of(conn)?;
    if !now(conn)?.includes(after) {
        return Ok(None);
    }
    let projected = projected_to(conn)?;
    if projected <= after.seq() {
        let (after, is_behind) = (after.clone(), projected < after.seq());
        return Ok(Some(Frames { frames: Vec::new(), after, has_more: false, is_behind }));
    }
    let limit = if with_entries { MAX_RECORDS_WITH_ENTRIES } else { MAX_RECORDS };
    let records = records(conn, after.seq(), projected, limit)?;
    let is_whole = records.len() < limit;
    let end = records.last().filter(|_| !is_whole).map_or(projected, |record| record.seq);
    let mut entries = with_entries.then(|| Entries::new(ledger));
    let mut changes = Changes::new(conn);
    let mut frames = Vec::new();
    for record in &records {
        let Some(mut found) = changes.of(record)? else { continue };
        if let Some(entries) = &mut entries {
            entries.add(record, &mut found)?;
        }
        let cursor = after.at(record.seq);
        frames.push(found.into_frame(cursor));
    }
    Ok(Some(Frames { frames, after: after.at(end), has_more: !is_whole, is_behind: false }))
}

fn records(conn: &Connection, after: Seq, until: Seq, limit: usize) -> Result<Vec<Record>> {
    let mut statement = conn.prepare_cached(
        "SELECT r.seq, r.generation, r.length, g.source
           FROM records r CROSS JOIN generations g ON g.id = r.generation
          WHERE r.seq > ?1 AND r.seq <= ?2 ORDER BY r.seq LIMIT ?3",
    )?;
    let rows = statement.query_map((after, until, limit as i64), |row| {
        Ok(Record {
            seq: row.get(0)?,
            generation: row.get(1)?,
            length: row.get::<_, i64>(2)?.cast_unsigned(),
            source: row.get(3)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns a text as a frame has it: a long one is cut.
fn short(text: &str) -> String {
    if text.len() <= MAX_TEXT_BYTES {
        return text.to_owned();
    }
    let kept = text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or_default();
    format!("{kept}…")
}

/// Returns a frame for a change that is not stored, such as the start of a compaction. Its wire form
/// has no cursor.
pub fn passing_frame(
    ledger: &Ledger,
    session_id: &str,
    time: i64,
    change: EventChange,
) -> Result<Frame> {
    let conn = ledger.conn();
    let _snapshot = Snapshot::of(conn)?;
    let session = sessions::native(conn, session_id)?;
    let cursor = now(conn)?;
    let wire = changes::wire(session.as_deref(), None, Some(time), vec![change]);
    Ok(Frame { cursor, session, wire })
}
