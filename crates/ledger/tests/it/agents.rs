//! Keeps what belongs to one agent in its format: `project`, `read` and `collect` name no agent, in
//! code or in comments, except in files named after a format.

use std::fs;
use std::path::{Path, PathBuf};

use quipu_transcript::format;

/// The layers that serve every format alike.
const LAYERS: [&str; 3] = ["project", "read", "collect"];

/// Type names of single agents' records, which a format decodes into forms.
const TYPES: [&str; 12] = [
    "queue-operation",
    "file-history-snapshot",
    "progress\'",
    "\"progress\"",
    "custom_message",
    "isSidechain",
    "toolu_",
    "tool-output",
    "\'history\'",
    "\"history\"",
    "thinking_level_change",
    "session_info",
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn files(folder: PathBuf) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

/// Returns the words that name agents: names and titles of all formats, and of pi, whose lines some
/// of them write.
fn agents() -> Vec<String> {
    let mut names = vec!["pi".to_owned(), "codex".to_owned()];
    for format in format::FORMATS {
        names.push(format.name().to_owned());
        names.push(format.name().replace('-', "_"));
        names.extend(format.title().to_lowercase().split(' ').next().map(str::to_owned));
    }
    names
}

/// Returns whether a line has this word. A word of more than three letters also matches the
/// beginning of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !before.chars().next_back().is_some_and(is_part)
            && (word.len() > 3 || !after.chars().next().is_some_and(is_part))
    })
}

/// Returns true for a file that is named after a format, or is in a folder that is.
fn is_of_a_format(path: &Path) -> bool {
    let names: Vec<String> = format::all().map(|format| format.name().replace('-', "_")).collect();
    path.iter().any(|part| {
        let part = part.to_string_lossy();
        names.iter().any(|name| part.split('.').next() == Some(name))
    })
}

/// Returns true for a line that only declares or imports a file that is named after a format.
fn declares_a_file(line: &str) -> bool {
    let line = line.trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ");
    let path = line.strip_prefix("mod ").or(line.strip_prefix("use "));
    path.is_some_and(|path| {
        format::FORMATS.iter().any(|format| path.starts_with(&format.name().replace('-', "_")))
    })
}

#[test]
fn only_files_named_after_a_format_name_an_agent() {
    let (agents, mut found) = (agents(), Vec::new());
    for layer in LAYERS {
        for path in files(source().join(layer)) {
            let relative = path.strip_prefix(source()).unwrap();
            if is_of_a_format(relative) {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            // Unit tests have to use some format. They are at the end of their file.
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            for (number, line) in (1..).zip(code.lines()) {
                if declares_a_file(line) {
                    continue;
                }
                let lower = line.to_lowercase();
                let named = agents.iter().find(|agent| has_word(&lower, agent));
                let typed = TYPES.iter().find(|name| line.contains(**name));
                if let Some(word) = named.map(String::as_str).or(typed.copied()) {
                    let place = format!("{}:{number}", relative.display());
                    found.push(format!("{place} names `{word}`: {}", line.trim()));
                }
            }
        }
    }
    assert!(
        found.is_empty(),
        "what belongs to one agent is answered by its format (`Format`), not here:\n{}",
        found.join("\n")
    );
}

#[test]
fn words_are_found_whole() {
    assert!(has_word("// pi puts the time first", "pi"));
    assert!(!has_word("a pipe of copies", "pi"));
    assert!(has_word("let x = openclaw_names;", "openclaw"));
    assert!(!has_word("reopenclaw", "openclaw"));
}
