//! Systems without inotify: the `notify` crate (FSEvents on macOS).
//!
//! FSEvents watches whole trees and opens nothing in them, and each new path restarts its stream.
//! So only the topmost followed folders are registered, as trees; the filter drops events that no
//! format claims.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::event::{EventKind, ModifyKind};
use notify::{ErrorKind, RecommendedWatcher, RecursiveMode, Watcher};

use super::Follow;
use crate::collect::Folder;
use crate::collect::watch::hint::{Filter, PathChange};

/// Events of the followed folders.
#[derive(Debug)]
pub(in crate::collect::watch) struct Events {
    watcher: RecommendedWatcher,
    trees: HashSet<PathBuf>,
}

impl Events {
    pub(in crate::collect::watch) fn start(filter: Arc<Filter>) -> io::Result<Events> {
        let forward = move |event: notify::Result<notify::Event>| match event {
            Ok(event) if event.need_rescan() => filter.anything(),
            Ok(event) => forward(&filter, &event),
            Err(_) => filter.anything(),
        };
        let watcher = notify::recommended_watcher(forward).map_err(io::Error::other)?;
        Ok(Events { watcher, trees: HashSet::new() })
    }

    /// Returns whether a folder with that path is followed.
    pub(in crate::collect::watch) fn follows(&self, path: &Path) -> bool {
        path.ancestors().any(|above| self.trees.contains(above))
    }

    /// Follows one more folder.
    pub(in crate::collect::watch) fn follow(&mut self, folder: &Folder) -> Follow {
        if self.follows(&folder.path) {
            return Follow::Done;
        }
        match self.watcher.watch(&folder.path, RecursiveMode::Recursive) {
            Ok(()) => {
                self.trees.insert(folder.path.clone());
                Follow::Done
            }
            Err(error) if matches!(error.kind, ErrorKind::MaxFilesWatch) => Follow::NoneLeft,
            Err(_) => Follow::Refused,
        }
    }

    /// Stops following all folders that are not `wanted`.
    pub(in crate::collect::watch) fn retain(&mut self, wanted: &HashSet<PathBuf>) {
        let unwanted: Vec<PathBuf> =
            self.trees.iter().filter(|tree| !wanted.contains(*tree)).cloned().collect();
        for tree in unwanted {
            self.trees.remove(&tree);
            // The tree may be gone already.
            let _ = self.watcher.unwatch(&tree);
        }
    }
}

fn forward(filter: &Filter, event: &notify::Event) {
    let appeared_or_disappeared = match event.kind {
        EventKind::Access(_) => return,
        EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Metadata(_)) => false,
        _ => true,
    };
    for path in &event.paths {
        // The kind of a deleted path is unknown, so it counts as a file and as a folder.
        let is_folder = path.is_dir();
        filter.event(path, PathChange { is_folder, appeared_or_disappeared });
        if appeared_or_disappeared && !path.exists() {
            filter.event(path, PathChange { is_folder: true, appeared_or_disappeared });
        }
    }
}
