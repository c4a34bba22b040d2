//! Tests the commands on compressed files that cannot be decompressed completely, and on files that
//! change without a new record.

use crate::home::{Home, snapshot};

const SESSIONS: &str = ".openclaw/agents/main/sessions";

const TEXT: &str = "{\"type\":\"session\",\"version\":3,\"id\":\"old\",\"timestamp\":\"2026-02-04T10:30:00.000Z\"}\n\
    {\"role\":\"user\",\"content\":\"one\",\"timestamp\":1770193116233}\n";

/// Creates a home with an archive whose end is not zstd, and a small archive that decompresses to
/// 80 MiB.
fn home_with_damaged_archives() -> Home {
    let home = Home::empty();
    let frame_with_garbage =
        [zstd::encode_all(TEXT.as_bytes(), 3).unwrap(), b"no zstd".to_vec()].concat();
    home.write(
        format!("{SESSIONS}/old.jsonl.deleted.2026-02-04T10-30-00.000Z.zst"),
        frame_with_garbage,
    );
    let bomb = zstd::encode_all(&*vec![b'0'; 80 << 20], 3).unwrap();
    home.write(format!("{SESSIONS}/bomb.jsonl.zst"), bomb);
    home
}

#[test]
fn every_command_reports_damaged_archives() {
    let home = home_with_damaged_archives();
    snapshot!(home.run("sync"), @"
    exit 0
    --- stdout
    collected  2 records (139 B) from 2 files, all new
    damaged    OpenClaw's agents/main/sessions/bomb.jsonl.zst: decompresses to more than a thousand times its size; stored unchanged, and its readable lines are collected
    damaged    OpenClaw's agents/main/sessions/old.jsonl.deleted.2026-02-04T10-30-00.000Z.zst: the data after its first frame is not zstd; stored unchanged, and its readable lines are collected
    problems   2 problems in source files; see `quipu problems`
    ");
    snapshot!(home.run("sync"), @"
    exit 0
    --- stdout
    collected  nothing new in 2 files on disk
    ");
    snapshot!(home.run("status"), @"
    exit 0
    --- stdout
    Ledger
      path     ~/.local/share/quipu/ledger.db
      size     [SIZE]
      records  2

    Claude Code
      roots  ~/.claude  does not exist
             ~/.config/claude  does not exist

    OpenClaw
      roots     ~/.openclaw
                ~/.clawdbot  does not exist
                ~/.moltbot  does not exist
                ~/.moldbot  does not exist
      sessions  1 session
      records   2 records, 2.84 kB in 2 files
      of these  P0 transcripts: 2 records, 2.84 kB in 2 files
      states    1 deleted  deleted by the agent, which kept the file under another name
      oldest    ~/.openclaw/agents/main/sessions/bomb.jsonl.zst
                last changed 10 days ago ([DAY])
      damaged   1 file: decompresses to more than a thousand times its size; stored unchanged, and its readable lines are collected
                  agents/main/sessions/bomb.jsonl.zst
                1 file: the data after its first frame is not zstd; stored unchanged, and its readable lines are collected
                  agents/main/sessions/old.jsonl.deleted.2026-02-04T10-30-00.000Z.zst

    Problems  in source files; nothing was lost
      kind             times  meaning
      damaged_archive      2  A compressed file that cannot be decompressed to its end. Its readable lines are collected; up to 256 MiB it is stored unchanged.
    ");
    snapshot!(home.run("doctor"), @"
    exit 0
    --- stdout
    No problems found  ~/.local/share/quipu/ledger.db

      file        ✓ opens, and its pages are consistent
      truth       ✓ all collected bytes are stored
      cursors     ✓ no file changed since it was read
      projection  ✓ the readable tables match the stored raw data
      sources     ✓ 1 note
      indexes     ✓ every transcript listed in an index is stored
      risk        ✓ nothing is about to be lost

    note  compressed files that cannot be decompressed completely: 2
          agents/main/sessions/bomb.jsonl.zst: decompresses to more than a thousand times its size
          agents/main/sessions/old.jsonl.deleted.2026-02-04T10-30-00.000Z.zst: the data after its first frame is not zstd
    do    nothing to do: the files are stored unchanged, and the lines before the damage are collected. If you have an intact copy, put it in the place of the file and run `quipu sync`; `quipu restore` restores the damaged file
    ");
    snapshot!(home.run("restore --all --to all"), @"
    exit 0
    --- stdout
    3 files (2.84 kB) restored to ~/all
    1 file was compressed: restored without `.zst`
    2 files cannot be decompressed completely: restored as found, with `.zst`
    ");
    snapshot!(home.run("restore --source bomb.jsonl.zst --to one"), @"
    exit 0
    --- stdout
    1 file (2.58 kB) restored to ~/one
    1 file cannot be decompressed completely: restored as found, with `.zst`
         size  file
      2.58 kB  openclaw/agents/main/sessions/bomb.jsonl.zst
    ");
    let name = "openclaw/agents/main/sessions/bomb.jsonl.zst";
    let on_disk = std::fs::read(home.path(format!("{SESSIONS}/bomb.jsonl.zst"))).unwrap();
    assert!(std::fs::read(home.path(format!("one/{name}"))).unwrap() == on_disk);
    snapshot!(home.run("restore --source nothing.md --to two"), @"
    exit 1
    --- stderr
    error: no file matches `nothing.md`
    hint: use a file's name or the end of its path; `quipu cursors` lists every collected file
    ");
    assert!(home.run("").stdout.contains("every byte stored"));
}

/// An index has no records, so its changes are reported in bytes.
#[test]
fn a_changed_index_is_reported_in_bytes() {
    let home = Home::empty();
    let index = |updated: u32| {
        format!("{{\"agent:main:main\":{{\"sessionId\":\"old\",\"updatedAt\":{updated}}}}}")
    };
    home.write(format!("{SESSIONS}/old.jsonl"), TEXT);
    home.write(format!("{SESSIONS}/sessions.json"), index(1));
    home.run("sync");
    home.write(format!("{SESSIONS}/sessions.json"), index(22));
    snapshot!(home.run("sync"), @"
    exit 0
    --- stdout
    collected  no new records; 54 B changed in 1 of 2 files on disk
    ");
}
