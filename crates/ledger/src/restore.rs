//! Gives collected files back, byte for byte; those that were compressed, decompressed. Only ever creates files; an existing one is an error.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use quipu_transcript::format;
use rusqlite::Connection;

use crate::forget::{BlankLines, Forgotten, Judge};
use crate::ids::{GenerationId, SessionRow, SourceId};
use crate::ledger::Ledger;
use crate::query::find;
use crate::wire::{DamagedFile, RestoreReport, RestoredFile};
use crate::{Error, Result, Trouble, indexes, spans};

/// What to give back.
#[derive(Debug, Clone, Copy)]
pub enum What<'a> {
    /// Every file that was collected.
    All,
    /// The files of one session and of its sub-agents, by an unambiguous beginning of its id.
    Session(&'a str),
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
        What::Session(name) => Some(sources_of(conn, find::session(conn, name)?)?),
    };
    let mut report = RestoreReport::default();
    let mut folders = Folders::default();
    let forgotten = Forgotten::load(conn)?;
    let mut followed = conn.prepare(
        "SELECT EXISTS (SELECT 1 FROM sources WHERE format = ?1 AND root = ?2 AND path = ?3)",
    )?;
    let mut statement = conn.prepare(
        "SELECT s.id, s.format, s.root, s.path, g.id, g.number, g.mtime_ns, g.id = s.generation,
                s.kind = 'rows', g.cursor > 0, s.first_path
           FROM sources s JOIN generations g ON g.source = s.id
          WHERE s.refused IS NULL
            AND (s.kind = 'file'
                 -- A database itself has no bytes; its sessions have, and its index may.
                 OR s.kind = 'rows' AND (g.cursor > 0 OR EXISTS (
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
        let mut target = to.join(folder).join(safe(&path)?);
        if is_compressed {
            target.set_extension("");
            // Beside a file that already has that name, it gets one of its own.
            let plain = path.strip_suffix(COMPRESSED).unwrap_or(&path);
            if followed.query_row((&format, &root, plain), |row| row.get(0))? {
                target.as_mut_os_string().push(".decompressed");
            }
        }
        if from_rows && !row.get::<_, bool>(9)? {
            target.push("sessions.json");
        }
        if generations == Generations::All && !is_newest {
            target.as_mut_os_string().push(format!(".generation-{number}"));
        }
        let mut blanks = BlankLines::default();
        let bytes = match write(conn, (source, generation), row.get(6)?, &target, &mut blanks) {
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
        let first_path: Vec<u8> = row.get(10)?;
        let may_have_blanks = format::by_name(&format).is_some_and(|format| {
            Judge::new(&forgotten, format, &format.origin(&first_path)).is_some()
        });
        report.files += 1;
        report.decompressed += u64::from(is_compressed);
        report.bytes += bytes;
        report.restored.push(RestoredFile {
            path: target.display().to_string(),
            format,
            generation: number,
            bytes,
            decompressed: is_compressed,
            from_rows,
            forgotten_lines: if may_have_blanks { blanks.count } else { 0 },
        });
    }
    let has_nothing = report.files == 0 && report.damaged.is_empty();
    if let (Generations::Number(number), true) = (generations, has_nothing) {
        return Err(Error::NoMatch { what: "generation", name: number.to_string() });
    }
    Ok(report)
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

/// A stored path leads down and nowhere else.
fn safe(path: &[u8]) -> Result<PathBuf> {
    let path = Path::new(OsStr::from_bytes(path));
    let is_safe = path.components().all(|part| matches!(part, Component::Normal(_)))
        && !path.as_os_str().is_empty();
    if is_safe {
        Ok(path.to_owned())
    } else {
        Err(Error::damaged("a stored path that leads out of its root".to_owned()))
    }
}

/// Writes one generation to a new file.
fn write(
    conn: &Connection,
    (source, generation): (SourceId, GenerationId),
    mtime_ns: i64,
    target: &Path,
    blanks: &mut BlankLines,
) -> Result<u64> {
    if let Some(folder) = target.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(Error::io("create folder", folder))?;
    }
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(target)
        .map_err(Error::io("create", target))?;
    let mut out = BufWriter::new(&file);
    let mut bytes = 0;
    let mut put = |part: &[u8]| {
        bytes += part.len() as u64;
        blanks.add(part);
        out.write_all(part).map_err(Error::io("write", target))
    };
    let written = spans::stream(conn, generation, &mut put)
        .and_then(|()| spans::stream_tail(conn, generation, &mut put))
        .and_then(|()| match indexes::load(conn, source)? {
            Some(bytes) => put(&bytes),
            None => Ok(()),
        })
        .and_then(|()| out.flush().map_err(Error::io("write", target)));
    if let Err(error) = written {
        // Half a file must not pass for a whole one.
        let _ = fs::remove_file(target);
        return Err(error);
    }
    set_modified(&file, mtime_ns);
    Ok(bytes)
}

/// The file's own time, where the file system can hold it.
fn set_modified(file: &File, mtime_ns: i64) {
    if let Ok(nanoseconds) = u64::try_from(mtime_ns) {
        let _ = file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds));
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
    let conn = ledger.conn();
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
        write(conn, (row.get(0)?, row.get(1)?), row.get(4)?, &target, blanks)?;
        return Ok(Some(InPlace { path: target, restored: true }));
    }
    Ok(None)
}

/// The sources of a session and of the sub-agents that work for it.
fn sources_of(conn: &Connection, session: SessionRow) -> Result<Vec<SourceId>> {
    let mut statement = conn.prepare(&format!(
        "{} SELECT DISTINCT ss.source
              FROM family JOIN session_sources ss ON ss.session = family.id
             WHERE ss.part <> 'prompt_history'",
        find::FAMILY
    ))?;
    Ok(statement.query_map([session], |row| row.get(0))?.collect::<Result<_, _>>()?)
}
