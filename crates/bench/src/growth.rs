//! How much a ledger grows when a source is rewritten again and again.
//!
//! Each subject (today a transcript; an index belongs here too) is one function
//! that gives a file its first state, and then changes a little of it each time.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::generate::{self, Prng};
use crate::measure::{Workplace, median, milliseconds};
use crate::report::{Report, Target, Unit, note};

/// Size of the transcript that is rewritten.
const TRANSCRIPT_BYTES: usize = 5_000_000;

/// Rewrites a transcript `n_rewrites` times, one line each, with a sync after each, and renames it.
pub(crate) fn run(n_rewrites: usize, seed: u64, place: &Workplace) -> Result<Report> {
    let mut report = Report::new("growth");
    transcript(n_rewrites, seed, place, &mut report)?;
    Ok(report)
}

fn transcript(n_rewrites: usize, seed: u64, place: &Workplace, report: &mut Report) -> Result<()> {
    let (session_id, mut lines) = generate::one_claude_session(seed, TRANSCRIPT_BYTES);
    let originals = lines.clone();
    let folder = place.home().join(".claude/projects/-home-dev-work-growth");
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{session_id}.jsonl"));
    fs::write(&path, lines.concat())?;
    place.remove_ledger()?;
    place.sync()?;
    // What an import leaves for the next sync is done before the growth is counted.
    place.sync()?;
    let ledger_at_first = place.ledger_bytes()?;

    let changeable: Vec<usize> =
        (0..lines.len()).filter(|i| text_start(&lines[*i]).is_some()).collect();
    let mut prng = Prng::stream(seed, 7);
    let mut syncs = Vec::new();
    let (mut records_added, mut bytes_changed) = (0, 0);
    for rewrite in 0..n_rewrites {
        if rewrite % 100 == 0 {
            note(&format!("rewrite {rewrite} of {n_rewrites}"));
        }
        let i = changeable[prng.below(changeable.len())];
        let at = text_start(&originals[i]).context("a line lost its text")?;
        lines[i] = format!("{}rewrite {rewrite}: {}", &originals[i][..at], &originals[i][at..]);
        bytes_changed += lines[i].len() as u64;
        replace(&path, &lines.concat(), rewrite % 2 == 1)?;
        let synced = place.sync()?;
        records_added += synced.records_added;
        syncs.push(milliseconds(synced.run.wall));
    }
    let ledger_after_rewrites = place.ledger_bytes()?;
    fs::rename(&path, folder.join(format!("{}.jsonl", prng.uuid())))?;
    let renamed = place.sync()?;
    place.sync()?;
    let ledger_at_last = place.ledger_bytes()?;

    report.fact("rewrites", n_rewrites);
    report.fact_bytes("transcript", lines.iter().map(|line| line.len() as u64).sum());
    report.fact("its lines", lines.len());
    report.fact_bytes("changed lines, all together", bytes_changed);
    report.fact("records added by the rewrites", records_added);
    report.fact("records added by the rename", renamed.records_added);
    report.fact_bytes("bytes read by the rename", renamed.bytes_read);
    report.fact_bytes("ledger after the import", ledger_at_first);
    report.fact_bytes("ledger after the rewrites", ledger_after_rewrites);
    report.fact_bytes("ledger after the rename", ledger_at_last);
    report.fact("sync after a rewrite, middle ms", median(syncs));
    let growth = ledger_at_last as f64 - ledger_at_first as f64;
    report.row("growth", growth, Unit::Megabytes, Target::AtMost(5e6));
    Ok(())
}

/// Returns where the first text of a line begins, if the line has one.
fn text_start(line: &str) -> Option<usize> {
    [r#""content":""#, r#""text":""#]
        .iter()
        .filter_map(|field| line.find(field).map(|at| at + field.len()))
        .min()
}

/// Gives a file new contents, in place or by renaming a new file over it.
fn replace(path: &Path, contents: &str, by_rename: bool) -> Result<()> {
    if by_rename {
        let beside = path.with_extension("tmp");
        fs::write(&beside, contents)?;
        fs::rename(&beside, path)?;
    } else {
        fs::write(path, contents)?;
    }
    Ok(())
}
