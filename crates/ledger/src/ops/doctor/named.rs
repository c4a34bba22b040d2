//! Checks that every transcript that an index names exists.
//!
//! Compares tables of the ledger. Never looks at the disk.

use super::finding::{Findings, Tally};
use super::{Check, Examined};
use crate::Result;
use crate::wire::Severity;

pub(super) const CHECK: Check = Check {
    name: "indexes",
    fine: "every transcript listed in an index is stored",
    run,
    needs_ledger: true,
};

fn run(examined: &mut Examined<'_>, findings: &mut Findings) -> Result<()> {
    let conn = examined.conn()?;
    let mut absent = Tally::default();
    let mut statement = conn.prepare(
        "SELECT k.key, k.session_id FROM session_keys k
          WHERE k.session_id IS NOT NULL
            AND NOT EXISTS (
                SELECT 1 FROM sessions s
                 WHERE (s.format, s.agent, s.session_id) = (k.format, k.agent, k.session_id)
                   AND s.state <> 'lost')
            AND NOT EXISTS (
                SELECT 1 FROM forgotten f
                 WHERE (f.format, f.agent, f.session_id) = (k.format, k.agent, k.session_id))
          ORDER BY k.key, k.source",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (key, session): (String, String) = (row.get(0)?, row.get(1)?);
        absent.add(|| format!("{key} leads to {session}"));
    }
    let what = "session keys of sessions that have no transcript in the ledger or on disk";
    let advice = "a session without messages has none; otherwise restore the transcript from a \
                  backup of the agent's folder and run `quipu sync`";
    findings.tally(Severity::Warning, absent, what, advice);
    Ok(())
}
