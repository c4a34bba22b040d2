//! `quipu search`: everything that people, agents and tools wrote, by words.

use std::collections::HashMap;
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::time::Instant;

use jiff::Zoned;
use quipu_ledger::wire::{SearchAnswer, SearchHit};
use quipu_ledger::{Order, SearchRequest};
use quipu_transcript::format;
use quipu_transcript::project::Name;
use quipu_transcript::search::query::{self, Filter, Place, Query, What};
use serde::Serialize;

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::filters;
use crate::output::{Look, ShortIds, Text, bytes, count, elapsed, minute, number};
use crate::reading::{self, Reading};

/// Hits that are shown if nothing else is said.
const SHOWN: usize = 20;

/// Find what was said, asked and answered, in all sessions
///
/// All words have to be there; the best hits come first. Words are letters and
/// digits: `a-b` finds a-b, a_b and a b.
///
///   "out of memory"     words in this order
///   conf*               words that begin so
///   -test               not with this word
///   project:shop  agent:main  format:openclaw  session:640ab4c7
///   role:user           user, assistant, tool, system
///   tool:Bash           calls of a tool and what it answered
///   file:src/auth.ts    turns in which a tool was used on a file
///   is:error            what failed
///   has:compaction      sessions that were compacted
///   since:3d until:2026-11-01
///   in:thinking         the model's reasoning, which is left out otherwise
///   in:notes in:cron in:prompts in:text in:input in:result
///
/// Examples:
///   quipu search checkout timeout
///   quipu search '"connection refused" -test project:shop since:2w'
///   quipu search --recent is:error tool:Bash
///   quipu search --regex 'v\d+\.\d+' project:shop
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Words, phrases and filters
    #[arg(value_name = "WORDS")]
    words: Vec<String>,

    /// Text that has to be there letter by letter; all text is looked through
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    exact: Option<String>,

    /// A regular expression that has to match; all text is looked through
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    regex: Option<String>,

    /// The newest first, not the best
    #[arg(long)]
    recent: bool,

    /// At most this many hits; 0 for all [default: 20 for people, all for --json]
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,

    /// All hits
    #[arg(long, conflicts_with = "limit")]
    all: bool,

    /// So many entries before and after each hit
    #[arg(long, short = 'C', value_name = "N", default_value_t = 0)]
    context: usize,

    /// Sessions of projects of this name: any part of it, or a path
    #[arg(long, value_name = "NAME")]
    project: Option<String>,

    /// Only what was said since: `3d`, `yesterday`, `2026-11-01`
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    since: Option<String>,

    /// Only what was said until: a day belongs to it
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    until: Option<String>,

    /// Say on stderr how long the ledger took to answer
    #[arg(long, hide = true)]
    timing: bool,

    #[command(flatten)]
    reading: reading::Args,
}

/// Options that take the next argument, whatever it begins with.
const TAKING: &[&str] = &["--exact", "--regex", "--since", "--until", "--project", "-n", "-C"];

/// Lets words that are not wanted (`-test`) stand among the others: clap would take them for options.
/// A space before the dash makes no difference to the query.
pub(super) fn with_unwanted_words(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_option = |argument: &OsString| argument.as_encoded_bytes().starts_with(b"-");
    let Some(at) = arguments.iter().position(|argument| argument == "search") else {
        return arguments;
    };
    // What stands before the command are options and what they take.
    let mut before = arguments.iter().take(at).skip(1).peekable();
    while let Some(argument) = before.next() {
        if !is_option(argument) {
            return arguments;
        }
        before.next_if(|next| !is_option(next));
    }
    let mut is_taken = false;
    for argument in arguments.iter_mut().skip(at + 1) {
        if argument == "--" {
            break;
        }
        let is_value = is_taken;
        is_taken = TAKING.iter().any(|option| argument == option);
        if !is_value && argument.to_str().is_some_and(is_unwanted_word) {
            let mut word = OsString::from(" ");
            word.push(&*argument);
            *argument = word;
        }
    }
    arguments
}

/// A dash and more than one letter, if that is no option.
fn is_unwanted_word(argument: &str) -> bool {
    let Some(word) = argument.strip_prefix('-').filter(|word| !word.starts_with('-')) else {
        return false;
    };
    let is_flag = word.chars().all(|letter| matches!(letter, 'q' | 'v' | 'h' | 'V'));
    let number = word.strip_prefix(['n', 'C']).map(|rest| rest.trim_start_matches('='));
    let is_number = number.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
    word.chars().nth(1).is_some() && !is_flag && !is_number
}

/// A hit as `--json` prints it.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    hit: &'a SearchHit,
    /// How many hits there are in all.
    total: u64,
}

/// What `--json` prints if there are no hits.
#[derive(Serialize)]
struct NoHit {
    total: u64,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let query = query(args, context)?;
    for (option, text) in [("--exact", &args.exact), ("--regex", &args.regex)] {
        if text.as_ref().is_some_and(String::is_empty) {
            return Err(CommandError::new(format!("{option} is empty, which is everywhere")).hint(
                "say what to look for; filters alone (`role:user since:3d`) list everything",
            ));
        }
    }
    if query.is_empty() && args.exact.is_none() && args.regex.is_none() {
        return Err(CommandError::new("nothing to look for").hint(
            "`quipu search WORDS` finds them in all sessions; `quipu search --help` says more",
        ));
    }
    let reading = reading::open(context, args.reading)?;
    let request = SearchRequest {
        query,
        exact: args.exact.clone(),
        regex: args.regex.clone(),
        order: if args.recent { Order::Newest } else { Order::Best },
        limit: match args.limit {
            _ if args.all => None,
            Some(0) => None,
            None if context.is_json => None,
            limit => Some(limit.unwrap_or(SHOWN)),
        },
        around: args.context,
    };
    let began = Instant::now();
    let mut hits = Vec::new();
    let mut failed = None;
    let answer = quipu_ledger::search_each(&reading.ledger, &request, &mut |total, hit| {
        if !context.is_json {
            hits.push(hit);
            return ControlFlow::Continue(());
        }
        match reading.json(context, &Printed { hit: &hit, total }) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    let answer = SearchAnswer { hits, ..answer };
    if args.timing {
        let took = began.elapsed().as_secs_f64() * 1e3;
        context.output.warn(&format!("answered in {took:.3} ms"), None);
    }
    if let Some(error) = failed {
        return Err(error);
    }
    if answer.total == 0 {
        if context.is_json {
            // Without a hit, the answer still says what it is worth.
            reading.json(context, &NoHit { total: 0 })?;
        }
        return Err(nothing(&answer, &request.query, &reading));
    }
    if context.is_json {
        for gap in gaps(&answer) {
            context.output.warn(&gap, None);
        }
        return Ok(());
    }
    let ids = reading.short_ids()?;
    context.output.page()?;
    show(context, &ids, &answer, args)
}

/// What the arguments ask for.
fn query(args: &Args, context: &Context) -> Result<Query> {
    let text = args.words.join(" ");
    let mut query = query::parse(&text, &Zoned::now())
        .map_err(|error| CommandError::from_source(error.into()))
        .map_err(|error| {
            error.hint("what stands in quotes is looked for as it is: '\"role:x\"'")
        })?;
    // Quotes around nothing are what is looked for.
    if query.is_empty() && !text.trim().is_empty() {
        query = Query::literal(text.trim());
    }
    let mut also = |what| query.filters.push(Filter { is_negated: false, what });
    if let Some(project) = &args.project {
        also(What::Project(project.clone()));
    }
    if let Some(since) = &args.since {
        also(What::Since(filters::since(since)?));
    }
    if let Some(until) = &args.until {
        also(What::Until(filters::until(until)?));
    }
    for filter in &mut query.filters {
        if let What::Project(said) = &mut filter.what
            && let Name::Path(path) = filters::project(context, said)
        {
            *said = path;
        }
    }
    Ok(query)
}

fn nothing(answer: &SearchAnswer, query: &Query, reading: &Reading) -> CommandError {
    let mut error = CommandError::new(format!("nothing matches{}", reading.so_far()));
    error.kind = Kind::NoMatch;
    for gap in gaps(answer) {
        error = error.hint(gap);
    }
    if answer.gaps.in_thinking > 0 {
        let hits = count(answer.gaps.in_thinking, "hit");
        return error.hint(format!("{hits} in the model's reasoning: add in:thinking"));
    }
    match answer.scanned {
        Some(scanned) => {
            let (records, size) = (count(scanned.records, "record"), bytes(scanned.bytes));
            error.hint(format!("looked through the text of {records}, {size}"))
        }
        None if query.places.contains(&Place::Notes) => {
            error.hint("in:notes looks into memory and personality notes; `quipu notes` lists them")
        }
        None if query.places.contains(&Place::Cron) => {
            error.hint("in:cron looks into scheduled jobs and their runs; `quipu cron` lists them")
        }
        None if query.clauses.is_empty() => {
            let has = query.filters.iter().any(|filter| filter.what == What::Compaction);
            error.hint(match (has, query.filters.len()) {
                (true, 1) => "no session was compacted",
                (true, _) => "no session that was compacted passes the other filters",
                (false, _) => "no entry passes all of these filters; leave one out to see more",
            })
        }
        None => {
            error.hint("only whole words are found; `word*` finds longer ones, --exact any part")
        }
    }
}

/// What the answer may be missing, in sentences.
fn gaps(answer: &SearchAnswer) -> Vec<String> {
    let gaps = &answer.gaps;
    let mut said = Vec::new();
    if gaps.unprojected > 0 {
        let records = count(gaps.unprojected, "record");
        said.push(format!("{records} not indexed yet; `quipu sync` goes on with it"));
    }
    if gaps.too_long > 0 {
        said.push(format!("{} too long to be looked into", count(gaps.too_long, "record")));
    }
    if gaps.partly_indexed > 0 {
        let (entries, are) = match gaps.partly_indexed {
            1 => ("1 very long entry".to_owned(), "is"),
            many => (format!("{} very long entries", number(many)), "are"),
        };
        said.push(format!("{entries} {are} indexed only in part; --exact looks into all of it"));
    }
    said
}

fn show(context: &mut Context, ids: &ShortIds, answer: &SearchAnswer, args: &Args) -> Result<()> {
    let mut groups: Vec<(GroupKey<'_>, Vec<&SearchHit>)> = Vec::new();
    for hit in &answer.hits {
        let key = GroupKey::of(hit);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, hits)) => hits.push(hit),
            None => groups.push((key, vec![hit])),
        }
    }
    for (_, hits) in &groups {
        group(context, ids, hits)?;
        context.output.gap()?;
    }
    let shown = answer.hits.len() as u64;
    let mut summary = match answer.total {
        total if total == shown => count(total, "hit"),
        total => format!("{} of {}; `-n 0` lists all", number(shown), count(total, "hit")),
    };
    if !args.recent && answer.total > shown {
        summary.push_str(", --recent the newest first");
    }
    if let Some(scanned) = answer.scanned {
        let (records, size) = (count(scanned.records, "record"), bytes(scanned.bytes));
        summary.push_str(&format!("; looked through the text of {records}, {size}"));
    }
    context.output.line(Text::of(Look::Dim, summary))?;
    for gap in gaps(answer) {
        context.output.line(Text::of(Look::Dim, gap))?;
    }
    Ok(())
}

/// Hits of one session stand together; so do those in one note, or of one job.
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
        let session = hit.session.as_deref();
        GroupKey {
            format: &hit.format,
            agent: hit.agent.as_deref(),
            session,
            kind: if session.is_some() { "" } else { &hit.kind },
            name: if session.is_some() { None } else { hit.name.as_deref() },
        }
    }
}

/// One session, or whatever else the hits are in.
fn group(context: &mut Context, ids: &ShortIds, hits: &[&SearchHit]) -> Result<()> {
    let Some(first) = hits.first() else { return Ok(()) };
    context.output.line(headline(first))?;
    context.output.line(origin(context, ids, first))?;
    for (hit, more) in folded(hits) {
        show_hit(context, hit)?;
        if more > 0 {
            let like_it = match hit.turn {
                Some(turn) => format!("  and {} like it in turn {turn}", number(more)),
                None => format!("  and {} like it", number(more)),
            };
            context.output.line(Text::of(Look::Dim, like_it))?;
        }
    }
    if let Some(command) = command(ids, first) {
        let command = Text::plain("  ").with(Look::Good, command);
        context.output.line(command)?;
    }
    Ok(())
}

/// Hits that look alike are shown once: calls of one tool in one turn whose lines differ in nothing
/// but numbers. Each with how many more there are.
fn folded<'h>(hits: &[&'h SearchHit]) -> Vec<(&'h SearchHit, u64)> {
    let alike = |hit: &SearchHit| {
        let tool = hit.tool.clone().filter(|_| hit.around.is_empty() && !hit.is_error)?;
        let text = hit.snippet.replace(|letter: char| letter.is_ascii_digit(), "");
        Some((hit.turn, tool, hit.place, text))
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

/// What the hits are in.
fn headline(hit: &SearchHit) -> Text {
    let name = hit.name.as_deref().unwrap_or_default();
    let title = match (&hit.session, hit.kind.as_str()) {
        (Some(_), _) => hit.title.clone().unwrap_or_else(|| "(no title)".to_owned()),
        (None, "note") => format!("Note {name}"),
        (None, "cron_run" | "cron_jobs") => format!("Scheduled job {name}"),
        (None, "history") => "Prompt list".to_owned(),
        (None, kind) => format!("{kind} {name}"),
    };
    // A title may be a whole prompt.
    let line = title.split(['\n', '\r']).find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut text = Text::of(Look::Bold, line.trim()).shorten(TITLE);
    for mark in marks(hit) {
        text = text.with(Look::Warning, format!(" [{mark}]"));
    }
    text
}

/// Of a longer title the end is left out.
const TITLE: usize = 76;

/// What is special about the session.
fn marks(hit: &SearchHit) -> Vec<&str> {
    let mut marks = Vec::new();
    if let Some(state) = hit.state.as_deref().filter(|state| *state != "live") {
        marks.push(state);
    }
    if hit.part.as_deref() == Some("subagent") || (hit.session.is_some() && hit.parent.is_some()) {
        marks.push("sub-agent");
    }
    marks
}

/// Whose it is and when it was.
fn origin(context: &Context, ids: &ShortIds, hit: &SearchHit) -> Text {
    let mut parts = Vec::new();
    if let Some(session) = &hit.session {
        parts.push(ids.of(session));
    }
    let place = hit.cwd.as_deref().or(hit.slug.as_deref()).or(hit.project.as_deref());
    parts.extend(place.map(|place| context.show(place)));
    let program = format::by_name(&hit.format).map_or(hit.format.as_str(), |format| format.title());
    parts.push(match hit.agent.as_deref() {
        None | Some("" | "main") => program.to_owned(),
        Some(agent) => format!("{program}/{agent}"),
    });
    parts.extend(hit.time.map(elapsed));
    Text::of(Look::Dim, parts.join(" · "))
}

fn show_hit(context: &mut Context, hit: &SearchHit) -> Result<()> {
    for near in hit.around.iter().filter(|near| near.is_before) {
        nearby(context, near)?;
    }
    context.output.line(Text::of(Look::Dim, format!("  {}", label(hit))))?;
    let text = snippet(hit);
    let width = context.output.width().map(|width| width.saturating_sub(4));
    let lines = match width {
        Some(width) => text.wrap(width),
        None => vec![text],
    };
    for line in lines {
        context.output.line(Text::plain("    ").join(line))?;
    }
    for near in hit.around.iter().filter(|near| !near.is_before) {
        nearby(context, near)?;
    }
    Ok(())
}

/// An entry before or after a hit, on one line.
fn nearby(context: &mut Context, near: &quipu_ledger::wire::Nearby) -> Result<()> {
    let role = near.role.as_deref().unwrap_or("-");
    let text = Text::of(Look::Dim, format!("  {role}: {}", near.text));
    let width = context.output.width().unwrap_or(usize::MAX);
    Ok(context.output.line(text.shorten(width))?)
}

/// Where in the session a hit is, and who speaks.
fn label(hit: &SearchHit) -> String {
    let mut parts = Vec::new();
    parts.extend(hit.turn.map(|turn| format!("turn {}", number(turn))));
    let tool = hit.tool.as_deref();
    match (hit.place, tool) {
        ("input", Some(tool)) => parts.push(format!("{tool} call")),
        ("result", Some(tool)) => parts.push(format!("{tool} result")),
        ("result", None) => parts.push("tool result".to_owned()),
        ("thinking", _) => parts.push("thinking".to_owned()),
        _ => match (&hit.role, hit.kind.as_str()) {
            (Some(role), _) => parts.push(role.clone()),
            (None, "note" | "cron_run" | "cron_jobs" | "history") => {}
            (None, kind) => parts.push(kind.to_owned()),
        },
    }
    if hit.is_error {
        parts.push("failed".to_owned());
    }
    if hit.is_older {
        parts.push("older version".to_owned());
    }
    parts.extend(hit.time.map(minute));
    parts.join(" · ")
}

/// The text of a hit, with what was found marked.
fn snippet(hit: &SearchHit) -> Text {
    let characters: Vec<char> = hit.snippet.chars().collect();
    let piece = |from: usize, to: usize| -> String {
        characters.get(from..to).unwrap_or_default().iter().collect()
    };
    let mut text = Text::plain(if hit.cut_before { "…" } else { "" });
    let mut at = 0;
    for (start, end) in &hit.marks {
        text = text.and(piece(at, *start)).with(Look::Match, piece(*start, *end));
        at = *end;
    }
    text.and(piece(at, characters.len())).and(if hit.cut_after { "…" } else { "" })
}

/// The command that opens a hit.
fn command(ids: &ShortIds, hit: &SearchHit) -> Option<String> {
    match (&hit.session, hit.kind.as_str()) {
        (Some(session), _) => {
            let id = ids.of(session);
            Some(match hit.turn {
                Some(turn) => format!("quipu show {id} --turn {turn}"),
                None => format!("quipu show {id}"),
            })
        }
        (None, "note") => Some(format!("quipu notes {}", hit.name.as_deref()?)),
        (None, "cron_run" | "cron_jobs") => Some(match hit.kind.as_str() {
            "cron_run" => format!("quipu cron {}", quoted(hit.name.as_deref()?)),
            _ => "quipu cron".to_owned(),
        }),
        _ => None,
    }
}

/// A name as a shell takes it.
fn quoted(name: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "-_./:".contains(character);
    if name.chars().all(is_plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', r"'\''"))
    }
}
