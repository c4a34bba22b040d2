//! Lays the lines of a session out in OpenClaw's files.
//!
//! Reads the lines in several passes instead of keeping a whole session in memory.

use std::collections::HashMap;
use std::io::Write;

use quipu_transcript::context::{Head, LaidEntry, Layout, Session, Writer, line_time};
use rusqlite::Connection;
use serde_json::Value;

use super::super::ExportFailure;
use crate::Result;
use crate::base::ids::SessionRow;
use crate::read::query::{TranscriptGeneration, transcript_generations};

/// A session whose layout was computed.
pub(super) struct Laying {
    generation: TranscriptGeneration,
    pub(super) layout: Layout,
    /// Lines that are needed out of order.
    texts: HashMap<usize, String>,
}

/// Counts of one written file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wrote {
    /// The number of entries in the file.
    pub entries: u64,
    /// The number of lines of the session that are in no file, because no reader accepts them as
    /// entries.
    pub left_out: u64,
}

impl Laying {
    /// Computes the layout of a session; `None` for a session without lines.
    pub(super) fn of(conn: &Connection, session: SessionRow) -> Result<Option<Laying>> {
        let Some(generation) = transcript_generations(conn, session)?.into_iter().next() else {
            return Ok(None);
        };
        let mut read = Session::new(generation.reader);
        generation.lines(conn, &mut |line| read.push(&String::from_utf8_lossy(line)))?;
        let mut texts = HashMap::new();
        take(conn, &generation, &read.layout_wants(), &mut texts)?;
        let layout = read.layout(&texts);
        drop(read);
        // Collects the lines that are written out of order.
        let mut out_of_order = Vec::new();
        for file in &layout.files {
            let mut furthest = 0;
            for line in file.entries.iter().filter_map(|laid| laid.line) {
                out_of_order.extend((line < furthest).then_some(line));
                furthest = furthest.max(line);
            }
        }
        let resets = layout.files.iter().filter_map(|file| file.ended_by);
        let wanted: Vec<usize> =
            layout.header.into_iter().chain(out_of_order).chain(resets).collect();
        take(conn, &generation, &wanted, &mut texts)?;
        Ok(Some(Laying { generation, layout, texts }))
    }

    /// Returns the id in the session's header.
    pub(super) fn header_id(&self) -> Option<String> {
        let header: Value = serde_json::from_str(self.texts.get(&self.layout.header?)?).ok()?;
        Some(header.get("id")?.as_str()?.to_owned())
    }

    /// Returns the times, in milliseconds, of the resets that ended each file but the last.
    pub(super) fn resets(&self) -> Vec<i64> {
        let ended = self.layout.files.iter().filter_map(|file| file.ended_by);
        let time = |line: usize| self.texts.get(&line).and_then(|line| line_time(line));
        ended.map(|line| time(line).unwrap_or(0)).collect()
    }

    /// Writes one of the files.
    pub(super) fn write(
        &self,
        conn: &Connection,
        number: usize,
        head: &Head<'_>,
        out: &mut dyn Write,
    ) -> Result<Wrote, ExportFailure> {
        let mut writer = Writer::new(&self.layout, head.time);
        let header = self.layout.header.and_then(|line| self.texts.get(&line));
        out.write_all(writer.header(header.map(String::as_str), head).as_bytes())?;
        let is_last = number + 1 >= self.layout.files.len();
        let mut wrote =
            Wrote { entries: 0, left_out: if is_last { self.layout.left_out as u64 } else { 0 } };
        let Some(file) = self.layout.files.get(number) else { return Ok(wrote) };
        wrote.entries = file.entries.len() as u64;
        let mut rest: &[LaidEntry] = &file.entries;
        let mut put =
            |rest: &mut &[LaidEntry], line: Option<(usize, &str)>| -> std::io::Result<()> {
                while let Some((laid, further)) = rest.split_first() {
                    let text = match (laid.line, line) {
                        (None, _) => "",
                        (Some(wanted), Some((number, text))) if wanted == number => text,
                        (Some(wanted), _) => match self.texts.get(&wanted) {
                            Some(text) => text,
                            None => return Ok(()),
                        },
                    };
                    out.write_all(writer.entry(laid, text).as_bytes())?;
                    *rest = further;
                }
                Ok(())
            };
        let mut written = put(&mut rest, None);
        let mut at = 0;
        self.generation.lines(conn, &mut |line| {
            if written.is_ok() && !rest.is_empty() {
                written = put(&mut rest, Some((at, &String::from_utf8_lossy(line))));
            }
            at += 1;
        })?;
        written?;
        Ok(wrote)
    }
}

/// Reads some lines of a session into `texts`.
fn take(
    conn: &Connection,
    generation: &TranscriptGeneration,
    wanted: &[usize],
    texts: &mut HashMap<usize, String>,
) -> Result<()> {
    let mut wanted: Vec<usize> =
        wanted.iter().copied().filter(|line| !texts.contains_key(line)).collect();
    wanted.sort_unstable();
    wanted.dedup();
    if wanted.is_empty() {
        return Ok(());
    }
    let mut at = 0;
    generation.lines(conn, &mut |line| {
        if wanted.binary_search(&at).is_ok() {
            texts.insert(at, String::from_utf8_lossy(line).into_owned());
        }
        at += 1;
    })
}
