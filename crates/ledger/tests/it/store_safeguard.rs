//! Compactions in the mode `safeguard`: pieces, audits, second tries, and the digest.

use std::cell::RefCell;

use quipu_ledger::Ledger;
use quipu_ledger::query::{self, SqlAnswer, SqlLimits};
use quipu_ledger::store::{
    Compact, CompactionSettings, Digest, Entry, NewSession, Session, Store, Summariser,
};
use quipu_ledger::wire::SqlValue;
use quipu_transcript::compaction::{Fault, Part, Request};
use quipu_transcript::routing::settings::CompactionMode;
use serde_json::{Value, json};

use crate::home::Home;

/// All sections that a summary needs: those of a history, and those of a turn's beginning.
const SECTIONS: &str = "## Goal\nCount.\n## Constraints & Preferences\n(none)\n## Progress\n### Done\n\
    ### In Progress\n### Blocked\n## Key Decisions\n(none)\n## Next Steps\n(none)\n\
    ## Critical Context\n## Original Request\n## Progress So Far\n## Context Needed to Continue\n";

/// One request for a summary, as far as tests look at it.
#[derive(Debug, Clone)]
struct Asked {
    part: Part,
    messages: Vec<String>,
    previous: Option<String>,
    names: Vec<String>,
    fault: Option<Fault>,
}

/// Makes the answer to a question from its number.
type Answers<'a> = &'a dyn Fn(usize) -> Result<String, String>;

/// A model whose answers a function makes.
struct Model<'a> {
    answer: Answers<'a>,
    asked: RefCell<Vec<Asked>>,
}

impl<'a> Model<'a> {
    fn new(answer: Answers<'a>) -> Model<'a> {
        Model { answer, asked: RefCell::default() }
    }
}

impl Summariser for Model<'_> {
    fn name(&self) -> &'static str {
        "test"
    }

    fn summarise(&self, request: &Request<'_>) -> Result<String, String> {
        let mut asked = self.asked.borrow_mut();
        asked.push(Asked {
            part: request.part,
            messages: request.messages.iter().map(|message| message.role()).collect(),
            previous: request.previous.map(str::to_owned),
            names: request.names.to_vec(),
            fault: request.fault,
        });
        (self.answer)(asked.len() - 1)
    }
}

/// Returns a session with turns of two calls each, whose requests name a file.
fn session(home: &Home, turns: usize) -> Session {
    let session = Store::open(home.ledger_path()).unwrap().create(&NewSession::default()).unwrap();
    for turn in 0..turns {
        let text = format!("Count the knots of src/cord{turn}.rs. {}", "word ".repeat(60));
        session.append(Entry::user(&text)).unwrap();
        for call in ["a", "b"] {
            let id = format!("{call}{turn}");
            let call = json!({"type": "toolCall", "id": id, "name": "count", "arguments": {}});
            session.append(Entry::from(json!({"role": "assistant", "content": [call]}))).unwrap();
            session.append(Entry::tool_result(&id, "count", &"knot ".repeat(40))).unwrap();
        }
        session.append(Entry::assistant("Seven.")).unwrap();
    }
    session
}

fn settings() -> CompactionSettings {
    let mut settings = CompactionSettings { window: Some(1000), ..CompactionSettings::default() };
    settings.rules.keep_recent_tokens = Some(90);
    settings.rules.mode = Some(CompactionMode::Safeguard);
    settings.rules.memory_flush = Some(false);
    settings
}

fn compact(session: &Session, summariser: &dyn Summariser) -> quipu_ledger::store::Compacted {
    session.compact_now(&settings(), &Compact::default(), summariser).unwrap().unwrap()
}

/// Returns `details.quipu` of the session's compaction.
fn note(home: &Home, session: &Session) -> Value {
    session.store().catch_up().unwrap();
    let ledger = Ledger::open_read_only(&home.ledger_path()).unwrap();
    let mut line = Value::Null;
    let sql = "SELECT raw(id) FROM entries WHERE type = 'compaction'";
    query::sql(ledger, sql, &SqlLimits::default(), &mut |answer| {
        if let SqlAnswer::Row(row) = answer {
            let SqlValue::Text(text) = &row[0] else { panic!("{row:?}") };
            line = serde_json::from_str(text).unwrap();
        }
        true
    })
    .unwrap();
    line["details"]["quipu"].take()
}

fn summary(session: &Session) -> String {
    let context = session.context().unwrap();
    let first: Value = serde_json::from_str(context.messages[0].json()).unwrap();
    first["summary"].as_str().unwrap().to_owned()
}

/// Returns a summary that passes any audit here.
fn good(_: usize) -> Result<String, String> {
    let names: Vec<String> = (0..8).map(|turn| format!("src/cord{turn}.rs")).collect();
    Ok(format!("{SECTIONS}{}", names.join(" ")))
}

#[test]
fn r81_a_long_history_is_summarised_in_pieces() {
    let home = Home::quick();
    let session = session(&home, 8);
    let model = Model::new(&good);
    let compacted = compact(&session, &model);
    let asked = model.asked.borrow();
    let history: Vec<&Asked> = asked.iter().filter(|asked| asked.part == Part::History).collect();
    assert!(history.len() > 3, "{}", history.len());
    for (index, piece) in history.iter().enumerate() {
        // A piece never begins with the result of a call in an earlier piece.
        assert_ne!(piece.messages[0], "toolResult", "{piece:?}");
        assert_eq!(piece.previous.is_some(), index > 0);
    }
    let sum: usize = asked.iter().map(|piece| piece.messages.len()).sum();
    assert_eq!(sum as u64, compacted.compacted_messages);
    let last = history.last().unwrap();
    assert_eq!(last.names.len(), 3, "{last:?}");
    assert_eq!(
        note(&home, &session),
        json!({"reason": "manual", "summariser": "test", "chunks": asked.len(), "tries": 1})
    );
    assert!(compacted.digest_reason.is_none());
}

/// A summary that is not accepted is asked for once more, with the reason.
#[test]
fn r81_a_second_answer_is_accepted() {
    for (bad, fault) in [
        ("## Goal\nCount.".to_owned(), Fault::Section("## Constraints & Preferences")),
        (SECTIONS.to_owned(), Fault::Names(2)),
        (format!("{}{}", good(0).unwrap(), "x".repeat(9000)), Fault::Length),
    ] {
        let home = Home::quick();
        let session = session(&home, 8);
        let answer = |number| if number == 0 { Ok(bad.clone()) } else { good(number) };
        let model = Model::new(&answer);
        compact(&session, &model);
        let asked = model.asked.borrow();
        assert_eq!((asked[0].fault, asked[1].fault), (None, Some(fault)));
        assert_eq!(asked[0].messages, asked[1].messages);
        assert!(asked[2..].iter().all(|piece| piece.fault.is_none()));
        let note = note(&home, &session);
        assert_eq!((&note["summariser"], &note["tries"]), (&json!("test"), &json!(2)));
        assert_eq!(note["chunks"], asked.len() - 1);
        assert!(summary(&session).starts_with("## Goal\nCount."));
    }
}

/// After two answers that cannot be used, the digest is taken.
#[test]
fn r81_the_digest_replaces_a_bad_summariser() {
    let away = |_| Err("it is away".to_owned());
    let short = |_| Ok("## Goal".to_owned());
    let later = |number| if number < 2 { good(number) } else { Ok("lost".to_owned()) };
    let cases: [(Answers<'_>, usize, &str); 3] = [
        (&away, 2, "it is away"),
        (&short, 2, "the section `## Constraints & Preferences` is missing"),
        (&later, 4, "the section `## Goal` is missing"),
    ];
    for (answer, asked, why) in cases {
        let home = Home::quick();
        let session = session(&home, 8);
        let model = Model::new(answer);
        let compacted = compact(&session, &model);
        assert_eq!(compacted.digest_reason.as_deref(), Some(why));
        assert_eq!(model.asked.borrow().len(), asked);
        let note = note(&home, &session);
        assert_eq!((&note["summariser"], &note["tries"]), (&json!("digest"), &json!(2)));
        assert!(summary(&session).starts_with("## Goals\n- Count the knots of src/cord0.rs."));
    }
}

/// The digest also works in pieces, and they lose nothing that it would select at once.
#[test]
fn r81_a_digest_in_pieces_is_the_digest() {
    let (home, once) = (Home::quick(), Home::quick());
    let (in_pieces, at_once) = (session(&home, 8), session(&once, 8));
    let wanted = Compact { instructions: Some("knots"), ..Compact::default() };
    in_pieces.compact_now(&settings(), &wanted, &Digest).unwrap().unwrap();
    let mut settings = settings();
    settings.rules.mode = Some(CompactionMode::Default);
    at_once.compact_now(&settings, &wanted, &Digest).unwrap().unwrap();
    assert_eq!(summary(&in_pieces), summary(&at_once));
    let pieces = note(&home, &in_pieces);
    assert_eq!((&pieces["summariser"], &pieces["tries"]), (&json!("digest"), &json!(1)));
    assert!(pieces["chunks"].as_u64() > note(&once, &at_once)["chunks"].as_u64());
}
