//! Commands that are printed for the user to run.
//!
//! A printed command has to work: names are quoted for a shell, a name that looks like an option
//! comes after `--`, and options that select the ledger are repeated.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::args::Global;
use crate::output::safe;

/// The beginning of every printed command: the program, and the global options that were given as
/// flags. Environment variables stay in effect by themselves.
#[derive(Debug, Clone)]
pub(crate) struct Shell {
    program: String,
}

impl Default for Shell {
    fn default() -> Shell {
        Shell { program: PROGRAM.to_owned() }
    }
}

const PROGRAM: &str = "quipu";

impl Shell {
    /// Returns the beginning of commands with the options of this command line.
    pub(crate) fn new(global: &Global) -> Shell {
        let mut program = PROGRAM.to_owned();
        for (option, path) in [("--config", &global.config), ("--ledger", &global.ledger)] {
            if let Some(path) = path {
                program.push_str(&format!(" {}", self::option(option, path)));
            }
        }
        Shell { program }
    }

    /// Returns a command with a name as its argument, and options.
    pub(crate) fn command(&self, verb: &str, name: &str, options: &[String]) -> String {
        let mut words = vec![self.program.clone(), verb.to_owned()];
        let is_option = name.starts_with('-');
        if !is_option {
            words.push(quote(name));
        }
        words.extend(options.iter().cloned());
        if is_option {
            words.extend(["--".to_owned(), quote(name)]);
        }
        words.join(" ")
    }

    /// Returns a command without a name.
    pub(crate) fn plain(&self, command: &str) -> String {
        format!("{} {command}", self.program)
    }

    /// Adds the same options to the commands in a sentence.
    pub(crate) fn sentence(&self, sentence: &str) -> String {
        // A command that was built here has them already.
        if self.program == PROGRAM || sentence.contains(&format!("`{} ", self.program)) {
            return sentence.to_owned();
        }
        sentence.replace("`quipu ", &format!("`{} ", self.program))
    }
}

/// Returns an option with its value. A value that looks like an option follows `=`.
pub(crate) fn option(option: &str, value: impl AsRef<OsStr>) -> String {
    let value = value.as_ref();
    let between = if value.as_bytes().starts_with(b"-") { '=' } else { ' ' };
    format!("{option}{between}{}", quote(value))
}

/// Returns the argument of `cd` for a folder. A relative path begins with `./`, so that it is
/// neither an option nor a name with a special meaning (`-`, `CDPATH`). A path that ends in a
/// newline gets `/.`, because [`quote`] can write that for every shell.
pub(crate) fn folder(path: impl AsRef<OsStr>) -> String {
    let path = path.as_ref().as_bytes();
    let before: &[u8] = match path {
        [b'/', ..] | b"." | [b'.', b'/', ..] | b".." | [b'.', b'.', b'/', ..] => b"",
        _ => b"./",
    };
    let after: &[u8] = if path.ends_with(b"\n") { b"/." } else { b"" };
    quote(OsStr::from_bytes(&[before, path, after].concat()))
}

/// Quotes a word for a shell.
///
/// Characters that a terminal must not see are escaped for `printf`, which every POSIX shell has. A
/// shell removes newlines at the end of what a command prints, so these are escaped in `$'…'`,
/// which is in POSIX since 2024. There is no single quote inside: an older shell reads another
/// word, but never two.
pub(crate) fn quote(word: impl AsRef<OsStr>) -> String {
    let bytes = word.as_ref().as_bytes();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@%+=,".contains(&byte);
    if let Ok(word) = std::str::from_utf8(bytes) {
        // Some shells expand a leading `=`.
        if !word.is_empty() && !word.starts_with('=') && word.bytes().all(is_plain) {
            return word.to_owned();
        }
        if safe(word) == word {
            return format!("'{}'", word.replace('\'', "'\\''"));
        }
    }
    let end = bytes.iter().rposition(|byte| *byte != b'\n').map_or(0, |last| last + 1);
    let (text, newlines) = bytes.split_at(end);
    let mut quoted = String::new();
    if !text.is_empty() {
        quoted.push_str("\"$(printf '");
        escape(&mut quoted, text);
        quoted.push_str("')\"");
    }
    if !newlines.is_empty() {
        quoted.push_str(&format!("$'{}'", "\\n".repeat(newlines.len())));
    }
    quoted
}

/// Escapes text for the format of `printf`.
fn escape(quoted: &mut String, text: &[u8]) {
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            let mut buffer = [0; 4];
            let written: &str = character.encode_utf8(&mut buffer);
            match character {
                '\\' => quoted.push_str("\\\\"),
                '%' => quoted.push_str("%%"),
                '\n' => quoted.push_str("\\n"),
                '\t' => quoted.push_str("\\t"),
                // A format that begins with `-` is an option.
                '\'' | '-' => octal(quoted, written.as_bytes()),
                character if character != ' ' && safe(written) != written => {
                    octal(quoted, written.as_bytes());
                }
                character => quoted.push(character),
            }
        }
        octal(quoted, chunk.invalid());
    }
}

/// Escapes bytes as three octal digits each.
fn octal(quoted: &mut String, bytes: &[u8]) {
    for byte in bytes {
        quoted.push_str(&format!("\\{byte:03o}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quote("/a/b-c_d.e"), "/a/b-c_d.e");
        assert_eq!(quote("/a b"), "'/a b'");
        assert_eq!(quote("#3391"), "'#3391'");
        assert_eq!(quote("it's; $(rm)"), "'it'\\''s; $(rm)'");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("/a\x1b[31m/it's\n"), r#""$(printf '/a\033[31m/it\047s')"$'\n'"#);
        assert_eq!(quote("/a\u{202e}b"), r#""$(printf '/a\342\200\256b')""#);
        assert_eq!(quote(OsStr::from_bytes(b"a\xffb")), r#""$(printf 'a\377b')""#);
    }

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        let words = [
            "a b",
            "x'; rm -rf y;'",
            "#1",
            "\u{1b}[31m1",
            "--help",
            "--\u{1b}",
            "$HOME `id` \\",
            "\u{1b}\"$HOME\" `id` \\n\\ %s%% \n\t'x'",
            "\u{1b}7\u{7}8",
            "\n",
            "\u{1b}\n\n",
        ];
        for shell in ["sh", "dash", "bash", "zsh"] {
            // Some shells do not know `$'…'` yet.
            let is_old = matches!(shell, "sh" | "dash");
            for word in words.iter().filter(|word| !is_old || !word.ends_with('\n')) {
                let script = format!("printf %s {}", quote(word));
                let Ok(output) = std::process::Command::new(shell).args(["-c", &script]).output()
                else {
                    break;
                };
                assert_eq!(output.stdout, word.as_bytes(), "{shell}: {script}");
            }
        }
    }

    #[test]
    fn every_shell_enters_a_folder() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path().canonicalize().unwrap();
        for name in ["-rf", "-", "a\n", "\n", "\x1b[2J\n\n", "it's\n", "\u{202e}b", "$(ls)"] {
            let path = parent.join(name);
            std::fs::create_dir(&path).unwrap();
            for folder in [path.as_os_str(), OsStr::new(name)] {
                let script = format!("cd {} && pwd -P", super::folder(folder));
                assert!(!script.contains(char::is_control), "{script:?}");
                for shell in ["sh", "dash", "bash", "zsh", "ksh"] {
                    let mut command = std::process::Command::new(shell);
                    let command = command.args(["-c", &script]).current_dir(&parent);
                    let Ok(output) = command.output() else { continue };
                    let expected = [path.as_os_str().as_bytes(), b"\n"].concat();
                    assert_eq!(output.stdout, expected, "{shell}: {script}");
                }
            }
        }
    }

    /// Every shell reads one word, and runs nothing in it.
    #[test]
    fn no_shell_runs_what_was_quoted() {
        let words = [
            "\n'; echo run; '",
            "\x1b' && echo run #",
            "'\x1b\\'; echo run; \\'",
            "\u{202e}$(echo run)`echo run`'$(echo run)'",
            "\x07\\' ; echo run ; '\\",
            "-n\n' -e '",
        ];
        for shell in ["sh", "bash", "dash", "zsh", "ksh", "busybox"] {
            for word in words {
                let script = format!("printf '[%s]' {} end", quote(word));
                let mut command = std::process::Command::new(shell);
                if shell == "busybox" {
                    command.arg("sh");
                }
                let Ok(output) = command.args(["-c", &script]).output() else { break };
                let shown = String::from_utf8_lossy(&output.stdout);
                assert!(output.status.success(), "{shell}: {script}");
                // One word before the last, in every shell.
                assert!(shown.ends_with("[end]"), "{shell}: {script}: {shown}");
                assert_eq!(shown.matches("][").count(), 1, "{shell}: {script}: {shown}");
                assert!(!shown.contains("\nrun\n"), "{shell}: {script}: {shown}");
            }
        }
    }

    #[test]
    fn no_word_is_read_as_an_option() {
        assert_eq!(folder("-rf"), "./-rf");
        assert_eq!(folder("-"), "./-");
        assert_eq!(folder("--x y"), "'./--x y'");
        assert_eq!(folder("shop"), "./shop");
        assert_eq!(folder("~"), "'./~'");
        assert_eq!(folder(".x"), "./.x");
        for plain in ["/-rf", "./-rf", ".", "..", "../a"] {
            assert_eq!(folder(plain), plain);
        }
        assert_eq!(folder("-\x1b"), r#""$(printf './\055\033')""#);
        assert_eq!(option("--entry", "a b"), "--entry 'a b'");
        assert_eq!(option("--entry", "--help"), "--entry=--help");
    }

    #[test]
    fn global_options_are_repeated() {
        let shell = Shell { program: "quipu --ledger 'a b.db'".to_owned() };
        assert_eq!(shell.command("show", "x y", &[]), "quipu --ledger 'a b.db' show 'x y'");
        assert_eq!(
            shell.command("show", "--help", &["--turn 3".to_owned()]),
            "quipu --ledger 'a b.db' show --turn 3 -- --help"
        );
        assert_eq!(shell.sentence("see `quipu status`"), "see `quipu --ledger 'a b.db' status`");
        let made = format!("`{}` shows it", shell.command("show", "a", &[]));
        assert_eq!(shell.sentence(&made), made);
        assert_eq!(Shell::default().sentence("see `quipu status`"), "see `quipu status`");
    }
}
