//! The whole output of a call, if the agent stored it in a separate file and only its beginning in
//! the transcript.
//!
//! Reads the collected copy, never the file itself.

use std::borrow::Cow;

use quipu_transcript::record::DECODE_LIMIT;
use quipu_transcript::story::{Piece, StoryItem, StoryResult};
use rusqlite::{Connection, OptionalExtension};

use super::calls::Calls;
use crate::Result;
use crate::base::ids::{EntryId, GenerationId};
use crate::project::rebuild::GenerationInfo;
use crate::truth::chunks::RecordReader;

/// Replaces the beginnings of outputs by the whole outputs.
pub(super) struct Outputs<'c> {
    conn: &'c Connection,
}

impl<'c> Outputs<'c> {
    pub(super) fn new(conn: &'c Connection) -> Outputs<'c> {
        Outputs { conn }
    }

    pub(super) fn fill(&self, item: &mut StoryItem<'_>, calls: &mut Calls<'_>) -> Result<()> {
        for piece in &mut item.pieces {
            if let Piece::Result(result) = piece
                && let Some(text) = self.whole(result, calls)?
            {
                result.text = Cow::Owned(text);
            }
        }
        Ok(())
    }

    /// Returns the whole output, if its file was collected and holds text.
    fn whole(&self, result: &StoryResult<'_>, calls: &mut Calls<'_>) -> Result<Option<String>> {
        let (Some(call), Some(_)) = (&result.call_id, &result.output_file) else { return Ok(None) };
        let Some(output) = calls.output(call)? else { return Ok(None) };
        let file: Option<(EntryId, GenerationId, i64)> = self
            .conn
            .prepare_cached("SELECT seq, generation, length FROM records WHERE seq = ?1")?
            .query_row([output], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        let Some((entry, generation, length)) = file else { return Ok(None) };
        let (Some(seq), Some(info)) = (entry.seq(), GenerationInfo::of(self.conn, generation)?)
        else {
            return Ok(None);
        };
        if length.cast_unsigned() > DECODE_LIMIT as u64 {
            return Ok(None);
        }
        let bytes = RecordReader::for_few(self.conn).read(seq)?;
        let text = info.drafter().texts(&bytes, None).into_iter().next().unwrap_or_default();
        let text = text.tool_result.as_str();
        Ok((!text.is_empty()).then(|| text.to_owned()))
    }
}
