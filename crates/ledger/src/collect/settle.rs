//! Writes the log back into the ledger's file while a large import goes on.
//!
//! What is written back, and has to reach the disk, after the last commit is waited for; what was
//! written back before is not. Whatever goes wrong here goes wrong again, and is told, when the
//! import itself writes the log back at its end.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::Scope;

use crate::ledger::Checkpointer;

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
        ledger: &Path,
        bytes: u64,
    ) -> Option<Settler> {
        // One commit that was not seen to yet stands for all others.
        let (commits, seen) = mpsc::sync_channel(1);
        (bytes >= SMALLEST).then(|| {
            let path: PathBuf = ledger.to_owned();
            scope.spawn(move || {
                let Ok(checkpointer) = Checkpointer::open(&path) else { return };
                while seen.recv().is_ok() {
                    // Another one may be at it, or need what is there.
                    let _ = checkpointer.write_back();
                }
            });
            Settler { commits }
        })
    }

    /// There was a commit.
    pub(super) fn committed(&self) {
        let _ = self.commits.try_send(());
    }
}
