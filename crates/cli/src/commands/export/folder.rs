//! Writes files: each completely or not at all, readable by its owner only, never over an existing
//! file without `--force`, and never through a link in the folder.

use std::collections::HashSet;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use quipu_ledger::Ledger;
use quipu_ledger::export::{ExportFailure, Exporter, transcripts};
use quipu_ledger::files::{Existing, Target};
use quipu_ledger::ids::SessionRow;
use quipu_ledger::wire::{DamagedSession, ExportReport, ExportedFile, Session};
use quipu_transcript::render::{Listed, html, markdown};

use super::kind::Kind;
use super::names::Names;
use super::selection::Chosen;
use crate::commands::Context;
use crate::commands::sessions::is_subagent;
use crate::error::{CommandError, Result};

/// Writes one file. Also returns how many other files the session has.
pub(super) fn one_file(
    exporter: &mut Exporter<'_>,
    sessions: &[(SessionRow, Session)],
    to: &Path,
    force: bool,
) -> Result<(ExportReport, usize)> {
    check_absent(&[to.to_owned()], force)?;
    let target = open_folder(to.parent().unwrap_or(Path::new("/")))?;
    let name = Path::new(to.file_name().unwrap_or_default());
    let mut more = 0;
    let written = write(&target, name, force, None, |out| {
        more = exporter.write_all(sessions, out)?;
        Ok(())
    });
    let bytes = written.map_err(|failure| explain(failure, to))?;
    let session = match sessions {
        [(_, session)] => Some(exporter.seen(session).session_id),
        _ => None,
    };
    let file = ExportedFile { path: to.display().to_string(), session_id: session, bytes };
    Ok((report(exporter, sessions.iter().map(|(_, session)| session), vec![file]), more))
}

/// Writes a file for each session, and an index page.
pub(super) fn export(
    exporter: &mut Exporter<'_>,
    chosen: &Chosen,
    to: &Path,
    force: bool,
    context: &Context,
) -> Result<ExportReport> {
    let ending = exporter.kind.extension();
    if exporter.kind == Kind::Csv {
        let path = to.join("sessions.csv");
        return one_file(exporter, &chosen.sessions, &path, force).map(|(report, _)| report);
    }
    let ledger = exporter.ledger();
    let mut names = Names::default();
    let mut plan: Vec<(SessionRow, &Session, Vec<PathBuf>)> = Vec::new();
    for (row, session) in &chosen.sessions {
        let name = names.name_of(&exporter.seen(session));
        let files = files(ledger, exporter.kind, *row)?;
        let paths = (1..=files).map(|number| match number {
            1 => PathBuf::from(format!("{name}.{ending}")),
            // A session may have several files.
            number => PathBuf::from(format!("{name}.{number}.{ending}")),
        });
        plan.push((*row, session, paths.collect()));
    }
    let list = match exporter.kind {
        Kind::Md | Kind::Html if !chosen.is_one => Some(PathBuf::from(format!("index.{ending}"))),
        _ => None,
    };
    let paths = plan.iter().flat_map(|(_, _, paths)| paths).chain(&list);
    check_absent(&paths.map(|path| to.join(path)).collect::<Vec<_>>(), force)?;
    let target = open_folder(to)?;

    let mut bar = context.output.bar();
    let mut written = Vec::new();
    let mut listed = Vec::new();
    let mut damaged = Vec::new();
    let mut done = HashSet::new();
    for (number, (row, session, paths)) in plan.iter().enumerate() {
        let id = exporter.seen(session).session_id;
        for (index, path) in paths.iter().enumerate() {
            let result = write(&target, path, force, None, |out| match exporter.kind {
                Kind::Jsonl => {
                    let files = transcripts(ledger, *row)?;
                    exporter.transcript(*row, files.get(index), out)
                }
                _ => exporter.story(*row, session, out),
            });
            match outcome(&id, &to.join(path), result)? {
                Ok(file) => {
                    done.insert(*row);
                    written.push(file);
                }
                Err(session) => damaged.push(session),
            }
        }
        if list.is_some() && done.contains(row) {
            let file = paths.first().and_then(|path| path.file_name());
            let file = file.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            listed.push(Listed { header: exporter.header(session, None), file });
        }
        bar.sessions("exporting", number as u64 + 1, plan.len() as u64);
    }
    drop(bar);
    if let Some(path) = list {
        let result = write(&target, &path, force, None, |out| {
            match exporter.kind {
                Kind::Html => html::index(&chosen.title, &listed, out)?,
                _ => markdown::index(&chosen.title, &listed, out)?,
            }
            Ok(())
        });
        let path = to.join(path);
        let bytes = result.map_err(|failure| explain(failure, &path))?;
        let path = path.display().to_string();
        written.push(ExportedFile { path, session_id: None, bytes });
    }
    let done = plan.iter().filter(|(row, ..)| done.contains(row)).map(|(_, session, _)| *session);
    Ok(ExportReport { damaged_sessions: damaged, ..report(exporter, done, written) })
}

fn report<'a>(
    exporter: &Exporter<'_>,
    exported: impl Iterator<Item = &'a Session>,
    files: Vec<ExportedFile>,
) -> ExportReport {
    let (subagents, sessions): (Vec<_>, Vec<_>) = exported.partition(|it| is_subagent(it));
    ExportReport {
        sessions: sessions.len() as u64,
        subagents: subagents.len() as u64,
        format: exporter.kind.extension().to_owned(),
        written: files,
        masked_secrets: exporter.redacted(),
        ..ExportReport::default()
    }
}

/// Returns how many files a session is written to.
fn files(ledger: &Ledger, kind: Kind, row: SessionRow) -> Result<usize> {
    match kind {
        Kind::Jsonl => Ok(transcripts(ledger, row)?.len().max(1)),
        _ => Ok(1),
    }
}

/// Fails if any of these files exists, before anything is written.
pub(super) fn check_absent(paths: &[PathBuf], force: bool) -> Result<()> {
    if force {
        return Ok(());
    }
    let there: Vec<&PathBuf> =
        paths.iter().filter(|path| path.symlink_metadata().is_ok()).collect();
    let Some(first) = there.first() else { return Ok(()) };
    let more = match there.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    Err(CommandError::new(format!("{} exists{more}", first.display()))
        .hint("use --force to overwrite, or name another place with --to"))
}

/// Opens the folder that files are written beneath, and creates it if it is not there.
pub(super) fn open_folder(folder: &Path) -> Result<Target> {
    Target::open(folder).map_err(|error| {
        let source = anyhow::Error::new(error)
            .context(format!("cannot create the folder {}", folder.display()));
        CommandError::from_source(source).hint("name another place with --to")
    })
}

/// Returns the file that was written, or the damaged session, which does not stop the export. Other
/// failures stop it.
pub(super) fn outcome(
    session: &str,
    path: &Path,
    written: Result<u64, ExportFailure>,
) -> Result<Result<ExportedFile, DamagedSession>> {
    let session = session.to_owned();
    match written {
        Ok(bytes) => {
            let path = path.display().to_string();
            Ok(Ok(ExportedFile { path, session_id: Some(session), bytes }))
        }
        Err(failure) if failure.is_damage() => {
            Ok(Err(DamagedSession { session_id: session, reason: failure.to_string() }))
        }
        Err(failure) => Err(explain(failure, path)),
    }
}

/// Writes a file under a temporary name beneath a folder, and renames it when it is complete.
pub(super) fn write(
    target: &Target,
    path: &Path,
    force: bool,
    mtime_ns: Option<i64>,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), ExportFailure>,
) -> Result<u64, ExportFailure> {
    let new = target.create(path)?;
    let mut out = BufWriter::with_capacity(1 << 16, new.file());
    fill(&mut out)?;
    out.flush()?;
    drop(out);
    let bytes = new.file().metadata()?.len();
    if let Some(mtime_ns) = mtime_ns {
        new.set_modified(mtime_ns);
    }
    new.keep(if force { Existing::IsReplaced } else { Existing::Stays })?;
    Ok(bytes)
}

pub(super) fn explain(failure: ExportFailure, path: &Path) -> CommandError {
    let error = match failure {
        ExportFailure::Ledger(error) => return error.into(),
        ExportFailure::Out(error) => error,
    };
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space on the disk and run the command again with --force"
        }
        io::ErrorKind::AlreadyExists if error.raw_os_error().is_some() => {
            "use --force to overwrite, or name another place with --to"
        }
        // A link, a folder or a pipe is never overwritten.
        io::ErrorKind::AlreadyExists => {
            "remove the file or link that is in the way, or name another place with --to"
        }
        _ => "name another place with --to",
    };
    let source = anyhow::Error::new(error).context(format!("cannot write {}", path.display()));
    CommandError::from_source(source).hint(hint)
}
