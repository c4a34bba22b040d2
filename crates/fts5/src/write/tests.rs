//! Compares the index that is written here with the one that FTS5 writes.

use proptest::prelude::*;
use rusqlite::Connection;
use rusqlite::types::Value;

use super::*;

/// A row: its rowid and the text of each column.
type Row = (i64, [String; COLUMNS]);

fn table(page_size: usize) -> Connection {
    let conn = Connection::open_in_memory().unwrap();
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true).unwrap();
    crate::create(&conn, ["a", "b", "c", "d", "e"]).unwrap();
    conn.execute("INSERT INTO search (search, rank) VALUES ('pgsz', ?1)", [page_size as i64])
        .unwrap();
    conn.execute_batch("CREATE VIRTUAL TABLE words USING fts5vocab (search, instance)").unwrap();
    conn
}

fn insert(conn: &Connection, (id, [a, b, c, d, e]): &Row) {
    conn.prepare_cached(
        "INSERT INTO search (rowid, a, b, c, d, e) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )
    .unwrap()
    .execute((id, a, b, c, d, e))
    .unwrap();
}

/// Writes rows without FTS5, in batches of `size` rows.
fn write(conn: &Connection, rows: &[Row], size: usize) {
    let mut pending = PendingPostings::default();
    let mut builder = PostingsBuilder::default();
    for batch in rows.chunks(size) {
        pending.begin_batch(conn).unwrap();
        for (id, texts) in batch {
            // A document that gets no rowid and so is not indexed.
            builder.add(["never", "in", "the", "index", "of"]);
            let number = builder.add(texts.each_ref().map(String::as_str));
            pending.set_rowid(number, RowId(*id));
        }
        pending.end_batch(builder.finish());
    }
    let pages = pending.merge(page_size(conn).unwrap()).unwrap();
    pending.write(conn, &pages).unwrap();
}

fn select(conn: &Connection, sql: &str) -> Vec<Vec<Value>> {
    let mut statement = conn.prepare(sql).unwrap();
    let width = statement.column_count();
    let rows = statement
        .query_map([], |row| (0..width).map(|column| row.get(column)).collect::<Result<_, _>>());
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

/// Returns everything that the index holds about rows.
fn all(conn: &Connection) -> [Vec<Vec<Value>>; 3] {
    conn.execute_batch("INSERT INTO search (search) VALUES ('integrity-check')").unwrap();
    [
        "SELECT CAST(term AS BLOB), doc, col, offset FROM words ORDER BY 1, 2, 3, 4",
        "SELECT id, sz FROM search_docsize ORDER BY 1",
        "SELECT block FROM search_data WHERE id = 1",
    ]
    .map(|sql| select(conn, sql))
}

/// Returns the pages of the only segment, whatever its id.
fn pages(conn: &Connection) -> [Vec<Vec<Value>>; 2] {
    [
        "SELECT id & ((1 << 37) - 1), block FROM search_data WHERE id > 10 ORDER BY id",
        "SELECT term, pgno FROM search_idx ORDER BY term",
    ]
    .map(|sql| select(conn, sql))
}

/// Makes rows with a few frequent terms and many rare ones.
fn sample(count: i64) -> Vec<Row> {
    let word = |number: i64| format!("w{}", number * 7919 % 5003);
    (1..=count)
        .map(|id| {
            let often = "the ".repeat((id % 90) as usize + 1);
            let prose =
                if id % 1000 < 900 { format!("{often} Übung {}", word(id)) } else { word(3) };
            let long = format!("beginnings{} beginning", id % 37);
            let texts =
                [prose, word(id / 3), format!("a{id} {}", word(id * 5)), long, word(id % 11)];
            (id * 200 + if id % 50 == 0 { 150 } else { 0 }, texts)
        })
        .collect()
}

/// Compares pages byte for byte after FTS5 has merged everything into one segment. (After a
/// thousand pages FTS5 pauses, and begins a new page although there is room.)
#[test]
fn pages_are_those_that_fts5_writes() {
    for (page_size, count) in [(32, 120), (50, 200), (200, 700), (8000, 4000)] {
        let rows = sample(count);
        let (theirs, ours) = (table(page_size), table(page_size));
        for (at, row) in rows.iter().enumerate() {
            insert(&theirs, row);
            if at % 700 == 50 {
                theirs.execute_batch("INSERT INTO search (search) VALUES ('flush')").unwrap();
            }
        }
        theirs.execute_batch("INSERT INTO search (search) VALUES ('optimize')").unwrap();
        write(&ours, &rows, 97);
        assert!(all(&theirs) == all(&ours), "page size {page_size}");
        let (theirs, ours) = (pages(&theirs), pages(&ours));
        assert!(ours[0].len() < 1000);
        assert!(theirs == ours, "page size {page_size}");
    }
}

/// Runs queries for which FTS5 skips pages of a term whose doclist index has several levels.
#[test]
fn fts5_skips_pages_by_the_doclist_index() {
    let rows = sample(5000);
    let (theirs, ours) = (table(32), table(32));
    for row in &rows {
        insert(&theirs, row);
    }
    write(&ours, &rows, 5000);
    let levels = "SELECT DISTINCT id >> 31 & 31 FROM search_data WHERE id >> 36 & 1 ORDER BY 1";
    assert!(select(&ours, levels).len() > 1);
    for query in ["the AND w3", "the AND a4899", "\"the übung\" NOT a17", "the AND w1*"] {
        let found = |conn: &Connection| {
            let sql = format!("SELECT rowid FROM search('{query}') ORDER BY rowid DESC");
            select(conn, &sql)
        };
        assert_eq!(found(&theirs), found(&ours), "{query}");
        assert!(!found(&ours).is_empty(), "{query}");
    }
}

/// Counts the rows that a single insert writes after large imports.
#[test]
fn large_segments_are_not_merged_by_the_commits_that_follow() {
    let conn = table(64);
    let row = |id: i64| (id, [0, 1, 2, 3, 4].map(|column| format!("word{id} column{column}")));
    for import in 0..12 {
        let rows: Vec<Row> = (1..=400).map(|at| row(import * 1000 + at)).collect();
        write(&conn, &rows, 50);
    }
    let changes =
        || conn.query_row("SELECT total_changes()", [], |row| row.get::<_, i64>(0)).unwrap();
    let before = changes();
    for id in 0..20 {
        insert(&conn, &row(100_000 + id));
        conn.execute_batch("INSERT INTO search (search, rank) VALUES ('merge', 16)").unwrap();
    }
    let each = (changes() - before) / 20;
    assert!(each < 20, "{each} rows were written for one insert");
}

/// Fills the index with large segments. Later imports merge some of them, so that there is always a
/// free id.
#[test]
fn very_many_segments_are_merged_by_the_imports_that_follow() {
    let conn = table(32);
    let count = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let segments = || count("SELECT count(DISTINCT id >> 37) FROM search_data WHERE id > 10");
    let row = |id: i64| (id, [0, 1, 2, 3, 4].map(|column| format!("{column}x{id}")));
    conn.execute_batch("BEGIN").unwrap();
    let mut imports = 0;
    let mut import = |until: i64| {
        while imports < until {
            imports += 1;
            let rows: Vec<Row> = (0..50).map(|at| row(imports * 100 + at)).collect();
            write(&conn, &rows, 50);
        }
        segments()
    };
    import(1);
    let is_large = count("SELECT count(*) FROM search_data WHERE id > 10") >= 64;
    assert!(is_large);
    assert_eq!(import(999), 999);
    assert!(import(1100) < 200);
    assert_eq!(all(&conn)[1].len(), 1100 * 50);
    for id in [100, 100_000, 110_049] {
        assert_eq!(count(&format!("SELECT rowid FROM search('\"2x{id}\"')")), id);
    }
}

/// A change of the index.
#[derive(Debug, Clone)]
enum Step {
    /// Writes this many rows without FTS5, in batches of this size.
    Bulk(usize, usize),
    Insert(usize),
    /// Deletes one row in this many.
    Delete(usize),
    Merge(i64),
    Optimize,
    Commit,
    Rollback,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..60_usize, 1..30_usize).prop_map(|(count, size)| Step::Bulk(count, size)),
        2 => (1..9_usize).prop_map(Step::Insert),
        2 => (2..9_usize).prop_map(Step::Delete),
        2 => (-20..20_i64).prop_map(Step::Merge),
        1 => Just(Step::Optimize),
        3 => Just(Step::Commit),
        1 => Just(Step::Rollback),
    ]
}

proptest! {
    #![proptest_config(crate::few_cases(48))]

    /// Mixes writes without FTS5 and FTS5's own inserts, deletions, merges, commits and rollbacks
    /// on one connection.
    #[test]
    fn fts5_continues_from_what_is_written_here(
        steps in proptest::collection::vec(step(), 1..24),
        page_size in prop_oneof![32..80_usize, Just(8000)],
        texts in proptest::collection::vec("([a-e]{1,3}[ .é]){0,12}", 4..40),
    ) {
        let (theirs, ours) = (table(page_size), table(page_size));
        let (mut next, mut held) = (1_i64, Vec::new());
        let mut committed = held.clone();
        let both = |sql: &str| [&theirs, &ours].map(|conn| conn.execute_batch(sql).unwrap());
        both("BEGIN");
        for step in steps {
            match step {
                Step::Bulk(count, _) | Step::Insert(count) => {
                    let rows: Vec<Row> = (0..count as i64).map(|at| {
                        let text = |column: i64| {
                            texts[(next + at * 3 + column) as usize % texts.len()].clone()
                        };
                        (next + at * 2, [text(0), text(1), text(7), text(9), text(11)])
                    }).collect();
                    next += count as i64 * 2;
                    held.extend(rows.iter().map(|row| row.0));
                    rows.iter().for_each(|row| insert(&theirs, row));
                    match step {
                        Step::Bulk(_, size) => write(&ours, &rows, size),
                        _ => rows.iter().for_each(|row| insert(&ours, row)),
                    }
                }
                Step::Delete(nth) => {
                    for id in held.iter().step_by(nth) {
                        both(&format!("DELETE FROM search WHERE rowid = {id}"));
                    }
                    let mut at = 0;
                    held.retain(|_| { at += 1; (at - 1) % nth != 0 });
                }
                Step::Merge(pages) => {
                    both(&format!("INSERT INTO search (search, rank) VALUES ('merge', {pages})"));
                }
                Step::Optimize => {
                    both("INSERT INTO search (search) VALUES ('optimize')");
                }
                Step::Commit => {
                    both("COMMIT; BEGIN");
                    committed.clone_from(&held);
                }
                Step::Rollback => {
                    both("ROLLBACK; BEGIN");
                    held.clone_from(&committed);
                }
            }
            prop_assert_eq!(all(&theirs), all(&ours));
        }
    }
}
