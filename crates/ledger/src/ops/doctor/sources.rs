//! Checks that every source can be read.
//!
//! Uses the list of files, their permissions and what the last sync recorded. Never opens a source.

use std::collections::BTreeMap;

use quipu_transcript::format::FORMATS;

use super::finding::{Findings, Tally};
use super::{Check, Examined};
use crate::Result;
use crate::base::paths::absolute;
use crate::collect::known::{self, KnownSource};
use crate::collect::rows::databases;
use crate::collect::{Reason, RootState, rows};
use crate::ops::damaged_indexes;
use crate::truth::forgotten::{FORGOTTEN, Forgotten};
use crate::wire::{Severity, UNREADABLE};

pub(super) const CHECK: Check =
    Check { name: "sources", fine: "all source files can be read", run, needs_ledger: false };

fn run(examined: &mut Examined<'_>, findings: &mut Findings) -> Result<()> {
    let mut unreadable: BTreeMap<&str, Tally> = BTreeMap::new();
    let (mut outside_root, mut broken_links, mut not_regular) =
        (Tally::default(), Tally::default(), Tally::default());
    for skipped in &examined.discovery.skipped {
        let Some(root) = examined.resolved.get(skipped.root) else { continue };
        let name = || absolute(&root.path, &skipped.path).display().to_string();
        match &skipped.reason {
            Reason::Unreadable(why) => unreadable.entry(why).or_default().add(name),
            Reason::LeavesRoot => outside_root.add(name),
            Reason::LeadsNowhere => broken_links.add(name),
            Reason::NotAFile => not_regular.add(name),
            // Nothing to repair; `status` lists them.
            Reason::LeftOut(_)
            | Reason::Denied
            | Reason::OtherRoot
            | Reason::SameFile
            | Reason::Damaged(_)
            | Reason::Odd(_)
            | Reason::NotATranscript
            | Reason::Forgotten => {}
        }
    }
    for (why, tally) in unreadable {
        let what = format!("files or folders that cannot be read ({why})");
        let advice = "make them readable, then run `quipu sync`; until then nothing new is collected from them";
        findings.tally(Severity::Warning, tally, &what, advice);
    }
    let what = "symbolic links that lead out of their root and are not followed";
    let advice = "if transcripts are behind them, add the folder that they lead to under [roots] in \
                  the configuration, next to the root itself. It must be laid out like a root; for \
                  Claude Code it may also contain project folders (`-home-ada-dev`). Other folders \
                  must be inside the root, for example as a bind mount";
    findings.tally(Severity::Warning, outside_root, what, advice);
    let what = "broken symbolic links";
    let advice = "if transcripts should be there, for example on a disk that is not mounted, restore \
                  the target; otherwise there is nothing to do";
    findings.tally(Severity::Warning, broken_links, what, advice);
    let what = "pipes, sockets or devices with the name of a transcript";
    findings.tally(Severity::Note, not_regular, what, "nothing to do; `quipu status` lists them");
    files_without_records(examined, findings);
    unreadable_databases(examined, findings)?;
    damaged_archives(examined, findings)?;
    unreadable_indexes(examined, findings)?;
    missing_roots(examined, findings);
    Ok(())
}

/// Reports databases that cannot be read, or only in part.
fn unreadable_databases(examined: &Examined<'_>, findings: &mut Findings) -> Result<()> {
    let Some(ledger) = &examined.ledger else { return Ok(()) };
    let (mut unreadable, mut partly_unreadable) = (Tally::default(), Tally::default());
    for known in known::databases(ledger.conn())?.iter().filter(|known| !known.is_gone) {
        if let Some(why) = &known.refused {
            unreadable.add(|| format!("{}: {why}", String::from_utf8_lossy(&known.path)));
        }
        for (reason, group) in rows::Unread::load(ledger.conn(), known.source)?.0 {
            // Transcripts that a setting leaves out are not reported.
            let Some(why) = reason.strip_prefix(UNREADABLE) else { continue };
            for path in &group.paths {
                partly_unreadable.add(|| format!("{path}: {why}"));
            }
            partly_unreadable.count += group.count.saturating_sub(group.paths.len() as u64);
        }
    }
    let what = "agents' databases that cannot be read";
    let advice = "everything collected from them is kept. If the agent cannot open its database \
                  either, repair it there; `quipu sync` tries again after it changes";
    findings.tally(Severity::Warning, unreadable, what, advice);
    let what = "transcripts that cannot be read completely from their database";
    let advice = "everything collected from them is kept. If the agent cannot show them either, repair \
                  its database with its own tools; `quipu sync` tries again after it changes";
    findings.tally(Severity::Warning, partly_unreadable, what, advice);
    let mut newer = Tally::default();
    for format in FORMATS {
        for database in databases::newer(ledger.conn(), format.name())? {
            let path = database.paths.first().map_or("", String::as_str);
            newer.add(|| format!("{path}: {}", database.reason));
        }
    }
    let what = "databases from a newer release than this quipu supports";
    let advice = "use a newer quipu; until then compare `quipu sessions` with the agent's own list";
    findings.tally(Severity::Warning, newer, what, advice);
    Ok(())
}

/// Reports compressed files that cannot be decompressed to their end.
fn damaged_archives(examined: &Examined<'_>, findings: &mut Findings) -> Result<()> {
    let Some(ledger) = &examined.ledger else { return Ok(()) };
    let mut statement = ledger.conn().prepare(
        "SELECT s.path, d.why, d.is_kept
           FROM damaged d JOIN sources s ON s.generation = d.generation
          WHERE s.refused IS NULL ORDER BY s.path",
    )?;
    let (mut kept, mut too_large) = (Tally::default(), Tally::default());
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let path = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
        let (why, is_kept): (String, bool) = (row.get(1)?, row.get(2)?);
        let tally = if is_kept { &mut kept } else { &mut too_large };
        tally.add(|| format!("{}: {why}", String::from_utf8_lossy(path)));
    }
    let what = "compressed files that cannot be decompressed completely";
    let advice = "nothing to do: the files are stored unchanged, and the lines before the damage are \
                  collected. If you have an intact copy, put it in the place of the file and run \
                  `quipu sync`; `quipu restore` restores the damaged file";
    findings.tally(Severity::Note, kept, what, advice);
    let what = "compressed files above 256 MiB that cannot be decompressed completely";
    let advice = "only the lines before the damage are collected: keep the files, or replace them with \
                  intact copies and run `quipu sync`";
    findings.tally(Severity::Warning, too_large, what, advice);
    Ok(())
}

/// Reports indexes that could not be read at the last sync.
fn unreadable_indexes(examined: &Examined<'_>, findings: &mut Findings) -> Result<()> {
    let Some(ledger) = &examined.ledger else { return Ok(()) };
    let forgotten = Forgotten::load(ledger.conn())?;
    let mut tally = Tally::default();
    for (known, why) in damaged_indexes::damaged(ledger.conn(), &examined.known, &forgotten)? {
        tally.add(|| format!("{}: {why}", String::from_utf8_lossy(&known.path)));
    }
    let what = "indexes that cannot be read";
    let advice = "transcripts are collected without them, and their last readable version is kept. If \
                  the agent cannot read them either, let it write them again or restore a copy; then \
                  run `quipu sync`";
    findings.tally(Severity::Warning, tally, what, advice);
    Ok(())
}

/// Reports collected files without a single record.
fn files_without_records(examined: &Examined<'_>, findings: &mut Findings) {
    let is_refused = |known: &&KnownSource| {
        !known.is_gone && known.refused.as_deref().is_some_and(|why| why != FORGOTTEN)
    };
    let refused = examined.known.iter().filter(is_refused);
    let mut tally = Tally::default();
    for known in refused {
        tally.add(|| String::from_utf8_lossy(&known.path).into_owned());
    }
    let what = "files that are named like a transcript but have no record";
    let advice = "nothing to do; such a file is collected when it gets a record";
    findings.tally(Severity::Note, tally, what, advice);
}

/// Reports that no root exists, or that a root from which something was collected has disappeared.
fn missing_roots(examined: &Examined<'_>, findings: &mut Findings) {
    let mut absent = Tally::default();
    let mut has_root = false;
    for (root, state) in examined.roots.iter().zip(&examined.discovery.roots) {
        match state {
            RootState::Walked | RootState::Twin | RootState::Unreadable => has_root = true,
            RootState::Absent => absent.add(|| root.path.display().to_string()),
        }
    }
    let advice = "if transcripts are elsewhere, add their folder under [roots] in the configuration; \
                  `quipu formats` lists where quipu looks";
    if !has_root {
        findings.tally(
            Severity::Warning,
            absent,
            "folders of agents, none of which exists",
            advice,
        );
        return;
    }
    // A missing root is reported if something was collected from it.
    let mut lost = Tally::default();
    for (root, state) in examined.resolved.iter().zip(&examined.discovery.roots) {
        let bytes = crate::base::paths::path_bytes(&root.path);
        if *state == RootState::Absent
            && examined.known.iter().any(|known| known.root == bytes && !known.is_gone)
        {
            lost.add(|| root.path.display().to_string());
        }
    }
    let what = "collected folders that no longer exist";
    let advice = format!("what was collected from them is kept; {advice}");
    findings.tally(Severity::Warning, lost, what, &advice);
}
