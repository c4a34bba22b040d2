//! Which queued words are told: those that no later entry of the session says.
//!
//! What a human types while the agent works waits in a queue. Mostly it comes back as a prompt,
//! alone or together with others that waited; but some releases of Claude Code hand it to the agent
//! in the middle of its work and write nothing more, and then the queue is all there is of it.

use foldhash::{HashMap, HashMapExt};
use quipu_transcript::story::{Folded, StoryItem};
use rusqlite::Connection;
use xxhash_rust::xxh3::xxh3_64;

use super::plan::Plan;
use super::rows::Row;
use crate::Result;
use crate::ids::{EntryId, SessionRow};

/// The lines that the human said in a session, each by its hash, with the last place where it
/// stands. Read when the first queued words are met: most sessions have none.
#[derive(Default)]
pub(super) struct Said(Option<HashMap<u64, u64>>);

impl Said {
    /// Unfolds queued words that nothing behind them says again.
    pub(super) fn unfold(
        &mut self,
        conn: &Connection,
        session: SessionRow,
        plan: &Plan,
        row: &Row,
        item: &mut StoryItem<'_>,
    ) -> Result<()> {
        if item.folded != Some(Folded::Queued) {
            return Ok(());
        }
        let said = match &mut self.0 {
            Some(said) => said,
            none => none.insert(read(conn, session, plan)?),
        };
        // Prompts that waited together come back as one, so lines are compared and not texts.
        let is_said_again = {
            let words = item.words();
            let mut lines = lines(&words).peekable();
            lines.peek().is_some()
                && lines.all(|line| said.get(&line).is_some_and(|last| *last > row.position))
        };
        if !is_said_again {
            item.folded = None;
        }
        Ok(())
    }
}

fn read(conn: &Connection, session: SessionRow, plan: &Plan) -> Result<HashMap<u64, u64>> {
    let mut said = HashMap::new();
    let mut statement = conn.prepare_cached(
        "SELECT e.id, m.text
           FROM entry_rows e CROSS JOIN kinds k ON k.id = e.kind
          CROSS JOIN message_texts m ON m.id = e.id
          WHERE e.session = ?1 AND k.role IN ('user', 'tool') AND e.superseded_by IS NULL",
    )?;
    let mut rows = statement.query([session])?;
    while let Some(row) = rows.next()? {
        let entry: EntryId = row.get(0)?;
        let position = plan.position(entry);
        if let Ok(text) = row.get_ref(1)?.as_str() {
            for line in lines(text) {
                let last = said.entry(line).or_insert(position);
                *last = position.max(*last);
            }
        }
    }
    Ok(said)
}

/// The hashes of the lines that say something.
fn lines(text: &str) -> impl Iterator<Item = u64> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| xxh3_64(line.as_bytes()))
}
