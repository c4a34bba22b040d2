//! Server-sent events: one event for each frame, with its cursor as the id.
//!
//! A task writes one piece at a time, and the next one when the system has taken it. So a client
//! that does not read costs one piece, and a browser that connects again goes on after the last
//! event that it has.

use std::fmt::Write;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Response;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::body::Frame;
use quipu_ledger::wire::StreamNote;
use tokio::sync::mpsc;

use super::Ready;
use super::stream::{Item, Stream};
use crate::outflow::{Outflow, Stalled};

/// The time after which a browser connects again, in milliseconds.
const RETRY: &str = "retry: 1000\n";

/// A line that browsers ignore.
const KEEP_ALIVE: &str = ":\n\n";

/// Returns the response, whose body goes on until the stream ends.
pub(super) fn response(stream: Stream) -> Response<Body> {
    let outflow = stream.outflow();
    let (sender, receiver) = mpsc::channel(1);
    let writer = Writer { sender, sent: outflow.as_ref().map_or(0, |it| it.taken()), outflow };
    let body = StreamBody { receiver, outflow: writer.outflow.clone() };
    tokio::spawn(writer.write(stream));
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Proxies pass each event on at once.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// Writes the pieces of one stream.
struct Writer {
    sender: mpsc::Sender<Bytes>,
    outflow: Option<Arc<Outflow>>,
    /// The number of pieces that the connection has taken once it has taken all of this stream.
    sent: u64,
}

impl Writer {
    async fn write(mut self, mut stream: Stream) {
        loop {
            let sender = self.sender.clone();
            let item = tokio::select! {
                () = sender.closed() => return,
                item = stream.next() => item,
            };
            let is_last =
                matches!(item, Item::Note(StreamNote::StartOver | StreamNote::End { .. }));
            match self.send(piece(&item)).await {
                Ok(true) if !is_last => {}
                Ok(_) => return,
                Err(Stalled) => {
                    tracing::debug!(after = stream.after(), "A subscriber does not read.");
                    if let Some(outflow) = &self.outflow {
                        outflow.cut();
                    }
                    return;
                }
            }
        }
    }

    /// Sends a piece and waits until the system has taken it. Returns false if the client is gone.
    async fn send(&mut self, piece: String) -> Result<bool, Stalled> {
        self.sent += 1;
        let piece = Bytes::from(piece);
        let Some(outflow) = &self.outflow else {
            return Ok(self.sender.send(piece).await.is_ok());
        };
        if outflow.unless_stalled(self.sender.send(piece)).await?.is_err() {
            return Ok(false);
        }
        tokio::select! {
            () = self.sender.closed() => Ok(false),
            flushed = outflow.flushed(self.sent) => flushed.map(|()| true),
        }
    }
}

/// Returns the text of what a stream says.
fn piece(item: &Item) -> String {
    let mut text = String::new();
    match item {
        Item::Frames(frames) => frames.iter().for_each(|frame| add(&mut text, frame)),
        Item::Note(note) => {
            let json = serde_json::to_string(note).unwrap_or_default();
            let id = match note {
                StreamNote::Hello { after } => {
                    text.push_str(RETRY);
                    after.as_str()
                }
                // A browser that connects again names no event.
                StreamNote::StartOver => "",
                StreamNote::End { after, .. } => after,
            };
            let _ = write!(text, "id: {id}\nevent: {}\ndata: {json}\n\n", note.type_name());
        }
        Item::KeepAlive => text.push_str(KEEP_ALIVE),
    }
    text
}

fn add(text: &mut String, ready: &Ready) {
    if let Some(cursor) = &ready.frame.wire.cursor {
        let _ = writeln!(text, "id: {cursor}");
    }
    // JSON has no line break.
    let _ = write!(text, "data: {}\n\n", ready.json);
}

/// A body whose pieces come from a task.
struct StreamBody {
    receiver: mpsc::Receiver<Bytes>,
    outflow: Option<Arc<Outflow>>,
}

impl HttpBody for StreamBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(piece) = ready!(self.receiver.poll_recv(context)) else {
            return Poll::Ready(None);
        };
        if let Some(outflow) = &self.outflow {
            outflow.take();
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}
