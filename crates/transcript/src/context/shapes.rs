//! Converts blocks of other agents into pi's shape. Blocks that are already in pi's shape stay as
//! written.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::json::object::{Json, Object, list, text};

/// Fields that may hold the id of a call, most reliable first.
const CALL_IDS: [&str; 6] =
    ["id", "call_id", "toolCallId", "toolUseId", "tool_call_id", "tool_use_id"];

/// Fields in which a result may name its call.
pub(super) const RESULT_IDS: [&str; 6] =
    ["toolCallId", "toolUseId", "tool_call_id", "tool_use_id", "callId", "call_id"];

/// The content of a message, split into blocks and results.
#[derive(Debug, Default)]
pub(super) struct Content<'a> {
    /// The blocks that stay in the message.
    pub(super) blocks: Vec<Json<'a>>,
    /// Tool results that were inside the message.
    pub(super) results: Vec<Object<'a>>,
    /// True if any block differs from what was written.
    pub(super) is_changed: bool,
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'static str,
    text: &'a str,
}

/// Returns a text block.
pub(super) fn text_block(text: &str) -> Option<Json<'static>> {
    to_raw_value(&Text { r#type: "text", text }).ok().map(Cow::Owned)
}

/// Splits a list of blocks. `None` if the value is not a list.
pub(super) fn content(written: &RawValue) -> Option<Content<'_>> {
    let mut content = Content::default();
    for block in list(written)? {
        if let Some(text) = text(block) {
            content.blocks.extend(text_block(&text));
            content.is_changed = true;
            continue;
        }
        let Some(mut object) = Object::read(block.get()) else {
            content.blocks.push(Cow::Borrowed(block));
            continue;
        };
        let type_name = object.text("type").map(Cow::into_owned).unwrap_or_default();
        let is_changed = match type_name.as_str() {
            "toolCall" => false,
            "tool_use" | "toolUse" | "tool_call" | "functionCall" | "function_call" => {
                call(&mut object);
                true
            }
            "tool_result" | "toolResult" | "function_call_output" => {
                content.results.push(object);
                content.is_changed = true;
                continue;
            }
            "output_text" | "input_text" => {
                object.put("type", &"text");
                true
            }
            "thinking" => thinking(&mut object),
            "redacted_thinking" => {
                redacted(&mut object);
                true
            }
            "image" => image(&mut object),
            _ => false,
        };
        content.is_changed |= is_changed;
        content.blocks.push(match is_changed.then(|| object.json()).flatten() {
            Some(changed) => Cow::Owned(changed),
            None => Cow::Borrowed(block),
        });
    }
    Some(content)
}

/// Converts a call of another shape.
fn call(object: &mut Object<'_>) {
    let is_openai = object.text("type").is_some_and(|name| name == "function_call");
    object.put("type", &"toolCall");
    // `id` is the item's id, `call_id` is the id that results repeat.
    let order = if is_openai { ["call_id", "id"] } else { ["id", "call_id"] };
    let named = order.iter().chain(CALL_IDS.get(2..).unwrap_or_default());
    let id = named.filter_map(|key| object.text(key)).find(|id| !id.is_empty());
    if let Some(id) = id.map(Cow::into_owned) {
        CALL_IDS.iter().skip(1).for_each(|key| drop(object.take(key)));
        object.put("id", &id);
    }
    object.rename("input", "arguments");
    // OpenAI writes arguments as a string that holds JSON.
    let parsed = object.text("arguments").and_then(|text| {
        let is_object = text.trim_start().starts_with('{');
        is_object.then(|| serde_json::from_str::<Box<RawValue>>(&text).ok()).flatten()
    });
    if let Some(parsed) = parsed {
        object.set("arguments", Cow::Owned(parsed));
    }
    if object.some("arguments").is_none() {
        object.put("arguments", &serde_json::Map::new());
    }
}

fn thinking(object: &mut Object<'_>) -> bool {
    let is_foreign = !object.has("thinking") && object.has("text")
        || !object.has("thinkingSignature") && object.has("signature");
    object.rename("text", "thinking");
    object.rename("signature", "thinkingSignature");
    is_foreign
}

fn redacted(object: &mut Object<'_>) {
    object.put("type", &"thinking");
    object.put("thinking", &"[Reasoning redacted]");
    object.rename("data", "thinkingSignature");
    object.put("redacted", &true);
}

/// Converts a nested image: `{"source": {"type": "base64", "media_type": …, "data": …}}`.
fn image(object: &mut Object<'_>) -> bool {
    if object.has("data") || object.some("source").is_none() {
        return false;
    }
    let Some(source) = object.take("source") else { return false };
    let nested = Object::read(source.get()).unwrap_or_default();
    let (Some(data), media_type) =
        (nested.some("data"), nested.some("media_type").or(nested.some("mimeType")))
    else {
        object.set("source", source);
        return false;
    };
    object.set("data", Cow::Owned(data.to_owned()));
    if let Some(media_type) = media_type {
        object.set("mimeType", Cow::Owned(media_type.to_owned()));
    }
    true
}

/// Converts a result inside a user's message into a separate message. `name` is the tool's name,
/// for a result that does not have it.
pub(super) fn result(
    block: &Object<'_>,
    name: Option<&str>,
    time: Option<&RawValue>,
) -> Object<'static> {
    let mut message = Object::default();
    message.put("role", &"toolResult");
    if let Some(id) = id_of_result(block).or(block.text("id").map(Cow::into_owned)) {
        message.put("toolCallId", &id);
    }
    let own = block.text("toolName").or(block.text("name")).map(Cow::into_owned);
    message.put("toolName", &own.as_deref().or(name).unwrap_or("unknown"));
    let answer = block.some("content").or(block.some("output")).or(block.some("text"));
    let blocks = answer.map(result_blocks).unwrap_or_default();
    message.put("content", &blocks);
    let is_error = ["is_error", "isError"]
        .iter()
        .any(|key| block.get(key).is_some_and(|value| value.get() == "true"));
    message.put("isError", &is_error);
    if let Some(time) = time {
        message.set("timestamp", Cow::Owned(time.to_owned()));
    }
    message
}

/// Returns the blocks of a tool's answer, which may be a text, a list, or one block.
pub(super) fn result_blocks(answer: &RawValue) -> Vec<Json<'_>> {
    if let Some(text) = text(answer) {
        return text_block(&text).into_iter().collect();
    }
    match content(answer) {
        Some(content) => content.blocks,
        None if answer.get().starts_with('{') => vec![Cow::Borrowed(answer)],
        None => Vec::new(),
    }
}

/// Returns the id of the call that a result names.
pub(super) fn id_of_result(result: &Object<'_>) -> Option<String> {
    let mut named = RESULT_IDS.iter().filter_map(|key| result.text(key));
    named.find_map(|id| Some(id.trim().to_owned()).filter(|id| !id.is_empty()))
}

/// Returns ids and names of the calls in a message's content.
pub(super) fn calls(content: &RawValue) -> Vec<(String, String)> {
    let blocks = list(content).unwrap_or_default().into_iter();
    blocks
        .filter_map(|block| Object::read(block.get()))
        .filter(|block| block.text("type").is_some_and(|name| name == "toolCall"))
        .filter_map(|block| {
            let id = block.text("id").filter(|id| !id.is_empty())?.into_owned();
            Some((id, block.text("name").map(Cow::into_owned).unwrap_or_default()))
        })
        .collect()
}
