//! The names that are never opened: credentials, keys, identities and configuration with secrets.
//!
//! Each format's allow-list is the first barrier; this deny-list is the second, and wins over every
//! format. Two rules, both case-insensitive:
//!
//! - **File names** are denied at any depth, and so are their backups (`openclaw.json.bak.2`,
//!   `.claude.json.backup`). A transcript is never mistaken for one: `openclaw.jsonl` and
//!   `settings-x.jsonl` are sessions of that name.
//! - **Folder names** are denied at any depth, as whole components, except where a person chooses
//!   the name: directly below `agents/` and `projects/` at the top of a root. An OpenClaw agent may
//!   be called `telegram`, and a project folder that only contains the word is not denied.
//!
//! A path with `..` or a NUL byte is denied too: no directory listing contains one, so it is
//! forged.

/// Folders with secrets, or with data that only their own program can read.
const FOLDERS: &[&str] =
    &["credentials", "identity", "devices", "telegram", "whatsapp", ".ssh", ".gnupg", ".aws"];

/// Folders whose direct children are named by people.
const NAMED_BY_PEOPLE: &[&str] = &["agents", "projects"];

/// JSON files with secrets. The name with anything after it (a backup's suffix, JSON5) is denied
/// too, except for the `l` that makes it a `.jsonl`.
const JSON_FILES: &[&str] = &[
    "auth-profiles.json",
    "auth.json",
    "oauth.json",
    ".credentials.json",
    "credentials.json",
    ".claude.json",
    "openclaw.json",
    "clawdbot.json",
    "moltbot.json",
    "moldbot.json",
];

/// Files that are secret under this name, with or without an extension.
const FILES: &[&str] = &[
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".git-credentials",
];

/// Extensions of keys, key stores and environments.
const KEY_EXTENSIONS: &[&str] = &[
    ".key",
    ".pem",
    ".p8",
    ".p12",
    ".pfx",
    ".ppk",
    ".jks",
    ".keystore",
    ".kdbx",
    ".gpg",
    ".asc",
    ".env",
];

/// Beginnings of names that are configuration with secrets if a data extension follows:
/// `settings.local.json`, `client_secret_123.apps.googleusercontent.com.json`, `secrets.prod.yaml`.
const DATA_FILES: &[&str] = &[
    "settings",
    "client_secret",
    "client-secret",
    "service-account",
    "service_account",
    "serviceaccount",
    "secret.",
    "secrets.",
    "secrets-",
    "secrets_",
];

/// Extensions of such data files.
const DATA_EXTENSIONS: &[&str] = &[".json", ".yaml", ".yml", ".toml"];

/// Suffixes that editors and other programs append to backups. A number or date may follow.
const BACKUP_SUFFIXES: &[&str] =
    &[".bak", ".backup", ".old", ".orig", ".save", ".swp", ".tmp", "~"];

/// Returns whether a path, relative to a root and `/`-separated, must never be opened.
pub fn is_denied(path: &[u8]) -> bool {
    if memchr::memchr(0, path).is_some() {
        return true;
    }
    let mut above: Option<&[u8]> = None;
    for (depth, name) in
        path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).enumerate()
    {
        let is_chosen = depth == 1 && above.is_some_and(|above| is_any(above, NAMED_BY_PEOPLE));
        if name == b".." || (!is_chosen && is_any(name, FOLDERS)) || is_secret_file(name) {
            return true;
        }
        above = Some(name);
    }
    false
}

fn is_secret_file(name: &[u8]) -> bool {
    if starts_with(name, ".env") || JSON_FILES.iter().any(|file| is_json_named(name, file)) {
        return true;
    }
    if DATA_FILES.iter().any(|file| starts_with(name, file)) && holds_data(name) {
        return true;
    }
    let is_named = |file: &&str| {
        starts_with(name, file) && matches!(name.get(file.len()), None | Some(b'.' | b'~'))
    };
    if FILES.iter().any(is_named) {
        return true;
    }
    let name = without_backup_suffix(name);
    KEY_EXTENSIONS.iter().any(|extension| ends_with(name, extension))
}

/// Returns true for `file`, alone or with a suffix that does not make it a `.jsonl`.
fn is_json_named(name: &[u8], file: &str) -> bool {
    starts_with(name, file) && !matches!(name.get(file.len()), Some(b'l' | b'L'))
}

/// Returns whether `.json` (not `.jsonl`) or another data extension is in the name.
fn holds_data(name: &[u8]) -> bool {
    memchr::memchr_iter(b'.', name)
        .filter_map(|at| name.get(at..))
        .any(|rest| DATA_EXTENSIONS.iter().any(|extension| is_json_named(rest, extension)))
}

fn without_backup_suffix(name: &[u8]) -> &[u8] {
    // Every suffix begins with one of these two bytes. This check runs for every file of every
    // sync.
    let mut marks = memchr::memchr2_iter(b'.', b'~', name).filter(|at| *at > 0);
    let cut = marks.find(|at| {
        name.get(*at..).is_some_and(|rest| {
            BACKUP_SUFFIXES.iter().any(|suffix| {
                starts_with(rest, suffix)
                    && !rest.get(suffix.len()).is_some_and(u8::is_ascii_alphabetic)
            })
        })
    });
    cut.and_then(|at| name.get(..at)).unwrap_or(name)
}

fn is_any(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()))
}

fn starts_with(name: &[u8], with: &str) -> bool {
    name.get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with.as_bytes()))
}

fn ends_with(name: &[u8], with: &str) -> bool {
    name.len()
        .checked_sub(with.len())
        .and_then(|at| name.get(at..))
        .is_some_and(|tail| tail.eq_ignore_ascii_case(with.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::is_denied;

    #[test]
    fn r8_secrets_are_denied_at_any_depth() {
        for name in [
            "auth-profiles.json",
            "auth-profiles.json.bak",
            "openclaw.json",
            "openclaw.json.bak.4",
            "OpenClaw.JSON",
            "openclaw.json5",
            "clawdbot.json",
            ".credentials.json",
            "credentials.json",
            "credentials.json.bak",
            ".claude.json",
            ".claude.json.backup.1770193116233",
            "settings.json",
            "settings.local.json",
            "settings.json.bak-12",
            "server.key",
            "server.KEY",
            "server.key.bak",
            "server.pem~",
            "x.p12",
            "client_secret.json",
            "client_secret_12.apps.googleusercontent.com.json",
            "service-account.json",
            "service_account.prod.json.bak",
            "secrets.yaml",
            "secret.toml",
            "prod.env",
            "Prod.ENV.bak",
            "x.gpg",
            ".env",
            ".env.local",
            ".envrc",
            "id_rsa",
            "id_ed25519.pub",
            ".netrc",
            "credentials",
            "Credentials",
            "identity",
            "devices",
            "telegram",
            "whatsapp",
            ".ssh",
        ] {
            assert!(is_denied(name.as_bytes()), "{name} at the root");
            assert!(is_denied(format!("agents/main/{name}").as_bytes()), "{name} below an agent");
            assert!(is_denied(format!("agents/main/sessions/{name}").as_bytes()), "{name} deep");
            assert!(is_denied(format!("{name}/x.jsonl").as_bytes()), "below {name}");
            assert!(is_denied(format!("/{name}//").as_bytes()), "{name} with slashes");
        }
    }

    #[test]
    fn transcripts_are_not_denied() {
        for path in [
            "",
            "/",
            "agents/main/sessions/13f7ee8b-4916-4c0c-a7c3-6a9d44685f32.jsonl",
            "agents/telegram/sessions/x.jsonl",
            "agents/identity/sessions/x.jsonl",
            "projects/-home-a-credentials/640a.jsonl",
            "projects/-home-a--env/640a.jsonl",
            "projects/credentials/640a.jsonl",
            "projects/-home-a/640a/tool-results/toolu_x.txt",
            "agents/main/sessions/openclaw.jsonl",
            "agents/main/sessions/openclaw.jsonl.deleted.2026-02-04T10-30-00.000Z",
            "agents/main/sessions/settings-review.jsonl",
            "agents/main/sessions/keyboard.jsonl",
            "agents/main/sessions/secrets.jsonl",
            "agents/main/sessions/service-account.jsonl.deleted.2026-02-04T10-30-00.000Z",
            "agents/main/sessions/prod.env.jsonl",
            "projects/-home-a/640a/tool-results/environment.txt",
            "projects/-home-a/640a/tool-results/secret-santa.txt",
            "agents/main/sessions/x.jsonl.bak-12-1770193116233",
            "agents/main/sessions/telegram-topic-7.jsonl",
            "agents/main/sessions/a.keynote.jsonl",
            "history.jsonl",
        ] {
            assert!(!is_denied(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn a_denied_folder_name_is_allowed_only_where_a_person_chose_it() {
        assert!(is_denied(b"x/agents/telegram/sessions/x.jsonl"));
        assert!(is_denied(b"agents/main/telegram/x.jsonl"));
        assert!(is_denied(b"agents/.env/sessions/x.jsonl"));
    }

    #[test]
    fn nothing_leads_out_of_the_root() {
        assert!(is_denied(b"agents/../x.jsonl"));
        assert!(is_denied(b"agents/main/sessions/x\0.jsonl"));
        assert!(!is_denied(b"agents/main/sessions/..x.jsonl"));
    }

    #[test]
    fn a_path_may_hold_any_bytes() {
        assert!(!is_denied(b"\xff\xfe/\xed\xa0\x80.jsonl"));
        assert!(is_denied(b"\xff/server.key"));
    }
}
