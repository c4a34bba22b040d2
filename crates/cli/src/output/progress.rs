//! Progress on stderr, for a person who waits. Short work shows nothing.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Less than this is done before anybody could read about it.
const WORTH_SHOWING: u64 = 4 << 20;

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
