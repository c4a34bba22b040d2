//! The lines of a session that stands in many files, kept from one of these files to the next: a
//! new copy costs what it holds itself, however many copies are in the ledger.

use rusqlite::{Connection, OptionalExtension};

use super::read::Work;
use super::rewrite::OldLines;
use crate::Result;
use crate::base::ids::{GenerationId, Seq, SessionRow, SourceId};
use crate::truth::chunks::RecordReader;

/// The lines that all files of one session hold, in all their generations.
#[derive(Default)]
pub(crate) struct SessionLines {
    of: Option<SessionName>,
    lines: OldLines,
    /// Every record up to this one was looked at.
    seen: Option<Seq>,
}

/// Format, agent and id of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionName {
    pub(crate) format: &'static str,
    pub(crate) agent: String,
    pub(crate) id: String,
}

/// What a file of a session is; others that belong to it hold no lines of the conversation.
const IS_TRANSCRIPT: &str =
    "f.kind IN ('file', 'rows') AND ss.part IN ('transcript', 'agent', 'subagent')";

impl SessionLines {
    /// Brings the lines of a session up to what the ledger holds now, and returns them. Those of the
    /// session that was asked for last are still here; of these, only records that came since are
    /// looked at.
    pub(crate) fn of(
        &mut self,
        reader: &mut RecordReader<'_>,
        name: SessionName,
        work: &mut Work,
    ) -> Result<&mut OldLines> {
        // One snapshot: otherwise each of some thousand questions would take and give back a lock.
        let snapshot = reader.conn().unchecked_transaction()?;
        let conn = &*snapshot;
        let newest: Seq = conn
            .prepare_cached("SELECT coalesce(max(seq), 0) FROM records")?
            .query_row([], |row| row.get(0))?;
        let row = name.row(conn)?;
        let is_kept = self.of.as_ref() == Some(&name) && !self.lines.is_empty();
        if !is_kept {
            *self = SessionLines { of: Some(name), ..SessionLines::default() };
        }
        if let Some(row) = row {
            if is_kept { self.go_on(reader, row, work)? } else { self.load(reader, row, work)? }
        }
        self.seen = Some(newest);
        self.lines.start_over();
        Ok(&mut self.lines)
    }

    /// Reads every line of the session.
    fn load(
        &mut self,
        reader: &mut RecordReader<'_>,
        session: SessionRow,
        work: &mut Work,
    ) -> Result<()> {
        let mut statement = reader.conn().prepare_cached(&format!(
            "SELECT r.seq, r.generation, r.start, coalesce(r.same_as, r.seq)
               FROM session_sources ss CROSS JOIN sources f ON f.id = ss.source
              CROSS JOIN generations g ON g.source = f.id
              CROSS JOIN spans s ON s.generation = g.id
              CROSS JOIN records r ON r.seq BETWEEN s.first_seq AND s.last_seq
              WHERE ss.session = ?1 AND {IS_TRANSCRIPT}"
        ))?;
        let mut rows = statement.query([session])?;
        while let Some(row) = rows.next()? {
            work.old_lines += 1;
            let start = row.get::<_, i64>(2)?.cast_unsigned();
            self.lines.add_new(reader, (row.get(1)?, start), row.get(0)?, row.get(3)?)?;
        }
        Ok(())
    }

    /// Reads the lines of the session that came since.
    fn go_on(
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
        let mut rows = statement.query([self.seen])?;
        let mut last: Option<(GenerationId, bool)> = None;
        while let Some(row) = rows.next()? {
            work.old_lines += 1;
            let generation = row.get(1)?;
            let is_its = match last {
                Some((last, is_its)) if last == generation => is_its,
                _ => {
                    let source = conn
                        .prepare_cached("SELECT source FROM generations WHERE id = ?1")?
                        .query_row([generation], |row| row.get(0))?;
                    holds(conn, session, source)?
                }
            };
            last = Some((generation, is_its));
            if is_its {
                let start = row.get::<_, i64>(2)?.cast_unsigned();
                self.lines.add_new(reader, (generation, start), row.get(0)?, row.get(3)?)?;
            }
        }
        Ok(())
    }
}

impl SessionName {
    fn row(&self, conn: &Connection) -> Result<Option<SessionRow>> {
        Ok(conn
            .prepare_cached(
                "SELECT id FROM sessions WHERE format = ?1 AND agent = ?2 AND session_id = ?3",
            )?
            .query_row((self.format, &self.agent, &self.id), |row| row.get(0))
            .optional()?)
    }

    /// Whether a source holds lines of the session.
    pub(crate) fn stands_in(&self, conn: &Connection, source: SourceId) -> Result<bool> {
        self.row(conn)?.map_or(Ok(false), |session| holds(conn, session, source))
    }
}

fn holds(conn: &Connection, session: SessionRow, source: SourceId) -> Result<bool> {
    let sql = format!(
        "SELECT 1 FROM session_sources ss JOIN sources f ON f.id = ss.source
          WHERE ss.source = ?1 AND ss.session = ?2 AND {IS_TRANSCRIPT}"
    );
    Ok(conn.prepare_cached(&sql)?.exists((source, session))?)
}
