//! What followed from one record: from the rows that were derived from it, or from its line in the
//! journal.
//!
//! The leaf moves here by the same rule as in the projection (`project/entry`). Only lines of the
//! journal and moves of the leaf are decoded again.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use quipu_transcript::problem::ProblemKind;
use rusqlite::{Connection, OptionalExtension};

use super::sessions::{EventSession, Sessions};
use super::{MAX_CHANGES, Record, short};
use crate::Result;
use crate::base::ids::{EntryId, PackedId, Seq, SessionRow, SourceId};
use crate::base::paths::absolute;
use crate::project::draft::Detail;
use crate::project::keys::index_format_and_agent;
use crate::project::rebuild::{self, GenerationInfo};
use crate::truth::chunks::RecordReader;
use crate::truth::fields::Fields;
use crate::truth::journal::{self, Event};
use crate::wire::{EventChange, EventFrame, EventPhase};

/// Reads what followed from records.
pub(super) struct Changes<'c> {
    conn: &'c Connection,
    reader: RecordReader<'c>,
    sessions: Sessions<'c>,
    /// The last turn and its number: most entries belong to the turn of the one before.
    last_turn: Option<(EntryId, u64)>,
}

/// What followed from one record.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) session: Option<Arc<EventSession>>,
    /// The agent of what concerns no session.
    agent: Option<String>,
    time: Option<i64>,
    /// The changes, each with the entry that it adds.
    pub(super) changes: Vec<(EventChange, Option<EntryId>)>,
    is_cut: bool,
}

/// The row of an entry.
struct EntryRow {
    session: Option<SessionRow>,
    uuid: Option<PackedId>,
    turn: Option<EntryId>,
    time: Option<i64>,
    form: String,
    role: String,
    /// True if it can become the leaf.
    is_on_path: bool,
}

impl Found {
    fn add(&mut self, change: EventChange) {
        self.push(change, None);
    }

    fn push(&mut self, change: EventChange, entry: Option<EntryId>) {
        match self.changes.len() < MAX_CHANGES {
            true => self.changes.push((change, entry)),
            false => self.is_cut = true,
        }
    }

    pub(super) fn into_frame(self, cursor: super::Cursor) -> super::Frame {
        let changes = self.changes.into_iter().map(|(change, _)| change).collect();
        let mut wire = wire(self.session.as_deref(), self.agent, self.time, changes);
        wire.cursor = Some(cursor.to_string());
        wire.is_cut = self.is_cut;
        super::Frame { cursor, session: self.session, wire }
    }
}

/// Returns a frame without a cursor.
pub(super) fn wire(
    session: Option<&EventSession>,
    agent: Option<String>,
    time: Option<i64>,
    changes: Vec<EventChange>,
) -> EventFrame {
    let named = |name: &str| Some(name).filter(|name| !name.is_empty()).map(short);
    EventFrame {
        cursor: None,
        time,
        session_id: session.map(|session| short(&session.session_id)),
        agent: session.map_or(agent, |session| named(&session.agent)),
        project: session.and_then(|session| named(&session.project)),
        changes,
        is_cut: false,
    }
}

impl<'c> Changes<'c> {
    pub(super) fn new(conn: &'c Connection) -> Changes<'c> {
        Changes {
            conn,
            reader: RecordReader::new(conn),
            sessions: Sessions::new(conn),
            last_turn: None,
        }
    }

    /// Returns what followed from a record; `None` if nothing did.
    pub(super) fn of(&mut self, record: &Record) -> Result<Option<Found>> {
        let mut found = Found::default();
        if record.source == journal::SOURCE {
            self.journal(record.seq, &mut found)?;
            self.problems(EntryId::of(record.seq, 0), &mut found)?;
        } else {
            self.entries(record, &mut found)?;
        }
        Ok((!found.changes.is_empty()).then_some(found))
    }

    fn entries(&mut self, record: &Record, found: &mut Found) -> Result<()> {
        for ordinal in 0.. {
            let id = EntryId::of(record.seq, ordinal);
            match self.entry_row(id)? {
                Some(row) => self.entry(record, ordinal, id, &row, found)?,
                // The record repeats an entry; others may follow on the same line.
                None if self.is_repeated(id)? => {}
                None if ordinal > 0 => break,
                None => {}
            }
            self.problems(id, found)?;
            if found.is_cut {
                break;
            }
        }
        if found.session.is_none() {
            found.session = self.sessions.of_source(record.source)?;
        }
        Ok(())
    }

    fn entry_row(&self, id: EntryId) -> Result<Option<EntryRow>> {
        Ok(self
            .conn
            .prepare_cached(
                "SELECT e.session, e.uuid, e.turn, e.time, k.form, k.role,
                        NOT k.is_side AND NOT k.is_sidechain
                   FROM entry_rows e CROSS JOIN kinds k ON k.id = e.kind WHERE e.id = ?1",
            )?
            .query_row([id], |row| {
                Ok(EntryRow {
                    session: row.get(0)?,
                    uuid: row.get(1)?,
                    turn: row.get(2)?,
                    time: row.get(3)?,
                    form: row.get(4)?,
                    role: row.get(5)?,
                    is_on_path: row.get(6)?,
                })
            })
            .optional()?)
    }

    fn is_repeated(&self, id: EntryId) -> Result<bool> {
        Ok(self.conn.prepare_cached("SELECT 1 FROM sightings WHERE seq = ?1")?.exists([id])?)
    }

    fn entry(
        &mut self,
        record: &Record,
        ordinal: usize,
        id: EntryId,
        row: &EntryRow,
        found: &mut Found,
    ) -> Result<()> {
        if let Some(session) = row.session {
            found.session = self.sessions.get(session)?;
            if session.0 == id.0
                && let Some(session) = &found.session
            {
                let format = session.format.clone();
                found.add(EventChange::SessionCreated { format });
            }
        }
        found.time = found.time.or(row.time);
        let entry_id = match &row.uuid {
            Some(uuid) => short(&uuid.unpack()),
            None => id.name(),
        };
        let appended = EventChange::EntryAppended {
            entry_id: entry_id.clone(),
            kind: row.form.clone(),
            role: Some(row.role.clone()).filter(|role| !role.is_empty()),
            turn: self.turn_number(row)?,
            entry: None,
        };
        found.push(appended, Some(id));
        match row.form.as_str() {
            "label" => self.label(id, found)?,
            "compaction" => self.compaction(id, &entry_id, found)?,
            "reset" => found.add(EventChange::SessionReset { entry_id: entry_id.clone() }),
            "leaf" => self.leaf_record(record, ordinal, row, found)?,
            _ => {}
        }
        if row.is_on_path && row.session.is_some() && !self.is_new_version(record.seq, row)? {
            found.add(EventChange::LeafMoved { leaf: Some(entry_id) });
        }
        Ok(())
    }

    /// Returns the number of the entry's turn in its session.
    fn turn_number(&mut self, row: &EntryRow) -> Result<Option<u64>> {
        let (Some(session), Some(turn)) = (row.session, row.turn) else { return Ok(None) };
        if let Some((known, number)) = self.last_turn
            && known == turn
        {
            return Ok(Some(number));
        }
        let number = self
            .conn
            .prepare_cached("SELECT count(*) FROM turns WHERE session = ?1 AND id <= ?2")?
            .query_row((session, turn), |row| row.get::<_, i64>(0))?
            .cast_unsigned();
        self.last_turn = Some((turn, number));
        Ok(Some(number))
    }

    /// Returns whether the session had an entry with this id before. A newer version takes the
    /// position of the older one.
    fn is_new_version(&self, seq: Seq, row: &EntryRow) -> Result<bool> {
        let Some(uuid) = &row.uuid else { return Ok(false) };
        self.has_entry_before(seq, row.session, uuid)
    }

    fn has_entry_before(
        &self,
        seq: Seq,
        session: Option<SessionRow>,
        uuid: &PackedId,
    ) -> Result<bool> {
        Ok(self
            .conn
            .prepare_cached(
                "SELECT 1 FROM entry_rows
                  WHERE session = ?1 AND uuid = ?2 AND id > 0 AND id % (1 << 40) < ?3",
            )?
            .exists((session, uuid, seq))?)
    }

    /// A line that moves the leaf. One to an entry that does not exist moves nothing.
    fn leaf_record(
        &mut self,
        record: &Record,
        ordinal: usize,
        row: &EntryRow,
        found: &mut Found,
    ) -> Result<()> {
        let Some(info) = GenerationInfo::of(self.conn, record.generation)? else { return Ok(()) };
        let draft = rebuild::read(&mut self.reader, &info, record.seq, record.length)?;
        let Some(Detail::Leaf { target }) = draft.entries.get(ordinal).map(|entry| &entry.detail)
        else {
            return Ok(());
        };
        let leaf = match target {
            None => None,
            Some(target) if self.has_entry_before(record.seq, row.session, target)? => {
                Some(short(&target.unpack()))
            }
            Some(_) => return Ok(()),
        };
        found.add(EventChange::LeafMoved { leaf });
        Ok(())
    }

    fn label(&self, id: EntryId, found: &mut Found) -> Result<()> {
        let label: Option<(PackedId, Option<String>)> = self
            .conn
            .prepare_cached("SELECT target, label FROM label_rows WHERE id = ?1")?
            .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((target, label)) = label {
            let entry_id = short(&target.unpack());
            found.add(EventChange::LabelSet { entry_id, label: label.as_deref().map(short) });
        }
        Ok(())
    }

    fn compaction(&self, id: EntryId, entry_id: &str, found: &mut Found) -> Result<()> {
        type Columns = (Option<i64>, Option<i64>, Option<String>);
        let row: Option<Columns> = self
            .conn
            .prepare_cached(
                "SELECT tokens_before, tokens_after, cause FROM compaction_rows WHERE id = ?1",
            )?
            .query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        let (before, after, cause) = row.unwrap_or_default();
        found.add(EventChange::Compaction {
            phase: EventPhase::End,
            entry_id: Some(entry_id.to_owned()),
            reason: cause.as_deref().map(short),
            tokens_before: before.map(i64::cast_unsigned),
            tokens_after: after.map(i64::cast_unsigned),
        });
        Ok(())
    }

    fn problems(&self, id: EntryId, found: &mut Found) -> Result<()> {
        let mut statement =
            self.conn.prepare_cached("SELECT kind FROM problems WHERE entry = ?1 ORDER BY kind")?;
        let mut rows = statement.query([id])?;
        while let Some(row) = rows.next()? {
            let kind: String = row.get(0)?;
            let is_known = ProblemKind::ALL.iter().any(|known| known.as_str() == kind);
            if is_known {
                found.add(EventChange::Problem { kind });
            }
        }
        Ok(())
    }

    fn journal(&mut self, seq: Seq, found: &mut Found) -> Result<()> {
        // A blanked line of a forgotten session, or an event of a later version, says nothing.
        let Some(event) = Event::read(&self.reader.read(seq)?) else { return Ok(()) };
        if let Some(source) = event.source()
            && crate::truth::forgotten::is_forgotten(self.conn, source)?
        {
            return Ok(());
        }
        match &event {
            Event::Gone { at, source } => {
                let path = self.about_source(seq, *source, *at, found)?;
                found.add(EventChange::SourceGone { path });
            }
            Event::Back { at, source } => {
                let path = self.about_source(seq, *source, *at, found)?;
                found.add(EventChange::SourceBack { path });
            }
            Event::Renamed { at, source } => {
                let path = self.about_source(seq, *source, *at, found)?;
                found.add(EventChange::SourceRenamed { path });
            }
            Event::Generation { at, source, began, copy_of, .. } => {
                let path = self.about_source(seq, *source, *at, found)?;
                let created = copy_of.and(self.sessions.get(SessionRow(seq.0))?);
                if let Some(session) = created {
                    let format = session.format.clone();
                    found.session = Some(session);
                    found.add(EventChange::SessionCreated { format });
                }
                if matches!(began.as_str(), "truncated" | "replaced" | "rewritten") {
                    found.add(EventChange::SourceRewritten { path });
                }
            }
            Event::Damaged { at, source, .. } | Event::IndexProblems { at, source, .. } => {
                self.about_source(seq, *source, *at, found)?;
            }
            Event::Key { at, source, key, session, .. } => {
                let is_bound = self.is_bound(seq)?;
                self.about_key(*source, session.as_deref(), *at, found)?;
                found.add(key_change(key, is_bound));
            }
            Event::Native { at, source, key, session, patch } => {
                let is_bound = self.is_bound(seq)?;
                self.about_key(*source, Some(session), *at, found)?;
                if is_bound {
                    found.add(key_change(key, true));
                }
                patched(key, patch, found);
            }
            Event::Sender { at, agent, channel, sender, decision } => {
                (found.time, found.agent) = (Some(*at), Some(short(agent)));
                found.add(EventChange::SenderDecided {
                    channel: short(channel),
                    sender: short(sender),
                    decision: short(decision),
                });
            }
            Event::PairingRequest { at, agent, channel, sender, .. } => {
                (found.time, found.agent) = (Some(*at), Some(short(agent)));
                found.add(EventChange::SenderAsked {
                    channel: short(channel),
                    sender: short(sender),
                });
            }
            Event::Forgotten { at, format, agent, session_id } => {
                found.time = Some(*at);
                found.session = Some(self.sessions.named(format, agent, session_id)?);
                found.add(EventChange::SessionForgotten);
            }
            Event::Backup { .. } => {}
        }
        Ok(())
    }

    /// Notes the session of a source, and returns the path that the source had then.
    fn about_source(
        &mut self,
        seq: Seq,
        source: i64,
        at: i64,
        found: &mut Found,
    ) -> Result<String> {
        let source = SourceId(source);
        found.time = Some(at);
        found.session = self.sessions.of_source(source)?;
        let path: Option<(Vec<u8>, Vec<u8>)> = self
            .conn
            .prepare_cached(
                "SELECT root,
                        coalesce((SELECT p.path FROM source_paths p
                                   WHERE p.source = s.id AND p.seq > ?2 ORDER BY p.seq LIMIT 1),
                                 path)
                   FROM sources s WHERE id = ?1",
            )?
            .query_row((source, seq), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let (root, path) = path.unwrap_or_default();
        let joined = absolute(Path::new(OsStr::from_bytes(&root)), &path);
        Ok(short(&joined.display().to_string()))
    }

    /// Notes the session of a key.
    fn about_key(
        &mut self,
        source: i64,
        session: Option<&str>,
        at: i64,
        found: &mut Found,
    ) -> Result<()> {
        found.time = Some(at);
        let Some((format, agent)) = index_format_and_agent(self.conn, SourceId(source))? else {
            return Ok(());
        };
        match session {
            Some(id) => found.session = Some(self.sessions.named(format.name(), &agent, id)?),
            None => found.agent = Some(short(&agent)).filter(|agent| !agent.is_empty()),
        }
        Ok(())
    }

    /// Returns whether a line of the journal made its key lead to another session, or to none.
    fn is_bound(&self, seq: Seq) -> Result<bool> {
        Ok(self
            .conn
            .prepare_cached(
                "SELECT 1 FROM key_history h
                  WHERE h.seq = ?1
                    AND h.session_id IS NOT (SELECT b.session_id FROM key_history b
                                              WHERE b.key = h.key AND b.source = h.source
                                                AND b.seq < h.seq
                                              ORDER BY b.seq DESC LIMIT 1)",
            )?
            .exists([seq])?)
    }
}

fn key_change(key: &str, is_bound: bool) -> EventChange {
    let session_key = short(key);
    match is_bound {
        true => EventChange::KeyBound { session_key },
        false => EventChange::SessionMeta { session_key },
    }
}

/// Adds what a patch of a native session's metadata says.
fn patched(key: &str, patch: &Fields, found: &mut Found) {
    let is_set = |name: &str| patch.get(name).is_some_and(|value| !value.is_null());
    if is_set("memoryFlushAt") {
        found.add(EventChange::MemoryFlush { phase: EventPhase::End });
    } else if is_set("memoryFlushLastFailedAt") {
        found.add(EventChange::MemoryFlush { phase: EventPhase::Failed });
    }
    if patch.names().any(|name| !name.starts_with("memoryFlush")) {
        found.add(EventChange::SessionMeta { session_key: short(key) });
    }
}
