//! Shortens a context until it fits into one request: the oldest tool results first. Never changes
//! what is stored.

use serde_json::json;

use super::tokens;
use crate::context::{Message, plan};
use crate::json::object::{Object, list};
use crate::json::strings::lossy_text;

/// The characters that stay of a shortened result.
const HEAD: usize = 200;

/// The length, in characters, from which a result is shortened. A shorter one would save too
/// little.
const WORTH: usize = 400;

/// A context that was made to fit.
#[derive(Debug)]
pub struct Fitted {
    /// The messages, with shortened results.
    pub messages: Vec<Message>,
    /// The estimated tokens of the messages.
    pub tokens: u64,
    /// The number of results that were shortened.
    pub shortened: usize,
}

/// Shortens as many of the oldest tool results as needed for `budget` tokens. The rest of the
/// messages may still exceed it.
pub fn fit(mut messages: Vec<Message>, budget: u64) -> Fitted {
    let weighed = tokens::weigh_all(&messages);
    let sum = weighed.iter().map(|message| message.tokens).fold(0, u64::saturating_add);
    let (mut tokens, mut shortened) = (sum, 0);
    for (message, weighed) in messages.iter_mut().zip(&weighed) {
        if tokens <= budget {
            break;
        }
        if weighed.role != tokens::Role::Result {
            continue;
        }
        if let Some(short) = shorten(message) {
            tokens = tokens - weighed.tokens + tokens::of_message(&short);
            *message = short;
            shortened += 1;
        }
    }
    Fitted { messages, tokens, shortened }
}

/// Returns a result with the beginning of its text, or `None` if it is short.
fn shorten(message: &Message) -> Option<Message> {
    let mut object = Object::read(message.json())?;
    let content = object.get("content")?;
    let blocks = list(content)?;
    let (mut text, mut pictures) = (String::new(), 0);
    for block in blocks {
        let Some(block) = Object::read(block.get()) else { continue };
        match block.text("type").as_deref() {
            Some("text") => {
                text.push_str(&block.get("text").and_then(lossy_text).unwrap_or_default());
            }
            Some("image") => pictures += 1,
            _ => {}
        }
    }
    let length = text.chars().count();
    if length <= WORTH && pictures == 0 {
        return None;
    }
    let head: String = text.chars().take(HEAD).collect();
    let mut left_out = Vec::new();
    if length > HEAD {
        left_out.push(format!("{} characters", length - HEAD));
    }
    match pictures {
        0 => {}
        1 => left_out.push("1 picture".to_owned()),
        _ => left_out.push(format!("{pictures} pictures")),
    }
    let mark = format!("{head}\n[quipu left out {} to fit the context]", left_out.join(" and "));
    object.put("content", &json!([{"type": "text", "text": mark}]));
    object.put("quipuShortened", &true);
    plan::message(&object)
}
