//! Every command works on a ledger of every older version. Reading commands do not change the file.

use std::fs;

use crate::home::Home;
use quipu_torture::OLD_LEDGERS;

/// Commands that write to the ledger or migrate it. `{id}` is a session in it.
const WRITING: &[&str] = &[
    "",
    "projects",
    "sessions",
    "show {id}",
    "tree {id}",
    "resume {id}",
    "search the",
    "sync",
    "usage",
    "export {id} --to out",
    "notes",
    "cron",
    "import .openclaw",
    "backup out.db",
    "rebuild",
    "forget {id} --dry-run",
    "forget {id} --yes",
    "session new",
    "session fork {id}",
    "session route --channel telegram --peer 82 --text hello",
    "senders allow telegram:82",
    "senders list",
];

/// Commands that change nothing.
const READING: &[&str] = &[
    "sessions --no-sync",
    "show {id} --no-sync",
    "search the --no-sync",
    "usage --no-sync",
    "status",
    "sql VALUES(1)",
    "restore --all --to out",
    "restore {id} --to out",
    "doctor",
    "doctor --deep",
    "session context {id}",
    "session branch {id}",
    "session leaf {id}",
    "session label {id}",
    "session meta {id}",
    "cursors",
    "backup --restore kept/ledger.db --yes --ledger other.db",
];

/// Returns the id of a session of the ledger.
fn session(home: &Home) -> String {
    let run = home.run("sessions --all --json --no-sync --ledger kept/ledger.db");
    let first = run.stdout.lines().next().unwrap_or_default();
    let session: serde_json::Value = serde_json::from_str(first).unwrap();
    session["session_id"].as_str().unwrap().to_owned()
}

#[test]
fn every_command_works_on_every_older_ledger() {
    let mut failed = Vec::new();
    for old in OLD_LEDGERS {
        for (is_backup, bytes) in [(false, old.ledger()), (true, old.backup())] {
            let home = Home::small();
            home.write("kept/ledger.db", &bytes);
            let id = session(&home);
            let commands = READING.iter().chain(WRITING.iter().filter(|_| !is_backup));
            for command in commands {
                let is_reading = READING.contains(command);
                if !is_reading {
                    fs::remove_dir_all(home.path("kept")).unwrap();
                    home.write("kept/ledger.db", &bytes);
                }
                for made in ["out", "out.db", "other.db"].map(|made| home.path(made)) {
                    let _ = fs::remove_dir_all(&made).or_else(|_| fs::remove_file(&made));
                }
                let mut command = command.replace("{id}", &id);
                if !command.contains("--ledger") {
                    command.push_str(" --ledger kept/ledger.db");
                }
                let run = home.run(&command);
                // A command that finds nothing exits with 1.
                let may_find_nothing =
                    ["resume", "search"].iter().any(|it| command.starts_with(it));
                if run.code > i32::from(may_find_nothing) {
                    failed.push(format!("{}: backup {is_backup}: {command}: {run}", old.name));
                }
                let now = fs::read(home.path("kept/ledger.db")).unwrap();
                if is_reading && now != bytes {
                    failed.push(format!("{}: {command} changed the ledger", old.name));
                    home.write("kept/ledger.db", &bytes);
                }
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
