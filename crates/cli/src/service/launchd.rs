//! A launchd agent. Its property list is XML: text is escaped or refused.

use std::ffi::OsStr;

use super::{MARK, Task, Unit};
use crate::error::{CommandError, Result};

/// The agent's name.
pub(crate) const LABEL: &str = "io.github.quipu-ledger.quipu";

/// Keys of an agent that runs only when nothing else needs the CPU or the disk.
const BACKGROUND: &str = "  <key>ProcessType</key>
  <string>Background</string>
  <key>LowPriorityIO</key>
  <true/>
  <key>Nice</key>
  <integer>10</integer>
";

/// Returns the domain of the user.
pub(crate) fn domain() -> String {
    format!("gui/{}", rustix::process::getuid().as_raw())
}

/// Returns the name of the agent in that domain.
pub(crate) fn target() -> String {
    format!("{}/{LABEL}", domain())
}

/// Returns the text of the agent's file.
pub(crate) fn text(unit: &Unit) -> Result<String> {
    let mut words = String::new();
    for word in std::iter::once(unit.program.as_os_str()).chain(unit.arguments.iter().map(|a| &**a))
    {
        words.push_str(&format!("    <string>{}</string>\n", escaped(word)?));
    }
    let mut variables = String::new();
    for (name, value) in &unit.variables {
        let value = escaped(value)?;
        variables.push_str(&format!("    <key>{name}</key>\n    <string>{value}</string>\n"));
    }
    // A server has to answer while other programs work.
    let priority = match unit.task {
        Task::Watch => BACKGROUND,
        Task::Serve => "",
    };
    Ok(format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<!-- {MARK}; run it again to change this. -->
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>{LABEL}</string>
  <key>ProgramArguments</key>
  <array>
{words}  </array>
  <key>EnvironmentVariables</key>
  <dict>
{variables}  </dict>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>ThrottleInterval</key>
  <integer>30</integer>
{priority}  <key>Umask</key>
  <integer>63</integer>
</dict>
</plist>
"#
    ))
}

/// Escapes the text of an element.
fn escaped(text: &OsStr) -> Result<String> {
    let cannot = || {
        let shown = text.to_string_lossy();
        CommandError::new(format!("`{shown}` cannot be written to a launchd agent's file"))
            .hint("the path is not valid UTF-8 or has control characters; use another path")
    };
    let mut escaped = String::new();
    for character in text.to_str().ok_or_else(cannot)?.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\n' | '\r' | '\t' => escaped.push_str(&format!("&#{};", u32::from(character))),
            // XML has no way to write these.
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => return Err(cannot()),
            character => escaped.push(character),
        }
    }
    Ok(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    fn unit(argument: &[u8]) -> Unit {
        Unit {
            program: "/opt/my tools/quipu".into(),
            arguments: vec!["watch".into(), OsStr::from_bytes(argument).into()],
            variables: vec![("CLAUDE_CONFIG_DIR", "/a & b".into())],
            writes_to: "/d".into(),
            task: crate::service::Task::Watch,
        }
    }

    #[test]
    fn odd_paths_stay_text() {
        let text = text(&unit("/50%/<b>&\"q\"'\n]]>ä".as_bytes())).unwrap();
        assert!(text.contains("    <string>/opt/my tools/quipu</string>\n"), "{text}");
        assert!(text.contains("<string>/50%/&lt;b&gt;&amp;\"q\"'&#10;]]&gt;ä</string>"), "{text}");
        assert!(text.contains("<key>CLAUDE_CONFIG_DIR</key>\n    <string>/a &amp; b</string>"));
        assert!(text.contains(MARK));
    }

    #[test]
    fn a_path_that_xml_cannot_hold_is_refused() {
        assert!(text(&unit(b"/a\x01")).is_err());
        assert!(text(&unit(b"/a\xff")).is_err());
    }
}
