//! Compactions that run beside the answers: at most one for a session, and few at once.
//!
//! No lock and no transaction is held while a summary is made.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use quipu_ledger::store::{Appended, Compact, Session};
use tokio::sync::Semaphore;

use crate::router::Shared;
use crate::settings::Settings;

/// The number of compactions that run at the same time. Each may wait for a model.
const MAX_RUNNING: usize = 4;

/// The compactions of a server.
#[derive(Debug)]
pub(crate) struct Compactions {
    running: Mutex<HashSet<String>>,
    permits: Semaphore,
}

impl Default for Compactions {
    fn default() -> Compactions {
        Compactions { running: Mutex::default(), permits: Semaphore::new(MAX_RUNNING) }
    }
}

impl Compactions {
    /// Begins what is due after an append, unless it runs already.
    pub(crate) fn begin(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        session: &Session,
        appended: &Appended,
    ) {
        let is_compaction = appended.compaction_due;
        if !is_compaction && !appended.flush_due {
            return;
        }
        let id = session.id().to_owned();
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if !running.insert(id.clone()) {
            return;
        }
        drop(running);
        let ended = Ended { all: Arc::clone(self), id };
        let (shared, session) = (Arc::clone(shared), session.clone());
        tokio::spawn(async move {
            let all = Arc::clone(&ended.all);
            let _permit = all.permits.acquire().await;
            let run = move || {
                let _ended = ended;
                make(&shared.settings, &session, is_compaction);
            };
            let _ = tokio::task::spawn_blocking(run).await;
        });
    }
}

/// Compacts a session, or asks for its notes. What fails is due again after the next append.
fn make(settings: &Settings, session: &Session, is_compaction: bool) {
    let wanted = Compact { is_due: true, ..Compact::default() };
    let made = settings.summariser.make().and_then(|summariser| {
        let done = match is_compaction {
            true => session.compact_now(&settings.compaction, &wanted, &*summariser).map(drop),
            // A compaction has its own flush.
            false => session.flush(&settings.compaction, &*summariser).map(drop),
        };
        done.map_err(|error| error.to_string())
    });
    if let Err(reason) = made {
        // The reason quotes no transcript.
        tracing::warn!(session = session.id(), reason, "A session was not compacted.");
    }
}

/// Removes a session from those that run.
struct Ended {
    all: Arc<Compactions>,
    id: String,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.all.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}
