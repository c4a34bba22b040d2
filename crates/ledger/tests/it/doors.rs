//! Every way to a source is the same door: what is exchanged, linked or made a pipe while it is used
//! is not followed, not read and not waited for.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use quipu_ledger::store::Store;
use quipu_ledger::{Patience, open_to_read};
use rusqlite::Connection;
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};

use crate::home::*;
use crate::rows::{DATABASE, event, grow, header, loose};
use crate::secrets::{SESSIONS, SLUG, contains, everything, home_with_secrets};

/// How often a home is synced while its folders are exchanged.
const SYNCS: u32 = 300;

#[track_caller]
fn assert_no_canary(home: &Home) {
    for bytes in everything(home) {
        let at = bytes.windows(6).position(|window| window == b"canary");
        assert!(at.is_none(), "{}", String::from_utf8_lossy(&bytes[at.unwrap_or(0)..]));
    }
}

/// Folders of three kinds change places with links that lead outside, all the time.
#[test]
fn folders_exchanged_for_links_are_never_followed_out() {
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
    // The same names outside, with other words in them.
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

/// An import of OpenClaw's folder, of any folder in it, and of a copy with the same inodes.
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
    let mut store = Store::open(&home.ledger_path()).unwrap();
    let mut left_out = 0;
    for folder in folders {
        let mut told = |file: quipu_ledger::wire::ImportedFile| {
            let why = file.why.unwrap_or_default();
            left_out += usize::from(why.contains("secrets under another name"));
        };
        store.import_beside(&home.path(folder), &roots, &mut told).unwrap();
    }
    assert!(left_out >= folders.len(), "each names what it left out: {left_out}");
    drop(store);
    assert!(everything(&home).iter().any(|bytes| contains(bytes, "lobster")));
    assert_no_canary(&home);
}

/// What a watch does with the names of changed files, and what the doctor compares.
#[test]
fn hints_and_the_doctor_open_no_secret() {
    let home = home_with_secrets();
    home.sync();
    let names = |folder: &str| {
        let entries = fs::read_dir(home.path(folder)).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    for hint in [names(SLUG), names(SESSIONS), vec![home.path(".claude/history.jsonl")]].concat() {
        quipu_ledger::collect_changed(&mut home.open(), &home.roots(), &[hint], &mut |_| {})
            .unwrap();
    }
    // Behind the ledger's back: the same size and time, another file.
    let size = fs::metadata(home.path(MAIN)).unwrap().len();
    let secret = home.path(".claude/settings.json");
    File::options().write(true).open(&secret).unwrap().set_len(size).unwrap();
    fs::remove_file(home.path(MAIN)).unwrap();
    fs::hard_link(&secret, home.path(MAIN)).unwrap();
    quipu_ledger::doctor(&home.ledger_path(), &home.roots(), true, &mut |_| {});
    home.sync();
    assert_no_canary(&home);
}

/// Makes something that no program can have as a companion of its database.
fn make(kind: &str, path: &Path) {
    match kind {
        "pipe" => mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
        "folder" => fs::create_dir(path).unwrap(),
        "device" => symlink("/dev/zero", path).unwrap(),
        _ => drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
    }
}

/// A pipe that nobody writes to, a socket, a device and a folder beside the database.
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
                reader.refresh(&home.roots(), "here", Patience::Short, &mut |_| {}).unwrap();
                drop(reader);
                let report = home.sync();
                let name = format!("{suffix} as a {kind}");
                let is_named = report.skipped.iter().any(|skipped| {
                    skipped.reason.contains(suffix) && skipped.reason.contains("regular file")
                });
                let rows = home.one::<i64>("SELECT count(*) FROM record_rows");
                assert!(is_named != (rows == 5), "{name}: {rows} rows, {:?}", report.skipped);
                assert_eq!(home.hits("innocent"), 1, "{name}");
                quipu_ledger::doctor(&home.ledger_path(), &home.roots(), true, &mut |_| {});
                let mut store = Store::open(&home.ledger_path()).unwrap();
                store.import(&home.path(".openclaw"), &mut |_| {}).unwrap();
            }
        }
    }
}

/// An index that is none, for a sync, a reader and an import.
#[test]
fn odd_indexes_are_not_waited_for() {
    for kind in ["pipe", "socket", "folder", "device"] {
        let home = Home::quick();
        home.write(&format!("{SESSIONS}/a.jsonl"), "{\"role\":\"user\",\"content\":\"x\"}\n");
        make(kind, &home.path(&format!("{SESSIONS}/sessions.json")));
        assert_eq!(home.sync().records_added, 1, "{kind}");
        let mut store = Store::open(&home.ledger_path()).unwrap();
        store.import(&home.path(".openclaw"), &mut |_| {}).unwrap();
    }
}
