//! Runs the scenarios one after another and prints a table. Exits with 1 if a promise was broken.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;

use quipu_torture::{Effort, Outcome, SCENARIOS, Scenario, Setting};

/// Do to quipu what disks, kernels and people do to it, and check that nothing is lost.
#[derive(Parser)]
#[command(name = "quipu-torture", version)]
struct Cli {
    /// What to do [default: everything]
    scenarios: Vec<String>,
    /// The quipu to torture [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    quipu: Option<PathBuf>,
    /// Where homes and ledgers are put [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// So many times what is usual
    #[arg(long, default_value_t = 1, conflicts_with = "small")]
    times: u64,
    /// As little as the tests do
    #[arg(long)]
    small: bool,
    /// Say which scenarios there are
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            println!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> Result<bool> {
    if cli.list {
        for scenario in SCENARIOS {
            println!("{:<11} {:<12} {}", scenario.name, scenario.faults, scenario.what);
        }
        return Ok(true);
    }
    let setting = Setting {
        quipu: quipu(cli)?,
        work: cli.work.clone(),
        seed: cli.seed,
        effort: if cli.small { Effort::Small } else { Effort::Full(cli.times) },
    };
    println!("{:<11} {:<12} {:>6} {:>7}  result", "scenario", "faults", "runs", "seconds");
    let mut held = true;
    for scenario in chosen(&cli.scenarios)? {
        let began = Instant::now();
        let outcome = (scenario.run)(&setting);
        let (runs, result) = match outcome {
            Ok(Outcome::Held { runs, what }) => (runs, what),
            Ok(Outcome::Skipped(why)) => (0, format!("skipped: {why}")),
            Err(error) => {
                held = false;
                (0, format!("BROKEN: {error:#}"))
            }
        };
        let seconds = began.elapsed().as_secs();
        println!("{:<11} {:<12} {runs:>6} {seconds:>7}  {result}", scenario.name, scenario.faults);
    }
    Ok(held)
}

/// The binary, by its full path: it is run elsewhere.
fn quipu(cli: &Cli) -> Result<PathBuf> {
    let path = match &cli.quipu {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("quipu"),
    };
    ensure!(
        path.is_file(),
        "there is no quipu at {}\nhint: build it with `cargo build -p quipu`, or name it with --quipu",
        path.display()
    );
    std::fs::canonicalize(&path).with_context(|| format!("cannot use {}", path.display()))
}

fn chosen(names: &[String]) -> Result<Vec<&'static Scenario>> {
    if names.is_empty() {
        return Ok(SCENARIOS.iter().collect());
    }
    let mut chosen = Vec::new();
    for name in names {
        match SCENARIOS.iter().find(|scenario| scenario.name == name) {
            Some(scenario) => chosen.push(scenario),
            None => bail!("there is no scenario `{name}`\nhint: --list says which there are"),
        }
    }
    Ok(chosen)
}
