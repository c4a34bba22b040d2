//! The documents are true: the schema page shows the schema, and every requirement names existing
//! tests.

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
    for file in [
        "truth_v1.sql",
        "truth_v2.sql",
        "truth_v3.sql",
        "truth_v4.sql",
        "truth_v5.sql",
        "projection.sql",
    ] {
        let schema = read(&format!("crates/ledger/src/file/schema/{file}"));
        assert!(page.contains(schema.trim_end()), "docs/schema.md differs from {file}");
    }
}

#[test]
fn the_store_page_shows_agents_that_work() {
    let page = read("docs/store.md");
    for file in ["crates/ledger/examples/agent.rs", "docs/examples/agent.sh"] {
        let agent = read(file);
        assert!(page.contains(agent.trim_end()), "docs/store.md differs from {file}");
        assert!(agent.lines().count() <= 36, "{file} is no longer a short loop");
    }
}

/// Returns the numbers of the requirements.
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
        120..=127,
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
            assert!(has_test(&source, name), "R{number}: {file} has no test {name}");
        }
    }
    assert_eq!(rows, requirements());
}

/// Returns whether a test with that name runs: a function with `#[test]`, even in `proptest!`, that
/// is neither ignored nor in a comment.
fn has_test(source: &str, name: &str) -> bool {
    let function = format!("fn {name}(");
    let mut attributes: Vec<&str> = Vec::new();
    let mut is_comment = false;
    for line in source.lines().map(str::trim) {
        is_comment |= line.starts_with("/*");
        if is_comment {
            is_comment = !line.ends_with("*/");
        } else if line.starts_with("#[") {
            attributes.push(line);
        } else if line.starts_with(&function) {
            let is_test = attributes.contains(&"#[test]");
            return is_test && !attributes.iter().any(|line| line.starts_with("#[ignore"));
        } else if !line.is_empty() && !line.starts_with("//") {
            attributes.clear();
        }
    }
    false
}

#[test]
fn a_test_is_a_function_that_runs() {
    assert!(has_test("#[test]\nfn it_works() {}", "it_works"));
    assert!(has_test("#[test]\n// Why.\n#[cfg(unix)]\n    fn it_works() {}", "it_works"));
    assert!(has_test("proptest! {\n    #[test]\n    fn it_works(x in 0..1) {}\n}", "it_works"));
    for source in [
        "fn it_works() {}",
        "// #[test]\nfn it_works() {}",
        "#[test]\n// fn it_works() {}",
        "#[test]\nfn other() {}\nfn it_works() {}",
        "#[test]\n#[ignore = \"slow\"]\nfn it_works() {}",
        "/*\n#[test]\nfn it_works() {}\n*/",
        "#[test]\nfn it_works_too() {}",
        "\"#[test] fn it_works()\"",
    ] {
        assert!(!has_test(source, "it_works"), "{source}");
    }
}
