//! `[limits]`: limits of a plan, for one window of usage.

use std::path::Path;

pub(crate) use quipu_ledger::query::WindowLimits as Limits;
use toml::Value;

use super::{UnknownKey, nearest, wrong_type};
use crate::error::{CommandError, Result};

const KEYS: [&str; 2] = ["block_usd", "block_tokens"];

const HINT: &str = "write `block_usd = 50` or `block_tokens = 200000000`";

/// Reads the table.
pub(super) fn read(value: &Value, path: &Path, unknown: &mut Vec<UnknownKey>) -> Result<Limits> {
    let Value::Table(table) = value else {
        return Err(wrong_type("limits", path, "a table", value).hint(HINT));
    };
    let mut limits = Limits::default();
    for (name, value) in table {
        let key = format!("limits.{name}");
        let number = match value {
            Value::Integer(number) => *number as f64,
            Value::Float(number) => *number,
            _ => return Err(wrong_type(&key, path, "a number", value).hint(HINT)),
        };
        if !(0.0..=1e15).contains(&number) {
            let what = format!("`{key}` in {} is {number}", path.display());
            return Err(CommandError::new(what).hint("a limit is a number from 0 to 1e15"));
        }
        match name.as_str() {
            "block_usd" => limits.block_usd = Some(number),
            "block_tokens" => limits.block_tokens = Some(number as u64),
            _ => {
                let nearest = nearest(name, &KEYS).map(|nearest| format!("limits.{nearest}"));
                unknown.push(UnknownKey { key, nearest });
            }
        }
    }
    Ok(limits)
}
