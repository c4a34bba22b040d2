//! The text of a hit, decoded from its record, since the index stores no text.
//!
//! Never reads a source file.

use foldhash::{HashMap, HashMapExt};
use quipu_transcript::format;
use rusqlite::{Connection, OptionalExtension};

use super::columns;
use crate::Result;
use crate::base::ids::{EntryId, GenerationId, Seq};
use crate::project::draft::Drafter;
use crate::project::rebuild::{self, GenerationInfo};
use crate::project::search::SearchText;
use crate::truth::chunks::RecordReader;
use crate::truth::tails;

/// Reads texts of entries.
pub(crate) struct Texts<'c> {
    conn: &'c Connection,
    reader: RecordReader<'c>,
    infos: HashMap<GenerationId, Option<GenerationInfo>>,
}

impl<'c> Texts<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Texts<'c> {
        Texts { conn, reader: RecordReader::for_few(conn), infos: HashMap::new() }
    }

    /// Returns the indexed text of an entry. It is empty if the record is gone.
    pub(crate) fn of(&mut self, entry: EntryId) -> Result<SearchText> {
        let Some(seq) = entry.seq() else { return self.of_tail(GenerationId(-entry.0)) };
        let place = self
            .conn
            .prepare_cached("SELECT generation, length FROM records WHERE seq = ?1")?
            .query_row([seq], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))
            .optional()?;
        let Some((generation, length)) = place else { return Ok(SearchText::default()) };
        if let std::collections::hash_map::Entry::Vacant(vacant) = self.infos.entry(generation) {
            vacant.insert(GenerationInfo::of(self.conn, generation)?);
        }
        let Some(Some(info)) = self.infos.get(&generation) else {
            return Ok(SearchText::default());
        };
        let draft = rebuild::read(&mut self.reader, info, seq, length.cast_unsigned())?;
        Ok(nth(draft.entries.into_iter().map(|entry| entry.text), entry, seq))
    }

    fn of_tail(&self, generation: GenerationId) -> Result<SearchText> {
        let source: Option<(String, Vec<u8>)> = self
            .conn
            .prepare_cached(
                "SELECT s.format, s.first_path FROM generations g JOIN sources s ON s.id = g.source
                  WHERE g.id = ?1",
            )?
            .query_row([generation], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((name, path)) = source else { return Ok(SearchText::default()) };
        let Some(format) = format::by_name(&name) else { return Ok(SearchText::default()) };
        let bytes = tails::read(self.conn, generation)?;
        let draft = Drafter::new(format, &format.origin(&path)).draft(&bytes);
        Ok(draft.entries.into_iter().next().map(|entry| entry.text).unwrap_or_default())
    }
}

/// Returns the text of `entry` among the entries of a line with several JSON values.
fn nth(mut texts: impl Iterator<Item = SearchText>, entry: EntryId, seq: Seq) -> SearchText {
    texts
        .by_ref()
        .enumerate()
        .find(|(ordinal, _)| EntryId::of(seq, *ordinal) == entry)
        .map(|(_, text)| text)
        .unwrap_or_default()
}

/// Returns the columns of a text with their bits and names, the most useful first.
pub(crate) fn by_column(text: &SearchText) -> [(u8, &'static str, &str); 5] {
    [
        (columns::PROSE, "text", text.prose.as_str()),
        (columns::TOOL_INPUT, "input", text.tool_input.as_str()),
        (columns::TOOL_RESULT, "result", text.tool_result.as_str()),
        (columns::ATTACHED, "attached", text.attached.as_str()),
        (columns::THINKING, "thinking", text.thinking.as_str()),
    ]
}
