//! Text for a terminal: pieces with a style each, cut and wrapped by display width.
//!
//! Every piece passes [`safe`] when it is added, so no string reaches the terminal around it.

use std::fmt::Write as _;

use clap::builder::styling::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::safe::safe;

/// How a piece looks. Never the only bearer of a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Plain,
    Bold,
    Dim,
    Italic,
    /// Who speaks.
    Accent,
    Code,
    Link,
    Good,
    Warning,
    Bad,
    /// What was looked for.
    Match,
}

impl Look {
    fn style(self) -> Style {
        match self {
            Look::Plain => Style::new(),
            Look::Bold => Style::new().bold(),
            Look::Dim => Style::new().dimmed(),
            Look::Italic => Style::new().italic(),
            Look::Accent => AnsiColor::Cyan.on_default().bold(),
            Look::Code => AnsiColor::Cyan.on_default(),
            Look::Link => Style::new().underline(),
            Look::Good => AnsiColor::Green.on_default(),
            Look::Warning => AnsiColor::Yellow.on_default(),
            Look::Bad => AnsiColor::Red.on_default().bold(),
            Look::Match => AnsiColor::Yellow.on_default().bold(),
        }
    }
}

/// One line of styled text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Text {
    pieces: Vec<(Look, String)>,
}

impl Text {
    /// Unstyled text.
    pub(crate) fn plain(text: impl AsRef<str>) -> Text {
        Text::default().and(text)
    }

    /// Text that looks so.
    pub(crate) fn of(look: Look, text: impl AsRef<str>) -> Text {
        Text::default().with(look, text)
    }

    /// Adds unstyled text.
    pub(crate) fn and(self, text: impl AsRef<str>) -> Text {
        self.with(Look::Plain, text)
    }

    /// Adds text that looks so.
    pub(crate) fn with(mut self, look: Look, text: impl AsRef<str>) -> Text {
        let text = safe(text.as_ref());
        if !text.is_empty() {
            self.pieces.push((look, text.into_owned()));
        }
        self
    }

    /// Adds all pieces of another text.
    pub(crate) fn join(mut self, other: Text) -> Text {
        self.pieces.extend(other.pieces);
        self
    }

    /// The same text, all of it looking so.
    pub(crate) fn looking(mut self, look: Look) -> Text {
        self.pieces.iter_mut().for_each(|(piece, _)| *piece = look);
        self
    }

    /// True if it shows nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// How many columns it takes.
    pub(crate) fn width(&self) -> usize {
        self.pieces.iter().map(|(_, text)| text.width()).sum()
    }

    /// The text with its colours, or without.
    pub(crate) fn render(&self, with_colour: bool) -> String {
        let mut line = String::new();
        for (look, text) in &self.pieces {
            if with_colour && *look != Look::Plain {
                let style = look.style();
                // Writing to a string cannot fail.
                let _ = write!(line, "{style}{text}{style:#}");
            } else {
                line.push_str(text);
            }
        }
        line
    }

    /// Cuts out the middle until it fits: both ends of a path say something.
    pub(crate) fn cut(self, width: usize) -> Text {
        if self.width() <= width {
            return self;
        }
        let keep = width.saturating_sub(1);
        let (front, back) = (keep / 2, keep - keep / 2);
        let characters: Vec<(Look, char)> = self.characters().collect();
        let mut text = take(characters.iter().copied(), front);
        text.push((Look::Dim, '…'));
        let mut tail = take(characters.iter().rev().copied(), back);
        tail.reverse();
        text.extend(tail);
        Text::from_characters(text)
    }

    /// Cuts off its end until it fits.
    pub(crate) fn shorten(self, width: usize) -> Text {
        if self.width() <= width {
            return self;
        }
        let mut text = take(self.characters(), width.saturating_sub(1));
        text.push((Look::Dim, '…'));
        Text::from_characters(text)
    }

    /// Breaks it into lines at spaces. A word that is wider than a line is broken after slashes,
    /// or where it must be.
    pub(crate) fn wrap(&self, width: usize) -> Vec<Text> {
        let width = width.max(1);
        let characters: Vec<(Look, char)> = self.characters().collect();
        let mut lines = Vec::new();
        let mut line: Vec<(Look, char)> = Vec::new();
        // Each run: a word with the spaces before it.
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

    fn characters(&self) -> impl Iterator<Item = (Look, char)> + '_ {
        self.pieces.iter().flat_map(|(look, text)| text.chars().map(|character| (*look, character)))
    }

    /// Only for characters that came out of a text, which are safe already.
    fn from_characters(characters: impl IntoIterator<Item = (Look, char)>) -> Text {
        let mut pieces: Vec<(Look, String)> = Vec::new();
        for (look, character) in characters {
            match pieces.last_mut() {
                Some((last, text)) if *last == look => text.push(character),
                _ => pieces.push((look, character.to_string())),
            }
        }
        Text { pieces }
    }
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

/// How many columns characters take.
fn columns(characters: &[(Look, char)]) -> usize {
    characters.iter().map(|(_, character)| columns_of(*character)).sum()
}

/// How many columns one takes. What makes a picture of the character before it makes that wider.
fn columns_of(character: char) -> usize {
    if character == '\u{fe0f}' { 1 } else { character.width().unwrap_or(0) }
}

/// Pieces of a word that each fit on a line: all of it, or what stands between slashes, or less.
fn parts(word: &[(Look, char)], width: usize) -> Vec<&[(Look, char)]> {
    if columns(word) <= width {
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

/// The first characters that fit.
fn take(characters: impl Iterator<Item = (Look, char)>, width: usize) -> Vec<(Look, char)> {
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
        let text = Text::of(Look::Good, "ok").and(" then");
        assert_eq!(text.render(false), "ok then");
        assert_eq!(text.render(true), "\u{1b}[32mok\u{1b}[0m then");
    }

    #[test]
    fn escapes_are_written_out() {
        assert_eq!(Text::plain("a\x1b[2Jb").render(true), "a\\u{1b}[2Jb");
    }
}
