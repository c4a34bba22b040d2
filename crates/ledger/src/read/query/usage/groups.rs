//! Assigns rows of sums to groups: days, weeks, months, windows, sessions, models, projects or
//! agents.
//!
//! Never adds anything up; `tally` does.

use foldhash::{HashMap, HashSet};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use rusqlite::Connection;

use super::super::listed;
use super::blocks::Blocks;
use super::tally::Tally;
use super::{Model, UsageBy, UsageRequest, model};
use crate::Result;
use crate::base::ids::SessionRow;
use crate::project::family::works_for;
use crate::wire::{UsageLine, UsageReport, UsageSession};

/// The name of a group without a recorded name.
const UNKNOWN: &str = "unknown";

/// The largest number of ancestors that are followed. It ends a cycle of parents; real chains are
/// shorter.
const MAX_ANCESTORS: usize = 64;

/// The groups found so far, and the data to find more.
pub(super) struct Groups {
    by: UsageBy,
    zone: TimeZone,
    /// The sessions by row. Empty if the request does not concern sessions.
    sessions: HashMap<i64, Session>,
    /// The sessions that count. `None` if all count.
    wanted: Option<HashSet<i64>>,
    names: Vec<String>,
    by_name: HashMap<String, usize>,
    /// The group of each session or model that was seen.
    known: HashMap<i64, usize>,
    /// The session of each group, if groups are sessions.
    heads: Vec<i64>,
    /// The day, week or month of the previous row: its beginning, its end and its group.
    period: Option<(i64, i64, usize)>,
    /// The windows, if groups are windows.
    blocks: Option<Blocks>,
}

/// The fields of a session that groups need.
struct Session {
    /// The session that it works for.
    parent: Option<i64>,
    project: Option<String>,
    wire: UsageSession,
}

impl Groups {
    /// Reads the sessions that the request needs. `None` if no session passes its filter.
    pub(super) fn new(conn: &Connection, request: &UsageRequest<'_>) -> Result<Option<Groups>> {
        let has_sessions =
            matches!(request.by, UsageBy::Session | UsageBy::Project | UsageBy::Agent);
        let mut sessions = if has_sessions { sessions(conn)? } else { HashMap::default() };
        if request.by == UsageBy::Project {
            for listed in listed::all(conn)? {
                if let Some(session) = sessions.get_mut(&listed.row.0) {
                    let path = listed.project_path().map(str::to_owned);
                    session.project = path.or(listed.slug);
                }
            }
        }
        let wanted = match request.sessions {
            Some(filter) => {
                let wanted: HashSet<i64> =
                    listed::filtered(conn, filter)?.iter().map(|session| session.row.0).collect();
                if wanted.is_empty() {
                    return Ok(None);
                }
                Some(wanted)
            }
            None => None,
        };
        let blocks = match request.by {
            UsageBy::Block { hours } => Some(Blocks::read(conn, hours, wanted.as_ref())?),
            _ => None,
        };
        Ok(Some(Groups {
            by: request.by,
            zone: request.zone.clone(),
            sessions,
            wanted,
            names: Vec::new(),
            by_name: HashMap::default(),
            known: HashMap::default(),
            heads: Vec::new(),
            period: None,
            blocks,
        }))
    }

    /// Returns the number of the group, or `None` if the row is not requested.
    pub(super) fn of(
        &mut self,
        quarter: i64,
        session: i64,
        model_id: i64,
        models: &[Model],
    ) -> Option<usize> {
        if self.wanted.as_ref().is_some_and(|wanted| !wanted.contains(&session)) {
            return None;
        }
        let about = match self.by {
            UsageBy::Day | UsageBy::Week | UsageBy::Month | UsageBy::Block { .. } => {
                return Some(self.period(quarter));
            }
            UsageBy::Model => model_id,
            UsageBy::Session | UsageBy::Project | UsageBy::Agent => session,
        };
        if let Some(group) = self.known.get(&about) {
            return Some(*group);
        }
        let group = match self.by {
            UsageBy::Session => self.head(session),
            UsageBy::Model => self.named(model(models, model_id).map(|model| model.name.clone())),
            UsageBy::Project => self.named(self.project(session)),
            _ => self.named(self.sessions.get(&session).map(agent)),
        };
        self.known.insert(about, group);
        Some(group)
    }

    /// Returns the group of the day, week, month or window that contains a quarter of an hour. Rows
    /// come in order, so it is mostly the previous one.
    fn period(&mut self, quarter: i64) -> usize {
        if let Some((start, end, group)) = self.period
            && (start..end).contains(&quarter)
        {
            return group;
        }
        let found = match &self.blocks {
            _ if quarter == 0 => None,
            Some(blocks) => blocks.of(quarter, &self.zone),
            None => period(self.by, quarter, &self.zone),
        };
        let Some((name, start, end)) = found else { return self.named(None) };
        let group = self.named(Some(name));
        self.period = Some((start, end, group));
        group
    }

    /// Returns the group of the topmost session that a session works for.
    fn head(&mut self, session: i64) -> usize {
        let head = self.above(session).last().unwrap_or(session);
        if let Some(group) = self.known.get(&head) {
            return *group;
        }
        let group = self.names.len();
        self.names.push(
            self.sessions.get(&head).map_or(UNKNOWN.to_owned(), |s| s.wire.session_id.clone()),
        );
        self.heads.push(head);
        self.known.insert(head, group);
        group
    }

    /// Returns the folder of a session, or else of the nearest session that it works for.
    fn project(&self, session: i64) -> Option<String> {
        self.above(session).find_map(|id| self.sessions.get(&id)?.project.clone())
    }

    /// Returns a session and all its ancestors.
    fn above(&self, session: i64) -> impl Iterator<Item = i64> {
        std::iter::successors(Some(session), |id| self.sessions.get(id)?.parent).take(MAX_ANCESTORS)
    }

    fn named(&mut self, name: Option<String>) -> usize {
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| UNKNOWN.to_owned());
        if let Some(group) = self.by_name.get(&name) {
            return *group;
        }
        let group = self.names.len();
        self.names.push(name.clone());
        self.by_name.insert(name, group);
        group
    }

    /// Returns the sums with their names, in order.
    pub(super) fn report(
        mut self,
        conn: &Connection,
        (tallies, by_model): (&[Tally], &HashMap<(usize, i64), Tally>),
        total: &Tally,
        models: &[Model],
    ) -> Result<UsageReport> {
        let mut order: Vec<usize> = (0..tallies.len()).collect();
        let is_time = matches!(
            self.by,
            UsageBy::Day | UsageBy::Week | UsageBy::Month | UsageBy::Block { .. }
        );
        order.sort_by(|left, right| {
            let name = || self.names.get(*left).cmp(&self.names.get(*right));
            let weight = |group: &usize| tallies.get(*group).map(Tally::weight).unwrap_or_default();
            match is_time {
                // Dates sort as text, and `unknown` sorts after them.
                true => name(),
                false => {
                    let ((cost, tokens), (other_cost, other_tokens)) =
                        (weight(left), weight(right));
                    other_cost.total_cmp(&cost).then(other_tokens.cmp(&tokens)).then_with(name)
                }
            }
        });
        let mut lines = Vec::with_capacity(order.len());
        for group in order {
            let (Some(name), Some(tally)) = (self.names.get_mut(group), tallies.get(group)) else {
                continue;
            };
            let mut line = tally.line(self.by.name(), std::mem::take(name), models);
            line.block =
                self.blocks.as_ref().and_then(|blocks| blocks.named(&line.group, &self.zone));
            line.by_model = split(group, by_model, models);
            let head = self.heads.get(group).copied();
            let mut session =
                head.and_then(|head| self.sessions.get(&head)).map(|head| head.wire.clone());
            if let (Some(head), Some(session)) = (head, &mut session) {
                session.title = super::super::sessions::title(conn, SessionRow(head))?;
            }
            lines.push(UsageLine { session, ..line });
        }
        Ok(UsageReport { lines, total: total.line("total", "total".to_owned(), models) })
    }
}

/// Returns the lines of the models of a group, highest cost first.
fn split(
    group: usize,
    by_model: &HashMap<(usize, i64), Tally>,
    models: &[Model],
) -> Vec<UsageLine> {
    let of_group = by_model.iter().filter(|((other, _), _)| *other == group);
    let mut lines: Vec<((f64, u64), UsageLine)> = of_group
        .map(|((_, id), tally)| {
            let name = model(models, *id).map(|model| model.name.clone()).unwrap_or_default();
            let name = if name.is_empty() { UNKNOWN.to_owned() } else { name };
            (tally.weight(), tally.line("model", name, models))
        })
        .collect();
    lines.sort_by(|((cost, tokens), line), ((other_cost, other_tokens), other)| {
        other_cost.total_cmp(cost).then(other_tokens.cmp(tokens)).then(line.group.cmp(&other.group))
    });
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Returns the name of a day, week or month, its beginning and its end.
fn period(by: UsageBy, quarter: i64, zone: &TimeZone) -> Option<(String, i64, i64)> {
    let date = Timestamp::from_millisecond(quarter).ok()?.to_zoned(zone.clone()).date();
    let (first, next, shape) = match by {
        UsageBy::Month => {
            let first = date.first_of_month();
            (first, first.checked_add(1.month()).ok()?, "%Y-%m")
        }
        UsageBy::Week => {
            let days = i64::from(date.weekday().to_monday_zero_offset());
            let monday = date.checked_sub(days.days()).ok()?;
            (monday, monday.checked_add(7.days()).ok()?, "%Y-%m-%d")
        }
        _ => (date, date.tomorrow().ok()?, "%Y-%m-%d"),
    };
    let start = |date: Date| Some(date.to_zoned(zone.clone()).ok()?.timestamp().as_millisecond());
    Some((first.strftime(shape).to_string(), start(first)?, start(next)?))
}

/// Returns the format and its agent, for example `format/main`, or the format alone if it has no
/// agent.
fn agent(session: &Session) -> String {
    let UsageSession { format, agent, .. } = &session.wire;
    if agent.is_empty() { format.clone() } else { format!("{format}/{agent}") }
}

fn sessions(conn: &Connection) -> Result<HashMap<i64, Session>> {
    let mut statement = conn.prepare_cached(concat!(
        "SELECT child.id, child.session_id, child.format, child.agent, child.cwd, child.updated_at,
                (SELECT parent.id FROM sessions parent WHERE ",
        works_for!(),
        ") FROM sessions child",
    ))?;
    let mut sessions = HashMap::default();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let cwd: Option<String> = row.get(4)?;
        let session = Session {
            parent: row.get(6)?,
            project: None,
            wire: UsageSession {
                session_id: row.get(1)?,
                format: row.get(2)?,
                agent: row.get(3)?,
                cwd,
                title: None,
                updated_at: row.get(5)?,
            },
        };
        sessions.insert(row.get(0)?, session);
    }
    Ok(sessions)
}
