//! A systemd user unit.
//!
//! Values are quoted as `systemd.syntax(7)` and `systemd.service(5)` require: C escapes inside
//! double quotes, `%` doubled everywhere, `$` doubled in arguments.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{MARK, Sandbox, Task, Unit};

/// The unit's name.
pub(crate) const NAME: &str = "quipu.service";

/// Returns the text of the unit file.
pub(crate) fn text(unit: &Unit, sandbox: Sandbox) -> String {
    let program = unit.program.as_os_str().as_bytes();
    // systemd refuses a program with such a name, but accepts the name as an argument of `env`.
    let is_refused = |byte: &u8| byte.is_ascii_control() || b"\"'\\".contains(byte);
    let mut command = match program.iter().any(is_refused) {
        true => format!("/usr/bin/env {}", quoted(program).replace('$', "$$")),
        false => quoted(program),
    };
    for argument in &unit.arguments {
        command.push(' ');
        command.push_str(&quoted(argument.as_bytes()).replace('$', "$$"));
    }
    let mut lines = vec![
        format!("# {MARK}; run it again to change this."),
        "[Unit]".to_owned(),
        "Description=quipu, the ledger of AI-agent sessions".to_owned(),
        "# Restart without limit.".to_owned(),
        "StartLimitIntervalSec=0".to_owned(),
        String::new(),
        "[Service]".to_owned(),
        "Type=exec".to_owned(),
        format!("ExecStart={command}"),
    ];
    for (name, value) in &unit.variables {
        let mut assignment = name.as_bytes().to_vec();
        assignment.push(b'=');
        assignment.extend_from_slice(value.as_bytes());
        lines.push(format!("Environment={}", quoted(&assignment)));
    }
    lines.extend(
        [
            "Restart=on-failure",
            "RestartSec=30",
            "RestartSteps=8",
            "RestartMaxDelaySec=15min",
            "TimeoutStopSec=10",
            "",
        ]
        .map(str::to_owned),
    );
    let task: &[&str] = match unit.task {
        Task::Watch => &[
            "# Run only when nothing else needs the CPU or the disk.",
            "Nice=10",
            "IOSchedulingClass=idle",
            "",
            "# The service writes only to the ledger's folder and uses no network.",
            "RestrictAddressFamilies=AF_UNIX",
        ],
        Task::Serve => &[
            "# The link that signs a browser in is in no log.",
            "StandardOutput=null",
            "",
            "# The service writes only to the ledger's folder and to a folder for temporary files.",
            "PrivateTmp=yes",
            "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6",
        ],
    };
    lines.extend(task.iter().map(|line| (*line).to_owned()));
    lines.extend(
        [
            "NoNewPrivileges=yes",
            "UMask=0077",
            "LockPersonality=yes",
            "RestrictRealtime=yes",
            "RestrictSUIDSGID=yes",
        ]
        .map(str::to_owned),
    );
    if sandbox == Sandbox::Strict
        && let Some(path) = listed(&unit.writes_to)
    {
        lines.push("ProtectSystem=strict".to_owned());
        lines.push("ProtectHome=read-only".to_owned());
        lines.push(format!("ReadWritePaths={path}"));
    }
    lines.extend(["", "[Install]", "WantedBy=default.target", ""].map(str::to_owned));
    lines.join("\n")
}

/// Quotes a value. Everything but printable ASCII is escaped as bytes.
fn quoted(value: &[u8]) -> String {
    let mut text = String::from("\"");
    for &byte in value {
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'%' => text.push_str("%%"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.push('"');
    text
}

/// Quotes a path for a list of paths, where nothing can be escaped. `None` if that is impossible.
fn listed(path: &Path) -> Option<String> {
    let text = path.to_str()?;
    if text.chars().any(char::is_control) || text.ends_with('\\') {
        return None;
    }
    let quote = ['"', '\''].into_iter().find(|quote| !text.contains(*quote))?;
    Some(format!("{quote}{}{quote}", text.replace('%', "%%")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    fn unit(program: &str, argument: &[u8], folder: &str) -> Unit {
        Unit {
            program: program.into(),
            arguments: vec!["watch".into(), OsStr::from_bytes(argument).into()],
            variables: vec![("CLAUDE_CONFIG_DIR", "/a b/$HOME%h".into())],
            writes_to: folder.into(),
            task: Task::Watch,
        }
    }

    #[track_caller]
    fn line<'a>(text: &'a str, key: &str) -> Option<&'a str> {
        let mut found = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let first = found.next();
        assert_eq!(found.next(), None, "{key} occurs twice");
        first
    }

    #[test]
    fn ordinary_paths_are_quoted() {
        let text = text(&unit("/usr/bin/quipu", b"/d/ledger.db", "/d"), Sandbox::Strict);
        assert!(text.starts_with("# Written by `quipu service install`"));
        assert_eq!(line(&text, "ExecStart"), Some("\"/usr/bin/quipu\" \"watch\" \"/d/ledger.db\""));
        assert_eq!(line(&text, "ReadWritePaths"), Some("\"/d\""));
        assert_eq!(line(&text, "ProtectSystem"), Some("strict"));
    }

    #[test]
    fn odd_paths_stay_one_word_each() {
        let odd = b"/a b/50%\"x\"\\y$z'\n\tExecStartPre=evil\xff\xc3\xa4";
        let text = text(&unit("/opt/my tools/quipu%", odd, "/it's 100%"), Sandbox::Strict);
        assert_eq!(
            line(&text, "ExecStart"),
            Some(
                "\"/opt/my tools/quipu%%\" \"watch\" \
                 \"/a b/50%%\\\"x\\\"\\\\y$$z'\\x0a\\x09ExecStartPre=evil\\xff\\xc3\\xa4\""
            )
        );
        assert_eq!(line(&text, "ExecStartPre"), None);
        assert_eq!(line(&text, "Environment"), Some("\"CLAUDE_CONFIG_DIR=/a b/$HOME%%h\""));
        assert_eq!(line(&text, "ReadWritePaths"), Some("\"/it's 100%%\""));
    }

    #[test]
    fn a_program_that_systemd_refuses_is_started_through_env() {
        let text = text(&unit("/it's $5/quipu", b"x", "/d"), Sandbox::Strict);
        let command = "/usr/bin/env \"/it's $$5/quipu\" \"watch\" \"x\"";
        assert_eq!(line(&text, "ExecStart"), Some(command));
    }

    #[test]
    fn a_folder_that_cannot_be_listed_disables_the_protection() {
        for folder in ["/a\nb", "/both \" and '", "/ends with \\"] {
            let text = text(&unit("/q", b"x", folder), Sandbox::Strict);
            assert_eq!(line(&text, "ReadWritePaths"), None, "{folder}");
            assert_eq!(line(&text, "ProtectSystem"), None, "{folder}");
        }
        let text = text(&unit("/q", b"x", "/d"), Sandbox::None);
        assert_eq!(line(&text, "ProtectHome"), None);
        assert_eq!(line(&text, "NoNewPrivileges"), Some("yes"));
    }
}
