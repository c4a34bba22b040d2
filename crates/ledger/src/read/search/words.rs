//! The words of a query as the index has them. SQLite's own tokenizer decides; for plain ASCII its
//! rule is short enough to be applied here.

use rusqlite::Connection;

use crate::Result;

/// The words of `text`: what the index's tokenizer makes of it.
pub(crate) fn words(text: &str) -> Result<Vec<String>> {
    if text.is_ascii() {
        return Ok(text
            .split(|character: char| !character.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_ascii_lowercase)
            .collect());
    }
    let conn = Connection::open_in_memory()?;
    conn.execute_batch(
        "CREATE VIRTUAL TABLE said USING fts5 (text, content = '', tokenize = 'unicode61');
         CREATE VIRTUAL TABLE words USING fts5vocab (said, instance);",
    )?;
    // SQLite ends a text at NUL; in the index it is a space.
    conn.execute("INSERT INTO said (rowid, text) VALUES (1, ?1)", [text.replace('\0', " ")])?;
    let mut statement = conn.prepare("SELECT term FROM words ORDER BY offset")?;
    let words = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_is_split_as_sqlite_does() {
        for text in ["a-b", "@x", "foo_bar.baz()", "A1 b2", "==", "x\0y", "\u{7f}a\tb"] {
            let by_sqlite = words(&format!("{text} é")).unwrap();
            let mut by_us = words(text).unwrap();
            by_us.push("e".to_owned());
            assert_eq!(by_us, by_sqlite, "{text:?}");
        }
    }

    #[test]
    fn other_scripts_are_folded() {
        assert_eq!(words("Grüße, ПОИСК").unwrap(), ["gruße", "поиск"]);
        assert_eq!(words("…—“”").unwrap(), Vec::<String>::new());
    }
}
