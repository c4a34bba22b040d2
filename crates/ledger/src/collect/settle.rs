//! Has what an import wrote reach the disk while the import goes on: writes the log back into the
//! ledger's file, or syncs the file if there is no log yet.
//!
//! What has to reach the disk after the last commit is waited for; what reached it before is not.
//! Whatever goes wrong here goes wrong again, and is told, when the import does the same at its end.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{Scope, ScopedJoinHandle};

use crate::ledger::{Checkpointer, Ledger};

/// An import of fewer bytes than this is over before it would be worth a thread.
const SMALLEST: u64 = 16 << 20;

/// Tells a thread of its own of commits. The thread ends with it.
pub(super) struct Settler<'s> {
    commits: mpsc::SyncSender<()>,
    thread: ScopedJoinHandle<'s, ()>,
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

    /// Waits until nothing of it is left.
    pub(super) fn end(self) {
        drop(self.commits);
        let _ = self.thread.join();
    }
}

fn write_back(ledger: &Path, seen: &mpsc::Receiver<()>) {
    let Ok(checkpointer) = Checkpointer::open(ledger) else { return };
    while seen.recv().is_ok() {
        // Another one may be at it, or need what is there.
        let _ = checkpointer.write_back();
    }
}

/// Closing the file drops the locks that SQLite has on it. Nobody else asks for them before the file
/// has its name, and by then this has ended.
fn sync(ledger: &Path, seen: &mpsc::Receiver<()>) {
    let Ok(file) = File::open(ledger) else { return };
    while seen.recv().is_ok() {
        let _ = file.sync_data();
    }
}
