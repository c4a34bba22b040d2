//! `quipu usage`.

use serde_json::{Value, json};

use crate::home::{Home, snapshot};

/// Returns an answer of Claude Code with 1,000,000 input and 100,000 output tokens.
fn answer(number: u32, model: &str, time: &str) -> String {
    format!(
        r#"{{"type":"assistant","uuid":"00000000-0000-4000-8000-{number:012}","sessionId":"00000000-0000-4000-8000-00000000000a","cwd":"/home/alice/shop","requestId":"r{number}","timestamp":"{time}","message":{{"role":"assistant","id":"m{number}","model":"{model}","content":[{{"type":"text","text":"Done."}}],"usage":{{"input_tokens":1000000,"output_tokens":100000,"cache_read_input_tokens":{number}000,"cache_creation_input_tokens":0}}}}}}
"#
    )
}

const SESSION: &str =
    ".claude/projects/-home-alice-shop/00000000-0000-4000-8000-00000000000a.jsonl";

const PROMPT: &str = r#"{"type":"user","uuid":"00000000-0000-4000-8000-000000000099","sessionId":"00000000-0000-4000-8000-00000000000a","cwd":"/home/alice/shop","timestamp":"2026-02-03T10:00:00.000Z","message":{"role":"user","content":"Make the till faster"}}
"#;

const OPENCLAW: &str = r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-02-05T10:30:00.000Z","cwd":"/home/alice/garden"}
{"type":"message","id":"0000000a","parentId":null,"timestamp":"2026-02-05T10:30:00.000Z","message":{"role":"user","content":"Water the tomatoes"}}
{"type":"message","id":"0000000b","parentId":"0000000a","timestamp":"2026-02-05T10:30:01.000Z","message":{"role":"assistant","content":"Done.","model":"gemini-2.5-pro","usage":{"input":2000,"output":300,"cacheRead":0,"cacheWrite":0,"cost":{"total":1.25}}}}
"#;

fn home() -> Home {
    let home = Home::empty();
    let lines = [
        PROMPT.to_owned(),
        answer(1, "claude-opus-4-5-20251101", "2026-02-03T10:00:00.000Z"),
        answer(2, "claude-haiku-4-5", "2026-02-03T23:30:00.000Z"),
        answer(3, "llama-of-the-lab", "2026-02-05T10:00:00.000Z"),
    ];
    home.write(SESSION, lines.concat());
    home.write(".openclaw/agents/main/sessions/s1.jsonl", OPENCLAW);
    home.run("sync -q");
    home
}

#[test]
fn usage_is_summed_by_day() {
    let home = home();
    snapshot!(home.run_with("usage --all", &[("TZ", "UTC0"), ("COLUMNS", "80")]), @"
    exit 0
    --- stdout
    Usage  all recorded usage

    day            cost                input  output   read  written  tokens
    2026-02-03    $9.00  ████████████  2.00M    200k  3.00k        –   2.20M
    2026-02-04        –
    2026-02-05   $1.25*  █▋            1.00M    100k  3.00k        –   1.11M
    total       $10.25*                3.00M    300k  6.00k        –   3.31M

    * no price is known for llama-of-the-lab: 1.10M tokens are not in the cost
    $1.25 as recorded by the agents, $9.00 at the list prices of 2026-11-15; time
    zone UTC+00:00
    ");
    // In Berlin the second answer came after midnight.
    let there = [("TZ", "CET-1"), ("COLUMNS", "60")];
    snapshot!(home.run_with("usage --since 2026-02-01", &there), @"
    exit 0
    --- stdout
    Usage  since 2026-02-01

    day            cost              tokens
    2026-02-03    $7.50  ██████████   1.10M
    2026-02-04    $1.50  ██           1.10M
    2026-02-05   $1.25*  █▋           1.11M
    total       $10.25*               3.31M

    * no price is known for llama-of-the-lab: 1.10M tokens are
    not in the cost
    $1.25 as recorded by the agents, $9.00 at the list prices of
    2026-11-15; time zone UTC+01:00
    ");
    snapshot!(home.run_with("usage daily --until 2026-02-03", &[("TZ", "UTC0"), ("COLUMNS", "40")]), @"
    exit 0
    --- stdout
    Usage  until 2026-02-03

    day          cost  tokens
    2026-02-03  $9.00   2.20M
    total       $9.00   2.20M

    $9.00 at the list prices of 2026-11-15;
    time zone UTC+00:00
    ");
    snapshot!(home.run("usage --since 2026-02-01 --until 2026-02-02"), @"
    exit 0
    --- stdout
    no usage since 2026-02-01, until 2026-02-02
    ");
}

#[test]
fn usage_is_summed_by_every_group() {
    let home = home();
    let wide = [("TZ", "UTC0"), ("COLUMNS", "120")];
    snapshot!(home.run_with("usage monthly", &wide), @"
    exit 0
    --- stdout
    Usage  all recorded usage

    month       cost                            input  output  cache read  cache write  tokens
    2026-02  $10.25*  ████████████████████████  3.00M    300k       6.00k            –   3.31M
    total    $10.25*                            3.00M    300k       6.00k            –   3.31M

    * no price is known for llama-of-the-lab: 1.10M tokens are not in the cost
    $1.25 as recorded by the agents, $9.00 at the list prices of 2026-11-15; time zone UTC+00:00
    ");
    snapshot!(home.run_with("usage session", &wide), @"
    exit 0
    --- stdout
    Usage  all recorded usage

    session               id        last           cost  input  output   read  written  tokens
    Make the till faster  00000000  2026-02-05   $9.00*  3.00M    300k  6.00k        –   3.31M
    Water the tomatoes    s1        2026-02-05    $1.25  2.00k     300      –        –   2.30k
    total                                       $10.25*  3.00M    300k  6.00k        –   3.31M

    * no price is known for llama-of-the-lab: 1.10M tokens are not in the cost
    $1.25 as recorded by the agents, $9.00 at the list prices of 2026-11-15
    ");
    snapshot!(home.run_with("usage session", &[("COLUMNS", "40")]), @"
    exit 0
    --- stdout
    Usage  all recorded usage

    session                  cost  tokens
    Make the till faster   $9.00*   3.31M
    Water the tomatoes      $1.25   2.30k
    total                 $10.25*   3.31M

    * no price is known for
    llama-of-the-lab: 1.10M tokens are not
    in the cost
    $1.25 as recorded by the agents, $9.00
    at the list prices of 2026-11-15
    ");
    snapshot!(home.run_with("usage model", &wide), @"
    exit 0
    --- stdout
    Usage  all recorded usage

    model                         cost                            input  output  cache read  cache write  tokens
    claude-opus-4-5-20251101     $7.50  ████████████████████████  1.00M    100k       1.00k            –   1.10M
    claude-haiku-4-5             $1.50  ████▊                     1.00M    100k       2.00k            –   1.10M
    gemini-2.5-pro               $1.25  ████                      2.00k     300           –            –   2.30k
    llama-of-the-lab          no price                            1.00M    100k       3.00k            –   1.10M
    total                      $10.25*                            3.00M    300k       6.00k            –   3.31M

    * no price is known for llama-of-the-lab: 1.10M tokens are not in the cost
    $1.25 as recorded by the agents, $9.00 at the list prices of 2026-11-15
    ");
    snapshot!(home.run_with("usage project", &wide), @"
    exit 0
    --- stdout
    Usage  all recorded usage

    project                cost                            input  output  cache read  cache write  tokens
    /home/alice/shop     $9.00*  ████████████████████████  3.00M    300k       6.00k            –   3.31M
    /home/alice/garden    $1.25  ███▍                      2.00k     300           –            –   2.30k
    total               $10.25*                            3.00M    300k       6.00k            –   3.31M

    * no price is known for llama-of-the-lab: 1.10M tokens are not in the cost
    $1.25 as recorded by the agents, $9.00 at the list prices of 2026-11-15
    ");
    snapshot!(home.run_with("usage agent", &wide), @"
    exit 0
    --- stdout
    Usage  all recorded usage

    agent             cost                            input  output  cache read  cache write  tokens
    claude-code     $9.00*  ████████████████████████  3.00M    300k       6.00k            –   3.31M
    openclaw/main    $1.25  ███▍                      2.00k     300           –            –   2.30k
    total          $10.25*                            3.00M    300k       6.00k            –   3.31M

    * no price is known for llama-of-the-lab: 1.10M tokens are not in the cost
    $1.25 as recorded by the agents, $9.00 at the list prices of 2026-11-15
    ");
}

#[test]
fn json_is_one_object_per_group() {
    let home = home();
    snapshot!(home.run_with("usage --json --no-sync", &[("TZ", "UTC0")]), @r#"
    exit 0
    --- stdout
    {"by":"day","group":"2026-02-03","responses":2,"input_tokens":2000000,"output_tokens":200000,"cache_read_tokens":3000,"cache_write_tokens":0,"total_tokens":2203000,"cost_usd":9.0007,"recorded_usd":0.0,"unpriced_tokens":0,"unpriced_models":[],"models":["claude-haiku-4-5","claude-opus-4-5-20251101"],"fresh_as_of":"[TIME]","pending_bytes":null}
    {"by":"day","group":"2026-02-05","responses":2,"input_tokens":1002000,"output_tokens":100300,"cache_read_tokens":3000,"cache_write_tokens":0,"total_tokens":1105300,"cost_usd":1.25,"recorded_usd":1.25,"unpriced_tokens":1103000,"unpriced_models":["llama-of-the-lab"],"models":["gemini-2.5-pro","llama-of-the-lab"],"fresh_as_of":"[TIME]","pending_bytes":null}
    {"by":"total","group":"total","responses":4,"input_tokens":3002000,"output_tokens":300300,"cache_read_tokens":6000,"cache_write_tokens":0,"total_tokens":3308300,"cost_usd":10.2507,"recorded_usd":1.25,"unpriced_tokens":1103000,"unpriced_models":["llama-of-the-lab"],"models":["claude-haiku-4-5","claude-opus-4-5-20251101","gemini-2.5-pro","llama-of-the-lab"],"fresh_as_of":"[TIME]","pending_bytes":null}
    "#);
    snapshot!(home.run("usage session --json --no-sync --project garden"), @r#"
    exit 0
    --- stdout
    {"by":"session","group":"s1","responses":1,"input_tokens":2000,"output_tokens":300,"cache_read_tokens":0,"cache_write_tokens":0,"total_tokens":2300,"cost_usd":1.25,"recorded_usd":1.25,"unpriced_tokens":0,"unpriced_models":[],"models":["gemini-2.5-pro"],"session_id":"s1","format":"openclaw","agent":"main","cwd":"/home/alice/garden","title":"Water the tomatoes","updated_at":1770287401000,"fresh_as_of":"[TIME]","pending_bytes":null}
    {"by":"total","group":"total","responses":1,"input_tokens":2000,"output_tokens":300,"cache_read_tokens":0,"cache_write_tokens":0,"total_tokens":2300,"cost_usd":1.25,"recorded_usd":1.25,"unpriced_tokens":0,"unpriced_models":[],"models":["gemini-2.5-pro"],"fresh_as_of":"[TIME]","pending_bytes":null}
    "#);
    let lines = home.run("usage agent --json").json_lines();
    let named: Vec<_> = lines.iter().map(|line| line["group"].as_str().unwrap()).collect();
    assert_eq!(named, ["claude-code", "openclaw/main", "total"]);
}

#[test]
fn filters_choose_the_usage() {
    let home = home();
    let total = |arguments: &str| {
        let lines = home.run(&format!("usage --json {arguments}")).json_lines();
        lines.last().unwrap()["output_tokens"].as_u64().unwrap()
    };
    assert_eq!(total(""), 300_300);
    assert_eq!(total("--project shop"), 300_000);
    assert_eq!(total("--agent main"), 300);
    assert_eq!(total("--format claude-code --since 2026-02-05"), 100_000);
    snapshot!(home.run("usage --project bakery"), @"
    exit 1
    --- stderr
    error: no sessions match these filters
    hint: `quipu projects` lists all projects and their agents
    ");
    snapshot!(home.run("usage --since whenever"), @"
    exit 2
    --- stderr
    error: `whenever` is not a time
    hint: write `3d`, `2h`, `yesterday`, `monday`, `last week`, `2026-11-01`, `2026-11-01T09:30` or `2026-11-01..2026-11-07`
    ");
    assert_eq!(home.run("usage --format cobol").code, 2);
    assert_eq!(home.run("usage yearly").code, 2);
}

/// A price in the configuration overrides the list, and applies to models without a list price.
#[test]
fn configured_prices_override_the_list() {
    let home = home();
    home.write(
        ".config/quipu/config.toml",
        "[prices]\n\"llama-of-the-lab\" = { input = 0.5, output = 1 }\n\
         claude-haiku-4-5 = { input = 0, output = 0 }\n",
    );
    let lines = home.run("usage model --json").json_lines();
    let costs: Vec<_> = lines
        .iter()
        .map(|line| (line["group"].as_str().unwrap(), line["cost_usd"].as_f64().unwrap()))
        .collect();
    assert_eq!(
        costs,
        [
            ("claude-opus-4-5-20251101", 7.5005),
            ("gemini-2.5-pro", 1.25),
            ("llama-of-the-lab", 0.6015),
            ("claude-haiku-4-5", 0.0),
            ("total", 9.352),
        ]
    );
    snapshot!(home.run("config show").changed(), @"
    exit 0
    --- stdout
    setting                  value                                               from
    prices.claude-haiku-4-5  $0 in, $0 out, $0 cache read, $0 cache write        file ~/.config/quipu/config.toml
    prices.llama-of-the-lab  $0.5 in, $1 out, $0.5 cache read, $0.5 cache write  file ~/.config/quipu/config.toml
    ");
}

#[test]
fn no_usage_is_no_error() {
    let home = Home::empty();
    assert_eq!(home.run("usage").to_string(), Home::empty().run("").to_string());
    home.write(SESSION, PROMPT);
    home.run("sync -q");
    snapshot!(home.run("usage"), @"
    exit 0
    --- stdout
    no usage in the last 30 days
    `quipu usage --all` shows all days
    ");
    snapshot!(home.run("usage --json --no-sync"), @r#"
    exit 0
    --- stdout
    {"by":"total","group":"total","responses":0,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"total_tokens":0,"cost_usd":0.0,"recorded_usd":0.0,"unpriced_tokens":0,"unpriced_models":[],"models":[],"fresh_as_of":"[TIME]","pending_bytes":null}
    "#);
}

/// Windows are those of Claude Code's plans, unless another agent is named.
#[test]
fn windows_need_sessions_of_an_agent_that_has_them() {
    let home = Home::empty();
    assert_eq!(home.run("usage blocks").to_string(), Home::empty().run("").to_string());
    home.fixture("openclaw/agents/main", ".openclaw/agents/main");
    home.run("sync -q");
    snapshot!(home.run("usage blocks"), @"
    exit 1
    --- stderr
    error: no sessions of Claude Code, whose plans have windows
    hint: --agent or --format chooses sessions of another agent
    ");
    assert_eq!(home.run("usage blocks --agent openclaw").code, 0);
    home.write(SESSION, PROMPT);
    home.run("sync -q");
    snapshot!(home.run("usage blocks"), @"
    exit 0
    --- stdout
    no usage in the last 3 days
    `quipu usage blocks --all` shows all windows
    ");
}

/// Claude Code's own total includes a compaction that no transcript records.
#[test]
fn requests_that_no_transcript_records_are_counted() {
    let home = Home::empty();
    let total = r#"{"type":"cost-state","startTime":1770112800000,"totalCostUSD":11.5,"modelUsage":{"claude-opus-4-5-20251101":{"inputTokens":1600000,"outputTokens":140000,"cacheReadInputTokens":1000,"cacheCreationInputTokens":0,"costUSD":11.5005}}}
"#;
    let answer = answer(1, "claude-opus-4-5-20251101", "2026-02-03T10:00:00.000Z");
    home.write(SESSION, [PROMPT, &answer, total].concat());
    let shown = home.run_with("usage session --all", &[("TZ", "UTC0"), ("COLUMNS", "100")]);
    assert!(shown.stdout.contains("$11.50"), "{}", shown.stdout);
    let note =
        "640k tokens ($4.00) are of requests that no transcript records, such as compactions";
    assert!(shown.stdout.replace('\n', " ").contains(note), "{}", shown.stdout);
    let json = home.run("usage session --all --json").stdout;
    let line: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(line["responses"], 1);
    assert_eq!(line["without_line_tokens"], 640_000);
    assert_eq!(line["without_line_usd"], 4.0);
    assert_eq!(line["cost_usd"], 11.5005);
}

/// Returns an answer of this moment.
fn answer_now(number: u32) -> String {
    answer(
        number,
        "claude-opus-4-5-20251101",
        &jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.000Z").to_string(),
    )
}

#[test]
fn weeks_windows_and_today_are_groups() {
    let home = home();
    let run = |arguments: &str| home.run_with(arguments, &[("TZ", "UTC0"), ("COLUMNS", "60")]);
    let weeks = run("usage weekly");
    assert!(weeks.stdout.contains("week of "), "{weeks}");
    assert!(weeks.stdout.contains("\n2026-02-02 "), "the Monday: {weeks}");
    let blocks = run("usage blocks --since 2026-02-01");
    for start in ["2026-02-03 10:00", "2026-02-03 23:00", "2026-02-05 10:00"] {
        assert!(blocks.stdout.contains(start), "{blocks}");
    }
    assert!(!blocks.stdout.contains("$1.25 "), "other agents have no windows: {blocks}");
    assert!(blocks.stdout.contains("no window is active"), "{blocks}");
    let today = run("usage today");
    assert!(today.stdout.starts_with("no usage today"), "{today}");
    home.write(SESSION.replace("a.jsonl", "b.jsonl").as_str(), answer_now(7));
    let today = run("usage today");
    assert!(today.stdout.starts_with("Usage  today\n"), "{today}");
    assert_eq!(run("usage today --json").json_lines().len(), 2);
}

#[test]
fn the_rest_of_a_limit_is_printed() {
    let home = home();
    home.write(SESSION.replace("a.jsonl", "b.jsonl").as_str(), answer_now(7));
    home.write(".config/quipu/config.toml", "[limits]\nblock_usd = 50\n");
    let run = home.run("usage blocks");
    assert!(run.stdout.contains(" left; $42.50 of your limit left"), "{run}");
    let lines = home.run("usage blocks --json").json_lines();
    let active = lines.iter().find(|line| line["is_active"] == true).unwrap();
    assert!((active["left_usd"].as_f64().unwrap() - 42.4965).abs() < 0.01, "{active}");
    assert!(active["ends_at"].as_i64() > active["starts_at"].as_i64());
    let shown = home.run("config show").stdout;
    assert!(shown.contains("limits.block_usd"), "{shown}");
}

#[test]
fn a_limit_shows_the_first_groups() {
    let home = home();
    let groups = |arguments: &str| -> Vec<String> {
        let lines = home.run(&format!("usage {arguments} --json")).json_lines();
        lines.iter().map(|line| line["group"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(groups("session -n 1"), ["00000000-0000-4000-8000-00000000000a", "total"]);
    assert_eq!(groups("daily -n 1"), ["2026-02-05", "total"], "the last day");
    for (word, command) in [("day", "daily"), ("weeks", "weekly"), ("sessions", "session")] {
        assert_eq!(groups(word), groups(command), "{word}");
    }
    let line = home.run("usage session -n 1 --json").json_lines().remove(0);
    assert_eq!(line["session_id"], line["group"]);
    assert_eq!(home.run("usage session -n 1 --csv").stdout.lines().count(), 2);
    let shown = home.run("usage session -n 1").stdout;
    assert!(
        shown.contains("the total includes 1 session with a lower cost; --all shows it"),
        "{shown}"
    );
    let shown = home.run("usage -n 1 --since 2026-02-01").stdout;
    assert!(shown.contains("the total includes 2 days before; --all shows them"), "{shown}");
    home.write(SESSION.replace("a.jsonl", "b.jsonl").as_str(), answer_now(7));
    home.run("sync -q");
    assert_eq!(home.run("cost yesterday").stdout, "no usage yesterday\n");
    assert_eq!(groups("today").len(), 2);
}

#[test]
fn csv_has_one_row_per_group() {
    let home = home();
    let run = home.run_with("usage --csv", &[("TZ", "UTC0")]);
    let rows: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(
        rows[0],
        "by,group,model,responses,input_tokens,output_tokens,cache_read_tokens,cache_write_tokens,total_tokens,cost_usd,recorded_usd,unpriced_tokens,title"
    );
    assert_eq!(rows[1], "day,2026-02-03,,2,2000000,200000,3000,0,2203000,9.0007,0,0,");
    assert_eq!(rows.len(), 3);
    let run = home.run_with("usage --csv --by model", &[("TZ", "UTC0")]);
    assert!(run.stdout.contains("\nday,2026-02-03,claude-haiku-4-5,1,"), "{run}");
    assert_eq!(run.stdout.lines().count(), 5);
    let run = home.run_with("usage --all --by model", &[("TZ", "UTC0"), ("COLUMNS", "60")]);
    assert!(run.stdout.contains("\n  claude-haiku-4-5 "), "{run}");
    let run = home.run_with("usage --all --by model", &[("TZ", "UTC0"), ("COLUMNS", "80")]);
    let line = run.stdout.lines().find(|line| line.contains("claude-opus-4-5")).unwrap();
    assert!(line.contains("$7.50") && line.contains("1.00M"), "one line for each: {run}");
}

#[test]
fn the_status_line_is_always_one_line() {
    let home = home();
    let run = |input: &str| {
        let run = home.feed(&["statusline"], input);
        assert_eq!((run.code, run.stdout.lines().count()), (0, 1), "{run}");
        run.stdout.trim_end().to_owned()
    };
    // What Claude Code 2.1.325 passes after two turns. Before the first one, it has nulls.
    let mut input: Value = serde_json::from_str(include_str!("statusline.json")).unwrap();
    let session = "Opus 5.5 · $0.0039 session · $0.00 today";
    assert_eq!(run(&input.to_string()), format!("{session} · 0% context"));
    input["context_window"]["used_percentage"] = Value::Null;
    assert_eq!(run(&input.to_string()), session);
    // It adds limits for accounts with a plan; times are in seconds.
    input["rate_limits"] = json!({
        "five_hour": {"used_percentage": 24, "resets_at": 1_795_035_600},
        "seven_day": {"used_percentage": 41, "resets_at": 1_795_467_600},
    });
    assert_eq!(run(&input.to_string()), format!("{session} · 5h 24% until 21:00 · 7d 41%"));
    // Whatever the input is, there is one line.
    assert_eq!(run(""), "$0.00 today");
    assert_eq!(run("[1]"), "$0.00 today");
    assert_eq!(
        run(r#"{"cost":"a lot","model":{"display_name":"\u001b[2J\nx"}}"#),
        "\\u{1b}[2J\\nx · $0.00 today"
    );
    home.write(SESSION.replace("a.jsonl", "b.jsonl").as_str(), answer_now(7));
    assert_eq!(run(""), "$0.00 today", "it does not collect");
    home.run("sync -q");
    let line = run("");
    assert!(line.starts_with("$7.50 today · 5h $7.50, ") && line.ends_with(" min left"), "{line}");
    home.write(".config/quipu/config.toml", "[limits]\nblock_usd = 50\n");
    assert!(run("").contains(" · 5h $7.50 of $50.00, "), "{}", run(""));
    // Without a ledger and without input.
    let empty = Home::empty();
    let wrong = Home::empty();
    wrong.write(".config/quipu/config.toml", "ledger = [");
    let output = wrong.finish(wrong.command(["statusline"]));
    assert_eq!((output.code, output.stdout.lines().count()), (0, 1), "{output}");
    assert!(output.stdout.starts_with("quipu: the configuration file "), "{output}");
    let output = empty.finish(empty.command(["statusline"]));
    assert_eq!((output.code, output.stdout.as_str()), (0, "quipu\n"), "{output}");
}
