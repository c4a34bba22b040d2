//! Chooses the folders to watch: those in which a format looks for files, one watch for each. Never
//! watches a denied folder, or anything below a folder that is left out.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::events::{Events, Follow};
use super::hint::Filter;
use super::policy::Cover;
use crate::collect::{Folder, RootPath, resolve};

/// The watched folders.
#[derive(Debug)]
pub(super) struct Folders {
    /// `None` if the system has no file events.
    events: Option<Events>,
    filter: Arc<Filter>,
    /// Roots that exist and that the last walk did not enter.
    unwalked: HashSet<PathBuf>,
}

/// The result of watching all folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Covered {
    pub(super) cover: Cover,
    /// True if files may have changed between the walk and the new watches.
    pub(super) is_late: bool,
    /// The number of folders that should be watched.
    pub(super) wanted: usize,
    /// The number of these that are not watched.
    pub(super) missing: usize,
}

impl Folders {
    pub(super) fn new(filter: Filter) -> Folders {
        let filter = Arc::new(filter);
        let events = Events::start(Arc::clone(&filter));
        if let Err(error) = &events {
            tracing::debug!(%error, "The system has no file events.");
        }
        Folders { events: events.ok(), filter, unwalked: HashSet::new() }
    }

    /// Watches exactly these folders, and the nearest folders above roots that do not exist yet.
    pub(super) fn cover(&mut self, folders: Vec<Folder>, roots: &[RootPath]) -> Covered {
        let roots = resolve(roots);
        let mut wanted = folders;
        let mut seen: HashSet<PathBuf> = HashSet::new();
        wanted.retain(|folder| seen.insert(folder.path.clone()));
        self.unwalked.retain(|root| !seen.contains(root));
        let (_, others): (Vec<_>, Vec<_>) =
            roots.iter().partition(|root| seen.contains(&root.path));
        let mut is_late = false;
        for root in others {
            if root.path.is_dir() {
                // The root was created after the walk, or is another name of a root that was
                // walked.
                is_late |= self.unwalked.insert(root.path.clone());
                continue;
            }
            self.unwalked.remove(&root.path);
            // On other systems a watch covers a whole tree, and the whole home folder would cause
            // too many events: there the sweep finds new roots.
            if cfg!(target_os = "linux")
                && let Some(path) = nearest(&root.path)
                && seen.insert(path.clone())
            {
                wanted.push(Folder { path, is_link: false });
            }
        }
        self.filter.set_roots(roots);
        let Some(events) = &mut self.events else {
            let wanted = wanted.len();
            return Covered { cover: Cover::Blind, is_late, wanted, missing: wanted };
        };
        events.retain(&seen);
        drop(seen);
        let number = wanted.len();
        wanted.retain(|folder| !events.follows(&folder.path));
        // If there are too few watches, the topmost and the most recently changed folders get them.
        let top = wanted.iter().map(|folder| depth(&folder.path)).min().unwrap_or(0);
        wanted.sort_by_cached_key(|folder| {
            (depth(&folder.path) > top + 1, std::cmp::Reverse(modified(&folder.path)))
        });
        let mut missing = 0;
        for (index, folder) in wanted.iter().enumerate() {
            match events.follow(folder) {
                Follow::Done => is_late = true,
                // It is gone or not readable; the next sweep decides.
                Follow::Refused => {}
                Follow::NoneLeft => {
                    missing = wanted.len() - index;
                    break;
                }
            }
        }
        let cover = match missing {
            0 => Cover::Full,
            missing if missing == number => Cover::Blind,
            _ => Cover::Part,
        };
        Covered { cover, is_late, wanted: number, missing }
    }
}

/// Returns the nearest existing folder above a root that does not exist.
fn nearest(root: &Path) -> Option<PathBuf> {
    root.ancestors().skip(1).find(|folder| folder.is_dir()).map(Path::to_owned)
}

fn depth(path: &Path) -> usize {
    path.components().count()
}

fn modified(path: &Path) -> SystemTime {
    std::fs::metadata(path).and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}
