//! The kinds of entries: type, role and marks, stored once for all entries that share them.
//!
//! The order of records alone decides the numbers, so a rebuild of the same records assigns the
//! same ones.

use std::borrow::Cow;

use foldhash::HashMap;
use quipu_transcript::entry::{Entry, Marks, Role};
use quipu_transcript::story::Folded;
use rusqlite::{Connection, OptionalExtension};

use crate::Result;
use crate::base::ids::EntryId;

/// The type, role and marks of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct EntryKind {
    pub(crate) type_name: Box<str>,
    /// The form that the format assigns to the type. A document has the name of its part.
    pub(crate) form: &'static str,
    pub(crate) role: Option<Role>,
    /// The role as written; empty if the entry has none.
    pub(crate) written_role: Box<str>,
    /// The reason why the answer ended, as written; empty if the entry has none.
    pub(crate) stop_reason: Box<str>,
    /// The model that answered, in `models`; 0 for an entry that is not an answer. The fold sets
    /// it.
    pub(crate) model: i64,
    pub(crate) is_meta: bool,
    pub(crate) is_sidechain: bool,
    pub(crate) is_mirror: bool,
    pub(crate) is_error: bool,
    pub(crate) is_side: bool,
    pub(crate) is_summary: bool,
    pub(crate) is_automatic: bool,
    /// The reason that a story hides the entry; empty if it is shown.
    pub(crate) folded: &'static str,
}

impl EntryKind {
    pub(crate) fn new(
        entry: &Entry<'_>,
        form: &'static str,
        marks: &Marks,
        folded: Option<Folded>,
    ) -> EntryKind {
        let cut_or_empty = |name: &Option<Cow<'_, str>>| cut(name.as_deref().unwrap_or_default());
        EntryKind {
            type_name: cut(&entry.type_name),
            form,
            role: entry.role,
            written_role: cut_or_empty(&entry.written_role),
            stop_reason: cut_or_empty(&entry.stop_reason),
            model: 0,
            is_meta: marks.is_meta,
            is_sidechain: marks.is_sidechain,
            is_mirror: marks.is_mirror,
            is_error: marks.is_error,
            is_side: marks.is_side,
            is_summary: marks.is_compact_summary,
            is_automatic: marks.is_automatic,
            folded: folded.map_or("", Folded::as_str),
        }
    }
}

/// Returns a name as it is stored: a long one is cut.
fn cut(name: &str) -> Box<str> {
    name.get(..name.floor_char_boundary(MAX_NAME_BYTES)).unwrap_or_default().into()
}

/// The largest length of a stored name, in bytes. Real ones are short; a hostile one is cut.
const MAX_NAME_BYTES: usize = 128;

/// The number of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct KindId(i64);

impl rusqlite::types::FromSql for KindId {
    fn column_result(
        value: rusqlite::types::ValueRef<'_>,
    ) -> rusqlite::types::FromSqlResult<KindId> {
        value.as_i64().map(KindId)
    }
}

impl rusqlite::ToSql for KindId {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(self.0.into())
    }
}

/// The largest number of kinds in memory. A transcript can contain any number of types, so memory
/// must be bounded.
const MAX_IN_MEMORY: usize = 1024;

/// The kinds that were used since the fold began.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    known: HashMap<EntryKind, KindId>,
}

impl Kinds {
    /// Returns the number of a kind. A kind gets its number at its first use, so a rebuild assigns
    /// the same numbers.
    pub(crate) fn number(&mut self, conn: &Connection, kind: &EntryKind) -> Result<KindId> {
        if let Some(id) = self.known.get(kind) {
            return Ok(*id);
        }
        let id = match find(conn, kind)? {
            Some(id) => id,
            None => {
                let next = conn
                    .prepare_cached("SELECT coalesce(max(id), 0) + 1 FROM kinds WHERE id > 0")?
                    .query_row([], |row| row.get(0))?;
                insert(conn, next, kind)?;
                next
            }
        };
        if self.known.len() >= MAX_IN_MEMORY {
            self.known.clear();
        }
        self.known.insert(kind.clone(), KindId(id));
        Ok(KindId(id))
    }
}

/// Adds a separate kind for a provisional entry.
pub(crate) fn add_provisional(
    conn: &Connection,
    entry: EntryId,
    kind: &EntryKind,
) -> Result<KindId> {
    insert(conn, entry.0, kind)?;
    Ok(KindId(entry.0))
}

/// Removes the kind of a provisional entry.
pub(crate) fn remove_provisional(conn: &Connection, entry: EntryId) -> Result<()> {
    conn.prepare_cached("DELETE FROM kinds WHERE id = ?1 AND id < 0")?.execute([entry])?;
    Ok(())
}

fn find(conn: &Connection, kind: &EntryKind) -> Result<Option<i64>> {
    Ok(conn
        .prepare_cached(
            "SELECT id FROM kinds
              WHERE id > 0 AND type = ?1 AND form = ?2 AND role = ?3 AND is_meta = ?4
                AND is_sidechain = ?5 AND is_mirror = ?6 AND is_error = ?7 AND is_side = ?8
                AND is_summary = ?9 AND folded = ?10 AND written_role = ?11 AND stop_reason = ?12
                AND model = ?13 AND is_automatic = ?14",
        )?
        .query_row(
            (
                &kind.type_name,
                kind.form,
                kind.role.map_or("", Role::as_str),
                kind.is_meta,
                kind.is_sidechain,
                kind.is_mirror,
                kind.is_error,
                kind.is_side,
                kind.is_summary,
                kind.folded,
                &kind.written_role,
                &kind.stop_reason,
                kind.model,
                kind.is_automatic,
            ),
            |row| row.get(0),
        )
        .optional()?)
}

fn insert(conn: &Connection, id: i64, kind: &EntryKind) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO kinds
            (id, type, form, role, is_meta, is_sidechain, is_mirror, is_error, is_side,
             is_summary, folded, written_role, stop_reason, model, is_automatic)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
    )?
    .execute((
        id,
        &kind.type_name,
        kind.form,
        kind.role.map_or("", Role::as_str),
        kind.is_meta,
        kind.is_sidechain,
        kind.is_mirror,
        kind.is_error,
        kind.is_side,
        kind.is_summary,
        kind.folded,
        &kind.written_role,
        &kind.stop_reason,
        kind.model,
        kind.is_automatic,
    ))?;
    Ok(())
}
