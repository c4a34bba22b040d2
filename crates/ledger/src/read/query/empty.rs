//! Transcripts without a line.
//!
//! They have no entries, so they are never sessions of the projection. A list of everything shows
//! them, and a query for one of them returns an error that explains it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use quipu_transcript::format::{self, Origin};
use rusqlite::Connection;

use super::listed::{Filter, Listed};
use crate::base::ids::{SessionRow, SourceId};
use crate::base::paths::absolute;
use crate::wire::{Session, SessionState};
use crate::{Error, Result};

/// A transcript without a line.
struct Transcript {
    source: SourceId,
    format: String,
    root: Vec<u8>,
    path: Vec<u8>,
    session: String,
    agent: String,
    origin: Origin,
    is_gone: bool,
    /// The time of the last write, milliseconds UTC.
    time: Option<i64>,
}

/// Returns the empty transcripts that pass the filter. None pass unless `filter.all` is set.
pub(super) fn all(conn: &Connection, filter: &Filter) -> Result<Vec<Session>> {
    if !filter.all {
        return Ok(Vec::new());
    }
    let mut found: Vec<Session> = Vec::new();
    for transcript in transcripts(conn)? {
        let Transcript { format, session, agent, origin, is_gone, time, .. } = transcript;
        let is_listed = found.iter().any(|other| {
            (&other.format, &other.agent, &other.session_id) == (&format, &agent, &session)
        });
        if is_listed {
            continue;
        }
        let listed = Listed {
            row: SessionRow(0),
            format,
            agent,
            slug: origin.project,
            path: None,
            started_at: time,
            updated_at: time,
            last: time,
            channel: None,
            is_minor: true,
            is_automatic: false,
        };
        if !filter.passes_with_project(&listed) {
            continue;
        }
        found.push(Session {
            session_id: session,
            project: listed.project().to_owned(),
            part: origin.part.as_str().to_owned(),
            format: listed.format,
            agent: listed.agent,
            slug: listed.slug,
            modified_at: time,
            updated_at: time,
            cost_usd: Some(0.0),
            parent_session_id: origin.parent,
            state: SessionState::of_file(is_gone, origin.archive),
            ..Session::default()
        });
    }
    Ok(found)
}

/// Returns the ids of all empty transcripts.
pub(super) fn ids(conn: &Connection) -> Result<Vec<String>> {
    Ok(transcripts(conn)?.into_iter().map(|transcript| transcript.session).collect())
}

/// Returns the files whose id is `name` or begins with it, if no session has that name.
pub(crate) fn sources(conn: &Connection, name: &str) -> Result<Vec<SourceId>> {
    Ok(called(conn, name)?.into_iter().map(|transcript| transcript.source).collect())
}

/// Returns the error for a query whose session is an empty transcript.
pub(super) fn error(conn: &Connection, name: &str) -> Result<Option<Error>> {
    let found = called(conn, name)?;
    let Some(first) = found.first() else { return Ok(None) };
    if found.iter().any(|other| other.session != first.session) {
        let mut candidates: Vec<String> = found.into_iter().map(|found| found.session).collect();
        candidates.sort_unstable();
        candidates.dedup();
        return Ok(Some(Error::ambiguous("sessions", name, candidates)));
    }
    let path = absolute(Path::new(OsStr::from_bytes(&first.root)), &first.path);
    Ok(Some(Error::Empty { id: first.session.clone(), path }))
}

/// Returns the empty transcripts whose id is `name` or begins with it.
fn called(conn: &Connection, name: &str) -> Result<Vec<Transcript>> {
    let mut found = transcripts(conn)?;
    // The name of an agent or a format may precede the id.
    let id = |transcript: &Transcript| match name.split_once('/') {
        Some((prefix, id)) if prefix == transcript.agent || prefix == transcript.format => {
            id.to_owned()
        }
        _ => name.to_owned(),
    };
    found.retain(|transcript| transcript.session.starts_with(&id(transcript)));
    let is_exact = |transcript: &Transcript| transcript.session == id(transcript);
    if found.iter().any(is_exact) {
        found.retain(is_exact);
    }
    Ok(found)
}

/// Returns all empty transcripts, newest first.
fn transcripts(conn: &Connection) -> Result<Vec<Transcript>> {
    let mut statement = conn.prepare(
        "SELECT s.format, s.path, s.is_gone, g.mtime_ns / 1000000, s.id, s.root
           FROM sources s JOIN generations g ON g.id = s.generation
          WHERE s.kind = 'file' AND s.refused IS NULL AND g.size = 0
            AND NOT EXISTS (SELECT 1 FROM session_sources ss WHERE ss.source = s.id)
          ORDER BY g.mtime_ns DESC, s.id DESC",
    )?;
    let mut known = conn
        .prepare("SELECT 1 FROM sessions WHERE format = ?1 AND agent = ?2 AND session_id = ?3")?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        let path: Vec<u8> = row.get(1)?;
        let Some(format) = format::by_name(&name) else { continue };
        let mut origin = format.origin(&path);
        if !origin.part.is_transcript() {
            continue;
        }
        let Some(session) = origin.session.take() else { continue };
        let agent = origin.agent.take().unwrap_or_default();
        if known.exists((&name, &agent, &session))? {
            continue;
        }
        found.push(Transcript {
            source: row.get(4)?,
            format: name,
            root: row.get(5)?,
            path,
            session,
            agent,
            origin,
            is_gone: row.get(2)?,
            time: Some(row.get(3)?).filter(|time| *time > 0),
        });
    }
    Ok(found)
}
