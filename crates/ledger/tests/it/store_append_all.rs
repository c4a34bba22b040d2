//! Many calls in one transaction give what the same calls give one by one.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use quipu_ledger::Error;
use quipu_ledger::store::{
    Append, AppendCall, Appended, CompactionSettings, Entry, Expect, NewSession, Session, Store,
};
use serde_json::{Value, json};

use crate::home::Home;

const SESSIONS: [&str; 3] = ["s0", "s1", "s2"];

fn call<'a>(session: &'a Session, entries: Vec<Entry>) -> AppendCall<'a> {
    let conditions = Append::default();
    AppendCall { session, entries, conditions, begins_turn: false, measures: false }
}

fn open(home: &Home) -> (Store, Vec<Session>) {
    let store = Store::open(home.ledger_path()).unwrap();
    let sessions = SESSIONS.map(|id| store.create(&NewSession { id: Some(id), ..<_>::default() }));
    let sessions = sessions.into_iter().map(Result::unwrap).collect();
    (store, sessions)
}

#[test]
fn a_conflict_of_one_call_does_not_affect_the_others() {
    let home = Home::quick();
    let (store, sessions) = open(&home);
    let at_root = Append { expected_leaf: Expect::Root, ..Append::default() };
    let calls = [
        AppendCall { conditions: at_root, ..call(&sessions[0], vec![Entry::user("one")]) },
        AppendCall { conditions: at_root, ..call(&sessions[0], vec![Entry::user("late")]) },
        call(&sessions[1], vec![Entry::json("no JSON")]),
        call(&sessions[1], vec![]),
        // The second entry is refused, so the first one is not stored either.
        call(
            &sessions[2],
            vec![Entry::user("half").id("half"), Entry::user("x").parent(Some("?"))],
        ),
        call(&sessions[2], vec![Entry::user("whole").id("half"), Entry::assistant("yes")]),
    ];
    let answers = store.append_all(&calls).unwrap();
    let first = &answers[0].as_ref().unwrap()[0];
    match &answers[1] {
        Err(Error::Conflict { leaf, .. }) => assert_eq!(leaf.as_ref(), Some(&first.id)),
        other => panic!("{other:?}"),
    }
    assert!(matches!(answers[2], Err(Error::Refused { .. })));
    assert!(matches!(answers[3], Err(Error::Refused { .. })));
    assert!(matches!(answers[4], Err(Error::NoMatch { .. })), "{:?}", answers[4]);
    let last = answers[5].as_ref().unwrap();
    assert_eq!((last.len(), &*last[0].id), (2, "half"));
    assert_eq!(sessions[2].context().unwrap().messages.len(), 2);
    assert_eq!(sessions[0].branches().unwrap().len(), 1);
    assert_eq!(sessions[1].leaf().unwrap(), None);
    // The numbers have no holes.
    assert_eq!(last[0].seq.0, first.seq.0 + 1);
    // A session of another store is refused.
    let other_home = Home::quick();
    let (_other, foreign) = open(&other_home);
    let answers = store.append_all(&[call(&foreign[0], vec![Entry::user("x")])]).unwrap();
    assert!(matches!(answers[0], Err(Error::Refused { .. })));
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn a_repeated_call_finds_its_entries_whole_even_after_others() {
    let home = Home::quick();
    let (store, sessions) = open(&home);
    let session = &sessions[0];
    let keyed = Append { key: Some("run-7"), expected_leaf: Expect::Root, part: 0 };
    let entries = || vec![Entry::user("one"), Entry::assistant("two"), Entry::assistant("three")];
    let once = AppendCall { conditions: keyed, ..call(session, entries()) };
    // The same call twice in one transaction, and once more after another entry.
    let answers = store.append_all(&[once.clone(), once.clone()]).unwrap();
    session.append(Entry::user("later")).unwrap();
    let third = store.append_all(&[once]).unwrap().remove(0).unwrap();
    let [first, second] = answers.try_into().unwrap();
    let (first, second): (Vec<Appended>, Vec<Appended>) = (first.unwrap(), second.unwrap());
    let ids = |appended: &[Appended]| -> Vec<(String, i64)> {
        appended.iter().map(|entry| (entry.id.clone(), entry.seq.0)).collect()
    };
    assert_eq!((ids(&first), ids(&first)), (ids(&second), ids(&third)));
    assert!(first.iter().all(|entry| !entry.repeated));
    assert!(second.iter().chain(&third).all(|entry| entry.repeated));
    // The command line continues the same key with the same numbers.
    let part = Append { key: Some("run-7"), part: 2, ..Append::default() };
    assert!(session.with(part).append(Entry::assistant("two")).unwrap().repeated);
    // Another text under the key.
    let other = AppendCall { conditions: keyed, ..call(session, vec![Entry::user("other")]) };
    let refused = store.append_all(&[other]).unwrap().remove(0);
    assert!(matches!(refused, Err(Error::KeyUsed { .. })), "{refused:?}");
    assert_eq!(session.context().unwrap().messages.len(), 4);
}

#[test]
fn a_forgotten_session_fails_alone() {
    let home = Home::quick();
    let (store, sessions) = open(&home);
    sessions[0].append(Entry::user("secret")).unwrap();
    store.catch_up().unwrap();
    home.forget(SESSIONS[0]);
    let calls = [
        call(&sessions[0], vec![Entry::user("again")]),
        call(&sessions[1], vec![Entry::user("other")]),
    ];
    let answers = store.append_all(&calls).unwrap();
    assert!(matches!(answers[0], Err(Error::NoMatch { .. })), "{:?}", answers[0]);
    assert_eq!(answers[1].as_ref().unwrap().len(), 1);
}

#[test]
fn what_is_due_is_counted_for_those_who_ask() {
    let home = Home::quick();
    let (store, sessions) = open(&home);
    let settings = CompactionSettings { window: Some(30_000), ..Default::default() };
    store.set_compaction(Some(settings));
    let long = "many words ".repeat(20_000);
    let calls = [
        call(&sessions[0], vec![Entry::user(&long)]),
        AppendCall { measures: true, ..call(&sessions[1], vec![Entry::user(&long)]) },
        call(&sessions[1], vec![Entry::assistant("yes")]),
    ];
    let due: Vec<bool> = store
        .append_all(&calls)
        .unwrap()
        .into_iter()
        .map(|answer| answer.unwrap()[0].compaction_due)
        .collect();
    assert_eq!(due, [false, true, false]);
    assert_eq!(store.contexts_counted(), 1);
}

/// One generated call.
#[derive(Debug, Clone)]
struct Made {
    session: usize,
    /// The entries: what they are, and a number that decides about ids.
    entries: Vec<(u8, u8)>,
    expect: u8,
    key: Option<u8>,
    begins_turn: bool,
}

fn made() -> impl Strategy<Value = Made> {
    (
        0..SESSIONS.len(),
        prop::collection::vec((0_u8..9, 0_u8..6), 1..4),
        0_u8..6,
        prop::option::weighted(0.3, 0_u8..4),
        prop::bool::weighted(0.2),
    )
        .prop_map(|(session, entries, expect, key, begins_turn)| Made {
            session,
            entries,
            expect,
            key,
            begins_turn,
        })
}

/// A store with what it has answered.
struct Side {
    home: Home,
    store: Store,
    sessions: Vec<Session>,
    answers: Vec<String>,
}

impl Side {
    fn new() -> Side {
        let home = Home::quick();
        let (store, sessions) = open(&home);
        Side { home, store, sessions, answers: Vec::new() }
    }

    /// Makes calls in one transaction.
    fn make(&mut self, from: usize, calls: &[Made]) {
        let texts: Vec<(Option<String>, Option<String>)> = calls
            .iter()
            .map(|made| {
                let expect = match made.expect {
                    // An entry that may be the leaf, or may not exist.
                    3..=5 => Some(format!("e{}", made.expect)),
                    _ => None,
                };
                (expect, made.key.map(|key| format!("key {key}")))
            })
            .collect();
        let calls: Vec<AppendCall<'_>> = (from..)
            .zip(calls)
            .zip(&texts)
            .map(|((number, made), (expect, key))| AppendCall {
                session: &self.sessions[made.session],
                entries: made.entries.iter().map(|kind| entry(number, *kind)).collect(),
                conditions: Append {
                    expected_leaf: match expect {
                        Some(id) => Expect::Entry(id),
                        None if made.expect == 2 => Expect::Root,
                        None => Expect::Any,
                    },
                    key: key.as_deref(),
                    part: 0,
                },
                begins_turn: made.begins_turn,
                measures: false,
            })
            .collect();
        // A single entry takes the usual way.
        let answers = match calls.as_slice() {
            [AppendCall { session, entries, conditions, begins_turn, .. }]
                if entries.len() == 1 =>
            {
                let (with, entry) = (session.with(*conditions), entries[0].clone());
                let one = if *begins_turn { with.begin_turn(entry) } else { with.append(entry) };
                vec![one.map(|appended| vec![appended])]
            }
            calls => self.store.append_all(calls).unwrap(),
        };
        self.answers.extend(answers.into_iter().map(|answer| match answer {
            Ok(entries) => format!("{entries:?}"),
            Err(error) => error.to_string(),
        }));
    }

    fn state(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for session in &self.sessions {
            let context = session.context().unwrap();
            let branches: Vec<String> =
                session.branches().unwrap().into_iter().map(|branch| branch.tip.id).collect();
            let messages: Vec<Value> = context
                .messages
                .iter()
                .map(|message| {
                    let mut message: Value = serde_json::from_str(message.json()).unwrap();
                    // The time of the append.
                    message.as_object_mut().unwrap().remove("timestamp");
                    message
                })
                .collect();
            all.push(json!({"leaf": context.leaf, "messages": messages, "branches": branches}));
        }
        all
    }
}

fn entry(call: usize, (kind, number): (u8, u8)) -> Entry {
    // Ids are given, so that both sides have the same ones; some are taken already.
    let id =
        if number == 5 { format!("e{}", call % 7) } else { format!("c{call}-{kind}-{number}") };
    match kind {
        0..=2 => Entry::user("question").id(&id),
        3..=4 => Entry::assistant("answer").id(&id),
        5 => Entry::user("elsewhere").id(&id).parent(Some(&format!("e{number}"))),
        6 => json!({"type": "leaf", "id": id, "targetId": format!("e{number}")}).into(),
        7 => {
            json!({"type": "label", "id": id, "targetId": format!("e{}", number / 2), "label": "l"})
                .into()
        }
        _ => json!({"type": "reset", "id": id, "reason": "reset"}).into(),
    }
}

/// Any calls in transactions of any size give the answers, the sessions and the numbers that each
/// call in a transaction of its own gives.
#[test]
fn any_grouping_of_calls_gives_the_same_answers() {
    let calls = prop::collection::vec(made(), 1..40);
    let sizes = prop::collection::vec(1_usize..12, 40);
    let mut runner = TestRunner::new(ProptestConfig { cases: 24, ..ProptestConfig::default() });
    let result = runner.run(&(calls, sizes), |(calls, sizes)| {
        let (mut one_by_one, mut grouped) = (Side::new(), Side::new());
        for (number, made) in calls.iter().enumerate() {
            one_by_one.make(number, std::slice::from_ref(made));
        }
        let (mut from, mut sizes) = (0, sizes.into_iter());
        while from < calls.len() {
            let to = (from + sizes.next().unwrap_or(1)).min(calls.len());
            grouped.make(from, &calls[from..to]);
            from = to;
        }
        prop_assert_eq!(&one_by_one.answers, &grouped.answers);
        prop_assert_eq!(one_by_one.state(), grouped.state());
        grouped.home.assert_rebuilds();
        Ok(())
    });
    result.unwrap();
}
