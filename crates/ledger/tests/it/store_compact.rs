//! Compactions of sessions: what is written, what is not, and who waits for whom.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use quipu_ledger::query::{self, SqlAnswer, SqlLimits};
use quipu_ledger::store::{
    Compact, CompactionSettings, Digest, Entry, Fork, NewSession, Phase, Session, Store,
    StoreEvent, Summariser, WindowFrom, headroom_of, plan_compaction_of,
};
use quipu_ledger::wire::SqlValue;
use quipu_ledger::{Error, Ledger};
use quipu_transcript::compaction::Request;
use serde_json::{Value, json};

use crate::home::{Home, few_cases};

/// A summariser that does something before it answers.
struct Does<'a> {
    work: &'a dyn Fn(),
    answer: Result<&'a str, &'a str>,
    calls: Cell<usize>,
    parts: RefCell<Vec<usize>>,
}

impl<'a> Does<'a> {
    fn new(work: &'a dyn Fn(), answer: Result<&'a str, &'a str>) -> Does<'a> {
        Does { work, answer, calls: Cell::new(0), parts: RefCell::default() }
    }
}

impl Summariser for Does<'_> {
    fn name(&self) -> &'static str {
        "test"
    }

    fn summarise(&self, request: &Request<'_>) -> Result<String, String> {
        self.calls.set(self.calls.get() + 1);
        self.parts.borrow_mut().push(request.messages.len());
        (self.work)();
        self.answer.map(str::to_owned).map_err(str::to_owned)
    }
}

fn open(home: &Home) -> (Store, Session) {
    let store = Store::open(home.ledger_path()).unwrap();
    let session = store.create(&NewSession::default()).unwrap();
    (store, session)
}

fn answer(text: &str, tokens: u64) -> Entry {
    json!({"role": "assistant", "content": text, "provider": "p", "model": "m", "stopReason": "stop",
           "usage": {"input": tokens, "output": 0, "cacheRead": 0, "cacheWrite": 0,
                     "totalTokens": tokens}})
    .into()
}

/// Appends `turns` turns of a hundred tokens and more.
fn talk(session: &Session, turns: usize) {
    for turn in 0..turns {
        session.append(Entry::user(&format!("{turn}: {}", "count ".repeat(60)))).unwrap();
        session.append(answer("There are seven.", 100 * (turn as u64 + 1))).unwrap();
    }
}

/// Returns settings that keep about one turn.
fn settings() -> CompactionSettings {
    let mut settings = CompactionSettings { window: Some(1000), ..CompactionSettings::default() };
    settings.rules.keep_recent_tokens = Some(90);
    settings
}

fn lines(home: &Home) -> i64 {
    home.one("SELECT count(*) FROM records")
}

/// Returns the last compaction in the session's ledger.
fn compaction(home: &Home, session: &Session) -> Value {
    session.store().catch_up().unwrap();
    let last = "SELECT raw(id) FROM entries WHERE type = 'compaction' ORDER BY id";
    let mut line = Value::Null;
    let ledger = Ledger::open_read_only(&home.ledger_path()).unwrap();
    query::sql(ledger, last, &SqlLimits::default(), &mut |answer| {
        if let SqlAnswer::Row(row) = answer {
            let SqlValue::Text(text) = &row[0] else { panic!("{row:?}") };
            line = serde_json::from_str(text).unwrap();
        }
        true
    })
    .unwrap();
    line
}

fn messages(session: &Session) -> Vec<Value> {
    let context = session.context().unwrap();
    context.messages.iter().map(|message| serde_json::from_str(message.json()).unwrap()).collect()
}

#[test]
fn r82_a_compaction_is_one_entry() {
    let home = Home::quick();
    let (_, session) = open(&home);
    talk(&session, 6);
    let before = session.headroom(&settings()).unwrap();
    assert_eq!((before.context_tokens, before.counted_tokens, before.messages), (600, 600, 12));
    assert_eq!(
        (before.limit_tokens, before.left_tokens, before.is_due),
        (Some(500), Some(0), true)
    );
    let plan = session.plan_compaction(&settings(), &Compact::default()).unwrap().unwrap();
    let compacted = session.compact(&plan, &Digest).unwrap();
    assert_eq!((compacted.tokens_before, compacted.compacted_messages), (600, 10));
    let seen = messages(&session);
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[0]["role"], "compactionSummary");
    assert!(seen[0]["summary"].as_str().unwrap().starts_with("## Goals\n- 0: count"));
    assert!(seen[1]["content"].as_str().unwrap().starts_with("5: "));
    let line = compaction(&home, &session);
    assert_eq!(line["firstKeptEntryId"], compacted.first_kept_entry_id);
    assert_eq!(line["tokensBefore"], 600);
    assert_eq!(line["compactedCount"], 10);
    let note = json!({"reason": "manual", "summariser": "digest", "chunks": 1, "tries": 1});
    assert_eq!(line["details"], json!({"readFiles": [], "modifiedFiles": [], "quipu": note}));
    let meta = session.meta().unwrap();
    assert_eq!(meta["compactionCount"], 1);
    assert_eq!(meta["totalTokens"], json!(compacted.tokens_after));
    // Until the next answer, the size is an estimate.
    let after = session.headroom(&settings()).unwrap();
    assert_eq!((Some(after.context_tokens), after.counted_tokens), (compacted.tokens_after, 0));
    assert!(session.plan_compaction(&settings(), &Compact::default()).unwrap().is_none());
    session.append(answer("Eight.", 321)).unwrap();
    assert_eq!(session.meta().unwrap()["totalTokens"], 321);
    assert_eq!(session.headroom(&settings()).unwrap().counted_tokens, 321);
    home.assert_sound();
}

/// Other writers append while a summary is made, through this store and through another one.
#[test]
fn no_lock_is_held_while_a_summary_is_made() {
    let home = Home::quick();
    let (store, session) = open(&home);
    talk(&session, 4);
    let plan = session.plan_compaction(&settings(), &Compact::default()).unwrap().unwrap();
    let id = session.id().to_owned();
    let work = || {
        store.session(&id).unwrap().append(Entry::user("from this process")).unwrap();
        let other = Store::open(home.ledger_path()).unwrap();
        other.session(&id).unwrap().append(Entry::user("from another one")).unwrap();
    };
    let compacted = session.compact(&plan, &Does::new(&work, Ok("short"))).unwrap();
    assert_eq!(compacted.appended.leaf.as_ref(), Some(&compacted.appended.id));
    let seen = messages(&session);
    assert_eq!(seen[0]["summary"], "short");
    let last: Vec<&Value> = seen.iter().rev().take(2).map(|message| &message["content"]).collect();
    assert_eq!(last, ["from another one", "from this process"]);
}

#[test]
fn a_session_that_went_elsewhere_is_a_conflict() {
    let home = Home::quick();
    type Change = fn(&Session, &str);
    let changes: [Change; 4] = [
        |session, _| drop(session.reset("new", None).unwrap()),
        |session, first| drop(session.branch(Some(first), None).unwrap()),
        |session, _| drop(session.branch(None, None).unwrap()),
        |session, first| {
            let entry = json!({"type": "compaction", "summary": "x", "firstKeptEntryId": first});
            session.append(Entry::from(entry)).unwrap();
        },
    ];
    for change in changes {
        let (_, session) = open(&home);
        let first = session.append(Entry::user("first")).unwrap().id;
        talk(&session, 4);
        let plan = session.plan_compaction(&settings(), &Compact::default()).unwrap().unwrap();
        let work = || change(&session, &first);
        let conflict = session.compact(&plan, &Does::new(&work, Ok("short"))).unwrap_err();
        assert!(matches!(conflict, Error::Conflict { .. }), "{conflict}");
        let written = lines(&home);
        // A plan that is out of date asks for no other summary than the first one.
        let again = session.compact(&plan, &Does::new(&|| {}, Ok("short"))).unwrap_err();
        assert!(matches!(again, Error::Conflict { .. }), "{again}");
        assert_eq!(lines(&home), written);
    }
}

#[test]
fn the_same_plan_is_stored_once() {
    let home = Home::quick();
    let (_, session) = open(&home);
    talk(&session, 4);
    let plan = session.plan_compaction(&settings(), &Compact::default()).unwrap().unwrap();
    let other = session.plan_compaction(&settings(), &Compact::default()).unwrap().unwrap();
    // Another process stores the same plan while this one waits for its summary.
    let work = || drop(session.compact(&other, &Does::new(&|| {}, Ok("theirs"))).unwrap());
    let ours = session.compact(&plan, &Does::new(&work, Ok("ours"))).unwrap();
    assert!(ours.appended.repeated && ours.tokens_after.is_none());
    let never = Does::new(&|| {}, Ok("never"));
    let again = session.compact(&plan, &never).unwrap();
    assert_eq!((again.appended.id, never.calls.get()), (ours.appended.id, 0));
    assert_eq!(messages(&session)[0]["summary"], "theirs");
    assert_eq!(session.meta().unwrap()["compactionCount"], 1);
    // Other instructions are another plan, which comes too late.
    let wanted = Compact { instructions: Some("knots"), ..Compact::default() };
    assert!(session.plan_compaction(&settings(), &wanted).unwrap().is_none());
}

/// After its leaf was moved back to before a compaction, a session can be compacted again.
#[test]
fn r82_a_compaction_that_was_left_is_made_again() {
    let home = Home::quick();
    let (_, session) = open(&home);
    talk(&session, 6);
    let leaf = session.leaf().unwrap().unwrap().id;
    let compact = || session.compact_now(&settings(), &Compact::default(), &Digest);
    let first = compact().unwrap().unwrap();
    session.branch(Some(&leaf), None).unwrap();
    assert_eq!(session.headroom(&settings()).unwrap().context_tokens, first.tokens_before);
    let second = compact().unwrap().unwrap();
    assert!(!second.appended.repeated && second.appended.id != first.appended.id);
    assert_eq!(second.tokens_after, first.tokens_after);
    assert_eq!(messages(&session)[0]["role"], "compactionSummary");
    assert_eq!(compact().unwrap(), None);
}

#[test]
fn without_a_summary_nothing_is_written() {
    let home = Home::quick();
    let (store, session) = open(&home);
    talk(&session, 4);
    let events: Arc<Mutex<Vec<StoreEvent>>> = Arc::default();
    let heard = Arc::clone(&events);
    let same = session.clone();
    // A listener may use the store.
    store.listen(move |event| {
        same.leaf().unwrap();
        heard.lock().unwrap().push(event.clone());
    });
    let plan = session.plan_compaction(&settings(), &Compact::default()).unwrap().unwrap();
    let before = lines(&home);
    let long = "x".repeat(2 << 20);
    for (answer, why) in [
        (Err("no model"), "no model"),
        (Ok(" \n"), "it returned nothing"),
        (Ok(&*long), "it returned more than 1048576 bytes"),
    ] {
        let error = session.compact(&plan, &Does::new(&|| {}, answer)).unwrap_err();
        assert_eq!(error.to_string(), format!("the summariser `test` failed: {why}"));
    }
    assert_eq!(lines(&home), before);
    session.compact(&plan, &Digest).unwrap();
    let phases: Vec<Phase> = events
        .lock()
        .unwrap()
        .iter()
        .map(|event| match event {
            StoreEvent::Compaction { phase, .. } => *phase,
            _ => panic!("{event:?}"),
        })
        .collect();
    use Phase::{End, Failed, Start};
    assert_eq!(phases, [Start, Failed, Start, Failed, Start, Failed, Start, End]);
    let last = serde_json::to_value(events.lock().unwrap().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["phase"]), (&json!("compaction"), &json!("end")));
    assert_eq!((&last["reason"], &last["tokens_before"]), (&json!("manual"), &json!(400)));
}

/// A summary is text, whatever is in it.
#[test]
fn a_summary_is_never_interpreted() {
    let home = Home::quick();
    let (_, session) = open(&home);
    talk(&session, 4);
    let text = "\u{1b}[2J{\"type\":\"toolCall\",\"id\":\"x\"}\n\u{0}</summary>\u{fffd}";
    let plan = session.plan_compaction(&settings(), &Compact::default()).unwrap().unwrap();
    session.compact(&plan, &Does::new(&|| {}, Ok(text))).unwrap();
    let seen = messages(&session);
    assert_eq!(
        (&seen[0]["role"], &seen[0]["summary"]),
        (&json!("compactionSummary"), &json!(text))
    );
    assert_eq!(home.one::<i64>("SELECT count(*) FROM tool_calls"), 0);
}

#[test]
fn r80_where_a_window_comes_from() {
    let home = Home::quick();
    let (_, session) = open(&home);
    session.append(Entry::user("hello")).unwrap();
    let mut settings = CompactionSettings::default();
    let window = |session: &Session, settings: &CompactionSettings| {
        let headroom = session.headroom(settings).unwrap();
        (headroom.window_tokens, headroom.window_from)
    };
    assert_eq!(window(&session, &settings), (None, None));
    assert!(!session.headroom(&settings).unwrap().is_due);
    session.append(Entry::assistant("hi").model("anthropic", "claude-haiku-4-5-20251001")).unwrap();
    assert_eq!(window(&session, &settings), (Some(200_000), Some(WindowFrom::List)));
    settings.windows.insert("claude-haiku-4-5".to_owned(), 5000);
    assert_eq!(window(&session, &settings), (Some(5000), Some(WindowFrom::Configuration)));
    let patch = json!({"contextTokens": 4000}).as_object().unwrap().clone();
    session.patch_meta(&patch).unwrap();
    assert_eq!(window(&session, &settings), (Some(4000), Some(WindowFrom::Session)));
    for (call, expected) in [(1 << 63, Some(1 << 63)), (3000, Some(3000)), (0, Some(4000))] {
        settings.window = Some(call);
        assert_eq!(window(&session, &settings).0, expected);
    }
}

/// A model that refused a context gets one that fits, although nothing seemed due.
#[test]
fn r80_an_overflow_is_compacted_until_it_fits() {
    let home = Home::quick();
    let (_, session) = open(&home);
    for turn in 0..10 {
        session.append(Entry::user(&format!("{turn} {}", "word ".repeat(78)))).unwrap();
        session.append(Entry::assistant("Yes.")).unwrap();
    }
    let settings = CompactionSettings { window: Some(4000), ..CompactionSettings::default() };
    assert!(!session.headroom(&settings).unwrap().is_due);
    // It counts five times as many tokens as estimated.
    let tokens = session.headroom(&settings).unwrap().context_tokens;
    let wanted = Compact { refused: Some(5 * tokens), ..Compact::default() };
    let plan = session.plan_compaction(&settings, &wanted).unwrap().unwrap();
    assert!(plan.plan.tokens_kept * 5 <= 2000, "{}", plan.plan.tokens_kept);
    // A summary that is too long costs kept messages.
    let long = "x".repeat(900);
    let summariser = Does::new(&|| {}, Ok(&long));
    let compacted = session.compact_now(&settings, &wanted, &summariser).unwrap().unwrap();
    assert!(compacted.tokens_after.unwrap() * 5 <= 2000, "{compacted:?}");
    assert_eq!(compaction(&home, &session)["details"]["quipu"]["reason"], "overflow");
    session.append(Entry::user(&"long ".repeat(5000))).unwrap();
    let error = session.plan_compaction(&settings, &wanted).unwrap_err();
    assert!(matches!(error, Error::TooLong { limit: 2000, .. }), "{error}");
}

/// If nothing but the summary is too long, the error says so.
#[test]
fn r80_a_summary_can_be_what_is_too_long() {
    let home = Home::quick();
    let (_, session) = open(&home);
    talk(&session, 6);
    let before = lines(&home);
    let long = "word ".repeat(5000);
    let wanted = Compact { refused: Some(900), ..Compact::default() };
    let summariser = Does::new(&|| {}, Ok(&long));
    let error = session.compact_now(&settings(), &wanted, &summariser).unwrap_err();
    assert!(matches!(error, Error::SummaryTooLong { .. }), "{error}");
    assert_eq!(lines(&home), before);
}

/// Without a summary, there is no fork either.
#[test]
fn a_fork_is_made_after_its_summary() {
    let home = Home::quick();
    let (store, session) = open(&home);
    talk(&session, 6);
    let before = lines(&home);
    let sessions = || home.one("SELECT count(*) FROM sessions");
    let fork = |answer| {
        let summariser = Does::new(&|| {}, answer);
        let (fork, wanted) = (Fork::default(), Compact::default());
        store.compact_fork(session.id(), &fork, &settings(), &wanted, &summariser)
    };
    let error = fork(Err("it is away")).unwrap_err();
    assert!(matches!(error, Error::Summary { .. }), "{error}");
    assert_eq!((lines(&home), sessions()), (before, 1));
    let (forked, compacted) = fork(Ok("a summary")).unwrap().unwrap();
    assert_eq!(messages(&forked.session)[0]["summary"], "a summary");
    assert_eq!(compacted.tokens_before, 600);
    assert_eq!(sessions(), 2);
    assert_eq!(messages(&session).len(), 12);
    home.assert_sound();
}

/// A refusal below the limit that is known proves that the window is smaller: each call makes the
/// context smaller, until there is nothing left to replace. No call leaves it as it was.
#[test]
fn r80_a_refusal_below_the_limit_is_believed() {
    let home = Home::quick();
    let (_, session) = open(&home);
    for turn in 0..10 {
        session.append(Entry::user(&format!("{turn} {}", "word ".repeat(78)))).unwrap();
        session.append(Entry::assistant("Yes.")).unwrap();
    }
    let settings = CompactionSettings { window: Some(1_000_000), ..CompactionSettings::default() };
    let size = || session.headroom(&settings).unwrap().context_tokens;
    let mut made = 0;
    let error = loop {
        let wanted = Compact { refused: Some(300_000 - 10_000 * made), ..Compact::default() };
        let before = size();
        match session.compact_now(&settings, &wanted, &Digest) {
            Ok(compacted) => assert!(compacted.is_some(), "nothing was compacted"),
            Err(error) => break error,
        }
        assert!(size() < before, "{} of {before}", size());
        made += 1;
        assert!(made < 20);
    };
    assert!(made > 1 && matches!(error, Error::TooLong { .. }), "{made}: {error}");
}

/// A model refuses a context right after a compaction: less is kept, although no message was added
/// since.
#[test]
fn r80_a_compacted_context_can_be_refused_too() {
    let home = Home::quick();
    let (_, session) = open(&home);
    for turn in 0..10 {
        session.append(Entry::user(&format!("{turn} {}", "word ".repeat(78)))).unwrap();
        session.append(Entry::assistant("Yes.")).unwrap();
    }
    let mut settings = CompactionSettings { window: Some(4000), ..CompactionSettings::default() };
    settings.rules.keep_recent_tokens = Some(500);
    let manual = Compact::default();
    let first = session.compact_now(&settings, &manual, &Digest).unwrap().unwrap();
    assert!(session.plan_compaction(&settings, &manual).unwrap().is_none());
    let tokens = session.headroom(&settings).unwrap().context_tokens;
    let wanted = Compact { refused: Some(3000), ..manual };
    let second = session.compact_now(&settings, &wanted, &Digest).unwrap().unwrap();
    assert!(second.tokens_after.unwrap() * 3000 / tokens <= 2000, "{second:?}, {tokens}");
    assert!(second.compacted_messages > first.compacted_messages);
    let seen = messages(&session);
    let roles: Vec<&Value> = seen.iter().map(|message| &message["role"]).collect();
    assert_eq!(roles.iter().filter(|role| **role == "compactionSummary").count(), 1);
    assert_eq!(
        (roles[0], seen.last().unwrap()["role"].as_str()),
        (&json!("compactionSummary"), Some("assistant"))
    );
}

#[test]
fn a_long_turn_is_split() {
    let home = Home::quick();
    let (_, session) = open(&home);
    talk(&session, 1);
    session.append(Entry::user("Read all of them.")).unwrap();
    for at in 0..20 {
        let call = json!({"type": "toolCall", "id": format!("c{at}"), "name": "read",
                          "arguments": {"path": format!("f{}.rs", at % 3)}});
        session.append(Entry::from(json!({"role": "assistant", "content": [call]}))).unwrap();
        session
            .append(Entry::tool_result(&format!("c{at}"), "read", &"fn x() {} ".repeat(8)))
            .unwrap();
    }
    let summariser = Does::new(&|| {}, Ok("short"));
    session.compact_now(&settings(), &Compact::default(), &summariser).unwrap().unwrap();
    assert_eq!(summariser.parts.borrow().len(), 2);
    let seen = messages(&session);
    let summary = seen[0]["summary"].as_str().unwrap();
    assert!(summary.starts_with("short\n\n---\n\n**Turn Context (split turn):**\n\nshort\n\n"));
    assert!(summary.ends_with("<read-files>\nf0.rs\nf1.rs\nf2.rs\n</read-files>"), "{summary}");
    assert_eq!(seen[1]["role"], "assistant");
    assert_eq!(seen[2]["role"], "toolResult");
}

/// Collected sessions are not written to; their forks are.
#[test]
fn a_collected_session_is_compacted_in_a_fork() {
    let home = Home::with_fixtures();
    home.sync();
    let store = Store::open(home.ledger_path()).unwrap();
    let mut settings = CompactionSettings::default();
    settings.rules.keep_recent_tokens = Some(0);
    let wanted = Compact::default();
    let mut formats = Vec::new();
    for name in home.all("SELECT format || '/' || session_id FROM sessions") {
        let name = name.trim_matches('\'').to_owned();
        let format = name.split('/').next().unwrap().to_owned();
        let ledger = home.open();
        let row = home.row(&name);
        let planned = plan_compaction_of(&ledger, row, &settings, &wanted);
        let Ok(planned) = planned else { continue };
        headroom_of(&ledger, row, &settings).unwrap();
        drop(ledger);
        let before = lines(&home);
        let made = store.compact_fork(&name, &Fork::default(), &settings, &wanted, &Digest);
        // A leaf without an id cannot be forked.
        if matches!(made, Err(Error::NoMatch { .. })) {
            continue;
        }
        let made = made.unwrap();
        assert_eq!(made.is_some(), planned.is_some(), "{name}");
        let (Some((forked, compacted)), Some(planned)) = (made, planned) else {
            assert_eq!(lines(&home), before, "{name}: a fork without a compaction");
            continue;
        };
        assert_eq!(compacted.tokens_before, planned.plan.tokens_before, "{name}");
        let seen = messages(&forked.session);
        let is_summary = |message: &Value| message["role"] == "compactionSummary";
        assert_eq!(seen.iter().filter(|message| is_summary(message)).count(), 1, "{name}");
        formats.push(format);
    }
    for format in ["claude-code", "openclaw"] {
        assert!(formats.iter().any(|found| found == format), "{format}: {formats:?}");
    }
}

/// One message of 40 MiB is more than a reader decodes whole.
#[test]
fn a_message_of_40_mib_is_planned() {
    let home = Home::quick();
    let header =
        r#"{"type":"session","version":3,"id":"big","timestamp":"2026-01-01T00:00:00.000Z"}"#;
    let message = |id: &str, parent: &str, text: &str| {
        format!(
            r#"{{"type":"message","id":"{id}","parentId":{parent},"timestamp":"2026-01-01T00:00:00.000Z","message":{{"role":"user","content":"{text}"}}}}"#
        )
    };
    let lines = [
        header.to_owned(),
        message("a1", "null", &"x".repeat(40 << 20)),
        message("a2", r#""a1""#, "and now?"),
    ];
    home.write(".openclaw/agents/main/sessions/big.jsonl", lines.join("\n") + "\n");
    home.sync();
    let mut settings = CompactionSettings::default();
    settings.rules.keep_recent_tokens = Some(0);
    let ledger = home.open();
    let plan = plan_compaction_of(&ledger, home.row("big"), &settings, &Compact::default());
    let plan = plan.unwrap().unwrap().plan;
    assert_eq!((plan.first_kept.as_str(), plan.history.len()), ("a2", 1));
    assert!(plan.history[0].json().len() < 1 << 20);
    drop(ledger);
    // A store that keeps the lines in memory cuts the same text.
    let store = Store::open(home.ledger_path()).unwrap();
    let wanted = Compact::default();
    let made = store.compact_fork("big", &Fork::default(), &settings, &wanted, &Digest);
    let (forked, compacted) = made.unwrap().unwrap();
    assert_eq!(compacted.tokens_before, plan.tokens_before);
    assert!(forked.session.context_at("a2").unwrap().messages[0].json().len() < 1 << 20);
}

/// The size of a context is kept: an append counts only its own line.
#[test]
fn r80_the_size_of_a_context_is_counted_once() {
    let home = Home::quick();
    let (store, session) = open(&home);
    talk(&session, 1);
    let counted = || store.contexts_counted();
    assert_eq!(counted(), 0);
    store.set_compaction(Some(settings()));
    let mut due = Vec::new();
    for turn in 0..100 {
        due.push(session.append(Entry::user(&"word ".repeat(4))).unwrap().compaction_due);
        let tokens = if turn < 50 { 400 } else { 501 };
        due.push(session.append(answer("yes", tokens)).unwrap().compaction_due);
    }
    assert_eq!(counted(), 1);
    assert!(due.iter().take(100).all(|due| !due) && due.iter().skip(101).all(|due| *due));
    // A compaction, and an entry of another process.
    session.compact_now(&settings(), &Compact::default(), &Digest).unwrap().unwrap();
    assert_eq!(counted(), 2);
    let other = Store::open(home.ledger_path()).unwrap();
    other.session(session.id()).unwrap().append(Entry::user("from elsewhere")).unwrap();
    assert!(!session.append(Entry::user("and here")).unwrap().compaction_due);
    assert_eq!(counted(), 3);
    session.patch_meta(json!({"contextTokens": 9}).as_object().unwrap()).unwrap();
    store.set_compaction(Some(CompactionSettings::default()));
    assert!(session.append(Entry::user("a small window")).unwrap().compaction_due);
}

/// One thing that is appended.
fn appended() -> impl Strategy<Value = Value> {
    let text = (0..80_usize).prop_map(|length| "x".repeat(length));
    prop_oneof![
        4 => text.clone().prop_map(|text| json!({"role": "user", "content": text})),
        4 => (text.clone(), 0..700_u64, 0..3_usize).prop_map(|(text, tokens, reason)| {
            let reason = ["stop", "error", "aborted"].get(reason);
            json!({"role": "assistant", "content": text, "model": "m", "provider": "p",
                   "stopReason": reason,
                   "usage": {"input": tokens, "output": 0, "cacheRead": 0, "cacheWrite": 0,
                             "totalTokens": tokens}})
        }),
        1 => text.clone().prop_map(|text| json!({"role": "system", "content": text})),
        1 => text.clone().prop_map(|text| json!({"role": "user", "content": text})),
        1 => text.clone().prop_map(|text| {
            json!({"type": "custom_message", "customType": "c", "content": text, "display": true})
        }),
        1 => text.clone().prop_map(|text| {
            json!({"type": "branch_summary", "fromId": "root", "summary": text})
        }),
        1 => text.clone().prop_map(|text| {
            json!({"type": "message", "appendMode": "side",
                   "message": {"role": "user", "content": text}})
        }),
        1 => Just(json!({"type": "model_change", "provider": "p", "modelId": "claude-haiku-4-5"})),
        1 => Just(json!({"type": "session_info", "name": "n"})),
        1 => Just(json!({"type": "reset", "reason": "new"})),
        1 => Just(json!({"edit": true})),
        1 => Just(json!({"compaction": true})),
        1 => Just(json!({"leaf": true})),
    ]
}

/// After any appends, the cached size reports the same as one that is counted again.
#[test]
fn r80_a_kept_size_is_the_counted_size() {
    let mut runner = TestRunner::new(few_cases(12));
    let home = Home::quick();
    let store = Store::open(home.ledger_path()).unwrap();
    let settings = settings();
    store.set_compaction(Some(settings.clone()));
    let sequences = prop::collection::vec(appended(), 1..40);
    runner
        .run(&sequences, |sequence| {
            let session = store.create(&NewSession::default()).unwrap();
            let mut first = None;
            for entry in sequence {
                let entry = match (&first, &entry) {
                    (Some(first), entry) if entry["edit"] == true => {
                        json!({"type": "context_edit", "targetId": first, "replacement": null})
                    }
                    (Some(first), entry) if entry["compaction"] == true => {
                        json!({"type": "compaction", "summary": "s", "firstKeptEntryId": first})
                    }
                    (Some(first), entry) if entry["leaf"] == true => {
                        json!({"type": "leaf", "targetId": first})
                    }
                    (_, entry) if entry["type"].is_null() && entry["role"].is_null() => continue,
                    _ => entry.clone(),
                };
                let done = session.append(Entry::from(entry)).unwrap();
                let headroom = session.headroom(&settings).unwrap();
                prop_assert_eq!(done.compaction_due, headroom.is_due, "{:?}", headroom);
                first.get_or_insert(done.id);
            }
            Ok(())
        })
        .unwrap();
    assert!(store.contexts_counted() > 0);
}
