//! The difference between two texts, line by line.

use similar::{ChangeTag, TextDiff};

use super::{Style, Text};

/// One line of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiffLine {
    pub(crate) tag: ChangeTag,
    pub(crate) text: String,
}

impl DiffLine {
    /// Returns the sign before the line in a patch.
    pub(crate) fn sign(&self) -> char {
        match self.tag {
            ChangeTag::Insert => '+',
            ChangeTag::Delete => '-',
            ChangeTag::Equal => ' ',
        }
    }

    /// Returns the line with its sign, styled.
    pub(crate) fn shown(&self, between: &str) -> Text {
        let style = match self.tag {
            ChangeTag::Insert => Style::Good,
            ChangeTag::Delete => Style::Bad,
            ChangeTag::Equal => Style::Plain,
        };
        let text = self.text.replace('\t', "    ");
        Text::styled(style, format!("{}{between}{text}", self.sign()))
    }
}

/// Returns the changed places of two texts, with `around` unchanged lines around each.
pub(crate) fn hunks(before: &str, after: &str, around: usize) -> Vec<Vec<DiffLine>> {
    let diff = TextDiff::configure()
        // Comparing two unlike texts of a megabyte would otherwise take minutes.
        .timeout(std::time::Duration::from_millis(500))
        .diff_lines(before, after);
    diff.grouped_ops(around)
        .iter()
        .map(|group| {
            let changes = group.iter().flat_map(|op| diff.iter_changes(op));
            changes
                .map(|change| DiffLine {
                    tag: change.tag(),
                    text: change.value().trim_end_matches(['\n', '\r']).to_owned(),
                })
                .collect()
        })
        .collect()
}
