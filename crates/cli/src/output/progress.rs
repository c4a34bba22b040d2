//! Progress and a state that changes, on stderr, for a person who looks. Short work shows nothing.

use std::io::{self, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::safe::safe;

/// Less than this is done before anybody could read about it.
const WORTH_SHOWING: u64 = 4 << 20;

/// So many sessions are, too.
const FEW_SESSIONS: u64 = 20;

/// How far something is. Leaves no trace when it ends.
#[derive(Debug)]
pub(crate) struct Bar {
    is_seen: bool,
    has_colour: bool,
    bar: Option<ProgressBar>,
    doing: &'static str,
}

impl Bar {
    pub(super) fn new(is_seen: bool, has_colour: bool) -> Bar {
        Bar { is_seen, has_colour, bar: None, doing: "" }
    }

    /// Says that so many bytes are to be read.
    pub(crate) fn plan_bytes(&mut self, doing: &'static str, total: u64) {
        if total >= WORTH_SHOWING {
            self.start(doing, total, "{decimal_bytes}/{decimal_total_bytes}");
        }
    }

    /// Says that so many more are done.
    pub(crate) fn advance(&self, more: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(more);
        }
    }

    /// Says that so many of so many bytes are done.
    pub(crate) fn bytes(&mut self, doing: &'static str, done: u64, total: u64) {
        self.plan_bytes(doing, total);
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    /// Says that so many of so many records are done.
    pub(crate) fn records(&mut self, doing: &'static str, done: u64, total: u64) {
        self.start(doing, total, "{human_pos}/{human_len} records");
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    /// Says that so many of so many sessions are done.
    pub(crate) fn sessions(&mut self, doing: &'static str, done: u64, total: u64) {
        if total > FEW_SESSIONS {
            self.start(doing, total, "{human_pos}/{human_len} sessions");
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    fn start(&mut self, doing: &'static str, total: u64, measure: &str) {
        if !self.is_seen || (self.doing == doing && self.bar.is_some()) {
            return;
        }
        self.clear();
        let bar_style = if self.has_colour { "{wide_bar:.dim}" } else { "{wide_bar}" };
        let template = format!("{{spinner}} {doing}  {bar_style}  {measure}  {{elapsed}}");
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        self.doing = doing;
        self.bar = Some(bar);
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}

/// One line that says how things stand, and is replaced when that changes. Leaves no trace.
///
/// Not a progress bar: those fill the line, and the `^C` that a terminal shows then begins another.
#[derive(Debug)]
pub(crate) struct Line {
    /// `None` if nobody looks.
    width: Option<usize>,
    state: String,
}

/// Back to the first column, and away with what stands there.
const CLEAR: &str = "\r\x1b[2K";

impl Line {
    pub(super) fn new(width: Option<usize>) -> Line {
        Line { width, state: String::new() }
    }

    /// True if somebody looks.
    pub(crate) fn is_seen(&self) -> bool {
        self.width.is_some()
    }

    /// Says something else from now on.
    pub(crate) fn show(&mut self, state: &str) {
        if let Some(width) = self.width {
            self.state = safe(state).chars().take(width.saturating_sub(3)).collect();
            self.draw();
        }
    }

    /// Makes room for a message that stays.
    pub(crate) fn aside(&self, say: impl FnOnce()) {
        self.clear();
        say();
        self.draw();
    }

    /// Shows nothing until there is something to show again.
    pub(crate) fn clear(&self) {
        if self.is_seen() {
            // There is nowhere left to report a failure to.
            let _ = io::stderr().write_all(CLEAR.as_bytes());
        }
    }

    fn draw(&self) {
        if self.is_seen() && !self.state.is_empty() {
            let _ = io::stderr().write_all(format!("{CLEAR}{}", self.state).as_bytes());
        }
    }
}
