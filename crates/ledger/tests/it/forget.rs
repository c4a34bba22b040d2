//! `forget` is the only destructive operation: no byte of the session is left in the ledger's
//! folder, it is never collected again, and everything else is unchanged.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::time::{Duration, Instant, SystemTime};

use quipu_ledger::collect::Progress;
use quipu_ledger::restore::{Generations, RestoreScope};
use quipu_ledger::wire::ForgetReport;
use quipu_ledger::{Error, Ledger};
use quipu_torture::Prng;

use crate::child;
use crate::home::*;

/// The session that is forgotten.
pub(crate) const VICTIM: &str = "0bad5e55-d010-4b20-a591-b7172ef08e66";

/// A word in everything that the session ever wrote.
const CANARY: &str = "zanzibarcanary";

const FOLDER: &str = ".claude/projects/-home-alice-shop";
const HISTORY: &str = ".claude/history.jsonl";

fn victim() -> String {
    format!("{FOLDER}/{VICTIM}.jsonl")
}

/// Returns a line of the session; its text differs every time and contains the canary.
fn secret(number: u32) -> String {
    line("user", &uuid(number), None, &format!("{CANARY}{number} and {CANARY}"))
        .replace(SESSION, VICTIM)
}

fn prompt(session: &str, text: &str) -> String {
    format!(
        "{{\"display\":\"{text}\",\"pastedContents\":{{}},\"timestamp\":1770193116233,\
         \"project\":\"/home/alice/shop\",\"sessionId\":\"{session}\"}}\n"
    )
}

/// Writes the session with everything that belongs to it, and other sessions.
fn furnish(home: &Home) {
    home.write(MAIN, (0..50).map(|n| line("user", &uuid(n), None, "kept")).collect::<String>());
    home.write(&victim(), (100..150).map(secret).collect::<String>());
    let below = format!("{FOLDER}/{VICTIM}");
    home.write(&format!("{below}/subagents/agent-a1.jsonl"), secret(200));
    home.write(
        &format!("{below}/subagents/agent-a1.meta.json"),
        format!("{{\"agentType\":\"Explore\",\"description\":\"{CANARY}\"}}"),
    );
    home.write(&format!("{below}/tool-results/toolu_1.txt"), format!("{CANARY} output"));
    // Releases of 2025 kept sub-agents beside their session.
    home.write(&format!("{FOLDER}/agent-77.jsonl"), secret(201));
    home.write(
        HISTORY,
        [
            prompt(SESSION, "a kept prompt"),
            prompt(VICTIM, &format!("{CANARY} first")),
            prompt(SESSION, &format!("where is {VICTIM}?")),
            prompt(VICTIM, &format!("{CANARY} second")),
        ]
        .concat(),
    );
    home.write(
        ".openclaw/agents/main/sessions/other.jsonl",
        "{\"role\":\"user\",\"content\":\"other\",\"timestamp\":1770193116233}\n",
    );
}

/// Searches for the canary in every byte of the ledger's folder, and in all compressed values.
#[track_caller]
fn assert_gone(home: &Home) {
    for (name, bytes) in home.ledger_bytes() {
        let found = memchr::memmem::find(&bytes, CANARY.as_bytes());
        assert_eq!(found, None, "the canary is in {name}");
    }
    for chunk in home.all_blobs("SELECT data FROM chunks") {
        let raw = zstd::decode_all(chunk.as_slice()).unwrap();
        assert!(
            memchr::memmem::find(&raw, CANARY.as_bytes()).is_none(),
            "the canary is in a chunk"
        );
    }
    let words = home.projection().remove("search words").unwrap();
    assert!(!words.iter().any(|word| word.contains(CANARY)), "the canary is in the search index");
    let sessions: i64 =
        home.one(&format!("SELECT count(*) FROM sessions WHERE session_id LIKE '{VICTIM}%'"));
    assert_eq!(sessions, 0);
}

/// Runs all checks after forgetting.
#[track_caller]
fn check(home: &Home) {
    assert_gone(home);
    home.assert_sound();
    home.assert_rebuilds();
    assert_gone(home);
}

/// Returns the restored files that do not belong to the forgotten session.
fn other_files(home: &Home) -> BTreeMap<String, Vec<u8>> {
    let mut restored = home.restored(Generations::All);
    restored.retain(|path, _| {
        !path.contains(VICTIM) && !path.contains("history") && !path.contains("agent-77")
    });
    restored
}

/// Asserts that the restored files of other sessions equal those on disk.
#[track_caller]
fn assert_other_files_are_on_disk(home: &Home) {
    for (path, bytes) in other_files(home) {
        let on_disk =
            path.replacen("claude-code", ".claude", 1).replacen("openclaw", ".openclaw", 1);
        assert!(fs::read(home.path(&on_disk)).unwrap() == bytes, "{path}");
    }
}

#[track_caller]
fn forget(home: &Home) -> ForgetReport {
    let before = other_files(home);
    let report = home.forget(VICTIM);
    assert!(report.is_forgotten && report.is_cleaned);
    assert_eq!(other_files(home), before, "another session's file");
    report
}

#[test]
fn nothing_is_left_in_any_byte() {
    let home = Home::new();
    furnish(&home);
    home.sync();
    let preview = quipu_ledger::forget::preview(&home.open(), "0bad").unwrap();
    assert!(!preview.is_forgotten && home.hits(CANARY) > 0);
    let report = forget(&home);
    assert_eq!(report.affected_sessions.len(), 3, "{report:?}");
    assert_eq!((report.records, report.shared_lines), (preview.records, 2));
    assert_eq!((report.records, report.files), (50 + 4, 5));
    assert_eq!(report.paths_on_disk.len(), 6, "{:?}", report.paths_on_disk);
    assert_eq!((report.copies, report.backup_paths.len()), (0, 0));
    check(&home);
    assert_eq!(home.hits("kept"), 51);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM prompts"), 2);
}

#[test]
fn a_forgotten_session_is_not_collected_again() {
    let home = Home::new();
    furnish(&home);
    home.sync();
    forget(&home);
    let sync = || {
        let report = home.sync();
        check(&home);
        report
    };
    let skipped = sync().skipped;
    let skipped = skipped.iter().find(|skipped| skipped.reason.contains("forgotten")).unwrap();
    assert_eq!(skipped.files, 5);

    home.append(&victim(), secret(300));
    home.append(HISTORY, prompt(VICTIM, CANARY));
    assert_eq!(sync().records_added, 1, "the blank");
    touch(&home, &victim());
    touch(&home, HISTORY);
    assert_eq!(sync().records_added, 0);
    home.replace(&victim(), secret(301));
    let history = fs::read_to_string(home.path(HISTORY)).unwrap();
    home.replace(HISTORY, format!("{}{history}", prompt(SESSION, "before all others")));
    assert_eq!(sync().rewritten_sources, 1);
    home.write(HISTORY, history.replace("a kept", "another kept"));
    sync();
    // New files of the session, and copies of it in other places.
    home.write(&format!("{FOLDER}/{VICTIM}/subagents/agent-a2.jsonl"), secret(302));
    home.write(&format!("{FOLDER}/{VICTIM}/tool-results/toolu_2.txt"), CANARY);
    home.write(&format!("{FOLDER}/agent-78.jsonl"), secret(303));
    home.write(&format!(".claude/projects/-elsewhere/{VICTIM}.jsonl"), secret(304));
    home.remove(&victim());
    sync();
    home.write(&victim(), secret(305));
    assert_eq!(sync().records_added, 0);
    let status = quipu_ledger::status::status(&home.open(), &home.roots()).unwrap();
    assert_eq!(status.formats[0].forgotten_sessions, 3);
    let skipped = &status.formats[0].skipped;
    assert!(skipped.iter().any(|skipped| skipped.reason.contains("forgotten")));
}

fn touch(home: &Home, path: &str) {
    let file = File::options().append(true).open(home.path(path)).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(60)).unwrap();
}

#[test]
fn archives_of_the_session_are_forgotten_too() {
    let home = Home::new();
    let folder = ".openclaw/agents/main/sessions";
    let entry = |id: u32, text: &str| {
        format!(
            "{{\"type\":\"message\",\"id\":\"{id:08x}\",\"parentId\":null,\
             \"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
        )
    };
    let secrets: String = (0..40).map(|id| entry(id, &format!("{CANARY}{id}"))).collect();
    let name = format!("{folder}/{VICTIM}.jsonl");
    home.write(&name, &secrets);
    home.write(&format!("{name}.reset.2026-02-04T10-30-00.000Z"), &secrets);
    home.write(&format!("{name}.bak-4711-1770193116233"), secrets.replace('9', "8"));
    home.write(&format!("{folder}/keep.jsonl"), entry(1, "kept"));
    home.write(&format!(".openclaw/agents/work/sessions/{VICTIM}.jsonl"), entry(1, "work"));
    home.sync();
    home.write(&name, entry(7, &format!("{CANARY} after a reset")));
    home.sync();
    let before = other_files(&home);

    // Two agents use the same id.
    let error = quipu_ledger::forget::forget(&mut home.open(), VICTIM, &mut |_, _| {}).unwrap_err();
    let Error::Ambiguous { candidates, .. } = error else { panic!("{error}") };
    assert_eq!(candidates, [format!("main/{VICTIM}"), format!("work/{VICTIM}")]);
    let report = home.forget(&format!("main/{VICTIM}"));
    assert_eq!((report.files, report.affected_sessions.len()), (3, 1));
    let check = || {
        home.assert_sound();
        home.assert_rebuilds();
        assert_eq!((home.hits(CANARY), home.hits("work")), (0, 1));
        for (name, bytes) in home.ledger_bytes() {
            assert!(memchr::memmem::find(&bytes, CANARY.as_bytes()).is_none(), "in {name}");
        }
    };
    check();
    assert_eq!(other_files(&home), before);
    home.sync();
    check();
    home.rename(&name, &format!("{name}.deleted.2026-02-04T10-30-00.000Z"));
    home.sync();
    check();
    home.write(&name, entry(8, CANARY));
    home.rename(&format!("{name}.bak-4711-1770193116233"), &format!("{folder}/another-name.jsonl"));
    home.sync();
    check();
}

#[test]
fn lines_that_other_sessions_share_stay() {
    let home = Home::new();
    // Enough for several chunks, so that copies share them.
    let long = "words and words ".repeat(60);
    let lines: String =
        (0..2000).map(|n| line("user", &uuid(n), None, &format!("shared{n} {long}"))).collect();
    let copy = |number: u32| format!("{FOLDER}/{}.jsonl", uuid(number));
    home.write(&victim(), &lines);
    home.sync();
    home.write(&copy(0xc0), &lines);
    home.sync();
    home.write(&copy(0xc1), format!("{lines}{}", line("user", &uuid(9000), None, "more")));
    home.write(&copy(0xc2), line("user", &uuid(9001), None, "alone"));
    home.sync();
    let shares = "SELECT count(*) FROM records WHERE same_as IS NOT NULL";
    assert_eq!(home.one::<i64>(shares), 4000);

    let report = forget(&home);
    assert_eq!(report.copies, 2, "{:?}", report.sessions_with_copies);
    assert_eq!(home.one::<i64>(shares), 2000);
    home.assert_sound();
    home.assert_restores();
    home.assert_rebuilds();
    assert_eq!(home.hits("shared7"), 2);
    home.append(&copy(0xc0), line("user", &uuid(9002), None, "goes on"));
    home.sync_and_check();

    // The record that took the bytes over is removed too; the last copy has everything.
    home.forget(&uuid(0xc0));
    assert_eq!(home.one::<i64>(shares), 0);
    home.sync_and_check();
    assert_eq!(home.hits("shared7"), 1);
    home.forget(&uuid(0xc1));
    home.sync_and_check();
    assert_eq!((home.hits("shared7"), home.hits("alone")), (0, 1));
    for (name, bytes) in home.ledger_bytes() {
        assert!(memchr::memmem::find(&bytes, b"shared7").is_none(), "in {name}");
    }
}

#[test]
fn lines_of_shared_files_become_blanks() {
    let home = Home::new();
    let lines = [
        prompt(SESSION, "one"),
        prompt(VICTIM, CANARY),
        "{\"display\":\"from before sessions had ids\"}\n".to_owned(),
        // Cannot be decoded, but names the session.
        format!("{{\"display\":\"{CANARY}\",\"sessionId\":\"{VICTIM}\"\n"),
        prompt(VICTIM, &format!("{CANARY} last")),
    ];
    home.write(HISTORY, lines.concat());
    home.sync();
    // The session is known from its prompts only.
    assert_eq!(home.all("SELECT state FROM sessions"), ["'lost'", "'lost'"]);
    let report = forget(&home);
    assert_eq!((report.shared_lines, report.files), (3, 0));
    assert_eq!(report.paths_on_disk.len(), 1);
    check(&home);
    let restored = || home.restored(Generations::Newest).remove("claude-code/history.jsonl");
    let mut expected: Vec<String> = lines.to_vec();
    for index in [1, 3, 4] {
        expected[index] = format!("{}\n", " ".repeat(lines[index].len() - 1));
    }
    assert_eq!(restored().unwrap(), expected.concat().into_bytes());
    let to = home.scratch("out");
    let report =
        quipu_ledger::restore::restore(&home.open(), RestoreScope::All, &to, Generations::Newest)
            .unwrap();
    assert_eq!(report.written[0].forgotten_lines, 3);

    // Nothing changed on disk, so nothing is read.
    let report = home.sync();
    assert_eq!((report.records_added, report.rewritten_sources), (0, 0));
    home.append(HISTORY, prompt(SESSION, "two"));
    assert_eq!(home.sync().records_added, 1);
    check(&home);
    expected.push(prompt(SESSION, "two"));
    assert_eq!(restored().unwrap(), expected.concat().into_bytes());
}

#[test]
fn an_incomplete_line_of_a_shared_file_is_held_back() {
    let home = Home::new();
    furnish(&home);
    let torn = prompt(VICTIM, &format!("{CANARY} torn"));
    let (start, rest) = torn.split_at(40);
    home.append(HISTORY, start);
    home.sync();
    forget(&home);
    check(&home);
    home.sync();
    check(&home);
    home.append(HISTORY, rest.trim_end());
    home.sync();
    check(&home);
    home.append(HISTORY, "\n");
    home.append(HISTORY, prompt(SESSION, "whole").trim_end());
    home.sync();
    check(&home);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM prompts"), 2);
    home.append(HISTORY, "\n");
    home.sync();
    check(&home);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM prompts"), 3);
    home.append(HISTORY, start);
    home.sync();
    home.replace(HISTORY, prompt(SESSION, "all is new"));
    home.sync();
    check(&home);
}

#[test]
fn a_torn_copy_of_a_forgotten_line_is_removed() {
    let home = Home::new();
    let torn = prompt(VICTIM, &format!("{CANARY} torn"));
    home.write(HISTORY, format!("{}{}", prompt(SESSION, "kept"), &torn[..40]));
    home.sync();
    home.replace(HISTORY, format!("{torn}{}", prompt(SESSION, "kept")));
    home.sync();
    forget(&home);
    check(&home);
}

/// Compressed tails are removed completely, too.
#[test]
fn compressed_last_lines_are_gone_too() {
    let home = Home::new();
    furnish(&home);
    let long = format!("{CANARY} ").repeat(2000);
    home.append(HISTORY, prompt(VICTIM, &long).trim_end());
    home.append(&victim(), secret(300).replace(CANARY, &long).trim_end());
    home.sync();
    let tails = home.all_blobs("SELECT bytes FROM tails WHERE length IS NOT NULL");
    assert_eq!(tails.len(), 2);
    forget(&home);
    check(&home);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM tails"), 0);
    for (name, bytes) in home.ledger_bytes() {
        for tail in &tails {
            let middle = &tail[tail.len() / 2..][..24];
            assert!(
                memchr::memmem::find(&bytes, middle).is_none(),
                "a part of a forgotten tail is in {name}"
            );
        }
    }
}

#[test]
fn remnants_in_the_file_are_gone_too() {
    let home = Home::new();
    // Line by line and byte by byte: through tails and pending records into chunks and out again.
    home.write(MAIN, "");
    home.write(&victim(), "");
    for number in 0..30 {
        let text = secret(number).repeat(40);
        let (start, rest) = text.split_at(text.len() / 2 + 7);
        home.append(&victim(), start);
        home.append(MAIN, line("user", &uuid(500 + number), None, "kept"));
        touch(&home, &victim());
        home.sync();
        home.append(&victim(), rest);
        home.sync();
    }
    quipu_ledger::rebuild::rebuild(&mut home.open(), &mut |_, _| {}).unwrap();
    let chunks = home.all_blobs("SELECT data FROM chunks");
    assert!(!chunks.is_empty());
    forget(&home);
    check(&home);
    let kept = home.all_blobs("SELECT data FROM chunks");
    let file = fs::read(home.ledger_path()).unwrap();
    for chunk in chunks.iter().filter(|chunk| !kept.contains(chunk)) {
        let middle = &chunk[chunk.len() / 2..][..24];
        assert!(
            memchr::memmem::find(&file, middle).is_none(),
            "a part of a removed chunk is in the file"
        );
    }
}

#[test]
fn records_that_span_chunks_are_removed() {
    let home = Home::new();
    let mut prng = Prng::new(3);
    let mut noise = |length: usize| -> String {
        (0..length).map(|_| char::from(b'a' + prng.below(26) as u8)).collect()
    };
    for (number, session) in [VICTIM, SESSION, &uuid(7), &uuid(8)].into_iter().enumerate() {
        let mut lines = String::new();
        for index in 0..6_u32 {
            let length = [10, 700_000, 2_500_000, 1_048_576, 300, 900_000][index as usize];
            let id = uuid(index + 10 * number as u32);
            let word = if session == VICTIM { CANARY } else { "kept" };
            lines += &line("user", &id, None, &format!("{word} {}", noise(length)));
        }
        home.write(&format!("{FOLDER}/{session}.jsonl"), lines);
    }
    home.sync();
    forget(&home);
    check(&home);
    home.assert_restores();
    assert_eq!(home.hits("kept"), 18);
    home.forget(&uuid(7));
    check(&home);
    home.assert_restores();
    assert_eq!(home.hits("kept"), 12);
}

/// Sessions that are written turn by turn share every chunk.
#[test]
fn a_session_that_shares_every_chunk_is_removed() {
    for seed in 1..=4 {
        let home = Home::quick();
        let mut prng = Prng::new(seed);
        let name = |session: u32| match session {
            0 => VICTIM.to_owned(),
            session => uuid(0xaa00 + session),
        };
        for session in 0..5 {
            home.write(&format!("{FOLDER}/{}.jsonl", name(session)), "");
        }
        home.write(HISTORY, "");
        for number in 0..120 {
            let session = prng.below(5) as u32;
            let word = if session == 0 { CANARY } else { "kept" };
            let filler = "filler ".repeat(prng.below(3000) as usize);
            let text = line("user", &uuid(number), None, &format!("{word}{number} {filler}"));
            let path = format!("{FOLDER}/{}.jsonl", name(session));
            home.append(&path, text.repeat(1 + prng.below(3) as usize));
            if prng.below(4) == 0 {
                home.append(HISTORY, prompt(&name(session), &format!("{word} {number}")));
            }
            if prng.below(20) == 0 {
                let old = fs::read(home.path(&path)).unwrap();
                home.replace(&path, [text.as_bytes(), &old].concat());
            }
            if prng.below(3) == 0 {
                home.sync();
            }
        }
        home.sync();
        forget(&home);
        check(&home);
        home.sync();
        check(&home);
        let more = line("user", &uuid(999), None, "afterwards");
        for session in 1..5 {
            home.append(&format!("{FOLDER}/{}.jsonl", name(session)), &more);
        }
        home.sync();
        check(&home);
        let before = other_files(&home);
        home.forget(&name(3));
        let mut after = other_files(&home);
        check(&home);
        after.retain(|path, _| before.contains_key(path));
        assert!(after.iter().all(|(path, bytes)| before[path] == *bytes));
        assert_eq!(after.len(), before.keys().filter(|path| !path.contains(&name(3))).count());
    }
}

#[test]
fn forgetting_twice_is_forgetting_once() {
    let home = Home::new();
    furnish(&home);
    home.sync();
    forget(&home);
    let report = home.forget(VICTIM);
    assert!(report.was_forgotten && report.is_forgotten && report.is_cleaned);
    assert_eq!((report.records, report.files), (0, 0));
    assert_eq!(home.forget("0bad5e").affected_sessions.len(), 2);
    check(&home);
    let error =
        quipu_ledger::forget::forget(&mut home.open(), "nobody", &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, Error::NoMatch { .. }));
    let error = quipu_ledger::forget::forget(&mut home.open(), "", &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, Error::NoMatch { .. }));
}

#[test]
fn a_sub_agent_can_be_forgotten_alone() {
    let home = Home::new();
    furnish(&home);
    home.sync();
    let report = home.forget(&format!("{VICTIM}/agent-a1"));
    assert_eq!((report.affected_sessions.len(), report.files), (1, 2));
    assert_eq!(home.hits("zanzibarcanary200"), 0);
    home.sync();
    assert_eq!((home.hits("zanzibarcanary200"), home.hits("zanzibarcanary100")), (0, 1));
    home.assert_sound();
    home.assert_rebuilds();
}

#[test]
fn files_beside_the_ledger_are_listed() {
    let home = Home::new();
    furnish(&home);
    home.sync();
    let copy = home.folder().join("data/ledger.db.before-upgrade");
    fs::copy(home.ledger_path(), &copy).unwrap();
    let report = home.forget(VICTIM);
    assert_eq!(report.backup_paths, [copy.display().to_string()]);
}

/// While a reader needs old pages, the command reports it, and a later one finishes.
#[test]
fn cleaning_waits_for_a_reader_and_is_finished_later() {
    let home = Home::new();
    furnish(&home);
    home.sync();
    let reader = home.sql();
    reader.execute_batch("BEGIN; SELECT count(*) FROM records").unwrap();
    reader.query_row("SELECT count(*) FROM messages", [], |_| Ok(())).unwrap();
    let (mut ledger, wait) = (home.open(), Duration::from_millis(20));
    let report =
        quipu_ledger::forget::forget_waiting(&mut ledger, VICTIM, wait, &mut |_, _| {}).unwrap();
    drop(ledger);
    assert!(report.is_forgotten && !report.is_cleaned);
    assert_eq!(home.hits(CANARY), 0);
    home.sync();
    home.assert_sound();
    drop(reader);
    home.sync();
    check(&home);
}

/// Records that a sync planned before the session was forgotten are not written afterwards.
#[test]
fn records_planned_before_forgetting_are_not_written() {
    let new = [
        (victim(), (400..500).map(secret).collect::<String>()),
        (HISTORY.to_owned(), prompt(VICTIM, CANARY)),
        (format!("{FOLDER}/{VICTIM}/subagents/agent-a9.jsonl"), secret(900)),
        (format!("{FOLDER}/{VICTIM}/tool-results/new.txt"), CANARY.to_owned()),
    ];
    for (path, text) in new {
        let home = Home::new();
        furnish(&home);
        home.sync();
        let old = fs::read_to_string(home.path(&path)).unwrap_or_default();
        home.write(&path, old + &text);
        home.append(MAIN, line("user", &uuid(901), None, "kept too"));
        let mut is_forgotten = false;
        let mut forget_once = |progress| {
            if let (Progress::Planned { .. }, false) = (progress, is_forgotten) {
                is_forgotten = true;
                home.forget(VICTIM);
            }
        };
        quipu_ledger::collect::collect(&mut home.open(), &home.roots(), &mut forget_once).unwrap();
        check(&home);
        assert_other_files_are_on_disk(&home);
        assert_eq!(home.hits("too"), 1);
    }
}

/// The same with separate processes.
#[test]
fn a_sync_of_another_process_stores_nothing_forgotten() {
    for round in 0..8 {
        let home = Home::quick();
        furnish(&home);
        home.sync();
        for session in 0..20 {
            let path = format!("{FOLDER}/{}.jsonl", uuid(0xee00 + session));
            home.write(&path, line("user", &uuid(session), None, "new").repeat(200));
        }
        home.append(&victim(), (400..800).map(secret).collect::<String>());
        home.append(HISTORY, prompt(VICTIM, CANARY));
        home.write(&format!("{FOLDER}/{VICTIM}/subagents/agent-a9.jsonl"), secret(900));
        let copy = fs::read(home.path(&victim())).unwrap();
        home.write(&format!("{FOLDER}/{}.jsonl", uuid(0xff00)), &copy);
        let mut children = child::start(&home, "collect", 2);
        children.extend(child::start(&home, "forget", 1));
        if round % 2 == 0 {
            children.reverse();
        }
        child::finish(children);
        home.sync();
        home.assert_sound();
        home.assert_rebuilds();
        assert_other_files_are_on_disk(&home);
        // The copy is another session and stays.
        home.forget(&uuid(0xff00));
        check(&home);
    }
}

/// Killed at any moment, the session is forgotten or not, and the next command finishes the work.
#[test]
fn a_killed_forget_is_complete_or_has_not_happened() {
    const KILLS: u32 = 24;
    let mut prng = Prng::new(11);
    let (mut forgotten, mut unfinished) = (0, 0);
    let mut whole = Duration::ZERO;
    for kill in 0..=KILLS {
        let home = Home::quick();
        furnish(&home);
        home.append(&victim(), (1000..3000).map(secret).collect::<String>());
        home.append(MAIN, line("user", &uuid(77), None, &"kept ".repeat(90_000)).repeat(3));
        home.sync();
        let before = other_files(&home);
        let began = Instant::now();
        let mut child = child::start_alone(&home, "forget");
        // The first run is not killed, and measures the duration.
        if kill == 0 {
            assert!(child.wait().unwrap().success());
            whole = began.elapsed();
            continue;
        }
        std::thread::sleep(whole.mul_f64(prng.below(1000) as f64 / 1000.0));
        child.kill().unwrap();
        child.wait().unwrap();
        let is_forgotten = home.one::<bool>("SELECT count(*) > 0 FROM forgotten");
        unfinished += home.one::<u32>(
            "SELECT count(*) > 0 FROM ledger
              WHERE EXISTS (SELECT 1 FROM forgotten)
                AND projected_to < (SELECT max(seq) FROM records)",
        );
        home.sync();
        if is_forgotten {
            forgotten += 1;
            check(&home);
        } else {
            assert_eq!(home.hits("zanzibarcanary2000"), 1);
            home.assert_sound();
            home.assert_restores();
            home.forget(VICTIM);
            check(&home);
        }
        assert_eq!(other_files(&home), before);
    }
    // Kills that all fall before or after the transaction would show nothing.
    println!("{forgotten} of {KILLS} had been forgotten, {unfinished} of those were not finished");
    assert!((1..KILLS).contains(&forgotten) && unfinished > 0);
}

#[test]
fn the_only_session_can_be_forgotten() {
    let home = Home::new();
    home.write(&victim(), secret(1));
    home.sync();
    forget(&home);
    check(&home);
    home.sync();
    check(&home);
    assert_eq!(home.restored(Generations::All).len(), 0);
    drop(Ledger::open(&home.ledger_path()).unwrap());
}

/// A session of OpenClaw is in many places: its transcript, archives of every kind, the index, the
/// runs of a job, and the database.
#[test]
fn a_session_of_openclaw_is_gone_from_everywhere() {
    const SESSIONS: &str = ".openclaw/agents/main/sessions";
    let home = Home::new();
    let header = |id: &str| format!("{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\"}}\n");
    let message_line = |n: u32, text: &str| {
        format!(
            "{{\"type\":\"message\",\"id\":\"0000{n:04}\",\"parentId\":null,\"message\":\
             {{\"role\":\"user\",\"content\":\"{text} {n}\"}}}}\n"
        )
    };
    let transcript = |n: u32| [header(VICTIM), message_line(n, CANARY)].concat();
    home.write(&format!("{SESSIONS}/{VICTIM}.jsonl"), transcript(1));
    home.write(
        &format!("{SESSIONS}/{VICTIM}.jsonl.deleted.2026-02-04T10-30-00.000Z.zst"),
        zstd::encode_all(transcript(2).as_bytes(), 3).unwrap(),
    );
    let cold = format!("{SESSIONS}/cold/{}.jsonl.zst", "ab".repeat(32));
    home.folder_for(&cold);
    home.write(&cold, zstd::encode_all(transcript(3).as_bytes(), 3).unwrap());
    home.write(
        &format!("{SESSIONS}/kept.jsonl"),
        [header("kept"), message_line(9, "kept")].concat(),
    );
    let index = |more: &str| {
        format!(
            "{{\"agent:main:main\": {{\"sessionId\": \"kept\", \"label\": \"kept\"}},\
             \"agent:main:x\": {{\"sessionId\": \"{VICTIM}\", \"subject\": \"{CANARY}{more}\"}}}}"
        )
    };
    home.write(&format!("{SESSIONS}/sessions.json"), index(""));
    let run = |session: &str, text: &str| {
        format!(
            "{{\"ts\":1770193116233,\"jobId\":\"j\",\"action\":\"finished\",\"status\":\"ok\",\
             \"sessionId\":\"{session}\",\"summary\":\"{text}\"}}\n"
        )
    };
    home.write(".openclaw/cron/runs/j.jsonl", [run(VICTIM, CANARY), run("kept", "kept")].concat());
    let database = ".openclaw/agents/main/agent/openclaw-agent.sqlite";
    home.folder_for(database);
    let theirs = rusqlite::Connection::open(home.path(database)).unwrap();
    theirs
        .execute_batch(
            "PRAGMA user_version = 4;
             CREATE TABLE transcript_events
                (session_id TEXT, seq INTEGER, event_json TEXT, PRIMARY KEY (session_id, seq));",
        )
        .unwrap();
    let insert = "INSERT INTO transcript_events VALUES (?1, ?2, ?3)";
    theirs.execute(insert, (VICTIM, 0, header(VICTIM).trim_end())).unwrap();
    theirs.execute(insert, (VICTIM, 1, message_line(4, CANARY).trim_end())).unwrap();
    theirs.execute(insert, ("kept", 0, message_line(10, "kept").trim_end())).unwrap();
    drop(theirs);
    home.sync();
    for number in 1..=4 {
        assert_eq!(home.hits(&format!("{CANARY} {number}")), 1, "{number}");
    }
    // The journal holds two states of the key.
    home.replace(&format!("{SESSIONS}/sessions.json"), index("2"));
    home.sync();

    let report = home.forget(VICTIM);
    assert!(report.is_cleaned);
    let check = || {
        assert_gone(&home);
        for packed in home.all_blobs("SELECT data FROM indexes") {
            let raw = zstd::decode_all(packed.as_slice()).unwrap();
            assert!(
                memchr::memmem::find(&raw, CANARY.as_bytes()).is_none(),
                "the canary is in an index"
            );
        }
        home.assert_sound();
        home.assert_rebuilds();
        assert_eq!(home.hits("kept"), 3);
        assert_eq!(home.one::<i64>("SELECT count(*) FROM session_keys"), 1);
        assert_eq!(home.one::<i64>("SELECT count(*) FROM cron_runs"), 1);
        let found =
            quipu_ledger::doctor::doctor(&home.ledger_path(), &home.roots(), true, &mut |_| {});
        assert!(found.is_ok, "{:?}", found.findings);
    };
    check();
    home.sync();
    check();
    // Touched, moved, appended to, under new names: it is never collected again.
    let again = zstd::encode_all(transcript(5).as_bytes(), 3).unwrap();
    home.replace(&cold, &again);
    home.write(&format!("{SESSIONS}/cold/{}.jsonl.zst", "cd".repeat(32)), &again);
    home.rename(
        &format!("{SESSIONS}/{VICTIM}.jsonl"),
        &format!("{SESSIONS}/{VICTIM}.jsonl.reset.2026-02-05T10-30-00.000Z"),
    );
    home.append(".openclaw/cron/runs/j.jsonl", run(VICTIM, CANARY));
    home.replace(&format!("{SESSIONS}/sessions.json"), index("3"));
    let theirs = rusqlite::Connection::open(home.path(database)).unwrap();
    theirs.execute(insert, (VICTIM, 2, message_line(6, CANARY).trim_end())).unwrap();
    drop(theirs);
    home.sync();
    check();
}

/// The doctor reports no forgotten session as missing.
#[test]
fn the_doctor_does_not_miss_forgotten_sessions() {
    let home = Home::new();
    furnish(&home);
    home.sync();
    forget(&home);
    home.sync();
    home.append(&victim(), secret(300));
    let found =
        quipu_ledger::doctor::doctor(&home.ledger_path(), &home.roots(), false, &mut |_| {});
    let asks = |finding: &quipu_ledger::wire::Finding| finding.hint.contains("quipu sync");
    assert!(!found.findings.iter().any(asks), "{:?}", found.findings);
    home.append(MAIN, line("user", &uuid(90), None, "kept"));
    let found =
        quipu_ledger::doctor::doctor(&home.ledger_path(), &home.roots(), false, &mut |_| {});
    assert!(found.findings.iter().any(asks), "other sources are still checked");
}

/// Threads are sessions of their own: they stay, and are listed.
#[test]
fn threads_are_listed_and_stay() {
    let home = Home::new();
    let path = |session: &str| format!(".openclaw/agents/main/sessions/{session}.jsonl");
    let message_line = "{\"role\":\"user\",\"content\":\"hello\",\"timestamp\":1770193116233}\n";
    let thread = format!("{VICTIM}-topic-5");
    home.write(&path(VICTIM), message_line.replace("hello", CANARY));
    home.write(&path(&thread), message_line);
    home.sync();
    let report = home.forget(&format!("main/{VICTIM}"));
    let threads: Vec<&str> =
        report.thread_sessions.iter().map(|it| it.session_id.as_str()).collect();
    assert_eq!(threads, [thread.as_str()]);
    assert_eq!((home.hits(CANARY), home.hits("hello")), (0, 1));
    assert!(home.forget(&thread).thread_sessions.is_empty());
    assert_eq!(home.hits("hello"), 0);
}

/// A run of a scheduled job may name its session only in its key.
#[test]
fn runs_that_name_the_session_in_their_key_become_blanks() {
    let home = Home::new();
    let run = |key: &str, text: &str| {
        format!(
            "{{\"ts\":1770193116233,\"jobId\":\"j\",\"action\":\"finished\",\"status\":\"ok\",\
             \"sessionKey\":\"{key}\",\"summary\":\"{text}\"}}\n"
        )
    };
    home.write(
        &format!(".openclaw/agents/main/sessions/{VICTIM}.jsonl"),
        "{\"role\":\"user\",\"content\":\"zanzibarcanary\",\"timestamp\":1770193116233}\n",
    );
    home.write(
        ".openclaw/cron/runs/j.jsonl",
        [
            run(&format!("agent:main:cron:j:run:{VICTIM}"), CANARY),
            run("agent:main:cron:j", "any of them"),
        ]
        .concat(),
    );
    home.sync();
    assert_eq!(home.forget(VICTIM).shared_lines, 1);
    check(&home);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM cron_runs"), 1);
    home.sync();
    check(&home);
}
