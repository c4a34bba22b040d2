//! `GET /v1/events`: what happens in the ledger, as it happens, over server-sent events or a
//! WebSocket.
//!
//! The ledger is the queue. A subscriber is a position in it (`subscription`), which takes frames
//! from a ring of recent ones (`feed`) or reads them from the ledger. So a slow subscriber holds
//! nothing back: it is only behind. `sse` and `socket` write the frames, and never more than one
//! piece ahead of what their client reads.

mod feed;
mod request;
mod socket;
mod sse;
mod stream;
mod subscription;

use std::sync::Arc;

use quipu_ledger::events::{self, Frame};
use quipu_ledger::store::{Phase, StoreEvent};
use quipu_ledger::wire::{EventChange, EventPhase};
use tokio::sync::{broadcast, watch};

pub(crate) use request::events;

use self::feed::Feed;
use crate::readers::Readers;

/// The number of passing frames that a subscriber may be behind before it misses some.
const MAX_PASSING: usize = 64;

/// What all streams of a server share.
#[derive(Debug)]
pub(crate) struct Live {
    plain: Arc<Feed>,
    with_entries: Arc<Feed>,
    readers: Arc<Readers>,
    /// Frames that are not stored in the ledger.
    passing: broadcast::Sender<Arc<Ready>>,
    /// Becomes true when the server ends.
    closing: watch::Sender<bool>,
}

/// Waits for the end of the server.
#[derive(Debug)]
pub(crate) struct Closing(watch::Receiver<bool>);

impl Closing {
    pub(crate) async fn wait(&mut self) {
        // A sender that is gone is the end too.
        let _ = self.0.wait_for(|is_closing| *is_closing).await;
    }
}

/// A frame with its text, which all subscribers share.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) frame: Frame,
    pub(crate) json: String,
}

impl Ready {
    pub(crate) fn new(frame: Frame) -> Ready {
        // The shape has no keys but texts, so this cannot fail.
        let json = serde_json::to_string(&frame.wire).unwrap_or_default();
        Ready { frame, json }
    }
}

impl Live {
    pub(crate) fn new(readers: &Arc<Readers>) -> Live {
        Live {
            plain: Feed::new(Arc::clone(readers), false),
            with_entries: Feed::new(Arc::clone(readers), true),
            readers: Arc::clone(readers),
            passing: broadcast::Sender::new(MAX_PASSING),
            closing: watch::Sender::new(false),
        }
    }

    /// Returns what waits for [`Live::close`].
    pub(crate) fn closing(&self) -> Closing {
        Closing(self.closing.subscribe())
    }

    /// Ends all streams.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Sends what the store does and the ledger does not have: the start of a compaction, and its
    /// failure. Never waits for a subscriber.
    pub(crate) fn pass(&self, event: &StoreEvent) {
        let StoreEvent::Compaction { session_id, phase, reason, tokens_before, .. } = event else {
            return;
        };
        let phase = match phase {
            Phase::Start => EventPhase::Start,
            Phase::Failed => EventPhase::Failed,
            // The ledger has its end.
            Phase::End => return,
        };
        if self.passing.receiver_count() == 0 {
            return;
        }
        let reason = serde_json::to_value(reason).ok();
        let change = EventChange::Compaction {
            phase,
            entry_id: None,
            reason: reason.as_ref().and_then(|reason| reason.as_str()).map(str::to_owned),
            tokens_before: Some(*tokens_before),
            tokens_after: None,
        };
        let now = jiff::Timestamp::now().as_millisecond();
        let frame = self.readers.read_as_is(|reader, _| {
            Ok(events::passing_frame(&reader.ledger, session_id, now, change)?)
        });
        if let Ok(frame) = frame {
            let _ = self.passing.send(Arc::new(Ready::new(frame)));
        }
    }
}
