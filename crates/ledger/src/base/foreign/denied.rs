//! Which files have a name that is never opened, by device and inode: a hard link gives such a file
//! an innocent name. Only names and inodes are looked at.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use foldhash::HashSet;
use quipu_transcript::names;

use super::{FileId, Folder, Kind};

/// Returns every file below `roots`, or right beside them, whose name is denied, and what such a
/// name leads to if it is a link.
pub(crate) fn denied_files<'p>(roots: impl IntoIterator<Item = &'p Path>) -> HashSet<FileId> {
    let mut files = HashSet::default();
    for root in roots {
        // Claude Code keeps `.claude.json` in the home directory itself.
        if let Some(beside) = root.parent().and_then(|parent| Folder::root(parent).ok()) {
            for entry in beside.list().0 {
                if names::is_denied(entry.name.as_bytes()) {
                    add(&mut files, &beside, &entry.name);
                }
            }
        }
        let Ok(root) = Folder::root(root) else { continue };
        let mut folders = vec![PathBuf::new()];
        while let Some(inside) = folders.pop() {
            let Ok(folder) = root.folder(&inside) else { continue };
            for entry in folder.list().0 {
                let path = inside.join(&entry.name);
                if entry.kind == Kind::Folder {
                    folders.push(path);
                } else if names::is_denied(path.as_os_str().as_bytes()) {
                    add(&mut files, &folder, &entry.name);
                }
            }
        }
    }
    files
}

fn add(files: &mut HashSet<FileId>, folder: &Folder, name: &OsStr) {
    let metas = [folder.look(name), folder.look_through(name)];
    files.extend(metas.into_iter().flatten().map(|meta| meta.file()));
}

/// Returns the folder that holds `agents/`, if `path` is such an `agents/` or below one: secrets of
/// an agent lie beside its sessions, not below them.
pub(crate) fn state_folder(path: &Path) -> Option<&Path> {
    let agents = path.ancestors().find(|above| above.file_name() == Some(OsStr::new("agents")))?;
    agents.parent()
}
