//! A temporary home with agents' files, and the binary that runs in it.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tempfile::TempDir;

/// Compares the output of a command with an inline snapshot.
macro_rules! snapshot {
    ($run:expr, @$expected:literal) => {
        insta::with_settings!({filters => $crate::home::filters()}, {
            insta::assert_snapshot!($run, @$expected);
        })
    };
}
pub(crate) use snapshot;

/// Returns filters for text that differs from run to run or from machine to machine.
pub(crate) fn filters() -> Vec<(&'static str, &'static str)> {
    vec![
        (r"\d{4}-\d\d-\d\d \d\d:\d\d", "[MINUTE]"),
        (r"\(\d{4}-\d\d-\d\d\)", "([DAY])"),
        (r"[\d.]+ [kM]B, [\d.]+ ×", "[SIZE], [RATIO] ×"),
        (r"(  size     |ledger\.db\n +)\d+ kB", "${1}[SIZE]"),
        (r#""(modified_at|fresh_as_of)":\d+"#, r#""$1":"[TIME]""#),
        (r#""ledger_id":"[0-9a-f-]{36}","bytes":\d+"#, r#""ledger_id":"[ID]","bytes":"[BYTES]""#),
    ]
}

/// Two records on one line, an unreadable line, and a record of an unknown type.
const ODD: &str = r#"{"type":"session","version":3,"id":"odd","timestamp":"2026-02-04T10:30:00.000Z"}
{"role":"user","content":"one","timestamp":1770193116233}{"role":"user","content":"two","timestamp":1770193116234}
}{
{"type":"hologram","id":"h1","parentId":null,"timestamp":"2026-02-04T10:31:00.000Z"}
"#;

/// A home folder that is deleted at the end.
pub(crate) struct Home {
    folder: TempDir,
}

impl Home {
    /// Creates an empty home.
    pub(crate) fn empty() -> Home {
        Home { folder: tempfile::tempdir().unwrap() }
    }

    /// Creates a home with a few files of both agents.
    pub(crate) fn small() -> Home {
        let home = Home::empty();
        let shop = ".claude/projects/-home-alice-shop";
        for name in ["00000001", "00000004"] {
            let id = format!("{name}-0000-4000-8000-00000000000{}", &name[7..]);
            home.fixture(
                &format!("claude-code/projects/-home-alice-shop/{id}.jsonl"),
                &format!("{shop}/{id}.jsonl"),
            );
        }
        let agents = "00000004-0000-4000-8000-000000000004";
        home.fixture(
            &format!("claude-code/projects/-home-alice-shop/{agents}"),
            &format!("{shop}/{agents}"),
        );
        home.fixture("openclaw/agents/main", ".openclaw/agents/main");
        home.write(".openclaw/agents/main/sessions/odd.jsonl", ODD);
        home
    }

    /// Creates a home with every fixture of every format.
    pub(crate) fn full() -> Home {
        let home = Home::empty();
        for format in quipu_transcript::format::FORMATS {
            home.fixture(format.name(), format.roots()[0].home[0]);
        }
        home
    }

    /// Copies a fixture, dated ten days ago.
    pub(crate) fn fixture(&self, from: &str, to: &str) {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../transcript/fixtures");
        copy(&fixtures.join(from), &self.path(to));
    }

    /// Returns a path in the home.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Writes a file and the folders above it.
    pub(crate) fn write(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        make_old(&path);
    }

    /// Returns the path of the default ledger.
    pub(crate) fn ledger(&self) -> PathBuf {
        self.path(".local/share/quipu/ledger.db")
    }

    /// Returns the binary, with only a home in its environment.
    pub(crate) fn command<I: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = I>,
    ) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.folder.path())
            .env("TZ", "UTC")
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs `quipu` with arguments without spaces.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &str) -> Run {
        self.run_with(arguments, &[])
    }

    /// Runs `quipu` with environment variables.
    #[track_caller]
    pub(crate) fn run_with(&self, arguments: &str, variables: &[(&str, &str)]) -> Run {
        let mut command = self.command(arguments.split_whitespace());
        command.envs(variables.iter().copied());
        self.finish(command)
    }

    /// Runs a command to its end.
    #[track_caller]
    pub(crate) fn finish(&self, mut command: Command) -> Run {
        let output = command.output().unwrap();
        self.finished(output)
    }

    /// Runs `quipu` with text on standard input.
    #[track_caller]
    pub(crate) fn feed(&self, arguments: &[&str], input: &str) -> Run {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that ends before it has read everything reports that itself.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        self.finished(child.wait_with_output().unwrap())
    }

    fn finished(&self, output: Output) -> Run {
        let text = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).expect("output is UTF-8");
            text.replace(self.folder.path().to_str().unwrap(), "[HOME]")
        };
        Run {
            code: output.status.code().expect("an exit code, not a signal"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

/// The exit code and output of a command.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Parses every line of stdout as JSON.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        assert_eq!(self.code, 0, "{self}");
        let lines = self.stdout.lines();
        lines.map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    /// Parses the only line of stdout as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let mut lines = self.json_lines();
        assert_eq!(lines.len(), 1, "{self}");
        lines.remove(0)
    }
}

impl Run {
    /// Returns the output of `config show` without default settings.
    pub(crate) fn changed(mut self) -> Run {
        let mut is_default = false;
        let is_changed = |line: &&str| {
            // Further values of a setting are on the lines below the first.
            if !line.starts_with(' ') {
                is_default = line.ends_with("  default");
            }
            !is_default
        };
        let lines = self.stdout.lines().filter(is_changed);
        self.stdout = lines.map(|line| format!("{line}\n")).collect();
        self
    }

    /// Returns the output without ages and times, which depend on when the test runs.
    pub(crate) fn timeless(mut self) -> Run {
        let is_age = |cell: &str| {
            cell == "just now"
                || cell.ends_with(" ago")
                || (cell.len() == 10 && cell.bytes().filter(|byte| *byte == b'-').count() == 2)
        };
        let line = |line: &str| -> String {
            let (before, after) = line.split_once("\"fresh_as_of\":").unwrap_or((line, ""));
            if !after.is_empty() {
                let rest = after.trim_start_matches(|character: char| character.is_ascii_digit());
                return format!("{before}\"fresh_as_of\":0{rest}\n");
            }
            let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
            let cells: Vec<&str> =
                cells.map(|cell| if is_age(cell) { "(age)" } else { cell }).collect();
            format!("{}\n", cells.join("  "))
        };
        self.stdout = self.stdout.lines().map(line).collect();
        self
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "exit {}", self.code)?;
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                write!(f, "--- {name}\n{text}")?;
            }
        }
        Ok(())
    }
}

/// Returns every file below a folder, with its bytes, by relative path.
pub(crate) fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((
                    path.strip_prefix(folder).unwrap().to_owned(),
                    fs::read(&path).unwrap(),
                ));
            }
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        for entry in fs::read_dir(from).unwrap() {
            let name = entry.unwrap().file_name();
            copy(&from.join(&name), &to.join(&name));
        }
        return;
    }
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::write(to, fs::read(from).unwrap()).unwrap();
    make_old(to);
}

/// The seconds of a day.
const DAY: u64 = 24 * 60 * 60;

/// Ten days ago, by the calendar and by the clock: on that day, at half of today's hours. The same for
/// all files, so that none is the oldest by accident.
static LONG_AGO: LazyLock<SystemTime> = LazyLock::new(|| {
    let now = SystemTime::now();
    let today = now.duration_since(UNIX_EPOCH).unwrap().as_secs() % DAY;
    now - Duration::from_secs(10 * DAY + today / 2)
});

fn make_old(path: &Path) {
    File::options().write(true).open(path).unwrap().set_modified(*LONG_AGO).unwrap();
}
