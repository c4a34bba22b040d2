//! Backpressure: limits how many bytes the readers may be ahead of the writer, over all units of
//! work.
//!
//! One unit is a large file, another a thousand small ones, so a limit in units would be too small
//! for the one or too large for the other. The unit that the writer works on may always hand one
//! batch over. Otherwise the writer could wait for it while the other units use up the limit.

use std::sync::{Condvar, Mutex, MutexGuard};

/// The largest weight, in bytes, of batches that are handed over and not yet written: as much as is
/// read during one commit. With half of it, a core idles during the commit.
const MAX_UNWRITTEN_BYTES: usize = 24 << 20;

/// The state that readers and writer share.
pub(super) struct Backpressure {
    state: Mutex<State>,
    changed: Condvar,
    limit: usize,
}

#[derive(Debug)]
struct State {
    /// The unit that the writer works on.
    front: usize,
    /// The number of unwritten batches of each unit.
    waiting: Vec<usize>,
    /// The weight of all unwritten batches.
    weight: usize,
    is_over: bool,
}

impl Backpressure {
    pub(super) fn new(units: usize) -> Backpressure {
        let state = State { front: 0, waiting: vec![0; units], weight: 0, is_over: false };
        Backpressure {
            state: Mutex::new(state),
            changed: Condvar::new(),
            limit: MAX_UNWRITTEN_BYTES,
        }
    }

    /// Waits until a batch of a unit may be handed over. Returns false if the writer has stopped.
    pub(super) fn enter(&self, unit: usize, weight: usize) -> bool {
        let Ok(mut state) = self.state.lock() else { return false };
        while !state.is_over && !state.has_room(unit, weight, self.limit) {
            state = match self.changed.wait(state) {
                Ok(state) => state,
                Err(_) => return false,
            };
        }
        state.weight += weight;
        if let Some(waiting) = state.waiting.get_mut(unit) {
            *waiting += 1;
        }
        !state.is_over
    }

    /// Records that a batch of the front unit was written.
    pub(super) fn leave(&self, weight: usize) {
        self.change(|state| {
            state.weight = state.weight.saturating_sub(weight);
            let front = state.front;
            if let Some(waiting) = state.waiting.get_mut(front) {
                *waiting = waiting.saturating_sub(1);
            }
        });
    }

    /// Moves the writer on to the next unit.
    pub(super) fn advance(&self) {
        self.change(|state| state.front += 1);
    }

    /// Releases all waiting readers: the writer has stopped.
    pub(super) fn end(&self) {
        self.change(|state| state.is_over = true);
    }

    /// Returns the unit that the writer works on. All units before it are written.
    pub(super) fn front(&self) -> usize {
        self.state.lock().map_or(0, |state: MutexGuard<'_, State>| state.front)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        if let Ok(mut state) = self.state.lock() {
            change(&mut state);
            self.changed.notify_all();
        }
    }
}

impl State {
    fn has_room(&self, unit: usize, weight: usize, limit: usize) -> bool {
        let is_needed = unit == self.front && self.waiting.get(unit).is_none_or(|n| *n == 0);
        is_needed || self.weight + weight <= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_unit_never_waits_for_other_units() {
        let backpressure = Backpressure::new(3);
        assert!(backpressure.enter(1, MAX_UNWRITTEN_BYTES), "there is room");
        let state = backpressure.state.lock().unwrap();
        assert!(!state.has_room(2, 1, MAX_UNWRITTEN_BYTES), "all room is taken");
        assert!(
            state.has_room(0, 9 * MAX_UNWRITTEN_BYTES, MAX_UNWRITTEN_BYTES),
            "the writer waits for this one"
        );
        drop(state);
        assert!(backpressure.enter(0, 9));
        assert!(
            !backpressure.state.lock().unwrap().has_room(0, 1, MAX_UNWRITTEN_BYTES),
            "one of it waits already"
        );
        backpressure.leave(9);
        assert!(backpressure.state.lock().unwrap().has_room(0, 1, MAX_UNWRITTEN_BYTES));
        backpressure.advance();
        assert!(
            !backpressure.state.lock().unwrap().has_room(1, 1, MAX_UNWRITTEN_BYTES),
            "one of it waits already"
        );
        backpressure.leave(MAX_UNWRITTEN_BYTES);
        assert!(backpressure.state.lock().unwrap().has_room(
            2,
            MAX_UNWRITTEN_BYTES,
            MAX_UNWRITTEN_BYTES
        ));
    }

    #[test]
    fn waiting_readers_are_released_when_the_writer_stops() {
        let backpressure = Backpressure::new(2);
        assert!(backpressure.enter(1, MAX_UNWRITTEN_BYTES));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| backpressure.enter(1, 1));
            backpressure.end();
            assert!(!waits.join().unwrap());
        });
    }
}
