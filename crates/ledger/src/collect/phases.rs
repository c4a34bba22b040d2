//! Which files have to wait for which: those that may be copies of each other.

use super::discover::RootPath;
use super::plan::{Job, Plan};
use super::{known, read};
use foldhash::HashMap;

/// At most this many files that are alike are read one after another.
const MOST_PHASES: usize = 16;

/// New files that begin alike, or are of one session, may be copies of each other: the longer waits
/// until the shorter is in the ledger.
pub(super) fn phases(roots: &[RootPath], plan: Plan) -> Vec<Vec<Job>> {
    let mut alike: HashMap<Alike, Vec<usize>> = HashMap::default();
    for (index, job) in plan.jobs.iter().enumerate().filter(|(_, job)| job.known.is_none()) {
        let Some(format) = roots.get(job.root).map(|root| root.format) else { continue };
        let origin = format.origin(&job.path);
        let head = read::head(format, job);
        if origin.part.is_transcript()
            && let Some(session) = read::session_of(format, &origin, &head)
        {
            let session = Alike::Session(format.name(), origin.agent, session);
            alike.entry(session).or_default().push(index);
        }
        if !head.is_empty() {
            alike.entry(Alike::Head(known::print(&head))).or_default().push(index);
        }
    }
    alike.retain(|_, jobs| jobs.len() > 1);
    let mut alike_to: HashMap<usize, Vec<&Alike>> = HashMap::default();
    for (key, jobs) in &alike {
        for job in jobs {
            alike_to.entry(*job).or_default().push(key);
        }
    }
    let mut waiting: Vec<(u64, usize)> =
        alike_to.keys().filter_map(|job| Some((plan.jobs.get(*job)?.size, *job))).collect();
    waiting.sort_unstable();
    let mut next: HashMap<&Alike, usize> = HashMap::default();
    let mut phase_of: HashMap<usize, usize> = HashMap::default();
    for (_, job) in waiting {
        let keys = alike_to.get(&job).map_or(&[][..], Vec::as_slice);
        let phase = keys.iter().filter_map(|key| next.get(key)).max().copied().unwrap_or(0);
        next.extend(keys.iter().map(|key| (*key, phase + 1)));
        phase_of.insert(job, phase.min(MOST_PHASES - 1));
    }
    let mut phases: Vec<Vec<Job>> = Vec::new();
    for (index, job) in plan.jobs.into_iter().enumerate() {
        let phase = phase_of.get(&index).copied().unwrap_or(0);
        if phases.len() <= phase {
            phases.resize_with(phase + 1, Vec::new);
        }
        if let Some(jobs) = phases.get_mut(phase) {
            jobs.push(job);
        }
    }
    // Somebody may wait for what is new; what was only touched is compared after it.
    phases.iter_mut().for_each(|jobs| jobs.sort_by_key(Job::is_touched));
    phases
}

/// What two new files may have in common.
#[derive(PartialEq, Eq, Hash)]
enum Alike {
    /// The first kilobyte.
    Head(known::Print),
    /// The session: format, agent, id.
    Session(&'static str, Option<String>, String),
}
