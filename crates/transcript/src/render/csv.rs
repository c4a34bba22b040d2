//! Writes rows of text for spreadsheets (RFC 4180).
//!
//! A spreadsheet treats a cell that begins with `=`, `+`, `-`, `@` or a control character as a
//! formula, even in quotes. Such a cell gets a leading apostrophe, which spreadsheets do not show.
//!
//! No cell holds a control character: newlines, tabs and escapes are written out (`\n`, `\t`,
//! `\u{1b}`), as on a terminal. A row is one line, even for programs that read lines.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

use super::clean::is_odd;

/// Writes one row.
pub fn row<'c>(cells: impl IntoIterator<Item = &'c str>, out: &mut dyn Write) -> io::Result<()> {
    let mut is_first = true;
    for cell in cells {
        if !std::mem::take(&mut is_first) {
            out.write_all(b",")?;
        }
        let apostrophe = if is_formula(cell) { "'" } else { "" };
        let cell = visible(cell);
        if cell.contains(['"', ',', '\'']) || cell.trim() != cell {
            write!(out, "\"{apostrophe}{}\"", cell.replace('"', "\"\""))?;
        } else {
            write!(out, "{apostrophe}{cell}")?;
        }
    }
    out.write_all(b"\r\n")
}

/// Formats a time in the form that spreadsheets parse, UTC.
pub fn time(ms: i64) -> Option<String> {
    super::words::exact(ms)
}

/// Replaces control characters, newlines and tabs by visible escapes.
fn visible(cell: &str) -> Cow<'_, str> {
    let is_hidden = |character| is_odd(character) || matches!(character, '\n' | '\t');
    if !cell.contains(is_hidden) {
        return Cow::Borrowed(cell);
    }
    let mut shown = String::with_capacity(cell.len() + 16);
    for character in cell.chars() {
        match character {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            character if is_hidden(character) => {
                // Writing to a string cannot fail.
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(character));
            }
            character => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// Returns whether a spreadsheet could treat a cell as a formula. Whitespace and invisible
/// characters are ignored, because some programs remove them first.
pub fn is_formula(cell: &str) -> bool {
    let seen = cell.trim_start_matches(|character: char| {
        character.is_whitespace() || character.is_control() || character == '\u{feff}'
    });
    // Some programs also treat the full-width forms as formulas.
    seen.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠'])
        || cell.starts_with(['\t', '\r', '\n', '\0'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(cells: &[&str]) -> String {
        let mut out = Vec::new();
        row(cells.iter().copied(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn cells_are_quoted_and_formulas_are_disarmed() {
        assert_eq!(written(&["a", "b c", "", "1"]), "a,b c,,1\r\n");
        assert_eq!(
            written(&["a,b", "say \"x\"", "two\nlines"]),
            "\"a,b\",\"say \"\"x\"\"\",two\\nlines\r\n"
        );
        assert_eq!(written(&["=1+1", "+1", "-1", "@x", "\t=1"]), "'=1+1,'+1,'-1,'@x,'\\t=1\r\n");
        assert_eq!(written(&[" =1", "a=1", "１"]), "\"' =1\",a=1,１\r\n");
    }

    #[test]
    fn no_cell_holds_a_control_character() {
        let hostile = "a\0b\x1b[2J\x7f\u{9b}31m\u{85}\r\n\u{202e}c\u{2066}\u{feff}";
        assert_eq!(
            written(&[hostile, "b"]),
            "a\\u{0}b\\u{1b}[2J\\u{7f}\\u{9b}31m\\u{85}\\r\\n\\u{202e}c\\u{2066}\\u{feff},b\r\n"
        );
        for character in '\0'..='\u{10ffff}' {
            let row = written(&[&format!("x{character}y")]);
            let cell = row.strip_suffix("\r\n").unwrap();
            assert!(!cell.contains(char::is_control), "{character:?}: {row:?}");
        }
    }

    proptest! {
        #[test]
        fn every_row_is_read_back(rows in prop::collection::vec(prop::collection::vec(any::<String>(), 3), 1..4)) {
            let mut out = Vec::new();
            for cells in &rows {
                row(cells.iter().map(String::as_str), &mut out).unwrap();
            }
            let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(&*out);
            let read: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
            prop_assert_eq!(read.len(), rows.len());
            for (cells, read) in rows.iter().zip(&read) {
                for (cell, read) in cells.iter().zip(read) {
                    prop_assert!(!read.starts_with(['=', '+', '-', '@', '\t', '\r']), "{:?}", read);
                    prop_assert!(!read.contains(char::is_control), "{:?}", read);
                    let cell = visible(cell);
                    let same = read == cell || read.strip_prefix('\'') == Some(&*cell);
                    prop_assert!(same, "{:?} was {:?}", read, cell);
                }
            }
        }
    }
}
