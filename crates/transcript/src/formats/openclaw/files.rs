//! The meaning of OpenClaw's file names: which are transcripts, whose, and why others are left out.
//!
//! Only these folders are searched: `agents/`, each agent's `sessions/` and `agent/` (to name the
//! database there), the archive folders, `cron/`, and the workspaces' notes.

use super::archives::{self, COLD, IMPORTED};
use super::notes;
use crate::format::{Archive, Claim, Node, Origin, Part};
use crate::formats::spelled;
use crate::names;
use crate::rows;

/// The map from keys to sessions.
const INDEX: &[u8] = b"sessions.json";
/// The agent that exists without any configuration.
pub(super) const MAIN: &str = "main";

const DATABASE: &[u8] = b"openclaw-agent.sqlite";
const DATABASE_FOLDER: &str = "a folder where OpenClaw's session database should be";
const DATABASE_COPY: &str = "copy of OpenClaw's session database";

/// The endings of the small databases beside the session database that OpenClaw only locks.
const DATABASE_LOCKS: &[&[u8]] =
    &[b".generation-lock.sqlite", b".generation-writer.sqlite", b".reindex-lock.sqlite"];

/// Known entries next to `agents/` that are not collected, with the reasons.
const LEFT_OUT: &[(&[u8], &str)] = &[
    (b"cron", "the scheduler's own notes"),
    (b"memory", "semantic memory: derived from the notes"),
    (b"logs", "logs of the gateway"),
    (b"media", "received files"),
    (b"browser", "browser extension"),
    (b"canvas", "web interface"),
    (b"skills", "skills"),
    (b"subagents", "bookkeeping of sub-agent runs"),
    (
        b"state",
        "OpenClaw's state database, never opened: newer releases keep cron jobs and runs in it",
    ),
    (b"update-check.json", "update check"),
];

/// Implements [`crate::format::Format::claim`].
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
        (folder, Node::Directory) if is_archive(folder) => Claim::Enter,
        ([b"agents", _, b"sessions", name], Node::File) => claim_session_file(name),
        ([folder @ .., name], Node::File) if is_archive(folder) => claim_archived_file(name),
        ([b"agents", _, b"agent", DATABASE], Node::File) => Claim::Collect(Part::Database),
        ([b"agents", _, b"agent", DATABASE], Node::Directory) => Claim::LeaveOut(DATABASE_FOLDER),
        ([b"agents", _, b"agent", name], Node::File) if name.starts_with(DATABASE) => {
            match name.strip_prefix(DATABASE) {
                // SQLite's own files, part of the database.
                Some(b"-wal" | b"-shm" | b"-journal") => Claim::Ignore,
                Some(rest) if DATABASE_LOCKS.contains(&rest) => Claim::LeaveOut("lock file"),
                _ => Claim::LeaveOut(DATABASE_COPY),
            }
        }
        ([b"cron"] | [b"cron", b"runs"], Node::Directory) => Claim::Enter,
        ([b"cron", b"jobs.json" | b"jobs.json.migrated"], Node::File) => {
            Claim::Collect(Part::CronJobs)
        }
        ([b"cron", b"runs", name], Node::File)
            if name.ends_with(b".jsonl") || name.ends_with(b".jsonl.migrated") =>
        {
            Claim::Collect(Part::CronRuns)
        }
        ([folder, inside @ ..], _) if notes::agent(folder).is_some() => notes::claim(inside, node),
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
    match archives::trajectory(name) {
        Some(_) => Claim::Collect(Part::Trajectory),
        None => claim_transcript(name),
    }
}

/// Claims a file in an archive folder.
fn claim_archived_file(name: &[u8]) -> Claim {
    if name.starts_with(b".") || name.ends_with(b".tmp") {
        return Claim::Ignore;
    }
    if name.starts_with(b"sessions.json") && !name.starts_with(b"sessions.jsonl") {
        return Claim::LeaveOut("session index that was moved into the database");
    }
    claim_transcript(name)
}

fn claim_transcript(name: &[u8]) -> Claim {
    if let Some(why) = archives::repeats_a_transcript(name) {
        return Claim::LeaveOut(why);
    }
    if name.ends_with(b".gz") {
        return Claim::LeaveOut("compressed by a program other than OpenClaw");
    }
    match archives::transcript(name) {
        Some(_) => Claim::Collect(Part::Transcript),
        None => Claim::Ignore,
    }
}

/// Returns whether a folder holds archived transcripts. Imported ones may be in four places.
fn is_archive(folder: &[&[u8]]) -> bool {
    match folder {
        [b"agents", _, b"sessions", name] => *name == COLD || *name == IMPORTED,
        [b"agents", _, b"agent", name] | [b"agents", _, name] | [name] => *name == IMPORTED,
        _ => false,
    }
}

/// Implements [`crate::format::Format::origin`].
pub(super) fn origin(path: &[u8]) -> Origin {
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let name = parts.last().copied().unwrap_or_default();
    let mut origin = Origin::of(Part::Transcript, spelled(name));
    // A session in the database has a path like a file's, but no such file exists.
    if let [b"agents", agent, b"agent", DATABASE, name] = parts.as_slice() {
        if let Some((stem, archive)) = archives::transcript(name) {
            origin.agent = Some(spelled(agent));
            origin.session = Some(rows::session(&spelled(stem)));
            origin.archive = archive;
        }
        return origin;
    }
    if let Claim::Collect(part) = claim(path, Node::File) {
        origin.part = part;
        match (part, parts.as_slice()) {
            (Part::Transcript, _) => name_transcript(&mut origin, &parts, name),
            (Part::Trajectory, [_, agent, ..]) => {
                origin.agent = Some(spelled(agent));
                origin.session =
                    archives::trajectory(name).map(|stem| archives::session(&spelled(stem)));
            }
            (Part::Index | Part::Database, [_, agent, ..]) => origin.agent = Some(spelled(agent)),
            (Part::Note, [folder, inside @ ..]) => {
                origin.agent = notes::agent(folder).map(spelled);
                origin.name = spelled(&inside.join(&b'/'));
            }
            _ => {}
        }
    }
    origin
}

/// Returns the session whose live transcript has this file name.
pub(super) fn session_of(name: &[u8]) -> Option<String> {
    match archives::transcript(name)? {
        (stem, None) => Some(archives::session(&spelled(stem))),
        (_, Some(_)) => None,
    }
}

fn name_transcript(origin: &mut Origin, parts: &[&[u8]], name: &[u8]) {
    let Some((stem, archive)) = archives::transcript(name) else { return };
    let stem = spelled(stem);
    let folder = parts.iter().rev().nth(1).copied().unwrap_or_default();
    origin.agent = Some(match parts {
        [b"agents", agent, ..] => spelled(agent),
        _ => archives::imported_agent(&stem).to_owned(),
    });
    // The name of a cold archive does not contain its session.
    (origin.session, origin.archive) = if folder == COLD && parts.len() == 5 {
        (None, Some(archive.unwrap_or(Archive::Cold)))
    } else if folder == IMPORTED {
        (archives::imported_session(&stem), Some(archive.unwrap_or(Archive::Imported)))
    } else {
        (Some(archives::session(&stem)), archive)
    };
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
    fn locks_beside_the_database_are_no_copies_of_it() {
        for (ending, why) in [
            (".generation-lock.sqlite", "lock file"),
            (".generation-writer.sqlite", "lock file"),
            (".reindex-lock.sqlite", "lock file"),
            (".bak", DATABASE_COPY),
        ] {
            let path = format!("agents/main/agent/openclaw-agent.sqlite{ending}");
            assert_eq!(claim(path.as_bytes(), Node::File), Claim::LeaveOut(why), "{ending}");
        }
    }

    #[test]
    fn r1_sessions_of_every_agent_are_claimed() {
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
        is("1906e15d-a.jsonl.full.bak", Some(Archive::Backup));
        is("1906e15d-a.jsonl.imported-1770193116233", Some(Archive::Imported));
        is("1906e15d-a.jsonl.deleted.2026-02-04T10-30-00.000Z.zst", Some(Archive::Deleted));
        is("1906e15d-a.jsonl.reset.2026-02-04T10-30-00Z.zst", Some(Archive::Reset));
        is("1906e15d-a.jsonl.bak-4711-1770193116233.zst", Some(Archive::Backup));
        is("1906e15d-a.jsonl.imported-1770193116233.zst", Some(Archive::Imported));
        is("1906e15d-a.jsonl.zst", Some(Archive::Cold));
    }

    #[test]
    fn r4_folders_of_archives_are_searched() {
        const ID: &str = "13f7ee8b-4916-4c0c-a7c3-6a9d44685f32";
        let is = |path: &str, agent: &str, session: Option<&str>, archive| {
            assert_eq!(claim(path.as_bytes(), Node::File), COLLECT, "{path}");
            for (at, _) in path.match_indices('/') {
                let folder = path.get(..at).unwrap_or_default();
                assert_eq!(claim(folder.as_bytes(), Node::Directory), Claim::Enter, "{folder}");
            }
            let origin = origin(path.as_bytes());
            assert_eq!(origin.agent.as_deref(), Some(agent), "{path}");
            assert_eq!(origin.session.as_deref(), session, "{path}");
            assert_eq!(origin.archive, Some(archive), "{path}");
        };
        let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        is(&format!("agents/work/sessions/cold/{hash}.jsonl.zst"), "work", None, Archive::Cold);
        is(&format!("agents/work/sessions/cold/{hash}.jsonl"), "work", None, Archive::Cold);
        let name = format!("agent_work_main.{ID}.jsonl.imported-1770193116233");
        for folder in ["agents/work/sessions/", "agents/work/agent/", "agents/work/", ""] {
            for suffix in ["", ".zst"] {
                let path = format!("{folder}session-sqlite-import-archive/{name}{suffix}");
                is(&path, "work", Some(ID), Archive::Imported);
            }
        }
        let left_out = |path: &str| {
            let claim = claim(path.as_bytes(), Node::File);
            assert!(matches!(claim, Claim::LeaveOut(_)), "{path}: {claim:?}");
        };
        for folder in ["agents/work/sessions/cold", "session-sqlite-import-archive"] {
            left_out(&format!("{folder}/a.trajectory.jsonl.zst"));
            left_out(&format!("{folder}/a.checkpoint.{ID}.jsonl.zst"));
            left_out(&format!("{folder}/sessions.json.imported-1770193116233"));
            left_out(&format!("{folder}/a.jsonl.gz"));
        }
        assert_eq!(claim(b"agents/work/sessions/cold/deeper", Node::Directory), Claim::Ignore);
        assert_eq!(claim(b"agents/cold/x.jsonl", Node::File), Claim::Ignore);
        assert_eq!(claim(b"x/session-sqlite-import-archive", Node::Directory), Claim::Ignore);
    }

    #[test]
    fn r4_two_threads_of_one_id_are_two_sessions() {
        let session = |name: &str| {
            origin(format!("agents/main/sessions/{name}").as_bytes()).session.unwrap_or_default()
        };
        assert_eq!(session("1906e15d-topic-7.jsonl"), "1906e15d-topic-7");
        assert_eq!(session("1906e15d-topic-a%2Fb%20c.jsonl.reset.x"), "1906e15d-topic-a/b c");
        assert_eq!(session("1906e15d-topic-%F0%9F%A6%9E.jsonl"), "1906e15d-topic-\u{1f99e}");
        assert_eq!(session("1906e15d-topic-%zz.jsonl"), "1906e15d-topic-%zz");
    }

    #[test]
    fn r6_cron_jobs_and_runs_are_claimed() {
        for (path, part) in [
            ("cron/jobs.json", Part::CronJobs),
            ("cron/jobs.json.migrated", Part::CronJobs),
            ("cron/runs/5145dbcf.jsonl", Part::CronRuns),
            ("cron/runs/5145dbcf.jsonl.migrated", Part::CronRuns),
        ] {
            assert_eq!(claim(path.as_bytes(), Node::File), Claim::Collect(part), "{path}");
            let origin = origin(path.as_bytes());
            assert_eq!((origin.part, origin.session), (part, None), "{path}");
        }
        for path in ["cron", "cron/runs"] {
            assert_eq!(claim(path.as_bytes(), Node::Directory), Claim::Enter, "{path}");
        }
        let reason = claim(b"state", Node::Directory);
        assert!(matches!(reason, Claim::LeaveOut(why) if why.contains("cron")), "{reason:?}");
    }

    #[test]
    fn r8_known_files_are_left_out_with_a_reason() {
        let is_left_out = |path: &str, node| {
            let claim = claim(path.as_bytes(), node);
            assert!(matches!(claim, Claim::LeaveOut(_)), "{path}: {claim:?}");
        };
        for folder in [
            "workspace/reports",
            "logs",
            "media",
            "browser",
            "canvas",
            "skills",
            "subagents",
            "memory",
            "state",
            "cron/backups",
        ] {
            is_left_out(folder, Node::Directory);
        }
        for file in
            ["subagents/runs.json", "memory/main.sqlite", "update-check.json", "cron/jobs.json.bak"]
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
    fn the_database_and_the_sessions_in_it_are_claimed() {
        let database = "agents/main/agent/openclaw-agent.sqlite";
        assert_eq!(claim(database.as_bytes(), Node::File), Claim::Collect(Part::Database));
        for suffix in ["-wal", "-shm", "-journal"] {
            let beside = format!("{database}{suffix}");
            assert_eq!(claim(beside.as_bytes(), Node::File), Claim::Ignore);
        }
        let found = origin(database.as_bytes());
        assert_eq!((found.part, found.agent.as_deref()), (Part::Database, Some("main")));
        assert_eq!(found.session, None);
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
    fn other_files_among_transcripts_are_not_taken_for_transcripts() {
        session_file("sessions.json", Claim::Collect(Part::Index));
        session_file("sessions.json.bak.3", Claim::LeaveOut("older copy of the session index"));
        session_file("sessions.jsonl", COLLECT);
        session_file("sessions.json.lock", Claim::LeaveOut("lock file"));
        session_file("a.jsonl.lock", Claim::LeaveOut("lock file"));
        let trajectory = Claim::LeaveOut("trajectory of a run: repeats the transcript");
        let runs = Claim::Collect(Part::Trajectory);
        session_file("a.trajectory.jsonl", runs);
        session_file(".trajectory.jsonl", Claim::Ignore);
        session_file("a.trajectory-path.json", trajectory);
        session_file(
            "a.checkpoint.13f7ee8b-4916-4c0c-a7c3-6a9d44685f32.jsonl",
            Claim::LeaveOut("checkpoint of a compaction: repeats the transcript"),
        );
        session_file("a.checkpoint.md.jsonl", COLLECT);
        let foreign = Claim::LeaveOut("compressed by a program other than OpenClaw");
        session_file("a.jsonl.deleted.2026-02-04T10-30-00Z.gz", foreign);
        session_file("a.trajectory.jsonl.zst", runs);
        session_file("a.trajectory.jsonl.deleted.2026-02-04T10-30-00Z.zst", runs);
        session_file("a.trajectory-path.json.zst", trajectory);
        session_file("sessions.jsonl.zst", COLLECT);
        session_file("notes.md.zst", Claim::Ignore);
        session_file(".a.jsonl", Claim::Ignore);
        session_file("a.jsonl.8f.tmp", Claim::Ignore);
        session_file("notes.md", Claim::Ignore);
        session_file("a.jsonlx", Claim::Ignore);
    }
}
