//! The files of an invented week of two agents on one small project.
//!
//! The files are in `demo/home`, with the dates of one week. All dates are moved by the same number
//! of days, so that the week ended yesterday.

mod files;

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::SystemTime;

use jiff::civil::Date;
use jiff::{Timestamp, ToSpan};

use files::{FIRST, LATER};

/// The folders of the demo.
pub(crate) struct Demo {
    /// The folder of the demo: its ledger, its configuration and `home`.
    pub(crate) folder: PathBuf,
    /// The folder that stands for a home folder.
    pub(crate) home: PathBuf,
    days: i32,
}

/// The last day of the week in the files.
const LAST_DAY: Date = Date::constant(2026, 3, 8);

/// The beginning of every date in the files.
const MONTH: &str = "2026-03-";

impl Demo {
    /// Creates a demo in `folder`, whose week ends at `last`.
    pub(crate) fn new(folder: PathBuf, last: Date) -> Demo {
        let days = LAST_DAY.until(last).map_or(0, |span| span.get_days());
        Demo { home: folder.join("home"), folder, days }
    }

    /// Returns the folder of Claude Code's files.
    pub(crate) fn claude(&self) -> PathBuf {
        self.home.join(".claude")
    }

    /// Returns the folder of OpenClaw's files.
    pub(crate) fn openclaw(&self) -> PathBuf {
        self.home.join(".openclaw")
    }

    /// Writes the files as they were in the middle of the week.
    pub(crate) fn write_first(&self) -> std::io::Result<()> {
        FIRST.iter().try_for_each(|(path, text)| self.write(path, text, files::FIRST_NOTED))
    }

    /// Writes the later changes: new versions of notes, and an archived conversation.
    pub(crate) fn write_later(&self) -> std::io::Result<()> {
        for (path, text) in LATER {
            self.write(path, text, files::LATER_NOTED)?;
        }
        let (from, to) = files::PUT_ASIDE;
        fs::rename(self.home.join(from), self.home.join(self.dated(to)))
    }

    /// Writes one file. Notes have no time in their text; they are dated `noted`.
    fn write(&self, path: &str, text: &str, noted: &str) -> std::io::Result<()> {
        let path = self.home.join(self.dated(path));
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let text = self.dated(text);
        fs::write(&path, &text)?;
        // The file's modification time is that of its last message.
        let noted = || last_moment(&self.dated(noted));
        match last_moment(&text).or_else(noted) {
            Some(time) => File::options().append(true).open(&path)?.set_modified(time),
            None => Ok(()),
        }
    }

    /// Returns the text with all dates moved.
    fn dated(&self, text: &str) -> String {
        let mut moved = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(MONTH) {
            let (before, from) = rest.split_at(at);
            moved.push_str(before);
            let end = (MONTH.len() + 2).min(from.len());
            let (date, after) = from.split_at(end);
            let date = date.parse::<Date>().ok().and_then(|d| d.checked_add(self.days.days()).ok());
            match date {
                Some(date) => moved.push_str(&date.to_string()),
                None => moved.push_str(from.get(..end).unwrap_or_default()),
            }
            rest = after;
        }
        moved.push_str(rest);
        moved
    }
}

/// Returns the last time in a transcript.
fn last_moment(text: &str) -> Option<SystemTime> {
    let times = text.split("\"timestamp\":\"").skip(1);
    let last = times.filter_map(|rest| rest.get(..24)?.parse::<Timestamp>().ok()).max()?;
    Some(last.into())
}

/// Creates a temporary folder that is not deleted at exit.
pub(crate) fn new_folder() -> std::io::Result<PathBuf> {
    Ok(tempfile::Builder::new().prefix("quipu-demo-").tempdir()?.keep())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_move_together() {
        let demo = Demo::new(PathBuf::from("x"), Date::constant(2027, 1, 1));
        assert_eq!(
            demo.dated("on 2026-03-08T10:00 and 2026-03-02."),
            "on 2027-01-01T10:00 and 2026-12-26."
        );
        assert_eq!(demo.dated("2026-03-"), "2026-03-");
        assert_eq!(demo.dated("2026-03-é"), "2026-03-é");
    }

    #[test]
    fn every_line_is_json() {
        for (path, text) in FIRST.iter().filter(|(path, _)| path.ends_with(".jsonl")) {
            for line in text.lines() {
                assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{path}");
            }
        }
    }
}
