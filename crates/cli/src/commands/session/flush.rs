//! `quipu session flush`: ask the model for notes about a session, and store them.

use std::sync::{Arc, Mutex, PoisonError};

use quipu_ledger::store::{Flush, FlushPlan, Store, StoreEvent, plan_flush_of};
use quipu_ledger::wire::PlannedFlush;

use super::super::Context;
use super::{compaction_settings, open_to_read, open_to_write};
use crate::error::{CommandError, Result};
use crate::output::{Style, Text, count};
use crate::summarisers;

/// Ask the model for notes about a session, and store them
///
/// The configured summariser gets the session's context and the configured
/// prompt. Its answer is appended to memory/YYYY-MM-DD.md of the agent's
/// workspace; NO_REPLY stores nothing. This is done once between two compactions:
/// by this command, by `append --auto-compact` shortly before a compaction is
/// due, or else by the compaction itself.
///
/// The workspace is that of [store.workspaces] in the configuration, or a folder
/// beside the ledger. Without a model, nothing is asked.
///
/// Examples:
///   quipu session flush agent:main:main
///   quipu session flush 640a --dry-run
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// A session id or an unambiguous beginning of one, a session key, or `last`
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// The size of the model's context window
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..))]
    window: Option<u64>,

    /// Print what the model would be asked and where the notes would be, and ask nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let settings = compaction_settings(context, args.window)?;
    let summariser = summarisers::configured(&context.settings.store.summariser)?;
    if args.dry_run {
        let (ledger, row) = open_to_read(context, &args.id)?;
        let plan = plan_flush_of(&ledger, row, &settings)?;
        return dry_run(context, &plan);
    }
    let session = open_to_write(context, &args.id)?;
    let flush = session.flush(&settings, &*summariser)?;
    if let Flush::Failed { reason } = &flush {
        return Err(CommandError::new(format!("no notes were stored: {reason}")));
    }
    if context.is_json {
        return Ok(context.output.json(&flush)?);
    }
    let headline = Text::plain("session ").with(Style::Bold, session.id());
    Ok(context.output.line(headline.and(format!(": {flush}")))?)
}

/// The last notes that a flush stored. The error of a compaction that follows does not have them.
#[derive(Default)]
pub(super) struct StoredNotes(Arc<Mutex<Option<Flush>>>);

impl StoredNotes {
    /// Hears of the notes that a store stores from now on.
    pub(super) fn of(store: &Store) -> StoredNotes {
        let notes = StoredNotes::default();
        let heard = Arc::clone(&notes.0);
        store.listen(move |event| {
            if let StoreEvent::MemoryFlush { flush: flush @ Flush::Stored { .. }, .. } = event {
                *heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(flush.clone());
            }
        });
        notes
    }

    /// Returns the notes that were stored since the last call.
    pub(super) fn take(&self) -> Option<Flush> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Adds them to the error of a compaction.
    pub(super) fn hint(&self, error: CommandError) -> CommandError {
        match self.take() {
            Some(flush) => {
                error.hint(format!("before that, the model was asked for notes: {flush}"))
            }
            None => error,
        }
    }
}

/// Warns of notes that could not be stored.
pub(super) fn warn(context: &Context, flush: &Flush) {
    if let Flush::Failed { reason } = flush {
        context.output.warn(&format!("no notes were stored: {reason}"), None);
    }
}

fn dry_run(context: &mut Context, plan: &FlushPlan) -> Result<()> {
    let kind = context.settings.store.summariser.kind.unwrap_or("digest");
    if context.is_json {
        return Ok(context.output.json(&PlannedFlush {
            is_dry_run: true,
            summariser: kind,
            path: &plan.file.to_string_lossy(),
            prompt: &plan.prompt,
            messages: plan.messages(),
            context_tokens: plan.tokens,
            limit_tokens: plan.limit,
            was_asked: plan.is_done,
        })?);
    }
    let when = match (plan.is_done, plan.limit) {
        (true, _) => "made before, since the last compaction".to_owned(),
        (false, Some(limit)) if plan.tokens >= limit => {
            format!("now: from {} on", count(limit, "token"))
        }
        (false, Some(limit)) => format!("from {} on", count(limit, "token")),
        (false, None) => "before the next compaction".to_owned(),
    };
    let messages = count(plan.messages() as u64, "message");
    let facts = [
        ("file", Text::plain(plan.file.display().to_string())),
        ("summariser", Text::plain(kind)),
        ("about", Text::plain(format!("{messages}, {}", count(plan.tokens, "token")))),
        ("due", Text::plain(when)),
        ("prompt", Text::plain(&plan.prompt)),
    ];
    Ok(context.output.facts(0, &facts)?)
}
