//! Imports of many sessions: one transaction stores many sessions, and each line is stored once,
//! even after a kill.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use quipu_ledger::restore::Generations;
use quipu_ledger::store::Store;
use quipu_ledger::wire::ImportedFile;
use quipu_torture::Prng;
use serde_json::json;

use crate::child;
use crate::home::Home;

const FOLDER: &str = "state/agents/main/sessions";

/// Imports everything. The task of a child process.
pub(crate) fn import(home: &Home) {
    Store::open(home.ledger_path())
        .unwrap()
        .import(&home.scratch("state"), &mut |file| assert!(!file.has_failed, "{file:?}"))
        .unwrap();
}

fn id(number: usize) -> String {
    format!("{number:08x}-0000-4000-8000-000000000000")
}

fn transcript(number: usize, entries: usize) -> String {
    let header = json!({"type": "session", "version": 3, "id": id(number), "cwd": "/w",
                        "timestamp": "2026-01-01T00:00:00.000Z"});
    let mut text = format!("{header}\n");
    for entry in 0..entries {
        let parent = (entry > 0).then(|| format!("e{}", entry - 1));
        let line = json!({"type": "message", "id": format!("e{entry}"), "parentId": parent,
            "timestamp": "2026-01-01T00:00:01.000Z",
            "message": {"role": "user", "content": format!("line {entry} of {number}")}});
        text += &format!("{line}\n");
    }
    text
}

/// Writes this many sessions, each with a key.
fn write(home: &Home, sessions: usize, entries: usize) {
    let folder = home.scratch(FOLDER);
    fs::create_dir_all(&folder).unwrap();
    let mut index = serde_json::Map::new();
    for number in 0..sessions {
        fs::write(folder.join(format!("{}.jsonl", id(number))), transcript(number, entries))
            .unwrap();
        let key = format!("agent:main:explicit:{number}");
        index.insert(key, json!({"sessionId": id(number), "updatedAt": 1_770_000_000_000_i64}));
    }
    fs::write(folder.join("sessions.json"), json!(index).to_string()).unwrap();
}

#[track_caller]
fn assert_each_once(home: &Home, sessions: usize, entries: usize) {
    let restored = home.restored(Generations::Newest);
    for number in 0..sessions {
        let name = format!("native/agents/main/sessions/{}.jsonl", id(number));
        let text = restored.get(&name).map(|text| String::from_utf8_lossy(text).into_owned());
        assert_eq!(text, Some(transcript(number, entries)));
    }
    for (table, number) in
        [("sessions", sessions), ("session_keys", sessions), ("messages", sessions * entries)]
    {
        assert_eq!(home.one::<i64>(&format!("SELECT count(*) FROM {table}")), number as i64);
    }
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn many_sessions_are_stored_in_one_transaction_and_other_writers_get_turns() {
    let home = Home::new();
    write(&home, 2100, 1);
    let folder = home.scratch(FOLDER);
    // A faulty file does not affect the others of its transaction.
    fs::write(folder.join("00000400-bad.jsonl"), "neither this\nnor that\n").unwrap();
    fs::write(folder.join("00000401-empty.jsonl"), "").unwrap();
    let store = Store::open(home.ledger_path()).unwrap();
    let other = home.sql();
    let mut versions = BTreeMap::new();
    let mut import_results: Vec<ImportedFile> = Vec::new();
    store
        .import(&home.scratch("state"), &mut |file| {
            let version: i64 =
                other.query_row("PRAGMA data_version", [], |row| row.get(0)).unwrap();
            *versions.entry(version).or_insert(0) += 1;
            import_results.push(file);
        })
        .unwrap();
    // Other writers get their turns in between, and the disk is not synced for each session.
    assert!((5..=100).contains(&versions.len()), "{versions:?}");
    assert!(versions.values().all(|files| *files <= 502), "{versions:?}");
    assert_eq!(import_results.len(), 2103);
    assert!(
        import_results.windows(2).all(|two| two[0].path < two[1].path),
        "files are reported in order"
    );
    let failed: Vec<&ImportedFile> = import_results.iter().filter(|file| file.has_failed).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!((failed[0].rows, failed[0].stored, failed[0].added), (2, 0, 0));
    let index = import_results.last().unwrap();
    assert_eq!((index.rows, index.stored, index.added), (2100, 2100, 2100));
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sources WHERE path LIKE '%bad%'"), 0);
    assert_each_once(&home, 2100, 1);
    // Without new lines nothing is written.
    let before: i64 = other.query_row("PRAGMA data_version", [], |row| row.get(0)).unwrap();
    store.import(&home.scratch("state"), &mut |file| assert_eq!(file.added, 0)).unwrap();
    assert_eq!(other.query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0)), Ok(before));
}

#[test]
fn an_import_that_is_killed_and_repeated_stores_each_line_once() {
    let home = Home::quick();
    write(&home, 1500, 3);
    let mut prng = Prng::new(11);
    for _ in 0..12 {
        let mut child = child::command(&home, "import").spawn().unwrap();
        drop(child.stdin.take());
        std::thread::sleep(Duration::from_millis(10 + prng.below(250)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    import(&home);
    assert_each_once(&home, 1500, 3);
}

#[test]
fn several_imports_at_once_store_each_line_once() {
    let home = Home::quick();
    write(&home, 600, 2);
    child::finish(child::start(&home, "import", 3));
    assert_each_once(&home, 600, 2);
    // The files grow, and all imports continue.
    write(&home, 600, 4);
    child::finish(child::start(&home, "import", 3));
    assert_each_once(&home, 600, 4);
}

#[test]
fn a_long_session_is_stored_in_pieces() {
    let home = Home::new();
    let entries = 50_000;
    write(&home, 1, entries);
    let store = Store::open(home.ledger_path()).unwrap();
    let folder = home.scratch("state");
    let length = fs::metadata(home.scratch(FOLDER).join(format!("{}.jsonl", id(0)))).unwrap().len();
    assert!(length > 5 << 20, "{length} bytes are not a long session");
    let mut import_results = Vec::new();
    store.import(&folder, &mut |file| import_results.push(file)).unwrap();
    let counted = (import_results[0].rows, import_results[0].stored, import_results[0].added);
    assert_eq!(counted, (entries as u64 + 1, entries as u64 + 1, entries as u64 + 1));
    assert_eq!((import_results[1].stored, import_results[1].added), (1, 1));
    store
        .import(&folder, &mut |file| assert_eq!((file.added, file.has_failed), (0, false)))
        .unwrap();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), entries as i64);
}

/// Imports a folder, and returns the result of each file by its name.
fn import_results(home: &Home, folder: &str) -> BTreeMap<String, ImportedFile> {
    let mut import_results = BTreeMap::new();
    Store::open(home.ledger_path())
        .unwrap()
        .import(&home.path(folder), &mut |file| {
            assert!(import_results.insert(file.path.clone(), file).is_none());
        })
        .unwrap();
    import_results
}

fn contexts(home: &Home, format: &str) -> BTreeMap<String, serde_json::Value> {
    let ledger = home.open();
    let ids = home.all(&format!("SELECT id FROM sessions WHERE format = '{format}'"));
    let contexts = ids.iter().map(|id| {
        let row = quipu_ledger::ids::SessionRow(id.parse().unwrap());
        let id = home.one::<String>(&format!("SELECT session_id FROM sessions WHERE id = {id}"));
        let context = quipu_ledger::query::context_of(&ledger, row, None).unwrap().context;
        (id, serde_json::to_value(context).unwrap())
    });
    contexts.collect()
}

#[test]
fn sessions_of_a_database_are_imported_with_their_keys() {
    let home = Home::new();
    crate::rows::real(&home, "imported", crate::rows::DATABASE);
    home.sync();
    let collected = contexts(&home, "openclaw");
    let files = import_results(&home, ".openclaw");
    let database = "agents/main/agent/openclaw-agent.sqlite";
    let keys = &files[database];
    assert_eq!((keys.kind, keys.has_failed, keys.stored), ("index", false, keys.rows), "{files:?}");
    assert!(keys.rows > 0 && keys.added == keys.rows);
    let sessions: Vec<&ImportedFile> =
        files.values().filter(|file| file.kind == "transcript").collect();
    assert_eq!(sessions.len(), 2);
    assert!(
        sessions.iter().all(|file| file.rows > 0 && file.added == file.rows && !file.has_failed)
    );
    let mut imported = contexts(&home, "native");
    // A key without a transcript leads to an empty session.
    imported.retain(|_, context| !context["leaf"].is_null());
    assert_eq!(imported, collected);
    // A second import, and one from the agent's own folder, add nothing.
    assert!(import_results(&home, ".openclaw/agents/main").values().all(|file| file.added == 0));
    // Files beside the database are copies; the session in the database continues.
    let id = sessions[0].session_id.clone().unwrap();
    let restored = home.restored(Generations::Newest);
    let lines = &restored[&format!("native/agents/main/sessions/{id}.jsonl")];
    home.write(&format!(".openclaw/agents/main/sessions/{id}.jsonl"), lines);
    let copy = &import_results(&home, ".openclaw")[&format!("agents/main/sessions/{id}.jsonl")];
    assert_eq!((copy.kind, copy.added, copy.has_failed), ("other", 0, false), "{copy:?}");
    home.write(".openclaw/agents/main/agent/openclaw-agent.sqlite", "no database at all");
    let damaged = &import_results(&home, ".openclaw")[database];
    assert!(damaged.has_failed && damaged.reason.is_some(), "{damaged:?}");
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn copies_are_sessions_of_their_own_where_they_hold_more() {
    let home = Home::new();
    let sessions = ".openclaw/agents/main/sessions";
    let put = |name: &str, text: &str| home.write(&format!("{sessions}/{name}"), text);
    let compressed = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
    put(&format!("{}.jsonl", id(1)), &transcript(1, 3));
    // One copy holds only lines of the live transcript, the other one line more.
    put(&format!("{}.jsonl.bak-17-1770000000000", id(1)), &transcript(1, 2));
    let other = transcript(1, 1).replace("line 0", "another line 0").replace("e0", "x0");
    put(&format!("{}.jsonl.bak.2026-01-01T00-00-00.000Z", id(1)), &other);
    // Only copies are left of these.
    put(&format!("{}.jsonl.bak", id(2)), &transcript(2, 2));
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    home.write(&format!("{sessions}/cold/{hash}.jsonl.zst"), compressed(&transcript(3, 2)));
    home.write(&format!("{sessions}/cold/{}.jsonl", "0".repeat(64)), "no header\n");
    let moved = format!("agent_main_main.{}.jsonl.imported-1770193116233", id(4));
    home.write(&format!(".openclaw/session-sqlite-import-archive/{moved}"), transcript(4, 2));
    let of_other_agent = format!("agent_work_main.{}.jsonl.imported-1770193116233", id(5));
    home.write(
        &format!(".openclaw/session-sqlite-import-archive/{of_other_agent}"),
        transcript(5, 2),
    );
    let files = import_results(&home, ".openclaw");
    let of = |name: &str| {
        let file = files.iter().find(|(path, _)| path.ends_with(name)).map(|(_, file)| file);
        let file = file.unwrap_or_else(|| panic!("{name}: {files:?}"));
        (file.session_id.clone(), file.rows, file.added, file.has_failed)
    };
    assert_eq!(of(&format!("{}.jsonl", id(1))), (Some(id(1)), 4, 4, false));
    assert_eq!(of("bak-17-1770000000000"), (None, 0, 0, false));
    let own = format!("{}.bak.2026-01-01T00-00-00.000Z", id(1));
    assert_eq!(of("bak.2026-01-01T00-00-00.000Z"), (Some(own), 2, 2, false));
    assert_eq!(of(&format!("{}.jsonl.bak", id(2))), (Some(id(2)), 3, 3, false));
    assert_eq!(of(&format!("{hash}.jsonl.zst")), (Some(id(3)), 3, 3, false));
    assert_eq!(of(&format!("{}.jsonl", "0".repeat(64))), (None, 0, 0, true));
    assert_eq!(of(&moved), (Some(id(4)), 3, 3, false));
    assert!(
        !files.keys().any(|path| path.ends_with(&of_other_agent)),
        "another agent's file is not imported"
    );
    assert!(import_results(&home, ".openclaw").values().all(|file| file.added == 0));
    home.assert_rebuilds();
}

/// `dm` and `direct` make two keys, each with its session, as in OpenClaw. If only one exists, both
/// spellings lead to it.
#[test]
fn dm_and_direct_lead_to_their_own_sessions() {
    let home = Home::quick();
    let folder = home.scratch(FOLDER);
    fs::create_dir_all(&folder).unwrap();
    let mut index = serde_json::Map::new();
    for (number, key) in ["telegram:dm:1", "telegram:direct:1", "telegram:dm:2"].iter().enumerate()
    {
        fs::write(folder.join(format!("{}.jsonl", id(number))), transcript(number, 2)).unwrap();
        index.insert(format!("agent:main:{key}"), json!({"sessionId": id(number), "updatedAt": 1}));
    }
    fs::write(folder.join("sessions.json"), json!(index).to_string()).unwrap();
    import(&home);
    let store = Store::open(home.ledger_path()).unwrap();
    for (key, number) in [
        ("telegram:dm:1", 0),
        ("telegram:direct:1", 1),
        ("telegram:dm:2", 2),
        ("telegram:direct:2", 2),
    ] {
        let session = store.session(&format!("agent:main:{key}")).unwrap();
        assert_eq!(session.id(), id(number), "{key}");
    }
}

/// An index that is too large to be read is reported, and its sessions are imported.
#[test]
fn an_index_that_is_too_large_is_reported() {
    let home = Home::quick();
    write(&home, 1, 2);
    let index = fs::File::create(home.scratch(FOLDER).join("sessions.json")).unwrap();
    index.set_len((1 << 30) + 1).unwrap();
    let store = Store::open(home.ledger_path()).unwrap();
    let mut import_results = Vec::new();
    store.import(&home.scratch("state"), &mut |file| import_results.push(file)).unwrap();
    let of = |kind: &str| import_results.iter().find(|file| file.kind == kind).unwrap();
    let why = of("index").reason.as_deref().unwrap();
    assert!(of("index").has_failed && why.contains("too large"), "{why}");
    assert!(
        import_results.iter().any(|file| file.kind != "index" && !file.has_failed),
        "{import_results:?}"
    );
}

/// The database and a compressed file hold the same archive of a deleted session.
#[test]
fn a_deleted_session_is_imported_once_and_stays_deleted() {
    let home = Home::new();
    crate::rows::real(&home, "gateway", crate::rows::DATABASE);
    let deleted = "5cda4892-86ae-4ddf-b516-0d2ba363ca07";
    let database = rusqlite::Connection::open(home.path(crate::rows::DATABASE)).unwrap();
    let archive: Vec<u8> = database
        .query_row("SELECT archive_blob FROM session_transcript_archives", [], |row| row.get(0))
        .unwrap();
    drop(database);
    let name = format!("{deleted}.jsonl.deleted.2026-11-16T22-55-51.475Z.daad4f92.zst");
    home.write(&format!(".openclaw/agents/main/sessions/{name}"), archive);
    // A plain file, and a session that the ledger knows as live.
    let plain = format!(".openclaw/agents/main/sessions/{}.jsonl", id(1));
    home.write(&plain, transcript(1, 2));
    let states = || home.all("SELECT session_id, state FROM sessions WHERE format = 'native'");
    import_results(&home, ".openclaw");
    let native = "SELECT state FROM sessions WHERE format = 'native' AND session_id = ";
    assert_eq!(states().len(), 6, "{:?}", states());
    assert_eq!(home.all(&format!("{native}'{deleted}'")), ["'deleted'"]);
    assert_eq!(home.all(&format!("{native}'{}'", id(1))), ["'live'"]);
    home.rename(&plain, &format!("{plain}.deleted.2026-11-17T10-00-00.000Z"));
    import_results(&home, ".openclaw");
    assert_eq!(home.all(&format!("{native}'{}'", id(1))), ["'deleted'"]);
    assert_eq!(states().len(), 6, "{:?}", states());
    home.assert_rebuilds();
    home.assert_sound();
    // A key that leads to it makes it live again.
    let key = format!("agent:main:explicit:{}", id(1));
    home.rename(&format!("{plain}.deleted.2026-11-17T10-00-00.000Z"), &plain);
    let index = json!({key: {"sessionId": id(1), "updatedAt": 1}});
    home.write(".openclaw/agents/main/sessions/sessions.json", index.to_string());
    import_results(&home, ".openclaw");
    assert_eq!(home.all(&format!("{native}'{}'", id(1))), ["'live'"]);
    home.assert_rebuilds();
}
