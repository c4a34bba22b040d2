//! Imports the sessions of one agent: small sessions in batches, long ones in pieces.
//!
//! Never changes a stored line. A file that cannot be imported is reported and does not stop the
//! rest.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use quipu_transcript::format::Format;
use quipu_transcript::formats::openclaw::OpenClaw;
use quipu_transcript::index::Index;
use quipu_transcript::native::header;
use quipu_transcript::time::Timestamp;

use super::super::Store;
use super::super::sessions::NativeSession;
use super::super::work::FORMAT;
use super::batch::{Batch, IndexKey, MAX_BATCH_BYTES, Piece, Step, Waiting};
use super::compare::Compared;
use super::find::{AgentFiles, Transcript};
use super::read::{Content, Folder, Group};
use super::{OTHER, compare, error_text, is_ledger_error, path_of, session_of};
use crate::base::clock;
use crate::truth::chunks::RecordReader;
use crate::wire::ImportedFile;
use crate::{Error, Result};

/// The number of times that a session is compared if another process keeps writing to it. After
/// that, the import reports it as failed.
const MAX_ATTEMPTS: usize = 8;

/// The reason that is reported for a file without lines.
const EMPTY_REASON: &str = "it is empty";

/// The import of one agent's sessions.
pub(super) struct Import<'a, 'e> {
    store: &'e Store,
    files: &'a AgentFiles,
    folder: Folder<'a>,
    each: &'e mut dyn FnMut(ImportedFile),
    batch: Batch<'a>,
    /// The reports on the indexes.
    indexes: &'e mut [ImportedFile],
}

impl<'a, 'e> Import<'a, 'e> {
    pub(super) fn new(
        store: &'e Store,
        files: &'a AgentFiles,
        scratch: &'a Path,
        indexes: &'e mut [ImportedFile],
        each: &'e mut dyn FnMut(ImportedFile),
    ) -> Import<'a, 'e> {
        let folder = Folder { root: &files.root, scratch };
        Import { store, files, folder, each, batch: Batch::default(), indexes }
    }

    /// Imports all sessions of the agent, with the keys that lead to them.
    pub(super) fn agent(mut self, indexes: &'a [Index]) -> Result<()> {
        let sessions = self.by_session()?;
        let names: HashSet<&str> = sessions.keys().map(String::as_str).collect();
        let mut keys: HashMap<&str, Vec<IndexKey<'a>>> = HashMap::new();
        for (number, index) in indexes.iter().enumerate() {
            for binding in &index.bindings {
                if let Some(session) = session_of(binding, &names) {
                    keys.entry(session).or_default().push(IndexKey { binding, index: number });
                }
            }
        }
        let mut owned = HashSet::new();
        for (name, transcripts) in &sessions {
            let keys = keys.remove(&**name).unwrap_or_default();
            let mut groups = self.groups(name, transcripts)?;
            if let Some(group) = groups.last_mut() {
                // Threads with the same session id are separate sessions, even if their headers
                // have the same own id.
                let own = self.folder.own_id(group).filter(|own| !names.contains(&**own));
                group.id = own.filter(|own| owned.insert(own.clone())).unwrap_or(group.id.clone());
            }
            // Keys lead to the live session, or to the last archived one.
            let last = groups.pop();
            for group in groups {
                self.session(group, Vec::new())?;
            }
            if let Some(group) = last {
                self.session(group, keys)?;
            }
        }
        let bindings = indexes.iter().flat_map(|index| &index.bindings);
        for id in bindings.filter_map(|binding| binding.session.as_deref()) {
            let Some(keys) = keys.remove(id) else { continue };
            let index = keys.first().map_or(0, |key| key.index);
            match self.without_transcript(id, keys) {
                Err(error) if !is_ledger_error(&error) => {
                    if let Some(report) = self.indexes.get_mut(index) {
                        (report.reason, report.has_failed) = (Some(error_text(&error)), true);
                    }
                }
                done => done?,
            }
        }
        self.flush()
    }

    /// Returns the transcripts of each session. Reports a transcript that names no session.
    fn by_session(&mut self) -> Result<BTreeMap<String, Vec<Transcript>>> {
        let mut sessions: BTreeMap<String, Vec<Transcript>> = BTreeMap::new();
        for file in &self.files.transcripts {
            let session = match &file.session {
                Some(session) => Ok(Some(session.clone())),
                None => self.folder.session(file),
            };
            let why = match session {
                Ok(Some(session)) => {
                    sessions.entry(session).or_default().push(file.clone());
                    continue;
                }
                Ok(None) => "no line of it names its session".to_owned(),
                Err(error) if is_ledger_error(&error) => return Err(error),
                Err(error) => error_text(&error),
            };
            let report = self.files.empty_report(&file.path, file.kind());
            (self.each)(ImportedFile { reason: Some(why), has_failed: true, ..report });
        }
        self.join_threads(&mut sessions);
        Ok(sessions)
    }

    /// Joins a thread's transcript with what OpenClaw moved of it into its database, where the
    /// session's id lacks the thread. Equal headers show that both are one session.
    fn join_threads(&self, sessions: &mut BTreeMap<String, Vec<Transcript>>) {
        let header = |files: &[Transcript]| files.iter().find_map(|file| self.folder.header(file));
        let mut joined = Vec::new();
        for (name, files) in &*sessions {
            let id = OpenClaw.without_thread(name).unwrap_or_default();
            if let Some(moved) = sessions.get(id)
                && moved.iter().all(Transcript::is_moved)
                && header(files).is_some_and(|own| header(moved) == Some(own))
            {
                joined.push((id.to_owned(), name.clone()));
            }
        }
        for (id, name) in joined {
            let moved = sessions.remove(&id).unwrap_or_default();
            sessions.entry(name).or_default().extend(moved);
        }
    }

    /// Groups the files of one session id; the live session is the last group. A copy becomes a
    /// separate session if it has a line that no other file has; otherwise it is left out.
    fn groups(&mut self, name: &str, files: &[Transcript]) -> Result<Vec<Group>> {
        let is_in_rows = files.iter().any(|file| file.archive.is_none() && file.rows.is_some());
        let (mut copies, mut others): (Vec<Transcript>, Vec<Transcript>) =
            files.iter().cloned().partition(|file| {
                // If the database holds the live session, a live file is only a copy.
                file.is_copy() || is_in_rows && file.archive.is_none() && file.rows.is_none()
            });
        copies.sort_by_key(Transcript::order);
        if others.is_empty() {
            others.extend(copies.pop());
        }
        // The database and a file may have the same archive.
        let mut archives = HashSet::new();
        copies.extend(others.extract_if(.., |file| {
            file.archive.is_some()
                && self.folder.digest(file).is_ok_and(|digest| !archives.insert(digest))
        }));
        let mut groups = self.folder.groups(name, others);
        if copies.is_empty() {
            return Ok(groups);
        }
        let mut known = self.folder.known_lines(&groups);
        let mut more = Vec::new();
        for copy in copies {
            match self.folder.has_more(&copy, &mut known) {
                Ok(false) => {
                    let why = Some("a copy: all of its lines are in other files".to_owned());
                    (self.each)(ImportedFile {
                        reason: why,
                        ..self.files.empty_report(&copy.path, OTHER)
                    });
                }
                Err(error) if is_ledger_error(&error) => return Err(error),
                // The import reads the file again and reports the error.
                Ok(true) | Err(_) => {
                    let id = format!("{name}.{}", copy.suffix());
                    more.push(Group { id, files: vec![copy] });
                }
            }
        }
        groups.splice(..0, more);
        Ok(groups)
    }

    /// Counts the keys of a stored session in the reports on their indexes.
    fn count(&mut self, keys: &[IndexKey<'_>], is_new: &[bool]) {
        for (number, key) in keys.iter().enumerate() {
            if let Some(report) = self.indexes.get_mut(key.index) {
                report.stored += 1;
                report.added += u64::from(is_new.get(number) == Some(&true));
            }
        }
    }

    /// Reads a session and adds it to the batch. Stores a long session at once.
    fn session(&mut self, group: Group, keys: Vec<IndexKey<'a>>) -> Result<()> {
        let mut reports = self.new_reports(&group);
        let step = match self.read(&group, &mut reports) {
            // A file without lines is skipped, but keys may lead to its session.
            Ok((content, None)) if content.length == 0 => {
                for file in &mut reports {
                    (file.session_id, file.reason) = (None, Some(EMPTY_REASON.to_owned()));
                }
                if !keys.is_empty() {
                    self.without_transcript(&group.id, keys)?;
                }
                Step::Report
            }
            // The batch is stored first, so that reports keep their order.
            Ok((content, _)) if !content.is_kept() => {
                self.flush()?;
                return self.store_long_session(&group, keys);
            }
            Ok((content, known)) => Step::Compare { content, known, keys },
            // An error of the ledger affects every file.
            Err(error) if is_ledger_error(&error) => return Err(error),
            Err(error) => {
                fail(&mut reports, &error);
                Step::Report
            }
        };
        self.enqueue(Waiting { step, reports, group })
    }

    /// Adds a session that has keys but no transcript.
    fn without_transcript(&mut self, id: &str, keys: Vec<IndexKey<'a>>) -> Result<()> {
        let group = Group { id: id.to_owned(), files: Vec::new() };
        let known = compare::known(self.store.core().ledger.conn(), &self.files.agent, &group.id)?
            .map(|session| (session, 0));
        let lines = match known {
            Some(_) => Vec::new(),
            None => vec![header(id, None, None, Timestamp(clock::now_ms())).into_bytes()],
        };
        let (agent, id) = (&*self.files.agent, id.to_owned());
        let piece = Piece { agent, id, known, lines, keys, is_deleted: false };
        let step = match piece.is_new(self.store.core().ledger.conn())? {
            true => Step::Store(piece),
            false => {
                self.count(&piece.keys, &[]);
                Step::Report
            }
        };
        self.enqueue(Waiting { step, reports: Vec::new(), group })
    }

    /// Compares the waiting sessions with the stored ones. One reader reads them all: it keeps the
    /// last few chunks open, so a chunk with lines of several sessions is not opened for each.
    fn compare_all(&mut self) -> Result<()> {
        let core = self.store.core();
        let conn = core.ledger.conn();
        let mut reader = RecordReader::new(conn);
        let agent = &*self.files.agent;
        let mut unchanged_keys = Vec::new();
        for waiting in self.batch.waiting_mut() {
            let Waiting { step, reports, group } = waiting;
            let (content, known, keys) = match std::mem::replace(step, Step::Report) {
                Step::Compare { content, known, keys } => (content, known, keys),
                other => {
                    *step = other;
                    continue;
                }
            };
            let compared = compare::compare(&mut reader, &self.folder, group, &content, known);
            let Compared { known, lines: skip } = match compared {
                Ok(compared) => compared,
                Err(error) if is_ledger_error(&error) => return Err(error),
                Err(error) => {
                    fail(reports, &error);
                    continue;
                }
            };
            let mut lines = Vec::new();
            compare::new_lines(&self.folder, group, &content, skip, reports, &mut |line| {
                lines.push(line.to_owned());
                Ok(())
            })?;
            let (id, is_deleted) = (group.id.clone(), group.is_deleted());
            let piece = Piece { agent, id, known, lines, keys, is_deleted };
            match piece.is_new(conn)? {
                true => *step = Step::Store(piece),
                false => unchanged_keys.extend(piece.keys),
            }
        }
        self.count(&unchanged_keys, &[]);
        Ok(())
    }

    fn enqueue(&mut self, waiting: Waiting<'a>) -> Result<()> {
        self.batch.push(waiting);
        match self.batch.is_full() {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Stores all waiting sessions. Another process can write between two transactions.
    fn flush(&mut self) -> Result<()> {
        self.compare_all()?;
        while !self.batch.is_empty() {
            let stored = match self.batch.writes() {
                true => self.store.write(&mut |work| self.batch.store(work))?,
                false => self.batch.nothing_stored(),
            };
            for (waiting, stored) in self.batch.take(stored.len()).into_iter().zip(stored) {
                match (waiting.step, stored) {
                    // Another process has written to the session.
                    (Step::Store(piece), None) => {
                        self.store_long_session(&waiting.group, piece.keys)?;
                        continue;
                    }
                    (Step::Store(piece), Some(stored)) => {
                        self.count(&piece.keys, &stored.is_new);
                    }
                    _ => {}
                }
                waiting.reports.into_iter().for_each(&mut *self.each);
            }
        }
        Ok(())
    }

    /// Stores one session in as many transactions as needed.
    fn store_long_session(&mut self, group: &Group, keys: Vec<IndexKey<'a>>) -> Result<()> {
        let mut reports = self.new_reports(group);
        let mut stored = Ok(false);
        for _ in 0..MAX_ATTEMPTS {
            reports = self.new_reports(group);
            stored = self.try_in_pieces(group, &keys, &mut reports);
            if !matches!(stored, Ok(false)) {
                break;
            }
        }
        let stored = stored.and_then(|stored| match stored {
            true => Ok(()),
            false => Err(Error::refused("another process is writing to the session")),
        });
        match stored {
            Ok(()) => {}
            Err(error) if is_ledger_error(&error) => return Err(error),
            Err(error) => fail(&mut reports, &error),
        }
        reports.into_iter().for_each(&mut *self.each);
        Ok(())
    }

    /// Tries to store the session once. Returns false if another process wrote to it in the
    /// meantime.
    fn try_in_pieces(
        &mut self,
        group: &Group,
        keys: &[IndexKey<'a>],
        reports: &mut [ImportedFile],
    ) -> Result<bool> {
        let (content, known) = self.read(group, reports)?;
        let Compared { known, lines: skip } = {
            let core = self.store.core();
            let mut reader = RecordReader::new(core.ledger.conn());
            compare::compare(&mut reader, &self.folder, group, &content, known)?
        };
        let (agent, id, is_deleted) = (&*self.files.agent, group.id.clone(), group.is_deleted());
        let (lines, no_keys) = (Vec::new(), Vec::new());
        let mut piece = Piece { agent, id, known, lines, keys: no_keys, is_deleted };
        let (mut bytes, mut is_same) = (0, true);
        compare::new_lines(&self.folder, group, &content, skip, reports, &mut |line| {
            if is_same {
                piece.lines.push(line.to_owned());
                bytes += line.len();
            }
            if bytes >= MAX_BATCH_BYTES {
                bytes = 0;
                is_same = store_piece(self.store, &mut piece)?.is_some();
            }
            Ok(())
        })?;
        if !is_same {
            return Ok(false);
        }
        piece.keys = keys.to_vec();
        let Some(is_new) = store_piece(self.store, &mut piece)? else { return Ok(false) };
        self.count(keys, &is_new);
        Ok(true)
    }

    /// Returns the content of the files, and the stored session with the same id.
    fn read(
        &self,
        group: &Group,
        reports: &mut [ImportedFile],
    ) -> Result<(Content, Option<NativeSession>)> {
        let path = path_of(&self.files.agent, &group.id)?;
        let content = self.folder.content(group, &FORMAT.origin(path.as_bytes()))?;
        for (file, rows) in reports.iter_mut().zip(&content.rows) {
            file.rows = *rows;
        }
        match compare::known(self.store.core().ledger.conn(), &self.files.agent, &group.id)? {
            None if !content.has_entry && content.length > 0 => {
                Err(Error::refused("none of its lines can be read"))
            }
            known => Ok((content, known)),
        }
    }

    /// Returns new reports on a session's files.
    fn new_reports(&self, group: &Group) -> Vec<ImportedFile> {
        let reports = group.files.iter().map(|file| {
            let session = Some(group.id.clone());
            ImportedFile { session_id: session, ..self.files.empty_report(&file.path, file.kind()) }
        });
        reports.collect()
    }
}

/// Stores a piece, and prepares it for the next lines. Returns whether each of its keys is new;
/// `None` if the session has changed since it was compared.
fn store_piece(store: &Store, piece: &mut Piece<'_>) -> Result<Option<Vec<bool>>> {
    let Some(stored) = store.write(&mut |work| piece.store(work))? else { return Ok(None) };
    let length = piece.known.as_ref().map_or(0, |(_, length)| *length);
    let more: usize = piece.lines.drain(..).map(|line| line.len()).sum();
    piece.known = Some((stored.session, length + more as u64));
    Ok(Some(stored.is_new))
}

/// Marks the reports on files as failed.
fn fail(reports: &mut [ImportedFile], error: &Error) {
    for file in reports {
        (file.stored, file.added) = (0, 0);
        (file.reason, file.has_failed) = (Some(error_text(error)), true);
    }
}
