//! Accepts connections and gives each to the router, until it is stopped.
//!
//! The limits of connections are here: how many, how long a request may take to arrive, and how long
//! its headers may be. A connection that idles is closed by the same limit.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, Semaphore};

use crate::access::Access;
use crate::access::origin::{Origin, Origins};
use crate::access::sign_in::SignIn;
use crate::access::tokens::{TokenError, TokenFolder};
use crate::listener::{Kind, Listener, RemovedAtEnd};
use crate::live::Live;
use crate::outflow::{Connection, Metered, Outflow};
use crate::readers::Readers;
use crate::router::{SIGN_IN, Shared, router};
use crate::routes::ROUTES;
use crate::routes::write::WRITES;
use crate::settings::Settings;
use crate::write::Writing;

/// The largest number of open connections. More of them wait in the queue of the system.
const MAX_CONNECTIONS: usize = 4096;

/// The longest time in which the headers of a request have to arrive, counted from the end of the
/// request before.
const MAX_HEADER_TIME: Duration = Duration::from_secs(10);

/// The largest size of the headers of a request, in bytes.
const MAX_HEADER_BYTES: usize = 16 << 10;

/// The largest number of headers.
const MAX_HEADERS: usize = 100;

/// The time that requests have to end when the server is stopped.
const GRACE: Duration = Duration::from_millis(1_000);

/// The time before the next connection is accepted when the system has no room for one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Stops a server.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Notify>);

impl Stop {
    /// Returns a handle for one server.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Stops the server. Requests that are being answered have a second to end.
    pub fn stop(&self) {
        self.0.notify_one();
    }
}

/// A server that listens already and answers once it [`run`](Server::run)s.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    shared: Arc<Shared>,
}

impl Server {
    /// Returns a server of a ledger at a place.
    pub fn new(listener: Listener, settings: Settings) -> Server {
        let (origins, tokens, cookie) = match listener.address() {
            Some(address) => (
                Origins::of(address, listener.origin.as_ref()),
                Some(TokenFolder::beside(&settings.ledger)),
                format!("quipu_{}", address.port()),
            ),
            None => (Origins::of_socket(), None, String::new()),
        };
        let readers = Arc::new(Readers::new(settings.ledger.clone(), settings.may_project));
        let live = Arc::new(Live::new(&readers));
        let writing = Arc::new(Writing::new(&settings, &live));
        let shared = Shared {
            settings: Arc::new(settings),
            access: Access { origins, tokens, cookie, running: Arc::default() },
            sign_in: SignIn::default(),
            live,
            readers,
            writing,
            is_https: listener.origin.as_ref().is_some_and(Origin::is_https),
            started: jiff::Timestamp::now().as_microsecond(),
        };
        Server { listener, shared: Arc::new(shared) }
    }

    /// Returns the address with its port; `None` for a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.address()
    }

    /// Returns the link that signs one browser in, within two minutes; `None` for a Unix socket. It
    /// replaces the link before.
    pub fn sign_in_link(&self) -> Result<Option<String>, TokenError> {
        let Some(address) = self.listener.address() else { return Ok(None) };
        let code = self.shared.sign_in.new_code()?;
        let origin = match &self.listener.origin {
            Some(origin) => origin.to_string(),
            None => format!("http://{address}"),
        };
        Ok(Some(format!("{origin}{SIGN_IN}?code={code}")))
    }

    /// Returns what all requests share.
    #[cfg(test)]
    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Returns the service of these routes, to be called without a network.
    #[cfg(test)]
    pub(crate) fn router(self, routes: &'static [crate::routes::Route]) -> Router {
        router(routes, WRITES, self.shared)
    }

    /// Answers requests until it is stopped.
    pub fn run(self, stop: &Stop) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let writing = Arc::clone(&self.shared.writing);
        let live = Arc::clone(&self.shared.live);
        let router = router(ROUTES, WRITES, self.shared);
        let ran = runtime.block_on(async {
            match self.listener.kind {
                Kind::Tcp(listener) => {
                    listener.set_nonblocking(true)?;
                    let listener = tokio::net::TcpListener::from_std(listener)?;
                    let next = async || {
                        let (stream, _) = listener.accept().await?;
                        // The end of an answer does not wait until its beginning is confirmed.
                        let _ = stream.set_nodelay(true);
                        Ok(stream)
                    };
                    accept(next, router, &live, stop).await;
                }
                Kind::Unix(listener, removed) => {
                    let _removed: RemovedAtEnd = removed;
                    listener.set_nonblocking(true)?;
                    let listener = tokio::net::UnixListener::from_std(listener)?;
                    accept(async || Ok(listener.accept().await?.0), router, &live, stop).await;
                }
            }
            Ok(())
        });
        // Everything that was acknowledged is on disk.
        writing.stop();
        // A query that does not end keeps its thread; it only reads.
        runtime.shutdown_background();
        ran
    }
}

/// Accepts connections until the server is stopped, and then waits for running requests.
async fn accept<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    mut accept: impl AsyncFnMut() -> io::Result<S>,
    router: Router,
    live: &Live,
    stop: &Stop,
) {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let stopped = stop.0.notified();
    tokio::pin!(stopped);
    loop {
        let next = async {
            let permit = Arc::clone(&connections).acquire_owned().await;
            (accept().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            () = &mut stopped => break,
            accepted = next => accepted,
        };
        let Ok(stream) = accepted else {
            // The system has no room for another connection, or the client is gone already.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let outflow = Arc::new(Outflow::default());
        let stream = Metered::new(stream, Arc::clone(&outflow));
        // A WebSocket outlives its request, and a permit is needed as long as it is open.
        let own = Connection { outflow, _permit: permit.ok().map(Arc::new) };
        let router = TowerToHyperService::new(router.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(own.clone());
            router.call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(MAX_HEADER_TIME)
            .max_header_size(MAX_HEADER_BYTES)
            .max_headers(MAX_HEADERS)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut closing = live.closing();
        tokio::spawn(async move {
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                // A connection that breaks off concerns its client only.
                _ = connection.as_mut() => {}
                () = closing.wait() => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.as_mut().await;
                }
            }
        });
    }
    live.close();
    // A connection has its permit until it is closed, and so has a socket.
    let ended = connections.acquire_many(MAX_CONNECTIONS as u32);
    drop(tokio::time::timeout(GRACE, ended).await);
}
