//! Names of exported files.
//!
//! Ids come from an agent, and possibly from an attacker. A name has only letters, digits, `-`, `_`
//! and single dots, begins with a date, and is short.

use std::collections::HashSet;

use quipu_ledger::wire::Session;

use crate::output::day;

/// Limit for the length of a name without its extension.
const MAX_NAME_CHARS: usize = 100;

/// Gives each session a different name.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Names in lower case, because some file systems ignore case.
    taken: HashSet<String>,
}

impl Names {
    /// Returns the name of a session's file, without its extension.
    pub(super) fn name_of(&mut self, session: &Session) -> String {
        let day = session.started_at.map_or_else(|| "undated".to_owned(), day);
        let name = safe(&format!("{day}-{}", session.session_id));
        let mut unique = name.clone();
        let mut number = 2;
        while !self.taken.insert(unique.to_lowercase()) {
            unique = format!("{name}-{number}");
            number += 1;
        }
        unique
    }
}

fn safe(text: &str) -> String {
    let mut name = String::new();
    for character in text.chars() {
        let is_safe = character.is_ascii_alphanumeric() || matches!(character, '_' | '.');
        let next = if is_safe { character } else { '-' };
        // `..` and `--` are never part of a name.
        if is_safe && next != '.' || !name.ends_with(next) {
            name.push(next);
        }
    }
    name.truncate(MAX_NAME_CHARS);
    let name = name.trim_matches(['-', '.']);
    if name.is_empty() { "session".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::safe;

    #[test]
    fn an_id_never_leads_out_of_the_folder() {
        for (id, name) in [
            ("2026-02-04-0a1b2c3d-0000-4000", "2026-02-04-0a1b2c3d-0000-4000"),
            ("../../etc/passwd", "etc-passwd"),
            ("a/agent-b", "a-agent-b"),
            ("a\0b\nc", "a-b-c"),
            ("..", "session"),
            ("", "session"),
            ("日本", "session"),
            (".hidden", "hidden"),
            ("a...b", "a.b"),
        ] {
            assert_eq!(safe(id), name);
        }
        assert!(safe(&"x".repeat(5000)).len() <= 100);
    }
}
