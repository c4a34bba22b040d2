//! Sessions of which only the trajectory of their runs is left.

use std::ops::ControlFlow;

use quipu_ledger::query::{Choice, Filter, Story};
use quipu_transcript::story::{Outcome, Piece, StoryDetail, StoryItem};

use crate::home::*;

const ID: &str = "0d5a7b1e-4c2f-4f6a-9f1b-7a2d3c4e5f60";
const RUNS: &str = include_str!("../fixtures/openclaw.trajectory.jsonl");

fn path(suffix: &str) -> String {
    format!(".openclaw/agents/main/sessions/{ID}{suffix}")
}

/// Returns what is shown of the session: its words and calls.
fn shown(home: &Home) -> Vec<String> {
    let ledger = home.open();
    let mut shown = Vec::new();
    Story::find(&ledger, ID)
        .unwrap()
        .each_item(&Choice::default(), &mut |item| {
            for piece in &item.pieces {
                match piece {
                    Piece::Words(words) => shown.push(format!("{:?} {words}", item.turn)),
                    Piece::Call(call) => {
                        assert_eq!(call.outcome, Some(Outcome::Fine));
                        shown.push(call.about.clone().unwrap_or_default());
                    }
                    _ => {}
                }
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    shown
}

#[test]
fn a_session_known_from_its_trajectory_alone_is_kept_listed_and_marked() {
    let home = Home::new();
    home.write(&path(".trajectory.jsonl"), RUNS);
    home.sync_and_check();
    let listed = quipu_ledger::query::sessions(&home.open(), &Filter::default(), None).unwrap();
    let [session] = listed.sessions.as_slice() else { panic!("{listed:?}") };
    assert_eq!((session.session_id.as_str(), session.part.as_str()), (ID, "trajectory"));
    assert_eq!(session.state.as_str(), "lost");
    assert_eq!(session.title.as_deref(), Some("how high is the tide?"));
    assert_eq!(session.project, "tidepool");
    assert_eq!((session.turns, session.tool_calls), (1, 1));
    assert_eq!(session.last_prompts, ["how high is the tide?"]);
    assert_eq!(
        shown(&home),
        [
            "Some(1) how high is the tide?",
            "Some(1) I look it up.",
            "tides.csv",
            "Some(1) 3.2 metres at noon.",
        ]
    );
    assert_eq!(Story::find(&home.open(), ID).unwrap().head().turns, 1);
    assert_eq!(home.hits("metres"), 1);
    assert_eq!(home.one::<i64>("SELECT sum(output_tokens) FROM usage"), 34);
    home.append(&path(".trajectory.jsonl"), "not JSON\n");
    home.sync();
    let full = Choice { detail: StoryDetail::FULL, ..Choice::default() };
    let is_unreadable = |item: &StoryItem<'_>| item.type_name == "unreadable";
    assert_eq!(home.items_of(ID, &full, is_unreadable), [false, false, false, false, true]);
    // The trajectory grows.
    home.append(&path(".trajectory.jsonl"), RUNS.replace("tide?", "next tide?"));
    home.sync_and_check();
    assert_eq!(home.one::<i64>("SELECT turns FROM sessions"), 2);
}

#[test]
fn a_trajectory_that_repeats_a_transcript_is_left_out() {
    let line = r#"{"type":"message","id":"00000001","parentId":null,"message":{"role":"user","content":"how high is the tide?"}}"#;
    for name in [".jsonl", ".jsonl.deleted.2026-02-04T10-30-00.000Z"] {
        let home = Home::new();
        home.write(&path(".trajectory.jsonl"), RUNS);
        home.write(&path(name), format!("{line}\n"));
        home.sync_and_check();
        assert_eq!(home.one::<i64>("SELECT count(*) FROM sources WHERE kind = 'file'"), 1);
        // The transcript is in the ledger, even if it is no longer on disk.
        home.remove(&path(name));
        home.sync();
        assert_eq!(home.one::<i64>("SELECT count(*) FROM sources WHERE kind = 'file'"), 1);
        assert_eq!(shown(&home).len(), 1);
    }
}

#[test]
fn the_trajectory_of_a_forgotten_session_is_not_collected() {
    let home = Home::new();
    home.write(&path(".trajectory.jsonl"), RUNS);
    home.sync();
    home.forget(ID);
    home.sync();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 0);
    assert_eq!(home.hits("metres"), 0);
}
