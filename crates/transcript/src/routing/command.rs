//! Chat commands: messages for the store and not for the model.

use super::inbound::Inbound;
use super::names::AgentId;
use super::settings::{DmScope, Settings};
use crate::key::SessionKey;

/// A chat command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `/new`: starts a new session under the same key; the text after it is its first message.
    New {
        /// The text after the command, if there is any.
        message: Option<String>,
    },
    /// `/reset`: empties the conversation of the same session; the text after it is its first
    /// message.
    Reset {
        /// The text after the command, if there is any.
        message: Option<String>,
    },
    /// `/sessions`: lists the sessions.
    Sessions,
    /// `/session KEY`: switches to another session.
    Session {
        /// The key; `None` if it is missing, and then the command fails.
        key: Option<String>,
    },
}

impl Command {
    /// Parses a command. Returns `None` for an ordinary message.
    pub fn parse(text: &str) -> Option<Command> {
        let text = text.trim();
        let (word, rest) = match text.split_once(char::is_whitespace) {
            Some((word, rest)) => (word, rest.trim()),
            None => (text, ""),
        };
        let rest = (!rest.is_empty()).then(|| rest.to_owned());
        // In Telegram groups, a command names its bot.
        let word = match word.split_once('@') {
            Some((command, bot)) if is_name(bot) => command,
            _ => word,
        };
        match word.to_ascii_lowercase().as_str() {
            "/new" => Some(Command::New { message: rest }),
            "/reset" => Some(Command::Reset { message: rest }),
            // With text after it, it is an ordinary message.
            "/sessions" if rest.is_none() => Some(Command::Sessions),
            "/session" => Some(Command::Session { key: rest }),
            _ => None,
        }
    }

    /// Returns whether the sender may run the command. Only an owner may list or switch sessions
    /// where that shows or changes other people's conversations: in a group, and where every person
    /// has their own session.
    pub fn is_allowed(&self, settings: &Settings, inbound: &Inbound) -> bool {
        match self {
            Command::New { .. } | Command::Reset { .. } => true,
            Command::Sessions | Command::Session { .. } => {
                let is_shared = !inbound.is_group() && settings.dm_scope == DmScope::Main;
                is_shared || settings.admission.is_owner(inbound)
            }
        }
    }
}

/// Returns whether the text can be the name of a bot.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Returns the key that the text after `/session` means: a whole key of this agent, or the part
/// after the agent. `None` for keys of other agents.
pub fn switch_target(agent: &AgentId, text: &str) -> Option<SessionKey> {
    let text = text.trim();
    let is_whole = text.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("agent:"));
    let key = match is_whole {
        true => SessionKey::parse(format!("agent:{}", text.get(6..)?)),
        false if text.is_empty() => return None,
        false => SessionKey::parse(format!("agent:{agent}:{text}")),
    };
    let is_own = key.agent().is_some_and(|owner| owner.eq_ignore_ascii_case(agent.as_str()));
    if !is_own || key.rest().is_empty() || text.chars().any(char::is_control) {
        return None;
    }
    Some(SessionKey::parse(format!("agent:{agent}:{}", key.rest())))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::inbound::Chat;
    use super::super::names::Channel;
    use super::*;

    #[track_caller]
    fn check(text: &str, command: Option<Command>) {
        assert_eq!(Command::parse(text), command, "{text:?}");
    }

    #[test]
    fn r72_every_command_is_parsed() {
        let some = |text: &str| Some(text.to_owned());
        check("/new", Some(Command::New { message: None }));
        check(" /NEW  hello\nthere ", Some(Command::New { message: some("hello\nthere") }));
        check("/reset", Some(Command::Reset { message: None }));
        check("/reset\nand now", Some(Command::Reset { message: some("and now") }));
        check("/sessions", Some(Command::Sessions));
        check("/session agent:main:main", Some(Command::Session { key: some("agent:main:main") }));
        check("/session", Some(Command::Session { key: None }));
        check("/new@quipu_bot", Some(Command::New { message: None }));
        check("/Reset@Quipu_Bot now", Some(Command::Reset { message: some("now") }));
        check("/sessions@quipu_bot", Some(Command::Sessions));
        check("/session@quipu_bot main", Some(Command::Session { key: some("main") }));
        for text in ["/new@", "/new@a@b", "/new@a.b", "@quipu_bot /new", "/newer@quipu_bot"] {
            check(text, None);
        }
        for text in ["", "new", "/newsletter", "/sessions are good", "say /new", "/resets", "//new"]
        {
            check(text, None);
        }
    }

    #[test]
    fn r72_session_never_leaves_the_agent() {
        let main = AgentId::default();
        let target = |text: &str| switch_target(&main, text).map(|key| key.to_string());
        assert_eq!(target("agent:main:telegram:dm:1"), Some("agent:main:telegram:dm:1".to_owned()));
        assert_eq!(target("Agent:MAIN:main"), Some("agent:main:main".to_owned()));
        assert_eq!(target(" telegram:dm:1 "), Some("agent:main:telegram:dm:1".to_owned()));
        for text in [
            "agent:work:main",
            "AGENT:work:main",
            "agent:",
            "agent::main",
            "agent:main",
            "agent:main:",
            "",
            "a\nb",
        ] {
            assert_eq!(target(text), None, "{text:?}");
        }
    }

    #[test]
    fn r72_in_a_group_only_the_owner_lists_or_switches() {
        let mut settings = Settings::default();
        let telegram = Channel::parse("telegram").unwrap();
        settings.admission.owners.insert((telegram.clone(), "1".to_owned()));
        let from = |chat, sender: &str| Inbound {
            agent: AgentId::default(),
            channel: telegram.clone(),
            account: None,
            chat,
            peer: "-100".to_owned(),
            sender: sender.to_owned(),
            thread: None,
            text: String::new(),
        };
        let list = [Command::Sessions, Command::Session { key: None }];
        let start = [Command::New { message: None }, Command::Reset { message: None }];
        for command in &list {
            assert!(command.is_allowed(&settings, &from(Chat::Group, "1")));
            assert!(!command.is_allowed(&settings, &from(Chat::Group, "2")));
            assert!(!command.is_allowed(&settings, &from(Chat::Group, "")));
            assert!(command.is_allowed(&settings, &from(Chat::Direct, "2")));
            // A person with their own session does not see those of other people.
            let apart = Settings { dm_scope: DmScope::PerPeer, ..settings.clone() };
            assert!(!command.is_allowed(&apart, &from(Chat::Direct, "2")));
            assert!(command.is_allowed(&apart, &from(Chat::Direct, "1")));
        }
        for command in &start {
            assert!(command.is_allowed(&settings, &from(Chat::Channel, "2")));
        }
    }

    proptest! {
        #[test]
        fn r63_a_switch_stays_with_the_agent(agent in "[a-z]{1,3}", text in "(agent:|AGENT:)?[a-z:.%/ ]{0,12}") {
            let agent = AgentId::parse(&agent).unwrap();
            if let Some(key) = switch_target(&agent, &text) {
                prop_assert_eq!(key.agent(), Some(agent.as_str()));
            }
        }
    }
}
