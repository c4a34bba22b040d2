//! A ledger that is collected into while it is a staging file: it appears at its path complete or
//! not at all, and holds the same as any other ledger.

use crate::home::*;
use quipu_ledger::Ledger;
use quipu_ledger::collect::collect;

fn lines(range: std::ops::Range<u32>) -> String {
    range.map(|number| line("user", &uuid(number), None, &format!("word{number}"))).collect()
}

/// Returns the names of all files in the ledger's folder.
fn names(home: &Home) -> Vec<String> {
    home.ledger_bytes().into_keys().filter(|name| name.starts_with("ledger.db")).collect()
}

#[test]
fn a_staged_ledger_equals_one_that_existed_before() {
    let copy = "33333333-d010-4b20-a591-b7172ef08e66";
    let homes = [Home::quick(), Home::quick()];
    for home in &homes {
        home.write(MAIN, lines(0..40));
        // The longer of two files with the same head is compared with the shorter one.
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
fn a_staged_ledger_appears_after_something_was_collected() {
    let home = Home::quick();
    home.write(MAIN, lines(0..3));
    drop(Ledger::open_to_collect(&home.ledger_path()).unwrap());
    assert_eq!(names(&home), ["ledger.db.lock", "ledger.db.wait"]);
    assert_eq!(home.sync().records_added, 3);
    assert_eq!(names(&home), ["ledger.db", "ledger.db.lock", "ledger.db.wait"]);
}

#[test]
fn a_ledger_that_appears_meanwhile_is_collected_into() {
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
fn a_removed_staging_file_is_collected_again() {
    let home = Home::quick();
    home.write(MAIN, lines(0..5));
    let mut ledger = Ledger::open_to_collect(&home.ledger_path()).unwrap();
    // A process that waited too long removes the staging file like this.
    std::fs::remove_file(ledger.path()).unwrap();
    let report = collect(&mut ledger, &home.roots(), &mut |_| {}).unwrap();
    assert_eq!((report.records_added, report.sources_changed), (5, 1));
    drop(ledger);
    home.assert_sound();
    home.assert_restores();
    assert_eq!(names(&home), ["ledger.db", "ledger.db.lock", "ledger.db.wait"]);
}

#[test]
fn staging_files_of_killed_processes_are_removed_and_nothing_else() {
    let home = Home::quick();
    home.write(MAIN, lines(0..3));
    std::fs::create_dir_all(home.ledger_path().parent().unwrap()).unwrap();
    let write = |name: &str| {
        std::fs::write(home.ledger_path().with_file_name(name), "x").unwrap();
    };
    let others =
        ["ledger.db.new-", "ledger.db.new-1.txt", "ledger.db.new-year", "ledger.db.news-1"];
    others.into_iter().for_each(write);
    let is_left = |name: &&str| names(&home).iter().any(|other| other == name);
    // Neither before nor after there is a ledger.
    for _ in 0..2 {
        let mine = ["ledger.db.new-1", "ledger.db.new-77-journal", "ledger.db.new-2-wal"];
        mine.into_iter().for_each(write);
        home.sync();
        assert!(others.iter().all(is_left));
        assert!(!mine.iter().any(is_left), "{:?}", names(&home));
    }
}

#[test]
fn a_folder_above_the_ledger_may_be_a_link() {
    let home = Home::quick();
    home.write(MAIN, lines(0..3));
    drop(home.open());
    let folder = home.scratch("linked");
    std::os::unix::fs::symlink(home.ledger_path().parent().unwrap(), &folder).unwrap();
    // One ledger that exists, and one that does not.
    for name in ["ledger.db", "another.db"] {
        let path = folder.join(name);
        let mut ledger = Ledger::open_to_collect(&path).unwrap();
        assert_eq!(collect(&mut ledger, &home.roots(), &mut |_| {}).unwrap().records_added, 3);
        drop(ledger);
        assert!(Ledger::open_read_only(&path).is_ok());
        drop(Ledger::open(&path).unwrap());
    }
    // A link to the file itself is still refused.
    let link = home.scratch("link.db");
    std::os::unix::fs::symlink(home.ledger_path(), &link).unwrap();
    assert!(Ledger::open(&link).is_err());
}

#[test]
fn a_path_that_cannot_hold_a_ledger_is_refused_before_collecting() {
    let home = Home::quick();
    std::fs::create_dir_all(home.ledger_path()).unwrap();
    assert!(Ledger::open_to_collect(&home.ledger_path()).is_err());
}
