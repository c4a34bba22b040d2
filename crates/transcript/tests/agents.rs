//! Keeps what belongs to one agent in its format: `story`, `search` and `render` name no agent, in
//! code or in comments.

#![expect(clippy::unwrap_used, reason = "a source file that cannot be read fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

use quipu_transcript::format::FORMATS;

/// The folders that serve every format alike.
const FOLDERS: [&str; 3] = ["story", "search", "render"];

/// Type names of single agents' records.
const TYPES: [&str; 4] = ["queue-operation", "custom_message", "\"progress\"", "isSidechain"];

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

#[test]
fn stories_search_and_renderings_name_no_agent() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let words: Vec<String> = FORMATS
        .iter()
        .filter_map(|format| format.title().split(' ').next())
        .map(str::to_lowercase)
        .chain(TYPES.map(str::to_owned))
        .collect();
    let mut found = Vec::new();
    for folder in FOLDERS {
        for path in files(source.join(folder)) {
            let relative = path.strip_prefix(&source).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            // Tests have to use some agent.
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            if relative.ends_with("tests.rs") {
                continue;
            }
            for (number, line) in (1..).zip(code.lines()) {
                let lower = line.to_lowercase();
                if let Some(word) = words.iter().find(|word| lower.contains(&word.to_lowercase())) {
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
