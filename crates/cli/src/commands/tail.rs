//! `quipu tail`: the entries of a session as they are collected.
//!
//! A thread collects files as they change, as `quipu watch` does. `tail` notices new data by the
//! lengths and modification times of the ledger's files, whichever process wrote it. So an idle
//! `tail` opens no file.

mod events;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime};

use quipu_ledger::collect::watch::{self, Stop, Timing};
use quipu_ledger::events::Start;
use quipu_ledger::freshness::LedgerKind;
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
use crate::machine;
use crate::reading::{self, Reading};

/// The time between two checks of the ledger's files. It is short, because a person waits; a check
/// costs two system calls.
const PAUSE: Duration = Duration::from_millis(200);

/// Print new entries of a session as they are collected, until Ctrl-C
///
/// Prints the last messages of a session, and then every new entry as `show`
/// prints it, within half a second. Without SESSION it follows the newest
/// session of this folder, and when another session begins there, that one.
///
/// --notify runs a command with `sh -c` when the agent has ended a turn, asks a
/// question or waits for a plan to be approved. Its environment has
/// QUIPU_SESSION (the id), QUIPU_EVENT (`turn_ended` or `question`) and
/// QUIPU_TITLE.
///
/// --events prints what happens in the whole ledger instead, or in SESSION: new
/// sessions and entries, moves of the leaf, labels, compactions, session keys,
/// senders, files, problems. docs/events.md describes them.
///
/// Examples:
///   quipu tail
///   quipu tail b20f -n 0 --thinking
///   quipu tail --notify 'notify-send "$QUIPU_TITLE" "$QUIPU_EVENT"'
///   quipu tail --events --json --after start
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

    /// Print what happens in the ledger instead of entries
    #[arg(long, conflicts_with_all = ["lines", "notify"])]
    events: bool,

    /// With --events, begin after this cursor, or with `start` at the first event
    #[arg(long, value_name = "CURSOR", requires = "events", default_value = "now")]
    after: Start,

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
    let cannot = |error| CommandError::new(format!("cannot follow: {error}"));
    let signals = stop_on_signals().map_err(cannot)?;
    if args.events {
        return events::run(args, context, &signals);
    }
    let path = context.settings.ledger.value.clone();
    let mut ledger_state = state(&path);
    let mut reading = reading::open(context, reading::Args::default())?;
    if reading.kind == LedgerKind::Own {
        collect_changes(context, path.clone()).map_err(cannot)?;
    }
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
        context.output.flush()?;
        // An open snapshot would keep the write-ahead log from shrinking.
        drop(reading);
        let before = ledger_state;
        while ledger_state == before {
            notifiers.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
            match signals.recv_timeout(PAUSE) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(SIGTERM) => return Ok(()),
                Ok(_) | Err(RecvTimeoutError::Disconnected) => return Err(CommandError::stopped()),
            }
            ledger_state = state(&path);
        }
        reading = reopen(context)?;
    }
}

/// Returns the lengths of the ledger and of its write-ahead log, and the times of their last change.
fn state(ledger: &Path) -> [Option<(u64, SystemTime)>; 2] {
    let mut log = ledger.as_os_str().to_owned();
    log.push("-wal");
    [ledger, Path::new(&log)].map(|file| {
        let file = file.metadata().ok()?;
        Some((file.len(), file.modified().ok()?))
    })
}

/// Starts a thread that collects files as they change, until the process ends.
fn collect_changes(context: &Context, ledger: PathBuf) -> std::io::Result<()> {
    let roots = context.roots();
    let collect = move || {
        let stop = Stop::new();
        let timing = Timing::default();
        let go_on = &mut |_: watch::Event<'_>| ControlFlow::Continue(());
        // A ledger that can no longer be written to is still followed: another process may write.
        let _ = watch::watch(&ledger, machine::name(), &roots, &timing, &stop, go_on);
    };
    std::thread::Builder::new().name("collect".to_owned()).spawn(collect)?;
    Ok(())
}

/// Opens the ledger again. If another process has locked it, tries five more times.
fn reopen(context: &Context) -> Result<Reading> {
    let mut attempts = 0;
    loop {
        match reading::reopen(context) {
            Err(error) if error.trouble() == Some(quipu_ledger::Trouble::Busy) && attempts < 5 => {
                attempts += 1;
            }
            opened => return opened,
        }
    }
}

/// Prints the entries after the last printed one. The first time, prints the title and the last
/// entries.
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
        prices: context.is_json.then(|| context.prices()),
        ..Choice::default()
    };
    let mut last = before.and_then(|before| before.last);
    let mut failed: Option<CommandError> = None;
    let is_json = context.is_json;
    let id = context.linked_id(&reading.ledger, Some(row), &story.head().session_id);
    let mut page = Page::new(&choice, reading.short_ids()?, context);
    if before.is_none() && !is_json {
        page.head(story.head(), id, None)?;
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
        .env("QUIPU_SESSION", &story.head().session_id)
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
