//! Lost sessions: only a list of prompts has them, since their transcripts were gone before the
//! first collection.
//!
//! Their folder and title are read from that list by each query. They are never stored in the rows
//! of sessions, because a transcript that is found later has better values.

use quipu_transcript::format::Part;
use rusqlite::Connection;

use crate::Result;
use crate::base::ids::{EntryId, SessionRow};
use crate::project::family::works_for;
use crate::wire::{LostParts, SessionState};

/// An expression: the folder of the session `s`; for a lost one, the folder of its first prompt.
macro_rules! cwd {
    () => {
        "coalesce(nullif(s.cwd, ''), CASE s.state WHEN 'lost' THEN (
             SELECT p.slug FROM entry_rows e JOIN prompts p ON p.id = e.id
              WHERE e.session = s.id AND p.slug <> '' ORDER BY e.id LIMIT 1) END)"
    };
}
pub(crate) use cwd;

/// An expression: true if the session `s` is lost and some of its prompts are known.
macro_rules! is_prompted {
    () => {
        "(s.state = 'lost' AND EXISTS (
             SELECT 1 FROM entry_rows e JOIN prompts p ON p.id = e.id WHERE e.session = s.id))"
    };
}
pub(crate) use is_prompted;

/// Returns the known prompts of a lost session in order, each up to `longest` characters.
pub(crate) fn prompts(
    conn: &Connection,
    session: SessionRow,
    longest: usize,
) -> Result<Vec<String>> {
    let mut statement = conn.prepare_cached(
        "SELECT p.text FROM sessions s
           JOIN entry_rows e ON e.session = s.id
           JOIN prompts p ON p.id = e.id
          WHERE s.id = ?1 AND s.state = ?2 ORDER BY e.id",
    )?;
    let mut rows = statement.query((session, SessionState::Lost))?;
    let mut prompts = Vec::new();
    while let Some(row) = rows.next()? {
        let text = row.get_ref(0)?.as_str().unwrap_or_default();
        prompts.push(text.chars().take(longest).collect());
    }
    Ok(prompts)
}

/// Returns the remains of a lost session that has `prompts` known prompts.
pub(crate) fn remains(conn: &Connection, session: SessionRow, prompts: u64) -> Result<LostParts> {
    let subagents = conn
        .prepare_cached(concat!(
            "SELECT child.session_id FROM sessions parent JOIN sessions child ON ",
            works_for!(),
            " WHERE parent.id = ?1 ORDER BY child.id"
        ))?
        .query_map([session], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let outputs: i64 = conn
        .prepare_cached(
            "SELECT count(DISTINCT name) FROM documents WHERE session = ?1 AND part = ?2",
        )?
        .query_row((session, Part::ToolOutput.as_str()), |row| row.get(0))?;
    Ok(LostParts { prompts, subagent_ids: subagents, outputs: outputs.cast_unsigned() })
}

/// Returns the entries of the known prompts. Each is a turn without further entries.
pub(crate) fn turns(conn: &Connection, session: SessionRow) -> Result<Vec<EntryId>> {
    Ok(conn
        .prepare_cached(
            "SELECT p.id FROM sessions s
               JOIN entry_rows e ON e.session = s.id
               JOIN prompts p ON p.id = e.id
              WHERE s.id = ?1 AND s.state = ?2 ORDER BY e.id",
        )?
        .query_map((session, SessionState::Lost), |row| row.get(0))?
        .collect::<Result<_, _>>()?)
}

/// Returns the prompt that describes a session best: the first that is more than a command.
pub(crate) fn descriptive_prompt(prompts: &[String]) -> Option<&String> {
    prompts.iter().find(|prompt| !prompt.starts_with('/')).or_else(|| prompts.first())
}
