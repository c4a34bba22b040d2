//! The list of sessions, and projects by name.

use std::ops::ControlFlow;

use crate::home::*;
use quipu_ledger::query::{Choice, Filter, Sessions, Story, find_session, projects, sessions};
use quipu_ledger::restore::{Generations, RestoreScope, restore};
use quipu_ledger::{Error, Ledger};
use quipu_transcript::project::Name;

const EASTORE: &str = "-Users-x-dev-eastore-Eastore-frontend-v1";

fn claude(slug: &str, number: u32, cwd: &str, prompts: &[&str]) -> (String, String) {
    let path = format!(".claude/projects/{slug}/{number:08}-0000-4000-8000-000000000001.jsonl");
    let cwd = if cwd.is_empty() { String::new() } else { format!("\"cwd\":\"{cwd}\",") };
    let lines = prompts.iter().enumerate().map(|(index, prompt)| {
        format!(
            "{{\"type\":\"user\",\"uuid\":\"00000000-0000-4000-{number:04}-{index:012}\",{cwd}\
             \"timestamp\":\"2026-11-01T10:{index:02}:00Z\",\"message\":{{\"role\":\"user\",\
             \"content\":\"{prompt}\"}}}}\n"
        )
    });
    (path, lines.collect())
}

fn openclaw(agent: &str, id: &str, cwd: &str, prompts: &[&str]) -> (String, String) {
    let path = format!(".openclaw/agents/{agent}/sessions/{id}.jsonl");
    let cwd = if cwd.is_empty() { String::new() } else { format!(",\"cwd\":\"{cwd}\"") };
    let header = format!(
        "{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\",\"timestamp\":\"2026-10-01T10:00:00Z\"{cwd}}}\n"
    );
    let lines = prompts.iter().enumerate().map(|(index, prompt)| {
        format!(
            "{{\"type\":\"message\",\"id\":\"{index:08x}\",\"timestamp\":\"2026-10-01T10:{index:02}:00Z\",\
             \"message\":{{\"role\":\"user\",\"content\":\"{prompt}\"}}}}\n"
        )
    });
    (path, header + &lines.collect::<String>())
}

fn home(files: &[(String, String)]) -> Home {
    let home = Home::quick();
    for (path, text) in files {
        home.write(path, text);
    }
    home.sync();
    home
}

fn list(home: &Home, filter: &Filter) -> Sessions {
    let ledger = Ledger::open_read_only(&home.ledger_path()).unwrap();
    sessions(&ledger, filter, None).unwrap()
}

fn of_project(home: &Home, name: &str) -> Vec<String> {
    let filter = Filter { project: Some(Name::new(name)), ..Filter::default() };
    let mut ids: Vec<String> =
        list(home, &filter).sessions.into_iter().map(|session| session.session_id).collect();
    ids.sort();
    ids.iter_mut().for_each(|id| id.truncate(8));
    ids
}

#[test]
fn r40_a_part_of_a_name_finds_slugs_and_folders() {
    let home = home(&[
        claude(EASTORE, 1, "/Users/x/dev/eastore/Eastore_frontend-v1", &["hello"]),
        claude(EASTORE, 2, "", &["hello again"]),
        claude("-Users-x-dev-other", 3, "/Users/x/dev/other", &["hello"]),
        openclaw("main", "oc-eastore", "/srv/eastore-api", &["hi"]),
        openclaw("work", "oc-other", "/srv/else", &["look at eastore please"]),
        openclaw("work", "oc-nowhere", "", &["one", "two", "the Eastore bug", "four", "five"]),
        openclaw("work", "oc-late", "", &["1", "2", "3", "4", "5", "eastore comes too late"]),
    ]);
    for name in ["eastore", "EASTORE", "east"] {
        assert_eq!(
            of_project(&home, name),
            ["00000001", "00000002", "oc-easto", "oc-nowhe"],
            "{name}"
        );
    }
    assert_eq!(of_project(&home, "frontend"), ["00000001", "00000002"]);
    assert_eq!(of_project(&home, "estore api"), ["oc-easto"]);
    assert_eq!(of_project(&home, "easotre-api"), ["oc-easto"], "two swapped letters");
    assert_eq!(of_project(&home, "xyzzy"), [""; 0]);
}

#[test]
fn r31_r40_a_path_finds_its_project() {
    let home = home(&[
        claude("-w-a-b-c", 1, "/w/a.b/c", &["hello"]),
        claude("-w-a-b", 2, "", &["hello"]),
        claude("-w-a-b-d", 3, "/w/a-b-d", &["hello"]),
        openclaw("main", "deeper", "/w/a.b/c/deeper", &["hi"]),
    ]);
    assert_eq!(of_project(&home, "/w/a.b/c"), ["00000001", "deeper"]);
    assert_eq!(of_project(&home, "/w/a.b"), ["00000001", "00000002", "deeper"]);
}

#[test]
fn r41_projects_of_all_agents_match() {
    let home = home(&[
        claude("-p-shop-front", 1, "/p/shop/front", &["hello"]),
        claude("-p-shop-back", 2, "/p/shop/back", &["hello"]),
        openclaw("main", "one", "/p/shop/front", &["hi"]),
        openclaw("other", "two", "/p/shop/front", &["hi"]),
    ]);
    let ledger = Ledger::open_read_only(&home.ledger_path()).unwrap();
    let filter = Filter { project: Some(Name::new("shop")), ..Filter::default() };
    let found = projects(&ledger, &filter).unwrap();
    let shown: Vec<(&str, u64, usize)> = found
        .iter()
        .map(|project| (project.project.as_str(), project.sessions, project.agents.len()))
        .collect();
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(shown.contains(&("front", 3, 2)) && shown.contains(&("back", 1, 0)), "{shown:?}");
    let filter = Filter { agent: Some("other".to_owned()), ..filter };
    assert_eq!(list(&home, &filter).total, 1);
}

#[test]
fn r42_the_time_of_a_session_comes_from_the_index() {
    let home = home(&[
        openclaw("main", "old", "/p", &["hi"]),
        openclaw("main", "new", "/p", &["hi"]),
        (
            ".openclaw/agents/main/sessions/sessions.json".to_owned(),
            "{\"agent:main:main\":{\"sessionId\":\"new\",\"updatedAt\":1793500000000,\"lastChannel\":\"telegram\"}}".to_owned(),
        ),
    ]);
    let ids = |filter: &Filter| -> Vec<String> {
        list(&home, filter).sessions.into_iter().map(|session| session.session_id).collect()
    };
    // 1793500000000 is in November; the lines of both sessions are of October.
    let november = Filter { since: Some(1_793_400_000_000), ..Filter::default() };
    assert_eq!(ids(&november), ["new"]);
    assert_eq!(ids(&Filter::default()), ["new", "old"]);
    let october = 1_790_812_800_000;
    assert_eq!(ids(&Filter { until: Some(october), ..Filter::default() }), [""; 0]);
    assert_eq!(ids(&Filter { since: Some(october), ..Filter::default() }).len(), 2);
    let telegram = Filter { channel: Some("Telegram".to_owned()), ..Filter::default() };
    assert_eq!(ids(&telegram), ["new"]);
    // `until` also compares the last activity, not the beginning.
    let until = |until| Filter { until: Some(until), ..Filter::default() };
    assert_eq!(ids(&until(1_793_400_000_000)), ["old"]);
    assert_eq!(ids(&until(1_793_500_000_001)), ["new", "old"]);
    let both = Filter { since: Some(1_790_812_800_000), ..until(1_793_400_000_000) };
    assert_eq!(ids(&both), ["old"]);
}

/// The list, usage, the story, SQL and an import agree on when a session was last active: the
/// index may be ahead of the transcript or behind it.
#[test]
fn the_last_activity_is_the_same_everywhere() {
    let last = 1_790_848_860_000_i64;
    let transcript = |id: &str| {
        let (path, text) = openclaw("main", id, "/p", &["hi", "again"]);
        // The same entry in two sessions would be a copy, which is counted once.
        let entry = format!("{:08x}", id.len());
        let answer = format!(
            r#"{{"type":"message","id":"{entry}","timestamp":"2026-10-01T10:01:00Z","message":{{"role":"assistant","content":"yes","usage":{{"input":1,"output":1}}}}}}"#
        );
        (path, format!("{text}{answer}\n"))
    };
    let index = format!(
        r#"{{"agent:main:a":{{"sessionId":"ahead","updatedAt":{}}},"agent:main:b":{{"sessionId":"behind","updatedAt":{}}}}}"#,
        last + 5_000,
        last - 5_000,
    );
    let sessions = ".openclaw/agents/main/sessions/sessions.json".to_owned();
    let home = home(&[transcript("ahead"), transcript("behind"), (sessions.clone(), index)]);
    let imported = Home::quick();
    quipu_ledger::store::Store::open(imported.ledger_path())
        .unwrap()
        .import(&home.path(".openclaw"), &mut |file| assert!(!file.has_failed, "{file:?}"))
        .unwrap();
    let check = |home: &Home, expected: [(&str, i64); 2]| {
        let ledger = home.open();
        let usage = crate::usage::report(home, quipu_ledger::query::UsageBy::Session);
        for (id, time) in expected {
            let listed = list(home, &Filter::default()).sessions;
            let listed = listed.iter().find(|session| session.session_id == id).unwrap().updated_at;
            let line = usage.lines.iter().find(|line| line.group == id).unwrap();
            let counted = line.session.as_ref().unwrap().updated_at;
            let story = Story::find(&ledger, id).unwrap().head().updated_at;
            let query = format!("SELECT updated_at FROM sessions WHERE session_id = '{id}'");
            let stored: Option<i64> = home.one(&query);
            assert_eq!([listed, counted, story, stored], [Some(time); 4], "{id}");
            let query = format!("SELECT updated_at FROM session_index WHERE session_id = '{id}'");
            let keys = quipu_ledger::store::registry(&ledger).unwrap();
            if let Some(key) = keys.iter().find(|key| key.session_id.as_deref() == Some(id)) {
                assert_eq!([key.updated_at, home.one(&query)], [Some(time); 2], "{id}");
            }
        }
    };
    check(&home, [("ahead", last + 5_000), ("behind", last)]);
    check(&imported, [("ahead", last + 5_000), ("behind", last)]);
    // The key leads elsewhere by now.
    home.write(&sessions, r#"{"agent:main:b":{"sessionId":"behind","updatedAt":1}}"#);
    home.sync_and_check();
    check(&home, [("ahead", last), ("behind", last)]);
}

/// A session that overlaps a range belongs to the time of its last activity; if that is not
/// recorded, to the modification time of its file.
#[test]
fn r42_a_session_belongs_to_the_time_of_its_last_activity() {
    let (path, text) = claude("-p", 1, "/p", &["10:00", "10:01", "10:02"]);
    let (undated, without) = claude("-p", 2, "/p", &["never"]);
    let without = without.replace("\"timestamp\":\"2026-11-01T10:00:00Z\",", "");
    let home = home(&[(path, text), (undated.clone(), without)]);
    let file = std::fs::File::options().append(true).open(home.path(&undated)).unwrap();
    let modified = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    file.set_modified(modified).unwrap();
    home.sync();
    let ten = 1_793_527_200_000;
    let ids = |since: Option<i64>, until: Option<i64>| -> Vec<String> {
        let filter = Filter { since, until, ..Filter::default() };
        let mut ids: Vec<String> =
            list(&home, &filter).sessions.into_iter().map(|session| session.session_id).collect();
        ids.iter_mut().for_each(|id| id.truncate(8));
        ids
    };
    assert_eq!(
        ids(Some(ten - 60_000), Some(ten + 60_000)),
        [""; 0],
        "the session was active after that"
    );
    assert_eq!(ids(Some(ten + 60_000), Some(ten + 180_000)), ["00000001"]);
    assert_eq!(ids(Some(1_699_999_999_000), Some(1_700_000_001_000)), ["00000002"]);
}

/// A transcript's header names its session, even if the file has another name. A file with exactly
/// that name comes first.
#[test]
fn a_session_is_found_by_its_headers_id() {
    let (_, text) = openclaw("main", "0a1b2c3d-header", "/p", &["hi"]);
    let (taken, own) = openclaw("main", "0a1b2c3d-header-of-its-own", "/p", &["hi"]);
    let folder = ".openclaw/agents/main/sessions";
    let home = home(&[
        (format!("{folder}/renamed.jsonl"), text.clone()),
        (
            format!("{folder}/2026-10-01T10-00-00-000Z_deadbeef-1.jsonl"),
            text.replace("0a1b2c3d-header", "deadbeef-1"),
        ),
        (taken, own),
    ]);
    let ledger = Ledger::open_read_only(&home.ledger_path()).unwrap();
    let found = |name: &str| {
        find_session(&ledger, name)
            .map(|row| quipu_ledger::query::summary_of(&ledger, row).unwrap().unwrap().session_id)
    };
    assert_eq!(found("renamed").unwrap(), "renamed");
    assert_eq!(found("0a1b2c3d").unwrap(), "0a1b2c3d-header-of-its-own", "files come first");
    home.forget("0a1b2c3d-header-of-its-own");
    assert_eq!(found("0a1b2c3d-header").unwrap(), "renamed");
    assert_eq!(found("0a1b2c").unwrap(), "renamed");
    assert_eq!(found("deadbeef").unwrap(), "2026-10-01T10-00-00-000Z_deadbeef-1");
    assert!(found("0a1b2c3d-other").is_err());
}

/// Ids are shortened to unique prefixes, including those of empty transcripts and of files in
/// folders.
#[test]
fn ids_with_ambiguous_prefix_are_those_of_everything_that_is_listed() {
    let empty = "00000001-0000-4000-8000-00000000000e";
    let home = home(&[
        claude("-p", 1, "/p", &["hello"]),
        claude("-p", 2, "/p", &["hello"]),
        (format!(".claude/projects/-p/{empty}.jsonl"), String::new()),
        (".claude/projects/-p/agent-a1.jsonl".to_owned(), line("user", &uuid(1), None, "a")),
        (".claude/projects/-q/agent-a1.jsonl".to_owned(), line("user", &uuid(2), None, "b")),
        (".claude/projects/-q/agent-b2.jsonl".to_owned(), line("user", &uuid(3), None, "c")),
    ]);
    let ledger = home.open();
    let ambiguous = quipu_ledger::query::ids_with_ambiguous_prefix(&ledger, 8).unwrap();
    let expected = ["-p/agent-a1", "-q/agent-a1", "00000001-0000-4000-8000-000000000001", empty];
    assert_eq!(ambiguous, expected);
    for id in ["-p/agent-a1", "-q/agent-a1"] {
        assert!(find_session(&ledger, id).is_ok(), "{id}");
    }
    assert!(matches!(Story::find(&ledger, empty), Err(Error::Empty { .. })));
}

#[test]
fn r43_the_list_shows_prompts_counts_and_times() {
    let (path, text) = claude("-p", 1, "/p", &["/clear", "first", "second", "third", "fourth"]);
    let home = home(&[(path.clone(), text.clone())]);
    let found = list(&home, &Filter::default());
    let session = &found.sessions[0];
    assert_eq!(session.cwd.as_deref(), Some("/p"));
    assert_eq!(session.first_prompt.as_deref(), Some("/clear"));
    assert_eq!(session.title.as_deref(), Some("first"));
    assert_eq!(session.last_prompts, ["second", "third", "fourth"]);
    assert_eq!((session.lines, session.records, session.turns), (5, 5, 5));
    assert_eq!(session.bytes, text.len() as u64);
    assert_eq!(session.started_at, Some(1_793_527_200_000));
    assert_eq!(session.updated_at, Some(1_793_527_440_000));
    let modified = std::fs::metadata(home.path(&path)).unwrap().modified().unwrap();
    let modified = modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    assert_eq!(session.modified_at.map(|time| time as u128), Some(modified));

    // After a rewrite, the lines of the current file are counted, and all records are kept.
    let shorter: String = text.lines().skip(2).map(|line| format!("{line}\n")).collect();
    home.replace(&path, format!("{shorter}{{\"type\":\"user\",\"uuid\":\"x\""));
    home.sync();
    let found = list(&home, &Filter::default());
    let session = &found.sessions[0];
    assert_eq!((session.lines, session.records), (3, 5), "an unfinished line is not counted");
}

#[test]
fn r30_minor_sessions_are_listed_on_demand() {
    let (path, text) = claude("-p", 1, "/p", &["hello"]);
    let sub = path.replace(".jsonl", "/subagents/agent-a1.jsonl");
    let home = home(&[
        (path, text.clone()),
        (sub, text.replace("\"type\"", "\"isSidechain\":true,\"type\"")),
        claude("-p", 2, "/p", &["Warmup"]),
        (
            claude("-p", 3, "/p", &[]).0,
            "{\"type\":\"file-history-snapshot\",\"messageId\":\"m\",\"snapshot\":{}}\n".to_owned(),
        ),
    ]);
    assert_eq!(list(&home, &Filter::default()).total, 1);
    assert_eq!(list(&home, &Filter { all: true, ..Filter::default() }).total, 4);
}

#[test]
fn sessions_are_found_by_the_ids_that_lists_show() {
    let (path, text) = claude("-p", 1, "/p", &["hello"]);
    let sub = path.replace(".jsonl", "/subagents/agent-a1.jsonl");
    let home = home(&[
        (path, text.clone()),
        (sub, text),
        openclaw("main", "same-id", "/p", &["hi"]),
        openclaw("work", "same-id", "/p", &["hi"]),
    ]);
    let ledger = Ledger::open_read_only(&home.ledger_path()).unwrap();
    let id = |name: &str| find_session(&ledger, name).ok();
    assert!(id("last").is_some());
    assert_ne!(id("00000001"), None);
    assert_ne!(id("00000001/agent-a1"), None);
    assert_ne!(id("00000001/agent-a1"), id("00000001"));
    assert_eq!(id("same"), None, "two agents have this id");
    assert_ne!(id("work/same"), None);
    assert_ne!(id("work/same-id"), id("main/same-id"));
    assert_eq!(id("nothing/like-that"), None);
}

/// Releases and documents keep the channel in different places, some only in the key.
#[test]
fn the_channel_is_found_wherever_it_is_recorded() {
    let home = home(&[
        openclaw("main", "context", "/p", &["hi"]),
        openclaw("main", "origin", "/p", &["hi"]),
        openclaw("main", "key", "/p", &["hi"]),
        openclaw("main", "last", "/p", &["hi"]),
        openclaw("main", "none", "/p", &["hi"]),
    ]);
    home.write(
        ".openclaw/agents/main/sessions/sessions.json",
        r#"{"version": 2, "agents": {
            "agent:main:main": {"activeSessionId": "context", "updatedAt": 1,
                "deliveryContext": {"channel": "telegram", "to": "7"}},
            "agent:main:x": {"sessionId": "origin", "updatedAt": 2,
                "origin": {"provider": "telegram"}},
            "agent:main:telegram:group:-100": {"sessionId": "key", "updatedAt": 3, "channel": ""},
            "agent:main:discord:channel:5": {"sessionId": "last", "updatedAt": 4,
                "lastChannel": "telegram"},
            "agent:main:cron:job": {"sessionId": "none", "updatedAt": 5}}}"#,
    );
    home.sync();
    let filter = Filter { channel: Some("telegram".to_owned()), ..Filter::default() };
    let mut found: Vec<String> =
        list(&home, &filter).sessions.into_iter().map(|session| session.session_id).collect();
    found.sort();
    assert_eq!(found, ["context", "key", "last", "origin"]);
    home.sync_and_check();
}

/// The report about a forgotten session has the title that the list shows.
#[test]
fn a_session_that_is_forgotten_has_the_title_of_the_list() {
    let home = home(&[
        claude("-p", 1, "/p", &["/clear", "Mend the till"]),
        openclaw("main", "labelled", "/p", &["hello there"]),
    ]);
    home.write(
        ".openclaw/agents/main/sessions/sessions.json",
        r#"{"agent:main:main": {"sessionId": "labelled", "updatedAt": 1, "label": "The bakery"}}"#,
    );
    home.sync();
    for (session, title) in [("00000001", "Mend the till"), ("labelled", "The bakery")] {
        let preview = quipu_ledger::forget::preview(&home.open(), session).unwrap();
        assert_eq!(preview.affected_sessions[0].title.as_deref(), Some(title));
        let listed = list(&home, &Filter::default()).sessions;
        let listed = listed.iter().find(|listed| listed.session_id.starts_with(session)).unwrap();
        assert_eq!(listed.title.as_deref(), Some(title));
    }
}

/// The costs of all sessions add up to the total usage, and an empty file can be listed.
#[test]
fn costs_add_up_and_empty_files_are_listed() {
    use quipu_transcript::prices::Prices;
    let home = Home::quick();
    home.copy_fixtures();
    home.write(".openclaw/agents/main/sessions/nothing.jsonl", "");
    let id = "0000beef-0000-4000-8000-000000000001";
    home.write(&format!(".claude/projects/-p/{id}.jsonl"), "");
    home.sync();
    let ledger = home.open();
    let all = Filter { all: true, ..Filter::default() };
    let found = quipu_ledger::query::sessions(&ledger, &all, None).unwrap();
    assert_eq!((found.sessions.len(), found.rows.len()), (found.total, found.total));
    for empty in ["nothing", id] {
        let session = found.sessions.iter().find(|session| session.session_id == empty).unwrap();
        assert_eq!((session.lines, session.bytes, session.state.as_str()), (0, 0, "live"));
        let filter = Filter::default();
        let some = quipu_ledger::query::sessions(&ledger, &filter, None).unwrap();
        assert!(some.sessions.iter().all(|session| session.session_id != empty));
        // Looking it up reports that it is empty, and its file can be restored.
        let error = Story::find(&ledger, empty).unwrap_err();
        assert!(matches!(&error, Error::Empty { id, .. } if id == empty), "{error}");
        let begins = Story::find(&ledger, &empty[..6]).unwrap_err();
        assert_eq!(begins.to_string(), error.to_string());
        assert!(error.to_string().ends_with(&format!("/{empty}.jsonl has no lines")), "{error}");
        let to = home.path(&format!("back-{empty}"));
        let report =
            restore(&ledger, RestoreScope::Session(empty), &to, Generations::Newest).unwrap();
        assert_eq!((report.files, report.bytes), (1, 0));
    }
    let name = "main/nothing";
    assert!(matches!(Story::find(&ledger, name), Err(Error::Empty { .. })));
    assert!(matches!(Story::find(&ledger, "nothing else"), Err(Error::NoMatch { .. })));
    let prices = Prices::default();
    let costs = quipu_ledger::query::costs(&ledger, &prices).unwrap();
    let billed = found.sessions.iter().zip(&found.rows).filter_map(|(session, row)| {
        let mut session = session.clone();
        costs.add_to((*row)?, &mut session);
        session.cost_usd
    });
    let sum: f64 = billed.sum();
    let request = quipu_ledger::query::UsageRequest {
        by: quipu_ledger::query::UsageBy::Day,
        since: None,
        until: None,
        sessions: None,
        zone: jiff::tz::TimeZone::UTC,
        prices: &prices,
        by_model: false,
    };
    let total_cost =
        quipu_ledger::query::usage(&ledger, &request).unwrap().unwrap().total.cost_usd.unwrap();
    assert!(total_cost > 0.0 && (sum - total_cost).abs() < 1e-6, "{sum} is not {total_cost}");
}

/// A session is found by the full name of its file, even if another id begins with it.
#[test]
fn a_whole_file_name_wins_over_a_prefix_of_an_id() {
    let home = Home::quick();
    let id = "04beef00-0000-4000-8000-000000000001";
    home.write(&format!(".claude/projects/-p/{id}.jsonl"), line("user", &uuid(1), None, "a"));
    home.write(".claude/projects/-p/04.jsonl", line("user", &uuid(2), None, "b"));
    home.sync();
    let ledger = home.open();
    let found = |name: &str| {
        let row = find_session(&ledger, name).unwrap();
        quipu_ledger::query::summary_of(&ledger, row).unwrap().unwrap().session_id
    };
    assert!(found("04").ends_with("/04"), "{}", found("04"));
    assert_eq!(found("04b"), id);
}

/// The prompt list keeps prompts and folders after the transcript was deleted.
#[test]
fn a_lost_session_is_listed_by_its_prompts() {
    let prompt = |id: &str, minute: u32, text: &str, project: &str| {
        let time = 1_770_193_116_000_i64 + i64::from(minute) * 60_000;
        format!(
            "{{\"display\":\"{text}\",\"timestamp\":{time},\"project\":\"{project}\",\"sessionId\":\"{id}\"}}\n"
        )
    };
    let history = [
        prompt("lost-1", 0, "/model opus", "/home/a/tidepool"),
        prompt("lost-1", 1, "when is low tide?", "/home/a/tidepool"),
        prompt("lost-2", 2, "/clear", ""),
        prompt("lost-1", 3, "and tomorrow?", "/home/a/tidepool/web"),
        prompt("lost-1", 4, "and on Sunday?", "/home/a/tidepool"),
    ];
    let home = home(&[(".claude/history.jsonl".to_owned(), history.concat())]);
    let listed = list(&home, &Filter::default()).sessions;
    let ids: Vec<&str> = listed.iter().map(|session| session.session_id.as_str()).collect();
    assert_eq!(ids, ["lost-1", "lost-2"]);
    let session = &listed[0];
    assert_eq!(session.state.as_str(), "lost");
    assert_eq!(session.title.as_deref(), Some("when is low tide?"));
    assert_eq!(session.first_prompt.as_deref(), Some("/model opus"));
    assert_eq!(session.last_prompts, ["when is low tide?", "and tomorrow?", "and on Sunday?"]);
    assert_eq!(session.project, "tidepool");
    assert_eq!(session.cwd.as_deref(), Some("/home/a/tidepool"));
    assert_eq!(session.started_at, Some(1_770_193_116_000));
    assert_eq!(session.updated_at, Some(1_770_193_356_000));
    assert_eq!((listed[1].title.as_deref(), listed[1].cwd.as_deref()), (Some("/clear"), None));
    // Each prompt was a turn.
    assert_eq!((session.turns, listed[1].turns), (4, 1));
    assert_eq!(of_project(&home, "tidepool"), ["lost-1"]);
    let ledger = home.open();
    let projects = projects(&ledger, &Filter::default()).unwrap();
    assert_eq!(projects[0].cwd.as_deref(), Some("/home/a/tidepool"));
    let story = Story::find(&ledger, "lost-1").unwrap();
    assert_eq!(story.head().title.as_deref(), Some("when is low tide?"));
    assert_eq!(story.head().cwd.as_deref(), Some("/home/a/tidepool"));
    assert_eq!(story.head().project.as_deref(), Some("tidepool"));
    assert_eq!(story.head().turns, 4);
    let mut shown = Vec::new();
    let third = Choice { turn: Some(3), ..Choice::default() };
    story
        .each_item(&third, &mut |item| {
            shown.push((item.turn, item.words().into_owned()));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(shown, [(Some(3), "and tomorrow?".to_owned())]);
}

/// Every printed name of a sub-agent leads to it, even inside a workflow's run.
#[test]
fn a_sub_agent_of_a_workflow_is_found_by_its_name() {
    let folder = MAIN.trim_end_matches(".jsonl");
    let first_line =
        line("user", &uuid(1), None, "a task").replace("\"type\"", "\"isSidechain\":true,\"type\"");
    let home = home(&[
        (MAIN.to_owned(), line("user", &uuid(2), None, "hello")),
        (format!("{folder}/subagents/workflows/w1/agent-def.jsonl"), first_line.clone()),
        (
            format!("{folder}/subagents/workflows/w1/agent-two.jsonl"),
            first_line.replace(&uuid(1), &uuid(3)),
        ),
        (
            format!("{folder}/subagents/workflows/w2/agent-two.jsonl"),
            first_line.replace(&uuid(1), &uuid(4)),
        ),
    ]);
    let ledger = home.open();
    let id = |name: &str| {
        let row = find_session(&ledger, name)?;
        Ok::<String, Error>(quipu_ledger::query::summary_of(&ledger, row)?.unwrap().session_id)
    };
    let whole = format!("{SESSION}/workflows/w1/agent-def");
    for name in ["agent-def", &format!("{}/agent-def", &SESSION[..8]), "w1/agent-def", &whole] {
        assert_eq!(id(name).unwrap(), whole, "{name}");
    }
    assert!(matches!(id("agent-two"), Err(Error::Ambiguous { count: 2, .. })));
    let ambiguous = quipu_ledger::query::ids_with_ambiguous_prefix(&ledger, 8).unwrap();
    assert_eq!(ambiguous.iter().filter(|id| id.ends_with("agent-two")).count(), 2);
}

/// A session is named after the first name of its file; the current name leads to it as well.
#[test]
fn a_renamed_transcript_is_found_by_both_names() {
    let home = home(&[(MAIN.to_owned(), line("user", &uuid(1), None, "hello"))]);
    let (second, third) = ("11111111-2222-4333-8444-555555555555", "21111111-2222-4333-8444-5");
    home.rename(MAIN, &MAIN.replace(SESSION, second));
    home.sync();
    home.rename(&MAIN.replace(SESSION, second), &MAIN.replace(SESSION, third));
    home.sync_and_check();
    let ledger = home.open();
    let row = find_session(&ledger, SESSION).unwrap();
    for name in [&SESSION[..8], second, "1111", "-home-alice-shop/21111111-2222-4333-8444-5"] {
        assert_eq!(find_session(&ledger, name).unwrap(), row, "{name}");
    }
    assert!(find_session(&ledger, "31111111").is_err());
}

/// A name that is not UTF-8 is a name of its own.
#[test]
fn names_that_are_not_utf8_are_separate_sessions() {
    use std::os::unix::ffi::OsStrExt;
    let home = Home::quick();
    home.folder_for(MAIN);
    let folder = home.path(MAIN).parent().unwrap().to_owned();
    for (byte, number) in [(0xfe, 1), (0xff, 2)] {
        let name = [&b"inv"[..], &[byte], &b".jsonl"[..]].concat();
        let path = folder.join(std::ffi::OsStr::from_bytes(&name));
        std::fs::write(path, line("user", &uuid(number), None, "hello")).unwrap();
    }
    home.sync_and_check();
    assert_eq!(
        home.all("SELECT session_id, messages FROM sessions ORDER BY 1"),
        [r"'-home-alice-shop/inv\xFE'|1", r"'-home-alice-shop/inv\xFF'|1"]
    );
}

/// Older releases stored sub-agents beside the sessions. One whose session is there is a sub-agent
/// like the others; one that stands alone is listed. The order of collecting does not matter.
#[test]
fn r30_an_older_sub_agent_belongs_to_its_session() {
    let of = |session: &str| {
        format!(
            "{{\"type\":\"user\",\"uuid\":\"{}\",\"isSidechain\":true,\"sessionId\":\"{session}\",\
             \"agentId\":\"a1\",\"timestamp\":\"2026-11-01T10:00:00Z\",\"message\":{{\"role\":\"user\",\
             \"content\":\"look around\"}}}}\n",
            uuid(7)
        )
    };
    let agent = ".claude/projects/-home-alice-shop/agent-a1.jsonl";
    let alone = ".claude/projects/-home-alice-shop/agent-b2.jsonl";
    let main = line("user", &uuid(1), None, "go");
    let files =
        [(agent, of(SESSION)), (alone, of("00000009-0000-4000-8000-000000000009")), (MAIN, main)];
    for order in [[0, 1, 2], [2, 1, 0]] {
        let home = Home::quick();
        for index in order {
            home.write(files[index].0, &files[index].1);
            home.sync();
        }
        home.sync_and_check();
        let ids = |filter: &Filter| -> Vec<(String, String, u64)> {
            let mut found: Vec<_> = list(&home, filter)
                .sessions
                .into_iter()
                .map(|session| (session.session_id, session.part, session.subagents))
                .collect();
            found.sort();
            found
        };
        let text = str::to_owned;
        let listed = [
            (text("-home-alice-shop/agent-b2"), text("agent"), 0),
            (text(SESSION), text("transcript"), 1),
        ];
        assert_eq!(ids(&Filter::default()), listed);
        let all = ids(&Filter { all: true, ..Filter::default() });
        assert_eq!(all[0], (text("-home-alice-shop/agent-a1"), text("subagent"), 0));
        assert_eq!(all[1..], listed);
        let status = quipu_ledger::status::status(&home.open(), &home.roots()).unwrap();
        let formats = status.formats.iter().find(|format| format.format == "claude-code").unwrap();
        assert_eq!(formats.subagents, 1);
    }
}

/// A session that ended before its first prompt was read has the name of the queued prompt.
#[test]
fn a_queued_prompt_names_its_session() {
    let queued = "{\"type\":\"queue-operation\",\"operation\":\"enqueue\",\"content\":\"fix the till\",\
                  \"timestamp\":\"2026-01-12T10:29:00.000Z\"}\n";
    let home = Home::quick();
    home.write(MAIN, queued);
    home.sync_and_check();
    let title = || {
        let sessions = list(&home, &Filter::default()).sessions;
        assert_eq!(sessions.len(), 1);
        (sessions[0].title.clone().unwrap(), sessions[0].first_prompt.clone().unwrap())
    };
    assert_eq!(title(), ("fix the till".to_owned(), "fix the till".to_owned()));
    home.append(MAIN, line("user", &uuid(1), None, "fix the till, please"));
    home.sync_and_check();
    assert_eq!(title().1, "fix the till, please");
}

#[test]
fn r40_worktrees_and_windows_folders_have_their_project() {
    let home = home(&[
        claude("-w-1", 1, "/home/x/shop", &["a"]),
        claude("-w-2", 2, "/home/x/shop/.claude/worktrees/blue", &["b"]),
        claude("-w-3", 3, "/home/x/shop-worktrees/green", &["c"]),
        claude("C--Users-x-proj", 4, r"C:\\Users\\x\\proj", &["d"]),
    ]);
    let mut found: Vec<_> = list(&home, &Filter::default())
        .sessions
        .into_iter()
        .map(|session| (session.cwd.unwrap(), session.project))
        .collect();
    found.sort();
    let expected = [
        (r"C:\Users\x\proj", "proj"),
        ("/home/x/shop", "shop"),
        ("/home/x/shop-worktrees/green", "shop"),
        ("/home/x/shop/.claude/worktrees/blue", "shop"),
    ];
    let mut expected = expected.map(|(cwd, project)| (cwd.to_owned(), project.to_owned()));
    expected.sort();
    assert_eq!(found, expected);
    let listed = projects(&home.open(), &Filter::default()).unwrap();
    let mut names: Vec<_> =
        listed.iter().map(|project| (&*project.project, project.sessions)).collect();
    names.sort_unstable();
    assert_eq!(names, [("proj", 1), ("shop", 3)]);
    assert_eq!(of_project(&home, "/home/x/shop"), ["00000001", "00000002", "00000003"]);
    assert_eq!(of_project(&home, "proj"), ["00000004"]);
}

/// The file beside a transcript gives the title, if no line does.
#[test]
fn the_file_with_a_title_names_its_session() {
    let file =
        ".claude/projects/-home-alice-shop/640ab4c7-d010-4b20-a591-b7172ef08e66/custom-title.json";
    let home = of_lines(&[line("user", &uuid(1), None, "go")]);
    let title = || list(&home, &Filter::default()).sessions[0].title.clone();
    home.write(file, r#"{"customTitle":"Blue till"}"#);
    home.sync_and_check();
    assert_eq!(title().as_deref(), Some("Blue till"));
    home.append(MAIN, "{\"type\":\"custom-title\",\"customTitle\":\"Red till\"}\n");
    home.sync_and_check();
    assert_eq!(title().as_deref(), Some("Red till"));
    home.assert_rebuilds();
}
