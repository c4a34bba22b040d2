//! Handles a request that writes: from its headers to its answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{RawPathParams, Request};
use axum::http::Response;
use quipu_ledger::store::{Appended, Session};
use serde::Serialize;

use super::Writing;
use super::given::Given;
use super::store_thread::StoreThread;
use crate::access::Caller;
use crate::access::tokens::Scope;
use crate::answer::Answer;
use crate::call::Asked;
use crate::problem::Problem;
use crate::router::Shared;
use crate::routes::write::{Work, WriteRoute};

/// The longest time from the headers of a request to its answer.
const MAX_REQUEST_TIME: Duration = Duration::from_secs(30);

/// A list of appended entries as it is answered.
#[derive(Serialize)]
struct Items<'a> {
    items: &'a [Appended],
}

/// Answers a request of a route that writes.
pub(crate) async fn answer(
    route: &'static WriteRoute,
    shared: Arc<Shared>,
    names: Result<RawPathParams, axum::extract::rejection::RawPathParamsRejection>,
    request: Request,
) -> Response<Body> {
    let began = Instant::now();
    let done = match Asked::of(names, request.uri()) {
        Ok(asked) => write(route, shared, asked, request).await,
        Err(problem) => Err(problem),
    };
    let response = match done {
        Ok(answer) => answer.response(),
        Err(problem) => problem.response(),
    };
    let (status, took) = (response.status().as_u16(), began.elapsed().as_millis());
    tracing::debug!(method = %route.method, route = route.path, status, took, "Answered.");
    response
}

async fn write(
    route: &'static WriteRoute,
    shared: Arc<Shared>,
    asked: Asked,
    request: Request,
) -> Result<Answer, Problem> {
    // Every request was admitted.
    let caller = request.extensions().get::<Arc<Caller>>().cloned().ok_or_else(Problem::failed)?;
    if caller.scope != Scope::Write {
        return Err(Problem::forbidden("this token may only read"));
    }
    let writing = Arc::clone(&shared.writing);
    let thread = writing.thread()?;
    let (parts, body) = request.into_parts();
    let body = within(writing.bodies.read(&parts.headers, body)).await?;
    let agent = caller.agent.clone();
    let given = Given::new(Arc::clone(&shared), asked, agent, &parts.headers, body)?;
    let work = do_work(&shared, &writing, thread, (route.plan)(given)?);
    match route.is_unlimited {
        true => work.await,
        // What was begun is stored nevertheless. A retry with the same key finds it.
        false => within(work).await,
    }
}

async fn do_work(
    shared: &Arc<Shared>,
    writing: &Writing,
    thread: &StoreThread,
    work: Work,
) -> Result<Answer, Problem> {
    match work {
        Work::Append { job, is_list } => {
            let measures = job.measures;
            let (session, appended) = thread.append(job).await?;
            if measures {
                begin_what_is_due(shared, writing, &session, &appended);
            }
            match (is_list, appended.as_slice()) {
                (false, [one]) => Answer::json(one),
                _ => Answer::json(&Items { items: &appended }),
            }
        }
        Work::OnThread(work) => thread.run(work).await,
        Work::Beside(work) => {
            let store = thread.run(|store| Ok(store.clone())).await?;
            let done = tokio::task::spawn_blocking(move || work(&store)).await;
            done.unwrap_or_else(|_| Err(Problem::failed()))
        }
    }
}

fn begin_what_is_due(
    shared: &Arc<Shared>,
    writing: &Writing,
    session: &Session,
    appended: &[Appended],
) {
    if let Some(last) = appended.last() {
        writing.compactions.begin(shared, session, last);
    }
}

async fn within<T>(work: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
    let done = tokio::time::timeout(MAX_REQUEST_TIME, work).await;
    done.unwrap_or_else(|_| Err(Problem::too_slow()))
}
