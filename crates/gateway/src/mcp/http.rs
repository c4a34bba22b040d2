//! The protocol over HTTP, at one address. Every call stands alone: there are no sessions.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::handler::Handler;
use crate::access::Caller as Admitted;
use crate::access::tokens::Scope;
use crate::problem::Problem;
use crate::router::{MAX_REQUEST_TIME, Shared};
use crate::tools::Caller;

/// The address.
pub(crate) const PATH: &str = "/mcp";

/// Answers one request that passed the checks of the server. The SDK makes its own on top.
pub(crate) async fn answer(
    State(shared): State<Arc<Shared>>,
    Extension(admitted): Extension<Arc<Admitted>>,
    request: Request<Body>,
) -> Response {
    let caller = Caller {
        may_write: admitted.scope == Scope::Write && shared.settings.may_write,
        agent: admitted.agent.clone(),
        ..Caller::default()
    };
    let (hosts, origins) = shared.access.origins.names();
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_sse_keep_alive(None)
        .with_allowed_hosts(hosts.iter().cloned())
        .with_allowed_origins(origins.iter().cloned())
        .enforce_origin_validation();
    let handler = Handler {
        settings: Arc::clone(&shared.settings),
        readers: Arc::clone(&shared.readers),
        caller,
    };
    let service = StreamableHttpService::new(
        move || Ok(handler.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    match tokio::time::timeout(MAX_REQUEST_TIME, service.handle(request)).await {
        Ok(response) => response.map(Body::new).into_response(),
        Err(_) => Problem::too_slow().response(),
    }
}
