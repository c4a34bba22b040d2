//! Writes the pictures of a session to files.
//!
//! A picture is base64 text in the stored line, in one of the shapes that agents use.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use quipu_ledger::wire::WrittenPicture;
use serde_json::Value;

use crate::commands::Context;
use crate::error::{CommandError, Result};
use crate::output::{Style, Text, bytes, count};
use crate::reading::Reading;

/// The pictures of a session.
#[derive(Debug, Default)]
pub(super) struct Images {
    found: Vec<(String, Vec<u8>)>,
}

impl Images {
    /// Adds the pictures of a stored line, each once.
    pub(super) fn add(&mut self, line: &[u8]) {
        if let Ok(value) = serde_json::from_slice::<Value>(line) {
            self.walk(&value, 0);
        }
    }

    fn walk(&mut self, value: &Value, depth: usize) {
        const MAX_DEPTH: usize = 64;
        if depth > MAX_DEPTH {
            return;
        }
        match value {
            Value::Array(values) => values.iter().for_each(|value| self.walk(value, depth + 1)),
            Value::Object(fields) => {
                let text = |name: &str| fields.get(name).and_then(Value::as_str);
                let kind = ["media_type", "mimeType", "mediaType"].into_iter().find_map(text);
                let data = ["data", "base64"].into_iter().find_map(text);
                let kind = kind.filter(|kind| kind.starts_with("image/"));
                match kind.zip(data).and_then(|(kind, data)| Some((kind, decoded(data)?))) {
                    Some((kind, picture)) => {
                        let picture = (kind.to_owned(), picture);
                        if !self.found.contains(&picture) {
                            self.found.push(picture);
                        }
                    }
                    None => fields.values().for_each(|value| self.walk(value, depth + 1)),
                }
            }
            _ => {}
        }
    }

    /// Writes the pictures as `SESSION-1.png` and so on. An existing file is not changed.
    pub(super) fn write(
        &self,
        folder: &Path,
        session: &str,
        context: &mut Context,
        reading: &Reading,
    ) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|error| cannot("create", folder, &error))?;
        let name = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let session: String = session.chars().map(name).collect();
        let mut written = Vec::new();
        for (number, (kind, picture)) in self.found.iter().enumerate() {
            let ending = match kind.strip_prefix("image/") {
                Some("jpeg") => "jpg",
                Some(ending @ ("png" | "gif" | "webp" | "bmp" | "tiff")) => ending,
                Some("svg+xml") => "svg",
                _ => "bin",
            };
            let path = folder.join(format!("{session}-{}.{ending}", number + 1));
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&path)
                .map_err(|error| cannot("write", &path, &error))?;
            file.write_all(picture).map_err(|error| cannot("write", &path, &error))?;
            let media_type = kind.clone();
            let path = path.display().to_string();
            written.push(WrittenPicture { path, media_type, bytes: picture.len() });
        }
        if context.is_json {
            return written.iter().try_for_each(|picture| reading.json(context, picture));
        }
        for picture in &written {
            let size = bytes(picture.bytes as u64);
            let line =
                Text::plain(context.show(&picture.path)).with(Style::Dim, format!("  {size}"));
            context.output.line(line)?;
        }
        context.output.note(&format!("{} written", count(written.len() as u64, "picture")));
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}

/// Decodes base64 with the ordinary alphabet, or the one for URLs. Returns `None` for anything
/// else.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let text = text.split_once(";base64,").map_or(text, |(_, data)| data);
    let mut decoded = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut bit_count) = (0_u32, 0_u32);
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'\n' | b'\r' => continue,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        bit_count += 6;
        if bit_count >= 8 {
            bit_count -= 8;
            decoded.push((bits >> bit_count) as u8);
            bits &= (1 << bit_count) - 1;
        }
    }
    (!decoded.is_empty()).then_some(decoded)
}

fn cannot(action: &str, path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::from_source(anyhow::Error::msg(error.to_string()))
        .about(format!("cannot {action} {}", path.display()))
        .hint("name another folder with --images")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_both_alphabets_is_decoded() {
        assert_eq!(decoded("aGVycmluZw==").unwrap(), b"herring");
        assert_eq!(decoded("data:image/png;base64,-_8").unwrap(), [0xfb, 0xff]);
        assert_eq!(decoded("no base64!"), None);
        assert_eq!(decoded(""), None);
    }

    #[test]
    fn a_picture_is_found_in_every_shape_and_once() {
        let mut images = Images::default();
        images.add(br#"{"message":{"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}}"#);
        images.add(br#"{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"},{"type":"image","data":"aG8=","mimeType":"image/jpeg"}]}"#);
        images.add(b"not json");
        let kinds: Vec<&str> = images.found.iter().map(|(kind, _)| kind.as_str()).collect();
        assert_eq!(kinds, ["image/png", "image/jpeg"]);
    }
}
