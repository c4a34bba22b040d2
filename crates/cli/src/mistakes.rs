//! Hints for command lines that cannot be parsed. clap finds the mistake; its own suggestions are
//! used only where there is no better one.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

use crate::args::Args;
use crate::error::{CommandError, Kind};

/// Words that people try as commands, and a hint for each.
const OTHER_WORDS: &[(&[&str], &str)] = &[
    (
        &["history", "list", "recent", "resume-last", "chats", "conversations"],
        "`quipu sessions` lists all sessions, `quipu search WORDS` searches them",
    ),
    (&["find", "grep", "query", "rg"], "`quipu search WORDS` searches all sessions"),
    (&["open", "view", "cat", "read", "print", "get"], "`quipu show SESSION` shows a session"),
    (&["continue", "attach"], "`quipu resume SESSION` continues a session"),
    (
        &["stats", "tokens", "price", "prices", "billing", "spend", "daily", "monthly", "blocks"],
        "`quipu usage` shows tokens and cost",
    ),
    (
        &["collect", "init", "add", "scan", "update", "index", "ingest"],
        "`quipu sync` collects everything new",
    ),
    (&["delete", "remove", "rm", "purge"], "`quipu forget ID` removes a session for good"),
    (&["check", "verify", "fsck", "repair"], "`quipu doctor` checks the ledger"),
    (&["errors", "issues", "warnings"], "`quipu problems` lists oddities of source files"),
    (&["daemon", "start", "install"], "`quipu service install` collects in the background"),
    (&["memory", "memories"], "`quipu notes` lists memory and personality notes"),
    (&["jobs", "schedule"], "`quipu cron` lists scheduled jobs"),
    (&["settings"], "`quipu config show` lists all settings"),
    (&["version"], "`quipu --version` prints the version"),
];

/// Limit for the number of letters in which a typed word differs from a command.
const MAX_CHANGED_LETTERS: usize = 2;

/// Returns the mistake with a hint, if there is a better hint than clap's.
pub(crate) fn explained(error: &clap::Error) -> Option<CommandError> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    // `quipu session [OPTIONS] <COMMAND>` names the command whose arguments are wrong.
    let usage = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string(),
        _ => String::new(),
    };
    let usage = usage.trim_start_matches("Usage:").trim();
    let command_path: Vec<&str> =
        usage.split(' ').skip(1).take_while(|word| !word.starts_with(['[', '<', '-'])).collect();
    let mut explained = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            Some(unknown_command(&command_path, text(ContextKind::InvalidSubcommand)?))
        }
        ErrorKind::UnknownArgument => unexpected(&command_path, text(ContextKind::InvalidArg)?),
        ErrorKind::ValueValidation => {
            let (option, value) =
                (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
            not_a_number(error, option, value)
        }
        ErrorKind::InvalidValue => {
            no_group(text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?)
        }
        _ => None,
    }?;
    explained.kind = Kind::Usage;
    Some(explained)
}

/// Returns clap's own message, for an error as JSON.
pub(crate) fn in_one_line(error: &clap::Error) -> CommandError {
    let rendered = error.to_string();
    let mut lines = rendered.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let mut explained = CommandError::new(first.trim_start_matches("error: "));
    explained.kind = Kind::Usage;
    match lines.find_map(|line| line.strip_prefix("tip: ")) {
        Some(tip) => explained.hint(tip),
        None => explained.hint("`quipu --help` lists all commands"),
    }
}

/// Explains a word that is not a command.
fn unknown_command(command_path: &[&str], word: &str) -> CommandError {
    let above = full_name(command_path);
    let error = CommandError::new(format!("`{word}` is not a command of `{above}`"));
    let mut command = Args::command();
    for name in command_path {
        command = command.find_subcommand(name).cloned().unwrap_or_default();
    }
    if let Some(nearest) = nearest(&command, word) {
        return error.hint(format!("did you mean `{above} {nearest}`?"));
    }
    let lower = word.to_lowercase();
    let other = OTHER_WORDS.iter().find(|(words, _)| words.contains(&lower.as_str()));
    if let (Some((_, hint)), true) = (other, command_path.is_empty()) {
        return error.hint(*hint);
    }
    if is_like_an_id(word) {
        return error.hint(format!("`quipu show {word}` shows the session with that id"));
    }
    if command_path.is_empty() {
        return error
            .hint(format!("`quipu search {}` searches for it", crate::shell::quote(word)))
            .hint("`quipu --help` lists all commands");
    }
    error.hint(format!("`{above} --help` lists its commands"))
}

/// Explains an argument that a command does not take.
fn unexpected(command_path: &[&str], argument: &str) -> Option<CommandError> {
    let error =
        CommandError::new(format!("`{}` takes no argument `{argument}`", full_name(command_path)));
    let word = crate::shell::quote(argument);
    let hint = match command_path {
        ["sessions"] if argument == "--sort" => {
            "`quipu usage session -n 10` lists the sessions with the highest cost".to_owned()
        }
        ["usage"] if super::commands::is_usage_group(argument.trim_start_matches('-')) => {
            format!("`quipu usage {}` sums by it", argument.trim_start_matches('-'))
        }
        ["export"] if is_export_format(argument) => {
            let format = argument.trim_start_matches('-');
            format!("for example `quipu export last --format {format} --to page.{format}`")
        }
        ["show"] if argument == "--format" || is_export_format(argument) => {
            "`quipu export last --format html --to page.html` writes a session as a page".to_owned()
        }
        _ if argument.starts_with('-') => return None,
        ["show"] if argument.parse::<u64>().is_ok() => {
            format!("`quipu show last -n {argument}` shows the last {argument} messages")
        }
        ["export"] if is_like_an_id(argument) => {
            format!("for example `quipu export {word} --format html --to page.html`")
        }
        ["export"] => format!("`--to {word}` writes to that file"),
        ["sessions"] if is_like_an_id(argument) => {
            format!("`quipu show {word}` shows the session with that id")
        }
        ["sessions"] => format!(
            "`quipu sessions --project {word}` lists the sessions of a project, \
             `quipu search {word}` searches their text"
        ),
        ["status" | "sync" | "doctor"] => format!("`quipu show {word}` shows a session"),
        _ => return None,
    };
    Some(error.hint(hint))
}

/// Returns whether an option is the name of a format of `export`, such as `--html`.
fn is_export_format(option: &str) -> bool {
    option
        .strip_prefix("--")
        .is_some_and(|name| ["md", "html", "json", "jsonl", "csv"].contains(&name))
}

/// Explains a word that is no group of `usage`, if it is a time.
fn no_group(option: &str, value: &str) -> Option<CommandError> {
    let is_time = option == "[BY]" && crate::filters::until(value).is_ok();
    let error = CommandError::new(format!("`{value}` is a time, and `quipu usage` sums by groups"));
    let value = crate::shell::quote(value);
    is_time.then(|| error.hint(format!("`quipu usage --since {value}` shows it by day")))
}

/// Explains a value that should be a number.
fn not_a_number(error: &clap::Error, option: &str, value: &str) -> Option<CommandError> {
    let source = std::error::Error::source(error)?;
    source.downcast_ref::<std::num::ParseIntError>()?;
    let name = option.split(' ').next().unwrap_or(option);
    let message = format!("`{value}` is not a number, and {name} needs one");
    let hint = match name {
        "--turn" => {
            "turns are counted from 1, for example `--turn 3`; `quipu show ID --count` prints how \
             many there are"
                .to_owned()
        }
        "--last" => "for example `--last 10`, the last ten messages".to_owned(),
        _ => format!("for example `{name} 3`"),
    };
    Some(CommandError::new(message).hint(hint))
}

fn full_name(command_path: &[&str]) -> String {
    command_path.iter().fold("quipu".to_owned(), |above, word| format!("{above} {word}"))
}

/// Returns the command that was probably meant: with the fewest changed letters.
fn nearest(command: &Command, word: &str) -> Option<String> {
    let names = command.get_subcommands().filter(|command| !command.is_hide_set());
    let names = names.flat_map(|command| {
        std::iter::once(command.get_name()).chain(command.get_visible_aliases())
    });
    let close = names.map(|name| (strsim::damerau_levenshtein(name, word), name));
    let (_, name) = close
        .filter(|(changed, name)| *changed <= MAX_CHANGED_LETTERS && changed * 2 < name.len())
        .min_by_key(|(changed, _)| *changed)?;
    Some(name.to_owned())
}

/// Returns whether a word may be the beginning of a session's id.
fn is_like_an_id(word: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    word.len() >= 4 && word.bytes().all(is_hex) && word.bytes().any(|byte| byte.is_ascii_digit())
}
