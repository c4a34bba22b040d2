//! The help of `quipu` itself: commands in groups, and the exit codes.

use clap::Command;
use clap::builder::{StyledStr, Styles};

use crate::output::{Text, stdout_width};

/// The groups of commands. A command without a group is shown in the last one.
pub(crate) const GROUPS: &[(&str, &[&str])] = &[
    (
        "Read",
        &[
            "search", "show", "sessions", "projects", "tree", "tail", "files", "usage", "notes",
            "cron", "sql",
        ],
    ),
    (
        "Collect and maintain",
        &[
            "sync", "watch", "service", "serve", "mcp", "token", "status", "problems", "doctor",
            "backup", "rebuild", "forget", "cursors",
        ],
    ),
    ("Resume and restore", &["resume", "restore", "export"]),
    ("Keep an agent's sessions", &["session", "senders", "import"]),
    ("Set up", &["demo", "config", "formats", "schema", "completions", "man"]),
];

/// The exit codes, and what each means.
pub(crate) const EXIT_CODES: &[(&str, &str)] = &[
    ("0", "done, or found"),
    ("1", "nothing found, an ambiguous name, or a check that failed"),
    ("2", "an error, or a mistake in the command line"),
    ("130", "stopped with Ctrl-C"),
];

/// Limit for the width of help, in columns.
const MAX_WIDTH: usize = 100;

/// Adds the help to the command.
pub(crate) fn add(command: Command) -> Command {
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{}\n{{options}}\n\n{}",
        groups(&command),
        heading("Options"),
        exit_codes(),
    );
    command.help_template(StyledStr::from(template)).mut_subcommands(reflowed)
}

/// Joins the lines of paragraphs in the help of a command and of its subcommands, so that they are
/// wrapped to the width of the screen.
fn reflowed(command: Command) -> Command {
    let command = match command.get_long_about() {
        Some(about) => {
            let about = joined_lines(&about.to_string());
            command.long_about(about)
        }
        None => command,
    };
    command.mut_subcommands(reflowed)
}

/// Joins the lines of each paragraph. Indented lines stay as they are.
fn joined_lines(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut is_prose = false;
    for line in text.lines() {
        let continues = is_prose && !line.is_empty() && !line.starts_with(' ');
        if !joined.is_empty() {
            joined.push(if continues { ' ' } else { '\n' });
        }
        joined.push_str(line);
        is_prose = !line.is_empty() && !line.starts_with(' ');
    }
    joined
}

fn groups(command: &Command) -> String {
    let grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let all = || command.get_subcommands().filter(|command| !command.is_hide_set());
    let longest = all().map(|command| command.get_name().len()).max().unwrap_or(0);
    let mut text = String::new();
    for (number, (title, names)) in GROUPS.iter().enumerate() {
        let named = names.iter().filter_map(|name| all().find(|it| it.get_name() == *name));
        let others = all().filter(|command| !grouped(command.get_name()));
        let others = others.filter(|_| number + 1 == GROUPS.len());
        text.push_str(&format!("{}\n", heading(title)));
        for command in named.chain(others) {
            let mut about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let aliases: Vec<&str> = command.get_visible_aliases().collect();
            if !aliases.is_empty() {
                about.push_str(&format!(" [{}]", aliases.join(", ")));
            }
            text.push_str(&row(command.get_name(), &about, longest));
        }
        text.push('\n');
    }
    text
}

fn exit_codes() -> String {
    let more = "`quipu COMMAND --help` has examples of each command.";
    let width = stdout_width().unwrap_or(MAX_WIDTH).min(MAX_WIDTH);
    let more: Vec<String> =
        Text::plain(more).wrap_sentence(width).iter().map(|line| line.render(false)).collect();
    format!("{}\n{}\n{}\n", heading("Exit codes"), exit_code_rows(), more.join("\n"))
}

/// Returns the rows of the table of exit codes.
pub(crate) fn exit_code_rows() -> String {
    EXIT_CODES.iter().map(|(code, meaning)| row(code, meaning, "130".len())).collect()
}

/// Formats a name and its meaning, which is wrapped beside it.
fn row(name: &str, meaning: &str, longest: usize) -> String {
    let indent = longest + 4;
    let width = stdout_width().unwrap_or(MAX_WIDTH).min(MAX_WIDTH);
    let mut start = format!("  {name:longest$}  ");
    let mut row = String::new();
    for line in Text::plain(meaning).wrap(width.saturating_sub(indent)) {
        row.push_str(&std::mem::replace(&mut start, " ".repeat(indent)));
        row.push_str(&line.render(false));
        row.push('\n');
    }
    row
}

fn heading(title: &str) -> String {
    let styles = Styles::styled();
    let header = styles.get_header();
    format!("{header}{title}:{header:#}")
}

#[cfg(test)]
mod tests {
    use super::joined_lines;

    #[test]
    fn only_lines_of_prose_are_joined() {
        assert_eq!(joined_lines("Show\n\na\nb\n\nc"), "Show\n\na b\n\nc");
        assert_eq!(joined_lines("a:\n  b\n  c\nd\ne"), "a:\n  b\n  c\nd e");
    }
}
