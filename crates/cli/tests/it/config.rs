//! Settings, and `quipu config show`.

use crate::home::{Home, snapshot};

const FILE: &str = ".config/quipu/config.toml";

#[test]
fn every_setting_has_a_default() {
    snapshot!(Home::empty().run("config show"), @"
    exit 0
    --- stdout
    setting                 value                                            from
    config                  ~/.config/quipu/config.toml (does not exist)     default
    ledger                  ~/.local/share/quipu/ledger.db (does not exist)  default
    color                   auto                                             default
    collect.priority        2                                                default
    collect.deleted         true                                             default
    roots.claude-code       ~/.claude                                        default
                            ~/.config/claude
    roots.openclaw          ~/.openclaw                                      default
                            ~/.clawdbot
                            ~/.moltbot
                            ~/.moldbot
    retention.claude-code   30                                               default
    retention.openclaw      never                                            default
    store.main_key          main                                             default
    store.dm_scope          main                                             default
    store.group_scope       per-group                                        default
    store.reset.mode        none                                             default
    store.admission.direct  pairing                                          default
    store.admission.group   allowlist                                        default
    store.admission.owners  none                                             default
    ");
}

#[test]
fn settings_come_from_a_file() {
    let home = Home::empty();
    home.write(
        FILE,
        "ledger = \"kept/ledger.db\"\ncolor = \"never\"\n\
         [roots]\nclaude-code = [\"~/one\", \"two\", \"~/one\"]\nopenclaw = []\n",
    );
    let run = home.run("config show");
    assert!(run.stdout.contains("~/.config/quipu/config.toml  "), "{run}");
    snapshot!(run.changed(), @"
    exit 0
    --- stdout
    setting                 value                                            from
    ledger                  ~/.config/quipu/kept/ledger.db (does not exist)  file ~/.config/quipu/config.toml
    color                   never                                            file ~/.config/quipu/config.toml
    roots.claude-code       ~/one                                            file ~/.config/quipu/config.toml
                            ~/.config/quipu/two
    roots.openclaw          none                                             file ~/.config/quipu/config.toml
    ");
}

#[test]
fn settings_come_from_the_environment() {
    let home = Home::empty();
    home.write("here.toml", "ledger = 'unused.db'");
    let variables = [
        ("QUIPU_CONFIG", "here.toml"),
        ("QUIPU_LEDGER", "~/ledger.db"),
        ("NO_COLOR", "1"),
        ("CLAUDE_CONFIG_DIR", "/one,/two"),
        ("OPENCLAW_STATE_DIR", "three"),
    ];
    snapshot!(home.run_with("config show", &variables).changed(), @"
    exit 0
    --- stdout
    setting                 value                         from
    config                  ~/here.toml                   environment variable QUIPU_CONFIG
    ledger                  ~/ledger.db (does not exist)  environment variable QUIPU_LEDGER
    color                   never                         environment variable NO_COLOR
    roots.claude-code       /one                          environment variable CLAUDE_CONFIG_DIR
                            /two
    roots.openclaw          ~/three                       environment variable OPENCLAW_STATE_DIR
    ");
}

#[test]
fn xdg_variables_move_the_ledger_and_the_configuration() {
    let home = Home::empty();
    let (data, config) = (home.path("data"), home.path("conf"));
    home.write("conf/quipu/config.toml", "color = 'always'");
    let variables = [
        ("XDG_DATA_HOME", data.to_str().unwrap()),
        ("XDG_CONFIG_HOME", config.to_str().unwrap()),
        ("QUIPU_LEDGER", ""),
        ("NO_COLOR", ""),
    ];
    snapshot!(home.run_with("config show --color never", &variables).changed(), @"
    exit 0
    --- stdout
    setting                 value                                    from
    config                  ~/conf/quipu/config.toml                 environment variable XDG_CONFIG_HOME
    ledger                  ~/data/quipu/ledger.db (does not exist)  environment variable XDG_DATA_HOME
    color                   never                                    flag --color
    ");
}

#[test]
fn flags_override_the_environment() {
    let home = Home::empty();
    home.write("here.toml", "");
    let variables = [("QUIPU_LEDGER", "/unused"), ("QUIPU_CONFIG", "/unused"), ("NO_COLOR", "1")];
    let run =
        home.run_with("config show --ledger l.db --config here.toml --color never", &variables);
    snapshot!(run.changed(), @"
    exit 0
    --- stdout
    setting                 value                    from
    config                  ~/here.toml              flag --config
    ledger                  ~/l.db (does not exist)  flag --ledger
    color                   never                    flag --color
    ");
}

#[test]
fn json_is_one_object_per_setting() {
    let home = Home::empty();
    home.write(FILE, "[roots]\nopenclaw = ['/state']");
    let run = home.run_with("config show --json --color never", &[("QUIPU_LEDGER", "/l.db")]);
    run.json_lines();
    snapshot!(run, @r#"
    exit 0
    --- stdout
    {"setting":"config","value":"[HOME]/.config/quipu/config.toml","origin":"default"}
    {"setting":"ledger","value":"/l.db","origin":"environment","from":"QUIPU_LEDGER"}
    {"setting":"color","value":"never","origin":"flag","from":"--color"}
    {"setting":"collect.priority","value":2,"origin":"default"}
    {"setting":"collect.deleted","value":true,"origin":"default"}
    {"setting":"roots.claude-code","value":["[HOME]/.claude","[HOME]/.config/claude"],"origin":"default"}
    {"setting":"roots.openclaw","value":["/state"],"origin":"file","from":"[HOME]/.config/quipu/config.toml"}
    {"setting":"retention.claude-code","value":30,"origin":"default"}
    {"setting":"retention.openclaw","value":"never","origin":"default"}
    {"setting":"store.main_key","value":"main","origin":"default"}
    {"setting":"store.dm_scope","value":"main","origin":"default"}
    {"setting":"store.group_scope","value":"per-group","origin":"default"}
    {"setting":"store.reset.mode","value":"none","origin":"default"}
    {"setting":"store.admission.direct","value":"pairing","origin":"default"}
    {"setting":"store.admission.group","value":"allowlist","origin":"default"}
    {"setting":"store.admission.owners","value":[],"origin":"default"}
    "#);
}

#[test]
fn configured_roots_replace_the_defaults() {
    let home = Home::small();
    home.fixture("openclaw/agents/pi", "elsewhere/agents/pi");
    home.write("config.toml", "[roots]\nopenclaw = ['elsewhere']\nclaude-code = []\n");
    assert_eq!(home.run("sync --json --config config.toml").json()["sources"], 1);
}

#[test]
fn unknown_keys_are_warned_about() {
    let home = Home::empty();
    home.write(FILE, "legder = 'x'\nfrobnicate = 1\n[roots]\nclaude = []\n");
    let mut run = home.run("config show");
    run.stdout.clear();
    snapshot!(run, @"
    exit 0
    --- stderr
    warning: unknown key `frobnicate` in [HOME]/.config/quipu/config.toml
    hint: `quipu config show` lists all settings
    warning: unknown key `legder` in [HOME]/.config/quipu/config.toml
    hint: did you mean `ledger`?
    warning: unknown key `roots.claude` in [HOME]/.config/quipu/config.toml
    hint: did you mean `roots.claude-code`?
    ");
    assert_eq!(home.run("config show -q").stderr, "");
}

#[track_caller]
fn refused(text: &str) -> crate::home::Run {
    let home = Home::small();
    home.write(FILE, text);
    let run = home.run("sync");
    assert!(!home.path(".local").exists());
    run
}

#[test]
fn wrong_types_are_refused() {
    snapshot!(refused("ledger = 1"), @r#"
    exit 2
    --- stderr
    error: `ledger` in [HOME]/.config/quipu/config.toml must be text, not a number
    hint: write `ledger = "…"`
    "#);
    snapshot!(refused("color = \"blue\""), @r#"
    exit 2
    --- stderr
    error: `color` in [HOME]/.config/quipu/config.toml is `blue`
    hint: use "auto", "always" or "never"
    "#);
    snapshot!(refused("[roots]\nclaude-code = \"~/.claude\""), @r#"
    exit 2
    --- stderr
    error: `roots.claude-code` in [HOME]/.config/quipu/config.toml must be a list of paths, not text
    hint: write `claude-code = ["path"]`
    "#);
    snapshot!(refused("ledger = \"~bob/ledger.db\""), @"
    exit 2
    --- stderr
    error: cannot use `ledger` in [HOME]/.config/quipu/config.toml
      caused by: cannot expand another user's home in `~bob/ledger.db`
    hint: write the full path, or begin with `./` if it is a file name
    ");
}

#[test]
fn broken_files_are_refused() {
    snapshot!(refused("color = \"auto\"\nledger =\n"), @"
    exit 2
    --- stderr
    error: the configuration file [HOME]/.config/quipu/config.toml is not TOML
      caused by: line 2, column 9: string values must be quoted, expected literal string
    hint: `quipu config --help` shows what it can look like
    ");
}

#[test]
fn a_named_configuration_file_has_to_exist() {
    snapshot!(Home::empty().run("sync --config nowhere.toml"), @"
    exit 2
    --- stderr
    error: cannot read the configuration file [HOME]/nowhere.toml
      caused by: no such file or directory (os error 2)
    hint: name another one with --config, or unset QUIPU_CONFIG
    ");
}

/// A pipe is not waited for, a device is not read without end, and a large file is not read
/// completely.
#[test]
fn only_a_small_regular_file_is_read() {
    let home = Home::small();
    home.run("sync");
    let pipe = home.path("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    home.write("huge", "");
    let huge = std::fs::File::options().write(true).open(home.path("huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    for command in ["sync", "sessions", "status", "search x"] {
        for (file, why) in [
            ("pipe", "not a regular file"),
            ("/dev/zero", "not a regular file"),
            ("huge", "larger than 16777216 bytes"),
        ] {
            let run = home.run(&format!("{command} --config {file}"));
            assert_eq!(run.code, 2, "{run}");
            assert!(run.stderr.contains(why), "{run}");
            assert!(run.stderr.contains("cannot read the configuration file"), "{run}");
        }
    }
    for file in ["pipe", "/dev/zero", "huge"] {
        let path = home.path(file);
        home.write(FILE, format!("[store]\nopenclaw_config = {:?}\n", path.to_str().unwrap()));
        let run = home.run("config show");
        assert!(run.stderr.contains("cannot use the OpenClaw configuration"), "{run}");
    }
}

#[test]
fn without_a_home_the_ledger_has_to_be_named() {
    let home = Home::small();
    let run = home.run_with("sync", &[("HOME", "nowhere")]);
    snapshot!(run, @"
    exit 2
    --- stderr
    error: cannot find the default ledger: there is no home folder
    hint: set HOME, or name the ledger with --ledger
    ");
    let variables = [("HOME", ""), ("OPENCLAW_STATE_DIR", ".openclaw")];
    let run = home.run_with("sync --json --ledger l.db", &variables);
    assert_eq!(run.json()["sources"], 4);
}

/// Files left out by a setting are reported with that setting, and can be collected later.
#[test]
fn r50_the_file_sets_the_priority() {
    let home = Home::empty();
    home.fixture("openclaw/cron", ".openclaw/cron");
    home.fixture("openclaw/workspace", ".openclaw/workspace");
    home.fixture("openclaw/agents/spec", ".openclaw/agents/spec");
    home.write(FILE, "[collect]\npriority = 0\ndeleted = false\n");
    home.run("sync");
    let status = home.run("status");
    for text in ["collect.priority = 0", "collect.deleted = false", "cron/jobs.json"] {
        assert!(status.stdout.contains(text), "{text} is not in\n{}", status.stdout);
    }
    let priorities = |home: &Home| {
        let status = home.run("status --json").json();
        let openclaw = status["formats"][1]["priorities"].as_array().unwrap().clone();
        openclaw.iter().map(|group| group["sources"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(priorities(&home).len(), 1);
    home.write(FILE, "[collect]\npriority = 2\n");
    home.run("sync");
    assert_eq!(priorities(&home)[1..], [3, 8]);
    let status = home.run("status");
    for text in ["P0 transcripts: ", "P1 scheduled jobs: ", "P2 notes: "] {
        assert!(status.stdout.contains(text), "{text} is not in\n{}", status.stdout);
    }
}

#[test]
fn a74_wrong_values_of_collect_are_refused() {
    snapshot!(refused("[collect]\npriority = 3"), @"
    exit 2
    --- stderr
    error: `collect.priority` in [HOME]/.config/quipu/config.toml is 3
    hint: 0 collects transcripts only, 1 also scheduled jobs, 2 also notes (the default)
    ");
    snapshot!(refused("[collect]\ndeleted = 'no'"), @"
    exit 2
    --- stderr
    error: `collect.deleted` in [HOME]/.config/quipu/config.toml must be true or false, not text
    hint: write `deleted = false` to leave out transcripts that agents have deleted
    ");
}

/// A file of a megabyte, roots of other users, roots inside roots and `/`.
#[test]
fn a74_every_configuration_is_used_or_refused() {
    let home = Home::small();
    let padding = format!("# {}\n", "x".repeat(1 << 20));
    home.write(FILE, format!("{padding}color = 'never'\n{padding}"));
    assert_eq!(home.run("config show").code, 0);
    home.write(FILE, format!("{padding}color = "));
    assert_eq!(home.run("config show").code, 2);

    home.write(FILE, "[roots]\nopenclaw = ['~somebody/.openclaw']\n");
    let run = home.run("config show");
    assert_eq!(run.code, 2, "{}", run.stdout);

    let everything = home.run("sync --json").code;
    assert_eq!(everything, 2, "nothing is collected under a wrong configuration");
    home.write(
        FILE,
        "[roots]\nopenclaw = ['~/.openclaw', '~/.openclaw/agents', '~', '../../.openclaw']\nclaude-code = []\n",
    );
    let nested = home.run("sync --json").json();
    home.write(FILE, "[roots]\nopenclaw = ['~/.openclaw']\nclaude-code = []\n");
    let plain = home.run("sync --json").json();
    assert_eq!(nested["sources"], plain["sources"]);
    assert_eq!(plain["sources_added"], 0);
    // Only listed: the test must not depend on the files there.
    home.write(FILE, "[roots]\nopenclaw = ['/']\nclaude-code = ['/']\n");
    assert_eq!(home.run("status").code, 0);
}

/// No file makes the parser loop or overflow.
#[test]
fn a74_a_file_that_is_no_toml_is_refused() {
    let home = Home::small();
    for broken in [
        format!("color = {}", "[".repeat(1 << 20)),
        format!("ledger = \"{}\"", "k".repeat(1 << 20)),
        "\0".repeat(1 << 20),
    ] {
        home.write(FILE, broken);
        let run = home.run("sync");
        assert_eq!(run.code, 2);
        assert!(run.stderr.starts_with("error: ") && run.stdout.is_empty());
    }
    home.write(FILE, b"color = '\xff'");
    snapshot!(home.run("sync"), @"
    exit 2
    --- stderr
    error: cannot read the configuration file [HOME]/.config/quipu/config.toml
      caused by: stream did not contain valid UTF-8
    hint: name another one with --config, or unset QUIPU_CONFIG
    ");
}

#[test]
fn r62_the_store_is_configured_here() {
    let home = Home::empty();
    home.write(
        FILE,
        "[store]\ndm_scope = 'channel-peer'\nmain_key = 'Home'\n\
         [store.identity_links]\nalice = ['telegram:1', 'discord:2']\n\
         [store.reset]\nmode = 'daily'\nhour = 5\n[store.reset.group]\nidle_minutes = 30\n\
         [store.reset.channels.discord]\nmode = 'none'\n\
         [store.admission]\ndirect = 'allowlist'\nowners = ['telegram:1', 'Matrix:@Ada:x.org']\n\
         [store.admission.channels.irc]\ngroup = 'open'\n",
    );
    let run = home.run("config show");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    snapshot!(store_lines(run), @"
    exit 0
    --- stdout
    store.main_key                      home                                             file ~/.config/quipu/config.toml
    store.dm_scope                      channel-peer                                     file ~/.config/quipu/config.toml
    store.group_scope                   per-group                                        default
    store.identity_links.alice          telegram:1                                       file ~/.config/quipu/config.toml
                                        discord:2
    store.reset.mode                    daily                                            file ~/.config/quipu/config.toml
    store.reset.hour                    5                                                file ~/.config/quipu/config.toml
    store.reset.group.idle_minutes      30                                               file ~/.config/quipu/config.toml
    store.reset.channels.discord.mode   none                                             file ~/.config/quipu/config.toml
    store.admission.direct              allowlist                                        file ~/.config/quipu/config.toml
    store.admission.group               allowlist                                        default
    store.admission.channels.irc.group  open                                             file ~/.config/quipu/config.toml
    store.admission.owners              matrix:@ada:x.org                                file ~/.config/quipu/config.toml
                                        telegram:1
    ");
    let lines = home.run("config show --json").json_lines();
    let owners = lines.iter().find(|line| line["setting"] == "store.admission.owners").unwrap();
    assert_eq!(owners["value"], serde_json::json!(["matrix:@ada:x.org", "telegram:1"]));
}

/// Returns the lines of `config show` about the store.
fn store_lines(mut run: crate::home::Run) -> crate::home::Run {
    let lines = run.stdout.lines();
    let about =
        lines.skip_while(|line| !line.starts_with("store.")).map(|line| format!("{line}\n"));
    run.stdout = about.collect();
    run
}

#[test]
fn r62_an_openclaw_config_is_read_where_it_is_named() {
    let home = Home::small();
    let canary = "sk-canary-8842";
    home.write(
        ".openclaw/openclaw.json",
        format!(
            "{{ // tokens\n auth: {{ token: '{canary}' }}, channels: {{ telegram: {{ botToken: '{canary}' }} }},\n\
             session: {{ dmScope: 'per-peer', groupScope: 'main', reset: {{ mode: 'idle', idleMinutes: 9 }} }},\n\
             agents: {{ defaults: {{ model: '{canary}', compaction: {{ mode: 'safeguard', reserveTokensFloor: 24000 }} }} }} }}"
        ),
    );
    home.write(
        FILE,
        "[store]\nopenclaw_config = '~/.openclaw/openclaw.json'\ngroup_scope = 'per-group'\n",
    );
    snapshot!(store_lines(home.run("config show")), @"
    exit 0
    --- stdout
    store.openclaw_config                  ~/.openclaw/openclaw.json                        file ~/.config/quipu/config.toml
    store.main_key                         main                                             default
    store.dm_scope                         per-peer                                         file ~/.openclaw/openclaw.json
    store.group_scope                      per-group                                        file ~/.config/quipu/config.toml
    store.reset.mode                       idle                                             file ~/.openclaw/openclaw.json
    store.reset.idle_minutes               9                                                file ~/.openclaw/openclaw.json
    store.admission.direct                 pairing                                          default
    store.admission.group                  allowlist                                        default
    store.admission.owners                 none                                             default
    store.compaction.mode                  safeguard                                        file ~/.openclaw/openclaw.json
    store.compaction.reserve_tokens_floor  24000                                            file ~/.openclaw/openclaw.json
    ");
    assert_eq!(home.run("sync").code, 0);
    for run in [home.run("config show --json"), home.run("search canary"), home.run("status")] {
        assert!(!run.stdout.contains("8842") && !run.stderr.contains("8842"), "{run}");
    }
    let ledger = std::fs::read(home.path(".local/share/quipu/ledger.db")).unwrap();
    assert!(!ledger.windows(canary.len()).any(|window| window == canary.as_bytes()));
}

#[test]
fn r62_a_broken_openclaw_config_is_refused_where_it_is_needed() {
    let home = Home::small();
    home.write("broken.json", "{ session: { dmScope: 'sk-canary-8842' } }");
    home.write(FILE, "[store]\nopenclaw_config = '~/broken.json'\n");
    snapshot!(home.run("config show"), @"
    exit 2
    --- stderr
    error: cannot use the OpenClaw configuration [HOME]/broken.json
      caused by: `session.dmScope` must be one of main, channel, peer, channel-peer, per-peer, per-channel-peer, per-account-channel-peer
    hint: `store.openclaw_config` in quipu's configuration names it
    ");
    // Collecting never opens it.
    assert_eq!(home.run("sync").code, 0);
    home.write("broken.json", "{ session: {\n token: 'sk-canary-8842' oops");
    snapshot!(home.run("config show"), @"
    exit 2
    --- stderr
    error: cannot use the OpenClaw configuration [HOME]/broken.json
      caused by: line 2, column 26 is not JSON5
    hint: `store.openclaw_config` in quipu's configuration names it
    ");
    std::fs::remove_file(home.path("broken.json")).unwrap();
    snapshot!(home.run("config show"), @"
    exit 2
    --- stderr
    error: cannot use the OpenClaw configuration [HOME]/broken.json
      caused by: no such file or directory (os error 2)
    hint: `store.openclaw_config` in quipu's configuration names it
    ");
}

#[test]
fn r62_wrong_values_of_the_store_are_refused() {
    snapshot!(refused("[store]\ndm_scope = 'everyone'"), @r#"
    exit 2
    --- stderr
    error: `store.dm_scope` in [HOME]/.config/quipu/config.toml is `everyone`
    hint: use one of "main", "channel", "peer", "channel-peer", "per-peer", "per-channel-peer", "per-account-channel-peer"
    "#);
    snapshot!(refused("[store]\nmain_key = 'a:b'"), @"
    exit 2
    --- stderr
    error: `store.main_key` in [HOME]/.config/quipu/config.toml is `a:b`
    hint: use one word of letters, digits, `-` and `_`
    ");
    snapshot!(refused("store = 1"), @"
    exit 2
    --- stderr
    error: `store` in [HOME]/.config/quipu/config.toml must be a table, not a number
    hint: write `[store]` on its own line and the settings below it
    ");
    snapshot!(refused("[store.reset]\nhour = 24"), @"
    exit 2
    --- stderr
    error: `store.reset.hour` in [HOME]/.config/quipu/config.toml is `24`
    hint: use an hour from 0 to 23
    ");
    snapshot!(refused("[store.reset.channels.cron]\nhour = 2"), @"
    exit 2
    --- stderr
    error: cannot use `store.reset.channels.cron` in [HOME]/.config/quipu/config.toml
      caused by: `cron` cannot be the name of a channel: the word is reserved in session keys
    ");
    snapshot!(refused("[store.admission]\ngroup = 'pairing'"), @r#"
    exit 2
    --- stderr
    error: `store.admission.group` in [HOME]/.config/quipu/config.toml is `pairing`
    hint: use one of "allowlist", "open", "disabled"
    "#);
    snapshot!(refused("[store.admission]\nowners = ['821071206']"), @r#"
    exit 2
    --- stderr
    error: `store.admission.owners` in [HOME]/.config/quipu/config.toml is `821071206`
    hint: write `owners = ["telegram:821071206"]`: the channel, and the id there
    "#);
    snapshot!(refused("[store.identity_links]\nalice = 'telegram:1'"), @r#"
    exit 2
    --- stderr
    error: `store.identity_links.alice` in [HOME]/.config/quipu/config.toml must be a list of ids, not text
    hint: write `alice = ["telegram:821071206", "discord:99"]`
    "#);
    let home = Home::empty();
    home.write(FILE, "[store]\ndm_scop = 'main'\n[store.reset]\nhuor = 1\n[store.admission.channels.irc]\ngroups = 'open'\n");
    let mut run = home.run("config show");
    run.stdout.clear();
    snapshot!(run, @"
    exit 0
    --- stderr
    warning: unknown key `store.admission.channels.irc.groups` in [HOME]/.config/quipu/config.toml
    hint: did you mean `store.admission.channels.irc.group`?
    warning: unknown key `store.dm_scop` in [HOME]/.config/quipu/config.toml
    hint: did you mean `store.dm_scope`?
    warning: unknown key `store.reset.huor` in [HOME]/.config/quipu/config.toml
    hint: did you mean `store.reset.hour`?
    ");
}

/// The retention of an agent is configured, because its own settings are never opened.
#[test]
fn a_configured_retention_is_used_everywhere() {
    let home = Home::small();
    home.write(FILE, "[retention]\nclaude-code = 12\nopenclaw = 0\n");
    let shown = home.run("config show").stdout;
    assert!(shown.contains("retention.claude-code   12 "), "{shown}");
    assert!(shown.contains("retention.openclaw      never "), "{shown}");
    let line = home.run("config show --json").json_lines();
    let line = line.into_iter().find(|line| line["setting"] == "retention.claude-code").unwrap();
    assert_eq!((&line["value"], &line["origin"]), (&12.into(), &"file".into()));
    let warned = home.run("doctor").stdout;
    assert!(warned.contains("(`retention.claude-code` in the configuration is 12)"), "{warned}");
    home.run("sync");
    for command in ["status", ""] {
        let said = home.run(command).stdout;
        assert!(said.contains("2 days left, with the configured 12 days"), "{said}");
    }
    let after = "after 12 days, according to file ~/.config/quipu/config.toml";
    assert!(home.run("formats").stdout.contains(after));
    home.write(FILE, "[retention]\nclaude-code = -3\n");
    snapshot!(home.run("status"), @r#"
    exit 2
    --- stderr
    error: `retention.claude-code` in [HOME]/.config/quipu/config.toml is -3
    hint: use a number of days; 0 or "never" if the agent deletes nothing
    "#);
}

#[test]
fn the_file_is_named_and_edited() {
    let home = Home::empty();
    let path = home.path(".config/quipu/config.toml");
    let named = home.run("config path");
    assert_eq!(
        (named.code, named.stdout.trim()),
        (0, "[HOME]/.config/quipu/config.toml"),
        "{named}"
    );
    // A new file has every setting, as a comment.
    let run = home.run_with("config edit", &[("EDITOR", "true")]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run}");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("# [limits]")
            && text.lines().all(|line| line.is_empty() || line.starts_with('#'))
    );
    assert_eq!(home.run("config show").code, 0);
    // An editor with options; a mistake is reported, and can be corrected.
    home.write("edit.sh", "printf 'legder = 1\\ncolor = 7\\n' > \"$2\"");
    let run = home.run_with("config edit", &[("VISUAL", "sh edit.sh --wait"), ("EDITOR", "false")]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.stderr.contains("`color` in "), "{run}");
    home.write("edit.sh", "printf 'legder = 1\\n' > \"$2\"");
    let run = home.run_with("config edit", &[("VISUAL", "sh edit.sh --wait")]);
    assert_eq!(run.code, 0, "{run}");
    assert!(run.stderr.contains("did you mean `ledger`?"), "{run}");
    assert_eq!(home.run_with("config edit", &[("EDITOR", "false")]).code, 2);
    let run = home.run_with("config edit", &[("EDITOR", "/nonexistent")]);
    assert!(run.stderr.contains("set EDITOR to your editor"), "{run}");
}
