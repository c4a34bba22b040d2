//! `[prices]`: prices from the configuration, in US dollars per million tokens.

use std::collections::BTreeMap;
use std::path::Path;

use quipu_transcript::prices::{Price, Rates};
use toml::Value;

use super::{UnknownKey, nearest, wrong_type};
use crate::error::{CommandError, Result};

/// Keys of a model's table.
const KEYS: [&str; 6] = ["input", "output", "cache_read", "cache_write", "cache_write_1h", "fast"];

const HINT: &str = "write `\"model-name\" = { input = 3.0, output = 15.0 }`";

/// Reads the table. Cache prices default to the input price.
pub(super) fn read(
    value: &Value,
    path: &Path,
    unknown: &mut Vec<UnknownKey>,
) -> Result<BTreeMap<String, Price>> {
    let Value::Table(models) = value else {
        return Err(wrong_type("prices", path, "a table", value).hint(HINT));
    };
    models
        .iter()
        .map(|(model, value)| Ok((model.clone(), price(model, value, path, unknown)?)))
        .collect()
}

fn price(model: &str, value: &Value, path: &Path, unknown: &mut Vec<UnknownKey>) -> Result<Price> {
    let key = format!("prices.{model}");
    let Value::Table(table) = value else {
        return Err(wrong_type(&key, path, "a table", value).hint(HINT));
    };
    for name in table.keys().filter(|name| !KEYS.contains(&name.as_str())) {
        let nearest = nearest(name, &KEYS).map(|nearest| format!("{key}.{nearest}"));
        unknown.push(UnknownKey { key: format!("{key}.{name}"), nearest });
    }
    let number = |name: &str| -> Result<Option<f64>> {
        let number = match table.get(name) {
            None => return Ok(None),
            Some(Value::Float(number)) => *number,
            Some(Value::Integer(number)) => *number as f64,
            Some(other) => {
                let key = format!("{key}.{name}");
                return Err(wrong_type(&key, path, "a number", other).hint(HINT));
            }
        };
        if !(0.0..=MAX_PRICE).contains(&number) {
            let what = format!("`{key}.{name}` in {} is {number}", path.display());
            return Err(CommandError::new(what)
                .hint("a price is in US dollars per million tokens, from 0 to 1000000"));
        }
        Ok(Some(number))
    };
    let needed = |name: &str| {
        number(name)?.ok_or_else(|| {
            CommandError::new(format!("`{key}` in {} has no `{name}`", path.display())).hint(HINT)
        })
    };
    let input = needed("input")?;
    let cache_write = number("cache_write")?.unwrap_or(input);
    let rates = Rates {
        input,
        output: needed("output")?,
        cache_read: number("cache_read")?.unwrap_or(input),
        cache_write,
        cache_write_1h: number("cache_write_1h")?.unwrap_or(cache_write),
    };
    let fast = number("fast")?.map(|factor| rates.times(factor));
    Ok(Price { rates, fast, long: None })
}

/// Limit for a price, in US dollars per million tokens. A higher one is a mistake.
const MAX_PRICE: f64 = 1e6;
