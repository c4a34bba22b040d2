//! The bytes after a file's last newline, as the ledger has them.

use quipu_transcript::format::{Format, Origin};
use quipu_transcript::record::{DECODE_LIMIT, OVERSIZE_HEAD};
use rusqlite::Connection;

use super::known::Known;
use crate::Result;
use crate::project::draft::{Draft, Drafter, mark_unterminated};
use crate::truth::tails;

/// The unterminated tail that the ledger has of a file.
#[derive(Default)]
pub(super) struct Tail {
    /// Empty if it is too long for memory.
    pub(super) bytes: Vec<u8>,
    pub(super) length: u64,
    pub(super) long_head: Option<Vec<u8>>,
}

impl Tail {
    pub(super) fn load(conn: &Connection, known: &Known) -> Result<Tail> {
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

/// What the unterminated tail of a generation says that gets no newline any more.
pub(crate) fn closing(
    conn: &Connection,
    format: &'static dyn Format,
    origin: &Origin,
    known: &Known,
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
