//! Tests each rule by itself.

use std::path::Path;

use quipu_transcript::context::{self, At, Context, Reader, pairing};
use serde_json::{Value, json};

use crate::{build, messages, read, value};

/// A session of these entries.
pub(crate) fn session(entries: &[Value]) -> String {
    let header = json!({"type": "session", "version": 3, "id": "s", "cwd": "/w"});
    let lines = std::iter::once(&header).chain(entries).map(Value::to_string);
    lines.collect::<Vec<_>>().join("\n")
}

pub(crate) fn user(id: &str, parent: Value) -> Value {
    json!({"type": "message", "id": id, "parentId": parent,
           "message": {"role": "user", "content": id, "timestamp": 1}})
}

fn with(mut entry: Value, key: &str, value: Value) -> Value {
    entry[key] = value;
    entry
}

fn without(mut entry: Value, key: &str) -> Value {
    entry.as_object_mut().unwrap().remove(key);
    entry
}

/// Returns a short form of the messages: texts, summaries, calls and results.
pub(crate) fn rendered(context: &Context) -> Vec<String> {
    messages(context)
        .iter()
        .map(|message| {
            let blocks = message["content"].as_array().cloned().unwrap_or_default();
            let block = |block: &Value| match block["type"].as_str() {
                Some("toolCall") => {
                    format!("{}({})", block["name"].as_str().unwrap(), block["arguments"])
                }
                _ => block["text"].as_str().unwrap_or("?").to_owned(),
            };
            let text = message["content"].as_str().or(message["summary"].as_str());
            let text = text.map_or_else(
                || blocks.iter().map(block).collect::<Vec<_>>().join("+"),
                str::to_owned,
            );
            match message["role"].as_str().unwrap() {
                "user" => text,
                role => format!("{role}:{text}"),
            }
        })
        .collect()
}

#[track_caller]
fn check_context(rules: Reader, entries: &[Value], leaf: Option<&str>, expected: &[&str]) {
    let context = build(rules, &session(entries), At::Leaf);
    assert_eq!(context.leaf.as_deref(), leaf, "{rules:?}");
    assert_eq!(rendered(&context), expected, "{rules:?}");
}

// The expectations of the next four were checked by running those releases on the same lines.

#[test]
fn r90_leaf_rows_move_the_leaf_in_openclaw_only() {
    let entries = [
        user("a", Value::Null),
        user("b", json!("a")),
        user("c", json!("b")),
        json!({"type": "leaf", "id": "l", "parentId": "c", "targetId": "a"}),
        user("d", json!("l")),
        json!({"type": "leaf", "id": "m", "parentId": "d", "targetId": "missing"}),
    ];
    check_context(Reader::OPENCLAW, &entries, Some("d"), &["a", "d"]);
    // pi sees entries of an unknown type.
    check_context(Reader::PI, &entries, Some("m"), &["a", "b", "c", "d"]);
    // The leaf is before the first entry: the context is empty.
    let to_root = json!({"type": "leaf", "id": "n", "parentId": "d", "targetId": null});
    let entries = [entries.as_slice(), &[to_root]].concat();
    check_context(Reader::OPENCLAW, &entries, None, &[]);
}

#[test]
fn r90_side_rows_are_never_the_leaf() {
    let entries = [
        user("a", Value::Null),
        with(user("side", json!("a")), "appendMode", json!("side")),
        user("b", json!("side")),
    ];
    // A row that names the row last appended to continues from the leaf.
    check_context(Reader::OPENCLAW, &entries, Some("b"), &["a", "b"]);
    check_context(Reader::OPENCLAW, &entries[..2], Some("a"), &["a"]);
    check_context(Reader::PI, &entries, Some("b"), &["a", "side", "b"]);
}

#[test]
fn r12_rows_without_a_parent_field() {
    let entries =
        [user("a", Value::Null), without(user("b", json!("")), "parentId"), user("c", json!("b"))];
    check_context(Reader::OPENCLAW, &entries, Some("c"), &["a", "b", "c"]);
    check_context(Reader::PI, &entries, Some("c"), &["b", "c"]);
}

#[test]
fn unknown_rows_are_seen_through_and_a_missing_parent_starts_the_path() {
    let entries = [
        user("a", json!("never written")),
        json!({"type": "hologram", "id": "h", "parentId": "a"}),
        json!({"type": "hologram", "id": "i", "parentId": "h"}),
        user("b", json!("i")),
        json!({"type": "hologram", "id": "j", "parentId": "b"}),
    ];
    check_context(Reader::OPENCLAW, &entries, Some("b"), &["a", "b"]);
    check_context(Reader::PI, &entries, Some("j"), &["a", "b"]);
}

#[test]
fn damaged_lines_are_skipped() {
    let text = [
        session(&[user("a", Value::Null)]).as_str(),
        "{\"type\":\"message\",\"id\":\"torn",
        "",
        "[1,2]",
        "not json",
        &user("b", json!("a")).to_string(),
    ]
    .join("\n");
    for rules in [Reader::OPENCLAW, Reader::PI] {
        assert_eq!(rendered(&build(rules, &text, At::Leaf)), ["a", "b"]);
    }
}

#[test]
fn circles_end() {
    let twice = [user("a", Value::Null), user("b", json!("a")), user("a", json!("b"))];
    let own = [user("a", json!("a"))];
    let ring = [user("a", json!("c")), user("b", json!("a")), user("c", json!("b"))];
    for rules in [Reader::OPENCLAW, Reader::PI] {
        // Of two entries with one id, the last wins.
        check_context(rules, &twice, Some("a"), &["b", "a"]);
        check_context(rules, &own, Some("a"), &["a"]);
        check_context(rules, &ring, Some("c"), &["a", "b", "c"]);
    }
    let unknown = |id: &str, parent: &str| json!({"type": "x", "id": id, "parentId": parent});
    let seen_through = [unknown("x", "y"), unknown("y", "x"), user("a", json!("x"))];
    check_context(Reader::OPENCLAW, &seen_through, Some("a"), &["a"]);
}

#[test]
fn a_context_can_begin_at_any_entry() {
    let entries = [user("a", Value::Null), user("b", json!("a")), user("c", json!("a"))];
    let text = session(&entries);
    let lines: Vec<&str> = text.lines().collect();
    for rules in [Reader::OPENCLAW, Reader::PI] {
        let at = |at| context::of_lines(rules, &lines, at);
        assert_eq!(rendered(&at(At::Entry("b")).unwrap()), ["a", "b"]);
        assert_eq!(rendered(&at(At::Leaf).unwrap()), ["a", "c"]);
        let root = at(At::Root).unwrap();
        assert_eq!(
            value(&root),
            json!({"leaf": null, "model": null, "thinkingLevel": "off", "messages": []})
        );
        assert!(at(At::Entry("missing")).is_none());
    }
}

#[test]
fn a_reset_starts_a_context_with_only_what_it_keeps() {
    let call = json!({"type": "message", "id": "k", "parentId": "b", "message": {"role": "assistant",
        "provider": "p", "model": "m", "stopReason": "toolUse",
        "content": [{"type": "toolCall", "id": "c1", "name": "exec", "arguments": {}}]}});
    let result = |id: &str, parent: &str, call: &str| {
        json!({"type": "message", "id": id, "parentId": parent, "message": {"role": "toolResult",
            "toolCallId": call, "toolName": "exec", "content": [{"type": "text", "text": id}]}})
    };
    let custom = json!({"type": "custom_message", "id": "u", "parentId": "r2", "customType": "x",
        "content": "injected", "display": true});
    let reset = json!({"type": "reset", "id": "z", "parentId": "u", "reason": "daily",
        "firstKeptEntryId": "b"});
    let entries = [
        user("a", Value::Null),
        user("b", json!("a")),
        call,
        result("r1", "k", "c1"),
        result("r2", "r1", "called before"),
        custom,
        reset.clone(),
        user("d", json!("z")),
    ];
    // Only messages, and results of kept calls, are kept.
    let kept = ["b", "assistant:exec({})", "toolResult:r1", "d"];
    check_context(Reader::OPENCLAW, &entries, Some("d"), &kept);
    let mut entries = entries;
    entries[6] = without(reset, "firstKeptEntryId");
    check_context(Reader::OPENCLAW, &entries, Some("d"), &["d"]);
    // The model stays the same.
    let context = value(&build(Reader::OPENCLAW, &session(&entries), At::Leaf));
    assert_eq!(context["model"], json!({"provider": "p", "modelId": "m"}));
}

#[test]
fn r17_a_compaction_replaces_earlier_entries() {
    let compaction = |more: &[(&str, Value)]| {
        let mut entry = json!({"type": "compaction", "summary": "S", "tokensBefore": 9});
        more.iter().for_each(|(key, value)| entry[*key] = value.clone());
        entry
    };
    let check = |compaction: Value, expected: &[&str]| {
        let entries = [
            user("a", Value::Null),
            user("b", json!("a")),
            user("c", json!("b")),
            compaction,
            without(user("d", Value::Null), "parentId"),
        ];
        check_context(Reader::OPENCLAW, &entries, Some("d"), expected);
    };
    let summary = "compactionSummary:S";
    check(compaction(&[("firstKeptEntryId", json!("c"))]), &[summary, "c", "d"]);
    check(compaction(&[("firstKeptEntryId", json!("missing"))]), &[summary, "d"]);
    // Shapes of the documents: they count messages, or replace all earlier ones.
    check(compaction(&[("compactedCount", json!(1))]), &[summary, "b", "c", "d"]);
    check(compaction(&[("compactedCount", json!(42))]), &[summary, "d"]);
    check(compaction(&[]), &[summary, "d"]);
}

#[test]
fn r10_version_1_has_no_ids() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/openclaw/agents/spec/sessions/version-1.jsonl");
    for rules in [Reader::OPENCLAW, Reader::PI] {
        let context = build(rules, &read(&path), At::Leaf);
        assert_eq!(context.leaf.as_deref(), Some("#5"));
        assert_eq!(
            rendered(&context),
            ["compactionSummary:Greeting.", "assistant:hi", "custom:from a hook"]
        );
        assert_eq!(messages(&context)[2]["role"], "custom");
    }
}

#[test]
fn r13_bare_lines_and_other_blocks_get_the_shapes_of_pi() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/openclaw/agents/spec/sessions/bare.jsonl");
    for rules in [Reader::OPENCLAW, Reader::PI] {
        let context = build(rules, &read(&path), At::Leaf);
        assert_eq!(context.leaf.as_deref(), Some("#4"));
        let (paired, repairs) = pairing::pair(context.messages.clone());
        assert_eq!(repairs, pairing::Repairs::default());
        assert_eq!(paired.len(), context.messages.len());
        assert_eq!(
            messages(&context),
            [
                json!({"role": "user", "content": "What's the weather in Sydney?",
                    "timestamp": 1_772_181_000_000_i64}),
                json!({"role": "assistant", "content": [{"type": "toolCall", "id": "toolu_01",
                    "name": "get_weather", "arguments": {"location": "Sydney"}}],
                    "timestamp": 1_772_181_001_000_i64}),
                json!({"role": "toolResult", "toolCallId": "toolu_01", "toolName": "get_weather",
                    "content": [{"type": "text", "text": "{\"temp\":22}"}], "isError": false,
                    "timestamp": 1_772_181_002_000_i64}),
                json!({"role": "assistant", "content": [{"type": "text",
                    "text": "It's 22°C in Sydney right now."}],
                    "timestamp": 1_772_181_003_000_i64}),
            ]
        );
    }
}

#[test]
fn r14_blocks_of_every_shape() {
    let content = json!([
        {"type": "thinking", "text": "hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "eA=="},
        {"type": "output_text", "text": "so"},
        {"type": "toolUse", "id": "u1", "name": "write", "input": {"b": 1}},
        {"type": "function_call", "id": "item", "call_id": "f1", "name": "run", "arguments": "{\"x\":1.50}"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "/9j/"}},
        {"type": "hologram", "z": 1, "a": [{}]},
        "a string",
    ]);
    let entry = json!({"type": "message", "id": "a", "parentId": null,
        "message": {"role": "assistant", "content": content, "stopReason": "tool_use"}});
    let context = build(Reader::OPENCLAW, &session(&[entry]), At::Leaf);
    assert_eq!(
        messages(&context)[0],
        json!({"role": "assistant", "stopReason": "toolUse", "content": [
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"},
            {"type": "thinking", "thinking": "[Reasoning redacted]", "thinkingSignature": "eA==", "redacted": true},
            {"type": "text", "text": "so"},
            {"type": "toolCall", "id": "u1", "name": "write", "arguments": {"b": 1}},
            {"type": "toolCall", "id": "f1", "name": "run", "arguments": {"x": 1.5}},
            {"type": "image", "mimeType": "image/jpeg", "data": "/9j/"},
            {"type": "hologram", "z": 1, "a": [{}]},
            {"type": "text", "text": "a string"},
        ]})
    );
    // Numbers keep their digits, fields their order.
    let json = context.messages[0].json();
    assert!(json.contains(r#""arguments":{"x":1.50}"#), "{json}");
    let text = r#"{"role":"user","content":[{"type":"hologram","z":1e2,"a":[{}]}]}"#;
    let context = build(Reader::OPENCLAW, text, At::Leaf);
    let json = context.messages[0].json();
    assert_eq!(json, text);
}

#[test]
fn r16_delivery_mirrors_stay() {
    let mirror = json!({"type": "message", "id": "m", "parentId": "a", "message": {"role": "assistant",
        "api": "openai-responses", "provider": "openclaw", "model": "delivery-mirror",
        "content": [{"type": "text", "text": "sent"}], "stopReason": "stop"}});
    let entries = [user("a", Value::Null), mirror];
    check_context(Reader::OPENCLAW, &entries, Some("m"), &["a", "assistant:sent"]);
    // Both readers take the model of the last answer on the path, whichever program wrote it. So a
    // runtime sets its model before its turn, as after any other change.
    let lines: Vec<String> = entries.iter().map(Value::to_string).collect();
    for rules in [Reader::OPENCLAW, Reader::PI] {
        let model = build(rules, &lines.join("\n"), At::Leaf).model.unwrap();
        assert_eq!(model.provider.as_deref(), Some("openclaw"));
        assert_eq!(model.model_id.as_deref(), Some("delivery-mirror"));
    }
}

#[test]
fn messages_without_a_role_are_left_out() {
    let odd = |id: &str, message: Value| json!({"type": "message", "id": id, "parentId": "a", "message": message});
    for message in
        [json!({"role": null, "content": "x"}), json!(null), json!("x"), json!({"content": 1})]
    {
        let entries = [user("a", Value::Null), odd("b", message), user("c", json!("b"))];
        check_context(Reader::OPENCLAW, &entries, Some("c"), &["a", "c"]);
    }
    let empty = odd("b", json!({"role": "user", "content": null}));
    check_context(Reader::PI, &[user("a", Value::Null), empty], Some("b"), &["a", ""]);
}
