//! What OpenClaw's file names mean: which are transcripts, whose, and why the others are left out.
//!
//! Nothing but `agents/`, one agent, its `sessions/` and its `agent/` (to name the database there)
//! is ever looked into.

use crate::format::{Archive, Claim, Node, Origin, Part};
use crate::names;
use crate::rows;

/// Which key leads to which session.
const INDEX: &[u8] = b"sessions.json";

const DATABASE: &[u8] = b"openclaw-agent.sqlite";
const DATABASE_FOLDER: &str = "a folder where OpenClaw's session database should be";
const DATABASE_COPY: &str = "copy of OpenClaw's session database";
const COMPRESSED: &str = "compressed archive: not collected yet";
const ARCHIVED: &str = "archived transcript: not collected yet";

/// What lies beside `agents/` and is known, but not collected.
const LEFT_OUT: &[(&[u8], &str)] = &[
    (b"workspace", "workspace notes: not collected yet"),
    (b"cron", "cron jobs and runs: not collected yet"),
    (b"memory", "semantic memory: derived from the notes"),
    (b"logs", "logs of the gateway"),
    (b"media", "received files"),
    (b"browser", "browser extension"),
    (b"canvas", "web interface"),
    (b"skills", "skills"),
    (b"subagents", "bookkeeping of sub-agent runs"),
    (b"state", "OpenClaw's state database"),
    (b"session-sqlite-import-archive", ARCHIVED),
    (b"update-check.json", "update check"),
];

/// See [`crate::format::Format::claim`].
pub(super) fn claim(path: &[u8], node: Node) -> Claim {
    if names::is_denied(path) {
        return Claim::Deny;
    }
    if path.is_empty() && node == Node::Directory {
        return Claim::Enter;
    }
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    if parts.iter().any(|part| matches!(*part, b"" | b".")) {
        return Claim::Ignore;
    }
    match (parts.as_slice(), node) {
        (
            [b"agents"] | [b"agents", _] | [b"agents", _, b"sessions" | b"agent"],
            Node::Directory,
        ) => Claim::Enter,
        ([b"agents", _, b"sessions", name], Node::File) => claim_session_file(name),
        ([b"agents", _, b"sessions", b"cold"], Node::Directory) => Claim::LeaveOut(COMPRESSED),
        ([b"agents", _, .., b"session-sqlite-import-archive"], Node::Directory) => {
            Claim::LeaveOut(ARCHIVED)
        }
        ([b"agents", _, b"agent", DATABASE], Node::File) => Claim::Collect(Part::Database),
        ([b"agents", _, b"agent", DATABASE], Node::Directory) => Claim::LeaveOut(DATABASE_FOLDER),
        ([b"agents", _, b"agent", name], Node::File) if name.starts_with(DATABASE) => {
            match name.strip_prefix(DATABASE) {
                // SQLite's own, and part of the database.
                Some(b"-wal" | b"-shm" | b"-journal") => Claim::Ignore,
                _ => Claim::LeaveOut(DATABASE_COPY),
            }
        }
        ([b"workspace", b"reports", ..], _) => Claim::LeaveOut("generated reports"),
        ([first, ..], _) => LEFT_OUT
            .iter()
            .find(|(name, _)| name == first)
            .map_or(Claim::Ignore, |(_, why)| Claim::LeaveOut(why)),
        ([], _) => Claim::Ignore,
    }
}

fn claim_session_file(name: &[u8]) -> Claim {
    if name.starts_with(b".") || name.ends_with(b".tmp") {
        return Claim::Ignore;
    }
    if name.ends_with(b".lock") {
        return Claim::LeaveOut("lock file");
    }
    if name == INDEX {
        return Claim::Collect(Part::Index);
    }
    if name.starts_with(INDEX) && !name.starts_with(b"sessions.jsonl") {
        return Claim::LeaveOut("older copy of the session index");
    }
    if contains(name, b".trajectory.jsonl") || name.ends_with(b".trajectory-path.json") {
        return Claim::LeaveOut("trajectory of a run: repeats the transcript");
    }
    if is_checkpoint(name) {
        return Claim::LeaveOut("checkpoint of a compaction: repeats the transcript");
    }
    if [b".zst".as_slice(), b".gz"].iter().any(|suffix| name.ends_with(suffix)) {
        return Claim::LeaveOut(COMPRESSED);
    }
    if transcript(name).is_some() {
        return Claim::Collect(Part::Transcript);
    }
    if contains(name, b".jsonl.imported-") || name.ends_with(b".full.bak") {
        return Claim::LeaveOut(ARCHIVED);
    }
    Claim::Ignore
}

/// See [`crate::format::Format::origin`].
pub(super) fn origin(path: &[u8]) -> Origin {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let mut origin = Origin::of(Part::Transcript, text(name));
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    match parts.as_slice() {
        [b"agents", agent, b"agent", DATABASE] => {
            origin.part = Part::Database;
            origin.agent = Some(text(agent));
            return origin;
        }
        // A session in the database: no such file exists, but it is named like one.
        [b"agents", agent, b"agent", DATABASE, name] => {
            if let Some((stem, archive)) = transcript(name) {
                origin.agent = Some(text(agent));
                origin.session = Some(rows::session(&text(stem)));
                origin.archive = archive;
            }
            return origin;
        }
        _ => {}
    }
    if claim(path, Node::File) == Claim::Collect(Part::Index) {
        origin.part = Part::Index;
        origin.agent = path.split(|byte| *byte == b'/').nth(1).map(text);
        return origin;
    }
    if claim(path, Node::File) == Claim::Collect(Part::Transcript)
        && let Some((stem, archive)) = transcript(name)
    {
        origin.agent = path.split(|byte| *byte == b'/').nth(1).map(text);
        origin.session = Some(session(&text(stem)));
        origin.archive = archive;
    }
    origin
}

/// The session whose live transcript has that file name.
pub(super) fn session_of(name: &[u8]) -> Option<String> {
    match transcript(name)? {
        (stem, None) => Some(session(&text(stem))),
        (_, Some(_)) => None,
    }
}

/// The stem of a transcript's name, and why it was put aside. The stem outlives every renaming, so
/// the session stays the same.
fn transcript(name: &[u8]) -> Option<(&[u8], Option<Archive>)> {
    const EXTENSION: &[u8] = b".jsonl";
    let at = (1..name.len()).find(|at| {
        name.get(*at..)
            .and_then(|rest| rest.strip_prefix(EXTENSION))
            .is_some_and(|rest| matches!(rest.first(), None | Some(b'.')))
    })?;
    let (stem, rest) = name.split_at_checked(at)?;
    let suffix = rest.strip_prefix(EXTENSION)?;
    let archive = match suffix {
        b"" => None,
        // The time that follows is written with colons or with dashes.
        _ if suffix.starts_with(b".deleted.") => Some(Archive::Deleted),
        _ if suffix.starts_with(b".reset.") => Some(Archive::Reset),
        b".bak" => Some(Archive::Backup),
        _ if suffix.starts_with(b".bak-") || suffix.starts_with(b".bak.") => Some(Archive::Backup),
        // 2026.7.1 keeps a transcript whose header it rebuilt as `x.jsonl.corrupt-<time>-<hex>.jsonl`.
        _ if suffix.starts_with(b".corrupt-") => Some(Archive::Backup),
        _ => return None,
    };
    Some((stem, archive))
}

/// A thread's transcript is named `<session>-topic-<encodeURIComponent(thread)>`.
fn session(stem: &str) -> String {
    let Some((id, thread)) = stem.split_once(TOPIC) else { return stem.to_owned() };
    match rows::percent_decoded(thread) {
        Some(thread) if !id.is_empty() => format!("{id}{TOPIC}{thread}"),
        _ => stem.to_owned(),
    }
}

/// What stands between a session's id and its thread in a file's name.
const TOPIC: &str = "-topic-";

/// Whether a header's `id` is the session that the file's name says. A thread's transcript carries
/// the id without the thread; a fork that pi wrote is named `<time>_<id>`.
pub(super) fn is_named(session: &str, id: &str) -> bool {
    session.strip_suffix(id).is_some_and(|before| before.is_empty() || before.ends_with('_'))
        || session.strip_prefix(id).is_some_and(|thread| thread.starts_with(TOPIC))
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

/// A name as text. Bytes that are not UTF-8 are spelled out, so that two names stay two.
fn text(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02X}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLLECT: Claim = Claim::Collect(Part::Transcript);

    #[track_caller]
    fn session_file(name: &str, expected: Claim) {
        let path = format!("agents/main/sessions/{name}");
        assert_eq!(claim(path.as_bytes(), Node::File), expected, "{name}");
    }

    #[test]
    fn r1_sessions_of_every_agent() {
        assert_eq!(claim(b"agents", Node::Directory), Claim::Enter);
        for agent in ["main", "work", "telegram", "\u{e9}t\u{e9}"] {
            assert_eq!(claim(format!("agents/{agent}").as_bytes(), Node::Directory), Claim::Enter);
            let sessions = format!("agents/{agent}/sessions");
            assert_eq!(claim(sessions.as_bytes(), Node::Directory), Claim::Enter);
            let path = format!("{sessions}/ses_abc.jsonl");
            assert_eq!(claim(path.as_bytes(), Node::File), COLLECT);
            let origin = origin(path.as_bytes());
            assert_eq!(origin.agent.as_deref(), Some(agent));
            assert_eq!(origin.session.as_deref(), Some("ses_abc"));
        }
    }

    #[test]
    fn r4_archives_are_transcripts_of_the_same_session() {
        let is = |name: &str, archive| {
            let origin = origin(format!("agents/main/sessions/{name}").as_bytes());
            assert_eq!(origin.session.as_deref(), Some("1906e15d-a"), "{name}");
            assert_eq!(origin.archive, archive, "{name}");
        };
        is("1906e15d-a.jsonl", None);
        is("1906e15d-a.jsonl.deleted.2026-02-04T10:30:00.000Z", Some(Archive::Deleted));
        is("1906e15d-a.jsonl.deleted.2026-02-04T10-30-00.000Z", Some(Archive::Deleted));
        is("1906e15d-a.jsonl.reset.2026-02-04T10-30-00Z", Some(Archive::Reset));
        is("1906e15d-a.jsonl.bak-4711-1770193116233", Some(Archive::Backup));
        is("1906e15d-a.jsonl.bak.2026-02-04T10-30-00Z", Some(Archive::Backup));
        is("1906e15d-a.jsonl.bak", Some(Archive::Backup));
        is("1906e15d-a.jsonl.corrupt-1770193116233-0a1b2c3d.jsonl", Some(Archive::Backup));
    }

    #[test]
    fn r4_two_threads_of_one_id_are_two_sessions() {
        let of = |name: &str| {
            origin(format!("agents/main/sessions/{name}").as_bytes()).session.unwrap_or_default()
        };
        assert_eq!(of("1906e15d-topic-7.jsonl"), "1906e15d-topic-7");
        assert_eq!(of("1906e15d-topic-a%2Fb%20c.jsonl.reset.x"), "1906e15d-topic-a/b c");
        assert_eq!(of("1906e15d-topic-%F0%9F%A6%9E.jsonl"), "1906e15d-topic-\u{1f99e}");
        assert_eq!(of("1906e15d-topic-%zz.jsonl"), "1906e15d-topic-%zz");
        assert!(is_named("1906e15d-topic-a/b", "1906e15d"));
        assert!(is_named("2026-11-15T18-13-39-752Z_01a1e06a", "01a1e06a"));
        assert!(!is_named("1906e15d", "1906"));
    }

    #[test]
    fn r8_what_is_left_out_is_named() {
        let is_left_out = |path: &str, node| {
            let claim = claim(path.as_bytes(), node);
            assert!(matches!(claim, Claim::LeaveOut(_)), "{path}: {claim:?}");
        };
        for folder in [
            "workspace",
            "workspace/reports",
            "logs",
            "media",
            "browser",
            "canvas",
            "skills",
            "subagents",
            "memory",
            "cron",
        ] {
            is_left_out(folder, Node::Directory);
        }
        for file in
            ["subagents/runs.json", "memory/main.sqlite", "update-check.json", "cron/jobs.json"]
        {
            is_left_out(file, Node::File);
        }
        is_left_out("agents/main/agent/openclaw-agent.sqlite.bak", Node::File);
        is_left_out("agents/main/agent/openclaw-agent.sqlite", Node::Directory);
        assert_eq!(claim(b"agents/main/agent/models.json", Node::File), Claim::Ignore);
        assert_eq!(claim(b"agents/main/agent/auth-profiles.json", Node::File), Claim::Deny);
        assert_eq!(claim(b"agents/main/qmd", Node::Directory), Claim::Ignore);
    }

    #[test]
    fn the_database_and_the_sessions_in_it() {
        let database = "agents/main/agent/openclaw-agent.sqlite";
        assert_eq!(claim(database.as_bytes(), Node::File), Claim::Collect(Part::Database));
        for suffix in ["-wal", "-shm", "-journal"] {
            let beside = format!("{database}{suffix}");
            assert_eq!(claim(beside.as_bytes(), Node::File), Claim::Ignore);
        }
        let of = origin(database.as_bytes());
        assert_eq!((of.part, of.agent.as_deref()), (Part::Database, Some("main")));
        assert_eq!(of.session, None);
        for id in
            ["433d5b15-0000-4000-8000-000000000001", "../../etc", "a/b", ".", "%41", "\u{1f99e}"]
        {
            let name = rows::file_name(id).unwrap();
            assert!(!name.contains('/') && !name.starts_with('.'), "{name}");
            let live = origin(format!("{database}/{name}.jsonl").as_bytes());
            assert_eq!(live.session.as_deref(), Some(id));
            assert_eq!((live.part, live.archive), (Part::Transcript, None));
            let archived = origin(format!("{database}/{name}.jsonl.deleted.x").as_bytes());
            assert_eq!(archived.session.as_deref(), Some(id));
            assert_eq!(archived.archive, Some(Archive::Deleted));
        }
    }

    #[test]
    fn what_is_no_transcript_although_it_lies_among_them() {
        session_file("sessions.json", Claim::Collect(Part::Index));
        session_file("sessions.json.bak.3", Claim::LeaveOut("older copy of the session index"));
        session_file("sessions.jsonl", COLLECT);
        session_file("sessions.json.lock", Claim::LeaveOut("lock file"));
        session_file("a.jsonl.lock", Claim::LeaveOut("lock file"));
        let trajectory = Claim::LeaveOut("trajectory of a run: repeats the transcript");
        session_file("a.trajectory.jsonl", trajectory);
        session_file("a.trajectory-path.json", trajectory);
        session_file(
            "a.checkpoint.13f7ee8b-4916-4c0c-a7c3-6a9d44685f32.jsonl",
            Claim::LeaveOut("checkpoint of a compaction: repeats the transcript"),
        );
        session_file("a.checkpoint.md.jsonl", COLLECT);
        session_file("a.jsonl.deleted.2026-02-04T10-30-00Z.zst", Claim::LeaveOut(COMPRESSED));
        session_file("a.jsonl.zst", Claim::LeaveOut(COMPRESSED));
        session_file("a.jsonl.imported-1770193116233", Claim::LeaveOut(ARCHIVED));
        session_file("a.jsonl.full.bak", Claim::LeaveOut(ARCHIVED));
        session_file(".a.jsonl", Claim::Ignore);
        session_file("a.jsonl.8f.tmp", Claim::Ignore);
        session_file("notes.md", Claim::Ignore);
        session_file("a.jsonlx", Claim::Ignore);
    }
}
