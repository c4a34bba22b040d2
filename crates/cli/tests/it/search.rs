//! `quipu search`.

use crate::home::*;

const SHOP: &str = ".claude/projects/-home-alice-shop/640ab4c7-d010-4b20-a591-b7172ef08e66.jsonl";

/// Creates a home with a session (a prompt, a failed call, an answer), a note, a run of a job, and
/// an archived session of OpenClaw.
fn home() -> Home {
    let home = Home::empty();
    let common = r#""cwd":"/home/alice/shop","sessionId":"640ab4c7-d010-4b20-a591-b7172ef08e66","version":"2.1.0""#;
    let lines = [
        format!(
            r#"{{"type":"user","uuid":"00000001-0000-4000-8000-000000000000","parentUuid":null,"timestamp":"2026-01-12T10:30:00.000Z",{common},"message":{{"role":"user","content":"Why does the checkout time out?"}}}}"#
        ),
        format!(
            r#"{{"type":"assistant","uuid":"00000002-0000-4000-8000-000000000000","parentUuid":"00000001-0000-4000-8000-000000000000","timestamp":"2026-01-12T10:30:05.000Z",{common},"message":{{"id":"m1","role":"assistant","content":[{{"type":"thinking","thinking":"Perhaps the gateway is slow."}},{{"type":"tool_use","id":"t1","name":"Bash","input":{{"command":"curl -m 5 https://pay.example/checkout"}}}}]}}}}"#
        ),
        format!(
            r#"{{"type":"user","uuid":"00000003-0000-4000-8000-000000000000","parentUuid":"00000002-0000-4000-8000-000000000000","timestamp":"2026-01-12T10:30:11.000Z",{common},"message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"curl: (28) Operation timed out after 5001 ms\n\u001b[31mwith 0 bytes received from checkout\u001b[0m"}}]}}}}"#
        ),
        format!(
            r#"{{"type":"assistant","uuid":"00000004-0000-4000-8000-000000000000","parentUuid":"00000003-0000-4000-8000-000000000000","timestamp":"2026-01-12T10:30:20.000Z",{common},"message":{{"id":"m2","role":"assistant","content":[{{"type":"text","text":"The payment gateway does not answer. I raised the limit of the checkout to thirty seconds and added a retry, so that a slow gateway no longer fails an order."}}]}}}}"#
        ),
    ];
    home.write(SHOP, lines.join("\n") + "\n");
    home.write(".openclaw/workspace/MEMORY.md", "Alice runs a shop. The checkout is hers.\n");
    home.write(
        ".openclaw/cron/runs/5145dbcf.jsonl",
        "{\"timestamp\":\"2026-01-31T07:30:00.000Z\",\"jobId\":\"5145dbcf\",\"action\":\"finished\",\"status\":\"ok\",\"summary\":\"The checkout is up\"}\n",
    );
    home.write(
        ".openclaw/agents/main/sessions/s9.jsonl.deleted.2026-02-04T10-30-00.000Z",
        "{\"type\":\"session\",\"version\":3,\"id\":\"s9\",\"timestamp\":\"2026-02-04T10:30:00.000Z\",\"cwd\":\"/home/alice/bot\"}\n\
         {\"type\":\"message\",\"id\":\"a1b2c3d4\",\"parentId\":null,\"timestamp\":\"2026-02-04T10:31:00.000Z\",\"message\":{\"role\":\"user\",\"content\":\"Tell me when the checkout is down\"}}\n",
    );
    home
}

#[test]
fn hits_are_grouped_by_session() {
    let home = home();
    home.run("sync");
    snapshot!(home.run("search checkout"), @"
    exit 0
    --- stdout
    Scheduled job 5145dbcf
    OpenClaw · 2026-01-31
      [MINUTE]
        The checkout is up
      quipu cron 5145dbcf

    Why does the checkout time out?
    640ab4c7 · /home/alice/shop · Claude Code · 2026-01-12
      turn 1 · user · [MINUTE]
        Why does the checkout time out?
        quipu show 640ab4c7 --at 00000001-0000-4000-8000-000000000000
      turn 1 · Bash call · [MINUTE]
        Bash curl -m 5 https://pay.example/checkout
        quipu show 640ab4c7 --at 00000002-0000-4000-8000-000000000000
      turn 1 · Bash result · failed · [MINUTE]
        curl: (28) Operation timed out after 5001 ms
        with 0 bytes received from checkout
        quipu show 640ab4c7 --at 00000003-0000-4000-8000-000000000000
      turn 1 · assistant · [MINUTE]
        The payment gateway does not answer. I raised the limit of the checkout to thirty seconds and added a retry, so that a slow gateway no longer fails an order.
        quipu show 640ab4c7 --at 00000004-0000-4000-8000-000000000000

    Tell me when the checkout is down [deleted]
    s9 · /home/alice/bot · OpenClaw · 2026-02-04
      turn 1 · user · [MINUTE]
        Tell me when the checkout is down
        quipu show s9 --at a1b2c3d4

    Note MEMORY.md
    OpenClaw · 10 days ago
      [MINUTE]
        Alice runs a shop. The checkout is hers.
      quipu notes MEMORY.md

    7 hits for checkout
    ");
}

#[test]
fn narrow_terminals_get_narrow_lines() {
    let home = home();
    home.run("sync");
    let run = home.run_with("search checkout gateway", &[("COLUMNS", "40")]);
    let is_command = |line: &str| line.trim_start().starts_with("quipu ");
    let fits = |line: &str| line.chars().count() <= 40 || is_command(line);
    assert!(run.stdout.lines().all(fits), "{run}");
    snapshot!(run, @"
    exit 0
    --- stdout
    Why does the checkout time out?
    640ab4c7 · /home/alice/shop
    Claude Code · 2026-01-12
      turn 1 · assistant · [MINUTE]
        The payment gateway does not answer.
        I raised the limit of the checkout
        to thirty seconds and added a retry,
        so that a slow gateway no longer
        fails an order.
        quipu show 640ab4c7 --at 00000004-0000-4000-8000-000000000000

    1 hit for checkout AND gateway
    ");
}

/// A shell removes the quotes of `since:"last week"`; and sessions of an agent are chosen with the
/// same option as elsewhere.
#[test]
fn filters_are_what_one_would_type() {
    let home = home();
    home.run("sync");
    let words = |words: &[&str]| {
        let run = home.finish(home.command([&["search"], words].concat()));
        (run.code, run.stdout.lines().last().unwrap_or_default().to_owned())
    };
    let (code, last) = words(&["checkout", "since:2 years ago", "-n", "1"]);
    assert!(code == 0 && last.contains("for checkout, since 20"), "{last}");
    assert_eq!(words(&["checkout", "-since:2 years ago"]).0, 1);
    let (code, last) = words(&["checkout", "--agent", "Claude Code"]);
    assert_eq!((code, last.as_str()), (0, "4 hits for checkout, agent:Claude Code"));
    assert_eq!(words(&["checkout", "--agent", "openclaw/helper"]).0, 1);
    let run = home.finish(home.command(["search", "note:last week"]));
    assert_eq!(run.code, 1, "text: {run}");
}

#[test]
fn json_is_one_object_per_hit() {
    let home = home();
    home.run("sync");
    snapshot!(home.run("search --json --no-sync \"timed\""), @r#"
    exit 0
    --- stdout
    {"session_id":"640ab4c7-d010-4b20-a591-b7172ef08e66","entry_id":"00000003-0000-4000-8000-000000000000","entry":3,"type":"user","role":"tool","time":1768213811000,"snippet":"curl: (28) Operation timed out after 5001 ms\nwith 0 bytes received from checkout","marks":[[21,26]],"is_cut_before":false,"is_cut_after":false,"place":"result","tool":"Bash","is_error":true,"is_older":false,"folded":null,"turn_number":1,"format":"claude-code","agent":null,"title":"Why does the checkout time out?","project":"shop","slug":"-home-alice-shop","cwd":"/home/alice/shop","part":"transcript","state":"live","parent_session_id":null,"name":null,"score":1.3228910511940701,"variant":null,"total_hits":1,"fresh_as_of":"[TIME]","pending_bytes":null}
    "#);
    let hits = home.run("search --json --recent -n 2 checkout").json_lines();
    assert_eq!(hits.len(), 2);
    for hit in &hits {
        assert_eq!(hit["total_hits"], 7);
        for field in
            ["session_id", "entry_id", "role", "time", "snippet", "fresh_as_of", "pending_bytes"]
        {
            assert!(hit.get(field).is_some(), "{field}");
        }
    }
    assert_eq!(hits[0]["session_id"], "s9");
}

#[test]
fn entries_around_a_hit_are_shown() {
    let home = home();
    home.run("sync");
    snapshot!(home.run("search -C 1 \"timed\""), @r#"
    exit 0
    --- stdout
    Why does the checkout time out?
    640ab4c7 · /home/alice/shop · Claude Code · 2026-01-12
      assistant: Bash curl -m 5 https://pay.example/checkout
      turn 1 · Bash result · failed · [MINUTE]
        curl: (28) Operation timed out after 5001 ms
        with 0 bytes received from checkout
      assistant: The payment gateway does not answer. I raised the limit of the checkout to thirty seconds and added a retry, so that a slow gateway no longer fails an order.
        quipu show 640ab4c7 --at 00000003-0000-4000-8000-000000000000

    1 hit for "timed"
    "#);
}

/// The last line is the query as it was understood, and hits that differ from it are marked.
#[test]
fn the_query_is_printed_as_it_was_understood() {
    let home = home();
    home.run("sync");
    let last = |words: &[&str]| -> String {
        let run = home.finish(home.command(["search"].iter().chain(words)));
        assert_eq!(run.code, 0, "{run}");
        run.stdout.lines().last().unwrap().to_owned()
    };
    assert_eq!(
        last(&["gateway OR out -thirty role:user in:text since:2026-01-12"]),
        "1 hit for gateway OR out, not thirty, role:user, since 2026-01-12 00:00, in:text"
    );
    assert_eq!(last(&["checkout NOT down"]), "6 hits for checkout NOT down");
    assert_eq!(last(&["timeds"]), "no hits for timeds; 1 with other endings");
    assert_eq!(last(&["-n", "1", "timed"]), "1 hit for timed");
    assert_eq!(last(&["m.5"]), "1 hit for m.5, 0 with these signs");
    assert_eq!(
        last(&["--regex", "-i", "CURL: .*", "--since", "2026-01-01"]),
        last(&["--regex", "CURL: .*", "-i", "--since", "2026-01-01"]),
        "the option may come first"
    );
    assert_eq!(
        last(&["--regex", "CURL: .*", "-i", "--since", "2026-01-01"]),
        "1 hit for --regex CURL: .* -i, since 2026-01-01 00:00; searched the text of 8 records, 2.13 kB"
    );
    let run = home.run("search timed");
    assert!(run.stdout.contains("  turn 1 · user · other ending · "), "{run}");
    let run = home.run("search m.5");
    assert!(run.stdout.contains("  turn 1 · Bash call · other signs · "), "{run}");
    snapshot!(home.run("search chekcout"), @"
    exit 1
    --- stderr
    error: no hits
    hint: no entry has `chekcout`; did you mean `checkout`, which is in 7 entries?
    ");
    snapshot!(home.run("search role:user OR tool:Bash"), @"
    exit 2
    --- stderr
    error: `OR` joins words, and a filter holds for the whole query
    hint: filters of one kind are alternatives: `role:user role:tool` finds both
    ");
}

#[test]
fn no_hits_are_exit_code_1() {
    let home = home();
    home.run("sync");
    snapshot!(home.run("search nowhere"), @"
    exit 1
    --- stderr
    error: no hits
    hint: words match as a whole; `word*` also finds longer words, --exact any part of a word
    ");
    snapshot!(home.run("search perhaps"), @"
    exit 1
    --- stderr
    error: no hits
    hint: 1 hit in the model's reasoning, which is not searched by default: add in:thinking
    ");
    snapshot!(home.run("search --exact zzz"), @"
    exit 1
    --- stderr
    error: no hits
    hint: searched the text of 8 records, 2.13 kB
    ");
    snapshot!(home.run("search --json nowhere"), @r#"
    exit 1
    --- stderr
    {"error":"no_match","message":"no hits","hint":"words match as a whole; `word*` also finds longer words, --exact any part of a word","fresh_as_of":"[TIME]","pending_bytes":0}
    "#);
}

#[test]
fn an_invalid_query_is_exit_code_2() {
    let home = home();
    home.run("sync");
    snapshot!(home.run("search role:human checkout"), @r#"
    exit 2
    --- stderr
    error: `role:human` is not a valid filter; role: accepts user, assistant, tool, system
    hint: to search for text with a colon, quote it: '"role:x"'
    "#);
    snapshot!(home.run("search --regex ( checkout"), @"
    exit 2
    --- stderr
    error: the pattern cannot be used: unclosed group
    hint: use --exact to search for plain text
    ");
    snapshot!(home.run("search"), @"
    exit 2
    --- stderr
    error: nothing to search for
    hint: `quipu search WORDS` searches all sessions; see `quipu search --help`
    ");
}

#[test]
fn filters_and_options_give_the_same_hits() {
    let home = home();
    home.run("sync");
    let found = |arguments: &str| home.run(arguments).json_lines().len();
    assert_eq!(found("search --json checkout project:shop"), 4);
    assert_eq!(found("search --json checkout --project shop"), 4);
    assert_eq!(found("search --json checkout --since 2026-02-01"), 1);
    assert_eq!(found("search --json checkout until:2026-01-31"), 5);
    assert_eq!(found("search --json checkout -gateway"), 6);
    assert_eq!(found("search --json -gateway checkout"), 6);
    assert_eq!(found("search --json --all checkout"), 7);
    assert_eq!(found("search --json checkout -n 2"), 2);
    assert_eq!(found("search checkout -n3 --json"), 3);
    assert_eq!(home.run("search checkout -C 1").code, 0);
    assert_eq!(home.run("search checkout -n many").code, 2);
    assert_eq!(home.run("search checkout -x").code, 2);
    assert_eq!(found("--color never search -gateway --json checkout -retry"), 6);
    assert_eq!(found("search checkout -project:shop --json"), 3);
    assert_eq!(found("search --json --regex [0-9]{4} project:shop"), 1);
    assert_eq!(found("search --json --exact -m"), 1);
    assert_eq!(found("search --json in:notes checkout"), 1);
    // Hits that are sorted by time already need no hint about --recent.
    assert!(home.run("search checkout -n 1").stdout.contains("--recent"));
    for by_time in ["search role:user -n 1", "search --recent checkout -n 1"] {
        assert!(!home.run(by_time).stdout.contains("--recent"), "{by_time}");
    }
}

#[test]
fn a_hit_in_a_title_is_labelled() {
    let home = home();
    let title = r#"{"type":"ai-title","aiTitle":"A slow till","sessionId":"640ab4c7-d010-4b20-a591-b7172ef08e66"}"#;
    let lines = std::fs::read_to_string(home.path(SHOP)).unwrap();
    home.write(SHOP, format!("{lines}{title}\n"));
    let run = home.run("search till");
    assert!(run.stdout.contains("· title\n    A slow till"), "{run}");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let home = home();
    home.run("sync");
    let mut shell = home.command(Vec::<String>::new());
    let quipu = shell.get_program().to_owned();
    shell = std::process::Command::new("sh");
    shell
        .args(["-c", r#""$0" search -n 0 checkout | head -1; true"#])
        .arg(quipu)
        .env_clear()
        .env("HOME", home.path(""))
        .env("PATH", "/usr/bin:/bin");
    let run = home.finish(shell);
    assert!(run.code == 0 && run.stderr.is_empty(), "{run}");
}

/// A script gets all hits without `-n`, and how current the answer is.
#[test]
fn json_has_all_hits() {
    let home = home();
    let many: String = (0..30)
        .map(|number| {
            format!(
                "{{\"type\":\"user\",\"uuid\":\"00000005-0000-4000-8000-{number:012}\",\"timestamp\":\"2026-01-12T11:00:00.000Z\",\"cwd\":\"/home/alice/shop\",\"message\":{{\"role\":\"user\",\"content\":\"plenty of them, {number}\"}}}}\n"
            )
        })
        .collect();
    home.write(
        ".claude/projects/-home-alice-shop/00000005-0000-4000-8000-000000000005.jsonl",
        many,
    );
    assert_eq!(home.run("search plenty --json").json_lines().len(), 30);
    assert_eq!(home.run("search plenty --json -n 7").json_lines().len(), 7);
    assert_eq!(home.run("search plenty --json --recent").json_lines().len(), 30);
    let shown = home.run("search plenty").stdout;
    assert!(shown.contains("20 of 30 hits for plenty; `-n 0` lists all"), "{shown}");
    for arguments in ["search zanzibar --json", "search zanzibar --json -q"] {
        let run = home.run(arguments);
        assert_eq!(run.code, 1, "{run}");
        assert_eq!(run.stdout, "", "{run}");
        let line: serde_json::Value = serde_json::from_str(run.stderr.trim()).unwrap();
        assert_eq!((&line["error"], &line["pending_bytes"]), (&"no_match".into(), &0.into()));
        assert!(line["fresh_as_of"].as_i64().is_some());
    }
}

/// `project` is a name, as in `sessions`; Claude Code's folder name is `slug`.
#[test]
fn a_project_has_the_same_name_everywhere() {
    let home = home();
    let sessions = home.run("sessions --all --json").json_lines();
    let hits = home.run("search checkout --json").json_lines();
    let mut seen = 0;
    for hit in &hits {
        let session = sessions.iter().find(|session| session["session_id"] == hit["session_id"]);
        if let Some(session) = session {
            assert_eq!((&hit["project"], &hit["slug"]), (&session["project"], &session["slug"]));
            seen += 1;
        }
    }
    assert!(seen >= 5, "{seen}");
    assert!(hits.iter().any(|hit| hit["project"] == "shop" && hit["slug"] == "-home-alice-shop"));
    let forgotten = home.run("forget 640ab4c7 --yes --json").json();
    let forgotten = &forgotten["affected_sessions"][0];
    assert_eq!(
        (&forgotten["project"], &forgotten["slug"]),
        (&"shop".into(), &"-home-alice-shop".into())
    );
}

#[test]
fn an_odd_query_gets_a_hint() {
    let home = home();
    home.run("sync");
    let ask = |words: &[&str]| home.finish(home.command(["search"].iter().chain(words)));
    // A quote by itself is searched for, and may match or not.
    for words in [&["\""][..], &["\"\""], &["\"", "\""]] {
        let run = ask(words);
        assert!(run.code < 2 && !run.stderr.contains("nothing to search for"), "{words:?}: {run}");
    }
    snapshot!(ask(&["--exact", ""]), @"
    exit 2
    --- stderr
    error: --exact is empty, which matches everything
    hint: give a text; filters alone (`role:user since:3d`) list all entries
    ");
    snapshot!(ask(&["--regex", ""]), @"
    exit 2
    --- stderr
    error: --regex is empty, which matches everything
    hint: give a text; filters alone (`role:user since:3d`) list all entries
    ");
    snapshot!(ask(&["in:notes", "zanzibar"]), @"
    exit 1
    --- stderr
    error: no hits
    hint: in:notes searches memory and personality notes; `quipu notes` lists them
    ");
    snapshot!(ask(&["has:compaction"]), @"
    exit 1
    --- stderr
    error: no hits
    hint: no session was compacted
    ");
    snapshot!(ask(&["role:system", "tool:Bash"]), @"
    exit 1
    --- stderr
    error: no hits
    hint: no entry matches all of these filters; leave one out to see more
    ");
    assert_eq!(ask(&[""]).code, 2);
}

/// Calls that differ only in numbers are shown once per turn; a script gets all of them.
#[test]
fn similar_calls_are_folded() {
    let home = Home::empty();
    let mut lines = String::new();
    let mut parent = "null".to_owned();
    for number in 0..6_u32 {
        let uuid = format!("00000000-0000-4000-8000-{number:012}");
        let message = match number {
            0 => r#"{"role":"user","content":"poll it"}"#.to_owned(),
            number => format!(
                r#"{{"id":"m{number}","role":"assistant","content":[{{"type":"tool_use","id":"t{number}","name":"Bash","input":{{"command":"zanzibar --try {number}"}}}}]}}"#
            ),
        };
        let kind = if number == 0 { "user" } else { "assistant" };
        lines.push_str(&format!(
            "{{\"type\":\"{kind}\",\"uuid\":\"{uuid}\",\"parentUuid\":{parent},\"timestamp\":\"2026-01-12T11:00:0{number}.000Z\",\"message\":{message}}}\n"
        ));
        parent = format!("\"{uuid}\"");
    }
    home.write(".claude/projects/-p/00000005-0000-4000-8000-000000000005.jsonl", lines);
    let shown = home.run("search zanzibar").stdout;
    assert_eq!(shown.matches("zanzibar --try").count(), 1, "{shown}");
    assert!(shown.contains("and 4 similar in turn 1"), "{shown}");
    assert_eq!(home.run("search zanzibar --json").json_lines().len(), 5);
}

#[test]
fn too_many_words_are_an_error_of_their_own() {
    let home = Home::empty();
    let many: String = (0..300).map(|number| format!("word{number} ")).collect();
    snapshot!(home.run(&format!("search {many}")), @"
    exit 2
    --- stderr
    error: the query has more than 256 words
    hint: use fewer words, or --exact TEXT for a long text
    ");
}

/// The command below a hit shows the match, in every kind of entry.
#[test]
fn the_command_below_a_hit_shows_it() {
    let home = Home::empty();
    let mut number = 0;
    let mut line = |kind: &str, more: &str, message: &str| {
        number += 1;
        let parent = match number {
            1 => "null".to_owned(),
            _ => format!("\"{:08x}-0000-4000-8000-000000000000\"", number - 1),
        };
        format!(
            r#"{{"type":"{kind}","uuid":"{number:08x}-0000-4000-8000-000000000000","parentUuid":{parent},"timestamp":"2026-01-12T10:{number:02}:00.000Z","cwd":"/p","sessionId":"640ab4c7-d010-4b20-a591-b7172ef08e66"{more}{message}}}
"#
        )
    };
    let content = |role: &str, content: &str| {
        format!(r#","message":{{"id":"m","role":"{role}","content":{content}}}"#)
    };
    let text = [
        line("user", "", &content("user", r#""first prompt""#)),
        line("assistant", "", &content("assistant", r#"[{"type":"text","text":"first answer"}]"#)),
        line("user", "", &content("user", r#""second alfa""#)),
        line("assistant", "", &content("assistant", r#"[{"type":"thinking","thinking":"bravo"}]"#)),
        line("assistant", "", &content("assistant", r#"[{"type":"text","text":"charlie"}]"#)),
        line("assistant", "", &content("assistant", r#"[{"type":"tool_use","id":"t1","name":"Edit","input":{"file_path":"a.rs","new_string":"delta"}}]"#)),
        line("user", "", &content("user", r#"[{"type":"tool_result","tool_use_id":"t1","content":"echo result"},{"type":"text","text":"<system-reminder>foxtrot</system-reminder>"}]"#)),
        line("user", r#","isMeta":true"#, &content("user", r#""golf caveat""#)),
        line("user", r#","isSidechain":true"#, &content("user", r#""hotel aside""#)),
        line("system", r#","subtype":"compact_boundary","compactMetadata":{"trigger":"auto","preTokens":9}"#, r#","content":"Conversation compacted""#),
        line("user", r#","isCompactSummary":true"#, &content("user", r#""india so far""#)),
        "{\"type\":\"custom-title\",\"customTitle\":\"juliett\",\"sessionId\":\"640ab4c7-d010-4b20-a591-b7172ef08e66\"}\n".to_owned(),
        line("user", "", &content("user", r#""<bash-input>ls kilo</bash-input>""#)),
        line("user", "", &content("user", r#""<bash-stdout>lima</bash-stdout>""#)),
    ];
    home.write(SHOP, text.concat());
    home.write(
        ".openclaw/agents/main/sessions/s1.jsonl",
        "{\"type\":\"session\",\"version\":3,\"id\":\"s1\",\"timestamp\":\"2026-02-04T10:30:00.000Z\",\"cwd\":\"/q\"}\n\
         {\"type\":\"message\",\"id\":\"a1b2c3d4\",\"parentId\":null,\"timestamp\":\"2026-02-04T10:31:00.000Z\",\"message\":{\"role\":\"user\",\"content\":\"mike\"}}\n\
         {\"type\":\"compaction\",\"id\":\"a1b2c3d5\",\"parentId\":\"a1b2c3d4\",\"timestamp\":\"2026-02-04T10:32:00.000Z\",\"summary\":\"november so far\",\"firstKeptEntryId\":\"a1b2c3d4\",\"tokensBefore\":5}\n\
         {\"type\":\"branch_summary\",\"id\":\"a1b2c3d6\",\"parentId\":\"a1b2c3d4\",\"timestamp\":\"2026-02-04T10:33:00.000Z\",\"fromId\":\"a1b2c3d5\",\"summary\":\"oscar was left\"}\n\
         {\"type\":\"message\",\"id\":\"a1b2c3d7\",\"parentId\":\"a1b2c3d6\",\"timestamp\":\"2026-02-04T10:34:00.000Z\",\"message\":{\"role\":\"user\",\"content\":\"papa once\"}}\n\
         {\"type\":\"message\",\"id\":\"a1b2c3d7\",\"parentId\":\"a1b2c3d6\",\"timestamp\":\"2026-02-04T10:34:00.000Z\",\"message\":{\"role\":\"user\",\"content\":\"twice\"}}\n\
         {\"type\":\"message\",\"id\":\"a1b2c3d8\",\"parentId\":\"a1b2c3d7\",\"timestamp\":\"2026-02-04T10:35:00.000Z\",\"message\":{\"role\":\"toolResult\",\"toolCallId\":\"nowhere\",\"toolName\":\"exec\",\"content\":[{\"type\":\"text\",\"text\":\"quebec\"}]}}\n\
         {\"type\":\"message\",\"id\":\"a1b2c3d9\",\"parentId\":\"a1b2c3d8\",\"timestamp\":\"2026-02-04T10:36:00.000Z\",\"message\":{\"role\":\"assistant\",\"content\":\"romeo\"}}",
    );
    let piece = |word: &str, number: u32| {
        format!(
            r#"{{"type":"message","id":"0000000{number}","parentId":null,"timestamp":"2026-02-0{number}T10:31:00.000Z","message":{{"role":"user","content":"{word}"}}}}
"#
        )
    };
    // A session whose older half is found later.
    let header = "{\"type\":\"session\",\"version\":3,\"id\":\"s2\",\"cwd\":\"/q\"}\n";
    home.write(".openclaw/agents/main/sessions/s2.jsonl", header.to_owned() + &piece("sierra", 5));
    home.run("sync");
    home.write(
        ".openclaw/agents/main/sessions/s2.jsonl.reset.2026-02-04T10-30-00.000Z",
        header.to_owned() + &piece("tango", 1) + &piece("uniform", 2),
    );
    home.run("sync");
    let words = [
        "alfa", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india",
        "juliett", "kilo", "lima", "mike", "november", "oscar", "papa", "quebec", "romeo",
        "sierra", "tango", "uniform",
    ];
    let mut commands = Vec::new();
    for word in words {
        let place = match word {
            "bravo" => "in:thinking ",
            "foxtrot" => "in:attached ",
            _ => "",
        };
        let found = home.run(&format!("search {place}{word}"));
        let command = found.stdout.lines().find(|line| line.trim().starts_with("quipu "));
        let command = command.unwrap_or_else(|| panic!("{found}")).trim();
        let arguments = command.strip_prefix("quipu ").unwrap().replace('\'', "");
        let shown = home.run(&arguments);
        assert!(shown.stdout.contains(word), "{word}: {command}: {shown}");
        commands.push(format!("{word}: {command}"));
    }
    insta::assert_snapshot!(commands.join("\n"), @"
    alfa: quipu show 640ab4c7 --at 00000003-0000-4000-8000-000000000000
    bravo: quipu show 640ab4c7 --at 00000004-0000-4000-8000-000000000000
    charlie: quipu show 640ab4c7 --at 00000005-0000-4000-8000-000000000000
    delta: quipu show 640ab4c7 --at 00000006-0000-4000-8000-000000000000
    echo: quipu show 640ab4c7 --at 00000007-0000-4000-8000-000000000000
    foxtrot: quipu show 640ab4c7 --at 00000007-0000-4000-8000-000000000000
    golf: quipu show 640ab4c7 --at 00000008-0000-4000-8000-000000000000
    hotel: quipu show 640ab4c7 --at 00000009-0000-4000-8000-000000000000
    india: quipu show 640ab4c7 --at 0000000b-0000-4000-8000-000000000000
    juliett: quipu show 640ab4c7
    kilo: quipu show 640ab4c7 --at 0000000c-0000-4000-8000-000000000000
    lima: quipu show 640ab4c7 --at 0000000d-0000-4000-8000-000000000000
    mike: quipu show s1 --at a1b2c3d4
    november: quipu show s1 --at a1b2c3d5
    oscar: quipu show s1 --at a1b2c3d6
    papa: quipu show s1 --entry '#19' --raw
    quebec: quipu show s1 --at a1b2c3d8
    romeo: quipu show s1 --at '#tail3'
    sierra: quipu show s2 --at 00000005
    tango: quipu show s2 --at 00000001
    uniform: quipu show s2 --at 00000002
    ");
}
