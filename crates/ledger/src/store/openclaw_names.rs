//! Names of files and ids that OpenClaw accepts.
//!
//! An id may come from an agent or an attacker. If OpenClaw would refuse an id, or would read its
//! file as something else, the file is named after a UUID derived from the id. The header then
//! holds the id itself. Never creates a file.

use std::borrow::Cow;

use quipu_transcript::format::{Claim, Format, Node, Part};
use quipu_transcript::formats::openclaw::OpenClaw;
use quipu_transcript::time::Timestamp;

/// The largest length of an id that OpenClaw accepts, in characters.
const MAX_ID_CHARS: usize = 128;

/// The largest length of a name, in bytes, so that it fits into a folder together with an archive's
/// suffix.
const MAX_NAME_BYTES: usize = 200;

/// Returns the id of a session in OpenClaw's files.
pub(crate) fn session_id(id: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let is_accepted = id.len() <= MAX_ID_CHARS
        && id.bytes().all(is_plain)
        && id.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
        && session_of_file("main", id).as_deref() == Some(id);
    if is_accepted { Cow::Borrowed(id) } else { Cow::Owned(derived_uuid(id)) }
}

/// Returns the name of an agent's folder, in lower case like all names of OpenClaw's agents.
pub(crate) fn agent(agent: &str) -> Cow<'_, str> {
    let is_plain = !agent.is_empty()
        && agent.len() <= 64
        && !agent.starts_with('.')
        && !agent.contains(['/', '\\', ':'])
        && !agent.chars().any(char::is_control);
    match is_plain && session_of_file(agent, "x").is_some() {
        true if agent.chars().any(char::is_uppercase) => Cow::Owned(agent.to_lowercase()),
        true => Cow::Borrowed(agent),
        false => Cow::Owned(format!("agent-{}", derived_uuid(agent))),
    }
}

/// Returns the name of a transcript without its ending: the session's id and its thread. The thread
/// is left out if OpenClaw could not read it from the name.
pub(crate) fn stem(session_id: &str, thread: Option<&str>) -> String {
    let topic = thread.map(|thread| format!("{session_id}-topic-{}", encode_uri_component(thread)));
    let is_right = |stem: &String| {
        let named = session_of_file("main", stem);
        let meant = thread.map(|thread| format!("{session_id}-topic-{thread}"));
        stem.len() <= MAX_NAME_BYTES && named == meant
    };
    topic.filter(is_right).unwrap_or_else(|| session_id.to_owned())
}

/// Splits the name of a thread's transcript into the session's id and the thread.
pub(crate) fn topic(id: &str) -> Option<(&str, &str)> {
    id.split_once("-topic-").filter(|(id, _)| !id.is_empty())
}

/// Returns whether OpenClaw reads a transcript with that name as this session.
pub(crate) fn names_session(stem: &str, id: &str) -> bool {
    session_of_file("main", stem).as_deref() == Some(id)
}

/// Returns the id that an export wrote into a header as `header`: `own`, or the part of `own`
/// before its thread; `None` if it wrote neither.
pub(crate) fn header_id<'a>(own: &'a str, header: &str) -> Option<&'a str> {
    let ids = [Some(own), topic(own).map(|(id, _)| id)];
    ids.into_iter().flatten().find(|id| session_id(id) == header)
}

/// Returns the folder of an agent's sessions.
pub(crate) fn folder(agent_folder: &str) -> String {
    format!("agents/{agent_folder}/sessions")
}

/// Returns a time in the form that archive names use.
pub(crate) fn time(millis: i64) -> String {
    Timestamp(millis).to_iso().replace(':', "-")
}

/// Returns the session of a transcript with that name; `None` if it is not a live transcript.
fn session_of_file(agent: &str, stem: &str) -> Option<String> {
    let path = format!("{}/{stem}.jsonl", folder(agent));
    let is_transcript =
        OpenClaw.claim(path.as_bytes(), Node::File) == Claim::Collect(Part::Transcript);
    let origin = OpenClaw.origin(path.as_bytes());
    let is_live = is_transcript && origin.archive.is_none();
    origin.session.filter(|_| is_live && origin.agent.as_deref() == Some(agent))
}

/// Returns a UUID derived from a text. The same text always has the same UUID.
pub(crate) fn derived_uuid(text: &str) -> String {
    let hash = blake3::hash(text.as_bytes());
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(hash.as_bytes()).for_each(|(to, from)| *to = *from);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

/// Encodes a text like JavaScript's `encodeURIComponent`.
fn encode_uri_component(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => out.push(char::from(byte)),
            b'-' | b'_' | b'.' | b'!' | b'~' | b'*' | b'\'' | b'(' | b')' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_openclaw_does_not_accept_become_uuids() {
        let id = "13f7ee8b-4916-4c0c-a7c3-6a9d44685f32";
        assert_eq!(session_id(id), id);
        assert_eq!(session_id("ses_1.2"), "ses_1.2");
        for odd in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "a\\b",
            "-a",
            ".a",
            "a b",
            "\u{e4}",
            "a\n",
            "%2e",
            "x.jsonl.reset.y",
            "x.trajectory",
            "auth-profiles.json",
            &"x".repeat(200),
        ] {
            let name = session_id(odd);
            assert_ne!(name, odd, "{odd:?}");
            assert_eq!(name.len(), 36, "{odd:?}");
            assert_eq!(session_id(&name), name);
        }
        for odd in ["", "..", "a/b", ".ssh", "a:b", "a\0b"] {
            let name = agent(odd).into_owned();
            assert!(name.starts_with("agent-"), "{odd:?}: {name}");
        }
        assert_eq!(agent("work"), "work");
        assert_eq!(agent("Work"), "work");
    }

    #[test]
    fn threads_are_in_the_names_of_their_files() {
        assert_eq!(stem("a", None), "a");
        assert_eq!(stem("a", Some("7")), "a-topic-7");
        assert_eq!(stem("a", Some("17.5/x \u{1f99e}")), "a-topic-17.5%2Fx%20%F0%9F%A6%9E");
        assert_eq!(stem("a", Some(&"x".repeat(300))), "a");
        assert_eq!(stem("a", Some("x.jsonl.reset.y")), "a");
    }
}
