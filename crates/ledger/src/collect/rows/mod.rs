//! Collects the sessions in another program's SQLite file: one record per row.
//!
//! ```text
//! unchanged?   the stat of the file and of its log                  (nothing is opened)
//! open         without writing, locking or leaving anything there   open.rs, private.rs
//! tables       which of the tables and columns there are            tables.rs
//! sessions     how far each goes, by its key alone                  here
//! read         new rows, in short pages                             session.rs, archive.rs, event.rs
//! cut          rows → records → drafts → pieces                     cutting.rs
//! index        what is said about keys, as one document             index.rs
//! ```
//!
//! Each session is a source, under the path `<database>/<session>.jsonl`; so is each transcript that
//! was put aside in there. The database is a source too: it remembers what its files looked like.

mod archive;
mod cutting;
mod event;
mod index;
mod open;
mod private;
mod refusal;
mod session;
mod source;
mod tables;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use quipu_transcript::format::{Origin, Part};
use quipu_transcript::rows;
use rusqlite::Connection;

use super::Progress;
use super::batch::{Builder, RowCursor};
use super::discover::{Discovery, Found, Reason, RootPath, Skipped, absolute, path_bytes};
use super::index::IndexUpdate;
use super::known::{self, Known};
use super::plan::{Job, Kind, Plan, is_absent};
use super::read::Work;
use super::write::{self, Writer};
use crate::ledger::Ledger;
use crate::wire::SyncReport;
use crate::{Result, indexes};
use archive::Archive;
use open::{Database, Files};
use refusal::{Refusal, Stop, theirs};
use session::{Reading, Session};
pub(crate) use tables::NEWEST as NEWEST_SCHEMA;
use tables::Tables;

/// Takes the databases out of what was found.
pub(super) fn take(discovery: &mut Discovery) -> Vec<Found> {
    discovery.found.extract_if(.., |found| found.part == Part::Database).collect()
}

/// What a sync hands from one step to the next.
pub(super) struct Sync<'s> {
    pub(super) ledger: &'s mut Ledger,
    pub(super) roots: &'s [RootPath],
    pub(super) report: &'s mut SyncReport,
    pub(super) skipped: &'s mut Vec<Skipped>,
    pub(super) progress: &'s mut dyn FnMut(Progress),
}

impl Sync<'_> {
    /// Collects what is new in databases. Returns how many of their sessions have to be looked at
    /// again.
    pub(super) fn databases(&mut self, found: &[Found]) -> Result<usize> {
        let known = known::databases(self.ledger.conn())?;
        if found.is_empty() && known.is_empty() {
            return Ok(0);
        }
        if !found.is_empty() {
            private::sweep(self.ledger.path());
        }
        let mut dropped = 0;
        for database in found {
            let Some(root) = self.roots.get(database.root) else { continue };
            let root_bytes = path_bytes(&root.path);
            let known = known.iter().find(|known| {
                (known.format.as_str(), &known.root, &known.path)
                    == (root.format.name(), &root_bytes, &database.path)
            });
            dropped += self.database(database, known)?;
        }
        self.gone(&known)?;
        Ok(dropped)
    }

    /// Marks the sessions of databases that are no longer there.
    fn gone(&mut self, known: &[Known]) -> Result<()> {
        for known in known.iter().filter(|known| !known.is_gone) {
            let is_ours = self.roots.iter().any(|root| {
                root.format.name() == known.format && path_bytes(&root.path) == known.root
            });
            let path = absolute(Path::new(OsStr::from_bytes(&known.root)), &known.path);
            if !is_ours || !is_absent(&path) {
                continue;
            }
            let mut gone =
                known::in_database(self.ledger.conn(), &known.format, &known.root, &known.path)?;
            gone.retain(|known| !known.is_gone);
            gone.push(known.clone());
            self.changes(Plan { gone, ..Plan::default() })?;
        }
        Ok(())
    }

    fn changes(&mut self, plan: Plan) -> Result<()> {
        if plan.gone.is_empty() && plan.back.is_empty() {
            return Ok(());
        }
        self.report.gone += plan.gone.len() as u64;
        let mut writer = Writer::new(self.roots, &[]);
        self.ledger.write(|tx| {
            writer.begin(tx)?;
            writer.changes(tx, &plan)?;
            writer.end(tx)
        })?;
        self.report.add(&writer.written, writer.fold.problems);
        Ok(())
    }

    /// Collects what is new in one database.
    fn database(&mut self, found: &Found, known: Option<&Known>) -> Result<usize> {
        let Some(root) = self.roots.get(found.root) else { return Ok(0) };
        let path = absolute(&root.path, &found.path);
        let files = std::fs::canonicalize(&path).ok().and_then(|path| Files::look(&path));
        if let (Some(files), Some(known)) = (files, known)
            && !known.is_gone
            && (known.stat, known.marker) == (files.database, files.log_print())
        {
            let sessions = known.rows.as_ref().map_or(0, |rows| rows.rows);
            self.report.sources += sessions.cast_unsigned();
            if let Some(why) = &known.refused {
                self.skip(found, Refusal::lasting(why));
            }
            return Ok(0);
        }
        if let Some(known) = known.filter(|known| known.is_gone) {
            self.changes(Plan { back: vec![known.clone()], ..Plan::default() })?;
        }
        self.report.databases_opened += 1;
        let database = match Database::open(&root.path, &path, self.ledger.path()) {
            Ok(database) => database,
            Err(refusal) => return self.refuse(found, files, None, refusal).map(|()| 0),
        };
        match self.sessions(found, &database) {
            Ok((dropped, seen)) => {
                let refusal = seen.refusal.clone();
                if dropped > 0 {
                    return Ok(dropped);
                }
                match refusal {
                    Some(refusal) => {
                        self.refuse(found, Some(database.files), Some(seen), refusal)?
                    }
                    None => self.note(found, &database.files, &seen, None)?,
                }
                Ok(0)
            }
            Err(Stop::Theirs(refusal)) => {
                self.refuse(found, Some(database.files), None, refusal).map(|()| 0)
            }
            Err(Stop::Ours(error)) => Err(error),
        }
    }

    fn skip(&mut self, found: &Found, refusal: Refusal) {
        let reason = Reason::Unreadable(refusal.why);
        self.skipped.push(Skipped { root: found.root, path: found.path.clone(), reason });
    }

    /// Says why a database is not read, or not all of it; and remembers it if the same bytes would
    /// be refused again.
    fn refuse(
        &mut self,
        found: &Found,
        files: Option<Files>,
        seen: Option<Seen>,
        refusal: Refusal,
    ) -> Result<()> {
        self.skip(found, refusal.clone());
        match files.filter(|_| refusal.is_lasting) {
            Some(files) => self.note(found, &files, &seen.unwrap_or_default(), Some(&refusal.why)),
            None => Ok(()),
        }
    }

    /// Collects the sessions of an open database.
    fn sessions(&mut self, found: &Found, database: &Database) -> Result<(usize, Seen), Stop> {
        let tables = Tables::of(&database.conn).map_err(theirs)?;
        if let Some(missing) = tables.missing() {
            return Err(Refusal::lasting(missing).into());
        }
        let Some(root) = self.roots.get(found.root) else { return Ok((0, Seen::default())) };
        let root_bytes = path_bytes(&root.path);
        let format = root.format;
        let in_ledger: HashMap<Vec<u8>, Known> =
            known::in_database(self.ledger.conn(), format.name(), &root_bytes, &found.path)?
                .into_iter()
                .map(|known| (known.path.clone(), known))
                .collect();
        let agent = format.origin(&found.path).agent.unwrap_or_default();
        let forgotten = forgotten(self.ledger.conn(), format.name(), &agent)?;
        let mut work = work_of(database, &tables, found, format, &forgotten)?;
        if !database.is_as_it_was() {
            return Err(changed().into());
        }
        let mut seen = Seen {
            schema: tables.schema,
            sources: work.len() as i64,
            refusal: work.iter().find_map(|task| task.refusal.clone()),
            document: None,
        };
        work.retain(|task| task.refusal.is_none());
        self.report.sources += work.len() as u64;

        // Gone, back, and what has to be read.
        let paths: HashSet<&[u8]> = work.iter().map(|task| task.path.as_slice()).collect();
        let gone = in_ledger
            .values()
            .filter(|known| !known.is_gone && !paths.contains(known.path.as_slice()));
        let mut gone: Vec<Known> = gone.cloned().collect();
        gone.sort_by_key(|known| known.source);
        let back = work.iter().filter_map(|task| in_ledger.get(&task.path));
        let mut back: Vec<Known> = back.filter(|known| known.is_gone).cloned().collect();
        back.sort_by_key(|known| known.source);
        self.changes(Plan { gone, back, ..Plan::default() })?;
        let (mut jobs, mut tasks) = (Vec::new(), Vec::new());
        for task in work {
            let known = in_ledger.get(&task.path);
            if known.is_some_and(|known| task.is_done(known, &tables)) {
                continue;
            }
            jobs.push(Job {
                kind: Kind::Rows,
                root: found.root,
                root_path: root.path.clone(),
                path: task.path.clone(),
                absolute: absolute(&root.path, &found.path),
                is_probe: false,
                size: 0,
                known: known.cloned(),
            });
            tasks.push(task);
        }
        let mut dropped = 0;
        if !jobs.is_empty() {
            let refusal;
            (dropped, refusal) = self.run(database, &tables, found, &jobs, &tasks)?;
            seen.refusal = seen.refusal.or(refusal);
        }
        match index::index_document(&database.conn, &tables) {
            Ok(document) => seen.document = document,
            Err(Stop::Theirs(refusal)) if refusal.is_lasting => {
                seen.refusal = seen.refusal.or(Some(refusal));
            }
            Err(stop) => return Err(stop),
        }
        if !database.is_as_it_was() {
            return Err(changed().into());
        }
        Ok((dropped, seen))
    }

    /// Reads and writes sessions and archives, one after another. Returns how many were dropped
    /// because another process was faster, and what could not be read.
    fn run(
        &mut self,
        database: &Database,
        tables: &Tables,
        found: &Found,
        jobs: &[Job],
        tasks: &[Task],
    ) -> Result<(usize, Option<Refusal>), Stop> {
        let ours = Ledger::open_read_only(self.ledger.path())?;
        let mut writer = Writer::new(self.roots, jobs);
        let has_changed = Cell::new(false);
        let mut work = Work::default();
        let mut refusal: Option<Refusal> = None;
        let mut stop: Option<Refusal> = None;
        let (ledger, progress) = (&mut *self.ledger, &mut *self.progress);
        let mut send = |batch: super::Batch| {
            // Read from a file that changed meanwhile: nobody knows what it is.
            if has_changed.get() || !database.is_as_it_was() {
                has_changed.set(true);
                return Ok(());
            }
            let bytes = batch.bytes();
            ledger.write(|tx| {
                writer.begin(tx)?;
                writer.batch(tx, batch)?;
                writer.end(tx)
            })?;
            progress(Progress::Stored { bytes });
            Ok(())
        };
        let mut builder = Builder::new(&mut send);
        for (number, (job, task)) in jobs.iter().zip(tasks).enumerate() {
            let Some(root) = self.roots.get(job.root) else { break };
            if has_changed.get() {
                break;
            }
            let first_path = job.known.as_ref().map_or(&job.path, |known| &known.first_path);
            let origin: Origin = root.format.origin(first_path);
            let mut reading = Reading {
                theirs: &database.conn,
                tables,
                ours: ours.conn(),
                format: root.format,
                builder: &mut builder,
                work: &mut work,
                odd: None,
            };
            let outcome = match &task.what {
                What::Session(session) => reading.session(job, number, &origin, session),
                What::Archive(archive) => {
                    // Its lines may be those of sessions that wait to be written.
                    reading.builder.hand_over(true)?;
                    reading.archive(job, number, &origin, archive)
                }
            };
            let odd = reading.odd;
            let mut skip = |why: String| {
                let reason = Reason::Unreadable(why);
                self.skipped.push(Skipped { root: found.root, path: job.path.clone(), reason });
            };
            match outcome {
                Ok(()) => {}
                // One session of many: the others go on.
                Err(Stop::Theirs(why)) if why.is_lasting => {
                    skip(why.why.clone());
                    refusal = refusal.or(Some(why));
                }
                Err(Stop::Theirs(why)) => {
                    stop = Some(why);
                    break;
                }
                Err(error) => return Err(error),
            }
            if let Some(odd) = odd {
                skip(odd.to_owned());
            }
        }
        builder.hand_over(true)?;
        self.report.bytes_read += work.bytes_read;
        self.report.bytes_verified += work.bytes_verified;
        self.report.lines_parsed += work.lines_parsed;
        let dropped = write::dropped(&writer.progress);
        self.report.sources_changed += jobs.len().saturating_sub(dropped) as u64;
        self.report.add(&writer.written, writer.fold.problems);
        match stop.or_else(|| has_changed.get().then(changed)) {
            Some(stop) => Err(stop.into()),
            None => Ok((dropped, refusal)),
        }
    }

    /// Remembers what a database looked like when all of it was read, so that it is not opened again
    /// before it changes; and what it says about keys.
    fn note(
        &mut self,
        found: &Found,
        files: &Files,
        seen: &Seen,
        refused: Option<&str>,
    ) -> Result<()> {
        let Some(root) = self.roots.get(found.root) else { return Ok(()) };
        let (format, root) = (root.format, path_bytes(&root.path));
        let source = source::find(self.ledger.conn(), format.name(), &root, &found.path)?;
        let before = match source {
            Some((source, _)) => indexes::load(self.ledger.conn(), source)?,
            None => None,
        };
        let origin = format.origin(&found.path);
        let update = match &seen.document {
            Some(document) if before.as_ref() != Some(document) => {
                Some(IndexUpdate::of(format, &origin, before.as_deref(), document)?)
            }
            _ => None,
        };
        let mut writer = Writer::new(self.roots, &[]);
        self.ledger.write(|tx| {
            writer.begin(tx)?;
            let (source, generation) =
                source::find_or_create(tx, format.name(), &root, &found.path)?;
            if let Some(update) = update {
                // Another process was faster: the next look compares with what it wrote.
                if indexes::load(tx, source)? != before {
                    return Ok(());
                }
                writer.index(tx, source, update)?;
            }
            source::update(tx, source, generation, files, refused)?;
            let rows =
                RowCursor { rewrite: String::new(), last_row: seen.schema, rows: seen.sources };
            write::move_row_cursor(tx, generation, &rows)?;
            writer.end(tx)
        })?;
        self.report.add(&writer.written, writer.fold.problems);
        Ok(())
    }
}

/// What an open database turned out to be.
#[derive(Debug, Default)]
struct Seen {
    schema: i64,
    /// Sessions and archives.
    sources: i64,
    /// Why some of it was not read.
    refusal: Option<Refusal>,
    /// What it says about keys.
    document: Option<Vec<u8>>,
}

/// A session or an archive of a database.
struct Task {
    path: Vec<u8>,
    what: What,
    /// Why it is not read.
    refusal: Option<Refusal>,
}

enum What {
    Session(Session),
    Archive(Archive),
}

impl Task {
    /// True if the ledger has all of it, as far as can be told without reading it.
    fn is_done(&self, known: &Known, tables: &Tables) -> bool {
        let Some(rows) = &known.rows else { return false };
        // Where lives have no names, the last row has to be looked at.
        !known.is_gone
            && known.stat.size == known.cursor
            && match &self.what {
                What::Session(session) => tables.has_watermarks() && session.is_as_known(rows),
                What::Archive(archive) => rows.rewrite == archive.hash,
            }
    }
}

fn changed() -> Refusal {
    Refusal::passing("written to while it was read; the next sync tries again")
}

/// The sessions and archives of a database: sessions first, since archives repeat their lines.
fn work_of(
    database: &Database,
    tables: &Tables,
    found: &Found,
    format: &'static dyn quipu_transcript::format::Format,
    forgotten: &HashSet<String>,
) -> Result<Vec<Task>, Stop> {
    let conn = &database.conn;
    let mut watermarks: HashMap<String, String> = HashMap::new();
    if tables.has_watermarks() {
        let mut statement = conn.prepare(&tables.watermarks()).map_err(theirs)?;
        let rows = statement
            .query_map([], |row| {
                Ok((session::text(row.get_ref(0)?)?, session::text(row.get_ref(1)?)?))
            })
            .map_err(theirs)?;
        for row in rows {
            let (session, rewrite) = row.map_err(theirs)?;
            watermarks.insert(session, rewrite);
        }
    }
    let mut tasks = Vec::new();
    let mut statement = conn.prepare(&tables.sessions()).map_err(theirs)?;
    let mut rows = statement.query([]).map_err(theirs)?;
    while let Some(row) = rows.next().map_err(theirs)? {
        // An id that is no text, or too long for a name, is nothing that OpenClaw writes.
        let id = row.get_ref(0).map_err(theirs)?.as_str().ok().map(str::to_owned);
        let name = id.as_deref().and_then(rows::file_name);
        let numbered: i64 = row.get(2).map_err(theirs)?;
        let all: i64 = row.get(3).map_err(theirs)?;
        let last_row = row.get::<_, Option<i64>>(1).map_err(theirs)?;
        let mut path = found.path.clone();
        let (Some(id), Some(name)) = (id, name) else {
            let why = "a session whose id cannot name a file; not read";
            tasks.push(Task::refused(path, why));
            continue;
        };
        if forgotten.contains(&id) {
            continue;
        }
        path.extend_from_slice(format!("/{name}.jsonl").as_bytes());
        if numbered < all {
            let why = "rows whose number is none; not read";
            tasks.push(Task::refused(path.clone(), why));
        }
        let Some(last_row) = last_row else { continue };
        let rewrite = watermarks.remove(&id).unwrap_or_default();
        let what = What::Session(Session { id, last_row, rows: numbered, rewrite });
        tasks.push(Task { path, what, refusal: None });
    }
    let mut taken = HashSet::new();
    for archive in Archive::all(conn, tables)? {
        if forgotten.contains(&archive.session) {
            continue;
        }
        tasks.push(match archive.path(format, &found.path, &mut taken) {
            Some(path) => Task { path, what: What::Archive(archive), refusal: None },
            None => Task::refused(
                found.path.clone(),
                "an archive of a session whose id cannot name a file; not read",
            ),
        });
    }
    Ok(tasks)
}

impl Task {
    fn refused(path: Vec<u8>, why: &str) -> Task {
        let session = Session { id: String::new(), last_row: 0, rows: 0, rewrite: String::new() };
        Task { path, what: What::Session(session), refusal: Some(Refusal::lasting(why)) }
    }
}

/// Sessions of an agent that must not be collected again.
fn forgotten(conn: &Connection, format: &str, agent: &str) -> Result<HashSet<String>> {
    Ok(conn
        .prepare_cached("SELECT session_id FROM forgotten WHERE format = ?1 AND agent = ?2")?
        .query_map((format, agent), |row| row.get(0))?
        .collect::<Result<_, _>>()?)
}
