//! Options that choose sessions.

use jiff::Timestamp;
use quipu_ledger::query::Filter;
use quipu_transcript::format;
use quipu_transcript::project::Name;
use quipu_transcript::when::{self, Period};

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

    /// Only sessions last active since then: `3d`, `monday`, `2026-11-01`, `2026-11-01..2026-11-07`
    #[arg(long, short = 's', value_name = "WHEN", allow_hyphen_values = true)]
    since: Option<String>,

    /// Only sessions last active before or on that day
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    until: Option<String>,

    /// Only sessions whose messages came through this channel
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,

    /// Also show sub-agents, warm-up sessions and empty sessions
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

/// Returns a filter over sessions of all kinds; `None` if nothing is chosen.
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

/// Returns a project's name. `.`, `~/dev/shop` and anything that looks like a path is a path.
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

/// Returns the range of `--since` and `--until`, in milliseconds UTC: the first moment, and the end,
/// which does not belong to it. A day given to `--until` is included. `a..b` sets both ends, in
/// either option.
pub(crate) fn range(
    since: Option<&str>,
    until: Option<&str>,
) -> Result<(Option<i64>, Option<i64>)> {
    let since = since.map(period).transpose()?;
    let until = until.map(period).transpose()?;
    let is_range = |period: &Period| period.is_range;
    let starts = [since, until.filter(is_range)].map(|period| period.and_then(|it| it.start));
    let ends = [since.filter(is_range), until].map(|period| period.and_then(|it| it.end));
    Ok((
        starts.into_iter().flatten().max().map(Timestamp::as_millisecond),
        ends.into_iter().flatten().min().map(Timestamp::as_millisecond),
    ))
}

/// Returns the end of the day or the range that a text names, or the moment, in milliseconds UTC.
pub(crate) fn until(text: &str) -> Result<i64> {
    let end = period(text)?.end.ok_or_else(|| not_a_time(text))?;
    Ok(end.as_millisecond())
}

/// Returns the format that a name or the beginning of one means, as `format:` in a search does.
fn format_name(text: &str) -> Result<&'static str> {
    let names: Vec<&str> = format::all().map(|format| format.name()).collect();
    let mut matches = names.iter().filter(|name| name.starts_with(text) && !text.is_empty());
    match (names.iter().find(|name| **name == text), matches.next(), matches.next()) {
        (Some(name), ..) | (None, Some(name), None) => Ok(name),
        _ => Err(CommandError::new(format!("unknown format `{text}`"))
            .hint(format!("use one of {}", names.join(", ")))),
    }
}

fn period(text: &str) -> Result<Period> {
    when::parse(text, &zone::now()).ok_or_else(|| not_a_time(text))
}

fn not_a_time(text: &str) -> CommandError {
    CommandError::new(format!("`{text}` is not a time")).hint(
        "write `3d`, `2h`, `yesterday`, `monday`, `last week`, `2026-11-01`, `2026-11-01T09:30` or \
         `2026-11-01..2026-11-07`",
    )
}
