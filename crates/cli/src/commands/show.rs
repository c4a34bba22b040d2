//! `quipu show`: the story of a session.

mod changes;
mod counts;
mod images;
pub(super) mod page;
mod tools;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use quipu_ledger::query::{Choice, Story};
use quipu_ledger::wire::{ShownEntry, StoryCounts};
use quipu_transcript::entry;
use quipu_transcript::story::{StoryDetail, StoryItem};

use self::changes::Changes;
use self::images::Images;
use self::page::Page;
use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::reading::Reading;
use crate::{detail, reading};

/// Show the messages and tool calls of a session
///
/// Shows what the user and the agent wrote, and one line for each tool call.
/// `✗` marks a call that failed, `!` a result that only mentions an error.
/// Thinking, tool output, reminders and copies of answers sent to a chat are
/// hidden by default. Entries are in the order of the agent's file; `↶` marks a
/// rewind. `--json` prints one object per entry.
///
/// SESSION is an id or the beginning of one, a session key, or `last`. Without
/// it, the last session of this folder is shown; on a terminal you choose one.
///
/// Examples:
///   quipu show
///   quipu show last --prompts
///   quipu show b20f --turn 3 --full
///   quipu show b20f --changes | less
///   quipu show b20f --entry 9aff --raw | jq .
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
#[group(skip)]
pub(crate) struct Args {
    /// The session to show
    #[arg(value_name = "SESSION", allow_hyphen_values = true)]
    session: Option<String>,

    #[command(flatten)]
    detail: detail::Args,

    /// Show only the path from the root to this entry: an id, its beginning, or `leaf`
    #[arg(long, value_name = "ENTRY")]
    branch: Option<String>,

    /// Show only turn N, counted from 1
    #[arg(long, value_name = "N", conflicts_with = "last")]
    turn: Option<u64>,

    /// Show only this entry
    #[arg(long, value_name = "ENTRY", conflicts_with_all = ["branch", "turn", "last", "role"])]
    entry: Option<String>,

    /// Show this entry in full, with the entries around it
    #[arg(long, value_name = "ENTRY", conflicts_with_all = ["branch", "turn", "entry", "last", "role"])]
    at: Option<String>,

    /// With --at, show N entries before it and after it
    #[arg(long, short = 'C', value_name = "N", default_value_t = 3)]
    context: u64,

    /// Show only what a person asked
    #[arg(long, conflicts_with_all = ["role", "entry", "at", "raw"])]
    prompts: bool,

    /// Show all edits of the session as one patch per file
    #[arg(long, conflicts_with_all = ["role", "entry", "at", "raw", "prompts", "count"])]
    changes: bool,

    /// Write the pictures of the session into this folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["raw", "prompts", "count", "changes"])]
    images: Option<PathBuf>,

    /// Show only the last N messages
    #[arg(long, short = 'n', value_name = "N")]
    last: Option<u64>,

    /// Show only entries of this role
    #[arg(long, value_enum)]
    role: Option<RoleArg>,

    /// Print counts instead of entries
    #[arg(long, conflicts_with = "raw")]
    count: bool,

    /// Print the raw records of the entries, byte for byte
    #[arg(long)]
    raw: bool,

    #[command(flatten)]
    reading: reading::Args,
}

/// A role.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum RoleArg {
    /// The user.
    User,
    /// The agent.
    Assistant,
    /// Tools.
    Tool,
}

impl Args {
    fn choice(&self, context: &Context) -> Choice {
        Choice {
            detail: self.detail.story_detail(StoryDetail::DEFAULT),
            role: self.role.map(|role| match role {
                RoleArg::User => entry::Role::User,
                RoleArg::Assistant => entry::Role::Assistant,
                RoleArg::Tool => entry::Role::Tool,
            }),
            turn: self.turn,
            last: self.last,
            branch: self.branch.clone(),
            entry: self.entry.clone(),
            at: self.at.clone(),
            around: self.context,
            after: None,
            before: None,
            // Only JSON has what is counted for each entry.
            prices: context.is_json.then(|| context.prices()),
        }
    }
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let reading = reading::open(context, args.reading)?;
    let session = reading.name_or_here(context, args.session.as_deref())?;
    let story = Story::find(&reading.ledger, &session)?;
    let mut choice = args.choice(context);
    // Fails for a turn or an entry that does not exist, before anything is printed.
    story.check(&choice)?;
    if args.count {
        let mut counts = StoryCounts::default();
        story.each_item(&choice, &mut |item| {
            counts.add(item);
            ControlFlow::Continue(())
        })?;
        return counts::show(&story, &counts, &reading, context);
    }
    if args.raw {
        return raw(&story, &choice, context);
    }
    if let Some(folder) = &args.images {
        return images(&story, &choice, folder, &reading, context);
    }
    if args.changes {
        return changes(&story, &choice, &reading, context);
    }
    if args.entry.is_some() {
        // A single entry is shown in full.
        choice.detail = StoryDetail::FULL;
    }
    let is_wanted = |item: &StoryItem<'_>| !args.prompts || item.is_asked();
    let at = args.at.as_deref().map(|name| story.entry(name)).transpose()?;
    if context.is_json {
        return each(|emit| {
            story.each_item(&choice, &mut |item| {
                if !is_wanted(item) {
                    return ControlFlow::Continue(());
                }
                let detail = if at == Some(item.entry) { StoryDetail::FULL } else { choice.detail };
                emit(reading.json(context, &ShownEntry::of(item, detail)))
            })
        });
    }
    match at {
        Some(_) => context.output.page_to_mark()?,
        None => context.output.page()?,
    }
    let cost = quipu_ledger::query::cost_of(&reading.ledger, &context.prices(), story.row())?;
    let id = context.linked_id(&reading.ledger, Some(story.row()), &story.head().session_id);
    let mut page = Page::new(&choice, reading.short_ids()?, context);
    page.mark_entry(at);
    page.head(story.head(), id, cost)?;
    each(|emit| {
        story.each_item(&choice, &mut |item| match is_wanted(item) {
            true => emit(page.item(item)),
            false => ControlFlow::Continue(()),
        })
    })?;
    page.end()
}

/// Prints all edits of the chosen entries.
fn changes(
    story: &Story<'_>,
    choice: &Choice,
    reading: &Reading,
    context: &mut Context,
) -> Result<()> {
    let mut changes = Changes::default();
    story.each_item(choice, &mut |item| {
        changes.add(item);
        ControlFlow::Continue(())
    })?;
    if changes.is_empty() {
        return Err(nothing(
            "no edits in this session",
            "changes that were made by running programs are not recorded as edits",
        ));
    }
    changes.show(context, reading)
}

/// Writes the pictures of the chosen entries.
fn images(
    story: &Story<'_>,
    choice: &Choice,
    folder: &Path,
    reading: &Reading,
    context: &mut Context,
) -> Result<()> {
    let mut found = Images::default();
    let mut line = Vec::new();
    story.raw(choice, &mut |part| {
        line.extend_from_slice(part);
        if line.ends_with(b"\n") {
            found.add(&std::mem::take(&mut line));
        }
        ControlFlow::Continue(())
    })?;
    found.add(&line);
    if found.is_empty() {
        return Err(nothing("no pictures in this session", "`quipu show ID --count` counts them"));
    }
    found.write(folder, &story.head().session_id, context, reading)
}

fn nothing(what: &str, hint: &str) -> CommandError {
    let mut error = CommandError::new(what).hint(hint);
    error.kind = Kind::NoMatch;
    error
}

/// Prints the raw records of the entries.
fn raw(story: &Story<'_>, choice: &Choice, context: &mut Context) -> Result<()> {
    let mut line = Vec::new();
    each(|emit| {
        story.raw(choice, &mut |part| {
            if !context.output.is_seen() {
                return emit(context.output.exact(part).map_err(Into::into));
            }
            line.extend_from_slice(part);
            if line.ends_with(b"\n") {
                return emit(context.output.exact(&std::mem::take(&mut line)).map_err(Into::into));
            }
            ControlFlow::Continue(())
        })
    })?;
    Ok(context.output.exact(&line)?)
}

/// Calls `run` with a function that stops it at the first error. Returns that error.
fn each(
    run: impl FnOnce(&mut dyn FnMut(Result<()>) -> ControlFlow<()>) -> quipu_ledger::Result<()>,
) -> Result<()> {
    let mut failed: Option<CommandError> = None;
    run(&mut |shown| match shown {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok(()), Err)
}
