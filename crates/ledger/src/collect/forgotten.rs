//! Leaves out what belongs to forgotten sessions before any file is opened.

use quipu_transcript::format;

use super::discover::{Discovery, Reason, RootPath, Skipped};
use super::known::Known;
use super::plan::Plan;
use crate::truth::forgotten::{FORGOTTEN, Forgotten};

/// Leaves out every file whose path names a forgotten session: live, put aside, in another folder or
/// under another root, and what lies below it.
pub(crate) fn leave_out(forgotten: &Forgotten, roots: &[RootPath], discovery: &mut Discovery) {
    let skipped = &mut discovery.skipped;
    discovery.found.retain(|found| {
        let is_forgotten = roots.get(found.root).is_some_and(|root| {
            forgotten.concerns(root.format)
                && forgotten.claims(root.format, &root.format.origin(&found.path))
        });
        if is_forgotten {
            skipped.push(skip(found.root, &found.path));
        }
        !is_forgotten
    });
}

/// Leaves out files of forgotten sessions that have another name now: a source belongs for ever to
/// the session that its first path names.
pub(super) fn leave_out_known(forgotten: &Forgotten, plan: &mut Plan, discovery: &mut Discovery) {
    let is_forgotten = |known: &Known| {
        known.refused.as_deref() == Some(FORGOTTEN)
            || format::by_name(&known.format).is_some_and(|format| {
                forgotten.concerns(format)
                    && forgotten.claims(format, &format.origin(&known.first_path))
            })
    };
    plan.jobs.retain(|job| {
        let is_forgotten = job.known.as_ref().is_some_and(is_forgotten);
        if is_forgotten {
            discovery.skipped.push(skip(job.root, &job.path));
        }
        !is_forgotten
    });
    plan.standing.retain(|known| !is_forgotten(known));
}

fn skip(root: usize, path: &[u8]) -> Skipped {
    Skipped { root, path: path.to_vec(), reason: Reason::Forgotten }
}
