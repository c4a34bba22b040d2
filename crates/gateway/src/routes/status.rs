//! The contents of the ledger, and the files that are left out.

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;

/// Answers like `quipu status`.
pub(crate) fn status(call: &Call<'_>) -> Result<Answer, Problem> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Options {}
    let Options {} = call.options()?;
    call.refuse_bound()?;
    call.object(&quipu_ledger::status::status(call.ledger, &call.settings.roots)?)
}
