//! Describes what a person chose to show the model: files that were open, selected or mentioned.
//!
//! All other attached texts (reminders, hooks, lists of tools) are Claude Code's own.

use super::envelope;
use crate::story::path_line;

/// The labels of attached texts that a person chose, each with its words.
const WORDS: &[(&str, &str)] = &[
    ("ide_opened_file", "opened file"),
    ("opened_file_in_ide", "opened file"),
    ("ide_selection", "selection"),
    ("selected_lines_in_ide", "selection"),
    ("ide_diagnostics", "diagnostics"),
    ("diagnostics", "diagnostics"),
    ("file", "file"),
    ("already_read_file", "file"),
    ("pdf_reference", "file"),
    ("directory", "folder"),
    ("edited_text_file", "edited file"),
    ("edited_image_file", "edited file"),
    ("nested_memory", "memory file"),
];

/// Maximum number of bytes in which a path is searched for. It comes early in these texts.
const SEARCHED_BYTES: usize = 1024;

/// Maximum width of the path, in columns: the rest of a line of 80.
const PATH_COLUMNS: usize = 60;

/// Returns what a person chose to show, in a few words; `None` for any other attached text.
pub(super) fn by_person(label: &str, text: &str) -> Option<String> {
    let (_, words) = WORDS.iter().find(|(known, _)| *known == label)?;
    let text = envelope::inner(text, label).unwrap_or(text);
    Some(match path_in(text) {
        Some(path) => format!("{words} {}", path_line(path, PATH_COLUMNS)),
        None => (*words).to_owned(),
    })
}

/// Returns the first word of a text that is a path.
fn path_in(text: &str) -> Option<&str> {
    let start = text.get(..text.floor_char_boundary(SEARCHED_BYTES))?;
    let is_apart = |character: char| {
        character.is_whitespace() || matches!(character, '"' | '<' | '>' | '{' | '}' | '(' | ')')
    };
    let words = start.split(is_apart).map(|word| word.trim_end_matches([':', ',', '.', ';']));
    words.into_iter().find(|word| {
        word.len() > 1 && word.contains(['/', '\\']) && !word.starts_with("/system-reminder")
    })
}

#[cfg(test)]
mod tests {
    use super::by_person;

    #[test]
    fn chosen_texts_are_named_by_their_path() {
        for (label, text, expected) in [
            (
                "ide_opened_file",
                "<ide_opened_file>The user opened the file /src/a.rs in the IDE. This may or may not be related.</ide_opened_file>",
                Some("opened file /src/a.rs"),
            ),
            (
                "ide_selection",
                "<ide_selection>The user selected the lines 1 to 2 from C:\\src\\a.rs:\nlet x = 1 / y;</ide_selection>",
                Some("selection C:\\src\\a.rs"),
            ),
            ("ide_selection", "<ide_selection>nothing</ide_selection>", Some("selection")),
            (
                "file",
                "<system-reminder>\nCalled the Read tool with the following input: {\"file_path\":\"/w/README.md\"}\n</system-reminder>",
                Some("file /w/README.md"),
            ),
            ("directory", "src/deep\na.rs\nb.rs", Some("folder src/deep")),
            ("system-reminder", "<system-reminder>/a/b</system-reminder>", None),
            ("hook_success", "/a/b", None),
        ] {
            assert_eq!(by_person(label, text).as_deref(), expected, "{label}");
        }
    }
}
