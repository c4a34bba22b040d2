//! Writing: from a request to entries on disk.
//!
//! `body` reads what was sent, `given` is the request as a route sees it, `store_thread` owns the
//! store and commits many appends at once, and `compactions` run beside it.

pub(crate) mod body;
pub(crate) mod compactions;
pub(crate) mod given;
mod handler;
pub(crate) mod store_thread;

pub(crate) use handler::answer;

use std::path::PathBuf;
use std::sync::Arc;

use quipu_ledger::store::Session;

use self::body::Bodies;
use self::compactions::Compactions;
use self::store_thread::StoreThread;
use crate::live::Live;
use crate::problem::Problem;
use crate::settings::Settings;

/// Everything that writing routes share.
#[derive(Debug)]
pub(crate) struct Writing {
    /// The thread; `None` if no request may write.
    thread: Option<StoreThread>,
    pub(crate) bodies: Bodies,
    pub(crate) compactions: Arc<Compactions>,
}

impl Writing {
    /// Returns what the routes of a server need. The store is opened with the first request that
    /// writes.
    pub(crate) fn new(settings: &Settings, live: &Arc<Live>) -> Writing {
        let path: PathBuf = settings.ledger.clone();
        let thread = settings
            .may_write
            .then(|| StoreThread::new(path, settings.compaction.clone()).telling(Arc::clone(live)));
        Writing { thread, bodies: Bodies::new(), compactions: Arc::default() }
    }

    /// Returns the thread. Fails if no request may write.
    pub(crate) fn thread(&self) -> Result<&StoreThread, Problem> {
        let refused = || Problem::forbidden("this server answers no request that writes");
        self.thread.as_ref().ok_or_else(refused)
    }

    /// Stops writing: waits a moment for the work that was begun, and begins no other.
    pub(crate) fn stop(&self) {
        if let Some(thread) = &self.thread {
            thread.stop();
        }
    }
}

/// Returns the session with this name that a caller may write to.
pub(crate) fn find(
    store: &quipu_ledger::Store,
    name: &str,
    agent: Option<&str>,
) -> Result<Session, Problem> {
    let session = store.session_at(store.find(name, agent)?)?;
    match agent {
        // The name of a format means all its agents, and a writer is one of them.
        Some(agent) if agent != session.agent() => {
            Err(Problem::not_found(format!("no session of agent {agent} matches `{name}`")))
        }
        _ => Ok(session),
    }
}
