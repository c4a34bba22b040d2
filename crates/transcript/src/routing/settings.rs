//! The routing settings: which conversations share a session, who may speak, and when a session
//! starts over.
//!
//! [`Settings`] are the values in effect; [`FileSettings`] are the values in one file.
//! [`Settings::with`] applies one file over another, and a value in no file has its default.

use std::collections::BTreeMap;

use super::admission::{AdmissionSettings, FileAdmission};
use super::names::is_name;
use super::reset::{ResetRule, ResetType, Resets};

/// Declares an enum of setting values with their names.
macro_rules! choices {
    (
        $(#[$about:meta])*
        $name:ident { $($(#[$say:meta])* $choice:ident = $word:literal,)+ }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$say])* $choice,)+ }

        impl $name {
            /// All names, as people write them.
            pub const NAMES: &[&str] = &[$($word,)+];

            /// Parses a name.
            pub fn parse(word: &str) -> Option<$name> {
                match word { $($word => Some($name::$choice),)+ _ => None }
            }

            /// Returns its name.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$choice => $word,)+ }
            }
        }
    };
}
pub(super) use choices;

choices! {
    /// The direct conversations that share a session.
    DmScope {
        /// All of them: `agent:<id>:main`.
        Main = "main",
        /// Those of one person on one channel: `agent:<id>:<channel>:dm:<peer>`.
        Channel = "channel",
        /// Those of one person: `agent:<id>:peer:<peer>`.
        Peer = "peer",
        /// Those of one person on one channel: `agent:<id>:<channel>:dm:<peer>`.
        ChannelPeer = "channel-peer",
        /// As releases write it: `agent:<id>:direct:<peer>`.
        PerPeer = "per-peer",
        /// As releases write it: `agent:<id>:<channel>:direct:<peer>`.
        PerChannelPeer = "per-channel-peer",
        /// As releases write it: `agent:<id>:<channel>:<account>:direct:<peer>`.
        PerAccountChannelPeer = "per-account-channel-peer",
    }
}

choices! {
    /// The group conversations that share a session.
    GroupScope {
        /// None: each group has its own session.
        PerGroup = "per-group",
        /// All of them, and the main session.
        Main = "main",
    }
}

choices! {
    /// The method of compaction.
    CompactionMode {
        /// In one go.
        Default = "default",
        /// In pieces, for long histories.
        Safeguard = "safeguard",
    }
}

/// The settings in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The name of the main session.
    pub main_key: String,
    /// The direct conversations that share a session.
    pub dm_scope: DmScope,
    /// The group conversations that share a session.
    pub group_scope: GroupScope,
    /// The ids of each person, by the person's name: `telegram:821071206`, or an id alone for any
    /// channel.
    pub identity_links: BTreeMap<String, Vec<String>>,
    /// The rules for starting a session over.
    pub resets: Resets,
    /// The rules for who may speak.
    pub admission: AdmissionSettings,
    /// The rules for compaction.
    pub compaction: Compaction,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            main_key: "main".to_owned(),
            dm_scope: DmScope::Main,
            group_scope: GroupScope::PerGroup,
            identity_links: BTreeMap::new(),
            resets: Resets::default(),
            admission: AdmissionSettings::default(),
            compaction: Compaction::default(),
        }
    }
}

/// The settings in one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileSettings {
    /// The name of the main session.
    pub main_key: Option<String>,
    /// The direct conversations that share a session.
    pub dm_scope: Option<DmScope>,
    /// The group conversations that share a session.
    pub group_scope: Option<GroupScope>,
    /// The ids of each person.
    pub identity_links: Option<BTreeMap<String, Vec<String>>>,
    /// The rule for starting a session over.
    pub reset: ResetRule,
    /// The rules for kinds of conversations.
    pub reset_by_type: BTreeMap<ResetType, ResetRule>,
    /// The rules for channels.
    pub reset_by_channel: BTreeMap<String, ResetRule>,
    /// The rules for who may speak.
    pub admission: FileAdmission,
    /// The rules for compaction.
    pub compaction: Compaction,
}

impl Settings {
    /// Returns the settings with those of a file applied over them.
    #[must_use]
    pub fn with(mut self, from_file: FileSettings) -> Settings {
        if let Some(main_key) = from_file.main_key {
            self.main_key = main_key;
        }
        self.dm_scope = from_file.dm_scope.unwrap_or(self.dm_scope);
        self.group_scope = from_file.group_scope.unwrap_or(self.group_scope);
        if let Some(identity_links) = from_file.identity_links {
            self.identity_links = identity_links;
        }
        self.resets.base = from_file.reset.over(self.resets.base);
        for (kind, rule) in from_file.reset_by_type {
            let below = self.resets.by_type.remove(&kind).unwrap_or_default();
            self.resets.by_type.insert(kind, rule.over(below));
        }
        for (channel, rule) in from_file.reset_by_channel {
            let below = self.resets.by_channel.remove(&channel).unwrap_or_default();
            self.resets.by_channel.insert(channel, rule.over(below));
        }
        self.admission = self.admission.with(from_file.admission);
        self.compaction = from_file.compaction.over(self.compaction);
        self
    }
}

/// Parses the name of the main session: one word, because a key with colons is of another kind.
pub fn main_key(text: &str) -> Option<String> {
    let name = match text.trim() {
        "" => "main".to_owned(),
        name => name.to_lowercase(),
    };
    is_name(&name).then_some(name)
}

/// The rules for compaction; each may be absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compaction {
    /// The method.
    pub mode: Option<CompactionMode>,
    /// Tokens of the context window that are kept free.
    pub reserve_tokens: Option<u64>,
    /// The lower limit of `reserve_tokens`.
    pub reserve_tokens_floor: Option<u64>,
    /// Tokens of the most recent messages that are not compacted.
    pub keep_recent_tokens: Option<u64>,
    /// True if the agent is asked to save its notes before a compaction.
    pub memory_flush: Option<bool>,
    /// The distance to a compaction, in tokens, at which the agent is asked.
    pub memory_flush_soft_threshold_tokens: Option<u64>,
    /// The prompt that asks the agent.
    pub memory_flush_prompt: Option<String>,
}

impl Compaction {
    /// Returns these rules, with absent values from `below`.
    fn over(self, below: Compaction) -> Compaction {
        Compaction {
            mode: self.mode.or(below.mode),
            reserve_tokens: self.reserve_tokens.or(below.reserve_tokens),
            reserve_tokens_floor: self.reserve_tokens_floor.or(below.reserve_tokens_floor),
            keep_recent_tokens: self.keep_recent_tokens.or(below.keep_recent_tokens),
            memory_flush: self.memory_flush.or(below.memory_flush),
            memory_flush_soft_threshold_tokens: self
                .memory_flush_soft_threshold_tokens
                .or(below.memory_flush_soft_threshold_tokens),
            memory_flush_prompt: self.memory_flush_prompt.or(below.memory_flush_prompt),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_parsed_from_its_name() {
        for name in DmScope::NAMES {
            assert_eq!(DmScope::parse(name).map(DmScope::as_str), Some(*name));
        }
        assert_eq!(DmScope::parse("Main"), None);
    }

    #[test]
    fn a_later_file_wins_and_other_values_stay() {
        let below = FileSettings {
            dm_scope: Some(DmScope::PerPeer),
            group_scope: Some(GroupScope::Main),
            ..FileSettings::default()
        };
        let above = FileSettings { dm_scope: Some(DmScope::Peer), ..FileSettings::default() };
        let settings = Settings::default().with(below).with(above);
        assert_eq!((settings.dm_scope, settings.group_scope), (DmScope::Peer, GroupScope::Main));
        assert_eq!(settings.main_key, "main");
    }

    #[test]
    fn main_keys_are_one_word() {
        assert_eq!(main_key(" Home "), Some("home".to_owned()));
        assert_eq!(main_key(""), Some("main".to_owned()));
        assert_eq!(main_key("telegram:dm:1"), None);
        assert_eq!(main_key("a b"), None);
    }
}
