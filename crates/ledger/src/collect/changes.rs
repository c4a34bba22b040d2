//! Writes what a look at the disk found out without reading a file: moved, gone, back, standing tails.

use rusqlite::Transaction;

use super::plan::{Plan, Renamed};
use super::position::{Position, is_at, is_followed};
use super::tail;
use super::write::Writer;
use crate::Result;
use crate::base::clock;
use crate::base::ids::SourceId;
use crate::truth::journal::Event;

impl Writer<'_> {
    /// Writes what the plan found out without reading: moved, gone, returned, standing tails.
    pub(crate) fn changes(&mut self, tx: &Transaction<'_>, plan: &Plan) -> Result<()> {
        let at = clock::now_ms();
        self.renames(tx, &plan.renamed, at)?;
        for known in &plan.back {
            if set_gone(tx, known.source, false)? {
                self.event(tx, &Event::Back { at, source: known.source.0 })?;
            }
        }
        for known in &plan.gone {
            if !is_at(tx, &Position::of(known))? || !set_gone(tx, known.source, true)? {
                continue;
            }
            if let Some(format) = quipu_transcript::format::by_name(&known.format) {
                let origin = format.origin(&known.first_path);
                let draft = tail::closing(tx, format, &origin, known)?;
                self.close(tx, format, &origin, &mut Position::of(known), draft)?;
            }
            self.event(tx, &Event::Gone { at, source: known.source.0 })?;
        }
        for known in &plan.standing {
            if is_at(tx, &Position::of(known))? {
                tx.prepare_cached("UPDATE generations SET tail_stands = 1 WHERE id = ?1")?
                    .execute([known.generation])?;
                self.tails.insert(known.generation);
            }
        }
        Ok(())
    }

    fn renames(&mut self, tx: &Transaction<'_>, renamed: &[Renamed], at: i64) -> Result<()> {
        // Paths may be swapped among the renamed, so each is put aside first.
        for Renamed { known, .. } in renamed {
            let mut aside = known.path.clone();
            aside.extend_from_slice(format!("\0{}", known.source.0).as_bytes());
            tx.prepare_cached("UPDATE sources SET path = ?2 WHERE id = ?1 AND path = ?3")?
                .execute((known.source, aside, &known.path))?;
        }
        for Renamed { known, root, path } in renamed {
            let is_taken = is_followed(tx, &known.format, root, path)?;
            let (root, path) = if is_taken { (&known.root, &known.path) } else { (root, path) };
            tx.prepare_cached("UPDATE sources SET root = ?2, path = ?3 WHERE id = ?1")?
                .execute((known.source, root, path))?;
            if is_taken {
                continue;
            }
            let seq = self.event(tx, &Event::Renamed { at, source: known.source.0 })?;
            tx.prepare_cached("INSERT INTO source_paths (source, seq, path) VALUES (?1, ?2, ?3)")?
                .execute((known.source, seq, &known.path))?;
        }
        Ok(())
    }
}

/// Marks a source as gone or back. False if it already was.
fn set_gone(tx: &Transaction<'_>, source: SourceId, is_gone: bool) -> Result<bool> {
    let changed = tx
        .prepare_cached("UPDATE sources SET is_gone = ?2 WHERE id = ?1 AND is_gone <> ?2")?
        .execute((source, is_gone))?;
    Ok(changed > 0)
}
