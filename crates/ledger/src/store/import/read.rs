//! Reads the lines of the files that form one session.
//!
//! Decompresses archives into a scratch folder, and never changes a source file. Never opens a file
//! outside the named folder.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use quipu_transcript::context::{CONTINUES_FIELD, OWN_ID};
use quipu_transcript::entry::Kind;
use quipu_transcript::format::{Archive, Origin};
use quipu_transcript::record;
use serde_json::{Map, Value};

use super::super::work::FORMAT;
use super::batch::MAX_BATCH_BYTES;
use super::compare::spelled;
use super::exported::Exported;
use super::find::Transcript;
use crate::base::foreign;
use crate::collect::{Decompressed, to_plain_file};
use crate::project::draft::Drafter;
use crate::store::openclaw_names;
use crate::{Error, Result};

/// The number of bytes at the start of a file that are searched for a record. A transcript has one
/// in its first lines.
const PROBE_BYTES: usize = 64 << 10;

/// A callback for a line of a session: the number of its file, the line, and whether the line is
/// new.
pub(super) type Each<'a> = dyn FnMut(usize, &[u8], bool) -> Result<()> + 'a;

/// The files of one session, the oldest first.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) id: String,
    pub(super) files: Vec<Transcript>,
}

impl Group {
    /// Returns whether OpenClaw has deleted the session.
    pub(super) fn is_deleted(&self) -> bool {
        self.files.last().is_some_and(|file| file.archive == Some(Archive::Deleted))
    }
}

/// The content of a session's files.
#[derive(Debug)]
pub(super) struct Content {
    /// The number of lines in each file.
    pub(super) rows: Vec<u64>,
    /// The length of all lines in bytes. A line that a later file repeats is counted once.
    pub(super) length: u64,
    /// True if any line has an entry.
    pub(super) has_entry: bool,
    /// The lines, each with the number of its file; `None` if they are too long to be kept.
    lines: Option<Vec<(usize, Vec<u8>)>>,
}

impl Content {
    /// Returns whether all lines are in memory.
    pub(super) fn is_kept(&self) -> bool {
        self.lines.is_some()
    }
}

/// A reader of files below the folder that a person named.
pub(super) struct Folder<'a> {
    pub(super) root: &'a Path,
    /// The folder for decompressed files.
    pub(super) scratch: &'a Path,
}

impl Folder<'_> {
    fn open(&self, file: &Transcript) -> Result<Box<dyn BufRead>> {
        if let Some((lines, start, end)) = &file.rows {
            let rows = Rows { lines: Arc::clone(lines), at: *start, end: *end };
            return Ok(Box::new(BufReader::with_capacity(1 << 16, rows)));
        }
        let path = &file.path;
        let opened = foreign::open(self.root, path, file.file).map_err(Error::io("open", path))?;
        if !file.is_compressed {
            refuse_secrets(file, &opened)?;
            return Ok(Box::new(BufReader::with_capacity(1 << 16, opened)));
        }
        let size = opened.metadata().map_err(Error::io("read", path))?.len();
        match to_plain_file(&opened, size, self.scratch).map_err(Error::io("decompress", path))? {
            Decompressed::Whole(mut plain) => {
                refuse_secrets(file, &plain.file)?;
                plain.file.rewind().map_err(Error::io("decompress", path))?;
                Ok(Box::new(BufReader::with_capacity(1 << 16, plain.file)))
            }
            Decompressed::Damaged(_, why) => {
                Err(Error::refused(format!("it cannot be decompressed: {why}")))
            }
        }
    }

    /// Passes the lines of one file to `each`, each with its newline, until `each` returns false.
    fn file_lines(
        &self,
        file: &Transcript,
        each: &mut dyn FnMut(&[u8]) -> Result<bool>,
    ) -> Result<()> {
        let path = &file.path;
        let mut reader = self.open(file)?;
        let mut line = Vec::new();
        loop {
            line.clear();
            reader.read_until(b'\n', &mut line).map_err(Error::io("read", path))?;
            if line.is_empty() {
                return Ok(());
            }
            // The last line may have no newline. Without one, the next appended line would become
            // part of it.
            if line.last() != Some(&b'\n') {
                line.push(b'\n');
            }
            if !each(&line)? {
                return Ok(());
            }
        }
    }

    /// Passes all lines of a session to `each`, with the number of their file.
    ///
    /// The third argument is false for a line that an earlier file holds already, because a reset
    /// keeps it, and for a line that only an export added.
    pub(super) fn lines(&self, group: &Group, each: &mut Each<'_>) -> Result<()> {
        let mut before: HashSet<[u8; 32]> = HashSet::new();
        for (number, file) in group.files.iter().enumerate() {
            let mut own = Vec::new();
            let mut exported = Exported::new(number > 0);
            self.file_lines(file, &mut |line| {
                let Some(original) = exported.original(line) else {
                    each(number, line, false)?;
                    return Ok(true);
                };
                let line = &*original;
                let hash = (group.files.len() > 1).then(|| fingerprint(line));
                let is_new = hash.is_none_or(|hash| !before.contains(&hash));
                own.extend(hash);
                each(number, line, is_new)?;
                Ok(true)
            })?;
            before.extend(own);
        }
        Ok(())
    }

    /// Reads a session, and keeps its lines if they are short enough.
    pub(super) fn content(&self, group: &Group, origin: &Origin) -> Result<Content> {
        let drafter = Drafter::new(FORMAT, origin);
        let rows = vec![0; group.files.len()];
        let mut content = Content { rows, length: 0, has_entry: false, lines: Some(Vec::new()) };
        self.lines(group, &mut |file, line, is_new| {
            if let Some(rows) = content.rows.get_mut(file) {
                *rows += 1;
            }
            if !is_new {
                return Ok(());
            }
            content.length += line.len() as u64;
            content.has_entry = content.has_entry || !drafter.draft(line).entries.is_empty();
            content.lines.take_if(|_| content.length > MAX_BATCH_BYTES as u64);
            if let Some(lines) = &mut content.lines {
                lines.push((file, line.to_owned()));
            }
            Ok(())
        })?;
        Ok(content)
    }

    /// Passes each line of a session to `each` once, with the number of its file.
    pub(super) fn each(
        &self,
        group: &Group,
        content: &Content,
        each: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        match &content.lines {
            Some(lines) => lines.iter().try_for_each(|(file, line)| each(*file, line)),
            None => self.lines(group, &mut |file, line, is_new| match is_new {
                true => each(file, line),
                false => Ok(()),
            }),
        }
    }

    /// Groups the files of one session id. A file that continues after a reset belongs to the
    /// session of the archive before it; any other archive is a separate session.
    pub(super) fn groups(&self, session: &str, mut files: Vec<Transcript>) -> Vec<Group> {
        files.sort_by_key(Transcript::order);
        let mut groups: Vec<Group> = Vec::new();
        for file in files {
            match groups.last_mut() {
                Some(group) if self.continues_previous(group, &file) => group.files.push(file),
                _ => groups.push(Group { id: session.to_owned(), files: vec![file] }),
            }
        }
        let last = groups.len().saturating_sub(1);
        for (number, group) in groups.iter_mut().enumerate() {
            if let (true, Some(file)) = (number < last, group.files.last()) {
                group.id = format!("{session}.{}", file.suffix());
            }
        }
        groups
    }

    /// Returns whether a file continues the group after a reset.
    ///
    /// Before the reset, the file may have only its header, lines that the reset keeps, and changes
    /// of the model or its thinking level. A header may also state that the file continues. A file
    /// that cannot be read is reported when it is imported.
    fn continues_previous(&self, group: &Group, file: &Transcript) -> bool {
        let mut before = HashSet::new();
        let known = self.lines(group, &mut |_, line, _| {
            before.insert(fingerprint(line));
            Ok(())
        });
        let mut found = false;
        let read = self.file_lines(file, &mut |line| {
            if before.contains(&fingerprint(line)) {
                return Ok(true);
            }
            let value: Option<Value> = serde_json::from_slice(line).ok();
            let kind = value.as_ref().and_then(|line| line.get("type")).and_then(Value::as_str);
            let continues_previous =
                value.as_ref().and_then(|line| line.get(CONTINUES_FIELD)).and_then(Value::as_bool);
            found = kind == Some("reset")
                || kind == Some("session") && continues_previous == Some(true);
            Ok(!found && matches!(kind, Some("session" | "model_change" | "thinking_level_change")))
        });
        known.is_ok() && read.is_ok() && found
    }

    /// Returns the fingerprints of all lines in these files.
    pub(super) fn known_lines(&self, groups: &[Group]) -> HashSet<[u8; 32]> {
        let mut known = HashSet::new();
        for group in groups {
            // A file that cannot be read is reported when it is imported.
            let _ = self.lines(group, &mut |_, line, _| {
                known.insert(fingerprint(line));
                Ok(())
            });
        }
        known
    }

    /// Returns whether a file has a line, other than a header, that `known` lacks. Adds its lines
    /// to `known`.
    pub(super) fn has_more(
        &self,
        file: &Transcript,
        known: &mut HashSet<[u8; 32]>,
    ) -> Result<bool> {
        let mut has_more = false;
        self.file_lines(file, &mut |line| {
            has_more |= known.insert(fingerprint(line)) && !is_header(line);
            Ok(true)
        })?;
        Ok(has_more)
    }

    /// Returns a hash of all lines of a file. Files with equal lines have the same hash, compressed
    /// or not.
    pub(super) fn digest(&self, file: &Transcript) -> Result<[u8; 32]> {
        let mut hasher = blake3::Hasher::new();
        self.file_lines(file, &mut |line| {
            hasher.update(&fingerprint(line));
            Ok(true)
        })?;
        Ok(*hasher.finalize().as_bytes())
    }

    /// Returns the session that the header of a file names.
    pub(super) fn session(&self, file: &Transcript) -> Result<Option<String>> {
        let mut session = None;
        self.file_lines(file, &mut |line| {
            let value: Option<Value> =
                serde_json::from_slice(line).ok().filter(|_| is_header(line));
            let id = value.as_ref().and_then(|line| line.get("id")).and_then(Value::as_str);
            session = id.filter(|id| !id.is_empty()).map(str::to_owned);
            Ok(session.is_none())
        })?;
        Ok(session)
    }

    /// Returns the header of a file, spelled as lines are for a comparison.
    pub(super) fn header(&self, file: &Transcript) -> Option<Vec<u8>> {
        let mut header = None;
        let read = self.file_lines(file, &mut |line| {
            header = is_header(line).then(|| spelled(line).into_owned());
            Ok(false)
        });
        header.filter(|_| read.is_ok())
    }

    /// Returns quipu's own id of the session, if OpenClaw does not accept that id.
    pub(super) fn own_id(&self, group: &Group) -> Option<String> {
        let file = group.files.last()?;
        let mut own = None;
        let read = self.file_lines(file, &mut |line| {
            let value: Option<Value> = serde_json::from_slice(line).ok();
            let text = |name: &str| value.as_ref()?.get(name)?.as_str().map(str::to_owned);
            let id = text("id").unwrap_or_default();
            own = text(OWN_ID).filter(|own| openclaw_names::header_id(own, &id).is_some());
            Ok(false)
        });
        own.filter(|_| read.is_ok())
    }
}

/// Refuses a file with several hard links if none of its first lines is a record: it may hold
/// secrets under another name.
fn refuse_secrets(file: &Transcript, opened: &File) -> Result<()> {
    if !file.is_shared {
        return Ok(());
    }
    match has_record(file, opened)? {
        true => Ok(()),
        false => {
            Err(Error::refused("it has other hard links and no records: it may contain secrets"))
        }
    }
}

/// Returns whether one of the first lines of a file is a record of OpenClaw, or the file is empty.
pub(super) fn begins_with_a_record(root: &Path, file: &Transcript) -> Result<bool> {
    let path = &file.path;
    let opened = foreign::open(root, path, file.file).map_err(Error::io("open", path))?;
    has_record(file, &opened)
}

fn has_record(file: &Transcript, opened: &File) -> Result<bool> {
    let mut head = vec![0; PROBE_BYTES];
    let length = opened.read_at(&mut head, 0).map_err(Error::io("read", &file.path))?;
    head.truncate(length);
    let origin = FORMAT.origin(b"");
    let mut is_record = head.is_empty();
    for line in head.split(|byte| *byte == b'\n') {
        record::read(FORMAT, &origin, line, &mut |entry| {
            is_record |= !matches!(entry.kind, Kind::Unknown);
        });
    }
    Ok(is_record)
}

/// The lines of one session of a database. One file holds the lines of all sessions.
struct Rows {
    lines: Arc<File>,
    at: u64,
    end: u64,
}

impl Read for Rows {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.lines.read_at(buffer.get_mut(..left).unwrap_or_default(), self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

fn is_header(line: &[u8]) -> bool {
    let value: Option<Value> = serde_json::from_slice(line).ok();
    value.is_some_and(|line| line.get("type").and_then(Value::as_str) == Some("session"))
}

/// Returns the fingerprint of a line's values, without its parent. A reset repeats the kept lines,
/// and a repeated line may have another parent.
fn fingerprint(line: &[u8]) -> [u8; 32] {
    let entry: Option<Map<String, Value>> = serde_json::from_slice(line).ok();
    let hash = match entry {
        Some(mut entry) if entry.contains_key("parentId") => {
            entry.remove("parentId");
            blake3::hash(Value::Object(entry).to_string().as_bytes())
        }
        _ => blake3::hash(&spelled(line)),
    };
    *hash.as_bytes()
}
