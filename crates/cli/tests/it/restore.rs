//! `quipu restore`.

use crate::home::{Home, files, snapshot};

#[test]
fn every_file_is_restored_byte_for_byte() {
    let home = Home::full();
    home.run("sync");
    snapshot!(home.run("restore --all --to out"), @"
    exit 0
    --- stdout
    69 files (151 kB) restored to ~/out
    2 files were compressed: restored without `.zst`
    ");
    for (format, root) in [("claude-code", ".claude"), ("openclaw", ".openclaw")] {
        let mut sources = files(&home.path(root));
        // Compressed files are restored decompressed.
        for (path, bytes) in &mut sources {
            if path.extension().is_some_and(|extension| extension == "zst") {
                path.set_extension("");
                *bytes = zstd::decode_all(&bytes[..]).unwrap();
            }
        }
        let restored = files(&home.path("out").join(format));
        assert!(restored.len() > 10);
        for (path, bytes) in &restored {
            let source = sources.iter().find(|(source, _)| source == path);
            assert_eq!(source.map(|(_, bytes)| bytes), Some(bytes), "{}", path.display());
        }
        // A file that is not restored was never collected.
        for (path, _) in sources.iter().filter(|source| !restored.contains(source)) {
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_left_out = ["README.md", "MEMORY.md", "notes.jsonl", "journal.jsonl", "q1.md"]
                .contains(&name)
                || name.starts_with("sessions");
            assert!(is_left_out, "{}", path.display());
        }
    }
}

#[test]
fn a_session_is_restored_with_its_subagents() {
    let home = Home::full();
    home.run("sync");
    snapshot!(home.run("restore 00000004 --to out"), @"
    exit 0
    --- stdout
    5 files (7.17 kB) restored to ~/out
         size  file
      5.57 kB  claude-code/projects/-home-alice-shop/00000004-0000-4000-8000-000000000004.jsonl
      1.02 kB  claude-code/projects/-home-alice-shop/00000004-0000-4000-8000-000000000004/subagents/agent-a1b2c3d.jsonl
         94 B  claude-code/projects/-home-alice-shop/00000004-0000-4000-8000-000000000004/subagents/agent-a1b2c3d.meta.json
        438 B  claude-code/projects/-home-alice-shop/00000004-0000-4000-8000-000000000004/subagents/workflows/run-1/agent-w1.jsonl
         56 B  claude-code/projects/-home-alice-shop/00000004-0000-4000-8000-000000000004/subagents/workflows/run-1/agent-w1.meta.json
    ");
}

#[test]
fn json_reports_the_restored_files() {
    let home = Home::full();
    home.run("sync");
    let report = home.run("restore 00000002 --to out --json").json();
    assert_eq!(report["files"], 1);
    assert_eq!(report["bytes"], 4456);
    assert_eq!(report["written"][0]["generation"], 1);
}

#[test]
fn a_name_that_matches_nothing_is_an_error() {
    let home = Home::small();
    home.run("sync");
    snapshot!(home.run("restore zebra --to out"), @"
    exit 1
    --- stderr
    error: no session matches `zebra`
    hint: use an id or the beginning of one, a session key, or `last`; `quipu sessions --all` lists all sessions
    ");
    assert!(!home.path("out").exists());
}

#[test]
fn an_ambiguous_name_lists_its_matches() {
    let home = Home::small();
    home.run("sync");
    snapshot!(home.run("restore 0000 --to out"), @"
    exit 1
    --- stderr
    error: `0000` matches 2 sessions
    hint: give more of the id; these match:
          00000001-0000-4000-8000-000000000001
          00000004-0000-4000-8000-000000000004
    ");
}

/// The number of matches is printed, even if there are many.
#[test]
fn many_matches_are_counted() {
    let home = Home::empty();
    for number in 100..165 {
        let line = "{\"role\":\"user\",\"content\":\"hello\"}\n";
        home.write(format!(".openclaw/agents/main/sessions/many-{number}.jsonl"), line);
    }
    home.run("sync");
    snapshot!(home.run("restore many --to out"), @"
    exit 1
    --- stderr
    error: `many` matches 65 sessions
    hint: give more of the id; these match:
          many-100
          many-101
          many-102
          many-103
          many-104
          many-105
          many-106
          many-107
          and 57 more
    ");
    assert!(home.run("show many").stderr.contains("`many` matches 65 sessions"));
}

#[test]
fn nothing_is_overwritten() {
    let home = Home::small();
    home.run("sync");
    let target = "out/openclaw/agents/main/sessions/odd.jsonl";
    home.write(target, "mine");
    let run = home.run("restore odd --to out");
    assert_eq!(run.code, 2, "{run}");
    let named =
        "skipped  openclaw/agents/main/sessions/odd.jsonl: another file with that name exists";
    assert!(run.stdout.contains(named), "{run}");
    assert!(run.stderr.contains("1 file could not be written"), "{run}");
    assert_eq!(std::fs::read(home.path(target)).unwrap(), b"mine");
}

#[test]
fn generations_are_chosen_by_number() {
    let home = Home::empty();
    let source = ".openclaw/agents/main/sessions/a.jsonl";
    let line = |text: &str| format!("{{\"role\":\"user\",\"content\":\"{text}\"}}\n");
    home.write(source, line("first").repeat(3));
    home.run("sync");
    home.write(source, line("second"));
    home.run("sync");
    let restored = |to: &str| files(&home.path(to).join("openclaw/agents/main/sessions"));

    assert_eq!(home.run("restore a --to newest").code, 0);
    assert_eq!(restored("newest"), [("a.jsonl".into(), line("second").into_bytes())]);
    assert_eq!(home.run("restore a --to first --generation 1").code, 0);
    assert_eq!(restored("first"), [("a.jsonl".into(), line("first").repeat(3).into_bytes())]);
    assert_eq!(home.run("restore a --to all --generation all").code, 0);
    assert_eq!(restored("all").len(), 2);
    snapshot!(home.run("restore a --to none --generation 7"), @"
    exit 1
    --- stderr
    error: no generation matches `7`
    hint: `quipu cursors` shows how many generations each file has had
    ");
}

#[test]
fn restore_needs_exactly_one_selection() {
    let home = Home::empty();
    for arguments in [
        "restore --to out",
        "restore a --all --to out",
        "restore --all",
        "restore --all --to out --generation 0",
        "restore --all --to out --generation newest",
    ] {
        let run = home.run(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments}");
        assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
    }
}

/// Every file in a collected folder is collected, even a restored one.
#[test]
fn nothing_is_restored_into_a_collected_folder() {
    let home = Home::small();
    home.run("sync");
    std::os::unix::fs::symlink(home.path(".claude"), home.path("link")).unwrap();
    for to in [".claude", ".claude/new", "link/new", ".openclaw/agents/main/sessions"] {
        let run = home.run(&format!("restore --all --to {to}"));
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{to}: {run}");
        assert!(run.stderr.contains("would be collected again"), "{run}");
    }
    snapshot!(home.run("restore odd --to .openclaw"), @"
    exit 2
    --- stderr
    error: files restored to ~/.openclaw would be collected again: quipu collects from ~/.openclaw
    hint: name a folder elsewhere with --to
    ");
    // Below the format's own name.
    home.write("c.toml", "[roots]\nopenclaw = [\"~/out/openclaw\"]\n");
    assert_eq!(home.run("--config c.toml restore odd --to out").code, 2);
    assert!(!home.path("out").exists());
}

/// One bad name affects one file; the same command again restores what is missing.
#[test]
fn one_bad_name_does_not_stop_the_rest() {
    let home = Home::empty();
    let session = ".claude/projects/-a/00000001-0000-4000-8000-000000000001";
    let results = format!("{session}/tool-results");
    home.write(format!("{results}/a.txt"), "first");
    home.write(format!("{results}/a.txt.generation-1"), "another");
    home.run("sync");
    home.write(format!("{results}/a.txt"), "second");
    home.run("sync");
    let run = home.run("restore --all --to out --generation all");
    assert_eq!(run.code, 0, "{run}");
    assert!(run.stdout.contains("aside  claude-code.aside/"), "{run}");
    let mut lives: Vec<Vec<u8>> = files(&home.path("out")).into_iter().map(|file| file.1).collect();
    lives.sort();
    assert_eq!(lives, [&b"another"[..], b"first", b"second"]);
    let outside = home.path("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::create_dir_all(home.path("hostile/claude-code")).unwrap();
    let planted = home.path("hostile/claude-code/projects");
    std::os::unix::fs::symlink(&outside, &planted).unwrap();
    let report = home.run("restore --all --to hostile --json");
    assert_eq!(report.code, 2);
    let found: serde_json::Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(found["unwritten_files"].as_array().unwrap().len(), 2);
    assert!(files(&outside).is_empty());
    std::fs::remove_file(planted).unwrap();
    assert_eq!(home.run("restore --all --to hostile").code, 0);
    let again = home.run("restore --all --to hostile");
    assert!(again.code == 0 && again.stdout.contains("2 files already there"), "{again}");
}

/// A missing transcript is not restored through a link.
#[test]
fn resume_writes_through_no_link() {
    let home = Home::small();
    home.run("sync");
    let project = home.path(".claude/projects/-home-alice-shop");
    std::fs::remove_dir_all(&project).unwrap();
    std::fs::create_dir(home.path("outside")).unwrap();
    std::os::unix::fs::symlink(home.path("outside"), &project).unwrap();
    let run = home.run("resume 00000001");
    assert_eq!(run.code, 2, "{run}");
    assert!(run.stderr.contains("symbolic link"), "{run}");
    assert!(files(&home.path("outside")).is_empty());
}

#[test]
fn a_resumed_session_has_all_of_its_files() {
    let home = Home::empty();
    let id = "00000001-0000-4000-8000-000000000001";
    let folder = ".claude/projects/-w";
    let line = |uuid: &str, more: &str| {
        format!(
            "{{\"type\":\"user\",\"uuid\":\"{uuid}\",\"parentUuid\":null,\"sessionId\":\"{id}\",\"timestamp\":\"2026-01-05T10:00:00.000Z\",\"cwd\":\"/\"{more},\"message\":{{\"role\":\"user\",\"content\":\"hi\"}}}}\n"
        )
    };
    let agent = format!("{folder}/{id}/subagents/agent-a1.jsonl");
    let files = [
        (format!("{folder}/{id}.jsonl"), line("10000000-0000-4000-8000-000000000001", "")),
        (
            agent,
            line(
                "10000000-0000-4000-8000-000000000002",
                ",\"isSidechain\":true,\"agentId\":\"a1\"",
            ),
        ),
        (format!("{folder}/{id}/subagents/agent-a1.meta.json"), "{\"agentType\":\"x\"}".to_owned()),
        (format!("{folder}/{id}/tool-results/out.txt"), "a long output\n".to_owned()),
    ];
    for (path, text) in &files {
        home.write(path, text);
    }
    home.run("sync");
    std::fs::remove_dir_all(home.path(folder)).unwrap();
    std::fs::create_dir_all(home.path(folder)).unwrap();
    let resumed = home.run(&format!("resume {id} --json")).json();
    assert!(resumed["restored_path"].as_str().unwrap().ends_with(&format!("{id}.jsonl")));
    assert_eq!(resumed["other_restored_paths"].as_array().unwrap().len(), 3);
    for (path, text) in &files {
        assert_eq!(std::fs::read_to_string(home.path(path)).unwrap(), *text, "{path}");
    }
    // What is there is left alone; what is gone comes back.
    std::fs::remove_file(home.path(&files[3].0)).unwrap();
    home.write(&files[0].0, "changed\n");
    let resumed = home.run(&format!("resume {id} --json --no-sync")).json();
    assert_eq!(resumed["restored_path"], serde_json::Value::Null);
    assert_eq!(resumed["other_restored_paths"].as_array().unwrap().len(), 1);
    assert_eq!(std::fs::read_to_string(home.path(&files[0].0)).unwrap(), "changed\n");
    std::fs::remove_file(home.path(&files[3].0)).unwrap();
    let resumed = home.run(&format!("resume {id} --no-sync"));
    assert!(resumed.stderr.contains("restored 1 other file of the session"), "{}", resumed.stderr);
}
