//! Progress bars and a status line on stderr, on terminals only. Short work shows nothing.

use std::io::{self, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::safe::safe;

/// Bytes below which no bar is shown, because the work is done before it could be read.
const WORTH_SHOWING: u64 = 4 << 20;

/// No bar is shown for at most this number of sessions or files.
const FEW: u64 = 20;

/// A progress bar. It is removed when the work ends.
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

    /// Sets how many bytes are to be read.
    pub(crate) fn plan_bytes(&mut self, doing: &'static str, total: u64) {
        if total >= WORTH_SHOWING {
            self.start(doing, total, "{decimal_bytes}/{decimal_total_bytes}");
        }
    }

    /// Adds bytes that are done.
    pub(crate) fn advance(&self, more: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(more);
        }
    }

    /// Sets how many of how many bytes are done.
    pub(crate) fn bytes(&mut self, doing: &'static str, done: u64, total: u64) {
        self.plan_bytes(doing, total);
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    /// Sets how many of how many records are done.
    pub(crate) fn records(&mut self, doing: &'static str, done: u64, total: u64) {
        self.start(doing, total, "{human_pos}/{human_len} records");
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    /// Sets how many of how many sessions are done.
    pub(crate) fn sessions(&mut self, doing: &'static str, done: u64, total: u64) {
        if total > FEW {
            self.start(doing, total, "{human_pos}/{human_len} sessions");
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    /// Sets how many files are done. Their total is not known.
    pub(crate) fn files(&mut self, doing: &'static str, done: u64) {
        if done > FEW {
            self.start(doing, None, "{human_pos} files");
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    /// Shows a bar, or without a total only its measure.
    fn start(&mut self, doing: &'static str, total: impl Into<Option<u64>>, measure: &str) {
        if !self.is_seen || (self.doing == doing && self.bar.is_some()) {
            return;
        }
        self.clear();
        let total = total.into();
        let bar_style = match (total, self.has_colour) {
            (None, _) => "",
            (_, true) => "{wide_bar:.dim}  ",
            (_, false) => "{wide_bar}  ",
        };
        let template = format!("{{spinner}} {doing}  {bar_style}{measure}  {{elapsed}}");
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
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

/// A status line that is replaced when the state changes, and removed at the end.
///
/// Not a progress bar: a bar fills the line, so the `^C` that a terminal prints would wrap.
#[derive(Debug)]
pub(crate) struct Line {
    /// `None` if stderr is not a terminal.
    width: Option<usize>,
    state: String,
}

/// Moves to the first column and clears the line.
const CLEAR: &str = "\r\x1b[2K";

impl Line {
    pub(super) fn new(width: Option<usize>) -> Line {
        Line { width, state: String::new() }
    }

    /// Returns whether the line is shown.
    pub(crate) fn is_seen(&self) -> bool {
        self.width.is_some()
    }

    /// Shows another state.
    pub(crate) fn show(&mut self, state: &str) {
        if let Some(width) = self.width {
            self.state = safe(state).chars().take(width.saturating_sub(3)).collect();
            self.draw();
        }
    }

    /// Clears the line while a message is printed.
    pub(crate) fn aside(&self, print: impl FnOnce()) {
        self.clear();
        print();
        self.draw();
    }

    /// Clears the line until the next state.
    pub(crate) fn clear(&self) {
        if self.is_seen() {
            // A failure to write to stderr cannot be reported.
            let _ = io::stderr().write_all(CLEAR.as_bytes());
        }
    }

    fn draw(&self) {
        if self.is_seen() && !self.state.is_empty() {
            let _ = io::stderr().write_all(format!("{CLEAR}{}", self.state).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_without_a_total() {
        let mut bar = Bar::new(true, false);
        for done in 1..=57 {
            bar.files("importing", done);
        }
        let shown = bar.bar.as_ref().map(|bar| (bar.position(), bar.length()));
        assert_eq!(shown, Some((57, None)));
    }
}
