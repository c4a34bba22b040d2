//! `quipu show`: the story of a session.

mod counts;
pub(super) mod page;
mod tools;

use std::ops::ControlFlow;

use clap::ValueEnum;
use quipu_ledger::query::{Choice, Story};
use quipu_ledger::wire::{ShownEntry, StoryCounts};
use quipu_transcript::entry;
use quipu_transcript::story::StoryDetail;

use self::page::Page;
use super::Context;
use crate::error::{CommandError, Result};
use crate::{detail, reading};

/// Show the messages and tool calls of a session
///
/// Shows what the user and the agent wrote, and one line for each tool call.
/// `✗` marks a call that failed, `!` a result that only mentions an error.
/// Thinking, tool output, reminders and copies of answers sent to a chat are
/// hidden by default. Entries are in the order of the agent's file; `↶` marks a
/// rewind. `--json` prints one object per entry.
///
/// SESSION is an id or the beginning of one, a session key, or `last`.
///
/// Examples:
///   quipu show last
///   quipu show 640ab4c7 --role user
///   quipu show 640ab4c7 --turn 3 --full
///   quipu show 640ab4c7 --entry 3fa9 --raw | jq .
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
#[group(skip)]
pub(crate) struct Args {
    /// The session to show
    #[arg(value_name = "SESSION", allow_hyphen_values = true)]
    session: String,

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

    /// Show only the last N messages
    #[arg(long, value_name = "N")]
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
    fn choice(&self) -> Choice {
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
        }
    }
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let reading = reading::open(context, args.reading)?;
    let session = reading.name(context, &args.session)?;
    let story = Story::find(&reading.ledger, &session)?;
    let mut choice = args.choice();
    // A name that matches nothing is reported before anything is printed.
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
    if args.entry.is_some() {
        // A single entry is shown in full.
        choice.detail = StoryDetail::FULL;
    }
    if context.is_json {
        return each(|emit| {
            story.each_item(&choice, &mut |item| {
                emit(reading.json(context, &ShownEntry::of(item, choice.detail)))
            })
        });
    }
    context.output.page()?;
    let mut page = Page::new(&choice, reading.short_ids()?, context);
    page.head(story.head())?;
    each(|emit| story.each_item(&choice, &mut |item| emit(page.item(item))))?;
    page.end()
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

/// Runs `emit` until printing fails.
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
