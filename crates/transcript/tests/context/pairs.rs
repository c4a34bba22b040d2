//! Tests the pairing of calls and results.

use quipu_transcript::context::pairing::{self, Repairs};
use quipu_transcript::context::{At, Context, Reader};
use serde_json::{Value, json};

use crate::build;
use crate::rules::{rendered, session};

fn calls(ids: &[&str], stop: &str) -> Value {
    let blocks: Vec<Value> = ids
        .iter()
        .map(|id| json!({"type": "toolCall", "id": id, "name": format!("tool-{id}"), "arguments": {}}))
        .collect();
    json!({"role": "assistant", "content": blocks, "stopReason": stop, "timestamp": 7})
}

fn result(id: &str, text: &str) -> Value {
    json!({"role": "toolResult", "toolCallId": id, "toolName": "t", "isError": false,
           "content": [{"type": "text", "text": text}]})
}

fn user_text(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// Returns the messages of a session, paired.
fn pair(messages: &[Value]) -> (Context, Repairs) {
    let entries: Vec<Value> =
        messages.iter().map(|message| json!({"type": "message", "message": message})).collect();
    let mut context = build(Reader::OPENCLAW, &session(&entries), At::Leaf);
    assert_eq!(context.messages.len(), messages.len());
    let (paired, repairs) = pairing::pair(std::mem::take(&mut context.messages));
    context.messages = paired;
    (context, repairs)
}

#[test]
fn r103_results_move_after_their_calls() {
    let (context, repairs) = pair(&[
        calls(&["a", "b"], "toolUse"),
        user_text("meanwhile"),
        result("b", "B"),
        user_text("later"),
        calls(&["c"], "toolUse"),
        result("a", "A"),
        result("c", "C"),
    ]);
    assert_eq!(
        rendered(&context),
        [
            "assistant:tool-a({})+tool-b({})",
            "toolResult:A",
            "toolResult:B",
            "meanwhile",
            "later",
            "assistant:tool-c({})",
            "toolResult:C"
        ]
    );
    assert_eq!((repairs.added, repairs.duplicates, repairs.orphans), (0, 0, 0));
    assert!(repairs.moved >= 2);
}

#[test]
fn r103_a_missing_result_is_reported() {
    let (context, repairs) = pair(&[calls(&["a"], "toolUse"), user_text("go on")]);
    assert_eq!(repairs, Repairs { added: 1, ..Repairs::default() });
    let missing: Value = serde_json::from_str(context.messages[1].json()).unwrap();
    assert_eq!(
        missing,
        json!({"role": "toolResult", "toolCallId": "a", "toolName": "tool-a",
            "content": [{"type": "text", "text": "[openclaw] missing tool result in session history; inserted synthetic error result for transcript repair."}],
            "details": {"openclawSyntheticMissingToolResult": true}, "isError": true, "timestamp": 7})
    );
    // A call that failed or was stopped gets no result.
    for stop in ["error", "aborted"] {
        let (context, repairs) = pair(&[calls(&["a"], stop), user_text("go on")]);
        assert_eq!((context.messages.len(), repairs), (2, Repairs::default()));
    }
}

#[test]
fn r103_duplicates_and_orphans_are_dropped() {
    let (context, repairs) = pair(&[
        result("before", "too early"),
        calls(&["a"], "toolUse"),
        result("a", "first"),
        result("a", "second"),
        result("missing", "lost"),
    ]);
    assert_eq!(rendered(&context), ["assistant:tool-a({})", "toolResult:first"]);
    assert_eq!(repairs, Repairs { duplicates: 1, orphans: 2, ..Repairs::default() });
}

#[test]
fn r103_a_real_result_wins_over_a_synthetic_one() {
    let mut synthetic = result("a", "stands for it");
    synthetic["isError"] = json!(true);
    synthetic["details"] = json!({"openclawSyntheticMissingToolResult": true});
    let (context, _) = pair(&[calls(&["a"], "toolUse"), synthetic.clone(), result("a", "real")]);
    assert_eq!(rendered(&context), ["assistant:tool-a({})", "toolResult:real"]);
    let (context, _) = pair(&[calls(&["a"], "toolUse"), result("a", "real"), synthetic]);
    assert_eq!(rendered(&context), ["assistant:tool-a({})", "toolResult:real"]);
}

#[test]
fn r19_a_result_without_an_id_answers_the_oldest_open_call() {
    let mut nameless = result("", "first");
    nameless.as_object_mut().unwrap().remove("toolCallId");
    nameless.as_object_mut().unwrap().remove("toolName");
    let mut second = nameless.clone();
    second["content"][0]["text"] = json!("second");
    let (context, repairs) = pair(&[calls(&["a", "b"], "toolUse"), nameless, second]);
    assert_eq!(repairs, Repairs::default());
    let ids: Vec<Value> = context.messages[1..]
        .iter()
        .map(|message| serde_json::from_str::<Value>(message.json()).unwrap())
        .map(|message| {
            json!([message["toolCallId"], message["toolName"], message["content"][0]["text"]])
        })
        .collect();
    assert_eq!(ids, [json!(["a", "tool-a", "first"]), json!(["b", "tool-b", "second"])]);
}

#[test]
fn r19_an_id_that_is_used_again_later() {
    let (context, repairs) = pair(&[
        calls(&["a"], "toolUse"),
        result("a", "1"),
        calls(&["a"], "toolUse"),
        result("a", "2"),
    ]);
    assert_eq!(
        rendered(&context),
        ["assistant:tool-a({})", "toolResult:1", "assistant:tool-a({})", "toolResult:2"]
    );
    assert_eq!(repairs, Repairs::default());
}
