//! The shape of search results.

use serde::Serialize;

use super::SessionState;

/// The result of a search.
#[derive(Debug, Clone, Default)]
pub struct SearchAnswer {
    /// The requested hits, best or newest first.
    pub hits: Vec<SearchHit>,
    /// The number of all hits for the words as typed.
    pub total: u64,
    /// The number of further hits, with other English endings of the words.
    pub with_other_endings: u64,
    /// For words with signs: how many of the hits hold them letter for letter. `None` if no word
    /// has signs, or if not all hits were compared; it is then at most `total`.
    pub as_typed: Option<u64>,
    /// True if a word has signs and not all hits were compared.
    pub is_at_most: bool,
    /// If nothing was found: the nearest words that the index holds.
    pub nearest: Vec<NearestWord>,
    /// Counts of the work of the search, for measurements.
    pub work: SearchWork,
    /// The limits of this result.
    pub gaps: SearchGaps,
    /// The records that were read because the index could not answer.
    pub scanned: Option<Scanned>,
}

/// A word of the index that is like a word that no entry holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearestWord {
    /// The word as typed.
    pub typed: String,
    /// The nearest word.
    pub word: String,
    /// The number of entries that hold it.
    pub entries: u64,
}

/// Counts of the work of a search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SearchWork {
    /// The number of entries whose text was compared letter for letter.
    pub compared: u64,
    /// The number of terms of the index that were read for other endings and nearest words.
    pub terms: u64,
}

/// The limits of a search result: what it may lack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchGaps {
    /// The number of records that are not in the index yet.
    pub unprojected: u64,
    /// The number of entries of which only a part is in the index. A scan reads all of their text.
    pub partly_indexed: u64,
    /// The number of records above 32 MiB. Only the first 64 KiB of each are read.
    pub too_long: u64,
    /// If nothing was found: the number of hits in the model's reasoning.
    pub in_thinking: u64,
    /// If nothing was found: the number of hits in text that programs attached to messages.
    pub in_attached: u64,
}

/// The records that were read because the index could not answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scanned {
    /// The number of records.
    pub records: u64,
    /// The number of bytes in them.
    pub bytes: u64,
    /// The number of records above 32 MiB. Only the first 64 KiB of each are read.
    pub too_long: u64,
}

/// An entry that matches.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchHit {
    /// The session's id; `null` for entries without a session: notes, jobs, prompts.
    pub session_id: Option<String>,
    /// The agent's id of the entry; without one, `#` and its number.
    pub entry_id: String,
    /// The entry's number in the ledger.
    pub entry: i64,
    /// The entry's type, as written.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The role of the speaker.
    pub role: Option<String>,
    /// The time, milliseconds UTC.
    pub time: Option<i64>,
    /// The text around the match, with its line breaks.
    pub snippet: String,
    /// The matches in it: beginning and end, in characters.
    pub marks: Vec<(usize, usize)>,
    /// True if text before the snippet was cut off.
    pub is_cut_before: bool,
    /// True if text after the snippet was cut off.
    pub is_cut_after: bool,
    /// The kind of text that matches: `text`, `input`, `result`, `thinking`,
    /// `attached`.
    pub place: &'static str,
    /// The tool that was called or that answered.
    pub tool: Option<String>,
    /// True if the agent recorded it as failed.
    pub is_error: bool,
    /// True if there is a newer version of it that does not match.
    pub is_older: bool,
    /// The reason why `show` hides it by default: `meta`, `mirror`, `sidechain`, `summary`,
    /// `queued`, `unknown`, `bookkeeping`, `attached` for text that a program attached to the
    /// message, or `injected` for the output of a command that the user ran. `null` if it is not
    /// hidden.
    pub folded: Option<&'static str>,
    /// The number of the turn in its session, from 1.
    pub turn_number: Option<u64>,
    /// The session's format.
    pub format: String,
    /// The session's agent.
    pub agent: Option<String>,
    /// The session's title, or its first prompt.
    pub title: Option<String>,
    /// The project's name: the last folder of its path.
    pub project: Option<String>,
    /// Claude Code's name of the project's folder.
    pub slug: Option<String>,
    /// The first working directory.
    pub cwd: Option<String>,
    /// The session's part: `transcript`, `agent`, `subagent`, `trajectory`, `prompt_history`.
    pub part: Option<String>,
    /// The state of the session's files.
    pub state: Option<SessionState>,
    /// The parent session, for which this one works.
    pub parent_session_id: Option<String>,
    /// The name of the note, or of the job.
    pub name: Option<String>,
    /// The relevance; higher is better.
    pub score: Option<f64>,
    /// How the match differs from what was typed: `signs` (`foo bar` for `foo_bar`), `ending`
    /// (`error` for `errors`). `null` if it does not.
    pub variant: Option<&'static str>,
    /// The entries before and after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub around: Vec<Nearby>,
}

/// An entry near a hit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Nearby {
    /// The entry's number in the ledger.
    pub entry: i64,
    /// True if the entry is before the hit, false if after it.
    pub is_before: bool,
    /// The role of the speaker.
    pub role: Option<String>,
    /// The time, milliseconds UTC.
    pub time: Option<i64>,
    /// The beginning of its text, on one line.
    pub text: String,
}

/// An entry that matches, with the number of all hits.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountedHit<'a> {
    /// The entry.
    #[serde(flatten)]
    pub hit: &'a SearchHit,
    /// The number of all hits for the words as typed.
    pub total_hits: u64,
}
