//! `quipu import`: an OpenClaw folder into sessions of quipu's own.

use std::path::PathBuf;

use quipu_ledger::store::Store;
use quipu_ledger::wire::ImportedFile;

use super::Context;
use crate::error::{CommandError, Result};
use crate::output::{Column, Look, Text, count, number};
use crate::paths;

/// Import OpenClaw's sessions, to go on with them here
///
/// DIR is OpenClaw's state folder, the `agents` in it, one agent's folder or its
/// `sessions`. Every line becomes part of a session of quipu's own, byte for
/// byte, also what cannot be read and what is there twice; keys lead to the
/// sessions that they led to, with everything that is noted about them. What was
/// put aside or deleted is imported too, from folders, archives and the database
/// of newer releases. The files stay as they are.
///
/// Importing twice adds nothing. A session that is there with other lines is
/// left alone, and its file is named.
///
/// `quipu sync` collects OpenClaw's sessions without taking them over.
///
/// Example:
///   quipu import ~/.openclaw
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let here = std::env::current_dir().unwrap_or_default();
    let folder = paths::resolve(&args.folder, context.settings.home.as_deref(), &here)?;
    if !folder.is_dir() {
        return Err(CommandError::new(format!("{} is no folder", context.show(&folder)))
            .hint("name OpenClaw's state folder, usually ~/.openclaw"));
    }
    let mut store = Store::open(&context.settings.ledger.value)?;
    let mut files = Vec::new();
    let mut bar = context.output.bar();
    let roots: Vec<PathBuf> = context.roots().into_iter().map(|root| root.path).collect();
    store.import_beside(&folder, &roots, &mut |file| {
        files.push(file);
        bar.sessions("importing", files.len() as u64, files.len() as u64);
    })?;
    drop(bar);
    if context.is_json {
        for file in &files {
            context.output.json(file)?;
        }
    } else if !context.output.is_quiet() {
        show(context, &files)?;
    }
    match files.iter().filter(|file| file.failed).count() as u64 {
        0 => Ok(()),
        failed => Err(CommandError::new(format!("{} not imported", count(failed, "file")))
            .hint("the rest is; what is said beside each says why it is not")),
    }
}

fn show(context: &mut Context, files: &[ImportedFile]) -> Result<()> {
    let columns = [
        Column::numbers("rows"),
        Column::numbers("stored"),
        Column::numbers("new"),
        Column::long("file"),
    ];
    let rows = files.iter().filter(|file| file.kind != OTHER).map(|file| {
        let look = if file.failed { Look::Bad } else { Look::Plain };
        let mut name = Text::of(look, &file.path);
        if let Some(why) = &file.why {
            name = name.and(format!(": {why}"));
        }
        vec![
            Text::plain(number(file.rows)),
            Text::of(look, number(file.stored)),
            Text::plain(number(file.added)),
            name,
        ]
    });
    context.output.table(0, &columns, rows.collect())?;
    for file in files {
        for row in &file.left_out {
            let said = format!("left out  {}: {}: {}", file.path, row.key, row.why);
            context.output.line(Text::of(Look::Dim, said))?;
        }
    }
    let left_out: Vec<&ImportedFile> = files.iter().filter(|file| file.kind == OTHER).collect();
    for file in &left_out {
        let why = file.why.as_deref().unwrap_or_default();
        let said = format!("left out  {}: {why}", file.path);
        context.output.line(Text::of(Look::Dim, said))?;
    }
    let mut sessions: Vec<_> = files
        .iter()
        .filter(|file| !file.failed)
        .filter_map(|file| Some((&file.agent, file.session.as_ref()?)))
        .collect();
    sessions.sort_unstable();
    sessions.dedup();
    let lines = files.iter().filter(|file| file.kind != "index").map(|file| file.added).sum();
    let said = match lines {
        0 => ": nothing new".to_owned(),
        lines => format!(": {} new", count(lines, "line")),
    };
    let sessions = count(sessions.len() as u64, "session");
    Ok(context.output.line(Text::of(Look::Good, sessions).and(said))?)
}

/// The kind of what is not imported.
const OTHER: &str = "other";
