//! Describes tables by their columns and indexes, so that two ledgers can be compared. The order of
//! columns does not matter: a column that a migration added is the last of its table.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

use crate::Result;

/// The columns and indexes of each table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shape(BTreeMap<String, BTreeSet<String>>);

impl Shape {
    /// Describes those of `tables` that exist.
    pub(crate) fn of(conn: &Connection, tables: &[&str]) -> Result<Shape> {
        let mut shape = BTreeMap::new();
        for table in tables {
            let mut parts = BTreeSet::new();
            // Only what constrains a column's values is compared; a default does not.
            let mut columns = conn.prepare_cached(
                "SELECT format('column %s %s%s%s', name, type, iif(\"notnull\", ' NOT NULL', ''),
                               iif(pk, ' PRIMARY KEY ' || pk, ''))
                   FROM pragma_table_xinfo(?1)",
            )?;
            let mut indexes = conn.prepare_cached(
                "SELECT format('%sindex of %s%s', iif(i.\"unique\", 'unique ', ''),
                               (SELECT group_concat(name, ', ') FROM pragma_index_info(i.name)),
                               iif(i.partial, ', partial', ''))
                   FROM pragma_index_list(?1) i",
            )?;
            for statement in [&mut columns, &mut indexes] {
                for part in statement.query_map([table], |row| row.get(0))? {
                    parts.insert(part?);
                }
            }
            if !parts.is_empty() {
                shape.insert((*table).to_owned(), parts);
            }
        }
        Ok(Shape(shape))
    }

    /// Returns the first difference of `other` from this shape, in words.
    pub(crate) fn difference(&self, other: &Shape) -> Option<String> {
        for (table, parts) in &self.0 {
            let Some(found) = other.0.get(table) else {
                return Some(format!("table {table} is missing"));
            };
            if let Some(part) = parts.difference(found).next() {
                return Some(format!("table {table} lacks {part}"));
            }
            if let Some(part) = found.difference(parts).next() {
                return Some(format!("table {table} has {part}, which quipu does not create"));
            }
        }
        None
    }
}

/// Returns whether a table has the column. False if there is no such table.
pub(crate) fn has_column(conn: &Connection, table: &str, column: &str) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM pragma_table_xinfo(?1) WHERE name = ?2)";
    Ok(conn.prepare_cached(sql)?.query_row([table, column], |row| row.get(0))?)
}

/// Creates the tables and indexes of `from` in `to`, without rows.
pub(super) fn copy(from: &Connection, to: &Connection, tables: &[&str]) -> Result<()> {
    let mut statement = from.prepare(
        "SELECT sql FROM sqlite_schema
          WHERE type = ?1 AND tbl_name = ?2 AND sql IS NOT NULL
          ORDER BY name",
    )?;
    for kind in ["table", "index"] {
        for table in tables {
            for sql in statement.query_map([kind, table], |row| row.get::<_, String>(0))? {
                to.execute_batch(&sql?)?;
            }
        }
    }
    Ok(())
}
