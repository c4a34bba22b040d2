//! `[store]`: which messages belong to one session, when a session is reset or compacted, and who
//! may write to it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use quipu_transcript::routing::Channel;
use quipu_transcript::routing::admission::{
    DirectPolicy, FileAdmission, FilePolicies, GroupPolicy, sender_id,
};
use quipu_transcript::routing::reset::{ResetMode, ResetRule, ResetType};
use quipu_transcript::routing::settings::{
    Compaction, CompactionMode, DmScope, FileSettings, GroupScope, main_key,
};
use toml::{Table, Value};

use super::{UnknownKey, nearest, string, wrong_type};
use crate::error::{CommandError, Result};
use crate::summarisers::KINDS;

/// The contents of the table.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// `openclaw_config`, as written.
    pub(crate) openclaw_config: Option<PathBuf>,
    /// The summariser of compactions.
    pub(crate) summariser: SummariserConfig,
    /// The workspaces of agents, as written.
    pub(crate) workspaces: BTreeMap<String, PathBuf>,
    /// All other settings.
    pub(crate) file_settings: FileSettings,
}

/// The settings of the summariser.
#[derive(Debug, Clone, Default)]
pub(crate) struct SummariserConfig {
    /// Its kind: one of [`KINDS`].
    pub(crate) kind: Option<&'static str>,
    /// The program of the kind `command`, and its arguments.
    pub(crate) command: Vec<String>,
    /// The time limit of an answer, in seconds.
    pub(crate) timeout_seconds: Option<u64>,
    /// The address of the model.
    pub(crate) url: Option<String>,
    /// The name of the model.
    pub(crate) model: Option<String>,
    /// The environment variable that holds the key for the address.
    pub(crate) key_env: Option<String>,
    /// True if secrets are masked in what leaves quipu; the default.
    pub(crate) redact: Option<bool>,
}

/// Keys of the table.
const KEYS: [&str; 9] = [
    "openclaw_config",
    "main_key",
    "dm_scope",
    "group_scope",
    "identity_links",
    "reset",
    "admission",
    "compaction",
    "workspaces",
];

/// Reads the table.
pub(super) fn read(value: &Value, path: &Path, unknown: &mut Vec<UnknownKey>) -> Result<Store> {
    let mut reader = Reader { path, unknown };
    let table = reader.table("store", value)?;
    let mut store = Store::default();
    let found = &mut store.file_settings;
    for (name, value) in table {
        let key = format!("store.{name}");
        match name.as_str() {
            "openclaw_config" => {
                store.openclaw_config = Some(PathBuf::from(string(value, &key, path)?));
            }
            "main_key" => {
                let name = string(value, &key, path)?;
                found.main_key = Some(main_key(name).ok_or_else(|| {
                    reader.refuse(&key, name, "use one word of letters, digits, `-` and `_`")
                })?);
            }
            "dm_scope" => {
                found.dm_scope =
                    Some(reader.choice(&key, value, DmScope::NAMES, DmScope::parse)?);
            }
            "group_scope" => {
                let names = GroupScope::NAMES;
                found.group_scope = Some(reader.choice(&key, value, names, GroupScope::parse)?);
            }
            "identity_links" => found.identity_links = Some(reader.links(&key, value)?),
            "reset" => reader.resets(&key, value, found)?,
            "admission" => found.admission = reader.admission(&key, value)?,
            "compaction" => {
                found.compaction = reader.compaction(&key, value, &mut store.summariser)?;
            }
            "workspaces" => store.workspaces = reader.workspaces(&key, value)?,
            _ => reader.unknown("store", name, &KEYS),
        }
    }
    Ok(store)
}

/// Reads parts of the table. Collects unknown keys.
struct Reader<'a> {
    path: &'a Path,
    unknown: &'a mut Vec<UnknownKey>,
}

impl Reader<'_> {
    fn table<'v>(&self, key: &str, value: &'v Value) -> Result<&'v Table> {
        value.as_table().ok_or_else(|| {
            wrong_type(key, self.path, "a table", value)
                .hint(format!("write `[{key}]` on its own line and the settings below it"))
        })
    }

    fn refuse(&self, key: &str, value: &str, hint: &str) -> CommandError {
        CommandError::new(format!("`{key}` in {} is `{value}`", self.path.display())).hint(hint)
    }

    fn unknown(&mut self, table: &str, name: &str, known: &[&str]) {
        let nearest = nearest(name, known).map(|nearest| format!("{table}.{nearest}"));
        self.unknown.push(UnknownKey { key: format!("{table}.{name}"), nearest });
    }

    fn choice<T>(
        &self,
        key: &str,
        value: &Value,
        names: &[&str],
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T> {
        let word = string(value, key, self.path)?;
        let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
        parse(word)
            .ok_or_else(|| self.refuse(key, word, &format!("use one of {}", quoted.join(", "))))
    }

    fn number(&self, key: &str, value: &Value, from: i64, to: i64, hint: &str) -> Result<i64> {
        match value {
            Value::Integer(number) if (from..=to).contains(number) => Ok(*number),
            Value::Integer(number) => Err(self.refuse(key, &number.to_string(), hint)),
            _ => Err(wrong_type(key, self.path, "a number", value).hint(hint)),
        }
    }

    fn ids(&self, key: &str, value: &Value, hint: &str) -> Result<Vec<String>> {
        self.words(key, value, "a list of ids", hint)
    }

    fn words(&self, key: &str, value: &Value, wanted: &str, hint: &str) -> Result<Vec<String>> {
        let wrong = |value: &Value| wrong_type(key, self.path, wanted, value).hint(hint);
        let Value::Array(values) = value else { return Err(wrong(value)) };
        let word = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(|| wrong(value));
        values.iter().map(word).collect()
    }

    fn channel(&self, key: &str, name: &str) -> Result<Channel> {
        Channel::parse(name).map_err(|error| {
            let what = format!("cannot use `{key}` in {}", self.path.display());
            CommandError::from_source(anyhow::Error::new(error).context(what))
        })
    }

    fn links(&self, key: &str, value: &Value) -> Result<BTreeMap<String, Vec<String>>> {
        let mut links = BTreeMap::new();
        for (name, value) in self.table(key, value)? {
            let hint = format!("write `{name} = [\"telegram:821071206\", \"discord:99\"]`");
            links.insert(name.clone(), self.ids(&format!("{key}.{name}"), value, &hint)?);
        }
        Ok(links)
    }

    fn resets(&mut self, key: &str, value: &Value, found: &mut FileSettings) -> Result<()> {
        let table = self.table(key, value)?;
        let mut base = Table::new();
        for (name, value) in table {
            let below = format!("{key}.{name}");
            if let Some(kind) = ResetType::parse(name) {
                let rule = self.rule(&below, self.table(&below, value)?)?;
                found.reset_by_type.insert(kind, rule);
            } else if name == "channels" {
                for (name, value) in self.table(&below, value)? {
                    let below = format!("{below}.{name}");
                    let channel = self.channel(&below, name)?;
                    let rule = self.rule(&below, self.table(&below, value)?)?;
                    found.reset_by_channel.insert(channel.to_string(), rule);
                }
            } else {
                base.insert(name.clone(), value.clone());
            }
        }
        found.reset = self.rule(key, &base)?;
        Ok(())
    }

    fn rule(&mut self, key: &str, table: &Table) -> Result<ResetRule> {
        let mut rule = ResetRule::default();
        for (name, value) in table {
            let below = format!("{key}.{name}");
            match name.as_str() {
                "mode" => {
                    let names = ResetMode::NAMES;
                    rule.mode = Some(self.choice(&below, value, names, ResetMode::parse)?);
                }
                "hour" => {
                    let hour = self.number(&below, value, 0, 23, "use an hour from 0 to 23")?;
                    rule.hour = i8::try_from(hour).ok();
                }
                "idle_minutes" => {
                    let hint = "use a number of minutes, at least 1";
                    let minutes = self.number(&below, value, 1, i64::from(u32::MAX), hint)?;
                    rule.idle_minutes = u32::try_from(minutes).ok();
                }
                _ => self.unknown(
                    key,
                    name,
                    &["mode", "hour", "idle_minutes", "direct", "group", "thread", "channels"],
                ),
            }
        }
        Ok(rule)
    }

    fn compaction(
        &mut self,
        key: &str,
        value: &Value,
        summariser: &mut SummariserConfig,
    ) -> Result<Compaction> {
        const KEYS: [&str; 12] = [
            "mode",
            "reserve_tokens",
            "reserve_tokens_floor",
            "keep_recent_tokens",
            "summariser",
            "command",
            "timeout_seconds",
            "url",
            "model",
            "key_env",
            "redact",
            "memory_flush",
        ];
        let mut found = Compaction::default();
        for (name, value) in self.table(key, value)? {
            let below = format!("{key}.{name}");
            let tokens = || -> Result<Option<u64>> {
                let hint = "use a number of tokens, at least 0";
                Ok(u64::try_from(self.number(&below, value, 0, i64::MAX, hint)?).ok())
            };
            match name.as_str() {
                "mode" => {
                    let names = CompactionMode::NAMES;
                    found.mode = Some(self.choice(&below, value, names, CompactionMode::parse)?);
                }
                "reserve_tokens" => found.reserve_tokens = tokens()?,
                "reserve_tokens_floor" => found.reserve_tokens_floor = tokens()?,
                "keep_recent_tokens" => found.keep_recent_tokens = tokens()?,
                "summariser" => {
                    let names: Vec<&'static str> = KINDS.iter().map(|kind| kind.name).collect();
                    let parse = |word: &str| names.iter().copied().find(|name| *name == word);
                    summariser.kind = Some(self.choice(&below, value, &names, parse)?);
                }
                "command" => {
                    let hint = "write `command = [\"program\", \"argument\"]`";
                    summariser.command = self.words(&below, value, "a list of words", hint)?;
                }
                "timeout_seconds" => {
                    let hint = "use a number of seconds from 1 to 3600";
                    let seconds = self.number(&below, value, 1, 3600, hint)?;
                    summariser.timeout_seconds = u64::try_from(seconds).ok();
                }
                "url" => summariser.url = Some(string(value, &below, self.path)?.to_owned()),
                "model" => summariser.model = Some(string(value, &below, self.path)?.to_owned()),
                "key_env" => summariser.key_env = Some(self.variable(&below, value)?),
                "redact" => summariser.redact = Some(self.flag(&below, value)?),
                "memory_flush" => self.memory_flush(&below, value, &mut found)?,
                _ => self.unknown(key, name, &KEYS),
            }
        }
        Ok(found)
    }

    fn memory_flush(&mut self, key: &str, value: &Value, found: &mut Compaction) -> Result<()> {
        const KEYS: [&str; 3] = ["enabled", "soft_threshold_tokens", "prompt"];
        for (name, value) in self.table(key, value)? {
            let below = format!("{key}.{name}");
            match name.as_str() {
                "enabled" => found.memory_flush = Some(self.flag(&below, value)?),
                "soft_threshold_tokens" => {
                    let hint = "use a number of tokens, at least 0";
                    let tokens = self.number(&below, value, 0, i64::MAX, hint)?;
                    found.memory_flush_soft_threshold_tokens = u64::try_from(tokens).ok();
                }
                "prompt" => {
                    let prompt = string(value, &below, self.path)?;
                    if prompt.trim().is_empty() {
                        let hint = "write what the model is asked, or leave the line out";
                        return Err(self.refuse(&below, prompt, hint));
                    }
                    found.memory_flush_prompt = Some(prompt.to_owned());
                }
                _ => self.unknown(key, name, &KEYS),
            }
        }
        Ok(())
    }

    fn workspaces(&self, key: &str, value: &Value) -> Result<BTreeMap<String, PathBuf>> {
        let mut workspaces = BTreeMap::new();
        for (agent, value) in self.table(key, value)? {
            let folder = string(value, &format!("{key}.{agent}"), self.path)?;
            workspaces.insert(agent.clone(), PathBuf::from(folder));
        }
        Ok(workspaces)
    }

    fn flag(&self, key: &str, value: &Value) -> Result<bool> {
        value.as_bool().ok_or_else(|| wrong_type(key, self.path, "true or false", value))
    }

    /// Reads the name of an environment variable. An error does not quote it, because it may be the
    /// key that the variable should hold.
    fn variable(&self, key: &str, value: &Value) -> Result<String> {
        let is_name = |name: &&str| {
            name.starts_with(|first: char| first.is_ascii_uppercase())
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        };
        let name = value.as_str().filter(is_name).map(str::to_owned);
        name.ok_or_else(|| {
            let path = self.path.display();
            CommandError::new(format!("`{key}` in {path} is no name of an environment variable"))
                .hint("write `key_env = \"MODEL_KEY\"`: the variable holds the key, not the file")
        })
    }

    fn admission(&mut self, key: &str, value: &Value) -> Result<FileAdmission> {
        let mut found = FileAdmission::default();
        for (name, value) in self.table(key, value)? {
            let below = format!("{key}.{name}");
            match name.as_str() {
                "owners" => found.owners = Some(self.owners(&below, value)?),
                "channels" => {
                    for (name, value) in self.table(&below, value)? {
                        let below = format!("{below}.{name}");
                        let channel = self.channel(&below, name)?;
                        let mut policies = FilePolicies::default();
                        for (name, value) in self.table(&below, value)? {
                            if !self.policy(&below, name, value, &mut policies)? {
                                self.unknown(&below, name, &["direct", "group"]);
                            }
                        }
                        found.channels.insert(channel, policies);
                    }
                }
                _ => {
                    if !self.policy(key, name, value, &mut found.policies)? {
                        self.unknown(key, name, &["direct", "group", "owners", "channels"]);
                    }
                }
            }
        }
        Ok(found)
    }

    /// Reads one policy. Returns false if `name` is not a policy.
    fn policy(
        &self,
        key: &str,
        name: &str,
        value: &Value,
        policies: &mut FilePolicies,
    ) -> Result<bool> {
        let key = format!("{key}.{name}");
        match name {
            "direct" => {
                let names = DirectPolicy::NAMES;
                policies.direct = Some(self.choice(&key, value, names, DirectPolicy::parse)?);
            }
            "group" => {
                let names = GroupPolicy::NAMES;
                policies.group = Some(self.choice(&key, value, names, GroupPolicy::parse)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn owners(&self, key: &str, value: &Value) -> Result<BTreeSet<(Channel, String)>> {
        let hint = "write `owners = [\"telegram:821071206\"]`: the channel, and the id there";
        let mut owners = BTreeSet::new();
        for word in self.ids(key, value, hint)? {
            let owner = word
                .split_once(':')
                .and_then(|(channel, id)| Some((Channel::parse(channel).ok()?, sender_id(id)?)));
            owners.insert(owner.ok_or_else(|| self.refuse(key, &word, hint))?);
        }
        Ok(owners)
    }
}
