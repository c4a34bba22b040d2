//! Files that were seen and not collected, each with the reason.
//!
//! Grouping and texts are here; the walk and the readers decide.

use std::collections::BTreeMap;

use quipu_transcript::format::Part;

use super::RootPath;
use crate::wire::{DAMAGED, NOT_A_FILE, NOWHERE, ODD, OUTSIDE, SkippedFiles, UNREADABLE};

/// A file or folder that was seen and not collected.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Skipped {
    pub(crate) root: usize,
    /// The path relative to the root. A folder's path ends in a slash; the root's own path is
    /// empty.
    pub(crate) path: Vec<u8>,
    pub(crate) reason: Reason,
}

/// The reason why a file is not collected.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// The format leaves it out, for this reason.
    LeftOut(&'static str),
    /// Its name belongs to a file with secrets.
    Denied,
    /// A symbolic link that leads out of its root.
    LeavesRoot,
    /// A symbolic link whose target does not exist, or that leads in a circle.
    LeadsNowhere,
    /// A symbolic link into another root, which is walked anyway.
    OtherRoot,
    /// The same file as another one that is collected.
    SameFile,
    /// Not a regular file.
    NotAFile,
    /// Its metadata or contents could not be read.
    Unreadable(String),
    /// It could not be decompressed to its end. The lines before the damage are kept.
    Damaged(String),
    /// It is collected, but is not what its name claims.
    Odd(&'static str),
    /// None of its lines is a record of this format.
    NotATranscript,
    /// Its session was forgotten.
    Forgotten,
}

impl Reason {
    /// Returns whether the file was collected nevertheless, as far as possible.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self, Reason::Damaged(_) | Reason::Odd(_))
    }

    /// Returns the reason in words.
    pub(crate) fn text(&self) -> String {
        match self {
            Reason::LeftOut(why) => (*why).to_owned(),
            Reason::Denied => "may contain secrets; never opened".to_owned(),
            Reason::LeavesRoot => OUTSIDE.to_owned(),
            Reason::LeadsNowhere => NOWHERE.to_owned(),
            Reason::OtherRoot => "symbolic link into another root".to_owned(),
            Reason::SameFile => "the same file as another one".to_owned(),
            Reason::NotAFile => NOT_A_FILE.to_owned(),
            Reason::Unreadable(why) => format!("{UNREADABLE}{why}"),
            Reason::Damaged(why) => format!("{DAMAGED}{why}"),
            Reason::Odd(what) => format!("{ODD}{what}"),
            Reason::NotATranscript => "it has no record".to_owned(),
            Reason::Forgotten => "forgotten; no longer opened".to_owned(),
        }
    }
}

/// The largest number of paths that are listed for one reason.
pub(crate) const MAX_LISTED_PATHS: usize = 20;

/// The largest number of unfollowed links that `status` lists. A person who repairs links has to
/// know which, but does not read a million names.
pub(crate) const MAX_LISTED_LINKS: usize = 5000;

/// Groups skipped files by root and reason. Lists at most `max_links` links that are not followed.
pub(crate) fn summarise(
    roots: &[RootPath],
    skipped: &[Skipped],
    max_links: usize,
) -> Vec<SkippedFiles> {
    let mut groups: BTreeMap<(usize, &Reason), SkippedFiles> = BTreeMap::new();
    for skip in skipped {
        // The root itself has an empty path.
        let is_folder = skip.path.is_empty() || skip.path.ends_with(b"/");
        let is_link = matches!(skip.reason, Reason::LeavesRoot | Reason::LeadsNowhere);
        let path = if skip.path.is_empty() { &b"."[..] } else { &skip.path };
        let path = String::from_utf8_lossy(path).into_owned();
        let group = groups.entry((skip.root, &skip.reason)).or_insert_with(|| SkippedFiles {
            format: roots.get(skip.root).map_or("", |root| root.format.name()).to_owned(),
            reason: skip.reason.text(),
            files: 0,
            folders: 0,
            paths: Vec::new(),
            is_in_database: roots.get(skip.root).is_some_and(|root| in_database(root, &skip.path)),
        });
        group.files += u64::from(!is_folder);
        group.folders += u64::from(is_folder);
        // Only paths in a database can repeat.
        let is_new = |group: &SkippedFiles| is_link || !group.paths.contains(&path);
        if group.paths.len() < if is_link { max_links } else { MAX_LISTED_PATHS } && is_new(group) {
            group.paths.push(path);
        }
    }
    groups.into_values().collect()
}

/// Returns whether a path leads into a database.
fn in_database(root: &RootPath, path: &[u8]) -> bool {
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    path.get(..end).is_some_and(|folder| root.format.origin(folder).part == Part::Database)
}

#[cfg(test)]
mod tests {
    use quipu_transcript::format::FORMATS;

    use super::*;

    /// A million links are counted, and the first few thousand are listed.
    #[test]
    fn links_are_named_up_to_a_limit() {
        let root = RootPath {
            format: *FORMATS.first().unwrap(),
            path: "/root".into(),
            selection: Default::default(),
            retention: Default::default(),
        };
        let skip = |number: usize, reason: &Reason| Skipped {
            root: 0,
            path: format!("projects/{number}").into_bytes(),
            reason: reason.clone(),
        };
        let skipped: Vec<Skipped> = [Reason::LeavesRoot, Reason::Denied]
            .iter()
            .flat_map(|reason| (0..=MAX_LISTED_LINKS).map(move |number| skip(number, reason)))
            .collect();
        let named = |max_links| {
            let groups = summarise(std::slice::from_ref(&root), &skipped, max_links);
            let group = |group: SkippedFiles| (group.files, group.paths.len());
            groups.into_iter().map(group).collect::<Vec<_>>()
        };
        let all = MAX_LISTED_LINKS as u64 + 1;
        assert_eq!(named(MAX_LISTED_LINKS), [(all, MAX_LISTED_PATHS), (all, MAX_LISTED_LINKS)]);
        assert_eq!(named(MAX_LISTED_PATHS), [(all, MAX_LISTED_PATHS), (all, MAX_LISTED_PATHS)]);
    }
}
