//! Checks in one pass whether a message already has pi's shape, so that it can stay as written, and
//! returns what pairing needs from it. Decodes no values.
//!
//! A message with any oddity fails the check and is then decoded field by field, as in `messages`
//! and [`super::pairing`].

use std::borrow::Cow;

use serde::de::SeqAccess;

use super::{Message, Seen};
use crate::json::object::Object;
use crate::json::{self, Lenient, Nullable, Oddities, Present, Value, fields};

fields! {
    struct Look<'a> {
        "role" => role: Cow<'a, str>,
        "content" => content: Nullable<Content<'a>>,
        "stopReason" => stop_reason: Cow<'a, str>,
        "toolCallId" => call: Cow<'a, str>,
        "toolName" => tool: Cow<'a, str>,
        "isError" => is_error: bool,
    }
}

fields! {
    struct Block<'a> {
        "type" => type_name: Cow<'a, str>,
        "id" => id: Cow<'a, str>,
        "name" => name: Cow<'a, str>,
        "text" => text: Nullable<Present>,
        "thinking" => thinking: Nullable<Present>,
        "thinkingSignature" => thinking_signature: Nullable<Present>,
        "signature" => signature: Nullable<Present>,
        "data" => data: Nullable<Present>,
        "source" => source: Nullable<Present>,
    }
}

/// The content of a message.
#[derive(Debug)]
pub(crate) enum Content<'a> {
    Text,
    /// Blocks in pi's shape, with the calls among them.
    Blocks(Vec<Call<'a>>),
    /// Any other content.
    Odd,
}

/// The id of a call, and the name of its tool.
type Call<'a> = (Cow<'a, str>, Cow<'a, str>);

impl<'de> Lenient<'de> for Content<'de> {
    fn from_text(_text: &str) -> Option<Content<'de>> {
        Some(Content::Text)
    }

    fn from_list<A: SeqAccess<'de>>(
        mut list: A,
        odd: &mut Oddities,
    ) -> Result<Option<Self>, A::Error> {
        let (mut calls, mut is_odd) = (Vec::new(), false);
        while let Some(block) = list.next_element_seed(Value::<Block<'_>>::new("content", odd))? {
            match block {
                Some(block) if block.has_pi_shape() => calls.extend(block.call()),
                _ => is_odd = true,
            }
        }
        Ok(Some(if is_odd { Content::Odd } else { Content::Blocks(calls) }))
    }
}

impl<'a> Block<'a> {
    /// Returns whether `shapes::content` would leave it unchanged.
    fn has_pi_shape(&self) -> bool {
        match self.type_name.as_deref().unwrap_or_default() {
            "tool_use"
            | "toolUse"
            | "tool_call"
            | "functionCall"
            | "function_call"
            | "tool_result"
            | "toolResult"
            | "function_call_output"
            | "output_text"
            | "input_text"
            | "redacted_thinking" => false,
            "thinking" => {
                self.thinking.is_some()
                    && (self.thinking_signature.is_some() || self.signature.is_none())
            }
            "image" => self.data.is_some() || self.source.is_none(),
            _ => true,
        }
    }

    fn call(self) -> Option<Call<'a>> {
        let id = self.id.filter(|id| !id.is_empty())?;
        let is_call = self.type_name.is_some_and(|name| name == "toolCall");
        is_call.then(|| (id, self.name.unwrap_or_default()))
    }
}

/// Returns the message of a line, if it can stay as written.
pub(super) fn message(line: &str) -> Option<Message> {
    let line = Object::read(line)?;
    let message = line.get("message")?;
    let seen = look(message.get())?;
    Some(Message { json: message.to_owned(), seen })
}

/// Returns what pairing needs from a message that can stay as written; `None` if it must be
/// decoded.
fn look(message: &str) -> Option<Seen> {
    let mut odd = Oddities::default();
    let look = json::object::<Look<'_>>(message.as_bytes(), &mut odd).ok()?;
    if !odd.is_none() {
        return None;
    }
    let content = look.content.and_then(|content| content.0);
    match (&*look.role?, content) {
        ("user", Some(Content::Text | Content::Blocks(_))) => Some(Seen::Nothing),
        ("assistant", Some(Content::Blocks(calls))) => match look.stop_reason.as_deref() {
            Some("tool_use") => None,
            _ if calls.is_empty() => Some(Seen::Nothing),
            reason => Some(Seen::Calls {
                is_broken: matches!(reason, Some("error" | "aborted")),
                calls: calls
                    .into_iter()
                    .map(|(id, name)| (id.into_owned(), name.into_owned()))
                    .collect(),
            }),
        },
        ("toolResult", Some(Content::Blocks(_))) if look.is_error != Some(true) => {
            let id = look.call?.trim().to_owned();
            let is_named = look.tool.is_some_and(|name| !name.is_empty() && name.trim() == name);
            (!id.is_empty()).then_some(Seen::Result { id, is_named })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    use super::super::messages::Maker;
    use super::super::pairing;
    use super::*;

    fn field(key: &'static str, values: Vec<Json>) -> impl Strategy<Value = String> {
        let value = prop::sample::select(values);
        // Absent, present, or present twice.
        prop_oneof![
            1 => Just(String::new()),
            8 => value.clone().prop_map(move |value| format!("\"{key}\":{value},")),
            1 => (value.clone(), value)
                .prop_map(move |(one, two)| format!("\"{key}\":{one},\"{key}\":{two},")),
        ]
    }

    fn object(fields: String) -> String {
        format!("{{{}}}", fields.trim_end_matches(','))
    }

    fn block() -> impl Strategy<Value = String> {
        let types = [
            "text",
            "toolCall",
            "thinking",
            "image",
            "tool_use",
            "tool_result",
            "output_text",
            "redacted_thinking",
            "other",
        ];
        let some = || vec![json!("a"), json!("b\nc"), json!(null), json!(5)];
        let object = (
            field("type", types.into_iter().map(Json::from).collect()),
            (field("id", some()), field("name", some())),
            (field("text", some()), field("thinking", some())),
            (field("signature", some()), field("thinkingSignature", some())),
            (field("data", some()), field("source", vec![json!({"data": "x"}), json!(null)])),
        )
            .prop_map(|(a, (b, c), (d, e), (f, g), (h, i))| {
                object([a, b, c, d, e, f, g, h, i].concat())
            });
        prop_oneof![9 => object, 1 => prop::sample::select(vec!["5", "null", "\"s\""])
            .prop_map(str::to_owned)]
    }

    fn message() -> impl Strategy<Value = String> {
        let blocks = prop::collection::vec(block(), 0..3)
            .prop_map(|blocks| format!("\"content\":[{}],", blocks.join(",")));
        let content = prop_oneof![
            4 => blocks,
            1 => field("content", vec![json!("text"), json!(null), json!({"type": "text"}), json!(5)]),
        ];
        let roles = ["user", "assistant", "toolResult", "system", "custom", "hookMessage", ""];
        (
            field("role", roles.into_iter().map(Json::from).collect()),
            content,
            field("stopReason", vec![json!("tool_use"), json!("error"), json!("stop"), json!(1)]),
            field("toolCallId", vec![json!("c"), json!(" c "), json!(""), json!(null), json!(1)]),
            field("toolName", vec![json!("t"), json!(" t"), json!(""), json!(null)]),
            field("isError", vec![json!(true), json!(false), json!("true")]),
        )
            .prop_map(|(a, b, c, d, e, f)| object([a, b, c, d, e, f].concat()))
    }

    proptest! {
        #[test]
        fn the_quick_check_agrees_with_decoding(message in message()) {
            let Some(seen) = look(&message) else { return Ok(()) };
            let raw = serde_json::from_str::<Box<serde_json::value::RawValue>>(&message).unwrap();
            let mut read = Vec::new();
            let mut maker = Maker::default();
            maker.has_hooks = true;
            maker.add_message(Cow::Borrowed(&raw), None, &mut read);
            prop_assert_eq!(read.len(), 1);
            prop_assert_eq!(read[0].json(), &message);
            let quick = vec![Message { json: raw.clone(), seen }];
            let (quick, repairs) = pairing::pair(quick);
            let (slow, repairs_too) = pairing::pair(vec![Message::new(raw)]);
            prop_assert_eq!(repairs, repairs_too);
            let json = |messages: &[Message]| -> Vec<String> {
                messages.iter().map(|message| message.json().to_owned()).collect()
            };
            prop_assert_eq!(json(&quick), json(&slow));
            // As a result of its own call, it gets the same name and the same place.
            let call = r#"{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"t"}]}"#;
            let call = || Message::new(serde_json::from_str(call).unwrap());
            let raw = serde_json::from_str::<Box<serde_json::value::RawValue>>(&message).unwrap();
            let seen = look(&message).unwrap();
            let (quick, _) = pairing::pair(vec![call(), Message { json: raw.clone(), seen }]);
            let (slow, _) = pairing::pair(vec![call(), Message::new(raw)]);
            prop_assert_eq!(json(&quick), json(&slow));
        }
    }
}
