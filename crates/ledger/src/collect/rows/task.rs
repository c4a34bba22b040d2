//! Lists the work in a database: its sessions and its archived transcripts.
//!
//! Reads ids, numbers and names. Reads only one kind of event: the last one that was collected of a
//! session, to see whether it changed.

use std::collections::{HashMap, HashSet};

use quipu_transcript::format::{Format, Part};
use quipu_transcript::rows;
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::archive::Archive;
use super::refusal::{Refusal, Stop, theirs};
use super::session::{self, Session};
use super::tables::Tables;
use crate::Result;
use crate::collect::known::KnownSource;
use crate::collect::select::Selection;

/// The largest number of bytes shown of an id that cannot name a file.
const MAX_LABEL_BYTES: usize = 60;

/// A session or an archive of a database, with the reason if it is not read.
pub(super) struct Task {
    pub(super) path: Vec<u8>,
    pub(super) transcript: Transcript,
    /// The reason why it is not read.
    pub(super) refusal: Option<Refusal>,
    /// The reason why a setting leaves it out.
    pub(super) left_out: Option<&'static str>,
}

pub(super) enum Transcript {
    Session(Session),
    Archive(Archive),
}

impl Task {
    /// Returns whether the ledger has all of it, judging by numbers and names only.
    pub(super) fn is_done(&self, known: &KnownSource, tables: &Tables) -> bool {
        let Some(rows) = &known.rows else { return false };
        // Without names of generations, the numbers do not show a rewrite. The session then goes to
        // the reader, which compares its last row.
        !known.is_gone
            && known.stat.size == known.cursor
            && match &self.transcript {
                Transcript::Session(session) => {
                    tables.has_watermarks() && session.is_as_known(rows)
                }
                Transcript::Archive(archive) => rows.rewrite == archive.hash,
            }
    }
}

impl Task {
    /// Returns whether the last collected row of a session still has the same bytes. Returns true
    /// for an archive: [`Task::is_done`] has compared its hash.
    pub(super) fn has_same_end(
        &self,
        known: &KnownSource,
        conn: &Connection,
        tables: &Tables,
        verified: &mut u64,
    ) -> Result<bool, Stop> {
        match (&self.transcript, &known.rows) {
            (Transcript::Session(session), Some(rows)) => {
                session.has_same_end(known, rows, conn, tables, verified)
            }
            _ => Ok(true),
        }
    }
}

/// Returns the number of sessions and archives. A session with unreadable rows has two tasks but
/// counts once. Tasks with the path of the database itself are counted one by one.
pub(super) fn count(tasks: &[Task], database: &[u8]) -> usize {
    let paths = tasks.iter().map(|task| task.path.as_slice());
    let (unnamed, named): (Vec<&[u8]>, Vec<&[u8]>) = paths.partition(|path| *path == database);
    unnamed.len() + named.into_iter().collect::<HashSet<_>>().len()
}

/// Returns the sessions and archives of a database. Sessions come first, since archives repeat
/// their lines.
pub(super) fn all(
    conn: &Connection,
    tables: &Tables,
    database: &[u8],
    format: &'static dyn Format,
    selection: Selection,
    is_forgotten: &dyn Fn(&str) -> bool,
) -> Result<Vec<Task>, Stop> {
    let mut watermarks: HashMap<String, String> = HashMap::new();
    if tables.has_watermarks() {
        let mut statement = conn.prepare(&tables.watermarks()).map_err(theirs)?;
        let rows = statement
            .query_map([], |row| {
                Ok((session::text(row.get_ref(0)?)?, session::text(row.get_ref(1)?)?))
            })
            .map_err(theirs)?;
        for row in rows {
            let (session, rewrite) = row.map_err(theirs)?;
            watermarks.insert(session, rewrite);
        }
    }
    let mut tasks = Vec::new();
    let mut statement = conn.prepare(&tables.sessions()).map_err(theirs)?;
    let mut rows = statement.query([]).map_err(theirs)?;
    while let Some(row) = rows.next().map_err(theirs)? {
        // No agent writes an id that is not text, or one that is too long for a file's name.
        let id_value = row.get_ref(0).map_err(theirs)?;
        let id = id_value.as_str().ok().map(str::to_owned);
        let name = id.as_deref().and_then(rows::file_name);
        let numbered: i64 = row.get(2).map_err(theirs)?;
        let all: i64 = row.get(3).map_err(theirs)?;
        let last_row = row.get::<_, Option<i64>>(1).map_err(theirs)?;
        let mut path = database.to_vec();
        let (Some(id), Some(name)) = (id, name) else {
            let why = "a session whose id cannot name a file; not read";
            tasks.push(Task::refused(named(database, &label(id_value)), why));
            continue;
        };
        if is_forgotten(&id) {
            continue;
        }
        path.extend_from_slice(format!("/{name}.jsonl").as_bytes());
        if numbered < all {
            let why = "rows without a valid number; not read";
            tasks.push(Task::refused(path.clone(), why));
        }
        let Some(last_row) = last_row else { continue };
        let rewrite = watermarks.remove(&id).unwrap_or_default();
        let transcript = Transcript::Session(Session { id, last_row, rows: numbered, rewrite });
        tasks.push(Task { path, transcript, refusal: None, left_out: None });
    }
    let mut archives = Vec::new();
    let mut taken = HashSet::new();
    for archive in Archive::all(conn, tables)? {
        if is_forgotten(&archive.session) {
            continue;
        }
        let session = archive.session.clone();
        let task = match archive.path(format, database, &mut taken) {
            Some(path) => Task {
                left_out: selection.leaves_out(format, &path, Part::Transcript),
                path,
                transcript: Transcript::Archive(archive),
                refusal: None,
            },
            None => Task::refused(
                named(database, &label(ValueRef::Text(archive.session.as_bytes()))),
                "an archive of a session whose id cannot name a file; not read",
            ),
        };
        archives.push((session, task));
    }
    // Sorted by session: the lines of one session stay in memory while all its archives are read.
    archives.sort_by(|(one, _), (other, _)| one.cmp(other));
    tasks.extend(archives.into_iter().map(|(_, task)| task));
    Ok(tasks)
}

/// Returns a readable form of an id that cannot name a file: unsafe bytes are percent-encoded. A
/// long id is cut, with its length and a short hash added.
fn label(id: ValueRef<'_>) -> String {
    let bytes = match id {
        ValueRef::Null => return "(no id)".to_owned(),
        ValueRef::Integer(number) => return format!("(the number {number})"),
        ValueRef::Real(number) => return format!("(the number {number})"),
        ValueRef::Text([]) | ValueRef::Blob([]) => return "(an empty id)".to_owned(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
    };
    let mut label = String::new();
    for byte in bytes.iter().take(MAX_LABEL_BYTES) {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'.' | b':' => {
                label.push(char::from(*byte));
            }
            _ => label.push_str(&format!("%{byte:02X}")),
        }
    }
    if bytes.len() > MAX_LABEL_BYTES {
        let hash = blake3::hash(bytes).to_hex();
        let hash = hash.get(..8).unwrap_or_default();
        label.push_str(&format!("… ({} bytes, {hash})", bytes.len()));
    }
    label
}

fn named(database: &[u8], label: &str) -> Vec<u8> {
    [database, b"/", label.as_bytes()].concat()
}

impl Task {
    fn refused(path: Vec<u8>, why: &str) -> Task {
        let session = Session { id: String::new(), last_row: 0, rows: 0, rewrite: String::new() };
        Task {
            path,
            transcript: Transcript::Session(session),
            refusal: Some(Refusal::lasting(why)),
            left_out: None,
        }
    }
}
