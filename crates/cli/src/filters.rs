//! Options that choose sessions.

use quipu_ledger::query::Filter;
use quipu_transcript::format;
use quipu_transcript::project::Name;
use quipu_transcript::when::{self, NotATime};

use crate::commands::Context;
use crate::error::{CommandError, Result};
use crate::{paths, zone};

/// Options that choose sessions.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Only sessions of this project: any part of its name, or a path
    #[arg(long, short = 'p', value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) project: Option<String>,

    /// Only sessions of this agent: `claude`, `openclaw`, `openclaw/main`, `main`
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,

    /// Only sessions in this format (see `quipu formats`)
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,

    /// Only sessions last active at or after this time: `3d`, `monday`, `2026-11-01`, `2026-11-01..2026-11-07`
    #[arg(long, short = 's', value_name = "WHEN", allow_hyphen_values = true)]
    since: Option<String>,

    /// Only sessions last active on or before this day
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    until: Option<String>,

    /// Only sessions whose messages came through this channel
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,

    /// Also show sub-agents, warm-up sessions, empty sessions, and originals of imported ones
    #[arg(long)]
    all: bool,
}

impl Args {
    /// Returns the filter, with times relative to now.
    pub(crate) fn filter(&self, context: &Context) -> Result<Filter> {
        let format = self.format.as_deref().map(format_name).transpose()?;
        let (since, until) = range(self.since.as_deref(), self.until.as_deref())?;
        Ok(Filter {
            project: self.project.as_deref().map(|name| project(context, name)),
            agent: self.agent.clone(),
            format: format.map(str::to_owned),
            since,
            until,
            channel: self.channel.clone(),
            all: self.all,
            human: false,
        })
    }

    /// Returns whether an agent was given.
    pub(crate) fn has_agent(&self) -> bool {
        self.agent.is_some()
    }

    /// Returns whether no option was given.
    pub(crate) fn is_empty(&self) -> bool {
        self.project.is_none()
            && self.agent.is_none()
            && self.format.is_none()
            && self.since.is_none()
            && self.until.is_none()
            && self.channel.is_none()
    }
}

/// Returns a filter of sessions, sub-agents included; `None` if no option is given.
pub(crate) fn chosen(
    context: &Context,
    project: &Option<String>,
    agent: &Option<String>,
    format: &Option<String>,
) -> Result<Option<Filter>> {
    let args = Args {
        project: project.clone(),
        agent: agent.clone(),
        format: format.clone(),
        all: true,
        ..Args::default()
    };
    if args.is_empty() { Ok(None) } else { args.filter(context).map(Some) }
}

/// Parses a project's name. Text that looks like a path, for example `.` or `~/dev/shop`, is made
/// absolute.
pub(crate) fn project(context: &Context, text: &str) -> Name {
    let looks_like_path = text == "."
        || text == ".."
        || text == "~"
        || ["/", "./", "../", "~/"].iter().any(|start| text.starts_with(start));
    if looks_like_path {
        let here = std::env::current_dir().unwrap_or_default();
        let home = context.settings.home.as_deref();
        if let Ok(path) = paths::resolve(text.as_ref(), home, &here) {
            let path = std::fs::canonicalize(&path).unwrap_or(path);
            return Name::new(&path.to_string_lossy());
        }
    }
    Name::new(text)
}

/// Returns the range of `--since` and `--until`, in milliseconds UTC: its first moment, and the
/// first moment after it.
pub(crate) fn range(
    since: Option<&str>,
    until: Option<&str>,
) -> Result<(Option<i64>, Option<i64>)> {
    when::range(since, until, &zone::now()).map_err(not_a_time)
}

/// Returns the end of the day or range that a text names, or the moment, in milliseconds UTC.
pub(crate) fn until(text: &str) -> Result<i64> {
    when::end(text, &zone::now()).map_err(not_a_time)
}

/// Returns the format with that name or beginning of a name, as `format:` in a search does.
fn format_name(text: &str) -> Result<&'static str> {
    format::by_beginning(text).map(|format| format.name()).ok_or_else(|| {
        let names: Vec<&str> = format::all().map(|format| format.name()).collect();
        CommandError::new(format!("unknown format `{text}`"))
            .hint(format!("use one of {}", names.join(", ")))
    })
}

fn not_a_time(error: NotATime) -> CommandError {
    CommandError::from_source(error.into()).hint(
        "write `3d`, `2h`, `yesterday`, `monday`, `last week`, `2026-11-01`, `2026-11-01T09:30` or \
         `2026-11-01..2026-11-07`",
    )
}
