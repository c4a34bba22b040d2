//! The findings of the checks.
//!
//! Collects and counts them; each check decides what is one.

use crate::Error;
use crate::wire::{Finding, Severity};

/// The largest number of examples in a finding.
const MAX_EXAMPLES: usize = 5;

/// The longest message, in characters.
const MAX_MESSAGE_CHARS: usize = 200;

/// The advice for a file with damaged truth.
pub(super) const RESCUE: &str = "keep a copy of the file; then restore a backup \
    (`quipu backup --restore FILE`), or move the file away and run `quipu sync`: everything still on \
    disk is collected again, and `quipu restore --all --ledger OLD` restores what only the old file \
    has, as far as it can be read";

/// The advice for wrong rows of the projection.
pub(super) const REBUILD: &str =
    "run `quipu rebuild`: it derives all of it again from the stored raw data";

/// The advice for changed sources.
pub(super) const SYNC: &str = "run `quipu sync`";

/// Shortens a message of SQLite, which may be pages long, to one readable line.
pub(crate) fn brief(message: &str) -> String {
    let lines = message.lines().map(str::trim);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with("***"));
    let first = lines.next().unwrap_or(message);
    let mut brief: String = first.chars().take(MAX_MESSAGE_CHARS).collect();
    if brief.len() < first.len() {
        brief.push('…');
    }
    match lines.count() {
        0 => brief,
        more => format!("{brief} (and {more} more lines)"),
    }
}

/// The findings so far.
#[derive(Debug)]
pub(crate) struct Findings {
    check: &'static str,
    list: Vec<Finding>,
}

impl Findings {
    pub(super) fn new(check: &'static str) -> Findings {
        Findings { check, list: Vec::new() }
    }

    /// Attributes the following findings to this check.
    pub(super) fn begin(&mut self, check: &'static str) {
        self.check = check;
    }

    pub(super) fn into_list(self) -> Vec<Finding> {
        self.list
    }

    /// Returns whether a check found an error.
    pub(super) fn has_errors(&self, check: &str) -> bool {
        let mut found = self.list.iter().filter(|finding| finding.check == check);
        found.any(|finding| finding.severity == Severity::Error)
    }

    pub(super) fn error(&mut self, what: impl Into<String>, advice: &str) {
        self.add(Severity::Error, what.into(), None, Vec::new(), advice);
    }

    pub(super) fn warning(&mut self, what: impl Into<String>, advice: &str) {
        self.add(Severity::Warning, what.into(), None, Vec::new(), advice);
    }

    pub(super) fn note(&mut self, what: impl Into<String>, advice: &str) {
        self.add(Severity::Note, what.into(), None, Vec::new(), advice);
    }

    /// Adds a finding about counted problems, if there are any.
    pub(super) fn tally(&mut self, severity: Severity, tally: Tally, what: &str, advice: &str) {
        if tally.count > 0 {
            self.add(severity, what.to_owned(), Some(tally.count), tally.examples, advice);
        }
    }

    /// Adds a finding for a check that could not be finished.
    pub(super) fn unfinished(&mut self, error: &Error) {
        use std::error::Error as _;
        let mut what = format!("this check could not be finished: {}", brief(&error.to_string()));
        let mut cause = error.source();
        while let Some(next) = cause {
            what.push_str(&format!(": {}", brief(&next.to_string())));
            cause = next.source();
        }
        let advice = match error.trouble() {
            crate::Trouble::Busy => "try again when the other process is done",
            crate::Trouble::DiskFull => "free some space on the disk, then check again",
            _ => RESCUE,
        };
        self.error(what, advice);
    }

    fn add(
        &mut self,
        severity: Severity,
        what: String,
        count: Option<u64>,
        examples: Vec<String>,
        advice: &str,
    ) {
        self.list.push(Finding {
            check: self.check.to_owned(),
            severity,
            message: what,
            count,
            examples,
            hint: advice.to_owned(),
        });
    }
}

/// The number of occurrences, and the first of them.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) count: u64,
    examples: Vec<String>,
}

impl Tally {
    pub(super) fn add(&mut self, example: impl FnOnce() -> String) {
        self.count += 1;
        if self.examples.len() < MAX_EXAMPLES {
            self.examples.push(example());
        }
    }

    /// Creates a tally from a finished count.
    pub(super) fn of(count: u64, examples: impl IntoIterator<Item = String>) -> Tally {
        Tally { count, examples: examples.into_iter().take(MAX_EXAMPLES).collect() }
    }
}
