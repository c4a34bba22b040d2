//! Forks: a new session that begins with a path of another.
//!
//! Entries keep their ids. Labels are left out of the path, because they may speak of what is not on
//! it, and those of entries on it are put behind it; whoever hung off a label hangs off what the
//! label hung off. Lines that stay as they are share the bytes of the original.

use std::collections::{HashMap, HashSet};

use quipu_transcript::native::{NewEntry, rehung};
use quipu_transcript::time::Timestamp;
use rusqlite::Connection;
use serde_json::{Map, Value, json};

use super::ahead::View;
use super::append::new_id;
use super::sessions::{NewSession, create};
use super::tree::Node;
use super::work::Work;
use super::{NativeSession, Store, tree};
use crate::chunks::RecordReader;
use crate::ids::{PackedId, Seq, SessionRow};
use crate::{Error, Result, clock, query};

/// How to fork.
#[derive(Debug, Clone, Default)]
pub struct Fork<'a> {
    /// The last entry of the path; the leaf if nothing is said.
    pub at: Option<&'a str>,
    /// The new session's id.
    pub id: Option<&'a str>,
    /// The key that leads to it.
    pub key: Option<&'a str>,
    /// Where its agent works; where the parent's did if nothing is said.
    pub cwd: Option<&'a str>,
}

/// A line of the path, and the record that holds it.
struct Line {
    node: Node,
    seq: Seq,
    text: String,
}

impl Store {
    /// Makes a new session from the path to an entry of another one, its own or a collected one of
    /// OpenClaw's. Without an entry, it only refers to its parent.
    pub fn fork(&mut self, from: SessionRow, fork: &Fork<'_>) -> Result<NativeSession> {
        // Where a collected session stands, its agent's own reader knows best.
        let leaf = match (fork.at, self.session(from)) {
            (None, Err(Error::Collected { .. })) => {
                query::context(&self.ledger, from, None)?.context.leaf
            }
            _ => None,
        };
        let fork = Fork { at: fork.at.or(leaf.as_deref()), ..fork.clone() };
        self.write(&mut |work| copy(work, from, &fork))
    }
}

fn copy(work: &mut Work<'_, '_>, from: SessionRow, fork: &Fork<'_>) -> Result<NativeSession> {
    let tx = work.tx;
    let parent = Parent::of(tx, from)?;
    let lines = match parent.end(tx, fork.at)? {
        Some(end) => lines(tx, &end)?,
        None => Vec::new(),
    };
    let mut fields = Map::new();
    fields.insert("forkedFromParent".to_owned(), Value::Bool(true));
    let new = NewSession {
        agent: Some(&parent.agent),
        id: fork.id,
        key: fork.key,
        cwd: fork.cwd.or(parent.cwd.as_deref()),
        parent: Some(&parent.id),
        takes_key: false,
        fields,
    };
    let session = create(work, &new)?;
    let kept = |line: &&Line| line.node.type_name != "label";
    let on_path: HashSet<&str> = lines.iter().filter(kept).map(|line| &*line.node.id).collect();
    let mut last: Option<&str> = None;
    for line in lines.iter().filter(kept) {
        let first_kept = first_kept(line, &lines);
        let same = line.node.parent.as_deref() == last && first_kept.is_none();
        if same && line.text.ends_with('\n') {
            work.record(&session, line.text.as_bytes(), None, Some(line.seq))?;
        } else {
            let text = rehung(&line.text, last, first_kept)
                .ok_or_else(|| Error::damaged(format!("record {} is no entry", line.seq.0)))?;
            work.record(&session, text.as_bytes(), None, None)?;
        }
        last = Some(&line.node.id);
    }
    let mut last = last.map(str::to_owned);
    for (target, label) in labels(tx, from)? {
        if !on_path.contains(&*target) {
            continue;
        }
        let label = json!({"type": "label", "targetId": target, "label": label});
        let label = NewEntry::read(&label.to_string())?;
        work.settle()?;
        let id = new_id(&View::settled(tx, &session))?;
        let line = label.line(&id, last.as_deref(), Timestamp(clock::now_ms()));
        work.record(&session, line.as_bytes(), None, None)?;
        last = Some(id);
    }
    Ok(session)
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
        let (format, agent, id, cwd): (String, String, String, _) = conn
            .prepare_cached("SELECT format, agent, session_id, cwd FROM sessions WHERE id = ?1")?
            .query_row([row], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
        let native = match &*format {
            quipu_transcript::formats::native::NAME => Some(super::sessions::by_row(conn, row)?),
            // Its lines are of the same kind.
            "openclaw" => None,
            _ => return Err(Error::refused(format!("sessions of {format} cannot be forked"))),
        };
        Ok(Parent { row, agent, id, cwd, native })
    }

    /// The last entry of the path.
    fn end(&self, conn: &Connection, at: Option<&str>) -> Result<Option<Node>> {
        match (at, &self.native) {
            (None, _) => tree::leaf(conn, self.row),
            (Some(id), Some(session)) => View::settled(conn, session).known("entry", id).map(Some),
            (Some(id), None) => match tree::find(conn, self.row, id)? {
                Some(node) if node.is_on_paths() => Ok(Some(node)),
                _ => Err(Error::NoMatch { what: "entry of the session", name: id.to_owned() }),
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
fn labels(conn: &Connection, session: SessionRow) -> Result<Vec<(String, String)>> {
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
