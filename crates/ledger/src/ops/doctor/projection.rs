//! The projection: does it say what the records say? A sample of records is read again; looked at
//! deeply, everything is derived again in a temporary place and compared row by row.

use rusqlite::{Connection, OptionalExtension};

use super::finding::{Findings, REBUILD, RESCUE, SYNC, Tally};
use super::{Check, Patient, replay};
use crate::Result;
use crate::base::ids::{EntryId, GenerationId, PackedId, Seq};
use crate::file::schema;
use crate::project::draft::DraftEntry;
use crate::project::rebuild::{self, Home};
use crate::truth::chunks::RecordReader;
use crate::wire::Severity;

pub(super) const CHECK: Check = Check {
    name: "projection",
    fine: "what is readable is what the bytes say",
    run,
    needs_ledger: true,
};

/// Records that are read again, spread over the ledger.
const SAMPLE: i64 = 200;

fn run(patient: &mut Patient<'_>, findings: &mut Findings) -> Result<()> {
    let Some(ledger) = &patient.ledger else { return Ok(()) };
    let conn = ledger.conn();
    if !patient.is_whole {
        findings.note("not compared: the collected bytes come first", RESCUE);
        return Ok(());
    }
    let (version, to, last): (i64, i64, i64) = conn.query_row(
        "SELECT projection_version, projected_to, (SELECT coalesce(max(seq), 0) FROM records) FROM ledger",
        [],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    if version != schema::projection_version() {
        return Ok(());
    }
    if to > last || to < 0 {
        findings.error("more was derived than there is", REBUILD);
    } else if to < last {
        let behind = Tally::of((last - to).unsigned_abs(), []);
        findings.tally(Severity::Note, behind, "records that nothing was derived from yet", SYNC);
    }
    if patient.is_deep && to == last {
        return replay::compare(conn, ledger.path(), patient.progress, findings);
    }
    sample(conn, to, findings)
}

fn sample(conn: &Connection, to: i64, findings: &mut Findings) -> Result<()> {
    let mut reader = RecordReader::new(conn);
    let mut wrong = Tally::default();
    let mut record = conn.prepare(
        "SELECT seq, generation, length FROM records WHERE seq >= ?1 AND seq <= ?2 ORDER BY seq LIMIT 1",
    )?;
    let mut seen = 0;
    for step in 0..SAMPLE {
        let from =
            1 + i64::try_from(i128::from(to) * i128::from(step) / i128::from(SAMPLE)).unwrap_or(0);
        let found = record
            .query_row((from.max(seen + 1), to), |row| {
                Ok((row.get::<_, Seq>(0)?, row.get::<_, GenerationId>(1)?, row.get::<_, i64>(2)?))
            })
            .optional()?;
        let Some((seq, generation, length)) = found else { continue };
        seen = seq.0;
        let Some(home) = Home::of(conn, generation)? else { continue };
        let draft = rebuild::read(&mut reader, &home, seq, length.cast_unsigned())?;
        for (ordinal, entry) in draft.entries.iter().enumerate() {
            if !is_there(conn, EntryId::of(seq, ordinal), entry)? {
                wrong.add(|| format!("record {}", seq.0));
            }
        }
    }
    findings.tally(
        Severity::Error,
        wrong,
        "entries that do not say what their record says",
        REBUILD,
    );
    Ok(())
}

/// Whether the entry, or the one that it repeats, is in the table as the record has it.
fn is_there(conn: &Connection, id: EntryId, entry: &DraftEntry) -> Result<bool> {
    let row = conn
        .prepare_cached(
            "SELECT uuid, type, role, time, content FROM entries
              WHERE id = coalesce((SELECT entry FROM sightings WHERE seq = ?1), ?1)",
        )?
        .query_row([id], |row| {
            Ok((
                row.get::<_, Option<PackedId>>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, Option<String>>(2)?,
                row.get::<_, Option<i64>>(3)?,
                row.get::<_, i64>(4)?,
            ))
        })
        .optional()?;
    let Some((uuid, type_name, role, time, content)) = row else { return Ok(false) };
    Ok(uuid == entry.uuid
        && type_name == entry.kind.type_name
        && role.as_deref() == entry.role.map(quipu_transcript::entry::Role::as_str)
        && time == entry.time
        && content == entry.content)
}
