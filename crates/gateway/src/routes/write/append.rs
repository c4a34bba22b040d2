//! Appends: entries, turns, and everything that is one appended line.

use quipu_ledger::store::{Appended, Entry, Session};
use serde::Deserialize;

use super::Work;
use crate::answer::Answer;
use crate::problem::Problem;
use crate::write::find;
use crate::write::given::Given;

/// Appends one entry or a list of them, like `quipu session append`.
pub(crate) fn entries(given: Given) -> Result<Work, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Options {
        #[serde(default)]
        auto_compact: bool,
    }
    let Options { auto_compact } = given.options()?;
    let (entries, is_list) = given.entries()?;
    let mut job = given.append(entries);
    job.measures = auto_compact;
    Ok(Work::Append { job, is_list })
}

/// Begins a turn with a user's message, like `quipu session begin`.
pub(crate) fn begin(given: Given) -> Result<Work, Problem> {
    no_options(&given)?;
    let message = Entry::json(given.text()?);
    let mut job = given.append(vec![message]);
    job.begins_turn = true;
    Work::append(job)
}

/// Moves the leaf to an entry, or before the first one.
pub(crate) fn leaf(given: Given) -> Result<Work, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        /// Required, because `null` has a meaning.
        #[serde(deserialize_with = "Option::deserialize")]
        entry_id: Option<String>,
    }
    let Body { entry_id } = given.body()?;
    Work::append(given.append(vec![Entry::leaf(entry_id.as_deref())]))
}

/// Begins a branch at an entry, with a summary of the branch that is left.
pub(crate) fn branch(given: Given) -> Result<Work, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        #[serde(deserialize_with = "Option::deserialize")]
        from: Option<String>,
        summary: Option<String>,
    }
    let Body { from, summary } = given.body()?;
    let Some(summary) = summary else {
        return Work::append(given.append(vec![Entry::leaf(from.as_deref())]));
    };
    by_store(given, move |session, conditions| {
        session.with(conditions).branch(from.as_deref(), Some(&summary))
    })
}

/// Sets the label of an entry, or removes it.
pub(crate) fn label(given: Given) -> Result<Work, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        entry_id: String,
        label: Option<String>,
    }
    let Body { entry_id, label } = given.body()?;
    Work::append(given.append(vec![Entry::label(&entry_id, label.as_deref())]))
}

/// Stores a text that was sent to a channel.
pub(crate) fn mirror(given: Given) -> Result<Work, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        text: String,
    }
    let Body { text } = given.body()?;
    by_store(given, move |session, conditions| session.with(conditions).mirror(&text))
}

/// Empties the context of a session. All entries stay.
pub(crate) fn reset(given: Given) -> Result<Work, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        reason: Option<String>,
        keep: Option<String>,
    }
    let Body { reason, keep } = given.body()?;
    let reason = reason.unwrap_or_else(|| "reset".to_owned());
    by_store(given, move |session, conditions| {
        session.with(conditions).reset(&reason, keep.as_deref())
    })
}

/// An append that reads the session first.
type Append =
    dyn FnOnce(&Session, quipu_ledger::Append<'_>) -> quipu_ledger::Result<Appended> + Send;

/// Runs an append that depends on the state of the session.
fn by_store(
    given: Given,
    append: impl FnOnce(&Session, quipu_ledger::Append<'_>) -> quipu_ledger::Result<Appended>
    + Send
    + 'static,
) -> Result<Work, Problem> {
    let append: Box<Append> = Box::new(append);
    let (name, conditions) = (given.name("id"), given.conditions());
    Work::on_thread(move |store| {
        let session = find(store, &name, given.agent.as_deref())?;
        let appended = append(&session, conditions.append()).map_err(Problem::of_write)?;
        Answer::json(&appended)
    })
}

fn no_options(given: &Given) -> Result<(), Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Options {}
    given.options().map(|Options {}| ())
}
