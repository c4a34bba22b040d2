//! Prints search hits for people, grouped by session, note or job.

use std::collections::HashMap;

use quipu_ledger::wire::{SearchAnswer, SearchHit, SessionState};
use quipu_transcript::format;
use quipu_transcript::story::one_line;

use super::command::Opener;
use crate::commands::Context;
use crate::error::Result;
use crate::output::{Style, Text, WIDEST_IN_PIPE, bytes, count, elapsed, minute, number};

/// Prints hits, and then what the answer may be missing.
pub(super) fn show(
    context: &mut Context,
    opener: &Opener<'_>,
    answer: &SearchAnswer,
    (understood, gaps): (&str, &[String]),
) -> Result<()> {
    let mut groups: Vec<(GroupKey<'_>, Vec<&SearchHit>)> = Vec::new();
    for hit in &answer.hits {
        let key = GroupKey::of(hit);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, hits)) => hits.push(hit),
            None => groups.push((key, vec![hit])),
        }
    }
    for (_, hits) in &groups {
        group(context, opener, hits)?;
        context.output.gap()?;
    }
    let mut summary = summary(answer, understood);
    if let Some(scanned) = answer.scanned {
        let (records, size) = (count(scanned.records, "record"), bytes(scanned.bytes));
        summary.push_str(&format!("; searched the text of {records}, {size}"));
    }
    context.output.line(Text::styled(Style::Dim, summary))?;
    for gap in gaps {
        let gap = context.shell.sentence(gap);
        context.output.line(Text::styled(Style::Dim, gap))?;
    }
    Ok(())
}

/// Returns the number of hits, and what was searched for.
fn summary(answer: &SearchAnswer, understood: &str) -> String {
    let is_other_ending = |hit: &&SearchHit| hit.variant == Some("ending");
    let others = answer.hits.iter().filter(is_other_ending).count() as u64;
    let shown = answer.hits.len() as u64 - others;
    let total = match answer.is_at_most {
        true => format!("at most {}", count(answer.total, "hit")),
        false if answer.total == 0 => "no hits".to_owned(),
        false => count(answer.total, "hit"),
    };
    let mut summary = match answer.total == shown {
        true => format!("{total} for {understood}"),
        false => format!("{} of {total} for {understood}", number(shown)),
    };
    if let Some(as_typed) = answer.as_typed.filter(|as_typed| *as_typed < answer.total) {
        summary.push_str(&format!(", {} with these signs", number(as_typed)));
    }
    match answer.with_other_endings {
        0 => {}
        all if all == others => {
            summary.push_str(&format!("; {} with other endings", number(all)));
        }
        all => {
            let (others, all) = (number(others), number(all));
            summary.push_str(&format!("; {others} of {all} with other endings"));
        }
    }
    if answer.total + answer.with_other_endings > shown + others {
        summary.push_str("; `-n 0` lists all");
        if answer.hits.iter().any(|hit| hit.score.is_some()) {
            summary.push_str(", --recent the newest first");
        }
    }
    summary
}

/// The key that groups hits: by session, note or job.
#[derive(PartialEq, Eq)]
struct GroupKey<'a> {
    format: &'a str,
    agent: Option<&'a str>,
    session: Option<&'a str>,
    kind: &'a str,
    name: Option<&'a str>,
}

impl GroupKey<'_> {
    fn of(hit: &SearchHit) -> GroupKey<'_> {
        let session = hit.session_id.as_deref();
        GroupKey {
            format: &hit.format,
            agent: hit.agent.as_deref(),
            session,
            kind: if session.is_some() { "" } else { &hit.type_name },
            name: if session.is_some() { None } else { hit.name.as_deref() },
        }
    }
}

/// Prints the hits of one session, note or job.
fn group(context: &mut Context, opener: &Opener<'_>, hits: &[&SearchHit]) -> Result<()> {
    let Some(first) = hits.first() else { return Ok(()) };
    context.output.line(headline(first))?;
    for line in Text::joined(origin(context, opener, first), context.output.width()) {
        context.output.laid_out(&line)?;
    }
    for (hit, more) in folded(hits) {
        show_hit(context, hit)?;
        if let Some(command) = opener.entry(hit) {
            context.output.command("    ", &command)?;
        }
        if more > 0 {
            let similar = match hit.turn_number {
                Some(turn) => format!("  and {} similar in turn {turn}", number(more)),
                None => format!("  and {} similar", number(more)),
            };
            context.output.line(Text::styled(Style::Dim, similar))?;
        }
    }
    if let Some(command) = opener.command(first) {
        context.output.command("  ", &command)?;
    }
    Ok(())
}

/// Folds similar hits into one: calls of one tool in one turn whose lines differ only in numbers.
/// Returns each with the number of similar ones.
fn folded<'h>(hits: &[&'h SearchHit]) -> Vec<(&'h SearchHit, u64)> {
    let alike = |hit: &SearchHit| {
        let tool = hit.tool.clone().filter(|_| hit.around.is_empty() && !hit.is_error)?;
        let text = hit.snippet.replace(|letter: char| letter.is_ascii_digit(), "");
        Some((hit.turn_number, tool, hit.place, text))
    };
    let mut folded: Vec<(&SearchHit, u64)> = Vec::with_capacity(hits.len());
    let mut seen: HashMap<_, usize> = HashMap::new();
    for hit in hits {
        let key = alike(hit);
        match key.as_ref().and_then(|key| seen.get(key)).and_then(|at| folded.get_mut(*at)) {
            Some((_, more)) => *more += 1,
            None => {
                seen.extend(key.map(|key| (key, folded.len())));
                folded.push((hit, 0));
            }
        }
    }
    folded
}

/// Returns the title of the session, note or job that the hits are in.
fn headline(hit: &SearchHit) -> Text {
    let name = hit.name.as_deref().unwrap_or_default();
    let title = match (&hit.session_id, hit.type_name.as_str()) {
        (Some(_), _) => hit.title.clone().unwrap_or_else(|| "(no title)".to_owned()),
        (None, "note") => format!("Note {name}"),
        (None, "cron_run" | "cron_jobs") => format!("Scheduled job {name}"),
        (None, "history") => "Prompt history".to_owned(),
        (None, kind) => format!("{kind} {name}"),
    };
    // A title may be a whole prompt.
    let line = title.split(['\n', '\r']).find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut text = Text::styled(Style::Bold, line.trim()).shorten(MAX_TITLE_WIDTH);
    for mark in marks(hit) {
        text = text.with(Style::Warning, format!(" [{mark}]"));
    }
    text
}

/// Width after which a title is cut, in columns.
const MAX_TITLE_WIDTH: usize = 76;

/// Returns the marks of a special session, for example `sub-agent`.
fn marks(hit: &SearchHit) -> Vec<&str> {
    let mut marks = Vec::new();
    if let Some(state) = hit.state.filter(|state| *state != SessionState::Live) {
        marks.push(state.as_str());
    }
    if hit.part.as_deref() == Some("subagent")
        || (hit.session_id.is_some() && hit.parent_session_id.is_some())
    {
        marks.push("sub-agent");
    }
    marks
}

/// Returns the id, project, agent and day of the session, note or job that the hits are in.
fn origin(context: &Context, opener: &Opener<'_>, hit: &SearchHit) -> Vec<Text> {
    let mut parts = Vec::new();
    if let Some(session) = &hit.session_id {
        parts.push(context.linked_session(opener.ledger, opener.ids, session));
    }
    let dim = |text: String| Text::styled(Style::Dim, text);
    let width = context.output.width().unwrap_or(WIDEST_IN_PIPE).min(WIDEST_IN_PIPE);
    let place = hit.cwd.as_deref().or(hit.slug.as_deref()).or(hit.project.as_deref());
    parts.extend(place.map(|place| dim(one_line(&context.show(place), width))));
    let program = format::by_name(&hit.format).map_or(hit.format.as_str(), |format| format.title());
    parts.push(dim(match hit.agent.as_deref() {
        None | Some("" | "main") => program.to_owned(),
        Some(agent) => format!("{program}/{agent}"),
    }));
    parts.extend(hit.time.map(|time| dim(elapsed(time))));
    parts
}

fn show_hit(context: &mut Context, hit: &SearchHit) -> Result<()> {
    for near in hit.around.iter().filter(|near| near.is_before) {
        nearby(context, near)?;
    }
    let room = context.output.width().map(|width| width.saturating_sub(2));
    let parts = label(hit).into_iter().map(|part| Text::styled(Style::Dim, part));
    for line in Text::joined(parts, room) {
        context.output.laid_out(&Text::plain("  ").join(line))?;
    }
    let width = context.output.width().map(|width| width.saturating_sub(4));
    for text in snippet(hit) {
        let lines = match width {
            Some(width) => text.wrap(width),
            None => vec![text],
        };
        for line in lines {
            context.output.laid_out(&Text::plain("    ").join(line))?;
        }
    }
    for near in hit.around.iter().filter(|near| !near.is_before) {
        nearby(context, near)?;
    }
    Ok(())
}

/// Prints an entry before or after a hit, on one line.
fn nearby(context: &mut Context, near: &quipu_ledger::wire::Nearby) -> Result<()> {
    let role = near.role.as_deref().unwrap_or("-");
    let text = Text::styled(Style::Dim, format!("  {role}: {}", near.text));
    let width = context.output.width().unwrap_or(usize::MAX);
    Ok(context.output.line(text.shorten(width))?)
}

/// Describes where in the session a hit is, and its role.
fn label(hit: &SearchHit) -> Vec<String> {
    let mut parts = Vec::new();
    parts.extend(hit.turn_number.map(|turn| format!("turn {}", number(turn))));
    let tool = hit.tool.as_deref();
    match (hit.place, tool) {
        ("input", Some(tool)) => parts.push(format!("{tool} call")),
        ("result", Some(tool)) => parts.push(format!("{tool} result")),
        ("result", None) => parts.push("tool result".to_owned()),
        ("thinking", _) => parts.push("thinking".to_owned()),
        ("attached", _) => parts.push("attached".to_owned()),
        _ => match (&hit.role, hit.type_name.as_str()) {
            (Some(role), _) => parts.push(role.clone()),
            (None, "note" | "cron_run" | "cron_jobs" | "history") => {}
            (None, kind) if kind.ends_with("-title") => parts.push("title".to_owned()),
            (None, kind) => parts.push(kind.to_owned()),
        },
    }
    if hit.is_error {
        parts.push("failed".to_owned());
    }
    parts.extend(match hit.variant {
        Some("ending") => Some("other ending".to_owned()),
        Some("signs") => Some("other signs".to_owned()),
        _ => None,
    });
    if hit.is_older {
        parts.push("older version".to_owned());
    }
    parts.extend(hit.time.map(minute));
    parts
}

/// Returns the lines of a hit's text, with the matches marked.
fn snippet(hit: &SearchHit) -> Vec<Text> {
    let mut lines = vec![Text::plain(if hit.is_cut_before { "…" } else { "" })];
    let mut add = |style: Style, piece: &[char]| {
        for (number, line) in piece.split(|character| *character == '\n').enumerate() {
            let line: String = line.iter().collect();
            match lines.last_mut() {
                Some(last) if number == 0 => *last = std::mem::take(last).with(style, line),
                _ => lines.push(Text::styled(style, line)),
            }
        }
    };
    let characters: Vec<char> = hit.snippet.chars().collect();
    let mut at = 0;
    for (start, end) in &hit.marks {
        add(Style::Plain, characters.get(at..*start).unwrap_or_default());
        add(Style::Match, characters.get(*start..*end).unwrap_or_default());
        at = *end;
    }
    add(Style::Plain, characters.get(at..).unwrap_or_default());
    add(Style::Plain, if hit.is_cut_after { &['…'] } else { &[] });
    lines
}
