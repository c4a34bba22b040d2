//! README and the pages in `docs`: each command of a `console` block runs on the demo, and prints
//! what the page shows.
//!
//! The blocks of a page are one shell script. In what a page shows, `…` on a line of its own stands
//! for lines that are left out, and elsewhere for text that differs each time. The demo's week ends
//! yesterday, so dates of its week are moved. Blocks that cannot run here are marked `shellsession`,
//! which looks the same to a reader, and are listed in [`NOT_RUN`].

use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::ToSpan;
use jiff::civil::Date;

use crate::home::Home;

/// The first commands of the blocks that do not run, and why.
const NOT_RUN: &[(&str, &str, &str)] = &[
    ("README.md", "cargo run --release", "builds quipu again, and runs all tests"),
    ("README.md", "quipu service install", "installs a unit for the user who runs the tests"),
    ("compaction.md", "quipu session headroom ID", "ID stands for any session; the example runs"),
    ("events.md", "quipu tail --events", "runs until Ctrl-C; `tail` runs it"),
    ("events.md", "curl -N", "needs a server; `.ci/events.mjs` runs it"),
    ("http.md", "quipu serve", "runs until Ctrl-C"),
    ("http.md", "export QUIPU_TOKEN", "needs a server"),
    ("http.md", "curl localhost:4774/v1/sessions?limit=1", "needs a server; `serve` compares it"),
    ("http.md", "curl localhost:4774/v1/search", "needs a server; `serve` compares it"),
    ("http.md", "curl localhost:4774/v1/sessions/last/entries", "the same"),
    ("http.md", "curl --json", "needs a server; `serve` runs it"),
    ("http.md", "curl --json", "the same"),
    ("http.md", "curl localhost:4774/v1/sessions/nothing", "the same"),
    ("mcp.md", "claude mcp add --transport http", "changes the configuration of Claude Code"),
    ("reading.md", "quipu tail", "runs until Ctrl-C"),
    ("scripts.md", "quipu schema session leaf", "needs jq"),
    ("security.md", "quipu token new", "prints a random token"),
    ("store.md", "quipu senders list", "needs the random code of a sender"),
    ("store.md", "quipu session new --id example", "`repair.rs` runs it: the new leaf is random"),
];

/// Ends the output of each command.
const END: char = '\u{1e}';

#[test]
fn each_command_prints_what_its_page_shows() {
    let mut wrong = Vec::new();
    let mut not_run = Vec::new();
    let mut checked = 0;
    for page in pages() {
        let name = page.file_name().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&page).unwrap();
        let mut commands = Vec::new();
        for (language, block) in blocks(&text) {
            match language {
                "console" => commands.extend(commands_of(&block)),
                "shellsession" => not_run.push((name.clone(), commands_of(&block).remove(0).0)),
                _ => {}
            }
        }
        checked += commands.len();
        wrong.extend(check(&name, &commands));
    }
    assert!(wrong.is_empty(), "{} commands differ\n\n{}", wrong.len(), wrong.join("\n"));
    assert!(checked > 40, "{checked}");
    assert_eq!(not_run.len(), NOT_RUN.len(), "{not_run:?}");
    for ((page, command), (known_page, beginning, why)) in not_run.iter().zip(NOT_RUN) {
        assert!(page == known_page && command.starts_with(beginning), "{page}: {command} ({why})");
    }
}

/// Returns README and the pages in `docs`, sorted by name.
fn pages() -> Vec<PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(repository.join("docs")).unwrap();
    let mut pages: Vec<PathBuf> = docs.map(|entry| entry.unwrap().path()).collect();
    pages.retain(|path| path.extension() == Some("md".as_ref()));
    pages.push(repository.join("README.md"));
    pages.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    pages
}

/// Returns the fenced blocks of a page with their languages.
fn blocks(page: &str) -> Vec<(&str, Vec<&str>)> {
    let mut blocks = Vec::new();
    let mut open: Option<(&str, Vec<&str>)> = None;
    for line in page.lines() {
        match (line.trim_start().strip_prefix("```"), open.take()) {
            (Some(language), None) => open = Some((language, Vec::new())),
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some((language, mut lines))) => {
                lines.push(line);
                open = Some((language, lines));
            }
            (None, None) => {}
        }
    }
    blocks
}

/// Returns each command of a block, and the lines below it.
fn commands_of(block: &[&str]) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for line in block {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), Vec::new())),
            (None, Some((_, shown))) => shown.push((*line).to_owned()),
            (None, None) => panic!("a block begins with output: {line}"),
        }
    }
    commands
}

/// Runs all commands of a page in one shell. Returns a message for each one that prints something
/// else than the page.
fn check(page: &str, commands: &[(String, Vec<String>)]) -> Vec<String> {
    if commands.is_empty() {
        return Vec::new();
    }
    let home = Home::empty();
    let made = home.run("demo --to demo");
    assert_eq!(made.code, 0, "{made}");
    let example = "docs/examples/compaction.jsonl";
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    home.write(example, std::fs::read(repository.join(example)).unwrap());
    let script: String =
        commands.iter().map(|(command, _)| format!("{command}\nprintf '{END}'\n")).collect();
    let run = home.finish(shell(&home, &format!("exec 2>&1\n{script}")));
    let printed: Vec<String> = run.stdout.split(END).map(|it| it.replace('\r', "")).collect();
    assert_eq!(printed.len(), commands.len() + 1, "{page}: the shell stopped early\n{run}");
    let differs = commands.iter().zip(&printed).filter_map(|((command, shown), printed)| {
        let shown: Vec<String> = shown.iter().map(|line| moved(line)).collect();
        let lines: Vec<&str> = printed.lines().collect();
        let is_same = matches(trimmed(&shown), trimmed(&lines));
        (!is_same).then(|| format!("{page}: $ {command}\n{printed}"))
    });
    differs.collect()
}

/// Returns a shell that finds `quipu` and the demo.
fn shell(home: &Home, script: &str) -> Command {
    let quipu = Path::new(env!("CARGO_BIN_EXE_quipu")).parent().unwrap();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script])
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", quipu.display()))
        .env("HOME", home.path(""))
        .env("QUIPU_CONFIG", home.path("demo/config.toml"))
        .env("QUIPU_LEDGER", home.path("demo/ledger.db"))
        .envs([("TZ", "UTC"), ("COLUMNS", "80")])
        .current_dir(home.path(""))
        .stdin(std::process::Stdio::null());
    shell
}

/// Removes empty lines from the end.
fn trimmed<T: AsRef<str>>(lines: &[T]) -> &[T] {
    let end = lines.iter().rposition(|line| !line.as_ref().is_empty());
    &lines[..end.map_or(0, |end| end + 1)]
}

/// Moves dates of the week in the demo's files to the week that ended yesterday.
fn moved(line: &str) -> String {
    let yesterday = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).yesterday().unwrap();
    let days = Date::constant(2026, 3, 8).until(yesterday.date()).unwrap().get_days();
    let mut parts = line.split("2026-03-");
    let mut moved = parts.next().unwrap().to_owned();
    for part in parts {
        let (day, rest) = part.split_at(2);
        let date = Date::constant(2026, 3, 1).checked_add((day.parse::<i32>().unwrap() - 1).days());
        moved.push_str(&date.unwrap().checked_add(days.days()).unwrap().to_string());
        moved.push_str(rest);
    }
    moved
}

/// Returns whether printed lines are those of a page.
fn matches(shown: &[String], printed: &[&str]) -> bool {
    match shown {
        [] => printed.is_empty(),
        [gap, rest @ ..] if gap == "…" => {
            (0..=printed.len()).any(|skipped| matches(rest, &printed[skipped..]))
        }
        [line, rest @ ..] => {
            let same = |first: &&&str| line_matches(line, first) || is_hours_ago(line, first);
            printed.first().filter(same).is_some() && matches(rest, &printed[1..])
        }
    }
}

/// Returns whether a printed line is one of a page; `…` in it matches any text.
fn line_matches(shown: &str, printed: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = parts.next().and_then(|beginning| printed.strip_prefix(beginning)) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(end) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(end)
}

/// Returns whether a line differs only where the page has "1 day ago": in the hours after midnight,
/// yesterday is some hours ago.
fn is_hours_ago(shown: &str, printed: &str) -> bool {
    let Some((before, after)) = shown.split_once("1 day ago") else { return false };
    let rest = printed.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    rest.is_some_and(|age| age.trim_end().ends_with(" h ago"))
}

#[test]
fn lines_and_text_may_be_left_out() {
    let check = |shown: &str, printed: &str| {
        let shown: Vec<String> = shown.lines().map(str::to_owned).collect();
        matches(&shown, &printed.lines().collect::<Vec<_>>())
    };
    assert!(check("a\n…\nd", "a\nb\nc\nd") && check("…\nd", "d") && check("…", "a\nb"));
    assert!(check("a … d", "a b c d") && check("{\"id\":\"…\"}", "{\"id\":\"x\"}"));
    assert!(!check("a\n…\nd", "a\nb") && !check("a", "a\nb") && !check("", "a"));
    assert!(!check("a …", "b c") && !check("… c", "a b") && !check("a…b…a", "a b"));
    assert!(
        check("x  1 day ago   y", "x  9 h ago     y") && !check("x  1 day ago", "x  5 days ago")
    );
}

/// Commands that only read, and so can be tried on the demo.
const READING: &[&str] = &[
    "sessions", "projects", "search", "show", "tree", "usage", "resume", "export", "restore",
    "notes", "cron", "sql", "status", "cursors",
];

#[test]
fn examples_of_the_help_work_on_the_demo() {
    let home = Home::empty();
    home.run("demo --to demo");
    let mut tried = 0;
    for command in READING {
        let help = home.run_with(&format!("{command} --help"), &[("COLUMNS", "200")]).stdout;
        let examples = help.split("Examples:\n").nth(1).unwrap_or_default();
        for example in examples.lines().map_while(|line| line.strip_prefix("  ")) {
            // Other programs may be absent, no session is of this folder, and no agent runs here.
            let is_other = example.contains(['|', '<']) || example.ends_with("--run");
            if is_other || ["quipu show", "quipu resume"].contains(&example) {
                continue;
            }
            let run = home.finish(shell(&home, example));
            assert_eq!(run.code, 0, "{example}: {run}");
            assert!(!run.stdout.is_empty() || example.contains('>'), "{example}: {run}");
            tried += 1;
        }
    }
    assert!(tried > 25, "{tried}");
}
