//! Which sessions a command is about: the options that choose them.

use jiff::Zoned;
use quipu_ledger::Filter;
use quipu_transcript::project::Name;
use quipu_transcript::{format, when};

use crate::commands::Context;
use crate::error::{CommandError, Result};
use crate::{paths, zone};

/// Options that choose sessions.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Sessions of projects of this name: any part of it, or a path
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) project: Option<String>,

    /// Sessions of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,

    /// Sessions in this format (see `quipu formats`)
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,

    /// Sessions that were last active since: `3d`, `yesterday`, `2026-11-01`
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    since: Option<String>,

    /// Sessions that were last active until then: a day belongs to it
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    until: Option<String>,

    /// Sessions whose messages came through this channel
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,

    /// Sub-agents, warm-up stubs and empty sessions too
    #[arg(long)]
    all: bool,
}

impl Args {
    /// What they mean, here and now.
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
        })
    }

    /// True if nothing is chosen.
    pub(crate) fn is_empty(&self) -> bool {
        self.project.is_none()
            && self.agent.is_none()
            && self.format.is_none()
            && self.since.is_none()
            && self.until.is_none()
            && self.channel.is_none()
    }
}

/// Sessions of all kinds, chosen by these alone; `None` if nothing is chosen.
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

/// What a project is called. `.`, `~/dev/shop` and whatever looks like a path is one.
pub(crate) fn project(context: &Context, said: &str) -> Name {
    let looks_like_path = said == "."
        || said == ".."
        || said == "~"
        || ["/", "./", "../", "~/"].iter().any(|start| said.starts_with(start));
    if looks_like_path {
        let here = std::env::current_dir().unwrap_or_default();
        let home = context.settings.home.as_deref();
        if let Ok(path) = paths::resolve(said.as_ref(), home, &here) {
            let path = std::fs::canonicalize(&path).unwrap_or(path);
            return Name::new(&path.to_string_lossy());
        }
    }
    Name::new(said)
}

/// The beginning of a range, milliseconds UTC.
pub(crate) fn since(said: &str) -> Result<i64> {
    moment(said, when::parse)
}

/// The end of a range, milliseconds UTC. The day that it names belongs to it.
pub(crate) fn until(said: &str) -> Result<i64> {
    moment(said, when::parse_end)
}

/// The format that a name or the beginning of one means, as `format:` in a search takes it.
fn format_name(said: &str) -> Result<&'static str> {
    let names: Vec<&str> = format::all().map(|format| format.name()).collect();
    let mut like_it = names.iter().filter(|name| name.starts_with(said) && !said.is_empty());
    match (names.iter().find(|name| **name == said), like_it.next(), like_it.next()) {
        (Some(name), ..) | (None, Some(name), None) => Ok(name),
        _ => Err(CommandError::new(format!("there is no format `{said}`"))
            .hint(format!("formats are {}", names.join(", ")))),
    }
}

fn moment(said: &str, parse: fn(&str, &Zoned) -> Option<jiff::Timestamp>) -> Result<i64> {
    match parse(said, &zone::now()) {
        Some(moment) => Ok(moment.as_millisecond()),
        None => Err(CommandError::new(format!("cannot tell when `{said}` is"))
            .hint("say it like `3d`, `12h`, `2w`, `today`, `yesterday`, `2026-11-01` or `2026-11-01T09:30`")),
    }
}
