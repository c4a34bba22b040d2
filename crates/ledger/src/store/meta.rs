//! What is noted about a session, under the names of OpenClaw's index. What the ledger can count
//! itself is counted when it is asked for, so it is always true and nobody can set it; an import
//! brings the numbers of whoever counted before, and counting goes on from them.

use quipu_transcript::index::{self, Holds};
use quipu_transcript::key::SessionKey;
use rusqlite::{Connection, OptionalExtension};
use serde_json::{Map, Number, Value};

use super::sessions::{bind, key_of};
use super::{Fields, NativeSession, Store};
use crate::base::ids::{EntryId, Seq, SessionRow};
use crate::read::query::native_keys::{index_of, noted_as};
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
        self.settled(&mut |ledger| Ok(of(ledger.conn(), session)?.to_map()))
    }

    /// Changes what is noted about a session; `null` takes a field away. Unknown fields are kept as
    /// they are, known ones are checked.
    pub fn patch_meta(
        &mut self,
        session: &NativeSession,
        patch: &Map<String, Value>,
    ) -> Result<Map<String, Value>> {
        Ok(self.patch_fields(session, &patch.clone().into())?.to_map())
    }

    /// The same with values that stay as they were written.
    pub fn patch_fields(&mut self, session: &NativeSession, patch: &Fields) -> Result<Fields> {
        check(patch)?;
        self.write(&mut |work| {
            super::append::still_there(work.tx, session)?;
            let Some(key) = key_of(work.tx, session)? else {
                let why = "no key leads to this session any more: nothing can be noted about it";
                return Err(Error::refused(why));
            };
            bind(work, session, &key, patch.clone())
        })?;
        self.settled(&mut |ledger| of(ledger.conn(), session))
    }
}

/// Everything that is noted about a session of our own.
pub(super) fn of(conn: &Connection, session: &NativeSession) -> Result<Fields> {
    let Some(key) = key_of(conn, session)? else {
        let mut fields = Fields::default();
        count(conn, session.row, &session.id, None, &mut fields)?;
        return Ok(fields);
    };
    let mut fields = of_key(conn, &session.agent, &key)?.unwrap_or_default();
    count_for(conn, session, &key, &mut fields)?;
    Ok(fields)
}

/// Refuses values that nobody would understand, and more than belongs into notes.
pub(super) fn check(fields: &Fields) -> Result<()> {
    let bytes = fields.json().len();
    if bytes > LONGEST {
        return Err(Error::refused(format!(
            "{bytes} bytes are too long; at most {LONGEST} are noted at once"
        )));
    }
    for name in fields.names() {
        if COUNTED.contains(&name) {
            return Err(Error::refused(format!("`{name}` is counted by the ledger")));
        }
        if FOLLOWING.contains(&name) {
            return Err(Error::refused(format!("`{name}` follows from the session's entries")));
        }
        let (Some(field), Some(value)) = (index::field(name), fields.get(name)) else { continue };
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
pub(super) fn noted(conn: &Connection, session: &NativeSession) -> Result<Fields> {
    let Some(key) = key_of(conn, session)? else { return Ok(Fields::default()) };
    Ok(of_key(conn, &session.agent, &key)?.unwrap_or_default())
}

/// What was patched of a key, as it is spelled where it is noted.
pub(super) fn of_key(conn: &Connection, agent: &str, key: &str) -> Result<Option<Fields>> {
    let Some(index) = index_of(conn, agent)? else { return Ok(None) };
    let fields: Option<String> = conn
        .prepare_cached("SELECT fields FROM session_keys WHERE source = ?1 AND key = ?2")?
        .query_row((index, key), |row| row.get(0))
        .optional()?;
    Ok(fields.map(|fields| serde_json::from_str(&fields).unwrap_or_default()))
}

/// Takes away what was counted in the session that a key led to before: another one begins.
pub(super) fn start_anew(conn: &Connection, key: &SessionKey, fields: &mut Fields) -> Result<()> {
    let Some((spelled, _)) = noted_as(conn, key)? else { return Ok(()) };
    let before = of_key(conn, key.agent().unwrap_or_default(), &spelled)?.unwrap_or_default();
    for name in before.names().filter(|name| [COUNTED, FOLLOWING].concat().contains(name)) {
        fields.put(name, &Value::Null);
    }
    Ok(())
}

/// Adds what is counted to what is noted about a key that leads to a session.
pub(crate) fn count_for(
    conn: &Connection,
    session: &NativeSession,
    key: &str,
    fields: &mut Fields,
) -> Result<()> {
    let noted_at: Option<Seq> = match index_of(conn, &session.agent)? {
        None => None,
        Some(index) => conn
            .prepare_cached(
                "SELECT min(seq) FROM key_history
                  WHERE session_id = ?1 AND source = ?2 AND key = ?3",
            )?
            .query_row((&session.id, index, key), |row| row.get(0))?,
    };
    count(conn, session.row, &session.id, noted_at, fields)
}

/// Adds what the session's entries say. Where the runtime that a session was imported from has
/// counted, its numbers are where counting begins: only entries behind `noted_at` are added to them.
/// What nobody says is left out.
pub(crate) fn count(
    conn: &Connection,
    session: SessionRow,
    id: &str,
    noted_at: Option<Seq>,
    fields: &mut Fields,
) -> Result<()> {
    let (updated, started): (Option<i64>, Option<i64>) = conn
        .prepare_cached("SELECT updated_at, started_at FROM sessions WHERE id = ?1")?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let all = Counts::of(conn, session, Seq(0))?;
    let is_noted = |name: &&&str| fields.get(name).is_some();
    let since = match noted_at {
        Some(seq) if COUNTED.iter().find(is_noted).is_some() => Counts::of(conn, session, seq)?,
        _ => Counts::default(),
    };
    let mut counted: Vec<(&str, i64)> = Vec::new();
    for (at, name) in SUMS.iter().enumerate() {
        let sum = |counts: &Counts| counts.sums.get(at).copied().unwrap_or_default();
        match (fields.get(name), sum(&since)) {
            // It stays as it was written.
            (Some(Value::Number(_)), 0) => {}
            (Some(Value::Number(noted)), since) => {
                counted.extend(whole(&noted).map(|noted| (*name, noted.saturating_add(since))));
            }
            _ => counted.push((name, sum(&all))),
        }
    }
    if since.last.is_some() || fields.get("totalTokens").is_none() {
        counted.push(("totalTokens", all.last.unwrap_or_default()));
    }
    if since.has_entry || fields.get("updatedAt").is_none() {
        counted.push(("updatedAt", updated.unwrap_or_default()));
    }
    if fields.get("sessionStartedAt").is_none() {
        counted.push(("sessionStartedAt", started.unwrap_or_default()));
    }
    for (name, value) in counted.into_iter().filter(|(_, value)| *value > 0) {
        fields.put(name, &value);
    }
    if all.has_answer {
        fields.put("systemSent", &true);
    }
    fields.put("sessionId", &id);
    Ok(())
}

/// A number that something can be added to: whole numbers may be written as 1E5, or end in .0.
fn whole(number: &Number) -> Option<i64> {
    /// Above this, not every whole number is one of these.
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    number.as_i64().or_else(|| {
        let number = number.as_f64().filter(|number| number.abs() <= LARGEST)?;
        Some(number.round() as i64)
    })
}

/// What is added up, in the order of [`Counts::sums`].
const SUMS: [&str; 5] =
    ["inputTokens", "outputTokens", "cacheRead", "cacheWrite", "compactionCount"];

/// What a session's entries behind a record come to.
#[derive(Default)]
struct Counts {
    has_entry: bool,
    sums: [i64; 5],
    /// How full the context was when the model last answered.
    last: Option<i64>,
    has_answer: bool,
}

impl Counts {
    fn of(conn: &Connection, session: SessionRow, behind: Seq) -> Result<Counts> {
        let first = EntryId::of(Seq(behind.0 + 1), 0);
        let (has_entry, has_answer) = conn
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM entry_rows WHERE session = ?1 AND id >= ?2),
                        EXISTS (SELECT 1 FROM messages
                                 WHERE session = ?1 AND id >= ?2 AND role = 'assistant')",
            )?
            .query_row((session, first), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let compactions = conn
            .prepare_cached(match behind {
                Seq(0) => "SELECT compactions FROM sessions WHERE id = ?1 AND ?2 IS NOT NULL",
                _ => {
                    "SELECT count(*) FROM entries
                      WHERE session = ?1 AND id >= ?2 AND type = 'compaction'"
                }
            })?
            .query_row((session, first), |row| row.get(0))?;
        let mut sums = conn
            .prepare_cached(
                "SELECT coalesce(sum(u.input), 0), coalesce(sum(u.output), 0),
                        coalesce(sum(u.cache_read), 0), coalesce(sum(u.cache_write), 0), 0
                   FROM entry_rows e JOIN usage_rows u ON u.entry = e.id
                  WHERE e.session = ?1 AND e.id >= ?2",
            )?
            .query_row((session, first), |row| {
                Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?])
            })?;
        sums[4] = compactions;
        let last = conn
            .prepare_cached(
                "SELECT u.input + u.output + u.cache_read + u.cache_write
                   FROM entry_rows e JOIN usage_rows u ON u.entry = e.id
                   JOIN kinds k ON k.id = e.kind
                  WHERE e.session = ?1 AND e.id >= ?2 AND k.role = 'assistant' AND NOT k.is_mirror
                  ORDER BY e.id DESC LIMIT 1",
            )?
            .query_row((session, first), |row| row.get(0))
            .optional()?;
        Ok(Counts { has_entry, sums, last, has_answer })
    }
}
