//! Completes words in a shell: sessions, projects, agents, tools and filters.
//!
//! A shell runs `quipu` with `QUIPU_COMPLETE` set. Arguments are recognised by their names, so that
//! new commands are completed too. Never collects, writes or prints an error: without a ledger
//! there are no values. A shell inserts a value unquoted, and a name in a ledger comes from a
//! transcript, so only values without special characters are offered.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command, CommandFactory};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::CompleteEnv;
use quipu_ledger::Ledger;
use quipu_ledger::query::Filter;
use quipu_transcript::format::FORMATS;
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

/// Prints completions if a shell asks for them. Returns false for an ordinary command.
pub(crate) fn complete(arguments: &[OsString]) -> bool {
    let here = std::env::current_dir().ok();
    let engine = CompleteEnv::with_factory(|| with_completers(args::Args::command()));
    engine
        .var(VARIABLE)
        .bin("quipu")
        .try_complete(arguments.iter().cloned(), here.as_deref())
        // A shell does not show messages.
        .unwrap_or(true)
}

/// Adds completers to the arguments of a command and of all its subcommands.
fn with_completers(command: Command) -> Command {
    command.mut_args(with_completer).mut_subcommands(with_completers)
}

fn with_completer(arg: Arg) -> Arg {
    let name = arg.get_value_names().and_then(|names| names.first()).map(|name| name.to_string());
    let complete = match (name.as_deref().unwrap_or_default(), arg.get_id().as_str()) {
        ("SESSION" | "ID", _) if arg.is_positional() => sessions,
        ("NAME", "project" | "name") => projects,
        ("AGENT", _) => agents,
        ("FORMAT", _) => formats,
        ("WORDS", _) => query_words,
        ("COMMAND", "command") => schemas,
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

fn schemas(typed: &OsStr) -> Vec<CompletionCandidate> {
    matching(schema::names().map(candidate).collect(), typed)
}

/// Completes a filter of a query: first its key, then its value. bash splits words at colons, so it
/// completes only keys.
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
    let Some((key, values)) = query::filters().find(|(known, _)| *known == key) else {
        return Vec::new();
    };
    let names = || quipu_ledger::query::names(&ledger()?).ok();
    let values: Vec<String> = match key {
        "project" => project_names(),
        "tool" => names().unwrap_or_default().tools,
        "agent" => names().unwrap_or_default().agents,
        "format" => FORMATS.iter().map(|format| format.name().to_owned()).collect(),
        _ => values.into_iter().map(str::to_owned).collect(),
    };
    let values = values.into_iter().map(|value| candidate(format!("{dash}{key}:{value}")));
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
    fn commands_with_a_schema_are_offered() {
        assert_eq!(values(&schemas("session-a".as_ref())), ["session-append"]);
        assert!(schemas("".as_ref()).len() > 40);
    }

    #[test]
    fn what_a_shell_would_run_is_not_offered() {
        let hostile = ["$(reboot)", "a b", "a;b", "`x`", "a\nb", "a'b", "\u{1b}[2J", "plain"];
        let candidates = hostile.into_iter().map(candidate).collect();
        assert_eq!(values(&matching(candidates, "".as_ref())), ["plain"]);
    }
}
