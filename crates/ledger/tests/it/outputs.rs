//! Tool outputs in files of their own are found, filtered and shown as the result of their call.

use quipu_ledger::query::Choice;
use quipu_ledger::search::{Order, SearchRequest};
use quipu_ledger::wire::SearchHit;
use quipu_transcript::story::{Piece, StoryDetail};

use crate::home::*;

const BESIDE: &str = ".claude/projects/-home-alice-shop/640ab4c7-d010-4b20-a591-b7172ef08e66";

/// Returns a prompt, a call and a result that names the file with the whole output.
fn lines(from: u32, name: &str, is_error: bool) -> String {
    let (prompt, call, result) = (uuid(from), uuid(from + 1), uuid(from + 2));
    let id = format!("toolu_01{from:08}");
    let called = format!(
        r#"[{{"type":"tool_use","id":"{id}","name":"Bash","input":{{"command":"make"}}}}]"#
    );
    let answered = format!(
        r#"[{{"type":"tool_result","tool_use_id":"{id}","is_error":{is_error},"content":"<persisted-output>\nOutput too large (50KB). Full output saved to: /home/alice/tool-results/{name}\n\nPreview (first 2KB):\nbegins\n</persisted-output>"}}]"#
    );
    line("user", &prompt, None, "build it")
        + &line_of("assistant", &call, Some(&prompt), &called)
        + &line_of("user", &result, Some(&call), &answered)
}

/// Returns the transcript of a sub-agent of the session.
fn of_agent(lines: &str) -> String {
    lines.replace("\"isSidechain\":false", "\"isSidechain\":true,\"agentId\":\"q\"")
}

fn home() -> Home {
    let home = Home::quick();
    home.write(MAIN, lines(1, "one.txt", true) + &lines(11, "two.txt", false));
    home.write(&format!("{BESIDE}/tool-results/one.txt"), "begins with theneedle, ends badly");
    home.write(&format!("{BESIDE}/tool-results/two.txt"), "begins, ends with theother");
    let agent = of_agent(&lines(21, "three.txt", false));
    home.write(&format!("{BESIDE}/subagents/agent-q.jsonl"), agent);
    home.write(&format!("{BESIDE}/tool-results/three.txt"), "begins and asks thehelper");
    home.sync();
    home
}

fn ask(home: &Home, text: &str) -> Vec<SearchHit> {
    home.search(&SearchRequest { order: Order::Newest, ..request(text) }).hits
}

#[test]
fn a_hit_in_an_output_is_the_result_of_its_call() {
    let home = home();
    let hits = ask(&home, "theneedle");
    let [hit] = hits.as_slice() else { panic!("{} hits", hits.len()) };
    assert_eq!(hit.tool.as_deref(), Some("Bash"));
    assert_eq!(hit.turn_number, Some(1));
    assert_eq!(hit.role.as_deref(), Some("tool"));
    assert_eq!(hit.time, Some(1_768_213_800_000));
    assert_eq!(hit.entry_id, uuid(3));
    assert!(hit.is_error);
}

#[test]
fn filters_hold_for_an_output_as_for_the_result() {
    let home = home();
    for (text, count) in [
        ("theneedle since:2026-01-12", 1),
        ("theneedle since:2026-01-13", 0),
        ("theneedle until:2026-02-01", 1),
        ("theneedle until:2026-01-01", 0),
        ("theneedle role:tool", 1),
        ("theneedle role:user", 0),
        ("theneedle is:error", 1),
        ("theother is:error", 0),
        ("theother tool:Bash in:result", 1),
        ("thehelper session:640ab4c7-d010-4b20-a591-b7172ef08e66/agent-q", 1),
        ("theneedle session:640ab4c7-d010-4b20-a591-b7172ef08e66/agent-q", 0),
    ] {
        assert_eq!(ask(&home, text).len(), count, "{text}");
    }
}

#[test]
fn a_story_with_results_shows_the_whole_output() {
    let home = home();
    let shown = |detail: StoryDetail| {
        let choice = Choice { detail, ..Choice::default() };
        let results = home.items_of(SESSION, &choice, |item| {
            let texts = item.pieces.iter().filter_map(|piece| match piece {
                Piece::Result(result) => Some(&*result.text),
                _ => None,
            });
            texts.collect::<String>()
        });
        results.join("\n")
    };
    assert!(shown(StoryDetail::FULL).contains("ends badly"));
    assert!(shown(StoryDetail::FULL).contains("theother"));
    assert!(!shown(StoryDetail::default()).contains("theneedle"));
}

#[test]
fn it_does_not_matter_whether_the_call_or_its_output_is_collected_first() {
    for agents_first in [true, false] {
        let home = Home::quick();
        let agent = format!("{BESIDE}/subagents/agent-q.jsonl");
        let output = format!("{BESIDE}/tool-results/three.txt");
        let transcript = of_agent(&lines(21, "three.txt", false));
        home.write(MAIN, lines(1, "one.txt", true));
        let mut files = [(&agent, &transcript[..]), (&output, "begins and asks thehelper")];
        if !agents_first {
            files.reverse();
        }
        for (path, text) in files {
            home.write(path, text);
            home.sync();
        }
        let [hit] = &ask(&home, "thehelper")[..] else { panic!("{agents_first}") };
        assert_eq!(hit.tool.as_deref(), Some("Bash"), "{agents_first}");
        home.assert_rebuilds();
    }
}
