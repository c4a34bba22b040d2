//! `quipu demo`: a small ledger of invented sessions, to try every command.

use std::path::{Path, PathBuf};

use clap::CommandFactory;
use jiff::civil::Date;
use quipu_ledger::Ledger;
use quipu_ledger::collect::{Retention, RootPath, Selection};
use quipu_ledger::query::Filter;
use quipu_ledger::wire::DemoReport;
use quipu_transcript::format;

use super::Context;
use crate::demo::{Demo, new_folder};
use crate::error::{CommandError, Result};
use crate::output::{Style, Text, count};
use crate::{machine, shell, zone};

/// Create a small ledger of invented sessions, to try every command
///
/// A week of two agents on one small project: branches, a compaction, a
/// sub-agent, scheduled jobs, notes that change. The demo has its own folder
/// and its own ledger; your ledger is neither read nor written. Delete the
/// folder when you are done.
///
/// Example:
///   quipu demo
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Create it in this folder instead of a temporary one
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,

    /// The last day of the demo's week [default: yesterday]
    #[arg(long, value_name = "DAY", hide = true)]
    until: Option<Date>,
}

/// Commands to try, and what each shows. A command that this binary does not have is left out.
const SAMPLES: &[(&str, &str)] = &[
    ("sessions", "all sessions, the newest first"),
    ("show b20f", "how the missing hour was found"),
    ("tree b20f", "its branches, and the sub-agent"),
    ("search herring", "full-text search"),
    ("usage", "tokens and cost, by day"),
    ("notes MEMORY.md --diff", "how a memory note changed"),
    ("cron \"Morning tide\"", "a job and its runs"),
    ("sql \"SELECT tool, count(*) FROM tool_calls GROUP BY 1\"", "a read-only SQL query"),
    ("export e593 --format md", "a session as Markdown"),
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
    quipu_ledger::collect::adopt(&mut ledger, machine::name())?;
    let roots = roots(&demo);
    quipu_ledger::collect::collect(&mut ledger, &roots, &mut |_| {})?;
    demo.write_later().map_err(|error| cannot("write the demo", error))?;
    quipu_ledger::collect::collect(&mut ledger, &roots, &mut |_| {})?;
    let sessions = quipu_ledger::query::sessions(&ledger, &Filter::default(), None)?.total;
    if context.is_json {
        let made = DemoReport {
            path: demo.folder.display().to_string(),
            config_path: config.display().to_string(),
            ledger_path: ledger_path.display().to_string(),
            sessions,
        };
        return Ok(context.output.json(&made)?);
    }
    let heading = Text::styled(Style::Bold, count(sessions as u64, "invented session"))
        .and(" of two agents on one small project, in ")
        .and(demo.folder.display().to_string());
    context.output.line(heading)?;
    context.output.gap()?;
    context.output.line("Run this in your shell; your own ledger is not touched:")?;
    context.output.gap()?;
    let variables = [("QUIPU_CONFIG", &config), ("QUIPU_LEDGER", &ledger_path)];
    for (name, path) in variables {
        context.output.command("  ", &format!("export {name}={}", shell::quote(path)))?;
    }
    if !is_on_path() {
        let folder = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.to_owned()));
        let folder = folder.map(shell::quote).unwrap_or_default();
        context.output.command("  ", &format!("export PATH={folder}:\"$PATH\""))?;
    }
    context.output.gap()?;
    context.output.line("Then try")?;
    context.output.gap()?;
    let known = crate::args::Args::command();
    let samples = SAMPLES.iter().filter(|(sample, _)| {
        let name = sample.split(' ').next().unwrap_or_default();
        known.find_subcommand(name).is_some()
    });
    for (sample, what) in samples {
        context.output.command("  ", &format!("quipu {sample}"))?;
        context.output.line(Text::styled(Style::Dim, format!("      {what}")))?;
    }
    context.output.gap()?;
    let end = "To return to your own ledger and delete the demo:";
    context.output.line(Text::styled(Style::Dim, end))?;
    context.output.gap()?;
    context.output.command("  ", "unset QUIPU_CONFIG QUIPU_LEDGER")?;
    context.output.command("  ", &format!("rm -r {}", shell::quote(&demo.folder)))?;
    Ok(())
}

/// Configuration with the same ledger and roots, for commands without the flags.
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

/// Returns the absolute path of a folder that is empty or does not exist.
fn empty_folder(folder: &Path) -> Result<PathBuf> {
    let folder = std::path::absolute(folder).map_err(|error| cannot("use that folder", error))?;
    let is_empty = std::fs::read_dir(&folder).map_or(true, |mut entries| entries.next().is_none());
    if !is_empty {
        return Err(CommandError::new(format!("{} is not empty", folder.display()))
            .hint("name a new folder, or leave --to out"));
    }
    Ok(folder)
}

/// Returns whether the shell finds a `quipu`.
fn is_on_path() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join("quipu").is_file())
}

fn cannot(what: &str, error: std::io::Error) -> CommandError {
    CommandError::from_source(anyhow::Error::new(error).context(format!("cannot {what}")))
        .hint("name another folder with --to")
}
