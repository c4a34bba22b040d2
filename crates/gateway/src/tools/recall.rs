//! Passages of past sessions, found by words.

use quipu_ledger::search::{Order, SearchRequest, search};
use quipu_ledger::wire::{SearchAnswer, SearchHit};
use quipu_transcript::search::query::{self, Alternative, Clause, Condition, Filter, Query};
use schemars::JsonSchema;
use serde::Deserialize;

use super::reply::{Reply, name};
use super::{Object, ToolCall, marks, options};
use crate::problem::Problem;

/// The number of passages of a reply of the usual size. More of them are mostly noise.
const PASSAGES: usize = 6;

/// The largest number of passages that can be skipped. Each page searches anew.
const MAX_SKIPPED: usize = 1000;

/// Words that say nothing about a subject. They are left out where not all words are found
/// together.
const COMMON: &[&str] = &[
    "a", "about", "after", "again", "all", "an", "and", "any", "are", "as", "at", "be", "been",
    "before", "but", "by", "can", "could", "did", "do", "does", "for", "from", "had", "has",
    "have", "how", "i", "if", "in", "into", "is", "it", "its", "last", "me", "my", "no", "not",
    "of", "on", "or", "our", "out", "over", "should", "so", "some", "that", "the", "their", "them",
    "then", "there", "these", "they", "this", "time", "to", "up", "us", "use", "used", "using",
    "was", "we", "were", "what", "when", "where", "which", "who", "why", "will", "with", "would",
    "you", "your",
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// Words to find. Also: "a phrase", -without, one OR other, begin*, role:user, tool:Bash,
    /// file:auth.ts, is:error
    words: String,
    /// Only this project: a part of its name or path
    project: Option<String>,
    /// Only this agent: claude, openclaw, main
    agent: Option<String>,
    /// Only this session: its id, or the beginning of it
    session: Option<String>,
    /// Only since then: 3d, monday, 2026-11-01
    since: Option<String>,
    /// Only until the end of that day
    until: Option<String>,
    /// Newest first instead of best first
    #[serde(default)]
    newest: bool,
    /// Leave out this many passages, to go on
    #[serde(default)]
    skip: usize,
    /// Size of the answer in KB: 8, at most 64
    kb: Option<usize>,
}

pub(super) fn recall(call: &ToolCall<'_>, given: Object) -> Result<Reply, Problem> {
    let asked: Options = options(given)?;
    let mut reply = Reply::new(asked.kb)?;
    if asked.skip > MAX_SKIPPED {
        return Err(Problem::bad_request(format!(
            "`skip` is at most {MAX_SKIPPED}: use other words"
        )));
    }
    let mut wanted = query::parse_or_literal(&asked.words, &call.now())
        .map_err(|error| Problem::bad_request(error.to_string()))?;
    if wanted.is_empty() {
        return Err(Problem::bad_request("nothing to search for: give `words`"));
    }
    add_filters(call, &asked, &mut wanted)?;
    let page = PASSAGES * reply.scale();
    let limit = asked.skip + page;
    let find = |query: Query| -> Result<SearchAnswer, Problem> {
        let order = if asked.newest { Order::Newest } else { Order::Best };
        let request =
            SearchRequest { query, order, limit: Some(limit), ..SearchRequest::default() };
        Ok(search(call.ledger, &request)?)
    };
    let any = any_of(&wanted);
    let mut found = find(wanted)?;
    let mut is_partial = false;
    if found.total + found.with_other_endings == 0
        && let Some(any) = any
    {
        found = find(any)?;
        is_partial = true;
    }
    let total = found.total + found.with_other_endings;
    let mut shown = 0;
    for (number, hit) in found.hits.iter().enumerate().skip(asked.skip).take(page) {
        if !reply.quote(&head(call, number + 1, hit), &text(hit)) {
            break;
        }
        shown += 1;
    }
    introduce(call, &mut reply, &found, is_partial, shown, asked.skip);
    let end = asked.skip + shown;
    if shown > 0 && (end as u64) < total && end < MAX_SKIPPED {
        reply.say(format!("More: call `recall` again with \"skip\": {end}."));
    }
    if shown > 0 {
        reply.say("In full: call `read` with the session and the turn.");
    }
    Ok(reply)
}

fn add_filters(call: &ToolCall<'_>, asked: &Options, wanted: &mut Query) -> Result<(), Problem> {
    let (since, until) = call.range(&asked.since, &asked.until)?;
    let more = [
        asked.project.clone().map(Condition::Project),
        asked.session.clone().map(Condition::Session),
        call.agent(asked.agent.clone())?.map(Condition::Agent),
        // Words of the search language cannot widen this one.
        call.caller.agent.clone().map(Condition::OnlyAgent),
        since.map(Condition::Since),
        until.map(Condition::Until),
    ];
    let more = more.into_iter().flatten().map(|condition| Filter { is_negated: false, condition });
    wanted.filters.extend(more);
    if let (Some(asking), None) = (&call.caller.session, &asked.session) {
        let condition = Condition::Session(asking.clone());
        wanted.filters.push(Filter { is_negated: true, condition });
    }
    Ok(())
}

/// Returns a query for any of the words, if all of them together were asked for.
fn any_of(wanted: &Query) -> Option<Query> {
    let [Alternative { required, excluded }] = wanted.alternatives.as_slice() else { return None };
    let says_something = |clause: &&Clause| {
        clause.is_quoted || !COMMON.contains(&clause.text.to_lowercase().as_str())
    };
    let telling: Vec<&Clause> = required.iter().filter(says_something).collect();
    (required.len() > 1 && !telling.is_empty()).then(|| {
        let side = |clause: &Clause| Alternative {
            required: vec![clause.clone()],
            excluded: excluded.clone(),
        };
        Query { alternatives: telling.into_iter().map(side).collect(), ..wanted.clone() }
    })
}

/// Says how many passages there are, before them.
fn introduce(
    call: &ToolCall<'_>,
    reply: &mut Reply,
    found: &SearchAnswer,
    is_partial: bool,
    shown: usize,
    skip: usize,
) {
    let total = found.total + found.with_other_endings;
    let mut line = match (total, shown, is_partial) {
        (0, ..) => "Nothing was found. Try fewer or other words.".to_owned(),
        (_, 0, _) => format!("There are {total} passages and none after the first {skip}."),
        (_, _, true) => format!(
            "No passage has all words. {total} have some of them; the best {shown} from number {} on:",
            skip + 1
        ),
        (_, _, false) => {
            format!("{total} passages; these are {} to {}:", skip + 1, skip + shown)
        }
    };
    // The nearest words may be those of another agent.
    if total == 0 && call.caller.agent.is_none() {
        let near = found.nearest.iter().map(|word| name(&word.word)).collect::<Vec<_>>();
        if !near.is_empty() {
            line.push_str(&format!(" Words that occur: {}.", near.join(", ")));
        }
    }
    if let Some(missing) = call.missing() {
        line.push_str(&format!(" {missing}"));
    }
    reply.say_first(line);
}

/// Returns the line above a passage: `1. session 9c0f… · turn 4 · user · 2026-11-12 14:03 · shop`.
fn head(call: &ToolCall<'_>, number: usize, hit: &SearchHit) -> String {
    let mut line = format!("{number}.");
    match (&hit.session_id, &hit.name) {
        (Some(session), _) => line.push_str(&format!(" session {}", name(session))),
        (None, Some(note)) => line.push_str(&format!(" {} {}", name(&hit.type_name), name(note))),
        (None, None) => line.push_str(&format!(" {}", name(&hit.type_name))),
    }
    if let Some(turn) = hit.turn_number {
        line.push_str(&format!(" · turn {turn}"));
    }
    let speaker = hit.tool.as_deref().or(hit.role.as_deref());
    for part in [speaker, Some(call.time(hit.time).as_str()), hit.project.as_deref()] {
        line.extend(part.map(|part| format!(" · {}", name(part))));
    }
    line.push_str(&format!(" · {}", marks::program(&hit.format, hit.agent.as_deref())));
    if let Some(session) = &hit.session_id {
        let is_subagent =
            hit.part.as_deref() == Some("subagent") || hit.parent_session_id.is_some();
        line.push_str(&marks::words(call, session, is_subagent));
    }
    if hit.is_error {
        line.push_str(" · failed");
    }
    if hit.is_older {
        line.push_str(" · replaced by a newer version");
    }
    line
}

/// Returns the passage. A word that was cut at its beginning is left out: it may be the end of a
/// secret that is not recognised any more.
fn text(hit: &SearchHit) -> String {
    let snippet = hit.snippet.as_str();
    let begins_at_match = hit.marks.first().is_some_and(|(start, _)| *start == 0);
    let start = match hit.is_cut_before && !begins_at_match {
        true => snippet.find(char::is_whitespace).unwrap_or(0),
        false => 0,
    };
    let before = if hit.is_cut_before { "…" } else { "" };
    let after = if hit.is_cut_after { "…" } else { "" };
    format!("{before}{}{after}", &snippet[start..])
}
