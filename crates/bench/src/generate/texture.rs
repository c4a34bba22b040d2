//! Measures the texture of a home's bytes, for a compressor and for a search index: the compression
//! ratio, and how often words repeat.
//!
//! Two homes with the same shares can be very different work. Source code, logs and listings repeat
//! the same names inside one result; text without repetition makes an index larger and an import
//! slower than real sessions do.

use std::collections::HashMap;

use serde_json::Value;

/// The number of bytes that are compressed at a time. It is not the ledger's chunk size: the
/// figures of real transcripts in `shares` were measured with it.
const PIECE_BYTES: usize = 512 * 1024;

/// The measurements of one agent's files.
#[derive(Debug, Default)]
pub(crate) struct Texture {
    /// Bytes that are not compressed yet, because there are too few for a piece.
    waiting: Vec<u8>,
    plain: usize,
    packed: usize,
    /// The count of each word in the whole home.
    words: HashMap<Box<str>, usize>,
    /// The number of words of all entries.
    n_words: usize,
    /// The number of distinct words of each entry, summed over all entries.
    n_distinct: usize,
    n_text_bytes: usize,
    /// The number of entries with words.
    n_entries: usize,
}

impl Texture {
    /// Adds the bytes of the next file.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
        while self.waiting.len() >= PIECE_BYTES {
            let rest = self.waiting.split_off(PIECE_BYTES);
            self.pack();
            self.waiting = rest;
        }
    }

    /// Adds the text of one line of a transcript.
    pub(crate) fn add_entry(&mut self, entry: &Value) {
        let mut text = String::new();
        push_content(&entry["message"]["content"], &mut text);
        let mut here: HashMap<&str, usize> = HashMap::new();
        let text = text.to_lowercase();
        for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
            *here.entry(word).or_default() += 1;
        }
        if here.is_empty() {
            return;
        }
        self.n_entries += 1;
        self.n_text_bytes += text.len();
        self.n_distinct += here.len();
        for (word, count) in here {
            self.n_words += count;
            match self.words.get_mut(word) {
                Some(before) => *before += count,
                None => drop(self.words.insert(word.into(), count)),
            }
        }
    }

    /// Compresses the remaining bytes; call it after the last file.
    pub(crate) fn finish(&mut self) {
        if !self.waiting.is_empty() {
            self.pack();
        }
    }

    fn pack(&mut self) {
        let piece = std::mem::take(&mut self.waiting);
        self.plain += piece.len();
        self.packed += zstd::bulk::compress(&piece, 3).map_or(piece.len(), |packed| packed.len());
    }

    /// Returns the compression ratio, by zstd at level 3 in pieces of 512 KiB.
    pub(crate) fn packed(&self) -> f64 {
        self.packed as f64 / self.plain.max(1) as f64
    }

    /// Returns the distinct words of all entries, counted within each entry, divided by all words.
    pub(crate) fn distinct(&self) -> f64 {
        self.n_distinct as f64 / self.n_words.max(1) as f64
    }

    /// Returns the mean number of words of an entry that has any.
    pub(crate) fn words_per_entry(&self) -> f64 {
        self.n_words as f64 / self.n_entries.max(1) as f64
    }

    /// Returns the bytes of text for each word, including the characters between words.
    pub(crate) fn bytes_per_word(&self) -> f64 {
        self.n_text_bytes as f64 / self.n_words.max(1) as f64
    }

    /// Returns the entropy of a word in bits, from its frequency in the home.
    pub(crate) fn bits_per_word(&self) -> f64 {
        let all = self.n_words.max(1) as f64;
        self.words.values().map(|count| *count as f64 / all).map(|p| -p * p.log2()).sum()
    }
}

/// Appends the text of a message's content that a search index receives.
fn push_content(content: &Value, out: &mut String) {
    match content {
        Value::Array(blocks) => {
            for block in blocks {
                match block["type"].as_str().unwrap_or_default() {
                    "tool_use" => push_strings(&block["input"], out),
                    "toolCall" => push_strings(&block["arguments"], out),
                    "tool_result" => push_content(&block["content"], out),
                    "thinking" => push_strings(&block["thinking"], out),
                    _ => push_strings(&block["text"], out),
                }
            }
        }
        text => push_strings(text, out),
    }
}

/// Appends every string inside a value, with a space after each.
fn push_strings(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => {
            out.push_str(text);
            out.push(' ');
        }
        Value::Array(items) => items.iter().for_each(|item| push_strings(item, out)),
        Value::Object(fields) => fields.values().for_each(|field| push_strings(field, out)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_in_their_entry_and_in_the_home() {
        let mut texture = Texture::default();
        texture.add_entry(&serde_json::json!({"message": {"content": "Read the_file, read."}}));
        texture.add_entry(&serde_json::json!({"message": {"content": [
            {"type": "tool_use", "input": {"command": "read", "limit": 3}},
            {"type": "tool_result", "content": [{"type": "text", "text": "the file"}]},
        ]}}));
        texture.add_entry(&serde_json::json!({"message": {"content": []}}));
        assert_eq!(texture.n_entries, 2);
        assert_eq!((texture.n_words, texture.n_distinct), (7, 6));
        let bits = texture.bits_per_word();
        assert!((1.5..1.6).contains(&bits), "{bits}: three words, one a little more frequent");
    }

    #[test]
    fn bytes_are_packed_across_files() {
        let mut texture = Texture::default();
        for _ in 0..3 {
            texture.add_bytes(&[b'a'; PIECE_BYTES / 2 + 1]);
        }
        assert_eq!(texture.plain, PIECE_BYTES);
        texture.finish();
        assert_eq!(texture.plain, 3 * (PIECE_BYTES / 2 + 1));
        assert!(texture.packed() < 0.01);
    }
}
