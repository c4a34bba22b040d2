//! What the bytes of a home are spent on, counted by reading the files back.
//!
//! Independent of the generator on purpose: it says what a reader will find.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use crate::corpus;

/// Parts of all bytes, each between 0 and 1.
#[derive(Debug)]
pub(crate) struct Shares {
    /// Lines that carry the result of a tool.
    pub(crate) tool_results: f64,
    /// What a search index would be given: prose, thinking, tool input and tool output.
    pub(crate) text: f64,
    /// Files of Claude Code.
    pub(crate) claude: f64,
}

#[derive(Default)]
struct Counts {
    bytes: usize,
    tool_results: usize,
    text: usize,
    claude: usize,
}

/// Returns the shares of all transcripts below `home`.
pub(crate) fn of_home(home: &Path) -> Result<Shares> {
    let mut counts = Counts::default();
    for file in corpus::sources(home)? {
        let bytes = fs::read(&file.path)?;
        let is_claude = file.path.strip_prefix(home)?.starts_with(".claude");
        counts.bytes += bytes.len();
        counts.claude += if is_claude { bytes.len() } else { 0 };
        if !file.is_lines() {
            continue;
        }
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if let Ok(entry) = serde_json::from_slice::<Value>(line) {
                count(&entry, line.len(), &mut counts);
            }
        }
    }
    let share = |part: usize| part as f64 / counts.bytes.max(1) as f64;
    Ok(Shares {
        tool_results: share(counts.tool_results),
        text: share(counts.text),
        claude: share(counts.claude),
    })
}

fn count(entry: &Value, line_len: usize, counts: &mut Counts) {
    let message = &entry["message"];
    let is_openclaw_result = message["role"] == "toolResult";
    let mut is_result = is_openclaw_result;
    match &message["content"] {
        Value::String(text) => counts.text += text.len(),
        Value::Array(blocks) => {
            for block in blocks {
                is_result |= block["type"] == "tool_result";
                counts.text += block_text(block);
            }
        }
        _ => {}
    }
    if let Some(summary) = entry["summary"].as_str() {
        counts.text += summary.len();
    }
    if is_result {
        counts.tool_results += line_len;
    }
}

fn block_text(block: &Value) -> usize {
    match block["type"].as_str().unwrap_or_default() {
        "tool_use" => strings(&block["input"]),
        "toolCall" => strings(&block["arguments"]),
        "tool_result" => match &block["content"] {
            Value::Array(inner) => inner.iter().map(block_text).sum(),
            content => strings(content),
        },
        "image" => 0,
        _ => strings(&block["text"]) + strings(&block["thinking"]),
    }
}

/// Returns the length of all strings inside a value.
fn strings(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(strings).sum(),
        Value::Object(fields) => fields.values().map(strings).sum(),
        _ => 0,
    }
}
