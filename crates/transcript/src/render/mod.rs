//! Renderings of a session's story for files: one file per kind.
//!
//! A rendering gets a [`Header`] and then one [`StoryItem`] after the other, and writes as it goes:
//! what it holds back does not grow with the session, except for one short line per turn where a
//! kind has a table of contents. It decides nothing about what belongs to the story; [`Telling`](crate::story::Telling)
//! says what is opened.
//!
//! Everything from a transcript is hostile. No byte of it may act in what is written: as markup, as
//! a script, as a formula, as something that is loaded, or as a character that reorders text.

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

pub use self::html::Html;
pub use self::markdown::Markdown;
pub use self::words::{GAP, compacted, count, number};

/// Writes a story.
pub trait Rendering {
    /// Begins with what is known of the session as a whole.
    fn begin(&mut self, header: &Header, out: &mut dyn Write) -> io::Result<()>;

    /// Goes on with what one entry tells.
    fn item(&mut self, item: &StoryItem<'_>, out: &mut dyn Write) -> io::Result<()>;

    /// Ends.
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()>;
}

/// What is known of a session as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Header {
    /// What it is called.
    pub title: String,
    /// The agent's id of it.
    pub id: String,
    /// The program: `Claude Code`.
    pub program: String,
    /// The agent's name; empty where there is only one.
    pub agent: String,
    /// The project's name; may be empty.
    pub project: String,
    /// Where it worked.
    pub cwd: Option<String>,
    /// The last git branch.
    pub git_branch: Option<String>,
    /// Models that answered.
    pub models: Vec<String>,
    /// `live`, `archived`, `deleted`, `gone`, `lost`.
    pub state: String,
    /// The session that it works for.
    pub parent: Option<String>,
    /// The session that it goes on from.
    pub fork_of: Option<String>,
    /// The session that it goes on in.
    pub continued_in: Option<String>,
    /// When it began, milliseconds UTC.
    pub started_at: Option<i64>,
    /// When something last happened.
    pub updated_at: Option<i64>,
    /// Prompts with all that answers them.
    pub turns: u64,
    /// Calls of tools.
    pub tool_calls: u64,
    /// Tokens of all turns.
    pub tokens: u64,
    /// Secrets are masked.
    pub is_redacted: bool,
}

impl Header {
    /// The same without secrets.
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

    /// Whose session it is: `OpenClaw (main)`.
    fn whose(&self) -> String {
        match self.agent.as_str() {
            "" => self.program.clone(),
            agent => format!("{} ({agent})", self.program),
        }
    }

    /// What there is to say about it, with a label each.
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
            ("Works for", option(&self.parent)),
            ("Goes on from", option(&self.fork_of)),
            ("Goes on in", option(&self.continued_in)),
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
