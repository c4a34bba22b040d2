//! The requirements of the spec that the ledger itself meets, by their numbers.

use crate::home::*;

/// Which copy of a response counts does not depend on which file was collected first.
#[test]
fn the_counted_copy_does_not_depend_on_the_order() {
    let bill = |input: u32, output: u32| {
        line("assistant", &uuid(1), None, "answer").replacen(
            "\"message\":{",
            &format!(
                "\"requestId\":\"req_1\",\"message\":{{\"id\":\"msg_1\",\"usage\":{{\"input_tokens\":{input},\"output_tokens\":{output}}},"
            ),
            1,
        )
    };
    let other = MAIN.replace(SESSION, "00000000-d010-4b20-a591-b7172ef08e66");
    let counted = |first: &str, second: &str| {
        let home = Home::quick();
        for path in [first, second] {
            let text = if path == MAIN { bill(10, 20) } else { bill(20, 10) };
            home.write(path, text);
            home.sync();
        }
        home.assert_rebuilds();
        home.all("SELECT input, output FROM usage WHERE is_counted")
    };
    assert_eq!(counted(MAIN, &other), counted(&other, MAIN));
}

/// Collects these files, checks all that can be checked of any home, and hands it over.
#[track_caller]
fn collected(files: &[(&str, &str)]) -> Home {
    let home = Home::quick();
    for (path, text) in files {
        home.write(path, text);
    }
    home.sync_and_check();
    home
}

const CLAW: &str = ".openclaw/agents/main/sessions/s1.jsonl";

// --- R12 ------------------------------------------------------------------------------------------

/// Every entry that says nothing about its parent follows the one before it, whatever its type.
#[test]
fn r12_entries_of_every_type_follow_the_one_before() {
    let lines = [
        r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-02-04T10:30:00.000Z","cwd":"/p"}"#,
        r#"{"role":"user","content":"first"}"#,
        r#"{"type":"model_change","provider":"anthropic","modelId":"m"}"#,
        r#"{"type":"thinking_level_change","thinkingLevel":"high"}"#,
        r#"{"type":"custom","customType":"x","data":1}"#,
        r#"{"type":"branch_summary","summary":"left","fromId":"x"}"#,
        r#"{"type":"compaction","summary":"short"}"#,
        r#"{"role":"assistant","content":"last"}"#,
    ];
    let home = collected(&[(CLAW, &(lines.join("\n") + "\n"))]);
    assert_eq!(
        home.all("SELECT id, parent FROM entries"),
        ["1|NULL", "2|NULL", "3|2", "4|3", "5|4", "6|5", "7|6", "8|7"]
    );
}

// --- R19 ------------------------------------------------------------------------------------------

/// Which open call a result without an id answers does not depend on how the lines arrived.
#[track_caller]
fn pairs_alike(lines: &[&str]) {
    let at_once = collected(&[(CLAW, &(lines.join("\n") + "\n"))]);
    let one_by_one = Home::quick();
    one_by_one.write(CLAW, "");
    for line in lines {
        one_by_one.append(CLAW, format!("{line}\n"));
        one_by_one.sync();
    }
    let pairs = "SELECT entry, ordinal, name, result FROM tool_calls";
    assert_eq!(at_once.all(pairs), one_by_one.all(pairs));
    one_by_one.assert_rebuilds();
}

#[test]
fn r19_a_call_on_a_welded_line() {
    pairs_alike(&[
        r#"{"role":"user","content":"go"}{"role":"assistant","content":[{"type":"toolCall","name":"read","arguments":{"path":"a"}}]}"#,
        r#"{"role":"toolResult","toolName":"read","content":"text of a"}"#,
    ]);
}

#[test]
fn r19_a_call_that_a_newer_version_takes_back() {
    pairs_alike(&[
        r#"{"type":"message","id":"1","parentId":null,"message":{"role":"assistant","content":[{"type":"toolCall","name":"read","arguments":{"path":"a"}}]}}"#,
        r#"{"type":"message","id":"2","parentId":"1","message":{"role":"assistant","content":[{"type":"toolCall","name":"read","arguments":{"path":"b"}}]}}"#,
        r#"{"type":"message","id":"2","parentId":"1","message":{"role":"assistant","content":"changed my mind"}}"#,
        r#"{"role":"toolResult","toolName":"read","content":"text"}"#,
    ]);
}

// --- R30 ------------------------------------------------------------------------------------------

/// A line of Claude Code with other content.
fn with_content(role: &str, number: u32, content: &str) -> String {
    let plain = line(role, &uuid(number), None, "PLACE");
    match role {
        "assistant" => plain.replace("[{\"type\":\"text\",\"text\":\"PLACE\"}]", content),
        _ => plain.replace("\"PLACE\"", content),
    }
}

fn persisted(number: u32) -> String {
    let call = r#"[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls"}}]"#;
    let result = r#"[{"type":"tool_result","tool_use_id":"toolu_1","content":"<persisted-output>\nOutput too large. Full output saved to: /elsewhere/tool-results/b1.txt\n\nPreview"}]"#;
    with_content("assistant", number, call) + &with_content("user", number + 1, result)
}

const BESIDE: &str = ".claude/projects/-home-alice-shop/640ab4c7-d010-4b20-a591-b7172ef08e66";

/// All tool output of a session lies in one folder, that of its sub-agents too.
#[test]
fn r30_tool_output_of_a_sub_agent() {
    let agent = format!("{BESIDE}/subagents/agent-a1.jsonl");
    let output = format!("{BESIDE}/tool-results/b1.txt");
    let home = collected(&[
        (MAIN, &line("user", &uuid(1), None, "go")),
        (&agent, &persisted(10)),
        (&output, "needle in the output"),
    ]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM tool_calls WHERE output IS NOT NULL"), 1);
}

/// A file that was not taken for a transcript at first had no life before it was.
#[test]
fn r30_a_file_that_becomes_a_transcript_has_one_life() {
    let home = Home::quick();
    let notes = ".claude/projects/-home-alice-shop/notes.jsonl";
    home.write(notes, "not yet\n");
    home.sync();
    home.append(notes, line("user", &uuid(1), None, "hello"));
    let report = home.sync_and_check();
    home.assert_restores_all(&[notes]);
    let restored: Vec<String> = home.restored(quipu_ledger::Generations::All).into_keys().collect();
    assert_eq!(restored, [notes.replace(".claude/", "claude-code/")]);
    assert_eq!(report.rewritten, 0);
}
