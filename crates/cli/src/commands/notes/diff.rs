//! Changes between versions of a note.

use quipu_ledger::wire::NoteVersion;
use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use crate::commands::Context;
use crate::error::Result;
use crate::output::{Style, Text};
use crate::reading::Reading;

/// Unchanged lines shown around a change.
const AROUND: usize = 2;

/// One version as `--json` prints it.
#[derive(Serialize)]
struct Changed<'a> {
    agent: &'a str,
    name: &'a str,
    version: u64,
    time: Option<i64>,
    added: usize,
    removed: usize,
    diff: String,
}

/// One line of a difference.
struct Line {
    tag: ChangeTag,
    text: String,
}

pub(super) fn show(
    context: &mut Context,
    reading: &Reading,
    versions: &[NoteVersion],
) -> Result<()> {
    let mut before = "";
    for (index, version) in versions.iter().enumerate() {
        let hunks = hunks(before, &version.text);
        let lines = || hunks.iter().flatten();
        let number = |tag| lines().filter(|line| line.tag == tag).count();
        let (added, removed) = (number(ChangeTag::Insert), number(ChangeTag::Delete));
        if context.is_json {
            let diff = lines().map(|line| format!("{}{}\n", sign(line.tag), line.text)).collect();
            let NoteVersion { agent, name, version, time, .. } = version;
            let (version, time) = (*version, *time);
            reading.json(context, &Changed { agent, name, version, time, added, removed, diff })?;
        } else {
            if index > 0 {
                context.output.gap()?;
            }
            let counted = format!("  +{added} −{removed}");
            context
                .output
                .line(super::heading(version, versions.len()).with(Style::Dim, counted))?;
            for (number, hunk) in hunks.iter().enumerate() {
                if number > 0 {
                    context.output.line(Text::styled(Style::Dim, "  …"))?;
                }
                for line in hunk {
                    let style = match line.tag {
                        ChangeTag::Insert => Style::Good,
                        ChangeTag::Delete => Style::Bad,
                        ChangeTag::Equal => Style::Plain,
                    };
                    let text = format!("{} {}", sign(line.tag), line.text);
                    context.output.line(Text::styled(style, text))?;
                }
            }
        }
        before = &version.text;
    }
    Ok(())
}

/// Returns the changed places of two texts, with the lines around them.
fn hunks(before: &str, after: &str) -> Vec<Vec<Line>> {
    let diff = TextDiff::configure()
        // A note of a megabyte that was rewritten must not take minutes.
        .timeout(std::time::Duration::from_millis(500))
        .diff_lines(before, after);
    diff.grouped_ops(AROUND)
        .iter()
        .map(|group| {
            let changes = group.iter().flat_map(|op| diff.iter_changes(op));
            changes
                .map(|change| Line {
                    tag: change.tag(),
                    text: change.value().trim_end_matches(['\n', '\r']).to_owned(),
                })
                .collect()
        })
        .collect()
}

fn sign(tag: ChangeTag) -> char {
    match tag {
        ChangeTag::Insert => '+',
        ChangeTag::Delete => '-',
        ChangeTag::Equal => ' ',
    }
}
