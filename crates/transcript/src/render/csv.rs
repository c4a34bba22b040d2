//! Rows of text for spreadsheets (RFC 4180).
//!
//! A spreadsheet takes a cell that begins with `=`, `+`, `-`, `@` or a control character for a
//! formula, even in quotes. Such a cell gets a leading apostrophe, which spreadsheets do not show.

use std::io::{self, Write};

/// Writes one row.
pub fn row<'c>(cells: impl IntoIterator<Item = &'c str>, out: &mut dyn Write) -> io::Result<()> {
    let mut is_first = true;
    for cell in cells {
        if !std::mem::take(&mut is_first) {
            out.write_all(b",")?;
        }
        let apostrophe = if is_formula(cell) { "'" } else { "" };
        if cell.contains(['"', ',', '\n', '\r', '\'']) || cell.trim() != cell {
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

/// Returns true if a spreadsheet could take a cell for a formula. White space and invisible
/// characters are ignored, because some programs remove them first.
fn is_formula(cell: &str) -> bool {
    let seen = cell.trim_start_matches(|character: char| {
        character.is_whitespace() || character.is_control() || character == '\u{feff}'
    });
    // Some programs also take the full-width forms for formulas.
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
    fn cells() {
        assert_eq!(written(&["a", "b c", "", "1"]), "a,b c,,1\r\n");
        assert_eq!(
            written(&["a,b", "say \"x\"", "two\nlines"]),
            "\"a,b\",\"say \"\"x\"\"\",\"two\nlines\"\r\n"
        );
        assert_eq!(written(&["=1+1", "+1", "-1", "@x", "\t=1"]), "'=1+1,'+1,'-1,'@x,\"'\t=1\"\r\n");
        assert_eq!(written(&[" =1", "a=1", "１"]), "\"' =1\",a=1,１\r\n");
    }

    proptest! {
        #[test]
        fn reads_back(rows in prop::collection::vec(prop::collection::vec(any::<String>(), 3), 1..4)) {
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
                    let same = read == cell || read.strip_prefix('\'') == Some(cell);
                    prop_assert!(same, "{:?} was {:?}", read, cell);
                }
            }
        }
    }
}
