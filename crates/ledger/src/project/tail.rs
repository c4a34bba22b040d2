//! Provisional entries: the content of a complete last line that has no newline yet.
//!
//! They are shown and found, but never a parent, and nothing counts them before the newline comes.

use quipu_transcript::format;
use quipu_transcript::problem::ProblemKind;
use quipu_transcript::record::DECODE_LIMIT;
use rusqlite::{Connection, OptionalExtension, Transaction};

use super::draft::{DraftEntry, Drafter};
use super::rows::{Inserts, TreePosition};
use super::source_state;
use crate::Result;
use crate::base::ids::{EntryId, GenerationId, SessionRow, SourceId};
use crate::project::interned::kinds;
use crate::truth::tails;

/// The largest length of a shown tail, in bytes. Only the head of a longer line is read, which does
/// not show whether the line is complete.
const MAX_TAIL_BYTES: u64 = DECODE_LIMIT as u64;

/// The content of a tail.
struct TailContent {
    source: SourceId,
    entry: DraftEntry,
}

/// Reads the tail of a generation. Returns `None` if it is incomplete or may still change.
fn read(conn: &Connection, generation: GenerationId) -> Result<Option<TailContent>> {
    let found = conn
        .prepare_cached(
            "SELECT s.id, s.format, s.first_path
               FROM generations g JOIN sources s ON s.id = g.source AND s.generation = g.id
              WHERE g.id = ?1 AND g.tail_stands = 1 AND g.tail_length BETWEEN 1 AND ?2
                AND s.is_gone = 0",
        )?
        .query_row((generation, MAX_TAIL_BYTES as i64), |row| {
            Ok((row.get::<_, SourceId>(0)?, row.get::<_, String>(1)?, row.get::<_, Vec<u8>>(2)?))
        })
        .optional()?;
    let Some((source, format_name, path)) = found else { return Ok(None) };
    let Some(format) = format::by_name(&format_name) else { return Ok(None) };
    let origin = format.origin(&path);
    let mut draft = Drafter::new(format, &origin).draft(&tails::read(conn, generation)?);
    if draft.entries.len() != 1
        || draft.problems.iter().any(|problem| means_incomplete(problem.kind))
    {
        return Ok(None);
    }
    let Some(mut entry) = draft.entries.pop() else { return Ok(None) };
    if let Some(usage) = entry.usage.as_deref_mut()
        && usage.model.model.is_empty()
        && let Some(model) = source_state::model(conn, source)?
    {
        usage.model = model;
    }
    Ok(Some(TailContent { source, entry }))
}

/// Returns whether a line with this problem is incomplete. Any other problem, like half a
/// character, remains when the newline comes.
fn means_incomplete(kind: ProblemKind) -> bool {
    matches!(kind, ProblemKind::Opaque | ProblemKind::Fragment | ProblemKind::Oversize)
}

/// Updates the provisional entry of a generation.
pub(crate) fn project(tx: &Transaction<'_>, generation: GenerationId) -> Result<()> {
    remove(tx, generation)?;
    let Some(TailContent { source, mut entry }) = read(tx, generation)? else { return Ok(()) };
    // The later record with the same id must not be taken for a repetition.
    entry.uuid = None;
    let id = EntryId::provisional(generation);
    // The entry joins the session of the records before it. It never creates one, because a session
    // is numbered by its first record. The only line of a file is therefore searchable, but has no
    // session until it ends.
    let state: Option<(Option<SessionRow>, Option<EntryId>, Option<EntryId>)> = tx
        .prepare_cached("SELECT session, last_entry, last_turn FROM source_tips WHERE source = ?1")?
        .query_row([source], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let (session, parent, turn) = state.unwrap_or_default();
    let tree_position = TreePosition { session, parent, missing: None, turn };
    let kind = kinds::add_provisional(tx, id, &entry.kind)?;
    let mut inserts = Inserts::new(tx)?;
    inserts.entry(id, kind, &tree_position, &entry)?;
    inserts.message(id, &tree_position, &entry)?;
    inserts.words(tx, id, &entry)
}

/// Removes the provisional entry of a generation.
pub(crate) fn remove(tx: &Transaction<'_>, generation: GenerationId) -> Result<()> {
    let id = EntryId::provisional(generation);
    let removed = tx.prepare_cached("DELETE FROM entry_rows WHERE id = ?1")?.execute([id])?;
    if removed > 0 {
        kinds::remove_provisional(tx, id)?;
        tx.prepare_cached("DELETE FROM message_texts WHERE id = ?1")?.execute([id])?;
        tx.prepare_cached("DELETE FROM search WHERE rowid = ?1")?.execute([id])?;
        tx.prepare_cached("DELETE FROM partly_indexed WHERE entry = ?1")?.execute([id])?;
    }
    Ok(())
}
