//! Orders new files that may be copies of each other into phases, which are read one after another.
//!
//! Reads at most the first kilobyte of a file.

use super::discover::RootPath;
use super::plan::{Job, Plan};
use super::{known, read};
use crate::truth::sources::Print;
use foldhash::HashMap;

/// The largest number of phases. If more files are alike, several of them share a phase, shorter
/// files first.
const MAX_PHASES: usize = 16;

/// Splits a plan into phases. New files with the same head or of the same session may be copies of
/// each other, so a longer one waits until the shorter ones are in the ledger.
pub(super) fn phases(roots: &[RootPath], plan: Plan) -> Vec<Vec<Job>> {
    let mut alike: HashMap<SharedProperty, Vec<usize>> = HashMap::default();
    for (index, job) in plan.jobs.iter().enumerate().filter(|(_, job)| job.known.is_none()) {
        let Some(format) = roots.get(job.root).map(|root| root.format) else { continue };
        let origin = format.origin(&job.path);
        let head = read::head(format, job);
        if origin.part.is_transcript()
            && let Some(session) = read::session_of(format, &origin, &head)
        {
            let session = SharedProperty::Session(format.name(), origin.agent, session);
            alike.entry(session).or_default().push(index);
        }
        if !head.is_empty() {
            alike.entry(SharedProperty::Head(known::fingerprint(&head))).or_default().push(index);
        }
    }
    alike.retain(|_, jobs| jobs.len() > 1);
    let mut alike_to: HashMap<usize, Vec<&SharedProperty>> = HashMap::default();
    for (key, jobs) in &alike {
        for job in jobs {
            alike_to.entry(*job).or_default().push(key);
        }
    }
    let mut waiting: Vec<(u64, usize)> =
        alike_to.keys().filter_map(|job| Some((plan.jobs.get(*job)?.size, *job))).collect();
    waiting.sort_unstable();
    // The number of files of each group that have a phase, and the last phase.
    let mut group_phases: HashMap<&SharedProperty, (usize, usize)> = HashMap::default();
    let mut phase_of: HashMap<usize, usize> = HashMap::default();
    for (_, job) in waiting {
        let keys = alike_to.get(&job).map_or(&[][..], Vec::as_slice);
        let earliest = |key: &&SharedProperty| {
            let (count, last) = group_phases.get(key).copied()?;
            let all = alike.get(key).map_or(0, Vec::len);
            Some(if all <= MAX_PHASES { last + 1 } else { last.max(count * MAX_PHASES / all) })
        };
        let phase = keys.iter().filter_map(earliest).max().unwrap_or(0).min(MAX_PHASES - 1);
        for key in keys {
            let (count, last) = group_phases.entry(key).or_default();
            (*count, *last) = (*count + 1, phase);
        }
        phase_of.insert(job, phase);
    }
    let mut phases: Vec<Vec<(usize, Job)>> = Vec::new();
    // Files of one session come together, so that its lines are read from the ledger once.
    let together: HashMap<usize, usize> = alike
        .iter()
        .filter(|(key, _)| matches!(key, SharedProperty::Session(..)))
        .flat_map(|(_, jobs)| jobs.iter().map(|job| (*job, jobs.first().copied().unwrap_or(*job))))
        .collect();
    for (index, job) in plan.jobs.into_iter().enumerate() {
        let phase = phase_of.get(&index).copied().unwrap_or(0);
        if phases.len() <= phase {
            phases.resize_with(phase + 1, Vec::new);
        }
        if let Some(jobs) = phases.get_mut(phase) {
            jobs.push((together.get(&index).copied().unwrap_or(index), job));
        }
    }
    let in_order = |mut jobs: Vec<(usize, Job)>| {
        // New bytes come first, because a reader may wait for them. Touched files are compared
        // later.
        jobs.sort_by_key(|(position, job)| (job.is_touched(), *position));
        jobs.into_iter().map(|(_, job)| job).collect()
    };
    phases.into_iter().map(in_order).collect()
}

/// A property that two new files may share.
#[derive(PartialEq, Eq, Hash)]
enum SharedProperty {
    /// The first kilobyte.
    Head(Print),
    /// The session: format, agent, id.
    Session(&'static str, Option<String>, String),
}
