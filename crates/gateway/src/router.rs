//! From a request to its answer: the checks, the route, the time limit, and the headers of every
//! response.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{RawPathParams, Request, State};
use axum::handler::Handler;
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap,
    HeaderName, HeaderValue, IF_NONE_MATCH, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{Method, Response, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::routing::{MethodFilter, MethodRouter, any};

use crate::access::sign_in::{SignIn, set_cookie};
use crate::access::{Access, Caller};
use crate::call::{Asked, Call};
use crate::live::{self, Live};
use crate::mcp;
use crate::problem::Problem;
use crate::readers::Readers;
use crate::routes::write::WriteRoute;
use crate::routes::{Changes, Route};
use crate::settings::Settings;
use crate::write::body::MAX_BODY_BYTES;
use crate::write::{self, Writing};

/// The path of the link that signs a browser in. It needs no token.
pub(crate) const SIGN_IN: &str = "/sign-in";

/// The path of the streams of events, which end only with their clients.
pub(crate) const EVENTS: &str = "/v1/events";

/// The longest time from the headers of a request to its answer.
pub(crate) const MAX_REQUEST_TIME: Duration = Duration::from_secs(30);

/// The page after signing in, which opens `/v1/status` by itself. After an HTTP redirect, a browser
/// would not send the cookie if the link was on a page of another site.
const SIGNED_IN: &str = "<!doctype html><meta charset=utf-8><title>quipu</title>\
    <meta http-equiv=refresh content=\"0;url=/v1/status\">\
    <p>You are signed in. <a href=/v1/status>Continue</a>\n";

/// The state that all requests of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Arc<Settings>,
    pub(crate) access: Access,
    pub(crate) sign_in: SignIn,
    pub(crate) readers: Arc<Readers>,
    pub(crate) live: Arc<Live>,
    pub(crate) writing: Arc<Writing>,
    /// True if browsers reach the server by https, so that cookies need it too.
    pub(crate) is_https: bool,
    /// The time of the start. It is part of every entity tag, because settings may change between
    /// two starts.
    pub(crate) started: i64,
}

/// Returns the service that answers requests.
pub(crate) fn router(
    routes: &'static [Route],
    writes: &'static [WriteRoute],
    shared: Arc<Shared>,
) -> Router {
    let mut paths: BTreeMap<&str, Methods> = BTreeMap::new();
    for route in routes {
        let reading = move |State(shared): State<Arc<Shared>>, names, request| {
            answer(route, shared, names, request)
        };
        paths.entry(route.path).or_default().add("GET,HEAD", MethodFilter::GET, reading);
    }
    for route in writes {
        let writing = move |State(shared): State<Arc<Shared>>, names, request| {
            write::answer(route, shared, names, request)
        };
        let filter = MethodFilter::try_from(route.method.clone()).unwrap_or(MethodFilter::POST);
        paths.entry(route.path).or_default().add(route.method.as_str(), filter, writing);
    }
    let mut router = Router::new();
    for (path, methods) in paths {
        router = router.route(path, methods.router());
    }
    let mut events = Methods::default();
    events.add("GET,HEAD", MethodFilter::GET, live::events);
    router = router.route(EVENTS, events.router());
    let mut sign_in = Methods::default();
    sign_in.add("GET,HEAD", MethodFilter::GET, redeem);
    router
        .route(SIGN_IN, sign_in.router())
        .route(mcp::http::PATH, any(mcp::http::answer))
        .fallback(no_route)
        .layer(from_fn_with_state(Arc::clone(&shared), guard))
        .with_state(shared)
}

async fn no_route() -> Response<Body> {
    Problem::not_found("no route has this path").response()
}

/// The methods of one path.
#[derive(Default)]
struct Methods {
    router: MethodRouter<Arc<Shared>>,
    names: String,
}

impl Methods {
    fn add<H, T>(&mut self, names: &str, filter: MethodFilter, handler: H)
    where
        H: Handler<T, Arc<Shared>>,
        T: 'static,
    {
        self.router = std::mem::take(&mut self.router).on(filter, handler);
        if !self.names.is_empty() {
            self.names.push(',');
        }
        self.names.push_str(names);
    }

    /// Returns the router. It refuses every other method.
    fn router(self) -> MethodRouter<Arc<Shared>> {
        let allowed = HeaderValue::from_str(&self.names).ok();
        self.router.fallback(move || {
            let mut response = Problem::method_not_allowed().response();
            if let Some(allowed) = &allowed {
                response.headers_mut().insert(ALLOW, allowed.clone());
            }
            std::future::ready(response)
        })
    }
}

/// Checks a request before any route sees it.
async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response<Body> {
    let mut response = match checked(&shared, request, next).await {
        Ok(response) => response,
        Err(problem) => problem.response(),
    };
    secure(response.headers_mut());
    response
}

async fn checked(
    shared: &Shared,
    mut request: Request,
    next: Next,
) -> Result<Response<Body>, Problem> {
    let headers = request.headers();
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if request.uri().path() == SIGN_IN {
        shared.access.origins.check(request.uri(), headers)?;
        return Ok(next.run(request).await);
    }
    let caller = shared.access.admit(request.method(), request.uri(), headers)?;
    if length.is_some_and(|length: u64| length > MAX_BODY_BYTES) {
        return Err(Problem::too_large());
    }
    let caller = Arc::new(caller);
    request.extensions_mut().insert(Arc::clone(&caller));
    let mut response = next.run(request).await;
    if let Some(value) = &caller.renewed {
        add_cookie(&mut response, shared, value);
    }
    Ok(response)
}

/// Signs a browser in and sends it on.
async fn redeem(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let query = request.uri().query().unwrap_or_default();
    let code = query.strip_prefix("code=").unwrap_or_default();
    let tokens = shared.access.tokens.as_ref();
    let redeemed = tokens.and_then(|tokens| shared.sign_in.redeem(code, Instant::now(), tokens));
    match redeemed {
        None => {
            let detail = "the link was used or is older than two minutes; `quipu serve` prints a \
                          new one when it starts";
            Problem::forbidden(detail).response()
        }
        Some(Err(error)) => {
            tracing::error!(error = &error as &dyn std::error::Error, "Cannot sign in.");
            Problem::failed().response()
        }
        Some(Ok(value)) => {
            let mut response = Response::new(Body::from(SIGNED_IN));
            let html = HeaderValue::from_static("text/html; charset=utf-8");
            response.headers_mut().insert(CONTENT_TYPE, html);
            add_cookie(&mut response, &shared, &value);
            response
        }
    }
}

fn add_cookie(response: &mut Response<Body>, shared: &Shared, value: &str) {
    let cookie = set_cookie(&shared.access.cookie, value, shared.is_https);
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
}

/// Answers a request of a route.
async fn answer(
    route: &'static Route,
    shared: Arc<Shared>,
    names: Result<RawPathParams, axum::extract::rejection::RawPathParamsRejection>,
    request: Request,
) -> Response<Body> {
    let asked = match Asked::of(names, request.uri()) {
        Ok(asked) => asked,
        Err(problem) => return problem.response(),
    };
    // Every request was admitted.
    let Some(caller) = request.extensions().get::<Arc<Caller>>().cloned() else {
        return Problem::failed().response();
    };
    let known = request.headers().get(IF_NONE_MATCH).cloned();
    let began = Instant::now();
    let readers = Arc::clone(&shared.readers);
    let read = readers.run(move |reader, freshness| {
        let tag = match route.changes {
            Changes::WithLedger => {
                let state = quipu_ledger::freshness::state(&reader.ledger)?;
                Some(entity_tag(&state, shared.started, &asked, caller.agent.as_deref()))
            }
            Changes::Always => None,
        };
        if let (Some(known), Some(tag)) = (&known, &tag)
            && names_tag(known, tag)
        {
            return Ok((None, Some(tag.clone())));
        }
        let (ledger, settings) = (&reader.ledger, &*shared.settings);
        let agent = caller.agent.as_deref();
        let call = Call { ledger, freshness: &freshness, settings, asked: &asked, agent };
        Ok((Some((route.answer)(&call)?), tag))
    });
    let read = match route.is_unlimited {
        true => read.await,
        // At the limit, `read` is dropped, which interrupts its query.
        false => tokio::time::timeout(MAX_REQUEST_TIME, read)
            .await
            .unwrap_or_else(|_| Err(Problem::too_slow())),
    };
    let (mut response, tag) = match read {
        Ok((Some(answer), tag)) => (answer.response(), tag),
        Ok((None, tag)) => (unchanged(), tag),
        Err(problem) => (problem.response(), None),
    };
    if let Some(tag) = tag {
        response.headers_mut().insert(ETAG, tag);
    }
    let (status, took) = (response.status().as_u16(), began.elapsed().as_millis());
    tracing::debug!(method = %Method::GET, route = route.path, status, took, "Answered.");
    response
}

/// Returns whether an `If-None-Match` header names the tag.
fn names_tag(known: &HeaderValue, tag: &HeaderValue) -> bool {
    let known = known.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    known
        .map(|known| known.strip_prefix(b"W/").unwrap_or(known))
        .any(|known| known == tag.as_bytes())
}

fn unchanged() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

/// Returns the tag of an answer that depends on the ledger, the request and what its caller may see.
fn entity_tag(state: &str, started: i64, asked: &Asked, agent: Option<&str>) -> HeaderValue {
    let Asked { path, query, .. } = asked;
    let text = format!("{state}\n{started}\n{path}\n{query}\n{agent:?}");
    let hash = blake3::derive_key("quipu 2026 tag of an answer", text.as_bytes());
    let digits: String = blake3::Hash::from_bytes(hash).to_hex().chars().take(32).collect();
    // Digits in quotes are always a valid value.
    HeaderValue::from_str(&format!("\"{digits}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Adds the headers that keep an answer from being used by other pages, framed or stored.
fn secure(headers: &mut HeaderMap) {
    let fixed: [(HeaderName, &str); 6] = [
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
