//! `quipu search`: everything that people, agents and tools wrote, by words.

mod command;
mod page;

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::time::Instant;

use quipu_ledger::wire::{SearchAnswer, SearchHit};
use quipu_ledger::{Order, SearchRequest};
use quipu_transcript::project::Name;
use quipu_transcript::search::query::{self, Filter, Place, Query, QueryError, What};
use serde::Serialize;

use self::command::Opener;
use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::{bytes, count, long_lines, number};
use crate::reading::{self, Reading};
use crate::{filters, zone};

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
    let shell = context.shell.clone();
    let opener = Opener { ledger: &reading.ledger, ids: &ids, shell: &shell };
    page::show(context, &opener, &answer, &gaps(&answer))
}

/// What the arguments ask for.
fn query(args: &Args, context: &Context) -> Result<Query> {
    let text = args.words.join(" ");
    let mut query = query::parse(&text, &zone::now()).map_err(|error| {
        let hint = match &error {
            QueryError::TooManyWords | QueryError::TooLong => {
                "a few of the words are enough; --exact TEXT looks for a long text as it is"
            }
            _ => "what stands in quotes is looked for as it is: '\"role:x\"'",
        };
        CommandError::from_source(error.into()).hint(hint)
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
    if reading.ledger.is_empty().unwrap_or(false) {
        return error.hint("nothing was collected yet; `quipu status` says where quipu looks");
    }
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
    if gaps.too_long > 0 {
        said.push(long_lines(gaps.too_long));
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
