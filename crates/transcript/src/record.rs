//! From a record's bytes to its entries, whatever state the bytes are in.
//!
//! The healthy path is one call of the format's decoder. Anything else goes through recovery,
//! which works in linear time and never loses a neighbour.

use crate::entry::Entry;
use crate::format::{Format, Framing, Origin};
use crate::problem::{Problem, ProblemKind};
use crate::recover;

/// Records above this size are not decoded whole: type, id, parent, time and the first words come
/// from their head.
pub const DECODE_LIMIT: usize = 32 << 20;

/// How much of a record above [`DECODE_LIMIT`] is looked at.
pub const OVERSIZE_HEAD: usize = 64 << 10;

/// Reads one record, hands each entry found to `each`, and returns what was odd about the record
/// as a whole. Blank lines have neither entries nor problems.
///
/// `bytes` is the record with or without its line end.
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

/// Reads the head of a record that is too long to be decoded whole. `head` is its first
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

/// Whether the file as a whole is the record.
fn is_whole(origin: &Origin) -> bool {
    match origin.part.framing() {
        Framing::Document | Framing::Index => true,
        Framing::Lines | Framing::Rows => false,
    }
}

/// Bytes without a character that was cut off at their end.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => {
            bytes.get(..error.valid_up_to()).unwrap_or(bytes)
        }
        _ => bytes,
    }
}
