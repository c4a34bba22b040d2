//! The write-ahead log after a crash: truncated at any point, or with a damaged end. Earlier
//! commits are intact, and collecting again completes the ledger without storing anything twice.

use quipu_torture::Prng;
use std::fs;

use crate::home::*;

fn lines(range: std::ops::Range<u32>) -> String {
    range.map(|number| line("user", &uuid(number), None, &format!("word{number}"))).collect()
}

const COMMITS: u32 = 4;
const LINES: u32 = 3;

/// The size of a page in the log, with its header.
const FRAME_BYTES: usize = 8192 + 24;

/// Returns a home whose ledger's last commits are only in its log, as after a crash.
fn crashed() -> Home {
    let home = Home::quick();
    home.write(MAIN, lines(0..LINES));
    home.sync();
    home.open().checkpoint().unwrap();
    // Held open, so that the log is not written back.
    let held = home.open();
    for commit in 1..=COMMITS {
        home.append(MAIN, lines(commit * LINES..(commit + 1) * LINES));
        home.sync();
    }
    let ledger = home.scratch("crashed");
    fs::create_dir(&ledger).unwrap();
    for name in ["ledger.db", "ledger.db-wal"] {
        fs::copy(home.ledger_path().with_file_name(name), ledger.join(name)).unwrap();
    }
    drop(held);
    home
}

/// Restores the crashed ledger with another log.
fn put(home: &Home, log: &[u8]) {
    let folder = home.ledger_path().parent().unwrap().to_owned();
    for name in ["ledger.db-wal", "ledger.db-shm"] {
        let _ = fs::remove_file(folder.join(name));
    }
    fs::copy(home.scratch("crashed/ledger.db"), home.ledger_path()).unwrap();
    fs::write(folder.join("ledger.db-wal"), log).unwrap();
}

/// Asserts that the ledger is at a commit, and complete after the next sync. Returns the number of
/// surviving records.
#[track_caller]
fn check(home: &Home, about: &str) -> i64 {
    let of_lines = "SELECT count(*) FROM records WHERE generation <> 1";
    let survived: i64 = home.one(of_lines);
    assert_eq!(survived % i64::from(LINES), 0, "{about}: a part of a commit");
    assert!(survived >= i64::from(LINES), "{about}: records in the file are lost");
    let cursor: i64 = home.one("SELECT cursor FROM generations WHERE source > 1");
    assert_eq!(
        cursor,
        lines(0..survived as u32).len() as i64,
        "{about}: the cursor is not after the last record"
    );
    assert_eq!(home.all("PRAGMA quick_check"), ["'ok'"], "{about}");
    home.sync();
    assert_eq!(home.one::<i64>(of_lines), i64::from((COMMITS + 1) * LINES), "{about}");
    assert_eq!(home.generations().len(), 1, "{about}: mistaken for a rewrite");
    survived
}

#[test]
fn f7_the_log_is_cut_anywhere() {
    let home = crashed();
    let log = fs::read(home.scratch("crashed/ledger.db-wal")).unwrap();
    let mut most = 0;
    for end in (0..=log.len()).step_by(512) {
        // Pages are 8 KiB, and all cuts within one have the same effect. Every seventh is cut
        // everywhere.
        let (page, within) = (end / FRAME_BYTES, end % FRAME_BYTES);
        if within >= 512 && page % 7 > 0 {
            continue;
        }
        put(&home, &log[..end]);
        let survived = check(&home, &format!("cut at {end} of {}", log.len()));
        assert!(survived >= most, "a longer log has fewer records");
        most = survived;
    }
    put(&home, &log);
    assert_eq!(check(&home, "whole"), i64::from((COMMITS + 1) * LINES));
    home.assert_sound();
    home.assert_restores_all(&[MAIN]);
    home.assert_rebuilds();
}

#[test]
fn f8_the_end_of_the_log_is_damaged() {
    let home = crashed();
    let log = fs::read(home.scratch("crashed/ledger.db-wal")).unwrap();
    let mut prng = Prng::new(8);
    for _ in 0..60 {
        let at = prng.below(log.len() as u64) as usize;
        let mut damaged = log.clone();
        match prng.below(3) {
            0 => damaged[at] ^= 1 << prng.below(8),
            1 => damaged[at..].fill(0),
            _ => damaged[at..].iter_mut().for_each(|byte| *byte = prng.next() as u8),
        }
        put(&home, &damaged);
        check(&home, &format!("damaged at {at} of {}", log.len()));
    }
    home.assert_sound();
    home.assert_restores_all(&[MAIN]);
    home.assert_rebuilds();
}

/// A copy of the file without its log is an older ledger, not a broken one.
#[test]
fn f24_the_log_is_deleted() {
    let home = crashed();
    put(&home, b"");
    fs::remove_file(home.ledger_path().with_file_name("ledger.db-wal")).unwrap();
    assert_eq!(check(&home, "no log"), i64::from(LINES));
}

/// A reader that keeps an old snapshot while much is written: writers continue, and the log
/// shrinks after it ends.
#[test]
fn f20_a_reader_holds_on_to_an_old_state() {
    let home = Home::quick();
    home.write(MAIN, lines(0..3));
    home.sync();
    let reader = home.sql();
    reader.execute_batch("BEGIN; SELECT count(*) FROM records").unwrap();
    let seen: i64 = reader.query_row("SELECT count(*) FROM records", [], |row| row.get(0)).unwrap();
    for round in 1..40 {
        home.append(MAIN, lines(round * 100..(round + 1) * 100));
        assert_eq!(home.sync().records_added, 100);
    }
    let log =
        || home.ledger_path().with_file_name("ledger.db-wal").metadata().map_or(0, |m| m.len());
    let grown = log();
    assert!(grown > 1 << 20, "the log did not grow: {grown}");
    let status = quipu_ledger::status::status(&home.open(), &home.roots()).unwrap();
    assert!(status.ledger.log_bytes >= grown, "the log is counted apart");
    let still: i64 =
        reader.query_row("SELECT count(*) FROM records", [], |row| row.get(0)).unwrap();
    assert_eq!(still, seen, "a reader keeps its snapshot");
    drop(reader);
    home.append(MAIN, lines(9000..9001));
    home.sync();
    assert!(log() < grown / 2, "{} bytes of log are left of {grown}", log());
    home.sync_and_check();
}
