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
use crate::base::ids::{EntryId, SessionRow};

/// What the human said in a session. Read when the first queued words are met: most sessions have
/// none.
#[derive(Default)]
pub(super) struct Said(Option<Lines>);

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
            none => none.insert(Lines::read(conn, session, plan)?),
        };
        let is_said_again = said.again(&item.words(), row.position).is_some();
        if !is_said_again {
            item.folded = None;
        }
        Ok(())
    }
}

/// The same for whoever does not tell the session.
pub(crate) struct Queue {
    plan: Plan,
    said: Lines,
}

impl Queue {
    pub(crate) fn of(conn: &Connection, session: SessionRow) -> Result<Queue> {
        let plan = Plan::of(conn, session)?;
        let said = Lines::read(conn, session, &plan)?;
        Ok(Queue { plan, said })
    }

    /// The entries that say again what was queued; `None` if part of it is said nowhere.
    pub(crate) fn again(&self, queued: EntryId, words: &str) -> Option<Vec<EntryId>> {
        self.said.again(words, self.plan.position(queued))
    }
}

/// The lines that the human said in a session, each by its hash, with the last place where it stands
/// and the entry there. Prompts that waited together come back as one, so lines are compared and not
/// texts.
struct Lines(HashMap<u64, (u64, EntryId)>);

impl Lines {
    fn read(conn: &Connection, session: SessionRow, plan: &Plan) -> Result<Lines> {
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
            let place = (plan.position(entry), entry);
            if let Ok(text) = row.get_ref(1)?.as_str() {
                for line in lines(text) {
                    let last = said.entry(line).or_insert(place);
                    *last = place.max(*last);
                }
            }
        }
        Ok(Lines(said))
    }

    /// The entries that say all of this behind a position.
    fn again(&self, words: &str, position: u64) -> Option<Vec<EntryId>> {
        let behind = |line| self.0.get(&line).filter(|last| last.0 > position).map(|last| last.1);
        let entries: Vec<EntryId> = lines(words).map(behind).collect::<Option<_>>()?;
        (!entries.is_empty()).then_some(entries)
    }
}

/// The hashes of the lines that say something.
fn lines(text: &str) -> impl Iterator<Item = u64> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| xxh3_64(line.as_bytes()))
}
