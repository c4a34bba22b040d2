//! The file itself: its schema, refused files, growth, and damage.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::home::*;
use quipu_ledger::restore::{Generations, RestoreScope};
use quipu_ledger::{Error, Ledger, Trouble};
use quipu_torture::Prng;

// --- The schema ---------------------------------------------------------------------------------

#[test]
fn the_file_has_the_designed_settings() {
    let home = Home::quick();
    home.sync();
    assert_eq!(home.one::<String>("PRAGMA journal_mode"), "wal");
    assert_eq!(home.one::<i64>("PRAGMA page_size"), 8192);
    assert_eq!(home.one::<i64>("PRAGMA auto_vacuum"), 2, "incremental");
    assert_eq!(home.one::<i64>("PRAGMA application_id"), i64::from(u32::from_be_bytes(*b"quip")));
    assert_eq!(home.one::<i64>("PRAGMA user_version"), 5);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM ledger WHERE epoch <> ledger_id"), 1);
    // The header can be read without this SQLite.
    let header = fs::read(home.ledger_path()).unwrap();
    assert_eq!(&header[68..72], b"quip");
}

#[test]
fn every_table_is_strict() {
    let home = Home::quick();
    home.sync();
    let loose = "SELECT name FROM pragma_table_list
                  WHERE schema = 'main' AND type = 'table' AND NOT strict AND name NOT LIKE 'sqlite%'";
    assert_eq!(home.all(loose), [""; 0]);
    assert!(home.one::<i64>("SELECT count(*) FROM pragma_table_list WHERE strict") > 20);
}

/// Later parts of the product find their columns in ledgers of this version.
#[test]
fn truth_has_the_columns_of_later_features() {
    let home = Home::quick();
    home.sync();
    for (table, column) in [
        ("ledger", "ledger_id"),
        ("ledger", "epoch"),
        ("records", "key"),
        ("sources", "kind"),
        ("forgotten", "session_id"),
    ] {
        let found =
            format!("SELECT count(*) FROM pragma_table_info('{table}') WHERE name = '{column}'");
        assert_eq!(home.one::<i64>(&found), 1, "{table}.{column}");
    }
    assert_eq!(home.all("SELECT kind FROM sources"), ["'journal'"]);
    home.sql()
        .execute("INSERT INTO sources (kind, format, root, path, first_path) VALUES ('native', 'x', x'', x'01', x'')", [])
        .unwrap();
}

#[test]
fn only_the_owner_can_read_the_ledger() {
    let home = Home::quick();
    home.write(MAIN, lines(0..3));
    home.sync();
    let _open = home.open();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = home.ledger_path().parent().unwrap().to_owned();
    assert_eq!(mode(&folder), 0o700);
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn only_the_owner_can_read_restored_files() {
    let home = Home::quick();
    home.write(MAIN, lines(0..3));
    home.sync();
    let to = home.scratch("restored");
    let report =
        quipu_ledger::restore::restore(&home.open(), RestoreScope::All, &to, Generations::Newest)
            .unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let file = Path::new(&report.written[0].path);
    assert_eq!((mode(file), mode(file.parent().unwrap())), (0o600, 0o700));
}

// --- Refused files ------------------------------------------------------------------------------

/// Asserts that a ledger at the path prepared by `make` is refused, and that nothing there changes.
#[track_caller]
fn refused(make: impl FnOnce(&Path)) -> Error {
    let home = Home::quick();
    let path = home.ledger_path();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    make(&path);
    let before = standing(&path);
    let error = Ledger::open(&path).unwrap_err();
    assert!(Ledger::open_read_only(&path).is_err());
    assert_eq!(before, standing(&path), "opening changed the refused file");
    error
}

/// Returns the type, link target, bytes and modification time of the file at a path.
fn standing(path: &Path) -> (fs::FileType, Option<std::path::PathBuf>, Vec<u8>, i64) {
    let meta = fs::symlink_metadata(path).unwrap();
    let bytes = if meta.is_file() { fs::read(path).unwrap() } else { Vec::new() };
    let changed = std::os::unix::fs::MetadataExt::mtime_nsec(&meta);
    (meta.file_type(), fs::read_link(path).ok(), bytes, changed)
}

#[track_caller]
fn not_a_ledger(make: impl FnOnce(&Path)) {
    let error = refused(make);
    assert!(matches!(error, Error::NotALedger { .. }), "{error:?}");
}

/// Returns the bytes of a ledger with three records and no log.
fn a_ledger() -> Vec<u8> {
    let home = Home::quick();
    home.write(MAIN, lines(0..3));
    home.sync();
    home.open().checkpoint().unwrap();
    fs::read(home.ledger_path()).unwrap()
}

#[test]
fn a_file_that_is_no_sqlite_file_is_refused() {
    not_a_ledger(|path| fs::write(path, "notes about quipus\n".repeat(100)).unwrap());
    not_a_ledger(|path| fs::write(path, vec![0; 8192]).unwrap());
}

#[test]
fn a_short_file_is_refused() {
    not_a_ledger(|path| fs::write(path, "").unwrap());
    not_a_ledger(|path| fs::write(path, &a_ledger()[..50]).unwrap());
    not_a_ledger(|path| fs::write(path, &a_ledger()[..99]).unwrap());
}

#[test]
fn a_database_of_another_program_is_refused() {
    not_a_ledger(|path| {
        let other = rusqlite::Connection::open(path).unwrap();
        other.execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)").unwrap();
    });
    not_a_ledger(|path| {
        let other = rusqlite::Connection::open(path).unwrap();
        other.execute_batch("PRAGMA application_id = 7; CREATE TABLE theirs (x)").unwrap();
    });
}

#[test]
fn a_newer_ledger_is_refused() {
    let error = refused(|path| {
        fs::write(path, a_ledger()).unwrap();
        let newer = rusqlite::Connection::open(path).unwrap();
        newer.execute_batch("PRAGMA user_version = 6").unwrap();
    });
    assert!(matches!(error, Error::Newer { found: 6, known: 5, .. }), "{error:?}");
}

#[test]
fn a_path_that_is_no_file_is_refused() {
    not_a_ledger(|path| fs::create_dir(path).unwrap());
    not_a_ledger(|path| {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    });
    not_a_ledger(|path| drop(std::os::unix::net::UnixListener::bind(path).unwrap()));
}

#[test]
fn a_link_is_refused() {
    let home = Home::quick();
    let real = home.scratch("real.db");
    fs::write(&real, a_ledger()).unwrap();
    not_a_ledger(|path| symlink(&real, path).unwrap());
    assert_eq!(fs::read(&real).unwrap().len() % 8192, 0);
    not_a_ledger(|path| symlink("nowhere", path).unwrap());
}

/// Nothing is created beside a file of another program.
#[test]
fn nothing_is_left_beside_a_refused_file() {
    let home = Home::quick();
    fs::create_dir_all(home.ledger_path().parent().unwrap()).unwrap();
    fs::write(home.ledger_path(), "a letter to my aunt\n".repeat(10)).unwrap();
    let before = home.ledger_bytes();
    Ledger::open(&home.ledger_path()).unwrap_err();
    let after: Vec<String> = home.ledger_bytes().into_keys().collect();
    assert_eq!(before.into_keys().collect::<Vec<_>>(), after);
}

#[test]
fn reading_only_creates_nothing() {
    let home = Home::quick();
    let absent = Ledger::open_read_only(&home.ledger_path());
    assert!(matches!(absent, Err(Error::Absent { .. })), "{absent:?}");
    assert!(!home.ledger_path().parent().unwrap().exists());
}

// --- Growth -------------------------------------------------------------------------------------

fn lines(range: std::ops::Range<u32>) -> String {
    range
        .map(|number| {
            let parent = (number > 0).then(|| uuid(number - 1));
            line("user", &uuid(number), parent.as_deref(), &format!("word{number}"))
        })
        .collect()
}

/// Returns a line with words that compress about as well as real ones.
fn long_line(prng: &mut Prng, number: u32, words: u64) -> String {
    let text: String = (0..words)
        .map(|_| format!("{}{} ", SYLLABLES[prng.below(8) as usize], prng.below(300)))
        .collect();
    let parent = (number > 0).then(|| uuid(number - 1));
    line("user", &uuid(number), parent.as_deref(), &text)
}

const SYLLABLES: [&str; 8] = ["ka", "te", "mi", "so", "nu", "ra", "lo", "vi"];

/// Returns the size of the ledger and its write-ahead log after a checkpoint.
fn size(home: &Home) -> u64 {
    home.open().checkpoint().unwrap();
    let length = |suffix: &str| {
        let mut path = home.ledger_path().into_os_string();
        path.push(suffix);
        fs::metadata(path).map_or(0, |meta| meta.len())
    };
    length("") + length("-wal")
}

/// A small version of `quipu-bench growth`.
#[test]
fn a_hundred_rewrites_and_a_rename_cost_little() {
    let home = Home::quick();
    let mut prng = Prng::new(7);
    let mut text: Vec<String> = (0..500).map(|number| long_line(&mut prng, number, 160)).collect();
    home.write(MAIN, text.concat());
    let length = text.concat().len();
    assert!((400_000..700_000).contains(&length), "{length} bytes");
    home.sync();
    let before = size(&home);
    for round in 0..100_u32 {
        let at = prng.below(500) as usize;
        text[at] = long_line(&mut prng, at as u32, 160);
        if round % 2 == 0 {
            home.write(MAIN, text.concat());
        } else {
            home.replace(MAIN, text.concat());
        }
        let report = home.sync();
        assert_eq!((report.rewritten_sources, report.lines_parsed), (1, 1), "round {round}");
    }
    let moved = MAIN.replace("-shop", "-store");
    home.folder_for(&moved);
    home.rename(MAIN, &moved);
    let report = home.sync();
    assert_eq!((report.renamed_sources, report.bytes_read, report.lines_parsed), (1, 0, 0));
    let grown = size(&home) - before;
    assert!(grown < 500_000, "grew by {grown} bytes");

    // All 101 generations are still there.
    home.assert_sound();
    home.assert_restores_all(&[&moved]);
    let generations = home.generations();
    assert_eq!(generations.len(), 101);
    assert_eq!(
        generations.iter().map(|generation| generation.own_records().count()).sum::<usize>(),
        600
    );
    home.assert_rebuilds();
}

/// A document grows by its versions only.
#[test]
fn an_unchanged_file_costs_nothing() {
    let home = Home::quick();
    home.write(MAIN, lines(0..200));
    home.sync();
    let before = size(&home);
    for round in 0..20 {
        if round % 2 == 0 {
            home.write(MAIN, lines(0..200));
        } else {
            home.replace(MAIN, lines(0..200));
        }
        assert_eq!(home.sync().records_added, 0);
    }
    assert_eq!(size(&home), before);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM generations WHERE source > 1"), 1);
}

/// Sets the time of the last record far back, so that the next sync seals.
fn leave_alone(home: &Home) {
    home.sql().execute("UPDATE pending SET added_at = 0", []).unwrap();
    home.sync();
}

#[test]
fn a_ledger_collected_line_by_line_is_as_small_as_an_import() {
    let mut prng = Prng::new(11);
    let text: Vec<String> = (0..300).map(|number| long_line(&mut prng, number, 400)).collect();
    let bulk = Home::quick();
    bulk.write(MAIN, text.concat());
    bulk.sync();
    leave_alone(&bulk);

    let home = Home::quick();
    home.write(MAIN, "");
    for line in &text {
        home.append(MAIN, line);
        assert_eq!(home.sync().records_added, 1);
    }
    assert!(home.one::<i64>("SELECT count(*) FROM pending") < 300, "no chunk was written");
    leave_alone(&home);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM pending"), 0);

    let chunks = |home: &Home| -> (i64, i64) {
        (home.one("SELECT count(*) FROM chunks"), home.one("SELECT sum(length(data)) FROM chunks"))
    };
    let ((few, bytes), (few_in_bulk, bytes_in_bulk)) = (chunks(&home), chunks(&bulk));
    assert!(few <= few_in_bulk + 2, "{few} chunks, in bulk {few_in_bulk}");
    assert!(bytes * 10 <= bytes_in_bulk * 11, "{bytes} bytes in chunks, in bulk {bytes_in_bulk}");
    home.assert_restores_all(&[MAIN]);
    let (size, size_in_bulk) = (size(&home), size(&bulk));
    assert!(size * 4 <= size_in_bulk * 5, "{size} bytes, in bulk {size_in_bulk}");
    home.assert_rebuilds();
}

#[test]
fn small_chunks_are_merged() {
    let home = Home::quick();
    home.write(MAIN, "");
    for number in 0..40 {
        home.append(MAIN, lines(number * 10..number * 10 + 10));
        home.sync();
        leave_alone(&home);
        assert_eq!(home.one::<i64>("SELECT count(*) FROM pending"), 0);
        assert_eq!(home.one::<i64>("SELECT count(*) FROM chunks"), 1, "after {number} rounds");
    }
    home.assert_restores_all(&[MAIN]);
    home.assert_sound();
    home.assert_rebuilds();
}

/// Records of several files and of the journal stay in few chunks.
#[test]
fn chunks_of_several_sources_are_merged() {
    let home = Home::quick();
    let other = MAIN.replace(SESSION, &uuid(9));
    home.write(MAIN, "");
    home.write(&other, "");
    for number in 0..20 {
        home.append(MAIN, lines(number * 10..number * 10 + 10));
        home.append(&other, lines(5000 + number * 10..5010 + number * 10));
        if number % 5 == 4 {
            home.replace(&other, lines(5000..5000 + number));
        }
        home.sync();
        leave_alone(&home);
    }
    let chunks: i64 = home.one("SELECT count(*) FROM chunks");
    assert!(chunks <= 3, "{chunks} chunks");
    home.assert_restores_all(&[MAIN, &other]);
    home.assert_sound();
    home.assert_rebuilds();
}

// --- Damage -------------------------------------------------------------------------------------

/// Restores everything, or returns an error. It must never restore wrong bytes.
fn try_restore(home: &Home) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let to = tempfile::tempdir_in(home.folder()).unwrap();
    let report = quipu_ledger::restore::restore(
        &home.open(),
        RestoreScope::All,
        to.path(),
        Generations::Newest,
    )?;
    match report.damaged_files.into_iter().next() {
        Some(damaged) => Err(Error::Damaged { what: damaged.reason }),
        None => Ok(files(to.path())),
    }
}

fn sealed() -> Home {
    let home = Home::quick();
    let mut prng = Prng::new(3);
    let text: String = (0..40).map(|number| long_line(&mut prng, number, 100)).collect();
    home.write(MAIN, text);
    home.sync();
    leave_alone(&home);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM chunks"), 1);
    home
}

#[test]
fn a_damaged_chunk_is_never_restored_as_other_bytes() {
    let home = sealed();
    let whole = try_restore(&home).unwrap();
    let conn = home.sql();
    let data: Vec<u8> = conn.query_row("SELECT data FROM chunks", [], |row| row.get(0)).unwrap();
    let mut silent = Vec::new();
    for at in (0..data.len()).step_by(data.len() / 60) {
        let mut damaged = data.clone();
        damaged[at] ^= 0x10;
        conn.execute("UPDATE chunks SET data = ?1", [damaged]).unwrap();
        match try_restore(&home) {
            Err(error) => assert_eq!(error.trouble(), Trouble::Damaged, "{error:?}"),
            Ok(files) if files == whole => {}
            Ok(_) => silent.push(at),
        }
    }
    assert!(
        silent.is_empty(),
        "wrong bytes were restored after flips at {silent:?} of {}",
        data.len()
    );
}

#[test]
fn a_cut_or_missing_chunk_is_an_error() {
    for change in [
        "UPDATE chunks SET data = substr(data, 1, length(data) / 2)",
        "UPDATE chunks SET data = x''",
        "UPDATE chunks SET raw_length = raw_length - 1",
        "DELETE FROM chunks",
    ] {
        let home = sealed();
        home.sql().execute(change, []).unwrap();
        let error = try_restore(&home).unwrap_err();
        assert_eq!(error.trouble(), Trouble::Damaged, "{change}: {error:?}");
    }
}

/// A file that cannot be restored completely is not left behind.
#[test]
fn a_partly_restored_file_is_removed() {
    let home = sealed();
    home.sql().execute("UPDATE chunks SET data = substr(data, 1, 100)", []).unwrap();
    let to = home.scratch("restored");
    let report =
        quipu_ledger::restore::restore(&home.open(), RestoreScope::All, &to, Generations::Newest)
            .unwrap();
    assert!(report.files == 0 && !report.damaged_files.is_empty());
    assert!(files(&to).is_empty());
}

#[test]
fn restore_never_overwrites() {
    let home = sealed();
    let to = home.scratch("restored");
    quipu_ledger::restore::restore(&home.open(), RestoreScope::All, &to, Generations::Newest)
        .unwrap();
    let mut before = files(&to);
    let again =
        quipu_ledger::restore::restore(&home.open(), RestoreScope::All, &to, Generations::Newest)
            .unwrap();
    assert_eq!(
        (again.files, again.existing_files, again.unwritten_files.len()),
        (0, before.len() as u64, 0)
    );
    assert_eq!(files(&to), before);
    // A file with one byte more, or another byte, belongs to a person and stays.
    let (path, bytes) = before.iter_mut().next().unwrap();
    for change in [|bytes: &mut Vec<u8>| bytes.push(b'x'), |bytes: &mut Vec<u8>| bytes[0] ^= 1] {
        change(bytes);
        std::fs::write(to.join(path), &*bytes).unwrap();
        let again = quipu_ledger::restore::restore(
            &home.open(),
            RestoreScope::All,
            &to,
            Generations::Newest,
        )
        .unwrap();
        assert_eq!(again.unwritten_files.len(), 1);
    }
    assert_eq!(files(&to), before);
}
