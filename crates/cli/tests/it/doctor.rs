//! `quipu doctor`.

use std::fs;

use crate::home::{Home, files, snapshot};

#[test]
fn a_sound_ledger_has_no_problems() {
    let home = Home::small();
    home.run("sync");
    snapshot!(home.run("doctor"), @"
    exit 0
    --- stdout
    No problems found  ~/.local/share/quipu/ledger.db

      file        ✓ opens, and its pages are consistent
      truth       ✓ all collected bytes are stored
      cursors     ✓ no file changed since it was read
      projection  ✓ the readable tables match the stored raw data
      sources     ✓ all source files can be read
      indexes     ✓ every transcript listed in an index is stored
      risk        ✓ nothing is about to be lost
    ");
    let report = home.run("doctor --deep --json").json();
    assert_eq!((&report["is_ok"], &report["is_deep"]), (&true.into(), &true.into()));
    assert_eq!(report["findings"].as_array().unwrap().len(), 0);
    assert_eq!(home.run("doctor -q").stdout, "");
}

#[test]
fn a_damaged_ledger_is_an_error() {
    let home = Home::small();
    home.run("sync");
    let mut bytes = fs::read(home.ledger()).unwrap();
    let end = bytes.len() - 8192;
    bytes.truncate(end);
    fs::write(home.ledger(), bytes).unwrap();
    let run = home.run("doctor");
    assert_eq!((run.code, run.stderr.as_str()), (1, ""), "{run}");
    assert!(run.stdout.contains("✗"), "{run}");
    assert!(run.stdout.contains("quipu backup --restore FILE"), "{run}");
    // With JSON, a script gets the findings and an error.
    let run = home.run("doctor --json");
    assert_eq!((run.code, run.stdout.lines().count()), (1, 1), "{run}");
    assert!(run.stderr.starts_with(r#"{"error":"check_failed","#), "{run}");
    let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["is_ok"], false);
    for finding in report["findings"].as_array().unwrap() {
        for key in ["check", "severity", "message", "hint"] {
            assert!(finding[key].as_str().is_some_and(|text| !text.is_empty()), "{finding}");
        }
    }
}

#[test]
fn a_file_that_is_no_ledger_is_an_error() {
    let home = Home::small();
    home.write("kept/notes.txt", "my notes\n".repeat(100));
    let before = files(&home.path("kept"));
    let run = home.run("doctor --ledger kept/notes.txt");
    assert_eq!(run.code, 1, "{run}");
    assert!(run.stdout.contains("is not a quipu ledger: it is not an SQLite file"), "{run}");
    assert!(before == files(&home.path("kept")));
}

#[test]
fn the_report_fits_a_narrow_terminal() {
    let home = Home::small();
    home.run("sync");
    home.write(
        ".claude/projects/-home-alice-shop/00000009-0000-4000-8000-000000000009.jsonl",
        "{\"type\":\"user\"}\n",
    );
    let run = home.run_with("doctor", &[("COLUMNS", "40")]);
    for line in run.stdout.lines() {
        assert!(line.chars().count() <= 40, "{line}");
    }
    snapshot!(run, @"
    exit 0
    --- stdout
    No problems found
    ~/.local/share/quipu/ledger.db

      file        ✓ opens, and its pages are
                  consistent
      truth       ✓ all collected bytes are
                  stored
      cursors     ✓ no file changed since it
                  was read
      projection  ✓ the readable tables
                  match the stored raw data
      sources     ✓ all source files can be
                  read
      indexes     ✓ every transcript listed
                  in an index is stored
      risk        ✓ 1 note

    note  transcripts that are not
          completely collected yet: 1
          projects/-home-alice-shop/
          00000009-0000-4000-8000-0000000000
          09.jsonl
    do    run `quipu sync`
    ");
}

#[test]
fn a_missing_ledger_is_an_error() {
    let home = Home::small();
    let run = home.run("doctor");
    assert_eq!((run.code, run.stderr.as_str()), (1, ""), "{run}");
    assert!(run.stdout.contains("there is no ledger"), "{run}");
    assert!(!home.path(".local").exists());
}
