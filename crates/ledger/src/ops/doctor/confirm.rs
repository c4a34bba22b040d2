//! Confirms damage before it is reported, and once more with no writer active before advice is
//! given that could lose data.
//!
//! Never writes. The writers' queue and SQLite's write lock are held while a few checks run again,
//! and then released.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::finding::RESCUE;
use crate::base::sidecar::beside;
use crate::file::ledger_path::in_real_folder;
use crate::file::lock::{Turn, WriteLock, has_queue};
use crate::wire::{Diagnosis, Severity};

/// The time that the examination waits for writers to finish.
pub(super) const MAX_LOCK_WAIT: Duration = Duration::from_secs(10);

/// The longest time that waiting writers are blocked.
const MAX_HOLD_TIME: Duration = Duration::from_secs(3);

/// The largest number of examinations until two in a row agree.
const MAX_ATTEMPTS: usize = 3;

/// The advice for damage that was seen while another process may have been writing.
const STOP_WRITERS: &str = "change nothing yet: stop everything that writes to the ledger \
    (`quipu service`, `quipu watch`, agents that keep their sessions in it) and run `quipu doctor` \
    again; only without a writer can it distinguish damage from a write in progress";

/// Examines until two examinations in a row find errors in the same checks, or none. Reports errors
/// only of checks that failed in both.
pub(super) fn confirm_errors(examine: &mut dyn FnMut() -> Diagnosis) -> Diagnosis {
    let mut found = examine();
    for _ in 1..MAX_ATTEMPTS {
        let before = failed(&found);
        if before.is_empty() {
            return found;
        }
        found = examine();
        let now = failed(&found);
        let is_same = now == before;
        found.findings.retain(|finding| {
            finding.severity != Severity::Error || before.contains(&finding.check)
        });
        if is_same {
            break;
        }
    }
    found
}

/// Returns the checks that found errors.
fn failed(diagnosis: &Diagnosis) -> Vec<String> {
    let errors = diagnosis.findings.iter().filter(|finding| finding.severity == Severity::Error);
    let mut failed: Vec<String> = errors.map(|finding| finding.check.clone()).collect();
    failed.sort_unstable();
    failed.dedup();
    failed
}

/// Returns whether the diagnosis advises to replace the ledger.
pub(super) fn advises_replacement(diagnosis: &Diagnosis) -> bool {
    diagnosis.findings.iter().any(|finding| finding.hint == RESCUE)
}

/// Gives all grave findings the same advice. If `again` confirms one of them with no writer active,
/// it is to replace the ledger, with the possible losses. Otherwise it is to stop all writers and
/// check again.
pub(super) fn advise(
    diagnosis: &mut Diagnosis,
    path: &Path,
    longest: Duration,
    again: &mut dyn FnMut(&WritersStopped) -> Vec<String>,
) {
    let confirmed = match WritersStopped::begin(path, longest) {
        Some(quiet) => {
            let confirmed = again(&quiet);
            // A writer that waited too long may have written without its turn.
            if quiet.is_over() { Vec::new() } else { confirmed }
        }
        None => Vec::new(),
    };
    let mut grave: Vec<_> =
        diagnosis.findings.iter_mut().filter(|finding| finding.hint == RESCUE).collect();
    let advice = match grave.iter().any(|finding| confirmed.contains(&finding.check)) {
        true => format!("{RESCUE}; {}", possible_losses(path)),
        false => STOP_WRITERS.to_owned(),
    };
    for finding in &mut grave {
        finding.hint.clone_from(&advice);
    }
}

/// Describes what is lost with the ledger: native sessions exist in no other file.
fn possible_losses(path: &Path) -> String {
    let count = crate::Ledger::open_any_version(path).ok().and_then(|ledger| {
        let sessions = "SELECT count(*) FROM sources
                         WHERE kind = 'native' AND generation IS NOT NULL AND refused IS NULL";
        ledger.conn().query_row(sessions, [], |row| row.get::<_, i64>(0)).ok()
    });
    let which = match count {
        Some(0) => {
            return "it has no sessions of `quipu session`, which exist in no other file"
                .to_owned();
        }
        Some(1) => "1 session of `quipu session` exists only in this file".to_owned(),
        Some(count) => format!("{count} sessions of `quipu session` exist only in this file"),
        None => "sessions of `quipu session` exist only in this file".to_owned(),
    };
    format!(
        "{which}: entries appended since the backup are lost; without a backup, all entries are"
    )
}

/// A time in which no other process writes.
pub(super) struct WritersStopped {
    watch: Watch,
    // Declared in this order: the write lock is released before the turn.
    _writer: Option<Connection>,
    _turn: Option<Turn>,
}

/// Ends the quiet time when writers have waited too long.
#[derive(Clone)]
struct Watch {
    began: Instant,
    queue: Option<Arc<WriteLock>>,
    is_over: Arc<AtomicBool>,
}

impl Watch {
    fn new(queue: Option<WriteLock>) -> Watch {
        Watch { began: Instant::now(), queue: queue.map(Arc::new), is_over: Arc::default() }
    }

    fn is_over(&self) -> bool {
        let is_waited_for = || self.queue.as_ref().is_some_and(|queue| queue.has_waiters());
        if self.began.elapsed() > MAX_HOLD_TIME && is_waited_for() {
            self.is_over.store(true, Ordering::Relaxed);
        }
        self.is_over.load(Ordering::Relaxed)
    }
}

impl WritersStopped {
    /// Waits for at most `longest` until no process writes. Returns `None` if that cannot be
    /// ensured.
    fn begin(path: &Path, longest: Duration) -> Option<WritersStopped> {
        if !has_queue(path) && !beside(path, "-wal").exists() {
            // A copy that no process ever opened for writing.
            return Some(WritersStopped { watch: Watch::new(None), _writer: None, _turn: None });
        }
        let began = Instant::now();
        let queue = WriteLock::beside(path).ok()?;
        let turn = queue.acquire(longest);
        if !turn.is_held() {
            return None;
        }
        let writer = match write_lock(path, longest.saturating_sub(began.elapsed())) {
            Ok(conn) => Some(conn),
            Err(error) => match error.sqlite_error_code() {
                // No other process can write to a file that SQLite cannot open.
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => None,
                _ => return None,
            },
        };
        Some(WritersStopped { watch: Watch::new(Some(queue)), _writer: writer, _turn: Some(turn) })
    }

    /// Returns whether a writer has waited too long. From then on it may write without its turn.
    pub(super) fn is_over(&self) -> bool {
        self.watch.is_over()
    }

    /// Interrupts queries on `conn` when the quiet time is over.
    pub(super) fn watch(&self, conn: &mut Connection) {
        /// The number of SQLite's virtual machine steps between two checks of the queue.
        const STEPS_PER_CHECK: i32 = 100_000;
        let watch = self.watch.clone();
        // If it fails, the checks run to their end.
        let _ = conn.progress_handler(STEPS_PER_CHECK, Some(move || watch.is_over()));
    }
}

/// Takes SQLite's write lock without changing anything.
fn write_lock(path: &Path, longest: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let conn = Connection::open_with_flags(in_real_folder(path), flags)?;
    // The log is not checkpointed, even if this is the last connection.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    conn.busy_timeout(longest)?;
    conn.execute_batch("BEGIN IMMEDIATE")?;
    Ok(conn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Finding;

    /// The second examination confirms one of two findings, or none. In both cases they get the
    /// same advice.
    #[test]
    fn all_grave_findings_have_the_same_advice() {
        let folder = tempfile::tempdir().unwrap();
        let grave = |check: &str| Finding {
            check: check.to_owned(),
            severity: Severity::Error,
            message: String::new(),
            count: None,
            examples: Vec::new(),
            hint: RESCUE.to_owned(),
        };
        for confirmed in [&["file"][..], &[]] {
            let mut diagnosis = Diagnosis {
                is_ok: false,
                ledger_path: String::new(),
                is_deep: false,
                checks: Vec::new(),
                findings: vec![grave("file"), grave("projection")],
                chunks_opened: 0,
            };
            let path = folder.path().join("ledger.db");
            advise(&mut diagnosis, &path, Duration::ZERO, &mut |_| {
                confirmed.iter().map(|check| (*check).to_owned()).collect()
            });
            let advice: Vec<&str> = diagnosis.findings.iter().map(|it| it.hint.as_str()).collect();
            assert_eq!(advice[0], advice[1]);
            assert_eq!(advice[0].contains("--restore"), !confirmed.is_empty());
        }
    }
}
