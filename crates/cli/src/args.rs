//! The command line. Help text is the doc comment of each item.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, ValueEnum};
use serde::Serialize;

use crate::commands::Command;
use crate::help;
use crate::output::safe;

/// The permanent ledger of AI-agent sessions.
///
/// Without a command, collects what Claude Code and OpenClaw have written since the last run into
/// one SQLite file, byte for byte, and prints an overview of it. Source files are only read.
#[derive(Debug, Parser)]
#[command(name = "quipu", version, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Args {
    /// The command to run.
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

    /// Read this configuration file [env: QUIPU_CONFIG] [default:
    /// $XDG_CONFIG_HOME/quipu/config.toml]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) config: Option<PathBuf>,

    /// Print JSON: one object, or one per line for lists
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Print everything at once, without a pager [env: QUIPU_PAGER or PAGER names the pager]
    #[arg(long, global = true)]
    pub(crate) no_pager: bool,

    /// When to use colours [env: NO_COLOR turns them off]
    #[arg(long, global = true, value_name = "WHEN", value_enum)]
    pub(crate) color: Option<ColorWhen>,

    /// Print only results and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Print more details; repeat for even more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ColorWhen {
    /// When the output is a terminal.
    Auto,
    /// Always, even in pipes and files.
    Always,
    /// Never.
    Never,
}

impl ColorWhen {
    /// Returns the name used by flags and configuration.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ColorWhen::Auto => "auto",
            ColorWhen::Always => "always",
            ColorWhen::Never => "never",
        }
    }
}

/// Rewrites `quipu help sync` as `quipu sync --help`, and `quipu last` as `quipu show last`.
fn without_shortcuts(arguments: &[OsString]) -> Vec<OsString> {
    let mut arguments = arguments.to_vec();
    let Some(at) = command_at(&arguments) else { return arguments };
    match arguments.get(at).and_then(|argument| argument.to_str()) {
        Some("help") => {
            arguments.remove(at);
            arguments.push("--help".into());
        }
        Some("last") => arguments.insert(at, "show".into()),
        _ => {}
    }
    arguments
}

/// Returns the position of the command: the first argument that is neither an option nor the value
/// of one.
fn command_at(arguments: &[OsString]) -> Option<usize> {
    const WITH_VALUE: &[&str] = &["--ledger", "--config", "--color"];
    let mut is_value = false;
    arguments
        .iter()
        .skip(1)
        .position(|argument| {
            let was_value = std::mem::replace(
                &mut is_value,
                WITH_VALUE.iter().any(|option| argument == option),
            );
            !was_value && !argument.as_encoded_bytes().starts_with(b"-")
        })
        .map(|at| at + 1)
}

/// Parses the command line. Help, version and mistakes are returned as an error.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Args, clap::Error> {
    let arguments = &without_shortcuts(arguments);
    let try_parse = |command: clap::Command, arguments: Vec<OsString>| {
        command
            .color(ColorChoice::Auto)
            .try_get_matches_from(arguments)
            .and_then(|matches| Args::from_arg_matches(&matches))
    };
    try_parse(Args::command(), arguments.to_vec()).map_err(|error| {
        // The message quotes arguments, which may have control characters. Parsing escaped
        // arguments makes it quote those instead. The help is laid out only now: that takes longer
        // than parsing.
        let safe =
            arguments.iter().map(|argument| safe(&argument.to_string_lossy()).into_owned().into());
        try_parse(help::add(Args::command()), safe.collect()).err().unwrap_or(error)
    })
}

/// Returns the `--color` value of a command line that does not parse.
pub(crate) fn color_flag(arguments: &[OsString]) -> Option<ColorWhen> {
    let mut arguments = arguments.iter().filter_map(|argument| argument.to_str());
    let value = arguments.find_map(|argument| match argument.strip_prefix("--color")? {
        "" => Some(None),
        rest => rest.strip_prefix('=').map(Some),
    })?;
    ColorWhen::from_str(value.or_else(|| arguments.next())?, false).ok()
}
