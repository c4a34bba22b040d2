//! Finds files with denied names by device and inode, because a hard link can give such a file a
//! harmless name.
//!
//! Reads names and inodes only, and never opens a file.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use foldhash::HashSet;
use quipu_transcript::names;

use super::{FileId, FileKind, Folder};

/// The beginnings of the names of agents' state folders. For example, `.openclaw-dev` belongs to
/// the profile `dev`.
const STATE_PREFIXES: [&[u8]; 4] = [b".openclaw", b".clawdbot", b".moltbot", b".claude"];

/// The largest number of entries that are read of one denied folder and the folders in it. A folder
/// of keys has a few dozen.
const MAX_ENTRIES: usize = 20_000;

/// The depth to which the folders in a denied folder are read.
const MAX_DEPTH: usize = 16;

/// Returns every file with a denied name below `roots`, beside them, or in another state folder
/// beside them, and every file in a folder with a denied name there. If such a name is a link, its
/// target is returned as well.
pub(crate) fn denied_files<'p>(roots: impl IntoIterator<Item = &'p Path>) -> HashSet<FileId> {
    let mut files = HashSet::default();
    let mut trees: BTreeSet<PathBuf> = BTreeSet::new();
    for root in roots {
        trees.insert(root.to_owned());
        // Claude Code keeps `.claude.json` in the home directory itself.
        let Some(parent) = root.parent() else { continue };
        let Ok(beside) = Folder::root(parent) else { continue };
        let own = root.file_name().map_or(&b""[..], OsStr::as_bytes);
        for entry in beside.list().0 {
            let name = entry.name.as_bytes();
            let is_state = STATE_PREFIXES.iter().chain([&own]).any(|state| name.starts_with(state));
            let may_be_folder = matches!(entry.kind, FileKind::Folder | FileKind::Link);
            if may_be_folder && is_state && !own.is_empty() && !names::is_denied(name) {
                trees.extend(parent.join(&entry.name).canonicalize());
            } else if names::is_denied(name) {
                add(&mut files, &beside, &entry.name, &parent.join(&entry.name));
            }
        }
    }
    for real in trees {
        let Ok(root) = Folder::root(&real) else { continue };
        let mut folders = vec![PathBuf::new()];
        while let Some(inside) = folders.pop() {
            let Ok(folder) = root.folder(&inside) else { continue };
            for entry in folder.list().0 {
                let path = inside.join(&entry.name);
                if entry.kind == FileKind::Folder {
                    folders.push(path);
                } else if names::is_denied(path.as_os_str().as_bytes()) {
                    add(&mut files, &folder, &entry.name, &real.join(path));
                }
            }
        }
    }
    files
}

/// Adds an entry with a denied name. Adds the target of a link and the contents of a folder too.
fn add(files: &mut HashSet<FileId>, folder: &Folder, name: &OsStr, path: &Path) {
    if look(files, folder, name) == Some(FileKind::Folder) {
        add_inside(files, path);
    }
}

/// Adds the entry and the target of a link. Returns the kind of the target.
fn look(files: &mut HashSet<FileId>, folder: &Folder, name: &OsStr) -> Option<FileKind> {
    let target = folder.look_through(name).ok();
    let metas = [folder.look(name).ok(), target];
    files.extend(metas.into_iter().flatten().map(|meta| meta.file()));
    target.map(|meta| meta.kind)
}

/// Adds everything in a denied folder, nearest entries first.
fn add_inside(files: &mut HashSet<FileId>, path: &Path) {
    let mut folders = VecDeque::from([(path.to_owned(), 1)]);
    let mut seen: HashSet<PathBuf> = HashSet::default();
    let mut left = MAX_ENTRIES;
    while let Some((path, level)) = folders.pop_front() {
        let Ok(path) = path.canonicalize() else { continue };
        let Ok(folder) = Folder::root(&path) else { continue };
        // Links may lead in a circle.
        if !seen.insert(path.clone()) {
            continue;
        }
        for entry in folder.list().0 {
            if left == 0 {
                return;
            }
            left -= 1;
            let kind = look(files, &folder, &entry.name);
            if kind == Some(FileKind::Folder) && level < MAX_DEPTH {
                folders.push_back((path.join(&entry.name), level + 1));
            }
        }
    }
}

/// Returns the folder that holds `agents/`, if `path` is such an `agents/` or below one. An agent's
/// secrets are beside its sessions, not below them.
pub(crate) fn state_folder(path: &Path) -> Option<&Path> {
    let agents = path.ancestors().find(|above| above.file_name() == Some(OsStr::new("agents")))?;
    agents.parent()
}
