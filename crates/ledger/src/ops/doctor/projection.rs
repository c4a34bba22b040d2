//! Checks that the projection agrees with the records. A sample of records is decoded again. The
//! deep check projects the same records into a temporary file and compares it row by row.

use rusqlite::{Connection, OptionalExtension};

use super::finding::{Findings, REBUILD, RESCUE, SYNC, Tally};
use super::{Check, Examined, replay};
use crate::Result;
use crate::base::ids::{EntryId, GenerationId, PackedId, Seq};
use crate::file::schema::{self, Derived};
use crate::project::draft::DraftEntry;
use crate::project::rebuild::{self, GenerationInfo};
use crate::truth::chunks::RecordReader;
use crate::wire::Severity;

pub(super) const CHECK: Check = Check {
    name: "projection",
    fine: "the readable tables match the stored raw data",
    run,
    needs_ledger: true,
};

/// The advice for a projection that cannot be compared yet.
const COMPARE_AGAIN: &str = "wait until a running rebuild has ended, or run `quipu sync`; then run \
    `quipu doctor --deep` again";

/// The number of records that are decoded again, spread over the ledger.
const SAMPLE_RECORDS: i64 = 200;

fn run(examined: &mut Examined<'_>, findings: &mut Findings) -> Result<()> {
    let Some(ledger) = &examined.ledger else { return Ok(()) };
    let conn = ledger.conn();
    if !examined.is_truth_intact {
        findings.note("not compared, because the raw data is damaged", RESCUE);
        return Ok(());
    }
    if schema::derived(conn)? != Derived::Current {
        return Ok(());
    }
    let (to, last): (i64, i64) = conn.query_row(
        "SELECT projected_to, (SELECT coalesce(max(seq), 0) FROM records) FROM ledger",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    if to > last || to < 0 {
        findings.error("the readable tables have more records than the ledger", REBUILD);
    } else if to < last {
        let behind = Tally::of((last - to).unsigned_abs(), []);
        findings.tally(Severity::Note, behind, "records that are not projected yet", SYNC);
    }
    if examined.is_deep && (0..=last).contains(&to) {
        if replay::compare(ledger, examined.progress, findings)? {
            return Ok(());
        }
        findings.warning(
            "the readable tables were not compared row by row, because collected records are not \
             projected yet",
            COMPARE_AGAIN,
        );
    }
    sample(conn, to, findings)
}

fn sample(conn: &Connection, to: i64, findings: &mut Findings) -> Result<()> {
    let mut reader = RecordReader::new(conn);
    let mut wrong = Tally::default();
    let mut record = conn.prepare(
        "SELECT seq, generation, length FROM records WHERE seq >= ?1 AND seq <= ?2 ORDER BY seq LIMIT 1",
    )?;
    let mut seen = 0_i64;
    for step in 0..SAMPLE_RECORDS {
        let from =
            1 + i64::try_from(i128::from(to) * i128::from(step) / i128::from(SAMPLE_RECORDS))
                .unwrap_or(0);
        let found = record
            .query_row((from.max(seen.saturating_add(1)), to), |row| {
                Ok((row.get::<_, Seq>(0)?, row.get::<_, GenerationId>(1)?, row.get::<_, i64>(2)?))
            })
            .optional()?;
        let Some((seq, generation, length)) = found else { continue };
        seen = seq.0;
        let Some(info) = GenerationInfo::of(conn, generation)? else { continue };
        let draft = rebuild::read(&mut reader, &info, seq, length.cast_unsigned())?;
        for (ordinal, entry) in draft.entries.iter().enumerate() {
            if !is_there(conn, EntryId::of(seq, ordinal), entry)? {
                wrong.add(|| format!("record {}", seq.0));
            }
        }
    }
    findings.tally(Severity::Error, wrong, "entries that differ from their record", REBUILD);
    Ok(())
}

/// Returns whether the entry, or the one that it repeats, is stored as the record has it.
fn is_there(conn: &Connection, id: EntryId, entry: &DraftEntry) -> Result<bool> {
    let row = conn
        .prepare_cached(
            "SELECT e.uuid, k.type, nullif(k.role, ''), e.time, e.content
               FROM entry_rows e CROSS JOIN kinds k ON k.id = e.kind
              WHERE e.id = coalesce((SELECT entry FROM sightings WHERE seq = ?1), ?1)",
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
        && *type_name == *entry.kind.type_name
        && role.as_deref() == entry.role.map(quipu_transcript::entry::Role::as_str)
        && time == entry.time
        && content == entry.content)
}
