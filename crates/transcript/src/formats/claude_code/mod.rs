//! Claude Code: one JSONL file per session under `~/.claude/projects/`.
//!
//! Read in this order: `paths` (the locations of files), `line` (the fields of a line), `entries`
//! (the line types), `user`, `envelope` and `replies` (the author of a user line), `attachment`
//! (what the program attached to a prompt), `documents` (whole files next to a transcript).
//!
//! The format has no published definition. Types and fields come from real transcripts of releases
//! 1.0 to 2.1; unknown ones are stored and shown as unknown.

mod attachment;
mod documents;
mod entries;
mod envelope;
mod line;
mod paths;
mod replies;
mod shown;
mod user;

use crate::context::Reader;
use crate::entry::Entry;
use crate::format::{Claim, Format, Node, Origin, Part, Root};

/// Claude Code's format.
pub struct ClaudeCode;

impl Format for ClaudeCode {
    fn name(&self) -> &'static str {
        "claude-code"
    }

    fn title(&self) -> &'static str {
        "Claude Code"
    }

    fn resume(&self, id: &str, _: Option<&str>) -> Option<Vec<String>> {
        // Claude Code finds a session by its file, in the project of the current folder.
        let id = id.rsplit('/').next()?;
        Some(["claude", "--resume", id].map(str::to_owned).to_vec())
    }

    fn version(&self) -> u32 {
        7
    }

    fn roots(&self) -> &'static [Root] {
        // Releases of early 2025 and some systems use the second location.
        &[Root { env: "CLAUDE_CONFIG_DIR", home: &[".claude", ".config/claude"] }]
    }

    fn claim(&self, path: &[u8], node: Node) -> Claim {
        paths::claim(path, node)
    }

    fn origin(&self, path: &[u8]) -> Origin {
        paths::origin(path)
    }

    fn decode<'a>(&self, origin: &Origin, json: &'a [u8]) -> serde_json::Result<Entry<'a>> {
        match origin.part {
            Part::PromptHistory => entries::decode_history(json),
            _ => entries::decode(origin, json),
        }
    }

    fn decode_document<'a>(&self, origin: &Origin, bytes: &'a [u8]) -> Entry<'a> {
        documents::decode(origin, bytes)
    }

    fn context(&self) -> Option<Reader> {
        Some(Reader::CLAUDE_CODE)
    }

    fn fields_left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("uuid", "an id; `--json` has it"),
            ("parentUuid", "an id; `--json` has it"),
            ("logicalParentUuid", "an id; `--json` has it"),
            ("tool_use_id", "pairs a call with its result"),
            ("toolUseID", "pairs a call with its result"),
            ("sourceToolAssistantUUID", "pairs a call with its result"),
            ("sourceToolUseID", "pairs a call with its result"),
            ("sessionId", "the session, or that of a copied line; `--entry` shows it"),
            ("session_id", "the first session of the process; `--entry` shows it"),
            ("gitBranch", "the last one is at the top of the story; `--entry` shows it"),
            ("userType", "the kind of account; `--entry` shows it"),
            ("entrypoint", "the program that was started; `--entry` shows it"),
            ("isSidechain", "the kind of the item"),
            ("is_error", "the outcome of the call"),
            ("modelUsage", "counted by `quipu usage`"),
            ("signature", "a proof for the API, no text"),
            ("toolUseResult", "the result once more, in the tool's own form"),
            ("normalizedMessages", "the sub-agent's message once more"),
            ("rendered", "an attachment once more, as the model got it"),
            ("snapshot", "names of file backups"),
            ("shape", "the vendor's system prompt and tools"),
            ("params", "settings of a request"),
            ("systemPrompt", "the vendor's system prompt and tools"),
        ]
    }

    fn shown_by_person(&self, label: &str, text: &str) -> Option<String> {
        shown::by_person(label, text)
    }

    fn reads(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("projects/<slug>/<uuid>.jsonl", "sessions"),
            ("projects/<slug>/agent-<id>.jsonl", "sub-agents of older releases"),
            (
                "projects/<slug>/<uuid>/subagents/**/agent-<id>.jsonl",
                "sub-agents, hidden from lists",
            ),
            (
                "projects/<slug>/<uuid>/subagents/**/agent-<id>.meta.json",
                "descriptions of sub-agents",
            ),
            ("projects/<slug>/<uuid>/tool-results/*", "tool output too large for the transcript"),
            ("projects/<slug>/<uuid>/custom-title.json", "the title that a person gave"),
            ("history.jsonl", "every prompt ever typed, with pasted text"),
            ("paste-cache/<hash>.txt", "long text that was pasted into prompts"),
        ]
    }

    fn cleanup_days(&self) -> Option<u32> {
        Some(30)
    }

    fn window_hours(&self) -> Option<u8> {
        Some(5)
    }
}
