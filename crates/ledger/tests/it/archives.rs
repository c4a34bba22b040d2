//! Transcripts that OpenClaw archived: renamed, in another folder, compressed. All files of a
//! session are one session; each line is stored once; each entry lists its other sightings.

use quipu_ledger::restore::{Generations, RestoreScope};

use crate::home::*;

const SESSIONS: &str = ".openclaw/agents/main/sessions";
const ID: &str = "13f7ee8b-4916-4c0c-a7c3-6a9d44685f32";

fn live() -> String {
    format!("{SESSIONS}/{ID}.jsonl")
}

/// Returns a transcript with a header and these messages.
fn transcript(range: std::ops::Range<u32>) -> String {
    let mut text = format!(
        "{{\"type\":\"session\",\"version\":3,\"id\":\"{ID}\",\"timestamp\":\"2026-02-04T10:30:00.000Z\",\"cwd\":\"/p\"}}\n"
    );
    for number in range {
        text.push_str(&message(number, "word"));
    }
    text
}

fn message(number: u32, word: &str) -> String {
    let parent = match number {
        0 => "null".to_owned(),
        _ => format!("\"{:08x}\"", number - 1),
    };
    format!(
        "{{\"type\":\"message\",\"id\":\"{number:08x}\",\"parentId\":{parent},\"timestamp\":\"2026-02-04T10:31:00.000Z\",\
         \"message\":{{\"role\":\"assistant\",\"content\":\"{word}{number}\",\"model\":\"m\",\"usage\":{{\"input\":1,\"output\":1}}}}}}\n"
    )
}

fn zst(text: impl AsRef<[u8]>) -> Vec<u8> {
    zstd::encode_all(text.as_ref(), 3).unwrap()
}

/// Returns the number of stored bytes of records, without the journal.
fn stored(home: &Home) -> i64 {
    home.one(
        "SELECT (SELECT coalesce(sum(length(bytes)), 0) FROM pending)
              + (SELECT coalesce(sum(raw_length), 0) FROM chunks)
              - (SELECT coalesce(sum(length), 0) FROM records WHERE generation = 1)",
    )
}

/// Returns the number of records of sources, without the journal.
fn records(home: &Home) -> i64 {
    home.one("SELECT count(*) FROM records WHERE generation > 1")
}

#[track_caller]
fn restored(home: &Home, path: &str) -> String {
    let mut files = home.restored(Generations::Newest);
    let name = path.replacen(".openclaw/", "openclaw/", 1);
    let names: Vec<String> = files.keys().cloned().collect();
    let bytes = files.remove(&name).unwrap_or_else(|| panic!("no {name} in {names:?}"));
    String::from_utf8(bytes).unwrap()
}

#[track_caller]
fn reasons(home: &Home) -> Vec<String> {
    let status = quipu_ledger::status::status(&home.open(), &home.roots()).unwrap();
    let format = status.formats.into_iter().find(|format| format.format == "openclaw").unwrap();
    format.skipped.into_iter().map(|skipped| skipped.reason).collect()
}

#[track_caller]
fn damaged_reasons(home: &Home) -> Vec<String> {
    let status = quipu_ledger::status::status(&home.open(), &home.roots()).unwrap();
    let format = status.formats.into_iter().find(|format| format.format == "openclaw").unwrap();
    format.damaged.into_iter().map(|damaged| damaged.reason).collect()
}

/// Every kind of archive, plain and compressed, alone and then beside the live transcript.
#[test]
fn r4_every_archive_is_the_same_session() {
    let archives = [
        (format!("{SESSIONS}/{ID}.jsonl.reset.2026-02-04T10-30-00.000Z"), "archived"),
        (format!("{SESSIONS}/{ID}.jsonl.deleted.2026-02-04T10:30:00.000Z"), "deleted"),
        (format!("{SESSIONS}/{ID}.jsonl.bak-4711-1770193116233"), "archived"),
        (format!("{SESSIONS}/{ID}.jsonl.full.bak"), "archived"),
        (format!("{SESSIONS}/{ID}.jsonl.imported-1770193116233"), "archived"),
        (format!("{SESSIONS}/cold/9f86d081884c7d65.jsonl"), "archived"),
        (import("agents/main/sessions/"), "archived"),
        (import("agents/main/"), "archived"),
        (import(""), "archived"),
    ];
    for (path, state) in archives {
        for is_compressed in [false, true] {
            let home = Home::quick();
            let text = transcript(0..5);
            let on_disk = if is_compressed { format!("{path}.zst") } else { path.clone() };
            let bytes = if is_compressed { zst(&text) } else { text.clone().into_bytes() };
            home.write(&on_disk, &bytes);
            home.sync_and_check();
            let name = format!("'main'|'{ID}'|'{state}'|5");
            let sessions = "SELECT agent, session_id, state, messages FROM sessions";
            assert_eq!(home.all(sessions), [name], "{on_disk}");
            assert_eq!(home.hits("word3"), 1, "{on_disk}");
            assert_eq!(restored(&home, &path), text, "{on_disk}");
            assert!(home.problems().is_empty(), "{on_disk}: {:?}", home.problems());

            let before = stored(&home);
            home.write(&live(), transcript(0..7));
            home.sync_and_check();
            let name = format!("'main'|'{ID}'|'live'|7");
            assert_eq!(home.all(sessions), [name], "{on_disk}");
            // Five messages and the header are in both.
            assert_eq!(home.one::<i64>("SELECT count(*) FROM sightings"), 6, "{on_disk}");
            assert_eq!(home.one::<i64>("SELECT sum(output_tokens) FROM usage WHERE is_counted"), 7);
            let new = message(5, "word").len() + message(6, "word").len();
            assert_eq!(stored(&home) - before, new as i64, "{on_disk}");
            assert!(home.problems().is_empty(), "{on_disk}: {:?}", home.problems());
            let again = home.sync();
            assert_eq!((again.sources_changed, again.bytes_read), (0, 0), "{on_disk}");
        }
    }
}

fn import(folder: &str) -> String {
    format!(
        ".openclaw/{folder}session-sqlite-import-archive/agent_main_main.{ID}.jsonl.imported-1770193116233"
    )
}

/// A transcript that OpenClaw compresses under a new name is the same session; nothing is stored
/// again.
#[test]
fn a69_a_transcript_that_is_compressed_stays_one_session() {
    let home = Home::quick();
    home.write(&live(), transcript(0..50));
    home.sync();
    let before = stored(&home);
    home.remove(&live());
    let path = format!("{}.zst", live());
    home.write(&path, zst(transcript(0..50)));
    let report = home.sync_and_check();
    assert_eq!((report.gone_sources, report.sources_added), (1, 1));
    assert_eq!(stored(&home), before);
    assert_eq!(home.all("SELECT state, messages FROM sessions"), ["'archived'|50"]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sightings"), 51);
    assert_eq!(home.hits("word7"), 1);
    assert_eq!(home.sync().sources_changed, 0);
    // Both are restored, as two files.
    assert_eq!(restored(&home, &live()), transcript(0..50));
    assert_eq!(restored(&home, &format!("{}.decompressed", live())), transcript(0..50));
    let to = home.scratch("to");
    let report = quipu_ledger::restore::restore(
        &home.open(),
        RestoreScope::Session(ID),
        &to,
        Generations::Newest,
    )
    .unwrap();
    assert_eq!((report.files, report.decompressed_files), (2, 1));
    assert_eq!(report.written.iter().filter(|file| file.is_decompressed).count(), 1);
}

/// The same, archived and compressed in one step, as newer releases do.
#[test]
fn a69_a_transcript_that_is_deleted_and_compressed_stays_one_session() {
    let home = Home::quick();
    home.write(&live(), transcript(0..9));
    home.sync();
    home.remove(&live());
    let name = format!("{}.deleted.2026-02-04T10-30-00.000Z", live());
    home.write(&format!("{name}.zst"), zst(transcript(0..10)));
    home.sync_and_check();
    assert_eq!(home.all("SELECT state, messages FROM sessions"), ["'deleted'|10"]);
    assert_eq!(restored(&home, &name), transcript(0..10));
}

/// A renamed archive is recognized, compressed or not.
#[test]
fn a69_a_renamed_compressed_archive_is_recognized() {
    let home = Home::quick();
    let (from, to) = (format!("{}.zst", live()), format!("{}.bak-1-2.zst", live()));
    home.write(&from, zst(transcript(0..9)));
    home.sync();
    home.rename(&from, &to);
    let report = home.sync_and_check();
    assert_eq!((report.renamed_sources, report.gone_sources, report.bytes_read), (1, 0, 0));
    // The time of its last change differs, so it is compared once.
    assert_eq!(home.sync().records_added, 0);
    assert_eq!(home.sync().sources_changed, 0);
}

/// Cut at any point: complete lines are kept, the damage is counted once, and when the rest arrives
/// only the rest is added.
#[test]
fn a69_a_truncated_archive_keeps_its_complete_lines() {
    let text = transcript(0..3000);
    let bytes = zst(&text);
    let path = format!("{}.zst", live());
    for part in 0..8 {
        let home = Home::quick();
        home.write(&path, &bytes[..bytes.len() * part / 8]);
        let report = home.sync_and_check();
        assert_eq!(home.problems().get("damaged_archive"), Some(&1), "{part}");
        let kept = if report.records_added > 0 { restored(&home, &live()) } else { String::new() };
        assert!(text.starts_with(&kept) && (kept.is_empty() || kept.ends_with('\n')), "{part}");
        // The file itself is kept beside them.
        home.assert_restores_all(&[&path]);
        assert_eq!(report.records_added, kept.lines().count() as u64);
        assert_eq!(home.sync().sources_changed, 0, "{part}");

        home.write(&path, &bytes);
        let report = home.sync_and_check();
        assert_eq!(report.records_added, 3001 - kept.lines().count() as u64, "{part}");
        // The file begins with the earlier bytes, so it is not a new generation.
        assert_eq!(report.rewritten_sources, 0);
        assert_eq!(restored(&home, &live()), text);
        assert_eq!(home.restored(Generations::All).len(), 1);
        assert_eq!(home.sync().sources_changed, 0);
    }
}

/// An import that was killed continues at the cursor: nothing is lost or stored twice.
#[test]
fn a69_a_killed_import_of_an_archive_continues_at_its_cursor() {
    let text = transcript(0..3000);
    let bytes = zst(&text);
    let path = format!("{}.zst", live());
    let home = Home::quick();
    home.write(&path, &bytes[..bytes.len() / 2]);
    home.sync();
    let before = records(&home);
    assert!(before > 0 && before < 3000);
    home.write(&path, &bytes);
    // The state that the ledger stores before it has read to the end, with the file's own metadata.
    let meta = std::fs::metadata(home.path(&path)).unwrap();
    use std::os::unix::fs::MetadataExt;
    home.sql()
        .execute(
            "UPDATE generations SET size = 0, mtime_ns = ?1, ctime_ns = ?2 WHERE id > 1",
            (
                meta.mtime() * 1_000_000_000 + meta.mtime_nsec(),
                meta.ctime() * 1_000_000_000 + meta.ctime_nsec(),
            ),
        )
        .unwrap();
    home.sync_and_check();
    assert_eq!(records(&home), 3001);
    assert_eq!(home.one::<i64>("SELECT messages FROM sessions"), 3000);
    assert_eq!(restored(&home, &live()), text);
    assert_eq!(home.sync().sources_changed, 0);
}

#[test]
fn a69_a_file_that_is_not_valid_zstd_is_kept_and_reported() {
    let path = format!("{}.zst", live());
    let plain = transcript(0..3).into_bytes();
    let mut flipped = zst(transcript(0..3));
    flipped[9] ^= 0x55;
    for bytes in [plain, b"\0\0\0\0".to_vec(), flipped, Vec::new()] {
        let home = Home::quick();
        home.write(&path, &bytes);
        home.write(&format!("{SESSIONS}/other.jsonl"), transcript(0..2));
        home.sync_and_check();
        assert_eq!(home.problems().get("damaged_archive"), Some(&1));
        assert_eq!(home.sync().sources_changed, 0);
        home.assert_restores_all(&[&path]);
        // Another file in its place is read, and the earlier bytes stay.
        home.write(&path, zst(transcript(0..4)));
        home.sync_and_check();
        assert_eq!(restored(&home, &live()), transcript(0..4));
        let all = home.restored(Generations::All);
        let name = format!("{path}.generation-1").replacen(".openclaw/", "openclaw/", 1);
        // An empty file is the beginning of any file.
        assert_eq!(all.get(&name), Some(&bytes).filter(|bytes| !bytes.is_empty()));
    }
}

/// Several frames after each other are one file.
#[test]
fn a69_several_frames_are_one_file() {
    let home = Home::quick();
    let (first, second) = (transcript(0..3), message(3, "word") + &message(4, "word"));
    home.write(&format!("{}.zst", live()), [zst(&first), zst(&second)].concat());
    home.sync_and_check();
    assert_eq!(restored(&home, &live()), first + &second);
}

/// A decompression bomb is kept as it is, reported, and not tried again.
#[test]
fn a69_a_decompression_bomb_is_kept_and_reported() {
    let path = format!("{}.zst", live());
    let zeros = zst(vec![b'0'; 80 << 20]);
    let mut wide = zstd::Encoder::new(Vec::new(), 3).unwrap();
    wide.set_parameter(zstd::zstd_safe::CParameter::WindowLog(27)).unwrap();
    std::io::Write::write_all(&mut wide, transcript(0..3).as_bytes()).unwrap();
    let wide = wide.finish().unwrap();
    for (bytes, reason) in [
        (zeros, "decompresses to more than a thousand times its size"),
        (wide, "compressed with a window above 32 MiB"),
    ] {
        let home = Home::quick();
        home.write(&path, &bytes);
        home.write(&format!("{SESSIONS}/other.jsonl"), transcript(0..2));
        let report = home.sync_and_check();
        let damaged: Vec<&str> = report.damaged().map(|(_, why)| why).collect();
        assert!(damaged.len() == 1 && damaged[0].contains(reason), "{report:?}");
        assert!(damaged_reasons(&home)[0].contains(reason));
        assert_eq!(home.sync().sources_changed, 0);
        assert!(damaged_reasons(&home)[0].contains(reason));
        home.assert_restores_all(&[&path]);
        // A transcript in its place is collected.
        home.write(&path, zst(transcript(0..4)));
        home.sync_and_check();
        assert_eq!(restored(&home, &live()), transcript(0..4));
        assert!(damaged_reasons(&home).is_empty());
    }
}

/// Collected lines stay when a bomb replaces the archive.
#[test]
fn a69_collected_lines_stay_when_a_bomb_replaces_their_archive() {
    let home = Home::quick();
    let path = format!("{}.zst", live());
    home.write(&path, zst(transcript(0..4)));
    home.sync();
    home.write(&path, zst(vec![b'0'; 80 << 20]));
    home.sync_and_check();
    assert_eq!(home.sync().sources_changed, 0);
    let before = live().replacen(".openclaw/", "openclaw/", 1) + ".generation-1";
    assert_eq!(home.restored(Generations::All)[&before], transcript(0..4).into_bytes());
    assert_eq!(home.hits("word3"), 1);
    home.write(&path, zst(transcript(0..5)));
    home.sync_and_check();
    assert_eq!(restored(&home, &live()), transcript(0..5));
}

/// The name of a cold archive does not name its session: its header does, for all lines.
#[test]
fn r4_a_cold_archive_is_named_by_its_header() {
    let home = Home::quick();
    let cold = |name: &str| format!(".openclaw/agents/work/sessions/cold/{name}.jsonl.zst");
    let other = transcript(0..3).replace(ID, "other");
    home.write(&cold("aaaa"), zst(transcript(0..3)));
    home.write(&cold("bbbb"), zst(other));
    // Without a header the session of these lines is unknown; they are still found.
    home.write(&cold("cccc"), zst(message(90, "stray") + &message(91, "stray")));
    home.sync_and_check();
    assert_eq!(
        home.all("SELECT agent, session_id, state, messages FROM sessions"),
        [format!("'work'|'{ID}'|'archived'|3"), "'work'|'other'|'archived'|3".to_owned()]
    );
    assert_eq!(home.hits("stray90"), 1);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM entries WHERE session IS NULL"), 2);
    // A second header in the middle does not begin another session.
    let twice = transcript(0..2) + &transcript(0..1).replace(ID, "third") + &message(2, "word");
    home.write(&cold("dddd"), zst(twice));
    home.sync_and_check();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 2);
}

/// A backup with another beginning still shares its lines with every other file of the session, and
/// with their earlier generations.
#[test]
fn r4_lines_are_looked_up_in_every_file_of_the_session() {
    let home = Home::quick();
    let header = transcript(0..0);
    let filler = "x".repeat(2000);
    let line = |number: u32| message(number, &format!("{filler} word"));
    let lines = |range: std::ops::Range<u32>| range.map(line).collect::<String>();
    home.write(&live(), header.clone() + &lines(0..20));
    home.write(&format!("{}.reset.2026-02-04T10-30-00Z", live()), lines(30..40));
    home.sync();
    home.write(&live(), header.clone() + &lines(10..20));
    home.sync();
    let before = stored(&home);
    home.write(&format!("{}.bak-1-2", live()), lines(30..35) + &lines(0..20) + &line(50));
    home.sync_and_check();
    assert_eq!(stored(&home) - before, line(50).len() as i64);
    assert_eq!(home.all("SELECT messages FROM sessions"), ["31"]);
    assert_eq!(home.one::<i64>("SELECT sum(output_tokens) FROM usage WHERE is_counted"), 31);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sightings"), 25);
}

/// An older version of an entry in a backup does not replace the newer one.
#[test]
fn r4_an_older_version_in_a_backup_does_not_replace_the_newer_one() {
    let home = Home::quick();
    let old = transcript(0..2) + &message(2, "before");
    home.write(&live(), &old);
    home.sync();
    home.write(&live(), transcript(0..2) + &message(2, "after"));
    home.sync();
    home.write(&format!("{}.bak-1-2", live()), &old);
    home.sync_and_check();
    let text = "SELECT text FROM messages WHERE text LIKE '%2'";
    assert_eq!(home.all(text), ["'after2'"]);
}

/// A large backup costs its rows, not its bytes.
#[test]
fn r4_a_backup_of_a_large_transcript_costs_little() {
    let home = Home::quick();
    let text: String = transcript(0..0)
        + &(0..5000).map(|n| message(n, &"lorem ipsum ".repeat(60))).collect::<String>();
    home.write(&live(), &text);
    home.sync();
    let size = |home: &Home| {
        home.sql().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        home.one::<i64>("PRAGMA page_count") * home.one::<i64>("PRAGMA page_size")
    };
    let before = size(&home);
    home.write(&format!("{}.bak-1-2", live()), &text);
    let report = home.sync();
    assert_eq!((report.records_added, report.lines_parsed), (5001, 5001));
    let cost = size(&home) - before;
    assert!(cost * 20 < text.len() as i64, "{cost} bytes for a copy of {}", text.len());
    home.assert_restores();
    home.assert_rebuilds();
}

/// A line that is too long for memory is not stored again either.
#[test]
fn r4_a_very_long_line_of_a_backup_is_not_stored_again() {
    let home = Home::quick();
    let text = transcript(0..2) + &message(2, &"long ".repeat(7 << 20)) + &message(3, "word");
    home.write(&live(), &text);
    home.sync();
    let before = stored(&home);
    home.write(&format!("{}.bak-1-2.zst", live()), zst(&text));
    home.sync_and_check();
    assert_eq!(stored(&home), before);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sightings"), 5);
}

/// Trajectories and checkpoints repeat transcripts in every folder, compressed or not.
#[test]
fn a69_trajectories_and_checkpoints_are_left_out() {
    let home = Home::quick();
    home.write(&live(), transcript(0..2));
    home.sync();
    let before = records(&home);
    for folder in [
        SESSIONS.to_owned(),
        format!("{SESSIONS}/cold"),
        format!("{SESSIONS}/session-sqlite-import-archive"),
    ] {
        for name in [
            format!("{ID}.trajectory.jsonl"),
            format!("{ID}.trajectory.jsonl.zst"),
            format!("{ID}.trajectory.jsonl.deleted.2026-02-04T10-30-00.000Z.zst"),
            format!("{ID}.checkpoint.{ID}.jsonl"),
            format!("{ID}.checkpoint.{ID}.jsonl.zst"),
            format!("{ID}.jsonl.gz"),
        ] {
            home.write(&format!("{folder}/{name}"), zst(transcript(0..2)));
        }
    }
    for name in [format!("{ID}.jsonl.lock"), format!("{ID}.jsonl.7.tmp")] {
        home.write(&format!("{SESSIONS}/{name}"), "x");
    }
    home.sync_and_check();
    assert_eq!(records(&home), before);
    assert_eq!(
        reasons(&home),
        [
            "checkpoint of a compaction: repeats the transcript",
            "compressed by a program other than OpenClaw",
            "lock file",
            "trajectory of a run: repeats the transcript",
        ]
    );
}

/// All files of a session may exist at once, on the very first sync.
#[test]
fn a69_all_files_of_a_session_at_once_are_one_session() {
    let home = Home::quick();
    home.write(&live(), transcript(0..10));
    home.write(&format!("{}.bak-1-2", live()), transcript(0..8));
    home.write(&format!("{}.reset.2026-02-04T10-30-00Z.zst", live()), zst(transcript(0..6)));
    home.write(&format!("{SESSIONS}/cold/aa.jsonl.zst"), zst(transcript(0..4)));
    home.write(&import(""), transcript(0..2));
    let report = home.sync_and_check();
    assert_eq!(report.sources_added, 5);
    assert_eq!(home.all("SELECT state, messages FROM sessions"), ["'live'|10"]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sightings"), 9 + 7 + 5 + 3);
    assert_eq!(stored(&home), transcript(0..10).len() as i64);
    assert_eq!(home.sync().sources_changed, 0);
}
