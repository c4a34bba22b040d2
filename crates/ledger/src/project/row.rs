//! Problems of a row of a database: a gap before it, an empty row, a row that could not be
//! decompressed.
//!
//! Only reads the ledger, and never changes a row.

use quipu_transcript::problem::{Problem, ProblemKind};
use rusqlite::{OptionalExtension, Transaction};

use super::RecordPosition;
use super::draft::Draft;
use crate::Result;
use crate::base::ids::{GenerationId, Seq};
use crate::truth::spans;

/// Returns the problems of a record that is a row.
pub(super) fn problems(
    tx: &Transaction<'_>,
    position: &RecordPosition<'_>,
    seq: Seq,
    draft: &mut Draft,
) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    // A line of an archive is not a row.
    let Some(number) = number(tx, position.generation, seq)? else { return Ok(problems) };
    // Each event is compressed separately. One that is still compressed could not be decompressed.
    for problem in &mut draft.problems {
        if problem.kind == ProblemKind::Encoding && problem.detail.ends_with("zstd") {
            problem.kind = ProblemKind::DamagedEvent;
        }
    }
    if draft.entries.is_empty() && draft.problems.is_empty() {
        problems.push(Problem::new(ProblemKind::RowEmpty, format!("row {number}")));
    }
    // Rows that a rewrite left unchanged keep their older numbers, so only rows of the same
    // generation are compared.
    let before = match spans::record_before(tx, position.generation, position.start)? {
        Some(before) => self::number(tx, position.generation, before)?,
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
