//! The settings of routing. quipu's own configuration overrides an `openclaw.json`, which overrides
//! the defaults.
//!
//! The `openclaw.json` is opened only here, and only if the configuration names it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quipu_transcript::routing::openclaw;
use quipu_transcript::routing::settings::{FileSettings, Settings as Routing};

use crate::config::{MAX_CONFIG_BYTES, Store, SummariserConfig};
use crate::error::{CommandError, Result};
use crate::paths::resolve;
use crate::settings::Origin;

/// The routing settings of the configuration.
#[derive(Debug)]
pub(crate) struct StoreSettings {
    /// The settings in quipu's own file.
    pub(crate) file_settings: FileSettings,
    /// The path of the `openclaw.json`, if the configuration names one.
    pub(crate) openclaw_config: Option<PathBuf>,
    /// The summariser of compactions.
    pub(crate) summariser: SummariserConfig,
    /// The workspaces of agents.
    pub(crate) workspaces: BTreeMap<String, PathBuf>,
    /// The path of quipu's own file.
    pub(crate) origin: Origin,
}

/// The effective settings, and the part of them from the `openclaw.json`.
#[derive(Debug)]
pub(crate) struct RoutingSettings {
    /// The effective settings.
    pub(crate) settings: Routing,
    /// The settings in the `openclaw.json`.
    pub(crate) openclaw: FileSettings,
}

impl StoreSettings {
    /// Resolves the paths in the `[store]` table of a configuration file; relative ones start at
    /// the folder of that file.
    pub(crate) fn new(store: Store, file: &Path, home: Option<&Path>) -> Result<StoreSettings> {
        let folder = file.parent().unwrap_or(Path::new(""));
        let named = store.openclaw_config.map(|path| {
            let what = || format!("cannot use `store.openclaw_config` in {}", file.display());
            resolve(&path, home, folder).map_err(|error| error.about(what()))
        });
        let workspaces = store.workspaces.into_iter().map(|(agent, path)| {
            let what = || format!("cannot use `store.workspaces.{agent}` in {}", file.display());
            match resolve(&path, home, folder) {
                Ok(path) => Ok((agent, path)),
                Err(error) => Err(error.about(what())),
            }
        });
        Ok(StoreSettings {
            workspaces: workspaces.collect::<Result<_>>()?,
            file_settings: store.file_settings,
            openclaw_config: named.transpose()?,
            summariser: store.summariser,
            origin: Origin::File(file.display().to_string()),
        })
    }

    /// Returns the effective settings.
    pub(crate) fn routing(&self) -> Result<RoutingSettings> {
        let openclaw = match &self.openclaw_config {
            Some(path) => read(path)?,
            None => FileSettings::default(),
        };
        let settings = Routing::default().with(openclaw.clone()).with(self.file_settings.clone());
        Ok(RoutingSettings { settings, openclaw })
    }
}

fn read(path: &Path) -> Result<FileSettings> {
    let failed = |error: anyhow::Error| {
        let what = format!("cannot use the OpenClaw configuration {}", path.display());
        CommandError::from_source(error.context(what))
            .hint("`store.openclaw_config` in quipu's configuration names it")
    };
    let text = quipu_ledger::files::read_named_file(path, MAX_CONFIG_BYTES)
        .and_then(|bytes| std::io::read_to_string(&*bytes))
        .map_err(|error| failed(error.into()))?;
    openclaw::read(&text).map_err(|error| failed(error.into()))
}
