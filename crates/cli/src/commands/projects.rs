//! `quipu projects`: the folders that agents worked in.

use quipu_ledger::query::Filter;
use quipu_ledger::wire::Project;
use quipu_transcript::format;

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::filters;
use crate::output::{Column, Style, Text, elapsed, number};
use crate::reading::{self, Reading};

/// List the projects that agents worked on
///
/// A project is the first folder that a session worked in. NAME is any part of
/// its path, in upper or lower case, or the path itself (`.` is this folder).
///
/// Examples:
///   quipu projects
///   quipu projects tidepool
///   quipu projects --json | jq -r .cwd
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Show only projects that match NAME
    #[arg(value_name = "NAME", allow_hyphen_values = true)]
    name: Option<String>,

    #[command(flatten)]
    reading: reading::Args,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let project = args.name.as_deref().map(|name| filters::project(context, name));
    let reading = reading::open(context, args.reading)?;
    let filter = Filter { project, ..Filter::default() };
    let projects = quipu_ledger::query::projects(&reading.ledger, &filter)?;
    if projects.is_empty() {
        reading.refuse_if_behind()?;
        return nothing(context, args.name.as_deref(), &reading);
    }
    if context.is_json {
        for project in &projects {
            reading.json(context, project)?;
        }
        return Ok(());
    }
    context.output.page()?;
    let rows = projects.iter().map(|project| row(context, project)).collect();
    context.output.table(0, &COLUMNS, rows)?;
    Ok(())
}

const COLUMNS: [Column; 5] = [
    Column::words("project"),
    Column::numbers("sessions"),
    Column::words("last"),
    Column::words("agents"),
    Column::long("path"),
];

fn row(context: &Context, project: &Project) -> Vec<Text> {
    let path = match &project.cwd {
        Some(path) => context.linked(path),
        None => Text::styled(Style::Dim, project.slugs.join(" ")),
    };
    vec![
        Text::styled(Style::Bold, name(project)),
        Text::plain(number(project.sessions)),
        Text::plain(project.updated_at.map(elapsed).unwrap_or_default()),
        Text::plain(agents(project)),
        path,
    ]
}

/// Returns the name of a project, or `(none)`.
pub(super) fn name(project: &Project) -> &str {
    if project.project.is_empty() { "(none)" } else { &project.project }
}

/// Returns names that `--agent` takes, as the list of sessions shows them: `OpenClaw/helper`.
fn agents(project: &Project) -> String {
    let title = |name: &String| {
        format::by_name(name).map_or(name.as_str(), |format| format.title()).to_owned()
    };
    let titles: Vec<String> = project.formats.iter().map(title).collect();
    let agents: &[String] = match project.agents.as_slice() {
        [agent] if agent == "main" => &[],
        agents => agents,
    };
    let names = match titles.as_slice() {
        [title] if !agents.is_empty() => {
            let full = |agent: &String| match agent.as_str() {
                "main" => title.clone(),
                agent => format!("{title}/{agent}"),
            };
            agents.iter().map(full).collect()
        }
        // The agents of several formats are one list.
        titles => [titles, agents].concat(),
    };
    names.join(", ")
}

/// Reports that no project was found: with that name, or at all.
fn nothing(context: &mut Context, name: Option<&str>, reading: &Reading) -> Result<()> {
    match name {
        Some(name) => {
            let so_far = reading.missing_note();
            let mut error = CommandError::new(format!("no project matches `{name}`{so_far}"))
                .hint("`quipu projects` lists all projects");
            error.kind = Kind::NoMatch;
            Err(error)
        }
        None if context.is_json => Ok(()),
        None => super::sync::no_sessions(context, reading),
    }
}
