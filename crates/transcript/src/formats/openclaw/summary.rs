//! The file lists that pi and OpenClaw append to a compaction's summary:
//!
//! ```text
//! <read-files>
//! - AGENTS.md
//! </read-files>
//! ```
//!
//! The tags stay in the text; the lists are only read from it.

use std::borrow::Cow;
use std::collections::HashSet;

/// Returns the files in the record's details, then those in the summary's lists called `tag`, each
/// once.
pub(super) fn files(
    details: Option<Vec<Cow<'_, str>>>,
    summary: &str,
    tag: &'static str,
) -> Vec<String> {
    let mut seen = HashSet::new();
    let details = details.unwrap_or_default();
    let listed = lists(summary, tag).flat_map(str::lines).map(item);
    details
        .iter()
        .map(Cow::as_ref)
        .chain(listed)
        .filter(|file| !file.is_empty() && seen.insert(*file))
        .map(str::to_owned)
        .collect()
}

/// Returns the text between each `<tag>` and the `</tag>` after it.
fn lists<'t>(text: &'t str, tag: &'static str) -> impl Iterator<Item = &'t str> {
    let (opening, closing) = (format!("<{tag}>"), format!("</{tag}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, behind) = rest.split_once(&opening)?;
        let (list, behind) = behind.split_once(&closing)?;
        rest = behind;
        Some(list)
    })
}

/// Returns a line of a list without its bullet.
fn item(line: &str) -> &str {
    let line = line.trim();
    line.strip_prefix("- ").or(line.strip_prefix("* ")).unwrap_or(line).trim()
}

#[cfg(test)]
mod tests {
    use super::files;

    #[test]
    fn r17_lists_are_read_with_and_without_bullets() {
        let summary = "Did things.\n\n<read-files>\n- AGENTS.md\nsrc/a b.rs\n\n- AGENTS.md\n</read-files>\n\
                       <modified-files>- x.md</modified-files><modified-files>\ny.md\n</modified-files>";
        assert_eq!(files(None, summary, "read-files"), ["AGENTS.md", "src/a b.rs"]);
        assert_eq!(files(None, summary, "modified-files"), ["x.md", "y.md"]);
        let details = Some(vec!["src/a b.rs".into(), "z.rs".into()]);
        assert_eq!(files(details, summary, "read-files"), ["src/a b.rs", "z.rs", "AGENTS.md"]);
    }

    #[test]
    fn an_unclosed_list_is_ignored() {
        assert!(files(None, "<read-files>\n- a", "read-files").is_empty());
        assert!(files(None, "</read-files><read-files>", "read-files").is_empty());
    }
}
