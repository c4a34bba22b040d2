//! Forks of sessions in formats without native lines: the messages of their context become entries.
//!
//! Messages before the last compaction are never copied; they stay in the forked session.

use quipu_transcript::context::{Context, Message};
use quipu_transcript::native::NewEntry;
use quipu_transcript::time::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::NewLine;
use crate::Result;
use crate::base::clock;

/// The custom type of an entry whose message pi's format cannot express.
const UNMAPPED_TYPE: &str = "quipu.unmapped";

/// Returns the lines of the fork, and the number of messages that pi's format cannot express.
pub(super) fn lines(context: &Context) -> Result<(Vec<NewLine>, u64)> {
    let mut unmapped = 0;
    let mut last: Option<String> = None;
    let mut entries = Vec::new();
    if let Some(model) = &context.model
        && let (Some(provider), Some(id)) = (&model.provider, &model.model_id)
    {
        let change = json!({"type": "model_change", "provider": provider, "modelId": id});
        entries.push(NewEntry::read(&change.to_string())?);
    }
    for message in &context.messages {
        entries.push(match entry(message) {
            Some(entry) => entry,
            None => {
                unmapped += 1;
                NewEntry::read(&custom_entry(message))?
            }
        });
    }
    let mut lines = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        let id = format!("{:08x}", number + 1);
        let text = entry.line(&id, last.as_deref(), Timestamp(clock::now_ms()));
        lines.push(NewLine { text, same_as: None });
        last = Some(id);
    }
    Ok((lines, unmapped))
}

/// Returns the message as an entry; `None` if pi's format cannot express it.
fn entry(message: &Message) -> Option<NewEntry> {
    let value: Value = serde_json::from_str(message.json()).ok()?;
    let role = value.get("role")?.as_str()?;
    let time = value.get("timestamp").and_then(Value::as_i64).map(|time| Timestamp(time).to_iso());
    let time = time.filter(|time| !time.is_empty());
    let mut entry = match role {
        "compactionSummary" => json!({"type": "compaction", "summary": value.get("summary")?}),
        "branchSummary" => {
            json!({"type": "branch_summary", "fromId": "root", "summary": value.get("summary")?})
        }
        // The raw JSON keeps every digit of a number.
        _ => {
            let raw: &RawValue = serde_json::from_str(message.json()).ok()?;
            let time = time.map(|time| format!(r#""timestamp":"{time}","#)).unwrap_or_default();
            let json = format!(r#"{{"type":"message",{time}"message":{raw}}}"#);
            return NewEntry::read(&json).ok();
        }
    };
    for name in ["tokensBefore", "details"] {
        if let (Some(value), Some(entry)) = (value.get(name), entry.as_object_mut()) {
            entry.insert(name.to_owned(), value.clone());
        }
    }
    if let (Some(time), Some(entry)) = (time, entry.as_object_mut()) {
        entry.insert("timestamp".to_owned(), time.into());
    }
    NewEntry::read(&entry.to_string()).ok()
}

/// Returns a `custom` entry that holds the whole message, which models do not see. If the message
/// cannot be stored, the entry holds its length and the reason.
fn custom_entry(message: &Message) -> String {
    let data: Value = serde_json::from_str(message.json()).unwrap_or_else(|_| {
        // The JSON is nested too deeply for the parser.
        Value::String(message.json().to_owned())
    });
    let entry = json!({"type": "custom", "customType": UNMAPPED_TYPE, "data": data}).to_string();
    match NewEntry::read(&entry) {
        Ok(_) => entry,
        Err(why) => {
            let data = json!({"bytes": message.json().len(), "why": why.to_string()});
            json!({"type": "custom", "customType": UNMAPPED_TYPE, "data": data}).to_string()
        }
    }
}
