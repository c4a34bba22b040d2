//! Finds files by their names, without a walk, after a hint about single files.
//!
//! Applies the same rules as the walk (`discover`): claims at every level, denied names first.
//! Whatever needs more than one file (links, renamed files, replaced files) is left to the walk.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use quipu_transcript::format::{Claim, Format, Node, Part};
use rusqlite::Connection;

use super::discover::{Discovery, FoundFile, RootPath};
use super::known::{self, KnownSource};
use crate::Result;
use crate::base::foreign::{self, Meta};

/// Returns the files with these names, and their known states. `None` if that needs a walk.
pub(crate) fn find(
    conn: &Connection,
    roots: &[RootPath],
    changed: &[PathBuf],
) -> Result<Option<(Discovery, Vec<KnownSource>)>> {
    let mut discovery = Discovery::default();
    let mut known = Vec::new();
    for path in changed {
        let mut places = roots.iter().enumerate().filter_map(|(index, root)| {
            let inside = path.strip_prefix(&root.path).ok()?.as_os_str().as_bytes();
            claimed(root.format, inside)
                .map(|(part, is_probe)| (index, root, inside, part, is_probe))
        });
        let Some((index, root, inside, part, is_probe)) = places.next() else { continue };
        // A file below two roots belongs to one of them; the walk decides which.
        if places.next().is_some() {
            return Ok(None);
        }
        if root.selection.leaves_out(root.format, inside, part).is_some() {
            continue;
        }
        // Only a walk knows whether a transcript of the same session exists.
        if part == Part::Trajectory {
            continue;
        }
        // A database is read together with its log, and only by a walk.
        if part == Part::Database {
            return Ok(None);
        }
        let Some(meta) = plain_file(&root.path, inside) else { return Ok(None) };
        let found = FoundFile::named(index, inside.to_vec(), part, is_probe, &meta);
        let at = known::at(conn, root.format.name(), root.path.as_os_str().as_bytes(), inside)?;
        match at {
            Some(at) if !at.is_gone && at.stat.file() == found.stat.file() => known.push(at),
            Some(_) => return Ok(None),
            // A known file under a new name was renamed, if its old name is gone.
            None if known::is_known_file(conn, &found.stat)? => return Ok(None),
            None => {}
        }
        discovery.found.push(found);
    }
    discovery.found.sort_by(|a, b| (a.root, &a.path).cmp(&(b.root, &b.path)));
    discovery.found.dedup_by(|a, b| (a.root, &a.path) == (b.root, &b.path));
    Ok(Some((discovery, known)))
}

/// Returns the part that a path is collected as, if every folder above it is entered.
pub(crate) fn claimed(format: &dyn Format, path: &[u8]) -> Option<(Part, bool)> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    for (at, _) in slashes {
        if format.claim(path.get(..at)?, Node::Directory) != Claim::Enter {
            return None;
        }
    }
    match format.claim(path, Node::File) {
        Claim::Collect(part) => Some((part, false)),
        Claim::Probe(part) => Some((part, true)),
        _ => None,
    }
}

/// Returns the metadata of a regular file with one name and no link in its path.
fn plain_file(root: &Path, inside: &[u8]) -> Option<Meta> {
    let inside = Path::new(OsStr::from_bytes(inside));
    let meta = foreign::Folder::root(root).and_then(|root| root.look_below(inside)).ok()?;
    (meta.kind == foreign::FileKind::File && meta.links == 1).then_some(meta)
}
