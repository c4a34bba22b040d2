//! Sessions that were read and wait to be stored, many of them in one transaction: a commit that waits
//! for the disk takes longer than most sessions.
//!
//! What is wrong with a file is found before anything is written, so it does not concern the others
//! of its transaction. Whether a session is still what it was when its file was compared with it is
//! looked at in the transaction: whoever else writes, each line is stored once.

use std::time::{Duration, Instant};

use quipu_transcript::index::Binding;
use rusqlite::{Connection, OptionalExtension};

use super::super::sessions::{begin, bind};
use super::super::work::Work;
use super::super::{Fields, NativeSession};
use super::path_of;
use super::read::{Content, Group};
use crate::Result;
use crate::read::query::native_keys::{index_of, source_of};
use crate::wire::ImportedFile;

/// So many bytes are stored at once, and what the last line has beyond that.
pub(super) const MOST_BYTES: usize = 4 << 20;

/// … of so many sessions.
const MOST_SESSIONS: usize = 500;

/// A transaction that is older takes up no further session: others want to write, too.
const LONGEST: Duration = Duration::from_millis(200);

/// A key that leads to a session, and the number of the index that says so.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key<'a> {
    pub(super) binding: &'a Binding,
    pub(super) index: usize,
}

/// A session that is there, and how many bytes of it are those of its files.
pub(super) type Known = Option<(NativeSession, u64)>;

/// Lines that are to be appended to a session, and the keys that lead to it.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    pub(super) agent: &'a str,
    pub(super) id: String,
    /// The session, and how much of it was compared; `None`: there is none yet.
    pub(super) known: Known,
    pub(super) lines: Vec<Vec<u8>>,
    pub(super) keys: Vec<Key<'a>>,
}

/// A session whose lines are in the ledger, and for each of its keys whether it is new there.
pub(super) struct Stored {
    pub(super) session: NativeSession,
    pub(super) is_new: Vec<bool>,
}

impl Piece<'_> {
    fn bytes(&self) -> usize {
        self.lines.iter().map(Vec::len).sum()
    }

    /// Whether anything of it is not there yet.
    pub(super) fn is_new(&self, conn: &Connection) -> Result<bool> {
        for key in &self.keys {
            if !is_noted(conn, self.agent, &key.binding.key)? {
                return Ok(true);
            }
        }
        Ok(self.known.is_none() || !self.lines.is_empty())
    }

    /// Appends the lines and notes the keys; `None` if the session is not what it was.
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
        let mut is_new = Vec::new();
        for key in &self.keys {
            is_new.push(bind_new(work, &session, key.binding)?);
        }
        Ok(Some(Stored { session, is_new }))
    }
}

/// How many bytes a session has; `None` if it was forgotten.
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

/// Notes a key that is not there yet.
fn bind_new(work: &mut Work<'_, '_>, session: &NativeSession, binding: &Binding) -> Result<bool> {
    if is_noted(work.tx, &session.agent, &binding.key)? {
        return Ok(false);
    }
    // A plain name says nothing that the key and the id do not say.
    let file = binding.fields.get("sessionFile").and_then(|file| file.as_str());
    let is_plain = file.is_some_and(|file| !file.contains(['/', '\\']));
    let mut fields = Fields::of(binding);
    fields.retain(|name| name != "sessionId" && (name != "sessionFile" || !is_plain));
    bind(work, session, &binding.key, fields)?;
    Ok(true)
}

fn is_noted(conn: &Connection, agent: &str, key: &str) -> Result<bool> {
    let Some(index) = index_of(conn, agent)? else { return Ok(false) };
    Ok(conn
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM session_keys WHERE source = ?1 AND key = ?2)",
        )?
        .query_row((index, key), |row| row.get(0))?)
}

/// A session whose turn comes with the next transaction.
pub(super) struct Waiting<'a> {
    pub(super) step: Step<'a>,
    /// What is told of its files then.
    pub(super) told: Vec<ImportedFile>,
    /// Its files, in case that they have to be read once more.
    pub(super) group: Group,
}

/// What is to be done with a session.
pub(super) enum Step<'a> {
    /// What was read is compared with what is there.
    Compare { content: Content, known: Option<NativeSession>, keys: Vec<Key<'a>> },
    /// What is new is stored.
    Store(Piece<'a>),
    /// Nothing but to tell of it: it cannot be imported, or was.
    Tell,
}

impl Step<'_> {
    fn bytes(&self) -> usize {
        match self {
            Step::Compare { content, .. } => usize::try_from(content.length).unwrap_or(usize::MAX),
            Step::Store(piece) => piece.bytes(),
            Step::Tell => 0,
        }
    }
}

/// What waits to be stored.
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
        self.bytes >= MOST_BYTES || self.waiting.len() >= MOST_SESSIONS
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn waiting_mut(&mut self) -> impl Iterator<Item = &mut Waiting<'a>> {
        self.waiting.iter_mut()
    }

    /// Whether there is anything to write.
    pub(super) fn writes(&self) -> bool {
        self.waiting.iter().any(|waiting| matches!(waiting.step, Step::Store(_)))
    }

    /// Stores what is waiting, as far as there is time for it; the first in any case.
    pub(super) fn store(&self, work: &mut Work<'_, '_>) -> Result<Vec<Option<Stored>>> {
        let began = Instant::now();
        let mut stored = Vec::new();
        for waiting in &self.waiting {
            if !stored.is_empty() && began.elapsed() > LONGEST {
                break;
            }
            stored.push(match &waiting.step {
                Step::Store(piece) => piece.store(work)?,
                _ => None,
            });
        }
        Ok(stored)
    }

    /// What [`Batch::store`] gives if nothing is to be written.
    pub(super) fn nothing(&self) -> Vec<Option<Stored>> {
        self.waiting.iter().map(|_| None).collect()
    }

    /// Takes out the first ones.
    pub(super) fn take(&mut self, number: usize) -> Vec<Waiting<'a>> {
        let number = number.min(self.waiting.len());
        let taken: Vec<Waiting<'a>> = self.waiting.drain(..number).collect();
        self.bytes = self.waiting.iter().map(|waiting| waiting.step.bytes()).sum();
        taken
    }
}
