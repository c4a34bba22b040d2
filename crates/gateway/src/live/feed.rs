//! The frames of the last moments, for all subscribers that are not behind.
//!
//! One thread sleeps until something is committed, reads the new frames once, and wakes the
//! subscribers. It runs only while there are any. Frames of a session that is forgotten leave the
//! ring at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quipu_ledger::events::{self, Cursor, EventFilter, Frames};
use quipu_ledger::wire::EventChange;
use quipu_ledger::{Commits, CommitsEnd, Woken};
use tokio::sync::watch;

use super::Ready;
use crate::problem::Problem;
use crate::readers::Readers;

/// The largest number of frames in the ring.
const MAX_FRAMES: usize = 4096;

/// The largest size of the texts in the ring, in bytes.
const MAX_BYTES: usize = 4 << 20;

/// The number of frames of the ring that a subscriber looks at in one go.
const MAX_LOOK: usize = 256;

/// The largest size of frames that a subscriber takes in one go, in bytes, unless one frame alone is
/// longer.
pub(super) const MAX_PIECE_BYTES: usize = 16 << 10;

/// The time that a writer has to project the records it appended. After that, the feed projects them.
const PROJECTING: Duration = Duration::from_millis(80);

/// The time before the next look into a ledger that cannot be read.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Reads new frames for all subscribers.
#[derive(Debug)]
pub(crate) struct Feed {
    readers: Arc<Readers>,
    with_entries: bool,
    state: Mutex<State>,
    /// Changes after every look into the ledger.
    looked: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    subscribers: usize,
    /// The number of the running thread, and what ends it.
    running: Option<(u64, CommitsEnd)>,
    started: u64,
    ring: VecDeque<Arc<Ready>>,
    bytes: usize,
    /// The position that the ring begins after; `None` before the first look.
    start: Option<Cursor>,
    /// Changes when positions may no longer be valid: the ledger was replaced.
    generation: u64,
}

/// What a subscriber takes from the ring.
#[derive(Debug)]
pub(super) enum Taken {
    /// Frames, and whether there are more. Both may be absent.
    Frames(Vec<Arc<Ready>>, bool),
    /// The position is before the ring: the ledger has the frames.
    Behind,
}

/// Counts a subscriber until it is dropped.
#[derive(Debug)]
pub(super) struct Subscribed(Arc<Feed>);

impl Feed {
    pub(super) fn new(readers: Arc<Readers>, with_entries: bool) -> Arc<Feed> {
        let (state, looked) = (Mutex::default(), watch::Sender::new(0));
        Arc::new(Feed { readers, with_entries, state, looked })
    }

    pub(super) fn with_entries(&self) -> bool {
        self.with_entries
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing is left half changed by a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a subscriber. Starts the thread for the first one.
    pub(super) fn subscribe(
        self: &Arc<Feed>,
    ) -> std::io::Result<(Subscribed, watch::Receiver<u64>)> {
        let looked = self.looked.subscribe();
        let mut state = self.state();
        state.subscribers += 1;
        let subscribed = Subscribed(Arc::clone(self));
        if state.running.is_none() {
            let commits = Commits::to(self.readers.path());
            state.started += 1;
            let number = state.started;
            state.running = Some((number, commits.end()));
            state.forget_all();
            let feed = Arc::clone(self);
            let thread = std::thread::Builder::new().name("events".to_owned());
            drop(state);
            thread.spawn(move || feed.run(number, commits))?;
        }
        Ok((subscribed, looked))
    }

    /// Follows the ledger until the last subscriber has left.
    fn run(&self, number: u64, mut commits: Commits) {
        let mut position = None;
        loop {
            let wait = match self.look(number, &mut position) {
                Ok(true) => Some(PROJECTING),
                Ok(false) => None,
                Err(_) => Some(AFTER_FAILURE),
            };
            self.looked.send_modify(|looks| *looks += 1);
            match commits.wait(wait) {
                Woken::Ended => return,
                Woken::Late if wait == Some(PROJECTING) => {
                    let _ = self.readers.project();
                }
                Woken::Late | Woken::Committed => {}
            }
        }
    }

    /// Reads everything new into the ring. Returns whether records wait to be projected.
    fn look(&self, number: u64, position: &mut Option<Cursor>) -> Result<bool, Problem> {
        loop {
            let (frames, after, waits) = self.readers.read_as_is(|reader, freshness| {
                let after = match position.clone() {
                    Some(position) => position,
                    None => events::projected(&reader.ledger)?,
                };
                let frames = events::frames_after(&reader.ledger, &after, self.with_entries)?;
                Ok((frames, after, freshness.unprojected > 0))
            })?;
            let mut state = self.state();
            if state.running.as_ref().is_none_or(|(running, _)| *running != number) {
                return Ok(false);
            }
            let Some(frames) = frames else {
                // Another ledger is at this path.
                *position = None;
                state.forget_all();
                continue;
            };
            *position = Some(frames.after.clone());
            let has_more = frames.has_more;
            state.add(frames, after);
            drop(state);
            if !has_more {
                return Ok(waits && self.readers.may_project());
            }
            self.looked.send_modify(|looks| *looks += 1);
        }
    }

    /// Returns the number that changes when positions may no longer be valid.
    pub(super) fn generation(&self) -> u64 {
        self.state().generation
    }

    /// Takes the frames after a position, and moves it on.
    pub(super) fn take(&self, cursor: &mut Cursor, generation: u64, filter: &EventFilter) -> Taken {
        let state = self.state();
        let is_in_ring = state.generation == generation
            && state.start.as_ref().is_some_and(|start| cursor.includes(start));
        if !is_in_ring {
            return Taken::Behind;
        }
        let first = state.ring.partition_point(|ready| cursor.includes(&ready.frame.cursor));
        let (mut taken, mut bytes) = (Vec::new(), 0);
        let mut rest = state.ring.range(first..);
        for ready in rest.by_ref().take(MAX_LOOK) {
            if filter.passes(&ready.frame) {
                if bytes + ready.json.len() > MAX_PIECE_BYTES && !taken.is_empty() {
                    return Taken::Frames(taken, true);
                }
                bytes += ready.json.len();
                taken.push(Arc::clone(ready));
            }
            cursor.clone_from(&ready.frame.cursor);
        }
        Taken::Frames(taken, rest.next().is_some())
    }
}

impl State {
    /// Empties the ring. All subscribers look into the ledger, whether their positions are valid.
    fn forget_all(&mut self) {
        self.ring.clear();
        (self.bytes, self.start) = (0, None);
        self.generation += 1;
    }

    /// Adds frames that follow `after`.
    fn add(&mut self, frames: Frames, after: Cursor) {
        let is_forgotten = |change: &EventChange| matches!(change, EventChange::SessionForgotten);
        let mut new = frames.frames.iter().flat_map(|frame| &frame.wire.changes);
        if self.start.is_none() || frames.is_behind || new.any(is_forgotten) {
            // What was read before may have frames of the forgotten session.
            self.ring.clear();
            (self.bytes, self.start) = (0, Some(after));
        }
        for frame in frames.frames {
            let ready = Arc::new(Ready::new(frame));
            self.bytes += ready.json.len();
            self.ring.push_back(ready);
        }
        while self.ring.len() > MAX_FRAMES || self.bytes > MAX_BYTES {
            let Some(oldest) = self.ring.pop_front() else { break };
            self.bytes -= oldest.json.len();
            self.start = Some(oldest.frame.cursor.clone());
        }
    }
}

impl Drop for Subscribed {
    /// Ends the thread with the last subscriber.
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.subscribers -= 1;
        if state.subscribers == 0 {
            if let Some((_, end)) = state.running.take() {
                end.end();
            }
            state.forget_all();
        }
    }
}
