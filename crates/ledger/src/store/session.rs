//! The handle of one session, with everything that a runtime does with it.
//!
//! Never holds a transaction between two calls.

use std::sync::Arc;

use quipu_transcript::native::Entry;

use super::append::{Append, Expect};
use super::sessions::{self, NativeSession};
use super::{Appended, Label, Store, fork};
use crate::Result;
use crate::base::ids::SessionRow;
use crate::read::query::complete::complete;

/// A session of a store.
///
/// Sessions share the store, so any number of them can be open at once. Each can move to another
/// thread.
///
/// ```
/// use quipu_ledger::{Entry, Store};
///
/// # let folder = tempfile::tempdir()?;
/// # let store = Store::open(folder.path().join("ledger.db"))?;
/// let session = store.session_or_new("agent:main:main")?;
/// let turn = session.begin_turn(Entry::user("What is in README?"))?;
/// session.at(&turn.id).append(Entry::assistant("A title."))?;
///
/// // Go back, and answer otherwise. Both answers stay.
/// session.branch(Some(&turn.id), None)?;
/// session.append(Entry::assistant("A title and a list."))?;
/// assert_eq!(session.branches()?.len(), 2);
/// assert_eq!(session.context()?.messages.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Session {
    pub(super) store: Store,
    pub(super) native: NativeSession,
}

/// Equality of handles: the same store and the same session.
impl PartialEq for Session {
    fn eq(&self, other: &Session) -> bool {
        self.native == other.native && self.is_of(&other.store)
    }
}

impl Eq for Session {}

impl Session {
    /// Returns the session's id.
    pub fn id(&self) -> &str {
        &self.native.id
    }

    /// Returns the name of the agent that the session belongs to.
    pub fn agent(&self) -> &str {
        &self.native.agent
    }

    /// Returns the number of the session's row, by which functions of [`crate::query`] identify it.
    pub fn row(&self) -> SessionRow {
        self.native.row
    }

    /// Returns the key that leads to the session; `None` if the key leads to another session by
    /// now.
    pub fn key(&self) -> Result<Option<String>> {
        let core = self.store.core();
        complete(&core.ledger, &mut |conn| sessions::key_of(conn, &self.native))
    }

    /// Returns the store that the session belongs to.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns whether the session belongs to a store.
    pub(super) fn is_of(&self, store: &Store) -> bool {
        Arc::ptr_eq(&self.store.core, &store.core)
    }

    /// Returns the labels of the session's entries, in the order in which they were first given.
    pub fn labels(&self) -> Result<Vec<Label>> {
        self.store.read_caught_up(&mut |ledger| fork::labels(ledger.conn(), self.native.row))
    }

    /// Appends an entry. Fills in its id, its time and its parent (the leaf) unless the entry has
    /// them.
    ///
    /// ```
    /// use quipu_ledger::{Entry, Store};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let store = Store::open(folder.path().join("ledger.db"))?;
    /// let session = store.session_or_new("agent:main:main")?;
    /// session.append(Entry::user("hello"))?;
    /// session.append(Entry::json(r#"{"role":"assistant","content":"hi"}"#))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append(&self, entry: impl Into<Entry>) -> Result<Appended> {
        self.with(Append::default()).append(entry)
    }

    /// Begins a turn with a user's message. See [`Appender::begin_turn`].
    pub fn begin_turn(&self, message: impl Into<Entry>) -> Result<Appended> {
        self.with(Append::default()).begin_turn(message)
    }

    /// Moves the leaf to an entry, or before the first one. See [`Appender::branch`].
    pub fn branch(&self, to: Option<&str>, summary: Option<&str>) -> Result<Appended> {
        self.with(Append::default()).branch(to, summary)
    }

    /// Sets the label of an entry, or removes it.
    pub fn label(&self, target: &str, label: Option<&str>) -> Result<Appended> {
        self.with(Append::default()).label(target, label)
    }

    /// Empties the conversation. See [`Appender::reset`].
    pub fn reset(&self, reason: &str, keep: Option<&str>) -> Result<Appended> {
        self.with(Append::default()).reset(reason, keep)
    }

    /// Stores a text that was sent to a channel, as an answer that no model wrote.
    pub fn mirror(&self, text: &str) -> Result<Appended> {
        self.with(Append::default()).mirror(text)
    }

    /// Returns an appender that fails with [`crate::Error::Conflict`] if `leaf` is no longer the
    /// leaf.
    pub fn at<'a>(&'a self, leaf: &'a str) -> Appender<'a> {
        self.with(Append { expected_leaf: Expect::Entry(leaf), ..Append::default() })
    }

    /// Returns an appender with these conditions.
    pub fn with<'a>(&'a self, conditions: Append<'a>) -> Appender<'a> {
        Appender { session: self, conditions }
    }
}

/// Appends to a session under conditions: an expected leaf, an idempotency key.
///
/// ```
/// use quipu_ledger::{Append, Entry, Error, Store};
///
/// # let folder = tempfile::tempdir()?;
/// # let store = Store::open(folder.path().join("ledger.db"))?;
/// let session = store.session_or_new("agent:main:main")?;
/// let turn = session.begin_turn(Entry::user("hello"))?;
/// let answer = Append { key: Some("run-7"), ..Append::default() };
/// let first = session.with(answer).append(Entry::assistant("hi"))?;
/// let retry = session.with(answer).append(Entry::assistant("hi"))?;
/// assert_eq!((retry.id, retry.repeated), (first.id, true));
///
/// let late = session.at(&turn.id).append(Entry::assistant("hello"));
/// assert!(matches!(late, Err(Error::Conflict { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Appender<'a> {
    pub(super) session: &'a Session,
    pub(super) conditions: Append<'a>,
}
