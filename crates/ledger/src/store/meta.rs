//! The metadata of a session, under the field names of OpenClaw's index.
//!
//! The ledger computes its counts on every read, so they are always current and no caller can set
//! them. An import keeps the counts of the earlier runtime, and later entries are added to them.

use quipu_transcript::index::{self, Holds};
use quipu_transcript::key::SessionKey;
use rusqlite::{Connection, OptionalExtension};
use serde_json::{Map, Number, Value};

use super::Fields;
use super::session::Session;
use super::sessions::{NativeSession, bind, key_of};
use crate::base::ids::{EntryId, Seq, SessionRow};
use crate::read::query::native_keys::{index_of, stored_key_and_session};
use crate::{Error, Result};

/// The fields that the ledger counts.
const COUNTED_FIELDS: &[&str] = &[
    "sessionId",
    "updatedAt",
    "inputTokens",
    "outputTokens",
    "cacheRead",
    "cacheWrite",
    "totalTokens",
    "compactionCount",
];

/// The fields that follow from the session's entries.
const DERIVED_FIELDS: &[&str] = &["sessionStartedAt", "systemSent"];

/// The fields about the memory flushes of one session.
const FLUSH_FIELDS: &[&str] = &[
    "memoryFlushAt",
    "memoryFlushCompactionCount",
    "memoryFlushFailureCount",
    "memoryFlushLastFailedAt",
    "memoryFlushFailedCompactionCount",
];

/// The largest size of one patch, or of the metadata of a new session, in bytes. Each one becomes a
/// permanent line of the journal.
const MAX_PATCH_BYTES: usize = 1 << 20;

impl Session {
    /// Returns the metadata: the patched fields and the counts of the ledger. A session without a
    /// key has only the counts.
    pub fn meta(&self) -> Result<Map<String, Value>> {
        self.store.read_caught_up(&mut |ledger| Ok(of(ledger.conn(), &self.native)?.to_map()))
    }

    /// Changes the metadata and returns all of it; `null` removes a field. Known fields are
    /// checked; unknown ones are stored as they are.
    pub fn patch_meta(&self, patch: &Map<String, Value>) -> Result<Map<String, Value>> {
        Ok(self.patch_fields(&patch.clone().into())?.to_map())
    }

    /// Changes the metadata like [`Session::patch_meta`], but keeps the exact text of the values.
    pub fn patch_fields(&self, patch: &Fields) -> Result<Fields> {
        check(patch)?;
        let session = &self.native;
        self.store.write(&mut |work| {
            super::append::check_not_forgotten(work.tx, session)?;
            let Some(key) = key_of(work.tx, session)? else {
                let why =
                    "no session key leads to this session now, so it has no metadata to change";
                return Err(Error::refused(why));
            };
            bind(work, session, &key, patch.clone())
        })?;
        // The window may be another one now.
        self.store.core().sizes.drop_cached();
        self.store.read_caught_up(&mut |ledger| of(ledger.conn(), session))
    }
}

/// Returns all metadata of a native session.
pub(super) fn of(conn: &Connection, session: &NativeSession) -> Result<Fields> {
    let Some(key) = key_of(conn, session)? else {
        let mut fields = Fields::default();
        add_counts(conn, session.row, &session.id, None, &mut fields)?;
        return Ok(fields);
    };
    let mut fields = fields_of_key(conn, &session.agent, &key)?.unwrap_or_default();
    add_counts_of_key(conn, session, &key, &mut fields)?;
    Ok(fields)
}

/// Refuses invalid values of known fields, and metadata that is too large.
pub(super) fn check(fields: &Fields) -> Result<()> {
    let bytes = fields.json().len();
    if bytes > MAX_PATCH_BYTES {
        return Err(Error::refused(format!(
            "the patch has {bytes} bytes; the limit is {MAX_PATCH_BYTES}"
        )));
    }
    for name in fields.names() {
        if COUNTED_FIELDS.contains(&name) {
            return Err(Error::refused(format!(
                "`{name}` is computed by the ledger and cannot be set"
            )));
        }
        if DERIVED_FIELDS.contains(&name) {
            return Err(Error::refused(format!(
                "`{name}` is computed from the session's entries and cannot be set"
            )));
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
            return Err(Error::refused(format!("`{name}` must be {should}")));
        }
    }
    Ok(())
}

/// Returns the patched fields of a session's key, without the counts of the ledger.
pub(super) fn patched_fields(conn: &Connection, session: &NativeSession) -> Result<Fields> {
    let Some(key) = key_of(conn, session)? else { return Ok(Fields::default()) };
    Ok(fields_of_key(conn, &session.agent, &key)?.unwrap_or_default())
}

/// Returns the patched fields of a key, by its exact spelling.
pub(super) fn fields_of_key(conn: &Connection, agent: &str, key: &str) -> Result<Option<Fields>> {
    let Some(index) = index_of(conn, agent)? else { return Ok(None) };
    let fields: Option<String> = conn
        .prepare_cached("SELECT fields FROM session_keys WHERE source = ?1 AND key = ?2")?
        .query_row((index, key), |row| row.get(0))
        .optional()?;
    Ok(fields.map(|fields| serde_json::from_str(&fields).unwrap_or_default()))
}

/// Adds a `null` to the patch `fields` for each count and memory flush of the key's previous session,
/// because the key leads to a new session.
pub(super) fn remove_counts(
    conn: &Connection,
    key: &SessionKey,
    fields: &mut Fields,
) -> Result<()> {
    let Some((spelled, _)) = stored_key_and_session(conn, key)? else { return Ok(()) };
    let before =
        fields_of_key(conn, key.agent().unwrap_or_default(), &spelled)?.unwrap_or_default();
    let of_session = [COUNTED_FIELDS, DERIVED_FIELDS, FLUSH_FIELDS].concat();
    for name in before.names().filter(|name| of_session.contains(name)) {
        fields.put(name, &Value::Null);
    }
    Ok(())
}

/// Adds the counts to the patched fields of a key that leads to a session.
pub(crate) fn add_counts_of_key(
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
    add_counts(conn, session.row, &session.id, noted_at, fields)
}

/// Adds the counts of the session's entries. If another runtime counted before the import, only
/// entries after `noted_at` are added to its counts. A field without a value is left out.
pub(crate) fn add_counts(
    conn: &Connection,
    session: SessionRow,
    id: &str,
    noted_at: Option<Seq>,
    fields: &mut Fields,
) -> Result<()> {
    let (updated, started): (Option<i64>, Option<i64>) = conn
        // The copied entries of a fork are older than the fork; its header is not.
        .prepare_cached(
            "SELECT s.last_entry_at, coalesce(e.time, s.started_at)
               FROM sessions s LEFT JOIN entry_rows e ON e.id = s.id WHERE s.id = ?1",
        )?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let all = Counts::of(conn, session, Seq(0))?;
    let is_noted = |name: &&&str| fields.get(name).is_some();
    let since = match noted_at {
        Some(seq) if COUNTED_FIELDS.iter().find(is_noted).is_some() => {
            Counts::of(conn, session, seq)?
        }
        _ => Counts::default(),
    };
    let mut counted: Vec<(&str, i64)> = Vec::new();
    for (at, name) in SUMMED_FIELDS.iter().enumerate() {
        let sum = |counts: &Counts| counts.sums.get(at).copied().unwrap_or_default();
        match (fields.get(name), sum(&since)) {
            // Without new entries, the number keeps its exact text.
            (Some(Value::Number(_)), 0) => {}
            (Some(Value::Number(before)), since) => {
                counted.extend(
                    as_integer(&before).map(|before| (*name, before.saturating_add(since))),
                );
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

/// Returns a number as an integer. Accepts forms like `1E5` and `2.0`.
fn as_integer(number: &Number) -> Option<i64> {
    /// The largest float up to which every integer is exact: 2 to the power of 53.
    const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
    number.as_i64().or_else(|| {
        let number = number.as_f64().filter(|number| number.abs() <= MAX_EXACT_INTEGER)?;
        Some(number.round() as i64)
    })
}

/// The fields that are sums, in the order of [`Counts::sums`].
const SUMMED_FIELDS: [&str; 5] =
    ["inputTokens", "outputTokens", "cacheRead", "cacheWrite", "compactionCount"];

/// The counts of a session's entries after a record.
#[derive(Default)]
struct Counts {
    has_entry: bool,
    sums: [i64; 5],
    /// The number of tokens in the context at the model's last answer, or after a compaction since.
    last: Option<i64>,
    has_answer: bool,
}

impl Counts {
    fn of(conn: &Connection, session: SessionRow, after: Seq) -> Result<Counts> {
        let first = EntryId::of(Seq(after.0 + 1), 0);
        let (has_entry, has_answer) = conn
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM entry_rows WHERE session = ?1 AND id >= ?2),
                        EXISTS (SELECT 1 FROM messages
                                 WHERE session = ?1 AND id >= ?2 AND role = 'assistant')",
            )?
            .query_row((session, first), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let compactions = conn
            .prepare_cached(match after {
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
        let last: Option<(i64, i64)> = conn
            .prepare_cached(
                "SELECT e.id, u.input + u.output + u.cache_read + u.cache_write
                   FROM entry_rows e JOIN usage_rows u ON u.entry = e.id
                   JOIN kinds k ON k.id = e.kind
                  WHERE e.session = ?1 AND e.id >= ?2 AND k.role = 'assistant' AND NOT k.is_mirror
                  ORDER BY e.id DESC LIMIT 1",
            )?
            .query_row((session, first), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        // A compaction has made the context smaller than at the last answer.
        let compacted: Option<i64> = conn
            .prepare_cached(
                "SELECT tokens_after FROM compaction_rows
                  WHERE session = ?1 AND id > ?2 AND tokens_after > 0 ORDER BY id DESC LIMIT 1",
            )?
            .query_row((session, last.map_or(first.0 - 1, |(entry, _)| entry)), |row| row.get(0))
            .optional()?;
        let last = compacted.or(last.map(|(_, tokens)| tokens));
        Ok(Counts { has_entry, sums, last, has_answer })
    }
}
