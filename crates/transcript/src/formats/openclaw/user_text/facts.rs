//! Reads the facts about a message that OpenClaw writes as JSON into the text: its sender, its channel
//! and its id.

use std::borrow::Cow;

use super::UserText;
use crate::json::{self, Oddities, Word, fields, non_empty};

/// Takes sender, channel and message id from the JSON of a block.
pub(super) fn learn(found: &mut UserText<'_>, label: &str, block: &str) {
    let json = block.trim().trim_start_matches("```json").trim_end_matches("```");
    match label {
        "Sender" => {
            let Some(sender) = Sender::parse(json) else { return };
            found.sender = sender.name().or(found.sender.take());
        }
        "Conversation info" => {
            let Ok(info) =
                json::object::<Conversation<'_>>(json.as_bytes(), &mut Oddities::default())
            else {
                return;
            };
            let chat = info.chat_id.as_ref().and_then(|chat| chat.0.split_once(':'));
            let chat = chat.map(|(channel, _)| channel.to_owned());
            let channel = info.channel.or(info.provider).map(Cow::into_owned).or(chat);
            found.channel = channel.or(found.channel.take());
            let id = info.message_id.map(|id| id.0.into_owned());
            found.message_id = id.or(found.message_id.take());
            if found.sender.is_none() {
                found.sender = info.sender.and_then(|sender| sender.name());
            }
        }
        _ => {}
    }
}

fields! {
    /// Facts about a conversation.
    struct Conversation<'a> {
        "sender" => sender: Sender<'a>,
        "message_id" => message_id: Word<'a>,
        "chat_id" => chat_id: Word<'a>,
        "channel" => channel: Cow<'a, str>,
        "provider" => provider: Cow<'a, str>,
    }
}

fields! {
    /// Facts about a sender.
    struct SenderFields<'a> {
        "label" => label: Cow<'a, str>,
        "name" => name: Cow<'a, str>,
        "username" => username: Cow<'a, str>,
        "e164" => phone: Cow<'a, str>,
        "id" => id: Word<'a>,
    }
}

/// A sender: an object, or only a name.
#[derive(Debug)]
pub(crate) enum Sender<'a> {
    Name(Cow<'a, str>),
    Fields(Box<SenderFields<'a>>),
}

impl<'a> Sender<'a> {
    fn parse(json: &'a str) -> Option<Sender<'a>> {
        json::object(json.as_bytes(), &mut Oddities::default()).ok().map(Sender::Fields)
    }

    /// Returns the name to show. A label that equals the id belongs to the program through which a
    /// person writes; it is not the name of a person.
    fn name(self) -> Option<String> {
        let name = match self {
            Sender::Name(name) => non_empty(Some(name)),
            Sender::Fields(fields) => {
                let id = non_empty(fields.id.map(|id| id.0));
                let label = non_empty(fields.label);
                let is_program = label.is_some() && label == id;
                non_empty(fields.name)
                    .or(label.filter(|_| !is_program))
                    .or(non_empty(fields.username))
                    .or(non_empty(fields.phone))
                    .or(id.filter(|_| !is_program))
            }
        };
        name.map(Cow::into_owned)
    }
}

impl<'de> json::Lenient<'de> for Sender<'de> {
    fn from_text(text: &str) -> Option<Self> {
        Some(Sender::Name(Cow::Owned(text.to_owned())))
    }

    fn from_object<A: serde::de::MapAccess<'de>>(
        object: A,
        odd: &mut Oddities,
    ) -> Result<Option<Self>, A::Error> {
        Ok(SenderFields::from_object(object, odd)?.map(|fields| Sender::Fields(Box::new(fields))))
    }
}
