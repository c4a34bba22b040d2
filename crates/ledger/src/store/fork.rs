//! Forks: a new session that begins with a path of another.
//!
//! Entries keep their ids. Labels are left out of the path, because they may speak of what is not on
//! it, and those of entries on it are put behind it; whoever hung off a label hangs off what the
//! label hung off. Lines that stay as they are share the bytes of the original.
//!
//! What is copied is read and put together before anybody has to wait, because lines never change; the
//! transaction only writes it.

mod mapped;

use std::collections::{HashMap, HashSet};

use quipu_transcript::context::Rules;
use quipu_transcript::format;
use quipu_transcript::key::SessionKey;
use quipu_transcript::native::{NewEntry, with_parent};
use quipu_transcript::routing::AgentId;
use quipu_transcript::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use serde_json::{Map, Value, json};

use super::append::new_id;
use super::sessions::{MAIN, NewSession, create, no_row};
use super::tree::Node;
use super::work::Work;
use super::{NativeSession, Store, tree};
use crate::base::clock;
use crate::base::ids::{PackedId, Seq, SessionRow};
use crate::file::ledger::Ledger;
use crate::read::query;
use crate::store::unprojected::{ENTRY, View};
use crate::truth::chunks::RecordReader;
use crate::{Error, Result};

/// What stands for the place before the first entry; no entry of ours is called so.
const ROOT: &str = "root";

/// How to fork.
#[derive(Debug, Clone, Default)]
pub struct Fork<'a> {
    /// The last entry of the path, `root` for none; the leaf if nothing is said.
    pub at: Option<&'a str>,
    /// The new session's id.
    pub id: Option<&'a str>,
    /// The key that leads to it.
    pub key: Option<&'a str>,
    /// Where its agent works; where the parent's did if nothing is said.
    pub cwd: Option<&'a str>,
}

/// A session that was forked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forked {
    /// It.
    pub session: NativeSession,
    /// How many messages have no place in pi's shapes. They are `custom` entries, which no model
    /// sees, with the whole message in their `data`.
    pub unmapped: u64,
}

/// A line of the new session; the record that holds the same, if one does.
struct Copied {
    text: String,
    same_as: Option<Seq>,
}

/// A line of the path, and the record that holds it.
struct Line {
    node: Node,
    seq: Seq,
    text: String,
}

impl Store {
    /// Makes a new session from the path to an entry of another one. Of its own sessions and those of
    /// OpenClaw that is the path itself; of others, what a model should see there, in pi's shapes.
    /// Without an entry, it only refers to its parent.
    pub fn fork(&mut self, from: SessionRow, fork: &Fork<'_>) -> Result<Forked> {
        let (lines, unmapped) = self.settled(&mut |ledger| path(ledger, from, fork.at))?;
        let session = self.make(from, fork, &lines)?;
        Ok(Forked { session, unmapped })
    }

    /// Writes the new session.
    fn make(
        &mut self,
        from: SessionRow,
        fork: &Fork<'_>,
        lines: &[Copied],
    ) -> Result<NativeSession> {
        self.write(&mut |work| {
            // It may have been forgotten meanwhile; then there is nothing to go on from.
            let session = Parent::of(work.tx, from)?.child(work, fork)?;
            for Copied { text, same_as } in lines {
                work.record(&session, text.as_bytes(), None, *same_as)?;
            }
            Ok(session)
        })
    }
}

/// Returns the lines of the path to `at`, and how many messages have no place in pi's shapes.
fn path(ledger: &Ledger, from: SessionRow, at: Option<&str>) -> Result<(Vec<Copied>, u64)> {
    let conn = ledger.conn();
    if at == Some(ROOT) {
        return Ok((Vec::new(), 0));
    }
    let is_collected = Parent::of(conn, from)?.native.is_none();
    if is_collected && !has_our_lines(conn, from)? {
        return mapped::lines(&query::context(ledger, from, at)?.context);
    }
    // Where a collected session stands, its agent's own reader knows best.
    let leaf = match at {
        None if is_collected => query::context(ledger, from, None)?.context.leaf,
        _ => None,
    };
    Ok((copied(conn, from, at.or(leaf.as_deref()))?, 0))
}

/// Whether the lines of a session are of the same kind as ours.
fn has_our_lines(conn: &Connection, session: SessionRow) -> Result<bool> {
    let format: String = conn
        .prepare_cached("SELECT format FROM sessions WHERE id = ?1")?
        .query_row([session], |row| row.get(0))?;
    Ok(format::by_name(&format).is_some_and(|format| format.rules() == Rules::OpenClaw))
}

/// The lines of a path as they are in another session.
fn copied(conn: &Connection, from: SessionRow, at: Option<&str>) -> Result<Vec<Copied>> {
    let lines = match Parent::of(conn, from)?.end(conn, at)? {
        Some(end) => lines(conn, &end)?,
        None => Vec::new(),
    };
    let mut copied = Vec::new();
    let kept = |line: &&Line| line.node.type_name != "label";
    let on_path: HashSet<&str> = lines.iter().filter(kept).map(|line| &*line.node.id).collect();
    let mut last: Option<&str> = None;
    for line in lines.iter().filter(kept) {
        let first_kept = first_kept(line, &lines);
        let same = line.node.parent.as_deref() == last && first_kept.is_none();
        copied.push(if same && line.text.ends_with('\n') {
            Copied { text: line.text.clone(), same_as: Some(line.seq) }
        } else {
            let text = with_parent(&line.text, last, first_kept)
                .ok_or_else(|| Error::damaged(format!("record {} is no entry", line.seq.0)))?;
            Copied { text, same_as: None }
        });
        last = Some(&line.node.id);
    }
    let mut last = last.map(str::to_owned);
    let mut ids: HashSet<String> = on_path.iter().map(|id| (*id).to_owned()).collect();
    for (target, label) in labels(conn, from)? {
        if !on_path.contains(&*target) {
            continue;
        }
        let label = json!({"type": "label", "targetId": target, "label": label});
        let label = NewEntry::read(&label.to_string())?;
        let id = new_id(&mut |id| Ok(ids.contains(id)))?;
        let text = label.line(&id, last.as_deref(), Timestamp(clock::now_ms()));
        copied.push(Copied { text, same_as: None });
        ids.insert(id.clone());
        last = Some(id);
    }
    Ok(copied)
}

/// What is forked.
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
            quipu_transcript::formats::native::NAME => Some(super::sessions::by_row(conn, row)?),
            _ => None,
        };
        Ok(Parent { row, agent, id, cwd, native })
    }

    /// The new session, with its header alone.
    fn child(&self, work: &mut Work<'_, '_>, fork: &Fork<'_>) -> Result<NativeSession> {
        let mut fields = Map::new();
        fields.insert("forkedFromParent".to_owned(), Value::Bool(true));
        // Not every agent has a name that keys could have.
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
        create(work, &new)
    }

    /// The last entry of the path.
    fn end(&self, conn: &Connection, at: Option<&str>) -> Result<Option<Node>> {
        match (at, &self.native) {
            (None, _) => tree::leaf(conn, self.row),
            (Some(id), Some(session)) => View::settled(conn, session).known("entry", id).map(Some),
            (Some(id), None) => match tree::find(conn, self.row, id)? {
                Some(node) if node.is_on_paths() => Ok(Some(node)),
                _ => Err(Error::NoMatch { what: ENTRY, name: id.to_owned() }),
            },
        }
    }
}

/// The lines of the path to an entry.
fn lines(conn: &Connection, end: &Node) -> Result<Vec<Line>> {
    let mut reader = RecordReader::new(conn);
    let path = tree::path(conn, end.entry)?;
    path.into_iter()
        .filter(Node::is_on_paths)
        .map(|node| {
            let seq = node.entry.seq();
            let seq = seq.ok_or_else(|| Error::refused("the last line is not finished yet"))?;
            let text = String::from_utf8(reader.read(seq)?);
            let text = text.map_err(|_| Error::refused("a line of the path is no UTF-8"))?;
            Ok(Line { node, seq, text })
        })
        .collect()
}

/// The first entry that a compaction keeps, if that is a label, which is not copied: then what
/// follows the label on the path.
fn first_kept<'a>(line: &Line, lines: &'a [Line]) -> Option<&'a str> {
    if !matches!(&*line.node.type_name, "compaction" | "reset") {
        return None;
    }
    let said: Value = serde_json::from_str(&line.text).ok()?;
    let said = said.get("firstKeptEntryId")?.as_str()?;
    let at = lines.iter().position(|line| line.node.id == said)?;
    let is_label = |line: &Line| line.node.type_name == "label";
    lines.get(at).filter(|line| is_label(line))?;
    lines.iter().skip(at).find(|line| !is_label(line)).map(|line| &*line.node.id)
}

/// The labels of a session's entries, in the order in which they were first given.
pub(super) fn labels(conn: &Connection, session: SessionRow) -> Result<Vec<(String, String)>> {
    let mut statement =
        conn.prepare_cached("SELECT target, label FROM labels WHERE session = ?1 ORDER BY id")?;
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
            Some((target, label))
        })
        .collect())
}
