//! `quipu watch`: collects whatever changes, until it is stopped.

use std::error::Error as _;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quipu_ledger::collect::Progress;
use quipu_ledger::collect::{watch::Event, watch::Stop, watch::Timing, watch::watch};
use quipu_ledger::wire::SyncReport;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::Context;
use crate::error::{CommandError, Result};
use crate::machine;
use crate::output::{Bar, Line, Output, Style, Text, count, now_ms, second};

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
///   quipu watch --json | jq -c '[.at, .records_added]'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {}

/// Time after a signal after which it counts as blocked by a lock or the disk.
const GRACE: Duration = Duration::from_millis(1_500);

pub(super) fn run(_: &Args, context: &mut Context) -> Result<()> {
    let stop = Stop::new();
    let is_interrupted = Arc::new(AtomicBool::new(false));
    stop_on_signals(stop.clone(), Arc::clone(&is_interrupted))
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

/// Stops the watch on Ctrl-C, SIGTERM, and when its terminal is closed. Sets the flag on Ctrl-C.
fn stop_on_signals(stop: Stop, is_interrupted: Arc<AtomicBool>) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    if !is_hangup_ignored() {
        signals.add_signal(SIGHUP)?;
    }
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            is_interrupted.store(signal == SIGINT, Ordering::Relaxed);
            stop.stop();
            std::thread::sleep(GRACE);
            std::process::exit(if signal == SIGINT { 130 } else { 0 });
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait)?;
    Ok(())
}

/// Returns whether SIGHUP is ignored, as `nohup` does.
fn is_hangup_ignored() -> bool {
    // Only Linux reports it; elsewhere a closed terminal stops the watch.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & (1 << (SIGHUP - 1)) != 0)
}

/// The object that `--json` prints.
#[derive(Serialize)]
struct Collected<'a> {
    /// Milliseconds since 1970, UTC.
    at: i64,
    #[serde(flatten)]
    sync: &'a SyncReport,
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
        match event {
            Event::Progress(progress) => self.progress(progress),
            Event::Watching { folders } => {
                self.bar = None;
                tracing::info!(folders, "Watching.");
                if self.line.is_seen() {
                    let folders = count(folders as u64, "folder");
                    let watching = Text::plain(format!("Watching {folders}. "))
                        .with(Style::Dim, "Press Ctrl-C to stop.");
                    // The summary of the first sync is already there.
                    self.line.clear();
                    self.output.line(watching)?;
                    self.output.finish()?;
                    self.show_state();
                }
            }
            Event::Collected(report) => self.collected(report)?,
            Event::Unreadable { path, why } => {
                let warning = format!("cannot read {}: {why}", path.display());
                self.warn(&warning, Some("it will be collected when it can be read"));
            }
            Event::TooFewWatches { watched, folders } => self.warn(
                &format!("only {watched} of {} can be watched", count(folders as u64, "folder")),
                Some(
                    "the others are scanned every few seconds; raise \
                     fs.inotify.max_user_watches to watch them",
                ),
            ),
            Event::Replaced { is_new } => {
                let warning = match is_new {
                    true => "the ledger was deleted; starting a new one",
                    false => "the ledger was replaced by another file",
                };
                self.warn(
                    warning,
                    Some("everything that is missing in it will be collected again"),
                );
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
                let warning = format!("paused: {}", causes.join(": "));
                let hint = format!(
                    "retrying in {}, then less often; nothing is lost",
                    count(retry.as_secs().max(1), "second")
                );
                self.warn(&warning, Some(&hint));
            }
            Event::Resumed => {
                tracing::info!("Resumed.");
                self.show_state();
            }
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
            self.output.json(&Collected { at: now_ms(), sync: report })?;
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
                format!("{}, last at {} UTC", count(records, "new record"), second(now_ms()))
            }
        }
    }

    fn warn(&self, warning: &str, hint: Option<&str>) {
        self.line.aside(|| self.output.warn(warning, hint));
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
