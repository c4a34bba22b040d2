//! A ledger that is collected into before it has its name: it comes to stand at its path whole, or
//! not at all, and holds what any other would.

use crate::home::*;
use quipu_ledger::{Ledger, collect};

fn lines(range: std::ops::Range<u32>) -> String {
    range.map(|number| line("user", &uuid(number), None, &format!("word{number}"))).collect()
}

/// Every file that lies where the ledger should.
fn names(home: &Home) -> Vec<String> {
    home.ledger_bytes().into_keys().filter(|name| name.starts_with("ledger.db")).collect()
}

#[test]
fn holds_what_a_ledger_that_was_there_before_holds() {
    let copy = "33333333-d010-4b20-a591-b7172ef08e66";
    let homes = [Home::quick(), Home::quick()];
    for home in &homes {
        home.write(MAIN, lines(0..40));
        // The longer of two files that begin alike is compared with the other one.
        home.write(&format!(".claude/projects/-p/{copy}.jsonl"), lines(0..60));
    }
    let [built, opened] = &homes;
    drop(opened.open());
    for home in &homes {
        let report = home.sync();
        assert_eq!((report.sources, report.sources_changed, report.records_added), (2, 2, 100));
        assert_eq!((report.sources_added, report.problems), (2, 0));
        home.assert_sound();
        home.assert_restores();
        home.assert_rebuilds();
        assert_eq!(home.one::<String>("PRAGMA journal_mode"), "wal");
        assert_eq!(home.one::<i64>("SELECT count(*) FROM records WHERE same_as IS NOT NULL"), 40);
    }
    assert_eq!(built.projection(), opened.projection());
}

#[test]
fn is_not_there_before_something_was_collected() {
    let home = Home::quick();
    home.write(MAIN, lines(0..3));
    drop(Ledger::open_to_collect(&home.ledger_path()).unwrap());
    assert_eq!(names(&home), ["ledger.db.lock", "ledger.db.wait"]);
    assert_eq!(home.sync().records_added, 3);
    assert_eq!(names(&home), ["ledger.db", "ledger.db.lock", "ledger.db.wait"]);
}

#[test]
fn one_that_came_to_stand_there_meanwhile_is_collected_into() {
    let (home, other) = (Home::quick(), Home::quick());
    other.write(MAIN, lines(0..5));
    other.sync();
    home.write(MAIN, lines(0..5));
    let mut ledger = Ledger::open_to_collect(&home.ledger_path()).unwrap();
    std::fs::copy(other.ledger_path(), home.ledger_path()).unwrap();
    let its_id = other.one::<String>("SELECT ledger_id FROM ledger");
    collect(&mut ledger, &home.roots(), &mut |_| {}).unwrap();
    assert_eq!(ledger.path(), home.ledger_path());
    drop(ledger);
    assert_eq!(home.one::<String>("SELECT ledger_id FROM ledger"), its_id);
    assert_eq!(names(&home), ["ledger.db", "ledger.db.lock", "ledger.db.wait"]);
    home.assert_sound();
}

#[test]
fn a_path_that_cannot_hold_one_is_refused_before_anything_is_collected() {
    let home = Home::quick();
    std::fs::create_dir_all(home.ledger_path()).unwrap();
    assert!(Ledger::open_to_collect(&home.ledger_path()).is_err());
}
