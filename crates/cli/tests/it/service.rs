//! `quipu service`, with a service manager that only records its arguments.

#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::home::{Home, Run, snapshot};

const UNIT: &str = ".config/systemd/user/quipu.service";

/// Creates a home with a `systemctl` that records its arguments and then runs `then`.
fn home(then: &str) -> Home {
    let home = Home::empty();
    home.write("bin/systemctl", format!("#!/bin/sh\necho \"$*\" >> \"$HOME/asked\"\n{then}\n"));
    fs::set_permissions(home.path("bin/systemctl"), fs::Permissions::from_mode(0o700)).unwrap();
    home
}

fn service(home: &Home, arguments: &str) -> Run {
    let path = home.path("bin");
    home.run_with(&format!("service {arguments}"), &[("PATH", path.to_str().unwrap())])
}

/// Returns the calls of the service manager since the last time.
fn asked(home: &Home) -> Vec<String> {
    let asked = fs::read_to_string(home.path("asked")).unwrap_or_default();
    let _ = fs::remove_file(home.path("asked"));
    asked.lines().map(str::to_owned).collect()
}

fn unit(home: &Home) -> String {
    fs::read_to_string(home.path(UNIT)).unwrap()
}

#[test]
fn the_service_is_installed_and_removed() {
    let home = home("");
    let run = service(&home, "status");
    assert_eq!(run.code, 1);
    snapshot!(run, @"
    exit 1
    --- stderr
    error: the service is not installed: [HOME]/.config/systemd/user/quipu.service does not exist
    hint: `quipu service install` installs it
    ");
    asked(&home);
    snapshot!(service(&home, "install"), @"
    exit 0
    --- stdout
    service  ~/.config/systemd/user/quipu.service
    ledger   ~/.local/share/quipu/ledger.db
    running  yes  starts after each login; `quipu service remove` removes it
    ");
    let steps =
        ["--user daemon-reload", "--user enable quipu.service", "--user restart quipu.service"];
    assert_eq!(asked(&home), steps);
    let first = unit(&home);
    assert!(first.contains(&format!(" \"watch\" \"--ledger\" \"{}\"", home.ledger().display())));
    assert!(home.path(".local/share/quipu").is_dir(), "what it may write to is there");

    // A second installation changes nothing.
    assert_eq!(service(&home, "install").code, 0);
    assert_eq!(unit(&home), first);
    assert_eq!(asked(&home), steps);

    let state = service(&home, "status --json").json();
    assert_eq!((&state["is_installed"], &state["is_running"]), (&true.into(), &true.into()));
    assert_eq!(
        state["path"],
        home.path(UNIT).to_str().unwrap().replace(home.path("").to_str().unwrap(), "[HOME]/")
    );
    asked(&home);
    snapshot!(service(&home, "remove"), @"
    exit 0
    --- stdout
    ~/.config/systemd/user/quipu.service deleted; the ledger is kept
    ");
    assert_eq!(asked(&home), ["--user disable --now quipu.service", "--user daemon-reload"]);
    assert!(!home.path(UNIT).exists());
    snapshot!(service(&home, "remove"), @"
    exit 0
    --- stdout
    the service is not installed
    ");
    let run = service(&home, "status --json");
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("\"is_installed\":false"), "{run}");
}

#[test]
fn the_unit_has_the_effective_settings() {
    let home = home("");
    home.write("my config.toml", "color = \"never\"");
    let mut command = home.command(["--config", "my config.toml", "--ledger", "50% of/it's.db"]);
    command.args(["service", "install", "--print"]).env("CLAUDE_CONFIG_DIR", "a,~/b b");
    let run = home.finish(command);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run}");
    let line = |key: &str| {
        let found = run.stdout.lines().find(|line| line.starts_with(key));
        found.map(|line| line.split_once('=').unwrap().1).unwrap_or_else(|| panic!("{run}"))
    };
    let command = line("ExecStart");
    assert!(command.ends_with(
        "\"watch\" \"--ledger\" \"[HOME]/50%% of/it's.db\" \"--config\" \"[HOME]/my config.toml\""
    ));
    assert_eq!(line("Environment"), "\"CLAUDE_CONFIG_DIR=[HOME]/a,[HOME]/b b\"");
    assert_eq!(line("ReadWritePaths"), "\"[HOME]/50%% of\"");
    assert!(!home.path(UNIT).exists(), "nothing is written");
    assert_eq!(asked(&home), [""; 0]);
}

#[test]
fn a_server_is_kept_running_too() {
    let home = home("");
    assert_eq!(service(&home, "install --serve").code, 0);
    let text = unit(&home);
    assert!(text.contains(&format!(" \"serve\" \"--ledger\" \"{}\"", home.ledger().display())));
    // It answers over the network, keeps its link out of logs, and writes exports to files.
    let lines: Vec<&str> = text.lines().collect();
    let with = ["StandardOutput=null", "PrivateTmp=yes"];
    assert!(with.iter().all(|line| lines.contains(line)), "{text}");
    assert!(lines.contains(&"RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6"), "{text}");
    assert!(!text.contains("IOSchedulingClass"), "{text}");
    // Installed without it, the service only collects again.
    assert_eq!(service(&home, "install").code, 0);
    let text = unit(&home);
    assert!(text.contains(" \"watch\" ") && text.contains("RestrictAddressFamilies=AF_UNIX\n"));
}

#[test]
fn a_file_of_another_program_is_not_changed() {
    let home = home("");
    home.write(UNIT, "[Service]\nExecStart=/bin/true\n");
    for action in ["install", "remove"] {
        let run = service(&home, action);
        assert_eq!(run.code, 2, "{run}");
        assert!(run.stderr.contains("was not written by quipu"), "{run}");
        assert_eq!(unit(&home), "[Service]\nExecStart=/bin/true\n");
    }
    assert_eq!(asked(&home), [""; 0]);
    assert_eq!(service(&home, "install --force").code, 0);
    assert!(unit(&home).contains("quipu service install"));
}

#[test]
fn without_a_service_manager_the_commands_are_printed() {
    let home = home("echo 'Failed to connect to bus: No medium found' >&2; exit 1");
    snapshot!(service(&home, "install"), @"
    exit 2
    --- stdout
    service      ~/.config/systemd/user/quipu.service
    ledger       ~/.local/share/quipu/ledger.db
    running      no  systemctl: Failed to connect to bus: No medium found
    to start it  systemctl --user daemon-reload
                 systemctl --user enable quipu.service
                 systemctl --user restart quipu.service
    --- stderr
    error: the service was not started: systemctl: Failed to connect to bus: No medium found
    hint: the file is installed; run the commands above, or start `quipu watch` yourself
    ");
    assert!(unit(&home).contains("ProtectSystem=strict"));
    // Without an answer of the service manager, `running` is unknown, not `no`.
    snapshot!(service(&home, "status"), @"
    exit 0
    --- stdout
    service  ~/.config/systemd/user/quipu.service
    ledger   ~/.local/share/quipu/ledger.db
    running  unknown  systemctl: Failed to connect to bus: No medium found
    ");
    fs::remove_file(home.path("bin/systemctl")).unwrap();
    let state = service(&home, "status --json").json();
    assert_eq!(
        (&state["is_running"], state["is_installed"].as_bool()),
        (&serde_json::Value::Null, Some(true))
    );
    assert_eq!(state["reason"], "systemctl is not installed");
    let run = service(&home, "install --json");
    assert_eq!(run.code, 2, "{run}");
    let state: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(state["reason"], "systemctl is not installed");
    assert_eq!(state["is_running"], false);
    assert_eq!(state["commands"][0], "systemctl --user daemon-reload");
    assert_eq!(service(&home, "remove").code, 0);
    assert!(!home.path(UNIT).exists());
}

#[test]
fn without_a_sandbox_the_service_runs_with_a_warning() {
    let home = home(
        "case \"$*\" in *restart*) if /bin/grep -q ProtectSystem \"$HOME/.config/systemd/user/quipu.service\"; \
         then echo 'Job for quipu.service failed' >&2; exit 1; fi;; esac",
    );
    snapshot!(service(&home, "install"), @"
    exit 0
    --- stdout
    service  ~/.config/systemd/user/quipu.service
    ledger   ~/.local/share/quipu/ledger.db
    running  yes  starts after each login; `quipu service remove` removes it
    --- stderr
    warning: this system cannot restrict the service to the ledger's folder
    hint: the service runs with all your permissions
    ");
    assert!(!unit(&home).contains("ProtectSystem"));
    assert!(unit(&home).contains("NoNewPrivileges=yes"));
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    let home = home("");
    home.write(".config/systemd", "a file where a folder belongs");
    let run = service(&home, "install");
    assert_eq!(run.code, 2, "{run}");
    assert!(run.stderr.contains("/.config/systemd/user"), "{run}");
}

#[test]
fn a_stopped_service_is_reported() {
    let home = home("case \"$*\" in *is-active*) exit 3;; esac");
    assert_eq!(service(&home, "install").code, 0);
    assert_eq!(service(&home, "status --json").json()["is_running"], false);
}

#[test]
fn json_has_the_text_of_the_file() {
    let home = home("");
    let printed = service(&home, "install --print --json").json();
    assert_eq!(printed["manager"], "systemd");
    assert_eq!(printed["path"], format!("[HOME]/{UNIT}"));
    let text = printed["text"].as_str().unwrap();
    assert_eq!(text, service(&home, "install --print").stdout);
    assert!(!home.path(UNIT).exists());
}
