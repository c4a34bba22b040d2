//! Sessions that Claude Code itself wrote (`tests/fixtures/claude-code-*`). The `SOURCES.md` of
//! each lists the commands that made them and the right answers.

use std::path::Path;

use quipu_ledger::query::{UsageBy, sessions};
use quipu_ledger::wire::{Session, UsageLine};

use crate::home::*;
use crate::usage::report;

const FOLDERS: [&str; 2] = ["claude-code-2.1.197", "claude-code-2.1.325"];

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Copies all files of a folder into the home's Claude Code folder, in the order of their paths, or
/// backwards. Collects after each file, so that the order of collecting is the order of copying.
fn collect_one_by_one(folder: &Path, is_backwards: bool) -> Home {
    let home = Home::quick();
    let mut files = files_below(&folder.join("projects"));
    files.sort();
    if is_backwards {
        files.reverse();
    }
    for file in files {
        let name = file.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
        home.write(&format!(".claude/{name}"), std::fs::read(&file).unwrap());
        home.sync();
    }
    home.sync_and_check();
    home
}

fn files_below(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => files.push(path),
        }
    }
    files
}

fn listed(home: &Home) -> Vec<Session> {
    let filter = quipu_ledger::query::Filter { all: true, ..Default::default() };
    sessions(&home.open(), &filter, None).unwrap().sessions
}

/// Returns the beginning of the id of the session that another one was forked from.
fn fork_of(home: &Home, id: &str) -> Option<String> {
    let found = listed(home).into_iter().find(|session| session.id.starts_with(id)).unwrap();
    found.fork_of.map(|of| of[..8].to_owned())
}

fn tokens_of(line: &UsageLine) -> [u64; 4] {
    [line.input, line.output, line.cache_read, line.cache_write]
}

/// Returns input, output, cache read and cache write of a session, with its sub-agents.
fn usage_of(home: &Home, id: &str) -> [u64; 4] {
    let report = report(home, UsageBy::Session);
    let line = report.lines.iter().find(|line| line.group.starts_with(id)).unwrap();
    tokens_of(line)
}

/// The original continued after `--fork-session`: it is still the original, in both releases and
/// whichever file was collected first, and keeps what it paid for.
#[test]
fn an_original_that_continued_after_its_fork_stays_the_original() {
    for is_backwards in [false, true] {
        let home = collect_one_by_one(&fixture(FOLDERS[0]), is_backwards);
        assert_eq!(fork_of(&home, "7c7b51c8"), None);
        assert_eq!(fork_of(&home, "341c4f14").as_deref(), Some("7c7b51c8"));
        assert_eq!(usage_of(&home, "7c7b51c8"), [91 + 22, 131 + 32, 5_000, 500]);
        assert_eq!(usage_of(&home, "341c4f14"), [25, 35, 1_000, 100]);
    }
}

/// All lineages and the usage of each session, as the program's own requests were answered.
#[test]
fn forks_branches_and_usage_of_a_newer_release() {
    for is_backwards in [false, true] {
        let home = collect_one_by_one(&fixture(FOLDERS[1]), is_backwards);
        assert_eq!(fork_of(&home, "6990bad9"), None);
        assert_eq!(fork_of(&home, "47108f2e").as_deref(), Some("6990bad9"));
        assert_eq!(fork_of(&home, "5ccc6b99"), None);
        assert_eq!(fork_of(&home, "ac68bfb0").as_deref(), Some("5ccc6b99"));
        assert_eq!(fork_of(&home, "31d676a2"), None);
        let subagents = [57 + 26 + 87, 77 + 36 + 117, 6_000, 600];
        let own = [747, 1_007, 26_000, 2_600];
        let all: Vec<u64> = own.iter().zip(subagents).map(|(own, sub)| own + sub).collect();
        assert_eq!(usage_of(&home, "6990bad9").as_slice(), all);
        assert_eq!(usage_of(&home, "47108f2e"), [42, 52, 1_000, 100]);
        assert_eq!(usage_of(&home, "5ccc6b99"), [303, 363, 6_000, 600]);
        assert_eq!(usage_of(&home, "ac68bfb0"), [165, 195, 3_000, 300]);
        assert_eq!(usage_of(&home, "31d676a2"), [116, 136, 2_000, 200]);
        assert_eq!(
            tokens_of(&report(&home, UsageBy::Session).total),
            [1_543, 1_983, 44_000, 4_400]
        );
    }
}
