//! `quipu tail --events`: what happens in the ledger, one line for each record.
//!
//! The same frames as those of `GET /v1/events`. No snapshot is held while they are printed.

use std::sync::mpsc::{Receiver, RecvTimeoutError};

use quipu_ledger::Ledger;
use quipu_ledger::events::{self, EventFilter, Frame, begin, frames_after};
use quipu_ledger::freshness::LedgerKind;
use quipu_ledger::wire::EventChange;
use signal_hook::consts::SIGTERM;

use super::{Args, PAUSE, collect_changes, reopen, state};
use crate::commands::Context;
use crate::error::{CommandError, Result};
use crate::output::{Style, Text, second};
use crate::reading;

/// The number of letters of a session's id on a line.
const ID_LETTERS: usize = 8;

pub(super) fn run(args: &Args, context: &mut Context, signals: &Receiver<i32>) -> Result<()> {
    let path = context.settings.ledger.value.clone();
    let mut ledger_state = state(&path);
    let reading = reading::open(context, reading::Args::default())?;
    let mut filter = EventFilter::default();
    if let Some(name) = &args.session {
        let row = reading.find(context, name)?;
        let session = events::session_at(&reading.ledger, row)?;
        filter.session_id = session.map(|session| session.session_id.clone());
    }
    let mut cursor = begin(&reading.ledger, &args.after)?.ok_or_else(start_over)?;
    let is_own = reading.kind == LedgerKind::Own;
    drop(reading);
    if is_own {
        collect_changes(context, path.clone())
            .map_err(|error| CommandError::new(format!("cannot follow: {error}")))?;
    }
    loop {
        let ledger = Ledger::open_read_only(&path)?;
        loop {
            let found = frames_after(&ledger, &cursor, false)?.ok_or_else(start_over)?;
            for frame in found.frames.iter().filter(|frame| filter.passes(frame)) {
                match context.is_json {
                    true => context.output.json(&frame.wire)?,
                    false => context.output.line(shown(frame))?,
                }
            }
            cursor = found.after;
            if !found.has_more {
                break;
            }
        }
        drop(ledger);
        context.output.flush()?;
        let before = ledger_state;
        while ledger_state == before {
            match signals.recv_timeout(PAUSE) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(SIGTERM) => return Ok(()),
                Ok(_) | Err(RecvTimeoutError::Disconnected) => return Err(CommandError::stopped()),
            }
            ledger_state = state(&path);
        }
        // Projects what another process has appended.
        drop(reopen(context)?);
    }
}

fn start_over() -> CommandError {
    CommandError::new("the cursor is of another ledger, or ahead of this one")
        .hint("`--after start` begins with the first event, `--after now` with the next one")
}

/// Returns the line of a frame: `18:00:07  9c0f1d2e  entry.appended message user, leaf.moved`.
fn shown(frame: &Frame) -> Text {
    let wire = &frame.wire;
    let time = wire.time.map_or_else(|| "--:--:--".to_owned(), second);
    let id = wire.session_id.as_deref().unwrap_or("-");
    let id: String = id.chars().take(ID_LETTERS).collect();
    let changes: Vec<String> = wire.changes.iter().map(described).collect();
    Text::styled(Style::Dim, time)
        .and(format!("  {id:ID_LETTERS$}  "))
        .and(changes.join(", "))
        .and(if wire.is_cut { ", …" } else { "" })
}

fn described(change: &EventChange) -> String {
    let detail = match change {
        EventChange::SessionCreated { format } => format.as_str(),
        EventChange::EntryAppended { kind, role: Some(role), .. } => {
            return format!("{} {kind} {role}", change.type_name());
        }
        EventChange::EntryAppended { kind, .. } | EventChange::Problem { kind } => kind,
        EventChange::LabelSet { label, .. } => label.as_deref().unwrap_or_default(),
        EventChange::SessionMeta { session_key } | EventChange::KeyBound { session_key } => {
            session_key
        }
        EventChange::SenderAsked { channel, sender } => {
            return format!("{} {channel} {sender}", change.type_name());
        }
        EventChange::SenderDecided { channel, sender, decision } => {
            return format!("{} {decision} {channel} {sender}", change.type_name());
        }
        EventChange::SourceGone { path }
        | EventChange::SourceBack { path }
        | EventChange::SourceRenamed { path }
        | EventChange::SourceRewritten { path } => path,
        _ => "",
    };
    format!("{} {detail}", change.type_name()).trim_end().to_owned()
}
