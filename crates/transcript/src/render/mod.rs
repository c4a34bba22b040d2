//! Renderings of a session's story for files: one file per kind.
//!
//! A rendering receives a [`Header`] and then one [`StoryItem`] after the other, and writes as it
//! goes: its buffer does not grow with the session, except for one short line per turn if there is
//! a table of contents. [`StoryDetail`](crate::story::StoryDetail) selects what is shown.
//!
//! All text from a transcript is hostile. No byte of it may act in the output: as markup, as a
//! script, as a formula, as something that is loaded, or as a character that reorders text.

mod calls;
mod clean;
pub mod csv;
pub mod html;
mod input;
pub mod markdown;
mod words;

use std::io::{self, Write};

use crate::redact::Redactor;
use crate::story::StoryItem;

pub use self::clean::{clean, line as clean_line};
pub use self::html::Html;
pub use self::markdown::Markdown;
pub use self::words::{GAP, compacted, count, number};

/// Writes a story.
pub trait Rendering {
    /// Writes the beginning, with the facts about the whole session.
    fn begin(&mut self, header: &Header, out: &mut dyn Write) -> io::Result<()>;

    /// Writes one item.
    fn item(&mut self, item: &StoryItem<'_>, out: &mut dyn Write) -> io::Result<()>;

    /// Writes the end.
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()>;
}

/// The facts about a whole session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Header {
    /// The title.
    pub title: String,
    /// The agent's id of the session.
    pub id: String,
    /// The program, for people.
    pub program: String,
    /// The agent's name; empty if there is only one.
    pub agent: String,
    /// The project's name; may be empty.
    pub project: String,
    /// The working directory.
    pub cwd: Option<String>,
    /// The last git branch.
    pub git_branch: Option<String>,
    /// Models that answered.
    pub models: Vec<String>,
    /// `live`, `archived`, `deleted`, `gone`, `lost`.
    pub state: String,
    /// The session that it works for.
    pub parent: Option<String>,
    /// The session that it continues.
    pub fork_of: Option<String>,
    /// The session that continues it.
    pub continued_in: Option<String>,
    /// The start, in milliseconds UTC.
    pub started_at: Option<i64>,
    /// The last activity, in milliseconds UTC.
    pub updated_at: Option<i64>,
    /// The number of turns.
    pub turns: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
    /// The tokens of all turns.
    pub tokens: u64,
    /// True if secrets are masked.
    pub is_redacted: bool,
}

impl Header {
    /// Returns the header with secrets masked.
    pub fn masked(&self, redactor: &mut Redactor) -> Header {
        let mut cut = |text: &str| redactor.mask_cut(text).into_owned();
        Header {
            title: cut(&self.title),
            id: cut(&self.id),
            program: self.program.clone(),
            agent: cut(&self.agent),
            project: cut(&self.project),
            cwd: self.cwd.as_deref().map(&mut cut),
            git_branch: self.git_branch.as_deref().map(&mut cut),
            models: self.models.iter().map(|model| cut(model)).collect(),
            state: self.state.clone(),
            parent: self.parent.as_deref().map(&mut cut),
            fork_of: self.fork_of.as_deref().map(&mut cut),
            continued_in: self.continued_in.as_deref().map(&mut cut),
            is_redacted: true,
            ..*self
        }
    }

    /// Returns the program, with its agent in brackets: `Program (main)`.
    fn whose(&self) -> String {
        match self.agent.as_str() {
            "" => self.program.clone(),
            agent => format!("{} ({agent})", self.program),
        }
    }

    /// Returns the facts to print, each with a label.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.trim().is_empty());
        let option = |value: &Option<String>| value.as_deref().and_then(text);
        let number = |number: u64| Some(words::number(number)).filter(|_| number > 0);
        [
            ("Project", text(&self.project)),
            ("Folder", option(&self.cwd)),
            ("Branch", option(&self.git_branch)),
            ("Agent", text(&self.whose())),
            ("Models", text(&self.models.join(", "))),
            ("Began", self.started_at.and_then(words::minute)),
            ("Last activity", self.updated_at.and_then(words::minute)),
            ("Turns", number(self.turns)),
            ("Tool calls", number(self.tool_calls)),
            ("Tokens", number(self.tokens)),
            ("State", text(&self.state).filter(|state| state != "live")),
            ("Sub-agent of", option(&self.parent)),
            ("Continues", option(&self.fork_of)),
            ("Continued in", option(&self.continued_in)),
            ("Session", text(&self.id)),
        ]
        .into_iter()
        .filter_map(|(label, fact)| Some((label, fact?)))
        .collect()
    }
}

/// One line of a list of exported sessions.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The session.
    pub header: Header,
    /// Its file, in the same folder. Letters, digits, `-`, `_` and `.` only.
    pub file: String,
}

#[cfg(test)]
mod tests;
