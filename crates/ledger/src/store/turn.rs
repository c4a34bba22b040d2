//! Operations on a conversation besides a plain append: begin a turn, branch, label, reset, mirror.
//!
//! Each one appends a line. None edits a stored line.

use quipu_transcript::native::{Entry, NewEntry, Refusal, mirror};
use serde_json::json;

use super::session::Appender;
use super::tree;
use crate::store::unprojected::View;
use crate::wire::Appended;
use crate::{Error, Result};

/// Fails unless a turn can begin with the entry.
pub(super) fn check_begins(entry: &NewEntry) -> Result<()> {
    match entry.role {
        Some("user") => Ok(()),
        _ => Err(Refusal::Field("a turn must begin with a user message").into()),
    }
}

impl Appender<'_> {
    /// Begins a turn with a user's message.
    ///
    /// A failed run may leave an unanswered user message at the leaf. The new message then gets the
    /// parent of that message, so that roles alternate. The old message stays in the tree, with its
    /// labels. If the new message names a parent itself, it is attached to that one.
    pub fn begin_turn(&self, message: impl Into<Entry>) -> Result<Appended> {
        let entry = message.into().check()?;
        check_begins(&entry)?;
        self.append_checked(&entry, true)
    }

    /// Moves the leaf to the entry `to`; with `None`, before the first entry. `summary`, if given,
    /// describes the abandoned branch and is appended at the new leaf.
    pub fn branch(&self, to: Option<&str>, summary: Option<&str>) -> Result<Appended> {
        let entry = match summary {
            None => Entry::leaf(to),
            Some(summary) => {
                let left = self.session.leaf()?.map(|leaf| leaf.id);
                let from = left.as_deref().unwrap_or("root");
                json!({"type": "branch_summary", "parentId": to, "fromId": from, "summary": summary})
                    .into()
            }
        };
        self.append(entry)
    }

    /// Sets the label of an entry; `None` removes it.
    pub fn label(&self, target: &str, label: Option<&str>) -> Result<Appended> {
        self.append(Entry::label(target, label))
    }

    /// Empties the context, except for the entry `keep` and those after it. All entries stay in the
    /// ledger.
    pub fn reset(&self, reason: &str, keep: Option<&str>) -> Result<Appended> {
        let mut entry = json!({"type": "reset", "reason": reason});
        if let (Some(keep), Some(entry)) = (keep, entry.as_object_mut()) {
            // The first kept entry must be on the path.
            let session = &self.session.native;
            self.session.store.read_caught_up(&mut |ledger| {
                let conn = ledger.conn();
                let kept = View::projected(conn, session).find_on_path("firstKeptEntryId", keep)?;
                let leaf = tree::leaf(conn, session.row)?;
                let path = leaf.map(|leaf| tree::path(conn, leaf.entry)).transpose()?;
                match path.unwrap_or_default().contains(&kept) {
                    true => Ok(()),
                    false => Err(Error::refused(
                        "the first entry to keep must be on the path to the leaf",
                    )),
                }
            })?;
            entry.insert("firstKeptEntryId".to_owned(), keep.into());
        }
        self.append(entry)
    }

    /// Stores a text that was sent to a channel, as an answer that no model wrote.
    pub fn mirror(&self, text: &str) -> Result<Appended> {
        if text.trim().is_empty() {
            return Err(Refusal::Field("the text is empty").into());
        }
        self.append(Entry::json(mirror(text)))
    }
}
