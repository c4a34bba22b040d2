//! Search results: every word is found, and nothing that was not requested.

use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use quipu_ledger::Error;
use quipu_ledger::search::{Fts5Access, Order, SearchRequest};
use quipu_ledger::wire::SearchHit;
use quipu_transcript::search::query::QueryError;

use crate::home::*;

/// Returns the snippets of the hits, sorted.
#[track_caller]
fn found(home: &Home, text: &str) -> Vec<String> {
    let answer = home.search(&request(text));
    assert_eq!(answer.total, answer.hits.len() as u64, "{text}");
    let mut found: Vec<String> = answer.hits.iter().map(|hit| hit.snippet.clone()).collect();
    found.sort();
    found
}

fn with_content(role: &str, number: u32, content: &str) -> String {
    line_of(role, &uuid(number), None, content)
}

fn with_texts(texts: &[&str]) -> Home {
    let lines: Vec<String> = texts
        .iter()
        .enumerate()
        .map(|(number, text)| {
            let text = serde_json::to_string(text).unwrap();
            line("user", &uuid(number as u32), None, text.trim_matches('"'))
        })
        .collect();
    of_lines(&lines)
}

/// Returns a home with every fixture of both formats, a note and a cron run.
fn everything() -> Home {
    let home = Home::quick();
    home.copy_fixtures();
    home.sync();
    home
}

// --- Every word ----------------------------------------------------------------------------------

#[test]
fn every_word_of_every_message_finds_it() {
    let home = everything();
    let mut pieces: HashMap<String, BTreeSet<i64>> = HashMap::new();
    let conn = home.sql();
    let mut statement = conn
        .prepare(
            "SELECT m.id, m.text FROM message_texts m JOIN entry_rows e ON e.id = m.id
              WHERE e.superseded_by IS NULL",
        )
        .unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let text: String = row.get(1).unwrap();
        for piece in text.split_whitespace().filter(|piece| piece.len() < 200) {
            pieces.entry(piece.to_owned()).or_default().insert(row.get(0).unwrap());
        }
    }
    assert!(pieces.len() > 100, "{}", pieces.len());
    for (piece, entries) in pieces {
        // As a person pastes it, with quotes around it.
        let typed = format!("\"{}\"", piece.replace('"', " "));
        let hits: BTreeSet<i64> =
            home.search(&request(&typed)).hits.iter().map(|hit| hit.entry).collect();
        assert!(entries.is_subset(&hits), "{piece:?} does not find {entries:?}: {hits:?}");
    }
}

#[test]
fn every_word_of_the_index_finds_all_its_entries() {
    let home = everything();
    let conn = home.sql();
    conn.execute_batch("CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, search, instance)")
        .unwrap();
    let mut words: HashMap<String, BTreeSet<i64>> = HashMap::new();
    let mut statement = conn.prepare("SELECT DISTINCT term, doc FROM temp.words").unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        words.entry(row.get(0).unwrap()).or_default().insert(row.get(1).unwrap());
    }
    for (word, entries) in words {
        let request = SearchRequest { order: Order::Newest, ..request(&format!("in:all {word}")) };
        let hits: BTreeSet<i64> = home.search(&request).hits.iter().map(|hit| hit.entry).collect();
        // Of several versions the newest is enough, a file with a call's output counts as its
        // result, and a listed prompt as that of the transcript.
        let missing: Vec<i64> = entries.difference(&hits).copied().collect();
        for entry in missing {
            let newer: Option<i64> = conn
                .query_row(
                    "SELECT coalesce(superseded_by,
                                     (SELECT result FROM tool_call_rows WHERE output = ?1),
                                     (SELECT min(m.id) FROM messages m
                                       WHERE type = 'queue-operation' AND m.session = entries.session
                                         AND m.id > ?1 AND m.role = 'user'),
                                     (SELECT min(m.id) FROM messages m JOIN prompts p
                                          ON replace(m.text, ' ', '') = replace(p.text, ' ', '')
                                       WHERE p.id = ?1 AND m.session = entries.session))
                       FROM entries WHERE id = ?1",
                    [entry],
                    |row| row.get(0),
                )
                .unwrap();
            assert!(newer.is_some_and(|newer| hits.contains(&newer)), "{word} in {entry}");
        }
    }
}

#[test]
fn a75_no_typed_text_is_an_error() {
    let home = with_texts(&["a-b @x \"quoted\" foo_bar NEAR(me) c++", "nothing of it"]);
    let mut runner = TestRunner::new(few_cases(200));
    let (ledger, mut plain) = (home.open(), home.open());
    plain.force_fts5_access(Fts5Access::Plain);
    let typed = prop_oneof![
        ".{0,40}",
        "[a-c\"*():^@ \\-\\\\\0{}+]{0,30}",
        "(NEAR|OR|AND|NOT|prose|rowid|rank|a|b|:|\\(|\\)|\\^|\\*| ){0,12}",
    ];
    runner
        .run(&typed, |typed| {
            match parse(&typed) {
                Ok(query) => {
                    let request = SearchRequest { query, limit: Some(3), ..Default::default() };
                    prop_assert!(quipu_ledger::search::search(&ledger, &request).is_ok());
                    prop_assert!(quipu_ledger::search::search(&plain, &request).is_ok());
                }
                Err(
                    QueryError::Value { .. }
                    | QueryError::Time { .. }
                    | QueryError::Operator { .. },
                ) => {}
                Err(error) => prop_assert!(false, "{error}"),
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn a75_signs_do_not_hide_a_hit() {
    let home = with_texts(&["a-b @x \"quoted\" foo_bar NEAR(me) c++ x==y", "something else"]);
    for typed in [
        "a-b",
        "@x",
        "\"quoted\"",
        "quoted",
        "foo_bar",
        "NEAR(",
        "near(me)",
        "c++",
        "C++",
        "x==y",
        "a\0b",
        "==",
        "++",
        "@",
        "foo_b*",
        "\"a-b @x\"",
        "-absent a-b",
        "-@@@ a",
    ] {
        assert_eq!(home.search(&request(typed)).total, 1, "{typed:?}");
    }
    for typed in ["a-c", "===", "foo_b", "\"b a\"", "a -b", "-== a", "col:x", "a OR"] {
        assert_eq!(home.search(&request(typed)).total, 0, "{typed:?}");
    }
    let parentheses = "(".repeat(5000);
    assert_eq!(home.search(&request(&parentheses)).total, 0);
    assert_eq!(home.search(&request(&format!("a {}", "b ".repeat(20_000)))).total, 1);
}

#[test]
fn scripts_without_spaces_are_found_inside_a_run() {
    let home = with_texts(&["这个会话很长", "세션을 찾다", "résumé ПОИСК"]);
    assert_eq!(found(&home, "会话"), ["这个会话很长"]);
    assert_eq!(found(&home, "세션"), ["세션을 찾다"]);
    assert_eq!(found(&home, "resume поиск"), ["résumé ПОИСК"]);
    assert_eq!(found(&home, "-会话 长"), Vec::<String>::new());
    let answer = home.search(&request("会话"));
    assert_eq!(answer.scanned.unwrap().records, 3);
    assert_eq!(answer.hits[0].marks, [(2, 4)]);
}

// --- Operators -----------------------------------------------------------------------------------

#[test]
fn operators_join_words_as_fts5_does() {
    let home = with_texts(&["red apple", "green apple", "red pear", "green pear 会话", "x == y"]);
    let check =
        |typed: &str, expected: &[&str]| assert_eq!(found(&home, typed), expected, "{typed}");
    check("apple OR pear", &["green apple", "green pear 会话", "red apple", "red pear"]);
    check("red apple OR green pear", &["green pear 会话", "red apple"]);
    check("apple NOT red", &["green apple"]);
    check("red OR green NOT green pear", &["green apple", "red apple", "red pear"]);
    check("apple NOT red OR pear NOT green", &["green apple", "red pear"]);
    check("apple OR pear -red", &["green apple", "green pear 会话"]);
    check("apple AND red", &["red apple"]);
    // Text without words of the index, on any side.
    check("会话 OR ==", &["green pear 会话", "x == y"]);
    check("red apple OR ==", &["red apple", "x == y"]);
    check("green NOT 会话", &["green apple"]);
    check("green NOT pear 会话", &["green apple"]);
    check("green NOT apple 会话", &["green apple", "green pear 会话"]);
    // A filter holds for all sides.
    check("apple OR pear role:assistant", &[]);
    check("apple role:user OR pear", &["green apple", "green pear 会话", "red apple", "red pear"]);
    // FTS5 ranks the same way: a row with both words comes first.
    let both = home.search(&request("red OR apple"));
    assert_eq!(both.hits[0].snippet, "red apple");
}

#[test]
fn an_expression_ignores_case_on_request() {
    let home = with_texts(&["Error 42", "error 43"]);
    let regex = |ignores_case| SearchRequest {
        regex: Some(r"^error \d+".to_owned()),
        ignores_case,
        ..SearchRequest::default()
    };
    assert_eq!((home.search(&regex(false)).total, home.search(&regex(true)).total), (1, 2));
}

// --- Words that are not as typed -----------------------------------------------------------------

/// Returns the snippets in order, each with its variant.
fn variants(home: &Home, request: &SearchRequest) -> Vec<(String, Option<&'static str>)> {
    let hits = home.search(request).hits;
    hits.into_iter().map(|hit| (hit.snippet, hit.variant)).collect()
}

#[test]
fn other_endings_follow_where_the_page_is_not_full() {
    let home = with_texts(&[
        "two errors",
        "an error",
        "it errored",
        "the terror",
        "retry the errors",
        "retried errors",
    ]);
    let limited = |text: &str, limit| SearchRequest { limit: Some(limit), ..request(text) };
    let typed = home.search(&limited("errors", 3));
    assert_eq!((typed.total, typed.with_other_endings, typed.hits.len()), (3, 0, 3));
    assert!(typed.hits.iter().all(|hit| hit.variant.is_none()));
    assert_eq!(typed.work.terms, 0, "a full page needs no other words");
    let more = home.search(&limited("errors", 4));
    assert_eq!((more.total, more.with_other_endings, more.hits.len()), (3, 2, 4));
    let marked: Vec<_> = more.hits.iter().map(|hit| hit.variant).collect();
    assert_eq!(marked, [None, None, None, Some("ending")]);
    let same =
        |one: &SearchHit, other: &SearchHit| (one.entry, one.score) == (other.entry, other.score);
    assert!(typed.hits.iter().zip(&more.hits).all(|(one, other)| same(one, other)));
    // The other word is marked in the text, and all words have to be there.
    let all = home.search(&request("error"));
    assert_eq!((all.total, all.with_other_endings), (1, 4));
    let errored = all.hits.iter().find(|hit| hit.snippet == "it errored").unwrap();
    assert_eq!(errored.marks, [(3, 10)]);
    assert_eq!(
        variants(&home, &request("retries error")),
        [
            ("retried errors".to_owned(), Some("ending")),
            ("retry the errors".to_owned(), Some("ending"))
        ]
    );
    // Both sides of OR; an entry is a hit once.
    let either = home.search(&request("errored OR retried"));
    assert_eq!((either.total, either.with_other_endings), (2, 3));
    // What has to be as typed.
    for typed in ["\"errors\" NOT errors", "erro* NOT errors -error -errored", "\"an errors\""] {
        assert_eq!(home.search(&request(typed)).with_other_endings, 0, "{typed}");
    }
    let excluded = home.search(&request("errored -error"));
    assert_eq!((excluded.total, excluded.with_other_endings), (1, 3));
    let exact = SearchRequest { exact: Some("errors".to_owned()), ..SearchRequest::default() };
    assert_eq!(home.search(&exact).with_other_endings, 0);
}

#[test]
fn a_word_without_a_hit_offers_the_nearest() {
    let home = with_texts(&["search the ledger", "searchable", "sea", "serac of ice"]);
    let nearest = |typed: &str| -> Vec<(String, u64)> {
        let answer = home.search(&request(typed));
        answer.nearest.into_iter().map(|near| (near.word, near.entries)).collect()
    };
    assert_eq!(nearest("serach"), [("serac".to_owned(), 1)]);
    assert_eq!(nearest("saerch ledger"), []);
    assert_eq!(nearest("searhc"), [("search".to_owned(), 1)]);
    assert_eq!(nearest("ledgre missing"), [("ledger".to_owned(), 1)]);
    assert_eq!(nearest("search missing"), []);
    assert_eq!(nearest("xy"), []);
}

#[test]
fn looking_for_other_words_is_bounded() {
    let words: Vec<String> = (0..30_000).map(|number| format!("se{number:x}")).collect();
    let texts: Vec<String> = words.chunks(1000).map(|words| words.join(" ")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let home = with_texts(&texts);
    let answer = home.search(&request("sezzzz"));
    assert!((1..=40_000).contains(&answer.work.terms), "{:?}", answer.work);
}

#[test]
fn entries_with_the_same_signs_come_first() {
    let home = with_texts(&[
        "foo bar foo bar",
        "foo-bar foo bar foo_bar",
        "foo_bar",
        "FOO_BAR is not foo",
    ]);
    let answer = home.search(&request("foo_bar"));
    assert_eq!((answer.total, answer.as_typed, answer.is_at_most), (4, Some(3), false));
    let shown: Vec<_> = answer.hits.iter().map(|hit| (hit.snippet.as_str(), hit.variant)).collect();
    assert_eq!(shown[3], ("foo bar foo bar", Some("signs")));
    assert!(shown[..3].iter().all(|(_, variant)| variant.is_none()), "{shown:?}");
    let newest = SearchRequest { order: Order::Newest, ..request("foo_bar") };
    assert_eq!(home.search(&newest).hits[3].snippet, "foo bar foo bar");
    assert_eq!(home.search(&request("foo bar")).as_typed, None);
}

#[test]
fn only_the_candidates_that_a_page_needs_are_compared() {
    let texts: Vec<String> = (0..1500).map(|number| format!("c {number} c++ is a c")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let home = with_texts(&texts);
    let page = |text: &str| home.search(&SearchRequest { limit: Some(20), ..request(text) });
    let found = page("C++");
    assert_eq!((found.hits.len(), found.total, found.is_at_most), (20, 1500, true));
    assert_eq!((found.as_typed, found.work.compared), (None, 32));
    // Signs that no entry holds: a bounded number is read, and the letters are found.
    let absent = page("c#");
    assert_eq!((absent.hits.len(), absent.is_at_most, absent.work.compared), (20, true, 1000));
    assert!(absent.hits.iter().all(|hit| hit.variant == Some("signs")));
    assert_eq!(page("c").work.compared, 0);
}

// --- Filters -------------------------------------------------------------------------------------

#[test]
fn a_file_is_found_by_a_path_of_any_length() {
    let path = format!("/{}/src/lib.rs", "deep/folder".repeat(40));
    let call = serde_json::json!([{"type": "tool_use", "id": "t1", "name": "Read",
                                   "input": {"file_path": path}}]);
    let home = of_lines(&[with_content("assistant", 1, &call.to_string())]);
    home.sync();
    assert_eq!(home.search(&request("file:src/lib.rs")).hits.len(), 1);
    assert_eq!(home.search(&request("file:folder/src/lib.rs")).hits.len(), 1);
}

#[test]
fn filters_select_what_they_name() {
    let result = |error| {
        format!(
            r#"[{{"type":"tool_result","tool_use_id":"t1","is_error":{error},"content":"needle in a result"}}]"#
        )
    };
    let call = r#"[{"type":"thinking","thinking":"needle in mind"},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"grep needle src/auth.ts"}}]"#;
    let home = of_lines(&[
        line("user", &uuid(1), None, "needle of the human"),
        with_content("assistant", 2, call)
            .replace("\"parentUuid\":null", &format!("\"parentUuid\":\"{}\"", uuid(1))),
        with_content("user", 3, &result("true"))
            .replace("\"parentUuid\":null", &format!("\"parentUuid\":\"{}\"", uuid(2))),
        line("assistant", &uuid(4), Some(&uuid(3)), "needle of the agent")
            .replace("2026-01-12T10:30", "2026-03-12T10:30"),
        line("user", &uuid(5), None, "another needle")
            .replace("2026-01-12T10:30", "2026-03-13T10:30"),
    ]);
    home.write(
        ".openclaw/agents/work/sessions/s1.jsonl",
        "{\"type\":\"session\",\"version\":3,\"id\":\"s1\",\"timestamp\":\"2026-02-04T10:30:00.000Z\",\"cwd\":\"/srv/claw\"}\n\
         {\"type\":\"message\",\"id\":\"a\",\"parentId\":null,\"timestamp\":\"2026-02-04T10:31:00.000Z\",\"message\":{\"role\":\"user\",\"content\":\"claw needle\"}}\n\
         {\"type\":\"compaction\",\"id\":\"b\",\"parentId\":\"a\",\"timestamp\":\"2026-02-04T10:32:00.000Z\",\"summary\":\"short\",\"firstKeptEntryId\":\"a\",\"tokensBefore\":5}\n",
    );
    home.sync();
    let human = "needle of the human";
    let call = "Bash grep needle src/auth.ts";
    let result = "needle in a result";
    let agent = "needle of the agent";
    let (other, claw) = ("another needle", "claw needle");
    let check = |filters: &str, expected: &[&str]| {
        let mut expected: Vec<&str> = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(found(&home, &format!("needle {filters}")), expected, "{filters}");
    };
    check("", &[human, call, result, agent, other, claw]);
    check("role:user", &[human, other, claw]);
    check("role:assistant", &[call, agent]);
    check("role:tool", &[result]);
    check("role:user role:tool", &[human, other, claw, result]);
    check("-role:user", &[call, result, agent]);
    check("tool:bash", &[call, result]);
    check("tool:ba*", &[call, result]);
    check("-tool:Bash", &[human, agent, other, claw]);
    check("is:error", &[result]);
    check("-is:error in:result", &[]);
    check("file:src/auth.ts", &[human, call, result, agent]);
    check("project:shop", &[human, call, result, agent, other]);
    check("-project:shop", &[claw]);
    check("project:/srv/claw", &[claw]);
    check("agent:work", &[claw]);
    check("format:claude", &[human, call, result, agent, other]);
    check("session:s1", &[claw]);
    check("has:compaction", &[claw]);
    check("since:2026-02-01", &[agent, other, claw]);
    check("until:2026-02-04", &[human, call, result, claw]);
    check("since:2026-02-01 until:2026-03-12", &[agent, claw]);
    check("in:thinking", &["needle in mind"]);
    check("in:all role:assistant", &[call, agent]);
    check("in:input", &[call]);
    check("in:result", &[result]);
    check("in:text", &[human, agent, other, claw]);
    check("in:notes", &[]);
    check("in:text -of", &[other, claw]);
    // Without words: the calls themselves, and everything that passes the filters.
    assert_eq!(found(&home, "file:auth.ts"), ["Bash grep needle src/auth.ts"]);
    assert_eq!(found(&home, "file:auth.ts is:error"), [result]);
    assert_eq!(found(&home, "is:error"), [result]);
    assert_eq!(found(&home, "in:text role:assistant"), [agent]);
    assert_eq!(found(&home, "in:thinking project:shop"), ["needle in mind"]);
    assert_eq!(home.search(&request("role:user")).hits[0].snippet, other, "the newest first");
    // Hits only in the model's reasoning are counted.
    let answer = home.search(&request("mind"));
    assert_eq!((answer.total, answer.gaps.in_thinking), (0, 1));
    // A call has its tool, a result its outcome.
    let hit = |text: &str| -> SearchHit { home.search(&request(text)).hits[0].clone() };
    let shown = hit("needle in:result");
    assert_eq!(
        (shown.tool.as_deref(), shown.is_error, shown.turn_number),
        (Some("Bash"), true, Some(1))
    );
    assert_eq!(hit("another").turn_number, Some(2));
    assert_eq!(hit("claw").turn_number, Some(1));
    // Newest first shows the requested places, too.
    let newest = |text: &str| {
        let request = SearchRequest { order: Order::Newest, limit: Some(5), ..request(text) };
        home.search(&request).hits.into_iter().map(|hit| hit.place).collect::<Vec<_>>()
    };
    assert_eq!(newest("needle in:result"), ["result"]);
    assert_eq!(newest("needle in:input"), ["input"]);
    assert_eq!(newest("needle in:thinking"), ["thinking"]);
    assert_eq!(newest("needle in:text"), ["text"; 4]);
}

#[test]
fn notes_jobs_and_prompts_belong_to_no_session() {
    let home = Home::quick();
    home.write(".openclaw/workspace/MEMORY.md", "Alice drinks tea.\n");
    home.write(
        ".openclaw/cron/runs/5145dbcf.jsonl",
        "{\"timestamp\":\"2026-01-31T07:30:00.000Z\",\"jobId\":\"5145dbcf\",\"action\":\"finished\",\"status\":\"ok\",\"summary\":\"Made tea\"}\n",
    );
    home.sync();
    home.write(".openclaw/workspace/MEMORY.md", "Alice drinks tea at five.\n");
    home.sync();
    assert_eq!(found(&home, "tea"), ["Alice drinks tea at five.", "Made tea"]);
    assert_eq!(found(&home, "tea in:notes"), ["Alice drinks tea at five."]);
    assert_eq!(found(&home, "tea in:cron"), ["Made tea"]);
    assert_eq!(found(&home, "tea in:notes in:cron").len(), 2);
    assert_eq!(found(&home, "tea agent:main"), ["Alice drinks tea at five."]);
    assert_eq!(found(&home, "tea agent:other"), Vec::<String>::new());
    assert_eq!(found(&home, "tea format:openclaw").len(), 2);
    let hits = home.search(&request("tea in:notes")).hits;
    assert_eq!((hits[0].session_id.as_deref(), hits[0].name.as_deref()), (None, Some("MEMORY.md")));
    assert!(hits[0].time.is_some() && !hits[0].is_older);
}

// --- Versions and copies -------------------------------------------------------------------------

#[test]
fn of_several_versions_one_is_a_hit() {
    let home = with_texts(&["zero"]);
    home.write(
        MAIN,
        [line("user", &uuid(1), None, "draft alpha"), line("user", &uuid(1), None, "draft beta")]
            .concat(),
    );
    home.sync();
    assert_eq!(found(&home, "draft"), ["draft beta"]);
    let answer = home.search(&request("alpha"));
    assert!(answer.total == 1 && answer.hits[0].is_older, "text of an older version is found");
    assert_eq!(
        home.search(&SearchRequest { exact: Some("draft".to_owned()), ..Default::default() }).total,
        1
    );
    // A copy in the same session is a sighting; in a fork it is an entry of its own.
    let copy = [line("user", &uuid(1), None, "draft beta")].concat();
    home.write(&MAIN.replace("640ab4c7", "740ab4c7"), copy);
    home.sync();
    assert_eq!(found(&home, "draft"), ["draft beta", "draft beta"]);
    let exact = SearchRequest { exact: Some("draft beta".to_owned()), ..Default::default() };
    assert_eq!(home.search(&exact).total, 2);
}

#[test]
fn archived_gone_and_sub_agents_are_found_and_marked() {
    let home = everything();
    home.write(".openclaw/agents/main/sessions/s9.jsonl.deleted.2026-02-04T10-30-00.000Z",
        "{\"type\":\"session\",\"version\":3,\"id\":\"s9\",\"timestamp\":\"2026-02-04T10:30:00.000Z\",\"cwd\":\"/p\"}\n\
         {\"type\":\"message\",\"id\":\"a\",\"parentId\":null,\"timestamp\":\"2026-02-04T10:31:00.000Z\",\"message\":{\"role\":\"user\",\"content\":\"xylophone\"}}\n");
    home.write(MAIN, line("user", &uuid(1), None, "xylophone, too"));
    home.write(
        ".claude/projects/-home-alice-shop/640ab4c7-d010-4b20-a591-b7172ef08e66/subagents/agent-a1.jsonl",
        line("user", &uuid(2), None, "xylophone for you"),
    );
    home.sync();
    home.remove(MAIN);
    home.sync();
    let mut marks: Vec<(String, String)> = home
        .search(&request("xylophone"))
        .hits
        .into_iter()
        .map(|hit| (hit.state.unwrap().to_string(), hit.part.unwrap()))
        .collect();
    marks.sort();
    let expected = [("deleted", "transcript"), ("gone", "transcript"), ("live", "subagent")];
    assert_eq!(marks, expected.map(|(state, part)| (state.to_owned(), part.to_owned())));
}

// --- Without the index ---------------------------------------------------------------------------

fn exact(text: &str) -> SearchRequest {
    SearchRequest { exact: Some(text.to_owned()), ..Default::default() }
}

fn regex(text: &str) -> SearchRequest {
    SearchRequest { regex: Some(text.to_owned()), ..Default::default() }
}

#[test]
fn exact_text_and_expressions_are_found() {
    let blob = "QUJD".repeat(400);
    let long = format!("{} tail-end", "filler ".repeat(200_000));
    let home = with_texts(&[
        "let x = a[1];\n\"quoted\" tab\there",
        &blob,
        &long,
        "release v1.20 and v2.0",
    ]);
    let total = |request: &SearchRequest| home.search(request).total;
    assert_eq!(total(&exact("a[1];\n\"quoted\" tab\t")), 1);
    assert_eq!(total(&exact("A[1]")), 0, "`--exact` is case-sensitive");
    assert_eq!(total(&exact("QUJDQUJD")), 1, "base64 is found, although it is not indexed");
    assert_eq!(total(&exact("tail-end")), 1, "text beyond the index limit is found");
    assert_eq!(total(&request("tail")), 0);
    assert_eq!(home.search(&request("filler")).gaps.partly_indexed, 1);
    assert_eq!(home.search(&exact("filler")).gaps.partly_indexed, 0);
    let answer = home.search(&regex(r"v\d+\.\d+"));
    assert_eq!(answer.total, 1);
    assert_eq!(answer.hits[0].marks, [(8, 13), (18, 22)]);
    assert_eq!(answer.scanned.unwrap().records, 4);
    assert_eq!(total(&regex(r"^release")), 1);
    assert_eq!(total(&regex("")), 4);
    // Words and filters narrow it down.
    let both = SearchRequest { query: parse("release").unwrap(), ..regex(r"\d") };
    assert_eq!(home.search(&both).scanned.unwrap().records, 1);
    let none = SearchRequest { query: parse("project:nowhere").unwrap(), ..regex(r"\d") };
    assert_eq!(home.search(&none).total, 0);
    let here = SearchRequest { query: parse("project:shop role:user").unwrap(), ..regex(r"v\d") };
    assert_eq!(home.search(&here).total, 1);
}

#[test]
fn a76_expressions_are_bounded() {
    let home = with_texts(&[&"a".repeat(100_000)]);
    assert_eq!(home.search(&regex("(a+)+$")).total, 1);
    for wrong in ["(", "a{1000000}{1000000}", &"(".repeat(5000), &"(a|b)*c{900}".repeat(10_000)] {
        let error = quipu_ledger::search::search(&home.open(), &regex(wrong)).unwrap_err();
        assert!(matches!(error, Error::Pattern { .. }), "{error:?}");
    }
}

#[test]
fn lines_longer_than_a_chunk_are_scanned() {
    let home = with_texts(&["before"]);
    let long = format!("{} needle {}", "x".repeat(1_500_000), "y ".repeat(700_000));
    home.append(MAIN, line("user", &uuid(7), None, &long));
    home.append(MAIN, line("user", &uuid(8), None, "after the needle"));
    home.sync();
    let answer = home.search(&exact("needle"));
    assert_eq!(answer.total, 2);
    assert!(answer.hits.iter().all(|hit| hit.snippet.contains("needle")));
}

// --- Gaps are reported ---------------------------------------------------------------------------

#[test]
fn a_damaged_index_is_an_error_and_not_an_empty_answer() {
    let home = with_texts(&["needle in a haystack", "another needle"]);
    for damage in [
        "UPDATE search_data SET block = x'00' WHERE id = 10",
        "UPDATE search_data SET block = zeroblob(20) WHERE id > 100",
        "UPDATE search_data SET block = substr(block, 1, length(block) / 2) WHERE id > 100",
        "DELETE FROM search_data WHERE id = 10",
        "DELETE FROM search_data WHERE id > 100",
    ] {
        let conn = home.sql();
        conn.execute(damage, []).unwrap();
        let error = quipu_ledger::search::search(&home.open(), &request("needle"));
        assert!(matches!(error, Err(Error::SearchIndex { .. })), "{damage}: {error:?}");
        quipu_ledger::rebuild::rebuild(&mut home.open(), &mut |_, _| {}).unwrap();
        assert_eq!(home.search(&request("needle")).total, 2);
    }
    home.sql().execute("UPDATE search_config SET v = 9 WHERE k = 'version'", []).unwrap();
    let error = quipu_ledger::search::search(&home.open(), &request("needle"));
    assert!(matches!(error, Err(Error::SearchIndex { .. })), "{error:?}");
}

#[test]
fn records_that_are_not_indexed_yet_are_reported() {
    let home = with_texts(&["one", "two", "three"]);
    let all: i64 = home.one("SELECT projected_to FROM ledger");
    home.sql().execute("UPDATE ledger SET projected_to = ?1", [all - 2]).unwrap();
    assert_eq!(home.search(&request("one")).gaps.unprojected, 2);
}

#[test]
fn a_hit_has_the_entries_around_it() {
    let home = with_texts(&["one", "two", "three", "four", "five"]);
    let answer = home.search(&SearchRequest { around: 1, ..request("three") });
    let around: Vec<(bool, &str)> =
        answer.hits[0].around.iter().map(|near| (near.is_before, near.text.as_str())).collect();
    assert_eq!(around, [(true, "two"), (false, "four")]);
}

#[test]
fn the_unterminated_end_of_a_file_is_found() {
    let home = with_texts(&["one"]);
    home.append(MAIN, line("user", &uuid(5), None, "waiting needle").trim_end());
    home.sync();
    std::fs::File::options()
        .append(true)
        .open(home.path(MAIN))
        .unwrap()
        .set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(3600))
        .unwrap();
    home.sync();
    assert_eq!(found(&home, "needle"), ["waiting needle"]);
    assert_eq!(home.search(&exact("needle")).total, 1);
    assert_eq!(home.search(&SearchRequest { order: Order::Newest, ..request("needle") }).total, 1);
}

/// The newest hits of a frequent word are the same with both methods: by a set of entries, or by
/// the time of each.
#[test]
fn newest_first_is_by_time_for_any_number_of_hits() {
    let home = Home::quick();
    for session in 1..=30_u32 {
        let mut lines = String::new();
        for number in 0..200_u32 {
            let minute = (session * 7 + number * 11) % 60;
            let day = 1 + (session * 13 + number / 50) % 28;
            let uuid = format!("{session:08}-0000-4000-8000-{number:012}");
            lines.push_str(&format!(
                "{{\"type\":\"user\",\"uuid\":\"{uuid}\",\"timestamp\":\"2026-10-{day:02}T10:{minute:02}:00Z\",\"message\":{{\"role\":\"user\",\"content\":\"common word{number}\"}}}}\n"
            ));
        }
        let path = format!(".claude/projects/-p/{session:08}-0000-4000-8000-000000000001.jsonl");
        home.write(&path, lines);
    }
    home.sync();
    let ledger = home.open();
    let ask = |words: &str, limit: Option<usize>| {
        home.search(&SearchRequest { order: Order::Newest, limit, ..request(words) })
    };
    let all = ask("common", None);
    assert_eq!((all.total, all.hits.len()), (6000, 6000));
    assert!(all.hits.windows(2).all(|pair| pair[0].time >= pair[1].time));
    let first = ask("common", Some(50));
    let numbers = |hits: &[SearchHit]| -> Vec<i64> { hits.iter().map(|hit| hit.entry).collect() };
    assert_eq!(first.total, 6000);
    assert_eq!(numbers(&first.hits), numbers(&all.hits)[..50]);
    // Filters need the list of postings.
    assert_eq!(numbers(&ask("common role:user", Some(50)).hits), numbers(&first.hits));
    // One by one, until the caller stops.
    let mut heard = 0;
    quipu_ledger::search::search_each(&ledger, &request("common"), &mut |total, _| {
        assert_eq!(total, 6000);
        heard += 1;
        if heard == 3 {
            std::ops::ControlFlow::Break(())
        } else {
            std::ops::ControlFlow::Continue(())
        }
    })
    .unwrap();
    assert_eq!(heard, 3);
}

/// The prompt of a sub-agent may name a file, but it uses none. Commands do.
#[test]
fn the_prompt_of_a_sub_agent_is_no_file() {
    let call = |id: &str, name: &str, input: &str| {
        format!(r#"[{{"type":"tool_use","id":"{id}","name":"{name}","input":{{{input}}}}}]"#)
    };
    let agent = call("t1", "Agent", r#""prompt":"look at src/owl.rs and tell""#);
    let started = line_of(
        "user",
        &uuid(3),
        Some(&uuid(2)),
        r#"[{"type":"tool_result","tool_use_id":"t1","content":"done"}]"#,
    )
    .replacen("{", r#"{"toolUseResult":{"agentId":"a1"},"#, 1);
    let home = of_lines(&[
        line("user", &uuid(1), None, "go"),
        line_of("assistant", &uuid(2), Some(&uuid(1)), &agent),
        started,
        line_of(
            "assistant",
            &uuid(4),
            Some(&uuid(3)),
            &call("t2", "Bash", r#""command":"cat src/owl.rs""#),
        ),
        line_of(
            "assistant",
            &uuid(5),
            Some(&uuid(4)),
            &call("t3", "Read", r#""file_path":"/w/src/owl.rs""#),
        ),
    ]);
    let tools: Vec<_> =
        home.search(&request("file:src/owl.rs")).hits.into_iter().map(|hit| hit.tool).collect();
    let tools: Vec<&str> = tools.iter().flatten().map(String::as_str).collect();
    assert_eq!(tools, ["Read", "Bash"]);
}
