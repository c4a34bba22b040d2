//! The events of a ledger: one frame for each record, in order, from any cursor.

use quipu_ledger::events::{
    Cursor, EventFilter, Frame, Frames, Start, begin, frames_after, session,
};
use quipu_ledger::store::{Fork, NewSession};
use quipu_ledger::{Entry, Ledger, Session, Store};
use serde_json::{Value, json};

use crate::home::{Home, line, uuid};

/// Reads all frames after a position. Each read is bounded.
fn read(ledger: &Ledger, start: &Start, with_entries: bool) -> (Vec<Frame>, Cursor) {
    let mut cursor = begin(ledger, start).unwrap().unwrap();
    let mut frames = Vec::new();
    loop {
        let found: Frames = frames_after(ledger, &cursor, with_entries).unwrap().unwrap();
        assert!(found.frames.len() <= 512 && !found.is_behind);
        assert!(found.frames.iter().all(|frame| found.after.includes(&frame.cursor)));
        frames.extend(found.frames);
        cursor = found.after;
        if !found.has_more {
            return (frames, cursor);
        }
    }
}

fn json(frame: &Frame) -> Value {
    serde_json::to_value(&frame.wire).unwrap()
}

fn all(ledger: &Ledger) -> Vec<Value> {
    read(ledger, &Start::Beginning, false).0.iter().map(json).collect()
}

/// Returns the changes of frames, without their ids.
fn changes(frames: &[Value]) -> Vec<Vec<Value>> {
    let plain = |change: &Value| {
        let mut change = change.clone();
        for name in ["entry_id", "leaf"] {
            change.as_object_mut().unwrap().remove(name);
        }
        change
    };
    let of = |frame: &Value| frame["changes"].as_array().unwrap().iter().map(plain).collect();
    frames.iter().map(of).collect()
}

fn reader(store: &Store) -> Ledger {
    store.catch_up().unwrap();
    store.reader().unwrap()
}

#[test]
fn each_record_has_one_frame_with_what_followed() {
    let home = Home::quick();
    let store = Store::open(home.ledger_path()).unwrap();
    let new = NewSession {
        id: Some("example"),
        key: Some("agent:main:main"),
        cwd: Some("/home/ada/tidepool"),
        ..NewSession::default()
    };
    let session = store.create(&new).unwrap();
    let turn = session.begin_turn(Entry::user("hello")).unwrap();
    session.append(Entry::assistant("hi").model("none", "parrot")).unwrap();
    session.label(&turn.id, Some("here")).unwrap();
    session.branch(Some(&turn.id), None).unwrap();
    session.patch_meta(json!({"label": "talk"}).as_object().unwrap()).unwrap();
    session.patch_meta(json!({"memoryFlushAt": 7}).as_object().unwrap()).unwrap();
    session.reset("new", None).unwrap();
    let ledger = reader(&store);
    let frames = all(&ledger);
    let appended = |kind: &str, role: Value, turn: Value| json!({"type": "entry.appended", "kind": kind, "role": role, "turn": turn});
    let moved = || json!({"type": "leaf.moved"});
    let of = |kind: &str| json!({"type": kind, "session_key": "agent:main:main"});
    let expected = [
        vec![
            json!({"type": "session.created", "format": "native"}),
            appended("header", Value::Null, Value::Null),
        ],
        vec![of("key.bound")],
        vec![appended("message", json!("user"), json!(1)), moved()],
        vec![appended("message", json!("assistant"), json!(1)), moved()],
    ];
    assert_eq!(changes(&frames)[..4], expected);
    let rest = &frames[4..];
    assert_eq!(
        rest[0]["changes"][1],
        json!({"type": "label.set", "entry_id": turn.id, "label": "here"})
    );
    let last = rest[1]["changes"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last, json!({"type": "leaf.moved", "leaf": turn.id}));
    assert_eq!(
        changes(rest)[2..4],
        [vec![of("session.meta")], vec![json!({"type": "memory.flush", "phase": "end"})]]
    );
    assert_eq!(rest[4]["changes"][1]["type"], "session.reset");
    // Every frame names the session, and comes after the one before it.
    for pair in frames.windows(2) {
        let seq =
            |frame: &Value| frame["cursor"].as_str().unwrap().parse::<Cursor>().unwrap().seq();
        assert!(seq(&pair[0]) < seq(&pair[1]));
    }
    for frame in &frames {
        assert_eq!(frame["session_id"], "example");
        assert_eq!((&frame["agent"], &frame["project"]), (&json!("main"), &json!("tidepool")));
        assert!(frame["time"].as_i64().unwrap() > 0, "{frame}");
    }
    // With entries, each is as `show --json` prints it.
    let (full, _) = read(&ledger, &Start::Beginning, true);
    let texts: Vec<Value> =
        full.iter().map(|frame| json(frame)["changes"][0]["entry"]["text"].clone()).collect();
    assert_eq!(texts[2..4], [json!("hello"), json!("hi")]);
}

#[test]
fn r84_a_compaction_has_an_event() {
    let home = Home::quick();
    let store = Store::open(home.ledger_path()).unwrap();
    let session = store.session_or_new("agent:main:main").unwrap();
    let kept = session.append(Entry::user("hello")).unwrap().id;
    let line = json!({
        "type": "compaction", "summary": "They said hello.", "firstKeptEntryId": kept,
        "tokensBefore": 9000,
    });
    session.append(Entry::json(line.to_string())).unwrap();
    let frames = all(&reader(&store));
    let changes = frames.last().unwrap()["changes"].as_array().unwrap();
    assert_eq!(changes[1]["type"], "compaction", "{changes:?}");
    assert_eq!((&changes[1]["phase"], &changes[1]["tokens_before"]), (&json!("end"), &json!(9000)));
    assert_eq!(changes[1]["entry_id"], changes[0]["entry_id"]);
}

#[test]
fn a_cursor_of_another_ledger_or_ahead_starts_over() {
    let home = Home::quick();
    let store = Store::open(home.ledger_path()).unwrap();
    store.session_or_new("agent:main:main").unwrap().append(Entry::user("hello")).unwrap();
    let ledger = reader(&store);
    let now = begin(&ledger, &Start::Now).unwrap().unwrap().to_string();
    let (epoch, seq) = now.split_once('.').unwrap();
    let ahead = format!("{epoch}.{}", seq.parse::<i64>().unwrap() + 1);
    let other = format!("0123456789ab.{seq}");
    for wrong in [ahead, other] {
        let cursor: Cursor = wrong.parse().unwrap();
        assert!(begin(&ledger, &Start::After(cursor.clone())).unwrap().is_none());
        assert!(frames_after(&ledger, &cursor, false).unwrap().is_none());
    }
    let at_end = frames_after(&ledger, &now.parse().unwrap(), false).unwrap().unwrap();
    assert!(at_end.frames.is_empty() && !at_end.has_more);
}

#[test]
fn one_read_has_a_bound_and_loses_nothing() {
    let home = Home::quick();
    let path = ".claude/projects/-work/11111111-1111-4111-8111-111111111111.jsonl";
    let mut lines = String::new();
    for number in 0..1300 {
        let parent = (number > 0).then(|| uuid(number - 1));
        lines += &line("user", &uuid(number), parent.as_deref(), "walrus");
    }
    home.write(path, lines);
    home.sync();
    let ledger = home.open();
    let mut cursor = begin(&ledger, &Start::Beginning).unwrap().unwrap();
    let mut reads = 0;
    let mut appended = 0;
    loop {
        let found = frames_after(&ledger, &cursor, false).unwrap().unwrap();
        reads += 1;
        appended += found.frames.len();
        cursor = found.after;
        if !found.has_more {
            break;
        }
    }
    assert_eq!((appended, reads), (1300, 3));
}

#[test]
fn files_that_vanish_return_and_change_are_told() {
    let home = Home::quick();
    let id = "11111111-1111-4111-8111-111111111111";
    let path = format!(".claude/projects/-work/{id}.jsonl");
    let text = |word: &str| line("user", &uuid(1), None, word);
    home.write(&path, text("walrus"));
    home.sync();
    let after = Start::After(begin(&home.open(), &Start::Now).unwrap().unwrap());
    home.remove(&path);
    home.sync();
    home.write(&path, text("walrus"));
    home.sync();
    home.replace(
        &path,
        text("penguin") + &line("user", &uuid(2), Some(&uuid(1)), "herring") + "\n",
    );
    home.sync();
    let (frames, _) = read(&home.open(), &after, false);
    let told: Vec<Value> = frames.iter().map(json).collect();
    let types = |frame: &Value| -> Vec<String> {
        let changes = frame["changes"].as_array().unwrap();
        changes.iter().map(|change| change["type"].as_str().unwrap().to_owned()).collect()
    };
    let all: Vec<String> = told.iter().flat_map(types).collect();
    for expected in ["source.gone", "source.back", "source.rewritten", "entry.appended"] {
        assert!(all.iter().any(|name| name == expected), "{expected}: {all:?}");
    }
    for frame in &told {
        assert_eq!(frame["session_id"], id, "{frame}");
        let path = &frame["changes"][0]["path"];
        assert!(path.is_null() || path.as_str().unwrap().ends_with(&format!("{id}.jsonl")));
    }
}

/// A name in a transcript can have any length, and one line any number of entries.
#[test]
fn a_frame_is_short() {
    let home = Home::quick();
    let path = ".claude/projects/-work/11111111-1111-4111-8111-111111111111.jsonl";
    let long = "x".repeat(1 << 20);
    let one = format!(
        r#"{{"type":"user","uuid":"{}","cwd":"/{long}","message":{{"role":"user","content":"a"}}}}"#,
        uuid(1)
    );
    let welded: String = (2..2000)
        .map(|number| line("user", &uuid(number), None, "b").trim_end().to_owned())
        .collect();
    home.write(path, format!("{one}\n{welded}\n"));
    home.sync();
    let (frames, _) = read(&home.open(), &Start::Beginning, true);
    assert_eq!(frames.len(), 2);
    for frame in frames {
        let text = serde_json::to_string(&frame.wire).unwrap();
        assert!(text.len() < 300 << 10, "{}", text.len());
        assert!(frame.wire.changes.len() <= 256);
    }
}

#[test]
fn a_filter_chooses_by_session_agent_project_and_type() {
    let home = Home::quick();
    let store = Store::open(home.ledger_path()).unwrap();
    for (agent, cwd) in [("main", "/home/ada/tidepool"), ("ops", "/home/ada/harbour")] {
        let new = NewSession {
            id: Some(agent),
            agent: Some(agent),
            cwd: Some(cwd),
            ..NewSession::default()
        };
        store.create(&new).unwrap().append(Entry::user("hello")).unwrap();
    }
    let ledger = reader(&store);
    let (frames, _) = read(&ledger, &Start::Beginning, false);
    let passing = |filter: &EventFilter| -> Vec<String> {
        let passing = frames.iter().filter(|frame| filter.passes(frame));
        passing.map(|frame| frame.wire.session_id.clone().unwrap()).collect()
    };
    let named = session(&ledger, "ops").unwrap();
    let filters = [
        EventFilter { session_id: Some(named.session_id.clone()), ..EventFilter::default() },
        EventFilter { agent: Some("ops".to_owned()), ..EventFilter::default() },
        EventFilter {
            project: Some(quipu_transcript::project::Name::new("harbour")),
            ..EventFilter::default()
        },
        EventFilter { bound_to: Some("ops".to_owned()), ..EventFilter::default() },
    ];
    for filter in &filters {
        assert_eq!(passing(filter), ["ops", "ops", "ops"], "{filter:?}");
    }
    let mut filter = EventFilter::default();
    filter.set_types("leaf.moved,key.").unwrap();
    assert_eq!(passing(&filter), ["main", "main", "ops", "ops"]);
    assert!(filter.set_types("leaf").is_err());
}

/// A few numbers that look random and are the same on every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % limit
    }
}

/// Does something to a random session.
fn act(numbers: &mut Numbers, store: &Store, sessions: &mut Vec<Session>) {
    let at = numbers.below(sessions.len().max(1));
    let Some(session) = sessions.get(at).filter(|_| numbers.below(12) > 0) else {
        sessions.push(store.create(&NewSession::default()).unwrap());
        return;
    };
    match numbers.below(8) {
        0 => {
            sessions.push(session.fork(&Fork::default()).unwrap());
        }
        1 => drop(session.reset("new", None).unwrap()),
        2 => {
            if let Some(leaf) = session.leaf().unwrap() {
                session.label(&leaf.id, Some("here")).unwrap();
            }
        }
        3 => {
            let to = session.leaf().unwrap().and_then(|leaf| leaf.parent);
            let _ = session.branch(to.as_deref(), None);
        }
        4 => drop(session.patch_meta(json!({"label": "x"}).as_object().unwrap())),
        5 => drop(session.append(Entry::assistant("yes").model("none", "parrot")).unwrap()),
        _ => drop(session.begin_turn(Entry::user("hello")).unwrap()),
    }
}

/// Subscribers that begin at different times, and end and go on at any cursor, see what the ledger
/// has in the end, without gaps and doubles. A forgotten session is in what they saw, and no longer
/// in the ledger.
#[test]
fn subscribers_see_what_the_ledger_has() {
    for seed in 1..=4 {
        let home = Home::quick();
        let mut numbers = Numbers(seed);
        let mut store = Store::open(home.ledger_path()).unwrap();
        let (mut sessions, mut forgotten) = (Vec::new(), Vec::new());
        // The first position of each subscriber, and what it saw.
        let mut subscribers: Vec<(Cursor, Cursor, Vec<Value>)> = Vec::new();
        for _ in 0..60 {
            for _ in 0..numbers.below(5) {
                act(&mut numbers, &store, &mut sessions);
            }
            match numbers.below(10) {
                // As after a kill: the next process projects what was not projected.
                0 => {
                    let names: Vec<String> =
                        sessions.iter().map(|session| session.id().to_owned()).collect();
                    sessions.clear();
                    drop(store);
                    store = Store::open(home.ledger_path()).unwrap();
                    store.catch_up().unwrap();
                    sessions.extend(names.iter().map(|name| store.session(name).unwrap()));
                }
                1 if sessions.len() > 1 => {
                    let gone = sessions.swap_remove(numbers.below(sessions.len()));
                    let mut ledger = Ledger::open(&home.ledger_path()).unwrap();
                    let forget = quipu_ledger::forget::forget;
                    let report = forget(&mut ledger, gone.id(), &mut |_, _| {}).unwrap();
                    let ids =
                        report.affected_sessions.iter().map(|session| session.session_id.clone());
                    let ids: Vec<String> = ids.collect();
                    sessions.retain(|session| !ids.contains(&session.id().to_owned()));
                    forgotten.extend(ids);
                }
                2 => drop(quipu_ledger::rebuild::rebuild(
                    &mut Ledger::open(&home.ledger_path()).unwrap(),
                    &mut |_, _| {},
                )),
                _ => {}
            }
            let ledger = reader(&store);
            if subscribers.is_empty() || numbers.below(6) == 0 {
                let from = begin(&ledger, &Start::Now).unwrap().unwrap();
                subscribers.push((from.clone(), from, Vec::new()));
            }
            let at = numbers.below(subscribers.len());
            let (_, cursor, seen) = &mut subscribers[at];
            let (frames, after) = read(&ledger, &Start::After(cursor.clone()), false);
            *cursor = after;
            // Some go on after the last frame that they have, as a client does.
            if let Some(last) = frames.last().filter(|_| numbers.below(2) == 0) {
                cursor.clone_from(&last.cursor);
            }
            seen.extend(frames.iter().map(json));
        }
        let ledger = reader(&store);
        for (from, cursor, mut seen) in subscribers {
            let (frames, _) = read(&ledger, &Start::After(cursor), false);
            seen.extend(frames.iter().map(json));
            let remains = |frame: &Value| {
                let is_mark = frame["changes"][0]["type"] == "session.forgotten";
                is_mark || !forgotten.iter().any(|id| frame["session_id"] == id.as_str())
            };
            seen.retain(|frame| remains(frame));
            let (own, _) = read(&ledger, &Start::After(from), false);
            let own: Vec<Value> = own.iter().map(json).collect();
            assert_eq!(seen, own, "seed {seed}");
        }
        // The moves of the leaf lead to the leaf of each session.
        let frames = all(&ledger);
        for session in &sessions {
            let of = frames.iter().filter(|frame| frame["session_id"] == session.id());
            let mut moves = of.flat_map(|frame| frame["changes"].as_array().unwrap());
            let last = moves.rfind(|change| change["type"] == "leaf.moved");
            let leaf = session.leaf().unwrap().map(|leaf| Value::from(leaf.id));
            let expected = last.map_or(Value::Null, |change| change["leaf"].clone());
            assert_eq!(leaf.unwrap_or(Value::Null), expected, "seed {seed}");
        }
    }
}
