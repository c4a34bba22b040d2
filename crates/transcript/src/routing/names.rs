//! Names of agents and channels in a key.
//!
//! Both are between colons, so a name that could be read as something else is refused. It is not
//! changed instead: if two names became one, they would share their sessions.

use std::fmt;

/// Maximum length of a name in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Words with another meaning in the place of a channel's name.
const RESERVED: [&str; 15] = [
    "main", "direct", "dm", "peer", "group", "channel", "room", "thread", "topic", "cron", "hook",
    "subagent", "explicit", "acp", "agent",
];

/// An agent's name: lower-case letters, digits, `-` and `_`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(String);

/// A channel's name: lower-case letters, digits, `-` and `_`, and not a reserved word.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Channel(String);

/// An error for a name that cannot be used in a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadName {
    /// `agent` or `channel`.
    what: &'static str,
    name: String,
    why: &'static str,
}

impl AgentId {
    /// Parses a name and converts it to lower case.
    pub fn parse(text: &str) -> Result<AgentId, BadName> {
        name(text, "agent").map(AgentId)
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for AgentId {
    /// Returns `main`.
    fn default() -> AgentId {
        AgentId("main".to_owned())
    }
}

impl Channel {
    /// Parses a name and converts it to lower case.
    pub fn parse(text: &str) -> Result<Channel, BadName> {
        let name = name(text, "channel")?;
        if RESERVED.contains(&name.as_str()) {
            let why = "the word is reserved in session keys";
            return Err(BadName { what: "channel", name, why });
        }
        Ok(Channel(name))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether ids on the channel are case-sensitive: Matrix's event and room ids are.
    pub(super) fn has_case(&self) -> bool {
        self.0 == "matrix"
    }
}

/// Returns whether a text is a name that can be between colons.
pub(super) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= MAX_NAME_BYTES
        && bytes.next().is_some_and(is_letter)
        && bytes.all(|byte| is_letter(byte) || matches!(byte, b'-' | b'_'))
}

fn name(text: &str, what: &'static str) -> Result<String, BadName> {
    let name = text.trim().to_ascii_lowercase();
    match is_name(&name) {
        true => Ok(name),
        false => Err(BadName { what, name: text.to_owned(), why: RULE }),
    }
}

const RULE: &str =
    "a name is up to 64 letters, digits, `-` and `_`, and begins with a letter or digit";

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` cannot be the name of {}: {}", self.name, with_article(self.what), self.why)
    }
}

impl std::error::Error for BadName {}

fn with_article(what: &str) -> String {
    let article = if what.starts_with('a') { "an" } else { "a" };
    format!("{article} {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_lower_case() {
        assert_eq!(AgentId::parse(" Work_2 ").map(|agent| agent.0), Ok("work_2".to_owned()));
        assert_eq!(Channel::parse("Telegram").map(|channel| channel.0), Ok("telegram".to_owned()));
        assert_eq!(AgentId::default().as_str(), "main");
    }

    #[test]
    fn r63_ambiguous_names_are_refused() {
        for text in ["", " ", "a:b", "..", "../main", "a b", "a/b", "-a", "é", "a\n", "\0"] {
            let trimmed = text.trim();
            assert_eq!(AgentId::parse(text).is_ok(), trimmed == "a", "{text:?}");
            assert_eq!(Channel::parse(text).is_ok(), trimmed == "a", "{text:?}");
        }
        assert!(AgentId::parse(&"a".repeat(64)).is_ok());
        assert!(AgentId::parse(&"a".repeat(65)).is_err());
        for word in RESERVED {
            assert!(Channel::parse(word).is_err(), "{word}");
        }
        let error = Channel::parse("cron").map_err(|error| error.to_string());
        let expected =
            "`cron` cannot be the name of a channel: the word is reserved in session keys";
        assert_eq!(error, Err(expected.to_owned()));
    }
}
