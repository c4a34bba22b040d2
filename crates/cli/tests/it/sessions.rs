//! `quipu sessions`, `projects` and `resume`.

use std::fs;

use crate::home::{Home, snapshot};

fn synced() -> Home {
    let home = Home::full();
    home.run("sync");
    home
}

#[test]
fn sessions_are_listed_the_newest_first() {
    snapshot!(synced().run("sessions --no-sync -n 8").timeless(), @"
    exit 0
    --- stdout
    id  last  agent  project  turns  title
    ebc1d523  (age)  OpenClaw  workspace  1  from a DM TOOL
    13f7ee8b  (age)  OpenClaw  workspace  2  Please use a TOOL to say hello
    2026-11-15T18-13-39-  (age)  OpenClaw/pi  proj  2  Please use a TOOL to say hello
    12-forked-child_01a1e05d-bb  (age)  OpenClaw/oc71  project  1  [fork] root
    2026-11-15T18-00-01-  (age)  OpenClaw/oc71  project  2  root
    11-new-root_01a1e05d  (age)  OpenClaw/oc71  project  2  first
    10-errors-aborted_01  (age)  OpenClaw/oc71  project  2  go
    08-labels-custom-inf  (age)  OpenClaw/oc71  project  2  Refactor auth

    and 38 older sessions; `-n 0` lists all
    ");
}

#[test]
fn a_narrow_terminal_gets_blocks() {
    snapshot!(synced().run_with("sessions --no-sync -n 4", &[("COLUMNS", "40")]).timeless(), @"
    exit 0
    --- stdout
    ebc1d523
    last  (age)
    title  from a DM TOOL
    13f7ee8b
    last  (age)
    title  Please use a TOOL to say hello
    2026-11-15T18-13-39-
    last  (age)
    title  Please use a TOOL to say hello
    12-forked-child_01a1e05d-bb
    last  (age)
    title  [fork] root

    and 42 older sessions; `-n 0` lists all
    ");
}

#[test]
fn a_project_filter_groups_by_project() {
    snapshot!(synced().run_with("sessions --project SHOP -n 5", &[("COLUMNS", "100")]).timeless(), @"
    exit 0
    --- stdout
    shop  /home/alice/shop
    id  last  agent  turns  title
    00000005  (age)  Claude Code  2  [fork] Show prices with two decimals.
    00000006  (age)  Claude Code  2  What is wrong in this picture?
    00000003  (age)  Claude Code  4  Spring sale
    00000001  (age)  Claude Code  1  Two decimals
    00000004  (age)  Claude Code  1  Find every place that formats a price.

    and 1 older session; `-n 0` lists all
    ");
}

#[test]
fn json_has_every_field_of_a_session() {
    let home = synced();
    let run = home.run("sessions --all --json");
    let sessions: Vec<serde_json::Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(sessions.len() > 20);
    let wanted = [
        "session_id",
        "session_key",
        "format",
        "agent",
        "project",
        "cwd",
        "title",
        "first_prompt",
        "last_prompts",
        "started_at",
        "updated_at",
        "modified_at",
        "lines",
        "bytes",
        "records",
        "state",
        "parent_session_id",
        "models",
        "total_tokens",
        "branches",
        "compactions",
        "subagents",
        "fresh_as_of",
        "pending_bytes",
    ];
    for session in &sessions {
        for field in wanted {
            assert!(session.get(field).is_some(), "{field} is missing in {session}");
        }
    }
    // Lines and sizes are those of the file.
    let of = |id: &str| sessions.iter().find(|session| session["session_id"] == id).unwrap();
    let session = of("00000004-0000-4000-8000-000000000004");
    let path = "projects/-home-alice-shop/00000004-0000-4000-8000-000000000004.jsonl";
    let bytes = fs::read(home.path(".claude").join(path)).unwrap();
    assert_eq!(session["bytes"], bytes.len());
    assert_eq!(session["lines"], bytes.iter().filter(|byte| **byte == b'\n').count());
    assert!(session["subagents"].as_u64().unwrap() > 0);
    // Without --all there are fewer.
    let fewer = home.run("sessions --json").stdout.lines().count();
    assert!(fewer < sessions.len() && fewer > 5, "{fewer} of {}", sessions.len());
}

#[test]
fn filters_that_match_nothing_are_an_error() {
    let home = synced();
    snapshot!(home.run("sessions --project nowhere"), @"
    exit 1
    --- stderr
    error: no sessions match these filters
    hint: `quipu projects` lists all projects and their agents; --all adds sub-agents and empty sessions
    ");
    snapshot!(home.run("sessions --since soon"), @"
    exit 2
    --- stderr
    error: `soon` is not a time
    hint: write `3d`, `2h`, `yesterday`, `monday`, `last week`, `2026-11-01`, `2026-11-01T09:30` or `2026-11-01..2026-11-07`
    ");
    snapshot!(home.run("sessions --format word"), @"
    exit 2
    --- stderr
    error: unknown format `word`
    hint: use one of claude-code, openclaw, native
    ");
    // As in a search, the beginning of a name is enough.
    let listed =
        |format: &str| home.run(&format!("sessions --json --format {format}")).json_lines();
    assert!(!listed("claude").is_empty());
    assert_eq!(listed("claude").len(), listed("claude-code").len());
}

#[test]
fn times_filter_sessions() {
    let home = synced();
    let ids = |arguments: &str| home.run(arguments).stdout.lines().count();
    let all = ids("sessions --json");
    assert_eq!(ids("sessions --json --since 1990-01-01"), all);
    assert_eq!(ids("sessions --json --until 1990"), 0);
    let before = ids("sessions --json --until 2026-03-01");
    assert!(before < all);
}

#[test]
fn projects_are_listed() {
    let home = synced();
    snapshot!(home.run_with("projects", &[("COLUMNS", "100")]).timeless(), @"
    exit 0
    --- stdout
    project  sessions  last  agents  path
    workspace  2  (age)  OpenClaw  /home/dem…/workspace
    proj  1  (age)  OpenClaw/pi  /home/dem…nclaw/proj
    project  21  (age)  OpenClaw/oc71, OpenClaw/pi73, OpenClaw/pi87  /home/alice/project
    alice  12  (age)  OpenClaw/spec  /home/alice
    shop  6  (age)  Claude Code  /home/alice/shop
    (none)  1  (age)  OpenClaw/spec
    workspace  1  (age)  OpenClaw/spec  /Users/ty…/workspace
    clawd  1  (age)  OpenClaw/spec  /home/alice/clawd
    project-dir  1  (age)  OpenClaw/spec  /Users/bo…roject-dir
    ");
    snapshot!(home.run("projects alice-sh --json").timeless(), @r#"
    exit 0
    --- stdout
    {"project":"shop","cwd":"/home/alice/shop","slugs":["-home-alice-shop"],"formats":["claude-code"],"agents":[],"sessions":6,"started_at":1772442001000,"updated_at":1772442062000,"fresh_as_of":"[TIME]","pending_bytes":0}
    "#);
    snapshot!(home.run("projects nowhere"), @"
    exit 1
    --- stderr
    error: no project matches `nowhere`
    hint: `quipu projects` lists all projects
    ");
}

#[test]
fn an_empty_home_is_no_error() {
    let home = Home::empty();
    let run = home.run("sessions");
    assert!(run.stdout.starts_with("Nothing to collect yet."), "{}", run.stdout);
    assert_eq!(home.run("sessions --json").stdout, "");
}

/// An answer without sessions does not deny files that were not collected.
#[test]
fn an_empty_answer_names_its_date() {
    let home = Home::empty();
    home.run("sync");
    let folder = home.path(".claude/projects/-new");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("00000009-0000-4000-8000-00000000abcd.jsonl"), "{}\n").unwrap();
    for command in ["sessions", "projects", "usage"] {
        let run = home.run(&format!("{command} --no-sync"));
        let expected = "no sessions in what was collected until ";
        assert!(run.stdout.starts_with(expected), "{command}: {run}");
    }
}

/// A reading command collects first, unless `--no-sync` is given.
#[test]
fn a_reading_command_collects_first() {
    let home = synced();
    let path = ".claude/projects/-new/00000009-0000-4000-8000-00000000abcd.jsonl";
    fs::create_dir_all(home.path(".claude/projects/-new")).unwrap();
    fs::write(
        home.path(path),
        "{\"type\":\"user\",\"uuid\":\"1\",\"cwd\":\"/new/place\",\"message\":{\"role\":\"user\",\"content\":\"hello there\"}}\n",
    )
    .unwrap();
    assert_eq!(home.run("sessions --no-sync --project place").code, 1);
    assert_eq!(home.run("sessions --project place").code, 0);
}

#[test]
fn resume_restores_a_deleted_transcript() {
    let home = synced();
    let path = "projects/-home-alice-shop/00000004-0000-4000-8000-000000000004.jsonl";
    let path = home.path(".claude").join(path);
    let before = fs::read(&path).unwrap();
    snapshot!(home.run("resume 00000004-0000-4000-8000-000000000004"), @"
    exit 0
    --- stdout
    cd /home/alice/shop && claude --resume 00000004-0000-4000-8000-000000000004
    --- stderr
    warning: the folder /home/alice/shop no longer exists
    hint: the agent finds a session only from the folder it was started in
    ");
    fs::remove_file(&path).unwrap();
    snapshot!(home.run("resume 00000004-0000-4000-8000-000000000004"), @"
    exit 0
    --- stdout
    cd /home/alice/shop && claude --resume 00000004-0000-4000-8000-000000000004
    --- stderr
    warning: the folder /home/alice/shop no longer exists
    hint: the agent finds a session only from the folder it was started in
    restored the transcript: ~/.claude/projects/-home-alice-shop/00000004-0000-4000-8000-000000000004.jsonl
    ");
    assert!(fs::read(&path).unwrap() == before);
    snapshot!(home.run("resume nothing"), @"
    exit 1
    --- stderr
    error: no session matches `nothing`
    hint: use an id or the beginning of one, a session key, or `last`; `quipu sessions --all` lists all sessions
    ");
}

/// The cost of each session is in the list, and their sum is the total usage.
#[test]
fn the_costs_of_sessions_add_up_to_the_usage() {
    let home = Home::full();
    let sessions = home.run("sessions --all --json").json_lines();
    let sum: f64 = sessions.iter().filter_map(|session| session["cost_usd"].as_f64()).sum();
    let usage = home.run("usage --all --json").json_lines();
    let bill = usage.last().unwrap()["cost_usd"].as_f64().unwrap();
    assert!(bill > 0.0 && (sum - bill).abs() < 1e-6, "{sum} is not {bill}");
    for field in ["models", "total_tokens", "cost_usd", "branches", "compactions", "subagents"] {
        assert!(sessions.iter().all(|session| session.get(field).is_some()), "{field}");
    }
}

/// Ids that begin with a time have the same first letters: enough letters are shown.
#[test]
fn ids_are_shown_as_long_as_necessary() {
    let home = Home::empty();
    let ids = [
        "019a8f3c-7b21-7000-8000-000000000001",
        "019a8f3c-7b24-7000-8000-000000000002",
        "b20f7d96-0000-4000-8000-000000000003",
    ];
    for id in ids {
        let line = format!(
            r#"{{"type":"user","uuid":"{id}","sessionId":"{id}","cwd":"/shop","timestamp":"2026-02-04T10:30:00.000Z","message":{{"role":"user","content":"hello"}}}}"#
        );
        home.write(format!(".claude/projects/-shop/{id}.jsonl"), line + "\n");
    }
    let listed = home.run("sessions").stdout;
    let shown: Vec<&str> =
        listed.lines().skip(1).map(|line| line.split_whitespace().next().unwrap()).collect();
    let mut sorted = shown.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["019a8f3c-7b21", "019a8f3c-7b24", "b20f7d96"]);
    for id in shown {
        assert_eq!(home.run(&format!("show {id} --count")).code, 0, "{id}");
    }
}

/// A transcript without a line is listed with --all, and shown as empty.
#[test]
fn an_empty_transcript_is_listed_and_shown_as_empty() {
    let home = Home::empty();
    let id = "0000beef-0000-4000-8000-000000000001";
    home.write(format!(".claude/projects/-p/{id}.jsonl"), "");
    home.write(
        ".claude/projects/-p/0000cafe-0000-4000-8000-000000000002.jsonl",
        "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hello\"}}\n",
    );
    assert!(home.run("sessions --all --json").stdout.contains(id));
    snapshot!(home.run("show 0000beef"), @"
    exit 1
    --- stderr
    error: session `0000beef-0000-4000-8000-000000000001` is empty: [HOME]/.claude/projects/-p/0000beef-0000-4000-8000-000000000001.jsonl has no lines
    hint: its agent created the file and wrote nothing to it; `quipu restore ID --to DIR` restores the file
    ");
    for command in ["tree 0000beef", "export 0000beef", "resume 0000beef", "show 0000beef --json"] {
        let run = home.run(command);
        assert!(run.stderr.contains(".jsonl has no lines"), "{command}: {}", run.stderr);
        assert_eq!(run.stdout, "", "{command}");
    }
    snapshot!(home.run("restore 0000beef --to back"), @"
    exit 0
    --- stdout
    1 file (0 B) restored to ~/back
      size  file
       0 B  claude-code/projects/-p/0000beef-0000-4000-8000-000000000001.jsonl
    ");
}

#[test]
fn the_tokens_of_sessions_add_up_to_the_usage() {
    let home = Home::full();
    // A copy of another session has no usage of its own.
    let folder = ".claude/projects/-home-alice-shop";
    home.fixture(
        "claude-code/projects/-home-alice-shop/00000004-0000-4000-8000-000000000004.jsonl",
        &format!("{folder}/0000c0b1-0000-4000-8000-000000000004.jsonl"),
    );
    let sessions = home.run("sessions --all --json").json_lines();
    let of_sessions: u64 =
        sessions.iter().map(|session| session["total_tokens"].as_u64().unwrap()).sum();
    let used = home.run("usage model --all --json").json_lines();
    assert!(of_sessions > 0);
    assert_eq!(Some(of_sessions), used.last().unwrap()["total_tokens"].as_u64());
}

#[test]
fn an_agent_starts_only_in_its_folder_and_gets_no_options() {
    let home = Home::small();
    // None of the fixtures' folders exists on this machine.
    let elsewhere = home.run("resume 00000004-0000-4000-8000-000000000004 --run");
    assert_eq!(elsewhere.code, 1);
    assert!(elsewhere.stderr.contains("no longer exists"), "{}", elsewhere.stderr);
    home.fixture(
        "claude-code/projects/-home-alice-shop/00000004-0000-4000-8000-000000000004.jsonl",
        ".claude/projects/-home-alice-shop/--dangerously-skip-permissions.jsonl",
    );
    let run = home.run("resume -- --dangerously-skip-permissions");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("as an option") && run.stdout.is_empty(), "{}", run.stderr);
}

/// The listed ids find their sessions, even if a file is empty.
#[test]
fn listed_ids_find_their_sessions() {
    let home = Home::empty();
    let line = "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hello\"}}\n";
    for (end, text) in [("1", line), ("2", ""), ("3", "")] {
        let id = format!("0000beef-0000-4000-8000-00000000000{end}");
        home.write(format!(".claude/projects/-p/{id}.jsonl"), text);
    }
    home.run("sync");
    let listed = home.run("sessions --all");
    let ids: Vec<&str> =
        listed.stdout.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(ids.len(), 3, "{listed}");
    for id in ids {
        let shown = home.run(&format!("show {id}"));
        let says = format!("{}{}", shown.stdout, shown.stderr);
        assert!(says.contains(id) && !says.contains("matches"), "{shown}");
    }
}

/// In a pipe, only the width of cells is limited.
#[test]
fn long_titles_are_cut_in_a_pipe() {
    let home = Home::empty();
    let title = "long ".repeat(2000);
    let line = format!(
        "{{\"type\":\"user\",\"cwd\":\"/{title}\",\"message\":{{\"role\":\"user\",\"content\":\"{title}\"}}}}\n"
    );
    home.write(".claude/projects/-p/0000beef-0000-4000-8000-000000000001.jsonl", line);
    home.write(format!(".openclaw/workspace/memory/{}.md", "n".repeat(200)), "x");
    home.run("sync");
    for command in ["sessions", "projects", "usage session", "usage project", "tree last", "notes"]
    {
        let run = home.run(command);
        let widest = run.stdout.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(run.code == 0 && widest <= 300, "{command}: {widest}");
    }
    let json = home.run("sessions --json").json();
    assert!(json["cwd"].as_str().unwrap().len() > 9000);
}

/// A format without agents has `null` in every JSON, never an empty name.
#[test]
fn no_agent_is_null_everywhere() {
    let home = synced();
    let id = "00000001-0000-4000-8000-000000000001";
    for command in [
        "sessions --all --json".to_owned(),
        "search --json decimals".to_owned(),
        "usage session --json".to_owned(),
        format!("export {id} --format json"),
        format!("forget {id} --dry-run --json"),
    ] {
        let run = home.run(&command);
        assert_eq!(run.code, 0, "{command}: {run}");
        assert!(run.stdout.contains("\"agent\":null"), "{command}: {run}");
        assert!(!run.stdout.contains("\"agent\":\"\""), "{command}: {run}");
    }
}

/// Every name that is shown for an agent is accepted, in upper and lower case.
#[test]
fn agents_have_several_names() {
    let home = Home::small();
    home.write(
        ".openclaw/agents/Helper/sessions/h1.jsonl",
        "{\"type\":\"session\",\"version\":3,\"id\":\"h1\",\"timestamp\":\"2026-02-04T10:30:00.000Z\"}\n\
         {\"role\":\"user\",\"content\":\"herring\",\"timestamp\":1770193116233}\n",
    );
    let found = |name: &str| -> Vec<String> {
        let run = home.finish(home.command(["sessions", "--json", "--agent", name]));
        let ids = run.stdout.lines().map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["session_id"].to_string()
        });
        let mut ids: Vec<String> = ids.collect();
        ids.sort();
        ids
    };
    let claude = found("claude-code");
    assert_eq!(claude.len(), 2);
    for name in ["Claude Code", "claude", "CLAUDE"] {
        assert_eq!(found(name), claude, "{name}");
        let run = home.finish(home.command(["sessions", "--json", "--format", name]));
        assert_eq!(run.stdout.lines().count(), claude.len(), "--format {name}: {run}");
        let filter = format!("format:\"{name}\"");
        let run = home.finish(home.command(["search", "--json", &filter, "price"]));
        assert_eq!(run.code, 0, "{filter}: {run}");
    }
    let openclaw = found("openclaw");
    assert!(found("OpenClaw") == openclaw && openclaw.contains(&"\"h1\"".to_owned()));
    for name in ["OpenClaw/Helper", "openclaw/helper", "helper"] {
        assert_eq!(found(name), ["\"h1\""], "{name}");
    }
    let main = found("openclaw/main");
    assert_eq!((main.len() + 1, &main), (openclaw.len(), &found("main")));
    assert_eq!(found("nobody"), [""; 0]);
    let searched = home.run("search herring agent:openclaw/helper --json");
    assert_eq!(searched.json()["agent"], "Helper");
}

/// `3d` is the whole day three days ago, in every command.
#[test]
fn days_are_those_of_the_calendar() {
    let home = Home::empty();
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    let day = now.checked_sub(jiff::ToSpan::days(3)).unwrap().date();
    home.write(
        ".claude/projects/-p/11111111-1111-4111-8111-111111111111.jsonl",
        format!(
            r#"{{"type":"assistant","uuid":"abcdef01-0000-4000-8000-000000000000","sessionId":"11111111-1111-4111-8111-111111111111","timestamp":"{day}T00:00:01.000Z","cwd":"/p","requestId":"r","message":{{"role":"assistant","id":"m","model":"claude-haiku-4-5","content":[{{"type":"text","text":"walrus"}}],"usage":{{"input_tokens":1,"output_tokens":1}}}}}}"#
        ) + "\n",
    );
    let range = format!("{day}..{day}");
    let next = format!("{}", day.tomorrow().unwrap());
    for (since, is_found) in
        [("3d", true), ("3 days ago", true), (&range, true), ("2d", false), (&next, false)]
    {
        for command in [&["sessions", "--all"][..], &["usage", "model"], &["search", "walrus"]] {
            let run = home.finish(home.command(command.iter().copied().chain(["--since", since])));
            let has = run.stdout.contains("1111") || run.stdout.contains("haiku");
            assert_eq!(has, is_found, "{command:?} --since {since}: {run}");
        }
    }
    let run = home.run("sessions --all --until 3d");
    assert!(run.stdout.contains("3 days ago"), "{run}");
    assert_eq!(home.run("sessions --all --until 4d").code, 1);
}
