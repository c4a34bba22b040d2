//! `quipu restore`: collected files, byte for byte, into a folder.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ArgGroup;
use quipu_ledger::wire::RestoreReport;
use quipu_ledger::{Generations, Trouble, What};

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::{Column, Look, Text, bytes, count};
use crate::paths;
use crate::reading;

/// Give collected files back, byte for byte
///
/// Writes the files of one session and its sub-agents, of one name, or of
/// everything, to DIR/<format>/<path relative to its root>. Only creates files:
/// nothing that exists is overwritten, and no link in DIR is followed. What
/// cannot be written is named, the rest goes on, and the same command again
/// writes what is missing. A file that was rewritten has several generations;
/// the newest is given back unless another is asked for. A file whose name
/// another one needs, or that would be too long, goes to DIR/<format>.aside.
/// What was compressed is given back decompressed, without `.zst` in its name;
/// what could not be decompressed to its end also comes back as it was.
///
/// Examples:
///   quipu restore 640a --to rescued
///   quipu restore --source MEMORY.md --to rescued --generation all
///   quipu restore --all --to rescued
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
#[command(group(ArgGroup::new("what").required(true).args(["id", "source", "all"])))]
pub(crate) struct Args {
    /// The session: its id, or an unambiguous beginning of it
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: Option<String>,

    /// Files of that name: a path, or the end of one
    #[arg(long, value_name = "PATH")]
    source: Option<PathBuf>,

    /// Every collected file
    #[arg(long)]
    all: bool,

    /// The folder to write to
    #[arg(long, value_name = "DIR")]
    to: PathBuf,

    /// Which life of each file: a number from 1, or `all`; the newest if not given
    #[arg(long, value_name = "N|all")]
    generation: Option<Generation>,
}

/// A generation on the command line.
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
        // Roots are known by their real path; a file that is gone has none.
        Some(path) if is_whole(path) => {
            let path = paths::resolve(path, context.settings.home.as_deref(), &here)?;
            Some(std::fs::canonicalize(&path).unwrap_or(path))
        }
        name => name.clone(),
    };
    let what = match (&args.id, &source) {
        (Some(id), _) => What::Session(id),
        (None, Some(path)) => What::Source(path),
        (None, None) => What::All,
    };
    let generations = args.generation.map_or(Generations::Newest, |Generation(wanted)| wanted);
    let report = match (context.open_if_any()?, what) {
        (Some(ledger), what) => {
            if args.id.is_some() {
                reading::warn_of_unprojected(context, quipu_ledger::unprojected(&ledger)?);
            }
            quipu_ledger::restore(&ledger, what, &to, generations).map_err(cannot_restore)?
        }
        (None, What::Session(name)) => return Err(no_match("session", name.to_owned())),
        (None, What::Source(path)) => return Err(no_match("file", path.display().to_string())),
        (None, What::All) => RestoreReport::default(),
    };
    if let (Some(id), true) = (&args.id, report.is_empty()) {
        let mut error = CommandError::new(format!("no file of session `{id}` was ever collected"))
            .hint("it is known only from prompt history: its transcript was gone before the first sync");
        error.kind = Kind::NoMatch;
        return Err(error);
    }
    if context.is_json {
        context.output.json(&report)?;
    } else if !context.output.is_quiet() {
        show(context, args, &to, &report)?;
    }
    match (report.damaged.len() as u64, report.skipped.len() as u64) {
        (0, 0) => Ok(()),
        (0, skipped) => {
            let files = count(skipped, "file");
            Err(CommandError::new(format!("{files} could not be written; the others are there"))
                .hint("nothing is overwritten; remove what is in the way and run it again, or name another folder with --to"))
        }
        (damaged, skipped) => {
            let files = count(damaged, "file");
            let mut error = CommandError::new(format!(
                "the ledger is damaged: {files} could not be given back"
            ))
            .hint("`quipu doctor --deep` says what is damaged and what to do");
            if skipped > 0 {
                error = error.hint(format!("{} more could not be written", count(skipped, "file")));
            }
            Err(error)
        }
    }
}

/// Nothing is called so where there is nothing at all.
fn no_match(what: &'static str, name: String) -> CommandError {
    quipu_ledger::Error::NoMatch { what, name }.into()
}

/// What is given back into a folder that is collected from would be collected again.
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

/// Whether a path says where it begins, so that it is no mere name.
fn is_whole(path: &Path) -> bool {
    path.is_absolute() || ["~", ".", ".."].iter().any(|start| path.starts_with(start))
}

/// Files and folders that get in the way are below `--to`, not the ledger's.
fn cannot_restore(error: quipu_ledger::Error) -> CommandError {
    let hint = match (&error, error.trouble()) {
        (quipu_ledger::Error::Io { .. }, Trouble::DiskFull) => {
            "make room on the disk and run it again; it goes on with what is missing"
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
        out.line("nothing to restore: the ledger holds no files yet")?;
        return Ok(());
    }
    out.line(
        Text::of(Look::Good, count(report.files, "file"))
            .and(format!(" ({}) restored to {shown}", bytes(report.bytes))),
    )?;
    if report.there > 0 {
        let note = format!("{} there already, with the same bytes", count(report.there, "file"));
        out.line(Text::of(Look::Dim, note))?;
    }
    if report.decompressed > 0 {
        let files = count(report.decompressed, "file");
        let was = if report.decompressed == 1 { "was" } else { "were" };
        let note = format!("{files} {was} compressed: given back without `.zst`");
        out.line(Text::of(Look::Dim, note))?;
    }
    if report.as_found > 0 {
        let files = count(report.as_found, "file");
        let note =
            format!("{files} cannot be decompressed to the end: given back as found, with `.zst`");
        out.line(Text::of(Look::Dim, note))?;
    }
    let below = |path: &str| {
        let path = Path::new(path);
        path.strip_prefix(to).unwrap_or(path).display().to_string()
    };
    for (file, name) in report.restored.iter().filter_map(|f| Some((f, f.instead_of.as_ref()?))) {
        let said = format!("{} instead of {}", below(&file.path), below(name));
        out.line(Text::of(Look::Dim, "aside  ").and(said))?;
    }
    let missing = [("damaged  ", &report.damaged), ("skipped  ", &report.skipped)];
    for (label, files) in missing {
        for file in files {
            let said = format!("{}: {}", below(&file.path), file.why);
            out.line(Text::of(Look::Bad, label).and(said))?;
        }
    }
    let blanks = report.restored.iter().map(|file| file.forgotten_lines).sum();
    if blanks > 0 {
        out.line(format!("{} of forgotten sessions given back as blanks", count(blanks, "line")))?;
    }
    if !args.all {
        let columns = [Column::numbers("size"), Column::long("file")];
        let rows = report
            .restored
            .iter()
            .map(|file| vec![Text::plain(bytes(file.bytes)), Text::plain(below(&file.path))]);
        out.table(2, &columns, rows.collect())?;
    }
    let from_rows = report.restored.iter().filter(|file| file.from_rows).count();
    if from_rows > 0 {
        out.line(Text::of(
            Look::Dim,
            format!(
                "{} from rows of a database: one event per line",
                count(from_rows as u64, "file")
            ),
        ))?;
    }
    Ok(())
}
