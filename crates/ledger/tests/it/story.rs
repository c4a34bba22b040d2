//! Stories and trees of stored sessions: order, versions, copies, branches.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use quipu_ledger::query::{Choice, Story, tree};
use quipu_transcript::entry::Role;
use quipu_transcript::story::{ItemKind, Outcome, Piece, StoryDetail, StoryItem};

use crate::home::{Home, fixtures, line, request};

const CLAW: &str = ".openclaw/agents/main/sessions/s.jsonl";
const MAIN: &str = ".claude/projects/-p/00000001-0000-4000-8000-000000000001.jsonl";
const SESSION: &str = "00000001";

/// Returns an entry of OpenClaw.
fn claw(id: &str, parent: &str, role: &str, text: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(
        r#"{{"type":"message","id":"{id}","parentId":{parent},"message":{{"role":"{role}","content":[{{"type":"text","text":"{text}"}}]}}}}"#
    )
}

fn text(lines: &[impl AsRef<str>]) -> String {
    lines.iter().map(|line| format!("{}\n", line.as_ref())).collect()
}

fn collected(path: &str, bytes: impl AsRef<[u8]>) -> Home {
    let home = Home::new();
    home.write(path, bytes);
    home.sync();
    home
}

/// Returns the story, one line per item.
#[track_caller]
fn rendered(home: &Home, session: &str, choice: &Choice) -> String {
    let mut rendered = String::new();
    home.items_of(session, choice, |item| describe(item, &mut rendered));
    rendered.trim_end().to_owned()
}

#[track_caller]
fn all(home: &Home, session: &str) -> String {
    rendered(home, session, &Choice::default())
}

fn describe(item: &StoryItem<'_>, rendered: &mut String) {
    if let Some(rewind) = &item.rewind {
        writeln!(rendered, "<- {:?}", rewind.to_turn).unwrap();
    }
    if !matches!(item.kind, ItemKind::Message) {
        writeln!(rendered, "{}", item.kind.as_str()).unwrap();
    }
    for piece in &item.pieces {
        let marks = [(item.is_absent, " (absent)"), (item.is_provisional, " (provisional)")];
        let marks: String = marks.iter().filter(|mark| mark.0).map(|mark| mark.1).collect();
        match piece {
            Piece::Words(words) => writeln!(rendered, "{words}{marks}").unwrap(),
            Piece::Call(call) => {
                let end = match call.outcome {
                    Some(Outcome::Fine) => "",
                    Some(Outcome::Failed) => " failed",
                    Some(Outcome::Mentions) => " mentions",
                    None => " open",
                };
                let started = call.subagent.as_deref().map(|id| format!(" -> {id}"));
                let about = call.about.as_deref().unwrap_or("-");
                writeln!(rendered, "{} {about}{end}{}", call.name, started.unwrap_or_default())
                    .unwrap();
            }
            _ => {}
        }
    }
}

#[test]
fn entries_come_in_the_order_of_the_file_with_rewinds_marked() {
    let home = collected(
        CLAW,
        text(&[
            claw("00000001", "", "user", "one"),
            claw("00000002", "00000001", "assistant", "1"),
            claw("00000003", "00000002", "user", "two"),
            claw("00000004", "00000003", "assistant", "2"),
            claw("00000005", "00000002", "user", "two again"),
            claw("00000006", "00000005", "assistant", "2b"),
            claw("00000007", "", "user", "one again"),
        ]),
    );
    assert_eq!(all(&home, "s"), "one\n1\ntwo\n2\n<- Some(1)\ntwo again\n2b\n<- None\none again");
}

/// Returns an answer with one line per call, and results that are children of their own calls.
fn parallel() -> String {
    let call = |uuid: &str, parent: &str, id: &str| {
        format!(
            r#"{{"type":"assistant","uuid":"{uuid}","parentUuid":"{parent}","message":{{"id":"m1","role":"assistant","content":[{{"type":"tool_use","id":"{id}","name":"Read","input":{{"file_path":"{id}.rs"}}}}]}}}}"#
        )
    };
    let result = |uuid: &str, parent: &str, id: &str, is_error: bool| {
        format!(
            r#"{{"type":"user","uuid":"{uuid}","parentUuid":"{parent}","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":"an error","is_error":{is_error}}}]}}}}"#
        )
    };
    text(&[
        line("user", "u1", None, "look"),
        call("a1", "u1", "t1"),
        call("a2", "a1", "t2"),
        call("a3", "a2", "t3"),
        result("r2", "a2", "t2", false),
        result("r3", "a3", "t3", true),
        result("r1", "a1", "t1", false),
        line("assistant", "a4", Some("r1"), "seen"),
        line("user", "u2", Some("a4"), "thanks"),
    ])
}

#[test]
fn parallel_calls_are_no_forks() {
    let home = collected(MAIN, parallel());
    let story = "look\nRead t1.rs\nRead t2.rs\nRead t3.rs failed\nseen\nthanks";
    assert_eq!(all(&home, SESSION), story);
    let lines = tree(&home.open(), SESSION).unwrap();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!((lines[0].entries, lines[0].turns, lines[0].tool_calls), (9, 2, 3));
    assert_eq!(lines[0].last_entry_id.as_deref(), Some("u2"));
}

/// Queue operations are not entries of the conversation.
#[test]
fn queue_operations_are_not_nodes() {
    let line =
        |rest: &str| format!(r#"{{"sessionId":"00000001-0000-4000-8000-000000000001",{rest}}}"#);
    let lines = [
        r#""type":"user","uuid":"u1","parentUuid":null,"message":{"role":"user","content":"start"}"#,
        r#""type":"queue-operation","operation":"enqueue","content":"then ship it""#,
        r#""type":"queue-operation","operation":"enqueue","content":"and rest""#,
        r#""type":"queue-operation","operation":"dequeue""#,
        r#""type":"user","uuid":"u2","parentUuid":"u1","message":{"role":"user","content":"then ship it"}"#,
        r#""type":"queue-operation","operation":"remove","content":"wait""#,
        r#""type":"user","message":{"role":"user","content":"no parent"}"#,
        r#""type":"queue-operation","operation":"enqueue","content":"bye""#,
    ];
    let lines: Vec<String> = lines.iter().map(|rest| line(rest)).collect();
    // Also if the last line has no newline yet.
    for end in ["\n", ""] {
        let home = collected(MAIN, text(&lines).trim_end().to_owned() + end);
        home.sync();
        let drawn = tree(&home.open(), SESSION).unwrap();
        assert_eq!(drawn.len(), 1, "{drawn:#?}");
        assert_eq!((drawn[0].entries, drawn[0].turns), (3, 3), "{drawn:#?}");
    }
}

#[test]
fn a_branch_is_the_path_from_the_root_with_its_results() {
    let home = collected(MAIN, parallel());
    let choice = Choice { branch: Some("a4".to_owned()), ..Choice::default() };
    assert_eq!(
        rendered(&home, SESSION, &choice),
        "look\nRead t1.rs\nRead t2.rs\nRead t3.rs failed\nseen"
    );
    let home = collected(
        CLAW,
        text(&[
            claw("00000001", "", "user", "one"),
            claw("00000002", "00000001", "user", "left"),
            claw("00000003", "00000001", "user", "kept"),
        ]),
    );
    for (leaf, story) in
        [("00000002", "one\nleft"), ("00000003", "one\nkept"), ("leaf", "one\nkept")]
    {
        let choice = Choice { branch: Some(leaf.to_owned()), ..Choice::default() };
        assert_eq!(rendered(&home, "s", &choice), story);
    }
    let ambiguous = Choice { branch: Some("0000".to_owned()), ..Choice::default() };
    let ledger = home.open();
    let story = Story::find(&ledger, "s").unwrap();
    let error = story.each_item(&ambiguous, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(error.to_string().contains("0000"), "{error}");
}

#[test]
fn turns_roles_and_last_entries_can_be_chosen() {
    let home = collected(
        CLAW,
        text(&[
            claw("00000001", "", "user", "one"),
            claw("00000002", "00000001", "assistant", "1"),
            claw("00000003", "00000002", "user", "two"),
            claw("00000004", "00000003", "assistant", "2"),
            claw("00000005", "00000004", "user", "three"),
        ]),
    );
    let rendered = |choice: Choice| rendered(&home, "s", &choice);
    assert_eq!(rendered(Choice { turn: Some(2), ..Choice::default() }), "two\n2");
    assert_eq!(rendered(Choice { last: Some(2), ..Choice::default() }), "2\nthree");
    assert_eq!(rendered(Choice { last: Some(99), ..Choice::default() }), "one\n1\ntwo\n2\nthree");
    assert_eq!(rendered(Choice { last: Some(0), ..Choice::default() }), "");
    let user = Some(Role::User);
    assert_eq!(rendered(Choice { role: user, ..Choice::default() }), "one\ntwo\nthree");
    assert_eq!(rendered(Choice { role: user, last: Some(2), ..Choice::default() }), "two\nthree");
    assert_eq!(rendered(Choice { entry: Some("00000004".into()), ..Choice::default() }), "2");
    let ledger = home.open();
    let story = Story::find(&ledger, "s").unwrap();
    let choice = Choice { turn: Some(4), ..Choice::default() };
    assert!(story.each_item(&choice, &mut |_| ControlFlow::Continue(())).is_err());
}

#[test]
fn an_edited_line_is_shown_once_in_its_place() {
    let lines = |second: &str| {
        text(&[
            claw("00000001", "", "user", "one"),
            claw("00000002", "00000001", "assistant", second),
            claw("00000003", "00000002", "user", "three"),
        ])
    };
    let home = collected(CLAW, lines("2"));
    home.write(CLAW, lines("second"));
    home.sync_and_check();
    assert_eq!(all(&home, "s"), "one\nsecond\nthree");
    let choice = Choice { branch: Some("leaf".to_owned()), ..Choice::default() };
    assert_eq!(rendered(&home, "s", &choice), "one\nsecond\nthree");
    let lines = tree(&home.open(), "s").unwrap();
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[test]
fn an_edited_prompt_keeps_its_number() {
    let lines = |second: &str| {
        let roles = ["user", "assistant"].into_iter().cycle();
        let texts = ["one", "1", second, "2", "three", "3", "four", "4"];
        let lines: Vec<_> = texts
            .iter()
            .zip(roles)
            .enumerate()
            .map(|(at, (text, role))| {
                let parent = if at == 0 { String::new() } else { format!("{at:08}") };
                claw(&format!("{:08}", at + 1), &parent, role, text)
            })
            .collect();
        text(&lines)
    };
    let home = collected(CLAW, lines("the secret"));
    for second in ["the ***", "the masked"] {
        home.write(CLAW, lines(second));
        home.sync_and_check();
    }
    let mut numbers = Vec::new();
    home.items_of("s", &Choice::default(), |item| numbers.extend(item.turn));
    assert_eq!(numbers, [1, 1, 2, 2, 3, 3, 4, 4]);
    let turn = |turn| Choice { turn: Some(turn), ..Choice::default() };
    assert_eq!(rendered(&home, "s", &turn(2)), "the masked\n2");
    assert_eq!(rendered(&home, "s", &turn(4)), "four\n4");
    let ledger = home.open();
    assert_eq!(Story::find(&ledger, "s").unwrap().head().turns, 4);
    let turns: Vec<u64> = tree(&ledger, "s").unwrap().iter().map(|line| line.turns).collect();
    assert_eq!(turns, [4]);
    for (words, number) in [("masked", 2), ("four", 4)] {
        let hits = home.search(&request(words)).hits;
        assert_eq!(
            hits.iter().map(|hit| hit.turn_number).collect::<Vec<_>>(),
            [Some(number)],
            "{words}"
        );
    }
}

#[test]
fn lines_dropped_by_a_rewrite_are_shown_in_their_place() {
    let lines = [
        claw("00000001", "", "user", "one"),
        claw("00000002", "00000001", "assistant", "dropped"),
        claw("00000003", "00000002", "user", "three"),
    ];
    let home = collected(CLAW, text(&lines));
    let mut kept = vec![lines[0].clone(), lines[2].clone()];
    kept.push(claw("00000004", "00000003", "assistant", "four"));
    home.write(CLAW, text(&kept));
    home.sync_and_check();
    assert_eq!(all(&home, "s"), "one\ndropped (absent)\nthree\nfour");
}

#[test]
fn lines_of_a_later_backup_are_shown_in_their_place() {
    let lines = [
        claw("00000001", "", "user", "one"),
        claw("00000002", "00000001", "assistant", "only in the backup"),
        claw("00000003", "00000002", "user", "three"),
        claw("00000004", "00000003", "assistant", "four"),
    ];
    let home = collected(CLAW, text(&[&lines[0], &lines[2], &lines[3]]));
    home.write(&format!("{CLAW}.bak-4711-1770193116233"), text(&lines[..3]));
    home.sync_and_check();
    assert_eq!(all(&home, "s"), "one\nonly in the backup\nthree\nfour");
}

#[test]
fn files_with_nothing_in_common_come_in_the_order_of_their_times() {
    let rendered = |day: u32, word: &str| {
        format!(
            r#"{{"type":"message","id":"0000000{day}","parentId":null,"timestamp":"2026-02-0{day}T10:00:00Z","message":{{"role":"user","content":"{word}"}}}}"#
        )
    };
    let home = collected(CLAW, text(&[rendered(5, "later")]));
    home.write(&format!("{CLAW}.reset.2026-02-04T10-30-00.000Z"), text(&[rendered(3, "earlier")]));
    home.sync_and_check();
    assert!(all(&home, "s").starts_with("earlier\n"), "{}", all(&home, "s"));
}

#[test]
fn repeated_and_welded_lines_are_shown_once() {
    let one = claw("00000001", "", "user", "one");
    let two = claw("00000002", "00000001", "assistant", "two");
    let three = claw("00000003", "00000002", "user", "three");
    let home = collected(CLAW, text(&[one.clone(), format!("{one}{two}"), two.clone(), three]));
    assert_eq!(all(&home, "s"), "one\ntwo\nthree");
    let last = Choice { last: Some(2), ..Choice::default() };
    assert_eq!(rendered(&home, "s", &last), "two\nthree");
}

#[test]
fn an_unterminated_last_line_is_marked_as_provisional() {
    let mut bytes = text(&[claw("00000001", "", "user", "one")]);
    bytes.push_str(&claw("00000002", "00000001", "assistant", "not yet"));
    let home = collected(CLAW, &bytes);
    home.sync();
    assert_eq!(all(&home, "s"), "one\nnot yet (provisional)");
    let last = Choice { last: Some(1), ..Choice::default() };
    assert_eq!(rendered(&home, "s", &last), "not yet (provisional)");
}

#[test]
fn a_session_known_from_prompts_alone_has_a_story() {
    let home = collected(
        ".claude/history.jsonl",
        text(&[
            r#"{"display":"first","timestamp":1770193116233,"project":"/p","sessionId":"lost-1"}"#,
            r#"{"display":"other","timestamp":1770193116234,"project":"/p","sessionId":"lost-2"}"#,
            r#"{"display":"second","timestamp":1770193116235,"project":"/p","sessionId":"lost-1"}"#,
        ]),
    );
    assert_eq!(all(&home, "lost-1"), "first\nsecond");
}

#[test]
fn raw_records_are_returned_byte_for_byte() {
    let lines = [
        claw("00000001", "", "user", "one"),
        format!("  {}\t", claw("00000002", "00000001", "assistant", "\\u001b[2J")),
        claw("00000003", "00000002", "user", "three"),
    ];
    let home = collected(CLAW, text(&lines));
    let raw = |choice: &Choice| {
        let ledger = home.open();
        let mut bytes = Vec::new();
        Story::find(&ledger, "s")
            .unwrap()
            .raw(choice, &mut |part| {
                bytes.extend_from_slice(part);
                ControlFlow::Continue(())
            })
            .unwrap();
        String::from_utf8(bytes).unwrap()
    };
    assert_eq!(raw(&Choice::default()), text(&lines));
    let one = Choice { entry: Some("00000002".to_owned()), ..Choice::default() };
    assert_eq!(raw(&one), text(&lines[1..2]));
}

#[test]
fn a_story_stops_when_its_caller_does() {
    let lines: Vec<String> = (1..50).map(|n| claw(&format!("{n:08x}"), "", "user", "x")).collect();
    let home = collected(CLAW, text(&lines));
    let ledger = home.open();
    let mut heard = 0;
    Story::find(&ledger, "s")
        .unwrap()
        .each_item(&Choice::default(), &mut |_| {
            heard += 1;
            ControlFlow::Break(())
        })
        .unwrap();
    assert_eq!(heard, 1);
}

#[test]
fn sub_agents_are_named_by_the_calls_that_started_them() {
    let home = Home::new();
    crate::home::copy(&fixtures("claude-code"), &home.path(".claude"));
    home.sync();
    let story = all(&home, "00000004");
    assert!(story.contains("-> 00000004-0000-4000-8000-000000000004/agent-a1b2c3d"), "{story}");
    let lines = tree(&home.open(), "00000004").unwrap();
    let agents: Vec<&str> = lines
        .iter()
        .filter(|line| line.kind == "subagent")
        .filter_map(|line| line.session_id.as_deref())
        .collect();
    assert_eq!(agents.len(), 2, "{lines:?}");
}

/// Each sub-agent is looked up once in the family, and not once per member.
#[test]
fn many_sub_agents_take_few_steps() {
    const COUNT: u64 = 400;
    let home = Home::quick();
    let call = |name: &str, id: u64| {
        format!(
            r#"{{"parentUuid":null,"isSidechain":{},"type":"assistant","uuid":"{name}-{id}","message":{{"role":"assistant","content":[{{"type":"tool_use","id":"toolu_01{name}{id}","name":"Task","input":{{}}}}]}}}}"#,
            name == "s",
        )
    };
    let folder = MAIN.trim_end_matches(".jsonl");
    let mut lines = vec![line("user", "a", None, "go").trim_end().to_owned()];
    for id in 0..COUNT {
        lines.push(call("m", id));
        let agent = format!("{folder}/subagents/agent-a{id}");
        home.write(&format!("{agent}.jsonl"), text(&[call("s", id)]));
        // Some were started by the session, some by another sub-agent, and some without a known
        // call.
        let by = match id % 3 {
            0 => format!("toolu_01m{id}"),
            1 => format!("toolu_01s{}", (id + 7) % COUNT),
            _ => format!("toolu_01x{id}"),
        };
        let meta = format!(r#"{{"agentType":"general","toolUseId":"{by}"}}"#);
        home.write(&format!("{agent}.meta.json"), meta);
    }
    home.write(MAIN, text(&lines));
    home.sync();
    let (lines, steps) = home.steps(|ledger| tree(ledger, SESSION).unwrap());
    let agents: Vec<_> = lines.iter().filter(|line| line.kind == "subagent").collect();
    assert_eq!(agents.len() as u64, COUNT);
    assert!(agents.iter().any(|line| line.nested > 0), "{:?}", agents.first());
    assert!(steps < 1_000 * COUNT, "{steps} steps for {COUNT} sub-agents");
    let (_, steps) = home.steps(|ledger| {
        let story = Story::find(ledger, SESSION).unwrap();
        story.each_item(&Choice::default(), &mut |_| ControlFlow::Continue(())).unwrap();
    });
    assert!(steps < 1_000 * COUNT, "{steps} steps for a story with {COUNT} sub-agents");
}

#[test]
fn a_tree_has_forks_compactions_labels_and_a_leaf() {
    let home = collected(
        CLAW,
        text(&[
            claw("00000001", "", "user", "one"),
            claw("00000002", "00000001", "assistant", "1"),
            claw("00000003", "00000002", "user", "left"),
            claw("00000004", "00000003", "assistant", "2"),
            claw("00000005", "00000002", "user", "kept"),
            r#"{"type":"label","id":"00000006","parentId":"00000005","targetId":"00000005","label":"here"}"#.to_owned(),
            r#"{"type":"compaction","id":"00000007","parentId":"00000006","summary":"s","tokensBefore":9}"#.to_owned(),
            claw("00000008", "00000007", "user", "end"),
        ]),
    );
    let lines: Vec<String> = tree(&home.open(), "s")
        .unwrap()
        .iter()
        .map(|line| {
            format!(
                "{}{} {} {}{}",
                "  ".repeat(line.depth),
                line.kind,
                line.last_entry_id.as_deref().unwrap_or_default(),
                line.text.as_deref().unwrap_or_default(),
                if line.is_leaf { " @" } else { "" }
            )
        })
        .collect();
    assert_eq!(
        lines,
        [
            "run 00000002 one",
            "  run 00000004 left",
            "run 00000005 kept",
            "label 00000005 here",
            "run 00000006 ",
            "compaction 00000007 ",
            "run 00000008 end @",
        ]
    );
}

/// Two answers to one prompt are branches, with the labels on them.
#[test]
fn a_tree_has_forks_inside_a_turn() {
    let home = collected(
        CLAW,
        text(&[
            claw("00000001", "", "user", "prompt"),
            claw("00000002", "00000001", "assistant", "first try"),
            claw("00000003", "00000002", "assistant", "goes on"),
            claw("00000004", "00000001", "assistant", "second try"),
            claw("00000005", "00000004", "user", "thanks"),
            r#"{"type":"label","id":"00000006","parentId":"00000005","targetId":"00000003","label":"here"}"#.to_owned(),
        ]),
    );
    let lines: Vec<String> = tree(&home.open(), "s")
        .unwrap()
        .iter()
        .map(|line| {
            let (last, text) = (line.last_entry_id.as_deref(), line.text.as_deref());
            let indent = "  ".repeat(line.depth);
            format!("{indent}{} {} {}", line.kind, last.unwrap_or_default(), text.unwrap_or("-"))
        })
        .collect();
    assert_eq!(
        lines,
        [
            "run 00000001 prompt",
            "  run 00000003 first try",
            "  label 00000003 here",
            "run 00000006 thanks",
        ]
    );
}

#[test]
fn lines_without_an_entry_are_shown_with_everything() {
    let lines = |last: &str| {
        text(&[
            claw("00000001", "", "user", "one"),
            "neither this nor that".to_owned(),
            "[1, 2]".to_owned(),
            claw("00000002", "00000001", "assistant", last),
        ])
    };
    let home = collected(CLAW, lines("two"));
    let unreadable = |choice: &Choice| -> Vec<(String, String)> {
        let items = home.items_of("s", choice, |item| match item.pieces.as_slice() {
            [Piece::Attached { label, text, .. }] if label == "unreadable" => {
                Some((item.id.clone().unwrap().into_owned(), text.to_string()))
            }
            _ => None,
        });
        items.into_iter().flatten().collect()
    };
    let full = Choice { detail: StoryDetail::FULL, ..Choice::default() };
    assert_eq!(unreadable(&Choice::default()), []);
    for last in ["two", "second"] {
        home.write(CLAW, lines(last));
        home.sync_and_check();
        let found = unreadable(&full);
        let texts: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["neither this nor that", "[1, 2]"], "{last}");
        let order = home.items_of("s", &full, |item| item.words().into_owned());
        assert_eq!(order.len(), 4, "{order:?}");
        assert_eq!((&*order[0], &*order[3]), ("one", last));
        for (id, text) in &found {
            let only = Choice { entry: Some(id.clone()), ..Choice::default() };
            assert_eq!(unreadable(&only), [(id.clone(), text.clone())]);
        }
        let turn = Choice { turn: Some(1), ..full.clone() };
        assert_eq!(unreadable(&turn), []);
    }
    let blank = Choice { entry: Some("#1000".to_owned()), ..Choice::default() };
    assert!(Story::find(&home.open(), "s").unwrap().check(&blank).is_err());
}

#[test]
fn every_shown_entry_of_every_fixture_is_shown_with_any_choice() {
    let home = Home::new();
    for (format, folder) in [("claude-code", ".claude"), ("openclaw", ".openclaw")] {
        crate::home::copy(&fixtures(format), &home.path(folder));
    }
    home.sync();
    let ledger = home.open();
    for id in home.all("SELECT agent || '/' || session_id FROM sessions WHERE agent <> ''") {
        let id = id.trim_matches('\'');
        if Story::find(&ledger, id).is_err() {
            continue;
        }
        let entries = |detail| {
            let choice = Choice { detail, ..Choice::default() };
            home.items_of(id, &choice, |item| item.entry)
        };
        let (few, full) = (entries(StoryDetail::DEFAULT), entries(StoryDetail::FULL));
        assert!(few.iter().all(|entry| full.contains(entry)), "{id}");
        let mut once = full.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), full.len(), "{id}: an entry is in the story twice");
        assert!(tree(&ledger, id).is_ok());
    }
}

/// Returns the rewinds of a story: the text there, the turn rewound to, and whether the rewind
/// stays in its turn.
fn rewinds(lines: &[String]) -> Vec<(String, Option<u64>, bool)> {
    let home = collected(CLAW, text(lines));
    let marked = home.items_of("s", &Choice::default(), |item| {
        let rewind = item.rewind.as_ref()?;
        Some((item.words().into_owned(), rewind.to_turn, rewind.is_within_turn))
    });
    marked.into_iter().flatten().collect()
}

/// An agent that rewinds in the middle of a turn abandons what it wrote.
#[test]
fn a_rewind_inside_a_turn_is_marked() {
    let marked = rewinds(&[
        claw("00000001", "", "user", "prompt"),
        claw("00000002", "00000001", "assistant", "first try"),
        claw("00000003", "00000002", "assistant", "goes on"),
        claw("00000004", "00000001", "assistant", "second try"),
        claw("00000005", "00000004", "assistant", "goes on again"),
    ]);
    assert_eq!(marked, [("second try".to_owned(), Some(1), true)]);
}

/// An answer whose parent is before the prompt abandons the prompt; the answers after it continue
/// from there.
#[test]
fn a_rewind_before_the_prompt_is_marked() {
    let marked = rewinds(&[
        claw("00000001", "", "user", "one"),
        claw("00000002", "00000001", "assistant", "1"),
        claw("00000003", "00000002", "user", "two"),
        claw("00000004", "00000002", "assistant", "1, once more"),
        claw("00000005", "00000004", "assistant", "and on"),
        claw("00000006", "00000005", "user", "three"),
        claw("00000007", "00000006", "assistant", "3"),
    ]);
    assert_eq!(marked, [("1, once more".to_owned(), Some(1), false)]);
}

/// Text beside a call is not abandoned if the next answer is a child of the call's result.
#[test]
fn text_beside_a_call_is_not_abandoned() {
    let answer = |uuid: u32, parent: u32, response: &str, block: &str| {
        format!(
            r#"{{"type":"assistant","uuid":"00000000-0000-4000-8000-{uuid:012}","parentUuid":"00000000-0000-4000-8000-{parent:012}","requestId":"r{response}","message":{{"id":"{response}","role":"assistant","content":[{block}]}}}}"#
        )
    };
    let call =
        |id: &str| format!(r#"{{"type":"tool_use","id":"{id}","name":"Bash","input":{{}}}}"#);
    let block = |text: &str| format!(r#"{{"type":"text","text":"{text}"}}"#);
    let result = |uuid: u32, parent: u32, id: &str| {
        format!(
            r#"{{"type":"user","uuid":"00000000-0000-4000-8000-{uuid:012}","parentUuid":"00000000-0000-4000-8000-{parent:012}","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":"ok"}}]}}}}"#
        )
    };
    let prompt = line("user", "00000000-0000-4000-8000-000000000001", None, "prompt");
    let lines = [
        prompt.trim_end().to_owned(),
        answer(2, 1, "m1", &call("t1")),
        answer(3, 2, "m1", &block("beside the call")),
        result(4, 2, "t1"),
        answer(5, 4, "m2", &call("t2")),
        result(6, 5, "t2"),
        answer(7, 6, "m3", &block("done")),
    ];
    let home = collected(MAIN, text(&lines));
    let rendered = rendered(&home, SESSION, &Choice::default());
    assert!(rendered.contains("done") && !rendered.contains("<-"), "{rendered}");
}

/// A choice that does not exist is an error before anything is shown.
#[test]
fn a_choice_that_does_not_exist_is_an_error() {
    let home = collected(CLAW, text(&[claw("00000001", "", "user", "prompt")]));
    let ledger = home.open();
    let story = Story::find(&ledger, "s").unwrap();
    let branch = Choice { branch: Some("zzzz".to_owned()), ..Choice::default() };
    let turn = Choice { turn: Some(99), ..Choice::default() };
    assert!(story.check(&branch).is_err() && story.check(&turn).is_err());
    assert!(story.check(&Choice { turn: Some(1), ..Choice::default() }).is_ok());
}

#[test]
fn everything_includes_messages_without_text() {
    let blank = claw("a1", "u1", "assistant", "\\n\\n");
    let home = collected(CLAW, text(&[claw("u1", "", "user", "ask"), blank]));
    let everything = Choice { detail: StoryDetail::FULL, ..Choice::default() };
    let ids = |choice: &Choice| {
        home.items_of("s", choice, |item| item.id.clone().unwrap_or_default().into_owned())
    };
    assert_eq!(ids(&Choice::default()), ["u1"]);
    assert_eq!(ids(&everything), ["u1", "a1"]);
}
