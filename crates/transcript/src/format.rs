//! The questions that a format answers. One agent's format is one file in [`crate::formats`] plus
//! one line in [`FORMATS`]; discovery, collecting, `quipu formats` and the contract tests read only
//! this list.

use crate::context::Reader;
use crate::entry::Entry;
use crate::formats::{claude_code::ClaudeCode, native::Native, openclaw::OpenClaw};
use crate::index::Index;

/// Every format that quipu collects.
pub static FORMATS: &[&dyn Format] = &[&ClaudeCode, &OpenClaw];

/// Returns every format that a session can have: the collected ones, and quipu's own.
pub fn all() -> impl Iterator<Item = &'static dyn Format> {
    let own: &'static dyn Format = &Native;
    FORMATS.iter().copied().chain([own])
}

/// Returns the format with this name.
pub fn by_name(name: &str) -> Option<&'static dyn Format> {
    all().find(|format| format.name() == name)
}

/// Returns the format with this name or title, or else the only one whose name begins so. Upper case
/// and lower case are the same.
pub fn by_beginning(text: &str) -> Option<&'static dyn Format> {
    let text = &*text.to_lowercase().replace(' ', "-");
    let mut fitting = all().filter(|format| !text.is_empty() && format.name().starts_with(text));
    by_name(text).or_else(|| fitting.next().filter(|_| fitting.next().is_none()))
}

/// Returns the format whose vendor limits usage in windows, and their length in hours.
pub fn window() -> Option<(&'static str, u8)> {
    FORMATS.iter().find_map(|format| Some((format.name(), format.window_hours()?)))
}

/// Splits the id of a session that is named after a file into folder and file. A slash in the name
/// of a thread does not separate folders.
pub fn folder_and_file(session: &str) -> Option<(&str, &str)> {
    let is_thread = all().filter_map(|format| format.without_thread(session));
    match is_thread.into_iter().any(|id| !id.contains('/')) {
        true => None,
        false => session.rsplit_once('/'),
    }
}

/// Returns whether `name` means the agent of a session: its own name (`main`), the name or title of
/// its format or the first word of the title (`claude-code`, `Claude Code`, `claude`), or both with
/// a slash (`OpenClaw/main`). Case is ignored.
pub fn is_agent(name: &str, format: &str, agent: &str) -> bool {
    let is_format = |name: &str| {
        let title = by_name(format).map_or(format, |format| format.title());
        let first = title.split(' ').next().unwrap_or_default();
        [format, title, first].iter().any(|known| known.eq_ignore_ascii_case(name))
    };
    let is_both = name
        .split_once('/')
        .is_some_and(|(format, own)| is_format(format) && own.eq_ignore_ascii_case(agent));
    is_both || is_format(name) || (!agent.is_empty() && name.eq_ignore_ascii_case(agent))
}

/// The storage format of one agent's sessions.
pub trait Format: Sync {
    /// Returns the stable name that is stored, printed and used as a folder (`claude-code`).
    fn name(&self) -> &'static str;

    /// Returns the name that people use (`Claude Code`).
    fn title(&self) -> &'static str;

    /// Returns the version of the decoder. Raise it when [`Format::decode`] reads old records, or
    /// [`Format::origin`] old paths, differently; ledgers then derive their projection again.
    fn version(&self) -> u32;

    /// Returns the folders in which its files are.
    fn roots(&self) -> &'static [Root];

    /// Returns what to do with a path under one of its roots. `path` is relative, `/`-separated,
    /// and may hold any bytes. This is an allow-list: a path that it does not name is never opened.
    fn claim(&self, path: &[u8], node: Node) -> Claim;

    /// Returns the facts about the records of a claimed file that follow from its path. Sessions in
    /// a database have paths below it, named by [`crate::rows::file_name`]. A path that
    /// [`Format::claim`] does not collect has an [`Origin`] of [`Part::Transcript`] without a
    /// session.
    fn origin(&self, path: &[u8]) -> Origin;

    /// Decodes one JSON object. Returns `Err` only if `json` is not one JSON object that serde can
    /// read (the caller then tries to recover it); an odd but readable object is `Ok`.
    fn decode<'a>(&self, origin: &Origin, json: &'a [u8]) -> serde_json::Result<Entry<'a>>;

    /// Decodes a whole file of [`Framing::Document`]. Never fails.
    fn decode_document<'a>(&self, origin: &Origin, bytes: &'a [u8]) -> Entry<'a>;

    /// Decodes a whole file of [`Framing::Index`]. Never fails.
    fn read_index(&self, _origin: &Origin, _bytes: &[u8]) -> Index {
        Index::default()
    }

    /// Returns the bytes of an index without its entries for some sessions, or `None` if it has no
    /// entry for them. Bytes that cannot be read are removed whole, because no single entry can be
    /// removed from them.
    fn index_without(
        &self,
        _origin: &Origin,
        _bytes: &[u8],
        _leave_out: &dyn Fn(&str) -> bool,
    ) -> Option<Vec<u8>> {
        None
    }

    /// Returns the sessions to which a key of an index may lead, the most likely one first. The
    /// first that has a transcript is the right one. `session` is the one that the index names, and
    /// `fields` are the key's fields under the names of [`crate::index::FIELDS`].
    fn sessions_of_key(
        &self,
        _key: &str,
        session: &str,
        _fields: &serde_json::Map<String, serde_json::Value>,
    ) -> Vec<String> {
        vec![session.to_owned()]
    }

    /// Returns the name of the session of a thread, if threads have sessions of their own. With an
    /// empty `thread`, returns the common beginning of these names.
    fn thread_session(&self, _id: &str, _thread: &str) -> Option<String> {
        None
    }

    /// Returns the id of a thread's session without the thread. The agent may store the transcript
    /// elsewhere under that id alone.
    fn without_thread<'s>(&self, _session: &'s str) -> Option<&'s str> {
        None
    }

    /// Returns the reader that selects a model's context; `None` while there is none for this
    /// format. Its sessions can then be read and searched, but not forked.
    ///
    /// ```
    /// use quipu_transcript::format::by_name;
    ///
    /// let openclaw = by_name("openclaw").and_then(|format| format.context());
    /// assert!(openclaw.is_some_and(|reader| reader.has_native_lines()));
    /// ```
    fn context(&self) -> Option<Reader> {
        None
    }

    /// Returns the fields of its records that a story leaves out, each with the reason: they repeat
    /// what is shown, or have no text.
    fn fields_left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Returns what a person chose to show the model, in a few words (`opened file /src/a.rs`), if
    /// an attached text of this label is that. All other attached texts are the agent's own.
    fn shown_by_person(&self, _label: &str, _text: &str) -> Option<String> {
        None
    }

    /// Returns the files that it reads, for people: pairs of pattern and meaning.
    fn reads(&self) -> &'static [(&'static str, &'static str)];

    /// Returns whether the file at `path` is compressed with zstd. It is then read, stored and
    /// restored decompressed.
    fn is_compressed(&self, _path: &[u8]) -> bool {
        false
    }

    /// Returns the command that resumes a session by its id or key, program first; `None` if the
    /// agent has none.
    fn resume(&self, _id: &str, _key: Option<&str>) -> Option<Vec<String>> {
        None
    }

    /// Returns whether its transcripts begin with a header record.
    fn has_headers(&self) -> bool {
        false
    }

    /// Returns whether the agent may store a line a second time in JavaScript's spelling. Lines are
    /// then compared in that spelling, so that the same values are the same entry.
    fn respells_lines(&self) -> bool {
        false
    }

    /// Returns whether it has files of [`Framing::Index`].
    fn has_index(&self) -> bool {
        false
    }

    /// Returns whether a tool result that mentions an error gets a mark, because the agent does not
    /// always record failures as such.
    fn error_words_count(&self) -> bool {
        false
    }

    /// Returns the number of days without a change after which the agent itself deletes a
    /// transcript, if it does.
    fn cleanup_days(&self) -> Option<u32> {
        None
    }

    /// Returns the length in hours of the windows in which a plan of the agent's vendor limits
    /// usage. A window begins with the full hour of the first response after the one before it.
    fn window_hours(&self) -> Option<u8> {
        None
    }
}

/// A location where an agent may store its files.
#[derive(Debug, Clone, Copy)]
pub struct Root {
    /// An environment variable that replaces the locations under the home directory. It may hold
    /// several paths separated by commas.
    pub env: &'static str,
    /// Locations relative to the home directory.
    pub home: &'static [&'static str],
}

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// The treatment of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// A directory to search.
    Enter,
    /// A file to follow.
    Collect(Part),
    /// A file to follow if one of its first lines decodes; otherwise left out.
    Probe(Part),
    /// Not collected; `status` prints this reason.
    LeaveOut(&'static str),
    /// Never opened under any rule; `status` prints its name.
    Deny,
    /// Not part of the format, and not reported.
    Ignore,
}

/// The part of an agent's store that a file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// A session's transcript.
    Transcript,
    /// The transcript of an agent that another session started, listed on its own.
    Agent,
    /// The transcript of a sub-agent, hidden from lists by default.
    Subagent,
    /// The description of a sub-agent.
    SubagentMeta,
    /// A tool's output that was too large for the transcript.
    ToolOutput,
    /// The title of a session, in a file of its own.
    Title,
    /// A text that was pasted into prompts and is too long for their list.
    Pasted,
    /// A record of a session's runs, which repeats its transcript. It is collected only if no
    /// transcript of the session is known.
    Trajectory,
    /// The list of prompts of all sessions.
    PromptHistory,
    /// The map from keys to sessions, with the agent's notes about each (`sessions.json`).
    Index,
    /// Sessions in another program's SQLite file.
    Database,
    /// The definitions of scheduled jobs.
    CronJobs,
    /// The runs of a scheduled job.
    CronRuns,
    /// A memory note or personality file of an agent's workspace.
    Note,
}

impl Part {
    /// All parts.
    pub const ALL: &'static [Part] = &[
        Part::Transcript,
        Part::Agent,
        Part::Subagent,
        Part::SubagentMeta,
        Part::ToolOutput,
        Part::Title,
        Part::Pasted,
        Part::Trajectory,
        Part::PromptHistory,
        Part::Index,
        Part::Database,
        Part::CronJobs,
        Part::CronRuns,
        Part::Note,
    ];

    /// Returns how its bytes are split into records.
    pub fn framing(self) -> Framing {
        match self {
            Part::SubagentMeta
            | Part::ToolOutput
            | Part::Title
            | Part::Pasted
            | Part::CronJobs
            | Part::Note => Framing::Document,
            Part::Transcript
            | Part::Agent
            | Part::Subagent
            | Part::Trajectory
            | Part::PromptHistory
            | Part::CronRuns => Framing::Lines,
            Part::Index => Framing::Index,
            Part::Database => Framing::Rows,
        }
    }

    /// Returns its priority for a collector: 0 for conversations, 1 for scheduled jobs, 2 for an
    /// agent's notes about itself.
    pub fn priority(self) -> u8 {
        match self {
            Part::Transcript
            | Part::Agent
            | Part::Subagent
            | Part::SubagentMeta
            | Part::ToolOutput
            | Part::Title
            | Part::Pasted
            | Part::Trajectory
            | Part::PromptHistory
            | Part::Index
            | Part::Database => 0,
            Part::CronJobs | Part::CronRuns => 1,
            Part::Note => 2,
        }
    }

    /// Returns whether it holds a conversation.
    pub fn is_transcript(self) -> bool {
        matches!(self, Part::Transcript | Part::Agent | Part::Subagent)
    }

    /// Returns the stable name that is stored and printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Part::Transcript => "transcript",
            Part::Agent => "agent",
            Part::Subagent => "subagent",
            Part::SubagentMeta => "subagent_meta",
            Part::ToolOutput => "tool_output",
            Part::Title => "title",
            Part::Pasted => "pasted_text",
            Part::Trajectory => "trajectory",
            Part::PromptHistory => "prompt_history",
            Part::Index => "index",
            Part::Database => "database",
            Part::CronJobs => "cron_jobs",
            Part::CronRuns => "cron_runs",
            Part::Note => "note",
        }
    }
}

/// The rule that splits a file's bytes into records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// One record per line, kept forever.
    Lines,
    /// One record per distinct version of the whole file.
    Document,
    /// Only the newest bytes are kept. The journal records each change of a key's identity, routing
    /// or state; it never mentions counters, times or prompt reports.
    Index,
    /// Sessions in another program's SQLite file: one record per row, kept forever.
    Rows,
}

/// The facts about a file's records that follow from its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The part of the store.
    pub part: Part,
    /// The agent whose session it is (OpenClaw's `main`); `None` where a format has no such notion.
    pub agent: Option<String>,
    /// The session that the file belongs to. `None` if its records name it: a transcript's header
    /// for all records after it, any other record for itself.
    pub session: Option<String>,
    /// The session that this one works for.
    pub parent: Option<String>,
    /// The folder that groups sessions by project (Claude Code's slug), never decoded into a path.
    pub project: Option<String>,
    /// The file's base name; for a note its path inside the workspace.
    pub name: String,
    /// The reason, if the agent archived the file. Its records decode the same way.
    pub archive: Option<Archive>,
}

impl Origin {
    /// Returns an origin with only a part and a file name.
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

/// The reason why an agent archived a transcript under another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Archive {
    /// The session was deleted.
    Deleted,
    /// The session was reset and continues under a new id.
    Reset,
    /// A copy from before a repair or rewrite.
    Backup,
    /// The session was moved into the agent's database.
    Imported,
    /// The agent compressed a session that it no longer uses.
    Cold,
}

impl Archive {
    /// Returns the stable name that is stored and printed.
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
