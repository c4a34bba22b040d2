//! Decides whether FTS5's tables are read and written directly or through FTS5.
//!
//! SQLite does not promise the format of those tables. Versions of SQLite with which the tests of
//! this crate ran are trusted. With any other version, this crate first reads a small table that
//! FTS5 wrote, and FTS5 one that this crate wrote; all answers must be the same, to the last bit of
//! a score.

use std::sync::OnceLock;

use rusqlite::{Connection, ErrorCode};

use crate::query::matches::Phrase;
use crate::table::{has_known_version, page_size};
use crate::write::{PendingPostings, PostingsBuilder};
use crate::{ALL_COLUMNS, COLUMNS, Error, Index, Result, RowId, create};

/// The way the index is read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Its pages are read, and written by bulk imports, without FTS5.
    Direct,
    /// Everything goes through SQL: `INSERT`, `MATCH` and `bm25()`. Hits, scores and order are the
    /// same; large imports and searches for frequent terms take longer.
    Plain,
}

impl Access {
    /// Returns [`Access::Direct`] if both the SQLite in this process and the table `search` use the
    /// known format.
    pub fn detect(conn: &Connection) -> Result<Access> {
        let is_direct = is_sqlite_known()
            && match has_known_version(conn) {
                // Another format may have no such table, or keep something else in it.
                Err(Error::Sqlite(error))
                    if error.sqlite_error_code().is_none_or(|code| code == ErrorCode::Unknown) =>
                {
                    false
                }
                known => known?,
            };
        Ok(if is_direct { Access::Direct } else { Access::Plain })
    }
}

/// The versions of SQLite with which the tests of this crate ran; the README lists them too.
const TESTED_VERSIONS: &[&str] = &["3.54.1"];

/// Returns whether the format of the SQLite in this process is known. If the version was not
/// tested, the first call takes a few milliseconds to check the format.
fn is_sqlite_known() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        TESTED_VERSIONS.contains(&rusqlite::version()) || is_format_known().unwrap_or(false)
    })
}

/// Returns whether this crate reads what this SQLite writes, and the other way round.
fn is_format_known() -> Result<bool> {
    let theirs = sample()?;
    for (rowid, texts) in rows() {
        theirs
            .prepare_cached(
                "INSERT INTO search (rowid, a, b, c, d, e) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute((rowid, &texts[0], &texts[1], &texts[2], &texts[3], &texts[4]))?;
        if rowid.0 == SPLIT {
            // The next rows go into another segment.
            theirs.execute_batch("INSERT INTO search (search) VALUES ('flush')")?;
        }
    }
    let ours = sample()?;
    let mut pending = PendingPostings::default();
    let mut builder = PostingsBuilder::default();
    pending.begin_batch(&ours)?;
    for (rowid, texts) in rows() {
        let number = builder.add(texts.each_ref().map(String::as_str));
        pending.set_rowid(number, rowid);
    }
    pending.end_batch(builder.finish());
    let pages = pending.merge(page_size(&ours)?)?;
    pending.write(&ours, &pages)?;
    for conn in [&theirs, &ours] {
        conn.execute_batch(
            "DELETE FROM search WHERE rowid % 16 = 3;
             INSERT INTO search (search) VALUES ('integrity-check')",
        )?;
    }
    let expected = answers(&theirs, Access::Plain)?;
    let has_answers = expected.iter().all(|answer| !answer.is_empty());
    Ok(has_answers
        && expected == answers(&theirs, Access::Direct)?
        && expected == answers(&ours, Access::Plain)?
        && expected == answers(&ours, Access::Direct)?)
}

/// The last row of the first segment.
const SPLIT: i64 = 30;

/// Opens a table with pages so small that a doclist spans many of them, in a transaction.
fn sample() -> Result<Connection> {
    let conn = Connection::open_in_memory()?;
    create(&conn, ["a", "b", "c", "d", "e"])?;
    conn.execute_batch("INSERT INTO search (search, rank) VALUES ('pgsz', 64); BEGIN")?;
    Ok(conn)
}

/// Makes rows with frequent and rare terms, in one and in several columns, at near and far
/// positions.
fn rows() -> impl Iterator<Item = (RowId, [String; COLUMNS])> {
    (1..48_i64).map(|id| {
        let often = "the ".repeat((id % 7) as usize * 5 + 1);
        let far = format!("{}Über", "x ".repeat((id % 5) as usize * 40));
        let texts = [
            format!("{often}a{id}"),
            format!("w{}", id % 9),
            far,
            "the end 木".to_owned(),
            format!("v{}", id % 4),
        ];
        (RowId(id * if id > SPLIT { 1000 } else { 1 }), texts)
    })
}

/// The rows of an answer, with their columns and scores.
type Answer = Vec<(RowId, u8, f64)>;

/// Answers some queries. The last answer lists all rows.
fn answers(conn: &Connection, access: Access) -> Result<Vec<Answer>> {
    let index = Index::open(conn, access)?;
    let phrase = |tokens: &[&str], is_prefix| Phrase {
        tokens: tokens.iter().map(|token| (*token).to_owned()).collect(),
        is_prefix,
    };
    let the = phrase(&["the"], false);
    let queries = [
        (vec![the.clone()], vec![], ALL_COLUMNS),
        (vec![the.clone(), phrase(&["uber"], false)], vec![], 0b0111),
        (vec![phrase(&["the", "end", "木"], false)], vec![phrase(&["w4"], false)], 0b1010),
        (vec![phrase(&["w"], true)], vec![the], 0b0010),
    ];
    let mut answers = Vec::new();
    for (wanted, unwanted, mask) in queries {
        let matches = index.find(&wanted, &unwanted, mask)?;
        let mut scored = index.best(&matches, usize::MAX)?;
        scored.sort_by_key(|scored| scored.at);
        let columns = |at: usize| matches.list().get(at).map_or(0, |found| found.columns());
        answers.push(scored.iter().map(|it| (it.rowid, columns(it.at), it.score)).collect());
    }
    let all = index.rows(0b0101)?;
    answers.push(all.into_iter().map(|(rowid, columns)| (rowid, columns, 0.0)).collect());
    Ok(answers)
}

#[cfg(test)]
mod tests;
