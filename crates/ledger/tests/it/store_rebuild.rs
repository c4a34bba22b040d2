//! Tests the store while the projection is behind, because another process rebuilds it or a rebuild
//! was interrupted. A session whose records are stored is never reported as missing.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quipu_ledger::freshness::{self, Reader, RefreshLimit, open_to_read};
use quipu_ledger::query::{self, Filter, SqlAnswer, SqlLimits, Story};
use quipu_ledger::search::SearchRequest;
use quipu_ledger::store::{self, Append, Entry, Expect, Fork, NewSession, Session, Store};
use quipu_ledger::{Error, Ledger};
use serde_json::json;

use crate::child;
use crate::home::Home;

const KEY: &str = "agent:main:main";

/// Creates a ledger with two sessions, `before` and `abcdef`, which have the same key in turn.
/// Returns the id of the entry of `abcdef`.
fn home() -> (Home, String) {
    home_with_long_lines(0)
}

/// Creates the ledger of [`home`], with long lines in `before`. Two of them are more than a rebuild
/// projects between two commits.
fn home_with_long_lines(long_lines: usize) -> (Home, String) {
    let home = Home::quick();
    let store = Store::open(home.ledger_path()).unwrap();
    let new = |id, takes_key| NewSession {
        id: Some(id),
        key: Some(KEY),
        takes_key,
        ..NewSession::default()
    };
    let old = store.create(&new("before", false)).unwrap();
    old.append(Entry::user("old")).unwrap();
    for _ in 0..long_lines {
        old.append(long_line()).unwrap();
    }
    let session = store.create(&new("abcdef", true)).unwrap();
    let entry = session.append(Entry::user("one")).unwrap();
    store.catch_up().unwrap();
    (home, entry.id)
}

/// Returns an entry of 17 MiB. A rebuild commits after 32 MiB.
fn long_line() -> Entry {
    json!({"type": "custom", "customType": "x", "data": "y".repeat(17 << 20)}).into()
}

/// Starts a rebuild and stops it after its first commit, which has the second long line last.
fn rebuild_one_slice(home: &Home) {
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        quipu_ledger::rebuild::rebuild(&mut home.open(), &mut |_, _| {
            panic!("the first commit is done")
        })
    }));
    assert!(stopped.is_err());
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 1);
}

/// Empties the projection, as if an older version had derived it and a rebuild was killed before
/// its first commit.
fn empty_projection(home: &Home) {
    let tables = ["sessions", "session_keys", "key_history", "session_sources", "entry_rows"];
    let deletes: String = tables.map(|table| format!("DELETE FROM {table};")).concat();
    let behind = "UPDATE ledger SET projected_to = 0, projection_version = 1";
    home.sql().execute_batch(&format!("{deletes}{behind}")).unwrap();
}

#[test]
fn every_call_finds_its_session_after_an_interrupted_rebuild() {
    let (home, one) = home();
    let path = home.ledger_path();
    // By key, id, prefix of the id, agent and id, and as the newest session.
    for name in [KEY, "abcdef", "abc", "main/abcdef", "last"] {
        empty_projection(&home);
        let store = Store::open(&path).unwrap();
        let session = store.session(name).unwrap();
        assert_eq!(session.id(), "abcdef", "{name}");
    }
    // Each is the first call after the projection was emptied.
    type Call<'a> = Box<dyn Fn(&Session) + 'a>;
    let calls: Vec<(&str, Call<'_>)> = vec![
        (
            "key",
            Box::new(|session| {
                assert_eq!(session.key().unwrap().as_deref(), Some(KEY));
            }),
        ),
        ("leaf", Box::new(|session| assert!(session.leaf().unwrap().is_some()))),
        ("entry", Box::new(|session| assert!(session.entry(&one).unwrap().is_some()))),
        ("path", Box::new(|session| drop(session.path(&one).unwrap()))),
        ("children", Box::new(|session| drop(session.children(Some(&one)).unwrap()))),
        ("branches", Box::new(|session| assert!(!session.branches().unwrap().is_empty()))),
        (
            "common_ancestor",
            Box::new(|session| {
                assert!(session.common_ancestor(&one, &one).unwrap().is_some());
            }),
        ),
        ("meta", Box::new(|session| assert_eq!(session.meta().unwrap()["sessionId"], "abcdef"))),
        (
            "patch",
            Box::new(|session| {
                let patch = json!({"label": "x"}).as_object().unwrap().clone();
                session.patch_meta(&patch).unwrap();
            }),
        ),
        ("context", Box::new(|session| drop(session.context().unwrap()))),
        (
            "append",
            Box::new(|session| {
                session.append(Entry::user("more")).unwrap();
            }),
        ),
        (
            "begin",
            Box::new(|session| {
                session.begin_turn(Entry::user("turn")).unwrap();
            }),
        ),
        ("mirror", Box::new(|session| drop(session.mirror("m").unwrap()))),
        (
            "label",
            Box::new(|session| {
                session.label(&one, Some("l")).unwrap();
            }),
        ),
        (
            "branch",
            Box::new(|session| {
                session.branch(Some(&one), Some("s")).unwrap();
            }),
        ),
        (
            "reset",
            Box::new(|session| {
                session.branch(Some(&one), None).unwrap();
                empty_projection(&home);
                session.reset("reset", Some(&one)).unwrap();
            }),
        ),
        ("fork", Box::new(|session| drop(session.fork(&Fork::default()).unwrap()))),
        (
            "fork by name",
            Box::new(|session| drop(session.store().fork(KEY, &Fork::default()).unwrap())),
        ),
        (
            "session or new",
            Box::new(|session| {
                assert_eq!(session.store().session_or_new(KEY).unwrap(), *session);
            }),
        ),
        (
            "create",
            Box::new(|session| {
                let new = NewSession { key: Some(KEY), ..NewSession::default() };
                let taken = session.store().create(&new);
                assert!(matches!(taken, Err(Error::Exists { .. })), "{taken:?}");
            }),
        ),
    ];
    for (name, call) in calls {
        let session = Store::open(&path).unwrap().session(KEY).unwrap();
        empty_projection(&home);
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| call(&session)));
        assert!(done.is_ok(), "{name}");
    }
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn reading_finds_the_session_after_an_interrupted_rebuild() {
    let (home, one) = home_with_long_lines(2);
    let path = home.ledger_path();
    // The connection keeps the log, as a running watch does.
    let _open = home.open();
    rebuild_one_slice(&home);
    let (ledger, is_behind) = store::open_projected(&path).unwrap();
    let row = query::find_session(&ledger, "abc").unwrap();
    assert!(!is_behind);
    // Later queries are answered from the same snapshot.
    rebuild_one_slice(&home);
    assert_eq!(store::leaf_of(&ledger, row).unwrap(), Some(one));
    assert_eq!(store::branches_of(&ledger, row).unwrap().len(), 1);
    assert!(store::meta_of(&ledger, row).unwrap().get("sessionId").is_some());
    drop(ledger);
    let (ledger, _) = store::open_for_lines(&path).unwrap();
    let row = query::find_session(&ledger, KEY).unwrap();
    assert_eq!(query::context_of(&ledger, row, None).unwrap().context.messages.len(), 1);
    drop(ledger);
    // A ledger that is open for writing catches up; a read-only one returns an error.
    rebuild_one_slice(&home);
    let read_only = Ledger::open_read_only(&path).unwrap();
    let behind = query::find_session(&read_only, "abc");
    assert!(matches!(behind, Err(Error::Behind { done: 1.., .. })), "{behind:?}");
    assert_eq!(Story::find(&home.open(), "abc").unwrap().head().session_id, "abcdef");
    rebuild_one_slice(&home);
    assert!(!query::tree(&home.open(), "abc").unwrap().is_empty());
    rebuild_one_slice(&home);
    assert_eq!(query::summary_of(&home.open(), row).unwrap().unwrap().session_id, "abcdef");
}

#[test]
fn a_call_stops_waiting_for_the_projection_at_its_limit() {
    let (home, _) = home();
    let path = home.ledger_path();
    let store = Store::open(&path).unwrap();
    let session = store.session(KEY).unwrap();
    // Two long lines are more than a rebuild projects between two commits.
    for _ in 0..2 {
        session.append(long_line()).unwrap();
    }
    let last = session.append(Entry::user("last")).unwrap();
    store.catch_up().unwrap();
    let id = session.id().to_owned();
    // An open store would catch up in its thread.
    drop((session, store));
    empty_projection(&home);
    let store = Store::open(&path).unwrap();
    store.set_longest_catch_up(Duration::ZERO);
    let records = home.one::<i64>("SELECT count(*) FROM records").cast_unsigned();
    // The journal is generation 1.
    let collected = home.one::<i64>("SELECT count(*) FROM records WHERE generation > 1");
    match store.session(KEY) {
        Err(error @ Error::Behind { done, total, .. }) => {
            assert!(
                0 < done && done < total && total == collected.cast_unsigned(),
                "{done} of {total}"
            );
            let message = error.to_string();
            assert!(message.contains("are being rebuilt") && message.contains(" records are done"));
        }
        other => panic!("{other:?}"),
    }
    // Records that are projected stay projected, so the next call has only the rest to do.
    let session = store.session(KEY).unwrap();
    assert_eq!(session.id(), id);
    empty_projection(&home);
    let timed_out = session.append(Entry::user("late"));
    assert!(matches!(timed_out, Err(Error::Behind { .. })), "{timed_out:?}");
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records").cast_unsigned(), records);
    store.set_longest_catch_up(Duration::from_secs(600));
    let expected = Append { expected_leaf: Expect::Entry(&last.id), ..Append::default() };
    session.with(expected).append(Entry::user("now")).unwrap();
}

#[test]
fn calls_succeed_while_another_process_rebuilds() {
    let (home, _) = home();
    let path = home.ledger_path();
    let mut rebuild = child::start_alone(&home, "rebuild until killed");
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for number in 0..40 {
        let store = Store::open(&path).unwrap();
        let session = store.session("abc").unwrap();
        let text = format!("number {number}");
        let done = session.append(Entry::user(&text)).unwrap();
        assert_eq!(session.leaf().unwrap().unwrap().id, done.id);
        texts.insert(done.id.clone(), text);
        let (ledger, _) = store::open_projected(&path).unwrap();
        let row = query::find_session(&ledger, KEY).unwrap();
        assert_eq!(store::leaf_of(&ledger, row).unwrap(), Some(done.id));
        if number % 8 == 0 {
            store.fork(KEY, &Fork::default()).unwrap();
            Story::find(&home.open(), "abc").unwrap();
        }
    }
    rebuild.kill().unwrap();
    rebuild.wait().unwrap();
    let store = Store::open(&path).unwrap();
    let session = store.session(KEY).unwrap();
    let leaf = session.leaf().unwrap().unwrap();
    assert_eq!(session.path(&leaf.id).unwrap().len(), 41);
    home.assert_rebuilds();
    home.assert_sound();
}

/// Returns the results of several reading queries as text, for comparison.
fn answers(ledger: &Ledger) -> Vec<String> {
    let sessions = query::sessions(ledger, &Filter::default(), None).unwrap();
    let word = quipu_transcript::search::query::Query::literal("one");
    let found = SearchRequest { query: word, ..SearchRequest::default() };
    let mut items = Vec::new();
    let story = Story::find(ledger, "abc").and_then(|story| {
        story.each_item(&<_>::default(), &mut |item| {
            items.push(format!("{item:?}"));
            ControlFlow::Continue(())
        })
    });
    vec![
        format!("{:?}", query::find_session(ledger, KEY).map_err(|error| error.to_string())),
        format!("{} {:?}", sessions.total, sessions.sessions.len()),
        format!("{:?}", query::projects(ledger, &Filter::default()).unwrap().len()),
        format!("{:?}", quipu_ledger::search::search(ledger, &found).unwrap().total),
        format!("{:?}", query::tree(ledger, "abc").map_err(|error| error.to_string())),
        format!("{:?} {items:?}", story.map_err(|error| error.to_string())),
        format!("{:?}", freshness::unprojected(ledger).unwrap()),
    ]
}

/// A reader keeps its snapshot while another process rebuilds the projection.
#[test]
fn an_answer_is_read_from_one_snapshot() {
    let (home, _) = home_with_long_lines(2);
    let open = || open_to_read(&home.ledger_path(), "here").unwrap();
    let mut reader = open();
    let refresh = |reader: &mut Reader| {
        reader.refresh(&home.roots(), "here", RefreshLimit::Short, &mut |_| {}).unwrap().unprojected
    };
    assert_eq!(refresh(&mut reader), 0);
    let complete = answers(&reader.ledger);
    rebuild_one_slice(&home);
    assert_eq!(answers(&reader.ledger), complete);
    // A reader that cannot catch up in time reports how many records its snapshot lacks.
    let writer = home.sql();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let missing = refresh(&mut reader);
    writer.execute_batch("ROLLBACK").unwrap();
    assert!(missing > 0);
    let incomplete = answers(&reader.ledger);
    assert!(incomplete != complete);
    let found = query::find_session(&reader.ledger, "abc");
    assert!(matches!(found, Err(Error::Behind { done: 1.., .. })), "{found:?}");
    // Another process catches the projection up. The reader still has its own snapshot.
    assert_eq!(refresh(&mut open()), 0);
    assert_eq!(freshness::unprojected(&reader.ledger).unwrap(), missing);
    assert_eq!(answers(&reader.ledger), incomplete);
    assert_eq!(refresh(&mut reader), 0);
    assert_eq!(answers(&reader.ledger), complete);
}

/// `query::sql` reads the snapshot in which the missing records were counted.
#[test]
fn sql_reads_the_snapshot_of_the_refresh() {
    let (home, _) = home_with_long_lines(2);
    let mut reader = open_to_read(&home.ledger_path(), "here").unwrap();
    reader.needs_second_connection = true;
    let fresh = reader.refresh(&home.roots(), "here", RefreshLimit::Short, &mut |_| {}).unwrap();
    assert_eq!(fresh.unprojected, 0);
    rebuild_one_slice(&home);
    let mut rows = Vec::new();
    let count = "SELECT count(*) FROM sessions";
    query::sql(reader.ledger, count, &SqlLimits::default(), &mut |answer| {
        if let SqlAnswer::Row(row) = answer {
            rows.push(row[0].to_text());
        }
        true
    })
    .unwrap();
    assert_eq!(rows, ["2"]);
    let writable = query::sql(home.open(), count, &SqlLimits::default(), &mut |_| true);
    assert!(matches!(writable, Err(Error::Sql { .. })), "{writable:?}");
}

/// `forget` waits for readers before it truncates the log, and readers hold no snapshot while they
/// wait for the writer, so neither waits for the other.
#[test]
fn forget_and_readers_do_not_wait_for_each_other() {
    let home = Home::quick();
    let path = home.ledger_path();
    let store = Store::open(&path).unwrap();
    let ids: Vec<String> = (0..6).map(|number| format!("session-{number}")).collect();
    for id in &ids {
        let new = NewSession { id: Some(id), ..NewSession::default() };
        let session = store.create(&new).unwrap();
        session.append(Entry::user("words")).unwrap();
    }
    store.catch_up().unwrap();
    drop(store);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let (ledger, is_behind) = store::open_projected(&path).unwrap();
                    assert!(!is_behind);
                    query::find_session(&ledger, "session-0").unwrap();
                }
            });
        }
        let mut ledger = home.open();
        let cleaned: Vec<bool> = (ids.iter().skip(1))
            .map(|id| {
                quipu_ledger::forget::forget(&mut ledger, id, &mut |_, _| {}).unwrap().is_cleaned
            })
            .collect();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(cleaned, [true; 5]);
    });
    home.assert_sound();
}

/// A number of a damaged file is not trusted.
#[test]
fn an_impossible_progress_of_the_projection_is_no_panic() {
    let (home, _) = home();
    home.sql().execute("UPDATE ledger SET projected_to = ?1", [i64::MIN]).unwrap();
    let ledger = Ledger::open_read_only(&home.ledger_path()).unwrap();
    assert!(!quipu_ledger::store::has_all_sessions(&ledger).unwrap());
}
