//! Last lines that have no newline yet. They say something, so whatever counts adds them here, when
//! it is asked: as if their newlines had come. Few files end so, and where none does this costs one
//! look at an empty range of the entries.

use std::sync::Arc;

use foldhash::HashMap;
use rusqlite::{Connection, OptionalExtension};

use crate::Result;
use crate::base::ids::{EntryId, GenerationId, PackedId, SessionRow};
use crate::project::draft::{Detail, DraftEntry, DraftParent};
use crate::project::entry::is_node;
use crate::project::session::Name;
use crate::project::tail;

/// A last line that has no newline yet and can be read all the same.
#[derive(Debug)]
pub(crate) struct Tail {
    /// The provisional entry.
    pub(crate) id: EntryId,
    /// `None` if it is all that there is of its session.
    pub(crate) session: Option<SessionRow>,
    /// What its session is called.
    pub(crate) name: Option<Name>,
    /// The project's folder, as far as the path tells.
    pub(crate) slug: Option<String>,
    pub(crate) entry: DraftEntry,
    /// The turn that it would belong to if it began none.
    pub(crate) turn: Option<EntryId>,
    /// The session has an entry of this id: it is said again, or anew.
    is_known: bool,
}

/// All of them.
pub(crate) fn all(conn: &Connection) -> Result<Vec<Tail>> {
    read(
        conn,
        "SELECT id, session, turn FROM entry_rows WHERE id < 0 AND ?1 IS NULL ORDER BY id",
        None,
    )
}

/// Those of a session. By their numbers: there are few of them, and many entries in a session.
pub(crate) fn of(conn: &Connection, session: SessionRow) -> Result<Vec<Tail>> {
    read(
        conn,
        "SELECT id, session, turn FROM entry_rows WHERE id < 0 AND +session = ?1",
        Some(session),
    )
}

/// All of them, by session.
pub(crate) fn by_session(conn: &Connection) -> Result<HashMap<SessionRow, Vec<Arc<Tail>>>> {
    let mut sessions: HashMap<SessionRow, Vec<Arc<Tail>>> = HashMap::default();
    for tail in all(conn)? {
        if let Some(session) = tail.session {
            sessions.entry(session).or_default().push(Arc::new(tail));
        }
    }
    Ok(sessions)
}

/// How many transcripts end in something that cannot be read as a line, or may still change.
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
        let tail::Read { name, slug, entry, .. } = read;
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

/// The session of that name, which another file may have begun.
fn session_of(conn: &Connection, name: &Name) -> Result<Option<SessionRow>> {
    Ok(conn
        .prepare_cached(
            "SELECT id FROM sessions WHERE format = ?1 AND agent = ?2 AND session_id = ?3",
        )?
        .query_row((name.format, &name.agent, &name.id), |row| row.get(0))
        .optional()?)
}

/// The newest entry of that id.
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
    /// The session's row; without one a number that no session has.
    pub(crate) fn row(&self) -> SessionRow {
        self.session.unwrap_or(SessionRow(self.id.0))
    }

    /// Whether it counts as an entry of its own.
    pub(crate) fn is_new(&self) -> bool {
        !self.is_known
    }

    /// Whether it begins a turn.
    pub(crate) fn is_prompt(&self) -> bool {
        self.is_new() && self.entry.marks.is_prompt && is_node(&self.entry)
    }

    /// The turn that it belongs to: the one that it begins, or else the one that goes on.
    pub(crate) fn own_turn(&self) -> Option<EntryId> {
        if self.is_prompt() { Some(self.id) } else { self.turn }
    }

    /// Whether the session goes on from it.
    pub(crate) fn is_leaf(&self) -> bool {
        self.is_new()
            && is_node(&self.entry)
            && !self.entry.marks.is_side
            && !self.entry.marks.is_sidechain
    }

    /// Whether it stands for what came before.
    pub(crate) fn is_compaction(&self) -> bool {
        matches!(self.entry.detail, Detail::Compaction(_))
    }

    /// What it says.
    pub(crate) fn prose(&self) -> &str {
        self.entry.text.prose.as_str()
    }

    /// The entry that it hangs off, where `last` is the one before it in its file.
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
