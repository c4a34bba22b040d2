//! Confirms damage before it is reported, and once more with no writer active before advice is
//! given that could lose data.
//!
//! Nothing is written: the writers' queue and SQLite's write lock are held while a few checks run
//! again, and given back.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::finding::RESCUE;
use crate::base::sidecar::beside;
use crate::file::ledger_path::in_real_folder;
use crate::file::lock::{Held, WriteLock, has_queue};
use crate::wire::{Diagnosis, Severity};

/// How long the examination waits for writers to be done.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Writers that wait are kept waiting no longer than this.
const LONGEST_HOLD: Duration = Duration::from_secs(3);

/// Examinations until two in a row agree.
const TRIES: usize = 3;

/// What to do about damage that was seen while others may have been writing.
const STOP_WRITERS: &str = "change nothing yet: stop everything that writes to the ledger \
    (`quipu service`, `quipu watch`, agents that keep their sessions in it) and run `quipu doctor` \
    again; only with no writer active can it tell damage from a write in progress";

/// Examines until two examinations in a row find errors in the same checks, or none. Only errors of
/// checks in which both found some are reported.
pub(super) fn twice(examine: &mut dyn FnMut() -> Diagnosis) -> Diagnosis {
    let mut found = examine();
    for _ in 1..TRIES {
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

/// The checks that found errors.
fn failed(diagnosis: &Diagnosis) -> Vec<String> {
    let errors = diagnosis.findings.iter().filter(|finding| finding.severity == Severity::Error);
    let mut failed: Vec<String> = errors.map(|finding| finding.check.clone()).collect();
    failed.sort_unstable();
    failed.dedup();
    failed
}

/// Whether the diagnosis advises to replace the ledger.
pub(super) fn is_grave(diagnosis: &Diagnosis) -> bool {
    diagnosis.findings.iter().any(|finding| finding.advice == RESCUE)
}

/// Replaces the advice of grave findings: those that `again` finds too, with no writer active, say
/// what would be lost; the others say how to find out.
pub(super) fn advise(
    diagnosis: &mut Diagnosis,
    path: &Path,
    longest: Duration,
    again: &mut dyn FnMut(&Quiet) -> Vec<String>,
) {
    let confirmed = match Quiet::begin(path, longest) {
        Some(quiet) => {
            let confirmed = again(&quiet);
            // A writer that waited too long may have gone on.
            if quiet.is_over() { Vec::new() } else { confirmed }
        }
        None => Vec::new(),
    };
    let is_confirmed = !confirmed.is_empty();
    let advice = format!("{RESCUE}; {}", losses(path));
    for finding in diagnosis.findings.iter_mut().filter(|finding| finding.advice == RESCUE) {
        let is_note = finding.severity != Severity::Error;
        finding.advice = match confirmed.contains(&finding.check) || (is_note && is_confirmed) {
            true => advice.clone(),
            false => STOP_WRITERS.to_owned(),
        };
    }
}

/// Says which sessions a backup or the files on disk cannot give back.
fn losses(path: &Path) -> String {
    let count = crate::Ledger::open_as_it_is(path).ok().and_then(|ledger| {
        let sessions = "SELECT count(*) FROM sources
                         WHERE kind = 'native' AND generation IS NOT NULL AND refused IS NULL";
        ledger.conn().query_row(sessions, [], |row| row.get::<_, i64>(0)).ok()
    });
    let which = match count {
        Some(0) => return "it holds no sessions of `quipu session`, which no file has".to_owned(),
        Some(1) => "1 session of `quipu session` is in no file but this one".to_owned(),
        Some(count) => format!("{count} sessions of `quipu session` are in no file but this one"),
        None => "sessions of `quipu session` are in no file but this one".to_owned(),
    };
    format!("{which}: of those, what was appended since the backup is lost, without a backup all")
}

/// A time in which no other process writes.
pub(super) struct Quiet {
    watch: Watch,
    // In this order: the write lock is given back before the turn.
    _writer: Option<Connection>,
    _turn: Option<Held>,
}

/// Ends the quiet time for writers that wait.
#[derive(Clone)]
struct Watch {
    began: Instant,
    queue: Option<Arc<WriteLock>>,
    is_over: Arc<AtomicBool>,
}

impl Watch {
    fn over(queue: Option<WriteLock>) -> Watch {
        Watch { began: Instant::now(), queue: queue.map(Arc::new), is_over: Arc::default() }
    }

    fn is_over(&self) -> bool {
        let is_waited_for = || self.queue.as_ref().is_some_and(|queue| queue.someone_waits());
        if self.began.elapsed() > LONGEST_HOLD && is_waited_for() {
            self.is_over.store(true, Ordering::Relaxed);
        }
        self.is_over.load(Ordering::Relaxed)
    }
}

impl Quiet {
    /// Waits until no process writes, at most `longest`. `None` if one does, or if it cannot be known.
    fn begin(path: &Path, longest: Duration) -> Option<Quiet> {
        if !has_queue(path) && !beside(path, "-wal").exists() {
            // A copy that no process ever opened for writing.
            return Some(Quiet { watch: Watch::over(None), _writer: None, _turn: None });
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
                // What SQLite cannot open, no other process can write to.
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => None,
                _ => return None,
            },
        };
        Some(Quiet { watch: Watch::over(Some(queue)), _writer: writer, _turn: Some(turn) })
    }

    /// Whether a writer has waited for too long. From then on it may go on without its turn.
    pub(super) fn is_over(&self) -> bool {
        self.watch.is_over()
    }

    /// Interrupts what is asked of `conn` when the quiet time is over.
    pub(super) fn watch(&self, conn: &mut Connection) {
        /// Steps of SQLite's machine between two looks at the queue.
        const STEPS: i32 = 100_000;
        let watch = self.watch.clone();
        // Without it, the checks take as long as they take.
        let _ = conn.progress_handler(STEPS, Some(move || watch.is_over()));
    }
}

/// Takes SQLite's write lock and changes nothing.
fn write_lock(path: &Path, longest: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let conn = Connection::open_with_flags(in_real_folder(path), flags)?;
    // The log stays where it is, also if this is the last connection.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    conn.busy_timeout(longest)?;
    conn.execute_batch("BEGIN IMMEDIATE")?;
    Ok(conn)
}
