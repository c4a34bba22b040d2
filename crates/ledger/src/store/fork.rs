//! Forks: new sessions that begin with a path of another session. Entries keep their ids, and lines
//! without a change share the bytes of the original.
//!
//! Labels on the path are left out, because they may name entries outside it. A child of a label
//! gets the label's parent. The labels that name entries of the path are appended after it. The
//! lines are read and prepared before the transaction, because they never change; the transaction
//! only writes.

mod mapped;

use std::collections::{HashMap, HashSet};

use quipu_transcript::context::Reader;
use quipu_transcript::format;
use quipu_transcript::key::SessionKey;
use quipu_transcript::native::{NewEntry, with_parent};
use quipu_transcript::routing::AgentId;
use quipu_transcript::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use serde_json::{Map, Value, json};

use super::append::new_id;
use super::session::Session;
use super::sessions::{self, MAIN, NativeSession, NewSession, no_row};
use super::tree::Node;
use super::work::Work;
use super::{Store, tree};
use crate::base::clock;
use crate::base::ids::{PackedId, Seq, SessionRow};
use crate::file::ledger::Ledger;
use crate::read::query::{self, find_session};
use crate::store::unprojected::{ENTRY, View};
use crate::truth::chunks::RecordReader;
use crate::wire::Label;
use crate::{Error, Result};

/// The name of the position before the first entry. No entry of a native session has this id.
const ROOT: &str = "root";

/// The options of a fork.
#[derive(Debug, Clone, Default)]
pub struct Fork<'a> {
    /// The last entry of the path, or `root` for an empty path; the leaf by default.
    pub at: Option<&'a str>,
    /// The new session's id.
    pub id: Option<&'a str>,
    /// The key that leads to the new session.
    pub key: Option<&'a str>,
    /// The working directory of the new session's agent; the parent's by default.
    pub cwd: Option<&'a str>,
}

/// A forked session.
#[derive(Debug, Clone)]
pub struct Forked {
    /// The new session.
    pub session: Session,
    /// The number of messages that pi's format cannot express. Each is a `custom` entry that no
    /// model sees, with the whole message in its `data`.
    pub unmapped: u64,
}

/// A line of the new session, and the record with the same bytes if one exists.
pub(super) struct NewLine {
    pub(super) text: String,
    pub(super) same_as: Option<Seq>,
}

/// A line of the path, and its record.
struct PathLine {
    node: Node,
    seq: Seq,
    text: String,
}

impl Session {
    /// Creates a new session from the path to an entry of this one, by default to its leaf.
    pub fn fork(&self, fork: &Fork<'_>) -> Result<Session> {
        Ok(self.store.fork_at(self.native.row, fork)?.session)
    }
}

impl Store {
    /// Creates a new session from the path to an entry of any session in the ledger, by default to
    /// its leaf.
    ///
    /// Collected sessions can be forked too. If the session's format has native lines, the path
    /// itself is copied; otherwise its context there is copied, in pi's format. Fails with
    /// [`Error::NoContext`] if the format of a collected session has no context reader.
    pub fn fork(&self, name: &str, fork: &Fork<'_>) -> Result<Forked> {
        let from = find_session(&self.core().ledger, name)?;
        self.fork_at(from, fork)
    }

    /// Creates a new session from a session that was found, like [`Store::fork`].
    pub fn fork_at(&self, from: SessionRow, fork: &Fork<'_>) -> Result<Forked> {
        let (lines, unmapped) = self.read_caught_up(&mut |ledger| path(ledger, from, fork.at))?;
        let native = self.write(&mut |work| create(work, from, fork, &lines))?;
        Ok(Forked { session: self.open_session(native), unmapped })
    }
}

/// Creates a new session with these lines, which continues another one.
pub(super) fn create(
    work: &mut Work<'_, '_>,
    from: SessionRow,
    fork: &Fork<'_>,
    lines: &[NewLine],
) -> Result<NativeSession> {
    // The parent may have been forgotten in the meantime; then this fails.
    let session = Parent::of(work.tx, from)?.create_child(work, fork)?;
    for NewLine { text, same_as } in lines {
        work.record(&session, text.as_bytes(), None, *same_as)?;
    }
    Ok(session)
}

/// Returns the lines of a fork that consists of the messages of a session's context, and the number
/// of messages that pi's format cannot express.
pub(super) fn lines_of_context(ledger: &Ledger, from: SessionRow) -> Result<(Vec<NewLine>, u64)> {
    mapped::lines(&query::context_of(ledger, from, None)?.context)
}

/// Returns the lines that a fork of a session at its leaf would have.
pub(super) fn lines_of_fork(ledger: &Ledger, from: SessionRow) -> Result<Vec<String>> {
    let (lines, _) = path(ledger, from, None)?;
    Ok(lines.into_iter().map(|line| line.text).collect())
}

/// Returns the lines of the path to `at`, and the number of messages that pi's format cannot
/// express.
pub(super) fn path(
    ledger: &Ledger,
    from: SessionRow,
    at: Option<&str>,
) -> Result<(Vec<NewLine>, u64)> {
    let conn = ledger.conn();
    let is_collected = Parent::of(conn, from)?.native.is_none();
    let reader = if is_collected { Some(reader(conn, from)?) } else { None };
    if at == Some(ROOT) {
        return Ok((Vec::new(), 0));
    }
    if reader.is_some_and(|reader| !reader.has_native_lines()) {
        return mapped::lines(&query::context_of(ledger, from, at)?.context);
    }
    // The leaf of a collected session comes from the reader of its agent's format.
    let leaf = match at {
        None if is_collected => query::context_of(ledger, from, None)?.context.leaf,
        _ => None,
    };
    Ok((native_lines_of_path(conn, from, at.or(leaf.as_deref()))?, 0))
}

/// Returns the context reader of a session's format. Fails for a format without one, because the
/// fork would be empty.
fn reader(conn: &Connection, session: SessionRow) -> Result<Reader> {
    let format: String = conn
        .prepare_cached("SELECT format FROM sessions WHERE id = ?1")?
        .query_row([session], |row| row.get(0))?;
    let reader = format::by_name(&format).and_then(|format| format.context());
    reader.ok_or(Error::NoContext { format })
}

/// Returns the lines of a path, ready for the new session.
fn native_lines_of_path(
    conn: &Connection,
    from: SessionRow,
    at: Option<&str>,
) -> Result<Vec<NewLine>> {
    let lines = match Parent::of(conn, from)?.path_end(conn, at)? {
        Some(end) => lines(conn, &end)?,
        None => Vec::new(),
    };
    let mut copied = Vec::new();
    let kept = |line: &&PathLine| line.node.type_name != "label";
    let on_path: HashSet<&str> = lines.iter().filter(kept).map(|line| &*line.node.id).collect();
    let mut last: Option<&str> = None;
    for line in lines.iter().filter(kept) {
        let first_kept = first_kept(line, &lines);
        let same = line.node.parent.as_deref() == last && first_kept.is_none();
        copied.push(if same && line.text.ends_with('\n') {
            NewLine { text: line.text.clone(), same_as: Some(line.seq) }
        } else {
            let text = with_parent(&line.text, last, first_kept)
                .ok_or_else(|| Error::damaged(format!("record {} is not an entry", line.seq.0)))?;
            NewLine { text, same_as: None }
        });
        last = Some(&line.node.id);
    }
    let last = last.map(str::to_owned);
    let on_path = on_path.into_iter().map(str::to_owned).collect();
    copied.extend(label_lines(conn, from, on_path, last)?);
    Ok(copied)
}

/// Returns the labels of the entries of a path as lines that follow its last entry.
pub(super) fn label_lines(
    conn: &Connection,
    from: SessionRow,
    on_path: HashSet<String>,
    mut last: Option<String>,
) -> Result<Vec<NewLine>> {
    let mut lines = Vec::new();
    let mut ids = on_path.clone();
    for Label { entry_id: target, label } in labels(conn, from)? {
        if !on_path.contains(&target) {
            continue;
        }
        let label = json!({"type": "label", "targetId": target, "label": label});
        let label = NewEntry::read(&label.to_string())?;
        let id = new_id(&mut |id| Ok(ids.contains(id)))?;
        let text = label.line(&id, last.as_deref(), Timestamp(clock::now_ms()));
        lines.push(NewLine { text, same_as: None });
        ids.insert(id.clone());
        last = Some(id);
    }
    Ok(lines)
}

/// The session that is forked.
struct Parent {
    row: SessionRow,
    agent: String,
    id: String,
    cwd: Option<String>,
    native: Option<NativeSession>,
}

impl Parent {
    fn of(conn: &Connection, row: SessionRow) -> Result<Parent> {
        let found: Option<(String, String, String, _)> = conn
            .prepare_cached("SELECT format, agent, session_id, cwd FROM sessions WHERE id = ?1")?
            .query_row([row], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .optional()?;
        let (format, agent, id, cwd) = found.ok_or_else(|| no_row(row))?;
        let native = match &*format {
            quipu_transcript::formats::native::NAME => Some(sessions::by_row(conn, row)?),
            _ => None,
        };
        Ok(Parent { row, agent, id, cwd, native })
    }

    /// Creates the new session with only its header.
    fn create_child(&self, work: &mut Work<'_, '_>, fork: &Fork<'_>) -> Result<NativeSession> {
        let mut fields = Map::new();
        fields.insert("forkedFromParent".to_owned(), Value::Bool(true));
        // Some names of agents cannot be part of a key.
        let agent = match AgentId::parse(&self.agent) {
            Ok(agent) if agent.as_str() == self.agent => self.agent.as_str(),
            _ => MAIN,
        };
        let keys_agent = fork.key.map(SessionKey::parse);
        let keys_agent = keys_agent.as_ref().and_then(SessionKey::agent);
        let new = NewSession {
            agent: Some(if self.native.is_some() { agent } else { keys_agent.unwrap_or(agent) }),
            id: fork.id,
            key: fork.key,
            cwd: fork.cwd.or(self.cwd.as_deref()),
            parent: Some(&self.id),
            takes_key: false,
            fields,
        };
        sessions::create(work, &new)
    }

    /// Returns the last entry of the path.
    fn path_end(&self, conn: &Connection, at: Option<&str>) -> Result<Option<Node>> {
        match (at, &self.native) {
            (None, _) => tree::leaf(conn, self.row),
            (Some(id), Some(session)) => {
                View::projected(conn, session).find_on_path("entry", id).map(Some)
            }
            (Some(id), None) => match tree::find(conn, self.row, id)? {
                Some(node) if node.is_on_paths() => Ok(Some(node)),
                _ => Err(Error::NoMatch { what: ENTRY, name: id.to_owned() }),
            },
        }
    }
}

/// Returns the lines of the path to an entry.
fn lines(conn: &Connection, end: &Node) -> Result<Vec<PathLine>> {
    let mut reader = RecordReader::new(conn);
    let path = tree::path(conn, end.entry)?;
    path.into_iter()
        .filter(Node::is_on_paths)
        .map(|node| {
            let seq = node.entry.seq();
            let seq = seq.ok_or_else(|| Error::refused("the last line is not finished yet"))?;
            let text = String::from_utf8(reader.read(seq)?);
            let text = text.map_err(|_| Error::refused("a line of the path is not UTF-8"))?;
            Ok(PathLine { node, seq, text })
        })
        .collect()
}

/// Returns the entry that replaces a label as the first entry kept by a compaction or a reset: the
/// next entry on the path, because labels are not copied. `None` if the first kept entry is no
/// label.
fn first_kept<'a>(line: &PathLine, lines: &'a [PathLine]) -> Option<&'a str> {
    if !matches!(&*line.node.type_name, "compaction" | "reset") {
        return None;
    }
    let value: Value = serde_json::from_str(&line.text).ok()?;
    let first_kept = value.get("firstKeptEntryId")?.as_str()?;
    let at = lines.iter().position(|line| line.node.id == first_kept)?;
    let is_label = |line: &PathLine| line.node.type_name == "label";
    lines.get(at).filter(|line| is_label(line))?;
    lines.iter().skip(at).find(|line| !is_label(line)).map(|line| &*line.node.id)
}

/// Returns the labels of a session's entries, in the order in which they were first given.
pub(super) fn labels(conn: &Connection, session: SessionRow) -> Result<Vec<Label>> {
    let mut statement =
        conn.prepare_cached("SELECT target, label FROM label_rows WHERE session = ?1 ORDER BY id")?;
    let mut rows = statement.query([session])?;
    let mut order: Vec<String> = Vec::new();
    let mut labels: HashMap<String, Option<String>> = HashMap::new();
    while let Some(row) = rows.next()? {
        let target = row.get::<_, PackedId>(0)?.unpack();
        if labels.insert(target.clone(), row.get(1)?).is_none() {
            order.push(target);
        }
    }
    Ok(order
        .into_iter()
        .filter_map(|target| {
            let label = labels.remove(&target)??;
            Some(Label { entry_id: target, label })
        })
        .collect())
}
