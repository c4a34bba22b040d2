//! Tests sessions of Claude Code.

use std::path::Path;

use quipu_transcript::context::{At, Context, Reader, pairing};
use serde_json::{Value, json};

use crate::rules::rendered;
use crate::{build, messages, read};

fn line(type_name: &str, uuid: &str, parent: Value, message: Value) -> Value {
    json!({"type": type_name, "uuid": uuid, "parentUuid": parent, "isSidechain": false,
           "timestamp": "2026-03-02T09:00:00.000Z", "message": message})
}

fn user(uuid: &str, parent: Value, content: Value) -> Value {
    line("user", uuid, parent, json!({"role": "user", "content": content}))
}

fn block(uuid: &str, parent: &str, response: &str, block: Value) -> Value {
    let message = json!({"role": "assistant", "id": response, "model": "claude-x", "content": [block],
        "stop_reason": null, "usage": {"input_tokens": 1, "output_tokens": 2}});
    line("assistant", uuid, json!(parent), message)
}

fn of(lines: &[Value], at: At<'_>) -> Context {
    let text = lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    build(Reader::CLAUDE_CODE, &text, at)
}

#[test]
fn pieces_of_a_response_are_one_message() {
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": id}});
    let answer = |id: &str| json!([{"type": "tool_result", "tool_use_id": id, "content": id, "is_error": id == "t2"}]);
    // Parallel calls: each result attaches to its own call, so the path skips the first.
    let lines = [
        user("u1", Value::Null, json!("read both")),
        block(
            "a1",
            "u1",
            "msg_1",
            json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"}),
        ),
        block("a2", "a1", "msg_1", call("t1")),
        block("a3", "a2", "msg_1", call("t2")),
        user("r1", json!("a2"), answer("t1")),
        user("r2", json!("a3"), answer("t2")),
        json!({"type": "progress", "uuid": "p", "parentUuid": "r2"}),
        block("a4", "p", "msg_2", json!({"type": "text", "text": "done"})),
    ];
    let mut context = of(&lines, At::Leaf);
    assert_eq!(context.leaf.as_deref(), Some("a4"));
    assert_eq!(
        serde_json::to_value(&context.model).unwrap(),
        json!({"provider": "anthropic", "modelId": "claude-x"})
    );
    let (paired, repairs) = pairing::pair(std::mem::take(&mut context.messages));
    assert_eq!(repairs, pairing::Repairs::default());
    context.messages = paired;
    let all = messages(&context);
    assert_eq!(all.len(), 5);
    assert_eq!(
        all[1],
        json!({"role": "assistant", "api": "anthropic-messages", "provider": "anthropic",
            "model": "claude-x", "stopReason": "toolUse", "timestamp": 1_772_442_000_000_i64,
            "content": [
                {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"},
                {"type": "toolCall", "id": "t1", "name": "Read", "arguments": {"file_path": "t1"}},
                {"type": "toolCall", "id": "t2", "name": "Read", "arguments": {"file_path": "t2"}}],
            "usage": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 3,
                "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.0}}})
    );
    assert_eq!(
        (&all[2]["toolCallId"], &all[2]["toolName"], &all[2]["isError"]),
        (&json!("t1"), &json!("Read"), &json!(false))
    );
    assert_eq!((&all[3]["toolCallId"], &all[3]["isError"]), (&json!("t2"), &json!(true)));
    assert_eq!(all[4]["stopReason"], "stop");
}

#[test]
fn a_compaction_starts_a_new_context() {
    let boundary = json!({"type": "system", "subtype": "compact_boundary", "uuid": "b",
        "parentUuid": null, "logicalParentUuid": "u2", "timestamp": "2026-03-02T09:00:00.000Z",
        "compactMetadata": {"trigger": "auto", "preTokens": 155_000}});
    let mut summary = user("s", json!("b"), json!("This session is being continued…"));
    summary["isCompactSummary"] = json!(true);
    let lines = [
        user("u1", Value::Null, json!("one")),
        user("u2", json!("u1"), json!("two")),
        boundary.clone(),
        summary,
        user("u3", json!("s"), json!("three")),
    ];
    let context = of(&lines, At::Leaf);
    assert_eq!(rendered(&context), ["compactionSummary:This session is being continued…", "three"]);
    assert_eq!(messages(&context)[0]["tokensBefore"], 155_000);
    // Some compactions preserve the last messages before them.
    let mut lines = lines;
    lines[2]["compactMetadata"]["preservedSegment"] =
        json!({"headUuid": "u2", "anchorUuid": "s", "tailUuid": "u2"});
    assert_eq!(
        rendered(&of(&lines, At::Leaf)),
        ["compactionSummary:This session is being continued…", "two", "three"]
    );
    assert_eq!(rendered(&of(&lines, At::Entry("u2"))), ["one", "two"]);
}

#[test]
fn messages_that_no_model_wrote_are_left_out() {
    let mut error = block("e", "u1", "x", json!({"type": "text", "text": "API Error"}));
    error["isApiErrorMessage"] = json!(true);
    let mut side = user("side", json!("u1"), json!("a sub-agent's task"));
    side["isSidechain"] = json!(true);
    let lines =
        [user("u1", Value::Null, json!("one")), error, user("u2", json!("e"), json!("two")), side];
    assert_eq!(rendered(&of(&lines, At::Leaf)), ["one", "two"]);
}

#[test]
fn real_sessions_have_contexts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/claude-code/projects/-home-alice-shop");
    for number in 1..=6 {
        let path = folder.join(format!("0000000{number}-0000-4000-8000-00000000000{number}.jsonl"));
        let context = build(Reader::CLAUDE_CODE, &read(&path), At::Leaf);
        assert!(!context.messages.is_empty(), "{}", path.display());
        assert!(context.leaf.is_some());
        let (_, repairs) = pairing::pair(context.messages);
        assert_eq!((repairs.orphans, repairs.duplicates), (0, 0), "{}", path.display());
    }
}
