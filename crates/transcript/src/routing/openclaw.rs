//! Reads the session settings in an `openclaw.json`.
//!
//! That file also holds tokens. Only `session`, `agents.defaults.session` and
//! `agents.defaults.compaction` are read; nothing else is kept, and no error message quotes it.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::reset::{ResetMode, ResetRule, ResetType};
use super::settings::{Compaction, CompactionMode, DmScope, FileSettings, GroupScope, main_key};
use crate::formats::openclaw::nests_too_deeply;

/// The reason why the file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigError {
    /// The file is not valid JSON5.
    Syntax {
        /// Line and column, from 1 on.
        at: Option<(usize, usize)>,
    },
    /// A setting has a wrong value.
    Value {
        /// The setting: `session.dmScope`.
        key: String,
        /// The accepted values.
        wanted: String,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Syntax { at: Some((line, column)) } => {
                write!(f, "line {line}, column {column} is not JSON5")
            }
            ConfigError::Syntax { at: None } => {
                f.write_str("it is not JSON5, or has something else where a table should be")
            }
            ConfigError::Value { key, wanted } => write!(f, "`{key}` must be {wanted}"),
        }
    }
}

impl std::error::Error for ConfigError {}

/// The tables that are read. All others are skipped.
#[derive(Deserialize)]
struct Root {
    session: Option<Value>,
    agents: Option<Agents>,
}

#[derive(Deserialize)]
struct Agents {
    defaults: Option<Defaults>,
}

#[derive(Deserialize)]
struct Defaults {
    session: Option<Value>,
    compaction: Option<Value>,
}

/// Reads the settings. If a setting is in both places, the one in `session` wins, because releases
/// write it there.
pub fn read(text: &str) -> Result<FileSettings, ConfigError> {
    if nests_too_deeply(text) {
        return Err(ConfigError::Syntax { at: None });
    }
    // The parser's own message may quote the file.
    let root: Root =
        json5::from_str(text).map_err(|error| ConfigError::Syntax { at: place(text, &error) })?;
    let defaults = root.agents.and_then(|agents| agents.defaults);
    let (inner, compaction) = match defaults {
        Some(defaults) => (defaults.session, defaults.compaction),
        None => (None, None),
    };
    let mut from_file = FileSettings::default();
    if let Some(value) = &inner {
        session(&Reader::of("agents.defaults.session", value)?, &mut from_file)?;
    }
    if let Some(value) = &root.session {
        session(&Reader::of("session", value)?, &mut from_file)?;
    }
    if let Some(value) = &compaction {
        from_file.compaction = compaction_of(&Reader::of("agents.defaults.compaction", value)?)?;
    }
    Ok(from_file)
}

/// Returns the position of a syntax error; `None` if the JSON5 is valid and its shape is wrong.
fn place(text: &str, error: &json5::Error) -> Option<(usize, usize)> {
    use json5::ErrorCode as Code;
    let ends_early = matches!(
        error.code()?,
        Code::EofParsingArray
            | Code::EofParsingComment
            | Code::EofParsingObject
            | Code::EofParsingString
            | Code::EofParsingValue
    );
    if ends_early {
        let last = text.lines().last().unwrap_or_default();
        return Some((text.lines().count().max(1), last.chars().count() + 1));
    }
    error.position().map(|at| (at.line + 1, at.column + 1))
}

fn session(reader: &Reader<'_>, from_file: &mut FileSettings) -> Result<(), ConfigError> {
    if let Some(scope) = reader.text("scope")?
        && scope != "per-sender"
    {
        let wanted = "`per-sender`: sessions of agents are kept apart, so there is no `global` one";
        return Err(reader.wrong("scope", wanted));
    }
    if let Some(name) = reader.text("mainKey")? {
        let name = main_key(name).ok_or_else(|| reader.wrong("mainKey", "one word"))?;
        from_file.main_key = Some(name);
    }
    from_file.dm_scope =
        reader.choice("dmScope", DmScope::NAMES, DmScope::parse)?.or(from_file.dm_scope);
    from_file.group_scope = reader
        .choice("groupScope", GroupScope::NAMES, GroupScope::parse)?
        .or(from_file.group_scope);
    if let Some(links) = reader.table("identityLinks")? {
        from_file.identity_links = Some(links_of(&links)?);
    }
    resets(reader, from_file)
}

fn resets(reader: &Reader<'_>, from_file: &mut FileSettings) -> Result<(), ConfigError> {
    let legacy = reader.minutes("idleMinutes")?;
    let base = reader.table("reset")?.map(|reset| rule(&reset)).transpose()?;
    let by_type = reader.table("resetByType")?;
    let has_rules = base.is_some() || by_type.is_some();
    if let Some(base) = base {
        from_file.reset = base.over(from_file.reset);
    }
    if let Some(minutes) = legacy {
        from_file.reset.idle_minutes = from_file.reset.idle_minutes.or(Some(minutes));
        if !has_rules {
            from_file.reset.mode = Some(ResetMode::Idle);
        }
    }
    if let Some(by_type) = by_type {
        for name in by_type.names() {
            // Older releases write `dm`.
            let known = ResetType::parse(if name == "dm" { "direct" } else { name });
            let (Some(kind), Some(reset)) = (known, by_type.table(name)?) else { continue };
            if name == "dm" && by_type.table("direct")?.is_some() {
                continue;
            }
            from_file.reset_by_type.insert(kind, rule(&reset)?);
        }
    }
    if let Some(by_channel) = reader.table("resetByChannel")? {
        for name in by_channel.names() {
            if let Some(reset) = by_channel.table(name)? {
                from_file.reset_by_channel.insert(name.trim().to_lowercase(), rule(&reset)?);
            }
        }
    }
    Ok(())
}

fn rule(reader: &Reader<'_>) -> Result<ResetRule, ConfigError> {
    // Development versions wrote `manual` for `none`.
    let parse = |word: &str| ResetMode::parse(if word == "manual" { "none" } else { word });
    let hour = match reader.number("atHour")? {
        None => None,
        Some(hour @ 0..=23) => i8::try_from(hour).ok(),
        Some(_) => return Err(reader.wrong("atHour", "an hour from 0 to 23")),
    };
    Ok(ResetRule {
        mode: reader.choice("mode", ResetMode::NAMES, parse)?,
        hour,
        idle_minutes: reader.minutes("idleMinutes")?,
    })
}

fn links_of(reader: &Reader<'_>) -> Result<BTreeMap<String, Vec<String>>, ConfigError> {
    let mut links = BTreeMap::new();
    for (name, value) in reader.fields {
        let ids = value.as_array().and_then(|ids| {
            ids.iter().map(|id| id.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>()
        });
        let ids = ids.ok_or_else(|| reader.wrong(name, "a list of ids"))?;
        links.insert(name.clone(), ids);
    }
    Ok(links)
}

fn compaction_of(reader: &Reader<'_>) -> Result<Compaction, ConfigError> {
    let mut compaction = Compaction {
        mode: reader.choice("mode", CompactionMode::NAMES, CompactionMode::parse)?,
        reserve_tokens: reader.number("reserveTokens")?,
        reserve_tokens_floor: reader.number("reserveTokensFloor")?,
        keep_recent_tokens: reader.number("keepRecentTokens")?,
        ..Compaction::default()
    };
    if let Some(flush) = reader.table("memoryFlush")? {
        compaction.memory_flush = flush.flag("enabled")?;
        compaction.memory_flush_soft_threshold_tokens = flush.number("softThresholdTokens")?;
        compaction.memory_flush_prompt = flush.text("prompt")?.map(str::to_owned);
    }
    Ok(compaction)
}

/// A table and its path in the file.
struct Reader<'a> {
    place: String,
    fields: &'a Map<String, Value>,
}

impl<'a> Reader<'a> {
    fn of(place: &str, value: &'a Value) -> Result<Reader<'a>, ConfigError> {
        let wrong = || ConfigError::Value { key: place.to_owned(), wanted: "a table".to_owned() };
        let fields = value.as_object().ok_or_else(wrong)?;
        Ok(Reader { place: place.to_owned(), fields })
    }

    fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.fields.keys().map(String::as_str)
    }

    /// Returns the value of a field; `null` counts as absent.
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    fn wrong(&self, name: &str, wanted: impl Into<String>) -> ConfigError {
        ConfigError::Value { key: format!("{}.{name}", self.place), wanted: wanted.into() }
    }

    fn table(&self, name: &str) -> Result<Option<Reader<'a>>, ConfigError> {
        let place = format!("{}.{name}", self.place);
        self.get(name).map(|value| Reader::of(&place, value)).transpose()
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>, ConfigError> {
        let text = |value: &'a Value| value.as_str().ok_or_else(|| self.wrong(name, "text"));
        self.get(name).map(text).transpose()
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, ConfigError> {
        let flag = |value: &Value| value.as_bool().ok_or_else(|| self.wrong(name, "true or false"));
        self.get(name).map(flag).transpose()
    }

    /// Returns a whole number; decimals are cut off, as in releases.
    fn number(&self, name: &str) -> Result<Option<u64>, ConfigError> {
        let number = |value: &Value| {
            let whole = value.as_f64().filter(|number| (0.0..=MAX_NUMBER).contains(number));
            whole.map(|number| number as u64).ok_or_else(|| self.wrong(name, "a number"))
        };
        self.get(name).map(number).transpose()
    }

    fn minutes(&self, name: &str) -> Result<Option<u32>, ConfigError> {
        let minutes = self.number(name)?;
        Ok(minutes.map(|minutes| u32::try_from(minutes).unwrap_or(u32::MAX).max(1)))
    }

    fn choice<T>(
        &self,
        name: &str,
        names: &[&str],
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(word) = self.text(name)? else { return Ok(None) };
        let choices = || format!("one of {}", names.join(", "));
        parse(word).map(Some).ok_or_else(|| self.wrong(name, choices()))
    }
}

/// Maximum number of tokens or minutes.
const MAX_NUMBER: f64 = 1e12;

#[cfg(test)]
mod tests {
    use super::*;

    const CANARY: &str = "sk-canary-8842";

    #[test]
    fn r62_all_session_settings_are_read() {
        let from_file = read(
            r#"{
              // A comment, and a trailing comma.
              session: {
                scope: 'per-sender', mainKey: "Home", dmScope: "per-channel-peer", groupScope: "main",
                identityLinks: { alice: ["telegram:1", "discord:2"] },
                reset: { mode: "daily", atHour: 5, idleMinutes: 90.7 },
                resetByType: { dm: { mode: "idle" }, group: { mode: "none" } },
                resetByChannel: { Discord: { mode: "idle", idleMinutes: 5 } },
                sendPolicy: { default: "allow" },
              },
              agents: { defaults: { compaction: {
                mode: "safeguard", reserveTokensFloor: 24000,
                memoryFlush: { enabled: true, softThresholdTokens: 6000, prompt: "write" },
              } } },
            }"#,
        )
        .unwrap();
        assert_eq!(from_file.main_key.as_deref(), Some("home"));
        assert_eq!(from_file.dm_scope, Some(DmScope::PerChannelPeer));
        assert_eq!(from_file.group_scope, Some(GroupScope::Main));
        assert_eq!(from_file.identity_links.unwrap()["alice"], ["telegram:1", "discord:2"]);
        let rule = |mode, hour, idle_minutes| ResetRule { mode: Some(mode), hour, idle_minutes };
        assert_eq!(from_file.reset, rule(ResetMode::Daily, Some(5), Some(90)));
        assert_eq!(from_file.reset_by_type[&ResetType::Direct], rule(ResetMode::Idle, None, None));
        assert_eq!(from_file.reset_by_type[&ResetType::Group], rule(ResetMode::None, None, None));
        assert_eq!(from_file.reset_by_channel["discord"], rule(ResetMode::Idle, None, Some(5)));
        let compaction = from_file.compaction;
        assert_eq!(compaction.mode, Some(CompactionMode::Safeguard));
        assert_eq!(compaction.reserve_tokens_floor, Some(24000));
        assert_eq!(compaction.memory_flush, Some(true));
        assert_eq!(compaction.memory_flush_soft_threshold_tokens, Some(6000));
        assert_eq!(compaction.memory_flush_prompt.as_deref(), Some("write"));
    }

    #[test]
    fn r62_settings_are_read_from_both_places() {
        let inner = "agents: { defaults: { session: { dmScope: 'channel-peer', mainKey: 'a' } } }";
        let from_file = read(&format!("{{ {inner} }}")).unwrap();
        assert_eq!(from_file.dm_scope, Some(DmScope::ChannelPeer));
        let from_file = read(&format!("{{ session: {{ dmScope: 'peer' }}, {inner} }}")).unwrap();
        assert_eq!(
            (from_file.dm_scope, from_file.main_key.as_deref()),
            (Some(DmScope::Peer), Some("a"))
        );
        assert_eq!(read("{}"), Ok(FileSettings::default()));
        assert_eq!(read("{ session: null, agents: null }"), Ok(FileSettings::default()));
    }

    #[test]
    fn r62_nothing_else_is_kept() {
        let text = format!(
            r#"{{
              auth: {{ token: "{CANARY}" }}, channels: {{ telegram: {{ botToken: "{CANARY}" }} }},
              env: "{CANARY}", gateway: ["{CANARY}"], "{CANARY}": 1,
              session: {{ dmScope: "peer", store: "{CANARY}", agentToAgent: {{ key: "{CANARY}" }} }},
              agents: {{ list: ["{CANARY}"], "{CANARY}": 1, defaults: {{
                model: "{CANARY}", memorySearch: {{ remote: {{ apiKey: "{CANARY}" }} }},
                session: {{ dmScope: "peer", other: "{CANARY}" }},
                compaction: {{ mode: "default", other: "{CANARY}" }},
              }} }},
            }}"#
        );
        let from_file = read(&text).unwrap();
        assert_eq!(from_file.dm_scope, Some(DmScope::Peer));
        assert!(!format!("{from_file:?}").contains("canary"));
    }

    #[test]
    fn r62_mistakes_are_named_and_never_quoted() {
        for (text, message) in [
            ("{ session: ", "line 1, column 12 is not JSON5"),
            ("", "line 1, column 1 is not JSON5"),
            ("{ session: 1 }", "`session` must be a table"),
            (
                "{ session: { dmScope: 'sk-canary-8842' } }",
                "`session.dmScope` must be one of main, channel, peer, channel-peer, per-peer, \
                 per-channel-peer, per-account-channel-peer",
            ),
            (
                "{ agents: { defaults: { session: { dmScope: 1 } } } }",
                "`agents.defaults.session.dmScope` must be text",
            ),
            ("{ session: { mainKey: 'a:b' } }", "`session.mainKey` must be one word"),
            (
                "{ session: { scope: 'global' } }",
                "`session.scope` must be `per-sender`: sessions of agents are kept apart, so there \
                 is no `global` one",
            ),
            (
                "{ session: { reset: { atHour: 24 } } }",
                "`session.reset.atHour` must be an hour from 0 to 23",
            ),
            (
                "{ session: { reset: { mode: 'weekly' } } }",
                "`session.reset.mode` must be one of none, daily, idle",
            ),
            (
                "{ session: { identityLinks: { a: 'b' } } }",
                "`session.identityLinks.a` must be a list of ids",
            ),
            (
                "{ agents: { defaults: { compaction: { reserveTokens: -1 } } } }",
                "`agents.defaults.compaction.reserveTokens` must be a number",
            ),
        ] {
            assert_eq!(
                read(text).map_err(|error| error.to_string()),
                Err(message.to_owned()),
                "{text}"
            );
        }
        // The parser's own message would quote the secret.
        for text in [
            "{ agents: 'sk-canary-8842' }",
            "{ agents: { defaults: ['sk-canary-8842'] } }",
            "'sk-canary-8842'",
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(!error.contains("canary"), "{error}");
        }
        assert!(read(&"[".repeat(100_000)).is_err());
        assert!(
            read(&format!("{{ a: {}1{} }}", "[".repeat(100_000), "]".repeat(100_000))).is_err()
        );
    }

    #[test]
    fn r62_idle_minutes_of_older_releases_are_read() {
        let from_file = read("{ session: { idleMinutes: 30 } }").unwrap();
        assert_eq!(
            (from_file.reset.mode, from_file.reset.idle_minutes),
            (Some(ResetMode::Idle), Some(30))
        );
        let from_file = read("{ session: { idleMinutes: 30, reset: { mode: 'daily' } } }").unwrap();
        assert_eq!(
            (from_file.reset.mode, from_file.reset.idle_minutes),
            (Some(ResetMode::Daily), Some(30))
        );
    }
}
