//! Changes between versions of a note.

use quipu_ledger::wire::{NoteChange, NoteVersion};
use similar::ChangeTag;

use crate::commands::Context;
use crate::error::Result;
use crate::output::{Style, Text, hunks};
use crate::reading::Reading;

/// Number of unchanged lines that are shown around a change.
const CONTEXT_LINES: usize = 2;

pub(super) fn show(
    context: &mut Context,
    reading: &Reading,
    versions: &[NoteVersion],
) -> Result<()> {
    let mut before = "";
    for (index, version) in versions.iter().enumerate() {
        let hunks = hunks(before, &version.text, CONTEXT_LINES);
        let lines = || hunks.iter().flatten();
        let number = |tag| lines().filter(|line| line.tag == tag).count();
        let (added, removed) = (number(ChangeTag::Insert), number(ChangeTag::Delete));
        if context.is_json {
            let diff = lines().map(|line| format!("{}{}\n", line.sign(), line.text)).collect();
            let NoteVersion { agent, name, version, time, .. } = version;
            let (version, time) = (*version, *time);
            let change = NoteChange {
                agent,
                name,
                version,
                time,
                added_lines: added,
                removed_lines: removed,
                diff,
            };
            reading.json(context, &change)?;
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
                    context.output.line(line.shown(" "))?;
                }
            }
        }
        before = &version.text;
    }
    Ok(())
}
