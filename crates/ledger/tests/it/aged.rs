//! Ledgers and backups of every shape that truth ever had: migrated completely or not at all,
//! restored, and read where they cannot be migrated.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use crate::child;
use crate::home::*;
use quipu_ledger::query::Filter;
use quipu_ledger::restore::{Generations, RestoreScope};
use quipu_ledger::{Error, Ledger, Trouble};
use quipu_torture::{OLD_LEDGERS, OldLedger, Prng};

/// Copies a ledger of an older version into a home, alone.
fn put(home: &Home, old: &OldLedger) {
    let folder = home.ledger_path().parent().unwrap().to_owned();
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder).unwrap();
    fs::write(home.ledger_path(), old.ledger()).unwrap();
}

fn home_of(old: &OldLedger) -> Home {
    let home = Home::quick();
    put(&home, old);
    home
}

/// Returns a backup of it: the same pages in one file without a log.
fn backup_of(home: &Home, old: &OldLedger) -> std::path::PathBuf {
    let backup = home.scratch("backup.db");
    fs::write(&backup, old.backup()).unwrap();
    fs::set_permissions(&backup, fs::Permissions::from_mode(0o600)).unwrap();
    backup
}

fn expected(old: &OldLedger) -> BTreeMap<String, Vec<u8>> {
    files(&old.files())
}

/// Asserts that the ledger is of the newest version, complete, and can be collected into.
#[track_caller]
fn check_complete(home: &Home, old: &OldLedger) {
    let name = old.name;
    home.sync();
    assert_eq!(home.one::<i64>("PRAGMA user_version"), 5, "{name}");
    let records = "SELECT count(*) FROM records WHERE generation <> 1";
    assert_eq!(home.one::<i64>(records), old.records as i64, "{name}");
    let restored = home.restored(Generations::All);
    let (restored, expected): (Vec<_>, Vec<_>) =
        (restored.iter().collect(), expected(old).into_iter().collect());
    assert_eq!(
        restored.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(),
        expected.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(),
        "{name}"
    );
    for ((path, bytes), (_, old)) in restored.iter().zip(&expected) {
        assert!(*bytes == old, "{name}: the restored bytes of {path} differ");
    }
    home.assert_sound();
}

/// Collects lines, a torn end, a copy and a rewrite, which use the columns that were added late.
#[track_caller]
fn check_continues(home: &Home, old: &OldLedger) {
    let path = |number: u32| format!(".claude/projects/-p/{}.jsonl", uuid(number));
    let lines: String = (1..20).map(|n| line("user", &uuid(n), None, "fresh")).collect();
    home.write(&path(1), format!("{lines}{{\"torn"));
    home.write(&path(2), &lines);
    home.sync();
    home.replace(&path(1), lines.replacen("fresh", "other", 1));
    home.sync();
    home.sync();
    home.assert_sound();
    home.assert_rebuilds();
    let diagnosis =
        quipu_ledger::doctor::doctor(&home.ledger_path(), &home.roots(), true, &mut |_| {});
    assert!(diagnosis.is_ok, "{}: {:?}", old.name, diagnosis.findings);
}

#[test]
fn f4_every_old_ledger_is_migrated_to_the_newest_version() {
    for old in OLD_LEDGERS {
        let home = home_of(old);
        let ids: String = home.one("SELECT ledger_id || epoch FROM ledger");
        check_complete(&home, old);
        assert_eq!(home.one::<String>("SELECT ledger_id || epoch FROM ledger"), ids);
        check_continues(&home, old);
    }
}

#[test]
fn f4_every_old_ledger_survives_kills() {
    let mut prng = Prng::new(4);
    for old in OLD_LEDGERS {
        let home = home_of(old);
        for _ in 0..4 {
            put(&home, old);
            child::kill_after(&home, "collect", Duration::from_micros(prng.below(50_000)));
            let version = home.one::<i64>("PRAGMA user_version");
            assert!(version == 5 || version == old.version, "{}: version {version}", old.name);
            check_complete(&home, old);
        }
    }
}

#[test]
fn f4_every_old_backup_is_restored() {
    for old in OLD_LEDGERS {
        let home = Home::quick();
        home.open();
        let backup = backup_of(&home, old);
        let prepared =
            quipu_ledger::backup::prepare_restore(&home.ledger_path(), &backup, false, &mut |_| {})
                .unwrap_or_else(|error| panic!("{}: {error}", old.name));
        assert_eq!(prepared.records(), old.records, "{}", old.name);
        prepared.swap().unwrap();
        check_complete(&home, old);
        check_continues(&home, old);
    }
}

/// A backup of any version stays as it is, and can be read.
#[test]
fn f22_every_old_backup_is_read_as_it_is() {
    for old in OLD_LEDGERS {
        let home = Home::quick();
        fs::create_dir_all(home.folder()).unwrap();
        let backup = backup_of(&home, old);
        let before = fs::read(&backup).unwrap();
        let reader = quipu_ledger::freshness::open_to_read(&backup, "here")
            .unwrap_or_else(|error| panic!("{}: {error:?}", old.name));
        let sessions =
            quipu_ledger::query::sessions(&reader.ledger, &Filter::default(), None).unwrap();
        assert!(sessions.total > 0, "{}", old.name);
        let to = home.scratch("given");
        quipu_ledger::restore::restore(&reader.ledger, RestoreScope::All, &to, Generations::All)
            .unwrap();
        assert!(files(&to) == expected(old), "{}: the restored bytes differ", old.name);
        drop(reader);
        assert!(before == fs::read(&backup).unwrap(), "{}: reading changed the backup", old.name);
        let left: Vec<String> = files(home.folder()).into_keys().collect();
        assert!(
            left.iter().all(|name| name == "backup.db" || name.starts_with("given/")),
            "{left:?}"
        );
    }
}

/// Earlier releases raised the version of some ledgers without completing them.
#[test]
fn a_ledger_with_a_raised_version_but_an_old_shape_is_completed() {
    for old in
        OLD_LEDGERS.iter().filter(|old| ["v1-first", "v2-first", "v2-second"].contains(&old.name))
    {
        let home = home_of(old);
        let sql = home.sql();
        for (version, step) in [
            (2, include_str!("../../src/file/schema/truth_v2.sql")),
            (3, include_str!("../../src/file/schema/truth_v3.sql")),
            (4, include_str!("../../src/file/schema/truth_v4.sql")),
        ] {
            if version > old.version {
                sql.execute_batch(step).unwrap();
            }
        }
        sql.pragma_update(None, "user_version", 4).unwrap();
        drop(sql);
        assert!(Ledger::open_read_only(&home.ledger_path()).unwrap().is_copy(), "{}", old.name);
        check_complete(&home, old);
        check_continues(&home, old);
    }
}

/// A ledger of an unknown shape is not migrated and not changed.
#[test]
fn a_ledger_of_an_unknown_shape_is_left_untouched() {
    let changes = [
        ("DROP TABLE forgotten", "table forgotten is missing"),
        ("ALTER TABLE pending RENAME COLUMN added_at TO at", "table pending lacks column added_at"),
        ("ALTER TABLE records ADD COLUMN theirs TEXT", "column theirs"),
        ("DROP INDEX sources_by_path", "lacks unique index of format, root, path"),
        ("CREATE TABLE unread (a)", "already exists"),
    ];
    for old in OLD_LEDGERS.iter().filter(|old| ["v1", "v2"].contains(&old.name)) {
        for (change, words) in changes {
            let home = home_of(old);
            home.sql().execute_batch(change).unwrap();
            let before = fs::read(home.ledger_path()).unwrap();
            let error = Ledger::open(&home.ledger_path()).unwrap_err();
            assert!(matches!(error, Error::Shape { version, .. } if version == old.version));
            assert!(error.to_string().contains(words), "{change}: {error}");
            assert!(
                before == fs::read(home.ledger_path()).unwrap(),
                "{change}: the refused ledger was changed"
            );

            let mut backup = before.clone();
            backup[18..20].copy_from_slice(&[1, 1]);
            let from = home.scratch("backup.db");
            fs::write(&from, &backup).unwrap();
            let other = home.scratch("other/ledger.db");
            let refused = quipu_ledger::backup::prepare_restore(&other, &from, false, &mut |_| {});
            let error = refused.map(|_| ()).unwrap_err();
            assert_eq!(error.trouble(), Trouble::Damaged, "{change}: {error}");
            assert!(error.to_string().contains(words), "{change}: {error}");
            assert!(!Path::new(&other).exists());
        }
    }
}
