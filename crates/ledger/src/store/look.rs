//! What can be asked about any session without writing: where it stands, where its branches end, what
//! is noted about it. Collected sessions answer too, and so does a ledger that can only be read.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;

use super::tree::{self, Branch};
use super::{Fields, Store, fork, meta as notes, sessions};
use crate::base::ids::SessionRow;
use crate::base::sidecar::beside;
use crate::file::ledger::Ledger;
use crate::file::owner::is_about_access;
use crate::project::rebuild;
use crate::read::query;
use crate::{Error, Result, Trouble};

/// Opens a ledger to look at its sessions, as it is at this moment. If the projection has not
/// followed what was appended and the ledger is in use, it is brought up to that first; a copy is
/// read as it is. The second value is true if it still lacks something: it cannot be written to.
pub fn open(path: &Path) -> Result<(Ledger, bool)> {
    let mut last = None;
    open_when(path, &mut |conn| {
        let last = match last {
            Some(last) => last,
            None => *last.insert(rebuild::last(conn)?),
        };
        // Stops at the record seen first, so that a busy appender cannot starve the reader.
        Ok(rebuild::projected(conn)?.is_some_and(|now| now.to >= last))
    })
}

/// The same, to read lines of a session: only the sessions have to be in the projection.
pub fn open_for_lines(path: &Path) -> Result<(Ledger, bool)> {
    open_when(path, &mut rebuild::knows_sessions)
}

/// Opens a ledger for reading, in one state that is good enough.
fn open_when(
    path: &Path,
    is_enough: &mut dyn FnMut(&Connection) -> Result<bool>,
) -> Result<(Ledger, bool)> {
    loop {
        let ledger = Ledger::open_read_only(path)?;
        ledger.hold()?;
        if is_enough(ledger.conn())? {
            return Ok((ledger, false));
        }
        if !beside(path, "-wal").exists() {
            return Ok((ledger, true));
        }
        match Store::open(path).and_then(|mut store| store.settle()) {
            // A process that may not write, or has no room to, reads what there is.
            Err(error) if is_about_access(&error) || error.trouble() == Trouble::DiskFull => {
                return Ok((ledger, true));
            }
            settled => settled?,
        }
    }
}

/// Whether the projection lacks what was appended last: then branches, labels and notes do, too.
fn is_behind(ledger: &Ledger) -> Result<bool> {
    Ok(rebuild::projected(ledger.conn())?.is_none_or(|projected| projected.lag() > 0))
}

/// The id of a session's leaf; of a collected session, as its agent's own reader finds it. `None`:
/// nothing was said yet, or it stands before the first entry.
pub fn leaf(ledger: &Ledger, session: SessionRow) -> Result<Option<String>> {
    let conn = ledger.conn();
    match sessions::by_row(conn, session) {
        // Otherwise its lines say what the projection does not say yet.
        Ok(_) if !is_behind(ledger)? => Ok(tree::leaf(conn, session)?.map(|leaf| leaf.id)),
        Ok(_) | Err(Error::Collected { .. }) => {
            Ok(query::context(ledger, session, None)?.context.leaf)
        }
        Err(error) => Err(error),
    }
}

/// The tips of a session's tree, oldest first.
pub fn branches(ledger: &Ledger, session: SessionRow) -> Result<Vec<Branch>> {
    let mut branches = tree::branches(ledger.conn(), session, None)?;
    let leaf = leaf(ledger, session)?;
    for branch in &mut branches {
        branch.is_current = Some(&branch.tip.id) == leaf.as_ref();
    }
    Ok(branches)
}

/// A label of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Label {
    /// The entry.
    pub target: String,
    /// What it is called.
    pub label: String,
}

/// The labels of a session's entries, in the order in which they were first given.
pub fn labels(ledger: &Ledger, session: SessionRow) -> Result<Vec<Label>> {
    let labels = fork::labels(ledger.conn(), session)?.into_iter();
    Ok(labels.map(|(target, label)| Label { target, label }).collect())
}

/// Everything that is noted about a session. Of a collected one that is what its agent notes, and
/// what the ledger counts besides.
pub fn meta(ledger: &Ledger, session: SessionRow) -> Result<Fields> {
    let conn = ledger.conn();
    match sessions::by_row(conn, session) {
        Ok(native) => notes::of(conn, &native),
        Err(Error::Collected { id, .. }) => {
            let mut fields = Fields::default();
            notes::count(conn, session, &id, None, &mut fields)?;
            let noted: Option<String> = conn
                .prepare_cached(
                    "SELECT k.fields FROM sessions s
                       JOIN session_keys k
                         ON k.session_id = s.session_id AND k.format = s.format
                        AND k.agent = s.agent
                      WHERE s.id = ?1 ORDER BY k.updated_at DESC LIMIT 1",
                )?
                .query_row([session], |row| row.get(0))
                .optional()?;
            let noted: Option<Fields> = noted.and_then(|noted| serde_json::from_str(&noted).ok());
            fields.change(&noted.unwrap_or_default());
            Ok(fields)
        }
        Err(error) => Err(error),
    }
}
