//! `quipu resume`: how to go on with a session.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use quipu_ledger::wire::Session;
use quipu_transcript::format;
use quipu_transcript::formats::native;
use serde::Serialize;

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::ShortIds;
use crate::reading;
use crate::shell::{self, Shell, quote};

/// Say how to go on with a session, or go on
///
/// Prints the command that continues a session where it was started. If the
/// agent has deleted the transcript, it is given back first, byte for byte, to
/// where the agent looks for it; a file that is there is never touched. A session
/// that a runtime keeps here has no such command; what its runtime calls is said.
///
/// Examples:
///   quipu resume 640a
///   quipu resume last --run
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The session: its id or an unambiguous beginning of it, a session key, or `last`
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// Start the command instead of printing it
    #[arg(long)]
    run: bool,

    #[command(flatten)]
    reading: reading::Args,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Resumption<'a> {
    id: &'a str,
    /// Where to start it.
    cwd: Option<&'a str>,
    /// The program and its arguments.
    command: &'a [String],
    /// The transcript, if it had to be given back.
    restored: Option<String>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let reading = reading::open(context, args.reading)?;
    let row = reading.find(context, &args.id)?;
    let Some(session) = quipu_ledger::session(&reading.ledger, row)? else {
        return Err(cannot("the session is not in the index", "run `quipu rebuild`"));
    };
    let ids = reading.short_ids()?;
    let command = command(&context.shell, &ids, &session)?;
    let folder = session.cwd.as_deref();
    if let Some(folder) = folder
        && !Path::new(folder).is_dir()
    {
        if args.run {
            let why = format!("its folder {} is not there any more", context.show(folder));
            return Err(cannot(
                &why,
                "an agent that is started elsewhere does not find the session",
            ));
        }
        let warning = format!("the folder {} is not there any more", context.show(folder));
        context
            .output
            .warn(&warning, Some("the agent looks for sessions of the folder it is started in"));
    }
    let restored = match quipu_ledger::put_back(&reading.ledger, row)? {
        Some(place) if place.restored => Some(place.path.display().to_string()),
        Some(_) => None,
        // What is in a database is still there, or nothing can be done about it from here.
        None if session.state == "live" => None,
        None => {
            return Err(cannot(
                "its transcript is gone, and was never a file that could be given back",
                &format!("`{}` shows it", context.shell.command("show", &ids.of(&session.id), &[])),
            ));
        }
    };
    if let Some(path) = &restored {
        let said = format!("gave the transcript back: {}", context.show(path));
        context.output.note(&said);
    }
    if args.run {
        context.output.finish()?;
        return Err(start(&command, folder));
    }
    if context.is_json {
        let resumption = Resumption { id: &session.id, cwd: folder, command: &command, restored };
        return reading.json(context, &resumption);
    }
    let words: Vec<String> = command.iter().map(quote).collect();
    let go = folder.map(|folder| format!("cd {} && ", shell::path(folder))).unwrap_or_default();
    context.output.verbatim(&format!("{go}{}", words.join(" ")))?;
    Ok(())
}

/// What goes on with it.
fn command(shell: &Shell, ids: &ShortIds, session: &Session) -> Result<Vec<String>> {
    if let (Some(parent), "subagent") = (&session.parent, session.part.as_str()) {
        return Err(cannot(
            "a sub-agent cannot be continued by itself",
            &format!("its session can: `{}`", shell.command("resume", &ids.of(parent), &[])),
        ));
    }
    let show = format!("`{}` shows it", shell.command("show", &ids.of(&session.id), &[]));
    match session.state.as_str() {
        "lost" => {
            return Err(cannot(
                "the transcript of this session was gone before it could be collected",
                &show,
            ));
        }
        "archived" | "deleted" => {
            return Err(cannot(
                "its agent has put this session aside and does not go on with it",
                &show,
            ));
        }
        _ => {}
    }
    if session.format == native::NAME {
        // The key says the same however often its session starts over.
        let name = session.key.as_deref().unwrap_or(&session.id);
        return Err(cannot(
            "no agent of its own goes on with this session: a runtime keeps it here",
            &format!(
                "`{}` begins its next turn, and `{}` is what the model should see then",
                shell.command("session begin", name, &[]),
                shell.command("session context", name, &[]),
            ),
        ));
    }
    let command = format::by_name(&session.format)
        .and_then(|format| format.resume(&session.id, session.key.as_deref()))
        .ok_or_else(|| cannot("no key leads to this session any more", &show))?;
    // A name that a transcript brings along is never an option. It comes last; what stands before
    // the file's name in an id is the folder that it is in, which the agent is not told.
    if command.last().is_some_and(|name| name.starts_with('-')) {
        return Err(cannot("its agent would take this session's name for an option", &show));
    }
    Ok(command)
}

fn cannot(why: &str, hint: &str) -> CommandError {
    let mut error = CommandError::new(why).hint(hint);
    error.kind = Kind::NoMatch;
    error
}

/// Becomes the agent. Comes back only if that fails.
fn start(command: &[String], folder: Option<&str>) -> CommandError {
    let Some((program, arguments)) = command.split_first() else {
        return CommandError::new("there is nothing to start");
    };
    let mut process = Command::new(program);
    process.args(arguments);
    if let Some(folder) = folder {
        process.current_dir(folder);
    }
    let error = process.exec();
    CommandError::from_source(error.into())
        .about(format!("cannot start `{program}`"))
        .hint("without --run the command is printed instead")
}
