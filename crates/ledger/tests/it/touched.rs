//! The files that calls of tools read and changed.

use quipu_ledger::query::{FileFilter, Filter, file_uses, files};
use quipu_ledger::wire::{FileUse, TouchedFile};

use crate::home::*;

const AGENT: &str = ".claude/projects/-home-alice-shop/640ab4c7-d010-4b20-a591-b7172ef08e66/subagents/agent-q.jsonl";

/// Returns a prompt, a call with this path, and its result.
fn turn(from: u32, prompt: &str, tool: &str, path: &str, is_error: bool) -> String {
    let id = format!("toolu_{from}");
    let call = format!(
        r#"[{{"type":"tool_use","id":"{id}","name":"{tool}","input":{{"file_path":"{path}"}}}}]"#
    );
    let result = format!(
        r#"[{{"type":"tool_result","tool_use_id":"{id}","is_error":{is_error},"content":"done"}}]"#
    );
    line("user", &uuid(from), None, prompt)
        + &line_of("assistant", &uuid(from + 1), Some(&uuid(from)), &call)
        + &line_of("user", &uuid(from + 2), Some(&uuid(from + 1)), &result)
}

fn home() -> Home {
    let home = Home::quick();
    home.write(
        MAIN,
        turn(1, "fix the login", "Read", "/home/alice/shop/src/auth.ts", false)
            + &turn(11, "and the test", "Edit", "/home/alice/shop/src/auth.ts", false)
            + &turn(21, "again", "Edit", "/home/alice/shop/src/cart/auth.ts", true)
            + &turn(31, "look around", "Grep", "/home/alice/shop/src", false)
            + &turn(41, "from here", "Write", "notes.md", false),
    );
    let agent = turn(51, "help", "Read", "/home/alice/shop/src/auth.ts", false)
        .replace("\"isSidechain\":false", "\"isSidechain\":true,\"agentId\":\"q\"");
    home.write(AGENT, agent);
    home.sync();
    home
}

fn all() -> FileFilter {
    FileFilter { sessions: Filter { all: true, ..Filter::default() }, ..FileFilter::default() }
}

fn numbers(file: &TouchedFile) -> (&str, [u64; 4]) {
    (&file.path, [file.sessions, file.turns, file.tool_calls, file.edits])
}

#[test]
fn calls_are_summed_by_file() {
    let home = home();
    let found = files(&home.open(), &all()).unwrap();
    let mut found: Vec<_> = found.iter().map(numbers).collect();
    found.sort_unstable();
    // A search names no file, and a call that failed changed nothing.
    let folder = "/home/alice/shop";
    let path = |name: &str| format!("{folder}/{name}");
    let expected = [
        (path("notes.md"), [1, 1, 1, 1]),
        (path("src/auth.ts"), [2, 3, 3, 1]),
        (path("src/cart/auth.ts"), [1, 1, 1, 0]),
    ];
    let expected: Vec<_> = expected.iter().map(|(path, of)| (path.as_str(), *of)).collect();
    assert_eq!(found, expected);
    let changed = FileFilter { changed: true, ..all() };
    assert_eq!(files(&home.open(), &changed).unwrap().len(), 2);
    // Without `all`, sub-agents are left out, as in the list of sessions.
    let found = files(&home.open(), &FileFilter::default()).unwrap();
    assert_eq!(found.iter().map(|file| file.sessions).max(), Some(1));
    home.assert_rebuilds();
}

#[test]
fn turns_that_used_a_file_are_listed() {
    let home = home();
    let uses = |path: &str| file_uses(&home.open(), path, &all()).unwrap();
    let of_main = |uses: &[FileUse]| -> Vec<(Option<u64>, String, u64)> {
        let main = uses.iter().filter(|one| one.parent_session_id.is_none());
        let mut turns: Vec<_> =
            main.map(|one| (one.turn_number, one.prompt.clone().unwrap(), one.edits)).collect();
        turns.sort_unstable();
        turns
    };
    let found = uses("/home/alice/shop/src/auth.ts");
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(
        of_main(&found),
        [(Some(1), "fix the login".to_owned(), 0), (Some(2), "and the test".to_owned(), 1)]
    );
    assert!(found.iter().any(|one| one.parent_session_id.is_some() && one.tools == ["Read"]));
    // The end of a path, a folder, a part of one, in any case.
    assert_eq!(uses("src/auth.ts").len(), 3);
    assert_eq!(uses("auth.ts").len(), 4);
    assert_eq!(uses("SHOP/src/cart/").len(), 1);
    assert_eq!(uses("otes.m")[0].path, "/home/alice/shop/notes.md");
    assert!(uses("nothing").is_empty() && uses("").is_empty());
    // Times are those of the calls.
    let time = found[0].time.unwrap();
    let since = |since| FileFilter { since, ..all() };
    assert_eq!(file_uses(&home.open(), "auth.ts", &since(Some(time + 1))).unwrap(), []);
}
