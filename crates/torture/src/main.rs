//! Runs the scenarios one after another and prints a table. Exits with 1 if a promise was broken.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

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
    /// Repeat all of it, each round with the next seed, until this time is over: 90s, 30m, 8h
    #[arg(long = "for", value_name = "TIME", value_parser = duration, conflicts_with_all = ["times", "small"])]
    time: Option<Duration>,
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
        effort: match cli.time {
            // Small rounds, so that each kind of fault comes up soon and often.
            Some(_) => Effort::Small,
            None if cli.small => Effort::Small,
            None => Effort::Full(cli.times),
        },
    };
    let scenarios = chosen(&cli.scenarios)?;
    println!("{:<11} {:<12} {:>6} {:>7}  result", "scenario", "faults", "runs", "seconds");
    match cli.time {
        Some(time) => soak(setting, &scenarios, time),
        // All of them are run, whatever comes of the first.
        None => {
            let mut held = true;
            for scenario in &scenarios {
                held &= Line::of(scenario, &setting).print();
            }
            Ok(held)
        }
    }
}

/// Runs the scenarios in turns until `time` is over, then prints what each of them did in all. A
/// broken promise is printed at once, with the seed that repeats it.
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

/// One row of the table.
struct Line {
    scenario: &'static Scenario,
    runs: u64,
    rounds: u64,
    took: Duration,
    held: bool,
    /// What happened in the last round.
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
    let wrong = || "a time is a number with s, m or h behind it, such as 30m".to_owned();
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    number.checked_mul(unit).map(Duration::from_secs).ok_or_else(wrong)
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
