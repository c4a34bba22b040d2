//! A home directory with agents' files in it, a ledger beside it, and the checks that every test
//! ends with: files come back byte for byte, and rebuilding changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use quipu_ledger::wire::SyncReport;
use quipu_ledger::{Generations, Ledger, RootPath, What};
use quipu_transcript::format;
use rusqlite::Connection;

/// A temporary home.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Home {
        Home { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join("home").join(relative)
    }

    pub(crate) fn ledger_path(&self) -> PathBuf {
        self.folder.path().join("data/ledger.db")
    }

    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn roots(&self) -> Vec<RootPath> {
        [("claude-code", ".claude"), ("openclaw", ".openclaw")]
            .into_iter()
            .map(|(name, folder)| RootPath {
                format: format::by_name(name).unwrap(),
                path: self.path(folder),
            })
            .collect()
    }

    pub(crate) fn write(&self, relative: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
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

    pub(crate) fn open(&self) -> Ledger {
        Ledger::open(&self.ledger_path()).unwrap()
    }

    #[track_caller]
    pub(crate) fn sync(&self) -> SyncReport {
        quipu_ledger::collect(&mut self.open(), &self.roots(), &mut |_| {}).unwrap()
    }

    /// A plain connection, as a person with `sqlite3` has.
    pub(crate) fn sql(&self) -> Connection {
        Connection::open(self.ledger_path()).unwrap()
    }

    #[track_caller]
    pub(crate) fn one<T: rusqlite::types::FromSql>(&self, query: &str) -> T {
        self.sql().query_row(query, [], |row| row.get(0)).unwrap()
    }

    #[track_caller]
    pub(crate) fn all(&self, query: &str) -> Vec<String> {
        rows(&self.sql(), query)
    }

    /// Number of entries that hold a word.
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

    /// Gives everything back and returns it by path.
    #[track_caller]
    pub(crate) fn restored(&self, generations: Generations) -> BTreeMap<String, Vec<u8>> {
        let to = tempfile::tempdir_in(self.folder.path()).unwrap();
        quipu_ledger::restore(&self.open(), What::All, to.path(), generations).unwrap();
        files(to.path())
    }

    /// Checks that the newest generation of every followed file is what is on disk.
    #[track_caller]
    pub(crate) fn assert_restores(&self) {
        let restored = self.restored(Generations::Newest);
        for (format, folder) in [("claude-code", ".claude"), ("openclaw", ".openclaw")] {
            let root = self.path(folder);
            for (path, bytes) in &restored {
                let Some(relative) = path.strip_prefix(&format!("{format}/")) else { continue };
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

    /// Checks that every file of that name on disk comes back.
    #[track_caller]
    pub(crate) fn assert_restores_all(&self, relative: &[&str]) {
        self.assert_restores();
        let restored = self.restored(Generations::Newest);
        for path in relative {
            let expected = fs::read(self.path(path)).unwrap();
            let name =
                path.replacen(".claude/", "claude-code/", 1).replacen(".openclaw/", "openclaw/", 1);
            let found = restored.get(&name);
            assert!(found == Some(&expected), "{path} did not come back");
        }
    }

    /// Checks that deriving the projection again gives the same rows.
    #[track_caller]
    pub(crate) fn assert_rebuilds(&self) {
        let before = self.projection();
        quipu_ledger::rebuild(&mut self.open(), &mut |_, _| {}).unwrap();
        let after = self.projection();
        assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
        for (table, rows) in before {
            assert_eq!(rows, after[&table], "{table} differs after a rebuild");
        }
    }

    /// Every row of every projection table, and every word of the search index.
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

/// The rows of a query, sorted, each as text.
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

/// Every file below a folder, by relative path.
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

/// The fixtures of a format, laid out as a root.
pub(crate) fn fixtures(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../transcript/fixtures").join(format)
}

/// A Claude Code line of a user or assistant.
pub(crate) fn line(role: &str, uuid: &str, parent: Option<&str>, text: &str) -> String {
    let parent = parent.map_or("null".to_owned(), |parent| format!("\"{parent}\""));
    let content = match role {
        "assistant" => format!("[{{\"type\":\"text\",\"text\":\"{text}\"}}]"),
        _ => format!("\"{text}\""),
    };
    format!(
        "{{\"parentUuid\":{parent},\"isSidechain\":false,\"cwd\":\"/home/alice/shop\",\"sessionId\":\"{SESSION}\",\
         \"version\":\"2.1.0\",\"type\":\"{role}\",\"message\":{{\"role\":\"{role}\",\"content\":{content}}},\
         \"uuid\":\"{uuid}\",\"timestamp\":\"2026-01-12T10:30:00.000Z\"}}\n"
    )
}

/// The session of [`line`].
pub(crate) const SESSION: &str = "640ab4c7-d010-4b20-a591-b7172ef08e66";

/// Where [`line`]s belong.
pub(crate) const MAIN: &str =
    ".claude/projects/-home-alice-shop/640ab4c7-d010-4b20-a591-b7172ef08e66.jsonl";

/// A UUID made from a number.
pub(crate) fn uuid(number: u32) -> String {
    format!("{number:08x}-0000-4000-8000-000000000000")
}
