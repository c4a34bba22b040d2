//! Exports to files, and imports of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use quipu_ledger::Ledger;
use quipu_ledger::export::openclaw;
use quipu_ledger::ids::SessionRow;
use quipu_ledger::query::Filter;
use quipu_ledger::store::{Entry, Fork, NewSession, Session, Store};
use quipu_ledger::wire::{self, ImportedFile};
use serde_json::{Map, Value, json};

use crate::home::Home;

fn message(role: &str, text: &str) -> String {
    json!({"role": role, "content": text, "provider": "p", "model": "m"}).to_string()
}

fn append(session: &Session, entry: &str) -> String {
    session.append(Entry::json(entry)).unwrap().id
}

fn sessions(ledger: &Ledger) -> Vec<(SessionRow, wire::Session)> {
    let all = Filter { all: true, ..Filter::default() };
    quipu_ledger::query::session_rows(ledger, &all).unwrap()
}

/// Exports all sessions.
fn export(ledger: &Ledger, to: &Path) {
    let plan = openclaw::plan(ledger, &sessions(ledger)).unwrap();
    for file in plan.transcript_files() {
        let path = to.join(&file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut bytes = Vec::new();
        plan.write(&file, to, &mut bytes).unwrap();
        fs::write(path, bytes).unwrap();
    }
    for (path, index) in plan.indexes().unwrap().files {
        fs::write(to.join(path), serde_json::to_vec_pretty(&index).unwrap()).unwrap();
    }
}

fn import(store: &Store, folder: &Path) -> Vec<ImportedFile> {
    let mut files = Vec::new();
    store.import(folder, &mut |file| files.push(file)).unwrap();
    files
}

/// Returns the context of each session, by its id.
fn contexts(ledger: &Ledger) -> BTreeMap<String, Value> {
    let contexts = sessions(ledger).into_iter().map(|(row, session)| {
        let context = quipu_ledger::query::context_of(ledger, row, None).unwrap().context;
        (session.session_id, serde_json::to_value(&context).unwrap())
    });
    contexts.collect()
}

/// Returns all files below a folder, with their bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let name = path.strip_prefix(folder).unwrap().to_owned();
                    files.insert(name, fs::read(&path).unwrap());
                }
            }
        }
    }
    files
}

/// Creates sessions that were branched, reset, compacted, labelled and forked.
fn busy(store: &Store) {
    let fields = json!({"label": "L", "chatType": "direct", "futureField": {"x": [1]}});
    let fields = fields.as_object().unwrap().clone();
    let key = Some("agent:main:telegram:direct:7");
    let plain =
        NewSession { id: Some("plain"), key, cwd: Some("/w"), fields, ..Default::default() };
    let plain = store.create(&plain).unwrap();
    let one = append(&plain, &message("user", "one"));
    let two = append(&plain, &message("assistant", "two"));
    append(&plain, &message("user", "three"));
    plain.label(&one, Some("here")).unwrap();
    plain.branch(Some(&two), None).unwrap();
    let fork = Fork { id: Some("fork"), ..Fork::default() };
    plain.fork(&fork).unwrap();

    let topic = Some("agent:main:telegram:group:-100:topic:7");
    let new = NewSession { id: Some("reset"), key: topic, ..Default::default() };
    let reset = store.create(&new).unwrap();
    append(&reset, r#"{"type":"thinking_level_change","thinkingLevel":"high"}"#);
    append(&reset, &message("user", "before"));
    let kept = append(&reset, &message("user", "kept"));
    append(&reset, r#"{"type":"custom_message","customType":"x","content":"not kept"}"#);
    append(&reset, &message("assistant", "kept too"));
    reset.reset("reset", Some(&kept)).unwrap();
    append(&reset, &message("user", "after"));
    reset.reset("daily", None).unwrap();
    append(&reset, &message("user", "at last"));

    let odd = NewSession { id: Some("../odd id"), agent: Some("work"), ..Default::default() };
    let odd = store.create(&odd).unwrap();
    append(&odd, &message("user", "one"));
    let first = append(&odd, &message("assistant", "two"));
    let compaction = json!({"type": "compaction", "summary": "s", "firstKeptEntryId": first});
    append(&odd, &compaction.to_string());
    odd.branch(None, None).unwrap();
}

#[test]
fn exported_sessions_read_the_same() {
    let home = Home::new();
    let store = Store::open(home.ledger_path()).unwrap();
    busy(&store);
    let out = home.path(".openclaw");
    export(&store.reader().unwrap(), &out);
    let written: Vec<String> =
        files(&out).into_keys().map(|path| path.display().to_string()).collect();
    let resets = written.iter().filter(|name| name.contains("/reset-topic-7.jsonl.reset.2"));
    assert_eq!((written.len(), resets.count()), (8, 2), "{written:?}");

    // Collected by our own reader into another ledger.
    let other = Home::new();
    fs::create_dir_all(other.path("x").parent().unwrap()).unwrap();
    fs::rename(&out, other.path(".openclaw")).unwrap();
    other.sync();
    let (ours, theirs) = (contexts(&store.reader().unwrap()), contexts(&other.open()));
    for (id, name) in [("plain", "plain"), ("fork", "fork"), ("reset", "reset-topic-7")] {
        assert_eq!(ours[id], theirs[name], "{id}");
    }
    let is_odd = |id: &&String| id.len() == 36;
    assert_eq!(theirs[theirs.keys().find(is_odd).unwrap()]["messages"], json!([]));
    let forks = "SELECT session_id || ' ' || fork_of FROM sessions WHERE fork_of IS NOT NULL";
    assert_eq!(other.one::<String>(forks), "fork plain");
}

#[test]
fn an_import_equals_what_was_exported() {
    let home = Home::new();
    let store = Store::open(home.ledger_path()).unwrap();
    busy(&store);
    let out = home.scratch("out");
    export(&store.reader().unwrap(), &out);

    let again = Home::new();
    let copy = Store::open(again.ledger_path()).unwrap();
    let imported = import(&copy, &out);
    assert!(
        imported.iter().all(|file| !file.has_failed && file.rows == file.stored),
        "{imported:#?}"
    );
    assert_eq!(sessions(&copy.reader().unwrap()).len(), 4);
    assert_eq!(contexts(&copy.reader().unwrap()), contexts(&store.reader().unwrap()));
    for id in ["plain", "fork", "reset", "../odd id"] {
        let of = |store: &Store| store.session(id).unwrap();
        let (one, other) = (of(&store), of(&copy));
        assert_eq!(one.key().unwrap(), copy.session(other.id()).unwrap().key().unwrap());
        let (mut noted, mut noted_there) =
            (one.meta().unwrap(), copy.session(other.id()).unwrap().meta().unwrap());
        // Counted fields differ, because each ledger counts its own entries.
        for fields in [&mut noted, &mut noted_there] {
            fields.remove("updatedAt");
            fields.remove("sessionStartedAt");
        }
        assert_eq!(noted, noted_there, "{id}");
        // All entries have the same ids and parents, and there are no others.
        assert_eq!(entries(&home, id), entries(&again, id), "{id}");
    }
    // A second export gives the same files, and a second import adds nothing.
    let out_again = again.scratch("out");
    export(&copy.reader().unwrap(), &out_again);
    let (first, second) = (transcripts(&out), transcripts(&out_again));
    assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    for (name, text) in &first {
        assert_eq!(text, &second[name], "{name:?}");
    }
    let rows = again.all("SELECT count(*) FROM records");
    assert!(import(&copy, &out).iter().all(|file| file.added == 0));
    assert_eq!(again.all("SELECT count(*) FROM records"), rows);
    again.assert_rebuilds();
    again.assert_sound();
}

/// Returns ids and parents of a session's entries, without `leaf` lines, which no file has.
fn entries(home: &Home, session: &str) -> Vec<(String, String)> {
    let ledger = home.open();
    let row = quipu_ledger::query::find_session(&ledger, session).unwrap();
    let sql = home.sql();
    let mut statement = sql
        .prepare(
            "SELECT hex(e.entry_id), coalesce(hex(p.uuid), '') FROM entries e
               LEFT JOIN entry_rows p ON p.id = e.parent
              WHERE e.session = ?1 AND e.type NOT IN ('session', 'leaf')",
        )
        .unwrap();
    let rows = statement.query_map([row.0], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let mut entries: Vec<(String, String)> = rows.collect::<Result<_, _>>().unwrap();
    entries.sort();
    entries
}

/// Returns transcripts by name; paths to parents differ with the folder.
fn transcripts(folder: &Path) -> BTreeMap<PathBuf, String> {
    let shown = folder.display().to_string();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&shown, "");
    let files = files(folder).into_iter().filter(|(path, _)| !path.ends_with("sessions.json"));
    files.map(|(path, bytes)| (path, text(bytes))).collect()
}

const HEADER: &str =
    r#"{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}"#;

fn entry(id: &str, parent: Option<&str>, text: &str) -> String {
    json!({"type": "message", "id": id, "parentId": parent, "timestamp": "2026-01-01T00:00:01.000Z",
           "message": {"role": "user", "content": text, "timestamp": 1}})
    .to_string()
}

#[test]
fn bad_repeated_and_torn_lines_are_imported() {
    let home = Home::new();
    let folder = home.scratch("state");
    let sessions = folder.join("agents/main/sessions");
    fs::create_dir_all(&sessions).unwrap();
    // A bad line in the middle, a repeated id, an empty line, and a torn end.
    let text = format!(
        "{HEADER}\n{}\nnot json\n{}\n\n{}\n{}\n{{\"type\":\"mess",
        entry("1", None, "one"),
        entry("2", Some("1"), "two"),
        entry("2", Some("1"), "twice"),
        entry("3", Some("2"), "three"),
    );
    fs::write(sessions.join("s.jsonl"), &text).unwrap();
    fs::write(
        sessions.join("old.jsonl.reset.2026-01-01T00-00-00.000Z"),
        format!("{HEADER}\n{}\n", entry("a", None, "old")),
    )
    .unwrap();
    fs::write(
        sessions.join("gone.jsonl.deleted.2026-01-01T00-00-00.000Z"),
        format!("{HEADER}\n{}\n", entry("a", None, "gone")),
    )
    .unwrap();
    fs::write(sessions.join("auth-profiles.json"), "secret").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", sessions.join("link.jsonl")).unwrap();
    let index = json!({
        "agent:main:main": {"sessionId": "s", "updatedAt": 1_767_225_601_000_i64, "status": "odd",
            "systemPromptReport": {"long": "x".repeat(40_000)}, "futureField": 7,
            "sessionFile": "/elsewhere/agents/main/sessions/s.jsonl"},
        "agent:main:explicit:lost": {"sessionId": "lost", "updatedAt": 5, "label": "no file"},
    });
    fs::write(sessions.join("sessions.json"), index.to_string()).unwrap();

    let store = Store::open(home.ledger_path()).unwrap();
    let imported = import(&store, &folder);
    let imported: Vec<(&str, u64, u64, u64)> = imported
        .iter()
        .map(|file| (file.path.rsplit('/').next().unwrap(), file.rows, file.stored, file.added))
        .collect();
    assert_eq!(
        imported,
        [
            ("gone.jsonl.deleted.2026-01-01T00-00-00.000Z", 2, 2, 2),
            ("old.jsonl.reset.2026-01-01T00-00-00.000Z", 2, 2, 2),
            ("s.jsonl", 8, 8, 8),
            ("sessions.json", 2, 2, 2),
            ("link.jsonl", 0, 0, 0),
        ]
    );
    let session = store.session("agent:main:main").unwrap();
    assert_eq!(session.id(), "s");
    let kept = quipu_ledger::export::transcripts(&store.reader().unwrap(), session.row()).unwrap();
    let mut bytes = Vec::new();
    kept[0]
        .stream(&store.reader().unwrap(), &mut |part| {
            bytes.extend_from_slice(part);
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), format!("{text}\n"));
    let meta = session.meta().unwrap();
    assert_eq!(meta["futureField"], json!(7));
    assert_eq!(meta["status"], json!("odd"));
    assert_eq!(meta["systemPromptReport"], index["agent:main:main"]["systemPromptReport"]);
    let lost = store.session("agent:main:explicit:lost").unwrap();
    assert_eq!(lost.meta().unwrap()["label"], json!("no file"));
    assert_eq!(session.context().unwrap().leaf.as_deref(), Some("3"));
    assert!(home.all("SELECT text FROM messages").iter().all(|text| !text.contains("secret")));
    home.assert_rebuilds();
}

#[test]
fn an_import_never_changes_stored_entries() {
    let home = Home::new();
    let folder = home.scratch("sessions");
    fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: String| fs::write(folder.join(name), text).unwrap();
    write("a.jsonl", format!("{HEADER}\n{}\n", entry("1", None, "one")));
    write("b.jsonl", format!("{HEADER}\n{}\n", entry("1", None, "one")));
    let store = Store::open(home.ledger_path()).unwrap();
    assert!(import(&store, &folder).iter().all(|file| file.added == 2 && file.agent == "main"));

    // One file grew, one session grew, and one file was replaced.
    write(
        "a.jsonl",
        format!("{HEADER}\n{}\n{}\n", entry("1", None, "one"), entry("2", Some("1"), "two")),
    );
    let b = store.session("b").unwrap();
    append(&b, &message("assistant", "here"));
    let imported = import(&store, &folder);
    assert_eq!((imported[0].added, imported[1].added), (1, 0));
    assert!(imported.iter().all(|file| !file.has_failed));
    write("b.jsonl", format!("{HEADER}\n{}\n", entry("1", None, "other")));
    write("c.jsonl", format!("{HEADER}\n{}\n", entry("1", None, "new")));
    let imported = import(&store, &folder);
    assert!(imported[1].has_failed && imported[1].stored == 0, "{imported:?}");
    assert!(imported[1].reason.as_ref().unwrap().contains("with other lines"));
    assert_eq!((imported[2].has_failed, imported[2].added), (false, 2));
    assert_eq!(b.context().unwrap().messages.len(), 2);

    // A key that leads to another session by now is not changed.
    let index = json!({"agent:main:main": {"sessionId": "a", "updatedAt": 1}});
    write("sessions.json", index.to_string());
    let key = Some("agent:main:main");
    let new = NewSession { key, fields: Map::new(), ..Default::default() };
    let mine = store.create(&new).unwrap();
    assert_eq!(import(&store, &folder).last().unwrap().added, 0);
    assert_eq!(home.row("agent:main:main"), mine.row());
    assert!(store.import(&home.scratch("nothing"), &mut |_| {}).is_err());
    fs::create_dir_all(home.scratch("empty")).unwrap();
    assert!(store.import(&home.scratch("empty"), &mut |_| {}).is_err());
}

#[test]
fn collected_sessions_are_exported_with_their_index() {
    let home = Home::new();
    let base = ".openclaw/agents/main/sessions";
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../transcript/fixtures/context/oc71");
    let text = fs::read_to_string(fixture.join("04-branch.jsonl")).unwrap();
    home.write(&format!("{base}/id-topic-7.jsonl"), &text);
    let index = json!({"agent:main:telegram:group:-1:topic:7": {"sessionId": "id",
        "sessionFile": "id-topic-7.jsonl", "updatedAt": 1_767_225_601_000_i64,
        "skillsSnapshot": {"prompt": "p".repeat(20_000)}}});
    home.write(&format!("{base}/sessions.json"), index.to_string());
    home.write(".claude/projects/-w/00000001-0000-4000-8000-000000000001.jsonl", "{}\n");
    home.sync();
    let ledger = home.open();
    let plan = openclaw::plan(&ledger, &sessions(&ledger)).unwrap();
    assert_eq!((plan.session_count(), plan.left_out.len()), (1, sessions(&ledger).len() - 1));
    drop(plan);
    let out = home.scratch("out");
    export(&ledger, &out);
    let folder = out.join("agents/main/sessions");
    let written: Value =
        serde_json::from_slice(&fs::read(folder.join("sessions.json")).unwrap()).unwrap();
    assert_eq!(written, index);
    let (header, rest) = text.split_once('\n').unwrap();
    let back = fs::read_to_string(folder.join("id-topic-7.jsonl")).unwrap();
    let (back_header, back_rest) = back.split_once('\n').unwrap();
    assert_eq!(back_rest.trim_end(), rest.trim_end());
    let (mut before, after): (Value, Value) =
        (serde_json::from_str(header).unwrap(), serde_json::from_str(back_header).unwrap());
    before["id"] = "id".into();
    assert_eq!(before, after);
}

#[test]
fn threads_of_one_id_are_sessions_of_their_own() {
    let header = json!({"type": "session", "version": 3, "id": "id", "cwd": "/w",
        "timestamp": "2026-01-01T00:00:00.000Z"});
    let begins = format!("{header}\n{}\n", entry("e1", None, "one"));
    let text = format!("{begins}{}\n", entry("e2", Some("e1"), "two"));
    let key = |thread: &str| format!("agent:main:telegram:group:-1:topic:{thread}");
    let noted = |more: Value| {
        let mut index = Map::new();
        for thread in ["5", "6"] {
            let mut fields = json!({"sessionId": "id", "updatedAt": 1_767_225_601_000_i64});
            if more == true {
                fields["sessionFile"] = format!("id-topic-{thread}.jsonl").into();
            }
            index.insert(key(thread), fields);
        }
        json!(index)
    };
    // With an index, with one that does not name the files, and without one.
    for index in [Some(noted(true.into())), Some(noted(false.into())), None] {
        let home = Home::new();
        let base = ".openclaw/agents/main/sessions";
        home.write(&format!("{base}/id-topic-5.jsonl"), &begins);
        home.write(&format!("{base}/id-topic-6.jsonl"), &text);
        if let Some(index) = &index {
            home.write(&format!("{base}/sessions.json"), index.to_string());
        }
        let store = Store::open(home.ledger_path()).unwrap();
        let imported = import(&store, &home.path(".openclaw"));
        assert!(
            imported.iter().all(|file| !file.has_failed && file.stored == file.rows),
            "{imported:?}"
        );
        let seen: Vec<(String, usize)> = contexts(&store.reader().unwrap())
            .into_iter()
            .map(|(id, context)| (id, context["messages"].as_array().unwrap().len()))
            .collect();
        assert_eq!(seen, [("id-topic-5".to_owned(), 1), ("id-topic-6".to_owned(), 2)]);
        if index.is_some() {
            for thread in ["5", "6"] {
                let session = store.session(&key(thread)).unwrap();
                assert_eq!(session.id(), format!("id-topic-{thread}"));
            }
        }
        let out = home.scratch("out");
        export(&store.reader().unwrap(), &out);
        let mut before = files(&home.path(".openclaw"));
        let mut after = files(&out);
        let name = PathBuf::from("agents/main/sessions/sessions.json");
        let read = |bytes: Option<Vec<u8>>| -> Option<Value> {
            bytes.map(|bytes| serde_json::from_slice(&bytes).unwrap())
        };
        before.remove(&name);
        let after_index = read(after.remove(&name));
        assert_eq!(after, before);
        for thread in ["5", "6"].into_iter().filter(|_| index.is_some()) {
            let fields = &after_index.as_ref().unwrap()[key(thread)];
            assert_eq!(fields["sessionId"], "id");
            assert_eq!(fields["sessionFile"], format!("id-topic-{thread}.jsonl"));
        }
        assert!(import(&store, &out).iter().all(|file| file.added == 0 && !file.has_failed));
    }
}

#[test]
fn an_exported_thread_is_imported_as_the_same_session() {
    let home = Home::new();
    let store = Store::open(home.ledger_path()).unwrap();
    for (id, key) in [
        ("own", "agent:main:telegram:group:-1:topic:7"),
        ("my-topic-ideas", "agent:main:main"),
        ("a-topic-1", "agent:main:telegram:group:-1:topic:2"),
    ] {
        let new = NewSession { id: Some(id), key: Some(key), ..Default::default() };
        let session = store.create(&new).unwrap();
        append(&session, &message("user", id));
    }
    let out = home.scratch("out");
    export(&store.reader().unwrap(), &out);
    let there = files(&out);
    let has = |name: &str| there.contains_key(Path::new(&format!("agents/main/sessions/{name}")));
    assert!(has("own-topic-7.jsonl") && has("my-topic-ideas.jsonl"), "{:?}", there.keys());
    // Nothing is new in the original ledger, and in another one they are the same.
    let again = import(&store, &out);
    assert!(again.iter().all(|file| file.added == 0 && !file.has_failed), "{again:?}");
    let other = Home::new();
    let copy = Store::open(other.ledger_path()).unwrap();
    import(&copy, &out);
    assert_eq!(contexts(&copy.reader().unwrap()), contexts(&store.reader().unwrap()));
    for key in ["agent:main:main", "agent:main:telegram:group:-1:topic:2"] {
        let id = |store: &Store| store.session(key).unwrap().id().to_owned();
        assert_eq!(id(&copy), id(&store));
    }
}

#[test]
fn a_leaf_that_is_a_reset_reads_back_with_what_follows_it() {
    for is_marked in [false, true] {
        let home = Home::new();
        let store = Store::open(home.ledger_path()).unwrap();
        let new = NewSession { id: Some("z"), ..Default::default() };
        let session = store.create(&new).unwrap();
        let one = append(&session, &message("user", "one"));
        let two = append(&session, &message("assistant", "two"));
        if is_marked {
            let change = r#"{"type":"model_change","provider":"p","modelId":"n"}"#;
            append(&session, change);
        }
        session.label(&one, Some("here")).unwrap();
        let reset = session.reset("reset", None).unwrap().id;
        append(&session, &message("user", "three"));
        let four = append(&session, &message("assistant", "four"));
        session.branch(Some(&reset), None).unwrap();
        let out = home.scratch("out");
        export(&store.reader().unwrap(), &out);
        let other = Home::new();
        let copy = Store::open(other.ledger_path()).unwrap();
        let imported = import(&copy, &out);
        assert!(imported.iter().all(|file| !file.has_failed), "{imported:?}");
        let rows = sessions(&copy.reader().unwrap());
        assert_eq!(rows.len(), 1, "{rows:?}");
        let again = copy.session(&rows[0].1.session_id).unwrap();
        assert_eq!(copy.session(again.id()).unwrap().leaf().unwrap().unwrap().id, reset);
        for leaf in [&one, &two, &reset, &four] {
            let seen = |store: &Store, session: &Session| {
                let ledger = &store.reader().unwrap();
                let context =
                    quipu_ledger::query::context_of(ledger, session.row(), Some(leaf)).unwrap();
                serde_json::to_value(context.context).unwrap()
            };
            assert_eq!(seen(&copy, &again), seen(&store, &session));
        }
        let lengths = |session: &Session| {
            let mut all: Vec<(String, u64)> = Vec::new();
            for branch in session.branches().unwrap() {
                all.push((branch.tip.id, branch.length));
            }
            all.sort();
            all
        };
        assert_eq!(lengths(&again), lengths(&session));
        assert_eq!(other.one::<i64>("SELECT count(*) FROM labels"), 1);
    }
}

/// Numbers that no float can hold, in fields of every shape, keep their spelling, in collected and
/// imported sessions.
#[test]
fn numbers_of_an_index_stay_as_they_were_written() {
    const BIG: &str = "18446744073709551617";
    let line = "{\"type\":\"message\",\"id\":\"e\",\"parentId\":null,\"timestamp\":\"2026-01-01T00:00:01Z\",\
        \"message\":{\"role\":\"user\",\"content\":\"x\"}}\n";
    let flat = format!(
        r#"{{"agent:a:main": {{"sessionId": "s", "updatedAt": 1770199200000.25, "tokenCount": {BIG},
            "inputTokens": {BIG}, "outputTokens": 1E5, "cacheRead": 9007199254740993, "x": [{BIG}]}}}}"#
    );
    let nested = format!(
        r#"{{"version": 1, "agents": {{"agent:b:main": {{"sessionId": "s", "updatedAt": {BIG},
            "tokenCounts": {{"inputTokens": {BIG}, "q": 1E5}}}}}}}}"#
    );
    let home = Home::new();
    for (agent, index) in [("a", flat), ("b", nested)] {
        let base = format!(".openclaw/agents/{agent}/sessions");
        home.write(&format!("{base}/s.jsonl"), line);
        home.write(&format!("{base}/sessions.json"), index);
    }
    home.sync();
    let other = Home::new();
    let store = Store::open(other.ledger_path()).unwrap();
    import(&store, &home.path(".openclaw"));
    for ledger in [&home.open(), &store.reader().unwrap()] {
        let plan = openclaw::plan(ledger, &sessions(ledger)).unwrap();
        let written: String =
            plan.indexes().unwrap().files.into_iter().map(|(_, fields)| fields.pretty()).collect();
        for part in [
            "\"updatedAt\": 1770199200000.25".to_owned(),
            format!("\"totalTokens\": {BIG}"),
            format!("\"inputTokens\": {BIG},\n    \"outputTokens\": 1E5"),
            "\"cacheRead\": 9007199254740993".to_owned(),
            format!("\"inputTokens\": {BIG},\n    \"q\": 1E5"),
            format!("\"updatedAt\": {BIG}"),
        ] {
            assert!(written.contains(&part), "{part}: {written}");
        }
    }
}

#[test]
fn fields_of_an_index_keep_their_spelling_or_are_reported() {
    let home = Home::new();
    let base = ".openclaw/agents/main/sessions";
    let untimed = "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n{\"type\":\"message\",\"id\":\"e\",\
        \"parentId\":null,\"message\":{\"role\":\"user\",\"content\":\"x\"}}\n";
    home.write(&format!("{base}/s.jsonl"), untimed);
    home.write(&format!("{base}/nothing.jsonl"), "");
    let index = r#"{"agent:main:main": {"sessionId": "s", "updatedAt": "2026-02-04T08:18:36.233Z",
        "displayName": "cut \ud83d", "n": 1e400, "big": {"b": 12345678901234567890123, "a": 1E5}},
        "agent:main:explicit:nothing": {"sessionId": "nothing", "label": "kept"},
        "agent:main:odd": 7, "agent:main:lost": {"label": "keepme"}}"#;
    home.write(&format!("{base}/sessions.json"), index);
    let store = Store::open(home.ledger_path()).unwrap();
    let imported = import(&store, &home.path(".openclaw"));
    let of = |name: &str| imported.iter().find(|file| file.path.ends_with(name)).unwrap();
    let keys = of("sessions.json");
    assert_eq!((keys.rows, keys.stored, keys.has_failed), (4, 2, false), "{keys:?}");
    let left: Vec<(&str, &str)> =
        keys.left_out_keys.iter().map(|row| (row.session_key.as_str(), row.reason)).collect();
    let why = [
        ("agent:main:odd", "an entry that is not an object"),
        ("agent:main:lost", "it names no session"),
    ];
    assert_eq!(left, why);
    let empty = of("nothing.jsonl");
    assert_eq!(
        (empty.rows, empty.has_failed, empty.reason.as_deref()),
        (0, false, Some("it is empty"))
    );

    let out = home.scratch("out");
    let plan_index = |store: &Store| {
        let ledger = &store.reader().unwrap();
        let plan = openclaw::plan(ledger, &sessions(ledger)).unwrap();
        plan.indexes().unwrap().files.remove(0).1.pretty()
    };
    let written = plan_index(&store);
    for part in [
        r#""displayName": "cut \ud83d""#,
        r#""n": 1e400"#,
        r#""b": 12345678901234567890123"#,
        r#""a": 1E5"#,
        r#""updatedAt": 1770193116233"#,
        r#""label": "kept""#,
    ] {
        assert!(written.contains(part), "{part}: {written}");
    }
    export(&store.reader().unwrap(), &out);
    drop(store);
    home.assert_rebuilds();
    home.assert_sound();
    // An import of the exported files gives the same export.
    let other = Home::new();
    let copy = Store::open(other.ledger_path()).unwrap();
    import(&copy, &out);
    assert_eq!(plan_index(&copy), written);
}

/// Returns the index of an agent in an exported folder.
fn index(out: &Path, agent: &str) -> Map<String, Value> {
    let bytes = fs::read(out.join(format!("agents/{agent}/sessions/sessions.json"))).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn openclaw_gets_keys_that_it_accepts() {
    let home = Home::new();
    let store = Store::open(home.ledger_path()).unwrap();
    let fields = json!({"spawnedBy": "agent:main:explicit:Plan"}).as_object().unwrap().clone();
    for (id, key) in [
        ("a", "agent:main:explicit:Plan"),
        ("b", "agent:main:explicit:plan"),
        ("c", "agent:main:signal:group:aB"),
        ("d", "agent:main:telegram:dm:AbC"),
    ] {
        let new =
            NewSession { id: Some(id), key: Some(key), fields: fields.clone(), ..<_>::default() };
        append(&store.create(&new).unwrap(), &message("user", id));
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let out = home.path("out");
    let ledger = store.reader().unwrap();
    export(&ledger, &out);
    let keys: Vec<(String, Value)> = index(&out, "main")
        .into_iter()
        .map(|(key, fields)| (key, fields["sessionId"].clone()))
        .collect();
    let expected = [
        // Two keys became one: the newer session has it, and the other one a key of its own.
        ("agent:main:explicit:a", "a"),
        ("agent:main:explicit:plan", "b"),
        ("agent:main:signal:group:aB", "c"),
        ("agent:main:telegram:dm:abc", "d"),
    ];
    assert_eq!(keys, expected.map(|(key, id)| (key.to_owned(), json!(id))));
    let spawned = &index(&out, "main")["agent:main:signal:group:aB"]["spawnedBy"];
    assert_eq!(spawned, "agent:main:explicit:plan");
    let indexes = openclaw::plan(&ledger, &sessions(&ledger)).unwrap().indexes().unwrap();
    let respelled: Vec<(&str, &str)> =
        indexes.respelled.iter().map(|(key, written)| (&**key, &**written)).collect();
    assert_eq!(
        respelled,
        [
            ("agent:main:telegram:dm:AbC", "agent:main:telegram:dm:abc"),
            ("agent:main:explicit:Plan", "agent:main:explicit:a"),
        ]
    );
}

#[test]
fn the_start_of_a_fork_is_its_creation() {
    let home = Home::new();
    let header = r#"{"type":"session","version":3,"id":"old","timestamp":"2026-01-05T10:00:00.000Z","cwd":"/w"}"#;
    let lines = format!("{header}\n{}\n", entry("e1", None, "one"));
    home.write("in/agents/main/sessions/old.jsonl", &lines);
    let store = Store::open(home.ledger_path()).unwrap();
    import(&store, &home.path("in"));
    let before = jiff::Timestamp::now().as_millisecond();
    let fork = store.fork("old", &Fork { id: Some("new"), ..Fork::default() }).unwrap();
    let started = |meta: Map<String, Value>| meta["sessionStartedAt"].as_i64().unwrap();
    assert!(started(fork.session.meta().unwrap()) >= before);
    export(&store.reader().unwrap(), &home.path("out"));
    let index = index(&home.path("out"), "main");
    assert!(index["agent:main:explicit:new"]["sessionStartedAt"].as_i64().unwrap() >= before);
}

#[test]
fn a_deleted_session_stays_deleted() {
    let home = Home::new();
    let header = |id: &str| {
        format!(
            "{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\",\"timestamp\":\"2026-01-05T10:00:00.000Z\",\"cwd\":\"/w\"}}"
        )
    };
    let lines = |id: &str| format!("{}\n{}\n", header(id), entry("e1", None, "one"));
    let folder = ".openclaw/agents/main/sessions";
    let deleted = "gone.jsonl.deleted.2026-02-04T10-30-00.000Z";
    home.write(&format!("{folder}/{deleted}"), lines("gone"));
    home.write(&format!("{folder}/here.jsonl"), lines("here"));
    home.sync();
    let names = |out: &Path| {
        let names = files(out).into_keys().map(|path| path.file_name().unwrap().to_owned());
        names.map(|name| name.into_string().unwrap()).collect::<Vec<String>>()
    };
    export(&home.open(), &home.path("out"));
    assert_eq!(names(&home.path("out")), [deleted, "here.jsonl", "sessions.json"]);
    // Also after it was imported.
    let store = Store::open(home.ledger_path()).unwrap();
    import(&store, &home.path(".openclaw"));
    export(&store.reader().unwrap(), &home.path("again"));
    assert_eq!(names(&home.path("again")), [deleted, "here.jsonl", "sessions.json"]);
}

#[test]
fn lines_are_spelled_as_openclaw_writes_them() {
    let home = Home::new();
    let store = Store::open(home.ledger_path()).unwrap();
    let new = NewSession { id: Some("a"), ..NewSession::default() };
    let session = store.create(&new).unwrap();
    append(&session, r#"{ "role": "user", "content": "caf\u00e9 \/" , "timestamp": 1.0E12 }"#);
    append(&session, r#"{"type":"custom","customType":"x","data":{"b":1.50,"1":[ ]}}"#);
    let out = home.path("out");
    export(&store.reader().unwrap(), &out);
    let written = fs::read_to_string(out.join("agents/main/sessions/a.jsonl")).unwrap();
    for line in written.lines() {
        assert_eq!(quipu_transcript::stringify(line), line);
    }
    assert!(
        written.contains("caf\u{e9} /") && written.contains(r#"{"1":[],"b":1.5}"#),
        "{written}"
    );
    // The same values in other bytes are the same session.
    let imported = import(&store, &out);
    let is_known = |file: &ImportedFile| !file.has_failed && file.added == 0;
    assert!(imported.iter().all(is_known), "{imported:?}");
    append(&session, &message("assistant", "more"));
    assert!(import(&store, &out).iter().all(is_known));
    // A line that continues it is added.
    let mut more = written.clone();
    let entry = entry("e9", None, "more");
    more.push_str(&entry);
    let other = Home::new();
    let there = Store::open(other.ledger_path()).unwrap();
    import(&there, &out);
    fs::write(out.join("agents/main/sessions/a.jsonl"), format!("{more}\n")).unwrap();
    assert_eq!(import(&there, &out).iter().map(|file| file.added).sum::<u64>(), 1);
    // Other values are another session.
    fs::write(out.join("agents/main/sessions/a.jsonl"), written.replace("1.5", "2.5")).unwrap();
    assert!(import(&store, &out).iter().any(|file| file.has_failed));
}
