//! The store: sessions that agent runtimes keep in the ledger. A native session is a source whose
//! lines come through [`Session::append`], so every reader of sessions reads it too.
//!
//! Never edits history: a branch, a moved leaf, a label and a reset are appended lines. When a call
//! returns, its lines are on disk (`synchronous = FULL`). After an append, the projection follows
//! within 50 milliseconds, or as soon as a call needs it. Every other write includes its
//! projection.

mod append;
mod append_all;
mod compact;
mod compact_fork;
mod context;
mod core;
mod due;
mod events;
mod flush;
#[cfg(test)]
mod flush_tests;
mod fork;
mod import;
mod keys;
mod look;
pub(crate) mod meta;
pub(crate) mod openclaw_names;
mod projector;
#[cfg(test)]
mod recent_tests;
mod repair;
mod route;
pub mod senders;
mod session;
pub(crate) mod sessions;
mod summarise;
mod tree;
mod turn;
mod unprojected;
mod work;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

pub use self::append::{Append, Expect};
pub use self::append_all::AppendCall;
pub use self::compact::{
    Compact, CompactionPlan, CompactionSettings, headroom_of, plan_compaction_of,
};
pub use self::events::{Phase, StoreEvent};
pub use self::flush::{FlushPlan, plan_flush_of};
pub use self::fork::{Fork, Forked};
pub use self::keys::registry;
pub use self::look::{
    branches_of, has_all_sessions, labels_of, leaf_of, meta_of, open_for_lines, open_projected,
};
pub use self::repair::{Repair, Repaired, repair_of};
pub use self::route::{Routed, bootstrap_of};
pub use self::session::{Appender, Session};
pub use self::sessions::NewSession;
pub use self::summarise::{Digest, MAX_SUMMARY_BYTES, Summariser};
pub use self::tree::{Branch, Node};
pub use crate::truth::fields::Fields;
pub use crate::wire::{Appended, Compacted, Flush, Headroom, Label, Reason, WindowFrom};
pub use quipu_transcript::context::{Context, Message};
pub use quipu_transcript::native::Entry;

use self::context::Cache;
use self::core::Core;
use self::events::Listeners;
use self::work::Work;
use crate::Result;
use crate::file::ledger::Ledger;

/// A ledger that is open as a session store.
///
/// A clone is another handle to the same store. Several threads can use handles; their calls wait
/// for each other. When the last handle and the last [`Session`] are dropped, the projection is
/// completed and the ledger is closed.
///
/// ```
/// use quipu_ledger::{Entry, Store};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("ledger.db");
/// let store = Store::open(&path)?;
/// let session = store.session_or_new("agent:main:main")?;
/// session.append(Entry::user("hello"))?;
///
/// // The same session, from another thread.
/// let store = store.clone();
/// let thread = std::thread::spawn(move || store.session("agent:main:main")?.context());
/// assert_eq!(thread.join().unwrap()?.messages.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Store {
    core: Arc<Mutex<Core>>,
    listeners: Listeners,
}

impl Store {
    /// Opens the ledger at `path` as a store, creating it if there is none.
    pub fn open(path: impl AsRef<Path>) -> Result<Store> {
        Store::of(Ledger::open(path.as_ref())?)
    }

    /// Returns a store that writes to an open ledger.
    pub fn of(ledger: Ledger) -> Result<Store> {
        let core = Arc::new(Mutex::new(Core::of(ledger)?));
        Ok(Store { core, listeners: Listeners::default() })
    }

    /// Opens the ledger again for reading, with everything that was appended so far.
    pub fn reader(&self) -> Result<Ledger> {
        let path = {
            let mut core = self.core();
            core.catch_up()?;
            core.ledger.path().to_owned()
        };
        Ledger::open_read_only(&path)
    }

    /// Returns whether the ledger's path leads to another file now, or to none.
    pub fn is_replaced(&self) -> bool {
        self.core().ledger.is_replaced()
    }

    /// Projects everything that was appended, for readers that cannot project.
    pub fn catch_up(&self) -> Result<()> {
        self.core().catch_up()
    }

    /// Sets the longest time that a call waits for an unfinished rebuild of the projection; ten
    /// minutes by default. After that, the call fails with [`crate::Error::Behind`].
    pub fn set_longest_catch_up(&self, longest: Duration) {
        self.core().ledger.set_longest_catch_up(longest);
    }

    /// Sets the longest time that a call waits for another writer before it fails; ten seconds by
    /// default.
    pub fn set_longest_wait(&self, longest: Duration) -> Result<()> {
        self.core().ledger.set_longest_wait(longest)
    }

    /// Returns the number of records decoded for contexts so far.
    pub fn records_decoded(&self) -> u64 {
        self.core().cache.decoded()
    }

    /// Locks the ledger. Waits until no other call uses it.
    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(|poisoned| {
            // The transaction of the call that panicked was rolled back, but the cached state was
            // not.
            let mut core = poisoned.into_inner();
            core.drop_cached();
            core.cache = Cache::default();
            self.core.clear_poison();
            core
        })
    }

    /// Runs `work` in one durable transaction, on a projection that is up to date.
    fn write<T>(&self, work: &mut dyn FnMut(&mut Work<'_, '_>) -> Result<T>) -> Result<T> {
        self.core().write(work)
    }

    /// Runs `read` in one snapshot whose projection has everything appended before the call.
    fn read_caught_up<T>(&self, read: &mut dyn FnMut(&Ledger) -> Result<T>) -> Result<T> {
        self.core().read_caught_up(read)
    }
}
