//! The storage of bytes after the last newline: runs of one byte take little space, random bytes
//! are stored as they are, and later bytes are read without them.

use std::fs::{self, File};
use std::time::Duration;

use quipu_ledger::restore::Generations;
use quipu_torture::Prng;

use crate::child;
use crate::home::*;

const MB: u64 = 1_000_000;

fn doctor(home: &Home) {
    let found = quipu_ledger::doctor::doctor(&home.ledger_path(), &home.roots(), true, &mut |_| {});
    assert!(found.is_ok, "{:?}", found.findings);
}

/// Extends the file to that length with a hole.
fn stretch(home: &Home, length: u64) {
    File::options().write(true).open(home.path(MAIN)).unwrap().set_len(length).unwrap();
}

/// Returns the size of the ledger and its log in bytes.
fn size(home: &Home) -> u64 {
    home.open().checkpoint().unwrap();
    home.ledger_bytes().values().map(|bytes| bytes.len() as u64).sum()
}

/// A hole without a newline, as in a truncated log or a preallocated file: collected by processes
/// that are killed, extended twice, and terminated.
#[test]
fn a_sparse_file_takes_next_to_nothing() {
    let home = Home::new();
    let whole = line("user", &uuid(1), None, "first");
    let appended = line("user", &uuid(2), Some(&uuid(1)), "sparseword");
    home.write(MAIN, &whole);
    home.sync();
    let before = size(&home);

    home.append(MAIN, appended.trim_end());
    stretch(&home, 64 * MB);
    let mut prng = Prng::new(64);
    for _ in 0..5 {
        child::kill_after(&home, "collect", Duration::from_micros(prng.below(150_000)));
    }
    home.sync();
    let growth = size(&home) - before;
    assert!(growth < 2 * MB, "it grew by {growth} bytes");
    let length = "SELECT sum(coalesce(length, length(bytes))) FROM tails";
    assert_eq!(home.one::<i64>(length) as u64, 64 * MB - whole.len() as u64);
    let longest = "SELECT max(coalesce(length, length(bytes))) FROM tails";
    assert!(home.one::<i64>(longest) <= 1 << 20, "a piece is longer than 1 MiB");
    home.assert_restores_all(&[MAIN]);

    // The file grows: stored bytes are not read again.
    stretch(&home, 70 * MB);
    home.append(MAIN, "words");
    let report = home.sync();
    assert_eq!((report.bytes_read, report.rewritten_sources), (6 * MB + 5, 0));
    home.assert_restores_all(&[MAIN]);
    doctor(&home);

    home.append(MAIN, "\n");
    child::kill_after(&home, "collect", Duration::from_micros(prng.below(150_000)));
    home.sync();
    let growth = size(&home) - before;
    assert!(growth < 2 * MB, "it grew by {growth} bytes");
    assert_eq!(home.one::<i64>("SELECT count(*) FROM tails"), 0);
    let records = "SELECT max(length) FROM records WHERE generation <> 1";
    let record = fs::metadata(home.path(MAIN)).unwrap().len() - whole.len() as u64;
    assert_eq!(home.one::<i64>(records) as u64, record);
    assert_eq!((home.hits("sparseword"), home.generations().len()), (1, 1));
    home.append(MAIN, line("user", &uuid(3), Some(&uuid(2)), "after"));
    home.sync_and_check();
    assert_eq!(home.hits("after"), 1);
    doctor(&home);
}

/// A tail that ends with its generation becomes a record too.
#[test]
fn a_compressed_tail_stays_after_its_file_is_gone() {
    let home = Home::quick();
    home.write(MAIN, [line("user", &uuid(1), None, "first").as_bytes(), &[b' '; 3 << 20]].concat());
    home.sync();
    assert!(home.one::<i64>("SELECT count(*) FROM tails WHERE length IS NOT NULL") > 0);
    home.replace(MAIN, line("user", &uuid(4), None, "other"));
    home.sync_and_check();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM tails"), 0);
    let restored = home.restored(Generations::All);
    assert!(restored.values().any(|bytes| bytes.ends_with(&[b' '; 3 << 20])));
    doctor(&home);
}

#[test]
fn random_bytes_are_stored_as_they_are() {
    let home = Home::quick();
    let mut prng = Prng::new(1);
    let bytes: Vec<u8> = (0..300_000).map(|_| b'0' + prng.below(200) as u8).collect();
    home.write(MAIN, &bytes);
    home.sync();
    assert!(home.all_blobs("SELECT bytes FROM tails ORDER BY start").concat() == bytes);
    assert_eq!(home.one::<i64>("SELECT count(length) FROM tails"), 0);
    home.sync_and_check();
    home.assert_restores_all(&[MAIN]);
}
