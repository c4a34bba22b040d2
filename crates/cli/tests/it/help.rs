//! Help and version.

use crate::home::Home;

const COMMANDS: [&str; 12] = [
    "sync", "watch", "service", "status", "restore", "backup", "doctor", "rebuild", "forget",
    "cursors", "formats", "config",
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
