//! How far readers may be ahead of the writer: by so many bytes, however they are spread over units
//! of work.
//!
//! A large file is one unit and a thousand small ones are another, so a number of units would be too
//! few for the one or too many for the other. The unit that the writer works on may always hand one
//! batch over, or the writer could wait for it while the others hold all there is.

use std::sync::{Condvar, Mutex, MutexGuard};

/// Batches that were handed over and are not written weigh at most about this much: what is read
/// while a transaction ends. With half as much, a core idles meanwhile.
const AHEAD: usize = 24 << 20;

/// What readers and writer know of each other.
pub(super) struct Lead {
    state: Mutex<State>,
    changed: Condvar,
    ahead: usize,
}

#[derive(Debug)]
struct State {
    /// The unit that the writer works on.
    front: usize,
    /// Batches of each unit that were handed over and are not written.
    waiting: Vec<usize>,
    /// What all of them weigh.
    weight: usize,
    is_over: bool,
}

impl Lead {
    pub(super) fn new(units: usize) -> Lead {
        let state = State { front: 0, waiting: vec![0; units], weight: 0, is_over: false };
        Lead { state: Mutex::new(state), changed: Condvar::new(), ahead: AHEAD }
    }

    /// Waits until a batch of a unit may be handed over. False: the writer has stopped.
    pub(super) fn enter(&self, unit: usize, weight: usize) -> bool {
        let Ok(mut state) = self.state.lock() else { return false };
        while !state.is_over && !state.has_room(unit, weight, self.ahead) {
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

    /// A batch of the unit in front was written.
    pub(super) fn leave(&self, weight: usize) {
        self.change(|state| {
            state.weight = state.weight.saturating_sub(weight);
            let front = state.front;
            if let Some(waiting) = state.waiting.get_mut(front) {
                *waiting = waiting.saturating_sub(1);
            }
        });
    }

    /// The writer goes on to the next unit.
    pub(super) fn advance(&self) {
        self.change(|state| state.front += 1);
    }

    /// The writer stops: nobody waits any more.
    pub(super) fn end(&self) {
        self.change(|state| state.is_over = true);
    }

    /// The unit that the writer works on: all before it are written.
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
    fn has_room(&self, unit: usize, weight: usize, ahead: usize) -> bool {
        let is_needed = unit == self.front && self.waiting.get(unit).is_none_or(|n| *n == 0);
        is_needed || self.weight + weight <= ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_in_front_is_never_kept_waiting_by_others() {
        let lead = Lead::new(3);
        assert!(lead.enter(1, AHEAD), "there is room");
        let state = lead.state.lock().unwrap();
        assert!(!state.has_room(2, 1, AHEAD), "all room is taken");
        assert!(state.has_room(0, 9 * AHEAD, AHEAD), "the writer waits for this one");
        drop(state);
        assert!(lead.enter(0, 9));
        assert!(!lead.state.lock().unwrap().has_room(0, 1, AHEAD), "one of it waits already");
        lead.leave(9);
        assert!(lead.state.lock().unwrap().has_room(0, 1, AHEAD));
        lead.advance();
        assert!(!lead.state.lock().unwrap().has_room(1, 1, AHEAD), "one of it waits already");
        lead.leave(AHEAD);
        assert!(lead.state.lock().unwrap().has_room(2, AHEAD, AHEAD));
    }

    #[test]
    fn whoever_waits_is_told_when_the_writer_stops() {
        let lead = Lead::new(2);
        assert!(lead.enter(1, AHEAD));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| lead.enter(1, 1));
            lead.end();
            assert!(!waits.join().unwrap());
        });
    }
}
