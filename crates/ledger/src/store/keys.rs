//! The registry: all session keys, and the sessions that they lead to.
//!
//! Only reads.

use quipu_transcript::time::Timestamp;
use serde_json::Value;

use super::{Fields, meta, sessions};
use crate::Result;
use crate::base::ids::SessionRow;
use crate::file::ledger::Ledger;
use crate::wire::RegisteredKey;

/// Returns all session keys of the ledger, sorted. A key in several indexes is listed once, as the
/// newest has it. If a session was imported, its keys lead to the native session.
pub fn registry(ledger: &Ledger) -> Result<Vec<RegisteredKey>> {
    let conn = ledger.conn();
    let mut statement = conn.prepare_cached(
        "SELECT k.key, k.session_id, k.format, k.agent, k.channel, k.fields, k.session,
                k.created_at, s.updated_at
           FROM newest_keys k
           LEFT JOIN sessions s ON s.id = k.session
          ORDER BY k.key, k.format, k.source",
    )?;
    let mut rows = statement.query([])?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        let mut key = RegisteredKey {
            session_key: row.get(0)?,
            session_id: row.get(1)?,
            format: row.get(2)?,
            agent: row.get(3)?,
            channel: row.get(4)?,
            ..RegisteredKey::default()
        };
        let noted: Fields = serde_json::from_str(&row.get::<_, String>(5)?).unwrap_or_default();
        let mut fields = noted.clone();
        if let (Some(session), Some(id)) = (row.get::<_, Option<SessionRow>>(6)?, &key.session_id) {
            fields = match sessions::by_row(conn, session) {
                Ok(native) => {
                    meta::add_counts_of_key(conn, &native, &key.session_key, &mut fields)?;
                    fields
                }
                Err(_) => {
                    let mut counted = Fields::default();
                    meta::add_counts(conn, session, id, None, &mut counted)?;
                    counted.change(&noted);
                    counted
                }
            };
        }
        let number = |name: &str| match fields.get(name)? {
            Value::String(text) => Some(Timestamp::from_text(&text)?.0),
            Value::Number(number) => number.as_i64().or_else(|| Some(number.as_f64()? as i64)),
            _ => None,
        };
        key.created_at = row.get(7)?;
        key.updated_at = number("updatedAt").max(row.get(8)?);
        key.input_tokens = number("inputTokens");
        key.output_tokens = number("outputTokens");
        key.context_tokens = number("totalTokens");
        keys.push(key);
    }
    Ok(keys)
}
