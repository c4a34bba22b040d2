//! `quipu watch`: collects whatever changes, until it is stopped.

use std::error::Error as _;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quipu_ledger::collect::Progress;
use quipu_ledger::collect::{watch::Event, watch::Stop, watch::Timing, watch::watch};
use quipu_ledger::wire::{SyncReport, WatchReport};
use signal_hook::consts::SIGINT;

use super::Context;
use crate::error::{CommandError, Result};
use crate::output::{Bar, Line, Output, Style, Text, count, now_ms, second};
use crate::{machine, stopping};

/// Collect continuously until Ctrl-C
///
/// Collects everything new, then waits for files to change. A new line is in the
/// ledger within a second. While nothing changes it sleeps, except for a scan of
/// all files every few minutes. On a full disk or a locked ledger it waits and
/// retries. After a suspend it collects everything that was written in between.
/// `quipu service install` keeps it running in the background. The exit code
/// after Ctrl-C is 130.
///
/// With --json, prints one object each time something was stored.
///
/// Example:
///   quipu watch --json | jq -c '[.time, .records_added]'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {}

pub(super) fn run(_: &Args, context: &mut Context) -> Result<()> {
    let stop = Stop::new();
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let (signalled, interrupted) = (stop.clone(), Arc::clone(&is_interrupted));
    let on_signal = move |signal| {
        interrupted.store(signal == SIGINT, Ordering::Relaxed);
        signalled.stop();
    };
    stopping::on_signal(on_signal)
        .map_err(|error| CommandError::new(format!("cannot wait for signals: {error}")))?;
    let roots = context.roots();
    let is_json = context.is_json;
    let mut show = Show {
        is_json,
        bar: None,
        line: context.output.status_line(!is_json),
        records: 0,
        output: &mut context.output,
    };
    let mut failure = None;
    let watched = watch(
        &context.settings.ledger.value,
        machine::name(),
        &roots,
        &Timing::default(),
        &stop,
        &mut |event| match show.event(event) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        },
    );
    show.end()?;
    match failure {
        Some(error) => return Err(error.into()),
        None => watched?,
    }
    match is_interrupted.load(Ordering::Relaxed) {
        true => Err(CommandError::stopped()),
        false => Ok(()),
    }
}

/// Prints events.
struct Show<'a> {
    is_json: bool,
    output: &'a mut Output,
    /// A progress bar, while there is much to collect.
    bar: Option<Bar>,
    line: Line,
    records: u64,
}

impl Show<'_> {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        if let Some((warning, hint)) = warning(&event) {
            self.line.aside(|| self.output.warn(&warning, Some(&hint)));
        }
        match event {
            Event::Progress(progress) => self.progress(progress),
            Event::Watching { folders } => {
                self.bar = None;
                tracing::info!(folders, "Watching.");
                if self.line.is_seen() {
                    let folders = count(folders as u64, "folder");
                    let watching = Text::plain(format!("Watching {folders}. "))
                        .with(Style::Dim, "Press Ctrl-C to stop.");
                    // The status line may show the result of the first sync.
                    self.line.clear();
                    self.output.line(watching)?;
                    self.output.finish()?;
                    self.show_state();
                }
            }
            Event::Collected(report) => self.collected(report)?,
            Event::Resumed => {
                tracing::info!("Resumed.");
                self.show_state();
            }
            Event::Unreadable { .. }
            | Event::TooFewWatches { .. }
            | Event::Replaced { .. }
            | Event::Paused { .. } => {}
        }
        Ok(())
    }

    fn progress(&mut self, progress: Progress) {
        match progress {
            Progress::Planned { bytes: 0, .. } => {}
            Progress::Planned { bytes, .. } => {
                let output = &*self.output;
                self.bar.get_or_insert_with(|| output.bar()).plan_bytes("collecting", bytes);
            }
            Progress::Done { bytes } => {
                if let Some(bar) = &self.bar {
                    bar.advance(bytes);
                }
            }
            Progress::Rebuilding { done, total } => {
                let output = &*self.output;
                self.bar.get_or_insert_with(|| output.bar()).records("rebuilding", done, total);
            }
        }
    }

    fn collected(&mut self, report: &SyncReport) -> io::Result<()> {
        self.bar = None;
        self.records += report.records_added;
        tracing::info!(
            changed = report.sources_changed,
            records = report.records_added,
            bytes = report.bytes_read,
            "Collected."
        );
        if self.is_json {
            self.output.json(&WatchReport { time: now_ms(), sync: report })?;
            return self.output.finish();
        }
        self.show_state();
        Ok(())
    }

    fn show_state(&mut self) {
        let state = self.state();
        self.line.show(&state);
    }

    /// Returns the text of the status line.
    fn state(&self) -> String {
        match self.records {
            0 => "nothing new yet".to_owned(),
            records => {
                format!("{}, last at {}", count(records, "new record"), second(now_ms()))
            }
        }
    }

    fn end(&mut self) -> io::Result<()> {
        self.bar = None;
        if self.line.is_seen() {
            self.line.clear();
            self.output
                .line(format!("{} collected while watching", count(self.records, "record")))?;
        }
        Ok(())
    }
}

/// Returns the warning and the hint for an event that a person should know of.
pub(super) fn warning(event: &Event<'_>) -> Option<(String, String)> {
    match event {
        Event::Unreadable { path, why } => Some((
            format!("cannot read {}: {why}", path.display()),
            "it will be collected when it can be read".to_owned(),
        )),
        Event::TooFewWatches { watched, folders } => Some((
            format!("only {watched} of {} can be watched", count(*folders as u64, "folder")),
            "the others are scanned every few seconds; raise fs.inotify.max_user_watches to watch \
             them"
                .to_owned(),
        )),
        Event::Replaced { is_new } => {
            let warning = match is_new {
                true => "the ledger was deleted; starting a new one",
                false => "the ledger was replaced by another file",
            };
            let hint = "everything that is missing in it will be collected again";
            Some((warning.to_owned(), hint.to_owned()))
        }
        Event::Paused { error, retry } => {
            let mut causes = vec![error.to_string()];
            let mut cause = error.source();
            while let Some(next) = cause {
                // Some causes repeat the one before them.
                let message = next.to_string();
                if !causes.iter().any(|above| message.ends_with(above.as_str())) {
                    causes.push(message);
                }
                cause = next.source();
            }
            let hint = format!(
                "retrying in {}, then less often; nothing is lost",
                count(retry.as_secs().max(1), "second")
            );
            Some((format!("paused: {}", causes.join(": ")), hint))
        }
        _ => None,
    }
}
