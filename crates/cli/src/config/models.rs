//! `[models]`: the context windows of models, in tokens.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Value;

use super::{UnknownKey, nearest, wrong_type};
use crate::error::{CommandError, Result};

/// Keys of a model's table.
const KEYS: [&str; 1] = ["context_window"];

const HINT: &str = "write `\"model-name\" = { context_window = 32768 }`, a whole number of tokens";

/// Reads the table. Returns the context window of each model, in tokens.
pub(super) fn read(
    value: &Value,
    path: &Path,
    unknown: &mut Vec<UnknownKey>,
) -> Result<BTreeMap<String, u64>> {
    let Value::Table(models) = value else {
        return Err(wrong_type("models", path, "a table", value).hint(HINT));
    };
    let mut windows = BTreeMap::new();
    for (model, value) in models {
        let key = format!("models.{model}");
        let Value::Table(table) = value else {
            return Err(wrong_type(&key, path, "a table", value).hint(HINT));
        };
        for (name, value) in table {
            let key = format!("{key}.{name}");
            match (name.as_str(), value) {
                ("context_window", Value::Integer(tokens)) => match u64::try_from(*tokens) {
                    Ok(tokens @ 1..) => drop(windows.insert(model.clone(), tokens)),
                    _ => {
                        let what = format!("`{key}` in {} is {tokens}", path.display());
                        return Err(CommandError::new(what).hint(HINT));
                    }
                },
                ("context_window", Value::Float(tokens)) => {
                    let what = format!("`{key}` in {} is {tokens}", path.display());
                    return Err(CommandError::new(what).hint(HINT));
                }
                ("context_window", _) => {
                    return Err(wrong_type(&key, path, "a number", value).hint(HINT));
                }
                _ => {
                    let nearest =
                        nearest(name, &KEYS).map(|known| format!("models.{model}.{known}"));
                    unknown.push(UnknownKey { key, nearest });
                }
            }
        }
    }
    Ok(windows)
}
