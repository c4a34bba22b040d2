//! A generation's bytes in order. A span is a run of the generation's own records, or a reference
//! to the same bytes of an older generation. This module follows those chains of references.
//!
//! Spans refer to the previous generation, so a rewrite that changes one line adds three spans in a
//! file of any size. Every [`MAX_SPAN_GENERATIONS`]th generation refers to the owners of the
//! records instead. Chains of references stay short, so a file that was rewritten ten thousand
//! times is read as fast as one that was rewritten a few dozen times.

use rusqlite::{Connection, OptionalExtension, Row};

use crate::base::ids::{GenerationId, Seq};
use crate::truth::chunks::RecordReader;
use crate::{Error, Result};

/// The number of generations of a source after which spans are flattened.
const MAX_SPAN_GENERATIONS: i64 = 64;

/// A run of consecutive records of the owning generation. The first and the last may be partial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// The offset in the requested generation.
    pub(crate) start: u64,
    pub(crate) length: u64,
    /// The generation that owns the records, and the offset of the run there.
    pub(crate) owner: GenerationId,
    pub(crate) owner_start: u64,
    /// The first record, and the offset of the run inside it.
    pub(crate) first_seq: Seq,
    pub(crate) skip: u64,
}

/// A part of the requested generation that is still to be found in `generation`.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// The offset in the requested generation.
    to: u64,
    length: u64,
    generation: GenerationId,
    /// The offset in `generation`.
    from: u64,
}

/// Returns the first and last seq of each run of a generation's own records, in the order of its
/// bytes; `None` if some of its bytes belong to another generation.
pub(crate) fn own_records(
    conn: &Connection,
    generation: GenerationId,
) -> Result<Option<Vec<(i64, i64)>>> {
    let mut statement = conn.prepare_cached(
        "SELECT first_seq, last_seq FROM spans WHERE generation = ?1 ORDER BY start",
    )?;
    let mut rows = statement.query([generation])?;
    let mut own = Vec::new();
    while let Some(row) = rows.next()? {
        match (row.get(0)?, row.get(1)?) {
            (Some(first), Some(last)) => own.push((first, last)),
            _ => return Ok(None),
        }
    }
    Ok(Some(own))
}

/// Returns the runs of records that make up a generation's bytes, in order.
pub(crate) fn runs(conn: &Connection, generation: GenerationId) -> Result<Vec<Run>> {
    let mut statement = conn.prepare_cached(
        "SELECT start, length, first_seq, last_seq, from_generation, from_start
           FROM spans WHERE generation = ?1 ORDER BY start",
    )?;
    let mut load = |generation: GenerationId| -> Result<Vec<Span>> {
        let spans = statement.query_map([generation], Span::from_row)?;
        Ok(spans.collect::<Result<_, _>>()?)
    };
    let whole = load(generation)?;
    let length = whole.last().map_or(0, |span| span.start + span.length);
    let mut done: Vec<Run> = Vec::new();
    // Pieces by the generation they come from, newest first: references lead to older ones only.
    let mut open = std::collections::BTreeMap::new();
    open.insert(generation, vec![Piece { to: 0, length, generation, from: 0 }]);
    while let Some((generation, pieces)) = open.pop_last() {
        let spans = load(generation)?;
        let mut records = Starts::new(conn, pieces.len());
        for piece in pieces {
            let mut at = piece.from;
            let end = piece.from + piece.length;
            let mut index = spans.partition_point(|span| span.start + span.length <= at);
            while at < end {
                let Some(span) = spans.get(index).filter(|span| span.start <= at) else {
                    return Err(Error::damaged(format!(
                        "generation {} has no span at {at}",
                        generation.0
                    )));
                };
                let length = (span.start + span.length).min(end) - at;
                let to = piece.to + (at - piece.from);
                let inner = at - span.start;
                match (span.own, span.from) {
                    (_, Some((from, start))) => {
                        if from >= piece.generation {
                            return Err(Error::damaged(format!(
                                "generation {} refers to a later one",
                                generation.0
                            )));
                        }
                        open.entry(from).or_insert_with(Vec::new).push(Piece {
                            to,
                            length,
                            generation: from,
                            from: start + inner,
                        });
                    }
                    (Some(own), None) => {
                        let (first_seq, skip) = records.locate(span, own, at)?;
                        done.push(Run {
                            start: to,
                            length,
                            owner: generation,
                            owner_start: at,
                            first_seq,
                            skip,
                        });
                    }
                    (None, None) => {
                        return Err(Error::damaged("an unreadable span".to_owned()));
                    }
                }
                at += length;
                index += 1;
            }
        }
    }
    done.sort_by_key(|run| run.start);
    Ok(done)
}

struct Span {
    start: u64,
    length: u64,
    /// The first and the last of its own records.
    own: Option<(Seq, Seq)>,
    from: Option<(GenerationId, u64)>,
}

impl Span {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Span> {
        Ok(Span {
            start: row.get::<_, i64>(0)? as u64,
            length: row.get::<_, i64>(1)? as u64,
            own: row.get::<_, Option<Seq>>(2)?.zip(row.get::<_, Option<Seq>>(3)?),
            from: match row.get::<_, Option<GenerationId>>(4)? {
                Some(from) => Some((from, row.get::<_, i64>(5)? as u64)),
                None => None,
            },
        })
    }
}

/// Offsets of records, for finding the record at a byte of a span. Looks up single records, or
/// reads those of a whole span when many are wanted.
struct Starts<'c> {
    conn: &'c Connection,
    are_many: bool,
    /// The first record of a span, and the offsets of it and of those after it.
    whole: Option<(Seq, Vec<u64>)>,
}

/// The smallest number of lookups for which reading all offsets of a span is cheaper.
const MIN_FOR_WHOLE_SPAN: usize = 16;

impl<'c> Starts<'c> {
    fn new(conn: &'c Connection, wanted: usize) -> Starts<'c> {
        Starts { conn, are_many: wanted >= MIN_FOR_WHOLE_SPAN, whole: None }
    }

    /// Returns the record at byte `at` of a span of own records, and the offset of that byte in it.
    fn locate(&mut self, span: &Span, (first, last): (Seq, Seq), at: u64) -> Result<(Seq, u64)> {
        if at == span.start {
            return Ok((first, 0));
        }
        // Within a span, seqs are consecutive and grow with offsets.
        if self.are_many {
            let starts = self.of_span(first, last)?;
            let index = starts.partition_point(|start| *start <= at).saturating_sub(1);
            let start = starts.get(index).copied().unwrap_or(span.start);
            return Ok((Seq(first.0 + index as i64), at - start));
        }
        let mut start_of = self.conn.prepare_cached("SELECT start FROM records WHERE seq = ?1")?;
        let (mut low, mut high) = (first.0, last.0);
        let mut start = span.start;
        while low < high {
            let middle = low + (high - low + 1) / 2;
            let middle_start = start_of.query_row([middle], |row| row.get::<_, i64>(0))? as u64;
            if middle_start <= at {
                (low, start) = (middle, middle_start);
            } else {
                high = middle - 1;
            }
        }
        Ok((Seq(low), at - start))
    }

    fn of_span(&mut self, first: Seq, last: Seq) -> Result<&[u64]> {
        if self.whole.as_ref().is_none_or(|(seq, _)| *seq != first) {
            let starts = self
                .conn
                .prepare_cached(
                    "SELECT start FROM records WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq",
                )?
                .query_map((first, last), |row| row.get::<_, i64>(0).map(i64::cast_unsigned))?
                .collect::<Result<_, _>>()?;
            self.whole = Some((first, starts));
        }
        Ok(self.whole.as_ref().map_or(&[], |(_, starts)| starts.as_slice()))
    }
}

/// A run of bytes of some generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) generation: GenerationId,
    pub(crate) start: u64,
    pub(crate) length: u64,
}

/// Chooses the generations that the spans of a new generation refer to.
#[derive(Default)]
pub(crate) struct Flattener {
    runs: Option<(GenerationId, Vec<Run>)>,
}

impl Flattener {
    /// Returns the stretches that make up a stretch of an earlier generation: the stretch itself
    /// or, for every [`MAX_SPAN_GENERATIONS`]th generation, those of the generations that own its
    /// records.
    pub(crate) fn flatten(
        &mut self,
        conn: &Connection,
        number: i64,
        wanted: Stretch,
    ) -> Result<Vec<Stretch>> {
        if number % MAX_SPAN_GENERATIONS != 0 {
            return Ok(vec![wanted]);
        }
        let runs = match self.runs.take() {
            Some((generation, runs)) if generation == wanted.generation => runs,
            _ => runs(conn, wanted.generation)?,
        };
        let end = wanted.start + wanted.length;
        let first = runs.partition_point(|run| run.start + run.length <= wanted.start);
        let stretches = runs
            .iter()
            .skip(first)
            .take_while(|run| run.start < end)
            .map(|run| {
                let start = run.start.max(wanted.start);
                Stretch {
                    generation: run.owner,
                    start: run.owner_start + (start - run.start),
                    length: end.min(run.start + run.length) - start,
                }
            })
            .collect();
        self.runs = Some((wanted.generation, runs));
        Ok(stretches)
    }
}

/// Calls `each` with a generation's record bytes, in order, piece by piece.
pub(crate) fn stream(
    conn: &Connection,
    generation: GenerationId,
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    stream_from(&mut RecordReader::new(conn), generation, each)
}

/// Calls `each` like [`stream`], but reads through the caller's reader, so that chunks stay open
/// between generations.
pub(crate) fn stream_from(
    reader: &mut RecordReader<'_>,
    generation: GenerationId,
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    for run in runs(reader.conn(), generation)? {
        let mut left = run.length;
        let mut skip = run.skip;
        let mut seq = run.first_seq;
        while left > 0 {
            reader.stream(seq, &mut |part| {
                let skipped = skip.min(part.len() as u64) as usize;
                skip -= skipped as u64;
                let part = part.get(skipped..).unwrap_or_default();
                let taken = (part.len() as u64).min(left) as usize;
                left -= taken as u64;
                each(part.get(..taken).unwrap_or_default())?;
                Ok(left > 0)
            })?;
            seq = Seq(seq.0 + 1);
        }
    }
    Ok(())
}

/// Returns the record that holds the byte before `start` of a generation.
pub(crate) fn record_before(
    conn: &Connection,
    generation: GenerationId,
    start: u64,
) -> Result<Option<Seq>> {
    let (mut generation, mut at) = match start.checked_sub(1) {
        Some(at) => (generation, at),
        None => return Ok(None),
    };
    loop {
        let span = conn
            .prepare_cached(
                "SELECT start, length, first_seq, last_seq, from_generation, from_start
                   FROM spans WHERE generation = ?1 AND start <= ?2
                  ORDER BY start DESC LIMIT 1",
            )?
            .query_row((generation, at as i64), Span::from_row)
            .optional()?;
        match span {
            Some(span) if at < span.start + span.length => match (span.own, span.from) {
                (Some(own), _) => {
                    return Ok(Some(Starts::new(conn, 1).locate(&span, own, at)?.0));
                }
                (None, Some((from, from_start))) if from < generation => {
                    at = from_start + (at - span.start);
                    generation = from;
                }
                _ => return Ok(None),
            },
            _ => return Ok(None),
        }
    }
}
