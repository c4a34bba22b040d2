//! The promises to scripts: exit codes, and errors as JSON.

use serde_json::Value;

use crate::home::{Home, Run};

/// Parses the only line of stderr as JSON.
fn error(run: &Run) -> Value {
    let mut lines = run.stderr.lines();
    let object = serde_json::from_str(lines.next().unwrap_or_else(|| panic!("{run}")));
    assert_eq!(lines.next(), None, "{run}");
    object.unwrap_or_else(|_| panic!("{run}"))
}

/// Every exit code of the table in the docs and in the help.
#[test]
fn exit_codes_are_those_of_the_docs() {
    let docs = include_str!("../../../../docs/scripts.md");
    let help = Home::empty().run("--help").stdout;
    let rows: Vec<(&str, &str)> = docs
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | "))
        .filter(|(code, _)| code.parse::<u8>().is_ok())
        .collect();
    assert_eq!(rows.iter().map(|(code, _)| *code).collect::<Vec<_>>(), ["0", "1", "2", "130"]);
    for (code, meaning) in rows {
        assert!(help.contains(&format!("\n  {code:3}  {meaning}\n")), "{code}: {help}");
    }
    let home = Home::small();
    for (command, code) in [
        ("sync", 0),
        ("sessions", 0),
        ("search price", 0),
        ("doctor", 0),
        ("search herring", 1),
        ("show ffff", 1),
        ("show 0000", 1),
        ("sessions --project herring", 1),
        ("problems --kind nul_run", 1),
        ("service status", 1),
        ("bogus", 2),
        ("show 00000001 --turn x", 2),
        ("sessions --since soon", 2),
        ("sessions --ledger typo.db", 2),
        ("sql SELEC", 2),
    ] {
        let run = home.run(command);
        assert_eq!(run.code, code, "{command}: {run}");
        // The same with JSON.
        let run = home.run(&format!("{command} --json"));
        assert_eq!(run.code, code, "{command} --json: {run}");
        if code == 0 {
            continue;
        }
        let error = error(&run);
        assert!(error["error"].is_string() && error["message"].is_string(), "{command}: {error}");
        assert!(error["hint"].is_string() || error["hint"].is_null(), "{command}: {error}");
    }
    // Tests of `watch`, `tail` and `sql` check 130.
}

#[test]
fn an_empty_list_is_an_error_with_its_freshness() {
    let home = Home::empty();
    home.write(".openclaw/agents/main/sessions/empty.jsonl", "");
    home.run("sync -q");
    for command in
        ["sessions", "projects", "search herring", "notes", "cron", "problems", "sessions -p x"]
    {
        let run = home.run(&format!("{command} --json"));
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{command}: {run}");
        let error = error(&run);
        assert_eq!(error["error"], "no_match", "{command}");
        assert!(error["fresh_as_of"].as_i64().unwrap() > 1_700_000_000_000, "{command}: {error}");
        assert_eq!(error["pending_bytes"], 0, "{command}");
    }
    // Nothing was ever collected.
    for command in ["sessions", "projects", "search herring", "notes"] {
        let run = Home::empty().run(&format!("{command} --json"));
        let error = error(&run);
        assert!(error["hint"].as_str().unwrap().contains("`quipu demo`"), "{command}: {error}");
    }
    // These collect nothing.
    let id = home.run("session new").stdout;
    let branch = format!("session branch {}", id.trim());
    let label = format!("session label {}", id.trim());
    for command in ["senders list", "session keys --agent x", &branch, &label] {
        let run = home.run(&format!("{command} --json"));
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{command}: {run}");
        let error = error(&run);
        assert!(error["fresh_as_of"].as_i64().unwrap() > 1_700_000_000_000, "{command}: {error}");
        assert_eq!(error.get("pending_bytes"), Some(&Value::Null), "{command}: {error}");
    }
    // Without a ledger, nothing was ever collected.
    for command in ["cursors", "senders list"] {
        let run = Home::empty().run(&format!("{command} --json"));
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{command}: {run}");
        let error = error(&run);
        assert_eq!(error["error"], "no_match");
        assert_eq!(error.get("fresh_as_of"), Some(&Value::Null), "{command}: {error}");
        assert_eq!(error.get("pending_bytes"), Some(&Value::Null), "{command}: {error}");
    }
    // A query is not a list.
    let run = home.finish(home.command(["sql", "--json", "SELECT 1 WHERE 0"]));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run}");
}

#[test]
fn mistakes_in_the_command_line_are_objects_too() {
    let home = Home::empty();
    for command in ["serach x --json", "--json sessions --projcet x", "show --json --turn x"] {
        let run = home.run(command);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run}");
        let error = error(&run);
        assert_eq!(error["error"], "usage", "{error}");
        assert!(error["hint"].is_string(), "{error}");
    }
}
