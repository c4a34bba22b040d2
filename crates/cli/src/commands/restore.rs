//! `quipu restore`: writes collected files to a folder, byte for byte.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ArgGroup;
use quipu_ledger::Trouble;
use quipu_ledger::restore::{Generations, RestoreScope};
use quipu_ledger::wire::RestoreReport;

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::{Column, Style, Text, bytes, count};
use crate::paths;
use crate::reading;

/// Restore collected files, byte for byte
///
/// Restores the files of a session and its sub-agents, the files with one name,
/// or all files, to DIR/<format>/<path relative to its root>. Existing files are
/// never overwritten, and links in DIR are never followed. Files that cannot be
/// written are listed and the rest is restored; run the command again to restore
/// what is missing. A file that was rewritten has several generations; the newest
/// is restored; --generation chooses others. A file whose name is taken or
/// too long is restored to DIR/<format>.aside. Compressed files are restored
/// decompressed, without `.zst` in the name; those that cannot be decompressed
/// completely are also restored as they were found.
///
/// Examples:
///   quipu restore b20f --to rescued
///   quipu restore --source MEMORY.md --to rescued --generation all
///   quipu restore --all --to rescued
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
#[command(group(ArgGroup::new("what").required(true).args(["id", "source", "all"])))]
pub(crate) struct Args {
    /// A session id or an unambiguous beginning of one
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: Option<String>,

    /// Restore the files with this path, or the end of a path
    #[arg(long, value_name = "PATH")]
    source: Option<PathBuf>,

    /// Restore every collected file
    #[arg(long)]
    all: bool,

    /// The folder to write to
    #[arg(long, value_name = "DIR")]
    to: PathBuf,

    /// Which generation of each file: a number from 1, or `all` [default: the newest]
    #[arg(long, value_name = "N|all")]
    generation: Option<Generation>,
}

/// The value of `--generation`.
#[derive(Debug, Clone, Copy)]
struct Generation(Generations);

impl FromStr for Generation {
    type Err = String;

    fn from_str(text: &str) -> Result<Generation, String> {
        if text == "all" {
            return Ok(Generation(Generations::All));
        }
        match text.parse() {
            Ok(number @ 1..) => Ok(Generation(Generations::Number(number))),
            _ => Err("a number from 1, or `all`".to_owned()),
        }
    }
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let here = std::env::current_dir().unwrap_or_default();
    let to = paths::resolve(&args.to, context.settings.home.as_deref(), &here)?;
    refuse_followed(context, &to)?;
    let source = match &args.source {
        // Roots are stored without links in their paths. A file that is gone cannot be resolved.
        Some(path) if is_full_path(path) => {
            let path = paths::resolve(path, context.settings.home.as_deref(), &here)?;
            Some(std::fs::canonicalize(&path).unwrap_or(path))
        }
        name => name.clone(),
    };
    let what = match (&args.id, &source) {
        (Some(id), _) => RestoreScope::Session(id),
        (None, Some(path)) => RestoreScope::Source(path),
        (None, None) => RestoreScope::All,
    };
    let generations = args.generation.map_or(Generations::Newest, |Generation(wanted)| wanted);
    let report = match (context.open_if_any()?, what) {
        (Some(ledger), what) => {
            if args.id.is_some() {
                reading::warn_of_unprojected(
                    context,
                    quipu_ledger::freshness::unprojected(&ledger)?,
                );
            }
            quipu_ledger::restore::restore(&ledger, what, &to, generations)
                .map_err(cannot_restore)?
        }
        (None, RestoreScope::Session(name)) => return Err(no_match("session", name.to_owned())),
        (None, RestoreScope::Source(path)) => {
            return Err(no_match("file", path.display().to_string()));
        }
        (None, RestoreScope::All) => RestoreReport::default(),
    };
    if let (Some(id), true) = (&args.id, report.is_empty()) {
        let mut error = CommandError::new(format!("no file of session `{id}` was collected")).hint(
            "it is known only from prompt history: its transcript was gone before the first sync",
        );
        error.kind = Kind::NoMatch;
        return Err(error);
    }
    if context.is_json {
        context.output.json(&report)?;
    } else if !context.output.is_quiet() {
        show(context, args, &to, &report)?;
    }
    match (report.damaged_files.len() as u64, report.unwritten_files.len() as u64) {
        (0, 0) => Ok(()),
        (0, skipped) => {
            let files = count(skipped, "file");
            Err(CommandError::new(format!("{files} could not be written; all others were restored"))
                .hint("nothing was overwritten; remove what is in the way and run the command again, or name another folder with --to"))
        }
        (damaged, skipped) => {
            let files = count(damaged, "file");
            let mut error =
                CommandError::new(format!("the ledger is damaged: {files} could not be restored"))
                    .hint("run `quipu doctor --deep` to see what is damaged and what to do");
            if skipped > 0 {
                error = error.hint(format!("{} more could not be written", count(skipped, "file")));
            }
            Err(error)
        }
    }
}

/// Returns the error for a name in a ledger that does not exist.
fn no_match(what: &'static str, name: String) -> CommandError {
    quipu_ledger::Error::NoMatch { what, name }.into()
}

/// Refuses a target inside a folder that is collected from: the files would be collected again.
fn refuse_followed(context: &Context, to: &Path) -> Result<()> {
    let to = paths::real(to);
    for root in context.roots() {
        let followed = paths::real(&root.path);
        if to.starts_with(&followed) || followed.starts_with(to.join(root.format.name())) {
            let (to, followed) = (context.show(&to), context.show(&followed));
            return Err(CommandError::new(format!(
                "files restored to {to} would be collected again: quipu collects from {followed}"
            ))
            .hint("name a folder elsewhere with --to"));
        }
    }
    Ok(())
}

/// Returns whether a path begins with `/`, `~`, `.` or `..`, so that it is not the end of a path.
fn is_full_path(path: &Path) -> bool {
    path.is_absolute() || ["~", ".", ".."].iter().any(|start| path.starts_with(start))
}

/// Adds hints to an error, whose cause is in the folder of `--to`, not in the ledger.
fn cannot_restore(error: quipu_ledger::Error) -> CommandError {
    let hint = match (&error, error.trouble()) {
        (quipu_ledger::Error::Io { .. }, Trouble::DiskFull) => {
            "free some space on the disk and run the command again; it restores what is missing"
        }
        (quipu_ledger::Error::Io { .. }, _) => "name another folder with --to",
        _ => return CommandError::from(error),
    };
    CommandError::from_source(error.into()).hint(hint)
}

fn show(context: &mut Context, args: &Args, to: &Path, report: &RestoreReport) -> Result<()> {
    let shown = context.show(to);
    let out = &mut context.output;
    if report.is_empty() {
        out.line("nothing to restore: the ledger has no files yet")?;
        return Ok(());
    }
    out.line(
        Text::styled(Style::Good, count(report.files, "file"))
            .and(format!(" ({}) restored to {shown}", bytes(report.bytes))),
    )?;
    if report.existing_files > 0 {
        let note =
            format!("{} already there, with the same bytes", count(report.existing_files, "file"));
        out.line(Text::styled(Style::Dim, note))?;
    }
    if report.decompressed_files > 0 {
        let files = count(report.decompressed_files, "file");
        let was = if report.decompressed_files == 1 { "was" } else { "were" };
        let note = format!("{files} {was} compressed: restored without `.zst`");
        out.line(Text::styled(Style::Dim, note))?;
    }
    if report.as_found_files > 0 {
        let files = count(report.as_found_files, "file");
        let note =
            format!("{files} cannot be decompressed completely: restored as found, with `.zst`");
        out.line(Text::styled(Style::Dim, note))?;
    }
    let below = |path: &str| {
        let path = Path::new(path);
        path.strip_prefix(to).unwrap_or(path).display().to_string()
    };
    for (file, name) in report.written.iter().filter_map(|f| Some((f, f.instead_of.as_ref()?))) {
        let line = format!("{} instead of {}", below(&file.path), below(name));
        out.line(Text::styled(Style::Dim, "aside  ").and(line))?;
    }
    let missing = [("damaged  ", &report.damaged_files), ("skipped  ", &report.unwritten_files)];
    for (label, files) in missing {
        for file in files {
            let line = format!("{}: {}", below(&file.path), file.reason);
            out.line(Text::styled(Style::Bad, label).and(line))?;
        }
    }
    let blanks = report.written.iter().map(|file| file.forgotten_lines).sum();
    if blanks > 0 {
        out.line(format!("{} of forgotten sessions restored as blanks", count(blanks, "line")))?;
    }
    if !args.all {
        let columns = [Column::numbers("size"), Column::long("file")];
        let rows = report
            .written
            .iter()
            .map(|file| vec![Text::plain(bytes(file.bytes)), Text::plain(below(&file.path))]);
        out.table(2, &columns, rows.collect())?;
    }
    let from_rows = report.written.iter().filter(|file| file.is_from_rows).count();
    if from_rows > 0 {
        out.line(Text::styled(
            Style::Dim,
            format!(
                "{} restored from database rows, one event per line",
                count(from_rows as u64, "file")
            ),
        ))?;
    }
    Ok(())
}
