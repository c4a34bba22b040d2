//! The store while the projection is behind: another process rebuilds the ledger, or a rebuild was
//! interrupted. No session that is in truth is ever reported missing.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quipu_ledger::freshness::{RefreshLimit, open_to_read};
use quipu_ledger::query::{Filter, SqlAnswer, SqlLimits, Story};
use quipu_ledger::search::SearchRequest;
use quipu_ledger::store::{self, Append, Entry, Expect, Fork, NewSession, Session, Store};
use quipu_ledger::{Error, Ledger};
use serde_json::json;

use crate::child;
use crate::home::Home;

const KEY: &str = "agent:main:main";

fn message(text: &str) -> Entry {
    Entry::user(text)
}

/// Returns a ledger with one session with an entry, whose key led to another session before.
fn home() -> (Home, String) {
    home_after(0)
}

/// Returns the same; the earlier session has this many lines of half a slice of a rebuild.
fn home_after(long_lines: usize) -> (Home, String) {
    let home = Home::quick();
    let store = Store::open(home.ledger_path()).unwrap();
    let new = |id, takes_key| NewSession {
        id: Some(id),
        key: Some(KEY),
        takes_key,
        ..NewSession::default()
    };
    let old = store.create(&new("before", false)).unwrap();
    old.append(message("old")).unwrap();
    for _ in 0..long_lines {
        old.append(long_line()).unwrap();
    }
    let session = store.create(&new("abcdef", true)).unwrap();
    let one = session.append(message("one")).unwrap();
    store.catch_up().unwrap();
    (home, one.id)
}

fn long_line() -> Entry {
    json!({"type": "custom", "customType": "x", "data": "y".repeat(17 << 20)}).into()
}

/// Rebuilds the ledger and stops after the first slice, which ends with the second long line.
fn rebuild_partly(home: &Home) {
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        quipu_ledger::rebuild::rebuild(&mut home.open(), &mut |_, _| {
            panic!("the first slice is done")
        })
    }));
    assert!(stopped.is_err());
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 1);
}

/// Leaves the projection in the state of a rebuild that was killed before its first slice.
fn interrupt(home: &Home) {
    let tables = ["sessions", "session_keys", "key_history", "session_sources", "entry_rows"];
    let deletes: String = tables.map(|table| format!("DELETE FROM {table};")).concat();
    let behind = "UPDATE ledger SET projected_to = 0, projection_version = 1";
    home.sql().execute_batch(&format!("{deletes}{behind}")).unwrap();
}

#[test]
fn every_call_finds_its_session_after_an_interrupted_rebuild() {
    let (home, one) = home();
    let path = home.ledger_path();
    // By key, id, prefix of the id, and as the newest one.
    for name in [KEY, "abcdef", "abc", "main/abcdef", "last"] {
        interrupt(&home);
        let store = Store::open(&path).unwrap();
        let session = store.session(name).unwrap();
        assert_eq!(session.id(), "abcdef", "{name}");
    }
    // Each as the first call of its process.
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
                session.append(message("more")).unwrap();
            }),
        ),
        (
            "begin",
            Box::new(|session| {
                session.begin_turn(message("turn")).unwrap();
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
                interrupt(&home);
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
        interrupt(&home);
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| call(&session)));
        assert!(done.is_ok(), "{name}");
    }
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn looking_finds_its_session_after_an_interrupted_rebuild() {
    let (home, one) = home_after(2);
    let path = home.ledger_path();
    let _held = home.open();
    rebuild_partly(&home);
    let (ledger, is_behind) = store::open_projected(&path).unwrap();
    let row = quipu_ledger::query::find_session(&ledger, "abc").unwrap();
    assert!(!is_behind);
    // Later queries are answered from the same snapshot.
    rebuild_partly(&home);
    assert_eq!(store::leaf_of(&ledger, row).unwrap(), Some(one));
    assert_eq!(store::branches_of(&ledger, row).unwrap().len(), 1);
    assert!(store::meta_of(&ledger, row).unwrap().get("sessionId").is_some());
    drop(ledger);
    let (ledger, _) = store::open_for_lines(&path).unwrap();
    let row = quipu_ledger::query::find_session(&ledger, KEY).unwrap();
    assert_eq!(
        quipu_ledger::query::context_of(&ledger, row, None).unwrap().context.messages.len(),
        1
    );
    drop(ledger);
    // A reader that may write projects the rest; one that may not reports that it is behind.
    rebuild_partly(&home);
    let read_only = quipu_ledger::Ledger::open_read_only(&path).unwrap();
    let behind = quipu_ledger::query::find_session(&read_only, "abc");
    assert!(matches!(behind, Err(Error::Behind { done: 1.., .. })), "{behind:?}");
    assert_eq!(Story::find(&home.open(), "abc").unwrap().head().id, "abcdef");
    rebuild_partly(&home);
    assert!(!quipu_ledger::query::tree(&home.open(), "abc").unwrap().is_empty());
    rebuild_partly(&home);
    assert_eq!(quipu_ledger::query::summary_of(&home.open(), row).unwrap().unwrap().id, "abcdef");
}

#[test]
fn a_call_waits_for_the_projection_no_longer_than_it_may() {
    let (home, _) = home();
    let path = home.ledger_path();
    let store = Store::open(&path).unwrap();
    let session = store.session(KEY).unwrap();
    // More than one slice of a rebuild.
    for _ in 0..2 {
        session.append(long_line()).unwrap();
    }
    let last = session.append(message("last")).unwrap();
    store.catch_up().unwrap();
    let id = session.id().to_owned();
    // The thread of a store that is open would catch up meanwhile.
    drop((session, store));
    interrupt(&home);
    let store = Store::open(&path).unwrap();
    store.set_longest_catch_up(Duration::ZERO);
    let records = home.one::<i64>("SELECT count(*) FROM records").cast_unsigned();
    let lines = home.one::<i64>("SELECT count(*) FROM records WHERE generation > 1");
    match store.session(KEY) {
        Err(error @ Error::Behind { done, total, .. }) => {
            assert!(
                0 < done && done < total && total == lines.cast_unsigned(),
                "{done} of {total}"
            );
            let message = error.to_string();
            assert!(message.contains("are being rebuilt") && message.contains(" records are done"));
        }
        other => panic!("{other:?}"),
    }
    // Projected records stay, so the next call finishes the rest.
    let session = store.session(KEY).unwrap();
    assert_eq!(session.id(), id);
    interrupt(&home);
    let refused = session.append(message("late"));
    assert!(matches!(refused, Err(Error::Behind { .. })), "{refused:?}");
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records").cast_unsigned(), records);
    store.set_longest_catch_up(Duration::from_secs(600));
    let expected = Append { expected_leaf: Expect::Entry(&last.id), ..Append::default() };
    session.with(expected).append(message("now")).unwrap();
}

#[test]
fn a_rebuild_that_runs_at_the_same_time_is_not_noticed() {
    let (home, _) = home();
    let path = home.ledger_path();
    let mut rebuild = child::start_alone(&home, "rebuild until killed");
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for number in 0..40 {
        let store = Store::open(&path).unwrap();
        let session = store.session("abc").unwrap();
        let text = format!("number {number}");
        let done = session.append(message(&text)).unwrap();
        assert_eq!(session.leaf().unwrap().unwrap().id, done.id);
        texts.insert(done.id.clone(), text);
        let (ledger, _) = store::open_projected(&path).unwrap();
        let row = quipu_ledger::query::find_session(&ledger, KEY).unwrap();
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

/// What reading commands ask, each with more than one question.
fn answers(ledger: &Ledger) -> Vec<String> {
    let sessions = quipu_ledger::query::sessions(ledger, &Filter::default(), None).unwrap();
    let word = quipu_transcript::search::query::Query::literal("one");
    let found = SearchRequest { query: word, ..SearchRequest::default() };
    let mut said = Vec::new();
    let told = Story::find(ledger, "abc").and_then(|story| {
        story.each_item(&<_>::default(), &mut |item| {
            said.push(format!("{item:?}"));
            ControlFlow::Continue(())
        })
    });
    vec![
        format!(
            "{:?}",
            quipu_ledger::query::find_session(ledger, KEY).map_err(|error| error.to_string())
        ),
        format!("{} {:?}", sessions.total, sessions.sessions.len()),
        format!("{:?}", quipu_ledger::query::projects(ledger, &Filter::default()).unwrap().len()),
        format!("{:?}", quipu_ledger::search::search(ledger, &found).unwrap().total),
        format!("{:?}", quipu_ledger::query::tree(ledger, "abc").map(|tree| tree.len()).is_ok()),
        format!("{:?} {said:?}", told.is_ok()),
        format!("{:?}", quipu_ledger::freshness::unprojected(ledger).unwrap()),
    ]
}

/// A rebuild begins and goes on, slice by slice, while an answer is read.
#[test]
fn an_answer_is_read_from_one_snapshot() {
    let (home, _) = home_after(2);
    let open = || open_to_read(&home.ledger_path(), "here").unwrap();
    let mut reader = open();
    let refresh = |reader: &mut quipu_ledger::freshness::Reader| {
        reader.refresh(&home.roots(), "here", RefreshLimit::Short, &mut |_| {}).unwrap().unprojected
    };
    assert_eq!(refresh(&mut reader), 0);
    let complete = answers(&reader.ledger);
    rebuild_partly(&home);
    assert_eq!(answers(&reader.ledger), complete);
    // A reader that cannot bring it up in time says what is missing from its own snapshot.
    let writer = home.sql();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let missing = refresh(&mut reader);
    writer.execute_batch("ROLLBACK").unwrap();
    assert!(missing > 0);
    let partly = answers(&reader.ledger);
    assert!(partly != complete);
    let found = quipu_ledger::query::find_session(&reader.ledger, "abc");
    assert!(matches!(found, Err(Error::Behind { done: 1.., .. })), "{found:?}");
    // Another process brings it up meanwhile.
    assert_eq!(refresh(&mut open()), 0);
    assert_eq!(quipu_ledger::freshness::unprojected(&reader.ledger).unwrap(), missing);
    assert_eq!(answers(&reader.ledger), partly);
    assert_eq!(refresh(&mut reader), 0);
    assert_eq!(answers(&reader.ledger), complete);
}

/// A statement of a person's own reads the snapshot in which what is missing was counted.
#[test]
fn a_statement_is_asked_in_one_snapshot() {
    let (home, _) = home_after(2);
    let mut reader = open_to_read(&home.ledger_path(), "here").unwrap();
    reader.needs_second_connection = true;
    let fresh = reader.refresh(&home.roots(), "here", RefreshLimit::Short, &mut |_| {}).unwrap();
    assert_eq!(fresh.unprojected, 0);
    rebuild_partly(&home);
    let mut rows = Vec::new();
    let count = "SELECT count(*) FROM sessions";
    quipu_ledger::query::sql(reader.ledger, count, &SqlLimits::default(), &mut |answer| {
        if let SqlAnswer::Row(row) = answer {
            rows.push(row[0].to_text());
        }
        true
    })
    .unwrap();
    assert_eq!(rows, ["2"]);
    let writable =
        quipu_ledger::query::sql(home.open(), count, &SqlLimits::default(), &mut |_| true);
    assert!(matches!(writable, Err(Error::Sql { .. })), "{writable:?}");
}

/// `forget` truncates the log, which waits for readers. Readers hold no snapshot while they wait for
/// the writer.
#[test]
fn forgetting_and_looking_do_not_wait_for_each_other() {
    let home = Home::quick();
    let path = home.ledger_path();
    let store = Store::open(&path).unwrap();
    let ids: Vec<String> = (0..6).map(|number| format!("session-{number}")).collect();
    for id in &ids {
        let new = NewSession { id: Some(id), ..NewSession::default() };
        let session = store.create(&new).unwrap();
        session.append(message("words")).unwrap();
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
                    quipu_ledger::query::find_session(&ledger, "session-0").unwrap();
                }
            });
        }
        let mut ledger = home.open();
        let cleaned: Vec<bool> = (ids.iter().skip(1))
            .map(|id| {
                quipu_ledger::forget::forget(&mut ledger, id, &mut |_, _| {}).unwrap().cleaned
            })
            .collect();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(cleaned, [true; 5]);
    });
    home.assert_sound();
}
