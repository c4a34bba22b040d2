//! Decodes whole files next to a transcript: a sub-agent's description, a tool's output, a title; and
//! texts that were pasted into prompts.

use std::borrow::Cow;

use crate::entry::{Block, Entry, Kind, SessionFact, TitleRank, ToolResult};
use crate::format::{Origin, Part};
use crate::formats::plain;
use crate::json::{self, Oddities, fields, non_empty};
use crate::problem::{Problem, ProblemKind};

/// Decodes a whole file.
pub(super) fn decode<'a>(origin: &Origin, bytes: &'a [u8]) -> Entry<'a> {
    match origin.part {
        Part::SubagentMeta => description(bytes),
        Part::ToolOutput => output(bytes),
        Part::Title => title(bytes),
        Part::Pasted => pasted(bytes),
        _ => document("document"),
    }
}

fields! {
    /// `agent-<id>.meta.json`. Real files may hold only the first two fields.
    struct Description<'a> {
        "agentType" => agent_type: Cow<'a, str>,
        "description" => description: Cow<'a, str>,
        "toolUseId" => tool_use_id: Cow<'a, str>,
    }
}

fn description(bytes: &[u8]) -> Entry<'_> {
    let mut entry = document("subagent-meta");
    let mut odd = Oddities::default();
    match json::object::<Description<'_>>(bytes, &mut odd) {
        Ok(description) => {
            entry.facts.extend(non_empty(description.agent_type).map(SessionFact::AgentType));
            entry.facts.extend(
                non_empty(description.description)
                    .map(|text| SessionFact::Title(TitleRank::Ai, text)),
            );
            // If the spawning call was interrupted, this is the only link that survives.
            entry.facts.extend(non_empty(description.tool_use_id).map(SessionFact::SpawnedByCall));
            entry.problems = odd.into_problems();
        }
        Err(_) => entry.problems.push(Problem::new(ProblemKind::Opaque, "not a JSON object")),
    }
    entry
}

fields! {
    /// `custom-title.json`.
    struct Title<'a> {
        "customTitle" => title: Cow<'a, str>,
    }
}

fn title(bytes: &[u8]) -> Entry<'_> {
    let mut entry = document("custom-title");
    let mut odd = Oddities::default();
    match json::object::<Title<'_>>(bytes, &mut odd) {
        Ok(file) => {
            let title = non_empty(file.title);
            entry.facts.extend(title.map(|text| SessionFact::Title(TitleRank::File, text)));
            entry.problems = odd.into_problems();
        }
        Err(_) => entry.problems.push(Problem::new(ProblemKind::Opaque, "not a JSON object")),
    }
    entry
}

fn pasted(bytes: &[u8]) -> Entry<'_> {
    let mut entry = document("pasted-text");
    let text = plain::text(&mut entry, bytes, "pasted text");
    entry.blocks.extend(text.map(Block::Text));
    entry
}

fn output(bytes: &[u8]) -> Entry<'_> {
    let mut entry = document("tool-output");
    let text = plain::text(&mut entry, bytes, "tool output");
    let result = |text| Block::ToolResult(ToolResult { text, ..ToolResult::default() });
    entry.blocks.extend(text.map(result));
    entry
}

fn document(type_name: &'static str) -> Entry<'static> {
    Entry { type_name: Cow::Borrowed(type_name), kind: Kind::Document, ..Entry::default() }
}
