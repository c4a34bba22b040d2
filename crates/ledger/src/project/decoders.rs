//! Stores which decoders derived the projection: the version of each format that has records in
//! this ledger.
//!
//! Formats without records are not stored. So neither a new format nor a new version of a format
//! without records causes a rebuild.

use foldhash::HashSet;
use quipu_transcript::format::{self, Format};
use rusqlite::{OptionalExtension, Transaction};

use crate::Result;
use crate::base::ids::SourceId;

/// The decoders that were already stored by this fold, so that each one is stored once.
#[derive(Debug, Default)]
pub(crate) struct Decoders {
    formats: HashSet<&'static str>,
    sources: HashSet<SourceId>,
}

impl Decoders {
    /// Stores the decoder of a record's format.
    pub(crate) fn note(&mut self, tx: &Transaction<'_>, format: &dyn Format) -> Result<()> {
        if self.formats.insert(format.name()) {
            tx.prepare_cached("INSERT OR IGNORE INTO decoders (format, version) VALUES (?1, ?2)")?
                .execute((format.name(), format.version()))?;
        }
        Ok(())
    }

    /// Stores the decoder of the format of a source that an event of the journal names.
    pub(crate) fn note_source(&mut self, tx: &Transaction<'_>, source: SourceId) -> Result<()> {
        if !self.sources.insert(source) {
            return Ok(());
        }
        let name: Option<String> = tx
            .prepare_cached("SELECT format FROM sources WHERE id = ?1")?
            .query_row([source], |row| row.get(0))
            .optional()?;
        match name.as_deref().and_then(format::by_name) {
            Some(format) => self.note(tx, format),
            None => Ok(()),
        }
    }
}
