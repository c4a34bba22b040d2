//! The context windows of models: one dated list. The configuration corrects and extends it.
//!
//! Nothing is guessed from a similar name. Where a maker offers a larger window at an extra price,
//! the ordinary one is listed: an early compaction does no harm.

use crate::prices::plain_name;

/// The day on which the list was last checked.
pub const AS_OF: &str = "2026-11-18";

/// Plain names of models, and the context window of each, in tokens.
const LIST: &[(u64, &[&str])] = &[
    (
        1_000_000,
        &[
            "claude-fable-5-1",
            "claude-fable-5",
            "claude-opus-5-5",
            "claude-opus-5",
            "claude-opus-4-8",
            "claude-opus-4-7",
            "claude-opus-4-6",
            "claude-sonnet-5",
            "claude-sonnet-4-6",
        ],
    ),
    (
        200_000,
        &[
            "claude-opus-4-5",
            "claude-opus-4-1",
            "claude-opus-4",
            "claude-opus-4-0",
            "claude-3-opus",
            "claude-sonnet-4-5",
            "claude-sonnet-4",
            "claude-sonnet-4-0",
            "claude-3-7-sonnet",
            "claude-3-5-sonnet",
            "claude-3-sonnet",
            "claude-haiku-4-5",
            "claude-3-5-haiku",
            "claude-3-haiku",
            "o1",
            "o3",
            "o3-mini",
            "o4-mini",
        ],
    ),
    (272_000, &["gpt-6-sol", "gpt-6-luna", "gpt-5.5", "gpt-5.4"]),
    (
        400_000,
        &[
            "gpt-5.4-mini",
            "gpt-5.3-codex",
            "gpt-5.2",
            "gpt-5.1",
            "gpt-5",
            "gpt-5-mini",
            "gpt-5-nano",
        ],
    ),
    (1_047_576, &["gpt-4.1", "gpt-4.1-mini", "gpt-4.1-nano"]),
    (128_000, &["gpt-4o", "gpt-4o-mini", "gpt-4-turbo"]),
    (8_192, &["gpt-4"]),
    (
        1_048_576,
        &[
            "gemini-3.1-pro",
            "gemini-3-flash",
            "gemini-3.1-flash-lite",
            "gemini-2.5-pro",
            "gemini-2.5-flash",
            "gemini-2.5-flash-lite",
        ],
    ),
];

/// Returns the context window of a model, in tokens, by its name in a transcript; `None` if it is not
/// listed.
pub fn window_of(model: &str) -> Option<u64> {
    let name = plain_name(model);
    LIST.iter().find(|(_, names)| names.contains(&name.as_str())).map(|(window, _)| *window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_one_window() {
        let mut names: Vec<&str> =
            LIST.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        for name in names {
            assert_eq!(plain_name(name), name, "a name that is never looked up");
        }
        assert_eq!(window_of("us.anthropic.claude-sonnet-4-5-20250929-v1:0"), Some(200_000));
        assert_eq!(window_of("gpt-99"), None);
    }
}
