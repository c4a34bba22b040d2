//! A home of which half is collected: where most faults begin, again and again.

use std::path::PathBuf;

use anyhow::Result;

use crate::Setting;
use crate::place::{Place, copy};
use crate::writer::Writer;

/// A ledger with some lines in it, and more lines on disk.
#[derive(Debug)]
pub(crate) struct HalfCollected {
    pub(crate) place: Place,
    pub(crate) writer: Writer,
    before: PathBuf,
}

impl HalfCollected {
    /// `more`: how many lines are not collected yet.
    pub(crate) fn new(setting: &Setting, more: u64) -> Result<HalfCollected> {
        let place = Place::new(setting)?;
        let mut writer = Writer::new(&place, setting.seed)?;
        writer.lines(&place, 10)?;
        place.json(&["sync"])?;
        let before = place.at("before");
        copy(&place.data(), &before)?;
        writer.lines(&place, more)?;
        Ok(HalfCollected { place, writer, before })
    }

    /// Makes the ledger what it was, or takes it away.
    pub(crate) fn reset(&self, is_new: bool) -> Result<()> {
        if is_new { self.place.remove_ledger() } else { copy(&self.before, &self.place.data()) }
    }
}
