//! A private home, its ledger, the binary that runs there, and the check at the end of every
//! scenario.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::Setting;

/// A temporary folder with a home and a ledger.
#[derive(Debug)]
pub(crate) struct Sandbox {
    quipu: PathBuf,
    folder: tempfile::TempDir,
}

/// The exit code and output of a program.
#[derive(Debug)]
pub(crate) struct Run {
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Run {
        Run {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Run {
    pub(crate) fn of(command: &mut Command) -> Result<Run> {
        let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
        Ok(output.into())
    }

    /// Checks that the command succeeded or printed an error.
    pub(crate) fn check_reported(&self) -> Result<()> {
        match self.code {
            Some(0) => Ok(()),
            Some(2) => {
                // With `--json`, an error is an object.
                let is_error =
                    |line: &str| line.starts_with("error: ") || line.starts_with("{\"error\":");
                let is_reported = self.stderr.lines().any(is_error);
                ensure!(is_reported, "it failed without an error message: {self:?}");
                Ok(())
            }
            _ => bail!("it neither succeeded nor failed with an error: {self:?}"),
        }
    }

    /// Returns whether the program did not start, because its libraries could not be loaded.
    pub(crate) fn is_not_started(&self) -> bool {
        self.code == Some(127)
    }
}

impl Sandbox {
    pub(crate) fn new(setting: &Setting) -> Result<Sandbox> {
        let parent = setting.work.clone().unwrap_or_else(std::env::temp_dir);
        let folder = tempfile::Builder::new()
            .prefix("quipu-torture-")
            .tempdir_in(&parent)
            .with_context(|| format!("cannot create a folder in {}", parent.display()))?;
        let sandbox = Sandbox { quipu: setting.quipu.clone(), folder };
        fs::create_dir(sandbox.home())?;
        fs::create_dir(sandbox.data())?;
        Ok(sandbox)
    }

    /// Returns a path in the folder.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.at("home")
    }

    /// Returns the folder of the ledger.
    pub(crate) fn data(&self) -> PathBuf {
        self.at("data")
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.data().join("ledger.db")
    }

    pub(crate) fn quipu(&self) -> &Path {
        &self.quipu
    }

    /// Returns the binary, with only this home and ledger in its environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.prepare(Command::new(&self.quipu), arguments)
    }

    /// Returns a quipu command that another program starts: its options, a path, then quipu.
    pub(crate) fn command_under(
        &self,
        program: &str,
        options: &[&str],
        path: Option<&Path>,
        arguments: &[&str],
    ) -> Command {
        let mut command = Command::new(program);
        command.args(options).args(path).arg(&self.quipu);
        self.prepare(command, arguments)
    }

    fn prepare(&self, mut command: Command, arguments: &[&str]) -> Command {
        command.args(arguments);
        self.environment(&mut command);
        command
    }

    /// Sets the environment of a command to this home and ledger.
    pub(crate) fn environment(&self, command: &mut Command) {
        let path = std::env::var_os("PATH").unwrap_or_default();
        command
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.home())
            .env("QUIPU_LEDGER", self.ledger())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Run> {
        Run::of(&mut self.command(arguments))
    }

    /// Runs a command with an input.
    pub(crate) fn feed(&self, arguments: &[&str], input: &str) -> Result<Run> {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A command that fails early does not read its input.
            let _ = stdin.write_all(input.as_bytes());
        }
        Ok(child.wait_with_output()?.into())
    }

    /// Runs a command that must succeed, and parses the first line of its JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> Result<Value> {
        let run = self.run(&[arguments, &["--json"]].concat())?;
        ensure!(run.code == Some(0), "`quipu {}` failed: {run:?}", arguments.join(" "));
        let line = run.stdout.lines().next().unwrap_or_default();
        serde_json::from_str(line).with_context(|| format!("not JSON: {run:?}"))
    }

    /// Removes the ledger, as if nothing had been collected.
    pub(crate) fn remove_ledger(&self) -> Result<()> {
        fs::remove_dir_all(self.data())?;
        fs::create_dir(self.data())?;
        Ok(())
    }

    /// Syncs, and checks every promise: the sync succeeds, the file is intact, every source is
    /// restored byte for byte, and each of `lines` complete lines is stored once.
    pub(crate) fn check(&self, lines: u64) -> Result<()> {
        self.json(&["sync"]).context("after the fault")?;
        self.check_without_sync(lines)
    }

    /// Checks the same for a ledger that is up to date.
    pub(crate) fn check_without_sync(&self, lines: u64) -> Result<()> {
        let status = self.json(&["status"])?;
        let records = status["ledger"]["records"].as_u64();
        ensure!(records == Some(lines), "{records:?} records of {lines} lines");
        ensure!(status["ledger"]["unprojected_records"] == 0, "the projection is not up to date");
        self.check_sound()?;
        self.check_restores()
    }

    /// Makes a backup, which checks every page and every stored byte.
    pub(crate) fn check_sound(&self) -> Result<()> {
        let copy = self.at("checked.db");
        self.json(&["backup", "checked.db"]).context("the ledger is damaged")?;
        fs::remove_file(copy)?;
        Ok(())
    }

    pub(crate) fn check_restores(&self) -> Result<()> {
        let to = self.at("restored");
        let _ = fs::remove_dir_all(&to);
        self.json(&["restore", "--all", "--to", "restored"])?;
        let restored = files(&to)?;
        for (folder, format) in [(".claude", "claude-code"), (".openclaw", "openclaw")] {
            let root = self.home().join(folder);
            for (path, bytes) in files(&root)? {
                let found = restored.get(&Path::new(format).join(&path));
                ensure!(found == Some(&bytes), "{} was not restored", path.display());
            }
        }
        fs::remove_dir_all(&to)?;
        Ok(())
    }
}

/// Returns every file below a folder, by relative path.
pub(crate) fn files(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let Ok(entries) = fs::read_dir(&next) else { continue };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(folder)?.to_owned(), fs::read(&path)?);
            }
        }
    }
    Ok(found)
}

/// Copies a folder into an empty one.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to)?;
    for (path, bytes) in files(from)? {
        let target = to.join(path);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(target, bytes)?;
    }
    Ok(())
}

/// Runs a script in its own mount namespace, so that its mounts end with it. Returns `None` if the
/// system does not allow that.
pub(crate) fn in_namespace(sandbox: &Sandbox, script: &str) -> Result<Option<Run>> {
    let allowed = |options: &[&str]| {
        Command::new("unshare")
            .args(options)
            .args(["sh", "-c", "mount -t tmpfs -o size=4m none /mnt"])
            .output()
            .is_ok_and(|output| output.status.success())
    };
    let options: &[&str] = match () {
        () if allowed(&["--mount"]) => &["--mount"],
        () if allowed(&["--mount", "--map-root-user"]) => &["--mount", "--map-root-user"],
        () => return Ok(None),
    };
    let mut command = Command::new("unshare");
    command.args(options).args([OsStr::new("sh"), OsStr::new("-c"), OsStr::new(script)]);
    sandbox.environment(&mut command);
    command.env("QUIPU", sandbox.quipu());
    Ok(Some(Run::of(&mut command)?))
}
