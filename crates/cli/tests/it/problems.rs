//! `quipu problems`.

use crate::home::{Home, snapshot};

#[test]
fn each_problem_has_its_line_and_a_command_for_its_bytes() {
    let home = Home::small();
    let overview = home.run("");
    assert!(overview.stdout.contains("see `quipu problems`"), "{overview}");
    snapshot!(home.run("problems"), @"
    exit 0
    --- stdout
    dangling_reference  1 time  A summary or label that points at an entry this session does not have.
      ~/.claude/projects/-home-alice-shop/00000001-0000-4000-8000-000000000001.jsonl:1  summary
        quipu sql 'SELECT raw(1)'

    opaque  1 time  Bytes that cannot be decoded; stored unchanged.
      ~/.openclaw/agents/main/sessions/odd.jsonl:3  2 bytes
        quipu sql 'SELECT raw(54)'

    welded  1 time  Several complete records on one line.
      ~/.openclaw/agents/main/sessions/odd.jsonl:2  2 records
        quipu sql 'SELECT raw(53)'
    ");
    let odd = home.run("problems --kind opaque --json").json();
    assert_eq!((odd["kind"].as_str(), odd["line"].as_u64()), (Some("opaque"), Some(3)));
    let query = format!("SELECT raw({})", odd["seq"]);
    let run = home.finish(home.command(["sql", &query, "--csv"]));
    assert!(run.stdout.contains("}{"), "{run}");
}

#[test]
fn a_long_place_is_indented() {
    let home = Home::small();
    home.run("sync -q");
    let run = home.run_with("problems --kind welded", &[("COLUMNS", "50")]);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines[1], "  line.", "{run}");
    assert_eq!(lines[2], "  ~/.openclaw/agents/main/sessions/odd.jsonl:2", "{run}");
    assert_eq!(lines[3], "    2 records", "{run}");
}

#[test]
fn the_printed_command_restores_the_file() {
    let home = Home::small();
    home.run("sync -q");
    let path = ".openclaw/agents/main/sessions/odd.jsonl";
    home.write(path, "{}\n");
    home.run("sync -q");
    let run = home.run("problems --kind source-truncated");
    let command = run.stdout.lines().find_map(|line| line.trim().strip_prefix("quipu "));
    let command = command.unwrap_or_else(|| panic!("{run}")).replace("[HOME]", "");
    let home_path = home.path("").display().to_string();
    let command = command.replace("--source /", &format!("--source {home_path}"));
    assert_eq!(home.run(&command).code, 0, "{command}");
    let files = crate::home::files(&home.path("restored"));
    assert_eq!(files.len(), 2, "{files:?}");
}

#[test]
fn an_unknown_kind_of_problem_is_an_error() {
    let home = Home::empty();
    home.write(".openclaw/workspace/MEMORY.md", "tea\n");
    home.run("sync -q");
    snapshot!(home.run("problems"), @"
    exit 0
    --- stdout
    No problems in source files
    ");
    let run = home.run("problems --kind odd");
    assert_eq!(run.code, 2, "{run}");
    assert!(run.stderr.contains("the kinds are opaque, "), "{run}");
}
