//! Everything understood from truth. The projection is a fold over the records in seq order: each
//! record changes it by its draft and by nothing else, so deriving it again from the first record
//! gives the same rows as collecting did, whatever the batches were.
//!
//! No row holds a wall-clock time. Facts across sessions follow order-free rules ([`usage`]).

pub(crate) mod absent;
pub(crate) mod draft;
pub(crate) mod rebuild;
pub(crate) mod search;
pub(crate) mod session;
pub(crate) mod tail;
mod tools;
mod tree;
mod turns;
mod usage;

use std::collections::HashMap;

use quipu_transcript::entry::Role;
use quipu_transcript::format::{self, Format, Origin, Part};
use quipu_transcript::problem::{Problem, ProblemKind};
use rusqlite::{Connection, OptionalExtension, Transaction};

use crate::ids::{EntryId, GenerationId, PackedId, Seq, SessionRow, SourceId};
use crate::journal::Event;
use crate::{Result, spans};
use draft::{Detail, Draft, DraftEntry, DraftParent, Fact};
use session::{Name, Sessions};
use tree::Known;

/// Where a record stands.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) format: &'static dyn Format,
    pub(crate) origin: &'a Origin,
    pub(crate) source: SourceId,
    pub(crate) generation: GenerationId,
    pub(crate) start: u64,
    pub(crate) length: u64,
}

/// The fold, with what it keeps in memory between records.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    sessions: Sessions,
    turns: turns::Turns,
    bills: usage::Bills,
    tips: HashMap<SourceId, Tip>,
    /// How many problems were noted since the fold began.
    pub(crate) problems: u64,
}

/// Where the next record of a source goes on.
#[derive(Debug, Clone, Copy)]
struct Tip {
    session: Option<SessionRow>,
    last_entry: Option<EntryId>,
    last_turn: Option<EntryId>,
    generation: GenerationId,
    end: u64,
    has_header: bool,
    is_dirty: bool,
}

impl Fold {
    /// Folds in a record of a transcript or document.
    pub(crate) fn record(
        &mut self,
        tx: &Transaction<'_>,
        place: &Place<'_>,
        seq: Seq,
        draft: Draft,
    ) -> Result<()> {
        let mut tip = self.tip(tx, place.source)?;
        if tip.generation != place.generation || tip.end != place.start {
            self.jump(tx, &mut tip, place)?;
        }
        let mut said_by = None;
        for (ordinal, entry) in draft.entries.into_iter().enumerate() {
            let id = EntryId::of(seq, ordinal);
            said_by = self.entry(tx, place, &mut tip, seq, id, entry)?;
        }
        let session = said_by.or(tip.session);
        for problem in &draft.problems {
            self.problem(tx, EntryId::of(seq, 0), Some(place.source), session, problem)?;
        }
        tip.generation = place.generation;
        tip.end = place.start + place.length;
        tip.is_dirty = true;
        self.tips.insert(place.source, tip);
        Ok(())
    }

    /// Folds in a record of the journal.
    pub(crate) fn event(&mut self, tx: &Transaction<'_>, seq: Seq, event: &Event) -> Result<()> {
        let source = event.source();
        // What is in memory of its sessions is written first: states are read from the rows.
        self.sessions.save(tx)?;
        session::refresh_states(tx, source)?;
        if let Event::Generation { copy_of: Some(original), .. } = event {
            self.copied(tx, seq, source, SourceId(*original))?;
        }
        if let Event::Generation { number, began, .. } = event {
            let kind = match began.as_str() {
                "truncated" => ProblemKind::SourceTruncated,
                "replaced" => ProblemKind::SourceReplaced,
                "rewritten" => ProblemKind::SourceRewritten,
                _ => return Ok(()),
            };
            let session: Option<SessionRow> = tx
                .prepare_cached("SELECT min(session) FROM session_sources WHERE source = ?1")?
                .query_row([source], |row| row.get(0))?;
            let problem = Problem::new(kind, format!("generation {number} began"));
            self.problem(tx, EntryId::of(seq, 0), Some(source), session, &problem)?;
        }
        Ok(())
    }

    /// A copy of another source says nothing new, but its session is there all the same.
    fn copied(
        &mut self,
        tx: &Transaction<'_>,
        seq: Seq,
        source: SourceId,
        original: SourceId,
    ) -> Result<()> {
        let (format, path): (String, Vec<u8>) = tx
            .prepare_cached("SELECT format, first_path FROM sources WHERE id = ?1")?
            .query_row([source], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let Some(format) = format::by_name(&format) else { return Ok(()) };
        let origin = format.origin(&path);
        let Some(id) = origin.session.clone() else { return Ok(()) };
        let name =
            Name { format: format.name(), agent: origin.agent.clone().unwrap_or_default(), id };
        let session = self.sessions.get(tx, &name, SessionRow(seq.0))?;
        session.place(&origin);
        tx.prepare_cached(
            "INSERT OR IGNORE INTO session_sources (session, source, part) VALUES (?1, ?2, ?3)",
        )?
        .execute((session.row, source, origin.part.as_str()))?;
        session.is_dirty = true;
        let of: Option<String> = tx
            .prepare_cached(
                "SELECT s.session_id FROM session_sources ss JOIN sessions s ON s.id = ss.session
                  WHERE ss.source = ?1 AND s.id <> ?2 ORDER BY s.id LIMIT 1",
            )?
            .query_row((original, session.row), |row| row.get(0))
            .optional()?;
        if let Some(of) = of {
            session.learn(&Fact::ForkOf(of.into()));
        }
        Ok(())
    }

    /// Writes what is only in memory. Must come before every commit.
    pub(crate) fn save(&mut self, tx: &Transaction<'_>) -> Result<()> {
        self.sessions.save(tx)?;
        self.turns.save(tx)?;
        self.bills.save(tx)?;
        let mut statement = tx.prepare_cached(
            "INSERT OR REPLACE INTO source_tips
                (source, session, last_entry, last_turn, generation, end, has_header)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        for (source, tip) in &mut self.tips {
            if std::mem::take(&mut tip.is_dirty) {
                statement.execute((
                    source,
                    tip.session,
                    tip.last_entry,
                    tip.last_turn,
                    tip.generation,
                    tip.end as i64,
                    tip.has_header,
                ))?;
            }
        }
        Ok(())
    }

    /// Drops what is in memory: the ledger may have been changed by others.
    pub(crate) fn let_go(&mut self) {
        let problems = self.problems;
        *self = Fold { problems, ..Fold::default() };
    }

    fn tip(&mut self, tx: &Transaction<'_>, source: SourceId) -> Result<Tip> {
        if let Some(tip) = self.tips.get(&source) {
            return Ok(*tip);
        }
        let tip = tx
            .prepare_cached(
                "SELECT session, last_entry, last_turn, generation, end, has_header
                   FROM source_tips WHERE source = ?1",
            )?
            .query_row([source], |row| {
                Ok(Tip {
                    session: row.get(0)?,
                    last_entry: row.get(1)?,
                    last_turn: row.get(2)?,
                    generation: row.get(3)?,
                    end: row.get::<_, i64>(4)? as u64,
                    has_header: row.get(5)?,
                    is_dirty: false,
                })
            })
            .optional()?;
        Ok(tip.unwrap_or(Tip {
            session: None,
            last_entry: None,
            last_turn: None,
            generation: GenerationId(0),
            end: 0,
            has_header: false,
            is_dirty: false,
        }))
    }

    /// The record does not follow the one before it in its source: a new generation, or a line put
    /// into the middle of a rewritten file. The entry before it is found through the spans.
    fn jump(&mut self, tx: &Transaction<'_>, tip: &mut Tip, place: &Place<'_>) -> Result<()> {
        tip.last_entry = None;
        tip.last_turn = None;
        let Some(before) = spans::record_before(tx, place.generation, place.start)? else {
            return Ok(());
        };
        let found = tx
            .prepare_cached(
                "SELECT coalesce(s.entry, e.id) AS entry
                   FROM (SELECT ?1 AS seq) r
                   LEFT JOIN sightings s ON s.seq = r.seq
                   LEFT JOIN entries e ON e.id = r.seq",
            )?
            .query_row([before], |row| row.get::<_, Option<EntryId>>(0))?;
        if let Some(entry) = found {
            tip.last_entry = Some(entry);
            tip.last_turn = tx
                .prepare_cached("SELECT turn FROM entries WHERE id = ?1")?
                .query_row([entry], |row| row.get(0))
                .optional()?
                .flatten();
        }
        Ok(())
    }

    /// Folds in one entry. Returns its session.
    fn entry(
        &mut self,
        tx: &Transaction<'_>,
        place: &Place<'_>,
        tip: &mut Tip,
        seq: Seq,
        id: EntryId,
        entry: DraftEntry,
    ) -> Result<Option<SessionRow>> {
        let Some(name) = session_name(place, &entry) else {
            insert_row(tx, id, None, &entry, None, None, None)?;
            self.insert_detail(tx, place, id, None, &entry)?;
            index(tx, id, &entry)?;
            return Ok(None);
        };
        let session = self.sessions.get(tx, &name, SessionRow(seq.0))?;
        let row = session.row;
        let is_complete = session.is_complete;
        if tip.session != Some(row) {
            tip.session = Some(row);
            tx.prepare_cached(
                "INSERT OR IGNORE INTO session_sources (session, source, part) VALUES (?1, ?2, ?3)",
            )?
            .execute((row, place.source, place.origin.part.as_str()))?;
            session.is_dirty = true;
        }
        session.place(place.origin);
        for fact in &entry.says {
            session.learn(fact);
            if let Fact::Spawned { call, agent_id } = fact {
                tx.prepare_cached(
                    "INSERT OR IGNORE INTO spawned_agents (session, agent_id, call_id) VALUES (?1, ?2, ?3)",
                )?
                .execute((row, agent_id, call))?;
            }
        }

        // The same id again: a repetition is a sighting, anything else a newer version.
        let mut replaced: Option<Known> = None;
        if let Some(uuid) = &entry.uuid
            && let Some(known) = session.tree.find(tx, row, is_complete, uuid)?
        {
            if known.content == entry.content {
                tx.prepare_cached("INSERT OR IGNORE INTO sightings (seq, entry) VALUES (?1, ?2)")?
                    .execute((id, known.id))?;
                tip.last_entry = Some(known.id);
                tip.last_turn = known.turn;
                return Ok(Some(row));
            }
            replaced = Some(known);
        }
        session.saw(entry.time);

        // Parent.
        let is_node = is_node(&entry);
        let mut problems = Vec::new();
        let mut parent = None;
        let mut missing = None;
        match &entry.parent {
            DraftParent::Unsaid if is_node => parent = tip.last_entry,
            DraftParent::Unsaid | DraftParent::Root => {}
            DraftParent::Id(uuid) | DraftParent::After(uuid) => {
                if Some(uuid) == entry.uuid.as_ref() {
                    problems.push(Problem::new(ProblemKind::ParentCycle, "its own parent"));
                } else {
                    match session.tree.find(tx, row, is_complete, uuid)? {
                        Some(known) => parent = Some(known.id),
                        None => missing = Some(uuid),
                    }
                }
            }
        }
        if let (Some(uuid), DraftParent::Id(_)) = (missing, &entry.parent) {
            problems.push(Problem::new(ProblemKind::MissingParent, ""));
            session.tree.wait(uuid, id);
        }

        // Turn.
        let mut turn = match (replaced, parent) {
            (Some(known), _) => known.turn,
            (None, Some(parent)) => session.tree.turn_of(tx, parent)?.or(tip.last_turn),
            (None, None) => match &entry.parent {
                DraftParent::Root => None,
                _ => tip.last_turn,
            },
        };
        let is_prompt = entry.marks.is_prompt && is_node;
        if is_prompt && replaced.is_none_or(|known| known.turn != Some(known.id)) {
            self.turns.begin(id, row, turn, entry.time);
            session.columns.turns += 1;
            turn = Some(id);
        } else if turn.is_none() && !matches!(entry.parent, DraftParent::Root) {
            turn = tip.last_turn;
        }
        if is_prompt {
            session.prompted(entry.text.prose.as_str());
        }

        // The row, and what hangs off it.
        let missing = match &entry.parent {
            DraftParent::Id(_) => missing.cloned(),
            _ => None,
        };
        session.tree.set_turn(id, turn);
        let at = tools::At { conn: tx, session: row, is_complete, entry: id, turn };
        let mut cut = Vec::new();
        let mut adopted = Vec::new();
        if let Some(known) = replaced {
            problems.push(Problem::new(ProblemKind::IdReused, ""));
            let withdrawn = session.calls.withdraw(at, known.id)?;
            session.columns.tool_calls -= withdrawn;
            let messages =
                tx.prepare_cached("DELETE FROM messages WHERE id = ?1")?.execute([known.id])?;
            session.columns.messages -= messages as i64;
            tx.prepare_cached("UPDATE entries SET superseded_by = ?2 WHERE id = ?1")?
                .execute((known.id, id))?;
        }
        if place.origin.part != Part::PromptHistory {
            session.columns.entries += 1;
            session.is_dirty = true;
        }
        if is_node && !entry.marks.is_side && !entry.marks.is_sidechain {
            session.columns.leaf = Some(id);
        }
        if let (None, Some(uuid)) = (&session.columns.first_uuid, &entry.uuid) {
            session.columns.first_uuid = Some(uuid.clone());
        }
        if let Some(model) = &entry.model
            && session.columns.model.as_deref() != Some(model)
        {
            session.columns.model = Some(model.to_string());
        }
        if let Some(uuid) = &entry.uuid {
            session.tree.insert(uuid, Known { id, content: entry.content, turn });
        }
        let session_columns_leaf = match &entry.detail {
            Detail::Leaf { target: Some(target) } => {
                match session.tree.find(tx, row, is_complete, target)? {
                    Some(known) => Some(Some(known.id)),
                    None => {
                        problems.push(Problem::new(ProblemKind::DanglingReference, "leaf"));
                        None
                    }
                }
            }
            Detail::Leaf { target: None } => Some(None),
            _ => None,
        };
        if let Some(leaf) = session_columns_leaf {
            session.columns.leaf = leaf;
        }
        if matches!(entry.detail, Detail::Compaction { .. }) {
            session.columns.compactions += 1;
        }
        if entry.is_message {
            session.columns.messages += 1;
        }
        session.columns.tool_calls += entry.calls.len() as i64;
        for kind in session.calls.called(at, &entry.calls)? {
            problems.push(Problem::new(kind, ""));
        }
        if !matches!(entry.detail, Detail::Document { .. }) {
            for result in &entry.results {
                if let Some(kind) = session.calls.answered(at, result)? {
                    problems.push(Problem::new(kind, ""));
                }
            }
        }
        header_problems(place, tip, &entry, &mut problems);
        insert_row(tx, id, Some(row), &entry, parent, missing.as_ref(), turn)?;
        if let Some(uuid) = &entry.uuid {
            (adopted, cut) = session.tree.adopt(tx, row, is_complete, uuid, id)?;
        }
        if is_node {
            tip.last_entry = Some(id);
            tip.last_turn = turn;
        }

        for child in adopted {
            tx.prepare_cached("DELETE FROM problems WHERE entry = ?1 AND kind = ?2")?
                .execute((child, ProblemKind::MissingParent.as_str()))?;
        }
        for child in cut {
            tx.prepare_cached("DELETE FROM problems WHERE entry = ?1 AND kind = ?2")?
                .execute((child, ProblemKind::MissingParent.as_str()))?;
            let problem = Problem::new(ProblemKind::ParentCycle, "cut here");
            self.problem(tx, child, Some(place.source), Some(row), &problem)?;
        }
        if let Some(usage) = &entry.usage {
            let billed = usage::Billed {
                session: row,
                entry: id,
                turn,
                time: entry.time,
                model: &entry.model,
                provider: &entry.provider,
                is_sidechain: entry.marks.is_sidechain,
            };
            if let Some((turn, before, after)) = self.bills.add(tx, &billed, usage)? {
                self.turns.bill(tx, turn, &before, &after)?;
            }
        }
        if let Some(turn) = turn {
            self.turns.add(tx, turn, &entry)?;
        }
        self.insert_detail(tx, place, id, Some((row, turn)), &entry)?;
        index(tx, id, &entry)?;
        for problem in problems.iter().chain(&entry.problems) {
            self.problem(tx, id, Some(place.source), Some(row), problem)?;
        }
        Ok(Some(row))
    }

    /// Rows of the tables that belong to some kinds of entries.
    fn insert_detail(
        &mut self,
        tx: &Transaction<'_>,
        place: &Place<'_>,
        id: EntryId,
        session: Option<(SessionRow, Option<EntryId>)>,
        entry: &DraftEntry,
    ) -> Result<()> {
        let prose = entry.text.prose.as_str();
        match (&entry.detail, session) {
            (Detail::Prompt, session) => {
                let project = entry.says.iter().find_map(|fact| match fact {
                    Fact::Cwd(cwd) => Some(cwd),
                    _ => None,
                });
                tx.prepare_cached(
                    "INSERT INTO prompts (id, session, project, time, text) VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute((id, session.map(|(row, _)| row), project, entry.time, prose))?;
            }
            (Detail::Document { bytes }, session) => {
                let session = session.map(|(row, _)| row);
                tx.prepare_cached(
                    "INSERT INTO documents (id, session, source, part, name, bytes)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute((
                    id,
                    session,
                    place.source,
                    place.origin.part.as_str(),
                    &place.origin.name,
                    *bytes as i64,
                ))?;
                tx.prepare_cached(
                    "UPDATE tool_calls SET output = ?3 WHERE session = ?1 AND output_name = ?2",
                )?
                .execute((session, &place.origin.name, id))?;
            }
            (
                Detail::Compaction {
                    summary,
                    first_kept,
                    compacted_count,
                    tokens_before,
                    tokens_after,
                    trigger,
                    read_files,
                    modified_files,
                },
                Some((row, _)),
            ) => {
                let list = |files: &[String]| serde_json::Value::from(files.to_vec()).to_string();
                tx.prepare_cached(
                    "INSERT INTO compactions
                        (id, session, summary, first_kept, compacted_count, tokens_before,
                         tokens_after, cause, read_files, modified_files)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                )?
                .execute((
                    id,
                    row,
                    summary,
                    first_kept,
                    compacted_count.map(usage::tokens),
                    tokens_before.map(usage::tokens),
                    tokens_after.map(usage::tokens),
                    trigger,
                    list(read_files),
                    list(modified_files),
                ))?;
            }
            (Detail::Custom { custom_type, data }, Some((row, _))) => {
                tx.prepare_cached(
                    "INSERT INTO custom_entries (id, session, custom_type, data) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute((id, row, custom_type, data))?;
            }
            (Detail::Label { target, label }, Some((row, _))) => {
                tx.prepare_cached(
                    "INSERT INTO labels (id, session, target, label) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute((id, row, target, label))?;
            }
            _ => {}
        }
        if let (true, Some((row, turn)), Some(role)) = (entry.is_message, session, entry.role) {
            tx.prepare_cached(
                "INSERT INTO messages (id, session, turn, role, time, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute((id, row, turn, role.as_str(), entry.time, prose))?;
        }
        Ok(())
    }

    fn problem(
        &mut self,
        tx: &Transaction<'_>,
        entry: EntryId,
        source: Option<SourceId>,
        session: Option<SessionRow>,
        problem: &Problem,
    ) -> Result<()> {
        let added = tx
            .prepare_cached(
                "INSERT OR IGNORE INTO problems (entry, kind, source, session, detail)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute((entry, problem.kind.as_str(), source, session, &problem.detail))?;
        self.problems += added as u64;
        Ok(())
    }
}

/// The session that an entry belongs to: the file's, or the one that the record names.
fn session_name(place: &Place<'_>, entry: &DraftEntry) -> Option<Name> {
    let id = match &place.origin.session {
        Some(id) => id.clone(),
        None => entry.says.iter().find_map(|fact| match fact {
            Fact::SessionId(id) if !id.is_empty() => Some(id.to_string()),
            _ => None,
        })?,
    };
    Some(Name {
        format: place.format.name(),
        agent: place.origin.agent.clone().unwrap_or_default(),
        id,
    })
}

/// Whether an entry is a node of the session's tree.
fn is_node(entry: &DraftEntry) -> bool {
    match entry.detail {
        Detail::Header | Detail::Leaf { .. } | Detail::Prompt | Detail::Document { .. } => false,
        _ => entry.uuid.is_some() || entry.role.is_some() || !matches!(entry.detail, Detail::None),
    }
}

/// A transcript with headers should have exactly one, at its start.
fn header_problems(
    place: &Place<'_>,
    tip: &mut Tip,
    entry: &DraftEntry,
    problems: &mut Vec<Problem>,
) {
    if !place.format.has_headers() || place.origin.part != Part::Transcript {
        return;
    }
    let is_header = matches!(entry.detail, Detail::Header);
    if is_header && tip.has_header && tip.generation == place.generation {
        problems.push(Problem::new(ProblemKind::HeaderRepeated, ""));
    } else if !is_header && !tip.has_header {
        problems.push(Problem::new(ProblemKind::HeaderMissing, ""));
    }
    tip.has_header = true;
}

fn insert_row(
    tx: &Connection,
    id: EntryId,
    session: Option<SessionRow>,
    entry: &DraftEntry,
    parent: Option<EntryId>,
    missing: Option<&PackedId>,
    turn: Option<EntryId>,
) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO entries
            (id, session, uuid, parent, parent_uuid, turn, type, role, time, is_known, is_meta,
             is_sidechain, is_mirror, is_error, is_side, is_summary, content)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
    )?
    .execute(rusqlite::params![
        id,
        session,
        entry.uuid,
        parent,
        missing,
        turn,
        entry.type_name,
        entry.role.map(Role::as_str),
        entry.time,
        entry.is_known,
        entry.marks.is_meta,
        entry.marks.is_sidechain,
        entry.marks.is_mirror,
        entry.marks.is_error,
        entry.marks.is_side,
        entry.marks.is_compact_summary,
        entry.content,
    ])?;
    Ok(())
}

/// Puts an entry's words into the search index.
fn index(tx: &Connection, id: EntryId, entry: &DraftEntry) -> Result<()> {
    let text = &entry.text;
    if text.is_empty() {
        return Ok(());
    }
    let mut left = search::LONGEST;
    let (prose, cut_1) = text.prose.indexed(&mut left);
    let (tool_input, cut_2) = text.tool_input.indexed(&mut left);
    let (tool_result, cut_3) = text.tool_result.indexed(&mut left);
    let (thinking, cut_4) = text.thinking.indexed(&mut left);
    tx.prepare_cached(
        "INSERT INTO search (rowid, prose, thinking, tool_input, tool_result)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((id, &*prose, &*thinking, &*tool_input, &*tool_result))?;
    let cut = cut_1 + cut_2 + cut_3 + cut_4;
    if cut > 0 {
        tx.prepare_cached("INSERT INTO partly_indexed (entry, bytes) VALUES (?1, ?2)")?
            .execute((id, cut as i64))?;
    }
    Ok(())
}
