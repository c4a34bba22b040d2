//! The entries right before and after a hit, in the order of its file.
//!
//! Reads rows only. The texts are read in `hits`.

use rusqlite::{Connection, Row};

use crate::Result;
use crate::base::ids::{EntryId, Seq, SessionRow, is_first_of_line};
use crate::wire::Nearby;

/// The columns of a nearby entry. The last one is true if the entry is shown.
const COLUMNS: &str = "e.id, nullif(k.role, ''), e.time,
    k.role <> '' AND k.is_meta = 0 AND k.form <> 'relayed' AND e.superseded_by IS NULL AND e.session = ?1
      FROM entry_rows e CROSS JOIN kinds k ON k.id = e.kind";

/// Returns up to `count` entries before and after `entry`, in order.
pub(super) fn around(
    conn: &Connection,
    session: SessionRow,
    entry: EntryId,
    count: usize,
) -> Result<Vec<Nearby>> {
    // The first entries of lines have ids in order. Further entries of a line have ids in another
    // range.
    let line = entry.seq().map_or(entry.0, |seq| seq.0);
    let mut found = Vec::new();
    for (side, order) in [("<", "DESC"), (">=", "ASC")] {
        let mut statement = conn.prepare_cached(&format!(
            "SELECT {COLUMNS}
              WHERE e.session = ?1 AND e.id {side} ?2 AND e.id > 0 AND {}
                AND (e.id = ?2 OR (k.role <> '' AND k.is_meta = 0 AND k.form <> 'relayed' AND e.superseded_by IS NULL))
              ORDER BY e.id {order} LIMIT ?3",
            is_first_of_line!("e.id")
        ))?;
        let mut rows = statement.query((session, line, count as i64 + 1))?;
        while let Some(row) = rows.next()? {
            found.push(read(row)?);
        }
    }
    let lines: Vec<i64> = found.iter().map(|(near, _)| near.entry).chain([line]).collect();
    let mut further = conn.prepare_cached(&format!("SELECT {COLUMNS} WHERE e.id = ?2"))?;
    for line in lines {
        for ordinal in 1.. {
            let mut rows = further.query((session, EntryId::of(Seq(line), ordinal)))?;
            match rows.next()? {
                Some(row) => found.push(read(row)?),
                None => break,
            }
        }
    }
    let place = |number: i64| EntryId(number).by_line();
    found.sort_by_key(|(near, _)| place(near.entry));
    found.dedup_by_key(|(near, _)| near.entry);
    let (before, after): (Vec<_>, Vec<_>) = found
        .into_iter()
        .filter(|(near, speaks)| *speaks && near.entry != entry.0)
        .map(|(near, _)| near)
        .partition(|near| place(near.entry) < place(entry.0));
    let skipped = before.len().saturating_sub(count);
    let before = before.into_iter().skip(skipped).map(|near| Nearby { is_before: true, ..near });
    Ok(before.chain(after.into_iter().take(count)).collect())
}

fn read(row: &Row<'_>) -> Result<(Nearby, bool)> {
    let near = Nearby {
        entry: row.get(0)?,
        is_before: false,
        role: row.get(1)?,
        time: row.get(2)?,
        text: String::new(),
    };
    Ok((near, row.get(3)?))
}
