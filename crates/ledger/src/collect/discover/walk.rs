//! Walks through the folders of a root. Its format decides which folders to enter and which files
//! to collect. Never opens a file.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use foldhash::HashSet;
use quipu_transcript::format::{Claim, Format, Node, Part};
use quipu_transcript::names;

use super::{Discovery, Folder, FoundFile, Reason, RootPath, Skipped};
use crate::base::foreign::{Entry, FileId, FileKind, Folder as Handle, Meta};
use crate::collect::select::Selection;
use crate::truth::sources::Stat;

/// A walk over one root.
pub(super) struct Walk<'a> {
    pub(super) index: usize,
    pub(super) format: &'static dyn Format,
    pub(super) selection: Selection,
    pub(super) root: &'a Path,
    /// The open root.
    pub(super) handle: Option<&'a Handle>,
    /// All configured roots.
    pub(super) roots: &'a [RootPath],
    pub(super) discovery: &'a mut Discovery,
    /// Folders reached through symbolic links, so that a loop of links ends.
    pub(super) folders: HashSet<FileId>,
    /// True while the walk is behind a symbolic link.
    pub(super) is_link: bool,
}

impl Walk<'_> {
    /// Walks a folder, and the folders below it that the format enters. `path` is only for watching
    /// the folder; its entries are opened through its handle.
    pub(super) fn folder(&mut self, folder: &Handle, path: &Path, relative: Vec<u8>) {
        self.discovery.folders.push(Folder { path: path.to_owned(), is_link: self.is_link });
        let (entries, failed) = folder.list();
        for Entry { name, kind } in entries {
            let mut below = relative.clone();
            if !below.is_empty() {
                below.push(b'/');
            }
            below.extend_from_slice(name.as_bytes());
            match kind {
                FileKind::Link => self.link(&path.join(&name), below),
                FileKind::Folder => match self.format.claim(&below, Node::Directory) {
                    Claim::Enter => {
                        self.enter(folder.folder(Path::new(&name)), &path.join(&name), below)
                    }
                    claim => self.refuse(claim, as_folder(below)),
                },
                FileKind::File | FileKind::Other => match self.format.claim(&below, Node::File) {
                    claim @ (Claim::Collect(part) | Claim::Probe(part)) => {
                        let is_probe = matches!(claim, Claim::Probe(_));
                        match folder.look(&name) {
                            Ok(meta) if meta.kind == FileKind::File => {
                                self.file(below, part, is_probe, &meta);
                            }
                            Ok(_) => self.skip(below, Reason::NotAFile),
                            Err(error) => self.skip(below, Reason::Unreadable(error.to_string())),
                        }
                    }
                    claim => self.refuse(claim, below),
                },
            }
        }
        if let Some(error) = failed {
            self.skip_folder(relative, Reason::Unreadable(error.to_string()));
        }
    }

    /// Walks a folder that was just opened.
    fn enter(&mut self, opened: io::Result<Handle>, path: &Path, relative: Vec<u8>) {
        match opened {
            Ok(folder) => self.folder(&folder, path, relative),
            Err(error) => self.skip_folder(relative, Reason::Unreadable(error.to_string())),
        }
    }

    /// Handles a symbolic link as its target, if that is inside the root and not denied there.
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
        // The target may have been swapped since, so it is looked up without following links.
        let Some(root) = self.handle else { return };
        let meta = match root.look_below(inside) {
            Ok(meta) => meta,
            Err(error) => return self.skip(path, unfollowed(&error)),
        };
        let [file_claim, folder_claim] = claims;
        let was_link = std::mem::replace(&mut self.is_link, true);
        if meta.kind == FileKind::Folder {
            match folder_claim {
                Claim::Enter if self.folders.insert(meta.file()) => {
                    self.enter(root.folder(inside), &target, path);
                }
                Claim::Enter => {}
                claim => self.refuse(claim, as_folder(path)),
            }
        } else if meta.kind == FileKind::File {
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

    /// Returns the reason why a link to a target outside the root is not followed.
    fn outside(&self, target: &Path) -> Reason {
        let is_there = |root: &&RootPath| {
            root.format.name() == self.format.name() && target.starts_with(&root.path)
        };
        match self.roots.iter().find(is_there) {
            Some(_) => Reason::OtherRoot,
            None => Reason::LeavesRoot,
        }
    }

    fn file(&mut self, path: Vec<u8>, part: Part, is_probe: bool, meta: &Meta) {
        let left_out = self.selection.leaves_out(self.format, &path, part);
        if let Some(why) = left_out {
            self.skip(path.clone(), Reason::LeftOut(why));
        }
        self.discovery.found.push(FoundFile {
            root: self.index,
            path,
            part,
            is_probe,
            stat: Stat::of(meta),
            is_left_out: left_out.is_some(),
            links: meta.links,
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

    pub(super) fn skip_folder(&mut self, path: Vec<u8>, reason: Reason) {
        self.skip(as_folder(path), reason);
    }

    fn skip(&mut self, path: Vec<u8>, reason: Reason) {
        self.discovery.skipped.push(Skipped { root: self.index, path, reason });
    }
}

/// Returns the path of a skipped folder, with a slash. The root's own path stays empty.
fn as_folder(mut path: Vec<u8>) -> Vec<u8> {
    if !path.is_empty() {
        path.push(b'/');
    }
    path
}

/// Returns the reason why a link cannot be followed.
fn unfollowed(error: &std::io::Error) -> Reason {
    let is_loop = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Reason::LeadsNowhere,
        _ if is_loop => Reason::LeadsNowhere,
        _ => Reason::Unreadable(error.to_string()),
    }
}
