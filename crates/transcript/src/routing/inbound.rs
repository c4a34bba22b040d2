//! A message that comes in: what it says about where it comes from.

use super::names::{AgentId, Channel};

/// A message for an agent. Ids are as the channel writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inbound {
    /// Whom it is for.
    pub agent: AgentId,
    /// What it comes through.
    pub channel: Channel,
    /// Which of the agent's accounts there it came to.
    pub account: Option<String>,
    /// What kind of conversation it stands in.
    pub chat: Chat,
    /// The conversation: the other person of a direct one, or the group, channel or room.
    pub peer: String,
    /// Who wrote it; empty in a direct conversation means the peer.
    pub sender: String,
    /// The part of the conversation that it stands in.
    pub thread: Option<Thread>,
    /// What it says.
    pub text: String,
}

impl Inbound {
    /// Who wrote it. In a group nobody but the message itself can say.
    pub fn sender(&self) -> &str {
        match self.sender.trim() {
            "" if self.chat == Chat::Direct => self.peer.trim(),
            sender => sender,
        }
    }

    /// Whether several people may be listening.
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
    /// All of them, by the names that keys and people use.
    pub const NAMES: &[(&str, Chat)] = &[
        ("direct", Chat::Direct),
        ("group", Chat::Group),
        ("channel", Chat::Channel),
        ("room", Chat::Room),
    ];

    /// Reads a name; `dm` is `direct`.
    pub fn parse(name: &str) -> Option<Chat> {
        let name = if name == "dm" { "direct" } else { name };
        Chat::NAMES.iter().find(|(known, _)| *known == name).map(|(_, chat)| *chat)
    }

    /// Its name in keys.
    pub fn as_str(self) -> &'static str {
        match self {
            Chat::Direct => "direct",
            Chat::Group => "group",
            Chat::Channel => "channel",
            Chat::Room => "room",
        }
    }
}

/// A part of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Thread {
    /// Telegram's forums have topics.
    Topic(String),
    /// Everybody else has threads.
    Thread(String),
}

impl Thread {
    /// Its id there.
    pub fn id(&self) -> &str {
        match self {
            Thread::Topic(id) | Thread::Thread(id) => id,
        }
    }

    /// The word before its id in a key.
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
    fn kinds_have_names() {
        for (name, chat) in Chat::NAMES {
            assert_eq!((Chat::parse(name), chat.as_str()), (Some(*chat), *name));
        }
        assert_eq!(Chat::parse("dm"), Some(Chat::Direct));
        assert_eq!(Chat::parse("Direct"), None);
    }
}
