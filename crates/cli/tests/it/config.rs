//! Settings, and `quipu config show`.

use crate::home::{Home, snapshot};

const FILE: &str = ".config/quipu/config.toml";

#[test]
fn defaults() {
    snapshot!(Home::empty().run("config show"), @"
    exit 0
    --- stdout
    setting                value                                       from
    config                 ~/.config/quipu/config.toml (not there)     default
    ledger                 ~/.local/share/quipu/ledger.db (not there)  default
    color                  auto                                        default
    collect.priority       2                                           default
    collect.deleted        true                                        default
    roots.claude-code      ~/.claude                                   default
                           ~/.config/claude
    roots.openclaw         ~/.openclaw                                 default
                           ~/.clawdbot
                           ~/.moltbot
                           ~/.moldbot
    retention.claude-code  30                                          default
    retention.openclaw     never                                       default
    ");
}

#[test]
fn from_a_file() {
    let home = Home::empty();
    home.write(
        FILE,
        "ledger = \"kept/ledger.db\"\ncolor = \"never\"\n\
         [roots]\nclaude-code = [\"~/one\", \"two\", \"~/one\"]\nopenclaw = []\n",
    );
    snapshot!(home.run("config show"), @"
    exit 0
    --- stdout
    setting                value                                       from
    config                 ~/.config/quipu/config.toml                 default
    ledger                 ~/.config/quipu/kept/ledger.db (not there)  file ~/.config/quipu/config.toml
    color                  never                                       file ~/.config/quipu/config.toml
    collect.priority       2                                           default
    collect.deleted        true                                        default
    roots.claude-code      ~/one                                       file ~/.config/quipu/config.toml
                           ~/.config/quipu/two
    roots.openclaw         none                                        file ~/.config/quipu/config.toml
    retention.claude-code  30                                          default
    retention.openclaw     never                                       default
    ");
}

#[test]
fn from_the_environment() {
    let home = Home::empty();
    home.write("here.toml", "ledger = 'unused.db'");
    let variables = [
        ("QUIPU_CONFIG", "here.toml"),
        ("QUIPU_LEDGER", "~/ledger.db"),
        ("NO_COLOR", "1"),
        ("CLAUDE_CONFIG_DIR", "/one,/two"),
        ("OPENCLAW_STATE_DIR", "three"),
    ];
    snapshot!(home.run_with("config show", &variables), @"
    exit 0
    --- stdout
    setting                value                    from
    config                 ~/here.toml              environment variable QUIPU_CONFIG
    ledger                 ~/ledger.db (not there)  environment variable QUIPU_LEDGER
    color                  never                    environment variable NO_COLOR
    collect.priority       2                        default
    collect.deleted        true                     default
    roots.claude-code      /one                     environment variable CLAUDE_CONFIG_DIR
                           /two
    roots.openclaw         ~/three                  environment variable OPENCLAW_STATE_DIR
    retention.claude-code  30                       default
    retention.openclaw     never                    default
    ");
}

#[test]
fn from_base_folders() {
    let home = Home::empty();
    let (data, config) = (home.path("data"), home.path("conf"));
    home.write("conf/quipu/config.toml", "color = 'always'");
    let variables = [
        ("XDG_DATA_HOME", data.to_str().unwrap()),
        ("XDG_CONFIG_HOME", config.to_str().unwrap()),
        ("QUIPU_LEDGER", ""),
        ("NO_COLOR", ""),
    ];
    snapshot!(home.run_with("config show --color never", &variables), @"
    exit 0
    --- stdout
    setting                value                               from
    config                 ~/conf/quipu/config.toml            environment variable XDG_CONFIG_HOME
    ledger                 ~/data/quipu/ledger.db (not there)  environment variable XDG_DATA_HOME
    color                  never                               flag --color
    collect.priority       2                                   default
    collect.deleted        true                                default
    roots.claude-code      ~/.claude                           default
                           ~/.config/claude
    roots.openclaw         ~/.openclaw                         default
                           ~/.clawdbot
                           ~/.moltbot
                           ~/.moldbot
    retention.claude-code  30                                  default
    retention.openclaw     never                               default
    ");
}

#[test]
fn from_flags() {
    let home = Home::empty();
    home.write("here.toml", "");
    let variables = [("QUIPU_LEDGER", "/unused"), ("QUIPU_CONFIG", "/unused"), ("NO_COLOR", "1")];
    let run =
        home.run_with("config show --ledger l.db --config here.toml --color never", &variables);
    snapshot!(run, @"
    exit 0
    --- stdout
    setting                value               from
    config                 ~/here.toml         flag --config
    ledger                 ~/l.db (not there)  flag --ledger
    color                  never               flag --color
    collect.priority       2                   default
    collect.deleted        true                default
    roots.claude-code      ~/.claude           default
                           ~/.config/claude
    roots.openclaw         ~/.openclaw         default
                           ~/.clawdbot
                           ~/.moltbot
                           ~/.moldbot
    retention.claude-code  30                  default
    retention.openclaw     never               default
    ");
}

#[test]
fn for_machines() {
    let home = Home::empty();
    home.write(FILE, "[roots]\nopenclaw = ['/state']");
    let run = home.run_with("config show --json --color never", &[("QUIPU_LEDGER", "/l.db")]);
    run.json_lines();
    snapshot!(run, @r#"
    exit 0
    --- stdout
    {"key":"config","value":"[HOME]/.config/quipu/config.toml","origin":"default"}
    {"key":"ledger","value":"/l.db","origin":"environment","from":"QUIPU_LEDGER"}
    {"key":"color","value":"never","origin":"flag","from":"--color"}
    {"key":"collect.priority","value":2,"origin":"default"}
    {"key":"collect.deleted","value":true,"origin":"default"}
    {"key":"roots.claude-code","value":["[HOME]/.claude","[HOME]/.config/claude"],"origin":"default"}
    {"key":"roots.openclaw","value":["/state"],"origin":"file","from":"[HOME]/.config/quipu/config.toml"}
    {"key":"retention.claude-code","value":30,"origin":"default"}
    {"key":"retention.openclaw","value":"never","origin":"default"}
    "#);
}

#[test]
fn configured_roots_replace_the_others() {
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
    hint: `quipu config show` lists what can be set
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
    hint: it can be "auto", "always" or "never"
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
      caused by: `~bob/ledger.db` begins with another user's home
    hint: write the path in full, or begin with `./` if it is a file's name
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
fn a_file_that_was_asked_for_has_to_be_there() {
    snapshot!(Home::empty().run("sync --config nowhere.toml"), @"
    exit 2
    --- stderr
    error: cannot read the configuration file [HOME]/nowhere.toml
      caused by: no such file or directory (os error 2)
    hint: name another one with --config, or unset QUIPU_CONFIG
    ");
}

#[test]
fn without_a_home_the_ledger_has_to_be_named() {
    let home = Home::small();
    let run = home.run_with("sync", &[("HOME", "nowhere")]);
    snapshot!(run, @"
    exit 2
    --- stderr
    error: cannot tell where the ledger is: there is no home folder
    hint: set HOME, or name the ledger with --ledger
    ");
    let variables = [("HOME", ""), ("OPENCLAW_STATE_DIR", ".openclaw")];
    let run = home.run_with("sync --json --ledger l.db", &variables);
    assert_eq!(run.json()["sources"], 4);
}

/// What a setting leaves out is named with the setting, and can be collected later.
#[test]
fn r50_a_priority_from_the_file() {
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
fn a74_wrong_values_of_collect() {
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
    hint: write `deleted = false` to leave out what agents have deleted
    ");
}

/// A file of a megabyte, roots of other people, roots inside roots and the root of everything.
#[test]
fn a74_configurations_of_every_kind() {
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
    // Looked at, not read: whose files lie there is not this test's business.
    home.write(FILE, "[roots]\nopenclaw = ['/']\nclaude-code = ['/']\n");
    assert_eq!(home.run("status").code, 0);
}

/// Nothing that a file can hold makes it loop or overflow.
#[test]
fn a74_files_full_of_anything() {
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

/// How long an agent keeps transcripts is said where its own settings cannot be read.
#[test]
fn how_long_transcripts_are_kept() {
    let home = Home::small();
    home.write(FILE, "[retention]\nclaude-code = 12\nopenclaw = 0\n");
    let shown = home.run("config show").stdout;
    assert!(shown.contains("retention.claude-code  12 "), "{shown}");
    assert!(shown.contains("retention.openclaw     never "), "{shown}");
    let line = home.run("config show --json").json_lines();
    let line = line.into_iter().find(|line| line["key"] == "retention.claude-code").unwrap();
    assert_eq!((&line["value"], &line["origin"]), (&12.into(), &"file".into()));
    let warned = home.run("doctor").stdout;
    assert!(
        warned.contains("because `retention.claude-code` in the configuration is 12"),
        "{warned}"
    );
    home.run("sync");
    for command in ["status", ""] {
        let said = home.run(command).stdout;
        assert!(said.contains("2 days left, with the 12 days of the configuration"), "{said}");
    }
    assert!(
        home.run("formats").stdout.contains("after 12 days, says file ~/.config/quipu/config.toml")
    );
    home.write(FILE, "[retention]\nclaude-code = -3\n");
    snapshot!(home.run("status"), @r#"
    exit 2
    --- stderr
    error: `retention.claude-code` in [HOME]/.config/quipu/config.toml is -3
    hint: it is a number of days; 0 or "never" if the agent deletes nothing
    "#);
}
