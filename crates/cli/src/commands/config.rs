//! `quipu config`: every effective setting and where it came from.

mod edit;
mod store;

use std::path::{Path, PathBuf};

use quipu_ledger::wire::{ModelPrice, Setting, SettingOrigin, SettingValue};
use quipu_transcript::prices::{Price, Rates};

use super::Context;
use crate::args::Global;
use crate::error::Result;
use crate::output::{Column, Output, Style, Text};
use crate::settings::Origin;

/// Show the configuration, print its path, or edit it
///
/// Settings come from flags, then the environment, then the configuration
/// file, then defaults. The file is TOML:
///
///   ledger = "~/quipu/ledger.db"
///   color = "auto"
///
///   [collect]
///   priority = 2     # 0 transcripts, 1 also scheduled jobs, 2 also notes
///   deleted = true   # also transcripts that the agent has deleted
///
///   [roots]
///   claude-code = ["~/.claude", "/backup/claude"]
///   openclaw = ["~/.openclaw"]
///
///   [retention]      # days until the agent deletes a transcript, as in its settings
///   claude-code = 90 # 0 or "never" if it deletes nothing
///
///   [prices]         # US dollars per million tokens
///   "my-model" = { input = 3.0, output = 15.0, cache_read = 0.3 }
///
///   [limits]         # of your plan, for each window of `quipu usage blocks`
///   block_usd = 50
///
///   [models]         # sizes of context windows, in tokens
///   "my-model" = { context_window = 32768 }
///
///   [store]          # which messages belong to one session
///   dm_scope = "main"
///   openclaw_config = "~/.openclaw/openclaw.json"
///
///   [store.admission]          # who may write to an agent
///   owners = ["telegram:821071206"]
///
///   [store.compaction]         # when a session is summarised, and by what
///   reserve_tokens_floor = 24000
///   keep_recent_tokens = 20000
///   summariser = "digest"      # or "command"
///
/// Example:
///   quipu config show
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The action to run.
    #[command(subcommand)]
    action: Action,
}

/// Actions of `quipu config`.
#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Print every effective setting and where it came from
    ///
    /// `--json` prints one object per line, with `origin` (flag, environment,
    /// file or default) and `from` (the name of the flag or variable, or the
    /// path of the file).
    ///
    /// Example:
    ///   quipu config show --json | jq -r 'select(.setting == "ledger") | .value'
    #[command(verbatim_doc_comment)]
    Show,

    /// Print the path of the configuration file, whether or not it exists
    ///
    /// Example:
    ///   cat "$(quipu config path)"
    #[command(verbatim_doc_comment)]
    Path,

    /// Open the configuration file in $VISUAL or $EDITOR
    ///
    /// A file that does not exist is created, with every setting as a comment. After
    /// editing, the file is checked.
    ///
    /// Example:
    ///   EDITOR=nano quipu config edit
    #[command(verbatim_doc_comment)]
    Edit,
}

/// A setting's value.
#[derive(Clone)]
enum Value<'a> {
    Word(&'a str),
    Number(u64),
    Dollars(f64),
    Text(String),
    Words(Vec<String>),
    OwnedPath(PathBuf),
    Flag(bool),
    Path(&'a Path),
    Paths(Vec<&'a Path>),
    Price(ModelPrice),
}

impl Value<'_> {
    /// Returns the shape that `--json` prints.
    fn shape(&self) -> SettingValue {
        let text = |path: &Path| path.display().to_string();
        match self {
            Value::Word(word) => SettingValue::Text((*word).to_owned()),
            Value::Number(number) => SettingValue::Number(*number),
            Value::Dollars(dollars) => SettingValue::Dollars(*dollars),
            Value::Text(text) => SettingValue::Text(text.clone()),
            Value::Words(words) => SettingValue::Texts(words.clone()),
            Value::OwnedPath(path) => SettingValue::Text(text(path)),
            Value::Flag(flag) => SettingValue::Flag(*flag),
            Value::Path(path) => SettingValue::Text(text(path)),
            Value::Paths(paths) => {
                SettingValue::Texts(paths.iter().map(|path| text(path)).collect())
            }
            Value::Price(price) => SettingValue::Price(*price),
        }
    }
}

/// Returns the shape of a model's prices.
fn price_shape(price: &Price) -> ModelPrice {
    let Rates { input, output, cache_read, cache_write, cache_write_1h } = price.rates;
    let fast = price.fast.map(|fast| fast.output / output).filter(|factor| factor.is_finite());
    ModelPrice {
        input_usd: input,
        output_usd: output,
        cache_read_usd: cache_read,
        cache_write_usd: cache_write,
        cache_write_1h_usd: cache_write_1h,
        fast_factor: fast,
    }
}

/// Returns the shape of a setting.
fn shape(setting: &str, value: &Value<'_>, origin: &Origin) -> Setting {
    let (origin, from) = match origin {
        Origin::Flag(name) => (SettingOrigin::Flag, Some((*name).to_owned())),
        Origin::Environment(name) => (SettingOrigin::Environment, Some((*name).to_owned())),
        Origin::File(path) => (SettingOrigin::File, Some(path.clone())),
        Origin::Default => (SettingOrigin::Default, None),
    };
    Setting { setting: setting.to_owned(), value: value.shape(), origin, from }
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    match args.action {
        Action::Show => show(context),
        // Both ran before the settings were read.
        Action::Path | Action::Edit => Ok(()),
    }
}

/// Runs the actions that concern the file itself, so that a file with a mistake can be edited.
/// Returns `None` for the others.
pub(super) fn run_on_file(args: &Args, global: &Global, output: &mut Output) -> Option<Result<()>> {
    match args.action {
        Action::Show => None,
        Action::Path => Some(edit::path(global).and_then(|path| {
            // Not wrapped, so that it can be copied.
            Ok(output.verbatim(&path.display().to_string())?)
        })),
        Action::Edit => Some(edit::path(global).and_then(|path| edit::run(&path, output))),
    }
}

fn show(context: &mut Context) -> Result<()> {
    let settings = &context.settings;
    let mut lines = Vec::new();
    if let Some(config) = &settings.config {
        let value = Value::Path(&config.value);
        lines.push(("config".to_owned(), value, &config.origin));
    }
    lines.push(("ledger".to_owned(), Value::Path(&settings.ledger.value), &settings.ledger.origin));
    lines.push((
        "color".to_owned(),
        Value::Word(settings.color.value.as_str()),
        &settings.color.origin,
    ));
    lines.push((
        "collect.priority".to_owned(),
        Value::Number(settings.priority.value.into()),
        &settings.priority.origin,
    ));
    lines.push((
        "collect.deleted".to_owned(),
        Value::Flag(settings.deleted.value),
        &settings.deleted.origin,
    ));
    for roots in &settings.roots {
        let paths = roots.paths.iter().map(|path| path.as_path()).collect();
        lines.push((format!("roots.{}", roots.format.name()), Value::Paths(paths), &roots.origin));
    }
    for roots in &settings.roots {
        let days = roots.retention.value.days(roots.format);
        let value = days.map_or(Value::Word("never"), |days| Value::Number(days.into()));
        let key = format!("retention.{}", roots.format.name());
        lines.push((key, value, &roots.retention.origin));
    }
    let prices = &settings.prices;
    for (model, price) in &prices.value {
        lines.push((format!("prices.{model}"), Value::Price(price_shape(price)), &prices.origin));
    }
    let limits = &settings.limits;
    let block_usd = limits.value.block_usd.map(Value::Dollars);
    let block_tokens = limits.value.block_tokens.map(Value::Number);
    for (name, value) in [("block_usd", block_usd), ("block_tokens", block_tokens)] {
        lines.extend(value.map(|value| (format!("limits.{name}"), value, &limits.origin)));
    }
    let windows = &settings.windows;
    for (model, tokens) in &windows.value {
        let key = format!("models.{model}.context_window");
        lines.push((key, Value::Number(*tokens), &windows.origin));
    }
    let store = store::lines(&settings.store)?;
    lines.extend(store.iter().map(|(key, value, origin)| (key.clone(), value.clone(), origin)));
    if context.is_json {
        for (key, value, origin) in lines {
            context.output.json(&shape(&key, &value, origin))?;
        }
        return Ok(());
    }
    let home = settings.home.as_deref();
    let mut rows = Vec::new();
    for (key, value, origin) in lines {
        let mut first = (Text::plain(key), Text::styled(Style::Dim, origin.describe(home)));
        for value in values(context, &value) {
            let (key, origin) = std::mem::take(&mut first);
            rows.push(vec![key, value, origin]);
        }
    }
    let columns = [Column::words("setting"), Column::long("value"), Column::words("from")];
    context.output.table(0, &columns, rows)?;
    Ok(())
}

/// Formats a value, one line per element.
fn values(context: &Context, value: &Value<'_>) -> Vec<Text> {
    match value {
        Value::Word(word) => vec![Text::plain(word)],
        Value::Number(number) => vec![Text::plain(number.to_string())],
        Value::Dollars(dollars) => vec![Text::plain(format!("${dollars}"))],
        Value::Flag(flag) => vec![Text::plain(flag.to_string())],
        Value::Text(text) => vec![Text::plain(text)],
        Value::Words(words) if words.is_empty() => vec![Text::styled(Style::Dim, "none")],
        Value::Words(words) => words.iter().map(Text::plain).collect(),
        Value::OwnedPath(path) => values(context, &Value::Path(path)),
        Value::Path(path) => {
            let is_missing = !path.exists();
            let text = Text::plain(context.show(path));
            vec![if is_missing { text.with(Style::Dim, " (does not exist)") } else { text }]
        }
        Value::Paths(paths) if paths.is_empty() => vec![Text::styled(Style::Dim, "none")],
        Value::Paths(paths) => paths.iter().map(|path| Text::plain(context.show(path))).collect(),
        Value::Price(price) => vec![Text::plain(format!(
            "${} in, ${} out, ${} cache read, ${} cache write",
            price.input_usd, price.output_usd, price.cache_read_usd, price.cache_write_usd
        ))],
    }
}
