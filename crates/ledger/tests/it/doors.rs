//! Every access to a source follows the same rules: a file that is swapped for a link or a pipe
//! in between is not followed, not read and not waited for.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use quipu_ledger::Ledger;
use quipu_ledger::freshness::{RefreshLimit, open_to_read};
use quipu_ledger::store::Store;
use rusqlite::Connection;
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};

use crate::home::*;
use crate::rows::{DATABASE, event, grow, header, loose};
use crate::secrets::{SESSIONS, SLUG, contains, everything, home_with_secrets};

/// The number of syncs while folders are swapped.
const SYNCS: u32 = 300;

#[track_caller]
fn assert_no_canary(home: &Home) {
    for bytes in everything(home) {
        let at = bytes.windows(6).position(|window| window == b"canary");
        assert!(at.is_none(), "{}", String::from_utf8_lossy(&bytes[at.unwrap_or(0)..]));
    }
}

/// Folders of three kinds are swapped with links that lead outside, all the time.
#[test]
fn folders_swapped_for_links_are_never_followed() {
    let home = Home::quick();
    loose(&home, 23, "PRAGMA journal_mode = WAL");
    let theirs = Connection::open(home.path(DATABASE)).unwrap();
    let insert = |conn: &Connection, number: i64, event: &str| {
        conn.execute(
            "INSERT INTO transcript_events VALUES ('s', ?1, ?2, NULL, NULL)",
            (number, event),
        )
        .unwrap();
    };
    insert(&theirs, 0, &header("s"));
    home.write(MAIN, "");
    home.write(&format!("{SESSIONS}/a.jsonl"), "");
    // Files with the same names outside, with other words.
    for name in ["640ab4c7-d010-4b20-a591-b7172ef08e66.jsonl", "a.jsonl", "b.jsonl"] {
        let lines: String = (0..50).map(|n| line("user", &uuid(900 + n), None, "canary")).collect();
        home.write(&format!("outside/{name}"), lines);
    }
    fs::copy(home.path(DATABASE), home.path("outside/openclaw-agent.sqlite")).unwrap();
    let other = Connection::open(home.path("outside/openclaw-agent.sqlite")).unwrap();
    insert(&other, 0, &header("s"));
    insert(&other, 1, &event(1, "canary"));
    other.close().unwrap();
    let folders = [SLUG, SESSIONS, ".openclaw/agents/main/agent"];
    let links = [".claude/away", ".openclaw/away", ".openclaw/away2"];
    for link in links {
        symlink(home.path("outside"), home.path(link)).unwrap();
    }
    let appended = |path: &str| File::options().append(true).open(home.path(path)).unwrap();
    let mut files = [appended(MAIN), appended(&format!("{SESSIONS}/a.jsonl"))];
    let exchange = |folder: &str, link: &str| {
        let (folder, link) = (home.path(folder), home.path(link));
        renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE)
    };
    if exchange(folders[0], links[0]).and(exchange(folders[0], links[0])).is_err() {
        quipu_torture::skip("this file system exchanges no names");
        return;
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for (folder, link) in folders.iter().zip(links) {
                    exchange(folder, link).unwrap();
                }
            }
            for (folder, link) in folders.iter().zip(links) {
                if home.path(folder).is_symlink() {
                    exchange(folder, link).unwrap();
                }
            }
        });
        for number in 0..SYNCS {
            let id = uuid(number);
            files[0].write_all(line("user", &id, None, "innocent").as_bytes()).unwrap();
            let text = format!("{{\"role\":\"user\",\"content\":\"harmless {number}\"}}\n");
            files[1].write_all(text.as_bytes()).unwrap();
            insert(&theirs, i64::from(number) + 1, &event(number, "harmless"));
            home.sync();
        }
        stop.store(true, Ordering::Relaxed);
    });
    home.sync();
    assert_no_canary(&home);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM record_rows"), i64::from(SYNCS) + 1);
    home.assert_restores_all(&[MAIN, &format!("{SESSIONS}/a.jsonl")]);
    home.assert_rebuilds();
}

/// Imports OpenClaw's folder, any folder in it, and a copy with the same inodes.
#[test]
fn an_import_stores_no_secret() {
    let home = home_with_secrets();
    let roots: Vec<_> = home.roots().into_iter().map(|root| root.path).collect();
    let good = format!("{}\n{}\n", header("good"), event(1, "lobster"));
    home.write(&format!("{SESSIONS}/good.jsonl"), good);
    let elsewhere = home.path("elsewhere/agents/main/sessions");
    fs::create_dir_all(&elsewhere).unwrap();
    let secret = home.path(".openclaw/agents/main/agent/auth-profiles.json");
    fs::hard_link(secret, elsewhere.join("hard.jsonl")).unwrap();
    let folders = [
        ".openclaw",
        ".openclaw/agents",
        ".openclaw/agents/main",
        ".openclaw/agents/main/sessions",
        "elsewhere",
    ];
    let store = Store::open(home.ledger_path()).unwrap();
    let mut left_out = 0;
    for folder in folders {
        let mut imported = |file: quipu_ledger::wire::ImportedFile| {
            let why = file.reason.unwrap_or_default();
            left_out += usize::from(why.contains("secrets under another name"));
        };
        store.import_with_roots(&home.path(folder), &roots, &mut imported).unwrap();
    }
    assert!(left_out >= folders.len(), "each import reports what it left out: {left_out}");
    drop(store);
    assert!(everything(&home).iter().any(|bytes| contains(bytes, "lobster")));
    assert_no_canary(&home);
}

/// A file with secrets in a folder outside of the roots, with a second name among the sessions.
#[test]
fn a_hard_link_to_a_secret_of_another_folder_is_not_stored() {
    let secret = "{\"version\":1,\"profiles\":{\"a\":{\"type\":\"token\",\"token\":\"canary\"}}}\n";
    let pretty = "{\n  \"profiles\": {\n    \"token\": \"canary\"\n  }\n}\n";
    for place in [".openclaw-dev/agents/main/agent", "srv/agents/main/agent"] {
        for (number, secret) in [secret, pretty].into_iter().enumerate() {
            for kind in ["hard.jsonl", "hard.jsonl.reset.2026-02-04T10-30-00.000Z", "sessions.json"]
            {
                let home = Home::quick();
                let roots: Vec<_> = home.roots().into_iter().map(|root| root.path).collect();
                let good = format!("{}\n{}\n", header("good"), event(1, "lobster"));
                home.write(&format!("{SESSIONS}/good.jsonl"), good);
                let path = format!("{place}/auth-profiles.json");
                home.write(&path, secret);
                // The lines of an index do not show what it is.
                if kind == "sessions.json" && place.starts_with("srv") {
                    continue;
                }
                let name = home.path(&format!("{SESSIONS}/{kind}"));
                fs::hard_link(home.path(&path), name).unwrap();
                let store = Store::open(home.ledger_path()).unwrap();
                let mut why = Vec::new();
                let mut collect_reason =
                    |file: quipu_ledger::wire::ImportedFile| why.extend(file.reason);
                store
                    .import_with_roots(&home.path(".openclaw"), &roots, &mut collect_reason)
                    .unwrap();
                drop(store);
                let is_shown = why.iter().any(|why| why.contains("may contain secrets"));
                assert!(is_shown, "{place} {number} {kind}: {why:?}");
                home.sync();
                assert!(everything(&home).iter().any(|bytes| contains(bytes, "lobster")));
                assert_no_canary(&home);
            }
        }
    }
}

/// Folders with secrets are beside the roots, or are links, and one of their files has a second
/// name as each kind of source.
#[test]
fn a_hard_link_to_a_file_of_a_denied_folder_is_not_stored() {
    let names = [
        format!("{SLUG}/640ab4c7-d010-4b20-a591-b7172ef08e66/tool-results/toolu_1.txt"),
        format!("{SLUG}/640ab4c7-d010-4b20-a591-b7172ef08e66/subagents/agent-a.meta.json"),
        format!("{SLUG}/640ab4c7-d010-4b20-a591-b7172ef08e66/subagents/agent-a.jsonl"),
        format!("{SLUG}/00000004-0000-4000-8000-000000000000.jsonl"),
        ".claude/history.jsonl".to_owned(),
        ".openclaw/workspace/MEMORY.md".to_owned(),
        ".openclaw/workspace/memory/2026-01-01.md".to_owned(),
        ".openclaw/cron/jobs.json".to_owned(),
        format!("{SESSIONS}/sessions.json"),
        format!("{SESSIONS}/hard.jsonl"),
        format!("{SESSIONS}/hard.jsonl.deleted.2026-02-04T10-30-00.000Z"),
        DATABASE.to_owned(),
    ];
    let secrets = [
        (".ssh/work", None),
        (".aws/sso/cache/token", None),
        (".gnupg/private-keys-v1.d/one", None),
        ("dot/creds/inner/token", Some((".openclaw/credentials", "dot/creds"))),
        ("dot/keys/one", Some((".ssh/keys", "dot/keys"))),
        ("dot/dev/credentials/one", Some((".openclaw-dev", "dot/dev"))),
    ];
    for (secret, link) in secrets {
        for is_import in [false, true] {
            let home = Home::quick();
            home.write(MAIN, line("user", &uuid(1), None, "lobster"));
            let good = format!("{}\n{}\n", header("good"), event(1, "lobster"));
            home.write(&format!("{SESSIONS}/good.jsonl"), good);
            home.write(secret, line("user", &uuid(2), None, "canary"));
            if let Some((link, target)) = link {
                home.folder_for(link);
                symlink(home.path(target), home.path(link)).unwrap();
            }
            for name in &names {
                home.folder_for(name);
                fs::hard_link(home.path(secret), home.path(name)).unwrap();
            }
            if is_import {
                let roots: Vec<_> = home.roots().into_iter().map(|root| root.path).collect();
                let store = Store::open(home.ledger_path()).unwrap();
                store.import_with_roots(&home.path(".openclaw"), &roots, &mut |_| {}).unwrap();
            } else {
                let report = home.sync();
                for name in &names {
                    let mut paths = report.skipped.iter().flat_map(|skip| &skip.paths);
                    assert!(
                        paths.any(|skipped| name.ends_with(skipped)),
                        "{secret} {name}: {report:?}"
                    );
                }
            }
            assert!(everything(&home).iter().any(|bytes| contains(bytes, "lobster")));
            assert_no_canary(&home);
        }
    }
}

/// A collected transcript that is replaced by a hard link to a file with secrets.
#[test]
fn a_transcript_that_becomes_a_hard_link_to_a_secret_is_not_stored() {
    let home = Home::quick();
    let path = format!("{SESSIONS}/good.jsonl");
    home.write(&path, format!("{}\n{}\n", header("good"), event(1, "lobster")));
    assert_eq!(home.sync().records_added, 2);
    let secret = "srv/agents/main/agent/auth-profiles.json";
    home.write(secret, "{\"profiles\":{\"a\":{\"type\":\"token\",\"token\":\"canary\"}}}\n");
    fs::remove_file(home.path(&path)).unwrap();
    fs::hard_link(home.path(secret), home.path(&path)).unwrap();
    for round in 0..2 {
        let report = home.sync();
        assert_eq!((report.records_added, report.skipped.len()), (0, 1), "{round}: {report:?}");
        // The secret grows.
        let mut file = File::options().append(true).open(home.path(secret)).unwrap();
        file.write_all(b"{\"token\":\"canary\"}\n").unwrap();
    }
    assert_no_canary(&home);
}

/// Backups that share files with each other are collected.
#[test]
fn transcripts_with_other_hard_links_are_read() {
    let home = Home::quick();
    let good = format!("{}\n{}\n", header("good"), event(1, "lobster"));
    let path = format!("{SESSIONS}/good.jsonl");
    home.write("backup/daily.1/good.jsonl", good);
    home.folder_for(&path);
    fs::hard_link(home.path("backup/daily.1/good.jsonl"), home.path(&path)).unwrap();
    let store = Store::open(home.ledger_path()).unwrap();
    let mut rows = 0;
    store.import(&home.path(".openclaw"), &mut |file| rows += file.stored).unwrap();
    drop(store);
    assert_eq!(rows, 2);
    assert_eq!(home.sync().records_added, 2);
}

/// A watch opens files by their names, and the doctor compares them.
#[test]
fn hints_and_the_doctor_open_no_secret() {
    let home = home_with_secrets();
    home.sync();
    let names = |folder: &str| {
        let entries = fs::read_dir(home.path(folder)).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    for hint in [names(SLUG), names(SESSIONS), vec![home.path(".claude/history.jsonl")]].concat() {
        quipu_ledger::collect::collect_changed(
            &mut home.open(),
            &home.roots(),
            &[hint],
            &mut |_| {},
        )
        .unwrap();
    }
    // Unnoticed by the ledger: the same size and time, another file.
    let size = fs::metadata(home.path(MAIN)).unwrap().len();
    let secret = home.path(".claude/settings.json");
    File::options().write(true).open(&secret).unwrap().set_len(size).unwrap();
    fs::remove_file(home.path(MAIN)).unwrap();
    fs::hard_link(&secret, home.path(MAIN)).unwrap();
    quipu_ledger::doctor::doctor(&home.ledger_path(), &home.roots(), true, &mut |_| {});
    home.sync();
    assert_no_canary(&home);
}

/// Creates a file that no program can have beside its database.
fn make(kind: &str, path: &Path) {
    match kind {
        "pipe" => mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
        "folder" => fs::create_dir(path).unwrap(),
        "device" => symlink("/dev/zero", path).unwrap(),
        _ => drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
    }
}

/// A pipe without a writer, a socket, a device and a folder beside the database.
#[test]
fn odd_companions_of_a_database_are_not_waited_for() {
    let large = "CREATE TABLE filler (x); INSERT INTO filler VALUES (zeroblob(70000000))";
    for more in ["", large] {
        for suffix in ["-journal", "-wal", "-shm"] {
            for kind in ["pipe", "socket", "folder", "device"] {
                let home = Home::quick();
                home.write(MAIN, line("user", &uuid(1), None, "innocent"));
                loose(&home, 23, &format!("{more}; PRAGMA journal_mode = WAL"));
                grow(&home, "s", 0..5);
                make(kind, &home.path(&format!("{DATABASE}{suffix}")));
                let mut reader = open_to_read(&home.ledger_path(), "here").unwrap();
                reader.refresh(&home.roots(), "here", RefreshLimit::Short, &mut |_| {}).unwrap();
                drop(reader);
                let report = home.sync();
                let name = format!("{suffix} as a {kind}");
                let is_named = report.skipped.iter().any(|skipped| {
                    skipped.reason.contains(suffix) && skipped.reason.contains("regular file")
                });
                let rows = home.one::<i64>("SELECT count(*) FROM record_rows");
                assert!(is_named != (rows == 5), "{name}: {rows} rows, {:?}", report.skipped);
                assert_eq!(home.hits("innocent"), 1, "{name}");
                let says =
                    format!("the {suffix} file beside it is not a regular file; move it away");
                let diagnosis = quipu_ledger::doctor::doctor(
                    &home.ledger_path(),
                    &home.roots(),
                    true,
                    &mut |_| {},
                );
                let found = diagnosis.findings.iter().any(|finding| {
                    finding.message.contains(&says) && finding.examples[0].ends_with(DATABASE)
                });
                assert_eq!(found, is_named, "{name}: {:?}", diagnosis.findings);
                let ledger = Ledger::open_read_only(&home.ledger_path()).unwrap();
                let status = quipu_ledger::status::status(&ledger, &home.roots()).unwrap();
                drop(ledger);
                let mut skipped = status.formats.iter().flat_map(|format| &format.skipped);
                let found = skipped.any(|skipped| {
                    skipped.reason.contains(&says) && DATABASE.ends_with(&skipped.paths[0])
                });
                assert_eq!(found, is_named, "{name}: {:?}", status.formats);
                let store = Store::open(home.ledger_path()).unwrap();
                store.import(&home.path(".openclaw"), &mut |_| {}).unwrap();
            }
        }
    }
}

/// A database that was collected and has not changed since is reported as well.
#[test]
fn odd_companions_of_a_collected_database_are_reported() {
    let home = Home::quick();
    loose(&home, 23, "PRAGMA journal_mode = WAL");
    grow(&home, "s", 0..5);
    home.sync();
    make("pipe", &home.path(&format!("{DATABASE}-journal")));
    let report = home.sync();
    let [skipped] = report.skipped.as_slice() else { panic!("{:?}", report.skipped) };
    assert!(skipped.reason.contains("the -journal file beside it"), "{skipped:?}");
}

/// A log of holes only, beside a database without a shared-memory index.
#[test]
fn an_endless_log_of_a_database_is_not_copied() {
    let home = Home::quick();
    loose(&home, 23, "PRAGMA journal_mode = WAL");
    let theirs = crate::rows::writer(&home, DATABASE);
    theirs
        .execute("INSERT INTO transcript_events VALUES ('s', 0, ?1, NULL, NULL)", [header("s")])
        .unwrap();
    for suffix in ["", "-wal"] {
        fs::copy(home.path(&format!("{DATABASE}{suffix}")), home.scratch(&format!("copy{suffix}")))
            .unwrap();
    }
    theirs.close().unwrap();
    for suffix in ["", "-wal"] {
        fs::copy(home.scratch(&format!("copy{suffix}")), home.path(&format!("{DATABASE}{suffix}")))
            .unwrap();
    }
    let log = File::options().write(true).open(home.path(&format!("{DATABASE}-wal"))).unwrap();
    log.set_len(2_000_000_000).unwrap();
    let report = home.sync();
    let [skipped] = report.skipped.as_slice() else { panic!("{:?}", report.skipped) };
    assert!(skipped.reason.contains("1907 MiB with its log are too much to copy"), "{skipped:?}");
    let diagnosis =
        quipu_ledger::doctor::doctor(&home.ledger_path(), &home.roots(), false, &mut |_| {});
    let named =
        |finding: &quipu_ledger::wire::Finding| finding.message.contains("start its program");
    assert!(diagnosis.findings.iter().any(named), "{:?}", diagnosis.findings);
    // Its program writes the log back.
    log.set_len(fs::metadata(home.scratch("copy-wal")).unwrap().len()).unwrap();
    assert_eq!(home.sync().records_added, 1);
}

/// An index that is not a regular file, for a sync, a reader and an import.
#[test]
fn odd_indexes_are_not_waited_for() {
    for kind in ["pipe", "socket", "folder", "device"] {
        let home = Home::quick();
        home.write(&format!("{SESSIONS}/a.jsonl"), "{\"role\":\"user\",\"content\":\"x\"}\n");
        make(kind, &home.path(&format!("{SESSIONS}/sessions.json")));
        assert_eq!(home.sync().records_added, 1, "{kind}");
        let store = Store::open(home.ledger_path()).unwrap();
        store.import(&home.path(".openclaw"), &mut |_| {}).unwrap();
    }
}
