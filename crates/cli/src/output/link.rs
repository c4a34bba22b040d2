//! Links to files (OSC 8), on terminals that are known to support them.
//!
//! A link is a style, so that it survives cutting and wrapping of text. The targets are kept here.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The number of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkId(u16);

/// The targets of all links of this process.
static TARGETS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Returns the link to a file; `None` for a relative path, or if there are too many links.
pub(super) fn to_file(path: &Path) -> Option<LinkId> {
    if !path.is_absolute() {
        return None;
    }
    let url = url(path);
    let mut targets = TARGETS.lock().unwrap_or_else(PoisonError::into_inner);
    let number = match targets.iter().rposition(|known| *known == url) {
        Some(number) => number,
        None => {
            targets.push(url);
            targets.len() - 1
        }
    };
    u16::try_from(number).ok().map(LinkId)
}

/// Returns the target of a link.
pub(super) fn target(LinkId(number): LinkId) -> String {
    let targets = TARGETS.lock().unwrap_or_else(PoisonError::into_inner);
    targets.get(usize::from(number)).cloned().unwrap_or_default()
}

/// Returns the `file:` URL of a path. Everything but plain characters is percent-encoded, so that
/// no file name can end the escape sequence.
fn url(path: &Path) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut url = "file://".to_owned();
    for byte in host.bytes().chain(path.as_os_str().as_bytes().iter().copied()) {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
    url
}

/// Returns whether the terminal is known to support links.
pub(super) fn is_supported(variable: impl Fn(&str) -> Option<String>) -> bool {
    let has = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    if let Some(forced) = variable("FORCE_HYPERLINK") {
        return forced != "0";
    }
    let term = variable("TERM").unwrap_or_default();
    // tmux and screen may be on any terminal, and old ones print the target.
    if has("TMUX") || term.starts_with("screen") || term.starts_with("tmux") || term == "dumb" {
        return false;
    }
    let program = variable("TERM_PROGRAM").unwrap_or_default();
    let is_known = ["iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio", "Tabby"]
        .contains(&program.as_str());
    let vte = variable("VTE_VERSION").and_then(|version| version.parse::<u32>().ok());
    is_known
        || vte.is_some_and(|version| version >= 5000)
        || ["KITTY_WINDOW_ID", "WT_SESSION", "KONSOLE_VERSION"].into_iter().any(has)
        || ["kitty", "alacritty", "foot", "ghostty", "contour"].iter().any(|it| term.contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_ends_the_sequence() {
        let url = url(Path::new("/a b/\u{1b}\\é;\u{7}"));
        assert!(url.ends_with("/a%20b/%1B%5C%C3%A9%3B%07"), "{url}");
        let link = to_file(Path::new("/a")).unwrap();
        assert_eq!(to_file(Path::new("/a")), Some(link));
        assert!(target(link).starts_with("file://") && target(link).ends_with("/a"));
        assert_eq!(to_file(Path::new("a")), None);
    }

    #[test]
    fn only_known_terminals_have_links() {
        let with = |variables: &[(&str, &str)]| {
            is_supported(|name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, it)| (*it).to_owned())
            })
        };
        assert!(with(&[("TERM", "xterm-kitty")]));
        assert!(with(&[("TERM", "xterm-256color"), ("VTE_VERSION", "7600")]));
        assert!(with(&[("TERM_PROGRAM", "WezTerm")]));
        assert!(!with(&[("TERM_PROGRAM", "WezTerm"), ("TMUX", "/tmp/x")]));
        assert!(!with(&[("TERM", "xterm-256color")]));
        assert!(!with(&[("TERM", "xterm-256color"), ("VTE_VERSION", "4000")]));
        assert!(with(&[("FORCE_HYPERLINK", "1")]));
        assert!(!with(&[("FORCE_HYPERLINK", "0"), ("TERM", "xterm-kitty")]));
    }
}
