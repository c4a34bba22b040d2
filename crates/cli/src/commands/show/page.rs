//! How a story looks on a terminal.
//!
//! A turn begins with a rule that bears its number and time; the human's words follow a `❯`, the
//! agent's are laid out as Markdown, and each tool call is one line. Nothing here decides what
//! belongs to the story.

use quipu_ledger::Choice;
use quipu_ledger::wire::StoryHead;
use quipu_transcript::entry::{Compaction, Role};
use quipu_transcript::format;
use quipu_transcript::render::{GAP, compacted};
use quipu_transcript::story::{
    Folded, ItemKind, Outcome, Piece, Rewind, StoryItem, Telling, Tools, one_line,
};

use super::tools;
use crate::commands::Context;
use crate::error::Result;
use crate::output::{
    Look, ShortIds, Text, WIDEST_IN_PIPE, bytes, count, markdown, minute, number, plain,
};
use crate::shell;

/// Prose is at most so wide: longer lines are hard to read.
const WIDEST: usize = 100;

/// How far the agent's words are indented.
const INDENT: &str = "  ";

/// Writes a story.
pub(super) struct Page<'c> {
    context: &'c mut Context,
    ids: ShortIds,
    telling: Telling,
    /// Only one speaker is heard: calls have no answers beside them.
    is_narrowed_to_tools: bool,
    last: Last,
    day: Option<String>,
    /// The agent's file no longer holds what is being told.
    is_absent: bool,
    is_empty: bool,
    /// The session's id.
    session: String,
}

/// What was written last.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Last {
    Nothing,
    Rule,
    Words,
    /// A call, with its id.
    Call(Option<String>),
    Mark,
}

impl<'c> Page<'c> {
    pub(super) fn new(choice: &Choice, ids: ShortIds, context: &'c mut Context) -> Page<'c> {
        Page {
            context,
            ids,
            telling: choice.telling,
            is_narrowed_to_tools: choice.role == Some(Role::Tool),
            last: Last::Nothing,
            day: None,
            is_absent: false,
            is_empty: true,
            session: String::new(),
        }
    }

    /// What session it is.
    pub(super) fn head(&mut self, head: &StoryHead) -> Result<()> {
        let name = format::by_name(&head.format).map_or(&*head.format, |format| format.title());
        let agent = Some(head.agent.clone()).filter(|agent| !agent.is_empty());
        let cwd = head.cwd.as_ref().map(|cwd| self.context.show(cwd));
        let facts = [
            Some(name.to_owned()),
            agent,
            cwd.or_else(|| head.slug.clone()).or_else(|| head.project.clone()),
            head.git_branch.clone().filter(|branch| !branch.is_empty()),
            head.model.clone(),
            head.started_at.map(minute),
        ];
        let facts: Vec<String> = facts.into_iter().flatten().collect();
        let id = Text::of(Look::Dim, format!("{} · {}", head.id, count(head.turns, "turn")));
        let id = match head.state.as_str() {
            "live" => id,
            "lost" => id.with(Look::Warning, format!(" · lost: {}", left(head))),
            state => id.with(Look::Warning, format!(" · {state}")),
        };
        self.context.output.line(Text::of(Look::Bold, title(head, self.width())))?;
        for line in joined(&facts, self.room(0)) {
            self.context.output.laid_out(&Text::of(Look::Dim, line))?;
        }
        self.context.output.line(id)?;
        for (word, other) in [
            ("works for", &head.parent),
            ("goes on from", &head.fork_of),
            ("goes on in", &head.continued_in),
        ] {
            if let Some(other) = other {
                self.context.output.line(Text::of(Look::Dim, format!("{word} {other}")))?;
            }
        }
        self.session.clone_from(&head.id);
        self.subagents(head.left.as_ref().map_or(&[], |left| &left.subagents))
    }

    /// Sub-agents that no call leads to.
    fn subagents(&mut self, ids: &[String]) -> Result<()> {
        const MOST: usize = 10;
        if ids.is_empty() {
            return Ok(());
        }
        self.is_empty = false;
        for id in ids.iter().take(MOST) {
            let command = self.context.shell.command("show", &self.ids.of(id), &[]);
            self.mark(Look::Dim, "↳", &format!("sub-agent → {command}"))?;
        }
        if ids.len() > MOST {
            let command = self.context.shell.command("tree", &self.ids.of(&self.session), &[]);
            let more = number((ids.len() - MOST) as u64);
            self.mark(Look::Dim, "↳", &format!("{more} more → {command}"))?;
        }
        Ok(())
    }

    /// What one entry tells.
    pub(super) fn item(&mut self, item: &StoryItem<'_>) -> Result<()> {
        self.is_empty = false;
        if item.speaks() && std::mem::replace(&mut self.is_absent, item.is_absent) != item.is_absent
        {
            let said = if item.is_absent {
                "from here on no longer in the agent's file"
            } else {
                "in the agent's file again"
            };
            self.mark(Look::Dim, "∅", said)?;
        }
        if item.missing_parent.is_some() {
            self.mark(Look::Dim, "⋯", GAP)?;
        }
        if let Some(rewind) = &item.rewind {
            self.mark(Look::Warning, "↶", &rewound(rewind))?;
        }
        if item.is_prompt {
            self.turn(item)?;
        }
        match &item.kind {
            ItemKind::Compaction(compaction) => self.compaction(compaction)?,
            ItemKind::Reset { reason } => {
                let why = reason.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
                self.mark(Look::Dim, "◆", &format!("the context was reset{why}"))?;
            }
            ItemKind::BranchSummary { summary, .. } => {
                self.mark(Look::Dim, "◆", "a branch was left, with a summary of it")?;
                if self.telling.compactions {
                    self.prose(&markdown(summary, self.room(2)), INDENT)?;
                }
            }
            ItemKind::Note => self.mark(Look::Dim, "·", &note(item))?,
            ItemKind::Message => {}
        }
        if item.is_interrupt {
            return self.mark(Look::Warning, "⊘", "the user stopped the agent");
        }
        for piece in &item.pieces {
            self.piece(item, piece)?;
        }
        if let Some(length) = item.oversize {
            let entry = shell::option("--entry", item.id.as_deref().unwrap_or_default());
            let options = [entry, "--raw".to_owned()];
            let session = self.ids.of(&self.session);
            let command = self.context.shell.command("show", &session, &options);
            let said =
                format!("a line of {}: only its first 64 KiB are read → {command}", bytes(length));
            self.mark(Look::Warning, "▤", &said)?;
        }
        if item.is_provisional {
            self.mark(Look::Dim, "…", "this line is not finished yet")?;
        }
        Ok(())
    }

    /// Says so if there was nothing.
    pub(super) fn end(&mut self) -> Result<()> {
        if self.is_empty {
            self.context.output.gap()?;
            self.context.output.line(Text::of(Look::Dim, "nothing was said"))?;
        }
        Ok(())
    }

    /// The rule that begins a turn.
    fn turn(&mut self, item: &StoryItem<'_>) -> Result<()> {
        let number = item.turn.map(|turn| format!(" {turn} ")).unwrap_or_default();
        let mut rule = Text::of(Look::Dim, "─").with(Look::Bold, number);
        if let Some(time) = item.time {
            // The day is said once.
            let said = minute(time.0);
            let (day, clock) = said.split_once(' ').unwrap_or((&said, ""));
            let shown = if self.day.as_deref() == Some(day) { clock } else { &*said };
            rule = rule.with(Look::Dim, format!("─ {shown} "));
            self.day = Some(day.to_owned());
        }
        let room = self.width().saturating_sub(rule.width());
        rule = rule.with(Look::Dim, "─".repeat(room));
        self.gap()?;
        self.context.output.laid_out(&rule)?;
        self.last = Last::Rule;
        Ok(())
    }

    fn piece(&mut self, item: &StoryItem<'_>, piece: &Piece<'_>) -> Result<()> {
        if !piece.is_told(self.telling) {
            return Ok(());
        }
        match piece {
            Piece::Words(words) => self.words(item, words),
            Piece::Injected(words) if words.trim_start().starts_with('<') => {
                self.aside("reminder", words)
            }
            Piece::Injected(words) => self.aside("output", words),
            Piece::Thinking(words) => self.aside("thinking", words),
            Piece::Call(call) => {
                self.begin_call()?;
                let lines =
                    tools::call(call, &self.ids, self.telling.tools, self.context.output.width());
                self.laid_out(&lines, "")?;
                self.last = Last::Call(call.id.as_deref().map(str::to_owned));
                Ok(())
            }
            Piece::Result(result) => {
                let is_open = self.telling.tools == Tools::Full;
                let is_alone = result.is_orphan && result.outcome != Outcome::Fine;
                if !is_open && !is_alone && !self.is_narrowed_to_tools {
                    return Ok(());
                }
                let call = result.call_id.as_deref().map(str::to_owned);
                let follows = call.is_some() && self.last == Last::Call(call.clone());
                if !follows {
                    self.begin_call()?;
                }
                let lines = tools::result(result, is_open, follows, self.context.output.width());
                self.laid_out(&lines, "")?;
                self.last = Last::Call(None);
                Ok(())
            }
            Piece::Image { media_type } => {
                let kind = media_type.as_deref().unwrap_or("image");
                self.separate()?;
                self.prose(&[Text::of(Look::Dim, format!("[{kind}]"))], INDENT)
            }
            Piece::Other(name) => {
                self.separate()?;
                self.prose(&[Text::of(Look::Dim, format!("[{name}]"))], INDENT)
            }
        }
    }

    fn words(&mut self, item: &StoryItem<'_>, words: &str) -> Result<()> {
        match item.folded {
            Some(Folded::Summary) => return self.aside("summary", words),
            Some(Folded::Sidechain) => return self.aside("sub-agent", words),
            Some(folded) => return self.aside(folded.as_str(), words),
            None => {}
        }
        self.separate()?;
        let room = self.room(2);
        match item.role {
            Some(Role::Assistant) if item.is_error => {
                let lines = plain(words, Look::Bad, room);
                self.marked(Text::of(Look::Bad, "✗ "), &lines)
            }
            Some(Role::Assistant) => self.prose(&markdown(words, room), INDENT),
            _ => {
                let mut lines = plain(words, Look::Plain, room);
                if item.is_queued {
                    lines.push(Text::of(Look::Dim, "(typed while the agent worked)"));
                }
                self.marked(Text::of(Look::Accent, "❯ "), &lines)
            }
        }
    }

    /// Something that was folded.
    fn aside(&mut self, label: &str, words: &str) -> Result<()> {
        self.separate()?;
        let bar = "┊ ";
        let lines = plain(words, Look::Dim, self.room(4));
        let label = Text::of(Look::Dim, INDENT).with(Look::Dim, bar).with(Look::Italic, label);
        self.context.output.laid_out(&label)?;
        for line in lines {
            let line = Text::of(Look::Dim, INDENT).with(Look::Dim, bar).join(line);
            self.context.output.laid_out(&line)?;
        }
        self.last = Last::Words;
        Ok(())
    }

    fn compaction(&mut self, compaction: &Compaction<'_>) -> Result<()> {
        let said = compacted(compaction);
        self.mark(Look::Dim, "◆", &said)?;
        if !self.telling.compactions {
            return Ok(());
        }
        let summary = compaction.prose();
        if !summary.trim().is_empty() {
            self.separate()?;
            self.prose(&markdown(&summary, self.room(2)), INDENT)?;
        }
        let files = [("read", &compaction.read_files), ("changed", &compaction.modified_files)];
        for (word, files) in files {
            if files.is_empty() {
                continue;
            }
            self.separate()?;
            let mut lines = vec![Text::of(Look::Dim, word)];
            lines.extend(files.iter().flat_map(|file| {
                plain(&format!("{INDENT}{}", one_line(file, usize::MAX)), Look::Plain, self.room(2))
            }));
            self.prose(&lines, INDENT)?;
        }
        Ok(())
    }

    /// A line about what happened.
    fn mark(&mut self, look: Look, mark: &str, said: &str) -> Result<()> {
        if self.last != Last::Mark {
            self.separate()?;
        }
        let lines = plain(&one_line(said, usize::MAX), look, self.room(2));
        self.marked(Text::of(look, mark).and(" "), &lines)?;
        self.last = Last::Mark;
        Ok(())
    }

    /// Lines whose first one bears a mark.
    fn marked(&mut self, mark: Text, lines: &[Text]) -> Result<()> {
        let rest = Text::plain(" ".repeat(mark.width()));
        let mut start = mark;
        for line in lines {
            let line = std::mem::replace(&mut start, rest.clone()).join(line.clone());
            self.context.output.laid_out(&line)?;
        }
        self.last = Last::Words;
        Ok(())
    }

    fn prose(&mut self, lines: &[Text], indent: &str) -> Result<()> {
        self.laid_out(lines, indent)?;
        self.last = Last::Words;
        Ok(())
    }

    fn laid_out(&mut self, lines: &[Text], indent: &str) -> Result<()> {
        for line in lines {
            self.context.output.laid_out(&Text::plain(indent).join(line.clone()))?;
        }
        Ok(())
    }

    /// Calls stand close together.
    fn begin_call(&mut self) -> Result<()> {
        match self.last {
            Last::Call(_) => Ok(()),
            _ => self.separate(),
        }
    }

    /// An empty line, except after a rule.
    fn separate(&mut self) -> Result<()> {
        match self.last {
            Last::Rule => Ok(()),
            _ => self.gap(),
        }
    }

    fn gap(&mut self) -> Result<()> {
        Ok(self.context.output.gap()?)
    }

    /// How wide rules are.
    fn width(&self) -> usize {
        self.context.output.width().map_or(WIDEST, |width| width.min(WIDEST))
    }

    /// How wide prose may be beside what is taken.
    fn room(&self, taken: usize) -> Option<usize> {
        let width = self.context.output.width()?;
        Some(width.min(WIDEST).saturating_sub(taken).max(1))
    }
}

/// What a session is called.
pub(in crate::commands) fn title(head: &StoryHead, width: usize) -> String {
    let said = head.title.as_deref().unwrap_or("untitled");
    one_line(said, width.min(WIDEST))
}

/// Facts on as few lines as they fit on, none of them broken unless it is longer than a line.
fn joined(facts: &[String], room: Option<usize>) -> Vec<String> {
    const BETWEEN: &str = " · ";
    let mut lines: Vec<String> = Vec::new();
    for fact in facts {
        let fact = one_line(fact, room.unwrap_or(WIDEST_IN_PIPE));
        match lines.last_mut() {
            Some(line)
                if room.is_none_or(|room| {
                    Text::plain(&*line).width() + BETWEEN.len() + Text::plain(&fact).width() <= room
                }) =>
            {
                line.push_str(BETWEEN);
                line.push_str(&fact);
            }
            _ => lines.push(fact),
        }
    }
    lines
}

/// What is left of a lost session.
fn left(head: &StoryHead) -> String {
    let Some(left) = &head.left else { return "its transcript is gone".to_owned() };
    if left.subagents.is_empty() && left.outputs == 0 && left.prompts > 0 {
        return "only its prompts are known".to_owned();
    }
    let known = [
        (left.prompts, "prompt"),
        (left.subagents.len() as u64, "sub-agent"),
        (left.outputs, "tool output"),
    ];
    let known: Vec<String> = known
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, thing)| count(number, thing))
        .collect();
    match known.split_last() {
        None => "nothing more is known".to_owned(),
        Some((last, [])) => format!("only {last} known"),
        Some((last, others)) => format!("only {} and {last} known", others.join(", ")),
    }
}

/// What an entry is that nobody says; of one of an unknown type also when.
fn note(item: &StoryItem<'_>) -> String {
    if item.folded != Some(Folded::Unknown) {
        return item.type_name.to_string();
    }
    let name = if item.type_name.is_empty() { "no type" } else { &*item.type_name };
    let time = item.time.map(|time| format!(" · {}", minute(time.0))).unwrap_or_default();
    format!("{name} · unknown type{time}")
}

fn rewound(rewind: &Rewind) -> String {
    match (rewind.to_turn, &rewind.to) {
        (Some(turn), _) if rewind.is_within_turn => {
            format!("back inside turn {turn}; what followed was left")
        }
        (Some(turn), _) => format!("back to turn {turn}; what followed it was left"),
        (None, Some(_)) => "back to the beginning; what followed was left".to_owned(),
        (None, None) => "begins again, without what came before".to_owned(),
    }
}
