//! Files that repeat a transcript are collected only if no transcript of their session is known.
//!
//! Compares names only, and opens nothing.

use foldhash::HashSet;
use quipu_transcript::format::{self, Part};

use super::discover::{Discovery, Reason, RootPath, Skipped};
use super::known::KnownSource;

/// The reason why such a file is left out.
const REPEATS: &str = "trajectory of a run: repeats the transcript";

/// A session: the format, the agent and the id.
type Name = (&'static str, Option<String>, Option<String>);

/// Leaves out the trajectories of sessions with a transcript, on disk or in the ledger.
pub(crate) fn leave_out(roots: &[RootPath], discovery: &mut Discovery, known: &[KnownSource]) {
    if !discovery.found.iter().any(|found| found.part == Part::Trajectory) {
        return;
    }
    let mut transcripts: HashSet<Name> = HashSet::default();
    for found in discovery.found.iter().filter(|found| found.part.is_transcript()) {
        transcripts.extend(roots.get(found.root).map(|root| name(root.format, &found.path)));
    }
    for source in known {
        if let Some(format) = format::by_name(&source.format)
            && format.origin(&source.first_path).part.is_transcript()
        {
            transcripts.insert(name(format, &source.first_path));
        }
    }
    let is_repeated = |root: usize, path: &[u8]| {
        roots.get(root).is_some_and(|root| transcripts.contains(&name(root.format, path)))
    };
    discovery.found.retain(|found| {
        let is_left_out = found.part == Part::Trajectory && is_repeated(found.root, &found.path);
        if is_left_out {
            discovery.skipped.push(Skipped {
                root: found.root,
                path: found.path.clone(),
                reason: Reason::LeftOut(REPEATS),
            });
        }
        !is_left_out
    });
    discovery.skipped.sort();
}

/// Returns the session that a path names.
fn name(format: &'static dyn format::Format, path: &[u8]) -> Name {
    let origin = format.origin(path);
    (format.name(), origin.agent, origin.session)
}
