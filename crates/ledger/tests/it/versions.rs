//! Entries that were written again under the same id: the newest version counts, even for calls,
//! filters and lists.

use crate::home::*;

fn call(number: u32, parent: u32, id: &str) -> String {
    let content = format!(
        r#"[{{"type":"tool_use","id":"{id}","name":"Bash","input":{{"command":"make"}}}}]"#
    );
    line_of("assistant", &uuid(number), Some(&uuid(parent)), &content)
}

fn result(number: u32, parent: u32, id: &str, text: &str, is_error: bool) -> String {
    let content = format!(
        r#"[{{"type":"tool_result","tool_use_id":"{id}","content":"{text}","is_error":{is_error}}}]"#
    );
    line_of("user", &uuid(number), Some(&uuid(parent)), &content)
}

/// Returns the snippets of the hits.
fn found(home: &Home, text: &str) -> Vec<String> {
    home.search(&request(text)).hits.into_iter().map(|hit| hit.snippet).collect()
}

fn session(home: &Home) -> quipu_ledger::wire::Session {
    let sessions = quipu_ledger::query::sessions(&home.open(), &Default::default(), None).unwrap();
    sessions.sessions.into_iter().next().unwrap()
}

/// Selects calls with their results, by the agent's ids.
const PAIRS: &str = "SELECT c.call_id || ' ' || hex(e.entry_id) || ' ' || c.is_error
                       FROM tool_calls c JOIN entries e ON e.id = c.result
                      WHERE e.superseded_by IS NULL";

#[test]
fn a_rewritten_result_is_the_result_of_its_call() {
    let home = Home::quick();
    let lines = |text: &str, is_error| {
        [
            line("user", &uuid(1), None, "build it"),
            call(2, 1, "toolu_01aaaaaaaa"),
            result(3, 2, "toolu_01aaaaaaaa", text, is_error),
            line("assistant", &uuid(4), Some(&uuid(3)), "done"),
        ]
        .concat()
    };
    home.write(MAIN, lines("thefirst output", false));
    home.sync();
    home.replace(MAIN, lines("thesecond output", true));
    home.sync();

    assert_eq!(home.all(PAIRS).len(), 1);
    assert_eq!(home.one::<i64>("SELECT is_error FROM tool_calls"), 1);
    assert_eq!(found(&home, "output is:error"), ["thesecond output"]);
    assert_eq!(found(&home, "thesecond tool:Bash"), ["thesecond output"]);
    assert_eq!(home.problems().get("repeated_result"), None);
    home.assert_rebuilds();
}

#[test]
fn a_result_before_its_call_counts_in_its_newest_version() {
    let home = Home::quick();
    home.write(
        MAIN,
        [
            result(3, 2, "toolu_01bbbbbbbb", "older", false),
            result(3, 2, "toolu_01bbbbbbbb", "newer", true),
            call(2, 1, "toolu_01bbbbbbbb"),
        ]
        .concat(),
    );
    home.sync();
    assert_eq!(home.all(PAIRS).len(), 1);
    assert_eq!(home.one::<i64>("SELECT is_error FROM tool_calls"), 1);
    assert_eq!(home.problems().get("orphan_result"), None);
    home.assert_rebuilds();
}

#[test]
fn a_file_that_repeats_its_lines_with_other_bytes_shows_the_last_ones() {
    let home = Home::quick();
    let lines = |version: &str| {
        [
            line("user", &uuid(1), None, &format!("{version} prompt")),
            call(2, 1, "toolu_01cccccccc").replace("make", version),
            result(3, 2, "toolu_01cccccccc", &format!("{version} result"), false),
        ]
        .concat()
    };
    home.write(MAIN, lines("once") + &lines("twice") + &lines("thrice"));
    home.sync();

    assert_eq!(home.all(PAIRS).len(), 1);
    assert_eq!(found(&home, "result tool:Bash"), ["thrice result"]);
    assert_eq!(home.problems().get("repeated_result"), None);
    let session = session(&home);
    assert_eq!(session.first_prompt.as_deref(), Some("thrice prompt"));
    assert_eq!(session.last_prompts, ["thrice prompt"]);
    assert_eq!(session.title.as_deref(), Some("thrice prompt"));
    home.assert_rebuilds();
}

#[test]
fn a_later_prompt_in_a_newer_version_is_not_the_first_one() {
    let home = Home::quick();
    let first = line("user", &uuid(1), None, "the beginning");
    let second = |text: &str| line("user", &uuid(2), Some(&uuid(1)), text);
    home.write(
        MAIN,
        [&first, &second("as it was"), &second("as it is")].map(String::as_str).concat(),
    );
    home.sync();
    let session = session(&home);
    assert_eq!(session.first_prompt.as_deref(), Some("the beginning"));
    assert_eq!(session.last_prompts, ["the beginning", "as it is"]);
    home.assert_rebuilds();
}
