//! Collects the sessions in another program's SQLite file: one record per row.
//!
//! ```text
//! unchanged?   metadata of the file and of its log                  (nothing is opened)
//! open         without writing there or leaving a file there        open.rs, private.rs
//! tables       the tables and columns that exist                    (the file of the format)
//! sessions     the last row of each, by the primary key alone       task.rs
//! read         new rows, in short pages                             session.rs, archive.rs, event.rs
//! cut          rows → records → drafts → pieces                     cutting.rs
//! index        the fields of keys, as one document                  index.rs
//! ```
//!
//! Each session is a source with the path `<database>/<session>.jsonl`; so is each archived
//! transcript in the database. The database itself is a source too, which has no records. The
//! ledger stores the metadata of the database's files with that source.

mod archive;
mod cutting;
pub(crate) mod databases;
mod dump;
mod event;
mod index;
mod open;
mod openclaw;
mod private;
mod refusal;
mod run;
mod session;
mod source;
mod task;
mod unread;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use quipu_transcript::format::Part;

use super::batch::RowCursor;
use super::discover::{Discovery, FoundFile, Reason, RootPath, Skipped};
use super::forgotten::Gate;
use super::index::IndexUpdate;
use super::known::{self, KnownSource};
use super::plan::{Job, Plan, SourceKind, is_absent};
use super::position;
use super::write::Writer;
use super::{Pending, Progress, is_over};
use crate::Result;
use crate::base::paths::{absolute, path_bytes};
use crate::collect::rows::databases::newer;
use crate::file::ledger::Ledger;
use crate::truth::indexes;
use crate::wire::{SyncReport, UNREADABLE};
pub(crate) use dump::{Dump, Dumped, dump};
use open::{Database, DatabaseLocation, Files};
pub(crate) use openclaw::NEWEST_SCHEMA;
use refusal::{Refusal, Stop, theirs};
// The tables of the only kind of database that is read so far.
use openclaw as tables;
use tables::Tables;
pub(crate) use unread::Unread;

/// Removes the databases from a discovery and returns them.
pub(super) fn take(discovery: &mut Discovery) -> Vec<FoundFile> {
    discovery.found.extract_if(.., |found| found.part == Part::Database).collect()
}

/// Returns why a database cannot be opened, judging by the metadata of its files; `None` if nothing
/// there prevents it. Opens no file.
pub(super) fn why_not(root: &RootPath, found: &FoundFile) -> Option<String> {
    let location = DatabaseLocation::find(&root.path, &absolute(&root.path, &found.path)).ok()?;
    Files::look(&location)?.refusal().map(|refusal| refusal.why)
}

/// The state that a sync hands from one step to the next.
pub(super) struct Sync<'s> {
    pub(super) ledger: &'s mut Ledger,
    pub(super) roots: &'s [RootPath],
    pub(super) gate: &'s Gate,
    pub(super) report: &'s mut SyncReport,
    pub(super) skipped: &'s mut Vec<Skipped>,
    pub(super) pending: &'s mut Pending,
    pub(super) progress: &'s mut dyn FnMut(Progress),
}

impl Sync<'_> {
    /// Collects what is new in databases. Returns the number of sessions that were dropped because
    /// another process stored them first; they have to be planned again.
    pub(super) fn databases(&mut self, found: &[FoundFile]) -> Result<usize> {
        self.report.database_sources = 0;
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
        if is_over(self.ledger.deadline()) {
            return Ok(dropped);
        }
        self.gone(&known)?;
        // Every sync repeats these warnings: the agent may delete rows that this build does not
        // understand, before a newer build can read them.
        self.report.warnings.clear();
        let formats: BTreeSet<&str> = self.roots.iter().map(|root| root.format.name()).collect();
        for format in formats {
            self.report.warnings.append(&mut newer(self.ledger.conn(), format)?);
        }
        Ok(dropped)
    }

    /// Marks databases that are no longer on disk as gone, with their sessions.
    fn gone(&mut self, known: &[KnownSource]) -> Result<()> {
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

    /// Marks the sources of `plan` as gone or as back.
    fn changes(&mut self, plan: Plan) -> Result<()> {
        if plan.gone.is_empty() && plan.back.is_empty() {
            return Ok(());
        }
        self.report.gone_sources += plan.gone.len() as u64;
        let mut writer = Writer::new(self.roots, &[], self.gate, self.report);
        self.ledger.write(|tx| {
            writer.begin(tx)?;
            writer.changes(tx, &plan)?;
            writer.end(tx)
        })?;
        writer.add_to(self.report);
        Ok(())
    }

    /// Collects what is new in one database. Returns the number of sessions that were dropped.
    fn database(&mut self, found: &FoundFile, known: Option<&KnownSource>) -> Result<usize> {
        let Some(root) = self.roots.get(found.root) else { return Ok(0) };
        let path = absolute(&root.path, &found.path);
        let place = DatabaseLocation::find(&root.path, &path);
        let files = place.as_ref().ok().and_then(Files::look);
        if let (Some(files), Some(known)) = (files, known)
            && !known.is_gone
            && (known.stat, known.marker) == (files.database, files.log_print())
        {
            let transcripts = known::count_in_database(self.ledger.conn(), known)?;
            self.report.sources += transcripts;
            self.report.database_sources += transcripts;
            if let Some(why) = &known.refused {
                self.skip(found, why.strip_prefix(UNREADABLE).unwrap_or(why).to_owned());
            }
            let unread = Unread::load(self.ledger.conn(), known.source)?;
            self.skipped.extend(unread.skipped(found));
            if let Some(refusal) = files.refusal() {
                self.skip(found, refusal.why);
            }
            return Ok(0);
        }
        if is_over(self.ledger.deadline()) {
            self.pending.databases += 1;
            return Ok(0);
        }
        if let Some(known) = known.filter(|known| known.is_gone) {
            self.changes(Plan { back: vec![known.clone()], ..Plan::default() })?;
        }
        self.report.databases_opened += 1;
        let (vetted, deadline) = (found.stat.file(), self.ledger.deadline());
        let opened = place
            .map_err(|error| Refusal::passing(error.to_string()).into())
            .and_then(|place| Database::open(place, vetted, self.ledger.path(), deadline));
        let files = opened.as_ref().map_or(files, |database| Some(database.files));
        let read = opened.and_then(|database| {
            self.sessions(found, &database).map(|(dropped, seen)| (dropped, seen, database.files))
        });
        match read {
            Ok((0, seen, files)) => self.note(found, &files, &seen, None).map(|()| 0),
            Ok((dropped, ..)) => Ok(dropped),
            Err(Stop::Theirs(refusal)) => self.refuse(found, files, refusal).map(|()| 0),
            Err(Stop::Ours(error)) => Err(error),
            Err(Stop::OutOfTime) => {
                self.pending.databases += 1;
                Ok(0)
            }
        }
    }

    fn skip(&mut self, found: &FoundFile, why: String) {
        let reason = Reason::Unreadable(why);
        self.skipped.push(Skipped { root: found.root, path: found.path.clone(), reason });
    }

    /// Reports why a database is not read, and stores a lasting reason.
    fn refuse(&mut self, found: &FoundFile, files: Option<Files>, refusal: Refusal) -> Result<()> {
        self.skip(found, refusal.why.clone());
        let Some(files) = files.filter(|_| refusal.is_lasting) else { return Ok(()) };
        let why = Reason::Unreadable(refusal.why).text();
        self.note(found, &files, &Seen::default(), Some(&why))
    }

    /// Collects the sessions of an open database. Returns the number of sessions that were dropped,
    /// and the findings.
    fn sessions(&mut self, found: &FoundFile, database: &Database) -> Result<(usize, Seen), Stop> {
        let tables = Tables::of(&database.conn).map_err(theirs)?;
        if let Some(missing) = tables.missing() {
            return Err(Refusal::lasting(missing).into());
        }
        let Some(root) = self.roots.get(found.root) else { return Ok((0, Seen::default())) };
        let root_bytes = path_bytes(&root.path);
        let format = root.format;
        let in_ledger: HashMap<Vec<u8>, KnownSource> =
            known::in_database(self.ledger.conn(), format.name(), &root_bytes, &found.path)?
                .into_iter()
                .map(|known| (known.path.clone(), known))
                .collect();
        let agent = format.origin(&found.path).agent.unwrap_or_default();
        let is_forgotten = |id: &str| self.gate.is_forgotten(format, &agent, id);
        let mut work =
            task::all(&database.conn, &tables, &found.path, format, root.selection, &is_forgotten)?;
        if !database.is_as_it_was() {
            return Err(changed().into());
        }
        let mut seen = Seen {
            schema: tables.schema,
            sources: task::count(&work, &found.path) as i64,
            unread: Unread::default(),
            document: None,
            is_left_out: work.iter().any(|task| task.left_out.is_some()),
        };
        for task in work.extract_if(.., |task| task.refusal.is_some()) {
            let reason =
                Reason::Unreadable(task.refusal.map(|refusal| refusal.why).unwrap_or_default());
            seen.unread.add(&task.path, &reason);
            self.skipped.push(Skipped { root: found.root, path: task.path, reason });
        }
        let wanted = work.iter().filter(|task| task.left_out.is_none()).count() as u64;
        self.report.sources += wanted;
        self.report.database_sources += wanted;

        // Splits the sessions into those that are gone, those that are back, and those that have to
        // be read.
        let paths: HashSet<&[u8]> = work.iter().map(|task| task.path.as_slice()).collect();
        let gone = in_ledger
            .values()
            .filter(|known| !known.is_gone && !paths.contains(known.path.as_slice()));
        let mut gone: Vec<KnownSource> = gone.cloned().collect();
        gone.sort_by_key(|known| known.source);
        let back = work.iter().filter_map(|task| in_ledger.get(&task.path));
        let mut back: Vec<KnownSource> = back.filter(|known| known.is_gone).cloned().collect();
        back.sort_by_key(|known| known.source);
        self.changes(Plan { gone, back, ..Plan::default() })?;
        let (mut jobs, mut tasks) = (Vec::new(), Vec::new());
        let mut bytes_verified = 0;
        for task in work {
            if let Some(why) = task.left_out {
                let reason = Reason::LeftOut(why);
                seen.unread.add(&task.path, &reason);
                self.skipped.push(Skipped { root: found.root, path: task.path, reason });
                continue;
            }
            let known = in_ledger.get(&task.path);
            if let Some(known) = known
                && task.is_done(known, &tables)
                && task.has_same_end(known, &database.conn, &tables, &mut bytes_verified)?
            {
                continue;
            }
            jobs.push(Job {
                kind: SourceKind::Rows,
                root: found.root,
                root_path: root.path.clone(),
                path: task.path.clone(),
                absolute: absolute(&root.path, &found.path),
                is_probe: false,
                file: found.stat.file(),
                size: 0,
                known: known.cloned(),
            });
            tasks.push(task);
        }
        self.report.bytes_verified += bytes_verified;
        let mut dropped = 0;
        if !jobs.is_empty() {
            dropped = self.run(database, &tables, found, &jobs, &tasks, &mut seen)?;
        }
        match index::index_document(&database.conn, &tables) {
            Ok(document) => seen.document = document,
            Err(Stop::Theirs(refusal)) if refusal.is_lasting => {
                let reason = Reason::Unreadable(format!("its keys: {}", refusal.why));
                seen.unread.add(&found.path, &reason);
                self.skipped.push(Skipped { root: found.root, path: found.path.clone(), reason });
            }
            Err(stop) => return Err(stop),
        }
        if !database.is_as_it_was() {
            return Err(changed().into());
        }
        Ok((dropped, seen))
    }

    /// Stores the metadata of a database that was read completely, and the fields of its keys. Does
    /// the same for one that was refused for the lasting reason `refused`. The database is not
    /// opened again before it changes.
    fn note(
        &mut self,
        found: &FoundFile,
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
            Some(document) => {
                let document = self.gate.file(format, &origin).index(document);
                let is_new = before.as_deref() != Some(&*document);
                is_new
                    .then(|| IndexUpdate::of(format, &origin, before.as_deref(), &document))
                    .transpose()?
            }
            None => None,
        };
        let mut writer = Writer::new(self.roots, &[], self.gate, self.report);
        self.ledger.write(|tx| {
            writer.begin(tx)?;
            let (source, generation) =
                source::find_or_create(tx, format.name(), &root, &found.path)?;
            if let Some(update) = update {
                // Another process stored a version first. The next sync compares with that one.
                if indexes::load(tx, source)? != before {
                    return Ok(());
                }
                writer.index(tx, source, update)?;
            }
            source::update(tx, source, generation, files, refused, !seen.is_left_out)?;
            seen.unread.store(tx, source)?;
            let rows =
                RowCursor { rewrite: String::new(), last_row: seen.schema, rows: seen.sources };
            position::move_row_cursor(tx, generation, &rows)?;
            writer.end(tx)
        })?;
        writer.add_to(self.report);
        Ok(())
    }
}

/// The facts that were found in an open database.
#[derive(Debug, Default)]
struct Seen {
    schema: i64,
    /// The number of sessions and archives.
    sources: i64,
    /// The sessions and archives that were not read, with the reason.
    unread: Unread,
    /// The fields of its keys.
    document: Option<Vec<u8>>,
    /// True if a setting leaves some sessions or archives out. The next sync then opens the
    /// database again, because the setting may have changed.
    is_left_out: bool,
}

fn changed() -> Refusal {
    Refusal::passing("written to while it was read; the next sync tries again")
}
