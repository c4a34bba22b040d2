//! `quipu sessions`: the index of all sessions.

use std::collections::BTreeMap;

use quipu_ledger::wire::Session;
use quipu_transcript::format;

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::filters;
use crate::output::{Column, Look, ShortIds, Text, count, elapsed, number};
use crate::reading::{self, Reading};

/// Rows that a person is shown if nothing else is said.
const SHOWN: usize = 50;

/// Of a longer project's name the middle is left out.
const WIDEST_PROJECT: usize = 20;

/// List sessions, the newest first
///
/// Sub-agents, warm-up stubs and empty sessions are left out unless --all is
/// given. With --project, sessions are grouped by project. --since and --until
/// go by when a session was last active: what the agent's own index says where
/// there is one, else its last entry. A session that went on after --until is
/// left out, whenever it began.
///
/// Examples:
///   quipu sessions --since 3d
///   quipu sessions --project eastore
///   quipu sessions --json | jq -r '[.id, .title] | @tsv'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(flatten)]
    filters: filters::Args,

    /// At most this many; 0 for all [default: 50 for people, all for --json]
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,

    #[command(flatten)]
    reading: reading::Args,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let filter = args.filters.filter(context)?;
    let reading = reading::open(context, args.reading)?;
    let limit = match args.limit {
        Some(0) => None,
        None if context.is_json => None,
        limit => Some(limit.unwrap_or(SHOWN)),
    };
    let found = quipu_ledger::sessions(&reading.ledger, &filter, limit)?;
    if found.sessions.is_empty() {
        return nothing(args, context, &reading);
    }
    if context.is_json {
        let costs = quipu_ledger::costs(&reading.ledger, &context.prices())?;
        for (mut session, row) in found.sessions.into_iter().zip(found.rows) {
            if let Some(row) = row {
                costs.bill(row, &mut session);
            }
            reading.json(context, &session)?;
        }
        return Ok(());
    }
    let ids = reading.short_ids()?;
    context.output.page()?;
    if args.filters.project.is_some() {
        by_project(context, &ids, &found.sessions)?;
    } else {
        show(context, &ids, 0, found.sessions.iter(), true)?;
    }
    let more = found.total - found.sessions.len();
    if more > 0 {
        context.output.gap()?;
        let more = format!("and {}; `-n 0` lists all", count(more as u64, "older session"));
        context.output.line(Text::of(Look::Dim, more))?;
    }
    Ok(())
}

/// What is shown of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Id,
    Last,
    Agent,
    Project,
    Turns,
    Title,
}

impl Shown {
    /// What there is room for. Without a limit, all of it.
    fn within(width: Option<usize>, with_project: bool) -> Vec<Shown> {
        let width = width.unwrap_or(usize::MAX);
        [
            (Shown::Id, 0),
            (Shown::Last, 0),
            (Shown::Agent, 90),
            (Shown::Project, 70),
            (Shown::Turns, 60),
            (Shown::Title, 0),
        ]
        .into_iter()
        .filter(|(shown, least)| width >= *least && (with_project || *shown != Shown::Project))
        .map(|(shown, _)| shown)
        .collect()
    }

    fn column(self) -> Column<'static> {
        match self {
            Shown::Id => Column::words("id"),
            Shown::Last => Column::words("last"),
            Shown::Agent => Column::words("agent"),
            Shown::Project => Column::words("project"),
            Shown::Turns => Column::numbers("turns"),
            Shown::Title => Column::title("title"),
        }
    }

    fn cell(self, ids: &ShortIds, session: &Session) -> Text {
        match self {
            Shown::Id => Text::of(Look::Good, ids.of(&session.id)),
            Shown::Last => Text::plain(session.updated_at.map(elapsed).unwrap_or_default()),
            Shown::Agent => Text::plain(agent(session)),
            Shown::Project => Text::plain(&session.project).cut(WIDEST_PROJECT),
            Shown::Turns => Text::plain(number(session.turns)),
            Shown::Title => title(session),
        }
    }
}

fn show<'a>(
    context: &mut Context,
    ids: &ShortIds,
    indent: usize,
    sessions: impl Iterator<Item = &'a Session>,
    with_project: bool,
) -> Result<()> {
    let shown = Shown::within(context.output.width(), with_project);
    let columns: Vec<Column> = shown.iter().map(|shown| shown.column()).collect();
    let row = |session| shown.iter().map(|shown| shown.cell(ids, session)).collect();
    Ok(context.output.table(indent, &columns, sessions.map(row).collect())?)
}

fn by_project(context: &mut Context, ids: &ShortIds, sessions: &[Session]) -> Result<()> {
    let mut projects: BTreeMap<&str, Vec<&Session>> = BTreeMap::new();
    for session in sessions {
        let place = session.cwd.as_deref().or(session.slug.as_deref()).unwrap_or("");
        projects.entry(place).or_default().push(session);
    }
    let mut projects: Vec<_> = projects.into_iter().collect();
    projects.sort_by_key(|(_, sessions)| {
        std::cmp::Reverse(sessions.first().and_then(|session| session.updated_at))
    });
    let mut is_first = true;
    for (place, sessions) in projects {
        if !std::mem::take(&mut is_first) {
            context.output.gap()?;
        }
        let name = sessions.first().map_or("", |session| session.project.as_str());
        let title = Text::of(Look::Bold, if name.is_empty() { "(no project)" } else { name })
            .with(Look::Dim, format!("  {}", context.show(place)));
        context.output.line(title)?;
        show(context, ids, 2, sessions.into_iter(), false)?;
    }
    Ok(())
}

/// Whose session it is: the agent's name where it has one, or else the program.
pub(super) fn agent(session: &Session) -> String {
    let title = format::by_name(&session.format).map_or(session.format.as_str(), |f| f.title());
    match session.agent.as_str() {
        "" | "main" => title.to_owned(),
        agent => format!("{title}/{agent}"),
    }
}

/// What it is about, on one line, with what is special about it.
pub(super) fn title(session: &Session) -> Text {
    let mut text = Text::default();
    if session.state != "live" {
        text = text.with(Look::Warning, format!("[{}] ", session.state));
    }
    if session.part == "subagent" || session.parent.is_some() {
        text = text.with(Look::Dim, "[sub-agent] ");
    } else if session.fork_of.is_some() {
        text = text.with(Look::Dim, "[fork] ");
    }
    text.and(session.title.as_deref().unwrap_or_default())
}

/// Nothing was found: of what was asked for, or at all.
fn nothing(args: &Args, context: &mut Context, reading: &Reading) -> Result<()> {
    if args.filters.is_empty() {
        return if context.is_json { Ok(()) } else { super::sync::nothing_found(context, None) };
    }
    let hint = match &args.filters.project {
        Some(_) => "`quipu projects` lists all projects; --all adds sub-agents and empty sessions",
        None => "`quipu sessions` lists the newest; --all adds sub-agents and empty sessions",
    };
    let what = format!("no session is like that{}", reading.so_far());
    let mut error = CommandError::new(what).hint(hint);
    error.kind = Kind::NoMatch;
    Err(error)
}
