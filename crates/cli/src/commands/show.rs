//! `quipu show`: the story of a session.

mod counts;
pub(super) mod page;
mod tools;

use std::ops::ControlFlow;

use clap::ValueEnum;
use quipu_ledger::wire::{ShownEntry, StoryCounts};
use quipu_ledger::{Choice, Story};
use quipu_transcript::entry;
use quipu_transcript::story::Telling;

use self::page::Page;
use super::Context;
use crate::error::{CommandError, Result};
use crate::{reading, telling};

/// Show a session: who said what, and what was done
///
/// Keeps the human's words and the agent's words, and one line for each tool
/// call. `✗` marks a call that failed, `!` an answer that only mentions an error.
/// Thinking, tool output, reminders and the copies of answers that were sent to
/// a chat stay folded. Entries come in the order of the agent's file; `↶` marks
/// where the conversation went back. `--json` prints one object per entry.
///
/// SESSION is the beginning of an id, a session key, or `last`.
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
    /// The session
    #[arg(value_name = "SESSION", allow_hyphen_values = true)]
    session: String,

    #[command(flatten)]
    telling: telling::Args,

    /// Show only the way from the beginning to this entry: an id, its beginning, or `leaf`
    #[arg(long, value_name = "ENTRY")]
    branch: Option<String>,

    /// Show only this turn, counted from 1
    #[arg(long, value_name = "N", conflicts_with = "last")]
    turn: Option<u64>,

    /// Show only this entry, whatever it is
    #[arg(long, value_name = "ENTRY", conflicts_with_all = ["branch", "turn", "last", "role"])]
    entry: Option<String>,

    /// Show only the last N entries that say something
    #[arg(long, value_name = "N")]
    last: Option<u64>,

    /// Show only what this one said
    #[arg(long, value_enum)]
    role: Option<RoleArg>,

    /// Count instead of showing
    #[arg(long, conflicts_with = "raw")]
    count: bool,

    /// Print the records behind the entries, byte for byte
    #[arg(long)]
    raw: bool,

    #[command(flatten)]
    reading: reading::Args,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum RoleArg {
    /// The human.
    User,
    /// The agent.
    Assistant,
    /// Tools.
    Tool,
}

impl Args {
    fn choice(&self) -> Choice {
        Choice {
            telling: self.telling.telling(Telling::DEFAULT),
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
    // What is not there is said before anything is shown.
    story.check(&choice)?;
    if args.count {
        let mut counts = StoryCounts::default();
        story.tell(&choice, &mut |item| {
            counts.add(item);
            ControlFlow::Continue(())
        })?;
        return counts::show(&story, &counts, &reading, context);
    }
    if args.raw {
        return raw(&story, &choice, context);
    }
    if args.entry.is_some() {
        // Whoever names an entry wants to see all of it.
        choice.telling = Telling::FULL;
    }
    if context.is_json {
        return each(|tell| {
            story.tell(&choice, &mut |item| {
                tell(reading.json(context, &ShownEntry::of(item, choice.telling)))
            })
        });
    }
    context.output.page()?;
    let mut page = Page::new(&choice, reading.short_ids()?, context);
    page.head(story.head())?;
    each(|tell| story.tell(&choice, &mut |item| tell(page.item(item))))?;
    page.end()
}

/// The records behind the entries.
fn raw(story: &Story<'_>, choice: &Choice, context: &mut Context) -> Result<()> {
    let mut line = Vec::new();
    each(|tell| {
        story.raw(choice, &mut |part| {
            if !context.output.is_seen() {
                return tell(context.output.exact(part).map_err(Into::into));
            }
            line.extend_from_slice(part);
            if line.ends_with(b"\n") {
                return tell(context.output.exact(&std::mem::take(&mut line)).map_err(Into::into));
            }
            ControlFlow::Continue(())
        })
    })?;
    Ok(context.output.exact(&line)?)
}

/// Runs something that tells, until showing it fails.
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
