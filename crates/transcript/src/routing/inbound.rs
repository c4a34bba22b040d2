//! An inbound message and its origin.

use super::names::{AgentId, Channel};

/// A message for an agent. Ids are as the channel writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inbound {
    /// The agent that it is addressed to.
    pub agent: AgentId,
    /// The channel.
    pub channel: Channel,
    /// The agent's account on the channel.
    pub account: Option<String>,
    /// The kind of conversation.
    pub chat: Chat,
    /// The conversation: the other person of a direct one, or the group, channel or room.
    pub peer: String,
    /// The author; if empty in a direct conversation, the peer.
    pub sender: String,
    /// The thread or topic.
    pub thread: Option<Thread>,
    /// The text.
    pub text: String,
}

impl Inbound {
    /// Returns the author. In a group, only the message itself names the author.
    pub fn sender(&self) -> &str {
        match self.sender.trim() {
            "" if self.chat == Chat::Direct => self.peer.trim(),
            sender => sender,
        }
    }

    /// Returns whether several people may read the conversation.
    pub fn is_group(&self) -> bool {
        self.chat != Chat::Direct
    }
}

/// A kind of conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Chat {
    /// With one person.
    Direct,
    /// A group of people.
    Group,
    /// A channel of a server or workspace.
    Channel,
    /// A room; older keys have it.
    Room,
}

impl Chat {
    /// All kinds, with the names in keys and in settings.
    pub const NAMES: &[(&str, Chat)] = &[
        ("direct", Chat::Direct),
        ("group", Chat::Group),
        ("channel", Chat::Channel),
        ("room", Chat::Room),
    ];

    /// Parses a name; `dm` is `direct`.
    pub fn parse(name: &str) -> Option<Chat> {
        let name = if name == "dm" { "direct" } else { name };
        Chat::NAMES.iter().find(|(known, _)| *known == name).map(|(_, chat)| *chat)
    }

    /// Returns its name in keys.
    pub fn as_str(self) -> &'static str {
        match self {
            Chat::Direct => "direct",
            Chat::Group => "group",
            Chat::Channel => "channel",
            Chat::Room => "room",
        }
    }
}

/// A thread or topic of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Thread {
    /// A topic of a Telegram forum.
    Topic(String),
    /// A thread on any other channel.
    Thread(String),
}

impl Thread {
    /// Returns its id on the channel.
    pub fn id(&self) -> &str {
        match self {
            Thread::Topic(id) | Thread::Thread(id) => id,
        }
    }

    /// Returns the word before its id in a key.
    pub(super) fn mark(&self) -> &'static str {
        match self {
            Thread::Topic(_) => "topic",
            Thread::Thread(_) => "thread",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_parsed_from_its_name() {
        for (name, chat) in Chat::NAMES {
            assert_eq!((Chat::parse(name), chat.as_str()), (Some(*chat), *name));
        }
        assert_eq!(Chat::parse("dm"), Some(Chat::Direct));
        assert_eq!(Chat::parse("Direct"), None);
    }
}
