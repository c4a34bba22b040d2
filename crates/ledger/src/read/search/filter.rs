//! The filters of a query: conditions on a hit other than its words.
//!
//! Sets of sessions, kinds and calls are read once. For each hit only its row is read, never its
//! text.

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use quipu_fts5::Matches;
use quipu_transcript::entry::Role;
use quipu_transcript::format;
use quipu_transcript::project::Name;
use quipu_transcript::search::query::{Condition, Filter, Place};
use rusqlite::{Connection, OptionalExtension};

use super::columns;
use super::outputs::Outputs;
use crate::Result;
use crate::base::ids::{EntryId, SessionRow};
use crate::project::interned::kinds::KindId;
use crate::read::query::listed;
use crate::read::query::originals::Originals;

/// All filters of a query, ready to be applied.
pub(crate) struct Filters<'c> {
    conn: &'c Connection,
    /// The sessions that pass, or `None` if no filter concerns sessions.
    sessions: Option<HashSet<SessionRow>>,
    rules: Rules,
    roles: Vec<(bool, Role)>,
    errors: Option<(bool, HashSet<EntryId>)>,
    /// Calls of the tools, their results and the files with their output.
    calls: Vec<(bool, HashSet<EntryId>)>,
    files: Vec<(bool, FileEntries)>,
    since: Option<i64>,
    until: Option<i64>,
    places: Vec<Place>,
    /// Sessions whose entries are hits only if the imported session lacks them.
    originals: Originals,
    kinds: HashMap<KindId, EntryKind>,
}

struct EntryKind {
    form: String,
    role: String,
    is_error: bool,
    is_automatic: bool,
}

/// Entries and turns that used a file.
#[derive(Default)]
struct FileEntries {
    /// Calls and their results.
    entries: HashSet<EntryId>,
    turns: HashSet<EntryId>,
}

impl FileEntries {
    fn add(&mut self, other: FileEntries) {
        self.entries.extend(other.entries);
        self.turns.extend(other.turns);
    }
}

struct Row {
    session: Option<SessionRow>,
    kind: KindId,
    turn: Option<EntryId>,
    time: Option<i64>,
}

impl Row {
    fn read(row: &rusqlite::Row<'_>, from: usize) -> rusqlite::Result<Row> {
        Ok(Row {
            session: row.get(from)?,
            kind: row.get(from + 1)?,
            turn: row.get(from + 2)?,
            time: row.get(from + 3)?,
        })
    }
}

/// The smallest number of matches for which all rows are read in order. For fewer, looking up each
/// row by its id is less work.
const MIN_FOR_FULL_READ: usize = 50_000;

impl<'c> Filters<'c> {
    /// Reads the sets that the filters need. With `has_words`, `file:` also matches the other
    /// entries of a turn; without, only the calls themselves.
    pub(crate) fn new(
        conn: &'c Connection,
        filters: &[Filter],
        places: &[Place],
        has_words: bool,
    ) -> Result<Filters<'c>> {
        let mut all = Filters {
            conn,
            sessions: None,
            rules: Rules::default(),
            roles: Vec::new(),
            errors: None,
            calls: Vec::new(),
            files: Vec::new(),
            since: None,
            until: None,
            places: places.to_vec(),
            originals: match filters
                .iter()
                .any(|filter| matches!(filter.condition, Condition::Format(_)))
            {
                true => Originals::default(),
                false => Originals::read(conn)?,
            },
            kinds: kinds(conn)?,
        };
        // Failures and output are stored with results, not with calls.
        let asks_for_results = has_words
            || places.contains(&Place::Result)
            || filters.iter().any(|filter| {
                matches!(filter.condition, Condition::Error | Condition::Role(Role::Tool))
            });
        let mut calls: HashMap<bool, HashSet<EntryId>> = HashMap::new();
        let mut files: HashMap<bool, FileEntries> = HashMap::new();
        for Filter { is_negated, condition } in filters {
            let not = *is_negated;
            match condition {
                Condition::Role(role) => all.roles.push((not, *role)),
                Condition::Error => all.errors = Some((not, failed_results(conn)?)),
                Condition::Since(at) if not => {
                    all.until = Some(all.until.map_or(*at, |old| old.min(*at)))
                }
                Condition::Until(at) if not => {
                    all.since = Some(all.since.map_or(*at, |old| old.max(*at)))
                }
                Condition::Since(at) => all.since = Some(all.since.map_or(*at, |old| old.max(*at))),
                Condition::Until(at) => all.until = Some(all.until.map_or(*at, |old| old.min(*at))),
                Condition::Tool(name) => {
                    add_calls_of_tool(conn, name, calls.entry(not).or_default())?
                }
                Condition::File(path) => {
                    let used = entries_of_file(conn, path, has_words, asks_for_results)?;
                    files.entry(not).or_default().add(used);
                }
                rule => all.rules.add(conn, not, rule)?,
            }
        }
        all.calls.extend(calls);
        all.files.extend(files);
        if !all.rules.is_empty() {
            all.sessions = Some(sessions(conn, &all.rules)?);
        }
        Ok(all)
    }

    /// Returns whether every entry passes.
    pub(crate) fn is_empty(&self) -> bool {
        self.sessions.is_none()
            && self.roles.is_empty()
            && self.errors.is_none()
            && self.calls.is_empty()
            && self.files.is_empty()
            && self.originals.is_empty()
            && self.since.is_none()
            && self.until.is_none()
            && !self
                .places
                .iter()
                .any(|place| matches!(place, Place::Notes | Place::Cron | Place::Prompts))
    }

    /// Returns the sessions that pass, or `None` if no filter concerns sessions.
    pub(crate) fn sessions(&self) -> Option<&HashSet<SessionRow>> {
        self.sessions.as_ref()
    }

    /// Removes the matches that do not pass.
    pub(crate) fn apply(&self, matches: &mut Matches) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let outputs = Outputs::read(self.conn)?;
        let mut one = self
            .conn
            .prepare_cached("SELECT session, kind, turn, time FROM entry_rows WHERE id = ?1")?;
        let mut look_up = |described_by: EntryId, found_in: u8| match one
            .query_row([described_by], |row| Row::read(row, 0))
            .optional()?
        {
            Some(row) => self.passes(described_by, &row, found_in),
            None => Ok(false),
        };
        if matches.len() < MIN_FOR_FULL_READ {
            return matches.try_retain(|rowid, found_in| {
                let entry = EntryId::from(rowid);
                // The check that needs no row comes first.
                Ok(self.passes_calls(entry) && look_up(outputs.described_by(entry), found_in)?)
            });
        }
        let mut statement = self.conn.prepare_cached(
            "SELECT id, session, kind, turn, time FROM entry_rows WHERE id >= ?1 ORDER BY id",
        )?;
        let mut rows = statement.query([matches.rowids().next()])?;
        let mut last: Option<(EntryId, Row)> = None;
        matches.try_retain(|rowid, found_in| {
            let entry = EntryId::from(rowid);
            while last.as_ref().is_none_or(|(id, _)| *id < entry) {
                match rows.next()? {
                    Some(row) => last = Some((row.get(0)?, Row::read(row, 1)?)),
                    None => return Ok(false),
                }
            }
            let described_by = outputs.described_by(entry);
            match &last {
                _ if !self.passes_calls(entry) => Ok(false),
                _ if described_by != entry => look_up(described_by, found_in),
                Some((id, row)) if *id == entry => self.passes(entry, row, found_in),
                _ => Ok(false),
            }
        })
    }

    fn passes_calls(&self, entry: EntryId) -> bool {
        self.calls.iter().all(|(not, set)| set.contains(&entry) != *not)
    }

    /// Returns whether an entry that was found in these columns passes.
    fn passes(&self, entry: EntryId, row: &Row, found_in: u8) -> Result<bool> {
        let kind = self.kinds.get(&row.kind);
        if !self.is_in_time(row)
            || !self.is_in_place(kind, found_in)
            || !self.has_role(kind, found_in)
        {
            return Ok(false);
        }
        if let Some((not, failed)) = &self.errors {
            let is_error = kind.is_some_and(|kind| kind.is_error) || failed.contains(&entry);
            if is_error == *not {
                return Ok(false);
            }
        }
        for (not, used) in &self.files {
            let is_touched = used.entries.contains(&entry)
                || row.turn.is_some_and(|turn| used.turns.contains(&turn));
            if is_touched == *not {
                return Ok(false);
            }
        }
        if let Some(session) = row.session
            && self.originals.has_copy(self.conn, session, entry)?
        {
            return Ok(false);
        }
        match (&self.sessions, row.session) {
            (None, _) => Ok(true),
            (Some(sessions), Some(session)) => Ok(sessions.contains(&session)),
            (Some(_), None) => self.passes_without_session(entry),
        }
    }

    fn is_in_time(&self, row: &Row) -> bool {
        if self.since.is_none() && self.until.is_none() {
            return true;
        }
        row.time.is_some_and(|time| {
            self.since.is_none_or(|since| time >= since)
                && self.until.is_none_or(|until| time < until)
        })
    }

    fn is_in_place(&self, kind: Option<&EntryKind>, found_in: u8) -> bool {
        let form = kind.map_or("", |kind| kind.form.as_str());
        self.places.is_empty()
            || self.places.iter().any(|place| match place {
                Place::Text => found_in & columns::PROSE != 0,
                Place::Input => found_in & columns::TOOL_INPUT != 0,
                Place::Result => found_in & columns::TOOL_RESULT != 0,
                Place::Attached => found_in & columns::ATTACHED != 0,
                Place::Thinking => found_in & columns::THINKING != 0,
                Place::Notes => form == "note",
                Place::Cron => matches!(form, "cron_run" | "cron_jobs"),
                Place::Prompts => form == "prompt",
            })
    }

    fn has_role(&self, kind: Option<&EntryKind>, found_in: u8) -> bool {
        let role = match kind {
            // A program wrote this prompt.
            Some(kind) if kind.is_automatic => "system",
            kind => kind.map_or("", |kind| kind.role.as_str()),
        };
        // Prose next to a tool's result was written by the human.
        let speaks = |wanted: &Role| match (wanted, role) {
            (Role::User, "tool") => found_in & columns::PROSE != 0,
            (Role::Tool, "tool") => found_in == 0 || found_in & columns::TOOL_RESULT != 0,
            (wanted, role) => wanted.as_str() == role,
        };
        let mut wanted = self.roles.iter().filter(|(not, _)| !not).map(|(_, role)| role).peekable();
        let is_wanted = wanted.peek().is_none() || wanted.any(speaks);
        is_wanted && !self.roles.iter().any(|(not, role)| *not && speaks(role))
    }

    /// Returns whether an entry without a session (a note, a job, a prompt) passes the session
    /// filters.
    fn passes_without_session(&self, entry: EntryId) -> Result<bool> {
        let described = self
            .conn
            .prepare_cached(
                "SELECT s.format, coalesce(d.agent, ''), p.slug
                   FROM entry_rows e
                   LEFT JOIN documents d ON d.id = e.id
                   LEFT JOIN prompts p ON p.id = e.id
                   LEFT JOIN records r ON r.seq = e.id
                   LEFT JOIN generations g ON g.id = r.generation
                   LEFT JOIN sources s ON s.id = g.source
                  WHERE e.id = ?1",
            )?
            .query_row([entry], |row| {
                Ok(SessionFields {
                    format: row.get::<_, Option<String>>(0)?.unwrap_or_default(),
                    agent: row.get(1)?,
                    project: row.get(2)?,
                    ..SessionFields::default()
                })
            })
            .optional()?;
        Ok(described.is_some_and(|described| self.rules.passes(&described)))
    }
}

fn kinds(conn: &Connection) -> Result<HashMap<KindId, EntryKind>> {
    let mut statement =
        conn.prepare_cached("SELECT id, form, role, is_error, is_automatic FROM kinds")?;
    let kinds = statement.query_map([], |row| {
        let kind = EntryKind {
            form: row.get(1)?,
            role: row.get(2)?,
            is_error: row.get(3)?,
            is_automatic: row.get(4)?,
        };
        Ok((row.get(0)?, kind))
    })?;
    Ok(kinds.collect::<Result<_, _>>()?)
}

/// Returns the results that the agent recorded as failed.
fn failed_results(conn: &Connection) -> Result<HashSet<EntryId>> {
    let mut statement = conn.prepare_cached(
        "SELECT result FROM tool_call_rows WHERE is_error = 1 AND result IS NOT NULL",
    )?;
    Ok(statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// Adds calls of a tool, their results and the files with their output. `mcp__*` matches many
/// tools.
fn add_calls_of_tool(conn: &Connection, name: &str, found: &mut HashSet<EntryId>) -> Result<()> {
    let (name, is_prefix) = match name.strip_suffix('*') {
        Some(start) => (start, true),
        None => (name, false),
    };
    let mut statement = conn.prepare_cached(
        "SELECT entry, result, output FROM tool_calls
          WHERE CASE WHEN ?2 THEN lower(substr(tool, 1, length(?1))) = lower(?1)
                     ELSE tool = ?1 COLLATE NOCASE END",
    )?;
    let mut rows = statement.query((name, is_prefix))?;
    while let Some(row) = rows.next()? {
        for index in 0..3 {
            found.extend(row.get::<_, Option<EntryId>>(index)?);
        }
    }
    Ok(())
}

/// Returns the calls that used a file, on request with their results and turns. `path` is any part
/// of the file's path.
fn entries_of_file(
    conn: &Connection,
    path: &str,
    with_turns: bool,
    with_results: bool,
) -> Result<FileEntries> {
    let mut found = FileEntries::default();
    let mut statement = conn.prepare_cached(
        "SELECT c.entry, c.result, c.output, CASE WHEN ?2 THEN e.turn END
           FROM tool_call_rows c CROSS JOIN entry_rows e ON e.id = c.entry
          WHERE iif(typeof(c.target) = 'integer',
                    c.target IN (SELECT id FROM targets WHERE instr(lower(text), lower(?1)) > 0),
                    instr(lower(c.target), lower(?1)) > 0
                    -- The target of a call that starts a sub-agent is its prompt, and no file.
                    AND NOT EXISTS (SELECT 1 FROM spawned_agents a
                                     WHERE a.session = c.session AND a.call_id = c.call)
                    AND NOT EXISTS (SELECT 1
                                      FROM sessions parent
                                      JOIN sessions child ON child.parent_session_id = parent.session_id
                                     WHERE parent.id = c.session AND child.parent_call = c.call))",
    )?;
    let mut rows = statement.query((path, with_turns))?;
    while let Some(row) = rows.next()? {
        for index in 0..if with_results { 3 } else { 1 } {
            found.entries.extend(row.get::<_, Option<EntryId>>(index)?);
        }
        if with_turns {
            found.turns.extend(row.get::<_, Option<EntryId>>(3)?);
        }
    }
    Ok(found)
}

/// The values that rules compare, of a session or of an entry without one.
#[derive(Default)]
struct SessionFields {
    row: Option<SessionRow>,
    format: String,
    agent: String,
    agent_type: Option<String>,
    session: String,
    project: Option<String>,
    compactions: i64,
}

/// The rules for sessions. The flag of a rule is true if it is negated.
#[derive(Default)]
struct Rules(Vec<(bool, Rule)>);

enum Rule {
    /// The sessions of the project, and its name for entries without a session.
    Project(HashSet<SessionRow>, Name),
    Agent(String),
    OnlyAgent(String),
    Format(String),
    Session(String),
    Compaction,
}

impl Rules {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, conn: &Connection, is_negated: bool, condition: &Condition) -> Result<()> {
        let rule = match condition {
            Condition::Project(text) => {
                let name = Name::new(text);
                let project = Some(name.clone());
                let filter = listed::Filter { project, all: true, ..listed::Filter::default() };
                let sessions = listed::filtered(conn, &filter)?;
                Rule::Project(sessions.iter().map(|session| session.row).collect(), name)
            }
            Condition::Agent(name) => Rule::Agent(name.clone()),
            Condition::OnlyAgent(name) => Rule::OnlyAgent(name.clone()),
            Condition::Format(name) => Rule::Format(name.to_lowercase().replace(' ', "-")),
            Condition::Session(id) => Rule::Session(id.clone()),
            _ => Rule::Compaction,
        };
        self.0.push((is_negated, rule));
        Ok(())
    }

    /// Returns whether a session passes. Of several rules of one kind, one must hold. No negated
    /// rule may hold.
    fn passes(&self, described: &SessionFields) -> bool {
        let kind = |rule: &Rule| std::mem::discriminant(rule);
        self.0.iter().all(|(not, rule)| match not {
            true => !rule.holds(described),
            false => self
                .0
                .iter()
                .any(|(not, other)| !not && kind(other) == kind(rule) && other.holds(described)),
        })
    }
}

impl Rule {
    fn holds(&self, described: &SessionFields) -> bool {
        match self {
            Rule::Project(sessions, name) => match described.row {
                Some(row) => sessions.contains(&row),
                None => name.closeness(None, described.project.as_deref()).is_some(),
            },
            Rule::Agent(name) => {
                let kind = described.agent_type.as_deref().unwrap_or_default();
                kind.eq_ignore_ascii_case(name)
                    || format::is_agent(name, &described.format, &described.agent)
            }
            Rule::OnlyAgent(name) => format::is_agent(name, &described.format, &described.agent),
            Rule::Format(name) => described.format.starts_with(name.as_str()),
            Rule::Session(id) => described.session.starts_with(id.as_str()),
            Rule::Compaction => described.compactions > 0,
        }
    }
}

/// Returns the sessions that pass.
fn sessions(conn: &Connection, rules: &Rules) -> Result<HashSet<SessionRow>> {
    let mut statement = conn.prepare_cached(
        "SELECT id, format, agent, agent_type, session_id, compactions FROM sessions",
    )?;
    let mut rows = statement.query([])?;
    let mut passing = HashSet::new();
    while let Some(row) = rows.next()? {
        let described = SessionFields {
            row: row.get(0)?,
            format: row.get(1)?,
            agent: row.get(2)?,
            agent_type: row.get(3)?,
            session: row.get(4)?,
            project: None,
            compactions: row.get(5)?,
        };
        if rules.passes(&described) {
            passing.insert(row.get(0)?);
        }
    }
    Ok(passing)
}
