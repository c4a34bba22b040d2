//! `[retention]`: after how many days an agent deletes transcripts. quipu never opens the agent's
//! own settings, because there are secrets in them.

use std::collections::BTreeMap;
use std::path::Path;

use quipu_ledger::collect::Retention;
use quipu_transcript::format::FORMATS;
use toml::Value;

use super::{UnknownKey, unknown, wrong_type};
use crate::error::{CommandError, Result};

/// Limit for a number of days: a hundred years.
const MAX_DAYS: i64 = 36_500;

/// Reads the table.
pub(super) fn read(
    value: &Value,
    path: &Path,
    unknowns: &mut Vec<UnknownKey>,
) -> Result<BTreeMap<&'static str, Retention>> {
    let Value::Table(table) = value else {
        return Err(wrong_type("retention", path, "a table", value)
            .hint("write `[retention]` on its own line and the formats below it"));
    };
    let mut all = BTreeMap::new();
    for (name, value) in table {
        let key = format!("retention.{name}");
        // Only formats whose files are collected have a retention.
        let Some(format) = FORMATS.iter().find(|format| format.name() == name) else {
            unknowns.push(unknown(&key, name, "retention."));
            continue;
        };
        all.insert(format.name(), retention(&key, value, path)?);
    }
    Ok(all)
}

fn retention(key: &str, value: &Value, path: &Path) -> Result<Retention> {
    const HINT: &str = "use a number of days; 0 or \"never\" if the agent deletes nothing";
    let refuse = |what: &dyn std::fmt::Display| {
        CommandError::new(format!("`{key}` in {} is {what}", path.display())).hint(HINT)
    };
    match value {
        Value::Integer(0) => Ok(Retention::Forever),
        Value::Integer(days @ 1..=MAX_DAYS) => {
            u32::try_from(*days).map(Retention::Days).map_err(|_| refuse(days))
        }
        Value::Integer(days) => Err(refuse(days)),
        Value::String(word) if word == "never" => Ok(Retention::Forever),
        Value::String(word) => Err(refuse(&format!("`{word}`"))),
        _ => Err(wrong_type(key, path, "a number of days", value).hint(HINT)),
    }
}
