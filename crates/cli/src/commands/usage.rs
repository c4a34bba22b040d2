//! `quipu usage`: tokens and cost.

mod chart;
mod notes;
mod period;

use clap::ValueEnum;
use quipu_ledger::query::{UsageBy, UsageRequest};
use quipu_ledger::wire::{UsageLine, UsageReport};

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::{Column, ShortIds, Style, Text, count, day, dollars, short};
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
/// `--json` prints one object per group, and a last one named `total`.
///
/// Examples:
///   quipu usage
///   quipu usage monthly --agent claude-code
///   quipu usage session --since 7d
///   quipu usage model --json | jq -r '[.group, .cost_usd] | @tsv'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The groups to sum by
    #[arg(value_enum, default_value = "daily")]
    by: By,

    /// Only usage since then: 3d, yesterday, 2026-11-01, 2026-11-01..2026-11-07
    #[arg(long, short = 's', value_name = "WHEN")]
    since: Option<String>,

    /// Only usage before or on that day, or in or before that month
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

    #[command(flatten)]
    reading: reading::Args,
}

/// The groups to sum by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Daily,
    Monthly,
    Session,
    Model,
    Project,
    Agent,
}

impl From<By> for UsageBy {
    fn from(by: By) -> UsageBy {
        match by {
            By::Daily => UsageBy::Day,
            By::Monthly => UsageBy::Month,
            By::Session => UsageBy::Session,
            By::Model => UsageBy::Model,
            By::Project => UsageBy::Project,
            By::Agent => UsageBy::Agent,
        }
    }
}

/// Groups shown without `--all`.
const DEAREST: usize = 20;

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let reading = reading::open(context, args.reading)?;
    let zone = zone::zone();
    let asked = period::asked(args, context.is_json, &zone)?;
    let filter = filters::chosen(context, &args.project, &args.agent, &args.format)?;
    let prices = context.prices();
    let request = UsageRequest {
        by: args.by.into(),
        since: asked.since,
        until: asked.until,
        sessions: filter.as_ref(),
        zone: zone.clone(),
        prices: &prices,
    };
    let report = quipu_ledger::query::usage(&reading.ledger, &request)?;
    if report.as_ref().is_none_or(|report| report.total.models.is_empty()) {
        reading.refuse_if_behind()?;
    }
    let Some(mut report) = report else {
        let what = format!("no sessions match these filters{}", reading.missing_note());
        let mut error =
            CommandError::new(what).hint("`quipu projects` lists all projects and their agents");
        error.kind = Kind::NoMatch;
        return Err(error);
    };
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
        context.output.line(format!("no usage {}", asked.words))?;
        if asked.is_recent {
            let all = format!("`{}` shows all days", context.shell.plain("usage --all"));
            context.output.line(Text::styled(Style::Dim, all))?;
        }
        return Ok(());
    }
    if args.by == By::Daily {
        chart::fill_gaps(&mut report.lines);
    }
    let hidden = hide(&mut report, args);
    show(context, args.by, &report, &asked, &reading.short_ids()?)?;
    let own = own(&reading, &request, &report)?;
    notes::show(context, &report, args.by, hidden, &own, &zone)
}

/// Usage at prices from the configuration.
#[derive(Debug, Default)]
struct Own {
    usd: f64,
    models: Vec<String>,
}

/// Sums the usage of models with prices from the configuration.
fn own(reading: &reading::Reading, request: &UsageRequest<'_>, all: &UsageReport) -> Result<Own> {
    let mut own = Own::default();
    if !all.total.models.iter().any(|model| request.prices.is_own(model)) {
        return Ok(own);
    }
    let request = UsageRequest { by: UsageBy::Model, zone: request.zone.clone(), ..*request };
    for line in
        quipu_ledger::query::usage(&reading.ledger, &request)?.into_iter().flat_map(|it| it.lines)
    {
        let cost = line.cost_usd.unwrap_or(0.0) - line.recorded_usd;
        if request.prices.is_own(&line.group) && cost > 1e-9 {
            own.usd += cost;
            own.models.push(line.group);
        }
    }
    Ok(own)
}

/// Removes the groups with the lowest cost. Returns how many.
fn hide(report: &mut UsageReport, args: &Args) -> usize {
    let is_time = matches!(args.by, By::Daily | By::Monthly);
    if args.all || is_time || report.lines.len() <= DEAREST {
        return 0;
    }
    let hidden = report.lines.len() - DEAREST;
    report.lines.truncate(DEAREST);
    hidden
}

fn show(
    context: &mut Context,
    by: By,
    report: &UsageReport,
    asked: &period::Asked,
    ids: &ShortIds,
) -> Result<()> {
    let heading = Text::styled(Style::Bold, "Usage").with(Style::Dim, format!("  {}", asked.words));
    context.output.line(heading)?;
    context.output.gap()?;
    let layout = chart::Layout::of(context.output.width(), by == By::Session);
    let most = report.lines.iter().filter_map(|line| line.cost_usd).fold(0.0, f64::max);
    let mut columns = vec![match by {
        By::Daily => Column::words("day"),
        By::Monthly => Column::words("month"),
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
            let id = ids.of(&line.group);
            let last = line.session.as_ref().and_then(|session| session.updated_at).map(day);
            let is_total = line.by == "total";
            row.push(Text::styled(Style::Good, if is_total { String::new() } else { id }));
            row.push(Text::styled(Style::Dim, last.unwrap_or_default()));
        }
        row.push(cost(line, style));
        if layout.bar > 0 {
            let part = line.cost_usd.filter(|_| line.by != "total").unwrap_or(0.0) / most;
            row.push(Text::styled(Style::Good, chart::bar(part, layout.bar)));
        }
        let number = |tokens: u64| match tokens {
            // A day without usage has no numbers.
            _ if line.models.is_empty() => Text::default(),
            0 => Text::styled(Style::Dim, "–"),
            tokens => Text::styled(style, short(tokens)),
        };
        if layout.has_kinds {
            row.extend([line.input, line.output, line.cache_read, line.cache_write].map(number));
        }
        row.push(number(line.total_tokens));
        row
    };
    let mut rows: Vec<Vec<Text>> =
        report.lines.iter().map(|line| row(line, name(context, by, line), Style::Plain)).collect();
    rows.push(row(&report.total, Text::styled(Style::Bold, "total"), Style::Bold));
    context.output.table(0, &columns, rows)?;
    Ok(())
}

fn name(context: &Context, by: By, line: &UsageLine) -> Text {
    match (by, &line.session) {
        (By::Project, _) if line.group.starts_with('/') => Text::plain(context.show(&line.group)),
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
        By::Daily => "day",
        By::Monthly => "month",
        By::Session => "session",
        By::Model => "model",
        By::Project => "project",
        By::Agent => "agent",
    };
    count(number as u64, what)
}
