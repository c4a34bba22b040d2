//! The doctor: a sound ledger has no findings, and any change of the file is found, or changes
//! nothing that can be read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use quipu_ledger::store::{Entry, NewSession, Store};
use quipu_ledger::wire::{Diagnosis, Severity};
use quipu_torture::Prng;

use crate::backups::everything;
use crate::child;
use crate::home::*;

const PAGE: usize = 8192;

fn examine(home: &Home, is_deep: bool) -> Diagnosis {
    quipu_ledger::doctor::doctor(&home.ledger_path(), &home.roots(), is_deep, &mut |_| {})
}

fn described(diagnosis: &Diagnosis) -> Vec<String> {
    let findings = diagnosis.findings.iter();
    findings
        .map(|finding| format!("{} {:?}: {}", finding.check, finding.severity, finding.message))
        .collect()
}

/// Returns a ledger with chunks, pending records, copies, rewrites, tails and a journal.
fn varied() -> Home {
    let home = Home::quick();
    home.copy_fixtures();
    let many: String = (1..1000)
        .map(|number| line("user", &uuid(number), None, &format!("word{number} {}", number * 7919)))
        .collect();
    home.write(MAIN, &many);
    let second = ".openclaw/agents/main/sessions/rewritten.jsonl";
    let described = |number: u32| {
        format!(
            "{{\"type\":\"message\",\"id\":\"{number:08x}\",\"parentId\":null,\
             \"message\":{{\"role\":\"user\",\"content\":\"said{number}\"}}}}\n"
        )
    };
    home.write(second, (1..50).map(described).collect::<String>());
    home.sync();
    home.write(second, (1..20).chain(70..80).chain(25..50).map(described).collect::<String>());
    home.write(&MAIN.replace("640a", "640b"), many.get(..40_000).unwrap());
    home.sync();
    home.write(".openclaw/agents/main/sessions/gone.jsonl", described(900));
    home.append(MAIN, line("user", &uuid(5000), None, "without an end").trim_end());
    home.sync();
    home.remove(".openclaw/agents/main/sessions/gone.jsonl");
    home.sync();
    home.sync();
    for (what, query) in [
        ("chunks", "SELECT count(*) FROM chunks"),
        ("pending", "SELECT count(*) FROM pending"),
        ("copies", "SELECT count(*) FROM records WHERE same_as IS NOT NULL"),
        ("shared spans", "SELECT count(*) FROM spans WHERE from_generation IS NOT NULL"),
        ("tails", "SELECT count(*) FROM tails"),
        ("journal", "SELECT count(*) FROM records WHERE generation = 1"),
    ] {
        assert!(home.one::<i64>(query) > 0, "{what}");
    }
    // Nothing is left in the log.
    home.sql().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    home
}

#[test]
fn a_sound_ledger_has_no_errors() {
    let home = varied();
    for is_deep in [false, true] {
        let diagnosis = examine(&home, is_deep);
        let bad: Vec<String> = described(&diagnosis)
            .into_iter()
            .filter(|finding| !finding.contains(" Note: "))
            .collect();
        assert_eq!(bad, [""; 0]);
        assert!(diagnosis.is_ok);
        assert!(diagnosis.checks.iter().all(|check| check.is_done));
    }
}

#[test]
fn the_doctor_changes_nothing() {
    let home = varied();
    let held = home.open();
    let before = home.ledger_bytes();
    examine(&home, true);
    let mut after = home.ledger_bytes();
    after.insert("ledger.db-shm".to_owned(), before["ledger.db-shm"].clone());
    assert_eq!(before, after);
    drop(held);
}

#[test]
fn a_missing_ledger_is_a_finding() {
    let home = Home::quick();
    home.write(MAIN, line("user", &uuid(1), None, "never collected"));
    let diagnosis = examine(&home, true);
    assert!(!diagnosis.is_ok);
    assert!(described(&diagnosis)[0].contains("there is no ledger"), "{:?}", described(&diagnosis));
    assert!(!home.folder().join("data").exists(), "nothing was created");
}

/// Judges a change of the file: it is found, or nothing that can be read differs.
struct Judge {
    home: Home,
    sound: Vec<u8>,
    files: Vec<(String, Vec<u8>)>,
    rows: std::collections::BTreeMap<String, Vec<String>>,
    found: usize,
    harmless: usize,
}

impl Judge {
    fn new(home: Home) -> Judge {
        let diagnosis = examine(&home, true);
        assert!(diagnosis.is_ok, "{:?}", described(&diagnosis));
        let sound = fs::read(home.ledger_path()).unwrap();
        let files = everything(&home, &home.ledger_path());
        let rows = home.projection();
        Judge { home, sound, files, rows, found: 0, harmless: 0 }
    }

    #[track_caller]
    fn judge(&mut self, bytes: &[u8], what: &str) {
        let path = self.home.ledger_path();
        for sidecar in ["ledger.db-wal", "ledger.db-shm"] {
            let _ = fs::remove_file(path.with_file_name(sidecar));
        }
        fs::write(&path, bytes).unwrap();
        let diagnosis = examine(&self.home, true);
        for finding in &diagnosis.findings {
            assert!(!finding.hint.is_empty(), "{what}: no advice for {}", finding.message);
            // The command prints the number after a colon, which only a noun phrase allows.
            let has_clauses = finding.message.contains([':', ';']);
            assert!(finding.count.is_none() || !has_clauses, "{what}: {}", finding.message);
        }
        if !diagnosis.is_ok {
            self.found += 1;
            return;
        }
        assert!(
            everything(&self.home, &path) == self.files,
            "{what}: files differ, but no finding reports it"
        );
        assert!(
            self.home.projection() == self.rows,
            "{what}: rows differ, but no finding reports it"
        );
        self.harmless += 1;
    }
}

#[test]
fn f9_a_flipped_bit_in_any_page_is_found_or_changes_nothing() {
    let mut judge = Judge::new(varied());
    let sound = judge.sound.clone();
    let mut prng = Prng::new(9);
    for page in 0..sound.len() / PAGE {
        // In the page's own header, at its end, in its cells, or anywhere.
        let place = match page % 3 {
            0 => prng.below(8) as usize,
            1 => PAGE - 1 - prng.below(200) as usize,
            _ => prng.below(PAGE as u64) as usize,
        };
        let mut bytes = sound.clone();
        bytes[page * PAGE + place] ^= 1 << prng.below(8);
        judge.judge(&bytes, &format!("page {} byte {place}", page + 1));
    }
    println!("{} found, {} without effect", judge.found, judge.harmless);
    assert!(judge.found > judge.harmless, "{} found, {} not", judge.found, judge.harmless);
}

#[test]
fn f9_a_truncated_file_is_found() {
    let mut judge = Judge::new(varied());
    let sound = judge.sound.clone();
    let pages = sound.len() / PAGE;
    for length in [0, 1, 50, 99, 100, 512, PAGE - 1, PAGE, PAGE + 1, PAGE * 2]
        .into_iter()
        .chain((1..8).map(|part| pages * part / 8 * PAGE))
        .chain([sound.len() - PAGE, sound.len() - 1])
    {
        judge.judge(&sound[..length], &format!("{length} bytes"));
    }
    assert_eq!(judge.harmless, 0);
}

#[test]
fn f9_swapped_and_zeroed_pages_are_found() {
    let mut judge = Judge::new(varied());
    let sound = judge.sound.clone();
    let pages = sound.len() / PAGE;
    let mut prng = Prng::new(11);
    for _ in 0..40 {
        let (one, other) = (prng.below(pages as u64) as usize, prng.below(pages as u64) as usize);
        let mut bytes = sound.clone();
        bytes[one * PAGE..][..PAGE].copy_from_slice(&sound[other * PAGE..][..PAGE]);
        bytes[other * PAGE..][..PAGE].copy_from_slice(&sound[one * PAGE..][..PAGE]);
        judge.judge(&bytes, &format!("pages {} and {}", one + 1, other + 1));
        let mut bytes = sound.clone();
        bytes[one * PAGE..][..PAGE].fill(0);
        judge.judge(&bytes, &format!("page {} zeroed", one + 1));
    }
    println!("{} found, {} without effect", judge.found, judge.harmless);
    assert!(judge.found > 60, "{} found, {} without effect", judge.found, judge.harmless);
}

#[test]
fn f8_a_damaged_log_loses_its_end_and_nothing_else() {
    let home = Home::quick();
    let held = home.open();
    let mut file = String::new();
    for number in 1..30 {
        file.push_str(&line("user", &uuid(number), None, &format!("logged{number}")));
        home.write(MAIN, &file);
        home.sync();
    }
    let saved = home.ledger_bytes();
    let log = saved["ledger.db-wal"].clone();
    assert!(log.len() > 20 * PAGE, "{}", log.len());
    // As after a kill: the log stays.
    let data = home.folder().join("data");
    let mut prng = Prng::new(8);
    drop(held);
    let mut shorter = 0;
    for round in 0..40 {
        let at = 32 + prng.below(log.len() as u64 - 32) as usize;
        let mut bytes = log.clone();
        match round % 4 {
            0 => bytes.truncate(at),
            1 => bytes[at..].fill(0),
            2 => bytes[at..].iter_mut().for_each(|byte| *byte = prng.below(256) as u8),
            _ => bytes[at] ^= 1 << prng.below(8),
        }
        for (name, content) in &saved {
            fs::write(data.join(name), content).unwrap();
        }
        fs::remove_file(data.join("ledger.db-shm")).unwrap();
        fs::write(data.join("ledger.db-wal"), &bytes).unwrap();
        let diagnosis = examine(&home, true);
        assert!(diagnosis.is_ok, "round {round}: {:?}", described(&diagnosis));
        home.assert_sound();
        let held = everything(&home, &home.ledger_path());
        let held = held.first().map_or(&[][..], |(_, bytes)| bytes);
        assert!(
            file.as_bytes().starts_with(held),
            "round {round}: the ledger does not hold a prefix of the file"
        );
        shorter += usize::from(held.len() < file.len());
        // The next sync collects everything again, once.
        home.sync();
        assert_eq!(everything(&home, &home.ledger_path())[0].1, file.as_bytes());
        assert_eq!(home.hits("logged17"), 1);
    }
    assert!(shorter > 10, "the log was really damaged");
    home.sync_and_check();
}

#[test]
fn f24_a_log_that_is_gone_takes_the_last_transactions_with_it() {
    let home = Home::quick();
    let held = home.open();
    home.write(MAIN, line("user", &uuid(1), None, "first"));
    home.sync();
    home.sql().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    home.append(MAIN, line("user", &uuid(2), None, "onlyinthelog"));
    home.sync();
    let saved = home.ledger_bytes();
    drop(held);
    // Deleted while closed, or copied without it: the ledger of the last checkpoint, which is
    // sound.
    let data = home.folder().join("data");
    fs::write(data.join("ledger.db"), &saved["ledger.db"]).unwrap();
    for sidecar in ["ledger.db-wal", "ledger.db-shm"] {
        let _ = fs::remove_file(data.join(sidecar));
    }
    let diagnosis = examine(&home, true);
    assert!(diagnosis.is_ok, "{:?}", described(&diagnosis));
    assert_eq!(home.hits("onlyinthelog"), 0);
    let changed = "files that changed since they were read";
    assert!(
        described(&diagnosis).iter().any(|what| what.contains(changed)),
        "{:?}",
        described(&diagnosis)
    );
    // The lost records are collected again.
    home.sync_and_check();
    assert_eq!(home.hits("onlyinthelog"), 1);
    assert!(examine(&home, true).findings.is_empty());
}

#[test]
fn f10_writes_that_never_happened_are_found() {
    if std::process::Command::new("strace").arg("-V").output().is_err() {
        quipu_torture::skip("there is no strace");
        return;
    }
    let mut damaged = 0;
    for from in [3, 9, 15, 21, 27] {
        let home = Home::new();
        copy(&fixtures("claude-code"), &home.path(".claude"));
        home.write(MAIN, line("user", &uuid(1), None, "first"));
        home.sync();
        for number in 2..400 {
            home.append(MAIN, line("user", &uuid(number), None, &format!("more{number}")));
        }
        // The disk reports success for a write that never happens.
        let inject = format!("inject=pwrite64:retval=8192:when={from}+5");
        let arguments =
            ["-f", "-q", "-e", "trace=pwrite64", "-e", inject.as_str(), "-o", "/dev/null"];
        let mut child =
            child::command_under("strace", &arguments, &home, "collect").spawn().unwrap();
        drop(child.stdin.take());
        let output = child.wait_with_output().unwrap();
        let diagnosis = examine(&home, true);
        if !diagnosis.is_ok {
            damaged += 1;
            continue;
        }
        // Nothing was damaged, or the child noticed: the ledger is sound, and the next sync
        // completes it.
        home.sync_and_check();
        home.assert_restores_all(&[MAIN]);
        drop(output);
    }
    println!("{damaged} of 5 ledgers were damaged, and the damage was reported");
}

#[test]
fn every_finding_about_sources_has_advice() {
    let home = Home::quick();
    home.write(MAIN, line("user", &uuid(1), None, "collected"));
    let old = ".claude/projects/-p/00000002-d010-4b20-a591-b7172ef08e66.jsonl";
    home.sync();
    home.append(MAIN, line("user", &uuid(2), None, "appended"));
    home.write(old, line("user", &uuid(3), None, "never collected"));
    let long_ago = SystemTime::now() - Duration::from_secs(25 * 86_400);
    fs::File::options().write(true).open(home.path(old)).unwrap().set_modified(long_ago).unwrap();
    let link = home.path(".claude/projects/-p/00000004-d010-4b20-a591-b7172ef08e66.jsonl");
    std::os::unix::fs::symlink("/etc/hostname", link).unwrap();
    fs::set_permissions(home.ledger_path(), fs::Permissions::from_mode(0o644)).unwrap();
    let diagnosis = examine(&home, false);
    assert!(diagnosis.is_ok, "{:?}", described(&diagnosis));
    let expected = [
        ("file", Severity::Warning, "other users"),
        ("cursors", Severity::Note, "files that changed since they were read"),
        ("sources", Severity::Warning, "symbolic links that lead out of their root"),
        ("risk", Severity::Warning, "Claude Code will delete within 7 days"),
        ("risk", Severity::Note, "not completely collected yet"),
    ];
    for (check, severity, words) in expected {
        let found = diagnosis.findings.iter().find(|finding| {
            finding.check == check
                && finding.severity == severity
                && finding.message.contains(words)
        });
        let found = found.unwrap_or_else(|| panic!("{words}: {:?}", described(&diagnosis)));
        assert!(found.count > Some(0), "{words}");
        assert!(!found.hint.is_empty() && !found.examples.is_empty());
    }
    // Once collected, and apart from the link and the permissions, there are no findings.
    home.sync();
    fs::set_permissions(home.ledger_path(), fs::Permissions::from_mode(0o600)).unwrap();
    let left: Vec<String> = described(&examine(&home, true));
    assert!(left.iter().all(|finding| finding.contains("symbolic links")), "{left:?}");
}

#[test]
fn every_damaged_row_is_found() {
    let home = varied();
    // Rows of the projection and of truth, each damaged in one way.
    for damage in [
        "UPDATE entry_rows SET time = coalesce(time, 0) + 1 WHERE id = (SELECT min(id) FROM entry_rows WHERE id > 0)",
        "UPDATE message_texts SET text = text || '!' WHERE id = (SELECT max(id) FROM message_texts)",
        "UPDATE sessions SET turns = turns + 1 WHERE id = (SELECT min(id) FROM sessions)",
        "DELETE FROM usage_rows WHERE entry = (SELECT max(entry) FROM usage_rows)",
        "UPDATE spans SET from_start = from_start + 1 WHERE from_generation IS NOT NULL",
        "UPDATE records SET same_as = same_as - 1 WHERE same_as = (SELECT max(same_as) FROM records)",
        "DELETE FROM chunks WHERE id = (SELECT min(id) FROM chunks)",
        "DELETE FROM pending WHERE seq = (SELECT min(seq) FROM pending)",
        "UPDATE pending SET bytes = CAST(replace(CAST(bytes AS TEXT), '\"', '!') AS BLOB)",
        "UPDATE tails SET bytes = CAST('x' || substr(CAST(bytes AS TEXT), 2) AS BLOB)",
        "UPDATE generations SET cursor = cursor - 1 WHERE id = 2",
        "UPDATE spans SET first_seq = -9223372036854775807 - 1 WHERE first_seq IS NOT NULL",
        "UPDATE spans SET last_seq = 9223372036854775807 WHERE first_seq IS NOT NULL",
        "UPDATE records SET length = -9223372036854775807 - 1 WHERE seq = 2",
        "UPDATE records SET length = 9223372036854775807, start = 9223372036854775807",
        "UPDATE ledger SET projected_to = projected_to + 1",
        "UPDATE ledger SET projected_to = -9223372036854775807 - 1",
    ] {
        let saved = fs::read(home.ledger_path()).unwrap();
        let sql = home.sql();
        assert!(sql.execute(damage, []).unwrap() > 0, "{damage}");
        drop(sql);
        let diagnosis = examine(&home, true);
        assert!(!diagnosis.is_ok, "{damage}: {:?}", described(&diagnosis));
        fs::write(home.ledger_path(), saved).unwrap();
    }
    assert!(examine(&home, true).is_ok);
}

/// A store appends all the time, so the projection is behind by a few lines.
#[test]
fn a_projection_that_is_behind_is_compared() {
    let home = varied();
    let store = Store::open(home.ledger_path()).unwrap();
    let session = store.create(&NewSession::default()).unwrap();
    session.append(Entry::user("first")).unwrap();
    store.catch_up().unwrap();
    let behind = "SELECT (SELECT max(seq) FROM records) - projected_to FROM ledger";
    let damage = "UPDATE message_texts SET text = text || '!'
                   WHERE id = (SELECT max(id) FROM message_texts)";
    for is_damaged in [false, true] {
        if is_damaged {
            assert_eq!(home.sql().execute(damage, []).unwrap(), 1);
        }
        // Keeps the store's thread from projecting the line.
        let writer = home.sql();
        loop {
            session.append(Entry::user("not projected")).unwrap();
            writer.execute_batch("BEGIN IMMEDIATE").unwrap();
            if home.one::<i64>(behind) > 0 {
                break;
            }
            writer.execute_batch("ROLLBACK").unwrap();
        }
        let diagnosis = examine(&home, true);
        assert_eq!(diagnosis.is_ok, !is_damaged, "{:?}", described(&diagnosis));
        let is_found = |what: &String| what.contains("differ from the stored raw data");
        assert_eq!(described(&diagnosis).iter().any(is_found), is_damaged);
        writer.execute_batch("ROLLBACK").unwrap();
    }
}

/// A rebuild is not finished.
#[test]
fn a_projection_that_cannot_be_compared_is_reported() {
    let home = varied();
    home.sql().execute("UPDATE ledger SET projected_to = 0", []).unwrap();
    let diagnosis = examine(&home, true);
    let found = described(&diagnosis);
    let is_it = |what: &String| what.contains("Warning") && what.contains("were not compared");
    assert!(found.iter().any(is_it), "{found:?}");
}

#[test]
fn f12_a_full_disk_keeps_the_ledger_and_leaves_nothing_behind() {
    let home = varied();
    let disk = home.scratch("small");
    fs::create_dir_all(&disk).unwrap();
    let mount = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
        .arg(&disk)
        .output();
    if !mount.is_ok_and(|mount| mount.status.success()) {
        quipu_torture::skip("nothing can be mounted here");
        return;
    }
    let before = everything(&home, &home.ledger_path());
    let refused = crate::backups::back_up(&home, &disk.join("copy.db"));
    let left: Vec<_> = fs::read_dir(&disk).unwrap().collect();
    std::process::Command::new("umount").arg(&disk).status().unwrap();
    let error = refused.unwrap_err();
    assert_eq!(error.trouble(), quipu_ledger::Trouble::DiskFull, "{error}");
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(everything(&home, &home.ledger_path()), before);
    assert!(quipu_ledger::backup::backups(&home.open()).unwrap().is_empty());
    home.assert_sound();
}

#[test]
fn a_ledger_that_cannot_be_opened_gets_a_diagnosis() {
    let home = varied();
    let sound = fs::read(home.ledger_path()).unwrap();
    let check = |bytes: &[u8], words: &str| {
        fs::write(home.ledger_path(), bytes).unwrap();
        let diagnosis = examine(&home, false);
        assert!(!diagnosis.is_ok);
        assert!(described(&diagnosis)[0].contains(words), "{words}: {:?}", described(&diagnosis));
        let sources = diagnosis.checks.iter().find(|check| check.check == "sources");
        assert!(sources.is_some_and(|check| check.is_done), "sources are still checked");
    };
    check(b"", "too short");
    check(&sound[..60], "too short");
    check(&[&b"not SQLite at all"[..], &sound[17..]].concat(), "not an SQLite file");
    let mut other = sound.clone();
    other[68] ^= 0xff;
    check(&other, "another program");
    let mut newer = sound.clone();
    newer[63] = 99;
    check(&newer, "newer");
    assert!(Path::new(&home.ledger_path()).exists());
}

/// Pending bytes have checksums, too: a changed byte of them is never restored, never backed up as
/// sound, and never sealed into a chunk.
#[test]
fn damage_to_pending_bytes_is_found() {
    let home = Home::quick();
    let other = MAIN.replace("640a", "640b");
    home.write(MAIN, line("user", &uuid(1), None, "alpha"));
    home.write(&other, [line("user", &uuid(2), None, "beta"), "torn".to_owned()].concat());
    // Zeros, so that they are compressed.
    home.write(&MAIN.replace("640a", "640c"), vec![0; 50_000]);
    home.write(".openclaw/agents/main/sessions/sessions.json", r#"{"k": {"sessionId": "gamma"}}"#);
    home.sync();
    assert_eq!(home.all("SELECT length FROM tails"), ["50000", "NULL"]);
    let sound = fs::read(home.ledger_path()).unwrap();
    for change in [
        "UPDATE pending SET bytes = CAST(replace(CAST(bytes AS TEXT), 'alpha', 'alphb') AS BLOB)",
        "UPDATE tails SET bytes = CAST('torm' AS BLOB) WHERE length IS NULL",
        "UPDATE tails SET bytes = CAST(substr(bytes, 1, length(bytes) - 1) || x'55' AS BLOB)
          WHERE length IS NOT NULL",
        "UPDATE tails SET bytes = substr(bytes, 1, length(bytes) - 1) WHERE length IS NOT NULL",
        "UPDATE tails SET length = NULL WHERE length IS NOT NULL",
        "UPDATE tails SET length = length + 1",
        "UPDATE tails SET length = length - 1",
        "UPDATE tails SET length = -1 WHERE length IS NOT NULL",
        "UPDATE tails SET length = 1 << 60 WHERE length IS NOT NULL",
        "UPDATE indexes SET data = CAST(data || x'00' AS BLOB)",
    ] {
        fs::write(home.ledger_path(), &sound).unwrap();
        let changed = home.sql().execute(change, []).unwrap();
        assert!(changed > 0, "{change}");
        let found = examine(&home, false);
        assert!(!found.is_ok, "{change}");
        let errors = found.findings.iter().filter(|found| found.severity == Severity::Error);
        assert!(
            errors.clone().any(|found| found.check == "truth"),
            "{change}: {:?}",
            described(&found)
        );
        let backup = crate::backups::back_up(&home, &home.scratch("copy.db"));
        assert!(backup.is_err(), "{change}");
        // The other files are restored, the damaged one is reported.
        let to = tempfile::tempdir_in(home.folder()).unwrap();
        let (what, newest) =
            (quipu_ledger::restore::RestoreScope::All, quipu_ledger::restore::Generations::Newest);
        let report = quipu_ledger::restore::restore(&home.open(), what, to.path(), newest).unwrap();
        assert_eq!((report.files, report.damaged_files.len()), (3, 1), "{change}");
        let damaged = Path::new(&report.damaged_files[0].path);
        assert!(!damaged.exists(), "a damaged file was written");
    }
}

/// The journal and the sample of the projection are read from the same chunk.
#[test]
fn damaged_bytes_are_one_error() {
    let home = Home::quick();
    home.write(MAIN, line("user", &uuid(1), None, "gone"));
    home.sync();
    home.remove(MAIN);
    home.sync();
    let many: String =
        (2..1000).map(|n| line("user", &uuid(n), None, &format!("word{}", n * 7919))).collect();
    home.write(&MAIN.replace("640a", "640b"), many);
    home.sync();
    let damage = "UPDATE chunks SET data = zeroblob(length(data))
                   WHERE (SELECT min(seq) FROM records WHERE generation = 1)
                         BETWEEN first_seq AND last_seq";
    assert_eq!(home.sql().execute(damage, []).unwrap(), 1);
    for is_deep in [false, true] {
        let found = described(&examine(&home, is_deep));
        let errors: Vec<&String> = found.iter().filter(|it| it.contains(" Error: ")).collect();
        assert_eq!(errors.len(), 1, "{found:?}");
        assert!(errors[0].starts_with("truth "), "{errors:?}");
    }
}

/// A reader of `checks` alone sees which checks found something.
#[test]
fn a_check_that_found_something_is_not_fine() {
    let home = Home::quick();
    home.write(MAIN, line("user", &uuid(1), None, "collected"));
    home.sync();
    let fine = |diagnosis: &Diagnosis, name: &str| {
        let check = diagnosis.checks.iter().find(|check| check.check == name).unwrap();
        check.fact.clone()
    };
    let before = examine(&home, false);
    assert!(before.checks.iter().all(|check| check.fact.is_some()), "{:?}", described(&before));
    home.append(MAIN, line("user", &uuid(2), None, "not collected"));
    let after = examine(&home, false);
    for check in &after.checks {
        let found = after.findings.iter().any(|finding| finding.check == check.check);
        assert_eq!(check.fact.is_none(), found, "{}", check.check);
    }
    assert_eq!(fine(&after, "risk"), None);
}

/// SQLite describes a damaged file in hundreds of lines.
#[test]
fn messages_of_sqlite_are_shortened() {
    let home = varied();
    let mut bytes = fs::read(home.ledger_path()).unwrap();
    let pages = bytes.len() / PAGE;
    for page in (2..pages).step_by(3) {
        bytes[page * PAGE..][..64].fill(0xa5);
    }
    fs::write(home.ledger_path(), bytes).unwrap();
    for is_deep in [false, true] {
        let diagnosis = examine(&home, is_deep);
        assert!(!diagnosis.is_ok);
        for finding in &diagnosis.findings {
            for text in finding.examples.iter().chain([&finding.message]) {
                assert!(!text.contains('\n') && text.chars().count() < 400, "{text}");
            }
        }
    }
}

/// A schema that may not be understood yet gets a warning from the doctor, too.
#[test]
fn a_database_of_a_newer_release_gets_a_warning() {
    let home = Home::new();
    crate::rows::real(&home, "imported", crate::rows::DATABASE);
    home.sync();
    assert!(
        described(&examine(&home, false))
            .iter()
            .all(|described| !described.contains("newer release"))
    );
    crate::rows::change(&home, "PRAGMA user_version = 4711");
    home.sync();
    let diagnosis = examine(&home, false);
    let newer = diagnosis.findings.iter().find(|f| f.message.contains("newer release")).unwrap();
    assert_eq!((newer.check.as_str(), newer.severity), ("sources", Severity::Warning));
    assert!(newer.examples[0].contains("schema 4711"), "{:?}", newer.examples);
}

/// The one edit that a sync cannot see is a change of the file, not damage of the ledger; and the
/// doctor's advice resolves it.
#[test]
fn an_undetected_edit_of_a_file_is_not_damage() {
    let home = Home::quick();
    let lines = |to: u32| -> String {
        (1..to).map(|n| line("user", &uuid(n), None, &format!("word{n}"))).collect()
    };
    home.write(MAIN, lines(100));
    home.sync();
    home.write(MAIN, lines(101).replace("word50", "wordXX"));
    assert_eq!(home.sync().rewritten_sources, 0);
    assert!(described(&examine(&home, false)).is_empty());
    let diagnosis = examine(&home, true);
    let [finding] = diagnosis.findings.as_slice() else { panic!("{:?}", described(&diagnosis)) };
    assert_eq!((finding.check.as_str(), finding.severity), ("cursors", Severity::Warning));
    assert!(finding.hint.contains("`touch` the files"), "{}", finding.hint);
    fs::File::options()
        .append(true)
        .open(home.path(MAIN))
        .unwrap()
        .set_modified(SystemTime::now())
        .unwrap();
    assert_eq!(home.sync_and_check().rewritten_sources, 1);
    assert!(described(&examine(&home, true)).is_empty());
}

/// Returns a sound ledger with a native session, and processes that append to it and collect into
/// it.
fn busy() -> (Home, Vec<std::process::Child>) {
    let home = varied();
    crate::store_crowd::make(&home);
    let children = ["append until killed", "collect and rebuild until killed"]
        .map(|task| child::start_alone(&home, task));
    (home, children.into())
}

fn stop(children: Vec<std::process::Child>) {
    for mut child in children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn writers_are_not_taken_for_damage() {
    let (home, children) = busy();
    let records = "SELECT count(*) FROM records";
    let before = home.one::<i64>(records);
    for round in 0..16 {
        let diagnosis = examine(&home, round % 4 == 3);
        let errors: Vec<String> = described(&diagnosis)
            .into_iter()
            .filter(|finding| finding.contains(" Error: "))
            .collect();
        assert_eq!(errors, [""; 0], "in round {round}");
        assert!(diagnosis.is_ok);
    }
    assert!(home.one::<i64>(records) > before, "no process wrote during the check");
    stop(children);
    assert!(examine(&home, true).is_ok);
}

#[test]
fn damage_is_found_while_other_processes_write() {
    let home = varied();
    crate::store_crowd::make(&home);
    home.sql().execute_batch("UPDATE records SET start = start + 1 WHERE seq = 100").unwrap();
    let grave = |diagnosis: &Diagnosis| {
        assert!(!diagnosis.is_ok);
        let of_truth = |it: &&quipu_ledger::wire::Finding| {
            it.check == "truth" && it.severity == Severity::Error
        };
        diagnosis.findings.iter().find(of_truth).unwrap().hint.clone()
    };
    let replace = "then restore a backup";
    let lost = "1 session of `quipu session` exists only in this file";
    // No other process writes.
    let advice = grave(&examine(&home, false));
    assert!(advice.contains(replace) && advice.contains(lost), "{advice}");
    // Another process writes, and lets the doctor have its turn.
    let appender = child::start_alone(&home, "append until killed");
    let advice = grave(&examine(&home, false));
    assert!(advice.contains(replace) && advice.contains(lost), "{advice}");
    stop(vec![appender]);
    // Another process holds the ledger all the time.
    let held = home.sql();
    held.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (path, wait) = (home.ledger_path(), Duration::from_millis(50));
    let advice = grave(&quipu_ledger::doctor::doctor_waiting(
        &path,
        &home.roots(),
        false,
        wait,
        &mut |_| {},
    ));
    assert!(advice.contains("stop everything that writes"), "{advice}");
    assert!(!advice.contains(replace), "{advice}");
}

/// Other programs can add tables to any SQLite file. That is a risk for their tables, not for ours.
#[test]
fn a_table_of_another_program_is_not_damage() {
    let home = varied();
    home.sql()
        .execute_batch("CREATE TABLE my_notes (text); CREATE INDEX mine ON my_notes (text)")
        .unwrap();
    let diagnosis = examine(&home, false);
    assert!(diagnosis.is_ok);
    let warning = "file Warning: tables that quipu did not create".to_owned();
    assert!(described(&diagnosis).contains(&warning));
    // An index on a table of quipu's is a difference.
    home.sql().execute_batch("CREATE INDEX extra ON entry_rows (parent)").unwrap();
    assert!(!examine(&home, false).is_ok);
}
