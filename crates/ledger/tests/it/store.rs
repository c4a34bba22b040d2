//! The store against a simple model, and what every call promises.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use quipu_ledger::store::{
    Append, Appended, Expect, Fields, Fork, NativeSession, NewSession, Store,
};
use quipu_ledger::{Error, Generations};
use quipu_transcript::key::SessionKey;
use serde_json::{Map, Value, json};

use crate::home::{Home, line, uuid};

fn user(text: &str) -> String {
    json!({"role": "user", "content": text}).to_string()
}

fn answer(text: &str) -> String {
    json!({"role": "assistant", "content": text, "provider": "p", "model": "m",
           "usage": {"input": 7, "output": 3, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 10}})
    .to_string()
}

fn store(home: &Home) -> (Store, NativeSession) {
    let mut store = Store::open(&home.ledger_path()).unwrap();
    let session = store.create(&NewSession::default()).unwrap();
    (store, session)
}

/// The texts that a model sees.
fn said(store: &mut Store, session: &NativeSession, leaf: Option<&str>) -> Vec<String> {
    let seen = store.context(session, leaf).unwrap().context;
    seen.messages
        .iter()
        .map(|message| {
            let message: Value = serde_json::from_str(message.json()).unwrap();
            let text = &message["content"];
            text.as_str().or(text[0]["text"].as_str()).unwrap().to_owned()
        })
        .collect()
}

#[test]
fn r90_branching_never_loses_an_entry() {
    let home = Home::quick();
    let (mut store, session) = store(&home);
    let one = store.append(&session, &user("one"), Append::default()).unwrap();
    let two = store.append(&session, &answer("two"), Append::default()).unwrap();
    assert_eq!(two.leaf.as_deref(), Some(&*two.id));
    let moved = store.branch(&session, Some(&one.id), None, Append::default()).unwrap();
    assert_eq!(moved.leaf.as_deref(), Some(&*one.id));
    let other = store.append(&session, &answer("three"), Append::default()).unwrap();
    assert_eq!(said(&mut store, &session, None), ["one", "three"]);
    assert_eq!(said(&mut store, &session, Some(&two.id)), ["one", "two"]);
    let tips: Vec<String> =
        store.branches(&session).unwrap().into_iter().map(|branch| branch.tip.id).collect();
    assert_eq!(tips, [two.id.clone(), other.id.clone()]);
    let shared = store.common_ancestor(&session, &two.id, &other.id).unwrap().unwrap();
    assert_eq!(shared.id, one.id);
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn r91_a_turn_begun_on_an_unanswered_prompt_takes_its_place() {
    let home = Home::quick();
    let (mut store, session) = store(&home);
    let first = store.begin_turn(&session, &user("lost"), Append::default()).unwrap();
    let again = store.begin_turn(&session, &user("again"), Append::default()).unwrap();
    assert_eq!(said(&mut store, &session, None), ["again"]);
    assert_eq!(store.entry(&session, &again.id).unwrap().unwrap().parent, None);
    store.append(&session, &answer("yes"), Append::default()).unwrap();
    store.begin_turn(&session, &user("next"), Append::default()).unwrap();
    store.begin_turn(&session, &user("better"), Append::default()).unwrap();
    assert_eq!(said(&mut store, &session, None), ["again", "yes", "better"]);
    // A plain append drops nothing.
    store.append(&session, &user("more"), Append::default()).unwrap();
    assert_eq!(said(&mut store, &session, None), ["again", "yes", "better", "more"]);
    assert_eq!(said(&mut store, &session, Some(&first.id)), ["lost"]);
    let refused = store.begin_turn(&session, &answer("no"), Append::default());
    assert!(matches!(refused, Err(Error::Refused { .. })));
    // A parent that is named is the parent.
    let leaf = store.leaf(&session).unwrap().unwrap().id;
    let at = |parent: Value| {
        json!({"type": "message", "parentId": parent, "message": {"role": "user", "content": "at"}})
            .to_string()
    };
    let there = store.begin_turn(&session, &at(json!(leaf)), Append::default()).unwrap();
    assert_eq!(store.entry(&session, &there.id).unwrap().unwrap().parent, Some(leaf));
    let root = store.begin_turn(&session, &at(Value::Null), Append::default()).unwrap();
    assert_eq!(store.entry(&session, &root.id).unwrap().unwrap().parent, None);
    let lost = store.begin_turn(&session, &at(json!("nobody")), Append::default());
    assert!(matches!(lost, Err(Error::NoMatch { .. })));
}

/// Also where something was noted behind it, whether that is in the projection yet or not.
#[test]
fn labels_and_names_are_no_answer() {
    for settles in [false, true] {
        let home = Home::quick();
        let (mut store, session) = store(&home);
        store.append(&session, &answer("hello"), Append::default()).unwrap();
        let lost = store.begin_turn(&session, &user("lost"), Append::default()).unwrap();
        store.label(&session, &lost.id, Some("here"), Append::default()).unwrap();
        let name = json!({"type": "session_info", "name": "talk"}).to_string();
        store.append(&session, &name, Append::default()).unwrap();
        if settles {
            store.settle().unwrap();
        }
        store.begin_turn(&session, &user("again"), Append::default()).unwrap();
        assert_eq!(said(&mut store, &session, None), ["hello", "again"]);
        store.append(&session, &answer("yes"), Append::default()).unwrap();
        store.label(&session, &lost.id, None, Append::default()).unwrap();
        store.begin_turn(&session, &user("next"), Append::default()).unwrap();
        assert_eq!(said(&mut store, &session, None), ["hello", "again", "yes", "next"]);
        drop(store);
        home.assert_sound();
    }
}

#[test]
fn a_wrong_leaf_is_a_conflict_that_names_the_right_one() {
    let home = Home::quick();
    let (mut store, session) = store(&home);
    let at = |leaf| Append { expected_leaf: leaf, ..Append::default() };
    let one = store.append(&session, &user("one"), at(Expect::Root)).unwrap();
    let before = home.one::<i64>("SELECT count(*) FROM records");
    for wrong in [Expect::Root, Expect::Entry("nobody")] {
        match store.append(&session, &answer("no"), at(wrong)) {
            Err(Error::Conflict { leaf, .. }) => assert_eq!(leaf.as_deref(), Some(&*one.id)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), before);
    store.append(&session, &answer("two"), at(Expect::Entry(&one.id))).unwrap();
}

#[test]
fn a_retry_finds_its_first_try() {
    let home = Home::quick();
    let (mut store, session) = store(&home);
    let keyed = Append { key: Some("run-1"), ..Append::default() };
    let one = store.append(&session, &user("one"), keyed).unwrap();
    store.append(&session, &answer("two"), Append::default()).unwrap();
    // Another process tries again, and does not know what came after.
    let mut other = Store::open(&home.ledger_path()).unwrap();
    let late = Append { key: Some("run-1"), expected_leaf: Expect::Root, ..Append::default() };
    let again = other.append(&session, &user("one"), late).unwrap();
    assert!(again.repeated && !one.repeated);
    assert_eq!((&again.id, again.seq), (&one.id, one.seq));
    // Parts of a batch have words that nobody can say.
    let part = |part| Append { key: Some("run-1"), part, ..Append::default() };
    let two = other.append(&session, &user("part"), part(2)).unwrap();
    for word in ["run-1#2", "run-12", "run-1 2"] {
        let own = Append { key: Some(word), ..Append::default() };
        assert!(!other.append(&session, &user("own"), own).unwrap().repeated, "{word}");
    }
    assert_eq!(other.append(&session, &user("part"), part(2)).unwrap().id, two.id);
    for word in ["", "run-1\u{1f}2", "a\nb", &"x".repeat(513)] {
        let bad = Append { key: Some(word), ..Append::default() };
        let bad = other.append(&session, &user("bad"), bad);
        assert!(matches!(bad, Err(Error::Refused { .. })), "{word:?}: {bad:?}");
    }
    // Another body is another entry: the first one is named, and nothing is written.
    let before = home.one::<i64>("SELECT count(*) FROM records");
    for (keyed, first) in [(keyed, &one), (part(2), &two)] {
        let body = other.append(&session, &user("another"), keyed);
        let Err(Error::KeyUsed { key, entry }) = &body else { panic!("{body:?}") };
        assert_eq!((&**key, entry), ("run-1", &first.id));
    }
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), before);
    // Where the writer stood belongs to the first try.
    let summary = Append { key: Some("branch"), ..Append::default() };
    let left = other.branch(&session, Some(&one.id), Some("left"), summary).unwrap();
    let again = other.branch(&session, Some(&one.id), Some("left"), summary).unwrap();
    assert_eq!((again.id, again.repeated), (left.id, true));
    // A key is a session's own.
    let session = other.create(&NewSession::default()).unwrap();
    assert!(!other.append(&session, &user("one"), keyed).unwrap().repeated);
}

#[test]
fn bad_entries_are_refused_and_nothing_is_written() {
    let home = Home::quick();
    let (mut store, session) = store(&home);
    let one = store.append(&session, &user("one"), Append::default()).unwrap();
    let side = json!({"type": "custom", "customType": "x", "appendMode": "side"}).to_string();
    let side = store.append(&session, &side, Append::default()).unwrap();
    assert_eq!(side.leaf.as_deref(), Some(&*one.id), "side rows are never the leaf");
    let before = home.one::<i64>("SELECT count(*) FROM records");
    for (entry, why) in [
        ("nonsense".to_owned(), "not a JSON object"),
        (
            json!({"type": "custom", "customType": "x", "parentId": "nobody"}).to_string(),
            "no entry",
        ),
        (json!({"type": "custom", "customType": "x", "parentId": side.id}).to_string(), "beside"),
        (json!({"type": "custom", "customType": "x", "id": one.id}).to_string(), "already"),
        (json!({"type": "label", "targetId": "nobody"}).to_string(), "no entry"),
        (json!({"type": "leaf", "targetId": "nobody"}).to_string(), "no entry"),
        (
            json!({"type": "compaction", "summary": "s", "firstKeptEntryId": "nobody"}).to_string(),
            "no entry",
        ),
        (json!({"role": "wizard", "content": ""}).to_string(), "unknown role"),
        (json!({"type": "custom", "customType": "x", "id": "root"}).to_string(), "an id must"),
    ] {
        let error = store.append(&session, &entry, Append::default()).unwrap_err().to_string();
        assert!(error.contains(why), "{entry}: {error}");
    }
    let empty = store.mirror(&session, " \n", Append::default()).unwrap_err().to_string();
    assert!(empty.contains("the text is empty"), "{empty}");
    let long = json!({"note": "x".repeat(1 << 20)}).as_object().unwrap().clone();
    let long = store.patch_meta(&session, &long).unwrap_err().to_string();
    assert!(long.contains("too long"), "{long}");
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), before);
    store.settle().unwrap();
    home.assert_rebuilds();
}

#[test]
fn r71_an_open_session_decodes_each_record_once_and_sees_what_others_append() {
    let home = Home::quick();
    let (mut store, session) = store(&home);
    for turn in 0..100 {
        store.begin_turn(&session, &user(&format!("q{turn}")), Append::default()).unwrap();
        assert_eq!(said(&mut store, &session, None).len(), 2 * turn + 1);
        store.append(&session, &answer(&format!("a{turn}")), Append::default()).unwrap();
    }
    // The header and 200 messages, of which the last was not asked for yet.
    assert_eq!(store.records_decoded(), 200);
    let mut other = Store::open(&home.ledger_path()).unwrap();
    other.append(&session, &user("from elsewhere"), Append::default()).unwrap();
    assert_eq!(said(&mut store, &session, None).last().unwrap(), "from elsewhere");
    assert_eq!(store.records_decoded(), 202);
    store.append(&session, &answer("seen"), Append::default()).unwrap();
    store.settle().unwrap();
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn r92_a_fork_copies_the_path_and_names_its_parent() {
    let home = Home::quick();
    let (mut store, session) = store(&home);
    let one = store.append(&session, &user("one"), Append::default()).unwrap();
    let label = store.label(&session, &one.id, Some("start"), Append::default()).unwrap();
    let two = store.append(&session, &answer("two"), Append::default()).unwrap();
    let kept = json!({"type": "compaction", "summary": "so far", "tokensBefore": 9,
                      "firstKeptEntryId": label.id});
    store.append(&session, &kept.to_string(), Append::default()).unwrap();
    store.append(&session, &user("three"), Append::default()).unwrap();
    let before = said_roles(&mut store, &session);
    let fork = store.fork(session.row, &Fork::default()).unwrap().session;
    assert_eq!(said_roles(&mut store, &fork), before);
    // The label is behind the path, and what hung off it hangs off its parent.
    let second = store.entry(&fork, &two.id).unwrap().unwrap();
    assert_eq!(second.parent.as_deref(), Some(&*one.id));
    let leaf = store.leaf(&fork).unwrap().unwrap();
    assert_eq!(leaf.type_name, "label");
    assert_eq!(
        home.one::<String>("SELECT fork_of FROM sessions ORDER BY id DESC LIMIT 1"),
        session.id
    );
    // What stayed the same is stored once.
    assert!(home.one::<i64>("SELECT count(*) FROM records WHERE same_as IS NOT NULL") > 0);
    // Both are billed once.
    assert_eq!(home.one::<i64>("SELECT sum(input) FROM usage WHERE is_counted"), 7);
    // Without an entry it only refers to its parent.
    let empty = store.create(&NewSession::default()).unwrap();
    let fork = store.fork(empty.row, &Fork::default()).unwrap().session;
    assert!(store.leaf(&fork).unwrap().is_none());
    assert_eq!(
        home.one::<String>("SELECT fork_of FROM sessions ORDER BY id DESC LIMIT 1"),
        empty.id
    );
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn r92_others_go_on_while_and_after_a_long_session_is_forked() {
    let home = Home::quick();
    let (mut store, session) = store(&home);
    let aside = store.create(&NewSession::default()).unwrap();
    let first = store.append(&aside, &user("aside"), Append::default()).unwrap();
    for number in 0..400 {
        store.append(&session, &user(&format!("line {number}")), Append::default()).unwrap();
    }
    let label = store.leaf(&session).unwrap().unwrap().id;
    store.label(&session, &label, Some("here"), Append::default()).unwrap();
    let fork = store.fork(session.row, &Fork::default()).unwrap().session;
    // Others go on, with other sessions and with this one.
    let mut other = Store::open(&home.ledger_path()).unwrap();
    let expected_leaf = Expect::Entry(&first.id);
    let how = Append { expected_leaf, ..Append::default() };
    other.append(&aside, &user("goes on"), how).unwrap();
    other.append(&fork, &user("goes on, too"), Append::default()).unwrap();
    let mut lines = said(&mut other, &session, None);
    lines.push("goes on, too".to_owned());
    assert_eq!(said(&mut other, &fork, None), lines);
    assert_eq!(said(&mut store, &fork, None), lines);
    assert_eq!(said(&mut store, &aside, None), ["aside", "goes on"]);
    drop((store, other));
    home.assert_rebuilds();
    home.assert_sound();
}

fn said_roles(store: &mut Store, session: &NativeSession) -> Vec<String> {
    let seen = store.context(session, None).unwrap().context;
    seen.messages.iter().map(|message| message.json().to_owned()).collect()
}

#[test]
fn a_collected_session_can_be_forked_but_not_written_to() {
    let home = Home::new();
    let path = ".openclaw/agents/main/sessions/abc.jsonl";
    let lines = concat!(
        r#"{"type":"session","version":3,"id":"abc","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}"#,
        "\n",
        r#"{"type":"message","id":"0000000a","parentId":null,"timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":"one"}}"#,
        "\n",
    );
    home.write(path, lines);
    home.sync();
    let mut store = Store::open(&home.ledger_path()).unwrap();
    let row = store.find("abc").unwrap();
    assert!(matches!(store.session(row), Err(Error::Collected { .. })));
    let fork = store.fork(row, &Fork::default()).unwrap().session;
    store.append(&fork, &answer("two"), Append::default()).unwrap();
    assert_eq!(said(&mut store, &fork, None), ["one", "two"]);
    home.sync();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sources WHERE is_gone"), 0);
    home.assert_rebuilds();
    home.assert_sound();
    home.assert_restores();
}

#[test]
fn any_session_can_be_looked_at_in_a_ledger_that_is_only_read() {
    let home = Home::new();
    let path = ".openclaw/agents/main/sessions/abc.jsonl";
    let entry = |id: &str, parent: Value| {
        json!({"type": "message", "id": id, "parentId": parent,
               "timestamp": "2026-01-01T00:00:01.000Z",
               "message": {"role": "user", "content": id}})
    };
    let label = json!({"type": "label", "id": "l", "parentId": "c", "targetId": "a",
                       "label": "first", "timestamp": "2026-01-01T00:00:02.000Z"});
    home.write(
        path,
        format!(
            "{}\n{}\n{}\n{}\n{label}\n",
            json!({"type": "session", "version": 3, "id": "abc", "cwd": "/w",
                   "timestamp": "2026-01-01T00:00:00.000Z"}),
            entry("a", Value::Null),
            entry("b", json!("a")),
            entry("c", json!("a")),
        ),
    );
    let index = json!({"agent:main:main": {"sessionId": "abc", "updatedAt": 1_770_000_000_000_i64,
                                           "label": "theirs", "later": 7}});
    home.write(".openclaw/agents/main/sessions/sessions.json", index.to_string());
    home.write(crate::home::MAIN, line("user", &uuid(2), None, "hello"));
    home.sync();
    let mut store = Store::open(&home.ledger_path()).unwrap();
    let own = store.create(&NewSession { id: Some("own"), ..NewSession::default() }).unwrap();
    let one = store.append(&own, &user("one"), Append::default()).unwrap();
    store.label(&own, &one.id, Some("here"), Append::default()).unwrap();
    drop(store);

    let ledger = quipu_ledger::Ledger::open_read_only(&home.ledger_path()).unwrap();
    let of = |name: &str| quipu_ledger::find_session(&ledger, name).unwrap();
    let tips = |name: &str| -> Vec<(String, u64, bool)> {
        let tips = quipu_ledger::store::branches(&ledger, of(name)).unwrap().into_iter();
        tips.map(|branch| (branch.tip.id, branch.length, branch.is_current)).collect()
    };
    let leaf = |name: &str| quipu_ledger::store::leaf(&ledger, of(name)).unwrap();
    let labels = |name: &str| quipu_ledger::store::labels(&ledger, of(name)).unwrap();
    let meta = |name: &str| quipu_ledger::store::meta(&ledger, of(name)).unwrap().to_map();
    assert_eq!(leaf("abc").as_deref(), Some("l"));
    assert_eq!(tips("abc"), [("b".to_owned(), 2, false), ("l".to_owned(), 3, true)]);
    assert_eq!((&*labels("abc")[0].target, &*labels("abc")[0].label), ("a", "first"));
    assert_eq!((&meta("abc")["label"], &meta("abc")["later"]), (&json!("theirs"), &json!(7)));
    assert_eq!(leaf(crate::home::SESSION), Some(uuid(2)));
    assert_eq!(tips(crate::home::SESSION), [(uuid(2), 1, true)]);
    assert_eq!(meta(crate::home::SESSION)["sessionId"], json!(crate::home::SESSION));
    assert_eq!(leaf("own").as_deref(), tips("own").last().map(|tip| &*tip.0));
    assert_eq!(labels("own")[0].label, "here");
    assert_eq!(meta("own")["sessionId"], json!("own"));
}

#[test]
fn r92_a_fork_of_a_claude_code_session_is_what_a_model_should_see() {
    let home = Home::new();
    let (a, b) = (uuid(2), uuid(3));
    home.write(
        crate::home::MAIN,
        line("user", &a, None, "hello") + &line("assistant", &b, Some(&a), "hi"),
    );
    home.sync();
    let mut store = Store::open(&home.ledger_path()).unwrap();
    let row = store.find(crate::home::SESSION).unwrap();
    let seen = quipu_ledger::context(store.ledger().unwrap(), row, None).unwrap().context;
    let forked = store.fork(row, &Fork::default()).unwrap();
    assert_eq!(forked.unmapped, 0);
    let copied = store.context(&forked.session, None).unwrap().context;
    assert_eq!(json!(copied.messages), json!(seen.messages));
    assert_eq!(json!(copied.model), json!(seen.model));
    let parent = "SELECT fork_of FROM sessions ORDER BY id DESC LIMIT 1";
    assert_eq!(home.one::<String>(parent), crate::home::SESSION);
    store.append(&forked.session, &user("more"), Append::default()).unwrap();
    // From an entry in the middle, less is seen.
    let at = Fork { at: Some(&a), id: Some("short"), ..Fork::default() };
    let short = store.fork(row, &at).unwrap().session;
    assert_eq!(store.context(&short, None).unwrap().context.messages.len(), 1);
    let nobody = store.fork(row, &Fork { at: Some("nobody"), ..Fork::default() });
    assert!(matches!(nobody, Err(Error::NoMatch { .. })), "{nobody:?}");
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn a_reset_empties_the_context_and_keeps_the_history() {
    let home = Home::quick();
    let (mut store, session) = store(&home);
    store.append(&session, &user("before"), Append::default()).unwrap();
    let kept = store.append(&session, &user("kept"), Append::default()).unwrap();
    store.reset(&session, "reset", Some(&kept.id), Append::default()).unwrap();
    store.append(&session, &user("after"), Append::default()).unwrap();
    assert_eq!(said(&mut store, &session, None), ["kept", "after"]);
    store.reset(&session, "new", None, Append::default()).unwrap();
    assert!(said(&mut store, &session, None).is_empty());
    assert!(store.reset(&session, "bored", None, Append::default()).is_err());
    store.settle().unwrap();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 3);
}

#[test]
fn r104_a_mirror_costs_nothing_and_stays_in_the_context() {
    let home = Home::quick();
    let (mut store, session) = store(&home);
    store.append(&session, &user("hi"), Append::default()).unwrap();
    store.mirror(&session, "sent", Append::default()).unwrap();
    assert_eq!(said(&mut store, &session, None), ["hi", "sent"]);
    store.settle().unwrap();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM usage"), 0);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM entries WHERE is_mirror"), 1);
}

#[test]
fn r63_a_key_leads_to_sessions_of_its_own_agent_only() {
    let home = Home::quick();
    let mut store = Store::open(&home.ledger_path()).unwrap();
    let new = |agent, key, id| NewSession { agent, key, id, ..NewSession::default() };
    let dm = "agent:main:telegram:dm:7";
    let mine = store.create(&new(None, Some(dm), Some("same"))).unwrap();
    let theirs = store.create(&new(None, Some("agent:work:telegram:dm:7"), Some("same"))).unwrap();
    assert_ne!(mine.row, theirs.row);
    let by = |key: &str| store.by_key(&SessionKey::parse(key)).unwrap();
    assert_eq!(by(dm).as_ref(), Some(&mine));
    // `dm` and `direct` name the same session.
    assert_eq!(by("agent:main:telegram:direct:7").as_ref(), Some(&mine));
    assert_eq!(by("agent:work:telegram:direct:7").as_ref(), Some(&theirs));
    assert_eq!(by("agent:other:telegram:dm:7"), None);
    assert_eq!(by("telegram:dm:7"), None);
    let wrong = store.create(&new(Some("main"), Some("agent:work:main"), None));
    assert!(matches!(wrong, Err(Error::Refused { .. })));
    let taken = store.create(&new(None, Some(dm), Some("other")));
    assert!(matches!(taken, Err(Error::Exists { what: "session of the key", .. })));
    for id in ["agent:work:main", "a\nb", ""] {
        assert!(store.create(&new(None, None, Some(id))).is_err(), "{id:?}");
    }
    assert!(store.create(&new(Some("../x"), None, None)).is_err());
    assert!(matches!(
        store.create(&new(None, None, Some("same"))),
        Err(Error::Exists { what: "session", .. })
    ));
}

#[test]
fn names_that_would_mean_something_else_are_refused() {
    let home = Home::quick();
    let (mut store, _) = store(&home);
    let before = home.one::<i64>("SELECT count(*) FROM records");
    let last = |id| NewSession { id: Some(id), ..NewSession::default() };
    for id in ["", "last", "agent:main:main", "a\nb", "a\u{1b}[2J", &"x".repeat(300)] {
        assert!(matches!(store.create(&last(id)), Err(Error::Refused { .. })), "{id:?}");
    }
    for key in ["agent:main:a\nb", "agent:main:\u{7f}", "agent:ma\nin:x", "main", ""] {
        let new = NewSession { key: Some(key), ..NewSession::default() };
        assert!(matches!(store.create(&new), Err(Error::Refused { .. })), "{key:?}");
    }
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), before);
}

#[test]
fn r63_what_is_imported_does_not_lead_to_other_agents() {
    let home = Home::new();
    let folder = ".openclaw/agents/main/sessions";
    let header =
        r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z"}"#;
    home.write(&format!("{folder}/s1.jsonl"), format!("{header}\n"));
    let entry = r#"{"sessionId":"s1","updatedAt":1770000000000}"#;
    home.write(
        &format!("{folder}/sessions.json"),
        format!(r#"{{"agent:other:main":{entry},"agent:main:main":{entry}}}"#),
    );
    let mut store = Store::open(&home.ledger_path()).unwrap();
    store.import(&home.path(".openclaw"), &mut |_| {}).unwrap();
    assert!(matches!(store.find("agent:other:main"), Err(Error::NoMatch { .. })));
    let own = store.find("agent:main:main").unwrap();
    // Collected as well, it is still the one that can be gone on with.
    home.sync();
    let store = Store::open(&home.ledger_path()).unwrap();
    assert_eq!(store.find("agent:main:main").unwrap(), own);
    assert_eq!(store.find("s1").unwrap(), own);
    assert_ne!(store.find("openclaw/s1").unwrap(), own);
    assert!(matches!(store.find("agent:other:main"), Err(Error::NoMatch { .. })));
}

#[test]
fn how_full_the_context_is_says_the_last_answer() {
    let home = Home::quick();
    let (mut store, session) = store(&home);
    store.append(&session, &user("hi"), Append::default()).unwrap();
    let first = store.append(&session, &answer("ho"), Append::default()).unwrap().id;
    let usage = json!({"input": 10, "output": 10, "cacheRead": 500, "cacheWrite": 0,
        "totalTokens": 520});
    for entry in [
        json!({"type": "compaction", "summary": "s", "firstKeptEntryId": first, "tokensBefore": 9,
               "usage": usage}),
        json!({"type": "usage", "usage": usage}),
    ] {
        store.append(&session, &entry.to_string(), Append::default()).unwrap();
    }
    let meta = store.meta(&session).unwrap();
    assert_eq!(meta["totalTokens"], 10);
}

#[test]
fn metadata_is_patched_checked_counted_and_kept() {
    let home = Home::quick();
    let (mut store, session) = store(&home);
    store.append(&session, &user("hi"), Append::default()).unwrap();
    store.append(&session, &answer("ho"), Append::default()).unwrap();
    let patch = |value: Value| value.as_object().unwrap().clone();
    let fields = patch(json!({"label": "x", "queueMode": "steer", "somethingNew": {"a": [1]}}));
    let all = store.patch_meta(&session, &fields).unwrap();
    for (name, value) in &fields {
        assert_eq!(all.get(name), Some(value));
    }
    assert_eq!(all["inputTokens"], 7);
    assert_eq!(all["totalTokens"], 10);
    assert_eq!(all["systemSent"], true);
    let all = store.patch_meta(&session, &patch(json!({"label": null}))).unwrap();
    assert!(!all.contains_key("label") && all.contains_key("queueMode"));
    for bad in [
        json!({"queueMode": "sometimes"}),
        json!({"systemSent": "yes"}),
        json!({"totalTokens": 5}),
        json!({"sessionStartedAt": 5}),
        json!({"systemSent": false}),
        json!({"chatType": 5}),
    ] {
        assert!(store.patch_meta(&session, &patch(bad.clone())).is_err(), "{bad}");
    }
    home.assert_rebuilds();
    let mut store = Store::open(&home.ledger_path()).unwrap();
    assert_eq!(store.meta(&session).unwrap(), all);
}

#[test]
fn numbers_of_metadata_stay_as_they_were_written() {
    let home = Home::quick();
    let (mut store, session) = store(&home);
    let json = r#"{"aa":123456789012345678901234,"ab":{"c":[1E5,0.10]},"ac":9007199254740993.0}"#;
    let patch = Fields::read(json).unwrap();
    let inner = json.trim_matches(['{', '}']).to_owned() + "}";
    let written = |fields: &Fields| serde_json::to_string(fields).unwrap();
    let all = store.patch_fields(&session, &patch).unwrap();
    assert!(written(&all).contains(inner.split_at(inner.len() - 1).0), "{}", written(&all));
    // Others are patched, and it is derived again.
    store.patch_meta(&session, json!({"label": "x"}).as_object().unwrap()).unwrap();
    home.assert_rebuilds();
    let ledger = home.open();
    let again = quipu_ledger::store::meta(&ledger, session.row).unwrap();
    assert!(written(&again).contains(inner.split_at(inner.len() - 1).0), "{}", written(&again));
}

#[test]
fn what_was_counted_before_an_import_is_counted_on_from() {
    let home = Home::quick();
    let mut store = Store::open(&home.ledger_path()).unwrap();
    let folder = home.scratch("state/agents/main/sessions");
    std::fs::create_dir_all(&folder).unwrap();
    let said = |id: &str, parent: Value, message: &str| {
        let message: Value = serde_json::from_str(message).unwrap();
        json!({"type": "message", "id": id, "parentId": parent, "message": message,
               "timestamp": "2026-01-01T00:00:01.000Z"})
    };
    let lines = [
        json!({"type": "session", "version": 3, "id": "one", "cwd": "/w",
               "timestamp": "2026-01-01T00:00:00.000Z"}),
        said("a", Value::Null, &user("hi")),
        said("b", json!("a"), &answer("ho")),
    ];
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(folder.join("one.jsonl"), lines).unwrap();
    // It has counted what is in files that are gone.
    let noted = json!({"sessionId": "one", "updatedAt": 1_780_000_000_000_i64,
        "sessionStartedAt": 1_760_000_000_000_i64, "inputTokens": 1000, "totalTokens": 500,
        "compactionCount": 3, "cacheRead": 0});
    let index = json!({"agent:main:main": noted});
    std::fs::write(folder.join("sessions.json"), index.to_string()).unwrap();
    store.import(&home.scratch("state"), &mut |file| assert!(!file.failed, "{file:?}")).unwrap();
    let key = SessionKey::parse("agent:main:main");
    let session = store.by_key(&key).unwrap().unwrap();
    let meta = store.meta(&session).unwrap();
    for (name, value) in noted.as_object().unwrap() {
        assert_eq!(meta.get(name), Some(value), "{name}");
    }
    assert_eq!((&meta["outputTokens"], &meta["systemSent"]), (&json!(3), &json!(true)));
    store.append(&session, &user("more"), Append::default()).unwrap();
    store.append(&session, &answer("yes"), Append::default()).unwrap();
    let compaction = json!({"type": "compaction", "summary": "s", "firstKeptEntryId": "b"});
    store.append(&session, &compaction.to_string(), Append::default()).unwrap();
    let meta = store.meta(&session).unwrap();
    assert_eq!((&meta["inputTokens"], &meta["outputTokens"]), (&json!(1007), &json!(6)));
    assert_eq!((&meta["totalTokens"], &meta["compactionCount"]), (&json!(10), &json!(4)));
    assert_eq!(meta["sessionStartedAt"], 1_760_000_000_000_i64);
    assert!(meta["updatedAt"].as_i64() > Some(1_780_000_000_000), "{meta:?}");
    home.assert_rebuilds();
    // Another session under the key begins with nothing.
    let new = NewSession { key: Some(key.as_str()), takes_key: true, ..NewSession::default() };
    let new = store.create(&new).unwrap();
    let meta = store.meta(&new).unwrap();
    assert!(!meta.contains_key("inputTokens") && !meta.contains_key("compactionCount"), "{meta:?}");
    assert!(meta["sessionStartedAt"].as_i64() > Some(1_780_000_000_000), "{meta:?}");
    home.assert_rebuilds();
}

#[test]
fn a_forgotten_session_cannot_be_written_to() {
    let home = Home::quick();
    let (mut store, session) = store(&home);
    store.append(&session, &user("CANARY-9f31"), Append::default()).unwrap();
    let fields: Map<String, Value> = json!({"label": "CANARY-9f31"}).as_object().unwrap().clone();
    store.patch_meta(&session, &fields).unwrap();
    let fork = store.fork(session.row, &Fork::default()).unwrap().session;
    drop(store);
    quipu_ledger::forget(&mut home.open(), &session.id, &mut |_, _| {}).unwrap();
    let mut store = Store::open(&home.ledger_path()).unwrap();
    let gone = store.append(&session, &user("more"), Append::default());
    assert!(matches!(gone, Err(Error::NoMatch { .. })), "{gone:?}");
    // Nothing gets its id again.
    let same = NewSession { id: Some(&session.id), ..NewSession::default() };
    let again = store.create(&same).unwrap_err().to_string();
    assert!(again.contains("was forgotten"), "{again}");
    let same = Fork { id: Some(&session.id), ..Fork::default() };
    let again = store.fork(fork.row, &same).unwrap_err().to_string();
    assert!(again.contains("was forgotten"), "{again}");
    // A fork is a session of its own.
    assert_eq!(said(&mut store, &fork, None), ["CANARY-9f31"]);
    quipu_ledger::forget(&mut home.open(), &fork.id, &mut |_, _| {}).unwrap();
    drop(store);
    let bytes = std::fs::read(home.ledger_path()).unwrap();
    assert!(memchr::memmem::find(&bytes, b"CANARY-9f31").is_none());
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn what_was_appended_restores_as_the_lines_that_were_written() {
    let home = Home::quick();
    let (mut store, session) = store(&home);
    for turn in 0..2000 {
        // Enough to be sealed on the way.
        let text = format!("{turn} {}", "words ".repeat(40));
        store.append(&session, &user(&text), Append::default()).unwrap();
    }
    assert!(home.one::<i64>("SELECT count(*) FROM chunks") > 0);
    let restored = home.restored(Generations::Newest);
    let name = format!("native/agents/main/sessions/{}.jsonl", session.id);
    let text = String::from_utf8(restored[&name].clone()).unwrap();
    assert_eq!(text.lines().count(), 2001);
    assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    store.settle().unwrap();
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn the_projection_follows_what_is_appended_without_being_asked() {
    let home = Home::quick();
    let (mut store, session) = store(&home);
    for number in 0..200 {
        store.append(&session, &user(&number.to_string()), Append::default()).unwrap();
    }
    let behind = "SELECT (SELECT max(seq) FROM records) - projected_to FROM ledger";
    // The store is idle now; somebody else does it, sooner or later.
    let mut patience = 1000;
    while home.one::<i64>(behind) > 0 && patience > 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        patience -= 1;
    }
    assert_eq!(home.one::<i64>(behind), 0);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 200);
    home.assert_rebuilds();
    // Who ends leaves nothing behind, either.
    store.append(&session, &user("the last word"), Append::default()).unwrap();
    drop(store);
    assert_eq!(home.one::<i64>(behind), 0);
    home.assert_rebuilds();
}

#[test]
fn what_is_not_in_the_projection_yet_is_seen_by_all_who_write() {
    let home = Home::quick();
    let (mut store, session) = store(&home);
    let mut other = Store::open(&home.ledger_path()).unwrap();
    let one = store.append(&session, &user("one"), Append::default()).unwrap();
    let two = other.append(&session, &answer("two"), Append::default()).unwrap();
    // Each hangs off the other's last one, knows its ids and its keys.
    let expected = |id| Append { expected_leaf: Expect::Entry(id), ..Append::default() };
    let three = store.append(&session, &user("three"), expected(&two.id)).unwrap();
    let key = Append { key: Some("four"), ..expected(&three.id) };
    let four = other.append(&session, &answer("four"), key).unwrap();
    let again =
        store.append(&session, &answer("four"), Append { key: Some("four"), ..Append::default() });
    assert_eq!(again.unwrap(), Appended { repeated: true, ..four.clone() });
    let taken = json!({"type": "custom", "customType": "x", "id": four.id}).to_string();
    assert!(matches!(store.append(&session, &taken, Append::default()), Err(Error::Exists { .. })));
    // The leaf moves back, and on, before anything is projected.
    store.branch(&session, Some(&one.id), None, Append::default()).unwrap();
    let side = other.append(&session, &answer("side"), Append::default()).unwrap();
    assert_eq!(said(&mut store, &session, None), ["one", "side"]);
    let path = store.path(&session, &side.id).unwrap();
    assert_eq!(path.iter().map(|node| &*node.id).collect::<Vec<_>>(), [&*one.id, &*side.id]);
    assert_eq!(store.leaf(&session).unwrap().unwrap().id, side.id);
    home.assert_rebuilds();
    home.assert_sound();
}

/// What the model knows of a session.
#[derive(Debug, Clone, Default)]
struct Model {
    /// Id, parent and text, `None` for what is not said; resets are marked.
    entries: Vec<(String, Option<usize>, Option<String>, bool)>,
    leaf: Option<usize>,
    labels: BTreeMap<usize, String>,
}

impl Model {
    fn path(&self, leaf: Option<usize>) -> Vec<usize> {
        let mut path: Vec<usize> = std::iter::successors(leaf, |at| self.entries[*at].1).collect();
        path.reverse();
        path
    }

    /// The texts after the last reset on the path.
    fn said(&self, leaf: Option<usize>) -> Vec<String> {
        let path = self.path(leaf);
        let from = path.iter().rposition(|at| self.entries[*at].3).map_or(0, |at| at + 1);
        path[from..].iter().filter_map(|at| self.entries[*at].2.clone()).collect()
    }

    fn id(&self, at: Option<usize>) -> Option<&str> {
        at.map(|at| &*self.entries[at].0)
    }

    fn put(&mut self, id: &str, parent: Option<usize>, text: Option<String>, is_reset: bool) {
        self.entries.push((id.to_owned(), parent, text, is_reset));
        self.leaf = Some(self.entries.len() - 1);
    }
}

#[derive(Debug, Clone)]
enum Act {
    Say(bool),
    Begin,
    Branch(prop::sample::Index),
    Root,
    Label(prop::sample::Index),
    Reset,
    Hang(prop::sample::Index),
    Conflict,
    Retry,
    Fork(prop::sample::Index),
    Reopen,
}

fn act() -> impl Strategy<Value = Act> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        6 => any::<bool>().prop_map(Act::Say),
        2 => Just(Act::Begin),
        3 => at().prop_map(Act::Branch),
        1 => Just(Act::Root),
        2 => at().prop_map(Act::Label),
        1 => Just(Act::Reset),
        2 => at().prop_map(Act::Hang),
        1 => Just(Act::Conflict),
        1 => Just(Act::Retry),
        1 => at().prop_map(Act::Fork),
        1 => Just(Act::Reopen),
    ]
}

#[test]
fn the_store_does_what_a_simple_model_does() {
    let mut runner = TestRunner::new(Config { cases: 60, ..Config::default() });
    runner
        .run(&prop::collection::vec(act(), 1..60), |acts| {
            let home = Home::quick();
            let (mut store, mut session) = store(&home);
            let mut model = Model::default();
            let mut users: Vec<bool> = Vec::new();
            let plain = Append::default();
            for (step, act) in acts.into_iter().enumerate() {
                let text = format!("t{step}");
                match act {
                    Act::Say(by_user) => {
                        let entry = if by_user { user(&text) } else { answer(&text) };
                        let expected_leaf =
                            model.id(model.leaf).map_or(Expect::Root, Expect::Entry);
                        let how = Append { expected_leaf, ..Append::default() };
                        let done = store.append(&session, &entry, how).unwrap();
                        model.put(&done.id, model.leaf, Some(text), false);
                        users.push(by_user);
                    }
                    Act::Begin => {
                        let done = store.begin_turn(&session, &user(&text), plain).unwrap();
                        // Labels are no answer.
                        let mut last = model.leaf;
                        while let Some((_, parent, None, false)) =
                            last.map(|at| model.entries[at].clone())
                        {
                            last = parent;
                        }
                        let parent = match last {
                            Some(last) if users[last] => model.entries[last].1,
                            _ => model.leaf,
                        };
                        model.put(&done.id, parent, Some(text), false);
                        users.push(true);
                    }
                    Act::Branch(at) if !model.entries.is_empty() => {
                        let at = at.index(model.entries.len());
                        store.branch(&session, model.id(Some(at)), None, plain).unwrap();
                        model.leaf = Some(at);
                    }
                    Act::Root => {
                        store.branch(&session, None, None, plain).unwrap();
                        model.leaf = None;
                    }
                    Act::Label(at) if !model.entries.is_empty() => {
                        let at = at.index(model.entries.len());
                        let target = model.entries[at].0.clone();
                        let done = store.label(&session, &target, Some(&text), plain).unwrap();
                        model.put(&done.id, model.leaf, None, false);
                        model.labels.insert(at, text);
                        users.push(false);
                    }
                    Act::Reset => {
                        let done = store.reset(&session, "reset", None, plain).unwrap();
                        model.put(&done.id, model.leaf, None, true);
                        users.push(false);
                    }
                    Act::Hang(at) if !model.entries.is_empty() => {
                        let at = at.index(model.entries.len());
                        let entry = json!({"type": "message", "parentId": model.entries[at].0,
                            "message": {"role": "user", "content": text}});
                        let done = store.append(&session, &entry.to_string(), plain).unwrap();
                        model.put(&done.id, Some(at), Some(text), false);
                        users.push(true);
                    }
                    Act::Conflict => {
                        let expected_leaf = Expect::Entry("nobody");
                        let how = Append { expected_leaf, ..Append::default() };
                        let done = store.append(&session, &user(&text), how);
                        let Err(Error::Conflict { leaf, .. }) = done else {
                            return Err(TestCaseError::fail("no conflict"));
                        };
                        prop_assert_eq!(leaf.as_deref(), model.id(model.leaf));
                    }
                    Act::Retry => {
                        let how = Append { key: Some(&text), ..plain };
                        let done = store.append(&session, &user(&text), how).unwrap();
                        let again = store.append(&session, &user(&text), how).unwrap();
                        prop_assert_eq!((&done.id, done.seq), (&again.id, again.seq));
                        model.put(&done.id, model.leaf, Some(text), false);
                        users.push(true);
                    }
                    Act::Fork(at) if !model.entries.is_empty() => {
                        let at = at.index(model.entries.len());
                        let at_id = model.entries[at].0.clone();
                        let fork = Fork { at: Some(&at_id), ..Fork::default() };
                        let forked = store.fork(session.row, &fork).unwrap().session;
                        prop_assert_eq!(said(&mut store, &forked, None), model.said(Some(at)));
                        prop_assert_eq!(said(&mut store, &session, None), model.said(model.leaf));
                        // Go on in the fork, with what it shows.
                        let mut copy = Model::default();
                        let mut copied = Vec::new();
                        // A path of labels alone leaves nothing.
                        let leaf = store.leaf(&forked).unwrap();
                        let path = leaf.map(|leaf| store.path(&forked, &leaf.id).unwrap());
                        for node in path.unwrap_or_default() {
                            let old = model.entries.iter().position(|old| old.0 == node.id);
                            let (text, is_reset) = old.map_or((None, false), |old| {
                                (model.entries[old].2.clone(), model.entries[old].3)
                            });
                            copy.put(&node.id, copy.leaf, text, is_reset);
                            copied.push(old.is_some_and(|old| users[old]));
                        }
                        (model, users, session) = (copy, copied, forked);
                    }
                    Act::Reopen => store = Store::open(&home.ledger_path()).unwrap(),
                    _ => {}
                }
                let leaf = store.leaf(&session).unwrap().map(|leaf| leaf.id);
                prop_assert_eq!(leaf.as_deref(), model.id(model.leaf));
                prop_assert_eq!(said(&mut store, &session, None), model.said(model.leaf));
            }
            for at in 0..model.entries.len() {
                let id = &model.entries[at].0;
                let path: Vec<String> =
                    store.path(&session, id).unwrap().into_iter().map(|node| node.id).collect();
                let expected: Vec<String> = model
                    .path(Some(at))
                    .into_iter()
                    .map(|at| model.entries[at].0.clone())
                    .collect();
                prop_assert_eq!(path, expected);
                let children: Vec<String> = store
                    .children(&session, Some(id))
                    .unwrap()
                    .into_iter()
                    .map(|node| node.id)
                    .collect();
                let expected: Vec<String> = model
                    .entries
                    .iter()
                    .filter(|entry| entry.1 == Some(at))
                    .map(|entry| entry.0.clone())
                    .collect();
                prop_assert_eq!(children, expected);
                let first = store.common_ancestor(&session, &model.entries[0].0, id).unwrap();
                let expected =
                    model.path(Some(at)).contains(&0).then(|| model.entries[0].0.clone());
                prop_assert_eq!(first.map(|node| node.id), expected);
            }
            // The ledger's own reader, from the bytes alone, agrees.
            let row = store.find(&session.id).unwrap();
            let seen = quipu_ledger::context(store.ledger().unwrap(), row, None).unwrap();
            prop_assert_eq!(seen.context.messages.len(), model.said(model.leaf).len());
            drop(store);
            home.assert_rebuilds();
            home.assert_sound();
            Ok(())
        })
        .unwrap();
}
