//! Moves written records to disk during an import: checkpoints the log, or syncs the file if
//! there is no log yet. The import then has less to wait for at its end.
//!
//! A checkpoint that fails is repeated later, or the import reports it at its end. A failed sync is
//! always reported: the system reports a write error only once, and counts the pages as written
//! from then on.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{Scope, ScopedJoinHandle};

use crate::file::ledger::{Checkpointer, Ledger};
use crate::{Error, Result};

/// The smallest import, in bytes, for which the thread is worth its cost.
const MIN_IMPORT_BYTES: u64 = 16 << 20;

/// A handle of the thread that syncs. The thread ends with it.
pub(super) struct CheckpointThread<'s> {
    commits: mpsc::SyncSender<()>,
    thread: ScopedJoinHandle<'s, Result<()>>,
}

impl<'s> CheckpointThread<'s> {
    /// Starts the thread, if the import is large enough.
    pub(super) fn start(
        scope: &'s Scope<'s, '_>,
        ledger: &Ledger,
        bytes: u64,
    ) -> Option<CheckpointThread<'s>> {
        // One message in the channel is enough for all commits that follow.
        let (commits, seen) = mpsc::sync_channel(1);
        (bytes >= MIN_IMPORT_BYTES).then(|| {
            let path: PathBuf = ledger.path().to_owned();
            let thread = match ledger.is_staging() {
                true => scope.spawn(move || sync(&path, &seen)),
                false => scope.spawn(move || write_back(&path, &seen)),
            };
            CheckpointThread { commits, thread }
        })
    }

    /// Reports a commit to the thread.
    pub(super) fn committed(&self) {
        let _ = self.commits.try_send(());
    }

    /// Waits for the thread to end. Returns an error if a part of the ledger may not be on disk.
    pub(super) fn end(self) -> Result<()> {
        drop(self.commits);
        let stopped = |_| Err(Error::damaged("the thread that syncs the ledger to disk stopped"));
        self.thread.join().unwrap_or_else(stopped)
    }
}

fn write_back(ledger: &Path, seen: &mpsc::Receiver<()>) -> Result<()> {
    let Ok(checkpointer) = Checkpointer::open(ledger) else { return Ok(()) };
    while seen.recv().is_ok() {
        // It fails while another process checkpoints or reads; the next commit tries again.
        let _ = checkpointer.write_back();
    }
    Ok(())
}

/// Syncs a staging file after each commit. Closing the file drops the locks that SQLite holds on
/// it, but no other process needs them before the file has its name, and this thread ends before
/// that.
fn sync(ledger: &Path, seen: &mpsc::Receiver<()>) -> Result<()> {
    // If the file is gone, renaming it fails and reports that.
    let Ok(file) = File::open(ledger) else { return Ok(()) };
    while seen.recv().is_ok() {
        file.sync_data().map_err(Error::io("sync", ledger))?;
    }
    Ok(())
}
