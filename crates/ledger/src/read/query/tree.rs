//! The tree of a session: runs of entries, and the events between them.
//!
//! Reads the projection only, never a record. No function recurses, since a transcript may nest to
//! any depth. `nodes` loads the entries and finds the forks, and `agents` finds the sub-agents.

mod agents;
mod nodes;

use foldhash::{HashMap, HashMapExt};
use rusqlite::{Connection, OptionalExtension};

use self::agents::Agents;
use self::nodes::{Node, Nodes, Notable};
use super::story::name_of;
use crate::Result;
use crate::base::ids::{EntryId, SessionRow};
use crate::file::ledger::Ledger;
use crate::read::query::complete::complete;
use crate::read::query::{find, forks};
use crate::wire::TreeLine;

/// The largest length of a prompt in the tree, in characters: a line shows only the beginning.
const MAX_PROMPT_CHARS: i64 = 400;

/// Returns the lines of the tree of the session with this name.
pub fn tree(ledger: &Ledger, name: &str) -> Result<Vec<TreeLine>> {
    complete(ledger, &mut |conn| draw(conn, find::session(conn, name)?))
}

/// Returns the lines of the tree of a session that was found.
pub fn tree_of(ledger: &Ledger, session: SessionRow) -> Result<Vec<TreeLine>> {
    complete(ledger, &mut |conn| draw(conn, session))
}

fn draw(conn: &Connection, session: SessionRow) -> Result<Vec<TreeLine>> {
    let nodes = Nodes::load(conn, session)?;
    let mut forks: HashMap<Option<EntryId>, Vec<String>> = HashMap::new();
    for fork in forks::into(conn, session)? {
        forks.entry(fork.at).or_default().push(fork.id);
    }
    let mut drawing = Drawing {
        conn,
        forks,
        labels: labels(conn, session)?,
        agents: Agents::load(conn, session)?,
        nodes: &nodes,
        lines: Vec::new(),
    };
    if let Some(fork) = forks::from(conn, session)? {
        let at = fork.at.map(|at| name_of(conn, at)).transpose()?;
        drawing.push(TreeLine {
            kind: "forked_from",
            first_entry_id: at.clone(),
            last_entry_id: at,
            session_id: Some(fork.id),
            ..TreeLine::default()
        });
    }
    drawing.draw()?;
    Ok(drawing.lines)
}

/// Returns the label of each entry that has one.
fn labels(conn: &Connection, session: SessionRow) -> Result<HashMap<EntryId, String>> {
    let mut labels = HashMap::new();
    let mut statement = conn.prepare_cached(
        "SELECT e.id, l.label
           FROM label_rows l
           JOIN entry_rows e
             ON e.session = l.session AND substr(e.uuid, -3) = substr(l.target, -3)
            AND e.uuid = l.target AND e.superseded_by IS NULL
          WHERE l.session = ?1
          ORDER BY l.id",
    )?;
    let mut rows = statement.query([session])?;
    while let Some(row) = rows.next()? {
        match row.get::<_, Option<String>>(1)? {
            Some(label) => labels.insert(row.get(0)?, label),
            None => labels.remove(&row.get(0)?),
        };
    }
    Ok(labels)
}

struct Drawing<'n> {
    conn: &'n Connection,
    labels: HashMap<EntryId, String>,
    /// The sessions that were forked at each entry. `None` has those whose entry is unknown.
    forks: HashMap<Option<EntryId>, Vec<String>>,
    agents: Agents,
    nodes: &'n Nodes,
    lines: Vec<TreeLine>,
}

/// The beginning of a branch.
#[derive(Debug, Clone, Copy)]
struct BranchStart {
    node: usize,
    depth: usize,
    parent: Option<usize>,
}

impl Drawing<'_> {
    fn draw(&mut self) -> Result<()> {
        let mut branches: Vec<BranchStart> = self
            .nodes
            .roots()
            .rev()
            .map(|node| BranchStart { node, depth: 0, parent: None })
            .collect();
        while let Some(branch) = branches.pop() {
            let (last, forks) = self.branch(branch)?;
            let Some((main, left)) = forks.split_last() else { continue };
            // The main branch is drawn last, so that it is not indented.
            branches.push(BranchStart { node: *main, depth: branch.depth, parent: Some(last) });
            let depth = branch.depth + 1;
            branches.extend(left.iter().rev().map(|node| BranchStart {
                node: *node,
                depth,
                parent: Some(last),
            }));
        }
        if self.nodes.sidechain_entries > 0 {
            let entries = self.nodes.sidechain_entries;
            self.push(TreeLine { kind: "sidechain", entries, ..TreeLine::default() });
        }
        for started in self.agents.take_rest() {
            self.agent(started, 0, None);
        }
        let mut rest: Vec<_> = self.forks.keys().copied().collect();
        rest.sort_unstable();
        for at in rest {
            self.forked(at, 0, None)?;
        }
        Ok(())
    }

    /// Draws a branch up to its end or the next fork. Returns its last line and the branches that
    /// follow, the main one last.
    fn branch(&mut self, branch: BranchStart) -> Result<(usize, Vec<usize>)> {
        let mut run = Run { begins_branch: branch.parent.is_some(), ..Run::default() };
        let mut parent = branch.parent;
        let mut at = branch.node;
        while let Some(node) = self.nodes.get(at) {
            if let Some(notable) = node.notable {
                self.end_run(&mut run, branch.depth, &mut parent)?;
                self.notable(node, notable, branch.depth, &mut parent)?;
                self.forked(Some(node.id), branch.depth, parent)?;
            } else {
                self.add(&mut run, node);
            }
            for aside in self.nodes.asides(at) {
                if let Some(node) = self.nodes.get(aside) {
                    self.add(&mut run, node);
                }
            }
            let with_asides = std::iter::once(at).chain(self.nodes.asides(at));
            let labelled: Vec<(&Node, String)> = with_asides
                .filter_map(|index| self.nodes.get(index))
                .filter_map(|node| Some((node, self.labels.remove(&node.id)?)))
                .collect();
            if !labelled.is_empty() || (node.is_leaf && self.nodes.has_later_text(at)) {
                self.end_run(&mut run, branch.depth, &mut parent)?;
            }
            for (node, label) in labelled {
                let name = name_of(self.conn, node.id)?;
                let line = TreeLine {
                    kind: "label",
                    first_entry_id: Some(name.clone()),
                    last_entry_id: Some(name),
                    time: node.time,
                    text: Some(label),
                    is_current: node.is_on_leaf_path,
                    ..TreeLine::default()
                };
                self.below(line, branch.depth, &mut parent);
            }
            let branches = self.nodes.branches(at);
            match branches.as_slice() {
                [next] => at = *next,
                _ => {
                    self.end_run(&mut run, branch.depth, &mut parent)?;
                    let last = parent.unwrap_or(self.lines.len());
                    if let Some(line) = last.checked_sub(1).and_then(|at| self.lines.get_mut(at)) {
                        line.branches = branches.len();
                    }
                    return Ok((last, branches));
                }
            }
        }
        self.end_run(&mut run, branch.depth, &mut parent)?;
        Ok((self.lines.len(), Vec::new()))
    }

    /// Writes the current run, and the sub-agents that it started.
    fn end_run(&mut self, run: &mut Run, depth: usize, parent: &mut Option<usize>) -> Result<()> {
        let run = std::mem::take(run);
        let (Some(first), Some(last)) = (run.first, run.last) else { return Ok(()) };
        let text = match run.prompt.or(run.answer) {
            Some(entry) => self
                .conn
                .prepare_cached("SELECT substr(text, 1, ?2) FROM message_texts WHERE id = ?1")?
                .query_row((entry, MAX_PROMPT_CHARS), |row| row.get(0))
                .optional()?,
            None => None,
        };
        let line = TreeLine {
            kind: "run",
            first_entry_id: Some(name_of(self.conn, first)?),
            last_entry_id: Some(name_of(self.conn, last)?),
            missing_parent_id: self.nodes.missing_parent(first),
            time: run.time,
            entries: run.entries,
            turns: run.turns,
            tool_calls: run.tool_calls,
            text,
            is_leaf: run.is_leaf,
            is_current: run.is_current,
            ..TreeLine::default()
        };
        self.below(line, depth, parent);
        for call in run.callers {
            for started in self.agents.take(call) {
                self.agent(started, depth, *parent);
            }
        }
        for at in run.forked {
            self.forked(Some(at), depth, *parent)?;
        }
        Ok(())
    }

    fn add(&self, run: &mut Run, node: &Node) {
        run.add(node);
        if self.forks.contains_key(&Some(node.id)) {
            run.forked.push(node.id);
        }
    }

    /// Writes the sessions that were forked at an entry.
    fn forked(&mut self, at: Option<EntryId>, depth: usize, parent: Option<usize>) -> Result<()> {
        let Some(sessions) = self.forks.remove(&at) else { return Ok(()) };
        let name = at.map(|at| name_of(self.conn, at)).transpose()?;
        for session in sessions {
            let line = TreeLine {
                kind: "fork",
                first_entry_id: name.clone(),
                last_entry_id: name.clone(),
                session_id: Some(session),
                ..TreeLine::default()
            };
            self.below(line, depth, &mut parent.clone());
        }
        Ok(())
    }

    fn notable(
        &mut self,
        node: &Node,
        notable: Notable,
        depth: usize,
        parent: &mut Option<usize>,
    ) -> Result<()> {
        let name = name_of(self.conn, node.id)?;
        let (tokens_before, tokens_after) = match notable {
            Notable::Compaction => self
                .conn
                .prepare_cached(
                    "SELECT tokens_before, tokens_after FROM compactions WHERE id = ?1",
                )?
                .query_row([node.id], |row| {
                    let size = |index| {
                        row.get::<_, Option<i64>>(index).map(|size| size.map(i64::cast_unsigned))
                    };
                    Ok((size(0)?, size(1)?))
                })
                .optional()?
                .unwrap_or_default(),
            _ => (None, None),
        };
        let line = TreeLine {
            kind: notable.as_str(),
            first_entry_id: Some(name.clone()),
            last_entry_id: Some(name),
            missing_parent_id: self.nodes.missing_parent(node.id),
            time: node.time,
            entries: 1,
            is_leaf: node.is_leaf,
            is_current: node.is_on_leaf_path,
            tokens_before,
            tokens_after,
            ..TreeLine::default()
        };
        self.below(line, depth, parent);
        Ok(())
    }

    /// Writes a sub-agent, and the sub-agents that it started.
    fn agent(&mut self, started: agents::Agent, depth: usize, parent: Option<usize>) {
        let mut open = vec![(started, 0, parent)];
        while let Some((agent, nested, parent)) = open.pop() {
            let own = agent.row;
            let mut below = parent;
            let line = TreeLine {
                kind: "subagent",
                nested,
                time: agent.started_at,
                entries: agent.entries,
                turns: agent.turns,
                tool_calls: agent.tool_calls,
                text: agent.text,
                session_id: Some(agent.session_id),
                agent_type: agent.agent_type,
                ..TreeLine::default()
            };
            self.below(line, depth, &mut below);
            let mut inner = self.agents.take_of(own);
            inner.reverse();
            open.extend(inner.into_iter().map(|agent| (agent, nested + 1, below)));
        }
    }

    fn below(&mut self, line: TreeLine, depth: usize, parent: &mut Option<usize>) {
        let number = self.push(TreeLine { depth, parent_node: *parent, ..line });
        *parent = Some(number);
    }

    fn push(&mut self, line: TreeLine) -> usize {
        let number = self.lines.len() + 1;
        self.lines.push(TreeLine { node: number, ..line });
        number
    }
}

/// Consecutive entries.
#[derive(Debug, Default)]
struct Run {
    first: Option<EntryId>,
    last: Option<EntryId>,
    time: Option<i64>,
    entries: u64,
    turns: u64,
    tool_calls: u64,
    prompt: Option<EntryId>,
    /// The first answer with text, if the run begins a branch.
    answer: Option<EntryId>,
    begins_branch: bool,
    /// Entries with calls.
    callers: Vec<EntryId>,
    /// Entries at which other sessions were forked.
    forked: Vec<EntryId>,
    is_leaf: bool,
    is_current: bool,
}

impl Run {
    fn add(&mut self, node: &Node) {
        self.first = self.first.or(Some(node.id));
        // A session cannot continue from an aside or after the leaf.
        if !node.is_aside && !self.is_leaf {
            self.last = Some(node.id);
        }
        self.time = self.time.or(node.time);
        self.entries += 1;
        self.tool_calls += node.tool_calls;
        if node.is_prompt {
            self.turns += 1;
            self.prompt = self.prompt.or(Some(node.id));
        }
        if self.begins_branch && node.is_text_answer {
            self.answer = self.answer.or(Some(node.id));
        }
        if node.tool_calls > 0 {
            self.callers.push(node.id);
        }
        self.is_leaf |= node.is_leaf;
        self.is_current |= node.is_on_leaf_path;
    }
}
