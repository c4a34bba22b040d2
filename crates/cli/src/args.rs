//! What can be said on the command line. Help text is the doc comment of each item.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, ValueEnum};
use serde::Serialize;

use crate::commands::Command;
use crate::output::safe;

/// The permanent ledger of AI-agent sessions.
///
/// Without a command it collects what Claude Code and OpenClaw have written since the last time,
/// every byte exactly once, into one file, and shows what that file holds. Sources are only ever
/// read.
#[derive(Debug, Parser)]
#[command(
    name = "quipu",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    after_help = "Exit codes: 0 done, 1 what was named has no match or a check failed, 2 error."
)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Global options.
    #[command(flatten)]
    pub(crate) global: Global,
}

/// Options of every command.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Use this ledger [env: QUIPU_LEDGER] [default: $XDG_DATA_HOME/quipu/ledger.db]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) ledger: Option<PathBuf>,

    /// Read this configuration file [env: QUIPU_CONFIG] [default: $XDG_CONFIG_HOME/quipu/config.toml]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) config: Option<PathBuf>,

    /// Print JSON: one object, or one per line for lists
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// When to use colours; NO_COLOR is obeyed
    #[arg(long, global = true, value_name = "WHEN", value_enum)]
    pub(crate) color: Option<ColorWhen>,

    /// Say nothing but results and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Say more; repeat for still more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ColorWhen {
    /// On a terminal.
    Auto,
    /// In pipes and files too.
    Always,
    /// Never.
    Never,
}

impl ColorWhen {
    /// The name that flags and configuration use.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ColorWhen::Auto => "auto",
            ColorWhen::Always => "always",
            ColorWhen::Never => "never",
        }
    }
}

/// `quipu help sync` means `quipu sync --help`.
fn with_help(arguments: &[OsString]) -> Vec<OsString> {
    match arguments {
        [quipu, help, command @ ..] if help == "help" => {
            [quipu].into_iter().chain(command).cloned().chain(["--help".into()]).collect()
        }
        arguments => arguments.to_vec(),
    }
}

/// Reads the command line. Help, version and mistakes come back as an error.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Args, clap::Error> {
    let arguments = &with_help(arguments);
    let read = |arguments: Vec<OsString>| {
        Args::command()
            .color(ColorChoice::Auto)
            .try_get_matches_from(arguments)
            .and_then(|matches| Args::from_arg_matches(&matches))
    };
    read(arguments.to_vec()).map_err(|error| {
        // The message quotes arguments; said again with safe ones, it quotes those.
        let safe =
            arguments.iter().map(|argument| safe(&argument.to_string_lossy()).into_owned().into());
        read(safe.collect()).err().unwrap_or(error)
    })
}

/// The colours that were asked for on a command line that cannot be read.
pub(crate) fn color_flag(arguments: &[OsString]) -> Option<ColorWhen> {
    let mut arguments = arguments.iter().filter_map(|argument| argument.to_str());
    let value = arguments.find_map(|argument| match argument.strip_prefix("--color")? {
        "" => Some(None),
        rest => rest.strip_prefix('=').map(Some),
    })?;
    ColorWhen::from_str(value.or_else(|| arguments.next())?, false).ok()
}
