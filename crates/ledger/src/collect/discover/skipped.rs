//! What was seen and not collected, and why.

use std::collections::BTreeMap;

use quipu_transcript::format::Part;

use super::RootPath;
use crate::wire::{DAMAGED, NOWHERE, ODD, OUTSIDE, SkippedFiles, UNREADABLE};

/// Something that was seen and not collected.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Skipped {
    pub(crate) root: usize,
    /// Relative to the root. That of a folder ends in a slash; the root itself has none.
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
    /// A symlink that leads out of its root.
    LeavesRoot,
    /// A symlink to something that is not there, or in a circle.
    LeadsNowhere,
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
            Reason::LeadsNowhere => NOWHERE.to_owned(),
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

/// At most this many links that are not followed are named where all of them are asked for: whoever
/// needs a link mended has to know which, but nobody reads a million names.
pub(crate) const MOST_LINKS: usize = 5000;

/// Groups what was skipped by root and reason. Of links that are not followed, at most `most_links`
/// are named.
pub(crate) fn summarise(
    roots: &[RootPath],
    skipped: &[Skipped],
    most_links: usize,
) -> Vec<SkippedFiles> {
    let mut groups: BTreeMap<(usize, &Reason), SkippedFiles> = BTreeMap::new();
    for skip in skipped {
        // The root itself has no path below it.
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
            in_database: roots.get(skip.root).is_some_and(|root| in_database(root, &skip.path)),
        });
        group.files += u64::from(!is_folder);
        group.folders += u64::from(is_folder);
        // Only what is in a database may have the name of another.
        let is_new = |group: &SkippedFiles| is_link || !group.paths.contains(&path);
        if group.paths.len() < if is_link { most_links } else { MOST_NAMED } && is_new(group) {
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

#[cfg(test)]
mod tests {
    use quipu_transcript::format::FORMATS;

    use super::*;

    /// A million of them are counted, and the first thousands are named.
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
            .flat_map(|reason| (0..=MOST_LINKS).map(move |number| skip(number, reason)))
            .collect();
        let named = |most| {
            let groups = summarise(std::slice::from_ref(&root), &skipped, most);
            let group = |group: SkippedFiles| (group.files, group.paths.len());
            groups.into_iter().map(group).collect::<Vec<_>>()
        };
        let all = MOST_LINKS as u64 + 1;
        assert_eq!(named(MOST_LINKS), [(all, MOST_NAMED), (all, MOST_LINKS)]);
        assert_eq!(named(MOST_NAMED), [(all, MOST_NAMED), (all, MOST_NAMED)]);
    }
}
