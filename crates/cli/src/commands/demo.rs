//! `quipu demo`: a small ledger of invented sessions, to try everything at once.

use std::path::{Path, PathBuf};

use clap::CommandFactory;
use jiff::civil::Date;
use quipu_ledger::{Filter, Ledger, Retention, RootPath, Selection};
use quipu_transcript::format;
use serde::Serialize;

use super::Context;
use crate::demo::{Demo, new_folder, quoted};
use crate::error::{CommandError, Result};
use crate::output::{Look, Text, count};
use crate::{machine, zone};

/// Make a small ledger of invented sessions, to try everything at once
///
/// A week of two agents on one small project: branches, a compaction, a
/// sub-agent, scheduled jobs, notes that change. It has a folder of its own and
/// a ledger of its own; yours is neither read nor written. Remove the folder
/// when you are done.
///
/// Example:
///   quipu demo
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Make it here instead of in a temporary folder
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,

    /// The last day of the week that it tells of [default: yesterday]
    #[arg(long, value_name = "DAY", hide = true)]
    until: Option<Date>,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Made<'a> {
    folder: &'a Path,
    config: PathBuf,
    ledger: PathBuf,
    sessions: usize,
}

/// What can be tried, and what it shows. Commands that this quipu does not have are left out.
const SAMPLES: &[(&str, &str)] = &[
    ("sessions", "what was talked about"),
    ("show b20f", "how the missing hour was found"),
    ("tree b20f", "the prompt that was taken back, and the sub-agent"),
    ("search herring", "every word of it"),
    ("usage", "what it cost, day by day"),
    ("notes MEMORY.md --diff", "what the harbour cat learned"),
    ("cron \"Morning tide\"", "a job and its runs"),
    ("sql \"SELECT name, count(*) FROM tool_calls GROUP BY 1\"", "anything else"),
    ("export e593 --format md", "a session to read elsewhere"),
];

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let folder = match &args.to {
        Some(folder) => empty_folder(folder)?,
        None => new_folder().map_err(|error| cannot("make a temporary folder", error))?,
    };
    let last = args.until.or_else(|| zone::now().yesterday().ok().map(|day| day.date()));
    let demo = Demo::new(folder, last.unwrap_or_default());
    let config = demo.folder.join("config.toml");
    let ledger_path = demo.folder.join("ledger.db");
    std::fs::create_dir_all(&demo.folder)
        .and_then(|()| std::fs::write(&config, CONFIG))
        .and_then(|()| demo.write_first())
        .map_err(|error| cannot("write the demo", error))?;
    let mut ledger = Ledger::open(&ledger_path)?;
    quipu_ledger::adopt(&mut ledger, machine::name())?;
    let roots = roots(&demo);
    quipu_ledger::collect(&mut ledger, &roots, &mut |_| {})?;
    demo.write_later().map_err(|error| cannot("write the demo", error))?;
    quipu_ledger::collect(&mut ledger, &roots, &mut |_| {})?;
    let sessions = quipu_ledger::sessions(&ledger, &Filter::default(), None)?.total;
    if context.is_json {
        let made = Made { folder: &demo.folder, config, ledger: ledger_path, sessions };
        return Ok(context.output.json(&made)?);
    }
    let heading = Text::of(Look::Bold, count(sessions as u64, "invented session"))
        .and(" of two agents on one small project, in ")
        .and(demo.folder.display().to_string());
    context.output.line(heading)?;
    context.output.gap()?;
    context.output.line("Say this once in your shell; your own ledger is not touched:")?;
    context.output.gap()?;
    let (config, ledger) = (quoted(&config), quoted(&ledger_path));
    let alias = format!("  alias demo='{} --config {config} --ledger {ledger}'", program());
    context.output.verbatim(&alias)?;
    context.output.gap()?;
    context.output.line("Then try")?;
    context.output.gap()?;
    let known = crate::args::Args::command();
    let samples = SAMPLES.iter().filter(|(sample, _)| {
        let name = sample.split(' ').next().unwrap_or_default();
        known.find_subcommand(name).is_some()
    });
    for (sample, what) in samples {
        context.output.line(Text::plain(format!("  demo {sample}")))?;
        context.output.line(Text::of(Look::Dim, format!("      {what}")))?;
    }
    context.output.gap()?;
    let remove = format!("Remove it with: rm -r {}", quoted(&demo.folder));
    context.output.line(Text::of(Look::Dim, remove))?;
    Ok(())
}

/// Flags say the same; this is for those who forget them.
const CONFIG: &str = "\
# Made by `quipu demo`.
ledger = \"ledger.db\"

[roots]
claude-code = [\"home/.claude\"]
openclaw = [\"home/.openclaw\"]
";

fn roots(demo: &Demo) -> Vec<RootPath> {
    [("claude-code", demo.claude()), ("openclaw", demo.openclaw())]
        .into_iter()
        .filter_map(|(name, path)| {
            Some(RootPath {
                format: format::by_name(name)?,
                path,
                selection: Selection::default(),
                retention: Retention::Assumed,
            })
        })
        .collect()
}

/// A folder in which nothing is yet, by its whole path.
fn empty_folder(folder: &Path) -> Result<PathBuf> {
    let folder = std::path::absolute(folder).map_err(|error| cannot("use that folder", error))?;
    let is_empty = std::fs::read_dir(&folder).map_or(true, |mut entries| entries.next().is_none());
    if !is_empty {
        return Err(CommandError::new(format!("{} is not empty", folder.display()))
            .hint("name a new folder, or none at all"));
    }
    Ok(folder)
}

/// How this program is called here.
fn program() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    match Path::new(&called).components().count() {
        // Found on the search path.
        1 => called.to_string_lossy().into_owned(),
        _ => std::env::current_exe().map_or_else(|_| "quipu".to_owned(), |path| quoted(&path)),
    }
}

fn cannot(what: &str, error: std::io::Error) -> CommandError {
    CommandError::from_source(anyhow::Error::new(error).context(format!("cannot {what}")))
        .hint("name another folder with --to")
}
