//! What was seen and not collected, and why.

use std::collections::BTreeMap;

use quipu_transcript::format::Part;

use super::RootPath;
use crate::wire::{DAMAGED, ODD, OUTSIDE, SkippedFiles, UNREADABLE};

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
    /// A symlink into another root, where it is looked for anyway.
    OtherRoot,
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
        matches!(self, Reason::Damaged(_) | Reason::Odd(_))
    }

    /// The reason in words.
    pub(crate) fn text(&self) -> String {
        match self {
            Reason::LeftOut(why) => (*why).to_owned(),
            Reason::Denied => "holds secrets; never opened".to_owned(),
            Reason::LeavesRoot => OUTSIDE.to_owned(),
            Reason::OtherRoot => "symbolic link into another root".to_owned(),
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
