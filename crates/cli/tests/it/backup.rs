//! `quipu backup`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::home::{Home, files, snapshot};

#[test]
fn a_backup_is_one_checked_file() {
    let home = Home::small();
    home.run("sync");
    fs::create_dir(home.path("disk")).unwrap();
    insta::with_settings!({filters => vec![(r"\([\d.]+ [kM]B\)", "([SIZE])")]}, {
        insta::assert_snapshot!(home.run("backup disk/copy.db"), @"
        exit 0
        --- stdout
        5 sessions, 2 sub-agents, 55 records ([SIZE]) copied to ~/disk/copy.db and checked
        ");
    });
    let names: Vec<_> =
        fs::read_dir(home.path("disk")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["copy.db"], "one file, and nothing beside it");
    let mode = fs::metadata(home.path("disk/copy.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let status = home.run("status --json").json();
    let copied = home.run("status --json --ledger disk/copy.db").json();
    assert_eq!(status["formats"], copied["formats"]);
}

#[test]
fn a_backup_is_not_written_to() {
    let home = Home::small();
    home.run("sync");
    home.run("backup copy.db");
    for command in ["sync", "rebuild", "session new --key agent:main:main"] {
        let run = home.run(&format!("{command} --ledger copy.db"));
        assert_eq!(run.code, 2, "{command}: {run}");
        assert!(run.stderr.contains("copy.db is a backup"), "{command}: {run}");
    }
    snapshot!(home.run("sync --ledger copy.db"), @"
    exit 2
    --- stderr
    error: [HOME]/copy.db is a backup, and backups are read-only
    hint: a backup is only read; `backup --restore FILE` replaces the ledger with it
    ");
    // A copy of a copy gets none of its changes.
    assert_eq!(home.run("backup another.db --ledger copy.db").code, 0);
    assert!(!home.path("copy.db.lock").exists());
}

#[test]
fn json_reports_the_copy() {
    let home = Home::small();
    home.run("sync");
    let report = home.run("backup copy.db --json").json();
    assert_eq!(report["path"], "[HOME]/copy.db");
    assert_eq!(report["bytes"].as_u64(), Some(fs::metadata(home.path("copy.db")).unwrap().len()));
    assert_eq!((report["records"].as_u64(), report["sessions"].as_u64()), (Some(55), Some(5)));
    assert_eq!(report["is_recorded"], true);
    assert!(report["duration_ms"].as_u64().is_some());
}

#[test]
fn nothing_is_overwritten_without_force() {
    let home = Home::small();
    home.run("sync");
    home.write("copy.db", "precious");
    snapshot!(home.run("backup copy.db"), @"
    exit 2
    --- stderr
    error: [HOME]/copy.db already exists
    hint: nothing was changed; name another file, or replace this one with --force
    ");
    assert_eq!(fs::read(home.path("copy.db")).unwrap(), b"precious");
    assert_eq!(home.run("backup copy.db --force").code, 0);
    assert_eq!(home.run("status --ledger copy.db").code, 0);
}

#[test]
fn an_error_names_what_is_in_the_way() {
    let home = Home::small();
    home.run("sync");
    fs::create_dir(home.path("folder")).unwrap();
    std::os::unix::fs::symlink(home.path("elsewhere"), home.path("link")).unwrap();
    let before = files(&home.path(".local"));
    snapshot!(home.run("backup folder"), @"
    exit 2
    --- stderr
    error: cannot write a backup to [HOME]/folder: it is a folder; name a file in it
    hint: nothing was changed; name another file
    ");
    snapshot!(home.run("backup link --force"), @"
    exit 2
    --- stderr
    error: cannot write a backup to [HOME]/link: it is a symbolic link; name the file itself
    hint: nothing was changed; name another file
    ");
    snapshot!(home.run("backup .local/share/quipu/ledger.db-wal --force"), @"
    exit 2
    --- stderr
    error: cannot write a backup to [HOME]/.local/share/quipu/ledger.db-wal: it is the ledger itself, or belongs to it
    hint: nothing was changed; name another file
    ");
    snapshot!(home.run("backup nowhere/copy.db"), @"
    exit 2
    --- stderr
    error: cannot create a file beside [HOME]/nowhere/copy.db
      caused by: no such file or directory (os error 2)
    hint: name a file in a folder that exists and is writable
    ");
    assert!(before == files(&home.path(".local")), "the ledger was changed");
}

#[test]
fn a_backup_is_restored_and_the_old_ledger_is_kept() {
    let home = Home::small();
    home.run("sync");
    home.run("backup copy.db");
    fs::remove_dir_all(home.path(".openclaw")).unwrap();
    home.run("sync");
    let filters = vec![(r"before-\d{8}T\d{6}Z", "before-[TIME]")];
    insta::with_settings!({filters => filters}, {
        insta::assert_snapshot!(home.run("backup --restore copy.db --yes"), @"
        exit 0
        --- stdout
        5 sessions, 2 sub-agents, 55 records restored to ~/.local/share/quipu/ledger.db
          kept  ~/.local/share/quipu/ledger.db.before-[TIME]  the old ledger
          next  `quipu sync` collects everything written since the backup
        ");
    });
    assert_eq!(home.run("sync").code, 0);
    let report = home.run("backup --restore copy.db --yes --json").json();
    assert_eq!(report["ledger_path"], "[HOME]/.local/share/quipu/ledger.db");
    assert_eq!((report["records"].as_u64(), report["sessions"].as_u64()), (Some(55), Some(5)));
    assert!(report["former_ledger_path"].as_str().unwrap().contains("ledger.db.before-"));
    assert_eq!(report["forgotten_session_ids"].as_array().unwrap().len(), 0);
}

#[test]
fn only_an_intact_backup_is_restored_after_a_confirmation() {
    let home = Home::small();
    home.run("sync");
    home.run("backup copy.db");
    let before = files(&home.path(".local"));
    snapshot!(home.run("backup --restore copy.db"), @"
    exit 2
    --- stderr
    error: restoring a backup replaces the ledger
    hint: there is no terminal to ask on; use --yes to restore
    ");
    snapshot!(home.run("backup --restore nothing.db --yes"), @"
    exit 2
    --- stderr
    error: there is no ledger at [HOME]/nothing.db
    hint: name a file that `quipu backup` wrote
    ");
    home.write("notes.db", "my notes\n".repeat(100));
    snapshot!(home.run("backup --restore notes.db --yes"), @"
    exit 2
    --- stderr
    error: [HOME]/notes.db is not a quipu ledger: it is not an SQLite file
    hint: nothing was changed; name a file that `quipu backup` wrote
    ");
    snapshot!(home.run("backup --restore .local/share/quipu/ledger.db --yes"), @"
    exit 2
    --- stderr
    error: [HOME]/.local/share/quipu/ledger.db is the ledger itself
    hint: nothing was changed; name a file that `quipu backup` wrote
    ");
    let mut cut = fs::read(home.path("copy.db")).unwrap();
    cut.truncate(cut.len() / 2);
    home.write("cut.db", cut);
    let run = home.run("backup --restore cut.db --yes");
    assert_eq!(run.code, 2, "{run}");
    assert!(run.stderr.contains("cut.db is not an intact copy"), "{run}");
    assert!(before == files(&home.path(".local")), "the ledger was changed");
    // A file that is not a ledger is moved away only with --force.
    fs::write(home.ledger(), "scribbled over").unwrap();
    snapshot!(home.run("backup --restore copy.db --yes"), @"
    exit 2
    --- stderr
    error: [HOME]/.local/share/quipu/ledger.db is not a quipu ledger: it is too short
    hint: nothing was changed; use --force to keep that file under another name and restore anyway
    ");
    let report = home.run("backup --restore copy.db --yes --force --json").json();
    let kept = report["former_ledger_path"].as_str().unwrap().replace("[HOME]/", "");
    assert_eq!(fs::read(home.path(kept)).unwrap(), b"scribbled over");
    assert_eq!(home.run("status").code, 0);
}

/// A backup of another ledger must not replace this one by mistake.
#[test]
fn a_copy_of_another_ledger_needs_force() {
    let home = Home::small();
    home.run("sync");
    home.run("sync --ledger other.db");
    home.run("backup copy.db --ledger other.db");
    let before = fs::read(home.ledger()).unwrap();
    snapshot!(home.run("backup --restore copy.db"), @"
    exit 2
    --- stderr
    error: restoring a backup replaces the ledger
    hint: it is a copy of another ledger, and there is no terminal to ask on; use --yes --force to restore it
    ");
    snapshot!(home.run("backup --restore copy.db --yes"), @"
    exit 2
    --- stderr
    error: ~/copy.db is a copy of another ledger, not of ~/.local/share/quipu/ledger.db
    hint: nothing was changed; use --force to replace the ledger anyway
    ");
    assert!(before == fs::read(home.ledger()).unwrap());
    assert_eq!(home.run("backup --restore copy.db --yes --force").code, 0);
    // It is this ledger now.
    assert_eq!(home.run("backup --restore copy.db --yes").code, 0);
}
