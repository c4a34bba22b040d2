//! `quipu status`.

use crate::home::{Home, snapshot};

#[test]
fn status_creates_no_ledger() {
    let home = Home::small();
    snapshot!(home.run("status"), @"
    exit 0
    --- stdout
    There is no ledger yet at ~/.local/share/quipu/ledger.db.
    Run `quipu sync` to create one and collect the files below.

    Claude Code
      roots     ~/.claude  exists
                ~/.config/claude  does not exist
      oldest    ~/.claude/projects/-home-alice-shop/00000001-0000-4000-8000-000000000001.jsonl
                last changed 10 days ago ([DAY]), 20 days left, assuming Claude Code's default of 30 days
      left out  1 file: workflow journal, not a transcript
                  projects/-home-alice-shop/00000004-0000-4000-8000-000000000004/subagents/workflows/run-1/journal.jsonl

    OpenClaw
      roots   ~/.openclaw  exists
              ~/.clawdbot  does not exist
              ~/.moltbot  does not exist
              ~/.moldbot  does not exist
      oldest  ~/.openclaw/agents/main/sessions/13f7ee8b-4916-4c0c-a7c3-6a9d44685f32.jsonl
              last changed 10 days ago ([DAY])
    ");
    assert!(!home.path(".local").exists());
}

#[test]
fn json_is_printed_without_a_ledger() {
    let home = Home::small();
    let status = home.run("status --json").json();
    assert_eq!(status["ledger"]["has_file"], false);
    for format in status["formats"].as_array().unwrap() {
        assert_eq!(format["sessions"], 0);
        assert_eq!(format["roots"][0]["state"], "collected");
    }
    assert!(!home.path(".local").exists());
}

#[test]
fn status_lists_what_is_stored_and_left_out() {
    let home = Home::small();
    home.run("sync");
    snapshot!(home.run("status"), @"
    exit 0
    --- stdout
    Ledger
      path     ~/.local/share/quipu/ledger.db
      size     [SIZE]
      records  55

    Claude Code
      roots     ~/.claude
                ~/.config/claude  does not exist
      sessions  2 sessions, 2 sub-agents
      records   33 records, 14.0 kB in 6 files
      of these  P0 transcripts: 33 records, 14.0 kB in 6 files
      oldest    ~/.claude/projects/-home-alice-shop/00000001-0000-4000-8000-000000000001.jsonl
                last changed 10 days ago ([DAY]), 20 days left, assuming Claude Code's default of 30 days
      left out  1 file: workflow journal, not a transcript
                  projects/-home-alice-shop/00000004-0000-4000-8000-000000000004/subagents/workflows/run-1/journal.jsonl

    OpenClaw
      roots     ~/.openclaw
                ~/.clawdbot  does not exist
                ~/.moltbot  does not exist
                ~/.moldbot  does not exist
      sessions  3 sessions
      records   22 records, 43.9 kB in 4 files
      of these  P0 transcripts: 22 records, 43.9 kB in 4 files
      oldest    ~/.openclaw/agents/main/sessions/13f7ee8b-4916-4c0c-a7c3-6a9d44685f32.jsonl
                last changed 10 days ago ([DAY])
      unknown   hologram  1 record

    Problems  in source files; nothing was lost
      kind                times  meaning
      dangling_reference      1  A summary or label that points at an entry this session does not have.
      opaque                  1  Bytes that cannot be decoded; stored unchanged.
      welded                  1  Several complete records on one line.
    ");
}

#[test]
fn status_fits_a_narrow_terminal() {
    let home = Home::full();
    home.run("sync");
    let run = home.run_with("status", &[("COLUMNS", "40")]);
    assert_eq!(run.code, 0);
    for line in run.stdout.lines() {
        assert!(line.chars().count() <= 40, "{line}");
    }
}

#[test]
fn json_has_counts_and_problems() {
    let home = Home::full();
    home.run("sync");
    let status = home.run("status --json").json();
    assert_eq!(status["ledger"]["has_file"], true);
    let format = &status["formats"][0];
    for key in ["roots", "skipped"] {
        assert!(!format[key].as_array().unwrap().is_empty(), "{key}: {format}");
    }
    for key in ["sessions", "records", "bytes"] {
        assert!(format[key].as_u64().unwrap() > 0, "{key}: {format}");
    }
    assert!(format["gone_sources"].is_u64());
    assert_eq!(format["records_by_unknown_type"]["crystal-ball"], 1);
    assert!(status["problems_by_kind"]["bad_field"].as_u64().unwrap() > 0);
}

#[test]
fn status_collects_nothing() {
    let home = Home::small();
    home.run("sync");
    home.fixture("openclaw/agents/pi", ".openclaw/agents/pi");
    let before = home.run("status --json").json();
    let after = home.run("status --json").json();
    assert_eq!(before["ledger"]["records"], after["ledger"]["records"]);
    assert_eq!(home.run("sync --json").json()["sources_added"], 1);
}

#[test]
fn files_that_are_gone_are_counted() {
    let home = Home::small();
    home.run("sync");
    std::fs::remove_dir_all(home.path(".openclaw")).unwrap();
    home.run("sync");
    let status = home.run("status --json").json();
    assert_eq!(status["formats"][1]["gone_sources"], 4);
    assert_eq!(status["formats"][1]["roots"][0]["state"], "absent");
    assert!(home.run("status").stdout.contains("4 files gone from disk; kept in the ledger"));
}

/// Every broken link is listed, so that it can be repaired.
#[test]
fn every_link_that_is_not_followed_is_named() {
    let home = Home::small();
    let slug = ".claude/projects/-home-alice-shop";
    home.write("elsewhere/x.jsonl", "");
    for number in 10..40 {
        let link = home.path(format!("{slug}/000000{number}-0000-4000-8000-000000000000.jsonl"));
        std::os::unix::fs::symlink(home.path("elsewhere/x.jsonl"), link).unwrap();
    }
    std::os::unix::fs::symlink("gone", home.path(format!("{slug}/notes.jsonl"))).unwrap();
    std::os::unix::fs::symlink("loop.jsonl", home.path(format!("{slug}/loop.jsonl"))).unwrap();
    let skipped = home.run("status --json").json()["formats"][0]["skipped"].clone();
    let of = |reason: &str| {
        let groups = skipped.as_array().unwrap();
        groups.iter().find(|group| group["reason"].as_str().unwrap().contains(reason)).unwrap()
    };
    assert_eq!(of("out of its root")["files"], 30);
    assert_eq!(of("out of its root")["paths"].as_array().unwrap().len(), 30);
    assert_eq!(of("broken symbolic link")["paths"].as_array().unwrap().len(), 2);

    let short = home.run("status").stdout;
    for said in [
        "30 links: symbolic link out of its root; not followed\n",
        "and 27 more; -v lists them\n",
        "2 links: broken symbolic link\n",
    ] {
        assert!(short.contains(said), "{said}: {short}");
    }
    let long = home.run("status -v").stdout;
    assert!(long.contains("/00000039-0000") && !long.contains(" more"), "{long}");
}

/// Files in a folder that is left out are not counted, because it is never opened.
#[test]
fn folders_are_not_counted_as_files() {
    let home = Home::small();
    for number in 1..=7 {
        home.write(format!(".claude/projects/-home-alice-shop/memory/{number}.md"), "x");
    }
    let run = home.run("status");
    assert!(run.stdout.contains("1 folder: project memory, not a transcript\n"), "{run}");
    assert!(run.stdout.contains("projects/-home-alice-shop/memory/\n"), "{run}");
    let skipped = home.run("status --json").json()["formats"][0]["skipped"].clone();
    let memory = skipped.as_array().unwrap().iter().find(|group| group["folders"] == 1).unwrap();
    assert_eq!(memory["files"], 0);
    assert_eq!(memory["paths"][0], "projects/-home-alice-shop/memory/");
}
