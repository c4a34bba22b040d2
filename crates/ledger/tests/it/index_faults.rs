//! Indexes of every kind, and the files beside transcripts: transcripts are collected, and nothing
//! else is opened.

use std::fs;

use crate::home::*;

const SESSIONS: &str = ".openclaw/agents/main/sessions";

/// With any index, transcripts are collected and nothing outside is opened.
#[test]
fn a67_a68_transcripts_are_collected_with_any_index() {
    let outside = tempfile::tempdir().unwrap();
    let canary = outside.path().join("diary.jsonl");
    fs::write(&canary, "{\"role\":\"user\",\"content\":\"canary\"}\n").unwrap();
    let canary = canary.to_str().unwrap();
    let good = r#"{"agent:main:main": {"sessionId": "s1"}}"#;
    let large =
        format!(r#"{{"agent:main:main": {{"sessionId": "s1", "x": "{}"}}}}"#, "x".repeat(56 << 20));
    for (index, is_damaged) in [
        (String::new(), true),
        (good[..20].to_owned(), true),
        (format!("{good}}}, \"stale\": {{"), true),
        (format!("{good}\0\0\0\0"), false),
        ("\0".repeat(4096), true),
        ("{'agent:main:main': {sessionId: 's1',},} // JSON5".to_owned(), false),
        (
            r#"{"version": 2, "sessions": {"agent:main:main": {"sessionId": "s1"}}}"#.to_owned(),
            false,
        ),
        (large, false),
        (format!(r#"{{"k": {{"sessionId": "s1", "sessionFile": "{canary}"}}}}"#), false),
        (
            r#"{"k": {"sessionId": "s1", "sessionFile": "../../../../../../etc/passwd"}}"#
                .to_owned(),
            false,
        ),
        (r#"{"k": {"sessionId": "s9", "sessionFile": "not-there.jsonl"}}"#.to_owned(), false),
        (
            format!(
                r#"{{"k": {{"sessionId": "{canary}", "sessionFile": 7}}, "l": null, "m": []}}"#
            ),
            false,
        ),
    ] {
        let home = Home::quick();
        home.write(
            &format!("{SESSIONS}/s1.jsonl"),
            "{\"role\":\"user\",\"content\":\"hello\",\"timestamp\":1770193116233}\n",
        );
        home.write(&format!("{SESSIONS}/sessions.json"), &index);
        home.sync_and_check();
        let about = &index[..index.len().min(100)];
        assert_eq!((home.hits("hello"), home.hits("canary")), (1, 0), "{about}");
        assert_eq!(home.problems().contains_key("index_damaged"), is_damaged, "{about}");
        home.assert_restores_all(&[&format!("{SESSIONS}/s1.jsonl")]);
    }
}

/// An index that is a link to a file outside is not followed.
#[test]
fn a68_an_index_that_is_a_link_outside_is_not_followed() {
    let home = Home::quick();
    fs::write(home.scratch("outside.json"), r#"{"canary": {"sessionId": "s1"}}"#).unwrap();
    home.write(&format!("{SESSIONS}/s1.jsonl"), "{\"role\":\"user\",\"content\":\"hello\"}\n");
    let link = home.path(&format!("{SESSIONS}/sessions.json"));
    std::os::unix::fs::symlink(home.scratch("outside.json"), link).unwrap();
    let report = home.sync_and_check();
    assert_eq!(home.hits("hello"), 1);
    assert!(report.skipped.iter().any(|skip| skip.reason.contains("out of its root")));
    assert_eq!(home.one::<i64>("SELECT count(*) FROM session_keys"), 0);
}

/// Locks and half-written files of agents are not transcripts.
#[test]
fn a69_locks_and_temporary_files_are_not_transcripts() {
    let home = Home::quick();
    let text = "{\"role\":\"user\",\"content\":\"hello\"}\n";
    home.write(&format!("{SESSIONS}/s1.jsonl"), text);
    for name in ["s1.jsonl.lock", "s1.jsonl.tmp", "s1.jsonl.4711.tmp", "sessions.json.tmp", ".tmp"]
    {
        home.write(&format!("{SESSIONS}/{name}"), text.replace("hello", "unfinished"));
    }
    home.sync_and_check();
    assert_eq!((home.hits("hello"), home.hits("unfinished")), (1, 0));
}

/// An unreadable index is reported until it can be read.
#[test]
fn a_damaged_index_is_reported_until_it_can_be_read() {
    let home = Home::quick();
    let index = format!("{SESSIONS}/sessions.json");
    let path = "agents/main/sessions/sessions.json";
    let named = || {
        let status = quipu_ledger::status::status(&home.open(), &home.roots()).unwrap();
        let damaged = status.formats.iter().flat_map(|format| &format.damaged);
        let named = damaged.flat_map(|files| &files.paths).cloned().collect::<Vec<String>>();
        let found =
            quipu_ledger::doctor::doctor(&home.ledger_path(), &home.roots(), false, &mut |_| {});
        let found = found.findings.into_iter().flat_map(|finding| finding.examples);
        let count = found.filter(|example| example.starts_with(path)).count();
        assert_eq!(named.len(), count, "the doctor and status report the same");
        named
    };
    let good = r#"{"agent:main:main": {"sessionId": "s1", "updatedAt": 1770193116233}}"#;
    home.write(&format!("{SESSIONS}/s1.jsonl"), "{\"role\":\"user\",\"content\":\"hello\"}\n");
    home.write(&index, "");
    home.sync();
    assert_eq!(named(), [path]);
    home.write(&index, good);
    home.sync();
    assert_eq!(named(), [""; 0]);
    for broken in ["", &good[..30], &" ".repeat(good.len())] {
        home.write(&index, broken);
        home.sync();
        assert_eq!(named(), [path], "{broken:?}");
        home.assert_rebuilds();
        assert_eq!(named(), [path], "{broken:?}");
    }
    home.write(&index, good.replace("s1", "s2"));
    home.sync();
    assert_eq!(named(), [""; 0]);
}
