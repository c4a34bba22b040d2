//! Shows queued texts that no later entry of the session repeats.
//!
//! A text that a human types while the agent works waits in a queue. Mostly it becomes a prompt,
//! alone or with other queued texts, and stays folded in the queue. Some releases of some agents
//! give it to the model during its work and write no further entry. Then the queue has the only
//! copy.

use foldhash::{HashMap, HashMapExt};
use quipu_transcript::story::{Folded, StoryItem};
use rusqlite::Connection;
use xxhash_rust::xxh3::xxh3_64;

use super::plan::Plan;
use super::rows::Row;
use crate::Result;
use crate::base::ids::{EntryId, SessionRow};

/// The texts of the human in a session. They are read at the first queued text, since most sessions
/// have none.
#[derive(Default)]
pub(super) struct HumanTexts(Option<Lines>);

impl HumanTexts {
    /// Unfolds a queued text that no later entry repeats.
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
        let seen = match &mut self.0 {
            Some(seen) => seen,
            none => none.insert(Lines::read(conn, session, plan)?),
        };
        let is_repeated = seen.repeated_in(&item.words(), row.position).is_some();
        if !is_repeated {
            item.folded = None;
        }
        Ok(())
    }
}

/// The queue of a session, for callers that do not show its story.
pub(crate) struct Queue {
    plan: Plan,
    seen: Lines,
}

impl Queue {
    pub(crate) fn of(conn: &Connection, session: SessionRow) -> Result<Queue> {
        let plan = Plan::of(conn, session)?;
        let seen = Lines::read(conn, session, &plan)?;
        Ok(Queue { plan, seen })
    }

    /// Returns the entries that repeat a queued text, or `None` if a part of it is repeated
    /// nowhere.
    pub(crate) fn repeated_in(&self, queued: EntryId, words: &str) -> Option<Vec<EntryId>> {
        self.seen.repeated_in(words, self.plan.position(queued))
    }
}

/// The lines of the human in a session by hash, each with its last position and the entry there.
/// Texts that waited together become one prompt, so lines are compared instead of texts.
struct Lines(HashMap<u64, (u64, EntryId)>);

impl Lines {
    fn read(conn: &Connection, session: SessionRow, plan: &Plan) -> Result<Lines> {
        let mut seen = HashMap::new();
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
                    let last = seen.entry(line).or_insert(place);
                    *last = place.max(*last);
                }
            }
        }
        Ok(Lines(seen))
    }

    /// Returns the entries after a position that repeat all lines of a text.
    fn repeated_in(&self, words: &str, position: u64) -> Option<Vec<EntryId>> {
        let later = |line| self.0.get(&line).filter(|last| last.0 > position).map(|last| last.1);
        let entries: Vec<EntryId> = lines(words).map(later).collect::<Option<_>>()?;
        (!entries.is_empty()).then_some(entries)
    }
}

/// Returns the hashes of the lines that are not empty.
fn lines(text: &str) -> impl Iterator<Item = u64> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| xxh3_64(line.as_bytes()))
}
