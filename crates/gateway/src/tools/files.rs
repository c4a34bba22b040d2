//! Who used a file, when and why.

use quipu_ledger::query::{FileFilter, Filter, file_uses, files as all_files};
use quipu_transcript::project::Name;
use schemars::JsonSchema;
use serde::Deserialize;

use super::reply::{Reply, cut};
use super::{Object, ToolCall, marks, options};
use crate::problem::Problem;

/// The number of lines of a reply of the usual size.
const LINES: usize = 20;

/// The longest prompt, in bytes.
const MAX_PROMPT_BYTES: usize = 200;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// A path, the end of one (src/auth.ts), a folder, or a part of a path
    path: Option<String>,
    /// Only calls that changed it
    #[serde(default)]
    changed: bool,
    /// Only this project: a part of its name or path
    project: Option<String>,
    /// Only since then: 3d, monday, 2026-11-01
    since: Option<String>,
    /// Only until the end of that day
    until: Option<String>,
    /// Leave out this many lines, to go on
    #[serde(default)]
    skip: usize,
    /// Size of the answer in KB: 8, at most 64
    kb: Option<usize>,
}

pub(super) fn files(call: &ToolCall<'_>, given: Object) -> Result<Reply, Problem> {
    let asked: Options = options(given)?;
    let mut reply = Reply::new(asked.kb)?;
    let (since, until) = call.range(&asked.since, &asked.until)?;
    let sessions = Filter {
        project: asked.project.as_deref().map(Name::new),
        agent: call.caller.agent.clone(),
        all: true,
        ..Filter::default()
    };
    let filter = FileFilter { sessions, since, until, changed: asked.changed };
    let page = LINES * reply.scale();
    let (total, shown, columns) = match &asked.path {
        Some(path) => {
            let mut found = file_uses(call.ledger, path, &filter)?;
            found.retain(|found| call.caller.session.as_deref() != Some(&found.session_id));
            let lines = found.iter().skip(asked.skip).take(page).map(|found| {
                let why = found.prompt.as_deref().or(found.title.as_deref()).unwrap_or_default();
                format!(
                    "{} · {} · session {} · turn {} · {} · {}{} · {}",
                    found.path,
                    call.time(found.time),
                    found.session_id,
                    found.turn_number.map_or_else(|| "?".to_owned(), |turn| turn.to_string()),
                    found.tools.join(" "),
                    if found.edits > 0 { "changed" } else { "read" },
                    marks::words(call, &found.session_id, found.parent_session_id.is_some()),
                    cut(why, MAX_PROMPT_BYTES)
                )
            });
            (found.len(), reply.quote_lines(lines), "path, time, session, turn, tools, prompt")
        }
        None => {
            let found = all_files(call.ledger, &filter)?;
            let lines = found.iter().skip(asked.skip).take(page).map(|found| {
                format!(
                    "{} · {} · {} sessions · {} edits",
                    found.path,
                    call.time(found.last_at),
                    found.sessions,
                    found.edits
                )
            });
            (found.len(), reply.quote_lines(lines), "path, last use, sessions, edits")
        }
    };
    let end = asked.skip + shown;
    let first = match shown {
        0 if total == 0 => {
            "No call of a tool names such a file. Commands of a shell are not looked \
                            into: `recall` finds them."
                .to_owned()
        }
        0 => format!("There are {total} lines and none after the first {}.", asked.skip),
        _ => format!(
            "{total} lines, the newest first; these are {} to {end}: {columns}.",
            asked.skip + 1
        ),
    };
    reply.say_first(match call.missing() {
        Some(missing) => format!("{first} {missing}"),
        None => first,
    });
    if shown > 0 && end < total {
        reply.say(format!("More: call `files` again with \"skip\": {end}."));
    }
    Ok(reply)
}
