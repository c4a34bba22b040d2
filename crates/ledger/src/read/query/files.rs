//! The files that calls of tools read and changed.
//!
//! Reads rows only, never a record. Calls of a shell are not looked into: their commands may name
//! files, but nothing says which.

use std::collections::{BTreeSet, HashMap, HashSet};

use quipu_transcript::story::changes_file;
use rusqlite::{Connection, OptionalExtension};

use super::listed::{self, Listed};
use super::prompts::{MAX_PROMPT_CHARS, newest_version};
use super::sessions::title;
use super::story;
use crate::Result;
use crate::base::ids::{EntryId, SessionRow};
use crate::file::ledger::Ledger;
use crate::read::query::complete::complete;
use crate::wire::{FileUse, TouchedFile};

/// The conditions for calls.
#[derive(Debug, Clone, Default)]
pub struct FileFilter {
    /// The sessions of the calls; sub-agents need [`super::Filter::all`].
    pub sessions: super::Filter,
    /// The earliest time of a call, milliseconds UTC.
    pub since: Option<i64>,
    /// The time before which a call must be, milliseconds UTC.
    pub until: Option<i64>,
    /// True if only calls that changed a file count.
    pub changed: bool,
}

/// Returns the files that calls read or changed, the one with the newest call first.
///
/// ```
/// use quipu_ledger::query::{FileFilter, files};
///
/// # let folder = tempfile::tempdir()?;
/// # let store = quipu_ledger::Store::open(folder.path().join("ledger.db"))?;
/// # store.session_or_new("agent:main:main")?.append(quipu_ledger::Entry::user("hello"))?;
/// assert_eq!(files(&store.reader()?, &FileFilter::default())?, []);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn files(ledger: &Ledger, filter: &FileFilter) -> Result<Vec<TouchedFile>> {
    complete(ledger, &mut |conn| {
        let sessions = sessions(conn, filter)?;
        let mut found: HashMap<String, FileSums> = HashMap::new();
        each_call(conn, &sessions, filter, &mut |call| {
            found.entry(call.path).or_default().add(call.session, call.turn, &call.of);
        })?;
        let mut files: Vec<TouchedFile> =
            found.into_iter().map(|(path, sums)| sums.finish(path)).collect();
        files.sort_by(|one, other| {
            other.last_at.cmp(&one.last_at).then_with(|| one.path.cmp(&other.path))
        });
        Ok(files)
    })
}

/// Returns what turns did to a file, the newest first. `path` is the file's path, or its end, or a
/// folder, or a part of the path: the first of these that fits any file.
pub fn file_uses(ledger: &Ledger, path: &str, filter: &FileFilter) -> Result<Vec<FileUse>> {
    complete(ledger, &mut |conn| uses(conn, path, filter))
}

fn uses(conn: &Connection, path: &str, filter: &FileFilter) -> Result<Vec<FileUse>> {
    let sessions = sessions(conn, filter)?;
    let wanted = path.trim_end_matches('/').to_lowercase();
    let mut found: [HashMap<Use, UseSums>; FITS.len()] = Default::default();
    each_call(conn, &sessions, filter, &mut |call| {
        let lower = call.path.to_lowercase();
        let fit = FITS.iter().position(|fits| fits(&lower, &wanted));
        if let Some(found) = fit.and_then(|fit| found.get_mut(fit)) {
            let key = Use { path: call.path, session: call.session, turn: call.turn };
            found.entry(key).or_default().add(call.tool, call.entry, &call.of);
        }
    })?;
    let found = found.into_iter().find(|found| !found.is_empty()).unwrap_or_default();
    let mut found: Vec<(Use, UseSums)> = found.into_iter().collect();
    found.sort_by(|(one, sums), (other, other_sums)| {
        let newest = other_sums.of.last_at.cmp(&sums.of.last_at);
        newest.then(other_sums.entry.cmp(&sums.entry)).then_with(|| one.path.cmp(&other.path))
    });
    let mut described = Sessions { conn, listed: &sessions, turns: HashMap::new() };
    found.into_iter().map(|(key, sums)| described.describe(key, sums)).collect()
}

/// A test whether a path is meant; both in lower case.
type Fit = fn(&str, &str) -> bool;

/// The tests, the closest first.
const FITS: [Fit; 4] = [is_path, is_end, is_folder, is_part];

fn is_path(path: &str, wanted: &str) -> bool {
    path == wanted
}

fn is_end(path: &str, wanted: &str) -> bool {
    path.strip_suffix(wanted).is_some_and(|before| before.ends_with('/'))
}

fn is_folder(path: &str, wanted: &str) -> bool {
    let starts = |rest: &str| rest.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('/'));
    !wanted.is_empty()
        && (starts(path) || path.match_indices('/').any(|(at, _)| starts(&path[at + 1..])))
}

fn is_part(path: &str, wanted: &str) -> bool {
    !wanted.is_empty() && path.contains(wanted)
}

fn sessions(conn: &Connection, filter: &FileFilter) -> Result<HashMap<SessionRow, Listed>> {
    let listed = listed::filtered(conn, &filter.sessions)?;
    Ok(listed.into_iter().map(|session| (session.row, session)).collect())
}

/// A call that reads or changes a file.
struct Call {
    session: SessionRow,
    path: String,
    tool: String,
    entry: EntryId,
    turn: Option<EntryId>,
    of: Sums,
}

/// Passes each call that reads or changes a file to `each`.
fn each_call(
    conn: &Connection,
    sessions: &HashMap<SessionRow, Listed>,
    filter: &FileFilter,
    each: &mut dyn FnMut(Call),
) -> Result<()> {
    // A few dozen tools have millions of calls.
    let mut names = conn.prepare_cached("SELECT id, name FROM tools")?;
    let mut tools: HashMap<i64, (String, bool)> = HashMap::new();
    let mut rows = names.query([])?;
    while let Some(row) = rows.next()? {
        let name: String = row.get(1)?;
        if let Some(changes) = changes_file(&name)
            && (changes || !filter.changed)
        {
            tools.insert(row.get(0)?, (name, changes));
        }
    }
    let mut statement = conn.prepare_cached(
        "SELECT c.tool, c.session, c.entry, e.turn, e.time, coalesce(c.is_error, 0),
                iif(typeof(c.target) = 'integer', (SELECT text FROM targets WHERE id = c.target), c.target)
           FROM tool_call_rows c CROSS JOIN entry_rows e ON e.id = c.entry
          WHERE c.target IS NOT NULL AND e.superseded_by IS NULL
            AND (?1 IS NULL OR e.time >= ?1) AND (?2 IS NULL OR e.time < ?2)",
    )?;
    let mut rows = statement.query((filter.since, filter.until))?;
    while let Some(row) = rows.next()? {
        let Some((tool, changes)) = tools.get(&row.get(0)?) else { continue };
        let session: SessionRow = row.get(1)?;
        let (Some(listed), Ok(path)) = (sessions.get(&session), row.get_ref(6)?.as_str()) else {
            continue;
        };
        let is_error: bool = row.get(5)?;
        if path.is_empty() || (filter.changed && is_error) {
            continue;
        }
        let time: Option<i64> = row.get(4)?;
        each(Call {
            session,
            path: whole(path, listed.path.as_deref()),
            tool: tool.clone(),
            entry: row.get(2)?,
            turn: row.get(3)?,
            of: Sums {
                calls: 1,
                changes: u64::from(*changes && !is_error),
                first_at: time,
                last_at: time,
            },
        });
    }
    Ok(())
}

/// Returns a path that does not depend on the folder of its session, without `.` and `..`.
fn whole(path: &str, folder: Option<&str>) -> String {
    let is_whole = path.starts_with(['/', '~', '\\']) || path.get(1..2) == Some(":");
    let Some(folder) = folder.filter(|folder| !is_whole && folder.starts_with('/')) else {
        return path.to_owned();
    };
    let mut names: Vec<&str> = folder.split('/').filter(|name| !name.is_empty()).collect();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}

/// The numbers of calls, and their times.
#[derive(Debug, Default)]
struct Sums {
    calls: u64,
    changes: u64,
    first_at: Option<i64>,
    last_at: Option<i64>,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        self.calls += other.calls;
        self.changes += other.changes;
        self.first_at = [self.first_at, other.first_at].into_iter().flatten().min();
        self.last_at = self.last_at.max(other.last_at);
    }
}

#[derive(Default)]
struct FileSums {
    sessions: HashSet<SessionRow>,
    turns: HashSet<EntryId>,
    of: Sums,
}

impl FileSums {
    fn add(&mut self, session: SessionRow, turn: Option<EntryId>, of: &Sums) {
        self.sessions.insert(session);
        self.turns.extend(turn);
        self.of.add(of);
    }

    fn finish(self, path: String) -> TouchedFile {
        TouchedFile {
            path,
            sessions: self.sessions.len() as u64,
            turns: self.turns.len() as u64,
            tool_calls: self.of.calls,
            edits: self.of.changes,
            first_at: self.of.first_at,
            last_at: self.of.last_at,
        }
    }
}

/// One file in one turn.
#[derive(PartialEq, Eq, Hash)]
struct Use {
    path: String,
    session: SessionRow,
    turn: Option<EntryId>,
}

#[derive(Default)]
struct UseSums {
    tools: BTreeSet<String>,
    entry: Option<EntryId>,
    of: Sums,
}

impl UseSums {
    fn add(&mut self, tool: String, entry: EntryId, of: &Sums) {
        self.tools.insert(tool);
        self.entry = self.entry.max(Some(entry));
        self.of.add(of);
    }
}

/// Describes sessions and their turns.
struct Sessions<'c> {
    conn: &'c Connection,
    listed: &'c HashMap<SessionRow, Listed>,
    turns: HashMap<SessionRow, HashMap<EntryId, u64>>,
}

impl Sessions<'_> {
    fn describe(&mut self, key: Use, sums: UseSums) -> Result<FileUse> {
        let conn = self.conn;
        let (session_id, parent_session_id) = conn
            .prepare_cached("SELECT session_id, parent_session_id FROM sessions WHERE id = ?1")?
            .query_row([key.session], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let listed = self.listed.get(&key.session);
        let named = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
        Ok(FileUse {
            path: key.path,
            session_id,
            format: listed.map(|session| session.format.clone()).unwrap_or_default(),
            agent: listed.and_then(|session| named(&session.agent)),
            project: listed.and_then(|session| named(session.project())),
            title: title(conn, key.session)?,
            parent_session_id,
            turn_number: match key.turn {
                Some(turn) => self.turn_number(key.session, turn)?,
                None => None,
            },
            prompt: key.turn.map(|turn| prompt(conn, turn)).transpose()?.flatten(),
            entry_id: sums
                .entry
                .map(|entry| story::name_of(conn, entry))
                .transpose()?
                .unwrap_or_default(),
            tools: sums.tools.into_iter().collect(),
            tool_calls: sums.of.calls,
            edits: sums.of.changes,
            time: sums.of.last_at,
        })
    }

    fn turn_number(&mut self, session: SessionRow, turn: EntryId) -> Result<Option<u64>> {
        if !self.turns.contains_key(&session) {
            let turns = story::shown_turns(self.conn, session)?.into_iter().zip(1..).collect();
            self.turns.insert(session, turns);
        }
        Ok(self.turns.get(&session).and_then(|turns| turns.get(&turn)).copied())
    }
}

/// Returns the beginning of a turn's prompt.
fn prompt(conn: &Connection, turn: EntryId) -> Result<Option<String>> {
    let text: Option<String> = conn
        .prepare_cached("SELECT text FROM message_texts WHERE id = ?1")?
        .query_row([newest_version(conn, turn)?], |row| row.get(0))
        .optional()?;
    Ok(text.map(|text| text.chars().take(MAX_PROMPT_CHARS).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_path_is_completed() {
        for (path, folder, expected) in [
            ("/etc/a", Some("/home/a"), "/etc/a"),
            ("~/a", Some("/home/a"), "~/a"),
            ("src/a.rs", Some("/home/a/"), "/home/a/src/a.rs"),
            ("./../b//c/.", Some("/home/a"), "/home/b/c"),
            ("../../../a", Some("/home"), "/a"),
            ("src/a.rs", None, "src/a.rs"),
            ("C:\\a", Some("/home"), "C:\\a"),
        ] {
            assert_eq!(whole(path, folder), expected, "{path}");
        }
    }

    #[test]
    fn a_name_means_the_closest_paths() {
        let fit = |path: &str, wanted: &str| FITS.iter().position(|fits| fits(path, wanted));
        assert_eq!(fit("/shop/src/auth.ts", "/shop/src/auth.ts"), Some(0));
        assert_eq!(fit("/shop/src/auth.ts", "src/auth.ts"), Some(1));
        assert_eq!(fit("/shop/src/auth.ts", "shop/src"), Some(2));
        assert_eq!(fit("src/auth.ts", "src"), Some(2));
        assert_eq!(fit("/shop/src/auth.ts", "uth"), Some(3));
        assert_eq!(fit("/shop/src/auth.ts", "cart"), None);
        assert_eq!(fit("/shop/src/auth.ts", ""), None);
    }
}
