//! Which sessions cannot be told by the first letters of their ids: ids that begin with the time
//! (UUIDv7) are alike for as long as a minute.

use std::collections::BTreeMap;

use super::empty;
use crate::Result;
use crate::file::ledger::Ledger;

/// Ids that begin like another one, sorted: each shares its first `letters` with a neighbour. Those
/// of transcripts without a line are among them, for they are listed, too. Sub-agents are called
/// after their session, and are told by their own names.
pub fn crowded_ids(ledger: &Ledger, letters: usize) -> Result<Vec<String>> {
    let conn = ledger.conn();
    let mut empty = empty::ids(conn)?;
    empty.sort_unstable();
    let mut empty = empty.into_iter().peekable();
    // In the order of the index, ids that begin alike stand together.
    let mut statement = conn
        .prepare("SELECT session_id FROM sessions INDEXED BY sessions_by_id ORDER BY session_id")?;
    let mut rows = statement.query([])?;
    let mut crowd = Crowd { letters, ..Crowd::default() };
    while let Some(row) = rows.next()? {
        let id = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        while let Some(before) = empty.next_if(|empty| empty.as_str() < id) {
            crowd.meet(&before);
        }
        crowd.meet(id);
    }
    empty.for_each(|id| crowd.meet(&id));
    Ok(crowd.finish())
}

/// Ids as they come, in order.
#[derive(Default)]
struct Crowd {
    letters: usize,
    crowded: Vec<String>,
    last: String,
    /// The last one is among the crowded.
    is_told: bool,
    /// Ids that begin with a folder, by how the file's name begins.
    in_folders: BTreeMap<String, Vec<String>>,
}

/// Of the name of a file in a folder so much is shown.
const LETTERS_OF_FILE: usize = 20;

impl Crowd {
    fn finish(mut self) -> Vec<String> {
        let alike = self.in_folders.into_values().filter(|ids| ids.len() > 1);
        self.crowded.extend(alike.flatten());
        self.crowded.sort_unstable();
        self.crowded
    }

    fn meet(&mut self, id: &str) {
        if id == self.last {
            return;
        }
        if let Some((folder, file)) = id.rsplit_once('/') {
            // Of a session's sub-agents, the session's id tells them apart.
            if folder.len() != 36 {
                let beginning = file.chars().take(LETTERS_OF_FILE).collect();
                let ids = self.in_folders.entry(beginning).or_default();
                if ids.last().is_none_or(|last| last != id) {
                    ids.push(id.to_owned());
                }
            }
            return;
        }
        let begin = |id| str::chars(id).take(self.letters);
        let is_crowded = !self.last.is_empty() && begin(&self.last).eq(begin(id));
        if is_crowded {
            if !self.is_told {
                self.crowded.push(self.last.clone());
            }
            self.crowded.push(id.to_owned());
        }
        self.is_told = is_crowded;
        self.last.clear();
        self.last.push_str(id);
    }
}
