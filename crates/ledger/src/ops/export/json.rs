//! A story as one JSON document: the session in the shape of `sessions --json`, its entries in the
//! shape of `show --json`.

use std::io::{self, Write};

use quipu_transcript::render::{Header, Rendering};
use quipu_transcript::story::{StoryDetail, StoryItem};
use serde::Serialize;

use crate::wire::{Session, ShownEntry};

/// A rendering that writes a story as JSON, one line per entry.
#[derive(Debug)]
pub struct Json {
    session: Session,
    detail: StoryDetail,
    is_empty: bool,
}

impl Json {
    /// Creates the rendering of a session, with the parts that `detail` requests.
    pub fn new(session: Session, detail: StoryDetail) -> Json {
        Json { session, detail, is_empty: true }
    }
}

impl Rendering for Json {
    fn begin(&mut self, header: &Header, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"{\"session\":")?;
        write(&self.session, out)?;
        write!(out, ",\n\"redacted\":{},\n\"entries\":[", header.is_redacted)
    }

    fn item(&mut self, item: &StoryItem<'_>, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(if std::mem::take(&mut self.is_empty) { b"\n" } else { b",\n" })?;
        write(&ShownEntry::of(item, self.detail), out)
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"\n]}\n")
    }
}

fn write(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(out, value).map_err(io::Error::from)
}
