//! Compares cursors with files: what changed on disk since the last sync. The deep check also
//! compares the bytes of unchanged files with the ledger.

use std::collections::HashMap;

use super::finding::{Findings, SYNC, Tally};
use super::{Check, DoctorProgress, Examined};
use crate::base::foreign;
use crate::base::paths::{absolute, path_bytes};
use crate::collect::known::{self, HEAD};
use crate::collect::{Gate, View, same_content};
use crate::truth::chunks::RecordReader;
use crate::wire::Severity;
use crate::{Error, Result};

pub(super) const CHECK: Check =
    Check { name: "cursors", fine: "no file changed since it was read", run, needs_ledger: true };

fn run(examined: &mut Examined<'_>, findings: &mut Findings) -> Result<()> {
    let Some(ledger) = &examined.ledger else { return Ok(()) };
    let gate = Gate::load(ledger.conn())?;
    let mut records = RecordReader::for_copies(ledger.conn());
    let by_path = known::by_path(&examined.known);
    let roots: Vec<Vec<u8>> = examined.resolved.iter().map(|root| path_bytes(&root.path)).collect();
    let (mut changed, mut shorter) = (Tally::default(), Tally::default());
    let (mut back, mut other) = (Tally::default(), Tally::default());
    let mut unread = 0_u64;
    let mut found_at = HashMap::new();
    let total = examined.known.iter().map(known::KnownSource::reached).fold(0, u64::saturating_add);
    let mut done = 0_u64;
    for found in &examined.discovery.found {
        let Some(root) = examined.resolved.get(found.root) else { continue };
        let bytes = roots.get(found.root).map_or(&[][..], Vec::as_slice);
        let place = (root.format.name(), bytes, found.path.as_slice());
        let Some(&index) = by_path.get(&place) else { continue };
        let Some(source) = examined.known.get(index) else { continue };
        found_at.insert(index, ());
        let name = || String::from_utf8_lossy(&found.path).into_owned();
        if source.is_gone {
            back.add(name);
        } else if source.refused.is_some() {
        } else if source.is_kept_whole() || source.is_compressed() {
            // The size of these files on disk does not show how much of them was read.
            if found.stat != source.stat {
                changed.add(name);
                unread = unread.saturating_add(found.stat.size);
            }
        } else if found.stat.size < source.reached() {
            shorter.add(name);
        } else if found.stat != source.stat || found.stat.size != source.reached() {
            changed.add(name);
            unread = unread.saturating_add(found.stat.size - source.reached());
        } else if examined.is_deep && examined.is_truth_intact && source.head_length <= HEAD {
            let path = absolute(&root.path, &found.path);
            let file = foreign::open(&root.path, &path, found.stat.file());
            let mut read = 0;
            let origin = root.format.origin(&source.first_path);
            let gate = gate.file(root.format, &origin);
            let size = found.stat.size;
            let is_other = file
                .and_then(|file| View::through(file, size, gate))
                .map_err(Error::Source)
                .and_then(|file| same_content(&mut records, &file, size, source, &mut read))
                .map(|same| same.is_none());
            match is_other {
                Ok(true) => other.add(name),
                // The check of sources reports files that cannot be read.
                Ok(false) | Err(Error::Source(_)) => {}
                Err(error) => return Err(error),
            }
            done = done.saturating_add(source.reached());
            (examined.progress)(DoctorProgress { doing: "comparing", done, total });
        }
    }
    examined.chunks_opened += records.opened();
    let mut missing = Tally::default();
    for (index, source) in examined.known.iter().enumerate() {
        let is_ours = examined
            .resolved
            .iter()
            .zip(&roots)
            .any(|(root, bytes)| root.format.name() == source.format && *bytes == source.root);
        if is_ours && !source.is_gone && !found_at.contains_key(&index) {
            missing.add(|| String::from_utf8_lossy(&source.path).into_owned());
        }
    }
    // The ledger's own bytes passed their checks, so the files are the ones that changed.
    let what =
        "files that were changed before lines that were appended, or with their time set back";
    let advice = "the ledger has what was read first. `touch` the files and run `quipu sync`: it then \
                  compares the whole files and keeps both versions";
    findings.tally(Severity::Warning, other, what, advice);
    let what = format!("files that changed since they were read (about {unread} new bytes)");
    findings.tally(Severity::Note, changed, &what, SYNC);
    let what = "files that became shorter after they were read";
    findings.tally(Severity::Note, shorter, what, "run `quipu sync`; their old contents are kept");
    findings.tally(Severity::Note, back, "files that were gone and exist again", SYNC);
    let what = "files that were moved, deleted or left out since they were read";
    findings.tally(Severity::Note, missing, what, "run `quipu sync`; their contents are kept");
    Ok(())
}
