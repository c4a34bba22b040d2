//! Sessions with the fields that filters need: format, agent, project, times and channel.
//!
//! Reads rows only, never a record.

use std::collections::HashMap;

use quipu_transcript::format;
use quipu_transcript::project::{Closeness, Name, folders, repository};
use rusqlite::{Connection, OptionalExtension};

use super::originals::Originals;
use super::{lost, prompts};
use crate::Result;
use crate::base::ids::SessionRow;
use crate::project::family::is_subagent;

/// The number of first prompts that are searched for a project's name, if nothing else names the
/// project. It bounds the number of texts that are read.
const MAX_PROMPTS_READ: usize = 5;

/// A session with the fields that filters need.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) row: SessionRow,
    pub(crate) format: String,
    pub(crate) agent: String,
    pub(crate) slug: Option<String>,
    /// The first folder in which it worked, or in which another session of the same slug worked.
    pub(crate) path: Option<String>,
    pub(crate) started_at: Option<i64>,
    /// The time of the last activity.
    pub(crate) updated_at: Option<i64>,
    /// The time of the last activity; without one, of the file. Filters compare with it.
    pub(crate) last: Option<i64>,
    pub(crate) channel: Option<String>,
    /// True for a sub-agent, a warm-up session, an empty session or the original of an imported
    /// one: listed only with `all`. A lost session with known prompts is not minor.
    pub(crate) is_minor: bool,
    /// True if it has turns, and no person began any of them.
    pub(crate) is_automatic: bool,
}

/// The conditions for sessions.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// The name of the project.
    pub project: Option<Name>,
    /// The agent, by any of its names: its own, or that of its format.
    pub agent: Option<String>,
    /// The format.
    pub format: Option<String>,
    /// The earliest time of the last activity, milliseconds UTC. That is the time in the agent's
    /// index or of the last entry, the later of the two; without both, the time of the file.
    pub since: Option<i64>,
    /// The time before which the last activity must be, milliseconds UTC. A session that continued
    /// later does not pass, even if it began earlier.
    pub until: Option<i64>,
    /// The channel of the messages.
    pub channel: Option<String>,
    /// True if sub-agents, warm-up sessions, empty sessions and originals of imported ones pass
    /// too.
    pub all: bool,
    /// True if sessions whose turns were all begun by programs do not pass.
    pub human: bool,
}

impl Listed {
    /// Returns the name of its project: the last folder of the project's path, or the slug.
    pub(crate) fn project(&self) -> &str {
        project_name(self.path.as_deref(), self.slug.as_deref())
    }

    /// Returns the path of its project: where it worked, or the repository of that worktree.
    pub(crate) fn project_path(&self) -> Option<&str> {
        self.path.as_deref().map(repository)
    }
}

/// Returns the folder of a session with this slug: its own folder if it is recorded, or else that
/// of another session with the same slug.
pub(crate) fn project_folder(
    conn: &Connection,
    slug: Option<&str>,
    cwd: Option<&str>,
) -> Result<Option<String>> {
    if let (None, Some(slug)) = (cwd, slug) {
        let mut statement = conn.prepare_cached(
            "SELECT cwd FROM sessions WHERE slug = ?1 AND cwd <> ''
              ORDER BY updated_at NULLS FIRST, id LIMIT 1",
        )?;
        return Ok(statement.query_row([slug], |row| row.get(0)).optional()?);
    }
    Ok(cwd.map(str::to_owned))
}

/// Returns the last folder of the project that a path belongs to, or else the slug.
pub(crate) fn project_name<'a>(path: Option<&'a str>, slug: Option<&'a str>) -> &'a str {
    match path.map(repository) {
        Some(path) => folders(path).rfind(|folder| !folder.is_empty()).unwrap_or(path),
        None => slug.unwrap_or(""),
    }
}

/// Returns all sessions, newest first.
pub(crate) fn all(conn: &Connection) -> Result<Vec<Listed>> {
    let mut statement = conn.prepare(concat!(
        "SELECT s.id, s.format, s.agent, s.slug, ",
        lost::cwd!(),
        ", s.started_at, s.updated_at, k.channel, ",
        is_subagent!(),
        " OR coalesce(s.session_key, '') LIKE '%:subagent:%'
                OR (s.turns = 0 AND s.messages = 0 AND s.first_prompt IS NULL AND NOT ",
        lost::is_prompted!(),
        ")
                OR (s.turns <= 1 AND lower(trim(s.first_prompt)) = 'warmup'),
                coalesce(s.updated_at, s.started_at,
                         (SELECT max(g.mtime_ns) / 1000000
                            FROM session_sources ss
                            JOIN sources f ON f.id = ss.source
                            JOIN generations g ON g.id = f.generation
                           WHERE ss.session = s.id)),
                s.turns > 0 AND s.turns = s.automatic_turns
           FROM sessions s
           LEFT JOIN (SELECT format, agent, session_id, max(updated_at) AS updated_at, channel
                        FROM session_keys WHERE session_id IS NOT NULL
                       GROUP BY format, agent, session_id) k
             ON k.session_id = s.session_id AND k.format = s.format AND k.agent = s.agent
          ORDER BY 7 DESC NULLS LAST, s.id DESC",
    ))?;
    let originals = Originals::read(conn)?;
    let mut sessions = statement
        .query_map([], |row| {
            let is_original = originals.contains(row.get(0)?);
            Ok(Listed {
                row: row.get(0)?,
                format: row.get(1)?,
                agent: row.get(2)?,
                slug: row.get(3)?,
                path: row.get(4)?,
                started_at: row.get(5)?,
                updated_at: row.get(6)?,
                channel: row.get(7)?,
                is_minor: row.get::<_, Option<bool>>(8)?.unwrap_or(false) || is_original,
                last: row.get(9)?,
                is_automatic: row.get(10)?,
            })
        })?
        .collect::<Result<Vec<_>, _>>()?;
    // A session without a recorded folder gets the folder of another session with the same slug.
    let mut paths: HashMap<String, String> = HashMap::new();
    for session in sessions.iter().rev() {
        if let (Some(slug), Some(path)) = (&session.slug, &session.path) {
            paths.entry(slug.clone()).or_insert_with(|| path.clone());
        }
    }
    for session in &mut sessions {
        if session.path.is_none() {
            session.path = session.slug.as_ref().and_then(|slug| paths.get(slug)).cloned();
        }
    }
    Ok(sessions)
}

/// Returns the sessions that pass the filter.
pub(crate) fn filtered(conn: &Connection, filter: &Filter) -> Result<Vec<Listed>> {
    let mut sessions = all(conn)?;
    sessions.retain(|session| filter.passes(session));
    if let Some(name) = &filter.project {
        sessions = of_project(conn, sessions, name)?;
    }
    Ok(sessions)
}

impl Filter {
    pub(super) fn passes(&self, session: &Listed) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(found))
        };
        let last = session.last;
        (self.all || !session.is_minor)
            && !(self.human && session.is_automatic)
            && self
                .agent
                .as_ref()
                .is_none_or(|name| format::is_agent(name, &session.format, &session.agent))
            && is(&self.format, &session.format)
            && is(&self.channel, session.channel.as_deref().unwrap_or(""))
            && self.since.is_none_or(|since| last.is_some_and(|last| last >= since))
            && self.until.is_none_or(|until| last.is_some_and(|last| last < until))
    }

    /// Returns whether a session without a row passes. Its project is known only from its folder.
    pub(super) fn passes_with_project(&self, session: &Listed) -> bool {
        self.passes(session)
            && self.project.as_ref().is_none_or(|project| {
                project.closeness(session.slug.as_deref(), session.path.as_deref()).is_some()
            })
    }
}

/// Returns the sessions of a project of this name. Guesses count only if nothing else fits.
fn of_project(conn: &Connection, sessions: Vec<Listed>, name: &Name) -> Result<Vec<Listed>> {
    let mut fitting = Vec::new();
    for session in sessions {
        let mut closeness = name.closeness(session.slug.as_deref(), session.path.as_deref());
        if closeness.is_none()
            && session.path.is_none()
            && prompt_names_project(conn, session.row, name)?
        {
            closeness = Some(Closeness::Words);
        }
        if let Some(closeness) = closeness {
            fitting.push((closeness, session));
        }
    }
    if fitting.iter().any(|(closeness, _)| *closeness > Closeness::Guess) {
        fitting.retain(|(closeness, _)| *closeness > Closeness::Guess);
    }
    Ok(fitting.into_iter().map(|(_, session)| session).collect())
}

/// Returns whether one of its first prompts names the project.
fn prompt_names_project(conn: &Connection, session: SessionRow, name: &Name) -> Result<bool> {
    let (mut left, mut is_named) = (MAX_PROMPTS_READ, false);
    prompts::each(conn, session, prompts::Order::First, |text| {
        left -= 1;
        is_named |= name.is_in(text);
        left > 0 && !is_named
    })?;
    Ok(is_named)
}
