//! Checks truth: the spans of each generation cover it without gaps, and every record that they
//! refer to is stored.
//!
//! Computes with numbers from the file only in checked or saturating arithmetic, so that a damaged
//! number is a finding and never a panic.

use rusqlite::Connection;

use super::finding::{Findings, RESCUE, Tally};
use super::{Check, DoctorProgress, Examined};
use super::{chunks, file};
use crate::Result;
use crate::base::ids::GenerationId;
use crate::collect::known::{HEAD, MARKER, fingerprint};
use crate::truth::chunks::{RecordReader, verify};
use crate::truth::{journal, spans, sums, tails};
use crate::wire::Severity;

pub(super) const CHECK: Check =
    Check { name: "truth", fine: "all collected bytes are stored", run, needs_ledger: true };

fn run(examined: &mut Examined<'_>, findings: &mut Findings) -> Result<()> {
    let conn = examined.ledger.as_ref().map(crate::Ledger::conn);
    let Some(conn) = conn else { return Ok(()) };
    if findings.has_errors(file::CHECK.name) && !is_readable(conn) {
        return Ok(());
    }
    check_rows(conn, findings)?;
    check_spans(conn, findings)?;
    check_tails(conn, findings)?;
    check_unpacked_bytes(conn, findings)?;
    chunks::check(conn, findings)?;
    examined.is_truth_intact = !findings.has_errors(CHECK.name);
    if examined.is_truth_intact {
        check_journal(conn, findings)?;
    }
    if examined.is_deep {
        check_chunks(conn, examined.progress, findings)?;
        examined.is_truth_intact = !findings.has_errors(CHECK.name);
        if examined.is_truth_intact {
            examined.chunks_opened += check_fingerprints(conn, findings)?;
        }
    }
    Ok(())
}

/// Returns whether the tables can be read at all.
fn is_readable(conn: &Connection) -> bool {
    conn.query_row("SELECT count(*) FROM records", [], |_| Ok(())).is_ok()
}

/// Reports impossible values, and rows that refer to missing rows.
fn check_rows(conn: &Connection, findings: &mut Findings) -> Result<()> {
    for (query, what) in [
        (
            "SELECT id FROM generations
              WHERE cursor < 0 OR tail_length < 0 OR size < 0 OR records < 0
                 OR head_length NOT BETWEEN 0 AND 1024 OR tail_stands NOT IN (0, 1)
                 OR length(head) NOT IN (0, 16) OR length(marker) NOT IN (0, 16)
                 OR began = '' OR began GLOB '*[^a-z_]*'",
            "generations with impossible values",
        ),
        (
            "SELECT s.id FROM sources s LEFT JOIN generations g ON g.id = s.generation
              WHERE (s.generation IS NOT NULL AND g.source IS NOT s.id)
                 OR g.number < (SELECT max(number) FROM generations WHERE source = s.id)",
            "sources that refer to a wrong generation",
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
            "records without a generation, or with impossible numbers",
        ),
        (
            "SELECT r.seq FROM records r LEFT JOIN records o ON o.seq = r.same_as
              WHERE r.same_as IS NOT NULL
                AND (o.seq IS NULL OR o.same_as IS NOT NULL OR o.length <> r.length OR o.seq >= r.seq)",
            "records that share the bytes of a record that does not have them",
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
            "damaged compressed files that are not stored completely",
        ),
        (
            "SELECT b.generation FROM damaged_bytes b
               LEFT JOIN generations g ON g.id = b.generation WHERE g.id IS NULL OR b.start < 0",
            "compressed bytes that belong to no generation",
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
fn check_spans(conn: &Connection, findings: &mut Findings) -> Result<()> {
    let mut holes = Tally::default();
    let mut incomplete = Tally::default();
    let mut bad_references = Tally::default();
    let mut spans = conn.prepare(
        "SELECT start, length, first_seq, last_seq, from_generation, from_start
           FROM spans WHERE generation = ?1 ORDER BY start",
    )?;
    let mut records_of_span = conn.prepare(
        "SELECT start, length FROM records WHERE seq BETWEEN ?1 AND ?2 AND generation = ?3 ORDER BY seq",
    )?;
    // A span without its own records must refer to bytes that an earlier generation has.
    let mut is_inside_earlier = conn.prepare(
        "SELECT EXISTS (SELECT 1 FROM spans WHERE generation = ?1 AND start <= ?2 AND start + length >= ?2)
            AND ?1 < ?3",
    )?;
    let mut generations = conn.prepare("SELECT id, cursor FROM generations ORDER BY id")?;
    let mut rows = generations.query([])?;
    let mut referenced = 0_i64;
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
                    let expected = last.saturating_sub(first).saturating_add(1);
                    referenced = referenced.saturating_add(expected);
                    let mut next = start;
                    let mut number = 0_i64;
                    let mut records = records_of_span.query((first, last, generation))?;
                    while let Some(record) = records.next()? {
                        let (record_start, length): (i64, i64) = (record.get(0)?, record.get(1)?);
                        number += i64::from(record_start == next);
                        next = next.saturating_add(length);
                    }
                    if next != at || number != expected {
                        incomplete.add(|| format!("records {first} to {last}"));
                    }
                }
                ((None, None), (Some(from), Some(from_start))) => {
                    let end = from_start.saturating_add(length);
                    let mut fits = true;
                    for position in [from_start, end] {
                        fits &= is_inside_earlier
                            .query_row((from, position, generation), |row| row.get::<_, bool>(0))?;
                    }
                    if !fits || from_start < 0 {
                        bad_references.add(|| format!("generation {generation} at byte {start}"));
                    }
                }
                _ => bad_references.add(|| format!("generation {generation} at byte {start}")),
            }
        }
        if at != cursor {
            holes.add(|| format!("generation {generation} at byte {at}"));
        }
    }
    let records: i64 = conn.query_row("SELECT count(*) FROM records", [], |row| row.get(0))?;
    findings.tally(Severity::Error, holes, "generations with missing bytes", RESCUE);
    findings.tally(Severity::Error, incomplete, "spans with missing records", RESCUE);
    findings.tally(Severity::Error, bad_references, "spans that refer to missing bytes", RESCUE);
    if records != referenced {
        let what = format!("{records} records are stored, but files refer to {referenced}");
        findings.error(what, RESCUE);
    }
    Ok(())
}

/// Checks that all bytes after the last newline are stored.
fn check_tails(conn: &Connection, findings: &mut Findings) -> Result<()> {
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
    let what = "last lines without a newline that are not stored completely";
    findings.tally(Severity::Error, wrong, what, RESCUE);
    Ok(())
}

/// Checks the checksums of bytes that are in no chunk.
fn check_unpacked_bytes(conn: &Connection, findings: &mut Findings) -> Result<()> {
    let mut bad = Tally::default();
    sums::check_all(conn, &mut |what| bad.add(|| what.clone()))?;
    findings.tally(Severity::Error, bad, "stored bytes that do not match their checksum", RESCUE);
    Ok(())
}

/// Checks that every line of the journal is JSON with a type, or blank because its session was
/// forgotten.
fn check_journal(conn: &Connection, findings: &mut Findings) -> Result<()> {
    let mut odd = Tally::default();
    journal::lines(conn, &mut |seq, line| {
        let value: Option<serde_json::Value> = serde_json::from_slice(line).ok();
        let is_event = value.is_some_and(|value| value.get("type").is_some_and(|t| t.is_string()));
        let is_blank = line.trim_ascii().is_empty();
        if !(is_event || is_blank) || !line.ends_with(b"\n") {
            odd.add(|| seq.0.to_string());
        }
    })?;
    findings.tally(Severity::Error, odd, "unreadable lines of the journal", RESCUE);
    Ok(())
}

/// Checks the checksum of every chunk.
fn check_chunks(
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

/// Compares the first and last stored bytes of each generation with the fingerprints that were
/// taken of the file. Returns the number of chunks that were opened.
fn check_fingerprints(conn: &Connection, findings: &mut Findings) -> Result<u64> {
    let mut wrong = Tally::default();
    // One reader for all generations: copies of a file share chunks, and the reader caches them.
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
        let mut add_bytes = |bytes: &[u8]| {
            let missing = head_length.saturating_sub(first.len()).min(bytes.len());
            first.extend_from_slice(bytes.get(..missing).unwrap_or_default());
            last.extend_from_slice(
                bytes.get(bytes.len().saturating_sub(MARKER)..).unwrap_or_default(),
            );
            let surplus = last.len().saturating_sub(MARKER);
            last.drain(..surplus);
            Ok(())
        };
        spans::stream_from(&mut reader, id, &mut add_bytes)?;
        tails::stream(conn, id, &mut add_bytes)?;
        if fingerprint(&first)[..] != head[..] || fingerprint(&last)[..] != marker[..] {
            wrong.add(|| format!("generation {}", id.0));
        }
    }
    let what = "files whose stored beginning or end differs from what was read";
    findings.tally(Severity::Error, wrong, what, RESCUE);
    Ok(reader.opened())
}
