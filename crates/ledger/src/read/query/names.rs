//! Names that occur in a ledger, for completing what is typed.

use crate::Result;
use crate::file::ledger::Ledger;

/// Names that occur in a ledger, each kind sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Tools that were called.
    pub tools: Vec<String>,
    /// Agents of sessions, by every name that filters take: a format, `FORMAT/AGENT`, an agent.
    pub agents: Vec<String>,
}

/// Returns the names of tools and agents.
pub fn names(ledger: &Ledger) -> Result<Names> {
    let read = |sql: &str| -> Result<Vec<String>> {
        let mut statement = ledger.conn().prepare_cached(sql)?;
        let names = statement.query_map([], |row| row.get(0))?;
        Ok(names.collect::<Result<_, _>>()?)
    };
    Ok(Names {
        tools: read("SELECT DISTINCT name FROM tools WHERE name <> '' ORDER BY name")?,
        agents: read(
            "SELECT format FROM sessions
              UNION SELECT agent FROM sessions WHERE agent <> ''
              UNION SELECT format || '/' || agent FROM sessions WHERE agent <> ''
              ORDER BY 1",
        )?,
    })
}
