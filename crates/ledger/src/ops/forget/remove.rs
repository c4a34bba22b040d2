//! Removes a session from truth. Only this module deletes or changes rows of `records` and changes
//! bytes of a record: lines of shared files become blanks of the same length.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use quipu_transcript::format;
use rusqlite::{OptionalExtension, Transaction};

use super::marks_of;
use super::repack::{self, Changes};
use super::scope::Scope;
use crate::base::ids::{GenerationId, SourceId};
use crate::collect::Ends;
use crate::truth::forgotten::Forgotten;
use crate::truth::forgotten::shared_lines;
use crate::truth::{indexes, sources, spans, sums, tails};
use crate::{Error, Result};

/// Removes everything in `scope`, in the caller's transaction.
pub(super) fn remove(tx: &Transaction<'_>, scope: &Scope) -> Result<()> {
    refuse_dangling(tx, scope)?;
    let mut changes = Changes {
        deleted: scope.own.clone(),
        blanked: scope.lines.blanked.clone(),
        taken_over: BTreeMap::new(),
    };
    let pointers = take_over(tx, &mut changes)?;
    let repacked = repack::aside(tx, &changes)?;
    blank_pending(tx, &changes)?;
    for (seq, holder) in pointers {
        tx.prepare_cached("UPDATE records SET same_as = ?2 WHERE seq = ?1")?
            .execute((seq, holder))?;
    }
    for seq in &changes.blanked {
        tx.prepare_cached("UPDATE records SET same_as = NULL WHERE seq = ?1")?.execute([seq])?;
    }
    for (first, last) in changes.deleted.ranges() {
        for table in ["records", "pending", "record_rows"] {
            tx.prepare_cached(&format!("DELETE FROM {table} WHERE seq BETWEEN ?1 AND ?2"))?
                .execute((first, last))?;
        }
    }
    empty_sources(tx, scope)?;
    repack::swap(tx, &repacked)?;
    for generation in &scope.lines.tails {
        tails::delete(tx, *generation)?;
        sources::drop_tail(tx, *generation)?;
    }
    for generation in &scope.lines.generations {
        update_fingerprints(tx, *generation)?;
    }
    shorten_indexes(tx, &marks_of(&scope.names))
}

/// Removes the keys of forgotten sessions from the indexes.
fn shorten_indexes(tx: &Transaction<'_>, marks: &Forgotten) -> Result<()> {
    let sources: Vec<(SourceId, String, Vec<u8>)> = tx
        .prepare(
            "SELECT i.source, s.format, s.first_path
               FROM indexes i JOIN sources s ON s.id = i.source",
        )?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<Result<_, _>>()?;
    for (source, name, path) in sources {
        let Some(format) = format::by_name(&name) else { continue };
        let Some(bytes) = indexes::load(tx, source)? else { continue };
        let left = marks.shorten_index(format, &format.origin(&path), &bytes);
        if let Cow::Owned(left) = left {
            indexes::store(tx, source, &indexes::pack(&left)?)?;
        }
    }
    Ok(())
}

/// Refuses to continue if a remaining generation refers to bytes of a removed one. Only generations
/// of one session share bytes that way, so this never happens in a sound ledger.
fn refuse_dangling(tx: &Transaction<'_>, scope: &Scope) -> Result<()> {
    let going: HashSet<GenerationId> = scope.generations.iter().copied().collect();
    let mut statement = tx.prepare(
        "SELECT DISTINCT generation, from_generation FROM spans
          WHERE from_generation IS NOT NULL",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (user, owner): (GenerationId, GenerationId) = (row.get(0)?, row.get(1)?);
        if going.contains(&owner) && !going.contains(&user) {
            return Err(Error::damaged(format!(
                "generation {} of another session shares bytes with generation {}",
                user.0, owner.0
            )));
        }
    }
    Ok(())
}

/// Assigns bytes of removed records to records of other sessions that share them: the first one
/// takes the bytes over, the others refer to it. Returns the new reference of each.
fn take_over(tx: &Transaction<'_>, changes: &mut Changes) -> Result<Vec<(i64, Option<i64>)>> {
    let is_lost = |changes: &Changes, seq: i64| {
        changes.deleted.contains(seq) || changes.blanked.contains(&seq)
    };
    let mut heirs: BTreeMap<i64, i64> = BTreeMap::new();
    let mut pointers = Vec::new();
    let mut statement =
        tx.prepare("SELECT seq, same_as FROM records WHERE same_as IS NOT NULL ORDER BY seq")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (seq, holder): (i64, i64) = (row.get(0)?, row.get(1)?);
        if is_lost(changes, seq) || !is_lost(changes, holder) {
            continue;
        }
        match heirs.get(&holder) {
            Some(heir) => pointers.push((seq, Some(*heir))),
            None => {
                heirs.insert(holder, seq);
                pointers.push((seq, None));
            }
        }
    }
    changes.taken_over = heirs.into_iter().map(|(holder, heir)| (heir, holder)).collect();
    Ok(pointers)
}

fn blank_pending(tx: &Transaction<'_>, changes: &Changes) -> Result<()> {
    for seq in &changes.blanked {
        let bytes: Option<Vec<u8>> = tx
            .prepare_cached("SELECT bytes FROM pending WHERE seq = ?1")?
            .query_row([seq], |row| row.get(0))
            .optional()?;
        if let Some(mut bytes) = bytes {
            shared_lines::blank(&mut bytes);
            tx.prepare_cached("UPDATE pending SET bytes = ?2, sum = ?3 WHERE seq = ?1")?
                .execute((seq, &bytes, sums::of(&bytes)))?;
        }
    }
    Ok(())
}

/// Empties the sources. Each stays as a refused source with one empty generation, so that it is
/// never read again.
fn empty_sources(tx: &Transaction<'_>, scope: &Scope) -> Result<()> {
    for generation in &scope.generations {
        tails::delete(tx, *generation)?;
        for table in ["spans", "row_cursors", "damaged", "damaged_bytes"] {
            tx.prepare_cached(&format!("DELETE FROM {table} WHERE generation = ?1"))?
                .execute([generation])?;
        }
    }
    for source in &scope.sources {
        sources::forget(tx, source.id)?;
    }
    Ok(())
}

/// Updates the fingerprints of a generation whose bytes changed.
fn update_fingerprints(tx: &Transaction<'_>, generation: GenerationId) -> Result<()> {
    let mut ends = Ends::default();
    let mut add = |part: &[u8]| {
        ends.add(part);
        Ok(())
    };
    spans::stream(tx, generation, &mut add)?;
    tails::stream(tx, generation, &mut add)?;
    sources::set_prints(tx, generation, &ends.prints())
}
