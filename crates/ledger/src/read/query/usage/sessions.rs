//! The cost of each session, for the list of sessions.
//!
//! Reads stored sums, never a record.

use foldhash::HashMap;
use quipu_transcript::prices::Prices;

use super::tally::Tally;
use super::{models, part, sums};
use crate::Result;
use crate::base::ids::SessionRow;
use crate::file::ledger::Ledger;
use crate::project::family::works_for;
use crate::project::usage_rollup::{RollupKey, Sums, quarter};
use crate::wire::Session;

/// The costs of sessions. Sub-agents are separate sessions.
#[derive(Debug)]
pub struct Costs(HashMap<SessionRow, Tally>);

impl Costs {
    /// Sets the tokens and the cost of a session: the responses that count for it, without copies
    /// of responses of another session.
    pub fn add_to(&self, row: SessionRow, session: &mut Session) {
        let tally = self.0.get(&row);
        session.total_tokens = tally.map_or(0, Tally::total);
        session.cost_usd = tally.map_or(Some(0.0), Tally::cost);
    }
}

/// Returns the cost of a session and of its sub-agents, as `usage` counts it; `None` if no price is
/// known. Reads only the sums of the time in which they were active.
pub fn cost_of(ledger: &Ledger, prices: &Prices, row: SessionRow) -> Result<Option<f64>> {
    let conn = ledger.conn();
    let mut children = conn.prepare_cached(concat!(
        "SELECT child.id FROM sessions parent JOIN sessions child ON ",
        works_for!(),
        " WHERE parent.id = ?1",
    ))?;
    let mut family = vec![row];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        next += 1;
        for child in children.query_map([parent], |row| row.get(0))? {
            let child = child?;
            if !family.contains(&child) {
                family.push(child);
            }
        }
    }
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    let mut times =
        conn.prepare_cached("SELECT started_at, updated_at FROM sessions WHERE id = ?1")?;
    for row in &family {
        let (started, updated) = times.query_row([row], |row| Ok((row.get(0)?, row.get(1)?)))?;
        // Usage without a time has the quarter 0.
        first = first.min(quarter(started));
        last = last.max(quarter(updated));
    }
    let models = models(conn, prices)?;
    let mut tally = Tally::default();
    let mut add = |key: &RollupKey, sums: &Sums| {
        if family.contains(&key.session) {
            tally.add(key.model, &part(key, sums, &models));
        }
    };
    sums::each_sum(conn, first..last.saturating_add(1), &mut add)?;
    Ok(tally.cost())
}

/// Returns the costs of all sessions. Reads the sums of quarters of an hour once.
pub fn costs(ledger: &Ledger, prices: &Prices) -> Result<Costs> {
    let conn = ledger.conn();
    let models = models(conn, prices)?;
    let mut costs: HashMap<SessionRow, Tally> = HashMap::default();
    sums::each_sum(conn, i64::MIN..i64::MAX, &mut |key, sums| {
        costs.entry(key.session).or_default().add(key.model, &part(key, sums, &models));
    })?;
    Ok(Costs(costs))
}
