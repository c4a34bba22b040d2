//! The store while the projection is behind: another process rebuilds the ledger, or a rebuild was
//! interrupted. No session that is in truth is ever reported missing.

use std::collections::BTreeMap;
use std::time::Duration;

use quipu_ledger::store::{self, Append, Expect, Fork, NewSession, Store};
use quipu_ledger::{Error, Story};
use quipu_transcript::key::SessionKey;
use serde_json::json;

use crate::child;
use crate::home::Home;

const KEY: &str = "agent:main:main";

fn message(text: &str) -> String {
    json!({"role": "user", "content": text}).to_string()
}

/// A ledger with one session, whose key led to another one before, and an entry in it.
fn home() -> (Home, String) {
    home_after(0)
}

/// The same; the session before it has so many lines of half a slice of a rebuild.
fn home_after(long_lines: usize) -> (Home, String) {
    let home = Home::quick();
    let mut store = Store::open(&home.ledger_path()).unwrap();
    let new = |id, takes_key| NewSession {
        id: Some(id),
        key: Some(KEY),
        takes_key,
        ..NewSession::default()
    };
    let old = store.create(&new("before", false)).unwrap();
    store.append(&old, &message("old"), Append::default()).unwrap();
    for _ in 0..long_lines {
        store.append(&old, &long_line(), Append::default()).unwrap();
    }
    let session = store.create(&new("abcdef", true)).unwrap();
    let one = store.append(&session, &message("one"), Append::default()).unwrap();
    store.settle().unwrap();
    (home, one.id)
}

fn long_line() -> String {
    json!({"type": "custom", "customType": "x", "data": "y".repeat(17 << 20)}).to_string()
}

/// Rebuilds the ledger and stops after the first slice, which ends with the second long line.
fn rebuild_partly(home: &Home) {
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        quipu_ledger::rebuild(&mut home.open(), &mut |_, _| panic!("the first slice is done"))
    }));
    assert!(stopped.is_err());
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 1);
}

/// Leaves the projection as a rebuild does that was killed before its first slice.
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
    // By key, id, beginning of the id, and as the newest one.
    for name in [KEY, "abcdef", "abc", "main/abcdef", "last"] {
        interrupt(&home);
        let store = Store::open(&path).unwrap();
        let session = store.session(store.find(name).unwrap()).unwrap();
        assert_eq!(session.id, "abcdef", "{name}");
    }
    let row = Store::open(&path).unwrap().find(KEY).unwrap();
    let session = Store::open(&path).unwrap().session(row).unwrap();
    // Each as the first call of its process.
    type Call<'a> = Box<dyn Fn(&mut Store) + 'a>;
    let calls: Vec<(&str, Call<'_>)> = vec![
        ("session", Box::new(|store| drop(store.session(row).unwrap()))),
        (
            "by_key",
            Box::new(|store| {
                assert!(store.by_key(&SessionKey::parse(KEY)).unwrap().is_some());
            }),
        ),
        (
            "key_of",
            Box::new(|store| {
                assert_eq!(store.key_of(&session).unwrap().as_deref(), Some(KEY));
            }),
        ),
        ("leaf", Box::new(|store| assert!(store.leaf(&session).unwrap().is_some()))),
        ("entry", Box::new(|store| assert!(store.entry(&session, &one).unwrap().is_some()))),
        ("path", Box::new(|store| drop(store.path(&session, &one).unwrap()))),
        ("children", Box::new(|store| drop(store.children(&session, Some(&one)).unwrap()))),
        ("branches", Box::new(|store| assert!(!store.branches(&session).unwrap().is_empty()))),
        (
            "common_ancestor",
            Box::new(|store| {
                assert!(store.common_ancestor(&session, &one, &one).unwrap().is_some());
            }),
        ),
        (
            "meta",
            Box::new(|store| assert_eq!(store.meta(&session).unwrap()["sessionId"], "abcdef")),
        ),
        (
            "patch",
            Box::new(|store| {
                let patch = json!({"label": "x"}).as_object().unwrap().clone();
                store.patch_meta(&session, &patch).unwrap();
            }),
        ),
        ("context", Box::new(|store| drop(store.context(&session, None).unwrap()))),
        (
            "append",
            Box::new(|store| {
                store.append(&session, &message("more"), Append::default()).unwrap();
            }),
        ),
        (
            "begin",
            Box::new(|store| {
                store.begin_turn(&session, &message("turn"), Append::default()).unwrap();
            }),
        ),
        ("mirror", Box::new(|store| drop(store.mirror(&session, "m", Append::default()).unwrap()))),
        (
            "label",
            Box::new(|store| {
                store.label(&session, &one, Some("l"), Append::default()).unwrap();
            }),
        ),
        (
            "branch",
            Box::new(|store| {
                store.branch(&session, Some(&one), Some("s"), Append::default()).unwrap();
            }),
        ),
        (
            "reset",
            Box::new(|store| {
                store.branch(&session, Some(&one), None, Append::default()).unwrap();
                interrupt(&home);
                store.reset(&session, "reset", Some(&one), Append::default()).unwrap();
            }),
        ),
        ("fork", Box::new(|store| drop(store.fork(row, &Fork::default()).unwrap()))),
        (
            "create",
            Box::new(|store| {
                let taken = store.create(&NewSession { key: Some(KEY), ..NewSession::default() });
                assert!(matches!(taken, Err(Error::Exists { .. })), "{taken:?}");
            }),
        ),
    ];
    for (name, call) in calls {
        let mut store = Store::open(&path).unwrap();
        interrupt(&home);
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| call(&mut store)));
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
    let (ledger, is_behind) = store::open(&path).unwrap();
    let row = quipu_ledger::find_session(&ledger, "abc").unwrap();
    assert!(!is_behind);
    // What is asked later is answered from the same state.
    rebuild_partly(&home);
    assert_eq!(store::leaf(&ledger, row).unwrap(), Some(one));
    assert_eq!(store::branches(&ledger, row).unwrap().len(), 1);
    assert!(store::meta(&ledger, row).unwrap().get("sessionId").is_some());
    drop(ledger);
    let (ledger, _) = store::open_for_lines(&path).unwrap();
    let row = quipu_ledger::find_session(&ledger, KEY).unwrap();
    assert_eq!(quipu_ledger::context(&ledger, row, None).unwrap().context.messages.len(), 1);
    drop(ledger);
    // A reader that may write brings the projection up; one that may not says that it is behind.
    rebuild_partly(&home);
    let read_only = quipu_ledger::Ledger::open_read_only(&path).unwrap();
    let behind = quipu_ledger::find_session(&read_only, "abc");
    assert!(matches!(behind, Err(Error::Behind { done: 1.., .. })), "{behind:?}");
    assert_eq!(Story::find(&home.open(), "abc").unwrap().head().id, "abcdef");
    rebuild_partly(&home);
    assert!(!quipu_ledger::tree(&home.open(), "abc").unwrap().is_empty());
    rebuild_partly(&home);
    assert_eq!(quipu_ledger::session(&home.open(), row).unwrap().unwrap().id, "abcdef");
}

#[test]
fn a_call_waits_for_the_projection_no_longer_than_it_may() {
    let (home, _) = home();
    let path = home.ledger_path();
    let mut store = Store::open(&path).unwrap();
    let session = store.session(store.find(KEY).unwrap()).unwrap();
    // More than one slice of a rebuild.
    for _ in 0..2 {
        store.append(&session, &long_line(), Append::default()).unwrap();
    }
    let last = store.append(&session, &message("last"), Append::default()).unwrap();
    store.settle().unwrap();
    interrupt(&home);
    store.set_longest_catch_up(Duration::ZERO);
    let records = home.one::<i64>("SELECT count(*) FROM records").cast_unsigned();
    match store.find(KEY) {
        Err(error @ Error::Behind { done, total, .. }) => {
            assert!(0 < done && done < total && total == records, "{done} of {total}");
            let told = error.to_string();
            assert!(told.contains("are being rebuilt") && told.contains(" records are done"));
        }
        other => panic!("{other:?}"),
    }
    // What was derived stays, so the next call is done with the rest.
    assert_eq!(store.find(KEY).unwrap(), session.row);
    interrupt(&home);
    let refused = store.append(&session, &message("late"), Append::default());
    assert!(matches!(refused, Err(Error::Behind { .. })), "{refused:?}");
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records").cast_unsigned(), records);
    store.set_longest_catch_up(Duration::from_secs(600));
    let expected = Append { expected_leaf: Expect::Entry(&last.id), ..Append::default() };
    store.append(&session, &message("now"), expected).unwrap();
}

#[test]
fn a_rebuild_that_runs_at_the_same_time_is_not_noticed() {
    let (home, _) = home();
    let path = home.ledger_path();
    let mut rebuild = child::start_alone(&home, "rebuild until killed");
    let mut said: BTreeMap<String, String> = BTreeMap::new();
    for number in 0..40 {
        let mut store = Store::open(&path).unwrap();
        let session = store.session(store.find("abc").unwrap()).unwrap();
        let text = format!("number {number}");
        let done = store.append(&session, &message(&text), Append::default()).unwrap();
        assert_eq!(store.leaf(&session).unwrap().unwrap().id, done.id);
        said.insert(done.id.clone(), text);
        let (ledger, _) = store::open(&path).unwrap();
        let row = quipu_ledger::find_session(&ledger, KEY).unwrap();
        assert_eq!(store::leaf(&ledger, row).unwrap(), Some(done.id));
        if number % 8 == 0 {
            store.fork(row, &Fork::default()).unwrap();
            Story::find(&home.open(), "abc").unwrap();
        }
    }
    rebuild.kill().unwrap();
    rebuild.wait().unwrap();
    let mut store = Store::open(&path).unwrap();
    let session = store.session(store.find(KEY).unwrap()).unwrap();
    let leaf = store.leaf(&session).unwrap().unwrap();
    assert_eq!(store.path(&session, &leaf.id).unwrap().len(), 41);
    home.assert_rebuilds();
    home.assert_sound();
}
