//! The story of a session: its entries in the order of the agent's file. Never formats text.
//!
//! Records are decoded one at a time, so memory does not grow with the session. `plan` orders the
//! records, `rows` pages through their rows, and `choice` selects entries. `learn` and `outputs`
//! add fields from other rows and files,
//! and `counted` adds tokens and cost. `queued` unfolds queued texts, and `listed` inserts prompts
//! that only the agent's list of prompts has. `rewind` and `ancestors`
//! find the places where the conversation went back.

mod ancestors;
mod calls;
mod choice;
mod counted;
mod exit_codes;
mod head;
mod learn;
mod listed;
mod outputs;
mod plan;
mod queued;
mod raw;
mod rewind;
mod rows;

use std::ops::ControlFlow;

use foldhash::{HashMap, HashMapExt};
use quipu_transcript::entry::{Entry, Role};
use quipu_transcript::record::{self, OVERSIZE_HEAD};
use quipu_transcript::story::{ItemKind, StoryItem, add_fields, story_item, unreadable_item};
use rusqlite::Connection;

pub use choice::Choice;
pub(in crate::read::query) use learn::name_of;
pub(crate) use learn::{name, shown_turns};
pub(crate) use listed::Typed;
pub(crate) use queued::Queue;

use self::choice::Chosen;
use self::exit_codes::ExitCodes;
use self::learn::ItemFields;
use self::outputs::Outputs;
use self::plan::Plan;
use self::rewind::Rewinds;
use self::rows::{Row, Rows};
use crate::Result;
use crate::base::ids::{EntryId, GenerationId, SessionRow};
use crate::file::ledger::Ledger;
use crate::file::snapshot::Snapshot;
use crate::project::rebuild::GenerationInfo;
use crate::read::query::complete::complete;
use crate::read::query::find;
use crate::truth::chunks::RecordReader;
use crate::truth::tails;
use crate::wire::StoryHead;

/// A session whose entries can be shown.
///
/// ```
/// use std::ops::ControlFlow;
///
/// use quipu_ledger::query::{Choice, Story};
/// use quipu_ledger::{Entry, Store};
///
/// # let folder = tempfile::tempdir()?;
/// # let store = Store::open(folder.path().join("ledger.db"))?;
/// store.session_or_new("agent:main:main")?.append(Entry::user("hello"))?;
/// let ledger = store.reader()?;
/// let mut words = Vec::new();
/// Story::find(&ledger, "agent:main:main")?.each_item(&Choice::default(), &mut |item| {
///     words.push(item.words().into_owned());
///     ControlFlow::Continue(())
/// })?;
/// assert!(words.contains(&"hello".to_owned()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Story<'l> {
    conn: &'l Connection,
    row: SessionRow,
    head: StoryHead,
    plan: Plan,
}

impl std::fmt::Debug for Story<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Story").field("row", &self.row).field("head", &self.head).finish()
    }
}

impl<'l> Story<'l> {
    /// Returns the story of the session with this name.
    pub fn find(ledger: &'l Ledger, name: &str) -> Result<Story<'l>> {
        complete(ledger, &mut |conn| Story::at(ledger, find::session(conn, name)?))
    }

    /// Returns the story of a session.
    pub fn open(ledger: &'l Ledger, row: SessionRow) -> Result<Story<'l>> {
        complete(ledger, &mut |_| Story::at(ledger, row))
    }

    fn at(ledger: &'l Ledger, row: SessionRow) -> Result<Story<'l>> {
        let conn = ledger.conn();
        Ok(Story { conn, row, head: head::read(conn, row)?, plan: Plan::of(conn, row)? })
    }

    /// Returns the summary of the session.
    pub fn head(&self) -> &StoryHead {
        &self.head
    }

    /// Returns the number in the ledger of the entry with this name.
    pub fn entry(&self, name: &str) -> Result<i64> {
        Ok(choice::find_entry(self.conn, self.row, name)?.0)
    }

    /// Returns the number in the ledger of the session's last entry.
    pub fn last_entry(&self) -> Result<Option<i64>> {
        let mut rows = Rows::backward(self.conn, self.row, &self.plan, false);
        Ok(rows.next()?.map(|row| row.id.0))
    }

    /// Returns the row of the session.
    pub fn row(&self) -> SessionRow {
        self.row
    }

    /// Fails if a chosen turn, entry or branch does not exist. Nothing is shown before that.
    pub fn check(&self, choice: &Choice) -> Result<()> {
        Chosen::new(self.conn, self.row, &self.plan, choice).map(|_| ())
    }

    /// Passes the chosen entries to `each`, in order, until it stops.
    pub fn each_item(
        &self,
        choice: &Choice,
        each: &mut dyn FnMut(&StoryItem<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        match listed::plan(self.conn, self.row, &self.plan, choice)? {
            Some(plan) => {
                let head = self.head.clone();
                Story { conn: self.conn, row: self.row, head, plan }.each_planned(choice, each)
            }
            None => self.each_planned(choice, each),
        }
    }

    /// Passes the chosen entries that the plan has to `each`.
    fn each_planned(
        &self,
        choice: &Choice,
        each: &mut dyn FnMut(&StoryItem<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut chosen = Chosen::new(self.conn, self.row, &self.plan, choice)?;
        let mut items = ItemReader::new(self)?;
        let mut start = chosen.start();
        if let Some(count) = choice.last {
            start = items.start_of_last(&mut chosen, count)?;
            // The backward pass changed the state of `chosen`, and the same entries follow again.
            chosen = Chosen::new(self.conn, self.row, &self.plan, choice)?;
        }
        if choice.at.is_some() {
            start = items.start_before(&mut chosen, choice.around)?;
        }
        // The number of entries that may follow; unlimited until `at` was shown.
        let mut left = None;
        let mut each = |item: &StoryItem<'_>, is_at: bool| {
            let flow = each(item);
            left = match left {
                _ if is_at => Some(choice.around),
                // A result belongs to its call, and is not counted.
                Some(left) => Some(left - u64::from(item.has_text())),
                None => None,
            };
            if left == Some(0) { ControlFlow::Break(()) } else { flow }
        };
        let mut rows =
            Rows::forward(self.conn, self.row, &self.plan, start, chosen.shows_unreadable());
        let mut flow = ControlFlow::Continue(());
        while flow.is_continue()
            && let Some(row) = rows.next()?
        {
            if chosen.is_over(&row) {
                return Ok(());
            }
            if chosen.wants_row(&row) {
                flow = items.record(&row, &mut chosen, &mut each)?;
            }
        }
        if flow.is_continue() && chosen.end().is_none() {
            for row in rows::provisional(self.conn, self.row)? {
                if chosen.wants_row(&row) && items.record(&row, &mut chosen, &mut each)?.is_break()
                {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Reads records and turns them into items.
struct ItemReader<'s> {
    story: &'s Story<'s>,
    reader: RecordReader<'s>,
    infos: HashMap<GenerationId, Option<GenerationInfo>>,
    fields: ItemFields<'s>,
    /// Finds the places where the conversation went back. `None` in the backward pass, which sees
    /// the entries in reverse order.
    rewinds: Option<Rewinds<'s>>,
    outputs: Outputs<'s>,
    exit_codes: ExitCodes<'s>,
    /// True between a compaction and the next turn. What is attached there, the agent chose: files
    /// that it had read before.
    is_after_compaction: bool,
}

impl<'s> ItemReader<'s> {
    fn new(story: &'s Story<'s>) -> Result<ItemReader<'s>> {
        Ok(ItemReader {
            story,
            reader: RecordReader::new(story.conn),
            infos: HashMap::new(),
            fields: ItemFields::new(story.conn, story.row, &story.plan)?,
            rewinds: Some(Rewinds::new(story.conn)),
            outputs: Outputs::new(story.conn),
            exit_codes: ExitCodes::new(story.conn),
            is_after_compaction: false,
        })
    }

    /// Passes the entries of one record to `each`.
    fn record(
        &mut self,
        row: &Row,
        chosen: &mut Chosen,
        each: &mut dyn FnMut(&StoryItem<'_>, bool) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let story = self.story;
        let mut snapshot = Snapshot::of(story.conn)?;
        let bytes = self.bytes(row)?;
        if row.is_unreadable {
            let mut item = unreadable_item(&bytes);
            self.fields.add(row, &mut item)?;
            drop(snapshot.take());
            return Ok(if chosen.wants(&item) {
                each(&item, chosen.is_at(&item))
            } else {
                ControlFlow::Continue(())
            });
        }
        let info = match self.infos.entry(row.generation) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(vacant) => {
                vacant.insert(GenerationInfo::of(story.conn, row.generation)?)
            }
        };
        let Some(info) = info else { return Ok(ControlFlow::Continue(())) };
        let mut ordinal = 0;
        let mut flow = Ok(ControlFlow::Continue(()));
        let (fields, rewinds, outputs) = (&mut self.fields, &mut self.rewinds, &self.outputs);
        let (exit_codes, is_after_compaction) =
            (&mut self.exit_codes, &mut self.is_after_compaction);
        let mut one = |entry: &Entry<'_>| {
            let id = match row.id.seq() {
                Some(seq) => EntryId::of(seq, ordinal),
                None => row.id,
            };
            ordinal += 1;
            if !matches!(flow, Ok(ControlFlow::Continue(()))) {
                return;
            }
            flow = (|| {
                let welded;
                let row = if ordinal == 1 {
                    if row.is_repeated {
                        return Ok(ControlFlow::Continue(()));
                    }
                    row
                } else {
                    // A further entry of the same record, if it belongs to the session.
                    match rows::one(story.conn, story.row, id)? {
                        Some(found) if chosen.wants_row(&found) => {
                            welded = found;
                            &welded
                        }
                        _ => return Ok(ControlFlow::Continue(())),
                    }
                };
                let mut item = story_item(info.format(), entry);
                fields.add(row, &mut item)?;
                outputs.add_pasted_of_list(story.row, &mut item)?;
                outputs.add_pasted(&mut item)?;
                if matches!(item.kind, ItemKind::Compaction(_)) {
                    *is_after_compaction = true;
                } else if item.is_prompt && item.turn.is_some() {
                    *is_after_compaction = false;
                } else if *is_after_compaction {
                    item.drop_gists();
                }
                if chosen.follows(row, entry)? && chosen.wants(&item) {
                    if chosen.is_whole()
                        && let Some(rewinds) = rewinds
                    {
                        let response = entry.response.as_ref().map(|response| &*response.id);
                        item.rewind = rewinds.record_shown(row, &item, response, fields)?;
                    }
                    exit_codes.fill(&mut item)?;
                    if let Some(prices) = chosen.prices() {
                        counted::add(story.conn, prices, &mut item)?;
                    }
                    if chosen.shows_results(&item) {
                        outputs.fill(&mut item, &mut fields.calls)?;
                    }
                    if chosen.shows_fields() && !row.is_oversize() {
                        let line = bytes.trim_ascii();
                        let part = entry.part.clone().and_then(|part| line.get(part));
                        let record = part.unwrap_or(line);
                        add_fields(info.format(), &mut item, record, chosen.is_single());
                    }
                    // `each` may take long, so the snapshot is released first.
                    drop(snapshot.take());
                    return Ok(each(&item, chosen.is_at(&item)));
                }
                if chosen.is_whole()
                    && let Some(rewinds) = rewinds
                {
                    rewinds.record_hidden(
                        row,
                        &item,
                        entry.response.as_ref().map(|response| &*response.id),
                    );
                }
                Ok(ControlFlow::Continue(()))
            })();
        };
        if row.is_oversize() {
            record::read_oversize(info.format(), info.origin(), &bytes, row.length, &mut one);
        } else {
            record::read(info.format(), info.origin(), &bytes, &mut one);
        }
        flow
    }

    /// Returns the bytes of the record, or the beginning of a very long one.
    fn bytes(&mut self, row: &Row) -> Result<Vec<u8>> {
        let Some(seq) = row.id.seq() else {
            return tails::read(self.story.conn, row.generation);
        };
        if row.is_oversize() { self.reader.head(seq, OVERSIZE_HEAD) } else { self.reader.read(seq) }
    }

    /// Returns the position of the first of the `count` shown entries before the chosen one. Reads
    /// backwards.
    fn start_before(&mut self, chosen: &mut Chosen, count: u64) -> Result<u64> {
        let story = self.story;
        let rewinds = self.rewinds.take();
        let mut start = chosen.start().min(story.plan.end());
        let unreadable = chosen.shows_unreadable();
        let mut rows = Rows::backward_from(story.conn, story.row, &story.plan, start, unreadable);
        let mut left = count;
        while left > 0
            && let Some(row) = rows.next()?
        {
            if chosen.wants_row(&row) {
                let mut shown = 0;
                let _ = self.record(&row, chosen, &mut |item, _| {
                    shown += u64::from(item.has_text());
                    ControlFlow::Continue(())
                })?;
                left = left.saturating_sub(shown);
            }
            start = row.position;
        }
        self.rewinds = rewinds;
        self.is_after_compaction = false;
        Ok(start)
    }

    /// Returns the position of the first of the last `count` entries with text. Reads backwards.
    fn start_of_last(&mut self, chosen: &mut Chosen, count: u64) -> Result<u64> {
        let story = self.story;
        let mut left = count;
        self.rewinds = None;
        let mut start = chosen.end().unwrap_or(u64::MAX).min(story.plan.end());
        let provisional = match chosen.end() {
            Some(_) => Vec::new(),
            None => rows::provisional(story.conn, story.row)?,
        };
        let unreadable = chosen.shows_unreadable();
        let mut rows = Rows::backward_from(story.conn, story.row, &story.plan, start, unreadable);
        let mut is_first = true;
        // If only the tool role is chosen, results count as text.
        let are_results = chosen.is_of(Role::Tool);
        while left > 0 {
            let row = if is_first && let Some(row) = provisional.first() {
                is_first = false;
                row.clone()
            } else {
                is_first = false;
                match rows.next()? {
                    Some(row) => row,
                    None => break,
                }
            };
            if chosen.wants_row(&row) {
                let mut n_with_text = 0;
                let _ = self.record(&row, chosen, &mut |item, _| {
                    n_with_text += u64::from(item.has_text() || are_results);
                    ControlFlow::Continue(())
                })?;
                left = left.saturating_sub(n_with_text);
            }
            if row.id.seq().is_some() {
                start = row.position;
            }
        }
        self.rewinds = Some(Rewinds::new(story.conn));
        self.is_after_compaction = false;
        Ok(if left > 0 { chosen.start() } else { start })
    }
}
