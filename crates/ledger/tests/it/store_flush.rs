//! Memory flushes: what is asked, what is stored, and what stops nothing.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use quipu_ledger::store::{
    Compact, CompactionSettings, Digest, Entry, Flush, NewSession, Session, Store, Summariser,
    plan_flush_of,
};
use quipu_transcript::compaction::{Question, Request, notes_prompt};
use serde_json::{Value, json};

use crate::home::Home;

/// A model that gives one answer to every question, and makes summaries.
struct Model {
    answer: Result<String, String>,
    prompts: RefCell<Vec<String>>,
}

impl Model {
    fn new(answer: &str) -> Model {
        Model { answer: Ok(answer.to_owned()), prompts: RefCell::default() }
    }

    fn failing() -> Model {
        Model { answer: Err("it is away".to_owned()), prompts: RefCell::default() }
    }

    fn asked(&self) -> usize {
        self.prompts.borrow().len()
    }
}

impl Summariser for Model {
    fn name(&self) -> &'static str {
        "test"
    }

    fn summarise(&self, _: &Request<'_>) -> Result<String, String> {
        Ok("a summary".to_owned())
    }

    fn answer(&self, question: &Question<'_>) -> Option<Result<String, String>> {
        self.prompts.borrow_mut().push(notes_prompt(question, None));
        Some(self.answer.clone())
    }
}

fn open(home: &Home) -> Session {
    Store::open(home.ledger_path()).unwrap().create(&NewSession::default()).unwrap()
}

/// Returns settings with a limit of 500 tokens, and of 375 for the flush.
fn settings() -> CompactionSettings {
    let mut settings = CompactionSettings { window: Some(1000), ..CompactionSettings::default() };
    settings.rules.keep_recent_tokens = Some(90);
    settings
}

/// Appends a message of 101 tokens.
fn say(session: &Session) -> quipu_ledger::store::Appended {
    session.append(Entry::user(&"word ".repeat(81)[..404])).unwrap()
}

fn file_of(flush: &Flush) -> PathBuf {
    match flush {
        Flush::Stored { path, .. } => path.into(),
        _ => panic!("{flush:?}"),
    }
}

#[test]
fn r83_notes_are_appended_once_in_a_cycle() {
    let home = Home::quick();
    let session = open(&home);
    say(&session);
    let events: Arc<Mutex<Vec<Value>>> = Arc::default();
    let heard = Arc::clone(&events);
    session.store().listen(move |event| {
        heard.lock().unwrap().push(serde_json::to_value(event).unwrap());
    });
    let model = Model::new("- Knots are counted.\r\n\u{1b}[2J- Twice.\n\n");
    let flush = session.flush(&settings(), &model).unwrap();
    let file = file_of(&flush);
    assert!(file.starts_with(home.ledger_path().parent().unwrap().join("workspaces/main/memory")));
    assert_eq!(fs::read_to_string(&file).unwrap(), "- Knots are counted.\n[2J- Twice.\n");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    let prompt = &model.prompts.borrow()[0].clone();
    let day = file.file_stem().unwrap().to_str().unwrap();
    let asked =
        format!("Write any lasting notes to memory/{day}.md; reply NO_REPLY if nothing to store.");
    assert!(prompt.contains(&asked) && prompt.contains("[User]: word word"), "{prompt}");
    let meta = session.meta().unwrap();
    assert_eq!(meta["memoryFlushCompactionCount"], 0);
    assert!(meta["memoryFlushAt"].as_i64().unwrap() > 1_700_000_000_000);
    // Neither a second call nor the compaction asks again.
    assert_eq!(session.flush(&settings(), &model).unwrap(), Flush::Done);
    (0..3).for_each(|_| drop(say(&session)));
    let compact = || session.compact_now(&settings(), &Compact::default(), &model);
    assert_eq!(compact().unwrap().unwrap().memory_flush, Some(Flush::Done));
    assert_eq!(model.asked(), 1);
    // The next cycle has its own, at the latest before its compaction.
    (0..3).for_each(|_| drop(say(&session)));
    let compacted = compact().unwrap().unwrap();
    assert_eq!(file_of(compacted.memory_flush.as_ref().unwrap()), file);
    assert_eq!(session.meta().unwrap()["memoryFlushCompactionCount"], 1);
    assert_eq!(session.meta().unwrap()["compactionCount"], 2);
    let events = events.lock().unwrap();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    let cycle = ["memory.flush", "compaction", "compaction"];
    assert_eq!(names, [cycle, cycle].concat());
    assert_eq!((&events[0]["outcome"], &events[0]["bytes"]), (&json!("stored"), &json!(33)));
    home.assert_sound();
}

/// An append reports once that a flush is due, and the store does not count the context for it.
#[test]
fn r83_a_flush_is_due_before_a_compaction() {
    let home = Home::quick();
    let session = open(&home);
    session.store().set_compaction(Some(settings()));
    let due =
        |appended: quipu_ledger::store::Appended| (appended.flush_due, appended.compaction_due);
    let seen: Vec<_> = (0..4).map(|_| due(say(&session))).collect();
    assert_eq!(seen, [(false, false), (false, false), (false, false), (true, false)]);
    assert_eq!(session.store().contexts_counted(), 1);
    session.flush(&settings(), &Model::new("NO_REPLY")).unwrap();
    assert_eq!(due(say(&session)), (false, true));
    session.compact_now(&settings(), &Compact::default(), &Digest).unwrap().unwrap();
    assert_eq!(due(say(&session)), (false, false));
    // After a flush that failed, the next one waits for the compaction.
    session.flush(&settings(), &Model::failing()).unwrap();
    assert_eq!(due(say(&session)), (false, false));
    let mut off = settings();
    off.rules.memory_flush = Some(false);
    session.store().set_compaction(Some(off));
    assert!(!due(say(&session)).0);
}

#[test]
fn r83_answers_and_settings_that_store_nothing() {
    let home = Home::quick();
    let session = open(&home);
    let folder = home.ledger_path().with_file_name("workspaces");
    let model = Model::new("- a note");
    assert_eq!(session.flush(&settings(), &model).unwrap(), Flush::Nothing);
    assert_eq!(model.asked(), 0, "without messages, nothing is asked");
    say(&session);
    let skipped = session.flush(&settings(), &Digest).unwrap();
    assert_eq!(skipped, Flush::Skipped { summariser: "digest".to_owned() });
    assert!(!session.meta().unwrap().contains_key("memoryFlushAt"));
    let long = "n".repeat(70_000);
    for (number, (model, why)) in [
        (Model::failing(), "it is away"),
        (Model::new(" \u{7}\n"), "it answered without text"),
        (Model::new(&long), "it answered more than 65536 bytes of notes"),
    ]
    .into_iter()
    .enumerate()
    {
        let reason = format!("the summariser `test` failed: {why}");
        assert_eq!(session.flush(&settings(), &model).unwrap(), Flush::Failed { reason });
        let meta = session.meta().unwrap();
        assert_eq!(meta["memoryFlushFailureCount"], number + 1);
        assert!(meta["memoryFlushLastFailedAt"].is_i64() && !meta.contains_key("memoryFlushAt"));
    }
    assert_eq!(session.flush(&settings(), &Model::new("`NO_REPLY`.")).unwrap(), Flush::Nothing);
    let meta = session.meta().unwrap();
    assert_eq!(meta["memoryFlushCompactionCount"], 0);
    assert!(!meta.contains_key("memoryFlushFailureCount"));
    assert!(!folder.exists());
}

/// Notes go to no other place than the workspace, and a workspace that cannot be used stops no
/// compaction.
#[test]
fn r83_workspaces_that_are_something_else() {
    let home = Home::quick();
    let session = open(&home);
    (0..4).for_each(|_| drop(say(&session)));
    let elsewhere = home.ledger_path().with_file_name("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let base = home.ledger_path().with_file_name("agents");
    let workspace = base.join("main");
    let mut settings = settings();
    settings.workspaces.insert("main".to_owned(), workspace.clone());
    let day = {
        let ledger = session.store().reader().unwrap();
        plan_flush_of(&ledger, session.row(), &settings).unwrap().day
    };
    let name = format!("{day}.md");
    let model = Model::new("- a note");
    let in_the_way: [(&str, &dyn Fn()); 6] = [
        ("a file is in the way", &|| fs::write(&workspace, "").unwrap()),
        ("a symbolic link is in the way", &|| symlink(&elsewhere, &workspace).unwrap()),
        ("a symbolic link is in the way", &|| {
            fs::create_dir(&workspace).unwrap();
            symlink(&elsewhere, workspace.join("memory")).unwrap();
        }),
        ("a symbolic link is in the way", &|| {
            fs::create_dir_all(workspace.join("memory")).unwrap();
            symlink(elsewhere.join("x"), workspace.join("memory").join(&name)).unwrap();
        }),
        ("a folder is in the way", &|| {
            fs::create_dir_all(workspace.join("memory").join(&name)).unwrap();
        }),
        ("something that is not a file is in the way", &|| {
            fs::create_dir_all(workspace.join("memory")).unwrap();
            let pipe = workspace.join("memory").join(&name);
            assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
        }),
    ];
    for (why, prepare) in in_the_way {
        fs::create_dir_all(&base).unwrap();
        prepare();
        let Flush::Failed { reason: found } = session.flush(&settings, &model).unwrap() else {
            panic!("{why}")
        };
        assert!(found.contains(why), "{found}");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
        fs::remove_dir_all(&base).unwrap();
    }
    fs::create_dir_all(&base).unwrap();
    fs::write(&workspace, "").unwrap();
    let compacted = session.compact_now(&settings, &Compact::default(), &model).unwrap().unwrap();
    assert!(matches!(compacted.memory_flush, Some(Flush::Failed { .. })));
    assert_eq!(session.meta().unwrap()["memoryFlushFailureCount"], 7);
    // A file whose last line has no end gets one.
    fs::remove_file(&workspace).unwrap();
    fs::create_dir_all(workspace.join("memory")).unwrap();
    fs::write(workspace.join("memory").join(&name), "- mine").unwrap();
    let flush = session.flush(&settings, &model).unwrap();
    assert_eq!(fs::read_to_string(file_of(&flush)).unwrap(), "- mine\n- a note\n");
}

/// A key that leads to a new session begins a new cycle.
#[test]
fn r83_a_new_session_of_a_key_has_its_own_flush() {
    let home = Home::quick();
    let store = Store::open(home.ledger_path()).unwrap();
    let key = "agent:main:main";
    let session = store.session_or_new(key).unwrap();
    say(&session);
    session.flush(&settings(), &Model::new("- one")).unwrap();
    let new = NewSession { key: Some(key), takes_key: true, ..NewSession::default() };
    let next = store.create(&new).unwrap();
    assert!(!next.meta().unwrap().contains_key("memoryFlushAt"));
    say(&next);
    assert!(matches!(next.flush(&settings(), &Model::new("- two")).unwrap(), Flush::Stored { .. }));
    // No key leads to the earlier session now: its flush is made, and cannot be noted. It waits for
    // the compaction, so that not each of several processes asks for it.
    assert!(matches!(
        session.flush(&settings(), &Model::new("- three")).unwrap(),
        Flush::Stored { .. }
    ));
    for session in [&session, &next] {
        let elsewhere = Store::open(home.ledger_path()).unwrap();
        elsewhere.set_compaction(Some(settings()));
        let same = elsewhere.session(session.id()).unwrap();
        let due: Vec<bool> = (0..3).map(|_| say(&same).flush_due).collect();
        assert_eq!(due, [false, false, false]);
    }
}

/// The newest messages that the model takes are in the question.
#[test]
fn r83_a_long_context_is_cut_for_the_question() {
    let home = Home::quick();
    let session = open(&home);
    for number in 0..20 {
        session.append(Entry::user(&format!("message {number} {}", "x".repeat(400)))).unwrap();
    }
    let model = Model::new("NO_REPLY");
    session.flush(&settings(), &model).unwrap();
    let prompt = &model.prompts.borrow()[0];
    assert!(prompt.contains("message 19") && !prompt.contains("message 15 "), "{prompt}");
    assert!(prompt.contains("16 earlier messages are left out."), "{prompt}");
}

/// A model that takes long: something else happens before it answers.
struct Slow<'a>(&'a dyn Fn());

impl Summariser for Slow<'_> {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn summarise(&self, _: &Request<'_>) -> Result<String, String> {
        Err("it makes no summaries".to_owned())
    }

    fn answer(&self, _: &Question<'_>) -> Option<Result<String, String>> {
        (self.0)();
        Some(Ok("- mine".to_owned()))
    }
}

/// No lock is held while a model answers, and of two flushes at the same time one is stored.
#[test]
fn r83_nothing_waits_for_a_flush() {
    let home = Home::quick();
    let session = open(&home);
    say(&session);
    let elsewhere = Store::open(home.ledger_path()).unwrap();
    let same = elsewhere.session(session.id()).unwrap();
    let append = || {
        say(&session);
        say(&same);
    };
    let file = file_of(&session.flush(&settings(), &Slow(&append)).unwrap());
    assert_eq!(session.context().unwrap().messages.len(), 3);
    session.compact_now(&settings(), &Compact::default(), &Digest).unwrap().unwrap();
    say(&session);
    let theirs = || drop(same.flush(&settings(), &Model::new("- theirs")).unwrap());
    assert_eq!(session.flush(&settings(), &Slow(&theirs)).unwrap(), Flush::Done);
    assert_eq!(fs::read_to_string(file).unwrap(), "- mine\n- theirs\n");
}

/// Four flushes have an answer at the same time: one stores its notes.
#[test]
fn r83_of_flushes_at_once_one_is_stored() {
    let home = Home::quick();
    let session = open(&home);
    say(&session);
    let all_answered = std::sync::Barrier::new(4);
    let flushes: Vec<Flush> = std::thread::scope(|scope| {
        let flush = || {
            let wait = || {
                all_answered.wait();
            };
            session.flush(&settings(), &Slow(&wait)).unwrap()
        };
        let running: Vec<_> = (0..4).map(|_| scope.spawn(flush)).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let stored: Vec<&Flush> =
        flushes.iter().filter(|flush| matches!(flush, Flush::Stored { .. })).collect();
    assert_eq!(stored.len(), 1, "{flushes:?}");
    assert_eq!(flushes.iter().filter(|flush| **flush == Flush::Done).count(), 3, "{flushes:?}");
    assert_eq!(fs::read_to_string(file_of(stored[0])).unwrap(), "- mine\n");
}

/// In a cycle whose flush failed, a compaction that is due does not wait for a second one.
#[test]
fn r83_a_flush_that_failed_is_not_asked_again_before_its_compaction() {
    let home = Home::quick();
    let session = open(&home);
    (0..6).for_each(|_| drop(say(&session)));
    let model = Model::failing();
    assert!(matches!(session.flush(&settings(), &model).unwrap(), Flush::Failed { .. }));
    let due = Compact { is_due: true, ..Compact::default() };
    let compact = || session.compact_now(&settings(), &due, &model).unwrap().unwrap();
    assert_eq!((compact().memory_flush, model.asked()), (None, 1));
    // The next cycle asks.
    (0..6).for_each(|_| drop(say(&session)));
    assert!(matches!(compact().memory_flush, Some(Flush::Failed { .. })));
    assert_eq!(model.asked(), 2);
    assert_eq!(session.meta().unwrap()["memoryFlushFailureCount"], 2);
}
