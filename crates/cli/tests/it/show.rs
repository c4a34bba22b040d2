//! `quipu show`: the story, its options, and that nothing in it reaches a terminal unescaped.

use std::fs;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::home::{Home, Run, snapshot};

fn synced() -> Home {
    let home = Home::full();
    home.run("sync");
    home
}

/// Runs `quipu` in a fixed time zone, on a screen of 80 columns.
#[track_caller]
fn run(home: &Home, arguments: &str) -> Run {
    run_in(home, arguments, "80")
}

#[track_caller]
fn run_in(home: &Home, arguments: &str, columns: &str) -> Run {
    home.run_with(&format!("{arguments} --no-sync"), &[("TZ", "UTC"), ("COLUMNS", columns)])
}

#[test]
fn a_session_is_shown_as_a_story() {
    snapshot!(run(&synced(), "show 00000001"), @"
    exit 0
    --- stdout
    Two decimals
    Claude Code · /home/alice/shop · main · claude-sonnet-4-5 · [MINUTE]
    00000001-0000-4000-8000-000000000001 · 1 turn · 10 s · $0.0021

    ─ 1 ─ [MINUTE] ─────────────────────────────────────────────────────────
    ❯ Show prices with two decimals.

      Let me look at the formatter and its test.

      · Read /home/alice/shop/src/price.ts
      ✗ Bash npm test -- price  exit code 1

      Prices now read `4.50`.
    ");
}

#[test]
fn commands_interrupts_and_queued_prompts_are_shown() {
    snapshot!(run(&synced(), "show 00000003"), @"
    exit 0
    --- stdout
    Spring sale
    Claude Code · /home/alice/shop · main · claude-sonnet-4-5 · [MINUTE]
    00000003-0000-4000-8000-000000000003 · 4 turns · 17 s · $0.0001

    ❯ /rename Spring sale

    ─ 1 ─ [MINUTE] ─────────────────────────────────────────────────────────
    ❯ /review src/sale.ts

    ─ 2 ─ 09:00 ────────────────────────────────────────────────────────────────────
    ❯ ! git status

    ─ 3 ─ 09:00 ────────────────────────────────────────────────────────────────────
    ❯ Start the sale on Friday.

    ─ 4 ─ 09:00 ────────────────────────────────────────────────────────────────────
    + opened file

    ❯ Why is the badge red?

      · Bash sleep 60

    ❯ and make it green

    ⊘ the user stopped the agent

    ❯ /context
    ");
}

#[test]
fn a_rewind_is_marked() {
    snapshot!(run(&synced(), "show 04-branch"), @"
    exit 0
    --- stdout
    start
    OpenClaw · oc71 · /home/alice/project · claude-sonnet-4-5 · [MINUTE]
    04-branch_01a1e05d-bba0-7765-b4f2-090b5db4d5cc · 3 turns · $0.02

    ─ 1 ─ [MINUTE] ─────────────────────────────────────────────────────────
    ❯ start

      ok

    ─ 2 ─ 18:00 ────────────────────────────────────────────────────────────────────
    ❯ path A

      did A

    ↶ rewound to turn 1; turn 2 was abandoned

    ─ 3 ─ 18:00 ────────────────────────────────────────────────────────────────────
    ❯ path B

      did B
    ");
}

#[test]
fn full_shows_everything() {
    snapshot!(run(&synced(), "show 00000001 --full"), @"
    exit 0
    --- stdout
    Two decimals
    Claude Code · /home/alice/shop · main · claude-sonnet-4-5 · [MINUTE]
    00000001-0000-4000-8000-000000000001 · 1 turn · 10 s · $0.0021

    · summary
      ┊ leafUuid: from-another-file · summary: Prices with two decimals
    · file-history-snapshot
      ┊ isSnapshotUpdate: false · messageId: u01

    ─ 1 ─ [MINUTE] ─────────────────────────────────────────────────────────
    ❯ Show prices with two decimals.
      ┊ permissionMode: default · thinkingMetadata.maxThinkingTokens: 31999

      ┊ thinking
      ┊ The formatter is in price.ts.
      ┊ requestId: req_011

      Let me look at the formatter and its test.
      ┊ requestId: req_011

      · Read /home/alice/shop/src/price.ts
          file_path: /home/alice/shop/src/price.ts
      ┊ requestId: req_011
      ✗ Bash npm test -- price  exit code 1
          command: npm test -- price
          description: Run the price tests
      ┊ message.stop_reason: tool_use · requestId: req_011
      ↳ Read /home/alice/shop/src/price.ts  38 B
          export const price = (n) => String(n)
      ↳ Bash npm test -- price  failed
          Exit code 1
          1 failed
      ┊ requestId: req_012

      Prices now read `4.50`.
      ┊ message.stop_reason: end_turn · requestId: req_012 · slug: calm-blue-lake

    · system
      ┊ durationMs: 4200 · isMeta: false · subtype: turn_duration
    · pr-link
      ┊ prNumber: 7 · prRepository: alice/shop · prUrl:
      ┊ https://example.com/shop/pull/7
    · ai-title
      ┊ aiTitle: Format prices
    · custom-title
      ┊ customTitle: Two decimals
    · last-prompt
      ┊ lastPrompt: Show prices with two decimals. · leafUuid: u09
    ");
}

#[test]
fn a_compaction_is_one_line_or_its_summary() {
    let home = synced();
    snapshot!(run(&home, "show version-4 --last 2"), @"
    exit 0
    --- stdout
    first
    OpenClaw · spec · /home/alice · claude-sonnet-4-5 · [MINUTE]
    version-4 · 2 turns · 9 s · $0.0001

    ◆ the context was reset (daily)
    ◆ history was compacted · 900 → 100 tokens · 1 file read · 2 files changed
    ");
    snapshot!(run(&home, "show version-4 --last 2 --compactions"), @"
    exit 0
    --- stdout
    first
    OpenClaw · spec · /home/alice · claude-sonnet-4-5 · [MINUTE]
    version-4 · 2 turns · 9 s · $0.0001

    ◆ the context was reset (daily)
    ◆ history was compacted · 900 → 100 tokens · 1 file read · 2 files changed

      Little happened.

      read
        a.md

      changed
        b.md
        c.md
    ");
}

#[test]
fn tools_are_shown_in_the_chosen_detail() {
    let home = synced();
    let calls = |arguments: &str| {
        let run = run(&home, &format!("show 02-tools-thinking_01a1e05d-bb {arguments}"));
        run.stdout.lines().skip(4).collect::<Vec<_>>().join("\n")
    };
    snapshot!(calls("--tools names"), @"
    ─ 1 ─ [MINUTE] ─────────────────────────────────────────────────────────
    ❯ What is in README?

      Reading.

      · read
      ✗ bash  failed

      It has a title.
    ");
    snapshot!(calls("--tools inputs"), @"
    ─ 1 ─ [MINUTE] ─────────────────────────────────────────────────────────
    ❯ What is in README?

      Reading.

      · read README.md
          path: README.md
      ✗ bash ls -la  failed
          command: ls -la

      It has a title.
    ");
    snapshot!(calls("--tools full"), @"
    ─ 1 ─ [MINUTE] ─────────────────────────────────────────────────────────
    ❯ What is in README?

      Reading.

      · read README.md
          path: README.md
      ✗ bash ls -la  failed
          command: ls -la
      ↳ read README.md  12 B
          # Title
          body
      ↳ bash ls -la  failed
          ls: denied

      It has a title.
    ");
    snapshot!(calls("--role tool"), @"
    ↳ read README.md  12 B
    ↳ bash ls -la  failed
    ");
}

#[test]
fn a_story_fits_a_narrow_screen() {
    snapshot!(run_in(&synced(), "show 00000001", "24"), @"
    exit 0
    --- stdout
    Two decimals
    Claude Code
    /home/alice/shop · main
    claude-sonnet-4-5
    [MINUTE]
    00000001-0000-4000-8000-000000000001
    1 turn · 10 s · $0.0021

    ─ 1 ─ [MINUTE] ─
    ❯ Show prices with two
      decimals.

      Let me look at the
      formatter and its
      test.

      · Read /home…/price.ts
      ✗ Bash n…  exit code 1

      Prices now read
      `4.50`.
    ");
}

#[test]
fn counts_are_printed() {
    let home = synced();
    snapshot!(run(&home, "show 00000001 --count"), @"
    exit 0
    --- stdout
    Two decimals
      turns           1
      entries         7
      user messages   1
      agent messages  2
      tool calls      2
      tool results    2
      ✗ failed        1
    ");
    let counts = run(&home, "show 00000001 --count --json").json();
    assert_eq!((&counts["turns"], &counts["failed_results"]), (&1.into(), &1.into()));
}

#[test]
fn json_has_one_object_per_entry() {
    let home = synced();
    snapshot!(run(&home, "show 00000001 --json"), @r#"
    exit 0
    --- stdout
    {"entry_id":"u01","parent_id":null,"kind":"message","role":"user","time":1772442001000,"text":"Show prices with two decimals.","tool":null,"type":"user","entry":7,"turn_number":1,"is_prompt":true,"fresh_as_of":"[TIME]","pending_bytes":null}
    {"entry_id":"u03","parent_id":"u02","kind":"message","role":"assistant","time":1772442003000,"text":"Let me look at the formatter and its test.","tool":null,"type":"assistant","entry":9,"turn_number":1,"is_prompt":false,"model":"claude-sonnet-4-5","usage":{"input_tokens":10,"output_tokens":3,"cache_read_tokens":100,"cache_write_tokens":50},"fresh_as_of":"[TIME]","pending_bytes":null}
    {"entry_id":"u04","parent_id":"u03","kind":"message","role":"assistant","time":1772442004000,"text":null,"tool":"Read","type":"assistant","entry":10,"turn_number":1,"is_prompt":false,"model":"claude-sonnet-4-5","usage":{"input_tokens":10,"output_tokens":3,"cache_read_tokens":100,"cache_write_tokens":50},"calls":[{"call_id":"toolu_011","tool":"Read","target":"/home/alice/shop/src/price.ts","outcome":"fine"}],"fresh_as_of":"[TIME]","pending_bytes":null}
    {"entry_id":"u05","parent_id":"u04","kind":"message","role":"assistant","time":1772442005000,"text":null,"tool":"Bash","type":"assistant","entry":11,"turn_number":1,"is_prompt":false,"model":"claude-sonnet-4-5","stop_reason":"tool_use","usage":{"input_tokens":10,"output_tokens":87,"cache_read_tokens":100,"cache_write_tokens":50},"calls":[{"call_id":"toolu_012","tool":"Bash","target":"npm test -- price","outcome":"failed","exit_code":1}],"fresh_as_of":"[TIME]","pending_bytes":null}
    {"entry_id":"u06","parent_id":"u04","kind":"message","role":"tool","time":1772442006000,"text":null,"tool":"Read","type":"user","entry":12,"turn_number":1,"is_prompt":false,"results":[{"call_id":"toolu_011","tool":"Read","target":"/home/alice/shop/src/price.ts","outcome":"fine","bytes":38}],"fresh_as_of":"[TIME]","pending_bytes":null}
    {"entry_id":"u07","parent_id":"u05","kind":"message","role":"tool","time":1772442007000,"text":null,"tool":"Bash","type":"user","entry":13,"turn_number":1,"is_prompt":false,"results":[{"call_id":"toolu_012","tool":"Bash","target":"npm test -- price","outcome":"failed","bytes":20}],"fresh_as_of":"[TIME]","pending_bytes":null}
    {"entry_id":"u09","parent_id":"u08","kind":"message","role":"assistant","time":1772442009000,"text":"Prices now read `4.50`.","tool":null,"type":"assistant","entry":15,"turn_number":1,"is_prompt":false,"model":"claude-sonnet-4-5","stop_reason":"end_turn","usage":{"input_tokens":4,"output_tokens":22,"cache_read_tokens":150,"cache_write_tokens":0},"fresh_as_of":"[TIME]","pending_bytes":null}
    "#);
    for entry in run(&home, "show 00000001 --json --full").json_lines() {
        for field in ["entry_id", "parent_id", "kind", "role", "time", "text", "tool"] {
            assert!(entry.get(field).is_some(), "{field} of {entry}");
        }
    }
}

#[test]
fn records_in_a_pipe_are_exact() {
    let home = synced();
    let path = ".claude/projects/-home-alice-shop/00000001-0000-4000-8000-000000000001.jsonl";
    let file = fs::read_to_string(home.path(path)).unwrap();
    let one = home.run("show 00000001 --no-sync --entry u02 --raw").stdout;
    assert_eq!(file.lines().filter(|line| format!("{line}\n") == one).count(), 1, "{one}");
    let told = home.run("show 00000001 --no-sync --raw").stdout;
    assert!(told.lines().all(|line| file.lines().any(|other| other == line)));
}

#[test]
fn a_name_that_matches_nothing_is_an_error() {
    let home = synced();
    for arguments in [
        "show nothing",
        "show 0000",
        "show 00000001 --turn 9",
        "show 00000001 --turn 0",
        "show 00000001 --entry nothing",
        "show 00000001 --branch u",
    ] {
        let run = run(&home, arguments);
        assert_eq!(run.code, 1, "{arguments}: {run}");
        assert!(run.stderr.contains("hint: "), "{arguments}: {run}");
    }
    snapshot!(run(&home, "show 00000001 --turn 9"), @"
    exit 1
    --- stderr
    error: no turn matches `9`
    hint: `quipu show ID --count` prints how many turns there are
    ");
    assert_eq!(run(&home, "show 00000001 --role nobody").code, 2);
}

#[test]
fn a_session_known_only_from_prompts_is_shown() {
    let home = Home::empty();
    let prompt =
        r#"{"display":"find it","timestamp":1764000000000,"project":"/p","sessionId":"gone-1"}"#;
    home.write(".claude/history.jsonl", format!("{prompt}\n"));
    home.run("sync");
    snapshot!(run(&home, "show gone-1"), @"
    exit 0
    --- stdout
    find it
    Claude Code · /p · [MINUTE]
    gone-1 · 1 turn · lost: only its prompts are known

    ─ 1 ─ [MINUTE] ─────────────────────────────────────────────────────────
    ❯ find it
    ");
    snapshot!(run(&home, "sessions"), @"
    exit 0
    --- stdout
    id      last        project  turns  title
    gone-1  2025-11-24  p            1  [lost] find it
    ");
    snapshot!(run(&home, "sessions --project p"), @"
    exit 0
    --- stdout
    p  /p
      id      last        turns  title
      gone-1  2025-11-24      1  [lost] find it
    ");
    snapshot!(run(&home, "search find"), @"
    exit 0
    --- stdout
    find it [lost]
    gone-1 · /p · Claude Code · 2025-11-24
      user · [MINUTE]
        find it
        quipu show gone-1

    1 hit for find
    ");
}

/// Returns true for characters that a terminal would act on, or that hide or reorder text.
fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Removes the colours that quipu itself adds.
fn without_colours(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        let end = after.find(|c: char| !(c.is_ascii_digit() || c == ';')).unwrap_or(after.len());
        match after[end..].strip_prefix('m') {
            Some(after) => rest = after,
            None => {
                plain.push_str("\u{1b}[");
                rest = after;
            }
        }
    }
    plain + rest
}

/// Generates text with characters that a terminal might act on.
fn hostile() -> impl Strategy<Value = String> {
    let nasty = prop::sample::select(vec![
        "\u{1b}[2J",
        "\u{1b}]52;c;eA==\u{7}",
        "\u{1b}]8;;x\u{1b}\\",
        "\u{9b}31m",
        "\u{1b}P",
        "\r",
        "\t",
        "\n",
        "\u{8}",
        "\u{7}",
        "\0",
        "\u{85}",
        "\u{202e}",
        "\u{2066}",
        "\u{200b}",
        "\u{feff}",
        "```\n",
        "| a | b |\n|---|---|\n| 1 | ",
        "- ",
        "> ",
        "# ",
        "[x](",
        "](\u{1b}",
        "<b>",
        "**",
        "`",
        "    ",
        "1. ",
        "日本語",
        "&#27;[2J",
        "&#x9b;",
        "\\",
        "---\n",
        "<system-reminder>",
        "/",
        "! ",
    ]);
    let piece =
        prop_oneof![3 => nasty.prop_map(str::to_owned), 2 => ".{0,6}", 1 => any::<String>()];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

#[test]
fn nothing_in_a_session_reaches_a_terminal_unescaped() {
    let mut runner = TestRunner::new(few_cases(24));
    let words = prop::collection::vec(hostile(), 14);
    let bytes = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6);
    let result = runner.run(&(words, bytes, 1_usize..120), |(words, noise, columns)| {
        let home = Home::empty();
        let say = |index: usize| words[index].clone();
        let lines = [
            serde_json::json!({"type": "session", "version": 3, "id": "s", "cwd": say(0)}),
            serde_json::json!({"type": "message", "id": say(1), "parentId": null,
                "message": {"role": "user", "content": say(2)}}),
            serde_json::json!({"type": "message", "id": "b", "parentId": say(1), "message": {
                "role": "assistant", "model": say(3), "content": [
                    {"type": "text", "text": say(4)}, {"type": "thinking", "thinking": say(5)},
                    {"type": "toolCall", "id": "c", "name": say(6), "arguments": {"path": say(7), "x": say(8)}},
                    {"type": say(9)}]}}),
            serde_json::json!({"type": "message", "id": "d", "parentId": "b", "message": {
                "role": "toolResult", "toolCallId": "c", "content": say(10)}}),
            serde_json::json!({"type": "label", "id": "l", "parentId": "d", "targetId": "b", "label": say(11)}),
            serde_json::json!({"type": "session_info", "id": "n", "parentId": "l", "name": say(12)}),
            serde_json::json!({"type": "compaction", "id": "k", "parentId": "n", "summary": say(13),
                "details": {"readFiles": [say(0)], "modifiedFiles": [say(2)]}}),
            serde_json::json!({"type": "message", "id": "e", "parentId": null,
                "message": {"role": "user", "content": say(5)}}),
        ];
        let mut file: Vec<u8> = Vec::new();
        for line in &lines {
            file.extend_from_slice(line.to_string().as_bytes());
            file.push(b'\n');
        }
        for line in &noise {
            file.extend_from_slice(line);
            file.push(b'\n');
        }
        home.write(".openclaw/agents/main/sessions/s.jsonl", &file);
        prop_assert_eq!(home.run("sync").code, 0);
        let columns = columns.to_string();
        for arguments in [
            "show s",
            "show s --full",
            "show s --full --color always",
            "show s --full --json",
            "show s --count",
            "tree s",
            "tree s --json",
            "tree s --color always",
        ] {
            let run = run_in(&home, arguments, &columns);
            prop_assert_eq!(run.code, 0, "{}: {}", arguments, &run);
            let shown = without_colours(&run.stdout) + &without_colours(&run.stderr);
            let found = shown.chars().find(|c| *c != '\n' && is_harmful(*c));
            prop_assert_eq!(found, None, "{}: {:?}", arguments, shown);
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// A name that matches nothing is reported before anything is printed.
#[test]
fn an_unknown_branch_or_turn_prints_nothing() {
    let home = synced();
    for arguments in ["show 00000001 --branch zzzz", "show 00000001 --turn 99"] {
        let run = run(&home, arguments);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{run}");
    }
}

/// No line is wider than the screen, with any option.
#[test]
fn no_line_is_wider_than_the_screen() {
    let home = synced();
    let name = "mcp__a_server_with_a_very_long_name__and_a_tool_that_has_one_too";
    let id = "0000beef-0000-4000-8000-000000000001";
    let line = format!(
        r#"{{"type":"assistant","uuid":"{id}","sessionId":"{id}","timestamp":"2026-02-04T10:30:00.000Z","message":{{"id":"m","role":"assistant","content":[{{"type":"tool_use","id":"t1","name":"{name}","input":{{"file_path":"/a/very/long/path/that/goes/on/and/on/and/on.txt","{name}":"two\nlines"}}}},{{"type":"text","text":"| a | b |\n|---|---|\n| {name} | {name} |\n\n```\n{name}{name}\n```"}}]}}}}"#
    );
    home.write(format!(".claude/projects/-p/{id}.jsonl"), line + "\n");
    home.run("sync");
    let sessions = home.run("sessions --all --json").json_lines();
    for session in &sessions {
        let id = session["session_id"].as_str().unwrap();
        if session["lines"] == 0 {
            continue;
        }
        for options in ["", "--full"] {
            let run = run_in(&home, &format!("show {id} {options}"), "40");
            // A command and an id are on one line, so that they can be copied.
            let is_command = |line: &&str| line.trim_start().starts_with("quipu ");
            for line in run.stdout.lines().filter(|line| !is_command(line) && *line != id) {
                let width = unicode_width::UnicodeWidthStr::width(line);
                assert!(width <= 40, "{id} {options}: {width} {line}");
            }
        }
    }
    // Numbers need no line of their own.
    let counts = run_in(&home, &format!("show {id} --count"), "40");
    assert!(counts.stdout.contains("\n  tool calls      1\n"), "{counts}");
}

/// An empty path is not shown as what a call is about.
#[test]
fn an_empty_path_does_not_describe_a_call() {
    let home = Home::empty();
    let line = |number: u32, kind: &str, content: &str| {
        format!(
            r#"{{"type":"{kind}","uuid":"{number:08x}-0000-4000-8000-000000000000","timestamp":"2026-01-12T10:30:00.000Z","message":{{"role":"{kind}","content":[{content}]}}}}
"#
        )
    };
    let call = |number: u32, input: &str| {
        let use_it =
            format!(r#"{{"type":"tool_use","id":"t{number}","name":"Do","input":{input}}}"#);
        let result =
            format!(r#"{{"type":"tool_result","tool_use_id":"t{number}","content":"ok"}}"#);
        line(number, "assistant", &use_it) + &line(number + 100, "user", &result)
    };
    let text = [
        call(1, r#"{"file_path":"","command":"ls -l"}"#),
        call(2, r#"{"command":"ls -a","file_path":"  "}"#),
        call(3, r#"{"command":["git","log"]}"#),
        call(4, r#""{\"path\":\"src/a.rs\"}""#),
    ];
    home.write(".claude/projects/-p/0000beef-0000-4000-8000-000000000001.jsonl", text.concat());
    home.run("sync");
    for role in ["assistant", "tool"] {
        let shown = home.run(&format!("show 0000beef --role {role}"));
        for about in ["ls -l", "ls -a", "git log", "src/a.rs"] {
            assert!(shown.stdout.contains(about), "{role}: {shown}");
        }
    }
}

/// Prompts typed while a tool ran, and the work of a sub-agent whose file is gone: each is found,
/// the command below the hit shows it, and nothing is shown twice.
#[test]
fn queued_prompts_and_progress_are_shown_and_found() {
    let home = Home::empty();
    let line = |rest: &str| format!("{{\"sessionId\":\"{QUEUED}\",{rest}}}\n");
    let lines = [
        r#""type":"user","uuid":"u1","parentUuid":null,"timestamp":"2026-02-04T10:00:00.000Z","message":{"role":"user","content":"Start the build."}"#,
        r#""type":"assistant","uuid":"a1","parentUuid":"u1","timestamp":"2026-02-04T10:00:01.000Z","message":{"id":"m1","role":"assistant","model":"opus","content":[{"type":"tool_use","id":"t1","name":"Task","input":{"prompt":"look"}}]}"#,
        r#""type":"progress","uuid":"p1","parentUuid":"a1","timestamp":"2026-02-04T10:00:02.000Z","parentToolUseID":"t1","data":{"type":"agent_progress","agentId":"x","message":{"type":"assistant","message":{"id":"m2","role":"assistant","model":"haiku","content":[{"type":"text","text":"Looking for zebras."},{"type":"tool_use","id":"t2","name":"Grep","input":{"pattern":"okapi"}}]}}}"#,
        r#""type":"progress","uuid":"p2","parentUuid":"p1","timestamp":"2026-02-04T10:00:03.000Z","parentToolUseID":"t1","data":{"type":"agent_progress","agentId":"x","message":{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":"a gazelle"}]}}}"#,
        r#""type":"queue-operation","operation":"enqueue","timestamp":"2026-02-04T10:00:04.000Z","content":"also mind the wombats""#,
        r#""type":"queue-operation","operation":"remove","timestamp":"2026-02-04T10:00:05.000Z""#,
        r#""type":"queue-operation","operation":"enqueue","timestamp":"2026-02-04T10:00:06.000Z","content":"then ship it""#,
        r#""type":"user","uuid":"u2","parentUuid":"p2","timestamp":"2026-02-04T10:00:07.000Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"done"}]}"#,
        r#""type":"queue-operation","operation":"dequeue","timestamp":"2026-02-04T10:00:08.000Z""#,
        r#""type":"user","uuid":"u3","parentUuid":"u2","timestamp":"2026-02-04T10:00:09.000Z","message":{"role":"user","content":"then ship it"}"#,
    ];
    let text: String = lines.iter().map(|rest| line(rest)).collect();
    home.write(format!(".claude/projects/-home-alice-zoo/{QUEUED}.jsonl"), text);
    home.run("sync");

    let story = run(&home, "show 9aaa0001").stdout;
    assert!(story.contains("❯ also mind the wombats\n  (typed while the agent worked)"), "{story}");
    assert_eq!(story.matches("then ship it").count(), 1, "{story}");
    assert!(story.contains("2 turns") && !story.contains("zebras"), "{story}");
    assert!(story.contains("opus") && !story.contains("haiku") && !story.contains('↶'), "{story}");
    let full = run(&home, "show 9aaa0001 --full").stdout;
    assert_eq!(full.matches("then ship it").count(), 2, "{full}");
    for word in ["zebras", "okapi", "gazelle", "wombats"] {
        let found = run(&home, &format!("search {word}"));
        let command =
            found.stdout.lines().rev().find_map(|line| line.trim().strip_prefix("quipu "));
        let command = command.unwrap_or_else(|| panic!("{word}: {found}")).replace('\'', "");
        let shown = run(&home, &command);
        assert!(command.contains("--at") && shown.stdout.contains(word), "{command}: {shown}");
        assert_eq!(run(&home, &format!("search --exact {word}")).code, 0);
    }
    // The sub-agent's calls are not calls of this session.
    let head = run(&home, "sessions --all --json").stdout;
    assert!(head.contains("\"tool_calls\":1"), "{head}");
}

/// Each text that a person chose to show is one line, pasted text is shown whole, a command begins
/// no turn, and a path that does not fit keeps the name of its file.
#[test]
fn attached_texts_and_commands_are_named() {
    let home = Home::empty();
    let line = |rest: &str| format!("{{\"sessionId\":\"{QUEUED}\",{rest}}}\n");
    let path = format!("/w/{}name_of_file.rs", "a-long-folder/".repeat(24));
    let call = format!(
        r#""type":"assistant","uuid":"a1","parentUuid":"f1","timestamp":"2026-02-04T10:00:03.000Z","message":{{"id":"m1","role":"assistant","content":[{{"type":"tool_use","id":"t1","name":"Read","input":{{"file_path":"{path}"}}}}]}}"#
    );
    let lines = [
        r#""type":"user","uuid":"u1","parentUuid":null,"timestamp":"2026-02-04T10:00:00.000Z","message":{"role":"user","content":"<command-name>/clear</command-name>\n<command-message>clear</command-message>\n<command-args></command-args>"}"#,
        r#""type":"user","uuid":"u2","parentUuid":"u1","timestamp":"2026-02-04T10:00:01.000Z","message":{"role":"user","content":"<ide_selection>The user selected the lines 1 to 2 from /w/a.rs:\nlet x = 1;</ide_selection>see [Pasted text #1]"}"#,
        r#""type":"attachment","uuid":"f1","parentUuid":"u2","timestamp":"2026-02-04T10:00:02.000Z","attachment":{"type":"file","filename":"/w/b.rs","content":"an otter"}"#,
        &call,
    ];
    let text: String = lines.iter().map(|rest| line(rest)).collect();
    home.write(format!(".claude/projects/-w/{QUEUED}.jsonl"), text);
    home.write(
        ".claude/history.jsonl",
        format!(
            "{{\"display\":\"see [Pasted text #1]\",\"pastedContents\":{{\"1\":{{\"type\":\"text\",\"content\":\"a walrus\"}}}},\"timestamp\":1770199201000,\"project\":\"/w\",\"sessionId\":\"{QUEUED}\"}}\n"
        ),
    );
    home.run("sync");
    snapshot!(run(&home, "show 9aaa0001"), @"
    exit 0
    --- stdout
    see [Pasted text #1]
    Claude Code · -w · [MINUTE]
    9aaa0001-0000-4000-8000-000000000001 · 1 turn · 3 s

    ❯ /clear

    ─ 1 ─ [MINUTE] ─────────────────────────────────────────────────────────
    + selection /w/a.rs

    ❯ see [Pasted text #1]

      ┊ pasted text #1
      ┊ a walrus

    + file /w/b.rs

      · Read /w/a-long-folder/a-long-folder/a-long-folde…/name_of_file.rs  no result
    ");
    let found = run(&home, "search file:name_of_file.rs").stdout;
    assert!(found.replace("\n    ", "").contains("…/name_of_file.rs"), "{found}");
}

const QUEUED: &str = "9aaa0001-0000-4000-8000-000000000001";

/// Returns the configuration of a property: this many cases, the same in every run, or as many
/// random ones as `PROPTEST_CASES` sets.
fn few_cases(cases: u32) -> proptest::test_runner::Config {
    use proptest::test_runner::{Config, RngSeed};
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => Config { failure_persistence: None, ..Config::default() },
        None => {
            let rng_seed = RngSeed::Fixed(1);
            Config { cases, rng_seed, failure_persistence: None, ..Config::default() }
        }
    }
}

/// A session with an edit, a list of tasks, a new file, a failed edit and a picture.
fn edited() -> Home {
    let home = Home::empty();
    let id = "11111111-1111-4111-8111-111111111111";
    let line = |number: u8, role: &str, content: &str| {
        format!(
            r#"{{"type":"{role}","uuid":"abcdef{number:02}-0000-4000-8000-000000000000","sessionId":"{id}","timestamp":"2026-02-04T10:{number:02}:00.000Z","cwd":"/p","message":{{"role":"{role}","id":"m{number}","model":"claude-haiku-4-5","usage":{{"input_tokens":1000000,"output_tokens":0}},"content":{content}}}}}"#
        ) + "\n"
    };
    let call = |number: u8, name: &str, input: &str| {
        let content =
            format!(r#"[{{"type":"tool_use","id":"t{number}","name":"{name}","input":{input}}}]"#);
        line(number, "assistant", &content)
    };
    let result = |number: u8, of: u8, is_error: bool| {
        let content = format!(
            r#"[{{"type":"tool_result","tool_use_id":"t{of}","is_error":{is_error},"content":"done"}}]"#
        );
        line(number, "user", &content)
    };
    home.write(
        format!(".claude/projects/-p/{id}.jsonl"),
        [
            line(1, "user", r#""Mend the till""#),
            call(2, "Edit", r#"{"file_path":"/p/till.rs","old_string":"fn a() {\n    one();\n}\n","new_string":"fn a() {\n    two();\n}\n"}"#),
            result(3, 2, false),
            call(4, "TodoWrite", r#"{"todos":[{"content":"Test it","status":"completed"},{"content":"Ship it","status":"pending"}]}"#),
            result(5, 4, false),
            call(6, "Write", r#"{"file_path":"/p/new.rs","content":"\tlet x = 1;\n"}"#),
            result(7, 6, false),
            call(8, "Edit", r#"{"file_path":"/p/till.rs","old_string":"x","new_string":"y"}"#),
            result(9, 8, true),
            line(10, "user", r#"[{"type":"text","text":"And this?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGVycmluZw=="}}]"#),
            line(11, "assistant", r#"[{"type":"text","text":"All done."}]"#),
        ]
        .concat(),
    );
    home.run("sync -q");
    home
}

#[test]
fn edits_are_differences_and_tasks_are_lists() {
    snapshot!(run(&edited(), "show 1111 --tools inputs"), @"
    exit 0
    --- stdout
    Mend the till
    Claude Code · /p · claude-haiku-4-5 · [MINUTE]
    11111111-1111-4111-8111-111111111111 · 2 turns · 10 min · $11.00

    ─ 1 ─ [MINUTE] ─────────────────────────────────────────────────────────
    ❯ Mend the till

      · Edit /p/till.rs
          /p/till.rs
            fn a() {
          -     one();
          +     two();
            }
      · TodoWrite 1 of 2 done: Ship it
          ✓ Test it
          ○ Ship it
      · Write /p/new.rs
          /p/new.rs
          +     let x = 1;
      ✗ Edit /p/till.rs  failed
          /p/till.rs
          - x
          + y

    ─ 2 ─ 10:10 ────────────────────────────────────────────────────────────────────
    ❯ And this?

      [image/png]

      All done.
    ");
}

#[test]
fn prompts_shows_only_what_a_person_asked() {
    snapshot!(run(&edited(), "show 1111 --prompts"), @"
    exit 0
    --- stdout
    Mend the till
    Claude Code · /p · claude-haiku-4-5 · [MINUTE]
    11111111-1111-4111-8111-111111111111 · 2 turns · 10 min · $11.00

    ─ 1 ─ [MINUTE] ─────────────────────────────────────────────────────────
    ❯ Mend the till

    ─ 2 ─ 10:10 ────────────────────────────────────────────────────────────────────
    ❯ And this?

      [image/png]
    ");
    let lines = edited().run("show 1111 --prompts --json").json_lines();
    assert_eq!(lines.len(), 2);
}

#[test]
fn changes_prints_all_edits_as_patches() {
    let home = edited();
    snapshot!(run(&home, "show 1111 --changes"), @"
    exit 0
    --- stdout
    --- a/p/till.rs
    +++ b/p/till.rs
    @@ -1,3 +1,3 @@ turn 1
     fn a() {
    -    one();
    +    two();
     }
    --- a/p/new.rs
    +++ b/p/new.rs
    @@ -0,0 +1,1 @@ turn 1
    +	let x = 1;
    ");
    // The program `patch` finds the place of each edit.
    home.write("p/till.rs", "// a till\n\nfn a() {\n    one();\n}\n");
    fs::create_dir_all(home.path("p")).unwrap();
    let patch = home.run("show 1111 --changes").stdout;
    fs::write(home.path("all.patch"), &patch).unwrap();
    if let Ok(output) = std::process::Command::new("patch")
        .args(["-p1", "-i", "all.patch"])
        .current_dir(home.path(""))
        .output()
    {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let mended = fs::read_to_string(home.path("p/till.rs")).unwrap();
        assert_eq!(mended, "// a till\n\nfn a() {\n    two();\n}\n");
        assert_eq!(fs::read_to_string(home.path("p/new.rs")).unwrap(), "\tlet x = 1;\n");
    }
    let files = home.run("show 1111 --changes --json").json_lines();
    assert_eq!((files.len(), &files[0]["path"]), (2, &"/p/till.rs".into()));
}

#[test]
fn pictures_are_written_to_files() {
    let home = edited();
    let written = home.run("show 1111 --images out --json").json();
    assert_eq!(written["media_type"], "image/png");
    let files = crate::home::files(&home.path("out"));
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].1, b"herring");
    assert_eq!(home.run("show 1111 --images out").code, 2, "nothing is overwritten");
    assert_eq!(home.run("show 1111 --turn 1 --images out2").code, 1);
}

#[test]
fn an_entry_is_shown_with_those_around_it() {
    let home = edited();
    snapshot!(run(&home, "show 1111 --at abcdef04 -C 1"), @"
    exit 0
    --- stdout
    Mend the till
    Claude Code · /p · claude-haiku-4-5 · [MINUTE]
    11111111-1111-4111-8111-111111111111 · 2 turns · 10 min · $11.00

      · Edit /p/till.rs

    ━━▶ [MINUTE] ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
      · TodoWrite 1 of 2 done: Ship it
          ✓ Test it
          ○ Ship it
    ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
      · Write /p/new.rs
    ");
    let lines = home.run("show 1111 --at abcdef04 -C 1 --json").json_lines();
    let ids: Vec<&str> =
        lines.iter().map(|line| &line["entry_id"].as_str().unwrap()[6..8]).collect();
    assert_eq!(ids, ["02", "03", "04", "05", "06"], "results belong to their calls");
    let lines = home.run("show 1111 --at abcdef01 -C 2 --json").json_lines();
    assert_eq!(lines.len(), 4, "nothing is before the first");
    assert_eq!(home.run("show 1111 --at abcdef11 -C 0 --json").json_lines().len(), 1);
    // The command below a hit opens it.
    let found = home.run("search ship");
    let command = found.stdout.lines().find_map(|line| line.trim().strip_prefix("quipu "));
    let shown = home.run(command.unwrap_or_else(|| panic!("{found}")));
    assert!(shown.stdout.contains("○ Ship it"), "{shown}");
}
