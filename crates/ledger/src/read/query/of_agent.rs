//! Finds a session among those of one agent, for callers that may see no other.
//!
//! Never says that another agent has a session of the name.

use quipu_transcript::format;
use rusqlite::{Connection, OptionalExtension};

use super::find::{self, LAST};
use super::listed::{self, Filter};
use crate::base::ids::SessionRow;
use crate::{Error, Result};

/// Returns the session of an agent with this name. The agent has any of its names; see
/// [`format::is_agent`].
pub(crate) fn session(conn: &Connection, name: &str, agent: &str) -> Result<SessionRow> {
    let no_match = || Error::NoMatch { what: "session", name: name.to_owned() };
    if name == LAST {
        let filter = Filter { agent: Some(agent.to_owned()), ..Filter::default() };
        let newest = listed::filtered(conn, &filter)?.into_iter().next();
        return newest.map(|session| session.row).ok_or_else(no_match);
    }
    let found = match find::session(conn, name) {
        Ok(row) => vec![(name.to_owned(), row)],
        Err(Error::NoMatch { .. } | Error::Empty { .. }) => Vec::new(),
        Err(Error::Ambiguous { candidates, .. }) => {
            let mut rows = Vec::new();
            for candidate in candidates {
                // Two sessions may have the same distinguishing name.
                if let Ok(row) = find::session(conn, &candidate) {
                    rows.push((candidate, row));
                }
            }
            rows
        }
        Err(error) => return Err(error),
    };
    let mut own = Vec::new();
    for (shown, row) in found {
        if is_of(conn, row, agent)? {
            own.push((shown, row));
        }
    }
    match own.as_slice() {
        [] => Err(no_match()),
        [(_, row)] => Ok(*row),
        _ => {
            let candidates = own.into_iter().map(|(shown, _)| shown).collect();
            Err(Error::ambiguous("sessions", name, candidates))
        }
    }
}

/// Returns whether a session is of an agent.
fn is_of(conn: &Connection, row: SessionRow, agent: &str) -> Result<bool> {
    let names: Option<(String, String)> = conn
        .prepare_cached("SELECT format, agent FROM sessions WHERE id = ?1")?
        .query_row([row], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(names.is_some_and(|(format, own)| format::is_agent(agent, &format, &own)))
}
