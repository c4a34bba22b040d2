//! The order of hits: exactly that of FTS5's own `bm25()`; of equal scores the newest first.

use quipu_ledger::search::{Fts5Access, Order, SearchRequest};
use rusqlite::Connection;

use crate::home::*;

/// A generator of words of which few are frequent and many are rare.
struct Words(u64);

impl Words {
    fn number(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn word(&mut self) -> String {
        let range = self.number(400) + 1;
        let number = self.number(range);
        match number {
            0 => "the".to_owned(),
            1 => "error".to_owned(),
            2 => "Über".to_owned(),
            number => format!("w{number}"),
        }
    }

    fn text(&mut self) -> String {
        let length = match self.number(10) {
            0 => self.number(400),
            1 => 0,
            _ => self.number(30),
        };
        let words: Vec<String> = (0..=length).map(|_| self.word()).collect();
        words.join([" ", ", ", "-"][self.number(3) as usize])
    }
}

/// Returns a home with sessions of entries of all kinds, collected in several syncs, so that the
/// index has several segments.
fn home(goes: u64, entries: u64) -> Home {
    home_with(goes, entries, Fts5Access::Direct)
}

fn home_with(goes: u64, entries: u64, access: Fts5Access) -> Home {
    let home = Home::quick().with_fts5(access);
    let mut words = Words(goes * 1000 + entries);
    for go in 0..goes {
        for file in 0..3 {
            let mut lines = String::new();
            for number in 0..entries {
                let id = uuid((go * 1_000_000 + file * 100_000 + number) as u32);
                let time = jiff::Timestamp::from_millisecond(
                    1_780_000_000_000 + words.number(20) as i64 * 1000,
                )
                .unwrap();
                let block = match words.number(4) {
                    0 => format!(r#"{{"type":"thinking","thinking":"{}"}}"#, words.text()),
                    1 => format!(
                        r#"{{"type":"tool_use","id":"t{number}","name":"Bash","input":{{"command":"{}"}}}}"#,
                        words.text()
                    ),
                    _ => format!(r#"{{"type":"text","text":"{}"}}"#, words.text()),
                };
                let more = format!(r#"{{"type":"text","text":"{}"}}"#, words.text());
                lines.push_str(&format!(
                    r#"{{"type":"assistant","uuid":"{id}","parentUuid":null,"timestamp":"{time}","message":{{"id":"m{id}","role":"assistant","content":[{block},{more}]}}}}"#,
                ));
                lines.push('\n');
            }
            let path =
                format!(".claude/projects/-p/{}.jsonl", uuid((go * 10 + file) as u32 + 900_000));
            home.write(&path, lines);
        }
        home.sync();
    }
    home
}

fn ours(home: &Home, text: &str, limit: Option<usize>) -> (u64, Vec<(i64, f64)>) {
    let answer = home.search(&SearchRequest { limit, ..request(text) });
    let hits = answer.hits.iter().map(|hit| (hit.entry, hit.score.unwrap())).collect();
    (answer.total, hits)
}

fn by_fts5(conn: &Connection, expression: &str, limit: i64) -> (u64, Vec<(i64, f64)>) {
    let total = conn
        .query_row("SELECT count(*) FROM search WHERE search MATCH ?1", [expression], |row| {
            row.get::<_, i64>(0)
        })
        .unwrap();
    let mut statement = conn
        .prepare(
            "SELECT s.rowid, -s.score FROM
                (SELECT rowid, bm25(search) AS score FROM search WHERE search MATCH ?1) s
               JOIN entry_rows e ON e.id = s.rowid
              ORDER BY s.score, e.time DESC, s.rowid DESC LIMIT ?2",
        )
        .unwrap();
    let hits = statement
        .query_map((expression, limit), |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    (total as u64, hits)
}

const EVERYWHERE: &str = "{tool_result tool_input prose} : ";

/// Returns queries as people type them, and in FTS5's syntax.
fn queries() -> Vec<(String, String)> {
    let mut queries: Vec<(String, String)> = [
        ("the", r#""the""#),
        ("error", r#""error""#),
        ("uber", r#""uber""#),
        ("ÜBER", r#""uber""#),
        ("absent", r#""absent""#),
        ("the error", r#""the" AND "error""#),
        ("the error w7", r#""the" AND "error" AND "w7""#),
        ("\"the error\"", r#""the error""#),
        ("the OR w7", r#""the" OR "w7""#),
        ("the w7 OR error w9 OR uber", r#"("the" AND "w7") OR ("error" AND "w9") OR "uber""#),
        ("w5 NOT the error", r#""w5" NOT ("the" AND "error")"#),
        ("\"the error the\"", r#""the error the""#),
        ("w*", r#""w"*"#),
        ("w1*", r#""w1"*"#),
        ("e*", r#""e"*"#),
        ("\"the w2\"*", r#""the w2"*"#),
        ("the w3*", r#""the" AND "w3"*"#),
        ("the -error", r#""the" NOT "error""#),
        ("w5 -\"the w5\" -w1*", r#"("w5" NOT "the w5") NOT "w1"*"#),
    ]
    .into_iter()
    .map(|(typed, fts)| (typed.to_owned(), format!("{EVERYWHERE}({fts})")))
    .collect();
    for number in [3, 4, 9, 17, 60, 150, 333, 390] {
        queries.push((format!("w{number}"), format!("{EVERYWHERE}\"w{number}\"")));
    }
    queries.push(("in:thinking the".to_owned(), "{thinking} : \"the\"".to_owned()));
    queries.push(("in:all the w4".to_owned(), "\"the\" AND \"w4\"".to_owned()));
    queries.push(("in:tools error".to_owned(), "{tool_input tool_result} : \"error\"".to_owned()));
    queries
}

#[track_caller]
fn compare(home: &Home) {
    let conn = home.sql();
    let mut found = 0;
    for (typed, fts) in queries() {
        let expected = by_fts5(&conn, &fts, 20);
        assert_eq!(ours(home, &typed, Some(20)), expected, "{typed}");
        let all = by_fts5(&conn, &fts, -1);
        assert_eq!(ours(home, &typed, None), all, "all hits of {typed}");
        found += all.1.len();
    }
    assert!(found > 1000, "only {found} hits were compared");
}

#[test]
fn the_order_is_that_of_fts5() {
    // Long doclists span many pages; short ones share a page.
    compare(&home(3, 400));
}

#[test]
fn the_order_is_that_of_fts5_where_fts5_writes_everything() {
    compare(&home_with(3, 200, Fts5Access::Plain));
}

#[test]
fn the_order_is_that_of_fts5_in_many_segments() {
    let home = home(24, 12);
    assert!(home.one::<i64>("SELECT count(DISTINCT segid) FROM search_idx") > 1);
    compare(&home);
}

#[test]
fn the_order_is_that_of_fts5_while_segments_are_merged() {
    let home = home(12, 60);
    for step in 0..12 {
        home.sql().execute("INSERT INTO search (search, rank) VALUES ('merge', 3)", []).unwrap();
        if step % 4 == 0 {
            compare(&home);
        }
    }
    home.sql().execute("INSERT INTO search (search) VALUES ('optimize')", []).unwrap();
    compare(&home);
}

#[test]
fn the_order_is_that_of_fts5_after_deletions() {
    let home = home(4, 100);
    // As the tail of a file is indexed, removed and indexed again.
    let conn = home.sql();
    for go in 0..40 {
        conn.execute("INSERT INTO entry_rows (id, kind, content) VALUES (?1, 1, 0)", [-go - 1])
            .unwrap();
        conn.execute("INSERT INTO search (rowid, prose) VALUES (?1, 'the error w5 w5')", [-go - 1])
            .unwrap();
        if go % 3 > 0 {
            conn.execute("DELETE FROM search WHERE rowid = ?1", [-go - 1]).unwrap();
        }
        if go % 3 > 1 {
            conn.execute(
                "INSERT INTO search (rowid, prose) VALUES (?1, 'the w5 again')",
                [-go - 1],
            )
            .unwrap();
        }
    }
    conn.execute(
        "DELETE FROM search WHERE rowid IN (SELECT id FROM entry_rows WHERE id > 0 AND id % 3 = 0)",
        [],
    )
    .unwrap();
    drop(conn);
    compare(&home);
}

#[test]
fn newest_first_is_by_the_agents_clocks() {
    let home = home(6, 300);
    let conn = home.sql();
    for (typed, fts) in queries() {
        for limit in [1, 20, 500] {
            let newest =
                SearchRequest { order: Order::Newest, limit: Some(limit), ..request(&typed) };
            let answer = home.search(&newest);
            let mut statement = conn
                .prepare(
                    "SELECT s.rowid FROM search s JOIN entry_rows e ON e.id = s.rowid
                      WHERE search MATCH ?1 ORDER BY e.time DESC, e.id DESC LIMIT ?2",
                )
                .unwrap();
            let expected: Vec<i64> = statement
                .query_map((&fts, limit as i64), |row| row.get(0))
                .unwrap()
                .collect::<Result<_, _>>()
                .unwrap();
            let found: Vec<i64> = answer.hits.iter().map(|hit| hit.entry).collect();
            assert_eq!(found, expected, "{typed}");
        }
    }
}
