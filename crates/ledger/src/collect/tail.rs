//! The bytes after a file's last newline, loaded from the ledger.
//!
//! Storing and deleting these bytes is the job of `truth::tails`.

use quipu_transcript::format::{Format, Origin};
use quipu_transcript::record::{DECODE_LIMIT, OVERSIZE_HEAD};
use rusqlite::Connection;

use super::known::KnownSource;
use crate::Result;
use crate::project::draft::{Draft, Drafter, mark_unterminated};
use crate::truth::tails;

/// The unterminated tail of a file in the ledger.
#[derive(Default)]
pub(super) struct Tail {
    /// The bytes; empty if they are too long for memory.
    pub(super) bytes: Vec<u8>,
    pub(super) length: u64,
    pub(super) long_head: Option<Vec<u8>>,
}

impl Tail {
    pub(super) fn load(conn: &Connection, known: &KnownSource) -> Result<Tail> {
        if known.tail_length == 0 {
            return Ok(Tail::default());
        }
        let is_long = known.tail_length > DECODE_LIMIT as u64;
        let (bytes, long_head) = if is_long {
            (Vec::new(), Some(tails::head(conn, known.generation, OVERSIZE_HEAD)?))
        } else {
            (tails::read(conn, known.generation)?, None)
        };
        Ok(Tail { bytes, length: known.tail_length, long_head })
    }
}

/// Returns the draft of a generation's tail that will never get a newline.
pub(crate) fn closing(
    conn: &Connection,
    format: &'static dyn Format,
    origin: &Origin,
    known: &KnownSource,
) -> Result<Option<Draft>> {
    if known.tail_length == 0 {
        return Ok(None);
    }
    let drafter = Drafter::new(format, origin);
    if known.tail_length > DECODE_LIMIT as u64 {
        let head = tails::head(conn, known.generation, OVERSIZE_HEAD)?;
        return Ok(Some(drafter.draft_oversize(&head, known.tail_length)));
    }
    let mut draft = drafter.draft(&tails::read(conn, known.generation)?);
    mark_unterminated(&mut draft, origin.part);
    Ok(Some(draft))
}
