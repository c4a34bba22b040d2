//! Finds session ids that share their first letters with another id.
//!
//! Ids that begin with the time (UUIDv7) share eight letters for about a minute. Nothing here
//! decides how an id is printed.

use std::collections::BTreeMap;

use quipu_transcript::format::folder_and_file;

use super::empty;
use super::originals::is_original;
use crate::Result;
use crate::file::ledger::Ledger;

/// Returns the ids that share their first `letters` with another id, sorted. Ids of transcripts
/// without a line are included, since those are listed, too. Sub-agents are left out: they are
/// shown by their own names.
pub fn ids_with_ambiguous_prefix(ledger: &Ledger, letters: usize) -> Result<Vec<String>> {
    let conn = ledger.conn();
    let mut empty = empty::ids(conn)?;
    empty.sort_unstable();
    let mut empty = empty.into_iter().peekable();
    // In the order of the index, ids with the same prefix are neighbours.
    let mut statement = conn
        .prepare("SELECT session_id FROM sessions INDEXED BY sessions_by_id ORDER BY session_id")?;
    let mut rows = statement.query([])?;
    let mut scan = PrefixScan { letters, ..PrefixScan::default() };
    while let Some(row) = rows.next()? {
        let id = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        while let Some(before) = empty.next_if(|empty| empty.as_str() < id) {
            scan.visit(&before);
        }
        scan.visit(id);
    }
    empty.for_each(|id| scan.visit(&id));
    // A prefix of `FORMAT/ID` would lose the format, so originals of imported sessions always
    // count.
    let mut statement = conn.prepare(concat!(
        "SELECT s.format || '/' || s.session_id FROM sessions s WHERE ",
        is_original!()
    ))?;
    let names = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    scan.ambiguous.extend(names);
    Ok(scan.finish())
}

/// The ids seen so far, in order.
#[derive(Default)]
struct PrefixScan {
    letters: usize,
    ambiguous: Vec<String>,
    last: String,
    /// True if the last id is already in `ambiguous`.
    last_is_reported: bool,
    /// Ids that begin with a folder, by the first letters of the file's name.
    in_folders: BTreeMap<String, Vec<String>>,
}

/// The number of characters that lists show of the name of a file in a folder.
const MAX_FILE_LETTERS: usize = 20;

impl PrefixScan {
    fn finish(mut self) -> Vec<String> {
        let alike = self.in_folders.into_values().filter(|ids| ids.len() > 1);
        self.ambiguous.extend(alike.flatten());
        self.ambiguous.sort_unstable();
        self.ambiguous
    }

    fn visit(&mut self, id: &str) {
        if id == self.last {
            return;
        }
        if let Some((folder, file)) = folder_and_file(id) {
            // Sub-agents are distinguished by the id of their session, which is their folder.
            if folder.len() != 36 {
                let beginning = file.chars().take(MAX_FILE_LETTERS).collect();
                let ids = self.in_folders.entry(beginning).or_default();
                if ids.last().is_none_or(|last| last != id) {
                    ids.push(id.to_owned());
                }
            }
            return;
        }
        let begin = |id| str::chars(id).take(self.letters);
        let is_ambiguous = !self.last.is_empty() && begin(&self.last).eq(begin(id));
        if is_ambiguous {
            if !self.last_is_reported {
                self.ambiguous.push(self.last.clone());
            }
            self.ambiguous.push(id.to_owned());
        }
        self.last_is_reported = is_ambiguous;
        self.last.clear();
        self.last.push_str(id);
    }
}
