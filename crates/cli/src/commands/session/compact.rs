//! `quipu session compact`: replaces the beginning of a context by a summary.

use quipu_ledger::store::{
    Compact, Compacted, CompactionPlan, CompactionSettings, Fork, Store, plan_compaction_of,
};
use quipu_ledger::wire::{CompactionResult, PlannedCompaction};
use quipu_transcript::routing::settings::CompactionMode;

use super::super::Context;
use super::context::message_row;
use super::flush::StoredNotes;
use super::{compaction_settings, conflict, open_to_read, open_to_write};
use crate::error::{CommandError, Result};
use crate::output::{Column, Style, Text, count, number};
use crate::summarisers;

/// Replace the beginning of a session's context by a summary
///
/// Appends one `compaction` entry; nothing is deleted. Recent messages stay, a
/// call stays with its results, and a turn that is too long is split. The
/// configuration names the summariser; by default, quipu itself selects lines of
/// the conversation, without a model. Other writers do not wait for the summary.
/// Before that, the model is asked for notes, as by `quipu session flush`.
///
/// With `--reason overflow --tokens N`, a model has refused the context and
/// counted N tokens: as many messages as fit are kept.
///
/// Examples:
///   quipu session compact agent:main:main
///   quipu session compact 640a --dry-run
///   quipu session compact 640a --reason overflow --tokens 201388
///   quipu session compact 640a --fork
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// A session id or an unambiguous beginning of one, a session key, or `last`
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// The topic of the summary, for example `the failing test`
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    instructions: Option<String>,

    /// Tokens of recent messages to keep [default: keep_recent_tokens of the configuration]
    #[arg(long, value_name = "TOKENS")]
    keep: Option<u64>,

    /// The reason for the compaction
    #[arg(
        long,
        value_name = "REASON",
        default_value = "manual",
        requires_if("overflow", "tokens")
    )]
    reason: ReasonArg,

    /// The tokens of the context, as counted by the model that refused it
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..))]
    tokens: Option<u64>,

    /// The size of the model's context window
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..))]
    window: Option<u64>,

    /// Fork the session, which may be a collected one, compact the fork and print its id
    #[arg(long)]
    fork: bool,

    /// Print what would be summarised, and write nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ReasonArg {
    /// A person or a runtime asks for it
    Manual,
    /// A model refused the context
    Overflow,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    if args.tokens.is_some() && args.reason == ReasonArg::Manual {
        return Err(CommandError::new("--tokens needs --reason overflow")
            .hint("it is the size of a context that a model refused"));
    }
    let mut settings = compaction_settings(context, args.window)?;
    settings.rules.keep_recent_tokens = args.keep.or(settings.rules.keep_recent_tokens);
    let instructions = args.instructions.as_deref();
    let wanted = Compact { instructions, refused: args.tokens, is_due: false };
    let summariser = summarisers::configured(&context.settings.store.summariser)?;
    if args.dry_run {
        return dry_run(args, context, &settings, &wanted);
    }
    let compacted = if args.fork {
        let store = Store::open(&context.settings.ledger.value)?;
        let fork = Fork::default();
        let notes = StoredNotes::of(&store);
        let made = store.compact_fork(&args.id, &fork, &settings, &wanted, &*summariser);
        let made = made.map_err(|error| notes.hint(error.into()))?;
        made.map(|(forked, compacted)| (forked.session.id().to_owned(), compacted))
    } else {
        let session = open_to_write(context, &args.id)?;
        let notes = StoredNotes::of(session.store());
        let compacted = session.compact_now(&settings, &wanted, &*summariser);
        let compacted = compacted.map_err(|error| notes.hint(failed(context, error)))?;
        compacted.map(|compacted| (session.id().to_owned(), compacted))
    };
    match compacted {
        Some((session, compacted)) => {
            warn(context, &compacted);
            print(context, args, &session, &compacted)
        }
        None => nothing(context),
    }
}

/// Returns the error of a compaction. A conflict is also printed as JSON.
fn failed(context: &mut Context, error: quipu_ledger::Error) -> CommandError {
    let is_conflict = matches!(error, quipu_ledger::Error::Conflict { .. });
    let mut error = conflict(context, error);
    if is_conflict {
        error.hints = vec![
            "no compaction was written; run the command again, which plans for the new leaf"
                .to_owned(),
        ];
    }
    error
}

fn nothing(context: &mut Context) -> Result<()> {
    if context.is_json {
        let result = CompactionResult { is_compacted: false, session_id: None, compacted: None };
        return Ok(context.output.json(&result)?);
    }
    Ok(context.output.line("nothing to compact: every message stays")?)
}

/// Warns if the summary or the notes could not be made as configured.
pub(super) fn warn(context: &Context, compacted: &Compacted) {
    if let Some(why) = &compacted.digest_reason {
        let warning = format!("the digest was taken instead of the summariser's answer: {why}");
        context.output.warn(&warning, None);
    }
    if let Some(flush) = &compacted.memory_flush {
        super::flush::warn(context, flush);
    }
}

fn print(context: &mut Context, args: &Args, session: &str, compacted: &Compacted) -> Result<()> {
    if context.is_json {
        let result = CompactionResult {
            is_compacted: true,
            session_id: Some(session),
            compacted: Some(compacted),
        };
        return Ok(context.output.json(&result)?);
    }
    let headline = match args.fork {
        true => Text::plain("compacted the fork ").with(Style::Bold, session),
        false => Text::plain("compacted session ").with(Style::Bold, session),
    };
    context.output.line(headline)?;
    let mut facts = vec![
        ("entry", Text::plain(&compacted.appended.id)),
        ("kept from", Text::plain(&compacted.first_kept_entry_id)),
        ("before", Text::plain(count(compacted.tokens_before, "token"))),
    ];
    match compacted.tokens_after {
        Some(after) => facts.push(("after", Text::plain(count(after, "token")))),
        None => facts.push(("after", Text::plain("the same compaction was made before"))),
    }
    if let Some(flush) = &compacted.memory_flush {
        facts.push(("notes", Text::plain(flush.to_string())));
    }
    Ok(context.output.facts(2, &facts)?)
}

fn dry_run(
    args: &Args,
    context: &mut Context,
    settings: &CompactionSettings,
    wanted: &Compact<'_>,
) -> Result<()> {
    let (ledger, row) = open_to_read(context, &args.id)?;
    let planned = plan_compaction_of(&ledger, row, settings, wanted)?;
    // An open snapshot keeps the write-ahead log from shrinking, and a pager may be open for hours.
    drop(ledger);
    let Some(planned) = planned else { return nothing(context) };
    if context.is_json {
        return Ok(context.output.json(&shape_of(&planned))?);
    }
    let plan = &planned.plan;
    context.output.page()?;
    let headline = Text::plain("session ").with(Style::Bold, &planned.session);
    context.output.line(headline.and(" would be compacted"))?;
    let summarised = (plan.history.len() + plan.turn_prefix.len()) as u64;
    let mut facts = vec![
        ("before", Text::plain(count(plan.tokens_before, "token"))),
        ("summarised", Text::plain(count(summarised, "message"))),
    ];
    if plan.is_split_turn {
        let prefix = count(plan.turn_prefix.len() as u64, "message");
        facts.push(("split turn", Text::plain(format!("{prefix} of it, summarised separately"))));
    }
    if planned.mode == CompactionMode::Safeguard {
        facts.push(("chunks", Text::plain(number(planned.chunks() as u64))));
    }
    facts.push(("kept from", Text::plain(&plan.first_kept)));
    let kept = count(plan.tokens_kept, "token");
    let most = number(plan.summary_tokens);
    facts.push(("after", Text::plain(format!("{kept}, and a summary of at most {most}"))));
    context.output.facts(2, &facts)?;
    let messages = plan.history.iter().chain(&plan.turn_prefix);
    let rows = messages.enumerate().map(|(index, message)| message_row(index, message)).collect();
    let columns = [Column::numbers(""), Column::words(""), Column::title("")];
    Ok(context.output.table(0, &columns, rows)?)
}

/// Returns the shape of a plan.
fn shape_of(planned: &CompactionPlan) -> PlannedCompaction<'_> {
    let plan = &planned.plan;
    PlannedCompaction {
        is_dry_run: true,
        session_id: &planned.session,
        reason: planned.reason,
        mode: planned.mode.as_str(),
        chunks: planned.chunks(),
        first_kept_entry_id: &plan.first_kept,
        is_split_turn: plan.is_split_turn,
        compacted_messages: plan.compacted_count,
        tokens_before: plan.tokens_before,
        kept_tokens: plan.tokens_kept,
        summary_tokens: plan.summary_tokens,
        keep_tokens: plan.budget.keep,
        previous_summary: plan.previous_summary.as_deref(),
        history: &plan.history,
        turn_prefix: &plan.turn_prefix,
        read_files: &plan.files.read,
        modified_files: &plan.files.modified,
    }
}
