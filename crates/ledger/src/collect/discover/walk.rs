//! Goes through the folders of a root, asking its format what to look into and what to collect.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use foldhash::HashSet;
use quipu_transcript::format::{Claim, Format, Node, Part};
use quipu_transcript::names;

use super::{Discovery, Folder, Found, Reason, RootPath, Skipped, Stat};
use crate::collect::select::Selection;

/// A walk over one root.
pub(super) struct Walk<'a> {
    pub(super) index: usize,
    pub(super) format: &'static dyn Format,
    pub(super) selection: Selection,
    pub(super) root: &'a Path,
    /// All roots there are.
    pub(super) roots: &'a [RootPath],
    pub(super) discovery: &'a mut Discovery,
    /// Folders reached through symlinks, so that a loop of links ends.
    pub(super) folders: HashSet<(u64, u64)>,
    /// Whether a symlink led to where the walk is.
    pub(super) is_link: bool,
}

impl Walk<'_> {
    /// Looks into a folder, and into those below it that are the format's.
    pub(super) fn folder(&mut self, folder: &Path, relative: Vec<u8>) {
        self.discovery.folders.push(Folder { path: folder.to_owned(), is_link: self.is_link });
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => return self.skip_folder(relative, Reason::Unreadable(error.to_string())),
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    self.skip_folder(relative.clone(), Reason::Unreadable(error.to_string()));
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
                    claim => self.refuse(claim, as_folder(path)),
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
        let target = match fs::canonicalize(link) {
            Ok(target) => target,
            Err(error) => return self.skip(path, unfollowed(&error)),
        };
        let Ok(inside) = target.strip_prefix(self.root) else {
            return self.skip(path, self.outside(&target));
        };
        if names::is_denied(inside.as_os_str().as_bytes()) {
            return self.skip(path, Reason::Denied);
        }
        let meta = match fs::metadata(&target) {
            Ok(meta) => meta,
            Err(error) => return self.skip(path, unfollowed(&error)),
        };
        let [file_claim, folder_claim] = claims;
        let was_link = std::mem::replace(&mut self.is_link, true);
        if meta.is_dir() {
            match folder_claim {
                Claim::Enter if self.folders.insert((meta.dev(), meta.ino())) => {
                    self.folder(&target, path);
                }
                Claim::Enter => {}
                claim => self.refuse(claim, as_folder(path)),
            }
        } else if meta.is_file() {
            match file_claim {
                Claim::Collect(part) => self.file(path, part, false, &meta),
                Claim::Probe(part) => self.file(path, part, true, &meta),
                claim => self.refuse(claim, path),
            }
        } else {
            self.skip(path, Reason::NotAFile);
        }
        self.is_link = was_link;
    }

    /// Why a link to a place outside the root is not followed.
    fn outside(&self, target: &Path) -> Reason {
        let is_there = |root: &&RootPath| {
            root.format.name() == self.format.name() && target.starts_with(&root.path)
        };
        match self.roots.iter().find(is_there) {
            Some(_) => Reason::OtherRoot,
            None => Reason::LeavesRoot,
        }
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

    fn skip_folder(&mut self, path: Vec<u8>, reason: Reason) {
        self.skip(as_folder(path), reason);
    }

    fn skip(&mut self, path: Vec<u8>, reason: Reason) {
        self.discovery.skipped.push(Skipped { root: self.index, path, reason });
    }
}

/// The path of a folder that is skipped. The root itself has none.
fn as_folder(mut path: Vec<u8>) -> Vec<u8> {
    if !path.is_empty() {
        path.push(b'/');
    }
    path
}

/// Why a link cannot be followed to where it leads.
fn unfollowed(error: &std::io::Error) -> Reason {
    let is_loop = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Reason::LeadsNowhere,
        _ if is_loop => Reason::LeadsNowhere,
        _ => Reason::Unreadable(error.to_string()),
    }
}

/// Every file under the roots, or right beside them, whose name is denied. Only names and inodes
/// are looked at.
pub(super) fn denied_files(roots: &[RootPath]) -> HashSet<(u64, u64)> {
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
