//! A ledger is refused if its log, journal or shared memory is not a regular file, before SQLite
//! opens anything: SQLite waits forever for a pipe.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::home::*;
use quipu_ledger::backup::prepare_restore;
use quipu_ledger::{Error, Ledger};

const MAIN: &str = ".claude/projects/-p/640ab4c7-d010-4b20-a591-b7172ef08e66.jsonl";

/// The name of a kind of file, and a function that makes one at a path.
type Kind = (&'static str, fn(&Path));

/// Files that are not regular ones.
const KINDS: [Kind; 4] = [
    ("a named pipe", |path| mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap()),
    ("a socket", |path| drop(UnixListener::bind(path).unwrap())),
    ("a folder", |path| fs::create_dir(path).unwrap()),
    ("a symbolic link", |path| symlink("/dev/zero", path).unwrap()),
];

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[track_caller]
fn assert_named<T>(outcome: Result<T, Error>, file: &Path, kind: &str) {
    match outcome.map(|_| ()).unwrap_err() {
        Error::Companion { path, what } => assert_eq!((path.as_path(), what), (file, kind)),
        error => panic!("{error:?}"),
    }
}

#[test]
fn a_companion_that_is_no_regular_file_is_refused_before_sqlite_opens_it() {
    let home = Home::quick();
    home.write(MAIN, line("user", &uuid(1), None, "alpha"));
    home.sync();
    let ledger = home.ledger_path();
    let copy = home.scratch("copy.db");
    fs::copy(&ledger, &copy).unwrap();
    let absent = home.scratch("absent.db");
    for suffix in ["-journal", "-wal", "-shm"] {
        for (kind, make) in KINDS {
            let file = beside(&ledger, suffix);
            // Readers leave an empty log and shared memory behind.
            let _ = fs::remove_file(&file);
            make(&file);
            assert_named(Ledger::open(&ledger), &file, kind);
            assert_named(Ledger::open_read_only(&ledger), &file, kind);
            assert_named(Ledger::open_to_collect(&ledger), &file, kind);
            assert_named(quipu_ledger::freshness::open_to_read(&ledger, "here"), &file, kind);
            assert_named(prepare_restore(&ledger, &copy, true, &mut |_| {}), &file, kind);
            let diagnosis = quipu_ledger::doctor::doctor(&ledger, &home.roots(), true, &mut |_| {});
            let finding = diagnosis.findings.first().unwrap();
            assert!(finding.message.contains(file.to_str().unwrap()), "{finding:?}");
            assert!(finding.hint.contains("move it away"), "{finding:?}");
            // As a backup, and where no ledger is yet.
            let _ = fs::remove_file(beside(&copy, suffix));
            fs::rename(&file, beside(&copy, suffix)).unwrap();
            let restored = prepare_restore(&absent, &copy, false, &mut |_| {});
            assert_named(restored, &beside(&copy, suffix), kind);
            let _ = fs::remove_file(beside(&absent, suffix));
            fs::rename(beside(&copy, suffix), beside(&absent, suffix)).unwrap();
            assert_named(Ledger::open(&absent), &beside(&absent, suffix), kind);
            assert_named(Ledger::open_to_collect(&absent), &beside(&absent, suffix), kind);
            let restored = prepare_restore(&absent, &ledger, false, &mut |_| {});
            assert_named(restored, &beside(&absent, suffix), kind);
            let odd = beside(&absent, suffix);
            fs::remove_file(&odd).or_else(|_| fs::remove_dir(&odd)).unwrap();
        }
    }
    home.append(MAIN, line("user", &uuid(2), None, "beta"));
    home.sync();
    home.assert_sound();
}
