//! A request for events: its options, and where it begins.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::UPGRADE;
use axum::http::{HeaderMap, Response};
use quipu_ledger::events::{self, Cursor, EventFilter, Start};
use quipu_transcript::project::Name;
use serde::Deserialize;

use super::stream::Stream;
use super::subscription::Subscription;
use super::{socket, sse};
use crate::access::Caller;
use crate::outflow::Connection;
use crate::problem::Problem;
use crate::router::Shared;

/// The largest size of a message from a client, in bytes.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// The options of the route.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    session: Option<String>,
    agent: Option<String>,
    project: Option<String>,
    #[serde(rename = "type")]
    types: Option<String>,
    include: Option<Include>,
    after: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Include {
    Entry,
}

/// Answers `GET /v1/events`.
pub(crate) async fn events(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    match answer(&shared, request).await {
        Ok(response) => response,
        Err(problem) => problem.response(),
    }
}

async fn answer(shared: &Arc<Shared>, request: Request) -> Result<Response<Body>, Problem> {
    let (mut parts, _) = request.into_parts();
    let query = parts.uri.query().unwrap_or_default();
    let options: Options = serde_urlencoded::from_str(query)
        .map_err(|error| Problem::bad_request(error.to_string()))?;
    let start = start(&options, &parts.headers)?;
    let caller = parts.extensions.get::<Arc<Caller>>().cloned().ok_or_else(Problem::failed)?;
    let connection = parts.extensions.get::<Connection>().cloned();
    let with_entries = options.include == Some(Include::Entry);
    let (filter, cursor) = find(shared, options, start, &caller).await?;
    let live = &shared.live;
    let feed = if with_entries { &live.with_entries } else { &live.plain };
    let subscription = match cursor {
        Some(cursor) => Some(
            Subscription::new(feed, &live.readers, filter, cursor)
                .map_err(|_| Problem::failed())?,
        ),
        None => None,
    };
    let stream = Stream::new(shared, subscription, caller, connection);
    if !parts.headers.contains_key(UPGRADE) {
        return Ok(sse::response(stream));
    }
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &())
        .await
        .map_err(|error| Problem::bad_request(error.body_text()))?;
    let upgrade = upgrade
        .max_frame_size(MAX_MESSAGE_BYTES)
        .max_message_size(MAX_MESSAGE_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(MAX_MESSAGE_BYTES);
    Ok(upgrade.on_upgrade(move |socket| socket::serve(socket, stream)))
}

/// Returns where the stream begins. A browser that connects again names the last event that it has.
fn start(options: &Options, headers: &HeaderMap) -> Result<Start, Problem> {
    let last = match headers.get("last-event-id") {
        Some(value) => Some(value.to_str().map_err(|_| Problem::bad_cursor())?),
        None => None,
    };
    match last.filter(|last| !last.is_empty()).or(options.after.as_deref()) {
        Some(text) => text.parse().map_err(|_| Problem::bad_cursor()),
        None => Ok(Start::Now),
    }
}

/// Looks up what the options name. The cursor is `None` if it is not one of this ledger.
async fn find(
    shared: &Shared,
    options: Options,
    start: Start,
    caller: &Caller,
) -> Result<(EventFilter, Option<Cursor>), Problem> {
    let mut filter = EventFilter {
        agent: options.agent,
        project: options.project.as_deref().map(Name::new),
        bound_to: caller.agent.clone(),
        ..EventFilter::default()
    };
    filter
        .set_types(options.types.as_deref().unwrap_or_default())
        .map_err(|error| Problem::bad_request(error.to_string()))?;
    let bound_to = filter.bound_to.clone();
    let (session, cursor) = Arc::clone(&shared.readers)
        .run(move |reader, _| {
            let session = match &options.session {
                Some(name) => Some(events::session(&reader.ledger, name)?),
                None => None,
            };
            if let (Some(session), Some(agent)) = (&session, &bound_to)
                && !session.agent.eq_ignore_ascii_case(agent)
            {
                return Err(Problem::not_found("no session has this name"));
            }
            Ok((session, events::begin(&reader.ledger, &start)?))
        })
        .await?;
    filter.session_id = session.map(|session| session.session_id.clone());
    Ok((filter, cursor))
}
