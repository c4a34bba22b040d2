//! Gives collected files back, byte for byte; those that were compressed, decompressed; those that
//! could not be decompressed to their end, also as they were. Only ever creates files; an existing one
//! is an error.

mod file;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use quipu_transcript::format;
use rusqlite::Connection;

use crate::forget::{BlankLines, Forgotten, Judge};
use crate::ids::{GenerationId, SessionRow, SourceId};
use crate::ledger::Ledger;
use crate::query::complete::complete;
use crate::query::{empty, find};
use crate::wire::{DamagedFile, RestoreReport, RestoredFile};
use crate::{Error, Result, Trouble};
pub(crate) use file::safe;
use file::{Bytes, write};

/// What to give back.
#[derive(Debug, Clone, Copy)]
pub enum What<'a> {
    /// Every file that was collected.
    All,
    /// The files of one session and of its sub-agents, by an unambiguous beginning of its id.
    Session(&'a str),
    /// The files of that name: a whole path, or the end of one (`MEMORY.md`, `cron/jobs.json`).
    Source(&'a Path),
}

/// Which lives of a file to give back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generations {
    /// The newest one, under the file's own name.
    Newest,
    /// This one, under the file's own name.
    Number(i64),
    /// All of them; older ones as `<name>.generation-<number>`.
    All,
}

/// What a compressed file is called behind the name that it is given back under.
const COMPRESSED: &[u8] = b".zst";

/// What the index in a database is called, below the database's own name.
const INDEX: &str = "sessions.json";

/// Writes files under `to/<format>/<path relative to its root>`.
pub fn restore(
    ledger: &Ledger,
    what: What<'_>,
    to: &Path,
    generations: Generations,
) -> Result<RestoreReport> {
    let conn = ledger.conn();
    let sources = match what {
        What::All => None,
        What::Session(name) => {
            Some(complete(ledger, &mut |conn| match find::session(conn, name) {
                Err(Error::Empty { .. }) => empty::sources(conn, name),
                session => sources_of(conn, session?),
            })?)
        }
        What::Source(path) => Some(sources_at(conn, path)?),
    };
    let mut report = RestoreReport::default();
    let mut folders = Folders::default();
    let forgotten = Forgotten::load(conn)?;
    let mut followed = conn.prepare(
        "SELECT EXISTS (SELECT 1 FROM sources WHERE format = ?1 AND root = ?2 AND path = ?3)",
    )?;
    let mut statement = conn.prepare(
        "SELECT s.id, s.format, s.root, s.path, g.id, g.number, g.mtime_ns, g.id = s.generation,
                s.kind = 'rows', g.cursor > 0, s.first_path, coalesce(d.is_kept, 0)
           FROM sources s JOIN generations g ON g.source = s.id
           LEFT JOIN damaged d ON d.generation = g.id
          WHERE s.refused IS NULL
            AND (s.kind IN ('file', 'native')
                 -- A database itself has no bytes; its sessions have, and its index may.
                 OR s.kind = 'rows' AND (g.cursor > 0 OR d.is_kept OR EXISTS (
                        SELECT 1 FROM indexes i WHERE i.source = s.id)))
          ORDER BY s.id, g.number",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let source: SourceId = row.get(0)?;
        let format: String = row.get(1)?;
        let root: Vec<u8> = row.get(2)?;
        let path: Vec<u8> = row.get(3)?;
        // Numbered before anything is left out, so that a root always has the same folder.
        let folder = folders.of(&format, &root);
        let (generation, number): (GenerationId, i64) = (row.get(4)?, row.get(5)?);
        let is_newest: bool = row.get(7)?;
        let is_wanted = match generations {
            Generations::Newest => is_newest,
            Generations::Number(wanted) => number == wanted,
            Generations::All => true,
        };
        if !is_wanted || sources.as_ref().is_some_and(|sources| !sources.contains(&source)) {
            continue;
        }
        let from_rows: bool = row.get(8)?;
        let is_compressed =
            !from_rows && format::by_name(&format).is_some_and(|f| f.is_compressed(&path));
        let (has_lines, is_damaged): (bool, bool) = (row.get(9)?, row.get(11)?);
        let life = Life { from_rows, is_compressed, has_lines, is_damaged };
        let own = to.join(folder).join(safe(&path)?);
        let targets = life.targets(own, &path, &mut |path| {
            Ok(followed.query_row((&format, &root, path), |row| row.get(0))?)
        })?;
        let first_path: Vec<u8> = row.get(10)?;
        let may_have_blanks = format::by_name(&format).is_some_and(|format| {
            Judge::new(&forgotten, format, &format.origin(&first_path)).is_some()
        });
        for (mut target, what) in targets {
            if generations == Generations::All && !is_newest {
                target.as_mut_os_string().push(format!(".generation-{number}"));
            }
            let mut blanks = BlankLines::default();
            let of = (source, generation, what);
            let bytes = match write(conn, of, row.get(6)?, &target, &mut blanks) {
                Ok(bytes) => bytes,
                // What is damaged must not keep the rest from coming back.
                Err(error) if error.trouble() == Trouble::Damaged => {
                    report.damaged.push(DamagedFile {
                        path: target.display().to_string(),
                        generation: number,
                        why: error.to_string(),
                    });
                    continue;
                }
                Err(error) => return Err(error),
            };
            let as_found = what == Bytes::AsFound;
            let decompressed = is_compressed && !as_found;
            report.files += 1;
            report.decompressed += u64::from(decompressed);
            report.as_found += u64::from(as_found);
            report.bytes += bytes;
            report.restored.push(RestoredFile {
                path: target.display().to_string(),
                format: format.clone(),
                generation: number,
                bytes,
                decompressed,
                as_found,
                from_rows: from_rows && !as_found,
                forgotten_lines: if may_have_blanks { blanks.count } else { 0 },
            });
        }
    }
    let has_nothing = report.files == 0 && report.damaged.is_empty();
    if let (Generations::Number(number), true) = (generations, has_nothing) {
        return Err(Error::NoMatch { what: "generation", name: number.to_string() });
    }
    Ok(report)
}

/// What there is to give back of one life of a source.
struct Life {
    from_rows: bool,
    is_compressed: bool,
    has_lines: bool,
    /// It could not be decompressed to its end, and is kept as it was.
    is_damaged: bool,
}

impl Life {
    /// The files that it is given back as. `own`: where its path leads; `is_followed`: whether
    /// another source has a path.
    fn targets(
        &self,
        own: PathBuf,
        path: &[u8],
        is_followed: &mut dyn FnMut(&[u8]) -> Result<bool>,
    ) -> Result<Vec<(PathBuf, Bytes)>> {
        let mut targets = Vec::new();
        if self.is_damaged {
            let mut target = own.clone();
            if !self.is_compressed {
                // In the database it had no name of its own.
                target.as_mut_os_string().push(".zst");
                if is_followed(&[path, COMPRESSED].concat())? {
                    target.as_mut_os_string().push(".damaged");
                }
            }
            targets.push((target, Bytes::AsFound));
            // Of a file that could not be read at all, there is nothing but what it was.
            if !self.has_lines {
                return Ok(targets);
            }
        }
        let mut target = own;
        if self.is_compressed {
            target.set_extension("");
            // Beside a file that already has that name, it gets one of its own.
            if is_followed(path.strip_suffix(COMPRESSED).unwrap_or(path))? {
                target.as_mut_os_string().push(".decompressed");
            }
        }
        if self.from_rows && !self.has_lines {
            target.push(INDEX);
        }
        targets.push((target, Bytes::Lines));
        Ok(targets)
    }
}

/// The folder of each root: the format's name, and a number from its second root on.
#[derive(Default)]
struct Folders {
    of_root: HashMap<(String, Vec<u8>), String>,
    roots: HashMap<String, usize>,
}

impl Folders {
    fn of(&mut self, format: &str, root: &[u8]) -> String {
        let roots = &mut self.roots;
        self.of_root
            .entry((format.to_owned(), root.to_owned()))
            .or_insert_with(|| {
                let number = roots.entry(format.to_owned()).or_insert(0);
                *number += 1;
                if *number == 1 { format.to_owned() } else { format!("{format}-{number}") }
            })
            .clone()
    }
}

/// Where a session's transcript is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InPlace {
    /// The file.
    pub path: PathBuf,
    /// It was gone, and was written anew.
    pub restored: bool,
}

/// Makes sure that a session's transcript is where its agent looks for it: one that is gone is
/// written anew, one that is there is left alone. `None` if the session never had a file.
pub fn put_back(ledger: &Ledger, session: SessionRow) -> Result<Option<InPlace>> {
    complete(ledger, &mut |conn| put_back_from(conn, session))
}

fn put_back_from(conn: &Connection, session: SessionRow) -> Result<Option<InPlace>> {
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
        let (root, path): (Vec<u8>, Vec<u8>) = (row.get(2)?, row.get(3)?);
        let format: String = row.get(5)?;
        if format::by_name(&format).is_some_and(|format| format.is_compressed(&path)) {
            continue;
        }
        let target = Path::new(OsStr::from_bytes(&root)).join(safe(&path)?);
        if target.symlink_metadata().is_ok() {
            return Ok(Some(InPlace { path: target, restored: false }));
        }
        let blanks = &mut BlankLines::default();
        write(conn, (row.get(0)?, row.get(1)?, Bytes::Lines), row.get(4)?, &target, blanks)?;
        return Ok(Some(InPlace { path: target, restored: true }));
    }
    Ok(None)
}

/// The sources of a session and of the sub-agents that work for it.
pub(crate) fn sources_of(conn: &Connection, session: SessionRow) -> Result<Vec<SourceId>> {
    let mut statement = conn.prepare(&format!(
        "{} SELECT DISTINCT ss.source
              FROM family JOIN session_sources ss ON ss.session = family.id
             WHERE ss.part <> 'prompt_history'",
        find::FAMILY
    ))?;
    Ok(statement.query_map([session], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// The sources of that name, wherever they were; at least one.
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
                // What a database says about keys has no file of its own; this is its name here.
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
