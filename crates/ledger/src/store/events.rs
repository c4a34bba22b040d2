//! Events for listeners in this process, about work that takes long or that other parts of a
//! program may want to show.
//!
//! A listener is called without any lock, so that it may call the store. Never carries the text of a
//! transcript.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::Store;
use crate::wire::{Flush, Reason};

/// A report on the work of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StoreEvent {
    /// A compaction begins, is stored, or has failed.
    #[serde(rename_all = "snake_case")]
    Compaction {
        /// The session.
        session_id: String,
        /// The step that was reached.
        phase: Phase,
        /// The reason for the compaction.
        reason: Reason,
        /// The tokens of the context before it.
        tokens_before: u64,
        /// The tokens of the context after it, at its end.
        tokens_after: Option<u64>,
        /// The entry, at its end.
        entry_id: Option<String>,
    },
    /// A model was asked for notes.
    #[serde(rename = "memory.flush", rename_all = "snake_case")]
    MemoryFlush {
        /// The session.
        session_id: String,
        /// The result of the question.
        #[serde(flatten)]
        flush: Flush,
    },
}

/// A step of work that takes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It begins.
    Start,
    /// It is stored.
    End,
    /// It has failed, and nothing was stored.
    Failed,
}

type Listener = Arc<dyn Fn(&StoreEvent) + Send + Sync>;

/// The listeners of a store.
#[derive(Clone, Default)]
pub(super) struct Listeners(Arc<Mutex<Vec<Listener>>>);

impl Listeners {
    fn all(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn emit(&self, event: &StoreEvent) {
        // Copied, because a listener may add another one.
        let listeners = self.all().clone();
        for listener in listeners {
            listener(event);
        }
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Listeners").field(&self.all().len()).finish()
    }
}

impl Store {
    /// Calls `listener` with every event of this store, in the thread that caused it.
    pub fn listen(&self, listener: impl Fn(&StoreEvent) + Send + Sync + 'static) {
        self.listeners.all().push(Arc::new(listener));
    }
}
