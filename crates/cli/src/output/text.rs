//! Text for a terminal: styled pieces, cut and wrapped by display width.
//!
//! Every piece passes [`safe`] when it is added, so that every string on the terminal is escaped.

use std::fmt::Write as _;

use clap::builder::styling::{Ansi256Color, Style as AnsiStyle};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::link::{self, LinkId};
use super::safe::safe;

/// The style of a piece. It never carries meaning alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Bold,
    Dim,
    Italic,
    /// The user's prompt.
    Accent,
    Code,
    Link,
    Good,
    Warning,
    Bad,
    /// A search match.
    Match,
    /// A path with a link to it.
    Path(LinkId),
    /// A session's id with a link to its transcript.
    Id(LinkId),
}

// From the palette of 256 colours: neither the terminal's theme nor its background makes them
// unreadable. The 16 basic colours have yellow and cyan, which cannot be read on white.
const TEAL: Ansi256Color = Ansi256Color(30);
const GREEN: Ansi256Color = Ansi256Color(28);
const ORANGE: Ansi256Color = Ansi256Color(130);
const RED: Ansi256Color = Ansi256Color(196);

impl Style {
    fn ansi(self) -> AnsiStyle {
        match self {
            Style::Plain | Style::Path(_) => AnsiStyle::new(),
            Style::Bold => AnsiStyle::new().bold(),
            Style::Dim => AnsiStyle::new().dimmed(),
            Style::Italic => AnsiStyle::new().italic(),
            Style::Accent => TEAL.on_default().bold(),
            Style::Code => TEAL.on_default(),
            Style::Link => AnsiStyle::new().underline(),
            Style::Good | Style::Id(_) => GREEN.on_default(),
            Style::Warning => ORANGE.on_default(),
            Style::Bad => RED.on_default().bold(),
            Style::Match => ORANGE.on_default().bold(),
        }
    }
}

/// One line of styled text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Text {
    pieces: Vec<(Style, String)>,
}

impl Text {
    /// Creates unstyled text.
    pub(crate) fn plain(text: impl AsRef<str>) -> Text {
        Text::default().and(text)
    }

    /// Creates styled text.
    pub(crate) fn styled(style: Style, text: impl AsRef<str>) -> Text {
        Text::default().with(style, text)
    }

    /// Creates the text of a path, with a link to it if there is one.
    pub(crate) fn path(shown: impl AsRef<str>, link: Option<LinkId>) -> Text {
        match link {
            Some(link) => Text::styled(Style::Path(link), shown),
            None => Text::plain(shown),
        }
    }

    /// Adds unstyled text.
    pub(crate) fn and(self, text: impl AsRef<str>) -> Text {
        self.with(Style::Plain, text)
    }

    /// Adds styled text.
    pub(crate) fn with(mut self, style: Style, text: impl AsRef<str>) -> Text {
        let text = safe(text.as_ref());
        match self.pieces.last_mut() {
            _ if text.is_empty() => {}
            Some((last, before)) if *last == style => before.push_str(&text),
            _ => self.pieces.push((style, text.into_owned())),
        }
        self
    }

    /// Adds all pieces of another text.
    pub(crate) fn join(mut self, other: Text) -> Text {
        let mut pieces = other.pieces.into_iter();
        if let (Some((last, before)), Some((style, text))) =
            (self.pieces.last_mut(), pieces.as_slice().first())
            && last == style
        {
            before.push_str(text);
            pieces.next();
        }
        self.pieces.extend(pieces);
        self
    }

    /// Joins facts with dots into as few lines as fit. Lines end between facts; a fact that is longer
    /// than a line is broken between its words.
    pub(crate) fn joined(facts: impl IntoIterator<Item = Text>, width: Option<usize>) -> Vec<Text> {
        const BETWEEN: &str = " · ";
        let mut lines: Vec<Text> = Vec::new();
        for fact in facts {
            match (lines.last_mut(), width) {
                (Some(line), None) => {
                    *line = std::mem::take(line).with(Style::Dim, BETWEEN).join(fact)
                }
                (Some(line), Some(width))
                    if line.width() + Text::plain(BETWEEN).width() + fact.width() <= width =>
                {
                    *line = std::mem::take(line).with(Style::Dim, BETWEEN).join(fact);
                }
                // An id stays whole, so that it can be copied.
                (_, Some(width)) if fact.pieces.iter().any(|(_, text)| text.contains(' ')) => {
                    lines.extend(fact.wrap(width));
                }
                _ => lines.push(fact),
            }
        }
        lines
    }

    /// Returns the same text in one style.
    pub(crate) fn restyled(mut self, style: Style) -> Text {
        self.pieces.iter_mut().for_each(|(piece, _)| *piece = style);
        self
    }

    /// Returns whether it is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the width in columns.
    pub(crate) fn width(&self) -> usize {
        self.pieces.iter().map(|(_, text)| text.width()).sum()
    }

    /// Renders the text, with or without colours.
    pub(crate) fn render(&self, with_colour: bool) -> String {
        let mut line = String::new();
        for (style, text) in &self.pieces {
            if let (Style::Path(link) | Style::Id(link), true) = (style, with_colour) {
                let target = link::target(*link);
                let ansi = style.ansi();
                let _ = write!(line, "\x1b]8;;{target}\x1b\\{ansi}{text}{ansi:#}\x1b]8;;\x1b\\");
            } else if with_colour && *style != Style::Plain {
                let ansi = style.ansi();
                // Writing to a string cannot fail.
                let _ = write!(line, "{ansi}{text}{ansi:#}");
            } else {
                line.push_str(text);
            }
        }
        line
    }

    /// Cuts out the middle until it fits, because both ends of a path matter.
    pub(crate) fn cut(self, width: usize) -> Text {
        if self.width() <= width {
            return self;
        }
        let keep = width.saturating_sub(1);
        let (front, back) = (keep / 2, keep - keep / 2);
        let characters: Vec<(Style, char)> = self.characters().collect();
        let mut text = take(characters.iter().copied(), front);
        text.push((Style::Dim, '…'));
        let mut tail = take(characters.iter().rev().copied(), back);
        tail.reverse();
        text.extend(tail);
        Text::from_characters(text)
    }

    /// Cuts off the end until it fits.
    pub(crate) fn shorten(self, width: usize) -> Text {
        if self.width() <= width {
            return self;
        }
        let mut text = take(self.characters(), width.saturating_sub(1));
        text.push((Style::Dim, '…'));
        Text::from_characters(text)
    }

    /// Breaks the text into lines at spaces. A word that is wider than a line is broken after
    /// slashes, or anywhere.
    pub(crate) fn wrap(&self, width: usize) -> Vec<Text> {
        broken(self.characters().collect(), width)
    }

    /// Breaks a sentence of quipu into lines. A command in it (`` `quipu …` ``, `` `-n 0` ``) stays on one line,
    /// even if it is wider than that, so that it can be copied.
    pub(crate) fn wrap_sentence(&self, width: usize) -> Vec<Text> {
        let mut characters: Vec<(Style, char)> = self.characters().collect();
        let starts = |rest: &[(Style, char)]| {
            COMMANDS.iter().any(|start| {
                rest.len() > start.len()
                    && rest.iter().zip(start.chars()).all(|((_, letter), start)| *letter == start)
            })
        };
        let mut at = 0;
        while at < characters.len() {
            let rest = characters.get(at..).unwrap_or_default();
            let end = rest.iter().skip(1).position(|(_, letter)| *letter == '`');
            at += match end.filter(|_| starts(rest)) {
                Some(end) => {
                    for (_, letter) in characters.iter_mut().skip(at).take(end + 1) {
                        *letter = if *letter == ' ' { UNBREAKABLE } else { *letter };
                    }
                    end + 2
                }
                None => 1,
            };
        }
        let unmarked = |(style, letter)| (style, if letter == UNBREAKABLE { ' ' } else { letter });
        let lines = broken(characters, width).into_iter();
        lines.map(|line| Text::from_characters(line.characters().map(unmarked))).collect()
    }

    fn characters(&self) -> impl Iterator<Item = (Style, char)> + '_ {
        self.pieces
            .iter()
            .flat_map(|(style, text)| text.chars().map(|character| (*style, character)))
    }

    /// Builds a text from characters of another one, which are escaped already.
    fn from_characters(characters: impl IntoIterator<Item = (Style, char)>) -> Text {
        let mut pieces: Vec<(Style, String)> = Vec::new();
        for (style, character) in characters {
            match pieces.last_mut() {
                Some((last, text)) if *last == style => text.push(character),
                _ => pieces.push((style, character.to_string())),
            }
        }
        Text { pieces }
    }
}

/// The beginnings of a command and of an option in a sentence.
const COMMANDS: [&str; 2] = ["`quipu ", "`-"];

/// Stands for a space at which a line must not end. No text contains this character, because line
/// breaks are escaped.
const UNBREAKABLE: char = '\n';

/// Breaks characters into lines.
fn broken(characters: Vec<(Style, char)>, width: usize) -> Vec<Text> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let mut line: Vec<(Style, char)> = Vec::new();
    // Each run is a word with the spaces before it.
    for run in characters.chunk_by(|(_, left), (_, right)| *left == ' ' || *right != ' ') {
        let word = run.iter().position(|(_, character)| *character != ' ').unwrap_or(run.len());
        let (spaces, word) = run.split_at(word);
        if columns(&line) + columns(run) <= width {
            line.extend(run);
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        } else if spaces.len() < width {
            line.extend(spaces);
        }
        for part in parts(word, width) {
            if !line.is_empty() && columns(&line) + columns(part) > width {
                lines.push(std::mem::take(&mut line));
            }
            line.extend(part);
        }
    }
    lines.push(line);
    lines.into_iter().map(Text::from_characters).collect()
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text::plain(text)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text::plain(text)
    }
}

/// Returns the width of characters, in columns.
fn columns(characters: &[(Style, char)]) -> usize {
    characters.iter().map(|(_, character)| columns_of(*character)).sum()
}

/// Returns the width of one character. A variation selector widens the character before it.
fn columns_of(character: char) -> usize {
    if matches!(character, '\u{fe0f}' | UNBREAKABLE) { 1 } else { character.width().unwrap_or(0) }
}

/// Splits a word into parts that fit on a line: between slashes if possible.
fn parts(word: &[(Style, char)], width: usize) -> Vec<&[(Style, char)]> {
    let is_kept = word.iter().any(|(_, character)| *character == UNBREAKABLE);
    if is_kept || columns(word) <= width {
        return vec![word];
    }
    let mut parts = Vec::new();
    for mut part in word.split_inclusive(|(_, character)| *character == '/') {
        while columns(part) > width {
            let fits = take(part.iter().copied(), width).len().max(1);
            let (head, rest) = part.split_at(fits.min(part.len()));
            parts.push(head);
            part = rest;
        }
        if !part.is_empty() {
            parts.push(part);
        }
    }
    parts
}

/// Returns the first characters that fit.
fn take(characters: impl Iterator<Item = (Style, char)>, width: usize) -> Vec<(Style, char)> {
    let mut used = 0;
    characters
        .take_while(|(_, character)| {
            used += columns_of(*character);
            used <= width
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, width: usize) -> Vec<String> {
        Text::plain(text).wrap(width).iter().map(|line| line.render(false)).collect()
    }

    #[test]
    fn wraps_at_spaces() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("one two three", 80), ["one two three"]);
        assert_eq!(wrapped("", 10), [""]);
    }

    #[test]
    fn breaks_long_words() {
        assert_eq!(wrapped("a abcdefghij b", 4), ["a", "abcd", "efgh", "ij b"]);
        assert_eq!(wrapped("at some/where/else", 11), ["at", "some/where/", "else"]);
        assert_eq!(wrapped("日本語", 1), ["日", "本", "語"]);
    }

    #[test]
    fn keeps_spaces_at_the_beginning() {
        assert_eq!(wrapped("  one two", 6), ["  one", "two"]);
        assert_eq!(wrapped("one  two ", 9), ["one  two "]);
    }

    #[test]
    fn a_command_is_never_broken() {
        let sentence = |text: &str, width| -> Vec<String> {
            let lines = Text::plain(text).wrap_sentence(width);
            lines.iter().map(|line| line.render(false)).collect()
        };
        let text = "see `quipu show 'a b' --turn 3`, or `x y` and more";
        assert_eq!(
            sentence(text, 12),
            ["see", "`quipu show 'a b' --turn 3`,", "or `x y` and", "more"]
        );
        assert_eq!(sentence(text, 80), [text]);
        assert_eq!(sentence("an open `quipu show a", 9), ["an open", "`quipu", "show a"]);
    }

    #[test]
    fn pictures_are_two_columns_wide() {
        for width in 4..12 {
            for line in Text::plain("a ⚠️⚠️⚠️⚠️ b⚠️c").wrap(width) {
                assert!(line.width() <= width, "{}", line.render(false));
            }
        }
    }

    #[test]
    fn cuts_the_middle_by_display_width() {
        let cut = |text: &str, width| Text::plain(text).cut(width).render(false);
        assert_eq!(cut("abcdefghij", 7), "abc…hij");
        assert_eq!(cut("日本語日本語", 7), "日…語");
        assert_eq!(cut("short", 7), "short");
    }

    #[test]
    fn colours_only_when_asked_for() {
        let text = Text::styled(Style::Good, "ok").and(" then");
        assert_eq!(text.render(false), "ok then");
        assert_eq!(text.render(true), "\u{1b}[38;5;28mok\u{1b}[0m then");
    }

    /// The contrast of each colour is at least 3.9 to 1, on black and on white.
    #[test]
    fn colours_can_be_read_on_black_and_on_white() {
        let level = |index: u8| if index == 0 { 0.0 } else { f64::from(55 + 40 * index) / 255.0 };
        let linear = |part: f64| match part {
            part if part <= 0.04045 => part / 12.92,
            part => ((part + 0.055) / 1.055).powf(2.4),
        };
        for Ansi256Color(number) in [TEAL, GREEN, ORANGE, RED] {
            let cube = number - 16;
            let [red, green, blue] =
                [cube / 36, cube / 6 % 6, cube % 6].map(|index| linear(level(index)));
            let light = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
            let (on_black, on_white) = ((light + 0.05) / 0.05, 1.05 / (light + 0.05));
            assert!(on_black >= 3.9 && on_white >= 3.9, "{number}: {on_black} {on_white}");
        }
    }

    #[test]
    fn escapes_are_written_out() {
        assert_eq!(Text::plain("a\x1b[2Jb").render(true), "a\\u{1b}[2Jb");
    }
}
