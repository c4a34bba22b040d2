//! Finds everything that belongs to a session: its sub-agents, the sources that are theirs alone,
//! and their lines in files that all sessions share. Never changes anything.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use quipu_transcript::format::{self, Format, Origin, Part};
use quipu_transcript::record::{DECODE_LIMIT, OVERSIZE_HEAD};
use rusqlite::{Connection, OptionalExtension, Row};

use super::marks_of;
use super::ranges::SeqSet;
use crate::base::ids::{GenerationId, Seq, SessionRow, SourceId};
use crate::base::paths::absolute;
use crate::read::query::{self, find};
use crate::truth::chunks::RecordReader;
use crate::truth::forgotten::Forgotten;
use crate::truth::forgotten::shared_lines::{self, Judge, Verdict};
use crate::truth::journal::Event;
use crate::truth::{journal, tails};
use crate::wire::ForgottenSession;
use crate::{Error, Result};

/// Everything that is removed.
pub(super) struct Scope {
    pub(super) sessions: Vec<ForgottenSession>,
    /// Format, agent and id of each session, under every name that a path has for it.
    pub(super) names: Vec<[String; 3]>,
    /// The rows of the sessions in the projection, if they exist.
    pub(super) rows: Vec<SessionRow>,
    /// The sources that only these sessions use.
    pub(super) sources: Vec<Source>,
    /// All generations of those sources.
    pub(super) generations: Vec<GenerationId>,
    /// The records of those generations.
    pub(super) own: SeqSet,
    /// The sessions' lines in shared files.
    pub(super) lines: Lines,
}

/// A collected file.
pub(super) struct Source {
    pub(super) id: SourceId,
    pub(super) path: PathBuf,
}

/// Lines of forgotten sessions in shared files.
#[derive(Default)]
pub(super) struct Lines {
    /// The records to blank.
    pub(super) blanked: BTreeSet<i64>,
    /// The generations whose unterminated last line is dropped and has to be read again.
    pub(super) tails: Vec<GenerationId>,
    /// All generations of the affected shared files.
    pub(super) generations: Vec<GenerationId>,
    /// The affected shared files.
    pub(super) files: Vec<PathBuf>,
}

/// Finds the session that `name` means, and its sub-agents.
pub(super) fn sessions(
    conn: &Connection,
    name: &str,
) -> Result<(Vec<SessionRow>, Vec<ForgottenSession>)> {
    let wanted = find::session(conn, name)?;
    let mut statement = conn.prepare(&format!(
        "{} SELECT s.format, s.agent, s.session_id, s.part, s.slug, s.id
                  FROM family JOIN sessions s ON s.id = family.id
                 ORDER BY s.id <> ?1, s.id",
        find::FAMILY
    ))?;
    let found = statement
        .query_map([wanted], session)?
        .collect::<Result<Vec<(SessionRow, ForgottenSession)>, _>>()?;
    Ok(titled(conn, found)?.into_iter().unzip())
}

/// Reads a session from the columns format, agent, session_id, part, project and id.
pub(super) fn session(row: &Row<'_>) -> rusqlite::Result<(SessionRow, ForgottenSession)> {
    let session = ForgottenSession {
        format: row.get(0)?,
        agent: row.get(1)?,
        session_id: row.get(2)?,
        part: row.get(3)?,
        title: None,
        project: None,
        slug: row.get(4)?,
    };
    Ok((row.get(5)?, session))
}

/// Adds titles and projects to the sessions.
pub(super) fn titled(
    conn: &Connection,
    mut found: Vec<(SessionRow, ForgottenSession)>,
) -> Result<Vec<(SessionRow, ForgottenSession)>> {
    for (row, session) in &mut found {
        session.title = query::sessions::title(conn, *row)?;
        let cwd: Option<String> = conn
            .prepare_cached("SELECT nullif(cwd, '') FROM sessions WHERE id = ?1")?
            .query_row([*row], |row| row.get(0))?;
        let slug = session.slug.as_deref();
        let place = query::listed::project_folder(conn, slug, cwd.as_deref())?;
        let name = query::listed::project_name(place.as_deref(), slug);
        session.project = Some(name.to_owned()).filter(|name| !name.is_empty());
    }
    Ok(found)
}

/// Finds everything that belongs to some sessions.
pub(super) fn scope(
    conn: &Connection,
    rows: Vec<SessionRow>,
    sessions: Vec<ForgottenSession>,
) -> Result<Scope> {
    let names = names(conn, &rows, &sessions)?;
    let marks = &marks_of(&names);
    let mut scope = Scope {
        sessions,
        names,
        rows,
        sources: Vec::new(),
        generations: Vec::new(),
        own: SeqSet::default(),
        lines: Lines::default(),
    };
    let mut own = Vec::new();
    let mut shared = Vec::new();
    let mut statement =
        conn.prepare("SELECT id, format, root, path, first_path FROM sources WHERE id <> ?1")?;
    let mut found = statement.query([journal::SOURCE])?;
    while let Some(row) = found.next()? {
        let (id, name): (SourceId, String) = (row.get(0)?, row.get(1)?);
        let Some(format) = format::by_name(&name).filter(|format| marks.concerns(*format)) else {
            continue;
        };
        let (root, path, first_path): (Vec<u8>, Vec<u8>, Vec<u8>) =
            (row.get(2)?, row.get(3)?, row.get(4)?);
        let path = absolute(Path::new(OsStr::from_bytes(&root)), &path);
        let origin = format.origin(&first_path);
        if marks.claims(format, &origin) || is_named_inside(conn, id, &origin, &scope.rows)? {
            let generations = generations_of(conn, id)?;
            for generation in &generations {
                own.extend(own_runs(conn, *generation)?);
            }
            scope.generations.extend(generations);
            scope.sources.push(Source { id, path });
        } else if shared_lines::is_shared(&origin) {
            shared.push((id, format, origin, path));
        }
    }
    scope.own = SeqSet::from_ranges(own);
    for (source, format, origin, path) in shared {
        lines_of(conn, marks, source, format, &origin, path, &mut scope.lines)?;
    }
    journal_lines(conn, marks, &mut scope.lines)?;
    Ok(scope)
}

/// Returns the names of these sessions. A thread's transcript that the agent moved into its
/// database is there under its id alone.
fn names(
    conn: &Connection,
    rows: &[SessionRow],
    sessions: &[ForgottenSession],
) -> Result<Vec<[String; 3]>> {
    let name = |session: &ForgottenSession| {
        [session.format.clone(), session.agent.clone(), session.session_id.clone()]
    };
    let mut names: Vec<[String; 3]> = sessions.iter().map(name).collect();
    let mut statement = conn.prepare_cached(
        "SELECT s.format, s.agent, s.session_id, f.first_path
           FROM sessions s JOIN session_sources ss ON ss.session = s.id
           JOIN sources f ON f.id = ss.source
          WHERE s.id = ?1",
    )?;
    for row in rows {
        let mut found = statement.query([row])?;
        while let Some(found) = found.next()? {
            let (name, agent, session_id): (String, String, String) =
                (found.get(0)?, found.get(1)?, found.get(2)?);
            let path: Vec<u8> = found.get(3)?;
            let Some(format) = format::by_name(&name) else { continue };
            let in_path = format.origin(&path).session;
            if let Some(id) = in_path.filter(|id| format.without_thread(&session_id) == Some(id)) {
                names.push([name, agent, id]);
            }
        }
    }
    Ok(names)
}

/// Returns whether a source belongs to these sessions although its path does not name them: the
/// header of a cold archive names its session, and a prompt names the file with the text that was
/// pasted into it.
fn is_named_inside(
    conn: &Connection,
    source: SourceId,
    origin: &Origin,
    rows: &[SessionRow],
) -> Result<bool> {
    let sessions: Vec<Option<SessionRow>> = match origin.part {
        _ if origin.session.is_some() => return Ok(false),
        // A text that was pasted into prompts of these sessions only.
        Part::Pasted => conn
            .prepare_cached(
                "SELECT e.session FROM pasted_texts p JOIN entry_rows e ON e.id = p.prompt
                  WHERE p.name = ?1",
            )?
            .query_map([&origin.name], |row| row.get(0))?
            .collect::<Result<_, _>>()?,
        part if part.is_transcript() => conn
            .prepare_cached("SELECT session FROM session_sources WHERE source = ?1")?
            .query_map([source], |row| row.get(0))?
            .collect::<Result<_, _>>()?,
        _ => return Ok(false),
    };
    let is_theirs = |session: &Option<SessionRow>| session.is_some_and(|row| rows.contains(&row));
    Ok(!sessions.is_empty() && sessions.iter().all(is_theirs))
}

/// Finds the lines of the journal about keys that lead to forgotten sessions.
fn journal_lines(conn: &Connection, marks: &Forgotten, lines: &mut Lines) -> Result<()> {
    let mut noted = Vec::new();
    journal::lines(conn, &mut |seq, line| {
        if let Ok(
            Event::Key { source, session: Some(session), .. }
            | Event::Native { source, session, .. },
        ) = serde_json::from_slice(line)
        {
            noted.push((seq, source, session));
        }
    })?;
    for (seq, source, session) in noted {
        let (name, path): (String, Vec<u8>) = conn
            .prepare_cached("SELECT format, first_path FROM sources WHERE id = ?1")?
            .query_row([source], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let agent = format::by_name(&name).and_then(|format| format.origin(&path).agent);
        if marks.has(&name, &agent.unwrap_or_default(), &session) {
            lines.blanked.insert(seq.0);
        }
    }
    Ok(())
}

/// Finds the forgotten lines of one shared file, in all its generations.
fn lines_of(
    conn: &Connection,
    marks: &Forgotten,
    source: SourceId,
    format: &'static dyn Format,
    origin: &Origin,
    path: PathBuf,
    lines: &mut Lines,
) -> Result<()> {
    let Some(judge) = Judge::new(marks, format, origin) else { return Ok(()) };
    let mut reader = RecordReader::new(conn);
    let generations = generations_of(conn, source)?;
    // A line that was cut off cannot be decoded, but may be the beginning of a forgotten one.
    let mut cut_off: Vec<(i64, Vec<u8>)> = Vec::new();
    let mut forgotten: Vec<Vec<u8>> = Vec::new();
    let before = (lines.blanked.len(), lines.tails.len());
    for generation in &generations {
        for (first, last) in own_runs(conn, *generation)? {
            for seq in first..=last {
                let length = length_of(conn, seq)?;
                let (verdict, bytes) = read(&mut reader, &judge, seq, length)?;
                match verdict {
                    Verdict::Forgotten => {
                        lines.blanked.insert(seq);
                        forgotten.push(bytes);
                    }
                    Verdict::Torn => cut_off.push((seq, bytes)),
                    Verdict::Kept => {}
                }
            }
        }
        // The session of a tail that is too long to decode is unknown, so it is dropped too.
        let tail = tails::head(conn, *generation, DECODE_LIMIT + 1)?;
        let is_long = tail.len() > DECODE_LIMIT;
        if !tail.is_empty() && (is_long || judge.judge(&tail) != Verdict::Kept) {
            lines.tails.push(*generation);
            forgotten.push(tail);
        }
    }
    for (seq, bytes) in cut_off {
        let bytes = bytes.trim_ascii_end();
        if !bytes.is_empty() && forgotten.iter().any(|line| line.starts_with(bytes)) {
            lines.blanked.insert(seq);
        }
    }
    if before != (lines.blanked.len(), lines.tails.len()) {
        lines.generations.extend(generations);
        lines.files.push(path);
    }
    Ok(())
}

/// Reads and judges a line. A line that is too long to decode is judged by both of its ends.
fn read(
    reader: &mut RecordReader<'_>,
    judge: &Judge<'_>,
    seq: i64,
    length: u64,
) -> Result<(Verdict, Vec<u8>)> {
    if length <= DECODE_LIMIT as u64 {
        let bytes = reader.read(Seq(seq))?;
        return Ok((judge.judge(&bytes), bytes));
    }
    let mut ends = Vec::new();
    let mut at = 0;
    reader.stream(Seq(seq), &mut |part| {
        if at < OVERSIZE_HEAD as u64 || at + (part.len() + OVERSIZE_HEAD) as u64 >= length {
            ends.extend_from_slice(part);
        }
        at += part.len() as u64;
        Ok(true)
    })?;
    Ok((judge.judge_torn(&ends), ends))
}

fn generations_of(conn: &Connection, source: SourceId) -> Result<Vec<GenerationId>> {
    Ok(conn
        .prepare_cached("SELECT id FROM generations WHERE source = ?1 ORDER BY id")?
        .query_map([source], |row| row.get(0))?
        .collect::<Result<_, _>>()?)
}

fn own_runs(conn: &Connection, generation: GenerationId) -> Result<Vec<(i64, i64)>> {
    Ok(conn
        .prepare_cached(
            "SELECT first_seq, last_seq FROM spans
              WHERE generation = ?1 AND first_seq IS NOT NULL",
        )?
        .query_map([generation], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?)
}

fn length_of(conn: &Connection, seq: i64) -> Result<u64> {
    conn.prepare_cached("SELECT length FROM records WHERE seq = ?1")?
        .query_row([seq], |row| row.get::<_, i64>(0))
        .optional()?
        .map(i64::cast_unsigned)
        .ok_or_else(|| Error::damaged(format!("there is no record {seq}")))
}
