//! Adds entries to frames, as `quipu show --json` prints them.

use std::ops::ControlFlow;

use foldhash::HashMap;
use quipu_transcript::story::StoryDetail;
use serde_json::value::RawValue;

use super::Record;
use super::changes::Found;
use crate::Result;
use crate::base::ids::{EntryId, SessionRow};
use crate::file::ledger::Ledger;
use crate::read::query::{Choice, Story};
use crate::wire::{EventChange, ShownEntry};

/// The largest size of an entry in a frame, in bytes.
const MAX_ENTRY_BYTES: usize = 16 << 10;

/// The longest record that is decoded for a frame, in bytes. Most of a longer one is not shown.
const MAX_RECORD_BYTES: u64 = 1 << 20;

/// The sessions of one read.
pub(super) struct Entries<'l> {
    ledger: &'l Ledger,
    stories: HashMap<SessionRow, Story<'l>>,
}

impl<'l> Entries<'l> {
    pub(super) fn new(ledger: &'l Ledger) -> Entries<'l> {
        Entries { ledger, stories: HashMap::default() }
    }

    /// Adds the entries of a record. One that is too long stays without.
    pub(super) fn add(&mut self, record: &Record, found: &mut Found) -> Result<()> {
        let Some(row) = found.session.as_ref().and_then(|session| session.row) else {
            return Ok(());
        };
        if record.length > MAX_RECORD_BYTES {
            return Ok(());
        }
        let story = match self.stories.entry(row) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(vacant) => {
                vacant.insert(Story::open(self.ledger, row)?)
            }
        };
        for (change, id) in &mut found.changes {
            if let (EventChange::EntryAppended { entry, .. }, Some(id)) = (change, id) {
                *entry = shown(story, *id)?;
            }
        }
        Ok(())
    }
}

fn shown(story: &Story<'_>, id: EntryId) -> Result<Option<Box<RawValue>>> {
    let choice = Choice { entry: Some(id.name()), ..Choice::default() };
    let mut json = None;
    let read = story.each_item(&choice, &mut |item| {
        json = serde_json::to_string(&ShownEntry::of(item, StoryDetail::DEFAULT)).ok();
        ControlFlow::Break(())
    });
    match read {
        // A newer version replaced it since.
        Err(crate::Error::NoMatch { .. }) => return Ok(None),
        read => read?,
    }
    let json = json.filter(|json| json.len() <= MAX_ENTRY_BYTES);
    Ok(json.and_then(|json| RawValue::from_string(json).ok()))
}
