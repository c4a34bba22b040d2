//! The settings of `[store]`, each with its origin.

use quipu_transcript::routing::reset::ResetRule;
use quipu_transcript::routing::settings::{Compaction, FileSettings};

use super::Value;
use crate::error::Result;
use crate::routing::StoreSettings;
use crate::settings::Origin;

/// One line: the setting, its value, and where it came from.
pub(super) type Line = (String, Value<'static>, Origin);

/// A function that reads one number of the compaction settings.
type Tokens = fn(&Compaction) -> Option<u64>;

/// Returns all settings. Settings of a single channel or kind of chat are listed if they are set.
pub(super) fn lines(store: &StoreSettings) -> Result<Vec<Line>> {
    let routing = store.routing()?;
    let openclaw = store.openclaw_config.as_ref();
    let origin = |is_set: &dyn Fn(&FileSettings) -> bool| match openclaw {
        _ if is_set(&store.file_settings) => store.origin.clone(),
        Some(path) if is_set(&routing.openclaw) => Origin::File(path.display().to_string()),
        _ => Origin::Default,
    };
    let mut lines = Vec::new();
    if let Some(path) = openclaw {
        let key = "store.openclaw_config".to_owned();
        lines.push((key, Value::OwnedPath(path.clone()), store.origin.clone()));
    }
    let mut add = |key: &str, value: Value<'static>, is_set: &dyn Fn(&FileSettings) -> bool| {
        lines.push((format!("store.{key}"), value, origin(is_set)));
    };
    let word = |word: &str| Value::Text(word.to_owned());
    let settings = &routing.settings;
    add("main_key", word(&settings.main_key), &|found| found.main_key.is_some());
    add("dm_scope", word(settings.dm_scope.as_str()), &|found| found.dm_scope.is_some());
    add("group_scope", word(settings.group_scope.as_str()), &|found| found.group_scope.is_some());
    for (name, ids) in &settings.identity_links {
        let key = format!("identity_links.{name}");
        add(&key, Value::Words(ids.clone()), &|found| found.identity_links.is_some());
    }
    let resets = &settings.resets;
    let mut rule = |key: &str, rule: &ResetRule, rule_in: &dyn Fn(&FileSettings) -> ResetRule| {
        if let Some(mode) = rule.mode {
            add(&format!("{key}.mode"), word(mode.as_str()), &|found| {
                rule_in(found).mode.is_some()
            });
        }
        if let Some(hour) = rule.hour {
            let value = Value::Number(hour.unsigned_abs().into());
            add(&format!("{key}.hour"), value, &|found| rule_in(found).hour.is_some());
        }
        if let Some(minutes) = rule.idle_minutes {
            let value = Value::Number(minutes.into());
            add(&format!("{key}.idle_minutes"), value, &|found| {
                rule_in(found).idle_minutes.is_some()
            });
        }
    };
    rule("reset", &resets.base, &|found| found.reset);
    for (kind, own) in &resets.by_type {
        let rule_in =
            |found: &FileSettings| found.reset_by_type.get(kind).copied().unwrap_or_default();
        rule(&format!("reset.{}", kind.as_str()), own, &rule_in);
    }
    for (channel, own) in &resets.by_channel {
        let rule_in =
            |found: &FileSettings| found.reset_by_channel.get(channel).copied().unwrap_or_default();
        rule(&format!("reset.channels.{channel}"), own, &rule_in);
    }
    if resets.base == ResetRule::default() {
        add("reset.mode", word("none"), &|_| false);
    }
    let admission = &settings.admission;
    let direct = word(admission.direct.as_str());
    add("admission.direct", direct, &|found| found.admission.policies.direct.is_some());
    let group = word(admission.group.as_str());
    add("admission.group", group, &|found| found.admission.policies.group.is_some());
    for (channel, policies) in &admission.channels {
        let key = format!("admission.channels.{channel}");
        if let Some(policy) = policies.direct {
            add(&format!("{key}.direct"), word(policy.as_str()), &|_| true);
        }
        if let Some(policy) = policies.group {
            add(&format!("{key}.group"), word(policy.as_str()), &|_| true);
        }
    }
    let owners = admission.owners.iter().map(|(channel, id)| format!("{channel}:{id}")).collect();
    add("admission.owners", Value::Words(owners), &|found| found.admission.owners.is_some());
    let compaction = &settings.compaction;
    if let Some(mode) = compaction.mode {
        add("compaction.mode", word(mode.as_str()), &|found| found.compaction.mode.is_some());
    }
    let numbers: [(&str, Tokens); 4] = [
        ("reserve_tokens", |compaction| compaction.reserve_tokens),
        ("reserve_tokens_floor", |compaction| compaction.reserve_tokens_floor),
        ("keep_recent_tokens", |compaction| compaction.keep_recent_tokens),
        ("memory_flush.soft_threshold_tokens", |compaction| {
            compaction.memory_flush_soft_threshold_tokens
        }),
    ];
    for (key, number) in numbers {
        if let Some(value) = number(compaction) {
            let is_set = |found: &FileSettings| number(&found.compaction).is_some();
            add(&format!("compaction.{key}"), Value::Number(value), &is_set);
        }
    }
    if let Some(flush) = compaction.memory_flush {
        add("compaction.memory_flush.enabled", Value::Flag(flush), &|found| {
            found.compaction.memory_flush.is_some()
        });
    }
    if let Some(prompt) = &compaction.memory_flush_prompt {
        add("compaction.memory_flush.prompt", word(prompt), &|found| {
            found.compaction.memory_flush_prompt.is_some()
        });
    }
    lines.extend(summariser(store));
    for (agent, workspace) in &store.workspaces {
        let key = format!("store.workspaces.{agent}");
        lines.push((key, Value::OwnedPath(workspace.clone()), store.origin.clone()));
    }
    Ok(lines)
}

/// Returns the settings of the summariser that are set.
fn summariser(store: &StoreSettings) -> Vec<Line> {
    let summariser = &store.summariser;
    let text = |text: &Option<String>| text.clone().map(Value::Text);
    let command = Some(summariser.command.clone()).filter(|command| !command.is_empty());
    let settings = [
        ("summariser", summariser.kind.map(|kind| Value::Text(kind.to_owned()))),
        ("command", command.map(Value::Words)),
        ("url", text(&summariser.url)),
        ("model", text(&summariser.model)),
        ("key_env", text(&summariser.key_env)),
        ("timeout_seconds", summariser.timeout_seconds.map(Value::Number)),
        ("redact", summariser.redact.map(Value::Flag)),
    ];
    let line = |(key, value): (&str, Option<Value<'static>>)| {
        Some((format!("store.compaction.{key}"), value?, store.origin.clone()))
    };
    settings.into_iter().filter_map(line).collect()
}
