//! `quipu problems`: oddities of source files, and where they are.

use quipu_ledger::wire::FoundProblem;
use quipu_transcript::problem::ProblemKind;

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::{Style, Text, count, number};
use crate::{reading, shell};

/// Number of problems of one kind that are listed without `-n`.
const DEFAULT_PER_KIND: usize = 5;

/// List oddities of source files, and what was done about each
///
/// For each problem: its kind, the file and the line, what was done about it,
/// and a command that prints the stored bytes. A problem never stops quipu: the
/// bytes are stored in any case.
///
/// Examples:
///   quipu problems
///   quipu problems --kind opaque -n 0
///   quipu problems --json | jq -r '[.kind, .path, .line] | @tsv'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Only problems of this kind
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,

    /// List at most N problems of each kind, with --json N in all; 0 for all [default: 5; all with
    /// --json]
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,

    #[command(flatten)]
    reading: reading::Args,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let kind = args.kind.as_deref().map(kind).transpose()?;
    let reading = reading::open(context, args.reading)?;
    let found = quipu_ledger::query::problems(&reading.ledger, kind)?;
    if found.is_empty() {
        reading.refuse_if_behind()?;
        let what = match kind {
            Some(kind) => format!("no problems of the kind `{kind}`"),
            None if !context.is_json => {
                let none = format!("No problems in source files{}", reading.missing_note());
                return Ok(context.output.line(Text::styled(Style::Good, none))?);
            }
            None => "no problems in source files".to_owned(),
        };
        let mut error = CommandError::new(format!("{what}{}", reading.missing_note()))
            .hint("`quipu doctor` checks the ledger itself");
        error.kind = Kind::NoMatch;
        return Err(error);
    }
    if context.is_json {
        for problem in
            found.iter().take(args.limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX))
        {
            reading.json(context, problem)?;
        }
        return Ok(());
    }
    let limit = match args.limit {
        Some(0) => usize::MAX,
        limit => limit.unwrap_or(DEFAULT_PER_KIND),
    };
    context.output.page()?;
    let mut is_first = true;
    for group in found.chunk_by(|one, other| one.kind == other.kind) {
        if !std::mem::take(&mut is_first) {
            context.output.gap()?;
        }
        show(context, group, limit)?;
    }
    Ok(())
}

/// Parses the name of a kind.
fn kind(name: &str) -> Result<ProblemKind> {
    let lower = name.to_lowercase().replace('-', "_");
    let found = ProblemKind::ALL.iter().find(|kind| kind.as_str() == lower);
    found.copied().ok_or_else(|| {
        let kinds: Vec<&str> = ProblemKind::ALL.iter().map(|kind| kind.as_str()).collect();
        CommandError::new(format!("`{name}` is not a kind of problem"))
            .hint(format!("the kinds are {}", kinds.join(", ")))
    })
}

/// Prints the problems of one kind.
fn show(context: &mut Context, problems: &[FoundProblem], limit: usize) -> Result<()> {
    let Some(first) = problems.first() else { return Ok(()) };
    let heading = Text::styled(Style::Bold, &first.kind)
        .with(Style::Warning, format!("  {}", count(problems.len() as u64, "time")))
        .and(format!("  {}", first.meaning));
    context.output.hanging(0, &heading)?;
    for problem in problems.iter().take(limit) {
        context.output.hanging(2, &place(context, problem))?;
        if let Some(command) = command(context, problem) {
            context.output.command("    ", &command)?;
        }
    }
    let more = problems.len().saturating_sub(limit);
    if more > 0 {
        let kind = shell::option("--kind", &first.kind);
        let all = context.shell.plain(&format!("problems {kind} -n 0"));
        let more = format!("  and {} more; `{all}` lists all", number(more as u64));
        context.output.line(Text::styled(Style::Dim, more))?;
    }
    Ok(())
}

/// Describes where a problem is: `~/a.jsonl:7`.
fn place(context: &Context, problem: &FoundProblem) -> Text {
    let mut text = match &problem.path {
        Some(path) => context.linked(path),
        None => Text::plain("(forgotten)"),
    };
    match (problem.line, problem.offset) {
        (Some(line), _) => text = text.and(format!(":{line}")),
        (None, Some(offset)) => text = text.and(format!(", byte {}", number(offset))),
        (None, None) => {}
    }
    match problem.detail.as_str() {
        "" => text,
        detail => text.with(Style::Dim, format!("  {detail}")),
    }
}

/// Returns the command that shows the bytes: of the line, or of all generations of the file.
fn command(context: &Context, problem: &FoundProblem) -> Option<String> {
    if let Some(record) = problem.seq {
        return Some(context.shell.plain(&format!("sql 'SELECT raw({record})'")));
    }
    let source = shell::option("--source", problem.path.as_ref()?);
    Some(context.shell.plain(&format!("restore {source} --generation all --to restored")))
}
