//! Decodes whole files of plain text: notes, outputs of tools.

use std::borrow::Cow;

use crate::entry::{Block, Entry};
use crate::problem::{Problem, ProblemKind};

/// Number of bytes at the beginning of a file in which a NUL byte marks it as binary, as in grep.
const BINARY_PROBE: usize = 8 << 10;

/// Returns the text of a file, or `None` if it is binary; adds oddities to the entry.
pub(super) fn text<'a>(entry: &mut Entry<'a>, bytes: &'a [u8], what: &str) -> Option<Cow<'a, str>> {
    let head = bytes.get(..BINARY_PROBE).unwrap_or(bytes);
    if memchr::memchr(0, head).is_some() {
        entry.blocks.push(Block::Other(Cow::Borrowed("binary")));
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    if matches!(text, Cow::Owned(_)) {
        entry.problems.push(Problem::new(ProblemKind::InvalidUtf8, what));
    }
    Some(text)
}
