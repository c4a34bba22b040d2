//! Decodes a record's bytes into entries, whether the bytes are damaged or not.
//!
//! An intact record takes one call of the format's decoder. A damaged one goes through recovery,
//! which takes linear time and never loses a record next to the damage.

use crate::entry::Entry;
use crate::format::{Format, Framing, Origin};
use crate::problem::{Problem, ProblemKind};
use crate::recover;

/// Records above this size, in bytes, are not decoded whole: type, id, parent, time and the first
/// words come from their head.
pub const DECODE_LIMIT: usize = 32 << 20;

/// Bytes that are read of a record above [`DECODE_LIMIT`].
pub const OVERSIZE_HEAD: usize = 64 << 10;

/// Decodes one record, passes each entry to `each`, and returns the problems of the record as a
/// whole. A blank line has neither entries nor problems.
///
/// `bytes` is the record with or without its line end.
///
/// ```
/// use quipu_transcript::format::{self, Origin, Part};
/// use quipu_transcript::record;
///
/// let format = format::by_name("claude-code").unwrap();
/// let origin = Origin::of(Part::Transcript, "640ab4c7.jsonl");
/// let line = br#"{"type":"user","message":{"role":"user","content":"hello"}}"#;
/// let mut texts = Vec::new();
/// record::read(format, &origin, line, &mut |entry| texts.push(entry.text().into_owned()));
/// assert_eq!(texts, ["hello"]);
///
/// // A damaged record is a list of problems, never an error.
/// assert!(!record::read(format, &origin, b"{\"type\":", &mut |_| {}).is_empty());
/// ```
pub fn read(
    format: &dyn Format,
    origin: &Origin,
    bytes: &[u8],
    each: &mut dyn FnMut(&Entry<'_>),
) -> Vec<Problem> {
    if is_whole(origin) {
        each(&format.decode_document(origin, bytes));
        return Vec::new();
    }
    let line = bytes.trim_ascii();
    if line.is_empty() {
        return Vec::new();
    }
    match format.decode(origin, line) {
        Ok(entry) => {
            each(&entry);
            Vec::new()
        }
        Err(_) => recover::read(format, origin, line, each),
    }
}

/// Decodes the head of a record that is too long to decode whole. `head` is its first
/// [`OVERSIZE_HEAD`] bytes, `length` its full length.
pub fn read_oversize(
    format: &dyn Format,
    origin: &Origin,
    head: &[u8],
    length: u64,
    each: &mut dyn FnMut(&Entry<'_>),
) -> Vec<Problem> {
    let head = whole_characters(head);
    if is_whole(origin) {
        each(&format.decode_document(origin, head));
        let detail = format!("{length} bytes");
        return vec![Problem::new(ProblemKind::Oversize, detail)];
    }
    recover::read_head(format, origin, head, length, each)
}

/// Returns whether the whole file is one record.
fn is_whole(origin: &Origin) -> bool {
    match origin.part.framing() {
        Framing::Document | Framing::Index => true,
        Framing::Lines | Framing::Rows => false,
    }
}

/// Returns `bytes` without a character that was cut off at their end.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => {
            bytes.get(..error.valid_up_to()).unwrap_or(bytes)
        }
        _ => bytes,
    }
}
