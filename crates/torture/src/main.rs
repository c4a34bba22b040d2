//! Runs the scenarios one after another and prints a table. Exits with 1 if a promise was broken.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;

use quipu_torture::{Effort, Outcome, SCENARIOS, Scenario, Setting};

/// Inject the faults that disks, kernels and people cause, and check that quipu loses nothing
#[derive(Parser)]
#[command(name = "quipu-torture", version)]
struct Cli {
    /// The scenarios to run [default: all]
    scenarios: Vec<String>,
    /// The quipu to test [default: the one next to this program]
    #[arg(long, value_name = "PATH")]
    quipu: Option<PathBuf>,
    /// The folder for homes and ledgers [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// The seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Multiply the amount of work by this number
    #[arg(long, default_value_t = 1, conflicts_with = "small")]
    times: u64,
    /// Do as little as the tests do
    #[arg(long)]
    small: bool,
    /// Repeat all scenarios, each round with the next seed, for this time: 90s, 30m, 8h
    #[arg(long = "for", value_name = "TIME", value_parser = duration, conflicts_with_all = ["times", "small"])]
    time: Option<Duration>,
    /// List the scenarios
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
        effort: match cli.time {
            // Small rounds, so that every kind of fault comes up soon and often.
            Some(_) => Effort::Small,
            None if cli.small => Effort::Small,
            None => Effort::Full(cli.times),
        },
    };
    let scenarios = chosen(&cli.scenarios)?;
    println!("{:<11} {:<12} {:>6} {:>7}  result", "scenario", "faults", "runs", "seconds");
    match cli.time {
        Some(time) => soak(setting, &scenarios, time),
        // All scenarios run, even if the first one fails.
        None => {
            let mut held = true;
            for scenario in &scenarios {
                held &= Line::of(scenario, &setting).print();
            }
            Ok(held)
        }
    }
}

/// Runs the scenarios in turn for `time`, then prints the sum of each. A broken promise is printed
/// at once, with the seed that repeats it.
fn soak(mut setting: Setting, scenarios: &[&'static Scenario], time: Duration) -> Result<bool> {
    let began = Instant::now();
    let mut held = true;
    let mut sums: Vec<Line> = Vec::new();
    while began.elapsed() < time {
        for (number, scenario) in scenarios.iter().enumerate() {
            if began.elapsed() >= time {
                break;
            }
            let line = Line::of(scenario, &setting);
            if !line.held {
                held = false;
                println!("with --seed {} --small:", setting.seed);
                line.print();
            }
            match sums.get_mut(number) {
                Some(sum) => sum.add(line),
                None => sums.push(line),
            }
        }
        setting.seed += 1;
    }
    for sum in &sums {
        sum.print();
    }
    Ok(held)
}

/// A row of the result table.
struct Line {
    scenario: &'static Scenario,
    runs: u64,
    rounds: u64,
    took: Duration,
    held: bool,
    /// The summary of the last round.
    result: String,
}

impl Line {
    /// Runs a scenario.
    fn of(scenario: &'static Scenario, setting: &Setting) -> Line {
        let began = Instant::now();
        let (runs, held, result) = match (scenario.run)(setting) {
            Ok(Outcome::Held { runs, what }) => (runs, true, what),
            Ok(Outcome::Skipped(why)) => (0, true, format!("skipped: {why}")),
            Err(error) => (0, false, format!("BROKEN: {error:#}")),
        };
        Line { scenario, runs, rounds: 1, took: began.elapsed(), held, result }
    }

    /// Adds a later round of the same scenario.
    fn add(&mut self, round: Line) {
        self.runs += round.runs;
        self.rounds += 1;
        self.took += round.took;
        if self.held {
            (self.held, self.result) = (round.held, round.result);
        }
    }

    fn print(&self) -> bool {
        let Line { scenario, runs, rounds, took, .. } = self;
        let rounds =
            if *rounds > 1 { format!("{rounds} rounds; the last: ") } else { String::new() };
        println!(
            "{:<11} {:<12} {runs:>6} {:>7}  {rounds}{}",
            scenario.name,
            scenario.faults,
            took.as_secs(),
            self.result
        );
        self.held
    }
}

/// Reads a time such as `90s`, `30m` or `8h`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "a time is a number followed by s, m or h, for example 30m".to_owned();
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    number.checked_mul(unit).map(Duration::from_secs).ok_or_else(wrong)
}

/// Returns the full path of the binary, which is run in another folder.
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
            None => bail!("unknown scenario `{name}`\nhint: --list lists all scenarios"),
        }
    }
    Ok(chosen)
}
