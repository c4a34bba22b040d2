//! Names of the files and ids that OpenClaw accepts.
//!
//! Ids are an agent's or an attacker's. One that OpenClaw would not take, or whose file would be
//! something else than that session's transcript, is written as a UUID that is made of it, and the
//! header tells the id itself.

use std::borrow::Cow;

use quipu_transcript::format::{Claim, Format, Node, Part};
use quipu_transcript::formats::openclaw::OpenClaw;
use quipu_transcript::time::Timestamp;

/// OpenClaw takes ids of at most so many characters.
const LONGEST: usize = 128;

/// Longer names fit in no folder, together with what archives are called.
const LONGEST_NAME: usize = 200;

/// The id that a session has in OpenClaw's files.
pub(crate) fn session_id(id: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let is_accepted = id.len() <= LONGEST
        && id.bytes().all(is_plain)
        && id.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
        && leads_to("main", id).as_deref() == Some(id);
    if is_accepted { Cow::Borrowed(id) } else { Cow::Owned(made_of(id)) }
}

/// The name of an agent's folder.
pub(crate) fn agent(agent: &str) -> Cow<'_, str> {
    let is_plain = !agent.is_empty()
        && agent.len() <= 64
        && !agent.starts_with('.')
        && !agent.contains(['/', '\\', ':'])
        && !agent.chars().any(char::is_control);
    match is_plain && leads_to(agent, "x").is_some() {
        true => Cow::Borrowed(agent),
        false => Cow::Owned(format!("agent-{}", made_of(agent))),
    }
}

/// The name, without its ending, of a transcript: the session's id, and the thread that it is about.
pub(crate) fn stem(session_id: &str, thread: Option<&str>) -> String {
    let topic = thread.map(|thread| format!("{session_id}-topic-{}", encoded(thread)));
    let is_right = |stem: &String| {
        let named = leads_to("main", stem);
        let meant = thread.map(|thread| format!("{session_id}-topic-{thread}"));
        stem.len() <= LONGEST_NAME && named == meant
    };
    topic.filter(is_right).unwrap_or_else(|| session_id.to_owned())
}

/// A thread's session by the name of its transcript: the session's id, and the thread.
pub(crate) fn topic(id: &str) -> Option<(&str, &str)> {
    id.split_once("-topic-").filter(|(id, _)| !id.is_empty())
}

/// Whether a transcript of that name is taken for this session's when it is read.
pub(crate) fn is_of(stem: &str, id: &str) -> bool {
    leads_to("main", stem).as_deref() == Some(id)
}

/// The id that a header has for a session of quipu's own, if it is one that an export wrote.
pub(crate) fn header_id<'a>(own: &'a str, said: &str) -> Option<&'a str> {
    let ids = [Some(own), topic(own).map(|(id, _)| id)];
    ids.into_iter().flatten().find(|id| session_id(id) == said)
}

/// The folder of an agent's sessions.
pub(crate) fn folder(agent_folder: &str) -> String {
    format!("agents/{agent_folder}/sessions")
}

/// A time as it stands in names of archives.
pub(crate) fn time(millis: i64) -> String {
    Timestamp(millis).to_iso().replace(':', "-")
}

/// The session that a transcript of that name holds, if it is one at all.
fn leads_to(agent: &str, stem: &str) -> Option<String> {
    let path = format!("{}/{stem}.jsonl", folder(agent));
    let is_transcript =
        OpenClaw.claim(path.as_bytes(), Node::File) == Claim::Collect(Part::Transcript);
    let origin = OpenClaw.origin(path.as_bytes());
    let is_live = is_transcript && origin.archive.is_none();
    origin.session.filter(|_| is_live && origin.agent.as_deref() == Some(agent))
}

/// A UUID that is always the same for a text.
pub(crate) fn made_of(text: &str) -> String {
    let hash = blake3::hash(text.as_bytes());
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(hash.as_bytes()).for_each(|(to, from)| *to = *from);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

/// What `encodeURIComponent` makes of a text.
fn encoded(text: &str) -> String {
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
    fn ids_never_lead_anywhere() {
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
