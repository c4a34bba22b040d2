//! Measures compactions: the plan of a long session next to pi's own, what `--auto-compact` costs an
//! append while nothing is due, a summary without a model, and what other writers notice of a slow
//! summariser.
//!
//! Links the ledger, as runtimes do. All targets are ratios within one run.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use quipu_ledger::Ledger;
use quipu_ledger::store::{
    Compact, CompactionPlan, CompactionSettings, Digest, Summariser as _, plan_compaction_of,
};

use crate::measure::{Workplace, best, median, milliseconds};
use crate::report::{Report, Target, Unit, note};
use crate::store::append::p99;
use crate::store::context::{SESSION, transcript};
use crate::store::runtime::{Runtime, message};

/// The sizes of the measurements.
pub(crate) struct Plan {
    /// The number of entries of the session that is planned.
    pub(crate) entries: usize,
    /// The number of appends with `--auto-compact`.
    pub(crate) appends: usize,
    /// The number of entries of the session that is summarised; a thousand have about a megabyte.
    pub(crate) summarised: usize,
    /// The time that the slow summariser takes, in seconds.
    pub(crate) seconds: u64,
    /// The number of processes that append meanwhile.
    pub(crate) writers: usize,
    /// The folder of pi's package. It plans the same session.
    pub(crate) pi: Option<PathBuf>,
    /// The node binary that runs pi.
    pub(crate) node: PathBuf,
}

const ROUNDS: usize = 5;

/// The number of new ledgers in which appends are compared.
const APPEND_ROUNDS: usize = 9;

/// Opens a session and plans a compaction repeatedly; prints the best time.
const PI_SCRIPT: &str = r#"
const { SessionManager } = await import(process.argv[2] + "/core/session-manager.js");
const { prepareCompaction } = await import(process.argv[2] + "/core/compaction/compaction.js");
let best = Infinity, first = null;
for (let round = 0; round < 5; round++) {
  const started = performance.now();
  const branch = SessionManager.open(process.argv[3]).getBranch();
  const plan = prepareCompaction(branch, { enabled: true, reserveTokens: 16384, keepRecentTokens: 20000 });
  best = Math.min(best, performance.now() - started);
  first = plan.firstKeptEntryId;
}
console.log(JSON.stringify({ best, first }));
"#;

/// Runs all measurements of compactions.
pub(crate) fn run(plan: &Plan, place: &Workplace) -> Result<Report> {
    let mut report = Report::new("compact");
    plans(plan, place, &mut report)?;
    digests(plan.summarised, place, &mut report)?;
    auto_compact(plan.appends, place, &mut report)?;
    slow_summariser(plan, place, &mut report)?;
    Ok(report)
}

/// Measures the plan of a session that was never compacted.
fn plans(plan: &Plan, place: &Workplace, report: &mut Report) -> Result<()> {
    note("plans");
    report.fact("entries", plan.entries as u64);
    collect(place, plan.entries / 2)?;
    let (half, _) = time_of_plan(place)?;
    let file = collect(place, plan.entries)?;
    let (whole, planned) = time_of_plan(place)?;
    report.row("plan of the session", whole, Unit::Milliseconds, Target::None);
    report.row("plan / plan of half of it", whole / half, Unit::Times, Target::AtMost(2.5));
    let Some(pi) = &plan.pi else {
        report.fact("pi", "not run");
        return Ok(());
    };
    // pi may rewrite the file that it opens.
    let copy = place.at("pi.jsonl");
    fs::copy(&file, &copy)?;
    let theirs = time_of_pi(place, plan, pi, &copy, &planned)?;
    report.row("pi's plan", theirs, Unit::Milliseconds, Target::None);
    report.row("pi / quipu", theirs / whole, Unit::Times, Target::AtLeast(1.0));
    Ok(())
}

/// Collects a session of this length. Returns its file.
fn collect(place: &Workplace, entries: usize) -> Result<PathBuf> {
    place.remove_ledger()?;
    let folder = place.home().join(".openclaw/agents/main/sessions");
    fs::create_dir_all(&folder)?;
    let file = folder.join(format!("{SESSION}.jsonl"));
    fs::write(&file, transcript(entries, None)?)?;
    place.sync()?;
    Ok(file)
}

/// Opens the ledger and plans a compaction. Returns the best time in milliseconds.
fn time_of_plan(place: &Workplace) -> Result<(f64, CompactionPlan)> {
    let (mut times, mut planned) = (Vec::new(), None);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        planned = plan_of(place)?;
        times.push(milliseconds(started.elapsed()));
    }
    Ok((best(&times), planned.context("nothing to compact")?))
}

fn plan_of(place: &Workplace) -> Result<Option<CompactionPlan>> {
    let ledger = Ledger::open_read_only(&place.ledger())?;
    let session = quipu_ledger::query::find_session(&ledger, SESSION)?;
    let settings = CompactionSettings::default();
    Ok(plan_compaction_of(&ledger, session, &settings, &Compact::default())?)
}

/// Returns the best time of pi's plan, and fails if it cuts elsewhere.
fn time_of_pi(
    place: &Workplace,
    plan: &Plan,
    pi: &Path,
    file: &Path,
    planned: &CompactionPlan,
) -> Result<f64> {
    let module = fs::canonicalize(pi.join("dist"))?;
    let script = place.at("pi.mjs");
    fs::write(&script, PI_SCRIPT)?;
    let run =
        place.program(&plan.node, &[script.as_os_str(), module.as_os_str(), file.as_os_str()])?;
    let output: serde_json::Value = serde_json::from_slice(&run.stdout)?;
    let first = &planned.plan.first_kept;
    ensure!(output["first"] == **first, "pi keeps from {}, quipu from {first}", output["first"]);
    output["best"].as_f64().context("pi printed no time")
}

/// Measures the summary without a model next to the context that it summarises.
fn digests(entries: usize, place: &Workplace, report: &mut Report) -> Result<()> {
    note("digests");
    collect(place, entries)?;
    let planned = plan_of(place)?.context("nothing to compact")?;
    let requests = planned.plan.requests(None);
    let bytes: usize = planned.plan.history.iter().map(|message| message.json().len()).sum();
    report.row("summarised messages", bytes as f64, Unit::Megabytes, Target::None);
    let (mut summaries, mut contexts) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for request in &requests {
            Digest.summarise(request).map_err(|why| anyhow!(why))?;
        }
        summaries.push(milliseconds(started.elapsed()));
        let started = Instant::now();
        let ledger = Ledger::open_read_only(&place.ledger())?;
        let session = quipu_ledger::query::find_session(&ledger, SESSION)?;
        quipu_ledger::query::context_of(&ledger, session, None)?;
        contexts.push(milliseconds(started.elapsed()));
    }
    let (summary, context) = (best(&summaries), best(&contexts));
    report.row("context", context, Unit::Milliseconds, Target::None);
    report.row("digest", summary, Unit::Milliseconds, Target::None);
    report.row("digest / context", summary / context, Unit::Times, Target::AtMost(1.5));
    fs::remove_dir_all(place.home().join(".openclaw"))?;
    Ok(())
}

/// Measures appends with `--auto-compact` while nothing is due, next to appends without it.
///
/// Of two processes that write to one ledger, one projects more than the other and is slower, by
/// chance. So there are several rounds, each with a new ledger, and the median of their ratios counts.
fn auto_compact(appends: usize, place: &Workplace, report: &mut Report) -> Result<()> {
    note("appends with --auto-compact");
    report.fact("appends", appends as u64);
    let (mut all_with, mut all_without, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..APPEND_ROUNDS {
        let (with, without) = appends_of_both(appends.div_ceil(APPEND_ROUNDS), round, place)?;
        ratios.push(with / without);
        all_with.push(with);
        all_without.push(without);
    }
    let (with, without) = (median(all_with), median(all_without));
    report.row("append, p50", without, Unit::Milliseconds, Target::None);
    report.row("with --auto-compact, p50", with, Unit::Milliseconds, Target::None);
    report.row("with / without", median(ratios), Unit::Times, Target::AtMost(1.05));
    Ok(())
}

/// Returns the median milliseconds of appends with and without `--auto-compact`, in one new ledger.
fn appends_of_both(appends: usize, round: usize, place: &Workplace) -> Result<(f64, f64)> {
    place.remove_ledger()?;
    let mut both = Vec::new();
    for is_with in [round.is_multiple_of(2), !round.is_multiple_of(2)] {
        let id = Runtime::session(place)?;
        // With a window, each append asks whether a compaction is due.
        place.quipu(&["session", "meta", &id, "--patch", r#"{"contextTokens":1000000000}"#])?;
        let options: &[&str] = if is_with { &["--auto-compact"] } else { &[] };
        both.push((is_with, Runtime::of(place, &id, options)?, Vec::new()));
    }
    for number in 0..appends {
        let line = message(number);
        // An append directly after another one is faster, so they take turns.
        both.reverse();
        for (_, runtime, times) in &mut both {
            times.push(milliseconds(runtime.append(&line)?));
        }
    }
    let (mut with, mut without) = (f64::NAN, f64::NAN);
    for (is_with, runtime, times) in both {
        runtime.end()?;
        *(if is_with { &mut with } else { &mut without }) = median(times);
    }
    Ok((with, without))
}

/// Measures appends of other writers while a program makes a summary, next to the same without it.
fn slow_summariser(plan: &Plan, place: &Workplace, report: &mut Report) -> Result<()> {
    note("writers during a compaction");
    place.remove_ledger()?;
    let config = place.at("config").join("quipu");
    fs::create_dir_all(&config)?;
    let seconds = plan.seconds;
    let command = format!("cat > /dev/null; sleep {seconds}; echo summary");
    fs::write(
        config.join("config.toml"),
        format!(
            "[store.compaction]\nsummariser = 'command'\ncommand = ['sh', '-c', '{command}']\n"
        ),
    )?;
    let id = Runtime::session(place)?;
    let mut talk = Runtime::of(place, &id, &[])?;
    for number in 0..100 {
        talk.append(&message(number))?;
    }
    talk.end()?;
    let mut runtimes = Vec::new();
    for _ in 0..plan.writers {
        let id = Runtime::session(place)?;
        runtimes.push(Runtime::of(place, &id, &[])?);
    }
    let time = Duration::from_secs(seconds);
    let (runtimes, alone) = append_for(time, runtimes)?;
    let (during, compacted) = thread::scope(|scope| -> Result<_> {
        let compaction =
            scope.spawn(|| place.quipu(&["session", "compact", &id, "--keep", "100", "--json"]));
        let during = append_for(time, runtimes)?;
        let compacted = compaction.join().map_err(|_| anyhow!("the compaction panicked"))??;
        Ok((during, compacted))
    })?;
    let compacted: serde_json::Value = serde_json::from_slice(&compacted.stdout)?;
    ensure!(compacted["is_compacted"] == true, "nothing was compacted: {compacted}");
    let (runtimes, during) = during;
    runtimes.into_iter().try_for_each(Runtime::end)?;
    fs::remove_file(config.join("config.toml"))?;
    report.fact("writers", plan.writers as u64);
    report.fact("seconds of the summariser", seconds);
    report.fact("their appends", (alone.len() + during.len()) as u64);
    let (alone, during) = (p99(alone), p99(during));
    report.row("append alone, p99", alone, Unit::Milliseconds, Target::None);
    report.row("append during it, p99", during, Unit::Milliseconds, Target::None);
    report.row("during / alone, p99", during / alone, Unit::Times, Target::AtMost(1.5));
    Ok(())
}

/// Lets all runtimes append for some time. Returns the milliseconds of each append.
fn append_for(time: Duration, runtimes: Vec<Runtime>) -> Result<(Vec<Runtime>, Vec<f64>)> {
    let until = Instant::now() + time;
    let threads: Vec<_> = runtimes
        .into_iter()
        .map(|mut runtime| {
            thread::spawn(move || -> Result<(Runtime, Vec<f64>)> {
                let mut times = Vec::new();
                while Instant::now() < until {
                    times.push(milliseconds(runtime.append(&message(times.len()))?));
                }
                Ok((runtime, times))
            })
        })
        .collect();
    let (mut runtimes, mut times) = (Vec::new(), Vec::new());
    for thread in threads {
        let (runtime, took) = thread.join().map_err(|_| anyhow!("a writer panicked"))??;
        runtimes.push(runtime);
        times.extend(took);
    }
    Ok((runtimes, times))
}
