//! Changes between versions of a note.

use quipu_ledger::wire::NoteVersion;
use serde::Serialize;
use similar::ChangeTag;

use crate::commands::Context;
use crate::error::Result;
use crate::output::{Style, Text, hunks};
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

pub(super) fn show(
    context: &mut Context,
    reading: &Reading,
    versions: &[NoteVersion],
) -> Result<()> {
    let mut before = "";
    for (index, version) in versions.iter().enumerate() {
        let hunks = hunks(before, &version.text, AROUND);
        let lines = || hunks.iter().flatten();
        let number = |tag| lines().filter(|line| line.tag == tag).count();
        let (added, removed) = (number(ChangeTag::Insert), number(ChangeTag::Delete));
        if context.is_json {
            let diff = lines().map(|line| format!("{}{}\n", line.sign(), line.text)).collect();
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
                    context.output.line(line.shown(" "))?;
                }
            }
        }
        before = &version.text;
    }
    Ok(())
}
