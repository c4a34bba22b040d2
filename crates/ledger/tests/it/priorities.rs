//! The person's selection of files, and the treatment of all others.

use quipu_ledger::collect::Selection;
use quipu_ledger::wire::FormatStatus;

use crate::home::*;

const LIVE: &str = ".openclaw/agents/main/sessions/s1.jsonl";
const DELETED: &str = ".openclaw/agents/main/sessions/s2.jsonl.deleted.2026-02-04T10-30-00.000Z";
const RUNS: &str = ".openclaw/cron/runs/j.jsonl";
const NOTE: &str = ".openclaw/workspace/MEMORY.md";
const LINE: &str = "{\"role\":\"user\",\"content\":\"hello\"}\n";

fn home() -> Home {
    let home = Home::quick();
    home.write(LIVE, LINE);
    home.write(DELETED, LINE);
    home.write(RUNS, "{\"ts\":1769845500000,\"jobId\":\"j\",\"status\":\"ok\"}\n");
    home.write(".openclaw/cron/jobs.json", "{\"jobs\":[]}");
    home.write(NOTE, "tea");
    home
}

fn up_to(priority: u8) -> Selection {
    Selection { priority, ..Selection::default() }
}

fn without_deleted() -> Selection {
    Selection { deleted: false, ..Selection::default() }
}

#[track_caller]
fn status(home: &Home, selection: Selection) -> FormatStatus {
    let mut roots = home.roots();
    roots.iter_mut().for_each(|root| root.selection = selection);
    let status = quipu_ledger::status::status(&home.open(), &roots).unwrap();
    status.formats.into_iter().find(|format| format.format == "openclaw").unwrap()
}

fn groups(status: &FormatStatus) -> Vec<(u8, u64, u64)> {
    status.priorities.iter().map(|group| (group.priority, group.sources, group.records)).collect()
}

#[test]
fn r50_a_setting_limits_the_priority() {
    for (priority, sources) in [(0, 2), (1, 4), (2, 5)] {
        let home = home();
        let report = home.sync_selected(up_to(priority));
        assert_eq!(report.sources, sources, "{priority}");
        let reason = format!("left out by the setting collect.priority = {priority}");
        let skipped = report.skipped.iter().find(|skipped| skipped.reason == reason);
        assert_eq!(skipped.map_or(0, |skipped| skipped.files), 5 - sources, "{priority}");
        let status = status(&home, up_to(priority));
        assert_eq!(status.sources, sources);
        assert_eq!(status.skipped.iter().any(|skipped| skipped.reason == reason), sources < 5);
        home.assert_rebuilds();
    }
}

#[test]
fn r50_status_groups_by_priority() {
    let home = home();
    home.sync();
    let status = status(&home, Selection::default());
    assert_eq!(groups(&status), [(0, 2, 2), (1, 2, 2), (2, 1, 1)]);
    assert_eq!(status.priorities.iter().map(|group| group.bytes).sum::<u64>(), status.bytes);
    assert_eq!(status.priorities[2].bytes, 3);
    // An index and a database have the first priority.
    home.write(".openclaw/agents/main/sessions/sessions.json", r#"{"k": {"sessionId": "s"}}"#);
    let database = home.path(".openclaw/agents/main/agent/openclaw-agent.sqlite");
    std::fs::create_dir_all(database.parent().unwrap()).unwrap();
    rusqlite::Connection::open(database)
        .unwrap()
        .execute_batch(
            "CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT);
             INSERT INTO transcript_events VALUES ('d', 0, '{\"type\":\"session\",\"id\":\"d\"}');",
        )
        .unwrap();
    home.sync();
    let status = self::status(&home, Selection::default());
    let sum = |of: fn(&quipu_ledger::wire::PriorityStatus) -> u64| -> u64 {
        status.priorities.iter().map(of).sum()
    };
    assert_eq!(sum(|group| group.bytes), status.bytes);
    assert_eq!(sum(|group| group.records), status.records);
    assert_eq!(sum(|group| group.sources), status.sources);
}

/// Files that were collected before a setting left them out are neither gone nor lost, and nothing
/// more is read of them.
#[test]
fn r50_files_that_are_left_out_later_stay() {
    let home = home();
    home.sync();
    home.append(RUNS, "{\"ts\":1769845600000,\"jobId\":\"j\",\"status\":\"ok\"}\n");
    home.write(NOTE, "coffee");
    let report = home.sync_selected(up_to(0));
    assert_eq!((report.gone_sources, report.records_added, report.sources), (0, 0, 2));
    let found = status(&home, up_to(0));
    assert_eq!((found.gone_sources, groups(&found)), (0, vec![(0, 2, 2), (1, 2, 2), (2, 1, 1)]));
    assert_eq!(home.hits("tea"), 1);
    // Selected again, they are read from their cursor on.
    let report = home.sync_and_check();
    assert_eq!((report.records_added, report.rewritten_sources), (2, 1));
    home.assert_restores_all(&[LIVE, DELETED, RUNS, NOTE]);
}

#[test]
fn r4_a_setting_leaves_deleted_sessions_out() {
    let home = home();
    let report = home.sync_selected(without_deleted());
    assert_eq!(report.sources, 4);
    let reason = "left out by the setting collect.deleted = false";
    assert!(report.skipped.iter().any(|skipped| skipped.reason == reason && skipped.files == 1));
    assert_eq!(home.all("SELECT session_id FROM sessions"), ["'s1'"]);

    // A known transcript that is deleted now is the same source under another name.
    let deleted = format!("{LIVE}.deleted.2026-02-04T10-30-00.000Z");
    home.rename(LIVE, &deleted);
    let report = home.sync_selected(without_deleted());
    assert_eq!((report.renamed_sources, report.gone_sources, report.records_added), (1, 0, 0));
    assert_eq!(home.all("SELECT session_id, state FROM sessions"), ["'s1'|'deleted'"]);
    assert_eq!(status(&home, without_deleted()).gone_sources, 0);
    home.assert_restores_all(&[&deleted]);
    home.assert_rebuilds();

    // Without the setting, all are collected.
    home.sync_and_check();
    assert_eq!(home.all("SELECT session_id FROM sessions"), ["'s1'", "'s2'"]);
}

/// A left-out file that is removed is gone; one that is restored has returned.
#[test]
fn r50_a_left_out_file_can_still_be_gone() {
    let home = home();
    home.sync();
    home.remove(NOTE);
    assert_eq!(home.sync_selected(up_to(0)).gone_sources, 1);
    home.write(NOTE, "tea");
    home.sync_selected(up_to(0));
    assert_eq!(status(&home, up_to(0)).gone_sources, 0);
    home.assert_rebuilds();
}
