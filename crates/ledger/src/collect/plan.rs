//! Compares what is on disk with what the ledger knows: unchanged, grown, renamed, gone, new.
//! Reads at most a kilobyte of a file, and only where a name changed.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::discover::{Discovery, Found, RootPath, absolute, path_bytes};
use super::known::{self, Known};

/// What one sync has to do.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) renamed: Vec<Renamed>,
    pub(crate) gone: Vec<Known>,
    pub(crate) back: Vec<Known>,
    pub(crate) jobs: Vec<Job>,
    /// Tails that were seen unchanged for the second time.
    pub(crate) standing: Vec<Known>,
    pub(crate) unchanged: u64,
    /// Databases, if all of them were looked for; `rows` plans what is in them.
    pub(crate) databases: Option<Vec<Found>>,
}

/// A known source that has another path now.
#[derive(Debug)]
pub(crate) struct Renamed {
    pub(crate) known: Known,
    pub(crate) root: Vec<u8>,
    pub(crate) path: Vec<u8>,
}

/// What a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A file.
    File,
    /// A session in a database, or the database itself.
    Rows,
}

impl Kind {
    /// The stable name that is stored.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Rows => "rows",
        }
    }
}

/// A source to read.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) kind: Kind,
    pub(crate) root: usize,
    pub(crate) root_path: PathBuf,
    pub(crate) path: Vec<u8>,
    pub(crate) absolute: PathBuf,
    pub(crate) is_probe: bool,
    pub(crate) size: u64,
    /// What is known of it; `None` for a new source.
    pub(crate) known: Option<Known>,
}

/// Compares.
pub(crate) fn plan(roots: &[RootPath], discovery: &Discovery, known: Vec<Known>) -> Plan {
    let root_bytes: Vec<Vec<u8>> = roots.iter().map(|root| path_bytes(&root.path)).collect();
    let by_path = known::by_path(&known);
    let mut plan = Plan::default();

    // A known file under a new path: its own path is gone, or holds another file now.
    let mut strangers: HashMap<(u64, u64), usize> = HashMap::new();
    let mut seen: HashSet<usize> = HashSet::with_capacity(discovery.found.len());
    let mut at_home: Vec<Option<usize>> = Vec::with_capacity(discovery.found.len());
    for (index, found) in discovery.found.iter().enumerate() {
        let format = roots.get(found.root).map_or("", |root| root.format.name());
        let root = root_bytes.get(found.root).map_or(&[][..], Vec::as_slice);
        let home = by_path.get(&(format, root, found.path.as_slice())).copied();
        match home {
            Some(home) => {
                seen.insert(home);
            }
            None => {
                strangers.insert(found.stat.file(), index);
            }
        }
        at_home.push(home);
    }
    let mut moved: HashMap<usize, usize> = HashMap::new();
    let mut claimed: HashSet<usize> = HashSet::new();
    if !strangers.is_empty() {
        let taken: HashSet<usize> = discovery
            .found
            .iter()
            .zip(&at_home)
            .filter_map(|(found, home)| {
                home.filter(|home| {
                    known.get(*home).is_some_and(|k| k.stat.file() == found.stat.file())
                })
            })
            .collect();
        for (index, source) in known.iter().enumerate() {
            if !taken.contains(&index)
                && !source.is_gone
                && let Some(&stranger) = strangers.get(&source.stat.file())
                && let Some(found) = discovery.found.get(stranger)
                && roots.get(found.root).is_some_and(|root| {
                    root.format.name() == source.format && is_moved(root, source, found)
                })
                && claimed.insert(stranger)
            {
                moved.insert(index, stranger);
            }
        }
    }
    let moved_here: HashMap<usize, usize> = moved.iter().map(|(from, to)| (*to, *from)).collect();
    for (&source, &stranger) in &moved {
        if let (Some(known), Some(found)) = (known.get(source), discovery.found.get(stranger)) {
            plan.renamed.push(Renamed {
                known: known.clone(),
                root: root_bytes.get(found.root).cloned().unwrap_or_default(),
                path: found.path.clone(),
            });
        }
    }
    plan.renamed.sort_by(|a, b| a.path.cmp(&b.path));

    for (index, found) in discovery.found.iter().enumerate() {
        let source = match moved_here.get(&index) {
            Some(source) => Some(*source),
            // A path whose file moved away holds a new source now.
            None => at_home.get(index).copied().flatten().filter(|home| !moved.contains_key(home)),
        };
        let source = source.and_then(|source| known.get(source));
        if let Some(source) = source.filter(|source| source.is_gone) {
            plan.back.push(source.clone());
        }
        if found.is_left_out {
            continue;
        }
        if let Some(source) = source {
            let is_same = source.stat == found.stat
                // A rename changes the time of the last status change and nothing else.
                || (moved_here.contains_key(&index)
                    && (source.stat.size, source.stat.mtime_ns)
                        == (found.stat.size, found.stat.mtime_ns));
            // A compressed file that is remembered with its size was read to its end.
            let is_compressed =
                roots.get(found.root).is_some_and(|root| root.format.is_compressed(&found.path));
            let is_done = is_compressed
                || source.stat.size == source.reached()
                || source.refused.is_some()
                || source.is_kept_whole();
            if is_same && is_done {
                if source.tail_length > 0 && !source.tail_stands {
                    plan.standing.push(source.clone());
                }
                plan.unchanged += 1;
                continue;
            }
        }
        let Some(root) = roots.get(found.root) else { continue };
        plan.jobs.push(Job {
            kind: Kind::File,
            root: found.root,
            root_path: root.path.clone(),
            path: found.path.clone(),
            absolute: absolute(&root.path, &found.path),
            is_probe: found.is_probe,
            size: found.stat.size,
            known: source.cloned(),
        });
    }

    // Only sources below the roots of this sync can be missed by it.
    for (index, source) in known.iter().enumerate() {
        let is_ours = roots
            .iter()
            .zip(&root_bytes)
            .any(|(root, bytes)| root.format.name() == source.format && *bytes == source.root);
        if is_ours && !seen.contains(&index) && !moved.contains_key(&index) && !source.is_gone {
            let path = absolute(Path::new(OsStr::from_bytes(&source.root)), &source.path);
            if is_absent(&path) {
                plan.gone.push(source.clone());
            }
        }
    }
    plan
}

/// Whether there is certainly no such file. A folder that cannot be read hides files that are still
/// there.
pub(super) fn is_absent(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(meta) => !meta.is_file(),
        Err(error) => {
            matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        }
    }
}

/// Whether a file of the same inode is the same file under another name. File systems reuse inodes
/// at once, so anything but an untouched file has to begin with the same bytes.
fn is_moved(root: &RootPath, known: &Known, found: &Found) -> bool {
    if (found.stat.mtime_ns, found.stat.size) == (known.stat.mtime_ns, known.stat.size) {
        return true;
    }
    let path = absolute(&root.path, &found.path);
    known.head_length > 0
        && super::read::head_of(root, &found.path, &path, known.head_length)
            .is_some_and(|head| known::print(&head) == known.head)
}
