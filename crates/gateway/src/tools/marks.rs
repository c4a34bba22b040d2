//! What kind of session it is, in words that an agent understands. No kind is hidden.

use quipu_ledger::query;
use quipu_ledger::wire::Session;

use super::ToolCall;
use super::reply::name;

/// Returns the words about a session of a list.
pub(super) fn of_session(call: &ToolCall<'_>, session: &Session) -> String {
    let is_subagent = session.part == "subagent" || session.parent_session_id.is_some();
    words(call, &session.session_id, is_subagent)
}

/// Returns the words about a session: ` · sub-agent · automated · short`.
pub(super) fn words(call: &ToolCall<'_>, session_id: &str, is_subagent: bool) -> String {
    let row = query::find_session(call.ledger, session_id);
    let turns = row.and_then(|row| query::turn_counts(call.ledger, row)).unwrap_or_default();
    let marks = [
        (is_subagent, "sub-agent"),
        (turns.all > 0 && turns.all == turns.automatic, "automated"),
        (turns.all <= 1 && !is_subagent, "short"),
    ];
    marks.iter().filter(|(is, _)| *is).map(|(_, word)| format!(" · {word}")).collect()
}

/// Returns the name of the program and the agent of a session.
pub(super) fn program(format: &str, agent: Option<&str>) -> String {
    let title = quipu_transcript::format::by_name(format).map_or(format, |format| format.title());
    match agent {
        None | Some("" | "main") => name(title),
        Some(agent) => name(&format!("{title}/{agent}")),
    }
}
