//! Bills: one row per API response and session, and over all sessions exactly one of them counted
//! (`copies`).
//!
//! The rules are free of order (largest, smallest), so it does not matter which copy of a resumed
//! session was collected first.

mod copies;

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;

use foldhash::HashMap;
use quipu_transcript::entry::Usage;
use rusqlite::{Connection, OptionalExtension, Row, Statement};

use super::draft::DraftUsage;
use crate::Result;
use crate::base::ids::{EntryId, SessionRow};
use crate::project::usage_rollup::{Quarters, Slot};
pub(crate) use copies::{Foreseen, foresee, recount_all};

/// Identifies a response within a session: its message and its request.
type Key = (i64, i64);

#[derive(Debug, Clone)]
struct Bill {
    entry: EntryId,
    turn: Option<EntryId>,
    time: Option<i64>,
    model: i64,
    usage: Usage,
    is_sidechain: bool,
    is_dirty: bool,
    /// What stands in the ledger.
    saved: Option<Usage>,
}

/// What is known in memory of a session's bills.
#[derive(Debug, Default)]
pub(crate) struct Bills {
    open: HashMap<Key, Bill>,
}

/// The models that were billed since the fold began.
#[derive(Debug, Default)]
pub(crate) struct Models {
    known: HashMap<Model, i64>,
}

/// What answered. Empty where the agent does not say.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Model {
    pub(crate) model: Box<str>,
    pub(crate) provider: Box<str>,
    pub(crate) api: Box<str>,
}

/// Who is billed.
#[derive(Debug)]
pub(crate) struct Billed {
    pub(crate) session: SessionRow,
    /// What is not in memory of the session is nowhere.
    pub(crate) is_complete: bool,
    pub(crate) entry: EntryId,
    pub(crate) turn: Option<EntryId>,
    pub(crate) time: Option<i64>,
    pub(crate) is_sidechain: bool,
}

impl Bills {
    /// Adds a line's bill. Returns by how much the response's turn grew.
    pub(crate) fn add(
        &mut self,
        conn: &Connection,
        models: &mut Models,
        billed: &Billed,
        draft: &DraftUsage,
    ) -> Result<Option<(EntryId, Usage, Usage)>> {
        let key = key(draft, billed.entry);
        let known = match self.open.entry(key) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(_) if billed.is_complete => None,
            Entry::Vacant(vacant) => {
                load(conn, key, billed.session)?.map(|bill| vacant.insert(bill))
            }
        };
        let (turn, before) = match known {
            None => {
                let bill = Bill {
                    entry: billed.entry,
                    turn: billed.turn,
                    time: billed.time,
                    model: models.number(conn, &draft.model)?,
                    usage: draft.usage,
                    is_sidechain: billed.is_sidechain,
                    is_dirty: true,
                    saved: None,
                };
                self.open.insert(key, bill);
                (billed.turn, Usage::default())
            }
            Some(bill) => {
                let (before, was_sidechain) = (bill.usage, bill.is_sidechain);
                let line = (draft.usage, billed.is_sidechain);
                let has_grown = join(&mut bill.usage, &mut bill.is_sidechain, line);
                bill.is_dirty |= has_grown || bill.is_sidechain != was_sidechain;
                if !has_grown {
                    return Ok(None);
                }
                (bill.turn, before)
            }
        };
        Ok(turn.map(|turn| (turn, before, draft.usage)))
    }

    /// Writes the bills that changed, and adds their messages to `changed`.
    pub(crate) fn save(
        &mut self,
        conn: &Connection,
        session: SessionRow,
        is_complete: bool,
        changed: &mut BTreeSet<i64>,
        quarters: &mut Quarters,
    ) -> Result<()> {
        let mut dirty: Vec<_> = self.open.iter_mut().filter(|(_, bill)| bill.is_dirty).collect();
        dirty.sort_unstable_by_key(|(_, bill)| bill.entry);
        // Found once: that costs as much as binding its values.
        let mut new = conn.prepare_cached(INSERT)?;
        for (key, bill) in dirty {
            bill.is_dirty = false;
            changed.insert(key.0);
            let mut slot = Slot { session, model: bill.model, time: bill.time, usage: bill.usage };
            match bill.saved.replace(bill.usage) {
                None => {
                    insert(&mut new, *key, bill)?;
                    quarters.add(&slot);
                }
                Some(before) => {
                    // A copy that does not count is not in any sum.
                    if update(conn, bill)? {
                        quarters.add(&slot);
                        slot.usage = before;
                        quarters.take(&slot);
                    }
                }
            }
        }
        if !is_complete {
            // The ledger is asked anyway.
            self.open.clear();
        }
        Ok(())
    }
}

/// Adds a bill. It counts until another copy is found.
const INSERT: &str = "INSERT INTO usage_rows
        (entry, message, request, model, input, output, cache_read, cache_write, cache_write_1h,
         cost_usd, is_fast, is_sidechain, is_counted)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 1)";

fn insert(new: &mut Statement<'_>, (message, request): Key, bill: &Bill) -> Result<()> {
    let usage = bill.usage;
    new.execute((
        bill.entry,
        message,
        request,
        bill.model,
        tokens(usage.input),
        tokens(usage.output),
        tokens(usage.cache_read),
        tokens(usage.cache_write),
        tokens(usage.cache_write_1h),
        usage.cost_usd,
        usage.is_fast,
        bill.is_sidechain,
    ))?;
    Ok(())
}

/// Writes what a bill has become. Returns whether it counts.
fn update(conn: &Connection, bill: &Bill) -> Result<bool> {
    let usage = bill.usage;
    Ok(conn
        .prepare_cached(
            "UPDATE usage_rows SET
                input = ?2, output = ?3, cache_read = ?4, cache_write = ?5, cache_write_1h = ?6,
                cost_usd = ?7, is_fast = ?8, is_sidechain = ?9
              WHERE entry = ?1 RETURNING is_counted",
        )?
        .query_row(
            (
                bill.entry,
                tokens(usage.input),
                tokens(usage.output),
                tokens(usage.cache_read),
                tokens(usage.cache_write),
                tokens(usage.cache_write_1h),
                usage.cost_usd,
                usage.is_fast,
                bill.is_sidechain,
            ),
            |row| row.get(0),
        )?)
}

impl Models {
    /// The number of a model. Numbered when it is first billed, so that a rebuild numbers it alike.
    fn number(&mut self, conn: &Connection, model: &Model) -> Result<i64> {
        if let Some(id) = self.known.get(model) {
            return Ok(*id);
        }
        let row = (&model.model, &model.provider, &model.api);
        conn.prepare_cached(
            "INSERT OR IGNORE INTO models (model, provider, api) VALUES (?1, ?2, ?3)",
        )?
        .execute(row)?;
        let id = conn
            .prepare_cached(
                "SELECT id FROM models WHERE model = ?1 AND provider = ?2 AND api = ?3",
            )?
            .query_row(row, |row| row.get(0))?;
        self.known.insert(model.clone(), id);
        Ok(id)
    }
}

/// A token count as it is stored: sums of it must not leave the range of SQLite's integers.
pub(crate) fn tokens(count: u64) -> i64 {
    count.min(Usage::MOST_TOKENS).cast_signed()
}

/// What a line's response is called; one without an id is the only one of its entry.
fn key(draft: &DraftUsage, entry: EntryId) -> Key {
    (draft.message.unwrap_or(entry.0), draft.request)
}

/// Adds a line to what is known of its response. The line with the larger total is the later one of
/// a streamed response, and one that is in no side chain speaks for all. Returns whether the response
/// has grown.
fn join(usage: &mut Usage, is_sidechain: &mut bool, line: (Usage, bool)) -> bool {
    let rank = |usage: &Usage| (usage.total(), usage.cost_usd.unwrap_or(0.0));
    let has_grown = rank(&line.0) > rank(usage);
    if has_grown {
        *usage = line.0;
    }
    *is_sidechain &= line.1;
    has_grown
}

fn load(conn: &Connection, (message, request): Key, session: SessionRow) -> Result<Option<Bill>> {
    Ok(conn
        .prepare_cached(
            "SELECT input, output, cache_read, cache_write, cache_write_1h, cost_usd, is_fast,
                    entry, turn, time, model, is_sidechain
               FROM usage
              WHERE message % 2147483647 = ?1 % 2147483647 AND message = ?1 AND request = ?2
                AND session = ?3",
        )?
        .query_row((message, request, session), |row| {
            let usage = stored(row)?;
            Ok(Bill {
                entry: row.get(7)?,
                turn: row.get(8)?,
                time: row.get(9)?,
                model: row.get(10)?,
                usage,
                is_sidechain: row.get(11)?,
                is_dirty: false,
                saved: Some(usage),
            })
        })
        .optional()?)
}

/// A usage as it begins the columns of a row.
fn stored(row: &Row<'_>) -> rusqlite::Result<Usage> {
    let count = |index| row.get::<_, i64>(index).map(i64::cast_unsigned);
    Ok(Usage {
        input: count(0)?,
        output: count(1)?,
        cache_read: count(2)?,
        cache_write: count(3)?,
        cache_write_1h: count(4)?,
        cost_usd: row.get(5)?,
        is_fast: row.get(6)?,
    })
}
