//! Prints a story on a terminal.
//!
//! A turn begins with a rule that has its number and time. A `❯` marks the user's text, the agent's
//! text is laid out as Markdown, and each tool call is one line. Nothing here decides what belongs
//! to the story.

use quipu_ledger::query::Choice;
use quipu_ledger::wire::{SessionState, StoryHead};
use quipu_transcript::entry::{Compaction, Role};
use quipu_transcript::format;
use quipu_transcript::render::{GAP, compacted};
use quipu_transcript::story::{
    Folded, ItemKind, Outcome, Piece, RECORD_LABEL, Rewind, StoryDetail, StoryItem, Tools, one_line,
};

use super::tools;
use crate::commands::Context;
use crate::error::Result;
use crate::output::{
    ShortIds, Style, Text, WIDEST_IN_PIPE, bytes, count, dollars, duration, markdown, minute,
    number, plain,
};
use crate::shell;

/// Limit for the width of prose, in columns. Longer lines are hard to read.
const MAX_WIDTH: usize = 100;

/// Indentation of the agent's text.
const INDENT: &str = "  ";

/// Prints a story.
pub(in crate::commands) struct Page<'c> {
    context: &'c mut Context,
    ids: ShortIds,
    detail: StoryDetail,
    /// True if only entries of tools are shown: then results are shown without their calls.
    is_narrowed_to_tools: bool,
    last: Last,
    day: Option<String>,
    /// True while entries are printed that the agent's file no longer has.
    is_absent: bool,
    is_empty: bool,
    /// The session's id.
    session: String,
    /// The entry that is marked and shown in full.
    marked: Option<i64>,
}

/// The kind of line that was printed last.
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
    pub(in crate::commands) fn new(
        choice: &Choice,
        ids: ShortIds,
        context: &'c mut Context,
    ) -> Page<'c> {
        Page {
            context,
            ids,
            detail: choice.detail,
            is_narrowed_to_tools: choice.role == Some(Role::Tool),
            last: Last::Nothing,
            day: None,
            is_absent: false,
            is_empty: true,
            session: String::new(),
            marked: None,
        }
    }

    /// Sets the entry that is marked and shown in full.
    pub(super) fn mark_entry(&mut self, entry: Option<i64>) {
        self.marked = entry;
    }

    /// Prints the session's title and metadata.
    pub(in crate::commands) fn head(
        &mut self,
        head: &StoryHead,
        id: Text,
        cost: Option<f64>,
    ) -> Result<()> {
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
        let cost = cost.filter(|cost| *cost > 0.0).map(dollars);
        let about = [Some(count(head.turns, "turn")), took(head), cost];
        let about = about.into_iter().flatten().map(|fact| Text::styled(Style::Dim, fact));
        let warning = match head.state {
            SessionState::Live => None,
            SessionState::Lost => Some(format!("lost: {}", known_of_lost(head))),
            state => Some(state.to_string()),
        };
        let warning = warning.map(|warning| Text::styled(Style::Warning, warning));
        let about = std::iter::once(id).chain(about).chain(warning);
        self.context.output.line(Text::styled(Style::Bold, title(head, self.width())))?;
        let room = self.room(0);
        let fact = |fact: String| {
            Text::styled(Style::Dim, one_line(&fact, room.unwrap_or(WIDEST_IN_PIPE)))
        };
        for line in Text::joined(facts.into_iter().map(fact), room)
            .into_iter()
            .chain(Text::joined(about, self.context.output.width()))
        {
            self.context.output.laid_out(&line)?;
        }
        for (word, other) in [
            ("sub-agent of", &head.parent_session_id),
            ("forked from", &head.fork_of),
            ("continued in", &head.continued_in),
        ] {
            if let Some(other) = other {
                self.context.output.line(Text::styled(Style::Dim, format!("{word} {other}")))?;
            }
        }
        self.session.clone_from(&head.session_id);
        self.subagents(head.remains.as_ref().map_or(&[], |left| &left.subagent_ids))
    }

    /// Prints sub-agents that no call started.
    fn subagents(&mut self, ids: &[String]) -> Result<()> {
        const MAX_LISTED: usize = 10;
        if ids.is_empty() {
            return Ok(());
        }
        self.is_empty = false;
        for id in ids.iter().take(MAX_LISTED) {
            let command = self.context.shell.command("show", &self.ids.of(id), &[]);
            self.mark(Style::Dim, "↳", "sub-agent")?;
            self.context.output.command(INDENT, &command)?;
        }
        if ids.len() > MAX_LISTED {
            let command = self.context.shell.command("tree", &self.ids.of(&self.session), &[]);
            let more = number((ids.len() - MAX_LISTED) as u64);
            self.mark(Style::Dim, "↳", &format!("{more} more"))?;
            self.context.output.command(INDENT, &command)?;
        }
        Ok(())
    }

    /// Prints one entry.
    pub(in crate::commands) fn item(&mut self, item: &StoryItem<'_>) -> Result<()> {
        self.is_empty = false;
        if self.marked.is_some_and(|marked| marked == item.entry) {
            let detail = std::mem::replace(&mut self.detail, StoryDetail::FULL);
            self.gap()?;
            self.context.output.mark()?;
            let time = item.time.map(|time| format!(" {} ", minute(time.0))).unwrap_or_default();
            let rule = Text::styled(Style::Match, "━━▶").with(Style::Dim, time);
            let room = self.width().saturating_sub(rule.width());
            let rule = rule.with(Style::Match, "━".repeat(room));
            self.context.output.laid_out(&rule)?;
            self.last = Last::Rule;
            self.entry(item)?;
            let end = Text::styled(Style::Match, "━".repeat(self.width()));
            self.context.output.laid_out(&end)?;
            self.detail = detail;
            return Ok(());
        }
        self.entry(item)
    }

    fn entry(&mut self, item: &StoryItem<'_>) -> Result<()> {
        if !item.is_open(self.detail) && item.is_shown(self.detail) {
            return item.gists().try_for_each(|gist| self.gist(gist));
        }
        if item.has_text()
            && std::mem::replace(&mut self.is_absent, item.is_absent) != item.is_absent
        {
            let text = if item.is_absent {
                "from here on, no longer in the agent's file"
            } else {
                "from here on, in the agent's file again"
            };
            self.mark(Style::Dim, "∅", text)?;
        }
        if item.missing_parent.is_some() {
            self.mark(Style::Dim, "⋯", GAP)?;
        }
        if let Some(rewind) = &item.rewind {
            self.mark(Style::Warning, "↶", &rewound(rewind))?;
        }
        if item.is_prompt {
            self.turn(item)?;
        }
        match &item.kind {
            ItemKind::Compaction(compaction) => self.compaction(compaction)?,
            ItemKind::Reset { reason } => {
                let why = reason.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
                self.mark(Style::Dim, "◆", &format!("the context was reset{why}"))?;
            }
            ItemKind::BranchSummary { summary, .. } => {
                self.mark(Style::Dim, "◆", "the agent left a branch and summarised it")?;
                if self.detail.compactions {
                    self.prose(&markdown(summary, self.room(2)), INDENT)?;
                }
            }
            ItemKind::Note => self.mark(Style::Dim, "·", &note(item))?,
            ItemKind::Message => {}
        }
        if item.is_interrupt {
            return self.mark(Style::Warning, "⊘", "the user stopped the agent");
        }
        for piece in &item.pieces {
            self.piece(item, piece)?;
        }
        if let Some(length) = item.oversize {
            let entry = shell::option("--entry", item.id.as_deref().unwrap_or_default());
            let options = [entry, "--raw".to_owned()];
            let session = self.ids.of(&self.session);
            let command = self.context.shell.command("show", &session, &options);
            let text = format!(
                "a line of {}: only its first 64 KiB are parsed; all of it:",
                bytes(length)
            );
            self.mark(Style::Warning, "▤", &text)?;
            self.context.output.command(INDENT, &command)?;
        }
        if item.is_provisional {
            self.mark(Style::Dim, "…", "this line is not complete yet")?;
        }
        Ok(())
    }

    /// Prints one object as JSON.
    pub(in crate::commands) fn json(&mut self, value: &impl serde::Serialize) -> Result<()> {
        Ok(self.context.output.json(value)?)
    }

    /// Prints a note if nothing was shown.
    pub(super) fn end(&mut self) -> Result<()> {
        if self.is_empty {
            self.context.output.gap()?;
            self.context.output.line(Text::styled(Style::Dim, "no messages"))?;
        }
        Ok(())
    }

    /// Prints the rule that begins a turn.
    fn turn(&mut self, item: &StoryItem<'_>) -> Result<()> {
        let number = item.turn.map(|turn| format!(" {turn} ")).unwrap_or_default();
        let mut rule = Text::styled(Style::Dim, "─").with(Style::Bold, number);
        if let Some(time) = item.time {
            // The day is printed once.
            let text = minute(time.0);
            let (day, clock) = text.split_once(' ').unwrap_or((&text, ""));
            let shown = if self.day.as_deref() == Some(day) { clock } else { &*text };
            rule = rule.with(Style::Dim, format!("─ {shown} "));
            self.day = Some(day.to_owned());
        }
        if let Some(author) = item.author() {
            rule = rule.with(Style::Dim, format!("─ {} ", one_line(&author, MAX_WIDTH / 2)));
        }
        let room = self.width().saturating_sub(rule.width());
        rule = rule.with(Style::Dim, "─".repeat(room));
        self.gap()?;
        self.context.output.laid_out(&rule)?;
        self.last = Last::Rule;
        Ok(())
    }

    fn piece(&mut self, item: &StoryItem<'_>, piece: &Piece<'_>) -> Result<()> {
        if !piece.is_shown(self.detail) {
            return Ok(());
        }
        match piece {
            Piece::Words(words) => self.words(item, words),
            Piece::Attached { label, text, .. } if label == RECORD_LABEL => self.fields(text),
            Piece::Attached { gist: Some(gist), .. } if !self.detail.folded => self.gist(gist),
            Piece::Attached { label, text, .. } | Piece::Pasted { label, text } => {
                self.aside(&one_line(label, MAX_WIDTH), text)
            }
            Piece::Thinking(words) => self.aside("thinking", words),
            Piece::Call(call) => {
                self.begin_call()?;
                let (shell, width) = (&self.context.shell, self.context.output.width());
                let lines = tools::call(call, &self.ids, shell, self.detail.tools, width);
                self.laid_out(&lines, "")?;
                self.last = Last::Call(call.id.as_deref().map(str::to_owned));
                Ok(())
            }
            Piece::Result(result) => {
                let is_open = self.detail.tools == Tools::Full;
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
                self.prose(&[Text::styled(Style::Dim, format!("[{kind}]"))], INDENT)
            }
            Piece::Other(name) => {
                self.separate()?;
                self.prose(&[Text::styled(Style::Dim, format!("[{name}]"))], INDENT)
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
                let lines = plain(words, Style::Bad, room);
                self.marked(Text::styled(Style::Bad, "✗ "), &lines)
            }
            Some(Role::Assistant) => self.prose(&markdown(words, room), INDENT),
            _ if item.is_automatic => {
                let lines = plain(words, Style::Dim, room);
                self.marked(Text::styled(Style::Dim, "⚙ "), &lines)
            }
            _ => {
                let mut lines = plain(words, Style::Plain, room);
                if item.is_queued {
                    lines.push(Text::styled(Style::Dim, "(typed while the agent worked)"));
                }
                self.marked(Text::styled(Style::Accent, "❯ "), &lines)
            }
        }
    }

    /// Prints what a person chose to show the model.
    fn gist(&mut self, gist: &str) -> Result<()> {
        self.mark(Style::Dim, "+", gist)
    }

    /// Prints something that is hidden by default.
    fn aside(&mut self, label: &str, words: &str) -> Result<()> {
        self.separate()?;
        let bar = "┊ ";
        let lines = plain(words, Style::Dim, self.room(4));
        let label =
            Text::styled(Style::Dim, INDENT).with(Style::Dim, bar).with(Style::Italic, label);
        self.context.output.laid_out(&label)?;
        for line in lines {
            let line = Text::styled(Style::Dim, INDENT).with(Style::Dim, bar).join(line);
            self.context.output.laid_out(&line)?;
        }
        self.last = Last::Words;
        Ok(())
    }

    /// Prints the fields of a record directly below what the record shows.
    fn fields(&mut self, text: &str) -> Result<()> {
        for line in plain(text, Style::Dim, self.room(4)) {
            let line = Text::styled(Style::Dim, INDENT).with(Style::Dim, "┊ ").join(line);
            self.context.output.laid_out(&line)?;
        }
        Ok(())
    }

    fn compaction(&mut self, compaction: &Compaction<'_>) -> Result<()> {
        let text = compacted(compaction);
        self.mark(Style::Dim, "◆", &text)?;
        if !self.detail.compactions {
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
            let mut lines = vec![Text::styled(Style::Dim, word)];
            lines.extend(files.iter().flat_map(|file| {
                plain(
                    &format!("{INDENT}{}", one_line(file, usize::MAX)),
                    Style::Plain,
                    self.room(2),
                )
            }));
            self.prose(&lines, INDENT)?;
        }
        Ok(())
    }

    /// Prints a line about an event.
    fn mark(&mut self, style: Style, mark: &str, text: &str) -> Result<()> {
        if self.last != Last::Mark {
            self.separate()?;
        }
        let lines = plain(&one_line(text, usize::MAX), style, self.room(2));
        self.marked(Text::styled(style, mark).and(" "), &lines)?;
        self.last = Last::Mark;
        Ok(())
    }

    /// Prints lines, the first one with a mark.
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

    /// Begins a call. Calls follow each other without an empty line.
    fn begin_call(&mut self) -> Result<()> {
        match self.last {
            Last::Call(_) => Ok(()),
            _ => self.separate(),
        }
    }

    /// Prints an empty line, except after a rule.
    fn separate(&mut self) -> Result<()> {
        match self.last {
            Last::Rule => Ok(()),
            _ => self.gap(),
        }
    }

    fn gap(&mut self) -> Result<()> {
        Ok(self.context.output.gap()?)
    }

    /// Returns the width of rules.
    fn width(&self) -> usize {
        self.context.output.width().map_or(MAX_WIDTH, |width| width.min(MAX_WIDTH))
    }

    /// Returns the width that is left for prose.
    fn room(&self, taken: usize) -> Option<usize> {
        let width = self.context.output.width()?;
        Some(width.min(MAX_WIDTH).saturating_sub(taken).max(1))
    }
}

/// Returns a session's title.
pub(in crate::commands) fn title(head: &StoryHead, width: usize) -> String {
    let text = head.title.as_deref().unwrap_or("untitled");
    one_line(text, width.min(MAX_WIDTH))
}

/// Returns the time between the first and the last entry.
fn took(head: &StoryHead) -> Option<String> {
    let (started, ended) = head.started_at.zip(head.updated_at)?;
    (ended - started >= 1000).then(|| duration(ended - started))
}

/// Describes what is known of a lost session.
fn known_of_lost(head: &StoryHead) -> String {
    let Some(left) = &head.remains else { return "its transcript is gone".to_owned() };
    if head.part == "trajectory" {
        return "only the trajectory of its runs is known".to_owned();
    }
    if left.subagent_ids.is_empty() && left.outputs == 0 && left.prompts > 0 {
        return "only its prompts are known".to_owned();
    }
    let known = [
        (left.prompts, "prompt"),
        (left.subagent_ids.len() as u64, "sub-agent"),
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

/// Describes an entry that is not a message, and its time if its type is unknown.
fn note(item: &StoryItem<'_>) -> String {
    if item.folded != Some(Folded::Unknown) {
        return item.type_name.to_string();
    }
    let name = if item.type_name.is_empty() { "no type" } else { &*item.type_name };
    let time = item.time.map(|time| format!(" · {}", minute(time.0))).unwrap_or_default();
    format!("{name} · unknown type{time}")
}

fn rewound(rewind: &Rewind) -> String {
    let to = match (rewind.to_turn, &rewind.to) {
        (Some(turn), _) if rewind.is_within_turn => format!("rewound within turn {turn}"),
        (Some(turn), _) => format!("rewound to turn {turn}"),
        (None, Some(_)) => "rewound to the beginning".to_owned(),
        (None, None) => "started over".to_owned(),
    };
    format!("{to}; {} abandoned", rewind.abandoned())
}
