//! Has what an import wrote reach the disk while the import goes on: writes the log back into the
//! ledger's file, or syncs the file if there is no log yet.
//!
//! What has to reach the disk after the last commit is waited for; what reached it before is not.
//! A log that cannot be written back is written back later, or the import hears of it at its end. A
//! file that could not be synced is different: the system says so once, and what it could not write
//! counts as written from then on.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{Scope, ScopedJoinHandle};

use crate::file::ledger::{Checkpointer, Ledger};
use crate::{Error, Result};

/// An import of fewer bytes than this is over before it would be worth a thread.
const SMALLEST: u64 = 16 << 20;

/// Tells a thread of its own of commits. The thread ends with it.
pub(super) struct Settler<'s> {
    commits: mpsc::SyncSender<()>,
    thread: ScopedJoinHandle<'s, Result<()>>,
}

impl<'s> Settler<'s> {
    /// Starts the thread, if there are so many bytes to read that it is worth it.
    pub(super) fn start(
        scope: &'s Scope<'s, '_>,
        ledger: &Ledger,
        bytes: u64,
    ) -> Option<Settler<'s>> {
        // One commit that was not seen to yet stands for all others.
        let (commits, seen) = mpsc::sync_channel(1);
        (bytes >= SMALLEST).then(|| {
            let path: PathBuf = ledger.path().to_owned();
            let thread = match ledger.is_unnamed() {
                true => scope.spawn(move || sync(&path, &seen)),
                false => scope.spawn(move || write_back(&path, &seen)),
            };
            Settler { commits, thread }
        })
    }

    /// There was a commit.
    pub(super) fn committed(&self) {
        let _ = self.commits.try_send(());
    }

    /// Waits until nothing of it is left. An error if anything may not be on disk.
    pub(super) fn end(self) -> Result<()> {
        drop(self.commits);
        let stopped = |_| Err(Error::damaged("what syncs the ledger stopped"));
        self.thread.join().unwrap_or_else(stopped)
    }
}

fn write_back(ledger: &Path, seen: &mpsc::Receiver<()>) -> Result<()> {
    let Ok(checkpointer) = Checkpointer::open(ledger) else { return Ok(()) };
    while seen.recv().is_ok() {
        // Another one may be at it, or need what is there.
        let _ = checkpointer.write_back();
    }
    Ok(())
}

/// Closing the file drops the locks that SQLite has on it. Nobody else asks for them before the file
/// has its name, and by then this has ended.
fn sync(ledger: &Path, seen: &mpsc::Receiver<()>) -> Result<()> {
    // If it is gone, whoever gives it its name finds that out.
    let Ok(file) = File::open(ledger) else { return Ok(()) };
    while seen.recv().is_ok() {
        file.sync_data().map_err(Error::io("sync", ledger))?;
    }
    Ok(())
}
