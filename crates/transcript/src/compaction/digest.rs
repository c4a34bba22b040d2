//! A summary without a model: it selects lines of the conversation and writes none of its own.
//!
//! The same messages give the same text. Requests, failed commands and open points are found by
//! their place and shape; decisions by a few English words, so that other languages have none.

use std::collections::HashMap;

use super::plan::{Part, Request, SPLIT_TURN};
use super::tokens;
use super::view::{Call, Speaker, View, view};

/// The longest item, in characters. Last requests are longer.
const ITEM: usize = 200;
const REQUEST: usize = 600;

/// The longest text of an earlier summary that no digest wrote, in characters.
const EARLIER: usize = 16_000;

/// The sections, in their order. The number is how many items stay; of the goals the first four
/// stay in any case.
const SECTIONS: [(&str, usize); 6] = [
    ("## Goals", 12),
    ("## Focus", 10),
    ("## Decisions", 12),
    ("## Failed commands", 10),
    ("## Open points", 10),
    ("## Last requests", 3),
];
const GOALS: usize = 0;
const FOCUS: usize = 1;
const DECISIONS: usize = 2;
const FAILED: usize = 3;
const OPEN: usize = 4;
const REQUESTS: usize = 5;

/// The goals that always stay: a session's first requests say what it is about.
const FIRST_GOALS: usize = 4;

/// The heading of a summary that no digest wrote.
const EARLIER_HEADING: &str = "## Earlier summary";

/// Words of a line that reports a decision.
const DECIDING: [&str; 9] = [
    "decided",
    "decision",
    "instead of",
    "chose ",
    "because",
    "will use",
    "going with",
    "rather than",
    "we agreed",
];

/// Beginnings and words of a line that names open work.
const OPENING: [&str; 6] = ["- [ ]", "* [ ]", "todo", "fixme", "next step", "remaining"];

/// Returns the digest of a part.
pub fn digest(request: &Request<'_>) -> String {
    let mut digest = Digest::default();
    if let Some(previous) = request.previous {
        digest.read(previous);
    }
    if !request.continues {
        // The focus depends on the instructions, which may be new ones.
        digest.take(FOCUS);
    }
    let focus: Vec<String> = request
        .instructions
        .unwrap_or_default()
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| word.chars().count() >= 4)
        .map(str::to_lowercase)
        .collect();
    let mut calls = HashMap::new();
    for view in request.messages.iter().filter_map(view) {
        digest.add(&view, &focus, &mut calls);
        calls.extend(view.calls.into_iter().map(|call| (call.id.clone(), call)));
    }
    if request.part == Part::TurnPrefix {
        // The goal of a single turn is its request, and the last requests repeat it in full.
        digest.take(GOALS);
    }
    digest.write(request.max_tokens)
}

/// The items of each section.
#[derive(Default)]
struct Digest {
    sections: [Vec<String>; SECTIONS.len()],
    earlier: String,
}

impl Digest {
    /// Reads an earlier summary. Text outside of a digest's sections stays as it is.
    fn read(&mut self, summary: &str) {
        let mut at = None;
        for line in summary.lines() {
            let heading = SECTIONS.iter().position(|(heading, _)| *heading == line.trim_end());
            if heading.is_some() {
                at = heading;
            } else if matches!(line, EARLIER_HEADING | "---" | SPLIT_TURN | "No prior history.") {
                at = None;
            } else if let Some(item) = at.and_then(|_| line.strip_prefix("- ")) {
                self.push(at.unwrap_or_default(), item, REQUEST);
            } else if at.is_none() && !(line.is_empty() && self.earlier.is_empty()) {
                self.earlier.push_str(line);
                self.earlier.push('\n');
            }
        }
    }

    fn add(&mut self, view: &View, focus: &[String], calls: &mut HashMap<String, Call>) {
        if view.is_error {
            let call = view.answers.as_ref().and_then(|id| calls.remove(id));
            let command = call.map(|call| call.line()).or_else(|| view.tool.clone());
            let command = clip(&command.unwrap_or_default(), ITEM / 2);
            let error = view.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            self.push(FAILED, &format!("{command}: {}", error.trim()), ITEM);
        }
        if view.speaker == Speaker::User && !view.text.trim().is_empty() {
            let first = view.text.lines().find(|line| !line.trim().is_empty());
            self.push(GOALS, first.unwrap_or_default(), ITEM);
            self.push(REQUESTS, &view.text, REQUEST);
        }
        if !matches!(view.speaker, Speaker::User | Speaker::Assistant) {
            return;
        }
        for line in view.text.lines() {
            let lower = line.to_lowercase();
            let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
            if focus.iter().any(|word| lower.contains(word.as_str())) {
                self.push(FOCUS, line, ITEM);
            }
            if view.speaker == Speaker::Assistant && has(&DECIDING) {
                self.push(DECISIONS, line, ITEM);
            }
            if view.speaker == Speaker::Assistant && has(&OPENING) {
                self.push(OPEN, line, ITEM);
            }
        }
    }

    fn take(&mut self, section: usize) -> Vec<String> {
        self.sections.get_mut(section).map(std::mem::take).unwrap_or_default()
    }

    /// Adds an item, or moves it to the end. Drops the oldest item of a full section.
    fn push(&mut self, section: usize, text: &str, longest: usize) {
        let text = clip(text.trim_start_matches(['-', '*', '#', ' ', '\t']), longest);
        let most = SECTIONS.get(section).map_or(0, |(_, most)| *most);
        let Some(items) = self.sections.get_mut(section) else { return };
        let known = items.iter().position(|item| *item == text);
        if text.is_empty() || (section == GOALS && known.is_some()) {
            return;
        }
        if let Some(known) = known {
            items.remove(known);
        }
        items.push(text);
        if items.len() > most {
            items.remove(if section == GOALS { FIRST_GOALS } else { 0 });
        }
    }

    /// Returns the text, of at most this many tokens.
    fn write(mut self, max_tokens: u64) -> String {
        let mut text = self.text();
        while tokens::of_text(&text) > max_tokens && self.drop_one() {
            text = self.text();
        }
        let earlier = self.earlier.trim();
        if !earlier.is_empty() {
            let used = tokens::of_text(&text) + tokens::of_text(EARLIER_HEADING) + 2;
            let room = usize::try_from(max_tokens.saturating_sub(used).saturating_mul(4));
            // A character outside of the basic plane has two units.
            let earlier = clip_lines(earlier, room.unwrap_or(EARLIER).min(EARLIER) / 2);
            if !earlier.is_empty() {
                let gap = if text.is_empty() { "" } else { "\n\n" };
                text = format!("{text}{gap}{EARLIER_HEADING}\n{earlier}");
            }
        }
        let mut units = max_tokens.saturating_mul(4);
        text.chars()
            .take_while(|character| match units.checked_sub(character.len_utf16() as u64) {
                Some(left) => {
                    units = left;
                    true
                }
                None => false,
            })
            .collect()
    }

    fn text(&self) -> String {
        let mut parts = Vec::new();
        for ((heading, _), items) in SECTIONS.iter().zip(&self.sections) {
            if !items.is_empty() {
                parts.push(format!("{heading}\n- {}", items.join("\n- ")));
            }
        }
        parts.join("\n\n")
    }

    /// Drops the oldest item of the longest section, but not the first goal. Returns false if each
    /// has one item at most.
    fn drop_one(&mut self) -> bool {
        let sections = self.sections.iter_mut().enumerate();
        match sections.max_by_key(|(_, items)| items.len()) {
            Some((section, items)) if items.len() > 1 => {
                items.remove(usize::from(section == GOALS));
                true
            }
            _ => false,
        }
    }
}

/// Returns a text as one line of at most `longest` characters, without control characters.
fn clip(text: &str, longest: usize) -> String {
    // Enough to see whether something is left.
    let text = text.chars().take(longest.saturating_mul(4));
    let plain: String =
        text.map(|character| if character.is_control() { ' ' } else { character }).collect();
    let line = plain.split_whitespace().collect::<Vec<&str>>().join(" ");
    match line.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default().trim_end()),
        None => line,
    }
}

/// Returns the first lines of a text, of at most `longest` characters, with a mark where it is cut.
fn clip_lines(text: &str, longest: usize) -> String {
    const MARK: &str = "[the rest was cut]";
    match text.char_indices().nth(longest) {
        None => text.to_owned(),
        Some(_) if longest <= MARK.len() => String::new(),
        Some(_) => {
            let kept: String = text.chars().take(longest - MARK.len() - 1).collect();
            format!("{}\n{MARK}", kept.trim_end())
        }
    }
}
