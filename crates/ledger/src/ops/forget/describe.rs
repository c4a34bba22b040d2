//! Describes what is removed and what stays in other places, for the person who decides.
//!
//! Never changes anything.

use std::fs;
use std::path::Path;

use rusqlite::Connection;

use super::scope::{self, Scope};
use crate::file::ledger::Ledger;
use crate::read::query::complete::complete;
use crate::read::query::find;
use crate::wire::{ForgetReport, ForgottenSession};
use crate::{Error, Result};

/// The largest number of listed sessions with copies of forgotten lines.
const MAX_LISTED_SESSIONS: usize = 20;

/// Describes what the ledger holds of these sessions. Must run before the removal.
pub(super) fn describe(conn: &Connection, scope: &Scope) -> Result<ForgetReport> {
    let copied_in = copied_in(conn, scope)?;
    let mut report = ForgetReport {
        affected_sessions: scope.sessions.clone(),
        shared_lines: (scope.lines.blanked.len() + scope.lines.tails.len()) as u64,
        paths_on_disk: on_disk(scope),
        copies: copied_in.len() as u64,
        sessions_with_copies: copied_in.into_iter().take(MAX_LISTED_SESSIONS).collect(),
        thread_sessions: threads(conn, scope)?,
        ..ForgetReport::default()
    };
    for source in &scope.sources {
        let (files, records): (i64, i64) = conn
            .prepare_cached(
                "SELECT count(DISTINCT CASE WHEN s.refused IS NULL THEN s.id END),
                        coalesce(sum(g.records), 0)
                   FROM sources s JOIN generations g ON g.source = s.id WHERE s.id = ?1",
            )?
            .query_row([source.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        report.files += files.cast_unsigned();
        report.records += records.cast_unsigned();
    }
    for generation in &scope.generations {
        let bytes: i64 = conn
            .prepare_cached(
                "SELECT tail_length
                        + (SELECT coalesce(sum(length), 0) FROM spans
                            WHERE generation = ?1 AND first_seq IS NOT NULL)
                        + (SELECT coalesce(sum(length(bytes)), 0) FROM damaged_bytes
                            WHERE generation = ?1)
                   FROM generations WHERE id = ?1",
            )?
            .query_row([generation], |row| row.get(0))?;
        report.bytes += bytes.cast_unsigned();
    }
    Ok(report)
}

/// Describes a session that was forgotten before. Returns `None` if `name` means an existing one.
pub(super) fn forgotten_before(ledger: &Ledger, name: &str) -> Result<Option<ForgetReport>> {
    complete(ledger, &mut |conn| before(conn, name))
}

fn before(conn: &Connection, name: &str) -> Result<Option<ForgetReport>> {
    let not_found = match find::session(conn, name) {
        Err(error @ (Error::NoMatch { .. } | Error::Empty { .. })) if !name.is_empty() => error,
        Err(error) => return Err(error),
        Ok(_) => return Ok(None),
    };
    let mut statement = conn.prepare(
        "SELECT format, agent, session_id FROM forgotten
          WHERE substr(session_id, 1, length(?1)) = ?1 OR agent || '/' || session_id = ?1
          ORDER BY length(session_id), session_id, agent, format",
    )?;
    let found = statement
        .query_map([name], |row| {
            Ok(ForgottenSession {
                format: row.get(0)?,
                agent: row.get(1)?,
                session_id: row.get(2)?,
                part: String::new(),
                title: None,
                project: None,
                slug: None,
            })
        })?
        .collect::<Result<Vec<_>, _>>()?;
    let Some(first) = found.first() else { return Err(not_found) };
    // The ids of sub-agents begin with the id of their session.
    let is_one = found.iter().all(|other| other.session_id.starts_with(&first.session_id));
    if !is_one {
        let candidates = found.into_iter().map(|session| session.session_id).collect();
        return Err(Error::ambiguous("sessions", name, candidates));
    }
    let scope = scope::scope(conn, Vec::new(), found)?;
    Ok(Some(ForgetReport { was_forgotten: true, ..describe(conn, &scope)? }))
}

/// Returns the agents' own files that still hold the sessions.
fn on_disk(scope: &Scope) -> Vec<String> {
    let paths = scope.sources.iter().map(|source| &source.path).chain(&scope.lines.files);
    let mut on_disk: Vec<String> = paths
        .filter_map(|path| {
            // The path of a database session leads through the file of the database.
            let database = path.parent().filter(|parent| parent.is_file());
            let is_there = |path: &&Path| fs::symlink_metadata(path).is_ok();
            Some(path.as_path()).filter(is_there).or(database)
        })
        .map(|path| path.display().to_string())
        .collect();
    on_disk.dedup();
    on_disk
}

/// Returns other sessions that hold lines of these: resumed, forked and copied ones. Short ids
/// repeat by chance, so for those the whole line has to be equal.
fn copied_in(conn: &Connection, scope: &Scope) -> Result<Vec<ForgottenSession>> {
    let rows: Vec<String> = scope.rows.iter().map(|row| row.0.to_string()).collect();
    let rows = rows.join(", ");
    let mut statement = conn.prepare(&format!(
        "SELECT s.format, s.agent, s.session_id, s.part, s.slug, s.id
           FROM sessions s
          WHERE s.id IN (
            SELECT session FROM entry_rows
             WHERE uuid IS NOT NULL AND session NOT IN ({rows})
               AND ((uuid, content) IN (
                        SELECT uuid, content FROM entry_rows
                         WHERE session IN ({rows}) AND uuid IS NOT NULL)
                    OR (length(uuid) = 16 AND typeof(uuid) = 'blob' AND uuid IN (
                        SELECT uuid FROM entry_rows
                         WHERE session IN ({rows}) AND uuid IS NOT NULL)))
          )
          ORDER BY s.id"
    ))?;
    let found = statement.query_map([], scope::session)?.collect::<Result<Vec<_>, _>>()?;
    Ok(scope::titled(conn, found)?.into_iter().map(|(_, session)| session).collect())
}

/// Returns the threads of these sessions. OpenClaw gives each thread a separate transcript, which
/// is a session that stays.
fn threads(conn: &Connection, scope: &Scope) -> Result<Vec<ForgottenSession>> {
    let mut statement = conn.prepare_cached(
        "SELECT format, agent, session_id, part, slug, id FROM sessions
          WHERE format = ?1 AND agent = ?2
            AND substr(session_id, 1, length(?3) + 7) = ?3 || '-topic-'
          ORDER BY session_id",
    )?;
    let mut found = Vec::new();
    for session in &scope.sessions {
        let name = (&session.format, &session.agent, &session.session_id);
        let more = statement.query_map(name, scope::session)?;
        found.extend(more.collect::<Result<Vec<_>, _>>()?);
    }
    found.retain(|(row, _)| !scope.rows.contains(row));
    Ok(scope::titled(conn, found)?.into_iter().map(|(_, session)| session).collect())
}

/// Returns the files that may hold forgotten data and that only a person can remove: known backups,
/// and other files beside the ledger whose names begin with its name.
pub(super) fn backups(ledger: &Ledger) -> Result<Vec<String>> {
    let known = crate::ops::backup::backups(ledger)?;
    let mut backups: Vec<String> = known
        .into_iter()
        .filter(|backup| backup.exists)
        .map(|backup| backup.path.display().to_string())
        .collect();
    for path in beside(ledger.path()) {
        if !backups.contains(&path) {
            backups.push(path);
        }
    }
    Ok(backups)
}

/// Returns the files beside the ledger whose names begin with its name and that are not part of it.
fn beside(ledger: &Path) -> Vec<String> {
    let (Some(folder), Some(name)) = (ledger.parent(), ledger.file_name()) else {
        return Vec::new();
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let other = entry.file_name();
        let Some(rest) = other.as_encoded_bytes().strip_prefix(name.as_encoded_bytes()) else {
            continue;
        };
        if !OWN_SUFFIXES.contains(&rest) {
            found.push(entry.path().display().to_string());
        }
    }
    found.sort();
    found
}

/// The suffixes of the ledger's own files.
const OWN_SUFFIXES: &[&[u8]] = &[b"", b"-wal", b"-shm", b"-journal", b".lock", b".wait"];
