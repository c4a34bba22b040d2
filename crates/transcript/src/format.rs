//! The questions that a format answers. One agent's format is one file in [`crate::formats`] plus
//! one line in [`FORMATS`]; discovery, collecting, `quipu formats` and the contract tests read only
//! this list.

use crate::context::Rules;
use crate::entry::Entry;
use crate::formats::{claude_code::ClaudeCode, native::Native, openclaw::OpenClaw};
use crate::index::Index;

/// Every format that quipu collects.
pub static FORMATS: &[&dyn Format] = &[&ClaudeCode, &OpenClaw];

/// Every format that a session can have: those that are collected, and quipu's own.
pub fn all() -> impl Iterator<Item = &'static dyn Format> {
    let own: &'static dyn Format = &Native;
    FORMATS.iter().copied().chain([own])
}

/// The format of that name.
pub fn by_name(name: &str) -> Option<&'static dyn Format> {
    all().find(|format| format.name() == name)
}

/// How one agent keeps its sessions.
pub trait Format: Sync {
    /// The stable name that is stored, printed and used as a folder (`claude-code`).
    fn name(&self) -> &'static str;

    /// The name people use (`Claude Code`).
    fn title(&self) -> &'static str;

    /// The version of the decoder. Raise it when [`Format::decode`] would read old records, or
    /// [`Format::origin`] old paths, differently; ledgers then derive their projection again.
    fn version(&self) -> u32;

    /// Where its files live.
    fn roots(&self) -> &'static [Root];

    /// What to do with a path under one of its roots. `path` is relative, `/`-separated, and may
    /// hold any bytes. This is an allow-list: whatever it does not name is never opened.
    fn claim(&self, path: &[u8], node: Node) -> Claim;

    /// What the path of a claimed file says about the records in it; sessions in a database have
    /// paths below it, named by [`crate::rows::file_name`]. Other paths that [`Format::claim`] does
    /// not collect give an [`Origin`] of [`Part::Transcript`] without a session.
    fn origin(&self, path: &[u8]) -> Origin;

    /// Reads one JSON object. `Err` only when `json` is not one JSON object that serde can walk
    /// through (the caller then tries to recover it); every odd but readable object is `Ok`.
    fn decode<'a>(&self, origin: &Origin, json: &'a [u8]) -> serde_json::Result<Entry<'a>>;

    /// Reads a whole file of [`Framing::Document`]. Never fails.
    fn decode_document<'a>(&self, origin: &Origin, bytes: &'a [u8]) -> Entry<'a>;

    /// Reads a whole file of [`Framing::Index`]. Never fails.
    fn read_index(&self, _origin: &Origin, _bytes: &[u8]) -> Index {
        Index::default()
    }

    /// The bytes of an index without its entries for some sessions; `None` if it has none of those.
    /// Of bytes that cannot be read nothing can be left out, so nothing is left of them.
    fn index_without(
        &self,
        _origin: &Origin,
        _bytes: &[u8],
        _leave_out: &dyn Fn(&str) -> bool,
    ) -> Option<Vec<u8>> {
        None
    }

    /// Whose reader says what a model should see of its sessions.
    fn rules(&self) -> Rules;

    /// What it reads and where, for people: pairs of pattern and meaning.
    fn reads(&self) -> &'static [(&'static str, &'static str)];

    /// Whether the file at that path is zstd of what it is claimed as. It is then read, kept and
    /// given back decompressed.
    fn is_compressed(&self, _path: &[u8]) -> bool {
        false
    }

    /// The command that goes on with a session, program first, by its id or the key that leads to
    /// it; `None` if there is none.
    fn resume(&self, _id: &str, _key: Option<&str>) -> Option<Vec<String>> {
        None
    }

    /// Whether its transcripts begin with a header record.
    fn has_headers(&self) -> bool {
        false
    }

    /// Whether it has files of [`Framing::Index`].
    fn has_index(&self) -> bool {
        false
    }

    /// Whether a piece of a user's message was put there by the harness. The user's own words may
    /// stand beside it.
    fn is_injected(&self, _text: &str) -> bool {
        false
    }

    /// Whether a tool's result that mentions an error is worth a mark, because failures are not
    /// always recorded as such.
    fn error_words_count(&self) -> bool {
        false
    }

    /// After how many days without a change the agent itself deletes a transcript, if it does.
    fn cleanup_days(&self) -> Option<u32> {
        None
    }
}

/// One place where an agent may keep its files.
#[derive(Debug, Clone, Copy)]
pub struct Root {
    /// An environment variable that replaces the places under the home directory. It may hold
    /// several paths separated by commas.
    pub env: &'static str,
    /// Places relative to the home directory.
    pub home: &'static [&'static str],
}

/// What kind of directory entry a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// What to do with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// A directory to look into.
    Enter,
    /// A file to follow.
    Collect(Part),
    /// A file to follow if one of its first lines decodes; otherwise it is left out.
    Probe(Part),
    /// Not collected, and `status` says why.
    LeaveOut(&'static str),
    /// Never opened, whatever else happens; `status` names it.
    Deny,
    /// Not ours and not worth a word.
    Ignore,
}

/// Which part of an agent's store a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// A session's transcript.
    Transcript,
    /// The transcript of an agent that another session started, listed on its own.
    Agent,
    /// The transcript of a sub-agent, hidden from lists by default.
    Subagent,
    /// What a session says about one of its sub-agents.
    SubagentMeta,
    /// A tool's output, too large for the transcript.
    ToolOutput,
    /// A list of prompts over all sessions.
    PromptHistory,
    /// Which key leads to which session, with what the agent notes about each (`sessions.json`).
    Index,
    /// Sessions in another program's SQLite file.
    Database,
    /// The definitions of scheduled jobs.
    CronJobs,
    /// What a scheduled job did, run by run.
    CronRuns,
    /// A memory note or personality file of an agent's workspace.
    Note,
}

impl Part {
    /// How its bytes fall into records.
    pub fn framing(self) -> Framing {
        match self {
            Part::SubagentMeta | Part::ToolOutput | Part::CronJobs | Part::Note => {
                Framing::Document
            }
            Part::Transcript
            | Part::Agent
            | Part::Subagent
            | Part::PromptHistory
            | Part::CronRuns => Framing::Lines,
            Part::Index => Framing::Index,
            Part::Database => Framing::Rows,
        }
    }

    /// How much it matters to a collector: 0 is a conversation, 1 what ran on a schedule, 2 what an
    /// agent notes about itself.
    pub fn priority(self) -> u8 {
        match self {
            Part::Transcript
            | Part::Agent
            | Part::Subagent
            | Part::SubagentMeta
            | Part::ToolOutput
            | Part::PromptHistory
            | Part::Index
            | Part::Database => 0,
            Part::CronJobs | Part::CronRuns => 1,
            Part::Note => 2,
        }
    }

    /// Whether it holds a conversation.
    pub fn is_transcript(self) -> bool {
        matches!(self, Part::Transcript | Part::Agent | Part::Subagent)
    }

    /// The stable name that is stored and printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Part::Transcript => "transcript",
            Part::Agent => "agent",
            Part::Subagent => "subagent",
            Part::SubagentMeta => "subagent_meta",
            Part::ToolOutput => "tool_output",
            Part::PromptHistory => "prompt_history",
            Part::Index => "index",
            Part::Database => "database",
            Part::CronJobs => "cron_jobs",
            Part::CronRuns => "cron_runs",
            Part::Note => "note",
        }
    }
}

/// How a file's bytes fall into records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// One record per line, kept for ever.
    Lines,
    /// One record per distinct version of the whole file.
    Document,
    /// Only the newest bytes are kept; the journal says when a key's identity, routing or state
    /// changed, and never mentions counters, times or prompt reports.
    Index,
    /// Sessions in another program's SQLite file: one record per row, kept for ever.
    Rows,
}

/// What a file's path says about its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Which part of the store it is.
    pub part: Part,
    /// The agent whose session it is (OpenClaw's `main`); `None` where a format has no such notion.
    pub agent: Option<String>,
    /// The session that the file belongs to; `None` when its records say it themselves: a
    /// transcript's header for all that follow it, any other record for itself.
    pub session: Option<String>,
    /// The session that this one works for.
    pub parent: Option<String>,
    /// The folder that groups sessions by project (Claude Code's slug), never decoded into a path.
    pub project: Option<String>,
    /// The file's base name; for a note its path inside the workspace.
    pub name: String,
    /// Set when the agent put the file aside; the records in it read the same.
    pub archive: Option<Archive>,
}

impl Origin {
    /// An origin that says nothing beyond its part and its file's name.
    pub fn of(part: Part, name: impl Into<String>) -> Origin {
        Origin {
            part,
            agent: None,
            session: None,
            parent: None,
            project: None,
            name: name.into(),
            archive: None,
        }
    }
}

/// Why an agent put a transcript aside under another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Archive {
    /// The session was deleted.
    Deleted,
    /// The session was reset and goes on under a new id.
    Reset,
    /// A copy from before a repair or rewrite.
    Backup,
    /// The session was moved into the agent's database.
    Imported,
    /// The agent compressed a session that it no longer uses.
    Cold,
}

impl Archive {
    /// The stable name that is stored and printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Archive::Deleted => "deleted",
            Archive::Reset => "reset",
            Archive::Backup => "backup",
            Archive::Imported => "imported",
            Archive::Cold => "cold",
        }
    }
}
