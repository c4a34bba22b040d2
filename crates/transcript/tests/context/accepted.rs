//! Tests that every entry that the releases write can be appended here too.

use quipu_transcript::native::{NewEntry, Refusal};
use serde_json::{Value, json};

use crate::{fixtures, read};

#[test]
fn every_line_of_the_fixtures_can_be_appended() {
    let mut accepted = 0;
    for reader in ["oc71", "pi73", "pi87"] {
        for path in fixtures(reader) {
            for line in read(&path).lines() {
                match NewEntry::read(line) {
                    Ok(_) => accepted += 1,
                    Err(Refusal::UnknownType(header)) => assert_eq!(header, "session"),
                    Err(why) => panic!("{}: {why}: {line}", path.display()),
                }
            }
        }
    }
    assert!(accepted > 100, "{accepted}");
}

#[test]
fn every_entry_that_only_some_releases_write_can_be_appended() {
    let zero = json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
        "cost": {"input": 0, "output": 0.25, "cacheRead": 1e-9, "cacheWrite": 0, "total": 0}});
    let answer = |block: Value| json!({"role": "assistant", "content": [block]});
    for entry in [
        json!({"type": "session_info", "name": ""}),
        json!({"type": "label", "targetId": "a"}),
        json!({"type": "label", "targetId": "a", "label": ""}),
        json!({"type": "label", "targetId": "a", "label": null}),
        json!({"type": "compaction", "summary": "s", "firstKeptEntryId": "a", "tokensBefore": 7,
               "tokensAfter": 3, "fromHook": false, "details": {"readFiles": []}, "usage": zero,
               "__openclaw": {"runId": "r"}}),
        json!({"type": "compaction", "summary": "s", "compactedCount": 42, "tokensBefore": null}),
        json!({"type": "branch_summary", "summary": "", "fromId": "root"}),
        json!({"type": "usage", "kind": "compaction", "provider": "p", "model": "m", "usage": zero}),
        json!({"type": "custom_message", "customType": "x", "content": "", "display": false}),
        json!({"type": "leaf", "targetId": null, "appendMode": "side"}),
        answer(json!({"type": "thinking", "thinking": "", "thinkingSignature": "s"})),
        answer(json!({"type": "thinking", "text": "as in the documents"})),
        answer(json!({"type": "thinking", "redacted": true, "thinkingSignature": "s"})),
        answer(json!({"type": "toolUse", "id": "a", "name": "read", "input": {}})),
        answer(json!({"type": "functionCall", "call_id": "a", "name": "read"})),
        answer(
            json!({"type": "toolCall", "id": "a", "name": "b", "arguments": {}, "partialArgs": ""}),
        ),
        answer(json!({"type": "newer", "what": 1})),
        json!({"role": "assistant", "content": [], "stopReason": "error", "errorMessage": "no",
               "usage": {"input": 1, "output": 0, "cacheWrite1h": 0, "reasoning": 2, "cost": null}}),
        json!({"role": "user", "content": "hi", "timestamp": "2026-02-27T08:30:00.000Z"}),
        json!({"role": "user", "content": "hi", "timestamp": 1_706_976_000_000_i64}),
        json!({"role": "user", "content": [{"type": "image", "data": "", "mimeType": "image/png"}]}),
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "{}"}]}),
        json!({"role": "bashExecution", "command": "ls", "output": "", "exitCode": null,
               "cancelled": true, "truncated": false}),
        json!({"role": "system", "sections": {}, "toolsAdded": []}),
    ] {
        if let Err(why) = NewEntry::read(&entry.to_string()) {
            panic!("{why}: {entry}");
        }
    }
}
