//! Decides, before anything is read, whether a known file only grew. The cheapest check comes
//! first: device and inode, size, the bytes before the cursor, the first bytes. Only if they leave
//! a doubt is the whole prefix compared with the ledger.

use std::io::ErrorKind;

use super::batch::{Began, Ends};
use super::known::{KnownSource, MARKER, fingerprint};
use super::view::View;
use crate::file::snapshot::Snapshot;
use crate::truth::chunks::RecordReader;
use crate::truth::sources::Stat;
use crate::truth::{spans, tails};
use crate::{Error, Result};

/// The change of a known file.
#[derive(Debug)]
pub(crate) enum Look {
    /// The bytes read before are unchanged; more may follow.
    Grown(Ends),
    /// The bytes read before have changed.
    Other(Began),
}

/// Inspects a file with changed metadata that holds `length` bytes. `verified` counts the compared
/// bytes.
pub(crate) fn look(
    records: &mut RecordReader<'_>,
    file: &View,
    (stat, length): (&Stat, u64),
    known: &KnownSource,
    verified: &mut u64,
) -> Result<Look> {
    let is_same_file = stat.file() == known.stat.file();
    let reached = known.reached();
    let otherwise = if known.is_gone {
        Began::Returned
    } else if !is_same_file {
        Began::Replaced
    } else if length < reached {
        Began::Truncated
    } else {
        Began::Rewritten
    };
    if length < reached {
        return Ok(Look::Other(otherwise));
    }
    let Some(ends) = same_ends(file, known, verified)? else {
        return Ok(Look::Other(otherwise));
    };
    // Growing in place is the common case. A replaced or touched file may differ anywhere.
    let is_grown_in_place = is_same_file && length > reached;
    let is_same = if !is_grown_in_place {
        has_same_prefix(records, file, known, verified)?
    } else if ends.end_in_a_run() {
        has_same_end(records, file, known, verified)?
    } else {
        true
    };
    Ok(if is_same { Look::Grown(ends) } else { Look::Other(otherwise) })
}

/// Returns the first and last bytes of a file whose content equals the ledger's.
pub(crate) fn same_content(
    records: &mut RecordReader<'_>,
    file: &View,
    length: u64,
    known: &KnownSource,
    verified: &mut u64,
) -> Result<Option<Ends>> {
    if length != known.reached() {
        return Ok(None);
    }
    let Some(ends) = same_ends(file, known, verified)? else { return Ok(None) };
    Ok(has_same_prefix(records, file, known, verified)?.then_some(ends))
}

/// Returns the first and last bytes of the part read before, if they are unchanged.
fn same_ends(file: &View, known: &KnownSource, verified: &mut u64) -> Result<Option<Ends>> {
    let reached = known.reached();
    let mut head = vec![0; known.head_length];
    let mut last = vec![0; usize::try_from(reached).unwrap_or(usize::MAX).min(MARKER)];
    let start = reached - last.len() as u64;
    if !fills(file, &mut head, 0)? || !fills(file, &mut last, start)? {
        return Ok(None);
    }
    *verified += (head.len() + last.len()) as u64;
    let is_same = fingerprint(&head) == known.head && fingerprint(&last) == known.marker;
    Ok(is_same.then(|| Ends::of(head, last)))
}

/// The number of bytes that are compared where the fingerprint covers a run of one byte.
const RUN_COMPARED_BYTES: u64 = 64 << 10;

/// Compares the file with the last bytes that the ledger has of it.
///
/// If the last bytes are a run of one byte, a file that was truncated inside the run and grew again
/// may have the same fingerprint.
fn has_same_end(
    records: &mut RecordReader<'_>,
    file: &View,
    known: &KnownSource,
    verified: &mut u64,
) -> Result<bool> {
    // Only a run of newlines can end before the tail.
    if known.tail_length == 0 {
        return has_same_prefix(records, file, known, verified);
    }
    let conn = records.conn();
    let _snapshot = Snapshot::of(conn)?;
    let mut before = i64::MAX;
    let mut compared = 0;
    let mut buffer = Vec::new();
    while compared < RUN_COMPARED_BYTES
        && let Some((start, piece)) = tails::previous(conn, known.generation, before)?
    {
        buffer.resize(piece.len(), 0);
        *verified += piece.len() as u64;
        if !fills(file, &mut buffer, start.cast_unsigned())? || buffer != piece {
            return Ok(false);
        }
        compared += piece.len() as u64;
        before = start;
    }
    Ok(true)
}

/// Compares the file with everything the ledger has of it.
fn has_same_prefix(
    records: &mut RecordReader<'_>,
    file: &View,
    known: &KnownSource,
    verified: &mut u64,
) -> Result<bool> {
    let mut at = 0_u64;
    let mut is_same = true;
    let mut buffer = Vec::new();
    let mut compare = |bytes: &[u8]| {
        if is_same {
            buffer.resize(bytes.len(), 0);
            is_same = fills(file, &mut buffer, at)? && buffer == bytes;
            *verified += bytes.len() as u64;
            at += bytes.len() as u64;
        }
        Ok(())
    };
    let conn = records.conn();
    let _snapshot = Snapshot::of(conn)?;
    spans::stream_from(records, known.generation, &mut compare)?;
    tails::stream(conn, known.generation, &mut compare)?;
    Ok(is_same)
}

/// Fills the buffer from the file. Returns false if the file is too short. An I/O error is returned
/// as such, so that a failing disk is not mistaken for a rewrite.
pub(crate) fn fills(file: &View, buffer: &mut [u8], at: u64) -> Result<bool> {
    match file.read_exact_at(buffer, at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(Error::Source(error)),
    }
}
