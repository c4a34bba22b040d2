//! A past session, or a span of it.

use std::ops::ControlFlow;

use quipu_ledger::ids::EntryId;
use quipu_ledger::query::{self, Choice, Story};
use quipu_ledger::wire::Session;
use quipu_transcript::render::{Markdown, Rendering};
use quipu_transcript::story::{StoryDetail, StoryItem};
use schemars::JsonSchema;
use serde::Deserialize;

use super::reply::{Reply, cut, name};
use super::{Object, ToolCall, marks, options};
use crate::problem::Problem;

/// The number of entries on either side of `around`.
const AROUND: u64 = 3;

/// The room that is kept for the lines around the quotation, in bytes.
const RESERVED_BYTES: usize = 320;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// Its id, the beginning of it, a session key, or `last`
    session: String,
    /// Only this turn
    turn: Option<u64>,
    /// Only the entries around this one, by its id
    around: Option<String>,
    /// Only entries after this number, to go on
    after: Option<i64>,
    /// Also inputs and results of tools, and text that is usually folded
    #[serde(default)]
    full: bool,
    /// Size of the answer in KB: 8, at most 64
    kb: Option<usize>,
}

pub(super) fn read(call: &ToolCall<'_>, given: Object) -> Result<Reply, Problem> {
    read_span(call, &options(given)?)
}

/// Returns a session as a resource: from its beginning, as much as fits.
pub(crate) fn resource(call: &ToolCall<'_>, session: &str) -> Result<Reply, Problem> {
    let session = session.to_owned();
    read_span(call, &Options { session, kb: Some(64), ..Options::default() })
}

fn read_span(call: &ToolCall<'_>, asked: &Options) -> Result<Reply, Problem> {
    let mut reply = Reply::new(asked.kb)?;
    let row = call.session(&asked.session)?;
    let session = query::summary_of(call.ledger, row)?
        .ok_or_else(|| Problem::not_found("no session has this name"))?;
    let story = Story::open(call.ledger, row)?;
    let detail = if asked.full { StoryDetail::FULL } else { StoryDetail::DEFAULT };
    let choice = Choice {
        detail,
        turn: asked.turn,
        at: asked.around.clone(),
        around: AROUND,
        after: asked.after,
        ..Choice::default()
    };
    let mut page = Page {
        markdown: Markdown::new(detail),
        text: String::new(),
        room: reply.room().saturating_sub(RESERVED_BYTES),
        last: None,
        is_cut: false,
        is_cut_inside: false,
        failed: false,
    };
    story.each_item(&choice, &mut |item| page.add(&mut reply, item))?;
    page.end(&mut reply);
    if page.failed {
        return Err(Problem::failed());
    }
    let mut text = page.text.trim();
    if text.is_empty() {
        reply.say("There is nothing to show; `full` shows what is usually folded.");
    }
    // A secret that the whole text reveals may make it longer.
    while !text.is_empty() && !reply.quote("", text) {
        text = cut(text, text.len() / 10 * 9);
    }
    reply.say_first(head(call, &session));
    if page.is_cut_inside {
        reply.say("The last entry was cut; ask for more `kb`, or `quipu show` prints it whole.");
    }
    if let Some(last) = page.last.filter(|_| page.is_cut) {
        reply.say(format!("It goes on: call `read` again with \"after\": {last}."));
    }
    Ok(reply)
}

/// Returns the line above the quotation.
fn head(call: &ToolCall<'_>, session: &Session) -> String {
    let missing = call.missing().map(|missing| format!(" {missing}")).unwrap_or_default();
    format!(
        "Session {} · {} to {} · {} turns · {} · {}{}.{missing}",
        name(&session.session_id),
        call.time(session.started_at),
        call.time(session.updated_at),
        session.turns,
        name(&session.project),
        marks::program(&session.format, Some(&session.agent)),
        marks::of_session(call, session)
    )
}

/// The entries of one answer.
struct Page {
    markdown: Markdown,
    text: String,
    room: usize,
    /// The last entry, by its number in the ledger.
    last: Option<i64>,
    is_cut: bool,
    is_cut_inside: bool,
    failed: bool,
}

impl Page {
    fn add(&mut self, reply: &mut Reply, item: &StoryItem<'_>) -> ControlFlow<()> {
        let line = EntryId(item.entry).seq();
        // A page never ends inside a line: the next one begins with the line after it.
        let is_same_line = self.last.is_some_and(|last| EntryId(last).seq() == line);
        let mut bytes = Vec::new();
        let written = self.markdown.item(&reply.redactor().mask_item(item), &mut bytes);
        let (Ok(()), Ok(text)) = (written, String::from_utf8(bytes)) else {
            self.failed = true;
            return ControlFlow::Break(());
        };
        // What was masked once stays as it is; a rendering joins pieces.
        let text = reply.masked(&text);
        if self.text.len() + text.len() > self.room {
            self.is_cut = true;
            if self.last.is_some() && !is_same_line {
                return ControlFlow::Break(());
            }
            // One entry that is longer than the answer.
            let room = self.room.saturating_sub(self.text.len());
            self.text.push_str(cut(&text, room));
            self.is_cut_inside = true;
        } else {
            self.text.push_str(&text);
        }
        self.last = Some(item.entry);
        ControlFlow::Continue(())
    }

    /// Adds the calls whose results are on the next page, or nowhere.
    fn end(&mut self, reply: &mut Reply) {
        let mut bytes = Vec::new();
        if self.markdown.end(&mut bytes).is_err() {
            self.failed = true;
        }
        let text = reply.masked(&String::from_utf8_lossy(&bytes));
        let room = (self.room + RESERVED_BYTES / 2).saturating_sub(self.text.len());
        self.text.push_str(cut(&text, room));
    }
}
