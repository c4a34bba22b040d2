//! Which sessions a person means who names a project: by a part of its path, or by the path.
//!
//! A project's path is the first folder that its session worked in. The name of Claude Code's
//! project folder (the *slug*) is made from that path and loses information, so it is compared and
//! never decoded.

/// Longer slugs end in a hash that differs between releases.
const LONGEST_SLUG: usize = 200;

/// How well a project fits a name. The better, the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Closeness {
    /// Only with a letter more, less or other, or with letters left out.
    Guess,
    /// Every word of it is somewhere in the path.
    Words,
    /// It is a part of the path.
    Part,
    /// A folder of the path begins with it.
    Start,
    /// It is the name of a folder of the path, or the path.
    Whole,
}

/// What a person calls a project.
#[derive(Debug, Clone)]
pub enum Name {
    /// A part of its path, more or less.
    Loose {
        /// In lower case, as it was said.
        said: String,
        /// Letters and digits of it.
        flat: String,
        /// Its words.
        words: Vec<String>,
    },
    /// Its path, or that of a folder above it.
    Path(String),
}

impl Name {
    /// A name as it was said. What begins with `/` is a path.
    pub fn new(said: &str) -> Name {
        let said = said.trim();
        if said.starts_with('/') {
            let path = said.trim_end_matches('/');
            return Name::Path(if path.is_empty() { "/" } else { path }.to_owned());
        }
        let said = said.to_lowercase();
        Name::Loose { flat: flat(&said), words: words(&said).collect(), said }
    }

    /// How well a project fits, by its slug and its path. `None` if it does not.
    pub fn closeness(&self, slug: Option<&str>, path: Option<&str>) -> Option<Closeness> {
        let path = path.filter(|path| !path.is_empty());
        match self {
            Name::Path(name) => match path {
                Some(path) => is_within(path, name).then_some(Closeness::Whole),
                None => is_slug_of(slug?, name).then_some(Closeness::Whole),
            },
            Name::Loose { said, flat, words } => [path, slug]
                .into_iter()
                .flatten()
                .filter_map(|text| loose(text, said, flat, words))
                .max(),
        }
    }

    /// Whether a message speaks of the project.
    pub fn is_in(&self, message: &str) -> bool {
        match self {
            Name::Path(name) => message.contains(name.as_str()),
            Name::Loose { said, .. } => !said.is_empty() && message.to_lowercase().contains(said),
        }
    }
}

fn loose(text: &str, said: &str, name: &str, parts: &[String]) -> Option<Closeness> {
    let lower = text.to_lowercase();
    // A name of signs alone is looked for as it is.
    if name.is_empty() {
        return (!said.is_empty() && lower.contains(said)).then_some(Closeness::Part);
    }
    let folders = || lower.split('/').map(flat).filter(|folder| !folder.is_empty());
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

/// Whether `short` is `long` with letters left out, but not the first, and not most of them.
fn is_abbreviated(long: &str, short: &str) -> bool {
    let mut letters = long.chars();
    long.chars().next() == short.chars().next()
        && short.chars().count() * 2 > long.chars().count()
        && short.chars().all(|letter| letters.any(|other| other == letter))
}

/// Letters and digits alone.
fn flat(text: &str) -> String {
    text.chars().filter(|character| character.is_alphanumeric()).collect()
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|character: char| !character.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
}

/// Whether `path` is `folder` or in it.
fn is_within(path: &str, folder: &str) -> bool {
    folder == "/"
        || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether Claude Code would give the folder this slug: older releases replace slashes alone.
fn is_slug_of(slug: &str, path: &str) -> bool {
    let new: String = path
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character } else { '-' })
        .collect();
    if new.len() > LONGEST_SLUG {
        return new.get(..LONGEST_SLUG).is_some_and(|start| slug.starts_with(start));
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
    fn the_closest_comes_first() {
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
    fn both_ways_to_write_a_slug() {
        assert!(close("/a/b.c", "-a-b.c", "").is_some());
        assert!(close("/a/b.c", "-a-b-c", "").is_some());
        assert!(close("/a/b", "-a-b-c", "").is_none());
        let long = format!("/{}", "x".repeat(300));
        let slug = format!("-{}-1a2b3c", "x".repeat(199));
        assert!(close(&long, &slug, "").is_some());
    }

    #[test]
    fn nothing_is_no_name() {
        assert_eq!(close("", SLUG, "/a"), None);
        assert_eq!(close("--", "-a--b", ""), Some(Closeness::Part));
        assert!(!Name::new("").is_in("anything"));
        assert!(Name::new("eastore").is_in("Please look at the Eastore repository"));
    }
}
