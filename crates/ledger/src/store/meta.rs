//! What is noted about a session, under the names of OpenClaw's index. What the ledger can count
//! itself is counted when it is asked for, so it is always true and nobody can set it.

use quipu_transcript::index::{self, Holds};
use rusqlite::{Connection, OptionalExtension};
use serde_json::{Map, Value};

use super::sessions::{bind, index_of, key_of};
use super::{NativeSession, Store};
use crate::ids::SessionRow;
use crate::{Error, Result};

/// What the ledger counts.
const COUNTED: &[&str] = &[
    "sessionId",
    "updatedAt",
    "inputTokens",
    "outputTokens",
    "cacheRead",
    "cacheWrite",
    "totalTokens",
    "compactionCount",
];

/// What follows from the session's entries.
const FOLLOWING: &[&str] = &["sessionStartedAt", "systemSent"];

/// More bytes than this are no note: every change of one writes all of them again.
const LONGEST: usize = 1 << 20;

impl Store {
    /// Everything that is noted about a session: what was patched, and what is counted. A session
    /// that no key leads to any more has only the latter.
    pub fn meta(&mut self, session: &NativeSession) -> Result<Map<String, Value>> {
        self.settle()?;
        of(self.ledger.conn(), session)
    }

    /// Changes what is noted about a session; `null` takes a field away. Unknown fields are kept as
    /// they are, known ones are checked.
    pub fn patch_meta(
        &mut self,
        session: &NativeSession,
        patch: &Map<String, Value>,
    ) -> Result<Map<String, Value>> {
        check(patch)?;
        if let Some(name) = patch.keys().find(|name| COUNTED.contains(&name.as_str())) {
            return Err(Error::refused(format!("`{name}` is counted by the ledger")));
        }
        if let Some(name) = patch.keys().find(|name| FOLLOWING.contains(&name.as_str())) {
            return Err(Error::refused(format!("`{name}` follows from the session's entries")));
        }
        self.write(&mut |work| {
            super::append::still_there(work.tx, session)?;
            let Some(key) = key_of(work.tx, session)? else {
                let why = "no key leads to this session any more: nothing can be noted about it";
                return Err(Error::refused(why));
            };
            bind(work, session, &key, patch.clone())
        })?;
        self.meta(session)
    }
}

/// Everything that is noted about a session of our own.
pub(super) fn of(conn: &Connection, session: &NativeSession) -> Result<Map<String, Value>> {
    let mut fields = noted(conn, session)?;
    fields.extend(counted(conn, session.row, &session.id)?);
    Ok(fields)
}

/// Refuses values that nobody would understand, and more than belongs into notes.
pub(super) fn check(fields: &Map<String, Value>) -> Result<()> {
    let bytes = serde_json::to_vec(fields).map_or(usize::MAX, |json| json.len());
    if bytes > LONGEST {
        return Err(Error::refused(format!(
            "{bytes} bytes are too long; at most {LONGEST} are noted at once"
        )));
    }
    for (name, value) in fields {
        let Some(field) = index::field(name) else { continue };
        let is_good = value.is_null()
            || match field.holds {
                Holds::Text => value.is_string(),
                Holds::Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
                Holds::Number => value.is_number(),
                Holds::Flag => value.is_boolean(),
                Holds::Time => value.is_i64() || value.is_u64(),
                Holds::TextOrNumber => value.is_string() || value.is_number(),
                Holds::List => value.is_array(),
                Holds::Object => value.is_object(),
                Holds::Any => true,
            };
        if !is_good {
            let should = match field.holds {
                Holds::Text => "a text".to_owned(),
                Holds::Word(words) => format!("one of {}", words.join(", ")),
                Holds::Number => "a number".to_owned(),
                Holds::Flag => "true or false".to_owned(),
                Holds::Time => "milliseconds since 1970".to_owned(),
                Holds::TextOrNumber => "a text or a number".to_owned(),
                Holds::List => "a list".to_owned(),
                Holds::Object | Holds::Any => "an object".to_owned(),
            };
            return Err(Error::refused(format!("`{name}` has to be {should}")));
        }
    }
    Ok(())
}

/// What was patched.
pub(super) fn noted(conn: &Connection, session: &NativeSession) -> Result<Map<String, Value>> {
    let Some(key) = key_of(conn, session)? else { return Ok(Map::new()) };
    Ok(of_key(conn, &session.agent, &key)?.unwrap_or_default())
}

/// What was patched of a key, as it is spelled where it is noted.
pub(super) fn of_key(
    conn: &Connection,
    agent: &str,
    key: &str,
) -> Result<Option<Map<String, Value>>> {
    let Some(index) = index_of(conn, agent)? else { return Ok(None) };
    let fields: Option<String> = conn
        .prepare_cached("SELECT fields FROM session_keys WHERE source = ?1 AND key = ?2")?
        .query_row((index, key), |row| row.get(0))
        .optional()?;
    Ok(fields.map(|fields| serde_json::from_str(&fields).unwrap_or_default()))
}

/// What the session's entries say. What they do not say is left out.
pub(crate) fn counted(
    conn: &Connection,
    session: SessionRow,
    id: &str,
) -> Result<Map<String, Value>> {
    let mut fields = Map::new();
    fields.insert("sessionId".to_owned(), id.into());
    let mut put = |name: &str, value: Option<i64>| {
        if let Some(value) = value.filter(|value| *value > 0) {
            fields.insert(name.to_owned(), value.into());
        }
    };
    let (updated, started, compactions, has_answer): (_, _, i64, bool) = conn
        .prepare_cached(
            "SELECT updated_at, started_at, compactions,
                    EXISTS (SELECT 1 FROM messages WHERE session = ?1 AND role = 'assistant')
               FROM sessions WHERE id = ?1",
        )?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    put("updatedAt", updated);
    put("sessionStartedAt", started);
    put("compactionCount", Some(compactions));
    let sums: [Option<i64>; 4] = conn
        .prepare_cached(
            "SELECT sum(u.input), sum(u.output), sum(u.cache_read), sum(u.cache_write)
               FROM entry_rows e JOIN usage_rows u ON u.entry = e.id WHERE e.session = ?1",
        )?
        .query_row([session], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))?;
    for (name, sum) in ["inputTokens", "outputTokens", "cacheRead", "cacheWrite"].iter().zip(sums) {
        put(name, sum);
    }
    // How full the context was when the model last answered.
    let last: Option<i64> = conn
        .prepare_cached(
            "SELECT u.input + u.output + u.cache_read + u.cache_write
               FROM entry_rows e JOIN usage_rows u ON u.entry = e.id
              WHERE e.session = ?1 ORDER BY e.id DESC LIMIT 1",
        )?
        .query_row([session], |row| row.get(0))
        .optional()?;
    put("totalTokens", last);
    if has_answer {
        fields.insert("systemSent".to_owned(), Value::Bool(true));
    }
    Ok(fields)
}
