//! Paths from the user, made absolute, and shortened again for printing.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{CommandError, Result};

/// Makes a path absolute: `~` is the home folder, a relative path starts at `base`.
pub(crate) fn resolve(path: &Path, home: Option<&Path>, base: &Path) -> Result<PathBuf> {
    let mut components = path.components();
    let first = components.next().map(|first| first.as_os_str().as_bytes());
    match (first, home) {
        (None, _) => Err(CommandError::new("the path is empty")),
        (Some(b"~"), Some(home)) => Ok(home.join(components.as_path())),
        (Some(b"~"), None) => {
            Err(CommandError::new(format!("cannot expand `~` in `{}`", path.display()))
                .hint("set HOME, or write the full path"))
        }
        (Some([b'~', ..]), _) => Err(CommandError::new(format!(
            "cannot expand another user's home in `{}`",
            path.display()
        ))
        .hint("write the full path, or begin with `./` if it is a file name")),
        _ => {
            let joined = base.join(path);
            Ok(std::path::absolute(&joined).unwrap_or(joined))
        }
    }
}

/// Returns the real path of a file that may not exist yet: links are resolved as far as it exists.
pub(crate) fn real(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_owned()
}

/// Returns a path with `~` for the home folder.
pub(crate) fn shorten(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: Option<&str>) {
        let resolved = resolve(Path::new(path), Some(Path::new("/home/alice")), Path::new("/base"));
        assert_eq!(resolved.ok().as_deref(), expected.map(Path::new));
    }

    #[test]
    fn paths_become_absolute() {
        check("/a/b", Some("/a/b"));
        check("a/./b", Some("/base/a/b"));
        check("~", Some("/home/alice"));
        check("~/a", Some("/home/alice/a"));
        check("./~bob", Some("/base/~bob"));
    }

    #[test]
    fn other_homes_and_nothing_are_refused() {
        check("~bob/a", None);
        check("", None);
        assert!(resolve(Path::new("~/a"), None, Path::new("/")).is_err());
    }

    #[test]
    fn home_is_shown_short() {
        let home = Some(Path::new("/home/alice"));
        assert_eq!(shorten(Path::new("/home/alice/a"), home), "~/a");
        assert_eq!(shorten(Path::new("/home/alice"), home), "~");
        assert_eq!(shorten(Path::new("/home/alicea"), home), "/home/alicea");
    }
}
