//! The whole output of a call, if the agent stored it in a separate file and only its beginning in
//! the transcript; and texts that were pasted into prompts, if they are in files.
//!
//! Reads the collected copy, never the file itself.

use std::borrow::Cow;

use quipu_transcript::entry::Role;
use quipu_transcript::record::{self, DECODE_LIMIT};
use quipu_transcript::story::{ItemKind, Piece, StoryItem, StoryResult, story_item};
use rusqlite::{Connection, OptionalExtension};

use super::calls::Calls;
use crate::Result;
use crate::base::ids::{EntryId, GenerationId, SessionRow};
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
            if let Piece::Result(result) = piece
                && let Some(text) = self.whole(result, calls)?
            {
                result.text = Cow::Owned(text);
            }
        }
        Ok(())
    }

    /// Adds the texts that were pasted into a prompt and are in files.
    pub(super) fn add_pasted(&self, item: &mut StoryItem<'_>) -> Result<()> {
        for piece in &mut item.pieces {
            if let Piece::Pasted { label, text } = piece
                && text.is_empty()
            {
                *text = Cow::Owned(self.pasted(base_name(label))?);
            }
        }
        Ok(())
    }

    /// Adds the texts that were pasted into a prompt of the conversation, if its record has only a
    /// mark in brackets for each: the agent's list of prompts may have them.
    pub(super) fn add_pasted_of_list(
        &self,
        session: SessionRow,
        item: &mut StoryItem<'_>,
    ) -> Result<()> {
        let words = item.words();
        let is_typed = item.role == Some(Role::User) && item.folded.is_none();
        if !is_typed || !words.contains('[') || !matches!(item.kind, ItemKind::Message) {
            return Ok(());
        }
        // Entries of the list have no id. The same text may have been typed several times.
        let listed: Option<(EntryId, GenerationId)> = self
            .conn
            .prepare_cached(
                "SELECT p.id, r.generation
                   FROM entry_rows e CROSS JOIN prompts p ON p.id = e.id
                  CROSS JOIN records r ON r.seq = e.id
                  WHERE e.session = ?1 AND e.uuid IS NULL AND p.text = ?2 AND r.length <= ?4
                  ORDER BY abs(coalesce(p.time, 0) - ?3), p.id LIMIT 1",
            )?
            .query_row(
                (session, &*words, item.time.map_or(0, |time| time.0), DECODE_LIMIT as i64),
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()?;
        let Some((listed, generation)) = listed.filter(|(listed, _)| listed.0 != item.entry) else {
            return Ok(());
        };
        let (Some(seq), Some(info)) = (listed.seq(), GenerationInfo::of(self.conn, generation)?)
        else {
            return Ok(());
        };
        let bytes = RecordReader::for_few(self.conn).read(seq)?;
        record::read(info.format(), info.origin(), &bytes, &mut |entry| {
            for piece in story_item(info.format(), entry).pieces {
                if let Piece::Pasted { label, text } = piece {
                    let label = Cow::Owned(label.into_owned());
                    item.pieces.push(Piece::Pasted { label, text: Cow::Owned(text.into_owned()) });
                }
            }
        });
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
