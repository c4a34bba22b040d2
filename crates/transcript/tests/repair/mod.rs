//! Tests repairs: the errors that are found, the entries of the repaired path, and that it is the
//! context that the broken session had.

use proptest::prelude::*;
use quipu_transcript::compaction::{Budget, Plan};
use quipu_transcript::context::{self, At, Context, Reader, Session, pairing};
use quipu_transcript::repair::{ChangeKind, Copies, Repair};
use quipu_transcript::routing::settings::Compaction;
use quipu_transcript::time::Timestamp;
use serde_json::{Value, json};

use super::{
    Lines, check_compaction, entries, event, few_cases, keeping, summary as digest_of, values,
};

const HEADER: &str = r#"{"type":"session","version":3,"id":"s"}"#;

fn texts(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).collect()
}

fn repair_of(reader: Reader, lines: &[String]) -> Repair {
    let mut session = Session::new(reader);
    session.extend(&texts(lines));
    session.repair_plan().fill(&|number| lines.get(number).map(String::as_str))
}

/// Returns the errors: the kind, the line or entry, and the call.
fn found(lines: &[String]) -> Vec<String> {
    let word = |word: &Option<String>| word.clone().unwrap_or_default();
    let changes = repair_of(Reader::OPENCLAW, lines).changes.into_iter();
    changes
        .map(|change| {
            let (entry, call, other) =
                (word(&change.entry), word(&change.call), word(&change.other));
            let line = change.line.unwrap_or_default();
            format!("{:?} {line} {entry} {call} {other}", change.kind).trim_end().to_owned()
        })
        .collect()
}

/// Returns the lines of the session after it is repaired: with a branch, or as a new session.
fn repaired(lines: &[String], copies: Copies) -> Vec<String> {
    let repair = repair_of(Reader::OPENCLAW, lines);
    let text = |number: usize| lines.get(number).map(String::as_str);
    let mut number = 0;
    let mut new_id = || -> Result<String, ()> {
        number += 1;
        Ok(format!("n{}-{number}", lines.len()))
    };
    let made = repair.continuation(copies, &text, &mut new_id, Timestamp(0)).unwrap();
    let mut all = match copies {
        Copies::Session => vec![HEADER.to_owned()],
        Copies::Branch => {
            let move_to = json!({"type": "leaf", "id": format!("leaf{}", lines.len()),
                "parentId": repair.leaf, "targetId": made.after});
            [lines, &[move_to.to_string()]].concat()
        }
    };
    all.extend(made.lines.iter().map(|line| line.trim_end().to_owned()));
    all
}

fn context(lines: &[String]) -> (Context, pairing::Repairs) {
    let context = context::of_lines(Reader::OPENCLAW, &texts(lines), At::Leaf).unwrap();
    let (messages, repairs) = pairing::pair(context.messages);
    (Context { messages, ..context }, repairs)
}

/// Checks both continuations of a session. Returns that of a branch.
fn check(lines: &[String]) -> Result<Vec<String>, TestCaseError> {
    let before = context(lines).0;
    let seen =
        values(&context::of_lines(Reader::OPENCLAW, &texts(lines), At::Leaf).unwrap().messages);
    let mut last = lines.to_vec();
    for copies in [Copies::Session, Copies::Branch] {
        let is_new = copies == Copies::Session;
        let repair = repair_of(Reader::OPENCLAW, lines);
        if !repair.is_needed(is_new) {
            prop_assert!(repair.changes.iter().all(|one| one.kind == ChangeKind::InvalidLine));
        }
        // A branch cannot have another header.
        if !is_new && repair.has_bad_header() {
            continue;
        }
        let after = repaired(lines, copies);
        if !is_new {
            prop_assert_eq!(&after[..lines.len()], lines, "the original stays");
        }
        let (context, _) = context(&after);
        prop_assert_eq!(values(&context.messages), values(&before.messages), "{:?}", copies);
        prop_assert_eq!(&context.model, &before.model);
        prop_assert_eq!(&context.thinking_level, &before.thinking_level);
        // What is repaired needs no repair.
        let again = repair_of(Reader::OPENCLAW, &after);
        prop_assert!(!again.is_needed(is_new), "{:?}: {:?}", copies, again.changes);
        // Nothing is invented without a mark.
        for message in values(&context.messages) {
            let is_marked = message["details"]["openclawSyntheticMissingToolResult"] == true;
            let is_same = |other: &Value| {
                let mut other = other.clone();
                for name in ["toolCallId", "toolName"] {
                    if message["role"] == "toolResult" {
                        other[name] = message[name].clone();
                    }
                }
                other == message
            };
            prop_assert!(is_marked || seen.iter().any(is_same), "{message}");
        }
        last = after;
    }
    Ok(last)
}

/// Checks what is found in a session, and both of its continuations.
#[track_caller]
fn expect(lines: &[&str], changes: &[&str]) -> Vec<Value> {
    let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    assert_eq!(found(&lines), changes);
    let after = check(&lines).unwrap();
    after.iter().skip(lines.len()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn user(id: &str, parent: &str) -> String {
    entry(id, parent, json!({"role": "user", "content": "go on"}))
}

fn calls(id: &str, parent: &str, calls: &[&str]) -> String {
    let call = |id: &&str| json!({"type": "toolCall", "id": id, "name": "read", "arguments": {}});
    let content: Vec<Value> = calls.iter().map(call).collect();
    entry(id, parent, json!({"role": "assistant", "content": content, "stopReason": "toolUse"}))
}

fn result(id: &str, parent: &str, call: &str) -> String {
    let message = json!({"role": "toolResult", "toolCallId": call, "toolName": "read",
        "content": [{"type": "text", "text": id}], "isError": false});
    entry(id, parent, message)
}

fn entry(id: &str, parent: &str, message: Value) -> String {
    let parent = Some(parent).filter(|parent| !parent.is_empty());
    json!({"type": "message", "id": id, "parentId": parent, "message": message}).to_string()
}

#[test]
fn r103_results_move_after_their_calls() {
    let lines =
        [user("a", ""), calls("b", "a", &["1", "2"]), user("c", "b"), result("d", "c", "1")];
    let lines: Vec<&str> = [HEADER].into_iter().chain(lines.iter().map(String::as_str)).collect();
    let branch = expect(&lines, &["ResultMissing 3 b 2", "ResultApart 5 d 1 b"]);
    // All entries after the call are copied; the entries before it stay.
    assert_eq!(branch[0]["targetId"], "b");
    assert_eq!(branch[1]["customType"], "quipu.repair");
    let counts = json!({"resultApart": 1, "resultMissing": 1});
    assert_eq!(branch[1]["data"], json!({"leaf": "d", "changes": counts}));
    let copied: Vec<&Value> = branch[2..].iter().map(|line| &line["quipuCopyOf"]).collect();
    assert_eq!(copied, [&json!("d"), &Value::Null, &json!("c")]);
    assert_eq!(branch[3]["message"]["isError"], true);
    assert_eq!(branch[3]["message"]["details"]["openclawSyntheticMissingToolResult"], true);
}

#[test]
fn r103_doubles_and_orphans_are_left_out() {
    let lines = [
        user("a", ""),
        result("b", "a", "nobody"),
        calls("c", "b", &["1"]),
        result("d", "c", "1"),
        result("e", "d", "1"),
    ];
    let lines: Vec<&str> = [HEADER].into_iter().chain(lines.iter().map(String::as_str)).collect();
    let branch = expect(&lines, &["ResultOrphaned 3 b nobody", "ResultDouble 6 e 1"]);
    let copied: Vec<&Value> = branch[2..].iter().map(|line| &line["quipuCopyOf"]).collect();
    assert_eq!(copied, ["c", "d"]);
}

#[test]
fn r103_results_of_one_answer_may_have_any_order() {
    let lines = [calls("a", "", &["1", "2"]), result("b", "a", "2"), result("c", "b", "1")];
    let lines: Vec<&str> = [HEADER].into_iter().chain(lines.iter().map(String::as_str)).collect();
    expect(&lines, &[]);
}

/// A call that failed or was stopped needs no result.
#[test]
fn r103_a_stopped_call_gets_no_result() {
    let stopped = calls("b", "a", &["1"]).replace("toolUse", "aborted");
    expect(&[HEADER, &user("a", ""), &stopped, &user("c", "b")], &[]);
}

#[test]
fn r103_a_result_without_an_id_gets_that_of_its_call() {
    let result = result("b", "a", "1").replace(r#""toolCallId":"1","#, "");
    let branch = expect(&[HEADER, &calls("a", "", &["1"]), &result], &["ResultUnnamed 3 b 1"]);
    assert_eq!(branch[2]["message"]["toolCallId"], "1");
}

/// Results before their calls belong to no call, and each call gets an error.
#[test]
fn r103_results_before_their_calls() {
    let lines = [result("a", "", "1"), calls("b", "a", &["1"]), user("c", "b")];
    let lines: Vec<&str> = [HEADER].into_iter().chain(lines.iter().map(String::as_str)).collect();
    expect(&lines, &["ResultOrphaned 2 a 1", "ResultMissing 3 b 1"]);
}

/// Results inside a message of the user, as other programs write them, are messages of their own.
#[test]
fn r103_results_in_a_message_of_the_user() {
    let content = json!([{"type": "tool_result", "tool_use_id": "1", "content": "late"},
        {"type": "text", "text": "go on"}]);
    let late = entry("c", "b", json!({"role": "user", "content": content}));
    let lines = [calls("a", "", &["1"]), user("b", "a"), late];
    let lines: Vec<&str> = [HEADER].into_iter().chain(lines.iter().map(String::as_str)).collect();
    let branch = expect(&lines, &["ResultApart 4 c 1 a"]);
    let roles: Vec<&Value> = branch[2..].iter().map(|line| &line["message"]["role"]).collect();
    assert_eq!(roles, ["toolResult", "user", "user"]);
}

#[test]
fn r102_invalid_lines_are_counted_and_left_out() {
    let no_role = json!({"type": "message", "id": "x", "parentId": "a", "message": {}}).to_string();
    let lines = [
        HEADER,
        &user("a", ""),
        "{\"type\":\"mess",
        "\0\0\0",
        "",
        "[1]",
        &no_role,
        &user("b", "x"),
    ];
    let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    let repair = repair_of(Reader::OPENCLAW, &lines);
    assert_eq!(repair.dropped_lines, 4);
    let expected = ["InvalidLine 3", "InvalidLine 4", "InvalidLine 6", "InvalidLine 7"];
    assert_eq!(found(&lines), expected);
    // A branch in the same session cannot remove them.
    assert!(repair.is_needed(true) && !repair.is_needed(false));
    check(&lines).unwrap();
    let after = repaired(&lines, Copies::Session);
    assert_eq!(repair_of(Reader::OPENCLAW, &after).dropped_lines, 0);
    assert_eq!(after.len(), 4, "{after:?}");
}

#[test]
fn r102_a_bad_header_is_found() {
    for header in ["[]", r#"{"type":"session","version":3}"#, r#"{"type":"custom","id":"c"}"#] {
        let lines = [header.to_owned(), user("a", "")];
        let repair = repair_of(Reader::OPENCLAW, &lines);
        assert!(repair.has_bad_header(), "{header}");
        check(&lines).unwrap();
    }
    for lines in [vec![], vec![String::new()], vec![HEADER.to_owned()]] {
        let repair = repair_of(Reader::OPENCLAW, &lines);
        assert!(!repair.has_bad_header() && !repair.is_needed(true), "{lines:?}");
    }
}

#[test]
fn r103_parents_that_lead_nowhere() {
    let branch =
        expect(&[HEADER, &user("a", "gone"), &user("b", "a")], &["MissingParent 2 a  gone"]);
    assert_eq!((&branch[0]["targetId"], &branch[1]["parentId"]), (&Value::Null, &Value::Null));
    expect(&[HEADER, &user("a", "b"), &user("b", "a")], &["CircularParent 2 a  b"]);
    expect(&[HEADER, &user("a", "a")], &["CircularParent 2 a  a"]);
    // Rows of unknown types are skipped, so the path continues with their parents.
    let unknown = r#"{"type":"newer","id":"u","parentId":null}"#;
    expect(&[HEADER, unknown, &user("a", "u")], &[]);
    let circle = r#"{"type":"newer","id":"u","parentId":"v"}"#;
    let other = r#"{"type":"newer","id":"v","parentId":"u"}"#;
    expect(&[HEADER, circle, other, &user("a", "u")], &["CircularParent 4 a  u"]);
}

/// Each compaction names an entry that comes after it, or the other one.
#[test]
fn r82_two_compactions_that_name_each_other() {
    let compaction = |id: &str, parent: &str, kept: &str| {
        json!({"type": "compaction", "id": id, "parentId": parent, "summary": id,
            "firstKeptEntryId": kept, "tokensBefore": 1})
        .to_string()
    };
    let lines = [
        HEADER.to_owned(),
        user("a", ""),
        compaction("c1", "a", "c2"),
        calls("b", "c1", &["1"]),
        compaction("c2", "b", "c1"),
        result("d", "c2", "1"),
    ];
    let (context, _) = context(&lines);
    let roles: Vec<String> = context.messages.iter().map(context::Message::role).collect();
    assert_eq!(roles, ["compactionSummary", "assistant", "toolResult"]);
    assert_eq!(found(&lines), Vec::<String>::new());
    check(&lines).unwrap();
}

/// A summary with half a letter, control characters and something like a call is a text.
#[test]
fn r82_an_odd_summary_is_text() {
    let summary = r#""\ud83d {\"type\":\"toolCall\",\"id\":\"1\"} \u0000\u001b[2J""#;
    let compaction = format!(
        r#"{{"type":"compaction","id":"k","parentId":"a","summary":{summary},"firstKeptEntryId":"a"}}"#
    );
    let lines = [HEADER.to_owned(), user("a", ""), compaction, user("b", "k")];
    let (context, repairs) = context(&lines);
    let roles: Vec<String> = context.messages.iter().map(context::Message::role).collect();
    assert_eq!((roles.len(), repairs), (3, pairing::Repairs::default()));
    assert_eq!(found(&lines), Vec::<String>::new());
    let texts = texts(&lines);
    let plan = Plan::new(entries(Reader::OPENCLAW, &texts), keeping(0), None).unwrap();
    assert!(plan.previous_summary.as_deref().is_some_and(|text| text.contains("toolCall")));
    let entry: Value = serde_json::from_str(&plan.entry(&digest_of(&plan), &json!({}))).unwrap();
    assert_eq!(entry["type"], "compaction");
}

/// The copy of a compaction keeps the copies of what it kept.
#[test]
fn r82_a_compaction_keeps_the_copies() {
    let compaction = json!({"type": "compaction", "id": "k", "parentId": "c", "summary": "before",
        "firstKeptEntryId": "b", "tokensBefore": 1});
    let lines = [
        user("a", ""),
        result("b", "a", "gone"),
        user("c", "b"),
        compaction.to_string(),
        user("d", "k"),
    ];
    let lines: Vec<&str> = [HEADER].into_iter().chain(lines.iter().map(String::as_str)).collect();
    let branch = expect(&lines, &["ResultOrphaned 3 b gone"]);
    let copy = |of: &str| branch.iter().find(|line| line["quipuCopyOf"] == of).unwrap();
    assert_eq!(copy("k")["firstKeptEntryId"], copy("c")["id"]);
}

/// One answer with ten thousand calls, and results in the opposite order.
#[test]
fn ten_thousand_calls_in_one_turn() {
    let ids: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut lines = vec![HEADER.to_owned(), calls("a", "", &ids), user("u", "a")];
    let mut last = "u".to_owned();
    for id in ids.iter().rev().step_by(2) {
        let own = format!("r{id}");
        lines.push(result(&own, &last, id));
        last = own;
    }
    let repair = repair_of(Reader::OPENCLAW, &lines);
    let count = |kind| repair.changes.iter().filter(|change| change.kind == kind).count();
    assert_eq!((count(ChangeKind::ResultApart), count(ChangeKind::ResultMissing)), (5000, 5000));
    let after = repaired(&lines, Copies::Branch);
    assert_eq!(repair_of(Reader::OPENCLAW, &after).changes, []);
    let (context, _) = context(&after);
    assert_eq!(context.messages.len(), 10_002);
}

/// Damage to the lines of a session.
#[derive(Debug, Clone)]
enum Harm {
    /// The line is lost.
    Lose(usize),
    /// The line is cut off.
    Tear(usize),
    /// The line is there twice.
    Repeat(usize),
    /// The line's parent is that line's entry.
    Reparent(usize, usize),
    /// Two lines change places.
    Swap(usize, usize),
    /// A field is lost.
    Field(usize, &'static str),
}

const FIELDS: &[&str] = &["parentId", "id", "message", "toolCallId", "role", "firstKeptEntryId"];

fn harm() -> impl Strategy<Value = Harm> {
    let line = 0..60_usize;
    prop_oneof![
        line.clone().prop_map(Harm::Lose),
        line.clone().prop_map(Harm::Tear),
        line.clone().prop_map(Harm::Repeat),
        (line.clone(), line.clone()).prop_map(|(line, to)| Harm::Reparent(line, to)),
        (line.clone(), line.clone()).prop_map(|(one, other)| Harm::Swap(one, other)),
        (line, prop::sample::select(FIELDS)).prop_map(|(line, name)| Harm::Field(line, name)),
    ]
}

fn damage(lines: &mut Vec<String>, harm: &Harm) {
    let count = lines.len();
    let value = |line: &String| serde_json::from_str::<Value>(line).ok();
    match harm {
        Harm::Lose(line) if *line < count => drop(lines.remove(*line)),
        Harm::Tear(line) if *line < count => {
            let length = lines[*line].len() / 2;
            lines[*line].truncate(length);
        }
        Harm::Repeat(line) if *line < count => lines.insert(*line, lines[*line].clone()),
        Harm::Reparent(line, to) if *line.max(to) < count => {
            let (Some(mut one), Some(to)) = (value(&lines[*line]), value(&lines[*to])) else {
                return;
            };
            one["parentId"] = to["id"].clone();
            lines[*line] = one.to_string();
        }
        Harm::Swap(one, other) if *one.max(other) < count => lines.swap(*one, *other),
        Harm::Field(line, name) if *line < count => {
            let Some(mut one) = value(&lines[*line]) else { return };
            if let Some(entry) = one.as_object_mut() {
                entry.remove(*name);
                if let Some(message) = entry.get_mut("message").and_then(Value::as_object_mut) {
                    message.remove(*name);
                }
            }
            lines[*line] = one.to_string();
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(few_cases())]

    /// After any history and any damage, the continuation has the same context, without any need
    /// of pairing; a second repair finds nothing, and a compaction of it is as good as of any other
    /// session.
    #[test]
    fn r103_any_session_is_repaired(
        events in prop::collection::vec(event(), 1..40),
        harms in prop::collection::vec(harm(), 0..5),
        keep in 0..600_u64,
        window in prop_oneof![Just(None), (1..2000_u64).prop_map(Some)],
    ) {
        let mut lines = Lines::of(&events);
        for harm in &harms {
            damage(&mut lines.lines, harm);
        }
        lines.lines = check(&lines.lines)?;
        let (_, repairs) = lines.context();
        let wrong = (repairs.added, repairs.duplicates, repairs.orphans);
        if !repair_of(Reader::OPENCLAW, &lines.lines).has_bad_header() {
            prop_assert_eq!(wrong, (0, 0, 0));
        }
        let settings = Compaction {
            keep_recent_tokens: Some(keep),
            reserve_tokens: Some(0),
            reserve_tokens_floor: Some(100),
            ..Compaction::default()
        };
        check_compaction(lines, Budget::new(&settings, window))?;
    }
}
