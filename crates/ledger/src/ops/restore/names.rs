//! Where each file is written, below the folder that restored files go to.
//!
//! `<format>/<path>` for what has a name of its own; older lives, decompressed files and indexes get
//! a name beside it. A name that belongs to another source, that another source needs for a folder,
//! or that no file system takes is never used: such a file goes to
//! `<format>.aside/<source>.<generation>/<name>`, which is like no other. Which it is depends on the
//! ledger alone, so the same command finds the same names again.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Statement};

use super::file::{Bytes, safe};
use super::{COMPRESSED, INDEX};
use crate::Result;
use crate::base::ids::SourceId;

/// Linux and macOS take no longer names, in bytes.
const LONGEST_NAME: usize = 255;

/// What there is to give back of one life of a source.
pub(super) struct Life<'a> {
    pub(super) source: SourceId,
    /// Its format, root and path.
    pub(super) format: &'a str,
    pub(super) root: &'a [u8],
    pub(super) path: &'a [u8],
    pub(super) number: i64,
    /// Its name says which life it is.
    pub(super) is_numbered: bool,
    pub(super) from_rows: bool,
    pub(super) is_compressed: bool,
    pub(super) has_lines: bool,
    /// It could not be decompressed to its end, and is kept as it was.
    pub(super) is_damaged: bool,
}

/// A file that a life is given back as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Where, below the folder that was asked for.
    pub(super) path: PathBuf,
    pub(super) bytes: Bytes,
    /// The name that it cannot have.
    pub(super) instead_of: Option<PathBuf>,
}

/// Names files.
pub(super) struct Names<'c> {
    folders: Folders,
    is_followed: Statement<'c>,
    is_folder: Statement<'c>,
    /// Names that were given, as hashes: one that only looks taken puts a file aside.
    given: HashSet<u64>,
}

impl<'c> Names<'c> {
    pub(super) fn new(conn: &'c Connection) -> Result<Names<'c>> {
        Ok(Names {
            folders: Folders::default(),
            is_followed: conn.prepare(
                "SELECT EXISTS (
                     SELECT 1 FROM sources WHERE format = ?1 AND root = ?2 AND path = ?3)",
            )?,
            is_folder: conn.prepare(
                "SELECT EXISTS (
                     SELECT 1 FROM sources
                      WHERE format = ?1 AND root = ?2 AND path > ?3 AND path < ?4)",
            )?,
            given: HashSet::new(),
        })
    }

    /// Returns the folder of a root.
    pub(super) fn folder(&mut self, format: &str, root: &[u8]) -> String {
        self.folders.of(format, root)
    }

    /// Returns the files that a life is given back as, in this folder.
    pub(super) fn places(&mut self, folder: &str, life: &Life<'_>) -> Result<Vec<Place>> {
        let mut places = Vec::new();
        if life.is_damaged {
            let mut name = life.path.to_owned();
            if !life.is_compressed {
                // In the database it had no name of its own.
                name.extend(COMPRESSED);
                if self.is_followed(life, &name)? {
                    name.extend(b".damaged");
                }
            }
            places.push(self.place(folder, life, name, Bytes::AsFound)?);
            // Of a file that could not be read at all, there is nothing but what it was.
            if !life.has_lines {
                return Ok(places);
            }
        }
        let mut name = life.path.to_owned();
        if life.is_compressed {
            name = life.path.strip_suffix(COMPRESSED).unwrap_or(life.path).to_owned();
            // Beside a file that already has that name, it gets one of its own.
            if self.is_followed(life, &name)? {
                name.extend(b".decompressed");
            }
        }
        if life.from_rows && !life.has_lines {
            name.push(b'/');
            name.extend(INDEX.as_bytes());
        }
        places.push(self.place(folder, life, name, Bytes::Lines)?);
        Ok(places)
    }

    fn place(
        &mut self,
        folder: &str,
        life: &Life<'_>,
        mut name: Vec<u8>,
        bytes: Bytes,
    ) -> Result<Place> {
        let mut is_taken = name != life.path && self.is_followed(life, &name)?;
        if life.is_numbered {
            name.extend(format!(".generation-{}", life.number).as_bytes());
            is_taken = is_taken || self.is_followed(life, &name)?;
        }
        let path = Path::new(folder).join(safe(&name)?);
        let is_too_long = path.file_name().is_some_and(|name| name.len() > LONGEST_NAME);
        is_taken = is_taken
            || is_too_long
            || self.is_folder(life, &name)?
            || !self.given.insert(xxhash_rust::xxh3::xxh3_64(path.as_os_str().as_bytes()));
        if !is_taken {
            return Ok(Place { path, bytes, instead_of: None });
        }
        let (source, number) = (life.source.0, life.number);
        let (ending, own): (&str, &[u8]) = match bytes {
            Bytes::AsFound => (".zst", life.path),
            Bytes::Lines => ("", life.path.strip_suffix(COMPRESSED).unwrap_or(life.path)),
        };
        let own = Path::new(OsStr::from_bytes(own)).file_name().unwrap_or_default().to_owned();
        let aside = Path::new(&format!("{folder}.aside"))
            .join(format!("{source}.{number}{ending}"))
            .join(own);
        Ok(Place { path: aside, bytes, instead_of: Some(path) })
    }

    /// Returns whether a source has that path.
    fn is_followed(&mut self, life: &Life<'_>, path: &[u8]) -> Result<bool> {
        Ok(self.is_followed.query_row((life.format, life.root, path), |row| row.get(0))?)
    }

    /// Returns whether a source stands below that path.
    fn is_folder(&mut self, life: &Life<'_>, path: &[u8]) -> Result<bool> {
        // `0` is the byte after `/`.
        let range = (life.format, life.root, [path, b"/"].concat(), [path, b"0"].concat());
        Ok(self.is_folder.query_row(range, |row| row.get(0))?)
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
