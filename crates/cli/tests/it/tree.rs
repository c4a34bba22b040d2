//! `quipu tree`: forks, compactions, labels and sub-agents.

use crate::home::{Home, Run, snapshot};

fn synced() -> Home {
    let home = Home::full();
    home.run("sync");
    home
}

#[track_caller]
fn run(home: &Home, arguments: &str) -> Run {
    home.run_with(&format!("{arguments} --no-sync"), &[("TZ", "UTC"), ("COLUMNS", "80")])
}

#[test]
fn an_abandoned_branch_is_drawn() {
    snapshot!(run(&synced(), "tree 05-branch-summary_01a1e05d-bba"), @"
    exit 0
    --- stdout
    start
    05-branch-summary_01a1e05d-bba4-757f-9176-bfe04c94c17b

    ○  40bf1de1  2 entries, 1 turn  start
    ├─╮
    │ ○  692fc03f  2 entries, 1 turn  explore A
    ◆  4d6b991c  summary of an abandoned branch
    @  5124bb81  2 entries, 1 turn, leaf  do B
    ");
}

#[test]
fn labels_and_compactions_are_drawn() {
    let home = synced();
    snapshot!(run(&home, "tree 08-labels"), @"
    exit 0
    --- stdout
    Refactor auth
    08-labels-custom-info_01a1e05d-bbae-7373-8689-c96fc0cfb45e

    ○  15364573  1 entry, 1 turn  hi
    ★  15364573  label  checkpoint-1
    @  f4c4a379  11 entries, 1 turn, leaf  next
    ");
    snapshot!(run(&home, "tree 00000002"), @"
    exit 0
    --- stdout
    Rename the basket to cart everywhere.
    00000002-0000-4000-8000-000000000002

    ○  c02  2 entries, 1 turn  Rename the basket to cart everywhere.
    ◆  c03  compacted, 155,025 → 9,000 tokens
    @  c10  7 entries, 1 turn, leaf  And in the docs?
    ");
}

#[test]
fn sub_agents_are_drawn() {
    snapshot!(run(&synced(), "tree 00000004"), @"
    exit 0
    --- stdout
    Find every place that formats a price.
    00000004-0000-4000-8000-000000000004

    @  s08  6 entries, 1 turn, leaf  Find every place that formats a price.
    │  ↳ 00000004/agent-a1b2c3d  Explore, 3 entries, 1 turn  Find formatters
    ↳  2 entries of sub-agents in this file
    │  ↳ 00000004/agent-w1  fork, 3 entries, 1 turn  Check the tax rules
    ");
}

#[test]
fn json_is_one_object_per_line() {
    snapshot!(run(&synced(), "tree 04-branch --json"), @r#"
    exit 0
    --- stdout
    {"node":1,"parent_node":null,"kind":"run","depth":0,"nested":0,"first_entry_id":"6858b87f","last_entry_id":"dfa342c7","time":1794765601696,"entries":2,"turns":1,"tool_calls":0,"text":"start","branches":2,"is_leaf":false,"is_current":true,"fresh_as_of":"[TIME]","pending_bytes":null}
    {"node":2,"parent_node":1,"kind":"run","depth":1,"nested":0,"first_entry_id":"219aa01b","last_entry_id":"fcfe1f2f","time":1794765601696,"entries":2,"turns":1,"tool_calls":0,"text":"path A","branches":0,"is_leaf":false,"is_current":false,"fresh_as_of":"[TIME]","pending_bytes":null}
    {"node":3,"parent_node":1,"kind":"run","depth":0,"nested":0,"first_entry_id":"1c63f8a5","last_entry_id":"493d0832","time":1794765601697,"entries":2,"turns":1,"tool_calls":0,"text":"path B","branches":0,"is_leaf":true,"is_current":true,"fresh_as_of":"[TIME]","pending_bytes":null}
    "#);
}

#[test]
fn nested_branches_stay_on_the_screen() {
    let home = Home::empty();
    let mut lines = vec![r#"{"type":"session","version":3,"id":"s"}"#.to_owned()];
    // Each prompt but the last attaches to the one before and has an abandoned sibling.
    for index in 1..200 {
        let parent = if index == 1 { "null".to_owned() } else { format!("\"p{}\"", index - 1) };
        for id in [format!("l{index}"), format!("p{index}")] {
            lines.push(format!(
                r#"{{"type":"message","id":"{id}","parentId":{parent},"message":{{"role":"user","content":"{id}"}}}}"#
            ));
        }
    }
    home.write(".openclaw/agents/main/sessions/s.jsonl", lines.join("\n") + "\n");
    home.run("sync");
    let run = run(&home, "tree s");
    assert_eq!(run.code, 0, "{run}");
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{run}");
    assert!(run.stdout.lines().count() > 390, "{run}");
}
