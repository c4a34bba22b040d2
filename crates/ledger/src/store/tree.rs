//! The tree of a session, asked by SQL over the entries' parents. Nothing recurses in memory: a chain
//! of a million entries and a million children of one take linear time.

use foldhash::HashMap;
use quipu_transcript::native::NewEntry;
use rusqlite::{Connection, OptionalExtension, Row};
use serde::Serialize;

use super::{NativeSession, Store};
use crate::Result;
use crate::base::ids::{EntryId, PackedId, Seq, SessionRow};
use crate::store::unprojected::View;

/// An entry of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its id.
    pub id: String,
    /// The id of the entry that it hangs off.
    pub parent: Option<String>,
    /// What kind of entry it is.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The role of a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// When it was written, milliseconds UTC.
    pub time: Option<i64>,
    #[serde(skip)]
    pub(super) entry: EntryId,
    #[serde(skip)]
    is_side: bool,
}

impl Node {
    const COLUMNS: &'static str = "e.id, e.uuid, p.uuid, e.type, e.role, e.time, e.is_side
           FROM entries e LEFT JOIN entry_rows p ON p.id = e.parent";

    /// The same of all entries that lead to `?1`, the first one first. Without `CROSS` SQLite would
    /// go through all entries there are, and look for each of them on the path.
    const PATH: &'static str = "
        WITH RECURSIVE path (id, height) AS (
            SELECT ?1, 0 UNION ALL
            SELECT e.parent, height + 1 FROM path JOIN entry_rows e ON e.id = path.id
             WHERE e.parent IS NOT NULL)
         SELECT e.id, e.uuid, p.uuid, e.type, e.role, e.time, e.is_side
           FROM path CROSS JOIN entries e ON e.id = path.id
           LEFT JOIN entry_rows p ON p.id = e.parent
          ORDER BY path.height DESC";

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Node> {
        let id = |column| -> rusqlite::Result<Option<String>> {
            Ok(row.get::<_, Option<PackedId>>(column)?.map(|id| id.unpack()))
        };
        Ok(Node {
            entry: row.get(0)?,
            id: id(1)?.unwrap_or_default(),
            parent: id(2)?,
            type_name: row.get(3)?,
            role: row.get(4)?,
            time: row.get(5)?,
            is_side: row.get(6)?,
        })
    }

    /// An entry that is about to be in the projection.
    pub(super) fn appended(entry: &NewEntry, id: String, parent: Option<String>, seq: Seq) -> Node {
        Node {
            id,
            parent,
            type_name: entry.type_name.to_owned(),
            role: entry.role.map(str::to_owned),
            time: None,
            entry: EntryId::of(seq, 0),
            is_side: entry.is_side,
        }
    }

    /// Whether it can be a parent and a leaf.
    pub(super) fn is_on_paths(&self) -> bool {
        !self.is_side && !matches!(&*self.type_name, "leaf" | "session")
    }

    /// Whether it is a message of that role.
    pub(super) fn is_message_of(&self, role: &str) -> bool {
        self.type_name == "message" && self.role.as_deref() == Some(role)
    }
}

/// A tip of the tree: an entry that nothing hangs off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Branch {
    /// Where it ends.
    #[serde(flatten)]
    pub tip: Node,
    /// How many entries lead there.
    pub length: u64,
    /// The session's leaf is on it, at its end.
    pub is_current: bool,
}

impl Store {
    /// The session's leaf: where the next entry hangs.
    pub fn leaf(&mut self, session: &NativeSession) -> Result<Option<Node>> {
        self.settled(&mut |ledger| leaf(ledger.conn(), session.row))
    }

    /// The entry of that id.
    pub fn entry(&mut self, session: &NativeSession, id: &str) -> Result<Option<Node>> {
        self.settled(&mut |ledger| find(ledger.conn(), session.row, id))
    }

    /// The entries from the root to an entry.
    pub fn path(&mut self, session: &NativeSession, to: &str) -> Result<Vec<Node>> {
        self.settled(&mut |ledger| {
            let to = View::settled(ledger.conn(), session).known("entry", to)?;
            path(ledger.conn(), to.entry)
        })
    }

    /// What hangs off an entry, or the roots.
    pub fn children(&mut self, session: &NativeSession, of: Option<&str>) -> Result<Vec<Node>> {
        self.settled(&mut |ledger| children(ledger.conn(), session, of))
    }

    /// The last entry that the paths to two entries share.
    pub fn common_ancestor(
        &mut self,
        session: &NativeSession,
        one: &str,
        other: &str,
    ) -> Result<Option<Node>> {
        self.settled(&mut |ledger| common_ancestor(ledger.conn(), session, one, other))
    }

    /// The tips of the tree, oldest first.
    pub fn branches(&mut self, session: &NativeSession) -> Result<Vec<Branch>> {
        self.settled(&mut |ledger| {
            let leaf = leaf(ledger.conn(), session.row)?.map(|leaf| leaf.entry);
            branches(ledger.conn(), session.row, leaf)
        })
    }
}

fn children(conn: &Connection, session: &NativeSession, of: Option<&str>) -> Result<Vec<Node>> {
    let of = of.map(|id| View::settled(conn, session).known("entry", id)).transpose()?;
    let mut statement = conn.prepare_cached(&format!(
        "SELECT {} WHERE e.session = ?1 AND e.parent IS ?2
            AND e.type NOT IN ('session', 'leaf') ORDER BY e.id",
        Node::COLUMNS
    ))?;
    let of = of.map(|node| node.entry);
    Ok(statement.query_map((session.row, of), Node::from_row)?.collect::<Result<_, _>>()?)
}

fn common_ancestor(
    conn: &Connection,
    session: &NativeSession,
    one: &str,
    other: &str,
) -> Result<Option<Node>> {
    let view = View::settled(conn, session);
    let (one, other) = (view.known("entry", one)?, view.known("entry", other)?);
    let shared: Option<EntryId> = conn
        .prepare_cached(
            "WITH RECURSIVE
                one (id, height) AS (
                    SELECT ?1, 0 UNION ALL
                    SELECT e.parent, height + 1 FROM one JOIN entry_rows e ON e.id = one.id
                     WHERE e.parent IS NOT NULL),
                other (id) AS (
                    SELECT ?2 UNION ALL
                    SELECT e.parent FROM other JOIN entry_rows e ON e.id = other.id
                     WHERE e.parent IS NOT NULL)
             SELECT one.id FROM one WHERE one.id IN (SELECT id FROM other)
              ORDER BY height LIMIT 1",
        )?
        .query_row((one.entry, other.entry), |row| row.get(0))
        .optional()?;
    shared.map(|entry| node(conn, entry)).transpose()
}

/// The tips of a session's tree.
pub(super) fn branches(
    conn: &Connection,
    session: SessionRow,
    leaf: Option<EntryId>,
) -> Result<Vec<Branch>> {
    let mut statement = conn.prepare_cached(&format!(
        "SELECT {} WHERE e.session = ?1 AND e.is_side = 0 AND e.type NOT IN ('session', 'leaf')
            AND e.is_sidechain = 0 AND e.superseded_by IS NULL
            AND (e.uuid IS NOT NULL OR e.role IS NOT NULL)
            AND e.id NOT IN (SELECT parent FROM entries
                              WHERE session = ?1 AND parent IS NOT NULL
                                AND is_side = 0 AND type <> 'leaf')
          ORDER BY e.id",
        Node::COLUMNS
    ))?;
    let tips = statement.query_map([session], Node::from_row)?.collect::<Result<Vec<Node>, _>>()?;
    let lengths = lengths(conn, session)?;
    tips.into_iter()
        .map(|tip| {
            let length = lengths.get(&tip.entry).copied().unwrap_or_default();
            let is_current = Some(tip.entry) == leaf;
            Ok(Branch { tip, length, is_current })
        })
        .collect()
}

/// How many entries lead to each, itself included. Each is counted once, however many branches there
/// are; usually parents were written before their children, but an import may have them behind.
fn lengths(conn: &Connection, session: SessionRow) -> Result<HashMap<EntryId, u64>> {
    let mut statement =
        conn.prepare_cached("SELECT id, parent FROM entry_rows WHERE session = ?1 ORDER BY id")?;
    let rows = statement.query_map([session], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let parents: HashMap<EntryId, Option<EntryId>> = rows.collect::<Result<_, _>>()?;
    let mut lengths: HashMap<EntryId, u64> = HashMap::default();
    let mut way = Vec::new();
    for entry in parents.keys() {
        let mut at = Some(*entry);
        let mut length = loop {
            // What is on the way has a length of zero so far: no circle is followed twice.
            let Some(entry) = at.filter(|entry| parents.contains_key(entry)) else { break 0 };
            if let Some(known) = lengths.get(&entry) {
                break *known;
            }
            lengths.insert(entry, 0);
            way.push(entry);
            at = parents.get(&entry).copied().flatten();
        };
        while let Some(entry) = way.pop() {
            length += 1;
            lengths.insert(entry, length);
        }
    }
    Ok(lengths)
}

/// The session's leaf.
pub(super) fn leaf(conn: &Connection, session: SessionRow) -> Result<Option<Node>> {
    let leaf: Option<EntryId> = conn
        .prepare_cached("SELECT leaf FROM sessions WHERE id = ?1")?
        .query_row([session], |row| row.get(0))?;
    leaf.map(|entry| node(conn, entry)).transpose()
}

fn node(conn: &Connection, entry: EntryId) -> Result<Node> {
    Ok(conn
        .prepare_cached(&format!("SELECT {} WHERE e.id = ?1", Node::COLUMNS))?
        .query_row([entry], Node::from_row)?)
}

/// The entry of that id.
pub(super) fn find(conn: &Connection, session: SessionRow, id: &str) -> Result<Option<Node>> {
    Ok(conn
        .prepare_cached(&format!(
            "SELECT {} WHERE e.session = ?1 AND e.uuid = ?2
                AND e.superseded_by IS NULL
              ORDER BY e.id DESC LIMIT 1",
            Node::COLUMNS
        ))?
        .query_row((session, PackedId::pack(id)), Node::from_row)
        .optional()?)
}

/// Whether an id is taken.
pub(super) fn has(conn: &Connection, session: SessionRow, id: &str) -> Result<bool> {
    Ok(conn
        .prepare_cached(
            "SELECT EXISTS (
                SELECT 1 FROM entry_rows
                 WHERE session = ?1 AND uuid = ?2)",
        )?
        .query_row((session, PackedId::pack(id)), |row| row.get(0))?)
}

/// The entries from the root to an entry.
pub(super) fn path(conn: &Connection, to: EntryId) -> Result<Vec<Node>> {
    let mut statement = conn.prepare_cached(Node::PATH)?;
    Ok(statement.query_map([to], Node::from_row)?.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r93_a_path_is_followed_and_not_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("ledger.db")).unwrap();
        let conn = store.ledger.conn();
        let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {}", Node::PATH)).unwrap();
        let steps: Vec<String> =
            plan.query_map([1], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
        assert!(steps.iter().all(|step| !step.starts_with("SCAN e")), "{steps:?}");
    }
}
