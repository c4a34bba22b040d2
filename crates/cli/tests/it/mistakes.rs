//! Command lines that cannot be parsed: the hint names the command that was meant.

use crate::home::{Home, snapshot};

#[test]
fn a_hint_names_what_was_meant() {
    let home = Home::empty();
    let said = |arguments: &str| {
        let run = home.run(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run}");
        run.stderr
    };
    insta::assert_snapshot!(said("serach herring"), @"
    error: `serach` is not a command of `quipu`
    hint: did you mean `quipu search`?
    ");
    insta::assert_snapshot!(said("history"), @"
    error: `history` is not a command of `quipu`
    hint: `quipu sessions` lists all sessions, `quipu search WORDS` searches them
    ");
    insta::assert_snapshot!(said("b20f"), @"
    error: `b20f` is not a command of `quipu`
    hint: `quipu show b20f` shows the session with that id
    ");
    insta::assert_snapshot!(said("tidepool"), @"
    error: `tidepool` is not a command of `quipu`
    hint: `quipu search tidepool` searches for it
    hint: `quipu --help` lists all commands
    ");
    insta::assert_snapshot!(said("session b20f"), @"
    error: `b20f` is not a command of `quipu session`
    hint: `quipu show b20f` shows the session with that id
    ");
    insta::assert_snapshot!(said("session formk"), @"
    error: `formk` is not a command of `quipu session`
    hint: did you mean `quipu session fork`?
    ");
    insta::assert_snapshot!(said("sessions foo"), @"
    error: `quipu sessions` takes no argument `foo`
    hint: `quipu sessions --project foo` lists the sessions of a project, `quipu search foo` searches their text
    ");
    insta::assert_snapshot!(said("show b20f --turn abc"), @"
    error: `abc` is not a number, and --turn needs one
    hint: turns are counted from 1, for example `--turn 3`; `quipu show ID --count` prints how many there are
    ");
    insta::assert_snapshot!(said("sessions -n many"), @"
    error: `many` is not a number, and --limit needs one
    hint: for example `--limit 3`
    ");
    insta::assert_snapshot!(said("sessions --sort cost"), @"
    error: `quipu sessions` takes no argument `--sort`
    hint: `quipu usage session -n 10` lists the sessions with the highest cost
    ");
    insta::assert_snapshot!(said("export b20f page.html"), @"
    error: `quipu export` takes no argument `page.html`
    hint: `--to page.html` writes to that file
    ");
    insta::assert_snapshot!(said("export --html b20f"), @"
    error: `quipu export` takes no argument `b20f`
    hint: for example `quipu export b20f --format html --to page.html`
    ");
    insta::assert_snapshot!(said("usage 3d"), @"
    error: `3d` is a time, and `quipu usage` sums by groups
    hint: `quipu usage --since 3d` shows it by day
    ");
    insta::assert_snapshot!(said("usage --today"), @"
    error: `quipu usage` takes no argument `--today`
    hint: `quipu usage today` sums by it
    ");
    insta::assert_snapshot!(said("export b20f --html"), @"
    error: `quipu export` takes no argument `--html`
    hint: for example `quipu export last --format html --to page.html`
    ");
    insta::assert_snapshot!(said("show b20f --html"), @"
    error: `quipu show` takes no argument `--html`
    hint: `quipu export last --format html --to page.html` writes a session as a page
    ");
    insta::assert_snapshot!(said("last 5"), @"
    error: `quipu show` takes no argument `5`
    hint: `quipu show last -n 5` shows the last 5 messages
    ");
    // clap's own message is good enough.
    assert!(said("sessions --projcet x").contains("--project"));
}

#[test]
fn a_ledger_that_cannot_be_reached_is_not_absent() {
    let home = Home::small();
    home.write("file", "text");
    for command in ["sessions", "sql x", "show last"] {
        let run = home.run(&format!("{command} --ledger file/ledger.db"));
        assert_eq!(run.code, 2, "{run}");
        assert!(!run.stderr.contains("there is no ledger"), "{run}");
    }
    snapshot!(home.run("sessions --ledger file/ledger.db"), @"
    exit 2
    --- stderr
    error: cannot look at [HOME]/file/ledger.db
      caused by: not a directory (os error 20)
    hint: `quipu --ledger file/ledger.db config show` prints which ledger is used
    ");
}

/// A printed command is not broken, even if it is longer than a line.
#[test]
fn commands_are_on_one_line() {
    let home = Home::small();
    let folder = "a/rather/long/path/to/a/ledger/that/does/not/fit";
    home.run(&format!("sync -q --ledger {folder}/ledger.db"));
    for width in ["30", "40", "80"] {
        for command in ["search price", "show 00000004", "status", "doctor", "problems"] {
            let arguments = format!("{command} --ledger {folder}/ledger.db");
            let run = home.run_with(&arguments, &[("COLUMNS", width)]);
            let all = run.stdout.clone() + &run.stderr;
            for line in all.lines().filter(|line| line.contains("quipu --ledger")) {
                let rest = line.split("quipu --ledger ").nth(1).unwrap();
                assert!(rest.starts_with(&format!("{folder}/ledger.db ")), "{command}: {line}");
            }
            assert!(!all.contains("`quipu doctor") && !all.contains("`quipu sync"), "{all}");
        }
        let found = home
            .run_with(&format!("search price --ledger {folder}/ledger.db"), &[("COLUMNS", width)]);
        let command = format!("quipu --ledger {folder}/ledger.db show ");
        assert!(found.stdout.lines().any(|line| line.trim().starts_with(&command)), "{found}");
    }
}
