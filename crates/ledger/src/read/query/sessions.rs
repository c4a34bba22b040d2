//! The lists of sessions and projects.
//!
//! Each session is described from its rows. Costs are left out; `usage` adds them.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension};

use super::listed::{self, Filter, Listed, project_name};
use super::originals::Originals;
use super::parents::Parents;
use super::prompts::{LAST_PROMPTS, MAX_PROMPT_CHARS, last_prompts, real_prompt};
use super::{empty, forks, lost};
use crate::Result;
use crate::base::ids::{EntryId, GenerationId, SessionRow, order_by_line};
use crate::file::ledger::Ledger;
use crate::project::family::{is_subagent, works_for};
use crate::project::session_sources::holds_transcript;
use crate::read::query::complete::complete;
use crate::truth::spans;
use crate::wire::{Project, Session, SessionState};

/// The largest length of a title, in characters: titles are shown on one line.
const MAX_TITLE_CHARS: usize = 200;

/// The sessions that pass a filter.
#[derive(Debug, Clone)]
pub struct Sessions {
    /// The sessions, newest first. Transcripts without a line come last and have no row.
    pub sessions: Vec<Session>,
    /// The row of each session in the ledger.
    pub rows: Vec<Option<SessionRow>>,
    /// The number of sessions before the limit.
    pub total: usize,
}

/// Returns the sessions, newest first, at most `limit`.
///
/// ```
/// use quipu_ledger::query::{Filter, sessions};
/// use quipu_ledger::{Entry, Store};
///
/// # let folder = tempfile::tempdir()?;
/// # let store = Store::open(folder.path().join("ledger.db"))?;
/// store.session_or_new("agent:main:main")?.append(Entry::user("hello"))?;
/// let found = sessions(&store.reader()?, &Filter::default(), Some(20))?;
/// assert_eq!(found.sessions[0].first_prompt.as_deref(), Some("hello"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn sessions(ledger: &Ledger, filter: &Filter, limit: Option<usize>) -> Result<Sessions> {
    complete(ledger, &mut |conn| sessions_in_snapshot(conn, filter, limit))
}

fn sessions_in_snapshot(
    conn: &Connection,
    filter: &Filter,
    limit: Option<usize>,
) -> Result<Sessions> {
    let mut listed = listed::filtered(conn, filter)?;
    let empty = empty::all(conn, filter)?;
    let total = listed.len() + empty.len();
    let limit = limit.unwrap_or(usize::MAX);
    listed.truncate(limit);
    let sessions = describe_all(conn, &listed)?.into_iter().map(|(row, it)| (Some(row), it));
    let empty = empty.into_iter().map(|session| (None, session));
    let (rows, mut sessions): (Vec<_>, Vec<_>) = sessions.chain(empty).take(limit).unzip();
    Originals::read(conn)?.name(&rows, &mut sessions);
    Ok(Sessions { sessions, rows, total })
}

/// Returns the sessions, each with its row in the ledger.
pub fn session_rows(ledger: &Ledger, filter: &Filter) -> Result<Vec<(SessionRow, Session)>> {
    complete(ledger, &mut |conn| describe_all(conn, &listed::filtered(conn, filter)?))
}

fn describe_all(conn: &Connection, listed: &[Listed]) -> Result<Vec<(SessionRow, Session)>> {
    let parents = Parents::default();
    listed.iter().map(|session| Ok((session.row, describe(conn, session, &parents)?))).collect()
}

/// Returns one session as `quipu sessions` lists it, or `None` if it was forgotten.
pub fn summary_of(ledger: &Ledger, row: SessionRow) -> Result<Option<Session>> {
    complete(ledger, &mut |conn| {
        let all = listed::all(conn)?;
        let found = all.iter().find(|session| session.row == row);
        found.map(|session| describe(conn, session, &Parents::default())).transpose()
    })
}

/// Returns the projects, the one with the newest session first.
pub fn projects(ledger: &Ledger, filter: &Filter) -> Result<Vec<Project>> {
    let mut found: BTreeMap<&str, ProjectSums<'_>> = BTreeMap::new();
    let listed = listed::filtered(ledger.conn(), filter)?;
    for session in &listed {
        let key = session.project_path().or(session.slug.as_deref()).unwrap_or("");
        found.entry(key).or_default().add(session);
    }
    let mut projects: Vec<Project> = found.into_values().map(ProjectSums::finish).collect();
    projects
        .sort_by(|a, b| b.updated_at.cmp(&a.updated_at).then_with(|| a.project.cmp(&b.project)));
    Ok(projects)
}

#[derive(Default)]
struct ProjectSums<'a> {
    path: Option<&'a str>,
    slugs: BTreeSet<&'a str>,
    formats: BTreeSet<&'a str>,
    agents: BTreeSet<&'a str>,
    sessions: u64,
    started_at: Option<i64>,
    updated_at: Option<i64>,
}

impl<'a> ProjectSums<'a> {
    fn add(&mut self, session: &'a Listed) {
        self.path = session.project_path();
        self.slugs.extend(session.slug.as_deref());
        self.formats.insert(&session.format);
        self.agents.extend(Some(session.agent.as_str()).filter(|agent| !agent.is_empty()));
        self.sessions += u64::from(!session.is_minor);
        self.started_at = [self.started_at, session.started_at].into_iter().flatten().min();
        self.updated_at = self.updated_at.max(session.updated_at);
    }

    fn finish(self) -> Project {
        let owned = |names: BTreeSet<&str>| names.into_iter().map(str::to_owned).collect();
        Project {
            project: project_name(self.path, self.slugs.first().copied()).to_owned(),
            cwd: self.path.map(str::to_owned),
            slugs: owned(self.slugs),
            formats: owned(self.formats),
            agents: owned(self.agents),
            sessions: self.sessions,
            started_at: self.started_at,
            updated_at: self.updated_at,
        }
    }
}

fn describe(conn: &Connection, listed: &Listed, parents: &Parents) -> Result<Session> {
    let files = files(conn, listed.row)?;
    let turns = turns(conn, listed.row)?;
    let mut statement = conn.prepare_cached(concat!(
        "SELECT session_id, session_key, (SELECT iif(",
        is_subagent!(),
        ", 'subagent', s.part) FROM sessions s WHERE s.id = ?1), first_prompt, turns, messages, tool_calls, state,
                parent_session_id, fork_of, compactions,
                (SELECT count(*) FROM sessions child WHERE ",
        works_for!(),
        ") FROM sessions parent WHERE id = ?1",
    ))?;
    let session = statement.query_row([listed.row], |row| {
        let number = |index| row.get::<_, i64>(index).map(i64::cast_unsigned);
        Ok(Session {
            session_id: row.get(0)?,
            session_key: row.get(1)?,
            format: listed.format.clone(),
            agent: listed.agent.clone(),
            part: row.get(2)?,
            project: listed.project().to_owned(),
            cwd: listed.path.clone(),
            slug: listed.slug.clone(),
            title: None,
            first_prompt: row.get(3)?,
            last_prompts: Vec::new(),
            started_at: listed.started_at,
            updated_at: listed.updated_at,
            modified_at: files.modified_at,
            lines: files.lines,
            bytes: files.size,
            records: files.records,
            turns: number(4)?,
            messages: number(5)?,
            tool_calls: number(6)?,
            models: turns.models,
            // `Costs` fills these in.
            total_tokens: 0,
            cost_usd: None,
            state: row.get(7)?,
            parent_session_id: row.get(8)?,
            fork_of: row.get(9)?,
            channel: listed.channel.clone(),
            branches: turns.branches,
            compactions: number(10)?,
            subagents: number(11)?,
        })
    })?;
    let title = title(conn, listed.row)?;
    let mut session = Session { title, last_prompts: last_prompts(conn, listed.row)?, ..session };
    session.fork_of = match session.fork_of {
        Some(parent) => Some(parents.name(conn, listed.row, parent)?),
        None => forks::original(conn, listed.row)?,
    };
    if session.state == SessionState::Lost && session.turns == 0 {
        let mut prompts = lost::prompts(conn, listed.row, MAX_PROMPT_CHARS)?;
        session.turns = prompts.len() as u64;
        session.first_prompt = session.first_prompt.or_else(|| prompts.first().cloned());
        prompts.drain(..prompts.len().saturating_sub(LAST_PROMPTS));
        session.last_prompts = prompts;
    }
    Ok(session)
}

/// Returns the title of a session: set by a person or the agent, found in an index, or else the
/// beginning of the first prompt that is more than a command.
pub(crate) fn title(conn: &Connection, session: SessionRow) -> Result<Option<String>> {
    let mut statement = conn.prepare_cached(
        "SELECT coalesce(s.title,
                    (SELECT title FROM session_keys k
                      WHERE k.session_id = s.session_id AND k.format = s.format
                        AND k.agent = s.agent AND k.title IS NOT NULL
                      ORDER BY k.updated_at DESC LIMIT 1)),
                s.first_prompt
           FROM sessions s WHERE s.id = ?1",
    )?;
    let (given, first_prompt): (Option<String>, Option<String>) =
        statement.query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let title = given
        .map(Ok)
        .or_else(|| real_prompt(conn, session).transpose())
        .or_else(|| first_prompt.map(Ok))
        .or_else(|| lost_prompt(conn, session).transpose())
        .transpose()?;
    Ok(title.map(|title| one_line(&title)))
}

#[derive(Default)]
struct Files {
    lines: u64,
    size: u64,
    records: u64,
    modified_at: Option<i64>,
}

/// Returns the lines, size and time of the session's file that was written last, and the number of
/// records in all its files. The other files are archives and copies of it.
fn files(conn: &Connection, session: SessionRow) -> Result<Files> {
    let mut statement = conn.prepare_cached(concat!(
        "SELECT g.id, g.size, g.mtime_ns, g.tail_length, g.number, g.records, g.cursor,
                (SELECT sum(records) FROM generations all_of WHERE all_of.source = s.id)
           FROM session_sources ss
           JOIN sources s ON s.id = ss.source
           JOIN generations g ON g.id = s.generation
          WHERE ss.session = ?1 AND ",
        holds_transcript!("ss.part"),
        " ORDER BY g.mtime_ns DESC, g.id DESC",
    ))?;
    let mut rows = statement.query([session])?;
    let mut files = Files::default();
    let mut is_first = true;
    while let Some(row) = rows.next()? {
        let number = |index| row.get::<_, i64>(index).map(i64::cast_unsigned);
        files.records += number(7)?;
        if std::mem::take(&mut is_first) {
            files.size = number(6)? + number(3)?;
            files.modified_at = Some(row.get::<_, i64>(2)? / 1_000_000).filter(|time| *time > 0);
            let own = number(5)?;
            let is_first = row.get::<_, i64>(4)? == 1;
            files.lines = if is_first { own } else { lines(conn, row.get(0)?)? };
        }
    }
    Ok(files)
}

/// Returns the number of records of a generation, with those that it shares with earlier ones.
fn lines(conn: &Connection, generation: GenerationId) -> Result<u64> {
    let mut count = conn.prepare_cached(
        "SELECT count(*) FROM records
          WHERE generation = ?1 AND seq >= ?2 AND start >= ?3 AND start < ?4 AND seq < ?2 + ?5",
    )?;
    let mut lines = 0;
    for run in spans::runs(conn, generation)? {
        // A record has at least one byte, so a run has at most `length` records.
        let parameters = (
            run.owner,
            run.first_seq,
            run.owner_start.cast_signed(),
            (run.owner_start + run.length).cast_signed(),
            run.length.cast_signed(),
        );
        lines += count.query_row(parameters, |row| row.get::<_, i64>(0))?.cast_unsigned();
    }
    Ok(lines)
}

#[derive(Default)]
struct Turns {
    models: Vec<String>,
    branches: u64,
}

fn turns(conn: &Connection, session: SessionRow) -> Result<Turns> {
    let mut statement = conn.prepare_cached(concat!(
        "SELECT parent, model FROM turns WHERE session = ?1 ORDER BY ",
        order_by_line!("id", "")
    ))?;
    let found: Vec<(Option<EntryId>, Option<String>)> = statement
        .query_map([session], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut turns = Turns::default();
    let mut followed: BTreeSet<EntryId> = BTreeSet::new();
    for (parent, model) in found {
        // The first turn after a parent continues it. Each further one begins a branch.
        if let Some(parent) = parent
            && !followed.insert(parent)
        {
            turns.branches += 1;
        }
        turns.branches = turns.branches.max(1);
        if let Some(model) = model
            && !turns.models.contains(&model)
        {
            turns.models.push(model);
        }
    }
    Ok(turns)
}

/// Returns the prompt that is the title of a lost session.
fn lost_prompt(conn: &Connection, session: SessionRow) -> Result<Option<String>> {
    let prompts = lost::prompts(conn, session, MAX_PROMPT_CHARS)?;
    Ok(lost::descriptive_prompt(&prompts).cloned())
}

/// Returns the text as one line of limited length, as the agents shorten titles.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(MAX_TITLE_CHARS).collect()
}

/// Returns the most recently active session, without sub-agents and empty sessions if possible.
pub(crate) fn newest(conn: &Connection) -> Result<Option<SessionRow>> {
    let session = listed::all(conn)?.into_iter().find(|session| !session.is_minor);
    let any = "SELECT id FROM sessions ORDER BY updated_at DESC NULLS LAST, id DESC LIMIT 1";
    match session {
        Some(session) => Ok(Some(session.row)),
        None => Ok(conn.query_row(any, [], |row| row.get(0)).optional()?),
    }
}
