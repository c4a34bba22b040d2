//! `quipu import`: copies OpenClaw's sessions into native sessions.

use std::path::PathBuf;

use quipu_ledger::store::Store;
use quipu_ledger::wire::ImportedFile;

use super::Context;
use crate::error::{CommandError, Result};
use crate::output::{Column, Style, Text, count, number};
use crate::paths;

/// Import OpenClaw's sessions, to continue them in quipu
///
/// DIR is OpenClaw's state folder, its `agents` folder, one agent's folder or
/// its `sessions` folder. Every line is stored in a native session of quipu,
/// byte for byte, including unreadable and repeated lines. Session keys and
/// their metadata are imported too, and so are archived and deleted sessions
/// and those in the database of newer releases. OpenClaw's files are not
/// changed.
///
/// A second import adds nothing. If a session exists and has different lines,
/// nothing of its file is imported, and the file is listed with the reason.
///
/// `quipu sync` collects OpenClaw's sessions without importing them.
///
/// Example:
///   quipu import ~/.openclaw
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// OpenClaw's state folder, or one of the folders in it
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let here = std::env::current_dir().unwrap_or_default();
    let folder = paths::resolve(&args.folder, context.settings.home.as_deref(), &here)?;
    if !folder.is_dir() {
        return Err(CommandError::new(format!("{} is not a folder", context.show(&folder)))
            .hint("name OpenClaw's state folder, usually ~/.openclaw"));
    }
    let store = Store::open(&context.settings.ledger.value)?;
    let mut files = Vec::new();
    let mut bar = context.output.bar();
    let roots: Vec<PathBuf> = context.roots().into_iter().map(|root| root.path).collect();
    store.import_with_roots(&folder, &roots, &mut |file| {
        files.push(file);
        bar.files("importing", files.len() as u64);
    })?;
    drop(bar);
    if context.is_json {
        for file in &files {
            context.output.json(file)?;
        }
    } else if !context.output.is_quiet() {
        print_files(context, &files)?;
    }
    match files.iter().filter(|file| file.has_failed).count() as u64 {
        0 => Ok(()),
        failed => {
            let were = if failed == 1 { "was" } else { "were" };
            let what = format!("{} {were} not imported", count(failed, "file"));
            let is_listed = context.is_json || !context.output.is_quiet();
            Err(CommandError::new(what).hint(match is_listed {
                true => "all other files were imported; the list has the reason for each file",
                false => "all other files were imported; without --quiet the reasons are listed",
            }))
        }
    }
}

/// Prints the files with what was imported from each, and the sessions.
fn print_files(context: &mut Context, files: &[ImportedFile]) -> Result<()> {
    let columns = [
        Column::numbers("rows"),
        Column::numbers("stored"),
        Column::numbers("new"),
        Column::long("file"),
    ];
    let rows = files.iter().filter(|file| file.kind != OTHER).map(|file| {
        let style = if file.has_failed { Style::Bad } else { Style::Plain };
        let mut name = Text::styled(style, &file.path);
        if let Some(why) = &file.reason {
            name = name.and(format!(": {why}"));
        }
        vec![
            Text::plain(number(file.rows)),
            Text::styled(style, number(file.stored)),
            Text::plain(number(file.added)),
            name,
        ]
    });
    context.output.table(0, &columns, rows.collect())?;
    for file in files {
        for row in &file.left_out_keys {
            let line = format!("left out  {}: {}: {}", file.path, row.session_key, row.reason);
            context.output.line(Text::styled(Style::Dim, line))?;
        }
    }
    let left_out: Vec<&ImportedFile> = files.iter().filter(|file| file.kind == OTHER).collect();
    for file in &left_out {
        let why = file.reason.as_deref().unwrap_or_default();
        let line = format!("left out  {}: {why}", file.path);
        context.output.line(Text::styled(Style::Dim, line))?;
    }
    let mut sessions: Vec<_> = files
        .iter()
        .filter(|file| !file.has_failed)
        .filter_map(|file| Some((&file.agent, file.session_id.as_ref()?)))
        .collect();
    sessions.sort_unstable();
    sessions.dedup();
    let lines = files.iter().filter(|file| file.kind != "index").map(|file| file.added).sum();
    let added = match lines {
        0 => ": nothing new".to_owned(),
        lines => format!(": {}", count(lines, "new line")),
    };
    let sessions = count(sessions.len() as u64, "session");
    Ok(context.output.line(Text::styled(Style::Good, sessions).and(added))?)
}

/// The kind of a file that is left out.
const OTHER: &str = "other";
