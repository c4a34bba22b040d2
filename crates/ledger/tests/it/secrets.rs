//! Denied files never reach the ledger, through any name.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::child;
use crate::home::*;
use quipu_ledger::restore::Generations;

pub(crate) const SLUG: &str = ".claude/projects/-home-alice-shop";
pub(crate) const SESSIONS: &str = ".openclaw/agents/main/sessions";

/// Files that hold secrets, by path.
const SECRETS: &[&str] = &[
    ".claude/.credentials.json",
    ".claude/.claude.json",
    ".claude/.claude.json.backup",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/.env",
    ".claude/server.key",
    ".claude/projects/-home-alice-shop/server.pem",
    ".claude/projects/-home-alice-shop/.env",
    ".claude/projects/-home-alice-shop/settings.local.json",
    ".claude/projects/-home-alice-shop/640ab4c7-d010-4b20-a591-b7172ef08e66/tool-results/deploy.key",
    ".claude/projects/-home-alice-shop/640ab4c7-d010-4b20-a591-b7172ef08e66/tool-results/.env",
    ".claude/projects/-home-alice-shop/640ab4c7-d010-4b20-a591-b7172ef08e66/tool-results/auth-profiles.json",
    ".claude/projects/-home-alice-shop/640ab4c7-d010-4b20-a591-b7172ef08e66/tool-results/credentials.json",
    ".claude/projects/-home-alice-shop/640ab4c7-d010-4b20-a591-b7172ef08e66/subagents/credentials/agent-x.jsonl",
    ".openclaw/openclaw.json",
    ".openclaw/openclaw.json.bak",
    ".openclaw/openclaw.json.bak.2",
    ".openclaw/.env",
    ".openclaw/credentials/oauth.json",
    ".openclaw/credentials/transcript.jsonl",
    ".openclaw/identity/device.json",
    ".openclaw/identity/device-auth.jsonl",
    ".openclaw/devices/paired.json",
    ".openclaw/telegram/update-offset.json",
    ".openclaw/whatsapp/creds.json",
    ".openclaw/agents/main/agent/auth-profiles.json",
    ".openclaw/agents/main/agent/auth.json",
    ".openclaw/agents/main/sessions/x.key",
    ".openclaw/agents/main/sessions/auth-profiles.json",
    ".openclaw/agents/main/sessions/credentials/y.jsonl",
];

/// Harmless names that are links to secrets: link, target.
const SOFT_LINKS: &[(&str, &str)] = &[
    (
        ".claude/projects/-home-alice-shop/00000001-0000-4000-8000-000000000000.jsonl",
        ".claude/.credentials.json",
    ),
    (
        ".claude/projects/-home-alice-shop/00000002-0000-4000-8000-000000000000.jsonl",
        "outside/diary.jsonl",
    ),
    (
        ".claude/projects/-home-alice-shop/00000003-0000-4000-8000-000000000000.jsonl",
        ".openclaw/openclaw.json",
    ),
    (
        ".claude/projects/-home-alice-shop/640ab4c7-d010-4b20-a591-b7172ef08e66/tool-results/log.txt",
        "outside/diary.jsonl",
    ),
    (".claude/projects/-home-alice-outside", "outside"),
    (".claude/projects/-home-alice-nowhere", "no such thing"),
    (".claude/history.jsonl", "outside/diary.jsonl"),
    (".openclaw/agents/main/sessions/soft.jsonl", ".openclaw/agents/main/agent/auth-profiles.json"),
    (".openclaw/agents/main/sessions/far.jsonl", "outside/diary.jsonl"),
    (".openclaw/agents/stolen", ".openclaw/credentials"),
    (".openclaw/agents/away", "outside"),
    (".openclaw/agents/main/sessions/twice.jsonl", ".openclaw/agents/main/sessions/soft.jsonl"),
];

const HARD_LINKS: &[(&str, &str)] = &[
    (
        ".claude/projects/-home-alice-shop/00000004-0000-4000-8000-000000000000.jsonl",
        ".claude/.credentials.json",
    ),
    (".claude/projects/-home-alice-shop/agent-feed.jsonl", ".openclaw/credentials/oauth.json"),
    (
        ".claude/projects/-home-alice-shop/640ab4c7-d010-4b20-a591-b7172ef08e66/tool-results/note.txt",
        ".claude/settings.json",
    ),
    (".openclaw/agents/main/sessions/hard.jsonl", ".openclaw/agents/main/agent/auth-profiles.json"),
    (
        ".openclaw/agents/main/sessions/hard.jsonl.reset.2026-02-04T10-30-00.000Z",
        ".openclaw/identity/device.json",
    ),
];

/// Returns a unique word, in a line that would be collected.
fn canary(number: usize) -> String {
    format!("canary{number:04}zq")
}

/// Returns a home with secrets in every folder and two transcripts.
pub(crate) fn home_with_secrets() -> Home {
    let home = Home::new();
    for (number, path) in SECRETS.iter().chain(&["outside/diary.jsonl"]).enumerate() {
        home.write(path, line("user", &uuid(number as u32), None, &canary(number)));
    }
    home.write("outside/sessions/x.jsonl", line("user", &uuid(900), None, &canary(900)));
    let outside = "outside/00000009-0000-4000-8000-000000000000.jsonl";
    home.write(outside, line("user", &uuid(901), None, &canary(901)));
    home.write(MAIN, line("user", &uuid(1), None, "innocent"));
    home.write(
        &format!("{SESSIONS}/plain.jsonl"),
        "{\"role\":\"user\",\"content\":\"harmless\"}\n",
    );
    for (link, target) in SOFT_LINKS {
        home.folder_for(link);
        symlink(home.path(target), home.path(link)).unwrap();
    }
    for (link, target) in HARD_LINKS {
        home.folder_for(link);
        fs::hard_link(home.path(target), home.path(link)).unwrap();
    }
    home
}

/// Returns everything that the ledger holds, in any form.
pub(crate) fn everything(home: &Home) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = home.ledger_bytes().into_values().collect();
    all.extend(
        home.restored(Generations::All)
            .into_iter()
            .flat_map(|(name, bytes)| [name.into_bytes(), bytes]),
    );
    let conn = home.sql();
    let mut chunks = conn.prepare("SELECT data FROM chunks").unwrap();
    let mut rows = chunks.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        all.push(zstd::stream::decode_all(row.get_ref(0).unwrap().as_blob().unwrap()).unwrap());
    }
    all.extend(home.projection().into_values().flatten().map(String::into_bytes));
    all
}

pub(crate) fn contains(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window == word.as_bytes())
}

#[test]
fn no_secret_reaches_the_ledger() {
    let home = home_with_secrets();
    let _keeps_the_log = home.open();
    for _ in 0..2 {
        home.sync();
    }
    let all = everything(&home);
    assert!(all.iter().any(|bytes| contains(bytes, "innocent")));
    assert!(all.iter().any(|bytes| contains(bytes, "harmless")));
    for bytes in &all {
        let found = bytes.windows(6).position(|window| window == b"canary");
        assert!(found.is_none(), "{}", String::from_utf8_lossy(&bytes[found.unwrap_or(0)..][..12]));
    }
    let restored: BTreeSet<String> = home.restored(Generations::All).into_keys().collect();
    let names = [MAIN, &format!("{SESSIONS}/plain.jsonl")]
        .map(|path| path.replace(".claude", "claude-code").replace(".openclaw", "openclaw"));
    assert_eq!(restored, BTreeSet::from(names));
    home.assert_rebuilds();
}

#[test]
fn files_that_are_not_opened_are_listed() {
    let home = home_with_secrets();
    home.sync();
    let status = quipu_ledger::status::status(&home.open(), &home.roots()).unwrap();
    for format in &status.formats {
        let counted = |reason: &str| -> u64 {
            format.skipped.iter().filter(|s| s.reason.contains(reason)).map(|s| s.all()).sum()
        };
        assert!(counted("secrets") >= 5, "{:?}", format.skipped);
        assert!(counted("out of its root") >= 2, "{:?}", format.skipped);
        for skipped in &format.skipped {
            assert!(!skipped.paths.is_empty());
        }
    }
}

#[test]
fn a_link_inside_its_root_is_followed() {
    let home = Home::new();
    let (link, target) = (format!("{SESSIONS}/kept.jsonl"), ".openclaw/attic/kept.jsonl");
    home.write(target, "{\"role\":\"user\",\"content\":\"lobster\"}\n");
    home.folder_for(&link);
    symlink(home.path(target), home.path(&link)).unwrap();
    home.sync();
    assert_eq!(home.hits("lobster"), 1);
    home.append(target, "{\"role\":\"user\",\"content\":\"crayfish\"}\n");
    home.sync();
    assert_eq!(home.hits("crayfish"), 1);
    home.assert_restores_all(&[&link]);
    home.assert_rebuilds();
}

#[test]
fn one_file_of_two_names_is_collected_once() {
    let home = Home::new();
    home.write(&format!("{SESSIONS}/a.jsonl"), "{\"role\":\"user\",\"content\":\"lobster\"}\n");
    symlink("a.jsonl", home.path(&format!("{SESSIONS}/b.jsonl"))).unwrap();
    let names = ["a.jsonl", "c.jsonl"].map(|name| home.path(&format!("{SESSIONS}/{name}")));
    fs::hard_link(&names[0], &names[1]).unwrap();
    let report = home.sync();
    assert_eq!((report.sources, report.records_added), (1, 1));
    assert_eq!(report.skipped.iter().map(|skipped| skipped.files).sum::<u64>(), 2);
}

#[test]
fn a_root_that_is_a_link_is_one_root() {
    let home = Home::new();
    home.write(".openclaw/agents/main/sessions/a.jsonl", "{\"role\":\"user\",\"content\":\"x\"}\n");
    symlink(home.path(".openclaw"), home.path(".clawdbot")).unwrap();
    let mut roots = home.roots();
    let twin = quipu_ledger::collect::RootPath { path: home.path(".clawdbot"), ..roots[1].clone() };
    roots.push(twin);
    for roots in [roots.clone(), roots.into_iter().rev().collect()] {
        let report = quipu_ledger::collect::collect(&mut home.open(), &roots, &mut |_| {}).unwrap();
        assert_eq!((report.sources, report.gone_sources), (1, 0));
    }
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), 1);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 1);
}

#[test]
fn loops_of_links_end() {
    let home = Home::new();
    home.write(MAIN, line("user", &uuid(1), None, "innocent"));
    let slug = home.path(SLUG);
    symlink("..", slug.join("up")).unwrap();
    symlink(".", slug.join("here")).unwrap();
    symlink("self", slug.join("self")).unwrap();
    symlink(home.path(".claude"), home.path(".claude/projects/-root")).unwrap();
    symlink(home.path(".claude/projects"), home.path(".claude/projects/-projects")).unwrap();
    fs::create_dir_all(slug.join("00000001-0000-4000-8000-000000000000/subagents")).unwrap();
    let nested = slug.join("00000001-0000-4000-8000-000000000000/subagents");
    symlink("..", nested.join("up")).unwrap();
    symlink(&nested, nested.join("again")).unwrap();
    let report = home.sync();
    assert_eq!(report.records_added, 1);
    home.assert_restores_all(&[MAIN]);
}

#[test]
fn a_fifo_or_socket_does_not_hang() {
    let home = Home::new();
    home.write(MAIN, line("user", &uuid(1), None, "innocent"));
    let fifo = |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap();
    fifo(&home.path(&format!("{SLUG}/00000001-0000-4000-8000-000000000000.jsonl")));
    fifo(&home.path(&format!("{SLUG}/notes.jsonl")));
    let socket = home.path(&format!("{SLUG}/00000002-0000-4000-8000-000000000000.jsonl"));
    // Names of sockets are short, so it is created in another folder.
    let short = tempfile::tempdir().unwrap();
    drop(std::os::unix::net::UnixListener::bind(short.path().join("s")).unwrap());
    fs::rename(short.path().join("s"), socket).unwrap();
    let report = home.sync();
    assert_eq!(report.records_added, 1);
    let odd: Vec<_> = report.skipped.iter().filter(|s| s.reason == "not a regular file").collect();
    assert_eq!(odd.iter().map(|skipped| skipped.files).sum::<u64>(), 3, "{:?}", report.skipped);

    // A transcript that becomes a pipe is no longer read, and nothing of it is lost.
    home.remove(MAIN);
    fifo(&home.path(MAIN));
    home.sync();
    assert_eq!(home.hits("innocent"), 1);
}

/// A transcript is swapped for a link to a denied file after discovery.
#[test]
fn a_transcript_that_becomes_a_link_to_a_secret_is_not_read() {
    let home = home_with_secrets();
    home.sync();
    home.remove(MAIN);
    symlink(home.path(".claude/.credentials.json"), home.path(MAIN)).unwrap();
    home.sync();
    home.remove(MAIN);
    fs::hard_link(home.path(".claude/settings.json"), home.path(MAIN)).unwrap();
    home.sync();
    assert!(everything(&home).iter().all(|bytes| !contains(bytes, "canary")));
    assert_eq!(home.hits("innocent"), 1);
}

/// The operating system's own record of opened files.
#[test]
fn no_secret_is_opened() {
    let home = home_with_secrets();
    let Some(opened) = child::trace_collect(&home) else { return };
    let shown = format!("<{}>", home.path(MAIN).display());
    assert!(opened.contains(&shown), "the log shows what is opened");
    let links = SOFT_LINKS.iter().chain(HARD_LINKS).map(|(link, _)| *link);
    for secret in SECRETS.iter().copied().chain(links).chain(["outside/diary.jsonl"]) {
        let path = home.path(secret);
        let is_opened = ['"', '<'].iter().any(|mark| {
            let end = if *mark == '<' { '>' } else { '"' };
            opened.contains(&format!("{mark}{}{end}", path.display()))
        });
        // A folder may be listed, but its files may not be opened.
        assert!(path.is_dir() || !is_opened, "{secret} was opened");
    }
    assert!(!opened.contains("/outside"), "a folder outside of the roots was opened");
}
