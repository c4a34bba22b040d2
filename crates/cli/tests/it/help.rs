//! Help and version.

use crate::home::Home;

const COMMANDS: [&str; 14] = [
    "sync", "watch", "service", "status", "restore", "backup", "doctor", "rebuild", "forget",
    "session", "senders", "cursors", "formats", "config",
];

#[test]
fn every_command_explains_itself() {
    let home = Home::empty();
    let overview = home.run("--help").stdout;
    for command in COMMANDS {
        assert!(overview.contains(&format!("\n  {command} ")), "{command}");
        let run = home.run(&format!("{command} --help"));
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{command}");
        assert!(run.stdout.contains("\nExample"), "{command}");
        assert!(
            run.stdout.contains(&format!("\n  quipu {command} ")) || command == "rebuild",
            "{command}"
        );
    }
}

#[test]
fn version() {
    let run = Home::empty().run("--version");
    assert_eq!(run.stdout, concat!("quipu ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = crate::home::Home::empty().run(&format!("completions {shell}"));
        assert_eq!(run.code, 0);
        assert!(run.stdout.contains("QUIPU_COMPLETE"), "{shell}");
    }
}

#[test]
fn manual_pages() {
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
