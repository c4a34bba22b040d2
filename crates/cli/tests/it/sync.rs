//! `quipu sync`.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use crate::home::{Home, snapshot};

const TRANSCRIPT: &str =
    ".claude/projects/-home-alice-shop/00000001-0000-4000-8000-000000000001.jsonl";

#[test]
fn a_sync_with_nothing_to_collect_prints_the_overview() {
    let overview = Home::empty().run("");
    assert_eq!(Home::empty().run("sync").to_string(), overview.to_string());
}

#[test]
fn the_second_sync_finds_nothing_new() {
    let home = Home::small();
    snapshot!(home.run("sync"), @"
    exit 0
    --- stdout
    collected  55 records (57.8 kB) from 10 files, all new
    problems   3 problems in source files; nothing was lost; see `quipu problems`
    ");
    snapshot!(home.run("sync"), @"
    exit 0
    --- stdout
    collected  nothing new in 10 files on disk
    ");
}

#[test]
fn one_new_line_is_one_record() {
    let home = Home::small();
    home.run("sync");
    let mut file = OpenOptions::new().append(true).open(home.path(TRANSCRIPT)).unwrap();
    file.write_all(b"{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"more\"}}\n")
        .unwrap();
    snapshot!(home.run("sync"), @"
    exit 0
    --- stdout
    collected  1 record (59 B) from 1 of 10 files on disk
    ");
}

#[test]
fn a_deleted_file_is_counted_and_kept() {
    let home = Home::small();
    home.run("sync");
    std::fs::remove_file(home.path(TRANSCRIPT)).unwrap();
    snapshot!(home.run("sync"), @"
    exit 0
    --- stdout
    collected  nothing new in 9 files on disk
    files      1 gone; their old contents are kept
    ");
}

#[test]
fn json_reports_the_sync() {
    let home = Home::small();
    let report = home.run("sync --json").json();
    for key in ["sources", "sources_changed", "records_added", "bytes_read"] {
        assert!(report[key].as_u64().unwrap() > 0, "{key}: {report}");
    }
    assert!(report["problems"].is_u64());
    let report = home.run("sync --json").json();
    for key in ["sources_changed", "records_added", "bytes_read", "lines_parsed"] {
        assert_eq!(report[key], 0, "{key}: {report}");
    }
}

#[test]
fn quiet_prints_nothing() {
    let run = Home::small().run("sync -q");
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, "", ""));
}

#[test]
fn roots_come_from_the_environment() {
    let home = Home::empty();
    home.fixture("claude-code/history.jsonl", "one/history.jsonl");
    home.fixture("claude-code/history.jsonl", ".claude/history.jsonl");
    home.fixture("openclaw/agents/main", "two/agents/main");
    let variables = [("CLAUDE_CONFIG_DIR", "one, nowhere"), ("OPENCLAW_STATE_DIR", "~/two")];
    assert_eq!(home.run_with("sync --json", &variables).json()["sources"], 4);
}

#[test]
fn only_the_owner_can_read_the_ledger() {
    let home = Home::small();
    home.run("sync");
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(home.ledger()), 0o600);
    assert_eq!(mode(home.path(".local/share/quipu")), 0o700);
}

#[test]
fn a_folder_that_cannot_be_read_is_reported() {
    let home = Home::small();
    let shut = home.path(".openclaw/agents/shut/sessions");
    std::fs::create_dir_all(&shut).unwrap();
    std::fs::set_permissions(&shut, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    // Root can read everything.
    let is_shut = std::fs::read_dir(&shut).is_err();
    let run = home.run("sync");
    std::fs::set_permissions(&shut, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    assert_eq!(
        run.stdout.contains("OpenClaw's agents/shut/sessions/: Permission denied"),
        is_shut,
        "{}",
        run.stdout
    );
}

/// A projects folder on another disk: the output names it, and how to collect it.
#[test]
fn a_link_out_of_its_root_is_reported() {
    let home = Home::empty();
    home.fixture("claude-code/projects", "disk/all");
    std::fs::create_dir_all(home.path(".claude")).unwrap();
    std::os::unix::fs::symlink(home.path("disk/all"), home.path(".claude/projects")).unwrap();
    snapshot!(home.run("sync"), @r#"
    exit 0
    --- stdout
    Nothing to collect yet. quipu looked for Claude Code and OpenClaw files in:

      Claude Code  ~/.claude  nothing to collect
                   ~/.config/claude  does not exist
      OpenClaw     ~/.openclaw  does not exist
                   ~/.clawdbot  does not exist
                   ~/.moltbot  does not exist
                   ~/.moldbot  does not exist

    ~/.claude/projects is a link out of ~/.claude to ~/disk/all, and is not followed.
    To collect it, list both folders in ~/.config/quipu/config.toml:

      [roots]
      claude-code = ["~/.claude", "~/disk/all"]
    "#);
    assert_eq!(home.run("").stdout, home.run("sync").stdout);
    home.write(
        ".config/quipu/config.toml",
        "[roots]\nclaude-code = [\"~/.claude\", \"~/disk/all\"]\n",
    );
    snapshot!(home.run("sync"), @"
    exit 0
    --- stdout
    collected  90 records (38.5 kB) from 13 files, all new
    problems   8 problems in source files; nothing was lost; see `quipu problems`
    ");
    let doctor = home.run("doctor").stdout;
    assert!(!doctor.contains("symbolic link"), "{doctor}");
    // A link inside the collected folder.
    std::fs::create_dir_all(home.path("far")).unwrap();
    std::os::unix::fs::symlink(home.path("far"), home.path("disk/all/-far")).unwrap();
    snapshot!(home.run("sync"), @"
    exit 0
    --- stdout
    collected  nothing new in 13 files on disk
    not read   Claude Code's -far: a link out of its root, not followed; see `quipu doctor`
    ");
}

/// A file that is not a transcript is reported each time, and never counted as one.
#[test]
fn a_file_that_is_no_transcript_is_reported_each_time() {
    let home = Home::small();
    let notes = ".claude/projects/-home-alice-shop/notes.jsonl";
    home.write(notes, "not json at all\n");
    let [first, second] = [(); 2].map(|()| home.run("sync --json").json());
    assert_eq!(first["sources_added"], first["sources"]);
    assert_eq!(first["sources"], second["sources"]);
    assert_eq!(first["skipped"], second["skipped"]);
    assert!(first["skipped"].to_string().contains("notes.jsonl"), "{first}");
    let status = home.run("status --json").json();
    assert_eq!(first["skipped"][0], status["formats"][0]["skipped"][0]);
    home.write(notes, "{\"type\":\"summary\",\"summary\":\"x\",\"leafUuid\":\"y\"}\n");
    let third = home.run("sync --json").json();
    assert_eq!(third["sources_added"], 1);
    assert_eq!(third["sources"].as_u64(), first["sources"].as_u64().map(|sources| sources + 1));
    assert!(!third["skipped"].to_string().contains("notes.jsonl"), "{third}");
}

/// A named pipe under a name that is collected is not opened, and it is reported.
#[test]
fn a_pipe_in_the_place_of_an_index_is_not_opened() {
    let home = Home::small();
    let names = ["sessions/sessions.json", "agent/openclaw-agent.sqlite"];
    for name in names {
        let path = home.path(".openclaw/agents/main").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = std::fs::remove_file(&path);
        let mode = rustix::fs::Mode::RUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
    }
    let run = home.run("sync");
    assert_eq!(run.code, 0, "{run}");
    assert!(run.stdout.contains(" and 1 more: not a regular file"), "{run}");
    let skipped = home.run("sync --json").json()["skipped"].to_string();
    assert!(names.iter().all(|name| skipped.contains(name)), "{skipped}");
}
