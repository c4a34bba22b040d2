//! The routes: one list, and one file for what belongs together.

mod export;
mod files;
mod notes;
mod search;
mod session;
mod sessions;
mod sql;
mod status;
mod usage;
pub(crate) mod write;

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;

/// One route. Every route answers GET.
pub(crate) struct Route {
    /// The path, with the names of its variable parts.
    pub(crate) path: &'static str,
    /// When its answer may change.
    pub(crate) changes: Changes,
    /// True if its answer may take any time.
    pub(crate) is_unlimited: bool,
    /// Answers one request.
    pub(crate) answer: fn(&Call<'_>) -> Result<Answer, Problem>,
}

/// When the answer of a route may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changes {
    /// Only with the ledger, so that the answer has a tag.
    WithLedger,
    /// At any time: it also depends on the clock or on the disk.
    Always,
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Route").field("path", &self.path).finish_non_exhaustive()
    }
}

const fn route(
    path: &'static str,
    changes: Changes,
    answer: fn(&Call<'_>) -> Result<Answer, Problem>,
) -> Route {
    Route { path, changes, is_unlimited: false, answer }
}

const fn unlimited(
    path: &'static str,
    changes: Changes,
    answer: fn(&Call<'_>) -> Result<Answer, Problem>,
) -> Route {
    Route { path, changes, is_unlimited: true, answer }
}

/// All routes.
pub(crate) const ROUTES: &[Route] = {
    use Changes::{Always, WithLedger};
    &[
        route("/v1/openapi.json", WithLedger, crate::openapi::document),
        route("/v1/status", Always, status::status),
        route("/v1/projects", WithLedger, sessions::projects),
        route("/v1/sessions", Always, sessions::list),
        route("/v1/sessions/{id}", WithLedger, sessions::one),
        route("/v1/sessions/{id}/entries", WithLedger, session::entries),
        route("/v1/sessions/{id}/tree", WithLedger, session::tree),
        route("/v1/sessions/{id}/context", WithLedger, session::context),
        route("/v1/sessions/{id}/headroom", WithLedger, session::headroom),
        route("/v1/sessions/{id}/meta", WithLedger, session::meta),
        unlimited("/v1/sessions/{id}/export", WithLedger, export::export),
        route("/v1/search", Always, search::search),
        route("/v1/files", Always, files::list),
        route("/v1/usage", Always, usage::usage),
        route("/v1/notes", Always, notes::notes),
        route("/v1/notes/{name}", Always, notes::note),
        route("/v1/cron", WithLedger, notes::jobs),
        route("/v1/cron/{job}", WithLedger, notes::runs),
        route("/v1/senders", Always, notes::senders),
        route("/v1/sql", Always, sql::sql),
    ]
};
