//! Batches of sessions that wait to be stored together, because a commit takes longer than most
//! sessions.
//!
//! Errors of a file are found before anything is written, so they never affect other files of the
//! transaction. The transaction checks again that each session is as it was when it was compared.
//! Each line is therefore stored once, even if another process writes to the same session.

use std::time::{Duration, Instant};

use quipu_transcript::index::Binding;
use rusqlite::{Connection, OptionalExtension};

use super::super::Fields;
use super::super::sessions::NativeSession;
use super::super::sessions::{begin, bind, set_deleted};
use super::super::work::{FORMAT, Work};
use super::path_of;
use super::read::{Content, Group};
use crate::Result;
use crate::read::query::native_keys::{index_of, source_of};
use crate::wire::ImportedFile;

/// The number of bytes after which a batch is full. The last line or session may exceed it. The
/// limit bounds the memory and the length of a transaction.
pub(super) const MAX_BATCH_BYTES: usize = 4 << 20;

/// The number of sessions after which a batch is full. It bounds the length of a transaction with
/// many small sessions.
const MAX_BATCH_SESSIONS: usize = 500;

/// The age at which a transaction takes no further session, so that other processes can write.
const MAX_TRANSACTION_TIME: Duration = Duration::from_millis(200);

/// A key that leads to a session, and the number of the index that holds it.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexKey<'a> {
    pub(super) binding: &'a Binding,
    pub(super) index: usize,
}

/// A stored session, and its length in bytes when it was compared with its files; `None` if it is
/// not stored yet.
pub(super) type StoredSession = Option<(NativeSession, u64)>;

/// Lines to append to a session, and the keys that lead to it.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    pub(super) agent: &'a str,
    pub(super) id: String,
    /// The session that the lines continue.
    pub(super) known: StoredSession,
    pub(super) lines: Vec<Vec<u8>>,
    pub(super) keys: Vec<IndexKey<'a>>,
    /// True if OpenClaw has deleted the session.
    pub(super) is_deleted: bool,
}

/// A session whose lines are stored. `is_new` holds, for each of its keys, whether the key is new.
pub(super) struct Stored {
    pub(super) session: NativeSession,
    pub(super) is_new: Vec<bool>,
}

impl Piece<'_> {
    fn bytes(&self) -> usize {
        self.lines.iter().map(Vec::len).sum()
    }

    /// Returns whether the ledger lacks the session, a line or a key.
    pub(super) fn is_new(&self, conn: &Connection) -> Result<bool> {
        for key in &self.keys {
            if !is_key_stored(conn, self.agent, &key.binding.key)? {
                return Ok(true);
            }
        }
        match &self.known {
            Some((session, _)) if self.lines.is_empty() => {
                Ok(is_marked_deleted(conn, session)? != self.is_deleted(conn)?)
            }
            _ => Ok(true),
        }
    }

    /// Returns whether the session is deleted: OpenClaw has deleted it, and no key leads to it.
    fn is_deleted(&self, conn: &Connection) -> Result<bool> {
        if !self.is_deleted || !self.keys.is_empty() {
            return Ok(false);
        }
        let has_key: bool = conn
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM session_keys
                                 WHERE session_id = ?1 AND format = ?2 AND agent = ?3)",
            )?
            .query_row((&self.id, FORMAT.name(), self.agent), |row| row.get(0))?;
        Ok(!has_key)
    }

    /// Appends the lines and stores the keys; returns `None` if the session has changed since it
    /// was compared.
    pub(super) fn store(&self, work: &mut Work<'_, '_>) -> Result<Option<Stored>> {
        let session = match &self.known {
            Some((session, compared)) => match length(work.tx, session)? {
                Some(length) if length == *compared || self.lines.is_empty() => session.clone(),
                _ => return Ok(None),
            },
            None => {
                let path = path_of(self.agent, &self.id)?;
                if source_of(work.tx, path.as_bytes())?.is_some() {
                    return Ok(None);
                }
                begin(work, self.agent, self.id.clone(), &path)?
            }
        };
        for line in &self.lines {
            work.record(&session, line, None, None)?;
        }
        let is_deleted = self.is_deleted(work.tx)?;
        set_deleted(work, &session, is_deleted)?;
        let mut is_new = Vec::new();
        for key in &self.keys {
            is_new.push(bind_new(work, &session, key.binding)?);
        }
        Ok(Some(Stored { session, is_new }))
    }
}

fn is_marked_deleted(conn: &Connection, session: &NativeSession) -> Result<bool> {
    Ok(conn
        .prepare_cached("SELECT is_gone FROM sources WHERE id = ?1")?
        .query_row([session.source], |row| row.get(0))?)
}

/// Returns the length of a session in bytes; `None` if it was forgotten.
fn length(conn: &Connection, session: &NativeSession) -> Result<Option<u64>> {
    let cursor: Option<i64> = conn
        .prepare_cached(
            "SELECT g.cursor FROM sources f JOIN generations g ON g.id = f.generation
              WHERE f.id = ?1 AND f.refused IS NULL",
        )?
        .query_row([session.source], |row| row.get(0))
        .optional()?;
    Ok(cursor.map(i64::cast_unsigned))
}

/// Stores a key unless it is stored already. Returns whether it is new.
fn bind_new(work: &mut Work<'_, '_>, session: &NativeSession, binding: &Binding) -> Result<bool> {
    if is_key_stored(work.tx, &session.agent, &binding.key)? {
        return Ok(false);
    }
    // A plain file name adds nothing to the key and the id.
    let file = binding.fields.get("sessionFile").and_then(|file| file.as_str());
    let is_plain = file.is_some_and(|file| !file.contains(['/', '\\']));
    let mut fields = Fields::of(binding);
    fields.retain(|name| name != "sessionId" && (name != "sessionFile" || !is_plain));
    bind(work, session, &binding.key, fields)?;
    Ok(true)
}

fn is_key_stored(conn: &Connection, agent: &str, key: &str) -> Result<bool> {
    let Some(index) = index_of(conn, agent)? else { return Ok(false) };
    Ok(conn
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM session_keys WHERE source = ?1 AND key = ?2)",
        )?
        .query_row((index, key), |row| row.get(0))?)
}

/// A session that waits for the next transaction.
pub(super) struct Waiting<'a> {
    pub(super) step: Step<'a>,
    /// The reports on its files.
    pub(super) reports: Vec<ImportedFile>,
    /// Its files, in case they must be read again.
    pub(super) group: Group,
}

/// The next step for a session.
pub(super) enum Step<'a> {
    /// Compares the content of the files with the stored session.
    Compare { content: Content, known: Option<NativeSession>, keys: Vec<IndexKey<'a>> },
    /// Stores the new lines and keys.
    Store(Piece<'a>),
    /// Only reports: the session cannot be imported, or is stored already.
    Report,
}

impl Step<'_> {
    fn bytes(&self) -> usize {
        match self {
            Step::Compare { content, .. } => usize::try_from(content.length).unwrap_or(usize::MAX),
            Step::Store(piece) => piece.bytes(),
            Step::Report => 0,
        }
    }
}

/// Sessions that wait to be stored.
#[derive(Default)]
pub(super) struct Batch<'a> {
    waiting: Vec<Waiting<'a>>,
    bytes: usize,
}

impl<'a> Batch<'a> {
    pub(super) fn push(&mut self, waiting: Waiting<'a>) {
        self.bytes += waiting.step.bytes();
        self.waiting.push(waiting);
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MAX_BATCH_BYTES || self.waiting.len() >= MAX_BATCH_SESSIONS
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn waiting_mut(&mut self) -> impl Iterator<Item = &mut Waiting<'a>> {
        self.waiting.iter_mut()
    }

    /// Returns whether any session has something to write.
    pub(super) fn writes(&self) -> bool {
        self.waiting.iter().any(|waiting| matches!(waiting.step, Step::Store(_)))
    }

    /// Stores waiting sessions for [`MAX_TRANSACTION_TIME`], and always the first one.
    pub(super) fn store(&self, work: &mut Work<'_, '_>) -> Result<Vec<Option<Stored>>> {
        let began = Instant::now();
        let mut stored = Vec::new();
        for waiting in &self.waiting {
            if !stored.is_empty() && began.elapsed() > MAX_TRANSACTION_TIME {
                break;
            }
            stored.push(match &waiting.step {
                Step::Store(piece) => piece.store(work)?,
                _ => None,
            });
        }
        Ok(stored)
    }

    /// Returns the result of [`Batch::store`] for a batch with nothing to write.
    pub(super) fn nothing_stored(&self) -> Vec<Option<Stored>> {
        self.waiting.iter().map(|_| None).collect()
    }

    /// Removes the first `number` sessions and returns them.
    pub(super) fn take(&mut self, number: usize) -> Vec<Waiting<'a>> {
        let number = number.min(self.waiting.len());
        let taken: Vec<Waiting<'a>> = self.waiting.drain(..number).collect();
        self.bytes = self.waiting.iter().map(|waiting| waiting.step.bytes()).sum();
        taken
    }
}
