//! A position in the ledger that moves on with what happens.

use std::sync::Arc;

use quipu_ledger::events::{self, Cursor, EventFilter};
use tokio::sync::watch;

use super::Ready;
use super::feed::{Feed, MAX_PIECE_BYTES, Subscribed, Taken};
use crate::problem::Problem;
use crate::readers::Readers;

/// One subscriber.
#[derive(Debug)]
pub(super) struct Subscription {
    feed: Arc<Feed>,
    readers: Arc<Readers>,
    filter: Arc<EventFilter>,
    cursor: Cursor,
    /// The generation of the feed in which the cursor was found valid; `None` before that.
    generation: Option<u64>,
    looked: watch::Receiver<u64>,
    /// Frames that were read from the ledger and not taken yet.
    read: std::vec::IntoIter<Arc<Ready>>,
    /// The position after them.
    read_to: Option<Cursor>,
    _subscribed: Subscribed,
}

/// What a subscriber gets next.
#[derive(Debug)]
pub(super) enum Next {
    /// One frame or more.
    Frames(Vec<Arc<Ready>>),
    /// The cursor is not one of this ledger.
    StartOver,
}

impl Subscription {
    pub(super) fn new(
        feed: &Arc<Feed>,
        readers: &Arc<Readers>,
        filter: EventFilter,
        cursor: Cursor,
    ) -> std::io::Result<Subscription> {
        let (subscribed, looked) = feed.subscribe()?;
        Ok(Subscription {
            feed: Arc::clone(feed),
            readers: Arc::clone(readers),
            filter: Arc::new(filter),
            cursor,
            generation: None,
            looked,
            read: Vec::new().into_iter(),
            read_to: None,
            _subscribed: subscribed,
        })
    }

    /// Returns the position after the last frame that was taken.
    pub(super) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    pub(super) fn filter(&self) -> &EventFilter {
        &self.filter
    }

    /// Waits for the next frames. If the future is dropped, no frame is lost.
    pub(super) async fn next(&mut self) -> Result<Next, Problem> {
        loop {
            if let Some(frames) = self.take_read() {
                return Ok(Next::Frames(frames));
            }
            self.looked.borrow_and_update();
            let taken = match self.generation {
                Some(generation) => self.feed.take(&mut self.cursor, generation, &self.filter),
                None => Taken::Behind,
            };
            match taken {
                Taken::Frames(frames, _) if !frames.is_empty() => return Ok(Next::Frames(frames)),
                Taken::Frames(_, true) => continue,
                Taken::Frames(_, false) => {}
                Taken::Behind => match self.read_ledger().await? {
                    None => return Ok(Next::StartOver),
                    Some(true) => continue,
                    Some(false) => {}
                },
            }
            // The sender lives as long as the feed.
            let _ = self.looked.changed().await;
        }
    }

    /// Reads frames from the ledger. Returns whether it makes sense to look again at once; `None` if
    /// the cursor is not one of this ledger.
    async fn read_ledger(&mut self) -> Result<Option<bool>, Problem> {
        let generation = self.feed.generation();
        let (after, filter) = (self.cursor.clone(), Arc::clone(&self.filter));
        let with_entries = self.feed.with_entries();
        let found = Arc::clone(&self.readers)
            .run_as_is(move |reader, _| {
                let Some(found) = events::frames_after(&reader.ledger, &after, with_entries)?
                else {
                    return Ok(None);
                };
                let frames = found.frames.into_iter().filter(|frame| filter.passes(frame));
                let ready: Vec<_> = frames.map(|frame| Arc::new(Ready::new(frame))).collect();
                Ok(Some((ready, found.after)))
            })
            .await?;
        let Some((ready, after)) = found else { return Ok(None) };
        let is_first = self.generation.replace(generation) != Some(generation);
        let has_moved = after != self.cursor;
        match ready.is_empty() {
            true => self.cursor = after,
            false => (self.read, self.read_to) = (ready.into_iter(), Some(after)),
        }
        Ok(Some(has_moved || is_first))
    }

    /// Takes frames that were read from the ledger, about one piece.
    fn take_read(&mut self) -> Option<Vec<Arc<Ready>>> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(next) = self.read.as_slice().first() {
            if bytes + next.json.len() > MAX_PIECE_BYTES && !taken.is_empty() {
                break;
            }
            bytes += next.json.len();
            self.cursor.clone_from(&next.frame.cursor);
            taken.extend(self.read.next());
        }
        if self.read.as_slice().is_empty()
            && let Some(after) = self.read_to.take()
        {
            self.cursor = after;
        }
        (!taken.is_empty()).then_some(taken)
    }
}
