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
use crate::wire::Session;

/// The costs of sessions. Sub-agents are separate sessions.
#[derive(Debug)]
pub struct Costs(HashMap<SessionRow, Tally>);

impl Costs {
    /// Sets the tokens and the cost of a session: the responses that count for it, without copies
    /// of responses of another session.
    pub fn add_to(&self, row: SessionRow, session: &mut Session) {
        let tally = self.0.get(&row);
        session.tokens = tally.map_or(0, Tally::total);
        session.cost_usd = tally.map_or(Some(0.0), Tally::cost);
    }
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
