//! Removes a session from truth. The one place where rows of `records` are deleted or changed, and
//! where bytes of a record change: lines of shared files become blanks of the same length.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use quipu_transcript::format;
use rusqlite::{OptionalExtension, Transaction};

use super::marks_of;
use super::repack::{self, Changes};
use super::scope::Scope;
use crate::base::ids::{GenerationId, SourceId};
use crate::collect::{Ends, without_forgotten};
use crate::truth::forgotten::shared_lines;
use crate::truth::forgotten::{FORGOTTEN, Forgotten};
use crate::truth::{indexes, spans, sums, tails};
use crate::{Error, Result};

/// Removes everything in `scope`, in one transaction with whatever else the caller does.
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
    for (first, last) in changes.deleted.iter() {
        for table in ["records", "pending", "record_rows"] {
            tx.prepare_cached(&format!("DELETE FROM {table} WHERE seq BETWEEN ?1 AND ?2"))?
                .execute((first, last))?;
        }
    }
    empty_sources(tx, scope)?;
    repack::swap(tx, &repacked)?;
    for generation in &scope.lines.tails {
        tails::delete(tx, *generation)?;
        tx.prepare_cached("UPDATE generations SET tail_length = 0, tail_stands = 0 WHERE id = ?1")?
            .execute([generation])?;
    }
    for generation in &scope.lines.generations {
        print_again(tx, *generation)?;
    }
    shorten_indexes(tx, &marks_of(&scope.sessions))
}

/// Leaves what is said about forgotten sessions out of the indexes.
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
        let left = without_forgotten(format, &format.origin(&path), &bytes, marks);
        if let Cow::Owned(left) = left {
            indexes::store(tx, source, &indexes::pack(&left)?)?;
        }
    }
    Ok(())
}

/// No generation that stays may refer to bytes of one that goes. Only lives of one session share
/// bytes that way, so this never happens; if it does, nothing is changed.
fn refuse_dangling(tx: &Transaction<'_>, scope: &Scope) -> Result<()> {
    let going: HashSet<GenerationId> = scope.generations.iter().copied().collect();
    let mut statement = tx.prepare(
        "SELECT DISTINCT generation, from_generation FROM spans
          WHERE from_generation IS NOT NULL",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (user, of): (GenerationId, GenerationId) = (row.get(0)?, row.get(1)?);
        if going.contains(&of) && !going.contains(&user) {
            return Err(Error::damaged(format!(
                "generation {} of another session shares bytes with generation {}",
                user.0, of.0
            )));
        }
    }
    Ok(())
}

/// Other sessions' records whose bytes are held by records that go: the first of them takes the
/// bytes over, the others point at it. Returns what each has to point at.
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

/// Keeps of each source that it is known and never read again, and an empty life.
fn empty_sources(tx: &Transaction<'_>, scope: &Scope) -> Result<()> {
    for generation in &scope.generations {
        tails::delete(tx, *generation)?;
        for table in ["spans", "row_cursors", "damaged", "damaged_bytes"] {
            tx.prepare_cached(&format!("DELETE FROM {table} WHERE generation = ?1"))?
                .execute([generation])?;
        }
    }
    for source in &scope.sources {
        tx.prepare_cached("UPDATE sources SET refused = ?2 WHERE id = ?1")?
            .execute((source.id, FORGOTTEN))?;
        tx.prepare_cached(
            "DELETE FROM generations
              WHERE source = ?1
                AND id <> (SELECT generation FROM sources WHERE id = ?1)",
        )?
        .execute([source.id])?;
        tx.prepare_cached(
            "UPDATE generations
                SET cursor = 0, tail_length = 0, tail_stands = 0, head = x'', head_length = 0,
                    marker = x'', records = 0
              WHERE source = ?1",
        )?
        .execute([source.id])?;
    }
    Ok(())
}

/// Fingerprints a generation again whose bytes have changed.
fn print_again(tx: &Transaction<'_>, generation: GenerationId) -> Result<()> {
    let mut ends = Ends::default();
    let mut add = |part: &[u8]| {
        ends.add(part);
        Ok(())
    };
    spans::stream(tx, generation, &mut add)?;
    tails::stream(tx, generation, &mut add)?;
    let prints = ends.prints();
    tx.prepare_cached(
        "UPDATE generations SET head = ?2, head_length = ?3, marker = ?4 WHERE id = ?1",
    )?
    .execute((generation, prints.head, prints.head_length as i64, prints.marker))?;
    Ok(())
}
