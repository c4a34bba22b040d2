//! Usage: one row per API response and session. Exactly one row per response is counted over all
//! sessions (`copies`).
//!
//! The rules use only the largest and smallest values, so the order in which copies of a resumed
//! session are collected never matters.

mod copies;
mod totals;

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;

use foldhash::HashMap;
use quipu_transcript::entry::Usage;
use quipu_transcript::prices;
use rusqlite::{Connection, OptionalExtension, Row, Statement};

use super::draft::DraftUsage;
use crate::Result;
use crate::base::ids::{EntryId, SessionRow};
use crate::project::usage_rollup::{CountedUsage, UsageRollup};
pub(crate) use copies::recount_all;
pub(crate) use totals::TotalEntry;

/// The identity of a response within a session: the hashes of its message and its request.
type ResponseKey = (i64, i64);

#[derive(Debug, Clone)]
struct ResponseUsage {
    entry: EntryId,
    turn: Option<EntryId>,
    time: Option<i64>,
    model: i64,
    usage: Usage,
    is_sidechain: bool,
    is_dirty: bool,
    /// The usage that is stored in the ledger.
    saved: Option<Usage>,
}

/// The in-memory state of a session's usage.
#[derive(Debug, Default)]
pub(crate) struct SessionUsage {
    open: HashMap<ResponseKey, ResponseUsage>,
    /// The sums of all responses, once the agent's own total was compared with them.
    lines: Option<totals::Lines>,
    line_reads: u8,
}

/// The models that were used since the fold began.
#[derive(Debug, Default)]
pub(crate) struct Models {
    known: HashMap<Model, i64>,
}

/// The model that answered; fields that the agent does not name are empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Model {
    pub(crate) model: Box<str>,
    pub(crate) provider: Box<str>,
    pub(crate) api: Box<str>,
}

impl Model {
    /// Returns this model, or the model in effect if this one has no name.
    pub(crate) fn or<'a>(&'a self, in_effect: Option<&'a Model>) -> &'a Model {
        in_effect.filter(|_| self.model.is_empty()).unwrap_or(self)
    }
}

/// The entry to which a usage belongs.
#[derive(Debug)]
pub(crate) struct UsageEntry<'a> {
    pub(crate) session: SessionRow,
    /// True if memory holds all usage of the session.
    pub(crate) is_complete: bool,
    pub(crate) entry: EntryId,
    pub(crate) turn: Option<EntryId>,
    pub(crate) time: Option<i64>,
    pub(crate) is_sidechain: bool,
    pub(crate) model: &'a Model,
}

impl SessionUsage {
    /// Adds the usage of a line. Returns the turn of the response, with its usage before and after,
    /// if it has grown.
    pub(crate) fn add(
        &mut self,
        conn: &Connection,
        models: &mut Models,
        entry: &UsageEntry<'_>,
        draft: &DraftUsage,
    ) -> Result<Option<(EntryId, Usage, Usage)>> {
        let key = key(draft, entry.entry);
        let known = match self.open.entry(key) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(_) if entry.is_complete => None,
            Entry::Vacant(vacant) => {
                load(conn, key, entry.session)?.map(|response| vacant.insert(response))
            }
        };
        let (turn, time, before) = match known {
            None => {
                let response = ResponseUsage {
                    entry: entry.entry,
                    turn: entry.turn,
                    time: entry.time,
                    model: models.number(conn, entry.model)?,
                    usage: draft.usage,
                    is_sidechain: entry.is_sidechain,
                    is_dirty: true,
                    saved: None,
                };
                self.open.insert(key, response);
                (entry.turn, entry.time, Usage::default())
            }
            Some(response) => {
                let (before, was_sidechain) = (response.usage, response.is_sidechain);
                let line = (draft.usage, entry.is_sidechain);
                let has_grown = merge_line(&mut response.usage, &mut response.is_sidechain, line);
                response.is_dirty |= has_grown || response.is_sidechain != was_sidechain;
                if !has_grown {
                    return Ok(None);
                }
                (response.turn, response.time, before)
            }
        };
        self.add_to_lines(entry.model, time, &before, &draft.usage);
        Ok(turn.map(|turn| (turn, before, draft.usage)))
    }

    /// Writes the usage that changed, and adds the hashes of its response ids to `changed`.
    pub(crate) fn save(
        &mut self,
        conn: &Connection,
        session: SessionRow,
        is_complete: bool,
        changed: &mut BTreeSet<i64>,
        rollup: &mut UsageRollup,
    ) -> Result<()> {
        let mut dirty: Vec<_> =
            self.open.iter_mut().filter(|(_, response)| response.is_dirty).collect();
        dirty.sort_unstable_by_key(|(_, response)| response.entry);
        // The statement is prepared once, because that costs as much as binding its values.
        let mut new = conn.prepare_cached(INSERT)?;
        for (key, response) in dirty {
            response.is_dirty = false;
            changed.insert(key.0);
            let mut counted = CountedUsage {
                session,
                model: response.model,
                time: response.time,
                usage: response.usage,
            };
            match response.saved.replace(response.usage) {
                None => {
                    insert(&mut new, *key, response)?;
                    rollup.add(&counted);
                }
                Some(before) => {
                    // A copy that is not counted is in no sum.
                    if update(conn, response)? {
                        rollup.add(&counted);
                        counted.usage = before;
                        rollup.subtract(&counted);
                    }
                }
            }
        }
        if !is_complete {
            // An incomplete session is queried from the ledger anyway.
            self.open.clear();
        }
        Ok(())
    }
}

/// The statement that adds a usage. It is counted until another copy is found.
const INSERT: &str = "INSERT INTO usage_rows
        (entry, message, request, model, input, output, cache_read, cache_write, cache_write_1h,
         cost_usd, is_fast, is_sidechain, is_counted)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 1)";

fn insert(
    new: &mut Statement<'_>,
    (message, request): ResponseKey,
    response: &ResponseUsage,
) -> Result<()> {
    let usage = response.usage;
    new.execute((
        response.entry,
        message,
        request,
        response.model,
        tokens(usage.input),
        tokens(usage.output),
        tokens(usage.cache_read),
        tokens(usage.cache_write),
        tokens(usage.cache_write_1h),
        usage.cost_usd,
        usage.is_fast,
        response.is_sidechain,
    ))?;
    Ok(())
}

/// Writes a changed usage. Returns whether it is counted.
fn update(conn: &Connection, response: &ResponseUsage) -> Result<bool> {
    let usage = response.usage;
    Ok(conn
        .prepare_cached(
            "UPDATE usage_rows SET
                input = ?2, output = ?3, cache_read = ?4, cache_write = ?5, cache_write_1h = ?6,
                cost_usd = ?7, is_fast = ?8, is_sidechain = ?9
              WHERE entry = ?1 RETURNING is_counted",
        )?
        .query_row(
            (
                response.entry,
                tokens(usage.input),
                tokens(usage.output),
                tokens(usage.cache_read),
                tokens(usage.cache_write),
                tokens(usage.cache_write_1h),
                usage.cost_usd,
                usage.is_fast,
                response.is_sidechain,
            ),
            |row| row.get(0),
        )?)
}

impl Models {
    /// Returns the number of a model. A model gets its number at its first use, so a rebuild
    /// assigns the same numbers.
    pub(crate) fn number(&mut self, conn: &Connection, model: &Model) -> Result<i64> {
        if let Some(id) = self.known.get(model) {
            return Ok(*id);
        }
        let row = (&model.model, &model.provider, &model.api);
        conn.prepare_cached(
            "INSERT OR IGNORE INTO models (model, provider, api, name) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute((row.0, row.1, row.2, prices::plain_name(&model.model)))?;
        let id = conn
            .prepare_cached(
                "SELECT id FROM models WHERE model = ?1 AND provider = ?2 AND api = ?3",
            )?
            .query_row(row, |row| row.get(0))?;
        self.known.insert(model.clone(), id);
        Ok(id)
    }

    /// Returns the plain name of a model with a number.
    fn plain_name(conn: &Connection, id: i64) -> Result<String> {
        Ok(conn
            .prepare_cached("SELECT name FROM models WHERE id = ?1")?
            .query_row([id], |row| row.get(0))?)
    }
}

/// Returns a token count as it is stored: limited, so that sums fit into SQLite's integers.
pub(crate) fn tokens(count: u64) -> i64 {
    count.min(Usage::MOST_TOKENS).cast_signed()
}

/// Returns the key of a line's response; without an id, the entry itself is the response.
fn key(draft: &DraftUsage, entry: EntryId) -> ResponseKey {
    (draft.message.unwrap_or(entry.0), draft.request)
}

/// Adds a line to the usage of its response. Returns whether the response has grown.
///
/// The line with the larger total is the later one of a streamed response. If one line is outside a
/// side chain, the whole response is.
fn merge_line(usage: &mut Usage, is_sidechain: &mut bool, line: (Usage, bool)) -> bool {
    let rank = |usage: &Usage| (usage.total(), usage.cost_usd.unwrap_or(0.0));
    let has_grown = rank(&line.0) > rank(usage);
    if has_grown {
        *usage = line.0;
    }
    *is_sidechain &= line.1;
    has_grown
}

fn load(
    conn: &Connection,
    (message, request): ResponseKey,
    session: SessionRow,
) -> Result<Option<ResponseUsage>> {
    Ok(conn
        .prepare_cached(
            "SELECT input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
                    cache_write_1h_tokens, cost_usd, is_fast, entry, turn, time, model,
                    is_sidechain
               FROM usage
              WHERE message % 2147483647 = ?1 % 2147483647 AND message = ?1 AND request = ?2
                AND session = ?3",
        )?
        .query_row((message, request, session), |row| {
            let usage = usage_from_row(row)?;
            Ok(ResponseUsage {
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

/// Reads a usage from the first columns of a row.
fn usage_from_row(row: &Row<'_>) -> rusqlite::Result<Usage> {
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
