//! What a runtime does with a conversation besides appending: begin a turn, go back, label, start over.

use quipu_transcript::native::{NewEntry, Refusal, mirror};
use serde_json::json;

use super::append::{Append, Appended, Wanted};
use super::{NativeSession, Store, tree};
use crate::store::unprojected::View;
use crate::{Error, Result};

impl Store {
    /// Begins a turn with a user's message. If the leaf is a user's message that nothing answered,
    /// because a run failed, the new one takes its place beside it, so that roles alternate; the old
    /// one stays in the tree, with the labels behind it. A message that names its parent itself hangs there.
    pub fn begin_turn(
        &mut self,
        session: &NativeSession,
        message: &str,
        how: Append<'_>,
    ) -> Result<Appended> {
        let entry = NewEntry::read(message)?;
        if entry.role != Some("user") {
            return Err(Refusal::Field("a turn begins with a user's message").into());
        }
        self.append_ahead(session, &Wanted { entry: &entry, how, begins_turn: true })
    }

    /// Moves the leaf to an entry, or before the first one. With a summary of what is left behind,
    /// that is appended there.
    pub fn branch(
        &mut self,
        session: &NativeSession,
        to: Option<&str>,
        summary: Option<&str>,
        how: Append<'_>,
    ) -> Result<Appended> {
        let entry = match summary {
            None => json!({"type": "leaf", "targetId": to}),
            Some(summary) => {
                let left = self.leaf(session)?.map(|leaf| leaf.id);
                let from = left.as_deref().unwrap_or("root");
                json!({"type": "branch_summary", "parentId": to, "fromId": from, "summary": summary})
            }
        };
        self.append(session, &entry.to_string(), how)
    }

    /// Gives an entry a label, or takes it away.
    pub fn label(
        &mut self,
        session: &NativeSession,
        target: &str,
        label: Option<&str>,
        how: Append<'_>,
    ) -> Result<Appended> {
        let mut entry = json!({"type": "label", "targetId": target});
        if let (Some(label), Some(entry)) = (label, entry.as_object_mut()) {
            entry.insert("label".to_owned(), label.into());
        }
        self.append(session, &entry.to_string(), how)
    }

    /// Empties the conversation: what comes before is no longer part of the context, except from
    /// `keep` on, and stays in the ledger.
    pub fn reset(
        &mut self,
        session: &NativeSession,
        reason: &str,
        keep: Option<&str>,
        how: Append<'_>,
    ) -> Result<Appended> {
        let mut entry = json!({"type": "reset", "reason": reason});
        if let (Some(keep), Some(entry)) = (keep, entry.as_object_mut()) {
            // What is kept has to be on the path.
            self.settled(&mut |ledger| {
                let conn = ledger.conn();
                let kept = View::settled(conn, session).known("firstKeptEntryId", keep)?;
                let leaf = tree::leaf(conn, session.row)?;
                let path = leaf.map(|leaf| tree::path(conn, leaf.entry)).transpose()?;
                match path.unwrap_or_default().contains(&kept) {
                    true => Ok(()),
                    false => Err(Error::refused("what is kept has to be on the path to the leaf")),
                }
            })?;
            entry.insert("firstKeptEntryId".to_owned(), keep.into());
        }
        self.append(session, &entry.to_string(), how)
    }

    /// Notes what was sent to a channel, as an answer that no model wrote.
    pub fn mirror(
        &mut self,
        session: &NativeSession,
        text: &str,
        how: Append<'_>,
    ) -> Result<Appended> {
        if text.trim().is_empty() {
            return Err(Refusal::Field("a mirror of nothing: the text is empty").into());
        }
        self.append(session, &mirror(text), how)
    }
}
