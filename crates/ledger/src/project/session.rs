//! The `sessions` table: one row per conversation, kept in memory while its records are projected.
//!
//! Never removes a session.

use quipu_transcript::entry::TitleRank;
use quipu_transcript::format::{Format, Origin, Part};
use rusqlite::{Connection, OptionalExtension, Row};

use super::draft::Fact;
use super::keys;
use super::tree::{Adopted, KnownEntry};
use crate::Result;
use crate::base::ids::{EntryId, PackedId, SessionRow, SourceId};
use crate::wire::SessionState;

/// The largest length of a first prompt in characters, because it is shown in lists.
const MAX_PROMPT_CHARS: usize = 500;

/// The largest number of one session's entries in memory.
const MAX_ENTRIES_IN_MEMORY: usize = 128 << 10;

/// A session while its records are projected.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) row: SessionRow,
    pub(crate) columns: Columns,
    pub(crate) is_dirty: bool,
    /// True if the session has no row yet.
    is_new: bool,
    /// True if a file was added, so that the session's state may have changed.
    pub(crate) has_new_source: bool,
    /// True if everything about the session is in memory, because the ledger had nothing of it
    /// before.
    pub(crate) is_complete: bool,
    pub(crate) tree: super::tree::Tree,
    pub(crate) calls: super::tools::Calls,
    pub(crate) usage: super::usage::SessionUsage,
}

/// The columns of a session's row that records change.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) part: String,
    pub(crate) parent_session_id: Option<String>,
    pub(crate) parent_call: Option<String>,
    pub(crate) agent_type: Option<String>,
    pub(crate) fork_of: Option<String>,
    pub(crate) continued_in: Option<String>,
    pub(crate) slug: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) git_branch: Option<String>,
    pub(crate) client_version: Option<String>,
    pub(crate) header_version: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) title_rank: Option<i64>,
    pub(crate) first_prompt: Option<String>,
    pub(crate) first_turn: Option<EntryId>,
    pub(crate) pull_request: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) started_at: Option<i64>,
    pub(crate) last_entry_at: Option<i64>,
    pub(crate) entries: i64,
    pub(crate) turns: i64,
    /// The number of turns that no person began.
    pub(crate) automatic_turns: i64,
    pub(crate) messages: i64,
    pub(crate) tool_calls: i64,
    pub(crate) compactions: i64,
    pub(crate) leaf: Option<EntryId>,
    /// As text, so that SQL shows it as every view shows ids.
    pub(crate) first_uuid: Option<String>,
    /// The time of the first line, if it has no entry id: copying a session repeats only lines that
    /// have one, so this line is the session's own.
    pub(crate) opened_at: Option<i64>,
    /// True if the first entry is older than `opened_at`, or names the session that it was copied
    /// from. Decided at the first entry, so that no later line changes which copy of a response is
    /// counted.
    pub(crate) is_copy: bool,
}

/// The name of a session: format, agent, id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) format: &'static str,
    pub(crate) agent: String,
    pub(crate) id: String,
}

impl Name {
    /// Returns the session of a file, if its path names one.
    pub(crate) fn of(format: &dyn Format, origin: &Origin) -> Option<Name> {
        Some(Name {
            format: format.name(),
            agent: origin.agent.clone().unwrap_or_default(),
            id: origin.session.clone()?,
        })
    }
}

/// Returns the precedence of a part: the part with the highest one is the session's.
fn precedence(part: &str) -> u8 {
    match part {
        "transcript" => 4,
        "agent" => 3,
        "subagent" => 2,
        _ => 1,
    }
}

/// Returns the kind of session that a part belongs to.
fn session_part(part: Part) -> &'static str {
    match part {
        Part::Transcript | Part::ToolOutput | Part::Title => "transcript",
        Part::Agent => "agent",
        Part::Subagent | Part::SubagentMeta => "subagent",
        Part::Trajectory => "trajectory",
        Part::PromptHistory
        | Part::Pasted
        | Part::Index
        | Part::Database
        | Part::CronJobs
        | Part::CronRuns
        | Part::Note => "prompt_history",
    }
}

impl Session {
    /// Returns a session that is new to the ledger.
    pub(crate) fn new(row: SessionRow) -> Session {
        Session {
            row,
            columns: Columns::default(),
            is_dirty: true,
            is_new: true,
            has_new_source: false,
            is_complete: true,
            tree: Default::default(),
            calls: Default::default(),
            usage: Default::default(),
        }
    }

    /// Returns the session with that name.
    pub(crate) fn load(conn: &Connection, name: &Name) -> Result<Option<Session>> {
        let found = conn
            .prepare_cached(
                "SELECT id, part, parent_session_id, parent_call, agent_type, fork_of, continued_in,
                        slug, cwd, git_branch, client_version, header_version, title,
                        title_rank, first_prompt, pull_request, model, started_at, last_entry_at,
                        entries, turns, messages, tool_calls, compactions, leaf, first_uuid,
                        first_turn, opened_at, is_copy, automatic_turns
                   FROM sessions WHERE format = ?1 AND agent = ?2 AND session_id = ?3",
            )?
            .query_row((name.format, &name.agent, &name.id), |row| {
                Ok((row.get(0)?, Columns::from_row(row)?))
            })
            .optional()?;
        Ok(found.map(|(row, columns)| Session {
            row,
            // A session known only from a prompt list has no entries in the ledger.
            is_complete: columns.entries == 0,
            columns,
            is_dirty: false,
            is_new: false,
            has_new_source: false,
            tree: Default::default(),
            calls: Default::default(),
            usage: Default::default(),
        }))
    }

    /// Adds a source of the session, and the facts in its path.
    pub(crate) fn add_source(
        &mut self,
        conn: &Connection,
        source: SourceId,
        origin: &Origin,
    ) -> Result<()> {
        let added = conn
            .prepare_cached(
                "INSERT OR IGNORE INTO session_sources (session, source, part) VALUES (?1, ?2, ?3)",
            )?
            .execute((self.row, source, origin.part.as_str()))?;
        self.has_new_source |= added > 0;
        self.is_dirty = true;
        let part = session_part(origin.part);
        if precedence(part) > precedence(&self.columns.part) || self.columns.part.is_empty() {
            self.columns.part = part.to_owned();
        }
        for (column, value) in [
            (&mut self.columns.parent_session_id, &origin.parent),
            (&mut self.columns.slug, &origin.project),
        ] {
            if column.is_none() {
                column.clone_from(value);
            }
        }
        Ok(())
    }

    /// Returns the newest entry with that id.
    pub(crate) fn find(
        &mut self,
        conn: &Connection,
        uuid: &PackedId,
    ) -> Result<Option<KnownEntry>> {
        self.tree.find(conn, self.row, self.is_complete, uuid)
    }

    /// Adds a new entry, and attaches the children that waited for it.
    pub(crate) fn add_entry(
        &mut self,
        conn: &Connection,
        uuid: &PackedId,
        known: KnownEntry,
    ) -> Result<Adopted> {
        self.tree.insert(uuid, known);
        self.tree.adopt(conn, self.row, self.is_complete, uuid, known.id)
    }

    /// Stores a fact about the session.
    pub(crate) fn set_fact(&mut self, fact: &Fact) {
        /// Keeps the first value.
        fn first(column: &mut Option<String>, value: &str) -> bool {
            if column.is_some() || value.is_empty() {
                return false;
            }
            *column = Some(value.to_owned());
            true
        }
        /// Keeps the last value.
        fn last(column: &mut Option<String>, value: &str) -> bool {
            if value.is_empty() || column.as_deref() == Some(value) {
                return false;
            }
            *column = Some(value.to_owned());
            true
        }
        let columns = &mut self.columns;
        self.is_dirty |= match fact {
            Fact::Cwd(cwd) => first(&mut columns.cwd, cwd),
            Fact::ClientVersion(version) => last(&mut columns.client_version, version),
            Fact::GitBranch(branch) => last(&mut columns.git_branch, branch),
            Fact::HeaderVersion(version) => first(&mut columns.header_version, version),
            Fact::ForkOf(original) => first(&mut columns.fork_of, original),
            Fact::ContinuedIn(id) => last(&mut columns.continued_in, id),
            Fact::SpawnedByCall(call) => last(&mut columns.parent_call, call),
            Fact::ParentSession(parent) => first(&mut columns.parent_session_id, parent),
            Fact::AgentType(kind) => last(&mut columns.agent_type, kind),
            Fact::PullRequest(url) => last(&mut columns.pull_request, url),
            Fact::Title(rank, title) => columns.set_title(*rank, title),
            Fact::Summary { title, .. } => columns.set_title(TitleRank::Summary, title),
            Fact::SessionId(_) | Fact::Spawned { .. } | Fact::UsageTotal(_) => false,
        };
    }

    /// Stores the time and the id with which the session begins. Lines after the first entry with
    /// an id change nothing.
    pub(crate) fn note_beginning(&mut self, uuid: Option<&PackedId>, time: Option<i64>) {
        let columns = &mut self.columns;
        if columns.first_uuid.is_some() {
            return;
        }
        match uuid {
            None => columns.opened_at = columns.opened_at.or(time),
            Some(uuid) => {
                let is_older = columns.opened_at.zip(time).is_some_and(|(own, first)| first < own);
                columns.is_copy = is_older || columns.fork_of.is_some();
                columns.first_uuid = Some(uuid.unpack());
            }
        }
    }

    /// Widens the session's time range to include `time`.
    pub(crate) fn widen_time_range(&mut self, time: Option<i64>) {
        let Some(time) = time else { return };
        let columns = &mut self.columns;
        if columns.started_at.is_none_or(|start| time < start) {
            columns.started_at = Some(time);
            self.is_dirty = true;
        }
        if columns.last_entry_at.is_none_or(|end| time > end) {
            columns.last_entry_at = Some(time);
            self.is_dirty = true;
        }
    }

    /// Stores the first prompt. A newer version of it, which has the same turn, replaces it. The
    /// first prompt of a person replaces one that no person wrote.
    pub(crate) fn set_first_prompt(
        &mut self,
        turn: Option<EntryId>,
        text: &str,
        is_automatic: bool,
    ) {
        let columns = &mut self.columns;
        let is_first_of_person = !is_automatic && columns.turns - columns.automatic_turns == 1;
        let is_first =
            columns.first_prompt.is_none() || columns.first_turn == turn || is_first_of_person;
        if is_first && !text.is_empty() {
            columns.first_prompt = Some(text.chars().take(MAX_PROMPT_CHARS).collect());
            columns.first_turn = turn;
            self.is_dirty = true;
        }
    }

    /// Drops the in-memory state of a very long session. From then on, the ledger is queried.
    pub(crate) fn bound_memory(&mut self, conn: &Connection) -> Result<()> {
        if self.tree.len() > MAX_ENTRIES_IN_MEMORY {
            self.calls.save(conn, self.row)?;
            self.tree = Default::default();
            self.calls = Default::default();
            self.is_complete = false;
        }
        Ok(())
    }

    /// Writes the row. `states` updates its state later.
    pub(crate) fn save(&mut self, conn: &Connection, name: &Name) -> Result<()> {
        if !self.is_dirty {
            return Ok(());
        }
        let link = keys::load_link(conn, name)?.unwrap_or_default();
        let c = &self.columns;
        conn.prepare_cached(
            "INSERT INTO sessions
                (id, format, agent, session_id, part, state, parent_session_id, parent_call, agent_type,
                 fork_of, continued_in, slug, cwd, git_branch, client_version, header_version,
                 title, title_rank, first_prompt, pull_request, model, started_at, updated_at,
                 entries, turns, messages, tool_calls, compactions, leaf, first_uuid, session_key,
                 parent_agent, first_turn, opened_at, is_copy, automatic_turns, last_entry_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
                     ?18, ?19, ?20, ?21, ?22,
                     (SELECT max(time)
                        FROM (SELECT ?23 AS time
                               UNION ALL
                              SELECT updated_at FROM session_keys
                               WHERE format = ?2 AND agent = ?3 AND session_id = ?4)),
                     ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32,
                     ?33, ?34, ?35, ?36, ?23)
             ON CONFLICT (id) DO UPDATE SET
                part = ?5, parent_session_id = ?7, parent_call = ?8, agent_type = ?9,
                fork_of = ?10, continued_in = ?11, slug = ?12, cwd = ?13, git_branch = ?14,
                client_version = ?15, header_version = ?16, title = ?17, title_rank = ?18,
                first_prompt = ?19, pull_request = ?20, model = ?21, started_at = ?22,
                updated_at = excluded.updated_at, last_entry_at = ?23, entries = ?24,
                turns = ?25, messages = ?26, tool_calls = ?27,
                compactions = ?28, leaf = ?29, first_uuid = ?30, session_key = ?31, parent_agent = ?32,
                first_turn = ?33, opened_at = ?34, is_copy = ?35,
                automatic_turns = ?36",
        )?
        .execute(rusqlite::params![
            self.row,
            name.format,
            name.agent,
            name.id,
            if link.is_subagent { "subagent" } else { c.part.as_str() },
            SessionState::Lost,
            c.parent_session_id.as_ref().or(link.parent_session_id.as_ref()),
            c.parent_call,
            c.agent_type,
            c.fork_of,
            c.continued_in,
            c.slug,
            c.cwd,
            c.git_branch,
            c.client_version,
            c.header_version,
            c.title,
            c.title_rank,
            c.first_prompt,
            c.pull_request,
            c.model,
            c.started_at,
            c.last_entry_at,
            c.entries,
            c.turns,
            c.messages,
            c.tool_calls,
            c.compactions,
            c.leaf,
            c.first_uuid,
            link.key,
            link.parent_agent,
            c.first_turn,
            c.opened_at,
            c.is_copy,
            c.automatic_turns,
        ])?;
        self.is_dirty = false;
        match std::mem::take(&mut self.is_new) {
            true => keys::choose_again(conn, name),
            false => Ok(()),
        }
    }
}

impl Columns {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Columns> {
        Ok(Columns {
            part: row.get("part")?,
            parent_session_id: row.get("parent_session_id")?,
            parent_call: row.get("parent_call")?,
            agent_type: row.get("agent_type")?,
            fork_of: row.get("fork_of")?,
            continued_in: row.get("continued_in")?,
            slug: row.get("slug")?,
            cwd: row.get("cwd")?,
            git_branch: row.get("git_branch")?,
            client_version: row.get("client_version")?,
            header_version: row.get("header_version")?,
            title: row.get("title")?,
            title_rank: row.get("title_rank")?,
            first_prompt: row.get("first_prompt")?,
            pull_request: row.get("pull_request")?,
            model: row.get("model")?,
            started_at: row.get("started_at")?,
            last_entry_at: row.get("last_entry_at")?,
            entries: row.get("entries")?,
            turns: row.get("turns")?,
            messages: row.get("messages")?,
            tool_calls: row.get("tool_calls")?,
            compactions: row.get("compactions")?,
            leaf: row.get("leaf")?,
            first_uuid: row.get("first_uuid")?,
            first_turn: row.get("first_turn")?,
            opened_at: row.get("opened_at")?,
            is_copy: row.get("is_copy")?,
            automatic_turns: row.get("automatic_turns")?,
        })
    }

    /// Sets the title, unless the session has a title of a higher rank. An empty title removes the
    /// title in the same way. Returns whether anything changed.
    fn set_title(&mut self, rank: TitleRank, title: &str) -> bool {
        let rank = rank as i64;
        if self.title_rank.is_some_and(|known| known > rank) {
            return false;
        }
        let title = (!title.trim().is_empty()).then(|| title.to_owned());
        let rank = title.is_some().then_some(rank);
        if (self.title.as_ref(), self.title_rank) == (title.as_ref(), rank) {
            return false;
        }
        (self.title, self.title_rank) = (title, rank);
        true
    }
}
