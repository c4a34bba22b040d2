//! Searches with FTS5's own SQL: `MATCH`, `bm25()` and `fts5vocab`. Does not depend on the on-disk
//! format.

use std::collections::BTreeMap;

use rusqlite::{Connection, Params};

use crate::query::Posting;
use crate::query::bm25::Scored;
use crate::query::matches::{Matches, Phrase};
use crate::read::Occurrences;
use crate::rowid_set::RowIdSet;
use crate::table::COLUMNS;
use crate::{Error, Result, RowId};

/// The table, with the names of its columns.
pub(crate) struct Plain<'c> {
    conn: &'c Connection,
    columns: Vec<String>,
}

impl<'c> Plain<'c> {
    /// Reads the names of the columns.
    pub(crate) fn open(conn: &'c Connection) -> Result<Plain<'c>> {
        let mut columns = Vec::new();
        each(conn, "SELECT name FROM pragma_table_info('search') ORDER BY cid", [], |row| {
            columns.push(row.get(0)?);
            Ok(())
        })?;
        columns.truncate(COLUMNS);
        Ok(Plain { conn, columns })
    }

    /// Returns the rows that hold all of `wanted` and none of `unwanted` in the columns of `mask`.
    pub(crate) fn find(&self, wanted: &[Phrase], unwanted: &[Phrase], mask: u8) -> Result<Matches> {
        if wanted.is_empty() || wanted.iter().any(|phrase| phrase.tokens.is_empty()) {
            return Ok(Matches::default());
        }
        // FTS5 refuses deep expression trees. Chains of `AND` or `OR` stay flat, however many
        // phrases they have.
        let (mut expression, excluded) = (join(wanted, " AND "), join(unwanted, " OR "));
        if !excluded.is_empty() {
            expression = format!("({expression}) NOT ({excluded})");
        }
        let expression = self.within(mask, &expression);
        let mut list: Vec<Posting> =
            self.rowids(&expression)?.into_iter().map(|rowid| Posting::bare(rowid, 0)).collect();
        let any = join(wanted, " OR ");
        for column in (0..COLUMNS).map(|column| 1 << column).filter(|column| mask & column != 0) {
            for rowid in self.rowids(&self.within(column, &any))? {
                let found = list.binary_search_by_key(&rowid, |posting| posting.rowid).ok();
                if let Some(posting) = found.and_then(|at| list.get_mut(at)) {
                    posting.occurrences = Occurrences::new(0, 0, posting.columns() | column);
                }
            }
        }
        Ok(Matches::of_expression(list, expression))
    }

    /// Removes the rows that hold any of `unwanted` in the columns of `mask`.
    pub(crate) fn remove(
        &self,
        matches: &mut Matches,
        unwanted: &[Phrase],
        mask: u8,
    ) -> Result<()> {
        let excluded = join(unwanted, " OR ");
        if !excluded.is_empty() {
            let excluded = self.rowids(&self.within(mask, &excluded))?;
            matches.retain(|rowid, _| excluded.binary_search(&rowid).is_err());
        }
        Ok(())
    }

    /// Returns all matches with their scores. A row that was found by other means has none.
    pub(crate) fn scored(&self, matches: &Matches) -> Result<Vec<Scored>> {
        let Some(expression) = matches.expression() else { return Ok(Vec::new()) };
        let mut scored = Vec::with_capacity(matches.len());
        let mut is_scored = vec![false; matches.len()];
        let sql = "SELECT rowid, bm25(search) FROM search WHERE search MATCH ?1";
        each(self.conn, sql, [expression], |row| {
            let rowid = row.get(0)?;
            if let Some(at) = matches.find(rowid) {
                // FTS5 returns the negative, so that the best row sorts first.
                scored.push(Scored { rowid, at, score: -row.get::<_, f64>(1)? });
                is_scored.get_mut(at).into_iter().for_each(|is_scored| *is_scored = true);
            }
            Ok(())
        })?;
        let others =
            matches.rowids().enumerate().zip(is_scored).filter(|(_, is_scored)| !is_scored);
        scored.extend(others.map(|((at, rowid), _)| Scored { rowid, at, score: 0.0 }));
        Ok(scored)
    }

    /// Returns the rows that hold a term in the columns of `mask`.
    pub(crate) fn rowids_of(&self, term: &str, mask: u8) -> Result<RowIdSet> {
        let phrase = Phrase { tokens: vec![term.to_owned()], is_prefix: false };
        let mut rowids = RowIdSet::default();
        let found = self.rowids(&self.within(mask, &quoted(&phrase)))?;
        found.into_iter().for_each(|rowid| rowids.insert(rowid));
        Ok(rowids)
    }

    /// Calls `visit` with terms that begin with `prefix`, at most `limit`. Returns their number.
    pub(crate) fn each_term(
        &self,
        prefix: &str,
        limit: usize,
        visit: &mut dyn FnMut(&str),
    ) -> Result<usize> {
        self.conn.execute_batch(
            "CREATE VIRTUAL TABLE IF NOT EXISTS temp.search_terms USING fts5vocab (main, search, row)",
        )?;
        let sql = "SELECT term FROM temp.search_terms WHERE term >= ?1 AND term < ?2 LIMIT ?3";
        let mut seen = 0;
        let after = format!("{prefix}{}", char::MAX);
        each(self.conn, sql, (prefix, after, limit as i64), |row| {
            seen += 1;
            // A long token may be cut inside a character.
            if let Ok(term) = row.get_ref(0)?.as_str() {
                visit(term);
            }
            Ok(())
        })?;
        Ok(seen)
    }

    /// Returns the rows that have tokens in the columns of `mask`, in ascending order, each with a
    /// mask of the columns that have some. Reads the whole index, because no SQL function returns
    /// the number of tokens in each column of a row.
    pub(crate) fn rows(&self, mask: u8) -> Result<Vec<(RowId, u8)>> {
        self.conn.execute_batch(
            "CREATE VIRTUAL TABLE IF NOT EXISTS temp.search_instances
                USING fts5vocab (main, search, instance)",
        )?;
        let mut rows: BTreeMap<RowId, u8> = BTreeMap::new();
        each(self.conn, "SELECT doc, col FROM temp.search_instances", [], |row| {
            let name = row.get_ref(1)?.as_str()?;
            let column = self.columns.iter().position(|column| column == name);
            let columns = column.map_or(0, |column| 1 << column) & mask;
            if columns != 0 {
                *rows.entry(row.get(0)?).or_default() |= columns;
            }
            Ok(())
        })?;
        Ok(rows.into_iter().collect())
    }

    /// Returns the rows that match an expression, in ascending order.
    fn rowids(&self, expression: &str) -> Result<Vec<RowId>> {
        let mut rowids = Vec::new();
        let sql = "SELECT rowid FROM search WHERE search MATCH ?1 ORDER BY rowid";
        each(self.conn, sql, [expression], |row| {
            rowids.push(row.get(0)?);
            Ok(())
        })?;
        Ok(rowids)
    }

    /// Restricts an expression to the columns of `mask`.
    fn within(&self, mask: u8, expression: &str) -> String {
        let names = self.columns.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1);
        let names: Vec<String> =
            names.map(|(_, name)| format!("\"{}\"", name.replace('"', "\"\""))).collect();
        format!("{{{}}} : ({expression})", names.join(" "))
    }
}

/// Joins phrases into one expression, which is empty if none of them has a token.
fn join(phrases: &[Phrase], operator: &str) -> String {
    let phrases = phrases.iter().filter(|phrase| !phrase.tokens.is_empty());
    phrases.map(quoted).collect::<Vec<_>>().join(operator)
}

/// Returns a phrase in FTS5's query language. A token never contains a quote, which is a separator.
fn quoted(phrase: &Phrase) -> String {
    let star = if phrase.is_prefix { "*" } else { "" };
    format!("\"{}\"{star}", phrase.tokens.join(" "))
}

/// Calls `read` with each row of a query.
fn each(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    mut read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<()>,
) -> Result<()> {
    let run = || {
        let mut statement = conn.prepare(sql)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            read(row)?;
        }
        Ok(())
    };
    run().map_err(|error| match &error {
        rusqlite::Error::SqliteFailure(_, Some(why))
            if why.starts_with("invalid fts5 file format") =>
        {
            Error::Index { why: why.clone() }
        }
        _ => Error::Sqlite(error),
    })
}
