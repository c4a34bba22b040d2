//! Imports OpenClaw's files as native sessions: every line byte for byte, and every key with all
//! fields of its index.
//!
//! Stored lines and keys are compared and never changed, so a second import adds nothing. A file
//! that continues a stored session adds its new lines. A stored session with more lines is left
//! alone; one with other lines is an error of that file.

mod batch;
mod compare;
mod exported;
mod find;
mod read;
mod sessions;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use quipu_transcript::format::Format;
use quipu_transcript::formats::native;
use quipu_transcript::formats::openclaw::{OpenClaw, whole_index};
use quipu_transcript::index::{Binding, Index};
use quipu_transcript::key::SessionKey;

use self::find::AgentFiles;
use self::sessions::Import;
use super::Store;
use super::sessions::MAIN;
use crate::base::foreign::{self, FileId};
use crate::collect::dump;
use crate::wire::{ImportedFile, LeftRow};
use crate::{Error, Result};

/// The largest size of an index, in bytes. A larger one is not read, to bound the memory.
const MAX_INDEX_BYTES: u64 = 1 << 30;

/// The reported kind of files that are not imported.
const OTHER: &str = "other";

impl Store {
    /// Imports the sessions in a folder of OpenClaw, and passes a report on each file to `each`. A
    /// file that cannot be imported does not stop the rest.
    pub fn import(&self, folder: &Path, each: &mut dyn FnMut(ImportedFile)) -> Result<()> {
        self.import_with_roots(folder, &[], each)
    }

    /// Imports like [`Store::import`], but leaves out hard links of files with secrets below
    /// `roots`.
    pub fn import_with_roots(
        &self,
        folder: &Path,
        roots: &[PathBuf],
        each: &mut dyn FnMut(ImportedFile),
    ) -> Result<()> {
        let ledger = self.core().ledger.path().to_owned();
        let scratch = ledger.parent().unwrap_or(Path::new("/"));
        for mut files in find::find(folder, roots)? {
            let mut keys = Keys::default();
            if let Some((path, file)) = files.database.clone() {
                let claimed = format!("agents/{}/agent/openclaw-agent.sqlite", files.agent);
                let report = files.empty_report(&path, "index");
                match dump(&files.root, (&path, file), (&OpenClaw, claimed.as_bytes()), &ledger) {
                    Ok(mut dump) => {
                        let none = || b"{}".to_vec();
                        keys.add(&files, report, Ok(dump.keys.take().unwrap_or_else(none)));
                        files.add(&path, dump);
                    }
                    Err(error) if is_ledger_error(&error) => return Err(error),
                    Err(error) => keys.add(&files, report, Err(error)),
                }
            }
            if let Some((path, file)) = &files.index {
                let bytes = read_index(&files.root, path, *file);
                keys.add(&files, files.empty_report(path, "index"), bytes);
            }
            let mut reports = keys.reports;
            Import::new(self, &files, scratch, &mut reports, each).agent(&keys.indexes)?;
            reports.into_iter().for_each(&mut *each);
            for (path, why) in &files.left_out {
                each(ImportedFile { reason: Some(why.clone()), ..files.empty_report(path, OTHER) });
            }
        }
        Ok(())
    }
}

/// The indexes of one agent.
#[derive(Default)]
struct Keys {
    indexes: Vec<Index>,
    reports: Vec<ImportedFile>,
    known: HashSet<String>,
}

impl Keys {
    /// Adds an index: the keys of its own agent, and a report on its problems. A key that an
    /// earlier index holds is skipped.
    fn add(&mut self, files: &AgentFiles, mut report: ImportedFile, bytes: Result<Vec<u8>>) {
        let mut index = match bytes {
            Ok(bytes) => whole_index(&bytes),
            Err(error) => {
                (report.reason, report.has_failed) = (Some(error_text(&error)), true);
                Index::default()
            }
        };
        report.rows = (index.bindings.len() + index.unread.len()) as u64;
        let unread =
            index.unread.iter().map(|(key, why)| LeftRow { session_key: key.clone(), reason: why });
        report.left_out_keys = unread.collect();
        let mut problems: Vec<String> =
            index.problems.iter().map(|problem| problem.detail.to_string()).collect();
        // Each unread row is reported separately.
        problems.retain(|problem| !index.unread.iter().any(|(_, why)| problem == why));
        // A key of another agent must not lead to a session of this one.
        let is_own = |binding: &Binding| {
            let key = SessionKey::parse(binding.key.as_str());
            key.agent().is_none_or(|agent| agent.eq_ignore_ascii_case(&files.agent))
        };
        let before = index.bindings.len();
        index.bindings.retain(is_own);
        let others = before - index.bindings.len();
        if others > 0 {
            problems.push(format!("keys of other agents: {others}"));
        }
        let before = index.bindings.len();
        index.bindings.retain(|binding| self.known.insert(binding.key.to_string()));
        report.stored = (before - index.bindings.len()) as u64;
        for binding in &mut index.bindings {
            // These fields were added when the database was read.
            binding.fields.retain(|name, _| !name.starts_with("quipu:"));
            binding.written.retain(|name, _| !name.starts_with("quipu:"));
            if binding.session.is_none() {
                let (key, why) = (binding.key.clone(), "it names no session");
                report.left_out_keys.push(LeftRow { session_key: key, reason: why });
            }
        }
        if !problems.is_empty() {
            report.reason = Some(problems.join(", "));
        }
        report.has_failed |= index.is_damaged;
        self.indexes.push(index);
        self.reports.push(report);
    }
}

fn read_index(root: &Path, path: &Path, file: FileId) -> Result<Vec<u8>> {
    let mut file = foreign::open(root, path, file).map_err(Error::io("open", path))?;
    let size = file.metadata().map_err(Error::io("read", path))?.len();
    if size > MAX_INDEX_BYTES {
        return Err(Error::refused(format!(
            "it is too large: {size} bytes, and at most 1 GiB is read"
        )));
    }
    let mut bytes = Vec::new();
    let mut limited = std::io::Read::take(&mut file, MAX_INDEX_BYTES);
    std::io::Read::read_to_end(&mut limited, &mut bytes).map_err(Error::io("read", path))?;
    Ok(bytes)
}

/// Returns the session among `names` to which a key leads. An index may name a thread's session
/// without its thread, although the transcript is named after both.
fn session_of<'a>(binding: &'a Binding, names: &HashSet<&'a str>) -> Option<&'a str> {
    let id = binding.session.as_deref()?;
    let options = OpenClaw.sessions_of_key(&binding.key, id, &binding.fields);
    Some(options.iter().find_map(|option| names.get(&**option).copied()).unwrap_or(id))
}

fn path_of(agent: &str, id: &str) -> Result<String> {
    let is_printable = !id.chars().chain(agent.chars()).any(char::is_control);
    native::transcript_path(agent, id).filter(|_| is_printable).ok_or_else(|| {
        Error::refused(
            "ids of agents and sessions must have 1 to 180 bytes without control characters",
        )
    })
}

/// Returns whether an error concerns the whole ledger instead of one file.
fn is_ledger_error(error: &Error) -> bool {
    !matches!(error, Error::Refused { .. } | Error::Exists { .. } | Error::Io { .. })
}

/// Returns the text of an error with its cause.
fn error_text(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
