//! Projects one entry: finds its session, its parent and its turn, pairs its tool calls and counts
//! its usage.
//!
//! A repeated entry adds no row but a sighting; a changed one supersedes the older version. Never
//! reads the clock.

mod repeats;

use std::sync::Arc;

use quipu_fts5::PendingPostings;
use quipu_transcript::entry::{Role, Usage};
use quipu_transcript::format::Part;
use quipu_transcript::problem::{Problem, ProblemKind};
use rusqlite::Transaction;

use self::repeats::{first_sighting, insert_sighting, repeated, supersede};
use super::draft::{Detail, DraftEntry, DraftParent, Fact};
use super::rows::{self, Inserts, TreePosition};
use super::session::{Name, Session};
use super::tree::{Adopted, KnownEntry};
use super::{Fold, RecordPosition, tools, usage};
use crate::Result;
use crate::base::ids::{EntryId, PackedId, SessionRow};
use crate::project::interned::kinds::KindId;
use crate::project::interned::targets::Targets;
use crate::project::interned::tools::Tools;
use crate::project::source_state::SourceState;

impl Fold {
    /// Projects one entry of a record. Returns its session.
    #[expect(clippy::too_many_arguments, reason = "everything that makes an entry")]
    pub(super) fn entry(
        &mut self,
        tx: &Transaction<'_>,
        inserts: &mut Inserts<'_>,
        position: &RecordPosition<'_>,
        state: &mut SourceState,
        id: EntryId,
        same_as: Option<EntryId>,
        mut entry: DraftEntry,
    ) -> Result<Option<SessionRow>> {
        if matches!(entry.detail, Detail::Document { .. }) {
            // The call that wrote this output is looked up by its row.
            self.sessions.save(tx)?;
        }
        let Some(name) = self.session_name(tx, position, state, &entry)? else {
            return self
                .insert_without_session(tx, inserts, position, id, same_as, &entry)
                .map(|()| None);
        };
        let session = self.sessions.get(tx, &name, SessionRow(id.0))?;
        let row = session.row;
        if state.session != Some(row) {
            state.session = Some(row);
            session.add_source(tx, position.source, position.origin)?;
            // Queries find the parent of a sub-agent through this row.
            session.save(tx, &name)?;
        }
        let mut problems = store_facts(tx, position, session, &entry)?;

        let older = match &entry.uuid {
            Some(uuid) => session.find(tx, uuid)?,
            None => None,
        };
        let seen = repeated(tx, position, state, &entry, older, same_as, row)?;
        if let Some(known) = seen {
            insert_sighting(tx, id, known.id)?;
            state.has_header |= matches!(entry.detail, Detail::Header);
            state.take_model(&entry, false);
            if is_node(&entry) {
                state.last_entry = Some(known.id);
                state.last_turn = known.turn;
            }
            return Ok(Some(row));
        }
        // A list of prompts belongs to many sessions, each with its own time.
        let is_prompt_list = matches!(entry.detail, Detail::Prompt { .. });
        match state.skew(entry.time).filter(|_| !is_prompt_list) {
            Some(skew) => problems.push(skew),
            None => session.widen_time_range(entry.time),
        }

        problems.extend(header_problem(position, state, &entry));
        let mut tree_position = TreePosition { session: Some(row), ..TreePosition::default() };
        attach(tx, session, state, &entry, id, &mut tree_position, &mut problems)?;

        // A prompt begins a turn, unless it is a newer version of a prompt that began one.
        let is_node = is_node(&entry);
        let is_prompt = entry.marks.is_prompt && is_node;
        state.take_model(&entry, !is_node || tree_position.parent == state.last_entry);
        if lacks_model(&entry) {
            state.take_model_of_path(tx, tree_position.parent)?;
        }
        if is_answer(&entry) && entry.model.is_none() {
            entry.model = state.model.as_deref().map(|model| Box::new(model.clone()));
        }
        tree_position.turn = preceding_turn(tx, session, state, &entry, &tree_position, older)?;
        if is_prompt && !had_begun_turn(tx, older, entry.uuid.as_ref())? {
            let is_automatic = entry.marks.is_automatic;
            self.turns.begin(id, row, tree_position.turn, is_automatic, entry.time);
            session.columns.turns += 1;
            session.columns.automatic_turns += i64::from(is_automatic);
            tree_position.turn = Some(id);
        }
        let turn_of_prompt = is_prompt.then_some(tree_position.turn);
        note_first_prompt(session, &entry, turn_of_prompt);

        let at = tools::CallContext {
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
        count_in_session(session, position, &entry);
        move_leaf(tx, session, &entry, id, older, is_node, &mut problems)?;
        if is_node {
            session.tree.set_turn(id, tree_position.turn);
        }
        if entry.role == Some(Role::Assistant)
            && let Some(model) = entry.model.as_deref()
        {
            entry.kind.model = self.models.number(tx, model)?;
        }
        let kind = self.kinds.number(tx, &entry.kind)?;
        let shared = (&mut self.tools, &mut self.targets);
        pair(at, session, shared, &entry, &mut problems)?;
        insert(tx, inserts, &mut self.words, position, id, kind, &tree_position, &entry)?;
        let mut adopted = Adopted::default();
        if let Some(uuid) = &entry.uuid {
            let known = KnownEntry { id, content: entry.content, turn: tree_position.turn };
            adopted = session.add_entry(tx, uuid, known)?;
        }
        if is_node {
            state.last_entry = Some(id);
            state.last_turn = tree_position.turn;
        }
        let model = state.model.as_deref();
        let grown = add_usage(at, session, &mut self.models, &entry, model, tree_position.turn)?;
        if let Some((turn, before, after)) = grown {
            self.turns.add_usage(tx, turn, &before, &after)?;
        }
        session.bound_memory(tx)?;
        if let Some(turn) = tree_position.turn {
            self.turns.add(tx, turn, &entry)?;
        }
        for problem in problems.iter().chain(&entry.problems) {
            self.problem(tx, id, position.source, Some(row), problem)?;
        }
        self.subtract_problems(&adopted.repaired);
        for child in adopted.cut {
            let problem = Problem::new(ProblemKind::ParentCycle, "cut here");
            self.problem(tx, child, position.source, Some(row), &problem)?;
        }
        Ok(Some(row))
    }

    /// Projects an entry that belongs to no session.
    fn insert_without_session(
        &mut self,
        tx: &Transaction<'_>,
        inserts: &mut Inserts<'_>,
        position: &RecordPosition<'_>,
        id: EntryId,
        same_as: Option<EntryId>,
        entry: &DraftEntry,
    ) -> Result<()> {
        let Some(known) = first_sighting(tx, same_as, None)? else {
            let kind = self.kinds.number(tx, &entry.kind)?;
            let tree_position = TreePosition::default();
            insert(tx, inserts, &mut self.words, position, id, kind, &tree_position, entry)?;
            for problem in &entry.problems {
                self.problem(tx, id, position.source, None, problem)?;
            }
            return Ok(());
        };
        insert_sighting(tx, id, known.id)?;
        // If a list of jobs returns to an earlier state, that state is the newest again.
        if let Detail::CronJobs { jobs, .. } = &entry.detail {
            rows::replace_cron_jobs(tx, position, known.id, jobs)?;
        }
        Ok(())
    }
}

/// Pairs the entry's tool calls with results, and its results with calls.
fn pair(
    at: tools::CallContext<'_>,
    session: &mut Session,
    shared: (&mut Tools, &mut Targets),
    entry: &DraftEntry,
    problems: &mut Vec<Problem>,
) -> Result<()> {
    for kind in session.calls.add_calls(at, shared, &entry.calls)? {
        problems.push(Problem::new(kind, ""));
    }
    // A document is the output of a call, which is looked up by its name.
    if matches!(entry.detail, Detail::Document { .. }) {
        return Ok(());
    }
    for result in &entry.results {
        if let Some(kind) = session.calls.add_result(at, result)? {
            problems.push(Problem::new(kind, ""));
        }
    }
    Ok(())
}

/// Adds an entry and all rows that depend on it alone.
#[expect(clippy::too_many_arguments, reason = "everything that makes an entry")]
fn insert(
    tx: &Transaction<'_>,
    inserts: &mut Inserts<'_>,
    words: &mut PendingPostings,
    position: &RecordPosition<'_>,
    id: EntryId,
    kind: KindId,
    tree_position: &TreePosition,
    entry: &DraftEntry,
) -> Result<()> {
    inserts.entry(id, kind, tree_position, entry)?;
    inserts.message(id, tree_position, entry)?;
    rows::insert_detail(tx, position, id, tree_position, entry)?;
    match entry.words {
        Some(number) => {
            words.set_rowid(number, id.into());
            rows::note_unindexed(tx, id, entry)
        }
        None => inserts.words(tx, id, entry),
    }
}

impl Fold {
    /// Returns the session of an entry: the one in the file's path, or the one that the record
    /// names. If the path names none, the header at the start names the session of all later lines.
    fn session_name(
        &mut self,
        tx: &Transaction<'_>,
        position: &RecordPosition<'_>,
        state: &SourceState,
        entry: &DraftEntry,
    ) -> Result<Option<Arc<Name>>> {
        if let Some((source, name)) = &self.named
            && *source == position.source
        {
            return Ok(Some(Arc::clone(name)));
        }
        if let Some(name) = Name::of(position.format, position.origin) {
            let name = Arc::new(self.joined_name(tx, position, state, entry, name)?);
            self.named = Some((position.source, Arc::clone(&name)));
            return Ok(Some(name));
        }
        let named_session = entry.facts.iter().find_map(|fact| match fact {
            Fact::SessionId(id) if !id.is_empty() => Some(Name {
                format: position.format.name(),
                agent: position.origin.agent.clone().unwrap_or_default(),
                id: id.to_string(),
            }),
            _ => None,
        });
        match state.session {
            Some(row)
                if position.origin.part.is_transcript()
                    && (position.start > 0 || named_session.is_none()) =>
            {
                Ok(self.sessions.name_of(tx, position.format, row)?.map(Arc::new))
            }
            _ => Ok(named_session.map(Arc::new)),
        }
    }
}

/// Stores the text of an entry as the session's first prompt, if it may be that. `turn` is the turn
/// of a prompt; `None` for any other entry.
fn note_first_prompt(session: &mut Session, entry: &DraftEntry, turn: Option<Option<EntryId>>) {
    let text = entry.text.prose.as_str();
    // A later prompt replaces a queued one.
    if entry.marks.is_queued && session.columns.turns == 0 {
        session.set_first_prompt(None, text, false);
    }
    // A session of nothing but commands is named by its first one.
    if entry.marks.is_command && session.columns.first_prompt.is_none() {
        session.set_first_prompt(None, text, false);
    }
    if let Some(turn) = turn {
        session.set_first_prompt(turn, text, entry.marks.is_automatic);
    }
}

/// Adds the usage of an entry, and the totals that it states. Returns the turn of a response that
/// has grown, with its usage before and after.
fn add_usage(
    at: tools::CallContext<'_>,
    session: &mut Session,
    models: &mut usage::Models,
    entry: &DraftEntry,
    model_in_effect: Option<&usage::Model>,
    turn: Option<EntryId>,
) -> Result<Option<(EntryId, Usage, Usage)>> {
    let mut grown = None;
    if let Some(draft) = &entry.usage {
        let usage_entry = usage::UsageEntry {
            session: at.session,
            is_complete: at.is_complete,
            entry: at.entry,
            turn,
            time: entry.time,
            is_sidechain: entry.marks.is_sidechain,
            model: draft.model.or(model_in_effect),
        };
        grown = session.usage.add(at.conn, models, &usage_entry, draft)?;
    }
    for fact in &entry.facts {
        if let Fact::UsageTotal(total) = fact {
            let total_entry = usage::TotalEntry {
                session: at.session,
                is_complete: at.is_complete,
                entry: at.entry,
                leaf: session.columns.leaf,
                time: session.columns.last_entry_at,
            };
            session.usage.add_total(at.conn, models, &total_entry, total)?;
        }
    }
    Ok(grown)
}

/// Returns whether an entry is a node of the session's tree.
pub(crate) fn is_node(entry: &DraftEntry) -> bool {
    match entry.detail {
        Detail::Header
        | Detail::Leaf { .. }
        | Detail::Prompt { .. }
        | Detail::Document { .. }
        | Detail::CronRun(_)
        | Detail::CronJobs { .. } => false,
        // A side entry without an id is not part of the conversation.
        _ => entry.uuid.is_some() || entry.role.is_some() || !entry.marks.is_side,
    }
}

/// Stores the facts that an entry states about its session. Returns the problems found.
fn store_facts(
    tx: &Transaction<'_>,
    position: &RecordPosition<'_>,
    session: &mut Session,
    entry: &DraftEntry,
) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    // A prompt list also names the working directory of a prompt, but the session's own records are
    // more reliable.
    if position.origin.part == Part::PromptHistory {
        return Ok(problems);
    }
    for fact in &entry.facts {
        match fact {
            Fact::Spawned { call, agent_id } => insert_spawned(tx, session.row, agent_id, call)?,
            Fact::Summary { leaf: Some(leaf), .. } if session.find(tx, leaf)?.is_none() => {
                problems.push(Problem::new(ProblemKind::DanglingReference, "summary"));
            }
            fact => session.set_fact(fact),
        }
    }
    Ok(problems)
}

/// Returns whether an entry is an answer or has usage, and names no model.
fn lacks_model(entry: &DraftEntry) -> bool {
    match &entry.usage {
        Some(usage) => usage.model.model.is_empty(),
        None => is_answer(entry) && entry.model.is_none(),
    }
}

/// Returns whether a model wrote the entry.
fn is_answer(entry: &DraftEntry) -> bool {
    entry.role == Some(Role::Assistant) && !entry.marks.is_mirror
}

/// Returns the problem of a missing or repeated header. A transcript has exactly one, at its start.
/// A transcript whose lines have no ids needs none.
fn header_problem(
    position: &RecordPosition<'_>,
    state: &mut SourceState,
    entry: &DraftEntry,
) -> Option<Problem> {
    if !position.format.has_headers() || position.origin.part != Part::Transcript {
        return None;
    }
    let is_header = matches!(entry.detail, Detail::Header);
    let had_header = std::mem::replace(&mut state.has_header, true);
    if is_header && had_header && state.generation == position.generation {
        Some(Problem::new(ProblemKind::HeaderRepeated, ""))
    } else if !is_header && !had_header && entry.uuid.is_some() {
        Some(Problem::new(ProblemKind::HeaderMissing, ""))
    } else {
        None
    }
}

/// Finds the entry's parent and stores it in `tree_position`.
fn attach(
    tx: &Transaction<'_>,
    session: &mut Session,
    state: &SourceState,
    entry: &DraftEntry,
    id: EntryId,
    tree_position: &mut TreePosition,
    problems: &mut Vec<Problem>,
) -> Result<()> {
    match &entry.parent {
        DraftParent::Implicit if is_node(entry) => tree_position.parent = state.last_entry,
        DraftParent::Implicit | DraftParent::Root => {}
        DraftParent::Id(uuid) | DraftParent::After(uuid) if Some(uuid) == entry.uuid.as_ref() => {
            problems.push(Problem::new(ProblemKind::ParentCycle, "its own parent"));
        }
        DraftParent::Id(uuid) => match session.find(tx, uuid)? {
            Some(known) => tree_position.parent = Some(known.id),
            None => {
                problems.push(Problem::new(ProblemKind::MissingParent, ""));
                session.tree.wait(uuid, id);
                tree_position.missing = Some(uuid.clone());
            }
        },
        // A compaction continues after that entry if it is known; otherwise the compaction is a
        // root.
        DraftParent::After(uuid) => {
            tree_position.parent = session.find(tx, uuid)?.map(|known| known.id);
        }
    }
    Ok(())
}

/// Returns the turn of an entry that begins no turn itself.
fn preceding_turn(
    tx: &Transaction<'_>,
    session: &mut Session,
    state: &SourceState,
    entry: &DraftEntry,
    tree_position: &TreePosition,
    older: Option<KnownEntry>,
) -> Result<Option<EntryId>> {
    if let Some(turn) = older.and_then(|older| older.turn) {
        return Ok(Some(turn));
    }
    let turn = match tree_position.parent {
        Some(parent) => session.tree.turn_of(tx, parent)?,
        None => None,
    };
    Ok(match (turn, &entry.parent) {
        (Some(turn), _) => Some(turn),
        (None, DraftParent::Root) => None,
        (None, _) => state.last_turn,
    })
}

/// Returns whether the first version of the entry began a turn.
fn had_begun_turn(
    tx: &Transaction<'_>,
    older: Option<KnownEntry>,
    uuid: Option<&PackedId>,
) -> Result<bool> {
    let Some(KnownEntry { id, turn: Some(turn), .. }) = older else { return Ok(false) };
    if turn == id {
        return Ok(true);
    }
    Ok(tx
        .prepare_cached("SELECT 1 FROM entry_rows WHERE id = ?1 AND uuid = ?2")?
        .exists((turn, uuid))?)
}

/// Counts an entry in its session's row.
fn count_in_session(session: &mut Session, position: &RecordPosition<'_>, entry: &DraftEntry) {
    session.is_dirty = true;
    // A prompt list is not part of the conversation.
    if position.origin.part != Part::PromptHistory {
        session.columns.entries += 1;
        session.note_beginning(entry.uuid.as_ref(), entry.time);
    }
    let columns = &mut session.columns;
    columns.messages += i64::from(entry.is_message);
    columns.tool_calls += entry.calls.len() as i64;
    columns.compactions += i64::from(matches!(entry.detail, Detail::Compaction(_)));
    // A sub-agent's progress entry names the sub-agent's model, so it is skipped.
    if let (Some(Role::Assistant), Some(model)) = (entry.role, &entry.model)
        && !entry.marks.is_side
        && columns.model.as_deref() != Some(&*model.model)
    {
        columns.model = Some(model.model.to_string());
    }
}

/// Moves the leaf to the last node of the main line, or to the target of a leaf entry.
fn move_leaf(
    tx: &Transaction<'_>,
    session: &mut Session,
    entry: &DraftEntry,
    id: EntryId,
    older: Option<KnownEntry>,
    is_node: bool,
    problems: &mut Vec<Problem>,
) -> Result<()> {
    // A newer version takes the position of the older one.
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
