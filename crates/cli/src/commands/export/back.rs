//! Sessions as an agent's own folder: what OpenClaw runs on, or where Claude Code looks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use quipu_ledger::export::{self, openclaw};
use quipu_ledger::store::Fields;
use quipu_ledger::wire::{DamagedSession, ExportReport, ExportedFile};

use super::choose::Chosen;
use super::folder::{check_absent, create_folder, explain, outcome, write};
use super::kind::Kind;
use super::write::Failure;
use crate::commands::Context;
use crate::error::{self, CommandError, Result};
use crate::output::{Look, Text, count};
use crate::reading::Reading;

impl From<openclaw::Failure> for Failure {
    fn from(failure: openclaw::Failure) -> Failure {
        match failure {
            openclaw::Failure::Ledger(error) => Failure::Ledger(error),
            openclaw::Failure::Out(error) => Failure::Out(error),
        }
    }
}

/// Writes the folder.
pub(super) fn export(
    kind: Kind,
    args: &super::Args,
    chosen: &Chosen,
    to: &Path,
    reading: &Reading,
    context: &Context,
) -> Result<ExportReport> {
    if args.redact {
        return Err(CommandError::new("--redact would change what an agent is to go on with")
            .hint("leave it out, or export as `jsonl`"));
    }
    let report = match kind {
        Kind::ClaudeCode if args.force => {
            return Err(CommandError::new("`claude-code` only writes files that are not there")
                .hint("leave --force out, or name another folder with --to"));
        }
        Kind::ClaudeCode => claude_code(chosen, to, reading, context)?,
        _ => openclaw(chosen, to, args.force, reading, context)?,
    };
    if report.sessions == 0 && report.damaged.is_empty() {
        let why = report.left_out.first().map(|left| left.why.as_str()).unwrap_or_default();
        let mut error = match report.left_out.len() {
            1 => CommandError::new(format!("nothing to write: {why}")),
            _ => CommandError::new(format!("nothing to write: of each session, {why}")),
        };
        error.kind = error::Kind::NoMatch;
        return Err(error);
    }
    Ok(report)
}

/// What was left out, or left alone.
pub(super) fn tell(report: &ExportReport, context: &mut Context) -> Result<()> {
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for left in &report.left_out {
        *reasons.entry(&left.why).or_default() += 1;
    }
    for (why, sessions) in reasons {
        let said = format!("{} left out: {why}", count(sessions, "session"));
        context.output.line(Text::of(Look::Dim, said))?;
    }
    if report.lines_left_out > 0 {
        let lines = count(report.lines_left_out, "line");
        let said = format!("{lines} left out that no reader takes for an entry");
        context.output.line(Text::of(Look::Dim, said))?;
    }
    if !report.there.is_empty() {
        let files = count(report.there.len() as u64, "file");
        let said = format!("{files} there already, left alone");
        context.output.line(Text::of(Look::Dim, said))?;
    }
    Ok(())
}

fn left(left_out: Vec<(String, String)>) -> Vec<DamagedSession> {
    left_out.into_iter().map(|(session, why)| DamagedSession { session, why }).collect()
}

fn openclaw(
    chosen: &Chosen,
    to: &Path,
    force: bool,
    reading: &Reading,
    context: &Context,
) -> Result<ExportReport> {
    let plan = openclaw::plan(&reading.ledger, &chosen.sessions)?;
    let files = plan.transcripts();
    let indexes = plan.indexes()?;
    let paths = files.iter().map(|file| &file.path).chain(indexes.iter().map(|(path, _)| path));
    check_absent(&paths.map(|path| to.join(path)).collect::<Vec<PathBuf>>(), force)?;
    let mut report = ExportReport {
        sessions: plan.sessions() as u64,
        format: Kind::OpenClaw.extension().to_owned(),
        left_out: left(plan.left_out.clone()),
        ..ExportReport::default()
    };
    let mut bar = context.output.bar();
    for (number, file) in files.iter().enumerate() {
        let path = to.join(&file.path);
        create_folder(path.parent().unwrap_or(to))?;
        let mut left_out = 0;
        let written = write(&path, force, |out| {
            left_out = plan.write(file, to, out)?.left_out;
            Ok(())
        });
        match outcome(&file.session, &path, written)? {
            Ok(file) => {
                report.lines_left_out += left_out;
                report.files.push(file);
            }
            Err(damaged) => report.damaged.push(damaged),
        }
        bar.sessions("exporting", number as u64 + 1, files.len() as u64);
    }
    drop(bar);
    // The index last: whoever finds a key in it finds its transcript.
    for (path, index) in indexes {
        let path = to.join(path);
        create_folder(path.parent().unwrap_or(to))?;
        let index = match force {
            true => over(&path, index)?,
            false => index,
        };
        let written = write(&path, force, |out| {
            out.write_all(index.pretty().as_bytes())?;
            Ok(out.write_all(b"\n")?)
        });
        let bytes = written.map_err(|failure| explain(failure, &path))?;
        let path = path.display().to_string();
        report.files.push(ExportedFile { path, session: None, bytes });
    }
    Ok(report)
}

/// A larger index is none.
const LARGEST_INDEX: u64 = 1 << 30;

/// An index with these keys in it; those of other sessions stay.
fn over(path: &Path, index: Fields) -> Result<Fields> {
    let bytes = match quipu_ledger::read_named_file(path, LARGEST_INDEX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(index),
        Err(error) => return Err(explain(Failure::Out(error), path)),
    };
    let mut there: Fields = serde_json::from_slice(&bytes).map_err(|_| {
        CommandError::new(format!("{} is no index that can be gone on with", path.display()))
            .hint("put it aside, or name another place with --to")
    })?;
    there.extend(index);
    Ok(there)
}

fn claude_code(
    chosen: &Chosen,
    to: &Path,
    reading: &Reading,
    context: &Context,
) -> Result<ExportReport> {
    let (files, left_out) = export::claude_files(&reading.ledger, &chosen.sessions)?;
    let mut report = ExportReport {
        sessions: (chosen.sessions.len() - left_out.len()) as u64,
        format: Kind::ClaudeCode.extension().to_owned(),
        left_out: left(left_out),
        ..ExportReport::default()
    };
    let mut bar = context.output.bar();
    for (number, file) in files.iter().enumerate() {
        let path = to.join(&file.path);
        bar.sessions("exporting", number as u64 + 1, files.len() as u64);
        if path.symlink_metadata().is_ok() {
            report.there.push(path.display().to_string());
            continue;
        }
        create_folder(path.parent().unwrap_or(to))?;
        let written = write(&path, false, |out| Ok(file.write(&reading.ledger, out)?));
        match outcome(&file.session, &path, written)? {
            Ok(exported) => {
                // Claude Code lists sessions by this time.
                if let (Ok(written), Ok(at)) = (File::open(&path), u64::try_from(file.mtime_ns)) {
                    let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(at);
                    let _ = written.set_modified(at);
                }
                report.files.push(exported);
            }
            Err(damaged) => report.damaged.push(damaged),
        }
    }
    Ok(report)
}
