//! The index that is written here against the one that FTS5 writes.

use proptest::prelude::*;
use rusqlite::Connection;
use rusqlite::types::Value;

use super::*;

/// An entry: its number and its text, column by column.
type Entry = (i64, [String; 4]);

fn ledger(page: usize) -> Connection {
    let conn = Connection::open_in_memory().unwrap();
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true).unwrap();
    conn.execute_batch(
        "CREATE VIRTUAL TABLE search USING fts5 (tool_result, tool_input, prose, thinking,
            content = '', contentless_delete = 1, tokenize = 'unicode61')",
    )
    .unwrap();
    for (setting, value) in [("hashsize", 33_554_432), ("automerge", 0), ("crisismerge", 1000)] {
        conn.execute("INSERT INTO search (search, rank) VALUES (?1, ?2)", (setting, value))
            .unwrap();
    }
    conn.execute("INSERT INTO search (search, rank) VALUES ('pgsz', ?1)", [page as i64]).unwrap();
    conn.execute_batch("CREATE VIRTUAL TABLE words USING fts5vocab (search, instance)").unwrap();
    conn
}

fn insert(conn: &Connection, (id, [a, b, c, d]): &Entry) {
    conn.prepare_cached(
        "INSERT INTO search (rowid, tool_result, tool_input, prose, thinking)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )
    .unwrap()
    .execute((id, a, b, c, d))
    .unwrap();
}

/// Writes entries as an import does, in lists of `size` entries.
fn write(conn: &Connection, entries: &[Entry], size: usize) {
    let mut waiting = Waiting::default();
    let mut gatherer = Gatherer::default();
    for entries in entries.chunks(size) {
        waiting.open(conn).unwrap();
        for (id, texts) in entries {
            // One in between that the ledger has already.
            gatherer.add(["never", "in", "the", "index"]);
            let number = gatherer.add(texts.each_ref().map(String::as_str));
            waiting.name(number, RowId(*id));
        }
        waiting.close(gatherer.finish());
    }
    let pages = waiting.merge(page_size(conn).unwrap()).unwrap();
    waiting.write(conn, &pages).unwrap();
}

fn rows(conn: &Connection, sql: &str) -> Vec<Vec<Value>> {
    let mut statement = conn.prepare(sql).unwrap();
    let width = statement.column_count();
    let rows = statement
        .query_map([], |row| (0..width).map(|column| row.get(column)).collect::<Result<_, _>>());
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

/// Everything that is said of entries.
fn all(conn: &Connection) -> [Vec<Vec<Value>>; 3] {
    conn.execute_batch("INSERT INTO search (search) VALUES ('integrity-check')").unwrap();
    [
        "SELECT CAST(term AS BLOB), doc, col, offset FROM words ORDER BY 1, 2, 3, 4",
        "SELECT id, sz FROM search_docsize ORDER BY 1",
        "SELECT block FROM search_data WHERE id = 1",
    ]
    .map(|sql| rows(conn, sql))
}

/// The pages of the only segment, whichever it is.
fn pages(conn: &Connection) -> [Vec<Vec<Value>>; 2] {
    [
        "SELECT id & ((1 << 37) - 1), block FROM search_data WHERE id > 10 ORDER BY id",
        "SELECT term, pgno FROM search_idx ORDER BY term",
    ]
    .map(|sql| rows(conn, sql))
}

/// Entries with few words that stand in many of them, and many words that stand in few.
fn entries(count: i64) -> Vec<Entry> {
    let word = |number: i64| format!("w{}", number * 7919 % 5003);
    (1..=count)
        .map(|id| {
            let often = "the ".repeat((id % 90) as usize + 1);
            let prose =
                if id % 1000 < 900 { format!("{often} Übung {}", word(id)) } else { word(3) };
            let long = format!("beginnings{} beginning", id % 37);
            let texts = [prose, word(id / 3), format!("a{id} {}", word(id * 5)), long];
            (id * 200 + if id % 50 == 0 { 150 } else { 0 }, texts)
        })
        .collect()
}

/// Where FTS5 has merged everything into one segment, it has written the same pages, to the byte.
/// (After a thousand pages it begins a new one although there is room, because it pauses there.)
#[test]
fn pages_are_those_that_fts5_writes() {
    for (page, count) in [(32, 120), (50, 200), (200, 700), (8000, 4000)] {
        let entries = entries(count);
        let (theirs, ours) = (ledger(page), ledger(page));
        for (at, entry) in entries.iter().enumerate() {
            insert(&theirs, entry);
            if at % 700 == 50 {
                theirs.execute_batch("INSERT INTO search (search) VALUES ('flush')").unwrap();
            }
        }
        theirs.execute_batch("INSERT INTO search (search) VALUES ('optimize')").unwrap();
        write(&ours, &entries, 97);
        assert!(all(&theirs) == all(&ours), "page size {page}");
        let (theirs, ours) = (pages(&theirs), pages(&ours));
        assert!(ours[0].len() < 1000);
        assert!(theirs == ours, "page size {page}");
    }
}

/// A word in so many entries that the index of its pages has several levels is found by leaping.
#[test]
fn fts5_leaps_through_the_pages_of_a_word() {
    let entries = entries(5000);
    let (theirs, ours) = (ledger(32), ledger(32));
    for entry in &entries {
        insert(&theirs, entry);
    }
    write(&ours, &entries, 5000);
    let levels = "SELECT DISTINCT id >> 31 & 31 FROM search_data WHERE id >> 36 & 1 ORDER BY 1";
    assert!(rows(&ours, levels).len() > 1);
    for query in ["the AND w3", "the AND a4899", "\"the übung\" NOT a17", "the AND w1*"] {
        let found = |conn: &Connection| {
            let sql = format!("SELECT rowid FROM search('{query}') ORDER BY rowid DESC");
            rows(conn, &sql)
        };
        assert_eq!(found(&theirs), found(&ours), "{query}");
        assert!(!found(&ours).is_empty(), "{query}");
    }
}

/// Whoever adds a line to a ledger after its first import does not pay for that.
#[test]
fn what_an_import_wrote_is_not_merged_with_the_commits_that_follow() {
    let conn = ledger(64);
    let entry = |id: i64| (id, [0, 1, 2, 3].map(|column| format!("word{id} column{column}")));
    for import in 0..12 {
        let entries: Vec<Entry> = (1..=400).map(|at| entry(import * 1000 + at)).collect();
        write(&conn, &entries, 50);
    }
    let changes =
        || conn.query_row("SELECT total_changes()", [], |row| row.get::<_, i64>(0)).unwrap();
    let before = changes();
    for id in 0..20 {
        insert(&conn, &entry(100_000 + id));
        conn.execute_batch("INSERT INTO search (search, rank) VALUES ('merge', 16)").unwrap();
    }
    let each = (changes() - before) / 20;
    assert!(each < 20, "{each} rows were written for one entry");
}

/// Where imports have left very many large pieces, those that follow merge some: there is always room
/// for another one.
#[test]
fn an_index_in_very_many_pieces_is_merged_by_the_imports_that_follow() {
    let conn = ledger(32);
    let count = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let pieces = || count("SELECT count(DISTINCT id >> 37) FROM search_data WHERE id > 10");
    let entry = |id: i64| (id, [0, 1, 2, 3].map(|column| format!("{column}x{id}")));
    conn.execute_batch("BEGIN").unwrap();
    let mut imports = 0;
    let mut import = |until: i64| {
        while imports < until {
            imports += 1;
            let entries: Vec<Entry> = (0..50).map(|at| entry(imports * 100 + at)).collect();
            write(&conn, &entries, 50);
        }
        pieces()
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

/// What happens to an index over time.
#[derive(Debug, Clone)]
enum Step {
    /// So many entries in lists of so many.
    Bulk(usize, usize),
    Insert(usize),
    /// One in so many.
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
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Bulk writes, FTS5's own, deletions, merges, commits and rollbacks in any order, on one
    /// connection.
    #[test]
    fn fts5_goes_on_from_what_is_written_here(
        steps in proptest::collection::vec(step(), 1..24),
        page in prop_oneof![32..80_usize, Just(8000)],
        texts in proptest::collection::vec("([a-e]{1,3}[ .é]){0,12}", 4..40),
    ) {
        let (theirs, ours) = (ledger(page), ledger(page));
        let (mut next, mut held) = (1_i64, Vec::new());
        let mut committed = held.clone();
        let both = |sql: &str| [&theirs, &ours].map(|conn| conn.execute_batch(sql).unwrap());
        both("BEGIN");
        for step in steps {
            match step {
                Step::Bulk(count, _) | Step::Insert(count) => {
                    let entries: Vec<Entry> = (0..count as i64).map(|at| {
                        let text = |column: i64| {
                            texts[(next + at * 3 + column) as usize % texts.len()].clone()
                        };
                        (next + at * 2, [text(0), text(1), text(7), text(9)])
                    }).collect();
                    next += count as i64 * 2;
                    held.extend(entries.iter().map(|entry| entry.0));
                    entries.iter().for_each(|entry| insert(&theirs, entry));
                    match step {
                        Step::Bulk(_, size) => write(&ours, &entries, size),
                        _ => entries.iter().for_each(|entry| insert(&ours, entry)),
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
