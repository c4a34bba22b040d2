//! Ledgers of older versions: the migration is complete or does not happen, and no stored byte
//! changes.

use std::fs;
use std::time::Duration;

use crate::child;
use crate::home::*;
use quipu_ledger::restore::Generations;
use quipu_ledger::{Error, Ledger};
use quipu_torture::Prng;

/// Returns a home with a ledger of truth version 1.
fn old() -> Home {
    let home = Home::quick();
    put_old(&home);
    home
}

fn put_old(home: &Home) {
    let folder = home.ledger_path().parent().unwrap().to_owned();
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder).unwrap();
    let packed = include_bytes!("../fixtures/v1/ledger.db.zst");
    fs::write(home.ledger_path(), zstd::decode_all(&packed[..]).unwrap()).unwrap();
}

/// Returns the files that the ledger restored before it was migrated.
fn expected() -> std::collections::BTreeMap<String, Vec<u8>> {
    files(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v1/files")))
}

#[track_caller]
fn check_complete(home: &Home) {
    home.sync();
    assert_eq!(home.one::<i64>("PRAGMA user_version"), 5);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records WHERE generation <> 1"), 78);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sources WHERE kind = 'file'"), 5);
    assert!(home.restored(Generations::All) == expected(), "the restored bytes differ");
    home.assert_sound();
}

#[test]
fn f4_a_ledger_of_version_1_is_migrated_to_the_newest_version() {
    let home = old();
    let ids: String = home.one("SELECT ledger_id || epoch FROM ledger");
    check_complete(&home);
    assert_eq!(home.one::<String>("SELECT ledger_id || epoch FROM ledger"), ids);
    assert_eq!((home.hits("word7"), home.hits("another7"), home.hits("gone4")), (1, 1, 1));
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 4);
    home.assert_rebuilds();
}

/// Reading changes nothing in the file: a copy is migrated.
#[test]
fn an_old_ledger_is_read_before_it_is_migrated() {
    let home = old();
    let before = home.ledger_bytes();
    assert!(Ledger::open_read_only(&home.ledger_path()).unwrap().is_copy());
    assert!(before["ledger.db"] == home.ledger_bytes()["ledger.db"]);
    // Truth is migrated when it is opened for writing, the projection with the next sync.
    drop(home.open());
    assert!(Ledger::open_read_only(&home.ledger_path()).unwrap().is_copy());
    home.sync();
    assert!(!Ledger::open_read_only(&home.ledger_path()).unwrap().is_copy());
}

#[test]
fn f4_killed_while_migrating() {
    let home = old();
    let mut prng = Prng::new(4);
    let (mut unmigrated, mut migrated) = (0, 0);
    for _ in 0..30 {
        put_old(&home);
        child::kill_after(&home, "collect", Duration::from_micros(prng.below(50_000)));
        let tables: i64 = home.one(
            "SELECT count(*) FROM sqlite_schema
              WHERE name IN ('indexes', 'row_cursors', 'record_rows', 'damaged')",
        );
        match home.one::<i64>("PRAGMA user_version") {
            1 => assert_eq!(tables, 0, "version 1 has tables of a newer one"),
            5 => assert_eq!(tables, 4, "version 5 lacks tables"),
            other => panic!("version {other}"),
        }
        if tables == 0 {
            unmigrated += 1
        } else {
            migrated += 1
        }
        check_complete(&home);
    }
    println!("version 1 after {unmigrated} kills, version 5 after {migrated}");
}

#[test]
fn f21_several_processes_migrate_at_once() {
    let home = old();
    child::finish(child::start(&home, "collect", 8));
    check_complete(&home);
    home.assert_rebuilds();
}

#[test]
fn f4_a_backup_of_version_1_is_restored() {
    let home = old();
    let backup = home.scratch("backup.db");
    fs::rename(home.ledger_path(), &backup).unwrap();
    let prepared =
        quipu_ledger::backup::prepare_restore(&home.ledger_path(), &backup, false, &mut |_| {})
            .unwrap();
    assert_eq!(prepared.records(), 78);
    prepared.swap().unwrap();
    check_complete(&home);
    home.assert_rebuilds();
}

/// A process that waited for its turn to migrate must not undo the migration of a newer release.
#[test]
fn f22_a_newer_process_migrates_first() {
    let home = old();
    let newer = home.sql();
    newer.execute_batch("BEGIN IMMEDIATE; PRAGMA user_version = 99").unwrap();
    let older = std::thread::scope(|scope| {
        let older = scope.spawn(|| Ledger::open(&home.ledger_path()));
        // The older process sees version 1 and waits for the lock.
        std::thread::sleep(Duration::from_millis(300));
        newer.execute_batch("COMMIT").unwrap();
        older.join().unwrap()
    });
    assert!(matches!(older, Err(Error::Newer { found: 99, .. })), "{older:?}");
    assert_eq!(home.one::<i64>("PRAGMA user_version"), 99);
}

#[test]
fn a_ledger_of_shape_11_rebuilds_to_what_a_fresh_import_gives() {
    let fixture = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v5");
    let old = Home::quick();
    fs::create_dir_all(old.ledger_path().parent().unwrap()).unwrap();
    let packed = fs::read(fixture.join("ledger.db.zst")).unwrap();
    fs::write(old.ledger_path(), zstd::decode_all(&packed[..]).unwrap()).unwrap();
    let ids: String = old.one("SELECT ledger_id || epoch FROM ledger");
    let fresh = Home::quick();
    copy(&fixture.join("home"), &fresh.path(""));
    fresh.sync();

    // Opening migrates truth; the sync finds none of its roots and only rebuilds the projection.
    old.sync();
    assert_eq!(old.one::<String>("SELECT ledger_id || epoch FROM ledger"), ids);
    let (restored, expected) =
        (old.restored(Generations::Newest), fresh.restored(Generations::Newest));
    assert_eq!(restored.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (path, bytes) in &expected {
        assert!(restored[path] == *bytes, "{path} differs");
    }
    old.assert_sound();
    let check = |state: &str| {
        let (mut old, fresh) = (old.projection(), fresh.projection());
        for (table, rows) in fresh {
            assert_eq!(old.remove(&table), Some(rows), "{table}, {state}");
        }
        assert!(old.is_empty(), "tables that no longer exist: {:?}", old.keys());
    };
    check("as it was opened");
    quipu_ledger::rebuild::rebuild(&mut old.open(), &mut |_, _| {}).unwrap();
    check("rebuilt");
}
