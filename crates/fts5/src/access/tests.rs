//! Tests the check of the format: it passes with this SQLite, and fails with any other format.

use rusqlite::config::DbConfig;

use super::*;

/// Fills a table through SQL and then applies `change` to FTS5's own tables. Returns the answers of
/// direct reading after the change, and those of FTS5 before it.
fn answers_around(change: &str) -> (Result<Vec<Answer>>, Vec<Answer>) {
    let conn = sample().unwrap();
    for (rowid, [a, b, c, d, e]) in rows() {
        conn.execute(
            "INSERT INTO search (rowid, a, b, c, d, e) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            (rowid, a, b, c, d, e),
        )
        .unwrap();
    }
    conn.execute_batch("COMMIT").unwrap();
    let expected = answers(&conn, Access::Plain).unwrap();
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false).unwrap();
    conn.execute_batch(change).unwrap();
    (answers(&conn, Access::Direct), expected)
}

#[test]
fn the_format_of_this_sqlite_is_known() {
    assert!(is_format_known().unwrap());
    let (direct, expected) = answers_around("");
    assert_eq!(direct.unwrap(), expected);
    assert!(expected.iter().all(|answer| !answer.is_empty()));
}

/// A table in another format is refused, or gives another answer.
#[test]
fn another_format_is_noticed() {
    for change in [
        "UPDATE search_data SET block = block || x'01' WHERE id = 1",
        "UPDATE search_data SET block = x'00000000fe000001' || substr(block, 9) WHERE id = 10",
        "UPDATE search_data SET block = x'0000' || block WHERE id > 10",
        "UPDATE search_docsize SET sz = x'01' || sz",
        "DROP TABLE search_idx",
    ] {
        let (direct, expected) = answers_around(change);
        assert!(direct.is_err() || direct.is_ok_and(|direct| direct != expected), "{change}");
    }
}

/// A table of a version that this crate does not know is left to FTS5; `secure-delete`, for
/// example, makes FTS5 raise the version to 5. A version that FTS5 does not know either is an
/// error.
#[test]
fn a_table_of_another_version_is_left_to_fts5() {
    let mut conn = Connection::open_in_memory().unwrap();
    create(&conn, ["a", "b", "c", "d", "e"]).unwrap();
    assert_eq!(Access::detect(&conn).unwrap(), Access::Direct);
    conn.execute_batch("INSERT INTO search (rowid, a) VALUES (1, 'the one')").unwrap();
    let the = || vec![Phrase { tokens: vec!["the".to_owned()], is_prefix: false }];
    for version in [5, 99] {
        conn.execute("UPDATE search_config SET v = ?1 WHERE k = 'version'", [version]).unwrap();
        // FTS5 reads its settings once per connection.
        let bytes = conn.serialize("main").unwrap().to_vec();
        let mut conn = Connection::open_in_memory().unwrap();
        conn.deserialize_read_exact("main", &*bytes, bytes.len(), false).unwrap();
        assert_eq!(Access::detect(&conn).unwrap(), Access::Plain);
        let found = Index::open(&conn, Access::Plain)
            .and_then(|index| Ok(index.find(&the(), &[], ALL_COLUMNS)?.len()));
        match version {
            5 => assert_eq!(found.unwrap(), 1),
            _ => assert!(matches!(found, Err(Error::Index { .. })), "{found:?}"),
        }
    }
    conn.execute_batch("DROP TABLE search").unwrap();
    assert_eq!(Access::detect(&conn).unwrap(), Access::Plain);
}

/// Fails after an upgrade of SQLite, until the README and `TESTED_VERSIONS` list the new version.
#[test]
fn this_sqlite_is_listed() {
    let readme = include_str!("../../README.md");
    let version = rusqlite::version();
    assert!(readme.contains(&format!("| {version} |")), "SQLite {version} is not in the README");
    assert!(
        TESTED_VERSIONS.contains(&version),
        "SQLite {version} is not among those that were tested"
    );
}
