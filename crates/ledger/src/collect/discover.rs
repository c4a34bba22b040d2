//! Walks the roots and says which files there are, by asking the formats. Opens no file.
//!
//! The formats' claims are an allow-list. On top of it: a symlink is followed only if its target
//! stays inside the root and is not denied there, one file is found once however many paths lead
//! to it, and a hard link to a denied file is refused.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use foldhash::{HashMap, HashSet};
use quipu_transcript::format::{Claim, Format, Node, Part};
use quipu_transcript::names;

use super::retention::Retention;
use super::select::Selection;
use crate::wire::{DAMAGED, ODD, SkippedFiles, UNREADABLE};

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
    pub(crate) fn of(meta: &Metadata) -> Stat {
        Stat {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            mtime_ns: meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec()),
            ctime_ns: meta.ctime().saturating_mul(1_000_000_000).saturating_add(meta.ctime_nsec()),
        }
    }

    /// The file, whatever it holds.
    pub(crate) fn file(&self) -> (u64, u64) {
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
        meta: &Metadata,
    ) -> Found {
        let (stat, links) = (Stat::of(meta), meta.nlink());
        Found { root, path, part, is_probe, stat, is_left_out: false, links, is_link: false }
    }
}

/// Something that was seen and not collected.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Skipped {
    pub(crate) root: usize,
    pub(crate) path: Vec<u8>,
    pub(crate) reason: Reason,
}

/// Why something is not collected.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// The format leaves it out, for this reason.
    LeftOut(&'static str),
    /// Its name says that it holds secrets.
    Denied,
    /// A symlink that leads out of its root, or nowhere.
    LeavesRoot,
    /// The same file as another one that is collected.
    SameFile,
    /// Not a regular file.
    NotAFile,
    /// It could not be looked at or opened.
    Unreadable(String),
    /// It could not be decompressed to its end; what there is of it is kept.
    Damaged(String),
    /// It is collected, but not what it says it is.
    Odd(&'static str),
    /// None of its lines is a record of this format.
    NotATranscript,
    /// Its session was forgotten.
    Forgotten,
}

impl Reason {
    /// Whether the file was read all the same, as far as that goes.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self, Reason::Damaged(_) | Reason::Odd(_) | Reason::NotATranscript)
    }

    /// The reason in words.
    pub(crate) fn text(&self) -> String {
        match self {
            Reason::LeftOut(why) => (*why).to_owned(),
            Reason::Denied => "holds secrets; never opened".to_owned(),
            Reason::LeavesRoot => "symbolic link that leaves its root; not followed".to_owned(),
            Reason::SameFile => "the same file as another one".to_owned(),
            Reason::NotAFile => "not a regular file".to_owned(),
            Reason::Unreadable(why) => format!("{UNREADABLE}{why}"),
            Reason::Damaged(why) => format!("{DAMAGED}{why}"),
            Reason::Odd(what) => format!("{ODD}{what}"),
            Reason::NotATranscript => "no line of it is a record".to_owned(),
            Reason::Forgotten => "forgotten; never opened again".to_owned(),
        }
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
    let mut files: HashMap<(u64, u64), usize> = HashMap::default();
    let mut denied: Option<HashSet<(u64, u64)>> = None;
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
        let mut walk = Walk {
            index,
            format: root.format,
            selection: root.selection,
            root: &canonical,
            discovery: &mut discovery,
            folders: HashSet::default(),
            is_link: false,
        };
        let from = walk.discovery.found.len();
        walk.folder(&canonical, Vec::new());
        let is_shut =
            discovery.skipped.iter().any(|skip| skip.root == index && skip.path.is_empty());
        if let (true, Some(state)) = (is_shut, discovery.roots.last_mut()) {
            *state = RootState::Unreadable;
        }
        let mut found = discovery.found.split_off(from);
        found.sort_by(|a, b| a.path.cmp(&b.path));
        // One file is collected once, under the best of its names.
        let mut best: HashMap<(u64, u64), (bool, bool, usize)> = HashMap::default();
        for (position, found) in found.iter().enumerate() {
            if found.links > 1 || found.is_link || best.contains_key(&found.stat.file()) {
                let rank = (!is_known(root, &found.path), found.is_link, position);
                let entry = best.entry(found.stat.file()).or_insert(rank);
                *entry = rank.min(*entry);
            } else {
                best.insert(found.stat.file(), (false, false, position));
            }
        }
        let mut kept = Vec::with_capacity(found.len());
        for (position, found) in found.into_iter().enumerate() {
            let is_best = best.get(&found.stat.file()).is_none_or(|(_, _, best)| *best == position);
            if found.links > 1 {
                let denied = denied.get_or_insert_with(|| denied_files(roots));
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

struct Walk<'a> {
    index: usize,
    format: &'static dyn Format,
    selection: Selection,
    root: &'a Path,
    discovery: &'a mut Discovery,
    /// Folders reached through symlinks, so that a loop of links ends.
    folders: HashSet<(u64, u64)>,
    /// Whether a symlink led to where the walk is.
    is_link: bool,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &Path, relative: Vec<u8>) {
        self.discovery.folders.push(Folder { path: folder.to_owned(), is_link: self.is_link });
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => return self.skip(relative, Reason::Unreadable(error.to_string())),
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    self.skip(relative.clone(), Reason::Unreadable(error.to_string()));
                    continue;
                }
            };
            let name = entry.file_name();
            let mut path = relative.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
            let Ok(kind) = entry.file_type() else {
                self.skip(path, Reason::Unreadable("no file type".to_owned()));
                continue;
            };
            if kind.is_symlink() {
                self.link(&entry.path(), path);
            } else if kind.is_dir() {
                match self.format.claim(&path, Node::Directory) {
                    Claim::Enter => self.folder(&entry.path(), path),
                    claim => self.refuse(claim, path),
                }
            } else {
                match self.format.claim(&path, Node::File) {
                    claim @ (Claim::Collect(part) | Claim::Probe(part)) => {
                        if !kind.is_file() {
                            self.skip(path, Reason::NotAFile);
                            continue;
                        }
                        match entry.metadata() {
                            Ok(meta) => {
                                self.file(path, part, matches!(claim, Claim::Probe(_)), &meta)
                            }
                            Err(error) => self.skip(path, Reason::Unreadable(error.to_string())),
                        }
                    }
                    claim => self.refuse(claim, path),
                }
            }
        }
    }

    /// A symlink counts as what it leads to, if that is inside the root and not denied there.
    fn link(&mut self, link: &Path, path: Vec<u8>) {
        let claims =
            [self.format.claim(&path, Node::File), self.format.claim(&path, Node::Directory)];
        if claims.iter().all(|claim| matches!(claim, Claim::Ignore)) {
            return;
        }
        if claims.contains(&Claim::Deny) {
            return self.skip(path, Reason::Denied);
        }
        let Ok(target) = fs::canonicalize(link) else {
            return self.skip(path, Reason::LeavesRoot);
        };
        let Ok(inside) = target.strip_prefix(self.root) else {
            return self.skip(path, Reason::LeavesRoot);
        };
        if names::is_denied(inside.as_os_str().as_bytes()) {
            return self.skip(path, Reason::Denied);
        }
        let Ok(meta) = fs::metadata(&target) else {
            return self.skip(path, Reason::LeavesRoot);
        };
        let [as_file, as_folder] = claims;
        let was_link = std::mem::replace(&mut self.is_link, true);
        if meta.is_dir() {
            match as_folder {
                Claim::Enter if self.folders.insert((meta.dev(), meta.ino())) => {
                    self.folder(&target, path);
                }
                Claim::Enter => {}
                claim => self.refuse(claim, path),
            }
        } else if meta.is_file() {
            match as_file {
                Claim::Collect(part) => self.file(path, part, false, &meta),
                Claim::Probe(part) => self.file(path, part, true, &meta),
                claim => self.refuse(claim, path),
            }
        } else {
            self.skip(path, Reason::NotAFile);
        }
        self.is_link = was_link;
    }

    fn file(&mut self, path: Vec<u8>, part: Part, is_probe: bool, meta: &Metadata) {
        let left_out = self.selection.leaves_out(self.format, &path, part);
        if let Some(why) = left_out {
            self.skip(path.clone(), Reason::LeftOut(why));
        }
        self.discovery.found.push(Found {
            root: self.index,
            path,
            part,
            is_probe,
            stat: Stat::of(meta),
            is_left_out: left_out.is_some(),
            links: meta.nlink(),
            is_link: self.is_link,
        });
    }

    fn refuse(&mut self, claim: Claim, path: Vec<u8>) {
        match claim {
            Claim::LeaveOut(why) => self.skip(path, Reason::LeftOut(why)),
            Claim::Deny => self.skip(path, Reason::Denied),
            Claim::Enter | Claim::Collect(_) | Claim::Probe(_) | Claim::Ignore => {}
        }
    }

    fn skip(&mut self, path: Vec<u8>, reason: Reason) {
        self.discovery.skipped.push(Skipped { root: self.index, path, reason });
    }
}

/// Every file under the roots, or right beside them, whose name is denied. Only names and inodes
/// are looked at.
fn denied_files(roots: &[RootPath]) -> HashSet<(u64, u64)> {
    let mut files = HashSet::default();
    let mut folders: Vec<(&Path, PathBuf)> = Vec::new();
    for root in roots {
        folders.push((&root.path, root.path.clone()));
        // Claude Code keeps `.claude.json` in the home directory itself.
        if let Some(parent) = root.path.parent() {
            let entries = fs::read_dir(parent).into_iter().flatten().flatten();
            let denied = entries.filter(|entry| names::is_denied(entry.file_name().as_bytes()));
            files
                .extend(denied.filter_map(|entry| {
                    entry.metadata().ok().map(|meta| (meta.dev(), meta.ino()))
                }));
        }
    }
    while let Some((root, folder)) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            let path = entry.path();
            if meta.is_dir() {
                folders.push((root, path));
            } else if let Ok(inside) = path.strip_prefix(root)
                && names::is_denied(inside.as_os_str().as_bytes())
            {
                files.insert((meta.dev(), meta.ino()));
            }
        }
    }
    files
}

/// At most this many paths are named for one reason.
pub(crate) const MOST_NAMED: usize = 20;

/// Groups what was skipped by root and reason.
pub(crate) fn summarise(roots: &[RootPath], skipped: &[Skipped]) -> Vec<SkippedFiles> {
    let mut groups: BTreeMap<(usize, &Reason), SkippedFiles> = BTreeMap::new();
    for skip in skipped {
        // The root itself has no path below it.
        let path = if skip.path.is_empty() { &b"."[..] } else { &skip.path };
        let path = String::from_utf8_lossy(path).into_owned();
        let group = groups.entry((skip.root, &skip.reason)).or_insert_with(|| SkippedFiles {
            format: roots.get(skip.root).map_or("", |root| root.format.name()).to_owned(),
            reason: skip.reason.text(),
            files: 0,
            paths: Vec::new(),
            in_database: roots.get(skip.root).is_some_and(|root| in_database(root, &skip.path)),
        });
        group.files += 1;
        if group.paths.len() < MOST_NAMED && !group.paths.contains(&path) {
            group.paths.push(path);
        }
    }
    groups.into_values().collect()
}

/// Whether a path leads into a database.
fn in_database(root: &RootPath, path: &[u8]) -> bool {
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    path.get(..end).is_some_and(|folder| root.format.origin(folder).part == Part::Database)
}

/// A relative path below a root, as a path of this system.
pub(crate) fn absolute(root: &Path, relative: &[u8]) -> PathBuf {
    root.join(OsStr::from_bytes(relative))
}

/// The bytes of a path.
pub(crate) fn path_bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().to_owned().into_vec()
}
