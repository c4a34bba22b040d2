//! Finds files with denied names by device and inode, because a hard link can give such a file a
//! harmless name.
//!
//! Reads names and inodes only, and never opens a file.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use foldhash::HashSet;
use quipu_transcript::names;

use super::{FileId, FileKind, Folder};

/// The beginnings of the names of agents' state folders. For example, `.openclaw-dev` belongs to
/// the profile `dev`.
const STATE: [&[u8]; 4] = [b".openclaw", b".clawdbot", b".moltbot", b".claude"];

/// Returns every file with a denied name below `roots`, beside them, or in another state folder
/// beside them. If such a name is a link, its target is returned as well.
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
            let is_state = STATE.iter().chain([&own]).any(|state| name.starts_with(state));
            if entry.kind == FileKind::Folder && is_state && !own.is_empty() {
                trees.insert(parent.join(&entry.name));
            } else if names::is_denied(name) {
                add(&mut files, &beside, &entry.name);
            }
        }
    }
    for root in trees {
        let Ok(root) = Folder::root(&root) else { continue };
        let mut folders = vec![PathBuf::new()];
        while let Some(inside) = folders.pop() {
            let Ok(folder) = root.folder(&inside) else { continue };
            for entry in folder.list().0 {
                let path = inside.join(&entry.name);
                if entry.kind == FileKind::Folder {
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

/// Returns the folder that holds `agents/`, if `path` is such an `agents/` or below one. An agent's
/// secrets are beside its sessions, not below them.
pub(crate) fn state_folder(path: &Path) -> Option<&Path> {
    let agents = path.ancestors().find(|above| above.file_name() == Some(OsStr::new("agents")))?;
    agents.parent()
}
