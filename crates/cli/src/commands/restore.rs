//! `quipu restore`: collected files, byte for byte, into a folder.

use std::path::PathBuf;
use std::str::FromStr;

use clap::ArgGroup;
use quipu_ledger::wire::RestoreReport;
use quipu_ledger::{Generations, Trouble, What};

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::{Column, Look, Text, bytes, count};
use crate::paths;

/// Give collected files back, byte for byte
///
/// Writes the files of one session and its sub-agents, or of everything, to
/// DIR/<format>/<path relative to its root>. Only creates files: nothing that
/// exists is overwritten. A file that was rewritten has several generations;
/// the newest is given back unless another is asked for. What was compressed
/// is given back decompressed, without `.zst` in its name.
///
/// Examples:
///   quipu restore 640a --to rescued
///   quipu restore --all --to rescued --generation all
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
#[command(group(ArgGroup::new("what").required(true).args(["id", "all"])))]
pub(crate) struct Args {
    /// The session: its id, or an unambiguous beginning of it
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: Option<String>,

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
    let what = args.id.as_deref().map_or(What::All, What::Session);
    let generations = args.generation.map_or(Generations::Newest, |Generation(wanted)| wanted);
    let ledger = context.open_read_only()?;
    let report = quipu_ledger::restore(&ledger, what, &to, generations).map_err(cannot_restore)?;
    if let (Some(id), 0, true) = (&args.id, report.files, report.damaged.is_empty()) {
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
    match report.damaged.as_slice() {
        [] => Ok(()),
        damaged => {
            let files = count(damaged.len() as u64, "file");
            Err(CommandError::new(format!(
                "the ledger is damaged: {files} could not be given back"
            ))
            .hint("`quipu doctor --deep` says what is damaged and what to do"))
        }
    }
}

/// Files and folders that get in the way are below `--to`, not the ledger's.
fn cannot_restore(error: quipu_ledger::Error) -> CommandError {
    let hint = match (&error, error.trouble()) {
        (quipu_ledger::Error::Io { .. }, Trouble::Exists) => {
            "nothing is overwritten; restore into an empty folder"
        }
        (quipu_ledger::Error::Io { .. }, Trouble::DiskFull) => {
            "make room on the disk and restore into an empty folder"
        }
        (quipu_ledger::Error::Io { .. }, _) => "name another folder with --to",
        _ => return CommandError::from(error),
    };
    CommandError::from_source(error.into()).hint(hint)
}

fn show(
    context: &mut Context,
    args: &Args,
    to: &std::path::Path,
    report: &RestoreReport,
) -> Result<()> {
    let shown = context.show(to);
    let out = &mut context.output;
    if report.files == 0 && report.damaged.is_empty() {
        out.line("nothing to restore: the ledger holds no files yet")?;
        return Ok(());
    }
    out.line(
        Text::of(Look::Good, count(report.files, "file"))
            .and(format!(" ({}) restored to {shown}", bytes(report.bytes))),
    )?;
    if report.decompressed > 0 {
        let files = count(report.decompressed, "file");
        let was = if report.decompressed == 1 { "was" } else { "were" };
        let note = format!("{files} {was} compressed: given back without `.zst`");
        out.line(Text::of(Look::Dim, note))?;
    }
    for file in &report.damaged {
        let path = std::path::Path::new(&file.path);
        let path = path.strip_prefix(to).unwrap_or(path).display().to_string();
        out.line(Text::of(Look::Bad, "damaged  ").and(format!("{path}: {}", file.why)))?;
    }
    let blanks = report.restored.iter().map(|file| file.forgotten_lines).sum();
    if blanks > 0 {
        out.line(format!("{} of forgotten sessions given back as blanks", count(blanks, "line")))?;
    }
    if !args.all {
        let columns = [Column::numbers("size"), Column::long("file")];
        let rows = report.restored.iter().map(|file| {
            let path = std::path::Path::new(&file.path);
            let path = path.strip_prefix(to).unwrap_or(path).display().to_string();
            vec![Text::plain(bytes(file.bytes)), Text::plain(path)]
        });
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
