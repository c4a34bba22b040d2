//! Turns the lines of a file that quipu exported back into the original lines.
//!
//! An export begins a new file after each reset, and adds lines there that its readers need. They
//! are not part of the session. If the preceding file is present, they are removed, and the session
//! is restored byte for byte.

use std::borrow::Cow;
use std::collections::HashSet;

use memchr::memmem;
use quipu_transcript::context::{
    ADDED_FIELD, CONTINUES_FIELD, LEAF_ONLY, OWN_ID, OWN_LINE, REPEATED_SETTING, own_header,
};
use serde_json::Value;

use crate::store::openclaw_names;

/// The state while the lines of one exported file are read.
pub(super) struct Exported {
    /// True if the preceding file is present.
    continues_previous: bool,
    /// The ids of removed entries.
    removed_ids: HashSet<String>,
}

impl Exported {
    pub(super) fn new(continues_previous: bool) -> Exported {
        Exported { continues_previous, removed_ids: HashSet::new() }
    }

    /// Returns the original line; `None` if the export added it.
    pub(super) fn original<'a>(&mut self, line: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let kept = Some(Cow::Borrowed(line));
        // Most lines contain none of these names, so they are not parsed.
        if [ADDED_FIELD, OWN_LINE, OWN_ID, CONTINUES_FIELD]
            .iter()
            .all(|name| memmem::find(line, name.as_bytes()).is_none())
        {
            return kept;
        }
        let Ok(value) = serde_json::from_slice::<Value>(line) else { return kept };
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        let id = text("id").unwrap_or_default();
        let own = text(OWN_ID).and_then(|own| openclaw_names::header_id(own, id));
        if own.is_some() || value.get(CONTINUES_FIELD).is_some() {
            let header = std::str::from_utf8(line).ok().and_then(|line| own_header(line, own));
            if let Some(header) = header {
                return Some(Cow::Owned(header.into_bytes()));
            }
        }
        let is_left_out = match text(ADDED_FIELD) {
            Some(REPEATED_SETTING) => self.continues_previous,
            Some(LEAF_ONLY) => true,
            _ => false,
        };
        if is_left_out {
            self.removed_ids.extend(text("id").map(str::to_owned));
            return None;
        }
        let parent_was_removed =
            text("parentId").is_some_and(|parent| self.removed_ids.contains(parent));
        let Some(own) = text(OWN_LINE).filter(|_| self.continues_previous || parent_was_removed)
        else {
            return kept;
        };
        let Ok(before) = serde_json::from_str::<Value>(own) else { return kept };
        let is_same = |name: &str| before.get(name) == value.get(name);
        match is_same("id") && is_same("type") && !own.contains('\n') {
            true => Some(Cow::Owned(format!("{own}\n").into_bytes())),
            false => kept,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_an_export_added_is_left_out() {
        let added = br#"{"type":"model_change","id":"m","parentId":null,"quipuMade":"again"}"#;
        let reset = br#"{"type":"reset","id":"r","parentId":"m","quipuLine":"{\"type\":\"reset\",\"id\":\"r\",\"parentId\":\"a\"}"}"#;
        let other = br#"{"type":"reset","id":"r","parentId":"m","quipuLine":"{\"type\":\"reset\",\"id\":\"x\"}"}"#;
        let spoken =
            br#"{"type":"message","id":"s","message":{"role":"user","content":"quipuMade"}}"#;
        let mut after = Exported::new(true);
        assert_eq!(after.original(added), None);
        let was: &[u8] = b"{\"type\":\"reset\",\"id\":\"r\",\"parentId\":\"a\"}\n";
        assert_eq!(after.original(reset).as_deref(), Some(was));
        assert_eq!(after.original(other).as_deref(), Some(&other[..]));
        assert_eq!(after.original(spoken).as_deref(), Some(&spoken[..]));
        // Without the preceding file, the added lines are the only copy.
        let mut alone = Exported::new(false);
        assert_eq!(alone.original(added).as_deref(), Some(&added[..]));
        assert_eq!(alone.original(reset).as_deref(), Some(&reset[..]));
    }
}
