//! The store compared with a simple model, and the promises of every call.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use quipu_ledger::Error;
use quipu_ledger::restore::Generations;
use quipu_ledger::store::{
    Append, Appended, Entry, Expect, Fields, Fork, NewSession, Session, Store,
};
use serde_json::{Map, Value, json};

use crate::home::{Home, line, uuid};

fn user(text: &str) -> Entry {
    Entry::user(text)
}

fn answer(text: &str) -> Entry {
    json!({"role": "assistant", "content": text, "provider": "p", "model": "m",
           "usage": {"input": 7, "output": 3, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 10}})
    .into()
}

fn store(home: &Home) -> (Store, Session) {
    let store = Store::open(home.ledger_path()).unwrap();
    let session = store.create(&NewSession::default()).unwrap();
    (store, session)
}

/// Returns the texts of a context.
fn context_texts(session: &Session, leaf: Option<&str>) -> Vec<String> {
    let seen = match leaf {
        None => session.context(),
        Some(leaf) => session.context_at(leaf),
    };
    let seen = seen.unwrap();
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
    let (_, session) = store(&home);
    let one = session.append(user("one")).unwrap();
    let two = session.append(answer("two")).unwrap();
    assert_eq!(two.leaf.as_deref(), Some(&*two.id));
    let moved = session.branch(Some(&one.id), None).unwrap();
    assert_eq!(moved.leaf.as_deref(), Some(&*one.id));
    let other = session.append(answer("three")).unwrap();
    assert_eq!(context_texts(&session, None), ["one", "three"]);
    assert_eq!(context_texts(&session, Some(&two.id)), ["one", "two"]);
    let tips: Vec<String> =
        session.branches().unwrap().into_iter().map(|branch| branch.tip.id).collect();
    assert_eq!(tips, [two.id.clone(), other.id.clone()]);
    let shared = session.common_ancestor(&two.id, &other.id).unwrap().unwrap();
    assert_eq!(shared.id, one.id);
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn sessions_of_one_store_are_written_from_several_threads() {
    let home = Home::quick();
    let store = Store::open(home.ledger_path()).unwrap();
    let sessions = ["one", "two"].map(|name| {
        let key = format!("agent:main:{name}");
        assert!(matches!(store.session(&key), Err(Error::NoMatch { .. })));
        let session = store.session_or_new(&key).unwrap();
        assert_eq!(store.session_or_new(&key).unwrap(), session);
        session
    });
    let threads = sessions.clone().map(|session| {
        std::thread::spawn(move || {
            for number in 0..20 {
                let turn = session.begin_turn(user(&format!("q{number}"))).unwrap();
                session.at(&turn.id).append(answer(&format!("a{number}"))).unwrap();
            }
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    for session in &sessions {
        assert_eq!(session.context().unwrap().messages.len(), 40);
    }
    drop((store, sessions));
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn r91_a_turn_begun_on_an_unanswered_prompt_takes_its_place() {
    let home = Home::quick();
    let (_, session) = store(&home);
    let first = session.begin_turn(user("lost")).unwrap();
    let again = session.begin_turn(user("again")).unwrap();
    assert_eq!(context_texts(&session, None), ["again"]);
    assert_eq!(session.entry(&again.id).unwrap().unwrap().parent, None);
    session.append(answer("yes")).unwrap();
    session.begin_turn(user("next")).unwrap();
    session.begin_turn(user("better")).unwrap();
    assert_eq!(context_texts(&session, None), ["again", "yes", "better"]);
    // A plain append drops nothing.
    session.append(user("more")).unwrap();
    assert_eq!(context_texts(&session, None), ["again", "yes", "better", "more"]);
    assert_eq!(context_texts(&session, Some(&first.id)), ["lost"]);
    let refused = session.begin_turn(answer("no"));
    assert!(matches!(refused, Err(Error::Refused { .. })));
    // A named parent is used.
    let leaf = session.leaf().unwrap().unwrap().id;
    let at = |parent: Value| {
        json!({"type": "message", "parentId": parent, "message": {"role": "user", "content": "at"}})
            .to_string()
    };
    let there = session.begin_turn(Entry::json(at(json!(leaf)))).unwrap();
    assert_eq!(session.entry(&there.id).unwrap().unwrap().parent, Some(leaf));
    let root = session.begin_turn(Entry::json(at(Value::Null))).unwrap();
    assert_eq!(session.entry(&root.id).unwrap().unwrap().parent, None);
    let lost = session.begin_turn(Entry::json(at(json!("nobody"))));
    assert!(matches!(lost, Err(Error::NoMatch { .. })));
}

/// Also if labels follow the prompt, projected or not.
#[test]
fn labels_and_names_do_not_answer_a_prompt() {
    for settles in [false, true] {
        let home = Home::quick();
        let (store, session) = store(&home);
        session.append(answer("hello")).unwrap();
        let lost = session.begin_turn(user("lost")).unwrap();
        session.label(&lost.id, Some("here")).unwrap();
        let name = json!({"type": "session_info", "name": "talk"}).to_string();
        session.append(Entry::json(&name)).unwrap();
        if settles {
            store.catch_up().unwrap();
        }
        session.begin_turn(user("again")).unwrap();
        assert_eq!(context_texts(&session, None), ["hello", "again"]);
        session.append(answer("yes")).unwrap();
        session.label(&lost.id, None).unwrap();
        session.begin_turn(user("next")).unwrap();
        assert_eq!(context_texts(&session, None), ["hello", "again", "yes", "next"]);
        drop(store);
        home.assert_sound();
    }
}

#[test]
fn a_wrong_leaf_is_a_conflict_that_names_the_right_one() {
    let home = Home::quick();
    let (_, session) = store(&home);
    let at = |leaf| Append { expected_leaf: leaf, ..Append::default() };
    let one = session.with(at(Expect::Root)).append(user("one")).unwrap();
    let before = home.one::<i64>("SELECT count(*) FROM records");
    for wrong in [Expect::Root, Expect::Entry("nobody")] {
        match session.with(at(wrong)).append(answer("no")) {
            Err(Error::Conflict { leaf, .. }) => assert_eq!(leaf.as_deref(), Some(&*one.id)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), before);
    session.with(at(Expect::Entry(&one.id))).append(answer("two")).unwrap();
}

#[test]
fn a_retry_returns_the_entry_of_its_first_try() {
    let home = Home::quick();
    let (_, session) = store(&home);
    let keyed = Append { key: Some("run-1"), ..Append::default() };
    let one = session.with(keyed).append(user("one")).unwrap();
    session.append(answer("two")).unwrap();
    // Another process retries, without knowledge of later entries.
    let other = Store::open(home.ledger_path()).unwrap();
    let theirs = other.session(session.id()).unwrap();
    let late = Append { key: Some("run-1"), expected_leaf: Expect::Root, ..Append::default() };
    let again = theirs.with(late).append(user("one")).unwrap();
    assert!(again.repeated && !one.repeated);
    assert_eq!((&again.id, again.seq), (&one.id, one.seq));
    // The parts of a batch have keys that no caller can choose.
    let part = |part| Append { key: Some("run-1"), part, ..Append::default() };
    let two = theirs.with(part(2)).append(user("part")).unwrap();
    for word in ["run-1#2", "run-12", "run-1 2"] {
        let own = Append { key: Some(word), ..Append::default() };
        assert!(!theirs.with(own).append(user("own")).unwrap().repeated, "{word}");
    }
    assert_eq!(theirs.with(part(2)).append(user("part")).unwrap().id, two.id);
    for word in ["", "run-1\u{1f}2", "a\nb", &"x".repeat(513)] {
        let bad = Append { key: Some(word), ..Append::default() };
        let bad = theirs.with(bad).append(user("bad"));
        assert!(matches!(bad, Err(Error::Refused { .. })), "{word:?}: {bad:?}");
    }
    // Another body is refused with the id of the first entry, and nothing is written.
    let before = home.one::<i64>("SELECT count(*) FROM records");
    for (keyed, first) in [(keyed, &one), (part(2), &two)] {
        let body = theirs.with(keyed).append(user("another"));
        let Err(Error::KeyUsed { key, entry }) = &body else { panic!("{body:?}") };
        assert_eq!((&**key, entry), ("run-1", &first.id));
    }
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), before);
    // The expected leaf of the first try counts.
    let summary = Append { key: Some("branch"), ..Append::default() };
    let left = theirs.with(summary).branch(Some(&one.id), Some("left")).unwrap();
    let again = theirs.with(summary).branch(Some(&one.id), Some("left")).unwrap();
    assert_eq!((again.id, again.repeated), (left.id, true));
    // A key belongs to one session.
    let session = other.create(&NewSession::default()).unwrap();
    assert!(!session.with(keyed).append(user("one")).unwrap().repeated);
}

#[test]
fn bad_entries_are_refused_and_nothing_is_written() {
    let home = Home::quick();
    let (store, session) = store(&home);
    let one = session.append(user("one")).unwrap();
    let side = json!({"type": "custom", "customType": "x", "appendMode": "side"}).to_string();
    let side = session.append(Entry::json(&side)).unwrap();
    assert_eq!(side.leaf.as_deref(), Some(&*one.id), "side rows are never the leaf");
    let before = home.one::<i64>("SELECT count(*) FROM records");
    for (entry, why) in [
        ("nonsense".to_owned(), "not a JSON object"),
        (
            json!({"type": "custom", "customType": "x", "parentId": "nobody"}).to_string(),
            "no entry",
        ),
        (json!({"type": "custom", "customType": "x", "parentId": side.id}).to_string(), "not part"),
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
        let error = session.append(Entry::json(&entry)).unwrap_err().to_string();
        assert!(error.contains(why), "{entry}: {error}");
    }
    let empty = session.mirror(" \n").unwrap_err().to_string();
    assert!(empty.contains("the text is empty"), "{empty}");
    let long = json!({"note": "x".repeat(1 << 20)}).as_object().unwrap().clone();
    let long = session.patch_meta(&long).unwrap_err().to_string();
    assert!(long.contains("the limit is"), "{long}");
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), before);
    store.catch_up().unwrap();
    home.assert_rebuilds();
}

#[test]
fn r71_an_open_session_decodes_each_record_once_and_sees_other_writers() {
    let home = Home::quick();
    let (store, session) = store(&home);
    for turn in 0..100 {
        session.begin_turn(user(&format!("q{turn}"))).unwrap();
        assert_eq!(context_texts(&session, None).len(), 2 * turn + 1);
        session.append(answer(&format!("a{turn}"))).unwrap();
    }
    // The header and 200 messages; the last one was not requested yet.
    assert_eq!(store.records_decoded(), 200);
    let other = Store::open(home.ledger_path()).unwrap();
    other.session(session.id()).unwrap().append(user("from elsewhere")).unwrap();
    assert_eq!(context_texts(&session, None).last().unwrap(), "from elsewhere");
    assert_eq!(store.records_decoded(), 202);
    session.append(answer("seen")).unwrap();
    store.catch_up().unwrap();
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn r92_a_fork_copies_the_path_and_names_its_parent() {
    let home = Home::quick();
    let (store, session) = store(&home);
    let one = session.append(user("one")).unwrap();
    let label = session.label(&one.id, Some("start")).unwrap();
    let two = session.append(answer("two")).unwrap();
    let kept = json!({"type": "compaction", "summary": "so far", "tokensBefore": 9,
                      "firstKeptEntryId": label.id});
    session.append(kept).unwrap();
    session.append(user("three")).unwrap();
    let before = context_roles(&session);
    let fork = session.fork(&Fork::default()).unwrap();
    assert_eq!(context_roles(&fork), before);
    // The label comes after the path, and its children become children of its parent.
    let second = fork.entry(&two.id).unwrap().unwrap();
    assert_eq!(second.parent.as_deref(), Some(&*one.id));
    let leaf = fork.leaf().unwrap().unwrap();
    assert_eq!(leaf.type_name, "label");
    assert_eq!(
        home.one::<String>("SELECT fork_of FROM sessions ORDER BY id DESC LIMIT 1"),
        session.id()
    );
    // Unchanged lines are stored once.
    assert!(home.one::<i64>("SELECT count(*) FROM records WHERE same_as IS NOT NULL") > 0);
    // The usage of both is counted once.
    assert_eq!(home.one::<i64>("SELECT sum(input_tokens) FROM usage WHERE is_counted"), 7);
    // Without an entry it only refers to its parent.
    let empty = store.create(&NewSession::default()).unwrap();
    let fork = empty.fork(&Fork::default()).unwrap();
    assert!(fork.leaf().unwrap().is_none());
    assert_eq!(
        home.one::<String>("SELECT fork_of FROM sessions ORDER BY id DESC LIMIT 1"),
        empty.id()
    );
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn r92_other_writers_continue_during_and_after_a_long_fork() {
    let home = Home::quick();
    let (store, session) = store(&home);
    let aside = store.create(&NewSession::default()).unwrap();
    let first = aside.append(user("aside")).unwrap();
    for number in 0..400 {
        session.append(user(&format!("line {number}"))).unwrap();
    }
    let label = session.leaf().unwrap().unwrap().id;
    session.label(&label, Some("here")).unwrap();
    let fork = session.fork(&Fork::default()).unwrap();
    // Other processes append to other sessions and to this one.
    let other = Store::open(home.ledger_path()).unwrap();
    let expected_leaf = Expect::Entry(&first.id);
    let how = Append { expected_leaf, ..Append::default() };
    other.session(aside.id()).unwrap().with(how).append(user("goes on")).unwrap();
    other.session(fork.id()).unwrap().append(user("goes on, too")).unwrap();
    let mut lines = context_texts(&other.session(session.id()).unwrap(), None);
    lines.push("goes on, too".to_owned());
    assert_eq!(context_texts(&other.session(fork.id()).unwrap(), None), lines);
    assert_eq!(context_texts(&fork, None), lines);
    assert_eq!(context_texts(&aside, None), ["aside", "goes on"]);
    drop((store, other));
    home.assert_rebuilds();
    home.assert_sound();
}

fn context_roles(session: &Session) -> Vec<String> {
    let seen = session.context().unwrap();
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
    let store = Store::open(home.ledger_path()).unwrap();
    assert!(matches!(store.session("abc"), Err(Error::Collected { .. })));
    let fork = store.fork("abc", &Fork::default()).unwrap().session;
    fork.append(answer("two")).unwrap();
    assert_eq!(context_texts(&fork, None), ["one", "two"]);
    home.sync();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sources WHERE is_gone"), 0);
    home.assert_rebuilds();
    home.assert_sound();
    home.assert_restores();
}

#[test]
fn any_session_can_be_read_in_a_read_only_ledger() {
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
    let store = Store::open(home.ledger_path()).unwrap();
    let own = store.create(&NewSession { id: Some("own"), ..NewSession::default() }).unwrap();
    let one = own.append(user("one")).unwrap();
    own.label(&one.id, Some("here")).unwrap();
    drop((store, own));

    let ledger = quipu_ledger::Ledger::open_read_only(&home.ledger_path()).unwrap();
    let of = |name: &str| quipu_ledger::query::find_session(&ledger, name).unwrap();
    let tips = |name: &str| -> Vec<(String, u64, bool)> {
        let tips = quipu_ledger::store::branches_of(&ledger, of(name)).unwrap().into_iter();
        tips.map(|branch| (branch.tip.id, branch.length, branch.is_current)).collect()
    };
    let leaf = |name: &str| quipu_ledger::store::leaf_of(&ledger, of(name)).unwrap();
    let labels = |name: &str| quipu_ledger::store::labels_of(&ledger, of(name)).unwrap();
    let meta = |name: &str| quipu_ledger::store::meta_of(&ledger, of(name)).unwrap().to_map();
    assert_eq!(leaf("abc").as_deref(), Some("l"));
    assert_eq!(tips("abc"), [("b".to_owned(), 2, false), ("l".to_owned(), 3, true)]);
    assert_eq!((&*labels("abc")[0].entry_id, &*labels("abc")[0].label), ("a", "first"));
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
    let store = Store::open(home.ledger_path()).unwrap();
    let row = home.row(crate::home::SESSION);
    let seen =
        quipu_ledger::query::context_of(&store.reader().unwrap(), row, None).unwrap().context;
    let forked = store.fork(crate::home::SESSION, &Fork::default()).unwrap();
    assert_eq!(forked.unmapped, 0);
    let copied = forked.session.context().unwrap();
    assert_eq!(json!(copied.messages), json!(seen.messages));
    assert_eq!(json!(copied.model), json!(seen.model));
    let parent = "SELECT fork_of FROM sessions ORDER BY id DESC LIMIT 1";
    assert_eq!(home.one::<String>(parent), crate::home::SESSION);
    forked.session.append(user("more")).unwrap();
    // From an entry in the middle, the context is shorter.
    let at = Fork { at: Some(&a), id: Some("short"), ..Fork::default() };
    let short = store.fork(crate::home::SESSION, &at).unwrap().session;
    assert_eq!(short.context().unwrap().messages.len(), 1);
    let nobody = store.fork(crate::home::SESSION, &Fork { at: Some("nobody"), ..Fork::default() });
    assert!(matches!(nobody, Err(Error::NoMatch { .. })), "{nobody:?}");
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn a_reset_empties_the_context_and_keeps_the_history() {
    let home = Home::quick();
    let (store, session) = store(&home);
    session.append(user("before")).unwrap();
    let kept = session.append(user("kept")).unwrap();
    session.reset("reset", Some(&kept.id)).unwrap();
    session.append(user("after")).unwrap();
    assert_eq!(context_texts(&session, None), ["kept", "after"]);
    session.reset("new", None).unwrap();
    assert!(context_texts(&session, None).is_empty());
    assert!(session.reset("bored", None).is_err());
    store.catch_up().unwrap();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 3);
}

#[test]
fn r104_a_mirror_costs_nothing_and_stays_in_the_context() {
    let home = Home::quick();
    let (store, session) = store(&home);
    session.append(user("hi")).unwrap();
    session.mirror("sent").unwrap();
    assert_eq!(context_texts(&session, None), ["hi", "sent"]);
    store.catch_up().unwrap();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM usage"), 0);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM entries WHERE is_mirror"), 1);
}

#[test]
fn r63_a_key_leads_to_sessions_of_its_own_agent_only() {
    let home = Home::quick();
    let store = Store::open(home.ledger_path()).unwrap();
    let new = |agent, key, id| NewSession { agent, key, id, ..NewSession::default() };
    let dm = "agent:main:telegram:dm:7";
    let mine = store.create(&new(None, Some(dm), Some("same"))).unwrap();
    let theirs = store.create(&new(None, Some("agent:work:telegram:dm:7"), Some("same"))).unwrap();
    assert_ne!(mine.row(), theirs.row());
    let by = |key: &str| store.session(key).ok();
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
fn reserved_and_unprintable_names_are_refused() {
    let home = Home::quick();
    let (store, _) = store(&home);
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
fn r63_imported_keys_do_not_lead_to_other_agents() {
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
    let store = Store::open(home.ledger_path()).unwrap();
    store.import(&home.path(".openclaw"), &mut |_| {}).unwrap();
    assert!(matches!(home.find("agent:other:main"), Err(Error::NoMatch { .. })));
    let own = home.row("agent:main:main");
    // Also collected, the native session is still the one to continue.
    home.sync();
    assert_eq!(home.row("agent:main:main"), own);
    assert_eq!(home.row("s1"), own);
    assert_ne!(home.row("openclaw/s1"), own);
    assert!(matches!(home.find("agent:other:main"), Err(Error::NoMatch { .. })));
}

#[test]
fn the_size_of_the_context_comes_from_the_last_answer() {
    let home = Home::quick();
    let (_, session) = store(&home);
    session.append(user("hi")).unwrap();
    let first = session.append(answer("ho")).unwrap().id;
    let usage = json!({"input": 10, "output": 10, "cacheRead": 500, "cacheWrite": 0,
        "totalTokens": 520});
    for entry in [
        json!({"type": "compaction", "summary": "s", "firstKeptEntryId": first, "tokensBefore": 9,
               "usage": usage}),
        json!({"type": "usage", "usage": usage}),
    ] {
        session.append(entry).unwrap();
    }
    let meta = session.meta().unwrap();
    assert_eq!(meta["totalTokens"], 10);
}

#[test]
fn metadata_is_patched_checked_counted_and_kept() {
    let home = Home::quick();
    let (_, session) = store(&home);
    session.append(user("hi")).unwrap();
    session.append(answer("ho")).unwrap();
    let patch = |value: Value| value.as_object().unwrap().clone();
    let fields = patch(json!({"label": "x", "queueMode": "steer", "somethingNew": {"a": [1]}}));
    let all = session.patch_meta(&fields).unwrap();
    for (name, value) in &fields {
        assert_eq!(all.get(name), Some(value));
    }
    assert_eq!(all["inputTokens"], 7);
    assert_eq!(all["totalTokens"], 10);
    assert_eq!(all["systemSent"], true);
    let all = session.patch_meta(&patch(json!({"label": null}))).unwrap();
    assert!(!all.contains_key("label") && all.contains_key("queueMode"));
    for bad in [
        json!({"queueMode": "sometimes"}),
        json!({"systemSent": "yes"}),
        json!({"totalTokens": 5}),
        json!({"sessionStartedAt": 5}),
        json!({"systemSent": false}),
        json!({"chatType": 5}),
    ] {
        assert!(session.patch_meta(&patch(bad.clone())).is_err(), "{bad}");
    }
    home.assert_rebuilds();
    let store = Store::open(home.ledger_path()).unwrap();
    assert_eq!(store.session(session.id()).unwrap().meta().unwrap(), all);
}

#[test]
fn numbers_of_metadata_stay_as_they_were_written() {
    let home = Home::quick();
    let (_, session) = store(&home);
    let json = r#"{"aa":123456789012345678901234,"ab":{"c":[1E5,0.10]},"ac":9007199254740993.0}"#;
    let patch = Fields::read(json).unwrap();
    let inner = json.trim_matches(['{', '}']).to_owned() + "}";
    let written = |fields: &Fields| serde_json::to_string(fields).unwrap();
    let all = session.patch_fields(&patch).unwrap();
    assert!(written(&all).contains(inner.split_at(inner.len() - 1).0), "{}", written(&all));
    // Other fields are patched, and the projection is rebuilt.
    session.patch_meta(json!({"label": "x"}).as_object().unwrap()).unwrap();
    home.assert_rebuilds();
    let ledger = home.open();
    let again = quipu_ledger::store::meta_of(&ledger, session.row()).unwrap();
    assert!(written(&again).contains(inner.split_at(inner.len() - 1).0), "{}", written(&again));
}

#[test]
fn counts_continue_from_those_before_an_import() {
    let home = Home::quick();
    let store = Store::open(home.ledger_path()).unwrap();
    let folder = home.scratch("state/agents/main/sessions");
    std::fs::create_dir_all(&folder).unwrap();
    let line = |id: &str, parent: Value, message: &Entry| {
        let message: Value = serde_json::from_str(message.as_json()).unwrap();
        let message = message.get("message").unwrap_or(&message);
        json!({"type": "message", "id": id, "parentId": parent, "message": message,
               "timestamp": "2026-01-01T00:00:01.000Z"})
    };
    let lines = [
        json!({"type": "session", "version": 3, "id": "one", "cwd": "/w",
               "timestamp": "2026-01-01T00:00:00.000Z"}),
        line("a", Value::Null, &user("hi")),
        line("b", json!("a"), &answer("ho")),
    ];
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(folder.join("one.jsonl"), lines).unwrap();
    // It has counted entries of files that are gone.
    let noted = json!({"sessionId": "one", "updatedAt": 1_780_000_000_000_i64,
        "sessionStartedAt": 1_760_000_000_000_i64, "inputTokens": 1000, "totalTokens": 500,
        "compactionCount": 3, "cacheRead": 0});
    let index = json!({"agent:main:main": noted});
    std::fs::write(folder.join("sessions.json"), index.to_string()).unwrap();
    store
        .import(&home.scratch("state"), &mut |file| assert!(!file.has_failed, "{file:?}"))
        .unwrap();
    let session = store.session("agent:main:main").unwrap();
    let meta = session.meta().unwrap();
    for (name, value) in noted.as_object().unwrap() {
        assert_eq!(meta.get(name), Some(value), "{name}");
    }
    assert_eq!((&meta["outputTokens"], &meta["systemSent"]), (&json!(3), &json!(true)));
    session.append(user("more")).unwrap();
    session.append(answer("yes")).unwrap();
    let compaction = json!({"type": "compaction", "summary": "s", "firstKeptEntryId": "b"});
    session.append(compaction).unwrap();
    let meta = session.meta().unwrap();
    assert_eq!((&meta["inputTokens"], &meta["outputTokens"]), (&json!(1007), &json!(6)));
    assert_eq!((&meta["totalTokens"], &meta["compactionCount"]), (&json!(10), &json!(4)));
    assert_eq!(meta["sessionStartedAt"], 1_760_000_000_000_i64);
    assert!(meta["updatedAt"].as_i64() > Some(1_780_000_000_000), "{meta:?}");
    home.assert_rebuilds();
    // Another session under the key starts from zero.
    let new = NewSession { key: Some("agent:main:main"), takes_key: true, ..NewSession::default() };
    let new = store.create(&new).unwrap();
    let meta = new.meta().unwrap();
    assert!(!meta.contains_key("inputTokens") && !meta.contains_key("compactionCount"), "{meta:?}");
    assert!(meta["sessionStartedAt"].as_i64() > Some(1_780_000_000_000), "{meta:?}");
    home.assert_rebuilds();
}

#[test]
fn a_forgotten_session_cannot_be_written_to() {
    let home = Home::quick();
    let (store, session) = store(&home);
    session.append(user("CANARY-9f31")).unwrap();
    let fields: Map<String, Value> = json!({"label": "CANARY-9f31"}).as_object().unwrap().clone();
    session.patch_meta(&fields).unwrap();
    let fork = session.fork(&Fork::default()).unwrap();
    // The runtime has it open at the same time.
    quipu_ledger::forget::forget(&mut home.open(), session.id(), &mut |_, _| {}).unwrap();
    let gone = session.append(user("more"));
    assert!(matches!(gone, Err(Error::NoMatch { .. })), "{gone:?}");
    // No new session gets its id.
    let same = NewSession { id: Some(session.id()), ..NewSession::default() };
    let again = store.create(&same).unwrap_err().to_string();
    assert!(again.contains("was forgotten"), "{again}");
    let same = Fork { id: Some(session.id()), ..Fork::default() };
    let again = fork.fork(&same).unwrap_err().to_string();
    assert!(again.contains("was forgotten"), "{again}");
    // A fork is a session of its own.
    assert_eq!(context_texts(&fork, None), ["CANARY-9f31"]);
    quipu_ledger::forget::forget(&mut home.open(), fork.id(), &mut |_, _| {}).unwrap();
    drop((store, session, fork));
    let bytes = std::fs::read(home.ledger_path()).unwrap();
    assert!(memchr::memmem::find(&bytes, b"CANARY-9f31").is_none());
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn appended_entries_restore_as_their_lines() {
    let home = Home::quick();
    let (store, session) = store(&home);
    for turn in 0..2000 {
        // Enough to be sealed during the loop.
        let text = format!("{turn} {}", "words ".repeat(40));
        session.append(user(&text)).unwrap();
    }
    assert!(home.one::<i64>("SELECT count(*) FROM chunks") > 0);
    let restored = home.restored(Generations::Newest);
    let name = format!("native/agents/main/sessions/{}.jsonl", session.id());
    let text = String::from_utf8(restored[&name].clone()).unwrap();
    assert_eq!(text.lines().count(), 2001);
    assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    store.catch_up().unwrap();
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn appended_entries_are_projected_in_the_background() {
    let home = Home::quick();
    let (store, session) = store(&home);
    for number in 0..200 {
        session.append(user(&number.to_string())).unwrap();
    }
    let behind = "SELECT (SELECT max(seq) FROM records) - projected_to FROM ledger";
    // The store is idle; its projector thread projects within a short time.
    let mut patience = 1000;
    while home.one::<i64>(behind) > 0 && patience > 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        patience -= 1;
    }
    assert_eq!(home.one::<i64>(behind), 0);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 200);
    home.assert_rebuilds();
    // A store that is dropped leaves no unprojected record.
    session.append(user("the last word")).unwrap();
    drop((store, session));
    assert_eq!(home.one::<i64>(behind), 0);
    home.assert_rebuilds();
}

#[test]
fn writers_see_unprojected_entries_of_each_other() {
    let home = Home::quick();
    let (_, session) = store(&home);
    let other = Store::open(home.ledger_path()).unwrap();
    let one = session.append(user("one")).unwrap();
    let two = other.session(session.id()).unwrap().append(answer("two")).unwrap();
    // Each appends to the other's last entry, and sees its ids and keys.
    let expected = |id| Append { expected_leaf: Expect::Entry(id), ..Append::default() };
    let three = session.with(expected(&two.id)).append(user("three")).unwrap();
    let key = Append { key: Some("four"), ..expected(&three.id) };
    let four = other.session(session.id()).unwrap().with(key).append(answer("four")).unwrap();
    let again =
        session.with(Append { key: Some("four"), ..Append::default() }).append(answer("four"));
    assert_eq!(again.unwrap(), Appended { repeated: true, ..four.clone() });
    let taken = json!({"type": "custom", "customType": "x", "id": four.id}).to_string();
    assert!(matches!(session.append(Entry::json(&taken)), Err(Error::Exists { .. })));
    // The leaf moves back and forward before anything is projected.
    session.branch(Some(&one.id), None).unwrap();
    let side = other.session(session.id()).unwrap().append(answer("side")).unwrap();
    assert_eq!(context_texts(&session, None), ["one", "side"]);
    let path = session.path(&side.id).unwrap();
    assert_eq!(path.iter().map(|node| &*node.id).collect::<Vec<_>>(), [&*one.id, &*side.id]);
    assert_eq!(session.leaf().unwrap().unwrap().id, side.id);
    home.assert_rebuilds();
    home.assert_sound();
}

/// The model's state of a session.
#[derive(Debug, Clone, Default)]
struct Model {
    /// Id, parent and text (`None` for entries without text); resets are marked.
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

    /// Returns the texts after the last reset on the path.
    fn context_texts(&self, leaf: Option<usize>) -> Vec<String> {
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
    let mut runner = TestRunner::new(crate::home::few_cases(60));
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
                        let done = session.with(how).append(entry).unwrap();
                        model.put(&done.id, model.leaf, Some(text), false);
                        users.push(by_user);
                    }
                    Act::Begin => {
                        let done = session.with(plain).begin_turn(user(&text)).unwrap();
                        // A label does not answer a prompt.
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
                        session.with(plain).branch(model.id(Some(at)), None).unwrap();
                        model.leaf = Some(at);
                    }
                    Act::Root => {
                        session.with(plain).branch(None, None).unwrap();
                        model.leaf = None;
                    }
                    Act::Label(at) if !model.entries.is_empty() => {
                        let at = at.index(model.entries.len());
                        let target = model.entries[at].0.clone();
                        let done = session.with(plain).label(&target, Some(&text)).unwrap();
                        model.put(&done.id, model.leaf, None, false);
                        model.labels.insert(at, text);
                        users.push(false);
                    }
                    Act::Reset => {
                        let done = session.with(plain).reset("reset", None).unwrap();
                        model.put(&done.id, model.leaf, None, true);
                        users.push(false);
                    }
                    Act::Hang(at) if !model.entries.is_empty() => {
                        let at = at.index(model.entries.len());
                        let entry = json!({"type": "message", "parentId": model.entries[at].0,
                            "message": {"role": "user", "content": text}});
                        let done = session.with(plain).append(entry).unwrap();
                        model.put(&done.id, Some(at), Some(text), false);
                        users.push(true);
                    }
                    Act::Conflict => {
                        let expected_leaf = Expect::Entry("nobody");
                        let how = Append { expected_leaf, ..Append::default() };
                        let done = session.with(how).append(user(&text));
                        let Err(Error::Conflict { leaf, .. }) = done else {
                            return Err(TestCaseError::fail("no conflict"));
                        };
                        prop_assert_eq!(leaf.as_deref(), model.id(model.leaf));
                    }
                    Act::Retry => {
                        let how = Append { key: Some(&text), ..plain };
                        let done = session.with(how).append(user(&text)).unwrap();
                        let again = session.with(how).append(user(&text)).unwrap();
                        prop_assert_eq!((&done.id, done.seq), (&again.id, again.seq));
                        model.put(&done.id, model.leaf, Some(text), false);
                        users.push(true);
                    }
                    Act::Fork(at) if !model.entries.is_empty() => {
                        let at = at.index(model.entries.len());
                        let at_id = model.entries[at].0.clone();
                        let fork = Fork { at: Some(&at_id), ..Fork::default() };
                        let forked = session.fork(&fork).unwrap();
                        prop_assert_eq!(
                            context_texts(&forked, None),
                            model.context_texts(Some(at))
                        );
                        prop_assert_eq!(
                            context_texts(&session, None),
                            model.context_texts(model.leaf)
                        );
                        // Continues in the fork, with its own entries.
                        let mut copy = Model::default();
                        let mut copied = Vec::new();
                        // A path of labels alone leaves nothing.
                        let leaf = forked.leaf().unwrap();
                        let path = leaf.map(|leaf| forked.path(&leaf.id).unwrap());
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
                    Act::Reopen => store = Store::open(home.ledger_path()).unwrap(),
                    _ => {}
                }
                let leaf = session.leaf().unwrap().map(|leaf| leaf.id);
                prop_assert_eq!(leaf.as_deref(), model.id(model.leaf));
                prop_assert_eq!(context_texts(&session, None), model.context_texts(model.leaf));
            }
            for at in 0..model.entries.len() {
                let id = &model.entries[at].0;
                let path: Vec<String> =
                    session.path(id).unwrap().into_iter().map(|node| node.id).collect();
                let expected: Vec<String> = model
                    .path(Some(at))
                    .into_iter()
                    .map(|at| model.entries[at].0.clone())
                    .collect();
                prop_assert_eq!(path, expected);
                let children: Vec<String> =
                    session.children(Some(id)).unwrap().into_iter().map(|node| node.id).collect();
                let expected: Vec<String> = model
                    .entries
                    .iter()
                    .filter(|entry| entry.1 == Some(at))
                    .map(|entry| entry.0.clone())
                    .collect();
                prop_assert_eq!(children, expected);
                let first = session.common_ancestor(&model.entries[0].0, id).unwrap();
                let expected =
                    model.path(Some(at)).contains(&0).then(|| model.entries[0].0.clone());
                prop_assert_eq!(first.map(|node| node.id), expected);
            }
            // The ledger's own reader, from the bytes alone, agrees.
            let row = home.find(session.id()).unwrap();
            let seen =
                quipu_ledger::query::context_of(&store.reader().unwrap(), row, None).unwrap();
            prop_assert_eq!(seen.context.messages.len(), model.context_texts(model.leaf).len());
            drop(store);
            home.assert_rebuilds();
            home.assert_sound();
            Ok(())
        })
        .unwrap();
}
