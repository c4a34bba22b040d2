//! Finds the entry that a record repeats, and replaces an older version of one.

use rusqlite::{OptionalExtension, Transaction};

use crate::Result;
use crate::base::ids::{EntryId, SessionRow};
use crate::project::draft::{Detail, DraftEntry};
use crate::project::session::Session;
use crate::project::source_state::SourceState;
use crate::project::tree::KnownEntry;
use crate::project::{RecordPosition, tools};

/// Returns the entry that this one repeats. An entry with a known id is a repetition if its content
/// is the same; otherwise it is a newer version of `older`. A line that the session has elsewhere is
/// a repetition too, even without an id.
pub(super) fn repeated(
    tx: &Transaction<'_>,
    position: &RecordPosition<'_>,
    state: &SourceState,
    entry: &DraftEntry,
    older: Option<KnownEntry>,
    same_as: Option<EntryId>,
    session: SessionRow,
) -> Result<Option<KnownEntry>> {
    let is_same = |known: &KnownEntry| known.content == entry.content;
    if let Some(known) = older.filter(is_same) {
        return Ok(Some(known));
    }
    Ok(match first_sighting(tx, same_as, Some(session))? {
        None if begins_source(position, state, entry) => first_entry(tx, session)?.filter(is_same),
        seen => seen,
    })
}

/// Returns the entry of the record with the same bytes, if it belongs to the same session.
pub(super) fn first_sighting(
    tx: &Transaction<'_>,
    same_as: Option<EntryId>,
    session: Option<SessionRow>,
) -> Result<Option<KnownEntry>> {
    let Some(holder) = same_as else { return Ok(None) };
    Ok(tx
        .prepare_cached(
            "SELECT id, content, turn FROM entry_rows
              WHERE id = coalesce((SELECT entry FROM sightings WHERE seq = ?1), ?1)
                AND session IS ?2",
        )?
        .query_row((holder, session), |row| {
            Ok(KnownEntry { id: row.get(0)?, content: row.get(1)?, turn: row.get(2)? })
        })
        .optional()?)
}

/// Returns whether an entry is the first header of its source.
fn begins_source(position: &RecordPosition<'_>, state: &SourceState, entry: &DraftEntry) -> bool {
    let had_header = state.has_header && state.generation == position.generation;
    matches!(entry.detail, Detail::Header) && !had_header
}

/// Returns the first entry of a session: its header, where it has one. A header has no id by which
/// it could be found.
fn first_entry(tx: &Transaction<'_>, session: SessionRow) -> Result<Option<KnownEntry>> {
    Ok(tx
        .prepare_cached("SELECT id, content, turn FROM entry_rows WHERE id = ?1 AND session = ?1")?
        .query_row([session], |row| {
            Ok(KnownEntry { id: row.get(0)?, content: row.get(1)?, turn: row.get(2)? })
        })
        .optional()?)
}

/// Notes that a record repeats an entry.
pub(super) fn insert_sighting(tx: &Transaction<'_>, id: EntryId, entry: EntryId) -> Result<()> {
    tx.prepare_cached("INSERT OR IGNORE INTO sightings (seq, entry) VALUES (?1, ?2)")?
        .execute((id, entry))?;
    Ok(())
}

/// Replaces the older version of an entry: only the newest version is shown and counted.
pub(super) fn supersede(
    at: tools::CallContext<'_>,
    session: &mut Session,
    older: KnownEntry,
) -> Result<()> {
    session.columns.tool_calls -= session.calls.withdraw(at, older.id)?;
    let messages =
        at.conn.prepare_cached("DELETE FROM message_texts WHERE id = ?1")?.execute([older.id])?;
    session.columns.messages -= messages as i64;
    let compactions =
        at.conn.prepare_cached("DELETE FROM compaction_rows WHERE id = ?1")?.execute([older.id])?;
    session.columns.compactions -= compactions as i64;
    for delete in [
        "DELETE FROM custom_entries WHERE id = ?1",
        "DELETE FROM label_rows WHERE id = ?1",
        "DELETE FROM model_changes WHERE id = ?1",
        "DELETE FROM thinking_levels WHERE id = ?1",
    ] {
        at.conn.prepare_cached(delete)?.execute([older.id])?;
    }
    at.conn
        .prepare_cached("UPDATE entry_rows SET superseded_by = ?2 WHERE id = ?1")?
        .execute((older.id, at.entry))?;
    Ok(())
}
