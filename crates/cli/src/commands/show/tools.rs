//! Formats tool calls and their results.

use quipu_transcript::story::{
    self, Edit, Outcome, StoryCall, StoryResult, Task, TaskState, Tools, edits, one_line,
    subject_line, tasks,
};

use crate::output::{ShortIds, Style, Text, bytes, count, hunks, plain};
use crate::shell::Shell;

/// Indentation of a call's input and result.
const INSIDE: &str = "      ";

/// Formats a call: its mark, name and description, and with `tools` its input.
pub(super) fn call(
    call: &StoryCall<'_>,
    ids: &ShortIds,
    shell: &Shell,
    tools: Tools,
    room: Option<usize>,
) -> Vec<Text> {
    let about = call.about.as_deref().filter(|_| tools > Tools::Names);
    let note = match (call.outcome, call.is_partial) {
        (Some(Outcome::Failed), _) => Text::styled(
            Style::Bad,
            call.exit_code.map_or("failed".to_owned(), |code| format!("exit code {code}")),
        ),
        (Some(Outcome::Mentions), _) => Text::styled(Style::Warning, "mentions an error"),
        (Some(Outcome::Fine), _) => Text::default(),
        (None, true) => Text::styled(Style::Dim, "cut off"),
        (None, false) => Text::styled(Style::Dim, "no result"),
    };
    let name = if call.name.is_empty() { "a tool without a name" } else { &*call.name };
    let cut = |columns| match &call.input {
        Some(input) => story::about(&call.name, input.get(), columns).unwrap_or_default(),
        None => String::new(),
    };
    let mut lines = line(mark(call.outcome), name, about.map(|about| (about, cut)), note, room);
    if let Some(session) = &call.subagent {
        let command = shell.command("show", &ids.of(session), &[]);
        lines.push(Text::plain(INSIDE).with(Style::Good, command));
    }
    if tools >= Tools::Inputs
        && let Some(input) = &call.input
    {
        lines.extend(self::input(input.get(), room));
    }
    lines
}

/// Formats a result, below its call or with a line that names its call.
pub(super) fn result(
    result: &StoryResult<'_>,
    is_open: bool,
    follows_call: bool,
    room: Option<usize>,
) -> Vec<Text> {
    let mut lines = Vec::new();
    if !follows_call {
        let name = result.name.as_deref().unwrap_or("a tool");
        let mut note = match result.outcome {
            Outcome::Failed => Text::styled(Style::Bad, "failed"),
            Outcome::Mentions => Text::styled(Style::Warning, "mentions an error"),
            Outcome::Fine => Text::styled(Style::Dim, bytes(result.text.len() as u64)),
        };
        if result.is_orphan {
            note = note.with(Style::Dim, " · without a call");
        }
        let style = match result.outcome {
            Outcome::Fine => Style::Dim,
            Outcome::Mentions => Style::Warning,
            Outcome::Failed => Style::Bad,
        };
        let mark = Text::styled(style, "  ↳ ");
        let about = result
            .about
            .as_deref()
            .map(|about| (about, move |columns| subject_line(about, columns)));
        lines.extend(line(mark, name, about, note, room));
    }
    if is_open {
        let inner = room.map(|room| room.saturating_sub(INSIDE.len()).max(1));
        let body = plain(result.text.trim_matches('\n'), Style::Dim, inner);
        lines.extend(body.into_iter().map(|line| Text::plain(INSIDE).join(line)));
        if result.images > 0 {
            let images = count(result.images.into(), "image");
            lines.extend(fit(Text::styled(Style::Dim, format!("{INSIDE}[{images}]")), room));
        }
        if let Some(file) = &result.output_file {
            lines.extend(fit(
                Text::styled(Style::Dim, format!("{INSIDE}full output: {file}")),
                room,
            ));
        }
    }
    lines
}

fn mark(outcome: Option<Outcome>) -> Text {
    match outcome {
        Some(Outcome::Failed) => Text::styled(Style::Bad, "  ✗ "),
        Some(Outcome::Mentions) => Text::styled(Style::Warning, "  ! "),
        Some(Outcome::Fine) | None => Text::styled(Style::Dim, "  · "),
    }
}

/// Formats one line. If it is too long, it cuts the description with the function beside it, then
/// the tool's name; only if that is not enough, it breaks the line.
fn line(
    mark: Text,
    name: &str,
    about: Option<(&str, impl Fn(usize) -> String)>,
    note: Text,
    room: Option<usize>,
) -> Vec<Text> {
    /// A name is not cut to fewer columns.
    const MIN_NAME_WIDTH: usize = 8;
    let beside = mark.width()
        + if note.is_empty() { 0 } else { note.width() + 2 }
        + if about.is_some() { 2 } else { 0 };
    let name = match room {
        Some(room) => {
            Text::styled(Style::Bold, name).cut(room.saturating_sub(beside).max(MIN_NAME_WIDTH))
        }
        None => Text::styled(Style::Bold, name),
    };
    let mut line = mark.join(name);
    if let Some((words, cut)) = about {
        let taken = line.width() + 1 + if note.is_empty() { 0 } else { note.width() + 2 };
        let about = Text::plain(words);
        let about = match room.map(|room| room.saturating_sub(taken).max(1)) {
            // Control characters are wider when they are made visible.
            Some(room) if about.width() > room => Text::plain(cut(room)).shorten(room),
            _ => about,
        };
        line = line.and(" ").join(about);
    }
    fit(if note.is_empty() { line } else { line.and("  ").join(note) }, room)
}

/// Formats a call's input: one line per argument, longer texts below their names.
fn input(json: &str, room: Option<usize>) -> Vec<Text> {
    let inner = room.map(|room| room.saturating_sub(INSIDE.len()).max(1));
    let mut lines = Vec::new();
    if let Some(tasks) = tasks(json) {
        lines.extend(tasks.iter().flat_map(|task| fit(self::task(task), inner)));
        return lines.into_iter().map(|line| Text::plain(INSIDE).join(line)).collect();
    }
    let edits = edits(json);
    if !edits.is_empty() {
        lines.extend(edits.iter().flat_map(|edit| diff(edit, inner)));
        return lines.into_iter().map(|line| Text::plain(INSIDE).join(line)).collect();
    }
    match serde_json::from_str::<serde_json::Value>(json) {
        Ok(serde_json::Value::Object(fields)) => {
            for (key, value) in fields {
                let value = match value {
                    serde_json::Value::String(text) => text,
                    other => other.to_string(),
                };
                let key = Text::styled(Style::Dim, format!("{key}: "));
                if value.trim_end().contains('\n') {
                    lines.extend(fit(key, inner));
                    let inner = inner.map(|inner| inner.saturating_sub(2).max(1));
                    let text = plain(&value, Style::Plain, inner);
                    lines.extend(text.into_iter().map(|line| Text::plain("  ").join(line)));
                } else {
                    lines.extend(fit(key.and(value.trim_end().replace(['\t', '\r'], " ")), inner));
                }
            }
        }
        _ => lines.extend(plain(json, Style::Plain, inner)),
    }
    lines.into_iter().map(|line| Text::plain(INSIDE).join(line)).collect()
}

/// Number of unchanged lines around a change.
const CONTEXT_LINES: usize = 3;

/// Formats an edit: its file, then the old and the new lines in order.
fn diff(edit: &Edit, room: Option<usize>) -> Vec<Text> {
    let mut lines = fit(Text::styled(Style::Dim, &edit.path), room);
    let hunks = hunks(edit.old.as_deref().unwrap_or_default(), &edit.new, CONTEXT_LINES);
    for (number, hunk) in hunks.iter().enumerate() {
        if number > 0 {
            lines.push(Text::styled(Style::Dim, "…"));
        }
        lines.extend(hunk.iter().flat_map(|line| fit(line.shown(" "), room)));
    }
    lines
}

/// Formats a task of a list.
fn task(task: &Task) -> Text {
    match task.state {
        TaskState::Done => {
            Text::styled(Style::Good, "✓ ").with(Style::Dim, one_line(&task.text, MAX_TASK_WIDTH))
        }
        TaskState::Doing => {
            Text::styled(Style::Accent, "▸ ").and(one_line(&task.text, MAX_TASK_WIDTH))
        }
        TaskState::Open => Text::plain("○ ").and(one_line(&task.text, MAX_TASK_WIDTH)),
    }
}

/// Limit for the length of a task, in columns.
const MAX_TASK_WIDTH: usize = 400;

fn fit(line: Text, room: Option<usize>) -> Vec<Text> {
    match room {
        Some(room) => line.wrap(room),
        None => vec![line],
    }
}
