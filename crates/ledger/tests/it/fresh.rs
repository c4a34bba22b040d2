//! Readers first bring a ledger of this machine up to date, for a limited time only.

use std::fs;
use std::time::{Duration, Instant};

use crate::home::*;
use quipu_ledger::backup::BackupTarget;
use quipu_ledger::collect::{Progress, adopt};
use quipu_ledger::freshness::{Freshness, LedgerKind, Reader, RefreshLimit, open_to_read};
use quipu_ledger::{Error, Ledger};

const CLAUDE: &str = ".claude/projects/-p/00000001-0000-4000-8000-000000000001.jsonl";

fn line(number: usize, text: &str) -> String {
    format!(
        "{{\"type\":\"user\",\"uuid\":\"00000000-0000-4000-8000-{number:012}\",\"timestamp\":\
         \"2026-11-01T10:00:00Z\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
    )
}

fn refresh(home: &Home, machine: &str, limit: RefreshLimit) -> (Reader, Freshness) {
    let mut reader = open_to_read(&home.ledger_path(), machine).unwrap();
    let fresh = reader.refresh(&home.roots(), machine, limit, &mut |_| {}).unwrap();
    (reader, fresh)
}

#[test]
fn a_reader_sees_what_was_just_written() {
    let home = Home::quick();
    home.write(CLAUDE, line(1, "first"));
    let (reader, fresh) = refresh(&home, "here", RefreshLimit::Short);
    assert_eq!(reader.kind, LedgerKind::Own);
    assert_eq!((fresh.pending_bytes, fresh.is_behind()), (Some(0), false));
    drop(reader);
    assert_eq!(home.hits("first"), 1);
    home.append(CLAUDE, line(2, "second"));
    refresh(&home, "here", RefreshLimit::Short);
    assert_eq!(home.hits("second"), 1);
    home.append(CLAUDE, line(3, "third"));
    let (_, fresh) = refresh(&home, "here", RefreshLimit::None);
    assert_eq!(fresh.pending_bytes, None, "files were not compared");
    assert_eq!(home.hits("third"), 0);
    home.assert_rebuilds();
}

/// After an interrupted rebuild the answer is partial and reports it.
#[test]
fn unprojected_records_are_reported() {
    let home = Home::quick();
    home.write(CLAUDE, line(1, "first") + &line(2, "second"));
    home.sync();
    let all: i64 = home.one("SELECT projected_to FROM ledger");
    home.sql().execute("UPDATE ledger SET projected_to = ?1", [all - 2]).unwrap();
    let ledger = Ledger::open_read_only(&home.ledger_path()).unwrap();
    let mut reader = Reader { ledger, kind: LedgerKind::ReadOnly, needs_second_connection: false };
    let fresh = reader.refresh(&[], "here", RefreshLimit::None, &mut |_| {}).unwrap();
    assert_eq!(fresh.unprojected, 2);
    drop(reader);
    let (reader, fresh) = refresh(&home, "here", RefreshLimit::None);
    assert_eq!(fresh.unprojected, 0, "a reader that may write projects the rest");
    assert_eq!(quipu_ledger::freshness::unprojected(&reader.ledger).unwrap(), 0);
}

/// If there is more to collect than the time allows, a part is collected and the rest is reported.
#[test]
fn bytes_beyond_the_time_limit_are_left_for_later() {
    let home = Home::quick();
    let text = "words that take their time to be indexed one by one ".repeat(40);
    let mut written = 0;
    for file in 1..=20 {
        let lines: String = (0..400).map(|number| line(file * 1000 + number, &text)).collect();
        written += lines.len() as u64;
        let path = format!(".claude/projects/-p/{file:08}-0000-4000-8000-000000000001.jsonl");
        home.write(&path, lines);
    }
    let (_, fresh) = refresh(&home, "here", RefreshLimit::Short);
    let pending = fresh.pending_bytes.unwrap();
    let held: i64 = home.one("SELECT coalesce(sum(cursor), 0) FROM generations WHERE id > 1");
    if fresh.is_behind() {
        assert!(pending > 0 && pending <= written, "{pending} of {written}");
        assert!(held.cast_unsigned() + pending >= written, "{held} + {pending} of {written}");
    } else {
        // A very fast machine collects everything in time.
        assert_eq!((held.cast_unsigned(), pending), (written, 0));
    }
    let (_, fresh) = refresh(&home, "here", RefreshLimit::Unlimited);
    assert_eq!((fresh.pending_bytes, fresh.is_behind()), (Some(0), false));
    let held: i64 = home.one("SELECT sum(cursor) FROM generations WHERE id > 1");
    assert_eq!(held.cast_unsigned(), written);
    home.assert_rebuilds();
}

/// Collects what is stored in one transaction, and then lets the time be over. `None` if it was over
/// before.
fn refresh_for_one_transaction(home: &Home) -> Option<Freshness> {
    let mut reader = open_to_read(&home.ledger_path(), "here").unwrap();
    let (until, mut has_stored) = (Instant::now() + Duration::from_millis(400), false);
    let mut progress = |progress| {
        if let Progress::Done { .. } = progress {
            has_stored = true;
            while Instant::now() < until {
                std::thread::yield_now();
            }
        }
    };
    let roots = home.roots();
    let fresh = reader.refresh(&roots, "here", RefreshLimit::Short, &mut progress).unwrap();
    has_stored.then_some(fresh)
}

/// A file that was rewritten with the same length has no new bytes, but is not collected either.
#[test]
fn a_rewritten_file_is_left_for_later() {
    let home = Home::quick();
    let other = CLAUDE.replace("00000001-", "00000002-");
    home.write(CLAUDE, line(1, "first"));
    home.write(&other, line(2, "second"));
    home.sync();
    // More than one transaction takes.
    let text = "words ".repeat(2000);
    let long: String = (3..1000).map(|number| line(number, &text)).collect();
    home.append(CLAUDE, &long);
    home.write(&other, line(2, "sector"));
    if let Some(fresh) = refresh_for_one_transaction(&home) {
        let stored: i64 = home.one("SELECT max(cursor + tail_length) FROM generations");
        let is_complete = stored as usize == line(1, "first").len() + long.len();
        assert_eq!(home.hits("sector"), 0);
        assert_eq!(
            (fresh.pending_files, is_complete),
            (if is_complete { 1 } else { 2 }, is_complete)
        );
        assert!(fresh.is_behind());
    }
}

/// An index is stored whole, in one transaction.
#[test]
fn an_index_that_was_stored_is_not_left_for_later() {
    let home = Home::quick();
    let index = ".openclaw/agents/main/sessions/sessions.json";
    for session in ["a", "b"] {
        home.write(index, format!("{{\"agent:main:main\":{{\"sessionId\":\"{session}\"}}}}"));
        if let Some(fresh) = refresh_for_one_transaction(&home) {
            assert_eq!((fresh.pending_files, fresh.is_behind()), (0, false));
        }
        home.sync();
    }
}

#[test]
fn a_writer_that_does_not_end_is_not_waited_for() {
    let home = Home::quick();
    home.write(CLAUDE, line(1, "first"));
    refresh(&home, "here", RefreshLimit::Short);
    home.append(CLAUDE, line(2, "second"));
    let writer = home.sql();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (reader, fresh) = refresh(&home, "here", RefreshLimit::Short);
    assert!(fresh.was_busy && fresh.is_behind());
    let new = line(2, "second").len() as u64;
    assert_eq!(
        (fresh.pending_bytes, fresh.pending_files),
        (Some(new), 1),
        "the bytes that are missing are reported"
    );
    assert_eq!(
        quipu_ledger::query::sessions(&reader.ledger, &<_>::default(), None).unwrap().total,
        1
    );
    writer.execute_batch("ROLLBACK").unwrap();
    let (_, fresh) = refresh(&home, "here", RefreshLimit::Short);
    assert!(!fresh.is_behind());
    assert_eq!(home.hits("second"), 1);
}

#[test]
fn another_machines_ledger_is_read_as_it_is() {
    let home = Home::quick();
    home.write(CLAUDE, line(1, "first"));
    refresh(&home, "there", RefreshLimit::Short);
    home.append(CLAUDE, line(2, "second"));
    let before = home.ledger_bytes();
    let (reader, fresh) = refresh(&home, "here", RefreshLimit::Unlimited);
    assert_eq!(reader.kind, LedgerKind::OtherMachine);
    assert_eq!(fresh.pending_bytes, None);
    let collected: i64 = home.one("SELECT collected_at FROM ledger");
    assert_eq!(fresh.fresh_as_of, collected);
    drop(reader);
    assert!(before["ledger.db"] == home.ledger_bytes()["ledger.db"]);
    assert_eq!(home.hits("second"), 0);
    // The machine that collects into it next adopts it.
    adopt(&mut home.open(), "here").unwrap();
    let (reader, _) = refresh(&home, "here", RefreshLimit::Short);
    assert_eq!(reader.kind, LedgerKind::Own);
    assert_eq!(home.hits("second"), 1);
}

#[test]
fn a_backup_is_read_as_it_is() {
    let home = Home::quick();
    home.write(CLAUDE, line(1, "first"));
    refresh(&home, "here", RefreshLimit::Short);
    let copy = home.scratch("copy.db");
    let target = BackupTarget { path: &copy, replace: false };
    quipu_ledger::backup::backup(&mut home.open(), target, &mut |_| {}).unwrap();
    home.append(CLAUDE, line(2, "second"));
    let before = fs::read(&copy).unwrap();
    let mut reader = open_to_read(&copy, "here").unwrap();
    assert_eq!(reader.kind, LedgerKind::Backup);
    let fresh =
        reader.refresh(&home.roots(), "here", RefreshLimit::Unlimited, &mut |_| {}).unwrap();
    assert_eq!(fresh.pending_bytes, None);
    drop(reader);
    assert!(fs::read(&copy).unwrap() == before, "a backup was changed");
}

#[test]
fn a_file_that_is_no_ledger_is_refused() {
    let home = Home::quick();
    let path = home.ledger_path();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "something else").unwrap();
    let error = open_to_read(&path, "here").map(|reader| reader.kind);
    assert!(matches!(error, Err(Error::NotALedger { .. })), "{error:?}");
}

/// While another process rebuilds the ledger, a reader waits as long as it may for missing records.
#[test]
fn a_reader_waits_until_its_time_is_over() {
    let home = Home::new();
    home.write(CLAUDE, line(1, "first"));
    home.sync();
    let mut reader = open_to_read(&home.ledger_path(), "here").unwrap();
    home.sql().execute("UPDATE ledger SET projected_to = 0", []).unwrap();
    let lock = format!("{}.lock", home.ledger_path().display());
    let lock = std::fs::File::options().append(true).open(lock).unwrap();
    lock.lock().unwrap();
    let began = std::time::Instant::now();
    let fresh = reader.refresh(&home.roots(), "here", RefreshLimit::Short, &mut |_| {}).unwrap();
    assert!(fresh.unprojected > 0);
    // Waiting can take longer than it should, but never less.
    let waited = began.elapsed();
    assert!(waited >= std::time::Duration::from_millis(290), "{waited:?}");
}
