//! Matches sessions to a project's name: a part of its path, or the path itself.
//!
//! A project's path is the first folder in which its session worked. The name of Claude Code's
//! project folder (the *slug*) is made from that path and loses information, so it is compared and
//! never decoded.

/// Maximum length in bytes of a slug without a hash. Longer paths are cut here and end in a hash
/// that differs between releases.
const MAX_SLUG_BYTES: usize = 200;

/// Returns the names in a path. A Windows path may have backslashes between them.
pub fn folders(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split(separators(path))
}

/// Returns the characters that separate the names of a path. The backslash is one if the path
/// begins with a drive letter or with the name of a server.
fn separators(path: &str) -> &'static [char] {
    let has_drive = path.get(1..3).is_some_and(|drive| matches!(drive, r":\" | ":/"));
    if has_drive || path.starts_with(r"\\") { &['/', '\\'] } else { &['/'] }
}

/// Returns the folder of the repository that a path is a worktree of, or the path itself. Claude
/// Code makes worktrees in `<repository>/.claude/worktrees/`, people in `<repository>/.worktrees/` or
/// `<repository>-worktrees/`.
pub fn repository(path: &str) -> &str {
    let (mut start, mut before) = (0, None);
    for name in folders(path) {
        let end = start + name.len();
        let is_above_more = path.get(end + 1..).is_some_and(|rest| !rest.is_empty());
        let repository = match (before, name.strip_suffix("-worktrees")) {
            (Some((claude, ".claude")), _) if name == "worktrees" && claude > 1 => claude - 1,
            _ if name == ".worktrees" && start > 1 => start - 1,
            (_, Some(repository)) if !repository.is_empty() => start + repository.len(),
            _ => 0,
        };
        if repository > 0 && is_above_more {
            return path.get(..repository).unwrap_or(path);
        }
        before = Some((start, name));
        start = end + 1;
    }
    path
}

/// The quality of a match between a project and a name; greater is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Closeness {
    /// The name differs by a few letters, or leaves letters out.
    Guess,
    /// Every word of the name is somewhere in the path.
    Words,
    /// The name is a part of the path.
    Part,
    /// A folder of the path begins with the name.
    Start,
    /// The name is a folder of the path, or the whole path.
    Whole,
}

/// A project's name, as a person typed it.
#[derive(Debug, Clone)]
pub enum Name {
    /// A part of the path, compared loosely.
    Loose {
        /// The text in lower case.
        typed: String,
        /// Its letters and digits.
        flat: String,
        /// Its words.
        words: Vec<String>,
    },
    /// The path of the project or of a folder above it.
    Path(String),
}

impl Name {
    /// Parses a name. A name that begins with `/` is a path.
    pub fn new(typed: &str) -> Name {
        let typed = typed.trim();
        if typed.starts_with('/') {
            let path = typed.trim_end_matches('/');
            return Name::Path(if path.is_empty() { "/" } else { path }.to_owned());
        }
        let typed = typed.to_lowercase();
        Name::Loose { flat: flat(&typed), words: words(&typed).collect(), typed }
    }

    /// Returns how well a project matches, by its slug and its path; `None` if it does not.
    pub fn closeness(&self, slug: Option<&str>, path: Option<&str>) -> Option<Closeness> {
        let path = path.filter(|path| !path.is_empty());
        match self {
            Name::Path(name) => match path {
                Some(path) => [path, repository(path)]
                    .into_iter()
                    .any(|path| is_within(path, name))
                    .then_some(Closeness::Whole),
                None => is_slug_of(slug?, name).then_some(Closeness::Whole),
            },
            Name::Loose { typed, flat, words } => [path, path.map(repository), slug]
                .into_iter()
                .flatten()
                .filter_map(|text| loose(text, typed, flat, words))
                .max(),
        }
    }

    /// Returns whether a message mentions the project.
    pub fn is_in(&self, message: &str) -> bool {
        match self {
            Name::Path(name) => message.contains(name.as_str()),
            Name::Loose { typed, .. } => {
                !typed.is_empty() && message.to_lowercase().contains(typed)
            }
        }
    }
}

fn loose(text: &str, typed: &str, name: &str, parts: &[String]) -> Option<Closeness> {
    let lower = text.to_lowercase();
    // A name without letters or digits is compared unchanged.
    if name.is_empty() {
        return (!typed.is_empty() && lower.contains(typed)).then_some(Closeness::Part);
    }
    let folders = || folders(&lower).map(flat).filter(|folder| !folder.is_empty());
    if folders().any(|folder| folder == name) {
        return Some(Closeness::Whole);
    }
    if folders().any(|folder| folder.starts_with(name)) || words(&lower).any(|word| word == name) {
        return Some(Closeness::Start);
    }
    let all = flat(&lower);
    if all.contains(name) {
        return Some(Closeness::Part);
    }
    if parts.len() > 1 && parts.iter().all(|part| all.contains(part.as_str())) {
        return Some(Closeness::Words);
    }
    let is_near = folders().chain(words(&lower)).any(|folder| {
        let distance = match name.chars().count() {
            ..=3 => return false,
            4..=7 => 1,
            _ => 2,
        };
        strsim::osa_distance(&folder, name) <= distance || is_abbreviated(&folder, name)
    });
    is_near.then_some(Closeness::Guess)
}

/// Returns whether `short` is `long` with some letters left out. The first letter and more than
/// half of all letters must be present.
fn is_abbreviated(long: &str, short: &str) -> bool {
    let mut letters = long.chars();
    long.chars().next() == short.chars().next()
        && short.chars().count() * 2 > long.chars().count()
        && short.chars().all(|letter| letters.any(|other| other == letter))
}

/// Returns the letters and digits of `text`.
fn flat(text: &str) -> String {
    text.chars().filter(|character| character.is_alphanumeric()).collect()
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|character: char| !character.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
}

/// Returns whether `path` is `folder` or inside it.
fn is_within(path: &str, folder: &str) -> bool {
    folder == "/"
        || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns whether Claude Code gives this folder this slug. Older releases replace only slashes.
fn is_slug_of(slug: &str, path: &str) -> bool {
    let new: String = path
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character } else { '-' })
        .collect();
    if new.len() > MAX_SLUG_BYTES {
        return new.get(..MAX_SLUG_BYTES).is_some_and(|start| slug.starts_with(start));
    }
    slug == new || slug == path.replace('/', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLUG: &str = "-Users-x-dev-eastore-Eastore-frontend-v1";

    fn close(name: &str, slug: &str, path: &str) -> Option<Closeness> {
        let some = |text: &'static str| (!text.is_empty()).then_some(text);
        Name::new(name).closeness(
            some(Box::leak(slug.to_owned().into_boxed_str())),
            some(Box::leak(path.to_owned().into_boxed_str())),
        )
    }

    #[test]
    fn a_part_of_a_slug_is_enough() {
        for name in ["eastore", "EASTORE", "east", "frontend-v1", "eastore front", "v1 eastore"] {
            assert!(close(name, SLUG, "").is_some(), "{name}");
        }
        for name in ["westore", "backend", "eastore back", "v2"] {
            assert_eq!(
                close(name, SLUG, "").filter(|close| *close > Closeness::Guess),
                None,
                "{name}"
            );
        }
    }

    #[test]
    fn a_closer_match_ranks_higher() {
        let path = "/home/x/dev/shop-api";
        assert_eq!(close("shop-api", "", path), Some(Closeness::Whole));
        assert_eq!(close("shop", "", path), Some(Closeness::Start));
        assert_eq!(close("hop", "", path), Some(Closeness::Part));
        assert_eq!(close("api dev", "", path), Some(Closeness::Words));
        assert_eq!(close("shpo-api", "", path), Some(Closeness::Guess));
        assert_eq!(close("shpapi", "", path), Some(Closeness::Guess));
        assert_eq!(close("ledger", "", path), None);
        assert!(Closeness::Whole > Closeness::Guess);
    }

    #[test]
    fn a_path_means_its_folder_and_what_is_in_it() {
        assert_eq!(close("/a/b", "", "/a/b"), Some(Closeness::Whole));
        assert_eq!(close("/a/b/", "", "/a/b/c"), Some(Closeness::Whole));
        assert_eq!(close("/a/b", "", "/a/bc"), None);
        assert_eq!(close("/a", "-a-b", "/other"), None, "the path is known");
        assert_eq!(close("/", "", "/a"), Some(Closeness::Whole));
    }

    #[test]
    fn both_spellings_of_a_slug_match() {
        assert!(close("/a/b.c", "-a-b.c", "").is_some());
        assert!(close("/a/b.c", "-a-b-c", "").is_some());
        assert!(close("/a/b", "-a-b-c", "").is_none());
        let long = format!("/{}", "x".repeat(300));
        let slug = format!("-{}-1a2b3c", "x".repeat(199));
        assert!(close(&long, &slug, "").is_some());
    }

    #[test]
    fn a_worktree_belongs_to_its_repository() {
        for (path, expected) in [
            ("/home/x/shop/.claude/worktrees/blue", "/home/x/shop"),
            ("/home/x/shop/.claude/worktrees/blue/src", "/home/x/shop"),
            ("/home/x/shop-worktrees/blue", "/home/x/shop"),
            ("/home/x/shop/.worktrees/2", "/home/x/shop"),
            (r"C:\Users\x\shop\.claude\worktrees\blue", r"C:\Users\x\shop"),
            (r"C:\Users\x\shop-worktrees\blue", r"C:\Users\x\shop"),
        ] {
            assert_eq!(repository(path), expected, "{path}");
            assert_eq!(close("shop", "", path), Some(Closeness::Whole), "{path}");
        }
        assert_eq!(close("/home/x/shop", "", "/home/x/shop-worktrees/a"), Some(Closeness::Whole));
        for path in [
            "/home/x/shop",
            "/home/x/shop-worktrees",
            "/home/x/.claude",
            "/home/x/.claude/worktrees",
            "/.claude/worktrees/blue",
            "/home/x/-worktrees/blue",
            r"/home/x/a\.claude\worktrees\b",
            "",
            "/",
        ] {
            assert_eq!(repository(path), path);
        }
    }

    #[test]
    fn a_windows_path_has_folders() {
        let names = |path| folders(path).rfind(|name| !name.is_empty());
        assert_eq!(names(r"C:\Users\x\proj"), Some("proj"));
        assert_eq!(names(r"\\server\share\proj\"), Some("proj"));
        assert_eq!(names("C:/Users/x/proj"), Some("proj"));
        // In other paths a backslash is part of a name.
        assert_eq!(names(r"/home/x/a\b"), Some(r"a\b"));
        assert_eq!(close("proj", "", r"C:\Users\x\proj"), Some(Closeness::Whole));
    }

    #[test]
    fn an_empty_name_matches_no_project() {
        assert_eq!(close("", SLUG, "/a"), None);
        assert_eq!(close("--", "-a--b", ""), Some(Closeness::Part));
        assert!(!Name::new("").is_in("anything"));
        assert!(Name::new("eastore").is_in("Please look at the Eastore repository"));
    }
}
