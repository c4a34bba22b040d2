//! `quipu schema`: the JSON Schema of what a command prints with `--json`.

use std::collections::BTreeMap;

use quipu_ledger::wire::schema::{Shape, document, fresh, plain};
use quipu_ledger::wire::{
    Appended, AppendedAndMore, BackupReport, BackupRestored, CompactionResult, CountedHit,
    CreatedToken, CronJob, CronRun, Cursor, DemoReport, Diagnosis, ErrorReport, EventFrame,
    ExportReport, FilePatch, FileUse, Flush, ForgetReport, FoundProblem, Headroom, ImportedFile,
    Label, Leaf, ListedToken, McpInstallation, ModelContext, NotAppended, Note, NoteChange,
    NoteVersion, Overview, PlannedCompaction, PlannedFlush, Project, RebuildReport, RegisteredKey,
    RepairReport, RestoreReport, Resumption, RevokedToken, RoutedMessage, SchemaName, Sender,
    ServerStarted, ServiceFile, ServiceState, Session, SessionBranch, Setting, ShownEntry,
    SqlValue, Status, StoredSession, StoryCounts, SupportedFormat, SyncReport, TouchedFile,
    TreeLine, UsageLine, WatchReport, WrittenPicture,
};
use serde_json::{Map, Value};

use super::Context;
use crate::error::{CommandError, Kind, Result};

/// Print the JSON Schema of a command's output
///
/// COMMAND is a command that has --json, such as `sessions` or `session append`,
/// `overview` for quipu without a command, or `error` for errors. Without it, all
/// of them are listed. A schema is that of one line of output.
///
/// Examples:
///   quipu schema
///   quipu schema sessions | jq '.properties | keys'
///   quipu schema session append
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// A command, or `overview`, or `error`
    #[arg(value_name = "COMMAND", num_args = 0..=2)]
    command: Vec<String>,
}

/// The commands that have `--json`, and the shapes that each prints. A space in a command is a `-`.
const SCHEMAS: &[(&str, &[Shape])] = &[
    ("backup", &[plain::<BackupReport>, plain::<BackupRestored>]),
    ("config-show", &[plain::<Setting>]),
    ("cron", &[fresh::<CronJob>, fresh::<CronRun>]),
    ("cursors", &[plain::<Cursor>]),
    ("demo", &[plain::<DemoReport>]),
    ("doctor", &[plain::<Diagnosis>]),
    ("error", &[plain::<ErrorReport<'static>>]),
    ("export", &[fresh::<ExportReport>]),
    ("files", &[fresh::<TouchedFile>, fresh::<FileUse>]),
    ("forget", &[plain::<ForgetReport>]),
    ("formats", &[plain::<SupportedFormat<'static>>]),
    ("import", &[plain::<ImportedFile>]),
    ("mcp-install", &[plain::<McpInstallation<'static>>]),
    ("notes", &[fresh::<Note>, fresh::<NoteVersion>, fresh::<NoteChange<'static>>]),
    ("overview", &[plain::<Overview<'static>>]),
    ("problems", &[fresh::<FoundProblem>]),
    ("projects", &[fresh::<Project>]),
    ("rebuild", &[plain::<RebuildReport>]),
    ("restore", &[plain::<RestoreReport>]),
    ("resume", &[fresh::<Resumption<'static>>]),
    ("schema", &[plain::<SchemaName<'static>>]),
    ("search", &[fresh::<CountedHit<'static>>]),
    ("senders-allow", &[plain::<Sender>]),
    ("senders-deny", &[plain::<Sender>]),
    ("senders-list", &[plain::<Sender>]),
    ("senders-pair", &[plain::<Sender>]),
    ("senders-revoke", &[plain::<Sender>]),
    ("serve", &[plain::<ServerStarted<'static>>]),
    ("service-install", &[plain::<ServiceState<'static>>, plain::<ServiceFile<'static>>]),
    ("service-remove", &[plain::<ServiceState<'static>>]),
    ("service-status", &[plain::<ServiceState<'static>>]),
    (
        "session-append",
        &[plain::<Appended>, plain::<AppendedAndMore<'static>>, plain::<NotAppended<'static>>],
    ),
    ("session-begin", APPENDED),
    ("session-branch", &[plain::<SessionBranch>, plain::<Appended>, plain::<NotAppended<'static>>]),
    (
        "session-compact",
        &[
            plain::<CompactionResult<'static>>,
            plain::<PlannedCompaction<'static>>,
            plain::<NotAppended<'static>>,
        ],
    ),
    ("session-context", &[plain::<ModelContext<'static>>]),
    ("session-flush", &[plain::<Flush>, plain::<PlannedFlush<'static>>]),
    ("session-fork", &[plain::<StoredSession>]),
    ("session-headroom", &[plain::<Headroom>]),
    ("session-keys", &[plain::<RegisteredKey>]),
    ("session-label", &[plain::<Label>, plain::<Appended>, plain::<NotAppended<'static>>]),
    ("session-leaf", &[plain::<Leaf>, plain::<Appended>, plain::<NotAppended<'static>>]),
    ("session-meta", &[plain::<Map<String, Value>>]),
    ("session-mirror", APPENDED),
    ("session-new", &[plain::<StoredSession>]),
    ("session-repair", &[plain::<RepairReport>, plain::<NotAppended<'static>>]),
    ("session-reset", APPENDED),
    ("session-route", &[plain::<RoutedMessage<'static>>]),
    ("sessions", &[fresh::<Session>]),
    (
        "show",
        &[
            fresh::<ShownEntry<'static>>,
            fresh::<StoryCounts>,
            fresh::<FilePatch<'static>>,
            fresh::<WrittenPicture>,
        ],
    ),
    ("sql", &[plain::<BTreeMap<String, SqlValue>>]),
    ("status", &[plain::<Status>]),
    ("sync", &[plain::<SyncReport>]),
    ("tail", &[plain::<ShownEntry<'static>>, plain::<EventFrame>]),
    ("token-list", &[plain::<ListedToken<'static>>]),
    ("token-new", &[plain::<CreatedToken<'static>>]),
    ("token-revoke", &[plain::<RevokedToken<'static>>]),
    ("tree", &[fresh::<TreeLine>]),
    ("usage", &[fresh::<UsageLine>]),
    ("watch", &[plain::<WatchReport<'static>>]),
];

/// The shapes that a command prints if it appends one entry.
const APPENDED: &[Shape] = &[plain::<Appended>, plain::<NotAppended<'static>>];

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let name = args.command.join("-");
    if name.is_empty() {
        return list(context);
    }
    let Some((name, shapes)) = SCHEMAS.iter().find(|(known, _)| *known == name) else {
        return Err(unknown(&args.command.join(" ")));
    };
    let schema = document(&name.replace('-', " "), shapes);
    if context.is_json {
        return Ok(context.output.json(&schema)?);
    }
    let text = serde_json::to_string_pretty(&schema).map_err(anyhow::Error::from);
    Ok(context.output.verbatim(&text.map_err(CommandError::from_source)?)?)
}

fn list(context: &mut Context) -> Result<()> {
    for (name, _) in SCHEMAS {
        let name = &name.replace('-', " ");
        match context.is_json {
            true => context.output.json(&SchemaName { name })?,
            false => context.output.line(name.as_str())?,
        }
    }
    Ok(())
}

/// Returns the error for a command without a schema.
fn unknown(command: &str) -> CommandError {
    let mut error = CommandError::new(format!("no schema for `{command}`"))
        .hint("`quipu schema` lists the commands that have --json");
    error.kind = Kind::NoMatch;
    error
}

/// Returns the names of all schemas, without spaces.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SCHEMAS.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands that print the same with `--json`.
    const WITHOUT: &[&str] = &["completions", "config-edit", "config-path", "man", "statusline"];

    /// Returns all commands without subcommands.
    fn leaves(command: &clap::Command, above: &str) -> Vec<String> {
        let subcommands = command.get_subcommands().filter(|command| command.get_name() != "help");
        let below = subcommands.flat_map(|command| {
            let name = format!("{above}{}", command.get_name());
            match command.has_subcommands() {
                true => leaves(command, &format!("{name}-")),
                false => vec![name],
            }
        });
        below.collect()
    }

    #[test]
    fn every_command_has_a_schema() {
        let mut wanted = leaves(&<crate::args::Args as clap::CommandFactory>::command(), "");
        wanted.retain(|name| !WITHOUT.contains(&name.as_str()));
        wanted.extend(["error".to_owned(), "overview".to_owned()]);
        wanted.sort();
        let found: Vec<&str> = SCHEMAS.iter().map(|(name, _)| *name).collect();
        assert_eq!(found, wanted);
    }
}
