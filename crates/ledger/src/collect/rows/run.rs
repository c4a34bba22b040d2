//! Reads the changed sessions of a database and writes them, on one thread: SQLite returns rows
//! faster than the ledger stores them.

use std::cell::Cell;

use quipu_transcript::format::Origin;

use super::open::Database;
use super::refusal::{Refusal, Stop};
use super::session::Reading;
use super::tables::Tables;
use super::task::{Task, Transcript};
use super::{Seen, Sync, changed};
use crate::collect::batch::{Batch, Buffers, Builder};
use crate::collect::copies::SessionLines;
use crate::collect::discover::{FoundFile, Reason, Skipped};
use crate::collect::plan::Job;
use crate::collect::read::Work;
use crate::collect::write::{self, Writer};
use crate::collect::{Progress, is_over};
use crate::file::ledger::Ledger;

impl Sync<'_> {
    /// Reads and writes sessions and archives, one after another. Returns the number that was
    /// dropped because another process was faster.
    pub(super) fn run(
        &mut self,
        database: &Database,
        tables: &Tables,
        found: &FoundFile,
        jobs: &[Job],
        tasks: &[Task],
        seen: &mut Seen,
    ) -> Result<usize, Stop> {
        let ours = Ledger::open_up_to_date(self.ledger.path())?;
        let mut writer = Writer::new(self.roots, jobs, self.gate, self.report);
        let has_changed = Cell::new(false);
        let mut work = Work::default();
        let mut copies = SessionLines::default();
        let mut stop: Option<Refusal> = None;
        let deadline = self.ledger.deadline();
        let mut is_cut = false;
        let access = self.ledger.fts5_access()?;
        let (ledger, progress) = (&mut *self.ledger, &mut *self.progress);
        let mut send = |batch: Batch| {
            // The file changed while it was read, so the batch may be inconsistent.
            if has_changed.get() || !database.is_as_it_was() {
                has_changed.set(true);
                return Ok(());
            }
            let bytes = batch.bytes();
            ledger.write(|tx| {
                writer.begin(tx)?;
                writer.batch(tx, batch)?;
                writer.end(tx)
            })?;
            progress(Progress::Done { bytes });
            Ok(())
        };
        let mut buffers = Buffers::new(access);
        let mut builder = Builder::new(&mut buffers, &mut send);
        for (number, (job, task)) in jobs.iter().zip(tasks).enumerate() {
            let Some(root) = self.roots.get(job.root) else { break };
            if has_changed.get() {
                break;
            }
            if is_over(deadline) {
                is_cut = true;
                break;
            }
            let first_path = job.known.as_ref().map_or(&job.path, |known| &known.first_path);
            let origin: Origin = root.format.origin(first_path);
            let mut reading = Reading {
                theirs: &database.conn,
                tables,
                ours: ours.conn(),
                format: root.format,
                builder: &mut builder,
                work: &mut work,
                odd: None,
            };
            let outcome = match &task.transcript {
                Transcript::Session(session) => {
                    reading.session(job, number, &origin, session).map(|()| None)
                }
                Transcript::Archive(archive) => {
                    // Its lines may be equal to those of sessions that are not written yet.
                    reading.builder.hand_over(true)?;
                    reading.archive(job, number, &origin, archive, &mut copies)
                }
            };
            let odd = reading.odd;
            let mut skip = |reason| {
                self.skipped.push(Skipped { root: found.root, path: job.path.clone(), reason });
            };
            match outcome {
                Ok(None) => {}
                Ok(Some(damage)) => skip(Reason::Damaged(damage.text())),
                // One session of many: the others are read.
                Err(Stop::Theirs(why)) if why.is_lasting => {
                    let reason = Reason::Unreadable(why.why);
                    seen.unread.add(&job.path, &reason);
                    skip(reason);
                }
                Err(Stop::Theirs(why)) => {
                    stop = Some(why);
                    break;
                }
                Err(error) => return Err(error),
            }
            if let Some(odd) = odd {
                skip(Reason::Odd(odd));
            }
        }
        builder.hand_over(true)?;
        self.report.bytes_read += work.bytes_read;
        self.report.bytes_verified += work.bytes_verified;
        self.report.lines_parsed += work.lines_parsed;
        self.report.old_lines += work.old_lines;
        let dropped = write::dropped(&writer.progress);
        self.report.sources_changed += jobs.len().saturating_sub(dropped) as u64;
        writer.add_to(self.report);
        match stop.or_else(|| has_changed.get().then(changed)) {
            Some(stop) => Err(stop.into()),
            None if is_cut => Err(Stop::OutOfTime),
            None => Ok(dropped),
        }
    }
}
