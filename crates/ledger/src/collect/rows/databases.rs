//! Reports what the ledger knows of other programs' databases, as of the last sync. Never opens one
//! of them.

use rusqlite::Connection;

use crate::Result;
use crate::collect::known;
use crate::collect::rows::{NEWEST_SCHEMA, Unread};
use crate::wire::{DatabaseStatus, SkippedFiles};

/// Returns the databases of a format that the last sync found and could read, and their transcripts
/// that were not read.
pub(crate) fn all(
    conn: &Connection,
    format: &str,
) -> Result<(Vec<DatabaseStatus>, Vec<SkippedFiles>)> {
    let (mut databases, mut skipped) = (Vec::new(), Vec::new());
    for known in known::databases(conn)? {
        let Some(rows) = known.rows.filter(|_| known.format == format && !known.is_gone) else {
            continue;
        };
        if known.refused.is_some() {
            continue;
        }
        let unread = Unread::load(conn, known.source)?;
        let transcripts = rows.rows.cast_unsigned();
        let missing = unread.0.values().map(|named| named.count).sum();
        databases.push(DatabaseStatus {
            path: String::from_utf8_lossy(&known.path).into_owned(),
            schema_version: rows.last_row,
            transcripts,
            read_transcripts: transcripts.saturating_sub(missing),
        });
        skipped.extend(unread.0.into_iter().map(|(reason, named)| SkippedFiles {
            format: format.to_owned(),
            reason,
            files: named.count,
            folders: 0,
            paths: named.paths,
            is_in_database: true,
        }));
    }
    Ok((databases, skipped))
}

/// Returns a warning for each database whose schema is newer than this build knows: this build may
/// understand only a part of it.
pub(crate) fn newer(conn: &Connection, format: &str) -> Result<Vec<SkippedFiles>> {
    let (databases, _) = all(conn, format)?;
    let newer = databases.into_iter().filter(|database| database.schema_version > NEWEST_SCHEMA);
    Ok(newer
        .map(|database| SkippedFiles {
            format: format.to_owned(),
            reason: format!(
                "schema {} of a database is newer than this quipu supports ({NEWEST_SCHEMA}): \
                 collected as far as it is understood",
                database.schema_version
            ),
            files: 1,
            folders: 0,
            paths: vec![database.path],
            is_in_database: false,
        })
        .collect())
}
