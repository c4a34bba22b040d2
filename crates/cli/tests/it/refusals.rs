//! Ledgers that cannot be used: refused with a hint, and not changed.

use std::fs;

use crate::home::{Home, Run, files, snapshot};

/// Every command that opens the ledger.
const COMMANDS: [&str; 7] =
    ["", "sync", "status", "cursors", "rebuild", "restore --all --to out", "backup out.db"];

#[track_caller]
fn refused(home: &Home, ledger: &str) -> Run {
    let before = files(&home.path("kept"));
    for command in COMMANDS {
        let run = home.run(&format!("{command} --ledger kept/{ledger}"));
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{command}: {run}");
        assert!(run.stderr.contains("\nhint: "), "{command}: {run}");
    }
    let run = home.run(&format!("sync --ledger kept/{ledger}"));
    assert!(before == files(&home.path("kept")), "something was changed, or left beside it");
    run
}

/// Only collecting creates a ledger; without one there are no results.
#[test]
fn without_a_ledger_nothing_is_created() {
    let home = Home::small();
    let said = |command: &str, code| {
        let run = home.run(command);
        assert_eq!(run.code, code, "{command}: {run}");
        assert!(!home.path(".local").exists(), "{command}");
        run.stdout + &run.stderr
    };
    insta::assert_snapshot!(said("cursors", 0), @"no files were collected yet; run `quipu sync`");
    insta::assert_snapshot!(said("rebuild", 0), @"nothing to rebuild: there is no ledger yet; run `quipu sync`");
    insta::assert_snapshot!(said("restore --all --to out", 0), @"nothing to restore: the ledger has no files yet");
    insta::assert_snapshot!(said("senders list", 0), @"no senders");
    for command in ["restore 0000 --to out", "forget 0000", "session context 0000"] {
        let said = said(command, 1);
        assert!(said.starts_with("error: no session matches `0000`\n"), "{command}: {said}");
    }
    assert!(said("restore --source x --to out", 1).starts_with("error: no file matches `x`\n"));
    for command in ["cursors --json", "senders list --json"] {
        assert!(said(command, 1).starts_with("{\"error\":\"no_match\""), "{command}");
    }
    // A named ledger has to exist, and a backup that cannot be made is an error.
    for command in ["cursors", "rebuild", "restore --all --to out", "senders list"] {
        let run = home.run(&format!("{command} --ledger typo.db"));
        assert_eq!(run.code, 2, "{command}: {run}");
    }
    snapshot!(home.run("backup out.db"), @"
    exit 2
    --- stderr
    error: there is no ledger at [HOME]/.local/share/quipu/ledger.db
    hint: run `quipu sync` to create one, or name another ledger with --ledger
    ");
}

#[test]
fn a_text_file_is_no_ledger() {
    let home = Home::small();
    home.write("kept/notes.txt", "my notes\n".repeat(100));
    snapshot!(refused(&home, "notes.txt"), @"
    exit 2
    --- stderr
    error: [HOME]/kept/notes.txt is not a quipu ledger: it is not an SQLite file
    hint: nothing was changed; name the ledger with --ledger, or see `quipu --ledger kept/notes.txt config show`
    ");
}

#[test]
fn an_empty_file_is_no_ledger() {
    let home = Home::small();
    home.write("kept/empty", "");
    snapshot!(refused(&home, "empty"), @"
    exit 2
    --- stderr
    error: [HOME]/kept/empty is not a quipu ledger: it is too short
    hint: nothing was changed; name the ledger with --ledger, or see `quipu --ledger kept/empty config show`
    ");
}

#[test]
fn a_folder_is_no_ledger() {
    let home = Home::small();
    home.write("kept/folder/file", "");
    snapshot!(refused(&home, "folder"), @"
    exit 2
    --- stderr
    error: [HOME]/kept/folder is not a quipu ledger: it is a folder
    hint: nothing was changed; name the ledger with --ledger, or see `quipu --ledger kept/folder config show`
    ");
}

#[test]
fn a_database_of_another_program_is_no_ledger() {
    let home = Home::small();
    home.run("sync --ledger kept/other.db");
    change(&home, 68, [1, 2, 3, 4]);
    snapshot!(refused(&home, "other.db"), @"
    exit 2
    --- stderr
    error: [HOME]/kept/other.db is not a quipu ledger: it is an SQLite file of another program
    hint: nothing was changed; name the ledger with --ledger, or see `quipu --ledger kept/other.db config show`
    ");
}

#[test]
fn a_newer_ledger_is_refused() {
    let home = Home::small();
    home.run("sync --ledger kept/other.db");
    change(&home, 60, [0, 0, 0, 99]);
    snapshot!(refused(&home, "other.db"), @"
    exit 2
    --- stderr
    error: [HOME]/kept/other.db was written by a newer quipu (schema 99, this one knows 5)
    hint: nothing was changed; use a newer quipu with this ledger
    ");
}

#[test]
fn a_path_below_a_file_is_an_error() {
    let home = Home::small();
    home.write("kept/file", "text");
    snapshot!(refused(&home, "file/ledger.db"), @"
    exit 2
    --- stderr
    error: cannot look at [HOME]/kept/file/ledger.db
      caused by: not a directory (os error 20)
    hint: `quipu --ledger kept/file/ledger.db config show` prints which ledger is used
    ");
}

/// Changes four bytes of the SQLite header.
fn change(home: &Home, offset: usize, bytes: [u8; 4]) {
    let path = home.path("kept/other.db");
    let mut file = fs::read(&path).unwrap();
    file[offset..offset + 4].copy_from_slice(&bytes);
    fs::write(&path, file).unwrap();
}

/// SQLite would wait for its writer forever.
#[test]
fn a_pipe_in_the_place_of_the_journal_is_an_error() {
    let home = Home::small();
    home.run("sync --ledger kept/other.db");
    let pipe = home.path("kept/other.db-journal");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let before = fs::metadata(home.path("kept/other.db")).unwrap().modified().unwrap();
    for command in COMMANDS.into_iter().chain(["sql VALUES(1)", "session leaf x", "senders list"]) {
        let run = home.run(&format!("{command} --ledger kept/other.db"));
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{command}: {run}");
        assert!(run.stderr.contains("other.db-journal is a named pipe;"), "{command}: {run}");
        assert!(run.stderr.contains("hint: nothing was changed; move it away"), "{command}: {run}");
    }
    let run = home.run("doctor --ledger kept/other.db");
    assert_eq!(run.code, 1, "{run}");
    assert!(run.stdout.contains("other.db-journal is a named pipe"), "{run}");
    assert_eq!(fs::metadata(home.path("kept/other.db")).unwrap().modified().unwrap(), before);
}

/// A mistyped name does not create a ledger.
#[test]
fn reading_creates_no_ledger() {
    let home = Home::small();
    for command in ["sessions", "search checkout", "usage", "show last", "projects", "notes"] {
        let run = home.run(&format!("{command} --ledger typo.db"));
        assert_eq!(run.code, 2, "{command}: {run}");
        assert!(!home.path("typo.db").exists(), "{command}");
    }
    snapshot!(home.run("sessions --ledger typo.db"), @"
    exit 2
    --- stderr
    error: there is no ledger at ~/typo.db
    hint: `quipu --ledger typo.db sync` creates one
    ");
    assert_eq!(home.run_with("sessions", &[("QUIPU_LEDGER", "typo.db")]).code, 2);
    assert!(!home.path("typo.db").exists());
    assert_eq!(home.run("sync --ledger made.db").code, 0);
    assert_eq!(home.run("sessions --ledger made.db").code, 0);
    home.run("backup copy.db --ledger made.db");
    let run = home.run("sessions --ledger copy.db");
    assert!(run.stderr.contains("this is a backup") && !run.stderr.contains("sync"), "{run}");
}
