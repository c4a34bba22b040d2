//! The thread that owns the store. It takes the appends that wait, stores them in one transaction,
//! and answers all of them after the commit: one sync of the disk is enough for many clients.
//!
//! Never answers before the entries are on disk.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quipu_ledger::Store;
use quipu_ledger::store::{Append, AppendCall, Appended, CompactionSettings, Entry, Session};
use tokio::sync::oneshot;

use super::given::expect;
use crate::live::Live;
use crate::problem::Problem;

/// The largest number of calls in one transaction, so that other processes can write in between.
const MAX_CALLS: usize = 256;

/// The size of bodies at which a transaction takes no further call, in bytes.
const MAX_BYTES: usize = 4 << 20;

/// The number of sessions whose handles are kept.
const MAX_KNOWN: usize = 1024;

/// The longest wait for the current transaction when the server stops.
const MAX_END: Duration = Duration::from_millis(700);

/// Entries to append to one session, together or not at all.
#[derive(Debug)]
pub(crate) struct AppendJob {
    /// The name of the session.
    pub(crate) session: String,
    /// The only agent that the caller may write to.
    pub(crate) agent: Option<String>,
    pub(crate) entries: Vec<Entry>,
    /// The size of the request's body.
    pub(crate) bytes: usize,
    pub(crate) expected_leaf: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) begins_turn: bool,
    /// True if the caller wants to know what is due.
    pub(crate) measures: bool,
}

/// The answer to an append.
type Answered = Result<(Session, Vec<Appended>), Problem>;

/// An append, and where its answer goes.
type WaitingAppend = (AppendJob, oneshot::Sender<Answered>);

/// Work with the store, or with the reason why it cannot be opened.
type Run = Box<dyn FnOnce(Result<&Store, Problem>) + Send>;

enum Job {
    Append(WaitingAppend),
    /// Anything else, in transactions of its own.
    Run(Run),
}

/// A handle to the thread.
#[derive(Debug)]
pub(crate) struct StoreThread {
    path: PathBuf,
    compaction: CompactionSettings,
    live: Option<Arc<Live>>,
    is_over: Arc<AtomicBool>,
    /// The thread, once the first job came.
    running: Mutex<Option<Running>>,
    /// The number of transactions with appends.
    transactions: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Running {
    jobs: Sender<Job>,
    /// Disconnected when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

impl StoreThread {
    /// Returns a thread for the ledger at `path`, which is started with the first job.
    pub(crate) fn new(path: PathBuf, compaction: CompactionSettings) -> StoreThread {
        let (is_over, transactions) = (Arc::default(), Arc::default());
        let (live, running) = (None, Mutex::default());
        StoreThread { path, compaction, live, is_over, running, transactions }
    }

    /// Returns the thread, which tells the streams of events what its store does.
    pub(crate) fn telling(self, live: Arc<Live>) -> StoreThread {
        StoreThread { live: Some(live), ..self }
    }

    /// Appends entries. When this returns them, they are on disk.
    pub(crate) async fn append(&self, job: AppendJob) -> Answered {
        let (answer, answered) = oneshot::channel();
        self.send(Job::Append((job, answer)))?;
        self.answer(answered.await.ok())
    }

    /// Runs `work` on the thread, between two transactions.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let (answer, answered) = oneshot::channel();
        let run = move |store: Result<&Store, Problem>| {
            // The work is done even if the client is gone.
            let _ = answer.send(store.and_then(work));
        };
        self.send(Job::Run(Box::new(run)))?;
        self.answer(answered.await.ok())
    }

    /// Ends the thread after its transaction. Waits for that a moment.
    pub(crate) fn stop(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Running { jobs, ended }) = running else { return };
        // A thread that waits for a job then ends.
        drop(jobs);
        let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(MAX_END) {
            // Everything that was acknowledged is on disk; the rest never was.
            tracing::warn!("The store is still busy; the server ends nevertheless.");
        }
    }

    /// Returns the answer, or the reason why there is none.
    fn answer<T>(&self, answered: Option<Result<T, Problem>>) -> Result<T, Problem> {
        match answered {
            Some(answer) => answer,
            None if self.is_over.load(Ordering::SeqCst) => Err(Problem::stopping()),
            // The work panicked.
            None => Err(Problem::failed()),
        }
    }

    fn send(&self, job: Job) -> Result<(), Problem> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_over.load(Ordering::SeqCst) {
            return Err(Problem::stopping());
        }
        if running.is_none() {
            *running = Some(self.start()?);
        }
        let is_sent = running.as_ref().is_some_and(|running| running.jobs.send(job).is_ok());
        is_sent.then_some(()).ok_or_else(Problem::failed)
    }

    fn start(&self) -> Result<Running, Problem> {
        let (jobs, waiting) = channel();
        let (end, ended) = channel();
        let owner = Owner {
            path: self.path.clone(),
            compaction: self.compaction.clone(),
            live: self.live.clone(),
            store: None,
            known: HashMap::new(),
            transactions: Arc::clone(&self.transactions),
        };
        let is_over = Arc::clone(&self.is_over);
        let run = move || {
            owner.run(&waiting, &is_over);
            drop(end);
        };
        let thread = std::thread::Builder::new().name("store".to_owned()).spawn(run);
        thread.map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "Cannot start a thread.");
            Problem::failed()
        })?;
        Ok(Running { jobs, ended: Mutex::new(ended) })
    }
}

/// The store, on its thread.
struct Owner {
    path: PathBuf,
    compaction: CompactionSettings,
    live: Option<Arc<Live>>,
    store: Option<Store>,
    /// Sessions by their whole id, which leads to no other session later.
    known: HashMap<String, Session>,
    transactions: Arc<AtomicU64>,
}

impl Owner {
    fn run(mut self, waiting: &Receiver<Job>, is_over: &AtomicBool) {
        let mut next = None;
        loop {
            let Some(job) = next.take().or_else(|| waiting.recv().ok()) else { return };
            if is_over.load(Ordering::SeqCst) {
                return;
            }
            let done = catch_unwind(AssertUnwindSafe(|| match job {
                Job::Run(run) => {
                    match self.open() {
                        Ok(store) => run(Ok(&store)),
                        Err(error) => run(Err(error.into())),
                    }
                    None
                }
                Job::Append(first) => {
                    let (appends, next) = take_waiting(first, waiting);
                    self.append_all(appends);
                    next
                }
            }));
            // A panic closes the channel of the answer, and `answer` then reports a failure.
            next = done.unwrap_or_else(|_| {
                self.close();
                None
            });
        }
    }

    /// Returns the store, and opens it if that is needed.
    fn open(&mut self) -> quipu_ledger::Result<Store> {
        if self.store.as_ref().is_some_and(Store::is_replaced) {
            self.close();
        }
        if let Some(store) = &self.store {
            return Ok(store.clone());
        }
        let store = Store::open(&self.path)?;
        store.set_compaction(Some(self.compaction.clone()));
        if let Some(live) = self.live.clone() {
            store.listen(move |event| live.pass(event));
        }
        Ok(self.store.insert(store).clone())
    }

    fn close(&mut self) {
        self.known.clear();
        self.store = None;
    }

    /// Appends in one transaction, and answers after its commit.
    fn append_all(&mut self, appends: Vec<WaitingAppend>) {
        let store = match self.open() {
            Ok(store) => store,
            Err(error) => {
                let problem = Problem::from(error);
                appends.into_iter().for_each(|(_, answer)| drop(answer.send(Err(problem.clone()))));
                return;
            }
        };
        let mut found = Vec::with_capacity(appends.len());
        for (job, answer) in appends {
            match self.find(&store, &job) {
                Ok(session) => found.push((session, job, answer)),
                Err(problem) => drop(answer.send(Err(problem))),
            }
        }
        let calls: Vec<AppendCall<'_>> = found
            .iter_mut()
            .map(|(session, job, _)| AppendCall {
                session,
                entries: std::mem::take(&mut job.entries),
                conditions: Append {
                    expected_leaf: expect(job.expected_leaf.as_deref()),
                    key: job.key.as_deref(),
                    part: 0,
                },
                begins_turn: job.begins_turn,
                measures: job.measures,
            })
            .collect();
        let answers = store.append_all(&calls);
        self.transactions.fetch_add(1, Ordering::Relaxed);
        drop(calls);
        match answers {
            Ok(answers) => {
                for ((session, _, answer), appended) in found.into_iter().zip(answers) {
                    let appended = appended.map(|entries| (session, entries));
                    // A client that is gone finds its entries with its key.
                    let _ = answer.send(appended.map_err(Problem::of_write));
                }
            }
            Err(error) => {
                let problem = Problem::of_write(error);
                for (_, _, answer) in found {
                    let _ = answer.send(Err(problem.clone()));
                }
            }
        }
    }

    fn find(&mut self, store: &Store, job: &AppendJob) -> Result<Session, Problem> {
        let is_own =
            |session: &&Session| job.agent.as_deref().is_none_or(|agent| agent == session.agent());
        if let Some(known) = self.known.get(&job.session).filter(is_own) {
            return Ok(known.clone());
        }
        let session = super::find(store, &job.session, job.agent.as_deref())?;
        if session.id() == job.session {
            if self.known.len() >= MAX_KNOWN {
                self.known.clear();
            }
            self.known.insert(job.session.clone(), session.clone());
        }
        Ok(session)
    }
}

/// Returns the appends that wait now, and the job after them if that is of another kind.
fn take_waiting(
    first: WaitingAppend,
    waiting: &Receiver<Job>,
) -> (Vec<WaitingAppend>, Option<Job>) {
    let mut bytes = first.0.bytes;
    let mut appends = vec![first];
    while appends.len() < MAX_CALLS && bytes < MAX_BYTES {
        match waiting.try_recv() {
            Ok(Job::Append(append)) => {
                bytes += append.0.bytes;
                appends.push(append);
            }
            Ok(other) => return (appends, Some(other)),
            Err(_) => break,
        }
    }
    (appends, None)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    struct Fixture {
        folder: tempfile::TempDir,
        thread: StoreThread,
        runtime: tokio::runtime::Runtime,
    }

    impl Fixture {
        fn new() -> Fixture {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("ledger.db");
            Store::open(&path).unwrap().session_or_new("agent:main:main").unwrap();
            let thread = StoreThread::new(path, CompactionSettings::default());
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            Fixture { folder, thread, runtime: runtime.unwrap() }
        }

        /// Sends an append, and returns where its answer will be.
        fn send(&self, key: &str, bytes: usize) -> oneshot::Receiver<Answered> {
            let (answer, answered) = oneshot::channel();
            self.thread.send(Job::Append((job(key, bytes), answer))).unwrap();
            answered
        }

        /// Keeps the thread busy until the returned sender is dropped.
        fn hold(&self) -> mpsc::Sender<()> {
            let (release, held) = mpsc::channel();
            let (begin, begun) = mpsc::channel::<()>();
            let wait = move |_: Result<&Store, Problem>| {
                drop(begin);
                let _ = held.recv();
            };
            self.thread.send(Job::Run(Box::new(wait))).unwrap();
            let _ = begun.recv();
            release
        }

        #[track_caller]
        fn wait(&self, answered: oneshot::Receiver<Answered>) -> Appended {
            let (_, mut appended) = self.runtime.block_on(answered).unwrap().unwrap();
            appended.pop().unwrap()
        }

        fn messages(&self) -> usize {
            let store = Store::open(self.folder.path().join("ledger.db")).unwrap();
            store.session("agent:main:main").unwrap().context().unwrap().messages.len()
        }
    }

    fn job(key: &str, bytes: usize) -> AppendJob {
        AppendJob {
            session: "agent:main:main".to_owned(),
            agent: None,
            entries: vec![Entry::user(key)],
            bytes,
            expected_leaf: None,
            key: Some(key.to_owned()),
            begins_turn: false,
            measures: false,
        }
    }

    #[test]
    fn what_waits_is_stored_in_one_transaction() {
        let fixture = Fixture::new();
        for (calls, bytes, transactions) in [(64, 10, 1), (300, 10, 2), (5, 2 << 20, 3)] {
            let release = fixture.hold();
            let before = fixture.thread.transactions.load(Ordering::SeqCst);
            let waiting: Vec<_> = (0..calls)
                .map(|number| fixture.send(&format!("{calls} {number}"), bytes))
                .collect();
            drop(release);
            let mut last = 0;
            for answered in waiting {
                let appended = fixture.wait(answered);
                assert!(appended.seq.0 > last && !appended.repeated);
                last = appended.seq.0;
            }
            let after = fixture.thread.transactions.load(Ordering::SeqCst);
            assert_eq!(after - before, transactions, "{calls}");
        }
        assert_eq!(fixture.messages(), 64 + 300 + 5);
    }

    #[test]
    fn a_lost_answer_is_found_by_a_retry() {
        let fixture = Fixture::new();
        let release = fixture.hold();
        // The client is gone before the commit.
        drop(fixture.send("run-1", 10));
        drop(release);
        let retry = fixture.wait(fixture.send("run-1", 10));
        assert!(retry.repeated);
        assert_eq!(fixture.messages(), 1);
    }

    #[test]
    fn a_panic_ends_one_request() {
        let fixture = Fixture::new();
        let panics = fixture.thread.run(|store| {
            assert!(store.is_replaced(), "a defect");
            Ok(())
        });
        let problem = fixture.runtime.block_on(panics).unwrap_err();
        assert_eq!(problem.status(), 500);
        assert!(!fixture.wait(fixture.send("after", 10)).repeated);
    }

    #[test]
    fn what_waits_is_not_begun_after_the_end() {
        let fixture = Fixture::new();
        let release = fixture.hold();
        let answered = fixture.send("late", 10);
        std::thread::scope(|scope| {
            let stopping = scope.spawn(|| fixture.thread.stop());
            while !fixture.thread.is_over.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            drop(release);
            stopping.join().unwrap();
        });
        assert!(fixture.runtime.block_on(answered).is_err());
        let refused = fixture.runtime.block_on(fixture.thread.append(job("later", 10)));
        assert_eq!(refused.unwrap_err().status(), 503);
        assert_eq!(fixture.messages(), 0);
    }

    #[test]
    fn a_replaced_ledger_is_written_instead() {
        let fixture = Fixture::new();
        fixture.wait(fixture.send("old", 10));
        let (path, other) =
            (fixture.folder.path().join("ledger.db"), fixture.folder.path().join("b"));
        Store::open(&other).unwrap().session_or_new("agent:main:main").unwrap();
        std::fs::rename(&other, &path).unwrap();
        for name in ["ledger.db-wal", "ledger.db-shm"] {
            let _ = std::fs::remove_file(fixture.folder.path().join(name));
        }
        assert!(!fixture.wait(fixture.send("old", 10)).repeated);
        assert_eq!(fixture.messages(), 1);
    }
}
