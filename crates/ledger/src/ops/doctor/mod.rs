//! Checks whether the ledger is sound, its sources can be read, and anything is about to be lost.
//!
//! Each kind of check is a file and a line in `CHECKS`. A finding names a problem and the action
//! that resolves it. A check that cannot be finished is a finding itself, so even a ledger of which
//! nothing can be read gets a diagnosis. Never changes anything. All checks read one snapshot of
//! the ledger, and errors are confirmed (`confirm`).

mod chunks;
mod confirm;
mod cursors;
mod file;
mod finding;
mod named;
mod projection;
mod replay;
mod risk;
mod sources;
mod truth;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use crate::collect::{Discovery, RootPath, discover, known, repeats, resolve};
use crate::file::ledger::Ledger;
use crate::wire::{CheckReport, Diagnosis, Severity};
use crate::{Error, Result};
use confirm::WritersStopped;
use finding::{Findings, RESCUE};

pub(crate) use finding::brief;

/// One kind of check.
pub(crate) struct Check {
    /// Its stable name.
    pub(crate) name: &'static str,
    /// The fact that holds when nothing was found.
    pub(crate) fine: &'static str,
    run: fn(&mut Examined<'_>, &mut Findings) -> Result<()>,
    /// True if the check needs a ledger.
    needs_ledger: bool,
}

/// All checks, in the order in which they run: each may rely on those before it.
pub(crate) const CHECKS: &[Check] = &[
    file::CHECK,
    truth::CHECK,
    cursors::CHECK,
    projection::CHECK,
    sources::CHECK,
    named::CHECK,
    risk::CHECK,
];

/// The ledger and the sources that the checks examine.
pub(crate) struct Examined<'a> {
    path: &'a Path,
    ledger: Option<Ledger>,
    /// The roots as given; `resolved` has their real paths.
    roots: &'a [RootPath],
    resolved: Vec<RootPath>,
    discovery: Discovery,
    known: Vec<known::KnownSource>,
    is_deep: bool,
    /// True if truth passed its check, so that its numbers can be used safely.
    is_truth_intact: bool,
    /// The number of chunks opened to compare files.
    chunks_opened: u64,
    progress: &'a mut dyn FnMut(DoctorProgress),
}

impl Examined<'_> {
    fn conn(&self) -> Result<&rusqlite::Connection> {
        let ledger = self.ledger.as_ref().map(Ledger::conn);
        ledger.ok_or_else(|| Error::Absent { path: self.path.to_owned() })
    }
}

/// The progress of a long check.
#[derive(Debug, Clone, Copy)]
pub struct DoctorProgress {
    /// The current work, as a verb.
    pub doing: &'static str,
    /// The finished units.
    pub done: u64,
    /// All units.
    pub total: u64,
}

/// Examines the ledger at `path` and the sources under `roots`. If `is_deep`, reads every collected
/// byte, compares it with its source, and compares the whole projection with a fresh one.
///
/// All checks read one snapshot of the ledger. An error is reported only if a second examination
/// confirms it. Advice to replace the ledger is given only for damage found with no writer active.
pub fn doctor(
    path: &Path,
    roots: &[RootPath],
    is_deep: bool,
    progress: &mut dyn FnMut(DoctorProgress),
) -> Diagnosis {
    doctor_waiting(path, roots, is_deep, confirm::MAX_LOCK_WAIT, progress)
}

/// Examines the ledger, waiting at most `longest` until no process writes.
pub fn doctor_waiting(
    path: &Path,
    roots: &[RootPath],
    is_deep: bool,
    longest: Duration,
    progress: &mut dyn FnMut(DoctorProgress),
) -> Diagnosis {
    let mut diagnosis = confirm::confirm_errors(&mut || {
        examine(path, roots, is_deep, &|_| true, None, &mut *progress)
    });
    if confirm::advises_replacement(&diagnosis) {
        let grave = diagnosis.findings.iter().filter(|finding| finding.hint == RESCUE);
        let grave: Vec<String> = grave.map(|finding| finding.check.clone()).collect();
        // The check of truth depends on the result of the check of the file.
        let is_asked = |name: &str| grave.iter().any(|check| check == name) || name == "file";
        confirm::advise(&mut diagnosis, path, longest, &mut |quiet| {
            let again = examine(path, roots, is_deep, &is_asked, Some(quiet), &mut *progress);
            let errors = again.findings.into_iter().filter(|it| it.severity == Severity::Error);
            errors.map(|finding| finding.check).collect()
        });
    }
    conclude(&mut diagnosis);
    diagnosis
}

/// Runs the checks selected by `is_asked` on one snapshot of the ledger.
fn examine(
    path: &Path,
    roots: &[RootPath],
    is_deep: bool,
    is_asked: &dyn Fn(&str) -> bool,
    quiet: Option<&WritersStopped>,
    progress: &mut dyn FnMut(DoctorProgress),
) -> Diagnosis {
    let mut findings = Findings::new(CHECKS.first().map_or("", |check| check.name));
    let mut ledger = file::open(path, &mut findings);
    if let Some(ledger) = &ledger
        && let Err(error) = ledger.hold_snapshot()
    {
        findings.unfinished(&error);
    }
    if let (Some(ledger), Some(quiet)) = (&mut ledger, quiet) {
        quiet.watch(ledger.conn_mut());
    }
    let known = ledger.as_ref().map(|ledger| known::all(ledger.conn()));
    let known = known.transpose().unwrap_or_default().unwrap_or_default();
    let resolved = resolve(roots);
    // Sources are not examined while writers are kept waiting.
    let mut discovery = if quiet.is_some() {
        Discovery::default()
    } else {
        let by_path = known::by_path(&known);
        discover(&resolved, &|root, path| {
            by_path.contains_key(&(root.format.name(), root.path.as_os_str().as_bytes(), path))
        })
    };
    repeats::leave_out(&resolved, &mut discovery, &known);
    discovery.skip_unreadable(&resolved);
    let has_ledger = ledger.is_some();
    let mut examined = Examined {
        path,
        ledger,
        roots,
        resolved,
        discovery,
        known,
        is_deep,
        is_truth_intact: false,
        chunks_opened: 0,
        progress,
    };
    let mut checks = Vec::new();
    for check in CHECKS {
        findings.begin(check.name);
        let can_run = (has_ledger || !check.needs_ledger) && is_asked(check.name);
        if quiet.is_some_and(WritersStopped::is_over) {
            break;
        }
        if can_run && let Err(error) = (check.run)(&mut examined, &mut findings) {
            match matches!(error, Error::Damaged { .. }) {
                // The same damage may stop several checks, and is one error.
                true if findings.has_errors(truth::CHECK.name) => {
                    findings.note("not finished, because the raw data is damaged", RESCUE);
                }
                // Collected bytes that cannot be read are damage of truth, whichever check found
                // it.
                true => {
                    findings.begin(truth::CHECK.name);
                    findings.unfinished(&error);
                }
                false => findings.unfinished(&error),
            }
        }
        checks.push(CheckReport { check: check.name.to_owned(), is_done: can_run, fact: None });
    }
    let ledger = path.display().to_string();
    let chunks_opened = examined.chunks_opened;
    let findings = findings.into_list();
    Diagnosis { is_ok: true, ledger_path: ledger, is_deep, checks, findings, chunks_opened }
}

/// Fills in the facts that hold. Only possible at the end: a check may add findings to an earlier
/// one.
fn conclude(diagnosis: &mut Diagnosis) {
    let Diagnosis { is_ok: ok, checks, findings, .. } = diagnosis;
    for (report, check) in checks.iter_mut().zip(CHECKS) {
        let has_found = findings.iter().any(|finding| finding.check == check.name);
        report.fact = (report.is_done && !has_found).then(|| check.fine.to_owned());
    }
    *ok = findings.iter().all(|finding| finding.severity != Severity::Error);
}
