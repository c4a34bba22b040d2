//! Restores collected files byte for byte. A compressed file is written decompressed; if it could
//! not be decompressed to its end, its compressed bytes are written as well. Never replaces a file:
//! an existing one with the same bytes is fine, any other is left alone and reported.

mod file;
mod names;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use quipu_transcript::format::{self, Format};
use rusqlite::{Connection, Row};

use crate::base::ids::{GenerationId, SessionRow, SourceId};
use crate::base::target::Target;
use crate::file::ledger::Ledger;
use crate::read::query::complete::complete;
use crate::read::query::{empty, find};
use crate::truth::forgotten::Forgotten;
use crate::truth::forgotten::shared_lines::{BlankLines, Judge};
use crate::wire::{MissingFile, RestoreReport, RestoredFile};
use crate::{Error, Result, Trouble};
pub(crate) use file::safe;
use file::{Bytes, Written, write};
use names::{Names, RestoredGeneration};

/// The files to restore.
#[derive(Debug, Clone, Copy)]
pub enum RestoreScope<'a> {
    /// Every collected file.
    All,
    /// The files of one session and of its sub-agents, by an unambiguous prefix of its id.
    Session(&'a str),
    /// The files with that name: a whole path, or the end of one (`MEMORY.md`, `cron/jobs.json`).
    Source(&'a Path),
}

/// The generations of a file to restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generations {
    /// The newest one, under the file's own name.
    Newest,
    /// This one, under the file's own name.
    Number(i64),
    /// All of them. Older ones are named `<name>.generation-<number>`, or go below `<format>.aside`
    /// if that name is taken or too long.
    All,
}

/// Selects every generation that has bytes to restore, with its source, by source and number.
const GENERATIONS: &str = "
    SELECT s.id, s.format, s.root, s.path, g.id, g.number, g.mtime_ns, g.id = s.generation,
           s.kind = 'rows', g.cursor > 0, s.first_path, coalesce(d.is_kept, 0)
      FROM sources s JOIN generations g ON g.source = s.id
      LEFT JOIN damaged d ON d.generation = g.id
     WHERE s.refused IS NULL
       AND (s.kind IN ('file', 'native')
            -- A database itself has no bytes; its sessions have, and its index may.
            OR s.kind = 'rows' AND (g.cursor > 0 OR d.is_kept OR EXISTS (
                   SELECT 1 FROM indexes i WHERE i.source = s.id)))
     ORDER BY s.id, g.number";

impl RestoreScope<'_> {
    /// Returns the sources to restore; `None` for all.
    fn sources(&self, ledger: &Ledger) -> Result<Option<Vec<SourceId>>> {
        Ok(match *self {
            RestoreScope::All => None,
            RestoreScope::Session(name) => {
                Some(complete(ledger, &mut |conn| match find::session(conn, name) {
                    Err(Error::Empty { .. }) => empty::sources(conn, name),
                    session => sources_of(conn, session?),
                })?)
            }
            RestoreScope::Source(path) => Some(sources_at(ledger.conn(), path)?),
        })
    }
}

impl Generations {
    /// Returns whether the generation with this number is restored.
    fn include(self, number: i64, is_newest: bool) -> bool {
        match self {
            Generations::Newest => is_newest,
            Generations::Number(wanted) => number == wanted,
            Generations::All => true,
        }
    }
}

/// The suffix of a compressed file, which its decompressed form lacks.
const COMPRESSED: &[u8] = b".zst";

/// The name of a database's index, below the database's own name.
const INDEX: &str = "sessions.json";

/// Writes files under `to/<format>/<path relative to its root>`.
///
/// ```
/// use quipu_ledger::restore::{Generations, RestoreScope, restore};
/// use quipu_ledger::{Entry, Store};
///
/// # let folder = tempfile::tempdir()?;
/// # let store = Store::open(folder.path().join("ledger.db"))?;
/// store.session_or_new("agent:main:main")?.append(Entry::user("hello"))?;
/// let to = folder.path().join("restored");
/// let report = restore(&store.reader()?, RestoreScope::All, &to, Generations::Newest)?;
/// assert_eq!((report.files, report.unwritten_files.len()), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A file that cannot be written is listed in the report, and the others are restored. An existing
/// file with the same bytes is counted. So repeating the call completes an interrupted one.
pub fn restore(
    ledger: &Ledger,
    scope: RestoreScope<'_>,
    to: &Path,
    generations: Generations,
) -> Result<RestoreReport> {
    let conn = ledger.conn();
    let sources = scope.sources(ledger)?;
    let mut report = RestoreReport::default();
    let mut names = Names::new(conn)?;
    let mut target = None;
    let forgotten = Forgotten::load(conn)?;
    let mut statement = conn.prepare(GENERATIONS)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let source: SourceId = row.get(0)?;
        let format: String = row.get(1)?;
        let root: Vec<u8> = row.get(2)?;
        let path: Vec<u8> = row.get(3)?;
        // Folders are numbered before anything is left out, so that a root always has the same one.
        let folder = names.folder(&format, &root);
        let (generation, number): (GenerationId, i64) = (row.get(4)?, row.get(5)?);
        let is_newest: bool = row.get(7)?;
        if !generations.include(number, is_newest)
            || sources.as_ref().is_some_and(|sources| !sources.contains(&source))
        {
            continue;
        }
        let from_rows: bool = row.get(8)?;
        let is_compressed =
            !from_rows && format::by_name(&format).is_some_and(|f| f.is_compressed(&path));
        let to_restore = RestoredGeneration {
            source,
            format: &format,
            root: &root,
            path: &path,
            number,
            is_numbered: generations == Generations::All && !is_newest,
            from_rows,
            is_compressed,
            has_lines: row.get(9)?,
            is_damaged: row.get(11)?,
        };
        let was = String::from_utf8_lossy(&path).into_owned();
        let places = match names.places(&folder, &to_restore) {
            Ok(places) => places,
            Err(error) => {
                report.leave_out(&to.join(&folder).join(&was), number, error)?;
                continue;
            }
        };
        let first_path: Vec<u8> = row.get(10)?;
        let may_have_blanks = format::by_name(&format).is_some_and(|format| {
            Judge::new(&forgotten, format, &format.origin(&first_path)).is_some()
        });
        for place in places {
            let target = match &target {
                Some(target) => target,
                None => target.insert(Target::open(to).map_err(Error::io("open folder", to))?),
            };
            let whole = to.join(&place.path);
            let mut blanks = BlankLines::default();
            let content = (source, generation, place.bytes);
            let bytes = match write(conn, content, row.get(6)?, (target, &place.path), &mut blanks)
            {
                Ok(Written::Anew(bytes)) => bytes,
                Ok(Written::There(_)) => {
                    report.existing_files += 1;
                    continue;
                }
                Err(error) => {
                    report.leave_out(&whole, number, error)?;
                    continue;
                }
            };
            let as_found = place.bytes == Bytes::AsFound;
            let decompressed = is_compressed && !as_found;
            report.files += 1;
            report.decompressed_files += u64::from(decompressed);
            report.as_found_files += u64::from(as_found);
            report.bytes += bytes;
            report.written.push(RestoredFile {
                path: whole.display().to_string(),
                instead_of: place.instead_of.map(|name| to.join(name).display().to_string()),
                format: format.clone(),
                generation: number,
                bytes,
                is_decompressed: decompressed,
                is_as_found: as_found,
                is_from_rows: from_rows && !as_found,
                forgotten_lines: if may_have_blanks { blanks.count } else { 0 },
            });
        }
    }
    if let (Generations::Number(number), true) = (generations, report.is_empty()) {
        return Err(Error::NoMatch { what: "generation", name: number.to_string() });
    }
    Ok(report)
}

impl RestoreReport {
    /// Adds a file that cannot be restored to the report. An error that affects more than one file
    /// (of the ledger itself, or a full disk) is returned.
    fn leave_out(&mut self, path: &Path, generation: i64, error: Error) -> Result<()> {
        let path = path.display().to_string();
        if error.trouble() == Trouble::Damaged {
            let why = error.to_string();
            self.damaged_files.push(MissingFile { path, generation, reason: why });
            return Ok(());
        }
        match error {
            Error::Io { source, .. } if !is_full(&source) => {
                let why = source.to_string();
                self.unwritten_files.push(MissingFile { path, generation, reason: why });
                Ok(())
            }
            error => Err(error),
        }
    }
}

/// Returns whether no further file can be written.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The location of a session's transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptInPlace {
    /// The file.
    pub path: PathBuf,
    /// True if the file was gone and has been restored.
    pub restored: bool,
    /// Further files that were gone and have been restored: sub-agents, tool outputs, its
    /// title.
    pub others: Vec<PathBuf>,
}

/// Restores a session's files to the paths where its agent expects them, unless files are there.
/// Returns `None` if the session never had a transcript file.
pub fn restore_in_place(ledger: &Ledger, session: SessionRow) -> Result<Option<TranscriptInPlace>> {
    complete(ledger, &mut |conn| {
        let Some(mut place) = restore_in_place_from(conn, session)? else { return Ok(None) };
        let mut statement = conn.prepare(
            "SELECT s.id, g.id, s.root, s.path, g.mtime_ns, s.format
               FROM sources s JOIN generations g ON g.id = s.generation
              WHERE s.id = ?1 AND s.kind = 'file' AND s.refused IS NULL",
        )?;
        for source in sources_of(conn, session)? {
            let mut rows = statement.query([source])?;
            let Some(row) = rows.next()? else { continue };
            let file = restore_file_in_place(conn, row)?;
            place.others.extend(file.filter(|file| file.restored).map(|file| file.path));
        }
        Ok(Some(place))
    })
}

fn restore_in_place_from(
    conn: &Connection,
    session: SessionRow,
) -> Result<Option<TranscriptInPlace>> {
    let mut statement = conn.prepare(
        "SELECT s.id, g.id, s.root, s.path, g.mtime_ns, s.format
           FROM session_sources ss
           JOIN sources s ON s.id = ss.source
           JOIN generations g ON g.id = s.generation
          WHERE ss.session = ?1 AND s.kind = 'file' AND s.refused IS NULL
            AND ss.part IN ('transcript', 'agent')
          ORDER BY s.is_gone, g.mtime_ns DESC",
    )?;
    let mut rows = statement.query([session])?;
    while let Some(row) = rows.next()? {
        if let Some(place) = restore_file_in_place(conn, row)? {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// Restores one file, unless it is there. Returns `None` for an archive, which its agent does not
/// resume.
fn restore_file_in_place(conn: &Connection, row: &Row<'_>) -> Result<Option<TranscriptInPlace>> {
    let (root, path): (Vec<u8>, Vec<u8>) = (row.get(2)?, row.get(3)?);
    let format: String = row.get(5)?;
    let is_archive =
        |format: &dyn Format| format.is_compressed(&path) || format.origin(&path).archive.is_some();
    if format::by_name(&format).is_some_and(is_archive) {
        return Ok(None);
    }
    let (root, below) = (Path::new(OsStr::from_bytes(&root)), safe(&path)?);
    let path = root.join(&below);
    let mut place = TranscriptInPlace { path, restored: false, others: Vec::new() };
    if place.path.symlink_metadata().is_err() {
        let content = (row.get(0)?, row.get(1)?, Bytes::Lines);
        let blanks = &mut BlankLines::default();
        let root = Target::open(root).map_err(Error::io("open folder", root))?;
        let written = write(conn, content, row.get(4)?, (&root, &below), blanks)?;
        place.restored = matches!(written, Written::Anew(_));
    }
    Ok(Some(place))
}

/// Returns the sources of a session and of its sub-agents.
pub(crate) fn sources_of(conn: &Connection, session: SessionRow) -> Result<Vec<SourceId>> {
    let mut statement = conn.prepare(&format!(
        "{} SELECT DISTINCT ss.source
              FROM family JOIN session_sources ss ON ss.session = family.id
             WHERE ss.part <> 'prompt_history'",
        find::FAMILY
    ))?;
    Ok(statement.query_map([session], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// Returns the sources with that name in any root. Fails if there are none.
fn sources_at(conn: &Connection, name: &Path) -> Result<Vec<SourceId>> {
    let mut statement = conn.prepare(
        "SELECT id, root, path, first_path,
                kind = 'rows' AND EXISTS (SELECT 1 FROM indexes i WHERE i.source = sources.id)
           FROM sources
          WHERE kind <> 'journal' AND generation IS NOT NULL AND refused IS NULL",
    )?;
    let mut found = Vec::new();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let root = PathBuf::from(OsStr::from_bytes(
            row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?,
        ));
        for column in [2, 3] {
            let path = row.get_ref(column)?.as_blob().map_err(rusqlite::Error::from)?;
            let mut path = root.join(OsStr::from_bytes(path));
            let mut is_named = path.ends_with(name);
            if row.get(4)? {
                // The keys of a database have no file; this is their name here.
                path.push(INDEX);
                is_named |= path.ends_with(name);
            }
            if is_named {
                found.push(row.get(0)?);
                break;
            }
        }
    }
    if found.is_empty() {
        return Err(Error::NoMatch { what: "file", name: name.display().to_string() });
    }
    Ok(found)
}
