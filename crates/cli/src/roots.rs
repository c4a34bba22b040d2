//! The folders in which each agent's files are looked for.
//!
//! A format names variables and folders in the home folder; `[roots]` in the configuration replaces
//! both for the formats it lists.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use quipu_ledger::collect::{Retention, RootPath, Selection};
use quipu_transcript::format::{FORMATS, Format};

use crate::config::Config;
use crate::error::Result;
use crate::paths::resolve;
use crate::settings::{Origin, Setting, resolve_named, variable};

/// The roots of one format.
#[derive(Clone)]
pub(crate) struct FormatRoots {
    /// The format.
    pub(crate) format: &'static dyn Format,
    /// Absolute paths without repetitions.
    pub(crate) paths: Vec<PathBuf>,
    /// The origin of the paths.
    pub(crate) origin: Origin,
    /// The time for which the agent keeps its transcripts.
    pub(crate) retention: Setting<Retention>,
}

impl std::fmt::Debug for FormatRoots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FormatRoots")
            .field("format", &self.format.name())
            .field("paths", &self.paths)
            .field("origin", &self.origin)
            .field("retention", &self.retention)
            .finish()
    }
}

/// Returns the roots of every format.
pub(crate) fn find(
    config: &Config,
    in_file: &Origin,
    folder: &Path,
    home: Option<&Path>,
    here: &Path,
) -> Result<Vec<FormatRoots>> {
    let mut all = Vec::with_capacity(FORMATS.len());
    for format in FORMATS.iter().copied() {
        let mut origin = Origin::Default;
        let mut paths = Vec::new();
        if let Some(configured) = config.roots.get(format.name()) {
            for path in configured {
                let what = || format!("cannot use `roots.{}` in the configuration", format.name());
                paths.push(resolve(path, home, folder).map_err(|error| error.about(what()))?);
            }
            origin = in_file.clone();
        } else {
            for root in format.roots() {
                if let Some(value) = variable(root.env) {
                    for path in listed(&value) {
                        paths.push(resolve_named(path, root.env, home, here)?);
                    }
                    origin = Origin::Environment(root.env);
                } else if let Some(home) = home {
                    paths.extend(root.home.iter().map(|place| home.join(place)));
                }
            }
        }
        let mut seen = std::collections::HashSet::new();
        paths.retain(|path| seen.insert(path.clone()));
        let retention = match config.retention.get(format.name()) {
            Some(retention) => Setting { value: *retention, origin: in_file.clone() },
            None => Setting { value: Retention::Assumed, origin: Origin::Default },
        };
        all.push(FormatRoots { format, paths, origin, retention });
    }
    Ok(all)
}

/// Returns the roots as the library takes them.
pub(crate) fn flatten(roots: &[FormatRoots], selection: Selection) -> Vec<RootPath> {
    roots
        .iter()
        .flat_map(|roots| {
            roots.paths.iter().map(move |path| RootPath {
                format: roots.format,
                path: path.clone(),
                selection,
                retention: roots.retention.value,
            })
        })
        .collect()
}

/// Splits the paths in a variable at commas. An existing folder with a comma in its name is one
/// path.
fn listed(value: &OsStr) -> Vec<&Path> {
    if Path::new(value).is_dir() {
        return vec![Path::new(value)];
    }
    value
        .as_bytes()
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|path| !path.is_empty())
        .map(|path| Path::new(OsStr::from_bytes(path)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_may_list_several_folders() {
        assert_eq!(listed(OsStr::new("/no/a, /no/b,,")), [Path::new("/no/a"), Path::new("/no/b")]);
    }

    #[test]
    fn configured_roots_replace_the_defaults_and_are_listed_once() {
        let mut config = Config::default();
        config.roots.insert("claude-code", vec!["a".into(), "/c/a".into(), "~/b".into()]);
        config.roots.insert("openclaw", Vec::new());
        let file = Origin::File("/c/config.toml".to_owned());
        let home = Some(Path::new("/home/alice"));
        let roots = find(&config, &file, Path::new("/c"), home, Path::new("/here")).unwrap();
        assert_eq!(roots[0].paths, [Path::new("/c/a"), Path::new("/home/alice/b")]);
        assert_eq!(roots[0].origin, file);
        assert!(roots[1].paths.is_empty());
        assert_eq!(flatten(&roots, Selection::default()).len(), 2);
    }
}
