//! Changes of files between syncs, row by row of the fault table: nothing stored is lost, nothing
//! is stored twice, and the ledger records what happened.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use crate::home::*;
use quipu_ledger::collect::RootPath;
use quipu_ledger::restore::{Generations, RestoreScope};
use quipu_ledger::wire::{FormatStatus, Status, SyncReport};
use quipu_transcript::format;

const OPENCLAW: &str = ".openclaw/agents/main/sessions/faults.jsonl";

fn lines(range: std::ops::Range<u32>) -> String {
    range
        .map(|number| {
            let parent = (number > 0).then(|| uuid(number - 1));
            line("user", &uuid(number), parent.as_deref(), &format!("word{number}"))
        })
        .collect()
}

/// Returns the path of another session.
fn path_of(number: u32) -> String {
    MAIN.replace(SESSION, &uuid(number))
}

/// Collects `before`, changes the file, and collects again. Asserts that a new generation began for
/// that reason, that both generations are restored, and that no line is stored twice.
#[track_caller]
fn check(before: &str, happen: impl FnOnce(&Home), began: &str) -> (Home, SyncReport) {
    let home = Home::quick();
    home.write(MAIN, before);
    home.sync();
    happen(&home);
    let report = home.sync_and_check();
    home.assert_restores_all(&[MAIN]);
    let generations = home.generations();
    assert_eq!(generations.len(), 2, "{generations:#?}");
    assert!(generations[0].bytes == before.as_bytes(), "the old generation is kept");
    assert_eq!((generations[1].began.as_str(), report.rewritten_sources), (began, 1));
    let mut seen = HashSet::new();
    for record in generations.iter().flat_map(Generation::own_records) {
        assert!(seen.insert(record), "stored twice: {}", String::from_utf8_lossy(record));
    }
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 1);
    (home, report)
}

// --- Truncated, rewritten, replaced

#[test]
fn f25_truncated_and_regrown_beyond_the_cursor() {
    let (home, report) = check(&lines(0..10), |home| home.write(MAIN, lines(20..45)), "rewritten");
    assert_eq!(report.records_added, 25);
    assert_eq!((home.hits("word3"), home.hits("word30")), (1, 1));
    assert_eq!(home.problems()["source_rewritten"], 1);
}

#[test]
fn f25_truncated_and_regrown_to_the_same_length() {
    let (home, _) = check(&lines(10..20), |home| home.write(MAIN, lines(20..30)), "rewritten");
    assert_eq!((home.hits("word13"), home.hits("word23")), (1, 1));
}

/// The bytes before the cursor are the same run before and after, so their fingerprint is too.
#[test]
fn f25_truncated_inside_a_run_of_one_byte_and_regrown() {
    let run = "x".repeat(20_000);
    let torn = |word: &str| format!("{}{{\"type\":\"user\",\"{word}\":\"{run}", lines(0..3));
    let before = torn("torn");
    let cut = before.len() - 15_000;
    let after = [&before[..cut], "\"}\n", &torn("regrown")].concat();
    for after in [after, torn("other") + &run] {
        let home = Home::quick();
        home.write(MAIN, &before);
        home.sync();
        home.write(MAIN, after);
        assert_eq!(home.sync_and_check().rewritten_sources, 1);
        home.assert_restores_all(&[MAIN]);
    }
}

#[test]
fn f25_truncated_before_a_run_of_blank_lines_and_regrown() {
    let blank = "\n".repeat(300);
    let home = Home::quick();
    home.write(MAIN, lines(0..30) + &blank);
    home.sync();
    // Only a line in the middle differs.
    home.write(MAIN, lines(0..30).replace("word20", "word99") + &blank + &lines(40..41));
    assert_eq!(home.sync_and_check().rewritten_sources, 1);
    home.assert_restores_all(&[MAIN]);
}

#[test]
fn f26_truncated_and_regrown_between_two_looks_of_one_process() {
    let home = Home::quick();
    let mut ledger = home.open();
    let mut sync =
        || quipu_ledger::collect::collect(&mut ledger, &home.roots(), &mut |_| {}).unwrap();
    home.write(MAIN, lines(0..10));
    sync();
    File::options().write(true).open(home.path(MAIN)).unwrap().set_len(0).unwrap();
    home.append(MAIN, lines(20..45));
    assert_eq!(sync().rewritten_sources, 1);
    home.append(MAIN, lines(45..46));
    assert_eq!(sync().lines_parsed, 1);
    home.assert_restores_all(&[MAIN]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 36);
    home.assert_rebuilds();
}

#[test]
fn f26_truncated_to_nothing_and_seen_empty() {
    let home = Home::quick();
    home.write(MAIN, lines(0..10));
    home.sync();
    home.write(MAIN, "");
    assert_eq!(home.sync().rewritten_sources, 1);
    home.append(MAIN, lines(0..10));
    let report = home.sync_and_check();
    home.assert_restores_all(&[MAIN]);
    assert_eq!(report.rewritten_sources, 0);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 10);
    assert_eq!(home.problems()["source_truncated"], 1);
}

#[test]
fn f27_replaced_by_a_shorter_file() {
    let (home, report) = check(&lines(0..10), |home| home.replace(MAIN, lines(0..4)), "replaced");
    assert_eq!(report.lines_parsed, 0, "all lines are known");
    assert_eq!(home.one::<i64>("SELECT count(*) FROM absent"), 6);
    assert_eq!(home.hits("word9"), 1);
}

#[test]
fn f27_replaced_by_a_longer_file() {
    let other = lines(50..60) + &lines(5..10) + &lines(60..70);
    let (home, report) = check(&lines(0..10), |home| home.replace(MAIN, &other), "replaced");
    assert_eq!(report.lines_parsed, 20);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM absent"), 5);
    assert_eq!(home.problems()["source_replaced"], 1);
}

#[test]
fn f27_replaced_by_an_identical_file() {
    let home = Home::quick();
    home.write(MAIN, lines(0..10));
    home.sync();
    home.replace(MAIN, lines(0..10));
    let report = home.sync_and_check();
    assert_eq!((report.rewritten_sources, report.bytes_read, report.lines_parsed), (0, 0, 0));
    assert_eq!(home.generations().len(), 1);
    assert!(home.problems().is_empty());
    assert_eq!(home.sync().bytes_verified, 0, "the new inode is known");
}

#[test]
fn f27_replaced_by_a_compacted_file() {
    let summary = line("user", &uuid(99), None, "standsforthem");
    let compacted = summary + &lines(8..10);
    let (home, report) = check(&lines(0..10), |home| home.replace(MAIN, &compacted), "replaced");
    assert_eq!(report.lines_parsed, 1);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 11);
    assert_eq!((home.hits("word0"), home.hits("standsforthem")), (1, 1));
}

#[test]
fn f27_replaced_with_an_unterminated_end() {
    let before = lines(0..5) + line("user", &uuid(5), None, "torn").trim_end();
    let (home, _) = check(&before, |home| home.replace(MAIN, lines(20..23)), "replaced");
    assert_eq!(home.problems()["unterminated"], 1);
    assert_eq!(home.hits("torn"), 1);
}

/// An edit that keeps size and ends is found when the whole file is compared: whenever it was
/// touched without growing.
#[test]
fn f28_an_edit_in_the_middle() {
    let edited = lines(0..100).replace("word50", "wordXX");
    let (home, report) = check(&lines(0..100), |home| home.write(MAIN, &edited), "rewritten");
    assert_eq!(report.lines_parsed, 1);
    assert_eq!((home.hits("word50"), home.hits("wordXX")), (1, 1));
}

/// Together with an append it is not found at once, because only the ends are compared then. It is
/// found at the next change that is not a mere append.
#[test]
fn f28_an_edit_in_the_middle_together_with_an_append() {
    let home = Home::quick();
    home.write(MAIN, lines(0..100));
    home.sync();
    home.write(MAIN, lines(0..101).replace("word50", "wordXX"));
    let report = home.sync();
    assert_eq!((report.rewritten_sources, report.lines_parsed), (0, 1));
    home.write(MAIN, lines(0..101).replace("word50", "wordXX"));
    assert_eq!(home.sync_and_check().rewritten_sources, 1);
    home.assert_restores_all(&[MAIN]);
    assert_eq!(home.hits("wordXX"), 1);
}

/// The same inode under another name, with other content: another file.
#[test]
fn f29_an_inode_that_is_used_again() {
    let home = Home::quick();
    let other = path_of(7);
    home.write(MAIN, lines(0..5));
    home.sync();
    home.rename(MAIN, &other);
    home.write(&other, lines(100..120));
    let report = home.sync_and_check();
    assert_eq!((report.renamed_sources, report.gone_sources, report.sources_added), (0, 1, 1));
    home.assert_restores_all(&[&other]);
    assert_eq!(home.all("SELECT state FROM sessions"), ["'gone'", "'live'"]);
    let all = home.restored(Generations::Newest);
    assert!(all.values().any(|bytes| *bytes == lines(0..5).into_bytes()));
}

/// The same inode under the same name.
#[test]
fn f29_deleted_and_created_again() {
    for change in [false, true] {
        let home = Home::quick();
        home.write(MAIN, lines(0..5));
        home.sync();
        home.remove(MAIN);
        if change {
            home.sync();
        }
        home.write(MAIN, lines(10..20));
        home.sync_and_check();
        home.assert_restores_all(&[MAIN]);
        assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 15);
        assert_eq!(home.all("SELECT state FROM sessions"), ["'live'"]);
    }
}

/// A writer that continues at its old offset after the file was truncated leaves a hole.
#[test]
fn f30_a_hole_at_the_head() {
    let hole = |home: &Home| {
        let writer = File::options().write(true).open(home.path(MAIN)).unwrap();
        let at = writer.metadata().unwrap().len();
        writer.set_len(0).unwrap();
        writer.write_all_at(lines(10..13).as_bytes(), at).unwrap();
    };
    let (home, _) = check(&lines(0..10), hole, "rewritten");
    assert_eq!(home.problems()["nul_run"], 1);
    for word in ["word9", "word10", "word11", "word12"] {
        assert_eq!(home.hits(word), 1, "{word}");
    }
}

// --- Moved, linked, deleted

const BESIDE: &str = ".claude/projects/-home-alice-shop/640ab4c7-d010-4b20-a591-b7172ef08e66";

#[test]
fn f31_a_project_folder_is_renamed() {
    let home = Home::quick();
    home.write(MAIN, lines(0..10));
    home.write(&path_of(3), lines(20..22));
    home.write(&format!("{BESIDE}/subagents/agent-a1.jsonl"), lines(30..33));
    home.write(&format!("{BESIDE}/tool-results/b1.txt"), "output");
    home.write(".claude/projects/-home-alice-shop/agent-old.jsonl", lines(40..42));
    home.sync();
    let sessions = home.all("SELECT id, session_id, state, entries FROM sessions");
    for (from, to) in [("-home-alice-shop", "-home-alice-store"), ("-home-alice-store", "-moved")] {
        home.rename(&format!(".claude/projects/{from}"), &format!(".claude/projects/{to}"));
        let report = home.sync_and_check();
        assert_eq!((report.renamed_sources, report.gone_sources, report.sources_added), (5, 0, 0));
        assert_eq!((report.bytes_read, report.lines_parsed), (0, 0));
        assert_eq!(home.all("SELECT id, session_id, state, entries FROM sessions"), sessions);
    }
    assert_eq!(
        home.one::<i64>("SELECT count(*) FROM source_paths"),
        10,
        "every path of a source is kept"
    );
    let moved = MAIN.replace("-home-alice-shop", "-moved");
    home.append(&moved, lines(10..11));
    assert_eq!(home.sync().lines_parsed, 1);
    home.assert_restores_all(&[&moved]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), sessions.len() as i64);
}

/// Collects from these folders of Claude Code.
fn sync_from(home: &Home, folders: &[&str]) -> SyncReport {
    let roots: Vec<RootPath> = folders
        .iter()
        .map(|folder| RootPath {
            format: format::by_name("claude-code").unwrap(),
            path: home.path(folder),
            selection: quipu_ledger::collect::Selection::default(),
            retention: Default::default(),
        })
        .collect();
    quipu_ledger::collect::collect(&mut home.open(), &roots, &mut |_| {}).unwrap()
}

#[test]
fn f31_a_file_moves_between_roots() {
    let home = Home::quick();
    home.write(MAIN, lines(0..10));
    home.folder_for(".config/claude/projects/-p/x");
    let roots = [".claude", ".config/claude"];
    sync_from(&home, &roots);
    home.rename(MAIN, &format!(".config/claude/projects/-p/{SESSION}.jsonl"));
    let report = sync_from(&home, &roots);
    assert_eq!((report.renamed_sources, report.gone_sources, report.bytes_read), (1, 0, 0));
    assert_eq!(home.all("SELECT session_id, state FROM sessions"), [format!("'{SESSION}'|'live'")]);
    home.assert_sound();
    home.assert_rebuilds();
}

#[test]
fn f31_a_link_leads_elsewhere() {
    let home = Home::quick();
    home.write(".claude/store/a.jsonl", lines(0..5));
    home.write(".claude/store/b.jsonl", lines(10..20));
    home.folder_for(MAIN);
    symlink(home.path(".claude/store/a.jsonl"), home.path(MAIN)).unwrap();
    home.sync();
    fs::remove_file(home.path(MAIN)).unwrap();
    symlink(home.path(".claude/store/b.jsonl"), home.path(MAIN)).unwrap();
    let report = home.sync_and_check();
    assert_eq!(report.rewritten_sources, 1);
    home.assert_restores_all(&[MAIN]);
    assert_eq!(home.generations()[0].bytes, lines(0..5).into_bytes());
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 1);
}

#[test]
fn f32_deleted_by_the_clean_up() {
    let home = Home::quick();
    let torn = line("user", &uuid(10), None, "torn");
    home.write(MAIN, lines(0..10) + torn.trim_end());
    home.sync();
    home.remove(MAIN);
    let report = home.sync_and_check();
    assert_eq!((report.gone_sources, report.bytes_read), (1, 0));
    assert_eq!(home.one::<String>("SELECT state FROM sessions"), "gone");
    assert_eq!((home.hits("word9"), home.hits("torn")), (1, 1));
    let restored = home.restored(Generations::Newest);
    assert_eq!(restored.values().next().unwrap(), (lines(0..10) + torn.trim_end()).as_bytes());
    assert_eq!(home.sync().gone_sources, 0, "a file is reported as gone only once");
}

/// A file whose path holds something else is gone, like a deleted one.
#[test]
fn f32_a_folder_takes_the_place_of_a_file() {
    let home = Home::quick();
    home.write(MAIN, lines(0..3));
    home.sync();
    home.remove(MAIN);
    fs::create_dir(home.path(MAIN)).unwrap();
    assert_eq!(home.sync_and_check().gone_sources, 1);
    assert_eq!(home.one::<String>("SELECT state FROM sessions"), "gone");
}

#[test]
fn f32_a_file_takes_the_place_of_a_folder() {
    let home = Home::quick();
    home.write(MAIN, lines(0..3));
    home.sync();
    fs::remove_dir_all(home.path(".claude/projects/-home-alice-shop")).unwrap();
    home.write(".claude/projects/-home-alice-shop", "a file");
    assert_eq!(home.sync_and_check().gone_sources, 1);
    assert_eq!(home.one::<String>("SELECT state FROM sessions"), "gone");
}

#[test]
fn f33_touched_files_are_not_read_again() {
    let home = Home::quick();
    home.write(MAIN, lines(0..10));
    home.write(OPENCLAW, "{\"role\":\"user\",\"content\":\"hello\"}\n");
    home.sync();
    let file = File::options().write(true).open(home.path(MAIN)).unwrap();
    for seconds in [1, 1_000_000_000] {
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        let report = home.sync_and_check();
        assert_eq!((report.bytes_read, report.lines_parsed, report.rewritten_sources), (0, 0, 0));
        assert_eq!(home.sync().bytes_verified, 0);
    }
}

// --- Unreadable files

/// Removes all permissions. Returns false if that has no effect, as for root.
fn lock_out(home: &Home, path: &str) -> bool {
    let path = home.path(path);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    File::open(&path).is_err()
}

fn let_in(home: &Home, path: &str, mode: u32) {
    fs::set_permissions(home.path(path), fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn f16_a_file_that_cannot_be_read() {
    let home = Home::quick();
    home.write(MAIN, lines(0..3));
    home.write(&path_of(2), lines(10..13));
    home.sync();
    home.append(MAIN, lines(3..5));
    home.append(&path_of(2), lines(13..15));
    if lock_out(&home, MAIN) {
        let report = home.sync();
        assert_eq!((report.gone_sources, report.lines_parsed), (0, 2), "its neighbour is read");
        assert!(report.skipped.iter().any(|skip| skip.reason.starts_with("unreadable")));
        assert_eq!(home.all("SELECT state FROM sessions"), ["'live'", "'live'"]);
    }
    let_in(&home, MAIN, 0o600);
    home.sync_and_check();
    home.assert_restores_all(&[MAIN, &path_of(2)]);
}

#[test]
fn f16_a_folder_that_cannot_be_read() {
    let home = Home::quick();
    let other = ".claude/projects/-other/00000001-d010-4b20-a591-b7172ef08e66.jsonl";
    home.write(MAIN, lines(0..3));
    home.write(other, lines(10..13));
    home.sync();
    home.append(other, lines(13..15));
    if lock_out(&home, ".claude/projects/-home-alice-shop") {
        let report = home.sync();
        assert_eq!((report.gone_sources, report.lines_parsed), (0, 2));
        assert_eq!(home.all("SELECT state FROM sessions"), ["'live'", "'live'"]);
    }
    let_in(&home, ".claude/projects/-home-alice-shop", 0o700);
    home.sync_and_check();
    home.assert_restores_all(&[MAIN, other]);
}

#[test]
fn a_root_that_returns_is_not_read_again() {
    let home = Home::quick();
    home.write(MAIN, lines(0..10));
    home.write(&path_of(2), lines(20..22));
    home.write(OPENCLAW, "{\"role\":\"user\",\"content\":\"hello\"}\n");
    home.sync();
    home.rename(".claude", "away");
    let report = home.sync_and_check();
    assert_eq!((report.gone_sources, report.bytes_read), (2, 0));
    assert_eq!(home.all("SELECT state FROM sessions"), ["'gone'", "'gone'", "'live'"]);
    assert_eq!(home.hits("word3"), 1);
    home.rename("away", ".claude");
    let report = home.sync_and_check();
    assert_eq!((report.bytes_read, report.lines_parsed, report.rewritten_sources), (0, 0, 0));
    assert_eq!(home.all("SELECT state FROM sessions"), ["'live'", "'live'", "'live'"]);
    home.append(MAIN, lines(10..11));
    assert_eq!(home.sync_and_check().lines_parsed, 1);
    home.assert_restores_all(&[MAIN, &path_of(2)]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 14);
}

/// A line that was incomplete when its root vanished can still end when the root returns.
#[test]
fn a_line_can_end_after_its_root_returns() {
    let home = Home::quick();
    let last = line("user", &uuid(1), None, "interrupted");
    let (now, later) = last.split_at(60);
    home.write(MAIN, lines(0..1) + now);
    home.sync();
    home.rename(".claude", "away");
    home.sync();
    home.rename("away", ".claude");
    home.sync_and_check();
    home.append(MAIN, later);
    home.sync_and_check();
    home.assert_restores_all(&[MAIN]);
    assert_eq!(home.hits("interrupted"), 1);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 2);
}

// --- Documents

const OUTPUT: &str =
    ".claude/projects/-home-alice-shop/640ab4c7-d010-4b20-a591-b7172ef08e66/tool-results/b1.txt";

#[test]
fn every_version_of_a_document_is_kept() {
    let home = Home::quick();
    let versions = ["first version", "second version, a little longer", "third"];
    for (number, version) in versions.iter().enumerate() {
        if number == 1 {
            home.replace(OUTPUT, version);
        } else {
            home.write(OUTPUT, version);
        }
        home.sync_and_check();
        home.assert_restores_all(&[OUTPUT]);
        assert_eq!(home.sync().bytes_read, 0);
    }
    for (number, version) in versions.iter().enumerate() {
        let restored = home.restored(Generations::Number(number as i64 + 1));
        assert_eq!(restored.into_values().collect::<Vec<_>>(), [version.as_bytes()]);
    }
    let nothing = tempfile::tempdir_in(home.folder()).unwrap();
    let fourth = Generations::Number(4);
    quipu_ledger::restore::restore(&home.open(), RestoreScope::All, nothing.path(), fourth)
        .unwrap_err();
    assert_eq!((home.hits("first"), home.hits("third")), (1, 1));
    assert!(home.problems().is_empty(), "a new version is not a problem");
}

#[test]
fn an_empty_version_of_a_document_is_kept() {
    let home = Home::quick();
    for text in ["", "now it says something", ""] {
        home.write(OUTPUT, text);
        home.sync_and_check();
        home.assert_restores_all(&[OUTPUT]);
    }
    assert_eq!(home.hits("something"), 1);
    assert_eq!(home.generations().len(), 3);
}

#[test]
fn a_document_that_is_too_long_is_kept_whole() {
    let home = Home::quick();
    // One byte first, so that the read limit falls into a character.
    let long = "x\u{e9}\u{e9}n ".repeat((33 << 20) / 7);
    home.write(OUTPUT, format!("beginning {long}"));
    home.sync();
    home.assert_restores_all(&[OUTPUT]);
    home.write(OUTPUT, format!("another {long}"));
    home.sync_and_check();
    home.assert_restores_all(&[OUTPUT]);
    assert_eq!(home.generations().len(), 2);
    assert_eq!((home.hits("beginning"), home.hits("another")), (1, 1));
    assert_eq!(home.sync().bytes_read, 0);
}

/// A search reports that not all of it was indexed.
#[test]
fn a_document_that_is_too_long_is_reported() {
    let home = Home::quick();
    home.write(OUTPUT, "words ".repeat((33 << 20) / 6));
    home.sync();
    let status = status(&home);
    let is_said =
        status.problems_by_kind.contains_key("oversize") || status.partly_indexed_entries > 0;
    assert!(
        is_said,
        "{:?}, {} partly indexed",
        status.problems_by_kind, status.partly_indexed_entries
    );
}

/// It would have to be held in memory; its earlier version still counts.
#[test]
fn an_index_that_is_too_long_is_not_read() {
    const INDEX: &str = ".openclaw/agents/main/sessions/sessions.json";
    let home = Home::quick();
    home.write(INDEX, r#"{"agent:main:main":{"sessionId":"s1","updatedAt":1}}"#);
    home.sync();
    let keys = "SELECT count(*) FROM session_keys WHERE session_id = 's1'";
    assert_eq!(home.one::<i64>(keys), 1);
    // A hole takes no space on disk.
    let file = fs::OpenOptions::new().write(true).open(home.path(INDEX)).unwrap();
    file.set_len((512 << 20) + 1).unwrap();
    let report = home.sync();
    assert!(report.bytes_read < 1 << 20, "{} bytes", report.bytes_read);
    assert_eq!(status(&home).problems_by_kind["oversize"], 1);
    assert_eq!(home.one::<i64>(keys), 1);
    assert_eq!(home.sync().bytes_read, 0);
}

/// The limit of the reader is reported, and not broken text.
#[test]
fn a_long_document_is_not_reported_as_broken_text() {
    for shift in ["", "x"] {
        let home = Home::quick();
        home.write(OUTPUT, format!("{shift}{}", "\u{e9}".repeat((33 << 20) / 2)));
        home.sync();
        assert_eq!(home.problems().get("invalid_utf8"), None);
    }
}

// --- Many sessions

/// More sessions than are kept open at once, their prompts interleaved.
#[test]
fn interleaved_prompts_of_many_sessions_are_assigned() {
    let home = Home::quick();
    let sessions = 200;
    let prompts: String = (0..3 * sessions)
        .map(|number| {
            format!(
                "{{\"display\":\"prompt{number}\",\"timestamp\":{},\"project\":\"/p\",\"sessionId\":\"{}\"}}\n",
                1_770_193_116_233_i64 + i64::from(number),
                uuid(number % sessions)
            )
        })
        .collect();
    home.write(".claude/history.jsonl", prompts);
    for number in (0..sessions).step_by(2) {
        home.write(&path_of(number), lines(number * 10..number * 10 + 2));
    }
    home.sync_and_check();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), i64::from(sessions));
    assert_eq!(home.one::<i64>("SELECT count(*) FROM prompts"), i64::from(3 * sessions));
    let odd = "SELECT session FROM prompts GROUP BY session HAVING count(*) <> 3";
    assert_eq!(home.all(odd), [""; 0]);
    let by_state =
        "SELECT state, count(*), sum(entries), sum(messages) FROM sessions GROUP BY state";
    assert_eq!(home.all(by_state), ["'live'|100|200|200", "'lost'|100|0|0"]);
    home.assert_restores_all(&[".claude/history.jsonl"]);
}

// --- Status

fn status(home: &Home) -> Status {
    quipu_ledger::status::status(&home.open(), &home.roots()).unwrap()
}

fn format_status<'s>(status: &'s Status, format: &str) -> &'s FormatStatus {
    status.formats.iter().find(|found| found.format == format).unwrap()
}

#[test]
fn status_counts_what_is_there() {
    let home = Home::quick();
    let torn = "{\"type\":\"user\"";
    home.write(MAIN, lines(0..10) + "not json\n" + torn);
    home.write(&format!("{BESIDE}/subagents/agent-a1.jsonl"), lines(20..22));
    home.write(&path_of(2), "{\"type\":\"brand-new\",\"uuid\":\"1\"}\n".repeat(2));
    home.write(&path_of(3), lines(30..31));
    home.write(OPENCLAW, "{\"role\":\"user\",\"content\":\"hello\"}\n");
    home.sync();
    home.remove(&path_of(3));
    home.write(&path_of(2), "{\"type\":\"brand-new\",\"uuid\":\"2\"}\n");
    home.sync();

    let status = status(&home);
    let claude = format_status(&status, "claude-code");
    assert_eq!((claude.sessions, claude.subagents, claude.sources), (3, 1, 4));
    assert_eq!(claude.records, 11 + 2 + 2 + 1 + 1);
    let states: Vec<_> =
        claude.sessions_by_state.iter().map(|(state, count)| (state.as_str(), *count)).collect();
    assert_eq!(states, [("gone", 1), ("live", 2)]);
    assert_eq!((claude.gone_sources, claude.rewritten_sources), (1, 1));
    assert_eq!(claude.records_by_unknown_type.get("brand-new"), Some(&2));
    let on_disk = [MAIN, &format!("{BESIDE}/subagents/agent-a1.jsonl"), &path_of(2)]
        .iter()
        .map(|path| fs::metadata(home.path(path)).unwrap().len())
        .sum::<u64>();
    assert_eq!(
        claude.bytes,
        on_disk + lines(30..31).len() as u64,
        "the bytes that restore would write"
    );
    let openclaw = format_status(&status, "openclaw");
    assert_eq!((openclaw.sessions, openclaw.records, openclaw.gone_sources), (1, 1, 0));
    assert_eq!(openclaw.bytes, fs::metadata(home.path(OPENCLAW)).unwrap().len());

    assert_eq!(status.problems_by_kind.get("opaque"), Some(&1));
    assert_eq!(status.problems_by_kind.get("source_truncated"), Some(&1));
    let in_tables: u64 = home.problems().values().map(|count| *count as u64).sum();
    assert_eq!(status.problems_by_kind.values().sum::<u64>(), in_tables);
    let kept: i64 = home.one("SELECT count(*) FROM records WHERE generation <> 1");
    assert_eq!(status.ledger.records, kept as u64, "the journal's records are not counted");
    assert_eq!(status.absent_records, 2);
    assert!(status.ledger.has_file && status.ledger.bytes > 8192);
    assert_eq!(status.ledger.schema_version, 5);
}

#[test]
fn status_lists_what_is_left_out() {
    let home = Home::quick();
    home.write(".claude/projects/-p/memory/MEMORY.md", "x");
    home.write(".claude/projects/-q/memory/MEMORY.md", "x");
    home.write(".claude/projects/-p/notes.jsonl", "nothing\nof this\n");
    home.write(".claude/settings.json", "{}");
    home.write(".openclaw/logs/gateway.log", "x");
    home.write(".openclaw/agents/main/sessions/sessions.json.bak.1", "{}");
    home.folder_for(&path_of(1));
    symlink("/nowhere", home.path(&path_of(1))).unwrap();
    symlink("/", home.path(&path_of(2))).unwrap();
    for _ in 0..2 {
        home.sync();
        let status = status(&home);
        let skipped = |format: &str, reason: &str| {
            format_status(&status, format)
                .skipped
                .iter()
                .filter(|skip| skip.reason.contains(reason))
                .map(|skip| skip.all())
                .sum::<u64>()
        };
        assert_eq!(skipped("claude-code", "project memory"), 2);
        assert_eq!(skipped("claude-code", "it has no record"), 1);
        assert_eq!(skipped("claude-code", "secrets"), 1);
        assert_eq!(skipped("claude-code", "out of its root"), 1);
        assert_eq!(skipped("claude-code", "broken symbolic link"), 1);
        assert_eq!(skipped("openclaw", "logs"), 1);
        assert_eq!(skipped("openclaw", "session index"), 1);
        assert_eq!(format_status(&status, "claude-code").sessions, 0);
    }
}

#[test]
fn status_has_the_days_left_of_the_oldest_transcript() {
    let home = Home::quick();
    let days = |days: u64| SystemTime::now() - Duration::from_secs(days * 24 * 3600 + 3600);
    for (number, age) in [(1, 3), (2, 21), (3, 10)] {
        home.write(&path_of(number), lines(0..1));
        let file = File::options().write(true).open(home.path(&path_of(number))).unwrap();
        file.set_modified(days(age)).unwrap();
    }
    home.write(OPENCLAW, "{}\n");
    home.sync();
    let status = status(&home);
    let oldest = format_status(&status, "claude-code").oldest_transcript.clone().unwrap();
    assert!(oldest.path.ends_with(&path_of(2)), "{}", oldest.path);
    assert_eq!(oldest.left_days, Some(9));
    let oldest = format_status(&status, "openclaw").oldest_transcript.clone().unwrap();
    assert_eq!(oldest.left_days, None, "OpenClaw deletes nothing by itself");
    assert_eq!((oldest.cleanup_days, oldest.cleanup_from.as_str()), (None, "default"));
}

/// Agents' own settings are never opened: the configured retention counts, in `status` and for the
/// doctor.
#[test]
fn the_configured_retention_is_used() {
    use quipu_ledger::collect::Retention;
    let home = Home::quick();
    home.sync();
    home.write(&path_of(1), lines(0..1));
    let file = File::options().write(true).open(home.path(&path_of(1))).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(26 * 24 * 3600)).unwrap();
    let asked = |retention: Retention| {
        let mut roots = home.roots();
        roots.iter_mut().for_each(|root| root.retention = retention);
        let status = quipu_ledger::status::status(&home.open(), &roots).unwrap();
        let oldest = format_status(&status, "claude-code").oldest_transcript.clone().unwrap();
        let diagnosis =
            quipu_ledger::doctor::doctor(&home.ledger_path(), &roots, false, &mut |_| {});
        let warnings: Vec<String> = diagnosis
            .findings
            .iter()
            .filter(|finding| finding.severity == quipu_ledger::wire::Severity::Warning)
            .map(|finding| finding.hint.clone())
            .collect();
        (oldest.left_days, oldest.cleanup_from, warnings.join("; "))
    };
    let (days, from, warning) = asked(Retention::Assumed);
    assert_eq!((days, from.as_str()), (Some(4), "default"));
    assert!(warning.contains("its default is to keep them for 30 days"), "{warning}");
    let (days, from, warning) = asked(Retention::Days(90));
    assert_eq!((days, from.as_str(), warning.as_str()), (Some(64), "configuration", ""));
    let (days, _, warning) = asked(Retention::Days(28));
    assert_eq!(days, Some(2));
    assert!(warning.contains("`retention.claude-code` in the configuration is 28"), "{warning}");
    let (days, from, warning) = asked(Retention::Forever);
    assert_eq!((days, from.as_str(), warning.as_str()), (None, "configuration", ""));
}

#[test]
fn status_lists_the_roots() {
    let home = Home::quick();
    home.folder_for(MAIN);
    let states = |status: &Status| -> Vec<String> {
        status
            .formats
            .iter()
            .flat_map(|format| format.roots.iter().map(|root| root.state.clone()))
            .collect()
    };
    let without =
        quipu_ledger::status::status_without_ledger(&home.ledger_path(), &home.roots()).unwrap();
    assert_eq!(states(&without), ["collected", "absent"]);
    assert!(!without.ledger.has_file && !home.ledger_path().exists());
    home.sync();
    assert_eq!(states(&status(&home)), ["collected", "absent"]);
}
