//! Sessions in a database, on the command line.

use std::fs::File;
use std::path::Path;

use crate::home::{Home, snapshot};

const DATABASE: &str = ".openclaw/agents/main/agent/openclaw-agent.sqlite";

fn home() -> Home {
    let home = Home::empty();
    let packed = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../ledger/tests/fixtures/openclaw-2026.9.6/imported.sqlite.zst");
    home.write(DATABASE, zstd::decode_all(File::open(packed).unwrap()).unwrap());
    home
}

#[test]
fn a_database_is_collected_and_restored() {
    let home = home();
    snapshot!(home.run("sync"), @"
    exit 0
    --- stdout
    collected  16 records (5.42 kB) from 2 transcripts in databases, all new
    ");
    snapshot!(home.run("restore 433d5b15-0000-4000-8000-000000000002 --to out"), @"
    exit 0
    --- stdout
    1 file (2.21 kB) restored to ~/out
         size  file
      2.21 kB  openclaw/agents/main/agent/openclaw-agent.sqlite/433d5b15-0000-4000-8000-000000000002.jsonl
    1 file restored from database rows, one event per line
    ");
    let report = home.run("restore --all --to all --json").json();
    assert_eq!(report["files"], 3, "two sessions, and what is said about keys");
    assert_eq!(report["written"][0]["is_from_rows"], true);
    snapshot!(home.run("status"), @"
    exit 0
    --- stdout
    Ledger
      path     ~/.local/share/quipu/ledger.db
      size     [SIZE]
      records  16

    Claude Code
      roots  ~/.claude  does not exist
             ~/.config/claude  does not exist

    OpenClaw
      roots     ~/.openclaw
                ~/.clawdbot  does not exist
                ~/.moltbot  does not exist
                ~/.moldbot  does not exist
      sessions  2 sessions
      records   16 records, 6.79 kB in 2 transcripts of 1 database
      of these  P0 transcripts: 16 records, 6.79 kB in 2 transcripts
    ");
    let cursors = home.run("cursors --json").json_lines();
    assert_eq!(cursors.len(), 3);
    assert_eq!((&cursors[0]["kind"], &cursors[0]["rows"]), (&"database".into(), &2.into()));
    assert_eq!((&cursors[1]["kind"], &cursors[1]["last_row"]), (&"rows".into(), &9.into()));
    snapshot!(home.run("cursors"), @"
    exit 0
    --- stdout
    ~/.openclaw  openclaw
      file                                                                                   read     size  changed           note
      agents/main/agent/openclaw-agent.sqlite                                             667,648  667,648  [MINUTE]  2 transcripts
      agents/main/agent/openclaw-agent.sqlite/433d5b15-0000-4000-8000-000000000001.jsonl    3,217    3,217  [MINUTE]  10 rows
      agents/main/agent/openclaw-agent.sqlite/433d5b15-0000-4000-8000-000000000002.jsonl    2,208    2,208  [MINUTE]  6 rows
    ");
}

#[test]
fn a_database_that_cannot_be_read_is_reported() {
    let home = Home::empty();
    home.write(DATABASE, "no database at all");
    home.run("sync");
    let status = home.run("status --json").json();
    let skipped = &status["formats"][1]["skipped"][0];
    assert_eq!(skipped["reason"], "unreadable: not an SQLite database, or an encrypted one");
    assert_eq!(skipped["paths"][0], "agents/main/agent/openclaw-agent.sqlite");
}

/// An index file that OpenClaw left next to its database. If both lead to the same session, nothing
/// is printed. Otherwise the newer one wins, and the other session is printed.
#[test]
fn a_key_in_two_indexes_leads_to_the_newer_session() {
    let id = "433d5b15-0000-4000-8000-000000000001";
    for (session, time, expected, is_noted) in
        [(id, 1, id, false), ("left", 1, id, true), ("left", 9_000_000_000_000_i64, "left", true)]
    {
        let home = home();
        let folder = ".openclaw/agents/main/sessions";
        let index =
            format!("{{\"agent:main:main\":{{\"sessionId\":\"{session}\",\"updatedAt\":{time}}}}}");
        home.write(format!("{folder}/sessions.json"), index);
        home.write(
            format!("{folder}/left.jsonl"),
            "{\"type\":\"session\",\"version\":3,\"id\":\"left\",\"timestamp\":\"2026-10-01T10:00:00Z\"}\n\
             {\"type\":\"message\",\"id\":\"00000001\",\"message\":{\"role\":\"user\",\"content\":\"hi\"}}\n",
        );
        home.run("sync");
        let run = home.run("show agent:main:main --count --json");
        assert_eq!(run.code, 0, "{run}");
        let shown = home.run("show agent:main:main");
        assert!(shown.stdout.contains(expected), "{shown}");
        assert_eq!(run.stderr.contains("an older index maps"), is_noted, "{run}");
    }
}

#[test]
fn files_and_transcripts_in_databases_are_counted_together() {
    let home = home();
    let database = std::fs::read(home.path(DATABASE)).unwrap();
    std::fs::remove_file(home.path(DATABASE)).unwrap();
    let line = r#"{"type":"message","id":"b1","message":{"role":"user","content":"count"}}"#;
    home.write(".openclaw/agents/main/sessions/s1.jsonl", format!("{line}\n"));
    home.run("sync");
    home.write(DATABASE, database);
    let said = home.run("sync").stdout;
    let counted = "from 2 of 3 sources (1 file on disk and 2 transcripts in databases)";
    assert!(said.contains(counted), "{said}");
}
