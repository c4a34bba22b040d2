//! A WebSocket: one text message for each frame.
//!
//! A client has nothing to say here: what it sends is read and dropped, up to a number of messages.
//! One that answers no ping is gone.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use quipu_ledger::wire::StreamNote;
use tokio::time::Instant;

use super::stream::{Item, KEEP_ALIVE, Stream};
use crate::outflow::Stalled;

/// The number of messages, pings included, that a client may send between two pings of ours.
const MAX_MESSAGES: usize = 256;

/// The time without any message from the client after which it is gone. It answers a ping every
/// [`KEEP_ALIVE`].
const MAX_SILENCE: Duration = Duration::from_secs(2 * KEEP_ALIVE.as_secs() + 5);

/// The server ends.
const GOING_AWAY: u16 = 1001;

/// The client may not go on: its token was revoked, or it sends too much.
const POLICY: u16 = 1008;

/// The client has to connect again.
const TRY_AGAIN: u16 = 1013;

/// Writes the stream until it ends.
pub(super) async fn serve(mut socket: WebSocket, mut stream: Stream) {
    let outflow = stream.outflow();
    let mut heard = Instant::now();
    let mut messages = 0;
    loop {
        let item = tokio::select! {
            biased;
            received = socket.recv() => {
                messages += 1;
                heard = Instant::now();
                match received {
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                    Some(Ok(_)) if messages > MAX_MESSAGES => {
                        close(&mut socket, POLICY, "too many messages").await;
                        return;
                    }
                    Some(Ok(_)) => {
                        // Others have their turn between two messages of a client that floods.
                        tokio::task::yield_now().await;
                        continue;
                    }
                }
            }
            item = stream.next() => item,
        };
        let mut end = None;
        let sending = async {
            match item {
                Item::Frames(frames) => {
                    for frame in frames {
                        socket.send(Message::text(frame.json.as_str())).await?;
                    }
                }
                Item::Note(note) => {
                    let json = serde_json::to_string(&note).unwrap_or_default();
                    socket.send(Message::text(json)).await?;
                    end = match &note {
                        StreamNote::Hello { .. } => None,
                        StreamNote::StartOver => Some(TRY_AGAIN),
                        StreamNote::End { reason: "revoked", .. } => Some(POLICY),
                        StreamNote::End { reason: "shutdown", .. } => Some(GOING_AWAY),
                        StreamNote::End { .. } => Some(TRY_AGAIN),
                    };
                }
                Item::KeepAlive if heard.elapsed() > MAX_SILENCE => return Ok(false),
                Item::KeepAlive => {
                    messages = 0;
                    socket.send(Message::Ping(Default::default())).await?;
                }
            }
            Ok::<bool, axum::Error>(true)
        };
        let sent = match &outflow {
            Some(outflow) => outflow.unless_stalled(sending).await,
            None => Ok(sending.await),
        };
        match sent {
            Ok(Ok(true)) => {}
            Ok(Ok(false) | Err(_)) => return,
            Err(Stalled) => {
                tracing::debug!(after = stream.after(), "A subscriber does not read.");
                // What was sent last may be cut off: a close frame cannot follow it.
                return;
            }
        }
        if let Some(code) = end {
            close(&mut socket, code, stream.after().as_deref().unwrap_or_default()).await;
            return;
        }
    }
}

/// Closes the socket, and waits for the client to do so for a moment.
async fn close(socket: &mut WebSocket, code: u16, reason: &str) {
    let frame = CloseFrame { code, reason: reason.into() };
    let closing = async {
        let _ = socket.send(Message::Close(Some(frame))).await;
        while let Some(Ok(_)) = socket.recv().await {}
    };
    let _ = tokio::time::timeout(Duration::from_millis(500), closing).await;
}
