//! `quipu export`: sessions as files that other programs can read.

mod agent_folder;
mod folder;
mod kind;
mod names;
mod selection;
mod write;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use quipu_ledger::export::Exporter;
use quipu_ledger::ids::SessionRow;
use quipu_ledger::query::Choice;
use quipu_ledger::wire::{ExportReport, Session};
use quipu_transcript::redact::Redactor;

use self::kind::{Kind, KindArg};
use self::write::Stdout;
use super::Context;
use crate::detail;
use crate::error::{CommandError, Result};
use crate::output::{Style, Text, bytes, count, sessions};
use crate::paths;
use crate::reading::{self, Reading};

/// Export sessions as Markdown, HTML, JSON, JSONL, CSV, or an agent's own files
///
/// One session is written to standard output, or with --to to a file; a name
/// that ends in `/` is a folder. Several sessions (--project, or --all) need a
/// folder: it gets one file per session and sub-agent, and an index page. `csv`
/// is one table of all sessions. Existing files are not overwritten without
/// --force.
///
/// `md` has one line per tool call; --tools shows more. `html` is one
/// self-contained page with collapsed tool calls. `json` has everything that
/// `show --full --json` prints. `jsonl` is the agent's own file, byte for byte.
///
/// `openclaw` writes a folder that OpenClaw and pi can use, with session keys
/// and metadata. It exports collected OpenClaw sessions, and sessions that
/// runtimes keep in quipu. `claude-code` writes collected sessions to where
/// `claude --resume` finds them; existing files are not changed.
///
/// --redact masks secrets (keys, tokens, passwords) as [redacted:KIND:N]. A
/// secret has the same number everywhere in one export. It knows many kinds of
/// secrets, not all: check the result before you publish it.
///
/// SESSION is an id or the beginning of one, a session key, or `last`.
///
/// Examples:
///   quipu export last > session.md
///   quipu export b20f --format html --to session.html --redact
///   quipu export --project tidepool --since 30d --format html --to tidepool
///   quipu export --all --format csv > sessions.csv
///   quipu export --all --format openclaw --to ~/.openclaw
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    choose: selection::Args,

    /// Output format [default: from the file name of --to, or md]
    #[arg(long, value_name = "FORMAT", value_enum)]
    format: Option<KindArg>,

    /// Write to this folder, or for one session to this file; `-` is standard output
    #[arg(long, alias = "output", short_alias = 'o', value_name = "PATH")]
    to: Option<PathBuf>,

    /// Overwrite existing files
    #[arg(long, requires = "to")]
    force: bool,

    /// Mask secrets
    #[arg(long)]
    redact: bool,

    #[command(flatten)]
    detail: detail::Args,

    #[command(flatten)]
    reading: reading::Args,
}

impl Args {
    /// Returns the path of --to; `None` for standard output.
    fn path(&self) -> Option<&Path> {
        self.to.as_deref().filter(|to| *to != Path::new("-"))
    }

    fn kind(&self, is_json: bool) -> Result<Kind> {
        let to = self.path();
        let ending = to.and_then(Path::extension).and_then(|name| name.to_str());
        let named = ending.and_then(|name| KindArg::from_str(name, true).ok()).map(|named| named.0);
        let named = named.filter(|kind| !kind.is_agents());
        match (self.format.map(|format| format.0), named) {
            (Some(kind), _) if is_json && to.is_none() && kind != Kind::Json => {
                Err(CommandError::new("--json reports files that were written, and needs --to")
                    .hint("name a folder with --to, or use `--format json` for the session itself"))
            }
            (Some(kind), _) => Ok(kind),
            (None, _) if is_json && to.is_none() => Ok(Kind::Json),
            (None, named) => Ok(named.unwrap_or(Kind::Md)),
        }
    }
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let kind = args.kind(context.is_json)?;
    let reading = reading::open(context, args.reading)?;
    let chosen = args.choose.choose(context, &reading)?;
    let to = match args.path() {
        Some(to) => {
            let here = std::env::current_dir().unwrap_or_default();
            Some(paths::resolve(to, context.settings.home.as_deref(), &here)?)
        }
        None if kind.is_agents() => {
            return Err(CommandError::new("this format needs a folder to write to")
                .hint("name it with --to"));
        }
        None if chosen.is_one || kind == Kind::Csv => None,
        None => {
            let sessions = count(chosen.sessions.len() as u64, "session");
            return Err(CommandError::new(format!("{sessions} need a folder to write to")).hint(
                "name a folder with --to, or use `--format csv` for one table of all sessions",
            ));
        }
    };
    if let (Some(to), true) = (&to, kind.is_agents()) {
        let report = agent_folder::export(kind, args, &chosen, to, &reading, context)?;
        return print_report(&report, to, &reading, context);
    }
    let choice = Choice {
        detail: args.detail.story_detail(kind.default_detail()),
        // Only JSON has what is counted for each entry.
        prices: (kind == Kind::Json).then(|| context.prices()),
        ..Choice::default()
    };
    let mut exporter = Exporter::new(&reading.ledger, kind, choice, args.redact);
    learn(&mut exporter, &chosen.sessions, context)?;
    let Some(to) = to else {
        let more = to_stdout(&mut exporter, &chosen.sessions, context)?;
        let masked = exporter.redactor().map(masked);
        drop(exporter);
        // No snapshot is held while the pager is open.
        drop(reading);
        return end(more, masked, context);
    };
    let is_table = kind == Kind::Csv && to.extension().is_some_and(|ending| ending == "csv");
    if names_a_file(&to, args) && (chosen.is_one || is_table) {
        let (report, more) = folder::one_file(&mut exporter, &chosen.sessions, &to, args.force)?;
        print_report(&report, &to, &reading, context)?;
        warn_of_more(more, context);
        return Ok(());
    }
    let report = folder::export(&mut exporter, &chosen, &to, args.force, context)?;
    print_report(&report, &to, &reading, context)
}

/// Returns true if `--to` does not end in a slash and is not an existing folder.
fn names_a_file(to: &Path, args: &Args) -> bool {
    let ends_in_slash =
        args.to.as_ref().is_some_and(|to| to.as_os_str().as_encoded_bytes().ends_with(b"/"));
    !ends_in_slash && !to.is_dir()
}

/// Passes everything to the redactor before anything is written: a secret that the words around it
/// reveal in one place is then masked in all places.
fn learn(
    exporter: &mut Exporter<'_>,
    sessions: &[(SessionRow, Session)],
    context: &Context,
) -> Result<()> {
    if !exporter.redacts() {
        return Ok(());
    }
    let mut bar = context.output.bar();
    for (done, (row, session)) in sessions.iter().enumerate() {
        match exporter.learn(*row, session) {
            // The error is reported when the session is written.
            Err(error) if error.is_damage() => {}
            learned => learned?,
        }
        bar.sessions("looking for secrets", done as u64 + 1, sessions.len() as u64);
    }
    exporter.end_learning();
    Ok(())
}

/// Returns how many files of the session are left out.
fn to_stdout(
    exporter: &mut Exporter<'_>,
    sessions: &[(SessionRow, Session)],
    context: &mut Context,
) -> Result<usize> {
    context.output.page()?;
    let mut out = Stdout::new(&mut context.output);
    let more = exporter.write_all(sessions, &mut out)?;
    out.end()?;
    Ok(more)
}

/// Waits for the pager, then prints what was left out and the number of masked secrets.
fn end(more: usize, masked: Option<String>, context: &mut Context) -> Result<()> {
    context.output.finish()?;
    warn_of_more(more, context);
    if let Some(masked) = masked {
        context.output.note(&masked);
    }
    Ok(())
}

/// Prints a warning if the session has more files than the one that was written.
fn warn_of_more(more: usize, context: &mut Context) {
    if more > 0 {
        let files = count(more as u64, "more file");
        context.output.warn(
            &format!("the session has {files}, which are not in this output"),
            Some("--to FOLDER/ writes all files to a folder"),
        );
    }
}

/// Prints a summary of the export.
fn print_report(
    report: &ExportReport,
    to: &Path,
    reading: &Reading,
    context: &mut Context,
) -> Result<()> {
    if context.is_json {
        reading.json(context, report)?;
    } else if !context.output.is_quiet() {
        let size = bytes(report.written.iter().map(|file| file.bytes).sum());
        let files = count(report.written.len() as u64, "file");
        let sessions = match report.sessions {
            0 => count(report.subagents, "sub-agent"),
            found => sessions(found, report.subagents),
        };
        // A single file in a folder is named.
        let to = match report.written.as_slice() {
            [only] => context.linked(&only.path),
            _ => context.linked(to),
        };
        let line = Text::styled(Style::Good, sessions).and(" written to ").join(to);
        context.output.line(line.and(format!(": {files} ({size})")))?;
        if let Some(redacted) = &report.masked_secrets {
            let kinds = redacted.iter().map(|(kind, count)| (kind.as_str(), *count));
            context.output.line(Text::styled(Style::Dim, masked_kinds(kinds)))?;
        }
        agent_folder::print_left_out(report, context)?;
        for damaged in &report.damaged_sessions {
            let line = format!("{}: {}", damaged.session_id, damaged.reason);
            context.output.line(Text::styled(Style::Bad, "damaged  ").and(line))?;
        }
    }
    match report.damaged_sessions.len() as u64 {
        0 => Ok(()),
        damaged => {
            let sessions = count(damaged, "session");
            Err(CommandError::new(format!(
                "the ledger is damaged: {sessions} could not be exported"
            ))
            .hint("run `quipu doctor --deep` to see what is damaged and what to do"))
        }
    }
}

fn masked(redactor: &Redactor) -> String {
    masked_kinds(redactor.counts())
}

/// Formats a count by kind: `3 secrets masked: 2 github-token, 1 jwt`.
fn masked_kinds<'k>(kinds: impl Iterator<Item = (&'k str, u32)>) -> String {
    let kinds: Vec<(&str, u32)> = kinds.collect();
    let all: u64 = kinds.iter().map(|(_, count)| u64::from(*count)).sum();
    if all == 0 {
        return "no secrets found to mask".to_owned();
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    format!("{} masked: {}", count(all, "secret"), kinds.join(", "))
}
