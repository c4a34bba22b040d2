//! Runs programs in a private home and measures time, memory and bytes.
//!
//! Heavy work of the benchmark itself (generating, parsing) also runs in a child: the kernel counts
//! the memory of the parent into a new child's peak, so this process must stay small.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Map, Value};
use wait4::Wait4 as _;

use crate::corpus::Parsed;
use crate::report::note;

/// A private home, a ledger, and the programs that are run on them.
///
/// The folder is removed when this is dropped.
pub(crate) struct Workplace {
    quipu: PathBuf,
    own: PathBuf,
    folder: tempfile::TempDir,
    /// An existing home, which is only read.
    given: Option<PathBuf>,
}

/// The result of a child that ended successfully.
pub(crate) struct Finished {
    pub(crate) wall: Duration,
    /// User and system time together.
    pub(crate) cpu: Duration,
    pub(crate) peak_memory: u64,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// The output of `quipu sync --json`, and the cost of the run.
pub(crate) struct Synced {
    pub(crate) run: Finished,
    pub(crate) sources: u64,
    pub(crate) records_added: u64,
    pub(crate) bytes_read: u64,
    pub(crate) problems: u64,
}

impl Workplace {
    /// Makes an empty home below `work`, or below the system's temporary folder.
    pub(crate) fn new(quipu: Option<&Path>, work: Option<&Path>) -> Result<Self> {
        let own = std::env::current_exe().context("cannot find this program's own file")?;
        let quipu = match quipu {
            Some(path) => path.to_owned(),
            None => own.with_file_name(format!("quipu{}", std::env::consts::EXE_SUFFIX)),
        };
        ensure!(
            quipu.is_file(),
            "no quipu at {}\nhint: build it with `cargo build --release -p quipu`, or name it with --quipu",
            quipu.display()
        );
        // Children run in another folder, so a relative path is resolved here.
        let quipu = fs::canonicalize(&quipu)?;
        let parent = work.map_or_else(std::env::temp_dir, Path::to_owned);
        let folder = tempfile::Builder::new()
            .prefix("quipu-bench-")
            .tempdir_in(&parent)
            .with_context(|| format!("cannot create a folder in {}", parent.display()))?;
        let place = Self { quipu, own, folder, given: None };
        for folder in [place.home(), place.at("data"), place.at("config")] {
            fs::create_dir(folder)?;
        }
        Ok(place)
    }

    /// Uses an existing home. It is only read.
    pub(crate) fn use_home(&mut self, home: &Path) -> Result<()> {
        self.given = Some(fs::canonicalize(home)?);
        Ok(())
    }

    /// Uses an existing home, or else a generated one.
    pub(crate) fn use_or_generate(
        &mut self,
        home: Option<&Path>,
        size: u64,
        seed: u64,
    ) -> Result<()> {
        match home {
            Some(home) => self.use_home(home),
            None => {
                note("generating the home");
                self.generate(size, seed)
            }
        }
    }

    /// Returns the home that replaces the user's.
    pub(crate) fn home(&self) -> PathBuf {
        self.given.clone().unwrap_or_else(|| self.at("home"))
    }

    /// Returns a path next to the home, for other files of a measurement.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the path of the ledger.
    pub(crate) fn ledger(&self) -> PathBuf {
        self.at("ledger").join("ledger.db")
    }

    /// Removes the ledger with all files next to it.
    pub(crate) fn remove_ledger(&self) -> Result<()> {
        let folder = self.at("ledger");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir(&folder)?;
        settle_disk();
        Ok(())
    }

    /// Returns the bytes of the ledger: the database and its write-ahead log.
    pub(crate) fn ledger_bytes(&self) -> Result<u64> {
        let ledger = self.ledger();
        let database = fs::metadata(&ledger)
            .with_context(|| format!("quipu left no ledger at {}", ledger.display()))?
            .len();
        let wal = fs::metadata(self.at("ledger").join("ledger.db-wal")).map_or(0, |log| log.len());
        Ok(database + wal)
    }

    /// Collects the home into a new ledger, and does the work that an import leaves for the next
    /// sync.
    pub(crate) fn import(&self) -> Result<Synced> {
        self.remove_ledger()?;
        note("cold import");
        let import = self.sync()?;
        self.sync()?;
        Ok(import)
    }

    /// Collects the home into the ledger.
    pub(crate) fn sync(&self) -> Result<Synced> {
        let mut command = self.private(&self.quipu);
        command.args(["sync", "--json"]);
        command.env("QUIPU_LEDGER", self.ledger());
        let run = run(&mut command)?;
        let output: Map<String, Value> =
            serde_json::from_slice(&run.stdout).with_context(|| {
                format!(
                    "`quipu sync --json` must print one JSON object, and printed: {}",
                    String::from_utf8_lossy(&run.stdout)
                )
            })?;
        let number = |field: &str| match output.get(field) {
            Some(Value::Array(list)) => Ok(list.len() as u64),
            Some(value) if value.is_u64() => Ok(value.as_u64().unwrap_or_default()),
            _ => bail!("`quipu sync --json` has no number for `{field}`"),
        };
        Ok(Synced {
            sources: number("sources")?,
            records_added: number("records_added")?,
            bytes_read: number("bytes_read")?,
            problems: number("problems")?,
            run,
        })
    }

    /// Searches the files themselves with ripgrep.
    pub(crate) fn ripgrep(&self, program: &Path, arguments: &[&str]) -> Result<Finished> {
        let mut command = self.private(program);
        command.args(["--no-config", "--no-ignore", "--hidden", "--count", "--ignore-case"]);
        run(command.args(arguments).arg("--").arg(self.home()))
    }

    /// Runs quipu on the ledger.
    pub(crate) fn quipu(&self, arguments: &[&str]) -> Result<Finished> {
        run(self.private(&self.quipu).args(arguments).env("QUIPU_LEDGER", self.ledger()))
    }

    /// Returns a quipu command on the ledger, which the caller starts.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.private(&self.quipu);
        command.args(arguments).env("QUIPU_LEDGER", self.ledger());
        command
    }

    /// Runs another program in the private home.
    pub(crate) fn program(&self, program: &Path, arguments: &[&OsStr]) -> Result<Finished> {
        run(self.private(program).args(arguments))
    }

    /// Runs ccusage on the home.
    pub(crate) fn ccusage(&self, program: &Path) -> Result<Finished> {
        run(self.private(program).args(["daily", "--offline", "--json"]))
    }

    /// Lists and stats every file of the home in a separate process.
    pub(crate) fn walk(&self) -> Result<Finished> {
        run(self.private(&self.own).arg("walk").arg(self.home()))
    }

    /// Parses every line of the home in a separate process, on one thread.
    pub(crate) fn parse(&self) -> Result<Parsed> {
        let run = run(self.private(&self.own).arg("parse").arg(self.home()))?;
        Parsed::from_json(&serde_json::from_slice(&run.stdout)?)
    }

    /// Fills the home with generated sessions.
    pub(crate) fn generate(&self, size: u64, seed: u64) -> Result<()> {
        let mut command = self.private(&self.own);
        command.arg("generate").arg("--to").arg(self.home());
        command.args(["--size", &size.to_string(), "--seed", &seed.to_string()]);
        run(&mut command).map(drop)
    }

    /// Runs agentsview on the home with a new store, which is left in `at("agentsview")`.
    pub(crate) fn agentsview(&self, program: &Path) -> Result<Finished> {
        let store = self.at("agentsview");
        if store.exists() {
            fs::remove_dir_all(&store)?;
        }
        fs::create_dir(&store)?;
        settle_disk();
        let mut command = self.private(program);
        command.arg("sync");
        command.env("AGENTSVIEW_NO_DAEMON", "1");
        command.env("AGENTSVIEW_DATA_DIR", &store);
        command.env("DO_NOT_TRACK", "1");
        run(&mut command)
    }

    /// Prepares agentsview's server for agents, on the store of the last [`Workplace::agentsview`].
    pub(crate) fn agentsview_mcp(&self, program: &Path) -> Command {
        let mut command = self.private(program);
        command.arg("mcp");
        command.env("AGENTSVIEW_DATA_DIR", self.at("agentsview"));
        command.env("DO_NOT_TRACK", "1");
        command
    }

    /// Prepares a command that sees the private home, and no file or setting of the user.
    fn private(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear();
        for kept in ["PATH", "LANG", "TMPDIR"] {
            if let Some(value) = std::env::var_os(kept) {
                command.env(kept, value);
            }
        }
        command.env("HOME", self.home());
        command.env("XDG_DATA_HOME", self.at("data"));
        command.env("XDG_CONFIG_HOME", self.at("config"));
        command
    }
}

/// Waits until everything is on disk, so that no timed program waits for earlier writes.
fn settle_disk() {
    rustix::fs::sync();
}

/// Returns the path of `name` on the search path.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Runs a child to its end. A child that fails is an error with the end of its stderr.
fn run(command: &mut Command) -> Result<Finished> {
    let name = command_line(command.get_program(), command.get_args());
    // Files instead of pipes: a child can write any amount while this process waits for it.
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null());
    command.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    let started = Instant::now();
    let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    let ended = child.wait4().with_context(|| format!("cannot wait for {name}"))?;
    let wall = started.elapsed();
    if !ended.status.success() {
        let mut message = String::from_utf8_lossy(&read_back(&mut stderr)?).into_owned();
        message.drain(..message.floor_char_boundary(message.len().saturating_sub(2000)));
        bail!("{name} ended with {}\n{message}", ended.status);
    }
    Ok(Finished {
        wall,
        cpu: ended.rusage.utime + ended.rusage.stime,
        peak_memory: ended.rusage.maxrss,
        stdout: read_back(&mut stdout)?,
        stderr: read_back(&mut stderr)?,
    })
}

fn read_back(file: &mut fs::File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn command_line<'a>(program: &OsStr, arguments: impl Iterator<Item = &'a OsStr>) -> String {
    let mut line = program.to_string_lossy().into_owned();
    for argument in arguments {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

/// Returns the median. For an even number of values it is the lower of the middle two.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the smallest value.
pub(crate) fn best(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Returns a duration in milliseconds.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_best_of_several_values() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.0);
        assert_eq!(best(&[3.0, 1.0, 2.0]), 1.0);
    }

    #[test]
    fn a_child_is_timed_and_a_failing_one_is_quoted() {
        let run_shell = |script: &str| run(Command::new("/bin/sh").args(["-c", script]));
        let finished = run_shell("echo hello").unwrap();
        assert_eq!(finished.stdout, b"hello\n");
        assert!(finished.peak_memory > 0 && finished.wall > Duration::ZERO);
        let error = run_shell("echo no such ledger >&2; exit 3").err().unwrap();
        assert!(error.to_string().contains("no such ledger"), "{error}");
    }
}
