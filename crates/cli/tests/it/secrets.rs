//! No command opens a secret, through any link and with any arguments.

use std::fs;
use std::os::unix::fs::symlink;

use crate::home::{Home, files};

const SESSIONS: &str = ".openclaw/agents/main/sessions";

/// Names that no command may open, each with a line that would be collected.
const SECRETS: [&str; 4] = [
    ".openclaw/agents/main/agent/auth-profiles.json",
    ".openclaw/credentials/oauth.json",
    ".claude/.credentials.json",
    "outside/sessions/diary.jsonl",
];

fn home() -> Home {
    let home = Home::small();
    let line = "{\"role\":\"user\",\"content\":\"canary0001zq\"}\n";
    let header = "{\"type\":\"session\",\"version\":3,\"id\":\"x\",\"cwd\":\"/\",\
                  \"timestamp\":\"2026-11-15T17:59:59.016Z\"}\n";
    for secret in SECRETS {
        home.write(secret, format!("{header}{line}"));
    }
    home.write(
        format!("{SESSIONS}/plain.jsonl"),
        format!("{header}{}", line.replace("canary", "")),
    );
    for (number, secret) in SECRETS[..3].iter().enumerate() {
        let name = |kind: &str| home.path(format!("{SESSIONS}/{kind}{number}.jsonl"));
        fs::hard_link(home.path(secret), name("hard")).unwrap();
        symlink(home.path(secret), name("soft")).unwrap();
    }
    symlink(home.path("outside"), home.path(".openclaw/agents/away")).unwrap();
    symlink(home.path("outside/sessions"), home.path(".claude/projects/-away")).unwrap();
    symlink(home.path(".openclaw/credentials"), home.path(format!("{SESSIONS}/below"))).unwrap();
    home
}

#[test]
fn no_command_shows_or_keeps_a_secret() {
    let home = home();
    let before: Vec<_> = SECRETS.iter().map(|path| fs::read(home.path(path)).unwrap()).collect();
    for command in [
        "sync",
        "import .openclaw",
        "import .openclaw/agents",
        "import .openclaw/agents/main",
        "import .openclaw/agents/main/sessions",
        "list --json",
        "search canary0001zq",
        "search canary0001zq --json",
        "status --json",
        "cursors --json",
        "doctor --deep",
        "notes",
        "resume plain",
        "show plain",
        "tree plain",
        "usage",
        "export --all --to exported",
        "export --all --format openclaw --to back",
        "restore --all --generation all --to restored",
        "rebuild",
        "sync",
        "backup copy.db",
        "restore --all --generation all --to again",
    ] {
        let run = home.run(command);
        let is_asked = command.starts_with("search");
        assert!(is_asked || !run.stdout.contains("canary"), "{command}: {run}");
        assert!(!is_asked || run.code == 1, "{command}: {run}");
    }
    let mut kept = 0;
    for folder in ["exported", "back", "restored", "again"] {
        let Some(folder) = Some(home.path(folder)).filter(|folder| folder.is_dir()) else {
            continue;
        };
        for (path, bytes) in files(&folder) {
            let has_secret = bytes.windows(6).any(|window| window == b"canary");
            assert!(!has_secret, "{}", path.display());
            kept += 1;
        }
    }
    assert!(kept > 2, "texts that are not secrets are kept");
    let after: Vec<_> = SECRETS.iter().map(|path| fs::read(home.path(path)).unwrap()).collect();
    assert_eq!(before, after);
}
