//! Whose words: what a person wrote, what a program wrote around it, and turns that no person
//! began.

use quipu_ledger::Ledger;
use quipu_ledger::query::{Choice, Filter, sessions};
use quipu_ledger::search::SearchRequest;
use quipu_ledger::wire::Session;
use quipu_transcript::search::query;
use quipu_transcript::story::{Piece, StoryDetail, StoryItem};

use crate::home::*;

const WRAPPED: &str = "Sender (untrusted metadata):\n```json\n{\"name\":\"Ada\",\"id\":\"otterkey\"}\n```\n\n[Fri 2026-06-26 19:04 UTC] feed the zebra";

fn openclaw(home: &Home, id: &str, prompts: &[&str]) {
    let mut lines = format!(
        "{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\",\"timestamp\":\"2026-06-26T19:00:00Z\"}}\n"
    );
    let mut parent = "null".to_owned();
    for (index, prompt) in prompts.iter().enumerate() {
        let prompt = serde_json::to_string(prompt).unwrap();
        for (entry, role, content) in [
            (format!("a{index:07}"), "user", prompt),
            (format!("b{index:07}"), "assistant", "\"ok\"".to_owned()),
        ] {
            lines.push_str(&format!(
                "{{\"type\":\"message\",\"id\":\"{entry}\",\"parentId\":{parent},\"timestamp\":\"2026-06-26T19:{index:02}:00Z\",\"message\":{{\"role\":\"{role}\",\"content\":{content}}}}}\n"
            ));
            parent = format!("\"{entry}\"");
        }
    }
    home.write(&format!(".openclaw/agents/main/sessions/{id}.jsonl"), lines);
}

fn listed(home: &Home, filter: &Filter) -> Vec<Session> {
    let ledger = Ledger::open_read_only(&home.ledger_path()).unwrap();
    sessions(&ledger, filter, None).unwrap().sessions
}

/// Returns the places and snippets of all hits.
fn found(home: &Home, text: &str) -> Vec<(String, String)> {
    let query = query::parse(text, &"2026-11-16T08:30:00[UTC]".parse().unwrap()).unwrap();
    let answer = home.search(&SearchRequest { query, ..SearchRequest::default() });
    answer.hits.iter().map(|hit| (hit.place.to_owned(), hit.snippet.clone())).collect()
}

/// Returns the names of the entries of all hits.
fn found_entries(home: &Home, text: &str) -> Vec<String> {
    let query = query::parse(text, &"2026-11-16T08:30:00[UTC]".parse().unwrap()).unwrap();
    let answer = home.search(&SearchRequest { query, ..SearchRequest::default() });
    answer.hits.iter().map(|hit| hit.entry_id.clone()).collect()
}

/// Returns the words of an item.
fn words(item: &StoryItem<'_>) -> String {
    let words = item.pieces.iter().filter_map(|piece| match piece {
        Piece::Words(words) => Some(words.as_ref()),
        _ => None,
    });
    words.collect()
}

#[test]
fn titles_and_prompts_are_those_of_a_person() {
    let home = Home::quick();
    openclaw(
        &home,
        "mixed",
        &[
            "A new session was started via /new or /reset. Greet the user.",
            "Read HEARTBEAT.md if it exists.",
            WRAPPED,
            "Read HEARTBEAT.md if it exists.",
        ],
    );
    openclaw(&home, "job", &["[cron:1 report] sum up the news\nCurrent time: Friday"]);
    home.sync_and_check();
    let all = listed(&home, &Filter::default());
    let of = |id: &str| all.iter().find(|session| session.session_id == id).unwrap();
    let mixed = of("mixed");
    assert_eq!(mixed.title.as_deref(), Some("feed the zebra"));
    assert_eq!(mixed.first_prompt.as_deref(), Some("feed the zebra"));
    assert_eq!(mixed.last_prompts, ["feed the zebra"]);
    assert_eq!(mixed.turns, 4);
    // Without a person, the program's prompt is the best name.
    assert_eq!(of("job").title.as_deref(), Some("sum up the news"));
    let human = listed(&home, &Filter { human: true, ..Filter::default() });
    assert_eq!(human.iter().map(|session| &*session.session_id).collect::<Vec<_>>(), ["mixed"]);
    let automatic = "SELECT group_concat(is_automatic, '') FROM (
        SELECT t.is_automatic FROM turns t JOIN sessions s ON s.id = t.session
         WHERE s.session_id = 'mixed' ORDER BY t.id)";
    assert_eq!(home.one::<String>(automatic), "1101");
    home.assert_rebuilds();
}

#[test]
fn text_that_programs_added_is_found_as_attached() {
    let home = Home::quick();
    openclaw(&home, "one", &[WRAPPED]);
    home.write(
        ".claude/projects/-w/00000001-0000-4000-8000-000000000001.jsonl",
        concat!(
            r#"{"type":"user","uuid":"00000000-0000-4000-8000-000000000001","parentUuid":null,"message":{"role":"user","content":[{"type":"text","text":"<ide_selection>walrus lines</ide_selection>"},{"type":"text","text":"why?"}]}}"#,
            "\n",
            r#"{"type":"attachment","uuid":"00000000-0000-4000-8000-000000000002","parentUuid":"00000000-0000-4000-8000-000000000001","attachment":{"type":"file","filename":"/w/a.rs","content":{"type":"text","file":{"filePath":"/w/a.rs","content":"fn pelican() {}"}}}}"#,
            "\n",
        ),
    );
    home.sync_and_check();
    for word in ["otterkey", "walrus", "pelican"] {
        assert_eq!(found(&home, word), [], "{word}");
        for place in ["in:attached", "in:all"] {
            let hits = found(&home, &format!("{word} {place}"));
            assert_eq!(hits.len(), 1, "{word} {place}");
            assert_eq!(hits[0].0, "attached", "{word} {place}");
        }
    }
    assert_eq!(found(&home, "zebra"), [("text".to_owned(), "feed the zebra".to_owned())]);
    let query = query::parse("walrus", &"2026-11-16T08:30:00[UTC]".parse().unwrap()).unwrap();
    let answer = home.search(&SearchRequest { query, ..SearchRequest::default() });
    assert_eq!(answer.gaps.in_attached, 1);
}

#[test]
fn a_rejection_is_found_among_the_users_words() {
    let home = of_lines(&[
        line("user", &uuid(1), None, "go"),
        line_of(
            "assistant",
            &uuid(2),
            Some(&uuid(1)),
            r#"[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"rm x"}}]"#,
        ),
        line_of(
            "user",
            &uuid(3),
            Some(&uuid(2)),
            r#"[{"type":"tool_result","tool_use_id":"t","is_error":true,"content":"The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). To tell you how to proceed, the user said:\nmove the zebra instead"}]"#,
        ),
    ]);
    let expected = [("text".to_owned(), "move the zebra instead".to_owned())];
    assert_eq!(found(&home, "zebra role:user"), expected);
    assert_eq!(
        home.all("SELECT role || ': ' || text FROM messages ORDER BY id"),
        ["'user: go'", "'user: move the zebra instead'"]
    );
}

/// Of a lost session there is only the list of prompts, with the text that was pasted into them.
#[test]
fn pasted_text_is_found_and_shown() {
    let home = Home::quick();
    home.write(
        ".claude/history.jsonl",
        concat!(
            r#"{"display":"why [Pasted text #1 +2 lines]","pastedContents":{"1":{"id":1,"type":"text","content":"a walrus\nline"},"2":{"id":2,"type":"image","content":"iVBORw0K"}},"timestamp":1794866224172,"project":"/w","sessionId":"00000001-0000-4000-8000-000000000001"}"#,
            "\n",
        ),
    );
    home.sync_and_check();
    let hits = found(&home, "walrus role:user in:prompts");
    assert_eq!(hits.len(), 1);
    assert_eq!(hits[0].0, "text");
    assert_eq!(found(&home, "walrus").len(), 1);
    assert_eq!(found(&home, "iVBORw0K in:all"), []);
    let session = "00000001";
    assert_eq!(
        home.items_of(session, &Choice::default(), pasted),
        [(
            "why [Pasted text #1 +2 lines]".to_owned(),
            vec!["pasted text #1: a walrus\nline".to_owned()]
        )]
    );
    assert_eq!(home.all("SELECT text FROM prompts"), ["'why [Pasted text #1 +2 lines]'"]);
    assert_eq!(
        listed(&home, &Filter::default())[0].title.as_deref(),
        Some("why [Pasted text #1 +2 lines]")
    );
    home.assert_rebuilds();
}

/// Returns the words of an item, and the texts that were pasted into it.
fn pasted(item: &StoryItem<'_>) -> (String, Vec<String>) {
    let texts = item.pieces.iter().filter_map(|piece| match piece {
        Piece::Pasted { label, text } if piece.is_shown(StoryDetail::DEFAULT) => {
            Some(format!("{label}: {text}"))
        }
        _ => None,
    });
    (words(item), texts.collect())
}

/// Returns the line of an attachment with these fields.
fn attachment(number: u32, parent: u32, fields: &str) -> String {
    line("user", &uuid(number), Some(&uuid(parent)), "")
        .replacen("\"type\":\"user\"", "\"type\":\"attachment\"", 1)
        .replacen(
            "\"message\":{\"role\":\"user\",\"content\":\"\"}",
            &format!("\"attachment\":{{{fields}}}"),
            1,
        )
}

/// The default story names in one line what a person chose to show the model, and nothing that the
/// agent added. The full story has the texts.
#[test]
fn what_a_person_chose_to_show_is_named() {
    let home = of_lines(&[
        line(
            "user",
            &uuid(1),
            None,
            "<ide_opened_file>The user opened the file /w/a.rs in the IDE.</ide_opened_file>\\n<system-reminder>walrus</system-reminder>\\nfix it",
        ),
        attachment(2, 1, r#""type":"file","filename":"/w/b.rs","content":"an otter""#),
        attachment(3, 1, r#""type":"hook_success","content":"/w/c.rs""#),
        line("assistant", &uuid(4), Some(&uuid(2)), "done"),
    ]);
    let shown = |choice: &Choice| {
        home.items_of(SESSION, choice, |item| {
            let gists: Vec<String> = item.gists().map(str::to_owned).collect();
            (words(item), gists)
        })
    };
    let none = Vec::new;
    assert_eq!(
        shown(&Choice::default()),
        [
            ("fix it".to_owned(), vec!["opened file /w/a.rs".to_owned()]),
            (String::new(), vec!["file /w/b.rs".to_owned()]),
            ("done".to_owned(), none()),
        ]
    );
    // Attachments are no messages.
    let last = Choice { last: Some(2), ..Choice::default() };
    assert_eq!(shown(&last).len(), 3);
    let full = Choice { detail: StoryDetail::FULL, ..Choice::default() };
    assert_eq!(shown(&full).len(), 4);
}

/// A transcript may have only a mark for a pasted text. The list of prompts has the text, and for
/// prompts of the same words the time decides which one.
#[test]
fn pasted_text_of_a_live_session_is_shown_with_its_prompt() {
    let home = Home::quick();
    let prompt = |number: u32, second: u32| {
        let time = format!("2026-11-16T21:57:{second:02}.000Z");
        format!(
            r#"{{"type":"user","uuid":"{}","parentUuid":null,"timestamp":"{time}","sessionId":"{SESSION}","message":{{"role":"user","content":"see [Pasted text #1 +2 lines]"}}}}"#,
            uuid(number)
        ) + "\n"
    };
    home.write(MAIN, prompt(1, 10) + &prompt(2, 40));
    let listed = |text: &str, time: u64| {
        format!(
            r#"{{"display":"see [Pasted text #1 +2 lines]","pastedContents":{{"1":{{"id":1,"type":"text","content":"{text}"}}}},"timestamp":{time},"project":"/w","sessionId":"{SESSION}"}}"#
        ) + "\n"
    };
    let first = 1_794_866_230_000;
    home.write(".claude/history.jsonl", listed("a gnu", first + 30_100) + &listed("a newt", first));
    home.sync_and_check();
    let words = "see [Pasted text #1 +2 lines]".to_owned();
    assert_eq!(
        home.items_of(SESSION, &Choice::default(), pasted),
        [
            (words.clone(), vec!["pasted text #1: a newt".to_owned()]),
            (words.clone(), vec!["pasted text #1: a gnu".to_owned()])
        ]
    );
    let second = Choice { turn: Some(2), ..Choice::default() };
    let expected = [(words, vec!["pasted text #1: a gnu".to_owned()])];
    assert_eq!(home.items_of(SESSION, &second, pasted), expected);
}

/// Prompts that programs wrote are of `role:system`: heartbeats, and the task of a sub-agent.
#[test]
fn prompts_of_programs_are_not_the_users() {
    let home = Home::quick();
    openclaw(&home, "one", &["Read HEARTBEAT.md if it exists, feed the otter.", "what otter?"]);
    home.write(MAIN, line("user", &uuid(1), None, "go"));
    home.write(
        &format!(".claude/projects/-home-alice-shop/{SESSION}/subagents/agent-a1.jsonl"),
        line("user", &uuid(2), None, "count the otter"),
    );
    home.sync_and_check();
    assert_eq!(found(&home, "otter").len(), 3);
    assert_eq!(found(&home, "otter role:user").len(), 1);
    assert_eq!(found(&home, "otter role:system").len(), 2);
    assert_eq!(found(&home, "otter -role:user").len(), 2);
    assert_eq!(
        home.all("SELECT is_automatic FROM turns t JOIN sessions s ON s.id = t.session WHERE s.part = 'subagent'"),
        ["1"]
    );
}

/// A command is shown as it was typed, and its tags are found as they were written.
#[test]
fn tags_are_found_exactly() {
    let home = of_lines(&[
        line(
            "user",
            &uuid(1),
            None,
            "<command-name>/review</command-name>\\n<command-args>src</command-args>",
        ),
        line("user", &uuid(2), Some(&uuid(1)), "<bash-input>ls</bash-input>"),
        line("user", &uuid(3), Some(&uuid(2)), "plain"),
    ]);
    for (text, hits) in
        [("<command-name>", 1), ("</command-args>", 1), ("<bash-input>ls", 1), ("/review src", 1)]
    {
        let request = SearchRequest { exact: Some(text.to_owned()), ..SearchRequest::default() };
        assert_eq!(home.search(&request).total, hits, "{text}");
    }
    let texts = home.items_of(SESSION, &Choice::default(), words);
    assert_eq!(texts, ["/review src", "! ls", "plain"]);
}

/// Long pasted text is in a file that the prompt names by its hash. It is found and shown as the
/// prompt's, and forgotten with the only session that has it.
#[test]
fn long_pasted_text_is_found_as_its_prompts() {
    let home = Home::quick();
    let file = ".claude/paste-cache/0123456789abcdef.txt";
    home.write(file, "a walrus\nline");
    home.write(
        ".claude/history.jsonl",
        concat!(
            r#"{"display":"why [Pasted text #1 +2 lines]","pastedContents":{"1":{"id":1,"type":"text","contentHash":"0123456789abcdef"}},"timestamp":1794866224172,"project":"/w","sessionId":"00000001-0000-4000-8000-000000000001"}"#,
            "\n",
        ),
    );
    home.sync_and_check();
    let answer = home.search(&request("walrus role:user"));
    let hits: Vec<_> =
        answer.hits.iter().map(|hit| (hit.session_id.as_deref(), &*hit.snippet)).collect();
    let session = "00000001-0000-4000-8000-000000000001";
    assert_eq!(hits, [(Some(session), "a walrus\nline")]);
    let whole = Choice { detail: StoryDetail::FULL, ..Choice::default() };
    for choice in [whole, Choice::default()] {
        let pieces = home.items_of("00000001", &choice, pasted);
        assert_eq!(pieces[0].1, ["paste-cache/0123456789abcdef.txt: a walrus\nline"]);
    }
    home.assert_rebuilds();
    home.forget("00000001");
    home.sync();
    assert_eq!(home.search(&request("walrus in:all")).total, 0);
}

/// The list of prompts has what the transcript lacks. What both have is one hit and shown once.
#[test]
fn prompts_that_only_the_list_has_are_shown_by_name_and_with_everything() {
    let home = Home::quick();
    let prompt = |number: u32, second: u32, text: &str| {
        let time = format!("2026-11-16T21:57:{second:02}.000Z");
        format!(
            r#"{{"type":"user","uuid":"{}","parentUuid":null,"timestamp":"{time}","sessionId":"{SESSION}","message":{{"role":"user","content":"{text}"}}}}"#,
            uuid(number)
        ) + "\n"
    };
    home.write(MAIN, prompt(1, 10, "feed the otter") + &prompt(2, 40, "see what a gnu says then"));
    let listed = |text: &str, pasted: &str, second: u64| {
        format!(
            r#"{{"display":"{text}","pastedContents":{{"1":{{"id":1,"type":"text","content":"{pasted}"}}}},"timestamp":{},"project":"/w","sessionId":"{SESSION}"}}"#,
            1_794_866_220_000 + second * 1000
        ) + "\n"
    };
    home.write(
        ".claude/history.jsonl",
        listed("feed  the otter", "", 9)
            + &listed("why [Pasted text #1 +1 lines]", "a heron", 20)
            + &listed("see what [Pasted text #1 +1 lines] says then", "a gnu", 39)
            + &listed("/exit", "", 50),
    );
    home.sync_and_check();
    let shown = |choice: &Choice| home.items_of(SESSION, choice, words);
    assert_eq!(shown(&Choice::default()), ["feed the otter", "see what a gnu says then"]);
    let full = Choice { detail: StoryDetail::FULL, ..Choice::default() };
    let everything =
        ["feed the otter", "why [Pasted text #1 +1 lines]", "see what a gnu says then", "/exit"];
    assert_eq!(shown(&full), everything);
    let hits = found_entries(&home, "heron");
    assert_eq!(hits.len(), 1);
    for choice in [
        Choice { entry: Some(hits[0].clone()), ..Choice::default() },
        Choice { at: Some(hits[0].clone()), ..Choice::default() },
    ] {
        assert_eq!(
            home.items_of(SESSION, &choice, pasted),
            [(everything[1].to_owned(), vec!["pasted text #1: a heron".to_owned()])]
        );
    }
    assert_eq!(found(&home, "otter").len(), 1);
    assert_eq!(found(&home, "otter in:prompts").len(), 1);
    assert_eq!(found(&home, "gnu").len(), 1);
    assert_eq!(found(&home, "exit").len(), 1);
}

/// After a compaction, Claude Code shows the model files again that it had read. No person chose
/// them.
#[test]
fn files_that_follow_a_compaction_are_folded() {
    let file = |name: &str| format!(r#""type":"file","filename":"{name}","content":"an otter""#);
    let home = of_lines(&[
        line("user", &uuid(1), None, "go"),
        line("assistant", &uuid(2), Some(&uuid(1)), "done"),
        format!(
            r#"{{"type":"system","subtype":"compact_boundary","uuid":"{}","parentUuid":null,"logicalParentUuid":"{}","sessionId":"{SESSION}","content":"Conversation compacted","compactMetadata":{{"trigger":"manual","preTokens":7}}}}"#,
            uuid(3),
            uuid(2)
        ) + "\n",
        attachment(4, 3, &file("/w/read-before.rs")),
        line("user", &uuid(5), Some(&uuid(4)), "see this"),
        attachment(6, 5, &file("/w/mentioned.rs")),
    ]);
    let gists = |choice: &Choice| -> Vec<String> {
        let gists = home
            .items_of(SESSION, choice, |item| item.gists().map(str::to_owned).collect::<Vec<_>>());
        gists.concat()
    };
    for choice in [
        Choice::default(),
        Choice { last: Some(4), ..Choice::default() },
        Choice { turn: Some(2), ..Choice::default() },
    ] {
        assert_eq!(gists(&choice), ["file /w/mentioned.rs"], "{choice:?}");
    }
    assert_eq!(gists(&Choice { turn: Some(1), ..Choice::default() }), [""; 0]);
}
