//! Names of exported files.
//!
//! Ids are an agent's or an attacker's; what reaches a path is letters, digits, `-`, `_` and single
//! dots, behind a date, and not long.

use std::collections::HashSet;

use quipu_ledger::wire::Session;

use crate::output::day;

/// Names are no longer than this, without their ending.
const LONGEST: usize = 100;

/// Gives each session a name of its own.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// As file systems compare that do not tell upper from lower case.
    taken: HashSet<String>,
}

impl Names {
    /// The name of a session's file, without its ending.
    pub(super) fn of(&mut self, session: &Session) -> String {
        let day = session.started_at.map_or_else(|| "undated".to_owned(), day);
        let name = safe(&format!("{day}-{}", session.id));
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
        // `..` and `--` never stand in a name.
        if is_safe && next != '.' || !name.ends_with(next) {
            name.push(next);
        }
    }
    name.truncate(LONGEST);
    let name = name.trim_matches(['-', '.']);
    if name.is_empty() { "session".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::safe;

    #[test]
    fn ids_never_lead_anywhere() {
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
