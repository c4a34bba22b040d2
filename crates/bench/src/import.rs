//! Cold import of a home, then a sync with nothing new, then one appended line.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::corpus;
use crate::generate::{self, Prng};
use crate::measure::{Workplace, best, find_program, median, milliseconds};
use crate::nochange;
use crate::report::{Report, Target, Unit, note};

/// The source of an import, and the number of runs.
pub(crate) struct Plan<'a> {
    pub(crate) source: Source<'a>,
    pub(crate) runs: usize,
    pub(crate) seed: u64,
    pub(crate) agentsview: Comparison,
}

/// The source of the sessions.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// A generated home of this many bytes.
    Generated(u64),
    /// The sessions of a real home; they are copied, and the home is only read.
    Home(&'a Path),
}

/// The choice of running another program on the same files.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Comparison {
    /// Runs it if it is on the search path.
    Auto,
    /// Runs it, and fails if it is missing.
    Always,
    /// Skips it, which saves most of the time.
    Never,
}

/// The targets that differ between generated and real transcripts.
struct Targets {
    over_parse: f64,
    ledger: f64,
    over_agentsview: f64,
}

/// The number of timed appends. The median counts, because fsync times vary.
const APPENDS: usize = 9;

/// Imports a home and measures all promises about imports.
pub(crate) fn run(plan: &Plan<'_>, place: &Workplace) -> Result<Report> {
    let agentsview = agentsview(plan.agentsview)?;
    match plan.source {
        Source::Generated(size) => {
            note("generating the home");
            place.generate(size, plan.seed)?;
        }
        Source::Home(home) => {
            note("copying the sessions of the home");
            let n_files = corpus::copy_sources(home, &place.home())?;
            ensure!(n_files > 0, "no sessions below {}", home.display());
        }
    }
    // The first pass also warms the page cache for all programs.
    let seen = place.parse()?;
    let targets = plan.source.targets(seen.bytes);

    let (mut parses, mut imports, mut agentsview_times) = (Vec::new(), Vec::new(), Vec::new());
    let mut peak_memory = 0;
    let mut last = None;
    for run in 1..=plan.runs {
        note(&format!("cold import {run} of {}", plan.runs));
        parses.push(milliseconds(place.parse()?.wall));
        place.remove_ledger()?;
        let synced = place.sync()?;
        imports.push(milliseconds(synced.run.wall));
        peak_memory = peak_memory.max(synced.run.peak_memory);
        last = Some(synced);
        if let Some(program) = &agentsview {
            note("importing with agentsview");
            agentsview_times.push(milliseconds(place.agentsview(program)?.wall));
        }
    }
    let last = last.context("--runs must be at least 1")?;
    let (parse, import) = (best(&parses), best(&imports));
    let ledger_bytes = place.ledger_bytes()?;

    note("sync with nothing new");
    let unchanged = nochange::measure(place)?;
    note("one appended line");
    let append = append_one_line(place, plan.seed)?;

    let mut report = Report::new("import");
    report.fact("files", seen.n_files);
    report.fact("lines", seen.n_lines);
    report.fact("lines that are not JSON", seen.n_bad_lines);
    report.fact_bytes("source", seen.bytes);
    report.fact_bytes("longest line", seen.longest_line);
    report.fact("sources that quipu follows", last.sources);
    report.fact("records added", last.records_added);
    report.fact("problems", last.problems);
    // Should equal the source; if not, the two sides did not do the same work.
    report.fact_bytes("bytes that quipu read", last.bytes_read);
    report.fact_bytes("ledger", ledger_bytes);
    report.fact("parsing pass, best ms", parse);
    report.fact("cold import, best ms", import);
    report.fact("cold import, cpu ms of the last", milliseconds(last.run.cpu));
    unchanged.add_facts(&mut report);

    report.row(
        "cold import",
        seen.bytes as f64 / import / 1e3,
        Unit::MegabytesPerSecond,
        Target::None,
    );
    report.row(
        "cold import / parsing pass",
        import / parse,
        Unit::Times,
        Target::AtMost(targets.over_parse),
    );
    if agentsview_times.is_empty() {
        report.fact("agentsview", "not run");
    } else {
        report.fact("agentsview, best ms", best(&agentsview_times));
        report.fact_bytes(
            "agentsview, its store",
            corpus::walk(&place.at("agentsview"))?.iter().map(|file| file.size).sum(),
        );
        report.row(
            "agentsview / cold import",
            best(&agentsview_times) / import,
            Unit::Times,
            Target::AtLeast(targets.over_agentsview),
        );
    }
    let memory_target = 150e6 + 3.0 * seen.longest_line as f64;
    report.row("peak memory", peak_memory as f64, Unit::Megabytes, Target::AtMost(memory_target));
    report.row(
        "ledger / source",
        ledger_bytes as f64 / seen.bytes as f64,
        Unit::Times,
        Target::AtMost(targets.ledger),
    );
    unchanged.add_rows(&mut report, Target::None);
    match append {
        Some(over) => report.row(
            "one appended line, over no change",
            over,
            Unit::Milliseconds,
            Target::AtMost(10.0),
        ),
        None => report.fact("one appended line", "no Claude Code transcript to append to"),
    }
    Ok(report)
}

impl Source<'_> {
    fn targets(self, bytes: u64) -> Targets {
        match self {
            Self::Home(_) => Targets { over_parse: 4.0, ledger: 0.30, over_agentsview: 4.5 },
            Self::Generated(_) => Targets {
                over_parse: 6.0,
                ledger: 0.45,
                // Its time grows faster than its input, so the target is higher at 1 GB.
                over_agentsview: if bytes < 550_000_000 { 8.0 } else { 18.0 },
            },
        }
    }
}

fn agentsview(wanted: Comparison) -> Result<Option<PathBuf>> {
    match wanted {
        Comparison::Never => Ok(None),
        Comparison::Auto => Ok(find_program("agentsview")),
        Comparison::Always => find_program("agentsview").map(Some).context(
            "agentsview is not on the search path\nhint: `pip install agentsview==0.46.1`",
        ),
    }
}

/// Returns the milliseconds that a sync takes longer if it finds one new line.
///
/// Returns `None` for a home without a Claude Code transcript to append to.
fn append_one_line(place: &Workplace, seed: u64) -> Result<Option<f64>> {
    let Some(transcript) = usual_transcript(place)? else {
        return Ok(None);
    };
    let session_id = transcript.file_stem().unwrap_or_default().to_string_lossy();
    let mut prng = Prng::new(seed);
    let mut differences = Vec::new();
    for round in 0..APPENDS {
        let before = place.sync()?;
        let line = generate::appended_line(&session_id, &format!("appended{round}"), &mut prng);
        OpenOptions::new().append(true).open(&transcript)?.write_all(line.as_bytes())?;
        let after = place.sync()?;
        ensure!(
            after.records_added == 1,
            "one line was appended to {}, and quipu added {} records",
            transcript.display(),
            after.records_added
        );
        differences.push(milliseconds(after.run.wall) - milliseconds(before.run.wall));
    }
    Ok(Some(median(differences)))
}

/// Returns a main session of middle size whose last line is complete, always the same one.
fn usual_transcript(place: &Workplace) -> Result<Option<PathBuf>> {
    let projects = place.home().join(".claude/projects");
    let mut transcripts: Vec<_> = corpus::sources(&place.home())?
        .into_iter()
        .filter(|file| {
            let project = file.path.parent().and_then(Path::parent);
            file.is_lines() && project == Some(projects.as_path())
        })
        .collect();
    transcripts.sort_by(|a, b| (a.size, &a.path).cmp(&(b.size, &b.path)));
    let from_middle = transcripts.iter().skip(transcripts.len() / 2);
    for file in from_middle {
        if fs::read(&file.path)?.ends_with(b"\n") {
            return Ok(Some(file.path.clone()));
        }
    }
    Ok(None)
}
