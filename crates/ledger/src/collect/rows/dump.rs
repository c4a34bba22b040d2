//! Reads a whole database at once, for an import: writes the lines of all its sessions into one
//! temporary file, and returns the fields of its keys. Stores nothing about the database in the
//! ledger.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use quipu_transcript::format::{Archive as Why, Format};
use rusqlite::Connection;

use super::event::Event;
use super::index::index_document;
use super::open::{Database, DatabaseLocation};
use super::refusal::{Refusal, Stop, theirs};
use super::tables::Tables;
use super::task::{self, Transcript};
use super::{changed, private};
use crate::base::foreign::FileId;
use crate::collect::select::Selection;
use crate::{Error, Result};

/// The number of rows that one statement reads.
const PAGE_ROWS: i64 = 4096;

/// The contents of a database.
pub(crate) struct Dump {
    /// A temporary file with the lines of all sessions.
    pub(crate) lines: Arc<File>,
    pub(crate) sessions: Vec<Dumped>,
    /// The fields of its keys, in the form of `sessions.json`.
    pub(crate) keys: Option<Vec<u8>>,
    /// The names of transcripts that were not read, each with the reason.
    pub(crate) left_out: Vec<(String, String)>,
}

/// A session or an archived transcript in a [`Dump`].
pub(crate) struct Dumped {
    /// The name that its file would have, for example `<session>.jsonl`.
    pub(crate) name: String,
    pub(crate) session: String,
    pub(crate) archive: Option<Why>,
    /// The offset of its first line in [`Dump::lines`]. `end` is that of the byte after its last
    /// line.
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Reads the database at `path` under `root`. It must be the file `vetted` if it has several hard
/// links. `claimed` is the path at which `format` expects such a database. Temporary files are made
/// beside `ledger`.
pub(crate) fn dump(
    root: &Path,
    (path, vetted): (&Path, FileId),
    (format, claimed): (&'static dyn Format, &[u8]),
    ledger: &Path,
) -> Result<Dump> {
    private::sweep(ledger);
    let place = DatabaseLocation::find(root, path).map_err(Error::io("open", path))?;
    let read = Database::open(place, vetted, ledger, None);
    read.and_then(|database| all(&database, (format, claimed), ledger)).map_err(|stop| match stop {
        Stop::Theirs(Refusal { why, .. }) => Error::refused(why),
        Stop::Ours(error) => error,
        Stop::OutOfTime => Error::Stopped,
    })
}

fn all(
    database: &Database,
    (format, claimed): (&'static dyn Format, &[u8]),
    ledger: &Path,
) -> Result<Dump, Stop> {
    // One read transaction for everything. It may make the database's writer wait, unlike the short
    // pages of a sync.
    let conn = &*database.conn.unchecked_transaction().map_err(theirs)?;
    let tables = Tables::of(conn).map_err(theirs)?;
    if let Some(missing) = tables.missing() {
        return Err(Refusal::lasting(missing).into());
    }
    let folder = ledger.parent().unwrap_or(Path::new("/"));
    let failed = || Error::io("write to", folder);
    let file = tempfile::tempfile_in(folder).map_err(failed())?;
    let mut out = Counted { file: BufWriter::with_capacity(1 << 16, file), written: 0 };
    let mut dump = (Vec::new(), Vec::new());
    for task in task::all(conn, &tables, claimed, format, Selection::default(), &|_| false)? {
        let name = task.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        let start = out.written;
        let why = match (task.refusal, &task.transcript) {
            (Some(refusal), _) => Some(refusal.why),
            (None, Transcript::Session(session)) => {
                rows(conn, &tables, &session.id, &mut out)?;
                None
            }
            (None, Transcript::Archive(archive)) => {
                archive.copy(conn, &mut out)?.map(|why| format!("damaged: {why}"))
            }
        };
        if let Some(why) = why {
            dump.1.push((name, why));
            continue;
        }
        let origin = format.origin(&task.path);
        let session = origin.session.unwrap_or_default();
        let archive = origin.archive;
        dump.0.push(Dumped { name, session, archive, start, end: out.written });
    }
    let keys = index_document(conn, &tables)?;
    if !database.is_as_it_was() {
        return Err(changed().into());
    }
    let file = out.file.into_inner().map_err(|error| failed()(error.into_error()))?;
    Ok(Dump { lines: Arc::new(file), sessions: dump.0, keys, left_out: dump.1 })
}

/// Writes the rows of a session as lines.
fn rows(
    conn: &Connection,
    tables: &Tables,
    session: &str,
    out: &mut dyn Write,
) -> Result<(), Stop> {
    let mut statement = conn.prepare_cached(&tables.page()).map_err(theirs)?;
    let mut after = (i64::MIN, i64::MIN);
    loop {
        let mut rows = statement.query((session, after.0, after.1, PAGE_ROWS)).map_err(theirs)?;
        let mut count = 0;
        while let Some(row) = rows.next().map_err(theirs)? {
            let event = Event::of(row).map_err(theirs)?;
            after = (row.get(4).map_err(theirs)?, row.get(5).map_err(theirs)?);
            out.write_all(&event.line).map_err(full)?;
            count += 1;
        }
        if count < PAGE_ROWS {
            return Ok(());
        }
    }
}

/// Returns the error for a temporary file on the ledger's disk that cannot be written.
pub(super) fn full(error: std::io::Error) -> Stop {
    Stop::Ours(Error::io("write to", Path::new("a file without a name"))(error))
}

/// A file, and the number of bytes written.
struct Counted {
    file: BufWriter<File>,
    written: u64,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}
