//! `quipu tail`: the entries of a session as they are collected.

use std::ops::ControlFlow;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use quipu_ledger::ids::SessionRow;
use quipu_ledger::query::{Choice, Story, Waiting};
use quipu_ledger::wire::ShownEntry;
use quipu_transcript::story::StoryDetail;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::Context;
use super::show::page::Page;
use crate::detail;
use crate::error::{CommandError, Result};
use crate::reading::{self, Reading};

/// Time between two looks at the files.
const PAUSE: Duration = Duration::from_secs(1);

/// Print new entries of a session as they are collected, until Ctrl-C
///
/// Prints the last messages of a session, and then every new entry as `show`
/// prints it, within about a second. Without SESSION it follows the newest
/// session of this folder, and the next one when that begins.
///
/// --notify runs a command with `sh -c` when the agent has ended a turn, asks a
/// question or waits for a plan to be approved. Its environment has
/// QUIPU_SESSION (the id), QUIPU_EVENT (`turn_ended` or `question`) and
/// QUIPU_TITLE.
///
/// Examples:
///   quipu tail
///   quipu tail 640ab4c7 -n 0 --thinking
///   quipu tail --notify 'notify-send "$QUIPU_TITLE" "$QUIPU_EVENT"'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The session to follow: an id or the beginning of one, a session key, or `last`
    #[arg(value_name = "SESSION", allow_hyphen_values = true)]
    session: Option<String>,

    /// Begin with the last N messages
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 10)]
    lines: u64,

    /// Run this command when the session waits for a person
    #[arg(long, value_name = "CMD")]
    notify: Option<String>,

    #[command(flatten)]
    detail: detail::Args,
}

/// A session that is followed.
struct Followed {
    row: SessionRow,
    /// The last entry that was printed.
    last: Option<i64>,
    waiting: Waiting,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let stop = stop_on_signals()
        .map_err(|error| CommandError::new(format!("cannot wait for signals: {error}")))?;
    let mut reading = reading::open(context, reading::Args::default())?;
    let named = match &args.session {
        Some(name) => Some(reading.find(context, name)?),
        None => None,
    };
    let mut followed: Option<Followed> = None;
    let mut notifiers: Vec<Child> = Vec::new();
    loop {
        let row = match named {
            Some(row) => Some(row),
            None => reading.newest_here(context)?,
        };
        if let Some(row) = row {
            let before = followed.take().filter(|followed| followed.row == row);
            let next = print(args, context, &reading, row, before.as_ref())?;
            let has_news = next.waiting != Waiting::No
                && before.is_some_and(|before| before.waiting != next.waiting);
            if let (Some(command), true) = (&args.notify, has_news) {
                notifiers.extend(notify(command, &reading, &next));
            }
            followed = Some(next);
        } else if followed.is_none() && context.output.is_seen() {
            context.output.note("waiting for a session in this folder");
        }
        notifiers.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        context.output.flush()?;
        // The ledger is not held open while nothing happens.
        drop(reading);
        match stop.recv_timeout(PAUSE) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(SIGTERM) => return Ok(()),
            Ok(_) | Err(RecvTimeoutError::Disconnected) => return Err(CommandError::stopped()),
        }
        reading = again(context)?;
    }
}

/// Opens the ledger again. One that another process keeps for itself is tried again later.
fn again(context: &Context) -> Result<Reading> {
    let mut attempts = 0;
    loop {
        match reading::again(context) {
            Err(error) if error.trouble() == Some(quipu_ledger::Trouble::Busy) && attempts < 5 => {
                attempts += 1;
            }
            opened => return opened,
        }
    }
}

/// Prints the entries after those that were printed before; at first the last ones, with the title.
fn print(
    args: &Args,
    context: &mut Context,
    reading: &Reading,
    row: SessionRow,
    before: Option<&Followed>,
) -> Result<Followed> {
    let story = Story::open(&reading.ledger, row)?;
    let choice = Choice {
        detail: args.detail.story_detail(StoryDetail::DEFAULT),
        last: before.is_none().then_some(args.lines),
        after: before.and_then(|before| before.last),
        ..Choice::default()
    };
    let mut last = before.and_then(|before| before.last);
    let mut failed: Option<CommandError> = None;
    let is_json = context.is_json;
    let mut page = Page::new(&choice, reading.short_ids()?, context);
    if before.is_none() && !is_json {
        page.head(story.head(), None)?;
    }
    story.each_item(&choice, &mut |item| {
        // The last line may still change; it is printed when it is complete.
        if item.is_provisional {
            return ControlFlow::Continue(());
        }
        last = last.max(Some(item.entry));
        let printed = match is_json {
            true => page.json(&ShownEntry::of(item, choice.detail)),
            false => page.item(item),
        };
        match printed {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    if last.is_none() {
        last = story.last_entry()?;
    }
    Ok(Followed { row, last, waiting: quipu_ledger::query::waiting(&reading.ledger, row)? })
}

/// Starts the command of `--notify`.
fn notify(command: &str, reading: &Reading, followed: &Followed) -> Option<Child> {
    let story = Story::open(&reading.ledger, followed.row).ok()?;
    let event = match followed.waiting {
        Waiting::Question(_) => "question",
        _ => "turn_ended",
    };
    let title: String =
        story.head().title.as_deref().unwrap_or_default().chars().filter(|c| *c != '\0').collect();
    Command::new("sh")
        .args(["-c", command])
        .env("QUIPU_SESSION", &story.head().id)
        .env("QUIPU_EVENT", event)
        .env("QUIPU_TITLE", title)
        .stdin(Stdio::null())
        .spawn()
        .ok()
}

/// Returns a channel that receives SIGINT and SIGTERM.
fn stop_on_signals() -> std::io::Result<Receiver<i32>> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let (sender, receiver) = mpsc::channel();
    let wait = move || {
        for signal in signals.forever() {
            if sender.send(signal).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait)?;
    Ok(receiver)
}
