//! Renders a story as Markdown (CommonMark).
//!
//! The human's text is quoted, the agent's is not, and calls are a list, or foldable if they are
//! shown in full. The only HTML is ours: `<details>` and `<summary>`.

mod prose;

use std::io::{self, Write};

use super::calls::{Call, Calls};
use super::clean::{clean, line};
use super::{Header, Listed, Rendering, words};
use crate::entry::Role;
use crate::story::{ItemKind, Piece, StoryDetail, StoryItem};

use self::prose::{code, escape, fence, neutral, quoted};

/// Writes a story as Markdown.
#[derive(Debug)]
pub struct Markdown {
    detail: StoryDetail,
    calls: Calls,
    last: Last,
}

/// The kind of the last written block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Other,
    /// A line of a list of calls.
    Line,
}

impl Markdown {
    /// Returns a rendering that shows these parts.
    pub fn new(detail: StoryDetail) -> Markdown {
        Markdown { detail, calls: Calls::default(), last: Last::Other }
    }

    fn block(&mut self, block: &str, out: &mut dyn Write) -> io::Result<()> {
        self.last = Last::Other;
        write!(out, "\n{}\n", block.trim_end_matches('\n'))
    }

    fn mark(&mut self, mark: &str, out: &mut dyn Write) -> io::Result<()> {
        self.block(&format!("*{}*", escape(&line(mark))), out)
    }

    /// Writes a foldable block.
    fn details(&mut self, summary: &str, body: &str, out: &mut dyn Write) -> io::Result<()> {
        let body = body.trim_matches('\n');
        self.block(&format!("<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"), out)
    }

    fn calls(&mut self, calls: Vec<Call>, out: &mut dyn Write) -> io::Result<()> {
        calls.iter().try_for_each(|call| self.call(call, out))
    }

    fn call(&mut self, call: &Call, out: &mut dyn Write) -> io::Result<()> {
        let mut notes: Vec<String> = call.notes.clone();
        notes.extend(words::ended(call.outcome).map(str::to_owned));
        notes.extend(call.subagent.as_ref().map(|id| format!("sub-agent {id}")));
        if call.input.is_none() && call.result.is_none() {
            let mut bullet = format!("- {}", code(&call.name));
            if let Some(about) = &call.about {
                bullet.push_str(&format!(" {}", code(about)));
            }
            if !notes.is_empty() {
                bullet.push_str(&format!(" — *{}*", escape(&notes.join(", "))));
            }
            if self.last != Last::Line {
                writeln!(out)?;
            }
            self.last = Last::Line;
            return writeln!(out, "{bullet}");
        }
        let mut summary = format!("<code>{}</code>", html(&call.name));
        if let Some(about) = &call.about {
            summary.push_str(&format!(" <code>{}</code>", html(about)));
        }
        if !notes.is_empty() {
            summary.push_str(&format!(" — {}", html(&notes.join(", "))));
        }
        let mut body = String::new();
        if let Some(input) = &call.input {
            body.push_str(&fence("json", &clean(input)));
        }
        if let Some(result) = &call.result {
            if !body.is_empty() {
                body.push('\n');
            }
            body.push_str(&fence("text", &clean(result)));
        }
        self.details(&summary, &body, out)
    }

    fn words(&mut self, item: &StoryItem<'_>, words: &str, out: &mut dyn Write) -> io::Result<()> {
        match (item.folded, item.role) {
            (Some(folded), _) => self.details(words::folded(folded), &quoted(words), out),
            (None, Some(Role::Assistant)) => self.block(&neutral(words), out),
            (None, _) => self.block(&quoted(words), out),
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
        let ready = self.calls.add(piece, self.detail.tools);
        self.calls(ready, out)?;
        match piece {
            Piece::Words(words) => self.words(item, words, out),
            Piece::Thinking(words) => self.details("Thinking", &quoted(words), out),
            Piece::Attached { gist: Some(gist), .. } if !self.detail.folded => {
                self.mark(&words::gist(gist), out)
            }
            Piece::Attached { label, text, .. } | Piece::Pasted { label, text } => {
                self.details(&html(&words::attached(label)), &quoted(text), out)
            }
            Piece::Image { media_type } => {
                let kind =
                    media_type.as_deref().map(|kind| format!(": {kind}")).unwrap_or_default();
                self.mark(&format!("(an image{kind})"), out)
            }
            Piece::Other(name) => self.mark(&format!("({name})"), out),
            Piece::Call(_) | Piece::Result(_) => Ok(()),
        }
    }
}

impl Rendering for Markdown {
    fn begin(&mut self, header: &Header, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "# {}\n", escape(&line(&header.title)))?;
        for (label, fact) in header.facts() {
            writeln!(out, "- {label}: {}", escape(&line(&fact)))?;
        }
        if header.is_redacted {
            writeln!(out, "- Secrets are masked: `[redacted:<kind>:<number>]`")?;
        }
        Ok(())
    }

    fn item(&mut self, item: &StoryItem<'_>, out: &mut dyn Write) -> io::Result<()> {
        if !item.is_shown(self.detail) {
            return Ok(());
        }
        if !item.is_open(self.detail) {
            let ready = self.calls.flush();
            self.calls(ready, out)?;
            return item.gists().try_for_each(|gist| self.mark(&words::gist(gist), out));
        }
        let only_calls = matches!(item.kind, ItemKind::Message)
            && !item.is_prompt
            && !item.is_interrupt
            && item.rewind.is_none()
            && item.missing_parent.is_none()
            && item.oversize.is_none()
            && item
                .pieces
                .iter()
                .filter(|piece| piece.is_shown(self.detail))
                .all(|piece| matches!(piece, Piece::Call(_) | Piece::Result(_)));
        if !only_calls {
            let ready = self.calls.flush();
            self.calls(ready, out)?;
        }
        if item.missing_parent.is_some() {
            self.mark(&format!("⋯ {}", words::GAP), out)?;
        }
        if let Some(rewind) = &item.rewind {
            self.mark(&format!("↶ {}", words::rewound(rewind)), out)?;
        }
        if item.is_prompt {
            let number = item.turn.map(|turn| format!("Turn {turn}"));
            let author = item.author().map(|author| escape(&line(&author)));
            let heading = [number, item.time.and_then(|time| words::minute(time.0)), author];
            let heading: Vec<String> = heading.into_iter().flatten().collect();
            let heading = if heading.is_empty() { "Turn".to_owned() } else { heading.join(" · ") };
            self.block(&format!("## {heading}"), out)?;
        }
        match &item.kind {
            ItemKind::Compaction(compaction) => {
                self.mark(&format!("◆ {}", words::compacted(compaction)), out)?;
                if self.detail.compactions {
                    let summary = compaction.prose();
                    if !summary.trim().is_empty() {
                        let summary = quoted(&summary);
                        self.details("Summary", &summary, out)?;
                    }
                    let files = [
                        ("Files read", &compaction.read_files),
                        ("Files changed", &compaction.modified_files),
                    ];
                    for (label, files) in files.into_iter().filter(|(_, files)| !files.is_empty()) {
                        let list: Vec<String> =
                            files.iter().map(|file| format!("- {}", code(&line(file)))).collect();
                        self.details(label, &list.join("\n"), out)?;
                    }
                }
            }
            ItemKind::BranchSummary { summary, .. } => {
                self.mark("◆ A branch was abandoned; its summary:", out)?;
                if self.detail.compactions {
                    self.details("Summary", &quoted(summary), out)?;
                }
            }
            ItemKind::Reset { reason } => {
                let why = reason.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
                self.mark(&format!("◆ The context was reset{why}"), out)?;
            }
            ItemKind::Note => self.mark(&words::note(item), out)?,
            ItemKind::Message => {}
        }
        if item.is_interrupt {
            return self.mark("⊘ The user stopped the agent", out);
        }
        for piece in &item.pieces {
            self.piece(item, piece, out)?;
        }
        if let Some(bytes) = item.oversize {
            self.mark(&format!("▤ {}", words::oversize(bytes)), out)?;
        }
        if item.is_provisional {
            self.mark("… the agent is still writing this line", out)?;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let ready = self.calls.flush();
        self.calls(ready, out)
    }
}

/// Writes a list of sessions that were exported to files in the same folder.
pub fn index(title: &str, sessions: &[Listed], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "# {}\n", escape(&line(title)))?;
    for Listed { header, file } in sessions {
        let date = header.started_at.and_then(words::minute).map(|date| format!("{date} · "));
        let turns = words::count(header.turns, "turn");
        let sub_agent = if header.parent.is_some() { "sub-agent" } else { "" };
        let facts = [&header.project, &header.program, sub_agent];
        let facts: Vec<&str> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
        writeln!(
            out,
            "- {}[{}]({file}) — {}, {turns}",
            date.unwrap_or_default(),
            escape(&line(&header.title)),
            escape(&line(&facts.join(", "))),
        )?;
    }
    Ok(())
}

/// Escapes text for use between tags.
fn html(text: &str) -> String {
    // A summary is one line of HTML, without blank lines and Markdown.
    super::html::escaped(&line(text))
}
