//! The facts in a transcript's name: its session, and why OpenClaw archived it.
//!
//! A session's id stays at the front of every name of its transcript, except in two folders:
//! `cold/` names a file after the hash of its bytes, and `session-sqlite-import-archive/` puts the
//! session's key before the id.

use std::borrow::Cow;

use crate::format::Archive;
use crate::rows;

/// The folder of sessions that are no longer used.
pub(super) const COLD: &[u8] = b"cold";

/// The folder of transcripts that were moved into the database.
pub(super) const IMPORTED: &[u8] = b"session-sqlite-import-archive";

/// Returns the stem of a transcript's name, and why it was archived. The stem survives every
/// renaming, so the session stays the same.
pub(super) fn transcript(name: &[u8]) -> Option<(&[u8], Option<Archive>)> {
    const EXTENSION: &[u8] = b".jsonl";
    let (name, is_compressed) = match name.strip_suffix(COMPRESSED) {
        Some(name) => (name, true),
        None => (name, false),
    };
    let at = (1..name.len()).find(|at| {
        name.get(*at..)
            .and_then(|rest| rest.strip_prefix(EXTENSION))
            .is_some_and(|rest| matches!(rest.first(), None | Some(b'.')))
    })?;
    let (stem, rest) = name.split_at_checked(at)?;
    let suffix = rest.strip_prefix(EXTENSION)?;
    let archive = match suffix {
        // OpenClaw never compresses a transcript that it still writes to.
        b"" if is_compressed => Some(Archive::Cold),
        b"" => None,
        // The time that follows has colons or dashes.
        _ if suffix.starts_with(b".deleted.") => Some(Archive::Deleted),
        _ if suffix.starts_with(b".reset.") => Some(Archive::Reset),
        _ if suffix.starts_with(b".imported-") => Some(Archive::Imported),
        b".bak" | b".full.bak" => Some(Archive::Backup),
        _ if suffix.starts_with(b".bak-") || suffix.starts_with(b".bak.") => Some(Archive::Backup),
        // 2026.7.1 keeps a transcript whose header it rebuilt as
        // `x.jsonl.corrupt-<time>-<hex>.jsonl`.
        _ if suffix.starts_with(b".corrupt-") => Some(Archive::Backup),
        _ => return None,
    };
    Some((stem, archive))
}

/// Implements [`crate::format::Format::is_compressed`].
pub(super) fn is_compressed(name: &[u8]) -> bool {
    name.ends_with(COMPRESSED)
}

const COMPRESSED: &[u8] = b".zst";

/// Returns the session of a transcript; a thread's transcript is named
/// `<session>-topic-<encodeURIComponent(thread)>`.
pub(super) fn session(stem: &str) -> String {
    let Some((id, thread)) = stem.split_once(TOPIC) else { return stem.to_owned() };
    match rows::percent_decoded(thread) {
        Some(thread) if !id.is_empty() => of_thread(id, &thread),
        _ => stem.to_owned(),
    }
}

/// Returns the session of an imported transcript, whose stem is `<key>.<session>`. Both may hold
/// dots; if the stem is ambiguous, the transcript's header decides.
pub(super) fn imported_session(stem: &str) -> Option<String> {
    let (key, id) = stem.rsplit_once('.').unwrap_or(("", stem));
    let is_uuid = id.get(..36).is_some_and(|id| {
        id.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    });
    let is_whole = is_uuid && id.get(36..).is_some_and(|t| t.is_empty() || t.starts_with(TOPIC));
    (is_whole || stem.matches('.').count() <= 1).then(|| session(&imported_stem(key, id)))
}

/// Returns the stem that an imported transcript had before. The importer writes `_` for every `%`,
/// so that the thread `7/a b` becomes `7_2Fa_20b`. A thread that has such a `_` itself is found at
/// the end of the key.
fn imported_stem<'s>(key: &str, stem: &'s str) -> Cow<'s, str> {
    let Some((id, thread)) = stem.split_once(TOPIC) else { return Cow::Borrowed(stem) };
    let end = key.len().checked_sub(thread.len()).and_then(|at| key.get(at..));
    if end.is_some_and(|end| end.eq_ignore_ascii_case(thread)) {
        return Cow::Borrowed(stem);
    }
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'A'..=b'F');
    let mut encoded = String::with_capacity(thread.len());
    for (at, letter) in thread.char_indices() {
        let digits = thread.as_bytes().get(at + 1..at + 3);
        let is_escape = letter == '_' && digits.is_some_and(|digits| digits.iter().all(is_hex));
        encoded.push(if is_escape { '%' } else { letter });
    }
    match rows::percent_decoded(&encoded) {
        Some(_) => Cow::Owned(format!("{id}{TOPIC}{encoded}")),
        None => Cow::Borrowed(stem),
    }
}

/// Returns the agent in the key of an imported transcript, for folders without an agent: the key
/// `agent:main:telegram:direct:7` is written `agent_main_telegram_direct_7`.
pub(super) fn imported_agent(stem: &str) -> &str {
    let rest = stem.strip_prefix("agent_").or_else(|| stem.strip_prefix("agent:"));
    rest.and_then(|rest| rest.split(['_', ':']).next())
        .filter(|agent| !agent.is_empty())
        .unwrap_or(super::files::MAIN)
}

/// The separator between a session's id and its thread in a file name.
const TOPIC: &str = "-topic-";

/// Returns the session of a thread.
pub(super) fn of_thread(id: &str, thread: &str) -> String {
    format!("{id}{TOPIC}{thread}")
}

/// Returns the id of a thread's session without the thread.
pub(super) fn without_thread(session: &str) -> Option<&str> {
    session.split_once(TOPIC).map(|(id, _)| id).filter(|id| !id.is_empty())
}

/// Returns whether a header's `id` is the session in the file's name. A thread's transcript has the
/// id without the thread; a fork that pi wrote is named `<time>_<id>`.
pub(super) fn is_named(session: &str, id: &str) -> bool {
    session.strip_suffix(id).is_some_and(|before| before.is_empty() || before.ends_with('_'))
        || session.strip_prefix(id).is_some_and(|thread| thread.starts_with(TOPIC))
}

/// Returns the session of a trajectory, by the name of its file: `<session>.trajectory.jsonl`.
pub(super) fn trajectory(name: &[u8]) -> Option<&[u8]> {
    transcript(name)?.0.strip_suffix(b".trajectory").filter(|stem| !stem.is_empty())
}

/// Returns the reason why a file repeats a transcript and is not collected.
pub(super) fn repeats_a_transcript(name: &[u8]) -> Option<&'static str> {
    if contains(name, b".trajectory.jsonl") || contains(name, b".trajectory-path.json") {
        return Some("trajectory of a run: repeats the transcript");
    }
    is_checkpoint(name).then_some("checkpoint of a compaction: repeats the transcript")
}

fn is_checkpoint(name: &[u8]) -> bool {
    const MARK: &[u8] = b".checkpoint.";
    let Some(at) = name.windows(MARK.len()).position(|window| window == MARK) else { return false };
    let id = name.get(at + MARK.len()..).unwrap_or_default();
    id.get(36..).is_some_and(|rest| rest.starts_with(b".jsonl"))
        && id.iter().take(36).all(|byte| byte.is_ascii_hexdigit() || *byte == b'-')
}

fn contains(name: &[u8], part: &[u8]) -> bool {
    name.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r4_a_header_names_the_session_without_its_thread() {
        assert!(is_named("1906e15d-topic-a/b", "1906e15d"));
        assert!(is_named("2026-11-15T18-13-39-752Z_01a1e06a", "01a1e06a"));
        assert!(!is_named("1906e15d", "1906"));
    }

    #[test]
    fn r4_the_id_is_at_the_end_of_an_imported_name() {
        const ID: &str = "13f7ee8b-4916-4c0c-a7c3-6a9d44685f32";
        let is = |stem: &str, session: Option<&str>, agent: &str| {
            assert_eq!(imported_session(stem).as_deref(), session, "{stem}");
            assert_eq!(imported_agent(stem), agent, "{stem}");
        };
        is(&format!("agent_main_main.{ID}"), Some(ID), "main");
        is(&format!("agent_work_v1.2.{ID}"), Some(ID), "work");
        let thread = format!("{ID}-topic-7");
        is(&format!("agent_main_x.{ID}-topic-7"), Some(&thread), "main");
        is("agent_main_main.ses_abc", Some("ses_abc"), "main");
        is("ses_abc", Some("ses_abc"), "main");
        for (key, thread, session) in [
            ("thread_7_a_b", "7_2Fa_20b", "7/a b"),
            ("thread__", "_F0_9F_A6_9E", "\u{1f99e}"),
            // As it was written.
            ("thread_a_20b", "a_20b", "a_20b"),
            ("thread_x", "_FF", "_FF"),
        ] {
            let session = format!("{ID}-topic-{session}");
            is(&format!("agent_main_{key}.{ID}-topic-{thread}"), Some(&session), "main");
        }
        // The end of the key is ambiguous.
        is("agent_main_a.b.ses_abc", None, "main");
    }
}
