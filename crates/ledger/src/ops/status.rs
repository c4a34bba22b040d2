//! Describes the contents of the ledger, what it left out and what is at risk. Lists files on disk
//! but never opens a source.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use quipu_transcript::format::{FORMATS, Format, Part};
use quipu_transcript::formats::native::Native;
use rusqlite::{Connection, Rows};

use crate::Result;
use crate::base::clock;
use crate::base::paths::absolute;
use crate::base::sidecar::log_length;
use crate::collect::rows::databases;
use crate::collect::{
    Discovery, Gate, MAX_LISTED_LINKS, MAX_LISTED_PATHS, RootPath, RootState, discover, known,
    repeats, resolve, summarise,
};
use crate::file::ledger::Ledger;
use crate::file::schema;
use crate::ops::damaged_indexes;
use crate::ops::freshness::unprojected;
use crate::project::family::is_subagent;
use crate::read::search;
use crate::truth::damaged;
use crate::truth::forgotten::{FORGOTTEN, Forgotten};
use crate::wire::{
    FormatStatus, LedgerStatus, OldestTranscript, PriorityStatus, RootStatus, SkippedFiles, Status,
};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Describes the contents of the ledger, and the files under `roots` that it lacks.
pub fn status(ledger: &Ledger, roots: &[RootPath]) -> Result<Status> {
    describe(ledger.conn(), ledger_status(ledger)?, roots)
}

/// Describes the files under `roots` for an empty ledger at `path`. Creates nothing on disk.
pub fn status_without_ledger(path: &Path, roots: &[RootPath]) -> Result<Status> {
    let mut conn = Connection::open_in_memory()?;
    let tx = conn.transaction()?;
    schema::create_truth(&tx)?;
    schema::create_projection(&tx)?;
    tx.commit()?;
    let ledger = LedgerStatus {
        path: path.display().to_string(),
        has_file: false,
        ledger_id: String::new(),
        bytes: 0,
        log_bytes: 0,
        records: 0,
        unprojected_records: 0,
        schema_version: 0,
    };
    describe(&conn, ledger, roots)
}

fn describe(conn: &Connection, ledger: LedgerStatus, roots: &[RootPath]) -> Result<Status> {
    let resolved = resolve(roots);
    let known = known::all(conn)?;
    let by_path = known::by_path(&known);
    let mut discovery = discover(&resolved, &|root, path| {
        by_path.contains_key(&(root.format.name(), root.path.as_os_str().as_bytes(), path))
    });
    repeats::leave_out(&resolved, &mut discovery, &known);
    Gate::load(conn)?.leave_out(&resolved, &mut discovery);
    let forgotten = Forgotten::load(conn)?;
    discovery.skip_unreadable(&resolved);
    let unknown = unknown_types(conn)?;
    let mut formats = Vec::new();
    for format in FORMATS {
        let mut status = format_status(conn, *format, roots, &resolved, &discovery, &unknown)?;
        status.damaged.append(&mut damaged_indexes(conn, *format, &known, &forgotten)?);
        formats.push(status);
    }
    // Most ledgers hold no native sessions.
    let own = format_status(conn, &Native, roots, &resolved, &discovery, &unknown)?;
    if own.records > 0 {
        formats.push(own);
    }
    let (partly_indexed, too_long) = search::partly_indexed(conn)?;
    Ok(Status {
        ledger,
        formats,
        problems_by_kind: counts(conn, "SELECT kind, count(*) FROM problems GROUP BY kind", [])?,
        partly_indexed_entries: partly_indexed,
        too_long_records: too_long,
        absent_records: count(conn, "SELECT count(*) FROM absent")?,
        provisional_lines: count(conn, "SELECT count(*) FROM entries WHERE id < 0")?,
        files_not_kept: count(conn, "SELECT count(*) FROM damaged WHERE NOT is_kept")?,
    })
}

fn ledger_status(ledger: &Ledger) -> Result<LedgerStatus> {
    let conn = ledger.conn();
    let length = std::fs::metadata(ledger.path()).map_or(0, |meta| meta.len());
    Ok(LedgerStatus {
        path: ledger.path().display().to_string(),
        has_file: true,
        ledger_id: conn.query_row("SELECT ledger_id FROM ledger", [], |row| row.get(0))?,
        bytes: length,
        log_bytes: log_length(ledger.path()),
        records: count(
            conn,
            "SELECT coalesce(sum(g.records), 0)
               FROM generations g JOIN sources s ON s.id = g.source WHERE s.kind <> 'journal'",
        )?,
        unprojected_records: unprojected(ledger)?,
        schema_version: conn.query_row("PRAGMA user_version", [], |row| row.get(0))?,
    })
}

fn format_status(
    conn: &Connection,
    format: &'static dyn Format,
    roots: &[RootPath],
    resolved: &[RootPath],
    discovery: &Discovery,
    unknown: &UnknownTypes,
) -> Result<FormatStatus> {
    let name = format.name();
    let is_ours = |index: usize| roots.get(index).is_some_and(|root| root.format.name() == name);
    let mut skipped = summarise(roots, &discovery.skipped, MAX_LISTED_LINKS);
    skipped.retain(|skipped| skipped.format == name);
    skipped.append(&mut refused(conn, name)?);
    let (database_files, mut unread) = databases::all(conn, name)?;
    skipped.append(&mut unread);
    let (sources, records, bytes, gone, rewritten, database_sessions, databases) = conn.query_row(
        "SELECT count(DISTINCT CASE WHEN s.kind IN ('file', 'native') THEN s.id END),
                coalesce(sum(g.records), 0),
                coalesce(sum(CASE WHEN g.id = s.generation THEN g.cursor + g.tail_length
                    + coalesce((SELECT length FROM indexes i WHERE i.source = s.id), 0)
                    + coalesce((SELECT length FROM damaged d
                                 WHERE d.generation = g.id AND is_kept), 0) END), 0),
                count(DISTINCT CASE WHEN s.is_gone AND s.kind <> 'native' THEN s.id END),
                count(DISTINCT CASE WHEN g.number > 1 THEN s.id END),
                count(DISTINCT CASE WHEN s.kind = 'rows' AND (g.cursor > 0 OR d.why <> '')
                                    THEN s.id END),
                count(DISTINCT CASE WHEN s.kind = 'rows' AND g.cursor = 0 AND d.why IS NULL
                                    THEN s.id END)
           FROM sources s JOIN generations g ON g.source = s.id
           LEFT JOIN damaged d ON d.generation = g.id
          WHERE s.kind <> 'journal' AND s.format = ?1 AND s.refused IS NULL",
        [name],
        |row| {
            let number = |index| row.get::<_, i64>(index).map(i64::cast_unsigned);
            let (sources, records, bytes) = (number(0)?, number(1)?, number(2)?);
            Ok((sources, records, bytes, number(3)?, number(4)?, number(5)?, number(6)?))
        },
    )?;
    let states = counts(
        conn,
        concat!(
            "SELECT state, count(*) FROM sessions s WHERE format = ?1 AND NOT ",
            is_subagent!(),
            " GROUP BY state",
        ),
        [name],
    )?;
    let subagents: i64 = conn.query_row(
        concat!("SELECT count(*) FROM sessions s WHERE s.format = ?1 AND ", is_subagent!()),
        [name],
        |row| row.get(0),
    )?;
    Ok(FormatStatus {
        format: name.to_owned(),
        product: format.title().to_owned(),
        roots: discovery
            .roots
            .iter()
            .enumerate()
            .filter(|(index, _)| is_ours(*index))
            .filter_map(|(index, state)| {
                Some(RootStatus {
                    path: roots.get(index)?.path.display().to_string(),
                    state: match state {
                        RootState::Walked => "collected",
                        RootState::Absent => "absent",
                        RootState::Twin => "duplicate",
                        RootState::Unreadable => "unreadable",
                    }
                    .to_owned(),
                })
            })
            .collect(),
        sessions: states.values().sum(),
        subagents: subagents.cast_unsigned(),
        sessions_by_state: states,
        sources,
        databases,
        database_sessions,
        database_files,
        warnings: databases::newer(conn, name)?,
        records,
        bytes,
        priorities: priorities(conn, format)?,
        skipped,
        damaged: damaged(conn, name)?,
        records_by_unknown_type: unknown.get(name).cloned().unwrap_or_default(),
        forgotten_sessions: conn.query_row(
            "SELECT count(*) FROM forgotten WHERE format = ?1",
            [name],
            |row| row.get::<_, i64>(0).map(i64::cast_unsigned),
        )?,
        gone_sources: gone,
        rewritten_sources: rewritten,
        oldest_transcript: oldest(format, resolved, discovery),
    })
}

/// Returns the contents of each priority, the most important first.
fn priorities(conn: &Connection, format: &dyn Format) -> Result<Vec<PriorityStatus>> {
    let mut statement = conn.prepare(
        "SELECT s.first_path,
                sum(g.records),
                sum(CASE WHEN g.id = s.generation THEN g.cursor + g.tail_length
                    + coalesce((SELECT length FROM indexes i WHERE i.source = s.id), 0)
                    + coalesce((SELECT length FROM damaged d
                                 WHERE d.generation = g.id AND is_kept), 0) ELSE 0 END),
                s.kind <> 'rows'
           FROM sources s JOIN generations g ON g.source = s.id
          WHERE s.kind <> 'journal' AND s.format = ?1 AND s.refused IS NULL
          GROUP BY s.id",
    )?;
    let mut rows = statement.query([format.name()])?;
    let mut priorities: BTreeMap<u8, PriorityStatus> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let path = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
        let priority = format.origin(path).part.priority();
        let group = priorities.entry(priority).or_insert_with(|| PriorityStatus {
            priority,
            sources: 0,
            database_sources: 0,
            records: 0,
            bytes: 0,
        });
        let is_file: bool = row.get(3)?;
        let is_database = format.origin(path).part == Part::Database;
        group.sources += u64::from(is_file);
        group.database_sources += u64::from(!is_file && !is_database);
        group.records += row.get::<_, i64>(1)?.cast_unsigned();
        group.bytes += row.get::<_, i64>(2)?.cast_unsigned();
    }
    Ok(priorities.into_values().collect())
}

/// Returns files without a record, and databases that cannot be read.
fn refused(conn: &Connection, format: &str) -> Result<Vec<SkippedFiles>> {
    let mut statement = conn.prepare(
        "SELECT refused, path, 0 FROM sources
          WHERE format = ?1 AND refused IS NOT NULL AND refused <> ?2 AND is_gone = 0
          ORDER BY refused, path",
    )?;
    grouped(format, statement.query([format, FORGOTTEN])?)
}

/// Returns compressed files, and archives in databases, that cannot be decompressed to their end.
fn damaged(conn: &Connection, format: &str) -> Result<Vec<SkippedFiles>> {
    let mut groups = Vec::new();
    for is_kept in [true, false] {
        let mut statement = conn.prepare(
            "SELECT d.why, s.path, s.kind = 'rows'
               FROM damaged d JOIN sources s ON s.generation = d.generation
              WHERE s.format = ?1 AND s.refused IS NULL AND d.is_kept = ?2
              ORDER BY s.kind, d.why, s.path",
        )?;
        let mut found = grouped(format, statement.query((format, is_kept))?)?;
        for group in &mut found {
            group.reason = damaged::describe(&group.reason, is_kept);
        }
        groups.append(&mut found);
    }
    Ok(groups)
}

/// Returns indexes that cannot be read, each by itself. Their last readable version is kept.
fn damaged_indexes(
    conn: &Connection,
    format: &dyn Format,
    known: &[known::KnownSource],
    forgotten: &Forgotten,
) -> Result<Vec<SkippedFiles>> {
    let damaged = damaged_indexes::damaged(conn, known, forgotten)?.into_iter();
    Ok(damaged
        .filter(|(known, _)| known.format == format.name())
        .map(|(known, why)| SkippedFiles {
            format: known.format.clone(),
            reason: format!("an unreadable index: {why}"),
            files: 1,
            folders: 0,
            paths: vec![String::from_utf8_lossy(&known.path).into_owned()],
            is_in_database: false,
        })
        .collect())
}

/// Groups consecutive rows with the same reason. The columns are the reason, the path, and whether
/// it is in a database.
fn grouped(format: &str, mut rows: Rows<'_>) -> Result<Vec<SkippedFiles>> {
    let mut groups: Vec<SkippedFiles> = Vec::new();
    while let Some(row) = rows.next()? {
        let (reason, in_database): (String, bool) = (row.get(0)?, row.get(2)?);
        let path = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        let path = String::from_utf8_lossy(path).into_owned();
        match groups.last_mut() {
            Some(group) if (&group.reason, group.is_in_database) == (&reason, in_database) => {
                group.files += 1;
                if group.paths.len() < MAX_LISTED_PATHS {
                    group.paths.push(path);
                }
            }
            _ => groups.push(SkippedFiles {
                format: format.to_owned(),
                reason,
                files: 1,
                folders: 0,
                paths: vec![path],
                is_in_database: in_database,
            }),
        }
    }
    Ok(groups)
}

/// Returns the transcript that the agent's clean-up would delete first.
fn oldest(
    format: &dyn Format,
    roots: &[RootPath],
    discovery: &Discovery,
) -> Option<OldestTranscript> {
    let found = discovery
        .found
        .iter()
        .filter(|found| {
            roots.get(found.root).is_some_and(|root| root.format.name() == format.name())
        })
        .filter(|found| found.part.is_transcript() && !found.is_left_out)
        .min_by_key(|found| found.stat.mtime_ns)?;
    let root = roots.get(found.root)?;
    let modified_at = found.stat.mtime_ns / 1_000_000;
    let age = clock::now_ms().saturating_sub(modified_at).max(0) / DAY_MS;
    let days = root.retention.days(format);
    Some(OldestTranscript {
        path: absolute(&root.path, &found.path).display().to_string(),
        modified_at,
        left_days: days.map(|days| i64::from(days) - age),
        cleanup_days: days,
        cleanup_from: root.retention.from().to_owned(),
    })
}

fn count(conn: &Connection, sql: &str) -> Result<u64> {
    let count: i64 = conn.query_row(sql, [], |row| row.get(0))?;
    Ok(count.cast_unsigned())
}

/// The number of entries of each unknown type, by format.
type UnknownTypes = BTreeMap<String, BTreeMap<String, u64>>;

/// Counts entries of unknown types. It reads all entries, so it runs once, and not if all types are
/// known.
fn unknown_types(conn: &Connection) -> Result<UnknownTypes> {
    let mut statement = conn.prepare(
        "SELECT s.format, k.type, count(*)
           FROM entry_rows e
           CROSS JOIN kinds k ON k.id = e.kind
           CROSS JOIN sessions s ON s.id = e.session
          WHERE EXISTS (SELECT 1 FROM kinds WHERE form = 'unknown')
            AND e.kind IN (SELECT id FROM kinds WHERE form = 'unknown')
          GROUP BY s.format, k.type",
    )?;
    let mut rows = statement.query([])?;
    let mut unknown = UnknownTypes::new();
    while let Some(row) = rows.next()? {
        let count: i64 = row.get(2)?;
        unknown.entry(row.get(0)?).or_default().insert(row.get(1)?, count.cast_unsigned());
    }
    Ok(unknown)
}

fn counts(
    conn: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
) -> Result<BTreeMap<String, u64>> {
    let mut statement = conn.prepare(sql)?;
    Ok(statement
        .query_map(parameters, |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned())))?
        .collect::<Result<_, _>>()?)
}
