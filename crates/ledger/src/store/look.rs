//! Reads the state of a session: its leaf, its branches, its labels and its metadata.
//!
//! Never writes to the session. Also works for collected sessions and for a read-only ledger.

use std::path::Path;
use std::time::Instant;

use quipu_transcript::formats::openclaw::whole_index;
use rusqlite::{Connection, OptionalExtension};

use super::tree::{self, Branch};
use super::{Fields, Store, fork, meta, sessions};
use crate::base::ids::{SessionRow, SourceId};
use crate::base::sidecar::beside;
use crate::file::ledger::Ledger;
use crate::file::owner::is_about_access;
use crate::project::rebuild;
use crate::read::query;
use crate::truth::indexes;
use crate::wire::Label;
use crate::{Error, Result, Trouble};

/// Opens one snapshot of a ledger for reading the state of its sessions.
///
/// If the ledger has a write-ahead log and its projection lags behind, the missing records are
/// projected first. A ledger without one, such as a backup, is read as it is. The second value is
/// true if records are missing from the snapshot.
pub fn open_projected(path: &Path) -> Result<(Ledger, bool)> {
    let mut last = None;
    open_when(path, &mut |conn| {
        let last = match last {
            Some(last) => last,
            None => *last.insert(rebuild::last_record(conn)?),
        };
        // Stops at the record seen first, so that a busy appender cannot starve the reader.
        Ok(rebuild::projected(conn)?.is_some_and(|now| now.to >= last))
    })
}

/// Opens one snapshot of a ledger for reading lines of a session, like [`open_projected`]. Only the
/// sessions must be projected, not their entries.
pub fn open_for_lines(path: &Path) -> Result<(Ledger, bool)> {
    open_when(path, &mut rebuild::has_all_sessions)
}

/// Returns whether the projection has every session. Lines appended last may be missing.
pub fn has_all_sessions(ledger: &Ledger) -> Result<bool> {
    rebuild::has_all_sessions(ledger.conn())
}

/// Opens a read-only snapshot for which `is_enough` returns true. If there is none in time, returns
/// the newest snapshot and true.
fn open_when(
    path: &Path,
    is_enough: &mut dyn FnMut(&Connection) -> Result<bool>,
) -> Result<(Ledger, bool)> {
    let mut may_write = true;
    let began = Instant::now();
    loop {
        let ledger = Ledger::open_read_only(path)?;
        ledger.hold_snapshot()?;
        let is_enough = is_enough(ledger.conn())?;
        if is_enough || !may_write || !beside(path, "-wal").exists() {
            return Ok((ledger, !is_enough));
        }
        if began.elapsed() >= ledger.longest_catch_up() {
            return Err(rebuild::behind_error(&ledger)?);
        }
        // A process that truncates the log holds SQLite's write lock and waits for this snapshot.
        drop(ledger);
        match Store::open(path).and_then(|store| store.catch_up()) {
            // Without permission or disk space for writing, the ledger is read as it is.
            Err(error) if is_about_access(&error) || error.trouble() == Trouble::DiskFull => {
                may_write = false;
            }
            caught_up => caught_up?,
        }
    }
}

/// Returns whether the projection lacks appended records. Then branches, labels and metadata lack
/// them too.
fn is_behind(ledger: &Ledger) -> Result<bool> {
    Ok(rebuild::projected(ledger.conn())?.is_none_or(|projected| projected.lag() > 0))
}

/// Returns the id of a session's leaf. For a collected session, its agent's own reader determines
/// the leaf. `None` if there is no entry yet, or if the leaf is before the first entry.
pub fn leaf_of(ledger: &Ledger, session: SessionRow) -> Result<Option<String>> {
    let conn = ledger.conn();
    match sessions::by_row(conn, session) {
        // If records are missing from the projection, the leaf is read from the lines.
        Ok(_) if !is_behind(ledger)? => Ok(tree::leaf(conn, session)?.map(|leaf| leaf.id)),
        Ok(_) | Err(Error::Collected { .. }) => {
            Ok(query::context_of(ledger, session, None)?.context.leaf)
        }
        Err(error) => Err(error),
    }
}

/// Returns the branches of a session's tree, oldest first.
pub fn branches_of(ledger: &Ledger, session: SessionRow) -> Result<Vec<Branch>> {
    let mut branches = tree::branches(ledger.conn(), session, None)?;
    let leaf = leaf_of(ledger, session)?;
    for branch in &mut branches {
        branch.is_current = Some(&branch.tip.id) == leaf.as_ref();
    }
    Ok(branches)
}

/// Returns the labels of a session's entries, in the order in which they were first given.
pub fn labels_of(ledger: &Ledger, session: SessionRow) -> Result<Vec<Label>> {
    fork::labels(ledger.conn(), session)
}

/// Returns the metadata of a session. For a collected session, that is the metadata of its agent
/// plus the counts of the ledger.
pub fn meta_of(ledger: &Ledger, session: SessionRow) -> Result<Fields> {
    let conn = ledger.conn();
    match sessions::by_row(conn, session) {
        Ok(native) => meta::of(conn, &native),
        Err(Error::Collected { id, .. }) => {
            let mut fields = Fields::default();
            meta::add_counts(conn, session, &id, None, &mut fields)?;
            let key: Option<(SourceId, String, String)> = conn
                .prepare_cached(
                    "SELECT k.source, k.key, k.fields FROM sessions s
                       JOIN session_keys k
                         ON k.session_id = s.session_id AND k.format = s.format
                        AND k.agent = s.agent
                      WHERE s.id = ?1 ORDER BY k.updated_at DESC LIMIT 1",
                )?
                .query_row([session], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .optional()?;
            let Some((source, key, projected)) = key else { return Ok(fields) };
            // Reports and long values exist only in the bytes of the index.
            let index = indexes::load(conn, source)?.map(|bytes| whole_index(&bytes));
            let bindings =
                index.as_ref().map(|index| index.bindings.as_slice()).unwrap_or_default();
            let noted = match bindings.iter().find(|binding| binding.key == key) {
                Some(binding) => Fields::of(binding),
                None => serde_json::from_str(&projected).unwrap_or_default(),
            };
            fields.change(&noted);
            Ok(fields)
        }
        Err(error) => Err(error),
    }
}
