//! The documents are true: the schema page shows the schema, and every requirement names tests
//! that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_schema_page_shows_the_schema() {
    let page = read("docs/schema.md");
    for file in ["truth_v1.sql", "truth_v2.sql", "truth_v3.sql", "truth_v4.sql", "projection.sql"] {
        let schema = read(&format!("crates/ledger/src/schema/{file}"));
        assert!(page.contains(schema.trim_end()), "docs/schema.md differs from {file}");
    }
}

#[test]
fn the_store_page_shows_agents_that_work() {
    let page = read("docs/store.md");
    for file in ["crates/ledger/examples/agent.rs", "docs/examples/agent.sh"] {
        let agent = read(file);
        assert!(page.contains(agent.trim_end()), "docs/store.md differs from {file}");
        assert!(agent.lines().count() <= 36, "{file} is no short loop any more");
    }
}

/// The numbers that the requirements have.
fn requirements() -> BTreeSet<u32> {
    [
        1..=8,
        10..=19,
        30..=34,
        40..=46,
        50..=53,
        60..=63,
        70..=74,
        80..=84,
        90..=93,
        100..=105,
        110..=112,
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[test]
fn every_requirement_has_a_row_and_every_named_test_exists() {
    let page = read("docs/spec-coverage.md");
    let mut rows = BTreeSet::new();
    for line in page.lines() {
        let Some((number, rest)) = line.strip_prefix("| R").and_then(|row| row.split_once(" | "))
        else {
            continue;
        };
        assert!(rows.insert(number.parse::<u32>().unwrap()), "R{number} has two rows");
        let tests: Vec<&str> =
            rest.split('`').skip(1).step_by(2).filter(|code| code.contains(".rs::")).collect();
        assert!(!tests.is_empty() || rest.contains("later:"), "R{number} names no test");
        for test in tests {
            let (file, name) = test.split_once("::").unwrap();
            let source = read(file);
            assert!(
                source.contains(&format!("fn {name}(")),
                "R{number}: {file} has no test {name}"
            );
        }
    }
    assert_eq!(rows, requirements());
}
