//! The snippet of a text that is shown for a hit, with the matches marked.

use std::ops::Range;

use super::words::words;

/// A word or phrase to mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needle {
    /// The folded words of a phrase, in order.
    pub words: Vec<String>,
    /// True if the last word is a prefix.
    pub is_prefix: bool,
}

/// A part of a text, with its line breaks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snippet {
    /// The text. A run of spaces is one space; a run with line breaks is one line break and the
    /// indentation of the next line. So code stays readable.
    pub text: String,
    /// The matches: start and end in bytes.
    pub marks: Vec<(usize, usize)>,
    /// True if text was cut off before it.
    pub is_cut_before: bool,
    /// True if text was cut off after it.
    pub is_cut_after: bool,
}

/// Maximum number of matches that are compared to choose the best place. It bounds the work for
/// long texts.
const MAX_PLACES: usize = 2000;

/// Returns the matches in a text: start, end and index of the needle.
pub fn places(text: &str, needles: &[Needle]) -> Vec<(usize, usize, usize)> {
    let longest = needles.iter().map(|needle| needle.words.len()).max().unwrap_or(0);
    let mut places = Vec::new();
    // The most recent words, as many as the longest phrase has.
    let mut recent: Vec<super::words::Word<'_>> = Vec::new();
    for word in words(text) {
        if recent.len() >= longest.max(1) {
            recent.remove(0);
        }
        recent.push(word);
        for (index, needle) in needles.iter().enumerate() {
            let Some(from) = recent.len().checked_sub(needle.words.len().max(1)) else { continue };
            let run = recent.get(from..).unwrap_or_default();
            let is_here = run.len() == needle.words.len()
                && run.iter().zip(&needle.words).enumerate().all(|(at, (word, wanted))| {
                    let may_continue = needle.is_prefix && at + 1 == needle.words.len();
                    match may_continue {
                        true => word.folded.starts_with(wanted.as_str()),
                        false => word.folded == wanted.as_str(),
                    }
                });
            if is_here && let (Some(first), Some(last)) = (run.first(), run.last()) {
                places.push((first.start, last.end, index));
                if places.len() >= MAX_PLACES {
                    return places;
                }
            }
        }
    }
    places
}

/// Returns the part of `text` that holds the most different needles, about `width` bytes long.
pub fn around(text: &str, places: &[(usize, usize, usize)], width: usize) -> Snippet {
    let width = width.max(16);
    let mut best: Option<(usize, usize, usize)> = None;
    for (at, (start, _, _)) in places.iter().enumerate() {
        let near = places.get(at..).unwrap_or_default();
        let near: Vec<_> =
            near.iter().take_while(|(_, end, _)| end - start.min(end) <= width * 3 / 4).collect();
        let mut kinds: Vec<usize> = near.iter().map(|(_, _, kind)| *kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let end = near.last().map_or(*start, |(_, end, _)| *end);
        if best.is_none_or(|(most, _, _)| kinds.len() > most) {
            best = Some((kinds.len(), *start, end));
        }
    }
    let (start, end) = best.map_or((0, 0), |(_, start, end)| (start, end.max(start)));
    // The match is slightly left of the middle, because the text after it is more useful.
    let room = width.saturating_sub(end - start);
    let from = word_boundary(text, start.saturating_sub(room / 3), start);
    let to = text.floor_char_boundary((from + width).max(end).min(text.len()));
    if let Some(path) = cut_path(text, to) {
        // Matches stay, and so does the name of the file.
        let ends = places.iter().map(|(_, match_end, _)| *match_end);
        let last_match = ends.filter(|match_end| *match_end <= path.end).max();
        let left_out = to.max(last_match.unwrap_or(0))..path.name;
        return cut_out(text, from..path.end, left_out, places);
    }
    let to = match text.get(to..).is_some_and(|after| !after.is_empty()) {
        true => text
            .get(end.min(to)..to)
            .and_then(|tail| tail.rfind(char::is_whitespace))
            .filter(|space| to - (end.min(to) + space) < 24)
            .map_or(to, |space| end.min(to) + space),
        false => to,
    };
    cut_out(text, from..to, to..to, places)
}

/// The places in a path.
struct PathEnd {
    /// The start of the name of the file, with the separator before it.
    name: usize,
    /// The end of the path.
    end: usize,
}

/// Returns the path that a cut at `at` would cut in two.
fn cut_path(text: &str, at: usize) -> Option<PathEnd> {
    /// The longest path that Linux accepts, in bytes. A longer word without spaces is no path.
    const LONGEST: usize = 4096;
    let (before, after) = text.split_at_checked(at).filter(|(_, after)| !after.is_empty())?;
    let is_apart = |character: char| character.is_whitespace() || matches!(character, '"' | '\'');
    let rest = after.get(..after.floor_char_boundary(LONGEST)).unwrap_or(after);
    let end = match rest.find(is_apart) {
        Some(0) => return None,
        Some(length) => at + length,
        None if rest.len() == after.len() => text.len(),
        None => return None,
    };
    let near = before.floor_char_boundary(at.saturating_sub(LONGEST));
    let start = before.get(near..)?.rfind(is_apart).map_or(near, |space| near + space + 1);
    let name = start + text.get(start..end)?.rfind(['/', '\\'])?;
    Some(PathEnd { name, end })
}

/// Returns the beginning of the next word after `at`, if there is one nearby and before `limit`;
/// otherwise `at`.
fn word_boundary(text: &str, at: usize, limit: usize) -> usize {
    let at = text.floor_char_boundary(at);
    if at == 0 {
        return 0;
    }
    let after = text.get(at..limit).unwrap_or_default();
    match after.find(char::is_whitespace) {
        Some(space) if space < 24 => text.ceil_char_boundary(at + space + 1).min(limit),
        _ => at,
    }
}

/// The widest indentation of a line, in columns. Deeper code is moved to the left.
const WIDEST_INDENT: usize = 16;

/// The columns of a tab.
const TAB: usize = 4;

/// The spaces between two words.
#[derive(Debug, Clone, Copy)]
enum Gap {
    Space,
    /// A line break, and the indentation after it.
    Break(usize),
}

impl Gap {
    fn after(gap: Option<Gap>, character: char) -> Gap {
        match (gap, character) {
            (_, '\n') => Gap::Break(0),
            (Some(Gap::Break(indent)), ' ') => Gap::Break(indent + 1),
            (Some(Gap::Break(indent)), '\t') => Gap::Break(indent + TAB),
            (Some(gap), _) => gap,
            (None, _) => Gap::Space,
        }
    }

    fn add_to(self, text: &mut String) {
        match self {
            // Nothing precedes the first word.
            _ if text.is_empty() => {}
            Gap::Space => text.push(' '),
            Gap::Break(indent) => {
                text.push('\n');
                text.extend(std::iter::repeat_n(' ', indent.min(WIDEST_INDENT)));
            }
        }
    }
}

/// Returns `text[part]`, with `…` in the place of the text in `left_out`.
fn cut_out(
    text: &str,
    part: Range<usize>,
    left_out: Range<usize>,
    places: &[(usize, usize, usize)],
) -> Snippet {
    let Range { start: from, end: to } = part;
    let mut snippet = Snippet {
        is_cut_before: text.get(..from).is_some_and(|before| !before.trim().is_empty()),
        is_cut_after: text.get(to..).is_some_and(|after| !after.trim().is_empty()),
        ..Snippet::default()
    };
    // Overlapping matches become one mark.
    let mut marks: Vec<(usize, usize)> = Vec::new();
    for (start, end, _) in places.iter().filter(|(start, end, _)| *start >= from && *end <= to) {
        match marks.last_mut() {
            Some(last) if *start < last.1 => last.1 = last.1.max(*end),
            _ => marks.push((*start, *end)),
        }
    }
    let mut marks = marks.into_iter().peekable();
    let mut began = 0;
    let mut colour = Colour::No;
    let mut gap: Option<Gap> = None;
    for (offset, character) in text.get(from..to).unwrap_or_default().char_indices() {
        let at = from + offset;
        if marks.next_if(|(_, end)| at >= *end).is_some() {
            snippet.marks.push((began, snippet.text.len()));
        }
        if left_out.contains(&at) {
            if at == left_out.start {
                snippet.text.push('…');
            }
            continue;
        }
        colour = colour.after(character);
        let is_space = character.is_whitespace();
        if !is_space
            && colour == Colour::No
            && let Some(gap) = gap.take()
        {
            gap.add_to(&mut snippet.text);
        }
        if marks.peek().is_some_and(|(start, _)| *start == at) {
            began = snippet.text.len();
        }
        if colour != Colour::No {
            continue;
        }
        if is_space {
            gap = Some(Gap::after(gap, character));
        } else {
            snippet.text.push(character);
        }
    }
    if marks.next().is_some() {
        snippet.marks.push((began, snippet.text.len()));
    }
    snippet
}

/// The state inside a terminal colour sequence. Tool output has many of them, and snippets leave
/// them out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Colour {
    No,
    Escape,
    Inside,
    Last,
}

impl Colour {
    fn after(self, character: char) -> Colour {
        match (self, character) {
            (_, '\u{1b}') => Colour::Escape,
            (Colour::Escape, '[') => Colour::Inside,
            (Colour::Inside, '0'..='9' | ';' | ':') => Colour::Inside,
            (Colour::Inside, 'm' | 'K') => Colour::Last,
            _ => Colour::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn needles(wanted: &[&str]) -> Vec<Needle> {
        wanted
            .iter()
            .map(|text| Needle {
                words: text.trim_end_matches('*').split(' ').map(str::to_owned).collect(),
                is_prefix: text.ends_with('*'),
            })
            .collect()
    }

    fn shown(text: &str, wanted: &[&str], width: usize) -> String {
        let places = places(text, &needles(wanted));
        let snippet = around(text, &places, width);
        let mut shown = snippet.text.clone();
        for (start, end) in snippet.marks.iter().rev() {
            shown.insert(*end, ']');
            shown.insert(*start, '[');
        }
        let dots = |is_cut| if is_cut { "…" } else { "" };
        format!("{}{shown}{}", dots(snippet.is_cut_before), dots(snippet.is_cut_after))
    }

    #[test]
    fn matches_are_marked() {
        assert_eq!(shown("The error, an Error.", &["error"], 80), "The [error], an [Error].");
        assert_eq!(shown("a_b  c\n\nd", &["a b", "d"], 80), "[a_b] c\n[d]");
        assert_eq!(
            shown("fn  main() {\n\n    run();  \n\tstop();\n}\n", &["run"], 80),
            "fn main() {\n    [run]();\n    stop();\n}"
        );
        assert_eq!(shown("configure it", &["conf*"], 80), "[configure] it");
        assert_eq!(shown("Über allem", &["uber"], 80), "[Über] allem");
        assert_eq!(shown("nothing here", &["else"], 80), "nothing here");
        assert_eq!(shown("", &["x"], 80), "");
        assert_eq!(shown("\u{1b}[1;31mred\u{1b}[0m [x]", &["x"], 80), "red [[x]]");
    }

    #[test]
    fn the_part_with_the_most_needles_is_shown() {
        let text = format!("alpha {} alpha beta {}", "filler ".repeat(50), "more ".repeat(50));
        let shown = shown(&text, &["alpha", "beta"], 60);
        assert!(shown.contains("[alpha] [beta]"), "{shown}");
        assert!(shown.starts_with('…') && shown.ends_with('…'), "{shown}");
    }

    #[test]
    fn a_path_keeps_the_name_of_its_file() {
        let path = format!("/home/{}name.rs", "folder/".repeat(60));
        let text = format!("Read {path} and more words than fit into a line");
        let cut = shown(&text, &["read"], 40);
        assert_eq!(cut, "[Read] /home/folder/folder/folder/folder/f…/name.rs…");
        let cut = shown(&text, &["name"], 40);
        assert!(cut.starts_with('…') && cut.contains("/folder/[name].rs and"), "{cut}");
        // The only text is a path, and nothing was searched for.
        let cut = shown(&path, &[], 40);
        assert_eq!(cut, "/home/folder/folder/folder/folder/folder…/name.rs");
        // Long words that are no paths are cut as before.
        let cut = shown(&format!("{} end", "x".repeat(500)), &[], 40);
        assert_eq!(cut, format!("{}…", "x".repeat(40)));
        let long = format!("/{}", "x/".repeat(4000));
        assert!(shown(&long, &[], 40).chars().count() < 60);
    }

    proptest! {
        #[test]
        fn marks_are_inside_the_text_and_in_order(text in ".{0,300}", word in "[a-c]{1,2}", width in 0_usize..120, path in "[a-c /]{0,90}") {
            let text = text + &path;
            let places = places(&text, &needles(&[&word]));
            let snippet = around(&text, &places, width);
            let mut last = 0;
            for (start, end) in &snippet.marks {
                prop_assert!(*start >= last && start <= end && *end <= snippet.text.len());
                prop_assert!(snippet.text.is_char_boundary(*start) && snippet.text.is_char_boundary(*end));
                last = *end;
            }
            prop_assert!(!snippet.text.contains("\n\n") && !snippet.text.starts_with('\n'));
        }
    }
}
