//! Sessions in OpenClaw's database: two that the real release wrote, and many artificial
//! ones.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use quipu_ledger::restore::Generations;
use quipu_ledger::wire::SyncReport;
use quipu_torture::Prng;
use rusqlite::{Connection, params};

use crate::child;
use crate::home::*;

/// The path of agent `main`'s database.
pub(crate) const DATABASE: &str = ".openclaw/agents/main/agent/openclaw-agent.sqlite";

/// The sessions of the imported database.
const FIRST: &str = "433d5b15-0000-4000-8000-000000000001";
const SECOND: &str = "433d5b15-0000-4000-8000-000000000002";

/// Copies a database that 2026.9.6 wrote into a home.
pub(crate) fn real(home: &Home, name: &str, path: &str) {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("tests/fixtures/openclaw-2026.9.6/{name}.sqlite.zst"));
    let bytes = zstd::decode_all(File::open(packed).unwrap()).unwrap();
    home.write(path, bytes);
    settle(&home.path(path));
}

/// Sets the times of a database back: files that were written just now are always read again.
pub(crate) fn settle(path: &Path) {
    for suffix in ["", "-wal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        if let Ok(file) = File::options().write(true).open(name) {
            file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
        }
    }
}

/// Archives a transcript in the database, as resets and deletions do.
pub(crate) fn put_aside(
    conn: &Connection,
    session: &str,
    generation: &str,
    reason: &str,
    blob: &[u8],
    name: &str,
) {
    conn.execute(
        "INSERT INTO session_transcript_archives
            (session_id, generation, session_key, reason, encoding, archive_blob,
             archive_sha256, archive_name, created_at)
         VALUES (?1, ?2, 'k', ?3, 'identity', ?4, ?5, ?6, 1794766190579)",
        params![session, generation, reason, blob, format!("{:0>64}", name.len()), name],
    )
    .unwrap();
}

/// Opens a connection like OpenClaw's.
pub(crate) fn writer(home: &Home, path: &str) -> Connection {
    let conn = Connection::open(home.path(path)).unwrap();
    conn.pragma_update(None, "foreign_keys", false).unwrap();
    conn
}

/// Changes a database and closes it.
pub(crate) fn change(home: &Home, sql: &str) {
    let conn = writer(home, DATABASE);
    conn.execute_batch(sql).unwrap();
    conn.close().unwrap();
    settle(&home.path(DATABASE));
}

/// Creates a minimal database without column types.
pub(crate) fn loose(home: &Home, schema: i64, more: &str) {
    home.folder_for(DATABASE);
    let _ = fs::remove_file(home.path(DATABASE));
    let sql = format!(
        "PRAGMA user_version = {schema};
         CREATE TABLE transcript_events (session_id, seq, event_json, event_zstd, event_utf8_bytes);
         {more}"
    );
    change(home, &sql);
}

pub(crate) fn event(id: u32, text: &str) -> String {
    format!(
        "{{\"type\":\"message\",\"id\":\"{id:08x}\",\"parentId\":null,\"timestamp\":\"2026-11-15T17:59:59.016Z\",\
         \"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}"
    )
}

pub(crate) fn header(session: &str) -> String {
    format!(
        "{{\"type\":\"session\",\"version\":3,\"id\":\"{session}\",\"timestamp\":\"2026-11-15T17:59:59.016Z\",\"cwd\":\"/home/alice\"}}"
    )
}

fn insert(conn: &Connection, session: &str, seq: i64, event: &str) {
    conn.execute(
        "INSERT INTO transcript_events (session_id, seq, event_json) VALUES (?1, ?2, ?3)",
        params![session, seq, event],
    )
    .unwrap();
}

/// Adds a session of a header and these messages, without types.
pub(crate) fn grow(home: &Home, session: &str, range: std::ops::Range<u32>) {
    let conn = writer(home, DATABASE);
    for number in range {
        let event = match number {
            0 => header(session),
            number => event(number, &format!("word{number}")),
        };
        insert(&conn, session, i64::from(number), &event);
    }
    conn.close().unwrap();
    settle(&home.path(DATABASE));
}

#[track_caller]
pub(crate) fn sync(home: &Home) -> SyncReport {
    let report = home.sync();
    home.assert_sound();
    home.assert_rebuilds();
    report
}

fn reasons(report: &SyncReport) -> Vec<String> {
    report
        .skipped
        .iter()
        .flat_map(|skipped| skipped.paths.iter().map(|path| format!("{path}: {}", skipped.reason)))
        .collect()
}

/// Returns names, sizes and times of everything in the database's folder.
fn listing(home: &Home) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    fs::read_dir(home.path(DATABASE).parent().unwrap())
        .unwrap()
        .map(|entry| {
            let meta = entry.as_ref().unwrap().metadata().unwrap();
            (entry.unwrap().path(), (meta.len(), meta.modified().unwrap()))
        })
        .collect()
}

pub(crate) fn restored(home: &Home, name: &str) -> String {
    let path = format!("openclaw/agents/main/agent/openclaw-agent.sqlite/{name}");
    let restored = home.restored(Generations::Newest);
    let found = restored.get(&path).unwrap_or_else(|| panic!("{path}: {:?}", restored.keys()));
    String::from_utf8_lossy(found).into_owned()
}

#[test]
fn both_real_databases_are_collected() {
    let home = Home::new();
    let native = ".openclaw/agents/work/agent/openclaw-agent.sqlite";
    real(&home, "imported", DATABASE);
    real(&home, "native", native);
    let before = listing(&home);
    let report = sync(&home);
    assert_eq!(reasons(&report), [""; 0]);
    assert_eq!((report.databases_opened, report.records_added, report.sources), (2, 24, 3));
    assert_eq!(listing(&home), before);
    assert_eq!(
        home.all("SELECT agent, session_id, part, state, header_version, entries FROM sessions"),
        [
            format!("'main'|'{FIRST}'|'transcript'|'live'|'3'|10"),
            format!("'main'|'{SECOND}'|'transcript'|'live'|'3'|6"),
            "'work'|'e6214aca-607c-412a-963e-9616a4fe156a'|'transcript'|'live'|'4'|8".to_owned(),
        ]
    );
    assert!(home.hits("Summary") >= 1);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM usage WHERE is_counted"), 8);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM record_rows"), 24);
    assert_eq!(home.problems(), BTreeMap::new());
    assert_eq!(restored(&home, &format!("{FIRST}.jsonl")).lines().count(), 10);
    let rows: Vec<String> = writer(&home, DATABASE)
        .prepare("SELECT event_json FROM transcript_events WHERE session_id = ?1 ORDER BY seq")
        .unwrap()
        .query_map([FIRST], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(restored(&home, &format!("{FIRST}.jsonl")), rows.join("\n") + "\n");

    assert_eq!(
        home.all("SELECT agent, key, session_id, channel FROM session_keys"),
        [
            "'main'|'agent:main:cron:job-1'|'433d5b15-0000-4000-8000-000000000003'|NULL".to_owned(),
            format!("'main'|'agent:main:main'|'{FIRST}'|'telegram'"),
            format!("'main'|'agent:main:telegram:group:-100123'|'{SECOND}'|'telegram'"),
            "'work'|'agent:main:main'|'e6214aca-607c-412a-963e-9616a4fe156a'|NULL".to_owned(),
        ]
    );

    // Nothing is opened while nothing changes.
    let report = sync(&home);
    assert_eq!((report.databases_opened, report.bytes_read, report.bytes_verified), (0, 0, 0));
    assert_eq!((report.sources, report.sources_changed, report.lines_parsed), (3, 0, 0));

    let status = quipu_ledger::status::status(&home.open(), &home.roots()).unwrap();
    let openclaw = status.formats.iter().find(|format| format.format == "openclaw").unwrap();
    assert_eq!((openclaw.databases, openclaw.database_sessions, openclaw.sessions), (2, 3, 3));
    let cursors = quipu_ledger::query::cursors(&home.open()).unwrap();
    let kinds: Vec<_> =
        cursors.iter().map(|cursor| (cursor.kind.as_str(), cursor.last_row, cursor.rows)).collect();
    assert_eq!(
        kinds,
        [
            ("database", None, Some(2)),
            ("rows", Some(9), Some(10)),
            ("rows", Some(5), Some(6)),
            ("database", None, Some(1)),
            ("rows", Some(7), Some(8)),
        ]
    );
}

#[test]
fn a_reset_key_leads_to_the_new_session_and_keeps_the_old_one() {
    let home = Home::new();
    real(&home, "imported", DATABASE);
    sync(&home);
    let noted = "SELECT count(*) FROM key_history";
    assert_eq!(home.one::<i64>(noted), 3);
    // Counters and times are not recorded in the journal.
    change(
        &home,
        "UPDATE session_nodes SET updated_at = updated_at + 1,
                entry_json = json_set(entry_json, '$.inputTokens', 77)",
    );
    sync(&home);
    assert_eq!(home.one::<i64>(noted), 3);
    assert!(home.one::<String>("SELECT fields FROM session_keys LIMIT 1").contains("77"));
    // A reset: the key leads to another session, and keeps the one before.
    change(
        &home,
        &format!(
            "INSERT INTO session_windows (session_id, session_key, previous_session_id, reason, created_at, updated_at)
             VALUES ('next', 'agent:main:main', '{FIRST}', 'reset', 1894766190579, 1);
             UPDATE session_nodes SET current_session_id = 'next' WHERE session_key = 'agent:main:main';
             INSERT INTO session_nodes (session_key, current_session_id, entry_json, updated_at, parent_session_key)
             VALUES ('agent:main:subagent:x', '{SECOND}', 'no json', 1, 'agent:main:main');
             DELETE FROM session_nodes WHERE session_key = 'agent:main:telegram:group:-100123'"
        ),
    );
    sync(&home);
    let child =
        format!("SELECT part, parent_session_id FROM sessions WHERE session_id = '{SECOND}'");
    assert_eq!(home.all(&child), ["'subagent'|'next'"]);
    assert_eq!(
        home.all("SELECT key FROM session_keys WHERE session_id IN ('next')"),
        ["'agent:main:main'"]
    );
    let index = restored(&home, "sessions.json");
    assert!(index.contains("\"quipu:broken\":true") && index.contains("\"quipu:windows\""));
}

#[test]
fn a_file_an_archive_and_rows_are_one_session() {
    let home = Home::new();
    // The import of 2026.9.6: the header's id differs, everything else is byte for byte the same.
    let original = fs::read_to_string(
        fixtures("openclaw")
            .join("agents/pi73/sessions/06-compaction_01a1e05d-b128-7756-911a-ca0977e2006b.jsonl"),
    )
    .unwrap();
    home.write(&format!(".openclaw/agents/main/sessions/{FIRST}.jsonl"), &original);
    let imported = original.replacen("01a1e05d-b128-7756-911a-ca0977e2006b", FIRST, 1);
    home.write(
        &format!(".openclaw/agents/main/sessions/{FIRST}.jsonl.reset.2026-02-04T10-30-00Z"),
        &imported,
    );
    sync(&home);
    let usage = "SELECT count(*), sum(output_tokens) FROM usage WHERE is_counted";
    let (counted, bytes) =
        (home.all(usage), home.one::<i64>("SELECT sum(length) FROM records WHERE same_as IS NULL"));
    real(&home, "imported", DATABASE);
    let report = sync(&home);
    assert_eq!(report.records_added, 16);
    // Nothing of the first session is stored again.
    let same = "SELECT count(*) FROM records WHERE same_as IS NOT NULL";
    assert!(home.one::<i64>(same) >= 10);
    let session = format!("SELECT id FROM sessions WHERE session_id = '{FIRST}'");
    assert_eq!(home.all(&session).len(), 1);
    let with_id = format!(
        "SELECT count(*) FROM entries WHERE entry_id IS NOT NULL AND session = ({session})"
    );
    assert_eq!(home.one::<i64>(&with_id), 9);
    let headers =
        format!("SELECT count(*) FROM entries WHERE entry_id IS NULL AND session = ({session})");
    assert_eq!(home.one::<i64>(&headers), 2, "one header of the file, one of the importer");
    let seen = format!(
        "SELECT min(n), max(n) FROM (SELECT count(*) AS n FROM sightings s JOIN entries e ON e.id = s.entry
          WHERE e.session = ({session}) AND e.entry_id IS NOT NULL GROUP BY e.id)"
    );
    assert_eq!(home.all(&seen), ["2|2"]);
    assert_eq!(home.problems().get("id_reused"), None);
    let stored = home.one::<i64>("SELECT sum(length) FROM records WHERE same_as IS NULL");
    let second = home.one::<i64>(&format!(
        "SELECT sum(g.cursor) FROM sources s JOIN generations g ON g.source = s.id WHERE CAST(s.path AS TEXT) LIKE '%{SECOND}%'"
    ));
    let journal = home.one::<i64>("SELECT cursor FROM generations WHERE id = 1");
    assert!(stored <= bytes + second + journal, "{stored} of {bytes} + {second}");
    let first = format!("{} AND session = ({session})", usage);
    assert_eq!(home.all(&first), counted);

    // After a deletion, the rows become an archive in the database.
    let blob = zstd::encode_all(imported.as_bytes(), 1).unwrap();
    let conn = writer(&home, DATABASE);
    conn.execute(
        "INSERT INTO session_transcript_archives
            (session_id, generation, session_key, reason, encoding, archive_blob, archive_sha256,
             archive_name, created_at)
         VALUES (?1, 'g', 'agent:main:main', 'deleted', 'zstd', ?2, ?3, ?4, 1)",
        params![
            FIRST,
            blob,
            "0".repeat(64),
            format!("{FIRST}.jsonl.deleted.2026-11-15T18-00-00.000Z.zst")
        ],
    )
    .unwrap();
    conn.execute("DELETE FROM transcript_events WHERE session_id = ?1", [FIRST]).unwrap();
    conn.close().unwrap();
    settle(&home.path(DATABASE));
    let report = sync(&home);
    assert_eq!((report.records_added, report.gone_sources), (10, 1));
    assert_eq!(home.one::<i64>(&with_id), 9);
    assert_eq!(home.all(&seen), ["3|3"]);
    assert_eq!(home.all(&first), counted);
    let name = format!("{FIRST}.jsonl.deleted.2026-11-15T18-00-00.000Z");
    assert_eq!(restored(&home, &name), imported);
    assert_eq!(sync(&home).databases_opened, 0);
    for file in ["", ".reset.2026-02-04T10-30-00Z"] {
        home.remove(&format!(".openclaw/agents/main/sessions/{FIRST}.jsonl{file}"));
    }
    sync(&home);
    let state = format!("SELECT state FROM sessions WHERE session_id = '{FIRST}'");
    assert_eq!(home.one::<String>(&state), "deleted");
}

#[test]
fn a_file_that_repeats_rows_adds_no_session() {
    let home = Home::new();
    loose(&home, 23, "");
    grow(&home, "s", 0..20);
    sync(&home);
    let lines: String =
        (1..20).map(|number| event(number, &format!("word{number}")) + "\n").collect();
    home.write(".openclaw/agents/main/sessions/s.jsonl", header("s") + "\n" + &lines);
    sync(&home);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 1);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 19);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sightings"), 20, "the header is counted too");
}

#[test]
fn rows_in_another_spelling_are_the_same_entries() {
    // As Python writes them, and as JavaScript does.
    let spelled = |id: u32, parent: &str| {
        let id = format!("{id:08x}");
        [
            format!(
                r#"{{"type": "message", "id": "{id}", "parentId": {parent}, "timestamp": "2026-11-15T17:59:59.016Z", "message": {{"role": "assistant", "content": [{{"type": "text", "text": "gr\u00fcn \/{id}"}}], "usage": {{"input": 1.0, "output": 2, "cost": {{"total": 1e-07}}}}}}}}"#
            ),
            format!(
                r#"{{"type":"message","id":"{id}","parentId":{parent},"timestamp":"2026-11-15T17:59:59.016Z","message":{{"role":"assistant","content":[{{"type":"text","text":"grün /{id}"}}],"usage":{{"input":1,"output":2,"cost":{{"total":1e-7}}}}}}}}"#
            ),
        ]
    };
    let lines = [
        [header("s").replace("\":", "\": "), header("s")],
        spelled(1, "null"),
        spelled(2, "\"00000001\""),
        spelled(3, "\"00000002\""),
    ];
    let file: String = lines.iter().map(|[line, _]| format!("{line}\n")).collect();
    for is_file_first in [true, false] {
        let home = Home::new();
        let add = |is_file: bool| {
            if is_file {
                home.write(".openclaw/agents/main/sessions/s.jsonl", &file);
            } else {
                loose(&home, 23, "");
                let conn = writer(&home, DATABASE);
                for (number, [_, row]) in lines.iter().enumerate() {
                    insert(&conn, "s", number as i64, row);
                }
                conn.close().unwrap();
                settle(&home.path(DATABASE));
            }
            sync(&home)
        };
        add(is_file_first);
        let shown = "SELECT count(*), (SELECT count(*) FROM messages),
                            (SELECT sum(input_tokens) FROM usage WHERE is_counted) FROM entries";
        assert_eq!(home.all(shown), ["4|3|3"]);
        assert_eq!(add(!is_file_first).records_added, 4, "every byte is kept");
        assert_eq!(home.all(shown), ["4|3|3"]);
        assert_eq!(home.one::<i64>("SELECT count(*) FROM sightings"), 4);
        assert_eq!(home.problems(), BTreeMap::new());
        assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 1);
    }
}

#[test]
fn only_new_rows_are_added() {
    let home = Home::new();
    loose(&home, 4, "");
    let mut rows = 0;
    for to in [1, 2, 30, 31, 1200, 1201] {
        grow(&home, "s", rows..to);
        let report = sync(&home);
        assert_eq!(report.records_added, u64::from(to - rows));
        assert_eq!(report.rewritten_sources, 0);
        rows = to;
    }
    grow(&home, "other", 0..3);
    let report = sync(&home);
    assert_eq!((report.records_added, report.lines_parsed), (3, 3));
    assert_eq!(home.problems(), BTreeMap::new());
    assert_eq!(restored(&home, "s.jsonl").lines().count(), 1201);
    assert_eq!(home.hits("word1200"), 1);
}

#[test]
fn a93_a_new_watermark_is_a_new_generation() {
    let home = Home::new();
    loose(
        &home,
        23,
        "CREATE TABLE transcript_rewrite_watermarks (session_id TEXT PRIMARY KEY, generation TEXT);
         INSERT INTO transcript_rewrite_watermarks VALUES ('s', 'a'), ('t', 'x')",
    );
    grow(&home, "s", 0..10);
    grow(&home, "t", 0..10);
    sync(&home);
    // The third row is gone, the fourth differs, and numbers start again at 0.
    change(
        &home,
        &format!(
            "UPDATE transcript_rewrite_watermarks SET generation = 'b' WHERE session_id = 's';
             DELETE FROM transcript_events WHERE session_id = 's' AND seq = 3;
             UPDATE transcript_events SET event_json = '{}' WHERE session_id = 's' AND seq = 4;
             UPDATE transcript_events SET seq = seq - 1 WHERE session_id = 's' AND seq > 3",
            event(4, "changed")
        ),
    );
    let report = sync(&home);
    assert_eq!((report.records_added, report.rewritten_sources, report.lines_parsed), (1, 1, 1));
    assert_eq!(home.one::<i64>("SELECT count(*) FROM absent"), 2);
    assert_eq!(home.hits("word3"), 2, "kept");
    assert_eq!(restored(&home, "s.jsonl").lines().count(), 9);
    let generations = home.restored(Generations::All);
    let old = &generations["openclaw/agents/main/agent/openclaw-agent.sqlite/s.jsonl.generation-1"];
    assert_eq!(old.iter().filter(|byte| **byte == b'\n').count(), 10);
    grow(&home, "s", 9..12);
    assert_eq!(sync(&home).records_added, 3);
    assert_eq!(home.problems().keys().collect::<Vec<_>>(), ["id_reused", "source_rewritten"]);
}

#[test]
fn a_schema_that_learns_of_watermarks_rewrites_nothing() {
    let home = Home::new();
    loose(&home, 4, "");
    grow(&home, "s", 0..10);
    sync(&home);
    change(
        &home,
        "CREATE TABLE transcript_rewrite_watermarks (session_id TEXT PRIMARY KEY, generation TEXT);
         INSERT INTO transcript_rewrite_watermarks VALUES ('s', 'a'); PRAGMA user_version = 9",
    );
    grow(&home, "s", 10..12);
    let report = sync(&home);
    assert_eq!((report.records_added, report.rewritten_sources), (2, 0));
    assert_eq!(home.one::<String>("SELECT rewrite FROM row_cursors WHERE rewrite <> ''"), "a");
}

#[test]
fn a72_rows_with_gaps_duplicates_and_negative_numbers_are_read() {
    let home = Home::new();
    loose(&home, 4, "");
    let conn = writer(&home, DATABASE);
    for (number, seq) in [-5, -4, 0, 0, 1, i64::MAX].into_iter().enumerate() {
        insert(&conn, "s", seq, &event(number as u32, &format!("number{number}")));
    }
    conn.execute_batch("INSERT INTO transcript_events (session_id, seq, event_json) VALUES ('s', NULL, '{}'), ('s', 'x', '{}')")
        .unwrap();
    conn.close().unwrap();
    let report = sync(&home);
    assert_eq!(report.records_added, 6);
    assert_eq!(reasons(&report).len(), 1, "{:?}", reasons(&report));
    assert_eq!(home.problems().get("row_gap"), Some(&3));
    assert_eq!(
        home.all("SELECT number FROM record_rows ORDER BY seq"),
        ["-4", "-5", "0", "0", "1", "9223372036854775807"]
    );
    for number in 0..6 {
        assert_eq!(home.hits(&format!("number{number}")), 1);
    }
    // A row that is inserted in between is a rewrite that adds one record.
    change(
        &home,
        &format!(
            "INSERT INTO transcript_events (session_id, seq, event_json) VALUES ('s', -3, '{}')",
            event(77, "between")
        ),
    );
    let report = sync(&home);
    assert_eq!((report.records_added, report.rewritten_sources), (1, 1));
    assert_eq!(restored(&home, "s.jsonl").lines().nth(2), Some(event(77, "between").as_str()));
}

#[test]
fn a72_events_that_are_not_text_are_kept() {
    let home = Home::new();
    loose(&home, 4, "");
    let conn = writer(&home, DATABASE);
    insert(&conn, "s", 0, &header("s"));
    let put =
        |seq: i64, json: &dyn rusqlite::ToSql, zstd: &dyn rusqlite::ToSql, length: Option<i64>| {
            conn.execute(
                "INSERT INTO transcript_events VALUES ('s', ?1, ?2, ?3, ?4)",
                params![seq, json, zstd, length],
            )
            .unwrap();
        };
    let null = rusqlite::types::Null;
    put(1, &null, &null, None);
    put(2, &event(2, "from a blob").into_bytes(), &null, None);
    put(3, &7, &null, None);
    put(4, &1.5, &null, None);
    let packed = |text: &[u8]| zstd::encode_all(text, 1).unwrap();
    let long = event(5, &format!("packed {}", "x ".repeat(4000)));
    put(5, &null, &packed(long.as_bytes()), Some(long.len() as i64));
    put(6, &null, &packed(event(6, "wronglength").as_bytes()), Some(3));
    put(7, &null, &b"not zstd at all".to_vec(), Some(10));
    // A bomb of 64 MiB of zeros; and a truncated event.
    put(10, &null, &packed(event(10, "cut").as_bytes())[..20].to_vec(), None);
    put(8, &null, &packed(&vec![b' '; 64 << 20]), Some(64 << 20));
    conn.execute_batch(
        "INSERT INTO transcript_events (session_id, seq, event_json)
         VALUES ('s', 9, CAST(x'7b2274797065223a226d657373616765222c226964223a22ff22' AS TEXT))",
    )
    .unwrap();
    conn.close().unwrap();
    let report = sync(&home);
    assert_eq!(report.records_added, 11);
    assert_eq!(home.hits("packed"), 1);
    assert_eq!(home.hits("wronglength"), 1);
    assert_eq!(home.hits("blob"), 1);
    assert_eq!(home.problems().get("row_empty"), Some(&1));
    assert_eq!(home.problems().get("damaged_event"), Some(&2));
    assert_eq!(home.problems().get("encoding"), None);
    // Stored events are not reported as unread.
    assert_eq!(report.unreadable().count(), 0, "{:?}", reasons(&report));
    assert_eq!(report.odd().count(), 1, "{:?}", reasons(&report));
    let lines: Vec<Vec<u8>> = home.restored(Generations::Newest)
        ["openclaw/agents/main/agent/openclaw-agent.sqlite/s.jsonl"]
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    assert_eq!(lines[1], b"");
    assert_eq!(lines[3], b"7");
    assert_eq!(lines[5], long.as_bytes());
    assert_eq!(lines[7], b"not zstd at all");
}

#[test]
fn a72_rows_that_are_deleted_later_are_kept() {
    let home = Home::new();
    loose(&home, 4, "");
    grow(&home, "s", 0..10);
    grow(&home, "t", 0..4);
    sync(&home);
    for (sql, left) in [
        ("DELETE FROM transcript_events WHERE session_id = 's' AND seq = 5", 9),
        ("DELETE FROM transcript_events WHERE session_id = 's' AND seq > 7", 7),
        ("DELETE FROM transcript_events WHERE session_id = 's' AND seq < 2", 5),
    ] {
        change(&home, sql);
        let report = sync(&home);
        assert_eq!((report.records_added, report.rewritten_sources), (0, 1), "{sql}");
        assert_eq!(restored(&home, "s.jsonl").lines().count(), left);
    }
    change(&home, "DELETE FROM transcript_events WHERE session_id = 's'");
    assert_eq!(sync(&home).gone_sources, 1);
    let state = "SELECT state FROM sessions WHERE session_id = 's'";
    assert_eq!(home.one::<String>(state), "gone");
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 9 + 3);
    // Inserted again, with one new row.
    grow(&home, "s", 0..3);
    grow(&home, "s", 20..21);
    let report = sync(&home);
    assert_eq!(report.records_added, 3, "the first two rows were not in the last generation");
    assert_eq!(home.one::<String>(state), "live");
    home.remove(DATABASE);
    assert_eq!(sync(&home).gone_sources, 3);
    assert_eq!(home.one::<String>(state), "gone");
    assert_eq!(sync(&home).gone_sources, 0);
}

#[test]
fn a_last_row_that_changes_in_place_is_noticed() {
    let home = Home::new();
    loose(&home, 4, "");
    grow(&home, "s", 0..10);
    sync(&home);
    change(
        &home,
        &format!("UPDATE transcript_events SET event_json = '{}' WHERE seq = 9", event(9, "other")),
    );
    let report = sync(&home);
    assert_eq!((report.records_added, report.rewritten_sources), (1, 1));
    assert_eq!(home.hits("other"), 1);
}

#[test]
fn a_last_row_that_changes_under_the_same_watermark_is_noticed() {
    let home = Home::new();
    loose(
        &home,
        23,
        "CREATE TABLE transcript_rewrite_watermarks (session_id TEXT PRIMARY KEY, generation TEXT);
         INSERT INTO transcript_rewrite_watermarks VALUES ('s', 'a'), ('t', 'x')",
    );
    grow(&home, "s", 0..10);
    grow(&home, "t", 0..10);
    sync(&home);
    change(
        &home,
        &format!(
            "UPDATE transcript_events SET event_json = '{}' WHERE session_id = 's' AND seq = 9",
            event(9, "other")
        ),
    );
    let report = sync(&home);
    assert_eq!((report.records_added, report.rewritten_sources), (1, 1));
    assert_eq!(home.hits("other"), 1);
    // Of unchanged sessions only the last rows are compared.
    change(&home, "CREATE TABLE unrelated (x)");
    let report = sync(&home);
    assert_eq!(
        (report.records_added, report.rewritten_sources, report.databases_opened),
        (0, 0, 1)
    );
    let last = |text: &str| event(9, text).len() as u64 + 1;
    assert_eq!(report.bytes_verified, last("other") + last("word9"));
}

/// The statements that make a database too large to be copied.
const LARGE: &str = "CREATE TABLE filler (x); INSERT INTO filler VALUES (zeroblob(70000000))";

/// Adds twelve sessions of a megabyte each.
fn fill_twelve(conn: &Connection) {
    conn.execute_batch("BEGIN").unwrap();
    for (session, number) in (0..12).flat_map(|session| (0..40).map(move |n| (session, n))) {
        let text = format!("word{number} {}", "long ".repeat(5000));
        insert(conn, &format!("s{session}"), number, &event(number as u32, &text));
    }
    conn.execute_batch("COMMIT").unwrap();
}

#[test]
fn a_database_is_read_while_its_program_ends() {
    let home = Home::quick();
    loose(&home, 23, "PRAGMA journal_mode = WAL");
    let conn = writer(&home, DATABASE);
    fill_twelve(&conn);
    assert_eq!(listing(&home).len(), 3);
    let mut program = Some(conn);
    let mut left = Vec::new();
    quipu_ledger::collect::collect(&mut home.open(), &home.roots(), &mut |progress| {
        if matches!(progress, quipu_ledger::collect::Progress::Done { .. })
            && let Some(conn) = program.take()
        {
            conn.close().unwrap();
            left.extend(listing(&home));
        }
    })
    .unwrap();
    assert_eq!(left.len(), 1, "the log and its index were removed at once: {left:?}");
    assert_eq!(listing(&home).into_iter().collect::<Vec<_>>(), left);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM record_rows"), 12 * 40);
    settle(&home.path(DATABASE));
    assert_eq!(sync(&home).records_added, 0);
}

#[test]
fn a_copy_during_writes_and_checkpoints_is_not_torn() {
    let home = Home::quick();
    loose(&home, 23, "PRAGMA journal_mode = WAL");
    let path = home.path(DATABASE);
    std::thread::scope(|scope| {
        // A torn copy would lose rows, or show rows that were never written.
        let writer = scope.spawn(|| {
            let conn = Connection::open(&path).unwrap();
            conn.pragma_update(None, "wal_autocheckpoint", 4).unwrap();
            for number in 0..1000 {
                insert(&conn, "s", number, &event(number as u32, &"long ".repeat(700)));
            }
        });
        while !writer.is_finished() {
            for reason in reasons(&home.sync()) {
                assert!(reason.contains("while it was copied"), "{reason}");
            }
        }
    });
    sync(&home);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM record_rows"), 1000);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM generations WHERE number > 1"), 0);
}

/// Checks the kernel's record of opened files while the database's program has it open.
#[test]
fn no_file_of_a_database_is_opened_for_writing() {
    let home = Home::new();
    loose(&home, 23, "PRAGMA journal_mode = WAL");
    let conn = writer(&home, DATABASE);
    insert(&conn, "s", 1, &event(1, "held"));
    let Some(opened) = child::trace_collect(&home) else { return };
    assert_eq!(home.hits("held"), 1);
    let of_it: Vec<&str> =
        opened.lines().filter(|line| line.contains("openclaw-agent.sqlite")).collect();
    assert!(of_it.iter().any(|line| line.contains("openclaw-agent.sqlite-wal")), "{of_it:?}");
    for line in of_it {
        assert!(
            !["O_RDWR", "O_WRONLY", "O_CREAT"].iter().any(|flag| line.contains(flag)),
            "{line}"
        );
    }
}

#[test]
fn a_large_database_is_read_in_place() {
    let home = Home::quick();
    loose(&home, 23, &format!("{LARGE}; PRAGMA journal_mode = WAL"));
    grow(&home, "s", 0..5);
    assert_eq!(sync(&home).records_added, 5, "without a log");
    let conn = writer(&home, DATABASE);
    insert(&conn, "s", 5, &event(5, "held"));
    let before = listing(&home);
    assert_eq!(before.len(), 3);
    assert_eq!(sync(&home).records_added, 1, "while a writer has it open");
    assert_eq!(listing(&home), before);
}

#[test]
fn batches_of_a_database_that_changed_are_discarded() {
    let home = Home::quick();
    loose(&home, 23, LARGE);
    let conn = writer(&home, DATABASE);
    let fill = |session: u32| {
        conn.execute_batch("BEGIN").unwrap();
        for number in 0..40_u32 {
            let text = format!("word{number} {}", "long ".repeat(5000));
            insert(&conn, &format!("s{session}"), number.into(), &event(number, &text));
        }
        conn.execute_batch("COMMIT").unwrap();
    };
    (0..12).for_each(fill);
    // Everything read after the first batch is discarded, because the file changed.
    let mut batches = 0;
    let report = quipu_ledger::collect::collect(&mut home.open(), &home.roots(), &mut |progress| {
        if let quipu_ledger::collect::Progress::Done { .. } = progress {
            batches += 1;
            fill(100);
        }
    })
    .unwrap();
    assert_eq!(batches, 1);
    assert!(reasons(&report)[0].contains("written to while it was read"), "{:?}", reasons(&report));
    let stored = home.one::<i64>("SELECT count(*) FROM record_rows");
    assert!(stored > 0 && stored < 12 * 40, "{stored}");
    sync(&home);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM record_rows"), 13 * 40);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM generations WHERE number > 1"), 0);
}

/// Writes a row and holds the database open until it is killed. The task of a child process.
pub(crate) fn hold(home: &Home) {
    let conn = writer(home, DATABASE);
    conn.pragma_update(None, "journal_mode", "WAL").unwrap();
    conn.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    insert(&conn, "s", 1, &event(1, "held"));
    std::io::stdout().write_all(b"holding\n").unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn a70_another_process_holds_it_and_nothing_is_left_there() {
    let home = Home::new();
    loose(&home, 23, "");
    grow(&home, "s", 0..1);
    let mut child = child::command(&home, "hold a database")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !lines.next().unwrap().unwrap().contains("holding") {}
    let before = listing(&home);
    assert_eq!(before.len(), 3, "{before:?}");
    let report = sync(&home);
    assert_eq!(reasons(&report), [""; 0]);
    assert_eq!(report.records_added, 2);
    assert_eq!(home.hits("held"), 1);
    assert_eq!(listing(&home), before);

    // Killed, it leaves log and index behind, which are read as they are.
    child.kill().unwrap();
    child.wait().unwrap();
    settle(&home.path(DATABASE));
    let before = listing(&home);
    assert_eq!(before.len(), 3);
    assert_eq!(sync(&home).databases_opened, 1);
    assert_eq!(listing(&home), before);
    assert_eq!(sync(&home).databases_opened, 0);

    // Without the index, a private copy is read, and nothing of it is left.
    let index = home.path(&format!("{DATABASE}-shm"));
    fs::remove_file(index).unwrap();
    let mut conn = home.sql();
    conn.execute("UPDATE generations SET size = 1 WHERE cursor = 0", []).unwrap();
    let tx = conn.transaction().unwrap();
    tx.rollback().unwrap();
    drop(conn);
    let before = listing(&home);
    assert_eq!(before.len(), 2);
    let left = home.scratch("data/ledger.db.copy-0");
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join("in-use"), "").unwrap();
    fs::write(left.join("database"), "secrets").unwrap();
    let report = sync(&home);
    assert_eq!((report.databases_opened, report.records_added), (1, 0));
    assert_eq!(reasons(&report), [""; 0]);
    assert_eq!(listing(&home), before);
    let data: Vec<String> = home.ledger_bytes().into_keys().collect();
    assert!(!data.iter().any(|name| name.contains("copy")), "{data:?}");
}

#[test]
fn a70_a_log_without_its_index() {
    let home = Home::new();
    loose(&home, 23, "PRAGMA journal_mode = WAL");
    let conn = writer(&home, DATABASE);
    conn.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    insert(&conn, "s", 0, &header("s"));
    insert(&conn, "s", 1, &event(1, "only in the log"));
    // The state after a power failure.
    let agent = home.path(".openclaw/agents/other/agent");
    fs::create_dir_all(&agent).unwrap();
    for suffix in ["", "-wal"] {
        let name = format!("openclaw-agent.sqlite{suffix}");
        fs::copy(home.path(DATABASE).with_file_name(&name), agent.join(&name)).unwrap();
    }
    let other = home.path(".openclaw/agents/other/agent/openclaw-agent.sqlite");
    settle(&other);
    let names = || fs::read_dir(&agent).unwrap().count();
    assert_eq!(names(), 2);
    let report = sync(&home);
    assert_eq!(reasons(&report), [""; 0]);
    assert_eq!(report.records_added, 4);
    assert_eq!(home.hits("log"), 2);
    assert_eq!(names(), 2);
    // A torn log is read up to the tear, as SQLite does.
    let log = File::options().write(true).open(agent.join("openclaw-agent.sqlite-wal")).unwrap();
    log.set_len(log.metadata().unwrap().len() - 100).unwrap();
    drop(log);
    sync(&home);
    assert_eq!(home.hits("log"), 2);
}

#[test]
fn a70_a_journal_that_was_never_rolled_back() {
    let home = Home::new();
    real(&home, "imported", DATABASE);
    home.write(&format!("{DATABASE}-journal"), [7; 512]);
    let before = listing(&home);
    let report = sync(&home);
    assert!(reasons(&report)[0].contains("not finished writing"), "{:?}", reasons(&report));
    assert_eq!(listing(&home), before);
    home.remove(&format!("{DATABASE}-journal"));
    assert_eq!(sync(&home).records_added, 16);
}

#[test]
fn a70_locked_by_a_writer() {
    let home = Home::new();
    loose(&home, 23, "");
    grow(&home, "s", 0..5);
    home.write(MAIN, line("user", &uuid(1), None, "goes on"));
    let conn = writer(&home, DATABASE);
    conn.execute_batch("PRAGMA cache_spill = 1; PRAGMA cache_size = 1; BEGIN EXCLUSIVE").unwrap();
    for number in 5..500 {
        insert(&conn, "s", number, &event(number as u32, &"long ".repeat(200)));
    }
    let report = sync(&home);
    assert_eq!(home.hits("goes"), 1, "other sources are collected");
    assert_eq!(report.records_added, 1);
    assert!(reasons(&report)[0].contains("locked by another program"), "{:?}", reasons(&report));
    conn.execute_batch("COMMIT").unwrap();
    drop(conn);
    assert_eq!(sync(&home).records_added, 500);
}

/// Asserts that a database is refused for this reason, that other sources are collected, that it is
/// not opened again before it changes, and that status reports the same.
#[track_caller]
fn is_refused(home: &Home, why: &str) {
    home.write(MAIN, line("user", &uuid(1), None, "goes on"));
    settle(&home.path(DATABASE));
    let report = sync(home);
    assert_eq!(home.hits("goes"), 1, "other sources are collected");
    assert!(reasons(&report).iter().any(|reason| reason.contains(why)), "{:?}", reasons(&report));
    let report = sync(home);
    assert_eq!(report.databases_opened, 0);
    assert!(reasons(&report).iter().any(|reason| reason.contains(why)), "{:?}", reasons(&report));
    let status = quipu_ledger::status::status(&home.open(), &home.roots()).unwrap();
    let skipped = status.formats.iter().flat_map(|format| &format.skipped);
    assert!(skipped.into_iter().any(|skipped| skipped.reason.contains(why)));
    // Repaired, it is collected.
    if home.path(DATABASE).is_dir() {
        fs::remove_dir(home.path(DATABASE)).unwrap();
    }
    let before = home.one::<i64>("SELECT count(*) FROM record_rows");
    loose(home, 23, "");
    grow(home, "mended", 0..3);
    let report = sync(home);
    assert_eq!(reasons(&report), [""; 0]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM record_rows"), before + 3);
}

#[test]
fn a70_no_bytes() {
    let home = Home::new();
    home.write(DATABASE, "");
    is_refused(&home, "an empty file");
}

#[test]
fn a70_encrypted() {
    let home = Home::new();
    let mut prng = Prng::new(1);
    let garbage: Vec<u8> = (0..8192).map(|_| prng.below(256) as u8).collect();
    home.write(DATABASE, garbage);
    is_refused(&home, "not an SQLite database, or an encrypted one");
}

#[test]
fn a70_garbage_behind_a_good_header() {
    let home = Home::new();
    let mut garbage = b"SQLite format 3\0".to_vec();
    garbage.extend(std::iter::repeat_n(0xA5, 8192));
    home.write(DATABASE, garbage);
    is_refused(&home, "not an SQLite database");
}

#[test]
fn a70_a_folder_of_that_name() {
    let home = Home::new();
    fs::create_dir_all(home.path(DATABASE)).unwrap();
    is_refused(&home, "a folder where OpenClaw's session database should be");
}

#[test]
fn a70_no_table_of_transcripts() {
    let home = Home::new();
    home.folder_for(DATABASE);
    change(&home, "CREATE TABLE other (a)");
    is_refused(&home, "it has no transcripts table");
}

#[test]
fn a70_a_table_without_events() {
    let home = Home::new();
    home.folder_for(DATABASE);
    change(&home, "CREATE TABLE transcript_events (session_id, seq)");
    is_refused(&home, "lacks a required column");
}

#[test]
fn a70_a_damaged_page() {
    let home = Home::new();
    real(&home, "imported", DATABASE);
    let conn = writer(&home, DATABASE);
    // Rows that fill pages of their own, one of which is lost.
    for number in 10..60 {
        conn.execute(
            "INSERT INTO transcript_events (session_id, seq, event_json, created_at)
             VALUES (?1, ?2, ?3, 1)",
            params![FIRST, number, event(number as u32, &"long ".repeat(150))],
        )
        .unwrap();
    }
    let page: u32 = conn
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'transcript_events'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    conn.close().unwrap();
    let mut bytes = fs::read(home.path(DATABASE)).unwrap();
    let at = (page as usize - 1) * 4096;
    bytes[at..at + 4096].fill(0xEE);
    home.write(DATABASE, bytes);
    is_refused(&home, "damaged");
}

#[test]
fn flipped_bytes_of_a_database_stop_no_sync() {
    let home = Home::quick();
    real(&home, "native", DATABASE);
    let good = fs::read(home.path(DATABASE)).unwrap();
    let mut prng = Prng::new(7);
    for _ in 0..60 {
        let mut bytes = good.clone();
        for _ in 0..1 + prng.below(40) {
            let at = prng.below(bytes.len() as u64) as usize;
            bytes[at] = prng.below(256) as u8;
        }
        if prng.below(4) == 0 {
            bytes.truncate(prng.below(good.len() as u64) as usize);
        }
        home.write(DATABASE, bytes);
        home.sync();
    }
    home.write(DATABASE, good);
    home.sync();
    home.assert_sound();
    home.assert_rebuilds();
    assert_eq!(restored(&home, "e6214aca-607c-412a-963e-9616a4fe156a.jsonl").lines().count(), 8);
}

#[test]
fn older_and_newer_schemas_are_read() {
    for (schema, table) in [
        (
            4,
            "CREATE TABLE transcript_events (session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT NOT NULL, PRIMARY KEY (session_id, seq)) STRICT",
        ),
        (
            4,
            "CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT, PRIMARY KEY (session_id, seq)) WITHOUT ROWID",
        ),
        (
            12,
            "CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT, created_at INTEGER); CREATE TABLE sessions (session_key TEXT, session_id TEXT, entry_json TEXT)",
        ),
        (
            99,
            "CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT, surprise BLOB); CREATE TABLE session_nodes (new_shape); CREATE VIEW session_windows AS SELECT 1",
        ),
    ] {
        let home = Home::new();
        home.folder_for(DATABASE);
        change(&home, &format!("{table}; PRAGMA user_version = {schema}"));
        grow(&home, "s", 0..5);
        let report = sync(&home);
        assert_eq!((report.records_added, reasons(&report)), (5, vec![]), "{table}");
        grow(&home, "s", 5..8);
        assert_eq!(sync(&home).records_added, 3);
        let status = quipu_ledger::status::status(&home.open(), &home.roots()).unwrap();
        let warnings: Vec<_> = status.formats.iter().flat_map(|format| &format.warnings).collect();
        assert_eq!(warnings.len(), usize::from(schema > 23));
    }
}

#[test]
fn a92_other_tables_are_never_read() {
    let home = Home::new();
    real(&home, "imported", DATABASE);
    let canary = "CANARY-4b1f";
    change(
        &home,
        &format!(
            "INSERT INTO cache_entries SELECT * FROM cache_entries WHERE 0;
             DROP TABLE auth_profile_store;
             CREATE TABLE auth_profile_store (store_key, store_json);
             INSERT INTO auth_profile_store VALUES ('k', '{canary}');
             DROP TABLE auth_profile_state;
             CREATE TABLE auth_profile_state (state_json);
             INSERT INTO auth_profile_state VALUES ('{canary}');
             DROP TABLE cache_entries;
             CREATE TABLE cache_entries (value);
             INSERT INTO cache_entries VALUES ('{canary}')"
        ),
    );
    home.write(".openclaw/state/openclaw.sqlite", canary);
    sync(&home);
    assert_eq!(home.hits("Summary"), 1);
    // Also not through a view, a virtual table or a computed column.
    for trick in [
        "CREATE VIEW transcript_events AS SELECT 's' AS session_id, 0 AS seq, store_json AS event_json FROM auth_profile_store",
        "CREATE VIRTUAL TABLE transcript_events USING fts5 (session_id, seq, event_json)",
        "CREATE VIRTUAL TABLE transcript_events USING fts5 (session_id, seq, event_json, content = auth_profile_store)",
    ] {
        home.remove(DATABASE);
        change(
            &home,
            &format!(
                "CREATE TABLE auth_profile_store (store_key, store_json);
                 INSERT INTO auth_profile_store VALUES ('k', '{canary}'); {trick}"
            ),
        );
        let report = sync(&home);
        let is_refused = |reason: &String| reason.contains("no transcripts table");
        assert!(reasons(&report).iter().any(is_refused), "{:?}", reasons(&report));
    }
    for (name, bytes) in home.ledger_bytes() {
        let found = bytes.windows(canary.len()).any(|window| window == canary.as_bytes());
        assert!(!found, "{name} holds the canary");
    }
}

#[test]
fn ids_never_become_paths() {
    let home = Home::new();
    loose(&home, 4, "");
    let ids = [
        "../../../etc/passwd",
        "/etc/passwd",
        ".",
        "..",
        "a/b",
        "a\\b",
        "x\0y",
        "%2e",
        "a.jsonl.reset.b",
        "\u{1f99e}",
        "CON",
        "-rf",
        " ",
    ];
    for id in ids {
        grow(&home, id, 0..2);
    }
    grow(&home, "", 0..2);
    grow(&home, &"long".repeat(100), 0..2);
    let conn = writer(&home, DATABASE);
    conn.execute(
        "INSERT INTO transcript_events (session_id, seq, event_json) VALUES (x'ff', 0, '{}')",
        [],
    )
    .unwrap();
    conn.close().unwrap();
    let report = sync(&home);
    assert_eq!(report.records_added, 2 * ids.len() as u64);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), ids.len() as i64);
    for id in ids {
        let found: i64 = home
            .sql()
            .query_row("SELECT count(*) FROM sessions WHERE session_id = ?1", [id], |row| {
                row.get(0)
            })
            .unwrap();
        assert_eq!(found, 1, "{id:?}");
    }
    assert_eq!(home.restored(Generations::All).len(), ids.len());
}

#[test]
fn archives_and_cold_archives_are_collected() {
    let home = Home::new();
    real(&home, "imported", DATABASE);
    let text = |word: &str| format!("{}\n{}\n", header("old"), event(1, word));
    let conn = writer(&home, DATABASE);
    let put = |session: &str, generation: &str, reason: &str, blob: Vec<u8>, name: &str| {
        put_aside(&conn, session, generation, reason, &blob, name);
    };
    put(
        "old",
        "1",
        "reset",
        text("resetword").into_bytes(),
        "old.jsonl.reset.2026-11-15T18-00-00.000Z",
    );
    put(
        "old",
        "2",
        "deleted",
        text("resetword").into_bytes(),
        "old.jsonl.deleted.2026-11-15T19-00-00.000Z",
    );
    put("odd", "../3", "deleted", text("oddname").into_bytes(), "..hidden");
    put(
        "torn",
        "4",
        "deleted",
        text("torn").trim_end().as_bytes().to_vec(),
        "torn.jsonl.deleted.x",
    );
    let mut broken = zstd::encode_all(text("broken").as_bytes(), 1).unwrap();
    broken.truncate(12);
    put("broken", "5", "deleted", broken, "broken.jsonl.deleted.x.zst");
    conn.execute(
        "INSERT INTO session_transcript_cold_archives VALUES ('cold', 'g', 'abc.jsonl.zst', ?1, 2, 1, 1, 1, 1, 'sqlite', ?2)",
        params!["1".repeat(64), zstd::encode_all(text("coldword").as_bytes(), 1).unwrap()],
    )
    .unwrap();
    conn.close().unwrap();
    settle(&home.path(DATABASE));
    let report = sync(&home);
    assert_eq!(reasons(&report).len(), 1, "{:?}", reasons(&report));
    assert!(reasons(&report).iter().any(|reason| reason.contains("broken.jsonl.deleted")));
    assert_eq!((home.hits("resetword"), home.hits("oddname"), home.hits("coldword")), (1, 1, 1));
    let states =
        "SELECT session_id, state FROM sessions WHERE session_id IN ('old', 'odd', 'torn', 'cold')";
    assert_eq!(
        home.all(states),
        ["'cold'|'archived'", "'odd'|'deleted'", "'old'|'archived'", "'torn'|'deleted'"]
    );
    assert_eq!(restored(&home, "torn.jsonl.deleted.x"), text("torn").trim_end());
    assert_eq!(restored(&home, "odd.jsonl.deleted.%2E.%2F3").lines().count(), 2);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM entries WHERE type = 'session' AND session = (SELECT id FROM sessions WHERE session_id = 'old')"), 1);
    assert_eq!(sync(&home).databases_opened, 0);
}

#[test]
fn a_setting_leaves_deleted_archives_out() {
    let home = Home::new();
    real(&home, "imported", DATABASE);
    let conn = writer(&home, DATABASE);
    put_aside(
        &conn,
        "old",
        "g",
        "deleted",
        event(1, "deletedword").as_bytes(),
        "old.jsonl.deleted.x",
    );
    conn.close().unwrap();
    settle(&home.path(DATABASE));
    let collect = |deleted| {
        let mut roots = home.roots();
        roots.iter_mut().for_each(|root| root.selection.deleted = deleted);
        quipu_ledger::collect::collect(&mut home.open(), &roots, &mut |_| {}).unwrap()
    };
    let report = collect(false);
    assert_eq!((report.records_added, home.hits("deletedword")), (16, 0));
    assert!(reasons(&report)[0].contains("collect.deleted"), "{:?}", reasons(&report));
    assert_eq!(collect(false).databases_opened, 1);
    collect(true);
    assert_eq!(home.hits("deletedword"), 1);
    assert_eq!(collect(true).databases_opened, 0);
    change(&home, "PRAGMA user_version = 22");
    // Collected sessions are not gone because a setting changed.
    assert_eq!(collect(false).gone_sources, 0);
}

#[test]
fn two_collectors_store_each_row_once() {
    let home = Home::quick();
    loose(&home, 23, "");
    for session in 0..20 {
        grow(&home, &format!("s{session}"), 0..20);
    }
    child::finish(child::start(&home, "collect", 8));
    home.sync();
    home.assert_sound();
    home.assert_rebuilds();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM record_rows"), 400);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 20 * 19);
}

#[test]
fn a_collector_killed_while_it_reads_rows_loses_nothing() {
    let home = Home::quick();
    loose(&home, 23, "PRAGMA journal_mode = WAL");
    let conn = writer(&home, DATABASE);
    let mut prng = Prng::new(3);
    let mut rows = [0_u32; 3];
    for _ in 0..60 {
        let mut child = child::start_alone(&home, "collect until killed");
        let end = std::time::Instant::now() + Duration::from_micros(prng.below(40_000));
        while std::time::Instant::now() < end {
            let session = prng.below(3) as usize;
            let number = rows[session];
            let text =
                event(number + 1 + 100_000 * session as u32, &format!("unique{session}x{number}"));
            insert(&conn, &format!("s{session}"), i64::from(number), &text);
            rows[session] += 1;
            std::thread::sleep(Duration::from_micros(300));
        }
        child::assert_lives(&home, &mut child);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    home.sync();
    home.assert_sound();
    home.assert_rebuilds();
    assert_eq!(
        home.one::<i64>("SELECT count(*) FROM record_rows"),
        rows.iter().map(|n| i64::from(*n)).sum::<i64>()
    );
    assert_eq!(home.one::<i64>("SELECT count(*) FROM generations WHERE number > 1"), 0);
    for (session, rows) in rows.into_iter().enumerate() {
        assert_eq!(restored(&home, &format!("s{session}.jsonl")).lines().count(), rows as usize);
    }
}

/// The keys of a database have no file of their own; `restore` finds them by the name that it gives
/// them.
#[test]
fn the_index_in_a_database_is_restored_by_name() {
    let home = Home::new();
    real(&home, "imported", DATABASE);
    sync(&home);
    let to = |name: &str| home.scratch(name);
    for (number, name) in
        ["sessions.json", "openclaw-agent.sqlite/sessions.json", "openclaw-agent.sqlite"]
            .into_iter()
            .enumerate()
    {
        let what = quipu_ledger::restore::RestoreScope::Source(Path::new(name));
        let to = to(&format!("restored{number}"));
        let report =
            quipu_ledger::restore::restore(&home.open(), what, &to, Generations::Newest).unwrap();
        let paths: Vec<&str> = report.written.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths.len(), 1, "{name}: {paths:?}");
        assert!(paths[0].ends_with("openclaw-agent.sqlite/sessions.json"), "{name}: {paths:?}");
    }
}
