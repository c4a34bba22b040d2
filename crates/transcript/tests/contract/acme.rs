//! The format of an invented agent, in one file: all that a new agent takes besides one line in
//! `FORMATS`. The contract tests treat it like any other.
//!
//! Acme keeps one JSONL file per session under `~/.acme/sessions/`. Its lines have neither ids nor
//! parents, and usage is a separate line that takes its model from an earlier line.

use std::borrow::Cow;

use quipu_transcript::entry::{Block, Entry, Kind, Role, SessionFact, Usage};
use quipu_transcript::format::{Claim, Format, Node, Origin, Part, Root};
use quipu_transcript::names;
use quipu_transcript::time::Timestamp;
use serde::Deserialize;

/// Acme's sessions.
pub(crate) struct Acme;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    at: Option<Cow<'a, str>>,
    text: Option<Cow<'a, str>>,
    folder: Option<Cow<'a, str>>,
    model: Option<Cow<'a, str>>,
    r#in: Option<u64>,
    out: Option<u64>,
}

impl Format for Acme {
    fn name(&self) -> &'static str {
        "acme"
    }

    fn title(&self) -> &'static str {
        "Acme"
    }

    fn version(&self) -> u32 {
        1
    }

    fn roots(&self) -> &'static [Root] {
        &[Root { env: "ACME_HOME", home: &[".acme"] }]
    }

    fn claim(&self, path: &[u8], node: Node) -> Claim {
        match node {
            _ if names::is_denied(path) => Claim::Deny,
            Node::Directory if path == b"sessions" => Claim::Enter,
            Node::File if session(path).is_some() => Claim::Collect(Part::Transcript),
            _ => Claim::Ignore,
        }
    }

    fn origin(&self, path: &[u8]) -> Origin {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let mut origin = Origin::of(Part::Transcript, String::from_utf8_lossy(name));
        origin.session = session(path);
        origin
    }

    fn decode<'a>(&self, _: &Origin, json: &'a [u8]) -> serde_json::Result<Entry<'a>> {
        let line: Line<'a> = match serde_json::from_slice(json) {
            Ok(line) => line,
            // An object with odd values is still read, as one of an unknown type.
            Err(_) => {
                serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(json)?;
                return Ok(Entry::default());
            }
        };
        let mut entry = Entry {
            type_name: line.kind.unwrap_or_default(),
            time: line.at.as_deref().and_then(Timestamp::from_text),
            ..Entry::default()
        };
        entry.kind = match &*entry.type_name {
            // Sets the model for the usage that follows.
            "start" => {
                entry.model = line.model;
                entry.facts.extend(line.folder.map(SessionFact::Cwd));
                Kind::ModelChange
            }
            "human" | "model" => {
                let is_human = entry.type_name == "human";
                entry.role = Some(if is_human { Role::User } else { Role::Assistant });
                entry.marks.is_prompt = is_human;
                entry.blocks.extend(line.text.map(Block::Text));
                Kind::Message
            }
            "tokens" => {
                entry.usage = Some(Usage {
                    input: line.r#in.unwrap_or_default(),
                    output: line.out.unwrap_or_default(),
                    ..Usage::default()
                });
                entry.marks.is_side = true;
                Kind::Note
            }
            _ => Kind::Unknown,
        };
        Ok(entry)
    }

    fn decode_document<'a>(&self, _: &Origin, _: &'a [u8]) -> Entry<'a> {
        Entry { kind: Kind::Document, ..Entry::default() }
    }

    fn reads(&self) -> &'static [(&'static str, &'static str)] {
        &[("sessions/<session>.jsonl", "transcripts")]
    }
}

/// Returns the session that a path names: `sessions/<id>.jsonl`.
fn session(path: &[u8]) -> Option<String> {
    let name = path.strip_prefix(b"sessions/")?.strip_suffix(b".jsonl")?;
    let is_plain = !name.is_empty() && name.iter().all(u8::is_ascii_hexdigit);
    is_plain.then(|| String::from_utf8_lossy(name).into_owned())
}
