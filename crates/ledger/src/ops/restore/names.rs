//! Chooses the path of each restored file below the target folder.
//!
//! A file gets `<format>/<path>`; older generations, decompressed files and indexes get a name
//! beside it. A name is not used if another source has it, if another source needs it for a folder,
//! or if it is too long for a file system. Such a file goes to
//! `<format>.aside/<source>.<generation>/<name>`, which is always free. The choice depends on the
//! ledger alone, so the same command gives the same names.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Statement};

use super::file::{Bytes, safe};
use super::{COMPRESSED, INDEX};
use crate::Result;
use crate::base::ids::SourceId;

/// The longest name in bytes that Linux and macOS accept.
const MAX_NAME_BYTES: usize = 255;

/// A generation of a source to restore.
pub(super) struct RestoredGeneration<'a> {
    pub(super) source: SourceId,
    /// Its format, root and path.
    pub(super) format: &'a str,
    pub(super) root: &'a [u8],
    pub(super) path: &'a [u8],
    pub(super) number: i64,
    /// True if its name contains its number.
    pub(super) is_numbered: bool,
    pub(super) from_rows: bool,
    pub(super) is_compressed: bool,
    pub(super) has_lines: bool,
    /// True if it could not be decompressed to its end and its compressed bytes are kept.
    pub(super) is_damaged: bool,
}

/// A file that a generation is restored as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RestoredPath {
    /// The path below the target folder.
    pub(super) path: PathBuf,
    pub(super) bytes: Bytes,
    /// The name that is not available.
    pub(super) instead_of: Option<PathBuf>,
}

/// Assigns names to files.
pub(super) struct Names<'c> {
    folders: Folders,
    is_followed: Statement<'c>,
    is_folder: Statement<'c>,
    /// Hashes of the names in use. A collision only puts a file aside.
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
        self.folders.folder_of(format, root)
    }

    /// Returns the files that a generation is restored as, in this folder.
    pub(super) fn places(
        &mut self,
        folder: &str,
        generation: &RestoredGeneration<'_>,
    ) -> Result<Vec<RestoredPath>> {
        let mut places = Vec::new();
        if generation.is_damaged {
            let mut name = generation.path.to_owned();
            if !generation.is_compressed {
                // In the database it has no name.
                name.extend(COMPRESSED);
                if self.is_followed(generation, &name)? {
                    name.extend(b".damaged");
                }
            }
            places.push(self.place(folder, generation, name, Bytes::AsFound)?);
            // A file without a readable line is restored only as it was.
            if !generation.has_lines {
                return Ok(places);
            }
        }
        let mut name = generation.path.to_owned();
        if generation.is_compressed {
            name = generation.path.strip_suffix(COMPRESSED).unwrap_or(generation.path).to_owned();
            // Another source has the decompressed name, so this one gets a suffix.
            if self.is_followed(generation, &name)? {
                name.extend(b".decompressed");
            }
        }
        if generation.from_rows && !generation.has_lines {
            name.push(b'/');
            name.extend(INDEX.as_bytes());
        }
        places.push(self.place(folder, generation, name, Bytes::Lines)?);
        Ok(places)
    }

    fn place(
        &mut self,
        folder: &str,
        generation: &RestoredGeneration<'_>,
        mut name: Vec<u8>,
        bytes: Bytes,
    ) -> Result<RestoredPath> {
        let mut is_taken = name != generation.path && self.is_followed(generation, &name)?;
        if generation.is_numbered {
            name.extend(format!(".generation-{}", generation.number).as_bytes());
            is_taken = is_taken || self.is_followed(generation, &name)?;
        }
        let path = Path::new(folder).join(safe(&name)?);
        let is_too_long = path.file_name().is_some_and(|name| name.len() > MAX_NAME_BYTES);
        is_taken = is_taken
            || is_too_long
            || self.is_folder(generation, &name)?
            || !self.given.insert(xxhash_rust::xxh3::xxh3_64(path.as_os_str().as_bytes()));
        if !is_taken {
            return Ok(RestoredPath { path, bytes, instead_of: None });
        }
        let (source, number) = (generation.source.0, generation.number);
        let (ending, own): (&str, &[u8]) = match bytes {
            Bytes::AsFound => (".zst", generation.path),
            Bytes::Lines => {
                ("", generation.path.strip_suffix(COMPRESSED).unwrap_or(generation.path))
            }
        };
        let own = Path::new(OsStr::from_bytes(own)).file_name().unwrap_or_default().to_owned();
        let aside = Path::new(&format!("{folder}.aside"))
            .join(format!("{source}.{number}{ending}"))
            .join(own);
        Ok(RestoredPath { path: aside, bytes, instead_of: Some(path) })
    }

    /// Returns whether a source has that path.
    fn is_followed(&mut self, generation: &RestoredGeneration<'_>, path: &[u8]) -> Result<bool> {
        Ok(self
            .is_followed
            .query_row((generation.format, generation.root, path), |row| row.get(0))?)
    }

    /// Returns whether a source has a path below that path.
    fn is_folder(&mut self, generation: &RestoredGeneration<'_>, path: &[u8]) -> Result<bool> {
        // `0` is the byte after `/`.
        let range =
            (generation.format, generation.root, [path, b"/"].concat(), [path, b"0"].concat());
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
    fn folder_of(&mut self, format: &str, root: &[u8]) -> String {
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
