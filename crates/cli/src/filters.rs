//! Options that choose sessions.

use jiff::Zoned;
use quipu_ledger::query::Filter;
use quipu_transcript::project::Name;
use quipu_transcript::{format, when};

use crate::commands::Context;
use crate::error::{CommandError, Result};
use crate::{paths, zone};

/// Options that choose sessions.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Only sessions of this project: any part of its name, or a path
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) project: Option<String>,

    /// Only sessions of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,

    /// Only sessions in this format (see `quipu formats`)
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,

    /// Only sessions last active since then: `3d`, `yesterday`, `2026-11-01`
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
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
        Ok(Filter {
            project: self.project.as_deref().map(|name| project(context, name)),
            agent: self.agent.clone(),
            format: format.map(str::to_owned),
            since: self.since.as_deref().map(since).transpose()?,
            until: self.until.as_deref().map(until).transpose()?,
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

/// Returns the start of a range, in milliseconds UTC.
pub(crate) fn since(text: &str) -> Result<i64> {
    moment(text, when::parse)
}

/// Returns the end of a range, in milliseconds UTC. A day is included.
pub(crate) fn until(text: &str) -> Result<i64> {
    moment(text, when::parse_end)
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

fn moment(text: &str, parse: fn(&str, &Zoned) -> Option<jiff::Timestamp>) -> Result<i64> {
    match parse(text, &zone::now()) {
        Some(moment) => Ok(moment.as_millisecond()),
        None => Err(CommandError::new(format!("`{text}` is not a time")).hint(
            "write `3d`, `12h`, `2w`, `today`, `yesterday`, `2026-11-01` or `2026-11-01T09:30`",
        )),
    }
}
