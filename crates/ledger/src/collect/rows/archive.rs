//! Transcripts that an agent archived inside its database: deleted, reset, or cold. Each is a whole
//! JSONL file in one value, plain or compressed.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Write};

use quipu_transcript::format::{Archive as Why, Format, Origin};
use quipu_transcript::rows;
use rusqlite::{Connection, Row};

use super::cutting::Cutting;
use super::dump::full;
use super::refusal::{Refusal, Stop, theirs};
use super::session::{Reading, text};
use super::tables::{ArchiveTable, Tables};
use crate::collect::batch::Began;
use crate::collect::copies::{SessionLines, SessionName};
use crate::collect::decompress;
use crate::collect::known::KnownSource;
use crate::collect::plan::Job;
use crate::collect::rewrite::OldLines;
use crate::truth::chunks::RecordReader;
use crate::truth::damaged::{self, Damage};

/// The largest archive, in bytes, that is read.
const MAX_ARCHIVE_BYTES: i64 = 256 << 20;

/// The largest decompressed size of an archive, in bytes.
const MAX_DECOMPRESSED_BYTES: u64 = 2 << 30;

/// The longest line of an archive, in bytes, that is read. Rows are never that long.
const MAX_LINE_BYTES: usize = 256 << 20;

/// The largest window for decompressing an archive, as a power of two.
const MAX_WINDOW_LOG: u32 = 27;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// An archived transcript.
#[derive(Debug, Clone)]
pub(super) struct Archive {
    table: ArchiveTable,
    rowid: i64,
    pub(super) session: String,
    /// A hash that changes with the archive.
    pub(super) hash: String,
    written_ns: i64,
    length: i64,
    name: String,
    reason: String,
    generation: String,
}

impl Archive {
    /// Returns all archives of a database.
    pub(super) fn all(conn: &Connection, tables: &Tables) -> Result<Vec<Archive>, Stop> {
        let mut archives = Vec::new();
        for (table, sql) in tables.archives() {
            let mut statement = conn.prepare(&sql).map_err(theirs)?;
            let found = statement.query_map([], |row| Archive::of(table, row)).map_err(theirs)?;
            for archive in found {
                archives.push(archive.map_err(theirs)?);
            }
        }
        Ok(archives)
    }

    fn of(table: ArchiveTable, row: &Row<'_>) -> rusqlite::Result<Archive> {
        let column = |index| text(row.get_ref(index)?);
        let (generation, hash) = (column(1)?, column(4)?);
        let length = row.get::<_, Option<i64>>(6)?.unwrap_or(0);
        Ok(Archive {
            table,
            rowid: row.get(7)?,
            session: column(0)?,
            hash: if hash.is_empty() { format!("{generation}:{length}") } else { hash },
            written_ns: row
                .get_ref(5)?
                .as_i64()
                .ok()
                .and_then(|milliseconds| milliseconds.checked_mul(1_000_000))
                .unwrap_or(0),
            length,
            name: column(2)?,
            reason: column(3)?,
            generation,
        })
    }

    /// Returns the path of the archive's source: its own name if that names the session and the
    /// reason, or else a generated one.
    pub(super) fn path(
        &self,
        format: &dyn Format,
        database: &[u8],
        taken: &mut HashSet<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let below = |name: &str| {
            let mut path = database.to_vec();
            path.push(b'/');
            path.extend_from_slice(name.as_bytes());
            path
        };
        let (why, word) = match (self.table, self.reason.as_str()) {
            (ArchiveTable::PutAside, "deleted") => (Why::Deleted, "deleted"),
            (ArchiveTable::PutAside, "reset") => (Why::Reset, "reset"),
            (ArchiveTable::PutAside, _) => (Why::Backup, "bak"),
            (ArchiveTable::Cold, _) => (Why::Backup, "bak.cold"),
        };
        let own = self.name.strip_suffix(".zst").unwrap_or(&self.name);
        let is_safe = !own.starts_with('.')
            && own.len() <= 240
            && own.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-:%".contains(&byte));
        let path = below(own);
        let origin = format.origin(&path);
        let is_named_so =
            origin.session.as_deref() == Some(&self.session) && origin.archive == Some(why);
        if is_safe && is_named_so && taken.insert(path.clone()) {
            return Some(path);
        }
        let session = rows::file_name(&self.session)?;
        let number = self.rowid.to_string();
        let generation_name =
            rows::file_name(&self.generation).filter(|generation_name| generation_name.len() <= 64);
        let generation_name = generation_name.as_deref().unwrap_or(&number);
        for name in [
            format!("{session}.jsonl.{word}.{generation_name}"),
            format!("{session}.jsonl.{word}.{generation_name}.{number}"),
        ] {
            let path = below(&name);
            if taken.insert(path.clone()) {
                return Some(path);
            }
        }
        None
    }
}

impl Archive {
    /// Returns the value that holds the archive.
    fn blob(&self, conn: &Connection) -> Result<Vec<u8>, Stop> {
        if self.length > MAX_ARCHIVE_BYTES {
            return Err(Refusal::lasting("an archive of it is larger than 256 MiB").into());
        }
        conn.prepare(&self.table.blob())
            .and_then(|mut statement| {
                statement.query_row([self.rowid], |row| {
                    Ok(row.get_ref(0)?.as_bytes().unwrap_or_default().to_vec())
                })
            })
            .map_err(theirs)
    }

    /// Writes its lines to `out`. Returns the damage, if there is any; then not all of it was
    /// written.
    pub(super) fn copy(
        &self,
        conn: &Connection,
        out: &mut dyn Write,
    ) -> Result<Option<&'static str>, Stop> {
        let blob = self.blob(conn)?;
        let max_length =
            decompress::max_decompressed(blob.len() as u64).min(MAX_DECOMPRESSED_BYTES);
        let mut lines = match decompressed(&blob) {
            Ok(lines) => lines,
            Err(error) => return Ok(Some(decompress::fault(&error, false))),
        };
        let (mut length, mut last) = (0, b'\n');
        loop {
            let bytes = match lines.fill_buf() {
                Ok([]) => break,
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Ok(Some(decompress::fault(&error, length > 0))),
            };
            out.write_all(bytes).map_err(full)?;
            last = bytes.last().copied().unwrap_or(last);
            let taken = bytes.len();
            lines.consume(taken);
            length += taken as u64;
            if length > max_length {
                return Ok(Some("decompresses to an implausible size"));
            }
        }
        if last != b'\n' {
            out.write_all(b"\n").map_err(full)?;
        }
        Ok(None)
    }
}

impl Reading<'_, '_> {
    /// Returns every line of a session in the ledger, including those of its other sources.
    fn session_lines<'c>(
        &mut self,
        copies: &'c mut SessionLines,
        origin: &Origin,
    ) -> Result<Option<&'c mut OldLines>, Stop> {
        let Some(id) = origin.session.clone() else { return Ok(None) };
        let agent = origin.agent.clone().unwrap_or_default();
        let name = SessionName { format: self.format.name(), agent, id };
        Ok(Some(copies.of(&mut RecordReader::new(self.ours), name, self.work)?))
    }

    /// Reads an archive that is new or differs from the one that the ledger has under its name.
    /// Returns the damage, if there is any. `copies` is kept from one archive to the next.
    pub(super) fn archive(
        &mut self,
        job: &Job,
        number: usize,
        origin: &Origin,
        archive: &Archive,
        copies: &mut SessionLines,
    ) -> Result<Option<Damage>, Stop> {
        let blob = archive.blob(self.theirs)?;
        if let Some(known) = &job.known
            && let Some(damage) = self.unchanged_damage(known, archive, &blob)?
        {
            return Ok(Some(damage));
        }
        let mut cutting = match &job.known {
            None => Cutting::begin(number, self.format, origin, Began::First, None),
            Some(known) => {
                let previous = OldLines::of(self.ours, known.generation, self.work)?;
                let began = if known.is_gone { Began::Returned } else { Began::Rewritten };
                Cutting::begin(number, self.format, origin, began, Some(previous))
            }
        };
        cutting.others = self.session_lines(copies, origin)?;
        cutting.rows.rewrite.clone_from(&archive.hash);
        cutting.rows.last_row = 0;
        cutting.written_ns = archive.written_ns;
        let damage = match decompressed(&blob) {
            Ok(mut lines) => {
                let max_length =
                    decompress::max_decompressed(blob.len() as u64).min(MAX_DECOMPRESSED_BYTES);
                self.lines(&mut cutting, &mut *lines, max_length)?
            }
            Err(error) => Some(decompress::fault(&error, false)),
        };
        if let Some(why) = damage {
            cutting.damaged(why, &blob, self.builder)?;
            return Ok(Some(Damage { why: why.to_owned(), length: blob.len() as u64 }));
        }
        if cutting.has_news {
            cutting.piece(true, self.builder)?;
        }
        Ok(None)
    }

    /// Returns the damage of an archive that was damaged at the last sync and did not change since.
    fn unchanged_damage(
        &self,
        known: &KnownSource,
        archive: &Archive,
        blob: &[u8],
    ) -> Result<Option<Damage>, Stop> {
        let is_alike = known.rows.as_ref().is_some_and(|rows| rows.rewrite == archive.hash);
        let Some(damage) = damaged::of(self.ours, known.generation)?.filter(|_| is_alike) else {
            return Ok(None);
        };
        let mut rest = Some(blob);
        damaged::stream(self.ours, known.generation, &mut |part| {
            rest = rest.and_then(|rest| rest.strip_prefix(part));
            Ok(())
        })?;
        Ok(rest.is_some_and(<[u8]>::is_empty).then_some(damage))
    }

    fn lines(
        &mut self,
        cutting: &mut Cutting<'_>,
        lines: &mut dyn BufRead,
        max_length: u64,
    ) -> Result<Option<&'static str>, Stop> {
        let mut line = Vec::new();
        let mut length = 0;
        loop {
            line.clear();
            let is_read = read_line(lines, &mut line);
            length += line.len() as u64;
            if length > max_length || line.len() > MAX_LINE_BYTES {
                return Ok(Some("decompresses to an implausible size"));
            }
            // A partial line before the damage stays in the compressed bytes only.
            if !line.is_empty() && is_read.is_ok() {
                cutting.line(&line, None, self.builder, self.work)?;
            }
            match is_read {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) => return Ok(Some(decompress::fault(&error, length > 0))),
            }
            if self.builder.is_full() {
                cutting.piece(false, self.builder)?;
            }
        }
    }
}

fn decompressed(blob: &[u8]) -> std::io::Result<Box<dyn BufRead + '_>> {
    if !blob.starts_with(&ZSTD_MAGIC) {
        return Ok(Box::new(Cursor::new(blob)));
    }
    let mut decoder = zstd::stream::read::Decoder::with_buffer(blob)?;
    decoder.window_log_max(MAX_WINDOW_LOG)?;
    Ok(Box::new(BufReader::with_capacity(128 << 10, decoder)))
}

/// Reads a line with its newline. Returns false at the end, and for a line that is too long.
fn read_line(lines: &mut dyn BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    loop {
        let bytes = match lines.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if bytes.is_empty() {
            return Ok(false);
        }
        let newline = memchr::memchr(b'\n', bytes);
        let taken = newline.map_or(bytes.len(), |newline| newline + 1);
        line.extend_from_slice(bytes.get(..taken).unwrap_or_default());
        lines.consume(taken);
        if newline.is_some() {
            return Ok(true);
        }
        if line.len() > MAX_LINE_BYTES {
            return Ok(false);
        }
    }
}
