//! Separates what the harness wrote into user messages from what the user typed.
//!
//! Claude Code writes commands, their output, reminders, notifications and markers into the user's
//! messages. The tags and phrases here come from real transcripts; a tag that is not listed is the
//! user's own text.

use std::borrow::Cow;

/// The author of a user text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UserText<'a> {
    /// The human. Holds the typed text.
    Prompt(Cow<'a, str>),
    /// The human, as a slash command or a shell command.
    Command {
        /// `/name args` or `! command`
        text: String,
        /// The title that `/rename` sets.
        title: Option<String>,
        /// True if Claude Code itself runs the command, without the model: `/clear`, `/compact`.
        is_local: bool,
    },
    /// The harness: output, reminders, notifications, caveats.
    Injected(Cow<'a, str>),
    /// A note that the human stopped the agent.
    Interrupt(Cow<'a, str>),
    /// The text that replaces compacted history.
    Summary(Cow<'a, str>),
}

/// Tags of blocks that may come before or after a real prompt.
const GLUED: &[&str] = &["system-reminder", "ide_opened_file", "ide_selection", "ide_diagnostics"];

/// Tags of blocks that make up the whole text.
const INJECTED: &[&str] = &[
    "local-command-stdout",
    "local-command-stderr",
    "local-command-caveat",
    "bash-stdout",
    "bash-stderr",
    "task-notification",
    "teammate-message",
    "user-memory-input",
    "session-start-hook",
    "user-prompt-submit-hook",
    "tick",
    "goal",
];

/// A user text without the blocks of the harness at its ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Glued<'a> {
    /// Blocks before the text of a human, each with its tag.
    pub(super) before: Vec<(String, String)>,
    /// The author of what is left; of the whole text, if the harness wrote all of it.
    pub(super) what: UserText<'a>,
    /// Blocks after the text of a human. For a command, the first one is the command as written,
    /// with its tags.
    pub(super) behind: Vec<(String, String)>,
}

/// Finds the author of a user text, and separates the blocks of the harness at its ends.
pub(super) fn read(text: Cow<'_, str>) -> Glued<'_> {
    let (before, rest) = blocks_before(&text);
    let (body, mut behind) = blocks_behind(rest);
    let as_written = |what: &UserText<'_>| {
        matches!(what, UserText::Command { .. }).then(|| (label(body), body.trim().to_owned()))
    };
    if before.is_empty() && behind.is_empty() {
        let written = as_written(&read_whole(Cow::Borrowed(body)));
        return Glued { before, what: read_whole(text), behind: written.into_iter().collect() };
    }
    if !body.is_empty() {
        let what = read_whole(Cow::Owned(body.to_owned()));
        behind.splice(..0, as_written(&what));
        if matches!(what, UserText::Prompt(_) | UserText::Command { .. }) {
            return Glued { before, what, behind };
        }
    }
    // If only text of the harness is left, the harness wrote the whole text.
    let what = match read_whole(Cow::Owned(body.to_owned())) {
        UserText::Interrupt(_) => UserText::Interrupt(text),
        UserText::Summary(_) => UserText::Summary(text),
        _ => UserText::Injected(text),
    };
    Glued { before: Vec::new(), what, behind: Vec::new() }
}

/// Returns the blocks of the harness before a text, and the rest.
fn blocks_before(text: &str) -> (Vec<(String, String)>, &str) {
    let mut blocks = Vec::new();
    let mut rest = text.trim_start();
    while let Some(tag) = tag_of(rest)
        && GLUED.contains(&tag)
        && let Some(end) = rest.find(&format!("</{tag}>"))
    {
        let (block, after) = rest.split_at(end + tag.len() + "</>".len());
        blocks.push((tag.to_owned(), block.to_owned()));
        rest = after.trim_start();
    }
    (blocks, if text.trim_start().len() == rest.len() { text } else { rest })
}

/// Returns a text without the blocks of the harness after it, and these blocks.
fn blocks_behind(text: &str) -> (&str, Vec<(String, String)>) {
    let mut blocks = Vec::new();
    let mut rest = text;
    'blocks: loop {
        let end = rest.trim_end();
        for tag in GLUED {
            if end.ends_with(&format!("</{tag}>"))
                && let Some(start) = end.rfind(&format!("<{tag}>"))
                && let Some((before, block)) = end.split_at_checked(start)
            {
                blocks.push(((*tag).to_owned(), block.to_owned()));
                rest = before.trim_end();
                continue 'blocks;
            }
        }
        blocks.reverse();
        return (rest, blocks);
    }
}

/// Returns a name for a text of the harness: the tag that it begins with.
pub(super) fn label(text: &str) -> String {
    tag_of(text.trim_start()).unwrap_or("injected").to_owned()
}

fn read_whole(text: Cow<'_, str>) -> UserText<'_> {
    let rest = text.trim_start();
    if !rest.starts_with(['<', '[', 'S', 'C', 'T']) {
        return UserText::Prompt(text);
    }
    if rest.starts_with("[Request interrupted by user") {
        return UserText::Interrupt(text);
    }
    if rest.starts_with("This session is being continued from a previous conversation") {
        return UserText::Summary(text);
    }
    if rest.starts_with("Stop hook feedback:")
        || rest.starts_with("Caveat: The messages below were")
    {
        return UserText::Injected(text);
    }
    match tag_of(rest) {
        Some("command-name" | "command-message" | "command-args") => {
            if let Some(command) = command(rest) {
                return command;
            }
        }
        Some("bash-input") => {
            if let Some(input) = inner(rest, "bash-input") {
                let text = format!("! {}", input.trim());
                return UserText::Command { text, title: None, is_local: false };
            }
        }
        Some(tag) if INJECTED.contains(&tag) => return UserText::Injected(text),
        _ => {}
    }
    UserText::Prompt(text)
}

/// Returns whether the harness wrote the whole text.
pub(super) fn is_injected(text: &str) -> bool {
    !matches!(read(Cow::Borrowed(text)).what, UserText::Prompt(_) | UserText::Command { .. })
}

/// Returns the text inside the first `<tag>…</tag>`.
pub(super) fn inner<'t>(text: &'t str, tag: &str) -> Option<&'t str> {
    let mut rest = text;
    loop {
        let (_, after) = rest.split_once('<')?;
        match after.strip_prefix(tag).and_then(|after| after.strip_prefix('>')) {
            Some(body) => {
                return body.split_once(&format!("</{tag}>")).map(|(inner, _)| inner);
            }
            None => rest = after,
        }
    }
}

/// Returns a slash command as it was typed.
fn command(written: &str) -> Option<UserText<'static>> {
    let name = inner(written, "command-name").or_else(|| inner(written, "command-message"))?.trim();
    let name = name.strip_prefix('/').unwrap_or(name);
    if name.is_empty() {
        return None;
    }
    let args = inner(written, "command-args").unwrap_or_default().trim();
    let text = if args.is_empty() { format!("/{name}") } else { format!("/{name} {args}") };
    Some(UserText::Command {
        text,
        title: (name == "rename" && !args.is_empty()).then(|| args.to_owned()),
        is_local: is_local(written, name),
    })
}

/// Returns whether Claude Code itself runs a command. All releases write the name of such a command
/// first, and then the bare name as the message. A command whose text goes to the model begins with
/// the message, or has one like `init is analyzing your codebase…`.
fn is_local(written: &str, name: &str) -> bool {
    tag_of(written) == Some("command-name")
        && inner(written, "command-message").is_some_and(|message| message.trim() == name)
}

/// Returns the tag that the text begins with, without its attributes.
fn tag_of(text: &str) -> Option<&str> {
    let text = text.strip_prefix('<')?;
    let end =
        text.find(|char: char| !(char.is_ascii_alphanumeric() || char == '-' || char == '_'))?;
    (end > 0).then(|| text.get(..end)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(text: &str) -> Option<String> {
        match read(Cow::Borrowed(text)).what {
            UserText::Prompt(text) => Some(text.into_owned()),
            _ => None,
        }
    }

    #[test]
    fn plain_text_is_a_prompt() {
        for text in [
            "hello",
            "  Stop it",
            "This is fine",
            "[1] a list",
            "<div>why red?</div>",
            "a < b",
            "<",
        ] {
            assert_eq!(prompt(text).as_deref(), Some(text));
        }
    }

    #[test]
    fn leading_reminders_are_stripped_from_a_prompt() {
        let text =
            "<system-reminder>a</system-reminder>\n<ide_opened_file>b</ide_opened_file>\nfix it";
        assert_eq!(prompt(text).as_deref(), Some("fix it"));
        let tags: Vec<_> =
            read(Cow::Borrowed(text)).before.into_iter().map(|(tag, _)| tag).collect();
        assert_eq!(tags, ["system-reminder", "ide_opened_file"]);
        let alone = "<system-reminder>a</system-reminder>\n";
        assert_eq!(read(Cow::Borrowed(alone)).what, UserText::Injected(Cow::Borrowed(alone)));
    }

    #[test]
    fn reminders_after_a_prompt_are_stripped() {
        let text = "fix it\n\n<system-reminder>a</system-reminder>\n<system-reminder>b</system-reminder>\n";
        assert_eq!(prompt(text).as_deref(), Some("fix it"));
        // Text that a person quotes in the middle of a prompt is the person's.
        let quoted = "why <system-reminder>a</system-reminder> here?";
        assert_eq!(prompt(quoted).as_deref(), Some(quoted));
        assert_eq!(prompt("fix</system-reminder>").as_deref(), Some("fix</system-reminder>"));
    }

    #[test]
    fn an_unclosed_reminder_is_text() {
        assert_eq!(prompt("<system-reminder>fix").as_deref(), Some("<system-reminder>fix"));
    }

    #[test]
    fn commands_read_as_typed() {
        for (written, expected, is_local) in [
            (
                "<command-name>/clear</command-name>\n  <command-message>clear</command-message>\n<command-args>src a</command-args>",
                "/clear src a",
                true,
            ),
            (
                "<command-message>review</command-message>\n<command-name>/review</command-name><command-args>src a</command-args>",
                "/review src a",
                false,
            ),
            (
                "<command-name>/init</command-name><command-message>init is analyzing your codebase…</command-message>",
                "/init",
                false,
            ),
            ("<bash-input>ls -l</bash-input>", "! ls -l", false),
        ] {
            let text = expected.to_owned();
            assert_eq!(
                read(Cow::Borrowed(written)).what,
                UserText::Command { text, title: None, is_local }
            );
        }
    }

    #[test]
    fn rename_sets_the_title() {
        let text = "<command-name>/rename</command-name><command-args>Blue shop</command-args>";
        assert_eq!(
            read(Cow::Borrowed(text)).what,
            UserText::Command {
                text: "/rename Blue shop".to_owned(),
                title: Some("Blue shop".to_owned()),
                is_local: false
            }
        );
    }

    #[test]
    fn text_of_the_harness_is_not_a_prompt() {
        for text in [
            "<local-command-stdout>ok</local-command-stdout>",
            "<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>",
            "<task-notification>\n<task-id>b1</task-id></task-notification>",
            "<teammate-message teammate_id=\"x\">hi</teammate-message>",
            "Stop hook feedback:\n- no",
            "Caveat: The messages below were generated by the user",
        ] {
            assert_eq!(
                read(Cow::Borrowed(text)).what,
                UserText::Injected(Cow::Borrowed(text)),
                "{text}"
            );
        }
        let text = "[Request interrupted by user for tool use]";
        assert_eq!(read(Cow::Borrowed(text)).what, UserText::Interrupt(Cow::Borrowed(text)));
        let text = "This session is being continued from a previous conversation that ran out";
        assert_eq!(read(Cow::Borrowed(text)).what, UserText::Summary(Cow::Borrowed(text)));
    }
}
