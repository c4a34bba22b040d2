//! `quipu session context`: the messages for the model.

use quipu_ledger::Error;
use quipu_ledger::Message;
use quipu_ledger::query::ContextSize;
use quipu_ledger::query::SessionContext;
use quipu_ledger::wire::ModelContext;
use serde_json::Value;

use super::super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::{Column, ID_LETTERS, ShortIds, Style, Text, count};
use crate::reading;

/// Print the messages that a model should see for a leaf of a session
///
/// These are the messages on the path to the leaf, in the format of pi and
/// OpenClaw. The last compaction replaces the entries before it, edits are
/// applied, and every tool call is followed by its result.
///
/// `--json` prints one object: leaf, model, provider, thinking_level and messages.
/// With --budget it also has context_tokens and shortened_results. If the messages
/// exceed the budget even with all tool results shortened, they are printed and
/// the exit code is 1. Nothing is stored.
///
/// Examples:
///   quipu session context 640a --json
///   quipu session context agent:main:main --leaf 65a08635
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// A session id or an unambiguous beginning of one, a session key, or `last`
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// Use this entry instead of the session's leaf; `#7` is the entry on line 7
    #[arg(long, value_name = "ENTRY", allow_hyphen_values = true)]
    leaf: Option<String>,

    /// Shorten the oldest tool results until the messages have at most this many tokens
    #[arg(long, value_name = "TOKENS")]
    budget: Option<u64>,
}

/// Number of characters that are shown of a message.
const MAX_SHOWN_CHARS: usize = 200;

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let (ledger, is_behind) =
        match quipu_ledger::store::open_for_lines(&context.settings.ledger.value) {
            Err(Error::Absent { .. }) if !reading::is_named(context) => {
                return Err(Error::NoMatch { what: "session", name: args.id.clone() }.into());
            }
            opened => opened?,
        };
    if is_behind {
        super::warn_of_rebuild(context, &ledger)?;
    }
    let row = match quipu_ledger::query::find_session(&ledger, &args.id) {
        // A transcript without a line has an empty context.
        Err(Error::Empty { .. }) if args.leaf.is_none() => None,
        found => Some(found?),
    };
    let seen = match row {
        Some(row) => quipu_ledger::query::context_of(&ledger, row, args.leaf.as_deref())?,
        None => SessionContext::default(),
    };
    if seen.cut > 0 {
        let messages = count(seen.cut as u64, "message");
        let warning = format!("{messages} in lines above 32 MiB: texts are cut after 64 KiB");
        context.output.warn(&warning, None);
    }
    let (seen, fitted) = match args.budget {
        Some(budget) => {
            let (seen, size) = seen.fit(budget);
            (seen, Some(size))
        }
        None => (seen, None),
    };
    let is_over =
        fitted.as_ref().zip(args.budget).is_some_and(|(size, budget)| size.tokens > budget);
    if context.is_json {
        context.output.json(&ModelContext {
            context_tokens: fitted.map(|size| size.tokens),
            shortened_results: fitted.map(|size| size.shortened),
            ..ModelContext::of(&seen.context)
        })?;
        return within(is_over);
    }
    let session =
        row.map(|row| quipu_ledger::query::summary_of(&ledger, row)).transpose()?.flatten();
    let id = session.map(|session| session.session_id);
    let ids = ShortIds::new(quipu_ledger::query::ids_with_ambiguous_prefix(&ledger, ID_LETTERS)?);
    // An open snapshot keeps the write-ahead log from shrinking, and a pager may be open for hours.
    drop(ledger);
    context.output.page()?;
    summary(context, &ids.of(id.as_deref().unwrap_or(&args.id)), &seen, fitted)?;
    let messages = &seen.context.messages;
    if messages.is_empty() {
        return within(is_over);
    }
    // The columns have no titles, so the table begins with an empty line.
    let rows = messages.iter().enumerate().map(|(index, message)| message_row(index, message));
    let columns = [Column::numbers(""), Column::words(""), Column::title("")];
    let rows = rows.collect();
    context.output.table(0, &columns, rows)?;
    within(is_over)
}

/// Fails if the context is too long for its budget.
fn within(is_over: bool) -> Result<()> {
    match is_over {
        false => Ok(()),
        true => {
            let mut error = CommandError::new("the context does not fit into the budget")
                .hint("`quipu session compact` replaces its beginning by a summary");
            error.kind = Kind::NoMatch;
            Err(error)
        }
    }
}

/// Returns the row of a message: its number, its role and its text.
pub(super) fn message_row(index: usize, message: &Message) -> Vec<Text> {
    // A message that serde_json refuses, for example a deeply nested one, has a row without text.
    let value = serde_json::from_str(message.json()).unwrap_or(Value::Null);
    let (role, style) = role_of(&value);
    vec![
        Text::styled(Style::Dim, (index + 1).to_string()),
        Text::styled(style, role),
        Text::plain(short(&text_of(&value))),
    ]
}

/// Prints facts about the whole context.
fn summary(
    context: &mut Context,
    id: &str,
    seen: &SessionContext,
    size: Option<ContextSize>,
) -> Result<()> {
    let length = count(seen.context.messages.len() as u64, "message");
    let headline = Text::plain("session ").with(Style::Bold, id).and(format!(": {length}"));
    context.output.line(headline)?;
    let mut facts = Vec::new();
    facts.push((
        "leaf",
        Text::plain(seen.context.leaf.as_deref().unwrap_or("none: there are no entries yet")),
    ));
    if let Some(model) = &seen.context.model {
        let words = [&model.provider, &model.model_id].into_iter().flatten();
        facts.push(("model", Text::plain(words.cloned().collect::<Vec<_>>().join(" "))));
    }
    facts.push(("thinking", Text::plain(&seen.context.thinking_level)));
    if let Some(ContextSize { tokens, shortened }) = size {
        let results = count(shortened as u64, "result");
        let size = format!("{}, {results} shortened", count(tokens, "token"));
        facts.push(("size", Text::plain(size)));
    }
    let repairs = seen.repairs;
    let repaired = [
        (repairs.added, "added"),
        (repairs.moved, "moved"),
        (repairs.duplicates, "duplicate"),
        (repairs.orphans, "without a call"),
    ];
    let repaired: Vec<String> = repaired
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{number} {what}"))
        .collect();
    if !repaired.is_empty() {
        facts.push(("tool results", Text::styled(Style::Warning, repaired.join(", "))));
    }
    Ok(context.output.facts(2, &facts)?)
}

/// Returns a short name of a message's role.
fn role_of(message: &Value) -> (&str, Style) {
    match message["role"].as_str().unwrap_or("?") {
        "user" => ("user", Style::Bold),
        "assistant" => ("assistant", Style::Good),
        "toolResult" if message["isError"] == Value::Bool(true) => ("error", Style::Bad),
        "toolResult" => ("result", Style::Dim),
        "compactionSummary" => ("summary", Style::Warning),
        "branchSummary" => ("branch", Style::Warning),
        "bashExecution" => ("shell", Style::Dim),
        role => (role, Style::Dim),
    }
}

/// Returns a message's text for one line; [`short`] cuts it.
fn text_of(message: &Value) -> String {
    if let Some(summary) = message["summary"].as_str() {
        return summary.to_owned();
    }
    if let Some(command) = message["command"].as_str() {
        return format!("{command}: {}", message["output"].as_str().unwrap_or_default());
    }
    let name = message["toolName"].as_str().map(|name| format!("{name}: ")).unwrap_or_default();
    if let Some(text) = message["content"].as_str() {
        return format!("{name}{text}");
    }
    let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let pieces = blocks.iter().filter_map(|block| match block["type"].as_str()? {
        "text" => block["text"].as_str().map(|text| text.chars().take(MAX_SHOWN_CHARS).collect()),
        "toolCall" => {
            Some(format!("{}({})", block["name"].as_str().unwrap_or("?"), block["arguments"]))
        }
        "image" => Some("(image)".to_owned()),
        // Thinking is not shown.
        "thinking" => None,
        other => Some(format!("({other})")),
    });
    name + &pieces.collect::<Vec<String>>().join(" ")
}

/// Cuts text and joins it into one line.
fn short(text: &str) -> String {
    let text: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
