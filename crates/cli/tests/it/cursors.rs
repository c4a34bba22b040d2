//! `quipu cursors`.

use crate::home::{Home, snapshot};

#[test]
fn every_file_is_listed_below_its_root() {
    let home = Home::small();
    home.run("sync");
    snapshot!(home.run("cursors"), @"
    exit 0
    --- stdout
    ~/.claude  claude-code
      file                                                                                                          read   size  changed           note
      projects/-home-alice-shop/00000001-0000-4000-8000-000000000001.jsonl                                         6,780  6,780  [MINUTE]
      projects/-home-alice-shop/00000004-0000-4000-8000-000000000004.jsonl                                         5,568  5,568  [MINUTE]
      projects/-home-alice-shop/00000004-0000-4000-8000-000000000004/subagents/agent-a1b2c3d.jsonl                 1,019  1,019  [MINUTE]
      projects/-home-alice-shop/00000004-0000-4000-8000-000000000004/subagents/agent-a1b2c3d.meta.json                94     94  [MINUTE]
      projects/-home-alice-shop/00000004-0000-4000-8000-000000000004/subagents/workflows/run-1/agent-w1.jsonl        438    438  [MINUTE]
      projects/-home-alice-shop/00000004-0000-4000-8000-000000000004/subagents/workflows/run-1/agent-w1.meta.json     56     56  [MINUTE]

    ~/.openclaw  openclaw
      file                                                               read    size  changed           note
      agents/main/sessions/13f7ee8b-4916-4c0c-a7c3-6a9d44685f32.jsonl   3,200   3,200  [MINUTE]
      agents/main/sessions/ebc1d523-9191-4cd7-a277-94985ef8daf0.jsonl   2,484   2,484  [MINUTE]
      agents/main/sessions/odd.jsonl                                      284     284  [MINUTE]
      agents/main/sessions/sessions.json                               37,896  37,896  [MINUTE]
    ");
}

#[test]
fn paths_are_cut_on_a_narrow_terminal() {
    let home = Home::empty();
    home.fixture("openclaw/agents/main", ".openclaw/agents/main");
    home.run("sync");
    snapshot!(home.run_with("cursors", &[("COLUMNS", "60")]), @"
    exit 0
    --- stdout
    ~/.openclaw  openclaw
      file                  read    size  changed           note
      agents/m…f32.jsonl   3,200   3,200  [MINUTE]
      agents/m…af0.jsonl   2,484   2,484  [MINUTE]
      agents/m…ions.json  37,896  37,896  [MINUTE]
    ");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let home = Home::small();
    home.run("sync");
    let run = home.run_with("cursors", &[("COLUMNS", "40")]);
    for line in run.stdout.lines() {
        assert!(line.chars().count() <= 40, "{line}");
    }
}

#[test]
fn json_has_the_bytes_read_of_each_file() {
    let home = Home::small();
    home.run("sync");
    let cursors = home.run("cursors --json").json_lines();
    assert_eq!(cursors.len() as u64, home.run("sync --json").json()["sources"]);
    for cursor in cursors {
        let path = home.path(cursor["root"].as_str().unwrap().replace("[HOME]/", ""));
        let size = std::fs::metadata(path.join(cursor["path"].as_str().unwrap())).unwrap().len();
        assert_eq!(cursor["bytes"], size);
        assert_eq!(
            cursor["offset"].as_u64().unwrap() + cursor["tail_bytes"].as_u64().unwrap(),
            size
        );
        assert!(cursor["modified_at"].is_i64());
    }
}

#[test]
fn an_unfinished_last_line_is_noted() {
    let home = Home::empty();
    home.write(".openclaw/agents/main/sessions/a.jsonl", "{\"role\":\"user\"}\n{\"role\":");
    home.run("sync");
    snapshot!(home.run("cursors"), @"
    exit 0
    --- stdout
    ~/.openclaw  openclaw
      file                          read  size  changed           note
      agents/main/sessions/a.jsonl    16    24  [MINUTE]  +8 unfinished
    ");
}
