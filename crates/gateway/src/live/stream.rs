//! What a stream says next, whichever way it is written: frames, and why it ends.

use std::sync::Arc;
use std::time::Duration;

use quipu_ledger::wire::StreamNote;
use tokio::sync::broadcast;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::subscription::{Next, Subscription};
use super::{Closing, Ready};
use crate::access::Caller;
use crate::outflow::{Connection, Outflow};
use crate::router::Shared;

/// The time after which a stream without events says that it is still there.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The shortest time between two looks whether the token is still valid. Tests do not wait.
const TOKEN_CHECK: Duration = Duration::from_secs(if cfg!(test) { 0 } else { 1 });

/// One stream of events.
pub(super) struct Stream {
    shared: Arc<Shared>,
    /// `None` if the cursor is not one of this ledger.
    subscription: Option<Subscription>,
    passing: broadcast::Receiver<Arc<Ready>>,
    closing: Closing,
    /// Counts the request as running.
    caller: Arc<Caller>,
    checked: Instant,
    ticks: Interval,
    /// Counts the connection as open.
    connection: Option<Connection>,
    has_begun: bool,
}

/// What a stream says next.
#[derive(Debug)]
pub(super) enum Item {
    /// Frames, each with its text.
    Frames(Vec<Arc<Ready>>),
    /// A note. It is the last one, unless it is `hello`.
    Note(StreamNote),
    /// Nothing happened for a while.
    KeepAlive,
}

impl Stream {
    pub(super) fn new(
        shared: &Arc<Shared>,
        subscription: Option<Subscription>,
        caller: Arc<Caller>,
        connection: Option<Connection>,
    ) -> Stream {
        let mut ticks = interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Stream {
            shared: Arc::clone(shared),
            subscription,
            passing: shared.live.passing.subscribe(),
            closing: shared.live.closing(),
            caller,
            checked: Instant::now(),
            ticks,
            connection,
            has_begun: false,
        }
    }

    /// Returns how far the bytes of the connection have left this process; `None` without a
    /// network.
    pub(super) fn outflow(&self) -> Option<Arc<Outflow>> {
        self.connection.as_ref().map(|connection| Arc::clone(&connection.outflow))
    }

    /// Returns the position after the last frame; `None` if there is none to go on from.
    pub(super) fn after(&self) -> Option<String> {
        self.subscription.as_ref().map(|subscription| subscription.cursor().to_string())
    }

    /// Returns the note with which the stream ends.
    fn end(&self, reason: &'static str) -> Item {
        Item::Note(match self.after() {
            Some(after) => StreamNote::End { reason, after },
            None => StreamNote::StartOver,
        })
    }

    /// Waits for what comes next. If the future is dropped, nothing is lost.
    pub(super) async fn next(&mut self) -> Item {
        let Some(subscription) = &mut self.subscription else {
            return Item::Note(StreamNote::StartOver);
        };
        if !self.has_begun {
            self.has_begun = true;
            return Item::Note(StreamNote::Hello { after: subscription.cursor().to_string() });
        }
        let item = loop {
            tokio::select! {
                biased;
                () = self.closing.wait() => break self.end("shutdown"),
                next = subscription.next() => break match next {
                    Ok(Next::Frames(frames)) => Item::Frames(frames),
                    Ok(Next::StartOver) => return Item::Note(StreamNote::StartOver),
                    Err(_) => self.end("failed"),
                },
                // A subscriber that is far behind misses some of these.
                Ok(passing) = self.passing.recv() => {
                    if subscription.filter().passes(&passing.frame) {
                        break Item::Frames(vec![passing]);
                    }
                }
                _ = self.ticks.tick() => break Item::KeepAlive,
            }
        };
        let is_due = matches!(item, Item::KeepAlive) || self.checked.elapsed() >= TOKEN_CHECK;
        if is_due {
            self.checked = Instant::now();
            if !self.shared.access.is_current(&self.caller) {
                return self.end("revoked");
            }
        }
        if matches!(item, Item::Frames(_)) {
            self.ticks.reset();
        }
        item
    }
}
