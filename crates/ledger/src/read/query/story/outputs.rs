//! The whole output of a call, if the agent stored it in a separate file and only its beginning in
//! the transcript; and texts that were pasted into prompts, if they are in files.
//!
//! Reads the collected copy, never the file itself.

use std::borrow::Cow;

use quipu_transcript::record::DECODE_LIMIT;
use quipu_transcript::story::{Piece, StoryItem, StoryResult};
use rusqlite::{Connection, OptionalExtension};

use super::calls::Calls;
use crate::Result;
use crate::base::ids::{EntryId, GenerationId};
use crate::project::draft::base_name;
use crate::project::rebuild::GenerationInfo;
use crate::project::search::SearchText;
use crate::truth::chunks::RecordReader;

/// Replaces the beginnings of outputs by the whole outputs, and adds pasted texts.
pub(super) struct Outputs<'c> {
    conn: &'c Connection,
}

impl<'c> Outputs<'c> {
    pub(super) fn new(conn: &'c Connection) -> Outputs<'c> {
        Outputs { conn }
    }

    pub(super) fn fill(&self, item: &mut StoryItem<'_>, calls: &mut Calls<'_>) -> Result<()> {
        for piece in &mut item.pieces {
            match piece {
                Piece::Result(result) => {
                    if let Some(text) = self.whole(result, calls)? {
                        result.text = Cow::Owned(text);
                    }
                }
                Piece::Attached { label, text } if text.is_empty() => {
                    *text = Cow::Owned(self.pasted(base_name(label))?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the whole output, if its file was collected and holds text.
    fn whole(&self, result: &StoryResult<'_>, calls: &mut Calls<'_>) -> Result<Option<String>> {
        let (Some(call), Some(_)) = (&result.call_id, &result.output_file) else { return Ok(None) };
        let Some(output) = calls.output(call)? else { return Ok(None) };
        let text = self.text(output)?;
        let text = text.tool_result.as_str();
        Ok((!text.is_empty()).then(|| text.to_owned()))
    }

    /// Returns the text of a file that was pasted into a prompt; empty if it was not collected.
    fn pasted(&self, name: &str) -> Result<String> {
        let file: Option<EntryId> = self
            .conn
            .prepare_cached(
                "SELECT max(id) FROM documents
                  WHERE session IS NULL AND name = ?1 AND part = 'pasted_text'",
            )?
            .query_row([name], |row| row.get(0))?;
        let Some(file) = file else { return Ok(String::new()) };
        Ok(self.text(file)?.prose.as_str().to_owned())
    }

    /// Returns the text of a collected file; empty if it is too long.
    fn text(&self, file: EntryId) -> Result<SearchText> {
        let found: Option<(EntryId, GenerationId, i64)> = self
            .conn
            .prepare_cached("SELECT seq, generation, length FROM records WHERE seq = ?1")?
            .query_row([file], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        let Some((entry, generation, length)) = found else { return Ok(SearchText::default()) };
        let (Some(seq), Some(info)) = (entry.seq(), GenerationInfo::of(self.conn, generation)?)
        else {
            return Ok(SearchText::default());
        };
        if length.cast_unsigned() > DECODE_LIMIT as u64 {
            return Ok(SearchText::default());
        }
        let bytes = RecordReader::for_few(self.conn).read(seq)?;
        Ok(info.drafter().texts(&bytes, None).into_iter().next().unwrap_or_default())
    }
}
