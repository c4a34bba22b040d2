//! Completions, in the shells themselves. Elsewhere than on Linux, the shells are other versions or
//! absent.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::home::{Home, Run};

/// Returns whether a shell is installed. Without it the test is skipped; in CI it fails.
fn has(shell: &str) -> bool {
    let found = Command::new(shell).arg("--version").stdout(Stdio::null()).status().is_ok();
    assert!(found || std::env::var_os("CI").is_none(), "{shell} is missing; see .ci/install");
    found
}

/// Runs a script in a shell that finds `quipu`.
fn run(home: &Home, shell: &[&str], script: &str) -> Run {
    let quipu = Path::new(env!("CARGO_BIN_EXE_quipu"));
    let path = format!("{}:{}", quipu.parent().unwrap().display(), std::env::var("PATH").unwrap());
    // The home's own environment, for another program.
    let ours = home.command(["completions"]);
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).arg(script).env_clear().current_dir(home.path(""));
    for (name, value) in ours.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command.env("PATH", path).env("TERM", "xterm").stdin(Stdio::null());
    home.finish(command)
}

fn home() -> Home {
    let home = Home::small();
    home.run("sync -q");
    home
}

#[test]
fn bash_completes_sessions_and_filters() {
    if !has("bash") {
        return;
    }
    let home = home();
    let complete = |words: &[&str]| -> Vec<String> {
        let current = words.last().unwrap();
        let script = format!(
            "source <(quipu completions bash); COMP_WORDS=({}); COMP_CWORD={}; COMP_TYPE=9
             _clap_complete_quipu quipu '{current}' ''; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.iter().map(|word| format!("'{word}' ")).collect::<String>(),
            words.len() - 1,
        );
        let run = run(&home, &["bash", "--norc", "-c"], &script);
        assert_eq!(run.code, 0, "{run}");
        run.stdout.split_whitespace().map(str::to_owned).collect()
    };
    let sessions = complete(&["quipu", "show", ""]);
    assert!(sessions.iter().any(|id| id.starts_with("00000001")), "{sessions:?}");
    assert!(complete(&["quipu", "sho"]).contains(&"show".to_owned()));
    assert_eq!(complete(&["quipu", "search", "ro"]), ["role:"]);
    assert_eq!(complete(&["quipu", "search", "role", ":", "as"]), ["assistant"]);
    assert_eq!(complete(&["quipu", "search", "role", ""]), [""; 0], "bash: `role:`");
    assert!(!complete(&["quipu", "show", ""]).iter().any(|word| word.starts_with('-')));
    assert!(complete(&["quipu", "show", "-"]).contains(&"--full".to_owned()));
    assert!(complete(&["quipu", "sync", ""]).contains(&"--json".to_owned()), "nothing else comes");
    assert_eq!(complete(&["quipu", "sessions", "--since", "last-w"]), ["last-week"]);
    assert!(complete(&["quipu", "problems", "--kind", ""]).contains(&"welded".to_owned()));
    let agents = complete(&["quipu", "sessions", "--agent", ""]);
    assert_eq!(agents, ["claude-code", "main", "openclaw", "openclaw/main"]);
    let projects = complete(&["quipu", "sessions", "--project", ""]);
    assert!(!projects.is_empty());
    assert_eq!(complete(&["quipu", "sessions", "--format", "op"]), ["openclaw"]);
    assert!(complete(&["quipu", "export", "--format", "m"]).contains(&"md".to_owned()));
    assert!(complete(&["quipu", "usage", "bl"]).contains(&"blocks".to_owned()));
}

#[test]
fn fish_completes_with_titles_and_values() {
    if !has("fish") {
        return;
    }
    let home = home();
    let complete = |typed: &str| {
        let script = format!("quipu completions fish | source; complete -C '{typed}'");
        let run = run(&home, &["fish", "--no-config", "-c"], &script);
        assert_eq!(run.code, 0, "{run}");
        run.stdout
    };
    let sessions = complete("quipu show ");
    let line = sessions.lines().find(|line| line.starts_with("00000001")).unwrap();
    assert!(line.contains('\t'), "a title: {line}");
    assert_eq!(complete("quipu search role:as").trim(), "role:assistant");
    assert!(complete("quipu search in:th").contains("in:thinking"));
}

#[test]
fn zsh_completes_with_titles_and_values() {
    if !has("zsh") {
        return;
    }
    let home = home();
    let complete = |typed: &str| {
        // A second zsh, on a pseudo-terminal, completes as for a person. Its `quipu` completes, or
        // prints what would run.
        let script = format!(
            r#"zmodload zsh/zpty
            zpty z zsh -f -i
            zpty -w z 'PS1=; autoload -U compinit; compinit -u -D; source <(quipu completions zsh)'
            zpty -w z 'quipu() {{ if [[ -n $QUIPU_COMPLETE ]]; then command quipu "$@"; else print -r -- "RU""N<$*>"; fi }}; print READ""Y'
            zpty -r z out '*READY*'
            zpty -w z $'{typed}\t'
            zpty -r z out '*RUN<*>*'
            print -r -- "${{${{out#*RUN<}}%%>*}}""#
        );
        let run = run(&home, &["timeout", "60", "zsh", "-f", "-c"], &script);
        assert_eq!(run.code, 0, "{run}");
        run.stdout.trim().to_owned()
    };
    let session = complete("quipu show 00000001");
    assert!(session.starts_with("show 00000001"), "{session}");
    assert_eq!(complete("quipu search role:as"), "search role:assistant");
    assert_eq!(complete("quipu usage bloc"), "usage blocks");
}
