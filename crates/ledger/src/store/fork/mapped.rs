//! Forks of sessions whose lines are not ours: what a model should see of them, message by message.
//!
//! What came before the last compaction is not in there; it stays in the session that was forked.

use quipu_transcript::context::{Context, Message};
use quipu_transcript::native::NewEntry;
use quipu_transcript::time::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Copied;
use crate::Result;
use crate::base::clock;

/// What kind of entry a message is that has no place in pi's shapes.
const UNMAPPED: &str = "quipu.unmapped";

/// The lines of such a fork, and how many messages have no place in pi's shapes.
pub(super) fn lines(seen: &Context) -> Result<(Vec<Copied>, u64)> {
    let mut unmapped = 0;
    let mut last: Option<String> = None;
    let mut entries = Vec::new();
    if let Some(model) = &seen.model
        && let (Some(provider), Some(id)) = (&model.provider, &model.model_id)
    {
        let change = json!({"type": "model_change", "provider": provider, "modelId": id});
        entries.push(NewEntry::read(&change.to_string())?);
    }
    for message in &seen.messages {
        entries.push(match entry(message) {
            Some(entry) => entry,
            None => {
                unmapped += 1;
                NewEntry::read(&put_aside(message))?
            }
        });
    }
    let mut lines = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        let id = format!("{:08x}", number + 1);
        let text = entry.line(&id, last.as_deref(), Timestamp(clock::now_ms()));
        lines.push(Copied { text, same_as: None });
        last = Some(id);
    }
    Ok((lines, unmapped))
}

/// A message as an entry.
fn entry(message: &Message) -> Option<NewEntry> {
    let said: Value = serde_json::from_str(message.json()).ok()?;
    let role = said.get("role")?.as_str()?;
    let time = said.get("timestamp").and_then(Value::as_i64).map(|time| Timestamp(time).to_iso());
    let time = time.filter(|time| !time.is_empty());
    let mut entry = match role {
        "compactionSummary" => json!({"type": "compaction", "summary": said.get("summary")?}),
        "branchSummary" => {
            json!({"type": "branch_summary", "fromId": "root", "summary": said.get("summary")?})
        }
        // Numbers stay as they were written, digit by digit.
        _ => {
            let raw: &RawValue = serde_json::from_str(message.json()).ok()?;
            let time = time.map(|time| format!(r#""timestamp":"{time}","#)).unwrap_or_default();
            let json = format!(r#"{{"type":"message",{time}"message":{raw}}}"#);
            return NewEntry::read(&json).ok();
        }
    };
    for name in ["tokensBefore", "details"] {
        if let (Some(value), Some(entry)) = (said.get(name), entry.as_object_mut()) {
            entry.insert(name.to_owned(), value.clone());
        }
    }
    if let (Some(time), Some(entry)) = (time, entry.as_object_mut()) {
        entry.insert("timestamp".to_owned(), time.into());
    }
    NewEntry::read(&entry.to_string()).ok()
}

/// A message that is kept for people.
fn put_aside(message: &Message) -> String {
    let data: Value = serde_json::from_str(message.json()).unwrap_or_else(|_| {
        // Deeper than JSON is read here.
        Value::String(message.json().to_owned())
    });
    let entry = json!({"type": "custom", "customType": UNMAPPED, "data": data}).to_string();
    match NewEntry::read(&entry) {
        Ok(_) => entry,
        Err(why) => {
            let data = json!({"bytes": message.json().len(), "why": why.to_string()});
            json!({"type": "custom", "customType": UNMAPPED, "data": data}).to_string()
        }
    }
}
