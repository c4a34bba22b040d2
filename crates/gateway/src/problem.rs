//! The answer to a request that failed, as RFC 9457 describes it.
//!
//! `type` is stable; the sentence in `detail` is the ledger's own and may change. Nothing of a
//! transcript, a token or a query is in it that the caller did not send.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{Response, StatusCode};
use quipu_ledger::{Error, Trouble};
use serde::Serialize;

/// A failed request.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Problem {
    /// The stable name of the problem: `quipu:not-found`.
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    /// The names that an ambiguous one may mean.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    candidates: Vec<String>,
    #[serde(flatten)]
    more: Option<Box<More>>,
}

/// What the caller needs for its next request.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
enum More {
    /// The leaf that the session has now; `null` if it is before the first entry.
    Leaf { leaf: Option<String> },
    /// The entry that was stored under the idempotency key.
    Entry { entry_id: String },
}

impl Problem {
    fn new(
        status: u16,
        kind: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Problem {
        let detail = detail.into();
        Problem { kind, title, status, detail, candidates: Vec::new(), more: None }
    }

    /// Returns the answer to a request that cannot be understood.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Problem {
        Problem::new(400, "quipu:bad-request", "The request cannot be understood", detail)
    }

    /// Returns the answer to a cursor of another list, or to one that the server did not make.
    pub(crate) fn bad_cursor() -> Problem {
        let detail = "use a cursor with the same route and options that it came from";
        Problem::new(400, "quipu:bad-cursor", "The cursor is not of this list", detail)
    }

    /// Returns the answer to a name with several meanings.
    pub(crate) fn ambiguous(detail: impl Into<String>, candidates: Vec<String>) -> Problem {
        let problem = Problem::new(400, "quipu:ambiguous", "The name has several meanings", detail);
        Problem { candidates, ..problem }
    }

    /// Returns the answer to a request without a valid token.
    pub(crate) fn no_token() -> Problem {
        let detail = "send `Authorization: Bearer TOKEN`; `quipu token new` makes a token";
        Problem::new(401, "quipu:no-token", "A valid token is needed", detail)
    }

    /// Returns the answer to a request that this caller may not make.
    pub(crate) fn forbidden(detail: impl Into<String>) -> Problem {
        Problem::new(403, "quipu:forbidden", "The request is not allowed", detail)
    }

    /// Returns the answer to a name that nothing has.
    pub(crate) fn not_found(detail: impl Into<String>) -> Problem {
        Problem::new(404, "quipu:not-found", "Nothing has this name", detail)
    }

    /// Returns the answer to a method that the route does not have.
    pub(crate) fn method_not_allowed() -> Problem {
        let detail = "the route has other methods";
        Problem::new(405, "quipu:method-not-allowed", "The method is not allowed here", detail)
    }

    /// Returns the answer to a body that is not JSON.
    pub(crate) fn not_json() -> Problem {
        let detail = "send JSON in UTF-8, uncompressed, with `Content-Type: application/json`";
        Problem::new(415, "quipu:not-json", "The body is not JSON", detail)
    }

    /// Returns the answer of a server that is stopping.
    pub(crate) fn stopping() -> Problem {
        unavailable("the server ends; nothing was written".to_owned())
    }

    /// Returns the answer to a body above the limit.
    pub(crate) fn too_large() -> Problem {
        Problem::new(
            413,
            "quipu:too-large",
            "The request is too large",
            "a body has at most 16 MiB",
        )
    }

    /// Returns the answer to a request that is understood and cannot be carried out.
    pub(crate) fn refused(detail: impl Into<String>) -> Problem {
        Problem::new(422, "quipu:refused", "The request cannot be carried out", detail)
    }

    /// Returns the answer if one token has too many requests at once.
    pub(crate) fn too_many() -> Problem {
        let detail = "wait for the answers to other requests with this token";
        Problem::new(429, "quipu:too-many-requests", "There are too many requests", detail)
    }

    /// Returns the answer to a request that took too long.
    pub(crate) fn too_slow() -> Problem {
        let detail = "ask for less, or try again later";
        Problem::new(503, "quipu:too-slow", "The answer takes too long", detail)
    }

    /// Returns the answer to a request that has to wait for another one.
    pub(crate) fn busy(detail: impl Into<String>) -> Problem {
        Problem::new(503, "quipu:busy", "Another request has to end first", detail)
    }

    /// Returns the answer to a request at which the server failed.
    pub(crate) fn failed() -> Problem {
        let detail = "the log of the server has the reason; `quipu doctor` checks the ledger";
        Problem::new(500, "quipu:failed", "The server failed", detail)
    }

    /// Returns the answer to a write that failed. An unknown entry has the status 422, because 404
    /// means that the path names nothing.
    pub(crate) fn of_write(error: Error) -> Problem {
        match &error {
            Error::NoMatch { what, .. } if what.starts_with("entry") => {
                Problem::refused(error.to_string())
            }
            _ => error.into(),
        }
    }

    /// Returns the status of the response.
    #[cfg(test)]
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// Returns what is wrong, as a sentence for an agent.
    pub(crate) fn sentence(&self) -> String {
        let mut text = format!("{}: {}", self.title, self.detail);
        if !self.candidates.is_empty() {
            text.push_str(&format!(" ({})", self.candidates.join(", ")));
        }
        text
    }

    /// Returns whether a name means nothing, or several things.
    pub(crate) fn is_about_name(&self) -> bool {
        matches!(self.status, 400 | 404)
    }

    /// Returns the response.
    pub(crate) fn response(&self) -> Response<Body> {
        let body = serde_json::to_vec(self).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match self.status {
            401 => drop(headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            429 | 503 => drop(headers.insert(RETRY_AFTER, HeaderValue::from_static("1"))),
            _ => {}
        }
        response
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let detail = error.to_string();
        match error {
            Error::NoMatch { .. } | Error::Empty { .. } => Problem::not_found(detail),
            Error::Ambiguous { candidates, .. } => Problem::ambiguous(detail, candidates),
            Error::Refused { .. }
            | Error::Sql { .. }
            | Error::Pattern { .. }
            | Error::NoContext { .. }
            | Error::Collected { .. }
            | Error::Summary { .. }
            | Error::TooLong { .. }
            | Error::SummaryTooLong { .. }
            | Error::IsBackup { .. } => Problem::refused(detail),
            Error::Conflict { leaf, .. } => {
                let title = "The session has another leaf";
                let problem = Problem::new(409, "quipu:conflict", title, detail);
                Problem { more: Some(Box::new(More::Leaf { leaf })), ..problem }
            }
            Error::KeyUsed { entry, .. } => {
                let title = "The idempotency key was used for something else";
                let problem = Problem::new(422, "quipu:key-used", title, detail);
                Problem { more: Some(Box::new(More::Entry { entry_id: entry })), ..problem }
            }
            Error::Exists { .. } => Problem::new(409, "quipu:exists", "The name is taken", detail),
            Error::Interrupted => Problem::too_slow(),
            Error::Absent { .. }
            | Error::Replaced { .. }
            | Error::Vanished
            | Error::Stopped
            | Error::Upgraded => unavailable(detail),
            error => match error.trouble() {
                Trouble::Busy => unavailable(detail),
                Trouble::DiskFull => {
                    Problem::new(503, "quipu:disk-full", "The disk of the ledger is full", detail)
                }
                trouble => {
                    // The causes are about files and SQLite, never about the text of a transcript.
                    tracing::error!(
                        ?trouble,
                        error = &error as &dyn std::error::Error,
                        "A request failed."
                    );
                    Problem::failed()
                }
            },
        }
    }
}

fn unavailable(detail: String) -> Problem {
    Problem::new(503, "quipu:unavailable", "The ledger cannot be used now", detail)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_error_of_the_ledger_has_its_status() {
        let path = PathBuf::from("/ledger.db");
        let name = || "n".to_owned();
        let busy = Error::Busy { path: path.clone(), waited: Duration::ZERO, holder: None };
        let behind = Error::Behind { path: path.clone(), done: 1, total: 2 };
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let full = Error::Io { action: "write", path: path.clone(), source: full };
        let cases = [
            (busy, 503, "quipu:unavailable"),
            (behind, 503, "quipu:unavailable"),
            (Error::NoRoom { path: path.clone() }, 503, "quipu:disk-full"),
            (full, 503, "quipu:disk-full"),
            (Error::Replaced { path: path.clone() }, 503, "quipu:unavailable"),
            (Error::Upgraded, 503, "quipu:unavailable"),
            (Error::Conflict { session: name(), leaf: None }, 409, "quipu:conflict"),
            (Error::Exists { what: "session", name: name() }, 409, "quipu:exists"),
            (Error::KeyUsed { key: name(), entry: name() }, 422, "quipu:key-used"),
            (Error::Collected { id: name(), format: name() }, 422, "quipu:refused"),
            (Error::Summary { summariser: name(), why: name() }, 422, "quipu:refused"),
            (Error::IsBackup { path }, 422, "quipu:refused"),
            (Error::NoMatch { what: "session", name: name() }, 404, "quipu:not-found"),
            (Error::Damaged { what: name() }, 500, "quipu:failed"),
        ];
        for (error, status, kind) in cases {
            let shown = error.to_string();
            let problem = Problem::from(error);
            assert_eq!((problem.status, problem.kind), (status, kind), "{shown}");
        }
        // A name inside a request.
        let missing = Error::NoMatch { what: "entry of the session", name: name() };
        assert_eq!(Problem::of_write(missing).status, 422);
    }
}
