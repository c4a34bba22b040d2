//! The transcripts of a session, byte for byte.
//!
//! Never masks secrets: these are the original bytes.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::OptionalExtension;

use crate::base::ids::{GenerationId, SessionRow};
use crate::file::ledger::Ledger;
use crate::project::session_sources::holds_transcript;
use crate::truth::{spans, tails};
use crate::{Error, Result};

/// A file, or the rows of a database, with a session's transcript.
#[derive(Debug, Clone)]
pub struct Transcript {
    generation: GenerationId,
    /// Its path below the agent's folder.
    pub path: String,
}

/// Returns the transcripts of a session. The one that its agent would continue comes first; copies,
/// archives and former names follow. Empty for a session without a collected transcript.
pub fn transcripts(ledger: &Ledger, session: SessionRow) -> Result<Vec<Transcript>> {
    let mut statement = ledger.conn().prepare_cached(concat!(
        "SELECT g.id, s.path
           FROM session_sources ss
           JOIN sources s ON s.id = ss.source
           JOIN generations g ON g.id = s.generation
          WHERE ss.session = ?1
            AND s.refused IS NULL
            AND ",
        holds_transcript!("ss.part"),
        " AND (s.kind IN ('file', 'native') OR s.kind = 'rows' AND g.cursor > 0)
          ORDER BY s.is_gone, g.mtime_ns DESC, s.id",
    ))?;
    let transcripts = statement
        .query_map([session], |row| {
            let path = String::from_utf8_lossy(row.get_ref(1)?.as_blob()?).into_owned();
            Ok(Transcript { generation: row.get(0)?, path })
        })?
        .collect::<Result<_, _>>()?;
    Ok(transcripts)
}

/// Returns the path of the newest file with a transcript of a session. It may be gone by now.
pub fn transcript_path(ledger: &Ledger, session: SessionRow) -> Result<Option<PathBuf>> {
    let mut statement = ledger.conn().prepare_cached(concat!(
        "SELECT s.root, s.path
           FROM session_sources ss
           JOIN sources s ON s.id = ss.source
           JOIN generations g ON g.id = s.generation
          WHERE ss.session = ?1
            AND s.refused IS NULL
            AND ",
        holds_transcript!("ss.part"),
        " AND s.kind = 'file'
          ORDER BY s.is_gone, g.mtime_ns DESC, s.id
          LIMIT 1",
    ))?;
    let path = statement.query_row([session], |row| {
        let (root, path) = (row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
        Ok(Path::new(OsStr::from_bytes(root)).join(OsStr::from_bytes(path)))
    });
    Ok(path.optional()?)
}

impl Transcript {
    /// Calls `each` with the bytes that `restore` would write, piece by piece, until it returns
    /// `Break`.
    pub fn stream(
        &self,
        ledger: &Ledger,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut has_enough = false;
        let mut put = |part: &[u8]| {
            has_enough = has_enough || each(part).is_break();
            // Any error ends the reading; this one is discarded below.
            if has_enough { Err(Error::Upgraded) } else { Ok(()) }
        };
        let read = spans::stream(ledger.conn(), self.generation, &mut put)
            .and_then(|()| tails::stream(ledger.conn(), self.generation, &mut put));
        if has_enough { Ok(()) } else { read }
    }
}
