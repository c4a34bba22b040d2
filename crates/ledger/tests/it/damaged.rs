//! Compressed files that cannot be decompressed to their end: readable lines are collected, and the
//! file is kept as it is, byte for byte, for a later repair.

use std::fs::{self, File};
use std::time::SystemTime;

use quipu_ledger::restore::{Generations, RestoreScope};
use quipu_torture::Prng;
use rusqlite::params;

use crate::home::*;
use crate::rows::{DATABASE, change, event, header, real, settle, sync, writer};

const ID: &str = "13f7ee8b-4916-4c0c-a7c3-6a9d44685f32";

fn path() -> String {
    format!(".openclaw/agents/main/sessions/{ID}.jsonl.deleted.2026-02-04T10-30-00.000Z.zst")
}

/// Returns the name under which a file is restored.
fn back(path: &str) -> String {
    path.replacen(".openclaw/", "openclaw/", 1)
}

fn transcript(messages: u32) -> String {
    let lines = (1..=messages).map(|number| event(number, &format!("word{number}")) + "\n");
    header(ID) + "\n" + &lines.collect::<String>()
}

fn zst(text: impl AsRef<[u8]>) -> Vec<u8> {
    zstd::encode_all(text.as_ref(), 3).unwrap()
}

/// Returns two frames, the second one damaged: the lines of the first can be read.
fn half() -> Vec<u8> {
    [zst(transcript(5)), zst(event(6, "lost") + "\n")[..20].to_vec()].concat()
}

/// A repaired file is another generation: both are kept.
#[test]
fn a_repaired_file_is_a_new_generation() {
    let home = Home::quick();
    home.write(&path(), half());
    let report = home.sync_and_check();
    assert_eq!((report.records_added, report.damaged().count()), (6, 1));
    home.assert_restores_all(&[&path()]);
    // Touched, and still the same.
    let file = File::options().write(true).open(home.path(&path())).unwrap();
    file.set_modified(SystemTime::now()).unwrap();
    let report = home.sync_and_check();
    assert_eq!((report.records_added, report.rewritten_sources, report.problems), (0, 0, 0));
    assert_eq!(home.problems()["damaged_archive"], 1);

    home.write(&path(), zst(transcript(9)));
    let report = home.sync_and_check();
    assert_eq!(
        (report.records_added, report.rewritten_sources, report.damaged().count()),
        (4, 1, 0)
    );
    let all = home.restored(Generations::All);
    let lines = back(path().strip_suffix(".zst").unwrap());
    assert_eq!(all[&lines], transcript(9).into_bytes());
    assert_eq!(all[&format!("{lines}.generation-1")], transcript(5).into_bytes());
    assert_eq!(all[&format!("{}.generation-1", back(&path()))], half());
    assert_eq!(all.len(), 3);
    assert_eq!(home.sync().sources_changed, 0);
}

/// A complete file that is damaged later, and damaged differently after that.
#[test]
fn a_file_that_is_damaged_later_keeps_every_version() {
    let home = Home::quick();
    home.write(&path(), zst(transcript(5)));
    home.sync();
    home.write(&path(), half());
    home.sync_and_check();
    let other = [half(), b"more".to_vec()].concat().into_iter().rev().collect::<Vec<u8>>();
    home.write(&path(), &other);
    home.sync_and_check();
    home.assert_restores_all(&[&path()]);
    let all = home.restored(Generations::All);
    assert!(all.values().any(|bytes| *bytes == half()), "{:?}", all.keys());
    assert!(all.values().any(|bytes| *bytes == transcript(5).into_bytes()));
    assert_eq!(home.hits("word5"), 1);
}

/// Bytes in many pieces, and a sync that was killed between them.
#[test]
fn an_interrupted_sync_of_a_large_file_is_completed() {
    let home = Home::quick();
    let mut prng = Prng::new(7);
    let noise: Vec<u8> = (0..9 << 20).map(|_| prng.below(256) as u8).collect();
    let bytes = [half(), noise].concat();
    home.write(&path(), &bytes);
    home.sync_and_check();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM damaged_bytes"), 3);
    home.assert_restores_all(&[&path()]);
    home.sql()
        .execute_batch(
            "DELETE FROM damaged; DELETE FROM damaged_bytes WHERE start > 0;
             UPDATE generations SET size = 0 WHERE id > 1",
        )
        .unwrap();
    let report = home.sync_and_check();
    assert_eq!((report.records_added, report.rewritten_sources), (0, 0));
    home.assert_restores_all(&[&path()]);
    // Interrupted again, and complete by then: no pieces are left over.
    home.sql()
        .execute_batch("DELETE FROM damaged; UPDATE generations SET size = 0 WHERE id > 1")
        .unwrap();
    home.write(&path(), zst(transcript(7)));
    home.sync_and_check();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM damaged_bytes"), 0);
}

/// Damaged files that an older ledger knows are read once more.
#[test]
fn damaged_files_of_an_older_ledger_are_read_again() {
    let home = Home::quick();
    home.write(&path(), half());
    home.write(".openclaw/agents/main/sessions/whole.jsonl.zst", zst(transcript(3)));
    home.sync();
    home.sql()
        .execute_batch(
            "DROP TABLE damaged; DROP TABLE damaged_bytes; DROP TABLE unread;
             ALTER TABLE tails DROP COLUMN length;
             PRAGMA user_version = 3",
        )
        .unwrap();
    let report = home.sync_and_check();
    assert_eq!((report.records_added, report.rewritten_sources), (0, 0));
    home.assert_restores_all(&[&path()]);
    assert_eq!(home.sync().sources_changed, 0);
}

/// Forgetting a session removes its damaged archives.
#[test]
fn forgetting_removes_damaged_archives() {
    let canary = b"zanzibarcanary is no zstd";
    let home = Home::quick();
    home.write(&path(), [&zst(transcript(5))[..], canary].concat());
    home.write(&format!(".openclaw/agents/main/sessions/{ID}.jsonl"), transcript(6));
    home.write(".openclaw/agents/main/sessions/other.jsonl.zst", b"also no zstd");
    home.sync();
    let report = home.forget(ID);
    assert!(report.bytes > canary.len() as u64);
    for _ in 0..2 {
        for (name, bytes) in home.ledger_bytes() {
            let found = memchr::memmem::find(&bytes, b"zanzibarcanary");
            assert_eq!(found, None, "the canary is in {name}");
        }
        home.sync_and_check();
    }
    assert_eq!(home.one::<i64>("SELECT count(*) FROM damaged"), 1);
}

/// The doctor advises what helps, and finds changed bytes.
#[test]
fn the_doctor_gives_advice_and_finds_changed_bytes() {
    let home = Home::quick();
    home.write(&path(), half());
    home.write(".openclaw/agents/main/sessions/bomb.jsonl.zst", zst(vec![b'0'; 80 << 20]));
    home.sync();
    let doctor =
        || quipu_ledger::doctor::doctor(&home.ledger_path(), &home.roots(), true, &mut |_| {});
    let diagnosis = doctor();
    assert!(diagnosis.is_ok, "{:?}", diagnosis.findings);
    assert_eq!(diagnosis.findings.len(), 1, "{:?}", diagnosis.findings);
    assert_eq!(diagnosis.findings[0].count, Some(2));
    assert!(diagnosis.findings[0].hint.starts_with("nothing to do"));
    let sql = home.sql();
    for change in [
        "UPDATE damaged_bytes SET bytes = zeroblob(length(bytes))",
        "DELETE FROM damaged_bytes",
        "UPDATE damaged SET length = length + 1",
    ] {
        sql.execute_batch("BEGIN").unwrap();
        sql.execute_batch(change).unwrap();
        sql.execute_batch("COMMIT").unwrap();
        assert!(!doctor().is_ok, "{change}");
    }
}

/// An archive in the database is kept the same way, and read when it is repaired there.
#[test]
fn a_damaged_archive_in_a_database_is_kept() {
    let home = Home::new();
    real(&home, "imported", DATABASE);
    let text = format!("{}\n{}\n", header("old"), event(1, "archivedword"));
    let whole = zst(&text);
    let put = |blob: &[u8], name: &str| {
        let conn = writer(&home, DATABASE);
        conn.execute(
            "INSERT OR REPLACE INTO session_transcript_archives
                (session_id, generation, session_key, reason, encoding, archive_blob,
                 archive_sha256, archive_name, created_at)
             VALUES ('old', 'g', 'k', 'deleted', 'zstd', ?1, ?2, ?3, 1)",
            params![blob, "0".repeat(64), name],
        )
        .unwrap();
        conn.close().unwrap();
        settle(&home.path(DATABASE));
    };
    for cut in [12, whole.len() - 3] {
        put(&whole[..cut], "old.jsonl.deleted.x.zst");
        let report = sync(&home);
        assert_eq!((report.unreadable().count(), report.damaged().count()), (0, 1), "{report:?}");
        let name = "openclaw/agents/main/agent/openclaw-agent.sqlite/old.jsonl.deleted.x.zst";
        assert_eq!(home.restored(Generations::Newest)[name], &whole[..cut], "{cut}");
        assert_eq!(sync(&home).databases_opened, 0);
        // An unrelated change of the database changes nothing about it.
        change(&home, &format!("PRAGMA user_version = {}", 10 + cut % 10));
        let report = sync(&home);
        assert_eq!(
            (report.records_added, report.rewritten_sources, report.gone_sources),
            (0, 0, 0)
        );
        let status = quipu_ledger::status::status(&home.open(), &home.roots()).unwrap();
        let openclaw = status.formats.iter().find(|format| format.format == "openclaw").unwrap();
        assert_eq!((openclaw.databases, openclaw.damaged.len()), (1, 1));
        assert!(openclaw.skipped.iter().all(|skipped| !skipped.is_in_database));
    }
    put(&whole, "old.jsonl.deleted.x.zst");
    let report = sync(&home);
    assert_eq!((report.damaged().count(), home.hits("archivedword")), (0, 1));
    assert_eq!(crate::rows::restored(&home, "old.jsonl.deleted.x"), text);
    let all = home.restored(Generations::All);
    assert!(all.values().any(|bytes| *bytes == whole[..12]), "{:?}", all.keys());
    assert_eq!(sync(&home).records_added, 0);
}

/// A single file can be restored: by its name, the end of its path, or its whole path.
#[test]
fn one_file_is_restored_by_its_name() {
    let home = Home::quick();
    home.write(".openclaw/workspace/MEMORY.md", "remembered");
    home.write(".openclaw/workspace-work/MEMORY.md", "of another agent");
    home.write(".openclaw/workspace/SOUL.md", "soul");
    home.write(&path(), half());
    home.sync();
    let names = |name: &str| {
        let to = tempfile::tempdir_in(home.folder()).unwrap();
        let what = RestoreScope::Source(name.as_ref());
        let report =
            quipu_ledger::restore::restore(&home.open(), what, to.path(), Generations::Newest)?;
        assert_eq!(report.files as usize, files(to.path()).len());
        Ok::<_, quipu_ledger::Error>(files(to.path()).into_keys().collect::<Vec<_>>())
    };
    assert_eq!(
        names("MEMORY.md").unwrap(),
        ["openclaw/workspace-work/MEMORY.md", "openclaw/workspace/MEMORY.md"]
    );
    assert_eq!(names("workspace/SOUL.md").unwrap(), ["openclaw/workspace/SOUL.md"]);
    let whole = home.path(".openclaw/workspace/SOUL.md");
    let whole = fs::canonicalize(whole).unwrap();
    assert_eq!(names(whole.to_str().unwrap()).unwrap(), ["openclaw/workspace/SOUL.md"]);
    let name = path();
    assert_eq!(names(name.rsplit('/').next().unwrap()).unwrap().len(), 2);
    assert!(matches!(names("EMORY.md"), Err(quipu_ledger::Error::NoMatch { .. })));
}

/// Each kind of damage is described exactly.
#[test]
fn each_kind_of_damage_is_described() {
    let described = |bytes: Vec<u8>| {
        let home = Home::quick();
        home.write(".openclaw/agents/main/sessions/old.jsonl.zst", bytes);
        home.sync();
        home.one::<String>("SELECT why FROM damaged")
    };
    let text: String = (0..2000).map(|number| format!("{{\"n\":{}}}\n", number * 7919)).collect();
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
    encoder.include_checksum(true).unwrap();
    std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
    let sound = encoder.finish().unwrap();
    assert_eq!(described(sound[..sound.len() / 2].to_vec()), "it is truncated");
    assert_eq!(described(b"plain text, whatever its name says".to_vec()), "it is not zstd");
    let more = [sound.clone(), b"plain text behind it".to_vec()].concat();
    assert_eq!(described(more), "the data after its first frame is not zstd");
    let mut last = sound.clone();
    *last.last_mut().unwrap() ^= 1;
    assert_eq!(described(last), "its checksum does not match: some bytes were changed");
    for at in [10, sound.len() / 3, sound.len() / 2, sound.len() - 20] {
        let mut flipped = sound.clone();
        flipped[at] ^= 4;
        let described = described(flipped);
        assert!(
            described.contains("damaged") || described.contains("checksum"),
            "byte {at}: {described}"
        );
    }
}
