//! Selects the copy of a response that is counted. Resumed sessions and side chains repeat
//! responses.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use foldhash::HashSet;
use quipu_transcript::entry::Usage;
use rusqlite::Connection;

use super::{tokens, usage_from_row};
use crate::Result;
use crate::base::ids::EntryId;
use crate::project::usage_rollup::{CountedUsage, UsageRollup};

/// Selects again the counted copies of these responses.
pub(crate) fn recount_all(
    conn: &Connection,
    messages: BTreeSet<i64>,
    rollup: &mut UsageRollup,
) -> Result<()> {
    let mut count = conn.prepare_cached(
        "SELECT count(*) FROM usage_rows WHERE message % 2147483647 = ?1 % 2147483647",
    )?;
    for message in messages {
        // Most responses have one copy, which is counted.
        if count.query_row([message], |row| row.get::<_, i64>(0))? > 1 {
            recount(conn, message, rollup)?;
        }
    }
    Ok(())
}

/// Selects the counted copies of a response: one for each request.
fn recount(conn: &Connection, message: i64, rollup: &mut UsageRollup) -> Result<()> {
    let copies = copies(conn, message)?;
    for (copy, counts) in copies.iter().zip(counted_copies(&copies)) {
        if copy.is_counted != counts {
            conn.prepare_cached("UPDATE usage_rows SET is_counted = ?2 WHERE entry = ?1")?
                .execute((copy.entry, counts))?;
            if counts { rollup.add(&copy.counted) } else { rollup.subtract(&copy.counted) }
        }
    }
    Ok(())
}

/// One copy of a response.
#[derive(Debug)]
struct ResponseCopy {
    counted: CountedUsage,
    request: i64,
    entry: EntryId,
    is_counted: bool,
    is_sidechain: bool,
    /// True if the session was copied from another one.
    is_copied: bool,
    /// The time of the session's first line, if that line has no entry id.
    opened_at: Option<i64>,
    session_id: String,
}

impl ResponseCopy {
    /// Returns the rank of a copy; the copy with the highest rank is counted. The main conversation
    /// ranks above a side chain, then the largest usage, then the earliest time, then the original
    /// session, then the session's id. The order in which sessions are collected does not matter.
    fn rank(&self) -> impl Ord {
        let opened_at = self.opened_at.unwrap_or(i64::MAX);
        let session = (self.is_copied, opened_at, &self.session_id);
        let first = Reverse((self.counted.time, session, self.entry));
        (!self.is_sidechain, response_size(&self.counted.usage), first)
    }
}

/// Returns all copies of a response.
fn copies(conn: &Connection, message: i64) -> Result<Vec<ResponseCopy>> {
    let mut statement = conn.prepare_cached(
        "SELECT u.input_tokens, u.output_tokens, u.cache_read_tokens, u.cache_write_tokens,
                u.cache_write_1h_tokens, u.cost_usd,
                u.is_fast, u.session, u.model, u.time, u.request, u.entry, u.is_counted,
                u.is_sidechain, s.session_id, s.is_copy, s.opened_at
           FROM usage u LEFT JOIN sessions s ON s.id = u.session
          WHERE u.message % 2147483647 = ?1 % 2147483647 AND u.message = ?1",
    )?;
    Ok(statement
        .query_map([message], |row| {
            Ok(ResponseCopy {
                counted: CountedUsage {
                    usage: usage_from_row(row)?,
                    session: row.get(7)?,
                    model: row.get(8)?,
                    time: row.get(9)?,
                },
                request: row.get(10)?,
                entry: row.get(11)?,
                is_counted: row.get(12)?,
                is_sidechain: row.get(13)?,
                session_id: row.get::<_, Option<String>>(14)?.unwrap_or_default(),
                is_copied: row.get::<_, Option<bool>>(15)?.unwrap_or_default(),
                opened_at: row.get(16)?,
            })
        })?
        .collect::<Result<_, _>>()?)
}

/// Returns, for each copy, whether it is counted. From the best to the worst, a copy is counted
/// unless a better one is the same response. A copy without a request id, or in a side chain, is
/// the same response as any other copy with that message id.
fn counted_copies(copies: &[ResponseCopy]) -> Vec<bool> {
    let mut order: Vec<(usize, &ResponseCopy)> = copies.iter().enumerate().collect();
    order.sort_by(|(_, a), (_, b)| b.rank().cmp(&a.rank()));
    let mut counted_copies = vec![false; copies.len()];
    let mut requests = HashSet::default();
    let mut has_main = false;
    for (index, copy) in order {
        let is_repeated = requests.contains(&copy.request)
            || requests.contains(&0)
            || (copy.request == 0 && !requests.is_empty())
            || (copy.is_sidechain && has_main);
        requests.insert(copy.request);
        has_main |= !copy.is_sidechain;
        if let Some(counts) = counted_copies.get_mut(index) {
            *counts = !is_repeated;
        }
    }
    counted_copies
}

/// Returns the size of a response for comparison: all tokens, then the tokens of each kind.
fn response_size(usage: &Usage) -> [i64; 5] {
    let [input, output, cache_read, cache_write] =
        [usage.input, usage.output, usage.cache_read, usage.cache_write].map(tokens);
    [input + output + cache_read + cache_write, output, input, cache_write, cache_read]
}
