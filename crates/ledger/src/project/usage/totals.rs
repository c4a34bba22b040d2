//! Running totals that an agent records for a session. Each is stored minus the usage of the
//! session's own lines before it. What remains is the usage of sub-agents, of requests that no line
//! records and, in a fork, of the original. The view `usage_without_line` separates them.
//!
//! A total is compared with the lines before it in its own file, so the order in which files are
//! collected does not matter.

use std::collections::BTreeMap;

use quipu_transcript::entry::Usage;
use quipu_transcript::prices;
use rusqlite::Connection;

use super::{Model, Models, SessionUsage};
use crate::Result;
use crate::base::ids::{EntryId, SessionRow};
use crate::project::draft::UsageTotal;

/// Input, output, cache read, cache write, and the part of cache write for one hour.
type Tokens = [i64; 5];

/// The sums of a session's own lines since the agent began to count, by plain names of models.
#[derive(Debug)]
pub(super) struct Lines {
    since: i64,
    by_model: BTreeMap<String, Tokens>,
}

/// The largest number of models of a session that are compared with a total, against hostile input.
const MAX_MODELS: usize = 64;

/// The largest number of times that the sums of an open session are read. An agent begins to count
/// once or twice in a session; more is hostile input.
const MAX_READS: u8 = 8;

/// The largest number of tokens in a total, so that sums fit into SQLite's integers.
const MAX_TOKENS: u64 = 1 << 44;

/// The entry that states a total.
#[derive(Debug)]
pub(crate) struct TotalEntry {
    pub(crate) session: SessionRow,
    pub(crate) is_complete: bool,
    pub(crate) entry: EntryId,
    /// The session's leaf. A fork from this point has an entry with the same id.
    pub(crate) leaf: Option<EntryId>,
    pub(crate) time: Option<i64>,
}

impl SessionUsage {
    /// Adds the growth of a line's response to the sums, if they are in use.
    pub(super) fn add_to_lines(
        &mut self,
        model: &Model,
        time: Option<i64>,
        before: &Usage,
        after: &Usage,
    ) {
        if let Some(lines) = &mut self.lines
            && is_since(time, lines.since)
        {
            let sums = lines.by_model.entry(prices::plain_name(&model.model)).or_default();
            add(sums, &difference(after, before), 1);
        }
    }

    /// Stores a total minus the usage of the session's own lines.
    pub(crate) fn add_total(
        &mut self,
        conn: &Connection,
        models: &mut Models,
        at: &TotalEntry,
        total: &UsageTotal,
    ) -> Result<()> {
        if self.lines.as_ref().is_none_or(|lines| lines.since != total.since) {
            if self.line_reads >= MAX_READS {
                return Ok(());
            }
            self.line_reads += 1;
            self.lines = Some(self.read_lines(conn, at, total.since)?);
        }
        let Some(Lines { by_model, .. }) = &self.lines else { return Ok(()) };
        let mut above: BTreeMap<String, (&str, Tokens, Option<f64>)> = BTreeMap::new();
        for (name, usage) in &total.models {
            let of_model = above.entry(prices::plain_name(name)).or_default();
            add(&mut of_model.1, &tokens(usage), 1);
            (of_model.0, of_model.2) = (name, usage.cost_usd);
        }
        let all: i64 =
            above.values().map(|(_, tokens, _)| tokens.iter().take(4).sum::<i64>()).sum();
        if by_model.len() > MAX_MODELS {
            return Ok(());
        }
        for (name, sums) in by_model {
            match above.get_mut(name) {
                Some((_, tokens, _)) => add(tokens, sums, -1),
                None if *sums == Tokens::default() => {}
                // The total lacks a model that answered, so it cannot be compared.
                None => return Ok(()),
            }
        }
        let mut insert = conn.prepare_cached(
            "INSERT OR IGNORE INTO usage_totals
                (session, entry, model, since, leaf, time, total, input, output, cache_read,
                 cache_write, cache_write_1h, cost_usd)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?;
        for (name, [input, output, cache_read, cache_write, cache_write_1h], cost) in
            above.into_values()
        {
            let model = Model { model: name.into(), provider: "".into(), api: "".into() };
            insert.execute((
                at.session,
                at.entry,
                models.number(conn, &model)?,
                total.since,
                at.leaf,
                at.time,
                all,
                input,
                output,
                cache_read,
                cache_write,
                cache_write_1h,
                cost,
            ))?;
        }
        Ok(())
    }

    /// Reads the sums of the session's lines: from memory, and from the ledger what memory lacks.
    fn read_lines(&self, conn: &Connection, at: &TotalEntry, since: i64) -> Result<Lines> {
        let mut by_model: BTreeMap<String, Tokens> = BTreeMap::new();
        if !at.is_complete {
            let mut statement = conn.prepare_cached(
                "SELECT m.name, sum(u.input), sum(u.output), sum(u.cache_read),
                        sum(u.cache_write), sum(u.cache_write_1h)
                   FROM entry_rows e
                   JOIN usage_rows u ON u.entry = e.id
                   JOIN models m ON m.id = u.model
                  WHERE e.session = ?1 AND e.time >= ?2
                  GROUP BY m.name",
            )?;
            let mut rows = statement.query((at.session, since))?;
            while let Some(row) = rows.next()? {
                let mut sums = Tokens::default();
                for (index, sum) in (1..).zip(&mut sums) {
                    *sum = row.get(index)?;
                }
                by_model.insert(row.get(0)?, sums);
            }
        }
        for response in self.open.values().filter(|response| is_since(response.time, since)) {
            let saved = response.saved.filter(|_| !at.is_complete).unwrap_or_default();
            let sums = by_model.entry(Models::plain_name(conn, response.model)?).or_default();
            add(sums, &difference(&response.usage, &saved), 1);
        }
        Ok(Lines { since, by_model })
    }
}

/// Returns whether a line was written after the agent began to count.
fn is_since(time: Option<i64>, since: i64) -> bool {
    time.is_some_and(|time| time >= since)
}

fn tokens(usage: &Usage) -> Tokens {
    [usage.input, usage.output, usage.cache_read, usage.cache_write, usage.cache_write_1h]
        .map(|count| count.min(MAX_TOKENS).cast_signed())
}

fn difference(after: &Usage, before: &Usage) -> Tokens {
    let mut difference = tokens(after);
    add(&mut difference, &tokens(before), -1);
    difference
}

fn add(sums: &mut Tokens, tokens: &Tokens, sign: i64) {
    for (sum, tokens) in sums.iter_mut().zip(tokens) {
        *sum = sum.saturating_add(tokens * sign);
    }
}
