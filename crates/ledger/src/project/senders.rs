//! The senders that may write to an agent, derived from the journal.
//!
//! Never uses any other source.

use quipu_transcript::routing::admission::is_open_at;
use rusqlite::Connection;

use crate::Result;
use crate::base::ids::Seq;
use crate::truth::journal::Event;

/// Projects a line of the journal about a sender; any other line changes nothing.
pub(crate) fn project_event(tx: &Connection, seq: Seq, event: &Event) -> Result<()> {
    match event {
        Event::Sender { at, agent, channel, sender, decision } => {
            // Every decision ends the sender's pairing request.
            tx.prepare_cached(
                "DELETE FROM pairing_requests WHERE agent = ?1 AND channel = ?2 AND sender = ?3",
            )?
            .execute((agent, channel, sender))?;
            match decision.as_str() {
                "allowed" | "denied" => {
                    tx.prepare_cached(
                        "INSERT OR REPLACE INTO senders
                            (agent, channel, sender, state, time, seq)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                    )?
                    .execute((agent, channel, sender, decision, at, seq))?;
                }
                // A revoked sender may not write. A decision that only a later version knows is
                // treated the same.
                _ => {
                    tx.prepare_cached(
                        "DELETE FROM senders WHERE agent = ?1 AND channel = ?2 AND sender = ?3",
                    )?
                    .execute((agent, channel, sender))?;
                }
            }
        }
        Event::PairingRequest { at, agent, channel, sender, code } => {
            remove_expired(tx, agent, channel, *at)?;
            tx.prepare_cached(
                "INSERT OR REPLACE INTO pairing_requests
                    (agent, channel, sender, code, asked_at, seq)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute((agent, channel, sender, code, at, seq))?;
        }
        _ => {}
    }
    Ok(())
}

/// Removes expired requests, so that only a few remain.
fn remove_expired(tx: &Connection, agent: &str, channel: &str, now: i64) -> Result<()> {
    let old: Vec<String> = tx
        .prepare_cached(
            "SELECT sender, asked_at FROM pairing_requests WHERE agent = ?1 AND channel = ?2",
        )?
        .query_map((agent, channel), |row| Ok((row.get(0)?, row.get(1)?)))?
        .filter(|row| !row.as_ref().is_ok_and(|(_, asked_at)| is_open_at(*asked_at, now)))
        .map(|row| row.map(|(sender, _): (String, i64)| sender))
        .collect::<Result<_, _>>()?;
    for sender in old {
        tx.prepare_cached(
            "DELETE FROM pairing_requests WHERE agent = ?1 AND channel = ?2 AND sender = ?3",
        )?
        .execute((agent, channel, sender))?;
    }
    Ok(())
}
