//! The sessions to export.

use quipu_ledger::ids::SessionRow;
use quipu_ledger::query::Filter;
use quipu_ledger::wire::{Project, Session};

use crate::commands::Context;
use crate::error::{CommandError, Kind, Result};
use crate::filters;
use crate::reading::Reading;

/// Options that choose sessions. There is no filter by format: `--format` is the output format.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Export this session
    #[arg(
        value_name = "SESSION",
        allow_hyphen_values = true,
        conflicts_with_all = ["project", "all", "agent", "since", "until", "channel"]
    )]
    session: Option<String>,

    /// Export all sessions of this project: any part of its name, or a path
    #[arg(long, short = 'p', value_name = "NAME")]
    project: Option<String>,

    /// Export all sessions
    #[arg(long)]
    all: bool,

    /// Only sessions of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,

    /// Only sessions last active at or after this time: `3d`, `monday`, `2026-11-01..2026-11-07`
    #[arg(long, short = 's', value_name = "WHEN", allow_hyphen_values = true)]
    since: Option<String>,

    /// Only sessions last active on or before this day
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    until: Option<String>,

    /// Only sessions whose messages came through this channel
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
}

/// The chosen sessions.
#[derive(Debug)]
pub(super) struct Chosen {
    /// Sorted, the newest first.
    pub(super) sessions: Vec<(SessionRow, Session)>,
    /// True if one session was named.
    pub(super) is_one: bool,
    /// The title of the index page.
    pub(super) title: String,
}

impl Args {
    /// Finds the sessions.
    pub(super) fn choose(&self, context: &mut Context, reading: &Reading) -> Result<Chosen> {
        let (since, until) = filters::range(self.since.as_deref(), self.until.as_deref())?;
        let filter = Filter {
            agent: self.agent.clone(),
            since,
            until,
            channel: self.channel.clone(),
            // Sub-agents are exported with the sessions that they work for.
            all: true,
            ..Filter::default()
        };
        if let Some(name) = &self.session {
            let row = reading.find(context, name)?;
            let session = quipu_ledger::query::summary_of(&reading.ledger, row)?;
            let sessions: Vec<_> = session.map(|session| (row, session)).into_iter().collect();
            let mut chosen = Chosen { sessions, is_one: true, title: String::new() };
            chosen.add_costs(context, reading)?;
            return Ok(chosen);
        }
        let mut chosen = match &self.project {
            Some(project_name) => {
                let name = filters::project(context, project_name);
                let of_project = Filter { project: Some(name), ..filter };
                // Without the time range, so that a name means the same project in every range.
                let any_time = Filter { since: None, until: None, ..of_project.clone() };
                let project = reading.pick_project(context, project_name, &any_time)?;
                let mut sessions = quipu_ledger::query::session_rows(&reading.ledger, &of_project)?;
                sessions.retain(|(_, session)| belongs_to(&project, session));
                let title = format!("Sessions of {}", project.project);
                Chosen { sessions, is_one: false, title }
            }
            None if self.is_empty() => {
                return Err(CommandError::new("no sessions chosen")
                    .hint("name a session, a project with --project, or everything with --all"));
            }
            None => {
                let sessions = quipu_ledger::query::session_rows(&reading.ledger, &filter)?;
                Chosen { sessions, is_one: false, title: "Sessions".to_owned() }
            }
        };
        if chosen.sessions.is_empty() {
            reading.refuse_if_behind()?;
            let mut error = CommandError::new("no sessions match these filters")
                .hint("`quipu sessions --all` lists all sessions");
            error.kind = Kind::NoMatch;
            return Err(error);
        }
        chosen.add_costs(context, reading)?;
        Ok(chosen)
    }

    fn is_empty(&self) -> bool {
        !self.all
            && self.agent.is_none()
            && self.since.is_none()
            && self.until.is_none()
            && self.channel.is_none()
    }
}

impl Chosen {
    fn add_costs(&mut self, context: &Context, reading: &Reading) -> Result<()> {
        let costs = quipu_ledger::query::costs(&reading.ledger, &context.prices())?;
        for (row, session) in &mut self.sessions {
            costs.add_to(*row, session);
        }
        Ok(())
    }
}

fn belongs_to(project: &Project, session: &Session) -> bool {
    match (&project.cwd, &session.cwd) {
        (Some(path), Some(cwd)) => path == cwd,
        (None, None) => match &session.slug {
            Some(slug) => project.slugs.contains(slug),
            None => project.slugs.is_empty(),
        },
        _ => false,
    }
}
