//! Writes untrusted text as pieces of Markdown.

use std::borrow::Cow;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::render::clean::clean;

/// Maximum length in bytes of a text that is parsed. Longer ones are shown as code, which bounds
/// the parsing time.
const MAX_MARKDOWN_BYTES: usize = 1 << 20;

/// The Markdown extensions that are parsed, which other Markdown readers know too.
const OPTIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_TASKLISTS);

/// Returns a code block in a fence that is longer than any inside.
pub(super) fn fence(language: &str, text: &str) -> String {
    let fence = "`".repeat(longest_run(text).max(2) + 1);
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}\n")
}

/// Returns a code span. The text must be on one line.
pub(super) fn code(text: &str) -> String {
    let ticks = "`".repeat(longest_run(text) + 1);
    let needs_room = text.starts_with('`') || text.ends_with('`') || text.trim() != text;
    let room = if needs_room { " " } else { "" };
    if text.is_empty() { String::new() } else { format!("{ticks}{room}{text}{room}{ticks}") }
}

/// Returns the length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|character| character != '`').map(str::len).max().unwrap_or(0)
}

/// Escapes text on one line, so that no character acts as Markdown.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '>' | '#' | '|' | '~' | '!' | '$' => {
                escaped.push('\\');
                escaped.push(character);
            }
            character => escaped.push(character),
        }
    }
    escaped
}

/// Puts `>` before every line.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 16);
    for line in text.split('\n') {
        quoted.push_str(if line.is_empty() { ">" } else { "> " });
        quoted.push_str(line);
        quoted.push('\n');
    }
    quoted
}

/// Makes untrusted Markdown harmless: its HTML becomes text, its headings are below ours, no
/// image is loaded, and everything that it opens is closed.
pub(super) fn neutral(text: &str) -> String {
    harmless(text, str::to_owned)
}

/// Makes untrusted Markdown harmless, as a quotation.
pub(super) fn quoted(text: &str) -> String {
    // The text is quoted first: after a `>`, a tab has another width, and code may no longer be
    // code.
    harmless(text, quote)
}

fn harmless(text: &str, lay_out: fn(&str) -> String) -> String {
    // After a list, indented text would belong to it.
    let text = clean(text);
    let text = text.trim();
    if text.len() > MAX_MARKDOWN_BYTES {
        return fence("text", text);
    }
    // Disarming can change the meaning of the text after it. A text that is not stable after a few
    // rounds is shown as code.
    settled(lay_out(text)).unwrap_or_else(|| fence("text", text))
}

/// Disarms the text until nothing is left to disarm; `None` after too many rounds.
fn settled(mut text: String) -> Option<String> {
    for _ in 0..8 {
        match disarm(&text) {
            Cow::Borrowed(_) => return close(text),
            Cow::Owned(next) => text = next,
        }
    }
    None
}

/// Disarms Markdown that could act.
fn disarm(text: &str) -> Cow<'_, str> {
    // Offset, number of bytes to remove, and replacement.
    let mut changes: Vec<(usize, usize, &str)> = Vec::new();
    let parser = Parser::new_ext(text, OPTIONS);
    // A link definition would apply to the whole file, and so to other authors' text.
    for (_, definition) in parser.reference_definitions().iter() {
        if text[definition.span.start..].starts_with('[') {
            changes.push((definition.span.start, 0, "\\"));
        }
    }
    for (event, range) in parser.into_offset_iter() {
        match event {
            Event::Html(_) | Event::InlineHtml(_) => {
                let bytes = text[range.clone()].bytes().enumerate();
                changes.extend(
                    bytes
                        .filter(|(_, byte)| *byte == b'<')
                        .map(|(at, _)| (range.start + at, 1, "&lt;")),
                );
            }
            // `![a](b)` becomes an escaped `!` and a link.
            Event::Start(Tag::Image { .. }) if text[range.start..].starts_with("![") => {
                changes.push((range.start, 1, "\\!"));
            }
            Event::Start(Tag::Link { dest_url, .. })
                if !is_harmless(&dest_url) && text[range.start..].starts_with(['[', '<']) =>
            {
                changes.push((range.start, 0, "\\"));
            }
            Event::Start(Tag::Heading { .. }) => {
                let hashes = text[range.start..].bytes().take_while(|byte| *byte == b'#').count();
                // The first and second heading levels are ours.
                if hashes == 1 || hashes == 2 {
                    changes.push((range.start, 0, if hashes == 1 { "##" } else { "#" }));
                }
                // An underlined heading becomes a paragraph.
                let heading = text[range.clone()].trim_end();
                let last = heading.rfind('\n').map_or(0, |line| line + 1);
                if hashes == 0
                    && let Some(at) = heading[last..].find(['=', '-'])
                {
                    changes.push((range.start + last + at, 0, "\\"));
                }
            }
            _ => {}
        }
    }
    if changes.is_empty() {
        return Cow::Borrowed(text);
    }
    changes.sort_unstable();
    changes.dedup();
    let mut changed = String::with_capacity(text.len() + changes.len() * 4);
    let mut at = 0;
    for (place, length, instead) in changes {
        if place < at {
            continue;
        }
        changed.push_str(&text[at..place]);
        changed.push_str(instead);
        at = place + length;
    }
    changed.push_str(&text[at..]);
    Cow::Owned(changed)
}

/// Returns whether a link may stay.
fn is_harmless(url: &str) -> bool {
    super::super::html::is_harmless(url)
        // A relative path in the same project.
        || !url.contains(':') && !url.starts_with("//") && !url.starts_with('\\')
}

/// Closes an open fence, the only top-level element that would continue after the text. `None` if
/// another element stays open.
fn close(text: String) -> Option<String> {
    if !is_open(&text) {
        return Some(text);
    }
    let mut last = None;
    for (event, range) in Parser::new_ext(&text, OPTIONS).into_offset_iter() {
        if let Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) = event {
            last = Some(range.start);
        }
    }
    let start = text[last?..].trim_start_matches(' ');
    let mark = start.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let fence: String = start.chars().take_while(|next| *next == mark).collect();
    let closed = format!("{text}\n{fence}");
    (!is_open(&closed)).then_some(closed)
}

/// Returns whether a paragraph after the text would become part of it.
fn is_open(text: &str) -> bool {
    const PROBE: &str = "probe of the end";
    let probed = format!("{text}\n\n{PROBE}\n");
    let mut depth = 0_usize;
    let mut is_closed = false;
    for event in Parser::new_ext(&probed, OPTIONS) {
        match event {
            Event::Start(_) => depth += 1,
            Event::End(end) => {
                depth -= 1;
                is_closed &= end == TagEnd::Paragraph;
            }
            Event::Text(text) => is_closed = depth == 1 && &*text == PROBE,
            _ => is_closed = false,
        }
    }
    !is_closed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_are_longer_than_any_inside() {
        assert_eq!(fence("", "a"), "```\na\n```\n");
        assert_eq!(fence("text", "````\nx\n"), "`````text\n````\nx\n`````\n");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`"), "`` ` ``");
    }

    #[test]
    fn markdown_that_could_act_is_disarmed() {
        for (text, expected) in [
            ("a **b** `<c>`", "a **b** `<c>`"),
            ("a <b>c</b>", "a &lt;b>c&lt;/b>"),
            ("<script>\nx\n</script>", "&lt;script>\nx\n&lt;/script>"),
            ("# a\n\n## b\n\n### c", "### a\n\n### b\n\n### c"),
            ("![a](https://b.example/c.png)", "\\![a](https://b.example/c.png)"),
            ("[a](javascript:b)", "\\[a](javascript:b)"),
            ("[a](src/b.rs#L3)", "[a](src/b.rs#L3)"),
            ("```rust\n<b>", "```rust\n<b>\n```"),
            ("- a\n  ```\n  b", "- a\n  ```\n  b"),
            ("~~~~\n```", "~~~~\n```\n~~~~"),
        ] {
            assert_eq!(neutral(text), expected, "{text}");
        }
    }
}
