//! `quipu forget`.

use crate::home::{Home, files, snapshot};

const ID: &str = "00000004-0000-4000-8000-000000000004";

fn home_with_history() -> Home {
    let home = Home::small();
    let prompt = |id: &str, text: &str| {
        format!("{{\"display\":\"{text}\",\"timestamp\":1770193116233,\"sessionId\":\"{id}\"}}\n")
    };
    home.write(
        ".claude/history.jsonl",
        prompt(ID, "a secret prompt") + &prompt("00000001-0000-4000-8000-000000000001", "kept"),
    );
    home.run("sync");
    home
}

#[test]
fn a_dry_run_lists_what_would_be_removed() {
    let home = home_with_history();
    let before = files(&home.path(".local"));
    snapshot!(home.run("forget 00000004 --dry-run"), @"
    exit 0
    --- stdout
    This would be forgotten:
      session  00000004-0000-4000-8000-000000000004  Claude Code
      title    Find every place that formats a price.
      project  shop
      removed  5 files with 17 records (7.17 kB), 2 sub-agents included
               1 line in files shared by all sessions
      kept     6 files on disk, which quipu does not delete
                 ~/.claude/projects/-home-alice-shop/00000004-0000-4000-8000-000000000004.jsonl
                 ~/.claude/projects/-home-alice-shop/00000004-0000-4000-8000-000000000004/subagents/agent-a1b2c3d.jsonl
                 ~/.claude/projects/-home-alice-shop/00000004-0000-4000-8000-000000000004/subagents/agent-a1b2c3d.meta.json
                 and 3 more
    ");
    assert_eq!(files(&home.path(".local")), before, "nothing was written");
}

#[test]
fn a_forgotten_session_is_removed_and_not_collected_again() {
    let home = home_with_history();
    snapshot!(home.run("forget 00000004 --yes"), @"
    exit 0
    --- stdout
    forgotten: 5 files with 17 records (7.17 kB), 2 sub-agents included, and 1 line in files shared by all sessions
      session  00000004-0000-4000-8000-000000000004  Claude Code
      title    Find every place that formats a price.
      project  shop
      kept     6 files on disk, which quipu does not delete
                 ~/.claude/projects/-home-alice-shop/00000004-0000-4000-8000-000000000004.jsonl
                 ~/.claude/projects/-home-alice-shop/00000004-0000-4000-8000-000000000004/subagents/agent-a1b2c3d.jsonl
                 ~/.claude/projects/-home-alice-shop/00000004-0000-4000-8000-000000000004/subagents/agent-a1b2c3d.meta.json
                 and 3 more
    ");
    snapshot!(home.run("forget 00000004 --yes"), @"
    exit 0
    --- stdout
    already forgotten; nothing of it is left
      session  00000004-0000-4000-8000-000000000004  Claude Code
      kept     5 files on disk, which quipu does not delete
                 ~/.claude/projects/-home-alice-shop/00000004-0000-4000-8000-000000000004.jsonl
                 ~/.claude/projects/-home-alice-shop/00000004-0000-4000-8000-000000000004/subagents/agent-a1b2c3d.jsonl
                 ~/.claude/projects/-home-alice-shop/00000004-0000-4000-8000-000000000004/subagents/agent-a1b2c3d.meta.json
                 and 2 more
    ");
    for (path, bytes) in files(&home.path(".local")) {
        let found = bytes.windows(13).any(|window| window == b"secret prompt");
        assert!(!found, "in {}", path.display());
    }
    assert_eq!(home.run("restore 00000004 --to out").code, 1);
    snapshot!(home.run("sync"), @"
    exit 0
    --- stdout
    collected  nothing new in 6 files on disk
    ");
    snapshot!(home.run("restore --all --to out"), @"
    exit 0
    --- stdout
    6 files (50.8 kB) restored to ~/out
    1 line of forgotten sessions restored as blanks
    ");
    let status = home.run("status").stdout;
    let lines: Vec<&str> =
        status.lines().filter(|line| line.contains("forgotten")).map(str::trim).collect();
    assert_eq!(
        lines,
        [
            "forgotten  3 sessions, will not be collected again",
            "5 files: forgotten; no longer opened"
        ]
    );
}

#[test]
fn json_reports_what_was_removed() {
    let home = home_with_history();
    let preview = home.run("forget 00000004 --dry-run --json").json();
    assert_eq!(preview["is_forgotten"], false);
    let report = home.run("forget 00000004 --yes --json").json();
    assert_eq!((&report["is_forgotten"], &report["is_cleaned"]), (&true.into(), &true.into()));
    assert_eq!(report["records"], preview["records"]);
    assert_eq!(report["affected_sessions"][0]["session_id"], ID);
    assert_eq!(home.run("forget 00000004 --yes --json").json()["was_forgotten"], true);
}

#[test]
fn forgetting_needs_a_confirmation() {
    let home = home_with_history();
    let before = files(&home.path(".local"));
    for arguments in ["forget 00000004", "forget 00000004 --json"] {
        let run = home.run(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments}");
    }
    snapshot!(home.run("forget 00000004"), @"
    exit 2
    --- stderr
    error: forgetting cannot be undone, and there is no terminal to ask on
    hint: use --yes to forget, or --dry-run to see what would be removed
    ");
    assert_eq!(home.run("forget 00000004 --yes --dry-run").code, 2);
    assert_eq!(files(&home.path(".local")), before);
}

#[test]
fn only_an_existing_session_can_be_forgotten() {
    let home = Home::small();
    assert_eq!(home.run("forget 00000004 --yes").code, 1);
    assert!(!home.path(".local").exists(), "no ledger is made");
    home.run("sync");
    snapshot!(home.run("forget zebra --yes"), @"
    exit 1
    --- stderr
    error: no session matches `zebra`
    hint: use an id or the beginning of one, a session key, or `last`; `quipu sessions --all` lists all sessions
    ");
    assert_eq!(home.run("forget 0000 --yes").code, 1);
}
