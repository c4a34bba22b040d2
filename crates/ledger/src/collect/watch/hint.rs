//! The meaning of a file-system event, by the claims of the formats. Most events have none.
//!
//! Never opens a file, and looks at the disk only to recognize links.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use quipu_transcript::format::{Claim, Node};

use super::inbox::{Hint, Inbox};
use crate::collect::{RootPath, claimed};

/// The change of a path, as far as an event reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PathChange {
    /// True for a folder.
    pub(super) is_folder: bool,
    /// True if the name appeared or disappeared.
    pub(super) appeared_or_disappeared: bool,
}

/// A filter between the events of the system and the inbox.
#[derive(Debug)]
pub(super) struct Filter {
    roots: RwLock<Vec<RootPath>>,
    inbox: Arc<Inbox>,
}

impl Filter {
    pub(super) fn new(inbox: Arc<Inbox>) -> Filter {
        Filter { roots: RwLock::default(), inbox }
    }

    /// Replaces the roots that events are compared with.
    pub(super) fn set_roots(&self, roots: Vec<RootPath>) {
        *self.roots.write().unwrap_or_else(PoisonError::into_inner) = roots;
    }

    /// Adds a hint if a format claims the changed path.
    pub(super) fn event(&self, path: &Path, change: PathChange) {
        let hint = {
            let roots = self.roots.read().unwrap_or_else(PoisonError::into_inner);
            hint(&roots, path, change)
        };
        if let Some(hint) = hint {
            self.inbox.put(hint);
        }
    }

    /// Adds the hint that any file may have changed.
    pub(super) fn anything(&self) {
        self.inbox.put(Hint::All);
    }
}

/// Returns the hint for a changed path.
fn hint(roots: &[RootPath], path: &Path, change: PathChange) -> Option<Hint> {
    roots.iter().find_map(|root| {
        // A root, or a folder above one, appeared or disappeared.
        if root.path.starts_with(path) {
            return Some(Hint::All);
        }
        let inside = path.strip_prefix(&root.path).ok()?.as_os_str().as_bytes();
        if change.is_folder {
            return is_entered(root, inside).then_some(Hint::All);
        }
        if claimed(root.format, inside).is_some() {
            return Some(Hint::File(path.to_owned()));
        }
        // Changes of a database appear in its log first.
        if inside
            .strip_suffix(b"-wal")
            .is_some_and(|database| claimed(root.format, database).is_some())
        {
            return Some(Hint::All);
        }
        // The event of a link to a folder does not report a folder.
        let may_lead_on = change.appeared_or_disappeared && is_entered(root, inside);
        (may_lead_on && path.is_symlink()).then_some(Hint::All)
    })
}

/// Returns whether the walk enters a folder with that path.
fn is_entered(root: &RootPath, inside: &[u8]) -> bool {
    let above = inside.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    above
        .chain([inside.len()])
        .filter_map(|end| inside.get(..end))
        .all(|folder| root.format.claim(folder, Node::Directory) == Claim::Enter)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: PathChange = PathChange { is_folder: false, appeared_or_disappeared: false };
    const FOLDER: PathChange = PathChange { is_folder: true, appeared_or_disappeared: true };

    fn roots() -> Vec<RootPath> {
        [("claude-code", "/h/.claude"), ("openclaw", "/h/.openclaw")]
            .map(|(name, path)| RootPath {
                format: quipu_transcript::format::by_name(name).unwrap(),
                path: path.into(),
                selection: Default::default(),
                retention: Default::default(),
            })
            .to_vec()
    }

    #[track_caller]
    fn check(path: &str, change: PathChange, expected: Option<Hint>) {
        assert_eq!(hint(&roots(), Path::new(path), change), expected);
    }

    #[test]
    fn claimed_files_are_hints() {
        let path = "/h/.claude/projects/-a/00000001-0000-4000-8000-000000000001.jsonl";
        check(path, WRITTEN, Some(Hint::File(path.into())));
        let path = "/h/.openclaw/agents/main/sessions/x.jsonl.reset.2026";
        check(path, WRITTEN, Some(Hint::File(path.into())));
    }

    #[test]
    fn unclaimed_paths_are_no_hints() {
        check("/h/.bash_history", WRITTEN, None);
        check("/h/.claude/settings.json", WRITTEN, None);
        check("/h/.claude/projects/-a/notes.txt", WRITTEN, None);
        check("/h/.openclaw/credentials/a/sessions/x.jsonl", WRITTEN, None);
        check("/h/.openclaw/agents/main/sessions/auth-profiles.json", WRITTEN, None);
        check("/h/Downloads", FOLDER, None);
        check("/h/.openclaw/credentials", FOLDER, None);
        check("/h/.claude/todos", FOLDER, None);
    }

    #[test]
    fn folders_that_are_entered_are_hints_for_a_sweep() {
        check("/h/.claude/projects/-new", FOLDER, Some(Hint::All));
        check("/h/.claude/projects/-a/00000001/subagents", FOLDER, Some(Hint::All));
        check("/h/.claude", FOLDER, Some(Hint::All));
        check("/h", FOLDER, Some(Hint::All));
    }
}
