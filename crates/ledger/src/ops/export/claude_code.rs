//! Exports collected Claude Code sessions as their original files, so that `claude --resume` finds
//! them: the transcript, those of its sub-agents, and its tool outputs.

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;

use rusqlite::Connection;

use super::ExportFailure;
use crate::Result;
use crate::base::ids::{GenerationId, SessionRow};
use crate::file::ledger::Ledger;
use crate::ops::restore::{safe, sources_of};
use crate::truth::{spans, tails};
use crate::wire::Session;

/// The exported format.
const CLAUDE_CODE: &str = "claude-code";

/// A file of a session.
#[derive(Debug, Clone)]
pub struct ClaudeFile {
    /// Its path below Claude Code's folder.
    pub path: PathBuf,
    /// The session's id.
    pub session: String,
    /// The modification time, nanoseconds since 1970.
    pub mtime_ns: i64,
    generation: GenerationId,
}

/// The files of sessions, and the sessions without files: the id and the reason.
type Files = (Vec<ClaudeFile>, Vec<(String, String)>);

/// Returns the files of some sessions and of their sub-agents.
pub fn claude_files(ledger: &Ledger, sessions: &[(SessionRow, Session)]) -> Result<Files> {
    let conn = ledger.conn();
    let (mut files, mut left_out) = (Vec::new(), Vec::new());
    let mut taken = HashSet::new();
    for (row, session) in sessions {
        let mut leave = |why: &str| left_out.push((session.session_id.clone(), why.to_owned()));
        if session.format != CLAUDE_CODE {
            leave("it is not a Claude Code session");
            continue;
        }
        let own = files_of(conn, *row, &session.session_id)?;
        if own.is_empty() {
            leave("no file of it was collected");
        }
        // A sub-agent may be selected itself and with its session, so each file is taken once.
        files.extend(own.into_iter().filter(|file| taken.insert(file.path.clone())));
    }
    Ok((files, left_out))
}

fn files_of(conn: &Connection, row: SessionRow, id: &str) -> Result<Vec<ClaudeFile>> {
    let mut statement = conn.prepare_cached(
        "SELECT s.path, g.id, g.mtime_ns
           FROM sources s JOIN generations g ON g.id = s.generation
          WHERE s.id = ?1 AND s.format = ?2 AND s.kind = 'file' AND s.refused IS NULL",
    )?;
    let mut files = Vec::new();
    for source in sources_of(conn, row)? {
        let mut rows = statement.query((source, CLAUDE_CODE))?;
        while let Some(row) = rows.next()? {
            let path: Vec<u8> = row.get(0)?;
            files.push(ClaudeFile {
                path: safe(&path)?,
                session: id.to_owned(),
                generation: row.get(1)?,
                mtime_ns: row.get(2)?,
            });
        }
    }
    Ok(files)
}

impl ClaudeFile {
    /// Writes the file, byte for byte.
    pub fn write(&self, ledger: &Ledger, out: &mut dyn Write) -> Result<(), ExportFailure> {
        let mut written = Ok(());
        let mut put = |part: &[u8]| {
            if written.is_ok() {
                written = out.write_all(part);
            }
            Ok(())
        };
        spans::stream(ledger.conn(), self.generation, &mut put)?;
        tails::stream(ledger.conn(), self.generation, &mut put)?;
        Ok(written?)
    }
}
