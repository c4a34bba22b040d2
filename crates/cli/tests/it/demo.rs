//! `quipu demo`, and every command on the ledger that it creates.

use crate::home::{Home, Run, snapshot};

/// Creates a demo whose week ended on 2026-03-08.
fn demo() -> Home {
    let home = Home::empty();
    let made = home.run("demo --to demo --until 2026-03-08");
    assert_eq!(made.code, 0, "{made}");
    home
}

pub(crate) fn ask(home: &Home, arguments: &str) -> Run {
    // By the environment: flags would be repeated in printed commands.
    let there = [("QUIPU_CONFIG", "demo/config.toml"), ("QUIPU_LEDGER", "demo/ledger.db")];
    let shown = [("TZ", "UTC0"), ("COLUMNS", "100")];
    home.run_with(arguments, &[there, shown].concat())
}

#[test]
fn the_demo_has_its_own_ledger() {
    let home = Home::small();
    home.run("sync -q");
    let before = std::fs::read(home.ledger()).unwrap();
    let made = home.run("demo --to demo --until 2026-03-08 --json");
    let made = made.json();
    assert_eq!(made["sessions"], 7);
    assert_eq!(std::fs::read(home.ledger()).unwrap(), before, "the user's own is not touched");
    // Reading it collects the demo's files again, and nothing else.
    let sessions = ask(&home, "sessions --json").json_lines();
    assert_eq!(sessions.len(), 7);
    assert!(sessions.iter().all(|session| session["project"] == "tidepool"));
    // A folder that is not empty is not used.
    snapshot!(home.run("demo --to demo"), @"
    exit 2
    --- stderr
    error: [HOME]/demo is not empty
    hint: name a new folder, or leave --to out
    ");
}

#[test]
fn every_printed_command_works() {
    let home = Home::empty();
    let made = home.run("demo --to demo");
    assert_eq!(made.code, 0);
    assert!(made.stdout.starts_with("7 invented sessions"), "{made}");
    assert!(made.stderr.is_empty(), "{made}");
    // Every printed command works when it is typed.
    let folder = home.path("").display().to_string();
    let printed = made.stdout.replace("[HOME]/", &folder);
    let typed: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    let (exports, others): (Vec<&str>, Vec<&str>) =
        typed.into_iter().partition(|line| line.starts_with("export "));
    assert_eq!(exports.len(), 3, "the search path has no quipu: {made}");
    let samples: Vec<&str> = others.into_iter().filter(|line| line.starts_with("quipu ")).collect();
    assert_eq!(samples.len(), 9, "{made}");
    for sample in samples {
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c").arg(format!("{}\n{sample}", exports.join("\n")));
        shell.env_clear().env("HOME", home.path("")).env("TZ", "UTC").env("PATH", "/usr/bin:/bin");
        let run = home.finish(shell);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{sample}: {run}");
        assert!(!run.stdout.contains("--ledger"), "a hint is short: {run}");
    }
}

#[test]
fn an_empty_home_names_the_demo() {
    for command in ["", "sync", "sessions"] {
        let run = Home::empty().run(command);
        assert!(run.stdout.contains("run `quipu demo`"), "{run}");
    }
}

/// The demo's week ends yesterday by default, so that all of it is in the last 30 days.
#[test]
fn the_week_of_the_demo_ends_yesterday() {
    let home = Home::empty();
    home.run("demo --to demo");
    assert_eq!(ask(&home, "usage --since 9d --json").json_lines().len(), 8, "seven days, and all");
}

#[test]
fn the_demo_has_data_for_every_command() {
    let home = demo();
    let count = |from: &str| {
        let statement = format!("SELECT count(*) AS n FROM {from}");
        let config = ["--config", "demo/config.toml", "--ledger", "demo/ledger.db"];
        let ask = ["sql", "--json", statement.as_str()];
        let run = home.finish(home.command(config.into_iter().chain(ask)));
        run.json()["n"].as_i64().unwrap()
    };
    assert_eq!(count("sessions"), 8, "one of them is a sub-agent");
    assert_eq!(count("sessions WHERE state = 'archived'"), 1);
    assert_eq!(count("compactions"), 2);
    assert_eq!(count("labels"), 1);
    assert_eq!(count("tool_calls WHERE is_error"), 4);
    assert_eq!(count("problems"), 0);
    let branches =
        "(SELECT 1 FROM turns GROUP BY session, parent HAVING count(*) > 1 AND parent > 0)";
    assert_eq!(count(branches), 1, "a prompt that was taken back");
    snapshot!(ask(&home, "usage --since 2026-03-01"), @"
    exit 0
    --- stdout
    Usage  since 2026-03-01

    day            cost                      input  output  cache read  cache write  tokens
    2026-03-02    $0.11  █████████████████▏     21   1.66k        119k        6.56k    127k
    2026-03-03    $0.01  ██                    880     251       23.1k        1.52k   25.7k
    2026-03-04    $0.10  ███████████████▍      467   1.48k        140k        8.42k    151k
    2026-03-05    $0.01  ██▎                 1.10k     441       29.0k        1.90k   32.5k
    2026-03-06    $0.11  ██████████████████    464   1.73k        131k        7.96k    141k
    2026-03-07  $0.0040  ▋                   1.10k     237       35.9k        1.90k   39.1k
    2026-03-08    $0.03  █████                 452     620       77.2k        4.05k   82.3k
    total         $0.39                      4.48k   6.42k        555k        32.3k    598k

    $0.04 as recorded by the agents, $0.35 at the list prices of 2026-11-15; time zone UTC+00:00
    ");
    snapshot!(ask(&home, "usage session"), @"
    exit 0
    --- stdout
    Usage  all recorded usage

    session                            id        last         cost  tokens
    Make the page work offline         e5930c1b  2026-03-06  $0.11    126k
    A tide table for the harbour café  7c1e4a52  2026-03-02  $0.11    127k
    Low tide is an hour off            b20f7d96  2026-03-04  $0.10    139k
    Release 1.0                        0d48b6f3  2026-03-08  $0.03   64.9k
    Ada on Telegram                    5a0c1f6e  2026-03-07  $0.02   49.0k
    Ada                                c4417d80  2026-03-03  $0.01   25.7k
    Morning tide                       9e62b7a4  2026-03-08  $0.01   66.5k
    total                                                    $0.39    598k

    $0.04 as recorded by the agents, $0.35 at the list prices of 2026-11-15
    ");
    snapshot!(ask(&home, "notes"), @"
    exit 0
    --- stdout
    note                  agent  versions   size  changed
    MEMORY.md             main          2  183 B  [MINUTE]
    SOUL.md               main          2  144 B  [MINUTE]
    USER.md               main          1   89 B  [MINUTE]
    memory/2026-03-03.md  main          1   69 B  [MINUTE]
    memory/2026-03-05.md  main          1   92 B  [MINUTE]
    ");
    snapshot!(ask(&home, "notes MEMORY.md --diff"), @"
    exit 0
    --- stdout
    MEMORY.md  main, version 1 of 2, [MINUTE]  +4 −0
    + # What I remember
    +
    + - Ada opens the café at seven.
    + - For the tide: ask the tide office.

    MEMORY.md  main, version 2 of 2, [MINUTE]  +3 −1

      - Ada opens the café at seven.
    - - For the tide: ask the tide office.
    + - For the tide: ask tidepool first, then the tide office.
    + - When it rains, no name server answers.
    + - The fishermen are never wrong.
    ");
    snapshot!(ask(&home, "cron morning"), @"
    exit 0
    --- stdout
    Morning tide  3f8a1c64-0b7e-4d92-a5c1-6e90d27b4f15
      state     on
      schedule  cron 0 6 * * * (Europe/Stockholm)
      next      [MINUTE]
      agent     main
      for       High water, before the café opens
      prompt    When is the water high today? Write it to Ada in one sentence.
      runs      5 runs, 1 failed

    ended             status  took  tokens  session   result
    [MINUTE]  ok      24 s   11.6k  9e62b7a4  High water 03:02 and 15:31. Eleven people looked
                                                      at the tide page yesterday.
    [MINUTE]  ok      24 s   11.6k  9e62b7a4  Spring tide: high water 02:21 and 14:49, 0.7 m
                                                      above the mean. Move the chairs on the pier.
    [MINUTE]  ok      24 s   11.6k  9e62b7a4  High water 12:03, low water 05:51 and 18:10. Rain:
                                                      the page works offline now.
    [MINUTE]  error   41 s   11.6k  9e62b7a4  getaddrinfo EAI_AGAIN tides.example
    [MINUTE]  ok      24 s   11.6k  9e62b7a4  High water 10:49 and 23:14, low water 04:36 and
                                                      16:58.
    ");
}
