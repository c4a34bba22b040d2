//! The routes that write: one list, and one file for what belongs together.

mod append;
mod compact;
mod meta;
mod repair;
mod route;
mod senders;
mod sessions;

use axum::http::Method;
use quipu_ledger::Store;

use crate::answer::Answer;
use crate::problem::Problem;
use crate::write::given::Given;
use crate::write::store_thread::AppendJob;

/// One route that writes.
pub(crate) struct WriteRoute {
    /// The method.
    pub(crate) method: Method,
    /// The path, with the names of its variable parts.
    pub(crate) path: &'static str,
    /// True if its answer may take any time.
    pub(crate) is_unlimited: bool,
    /// Reads a request, and returns the work to do.
    pub(crate) plan: fn(Given) -> Result<Work, Problem>,
}

/// Work with the store.
type Run = Box<dyn FnOnce(&Store) -> Result<Answer, Problem> + Send>;

/// What a request wants to be done.
pub(crate) enum Work {
    /// Entries, appended together with those of other requests.
    Append {
        job: AppendJob,
        /// True if the answer is a list.
        is_list: bool,
    },
    /// Work on the thread that owns the store.
    OnThread(Run),
    /// Work that takes long, on a thread of its own.
    Beside(Run),
}

impl Work {
    /// Returns work on the thread that owns the store.
    fn on_thread(
        work: impl FnOnce(&Store) -> Result<Answer, Problem> + Send + 'static,
    ) -> Result<Work, Problem> {
        Ok(Work::OnThread(Box::new(work)))
    }

    /// Returns an append with one answer.
    fn append(job: AppendJob) -> Result<Work, Problem> {
        Ok(Work::Append { job, is_list: false })
    }
}

impl std::fmt::Debug for WriteRoute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let WriteRoute { method, path, .. } = self;
        f.debug_struct("WriteRoute")
            .field("method", method)
            .field("path", path)
            .finish_non_exhaustive()
    }
}

const fn post(path: &'static str, plan: fn(Given) -> Result<Work, Problem>) -> WriteRoute {
    WriteRoute { method: Method::POST, path, is_unlimited: false, plan }
}

/// All routes that write.
pub(crate) static WRITES: &[WriteRoute] = &[
    post("/v1/sessions", sessions::create),
    post("/v1/route", route::route),
    post("/v1/sessions/{id}/begin", append::begin),
    post("/v1/sessions/{id}/entries", append::entries),
    post("/v1/sessions/{id}/leaf", append::leaf),
    post("/v1/sessions/{id}/branch", append::branch),
    post("/v1/sessions/{id}/label", append::label),
    post("/v1/sessions/{id}/mirror", append::mirror),
    post("/v1/sessions/{id}/reset", append::reset),
    post("/v1/sessions/{id}/fork", sessions::fork),
    WriteRoute {
        method: Method::PATCH,
        path: "/v1/sessions/{id}/meta",
        is_unlimited: false,
        plan: meta::patch,
    },
    WriteRoute {
        method: Method::POST,
        path: "/v1/sessions/{id}/compact",
        is_unlimited: true,
        plan: compact::compact,
    },
    post("/v1/sessions/{id}/repair", repair::repair),
    post("/v1/senders", senders::decide),
];
