//! Changes of a file between planning and reading it.

use crate::home::*;
use quipu_ledger::collect::Progress;
use quipu_ledger::wire::SyncReport;

fn lines(range: std::ops::Range<u32>) -> String {
    range.map(|number| line("user", &uuid(number), None, &format!("word{number}"))).collect()
}

fn path_of(number: u32) -> String {
    MAIN.replace(SESSION, &uuid(number))
}

/// Syncs, and runs `happen` after the files were planned and before they are read.
#[track_caller]
fn sync_while(home: &Home, happen: impl FnOnce()) -> SyncReport {
    let mut happen = Some(happen);
    quipu_ledger::collect::collect(&mut home.open(), &home.roots(), &mut |progress| {
        if matches!(progress, Progress::Planned { .. })
            && let Some(happen) = happen.take()
        {
            happen();
        }
    })
    .unwrap()
}

/// Returns a home with two files, each with 10 collected lines and 5 new ones.
fn lagging() -> Home {
    let home = Home::quick();
    for number in [1, 2] {
        home.write(&path_of(number), lines(number * 100..number * 100 + 10));
    }
    home.sync();
    for number in [1, 2] {
        home.append(&path_of(number), lines(number * 100 + 10..number * 100 + 15));
    }
    home
}

#[test]
fn f32_deleted_before_it_is_read() {
    let home = lagging();
    let report = sync_while(&home, || home.remove(&path_of(1)));
    assert_eq!(report.records_added, 5, "its neighbour is read");
    assert!(report.skipped.iter().any(|skip| skip.reason.starts_with("unreadable")));
    let report = home.sync_and_check();
    assert_eq!(report.gone_sources, 1);
    assert_eq!(home.all("SELECT state, entries FROM sessions"), ["'gone'|10", "'live'|15"]);
}

#[test]
fn f26_truncated_before_it_is_read() {
    let home = lagging();
    sync_while(&home, || home.write(&path_of(1), lines(500..503)));
    home.sync_and_check();
    home.assert_restores_all(&[&path_of(1), &path_of(2)]);
    assert_eq!((home.hits("word105"), home.hits("word501"), home.hits("word214")), (1, 1, 1));
}

#[test]
fn f27_replaced_before_it_is_read() {
    let home = lagging();
    sync_while(&home, || home.replace(&path_of(1), lines(100..105) + &lines(500..520)));
    home.sync_and_check();
    home.assert_restores_all(&[&path_of(1), &path_of(2)]);
    assert_eq!((home.hits("word109"), home.hits("word519")), (1, 1));
    let doubled = "SELECT text FROM messages GROUP BY text HAVING count(*) > 1";
    assert_eq!(home.all(doubled), [""; 0]);
}

#[test]
fn f31_renamed_before_it_is_read() {
    let home = lagging();
    sync_while(&home, || home.rename(&path_of(1), &path_of(9)));
    let report = home.sync_and_check();
    assert_eq!(report.gone_sources, 0, "a renamed file is not gone");
    home.assert_restores_all(&[&path_of(9), &path_of(2)]);
    assert_eq!(home.hits("word114"), 1);
}
