//! One transaction of the store: records and journal lines, projected as they are written.
//!
//! Never commits: the caller does, after [`Work::end`].

use quipu_transcript::format::Format;
use quipu_transcript::formats::native::Native;
use rusqlite::Transaction;

use super::sessions::NativeSession;
use crate::Result;
use crate::base::ids::Seq;
use crate::project::draft::Drafter;
use crate::project::{Fold, Inserts, RecordPosition};
use crate::truth::journal::{self, Event};
use crate::truth::native_lines;

/// The format of native sessions.
pub(super) const FORMAT: &'static dyn Format = &Native;

/// An open transaction.
pub(super) struct Work<'a, 'c> {
    pub(super) tx: &'a Transaction<'c>,
    fold: &'a mut Fold,
    inserts: Inserts<'a>,
}

impl<'a, 'c> Work<'a, 'c> {
    pub(super) fn new(tx: &'a Transaction<'c>, fold: &'a mut Fold) -> Result<Work<'a, 'c>> {
        Ok(Work { tx, fold, inserts: Inserts::new(tx)? })
    }

    /// Appends a line to a session. The line may share the bytes of an existing record.
    pub(super) fn record(
        &mut self,
        session: &NativeSession,
        line: &[u8],
        key: Option<&str>,
        same_as: Option<Seq>,
    ) -> Result<Seq> {
        let tx = self.tx;
        let (generation, length) = (session.generation, line.len() as u64);
        let (seq, start) = native_lines::append(tx, generation, line, same_as, key)?;
        let mut draft = Drafter::new(FORMAT, &session.origin).draft(line);
        draft.same_as = same_as;
        let position = RecordPosition {
            format: FORMAT,
            origin: &session.origin,
            source: session.source,
            generation,
            start,
            length,
            is_row: false,
        };
        self.fold.record(tx, &mut self.inserts, &position, seq, draft)?;
        Ok(seq)
    }

    /// Appends a line to the journal.
    pub(super) fn event(&mut self, event: &Event) -> Result<Seq> {
        let seq = journal::append(self.tx, event)?;
        self.fold.event(self.tx, seq, event)?;
        Ok(seq)
    }

    /// Makes the projected rows visible to statements of this transaction.
    pub(super) fn save_sessions(&mut self) -> Result<()> {
        self.fold.save_sessions(self.tx)
    }

    /// Writes the rows that are only in memory, and records that everything is projected.
    pub(super) fn end(self) -> Result<()> {
        self.fold.save(self.tx)?;
        self.tx
            .prepare_cached(
                "UPDATE ledger SET projected_to = (SELECT coalesce(max(seq), 0) FROM records)",
            )?
            .execute([])?;
        Ok(())
    }
}
