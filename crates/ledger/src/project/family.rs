//! Who works for whom, as pieces of SQL: the one rule that everything about sub-agents follows.

/// A condition: the session `child` works for the session `parent`.
macro_rules! works_for {
    () => {
        "child.parent_id = parent.session_id
         AND child.format = parent.format
         AND coalesce(child.parent_agent, child.agent) = parent.agent"
    };
}
pub(crate) use works_for;

/// What stands after `FROM`: a session, `parent`, and a sub-agent of it, `child`, whose files lie in
/// the folder of that session.
macro_rules! in_one_folder {
    () => {
        concat!(
            "sessions parent JOIN sessions child ON child.part = 'subagent' AND ",
            $crate::project::family::works_for!()
        )
    };
}
pub(crate) use in_one_folder;

/// The ids of agents that a sub-agent of this name may have: what follows an `agent-` in it.
pub(crate) fn agent_ids(session_id: &str) -> impl Iterator<Item = &str> {
    const BEGINNING: &str = "agent-";
    let places = session_id.match_indices(BEGINNING);
    places.filter_map(|(at, _)| session_id.get(at + BEGINNING.len()..))
}
