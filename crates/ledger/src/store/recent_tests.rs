//! Tests that the context read from the end of a long session equals the context of all its lines.
//!
//! Plays random actions on a temporary ledger. The tests are not beside the tested code in `read`,
//! because they write sessions through the store, and `read` may not use `store`.

use proptest::prelude::*;
use quipu_transcript::context::At;
use serde_json::{Value, json};

use crate::read::query::context::recent::context_from_end;
use crate::read::query::context::transcript_generations;
use crate::store::{NewSession, Session, Store};

/// One action of a runtime.
#[derive(Debug, Clone)]
enum Act {
    Say(&'static str),
    Model,
    Think(u8),
    Label(usize),
    Compact(usize),
    Reset(bool),
    Branch(usize),
    Side,
    Usage,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => prop::sample::select(vec!["user", "assistant"]).prop_map(Act::Say),
        1 => Just(Act::Model),
        1 => any::<u8>().prop_map(Act::Think),
        1 => any::<usize>().prop_map(Act::Label),
        3 => any::<usize>().prop_map(Act::Compact),
        1 => any::<bool>().prop_map(Act::Reset),
        1 => any::<usize>().prop_map(Act::Branch),
        1 => Just(Act::Side),
        1 => Just(Act::Usage),
    ]
}

fn entry(act: &Act, ids: &[String]) -> Option<Value> {
    let any = |index: &usize| ids.get(index % ids.len().max(1));
    Some(match act {
        Act::Say(role) => json!({"type": "message", "message": {"role": role,
            "content": [{"type": "text", "text": format!("word {}", ids.len())}],
            "provider": "p", "model": format!("m{}", ids.len() % 3)}}),
        Act::Model => json!({"type": "model_change", "provider": "p", "modelId": "other"}),
        Act::Think(level) => {
            json!({"type": "thinking_level_change", "thinkingLevel": format!("level {level}")})
        }
        Act::Label(target) => json!({"type": "label", "targetId": any(target)?, "label": "x"}),
        Act::Compact(from) => {
            json!({"type": "compaction", "summary": "s", "firstKeptEntryId": any(from)?})
        }
        Act::Reset(false) => json!({"type": "reset", "reason": "new"}),
        Act::Reset(true) => {
            json!({"type": "reset", "reason": "new", "firstKeptEntryId": ids.last()?})
        }
        Act::Branch(to) => json!({"type": "leaf", "targetId": any(to)?}),
        Act::Side => json!({"type": "custom", "customType": "c", "appendMode": "side"}),
        Act::Usage => json!({"type": "usage", "usage": {"input": 1}}),
    })
}

/// Returns the context from the last lines, and from all lines.
fn contexts(store: &Store, session: &Session) -> (Option<Value>, Value) {
    let ledger = store.reader().unwrap();
    let generation = transcript_generations(ledger.conn(), session.row()).unwrap().remove(0);
    let recent = context_from_end(ledger.conn(), &generation, session.row()).unwrap();
    let (whole, _) = generation.context(ledger.conn(), At::Leaf).unwrap().unwrap();
    let value = |context| serde_json::to_value(context).unwrap();
    (recent.map(value), serde_json::to_value(whole).unwrap())
}

fn play(acts: &[Act]) -> (Option<Value>, Value) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("ledger.db")).unwrap();
    let session = store.create(&NewSession::default()).unwrap();
    let mut ids = Vec::new();
    for act in acts {
        let Some(entry) = entry(act, &ids) else { continue };
        // A refused entry leaves no trace.
        if let Ok(done) = session.append(entry)
            && !matches!(act, Act::Branch(_) | Act::Side)
        {
            ids.push(done.id);
        }
    }
    contexts(&store, &session)
}

/// Returns the configuration of a property test: `cases` cases that are the same in every run or,
/// if `PROPTEST_CASES` is set, that number of random ones.
fn few_cases(cases: u32) -> proptest::test_runner::Config {
    use proptest::test_runner::{Config, RngSeed};
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => Config { failure_persistence: None, ..Config::default() },
        None => {
            let rng_seed = RngSeed::Fixed(1);
            Config { cases, rng_seed, failure_persistence: None, ..Config::default() }
        }
    }
}

proptest! {
    #![proptest_config(few_cases(48))]
    #[test]
    fn the_context_from_the_end_equals_the_context_of_all_lines(
        acts in prop::collection::vec(act(), 0..40),
    ) {
        if let (Some(recent), whole) = play(&acts) {
            prop_assert_eq!(recent, whole);
        }
    }
}

#[test]
fn a_session_without_a_moved_leaf_is_read_from_its_end() {
    let mut acts = vec![Act::Think(7)];
    for turn in 0..20 {
        acts.extend([Act::Say("user"), Act::Say("assistant"), Act::Label(turn)]);
    }
    acts.extend([Act::Compact(60), Act::Say("user"), Act::Say("assistant")]);
    let (recent, whole) = play(&acts);
    assert_eq!(recent.as_ref(), Some(&whole));
    assert_eq!(whole["thinkingLevel"], "level 7");
    // After the leaf was moved, the whole session must be read.
    acts.extend([Act::Branch(62), Act::Say("user")]);
    assert_eq!(play(&acts).0, None);
}
