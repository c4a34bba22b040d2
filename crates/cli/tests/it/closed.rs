//! Ledgers that a user may read but not write to. The tests drop privileges if they run as root,
//! and are skipped if that is impossible.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Stdio};

use crate::home::{Home, Run, files};

/// The uid of a user without privileges who owns no file.
const NOBODY: u32 = 65534;

/// Runs `quipu` as a user whom permissions restrict; `None` if that is impossible.
fn run(home: &Home, arguments: &str) -> Option<Run> {
    let command = home.command(arguments.split_whitespace());
    if !rustix::process::geteuid().is_root() {
        return Some(home.finish(command));
    }
    let nobody = |command: &Command| {
        let mut other = Command::new("setpriv");
        other.args([&format!("--reuid={NOBODY}"), "--regid=65534", "--clear-groups"]);
        other.arg(command.get_program()).args(command.get_args());
        other.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home.path("")).env("TZ", "UTC");
        other.current_dir(home.path("")).stdin(Stdio::null());
        other
    };
    let can_run = nobody(&home.command(["--version"])).output();
    let can_run = can_run.is_ok_and(|output| output.status.success());
    can_run.then(|| home.finish(nobody(&command)))
}

/// Creates a home with a ledger that was closed properly.
fn collected() -> Home {
    let home = Home::small();
    assert_eq!(home.run("sync --ledger kept/ledger.db").code, 0);
    fs::set_permissions(home.path(""), Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(home.path("free")).unwrap();
    fs::set_permissions(home.path("free"), Permissions::from_mode(0o777)).unwrap();
    for name in ["ledger.db.lock", "ledger.db.wait", "ledger.db-wal", "ledger.db-shm"] {
        let _ = fs::remove_file(home.path("kept").join(name));
    }
    home
}

/// Sets the modes and the owner of the ledger's folder and file.
fn close(home: &Home, folder: u32, file: u32, owner: u32) {
    let (kept, ledger) = (home.path("kept"), home.path("kept/ledger.db"));
    if rustix::process::geteuid().is_root() {
        chown(&kept, Some(owner), Some(owner)).unwrap();
        chown(&ledger, Some(owner), Some(owner)).unwrap();
    }
    fs::set_permissions(&ledger, Permissions::from_mode(file)).unwrap();
    fs::set_permissions(&kept, Permissions::from_mode(folder)).unwrap();
}

#[test]
fn a_ledger_in_a_read_only_folder_is_read() {
    for (folder, file, owner) in [(0o500, 0o600, NOBODY), (0o500, 0o400, NOBODY), (0o755, 0o644, 0)]
    {
        let home = collected();
        close(&home, folder, file, owner);
        let before = files(&home.path("kept"));
        for command in [
            "",
            "status",
            "sessions",
            "sessions --no-sync",
            "cursors",
            "restore --all --to free/out",
            "backup free/copy.db",
        ] {
            let Some(run) = run(&home, &format!("{command} --ledger kept/ledger.db")) else {
                return;
            };
            assert_eq!(run.code, 0, "{folder:o} {file:o}: {command}: {run}");
            if matches!(command, "" | "sessions") {
                // A read-only folder alone does not make it a backup.
                assert!(run.stderr.contains("the ledger is read-only"), "{run}");
            }
        }
        assert!(before == files(&home.path("kept")), "something was changed, or left beside it");
        close(&home, 0o700, 0o600, 0);
    }
}

/// Every writing command reports the folder that it may not write to.
#[test]
fn writing_in_a_read_only_folder_is_an_error_that_names_it() {
    let home = collected();
    for name in ["kept/ledger.db.lock", "kept/ledger.db.wait"].map(|name| home.path(name)) {
        fs::write(&name, []).unwrap();
        if rustix::process::geteuid().is_root() {
            chown(&name, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    close(&home, 0o555, 0o600, NOBODY);
    let commands =
        ["sync", "session new", "senders allow telegram:82", "rebuild", "import .openclaw"];
    for command in commands {
        let Some(run) = run(&home, &format!("{command} --ledger kept/ledger.db")) else {
            quipu_torture::skip("this machine cannot run a program as a user without privileges");
            return;
        };
        assert_eq!(run.code, 2, "{command}: {run}");
        assert!(run.stderr.contains("cannot create a file in [HOME]/kept\n"), "{command}: {run}");
        assert!(run.stderr.contains("make the ledger and its folder writable"), "{command}: {run}");
    }
    close(&home, 0o700, 0o600, 0);
}

/// A read-only file in a writable folder.
#[test]
fn a_read_only_ledger_is_read() {
    let home = collected();
    close(&home, 0o700, 0o400, NOBODY);
    for command in ["status", "cursors", "restore --all --to free/out", "backup free/copy.db"] {
        let Some(run) = run(&home, &format!("{command} --ledger kept/ledger.db")) else { return };
        assert_eq!(run.code, 0, "{command}: {run}");
    }
}

#[test]
fn a_log_that_cannot_be_opened_is_an_error() {
    let home = collected();
    // The files that a killed process leaves behind, after a restart of the machine.
    fs::write(home.path("kept/ledger.db-wal"), vec![7; 4096]).unwrap();
    fs::set_permissions(home.path("kept/ledger.db-wal"), Permissions::from_mode(0o644)).unwrap();
    close(&home, 0o755, 0o644, 0);
    if !rustix::process::geteuid().is_root() {
        close(&home, 0o555, 0o444, 0);
    }
    let Some(run) = run(&home, "status --ledger kept/ledger.db") else { return };
    close(&home, 0o700, 0o600, 0);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run}");
    assert!(run.stderr.contains("are in its write-ahead log"), "{run}");
    assert!(run.stderr.contains("hint: copy the ledger and the file"), "{run}");
}

/// `chmod 444`, one read, `chmod 600`: no file is left that makes the ledger read-only.
#[test]
fn a_ledger_that_was_read_only_is_written_to_again() {
    let home = collected();
    close(&home, 0o700, 0o444, NOBODY);
    for command in ["sessions", "sessions --no-sync", "status"] {
        let Some(run) = run(&home, &format!("{command} --ledger kept/ledger.db")) else {
            quipu_torture::skip("this machine cannot run a program as a user without privileges");
            return;
        };
        assert_eq!(run.code, 0, "{command}: {run}");
    }
    assert!(!home.path("kept/ledger.db-shm").exists(), "shared memory was left beside it");
    close(&home, 0o700, 0o600, NOBODY);
    let Some(synced) = run(&home, "sync --ledger kept/ledger.db") else { return };
    assert_eq!(synced.code, 0, "{synced}");

    // Earlier releases left these files; their mode is corrected.
    let leave = |owner: u32| {
        for name in ["kept/ledger.db-wal", "kept/ledger.db-shm"].map(|name| home.path(name)) {
            let _ = fs::remove_file(&name);
            fs::write(&name, []).unwrap();
            fs::set_permissions(&name, Permissions::from_mode(0o444)).unwrap();
            if rustix::process::geteuid().is_root() {
                chown(&name, Some(owner), Some(owner)).unwrap();
            }
        }
    };
    leave(NOBODY);
    let Some(synced) = run(&home, "sync --ledger kept/ledger.db") else { return };
    assert_eq!(synced.code, 0, "{synced}");

    // Files of another user cannot be corrected; the error names the first of them.
    if rustix::process::geteuid().is_root() {
        leave(0);
        let Some(refused) = run(&home, "sync --ledger kept/ledger.db") else { return };
        assert_eq!(refused.code, 2, "{refused}");
        assert!(refused.stderr.contains("ledger.db-wal"), "{refused}");
    }
}

/// The hints after an interrupted rebuild name a command that helps.
#[test]
fn an_interrupted_rebuild_of_a_read_only_ledger_is_reported() {
    let home = collected();
    let ledger = home.path("kept/ledger.db");
    crate::behind::begin_rebuild(&ledger);
    close(&home, 0o500, 0o400, NOBODY);
    for command in ["leaf", "context", "branch", "meta"] {
        let command = format!("session {command} 00000001 --ledger kept/ledger.db");
        let Some(run) = run(&home, &command) else {
            quipu_torture::skip("this machine cannot run a program as a user without privileges");
            return;
        };
        assert_eq!(run.code, 2, "{command}: {run}");
        assert!(!run.stderr.contains("`quipu session context`"), "{command}: {run}");
        assert!(run.stderr.contains("0 of 55 records are done"), "{command}: {run}");
        assert!(run.stderr.contains("has to be able to write"), "{command}: {run}");
    }
    close(&home, 0o700, 0o600, 0);
}

/// A file beside the ledger that may not be read is named. It belongs to the same user.
#[test]
fn a_companion_that_cannot_be_read_is_named() {
    for suffix in ["-shm", "-wal"] {
        let home = collected();
        for companion in ["-wal", "-shm"] {
            let path = home.path(format!("kept/ledger.db{companion}"));
            fs::write(&path, []).unwrap();
            let mode = if companion == suffix { 0o000 } else { 0o666 };
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        }
        close(&home, 0o700, 0o600, NOBODY);
        for command in ["sessions", "sessions --no-sync", "status", "session leaf 0000", "sync"] {
            let Some(run) = run(&home, &format!("{command} --ledger kept/ledger.db")) else {
                quipu_torture::skip(
                    "this machine cannot run a program as a user without privileges",
                );
                return;
            };
            assert_eq!(run.code, 2, "{command}: {run}");
            let file = format!("[HOME]/kept/ledger.db{suffix}\n");
            assert!(run.stderr.contains(&file), "{command}: {run}");
            assert!(
                run.stderr.contains("the owner and the mode of the ledger")
                    && !run.stderr.contains("another user"),
                "{command}: {run}"
            );
        }
        let Some(run) = run(&home, "doctor --ledger kept/ledger.db") else { return };
        let told = run.stdout.replace('\n', " ");
        assert!(run.code == 1 && told.contains(&format!("ledger.db{suffix}")), "{run}");
        close(&home, 0o700, 0o600, 0);
    }
}

/// A ledger of an older version that cannot be migrated in place.
#[test]
fn an_old_ledger_in_a_read_only_folder_is_read() {
    for old in quipu_torture::OLD_LEDGERS {
        let home = collected();
        fs::write(home.path("kept/ledger.db"), old.ledger()).unwrap();
        close(&home, 0o500, 0o400, NOBODY);
        let before = files(&home.path("kept"));
        for command in ["sessions", "status", "restore --all --to free/out"] {
            let Some(run) = run(&home, &format!("{command} --ledger kept/ledger.db")) else {
                quipu_torture::skip(
                    "this machine cannot run a program as a user without privileges",
                );
                return;
            };
            assert_eq!(run.code, 0, "{}: {command}: {run}", old.name);
        }
        assert!(before == files(&home.path("kept")), "something was changed, or left beside it");
        close(&home, 0o700, 0o600, 0);
    }
}
