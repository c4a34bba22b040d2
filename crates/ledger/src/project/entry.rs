//! Folds in one entry: finds its session, tells a repetition from a new version, hangs it off its
//! parent, gives it a turn, pairs its tools and counts its bill.

use std::rc::Rc;

use quipu_fts5::PendingPostings;
use quipu_transcript::entry::Role;
use quipu_transcript::format::Part;
use quipu_transcript::problem::{Problem, ProblemKind};
use rusqlite::{OptionalExtension, Transaction};

use super::draft::{Detail, DraftEntry, DraftParent, Fact};
use super::rows::{self, Inserts, Standing};
use super::session::{Name, Session};
use super::tree::{Adopted, Known};
use super::{Fold, Place, tools, usage};
use crate::Result;
use crate::base::ids::{EntryId, PackedId, SessionRow};
use crate::project::interned::kinds::KindId;
use crate::project::interned::targets::Targets;
use crate::project::interned::tools::Toolbox;
use crate::project::source_state::Tip;

impl Fold {
    /// Folds in one entry of a record. Returns its session.
    #[expect(clippy::too_many_arguments, reason = "everything that makes an entry")]
    pub(super) fn entry(
        &mut self,
        tx: &Transaction<'_>,
        inserts: &mut Inserts<'_>,
        place: &Place<'_>,
        tip: &mut Tip,
        id: EntryId,
        same_as: Option<EntryId>,
        entry: DraftEntry,
    ) -> Result<Option<SessionRow>> {
        if matches!(entry.detail, Detail::Document { .. }) {
            // The call whose output it is is looked up by its row.
            self.sessions.save(tx)?;
        }
        let kind = self.kinds.number(tx, &entry.kind)?;
        let Some(name) = self.session_name(tx, place, tip, &entry)? else {
            return self
                .of_no_session(tx, inserts, place, id, kind, same_as, &entry)
                .map(|()| None);
        };
        let session = self.sessions.get(tx, &name, SessionRow(id.0))?;
        let row = session.row;
        if tip.session != Some(row) {
            tip.session = Some(row);
            session.place(tx, place.source, place.origin)?;
            // Others find the parent of a sub-agent through the row.
            session.save(tx, &name)?;
        }
        let mut problems = learn(tx, place, session, &entry)?;

        // The same id again: a repetition is a sighting, anything else a newer version. A line that
        // the session has elsewhere is a repetition too, with an id or without.
        let older = match &entry.uuid {
            Some(uuid) => session.find(tx, uuid)?,
            None => None,
        };
        let seen = match older.filter(|known| known.content == entry.content) {
            Some(known) => Some(known),
            None => first_sighting(tx, same_as, Some(row))?,
        };
        if let Some(known) = seen {
            insert_sighting(tx, id, known.id)?;
            tip.has_header |= matches!(entry.detail, Detail::Header);
            if is_node(&entry) {
                tip.last_entry = Some(known.id);
                tip.last_turn = known.turn;
            }
            return Ok(Some(row));
        }
        // A list of prompts is of many sessions, each with its own time.
        let is_prompt_list = matches!(entry.detail, Detail::Prompt);
        match tip.skew(entry.time).filter(|_| !is_prompt_list) {
            Some(skew) => problems.push(skew),
            None => session.saw(entry.time),
        }

        problems.extend(header_problem(place, tip, &entry));
        let mut standing = Standing { session: Some(row), ..Standing::default() };
        hang(tx, session, tip, &entry, id, &mut standing, &mut problems)?;

        // A prompt begins a turn, unless it is a newer version of one that did.
        let is_node = is_node(&entry);
        let is_prompt = entry.marks.is_prompt && is_node;
        standing.turn = turn_before(tx, session, tip, &entry, &standing, older)?;
        if is_prompt && !began_turn(tx, older, entry.uuid.as_ref())? {
            self.turns.begin(id, row, standing.turn, entry.time);
            session.columns.turns += 1;
            standing.turn = Some(id);
        }
        if is_prompt {
            session.prompted(standing.turn, entry.text.prose.as_str());
        }

        let at = tools::At {
            conn: tx,
            session: row,
            is_complete: session.is_complete,
            entry: id,
            older: older.map(|older| older.id),
        };
        if let Some(older) = older {
            problems.push(Problem::new(ProblemKind::IdReused, ""));
            supersede(at, session, older)?;
        }
        count(session, place, &entry);
        move_leaf(tx, session, &entry, id, older, is_node, &mut problems)?;
        if is_node {
            session.tree.set_turn(id, standing.turn);
        }
        let shared = (&mut self.toolbox, &mut self.targets);
        pair(at, session, shared, &entry, &mut problems)?;
        insert(tx, inserts, &mut self.words, place, id, kind, &standing, &entry)?;
        let mut adopted = Adopted::default();
        if let Some(uuid) = &entry.uuid {
            let known = Known { id, content: entry.content, turn: standing.turn };
            adopted = session.join(tx, uuid, known)?;
        }
        if is_node {
            tip.last_entry = Some(id);
            tip.last_turn = standing.turn;
        }
        if let Some(draft) = &entry.usage {
            let billed = usage::Billed {
                session: row,
                is_complete: session.is_complete,
                entry: id,
                turn: standing.turn,
                time: entry.time,
                is_sidechain: entry.marks.is_sidechain,
            };
            let grown = session.bills.add(tx, &mut self.models, &billed, draft)?;
            if let Some((turn, before, after)) = grown {
                self.turns.bill(tx, turn, &before, &after)?;
            }
        }
        session.bound(tx)?;
        if let Some(turn) = standing.turn {
            self.turns.add(tx, turn, &entry)?;
        }
        for problem in problems.iter().chain(&entry.problems) {
            self.problem(tx, id, place.source, Some(row), problem)?;
        }
        self.take_back(&adopted.mended);
        for child in adopted.cut {
            let problem = Problem::new(ProblemKind::ParentCycle, "cut here");
            self.problem(tx, child, place.source, Some(row), &problem)?;
        }
        Ok(Some(row))
    }

    /// Folds in an entry that belongs to no session.
    #[expect(clippy::too_many_arguments, reason = "everything that makes an entry")]
    fn of_no_session(
        &mut self,
        tx: &Transaction<'_>,
        inserts: &mut Inserts<'_>,
        place: &Place<'_>,
        id: EntryId,
        kind: KindId,
        same_as: Option<EntryId>,
        entry: &DraftEntry,
    ) -> Result<()> {
        let Some(known) = first_sighting(tx, same_as, None)? else {
            let standing = Standing::default();
            insert(tx, inserts, &mut self.words, place, id, kind, &standing, entry)?;
            for problem in &entry.problems {
                self.problem(tx, id, place.source, None, problem)?;
            }
            return Ok(());
        };
        insert_sighting(tx, id, known.id)?;
        // A list of jobs that is as it once was is the newest again.
        if let Detail::CronJobs { jobs, .. } = &entry.detail {
            rows::replace_cron_jobs(tx, place, known.id, jobs)?;
        }
        Ok(())
    }
}

/// Pairs the entry's tool calls with results, and its results with calls.
fn pair(
    at: tools::At<'_>,
    session: &mut Session,
    shared: (&mut Toolbox, &mut Targets),
    entry: &DraftEntry,
    problems: &mut Vec<Problem>,
) -> Result<()> {
    for kind in session.calls.called(at, shared, &entry.calls)? {
        problems.push(Problem::new(kind, ""));
    }
    // A document is the output of a call, which is looked up by its name.
    if matches!(entry.detail, Detail::Document { .. }) {
        return Ok(());
    }
    for result in &entry.results {
        if let Some(kind) = session.calls.answered(at, result)? {
            problems.push(Problem::new(kind, ""));
        }
    }
    Ok(())
}

/// Adds an entry and everything that is read from it alone.
#[expect(clippy::too_many_arguments, reason = "everything that makes an entry")]
fn insert(
    tx: &Transaction<'_>,
    inserts: &mut Inserts<'_>,
    words: &mut PendingPostings,
    place: &Place<'_>,
    id: EntryId,
    kind: KindId,
    standing: &Standing,
    entry: &DraftEntry,
) -> Result<()> {
    inserts.entry(id, kind, standing, entry)?;
    inserts.message(id, standing, entry)?;
    rows::insert_detail(tx, place, id, standing, entry)?;
    match entry.words {
        Some(number) => {
            words.set_rowid(number, id.into());
            rows::note_left_out(tx, id, entry)
        }
        None => inserts.words(tx, id, entry),
    }
}

impl Fold {
    /// The session that an entry belongs to: the file's, or the one that the record names. In a
    /// transcript whose name does not tell, the header at its start names it for all that follow.
    fn session_name(
        &mut self,
        tx: &Transaction<'_>,
        place: &Place<'_>,
        tip: &Tip,
        entry: &DraftEntry,
    ) -> Result<Option<Rc<Name>>> {
        if let Some((source, name)) = &self.named
            && *source == place.source
        {
            return Ok(Some(Rc::clone(name)));
        }
        if let Some(name) = Name::of(place.format, place.origin).map(Rc::new) {
            self.named = Some((place.source, Rc::clone(&name)));
            return Ok(Some(name));
        }
        let said = entry.says.iter().find_map(|fact| match fact {
            Fact::SessionId(id) if !id.is_empty() => Some(Name {
                format: place.format.name(),
                agent: place.origin.agent.clone().unwrap_or_default(),
                id: id.to_string(),
            }),
            _ => None,
        });
        match tip.session {
            Some(row)
                if place.origin.part.is_transcript() && (place.start > 0 || said.is_none()) =>
            {
                Ok(self.sessions.name_of(tx, place.format, row)?.map(Rc::new))
            }
            _ => Ok(said.map(Rc::new)),
        }
    }
}

/// The entry of the record that holds the same bytes, if it is of the same session.
fn first_sighting(
    tx: &Transaction<'_>,
    same_as: Option<EntryId>,
    session: Option<SessionRow>,
) -> Result<Option<Known>> {
    let Some(holder) = same_as else { return Ok(None) };
    Ok(tx
        .prepare_cached(
            "SELECT id, content, turn FROM entries
              WHERE id = coalesce((SELECT entry FROM sightings WHERE seq = ?1), ?1)
                AND session IS ?2",
        )?
        .query_row((holder, session), |row| {
            Ok(Known { id: row.get(0)?, content: row.get(1)?, turn: row.get(2)? })
        })
        .optional()?)
}

fn insert_sighting(tx: &Transaction<'_>, id: EntryId, entry: EntryId) -> Result<()> {
    tx.prepare_cached("INSERT OR IGNORE INTO sightings (seq, entry) VALUES (?1, ?2)")?
        .execute((id, entry))?;
    Ok(())
}

/// Whether an entry is a node of the session's tree.
pub(crate) fn is_node(entry: &DraftEntry) -> bool {
    match entry.detail {
        Detail::Header
        | Detail::Leaf { .. }
        | Detail::Prompt
        | Detail::Document { .. }
        | Detail::CronRun(_)
        | Detail::CronJobs { .. } => false,
        // Bookkeeping without an id of its own stands beside the conversation.
        _ => entry.uuid.is_some() || entry.role.is_some() || !entry.marks.is_side,
    }
}

/// Takes in what an entry says about its session. Returns what was odd.
fn learn(
    tx: &Transaction<'_>,
    place: &Place<'_>,
    session: &mut Session,
    entry: &DraftEntry,
) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    // A prompt list says where a prompt was typed, which the session itself knows better.
    if place.origin.part == Part::PromptHistory {
        return Ok(problems);
    }
    for fact in &entry.says {
        match fact {
            Fact::Spawned { call, agent_id } => insert_spawned(tx, session.row, agent_id, call)?,
            Fact::Summary { leaf: Some(leaf), .. } if session.find(tx, leaf)?.is_none() => {
                problems.push(Problem::new(ProblemKind::DanglingReference, "summary"));
            }
            fact => session.learn(fact),
        }
    }
    Ok(problems)
}

/// A transcript with headers should have exactly one, at its start. Bare lines need none.
fn header_problem(place: &Place<'_>, tip: &mut Tip, entry: &DraftEntry) -> Option<Problem> {
    if !place.format.has_headers() || place.origin.part != Part::Transcript {
        return None;
    }
    let is_header = matches!(entry.detail, Detail::Header);
    let had_header = std::mem::replace(&mut tip.has_header, true);
    if is_header && had_header && tip.generation == place.generation {
        Some(Problem::new(ProblemKind::HeaderRepeated, ""))
    } else if !is_header && !had_header && entry.uuid.is_some() {
        Some(Problem::new(ProblemKind::HeaderMissing, ""))
    } else {
        None
    }
}

/// Finds the parent.
fn hang(
    tx: &Transaction<'_>,
    session: &mut Session,
    tip: &Tip,
    entry: &DraftEntry,
    id: EntryId,
    standing: &mut Standing,
    problems: &mut Vec<Problem>,
) -> Result<()> {
    match &entry.parent {
        DraftParent::Unsaid if is_node(entry) => standing.parent = tip.last_entry,
        DraftParent::Unsaid | DraftParent::Root => {}
        DraftParent::Id(uuid) | DraftParent::After(uuid) if Some(uuid) == entry.uuid.as_ref() => {
            problems.push(Problem::new(ProblemKind::ParentCycle, "its own parent"));
        }
        DraftParent::Id(uuid) => match session.find(tx, uuid)? {
            Some(known) => standing.parent = Some(known.id),
            None => {
                problems.push(Problem::new(ProblemKind::MissingParent, ""));
                session.tree.wait(uuid, id);
                standing.missing = Some(uuid.clone());
            }
        },
        // A compaction goes on from there, if that is known; otherwise it is a root like any other.
        DraftParent::After(uuid) => {
            standing.parent = session.find(tx, uuid)?.map(|known| known.id);
        }
    }
    Ok(())
}

/// The turn that an entry would belong to if it began none.
fn turn_before(
    tx: &Transaction<'_>,
    session: &mut Session,
    tip: &Tip,
    entry: &DraftEntry,
    standing: &Standing,
    older: Option<Known>,
) -> Result<Option<EntryId>> {
    if let Some(turn) = older.and_then(|older| older.turn) {
        return Ok(Some(turn));
    }
    let turn = match standing.parent {
        Some(parent) => session.tree.turn_of(tx, parent)?,
        None => None,
    };
    Ok(match (turn, &entry.parent) {
        (Some(turn), _) => Some(turn),
        (None, DraftParent::Root) => None,
        (None, _) => tip.last_turn,
    })
}

/// Whether an older version of the entry, the first of them, began a turn.
fn began_turn(tx: &Transaction<'_>, older: Option<Known>, uuid: Option<&PackedId>) -> Result<bool> {
    let Some(Known { id, turn: Some(turn), .. }) = older else { return Ok(false) };
    if turn == id {
        return Ok(true);
    }
    Ok(tx
        .prepare_cached("SELECT 1 FROM entry_rows WHERE id = ?1 AND uuid = ?2")?
        .exists((turn, uuid))?)
}

/// A newer version takes the place of an older one: what is shown and counted is the newest.
fn supersede(at: tools::At<'_>, session: &mut Session, older: Known) -> Result<()> {
    session.columns.tool_calls -= session.calls.withdraw(at, older.id)?;
    let messages =
        at.conn.prepare_cached("DELETE FROM message_texts WHERE id = ?1")?.execute([older.id])?;
    session.columns.messages -= messages as i64;
    let compactions =
        at.conn.prepare_cached("DELETE FROM compactions WHERE id = ?1")?.execute([older.id])?;
    session.columns.compactions -= compactions as i64;
    at.conn.prepare_cached("DELETE FROM custom_entries WHERE id = ?1")?.execute([older.id])?;
    at.conn.prepare_cached("DELETE FROM labels WHERE id = ?1")?.execute([older.id])?;
    at.conn
        .prepare_cached("UPDATE entry_rows SET superseded_by = ?2 WHERE id = ?1")?
        .execute((older.id, at.entry))?;
    Ok(())
}

/// Counts an entry in its session's row.
fn count(session: &mut Session, place: &Place<'_>, entry: &DraftEntry) {
    let columns = &mut session.columns;
    session.is_dirty = true;
    // A prompt list is not part of the conversation.
    if place.origin.part != Part::PromptHistory {
        columns.entries += 1;
    }
    columns.messages += i64::from(entry.is_message);
    columns.tool_calls += entry.calls.len() as i64;
    columns.compactions += i64::from(matches!(entry.detail, Detail::Compaction(_)));
    if columns.first_uuid.is_none() {
        columns.first_uuid.clone_from(&entry.uuid);
    }
    // Progress of a sub-agent names the sub-agent's model.
    if let (Some(Role::Assistant), Some(model)) = (entry.role, &entry.model)
        && !entry.marks.is_side
        && columns.model.as_deref() != Some(model)
    {
        columns.model = Some(model.to_string());
    }
}

/// The leaf is the last node of the main line, or where a leaf entry moves it.
fn move_leaf(
    tx: &Transaction<'_>,
    session: &mut Session,
    entry: &DraftEntry,
    id: EntryId,
    older: Option<Known>,
    is_node: bool,
    problems: &mut Vec<Problem>,
) -> Result<()> {
    // A newer version stands where the older one stood.
    let is_last = older.is_none_or(|older| session.columns.leaf == Some(older.id));
    match &entry.detail {
        Detail::Leaf { target: None } => session.columns.leaf = None,
        Detail::Leaf { target: Some(target) } => match session.find(tx, target)? {
            Some(known) => session.columns.leaf = Some(known.id),
            None => problems.push(Problem::new(ProblemKind::DanglingReference, "leaf")),
        },
        _ if is_node && is_last && !entry.marks.is_side && !entry.marks.is_sidechain => {
            session.columns.leaf = Some(id);
        }
        _ => {}
    }
    Ok(())
}

fn insert_spawned(
    tx: &Transaction<'_>,
    session: SessionRow,
    agent_id: &str,
    call: &str,
) -> Result<()> {
    tx.prepare_cached(
        "INSERT OR IGNORE INTO spawned_agents (session, agent_id, call_id) VALUES (?1, ?2, ?3)",
    )?
    .execute((session, agent_id, call))?;
    Ok(())
}
