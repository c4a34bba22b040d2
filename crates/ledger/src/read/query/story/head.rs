//! Reads the summary of a session that is shown before its story.
//!
//! Reads no text of the conversation but prompts: for the title of a session that has none, and for
//! a lost session.

use rusqlite::Connection;

use crate::Result;
use crate::base::ids::SessionRow;
use crate::read::query::parents::Parents;
use crate::read::query::{forks, listed, lost, prompts};
use crate::wire::{SessionState, StoryHead};

/// Returns the summary of a session.
pub(super) fn read(conn: &Connection, session: SessionRow) -> Result<StoryHead> {
    let mut head = conn.query_row(
        concat!(
            "SELECT s.format, s.agent, s.session_id, s.session_key, part, state, parent_session_id, fork_of,
                continued_in, slug, ",
            lost::cwd!(),
            " AS cwd, git_branch, model,
                coalesce(title, (SELECT k.title FROM session_keys k
                                  WHERE k.session_id = s.session_id AND k.format = s.format
                                    AND k.agent = s.agent AND k.title IS NOT NULL
                                  ORDER BY k.updated_at DESC LIMIT 1)) AS title,
                first_prompt, started_at, updated_at,
                entries, turns, tool_calls, compactions
           FROM sessions s WHERE id = ?1"
        ),
        [session],
        |row| {
            let count = |column: &str| row.get::<_, i64>(column).map(|n| n.max(0).cast_unsigned());
            Ok(StoryHead {
                format: row.get("format")?,
                agent: row.get("agent")?,
                session_id: row.get("session_id")?,
                session_key: row.get("session_key")?,
                part: row.get("part")?,
                state: row.get("state")?,
                parent_session_id: row.get("parent_session_id")?,
                fork_of: row.get("fork_of")?,
                continued_in: row.get("continued_in")?,
                project: None,
                slug: row.get("slug")?,
                cwd: row.get("cwd")?,
                git_branch: row.get("git_branch")?,
                model: row.get("model")?,
                title: row.get("title")?,
                first_prompt: row.get("first_prompt")?,
                started_at: row.get("started_at")?,
                updated_at: row.get("updated_at")?,
                entries: count("entries")?,
                turns: count("turns")?,
                tool_calls: count("tool_calls")?,
                compactions: count("compactions")?,
                remains: None,
            })
        },
    )?;
    head.fork_of = match head.fork_of {
        Some(parent_name) => Some(Parents::default().name(conn, session, parent_name)?),
        None => forks::original(conn, session)?,
    };
    let known = lost::prompts(conn, session, prompts::MAX_PROMPT_CHARS)?;
    head.first_prompt = head.first_prompt.or_else(|| known.first().cloned());
    if head.state == SessionState::Lost {
        let prompts = known.len() as u64;
        head.remains = Some(lost::remains(conn, session, prompts)?);
        head.turns = head.turns.max(prompts);
    }
    if head.title.is_none() {
        head.title = lost::descriptive_prompt(&known).cloned();
    }
    if head.title.is_none() {
        head.title = prompts::real_prompt(conn, session)?.or_else(|| head.first_prompt.clone());
    }
    let (slug, cwd) = (head.slug.as_deref(), head.cwd.as_deref().filter(|cwd| !cwd.is_empty()));
    let place = listed::project_folder(conn, slug, cwd)?;
    let name = listed::project_name(place.as_deref(), slug);
    head.project = Some(name.to_owned()).filter(|name| !name.is_empty());
    Ok(head)
}
