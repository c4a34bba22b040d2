//! Searches the text of the records themselves: regular expressions, exact spelling, punctuation,
//! and scripts without spaces between words, which a word index cannot find.
//!
//! One thread reads chunks. Other threads decompress, decode and search them. The queue between
//! them is short, so memory is bounded for a ledger of any size. Never reads a source file.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use foldhash::{HashMap, HashMapExt, HashSet};
use quipu_transcript::record::{DECODE_LIMIT, OVERSIZE_HEAD};
use regex::Regex;
use rusqlite::{Connection, OptionalExtension};

use super::texts::{Texts, by_column};
use crate::base::ids::{EntryId, GenerationId, Seq};
use crate::project::rebuild::GenerationInfo;
use crate::project::search::SearchText;
use crate::wire::Scanned;
use crate::{Error, Result};

/// The number of threads that search, besides the one that reads.
const SEARCH_THREADS: usize = 2;

/// The number of units in the queue. It bounds the memory.
const QUEUED_UNITS: usize = 4;

/// The result of a scan.
pub(crate) struct ScanResult {
    /// The entries, in order, and the columns in which each was found.
    pub(crate) entries: Vec<(EntryId, u8)>,
    pub(crate) scanned: Scanned,
}

/// Searches the columns of `mask` for texts that match all of `literals` and none of `without`. With
/// `among`, only these entries are searched; they are in order.
pub(crate) fn scan(
    conn: &Connection,
    (literals, without): (&[Regex], &[Regex]),
    mask: u8,
    among: Option<&[EntryId]>,
) -> Result<ScanResult> {
    let wanted_records = match among {
        Some(entries) => Some(records_of(conn, entries)?),
        None => None,
    };
    let (sender, receiver) = sync_channel::<Unit>(QUEUED_UNITS);
    let receiver = Arc::new(Mutex::new(receiver));
    let scan = Scan { literals, without, mask };
    let mut scanned = Scanned::default();
    let mut found: Vec<(EntryId, u8)> = Vec::new();
    std::thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..SEARCH_THREADS)
            .map(|_| {
                let receiver = Arc::clone(&receiver);
                let scan = &scan;
                scope.spawn(move || scan.run(&receiver))
            })
            .collect();
        let read = read(conn, wanted_records.as_ref(), &sender, &mut scanned);
        drop(sender);
        for worker in workers {
            // A panic is a bug. The results of that thread are lost, so the search fails.
            let result = worker.join().map_err(|_| Error::damaged("a search thread failed"))?;
            found.extend(result?);
        }
        read
    })?;
    found.extend(tails(conn, &scan, among)?);
    let entries = with_copies(conn, found, among)?;
    Ok(ScanResult { entries, scanned })
}

/// Consecutive records with their bytes.
#[derive(Default)]
struct Unit {
    /// Compressed bytes with their decompressed length, or plain bytes with `None`.
    parts: Vec<(Vec<u8>, Option<usize>)>,
    records: Vec<Record>,
}

/// A record of a unit. Records are in the order of their bytes.
struct Record {
    seq: Seq,
    /// The number of its bytes in the unit.
    length: usize,
    /// The length of the record, if it is too long to be decoded whole.
    too_long: Option<u64>,
    /// The source of the record. `None` if the record is skipped.
    info: Option<Arc<GenerationInfo>>,
}

/// The expressions and columns of a scan.
struct Scan<'p> {
    literals: &'p [Regex],
    without: &'p [Regex],
    mask: u8,
}

impl Scan<'_> {
    /// Searches units until the queue is closed.
    fn run(&self, units: &Mutex<Receiver<Unit>>) -> Result<Vec<(EntryId, u8)>> {
        let mut found = Vec::new();
        loop {
            let unit = match units.lock() {
                Ok(units) => units.recv(),
                Err(_) => break,
            };
            let Ok(unit) = unit else { break };
            self.unit(&unit, &mut found)?;
        }
        Ok(found)
    }

    fn unit(&self, unit: &Unit, found: &mut Vec<(EntryId, u8)>) -> Result<()> {
        let mut raw = Vec::new();
        for (data, length) in &unit.parts {
            match length {
                None => raw.extend_from_slice(data),
                Some(length) => {
                    let part = zstd::bulk::decompress(data, *length)
                        .ok()
                        .filter(|part| part.len() == *length)
                        .ok_or_else(|| Error::damaged("a chunk cannot be decompressed"))?;
                    raw.extend_from_slice(&part);
                }
            }
        }
        let mut rest = raw.as_slice();
        for Record { seq, length, too_long, info } in &unit.records {
            let (record, after) = rest
                .split_at_checked(*length)
                .ok_or_else(|| Error::damaged(format!("record {} is cut off", seq.0)))?;
            rest = after;
            let Some(info) = info else { continue };
            let texts = info.drafter().texts(record, *too_long);
            for (ordinal, text) in texts.iter().enumerate() {
                let columns = self.matching_columns(text);
                if columns != 0 {
                    found.push((EntryId::of(*seq, ordinal), columns));
                }
            }
        }
        Ok(())
    }

    /// Returns the columns that match, or 0 if a required expression does not match or an excluded
    /// one does.
    fn matching_columns(&self, text: &SearchText) -> u8 {
        let columns = by_column(text).map(|(column, _, text)| (column & self.mask, text));
        let has = |expression: &Regex| {
            columns.iter().fold(0, |found, (column, text)| {
                let is_here = *column != 0 && !text.is_empty() && expression.is_match(text);
                found | if is_here { *column } else { 0 }
            })
        };
        if self.without.iter().any(|expression| has(expression) != 0) {
            return 0;
        }
        let mut all = match self.literals.is_empty() {
            true => self.mask,
            false => 0,
        };
        for literal in self.literals {
            match has(literal) {
                0 => return 0,
                here => all |= here,
            }
        }
        all
    }
}

/// Reads all chunks, and all records that are not in a chunk yet, and puts them into the queue.
fn read(
    conn: &Connection,
    wanted_records: Option<&HashSet<Seq>>,
    sender: &SyncSender<Unit>,
    scanned: &mut Scanned,
) -> Result<()> {
    let mut infos: HashMap<GenerationId, Option<Arc<GenerationInfo>>> = HashMap::new();
    let mut chunks = conn.prepare_cached(
        "SELECT first_seq, first_offset, last_seq, raw_length, data FROM chunks
          ORDER BY first_seq, first_offset",
    )?;
    let mut rows = chunks.query([])?;
    // A record may continue in the next chunk, so a unit ends only before a chunk that begins with
    // a record.
    let mut open: Option<(Unit, Seq, Seq)> = None;
    // The number of bytes that are left out of each record that is too long to be decoded. Only its
    // head is kept.
    let mut skipped: HashMap<Seq, usize> = HashMap::new();
    loop {
        let row = rows.next()?;
        let begins_a_record = match row {
            None => true,
            Some(row) => row.get::<_, i64>(1)? == 0,
        };
        if begins_a_record && let Some((mut unit, first, last)) = open.take() {
            let mut records = Records { conn, wanted_records, infos: &mut infos, scanned };
            unit.records = records.records_of_unit(first, last, &skipped)?;
            skipped.clear();
            let is_wanted = unit.records.iter().any(|record| record.info.is_some());
            if is_wanted && sender.send(unit).is_err() {
                return Ok(());
            }
        }
        let Some(row) = row else { break };
        let (first, offset, last): (Seq, i64, Seq) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let length = usize::try_from(row.get::<_, i64>(3)?).unwrap_or_default();
        let (unit, _, up_to) = open.get_or_insert_with(|| (Unit::default(), first, last));
        *up_to = last;
        let is_behind_head = first == last && offset >= OVERSIZE_HEAD as i64;
        if is_behind_head && length_of(conn, first)? > DECODE_LIMIT {
            *skipped.entry(first).or_default() += length;
        } else {
            unit.parts.push((row.get(4)?, Some(length)));
        }
    }
    drop(rows);
    let mut pending = conn.prepare_cached(
        "SELECT p.seq, r.generation, p.bytes FROM pending p JOIN records r ON r.seq = p.seq
          ORDER BY p.seq",
    )?;
    let mut rows = pending.query([])?;
    while let Some(row) = rows.next()? {
        let (seq, bytes): (Seq, Vec<u8>) = (row.get(0)?, row.get(2)?);
        if wanted_records.is_some_and(|wanted_records| !wanted_records.contains(&seq)) {
            continue;
        }
        let info = info(conn, &mut infos, row.get(1)?)?;
        scanned.records += u64::from(info.is_some());
        scanned.bytes += bytes.len() as u64;
        let records = vec![Record { seq, length: bytes.len(), too_long: None, info }];
        if sender.send(Unit { parts: vec![(bytes, None)], records }).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

fn length_of(conn: &Connection, seq: Seq) -> Result<usize> {
    let length: Option<i64> = conn
        .prepare_cached("SELECT length FROM records WHERE seq = ?1")?
        .query_row([seq], |row| row.get(0))
        .optional()?;
    Ok(length.and_then(|length| usize::try_from(length).ok()).unwrap_or_default())
}

/// Reads the list of records.
struct Records<'r, 'c> {
    conn: &'c Connection,
    wanted_records: Option<&'r HashSet<Seq>>,
    infos: &'r mut HashMap<GenerationId, Option<Arc<GenerationInfo>>>,
    scanned: &'r mut Scanned,
}

impl Records<'_, '_> {
    /// Returns the records of a unit.
    fn records_of_unit(
        &mut self,
        first: Seq,
        last: Seq,
        skipped: &HashMap<Seq, usize>,
    ) -> Result<Vec<Record>> {
        let mut statement = self.conn.prepare_cached(
            "SELECT seq, length, generation FROM records
              WHERE seq BETWEEN ?1 AND ?2 AND same_as IS NULL ORDER BY seq",
        )?;
        let mut rows = statement.query((first, last))?;
        let mut records = Vec::new();
        while let Some(row) = rows.next()? {
            let seq: Seq = row.get(0)?;
            let length = usize::try_from(row.get::<_, i64>(1)?).unwrap_or_default();
            let is_wanted =
                self.wanted_records.is_none_or(|wanted_records| wanted_records.contains(&seq));
            let too_long = (length > DECODE_LIMIT).then_some(length as u64);
            let info = match is_wanted {
                true => info(self.conn, self.infos, row.get(2)?)?,
                false => None,
            };
            if info.is_some() {
                let looked_into = if too_long.is_some() { OVERSIZE_HEAD } else { length };
                self.scanned.records += 1;
                self.scanned.bytes += looked_into as u64;
                // A copy whose entry is shown from another record is not counted, as in `status`.
                let is_counted = too_long.is_some() && is_partly_indexed(self.conn, seq)?;
                self.scanned.too_long += u64::from(is_counted);
            }
            let length = length.saturating_sub(skipped.get(&seq).copied().unwrap_or_default());
            records.push(Record { seq, length, too_long, info });
        }
        Ok(records)
    }
}

/// Returns true if the record's entry is marked as one that the index holds in part.
fn is_partly_indexed(conn: &Connection, seq: Seq) -> Result<bool> {
    let mark = "SELECT 1 FROM partly_indexed WHERE entry = ?1";
    Ok(conn.prepare_cached(mark)?.exists([seq])?)
}

fn info(
    conn: &Connection,
    infos: &mut HashMap<GenerationId, Option<Arc<GenerationInfo>>>,
    generation: GenerationId,
) -> Result<Option<Arc<GenerationInfo>>> {
    if let Some(known) = infos.get(&generation) {
        return Ok(known.clone());
    }
    let info = GenerationInfo::of(conn, generation)?.map(Arc::new);
    infos.insert(generation, info.clone());
    Ok(info)
}

/// Returns the records that hold the bytes of entries.
fn records_of(conn: &Connection, entries: &[EntryId]) -> Result<HashSet<Seq>> {
    let mut statement =
        conn.prepare_cached("SELECT coalesce(same_as, seq) FROM records WHERE seq = ?1")?;
    let mut wanted_records = HashSet::default();
    for entry in entries {
        if let Some(seq) = entry.seq() {
            wanted_records
                .extend(statement.query_row([seq], |row| row.get::<_, Seq>(0)).optional()?);
        }
    }
    Ok(wanted_records)
}

/// Searches the bytes after the last newline of each file.
fn tails(
    conn: &Connection,
    scan: &Scan<'_>,
    among: Option<&[EntryId]>,
) -> Result<Vec<(EntryId, u8)>> {
    let provisional: Vec<EntryId> = conn
        .prepare_cached("SELECT id FROM entry_rows WHERE id < 0 ORDER BY id")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut texts = Texts::new(conn);
    let mut found = Vec::new();
    for entry in provisional {
        if among.is_none_or(|among| among.binary_search(&entry).is_ok()) {
            let columns = scan.matching_columns(&texts.of(entry)?);
            if columns != 0 {
                found.push((entry, columns));
            }
        }
    }
    Ok(found)
}

/// Adds the entries of records with the same bytes. A copy in another session is an entry of its
/// own. A copy in the same session belongs to the first entry.
fn with_copies(
    conn: &Connection,
    found: Vec<(EntryId, u8)>,
    among: Option<&[EntryId]>,
) -> Result<Vec<(EntryId, u8)>> {
    let found_columns: HashMap<EntryId, u8> = found.iter().copied().collect();
    let mut all: HashMap<EntryId, u8> = HashMap::new();
    let mut exists = conn.prepare_cached("SELECT 1 FROM entry_rows WHERE id = ?1")?;
    let mut sighted = conn.prepare_cached("SELECT entry FROM sightings WHERE seq = ?1")?;
    let mut add = |entry: EntryId, columns: u8| -> Result<()> {
        let entry = match exists.exists([entry])? {
            true => Some(entry),
            false => sighted.query_row([entry], |row| row.get(0)).optional()?,
        };
        let is_asked_for =
            |entry: &EntryId| among.is_none_or(|among| among.binary_search(entry).is_ok());
        if let Some(entry) = entry.filter(is_asked_for) {
            *all.entry(entry).or_default() |= columns;
        }
        Ok(())
    };
    for (entry, columns) in &found {
        add(*entry, *columns)?;
    }
    if !found_columns.is_empty() {
        let mut statement =
            conn.prepare_cached("SELECT seq, same_as FROM records WHERE same_as IS NOT NULL")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (copy, holder): (EntryId, EntryId) = (row.get(0)?, row.get(1)?);
            if let Some(columns) = found_columns.get(&holder) {
                add(copy, *columns)?;
            }
        }
    }
    let mut entries: Vec<(EntryId, u8)> = all.into_iter().collect();
    entries.sort_unstable();
    Ok(entries)
}
