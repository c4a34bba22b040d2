//! A prompt that was queued while the agent worked is found once: as the prompt it became, or in
//! the queue if it never became one.

use quipu_ledger::search::{Order, SearchRequest};
use quipu_transcript::search::query;

use crate::home::*;

fn queued(text: &str) -> String {
    format!(
        "{{\"type\":\"queue-operation\",\"operation\":\"enqueue\",\"sessionId\":\"{SESSION}\",\
         \"timestamp\":\"2026-01-12T10:30:01.000Z\",\"content\":\"{text}\"}}\n"
    )
}

fn prompt(number: u32, text: &str) -> String {
    line("user", &uuid(number), None, text)
}

fn of_lines(lines: &[String]) -> Home {
    let home = Home::quick();
    home.write(MAIN, lines.concat());
    home.sync();
    home
}

fn request(text: &str) -> SearchRequest {
    let query = query::parse(text, &"2026-11-16T08:30:00[UTC]".parse().unwrap()).unwrap();
    SearchRequest { query, ..SearchRequest::default() }
}

/// Compares the types of the entries that are found, in every order and with both single-word
/// searches.
#[track_caller]
fn check(home: &Home, text: &str, expected: &[&str]) {
    for order in [Order::Best, Order::Newest] {
        for limit in [None, Some(20)] {
            let request = SearchRequest { order, limit, ..request(text) };
            let answer = home.search(&request);
            let mut types: Vec<&str> =
                answer.hits.iter().map(|hit| hit.type_name.as_str()).collect();
            types.sort_unstable();
            assert_eq!(types, expected, "{text} {order:?} {limit:?}");
            assert_eq!(answer.total, expected.len() as u64, "{text} {order:?} {limit:?}");
        }
    }
}

const QUEUE: &str = "queue-operation";

#[test]
fn a_queued_text_that_became_a_prompt_is_found_once() {
    let home = of_lines(&[
        prompt(1, "start"),
        queued("mind the wombats"),
        queued("and the okapis\\nall of them"),
        queued("never the zebras"),
        // Two queued prompts became one.
        prompt(2, "mind the wombats\\nand the okapis\\nall of them"),
    ]);
    check(&home, "wombats", &["user"]);
    check(&home, "mind wombats", &["user"]);
    check(&home, "okapis", &["user"]);
    check(&home, "zebras", &[QUEUE]);
    // Only the queued text matches.
    check(&home, "wombats -okapis", &[QUEUE]);
    let exact = SearchRequest { exact: Some("the wombats".to_owned()), ..request("") };
    assert_eq!(home.search(&exact).total, 1);
}

#[test]
fn an_earlier_prompt_does_not_hide_a_queued_one() {
    let home = of_lines(&[prompt(1, "try again"), queued("try again")]);
    check(&home, "again", &[QUEUE, "user"]);
}

/// Of very many hits only the shown ones are checked.
#[test]
fn among_very_many_hits_none_is_shown_twice() {
    let mut lines = vec![queued("wombats"), prompt(0, "wombats")];
    lines.extend((1..1200).map(|number| prompt(number, "wombats and so on and so forth")));
    let home = of_lines(&lines);
    for order in [Order::Best, Order::Newest] {
        let limits = if order == Order::Best { [None, Some(20)] } else { [None, Some(1201)] };
        for limit in limits {
            let request = SearchRequest { order, limit, ..request("wombats") };
            let answer = home.search(&request);
            assert!(answer.hits.iter().all(|hit| hit.type_name == "user"), "{order:?} {limit:?}");
            assert_eq!(answer.total, 1200, "{order:?} {limit:?}");
        }
    }
}
