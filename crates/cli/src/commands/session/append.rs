//! `quipu session append`, `begin` and `mirror`: append messages.

use std::io::{BufRead, Read};

use quipu_ledger::store::{
    Append, Appended, Compact, Compacted, CompactionSettings, Entry, Expect, Flush, Session,
    Summariser,
};
use quipu_ledger::wire::AppendedAndMore;
use quipu_transcript::native::NewEntry;

use super::super::Context;
use super::flush::StoredNotes;
use super::{AppendArgs, open_to_write, print_appended};
use crate::error::{CommandError, Kind, Result};
use crate::summarisers;

/// Limit for one line of standard input, or for all of it where it is one message, in bytes.
const MAX_INPUT_BYTES: u64 = 64 << 20;

/// Append entries or messages to a session
///
/// Reads one JSON object per line from standard input: an entry in pi's format
/// (message, model_change, thinking_level_change, compaction, branch_summary,
/// custom, custom_message, label, session_info, usage, context_edit, leaf,
/// reset), or a bare message. Prints {id, seq, leaf} for each entry once it is on
/// disk. Stops at the first line that is refused; entries printed before it stay.
///
/// With --auto-compact, a session that exceeds its limit is compacted before the
/// entry is printed; the printed object then includes the compaction and the new
/// leaf. If the compaction fails, the entry is stored anyway, and printed with
/// `compaction_due`. Shortly before a compaction is due, the model is asked for
/// notes once, as by `quipu session flush`.
///
/// Examples:
///   echo '{"role":"assistant","content":"hi"}' | quipu session append 640a
///   quipu session append 640a --expect-leaf 65a08635 --key run-7 < answer.jsonl
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// A session id or an unambiguous beginning of one, a session key, or `last`
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    #[command(flatten)]
    how: AppendArgs,

    /// Compact the session when that is due, before the entry is printed
    #[arg(long)]
    auto_compact: bool,

    /// The size of the model's context window
    #[arg(long, value_name = "TOKENS", requires = "auto_compact", value_parser = clap::value_parser!(u64).range(1..))]
    window: Option<u64>,
}

/// Begin a turn with a user's message
///
/// Like append, but if the last user message got no answer because a run failed,
/// that message is left on a side branch, so that roles alternate.
///
/// Example:
///   echo '{"role":"user","content":"hello"}' | quipu session begin 640a
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct BeginArgs {
    /// A session id or an unambiguous beginning of one, a session key, or `last`
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// The user's text [default: a message as JSON from standard input]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    text: Option<String>,

    #[command(flatten)]
    how: AppendArgs,
}

/// Record a message that was sent to a channel
///
/// It is stored as an assistant message without a model and without cost
/// (OpenClaw calls it a delivery mirror).
///
/// Example:
///   quipu session mirror agent:main:main 'Your build is done.'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct MirrorArgs {
    /// A session id or an unambiguous beginning of one, a session key, or `last`
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// The text that was sent [default: read from standard input]
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    text: Option<String>,

    #[command(flatten)]
    how: AppendArgs,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let session = open_to_write(context, &args.id)?;
    let compactor = match args.auto_compact {
        true => Some(Compactor::new(context, &session, args.window)?),
        false => None,
    };
    let mut input = std::io::stdin().lock();
    let mut leaf: Option<Option<String>> = None;
    let mut number = 0_u64;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut input).take(MAX_INPUT_BYTES).read_until(b'\n', &mut line);
        if read.map_err(|error| {
            CommandError::from_source(error.into()).about("cannot read standard input")
        })? == 0
        {
            return Ok(());
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        number += 1;
        let text = std::str::from_utf8(&line).map_err(|_| {
            CommandError::new(format!("line {number} is not UTF-8; nothing of it was written"))
        })?;
        // Each line continues from the one before.
        let expected_leaf = match (&args.how.expect_leaf, &leaf) {
            (None, _) => Expect::Any,
            (Some(first), None) => super::expect(first),
            (Some(_), Some(None)) => Expect::Root,
            (Some(_), Some(Some(last))) => Expect::Entry(last),
        };
        // Part 0, so that a retry with only this line finds it.
        let part = if number == 1 { 0 } else { number };
        let how = Append { expected_leaf, key: args.how.key.as_deref(), part };
        let appended = session.with(how).append(Entry::json(text));
        let appended = match (appended, &compactor) {
            (Ok(appended), Some(compactor)) => compactor.print(context, &session, appended),
            (appended, _) => print_appended(context, appended),
        };
        let appended = appended.map_err(closed_output_fails).map_err(|error| match number {
            1 => error,
            number => error.about(format!("line {number}")),
        })?;
        // Flushed, because the caller may wait for this answer before it sends the next line.
        context.output.flush().map_err(|error| closed_output_fails(error.into()))?;
        // Later entries may follow one that was appended by an earlier call. The next line still
        // continues from the leaf right after it.
        leaf = Some(if appended.repeated { leaf_after(text, appended) } else { appended.leaf });
    }
}

/// Compacts a session, or asks for its notes, when an append reports that it is due.
struct Compactor {
    settings: CompactionSettings,
    summariser: Box<dyn Summariser>,
    notes: StoredNotes,
}

impl Compactor {
    fn new(context: &Context, session: &Session, window: Option<u64>) -> Result<Compactor> {
        let settings = super::compaction_settings(context, window)?;
        session.store().set_compaction(Some(settings.clone()));
        let summariser = summarisers::configured(&context.settings.store.summariser)?;
        Ok(Compactor { settings, summariser, notes: StoredNotes::of(session.store()) })
    }

    /// Compacts or flushes if that is due, then prints the entry.
    fn print(
        &self,
        context: &mut Context,
        session: &Session,
        mut appended: Appended,
    ) -> Result<Appended> {
        self.notes.take();
        let compaction = match appended.compaction_due {
            true => self.compact(context, session),
            false => None,
        };
        // A compaction has its own flush. If it fails, the notes are stored anyway.
        let memory_flush = match (appended.compaction_due, appended.flush_due) {
            (true, _) if compaction.is_none() => self.notes.take(),
            (false, true) => self.flush(context, session),
            _ => None,
        };
        appended.flush_due = false;
        if let Some(compaction) = &compaction {
            appended.compaction_due = false;
            appended.leaf.clone_from(&compaction.appended.leaf);
        }
        let (compaction, memory_flush) = (compaction.as_ref(), memory_flush.as_ref());
        context.output.json(&AppendedAndMore { appended: &appended, compaction, memory_flush })?;
        Ok(appended)
    }

    fn compact(&self, context: &Context, session: &Session) -> Option<Compacted> {
        let wanted = Compact { is_due: true, ..Compact::default() };
        match session.compact_now(&self.settings, &wanted, &*self.summariser) {
            Ok(compacted) => {
                compacted.iter().for_each(|compacted| super::compact::warn(context, compacted));
                compacted
            }
            Err(error) => {
                let warning = format!("the session was not compacted: {error}");
                context.output.warn(&warning, None);
                None
            }
        }
    }

    fn flush(&self, context: &Context, session: &Session) -> Option<Flush> {
        match session.flush(&self.settings, &*self.summariser) {
            // There is nothing to report: another process has made it, or nothing can be asked.
            Ok(Flush::Done | Flush::Skipped { .. }) => None,
            Ok(flush) => {
                super::flush::warn(context, &flush);
                Some(flush)
            }
            Err(error) => {
                context.output.warn(&format!("no notes were asked for: {error}"), None);
                None
            }
        }
    }
}

/// Returns the leaf right after an entry that an earlier call had appended.
fn leaf_after(line: &str, before: Appended) -> Option<String> {
    match NewEntry::read(line) {
        Ok(NewEntry { leaf_target: Some(target), .. }) => target,
        Ok(NewEntry { is_side: true, .. }) => before.leaf,
        _ => Some(before.id),
    }
}

/// Turns a closed standard output into a failure: the caller cannot know what was written.
fn closed_output_fails(error: CommandError) -> CommandError {
    match error.kind {
        Kind::PipeClosed => CommandError::new(
            "standard output was closed; lines after the last printed answer were not written",
        ),
        _ => error,
    }
}

pub(super) fn begin(args: &BeginArgs, context: &mut Context) -> Result<()> {
    let message = match &args.text {
        Some(text) => Entry::user(text),
        None => Entry::json(standard_input()?),
    };
    let session = open_to_write(context, &args.id)?;
    let begun = session.with(args.how.append()).begin_turn(message);
    print_appended(context, begun).map(|_| ())
}

pub(super) fn mirror(args: &MirrorArgs, context: &mut Context) -> Result<()> {
    let text = match &args.text {
        Some(text) => text.clone(),
        None => text_input()?,
    };
    let session = open_to_write(context, &args.id)?;
    let mirrored = session.with(args.how.append()).mirror(&text);
    print_appended(context, mirrored).map(|_| ())
}

/// Reads standard input as text, without the newline at its end.
pub(super) fn text_input() -> Result<String> {
    let mut text = standard_input()?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// Reads all of standard input, up to the limit for an entry.
pub(super) fn standard_input() -> Result<String> {
    let mut text = Vec::new();
    let read = std::io::stdin().lock().take(MAX_INPUT_BYTES).read_to_end(&mut text);
    read.map_err(|error| {
        CommandError::from_source(error.into()).about("cannot read standard input")
    })?;
    String::from_utf8(text).map_err(|_| CommandError::new("standard input is not UTF-8"))
}
