//! Who may speak, folded from the journal. Nothing else says it.

use quipu_transcript::routing::admission::stands;
use rusqlite::Connection;

use crate::Result;
use crate::base::ids::Seq;
use crate::truth::journal::Event;

/// Folds in a line of the journal about a sender; lines about anything else change nothing.
pub(crate) fn note(tx: &Connection, seq: Seq, event: &Event) -> Result<()> {
    match event {
        Event::Sender { at, agent, channel, sender, decision } => {
            // Whatever was decided is the answer to what they asked.
            tx.prepare_cached(
                "DELETE FROM pairing_requests WHERE agent = ?1 AND channel = ?2 AND sender = ?3",
            )?
            .execute((agent, channel, sender))?;
            match decision.as_str() {
                "allowed" | "denied" => {
                    tx.prepare_cached(
                        "INSERT OR REPLACE INTO senders
                            (agent, channel, sender, state, since, seq)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                    )?
                    .execute((agent, channel, sender, decision, at, seq))?;
                }
                // What a later version may decide is not known here, and nobody unknown may speak.
                _ => {
                    tx.prepare_cached(
                        "DELETE FROM senders WHERE agent = ?1 AND channel = ?2 AND sender = ?3",
                    )?
                    .execute((agent, channel, sender))?;
                }
            }
        }
        Event::PairingRequest { at, agent, channel, sender, code } => {
            forget_old(tx, agent, channel, *at)?;
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

/// Drops requests that do not stand at that time any more: there are never more than a few.
fn forget_old(tx: &Connection, agent: &str, channel: &str, now: i64) -> Result<()> {
    let old: Vec<String> = tx
        .prepare_cached(
            "SELECT sender, asked_at FROM pairing_requests WHERE agent = ?1 AND channel = ?2",
        )?
        .query_map((agent, channel), |row| Ok((row.get(0)?, row.get(1)?)))?
        .filter(|row| !row.as_ref().is_ok_and(|(_, asked_at)| stands(*asked_at, now)))
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
