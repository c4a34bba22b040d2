//! OpenClaw, and pi, whose transcripts it writes: one JSONL file per session and agent.
//!
//! Decoded here: the file store of releases up to 2026.7.1; the archives that every release leaves
//! next to it, compressed or not; their index; the SQLite store of later releases, whose rows are
//! the same lines; scheduled jobs; memory and personality notes.

mod archives;
mod cron;
mod files;
mod index;
mod lines;
mod notes;
mod spawn;
mod summary;
mod trajectory;
mod user_text;

pub(crate) use index::nests_too_deeply;

use crate::context::Reader;
use crate::entry::{Entry, Kind};
use crate::format::{Claim, Format, Node, Origin, Part, Root};
use crate::index::Index;

/// Decodes an index with all fields of its entries, including values that otherwise stay in its
/// bytes.
pub fn whole_index(bytes: &[u8]) -> Index {
    index::read_fields(bytes, true)
}

/// OpenClaw's sessions under `~/.openclaw/agents/<agent>/sessions/`.
pub struct OpenClaw;

impl Format for OpenClaw {
    fn name(&self) -> &'static str {
        "openclaw"
    }

    fn title(&self) -> &'static str {
        "OpenClaw"
    }

    fn resume(&self, _: &str, key: Option<&str>) -> Option<Vec<String>> {
        // A session without a key receives no more messages.
        Some(["openclaw", "tui", "--session", key?].map(str::to_owned).to_vec())
    }

    fn version(&self) -> u32 {
        8
    }

    fn has_headers(&self) -> bool {
        true
    }

    // OpenClaw does so when it moves a transcript into its database.
    fn respells_lines(&self) -> bool {
        true
    }

    fn has_index(&self) -> bool {
        true
    }

    fn error_words_count(&self) -> bool {
        true
    }

    fn roots(&self) -> &'static [Root] {
        // The last three are earlier names of the project.
        &[Root {
            env: "OPENCLAW_STATE_DIR",
            home: &[".openclaw", ".clawdbot", ".moltbot", ".moldbot"],
        }]
    }

    fn claim(&self, path: &[u8], node: Node) -> Claim {
        files::claim(path, node)
    }

    fn origin(&self, path: &[u8]) -> Origin {
        files::origin(path)
    }

    fn is_compressed(&self, path: &[u8]) -> bool {
        archives::is_compressed(path)
    }

    fn decode<'a>(&self, origin: &Origin, json: &'a [u8]) -> serde_json::Result<Entry<'a>> {
        match origin.part {
            Part::CronRuns => cron::decode_run(origin, json),
            Part::Trajectory => trajectory::decode(json),
            _ => lines::decode(origin, json),
        }
    }

    fn decode_document<'a>(&self, origin: &Origin, bytes: &'a [u8]) -> Entry<'a> {
        match origin.part {
            Part::CronJobs => cron::decode_jobs(bytes),
            Part::Note => notes::decode(bytes),
            _ => Entry { type_name: "document".into(), kind: Kind::Document, ..Entry::default() },
        }
    }

    fn read_index(&self, _origin: &Origin, bytes: &[u8]) -> Index {
        index::read(bytes)
    }

    fn sessions_of_key(
        &self,
        key: &str,
        session: &str,
        fields: &serde_json::Map<String, serde_json::Value>,
    ) -> Vec<String> {
        index::sessions_of_key(key, session, fields)
    }

    fn thread_session(&self, id: &str, thread: &str) -> Option<String> {
        Some(archives::of_thread(id, thread))
    }

    fn without_thread<'s>(&self, session: &'s str) -> Option<&'s str> {
        archives::without_thread(session)
    }

    fn index_without(
        &self,
        _origin: &Origin,
        bytes: &[u8],
        leave_out: &dyn Fn(&str) -> bool,
    ) -> Option<Vec<u8>> {
        index::without(bytes, leave_out)
    }

    fn context(&self) -> Option<Reader> {
        Some(Reader::OPENCLAW)
    }

    fn fields_left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("parentId", "an id; `--json` has it"),
            ("toolCallId", "pairs a call with its result"),
            ("isError", "the outcome of the call"),
            ("thinkingSignature", "a proof for the API, no text"),
            ("textSignature", "a proof for the API, no text"),
            ("thoughtSignature", "a proof for the API, no text"),
            ("partialJson", "what a call's arguments were read from"),
            ("partialArgs", "what a call's arguments were read from"),
        ]
    }

    fn shown_by_person(&self, label: &str, text: &str) -> Option<String> {
        user_text::shown_by_person(label, text)
    }

    fn reads(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("agents/<agent>/sessions/<session>.jsonl", "transcripts"),
            (
                "agents/<agent>/agent/openclaw-agent.sqlite",
                "transcripts and keys of releases since 2026.7.2",
            ),
            ("agents/<agent>/sessions/sessions.json", "map from keys to sessions"),
            ("agents/<agent>/sessions/<session>-topic-<thread>.jsonl", "transcripts of one thread"),
            (
                "agents/<agent>/sessions/<session>.jsonl.reset.<time>",
                "transcripts from before a reset",
            ),
            (
                "agents/<agent>/sessions/<session>.jsonl.deleted.<time>",
                "transcripts of deleted sessions",
            ),
            ("agents/<agent>/sessions/<session>.jsonl.bak-*", "transcripts from before a repair"),
            ("agents/<agent>/sessions/<session>.jsonl.full.bak", "the same"),
            (
                "agents/<agent>/sessions/<session>.jsonl.imported-<time>",
                "transcripts that were moved into a database",
            ),
            (
                "session-sqlite-import-archive/*.<session>.jsonl.*",
                "the same, in a folder of their own; also below an agent",
            ),
            ("agents/<agent>/sessions/cold/<hash>.jsonl.zst", "transcripts no longer used"),
            ("*.zst", "each of the above, compressed; restored decompressed"),
            ("cron/jobs.json", "scheduled jobs; every version is kept"),
            ("cron/runs/<job>.jsonl", "runs of scheduled jobs"),
            ("cron/**/*.migrated", "the same, from before a move into a database"),
            ("workspace/MEMORY.md, memory/**/*.md", "memory notes; every version is kept"),
            (
                "workspace/{SOUL,IDENTITY,USER,AGENTS,…}.md",
                "personality notes; every version is kept",
            ),
            ("workspace-<agent>/", "the same, of another agent"),
        ]
    }
}
