//! Writes sessions as CSV: the fields of `sessions --json` in the same order. Times are ISO 8601,
//! prompts are separated by newlines, models by spaces.
//!
//! `quipu_transcript::render::csv` quotes the cells.

use std::borrow::Cow;
use std::io::{self, Write};

use quipu_transcript::render::csv;

use crate::wire::Session;

/// Renders one cell.
type Cell = fn(&Session) -> Cow<'_, str>;

/// The columns, each with the function that renders its cell.
const COLUMNS: &[(&str, Cell)] = &[
    ("session_id", |s| text(&s.session_id)),
    ("session_key", |s| optional_text(s.session_key.as_deref())),
    ("format", |s| text(&s.format)),
    ("agent", |s| text(&s.agent)),
    ("part", |s| text(&s.part)),
    ("project", |s| text(&s.project)),
    ("cwd", |s| optional_text(s.cwd.as_deref())),
    ("slug", |s| optional_text(s.slug.as_deref())),
    ("title", |s| optional_text(s.title.as_deref())),
    ("first_prompt", |s| optional_text(s.first_prompt.as_deref())),
    ("last_prompts", |s| Cow::Owned(s.last_prompts.join("\n"))),
    ("started_at", |s| iso_time(s.started_at)),
    ("updated_at", |s| iso_time(s.updated_at)),
    ("modified_at", |s| iso_time(s.modified_at)),
    ("lines", |s| number(s.lines)),
    ("bytes", |s| number(s.bytes)),
    ("records", |s| number(s.records)),
    ("turns", |s| number(s.turns)),
    ("messages", |s| number(s.messages)),
    ("tool_calls", |s| number(s.tool_calls)),
    ("models", |s| Cow::Owned(s.models.join(" "))),
    ("total_tokens", |s| number(s.total_tokens)),
    ("cost_usd", |s| s.cost_usd.map_or(Cow::Borrowed(""), |cost| Cow::Owned(cost.to_string()))),
    ("state", |s| text(s.state.as_str())),
    ("parent_session_id", |s| optional_text(s.parent_session_id.as_deref())),
    ("fork_of", |s| optional_text(s.fork_of.as_deref())),
    ("channel", |s| optional_text(s.channel.as_deref())),
    ("branches", |s| number(s.branches)),
    ("compactions", |s| number(s.compactions)),
    ("subagents", |s| number(s.subagents)),
];

/// Writes the header line.
pub fn csv_header(out: &mut dyn Write) -> io::Result<()> {
    csv::row(COLUMNS.iter().map(|(name, _)| *name), out)
}

/// Writes the line of one session.
pub fn csv_row(session: &Session, out: &mut dyn Write) -> io::Result<()> {
    let cells: Vec<Cow<'_, str>> = COLUMNS.iter().map(|(_, cell)| cell(session)).collect();
    csv::row(cells.iter().map(|cell| &**cell), out)
}

fn text(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}

fn optional_text(text: Option<&str>) -> Cow<'_, str> {
    Cow::Borrowed(text.unwrap_or_default())
}

fn number(number: u64) -> Cow<'static, str> {
    Cow::Owned(number.to_string())
}

fn iso_time(ms: Option<i64>) -> Cow<'static, str> {
    Cow::Owned(ms.and_then(csv::time).unwrap_or_default())
}
