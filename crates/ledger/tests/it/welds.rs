//! Several records on one line: each has its own place in the conversation, in every query.

use quipu_ledger::query::Choice;
use quipu_ledger::search::SearchRequest;
use quipu_ledger::wire::SearchHit;

use crate::home::*;

const ANIMALS: [&str; 6] = ["alpaca", "vicuna", "guanaco", "llama", "camel", "dromedary"];

/// Returns a home with six prompts, the second to fourth on one line.
fn home() -> Home {
    let home = Home::quick();
    let mut text = String::new();
    for (number, animal) in (1..).zip(ANIMALS) {
        let parent = (number > 1).then(|| uuid(number - 1));
        let line = line("user", &uuid(number), parent.as_deref(), animal);
        text += match number {
            2 | 3 => line.trim_end(),
            _ => &line,
        };
    }
    home.write(MAIN, text);
    home.sync();
    home
}

fn first(home: &Home, text: &str, around: usize) -> SearchHit {
    let request = SearchRequest { around, ..request(text) };
    home.search(&request).hits.into_iter().next().unwrap()
}

#[test]
fn a_hit_leads_to_its_turn() {
    let home = home();
    for (number, animal) in (1..).zip(ANIMALS) {
        let turn = first(&home, animal, 0).turn_number;
        assert_eq!(turn, Some(number), "{animal}");
        let choice = Choice { turn, ..Choice::default() };
        let shown = home
            .items_of(SESSION, &choice, |item| item.id.clone().unwrap_or_default().into_owned());
        assert_eq!(shown, [uuid(number as u32)], "{animal}");
    }
}

#[test]
fn neighbours_are_those_in_the_file() {
    let home = home();
    for (at, animal) in ANIMALS.iter().enumerate() {
        let around = first(&home, animal, 2).around;
        let before: Vec<&str> =
            around.iter().filter(|near| near.is_before).map(|near| near.text.as_str()).collect();
        let after: Vec<&str> =
            around.iter().filter(|near| !near.is_before).map(|near| near.text.as_str()).collect();
        assert_eq!(before, ANIMALS[at.saturating_sub(2)..at], "{animal}");
        assert_eq!(after, ANIMALS[at + 1..(at + 3).min(ANIMALS.len())], "{animal}");
    }
}

#[test]
fn the_last_prompts_are_the_last_in_the_file() {
    let home = home();
    let sessions = quipu_ledger::query::sessions(&home.open(), &Default::default(), None).unwrap();
    assert_eq!(sessions.sessions[0].last_prompts, ANIMALS[3..]);
    assert_eq!(sessions.sessions[0].title.as_deref(), Some(ANIMALS[0]));
}

/// A record that is repeated elsewhere does not hide those after it on the line.
#[test]
fn a_repeated_record_hides_no_other_on_its_line() {
    let record = |number: u32, text: &str| {
        let parent = (number > 1).then(|| uuid(number - 1));
        line("user", &uuid(number), parent.as_deref(), text)
    };
    let (one, two) = (record(1, "alpaca"), record(2, "vicuna"));
    let three = record(3, "guanaco");
    let weld = format!("{}{}{three}", one.trim_end(), two.trim_end());
    let four = record(4, "llama");
    let words = |home: &Home, choice: &Choice| {
        home.items_of(SESSION, choice, |item| item.words().into_owned())
    };
    // Before the line, after it, and both.
    for (before, behind) in [(0, 1), (0, 2), (1, 0), (2, 0), (2, 2)] {
        let alone = [&*one, &*two];
        let lines = [&alone[..before], &[&weld], &alone[..behind], &[&four]].concat();
        let home = Home::quick();
        home.write(MAIN, lines.concat());
        home.sync_and_check();
        let mut shown = words(&home, &Choice::default());
        shown.sort();
        assert_eq!(shown, ["alpaca", "guanaco", "llama", "vicuna"], "{before} {behind}");
        for name in ["alpaca", "vicuna", "guanaco", "llama"] {
            let choice = Choice { turn: first(&home, name, 0).turn_number, ..Choice::default() };
            assert_eq!(words(&home, &choice), [name], "{before} {behind}");
        }
    }
    // A record that is three times on one line is shown once.
    let home = Home::quick();
    home.write(MAIN, format!("{}{}{one}", one.trim_end(), one.trim_end()));
    home.sync_and_check();
    assert_eq!(words(&home, &Choice::default()), ["alpaca"]);
}
