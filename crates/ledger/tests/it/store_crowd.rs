//! Several writers at once, and writers that are killed.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use quipu_ledger::Error;
use quipu_ledger::restore::Generations;
use quipu_ledger::store::{Append, Entry, Expect, NewSession, Store};
use quipu_torture::Prng;
use serde_json::{Value, json};

use crate::child;
use crate::home::Home;

/// The session that children write to.
const SESSION: &str = "crowded";

fn message(text: &str) -> Entry {
    Entry::user(text)
}

fn home() -> Home {
    let home = Home::quick();
    make(&home);
    home
}

/// Creates the session that children write to.
pub(crate) fn make(home: &Home) {
    let store = Store::open(home.ledger_path()).unwrap();
    store.create(&NewSession { id: Some(SESSION), ..NewSession::default() }).unwrap();
}

/// Appends this many times, and prints each acknowledged entry. The task of a child process.
pub(crate) fn append(home: &Home, times: usize) {
    let store = Store::open(home.ledger_path()).unwrap();
    let session = store.session(SESSION).unwrap();
    let mut out = std::io::stdout().lock();
    for number in 0..times {
        let text = format!("{} {number} {}", std::process::id(), "word ".repeat(number % 50));
        let done = session.append(message(&text)).unwrap();
        writeln!(out, "ack {} {}", done.id, done.seq.0).unwrap();
        out.flush().unwrap();
    }
}

/// Begins a write and never ends it. The task of a child process.
pub(crate) fn hold(home: &Home, begun: impl FnOnce(&Home)) {
    let conn = home.sql();
    conn.execute_batch("BEGIN IMMEDIATE; UPDATE ledger SET collected_at = 1").unwrap();
    begun(home);
    loop {
        std::thread::park();
    }
}

#[test]
fn every_acknowledged_append_is_stored_once_whenever_the_writer_is_killed() {
    let home = home();
    let mut prng = Prng::new(7);
    let mut acknowledged: Vec<(String, i64)> = Vec::new();
    for _ in 0..40 {
        let mut child = child::command(&home, "append until killed").spawn().unwrap();
        drop(child.stdin.take());
        std::thread::sleep(Duration::from_millis(20 + prng.below(60)));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut output = String::new();
        child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        // The last line may be incomplete.
        let whole = output.rfind('\n').map_or("", |end| &output[..end]);
        acknowledged.extend(whole.lines().filter_map(|line| {
            let (id, seq) = line.strip_prefix("ack ")?.split_once(' ')?;
            Some((id.to_owned(), seq.parse().unwrap()))
        }));
    }
    assert!(acknowledged.len() > 100, "only {} appends were acknowledged", acknowledged.len());
    let restored = home.restored(Generations::Newest);
    let text = &restored[&format!("native/agents/main/sessions/{SESSION}.jsonl")];
    let mut lines: HashMap<String, u32> = HashMap::new();
    for line in String::from_utf8(text.clone()).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        *lines.entry(line["id"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    // A killed writer left unprojected records; the next process projects them.
    Store::open(home.ledger_path()).unwrap().catch_up().unwrap();
    for (id, seq) in &acknowledged {
        assert_eq!(lines.get(id), Some(&1), "{id}");
        assert_eq!(
            home.one::<i64>(&format!("SELECT count(*) FROM entry_rows WHERE id = {seq}")),
            1
        );
    }
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn of_two_writers_on_one_leaf_one_gets_a_conflict() {
    let home = home();
    let path = home.ledger_path();
    let barrier = Arc::new(Barrier::new(2));
    let mut leaf: Option<String> = None;
    for round in 0..30 {
        let threads: Vec<_> = (0..2)
            .map(|writer| {
                let (path, barrier, leaf) = (path.clone(), Arc::clone(&barrier), leaf.clone());
                std::thread::spawn(move || {
                    let store = Store::open(&path).unwrap();
                    let session = store.session(SESSION).unwrap();
                    let expected_leaf = leaf.as_deref().map_or(Expect::Root, Expect::Entry);
                    barrier.wait();
                    let how = Append { expected_leaf, ..Append::default() };
                    session.with(how).append(message(&format!("{round} {writer}")))
                })
            })
            .collect();
        let mut done: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        done.sort_by_key(Result::is_err);
        let [Ok(won), Err(Error::Conflict { leaf: named, .. })] = &done[..] else {
            panic!("{done:?}");
        };
        assert_eq!(named.as_ref(), Some(&won.id));
        leaf = Some(won.id.clone());
    }
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 30);
}

#[test]
fn r101_writers_queue_and_none_is_lost() {
    let home = home();
    child::finish(child::start(&home, "append 20 times", 6));
    let store = Store::open(home.ledger_path()).unwrap();
    let session = store.session(SESSION).unwrap();
    let leaf = session.leaf().unwrap().unwrap();
    // Without an expected leaf each append follows the current leaf: one path, no branch.
    assert_eq!(session.path(&leaf.id).unwrap().len(), 120);
    assert_eq!(session.branches().unwrap().len(), 1);
    home.assert_rebuilds();
    home.assert_sound();
}

/// A writer that dies leaves neither its lock nor half of its write.
#[test]
fn r101_no_stale_lock_blocks_a_writer() {
    let home = home();
    let mut dead = child::start_alone(&home, "hold the ledger until killed");
    child::wait_until_begun(&home, &mut dead);
    let store = Store::open(home.ledger_path()).unwrap();
    store.set_longest_wait(Duration::from_millis(50)).unwrap();
    let session = store.session(SESSION).unwrap();
    let refused = session.append(message("while it lives"));
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    dead.kill().unwrap();
    dead.wait().unwrap();
    session.append(message("after its death")).unwrap();
    assert_eq!(session.branches().unwrap().len(), 1);
    home.assert_sound();
}

#[test]
fn r101_a_writer_that_waits_too_long_gets_an_error() {
    let home = home();
    let store = Store::open(home.ledger_path()).unwrap();
    store.set_longest_wait(Duration::from_millis(50)).unwrap();
    let session = store.session(SESSION).unwrap();
    let other = home.sql();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = session.append(message("late"));
    let error = refused.unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error:?}");
    // The message names the ledger and how long the writer waited.
    let text = error.to_string();
    assert!(text.contains("ledger.db") && text.contains("waited"), "{text}");
    other.execute_batch("ROLLBACK").unwrap();
    session.append(message("now")).unwrap();
}

#[test]
fn r93_many_children_are_many_branches() {
    let home = home();
    let store = Store::open(home.ledger_path()).unwrap();
    let session = store.session(SESSION).unwrap();
    let root = session.append(message("root")).unwrap();
    for number in 0..300 {
        let child = json!({"type": "custom", "customType": "n", "data": number,
                           "parentId": root.id});
        session.append(child).unwrap();
    }
    assert_eq!(session.children(Some(&root.id)).unwrap().len(), 300);
    assert_eq!(session.branches().unwrap().len(), 300);
}
