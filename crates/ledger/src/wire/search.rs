//! What a search found.

use serde::Serialize;

/// An answer to a search.
#[derive(Debug, Clone, Default)]
pub struct SearchAnswer {
    /// The hits that were asked for, best or newest first.
    pub hits: Vec<SearchHit>,
    /// How many there are in all.
    pub total: u64,
    /// What the answer may be missing.
    pub gaps: SearchGaps,
    /// What was read because the index could not tell.
    pub scanned: Option<Scanned>,
}

/// What an answer may be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchGaps {
    /// Records that are not in the index yet.
    pub unprojected: u64,
    /// Entries whose text is in the index only in part, though all of it can be looked through.
    pub partly_indexed: u64,
    /// Records above 32 MiB, of which only the first 64 KiB are read.
    pub too_long: u64,
    /// Hits in the model's reasoning, where nothing else was found.
    pub in_thinking: u64,
}

/// What was read because the index could not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Records.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Records above 32 MiB, of which only the first 64 KiB are read.
    pub too_long: u64,
}

/// An entry that was found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SearchHit {
    /// The session's id; `null` for what belongs to none: notes, jobs, prompts.
    pub session: Option<String>,
    /// The agent's id for the entry; without one `#` and its number.
    pub entry: String,
    /// The entry's number in the ledger.
    pub number: i64,
    /// The entry's type, as written.
    pub kind: String,
    /// Who speaks.
    pub role: Option<String>,
    /// When, in milliseconds UTC.
    pub time: Option<i64>,
    /// The text around what was found, on one line.
    pub snippet: String,
    /// What was found in it: beginning and end, in characters.
    pub marks: Vec<(usize, usize)>,
    /// There is text before the snippet.
    pub cut_before: bool,
    /// There is text after it.
    pub cut_after: bool,
    /// Where it was found: `text`, `input`, `result`, `thinking`.
    pub place: &'static str,
    /// The tool that was called, or that answered.
    pub tool: Option<String>,
    /// The agent recorded it as failed.
    pub is_error: bool,
    /// There is a newer version of it, in which nothing was found.
    pub is_older: bool,
    /// Why a story does not tell it unless it is asked for: `meta`, `mirror`, `sidechain`, `summary`,
    /// `injected` beside other words; `bookkeeping` is never told. `null` for what is told.
    pub folded: Option<&'static str>,
    /// The number of the turn in its session, from 1.
    pub turn: Option<u64>,
    /// The format.
    pub format: String,
    /// The agent.
    pub agent: Option<String>,
    /// The session's title, or its first prompt.
    pub title: Option<String>,
    /// The project's name: the last folder of its path.
    pub project: Option<String>,
    /// Claude Code's name of the project's folder.
    pub slug: Option<String>,
    /// The first working directory.
    pub cwd: Option<String>,
    /// The session's part: `transcript`, `agent`, `subagent`, `prompt_history`.
    pub part: Option<String>,
    /// The session's state: `live`, `archived`, `deleted`, `gone`, `lost`.
    pub state: Option<String>,
    /// The session that this one works for.
    pub parent: Option<String>,
    /// The name of the note, or of the job.
    pub name: Option<String>,
    /// How well it fits; higher is better.
    pub score: Option<f64>,
    /// What stands before and after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub around: Vec<Nearby>,
}

/// An entry near a hit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Nearby {
    /// The entry's number in the ledger.
    pub number: i64,
    /// Before the hit, not after it.
    pub is_before: bool,
    /// Who speaks.
    pub role: Option<String>,
    /// When.
    pub time: Option<i64>,
    /// The beginning of its text, on one line.
    pub text: String,
}
