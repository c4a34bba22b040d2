//! Writes a session as one JSON document: its facts as `sessions --json` prints them, its entries
//! as `show --json` prints them.

use std::io::{self, Write};

use quipu_transcript::render::{Header, Rendering};
use quipu_transcript::story::{StoryDetail, StoryItem};
use serde::Serialize;

use crate::wire::{Session, ShownEntry};

/// A rendering that writes a session as JSON, each entry on one line.
#[derive(Debug)]
pub struct JsonRendering {
    session: Session,
    detail: StoryDetail,
    is_first_entry: bool,
}

impl JsonRendering {
    /// Creates the rendering of a session. `detail` selects the parts of its entries.
    pub fn new(session: Session, detail: StoryDetail) -> JsonRendering {
        JsonRendering { session, detail, is_first_entry: true }
    }
}

impl Rendering for JsonRendering {
    fn begin(&mut self, header: &Header, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"{\"session\":")?;
        write_json(&self.session, out)?;
        write!(out, ",\n\"redacted\":{},\n\"entries\":[", header.is_redacted)
    }

    fn item(&mut self, item: &StoryItem<'_>, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(if std::mem::take(&mut self.is_first_entry) { b"\n" } else { b",\n" })?;
        write_json(&ShownEntry::of(item, self.detail), out)
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"\n]}\n")
    }
}

fn write_json(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(out, value).map_err(io::Error::from)
}
