//! A ledger on a full disk: it can be read, or the error asks for free space.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::home::*;
use quipu_ledger::backup::BackupTarget;
use quipu_ledger::freshness::{LedgerKind, RefreshLimit};
use quipu_ledger::wire::Finding;
use quipu_ledger::{Error, Ledger, Trouble};

/// A small disk in memory. It is unmounted at the end.
struct Disk(PathBuf);

impl Disk {
    fn mount(home: &Home) -> Option<Disk> {
        let folder = home.scratch("disk");
        fs::create_dir_all(&folder).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(&folder);
        if mount.output().is_ok_and(|mount| mount.status.success()) {
            return Some(Disk(folder));
        }
        quipu_torture::skip("nothing can be mounted here");
        None
    }

    /// Mounts a file with ext4. The file system reserves about 2 % of it, which no user can fill.
    fn mount_ext4(home: &Home) -> Option<Disk> {
        let folder = home.scratch("ext4");
        fs::create_dir_all(&folder).unwrap();
        let script = "truncate -s 40M \"$0.image\" && mkfs.ext4 -q -F -b 4096 -m 0 \"$0.image\" \
                      && mount -o loop \"$0.image\" \"$0\"";
        let mount = Command::new("sh").args(["-c", script]).arg(&folder).output();
        if mount.is_ok_and(|mount| mount.status.success()) {
            return Some(Disk(folder));
        }
        quipu_torture::skip("no ext4 can be mounted here");
        None
    }

    fn ledger(&self) -> PathBuf {
        self.0.join("ledger.db")
    }

    /// Fills the disk up to this many free bytes.
    fn fill(&self, free: u64) {
        let path = self.0.join("fill");
        let _ = fs::remove_file(&path);
        let _ = std::io::copy(&mut std::io::repeat(7), &mut fs::File::create(&path).unwrap());
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_len(file.metadata().unwrap().len().saturating_sub(free)).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

const MAIN: &str = ".claude/projects/-p/640ab4c7-d010-4b20-a591-b7172ef08e66.jsonl";

fn advice(home: &Home, path: &Path, is_deep: bool) -> (bool, String) {
    let diagnosis = quipu_ledger::doctor::doctor(path, &home.roots(), is_deep, &mut |_| {});
    let is_backup = |finding: &Finding| finding.message.contains("it is a backup");
    assert!(!diagnosis.findings.iter().any(is_backup), "{:?}", diagnosis.findings);
    let advice = diagnosis.findings.iter().map(|finding| finding.hint.as_str());
    (diagnosis.is_ok, advice.collect::<Vec<_>>().join("\n"))
}

/// Backs it up to another disk, as the command does.
fn back_up(home: &Home, ledger: &Path, free: u64) {
    let to = home.scratch("backup.db");
    let _ = fs::remove_file(&to);
    let opened = match Ledger::open(ledger) {
        Err(error) if error.trouble() == Trouble::DiskFull => Ledger::open_read_only(ledger),
        opened => opened,
    };
    let target = BackupTarget { path: &to, replace: false };
    let report = quipu_ledger::backup::backup(&mut opened.unwrap(), target, &mut |_| {})
        .unwrap_or_else(|error| panic!("{free} KiB: {error:?}"));
    assert!(report.records >= 1 && to.exists());
}

#[test]
fn f11_a_sound_ledger_is_read_without_room() {
    let home = Home::quick();
    home.write(MAIN, line("user", &uuid(1), None, "alpha"));
    home.sync();
    let Some(disk) = Disk::mount(&home) else { return };
    fs::copy(home.ledger_path(), disk.ledger()).unwrap();
    home.append(MAIN, line("user", &uuid(2), None, "beta"));
    for free in (0..=128).step_by(4) {
        disk.fill(free << 10);
        let mut reader = quipu_ledger::freshness::open_to_read(&disk.ledger(), "here").unwrap();
        let freshness =
            reader.refresh(&home.roots(), "here", RefreshLimit::Unlimited, &mut |_| {}).unwrap();
        assert!(free > 64 || reader.kind == LedgerKind::DiskFull, "{free} KiB");
        assert!(freshness.fresh_as_of > 0);
        let hits: i64 = quipu_ledger::query::sessions(&reader.ledger, &Default::default(), None)
            .map(|sessions| sessions.total as i64)
            .unwrap();
        assert_eq!(hits, 1);
        drop(reader);
        for is_deep in [false, true] {
            let (ok, advice) = advice(&home, &disk.ledger(), is_deep);
            assert!(ok, "{free} KiB: {advice}");
        }
        back_up(&home, &disk.ledger(), free);
        if free > 64 {
            continue;
        }
        let refused = Ledger::open(&disk.ledger()).and_then(|mut ledger| {
            quipu_ledger::collect::collect(&mut ledger, &home.roots(), &mut |_| {})
        });
        assert_eq!(refused.map(|_| ()).unwrap_err().trouble(), Trouble::DiskFull, "{free} KiB");
        fs::remove_file(disk.0.join("fill")).unwrap();
        fs::copy(home.ledger_path(), disk.ledger()).unwrap();
    }
}

/// The disk reports blocks as free that no process can use, not even one of root.
#[test]
fn f11_a_disk_with_a_hidden_reserve_is_full() {
    let home = Home::quick();
    home.write(MAIN, line("user", &uuid(1), None, "alpha"));
    home.sync();
    let Some(disk) = Disk::mount_ext4(&home) else { return };
    fs::copy(home.ledger_path(), disk.ledger()).unwrap();
    disk.fill(0);
    assert!(Command::new("sync").arg("-f").arg(&disk.0).status().unwrap().success());
    let reader = quipu_ledger::freshness::open_to_read(&disk.ledger(), "here").unwrap();
    assert_eq!(reader.kind, LedgerKind::DiskFull);
    let sessions = quipu_ledger::query::sessions(&reader.ledger, &Default::default(), None);
    assert_eq!(sessions.unwrap().total, 1);
    drop(reader);
    let (ok, advice) = advice(&home, &disk.ledger(), true);
    assert!(ok, "{advice}");
    let refused = Ledger::open(&disk.ledger()).map(|_| ()).unwrap_err();
    assert_eq!(refused.trouble(), Trouble::DiskFull, "{refused}");
}

/// A log with records that are not in the file is not ignored.
#[test]
fn f11_a_log_is_not_ignored_on_a_full_disk() {
    let home = Home::quick();
    home.write(MAIN, line("user", &uuid(1), None, "alpha"));
    home.sync();
    let Some(disk) = Disk::mount(&home) else { return };
    // While another process has it open, the log stays.
    let other = home.sql();
    other.query_row("SELECT count(*) FROM records", [], |_| Ok(())).unwrap();
    home.append(MAIN, line("user", &uuid(2), None, "beta"));
    home.sync();
    for suffix in ["", "-wal"] {
        let from = home.ledger_path().with_file_name(format!("ledger.db{suffix}"));
        fs::copy(from, disk.0.join(format!("ledger.db{suffix}"))).unwrap();
    }
    drop(other);
    assert!(fs::metadata(disk.0.join("ledger.db-wal")).unwrap().len() > 0);
    disk.fill(0);
    let error = Ledger::open_read_only(&disk.ledger()).unwrap_err();
    assert!(matches!(error, Error::NoRoom { .. }), "{error:?}");
    assert_eq!(error.trouble(), Trouble::DiskFull);
    let (ok, advice) = advice(&home, &disk.ledger(), true);
    assert!(
        !ok && advice.contains("free some space") && !advice.contains("keep a copy of the file"),
        "{advice}"
    );
    fs::remove_file(disk.0.join("fill")).unwrap();
    let ledger = Ledger::open_read_only(&disk.ledger()).unwrap();
    let status = quipu_ledger::status::status(&ledger, &[]).unwrap();
    assert_eq!(status.ledger.records, 2);
}
