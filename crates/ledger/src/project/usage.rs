//! Bills: one row per API response and session, and over all sessions exactly one of them counted.
//!
//! The rules are free of order (largest, smallest), so it does not matter which copy of a resumed
//! session was collected first.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use foldhash::{HashMap, HashSet};
use quipu_transcript::entry::Usage;
use rusqlite::{Connection, OptionalExtension, Row, Statement};

use super::draft::DraftUsage;
use super::quarters::{Quarters, Slot};
use crate::Result;
use crate::ids::{EntryId, SessionRow};

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
        let message = draft.message.unwrap_or(billed.entry.0);
        let key = (message, draft.request);
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
                bill.is_dirty |= bill.is_sidechain && !billed.is_sidechain;
                bill.is_sidechain &= billed.is_sidechain;
                if !is_larger(&draft.usage, &bill.usage) {
                    return Ok(None);
                }
                let before = bill.usage;
                bill.usage = draft.usage;
                bill.is_dirty = true;
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

/// Decides again which copies of these responses count.
pub(crate) fn recount_all(
    conn: &Connection,
    messages: BTreeSet<i64>,
    quarters: &mut Quarters,
) -> Result<()> {
    let mut count = conn.prepare_cached(
        "SELECT count(*) FROM usage_rows WHERE message % 2147483647 = ?1 % 2147483647",
    )?;
    for message in messages {
        // Nearly always the only one, and then it counts.
        if count.query_row([message], |row| row.get::<_, i64>(0))? > 1 {
            recount(conn, message, quarters)?;
        }
    }
    Ok(())
}

/// No response has more tokens than this. Larger counts are nonsense, and sums of them must not
/// leave the range of SQLite's integers.
const MOST_TOKENS: u64 = 1 << 32;

/// A token count as it is stored.
pub(crate) fn tokens(count: u64) -> i64 {
    count.min(MOST_TOKENS).cast_signed()
}

/// The line with the larger total is the later one of a streamed response.
fn is_larger(new: &Usage, old: &Usage) -> bool {
    let cost = |usage: &Usage| usage.cost_usd.unwrap_or(0.0);
    (new.total(), cost(new)) > (old.total(), cost(old))
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

/// What a bill adds to the sums.
fn slot(conn: &Connection, entry: EntryId) -> Result<Slot> {
    Ok(conn
        .prepare_cached(
            "SELECT input, output, cache_read, cache_write, cache_write_1h, cost_usd, is_fast,
                    session, model, time
               FROM usage WHERE entry = ?1",
        )?
        .query_row([entry], |row| {
            Ok(Slot {
                usage: stored(row)?,
                session: row.get(7)?,
                model: row.get(8)?,
                time: row.get(9)?,
            })
        })?)
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

/// One copy of a response.
#[derive(Debug)]
struct Copy {
    request: i64,
    entry: EntryId,
    is_counted: bool,
    is_sidechain: bool,
    /// All tokens, then by kind.
    tokens: [i64; 5],
    time: Option<i64>,
    session_id: String,
}

impl Copy {
    /// The copy of the highest rank counts: the main conversation's before a side chain's, then
    /// the largest, then the earliest. Names decide the rest, never the order of collecting.
    fn rank(&self) -> impl Ord {
        (!self.is_sidechain, self.tokens, Reverse((self.time, &self.session_id, self.entry)))
    }
}

/// Decides which copies of a response count: one for each request.
fn recount(conn: &Connection, message: i64, quarters: &mut Quarters) -> Result<()> {
    let copies = copies(conn, message)?;
    for (copy, counts) in copies.iter().zip(counting(&copies)) {
        if copy.is_counted != counts {
            conn.prepare_cached("UPDATE usage_rows SET is_counted = ?2 WHERE entry = ?1")?
                .execute((copy.entry, counts))?;
            let slot = slot(conn, copy.entry)?;
            if counts { quarters.add(&slot) } else { quarters.take(&slot) }
        }
    }
    Ok(())
}

/// All copies of a response.
fn copies(conn: &Connection, message: i64) -> Result<Vec<Copy>> {
    let mut statement = conn.prepare_cached(
        "SELECT u.request, u.entry, u.is_counted, u.is_sidechain,
                u.input + u.output + u.cache_read + u.cache_write,
                u.output, u.input, u.cache_write, u.cache_read, u.time, s.session_id
           FROM usage u LEFT JOIN sessions s ON s.id = u.session
          WHERE u.message % 2147483647 = ?1 % 2147483647 AND u.message = ?1",
    )?;
    Ok(statement
        .query_map([message], |row| {
            Ok(Copy {
                request: row.get(0)?,
                entry: row.get(1)?,
                is_counted: row.get(2)?,
                is_sidechain: row.get(3)?,
                tokens: [row.get(4)?, row.get(5)?, row.get(6)?, row.get(7)?, row.get(8)?],
                time: row.get(9)?,
                session_id: row.get::<_, Option<String>>(10)?.unwrap_or_default(),
            })
        })?
        .collect::<Result<_, _>>()?)
}

/// Which of the copies count. From the best to the worst, each counts unless a better one is the
/// same response. A copy without a request id, or in a side chain, is the same response as any other
/// copy of that id.
fn counting(copies: &[Copy]) -> Vec<bool> {
    let mut order: Vec<(usize, &Copy)> = copies.iter().enumerate().collect();
    order.sort_by(|(_, a), (_, b)| b.rank().cmp(&a.rank()));
    let mut counting = vec![false; copies.len()];
    let mut requests = HashSet::default();
    let mut has_main = false;
    for (index, copy) in order {
        let is_repeated = requests.contains(&copy.request)
            || requests.contains(&0)
            || (copy.request == 0 && !requests.is_empty())
            || (copy.is_sidechain && has_main);
        requests.insert(copy.request);
        has_main |= !copy.is_sidechain;
        if let Some(counts) = counting.get_mut(index) {
            *counts = !is_repeated;
        }
    }
    counting
}

/// A bill of a line that has no newline yet.
#[derive(Debug)]
pub(crate) struct Foreseen<'a> {
    pub(crate) entry: EntryId,
    pub(crate) session: SessionRow,
    pub(crate) session_id: &'a str,
    /// The model's number.
    pub(crate) model: i64,
    pub(crate) time: Option<i64>,
    pub(crate) is_sidechain: bool,
    pub(crate) draft: &'a DraftUsage,
}

/// How sums will change when these lines get their newlines. Nothing is written.
pub(crate) fn foresee(conn: &Connection, bills: &[Foreseen<'_>]) -> Result<Quarters> {
    let mut quarters = Quarters::default();
    let mut by_message: BTreeMap<i64, Vec<&Foreseen<'_>>> = BTreeMap::new();
    for bill in bills {
        let message = bill.draft.message.unwrap_or(bill.entry.0);
        by_message.entry(message).or_default().push(bill);
    }
    for (message, bills) in by_message {
        let mut copies = copies(conn, message)?;
        let mut slots = Vec::with_capacity(copies.len());
        for copy in &copies {
            let slot = slot(conn, copy.entry)?;
            if copy.is_counted {
                quarters.take(&slot);
            }
            slots.push(slot);
        }
        for bill in bills {
            let known = copies.iter_mut().zip(&mut slots).find(|(copy, slot)| {
                copy.request == bill.draft.request && slot.session == bill.session
            });
            let usage = bill.draft.usage;
            match known {
                Some((copy, slot)) => {
                    copy.is_sidechain &= bill.is_sidechain;
                    if is_larger(&usage, &slot.usage) {
                        slot.usage = usage;
                        copy.tokens = weight(&usage);
                    }
                }
                None => {
                    copies.push(Copy {
                        request: bill.draft.request,
                        // Its record comes after all others.
                        entry: EntryId(i64::MAX),
                        is_counted: false,
                        is_sidechain: bill.is_sidechain,
                        tokens: weight(&usage),
                        time: bill.time,
                        session_id: bill.session_id.to_owned(),
                    });
                    slots.push(Slot {
                        session: bill.session,
                        model: bill.model,
                        time: bill.time,
                        usage,
                    });
                }
            }
        }
        for (slot, counts) in slots.iter().zip(counting(&copies)) {
            if counts {
                quarters.add(slot);
            }
        }
    }
    Ok(quarters)
}

/// What copies are compared by: all tokens, then by kind.
fn weight(usage: &Usage) -> [i64; 5] {
    let [input, output, cache_read, cache_write] =
        [usage.input, usage.output, usage.cache_read, usage.cache_write].map(tokens);
    [input + output + cache_read + cache_write, output, input, cache_write, cache_read]
}
