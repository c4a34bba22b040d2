//! Unreadable sessions of a database are listed and stored; the other sessions are read.

use quipu_ledger::wire::{FormatStatus, SyncReport};

use crate::home::*;
use crate::rows::{
    DATABASE, change, event, grow, header, loose, put_aside, real, settle, sync, writer,
};

fn openclaw(home: &Home) -> FormatStatus {
    let status = quipu_ledger::status::status(&home.open(), &home.roots()).unwrap();
    status.formats.into_iter().find(|format| format.format == "openclaw").unwrap()
}

/// Returns the unread transcripts of databases in `status`.
fn unread(home: &Home) -> Vec<String> {
    let skipped = openclaw(home).skipped.into_iter().filter(|skipped| skipped.is_in_database);
    skipped
        .map(|skipped| {
            let names = skipped.paths.iter().map(|path| path.rsplit('/').next().unwrap());
            let names: Vec<&str> = names.collect();
            format!("{} {} {}", skipped.files, skipped.reason, names.join(" "))
        })
        .collect()
}

/// Three sessions cannot be read, for two reasons; two can.
#[test]
fn each_unreadable_session_is_listed_with_its_reason() {
    let home = Home::new();
    loose(&home, 4, "");
    grow(&home, "good", 0..3);
    grow(&home, "fine", 0..2);
    grow(&home, &"long".repeat(100), 0..2);
    grow(&home, "", 0..2);
    let odd = format!(
        "INSERT INTO transcript_events (session_id, seq, event_json)
         VALUES ('good', 'text', '{}')",
        event(9, "unnumbered")
    );
    change(&home, &odd);
    let report = sync(&home);
    assert_eq!(report.records_added, 5);
    let expected = [
        &format!(
            "2 unreadable: a session whose id cannot name a file; not read (an empty id) \
             {}… (400 bytes, {})",
            "long".repeat(15),
            &blake3::hash("long".repeat(100).as_bytes()).to_hex()[..8],
        ),
        "1 unreadable: rows without a valid number; not read good.jsonl",
    ];
    let mut found = unread(&home);
    found.sort();
    found.reverse();
    assert_eq!(found, expected);
    let databases = openclaw(&home).database_files;
    let (transcripts, read) = (databases[0].transcripts, databases[0].read_transcripts);
    assert_eq!((databases.len(), transcripts, read), (1, 4, 1));
    assert!(databases[0].path.ends_with("openclaw-agent.sqlite"));
    // A sync that does not open the database still reports them.
    let unreadable_count =
        |report: &SyncReport| report.unreadable().map(|(s, _)| s.files).sum::<u64>();
    let again = sync(&home);
    assert_eq!(
        (again.databases_opened, unreadable_count(&again), unreadable_count(&report)),
        (0, 3, 3)
    );
    assert_eq!((report.database_sources, again.database_sources), (2, 2));
    assert_eq!(openclaw(&home).databases, 1);
    // Once the database is repaired, nothing is reported.
    change(&home, "DELETE FROM transcript_events WHERE typeof(seq) = 'text' OR session_id = ''");
    sync(&home);
    assert_eq!(unread(&home).len(), 1);
}

/// Transcripts that a setting leaves out are listed with the setting.
#[test]
fn transcripts_that_a_setting_leaves_out_are_listed() {
    let home = Home::new();
    real(&home, "imported", DATABASE);
    let conn = writer(&home, DATABASE);
    put_aside(&conn, "old", "g", "deleted", header("old").as_bytes(), "old.jsonl.deleted.x");
    conn.close().unwrap();
    settle(&home.path(DATABASE));
    let selection = |deleted| quipu_ledger::collect::Selection { deleted, ..Default::default() };
    home.sync_selected(selection(false));
    assert_eq!(
        unread(&home),
        ["1 left out by the setting collect.deleted = false old.jsonl.deleted.x"]
    );
    home.sync_selected(selection(true));
    assert!(unread(&home).is_empty());
}

/// A newer schema is reported by every sync, not only when the database is opened.
#[test]
fn a_newer_schema_is_reported_by_every_sync() {
    let home = Home::new();
    loose(&home, 99, "");
    grow(&home, "s", 0..2);
    for opened in [1, 0] {
        let report = sync(&home);
        assert_eq!((report.databases_opened, report.warnings.len()), (opened, 1));
        assert!(report.warnings[0].reason.contains("schema 99"), "{:?}", report.warnings);
    }
    change(&home, "PRAGMA user_version = 23");
    assert!(sync(&home).warnings.is_empty());
}
