//! The exit codes of failed commands, from the records of their results.
//!
//! A call is shown before its result. Only results of failed calls are read, and of these only the
//! beginning.

use quipu_transcript::story::{Outcome, Piece, StoryItem, exit_code};
use rusqlite::{Connection, OptionalExtension};

use crate::Result;
use crate::base::ids::EntryId;
use crate::truth::chunks::RecordReader;

/// The bytes of a result that are read. The code is at the beginning of its text.
const HEAD: usize = 16 << 10;

/// Reads exit codes.
pub(super) struct ExitCodes<'c> {
    conn: &'c Connection,
    reader: RecordReader<'c>,
}

impl<'c> ExitCodes<'c> {
    pub(super) fn new(conn: &'c Connection) -> ExitCodes<'c> {
        ExitCodes { conn, reader: RecordReader::new(conn) }
    }

    /// Adds the exit codes of the calls of an item.
    pub(super) fn fill(&mut self, item: &mut StoryItem<'_>) -> Result<()> {
        let calls = item.pieces.iter_mut().filter_map(|piece| match piece {
            Piece::Call(call) => Some(call),
            _ => None,
        });
        for (ordinal, call) in (0_i64..).zip(calls) {
            if call.outcome != Some(Outcome::Failed) {
                continue;
            }
            let result: Option<EntryId> = self
                .conn
                .prepare_cached(
                    "SELECT result FROM tool_call_rows WHERE entry = ?1 AND ordinal = ?2",
                )?
                .query_row((item.entry, ordinal), |row| row.get(0))
                .optional()?
                .flatten();
            if let Some(seq) = result.and_then(EntryId::seq) {
                call.exit_code = exit_code(&self.reader.head(seq, HEAD)?);
            }
        }
        Ok(())
    }
}
