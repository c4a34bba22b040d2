//! Exports sessions as the files that OpenClaw 2026.7.1 uses, 2026.9.6 imports and pi opens:
//! `agents/<agent>/sessions/`, with one transcript per session, archives of what came before a
//! reset, and an index of keys. `quipu_transcript::context` lays the lines out.

mod index;
mod lines;

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::Path;

use quipu_transcript::context::Head;
use quipu_transcript::formats::native;
use quipu_transcript::time::Timestamp;
use rusqlite::Connection;

pub use index::Indexes;
pub use lines::Wrote;

use super::ExportFailure;
use crate::Result;
use crate::base::ids::SessionRow;
use crate::file::ledger::Ledger;
use crate::file::snapshot::Snapshot;
use crate::store::openclaw_names as names;
use crate::wire::{Session, SessionState};
use lines::Laying;

/// The exported format, besides native sessions.
const OPENCLAW: &str = "openclaw";

/// The files to write, all from one snapshot of the ledger.
pub struct Plan<'l> {
    conn: &'l Connection,
    /// `None` if the caller holds one.
    _snapshot: Option<Snapshot<'l>>,
    sessions: Vec<Planned>,
    /// Sessions that are not written: the id and the reason.
    pub left_out: Vec<(String, String)>,
    by_id: HashMap<(String, String), usize>,
}

/// A session and the names of its files.
#[derive(Debug, Clone)]
struct Planned {
    row: SessionRow,
    id: String,
    agent: String,
    is_native: bool,
    folder: String,
    session_id: String,
    stem: String,
    /// The times of resets in milliseconds, one for each file before the last.
    resets: Vec<i64>,
    fork_of: Option<String>,
    started_at: Option<i64>,
    updated_at: Option<i64>,
    /// The time in the name of a session that OpenClaw has deleted.
    deleted: Option<String>,
}

impl Planned {
    /// Returns the path of the newest transcript. A deleted session keeps its suffix, because
    /// OpenClaw would list it again without.
    fn newest(&self) -> String {
        let live = format!("{}/{}.jsonl", self.folder, self.stem);
        match &self.deleted {
            Some(time) => format!("{live}.deleted.{time}"),
            None => live,
        }
    }
}

/// A file to write.
#[derive(Debug, Clone)]
pub struct PlannedFile {
    /// Its path below the target folder.
    pub path: String,
    /// The session's id.
    pub session: String,
    place: (usize, usize),
}

/// Plans the files of some sessions. Sessions of agents other than OpenClaw are left out.
pub fn plan<'l>(ledger: &'l Ledger, sessions: &[(SessionRow, Session)]) -> Result<Plan<'l>> {
    let conn = ledger.conn();
    let mut plan = Plan {
        conn,
        _snapshot: Snapshot::of(conn)?,
        sessions: Vec::new(),
        left_out: Vec::new(),
        by_id: HashMap::new(),
    };
    // A session that was imported and is still collected is written once, from the native one.
    let (own, collected): (Vec<_>, Vec<_>) =
        sessions.iter().partition(|(_, session)| session.format == native::NAME);
    let mut taken = HashSet::new();
    for (row, session) in own.into_iter().chain(collected) {
        plan.add(*row, session, &mut taken)?;
    }
    Ok(plan)
}

impl Plan<'_> {
    fn add(
        &mut self,
        row: SessionRow,
        session: &Session,
        taken: &mut HashSet<(String, String)>,
    ) -> Result<()> {
        let mut leave =
            |why: &str| self.left_out.push((session.session_id.clone(), why.to_owned()));
        let is_native = session.format == native::NAME;
        if !is_native && session.format != OPENCLAW {
            leave("written by another agent");
            return Ok(());
        }
        let name = (session.agent.clone(), session.session_id.clone());
        if self.by_id.contains_key(&name) {
            leave("another session with the same id is written instead");
            return Ok(());
        }
        let Some(laying) = Laying::of(self.conn, row)? else {
            leave("it has no transcript");
            return Ok(());
        };
        let key = match is_native {
            true => index::native_key(self.conn, row)?,
            false => None,
        };
        let thread = key.as_ref().and_then(|key| key.thread());
        // The transcript of a thread is named `SESSION-topic-THREAD`, and its session has the id
        // `SESSION`. The id of a native session may look like that by chance.
        let header_id = laying.header_id();
        let (id, thread) = match names::topic(&session.session_id) {
            Some((id, topic))
                if !is_native || thread == Some(topic) || header_id.as_deref() == Some(id) =>
            {
                (id, Some(topic))
            }
            _ => (&*session.session_id, thread),
        };
        let folder = names::folder(&names::agent(&session.agent));
        let mut session_id = names::session_id(id).into_owned();
        let mut stem = names::stem(&session_id, thread);
        // Some file systems ignore case.
        if !taken.insert((folder.to_lowercase(), stem.to_lowercase())) {
            session_id = names::derived_uuid(&session.session_id);
            stem = names::stem(&session_id, thread);
            taken.insert((folder.to_lowercase(), stem.to_lowercase()));
        }
        let mut resets = laying.resets();
        for at in 1..resets.len() {
            // The names have to differ and to sort in order.
            if let (Some(before), Some(reset)) = (resets.get(at - 1).copied(), resets.get_mut(at)) {
                *reset = (*reset).max(before + 1);
            }
        }
        self.by_id.insert(name, self.sessions.len());
        self.sessions.push(Planned {
            row,
            id: session.session_id.clone(),
            agent: session.agent.clone(),
            is_native,
            folder,
            session_id,
            stem,
            resets,
            fork_of: session.fork_of.clone(),
            started_at: session.started_at,
            updated_at: session.updated_at,
            deleted: deleted(self.conn, session, key.is_some())?,
        });
        Ok(())
    }

    /// Returns the number of sessions.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Returns the transcripts, for each session from the oldest file to the current one.
    pub fn transcript_files(&self) -> Vec<PlannedFile> {
        let mut files = Vec::new();
        for (number, session) in self.sessions.iter().enumerate() {
            let live = format!("{}/{}.jsonl", session.folder, session.stem);
            let archives =
                session.resets.iter().map(|reset| format!("{live}.reset.{}", names::time(*reset)));
            for (file, path) in archives.chain([session.newest()]).enumerate() {
                files.push(PlannedFile {
                    path,
                    session: session.id.clone(),
                    place: (number, file),
                });
            }
        }
        files
    }

    /// Writes a transcript. `to` is the folder that contains all of them.
    pub fn write(
        &self,
        file: &PlannedFile,
        to: &Path,
        out: &mut dyn Write,
    ) -> Result<Wrote, ExportFailure> {
        let Some(session) = self.sessions.get(file.place.0) else { return Ok(Wrote::default()) };
        let Some(laying) = Laying::of(self.conn, session.row)? else { return Ok(Wrote::default()) };
        let parent = session.fork_of.as_ref().and_then(|parent| {
            let name = (session.agent.clone(), parent.clone());
            let parent = self.by_id.get(&name).and_then(|number| self.sessions.get(*number))?;
            Some(to.join(parent.newest()).to_string_lossy().into_owned())
        });
        let time = session.updated_at.or(session.started_at).unwrap_or(0);
        let began = session.started_at.unwrap_or(time);
        let time = if laying.layout.header.is_some() { time } else { began };
        let head = Head {
            id: &session.session_id,
            time: &Timestamp(time).to_iso(),
            parent: parent.as_deref(),
            own: (session.is_native && !names::names_session(&session.stem, &session.id))
                .then_some(&*session.id),
            continues_previous: file.place.1 > 0,
        };
        laying.write(self.conn, file.place.1, &head, out)
    }

    /// Returns the indexes.
    pub fn indexes(&self) -> Result<Indexes> {
        index::of(self.conn, &self.sessions)
    }
}

/// Returns the time at which OpenClaw deleted a session, as its archive's name has it. A native
/// session is deleted if it was imported as such or from one that is, and no key leads to it.
fn deleted(conn: &Connection, session: &Session, has_key: bool) -> Result<Option<String>> {
    if has_key || session.format == OPENCLAW && session.state != SessionState::Deleted {
        return Ok(None);
    }
    let mut statement = conn.prepare_cached(
        "SELECT f.path FROM sessions s
           JOIN session_sources ss ON ss.session = s.id
           JOIN sources f ON f.id = ss.source
          WHERE s.format = ?1 AND s.agent = ?2 AND s.session_id = ?3 AND s.state = ?4
          ORDER BY f.path DESC",
    )?;
    let paths = statement
        .query_map((OPENCLAW, &session.agent, &session.session_id, SessionState::Deleted), |row| {
            row.get(0)
        })?
        .collect::<Result<Vec<Vec<u8>>, _>>()?;
    let time = |path: &Vec<u8>| {
        let path = String::from_utf8_lossy(path);
        let (_, time) = path.split_once(".jsonl.deleted.")?;
        Some(time.get(..time.find('Z')? + 1)?.replace(':', "-"))
    };
    let at = session.updated_at.or(session.started_at).unwrap_or(0);
    let is_deleted = session.state == SessionState::Deleted || !paths.is_empty();
    Ok(is_deleted.then(|| paths.iter().find_map(time).unwrap_or_else(|| names::time(at))))
}
