//! Maps independent items on several threads, if there is enough work.

use std::num::NonZero;
use std::thread;

/// Minimum number of bytes for each thread. Starting a thread for less would take longer than the
/// work.
const BYTES_PER_THREAD: usize = 256 << 10;

/// Maximum number of threads. More would wait for memory, not for processors.
const MAX_THREADS: usize = 4;

/// Applies `work` to the items and returns the results in order. `weight` returns the bytes of an
/// item.
pub(crate) fn map<T: Sync, R: Send>(
    items: &[T],
    weight: impl Fn(&T) -> usize,
    work: impl Fn(&[T]) -> R + Sync,
) -> Vec<R> {
    let total: usize = items.iter().map(&weight).sum();
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let parts = (total / BYTES_PER_THREAD).clamp(1, processors.min(MAX_THREADS));
    let mut rest = items;
    let mut shares = Vec::with_capacity(parts);
    while shares.len() + 1 < parts {
        let mut taken = 0;
        let share = rest.iter().take_while(|item| {
            taken += weight(item);
            taken <= total / parts
        });
        let (share, further) = rest.split_at(share.count());
        shares.push(share);
        rest = further;
    }
    thread::scope(|scope| {
        let others: Vec<_> = shares.into_iter().map(|share| scope.spawn(|| work(share))).collect();
        let last = work(rest);
        let mut all: Vec<R> = Vec::with_capacity(parts);
        for other in others {
            match other.join() {
                Ok(done) => all.push(done),
                // The thread's panic continues here.
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all.push(last);
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_mapped_once_and_in_order() {
        for count in [0, 1, 7, 1000] {
            let items: Vec<usize> = (0..count).collect();
            for weight in [0, 1, 10_000] {
                let done = map(&items, |_| weight, <[usize]>::to_vec);
                assert_eq!(done.concat(), items);
            }
        }
    }
}
