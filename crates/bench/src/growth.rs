//! Measures how much a ledger grows when a source is rewritten repeatedly.
//!
//! One function measures a transcript, another one an index. Each writes the file, changes a little
//! of it before each sync, renames it at the end, and returns the growth of the ledger in bytes.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::generate::{self, Prng};
use crate::measure::{Workplace, median, milliseconds};
use crate::report::{Report, Target, Unit, note};

/// The size in bytes of the rewritten transcript.
const TRANSCRIPT_BYTES: usize = 5_000_000;

/// The size in bytes of the rewritten index.
const INDEX_BYTES: usize = 5_000_000;

/// The size in bytes of an index entry, as in real indexes. Nearly all of it is a report on the
/// prompt.
const INDEX_ENTRY_BYTES: usize = 58_000;

/// Rewrites a transcript `n_rewrites` times with small changes, syncs after each rewrite, and
/// renames it at the end. Then does the same with an index.
pub(crate) fn run(n_rewrites: usize, seed: u64, place: &Workplace) -> Result<Report> {
    let mut report = Report::new("growth");
    let transcript = transcript(n_rewrites, seed, place, &mut report)?;
    let index = index(n_rewrites, seed, place, &mut report)?;
    report.row("growth", transcript + index, Unit::Megabytes, Target::AtMost(5e6));
    Ok(report)
}

fn transcript(n_rewrites: usize, seed: u64, place: &Workplace, report: &mut Report) -> Result<f64> {
    let (session_id, mut lines) = generate::one_claude_session(seed, TRANSCRIPT_BYTES);
    let originals = lines.clone();
    let folder = place.home().join(".claude/projects/-home-dev-work-growth");
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{session_id}.jsonl"));
    fs::write(&path, lines.concat())?;
    place.remove_ledger()?;
    place.sync()?;
    // The second sync does the work that an import leaves for the next sync, so that it does not
    // count as growth.
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
        let at = text_start(&originals[i]).context("a rewritten line has no text")?;
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
    report.fact("sync after a rewrite, median ms", median(syncs));
    Ok(ledger_at_last as f64 - ledger_at_first as f64)
}

fn index(n_rewrites: usize, seed: u64, place: &Workplace, report: &mut Report) -> Result<f64> {
    let mut prng = Prng::stream(seed, 8);
    let mut entries: Vec<(String, String, usize)> = (0..INDEX_BYTES / INDEX_ENTRY_BYTES)
        .map(|n| (prng.uuid(), prompt_report(&mut prng, n), 0))
        .collect();
    let folder = place.home().join(".openclaw/agents/main/sessions");
    fs::create_dir_all(&folder)?;
    let path = folder.join("sessions.json");
    fs::write(&path, render(&entries))?;
    place.sync()?;
    place.sync()?;
    let ledger_at_first = place.ledger_bytes()?;
    let mut syncs = Vec::new();
    let mut records_added = 0;
    for rewrite in 0..n_rewrites {
        if rewrite % 100 == 0 {
            note(&format!("index rewrite {rewrite} of {n_rewrites}"));
        }
        let touched = prng.below(entries.len());
        entries[touched].2 += 1;
        replace(&path, &render(&entries), true)?;
        let synced = place.sync()?;
        records_added += synced.records_added;
        syncs.push(milliseconds(synced.run.wall));
    }
    let renamed_folder = place.home().join(".openclaw/agents/renamed");
    fs::rename(place.home().join(".openclaw/agents/main"), &renamed_folder)?;
    let renamed = place.sync()?;
    place.sync()?;
    let ledger_at_last = place.ledger_bytes()?;
    report.fact_bytes("index", fs::metadata(renamed_folder.join("sessions/sessions.json"))?.len());
    report.fact("its keys", entries.len());
    report.fact("records added by its rewrites", records_added);
    report.fact_bytes("bytes read by its rename", renamed.bytes_read);
    report.fact_bytes("ledger before its rewrites", ledger_at_first);
    report.fact_bytes("ledger after its rename", ledger_at_last);
    report.fact("sync after its rewrite, median ms", median(syncs));
    Ok(ledger_at_last as f64 - ledger_at_first as f64)
}

/// Returns a report on a prompt: a long text that repeats the same words.
fn prompt_report(prng: &mut Prng, n: usize) -> String {
    let mut text = format!("workspace {n} ");
    while text.len() < INDEX_ENTRY_BYTES - 500 {
        text.push_str(&format!("tool {} takes {} characters; ", prng.below(400), prng.below(9000)));
    }
    text
}

/// Returns an index as OpenClaw writes it. An entry is a session id, a report and the number of
/// messages, from which the time and the tokens are derived.
fn render(entries: &[(String, String, usize)]) -> String {
    let entries: Vec<String> = entries
        .iter()
        .enumerate()
        .map(|(n, (id, text, count))| {
            let updated = 1_770_193_116_233 + 1_000 * *count as u64;
            let tokens = 1_000 + 37 * count;
            format!(
                "  \"agent:main:telegram:group:-100{n}\": {{\n    \"sessionId\": \"{id}\",\n    \
                 \"updatedAt\": {updated},\n    \"inputTokens\": {tokens},\n    \
                 \"systemPromptReport\": {{\"text\": \"{text}\"}}\n  }}"
            )
        })
        .collect();
    format!("{{\n{}\n}}\n", entries.join(",\n"))
}

/// Returns the offset at which the first text in a line begins, if the line has one.
fn text_start(line: &str) -> Option<usize> {
    [r#""content":""#, r#""text":""#]
        .iter()
        .filter_map(|field| line.find(field).map(|at| at + field.len()))
        .min()
}

/// Writes new contents into a file, in place or by renaming a new file over it.
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
