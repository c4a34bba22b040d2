//! Has what an import wrote reach the disk while the import goes on: writes the log back into the
//! ledger's file, or syncs the file if there is no log yet.
//!
//! What has to reach the disk after the last commit is waited for; what reached it before is not.
//! Whatever goes wrong here goes wrong again, and is told, when the import does the same at its end.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::Scope;

use crate::ledger::{Checkpointer, Ledger};

/// An import of fewer bytes than this is over before it would be worth a thread.
const SMALLEST: u64 = 16 << 20;

/// Tells a thread of its own of commits. The thread ends with it.
pub(super) struct Settler {
    commits: mpsc::SyncSender<()>,
}

impl Settler {
    /// Starts the thread, if there are so many bytes to read that it is worth it.
    pub(super) fn start<'s>(
        scope: &'s Scope<'s, '_>,
        ledger: &Ledger,
        bytes: u64,
    ) -> Option<Settler> {
        // One commit that was not seen to yet stands for all others.
        let (commits, seen) = mpsc::sync_channel(1);
        (bytes >= SMALLEST).then(|| {
            let path: PathBuf = ledger.path().to_owned();
            if ledger.is_unnamed() {
                scope.spawn(move || sync(&path, &seen));
            } else {
                scope.spawn(move || write_back(&path, &seen));
            }
            Settler { commits }
        })
    }

    /// There was a commit.
    pub(super) fn committed(&self) {
        let _ = self.commits.try_send(());
    }
}

fn write_back(ledger: &Path, seen: &mpsc::Receiver<()>) {
    let Ok(checkpointer) = Checkpointer::open(ledger) else { return };
    while seen.recv().is_ok() {
        // Another one may be at it, or need what is there.
        let _ = checkpointer.write_back();
    }
}

/// Closing the file drops the locks that SQLite has on it, which nobody else asks for: only this
/// process knows the file's name.
fn sync(ledger: &Path, seen: &mpsc::Receiver<()>) {
    let Ok(file) = File::open(ledger) else { return };
    while seen.recv().is_ok() {
        let _ = file.sync_data();
    }
}
