//! Several processes at one ledger: none fails, nothing is stored twice, and versions are
//! respected.

use std::sync::mpsc;
use std::time::Duration;

use crate::child;
use crate::home::*;
use quipu_ledger::collect::RootPath;
use quipu_ledger::{Error, Ledger};

/// The limit of a wait for a lock that is never released.
const SHORT_WAIT: Duration = Duration::from_millis(50);

fn lines(range: std::ops::Range<u32>) -> String {
    range.map(|number| line("user", &uuid(number), None, &format!("word{number}"))).collect()
}

fn path_of(number: u32) -> String {
    format!(".claude/projects/-p/{number:08x}-d010-4b20-a591-b7172ef08e66.jsonl")
}

#[test]
fn sixteen_processes_can_open_a_new_ledger_at_once() {
    for _ in 0..4 {
        let home = Home::quick();
        child::finish(child::start(&home, "open", 16));
        assert_eq!(home.one::<i64>("SELECT count(*) FROM ledger"), 1);
        assert_eq!(home.one::<i64>("PRAGMA user_version"), 5);
        home.assert_sound();
        let left: Vec<String> =
            home.ledger_bytes().into_keys().filter(|name| name.contains(".new-")).collect();
        assert!(left.is_empty(), "{left:?}");
        home.write(MAIN, lines(0..3));
        assert_eq!(home.sync().records_added, 3);
    }
}

#[test]
fn sixteen_first_collections_at_once_store_each_line_once() {
    let home = Home::quick();
    for number in 0..6 {
        home.write(&path_of(number), lines(number * 50..number * 50 + 40));
    }
    child::finish(child::start(&home, "collect", 16));
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), 240);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 240);
    home.sync_and_check();
}

#[test]
fn four_collectors_store_each_line_of_a_writer_once() {
    let home = Home::quick();
    let files = 4;
    for number in 0..files {
        home.write(&path_of(number), "");
    }
    let mut children = child::start(&home, "collect 12 times", 4);
    children.iter_mut().for_each(|child| drop(child.stdin.take()));
    let mut written = 0;
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        let (path, text) = (path_of(written % files), lines(written..written + 1));
        let (now, later) = text.split_at(text.len() / 2);
        home.append(&path, now);
        std::thread::yield_now();
        home.append(&path, later);
        written += 1;
        if written % 500 == 0 {
            // And a rewrite, with the first line changed.
            let old = std::fs::read_to_string(home.path(&path)).unwrap();
            home.replace(&path, format!("{}{old}", lines(written..written + 1)));
            written += 1;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    child::finish(children);
    home.sync_and_check();
    let doubled = "SELECT text FROM messages GROUP BY text HAVING count(*) > 1";
    assert_eq!(home.all(doubled), [""; 0]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages WHERE id > 0"), i64::from(written));
}

#[test]
fn r105_a_reader_sees_what_another_process_wrote() {
    let home = Home::new();
    home.write(MAIN, lines(0..3));
    home.sync();
    let reader = Ledger::open_read_only(&home.ledger_path()).unwrap();
    let offset = |ledger: &Ledger| quipu_ledger::query::cursors(ledger).unwrap()[0].offset;
    assert_eq!(offset(&reader), lines(0..3).len() as u64);

    home.append(MAIN, lines(3..5));
    child::finish(child::start(&home, "collect", 1));
    assert_eq!(offset(&reader), lines(0..5).len() as u64);
    let status = quipu_ledger::status::status(&reader, &home.roots()).unwrap();
    assert_eq!(status.ledger.records, 5);
}

#[test]
fn a_writer_waits_for_another_program() {
    for begin in ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"] {
        let home = Home::new();
        home.write(MAIN, lines(0..3));
        home.sync();
        home.append(MAIN, lines(3..6));
        let other = home.sql();
        other.execute_batch(begin).unwrap();
        let (send, receive) = mpsc::channel::<()>();
        let holder = std::thread::spawn(move || {
            // No message arrives: this holds the lock for a while.
            let _ = receive.recv_timeout(Duration::from_millis(200));
            other.execute_batch("COMMIT").unwrap();
        });
        let report = home.sync();
        drop(send);
        holder.join().unwrap();
        assert_eq!(report.records_added, 3, "{begin}");
        home.assert_restores_all(&[MAIN]);
        home.assert_sound();
    }
}

#[test]
fn a_wait_beyond_its_limit_is_an_error_and_changes_nothing() {
    let home = Home::new();
    home.write(MAIN, lines(0..3));
    home.sync();
    home.append(MAIN, lines(3..6));
    let other = home.sql();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut ledger = Ledger::open_waiting(&home.ledger_path(), SHORT_WAIT).unwrap();
    let error = collect(&mut ledger, &home.roots()).unwrap_err();
    assert!(matches!(error, Error::Busy { waited: SHORT_WAIT, .. }), "{error:?}");
    drop((other, ledger));
    assert_eq!(
        home.one::<i64>("SELECT cursor FROM generations WHERE source > 1"),
        lines(0..3).len() as i64
    );
    assert_eq!(home.sync().records_added, 3);
    home.assert_restores_all(&[MAIN]);
}

/// Another program with an exclusive lock, which prevents even reading.
#[test]
fn f18_an_exclusive_lock_is_reported_as_busy() {
    let home = Home::new();
    home.write(MAIN, lines(0..3));
    home.sync();
    let other = home.sql();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    let path = home.ledger_path();
    let outcomes = std::thread::scope(|scope| {
        let writer = scope.spawn(|| Ledger::open_waiting(&path, SHORT_WAIT).map(drop));
        let reader = scope.spawn(|| Ledger::open_any_version_waiting(&path, SHORT_WAIT).map(drop));
        [writer.join().unwrap(), reader.join().unwrap()]
    });
    for outcome in outcomes {
        assert!(matches!(outcome, Err(Error::Busy { waited: SHORT_WAIT, .. })), "{outcome:?}");
    }
    drop(other);
    home.append(MAIN, lines(3..5));
    assert_eq!(home.sync_and_check().records_added, 2);
}

/// The error names the process that holds the lock of the writers, and whether it is stopped.
#[test]
#[cfg(target_os = "linux")]
fn the_process_that_holds_the_lock_is_named() {
    let home = Home::new();
    home.write(MAIN, lines(0..3));
    home.sync();
    let other = home.sql();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let lock = format!("{}.lock", home.ledger_path().display());
    // `cat` keeps the process until its input ends, and answers once the lock is held.
    let mut holder = std::process::Command::new("flock")
        .args(["--close", &lock, "cat"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(holder.stdin.as_mut().unwrap(), b"held").unwrap();
    let mut answer = [0; 4];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut answer).unwrap();
    let id = holder.id().to_string();
    assert!(std::process::Command::new("kill").args(["-STOP", &id]).status().unwrap().success());
    while !std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap().contains(") T ") {
        std::thread::yield_now();
    }
    home.append(MAIN, lines(3..6));
    let mut ledger = Ledger::open_waiting(&home.ledger_path(), SHORT_WAIT).unwrap();
    let error = collect(&mut ledger, &home.roots()).unwrap_err();
    let named = format!("process {id} (flock) is writing to ");
    let message = error.to_string();
    assert!(message.starts_with(&named) && message.contains(" and is stopped; "), "{message}");
    // A backup is made from a snapshot, and cannot be recorded.
    let copy = home.folder().join("copy.db");
    let target = quipu_ledger::backup::BackupTarget { path: &copy, replace: false };
    let report = quipu_ledger::backup::backup(&mut ledger, target, &mut |_| {}).unwrap();
    assert!(!report.is_recorded && report.records == 3, "{report:?}");
    holder.kill().unwrap();
    holder.wait().unwrap();
}

fn collect(ledger: &mut Ledger, roots: &[RootPath]) -> quipu_ledger::Result<()> {
    quipu_ledger::collect::collect(ledger, roots, &mut |_| {}).map(drop)
}

#[test]
fn a_newer_ledger_is_refused_and_left_alone() {
    let home = Home::new();
    home.write(MAIN, lines(0..3));
    home.sync();
    let mut open = home.open();
    home.sql().execute_batch("PRAGMA user_version = 99").unwrap();
    home.append(MAIN, lines(3..4));
    // A process that has it open stops at its next write.
    assert!(matches!(collect(&mut open, &home.roots()), Err(Error::Upgraded)));
    drop(open);
    let before = home.ledger_bytes();
    for outcome in [Ledger::open(&home.ledger_path()), Ledger::open_read_only(&home.ledger_path())]
    {
        assert!(matches!(outcome, Err(Error::Newer { found: 99, .. })), "{outcome:?}");
    }
    assert!(before["ledger.db"] == home.ledger_bytes()["ledger.db"]);
}

#[test]
fn a_newer_projection_is_not_written_to() {
    let home = Home::new();
    home.write(MAIN, lines(0..3));
    home.sync();
    let mut open = home.open();
    home.sql().execute("UPDATE ledger SET projection_version = 99000000", []).unwrap();
    home.append(MAIN, lines(3..4));
    assert!(matches!(collect(&mut open, &home.roots()), Err(Error::Upgraded)));
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), 3);
}

#[test]
fn an_older_projection_is_derived_again() {
    let home = Home::new();
    home.write(MAIN, lines(0..3));
    home.sync();
    let before = home.projection();
    let conn = home.sql();
    conn.execute("UPDATE ledger SET projection_version = 1", []).unwrap();
    conn.execute("UPDATE message_texts SET text = 'as an older version saw it'", []).unwrap();
    drop(conn);
    home.sync();
    assert_eq!(before, home.projection());
}
