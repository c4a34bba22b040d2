//! What each session cost, for the index of sessions.

use foldhash::HashMap;
use quipu_transcript::prices::Prices;

use super::tally::Tally;
use super::{models, part};
use crate::Result;
use crate::ids::SessionRow;
use crate::ledger::Ledger;
use crate::wire::Session;

/// What sessions cost. Their sub-agents are sessions of their own.
#[derive(Debug)]
pub struct Costs(HashMap<SessionRow, Tally>);

impl Costs {
    /// Fills in what a session used and what that cost: the responses that are billed to it, without
    /// copies of another session's.
    pub fn bill(&self, row: SessionRow, session: &mut Session) {
        let tally = self.0.get(&row);
        session.tokens = tally.map_or(0, Tally::total);
        session.cost_usd = tally.map_or(Some(0.0), Tally::cost);
    }
}

/// What all sessions cost. Reads the sums of quarters of an hour, once.
pub fn costs(ledger: &Ledger, prices: &Prices) -> Result<Costs> {
    let conn = ledger.conn();
    let models = models(conn, prices)?;
    let mut statement = conn.prepare_cached(
        "SELECT quarter, session, model, is_fast, prompt_over, is_recorded, responses, input,
                output, cache_read, cache_write, cache_write_1h, cost_nano_usd
           FROM usage_quarters",
    )?;
    let mut rows = statement.query([])?;
    let mut costs: HashMap<SessionRow, Tally> = HashMap::default();
    while let Some(row) = rows.next()? {
        costs.entry(row.get(1)?).or_default().add(row.get(2)?, &part(row, &models)?);
    }
    Ok(Costs(costs))
}
