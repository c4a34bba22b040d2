//! Last lines of files that have no newline yet.
//!
//! The projection does not count them. Each query adds them as if their newlines were there. Few
//! files end so; without any, this costs one lookup in an empty range of the entries. Nothing here
//! is stored.

use std::sync::Arc;

use foldhash::HashMap;
use rusqlite::{Connection, OptionalExtension};

use crate::Result;
use crate::base::ids::{EntryId, GenerationId, PackedId, SessionRow};
use crate::project::draft::{Detail, DraftEntry, DraftParent};
use crate::project::entry::is_node;
use crate::project::session::Name;
use crate::project::tail;

/// A last line that has no newline yet and can be decoded.
#[derive(Debug)]
pub(crate) struct Tail {
    /// The provisional entry.
    pub(crate) id: EntryId,
    /// The session of the line. `None` if the line is the only one of its session.
    pub(crate) session: Option<SessionRow>,
    /// The name of its session.
    pub(crate) name: Option<Name>,
    /// The folder of the project, if the path has it.
    pub(crate) slug: Option<String>,
    pub(crate) entry: DraftEntry,
    /// The turn of the line, unless it begins one.
    pub(crate) turn: Option<EntryId>,
    /// True if the session has an entry of this id: the line repeats or replaces it.
    is_known: bool,
}

/// Returns all last lines.
pub(crate) fn all(conn: &Connection) -> Result<Vec<Tail>> {
    read(
        conn,
        "SELECT id, session, turn FROM entry_rows WHERE id < 0 AND ?1 IS NULL ORDER BY id",
        None,
    )
}

/// Returns the last lines of a session. They are looked up by id: few entries are provisional, and
/// a session may have many entries.
pub(crate) fn of(conn: &Connection, session: SessionRow) -> Result<Vec<Tail>> {
    read(
        conn,
        "SELECT id, session, turn FROM entry_rows WHERE id < 0 AND +session = ?1",
        Some(session),
    )
}

/// Returns all last lines, by session.
pub(crate) fn by_session(conn: &Connection) -> Result<HashMap<SessionRow, Vec<Arc<Tail>>>> {
    let mut sessions: HashMap<SessionRow, Vec<Arc<Tail>>> = HashMap::default();
    for tail in all(conn)? {
        if let Some(session) = tail.session {
            sessions.entry(session).or_default().push(Arc::new(tail));
        }
    }
    Ok(sessions)
}

/// Returns the number of transcripts whose last bytes are not a readable line, or may still change.
pub(crate) fn unreadable(conn: &Connection) -> Result<u64> {
    let count: i64 = conn
        .prepare_cached(
            "SELECT count(*)
               FROM (SELECT DISTINCT generation AS id FROM tails) t
               JOIN generations g ON g.id = t.id AND g.tail_length > 0
               JOIN sources s ON s.id = g.source AND s.generation = g.id AND s.is_gone = 0
              WHERE NOT EXISTS (SELECT 1 FROM entry_rows e WHERE e.id = -g.id)
                AND EXISTS (SELECT 1 FROM session_sources ss
                             WHERE ss.source = s.id
                               AND ss.part IN ('transcript', 'agent', 'subagent'))",
        )?
        .query_row([], |row| row.get(0))?;
    Ok(count.cast_unsigned())
}

fn read(conn: &Connection, sql: &str, session: Option<SessionRow>) -> Result<Vec<Tail>> {
    let rows: Vec<(EntryId, Option<SessionRow>, Option<EntryId>)> = conn
        .prepare_cached(sql)?
        .query_map([session], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<Result<_, _>>()?;
    let mut tails = Vec::with_capacity(rows.len());
    for (id, session, last_turn) in rows {
        let Some(read) = tail::read(conn, GenerationId(-id.0))? else { continue };
        let session = match (session, &read.name) {
            (None, Some(name)) => session_of(conn, name)?,
            (session, _) => session,
        };
        let is_known = match (session, &read.entry.uuid) {
            (Some(session), Some(uuid)) => entry_of(conn, session, uuid)?.is_some(),
            _ => false,
        };
        let tail::TailContent { name, slug, entry, .. } = read;
        let mut tail = Tail { id, session, name, slug, entry, turn: None, is_known };
        let above = match tail.parent(conn, None)? {
            Some(parent) => turn_of(conn, parent)?,
            None => None,
        };
        tail.turn = match (above, &tail.entry.parent) {
            (Some(turn), _) => Some(turn),
            (None, DraftParent::Root) => None,
            (None, _) => last_turn,
        };
        tails.push(tail);
    }
    Ok(tails)
}

/// Returns the session of that name. Another file may have begun it.
fn session_of(conn: &Connection, name: &Name) -> Result<Option<SessionRow>> {
    Ok(conn
        .prepare_cached(
            "SELECT id FROM sessions WHERE format = ?1 AND agent = ?2 AND session_id = ?3",
        )?
        .query_row((name.format, &name.agent, &name.id), |row| row.get(0))
        .optional()?)
}

/// Returns the newest entry of that id.
fn entry_of(conn: &Connection, session: SessionRow, uuid: &PackedId) -> Result<Option<EntryId>> {
    Ok(conn
        .prepare_cached("SELECT max(id) FROM entry_rows WHERE session = ?1 AND uuid = ?2")?
        .query_row((session, uuid), |row| row.get(0))?)
}

fn turn_of(conn: &Connection, entry: EntryId) -> Result<Option<EntryId>> {
    Ok(conn
        .prepare_cached("SELECT turn FROM entry_rows WHERE id = ?1")?
        .query_row([entry], |row| row.get(0))?)
}

impl Tail {
    /// Returns the session's row, or a number that no session has.
    pub(crate) fn row(&self) -> SessionRow {
        self.session.unwrap_or(SessionRow(self.id.0))
    }

    /// Returns whether the line counts as a new entry.
    pub(crate) fn is_new(&self) -> bool {
        !self.is_known
    }

    /// Returns whether the line begins a turn.
    pub(crate) fn is_prompt(&self) -> bool {
        self.is_new() && self.entry.marks.is_prompt && is_node(&self.entry)
    }

    /// Returns the turn of the line: the one that it begins, or else the current one.
    pub(crate) fn own_turn(&self) -> Option<EntryId> {
        if self.is_prompt() { Some(self.id) } else { self.turn }
    }

    /// Returns whether the line becomes the leaf of the session.
    pub(crate) fn is_leaf(&self) -> bool {
        self.is_new()
            && is_node(&self.entry)
            && !self.entry.marks.is_side
            && !self.entry.marks.is_sidechain
    }

    /// Returns whether the line is a compaction.
    pub(crate) fn is_compaction(&self) -> bool {
        matches!(self.entry.detail, Detail::Compaction(_))
    }

    /// Returns the prose of the line.
    pub(crate) fn prose(&self) -> &str {
        self.entry.text.prose.as_str()
    }

    /// Returns the parent of the line. `last` is the entry before it in its file.
    pub(crate) fn parent(
        &self,
        conn: &Connection,
        last: Option<EntryId>,
    ) -> Result<Option<EntryId>> {
        match (&self.entry.parent, self.session) {
            (DraftParent::Id(uuid) | DraftParent::After(uuid), Some(session)) => {
                entry_of(conn, session, uuid)
            }
            (DraftParent::Unsaid, _) => Ok(last),
            _ => Ok(None),
        }
    }
}
