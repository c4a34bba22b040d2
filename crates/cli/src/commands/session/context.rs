//! `quipu session context`: what a model should see.

use quipu_ledger::{Error, SessionContext};
use serde_json::Value;

use super::super::Context;
use crate::error::Result;
use crate::output::{Column, ID_LETTERS, Look, ShortIds, Text, count};
use crate::reading;

/// Print what a model should see for a leaf of a session
///
/// The messages on the path to the leaf, in the shapes that pi and OpenClaw
/// use: the last compaction stands for what was before it, edits are applied,
/// and every tool call is followed by its result.
///
/// `--json` prints one object: leaf, model, thinkingLevel and messages.
///
/// Examples:
///   quipu session context 640a --json
///   quipu session context agent:main:main --leaf 65a08635
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The session: its id or an unambiguous beginning of it, a session key, or `last`
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// Look from this entry instead of the session's own leaf; `#7` is the entry on line 7
    #[arg(long, value_name = "ENTRY", allow_hyphen_values = true)]
    leaf: Option<String>,
}

/// So much of a message is shown.
const SHOWN: usize = 200;

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let (ledger, is_behind) =
        match quipu_ledger::store::open_for_lines(&context.settings.ledger.value) {
            Err(Error::Absent { .. }) if !reading::is_named(context) => {
                return Err(Error::NoMatch { what: "session", name: args.id.clone() }.into());
            }
            opened => opened?,
        };
    if is_behind {
        reading::warn_of_unprojected(context, quipu_ledger::unprojected(&ledger)?);
    }
    let row = quipu_ledger::find_session(&ledger, &args.id)?;
    let seen = quipu_ledger::context(&ledger, row, args.leaf.as_deref())?;
    if seen.cut > 0 {
        let messages = count(seen.cut as u64, "message");
        let warning = format!("{messages} above 32 MiB: texts in it are cut after 64 KiB");
        context.output.warn(&warning, None);
    }
    if context.is_json {
        return Ok(context.output.json(&seen.context)?);
    }
    let id = quipu_ledger::session(&ledger, row)?.map(|session| session.id);
    let ids = ShortIds::new(quipu_ledger::crowded_ids(&ledger, ID_LETTERS)?);
    // The log cannot be cut off while the state is held, and a pager may be open for hours.
    drop(ledger);
    context.output.page()?;
    summary(context, &ids.of(id.as_deref().unwrap_or(&args.id)), &seen)?;
    let messages = &seen.context.messages;
    if messages.is_empty() {
        return Ok(());
    }
    // The columns need no titles; their empty line sets them apart.
    let rows = messages.iter().enumerate().map(|(index, message)| {
        // What cannot be read as a tree is shown as it is.
        let value = serde_json::from_str(message.json()).unwrap_or(Value::Null);
        let (who, look) = who(&value);
        vec![
            Text::of(Look::Dim, (index + 1).to_string()),
            Text::of(look, who),
            Text::plain(short(&said(&value))),
        ]
    });
    let columns = [Column::numbers(""), Column::words(""), Column::title("")];
    let rows = rows.collect();
    Ok(context.output.table(0, &columns, rows)?)
}

/// What the messages have in common.
fn summary(context: &mut Context, id: &str, seen: &SessionContext) -> Result<()> {
    let length = count(seen.context.messages.len() as u64, "message");
    let headline = Text::plain("session ").with(Look::Bold, id).and(format!(": {length}"));
    context.output.line(headline)?;
    let mut facts = Vec::new();
    facts.push((
        "leaf",
        Text::plain(seen.context.leaf.as_deref().unwrap_or("none: nothing was said yet")),
    ));
    if let Some(model) = &seen.context.model {
        let words = [&model.provider, &model.model_id].into_iter().flatten();
        facts.push(("model", Text::plain(words.cloned().collect::<Vec<_>>().join(" "))));
    }
    facts.push(("thinking", Text::plain(&seen.context.thinking_level)));
    let repairs = seen.repairs;
    let mended = [
        (repairs.added, "added"),
        (repairs.moved, "moved"),
        (repairs.duplicates, "duplicate"),
        (repairs.orphans, "without a call"),
    ];
    let mended: Vec<String> = mended
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{number} {what}"))
        .collect();
    if !mended.is_empty() {
        facts.push(("tool results", Text::of(Look::Warning, mended.join(", "))));
    }
    Ok(context.output.facts(2, &facts)?)
}

/// Who speaks, in a word.
fn who(message: &Value) -> (&str, Look) {
    match message["role"].as_str().unwrap_or("?") {
        "user" => ("user", Look::Bold),
        "assistant" => ("assistant", Look::Good),
        "toolResult" if message["isError"] == Value::Bool(true) => ("error", Look::Bad),
        "toolResult" => ("result", Look::Dim),
        "compactionSummary" => ("summary", Look::Warning),
        "branchSummary" => ("branch", Look::Warning),
        "bashExecution" => ("shell", Look::Dim),
        role => (role, Look::Dim),
    }
}

/// What is said, as far as it fits a line.
fn said(message: &Value) -> String {
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
        "text" => block["text"].as_str().map(|text| text.chars().take(SHOWN).collect()),
        "toolCall" => {
            Some(format!("{}({})", block["name"].as_str().unwrap_or("?"), block["arguments"]))
        }
        "image" => Some("(image)".to_owned()),
        // Thinking is not said.
        "thinking" => None,
        other => Some(format!("({other})")),
    });
    name + &pieces.collect::<Vec<String>>().join(" ")
}

/// One line of it.
fn short(text: &str) -> String {
    let text: String = text.chars().take(SHOWN).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
