//! Finds transcripts that will be lost unless a person acts.
//!
//! Compares times and sizes. Never opens a source.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, SystemTime};

use quipu_transcript::format::Format;

use super::finding::{Findings, SYNC, Tally};
use super::{Check, Examined};
use crate::Result;
use crate::base::clock;
use crate::base::paths::path_bytes;
use crate::base::sidecar::beside;
use crate::collect::known::{self, KnownSource};
use crate::collect::{FoundFile, Retention};
use crate::ops::backup;
use crate::truth::forgotten::Forgotten;
use crate::wire::Severity;

pub(super) const CHECK: Check =
    Check { name: "risk", fine: "nothing is about to be lost", run, needs_ledger: false };

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// An uncollected transcript is a warning if it will be deleted within this number of days.
const DAYS_AHEAD: i64 = 7;

/// The time without a sync after which uncollected files are a warning.
const MAX_SYNC_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

fn run(examined: &mut Examined<'_>, findings: &mut Findings) -> Result<()> {
    let new = uncollected(examined, findings)?;
    last_sync(examined, new, findings);
    only_here(examined, findings)
}

/// Finds transcripts, or parts of them, that are only on disk. Returns their number.
fn uncollected(examined: &Examined<'_>, findings: &mut Findings) -> Result<u64> {
    let forgotten = match &examined.ledger {
        Some(ledger) => Forgotten::load(ledger.conn())?,
        None => Forgotten::default(),
    };
    let by_path = known::by_path(&examined.known);
    let mut soon: BTreeMap<_, (&dyn Format, Tally)> = BTreeMap::new();
    let mut later = Tally::default();
    for found in examined.discovery.found.iter().filter(|found| is_wanted(found)) {
        let Some(root) = examined.resolved.get(found.root) else { continue };
        let bytes = path_bytes(&root.path);
        let place = (root.format.name(), bytes.as_slice(), found.path.as_slice());
        let source = by_path.get(&place).and_then(|index| examined.known.get(*index));
        let first_path = source.map_or(&found.path, |source| &source.first_path);
        let is_unwanted = [&found.path, first_path]
            .iter()
            .any(|path| forgotten.claims(root.format, &root.format.origin(path)));
        if is_unwanted || source.is_some_and(|source| is_collected(source, found)) {
            continue;
        }
        let age = clock::now_ms().saturating_sub(found.stat.mtime_ns / 1_000_000) / DAY_MS;
        let name = || String::from_utf8_lossy(&found.path).into_owned();
        match root.retention.days(root.format) {
            Some(days) if i64::from(days) - age <= DAYS_AHEAD => {
                let agent = (root.format.name(), days, root.retention);
                let (_, soon) =
                    soon.entry(agent).or_insert_with(|| (root.format, Tally::default()));
                soon.add(name);
            }
            _ => later.add(name),
        }
    }
    let count = soon.values().map(|(_, soon)| soon.count).sum::<u64>() + later.count;
    for ((name, days, retention), (format, soon)) in soon {
        let title = format.title();
        let why = match retention {
            Retention::Assumed => format!(
                "its default is to keep them for {days} days; quipu never opens its settings, so set \
                 `retention.{name}` in the configuration if they differ"
            ),
            _ => format!("`retention.{name}` in the configuration is {days}"),
        };
        let what =
            format!("uncollected transcripts that {title} will delete within {DAYS_AHEAD} days");
        findings.tally(Severity::Warning, soon, &what, &format!("run `quipu sync` now ({why})"));
    }
    findings.tally(
        Severity::Note,
        later,
        "transcripts that are not completely collected yet",
        SYNC,
    );
    Ok(count)
}

/// Returns whether a file is collected completely. The size of a compressed file on disk does not
/// show how much of it was read.
fn is_collected(source: &KnownSource, found: &FoundFile) -> bool {
    source.refused.is_some()
        || match source.is_compressed() {
            true => source.stat == found.stat,
            false => source.reached() >= found.stat.size,
        }
}

/// Returns whether the file is a transcript that no setting leaves out.
fn is_wanted(found: &FoundFile) -> bool {
    found.part.is_transcript() && !found.is_left_out
}

fn last_sync(examined: &Examined<'_>, new: u64, findings: &mut Findings) {
    let written = ["", "-wal"].iter().filter_map(|suffix| {
        fs::metadata(beside(examined.path, suffix)).and_then(|meta| meta.modified()).ok()
    });
    let Some(written) = written.max() else { return };
    let ago = SystemTime::now().duration_since(written).unwrap_or_default();
    if new > 0 && ago > MAX_SYNC_AGE {
        findings.warning(
            format!(
                "nothing was collected for {} days, although there are new files",
                ago.as_secs() / 86_400
            ),
            "run `quipu sync`, and keep it running with `quipu service install` or from cron",
        );
    }
}

/// Recommends a backup if files exist only in the ledger.
fn only_here(examined: &Examined<'_>, findings: &mut Findings) -> Result<()> {
    let Some(ledger) = &examined.ledger else { return Ok(()) };
    let gone = examined.known.iter().filter(|known| known.is_gone).count() as u64;
    if gone == 0
        || !examined.is_truth_intact
        || backup::backups(ledger)?.iter().any(|backup| backup.exists)
    {
        return Ok(());
    }
    let what = "files that exist only in the ledger, of which no backup is known";
    findings.tally(Severity::Note, Tally::of(gone, []), what, "run `quipu backup FILE`");
    Ok(())
}
