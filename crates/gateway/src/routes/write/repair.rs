//! Finds the errors of a session, and writes a repaired continuation.

use quipu_ledger::Error;
use serde::Deserialize;

use super::Work;
use crate::answer::Answer;
use crate::problem::Problem;
use crate::write::given::Given;

/// Reports the errors of a session, and repairs them with `apply`, like `quipu session repair`.
pub(crate) fn repair(given: Given) -> Result<Work, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        #[serde(default)]
        apply: bool,
        #[serde(default)]
        rebuild_header: bool,
    }
    given.refuse_conditions()?;
    let Body { apply, rebuild_header } = given.body()?;
    let name = given.name("id");
    Work::on_thread(move |store| {
        let row = store.find(&name, given.agent.as_deref())?;
        if apply && given.agent.is_some() {
            // The continuation of a collected session may belong to another agent.
            match store.session_at(row) {
                Err(error @ Error::Collected { .. }) => return Err(error.into()),
                found => drop(found?),
            }
        }
        let repair = store.repair_at(row)?;
        let repaired = match apply {
            true => store.apply_repair(&repair, rebuild_header)?,
            false => None,
        };
        Answer::json(&repair.report(repaired.as_ref(), rebuild_header))
    })
}
