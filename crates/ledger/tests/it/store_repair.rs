//! Repairs of sessions: what is found, what is written, and that it is written once.

use quipu_ledger::store::{Entry, Expect, NewSession, Repair, Session, Store, repair_of};
use quipu_ledger::{Append, Error};
use quipu_transcript::repair::{BAD_HEADER, ChangeKind};
use serde_json::{Value, json};

use crate::home::Home;

fn open(home: &Home) -> (Store, Session) {
    let store = Store::open(home.ledger_path()).unwrap();
    let session = store.create(&NewSession::default()).unwrap();
    (store, session)
}

fn calls(ids: &[&str]) -> Entry {
    let call = |id: &&str| json!({"type": "toolCall", "id": id, "name": "read", "arguments": {}});
    let content: Vec<Value> = ids.iter().map(call).collect();
    json!({"role": "assistant", "content": content, "provider": "p", "model": "m",
        "usage": {"input": 100, "output": 10, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 110}})
    .into()
}

fn result(id: &str) -> Entry {
    json!({"role": "toolResult", "toolCallId": id, "toolName": "read",
        "content": [{"type": "text", "text": id}], "isError": false})
    .into()
}

/// Appends a turn with every kind of error about results.
fn break_it(session: &Session) {
    session.append(Entry::user("go on")).unwrap();
    session.append(calls(&["1", "2"])).unwrap();
    session.append(Entry::user("how long?")).unwrap();
    session.append(result("1")).unwrap();
    session.append(result("1")).unwrap();
    session.append(result("nobody")).unwrap();
    session.append(calls(&["3"])).unwrap();
    session.append(result("3")).unwrap();
}

fn messages(session: &Session) -> Vec<Value> {
    let context = session.context().unwrap();
    context.messages.iter().map(|message| serde_json::from_str(message.json()).unwrap()).collect()
}

fn lines(home: &Home) -> i64 {
    home.one("SELECT count(*) FROM records")
}

fn kinds(repair: &Repair) -> Vec<ChangeKind> {
    repair.found.changes.iter().map(|change| change.kind).collect()
}

#[test]
fn r103_a_repair_is_a_branch_with_the_same_context() {
    let home = Home::quick();
    let (store, session) = open(&home);
    break_it(&session);
    let (before, leaf) = (messages(&session), session.leaf().unwrap());
    let repair = session.repair().unwrap();
    use ChangeKind::{ResultApart, ResultDouble, ResultMissing, ResultOrphaned};
    assert_eq!(kinds(&repair), [ResultMissing, ResultApart, ResultDouble, ResultOrphaned]);
    let repaired = store.apply_repair(&repair, false).unwrap().unwrap();
    assert_eq!((&repaired.session, repaired.repeated), (&session, false));
    assert_eq!(repaired.leaf, session.leaf().unwrap().map(|leaf| leaf.id));
    assert_eq!(messages(&session), before);
    // The original branch is still there, and the new one begins after the call.
    let tips: Vec<_> = session.branches().unwrap().into_iter().map(|one| one.tip).collect();
    assert_eq!(tips.first(), leaf.as_ref());
    assert_eq!(tips.len(), 2);
    // What is repaired needs no repair, and what was made is not made again.
    let again = session.repair().unwrap();
    assert!(!again.is_needed() && again.found.changes.is_empty(), "{:?}", again.found.changes);
    let written = lines(&home);
    assert!(store.apply_repair(&again, false).unwrap().is_none());
    let repeated = store.apply_repair(&repair, false).unwrap().unwrap();
    assert!(repeated.repeated);
    assert_eq!((repeated.leaf, lines(&home)), (repaired.leaf, written));
    session.append(Entry::user("thanks")).unwrap();
    assert_eq!(messages(&session).len(), before.len() + 1);
    home.assert_sound();
}

/// A copied answer was given once.
/// After its leaf was moved back to before a repair, a session can be repaired again.
#[test]
fn r103_a_repair_that_was_left_is_made_again() {
    let home = Home::quick();
    let (store, session) = open(&home);
    break_it(&session);
    let leaf = session.leaf().unwrap().unwrap().id;
    let repair = || store.apply_repair(&session.repair().unwrap(), false).unwrap();
    let first = repair().unwrap();
    session.branch(Some(&leaf), None).unwrap();
    let second = repair().unwrap();
    assert!(!second.repeated && second.leaf != first.leaf);
    assert_eq!(second.leaf, session.leaf().unwrap().map(|leaf| leaf.id));
    assert!(!session.repair().unwrap().is_needed() && repair().is_none());
}

#[test]
fn r103_usage_of_copies_is_counted_once() {
    let home = Home::quick();
    let (store, session) = open(&home);
    break_it(&session);
    store.catch_up().unwrap();
    let sum = "SELECT sum(input_tokens) FROM usage WHERE is_counted";
    assert_eq!(home.one::<i64>(sum), 200);
    store.apply_repair(&session.repair().unwrap(), false).unwrap().unwrap();
    let answers = "SELECT count(*) FROM entries WHERE role = 'assistant'";
    assert_eq!(home.one::<i64>(answers), 3);
    assert_eq!(home.one::<i64>(sum), 200);
    home.assert_sound();
}

#[test]
fn a_session_with_another_leaf_is_a_conflict() {
    let home = Home::quick();
    let (store, session) = open(&home);
    break_it(&session);
    let repair = session.repair().unwrap();
    let leaf = session.append(Entry::user("from another writer")).unwrap().id;
    let written = lines(&home);
    let applied = store.apply_repair(&repair, false);
    assert!(matches!(&applied, Err(Error::Conflict { leaf: Some(now), .. }) if *now == leaf));
    assert_eq!(lines(&home), written);
    // The next one includes that entry.
    store.apply_repair(&session.repair().unwrap(), false).unwrap().unwrap();
    assert_eq!(messages(&session).last().unwrap()["content"], "from another writer");
    assert!(!session.repair().unwrap().is_needed());
}

/// If the last entry is left out, the branch still ends at the entry before it.
#[test]
fn r103_a_branch_may_lack_the_last_entry() {
    let home = Home::quick();
    let (store, session) = open(&home);
    session.append(Entry::user("go on")).unwrap();
    session.append(result("nobody")).unwrap();
    store.apply_repair(&session.repair().unwrap(), false).unwrap().unwrap();
    assert_eq!(messages(&session).len(), 1);
    assert!(!session.repair().unwrap().is_needed());
    // An append that expects the old leaf is a conflict.
    let expected = Append { expected_leaf: Expect::Root, ..Append::default() };
    assert!(session.with(expected).append(Entry::user("?")).is_err());
}

#[test]
fn r103_nothing_is_written_where_nothing_is_wrong() {
    let home = Home::quick();
    let (store, session) = open(&home);
    assert!(!session.repair().unwrap().is_needed());
    session.append(Entry::user("go on")).unwrap();
    session.append(calls(&["1", "2"])).unwrap();
    session.append(result("2")).unwrap();
    session.append(result("1")).unwrap();
    let repair = session.repair().unwrap();
    assert!(!repair.is_needed());
    let written = lines(&home);
    assert!(store.apply_repair(&repair, true).unwrap().is_none());
    assert_eq!(lines(&home), written);
}

const HEADER: &str =
    r#"{"type":"session","version":3,"id":"bad","timestamp":"2026-01-01T00:00:00.000Z"}"#;

/// Writes a transcript of OpenClaw and collects it.
fn collected(home: &Home, lines: &[&str]) {
    home.write(".openclaw/agents/main/sessions/bad.jsonl", lines.join("\n") + "\n");
    home.sync();
}

const PROMPT: &str = r#"{"type":"message","id":"a1","parentId":"gone","timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"go on"}}"#;
const CALL: &str = r#"{"type":"message","id":"a2","parentId":"a1","timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"assistant","content":[{"type":"toolCall","id":"1","name":"read","arguments":{}}]}}"#;
const LABEL: &str = r#"{"type":"label","id":"a3","parentId":"a2","timestamp":"2026-01-01T00:00:01.000Z","targetId":"a1","label":"here"}"#;

#[test]
fn r102_a_collected_session_is_repaired_in_a_new_one() {
    let home = Home::quick();
    collected(&home, &[HEADER, PROMPT, "{\"type\":\"mess", CALL, "\0\0", LABEL]);
    let store = Store::open(home.ledger_path()).unwrap();
    let repair = store.repair("bad").unwrap();
    assert_eq!(repair.found.dropped_lines, 2);
    use ChangeKind::{InvalidLine, MissingParent, ResultMissing};
    assert_eq!(kinds(&repair), [InvalidLine, InvalidLine, MissingParent, ResultMissing]);
    let repaired = store.apply_repair(&repair, false).unwrap().unwrap();
    let session = repaired.session;
    assert_ne!(session.id(), "bad");
    let roles: Vec<Value> = messages(&session).iter().map(|one| one["role"].clone()).collect();
    assert_eq!(roles, ["user", "assistant", "toolResult"]);
    assert!(session.entry("a1").unwrap().is_some(), "copies keep their ids");
    assert_eq!(session.labels().unwrap()[0].entry_id, "a1");
    let again = session.repair().unwrap();
    assert!(again.found.changes.is_empty(), "{:?}", again.found.changes);
    // The same repair is one session, also after a restart.
    let store = Store::open(home.ledger_path()).unwrap();
    let written = lines(&home);
    let repeated = store.apply_repair(&store.repair("bad").unwrap(), false).unwrap().unwrap();
    assert_eq!((repeated.session.id(), repeated.repeated), (session.id(), true));
    assert_eq!(lines(&home), written);
    home.assert_sound();
}

#[test]
fn r102_a_session_that_grew_meanwhile_is_a_conflict() {
    let home = Home::quick();
    collected(&home, &[HEADER, PROMPT]);
    let store = Store::open(home.ledger_path()).unwrap();
    let repair = store.repair("bad").unwrap();
    collected(&home, &[HEADER, PROMPT, CALL]);
    assert!(matches!(store.apply_repair(&repair, false), Err(Error::Conflict { .. })));
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 1);
}

#[test]
fn r102_a_bad_header_is_rebuilt_only_if_wanted() {
    let home = Home::quick();
    collected(&home, &[r#"{"type":"session","version":3}"#, PROMPT]);
    let store = Store::open(home.ledger_path()).unwrap();
    let repair = store.repair("bad").unwrap();
    assert_eq!((repair.reason(false), repair.reason(true)), (Some(BAD_HEADER), None));
    let written = lines(&home);
    assert!(store.apply_repair(&repair, false).unwrap().is_none());
    assert_eq!(lines(&home), written);
    let session = store.apply_repair(&repair, true).unwrap().unwrap().session;
    assert!(session.repair().unwrap().found.changes.is_empty());
    assert_eq!(messages(&session).len(), 1);
}

/// A line of 40 MiB is more than a reader decodes whole; its copy is whole.
#[test]
fn a_message_of_40_mib_is_copied() {
    let home = Home::quick();
    let long = PROMPT.replace("go on", &"x".repeat(40 << 20));
    collected(&home, &[HEADER, &long, CALL]);
    let store = Store::open(home.ledger_path()).unwrap();
    let repair = store.repair("bad").unwrap();
    let session = store.apply_repair(&repair, false).unwrap().unwrap().session;
    let longest = "SELECT max(length) FROM records r JOIN generations g ON g.id = r.generation
                     JOIN sources s ON s.id = g.source WHERE s.kind = 'native'";
    assert!(home.one::<i64>(longest) > 40 << 20);
    assert!(!session.repair().unwrap().is_needed());
}

/// Whatever is collected, its repair is found, and its continuation needs none.
#[test]
fn every_collected_session_can_be_repaired() {
    let home = Home::with_fixtures();
    home.sync();
    let store = Store::open(home.ledger_path()).unwrap();
    let mut formats = Vec::new();
    for name in home.all("SELECT format || '/' || session_id FROM sessions") {
        let name = name.trim_matches('\'').to_owned();
        let ledger = home.open();
        let row = home.row(&name);
        let repair = match repair_of(&ledger, row) {
            Err(Error::NoContext { .. }) => continue,
            repair => repair.unwrap(),
        };
        let before = quipu_ledger::query::context_of(&ledger, row, None);
        drop(ledger);
        let Some(made) = store.apply_repair(&repair, true).unwrap() else { continue };
        let again = made.session.repair().unwrap();
        assert!(again.found.changes.is_empty(), "{name}: {:?}", again.found.changes);
        if made.unmapped == 0 {
            let roles = |context: &quipu_ledger::Context| -> Vec<String> {
                context.messages.iter().map(quipu_ledger::Message::role).collect()
            };
            let after = made.session.context().unwrap();
            assert_eq!(roles(&after), roles(&before.unwrap().context), "{name}");
        }
        formats.push(name.split('/').next().unwrap().to_owned());
    }
    for format in ["claude-code", "openclaw"] {
        assert!(formats.iter().any(|found| found == format), "{format}: {formats:?}");
    }
}
