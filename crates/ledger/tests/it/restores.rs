//! A backup replaces the ledger: at any point the old or the new one is at the path, and no process
//! ever reads a mixture.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quipu_ledger::wire::BackupRestored;
use quipu_ledger::{Error, Ledger};
use quipu_torture::Prng;

use crate::backups::{back_up, collected, everything};
use crate::child;
use crate::home::*;

pub(crate) fn restore(home: &Home, from: &Path) -> quipu_ledger::Result<BackupRestored> {
    quipu_ledger::backup::prepare_restore(&home.ledger_path(), from, false, &mut |_| {})?.swap()
}

/// Holds the ledger open until the parent process ends it. The task of a child process.
pub(crate) fn hold(home: &Home, ledger: &Ledger) {
    quipu_ledger::query::cursors(ledger).unwrap();
    fs::write(home.scratch("held"), "").unwrap();
    while home.scratch("held").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    quipu_ledger::query::cursors(ledger).unwrap();
}

/// Collects during restores: a busy ledger is fine, a damaged one is not. The task of a child
/// process.
pub(crate) fn collect_on(home: &Home) {
    while !home.scratch("enough").exists() {
        let collected = Ledger::open(&home.ledger_path()).and_then(|mut ledger| {
            quipu_ledger::collect::collect(&mut ledger, &home.roots(), &mut |_| {})
        });
        match collected {
            Ok(_) | Err(Error::Replaced { .. } | Error::Busy { .. }) => {}
            Err(error) => panic!("{error}: {error:?}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Returns a collected home, and a backup of it.
fn backed_up() -> (Home, PathBuf) {
    let home = collected();
    fs::create_dir_all(home.scratch("disk")).unwrap();
    let copy = home.scratch("disk/copy.db");
    back_up(&home, &copy).unwrap();
    (home, copy)
}

fn epoch(home: &Home) -> String {
    home.one("SELECT epoch FROM ledger")
}

#[test]
fn r111_a_backup_replaces_the_ledger_and_collecting_continues() {
    let (home, copy) = backed_up();
    let at_backup = everything(&home, &copy);
    let (id, old_epoch) = (home.one::<String>("SELECT ledger_id FROM ledger"), epoch(&home));
    home.append(MAIN, line("user", &uuid(2), Some(&uuid(1)), "afterthebackup"));
    home.write(
        ".openclaw/agents/main/sessions/new.jsonl",
        "{\"type\":\"session\",\"id\":\"new\"}\n",
    );
    home.sync();
    let later = everything(&home, &home.ledger_path());
    assert_ne!(at_backup, later);

    let report = restore(&home, &copy).unwrap();
    assert_eq!(everything(&home, &home.ledger_path()), at_backup);
    assert_eq!(home.one::<String>("SELECT ledger_id FROM ledger"), id);
    assert_ne!(epoch(&home), old_epoch, "cursors of the old ledger are refused");
    assert_eq!(home.one::<String>("PRAGMA journal_mode"), "wal");

    // The former ledger is kept, complete, and recorded as a copy.
    let kept = PathBuf::from(report.former_ledger_path.unwrap());
    assert_eq!(everything(&home, &kept), later);
    let listed = quipu_ledger::backup::backups(&home.open()).unwrap();
    let listed: Vec<_> = listed
        .iter()
        .map(|backup| (backup.path.clone(), backup.is_replaced_ledger, backup.exists))
        .collect();
    assert_eq!(listed, [(kept.clone(), true, true), (copy.clone(), false, true)]);

    // Lines added since the backup are collected again, once.
    let synced = home.sync_and_check();
    assert_eq!(synced.records_added, 2);
    assert_eq!(home.hits("afterthebackup"), 1);
    assert_eq!(everything(&home, &home.ledger_path()), later);
    assert_eq!(home.sync().sources_changed, 0);

    // The former ledger can be restored like any backup.
    restore(&home, &kept).unwrap();
    assert_eq!(everything(&home, &home.ledger_path()), later);
    assert_eq!(home.sync().sources_changed, 0);
    assert_eq!(quipu_ledger::backup::backups(&home.open()).unwrap().len(), 3);
}

#[test]
fn a_backup_is_restored_where_no_ledger_is() {
    let (home, copy) = backed_up();
    let data = home.folder().join("data");
    fs::remove_dir_all(&data).unwrap();
    assert_eq!(restore(&home, &copy).unwrap().former_ledger_path, None);
    assert_eq!(everything(&home, &home.ledger_path()), everything(&home, &copy));
    assert_eq!(home.sync_and_check().sources_changed, 0);
}

#[test]
fn a_log_without_its_ledger_is_never_applied() {
    for with_backup in [true, false] {
        let (home, copy) = backed_up();
        // A log with the last transactions stays, as after a kill.
        let held = home.open();
        home.append(MAIN, line("user", &uuid(2), None, "inthelog"));
        home.sync();
        let log = home.folder().join("data/ledger.db-wal");
        let bytes = fs::read(&log).unwrap();
        assert!(!bytes.is_empty());
        drop(held);
        fs::remove_file(home.ledger_path()).unwrap();
        fs::write(&log, &bytes).unwrap();
        if with_backup {
            restore(&home, &copy).unwrap();
            assert_eq!(everything(&home, &home.ledger_path()), everything(&home, &copy));
        } else {
            drop(home.open());
        }
        let kept = fs::read_dir(home.folder().join("data"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.to_string_lossy().ends_with("-wal") && *path != log)
            .unwrap();
        assert_eq!(fs::read(kept).unwrap(), bytes, "the log is kept under another name");
        home.sync_and_check();
        assert_eq!(home.hits("inthelog"), 1);
    }
}

#[test]
fn backups_made_after_the_backup_stay_listed() {
    let (home, copy) = backed_up();
    let second = home.scratch("disk/second.db");
    back_up(&home, &second).unwrap();
    restore(&home, &copy).unwrap();
    let listed = quipu_ledger::backup::backups(&home.open()).unwrap();
    for path in [&copy, &second] {
        assert!(listed.iter().any(|backup| backup.path == *path), "{}", path.display());
    }
}

#[test]
fn sessions_that_were_forgotten_since_are_listed() {
    let (home, copy) = backed_up();
    home.sql()
        .execute("INSERT INTO forgotten VALUES ('claude-code', '', 'secret-one', 1)", [])
        .unwrap();
    assert_eq!(restore(&home, &copy).unwrap().forgotten_session_ids, ["secret-one"]);
}

#[test]
fn a_ledger_that_another_process_has_open_is_not_replaced() {
    let (home, copy) = backed_up();
    home.append(MAIN, line("user", &uuid(2), None, "afterthebackup"));
    home.sync();
    let before = everything(&home, &home.ledger_path());
    let mut holder = child::command(&home, "hold").spawn().unwrap();
    drop(holder.stdin.take());
    while !home.scratch("held").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let refused = restore(&home, &copy).unwrap_err();
    assert!(matches!(refused, Error::InUse { .. }), "{refused}");
    assert_eq!(everything(&home, &home.ledger_path()), before);
    // It reads on and ends normally; then the restore succeeds.
    fs::remove_file(home.scratch("held")).unwrap();
    child::finish(vec![holder]);
    restore(&home, &copy).unwrap();
    assert_eq!(everything(&home, &home.ledger_path()), everything(&home, &copy));
    let left: Vec<_> = files(&home.folder().join("data"))
        .into_keys()
        .filter(|name| name.starts_with(".quipu"))
        .collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn a_process_with_the_old_file_cannot_write_to_it() {
    let (home, copy) = backed_up();
    let mut held = home.open();
    // By hand, as a person might do it.
    fs::rename(&copy, home.ledger_path()).unwrap();
    home.append(MAIN, line("user", &uuid(2), None, "late"));
    let refused =
        quipu_ledger::collect::collect(&mut held, &home.roots(), &mut |_| {}).unwrap_err();
    assert!(matches!(refused, Error::Replaced { .. }), "{refused}");
}

#[test]
fn collectors_and_restores_at_once_lose_nothing() {
    let (home, copy) = backed_up();
    let mut children = child::start(&home, "collect while others restore", 2);
    for child in &mut children {
        drop(child.stdin.take());
    }
    let mut swapped = 0;
    for number in 2..14 {
        home.append(MAIN, line("user", &uuid(number), None, &format!("meanwhile{number}")));
        match restore(&home, &copy) {
            Ok(report) => {
                swapped += 1;
                fs::remove_file(report.former_ledger_path.unwrap()).unwrap();
            }
            Err(Error::InUse { .. }) => {}
            Err(error) => panic!("{error}: {error:?}"),
        }
    }
    fs::write(home.scratch("enough"), "").unwrap();
    child::finish(children);
    println!("{swapped} swaps");
    assert!(swapped > 0, "{swapped} swaps");
    home.sync_and_check();
    home.assert_restores_all(&[MAIN]);
    for number in 2..14 {
        assert_eq!(home.hits(&format!("meanwhile{number}")), 1);
    }
}

#[test]
fn f5_a_restore_that_is_killed_leaves_the_old_or_the_new_ledger() {
    let (home, copy) = backed_up();
    let at_backup = everything(&home, &copy);
    home.append(MAIN, line("user", &uuid(2), None, "afterthebackup"));
    home.sync();
    let later = everything(&home, &home.ledger_path());
    let mut prng = Prng::new(7);
    let (mut old, mut new) = (0, 0);
    // Follows the speed of the machine until both answers were seen.
    let mut longest = 60_000;
    for round in 0..40 {
        if round % 5 == 4 && new == 0 {
            longest *= 2;
        } else if round % 5 == 4 && old == 0 {
            longest /= 2;
        }
        child::kill_after(&home, "restore", Duration::from_micros(prng.below(longest)));
        let current = everything(&home, &home.ledger_path());
        assert!(current == at_backup || current == later, "neither the old nor the new ledger");
        home.assert_sound();
        if current == later {
            old += 1;
        } else {
            new += 1;
            home.sync();
            assert_eq!(everything(&home, &home.ledger_path()), later);
        }
    }
    println!("{old} old, {new} new");
    assert!(old > 0 && new > 0, "{old} old, {new} new");
    restore(&home, &copy).unwrap();
    home.sync_and_check();
    let left = files(&home.folder().join("data")).into_keys();
    assert_eq!(left.filter(|name| name.starts_with('.')).count(), 0, "left-overs");
}

#[test]
fn a_damaged_ledger_is_replaced_and_kept() {
    for damage in [0..16_usize, 100..108, 8192..16384, 40..44] {
        let (home, copy) = backed_up();
        let mut bytes = fs::read(home.ledger_path()).unwrap();
        bytes[damage.clone()].fill(0xff);
        fs::write(home.ledger_path(), &bytes).unwrap();
        let prepared =
            quipu_ledger::backup::prepare_restore(&home.ledger_path(), &copy, true, &mut |_| {})
                .unwrap();
        let report = prepared.swap().unwrap();
        assert_eq!(everything(&home, &home.ledger_path()), everything(&home, &copy), "{damage:?}");
        let kept = fs::read(report.former_ledger_path.unwrap()).unwrap();
        assert_eq!(kept.len(), bytes.len(), "{damage:?}");
        home.sync_and_check();
    }
}

#[test]
fn a_backup_that_is_damaged_is_not_restored() {
    let (home, copy) = backed_up();
    let before = everything(&home, &home.ledger_path());
    let sound = fs::read(&copy).unwrap();
    let mut prng = Prng::new(9);
    let mut found = 0;
    for page in 0..sound.len() / 8192 {
        let mut bytes = sound.clone();
        let at = page * 8192 + prng.below(64) as usize;
        bytes[at] ^= 0x10;
        fs::write(&copy, &bytes).unwrap();
        match quipu_ledger::backup::prepare_restore(&home.ledger_path(), &copy, false, &mut |_| {})
        {
            Ok(prepared) => drop(prepared),
            Err(error) => {
                found += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    println!("{found} of {} flips found", sound.len() / 8192);
    assert!(found > 0);
    fs::write(&copy, &sound[..sound.len() - 8192]).unwrap();
    assert!(restore(&home, &copy).is_err());
    assert_eq!(everything(&home, &home.ledger_path()), before);
}
