//! The relation between a session and its sub-agents, as fragments of SQL.
//!
//! Every query about sub-agents uses this one rule. Never runs a query itself.

/// Expands to a condition: the session `child` works for the session `parent`.
macro_rules! works_for {
    () => {
        "child.parent_session_id = parent.session_id
         AND child.format = parent.format
         AND coalesce(child.parent_agent, child.agent) = parent.agent"
    };
}
pub(crate) use works_for;

/// Expands to a condition: the session `s` is a sub-agent. A session of the part `agent`, which
/// older releases stored beside the others, is a sub-agent if its parent session is known.
macro_rules! is_subagent {
    () => {
        "(s.part = 'subagent' OR (s.part = 'agent' AND EXISTS (
             SELECT 1 FROM sessions parent
              WHERE parent.session_id = s.parent_session_id AND parent.format = s.format
                AND parent.agent = coalesce(s.parent_agent, s.agent)
                AND parent.part = 'transcript')))"
    };
}
pub(crate) use is_subagent;

/// Expands to the tables after `FROM`: a session `parent`, and a sub-agent `child` whose files are
/// in the folder of that session.
macro_rules! in_one_folder {
    () => {
        concat!(
            "sessions parent JOIN sessions child ON child.part = 'subagent' AND ",
            $crate::project::family::works_for!()
        )
    };
}
pub(crate) use in_one_folder;

/// Returns the possible agent ids of a sub-agent's session: each text after an `agent-` in its
/// name, and its key, which some agents record instead of an id.
pub(crate) fn agent_ids<'a>(
    session_id: &'a str,
    key: Option<&'a str>,
) -> impl Iterator<Item = &'a str> {
    const PREFIX: &str = "agent-";
    let prefixes = session_id.match_indices(PREFIX);
    prefixes.filter_map(|(at, _)| session_id.get(at + PREFIX.len()..)).chain(key)
}
