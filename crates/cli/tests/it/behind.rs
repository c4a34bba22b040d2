//! A rebuild that runs, or that was interrupted: no command reports that there are no sessions when
//! only their records are not projected yet, and every answer names what is missing from it.

use std::fs::{self, File};
use std::path::Path;

use rusqlite::Connection;

use crate::home::{Home, snapshot};

fn ledger(home: &Home) -> Connection {
    Connection::open(home.ledger()).unwrap()
}

/// Brings a ledger into the state of a rebuild that has just begun.
pub(crate) fn begin_rebuild(ledger: &Path) {
    let empty: String =
        ["sessions", "session_keys", "session_sources", "usage_quarters", "entry_rows"]
            .map(|table| format!("DELETE FROM {table};"))
            .concat();
    let search = "INSERT INTO search (search) VALUES ('delete-all');";
    let begin = "UPDATE ledger SET projected_to = 0";
    // The order of the tables does not matter, as in a rebuild.
    let any_order = "PRAGMA foreign_keys = OFF;";
    let all = format!("{any_order}{empty}{search}{begin}");
    Connection::open(ledger).unwrap().execute_batch(&all).unwrap();
}

#[test]
fn an_empty_answer_is_an_error() {
    let home = Home::small();
    home.run("sync");
    begin_rebuild(&home.ledger());
    // Another process is rebuilding it.
    let lock = File::options().append(true).open(home.path(".local/share/quipu/ledger.db.lock"));
    let lock = lock.unwrap();
    lock.lock().unwrap();
    let commands = [
        "sessions",
        "sessions --project shop",
        "projects",
        "projects shop",
        "search hello",
        "usage --all",
        "cron",
        "notes",
        "export --all --to out",
    ];
    for command in commands {
        for options in ["", " --no-sync", " -q", " --json", " --json -q"] {
            let run = home.run(&format!("{command}{options}"));
            assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{command}{options}: {run}");
            assert!(run.stderr.contains("0 of 55 records are done"), "{command}{options}: {run}");
        }
    }
    snapshot!(home.run("sessions -q"), @"
    exit 2
    --- stderr
    error: the readable tables of [HOME]/.local/share/quipu/ledger.db are being rebuilt: 0 of 55 records are done
    hint: try again when the rebuild is done; `quipu sync` finishes one that was interrupted, and has to be able to write to the ledger
    ");
    // A rebuild counts the same number of records.
    drop(lock);
    let report = home.run("rebuild --json").json();
    assert_eq!(report["records"], 55);
    assert_eq!(home.run("sessions").code, 0);
}

/// Answers from a part of the records carry a mark, even in lists.
#[test]
fn an_incomplete_answer_has_a_mark() {
    let home = Home::small();
    home.run("sync");
    let conn = ledger(&home);
    conn.execute_batch("UPDATE ledger SET projected_to = projected_to - 9").unwrap();
    let missing =
        "SELECT count(*) FROM records, ledger WHERE seq > projected_to AND generation > 1";
    let missing: i64 = conn.query_row(missing, [], |row| row.get(0)).unwrap();
    assert!(missing > 1);
    for command in ["sessions", "projects", "usage --all", "tree 00000001"] {
        let run = home.run(&format!("{command} --json -q --no-sync"));
        assert_eq!(run.code, 0, "{command}: {run}");
        for line in run.stdout.lines() {
            let object: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(object["unprojected_records"], missing, "{command}: {line}");
        }
    }
    let warned = home.run("sessions --no-sync");
    let told = format!("{missing} records are not in the readable tables yet");
    assert!(warned.stderr.contains(&told), "{warned}");
}

/// The leaf needs only a snapshot that has the session, although a line of it is not projected yet.
#[test]
fn a_leaf_is_read_while_another_process_holds_the_lock() {
    let home = Home::small();
    let id = home.run("session new --key agent:main:main").stdout;
    let append = ["session", "append", "agent:main:main"];
    let mut last = String::new();
    for text in ["one", "two"] {
        let entry = format!(r#"{{"role":"user","content":"{text}"}}"#);
        last = home.feed(&append, &entry).json()["id"].as_str().unwrap().to_owned();
    }
    let conn = ledger(&home);
    conn.execute_batch("UPDATE ledger SET projected_to = projected_to - 1; BEGIN IMMEDIATE")
        .unwrap();
    let leaf = home.run(&format!("session leaf {}", id.trim()));
    assert_eq!((leaf.code, leaf.stdout.trim()), (0, last.as_str()), "{leaf}");
}

/// A ledger of an older version is migrated by commands that write, not by lists and dry runs.
#[test]
fn lists_and_dry_runs_do_not_migrate() {
    for old in quipu_torture::OLD_LEDGERS {
        let home = Home::empty();
        fs::create_dir(home.path("kept")).unwrap();
        fs::write(home.path("kept/ledger.db"), old.ledger()).unwrap();
        let session = home.run("sessions --json -n 1 --no-sync --ledger kept/ledger.db").json();
        let session = session["session_id"].as_str().unwrap();
        let before = fs::read(home.path("kept/ledger.db")).unwrap();
        for command in [format!("forget {session} --dry-run"), "senders list".to_owned()] {
            let run = home.run(&format!("{command} --ledger kept/ledger.db"));
            assert_eq!(run.code, 0, "{}: {command}: {run}", old.name);
            let after = fs::read(home.path("kept/ledger.db")).unwrap();
            assert!(after == before, "{}: {command} changed the file", old.name);
        }
    }
}
