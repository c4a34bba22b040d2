//! `quipu usage`: tokens and cost.

mod chart;
mod notes;
mod period;

use clap::ValueEnum;
use quipu_ledger::wire::{UsageLine, UsageReport};
use quipu_ledger::{UsageBy, UsageRequest};

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::{Column, Look, ShortIds, Text, count, day, dollars, short};
use crate::{filters, reading, zone};

/// Show tokens and cost
///
/// Each API response counts once, however many files repeat it; sub-agents
/// count with the session they work for. Costs are those that agents recorded;
/// where they did not, the published price of the model (list of the day that
/// is named below the table, `[prices]` of the configuration comes before it).
/// A model without a price shows its tokens and says so. Days and months are
/// those of your time zone.
///
/// `--json` prints one object per group, all of them, and a last one `total`.
///
/// Examples:
///   quipu usage
///   quipu usage monthly --agent claude-code
///   quipu usage session --since 7d
///   quipu usage model --json | jq -r '[.group, .cost_usd] | @tsv'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// What to add up by
    #[arg(value_enum, default_value = "daily")]
    by: By,

    /// From then on: 3d, yesterday, 2026-11-01
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,

    /// Until then, a named day or month included
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,

    /// Only of projects of this name: any part of it, or a path
    #[arg(long, value_name = "NAME")]
    project: Option<String>,

    /// Only of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,

    /// Only of sessions in this format (see `quipu formats`)
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,

    /// All groups, not only the last 30 days or the dearest 20
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    reading: reading::Args,
}

/// What to add up by.
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

/// How many groups a person sees without `--all`.
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
    let Some(mut report) = quipu_ledger::usage(&reading.ledger, &request)? else {
        let mut error = CommandError::new("no session is like that")
            .hint("`quipu projects` lists all projects and their agents");
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
    if report.total.responses == 0 {
        if reading.ledger.is_empty()? {
            return super::sync::nothing_found(context, None);
        }
        context.output.line(format!("nothing was used {}", asked.words))?;
        if asked.is_recent {
            let all = format!("`{}` shows all days", context.shell.plain("usage --all"));
            context.output.line(Text::of(Look::Dim, all))?;
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

/// What was counted at a person's own prices.
#[derive(Debug, Default)]
struct Own {
    usd: f64,
    models: Vec<String>,
}

/// Adds up by model what own prices hold for, if there are any.
fn own(reading: &reading::Reading, request: &UsageRequest<'_>, all: &UsageReport) -> Result<Own> {
    let mut own = Own::default();
    if !all.total.models.iter().any(|model| request.prices.is_own(model)) {
        return Ok(own);
    }
    let request = UsageRequest { by: UsageBy::Model, zone: request.zone.clone(), ..*request };
    for line in quipu_ledger::usage(&reading.ledger, &request)?.into_iter().flat_map(|it| it.lines)
    {
        let cost = line.cost_usd.unwrap_or(0.0) - line.recorded_usd;
        if request.prices.is_own(&line.group) && cost > 1e-9 {
            own.usd += cost;
            own.models.push(line.group);
        }
    }
    Ok(own)
}

/// Leaves out what is not worth a line. Returns how many groups.
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
    let heading = Text::of(Look::Bold, "Usage").with(Look::Dim, format!("  {}", asked.words));
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
    let row = |line: &UsageLine, name: Text, look: Look| {
        let mut row = vec![name];
        if layout.has_last {
            let id = ids.of(&line.group);
            let last = line.session.as_ref().and_then(|session| session.updated_at).map(day);
            let is_total = line.by == "total";
            row.push(Text::of(Look::Good, if is_total { String::new() } else { id }));
            row.push(Text::of(Look::Dim, last.unwrap_or_default()));
        }
        row.push(cost(line, look));
        if layout.bar > 0 {
            let part = line.cost_usd.filter(|_| line.by != "total").unwrap_or(0.0) / most;
            row.push(Text::of(Look::Good, chart::bar(part, layout.bar)));
        }
        let number = |tokens: u64| match tokens {
            // A day without anything has no numbers.
            _ if line.responses == 0 => Text::default(),
            0 => Text::of(Look::Dim, "–"),
            tokens => Text::of(look, short(tokens)),
        };
        if layout.has_kinds {
            row.extend([line.input, line.output, line.cache_read, line.cache_write].map(number));
        }
        row.push(number(line.total_tokens));
        row
    };
    let mut rows: Vec<Vec<Text>> =
        report.lines.iter().map(|line| row(line, name(context, by, line), Look::Plain)).collect();
    rows.push(row(&report.total, Text::of(Look::Bold, "total"), Look::Bold));
    context.output.table(0, &columns, rows)?;
    Ok(())
}

fn name(context: &Context, by: By, line: &UsageLine) -> Text {
    match (by, &line.session) {
        (By::Project, _) if line.group.starts_with('/') => Text::plain(context.show(&line.group)),
        (By::Session, Some(session)) => match session.title.as_deref().map(first_line) {
            Some(title) if !title.is_empty() => Text::plain(title),
            _ => Text::of(Look::Dim, "(no title)"),
        },
        _ => Text::plain(&line.group),
    }
}

/// What a group cost. A star says that something has no price.
fn cost(line: &UsageLine, look: Look) -> Text {
    match line.cost_usd {
        _ if line.responses == 0 => Text::of(Look::Dim, "–"),
        None => Text::of(Look::Warning, "no price"),
        Some(cost) if line.unpriced_tokens > 0 => {
            Text::of(look, dollars(cost)).with(Look::Warning, "*")
        }
        Some(cost) => Text::of(look, dollars(cost)),
    }
}

/// Titles are one line; a first prompt may have more.
fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}

/// How many groups, in words.
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
