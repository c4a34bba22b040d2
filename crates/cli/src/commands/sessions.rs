//! `quipu sessions`: the list of all sessions.

use std::collections::BTreeMap;

use quipu_ledger::ids::SessionRow;
use quipu_ledger::query::Filter;
use quipu_ledger::wire::{Session, SessionState};
use quipu_transcript::format;

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::filters;
use crate::output::{Column, Style, Text, count, elapsed, number};
use crate::reading::{self, Reading};

/// Number of sessions that are shown without `-n`.
const DEFAULT_SESSIONS: usize = 50;

/// Width after which a project's name is cut in the middle.
const WIDEST_PROJECT: usize = 20;

/// List sessions, the newest first
///
/// Sub-agents, warm-up sessions and empty sessions are hidden by default; --all
/// shows them. --human leaves out sessions in which no person wrote a prompt.
/// With --project, sessions are grouped by project. --since and --until compare
/// the time of a session's last activity: that of its last entry, or that in the
/// agent's own index if it is later. So a session that continued after --until is
/// not listed.
///
/// Examples:
///   quipu sessions --since 3d
///   quipu sessions --project tidepool
///   quipu sessions --json | jq -r '[.session_id, .title] | @tsv'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(flatten)]
    filters: filters::Args,

    /// Leave out sessions that only programs started: heartbeats, scheduled jobs
    #[arg(long)]
    human: bool,

    /// Show at most N sessions; 0 for all [default: 50; all with --json]
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,

    #[command(flatten)]
    reading: reading::Args,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let filter = Filter { human: args.human, ..args.filters.filter(context)? };
    let reading = reading::open(context, args.reading)?;
    let limit = match args.limit {
        Some(0) => None,
        None if context.is_json => None,
        limit => Some(limit.unwrap_or(DEFAULT_SESSIONS)),
    };
    let found = quipu_ledger::query::sessions(&reading.ledger, &filter, limit)?;
    if found.sessions.is_empty() {
        reading.refuse_if_behind()?;
        return nothing(args, context, &reading);
    }
    if context.is_json {
        let costs = quipu_ledger::query::costs(&reading.ledger, &context.prices())?;
        for (mut session, row) in found.sessions.into_iter().zip(found.rows) {
            if let Some(row) = row {
                costs.add_to(row, &mut session);
            }
            reading.json(context, &session)?;
        }
        return Ok(());
    }
    let ids = reading.short_ids()?;
    context.output.page()?;
    let linked = |(session, row): (&Session, &Option<SessionRow>)| {
        context.linked_id(&reading.ledger, *row, &ids.of(&session.session_id))
    };
    let linked: Vec<Text> = found.sessions.iter().zip(&found.rows).map(linked).collect();
    let listed = found.sessions.iter().zip(linked);
    if args.filters.project.is_some() {
        by_project(context, listed)?;
    } else {
        show(context, 0, listed, true)?;
    }
    let more = found.total - found.sessions.len();
    if more > 0 {
        context.output.gap()?;
        let more = format!("and {}; `-n 0` lists all", count(more as u64, "older session"));
        context.output.line(Text::styled(Style::Dim, more))?;
    }
    Ok(())
}

/// A column of the list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListColumn {
    Id,
    Last,
    Agent,
    Project,
    Turns,
    Title,
}

impl ListColumn {
    /// Returns the columns that fit. Without a width, returns all of them.
    fn within(width: Option<usize>, with_project: bool) -> Vec<ListColumn> {
        let width = width.unwrap_or(usize::MAX);
        [
            (ListColumn::Id, 0),
            (ListColumn::Last, 0),
            (ListColumn::Agent, 90),
            (ListColumn::Project, 70),
            (ListColumn::Turns, 60),
            (ListColumn::Title, 0),
        ]
        .into_iter()
        .filter(|(shown, least)| width >= *least && (with_project || *shown != ListColumn::Project))
        .map(|(shown, _)| shown)
        .collect()
    }

    fn column(self) -> Column<'static> {
        match self {
            ListColumn::Id => Column::words("id"),
            ListColumn::Last => Column::words("last"),
            ListColumn::Agent => Column::words("agent"),
            ListColumn::Project => Column::words("project"),
            ListColumn::Turns => Column::numbers("turns"),
            ListColumn::Title => Column::title("title"),
        }
    }

    fn cell(self, id: &Text, session: &Session) -> Text {
        match self {
            ListColumn::Id => id.clone(),
            ListColumn::Last => Text::plain(session.updated_at.map(elapsed).unwrap_or_default()),
            ListColumn::Agent => Text::plain(agent(session)),
            ListColumn::Project => Text::plain(&session.project).cut(WIDEST_PROJECT),
            ListColumn::Turns => Text::plain(number(session.turns)),
            ListColumn::Title => title(session),
        }
    }
}

fn show<'a>(
    context: &mut Context,
    indent: usize,
    sessions: impl Iterator<Item = (&'a Session, Text)>,
    with_project: bool,
) -> Result<()> {
    let shown = ListColumn::within(context.output.width(), with_project);
    let columns: Vec<Column> = shown.iter().map(|shown| shown.column()).collect();
    let row = |(session, id)| shown.iter().map(|shown| shown.cell(&id, session)).collect();
    Ok(context.output.table(indent, &columns, sessions.map(row).collect())?)
}

fn by_project<'a>(
    context: &mut Context,
    sessions: impl Iterator<Item = (&'a Session, Text)>,
) -> Result<()> {
    let mut projects: BTreeMap<&str, Vec<(&Session, Text)>> = BTreeMap::new();
    for (session, id) in sessions {
        let place = session.cwd.as_deref().or(session.slug.as_deref()).unwrap_or("");
        projects.entry(place).or_default().push((session, id));
    }
    let mut projects: Vec<_> = projects.into_iter().collect();
    projects.sort_by_key(|(_, sessions)| {
        std::cmp::Reverse(sessions.first().and_then(|(session, _)| session.updated_at))
    });
    let mut is_first = true;
    for (place, sessions) in projects {
        if !std::mem::take(&mut is_first) {
            context.output.gap()?;
        }
        let name = sessions.first().map_or("", |(session, _)| session.project.as_str());
        let title = Text::styled(Style::Bold, if name.is_empty() { "(no project)" } else { name })
            .and("  ")
            .join(context.linked(place));
        context.output.line(title)?;
        show(context, 2, sessions.into_iter(), false)?;
    }
    Ok(())
}

/// Returns whether another session started this one.
pub(super) fn is_subagent(session: &Session) -> bool {
    session.part == "subagent" || session.parent_session_id.is_some()
}

/// Returns the agent's name if it has one, else the program's.
pub(super) fn agent(session: &Session) -> String {
    let title = format::by_name(&session.format).map_or(session.format.as_str(), |f| f.title());
    match session.agent.as_str() {
        "" | "main" => title.to_owned(),
        agent => format!("{title}/{agent}"),
    }
}

/// Returns the title on one line, with the session's marks.
pub(crate) fn title(session: &Session) -> Text {
    let mut text = Text::default();
    if session.state != SessionState::Live {
        text = text.with(Style::Warning, format!("[{}] ", session.state));
    }
    if is_subagent(session) {
        text = text.with(Style::Dim, "[sub-agent] ");
    } else if session.fork_of.is_some() {
        text = text.with(Style::Dim, "[fork] ");
    }
    text.and(session.title.as_deref().unwrap_or_default())
}

/// Reports that no sessions were found: with these filters, or at all.
fn nothing(args: &Args, context: &mut Context, reading: &Reading) -> Result<()> {
    if args.filters.is_empty() {
        return if context.is_json { Ok(()) } else { super::sync::no_sessions(context, reading) };
    }
    let hint = match args.filters.project.is_some() || args.filters.has_agent() {
        true => {
            "`quipu projects` lists all projects and their agents; --all adds sub-agents and empty \
             sessions"
        }
        false => "`quipu sessions` lists the newest; --all adds sub-agents and empty sessions",
    };
    let what = format!("no sessions match these filters{}", reading.missing_note());
    let mut error = CommandError::new(what).hint(hint);
    error.kind = Kind::NoMatch;
    Err(error)
}
