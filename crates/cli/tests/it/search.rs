//! `quipu search`.

use crate::home::*;

const SHOP: &str = ".claude/projects/-home-alice-shop/640ab4c7-d010-4b20-a591-b7172ef08e66.jsonl";

/// A session with a prompt, a call that fails and an answer; a note; a run of a job; and a session
/// of OpenClaw that was put aside.
fn home() -> Home {
    let home = Home::empty();
    let common = r#""cwd":"/home/alice/shop","sessionId":"640ab4c7-d010-4b20-a591-b7172ef08e66","version":"2.1.0""#;
    let lines = [
        format!(
            r#"{{"type":"user","uuid":"00000001-0000-4000-8000-000000000000","parentUuid":null,"timestamp":"2026-01-12T10:30:00.000Z",{common},"message":{{"role":"user","content":"Why does the checkout time out?"}}}}"#
        ),
        format!(
            r#"{{"type":"assistant","uuid":"00000002-0000-4000-8000-000000000000","parentUuid":"00000001-0000-4000-8000-000000000000","timestamp":"2026-01-12T10:30:05.000Z",{common},"message":{{"id":"m1","role":"assistant","content":[{{"type":"thinking","thinking":"Perhaps the gateway is slow."}},{{"type":"tool_use","id":"t1","name":"Bash","input":{{"command":"curl -m 5 https://pay.example/checkout"}}}}]}}}}"#
        ),
        format!(
            r#"{{"type":"user","uuid":"00000003-0000-4000-8000-000000000000","parentUuid":"00000002-0000-4000-8000-000000000000","timestamp":"2026-01-12T10:30:11.000Z",{common},"message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"curl: (28) Operation timed out after 5001 ms\n\u001b[31mwith 0 bytes received from checkout\u001b[0m"}}]}}}}"#
        ),
        format!(
            r#"{{"type":"assistant","uuid":"00000004-0000-4000-8000-000000000000","parentUuid":"00000003-0000-4000-8000-000000000000","timestamp":"2026-01-12T10:30:20.000Z",{common},"message":{{"id":"m2","role":"assistant","content":[{{"type":"text","text":"The payment gateway does not answer. I raised the limit of the checkout to thirty seconds and added a retry, so that a slow gateway no longer fails an order."}}]}}}}"#
        ),
    ];
    home.write(SHOP, lines.join("\n") + "\n");
    home.write(".openclaw/workspace/MEMORY.md", "Alice runs a shop. The checkout is hers.\n");
    home.write(
        ".openclaw/cron/runs/5145dbcf.jsonl",
        "{\"timestamp\":\"2026-01-31T07:30:00.000Z\",\"jobId\":\"5145dbcf\",\"action\":\"finished\",\"status\":\"ok\",\"summary\":\"The checkout is up\"}\n",
    );
    home.write(
        ".openclaw/agents/main/sessions/s9.jsonl.deleted.2026-02-04T10-30-00.000Z",
        "{\"type\":\"session\",\"version\":3,\"id\":\"s9\",\"timestamp\":\"2026-02-04T10:30:00.000Z\",\"cwd\":\"/home/alice/bot\"}\n\
         {\"type\":\"message\",\"id\":\"a1b2c3d4\",\"parentId\":null,\"timestamp\":\"2026-02-04T10:31:00.000Z\",\"message\":{\"role\":\"user\",\"content\":\"Tell me when the checkout is down\"}}\n",
    );
    home
}

#[test]
fn hits_are_grouped_by_session() {
    let home = home();
    home.run("sync");
    snapshot!(home.run("search checkout"), @r"
    exit 0
    --- stdout
    Scheduled job 5145dbcf
    OpenClaw · 2026-01-31
      [MINUTE]
        The checkout is up
      quipu cron 5145dbcf

    Why does the checkout time out?
    640ab4c7 · /home/alice/shop · Claude Code · 2026-01-12
      turn 1 · user · [MINUTE]
        Why does the checkout time out?
      turn 1 · Bash call · [MINUTE]
        Bash curl -m 5 https://pay.example/checkout
      turn 1 · Bash result · failed · [MINUTE]
        curl: (28) Operation timed out after 5001 ms with 0 bytes received from checkout
      turn 1 · assistant · [MINUTE]
        The payment gateway does not answer. I raised the limit of the checkout to thirty seconds and added a retry, so that a slow gateway no longer fails an order.
      quipu show 640ab4c7 --turn 1

    Tell me when the checkout is down [deleted]
    s9 · /home/alice/bot · OpenClaw · 2026-02-04
      turn 1 · user · [MINUTE]
        Tell me when the checkout is down
      quipu show s9 --turn 1

    Note MEMORY.md
    OpenClaw · 10 days ago
      [MINUTE]
        Alice runs a shop. The checkout is hers.
      quipu notes MEMORY.md

    7 hits
    ");
}

#[test]
fn narrow_terminals_get_narrow_lines() {
    let home = home();
    home.run("sync");
    let run = home.run_with("search checkout gateway", &[("COLUMNS", "40")]);
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 40), "{run}");
    snapshot!(run, @"
    exit 0
    --- stdout
    Why does the checkout time out?
    640ab4c7 · /home/alice/shop · Claude
    Code · 2026-01-12
      turn 1 · assistant · [MINUTE]
        The payment gateway does not answer.
        I raised the limit of the checkout
        to thirty seconds and added a retry,
        so that a slow gateway no longer
        fails an order.
      quipu show 640ab4c7 --turn 1

    1 hit
    ");
}

#[test]
fn one_object_per_hit() {
    let home = home();
    home.run("sync");
    snapshot!(home.run("search --json --no-sync timed"), @r#"
    exit 0
    --- stdout
    {"session":"640ab4c7-d010-4b20-a591-b7172ef08e66","entry":"00000003-0000-4000-8000-000000000000","number":3,"kind":"user","role":"tool","time":1768213811000,"snippet":"curl: (28) Operation timed out after 5001 ms with 0 bytes received from checkout","marks":[[21,26]],"cut_before":false,"cut_after":false,"place":"result","tool":"Bash","is_error":true,"is_older":false,"turn":1,"format":"claude-code","agent":null,"title":"Why does the checkout time out?","project":"-home-alice-shop","cwd":"/home/alice/shop","part":"transcript","state":"live","parent":null,"name":null,"score":1.3228910511940701,"total":1,"fresh_as_of":0,"pending_bytes":null}
    "#);
    let hits = home.run("search --json --recent -n 2 checkout").json_lines();
    assert_eq!(hits.len(), 2);
    for hit in &hits {
        assert_eq!(hit["total"], 7);
        for field in ["session", "entry", "role", "time", "snippet", "fresh_as_of", "pending_bytes"]
        {
            assert!(hit.get(field).is_some(), "{field}");
        }
    }
    assert_eq!(hits[0]["session"], "s9");
}

#[test]
fn what_stands_around_a_hit_is_shown() {
    let home = home();
    home.run("sync");
    snapshot!(home.run("search -C 1 timed"), @r"
    exit 0
    --- stdout
    Why does the checkout time out?
    640ab4c7 · /home/alice/shop · Claude Code · 2026-01-12
      assistant: Bash curl -m 5 https://pay.example/checkout
      turn 1 · Bash result · failed · [MINUTE]
        curl: (28) Operation timed out after 5001 ms with 0 bytes received from checkout
      assistant: The payment gateway does not answer. I raised the limit of the checkout to thirty seconds and added a retry, so that a slow gateway no longer fails an order.
      quipu show 640ab4c7 --turn 1

    1 hit
    ");
}

#[test]
fn nothing_is_exit_1() {
    let home = home();
    home.run("sync");
    snapshot!(home.run("search nowhere"), @"
    exit 1
    --- stderr
    error: nothing matches
    hint: only whole words are found; `word*` finds longer ones, --exact any part
    ");
    snapshot!(home.run("search perhaps"), @"
    exit 1
    --- stderr
    error: nothing matches
    hint: 1 hit in the model's reasoning: add in:thinking
    ");
    snapshot!(home.run("search --exact zzz"), @"
    exit 1
    --- stderr
    error: nothing matches
    hint: looked through the text of 8 records, 2.13 kB
    ");
    snapshot!(home.run("search --json nowhere"), @"
    exit 1
    --- stderr
    error: nothing matches
    hint: only whole words are found; `word*` finds longer ones, --exact any part
    ");
}

#[test]
fn what_makes_no_sense_is_exit_2() {
    let home = home();
    home.run("sync");
    snapshot!(home.run("search role:human checkout"), @r#"
    exit 2
    --- stderr
    error: `role:human` is no filter; role: takes user, assistant, tool, system
    hint: what stands in quotes is looked for as it is: '"role:x"'
    "#);
    snapshot!(home.run("search --regex ( checkout"), @r"
    exit 2
    --- stderr
    error: the pattern cannot be used: unclosed group
    hint: --exact takes the text as it is
    ");
    snapshot!(home.run("search"), @"
    exit 2
    --- stderr
    error: nothing to look for
    hint: `quipu search WORDS` finds them in all sessions; `quipu search --help` says more
    ");
}

#[test]
fn filters_and_options_say_the_same() {
    let home = home();
    home.run("sync");
    let found = |arguments: &str| home.run(arguments).json_lines().len();
    assert_eq!(found("search --json checkout project:shop"), 4);
    assert_eq!(found("search --json checkout --project shop"), 4);
    assert_eq!(found("search --json checkout --since 2026-02-01"), 1);
    assert_eq!(found("search --json checkout until:2026-01-31"), 5);
    assert_eq!(found("search --json checkout -gateway"), 6);
    assert_eq!(found("search --json -gateway checkout"), 6);
    assert_eq!(found("search --json --all checkout"), 7);
    assert_eq!(found("search --json checkout -n 2"), 2);
    assert_eq!(found("search checkout -n3 --json"), 3);
    assert_eq!(home.run("search checkout -C 1").code, 0);
    assert_eq!(home.run("search checkout -n many").code, 2);
    assert_eq!(home.run("search checkout -x").code, 2);
    assert_eq!(found("search --json --regex [0-9]{4} project:shop"), 1);
    assert_eq!(found("search --json --exact -m"), 1);
    assert_eq!(found("search --json in:notes checkout"), 1);
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let home = home();
    home.run("sync");
    let mut shell = home.command(Vec::<String>::new());
    let quipu = shell.get_program().to_owned();
    shell = std::process::Command::new("sh");
    shell
        .args(["-c", r#""$0" search -n 0 checkout | head -1; true"#])
        .arg(quipu)
        .env_clear()
        .env("HOME", home.path(""))
        .env("PATH", "/usr/bin:/bin");
    let run = home.finish(shell);
    assert!(run.code == 0 && run.stderr.is_empty(), "{run}");
}
