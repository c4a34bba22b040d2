//! Walks the roots and says which files there are, by asking the formats. Opens no file.
//!
//! The formats' claims are an allow-list. On top of it: a symlink is followed only if its target
//! stays inside the root and is not denied there, one file is found once however many paths lead
//! to it, and a hard link to a denied file is refused.

mod skipped;
mod walk;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use foldhash::{HashMap, HashSet};
use quipu_transcript::format::{Format, Part};

use super::retention::Retention;
use super::select::Selection;
pub(crate) use skipped::{MOST_LINKS, MOST_NAMED, Reason, Skipped, summarise};
use walk::Walk;

use crate::base::foreign::{FileId, Folder as Handle, Meta, denied_files};
use crate::base::paths::absolute;

/// One place to look into, for one format.
#[derive(Clone)]
pub struct RootPath {
    /// Whose files are expected there.
    pub format: &'static dyn Format,
    /// The folder.
    pub path: PathBuf,
    /// What of it is wanted.
    pub selection: Selection,
    /// How long the agent keeps its transcripts.
    pub retention: Retention,
}

impl std::fmt::Debug for RootPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.format.name(), self.path.display())
    }
}

/// What identifies a file's content without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) size: u64,
    pub(crate) mtime_ns: i64,
    pub(crate) ctime_ns: i64,
}

impl Stat {
    pub(crate) fn of(meta: &Meta) -> Stat {
        let &Meta { device, inode, size, mtime_ns, ctime_ns, .. } = meta;
        Stat { device, inode, size, mtime_ns, ctime_ns }
    }

    /// The file, whatever it holds.
    pub(crate) fn file(&self) -> FileId {
        (self.device, self.inode)
    }
}

/// A file to collect.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// Index into the roots that were given.
    pub(crate) root: usize,
    /// Relative to the root.
    pub(crate) path: Vec<u8>,
    pub(crate) part: Part,
    /// Collect it only if one of its first lines decodes.
    pub(crate) is_probe: bool,
    pub(crate) stat: Stat,
    /// A setting leaves it out: it is not read, but known to be there.
    pub(crate) is_left_out: bool,
    /// How many names the file has.
    links: u64,
    /// A symbolic link led here.
    is_link: bool,
}

impl Found {
    /// A file that was looked at by its name, with no link on the way to it.
    pub(crate) fn named(
        root: usize,
        path: Vec<u8>,
        part: Part,
        is_probe: bool,
        meta: &Meta,
    ) -> Found {
        let (stat, links) = (Stat::of(meta), meta.links);
        Found { root, path, part, is_probe, stat, is_left_out: false, links, is_link: false }
    }
}

/// What one walk over all roots found.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    /// In order of root and path.
    pub(crate) found: Vec<Found>,
    pub(crate) skipped: Vec<Skipped>,
    /// Whether each root given exists and is the first of its kind.
    pub(crate) roots: Vec<RootState>,
    /// The folders that were looked into.
    pub(crate) folders: Vec<Folder>,
}

/// A folder that formats look into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    /// A symbolic link led here: the path does not say what its files are claimed as.
    pub(crate) is_link: bool,
}

impl Discovery {
    /// Says which of the files cannot be opened. A sync finds out by opening them.
    pub(crate) fn skip_unreadable(&mut self, roots: &[RootPath]) {
        for found in self.found.iter().filter(|found| !found.is_left_out) {
            let Some(root) = roots.get(found.root) else { continue };
            let path = absolute(&root.path, &found.path);
            if let Err(error) = rustix::fs::access(&path, rustix::fs::Access::READ_OK) {
                self.skipped.push(Skipped {
                    root: found.root,
                    path: found.path.clone(),
                    reason: Reason::Unreadable(std::io::Error::from(error).to_string()),
                });
            }
        }
    }
}

/// What became of a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RootState {
    Walked,
    Absent,
    /// The same folder as an earlier root.
    Twin,
    /// It is there, but cannot be looked into.
    Unreadable,
}

/// Walks all roots. Of several names of one file, one that `is_known` is taken, then one that no
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
        let is_shut =
            discovery.skipped.iter().any(|skip| skip.root == index && skip.path.is_empty());
        if let (true, Some(state)) = (is_shut, discovery.roots.last_mut()) {
            *state = RootState::Unreadable;
        }
        let mut found = discovery.found.split_off(from);
        found.sort_by(|a, b| a.path.cmp(&b.path));
        let best = best_names(&found, |path| is_known(root, path));
        let mut kept = Vec::with_capacity(found.len());
        for (position, found) in found.into_iter().enumerate() {
            let is_best = best.get(&found.stat.file()).is_none_or(|(_, _, best)| *best == position);
            if found.links > 1 {
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

/// How good a name of a file is, the best one first: known, no link led to it, and its position.
type Rank = (bool, bool, usize);

/// Which of the files found is to be taken for each file there is: one file is collected once, under
/// the best of its names.
fn best_names(found: &[Found], is_known: impl Fn(&[u8]) -> bool) -> HashMap<FileId, Rank> {
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
