//! The choice of entries to be shown: by role, turn, branch or id.
//!
//! `Choice` is the request, and `Chosen` checks each entry against it. Nothing here reads a record.

use foldhash::HashSet;
use quipu_transcript::entry::{Entry, Role};
use quipu_transcript::prices::Prices;
use quipu_transcript::story::{Piece, StoryDetail, StoryItem, Tools};
use rusqlite::{Connection, OptionalExtension};

use super::learn;
use super::plan::Plan;
use super::rows::{self, Row};
use crate::base::ids::{EntryId, PackedId, Seq, SessionRow, is_further_of_line};
use crate::read::query::prompts::newest_version;
use crate::{Error, Result};

/// A request for entries of a story.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// The parts of entries that are shown in full.
    pub detail: StoryDetail,
    /// The only role that is shown.
    pub role: Option<Role>,
    /// The only turn that is shown, counted from 1.
    pub turn: Option<u64>,
    /// The number of last entries with text that are shown.
    pub last: Option<u64>,
    /// The end of the only branch that is shown: the id of an entry, a prefix of it, or `leaf`.
    pub branch: Option<String>,
    /// The only entry that is shown, even if it is hidden by default.
    pub entry: Option<String>,
    /// An entry that is shown with those around it, even if it is hidden by default.
    pub at: Option<String>,
    /// The number of entries with text before `at`, and after it.
    pub around: u64,
    /// Only entries after this one are shown, by its number in the ledger.
    pub after: Option<i64>,
    /// Only entries before this one are shown, by its number in the ledger.
    pub before: Option<i64>,
    /// The prices of tokens. With them, entries also have what is counted for them: tokens, cost and
    /// the model in effect.
    pub prices: Option<Prices>,
}

/// A choice with its names looked up.
pub(super) struct Chosen<'c> {
    conn: &'c Connection,
    choice: &'c Choice,
    turn: Option<EntryId>,
    /// Welded lines (lines with several JSON values) of which a further entry belongs to that turn.
    welded: HashSet<Seq>,
    entry: Option<EntryId>,
    /// The entry that is shown with those around it.
    at: Option<EntryId>,
    start: u64,
    /// The position at which the shown entries end.
    end: Option<u64>,
    branch: Option<Branch>,
}

/// The path from the root to an entry.
struct Branch {
    path: HashSet<EntryId>,
    /// The response of the last answer on the path.
    response: Option<String>,
}

impl<'c> Chosen<'c> {
    pub(super) fn new(
        conn: &'c Connection,
        session: SessionRow,
        plan: &Plan,
        choice: &'c Choice,
    ) -> Result<Chosen<'c>> {
        let mut start = 0;
        let turn = match choice.turn {
            None => None,
            Some(number) => {
                let no_match = || Error::NoMatch { what: "turn", name: number.to_string() };
                let turns = learn::turns(conn, session, plan)?;
                let index = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
                let turn = *index.and_then(|index| turns.get(index)).ok_or_else(no_match)?;
                let prompt = newest_version(conn, turn)?;
                start = plan.position(turn).min(plan.position(prompt));
                Some(turn)
            }
        };
        let entry = match &choice.entry {
            None => None,
            Some(name) => {
                let entry = find_entry(conn, session, name)?;
                start = plan.position(entry);
                Some(entry)
            }
        };
        let at = match &choice.at {
            None => None,
            Some(name) => {
                let entry = find_entry(conn, session, name)?;
                start = plan.position(entry);
                Some(entry)
            }
        };
        if let Some(after) = choice.after {
            start = start.max(plan.position(EntryId(after)).saturating_add(1));
        }
        let end = choice.before.map(|before| plan.position(EntryId(before)));
        let branch = match &choice.branch {
            None => None,
            Some(name) => Some(Branch {
                path: path_to(conn, find_entry(conn, session, name)?)?,
                response: None,
            }),
        };
        let welded = match turn {
            Some(turn) => welded(conn, session, turn)?,
            None => HashSet::default(),
        };
        Ok(Chosen { conn, choice, turn, welded, entry, at, start, end, branch })
    }

    /// Returns the position of the first entry that can be wanted.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Returns the position at which the wanted entries end; `None` if they end with the last one.
    pub(super) fn end(&self) -> Option<u64> {
        self.end
    }

    /// Returns whether no entry from this one on is wanted.
    pub(super) fn is_over(&self, row: &Row) -> bool {
        (self.entry.is_some() && row.position > self.start)
            || self.end.is_some_and(|end| row.position >= end)
    }

    /// Returns the prices, if entries have what is counted for them.
    pub(super) fn prices(&self) -> Option<&'c Prices> {
        self.choice.prices.as_ref()
    }

    /// Returns whether only this role is chosen.
    pub(super) fn is_of(&self, role: Role) -> bool {
        self.choice.role == Some(role)
    }

    /// Returns whether the whole conversation is read, so that rewinds can be found.
    pub(super) fn is_whole(&self) -> bool {
        self.turn.is_none()
            && self.entry.is_none()
            && self.at.is_none()
            && self.branch.is_none()
            && self.choice.after.is_none()
            && self.choice.before.is_none()
    }

    /// Returns whether the results of tools are shown in full.
    pub(super) fn shows_results(&self, item: &StoryItem<'_>) -> bool {
        self.choice.detail.tools == Tools::Full || self.is_at(item)
    }

    /// Returns whether the item is the entry that is shown with those around it.
    pub(super) fn is_at(&self, item: &StoryItem<'_>) -> bool {
        self.at.is_some_and(|at| at.0 == item.entry)
    }

    /// Returns whether the fields of records are shown that nothing else shows.
    pub(super) fn shows_fields(&self) -> bool {
        self.choice.detail.folded
    }

    /// Returns whether records without an entry are shown.
    pub(super) fn shows_unreadable(&self) -> bool {
        self.is_single() || (self.shows_fields() && self.is_whole())
    }

    /// Returns whether only one entry is chosen.
    pub(super) fn is_single(&self) -> bool {
        self.entry.is_some()
    }

    /// Returns whether an entry may be wanted. Its record is not read yet.
    pub(super) fn wants_row(&self, row: &Row) -> bool {
        if let Some(entry) = self.entry {
            // The record may hold several entries.
            return row.id.seq() == entry.seq() && (row.id == entry || entry.seq().is_some());
        }
        if self
            .at
            .is_some_and(|at| row.id.seq() == at.seq() && (row.id == at || at.seq().is_some()))
        {
            return true;
        }
        let is_welded = || row.id.seq().is_some_and(|seq| self.welded.contains(&seq));
        row.can_be_shown(self.choice.detail.folded)
            && (self.turn.is_none()
                || row.turn.or(Some(row.id)) == self.turn
                || row.is_repeated
                || is_welded())
    }

    /// Returns whether an entry belongs to the branch. Entries next to the path belong to it if
    /// they are results of parallel calls, or other calls of the same answer.
    pub(super) fn follows(&mut self, row: &Row, entry: &Entry<'_>) -> Result<bool> {
        let Some(branch) = &mut self.branch else { return Ok(true) };
        let response = entry.response.as_ref().map(|response| &*response.id);
        if branch.path.contains(&row.id) {
            if entry.role == Some(Role::Assistant) {
                branch.response = response.map(str::to_owned);
            }
            return Ok(true);
        }
        let may_follow = match entry.role {
            Some(Role::Tool) => true,
            Some(Role::Assistant) => response.is_some() && response == branch.response.as_deref(),
            _ => false,
        };
        let follows = may_follow && descends_from(self.conn, row.parent, &branch.path)?;
        if follows {
            branch.path.insert(row.id);
        }
        Ok(follows)
    }

    /// Returns whether an item is wanted.
    pub(super) fn wants(&self, item: &StoryItem<'_>) -> bool {
        if let Some(entry) = self.entry {
            return item.entry == entry.0;
        }
        if self.is_at(item) {
            return true;
        }
        if let Some(turn) = self.choice.turn
            && item.turn != Some(turn)
        {
            return false;
        }
        item.is_shown(self.choice.detail)
            && match self.choice.role {
                None => true,
                // Prose next to a tool's result was written by the human.
                Some(Role::User) if item.role == Some(Role::Tool) => {
                    item.pieces.iter().any(|piece| matches!(piece, Piece::Words(_)))
                }
                role => item.role == role,
            }
    }
}

/// Returns whether an entry descends from a path, directly or through bookkeeping entries.
fn descends_from(
    conn: &Connection,
    parent: Option<EntryId>,
    path: &HashSet<EntryId>,
) -> Result<bool> {
    /// The largest number of bookkeeping entries that are followed. Progress of a long call fills
    /// many lines.
    const MAX_BOOKKEEPING_ENTRIES: usize = 4096;
    let mut above = conn.prepare_cached(
        "SELECT e.parent FROM entry_rows e JOIN kinds k ON k.id = e.kind
          WHERE e.id = ?1 AND (k.role = '' OR k.form = 'bookkeeping')",
    )?;
    let mut at = parent;
    for _ in 0..MAX_BOOKKEEPING_ENTRIES {
        let Some(id) = at else { return Ok(false) };
        if path.contains(&id) {
            return Ok(true);
        }
        at = above.query_row([id], |row| row.get(0)).optional()?.flatten();
    }
    Ok(false)
}

/// Returns an entry and all its ancestors, each in its newest version.
fn path_to(conn: &Connection, leaf: EntryId) -> Result<HashSet<EntryId>> {
    let mut above =
        conn.prepare_cached("SELECT parent, superseded_by FROM entry_rows WHERE id = ?1")?;
    let mut path = HashSet::default();
    let mut at = Some(leaf);
    while let Some(id) = at
        && path.insert(id)
    {
        let (parent, newer) = above
            .query_row([id], |row| Ok((row.get(0)?, row.get::<_, Option<EntryId>>(1)?)))
            .optional()?
            .unwrap_or_default();
        at = newer.or(parent);
    }
    Ok(path)
}

/// Returns the entry of a session with this name: the agent's id or a prefix of it, the ledger's
/// name for an entry without an id, or `leaf`.
pub(super) fn find_entry(conn: &Connection, session: SessionRow, name: &str) -> Result<EntryId> {
    let no_match = || Error::NoMatch { what: "entry", name: name.to_owned() };
    if name == "leaf" {
        let leaf: Option<EntryId> =
            conn.query_row("SELECT leaf FROM sessions WHERE id = ?1", [session], |row| row.get(0))?;
        return leaf.ok_or_else(no_match);
    }
    let numbered = |entry: EntryId| -> Result<EntryId> {
        let found = conn
            .query_row(
                "SELECT id FROM entry_rows WHERE id = ?1 AND session = ?2",
                (entry, session),
                |row| row.get(0),
            )
            .optional()?;
        match (found, entry.seq()) {
            (Some(found), _) => Ok(found),
            (None, Some(seq)) if !rows::unreadable(conn, session, seq, seq)?.is_empty() => {
                Ok(entry)
            }
            (None, _) => Err(no_match()),
        }
    };
    if let Some(entry) = EntryId::from_name(name) {
        return numbered(entry);
    }
    let exact = conn
        .query_row(
            "SELECT max(id) FROM entry_rows
              WHERE session = ?1 AND uuid = ?2
                AND superseded_by IS NULL",
            (session, PackedId::pack(name)),
            |row| row.get::<_, Option<EntryId>>(0),
        )
        .optional()?
        .flatten();
    if let Some(entry) = exact {
        return Ok(entry);
    }
    if name.is_empty() {
        return Err(no_match());
    }
    let mut statement = conn.prepare(
        "SELECT id, uuid FROM entry_rows
          WHERE session = ?1 AND uuid IS NOT NULL AND superseded_by IS NULL",
    )?;
    let mut rows = statement.query([session])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id = row.get::<_, PackedId>(1)?.unpack();
        if id.starts_with(name) {
            found.push((row.get::<_, EntryId>(0)?, id));
        }
    }
    match found.as_slice() {
        // A shell takes `#` for the beginning of a comment, so the number alone is enough.
        [] => EntryId::from_name(&format!("#{name}")).map_or_else(|| Err(no_match()), numbered),
        [(entry, _)] => Ok(*entry),
        several => {
            let candidates = several.iter().map(|(_, id)| id.clone()).collect();
            Err(Error::ambiguous("entries", name, candidates))
        }
    }
}

/// Returns the record of an entry.
pub(super) fn seq_of(entry: i64) -> Option<Seq> {
    EntryId(entry).seq()
}

/// Returns the records of which an entry other than the first belongs to a turn.
fn welded(conn: &Connection, session: SessionRow, turn: EntryId) -> Result<HashSet<Seq>> {
    let mut statement = conn.prepare_cached(concat!(
        "SELECT id FROM entry_rows WHERE session = ?1 AND turn = ?2 AND ",
        is_further_of_line!("id")
    ))?;
    let entries = statement.query_map((session, turn), |row| row.get::<_, EntryId>(0))?;
    entries.filter_map(|entry| entry.map(EntryId::seq).transpose()).map(|seq| Ok(seq?)).collect()
}
