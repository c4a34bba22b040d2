//! The prompts of a session that a person wrote, each in its newest version.
//!
//! Reads stored texts only; last lines without a newline are added by the callers.

use rusqlite::{Connection, OptionalExtension};

use crate::Result;
use crate::base::ids::{EntryId, SessionRow, is_first_of_line, order_by_line};

/// The number of last prompts that a list shows of a session: enough to recognise it.
pub(super) const LAST_PROMPTS: usize = 3;

/// The largest length of a shown prompt, in characters: longer ones do not fit into a list.
pub(super) const MAX_PROMPT_CHARS: usize = 500;

/// Returns the first prompt that is more than a command.
pub(super) fn real_prompt(conn: &Connection, session: SessionRow) -> Result<Option<String>> {
    let mut real = None;
    each(conn, session, Order::First, |text| {
        if !text.is_empty() && !text.starts_with('/') {
            real = Some(text.to_owned());
        }
        real.is_none()
    })?;
    Ok(real)
}

/// Returns the last prompts, in order.
pub(super) fn last_prompts(conn: &Connection, session: SessionRow) -> Result<Vec<String>> {
    let mut prompts = Vec::new();
    each(conn, session, Order::Last, |text| {
        prompts.push(text.chars().take(MAX_PROMPT_CHARS).collect());
        prompts.len() < LAST_PROMPTS
    })?;
    prompts.reverse();
    Ok(prompts)
}

/// The end of a session at which prompts are read.
#[derive(Clone, Copy)]
pub(super) enum Order {
    First,
    Last,
}

/// Passes each prompt of a person that has a text to `each_text`, until it returns false.
pub(super) fn each(
    conn: &Connection,
    session: SessionRow,
    order: Order,
    mut each_text: impl FnMut(&str) -> bool,
) -> Result<()> {
    // Further prompts of a line have ids in another range. Nearly no session has any.
    let is_in_order: bool = conn
        .prepare_cached(concat!(
            "SELECT coalesce(",
            is_first_of_line!("max(id)"),
            ", TRUE) FROM turns WHERE session = ?1"
        ))?
        .query_row([session], |row| row.get(0))?;
    let order = match (order, is_in_order) {
        (Order::First, true) => "t.id",
        (Order::First, false) => order_by_line!("t.id", ""),
        (Order::Last, true) => "t.id DESC",
        (Order::Last, false) => order_by_line!("t.id", " DESC"),
    };
    let mut statement = conn.prepare_cached(&format!(
        "SELECT t.id, m.text FROM turns t LEFT JOIN message_texts m ON m.id = t.id
          WHERE t.session = ?1 AND NOT t.is_automatic ORDER BY {order}"
    ))?;
    let mut rows = statement.query([session])?;
    while let Some(row) = rows.next()? {
        let wants_more = match row.get_ref(1)?.as_str() {
            Ok(text) => each_text(text),
            // Turns have the id of the first version of their prompt.
            Err(_) => newest_text(conn, row.get(0)?)?.is_none_or(|text| each_text(&text)),
        };
        if !wants_more {
            break;
        }
    }
    Ok(())
}

/// Returns the text of the newest version of an entry, if a newer one exists.
fn newest_text(conn: &Connection, entry: EntryId) -> Result<Option<String>> {
    let newest = newest_version(conn, entry)?;
    Ok(conn
        .prepare_cached("SELECT text FROM message_texts WHERE id = ?1")?
        .query_row([newest], |row| row.get(0))
        .optional()?)
}

/// Returns the newest version of an entry.
pub(super) fn newest_version(conn: &Connection, entry: EntryId) -> Result<EntryId> {
    let newest = conn
        .prepare_cached(
            "WITH RECURSIVE versions(id) AS (
                SELECT superseded_by FROM entry_rows WHERE id = ?1 AND superseded_by IS NOT NULL
                 UNION
                SELECT e.superseded_by FROM versions v JOIN entry_rows e ON e.id = v.id
                 WHERE e.superseded_by IS NOT NULL)
             SELECT v.id FROM versions v JOIN entry_rows e ON e.id = v.id
              WHERE e.superseded_by IS NULL",
        )?
        .query_row([entry], |row| row.get(0))
        .optional()?;
    Ok(newest.unwrap_or(entry))
}
