//! `quipu search`: full-text search over everything that people, agents and tools wrote.

mod command;
mod page;
mod understood;

use std::borrow::Cow;
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::time::Instant;

use quipu_ledger::search::{Order, SearchRequest};
use quipu_ledger::wire::{CountedHit, SearchAnswer};
use quipu_transcript::project::Name;
use quipu_transcript::search::query::{self, Condition, Filter, Place, Query, QueryError};

use self::command::Opener;
use self::understood::understood;
use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::{bytes, count, long_lines, number};
use crate::reading::{self, Reading};
use crate::{filters, zone};

/// Number of hits that are shown without `-n`.
const DEFAULT_HITS: usize = 20;

/// Search all text of all sessions
///
/// Every word has to match; the best hits come first. If they do not fill the
/// page, hits with other English endings of the words follow. Case and accents
/// make no difference. For a word with signs (`foo_bar`, `.rs`, `C++`), hits with
/// exactly these signs come before hits with others.
///
///   "out of memory"     these words in this order
///   conf*               words that begin with conf
///   -test               without this word
///   disk OR memory      one of them; `a b OR c` is `(a b) OR c`
///   disk NOT full       the first without the second
///   project:shop  agent:main  format:openclaw  session:640ab4c7
///   role:user           user, assistant, tool, system
///   tool:Bash           calls of a tool and their results
///   file:src/auth.ts    turns in which a tool used a file
///   is:error            failed tool calls and errors
///   has:compaction      sessions that were compacted
///   since:3d until:2026-11-01
///   in:thinking         the model's reasoning, not searched by default
///   in:attached         what programs attached to a message, not searched by default
///   in:notes in:cron in:prompts in:text in:input in:result   only there
///
/// Examples:
///   quipu search low water
///   quipu search '"low water" -tonight project:tidepool since:2w'
///   quipu search --recent is:error tool:Bash
///   quipu search file:tide.js tool:edit tool:write since:last-week
///   quipu search --regex 'v\d+\.\d+' project:tidepool
///   quipu search -- --tags
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Words, phrases and filters
    #[arg(value_name = "WORDS")]
    words: Vec<String>,

    /// Find this exact text, case-sensitive; reads all text, so it is slower
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    exact: Option<String>,

    /// Find text that matches this regular expression, case-sensitive; reads all text, so it is
    /// slower
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    regex: Option<String>,

    /// Ignore case in --regex and --exact
    #[arg(long, short = 'i')]
    ignore_case: bool,

    /// Sort by time, the newest first, instead of by relevance
    #[arg(long)]
    recent: bool,

    /// Show at most N hits; 0 for all [default: 20; all with --json]
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,

    /// Show all hits
    #[arg(long, conflicts_with = "limit")]
    all: bool,

    /// Show N entries of context around each hit
    #[arg(long, short = 'C', value_name = "N", default_value_t = 0)]
    context: usize,

    /// Only sessions of this project: any part of its name, or a path
    #[arg(long, short = 'p', value_name = "NAME")]
    project: Option<String>,

    /// Only sessions of this agent: `claude`, `openclaw`, `openclaw/main`, `main`
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,

    /// Only entries at or after this time: `3d`, `yesterday`, `2026-11-01`
    #[arg(long, short = 's', value_name = "WHEN", allow_hyphen_values = true)]
    since: Option<String>,

    /// Only entries on or before this day
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    until: Option<String>,

    /// Print on stderr how long the search took
    #[arg(long, hide = true)]
    timing: bool,

    #[command(flatten)]
    reading: reading::Args,
}

/// Options that take the next argument, even if it begins with a dash.
const WITH_VALUE: &[&str] =
    &["--exact", "--regex", "--since", "--until", "--project", "--agent", "-n", "-C", "-p", "-s"];

/// Puts a space before each excluded word (`-test`), so that clap does not read it as an option.
/// The query means the same with it.
pub(super) fn with_excluded_words(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_option = |argument: &OsString| argument.as_encoded_bytes().starts_with(b"-");
    let Some(at) = arguments.iter().position(|argument| argument == "search") else {
        return arguments;
    };
    // Before the command there are only options and their values.
    let mut before = arguments.iter().take(at).skip(1).peekable();
    while let Some(argument) = before.next() {
        if !is_option(argument) {
            return arguments;
        }
        before.next_if(|next| !is_option(next));
    }
    // In `--regex -i PATTERN` the pattern is not `-i`.
    let is_before_flag = |words: &[OsString]| match words {
        [option, flag, _] => (option == "--exact" || option == "--regex") && flag == "-i",
        _ => false,
    };
    if let Some(option) = arguments.windows(3).position(is_before_flag) {
        arguments.swap(option, option + 1);
    }
    let mut is_next_value = false;
    for argument in arguments.iter_mut().skip(at + 1) {
        if argument == "--" {
            break;
        }
        let is_value = is_next_value;
        is_next_value = WITH_VALUE.iter().any(|option| argument == option);
        if !is_value && argument.to_str().is_some_and(is_excluded_word) {
            let mut word = OsString::from(" ");
            word.push(&*argument);
            *argument = word;
        }
    }
    arguments
}

/// Returns true for a dash and at least two letters that are not an option.
fn is_excluded_word(argument: &str) -> bool {
    let Some(word) = argument.strip_prefix('-').filter(|word| !word.starts_with('-')) else {
        return false;
    };
    let is_flag = word.chars().all(|letter| matches!(letter, 'i' | 'q' | 'v' | 'h' | 'V'));
    let number = word.strip_prefix(['n', 'C']).map(|rest| rest.trim_start_matches('='));
    let is_number = number.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
    word.chars().nth(1).is_some() && !is_flag && !is_number
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let query = query(args, context)?;
    for (option, text) in [("--exact", &args.exact), ("--regex", &args.regex)] {
        if text.as_ref().is_some_and(String::is_empty) {
            return Err(CommandError::new(format!("{option} is empty, which matches everything"))
                .hint("give a text; filters alone (`role:user since:3d`) list all entries"));
        }
    }
    if query.is_empty() && args.exact.is_none() && args.regex.is_none() {
        return Err(CommandError::new("nothing to search for")
            .hint("`quipu search WORDS` searches all sessions; see `quipu search --help`"));
    }
    let reading = reading::open(context, args.reading)?;
    let request = SearchRequest {
        query,
        exact: args.exact.clone(),
        regex: args.regex.clone(),
        ignores_case: args.ignore_case,
        order: if args.recent { Order::Newest } else { Order::Best },
        limit: match args.limit {
            _ if args.all => None,
            Some(0) => None,
            None if context.is_json => None,
            limit => Some(limit.unwrap_or(DEFAULT_HITS)),
        },
        around: args.context,
    };
    let began = Instant::now();
    let mut hits = Vec::new();
    let mut failed = None;
    let answer =
        quipu_ledger::search::search_each(&reading.ledger, &request, &mut |total, hit| {
            if !context.is_json {
                hits.push(hit);
                return ControlFlow::Continue(());
            }
            match reading.json(context, &CountedHit { hit: &hit, total_hits: total }) {
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
        context.output.note(&format!("searched in {took:.3} ms"));
    }
    if let Some(error) = failed {
        return Err(error);
    }
    if answer.total + answer.with_other_endings == 0 {
        reading.refuse_if_behind()?;
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
    let shell = context.shell.clone();
    let opener = Opener { ledger: &reading.ledger, ids: &ids, shell: &shell };
    page::show(context, &opener, &answer, (&understood(&request), &gaps(&answer)))
}

/// Quotes the time of `since:last week`: the shell has removed the quotes of `since:"last week"`.
fn with_quotes(word: &str) -> Cow<'_, str> {
    // `with_excluded_words` has put a space before a dash.
    let (dash, filter) = match word.trim_start().strip_prefix('-') {
        Some(filter) => ("-", filter),
        None => ("", word),
    };
    match filter.split_once(':') {
        Some((key @ ("since" | "until"), time))
            if time.contains(' ') && !time.contains('"') && filters::until(time).is_ok() =>
        {
            Cow::Owned(format!("{dash}{key}:\"{time}\""))
        }
        _ => Cow::Borrowed(word),
    }
}

/// Builds the query from the arguments.
fn query(args: &Args, context: &Context) -> Result<Query> {
    let words: Vec<Cow<'_, str>> = args.words.iter().map(|word| with_quotes(word)).collect();
    let text = words.join(" ");
    let mut query = query::parse_or_literal(&text, &zone::now()).map_err(|error| {
        let hint = match &error {
            QueryError::TooManyWords | QueryError::TooLong => {
                "use fewer words, or --exact TEXT for a long text"
            }
            QueryError::Operator { .. } => {
                "filters of one kind are alternatives: `role:user role:tool` finds both"
            }
            _ => "to search for text with a colon, quote it: '\"role:x\"'",
        };
        CommandError::from_source(error.into()).hint(hint)
    })?;
    let mut also = |condition| query.filters.push(Filter { is_negated: false, condition });
    if let Some(project) = &args.project {
        also(Condition::Project(project.clone()));
    }
    if let Some(agent) = &args.agent {
        also(Condition::Agent(agent.clone()));
    }
    let (since, until) = filters::range(args.since.as_deref(), args.until.as_deref())?;
    for condition in
        [since.map(Condition::Since), until.map(Condition::Until)].into_iter().flatten()
    {
        also(condition);
    }
    for filter in &mut query.filters {
        if let Condition::Project(name) = &mut filter.condition
            && let Name::Path(path) = filters::project(context, name)
        {
            *name = path;
        }
    }
    Ok(query)
}

fn nothing(answer: &SearchAnswer, query: &Query, reading: &Reading) -> CommandError {
    let mut error = CommandError::new(format!("no hits{}", reading.missing_note()));
    error.kind = Kind::NoMatch;
    if reading.ledger.is_empty().unwrap_or(false) {
        return error.hint(reading::NOTHING_YET);
    }
    for gap in gaps(answer) {
        error = error.hint(gap);
    }
    let hidden = [
        (answer.gaps.in_thinking, "the model's reasoning", "in:thinking"),
        (answer.gaps.in_attached, "what programs attached to messages", "in:attached"),
    ];
    for (hits, place, filter) in hidden.into_iter().filter(|(hits, ..)| *hits > 0) {
        let hits = count(hits, "hit");
        error = error
            .hint(format!("{hits} in {place}, which is not searched by default: add {filter}"));
    }
    if answer.gaps.in_thinking + answer.gaps.in_attached > 0 {
        return error;
    }
    match answer.scanned {
        Some(scanned) => {
            let (records, size) = (count(scanned.records, "record"), bytes(scanned.bytes));
            error.hint(format!("searched the text of {records}, {size}"))
        }
        None if query.places.contains(&Place::Notes) => {
            error.hint("in:notes searches memory and personality notes; `quipu notes` lists them")
        }
        None if query.places.contains(&Place::Cron) => {
            error.hint("in:cron searches scheduled jobs and their runs; `quipu cron` lists them")
        }
        None if !query.has_words() => {
            let needs_compaction =
                query.filters.iter().any(|filter| filter.condition == Condition::Compaction);
            error.hint(match (needs_compaction, query.filters.len()) {
                (true, 1) => "no session was compacted",
                (true, _) => "no compacted session matches the other filters",
                (false, _) => "no entry matches all of these filters; leave one out to see more",
            })
        }
        None if !answer.nearest.is_empty() => answer.nearest.iter().fold(error, |error, near| {
            let entries = match near.entries {
                1 => "1 entry".to_owned(),
                many => format!("{} entries", number(many)),
            };
            error.hint(format!(
                "no entry has `{}`; did you mean `{}`, which is in {entries}?",
                near.typed, near.word
            ))
        }),
        None => error.hint(
            "words match as a whole; `word*` also finds longer words, --exact any part of a word",
        ),
    }
}

/// Describes what the answer may be missing.
fn gaps(answer: &SearchAnswer) -> Vec<String> {
    let gaps = &answer.gaps;
    let mut notes = Vec::new();
    if gaps.too_long > 0 {
        notes.push(long_lines(gaps.too_long));
    }
    if gaps.partly_indexed > 0 {
        let (entries, are) = match gaps.partly_indexed {
            1 => ("1 very long entry".to_owned(), "is"),
            many => (format!("{} very long entries", number(many)), "are"),
        };
        notes.push(format!(
            "{entries} {are} indexed only in part; --exact searches all of the text"
        ));
    }
    notes
}
