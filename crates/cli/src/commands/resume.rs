//! `quipu resume`: the command that resumes a session.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use quipu_ledger::wire::{Resumption, Session, SessionState};
use quipu_transcript::format;
use quipu_transcript::formats::native;

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::{ShortIds, count};
use crate::reading;
use crate::shell::{self, Shell, quote};

/// Print the command that resumes a session, or run it
///
/// The command starts in the session's own folder. If the agent has deleted the
/// transcript, its sub-agents or its tool outputs, they are first restored, byte
/// for byte, to where the agent looks for them; an existing file is never changed.
/// A session that a runtime keeps in quipu has no such command; the error names
/// the commands that its runtime uses.
///
/// Examples:
///   quipu resume
///   quipu resume b20f
///   quipu resume last --run
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The session to resume: an id or the beginning of one, a session key, or `last`; without it,
    /// the last session of this folder
    #[arg(value_name = "SESSION", allow_hyphen_values = true)]
    id: Option<String>,

    /// Run the command instead of printing it
    #[arg(long)]
    run: bool,

    #[command(flatten)]
    reading: reading::Args,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let reading = reading::open(context, args.reading)?;
    let name = reading.name_or_here(context, args.id.as_deref())?;
    let row = quipu_ledger::query::find_session(&reading.ledger, &name)?;
    let Some(session) = quipu_ledger::query::summary_of(&reading.ledger, row)? else {
        return Err(cannot("the session is not in the index", "run `quipu rebuild`"));
    };
    let ids = reading.short_ids()?;
    let command = command(&context.shell, &ids, &session)?;
    let folder = session.cwd.as_deref();
    if let Some(folder) = folder
        && !Path::new(folder).is_dir()
    {
        if args.run {
            let why = format!("its folder {} no longer exists", context.show(folder));
            return Err(cannot(
                &why,
                "the agent finds a session only from the folder it was started in",
            ));
        }
        let warning = format!("the folder {} no longer exists", context.show(folder));
        context.output.warn(
            &warning,
            Some("the agent finds a session only from the folder it was started in"),
        );
    }
    let mut restored_files: Vec<String> = Vec::new();
    let restored = match quipu_ledger::restore::restore_in_place(&reading.ledger, row)? {
        Some(place) => {
            restored_files.extend(place.others.iter().map(|path| path.display().to_string()));
            place.restored.then(|| place.path.display().to_string())
        }
        // A live session in a database needs no file.
        None if session.state == SessionState::Live => None,
        None => {
            return Err(cannot(
                "its transcript is gone, and was never a file that could be restored",
                &format!(
                    "`{}` shows it",
                    context.shell.command("show", &ids.of(&session.session_id), &[])
                ),
            ));
        }
    };
    if let Some(path) = &restored {
        let note = format!("restored the transcript: {}", context.show(path));
        context.output.note(&note);
    }
    if !restored_files.is_empty() {
        let files = count(restored_files.len() as u64, "other file");
        context.output.note(&format!("restored {files} of the session"));
    }
    if args.run {
        context.output.finish()?;
        return Err(start(&command, folder));
    }
    if context.is_json {
        let resumption = Resumption {
            session_id: &session.session_id,
            cwd: folder,
            command: &command,
            restored_path: restored,
            other_restored_paths: restored_files,
        };
        return reading.json(context, &resumption);
    }
    let words: Vec<String> = command.iter().map(quote).collect();
    let go = folder.map(|folder| format!("cd {} && ", shell::folder(folder))).unwrap_or_default();
    context.output.verbatim(&format!("{go}{}", words.join(" ")))?;
    Ok(())
}

/// Returns the command that resumes a session.
fn command(shell: &Shell, ids: &ShortIds, session: &Session) -> Result<Vec<String>> {
    if let (Some(parent), "subagent") = (&session.parent_session_id, session.part.as_str()) {
        return Err(cannot(
            "a sub-agent cannot be resumed by itself",
            &format!("resume its session: `{}`", shell.command("resume", &ids.of(parent), &[])),
        ));
    }
    let show = format!("`{}` shows it", shell.command("show", &ids.of(&session.session_id), &[]));
    match session.state {
        SessionState::Lost => {
            return Err(cannot(
                "the transcript of this session was gone before it could be collected",
                &show,
            ));
        }
        SessionState::Archived | SessionState::Deleted => {
            return Err(cannot(
                "its agent has archived or deleted this session and cannot resume it",
                &show,
            ));
        }
        SessionState::Live | SessionState::Gone => {}
    }
    if session.format == native::NAME {
        // The key stays the same when its session is reset.
        let name = session.session_key.as_deref().unwrap_or(&session.session_id);
        return Err(cannot(
            "no agent can resume this session: a runtime keeps it in quipu",
            &format!(
                "`{}` begins its next turn, and `{}` prints the messages for the model",
                shell.command("session begin", name, &[]),
                shell.command("session context", name, &[]),
            ),
        ));
    }
    let command = format::by_name(&session.format)
        .and_then(|format| format.resume(&session.session_id, session.session_key.as_deref()))
        .ok_or_else(|| cannot("no session key leads to this session now", &show))?;
    // The last word is a name from a transcript, and must never be read as an option. For an id
    // like `folder/name`, the agent takes only the name.
    if command.last().is_some_and(|name| name.starts_with('-')) {
        return Err(cannot("its agent would read this session's name as an option", &show));
    }
    Ok(command)
}

fn cannot(why: &str, hint: &str) -> CommandError {
    let mut error = CommandError::new(why).hint(hint);
    error.kind = Kind::NoMatch;
    error
}

/// Replaces this process by the agent. Returns only on failure.
fn start(command: &[String], folder: Option<&str>) -> CommandError {
    let Some((program, arguments)) = command.split_first() else {
        return CommandError::new("there is no command to run");
    };
    let mut process = Command::new(program);
    process.args(arguments);
    if let Some(folder) = folder {
        process.current_dir(folder);
    }
    let error = process.exec();
    CommandError::from_source(error.into())
        .about(format!("cannot run `{program}`"))
        .hint("leave --run out to print the command instead")
}
