//! Compactions that a request asks for.

use quipu_ledger::store::Compact;
use quipu_ledger::wire::CompactionResult;
use serde::Deserialize;

use super::Work;
use crate::answer::Answer;
use crate::problem::Problem;
use crate::write::find;
use crate::write::given::Given;

/// Compacts a session, like `quipu session compact`. Other writers do not wait for it.
pub(crate) fn compact(given: Given) -> Result<Work, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        instructions: Option<String>,
        /// The tokens of recent messages to keep.
        keep: Option<u64>,
        /// The tokens of a context that a model refused, as the model counted them.
        refused_tokens: Option<u64>,
        window: Option<u64>,
    }
    given.refuse_conditions()?;
    let asked: Body = given.body()?;
    if asked.window == Some(0) || asked.refused_tokens == Some(0) {
        return Err(Problem::bad_request("`window` and `refused_tokens` are at least 1"));
    }
    let name = given.name("id");
    Ok(Work::Beside(Box::new(move |store| {
        let session = find(store, &name, given.agent.as_deref())?;
        let mut settings = given.shared.settings.compaction.clone();
        settings.window = asked.window.or(settings.window);
        settings.rules.keep_recent_tokens = asked.keep.or(settings.rules.keep_recent_tokens);
        let wanted = Compact {
            instructions: asked.instructions.as_deref(),
            refused: asked.refused_tokens,
            is_due: false,
        };
        let summariser = given.shared.settings.summariser.make().map_err(Problem::refused)?;
        let compacted = session.compact_now(&settings, &wanted, &*summariser)?;
        Answer::json(&CompactionResult {
            is_compacted: compacted.is_some(),
            session_id: compacted.is_some().then(|| session.id()),
            compacted: compacted.as_ref(),
        })
    })))
}
