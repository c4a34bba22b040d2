//! `quipu export`: sessions as files that others can read.

mod back;
mod choose;
mod folder;
mod kind;
mod names;
mod write;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use quipu_ledger::SessionRow;
use quipu_ledger::wire::{ExportReport, Session};
use quipu_transcript::redact::Redactor;

use self::kind::Kind;
use self::write::{Exporter, Stdout};
use super::Context;
use crate::error::{CommandError, Result};
use crate::output::{Look, Text, bytes, count};
use crate::paths;
use crate::reading::{self, Reading};
use crate::telling;

/// Export sessions as Markdown, HTML, JSON, the original JSONL, CSV, or agents' files
///
/// One session goes to standard output, or to a file with --to. Several (all of
/// a project, or --all, with their sub-agents) need a folder: one file each and
/// a list of them. `csv` is one table of all of them. Nothing that exists is
/// overwritten without --force.
///
/// `md` has a line for each tool call; --tools opens them. `html` is one page
/// that needs nothing else, with tool calls folded up. `json` has everything,
/// as `show --full --json` has it. `jsonl` is the agent's own file, byte for
/// byte.
///
/// `openclaw` is a folder that OpenClaw runs on and pi opens, with keys and
/// metadata: quipu's own sessions, and collected ones of OpenClaw. `claude-code`
/// puts collected sessions back where `claude --resume` finds them; files that
/// are there are left alone.
///
/// --redact masks secrets (keys, tokens, passwords) as [redacted:KIND:N]. The
/// same secret has the same number in all of an export. It knows many kinds,
/// not all: look before you publish.
///
/// SESSION is the beginning of an id, a session key, or `last`.
///
/// Examples:
///   quipu export last > session.md
///   quipu export 640a --format html --to session.html --redact
///   quipu export --project eastore --since 30d --format html --to eastore
///   quipu export --all --format csv > sessions.csv
///   quipu export --all --format openclaw --to ~/.openclaw
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    choose: choose::Args,

    /// What to write [default: what the name after --to says, or md]
    #[arg(long, value_name = "FORMAT", value_enum)]
    format: Option<Kind>,

    /// The folder to write to; for one session also a file
    #[arg(long, value_name = "PATH")]
    to: Option<PathBuf>,

    /// Overwrite files that exist
    #[arg(long, requires = "to")]
    force: bool,

    /// Mask secrets
    #[arg(long)]
    redact: bool,

    #[command(flatten)]
    telling: telling::Args,

    #[command(flatten)]
    reading: reading::Args,
}

impl Args {
    fn kind(&self, is_json: bool) -> Result<Kind> {
        let said = self.to.as_deref().and_then(Path::extension).and_then(|name| name.to_str());
        let named = said.and_then(|name| Kind::from_str(name, true).ok());
        let named = named.filter(|kind| !kind.is_agents());
        match (self.format, named) {
            (Some(kind), _) if is_json && self.to.is_none() && kind != Kind::Json => {
                Err(CommandError::new("--json is for what was written to files")
                    .hint("leave it out, name a folder with --to, or ask for `--format json`"))
            }
            (Some(kind), _) => Ok(kind),
            (None, _) if is_json && self.to.is_none() => Ok(Kind::Json),
            (None, named) => Ok(named.unwrap_or(Kind::Md)),
        }
    }
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let kind = args.kind(context.is_json)?;
    let reading = reading::open(context, args.reading)?;
    let chosen = args.choose.choose(context, &reading)?;
    let to = match &args.to {
        Some(to) => {
            let here = std::env::current_dir().unwrap_or_default();
            Some(paths::resolve(to, context.settings.home.as_deref(), &here)?)
        }
        None if kind.is_agents() => {
            return Err(CommandError::new("an agent's files need a folder to be written to")
                .hint("name it with --to"));
        }
        None if chosen.is_one || kind == Kind::Csv => None,
        None => {
            let sessions = count(chosen.sessions.len() as u64, "session");
            return Err(CommandError::new(format!("{sessions} need a folder to be written to"))
                .hint("name one with --to; `--format csv` is one table of all of them"));
        }
    };
    if let (Some(to), true) = (&to, kind.is_agents()) {
        let report = back::export(kind, args, &chosen, to, &reading, context)?;
        return tell(&report, to, &reading, context);
    }
    let mut exporter =
        Exporter::new(&reading.ledger, kind, args.telling.telling(kind.telling()), args.redact);
    learn(&mut exporter, &chosen.sessions, context)?;
    let Some(to) = to else {
        return to_stdout(&mut exporter, &chosen.sessions, context);
    };
    let report = if is_file(&to, args, kind, chosen.is_one) {
        folder::one_file(&mut exporter, &chosen.sessions, &to, args.force)?
    } else {
        folder::export(&mut exporter, &chosen, &to, args.force, context)?
    };
    tell(&report, &to, &reading, context)
}

/// Whether `--to` names a file. A folder has no such ending, or is there.
fn is_file(to: &Path, args: &Args, kind: Kind, is_one: bool) -> bool {
    let ends_like_folder =
        args.to.as_ref().is_some_and(|to| to.as_os_str().as_encoded_bytes().ends_with(b"/"));
    (is_one || kind == Kind::Csv)
        && !ends_like_folder
        && !to.is_dir()
        && to.extension().and_then(|name| name.to_str()) == Some(kind.extension())
}

/// Shows everything to whoever masks secrets, before anything is written: a secret may be told by
/// the words around it in one place and stand alone in another.
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
            // It is told when it is written.
            Err(error) if error.is_damage() => {}
            learned => learned?,
        }
        bar.sessions("looking for secrets", done as u64 + 1, sessions.len() as u64);
    }
    exporter.settle();
    Ok(())
}

fn to_stdout(
    exporter: &mut Exporter<'_>,
    sessions: &[(SessionRow, Session)],
    context: &mut Context,
) -> Result<()> {
    context.output.page()?;
    let mut out = Stdout::new(&mut context.output);
    let more = exporter.write_all(sessions, &mut out)?;
    out.end()?;
    context.output.finish()?;
    if more > 0 {
        let files = count(more as u64, "more file");
        context.output.warn(
            &format!("the session also stands in {files}, which are not in this"),
            Some("--to writes all of them to a folder"),
        );
    }
    if let Some(masked) = exporter.redactor().map(masked) {
        context.output.note(&masked);
    }
    Ok(())
}

/// Says what was done.
fn tell(report: &ExportReport, to: &Path, reading: &Reading, context: &mut Context) -> Result<()> {
    if context.is_json {
        reading.json(context, report)?;
    } else if !context.output.is_quiet() {
        let size = bytes(report.files.iter().map(|file| file.bytes).sum());
        let files = count(report.files.len() as u64, "file");
        let of = count(report.sessions, "session");
        let to = context.show(to);
        let said = format!(" written to {to}: {files} ({size})");
        context.output.line(Text::of(Look::Good, of).and(said))?;
        if let Some(redacted) = &report.redacted {
            let kinds = redacted.iter().map(|(kind, count)| (kind.as_str(), *count));
            context.output.line(Text::of(Look::Dim, masked_kinds(kinds)))?;
        }
        back::tell(report, context)?;
        for damaged in &report.damaged {
            let said = format!("{}: {}", damaged.session, damaged.why);
            context.output.line(Text::of(Look::Bad, "damaged  ").and(said))?;
        }
    }
    match report.damaged.len() as u64 {
        0 => Ok(()),
        damaged => {
            let sessions = count(damaged, "session");
            Err(CommandError::new(format!(
                "the ledger is damaged: {sessions} could not be exported"
            ))
            .hint("`quipu doctor --deep` says what is damaged and what to do"))
        }
    }
}

fn masked(redactor: &Redactor) -> String {
    masked_kinds(redactor.met())
}

/// `3 secrets masked: 2 github-token, 1 jwt`.
fn masked_kinds<'k>(kinds: impl Iterator<Item = (&'k str, u32)>) -> String {
    let kinds: Vec<(&str, u32)> = kinds.collect();
    let all: u64 = kinds.iter().map(|(_, count)| u64::from(*count)).sum();
    if all == 0 {
        return "no secrets found to mask".to_owned();
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    format!("{} masked: {}", count(all, "secret"), kinds.join(", "))
}
