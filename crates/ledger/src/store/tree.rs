//! The tree of a session, read with SQL over the parents of its entries.
//!
//! Never recurses in memory: a chain of a million entries takes linear time, and so do a million
//! children of one entry.

use foldhash::HashMap;
use quipu_transcript::native::NewEntry;
use rusqlite::{Connection, OptionalExtension, Row};

use super::session::Session;
use super::sessions::NativeSession;
use crate::Result;
use crate::base::ids::{EntryId, PackedId, Seq, SessionRow};
use crate::store::unprojected::View;
use crate::wire::SessionBranch;

/// An entry of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The entry's id.
    pub id: String,
    /// The id of the parent entry.
    pub parent: Option<String>,
    /// The type of the entry.
    pub type_name: String,
    /// The role of a message.
    pub role: Option<String>,
    /// The time of the entry, milliseconds UTC.
    pub time: Option<i64>,
    pub(super) entry: EntryId,
    is_side: bool,
}

/// Every statement that follows the parents of entries, so that a test can check all their plans.
mod sql {
    macro_rules! nodes {
        ($condition:literal) => {
            concat!(
                "SELECT e.id, e.uuid, p.uuid, k.type, nullif(k.role, ''), e.time, k.is_side
                   FROM entry_rows e CROSS JOIN kinds k ON k.id = e.kind
                   LEFT JOIN entry_rows p ON p.id = e.parent
                  WHERE ",
                $condition
            )
        };
    }

    /// The node of entry `?1`.
    pub(super) const NODE: &str = nodes!("e.id = ?1");

    /// The newest node of session `?1` with the id `?2`.
    pub(super) const FIND: &str = nodes!(
        "e.session = ?1 AND e.uuid = ?2 AND e.superseded_by IS NULL ORDER BY e.id DESC LIMIT 1"
    );

    /// True if session `?1` has an entry with the id `?2`.
    pub(super) const HAS: &str =
        "SELECT EXISTS (SELECT 1 FROM entry_rows WHERE session = ?1 AND uuid = ?2)";

    /// The leaf of session `?1`.
    pub(super) const LEAF: &str = "SELECT leaf FROM sessions WHERE id = ?1";

    /// Every node on the path to entry `?1`, from the root. Without `CROSS`, SQLite would scan all
    /// entries and search the path for each.
    pub(super) const PATH: &str = "
        WITH RECURSIVE path (id, height) AS (
            SELECT ?1, 0 UNION ALL
            SELECT e.parent, height + 1 FROM path JOIN entry_rows e ON e.id = path.id
             WHERE e.parent IS NOT NULL)
         SELECT e.id, e.uuid, p.uuid, k.type, nullif(k.role, ''), e.time, k.is_side
           FROM path CROSS JOIN entry_rows e ON e.id = path.id
          CROSS JOIN kinds k ON k.id = e.kind
           LEFT JOIN entry_rows p ON p.id = e.parent
          ORDER BY path.height DESC";

    /// The children of entry `?2` in session `?1`.
    pub(super) const CHILDREN: &str = nodes!(
        "e.session = ?1 AND e.parent IS ?2 AND k.type NOT IN ('session', 'leaf') ORDER BY e.id"
    );

    /// The last entry that the paths to `?1` and `?2` share.
    pub(super) const COMMON_ANCESTOR: &str = "
        WITH RECURSIVE
            one (id, height) AS (
                SELECT ?1, 0 UNION ALL
                SELECT e.parent, height + 1 FROM one JOIN entry_rows e ON e.id = one.id
                 WHERE e.parent IS NOT NULL),
            other (id) AS (
                SELECT ?2 UNION ALL
                SELECT e.parent FROM other JOIN entry_rows e ON e.id = other.id
                 WHERE e.parent IS NOT NULL)
         SELECT one.id FROM one WHERE one.id IN (SELECT id FROM other)
          ORDER BY height LIMIT 1";

    /// The nodes of session `?1` without children.
    pub(super) const TIPS: &str = nodes!(
        "e.session = ?1 AND k.is_side = 0 AND k.type NOT IN ('session', 'leaf')
            AND k.is_sidechain = 0 AND e.superseded_by IS NULL
            AND (e.uuid IS NOT NULL OR k.role <> '')
            AND e.id NOT IN (SELECT parent FROM entries
                              WHERE session = ?1 AND parent IS NOT NULL
                                AND is_side = 0 AND type <> 'leaf')
          ORDER BY e.id"
    );

    /// All entries of session `?1` with their parents.
    pub(super) const PARENTS: &str =
        "SELECT id, parent FROM entry_rows WHERE session = ?1 ORDER BY id";

    /// All statements above.
    #[cfg(test)]
    pub(super) const ALL: &[&str] =
        &[NODE, FIND, HAS, LEAF, PATH, CHILDREN, COMMON_ANCESTOR, TIPS, PARENTS];
}

impl Node {
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

    /// Returns the node of an entry that is not projected yet.
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

    /// Returns whether the entry can be a parent and a leaf.
    pub(super) fn is_on_paths(&self) -> bool {
        !self.is_side && !matches!(&*self.type_name, "leaf" | "session")
    }

    /// Returns whether the entry is a message with that role.
    pub(super) fn is_message_of(&self, role: &str) -> bool {
        self.type_name == "message" && self.role.as_deref() == Some(role)
    }
}

/// A branch of the tree, named by its tip: an entry without children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// The last entry of the branch.
    pub tip: Node,
    /// The number of entries on the path to the tip, the tip included.
    pub length: u64,
    /// True if the session's leaf is the tip.
    pub is_current: bool,
}

impl From<&Branch> for SessionBranch {
    fn from(branch: &Branch) -> SessionBranch {
        SessionBranch {
            entry_id: branch.tip.id.clone(),
            parent_id: branch.tip.parent.clone(),
            type_name: branch.tip.type_name.clone(),
            role: branch.tip.role.clone(),
            time: branch.tip.time,
            entries: branch.length,
            is_current: branch.is_current,
        }
    }
}

impl Session {
    /// Returns the leaf: the entry that the next one is attached to.
    pub fn leaf(&self) -> Result<Option<Node>> {
        self.store.read_caught_up(&mut |ledger| leaf(ledger.conn(), self.native.row))
    }

    /// Returns the entry with that id.
    pub fn entry(&self, id: &str) -> Result<Option<Node>> {
        self.store.read_caught_up(&mut |ledger| find(ledger.conn(), self.native.row, id))
    }

    /// Returns the entries from the root to an entry.
    pub fn path(&self, to: &str) -> Result<Vec<Node>> {
        self.store.read_caught_up(&mut |ledger| {
            let to = View::projected(ledger.conn(), &self.native).find_on_path("entry", to)?;
            path(ledger.conn(), to.entry)
        })
    }

    /// Returns the children of an entry; without one, the roots of the tree.
    pub fn children(&self, parent: Option<&str>) -> Result<Vec<Node>> {
        self.store.read_caught_up(&mut |ledger| children(ledger.conn(), &self.native, parent))
    }

    /// Returns the last entry that the paths to two entries share.
    pub fn common_ancestor(&self, one: &str, other: &str) -> Result<Option<Node>> {
        self.store
            .read_caught_up(&mut |ledger| common_ancestor(ledger.conn(), &self.native, one, other))
    }

    /// Returns the branches of the tree, oldest first.
    pub fn branches(&self) -> Result<Vec<Branch>> {
        self.store.read_caught_up(&mut |ledger| {
            let leaf = leaf(ledger.conn(), self.native.row)?.map(|leaf| leaf.entry);
            branches(ledger.conn(), self.native.row, leaf)
        })
    }
}

fn children(conn: &Connection, session: &NativeSession, parent: Option<&str>) -> Result<Vec<Node>> {
    let find = |id| View::projected(conn, session).find_on_path("entry", id);
    let parent = parent.map(find).transpose()?.map(|node| node.entry);
    let mut statement = conn.prepare_cached(sql::CHILDREN)?;
    Ok(statement.query_map((session.row, parent), Node::from_row)?.collect::<Result<_, _>>()?)
}

fn common_ancestor(
    conn: &Connection,
    session: &NativeSession,
    one: &str,
    other: &str,
) -> Result<Option<Node>> {
    let view = View::projected(conn, session);
    let (one, other) = (view.find_on_path("entry", one)?, view.find_on_path("entry", other)?);
    let shared: Option<EntryId> = conn
        .prepare_cached(sql::COMMON_ANCESTOR)?
        .query_row((one.entry, other.entry), |row| row.get(0))
        .optional()?;
    shared.map(|entry| node(conn, entry)).transpose()
}

/// Returns the branches of a session's tree, oldest first.
pub(super) fn branches(
    conn: &Connection,
    session: SessionRow,
    leaf: Option<EntryId>,
) -> Result<Vec<Branch>> {
    let mut statement = conn.prepare_cached(sql::TIPS)?;
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

/// Returns the length of the path to each entry, the entry included. Visits each entry once. A
/// parent may come after its child, because imports can store lines in any order.
fn lengths(conn: &Connection, session: SessionRow) -> Result<HashMap<EntryId, u64>> {
    let mut statement = conn.prepare_cached(sql::PARENTS)?;
    let rows = statement.query_map([session], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let parents: HashMap<EntryId, Option<EntryId>> = rows.collect::<Result<_, _>>()?;
    let mut lengths: HashMap<EntryId, u64> = HashMap::default();
    let mut walked = Vec::new();
    for entry in parents.keys() {
        let mut at = Some(*entry);
        let mut length = loop {
            // Entries of the current path have length zero for now, so a cycle ends the loop.
            let Some(entry) = at.filter(|entry| parents.contains_key(entry)) else { break 0 };
            if let Some(known) = lengths.get(&entry) {
                break *known;
            }
            lengths.insert(entry, 0);
            walked.push(entry);
            at = parents.get(&entry).copied().flatten();
        };
        while let Some(entry) = walked.pop() {
            length += 1;
            lengths.insert(entry, length);
        }
    }
    Ok(lengths)
}

/// Returns the session's leaf.
pub(super) fn leaf(conn: &Connection, session: SessionRow) -> Result<Option<Node>> {
    let leaf: Option<EntryId> =
        conn.prepare_cached(sql::LEAF)?.query_row([session], |row| row.get(0))?;
    leaf.map(|entry| node(conn, entry)).transpose()
}

fn node(conn: &Connection, entry: EntryId) -> Result<Node> {
    Ok(conn.prepare_cached(sql::NODE)?.query_row([entry], Node::from_row)?)
}

/// Returns the entry with that id.
pub(super) fn find(conn: &Connection, session: SessionRow, id: &str) -> Result<Option<Node>> {
    Ok(conn
        .prepare_cached(sql::FIND)?
        .query_row((session, PackedId::pack(id)), Node::from_row)
        .optional()?)
}

/// Returns whether the session has an entry with that id.
pub(super) fn has(conn: &Connection, session: SessionRow, id: &str) -> Result<bool> {
    Ok(conn.prepare_cached(sql::HAS)?.query_row((session, PackedId::pack(id)), |row| row.get(0))?)
}

/// Returns the entries from the root to an entry.
pub(super) fn path(conn: &Connection, to: EntryId) -> Result<Vec<Node>> {
    let mut statement = conn.prepare_cached(sql::PATH)?;
    Ok(statement.query_map([to], Node::from_row)?.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parents are foreign keys: a statement follows them by key, and scans no table.
    #[test]
    fn r93_parents_are_found_by_key_without_a_scan() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = crate::Ledger::open(&folder.path().join("ledger.db")).unwrap();
        let conn = ledger.conn();
        for statement in sql::ALL {
            let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
            let parameters = vec![rusqlite::types::Null; plan.parameter_count()];
            let parameters = rusqlite::params_from_iter(parameters);
            let steps: Vec<String> =
                plan.query_map(parameters, |row| row.get(3)).unwrap().map(Result::unwrap).collect();
            let is_scan = |step: &&String| {
                let of_path = ["path", "one", "other", "CONSTANT ROW"];
                let scanned = step.strip_prefix("SCAN ");
                scanned.is_some_and(|name| !of_path.contains(&name))
            };
            assert_eq!(steps.iter().find(is_scan), None, "{statement}: {steps:?}");
            let follows = steps.iter().any(|step| {
                step.contains("USING INTEGER PRIMARY KEY") || step.contains("entries_by_session")
            });
            assert!(follows, "{statement}: {steps:?}");
        }
        // A scan is recognised as one.
        let mut plan =
            conn.prepare("EXPLAIN QUERY PLAN SELECT id FROM entry_rows WHERE parent = 1").unwrap();
        let step: String = plan.query_row([], |row| row.get(3)).unwrap();
        assert_eq!(step, "SCAN entry_rows");
    }
}
