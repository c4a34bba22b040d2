//! `quipu service`: runs `quipu watch` in the background, as a user service.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use quipu_ledger::wire::{ServiceFile, ServiceState};

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::{Style, Text};
use crate::service::{self, MARK, Manager, Program, Sandbox, Task};

/// Keep `quipu watch` running in the background
///
/// Installs a user service: a systemd user unit, or a launchd agent on macOS. It
/// starts now and after each login, with the current ledger, configuration and
/// roots.
///
/// With --serve, `quipu serve` runs instead, which collects too.
///
/// Examples:
///   quipu service install
///   quipu service status --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The action to run.
    #[command(subcommand)]
    action: Action,
}

/// Actions of `quipu service`.
#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Install and start the service
    ///
    /// Run it again after quipu was moved, or to change the ledger or other
    /// settings.
    ///
    /// Examples:
    ///   quipu service install
    ///   quipu service install --print
    ///   quipu service install --serve
    #[command(verbatim_doc_comment)]
    Install {
        /// Serve the ledger over HTTP too, at 127.0.0.1:4774
        #[arg(long)]
        serve: bool,

        /// Print the service's file without installing it
        #[arg(long)]
        print: bool,

        /// Replace an existing file that quipu did not write
        #[arg(long)]
        force: bool,
    },
    /// Stop the service and delete its file; the ledger is kept
    ///
    /// Example:
    ///   quipu service remove
    #[command(verbatim_doc_comment)]
    Remove {
        /// Delete the file even if quipu did not write it
        #[arg(long)]
        force: bool,
    },
    /// Show whether the service is installed and running
    ///
    /// The exit code is 1 if it is not installed.
    ///
    /// Example:
    ///   quipu service status --json | jq .is_running
    #[command(verbatim_doc_comment)]
    Status,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let manager = Manager::here();
    let path = manager.path(context.settings.home.as_deref())?;
    match args.action {
        Action::Install { print: true, serve, .. } => print(context, manager, &path, task(serve)),
        Action::Install { force, serve, .. } => {
            install(context, manager, &path, force, task(serve))
        }
        Action::Remove { force } => remove(context, manager, &path, force),
        Action::Status => status(context, manager, &path),
    }
}

fn task(serve: bool) -> Task {
    if serve { Task::Serve } else { Task::Watch }
}

fn print(context: &mut Context, manager: Manager, path: &Path, task: Task) -> Result<()> {
    let unit = service::unit(&context.settings, task)?;
    let text = manager.text(&unit, Sandbox::Strict)?;
    if context.is_json {
        let path = path.display().to_string();
        context.output.json(&ServiceFile { manager: manager.name(), path, text })?;
    } else {
        context.output.verbatim(&text)?;
    }
    Ok(())
}

fn install(
    context: &mut Context,
    manager: Manager,
    path: &Path,
    force: bool,
    task: Task,
) -> Result<()> {
    refuse_foreign(path, force, "replaced")?;
    let unit = service::unit(&context.settings, task)?;
    // The folder that the service may write to has to exist before it starts.
    create_folder(&unit.writes_to)?;
    let programs = manager.start(path);
    write(path, &manager.text(&unit, Sandbox::Strict)?)?;
    let mut problem = run_all(&programs).err();
    let mut is_unprotected = false;
    if manager == Manager::Systemd && problem.as_ref().is_some_and(|problem| problem.is_last) {
        // Some systems cannot restrict the files that a user service may write.
        write(path, &manager.text(&unit, Sandbox::None)?)?;
        is_unprotected = run_all(&programs).is_ok();
        if is_unprotected {
            problem = None;
        } else {
            write(path, &manager.text(&unit, Sandbox::Strict)?)?;
        }
    }
    let problem = problem.map(|problem| problem.message);
    let state = ServiceState {
        manager: manager.name(),
        path: path.display().to_string(),
        is_installed: true,
        is_running: Some(problem.is_none()),
        commands: problem.iter().flat_map(|_| &programs).map(Program::typed).collect(),
        reason: problem,
    };
    if is_unprotected {
        let warning = "this system cannot restrict the service to the ledger's folder";
        context.output.warn(warning, Some("the service runs with all your permissions"));
    }
    let note = "starts after each login; `quipu service remove` removes it";
    show(context, &state, &context.shell.sentence(note))?;
    match state.reason {
        None => Ok(()),
        Some(why) => {
            let how = format!(
                "the file is installed; run the commands above, or start `quipu {}` yourself",
                task.name()
            );
            Err(CommandError::new(format!("the service was not started: {why}")).hint(how))
        }
    }
}

fn remove(context: &mut Context, manager: Manager, path: &Path, force: bool) -> Result<()> {
    let was_there = path.symlink_metadata().is_ok();
    let mut problem = None;
    if was_there {
        refuse_foreign(path, force, "deleted")?;
        problem = run_all(&manager.stop()).err().map(|problem| problem.message);
        fs::remove_file(path).map_err(|error| cannot("delete", path, &error))?;
        // A failure does no harm: without the file, the manager cannot start the service.
        let _ = run_all(&manager.forget());
    }
    if context.is_json {
        let state = ServiceState {
            manager: manager.name(),
            path: path.display().to_string(),
            is_installed: false,
            // A service that could not be stopped may still run.
            is_running: problem.is_none().then_some(false),
            commands: Vec::new(),
            reason: problem,
        };
        context.output.json(&state)?;
        return Ok(());
    }
    if let Some(problem) = problem {
        context.output.warn(
            &format!("the service may still be running: {problem}"),
            Some("it stops when you log out, or when you end its process"),
        );
    }
    if !context.output.is_quiet() {
        let text = match was_there {
            true => format!("{} deleted; the ledger is kept", context.show(path)),
            false => "the service is not installed".to_owned(),
        };
        context.output.line(text)?;
    }
    Ok(())
}

fn status(context: &mut Context, manager: Manager, path: &Path) -> Result<()> {
    let installed = path.is_file();
    let asked = if installed { manager.is_running() } else { Ok(false) };
    let (running, problem) = match asked {
        Ok(running) => (Some(running), None),
        Err(why) => (None, Some(why)),
    };
    let state = ServiceState {
        manager: manager.name(),
        path: path.display().to_string(),
        is_installed: installed,
        is_running: running,
        reason: problem,
        commands: Vec::new(),
    };
    if !installed {
        if context.is_json {
            context.output.json(&state)?;
        }
        let mut error = CommandError::new(format!(
            "the service is not installed: {} does not exist",
            path.display()
        ))
        .hint("`quipu service install` installs it");
        error.kind = Kind::NoMatch;
        return Err(error);
    }
    show(context, &state, "")
}

/// Prints where the service's file is and whether it runs.
fn show(context: &mut Context, state: &ServiceState<'_>, note: &str) -> Result<()> {
    if context.is_json {
        context.output.json(state)?;
        return Ok(());
    }
    if context.output.is_quiet() {
        return Ok(());
    }
    let why = state.reason.as_ref().map(|problem| format!("  {problem}")).unwrap_or_default();
    let running = match state.is_running {
        Some(true) => Text::styled(Style::Good, "yes").with(Style::Dim, format!("  {note}")),
        Some(false) => Text::styled(Style::Warning, "no").and(why),
        None => Text::styled(Style::Warning, "unknown").and(why),
    };
    let mut facts = vec![
        ("service", Text::plain(context.show(&state.path))),
        ("ledger", Text::plain(context.show(&context.settings.ledger.value))),
        ("running", running),
    ];
    let mut label = "to start it";
    for command in &state.commands {
        facts.push((std::mem::take(&mut label), Text::plain(command)));
    }
    context.output.facts(0, &facts)?;
    Ok(())
}

/// The reason why a program failed.
struct Problem {
    message: String,
    /// True if the last of the programs failed.
    is_last: bool,
}

/// Runs programs one after the other, until one fails.
fn run_all(programs: &[Program]) -> Result<(), Problem> {
    programs.iter().enumerate().try_for_each(|(index, program)| {
        let is_last = index + 1 == programs.len();
        program.run().map_err(|message| Problem { message, is_last })
    })
}

/// Limit for the size of a service's file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Fails if quipu did not write the file, unless `force` is set.
fn refuse_foreign(path: &Path, force: bool, what: &str) -> Result<()> {
    match quipu_ledger::files::read_named_file(path, MAX_FILE_BYTES) {
        Ok(bytes) => {
            let start =
                String::from_utf8_lossy(bytes.get(..bytes.len().min(512)).unwrap_or(&bytes));
            if force || start.contains(MARK) {
                return Ok(());
            }
            Err(CommandError::new(format!("{} was not written by quipu", path.display()))
                .hint(format!("with --force it is {what} anyway")))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(cannot("read", path, &error)),
    }
}

/// Writes a complete file, and creates the folders above it.
fn write(path: &Path, text: &str) -> Result<()> {
    if quipu_ledger::files::read_named_file(path, MAX_FILE_BYTES)
        .is_ok_and(|bytes| bytes == text.as_bytes())
    {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        create_folder(folder)?;
    }
    let mut staged = path.as_os_str().to_owned();
    staged.push(format!(".new-{}", std::process::id()));
    let staged = PathBuf::from(staged);
    let written = fs::write(&staged, text).and_then(|()| fs::rename(&staged, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&staged);
        cannot("write", path, &error)
    })
}

fn create_folder(folder: &Path) -> Result<()> {
    let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    created.map_err(|error| cannot("create", folder, &error))
}

fn cannot(action: &str, path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::from_source(anyhow::Error::msg(error.to_string()))
        .about(format!("cannot {action} {}", path.display()))
}
