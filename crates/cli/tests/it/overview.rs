//! `quipu` without a command.

use crate::home::{Home, snapshot};

#[test]
fn an_empty_home_lists_the_folders_that_were_searched() {
    let home = Home::empty();
    snapshot!(home.run(""), @r#"
    exit 0
    --- stdout
    Nothing to collect yet. quipu looked for Claude Code and OpenClaw files in:

      Claude Code  ~/.claude  does not exist
                   ~/.config/claude  does not exist
      OpenClaw     ~/.openclaw  does not exist
                   ~/.clawdbot  does not exist
                   ~/.moltbot  does not exist
                   ~/.moldbot  does not exist

    If they are elsewhere, set CLAUDE_CONFIG_DIR or OPENCLAW_STATE_DIR, or list their folders in ~/.config/quipu/config.toml:

      [roots]
      claude-code = ["/path/to/folder"]

    To try quipu on invented sessions first, run `quipu demo`.
    "#);
}

/// What is to be copied is not broken.
#[test]
fn an_empty_home_fits_a_narrow_terminal() {
    let home = Home::empty();
    let run = home.run_with("", &[("COLUMNS", "30")]);
    assert!(run.stdout.contains("\n  claude-code = [\"/path/to/folder\"]\n"), "{run}");
    let path = home.run_with("config path", &[("COLUMNS", "20")]);
    assert_eq!(path.stdout, "[HOME]/.config/quipu/config.toml\n");
    for command in ["show", "search herring", "resume", "export last"] {
        let run = home.run(command);
        assert!(run.code == 1 && run.stderr.contains("`quipu demo`"), "{command}: {run}");
    }
}

#[test]
fn the_first_run_collects_and_prints_an_overview() {
    let home = Home::small();
    snapshot!(home.run(""), @"
    exit 0
    --- stdout
    5 sessions, 2 sub-agents in 10 files, every byte stored

                   sessions  sub-agents  records     size
      Claude Code         2           2       33  14.0 kB
      OpenClaw            3           0       22  43.9 kB

      ledger     ~/.local/share/quipu/ledger.db
                 [SIZE]
      collected  55 records (57.8 kB) from 10 files, all new
      oldest     last changed 10 days ago ([DAY]), 20 days left, assuming Claude Code's default of 30 days
      problems   3 problems in source files; nothing was lost; see `quipu problems`

      quipu search    search all text, tool results included
      quipu sessions  list sessions, the newest first
      quipu usage     tokens and cost, by day
      quipu status    files that are left out and why, and problems
      quipu --help    all commands
    ");
}

#[test]
fn the_second_run_finds_nothing_new() {
    let home = Home::small();
    home.run("");
    snapshot!(home.run("--quiet"), @"
    exit 0
    --- stdout
    5 sessions, 2 sub-agents in 10 files, every byte stored

                   sessions  sub-agents  records     size
      Claude Code         2           2       33  14.0 kB
      OpenClaw            3           0       22  43.9 kB

      ledger     ~/.local/share/quipu/ledger.db
                 [SIZE]
      collected  nothing new in 10 files on disk
      oldest     last changed 10 days ago ([DAY]), 20 days left, assuming Claude Code's default of 30 days
      problems   3 problems in source files; nothing was lost; see `quipu problems`
    ");
}

#[test]
fn the_overview_fits_a_narrow_terminal() {
    let home = Home::small();
    let run = home.run_with("", &[("COLUMNS", "40")]);
    for line in run.stdout.lines() {
        assert!(line.chars().count() <= 40, "{line}");
    }
    snapshot!(run, @"
    exit 0
    --- stdout
    5 sessions, 2 sub-agents in 10 files,
    every byte stored

      Claude Code
        sessions    2
        sub-agents  2
        records     33
        size        14.0 kB
      OpenClaw
        sessions    3
        sub-agents  0
        records     22
        size        43.9 kB

      ledger     ~/.local/share/quipu/
                 ledger.db
                 [SIZE]
      collected  55 records (57.8 kB) from
                 10 files, all new
      oldest     last changed 10 days ago
                 ([DAY]), 20 days left,
                 assuming Claude Code's
                 default of 30 days
      problems   3 problems in source files;
                 nothing was lost; see
                 `quipu problems`

      quipu search
        search all text, tool results
        included
      quipu sessions
        list sessions, the newest first
      quipu usage
        tokens and cost, by day
      quipu status
        files that are left out and why, and
        problems
      quipu --help
        all commands
    ");
}

#[test]
fn sessions_that_are_gone_from_disk_are_kept() {
    let home = Home::small();
    home.run("");
    std::fs::remove_dir_all(home.path(".openclaw")).unwrap();
    snapshot!(home.run(""), @"
    exit 0
    --- stdout
    5 sessions, 2 sub-agents in 10 files, every byte stored

                   sessions  sub-agents  records     size
      Claude Code         2           2       33  14.0 kB
      OpenClaw            3           0       22  43.9 kB

      ledger     ~/.local/share/quipu/ledger.db
                 [SIZE]
      collected  nothing new in 6 files on disk
      files      4 gone; their old contents are kept
      gone       3 sessions no longer on disk; kept in the ledger
      oldest     last changed 10 days ago ([DAY]), 20 days left, assuming Claude Code's default of 30 days
      problems   3 problems in source files; nothing was lost; see `quipu problems`

      quipu search    search all text, tool results included
      quipu sessions  list sessions, the newest first
      quipu usage     tokens and cost, by day
      quipu status    files that are left out and why, and problems
      quipu --help    all commands
    ");
}

#[test]
fn json_has_the_sync_and_the_status() {
    let home = Home::small();
    let overview = home.run("--json").json();
    assert_eq!(overview["sync"]["sources"], overview["sync"]["sources_added"]);
    assert_eq!(overview["status"]["formats"][0]["format"], "claude-code");
    let overview = home.run("--json").json();
    assert_eq!(overview["sync"]["bytes_read"], 0);
}

#[test]
fn json_is_printed_even_with_nothing_to_collect() {
    let overview = Home::empty().run("--json").json();
    assert_eq!(overview["sync"]["sources"], 0);
    assert_eq!(overview["status"]["formats"][0]["sessions"], 0);
}
