//! A home directory with agents' files, a ledger beside it, and the checks that every test ends
//! with: files are restored byte for byte, and a rebuild changes nothing.

mod asking;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use quipu_ledger::Ledger;
use quipu_ledger::collect::{RootPath, Selection};
use quipu_ledger::ids::SessionRow;
use quipu_ledger::restore::{Generations, RestoreScope};
use quipu_ledger::search::Fts5Access;
use quipu_ledger::wire::{ForgetReport, SyncReport};
use quipu_transcript::format::{FORMATS, Format};
use rusqlite::Connection;

pub(crate) use asking::{parse, request};

/// Returns the folder of a home in which a format's files are looked for first.
pub(crate) fn root_of(format: &dyn Format) -> &'static str {
    format.roots()[0].home[0]
}

/// A temporary home.
pub(crate) struct Home {
    folder: PathBuf,
    /// The access to the search index; detected unless set.
    fts5: Option<Fts5Access>,
    /// Removes the folder at the end.
    _temporary: Option<tempfile::TempDir>,
}

impl Home {
    pub(crate) fn new() -> Home {
        Home::within(tempfile::tempdir().unwrap())
    }

    /// Creates a home in memory where the system has one, for tests that sync thousands of times.
    pub(crate) fn quick() -> Home {
        match tempfile::tempdir_in("/dev/shm") {
            Ok(folder) => Home::within(folder),
            Err(_) => Home::new(),
        }
    }

    fn within(folder: tempfile::TempDir) -> Home {
        Home { folder: folder.path().to_owned(), fts5: None, _temporary: Some(folder) }
    }

    /// Reads and writes the search index in this way from now on.
    pub(crate) fn with_fts5(mut self, access: Fts5Access) -> Home {
        self.fts5 = Some(access);
        self
    }

    /// Opens the home of another process.
    pub(crate) fn of(folder: impl Into<PathBuf>) -> Home {
        Home { folder: folder.into(), fts5: None, _temporary: None }
    }

    /// Returns the folder of the home and its ledger.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.folder.join("home").join(relative)
    }

    pub(crate) fn ledger_path(&self) -> PathBuf {
        self.folder.join("data/ledger.db")
    }

    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A home with the fixtures of every format.
    pub(crate) fn with_fixtures() -> Home {
        let home = Home::new();
        home.copy_fixtures();
        home
    }

    /// Copies the fixtures of every format to where its files are looked for.
    pub(crate) fn copy_fixtures(&self) {
        for format in FORMATS {
            copy(&fixtures(format.name()), &self.path(root_of(*format)));
        }
    }

    pub(crate) fn roots(&self) -> Vec<RootPath> {
        FORMATS
            .iter()
            .map(|format| RootPath {
                format: *format,
                path: self.path(root_of(*format)),
                selection: Selection::default(),
                retention: Default::default(),
            })
            .collect()
    }

    pub(crate) fn write(&self, relative: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Creates the folder of a path.
    pub(crate) fn folder_for(&self, relative: &str) {
        fs::create_dir_all(self.path(relative).parent().unwrap()).unwrap();
    }

    pub(crate) fn append(&self, relative: &str, bytes: impl AsRef<[u8]>) {
        let mut file = fs::OpenOptions::new().append(true).open(self.path(relative)).unwrap();
        file.write_all(bytes.as_ref()).unwrap();
    }

    /// Replaces a file by rename, as editors and agents do.
    pub(crate) fn replace(&self, relative: &str, bytes: impl AsRef<[u8]>) {
        let staged = self.path(&format!("{relative}.staged-by-test"));
        fs::write(&staged, bytes).unwrap();
        fs::rename(staged, self.path(relative)).unwrap();
    }

    pub(crate) fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    pub(crate) fn remove(&self, relative: &str) {
        fs::remove_file(self.path(relative)).unwrap();
    }

    /// Returns the row of a session, of whatever agent.
    pub(crate) fn find(&self, name: &str) -> quipu_ledger::Result<SessionRow> {
        quipu_ledger::query::find_session(&self.open(), name)
    }

    pub(crate) fn row(&self, name: &str) -> SessionRow {
        self.find(name).unwrap()
    }

    pub(crate) fn open(&self) -> Ledger {
        let mut ledger = Ledger::open(&self.ledger_path()).unwrap();
        self.force_fts5(&mut ledger);
        ledger
    }

    fn force_fts5(&self, ledger: &mut Ledger) {
        if let Some(access) = self.fts5 {
            ledger.force_fts5_access(access);
        }
    }

    #[track_caller]
    pub(crate) fn sync(&self) -> SyncReport {
        self.sync_selected(Selection::default())
    }

    /// Collects only what is selected.
    #[track_caller]
    pub(crate) fn sync_selected(&self, selection: Selection) -> SyncReport {
        let mut roots = self.roots();
        roots.iter_mut().for_each(|root| root.selection = selection);
        let mut ledger = Ledger::open_to_collect(&self.ledger_path()).unwrap();
        self.force_fts5(&mut ledger);
        quipu_ledger::collect::collect(&mut ledger, &roots, &mut |_| {}).unwrap()
    }

    #[track_caller]
    pub(crate) fn forget(&self, name: &str) -> ForgetReport {
        quipu_ledger::forget::forget(&mut self.open(), name, &mut |_, _| {}).unwrap()
    }

    /// Opens a plain connection, like a person with `sqlite3`.
    pub(crate) fn sql(&self) -> Connection {
        let conn = Connection::open(self.ledger_path()).unwrap();
        // As the ledger's own connections: tests write rows in any order, and damage some.
        conn.pragma_update(None, "foreign_keys", false).unwrap();
        conn
    }

    #[track_caller]
    pub(crate) fn one<T: rusqlite::types::FromSql>(&self, query: &str) -> T {
        self.sql().query_row(query, [], |row| row.get(0)).unwrap()
    }

    #[track_caller]
    pub(crate) fn all(&self, query: &str) -> Vec<String> {
        rows(&self.sql(), query)
    }

    #[track_caller]
    pub(crate) fn all_blobs(&self, query: &str) -> Vec<Vec<u8>> {
        let conn = self.sql();
        let mut statement = conn.prepare(query).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    }

    /// Counts the entries with a word.
    #[track_caller]
    pub(crate) fn hits(&self, word: &str) -> i64 {
        self.sql()
            .query_row(
                "SELECT count(*) FROM search WHERE search MATCH ?1",
                [format!("\"{word}\"")],
                |row| row.get(0),
            )
            .unwrap()
    }

    #[track_caller]
    pub(crate) fn problems(&self) -> BTreeMap<String, i64> {
        let conn = self.sql();
        let mut statement =
            conn.prepare("SELECT kind, count(*) FROM problems GROUP BY kind").unwrap();
        statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap()
    }

    /// Restores everything and returns it by path.
    #[track_caller]
    pub(crate) fn restored(&self, generations: Generations) -> BTreeMap<String, Vec<u8>> {
        let to = tempfile::tempdir_in(&self.folder).unwrap();
        let report =
            quipu_ledger::restore::restore(&self.open(), RestoreScope::All, to.path(), generations);
        assert!(report.unwrap().unwritten_files.is_empty());
        files(to.path())
    }

    /// Asserts that the newest generation of every collected file equals the file on disk.
    #[track_caller]
    pub(crate) fn assert_restores(&self) {
        let restored = self.restored(Generations::Newest);
        for format in FORMATS {
            let root = self.path(root_of(*format));
            let folder = format!("{}/", format.name());
            for (path, bytes) in &restored {
                let Some(relative) = path.strip_prefix(&folder) else { continue };
                if let Ok(on_disk) = fs::read(root.join(relative)) {
                    assert!(
                        on_disk == *bytes,
                        "{path} differs: {} and {} bytes",
                        on_disk.len(),
                        bytes.len()
                    );
                }
            }
        }
    }

    /// Asserts that every file with these names on disk is restored.
    #[track_caller]
    pub(crate) fn assert_restores_all(&self, relative: &[&str]) {
        self.assert_restores();
        let restored = self.restored(Generations::Newest);
        for path in relative {
            let expected = fs::read(self.path(path)).unwrap();
            let name =
                path.replacen(".claude/", "claude-code/", 1).replacen(".openclaw/", "openclaw/", 1);
            let found = restored.get(&name);
            assert!(found == Some(&expected), "{path} was not restored");
        }
    }

    /// Asserts that a rebuild gives the same rows.
    #[track_caller]
    pub(crate) fn assert_rebuilds(&self) {
        let before = self.projection();
        quipu_ledger::rebuild::rebuild(&mut self.open(), &mut |_, _| {}).unwrap();
        let after = self.projection();
        assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
        for (table, rows) in before {
            assert_eq!(rows, after[&table], "{table} differs after a rebuild");
        }
    }

    /// Asserts what holds for every ledger at any time: SQLite and the search index are sound, and
    /// the records of each generation fill its spans without a gap or an overlap.
    #[track_caller]
    pub(crate) fn assert_sound(&self) {
        let conn = self.sql();
        assert_eq!(rows(&conn, "PRAGMA integrity_check"), ["'ok'"]);
        assert!(rows(&conn, "PRAGMA foreign_key_check").is_empty());
        conn.execute("INSERT INTO search (search) VALUES ('integrity-check')", []).unwrap();
        let responses =
            "SELECT session, model, is_fast, cost_usd IS NOT NULL, count(*), sum(input_tokens),
                            sum(output_tokens), sum(cache_read_tokens), sum(cache_write_tokens), sum(cache_write_1h_tokens)
                       FROM usage WHERE is_counted GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4";
        let sums = "SELECT session, model, is_fast, is_recorded, sum(responses), sum(input),
                           sum(output), sum(cache_read), sum(cache_write), sum(cache_write_1h)
                      FROM usage_quarters GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4";
        assert_eq!(
            rows(&conn, responses),
            rows(&conn, sums),
            "the rollup differs from the usage rows"
        );
        for generation in self.generations_without_bytes(&conn) {
            let mut end = 0;
            for (start, length) in &generation.spans {
                assert_eq!(
                    *start, end,
                    "a gap in {} generation {}",
                    generation.path, generation.number
                );
                end += length;
            }
            assert_eq!(
                end, generation.cursor,
                "spans of {} generation {}",
                generation.path, generation.number
            );
            let own: u64 = generation.records.iter().map(|(_, length)| length).sum();
            assert_eq!(
                own, generation.own,
                "records of {} generation {}",
                generation.path, generation.number
            );
            for pair in generation.records.windows(2) {
                assert!(
                    pair[0].0 + pair[0].1 <= pair[1].0,
                    "records of {} overlap",
                    generation.path
                );
            }
        }
        let double: i64 = conn
            .query_row(
                "SELECT count(*) FROM (SELECT 1 FROM records GROUP BY generation, start HAVING count(*) > 1)",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(double, 0, "a record is stored twice");
    }

    /// Returns every generation of every collected file, with its bytes.
    #[track_caller]
    pub(crate) fn generations(&self) -> Vec<Generation> {
        let mut restored = self.restored(Generations::All);
        let mut generations = self.generations_without_bytes(&self.sql());
        for generation in &mut generations {
            let newest = format!("{}/{}", generation.format, generation.path);
            let name = match generation.is_newest {
                true => newest,
                false => format!("{newest}.generation-{}", generation.number),
            };
            generation.bytes =
                restored.remove(&name).unwrap_or_else(|| panic!("{name} is not restored"));
        }
        generations
    }

    fn generations_without_bytes(&self, conn: &Connection) -> Vec<Generation> {
        let pairs = |query: &str, generation: i64| -> Vec<(u64, u64)> {
            conn.prepare_cached(query)
                .unwrap()
                .query_map([generation], |row| {
                    Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64))
                })
                .unwrap()
                .collect::<Result<_, _>>()
                .unwrap()
        };
        let mut statement = conn
            .prepare(
                "SELECT g.id, s.id, g.number, g.began, s.format, s.path, g.id = s.generation, g.cursor
                   FROM sources s JOIN generations g ON g.source = s.id
                  WHERE s.refused IS NULL
                    AND (s.kind = 'file' OR s.kind = 'rows' AND g.cursor > 0)
                  ORDER BY s.id, g.number",
            )
            .unwrap();
        statement
            .query_map([], |row| {
                let generation: i64 = row.get(0)?;
                let all = "SELECT start, length FROM spans WHERE generation = ?1 ORDER BY start";
                let own = "SELECT start, length FROM spans
                            WHERE generation = ?1 AND first_seq IS NOT NULL ORDER BY start";
                let records =
                    "SELECT start, length FROM records WHERE generation = ?1 ORDER BY start";
                Ok(Generation {
                    source: row.get(1)?,
                    number: row.get(2)?,
                    began: row.get(3)?,
                    format: row.get(4)?,
                    path: String::from_utf8_lossy(&row.get::<_, Vec<u8>>(5)?).into_owned(),
                    is_newest: row.get(6)?,
                    cursor: row.get::<_, i64>(7)? as u64,
                    spans: pairs(all, generation),
                    own: pairs(own, generation).iter().map(|(_, length)| length).sum(),
                    records: pairs(records, generation),
                    bytes: Vec::new(),
                })
            })
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap()
    }

    /// Syncs, and runs all checks that hold for any home.
    #[track_caller]
    pub(crate) fn sync_and_check(&self) -> SyncReport {
        let report = self.sync();
        self.assert_sound();
        self.assert_restores();
        self.assert_rebuilds();
        report
    }

    /// Returns the bytes of the ledger and of all files beside it.
    pub(crate) fn ledger_bytes(&self) -> BTreeMap<String, Vec<u8>> {
        files(self.ledger_path().parent().unwrap())
    }

    /// Returns every row of every projection table, and every word of the search index.
    pub(crate) fn projection(&self) -> BTreeMap<String, Vec<String>> {
        let conn = self.sql();
        conn.execute_batch(
            "CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, search, instance)",
        )
        .unwrap();
        let truth = [
            "ledger",
            "sources",
            "source_paths",
            "generations",
            "tails",
            "spans",
            "records",
            "pending",
            "chunks",
            "forgotten",
            "indexes",
            "row_cursors",
            "record_rows",
            "damaged",
            "damaged_bytes",
            "unread",
        ];
        let names = rows(
            &conn,
            "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'search%'
                AND name NOT LIKE 'sqlite%'",
        );
        let mut tables = BTreeMap::new();
        for name in names {
            let name = name.trim_matches('\'').to_owned();
            if !truth.contains(&name.as_str()) {
                tables.insert(name.clone(), rows(&conn, &format!("SELECT * FROM {name}")));
            }
        }
        tables.insert("search words".to_owned(), rows(&conn, "SELECT * FROM temp.words"));
        tables
    }
}

/// A generation of a collected file.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) source: i64,
    pub(crate) number: i64,
    pub(crate) began: String,
    pub(crate) format: String,
    /// The path relative to its root.
    pub(crate) path: String,
    pub(crate) is_newest: bool,
    pub(crate) cursor: u64,
    /// Start and length of each span.
    spans: Vec<(u64, u64)>,
    /// The number of bytes in spans of own records.
    own: u64,
    /// Start and length of its own records.
    pub(crate) records: Vec<(u64, u64)>,
    pub(crate) bytes: Vec<u8>,
}

impl Generation {
    /// Returns the bytes of its own records.
    pub(crate) fn own_records(&self) -> impl Iterator<Item = &[u8]> {
        self.records
            .iter()
            .map(|(start, length)| &self.bytes[*start as usize..][..*length as usize])
    }
}

/// Returns the complete lines of a file.
pub(crate) fn complete_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"))
}

/// Returns the rows of a query, sorted, each as text.
pub(crate) fn rows(conn: &Connection, query: &str) -> Vec<String> {
    let mut statement = conn.prepare(query).unwrap();
    let columns = statement.column_count();
    let mut found: Vec<String> = statement
        .query_map([], |row| {
            let values: Vec<String> = (0..columns)
                .map(|index| match row.get_ref(index).unwrap() {
                    rusqlite::types::ValueRef::Text(text) => {
                        format!("'{}'", String::from_utf8_lossy(text))
                    }
                    rusqlite::types::ValueRef::Blob(blob) => format!("x{blob:02x?}"),
                    rusqlite::types::ValueRef::Null => "NULL".to_owned(),
                    rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                    rusqlite::types::ValueRef::Real(number) => number.to_string(),
                })
                .collect();
            Ok(values.join("|"))
        })
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    found.sort();
    found
}

/// Returns every file below a folder, by relative path.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

/// Copies a folder.
pub(crate) fn copy(from: &Path, to: &Path) {
    for (path, bytes) in files(from) {
        let target = to.join(path);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(target, bytes).unwrap();
    }
}

/// Returns the folder of a format's fixtures, laid out as a root.
pub(crate) fn fixtures(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../transcript/fixtures").join(format)
}

/// Returns a Claude Code line of a user or assistant.
pub(crate) fn line(role: &str, uuid: &str, parent: Option<&str>, text: &str) -> String {
    let content = match role {
        "assistant" => format!("[{{\"type\":\"text\",\"text\":\"{text}\"}}]"),
        _ => format!("\"{text}\""),
    };
    line_of(role, uuid, parent, &content)
}

/// Returns a Claude Code line with any content, as JSON.
pub(crate) fn line_of(role: &str, uuid: &str, parent: Option<&str>, content: &str) -> String {
    let parent = parent.map_or("null".to_owned(), |parent| format!("\"{parent}\""));
    format!(
        "{{\"parentUuid\":{parent},\"isSidechain\":false,\"cwd\":\"/home/alice/shop\",\"sessionId\":\"{SESSION}\",\
         \"version\":\"2.1.0\",\"type\":\"{role}\",\"message\":{{\"role\":\"{role}\",\"content\":{content}}},\
         \"uuid\":\"{uuid}\",\"timestamp\":\"2026-01-12T10:30:00.000Z\"}}\n"
    )
}

/// Returns a home with a collected session of these lines.
pub(crate) fn of_lines(lines: &[String]) -> Home {
    let home = Home::quick();
    home.write(MAIN, lines.concat());
    home.sync();
    home
}

/// The session of [`line`].
pub(crate) const SESSION: &str = "640ab4c7-d010-4b20-a591-b7172ef08e66";

/// The file of [`line`]s.
pub(crate) const MAIN: &str =
    ".claude/projects/-home-alice-shop/640ab4c7-d010-4b20-a591-b7172ef08e66.jsonl";

/// Returns a UUID made from a number.
pub(crate) fn uuid(number: u32) -> String {
    format!("{number:08x}-0000-4000-8000-000000000000")
}

/// Returns the configuration of a property test: `cases` cases that are the same in every run or,
/// if `PROPTEST_CASES` is set, that number of random ones.
pub(crate) fn few_cases(cases: u32) -> proptest::test_runner::Config {
    use proptest::test_runner::{Config, RngSeed};
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => Config { failure_persistence: None, ..Config::default() },
        None => {
            let rng_seed = RngSeed::Fixed(1);
            Config { cases, rng_seed, failure_persistence: None, ..Config::default() }
        }
    }
}
