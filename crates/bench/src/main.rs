//! Measures quipu on generated and real homes, and compares it with simple programs that only list
//! or parse the same files.
//!
//! Runs the built binary, so the figures are those of the program that people run. Only `store`,
//! `compact` and `gateway` also call the library `quipu-ledger`, as runtimes do. A missed target is
//! printed. With `--check`, the exit code is then 1.

mod compact;
mod corpus;
mod gateway;
mod generate;
mod growth;
mod import;
mod lines;
mod measure;
mod nochange;
mod read;
mod recall;
mod report;
mod search;
mod store;
mod usage;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, Parser, Subcommand};

use measure::Workplace;
use report::{Report, say};

/// Measure quipu: import, sync, growth, usage reports, search, recall, reading, the session store,
/// compactions, the HTTP server
#[derive(Parser)]
#[command(name = "quipu-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Task,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Common {
    /// The quipu binary to measure [default: the one next to this program]
    #[arg(long, global = true, value_name = "PATH")]
    quipu: Option<PathBuf>,
    /// Folder for the generated home and the ledger; use one on a disk if the default is in memory
    /// [default: the system's temporary folder]
    #[arg(long, global = true, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Seed for generated data
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object instead of a table
    #[arg(long, global = true)]
    json: bool,
    /// Exit with 1 if a target is missed
    #[arg(long, global = true)]
    check: bool,
}

#[derive(Subcommand)]
enum Task {
    /// Write a home of generated sessions, half Claude Code and half OpenClaw
    Generate {
        /// A new or empty folder
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
        /// Bytes of all files together
        #[arg(long, value_parser = parse_size, default_value = "100MB")]
        size: u64,
        /// Number of transcripts [default: as many as real homes of this size have]
        #[arg(long)]
        files: Option<usize>,
        /// Also print which share of the bytes each kind of content takes
        #[arg(long)]
        shares: bool,
    },
    /// Print which share of the bytes each kind of content takes, compared with real transcripts
    Shares {
        /// A home, generated or real; it is only read
        #[arg(long, value_name = "DIR")]
        home: PathBuf,
    },
    /// Import a home into an empty ledger, sync without changes, sync one new line
    Import {
        /// Bytes of the generated home
        #[arg(long, value_parser = parse_size, default_value = "100MB")]
        size: u64,
        /// Import the sessions of this home instead of generated ones; they are copied first
        #[arg(long, value_name = "DIR", conflicts_with = "size")]
        home: Option<PathBuf>,
        /// Number of runs of each program; they alternate, and the fastest of each counts
        #[arg(long, default_value_t = 3)]
        runs: usize,
        /// Also import with agentsview, for comparison
        #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value = "auto", default_missing_value = "always")]
        agentsview: import::Comparison,
    },
    /// Sync many small files when nothing is new
    Nochange {
        /// Number of files, in 200 project folders
        #[arg(long, default_value_t = 5000)]
        files: usize,
    },
    /// Rewrite a 5 MB transcript and a 5 MB index many times, a little each time, then rename them
    Growth {
        /// Number of rewrites of each
        #[arg(long, default_value_t = 1000)]
        rewrites: usize,
    },
    /// Report tokens and cost of a large home
    Usage {
        /// Bytes of the generated home
        #[arg(long, value_parser = parse_size, default_value = "1GB")]
        size: u64,
        /// Also report with ccusage, for comparison
        #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value = "auto", default_missing_value = "always")]
        ccusage: import::Comparison,
        /// The ccusage binary [default: the one on the search path]
        #[arg(long, value_name = "PATH")]
        ccusage_at: Option<PathBuf>,
    },
    /// List sessions, show a session with 1,000 entries, report usage, export a huge session
    Read {
        /// Bytes of the generated home
        #[arg(long, value_parser = parse_size, default_value = "1GB")]
        size: u64,
        /// Read this home instead of a generated one; it is not changed, and nothing is exported
        #[arg(long, value_name = "DIR", conflicts_with = "size")]
        home: Option<PathBuf>,
        /// Number of runs of each command
        #[arg(long, default_value_t = 9)]
        runs: usize,
        /// Bytes of the session that is exported
        #[arg(long, value_parser = parse_size, default_value = "300MB")]
        huge: u64,
    },
    /// For each of 20 questions, find the one right session, as an agent does
    Recall {
        /// Bytes of the generated home, without the sessions to find
        #[arg(long, value_parser = parse_size, default_value = "100MB")]
        size: u64,
        /// Also ask agentsview, for comparison
        #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value = "auto", default_missing_value = "always")]
        agentsview: import::Comparison,
    },
    /// Sync a session while it grows line by line
    Lines {
        /// Number of lines
        #[arg(long, default_value_t = 2000)]
        lines: usize,
        /// Number of lines between two syncs
        #[arg(long, default_value_t = 1)]
        every: usize,
    },
    /// Search a home: the time inside quipu, and the whole command compared with ripgrep
    Search {
        /// Bytes of the generated home
        #[arg(long, value_parser = parse_size, default_value = "1GB")]
        size: u64,
        /// Search this home instead of a generated one; it is only read
        #[arg(long, value_name = "DIR", conflicts_with = "size")]
        home: Option<PathBuf>,
        /// Number of runs of each query
        #[arg(long, default_value_t = 9)]
        runs: usize,
    },
    /// Write sessions into the ledger: durable appends, concurrent writers, contexts, metadata
    Store {
        /// Number of appends in the test with one client
        #[arg(long, default_value_t = 2000)]
        appends: usize,
        /// Entries of the session whose context is built
        #[arg(long, default_value_t = 10_000)]
        entries: usize,
        /// Sessions of the ledger in which metadata is changed
        #[arg(long, default_value_t = 100_000)]
        sessions: usize,
        /// Processes that append at the same time
        #[arg(long, default_value_t = 16)]
        writers: usize,
        /// Folder of an installed pi (@earendil-works/pi-coding-agent); its own reader is timed on
        /// the same session
        #[arg(long, value_name = "DIR")]
        pi: Option<PathBuf>,
        /// The node binary that runs pi
        #[arg(long, value_name = "PATH", default_value = "node")]
        node: PathBuf,
    },
    /// Measure compactions: plans, summaries without a model, and what other writers notice
    Compact {
        /// Entries of the session that is planned
        #[arg(long, default_value_t = 100_000)]
        entries: usize,
        /// Appends with and without --auto-compact
        #[arg(long, default_value_t = 2000)]
        appends: usize,
        /// Entries of the session that is summarised
        #[arg(long, default_value_t = 12_000)]
        summarised: usize,
        /// Seconds that the slow summariser takes
        #[arg(long, default_value_t = 5)]
        seconds: u64,
        /// Processes that append while the summariser works
        #[arg(long, default_value_t = 4)]
        writers: usize,
        /// Folder of an installed pi (@earendil-works/pi-coding-agent); it plans the same session
        #[arg(long, value_name = "DIR")]
        pi: Option<PathBuf>,
        /// The node binary that runs pi
        #[arg(long, value_name = "PATH", default_value = "node")]
        node: PathBuf,
    },
    /// Measure the HTTP server: durable appends of one client and of many, and many subscribers
    Gateway {
        /// Number of appends of one client; 0 leaves appends out
        #[arg(long, default_value_t = 2000)]
        appends: usize,
        /// Clients that append at the same time
        #[arg(long, default_value_t = 64)]
        clients: usize,
        /// Seconds for which they append
        #[arg(long, default_value_t = 10)]
        seconds: u64,
        /// Milliseconds by which strace delays each sync of the disk, for a second measurement; 0
        /// leaves that out
        #[arg(long, default_value_t = 0)]
        fsync_ms: u64,
        /// Subscribers to 50 events a second, of which one in ten does not read; 0 leaves
        /// subscribers out
        #[arg(long, default_value_t = 1000)]
        subscribers: usize,
    },
    /// List and stat every file below a folder: the baseline of the no-change sync
    #[command(hide = true)]
    Walk { folder: PathBuf },
    /// Parse every line of a home: the baseline of the import
    #[command(hide = true)]
    Parse { home: PathBuf },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            report::note(&format!("error: {error:#}"));
            ExitCode::from(2)
        }
    }
}

/// Runs the task; returns false if a target was missed and `--check` is set.
fn run(cli: &Cli) -> Result<bool> {
    let Common { seed, json, .. } = cli.common;
    let place = || Workplace::new(cli.common.quipu.as_deref(), cli.common.work.as_deref());
    let report: Report = match &cli.command {
        Task::Walk { folder } => {
            say(&format!("{}\n", corpus::walk(folder)?.len()))?;
            return Ok(true);
        }
        Task::Parse { home } => {
            say(&format!("{}\n", corpus::parse_every_line(home)?.to_json()))?;
            return Ok(true);
        }
        Task::Generate { to, size, files, shares } => {
            let plan = generate::Plan { size: *size, seed, n_files: *files };
            generate_report(&plan, to, *shares)?
        }
        Task::Shares { home } => {
            let mut report = Report::new("shares");
            generate::shares::of_home(home)?.add_rows(&mut report);
            report
        }
        Task::Import { size, home, runs, agentsview } => {
            let plan = import::Plan {
                source: match home {
                    Some(home) => import::Source::Home(home),
                    None => import::Source::Generated(*size),
                },
                runs: *runs,
                seed,
                agentsview: *agentsview,
            };
            import::run(&plan, &place()?)?
        }
        Task::Nochange { files } => nochange::run(*files, seed, &place()?)?,
        Task::Search { size, home, runs } => {
            search::run(*size, home.as_deref(), *runs, seed, place()?)?
        }
        Task::Read { size, home, runs, huge } => {
            let home = home.as_deref();
            let plan = read::Plan { size: *size, home, runs: *runs, huge: *huge, seed };
            read::run(&plan, place()?)?
        }
        Task::Recall { size, agentsview } => recall::run(*size, seed, *agentsview, place()?)?,
        Task::Usage { size, ccusage, ccusage_at } => {
            let program = ccusage_at.clone();
            let plan = usage::Plan { size: *size, seed, ccusage: *ccusage, program };
            usage::run(&plan, &place()?)?
        }
        Task::Store { appends, entries, sessions, writers, pi, node } => {
            let plan = store::Plan {
                appends: *appends,
                entries: *entries,
                sessions: *sessions,
                writers: *writers,
                pi: pi.clone(),
                node: node.clone(),
            };
            store::run(&plan, &place()?)?
        }
        Task::Compact { entries, appends, summarised, seconds, writers, pi, node } => {
            let plan = compact::Plan {
                entries: *entries,
                appends: *appends,
                summarised: *summarised,
                seconds: *seconds,
                writers: *writers,
                pi: pi.clone(),
                node: node.clone(),
            };
            compact::run(&plan, &place()?)?
        }
        Task::Gateway { appends, clients, seconds, fsync_ms, subscribers } => {
            let plan = gateway::Plan {
                appends: *appends,
                clients: *clients,
                seconds: *seconds,
                fsync_ms: *fsync_ms,
                subscribers: *subscribers,
            };
            gateway::run(&plan, &place()?)?
        }
        Task::Growth { rewrites } => growth::run(*rewrites, seed, &place()?)?,
        Task::Lines { lines, every } => lines::run(*lines, *every, seed, &place()?)?,
    };
    report.print(json)?;
    Ok(report.passes() || !cli.common.check)
}

/// Generates a home and reports its size and the speed of generating.
fn generate_report(
    plan: &generate::Plan,
    to: &std::path::Path,
    with_shares: bool,
) -> Result<Report> {
    let started = Instant::now();
    let bytes = generate::write_home(plan, to)?;
    let seconds = started.elapsed().as_secs_f64();
    let mut report = Report::new("generate");
    report.fact("files", corpus::walk(to)?.len());
    report.fact_bytes("bytes", bytes);
    if with_shares {
        generate::shares::of_home(to)?.add_rows(&mut report);
    }
    report.row(
        "generated",
        bytes as f64 / seconds / 1e6,
        report::Unit::MegabytesPerSecond,
        report::Target::None,
    );
    Ok(report)
}

/// Parses `100MB`, `1.5GB`, `64KiB` or a plain number of bytes.
fn parse_size(text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 =
        digits.trim().parse().with_context(|| format!("`{text}` is not a size; try 100MB"))?;
    let factor = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        unit => anyhow::bail!("`{unit}` is not a unit of size; use KB, MB, GB, KiB, MiB or GiB"),
    };
    let bytes = number * factor;
    ensure!((1e5..=1e12).contains(&bytes), "the size must be between 100KB and 1000GB");
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_valid_for_clap() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn parse_size_accepts_units() {
        let parsed = |text: &str| parse_size(text).ok();
        assert_eq!(parsed("100MB"), Some(100_000_000));
        assert_eq!(parsed("1.5gb"), Some(1_500_000_000));
        assert_eq!(parsed("512KiB"), Some(524_288));
        assert_eq!(parsed("250000"), Some(250_000));
        for wrong in ["", "MB", "10parsecs", "5", "-3MB", "9999GB"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
