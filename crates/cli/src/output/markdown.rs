//! Markdown on a terminal, laid out and wrapped.
//!
//! Every word goes through [`Text`], so that nothing in a message reaches the terminal unescaped.
//! Unknown syntax and HTML tags are shown as written.

mod table;

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use self::table::Table;
use super::text::{Style, Text};

/// Depth after which quotes and lists are not indented further.
const MAX_INDENTS: usize = 6;

/// Indentation of code.
const CODE_INDENT: &str = "    ";

/// Lays Markdown out in lines of at most `width` columns. With `None`, lines are not wrapped.
pub(crate) fn markdown(source: &str, width: Option<usize>) -> Vec<Text> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut page = Page { width, ..Page::default() };
    for event in Parser::new_ext(source, options) {
        page.event(event);
    }
    page.end_line();
    page.lines
}

/// Lays plain text out: each line wrapped by itself, tabs as spaces.
pub(crate) fn plain(source: &str, style: Style, width: Option<usize>) -> Vec<Text> {
    let mut lines = Vec::new();
    for line in source.trim_end().lines() {
        let line = Text::styled(style, untabbed(line));
        match width {
            Some(width) => lines.extend(line.wrap(width)),
            None => lines.push(line),
        }
    }
    lines
}

/// Replaces tabs by spaces, because a tab moves a terminal's cursor.
fn untabbed(line: &str) -> String {
    line.trim_end_matches('\r').replace('\t', CODE_INDENT)
}

/// The text before the lines of a block.
#[derive(Debug, Clone)]
struct Indent {
    /// Before the first line, until that is written.
    first: Option<Text>,
    /// Before all other lines.
    rest: Text,
}

#[derive(Debug, Default)]
struct Page {
    width: Option<usize>,
    lines: Vec<Text>,
    /// The current line.
    line: Text,
    indents: Vec<Indent>,
    /// Next numbers of the open lists; `None` for those with bullets.
    lists: Vec<Option<u64>>,
    strong: usize,
    emphasis: usize,
    heading: usize,
    /// The text of a code block.
    code: Option<String>,
    /// Targets of the open links, and their text so far.
    links: Vec<(String, String)>,
    table: Option<Table>,
    /// True if an empty line comes before the next block.
    wants_gap: bool,
}

impl Page {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                match &mut self.code {
                    Some(code) => code.push_str(&text),
                    None => self.words(self.style(), &text),
                }
            }
            Event::Code(code) => self.words(Style::Code, &format!("`{code}`")),
            Event::Html(html) | Event::InlineHtml(html) => {
                for (index, line) in html.trim_end_matches('\n').split('\n').enumerate() {
                    if index > 0 {
                        self.end_line();
                    }
                    self.words(Style::Dim, line);
                }
            }
            // In a chat, every line break is intended.
            Event::SoftBreak | Event::HardBreak => match &mut self.table {
                Some(table) => table.words(Style::Plain, " "),
                None => self.end_line(),
            },
            Event::Rule => {
                self.begin_block();
                let room = self.room().map_or(24, |room| room.min(24));
                self.line = Text::styled(Style::Dim, "─".repeat(room));
                self.end_block();
            }
            Event::TaskListMarker(is_done) => {
                self.words(Style::Dim, if is_done { "[x] " } else { "[ ] " });
            }
            Event::FootnoteReference(name) => self.words(Style::Dim, &format!("[{name}]")),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.begin_block(),
            Tag::Heading { level, .. } => {
                self.begin_block();
                self.heading += 1;
                self.words(Style::Dim, &format!("{} ", "#".repeat(depth(level))));
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                let bar = Text::styled(Style::Dim, "│ ");
                self.indents.push(Indent { first: None, rest: bar });
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                if let CodeBlockKind::Fenced(language) = kind
                    && !language.is_empty()
                {
                    self.words(Style::Dim, &format!("{CODE_INDENT}{language}"));
                    self.end_line();
                }
                self.code = Some(String::new());
            }
            Tag::List(first) => {
                // A list inside an item follows without an empty line.
                if self.lists.is_empty() {
                    self.begin_block();
                } else {
                    self.end_line();
                }
                self.lists.push(first);
            }
            Tag::Item => {
                self.end_line();
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let mark = format!("{number}. ");
                        *number = number.saturating_add(1);
                        mark
                    }
                    _ => "• ".to_owned(),
                };
                let rest = Text::plain(" ".repeat(Text::plain(&mark).width()));
                let first = Some(Text::styled(Style::Dim, mark));
                self.indents.push(Indent { first, rest });
                self.wants_gap = false;
            }
            Tag::Table(alignments) => {
                self.begin_block();
                self.table = Some(Table::new(alignments.iter().map(is_right_aligned).collect()));
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.row();
                }
            }
            Tag::TableCell => {
                if let Some(table) = &mut self.table {
                    table.cell();
                }
            }
            Tag::Strong => self.strong += 1,
            Tag::Emphasis => self.emphasis += 1,
            Tag::Strikethrough => self.words(Style::Dim, "~~"),
            Tag::Link { dest_url, .. } => self.links.push((dest_url.into_string(), String::new())),
            Tag::Image { dest_url, .. } => {
                self.words(Style::Dim, "image: ");
                self.links.push((dest_url.into_string(), String::new()));
            }
            Tag::HtmlBlock => self.begin_block(),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_block(),
            TagEnd::Heading(_) => {
                self.heading = self.heading.saturating_sub(1);
                self.end_block();
            }
            TagEnd::BlockQuote(_) => {
                self.end_block();
                self.indents.pop();
            }
            TagEnd::CodeBlock => {
                let code = self.code.take().unwrap_or_default();
                for line in code.trim_end_matches('\n').split('\n') {
                    self.code_line(line);
                }
                self.end_block();
            }
            TagEnd::List(_) => {
                self.lists.pop();
                if self.lists.is_empty() {
                    self.end_block();
                }
            }
            TagEnd::Item => {
                self.end_line();
                // An item without text still has its mark.
                if let Some(Indent { first: Some(_), .. }) = self.indents.last() {
                    self.write(Text::default());
                }
                self.indents.pop();
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let lines = table.lay_out(self.room());
                    lines.into_iter().for_each(|line| self.write(line));
                }
                self.end_block();
            }
            TagEnd::Strong => self.strong = self.strong.saturating_sub(1),
            TagEnd::Emphasis => self.emphasis = self.emphasis.saturating_sub(1),
            TagEnd::Strikethrough => self.words(Style::Dim, "~~"),
            TagEnd::Link | TagEnd::Image => {
                if let Some((target, shown)) = self.links.pop()
                    && !target.is_empty()
                    && target != shown
                    && target.strip_prefix("mailto:") != Some(&shown)
                {
                    self.words(Style::Dim, &format!(" ({target})"));
                }
            }
            _ => {}
        }
    }

    /// Returns the style of words at this place.
    fn style(&self) -> Style {
        if self.strong > 0 || self.heading > 0 {
            Style::Bold
        } else if self.emphasis > 0 {
            Style::Italic
        } else if !self.links.is_empty() {
            Style::Link
        } else {
            Style::Plain
        }
    }

    fn words(&mut self, style: Style, words: &str) {
        if let Some((_, shown)) = self.links.last_mut() {
            shown.push_str(words);
        }
        let words = words.replace(['\t', '\n', '\r'], " ");
        match &mut self.table {
            Some(table) => table.words(style, &words),
            None => self.line = std::mem::take(&mut self.line).with(style, words),
        }
    }

    fn begin_block(&mut self) {
        self.end_line();
        if std::mem::take(&mut self.wants_gap) {
            self.write(Text::default());
        }
    }

    fn end_block(&mut self) {
        self.end_line();
        self.wants_gap = true;
    }

    /// Writes the current line, if there is one.
    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return;
        }
        match self.room() {
            Some(room) => line.wrap(room).into_iter().for_each(|line| self.write(line)),
            None => self.write(line),
        }
    }

    fn code_line(&mut self, line: &str) {
        let line = Text::plain(untabbed(line));
        let lines = match self.room() {
            Some(room) => line.wrap(room.saturating_sub(CODE_INDENT.len())),
            None => vec![line],
        };
        for line in lines {
            self.write(Text::plain(CODE_INDENT).join(line));
        }
    }

    /// Returns how many columns are left beside the indents.
    fn room(&self) -> Option<usize> {
        let taken: usize = self.shown_indents().map(|indent| indent.rest.width()).sum();
        self.width.map(|width| width.saturating_sub(taken).max(1))
    }

    /// Returns the indents that fit: on a narrow screen, they take at most half of it.
    fn shown_indents(&self) -> impl Iterator<Item = &Indent> {
        let most = self.width.map_or(usize::MAX, |width| width / 2);
        let mut used = 0;
        self.indents.iter().take(MAX_INDENTS).take_while(move |indent| {
            used += indent.rest.width();
            used <= most
        })
    }

    fn write(&mut self, line: Text) {
        let shown = self.shown_indents().count();
        let mut start = Text::default();
        for (index, indent) in self.indents.iter_mut().enumerate() {
            let mark = indent.first.take();
            if index < shown {
                start = start.join(mark.unwrap_or_else(|| indent.rest.clone()));
            }
        }
        self.lines.push(start.join(line));
    }
}

fn depth(level: HeadingLevel) -> usize {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

fn is_right_aligned(alignment: &Alignment) -> bool {
    matches!(alignment, Alignment::Right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, width: usize, shown: &str) {
        let lines: Vec<String> =
            markdown(source, Some(width)).iter().map(|line| line.render(false)).collect();
        let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
        assert_eq!(lines.join("\n"), shown, "{source:?}");
    }

    #[test]
    fn paragraphs_and_headings_are_set_apart() {
        check(
            "# One\ntwo *three* **four**\nfive\n\nsix `seven`",
            20,
            "# One\n\ntwo three four\nfive\n\nsix `seven`",
        );
        check("one two three four", 9, "one two\nthree\nfour");
    }

    #[test]
    fn lists_are_indented() {
        check(
            "Do:\n- one two three\n- two\n  1. a\n  2. b\n- [x] done\n\nEnd",
            12,
            "Do:\n\n• one two\n  three\n• two\n  1. a\n  2. b\n• [x] done\n\nEnd",
        );
        check("-\n- a", 20, "•\n• a");
    }

    #[test]
    fn loose_lists_keep_their_gaps() {
        check("- one\n\n- two\n\n  more", 20, "• one\n• two\n\n  more");
    }

    #[test]
    fn code_is_indented_and_unchanged() {
        check(
            "Run\n```sh\n\tls  *.rs\n\necho\n```\nthen",
            40,
            "Run\n\n    sh\n        ls  *.rs\n\n    echo\n\nthen",
        );
    }

    #[test]
    fn quotes_and_rules_are_drawn_and_html_is_shown() {
        check(
            "> one\n> two\n\n---\n<b>x</b>",
            20,
            "│ one\n│ two\n\n────────────────────\n\n<b>x</b>",
        );
    }

    #[test]
    fn a_link_shows_its_target() {
        check("see [docs](https://a.example/x)", 60, "see docs (https://a.example/x)");
        check("<https://a.example>", 60, "https://a.example");
    }

    #[test]
    fn tables_are_aligned_or_listed() {
        let table = "| name | n |\n|---|--:|\n| a | 1 |\n| long one | 10 |";
        check(table, 40, "name       n\n────────────\na          1\nlong one  10");
        check(table, 8, "name: a\nn: 1\n\nname:\nlong one\nn: 10");
    }

    #[test]
    fn deep_nesting_stays_on_the_screen() {
        let deep = format!("{} x", ">".repeat(10_000));
        let lines = markdown(&deep, Some(20));
        assert!(lines.iter().all(|line| line.width() <= 20));
        let brackets = "[".repeat(10_000) + &"*".repeat(10_000);
        assert!(!markdown(&brackets, Some(20)).is_empty());
    }
}
