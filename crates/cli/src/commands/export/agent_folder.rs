//! Exports sessions as an agent's own folder, for OpenClaw or Claude Code.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quipu_ledger::export::{self, ExportFailure, openclaw};
use quipu_ledger::files::Target;
use quipu_ledger::store::Fields;
use quipu_ledger::wire::{DamagedSession, ExportReport, ExportedFile, RespelledKey};

use super::folder::{check_absent, explain, open_folder, outcome, write};
use super::kind::Kind;
use super::selection::Chosen;
use crate::commands::Context;
use crate::error::{self, CommandError, Result};
use crate::output::{Style, Text, count};
use crate::reading::Reading;

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
        return Err(CommandError::new("--redact cannot be used with an agent's own format: the agent would continue from changed text")
            .hint("leave --redact out, or use `--format jsonl`"));
    }
    let report = match kind {
        Kind::ClaudeCode if args.force => {
            return Err(CommandError::new(
                "--force cannot be used with `claude-code`, which never overwrites files",
            )
            .hint("leave --force out, or name another folder with --to"));
        }
        Kind::ClaudeCode => claude_code(chosen, to, reading, context)?,
        _ => openclaw(chosen, to, args.force, reading, context)?,
    };
    if report.sessions == 0 && report.damaged_sessions.is_empty() {
        let why =
            report.left_out_sessions.first().map(|left| left.reason.as_str()).unwrap_or_default();
        let mut error = match report.left_out_sessions.len() {
            1 => CommandError::new(format!("nothing to write: {why}")),
            _ => CommandError::new(format!(
                "nothing to write: every session is left out; the first: {why}"
            )),
        };
        error.kind = error::Kind::NoMatch;
        return Err(error);
    }
    Ok(report)
}

/// Prints what was left out, and which existing files were not changed.
pub(super) fn print_left_out(report: &ExportReport, context: &mut Context) -> Result<()> {
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for left in &report.left_out_sessions {
        *reasons.entry(&left.reason).or_default() += 1;
    }
    for (why, sessions) in reasons {
        let line = format!("{} left out: {why}", count(sessions, "session"));
        context.output.line(Text::styled(Style::Dim, line))?;
    }
    if report.left_out_lines > 0 {
        let lines = count(report.left_out_lines, "line");
        let line = format!("{lines} left out: not entries of a session");
        context.output.line(Text::styled(Style::Dim, line))?;
    }
    for RespelledKey { session_key: key, written_as: written } in &report.respelled_keys {
        let line = format!("the key {key} is written as {written}");
        context.output.line(Text::styled(Style::Dim, line))?;
    }
    if !report.existing_paths.is_empty() {
        let files = count(report.existing_paths.len() as u64, "file");
        let line = format!("{files} already there and not changed");
        context.output.line(Text::styled(Style::Dim, line))?;
    }
    Ok(())
}

fn left_out_sessions(left_out: Vec<(String, String)>) -> Vec<DamagedSession> {
    left_out
        .into_iter()
        .map(|(session, why)| DamagedSession { session_id: session, reason: why })
        .collect()
}

fn openclaw(
    chosen: &Chosen,
    to: &Path,
    force: bool,
    reading: &Reading,
    context: &Context,
) -> Result<ExportReport> {
    let plan = openclaw::plan(&reading.ledger, &chosen.sessions)?;
    let files = plan.transcript_files();
    let indexes = plan.indexes()?;
    let index_paths = indexes.files.iter().map(|(path, _)| path);
    let paths = files.iter().map(|file| &file.path).chain(index_paths);
    check_absent(&paths.map(|path| to.join(path)).collect::<Vec<PathBuf>>(), force)?;
    let mut report = ExportReport {
        sessions: plan.session_count() as u64,
        format: Kind::OpenClaw.extension().to_owned(),
        left_out_sessions: left_out_sessions(plan.left_out.clone()),
        respelled_keys: indexes
            .respelled
            .into_iter()
            .map(|(key, written)| RespelledKey { session_key: key, written_as: written })
            .collect(),
        ..ExportReport::default()
    };
    if files.is_empty() && indexes.files.is_empty() {
        return Ok(report);
    }
    let target = open_folder(to)?;
    let mut bar = context.output.bar();
    for (number, file) in files.iter().enumerate() {
        let mut left_out = 0;
        let written = write(&target, Path::new(&file.path), force, None, |out| {
            left_out = plan.write(file, to, out)?.left_out;
            Ok(())
        });
        match outcome(&file.session, &to.join(&file.path), written)? {
            Ok(file) => {
                report.left_out_lines += left_out;
                report.written.push(file);
            }
            Err(damaged) => report.damaged_sessions.push(damaged),
        }
        bar.sessions("exporting", number as u64 + 1, files.len() as u64);
    }
    drop(bar);
    // The index is written last, so that every key in it leads to a transcript that exists.
    for (path, index) in indexes.files {
        let below = Path::new(&path);
        let index = match force {
            true => merged_index(&target, below, index)?,
            false => index,
        };
        let written = write(&target, below, force, None, |out| {
            out.write_all(index.pretty().as_bytes())?;
            Ok(out.write_all(b"\n")?)
        });
        let path = to.join(below);
        let bytes = written.map_err(|failure| explain(failure, &path))?;
        let path = path.display().to_string();
        report.written.push(ExportedFile { path, session_id: None, bytes });
    }
    Ok(report)
}

/// Limit for the size of an existing index, in bytes.
const MAX_INDEX_BYTES: u64 = 1 << 30;

/// Returns an existing index with these keys added; keys of other sessions stay.
fn merged_index(target: &Target, path: &Path, index: Fields) -> Result<Fields> {
    let path_shown = target.path().join(path);
    let bytes = match target.read_all(path, MAX_INDEX_BYTES) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(index),
        Err(error) => return Err(explain(ExportFailure::Out(error), &path_shown)),
    };
    let mut existing: Fields = serde_json::from_slice(&bytes).map_err(|_| {
        CommandError::new(format!("{} is not a session index", path_shown.display()))
            .hint("move it away, or name another folder with --to")
    })?;
    existing.extend(index);
    Ok(existing)
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
        left_out_sessions: left_out_sessions(left_out),
        ..ExportReport::default()
    };
    let mut bar = context.output.bar();
    let mut target = None;
    for (number, file) in files.iter().enumerate() {
        let path = to.join(&file.path);
        bar.sessions("exporting", number as u64 + 1, files.len() as u64);
        if path.symlink_metadata().is_ok() {
            report.existing_paths.push(path.display().to_string());
            continue;
        }
        let target = match &target {
            Some(target) => target,
            None => target.insert(open_folder(to)?),
        };
        // Claude Code sorts sessions by the file's modification time.
        let written = write(target, &file.path, false, Some(file.mtime_ns), |out| {
            file.write(&reading.ledger, out)
        });
        match outcome(&file.session, &path, written)? {
            Ok(exported) => report.written.push(exported),
            Err(damaged) => report.damaged_sessions.push(damaged),
        }
    }
    Ok(report)
}
