//! Checks truth: the spans of every generation cover it, and all its records and bytes are stored.
//!
//! No number of a row is used before it was checked: a damaged number has to be a finding, never a
//! crash.

use rusqlite::Connection;

use super::chunks;
use super::finding::{Findings, RESCUE, Tally};
use super::{Check, DoctorProgress, Examined};
use crate::Result;
use crate::base::ids::GenerationId;
use crate::collect::known::{HEAD, MARKER, print};
use crate::truth::chunks::{RecordReader, verify};
use crate::truth::{journal, spans, sums, tails};
use crate::wire::Severity;

pub(super) const CHECK: Check =
    Check { name: "truth", fine: "all collected bytes are stored", run, needs_ledger: true };

fn run(examined: &mut Examined<'_>, findings: &mut Findings) -> Result<()> {
    let conn = examined.ledger.as_ref().map(crate::Ledger::conn);
    let Some(conn) = conn else { return Ok(()) };
    if findings.has_errors("file") && !is_readable(conn) {
        return Ok(());
    }
    rows(conn, findings)?;
    covered(conn, findings)?;
    last_lines(conn, findings)?;
    waiting(conn, findings)?;
    chunks::complete(conn, findings)?;
    examined.is_whole = !findings.has_errors(CHECK.name);
    if examined.is_whole {
        journal_reads(conn, findings)?;
    }
    if examined.is_deep {
        checksums(conn, examined.progress, findings)?;
        examined.is_whole = !findings.has_errors(CHECK.name);
        if examined.is_whole {
            examined.chunks_opened += ends(conn, findings)?;
        }
    }
    Ok(())
}

/// Returns whether the tables can be read at all.
fn is_readable(conn: &Connection) -> bool {
    conn.query_row("SELECT count(*) FROM records", [], |_| Ok(())).is_ok()
}

/// Finds impossible numbers, and rows that refer to missing rows.
fn rows(conn: &Connection, findings: &mut Findings) -> Result<()> {
    for (query, what) in [
        (
            "SELECT id FROM generations
              WHERE cursor < 0 OR tail_length < 0 OR size < 0 OR records < 0
                 OR head_length NOT BETWEEN 0 AND 1024 OR tail_stands NOT IN (0, 1)
                 OR length(head) NOT IN (0, 16) OR length(marker) NOT IN (0, 16)
                 OR began = '' OR began GLOB '*[^a-z_]*'",
            "generations with impossible numbers",
        ),
        (
            "SELECT s.id FROM sources s LEFT JOIN generations g ON g.id = s.generation
              WHERE (s.generation IS NOT NULL AND g.source IS NOT s.id)
                 OR g.number < (SELECT max(number) FROM generations WHERE source = s.id)",
            "sources whose newest generation belongs to another source",
        ),
        (
            "SELECT g.id FROM generations g LEFT JOIN sources s ON s.id = g.source WHERE s.id IS NULL",
            "generations of sources that do not exist",
        ),
        (
            "SELECT g.id FROM generations g
              WHERE g.records <> (SELECT coalesce(sum(last_seq - first_seq + 1), 0) FROM spans
                                   WHERE generation = g.id AND first_seq IS NOT NULL)",
            "generations with a wrong number of records",
        ),
        (
            "SELECT r.seq FROM records r LEFT JOIN generations g ON g.id = r.generation
              WHERE g.id IS NULL OR r.length < 0 OR r.start < 0",
            "records that belong to no generation",
        ),
        (
            "SELECT r.seq FROM records r LEFT JOIN records o ON o.seq = r.same_as
              WHERE r.same_as IS NOT NULL
                AND (o.seq IS NULL OR o.same_as IS NOT NULL OR o.length <> r.length OR o.seq >= r.seq)",
            "records whose bytes are missing in the record that should have them",
        ),
        (
            "SELECT d.generation FROM damaged d LEFT JOIN generations g ON g.id = d.generation
              WHERE g.id IS NULL OR d.is_kept NOT IN (0, 1) OR d.length < 0
                 OR d.is_kept <> EXISTS (
                        SELECT 1 FROM damaged_bytes b WHERE b.generation = d.generation)
                 OR (d.is_kept AND d.length <> (
                        SELECT sum(length(b.bytes)) FROM damaged_bytes b
                         WHERE b.generation = d.generation))
                 OR (d.is_kept AND d.length <> (
                        SELECT max(b.start + length(b.bytes)) FROM damaged_bytes b
                         WHERE b.generation = d.generation))",
            "damaged compressed files whose bytes are not complete",
        ),
        (
            "SELECT b.generation FROM damaged_bytes b
               LEFT JOIN generations g ON g.id = b.generation WHERE g.id IS NULL OR b.start < 0",
            "compressed bytes of no generation",
        ),
    ] {
        let mut tally = Tally::default();
        let mut statement = conn.prepare(query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let id: i64 = row.get(0)?;
            tally.add(|| id.to_string());
        }
        findings.tally(Severity::Error, tally, what, RESCUE);
    }
    Ok(())
}

/// Checks that spans cover each generation from its start to its cursor, and that records fill
/// their spans.
fn covered(conn: &Connection, findings: &mut Findings) -> Result<()> {
    let mut holes = Tally::default();
    let mut unfilled = Tally::default();
    let mut stray = Tally::default();
    let mut spans = conn.prepare(
        "SELECT start, length, first_seq, last_seq, from_generation, from_start
           FROM spans WHERE generation = ?1 ORDER BY start",
    )?;
    let mut own = conn.prepare(
        "SELECT start, length FROM records WHERE seq BETWEEN ?1 AND ?2 AND generation = ?3 ORDER BY seq",
    )?;
    // Spans refer to positions inside the spans of an earlier generation.
    let mut edge = conn.prepare(
        "SELECT EXISTS (SELECT 1 FROM spans WHERE generation = ?1 AND start <= ?2 AND start + length >= ?2)
            AND ?1 < ?3",
    )?;
    let mut generations = conn.prepare("SELECT id, cursor FROM generations ORDER BY id")?;
    let mut rows = generations.query([])?;
    let (mut claimed, mut there) = (0_i64, 0_i64);
    while let Some(row) = rows.next()? {
        let (generation, cursor): (i64, i64) = (row.get(0)?, row.get(1)?);
        let mut at = 0_i64;
        let mut found = spans.query([generation])?;
        while let Some(span) = found.next()? {
            let (start, length): (i64, i64) = (span.get(0)?, span.get(1)?);
            if start != at || length <= 0 {
                holes.add(|| format!("generation {generation} at byte {at}"));
            }
            at = start.saturating_add(length);
            let seqs: (Option<i64>, Option<i64>) = (span.get(2)?, span.get(3)?);
            let from: (Option<i64>, Option<i64>) = (span.get(4)?, span.get(5)?);
            match (seqs, from) {
                ((Some(first), Some(last)), (None, None)) if first <= last => {
                    claimed = claimed.saturating_add(last.saturating_sub(first).saturating_add(1));
                    let mut next = start;
                    let mut number = 0_i64;
                    let mut records = own.query((first, last, generation))?;
                    while let Some(record) = records.next()? {
                        let (record_start, length): (i64, i64) = (record.get(0)?, record.get(1)?);
                        number += i64::from(record_start == next);
                        next = next.saturating_add(length);
                    }
                    there = there.saturating_add(number);
                    if next != at || number != last - first + 1 {
                        unfilled.add(|| format!("records {first} to {last}"));
                    }
                }
                ((None, None), (Some(from), Some(from_start))) => {
                    let end = from_start.saturating_add(length);
                    let mut fits = true;
                    for place in [from_start, end] {
                        fits &=
                            edge.query_row((from, place, generation), |row| row.get::<_, bool>(0))?;
                    }
                    if !fits || from_start < 0 {
                        stray.add(|| format!("generation {generation} at byte {start}"));
                    }
                }
                _ => stray.add(|| format!("generation {generation} at byte {start}")),
            }
        }
        if at != cursor {
            holes.add(|| format!("generation {generation} at byte {at}"));
        }
    }
    let records: i64 = conn.query_row("SELECT count(*) FROM records", [], |row| row.get(0))?;
    findings.tally(Severity::Error, holes, "files with a missing part", RESCUE);
    findings.tally(Severity::Error, unfilled, "incomplete runs of records", RESCUE);
    findings.tally(Severity::Error, stray, "parts of files that refer to nothing", RESCUE);
    if records != claimed {
        findings
            .error(format!("{records} records are stored, but files refer to {claimed}"), RESCUE);
    }
    Ok(())
}

/// Checks that the number of bytes after the last newline is the stored one.
fn last_lines(conn: &Connection, findings: &mut Findings) -> Result<()> {
    let mut wrong = Tally::default();
    let mut statement = conn.prepare(tails::LENGTHS)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (id, expected): (i64, i64) = (row.get(0)?, row.get(1)?);
        let (stored, spanned): (i64, i64) = (row.get(2)?, row.get(3)?);
        if expected != stored || expected != spanned {
            wrong.add(|| format!("generation {id}"));
        }
    }
    findings.tally(Severity::Error, wrong, "unfinished last lines that are incomplete", RESCUE);
    Ok(())
}

/// Checks the checksums of bytes that are in no chunk.
fn waiting(conn: &Connection, findings: &mut Findings) -> Result<()> {
    let mut bad = Tally::default();
    sums::check_all(conn, &mut |what| bad.add(|| what.clone()))?;
    findings.tally(Severity::Error, bad, "stored bytes that do not match their checksum", RESCUE);
    Ok(())
}

/// Checks that every line of the journal is an event.
fn journal_reads(conn: &Connection, findings: &mut Findings) -> Result<()> {
    let mut odd = Tally::default();
    journal::lines(conn, &mut |seq, line| {
        let value: Option<serde_json::Value> = serde_json::from_slice(line).ok();
        let is_event = value.is_some_and(|value| value.get("type").is_some_and(|t| t.is_string()));
        // A line about a forgotten session is blank.
        let is_blank = line.trim_ascii().is_empty();
        if !(is_event || is_blank) || !line.ends_with(b"\n") {
            odd.add(|| seq.0.to_string());
        }
    })?;
    findings.tally(Severity::Error, odd, "unreadable lines of the journal", RESCUE);
    Ok(())
}

/// Checks the checksum of every chunk.
fn checksums(
    conn: &Connection,
    progress: &mut dyn FnMut(DoctorProgress),
    findings: &mut Findings,
) -> Result<()> {
    let total: i64 =
        conn.query_row("SELECT coalesce(sum(length(data)), 0) FROM chunks", [], |row| row.get(0))?;
    let total = total.cast_unsigned();
    let mut bad = Tally::default();
    verify::open_all(
        conn,
        &mut |chunk| bad.add(|| format!("records {} to {}", chunk.first_seq, chunk.last_seq)),
        &mut |done| progress(DoctorProgress { doing: "reading", done, total }),
    )?;
    findings.tally(Severity::Error, bad, "chunks that do not match their checksum", RESCUE);
    Ok(())
}

/// Checks that every generation begins and ends with the bytes that were fingerprinted. Returns the
/// number of chunks that were opened.
fn ends(conn: &Connection, findings: &mut Findings) -> Result<u64> {
    let mut wrong = Tally::default();
    // One reader for all, because copies of a session share chunks, which it keeps.
    let mut reader = RecordReader::for_copies(conn);
    let mut statement = conn.prepare(
        "SELECT g.id, g.head, g.head_length, g.marker
           FROM generations g JOIN sources s ON s.id = g.source
          WHERE s.kind = 'file' AND s.refused IS NULL AND g.cursor + g.tail_length > 0",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id: GenerationId = row.get(0)?;
        let (head, marker): (Vec<u8>, Vec<u8>) = (row.get(1)?, row.get(3)?);
        let head_length = usize::try_from(row.get::<_, i64>(2)?).unwrap_or(0).min(HEAD);
        let (mut first, mut last) = (Vec::new(), Vec::new());
        let mut take = |bytes: &[u8]| {
            let missing = head_length.saturating_sub(first.len()).min(bytes.len());
            first.extend_from_slice(bytes.get(..missing).unwrap_or_default());
            last.extend_from_slice(
                bytes.get(bytes.len().saturating_sub(MARKER)..).unwrap_or_default(),
            );
            let surplus = last.len().saturating_sub(MARKER);
            last.drain(..surplus);
            Ok(())
        };
        spans::stream_from(&mut reader, id, &mut take)?;
        tails::stream(conn, id, &mut take)?;
        if print(&first)[..] != head[..] || print(&last)[..] != marker[..] {
            wrong.add(|| format!("generation {}", id.0));
        }
    }
    let what = "files whose stored beginning or end differs from what was read";
    findings.tally(Severity::Error, wrong, what, RESCUE);
    Ok(reader.opened())
}
