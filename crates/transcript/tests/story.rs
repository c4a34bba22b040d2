//! Tests each rule of the story: what one line shows, and what stays hidden.

#![expect(clippy::unwrap_used, reason = "a line that cannot be read fails the test")]

use std::fmt::Write as _;

use quipu_transcript::format::{Format, Origin, Part};
use quipu_transcript::formats::claude_code::ClaudeCode;
use quipu_transcript::formats::openclaw::OpenClaw;
use quipu_transcript::record;
use quipu_transcript::story::{ItemKind, Outcome, Piece, StoryDetail, StoryItem, story_item};

/// Returns a short form of what a line shows; empty if it shows nothing.
fn shown(format: &dyn Format, line: &str, detail: StoryDetail) -> String {
    let mut text = String::new();
    let origin = Origin::of(Part::Transcript, "a.jsonl");
    let problems = record::read(format, &origin, line.as_bytes(), &mut |entry| {
        let item = story_item(format, entry);
        if item.is_shown(detail) {
            describe(&item, detail, &mut text);
        }
    });
    assert!(problems.is_empty(), "{line}: {problems:?}");
    text.trim_end().to_owned()
}

fn describe(item: &StoryItem<'_>, detail: StoryDetail, text: &mut String) {
    if !item.is_open(detail) {
        item.gists().for_each(|gist| writeln!(text, "+ {gist}").unwrap());
        return;
    }
    if !matches!(item.kind, ItemKind::Message) {
        writeln!(text, "{}", item.kind.as_str()).unwrap();
    }
    let role = item.role.map_or("", |role| role.as_str());
    for piece in item.pieces.iter().filter(|piece| piece.is_shown(detail)) {
        match piece {
            Piece::Words(words) if item.is_automatic => {
                writeln!(text, "{role} (automatic): {words}")
            }
            Piece::Words(words) => writeln!(text, "{role}: {words}"),
            Piece::Attached { gist: Some(gist), .. } if !detail.folded => {
                writeln!(text, "+ {gist}")
            }
            Piece::Attached { label, text: attached, .. } => {
                writeln!(text, "attached {label}: {attached}")
            }
            Piece::Pasted { label, text: pasted } => writeln!(text, "pasted {label}: {pasted}"),
            Piece::Thinking(words) => writeln!(text, "thinking: {words}"),
            Piece::Call(call) => {
                writeln!(text, "call: {} {}", call.name, call.about.as_deref().unwrap_or("-"))
            }
            Piece::Result(result) => writeln!(
                text,
                "result: {}",
                match result.outcome {
                    Outcome::Fine => "fine",
                    Outcome::Mentions => "mentions an error",
                    Outcome::Failed => "failed",
                }
            ),
            Piece::Image { .. } => writeln!(text, "image"),
            Piece::Other(name) => writeln!(text, "other: {name}"),
        }
        .unwrap();
    }
}

#[track_caller]
fn claude(line: &str, expected: &str) {
    assert_eq!(shown(&ClaudeCode, line, StoryDetail::DEFAULT), expected, "{line}");
}

#[track_caller]
fn openclaw(message: &str, expected: &str) {
    let line = format!(r#"{{"type":"message","id":"a","parentId":null,"message":{message}}}"#);
    assert_eq!(shown(&OpenClaw, &line, StoryDetail::DEFAULT), expected, "{line}");
}

#[test]
fn r32_only_user_and_assistant_are_in_the_story() {
    claude(r#"{"type":"user","uuid":"u","message":{"role":"user","content":"hi"}}"#, "user: hi");
    claude(
        r#"{"type":"assistant","uuid":"a","message":{"role":"assistant","content":[{"type":"text","text":"ho"}]}}"#,
        "assistant: ho",
    );
    for line in [
        r#"{"type":"system","uuid":"s","subtype":"turn_duration","content":"took 3 s","durationMs":3}"#,
        r#"{"type":"progress","uuid":"p","data":{"type":"bash_progress","output":"x"}}"#,
        r#"{"type":"file-history-snapshot","messageId":"u","snapshot":{}}"#,
        r#"{"type":"summary","summary":"Two decimals","leafUuid":"a"}"#,
        r#"{"type":"hologram","uuid":"h"}"#,
    ] {
        claude(line, "");
    }
}

#[test]
fn r34_content_as_text_or_list_gives_the_same_story() {
    for content in [r#""hi""#, r#"[{"type":"text","text":"hi"}]"#] {
        claude(
            &format!(
                r#"{{"type":"user","uuid":"u","message":{{"role":"user","content":{content}}}}}"#
            ),
            "user: hi",
        );
    }
}

#[test]
fn r44_openclaw_keeps_words_and_drops_thinking() {
    openclaw(r#"{"role":"user","content":"hi"}"#, "user: hi");
    openclaw(
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"ho"}]}"#,
        "assistant: ho",
    );
}

#[test]
fn r44_a_call_is_its_name_and_what_it_is_about() {
    for (input, about) in [
        (r#"{"query":"JWT","count":8}"#, "JWT"),
        (r#"{"path":"a.rs","query":"b"}"#, "a.rs"),
        (r#"{"count":8}"#, "-"),
        ("{}", "-"),
    ] {
        openclaw(
            &format!(
                r#"{{"role":"assistant","content":[{{"type":"toolCall","id":"c","name":"web_search","arguments":{input}}}]}}"#
            ),
            &format!("call: web_search {about}"),
        );
    }
}

#[test]
fn r44_a_result_is_noted_if_it_mentions_an_error() {
    for (text, outcome) in [
        ("all good", "fine"),
        ("an error occurred", "mentions an error"),
        ("TypeError: x", "mentions an error"),
        ("2 failed", "mentions an error"),
        ("FAILED", "mentions an error"),
        ("ERROR Failed", "fine"),
    ] {
        openclaw(
            &format!(
                r#"{{"role":"toolResult","toolCallId":"c","content":[{{"type":"text","text":"{text}"}}]}}"#
            ),
            &format!("result: {outcome}"),
        );
    }
    openclaw(
        r#"{"role":"toolResult","toolCallId":"c","isError":true,"content":[{"type":"text","text":"no"}]}"#,
        "result: failed",
    );
}

#[test]
fn r45_claude_code_notes_recorded_errors_only() {
    let result = |text: &str, is_error: &str| {
        format!(
            r#"{{"type":"user","uuid":"u","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t","content":"{text}"{is_error}}}]}}}}"#
        )
    };
    claude(&result("an error occurred", ""), "result: fine");
    claude(&result("an error occurred", r#","is_error":false"#), "result: fine");
    claude(&result("no", r#","is_error":true"#), "result: failed");
}

#[test]
fn r45_a_tool_use_is_its_name_and_its_file_or_command() {
    for (input, about) in [
        (r#"{"file_path":"src/auth.ts","old_string":"a","new_string":"b"}"#, "src/auth.ts"),
        (r#"{"command":"npm test","description":"Runs tests"}"#, "npm test"),
        (r#"{"notebook_path":"a.ipynb","cell_id":"1"}"#, "a.ipynb"),
        (r#"{"pattern":"*.rs"}"#, "*.rs"),
        (r#"{"url":"https://a.example","prompt":"read it"}"#, "https://a.example"),
        (r#"{"description":"d","prompt":"find it"}"#, "find it"),
        (r#"{"todos":[]}"#, "-"),
    ] {
        claude(
            &format!(
                r#"{{"type":"assistant","uuid":"a","message":{{"role":"assistant","content":[{{"type":"thinking","thinking":"hm"}},{{"type":"tool_use","id":"t","name":"Tool","input":{input}}}]}}}}"#
            ),
            &format!("call: Tool {about}"),
        );
    }
}

#[test]
fn a_call_is_one_line_of_120_columns() {
    let long = "word ".repeat(100);
    let line = format!(
        r#"{{"type":"assistant","uuid":"a","message":{{"role":"assistant","content":[{{"type":"tool_use","id":"t","name":"Bash","input":{{"command":"one\n  two\t{long}"}}}}]}}}}"#
    );
    let text = shown(&ClaudeCode, &line, StoryDetail::DEFAULT);
    let call = text.strip_prefix("call: ").unwrap();
    assert!(call.starts_with("Bash one two word word"), "{call}");
    assert!(call.ends_with('…'), "{call}");
    assert!(call.chars().count() <= 120 && call.chars().count() > 110, "{call}");
}

#[test]
fn r46_bookkeeping_of_openclaw_is_not_in_the_story() {
    for line in [
        r#"{"type":"session","version":3,"id":"s","cwd":"/"}"#,
        r#"{"type":"model_change","id":"a","provider":"p","modelId":"m"}"#,
        r#"{"type":"thinking_level_change","id":"a","thinkingLevel":"high"}"#,
        r#"{"type":"custom","id":"a","customType":"model-snapshot","data":{}}"#,
        r#"{"type":"custom_message","id":"a","customType":"x","content":"from an extension","display":true}"#,
        r#"{"type":"label","id":"a","targetId":"b","label":"l"}"#,
        r#"{"type":"session_info","id":"a","name":"n"}"#,
    ] {
        assert_eq!(shown(&OpenClaw, line, StoryDetail::DEFAULT), "", "{line}");
    }
}

#[test]
fn r46_a_compaction_is_one_line() {
    let line = r#"{"type":"compaction","id":"a","summary":"what was","tokensBefore":9}"#;
    assert_eq!(shown(&OpenClaw, line, StoryDetail::DEFAULT), "compaction");
    let boundary = r#"{"type":"system","uuid":"b","subtype":"compact_boundary","content":"Conversation compacted","compactMetadata":{"trigger":"auto","preTokens":9}}"#;
    claude(boundary, "compaction");
    let summary = r#"{"type":"user","uuid":"u","isCompactSummary":true,"message":{"role":"user","content":"This session is being continued"}}"#;
    claude(summary, "");
    let open = StoryDetail { compactions: true, ..StoryDetail::DEFAULT };
    assert_eq!(shown(&ClaudeCode, summary, open), "user: This session is being continued");
}

#[test]
fn slash_commands_read_as_typed() {
    claude(
        r#"{"type":"user","uuid":"u","message":{"role":"user","content":"<command-name>/review</command-name>\n<command-message>review</command-message>\n<command-args>src/a.rs</command-args>"}}"#,
        "user: /review src/a.rs",
    );
    claude(
        r#"{"type":"system","uuid":"u","subtype":"local_command","content":"<command-name>/context</command-name>\n<command-args></command-args>"}"#,
        "user: /context",
    );
    claude(
        r#"{"type":"system","uuid":"u","subtype":"local_command","content":"<local-command-stdout>ok</local-command-stdout>"}"#,
        "",
    );
}

#[test]
fn meta_lines_mirrors_and_reminders_are_folded() {
    let meta = r#"{"type":"user","uuid":"u","isMeta":true,"message":{"role":"user","content":"Caveat: x"}}"#;
    claude(meta, "");
    assert_eq!(shown(&ClaudeCode, meta, StoryDetail::FULL), "user: Caveat: x");
    claude(
        r#"{"type":"user","uuid":"u","message":{"role":"user","content":"<system-reminder>x</system-reminder>\nfix it"}}"#,
        "user: fix it",
    );
    let beside = r#"{"type":"user","uuid":"u","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"ok"},{"type":"text","text":"<system-reminder>x</system-reminder>"},{"type":"text","text":"and go on"}]}}"#;
    claude(beside, "result: fine\ntool: and go on");
    assert!(
        shown(&ClaudeCode, beside, StoryDetail::FULL)
            .contains("attached system-reminder: <system-reminder>")
    );
    openclaw(
        r#"{"role":"assistant","content":[{"type":"text","text":"sent"}],"provider":"openclaw","model":"delivery-mirror"}"#,
        "",
    );
}

#[test]
fn words_of_a_person_in_a_result_belong_to_the_person() {
    let result = |text: &str, more: &str| {
        let text = serde_json::to_string(text).unwrap();
        format!(
            r#"{{"type":"user","uuid":"u","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t","content":{text}}}]}}{more}}}"#
        )
    };
    claude(
        &result(
            "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). To tell you how to proceed, the user said:\nuse a switch",
            "",
        ),
        "result: fine\ntool: use a switch",
    );
    claude(
        &result(
            "User has answered your questions: \"Which?\"=\"x\"",
            r#","toolUseResult":{"questions":[],"answers":{"Which?":"the \"left\" one"}}"#,
        ),
        "result: fine\ntool: the \"left\" one",
    );
    claude(
        &result("User has approved your plan.\n\n## Approved Plan (edited by user):\n1. wait", ""),
        "result: fine\ntool: 1. wait",
    );
}

#[test]
fn what_a_person_chose_to_show_is_attached() {
    let prompt = r#"{"type":"user","uuid":"u","message":{"role":"user","content":[{"type":"text","text":"<ide_selection>lines 1 to 2 of a.rs</ide_selection>"},{"type":"text","text":"why?"}]}}"#;
    claude(prompt, "+ selection\nuser: why?");
    assert_eq!(
        shown(&ClaudeCode, prompt, StoryDetail::FULL),
        "attached ide_selection: <ide_selection>lines 1 to 2 of a.rs</ide_selection>\nuser: why?"
    );
    for (attachment, gist, expected) in [
        (
            r#"{"type":"file","filename":"/w/a.rs","displayPath":"a.rs","content":{"type":"text","file":{"filePath":"/w/a.rs","content":"fn main() {}","numLines":1}}}"#,
            "+ file /w/a.rs",
            "/w/a.rs\nfn main() {}",
        ),
        (
            r#"{"type":"hook_additional_context","content":["the tests are red"],"hookName":"Stop","toolUseID":"x","hookEvent":"Stop"}"#,
            "",
            "the tests are red\nStop",
        ),
        (
            r#"{"type":"date","newDate":"2026-11-16","rendered":[{"content":"Today is 2026-11-16."}],"renderedRole":"system"}"#,
            "",
            "Today is 2026-11-16.",
        ),
        (r#"{"type":"prompt_snapshot","system":["You are"]}"#, "", ""),
    ] {
        let line = format!(r#"{{"type":"attachment","uuid":"u","attachment":{attachment}}}"#);
        claude(&line, gist);
        let full = shown(&ClaudeCode, &line, StoryDetail::FULL);
        assert!(full.contains(expected), "{full}");
        assert!(!full.contains("You are"), "{full}");
    }
}

#[test]
fn what_openclaw_put_around_the_words_is_attached() {
    let message = |text: &str| {
        let text = serde_json::to_string(text).unwrap();
        format!(r#"{{"role":"user","content":{text}}}"#)
    };
    let wrapped = message(
        "Sender (untrusted metadata):\n```json\n{\"name\":\"Ada\"}\n```\n\n[Fri 2026-06-26 19:04 UTC] hello",
    );
    openclaw(&wrapped, "user: hello");
    openclaw(
        &message("Read HEARTBEAT.md if it exists."),
        "user (automatic): Read HEARTBEAT.md if it exists.",
    );
    let job = r#"{"role":"user","content":"what is new?","provenance":{"kind":"internal_system","sourceTool":"cron"}}"#;
    openclaw(job, "user (automatic): what is new?");
    let said = r#"{"role":"user","content":"Read HEARTBEAT.md if it exists.","provenance":{"kind":"external_user"}}"#;
    openclaw(said, "user: Read HEARTBEAT.md if it exists.");
}

#[test]
fn the_output_of_a_command_is_not_shown_as_the_users_text() {
    openclaw(
        r#"{"role":"bashExecution","command":"ls","output":"a\nb","exitCode":0}"#,
        "user: ! ls",
    );
}

#[test]
fn prompts_that_were_queued_are_the_humans() {
    claude(
        r#"{"type":"attachment","uuid":"u","attachment":{"type":"queued_command","prompt":"and make it green","commandMode":"prompt"}}"#,
        "user: and make it green",
    );
}

#[test]
fn words_in_the_queue_wait_until_the_session_is_known() {
    let line = r#"{"type":"queue-operation","operation":"enqueue","content":"and tests"}"#;
    claude(line, "");
    assert_eq!(shown(&ClaudeCode, line, StoryDetail::FULL), "user: and tests");
    // Text that the program queued is a record like any other, not the human's words.
    let task = r#"{"type":"queue-operation","operation":"enqueue","content":"{\"task_id\":\"a\",\"tool_use_id\":\"t\",\"task_type\":\"local_agent\"}"}"#;
    assert_eq!(shown(&ClaudeCode, task, StoryDetail::FULL), "note");
}

#[test]
fn text_of_a_sub_agent_in_a_progress_line_is_folded() {
    let line = r#"{"type":"progress","uuid":"p","parentToolUseID":"t","data":{"type":"agent_progress","agentId":"a","message":{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"Looking around."}]}}}}"#;
    claude(line, "");
    assert_eq!(shown(&ClaudeCode, line, StoryDetail::FULL), "assistant: Looking around.");
}

#[test]
fn thinking_is_shown_on_request() {
    let line = r#"{"type":"assistant","uuid":"a","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm"}]}}"#;
    claude(line, "");
    let open = StoryDetail { thinking: true, ..StoryDetail::DEFAULT };
    assert_eq!(shown(&ClaudeCode, line, open), "thinking: hm");
}

/// pi and OpenClaw write the client's error in the place of the agent's text.
#[test]
fn an_aborted_answer_is_a_stop_and_not_words() {
    let line = |content: &str| {
        format!(
            r#"{{"type":"message","id":"0000000a","parentId":null,"message":{{"role":"assistant","content":{content},"stopReason":"aborted","errorMessage":"Request was aborted."}}}}"#
        )
    };
    let format = quipu_transcript::format::by_name("openclaw").unwrap();
    let origin = format.origin(b"agents/main/sessions/s.jsonl");
    let show = |line: String| {
        let mut shown = Vec::new();
        quipu_transcript::record::read(format, &origin, line.as_bytes(), &mut |entry| {
            let item = quipu_transcript::story::story_item(format, entry);
            shown.push((item.is_interrupt, item.is_error, item.words().into_owned()));
        });
        shown
    };
    assert_eq!(show(line("[]")), [(true, false, String::new())]);
    let text = line(r#"[{"type":"text","text":"half an ans"}]"#);
    assert_eq!(show(text), [(false, false, "half an ans".to_owned())]);
}

/// File lists that are shown separately are not shown in the summary too.
#[test]
fn lists_of_files_are_shown_once() {
    let compaction = quipu_transcript::entry::Compaction {
        summary: "Did it.\n\n<read-files>\n- a.rs\n</read-files>\n\n<modified-files>\n- b.rs\n</modified-files>\nNext.".into(),
        read_files: vec!["a.rs".to_owned()],
        modified_files: vec!["b.rs".to_owned()],
        ..Default::default()
    };
    assert_eq!(compaction.prose().split_whitespace().collect::<Vec<_>>(), ["Did", "it.", "Next."]);
    let without = quipu_transcript::entry::Compaction {
        read_files: Vec::new(),
        modified_files: Vec::new(),
        ..compaction
    };
    assert_eq!(without.prose(), without.summary);
}
