//! Finds the entries that match a pattern: in the index, and in the text where the index cannot
//! answer.
//!
//! Never ranks them, and applies no filter but that of sessions, which saves reading text.

use quipu_fts5::{Index, Matches, Phrase, RowId};
use regex::Regex;
use rusqlite::Connection;

use super::filter::Filters;
use super::pattern::{Group, Pattern, Side};
use super::scan;
use crate::Result;
use crate::base::ids::EntryId;
use crate::wire::Scanned;

/// Finds entries in some columns.
pub(super) struct Finder<'f, 'c> {
    pub(super) conn: &'c Connection,
    pub(super) index: &'f Index<'c>,
    pub(super) filters: &'f Filters<'c>,
    pub(super) column_mask: u8,
}

impl Finder<'_, '_> {
    /// Returns the entries that match, and what was read of their text.
    pub(super) fn find(&self, pattern: &Pattern) -> Result<(Matches, Option<Scanned>)> {
        let mut scanned = None;
        let sides = pattern.sides.iter().map(|side| {
            let phrases = &side.wanted.phrases;
            let found = match phrases.is_empty() {
                true => None,
                false => Some(self.index.find(phrases, &phrases_of(side), self.column_mask)?),
            };
            self.side(side, found, &mut scanned)
        });
        let sides: Vec<Matches> = sides.collect::<Result<_>>()?;
        Ok((Matches::any_of(sides), scanned))
    }

    /// Returns those of the entries that the index found for a side whose text matches, too.
    /// `None` if the index was not asked. Entries with a single unwanted phrase are already removed
    /// from those of the index.
    pub(super) fn side(
        &self,
        side: &Side,
        found: Option<Matches>,
        scanned: &mut Option<Scanned>,
    ) -> Result<Matches> {
        let literals = &side.wanted.literals;
        let without: Vec<Regex> =
            side.unwanted.iter().filter_map(Group::as_literal).cloned().collect();
        let is_indexed = found.is_some();
        let mut matches = match found {
            Some(matches) => matches,
            // The whole ledger is scanned in the order of its bytes.
            None if !literals.is_empty() && self.filters.sessions().is_none() => {
                let found = scan::scan(self.conn, (literals, &without), self.column_mask, None)?;
                add(scanned, found.scanned);
                let mut matches = unscored(&found.entries);
                self.index.remove(&mut matches, &phrases_of(side), self.column_mask)?;
                self.remove_groups(side, &mut matches, scanned)?;
                return Ok(matches);
            }
            None => {
                let mut matches = self.all_entries()?;
                self.index.remove(&mut matches, &phrases_of(side), self.column_mask)?;
                matches
            }
        };
        if !literals.is_empty() || !without.is_empty() {
            let found = self.scan(&matches, (literals, &without), scanned)?;
            match is_indexed {
                true => matches.retain(|rowid, _| is_in(&found, rowid)),
                false => matches = unscored(&found),
            }
        }
        self.remove_groups(side, &mut matches, scanned)?;
        Ok(matches)
    }

    /// Removes the entries that match all of several unwanted words.
    fn remove_groups(
        &self,
        side: &Side,
        matches: &mut Matches,
        scanned: &mut Option<Scanned>,
    ) -> Result<()> {
        let is_single = |group: &Group| group.as_phrase().is_some() || group.as_literal().is_some();
        for group in side.unwanted.iter().filter(|group| !is_single(group)) {
            let mut unwanted = match group.phrases.is_empty() {
                false => self.index.find(&group.phrases, &[], self.column_mask)?,
                true => Matches::without_phrases(
                    matches.list().iter().map(|found| (found.rowid, found.columns())),
                ),
            };
            unwanted.retain(|rowid, _| matches.find(rowid).is_some());
            if !group.literals.is_empty() {
                let found = self.scan(&unwanted, (&group.literals, &[]), scanned)?;
                unwanted.retain(|rowid, _| is_in(&found, rowid));
            }
            matches.retain(|rowid, _| unwanted.find(rowid).is_none());
        }
        Ok(())
    }

    /// Returns those of the entries whose text matches.
    fn scan(
        &self,
        matches: &Matches,
        expressions: (&[Regex], &[Regex]),
        scanned: &mut Option<Scanned>,
    ) -> Result<Vec<(EntryId, u8)>> {
        let among: Vec<EntryId> = matches.rowids().map(EntryId::from).collect();
        let found = scan::scan(self.conn, expressions, self.column_mask, Some(&among))?;
        add(scanned, found.scanned);
        Ok(found.entries)
    }

    /// Returns every entry that has words in the columns, of the sessions that pass.
    fn all_entries(&self) -> Result<Matches> {
        let Some(sessions) = self.filters.sessions() else {
            return Ok(Matches::without_phrases(self.index.rows(self.column_mask)?));
        };
        let mut statement = self.conn.prepare_cached(
            "SELECT id FROM entry_rows WHERE session IS ?1
              UNION ALL
             SELECT output FROM tool_call_rows
              WHERE session = ?1 AND output_name IS NOT NULL AND output IS NOT NULL",
        )?;
        let mut entries: Vec<RowId> = Vec::new();
        let none = std::iter::once(None);
        for session in sessions.iter().copied().map(Some).chain(none) {
            let mut rows = statement.query([session])?;
            while let Some(row) = rows.next()? {
                entries.push(row.get(0)?);
            }
        }
        entries.sort_unstable();
        entries.dedup();
        Ok(Matches::without_phrases(self.index.rows_among(&entries, self.column_mask)?))
    }
}

/// Returns the unwanted phrases of a side.
pub(super) fn phrases_of(side: &Side) -> Vec<Phrase> {
    side.unwanted.iter().filter_map(Group::as_phrase).cloned().collect()
}

/// Returns matches for entries that were found in their text, in order.
fn unscored(entries: &[(EntryId, u8)]) -> Matches {
    Matches::without_phrases(entries.iter().map(|(entry, columns)| ((*entry).into(), *columns)))
}

fn is_in(found: &[(EntryId, u8)], rowid: RowId) -> bool {
    found.binary_search_by_key(&EntryId::from(rowid), |found| found.0).is_ok()
}

/// Adds what another scan read.
fn add(scanned: &mut Option<Scanned>, more: Scanned) {
    let all = scanned.get_or_insert_default();
    all.records += more.records;
    all.bytes += more.bytes;
    all.too_long = all.too_long.max(more.too_long);
}
