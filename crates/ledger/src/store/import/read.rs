//! The lines of the files that make up one session.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
use std::path::Path;

use quipu_transcript::context::OWN_ID;
use serde_json::Value;

use super::find::Transcript;
use crate::collect::{Unfolded, open_source, unfold};
use crate::export::openclaw::names;
use crate::{Error, Result};

/// Files that hold one session, the oldest first.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) id: String,
    pub(super) files: Vec<Transcript>,
}

/// Opens files of one folder.
pub(super) struct Folder<'a> {
    pub(super) path: &'a Path,
    /// Where compressed files are unfolded.
    pub(super) scratch: &'a Path,
}

/// Takes a line: the number of its file, its bytes, and whether it stands in no earlier one.
type EachLine<'a> = dyn FnMut(usize, &[u8], bool) -> Result<()> + 'a;

impl Folder<'_> {
    fn open(&self, file: &Transcript) -> Result<BufReader<File>> {
        let path = self.path.join(&file.name);
        let opened = open_source(self.path, &path).map_err(Error::io("open", &path))?;
        if !file.is_compressed {
            return Ok(BufReader::with_capacity(1 << 16, opened));
        }
        let size = opened.metadata().map_err(Error::io("read", &path))?.len();
        match unfold(&opened, size, self.scratch).map_err(Error::io("decompress", &path))? {
            Unfolded::Whole(mut plain) => {
                plain.file.rewind().map_err(Error::io("decompress", &path))?;
                Ok(BufReader::with_capacity(1 << 16, plain.file))
            }
            Unfolded::Damaged(_, why) => {
                Err(Error::refused(format!("it cannot be decompressed: {why}")))
            }
        }
    }

    /// Hands the lines of one file to `each`, each with its newline, until it has enough.
    fn file_lines(
        &self,
        file: &Transcript,
        each: &mut dyn FnMut(&[u8]) -> Result<bool>,
    ) -> Result<()> {
        let path = self.path.join(&file.name);
        let mut reader = self.open(file)?;
        let mut line = Vec::new();
        loop {
            line.clear();
            reader.read_until(b'\n', &mut line).map_err(Error::io("read", &path))?;
            if line.is_empty() {
                return Ok(());
            }
            // The last line may have none; what is appended behind it must not become part of it.
            if line.last() != Some(&b'\n') {
                line.push(b'\n');
            }
            if !each(&line)? {
                return Ok(());
            }
        }
    }

    /// Hands all lines of a session to `each`, with the number of their file; those that stand in an
    /// earlier file already, because a reset keeps them, with `false`.
    pub(super) fn lines(&self, group: &Group, each: &mut EachLine<'_>) -> Result<()> {
        let mut before: HashSet<[u8; 32]> = HashSet::new();
        for (number, file) in group.files.iter().enumerate() {
            let mut own = Vec::new();
            self.file_lines(file, &mut |line| {
                let hash = (group.files.len() > 1).then(|| *blake3::hash(line).as_bytes());
                let is_new = hash.is_none_or(|hash| !before.contains(&hash));
                own.extend(hash);
                each(number, line, is_new)?;
                Ok(true)
            })?;
            before.extend(own);
        }
        Ok(())
    }

    /// Puts the files of one session together. An archive and what follows it are one session if
    /// the latter goes on from a reset; otherwise the archive is a session of its own.
    pub(super) fn groups(&self, session: &str, mut files: Vec<Transcript>) -> Vec<Group> {
        files.sort_by_key(Transcript::order);
        let mut groups: Vec<Group> = Vec::new();
        for file in files {
            match groups.last_mut() {
                Some(group) if self.goes_on(group, &file) => group.files.push(file),
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

    /// Whether a file begins with a reset, behind its header, what the reset keeps, and the model.
    /// What cannot be read is told when it is imported.
    fn goes_on(&self, group: &Group, file: &Transcript) -> bool {
        let mut before = HashSet::new();
        let known = self.lines(group, &mut |_, line, _| {
            before.insert(*blake3::hash(line).as_bytes());
            Ok(())
        });
        let mut found = false;
        let read = self.file_lines(file, &mut |line| {
            if before.contains(blake3::hash(line).as_bytes()) {
                return Ok(true);
            }
            let said: Option<Value> = serde_json::from_slice(line).ok();
            let kind = said.as_ref().and_then(|line| line.get("type")).and_then(Value::as_str);
            found = kind == Some("reset");
            Ok(matches!(kind, Some("session" | "model_change" | "thinking_level_change")))
        });
        known.is_ok() && read.is_ok() && found
    }

    /// The id of the session in quipu's own words, where its file could not have it.
    pub(super) fn own_id(&self, group: &Group) -> Option<String> {
        let file = group.files.last()?;
        let mut own = None;
        let read = self.file_lines(file, &mut |line| {
            let said: Option<Value> = serde_json::from_slice(line).ok();
            let text = |name: &str| said.as_ref()?.get(name)?.as_str().map(str::to_owned);
            own =
                text(OWN_ID).filter(|own| text("id").as_deref() == Some(&*names::session_id(own)));
            Ok(false)
        });
        own.filter(|_| read.is_ok())
    }
}
