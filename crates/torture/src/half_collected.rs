//! A home of which half is collected: the starting point of most faults.

use std::path::PathBuf;

use anyhow::Result;

use crate::Setting;
use crate::sandbox::{Sandbox, copy};
use crate::writer::Writer;

/// A ledger with some lines in it, and more lines on disk.
#[derive(Debug)]
pub(crate) struct HalfCollected {
    pub(crate) sandbox: Sandbox,
    pub(crate) writer: Writer,
    before: PathBuf,
}

impl HalfCollected {
    /// Creates it, with `more` lines that are not collected yet.
    pub(crate) fn new(setting: &Setting, more: u64) -> Result<HalfCollected> {
        let sandbox = Sandbox::new(setting)?;
        let mut writer = Writer::new(&sandbox, setting.seed)?;
        writer.lines(&sandbox, 10)?;
        sandbox.json(&["sync"])?;
        let before = sandbox.at("before");
        copy(&sandbox.data(), &before)?;
        writer.lines(&sandbox, more)?;
        Ok(HalfCollected { sandbox, writer, before })
    }

    /// Resets the ledger to its first state, or removes it.
    pub(crate) fn reset(&self, is_new: bool) -> Result<()> {
        if is_new { self.sandbox.remove_ledger() } else { copy(&self.before, &self.sandbox.data()) }
    }
}
