//! Completes words in a shell: sessions, projects, agents, tools and filters.
//!
//! A shell runs `quipu` with `QUIPU_COMPLETE` set. Arguments are recognised by their names, so that
//! new commands are completed too. Options are offered once a dash is typed, or where nothing else
//! can come. Never collects, writes or prints an error: without a ledger
//! there are no values. A shell inserts a value unquoted, and a name in a ledger comes from a
//! transcript, so only values without special characters are offered.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command, CommandFactory};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::CompleteEnv;
use quipu_ledger::Ledger;
use quipu_ledger::query::Filter;
use quipu_transcript::format::FORMATS;
use quipu_transcript::problem::ProblemKind;
use quipu_transcript::search::query;
use quipu_transcript::story::one_line;

use crate::commands::schema;
use crate::output::{ID_LETTERS, ShortIds, safe};
use crate::{args, settings};

/// The variable that a shell sets to complete.
pub(crate) const VARIABLE: &str = "QUIPU_COMPLETE";

/// Limit for the number of sessions that are offered; these are the newest.
const MAX_SESSIONS: usize = 200;

/// Limit for the width of a session's description, in columns.
const MAX_TITLE_WIDTH: usize = 60;

/// Times that `--since` takes. There are others.
const TIMES: &[&str] =
    &["today", "yesterday", "3d", "2h", "monday", "this-week", "last-week", "last-month"];

/// Prints completions if a shell asks for them. Returns false for an ordinary command.
pub(crate) fn complete(arguments: &[OsString]) -> bool {
    let here = std::env::current_dir().ok();
    let typed = Typed::of(arguments);
    if typed.is_value_without_letter() {
        return true;
    }
    let engine = CompleteEnv::with_factory(|| {
        let command = with_completers(args::Args::command(), &typed);
        if typed.has_dash { command } else { without_options(command) }
    });
    engine
        .var(VARIABLE)
        .bin("quipu")
        .try_complete(arguments.iter().cloned(), here.as_deref())
        // A shell does not show messages.
        .unwrap_or(true)
}

/// What the shell says was typed so far.
#[derive(Debug, Default, PartialEq, Eq)]
struct Typed {
    /// True if the word to complete begins with a dash.
    has_dash: bool,
    /// In bash, which splits words at colons: the key of the filter whose value is completed.
    key: Option<String>,
    /// The first of the two words of a command whose schema is printed.
    schema_of: Option<String>,
    /// In bash: true if the word before is the key of a filter, and this one is empty. The colon may
    /// or may not be between them.
    is_after_key: bool,
}

impl Typed {
    fn of(arguments: &[OsString]) -> Typed {
        let variable = |name: &str| std::env::var(name).ok();
        let index = variable("_CLAP_COMPLETE_INDEX").and_then(|index| index.parse().ok());
        let is_bash = variable(VARIABLE).is_some_and(|shell| shell == "bash");
        let words = arguments.iter().skip_while(|word| *word != "--").skip(1);
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        Typed::at(&words, index.unwrap_or(words.len().saturating_sub(1)), is_bash)
    }

    fn at(words: &[impl AsRef<str>], index: usize, is_bash: bool) -> Typed {
        let word = |back: usize| {
            let word = index.checked_sub(back).and_then(|index| words.get(index));
            word.map(AsRef::as_ref).unwrap_or_default()
        };
        let is_key = |word: &str| {
            let word = word.strip_prefix('-').unwrap_or(word);
            query::filters().any(|(key, _)| key == word)
        };
        let is_search = is_bash && words.iter().any(|word| word.as_ref() == "search");
        let key = (is_search && word(1) == ":" && is_key(word(2))).then(|| word(2).to_owned());
        Typed {
            has_dash: word(0).starts_with('-'),
            key,
            schema_of: (word(2) == "schema").then(|| word(1).to_owned()),
            is_after_key: is_search && word(0).is_empty() && is_key(word(1)),
        }
    }

    /// Returns whether nothing can be offered: for `role:`, bash passes the same words as for
    /// `role` and a space.
    fn is_value_without_letter(&self) -> bool {
        self.is_after_key
    }
}

/// Hides the options of a command and of all its subcommands. The engine still offers them where
/// there is nothing else.
fn without_options(command: Command) -> Command {
    command
        .mut_args(|arg| if arg.is_positional() { arg } else { arg.hide(true) })
        .disable_help_flag(true)
        .disable_version_flag(true)
        .mut_subcommands(without_options)
}

/// Adds completers to the arguments of a command and of all its subcommands.
fn with_completers(command: Command, typed: &Typed) -> Command {
    command
        .mut_args(|arg| with_completer(arg, typed))
        .mut_subcommands(|command| with_completers(command, typed))
}

fn with_completer(arg: Arg, typed: &Typed) -> Arg {
    let name = arg.get_value_names().and_then(|names| names.first()).map(|name| name.to_string());
    let complete = match (name.as_deref().unwrap_or_default(), arg.get_id().as_str()) {
        ("SESSION" | "ID", _) if arg.is_positional() => sessions,
        ("NAME", "project" | "name") => projects,
        ("AGENT", _) => agents,
        ("FORMAT", _) => formats,
        ("WHEN", _) => times,
        ("KIND", "kind") => kinds,
        ("PATH", "path") if arg.is_positional() => notes,
        ("JOB", _) => jobs,
        ("WORDS", _) => match typed.key.clone() {
            Some(key) => {
                let values = move |typed: &OsStr| values_of(&key, "", typed);
                return arg.add(ArgValueCompleter::new(values));
            }
            None => query_words,
        },
        ("COMMAND", "command") => {
            let first = typed.schema_of.clone();
            let complete = move |typed: &OsStr| schemas(first.as_deref(), typed);
            return arg.add(ArgValueCompleter::new(complete));
        }
        _ => return arg,
    };
    // clap knows the values of `export --format` itself.
    if !arg.get_possible_values().is_empty() {
        return arg;
    }
    arg.add(ArgValueCompleter::new(complete))
}

/// Opens the ledger that the environment or the configuration names.
fn ledger() -> Option<Ledger> {
    let global = args::parse(&["quipu".into()]).ok()?.global;
    let settings = settings::load(&global).ok()?;
    Ledger::open_read_only(&settings.ledger.value).ok()
}

fn sessions(typed: &OsStr) -> Vec<CompletionCandidate> {
    let found = || -> Option<Vec<CompletionCandidate>> {
        let ledger = ledger()?;
        let ids = ShortIds::new(
            quipu_ledger::query::ids_with_ambiguous_prefix(&ledger, ID_LETTERS).ok()?,
        );
        let filter = Filter::default();
        let found = quipu_ledger::query::sessions(&ledger, &filter, Some(MAX_SESSIONS)).ok()?;
        let candidates = found.sessions.iter().enumerate().map(|(at, session)| {
            let title = session.title.as_deref().unwrap_or(&session.project);
            let title = safe(&one_line(title, MAX_TITLE_WIDTH)).into_owned();
            candidate(ids.of(&session.session_id)).help(Some(title.into())).display_order(Some(at))
        });
        Some(candidates.collect())
    };
    matching(found().unwrap_or_default(), typed)
}

fn projects(typed: &OsStr) -> Vec<CompletionCandidate> {
    matching(project_names().into_iter().map(candidate).collect(), typed)
}

fn project_names() -> Vec<String> {
    let found = || {
        let ledger = ledger()?;
        quipu_ledger::query::projects(&ledger, &Filter::default()).ok()
    };
    found().unwrap_or_default().into_iter().map(|project| project.project).collect()
}

fn agents(typed: &OsStr) -> Vec<CompletionCandidate> {
    let names = || quipu_ledger::query::names(&ledger()?).ok();
    let agents = names().unwrap_or_default().agents;
    matching(agents.into_iter().map(candidate).collect(), typed)
}

fn formats(typed: &OsStr) -> Vec<CompletionCandidate> {
    let candidate = |name: &str, title: &str| candidate(name).help(Some(title.to_owned().into()));
    let formats = FORMATS.iter().map(|format| candidate(format.name(), format.title()));
    matching(formats.collect(), typed)
}

fn times(typed: &OsStr) -> Vec<CompletionCandidate> {
    let times = TIMES.iter().enumerate();
    matching(times.map(|(at, time)| candidate(*time).display_order(Some(at))).collect(), typed)
}

fn kinds(typed: &OsStr) -> Vec<CompletionCandidate> {
    let kinds = ProblemKind::ALL.iter();
    let kind =
        |kind: &ProblemKind| candidate(kind.as_str()).help(Some(kind.meaning().to_owned().into()));
    matching(kinds.map(kind).collect(), typed)
}

fn notes(typed: &OsStr) -> Vec<CompletionCandidate> {
    let found = || quipu_ledger::query::notes(&ledger()?).ok();
    let notes = found().unwrap_or_default();
    matching(notes.into_iter().map(|note| candidate(note.name)).collect(), typed)
}

/// Completes the ids of jobs, with their names, which often have spaces.
fn jobs(typed: &OsStr) -> Vec<CompletionCandidate> {
    let found = || quipu_ledger::query::cron_jobs(&ledger()?).ok();
    let jobs = found().unwrap_or_default().into_iter().map(|job| {
        let name = safe(job.name.as_deref().unwrap_or_default()).into_owned();
        candidate(job.job_id).help(Some(name.into()))
    });
    matching(jobs.collect(), typed)
}

/// Completes a command, or after its first word the second one.
fn schemas(first: Option<&str>, typed: &OsStr) -> Vec<CompletionCandidate> {
    let names: Vec<CompletionCandidate> = match first {
        Some(first) => {
            let second = |name: &'static str| name.strip_prefix(first)?.strip_prefix('-');
            schema::names().filter_map(second).map(candidate).collect()
        }
        None => schema::names().map(candidate).collect(),
    };
    matching(names, typed)
}

/// Completes a filter of a query: first its key, then its value.
fn query_words(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(text) = typed.to_str() else { return Vec::new() };
    let (dash, text) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let Some((key, _)) = text.split_once(':') else {
        let keys = query::filters().map(|(key, _)| candidate(format!("{dash}{key}:")));
        // Without a letter every filter would be offered for every word.
        return if text.is_empty() { Vec::new() } else { matching(keys.collect(), typed) };
    };
    values_of(key, &format!("{dash}{key}:"), typed)
}

/// Completes the value of a filter. `prefix` is the part of the typed word before the value.
fn values_of(key: &str, prefix: &str, typed: &OsStr) -> Vec<CompletionCandidate> {
    let key = key.strip_prefix('-').unwrap_or(key);
    let Some((key, values)) = query::filters().find(|(known, _)| *known == key) else {
        return Vec::new();
    };
    let names = || quipu_ledger::query::names(&ledger()?).ok();
    let values: Vec<String> = match key {
        "project" => project_names(),
        "tool" => names().unwrap_or_default().tools,
        "agent" => names().unwrap_or_default().agents,
        "format" => FORMATS.iter().map(|format| format.name().to_owned()).collect(),
        "since" | "until" => TIMES.iter().map(|time| (*time).to_owned()).collect(),
        _ => values.into_iter().map(str::to_owned).collect(),
    };
    let values = values.into_iter().map(|value| candidate(format!("{prefix}{value}")));
    matching(values.collect(), typed)
}

fn candidate(value: impl Into<OsString>) -> CompletionCandidate {
    CompletionCandidate::new(value)
}

/// Keeps the values that begin with what is typed, and that a shell can insert as they are.
fn matching(mut candidates: Vec<CompletionCandidate>, typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    candidates.retain(|candidate| {
        let value = candidate.get_value().to_string_lossy();
        let is_plain = |letter: char| {
            letter.is_alphanumeric() || matches!(letter, '.' | '_' | '-' | '/' | ':' | '+' | '@')
        };
        value.starts_with(&*typed) && value.chars().all(is_plain)
    });
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(candidates: &[CompletionCandidate]) -> Vec<String> {
        candidates.iter().map(|it| it.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn filters_have_their_values() {
        assert_eq!(values(&query_words("ro".as_ref())), ["role:"]);
        assert_eq!(values(&query_words("-ro".as_ref())), ["-role:"]);
        assert_eq!(values(&query_words("role:a".as_ref())), ["role:assistant"]);
        assert_eq!(values(&query_words("is:".as_ref())), ["is:error"]);
        assert!(query_words("".as_ref()).is_empty() && query_words("x:y".as_ref()).is_empty());
    }

    #[test]
    fn bash_splits_a_filter_at_its_colon() {
        let typed = |words: &[&str]| Typed::at(words, words.len() - 1, true);
        let value = typed(&["quipu", "search", "tide", "role", ":", "as"]);
        assert_eq!(value.key.as_deref(), Some("role"));
        assert_eq!(values(&values_of("role", "", "as".as_ref())), ["assistant"]);
        assert!(typed(&["quipu", "search", "-role", ""]).is_value_without_letter());
        assert_eq!(typed(&["quipu", "search", "roles", ":", "a"]), Typed::default());
        assert_eq!(typed(&["quipu", "show", "role", ""]), Typed::default());
        assert!(typed(&["quipu", "show", "--fu"]).has_dash);
        let words = ["quipu", "search", "role", ":", "as"];
        assert_eq!(Typed::at(&words, 4, false).key, None, "only bash does");
    }

    #[test]
    fn commands_with_a_schema_are_offered() {
        assert_eq!(values(&schemas(None, "session-a".as_ref())), ["session-append"]);
        assert_eq!(values(&schemas(Some("session"), "a".as_ref())), ["append"]);
        assert!(schemas(None, "".as_ref()).len() > 40);
    }

    #[test]
    fn what_a_shell_would_run_is_not_offered() {
        let hostile = ["$(reboot)", "a b", "a;b", "`x`", "a\nb", "a'b", "\u{1b}[2J", "plain"];
        let candidates = hostile.into_iter().map(candidate).collect();
        assert_eq!(values(&matching(candidates, "".as_ref())), ["plain"]);
    }
}
