//! The protocol over standard input and output, for an agent that starts the server itself.

use std::io;
use std::sync::Arc;

use rmcp::ServiceExt;

use super::handler::Handler;
use crate::readers::Readers;
use crate::settings::Settings;
use crate::tools::Caller;

pub use crate::readers::Collector;

/// Answers calls until standard input ends. Nothing else may write to standard output meanwhile.
///
/// `collector` collects before each answer; without it, the ledger is read as it is. `session` is
/// the session that asks, if the environment names it.
pub fn serve_stdio(
    settings: Settings,
    collector: Option<Collector>,
    may_write: bool,
    session: Option<String>,
) -> io::Result<()> {
    let mut readers = Readers::new(settings.ledger.clone(), settings.may_project);
    readers.collector = collector;
    let handler = Handler {
        settings: Arc::new(settings),
        readers: Arc::new(readers),
        caller: Caller { may_write, session, ..Caller::default() },
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let streams = (tokio::io::stdin(), tokio::io::stdout());
        let running = match handler.serve(streams).await {
            Ok(running) => running,
            // The agent ended before it said anything.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(io::Error::other(error)),
        };
        running.waiting().await.map(|_| ()).map_err(io::Error::other)
    });
    // A reading of standard input keeps its thread.
    runtime.shutdown_background();
    served
}
