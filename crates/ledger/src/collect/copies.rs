//! The lines of a session that many files hold, kept from one of these files to the next: the cost
//! of a new copy does not depend on the number of copies in the ledger.

use rusqlite::Connection;

use super::read::Work;
use super::rewrite::OldLines;
use crate::Result;
use crate::base::ids::{GenerationId, Seq, SessionRow, SourceId};
use crate::project::session_sources;
use crate::truth::chunks::RecordReader;

/// The lines of all files of one session, in all their generations.
#[derive(Default)]
pub(crate) struct SessionLines {
    session: Option<SessionName>,
    lines: OldLines,
    /// The last record that was considered.
    last_seen: Option<Seq>,
}

/// Format, agent and id of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionName {
    pub(crate) format: &'static str,
    pub(crate) agent: String,
    pub(crate) id: String,
}

impl SessionLines {
    /// Updates the lines of a session to the current state of the ledger, and returns them. For the
    /// session of the last call, only records added since are read.
    pub(crate) fn of(
        &mut self,
        reader: &mut RecordReader<'_>,
        name: SessionName,
        work: &mut Work,
    ) -> Result<&mut OldLines> {
        // One snapshot for all: each of thousands of queries would otherwise take and release a
        // lock.
        let snapshot = reader.conn().unchecked_transaction()?;
        let conn = &*snapshot;
        let newest: Seq = conn
            .prepare_cached("SELECT coalesce(max(seq), 0) FROM records")?
            .query_row([], |row| row.get(0))?;
        let row = name.row(conn)?;
        let is_kept = self.session.as_ref() == Some(&name) && !self.lines.is_empty();
        if !is_kept {
            *self = SessionLines { session: Some(name), ..SessionLines::default() };
        }
        if let Some(row) = row {
            if is_kept { self.read_new(reader, row, work)? } else { self.load(reader, row, work)? }
        }
        self.last_seen = Some(newest);
        self.lines.start_over();
        Ok(&mut self.lines)
    }

    /// Reads all lines of the session.
    fn load(
        &mut self,
        reader: &mut RecordReader<'_>,
        session: SessionRow,
        work: &mut Work,
    ) -> Result<()> {
        let conn = reader.conn();
        let mut statement = conn.prepare_cached(
            "SELECT r.seq, r.generation, r.start, coalesce(r.same_as, r.seq)
               FROM generations g
              CROSS JOIN spans s ON s.generation = g.id
              CROSS JOIN records r ON r.seq BETWEEN s.first_seq AND s.last_seq
              WHERE g.source = ?1",
        )?;
        for source in session_sources::transcripts(conn, session)? {
            let mut rows = statement.query([source])?;
            while let Some(row) = rows.next()? {
                work.old_lines += 1;
                let start = row.get::<_, i64>(2)?.cast_unsigned();
                self.lines.add_new(reader, (row.get(1)?, start), row.get(0)?, row.get(3)?)?;
            }
        }
        Ok(())
    }

    /// Reads the lines of the session that were added since the last call.
    fn read_new(
        &mut self,
        reader: &mut RecordReader<'_>,
        session: SessionRow,
        work: &mut Work,
    ) -> Result<()> {
        let conn = reader.conn();
        let mut statement = conn.prepare_cached(
            "SELECT seq, generation, start, coalesce(same_as, seq)
               FROM records WHERE seq > ?1 ORDER BY seq",
        )?;
        let mut rows = statement.query([self.last_seen])?;
        let mut last: Option<(GenerationId, bool)> = None;
        while let Some(row) = rows.next()? {
            work.old_lines += 1;
            let generation = row.get(1)?;
            let is_of_session = match last {
                Some((last, is_of_session)) if last == generation => is_of_session,
                _ => {
                    let source = conn
                        .prepare_cached("SELECT source FROM generations WHERE id = ?1")?
                        .query_row([generation], |row| row.get(0))?;
                    session_sources::is_transcript(conn, session, source)?
                }
            };
            last = Some((generation, is_of_session));
            if is_of_session {
                let start = row.get::<_, i64>(2)?.cast_unsigned();
                self.lines.add_new(reader, (generation, start), row.get(0)?, row.get(3)?)?;
            }
        }
        Ok(())
    }
}

impl SessionName {
    fn row(&self, conn: &Connection) -> Result<Option<SessionRow>> {
        session_sources::find(conn, self.format, &self.agent, &self.id)
    }

    /// Returns whether a source holds lines of the session.
    pub(crate) fn is_in(&self, conn: &Connection, source: SourceId) -> Result<bool> {
        self.row(conn)?
            .map_or(Ok(false), |session| session_sources::is_transcript(conn, session, source))
    }
}
