//! The commands that quipu prints can be run.

use crate::home::Home;

const FORK: &str = ".claude/projects/-p/22222222-2222-4222-8222-222222222222.jsonl";
const ORIGINAL: &str = ".claude/projects/-p/11111111-1111-4111-8111-111111111111.jsonl";

fn line(session: &str, id: u8, parent: Option<u8>, text: &str) -> String {
    let uuid = |id: u8| format!("\"abcdef{id:02}-0000-4000-8000-000000000000\"");
    let parent = parent.map_or("null".to_owned(), uuid);
    format!(
        r#"{{"type":"user","uuid":{},"parentUuid":{parent},"sessionId":"{session}","timestamp":"2026-02-04T10:30:{id:02}.000Z","cwd":"/p","message":{{"role":"user","content":"{text}"}}}}"#,
        uuid(id)
    ) + "\n"
}

/// Returns the command that a search prints.
fn printed(stdout: &str) -> String {
    stdout
        .lines()
        .rev()
        .find_map(|line| line.trim_start().strip_prefix("quipu "))
        .unwrap()
        .to_owned()
}

#[test]
fn the_command_that_a_search_prints_shows_the_hit() {
    let home = Home::empty();
    home.write(
        ".openclaw/cron/jobs.json",
        r#"{"jobs":[{"id":"j1","name":"Tide","prompt":"Count the herrings","enabled":true},
                    {"id":"j2","name":"Moon","prompt":"Look up","enabled":true}]}"#,
    );
    let memory = ".openclaw/workspace/MEMORY.md";
    home.write(memory, "Alice drinks tea.\n");
    home.run("sync -q");
    home.write(memory, "Alice drinks coffee.\n");
    home.run("sync -q");
    for (place, word) in [("in:cron", "herrings"), ("in:notes", "tea")] {
        let found = home.run(&format!("search {place} {word}"));
        let command = printed(&found.stdout);
        let shown = home.run(&command);
        assert!(shown.stdout.contains(word), "{command}\n{shown}");
    }
    // Options that select the ledger are repeated.
    let ledger = "--ledger .local/share/quipu/ledger.db";
    let found = home.run(&format!("{ledger} search in:cron herrings"));
    let expected = format!("{ledger} cron Tide");
    assert_eq!(printed(&found.stdout), expected);
}

#[test]
fn printed_commands_with_odd_names_work() {
    let home = Home::empty();
    let id = "11111111-1111-4111-8111-111111111111";
    home.write(".claude/projects/-p/last.jsonl", line(id, 1, None, "walrus"));
    home.write(".claude/projects/-p/--help.jsonl", line(id, 2, None, "penguin"));
    home.write(ORIGINAL, line(id, 59, None, "newest"));
    home.run("sync -q");
    for word in ["walrus", "penguin"] {
        let command = printed(&home.run(&format!("search {word}")).stdout);
        let shown = home.run(&command);
        assert!(shown.stdout.contains(word), "{command}\n{shown}");
    }
    // An id may begin with the name of its folder, which the agent does not take.
    let resumed = home.run("resume -- -p/last");
    assert!(resumed.stdout.contains("claude --resume last"), "{resumed}");
    home.write(".claude/projects/-p/x'; rm -rf y;'.jsonl", line(id, 3, None, "seal"));
    let command = printed(&home.run("search seal").stdout);
    assert!(command.contains(r"'x'\''; rm -rf y;'\'''"), "{command}");
}

/// A shell reads no folder of a transcript as an option, and runs nothing in its name.
#[test]
fn a_folder_is_never_read_as_an_option() {
    let home = Home::empty();
    for (number, (folder, printed)) in [
        ("-rf", "cd ./-rf && "),
        ("--x y", "cd './--x y' && "),
        ("-", "cd ./- && "),
        ("shop", "cd ./shop && "),
        ("/-rf", "cd /-rf && "),
        ("/a\\u001b[2J'; rm -rf x; '", r#"cd "$(printf '/a\033[2J\047; rm \055rf x; \047')" && "#),
        ("/a\\n", r#"cd "$(printf '/a\n/.')" && "#),
        ("\\n\\u202e", r#"cd "$(printf './\n\342\200\256')" && "#),
    ]
    .into_iter()
    .enumerate()
    {
        let own = format!("{number:08}-1111-4111-8111-111111111111");
        let text = line(&own, 10 + number as u8, None, "x");
        let text = text.replace("\"cwd\":\"/p\"", &format!("\"cwd\":\"{folder}\""));
        home.write(format!(".claude/projects/-q/{own}.jsonl"), text);
        home.run("sync -q");
        let run = home.run(&format!("resume {own}"));
        assert!(run.stdout.starts_with(printed), "{folder}: {run}");
        assert!(!run.stdout.trim_end().contains(char::is_control), "{run}");
    }
}

#[test]
fn a_tree_names_the_sessions_on_both_sides_of_a_fork() {
    let home = Home::empty();
    let (one, other) =
        ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222");
    let shared = |id| line(id, 1, None, "a") + &line(id, 2, Some(1), "b");
    home.write(ORIGINAL, shared(one) + &line(one, 3, Some(2), "c"));
    home.write(FORK, shared(other) + &line(other, 9, Some(2), "d"));
    home.run("sync -q");
    let original = home.run("tree 11111111");
    assert!(original.stdout.contains("forked into 22222222 at abcdef02"), "{original}");
    let fork = home.run("tree 22222222");
    assert!(fork.stdout.contains("forked from 11111111 at abcdef02"), "{fork}");
    let lines = home.run("tree 22222222 --json").json_lines();
    assert_eq!(lines[0]["kind"], "forked_from");
    assert_eq!(lines[0]["session_id"], one);
    // An entry's id is not a session's id.
    let many = home.run("show 11111111 --entry a");
    assert!(many.stderr.contains("`a` matches 3 entries"), "{many}");
}

#[test]
fn an_entry_is_found_by_its_number_alone() {
    let home = Home::small();
    home.run("sync -q");
    let lines = home.run("show odd --json").json_lines();
    let named = lines.iter().find_map(|line| line["entry_id"].as_str()?.strip_prefix('#')).unwrap();
    let run = home.run(&format!("show odd --entry {named} --raw"));
    assert_eq!(run.code, 0, "{run}");
}

#[test]
fn usage_names_its_folders_and_its_prices() {
    let home = Home::empty();
    let empty = home.run("usage");
    assert!(empty.stdout.contains("Nothing to collect yet."), "{empty}");
    home.write(
        ".claude/projects/-p/11111111-1111-4111-8111-111111111111.jsonl",
        r#"{"type":"assistant","uuid":"a","parentUuid":null,"sessionId":"11111111-1111-4111-8111-111111111111","requestId":"r","timestamp":"2026-02-04T10:30:00.000Z","message":{"id":"m","role":"assistant","model":"house-1","content":[],"usage":{"input_tokens":1000000,"output_tokens":0}}}
"#,
    );
    home.write(".config/quipu/config.toml", "[prices.\"house-1\"]\ninput = 2\noutput = 3\n");
    let used = home.run("usage --all");
    assert!(used.stdout.contains("$2.00 at your own prices for house-1"), "{used}");
    assert!(!used.stdout.contains("list prices"), "{used}");
}
