//! The metadata of a session.

use quipu_ledger::store::Fields;
use serde::Deserialize;

use super::Work;
use crate::answer::Answer;
use crate::problem::Problem;
use crate::write::find;
use crate::write::given::Given;

/// Changes metadata, like `quipu session meta --patch`: `null` removes a field.
pub(crate) fn patch(given: Given) -> Result<Work, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Options {}
    given.refuse_conditions()?;
    let Options {} = given.options()?;
    let patch = Fields::read(given.text()?)
        .map_err(|error| Problem::bad_request(format!("the patch cannot be read: {error}")))?;
    let name = given.name("id");
    Work::on_thread(move |store| {
        let session = find(store, &name, given.agent.as_deref())?;
        Answer::json(&session.patch_fields(&patch)?)
    })
}
