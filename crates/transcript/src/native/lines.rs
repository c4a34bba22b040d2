//! Makes the lines that the store itself writes, and reads and changes lines that were written
//! before.

use std::borrow::Cow;

use crate::json::object::Object;
use crate::time::Timestamp;

/// Returns the id of a written entry.
pub fn id_in(line: &str) -> Option<String> {
    Object::read(line.trim_end())?.text("id").map(Cow::into_owned)
}

/// Returns the thinking level that an entry sets.
pub fn thinking_level_in(line: &str) -> Option<String> {
    Object::read(line.trim_end())?.text("thinkingLevel").map(Cow::into_owned)
}

/// Returns the header line of a new session, with its newline.
pub fn header(id: &str, cwd: Option<&str>, parent: Option<&str>, now: Timestamp) -> String {
    let mut object = Object::default();
    object.put("type", &"session");
    object.put("version", &3);
    object.put("id", &id);
    object.put("timestamp", &now.to_iso());
    object.put("cwd", &cwd.unwrap_or_default());
    if let Some(parent) = parent {
        object.put("parentSession", &parent);
    }
    object.json().map(|json| format!("{}\n", json.get())).unwrap_or_default()
}

/// Returns the line with another parent and, if given, another first kept entry; all else is
/// unchanged.
pub fn with_parent(line: &str, parent: Option<&str>, first_kept: Option<&str>) -> Option<String> {
    let mut object = Object::read(line.trim())?;
    object.put("parentId", &parent);
    if let Some(first_kept) = first_kept {
        object.put("firstKeptEntryId", &first_kept);
    }
    Some(format!("{}\n", object.json()?.get()))
}

/// Returns a message that mirrors a text sent to a channel: no model wrote it, and it costs
/// nothing.
pub fn mirror(text: &str) -> String {
    serde_json::json!({
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "api": "openai-responses",
        "provider": "openclaw",
        "model": "delivery-mirror",
        "usage": {
            "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
        },
        "stopReason": "stop",
    })
    .to_string()
}
