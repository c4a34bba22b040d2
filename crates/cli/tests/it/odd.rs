//! Entries that are missing in a session, unknown or too long are shown as such.

use crate::home::{Home, Run, snapshot};

#[track_caller]
fn run(home: &Home, arguments: &str) -> Run {
    home.run_with(&format!("{arguments} --no-sync"), &[("TZ", "UTC"), ("COLUMNS", "80")])
}

const TRANSCRIPT: &str = ".openclaw/agents/main/sessions/odd.jsonl";

/// Returns a line of OpenClaw with a user's message.
fn message_line(id: &str, parent: &str, text: &str) -> String {
    format!(
        "{{\"type\":\"message\",\"id\":\"{id}\",\"parentId\":{parent},\"timestamp\":\"2026-02-04T10:30:00.000Z\",\
         \"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
    )
}

#[test]
fn gaps_unknown_types_and_long_lines_are_marked() {
    let home = Home::empty();
    let unknown = "{\"type\":\"hologram\",\"id\":\"b\",\"parentId\":\"a\",\"timestamp\":\"2026-02-04T10:30:00.000Z\"}\n";
    let lines = [
        "{\"type\":\"session\",\"version\":3,\"id\":\"odd\",\"timestamp\":\"2026-02-04T10:30:00.000Z\",\"cwd\":\"/p\"}\n",
        &message_line("a", "null", "one"),
        unknown,
        "{\"id\":\"n\",\"parentId\":\"b\",\"beam\":1}\n",
        &message_line("c", "\"missing\"", "two"),
        &message_line("d", "\"c\"", &"long ".repeat(7 << 20)),
        &message_line("e", "\"d\"", "three"),
    ];
    home.write(TRANSCRIPT, lines.concat());
    home.run("sync");
    let mut shown = run(&home, "show odd");
    // The decoded part of the long line is shown; here once is enough.
    let is_more = |line: &&str| line.starts_with("  long long");
    let more = shown.stdout.lines().filter(is_more).map(|line| line.len() + 1).sum::<usize>();
    assert!((60 << 10..66 << 10).contains(&more), "{more} bytes");
    let rest: Vec<&str> = shown.stdout.lines().filter(|line| !is_more(line)).collect();
    shown.stdout = rest.join("\n") + "\n";
    snapshot!(shown, @"
    exit 0
    --- stdout
    one
    OpenClaw · main · /p · [MINUTE]
    odd · 4 turns

    ─ 1 ─ [MINUTE] ─────────────────────────────────────────────────────────
    ❯ one

    ⋯ the parent entry is not in this session

    ─ 2 ─ 10:30 ────────────────────────────────────────────────────────────────────
    ❯ two

    ─ 3 ─ 10:30 ────────────────────────────────────────────────────────────────────
    ❯ long long long long long long long long long long long long long long long

    ▤ a line of 36.7 MB: only its first 64 KiB are parsed; all of it:
      quipu show odd --entry d --raw

    ─ 4 ─ 10:30 ────────────────────────────────────────────────────────────────────
    ❯ three
    ");
    // --full also shows unknown entries, the header, and the fields that nothing else shows.
    let (brief, whole) = (run(&home, "show odd").stdout, run(&home, "show odd --full").stdout);
    let unknown: Vec<_> = whole.lines().filter(|line| line.contains("unknown type")).collect();
    assert!(unknown[0].starts_with("· hologram · unknown type · "), "{unknown:?}");
    assert_eq!(unknown[1..], ["· no type · unknown type"]);
    let more = ["", "· session", "  ┊ beam: 1"];
    let is_known = |line: &&str| !unknown.contains(line) && !more.contains(line);
    let rest: Vec<_> = whole.lines().filter(is_known).collect();
    assert_eq!(rest, brief.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>());
    assert!(more.iter().all(|line| whole.lines().any(|shown| shown == *line)));
    snapshot!(run(&home, "tree odd"), @"
    exit 0
    --- stdout
    one
    odd

    ○  n  3 entries, 1 turn  one
    ⋯  the parent entry is not in this session
    @  e  3 entries, 3 turns, leaf  two
    ");
    let shown = run(&home, "show odd --full --json").json_lines();
    let kinds: Vec<_> = shown.iter().map(|entry| entry["folded"].as_str().unwrap_or("")).collect();
    assert_eq!(kinds, ["bookkeeping", "", "unknown", "unknown", "", "", ""]);
    assert_eq!(shown[2]["type"], "hologram");
    assert_eq!(shown[4]["missing_parent_id"], "missing");
    assert_eq!(shown[5]["oversize_bytes"], lines[5].len());
    // The printed command prints the line.
    let raw = home.run_with("show odd --entry d --raw --no-sync", &[]);
    assert!(raw.stdout == lines[5], "{} bytes", raw.stdout.len());
    // Entries outside the conversation are not part of it.
    let shown = run(&home, "show odd --json").json_lines();
    assert_eq!(shown.len(), 4);
}

/// A folder whose transcript is missing is listed with what is known of it.
#[test]
fn a_session_without_a_transcript_shows_what_is_known() {
    let home = Home::empty();
    let folder = ".claude/projects/-p/00000009-0000-4000-8000-000000000009";
    let agent = |name: &str, text: &str| {
        let line = format!(
            "{{\"parentUuid\":null,\"isSidechain\":true,\"agentId\":\"{name}\",\"type\":\"user\",\"uuid\":\"{name}\",\
             \"timestamp\":\"2026-02-04T10:30:00.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
        );
        home.write(format!("{folder}/subagents/agent-{name}.jsonl"), line);
    };
    agent("abc", "look for zebras");
    home.write(format!("{folder}/tool-results/x.txt"), "a zebra");
    home.run("sync");
    snapshot!(run(&home, "show 00000009"), @"
    exit 0
    --- stdout
    untitled
    Claude Code · -p
    00000009-0000-4000-8000-000000000009 · 0 turns
    lost: only 1 sub-agent and 1 tool output known

    ↳ sub-agent
      quipu show 00000009/agent-abc
    ");
    snapshot!(run(&home, "resume 00000009"), @"
    exit 1
    --- stderr
    error: the transcript of this session was gone before it could be collected
    hint: `quipu show 00000009` shows it
    ");
    for number in 0..12 {
        agent(&format!("b{number}"), "look");
    }
    home.run("sync");
    snapshot!(run(&home, "show 00000009"), @"
    exit 0
    --- stdout
    untitled
    Claude Code · -p
    00000009-0000-4000-8000-000000000009 · 0 turns
    lost: only 13 sub-agents and 1 tool output known

    ↳ sub-agent
      quipu show 00000009/agent-abc
    ↳ sub-agent
      quipu show 00000009/agent-b0
    ↳ sub-agent
      quipu show 00000009/agent-b1
    ↳ sub-agent
      quipu show 00000009/agent-b10
    ↳ sub-agent
      quipu show 00000009/agent-b11
    ↳ sub-agent
      quipu show 00000009/agent-b2
    ↳ sub-agent
      quipu show 00000009/agent-b3
    ↳ sub-agent
      quipu show 00000009/agent-b4
    ↳ sub-agent
      quipu show 00000009/agent-b5
    ↳ sub-agent
      quipu show 00000009/agent-b6
    ↳ 3 more
      quipu tree 00000009
    ");
}
