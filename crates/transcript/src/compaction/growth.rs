//! Computes how an appended line changes the size of a context, so that a store need not count the
//! whole context again.

use super::tokens::{self, Role};
use crate::json::object::Object;

/// The change that a line at the leaf makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// The context has this many tokens more. 0 for a line without a message.
    By(u64),
    /// The context has this many tokens: a model has counted it.
    To(u64),
    /// The whole context has to be counted again.
    Unknown,
}

/// Returns the change that a line makes. The line has to be in pi's format, with the leaf as its
/// parent.
pub fn growth(line: &str) -> Growth {
    let Some(entry) = Object::read(line.trim_end()) else { return Growth::Unknown };
    if entry.text("appendMode").as_deref() == Some("side") {
        return Growth::By(0);
    }
    match entry.text("type").as_deref().unwrap_or_default() {
        "message" => {
            let Some(message) = entry.get("message") else { return Growth::Unknown };
            let weighed = tokens::weigh(message.get());
            match (weighed.role, weighed.usage) {
                // Sections and tools replace earlier ones.
                (Role::System, _) => Growth::Unknown,
                (_, Some(tokens)) => Growth::To(tokens),
                (_, None) => Growth::By(weighed.tokens),
            }
        }
        "custom_message" => {
            let units = entry.get("content").map(tokens::shown_units).unwrap_or_default();
            Growth::By(units.div_ceil(4))
        }
        "branch_summary" => {
            let units = entry.get("summary").and_then(crate::json::strings::string_len);
            Growth::By(units.unwrap_or_default().div_ceil(4))
        }
        "thinking_level_change" | "label" | "session_info" | "usage" | "custom" => Growth::By(0),
        // A compaction, a reset, an edit, a moved leaf, another model.
        _ => Growth::Unknown,
    }
}
