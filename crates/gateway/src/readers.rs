//! A few connections to the ledger that only read, on threads that may block.
//!
//! Each answer is read from one snapshot. A connection to a file that was replaced is closed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quipu_ledger::collect::RootPath;
use quipu_ledger::freshness::{Freshness, Reader, RefreshLimit, open_to_read};
use quipu_ledger::{Interrupter, Store};
use tokio::sync::Semaphore;

use crate::problem::Problem;

/// The number of answers that are read at the same time. More of them would only share the same
/// processors.
const MAX_READERS: usize = 4;

/// The longest time in which records of an append are projected before an answer.
const MAX_CATCH_UP: Duration = Duration::from_millis(300);

/// The connections of one server.
#[derive(Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    may_project: bool,
    idle: Mutex<Vec<Reader>>,
    permits: Arc<Semaphore>,
    /// Collects before each answer, if nothing else collects meanwhile.
    pub(crate) collector: Option<Collector>,
}

/// What is collected before an answer, for a short time.
#[derive(Debug)]
pub struct Collector {
    /// The name of this machine.
    pub machine: String,
    /// The folders to collect from.
    pub roots: Vec<RootPath>,
}

/// Interrupts the query of a request when it is dropped, because the client no longer waits.
#[derive(Debug, Default)]
struct Waiter(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    is_over: bool,
    running: Option<Interrupter>,
}

impl Readers {
    /// Returns connections to the ledger at `path`, which are opened when they are needed.
    pub(crate) fn new(path: PathBuf, may_project: bool) -> Readers {
        let permits = Arc::new(Semaphore::new(MAX_READERS));
        Readers { path, may_project, idle: Mutex::default(), permits, collector: None }
    }

    /// Returns the path of the ledger.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether records that are not projected yet may be projected.
    pub(crate) fn may_project(&self) -> bool {
        self.may_project
    }

    /// Runs `read` like [`Readers::run`], in the ledger as it is: nothing is projected first.
    pub(crate) async fn run_as_is<T: Send + 'static>(
        self: Arc<Self>,
        read: impl FnOnce(&Reader, Freshness) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            self.read_as_is(read)
        });
        task.await.unwrap_or_else(|_| Err(Problem::failed()))
    }

    /// Runs `read` on this thread, in the ledger as it is.
    pub(crate) fn read_as_is<T>(
        &self,
        read: impl FnOnce(&Reader, Freshness) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let (reader, freshness) = self.begin(false)?;
        let done = read(&reader, freshness);
        self.keep(reader);
        done
    }

    /// Keeps a connection for a later answer.
    fn keep(&self, reader: Reader) {
        let mut idle = lock(&self.idle);
        if idle.len() < MAX_READERS && reader.release().is_ok() {
            idle.push(reader);
        }
    }

    /// Runs `read` on a thread that may block, in one snapshot. If the returned future is dropped,
    /// the running query is ended. A panic is a problem like any other.
    pub(crate) async fn run<T: Send + 'static>(
        self: Arc<Self>,
        read: impl FnOnce(&Reader, Freshness) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let waiter = Waiter::default();
        let waiting = Arc::clone(&waiter.0);
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            self.read(&waiting, read)
        });
        let done = task.await;
        drop(waiter);
        done.unwrap_or_else(|_| Err(Problem::failed()))
    }

    fn read<T>(
        &self,
        waiting: &Mutex<Waiting>,
        read: impl FnOnce(&Reader, Freshness) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let (reader, freshness) = self.begin(self.may_project)?;
        {
            let mut waiting = lock(waiting);
            if waiting.is_over {
                return Err(Problem::too_slow());
            }
            waiting.running = Some(reader.ledger.interrupter());
        }
        let done = read(&reader, freshness);
        // From here on the connection belongs to another answer.
        lock(waiting).running = None;
        if self.collector.is_none() {
            self.keep(reader);
        }
        done
    }

    /// Returns a connection with a snapshot. `projects` projects what an append has left, if that takes
    /// a moment only.
    fn begin(&self, projects: bool) -> Result<(Reader, Freshness), Problem> {
        if let Some(Collector { machine, roots }) = &self.collector {
            let mut reader = open_to_read(&self.path, machine)?;
            let freshness = reader.refresh(roots, machine, RefreshLimit::Short, &mut |_| {})?;
            return Ok((reader, freshness));
        }
        let idle = lock(&self.idle).pop().filter(|reader| !reader.is_replaced());
        let mut reader = match idle {
            Some(reader) => reader,
            None => Reader::read_only(&self.path)?,
        };
        let refresh =
            |reader: &mut Reader| reader.refresh(&[], "", RefreshLimit::None, &mut |_| {});
        let mut freshness = refresh(&mut reader)?;
        if freshness.unprojected > 0 && projects && self.project().is_ok() {
            freshness = refresh(&mut reader)?;
        }
        Ok((reader, freshness))
    }

    /// Projects what a runtime has appended, if that takes a moment only. Otherwise the answer counts
    /// what is missing from it.
    pub(crate) fn project(&self) -> quipu_ledger::Result<()> {
        let store = Store::open(&self.path)?;
        store.set_longest_wait(MAX_CATCH_UP)?;
        store.set_longest_catch_up(MAX_CATCH_UP);
        store.catch_up()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiting = lock(&self.0);
        waiting.is_over = true;
        if let Some(running) = &waiting.running {
            running.interrupt();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Nothing is left half changed by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
