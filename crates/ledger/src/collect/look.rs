//! Decides, before anything is read, whether a known file only grew. Cheapest check first: device
//! and inode, size, the bytes just before the place reached, the first bytes. Only when those leave
//! a doubt is the whole prefix compared with what the ledger holds.

use std::io::ErrorKind;

use super::batch::{Began, Ends};
use super::discover::Stat;
use super::known::{Known, MARKER, print};
use super::view::View;
use crate::file::snapshot::Snapshot;
use crate::truth::chunks::RecordReader;
use crate::truth::{spans, tails};
use crate::{Error, Result};

/// What happened to a known file.
#[derive(Debug)]
pub(crate) enum Look {
    /// What was read is still there; more may follow.
    Grown(Ends),
    /// It holds something else now.
    Other(Began),
}

/// Looks at a file whose stat has changed and that holds `length` bytes. `verified` counts the bytes that had to be compared.
pub(crate) fn look(
    records: &mut RecordReader<'_>,
    file: &View,
    (stat, length): (&Stat, u64),
    known: &Known,
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
    // Grown in place is the everyday case. A replaced or merely touched file may differ anywhere.
    let is_grown_in_place = is_same_file && length > reached;
    if !is_grown_in_place && !has_same_prefix(records, file, known, verified)? {
        return Ok(Look::Other(otherwise));
    }
    Ok(Look::Grown(ends))
}

/// The first and last bytes of a file that holds what the ledger holds of it and nothing else.
pub(crate) fn same_content(
    records: &mut RecordReader<'_>,
    file: &View,
    length: u64,
    known: &Known,
    verified: &mut u64,
) -> Result<Option<Ends>> {
    if length != known.reached() {
        return Ok(None);
    }
    let Some(ends) = same_ends(file, known, verified)? else { return Ok(None) };
    Ok(has_same_prefix(records, file, known, verified)?.then_some(ends))
}

/// The first and last bytes of what was read of the file, if they are still the same.
fn same_ends(file: &View, known: &Known, verified: &mut u64) -> Result<Option<Ends>> {
    let reached = known.reached();
    let mut head = vec![0; known.head_length];
    let mut last = vec![0; usize::try_from(reached).unwrap_or(usize::MAX).min(MARKER)];
    let start = reached - last.len() as u64;
    if !fills(file, &mut head, 0)? || !fills(file, &mut last, start)? {
        return Ok(None);
    }
    *verified += (head.len() + last.len()) as u64;
    let is_same = print(&head) == known.head && print(&last) == known.marker;
    Ok(is_same.then(|| Ends::of(head, last)))
}

/// Compares the file with everything the ledger holds of it.
fn has_same_prefix(
    records: &mut RecordReader<'_>,
    file: &View,
    known: &Known,
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

/// Reads so many bytes, if the file has them. A disk that fails says nothing about what the file
/// holds: it must not be taken for a rewrite.
pub(crate) fn fills(file: &View, buffer: &mut [u8], at: u64) -> Result<bool> {
    match file.read_exact_at(buffer, at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(Error::Source(error)),
    }
}
