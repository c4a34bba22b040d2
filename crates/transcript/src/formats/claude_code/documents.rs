//! Whole files beside a transcript: a sub-agent's description, a tool's output.

use std::borrow::Cow;

use crate::entry::{Block, Entry, Kind, Says, TitleRank, ToolResult};
use crate::format::{Origin, Part};
use crate::json::{self, Odd, fields, non_empty};
use crate::problem::{Problem, ProblemKind};

/// How far into a file a NUL byte shows that it holds no text; the same sign that grep goes by.
const BINARY_PROBE: usize = 8 << 10;

/// Reads a whole file.
pub(super) fn decode<'a>(origin: &Origin, bytes: &'a [u8]) -> Entry<'a> {
    match origin.part {
        Part::SubagentMeta => description(bytes),
        Part::ToolOutput => output(bytes),
        _ => document("document"),
    }
}

fields! {
    /// `agent-<id>.meta.json`. Real ones may hold the first two only.
    struct Description<'a> {
        "agentType" => agent_type: Cow<'a, str>,
        "description" => description: Cow<'a, str>,
        "toolUseId" => tool_use_id: Cow<'a, str>,
    }
}

fn description(bytes: &[u8]) -> Entry<'_> {
    let mut entry = document("subagent-meta");
    let mut odd = Odd::default();
    match json::object::<Description<'_>>(bytes, &mut odd) {
        Ok(description) => {
            entry.says.extend(non_empty(description.agent_type).map(Says::AgentType));
            entry.says.extend(
                non_empty(description.description).map(|text| Says::Title(TitleRank::Ai, text)),
            );
            // The only link that survives when the spawning call was interrupted.
            entry.says.extend(non_empty(description.tool_use_id).map(Says::SpawnedByCall));
            entry.problems = odd.into_problems();
        }
        Err(_) => entry.problems.push(Problem::new(ProblemKind::Opaque, "not a JSON object")),
    }
    entry
}

fn output(bytes: &[u8]) -> Entry<'_> {
    let mut entry = document("tool-output");
    let head = bytes.get(..BINARY_PROBE).unwrap_or(bytes);
    if memchr::memchr(0, head).is_some() {
        entry.blocks.push(Block::Other(Cow::Borrowed("binary")));
        return entry;
    }
    let text = String::from_utf8_lossy(bytes);
    if matches!(text, Cow::Owned(_)) {
        entry.problems.push(Problem::new(ProblemKind::InvalidUtf8, "tool output"));
    }
    entry.blocks.push(Block::ToolResult(ToolResult { text, ..ToolResult::default() }));
    entry
}

fn document(type_name: &'static str) -> Entry<'static> {
    Entry { type_name: Cow::Borrowed(type_name), kind: Kind::Document, ..Entry::default() }
}
