//! Sessions that runtimes write directly into a ledger. Their lines have the shape of pi's and
//! OpenClaw's, so they decode the same way; no file is ever searched for.

use super::openclaw::OpenClaw;
use crate::context::Reader;
use crate::entry::Entry;
use crate::format::{Claim, Format, Node, Origin, Part, Root};
use crate::rows;

/// The name of the format.
pub const NAME: &str = "native";

/// Native sessions, which runtimes write directly into the ledger.
pub struct Native;

impl Format for Native {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "quipu"
    }

    fn version(&self) -> u32 {
        OpenClaw.version()
    }

    fn roots(&self) -> &'static [Root] {
        &[]
    }

    fn claim(&self, _: &[u8], _: Node) -> Claim {
        Claim::Ignore
    }

    fn origin(&self, path: &[u8]) -> Origin {
        let path = String::from_utf8_lossy(path);
        let parts: Vec<&str> = path.split('/').collect();
        let name = parts.last().copied().unwrap_or_default();
        let mut origin = Origin::of(Part::Transcript, name);
        if let ["agents", agent, "sessions", name] = parts.as_slice() {
            origin.agent = Some(rows::session(agent));
            match name.strip_suffix(".jsonl") {
                Some(session) => origin.session = Some(rows::session(session)),
                None => origin.part = Part::Index,
            }
        }
        origin
    }

    fn decode<'a>(&self, origin: &Origin, json: &'a [u8]) -> serde_json::Result<Entry<'a>> {
        OpenClaw.decode(origin, json)
    }

    fn decode_document<'a>(&self, origin: &Origin, bytes: &'a [u8]) -> Entry<'a> {
        OpenClaw.decode_document(origin, bytes)
    }

    fn context(&self) -> Option<Reader> {
        OpenClaw.context()
    }

    fn shown_by_person(&self, label: &str, text: &str) -> Option<String> {
        OpenClaw.shown_by_person(label, text)
    }

    fn fields_left_out(&self) -> &'static [(&'static str, &'static str)] {
        OpenClaw.fields_left_out()
    }

    fn reads(&self) -> &'static [(&'static str, &'static str)] {
        &[("quipu session …", "sessions that runtimes keep in the ledger")]
    }

    fn has_headers(&self) -> bool {
        true
    }

    fn has_index(&self) -> bool {
        true
    }

    fn error_words_count(&self) -> bool {
        true
    }
}

/// Returns the path that names a session in the ledger; no such file exists. `None` if an id is
/// empty or too long for a file name.
pub fn transcript_path(agent: &str, session: &str) -> Option<String> {
    let (agent, session) = (rows::file_name(agent)?, rows::file_name(session)?);
    Some(format!("agents/{agent}/sessions/{session}.jsonl"))
}

/// Returns the path that names an agent's keys in the ledger; no such file exists.
pub fn index_path(agent: &str) -> Option<String> {
    Some(format!("agents/{}/sessions/sessions.json", rows::file_name(agent)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_back_from_paths_and_never_leave_their_folder() {
        for id in ["a", "main", "../../etc", "a/b", "agent:x", "%2F", "ü", ".", "x.jsonl"] {
            let path = transcript_path(id, id).unwrap_or_default();
            let origin = Native.origin(path.as_bytes());
            assert_eq!(origin.agent.as_deref(), Some(id), "{path}");
            assert_eq!(origin.session.as_deref(), Some(id), "{path}");
            assert_eq!(path.matches('/').count(), 3, "{path}");
            assert!(!path.contains("/."), "{path}");
            let index = index_path(id).unwrap_or_default();
            assert_eq!(Native.origin(index.as_bytes()).part, Part::Index);
        }
        assert_eq!(transcript_path("main", ""), None);
    }
}
