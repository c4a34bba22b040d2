//! Adds what is counted for an item: the tokens and the cost of its response, and the model that
//! was in effect.
//!
//! All lines of a response repeat its tokens, and so do copies of a session. Of all of them one entry
//! has what `usage` counts. Reads rows only, never a record.

use quipu_transcript::entry::{Role, Usage};
use quipu_transcript::prices::{Prices, Service, Tokens, prompt_over};
use quipu_transcript::story::StoryItem;
use rusqlite::{Connection, OptionalExtension};

use crate::Result;

/// Adds the model in effect to an answer, and what is counted to the entry that counts.
pub(super) fn add(conn: &Connection, prices: &Prices, item: &mut StoryItem<'_>) -> Result<()> {
    if item.role == Some(Role::Assistant) && item.model.is_none() {
        add_model(conn, item)?;
    }
    if item.usage.is_some() {
        item.counted = counted(conn, prices, item.entry)?;
    }
    Ok(())
}

fn add_model(conn: &Connection, item: &mut StoryItem<'_>) -> Result<()> {
    let in_effect: Option<(String, String, String)> = conn
        .prepare_cached(
            "SELECT m.model, m.provider, m.api
               FROM entry_rows e CROSS JOIN kinds k ON k.id = e.kind
              CROSS JOIN models m ON m.id = k.model
              WHERE e.id = ?1",
        )?
        .query_row([item.entry], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    if let Some((model, provider, api)) = in_effect {
        let named = |name: String| (!name.is_empty()).then(|| name.into());
        item.model = named(model);
        item.provider = item.provider.take().or_else(|| named(provider));
        item.api = item.api.take().or_else(|| named(api));
    }
    Ok(())
}

/// Returns the tokens that are counted for an entry or an older version of it, with their cost by
/// the record or else by the prices. `None` if another entry counts.
fn counted(conn: &Connection, prices: &Prices, entry: i64) -> Result<Option<Usage>> {
    let mut statement = conn.prepare_cached(
        "WITH RECURSIVE versions (id) AS (
            SELECT ?1 UNION
            SELECT e.id FROM versions v JOIN entry_rows e ON e.superseded_by = v.id)
         SELECT u.input, u.output, u.cache_read, u.cache_write, u.cache_write_1h, u.cost_usd,
                u.is_fast, m.model
           FROM versions v CROSS JOIN usage_rows u ON u.entry = v.id
          CROSS JOIN models m ON m.id = u.model
          WHERE u.is_counted",
    )?;
    let mut rows = statement.query([entry])?;
    let mut sum: Option<Usage> = None;
    while let Some(row) = rows.next()? {
        let count = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
        let mut usage = Usage {
            input: count(0)?,
            output: count(1)?,
            cache_read: count(2)?,
            cache_write: count(3)?,
            cache_write_1h: count(4)?,
            cost_usd: row.get(5)?,
            is_fast: row.get(6)?,
        };
        let model: String = row.get(7)?;
        usage.cost_usd = usage.cost_usd.or_else(|| price(prices, &model, &usage));
        sum = Some(match sum {
            // Two versions with different responses both count.
            Some(sum) => Usage {
                input: sum.input.saturating_add(usage.input),
                output: sum.output.saturating_add(usage.output),
                cache_read: sum.cache_read.saturating_add(usage.cache_read),
                cache_write: sum.cache_write.saturating_add(usage.cache_write),
                cache_write_1h: sum.cache_write_1h.saturating_add(usage.cache_write_1h),
                cost_usd: sum.cost_usd.zip(usage.cost_usd).map(|(one, other)| one + other),
                is_fast: sum.is_fast,
            },
            None => usage,
        });
    }
    Ok(sum)
}

/// Returns the price of a response; `None` if none is known.
fn price(prices: &Prices, model: &str, usage: &Usage) -> Option<f64> {
    let prompt = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    let service = Service { is_fast: usage.is_fast, prompt_over: prompt_over(prompt) };
    let tokens = Tokens {
        input: usage.input,
        output: usage.output,
        cache_read: usage.cache_read,
        cache_write: usage.cache_write,
        cache_write_1h: usage.cache_write_1h,
    };
    let price = prices.of(model).and_then(|price| price.cost(service, &tokens));
    price.or_else(|| (tokens == Tokens::default()).then_some(0.0))
}
