//! What a row of a database says beyond its bytes: whether rows are missing before it, whether it
//! holds anything, and whether that could be unpacked.

use quipu_transcript::problem::{Problem, ProblemKind};
use rusqlite::{OptionalExtension, Transaction};

use super::Place;
use super::draft::Draft;
use crate::Result;
use crate::base::ids::{GenerationId, Seq};
use crate::truth::spans;

/// What is odd about the row that a record is.
pub(super) fn problems(
    tx: &Transaction<'_>,
    place: &Place<'_>,
    seq: Seq,
    draft: &mut Draft,
) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    // The lines of an archive are no rows.
    let Some(number) = number(tx, place.generation, seq)? else { return Ok(problems) };
    // Events are compressed one by one; one that is still compressed could not be unpacked.
    for problem in &mut draft.problems {
        if problem.kind == ProblemKind::Encoding && problem.detail.ends_with("zstd") {
            problem.kind = ProblemKind::DamagedEvent;
        }
    }
    if draft.entries.is_empty() && draft.problems.is_empty() {
        problems.push(Problem::new(ProblemKind::RowEmpty, format!("row {number}")));
    }
    // Rows that a rewrite left as they were have their numbers from before it, so only rows of the
    // same life are compared.
    let before = match spans::record_before(tx, place.generation, place.start)? {
        Some(before) => self::number(tx, place.generation, before)?,
        None => None,
    };
    if let Some(before) = before.filter(|before| before.checked_add(1) != Some(number)) {
        let detail = format!("row {number} after row {before}");
        problems.push(Problem::new(ProblemKind::RowGap, detail));
    }
    Ok(problems)
}

fn number(tx: &Transaction<'_>, generation: GenerationId, seq: Seq) -> Result<Option<i64>> {
    Ok(tx
        .prepare_cached(
            "SELECT w.number FROM record_rows w JOIN records r ON r.seq = w.seq
              WHERE w.seq = ?1 AND r.generation = ?2",
        )?
        .query_row((seq, generation), |row| row.get(0))
        .optional()?)
}
