//! The shapes of settings and of supported formats.

use serde::Serialize;

/// One setting.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Setting {
    /// Its name.
    pub setting: String,
    /// Its value.
    pub value: SettingValue,
    /// The origin of the value.
    pub origin: SettingOrigin,
    /// The name of the flag or variable, or the path of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// The kind of place that a setting comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SettingOrigin {
    /// A flag.
    Flag,
    /// An environment variable.
    Environment,
    /// A configuration file.
    File,
    /// No setting was given.
    Default,
}

/// A setting's value.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum SettingValue {
    /// True or false.
    Flag(bool),
    /// A whole number.
    Number(u64),
    /// US dollars.
    Dollars(f64),
    /// A word, a text or a path.
    Text(String),
    /// Several words or paths.
    Texts(Vec<String>),
    /// The prices of a model.
    Price(ModelPrice),
}

/// The prices of a model, in US dollars for a million tokens.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelPrice {
    /// The price of uncached input tokens.
    pub input_usd: f64,
    /// The price of output tokens.
    pub output_usd: f64,
    /// The price of input tokens read from the cache.
    pub cache_read_usd: f64,
    /// The price of input tokens written to the cache for five minutes.
    pub cache_write_usd: f64,
    /// The price of input tokens written to the cache for an hour.
    pub cache_write_1h_usd: f64,
    /// The factor of the fast mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_factor: Option<f64>,
}

/// A supported format.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SupportedFormat<'a> {
    /// Its stable name.
    pub format: &'a str,
    /// The product's name.
    pub product: &'a str,
    /// The version of its decoder.
    pub decoder_version: u32,
    /// The environment variables that override its folders.
    pub variables: Vec<&'a str>,
    /// The folders in the home folder where its files are looked for.
    pub home_folders: Vec<&'a str>,
    /// The folders that files are collected from.
    pub root_paths: Vec<String>,
    /// The files that are read.
    pub reads: Vec<FilePattern<'a>>,
    /// The number of days without a change after which the agent deletes a transcript.
    pub cleanup_days: Option<u32>,
}

/// The files of a format that are read for one purpose.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FilePattern<'a> {
    /// Their path, with placeholders.
    pub path: &'a str,
    /// Their meaning.
    pub meaning: &'a str,
}
