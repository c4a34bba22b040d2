//! Help and version.

use crate::home::Home;

/// Returns all commands and their subcommands, as `--help` lists them.
fn all(home: &Home) -> Vec<String> {
    let overview = home.run("--help").stdout;
    let mut commands = Vec::new();
    for group in [
        "Read:",
        "Collect and maintain:",
        "Resume and restore:",
        "Keep an agent's sessions:",
        "Set up:",
    ] {
        let names = listed(&overview, group);
        assert!(!names.is_empty(), "{group}");
        for name in names {
            let help = home.run(&format!("{name} --help")).stdout;
            let below = listed(&help, "Commands:");
            commands.extend(below.iter().map(|below| format!("{name} {below}")));
            commands.push(name);
        }
    }
    commands
}

/// Returns the names below a heading.
fn listed(help: &str, heading: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != heading).skip(1);
    let listed = listed.take_while(|line| line.starts_with("  "));
    let named = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    named.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn every_command_has_help_with_an_example() {
    let home = Home::empty();
    let commands = all(&home);
    for name in ["search", "problems", "tail", "session append", "senders list", "config show"] {
        assert!(commands.iter().any(|command| command == name), "{name}: {commands:?}");
    }
    for command in commands {
        let run = home.run(&format!("{command} --help"));
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{command}");
        assert!(run.stdout.contains("\nExample"), "{command} has no example");
        assert!(run.stdout.contains("\nGlobal options:\n"), "{command}");
    }
}

/// Help fits every screen.
#[test]
fn help_is_as_wide_as_the_screen() {
    for columns in [40, 80, 120] {
        let help = Home::empty().run_with("--help", &[("COLUMNS", &columns.to_string())]).stdout;
        let groups = help.split("Options:").next().unwrap();
        let widest = groups.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= columns.min(100), "{columns}: {help}");
    }
}

/// The sentences above the options are wrapped to the width of the screen.
#[test]
fn paragraphs_of_help_fill_the_screen() {
    let home = Home::empty();
    for (columns, line) in [
        ("60", "Shows what the user and the agent wrote, and one line for"),
        (
            "100",
            "Shows what the user and the agent wrote, and one line for each tool call. `✗` marks a call that",
        ),
    ] {
        let help = home.run_with("show --help", &[("COLUMNS", columns)]).stdout;
        let mut lines = help.lines().skip_while(|it| *it != line);
        assert!(lines.next().is_some(), "{columns}: {help}");
        let next = lines.next().unwrap();
        let word = next.split(' ').next().unwrap().chars().count();
        assert!(line.chars().count() + word >= columns.parse().unwrap(), "{columns}: {next}");
        assert!(help.contains("\n  quipu show last --prompts\n"), "{help}");
    }
}

#[test]
fn the_version_is_printed() {
    let run = Home::empty().run("--version");
    assert_eq!(run.stdout, concat!("quipu ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = crate::home::Home::empty().run(&format!("completions {shell}"));
        assert_eq!(run.code, 0);
        assert!(run.stdout.contains("QUIPU_COMPLETE"), "{shell}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let home = crate::home::Home::empty();
    let page = home.run("man");
    assert!(page.stdout.contains(".TH quipu 1"), "{page}");
    let run = home.run("man --to pages");
    assert_eq!(run.code, 0);
    for name in ["quipu.1", "quipu-usage.1", "quipu-config-show.1"] {
        assert!(
            std::fs::read_to_string(home.path("pages").join(name)).unwrap().contains(".SH NAME")
        );
    }
    assert!(run.stdout.ends_with(" pages written to pages\n"), "{run}");
    // Tables are not filled.
    let search = std::fs::read_to_string(home.path("pages/quipu-search.1")).unwrap();
    let table = search.split(".nf\n").nth(1).unwrap().split(".fi\n").next().unwrap();
    assert!(table.contains("out of memory") && table.lines().count() > 5, "{search}");
    assert!(page.stdout.contains("  130  stopped with Ctrl"), "{page}");
}

#[test]
fn help_is_a_command_too() {
    let home = Home::empty();
    for (asked, meant) in [
        ("help", "--help"),
        ("help sync", "sync --help"),
        ("help session append", "session append --help"),
        ("help nothing", "nothing --help"),
    ] {
        let (asked, meant) = (home.run(asked), home.run(meant));
        assert_eq!((asked.code, &asked.stdout), (meant.code, &meant.stdout));
    }
    assert!(home.run("help sync").stdout.contains("Usage: quipu sync"));
}
