//! Writes changes that the plan found without reading a file: renamed, gone, returned, and tails
//! that have not changed for a while.

use rusqlite::Transaction;

use super::plan::{Plan, Renamed};
use super::position::{Position, is_at, is_known_path};
use super::tail;
use super::write::Writer;
use crate::Result;
use crate::base::clock;
use crate::truth::journal::Event;
use crate::truth::sources;

impl Writer<'_> {
    /// Writes the renamed, gone and returned sources of a plan, and the tails that have not
    /// changed for a while.
    pub(crate) fn changes(&mut self, tx: &Transaction<'_>, plan: &Plan) -> Result<()> {
        let at = clock::now_ms();
        self.renames(tx, &plan.renamed, at)?;
        for known in &plan.back {
            if sources::set_gone(tx, known.source, false)? {
                self.event(tx, &Event::Back { at, source: known.source.0 })?;
            }
        }
        for known in &plan.gone {
            if !is_at(tx, &Position::of(known))? || !sources::set_gone(tx, known.source, true)? {
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
                sources::set_tail_stands(tx, known.generation)?;
                self.tails.insert(known.generation);
            }
        }
        Ok(())
    }

    fn renames(&mut self, tx: &Transaction<'_>, renamed: &[Renamed], at: i64) -> Result<()> {
        // Two sources may have swapped their paths, so each gets a unique path first.
        for Renamed { known, .. } in renamed {
            let mut aside = known.path.clone();
            aside.extend_from_slice(format!("\0{}", known.source.0).as_bytes());
            sources::put_aside(tx, known.source, &known.path, &aside)?;
        }
        for Renamed { known, root, path } in renamed {
            let is_taken = is_known_path(tx, &known.format, root, path)?;
            let (root, path) = if is_taken { (&known.root, &known.path) } else { (root, path) };
            sources::set_path(tx, known.source, root, path)?;
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
