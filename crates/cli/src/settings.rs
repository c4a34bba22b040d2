//! Every effective setting and its origin: a flag, the environment, the configuration file, or the
//! default.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use quipu_ledger::collect::Selection;
use quipu_transcript::prices::Price;

use crate::args::{ColorWhen, Global};
use crate::config::{self, Config, Limits, UnknownKey};
use crate::error::{CommandError, Result};
use crate::paths::{resolve, shorten};
use crate::roots::{self, FormatRoots};
use crate::routing::StoreSettings;

/// All settings.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The home folder, if there is one.
    pub(crate) home: Option<PathBuf>,
    /// The configuration file, which may not exist; `None` without a home folder.
    pub(crate) config: Option<Setting<PathBuf>>,
    /// The ledger.
    pub(crate) ledger: Setting<PathBuf>,
    /// When to use colours.
    pub(crate) color: Setting<ColorWhen>,
    /// The highest priority that is collected.
    pub(crate) priority: Setting<u8>,
    /// True if deleted transcripts are collected.
    pub(crate) deleted: Setting<bool>,
    /// The roots of each format.
    pub(crate) roots: Vec<FormatRoots>,
    /// Prices from the configuration.
    pub(crate) prices: Setting<BTreeMap<String, Price>>,
    /// Limits of a plan.
    pub(crate) limits: Setting<Limits>,
    /// Context windows of models from the configuration, in tokens.
    pub(crate) windows: Setting<BTreeMap<String, u64>>,
    /// Routing, resets, admission and compaction of the session store.
    pub(crate) store: StoreSettings,
    /// Unknown keys of the configuration file.
    pub(crate) unknown: Vec<UnknownKey>,
}

impl Settings {
    /// Returns the selection of files to collect.
    pub(crate) fn selection(&self) -> Selection {
        Selection { priority: self.priority.value, deleted: self.deleted.value }
    }
}

/// A value and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

/// The origin of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A flag of this name.
    Flag(&'static str),
    /// An environment variable of this name.
    Environment(&'static str),
    /// The configuration file at this path.
    File(String),
    /// No setting was given.
    Default,
}

impl Origin {
    /// Describes the origin.
    pub(crate) fn describe(&self, home: Option<&Path>) -> String {
        match self {
            Origin::Flag(name) => format!("flag {name}"),
            Origin::Environment(name) => format!("environment variable {name}"),
            Origin::File(path) => format!("file {}", shorten(Path::new(path), home)),
            Origin::Default => "default".to_owned(),
        }
    }
}

/// Returns an environment variable; `None` if it is empty.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the path of the configuration file, whether or not it exists.
pub(crate) fn config_file(global: &Global) -> Result<Option<PathBuf>> {
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    let here = std::env::current_dir().unwrap_or_default();
    Ok(config_path(global, home.as_deref(), &here)?.map(|setting| setting.value))
}

/// Loads all settings.
pub(crate) fn load(global: &Global) -> Result<Settings> {
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    let home = home.as_deref();
    let here = std::env::current_dir().unwrap_or_default();
    let path = config_path(global, home, &here)?;
    let (config, file) = match &path {
        Some(setting) if must_exist(&setting.origin) || setting.value.exists() => {
            (config::read(&setting.value)?, setting.value.as_path())
        }
        _ => (Config::default(), Path::new("")),
    };
    let folder = file.parent().unwrap_or(Path::new(""));
    Ok(Settings {
        ledger: ledger(global, &config, file, home, &here)?,
        color: color(global, &config, file),
        priority: or_default(config.priority, Selection::default().priority, file),
        deleted: or_default(config.deleted, Selection::default().deleted, file),
        roots: roots::find(&config, &in_file(file), folder, home, &here)?,
        prices: Setting { value: config.prices, origin: in_file(file) },
        limits: Setting { value: config.limits, origin: in_file(file) },
        windows: Setting { value: config.windows, origin: in_file(file) },
        store: StoreSettings::new(config.store, file, home)?,
        unknown: config.unknown,
        config: path,
        home: home.map(Path::to_owned),
    })
}

/// Returns the colour mode before the configuration file is read.
pub(crate) fn early_color(flag: Option<ColorWhen>) -> ColorWhen {
    flag.or_else(|| variable("NO_COLOR").map(|_| ColorWhen::Never)).unwrap_or(ColorWhen::Auto)
}

fn config_path(
    global: &Global,
    home: Option<&Path>,
    here: &Path,
) -> Result<Option<Setting<PathBuf>>> {
    let named = |path: &Path, name| resolve_named(path, name, home, here);
    let (path, origin) = if let Some(path) = &global.config {
        (named(path, "--config")?, Origin::Flag("--config"))
    } else if let Some(path) = variable("QUIPU_CONFIG") {
        (named(Path::new(&path), "QUIPU_CONFIG")?, Origin::Environment("QUIPU_CONFIG"))
    } else if let Some(folder) = xdg("XDG_CONFIG_HOME") {
        (folder.join("quipu/config.toml"), Origin::Environment("XDG_CONFIG_HOME"))
    } else if let Some(home) = home {
        (home.join(".config/quipu/config.toml"), Origin::Default)
    } else {
        return Ok(None);
    };
    Ok(Some(Setting { value: path, origin }))
}

/// Returns whether the configuration file was named, so that it has to exist.
fn must_exist(origin: &Origin) -> bool {
    matches!(origin, Origin::Flag(_) | Origin::Environment("QUIPU_CONFIG"))
}

fn ledger(
    global: &Global,
    config: &Config,
    file: &Path,
    home: Option<&Path>,
    here: &Path,
) -> Result<Setting<PathBuf>> {
    let named = |path: &Path, name| resolve_named(path, name, home, here);
    let (value, origin) = if let Some(path) = &global.ledger {
        (named(path, "--ledger")?, Origin::Flag("--ledger"))
    } else if let Some(path) = variable("QUIPU_LEDGER") {
        (named(Path::new(&path), "QUIPU_LEDGER")?, Origin::Environment("QUIPU_LEDGER"))
    } else if let Some(path) = &config.ledger {
        let value = resolve(path, home, file.parent().unwrap_or(here));
        let what = || format!("cannot use `ledger` in {}", file.display());
        (value.map_err(|error| error.about(what()))?, in_file(file))
    } else if let Some(folder) = xdg("XDG_DATA_HOME") {
        (folder.join("quipu/ledger.db"), Origin::Environment("XDG_DATA_HOME"))
    } else if let Some(home) = home {
        (home.join(".local/share/quipu/ledger.db"), Origin::Default)
    } else {
        return Err(CommandError::new("cannot find the default ledger: there is no home folder")
            .hint("set HOME, or name the ledger with --ledger"));
    };
    Ok(Setting { value, origin })
}

fn color(global: &Global, config: &Config, file: &Path) -> Setting<ColorWhen> {
    let (value, origin) = if let Some(color) = global.color {
        (color, Origin::Flag("--color"))
    } else if variable("NO_COLOR").is_some() {
        (ColorWhen::Never, Origin::Environment("NO_COLOR"))
    } else if let Some(color) = config.color {
        (color, in_file(file))
    } else {
        (ColorWhen::Auto, Origin::Default)
    };
    Setting { value, origin }
}

/// Returns the value of the configuration file, or the default.
fn or_default<T>(value: Option<T>, default: T, file: &Path) -> Setting<T> {
    match value {
        Some(value) => Setting { value, origin: in_file(file) },
        None => Setting { value: default, origin: Origin::Default },
    }
}

/// Resolves a path from a flag or a variable.
pub(crate) fn resolve_named(
    path: &Path,
    name: &str,
    home: Option<&Path>,
    here: &Path,
) -> Result<PathBuf> {
    resolve(path, home, here).map_err(|error| error.about(format!("cannot use {name}")))
}

fn in_file(file: &Path) -> Origin {
    Origin::File(file.display().to_string())
}

/// Returns an XDG base folder. The standard requires relative ones to be ignored.
pub(crate) fn xdg(name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
