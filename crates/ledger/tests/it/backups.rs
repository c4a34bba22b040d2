//! Copies of the whole ledger: complete or absent, whatever happens during the copy.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quipu_ledger::backup::BackupTarget;
use quipu_ledger::store::Store;
use quipu_ledger::wire::BackupReport;
use quipu_ledger::{Error, Ledger, Trouble};
use quipu_torture::Prng;

use crate::child;
use crate::home::*;

/// Returns a home with a few collected sessions.
pub(crate) fn collected() -> Home {
    let home = Home::quick();
    home.copy_fixtures();
    home.write(MAIN, line("user", &uuid(1), None, "needle"));
    home.sync();
    home
}

pub(crate) fn back_up(home: &Home, to: &Path) -> quipu_ledger::Result<BackupReport> {
    quipu_ledger::backup::backup(
        &mut home.open(),
        BackupTarget { path: to, replace: false },
        &mut |_| {},
    )
}

/// Returns the names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Returns every byte of every generation of every file, as a ledger restores it.
pub(crate) fn everything(home: &Home, ledger: &Path) -> Vec<(String, Vec<u8>)> {
    let to = tempfile::tempdir_in(home.folder()).unwrap();
    let ledger = Ledger::open_read_only(ledger).unwrap();
    quipu_ledger::restore::restore(
        &ledger,
        quipu_ledger::restore::RestoreScope::All,
        to.path(),
        quipu_ledger::restore::Generations::All,
    )
    .unwrap();
    files(to.path()).into_iter().collect()
}

fn target(home: &Home) -> PathBuf {
    fs::create_dir_all(home.scratch("disk")).unwrap();
    home.scratch("disk/copy.db")
}

#[test]
fn r111_a_backup_is_the_ledger_in_one_file() {
    let home = collected();
    let to = target(&home);
    let report = back_up(&home, &to).unwrap();
    assert_eq!(names(&home.scratch("disk")), ["copy.db"]);
    assert_eq!(report.bytes, fs::metadata(&to).unwrap().len());
    assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(everything(&home, &to), everything(&home, &home.ledger_path()));

    // It can be read where nothing can be written.
    let lock = fs::Permissions::from_mode(0o500);
    fs::set_permissions(home.scratch("disk"), lock).unwrap();
    let status = quipu_ledger::status::status(&Ledger::open_read_only(&to).unwrap(), &[]).unwrap();
    assert_eq!(status.ledger.records, report.records);
    fs::set_permissions(home.scratch("disk"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(names(&home.scratch("disk")), ["copy.db"]);
}

/// No user, not even root, writes to a backup, until it is moved to a ledger's path.
#[test]
fn a_backup_is_not_written_to() {
    let home = collected();
    let to = target(&home);
    back_up(&home, &to).unwrap();
    let before = fs::read(&to).unwrap();
    let refused = |error: Error| {
        assert!(matches!(error, Error::IsBackup { .. }), "{error:?}");
        assert_eq!(error.trouble(), Trouble::ReadOnly);
    };
    refused(Ledger::open(&to).unwrap_err());
    refused(Store::open(&to).unwrap_err());
    let reading = Ledger::open_read_only(&to).unwrap();
    refused(Ledger::open(&to).unwrap_err());
    drop(reading);
    assert_eq!(names(&home.scratch("disk")), ["copy.db"]);
    assert!(fs::read(&to).unwrap() == before, "it was written to");

    // Moved by hand.
    let now = everything(&home, &home.ledger_path());
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(home.folder().join(format!("data/ledger.db{suffix}")));
    }
    fs::copy(&to, home.ledger_path()).unwrap();
    home.append(MAIN, line("user", &uuid(7), None, "later"));
    home.sync_and_check();
    assert!(everything(&home, &home.ledger_path()) != now);
    assert_eq!(home.hits("later"), 1);
}

#[test]
fn a_backup_holds_what_is_only_in_the_log() {
    let home = collected();
    let held = home.open();
    home.append(MAIN, line("user", &uuid(2), None, "onlyinthelog"));
    home.sync();
    assert!(fs::metadata(home.folder().join("data/ledger.db-wal")).unwrap().len() > 0);
    let to = target(&home);
    back_up(&home, &to).unwrap();
    drop(held);
    assert_eq!(everything(&home, &to), everything(&home, &home.ledger_path()));
}

#[test]
fn backups_are_recorded() {
    let home = collected();
    let before = home.projection();
    fs::create_dir_all(home.scratch("disk")).unwrap();
    let odd = home.scratch("disk").join(OsStr::from_bytes(b"caf\xe9.db"));
    let plain = target(&home);
    back_up(&home, &plain).unwrap();
    back_up(&home, &odd).unwrap();
    let listed = quipu_ledger::backup::backups(&home.open()).unwrap();
    let paths: Vec<&Path> = listed.iter().map(|backup| backup.path.as_path()).collect();
    assert_eq!(paths, [odd.as_path(), plain.as_path()]);
    assert!(
        listed.iter().all(|backup| backup.exists && !backup.is_replaced_ledger && backup.at > 0)
    );

    // The record of a backup changes no projected row, and the next sync has nothing to do.
    assert_eq!(before, home.projection());
    let behind = "SELECT (SELECT max(seq) FROM records) - projected_to FROM ledger";
    assert_eq!(home.one::<i64>(behind), 0);
    home.sync_and_check();

    // A replaced backup stays one backup; a deleted one is still listed.
    let replace = BackupTarget { path: &plain, replace: true };
    quipu_ledger::backup::backup(&mut home.open(), replace, &mut |_| {}).unwrap();
    fs::remove_file(&odd).unwrap();
    let listed = quipu_ledger::backup::backups(&home.open()).unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!(listed.iter().map(|backup| backup.exists).collect::<Vec<_>>(), [false, true]);

    // A read-only ledger cannot record it, and reports that.
    let mut ledger = Ledger::open_read_only(&home.ledger_path()).unwrap();
    let another = BackupTarget { path: &home.scratch("disk/another.db"), replace: false };
    assert!(!quipu_ledger::backup::backup(&mut ledger, another, &mut |_| {}).unwrap().is_recorded);
    assert_eq!(quipu_ledger::backup::backups(&ledger).unwrap().len(), 2);
}

#[test]
fn a_target_that_cannot_hold_a_backup_is_refused() {
    let home = collected();
    let folder = home.scratch("disk");
    fs::create_dir_all(folder.join("inner")).unwrap();
    let data = home.folder().join("data");
    std::os::unix::fs::symlink(&data, folder.join("data")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.join("link")).unwrap();
    fs::hard_link(home.ledger_path(), folder.join("same")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let before = names(&folder);
    let held = home.open();
    let ledger = home.ledger_bytes();
    for replace in [false, true] {
        for path in [
            data.join("ledger.db"),
            data.join("ledger.db-wal"),
            data.join("ledger.db-shm"),
            data.join("ledger.db-journal"),
            data.join("ledger.db.lock"),
            data.join("ledger.db.wait"),
            data.join("ledger.db.new-17"),
            folder.join("data/ledger.db"),
            folder.join("same"),
            folder.join("inner"),
            folder.join("inner/"),
            folder.join("inner/.."),
            folder.join("link"),
            folder.join("pipe"),
        ] {
            let target = BackupTarget { path: &path, replace };
            let refused =
                quipu_ledger::backup::backup(&mut home.open(), target, &mut |_| {}).unwrap_err();
            assert!(matches!(refused, Error::Target { .. }), "{}: {refused}", path.display());
        }
    }
    drop(held);
    assert_eq!(before, names(&folder));
    assert_eq!(ledger["ledger.db"], home.ledger_bytes()["ledger.db"]);
    let absent = BackupTarget { path: &folder.join("no/such"), replace: false };
    let refused = quipu_ledger::backup::backup(&mut home.open(), absent, &mut |_| {}).unwrap_err();
    assert!(matches!(refused, Error::Io { .. }), "{refused}");
}

#[test]
fn an_existing_file_stays_until_the_new_one_is_complete() {
    let home = collected();
    let to = target(&home);
    fs::write(&to, "precious").unwrap();
    let refused = back_up(&home, &to).unwrap_err();
    assert_eq!(refused.trouble(), Trouble::Exists);
    assert_eq!(fs::read(&to).unwrap(), b"precious");
    let mut seen = 0;
    let replace = BackupTarget { path: &to, replace: true };
    quipu_ledger::backup::backup(&mut home.open(), replace, &mut |_| {
        seen += 1;
        assert_eq!(fs::read(&to).unwrap(), b"precious");
    })
    .unwrap();
    assert!(seen > 0);
    assert_eq!(everything(&home, &to), everything(&home, &home.ledger_path()));
}

#[test]
fn a_damaged_ledger_is_not_backed_up() {
    let home = collected();
    for number in 2..3000 {
        home.append(MAIN, line("user", &uuid(number), None, &format!("word{number}")));
    }
    home.sync();
    let sql = home.sql();
    let flip = "UPDATE chunks SET data = CAST(substr(data, 1, length(data) - 20) || x'00'
                 || substr(data, length(data) - 18) AS BLOB)";
    assert!(sql.execute(flip, []).unwrap() > 0);
    drop(sql);
    let to = target(&home);
    let refused = back_up(&home, &to).unwrap_err();
    assert!(matches!(refused, Error::Unsound { .. }), "{refused}");
    assert_eq!(names(&home.scratch("disk")), [""; 0]);
}

#[test]
fn a_backup_during_writes_is_a_snapshot() {
    let home = collected();
    fs::create_dir_all(home.scratch("disk")).unwrap();
    let mut writers: Vec<_> =
        (0..2).map(|_| child::start_alone(&home, "collect until killed")).collect();
    for number in 0..10 {
        for more in 0..50 {
            let id = uuid(1000 + number * 100 + more);
            home.append(MAIN, line("user", &id, None, &format!("written{number}while{more}")));
        }
        let to = home.scratch(&format!("disk/copy-{number}.db"));
        back_up(&home, &to).unwrap();
        let main = MAIN.replacen(".claude/", "claude-code/", 1);
        let held = everything(&home, &to).into_iter().find(|(path, _)| *path == main).unwrap().1;
        assert!(fs::read(home.path(MAIN)).unwrap().starts_with(&held), "a beginning of the file");
    }
    for writer in &mut writers {
        child::assert_lives(&home, writer);
        writer.kill().unwrap();
        writer.wait().unwrap();
    }
    home.sync_and_check();
}

#[test]
fn files_left_by_killed_backups_are_removed_and_nothing_else() {
    let home = collected();
    let to = target(&home);
    let folder = home.scratch("disk");
    let dead = format!(".quipu-backup-{}", "0123456789abcdef".repeat(2));
    fs::write(folder.join(&dead), "half").unwrap();
    fs::write(folder.join(format!("{dead}-journal")), "half").unwrap();
    let alive = format!(".quipu-backup-{}", "f".repeat(32));
    fs::write(folder.join(&alive), "being written").unwrap();
    let owner = fs::File::open(folder.join(&alive)).unwrap();
    owner.lock().unwrap();
    for other in
        [".quipu-backup-", ".quipu-backup-notes", "quipu-backup-0123456789abcdef0123456789abcdef"]
    {
        fs::write(folder.join(other), "not ours").unwrap();
    }
    back_up(&home, &to).unwrap();
    let mut expected = vec![
        ".quipu-backup-".to_owned(),
        alive,
        ".quipu-backup-notes".to_owned(),
        "copy.db".to_owned(),
        "quipu-backup-0123456789abcdef0123456789abcdef".to_owned(),
    ];
    expected.sort();
    assert_eq!(names(&folder), expected);
}

#[test]
fn f5_a_backup_that_is_killed_is_complete_or_not_there() {
    let home = collected();
    let to = target(&home);
    let folder = home.scratch("disk");
    let mut prng = Prng::new(5);
    let (mut there, mut absent, mut left_over) = (0, 0, 0);
    // The longest time before a kill, in microseconds. It follows the speed of the machine, so that
    // some backups are complete and some are not.
    let mut longest = 60_000;
    for _ in 0..40 {
        child::kill_after(&home, "back up", Duration::from_micros(prng.below(longest)));
        left_over += names(&folder).iter().filter(|name| name.starts_with('.')).count();
        if to.exists() {
            there += 1;
            longest = (longest / 2).max(1_000);
            assert_eq!(everything(&home, &to), everything(&home, &home.ledger_path()));
            fs::remove_file(&to).unwrap();
        } else {
            absent += 1;
            longest += longest / 4;
        }
        home.assert_sound();
    }
    println!("{there} complete, {absent} absent, {left_over} left over");
    assert!(there > 0 && absent > 0, "{there} complete, {absent} absent");
    back_up(&home, &to).unwrap();
    assert_eq!(names(&folder), ["copy.db"]);
}

/// Counts the POSIX locks of this process on the inode of a file.
#[cfg(target_os = "linux")]
fn locks(path: &Path) -> usize {
    use std::os::unix::fs::MetadataExt;
    let file = format!(":{} ", fs::metadata(path).unwrap().ino());
    let process = format!(" {} ", std::process::id());
    let locks = fs::read_to_string("/proc/locks").unwrap();
    locks.lines().filter(|lock| lock.contains(&file) && lock.contains(&process)).count()
}

#[cfg(target_os = "linux")]
#[test]
fn opening_a_ledger_again_keeps_its_locks() {
    let home = collected();
    let held = home.open();
    assert!(locks(&home.ledger_path()) > 0);
    // Closing any descriptor of the file drops the locks of the whole process.
    drop(Ledger::open_read_only(&home.ledger_path()).unwrap());
    assert!(locks(&home.ledger_path()) > 0);
    drop(home.open());
    assert!(locks(&home.ledger_path()) > 0);
    // Another process would take itself for the last one and remove the log.
    child::finish(child::start(&home, "open", 1));
    assert!(home.folder().join("data/ledger.db-wal").exists());
    drop(held);
    home.assert_sound();
}
