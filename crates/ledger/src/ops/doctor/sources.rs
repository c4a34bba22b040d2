//! Checks that every source that should be collected can be read.
//!
//! Lists files and permissions. Never opens a source.

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
    let (mut leaves, mut nowhere, mut no_file) =
        (Tally::default(), Tally::default(), Tally::default());
    for skipped in &examined.discovery.skipped {
        let Some(root) = examined.resolved.get(skipped.root) else { continue };
        let name = || absolute(&root.path, &skipped.path).display().to_string();
        match &skipped.reason {
            Reason::Unreadable(why) => unreadable.entry(why).or_default().add(name),
            Reason::LeavesRoot => leaves.add(name),
            Reason::LeadsNowhere => nowhere.add(name),
            Reason::NotAFile => no_file.add(name),
            // Left out on purpose, or with a good reason; `status` lists them.
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
        let what = format!("files or folders that cannot be read: {why}");
        let advice = "make them readable, then run `quipu sync`; until then nothing new is collected from them";
        findings.tally(Severity::Warning, tally, &what, advice);
    }
    let what = "symbolic links out of their root; not followed";
    let advice = "if there are transcripts behind them, add the folder that they lead to under [roots] \
                  in the configuration, next to the root itself; it must be laid out like a root, or, \
                  for Claude Code, contain its project folders (`-home-ada-dev`). Anything else has to \
                  be inside the root, for example as a bind mount";
    findings.tally(Severity::Warning, leaves, what, advice);
    let what = "broken symbolic links";
    let advice = "if they should lead to transcripts, for example on a disk that is not mounted, restore \
                  their target; otherwise nothing to do";
    findings.tally(Severity::Warning, nowhere, what, advice);
    let what = "transcript names that are not regular files";
    findings.tally(Severity::Note, no_file, what, "nothing to do; `quipu status` lists them");
    refused(examined, findings);
    databases(examined, findings)?;
    damaged(examined, findings)?;
    indexes(examined, findings)?;
    roots(examined, findings);
    Ok(())
}

/// Finds databases that cannot be read, or only in part.
fn databases(examined: &Examined<'_>, findings: &mut Findings) -> Result<()> {
    let Some(ledger) = &examined.ledger else { return Ok(()) };
    let (mut whole, mut parts) = (Tally::default(), Tally::default());
    for known in known::databases(ledger.conn())?.iter().filter(|known| !known.is_gone) {
        if let Some(why) = &known.refused {
            whole.add(|| format!("{}: {why}", String::from_utf8_lossy(&known.path)));
        }
        for (reason, named) in rows::Unread::load(ledger.conn(), known.source)?.0 {
            // A setting that leaves something out is not a fault.
            let Some(why) = reason.strip_prefix(UNREADABLE) else { continue };
            for path in &named.paths {
                parts.add(|| format!("{path}: {why}"));
            }
            parts.count += named.count.saturating_sub(named.paths.len() as u64);
        }
    }
    let what = "databases of an agent that cannot be read";
    let advice = "everything collected from them is kept; if the agent cannot open its database either, \
                  repair it there; `quipu sync` tries again after it changes";
    findings.tally(Severity::Warning, whole, what, advice);
    let what = "transcripts in databases that cannot be read completely; all others can";
    let advice = "everything collected from them is kept; if the agent cannot show them either, repair \
                  its database with its own tools; `quipu sync` tries again after it changes";
    findings.tally(Severity::Warning, parts, what, advice);
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

/// Finds compressed files that cannot be decompressed to their end.
fn damaged(examined: &Examined<'_>, findings: &mut Findings) -> Result<()> {
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
    let what = "compressed files that cannot be decompressed completely; the lines before the damage \
                are collected, and the files are stored unchanged";
    let advice = "nothing to do; if there is an intact copy, replace the file with it, and the next \
                  `quipu sync` reads it (`quipu restore` restores the damaged one)";
    findings.tally(Severity::Note, kept, what, advice);
    let what = "compressed files that cannot be decompressed completely and are larger than 256 MiB; \
                only the lines before the damage are collected";
    let advice = "keep the files, or replace them with intact copies and run `quipu sync`";
    findings.tally(Severity::Warning, too_large, what, advice);
    Ok(())
}

/// Finds indexes that could not be read at the last sync.
fn indexes(examined: &Examined<'_>, findings: &mut Findings) -> Result<()> {
    let Some(ledger) = &examined.ledger else { return Ok(()) };
    let forgotten = Forgotten::load(ledger.conn())?;
    let mut tally = Tally::default();
    for (known, why) in damaged_indexes::damaged(ledger.conn(), &examined.known, &forgotten)? {
        tally.add(|| format!("{}: {why}", String::from_utf8_lossy(&known.path)));
    }
    let what = "indexes that cannot be read; transcripts are collected without them";
    let advice = "their last readable version is kept; if the agent cannot read them either, let it \
                  rewrite them or restore a copy, and run `quipu sync`";
    findings.tally(Severity::Warning, tally, what, advice);
    Ok(())
}

/// Finds known files in which no line is a record.
fn refused(examined: &Examined<'_>, findings: &mut Findings) {
    let is_refused = |known: &&KnownSource| {
        !known.is_gone && known.refused.as_deref().is_some_and(|why| why != FORGOTTEN)
    };
    let refused = examined.known.iter().filter(is_refused);
    let mut tally = Tally::default();
    for known in refused {
        tally.add(|| String::from_utf8_lossy(&known.path).into_owned());
    }
    let what = "files with a transcript's name but without a record; not collected";
    let advice = "nothing to do; a file is collected when it gets a record";
    findings.tally(Severity::Note, tally, what, advice);
}

fn roots(examined: &Examined<'_>, findings: &mut Findings) {
    let mut absent = Tally::default();
    let mut is_anything = false;
    for (root, state) in examined.roots.iter().zip(&examined.discovery.roots) {
        match state {
            RootState::Walked | RootState::Twin | RootState::Unreadable => is_anything = true,
            RootState::Absent => absent.add(|| root.path.display().to_string()),
        }
    }
    let advice = "if transcripts are elsewhere, add their folder under [roots] in the configuration; \
                  `quipu formats` lists where quipu looks";
    if !is_anything {
        findings.tally(Severity::Warning, absent, "no folder of any agent exists", advice);
        return;
    }
    // A root that was collected from before and is gone gets a warning.
    let mut lost = Tally::default();
    for (root, state) in examined.resolved.iter().zip(&examined.discovery.roots) {
        let bytes = crate::base::paths::path_bytes(&root.path);
        if *state == RootState::Absent
            && examined.known.iter().any(|known| known.root == bytes && !known.is_gone)
        {
            lost.add(|| root.path.display().to_string());
        }
    }
    let what = "folders that were collected from do not exist any more; their contents are kept";
    findings.tally(Severity::Warning, lost, what, advice);
}
