//! Splits the text of a query into words as the index does.
//!
//! SQLite's own tokenizer decides. Its rule for plain ASCII is short and is applied here. Never
//! reads the ledger.

use rusqlite::Connection;

use crate::Result;

/// Returns the words of `text`, as the tokenizer of the index splits it.
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
        "CREATE VIRTUAL TABLE query_text USING fts5 (text, content = '', tokenize = 'unicode61');
         CREATE VIRTUAL TABLE words USING fts5vocab (query_text, instance);",
    )?;
    // SQLite ends a text at NUL. The index has a space instead.
    conn.execute("INSERT INTO query_text (rowid, text) VALUES (1, ?1)", [text.replace('\0', " ")])?;
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
    fn other_scripts_lose_case_and_accents() {
        assert_eq!(words("Grüße, ПОИСК").unwrap(), ["gruße", "поиск"]);
        assert_eq!(words("…—“”").unwrap(), Vec::<String>::new());
    }
}
