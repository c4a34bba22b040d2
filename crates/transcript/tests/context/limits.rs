//! Tests long, wide and hostile sessions.

use std::fmt::Write as _;

use proptest::prelude::*;
use quipu_transcript::context::{self, At, Reader, Session, pairing};
use serde_json::{Value, json};

const MANY: usize = 1_000_000;

/// Reads a session line by line, without keeping it, and returns for each leaf the number of lines
/// that the context needs and the number of its messages.
fn work(
    rules: Reader,
    line: &dyn Fn(usize, &mut String),
    places: &[At<'_>],
) -> Vec<(usize, usize)> {
    let mut session = Session::new(rules);
    let mut text = String::new();
    for number in 0..MANY {
        text.clear();
        line(number, &mut text);
        session.push(&text);
    }
    let look = |at: &At<'_>| {
        let mut text = String::new();
        let mut plan = session.plan(*at).unwrap();
        let wanted = plan.lines_left();
        while let Some(number) = plan.next_line() {
            text.clear();
            line(number, &mut text);
            plan.put(&text);
        }
        (wanted, plan.finish().messages.len())
    };
    places.iter().map(look).collect()
}

fn message(id: usize, parent: &dyn std::fmt::Display, out: &mut String) {
    write!(out, r#"{{"type":"message","id":"{id}","parentId":{parent},"message":{{"role":"user","content":"x"}}}}"#)
        .unwrap();
}

#[test]
fn a_chain_of_a_million_entries_is_read_from_its_compaction() {
    // With a compaction before the last ten, only eleven lines are read again.
    let chain = |number: usize, out: &mut String| match number {
        0 => out.push_str(r#"{"type":"session","version":3,"id":"s"}"#),
        1 => message(1, &"null", out),
        _ if number == MANY - 11 => write!(
            out,
            r#"{{"type":"compaction","id":"{number}","parentId":"{}","summary":"S"}}"#,
            number - 1
        )
        .unwrap(),
        _ => message(number, &format_args!("\"{}\"", number - 1), out),
    };
    for rules in [Reader::PI, Reader::OPENCLAW] {
        let places = [At::Leaf, At::Entry("1000")];
        assert_eq!(work(rules, &chain, &places), [(11, 11), (1000, 1000)]);
    }
}

#[test]
fn a_million_siblings_are_not_read() {
    let star = |number: usize, out: &mut String| match number {
        0 => message(0, &"null", out),
        _ => message(number, &"\"0\"", out),
    };
    for rules in [Reader::PI, Reader::OPENCLAW] {
        assert_eq!(work(rules, &star, &[At::Leaf]), [(2, 2)]);
    }
}

#[test]
fn a_million_hidden_rows_are_not_read() {
    // One half is a chain of unknown rows. Each row of the other half moves the leaf to its end.
    let half = MANY / 2;
    let hidden = |number: usize, out: &mut String| match number {
        0 => message(0, &"null", out),
        _ if number < half => {
            write!(out, r#"{{"type":"x","id":"{number}","parentId":"{}"}}"#, number - 1).unwrap();
        }
        _ => write!(
            out,
            r#"{{"type":"leaf","id":"{number}","parentId":"{}","targetId":"{}"}}"#,
            number - 1,
            half - 1
        )
        .unwrap(),
    };
    assert_eq!(work(Reader::OPENCLAW, &hidden, &[At::Leaf]), [(1, 1)]);
}

#[test]
fn deep_nesting_never_overflows() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let line = format!(
        r#"{{"type":"message","id":"a","parentId":null,"message":{{"role":"user","content":{deep},"x":{{"y":{deep}}}}}}}"#
    );
    for rules in [Reader::PI, Reader::OPENCLAW, Reader::CLAUDE_CODE] {
        let context = context::of_lines(rules, &[&line], At::Leaf).unwrap();
        assert!(context.messages.len() <= 1);
        pairing::pair(context.messages);
    }
}

/// Entries that refer to each other at random, in shapes that are nearly right.
fn entry() -> impl Strategy<Value = String> {
    let id = prop_oneof![4 => (0..12u8).prop_map(|id| json!(id.to_string())), 1 => Just(json!(null)),
                         1 => Just(json!(7)), 1 => Just(json!({}))];
    let types = prop::sample::select(vec![
        "message",
        "message",
        "message",
        "compaction",
        "reset",
        "leaf",
        "custom_message",
        "custom",
        "branch_summary",
        "context_edit",
        "model_change",
        "thinking_level_change",
        "label",
        "x",
        "session",
        "user",
        "assistant",
        "system",
    ]);
    let roles =
        prop::sample::select(vec!["user", "assistant", "toolResult", "system", "custom", ""]);
    let content = prop_oneof![
        Just(json!("text")),
        Just(json!(null)),
        Just(json!({"type": "text", "text": "t"})),
        Just(json!([{"type": "toolCall", "id": "c1", "name": "n", "arguments": {}}])),
        Just(json!([{"type": "tool_use", "id": "c2", "name": "n", "input": {}}, 5, null, "s"])),
        Just(json!([{"type": "tool_result", "tool_use_id": "c2", "content": [{}]}])),
    ];
    let keys = prop::collection::vec(any::<prop::sample::Index>(), 0..3);
    (types, id.clone(), id.clone(), id.clone(), roles, content, keys).prop_map(
        |(type_name, id, parent, other, role, content, cut)| {
            let mut entry = json!({"type": type_name, "id": id, "uuid": id, "parentId": parent,
                "parentUuid": parent, "targetId": other, "firstKeptEntryId": other,
                "appendParentId": parent, "summary": "S", "replacement": {"content": "R"},
                "appendMode": if other == json!(null) { json!("side") } else { json!(null) },
                "message": {"role": role, "content": content, "toolCallId": "c1", "model": "m",
                            "id": other},
                "content": content, "timestamp": "2026-01-01T00:00:00Z"});
            let object = entry.as_object_mut().unwrap();
            for index in cut {
                let key = index.get(&object.keys().cloned().collect::<Vec<_>>()).clone();
                object.remove(&key);
            }
            entry.to_string()
        },
    )
}

proptest! {
    #[test]
    fn any_lines_give_a_context(
        mut lines in prop::collection::vec(prop_oneof![8 => entry(), 1 => ".*"], 0..40),
        cut in any::<prop::sample::Index>(),
    ) {
        // A torn line in the middle.
        if let Some(line) = lines.get_mut(3) {
            let at = cut.index(line.len() + 1);
            *line = String::from_utf8_lossy(&line.as_bytes()[..at]).into_owned();
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        for rules in [Reader::PI, Reader::OPENCLAW, Reader::CLAUDE_CODE] {
            for at in [At::Leaf, At::Root, At::Entry("3"), At::Entry("#2")] {
                let Some(context) = context::of_lines(rules, &lines, at) else { continue };
                // No entry is shown twice.
                let results = 3;
                prop_assert!(context.messages.len() <= lines.len() * results);
                for message in &context.messages {
                    let message: Value = serde_json::from_str(message.json()).unwrap();
                    prop_assert!(message["role"].as_str().is_some_and(|role| !role.is_empty()));
                }
                let (paired, _) = pairing::pair(context.messages);
                let count = paired.len();
                // Pairing again changes nothing.
                let (again, repairs) = pairing::pair(paired);
                prop_assert_eq!(again.len(), count);
                prop_assert_eq!(repairs, pairing::Repairs::default());
            }
        }
    }
}
