//! `quipu cursors`: how far each file was read.

use quipu_ledger::wire::Cursor;
use quipu_transcript::format;

use super::Context;
use crate::error::Result;
use crate::output::{Column, Style, Text, count, minute, number};

/// List how far each source file was read
///
/// For each file: the bytes stored as records, the file's size and modification
/// time when it was last read, the bytes after the last newline (an unfinished
/// line, collected when it ends), and how many generations the file has had: a
/// new one begins when the file is rewritten. `--json` prints one object per line.
///
/// Example:
///   quipu cursors --json | jq -r 'select(.is_gone) | .path'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {}

const COLUMNS: [Column; 5] = [
    Column::long("file"),
    Column::numbers("read"),
    Column::numbers("size"),
    Column::words("changed"),
    Column::words("note"),
];

pub(super) fn run(_: &Args, context: &mut Context) -> Result<()> {
    let cursors = match context.open_if_any()? {
        Some(ledger) => quipu_ledger::query::cursors(&ledger)?,
        None => Vec::new(),
    };
    if context.is_json {
        for cursor in &cursors {
            context.output.json(cursor)?;
        }
        return Ok(());
    }
    if cursors.is_empty() {
        let none = context.shell.sentence("no files were collected yet; run `quipu sync`");
        context.output.line(none)?;
    }
    let roots =
        cursors.chunk_by(|left, right| (&left.format, &left.root) == (&right.format, &right.root));
    for (index, files) in roots.enumerate() {
        if index > 0 {
            context.output.gap()?;
        }
        if let Some(first) = files.first() {
            let root = context.show(&first.root);
            let heading =
                Text::styled(Style::Bold, root).with(Style::Dim, format!("  {}", first.format));
            context.output.line(heading)?;
        }
        context.output.table(2, &COLUMNS, files.iter().map(row).collect())?;
    }
    Ok(())
}

fn row(cursor: &Cursor) -> Vec<Text> {
    let mut notes = Vec::new();
    if cursor.refused.is_some() {
        notes.push("left out".to_owned());
    }
    if cursor.is_gone {
        notes.push("gone".to_owned());
    }
    if format::by_name(&cursor.format)
        .is_some_and(|format| format.is_compressed(cursor.path.as_bytes()))
    {
        notes.push("compressed".to_owned());
    }
    if cursor.tail_bytes > 0 {
        notes.push(format!("+{} unfinished", number(cursor.tail_bytes)));
    }
    match (cursor.kind.as_str(), cursor.rows) {
        _ if cursor.refused.is_some() => {}
        ("database", Some(sessions)) => notes.push(count(sessions, "transcript")),
        (_, Some(rows)) => notes.push(count(rows, "row")),
        _ => {}
    }
    if cursor.generation > 1 {
        notes.push(format!("generation {}", cursor.generation));
    }
    vec![
        Text::plain(&cursor.path),
        Text::plain(number(cursor.offset)),
        Text::plain(number(cursor.bytes)),
        Text::styled(Style::Dim, minute(cursor.modified_at)),
        Text::styled(Style::Warning, notes.join(", ")),
    ]
}
