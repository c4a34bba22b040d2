//! Walks the roots and lists the files that the formats claim. Never opens a file.
//!
//! The formats' claims are an allow-list. Four rules come on top: a symbolic link is followed only
//! if its target is inside the root and not denied there; a file with several paths is found once;
//! a hard link to a denied file is refused; a transcript with several hard links is collected only
//! if one of its first lines is a record.

mod skipped;
mod walk;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use foldhash::{HashMap, HashSet};
use quipu_transcript::format::{Format, Framing, Part};

use super::retention::Retention;
use super::select::Selection;
pub(crate) use skipped::{MAX_LISTED_LINKS, MAX_LISTED_PATHS, Reason, Skipped, summarise};
use walk::Walk;

use crate::base::foreign::{FileId, Folder as Handle, Meta, denied_files};
use crate::base::paths::absolute;
use crate::truth::sources::Stat;

/// A folder to collect from, for one format.
#[derive(Clone)]
pub struct RootPath {
    /// The format of its files.
    pub format: &'static dyn Format,
    /// The folder.
    pub path: PathBuf,
    /// The selected part of its files.
    pub selection: Selection,
    /// The time after which the agent deletes its transcripts.
    pub retention: Retention,
}

impl std::fmt::Debug for RootPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.format.name(), self.path.display())
    }
}

/// A file to collect.
#[derive(Debug, Clone)]
pub(crate) struct FoundFile {
    /// The index of its root.
    pub(crate) root: usize,
    /// The path relative to the root.
    pub(crate) path: Vec<u8>,
    pub(crate) part: Part,
    /// True if it is collected only if one of its first lines decodes.
    pub(crate) is_probe: bool,
    pub(crate) stat: Stat,
    /// True if a setting leaves it out: it is not read, but known to exist.
    pub(crate) is_left_out: bool,
    /// The number of names of the file.
    pub(crate) links: u64,
    /// True if a symbolic link leads to it.
    is_link: bool,
}

impl FoundFile {
    /// Creates a file that was found by its name, with no link in its path.
    pub(crate) fn named(
        root: usize,
        path: Vec<u8>,
        part: Part,
        is_probe: bool,
        meta: &Meta,
    ) -> FoundFile {
        let (stat, links) = (Stat::of(meta), meta.links);
        FoundFile { root, path, part, is_probe, stat, is_left_out: false, links, is_link: false }
    }
}

/// The result of walking all roots.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    /// The files, in order of root and path.
    pub(crate) found: Vec<FoundFile>,
    pub(crate) skipped: Vec<Skipped>,
    /// The state of each root.
    pub(crate) roots: Vec<RootState>,
    /// The folders that were walked.
    pub(crate) folders: Vec<Folder>,
}

/// A folder that was walked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    /// True if a symbolic link leads to it, so that its path does not show what its files are
    /// claimed as.
    pub(crate) is_link: bool,
}

impl Discovery {
    /// Adds the files that cannot be opened to the skipped ones. A sync learns it by opening them.
    pub(crate) fn skip_unreadable(&mut self, roots: &[RootPath]) {
        for found in self.found.iter().filter(|found| !found.is_left_out) {
            let Some(root) = roots.get(found.root) else { continue };
            let path = absolute(&root.path, &found.path);
            let why = match rustix::fs::access(&path, rustix::fs::Access::READ_OK) {
                Err(error) => Some(std::io::Error::from(error).to_string()),
                Ok(()) if found.part == Part::Database => super::rows::why_not(root, found),
                Ok(()) => None,
            };
            if let Some(why) = why {
                self.skipped.push(Skipped {
                    root: found.root,
                    path: found.path.clone(),
                    reason: Reason::Unreadable(why),
                });
            }
        }
    }
}

/// The state of a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RootState {
    Walked,
    Absent,
    /// The same folder as an earlier root.
    Twin,
    /// The folder exists but cannot be listed.
    Unreadable,
}

/// Walks all roots. Of several names of one file, prefers one that `is_known`, then one that no
/// link leads to, then the first.
pub(crate) fn discover(
    roots: &[RootPath],
    is_known: &dyn Fn(&RootPath, &[u8]) -> bool,
) -> Discovery {
    let mut discovery = Discovery::default();
    let mut walked: HashSet<(&str, u64, u64)> = HashSet::default();
    let mut files: HashMap<FileId, usize> = HashMap::default();
    let mut denied: Option<HashSet<FileId>> = None;
    for (index, root) in roots.iter().enumerate() {
        let state = match fs::metadata(&root.path) {
            Ok(meta) if meta.is_dir() => {
                if walked.insert((root.format.name(), meta.dev(), meta.ino())) {
                    RootState::Walked
                } else {
                    RootState::Twin
                }
            }
            _ => RootState::Absent,
        };
        discovery.roots.push(state);
        if state != RootState::Walked {
            continue;
        }
        let canonical = fs::canonicalize(&root.path).unwrap_or_else(|_| root.path.clone());
        let handle = Handle::root(&canonical);
        let mut walk = Walk {
            index,
            format: root.format,
            selection: root.selection,
            root: &canonical,
            handle: handle.as_ref().ok(),
            roots,
            discovery: &mut discovery,
            folders: HashSet::default(),
            is_link: false,
        };
        let from = walk.discovery.found.len();
        match &handle {
            Ok(handle) => walk.folder(handle, &canonical, Vec::new()),
            Err(error) => walk.skip_folder(Vec::new(), Reason::Unreadable(error.to_string())),
        }
        let is_unreadable =
            discovery.skipped.iter().any(|skip| skip.root == index && skip.path.is_empty());
        if let (true, Some(state)) = (is_unreadable, discovery.roots.last_mut()) {
            *state = RootState::Unreadable;
        }
        let mut found = discovery.found.split_off(from);
        found.sort_by(|a, b| a.path.cmp(&b.path));
        let best = best_names(&found, |path| is_known(root, path));
        let mut kept = Vec::with_capacity(found.len());
        for (position, mut found) in found.into_iter().enumerate() {
            let is_best = best.get(&found.stat.file()).is_none_or(|(_, _, best)| *best == position);
            if found.links > 1 {
                // The other names may be anywhere. A file with secrets has no lines that are
                // records.
                found.is_probe |= found.part.framing() == Framing::Lines;
                let denied = denied.get_or_insert_with(|| {
                    denied_files(roots.iter().map(|root| root.path.as_path()))
                });
                if denied.contains(&found.stat.file()) {
                    discovery.skipped.push(Skipped {
                        root: index,
                        path: found.path,
                        reason: Reason::Denied,
                    });
                    continue;
                }
            }
            if !is_best || files.insert(found.stat.file(), index).is_some() {
                discovery.skipped.push(Skipped {
                    root: index,
                    path: found.path,
                    reason: Reason::SameFile,
                });
                continue;
            }
            kept.push(found);
        }
        discovery.found.append(&mut kept);
    }
    discovery.skipped.sort();
    discovery
}

/// The rank of a file's name: whether it is unknown, whether a link leads to it, and its position.
/// The lowest rank wins.
type Rank = (bool, bool, usize);

/// Returns the best name of each file with several names, by the position in `found`.
fn best_names(found: &[FoundFile], is_known: impl Fn(&[u8]) -> bool) -> HashMap<FileId, Rank> {
    let mut best: HashMap<FileId, Rank> = HashMap::default();
    for (position, found) in found.iter().enumerate() {
        if found.links > 1 || found.is_link || best.contains_key(&found.stat.file()) {
            let rank = (!is_known(&found.path), found.is_link, position);
            let entry = best.entry(found.stat.file()).or_insert(rank);
            *entry = rank.min(*entry);
        } else {
            best.insert(found.stat.file(), (false, false, position));
        }
    }
    best
}
