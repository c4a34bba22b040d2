//! `quipu usage`: tokens and cost.

pub(super) mod blocks;
mod chart;
mod csv;
mod notes;
mod period;

use clap::ValueEnum;
use quipu_ledger::query::{UsageBy, UsageRequest, mark_windows};
use quipu_ledger::wire::{UsageLine, UsageReport};
use quipu_transcript::format;

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::{Column, Style, Text, count, day, dollars, now_ms, short};
use crate::{filters, reading, zone};

/// Show tokens and cost
///
/// Each API response is counted once, even if several files contain it.
/// Sub-agents are counted with the session that started them. Requests that no
/// line records, such as compactions, are counted from the agent's own totals.
/// Costs are those that the agents recorded; otherwise they are computed from
/// `[prices]` in the configuration, or else from the model's list price. The date
/// of the list prices is printed below the table. A model without a price is
/// marked, and only its tokens are counted. Days and months are in your time zone.
///
/// `blocks` are the windows in which Claude Code's plans limit usage: 5 hours from
/// the full hour of their first response. `[limits]` in the configuration sets a
/// limit of your plan, and the rest of it is printed below.
///
/// `--json` prints one object per group, and a last one named `total`.
///
/// Examples:
///   quipu usage
///   quipu usage today --by model
///   quipu usage blocks
///   quipu usage monthly --agent claude-code
///   quipu usage session --since 7d -n 10
///   quipu usage model --json | jq -r '[.group, .cost_usd] | @tsv'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The groups to sum by
    #[arg(value_enum, default_value = "daily")]
    by: By,

    /// Split each group by this property
    #[arg(long = "by", value_enum, value_name = "WHAT")]
    split: Option<Split>,

    /// Print comma-separated values (RFC 4180)
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    /// Only usage at or after this time: 3d, yesterday, 2026-11-01, 2026-11-01..2026-11-07
    #[arg(long, short = 's', value_name = "WHEN")]
    since: Option<String>,

    /// Only usage on or before this day, or in or before this month
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,

    /// Only sessions of this project: any part of its name, or a path
    #[arg(long, short = 'p', value_name = "NAME")]
    project: Option<String>,

    /// Only sessions of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,

    /// Only sessions in this format (see `quipu formats`)
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,

    /// Show all groups, not only the last 30 days or the 20 with the highest cost
    #[arg(long)]
    all: bool,

    /// Show the N groups with the highest cost, or the last N days, weeks, months or windows
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "all")]
    limit: Option<usize>,

    #[command(flatten)]
    reading: reading::Args,
}

/// The groups to sum by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// Only today
    Today,
    /// Only yesterday
    Yesterday,
    #[value(aliases = ["day", "days"])]
    Daily,
    /// Weeks from Monday
    #[value(aliases = ["week", "weeks"])]
    Weekly,
    #[value(aliases = ["month", "months"])]
    Monthly,
    /// Windows of 5 hours, as Claude Code's plans limit them
    #[value(aliases = ["block", "windows"])]
    Blocks,
    #[value(alias = "sessions")]
    Session,
    #[value(alias = "models")]
    Model,
    #[value(alias = "projects")]
    Project,
    #[value(alias = "agents")]
    Agent,
}

/// Returns whether `quipu usage` sums by that word.
pub(crate) fn is_group(word: &str) -> bool {
    By::from_str(word, true).is_ok()
}

/// The property by which a group is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Split {
    Model,
}

impl By {
    /// Returns whether groups are times.
    fn is_time(self) -> bool {
        matches!(UsageBy::from(self), UsageBy::Day | UsageBy::Week | UsageBy::Month)
            || self == By::Blocks
    }
}

impl From<By> for UsageBy {
    fn from(by: By) -> UsageBy {
        match by {
            By::Today | By::Yesterday | By::Daily => UsageBy::Day,
            By::Weekly => UsageBy::Week,
            By::Blocks => UsageBy::Block { hours: format::window().map_or(5, |(_, hours)| hours) },
            By::Monthly => UsageBy::Month,
            By::Session => UsageBy::Session,
            By::Model => UsageBy::Model,
            By::Project => UsageBy::Project,
            By::Agent => UsageBy::Agent,
        }
    }
}

/// Number of groups that are shown without `--all`: those with the highest cost.
const DEFAULT_GROUPS: usize = 20;

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let reading = reading::open(context, args.reading)?;
    let zone = zone::zone();
    let period = period::requested(args, context.is_json, &zone)?;
    let mut format = args.format.clone();
    if args.by == By::Blocks && format.is_none() && args.agent.is_none() {
        format = format::window().map(|(name, _)| name.to_owned());
    }
    let filter = filters::chosen(context, &args.project, &args.agent, &format)?;
    let prices = context.prices();
    let request = UsageRequest {
        by: args.by.into(),
        since: period.since,
        until: period.until,
        sessions: filter.as_ref(),
        zone: zone.clone(),
        prices: &prices,
        by_model: args.split.is_some(),
    };
    let report = quipu_ledger::query::usage(&reading.ledger, &request)?;
    if report.as_ref().is_none_or(|report| report.total.models.is_empty()) {
        reading.refuse_if_behind()?;
    }
    let Some(mut report) = report else {
        if reading.ledger.is_empty()? && !context.is_json && !args.csv {
            return super::sync::no_sessions(context, &reading);
        }
        return Err(no_sessions(args, &reading));
    };
    if args.by == By::Blocks {
        mark_windows(&mut report, &context.settings.limits.value, now_ms());
    }
    if args.by == By::Daily && !(args.csv || context.is_json) {
        chart::fill_gaps(&mut report.lines);
    }
    let hidden = hide(&mut report, args, context.is_json);
    if args.csv {
        return csv::print(context, &report);
    }
    if context.is_json {
        for line in report.lines.iter().chain([&report.total]) {
            reading.json(context, line)?;
        }
        return Ok(());
    }
    context.output.page()?;
    if report.total.models.is_empty() {
        if reading.ledger.is_empty()? {
            return super::sync::no_sessions(context, &reading);
        }
        context.output.line(format!("no usage {}", period.words))?;
        if period.is_recent {
            let (command, what) = match args.by {
                By::Today => ("usage", "the last days"),
                By::Blocks => ("usage blocks --all", "all windows"),
                _ => ("usage --all", "all days"),
            };
            let all = format!("`{}` shows {what}", context.shell.plain(command));
            context.output.line(Text::styled(Style::Dim, all))?;
        }
        return Ok(());
    }
    show(context, args.by, &report, &period, &reading)?;
    if args.by == By::Blocks {
        blocks::show(context, &report)?;
    }
    let own = own_priced(&reading, &request, &report)?;
    notes::show(context, &report, args.by, hidden, &own, &zone)
}

/// Returns the error for a report without any session.
fn no_sessions(args: &Args, reading: &reading::Reading) -> CommandError {
    let is_default = [&args.project, &args.agent, &args.format].iter().all(|it| it.is_none());
    let so_far = reading.missing_note();
    let window = format::window().and_then(|(name, _)| format::by_name(name));
    let mut error = match window {
        Some(format) if is_default => {
            let what =
                format!("no sessions of {}, whose plans have windows{so_far}", format.title());
            CommandError::new(what).hint("--agent or --format chooses sessions of another agent")
        }
        _ => CommandError::new(format!("no sessions match these filters{so_far}"))
            .hint("`quipu projects` lists all projects and their agents"),
    };
    error.kind = Kind::NoMatch;
    error
}

/// Usage that was priced by the configuration.
#[derive(Debug, Default)]
struct OwnPriced {
    usd: f64,
    models: Vec<String>,
}

/// Sums the usage of models that have a price in the configuration.
fn own_priced(
    reading: &reading::Reading,
    request: &UsageRequest<'_>,
    all: &UsageReport,
) -> Result<OwnPriced> {
    let mut own = OwnPriced::default();
    if !all.total.models.iter().any(|model| request.prices.is_own(model)) {
        return Ok(own);
    }
    let request = UsageRequest { by: UsageBy::Model, zone: request.zone.clone(), ..*request };
    for line in quipu_ledger::query::usage(&reading.ledger, &request)?
        .into_iter()
        .flat_map(|report| report.lines)
    {
        let cost = line.cost_usd.unwrap_or(0.0) - line.recorded_usd;
        if request.prices.is_own(&line.group) && cost > 1e-9 {
            own.usd += cost;
            own.models.push(line.group);
        }
    }
    Ok(own)
}

/// Removes the groups with the lowest cost, or the oldest ones. Returns how many.
fn hide(report: &mut UsageReport, args: &Args, is_json: bool) -> usize {
    let is_whole = args.all || args.by.is_time() || args.csv || is_json;
    let shown = match args.limit {
        Some(limit) => limit,
        None if is_whole => return 0,
        None => DEFAULT_GROUPS,
    };
    let hidden = report.lines.len().saturating_sub(shown);
    match args.by.is_time() {
        true => drop(report.lines.drain(..hidden)),
        false => report.lines.truncate(shown),
    }
    hidden
}

fn show(
    context: &mut Context,
    by: By,
    report: &UsageReport,
    period: &period::Period,
    reading: &reading::Reading,
) -> Result<()> {
    let ids = reading.short_ids()?;
    let heading =
        Text::styled(Style::Bold, "Usage").with(Style::Dim, format!("  {}", period.words));
    context.output.line(heading)?;
    context.output.gap()?;
    let mut layout = chart::Layout::of(context.output.width(), by == By::Session);
    let is_split = report.lines.iter().any(|line| !line.by_model.is_empty());
    if is_split && !layout.is_wide {
        // Names of models take the room of the bars.
        layout.bar = 0;
    }
    let most = report.lines.iter().filter_map(|line| line.cost_usd).fold(0.0, f64::max);
    let of_time = if is_split { Column::long } else { Column::words };
    let mut columns = vec![match by {
        By::Today | By::Yesterday | By::Daily => of_time("day"),
        By::Weekly => of_time("week of"),
        By::Blocks => of_time("5 hours from"),
        By::Monthly => of_time("month"),
        By::Session => Column::title("session"),
        By::Model => Column::long("model"),
        By::Project => Column::long("project"),
        By::Agent => Column::long("agent"),
    }];
    if layout.has_last {
        columns.extend([Column::words("id"), Column::words("last")]);
    }
    columns.push(Column::numbers("cost"));
    if layout.bar > 0 {
        columns.push(Column::words(""));
    }
    if layout.has_kinds {
        let names = match layout.is_wide {
            true => ["input", "output", "cache read", "cache write"],
            false => ["input", "output", "read", "written"],
        };
        columns.extend(names.map(Column::numbers));
    }
    columns.push(Column::numbers("tokens"));
    let row = |line: &UsageLine, name: Text, style: Style| {
        let mut row = vec![name];
        if layout.has_last {
            let is_session = line.by == "session";
            let last = line.session.as_ref().and_then(|session| session.updated_at).map(day);
            row.push(match is_session {
                true => context.linked_session(&reading.ledger, &ids, &line.group),
                false => Text::default(),
            });
            row.push(Text::styled(Style::Dim, last.unwrap_or_default()));
        }
        row.push(cost(line, style));
        if layout.bar > 0 {
            let is_group = line.by == UsageBy::from(by).name();
            let part = line.cost_usd.filter(|_| is_group).unwrap_or(0.0) / most;
            row.push(Text::styled(Style::Good, chart::bar(part, layout.bar)));
        }
        let number = |tokens: u64| match tokens {
            // A day without usage has no numbers.
            _ if line.models.is_empty() => Text::default(),
            0 => Text::styled(Style::Dim, "–"),
            tokens => Text::styled(style, short(tokens)),
        };
        if layout.has_kinds {
            row.extend(
                [
                    line.input_tokens,
                    line.output_tokens,
                    line.cache_read_tokens,
                    line.cache_write_tokens,
                ]
                .map(number),
            );
        }
        row.push(number(line.total_tokens));
        row
    };
    let mut rows: Vec<Vec<Text>> = Vec::new();
    for line in &report.lines {
        rows.push(row(line, name(context, by, line), Style::Plain));
        for part in &line.by_model {
            let name = Text::styled(Style::Dim, format!("  {}", part.group));
            rows.push(row(part, name, Style::Dim));
        }
    }
    rows.push(row(&report.total, Text::styled(Style::Bold, "total"), Style::Bold));
    context.output.table(0, &columns, rows)?;
    Ok(())
}

fn name(context: &Context, by: By, line: &UsageLine) -> Text {
    match (by, &line.session) {
        (By::Project, _) if line.group.starts_with('/') => context.linked(&line.group),
        (By::Session, Some(session)) => match session.title.as_deref().map(first_line) {
            Some(title) if !title.is_empty() => Text::plain(title),
            _ => Text::styled(Style::Dim, "(no title)"),
        },
        _ => Text::plain(&line.group),
    }
}

/// Formats the cost of a group. A star marks usage without a price.
fn cost(line: &UsageLine, style: Style) -> Text {
    match line.cost_usd {
        _ if line.models.is_empty() => Text::styled(Style::Dim, "–"),
        None => Text::styled(Style::Warning, "no price"),
        Some(cost) if line.unpriced_tokens > 0 => {
            Text::styled(style, dollars(cost)).with(Style::Warning, "*")
        }
        Some(cost) => Text::styled(style, dollars(cost)),
    }
}

/// Returns the first line of a title, which may be a whole prompt.
fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}

/// Formats a number of groups.
fn groups(by: By, number: usize) -> String {
    let what = match by {
        By::Today | By::Yesterday | By::Daily => "day",
        By::Weekly => "week",
        By::Blocks => "window",
        By::Monthly => "month",
        By::Session => "session",
        By::Model => "model",
        By::Project => "project",
        By::Agent => "agent",
    };
    count(number as u64, what)
}
