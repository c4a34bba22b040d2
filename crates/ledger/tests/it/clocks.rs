//! Times of files that are wrong, frozen, or all new. They only show that a file changed.

use std::fs::File;
use std::time::{Duration, SystemTime};

use crate::home::*;

fn lines(range: std::ops::Range<u32>) -> String {
    range.map(|number| line("user", &uuid(number), None, &format!("word{number}"))).collect()
}

fn path_of(number: u32) -> String {
    MAIN.replace(SESSION, &uuid(number))
}

fn set_modified(home: &Home, path: &str, time: SystemTime) {
    File::options().write(true).open(home.path(path)).unwrap().set_modified(time).unwrap();
}

#[test]
fn f33_all_files_are_touched_at_once() {
    let home = Home::quick();
    for number in 0..200 {
        home.write(&path_of(number), lines(number * 10..number * 10 + 3));
    }
    home.sync();
    for number in 0..200 {
        set_modified(&home, &path_of(number), SystemTime::UNIX_EPOCH);
    }
    let report = home.sync();
    let work =
        (report.bytes_read, report.lines_parsed, report.records_added, report.rewritten_sources);
    assert_eq!(work, (0, 0, 0, 0));
    assert_eq!(home.sync().bytes_verified, 0, "the file is compared only once");
    home.sync_and_check();
}

/// Touched files share chunks: each chunk is opened once for many files, not once for each.
#[test]
fn touched_files_share_the_chunks_that_are_opened() {
    let home = Home::quick();
    for number in 0..1500 {
        home.write(&path_of(number), lines(number..number + 1));
    }
    home.sync();
    let chunks: i64 = home.one("SELECT count(*) FROM chunks");
    for number in 0..1500 {
        set_modified(&home, &path_of(number), SystemTime::UNIX_EPOCH);
    }
    home.append(&path_of(1499), lines(2000..2001));
    let report = home.sync();
    assert_eq!((report.records_added, report.rewritten_sources), (1, 0));
    assert!(report.bytes_verified > 0 && chunks > 0);
    // Three units of work, and each may open every chunk.
    let most = 4 * chunks.cast_unsigned();
    assert!(report.chunks_opened <= most, "{} of {chunks}", report.chunks_opened);
    home.sync_and_check();
}

#[test]
fn f33_the_time_of_a_file_never_changes() {
    let home = Home::quick();
    let frozen = SystemTime::UNIX_EPOCH + Duration::from_secs(1_770_000_000);
    home.write(MAIN, lines(0..10));
    set_modified(&home, MAIN, frozen);
    home.sync();
    home.append(MAIN, lines(10..12));
    set_modified(&home, MAIN, frozen);
    assert_eq!(home.sync().records_added, 2);
    // Its length does not change either.
    home.write(MAIN, lines(0..12).replace("word3\"", "wordX\""));
    set_modified(&home, MAIN, frozen);
    assert_eq!(home.sync_and_check().rewritten_sources, 1);
    home.assert_restores_all(&[MAIN]);
    assert_eq!((home.hits("word3"), home.hits("wordX")), (1, 1));
}

/// Times are only compared with earlier ones. Files with any time are collected, in the order of
/// their bytes, and an unterminated line is found however young its file claims to be.
#[test]
fn f35_clocks_are_years_off() {
    let ten_years = Duration::from_secs(10 * 365 * 24 * 3600);
    let times = [
        SystemTime::now() + ten_years,
        SystemTime::now() - ten_years,
        SystemTime::UNIX_EPOCH - ten_years,
        SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 35),
    ];
    for (first, second) in [(0, 1), (1, 0), (0, 2), (2, 3), (3, 2)] {
        let home = Home::quick();
        let torn = line("user", &uuid(99), None, "torn");
        home.write(MAIN, lines(0..5));
        set_modified(&home, MAIN, times[first]);
        home.sync();
        home.append(MAIN, lines(5..8) + torn.trim_end());
        set_modified(&home, MAIN, times[second]);
        assert_eq!(home.sync().records_added, 3);
        home.sync();
        assert_eq!(
            home.hits("torn"),
            1,
            "an unchanged tail has a provisional entry, whatever its time"
        );
        home.sync_and_check();
        home.assert_restores_all(&[MAIN]);
    }
}
