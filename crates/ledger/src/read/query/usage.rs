//! Tokens and cost, summed by day, week, month, window, session, model, project or agent.
//!
//! `project::usage` decided at collection which copy of a response counts. Here only the sums of
//! quarters of an hour are read, plus the usage of requests that no line records. The usage of a
//! last line without a newline is not counted. Never reads a record.

mod blocks;
mod groups;
mod recent;
mod sessions;
mod sums;
mod tally;

use foldhash::HashMap;
use jiff::tz::TimeZone;
use quipu_transcript::prices::{Price, Prices, Service, Tokens};

use super::Filter;
use crate::Result;
use crate::file::ledger::Ledger;
use crate::project::usage_rollup::{QUARTER, RollupKey, Sums};
use crate::wire::UsageReport;
pub use blocks::{WindowLimits, mark_windows};
use groups::Groups;
pub use recent::{RecentRequest, recent};
pub use sessions::{Costs, cost_of, costs};
use sums::each_sum;
use tally::Tally;

/// The groups of a usage report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageBy {
    /// Days of a time zone.
    Day,
    /// Weeks of a time zone, from Monday.
    Week,
    /// Months of a time zone.
    Month,
    /// Windows of a plan, this many hours long.
    Block {
        /// The length in hours.
        hours: u8,
    },
    /// Sessions, with their sub-agents.
    Session,
    /// Models.
    Model,
    /// Folders in which agents worked.
    Project,
    /// Formats, and the agents of formats that have several.
    Agent,
}

impl UsageBy {
    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            UsageBy::Day => "day",
            UsageBy::Week => "week",
            UsageBy::Month => "month",
            UsageBy::Block { .. } => "block",
            UsageBy::Session => "session",
            UsageBy::Model => "model",
            UsageBy::Project => "project",
            UsageBy::Agent => "agent",
        }
    }
}

/// A request for a usage report.
#[derive(Debug)]
pub struct UsageRequest<'a> {
    /// The groups.
    pub by: UsageBy,
    /// The first moment, milliseconds UTC. Its whole quarter of an hour is included.
    pub since: Option<i64>,
    /// The moment at which the report ends, milliseconds UTC. A quarter of an hour that begins
    /// before it is included.
    pub until: Option<i64>,
    /// The sessions that count. `None` counts all.
    pub sessions: Option<&'a Filter>,
    /// The time zone of days and months.
    pub zone: TimeZone,
    /// The prices of tokens.
    pub prices: &'a Prices,
    /// True if each group is also split by model.
    pub by_model: bool,
}

/// Returns the usage report. `None` if a filter is set and no session passes it.
pub fn usage(ledger: &Ledger, request: &UsageRequest<'_>) -> Result<Option<UsageReport>> {
    let conn = ledger.conn();
    let models = models(conn, request.prices)?;
    let Some(mut groups) = Groups::new(conn, request)? else { return Ok(None) };
    // A quarter of an hour that is only partly requested is included whole.
    let since = request.since.map_or(i64::MIN, |since| since - since.rem_euclid(QUARTER));
    let until = request.until.unwrap_or(i64::MAX);
    let mut tallies: Vec<Tally> = Vec::new();
    let mut by_model: HashMap<(usize, i64), Tally> = HashMap::default();
    let mut total = Tally::default();
    each_sum(conn, since..until, &mut |key, sums| {
        let Some(group) = groups.of(key.quarter, key.session.0, key.model, &models) else { return };
        if tallies.len() <= group {
            tallies.resize_with(group + 1, Tally::default);
        }
        let part = part(key, sums, &models);
        if let Some(tally) = tallies.get_mut(group) {
            tally.add(key.model, &part);
        }
        if request.by_model {
            by_model.entry((group, key.model)).or_default().add(key.model, &part);
        }
        total.add(key.model, &part);
    })?;
    let mut report = groups.report(conn, (&tallies, &by_model), &total, &models)?;
    report.total.unfinished_transcripts = unfinished(conn)?;
    Ok(Some(report))
}

/// Returns the number of transcripts that end in a line without a newline. The usage of that line
/// is not counted.
fn unfinished(conn: &rusqlite::Connection) -> Result<u64> {
    let count: i64 = conn
        .prepare_cached(
            "SELECT count(*)
               FROM (SELECT DISTINCT generation AS id FROM tails) t
               JOIN generations g ON g.id = t.id AND g.tail_length > 0
               JOIN sources s ON s.id = g.source AND s.generation = g.id AND s.is_gone = 0
              WHERE EXISTS (SELECT 1 FROM session_sources ss
                             WHERE ss.source = s.id
                               AND ss.part IN ('transcript', 'agent', 'subagent'))",
        )?
        .query_row([], |row| row.get(0))?;
    Ok(count.cast_unsigned())
}

/// One row of sums with its cost.
#[derive(Debug)]
struct Part {
    responses: u64,
    tokens: Tokens,
    cost: Cost,
}

#[derive(Debug)]
enum Cost {
    Recorded(f64),
    Priced(f64),
    Unknown,
}

/// A model with its number and price.
#[derive(Debug)]
struct Model {
    id: i64,
    name: String,
    price: Option<Price>,
}

fn models(conn: &rusqlite::Connection, prices: &Prices) -> Result<Vec<Model>> {
    let mut statement = conn.prepare_cached("SELECT id, model FROM models ORDER BY id")?;
    let models = statement
        .query_map([], |row| {
            let name: String = row.get(1)?;
            Ok(Model { id: row.get(0)?, price: prices.of(&name).copied(), name })
        })?
        .collect::<Result<_, _>>()?;
    Ok(models)
}

fn model(models: &[Model], id: i64) -> Option<&Model> {
    models.binary_search_by_key(&id, |model| model.id).ok().and_then(|index| models.get(index))
}

fn part(key: &RollupKey, sums: &Sums, models: &[Model]) -> Part {
    let [responses, input, output, cache_read, cache_write, cache_write_1h, cost] =
        sums.map(|sum| sum.max(0).cast_unsigned());
    let tokens = Tokens { input, output, cache_read, cache_write, cache_write_1h };
    let cost = if key.is_recorded {
        Cost::Recorded(cost as f64 / 1e9)
    } else {
        let service = Service { is_fast: key.is_fast, prompt_over: key.prompt_over };
        let price = model(models, key.model).and_then(|model| model.price.as_ref());
        match price.and_then(|price| price.cost(service, &tokens)) {
            Some(cost) => Cost::Priced(cost),
            // A row without tokens costs nothing, even if the model has no price.
            None if tokens == Tokens::default() => Cost::Priced(0.0),
            None => Cost::Unknown,
        }
    };
    Part { responses, tokens, cost }
}
