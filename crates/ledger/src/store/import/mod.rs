//! OpenClaw's files into sessions of our own: every line byte for byte, whatever it holds, and every
//! key with all that its index notes about it.
//!
//! What is there already is compared and never changed: a session whose lines are the first ones of
//! a file gets the rest of them, one that has gone on since is left alone, and one with other lines
//! is an error of that file. Keys that lead somewhere already are left alone too. So importing twice
//! adds nothing.

mod find;
mod read;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use quipu_transcript::formats::native;
use quipu_transcript::formats::openclaw::whole_index;
use quipu_transcript::index::{Binding, Index};
use quipu_transcript::key::SessionKey;
use quipu_transcript::native::header;
use quipu_transcript::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use self::find::{AgentFiles, Transcript};
use self::read::{Folder, Group};
use super::sessions::{MAIN, begin, bind, by_id, index_of};
use super::{NativeSession, Store};
use crate::collect::open_source;
use crate::wire::ImportedFile;
use crate::{Error, Result, clock, spans};

/// So much is written at once.
const BATCH: usize = 8 << 20;

/// A larger index is none.
const LARGEST_INDEX: u64 = 1 << 30;

impl Store {
    /// Imports the sessions in a folder of OpenClaw's, and tells of each file as it is done. What
    /// cannot be imported does not keep the rest from it.
    pub fn import(&mut self, folder: &Path, each: &mut dyn FnMut(ImportedFile)) -> Result<()> {
        for files in find::find(folder)? {
            self.import_agent(&files, each)?;
        }
        Ok(())
    }

    fn import_agent(
        &mut self,
        files: &AgentFiles,
        each: &mut dyn FnMut(ImportedFile),
    ) -> Result<()> {
        let scratch = self.ledger.path().parent().unwrap_or(Path::new("/")).to_owned();
        let folder = Folder { path: &files.folder, scratch: &scratch };
        let named = |name: &str, kind| ImportedFile {
            path: Path::new(&files.shown).join(name).to_string_lossy().into_owned(),
            kind,
            agent: files.agent.clone(),
            ..ImportedFile::default()
        };
        let mut of_index = named(INDEX, "index");
        let index = match files.has_index.then(|| read_index(&files.folder)) {
            None => Index::default(),
            Some(Ok(mut index)) => {
                of_index.rows = index.bindings.len() as u64;
                let mut problems: Vec<String> =
                    index.problems.iter().map(|problem| problem.detail.to_string()).collect();
                // A key of another agent must not lead into this one's sessions.
                let is_own = |binding: &Binding| {
                    let key = SessionKey::parse(binding.key.as_str());
                    key.agent().is_none_or(|agent| agent.eq_ignore_ascii_case(&files.agent))
                };
                index.bindings.retain(is_own);
                let others = of_index.rows - index.bindings.len() as u64;
                if others > 0 {
                    problems.push(format!("keys of other agents: {others}"));
                }
                of_index.why = Some(problems.join(", "));
                of_index.why.take_if(|why| why.is_empty());
                of_index.failed = index.is_damaged;
                index
            }
            Some(Err(error)) => {
                of_index.why = Some(said(&error));
                of_index.failed = true;
                Index::default()
            }
        };
        let mut sessions: BTreeMap<&str, Vec<Transcript>> = BTreeMap::new();
        for file in &files.transcripts {
            sessions.entry(&file.session).or_default().push(file.clone());
        }
        let names: HashSet<String> = sessions.keys().map(|name| (*name).to_owned()).collect();
        let mut bound = Vec::new();
        for (name, transcripts) in sessions {
            let bindings: Vec<&Binding> =
                index.bindings.iter().filter(|key| key.session.as_deref() == Some(name)).collect();
            let mut groups = folder.groups(name, transcripts);
            if let Some(group) = groups.last_mut() {
                let own = folder.own_id(group).or_else(|| thread_id(name, &bindings, &names));
                group.id = own.unwrap_or_else(|| group.id.clone());
            }
            let last = groups.len();
            for (number, group) in groups.iter().enumerate() {
                let mut rows = vec![(0, 0); group.files.len()];
                let stored = self.import_group(&files.agent, group, &folder, &mut rows);
                for (file, (rows, added)) in group.files.iter().zip(rows) {
                    let kind = if file.is_archive { "archive" } else { "transcript" };
                    let mut done = named(&file.shown(), kind);
                    done.session = Some(group.id.clone());
                    done.rows = rows;
                    match &stored {
                        Ok(_) => (done.stored, done.added) = (rows, added),
                        Err(error) => (done.why, done.failed) = (Some(said(error)), true),
                    }
                    each(done);
                }
                match stored {
                    Ok(session) if number + 1 == last => {
                        bound.extend(bindings.iter().map(|key| (*key, session.clone())));
                    }
                    Ok(_) => {}
                    // What is wrong with the ledger concerns every file.
                    Err(error) if is_the_ledgers(&error) => return Err(error),
                    Err(_) => {}
                }
            }
        }
        for key in &index.bindings {
            if let Some(id) = key.session.as_deref().filter(|id| !names.contains(*id)) {
                match self.without_transcript(&files.agent, id) {
                    Ok(session) => bound.push((key, session)),
                    Err(error) if is_the_ledgers(&error) => return Err(error),
                    Err(error) => (of_index.why, of_index.failed) = (Some(said(&error)), true),
                }
            }
        }
        of_index.added = self.bind_new(&bound)?;
        of_index.stored = bound.len() as u64;
        if files.has_index {
            each(of_index);
        }
        for (name, why) in &files.left_out {
            each(ImportedFile { why: Some(why.clone()), ..named(name, "other") });
        }
        Ok(())
    }

    /// Stores the lines of one session. `rows` becomes, for each file, how many lines it has and how
    /// many of them are new.
    fn import_group(
        &mut self,
        agent: &str,
        group: &Group,
        folder: &Folder<'_>,
        rows: &mut [(u64, u64)],
    ) -> Result<NativeSession> {
        let mut length = 0;
        folder.lines(group, &mut |file, line, is_new| {
            if let Some((rows, _)) = rows.get_mut(file) {
                *rows += 1;
            }
            length += if is_new { line.len() as u64 } else { 0 };
            Ok(())
        })?;
        let mut session = by_id(self.ledger.conn(), agent, &group.id)?;
        let mut skip = match &session {
            Some(session) => self.common(session, group, folder, length)?,
            None => 0,
        };
        let mut batch = Batch::default();
        folder.lines(group, &mut |file, line, is_new| {
            if !is_new {
                return Ok(());
            }
            if skip > 0 {
                skip = skip.saturating_sub(line.len() as u64);
                return Ok(());
            }
            if let Some((_, added)) = rows.get_mut(file) {
                *added += 1;
            }
            batch.lines.push(line.to_owned());
            batch.bytes += line.len();
            if batch.bytes >= BATCH {
                session = Some(self.store(agent, &group.id, session.take(), &mut batch)?);
            }
            Ok(())
        })?;
        if !batch.lines.is_empty() || session.is_none() {
            self.store(agent, &group.id, session, &mut batch)?;
        }
        let found = by_id(self.ledger.conn(), agent, &group.id)?;
        found.ok_or_else(|| Error::refused("no line of it can be read"))
    }

    /// How many bytes of the session are there already; an error if they are others.
    fn common(
        &self,
        session: &NativeSession,
        group: &Group,
        folder: &Folder<'_>,
        length: u64,
    ) -> Result<u64> {
        let conn = self.ledger.conn();
        let mut stored = Prefix::of(length);
        spans::stream(conn, session.generation, &mut |part| {
            stored.add(part);
            Ok(())
        })?;
        let mut incoming = Prefix::of(stored.taken);
        folder.lines(group, &mut |_, line, is_new| {
            if is_new {
                incoming.add(line);
            }
            Ok(())
        })?;
        match stored.hash.finalize() == incoming.hash.finalize() {
            // It may have gone on since.
            true => Ok(stored.taken),
            false => Err(Error::refused(format!(
                "session {} is there already, with other lines",
                group.id.escape_debug()
            ))),
        }
    }

    /// Stores some lines, in one transaction.
    fn store(
        &mut self,
        agent: &str,
        id: &str,
        session: Option<NativeSession>,
        batch: &mut Batch,
    ) -> Result<NativeSession> {
        let lines = std::mem::take(batch).lines;
        self.write(&mut |work| {
            let session = match &session {
                Some(session) => session.clone(),
                None => begin(work, agent, id.to_owned(), &path_of(agent, id)?)?,
            };
            for line in &lines {
                work.record(&session, line, None, None)?;
            }
            Ok(session)
        })
    }

    /// A session that a key leads to and that has no transcript.
    fn without_transcript(&mut self, agent: &str, id: &str) -> Result<NativeSession> {
        if let Some(session) = by_id(self.ledger.conn(), agent, id)? {
            return Ok(session);
        }
        let line = header(id, None, None, Timestamp(clock::now_ms())).into_bytes();
        self.store(agent, id, None, &mut Batch { bytes: line.len(), lines: vec![line] })?;
        let found = by_id(self.ledger.conn(), agent, id)?;
        found.ok_or_else(|| Error::NoMatch { what: "session", name: id.to_owned() })
    }

    /// Notes the keys that are not there yet, and says how many those were.
    fn bind_new(&mut self, bound: &[(&Binding, NativeSession)]) -> Result<u64> {
        if bound.is_empty() {
            return Ok(0);
        }
        self.write(&mut |work| {
            let mut added = 0;
            for (binding, session) in bound {
                if is_noted(work.tx, &session.agent, &binding.key)? {
                    continue;
                }
                let mut fields = binding.fields.clone();
                fields.remove("sessionId");
                // A plain name says nothing that the key and the id do not say.
                if fields.get("sessionFile").and_then(|file| file.as_str()).is_some_and(is_plain) {
                    fields.remove("sessionFile");
                }
                bind(work, session, &binding.key, fields)?;
                work.settle()?;
                added += 1;
            }
            Ok(added)
        })
    }
}

const INDEX: &str = "sessions.json";

/// Lines that wait to be stored.
#[derive(Debug, Default)]
struct Batch {
    lines: Vec<Vec<u8>>,
    bytes: usize,
}

/// A hash of the first bytes of something.
struct Prefix {
    hash: blake3::Hasher,
    taken: u64,
    most: u64,
}

impl Prefix {
    fn of(most: u64) -> Prefix {
        Prefix { hash: blake3::Hasher::new(), taken: 0, most }
    }

    fn add(&mut self, bytes: &[u8]) {
        let left = usize::try_from(self.most - self.taken).unwrap_or(usize::MAX);
        let bytes = bytes.get(..left).unwrap_or(bytes);
        self.hash.update(bytes);
        self.taken += bytes.len() as u64;
    }
}

fn read_index(folder: &Path) -> Result<Index> {
    let path = folder.join(INDEX);
    let mut file = open_source(folder, &path).map_err(Error::io("open", &path))?;
    let mut bytes = Vec::new();
    let mut limited = std::io::Read::take(&mut file, LARGEST_INDEX);
    std::io::Read::read_to_end(&mut limited, &mut bytes).map_err(Error::io("read", &path))?;
    Ok(whole_index(&bytes))
}

/// The id of a thread's session. Its file is named after both, and so is the session, unless a key
/// says that the thread is all that the name adds.
fn thread_id(name: &str, bindings: &[&Binding], names: &HashSet<String>) -> Option<String> {
    bindings.iter().find_map(|binding| {
        let id = binding.fields.get("sessionId")?.as_str()?;
        let key = SessionKey::parse(binding.key.as_str());
        let is_thread = name == format!("{id}-topic-{}", key.thread()?);
        (is_thread && !names.contains(id)).then(|| id.to_owned())
    })
}

fn path_of(agent: &str, id: &str) -> Result<String> {
    let is_printable = !id.chars().chain(agent.chars()).any(char::is_control);
    native::transcript_path(agent, id).filter(|_| is_printable).ok_or_else(|| {
        Error::refused("ids of agents and sessions are 1 to 180 printable characters")
    })
}

fn is_plain(file: &str) -> bool {
    !file.contains(['/', '\\'])
}

fn is_noted(conn: &Connection, agent: &str, key: &str) -> Result<bool> {
    let Some(index) = index_of(conn, agent)? else { return Ok(false) };
    let found: Option<i64> = conn
        .prepare_cached("SELECT 1 FROM session_keys WHERE source = ?1 AND key = ?2")?
        .query_row((index, key), |row| row.get(0))
        .optional()?;
    Ok(found.is_some())
}

/// Whether an error is about the ledger, and not about one file.
fn is_the_ledgers(error: &Error) -> bool {
    !matches!(error, Error::Refused { .. } | Error::Exists { .. } | Error::Io { .. })
}

/// An error with its cause.
fn said(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
