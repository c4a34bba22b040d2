//! The configuration file: reading it, its errors and its unknown keys.
//!
//! A wrong type is an error, because quipu would otherwise use another value than the one given.
//! An unknown key is a warning, because it may belong to a newer quipu.

mod limits;
mod models;
mod prices;
mod retention;
mod store;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use quipu_ledger::collect::Retention;
use quipu_transcript::format::{self, FORMATS};
use quipu_transcript::prices::Price;
use toml::{Table, Value};

pub(crate) use limits::Limits;
pub(crate) use store::{Store, SummariserConfig};

use crate::args::ColorWhen;
use crate::error::{CommandError, Result};

/// The contents of a configuration file. Paths are as written.
#[derive(Debug, Default)]
pub(crate) struct Config {
    /// `ledger`.
    pub(crate) ledger: Option<PathBuf>,
    /// `color`.
    pub(crate) color: Option<ColorWhen>,
    /// `collect.priority`.
    pub(crate) priority: Option<u8>,
    /// `collect.deleted`.
    pub(crate) deleted: Option<bool>,
    /// `[roots]`, by format.
    pub(crate) roots: BTreeMap<&'static str, Vec<PathBuf>>,
    /// `[retention]`, by format.
    pub(crate) retention: BTreeMap<&'static str, Retention>,
    /// `[prices]`, by model.
    pub(crate) prices: BTreeMap<String, Price>,
    /// `[limits]`.
    pub(crate) limits: Limits,
    /// `[models]`: the context window of each model, in tokens.
    pub(crate) windows: BTreeMap<String, u64>,
    /// `[store]`.
    pub(crate) store: Store,
    /// Unknown keys.
    pub(crate) unknown: Vec<UnknownKey>,
}

/// An unknown key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownKey {
    /// The key with its table: `roots.claude`.
    pub(crate) key: String,
    /// The known key that is nearest to it.
    pub(crate) nearest: Option<String>,
}

/// Limit for the size of a configuration file, in bytes.
pub(crate) const MAX_CONFIG_BYTES: u64 = 16 << 20;

/// Reads a configuration file.
pub(crate) fn read(path: &Path) -> Result<Config> {
    let read = quipu_ledger::files::read_named_file(path, MAX_CONFIG_BYTES);
    let text = read.and_then(|bytes| std::io::read_to_string(&*bytes)).map_err(|error| {
        let what = format!("cannot read the configuration file {}", path.display());
        CommandError::from_source(anyhow::Error::new(error).context(what))
            .hint("name another one with --config, or unset QUIPU_CONFIG")
    })?;
    parse(&text, path)
}

/// Reads the text of a configuration file.
fn parse(text: &str, path: &Path) -> Result<Config> {
    let table: Table = text.parse().map_err(|error| syntax_error(text, path, &error))?;
    let mut config = Config::default();
    for (key, value) in &table {
        match key.as_str() {
            "ledger" => config.ledger = Some(PathBuf::from(string(value, "ledger", path)?)),
            "color" => config.color = Some(color(value, path)?),
            "collect" => collect(value, path, &mut config)?,
            "roots" => roots(value, path, &mut config)?,
            "retention" => config.retention = retention::read(value, path, &mut config.unknown)?,
            "prices" => config.prices = prices::read(value, path, &mut config.unknown)?,
            "limits" => config.limits = limits::read(value, path, &mut config.unknown)?,
            "models" => config.windows = models::read(value, path, &mut config.unknown)?,
            "store" => config.store = store::read(value, path, &mut config.unknown)?,
            _ => config.unknown.push(unknown(key, key, "")),
        }
    }
    Ok(config)
}

fn collect(value: &Value, path: &Path, config: &mut Config) -> Result<()> {
    let Value::Table(table) = value else {
        return Err(wrong_type("collect", path, "a table", value)
            .hint("write `[collect]` on its own line and the settings below it"));
    };
    for (name, value) in table {
        match (name.as_str(), value) {
            ("priority", Value::Integer(number @ 0..=2)) => {
                config.priority = u8::try_from(*number).ok();
            }
            ("priority", Value::Integer(number)) => {
                let what = format!("`collect.priority` in {} is {number}", path.display());
                return Err(CommandError::new(what).hint(PRIORITIES));
            }
            ("priority", _) => {
                let what = "0, 1 or 2";
                return Err(wrong_type("collect.priority", path, what, value).hint(PRIORITIES));
            }
            ("deleted", Value::Boolean(deleted)) => config.deleted = Some(*deleted),
            ("deleted", _) => {
                return Err(wrong_type("collect.deleted", path, "true or false", value).hint(
                    "write `deleted = false` to leave out transcripts that agents have deleted",
                ));
            }
            _ => config.unknown.push(unknown(&format!("collect.{name}"), name, "collect.")),
        }
    }
    Ok(())
}

const PRIORITIES: &str =
    "0 collects transcripts only, 1 also scheduled jobs, 2 also notes (the default)";

fn roots(value: &Value, path: &Path, config: &mut Config) -> Result<()> {
    let Value::Table(table) = value else {
        return Err(wrong_type("roots", path, "a table", value)
            .hint("write `[roots]` on its own line and the formats below it"));
    };
    for (name, value) in table {
        let key = format!("roots.{name}");
        let Some(format) = format::by_name(name) else {
            config.unknown.push(unknown(&key, name, "roots."));
            continue;
        };
        let wrong = |value| {
            wrong_type(&key, path, "a list of paths", value)
                .hint(format!("write `{name} = [\"path\"]`"))
        };
        let Value::Array(values) = value else { return Err(wrong(value)) };
        let mut paths = Vec::with_capacity(values.len());
        for value in values {
            let Value::String(path) = value else { return Err(wrong(value)) };
            paths.push(PathBuf::from(path));
        }
        config.roots.insert(format.name(), paths);
    }
    Ok(())
}

fn color(value: &Value, path: &Path) -> Result<ColorWhen> {
    let name = string(value, "color", path)?;
    ColorWhen::from_str(name, false).map_err(|_| {
        CommandError::new(format!("`color` in {} is `{name}`", path.display()))
            .hint("use \"auto\", \"always\" or \"never\"")
    })
}

fn string<'a>(value: &'a Value, key: &str, path: &Path) -> Result<&'a str> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(wrong_type(key, path, "text", value).hint(format!("write `{key} = \"…\"`"))),
    }
}

fn wrong_type(key: &str, path: &Path, wanted: &str, value: &Value) -> CommandError {
    let found = match value {
        Value::String(_) => "text",
        Value::Integer(_) | Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    };
    CommandError::new(format!("`{key}` in {} must be {wanted}, not {found}", path.display()))
}

fn syntax_error(text: &str, path: &Path, error: &toml::de::Error) -> CommandError {
    // The error's own display quotes the line over several lines.
    let cause = match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => {
            let line = before.matches('\n').count() + 1;
            let column =
                before.chars().rev().take_while(|character| *character != '\n').count() + 1;
            format!("line {line}, column {column}: {}", error.message())
        }
        None => error.message().to_owned(),
    };
    let what = format!("the configuration file {} is not TOML", path.display());
    CommandError::from_source(anyhow::Error::msg(cause).context(what))
        .hint("`quipu config --help` shows what it can look like")
}

/// Returns an unknown key, with the nearest known one.
fn unknown(key: &str, name: &str, table: &str) -> UnknownKey {
    let known: Vec<&str> = match table {
        "" => vec![
            "ledger",
            "color",
            "collect",
            "roots",
            "retention",
            "prices",
            "limits",
            "models",
            "store",
        ],
        "collect." => vec!["priority", "deleted"],
        _ => FORMATS.iter().map(|format| format.name()).collect(),
    };
    let nearest = nearest(name, &known).map(|known| format!("{table}{known}"));
    UnknownKey { key: key.to_owned(), nearest }
}

/// Returns the known word that is nearest to `name`.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|known| (distance(name, known), *known))
        .min()
        // A word with more than half of its letters changed is a different word.
        .filter(|(distance, known)| *distance * 2 <= known.len())
        .map(|(_, known)| known)
}

/// Returns how many letters to add, remove or change to turn one word into another.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut next = Vec::with_capacity(row.len());
        next.push(index + 1);
        for ((other, pair), left) in to.iter().zip(row.windows(2)).zip(0..) {
            let changed = pair[0] + usize::from(letter != *other);
            next.push(changed.min(pair[1] + 1).min(next[left] + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, Vec<String>> {
        parse(text, Path::new("config.toml")).map_err(|error| {
            error.causes().chain(error.hints.iter().cloned()).collect::<Vec<String>>()
        })
    }

    #[test]
    fn every_setting_is_read() {
        let config = read(
            "ledger = '~/l.db'\ncolor = 'never'\n[collect]\npriority = 1\ndeleted = false\n\
             [roots]\nclaude-code = ['a', '/b']\nopenclaw = []\n\
             [retention]\nclaude-code = 90\nopenclaw = 'never'\n\
             [limits]\nblock_usd = 50\n\
             [prices]\nlab = { input = 1, output = 2.5, cache_read = 0.1, fast = 2 }\n",
        )
        .unwrap();
        assert_eq!(config.ledger, Some(PathBuf::from("~/l.db")));
        assert_eq!(config.color, Some(ColorWhen::Never));
        assert_eq!(config.roots["claude-code"], [PathBuf::from("a"), PathBuf::from("/b")]);
        assert!(config.roots["openclaw"].is_empty());
        assert_eq!((config.priority, config.deleted), (Some(1), Some(false)));
        assert_eq!(config.retention["claude-code"], Retention::Days(90));
        assert_eq!(config.retention["openclaw"], Retention::Forever);
        let price = config.prices["lab"];
        let rates = price.rates;
        assert_eq!((rates.input, rates.output, rates.cache_read), (1.0, 2.5, 0.1));
        assert_eq!((rates.cache_write, rates.cache_write_1h), (1.0, 1.0), "as input");
        assert_eq!(price.fast.map(|rates| rates.output), Some(5.0));
        assert_eq!(config.limits, Limits { block_usd: Some(50.0), block_tokens: None });
        assert!(config.unknown.is_empty());
    }

    #[test]
    fn an_empty_file_is_valid() {
        let config = read("").unwrap();
        assert!(config.ledger.is_none() && config.color.is_none() && config.roots.is_empty());
    }

    #[track_caller]
    fn check_unknown(text: &str, key: &str, nearest: Option<&str>) {
        let unknown = UnknownKey { key: key.to_owned(), nearest: nearest.map(str::to_owned) };
        assert_eq!(read(text).unwrap().unknown, [unknown]);
    }

    #[test]
    fn an_unknown_key_is_listed_with_the_nearest_known_one() {
        check_unknown("legder = 'x'", "legder", Some("ledger"));
        check_unknown("colour = 'auto'", "colour", Some("color"));
        check_unknown("zzzzzz = 1", "zzzzzz", None);
        check_unknown("[roots]\nclaude = []", "roots.claude", Some("roots.claude-code"));
        check_unknown("[root]\nopenclaw = []", "root", Some("roots"));
        check_unknown("[collect]\npriorty = 1", "collect.priorty", Some("collect.priority"));
        check_unknown("[collects]\npriority = 1", "collects", Some("collect"));
        check_unknown("price = 1", "price", Some("prices"));
        check_unknown("[limits]\nblock_usb = 1", "limits.block_usb", Some("limits.block_usd"));
        check_unknown("[retentions]\nopenclaw = 1", "retentions", Some("retention"));
        let nearest = Some("retention.claude-code");
        check_unknown("[retention]\nclaude-coed = 1", "retention.claude-coed", nearest);
        check_unknown(
            "[prices.m]\ninput = 1\noutput = 1\ncache_raed = 1",
            "prices.m.cache_raed",
            Some("prices.m.cache_read"),
        );
    }

    #[track_caller]
    fn check_wrong(text: &str, message: &str) {
        assert_eq!(read(text).unwrap_err()[0], message);
    }

    #[test]
    fn wrong_types_name_the_key() {
        check_wrong("ledger = 1", "`ledger` in config.toml must be text, not a number");
        check_wrong("color = true", "`color` in config.toml must be text, not true or false");
        check_wrong("color = 'blue'", "`color` in config.toml is `blue`");
        check_wrong("roots = []", "`roots` in config.toml must be a table, not a list");
        check_wrong("collect = 1", "`collect` in config.toml must be a table, not a number");
        for number in [-1, 3, i64::MAX] {
            let message = format!("`collect.priority` in config.toml is {number}");
            check_wrong(&format!("[collect]\npriority = {number}"), &message);
        }
        let message = "`collect.priority` in config.toml must be 0, 1 or 2, not";
        check_wrong("[collect]\npriority = '1'", &format!("{message} text"));
        check_wrong("[collect]\npriority = 1.5", &format!("{message} a number"));
        check_wrong("[collect]\npriority = true", &format!("{message} true or false"));
        let message = "`collect.deleted` in config.toml must be true or false, not";
        check_wrong("[collect]\ndeleted = 0", &format!("{message} a number"));
        check_wrong("[collect]\ndeleted = 'no'", &format!("{message} text"));
        check_wrong("retention = 90", "`retention` in config.toml must be a table, not a number");
        for number in [-1, 36_501, i64::MIN] {
            let message = format!("`retention.claude-code` in config.toml is {number}");
            check_wrong(&format!("[retention]\nclaude-code = {number}"), &message);
        }
        let message = "`retention.claude-code` in config.toml is `90 days`";
        check_wrong("[retention]\nclaude-code = '90 days'", message);
        let message = "`retention.claude-code` in config.toml must be a number of days, not";
        check_wrong("[retention]\nclaude-code = true", &format!("{message} true or false"));
        check_wrong("limits = 1", "`limits` in config.toml must be a table, not a number");
        check_wrong("[limits]\nblock_usd = -1", "`limits.block_usd` in config.toml is -1");
        check_wrong("prices = 1", "`prices` in config.toml must be a table, not a number");
        check_wrong("[prices]\nm = 1", "`prices.m` in config.toml must be a table, not a number");
        check_wrong("[prices.m]\ninput = 1", "`prices.m` in config.toml has no `output`");
        let negative = "[prices.m]\ninput = -1\noutput = 1";
        check_wrong(negative, "`prices.m.input` in config.toml is -1");
        let word = "[prices.m]\ninput = '1'\noutput = 1";
        check_wrong(word, "`prices.m.input` in config.toml must be a number, not text");
        let message = "`roots.openclaw` in config.toml must be a list of paths, not";
        check_wrong("[roots]\nopenclaw = 'a'", &format!("{message} text"));
        check_wrong("[roots]\nopenclaw = [1]", &format!("{message} a number"));
    }

    #[test]
    fn broken_files_name_the_line() {
        let error = read("color = 'auto'\nledger = \n").unwrap_err();
        assert_eq!(error[0], "the configuration file config.toml is not TOML");
        assert!(error[1].starts_with("line 2, column 10: "), "{error:?}");
    }

    #[test]
    fn a_distance_counts_changed_letters() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("same", "same"), 0);
    }
}
