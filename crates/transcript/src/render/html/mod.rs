//! Renders a story as one self-contained HTML page: no script, nothing loaded from elsewhere.
//!
//! All text from a transcript goes through `escaped` or, if it is Markdown, through `prose`; the
//! tags are ours. A content security policy in the page is the second barrier.

mod page;
mod prose;

use std::fmt::Write as _;
use std::io::{self, Write};

use super::calls::{Call, Calls};
use super::clean::{clean, line};
use super::{Header, Listed, Rendering, input, words};
use crate::entry::Role;
use crate::story::{ItemKind, Outcome, Piece, StoryDetail, StoryItem, one_line};

pub(crate) use self::prose::is_harmless;

/// The width of a prompt in the table of contents, in columns.
const CONTENTS_COLUMNS: usize = 70;

/// Writes a story as HTML.
#[derive(Debug)]
pub struct Html {
    detail: StoryDetail,
    calls: Calls,
    /// The turns, for the table of contents: anchors and the beginnings of prompts.
    turns: Vec<(String, String)>,
    /// True while a turn is open.
    is_in_turn: bool,
    /// True while a list of calls is open.
    is_in_calls: bool,
}

impl Html {
    /// Returns a rendering that shows these parts.
    pub fn new(detail: StoryDetail) -> Html {
        Html {
            detail,
            calls: Calls::default(),
            turns: Vec::new(),
            is_in_turn: false,
            is_in_calls: false,
        }
    }

    /// Closes a list of calls before another element is written.
    fn other(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let ready = self.calls.flush();
        self.calls(&ready, out)?;
        if std::mem::take(&mut self.is_in_calls) {
            out.write_all(b"</div>\n")?;
        }
        Ok(())
    }

    fn mark(&mut self, kind: &str, mark: &str, out: &mut dyn Write) -> io::Result<()> {
        self.other(out)?;
        writeln!(out, "<p class=\"mark {kind}\">{}</p>", escaped(&line(mark)))
    }

    fn fold(
        &mut self,
        kind: &str,
        summary: &str,
        body: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.other(out)?;
        writeln!(
            out,
            "<details class=\"aside {kind}\"><summary>{}</summary><div class=\"prose\">{body}</div></details>",
            escaped(summary)
        )
    }

    fn turn(&mut self, item: &StoryItem<'_>, out: &mut dyn Write) -> io::Result<()> {
        self.other(out)?;
        if std::mem::replace(&mut self.is_in_turn, true) {
            out.write_all(b"</section>\n")?;
        }
        // Turns of a rewritten session may have no number; each needs an anchor.
        let number = item.turn.unwrap_or(self.turns.len() as u64 + 1);
        let mut anchor = format!("turn-{number}");
        if self.turns.iter().rev().take(64).any(|(known, _)| *known == anchor) {
            anchor = format!("turn-{number}-{}", self.turns.len() + 1);
        }
        let time = item.time.map(|time| time_tag(time.0)).unwrap_or_default();
        let author = item.author().map(|author| escaped(&line(&author)));
        let author = author.map(|author| format!(" <span class=\"note\">{author}</span>"));
        writeln!(
            out,
            "<section class=\"turn\" id=\"{anchor}\">\n<h2><a href=\"#{anchor}\">Turn {number}</a>{time}{}</h2>",
            author.unwrap_or_default()
        )?;
        let prompt = one_line(&clean(&item.words()), CONTENTS_COLUMNS);
        let prompt = if prompt.is_empty() { "(no words)".to_owned() } else { prompt };
        self.turns.push((anchor, prompt));
        Ok(())
    }

    fn calls(&mut self, calls: &[Call], out: &mut dyn Write) -> io::Result<()> {
        for call in calls {
            if !std::mem::replace(&mut self.is_in_calls, true) {
                out.write_all(b"<div class=\"calls\">\n")?;
            }
            call_tag(call, out)?;
        }
        Ok(())
    }

    fn words(&mut self, item: &StoryItem<'_>, words: &str, out: &mut dyn Write) -> io::Result<()> {
        if words.trim().is_empty() {
            return Ok(());
        }
        if let Some(folded) = item.folded {
            return self.fold("folded", words::folded(folded), &prose::plain(words), out);
        }
        self.other(out)?;
        match item.role {
            Some(Role::Assistant) => {
                let model = item.model.as_deref().map(line).unwrap_or_default();
                let kind = if item.is_error { "agent error" } else { "agent" };
                write!(out, "<div class=\"words {kind}\"")?;
                if !model.is_empty() {
                    write!(out, " title=\"{}\"", escaped(&model))?;
                }
                writeln!(out, "><div class=\"prose\">{}</div></div>", prose::markdown(words))
            }
            _ if item.is_automatic => writeln!(
                out,
                "<div class=\"words automatic\"><div class=\"prose\">{}</div></div>",
                prose::plain(words)
            ),
            _ => writeln!(
                out,
                "<div class=\"words human\"><div class=\"prose\">{}</div></div>",
                prose::plain(words)
            ),
        }
    }

    fn piece(
        &mut self,
        item: &StoryItem<'_>,
        piece: &Piece<'_>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if !piece.is_shown(self.detail) {
            return Ok(());
        }
        match piece {
            Piece::Words(words) => self.words(item, words, out),
            Piece::Thinking(words) => {
                self.fold("thinking", "Thinking", &prose::markdown(words), out)
            }
            Piece::Attached { gist: Some(gist), .. } if !self.detail.folded => {
                self.mark("other", &words::gist(gist), out)
            }
            Piece::Attached { label, text, .. } | Piece::Pasted { label, text } => {
                let label = words::attached(label);
                self.fold("folded", &label, &prose::plain(text), out)
            }
            Piece::Image { media_type } => {
                let kind =
                    media_type.as_deref().map(|kind| format!(" · {kind}")).unwrap_or_default();
                self.mark("picture", &format!("🖼 an image{kind}"), out)
            }
            Piece::Other(name) => self.mark("other", &format!("({name})"), out),
            Piece::Call(_) | Piece::Result(_) => {
                let ready = self.calls.add(piece, self.detail.tools);
                self.calls(&ready, out)
            }
        }
    }
}

impl Rendering for Html {
    fn begin(&mut self, header: &Header, out: &mut dyn Write) -> io::Result<()> {
        page::begin(header, out)
    }

    fn item(&mut self, item: &StoryItem<'_>, out: &mut dyn Write) -> io::Result<()> {
        if !item.is_shown(self.detail) {
            return Ok(());
        }
        if !item.is_open(self.detail) {
            return item.gists().try_for_each(|gist| self.mark("other", &words::gist(gist), out));
        }
        if item.missing_parent.is_some() {
            self.mark("other", &format!("⋯ {}", words::GAP), out)?;
        }
        if let Some(rewind) = &item.rewind {
            self.mark("rewind", &format!("↶ {}", words::rewound(rewind)), out)?;
        }
        if item.is_prompt {
            self.turn(item, out)?;
        }
        match &item.kind {
            ItemKind::Compaction(compaction) => {
                self.mark("compaction", &format!("◆ {}", words::compacted(compaction)), out)?;
                if self.detail.compactions {
                    let summary = compaction.prose();
                    if !summary.trim().is_empty() {
                        let summary = prose::markdown(&summary);
                        self.fold("summary", "Summary", &summary, out)?;
                    }
                    let files = [
                        ("Files read", &compaction.read_files),
                        ("Files changed", &compaction.modified_files),
                    ];
                    for (label, files) in files.into_iter().filter(|(_, files)| !files.is_empty()) {
                        let mut list = String::from("<ul>");
                        for file in files {
                            // Writing to a string cannot fail.
                            let _ = write!(list, "<li><code>{}</code></li>", escaped(&line(file)));
                        }
                        self.fold("files", label, &(list + "</ul>"), out)?;
                    }
                }
            }
            ItemKind::BranchSummary { summary, .. } => {
                self.mark("compaction", "◆ A branch was abandoned; its summary:", out)?;
                if self.detail.compactions {
                    self.fold("summary", "Summary", &prose::markdown(summary), out)?;
                }
            }
            ItemKind::Reset { reason } => {
                let why = reason.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
                self.mark("compaction", &format!("◆ The context was reset{why}"), out)?;
            }
            ItemKind::Note => self.mark("other", &words::note(item), out)?,
            ItemKind::Message => {}
        }
        if item.is_interrupt {
            return self.mark("interrupt", "⊘ The user stopped the agent", out);
        }
        for piece in &item.pieces {
            self.piece(item, piece, out)?;
        }
        if let Some(bytes) = item.oversize {
            self.mark("other", &format!("▤ {}", words::oversize(bytes)), out)?;
        }
        if item.is_provisional {
            self.mark("other", "… the agent is still writing this line", out)?;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.other(out)?;
        if std::mem::take(&mut self.is_in_turn) {
            out.write_all(b"</section>\n")?;
        }
        page::end(&self.turns, out)
    }
}

/// Writes a list of sessions that were exported to files in the same folder.
pub fn index(title: &str, sessions: &[Listed], out: &mut dyn Write) -> io::Result<()> {
    page::index(title, sessions, out)
}

fn call_tag(call: &Call, out: &mut dyn Write) -> io::Result<()> {
    let kind = match call.outcome {
        Some(Outcome::Failed) => " failed",
        Some(Outcome::Mentions) => " mentions",
        Some(Outcome::Fine) | None => "",
    };
    let is_empty = call.input.is_none() && call.result.is_none();
    let (tag, inner) = if is_empty { ("div", "div") } else { ("details", "summary") };
    write!(out, "<{tag} class=\"call{kind}\"><{inner} class=\"line\">")?;
    write!(out, "<b>{}</b>", escaped(&call.name))?;
    if let Some(about) = &call.about {
        write!(out, " <code>{}</code>", escaped(about))?;
    }
    for note in &call.notes {
        write!(out, " <span class=\"note\">{}</span>", escaped(note))?;
    }
    if let Some(id) = &call.subagent {
        write!(out, " <span class=\"note\">sub-agent {}</span>", escaped(id))?;
    }
    if let Some(ended) = words::ended(call.outcome) {
        write!(out, " <span class=\"ended\">{ended}</span>")?;
    }
    write!(out, "</{inner}>")?;
    if let Some(input) = &call.input {
        arguments(input, out)?;
    }
    if let Some(result) = &call.result {
        let result = clean(result);
        if result.trim().is_empty() {
            out.write_all(b"<p class=\"nothing\">no output</p>")?;
        } else {
            write!(out, "<pre class=\"result\">{}</pre>", escaped(&result))?;
        }
    }
    writeln!(out, "</{tag}>")
}

/// Writes a tool's arguments, each under its name.
fn arguments(input: &str, out: &mut dyn Write) -> io::Result<()> {
    let Some(fields) = input::fields(input) else {
        return write!(out, "<pre class=\"input\">{}</pre>", escaped(&clean(input)));
    };
    if fields.is_empty() {
        return Ok(());
    }
    out.write_all(b"<dl class=\"input\">")?;
    for (name, value) in fields {
        let (name, value) = (escaped(&line(&name)), escaped(&clean(&value)));
        write!(out, "<dt>{name}</dt><dd><pre>{value}</pre></dd>")?;
    }
    out.write_all(b"</dl>")
}

/// Returns a time as a tag.
fn time_tag(ms: i64) -> String {
    match (words::exact(ms), words::minute(ms)) {
        (Some(exact), Some(minute)) => format!(" <time datetime=\"{exact}\">{minute}</time>"),
        _ => String::new(),
    }
}

/// Escapes text for use between tags and in quoted attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\0' => escaped.push('\u{fffd}'),
            character => escaped.push(character),
        }
    }
    escaped
}
